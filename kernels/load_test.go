package kernels_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

func TestLoad(t *testing.T) {
	d := mustLoad(t, folder(base))
	p := &d.Problem
	if d.Name != "product" || d.Dir != "k" || d.License != "Apache-2.0" || d.Description == "" || len(d.Hash) != 64 {
		t.Errorf("definition: %+v", d)
	}
	shape, err := p.Shape("wide")
	if err != nil {
		t.Fatal(err)
	}
	type facts struct {
		Operations, Bytes float64
		Scalars           []float64
		Elements          map[string]int64
	}
	got := facts{Elements: map[string]int64{}}
	if got.Operations, err = p.Operations(shape); err != nil {
		t.Fatal(err)
	}
	if got.Bytes, err = p.Bytes(shape); err != nil {
		t.Fatal(err)
	}
	if got.Scalars, err = p.ScalarValues(shape); err != nil {
		t.Fatal(err)
	}
	for _, b := range p.Buffers {
		if got.Elements[b.Name], err = p.Elements(b, shape); err != nil {
			t.Fatal(err)
		}
	}
	want := facts{
		Operations: 2 * 16 * 256 * 32, Bytes: 4 * (16*32 + 32*256 + 16*256), Scalars: []float64{1.0 / 32},
		Elements: map[string]int64{"A": 16 * 32, "B": 32 * 256, "mask": 16, "C": 16 * 256},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("at shape wide (-want +got):\n%s", diff)
	}
	var data []string
	for _, b := range p.Buffers {
		data = append(data, b.Data.String())
	}
	if diff := cmp.Diff([]string{"uniform(-1,1)", "normal(0,0.5)", "integers(0,1)", "constant(0.25)"}, data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	var tuned []string
	for _, s := range p.ShapesFor(kernels.Tune) {
		tuned = append(tuned, s.Name)
	}
	if diff := cmp.Diff([]string{"64", "wide"}, tuned); diff != "" {
		t.Errorf("tuned shapes (-want +got):\n%s", diff)
	}
	if outs := p.Outputs(); len(outs) != 1 || outs[0].Name != "C" {
		t.Errorf("outputs: %v, want C alone", outs)
	}
	if _, ok := p.Buffer("mask"); !ok {
		t.Error("buffer mask is not found")
	}
	if _, ok := p.Buffer("Mask"); ok {
		t.Error("buffer Mask is found")
	}

	im := d.Implementations[0]
	var genes []string
	for _, g := range im.Parameters {
		genes = append(genes, fmt.Sprintf("%s %v %t %s", g.Name, g.Values, g.Ordinal, g.When))
	}
	if diff := cmp.Diff([]string{
		"TILE [4 8 16 32 64] true ", "ROWS [2 4 6 8] true ", `OPTIMIZE ["-O2" "-O3"] false `, "FAST [false true] false ",
		"SCALE [0.5 1.0 2.0] true ", "THREADS [1 2] true ", "SPLIT [rows columns] false THREADS > 1",
	}, genes); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	if im.Binary.MaxStack == nil || *im.Binary.MaxStack != 4096 || im.Binary.MaxSpill != nil {
		t.Errorf("binary: %+v", im.Binary)
	}
	if b := im.Baseline(); b.Kind != kernels.BaselineGenome || b.Implementation() != im || b.Genome["SCALE"] != 1.0 {
		t.Errorf("baseline: %+v", b)
	}
	if im.Definition() != d {
		t.Error("the implementation does not know its definition")
	}
}

// A large problem has more operations than a 64-bit integer counts.
func TestOperationsDoNotOverflow(t *testing.T) {
	d := mustLoad(t, folder(change(t, `operations = "2*M*N*K"`, `operations = "M*N*K*1000000000000000"`)))
	got, err := d.Problem.Operations(d.Problem.Shapes[0])
	if want := 64 * 64 * 32 * 1e15; err != nil || got != want {
		t.Errorf("operations = %g, %v; want %g", got, err, want)
	}
}

// Conditions that integers alone can express still work.
func TestIntegerExpressions(t *testing.T) {
	d := mustLoad(t, folder(change(t, `operations = "2*M*N*K"`, `operations = "M % 2 == 0 ? 2*M*N*K : 1"`)))
	for i, want := range []float64{2 * 64 * 64 * 32, 2 * 16 * 256 * 32, 1, 1024} {
		if got, err := d.Problem.Operations(d.Problem.Shapes[i]); err != nil || got != want {
			t.Errorf("operations at shape %d = %g, %v; want %g", i, got, err, want)
		}
	}
}

// The place of a fault is marked with a caret in the replacement.
const mark = "‸"

var loadErrors = []struct {
	name     string
	old, new string
	want     string
}{
	// The file as TOML.
	{"syntax", `name = "product"`, `name = ‸product`, `this is not a value: a string needs quotes`},
	{"no value", `name = "product"`, "name =‸\n", `this is not a value: a string needs quotes`},
	{"unterminated string", `license = "Apache-2.0"`, `license = "Apache-2.0‸`, `basic strings cannot have new lines`},
	{"unknown key", `description = "C`, `‸descriptions = "C`, `kernel.toml has no key "descriptions": did you mean description?`},
	{"unknown key in a table", `pipe = "f32"`, "pipe = \"f32\"\n‸colour = 1", `[problem] has no key "colour": there are dims, operations, bytes, pipe, cache, reference, shape, buffer, scalar, tolerance, control, variant, oracle`},
	{"unknown quoted key", `pipe = "f32"`, "pipe = \"f32\"\n‸\"p\\u0069p\" = 1", `[problem] has no key "pip": did you mean pipe?`},
	{"unknown table", "[implementation.binary]", "[‸implementation.libraries]", `[[implementation]] has no key "libraries": there are name, language, like, backend, target, template, entry, flags, threads, include, blocking, start, parameter, constraint, baseline, args, launch, tensor_map, sanitize, binary, profile`},
	{"key twice", `pipe = "f32"`, "pipe = \"f32\"\n‸pipe = \"f64\"", `pipe is already set on line 10: remove one of the two`},
	{"table twice", "[[problem.scalar]]", "[‸problem]\npipe = \"f32\"\n[[problem.scalar]]", `the table problem is already there on line 6: merge the two`},
	{"table and array", "[[problem.scalar]]", "[[problem.tolerance]]\n[[problem.scalar]]", `the table tolerance is already there on line 64: merge the two`},
	{"value as table", "[[problem.scalar]]", "[problem.‸pipe.x]\n[[problem.scalar]]", `pipe is a string on line 10 and cannot be a table as well`},
	{"number out of range", "max_stack = 4096", "max_stack = ‸99999999999999999999", `the number is out of range`},
	{"not UTF-8", `description = "C`, "description = \"‸\xff", `the file is not UTF-8 text`},
	{"wrong type", `license = "Apache-2.0"`, `license = ‸2`, `license is an integer, expected a string`},
	{"date", `license = "Apache-2.0"`, `license = ‸2026-01-01`, `license is a date or time, expected a string`},
	{"array of wrong type", `dims = ["M", "N", "K"]`, `dims = ["M", ‸1, "K"]`, `dims holds an integer, expected strings`},
	{"tables of wrong type", "[[problem.control]]\nkind = \"zeros\"\n\n[[problem.control]]\nkind = \"constant\"\n\n[[problem.control]]\nkind = \"swap\"\nbuffers = [\"A\", \"B\"]\n", "[‸problem.control]\n", `control is a table, expected an array`},
	{"array and tables", "[[problem.scalar]]", "[problem.tolerance.x]\n[[problem.‸dims]]\n[[problem.scalar]]", `dims is already there on line 7 as an array: write [[dims]] there as well, or here another name`},
	{"array of no tables", "[[problem.control]]\nkind = \"zeros\"\n\n[[problem.control]]\nkind = \"constant\"\n\n[[problem.control]]\nkind = \"swap\"\nbuffers = [\"A\", \"B\"]\n", "[[problem.variant]]\nshape = [‸1]\nbackend = \"cpu\"\n[[problem.control]]\nkind = \"zeros\"\n", `shape holds an integer, expected tables`},

	// The head.
	{"no format", "format = 1\n", "‸", `kernel.toml lacks format: add format = 1`},
	{"newer format", "format = 1", "format = ‸2\nnews = true", `format 2 is newer than this evotune, which reads format 1: update evotune`},
	{"unknown format", "format = 1", "format = ‸0", `format 0 is unknown: write format = 1`},
	{"no name", `name = "product"`, "", `kernel.toml lacks name: add name = "my-kernel"`},
	{"bad name", `name = "product"`, `name = ‸"my product"`, `the name "my product" has other characters than a-z, 0-9, - and _: correct it`},
	{"empty description", `"C = alpha A B"`, `‸" "`, `description is empty: write something like "what it computes"`},

	// Dimensions, costs.
	{"no dims", `dims = ["M", "N", "K"]`, "", `[problem] lacks dims: add dims = ["N"]`},
	{"empty dims", `dims = ["M", "N", "K"]`, "dims = ‸[]", `a problem has at least one dimension: write dims = ["N"]`},
	{"dimension twice", `dims = ["M", "N", "K"]`, `dims = ["M", "N", "K", ‸"M"]`, `dimension M: the name is already taken on line 7: choose another`},
	{"dimension is not a name", `dims = ["M", "N", "K"]`, `dims = ["M", "N", "K", ‸"2D"]`, `dimension "2D" cannot be a name in C: use letters, digits and _, not a digit first`},
	{"dimension is a C word", `dims = ["M", "N", "K"]`, `dims = ["M", "N", "K", ‸"int"]`, `dimension "int" is a word of C or C++: choose another`},
	{"dimension is an expression word", `dims = ["M", "N", "K"]`, `dims = ["M", "N", "K", ‸"sum"]`, `dimension: name "sum" is taken: it is a word or function of the expression language; choose another`},
	{"dimension is a limit", `dims = ["M", "N", "K"]`, `dims = ["M", "N", "K", ‸"device_cores"]`, `dimension "device_cores" has the name of a device limit: choose another`},
	{"dimension is ours", `dims = ["M", "N", "K"]`, `dims = ["M", "N", "K", ‸"evotune_x"]`, `dimension "evotune_x": names that begin with evotune_ belong to the generated header: choose another`},
	{"unknown name in operations", `"2*M*N*K"`, `"2*M*‸NN*K"`, `in the expression "2*M*NN*K": unknown name NN; did you mean N?`},
	{"unknown name after an escape", `"2*M*N*K"`, `"2\t*\u004d*‸NN*K"`, `unknown name NN; did you mean N?`},
	{"unknown name in a long string", `"2*M*N*K"`, "\"\"\"\n2 *\n  M*‸NN*K\"\"\"", `unknown name NN; did you mean N?`},
	{"unknown name in a literal string", `"2*M*N*K"`, `'2*M*‸NN*K'`, `in the expression "2*M*NN*K": unknown name NN; did you mean N?`},
	{"syntax of an expression", `"2*M*N*K"`, `"2*M*‸)N*K"`, `unexpected token Bracket(")")`},
	{"operations of another type", `"2*M*N*K"`, `‸"M > N"`, `operations at shape 64: expression "M > N" gives false, expected a number`},
	{"operations negative", `"2*M*N*K"`, `‸"M - 32"`, `operations at shape wide: "M - 32" gives -16, which is negative`},
	{"operations divide by zero", `"2*M*N*K"`, `‸"2*M/(N-64)"`, `operations at shape 64: expression "2*M/(N-64)" gives +Inf: a division by zero or an overflow`},
	{"unknown name in bytes", `"4*(M*K + K*N + M*N)"`, `"4*(M*K + K*N + ‸X*N)"`, `in the expression "4*(M*K + K*N + X*N)": unknown name X; known are K, M, N`},
	{"unknown pipe", `pipe = "f32"`, `pipe = ‸"f23"`, `unknown pipe "f23": did you mean f32? there are f64, f32, f16, bf16, i64, i32, i16, i8, u32, u16, u8, tensor-f64, tensor-tf32, tensor-f16, tensor-bf16, tensor-f8, tensor-i8`},
	{"too many dimensions", `dims = ["M", "N", "K"]`, `dims = ‸["M", "N", "K"` + numbered(`, "D%d"`, 1100) + "]", `1103 dimensions are too many, at most 1024`},
	{"bytes negative", `"4*(M*K + K*N + M*N)"`, `‸"M - 32"`, `bytes at shape wide: "M - 32" gives -16, which is negative`},

	// The reference.
	{"no reference", "[problem.reference]\nsource = \"reference.c\"\nentry = \"reference\"\n", "", `[problem] lacks reference: add a table [problem.reference] with source or python, and entry`},
	{"reference missing", `source = "reference.c"`, `source = ‸"references.c"`, `"references.c": no such file in the folder: did you mean reference.c?`},
	{"reference far away", `source = "reference.c"`, `source = ‸"x/y.c"`, `"x/y.c": no such file in the folder: create it, or correct the name`},
	{"reference escapes", `source = "reference.c"`, `source = ‸"../reference.c"`, `"../reference.c" does not name a file inside the folder: write a path below it, with / between its parts`},
	{"reference is absolute", `source = "reference.c"`, `source = ‸"/etc/passwd"`, `"/etc/passwd" does not name a file inside the folder: write a path below it, with / between its parts`},
	{"no entry of the reference", "source = \"reference.c\"\nentry = \"reference\"\n", "source = \"reference.c\"\n", `[problem.reference] lacks entry: add entry = "reference"`},
	{"no file of the reference", "[problem.reference]\nsource = \"reference.c\"\n", "[‸problem.reference]\n", `[problem.reference] needs exactly one of source = "reference.c" and python = "reference.py"`},
	{"two files of the reference", "[problem.reference]\nsource = \"reference.c\"\n", "[‸problem.reference]\nsource = \"reference.c\"\npython = \"reference.py\"\n", `[problem.reference] needs exactly one of source = "reference.c" and python = "reference.py"`},
	{"reference in Python missing", `source = "reference.c"`, `python = ‸"reference.py"`, `"reference.py": no such file in the folder: did you mean reference.c?`},
	{"no name of a reference in Python", `source = "reference.c"`, `python = ‸""`, `python is empty: write something like "reference.py"`},
	{"unknown library", `source = "reference.c"`, "python = \"reference.c\"\nlibrary = ‸\"jax\"", `unknown library "jax": there are torch, numpy`},
	{"library of a reference in C", `source = "reference.c"`, "source = \"reference.c\"\n‸library = \"numpy\"", `library is for a reference in Python: remove it`},

	// Shapes.
	{"shape lacks a dimension", "{ M = 7, N = 9, K = 5 }", "‸{ M = 7, N = 9 }", `shape odd lacks the dimension K: add K = 1 or the like`},
	{"shape with an unknown dimension", "{ M = 7, N = 9, K = 5 }", "{ M = 7, N = 9, K = 5, ‸L = 1 }", `dims of shape odd has no key "L": there are M, N, K`},
	{"dimension is not an integer", "{ M = 7, N = 9, K = 5 }", "{ M = 7, N = ‸9.5, K = 5 }", `dimension N is a float, expected an integer`},
	{"dimension is negative", "{ M = 7, N = 9, K = 5 }", "{ M = 7, N = ‸-9, K = 5 }", `dimension N is -9, expected 0 to 1099511627776`},
	{"shape twice", `name = "odd"`, `name = ‸"64"`, `shape 64: the name is already taken on line 17: choose another`},
	{"shape with a bad name", `name = "odd"`, `name = ‸"an odd one"`, `shape name "an odd one" has other characters than letters, digits and . _ + -: correct it`},
	{"unknown use", `use = "verify"`, `use = ‸"verfy"`, `unknown use "verfy": did you mean verify? there are tune, verify, sanitize`},
	{"no shape to sanitize", `use = "sanitize"`, `use = "verify"`, `no shape has use = "sanitize": add one`},
	{"empty buffer", "{ M = 7, N = 9, K = 5 }", "{ M = 0, N = 9, K = 5 }", `buffer A at shape odd: axis "M" is 0, expected 1 to 1099511627776`},
	{"too many shapes", "[[problem.shape]]\nname = \"odd\"", strings.Repeat("[[problem.shape]]\n", 1022) + "[[‸problem.shape]]\nname = \"odd\"", `there are 1026 tables [[problem.shape]], at most 1024`},

	// Buffers.
	{"bad dtype", "dtype = \"i8\"", "dtype = ‸\"int8\"", `unknown dtype "int8": there are f64, f32, f16, bf16, e4m3, e5m2, i64, i32, i16, i8, u32, u16, u8`},
	{"bad role", "role = \"inout\"", "role = ‸\"output\"", `unknown role "output": there are in, out, inout`},
	{"buffer twice", `name = "mask"`, `name = ‸"A"`, `buffer A: the name is already taken on line 37: choose another`},
	{"buffer called like a dimension", `name = "mask"`, `name = ‸"K"`, `buffer K: the name is already taken on line 7: choose another`},
	{"buffer with an unknown dimension", `shape = ["M"]`, `shape = ["‸L"]`, `in the expression "L": unknown name L; known are K, M, N`},
	{"buffer without axes", `shape = ["M"]`, `shape = ‸[]`, `buffer mask has no axis: write shape = ["1"] for a single element`},
	{"buffer with half an element", `shape = ["M"]`, `shape = [‸"M/4"]`, `buffer mask at shape odd: expression "M/4" gives 1.75, which is not an integer; round with int(...), floor(...) or ceil(...)`},
	{"buffer too large", `shape = ["M"]`, `shape = [‸"M*1000000", "1000000"]`, `buffer mask at shape 64 has more than 1099511627776 bytes`},
	{"no data", "data = \"integers(0,1)\"", "", `[[problem.buffer]] mask lacks data: add data = "uniform(-1,1)", or normal(mean,std), integers(lo,hi), constant(x)`},
	{"data for an output", `role = "inout"`, `role = "out"`, `buffer C is an output, which holds NaN before every run: remove data`},
	{"data is not a distribution", `"integers(0,1)"`, `‸"ones"`, `data "ones" is not a distribution: write uniform(lo,hi), normal(mean,std), integers(lo,hi), constant(x) or python(FUNCTION)`},
	{"data of a function in C", `"integers(0,1)"`, `‸"python(make)"`, `make is a function of the reference's file, which is not in Python: write python = "reference.py" in [problem.reference]`},
	{"data of no function", `"integers(0,1)"`, `‸"python(1)"`, `python(1): name a function of the reference's file`},
	{"unknown distribution", `"integers(0,1)"`, `"‸integer(0,1)"`, `unknown distribution "integer": did you mean integers?`},
	{"too few numbers", `"integers(0,1)"`, `‸"integers(1)"`, `integers takes 2 numbers, found "1"`},
	{"no number", `"integers(0,1)"`, `‸"integers(0,N)"`, `integers: "N" is not a finite number`},
	{"infinite number", `"normal(0, 0.5)"`, `‸"normal(0, inf)"`, `normal: "inf" is not a finite number`},
	{"fractions in integers", `"integers(0,1)"`, `‸"uniform(0,1)"`, `uniform gives fractions, which i8 cannot hold: use integers(lo,hi) or constant(x)`},
	{"integers beyond the type", `"integers(0,1)"`, `‸"integers(0,200)"`, `integers(0,200): i8 holds the integers from -128 to 127`},
	{"empty uniform", `"uniform(-1,1)"`, `‸"uniform(1,1)"`, `uniform(1,1) is empty: the first number must be the smaller one`},
	{"empty integers", `"integers(0,1)"`, `‸"integers(1,0)"`, `integers(1,0) is empty: the first number must not be the larger one`},
	{"no spread", `"normal(0, 0.5)"`, `‸"normal(0, 0)"`, `normal(0,0): the standard deviation must be above 0`},
	{"too many axes", `shape = ["M"]`, `shape = ‸["M"` + strings.Repeat(`, "1"`, 1024) + "]", `buffer mask has 1025 axes, at most 1024`},
	{"denormals of integers", `data = "integers(0,1)"`, "data = \"integers(0,1)\"\ndenormals = ‸true", `buffer mask: only inputs of a floating-point type can hold denormals: remove denormals`},
	{"tolerance of an input", `data = "integers(0,1)"`, "data = \"integers(0,1)\"\n‸tolerance = 0.1", `buffer mask is an input, and tolerance is for outputs: remove it`},
	{"repeat of an input", `data = "integers(0,1)"`, "data = \"integers(0,1)\"\n‸repeat = 0.1", `buffer mask is an input, and repeat is for outputs: remove it`},
	{"unwritten of an input", `data = "integers(0,1)"`, "data = \"integers(0,1)\"\n‸unwritten = \"nan\"", `buffer mask is an input, and unwritten is for outputs: remove it`},
	{"unwritten of data", `data = "constant(0.25)"`, "data = \"constant(0.25)\"\n‸unwritten = \"nan\"", `buffer C holds data before the launch, and unwritten is for outputs alone: remove it, or write role = "out"`},
	{"tolerance of 1", `data = "constant(0.25)"`, "data = \"constant(0.25)\"\ntolerance = ‸1", `tolerance of C must be a number from 0 to below 1, relative to the output's scale`},
	{"repeat below 0", `data = "constant(0.25)"`, "data = \"constant(0.25)\"\nrepeat = ‸-0.1", `repeat of C must be a number from 0 to below 1, relative to the output's scale`},
	{"repeat on the CPU", `data = "constant(0.25)"`, "data = \"constant(0.25)\"\nrepeat = 1e-3", `buffer C has repeat, which the cpu backend does not have: remove one of the two`},
	{"unwritten on the CPU", "role = \"inout\"\ndata = \"constant(0.25)\"", "role = \"out\"\nunwritten = \"nan\"", `buffer C has unwritten, which the cpu backend does not have: remove one of the two`},
	{"unwritten integers", "dtype = \"f32\"\nshape = [\"M\", \"N\"]\nrole = \"inout\"\ndata = \"constant(0.25)\"", "dtype = \"i8\"\nshape = [\"M\", \"N\"]\nrole = \"out\"\nunwritten = ‸\"nan\"", `buffer C is i8, which has no NaN that could stand for what is not written: remove unwritten`},
	{"unwritten zeros", "role = \"inout\"\ndata = \"constant(0.25)\"", "role = \"out\"\nunwritten = ‸\"zero\"", `unknown unwritten "zero": there are nan`},
	{"domain of an output", "role = \"inout\"\ndata = \"constant(0.25)\"", "role = \"out\"\ndomain = ‸\"[0, 1]\"", `buffer C is an output, whose elements the kernel makes: remove domain`},
	{"domain is not an interval", `data = "normal(0, 0.5)"`, "data = \"normal(0, 0.5)\"\ndomain = ‸\"0 to 1\"", `the domain "0 to 1" of B is not an interval: write "[-1e4, 1e4]", or "(0, 1]" where an end does not belong to it`},
	{"domain beyond the type", `data = "integers(0,1)"`, "data = \"integers(0,1)\"\ndomain = ‸\"[0, 200]\"", `the ends of the domain "[0, 200]" of mask must be numbers that i8 holds, from -128 to 127`},
	{"domain without a number", `data = "integers(0,1)"`, "data = \"integers(0,1)\"\ndomain = ‸\"[0, x]\"", `the ends of the domain "[0, x]" of mask must be numbers that i8 holds, from -128 to 127`},
	{"domain is empty", `data = "normal(0, 0.5)"`, "data = \"normal(0, 0.5)\"\ndomain = ‸\"[1, -1]\"", `the domain of B is empty in f32: put the smaller end first`},
	{"domain without the data", `data = "normal(0, 0.5)"`, "data = \"normal(0, 0.5)\"\ndomain = ‸\"[0, 1]\"", `the domain of B does not hold its data normal(0,0.5): widen it`},
	{"domain without denormals", `data = "normal(0, 0.5)"`, "data = \"constant(1)\"\ndenormals = true\ndomain = ‸\"[0, 1]\"", `the domain of B has no room for denormals around zero: widen it, or remove denormals`},

	// Scalars.
	{"scalar called like a buffer", `name = "alpha"`, `name = ‸"A"`, `scalar A: the name is already taken on line 37: choose another`},
	{"scalar of another type", "dtype = \"f32\"\nvalue", "dtype = ‸\"f16\"\nvalue", `unknown dtype of a scalar "f16": there are f64, f32, i64, i32`},
	{"scalar with an unknown name", `value = "1/K"`, `value = "1/‸D"`, `in the expression "1/D": unknown name D; known are K, M, N`},
	{"scalar divides by zero", `value = "1/K"`, `value = ‸"1/(K-32)"`, `scalar alpha at shape 64: expression "1/(K-32)" gives +Inf: a division by zero or an overflow`},
	{"scalar is not an integer", "dtype = \"f32\"\nvalue = \"1/K\"", "dtype = \"i32\"\nvalue = ‸\"1/K\"", `scalar alpha at shape 64: "1/K" gives 0.03125, which is not of the type i32`},
	{"other values of a scalar", `value = "1/K"`, "value = \"1/K\"\nalso = ‸[1, \"2\"]", `also of scalar alpha must be a list of numbers that f32 holds, such as [0.5, 2]`},
	{"other values are not a list", `value = "1/K"`, "value = \"1/K\"\nalso = ‸1", `also is an integer, expected an array`},

	// Tolerance and controls.
	{"no tolerance", "f32 = 1e-5", "", `[problem.tolerance] lacks f32, the type of output C: add f32 = 1e-5 or what its rounding needs`},
	{"tolerance too large", "f32 = 1e-5", "f32 = ‸1", `the tolerance for f32 must be a number from 0 to below 1, relative to the output's scale`},
	{"tolerance not a number", "f32 = 1e-5", "f32 = ‸nan", `the tolerance for f32 must be a number from 0 to below 1, relative to the output's scale`},
	{"tolerance of unknown type", "f32 = 1e-5", "f32 = 1e-5\n‸f23 = 1", `[problem.tolerance] has no key "f23": did you mean f32?`},
	{"unknown control", `kind = "zeros"`, `kind = ‸"zero"`, `unknown control "zero": did you mean zeros? there are zeros, constant, swap`},
	{"control with buffers", `kind = "zeros"`, "kind = \"zeros\"\nbuffers = ‸[\"A\"]", `only the control swap takes buffers: remove them`},
	{"swap of one", `buffers = ["A", "B"]`, `buffers = ["A"]`, `the control swap needs two inputs: add buffers = ["A", "B"]`},
	{"swap of unknown", `buffers = ["A", "B"]`, `buffers = ["A", ‸"D"]`, `no input is called "D": there are A, B, mask, C`},
	{"swap with itself", `buffers = ["A", "B"]`, `buffers = ["A", ‸"A"]`, `A cannot be swapped with itself: name two inputs`},
	{"swap of two types", `buffers = ["A", "B"]`, `buffers = ["A", ‸"mask"]`, `A is f32 and mask is i8: only inputs of one type can be swapped`},
	{"swap of two sizes", `shape = ["K", "N"]`, `shape = ["K", "N+1"]`, `A and B have the same size in no shape, so that they can never be swapped: add a shape, or remove the control`},

	// Implementations.
	{"unknown backend", `backend = "cpu"`, `backend = ‸"gpu"`, `unknown backend "gpu": did you mean cpu? there are cpu, cuda`},
	{"no target", `target = "native"`, "", `[[implementation]] lacks target: add target = "native"`},
	{"entry is not a name", `entry = "product"`, `entry = ‸"the-product"`, `entry "the-product" cannot be a name in C: use letters, digits and _, not a digit first`},
	{"entry is main", `entry = "product"`, `entry = ‸"main"`, `entry "main" is a word of C or C++: choose another`},
	{"template missing", `template = "tiled.c.tmpl"`, `template = ‸"tiles.c.tmpl"`, `"tiles.c.tmpl": no such file in the folder: did you mean tiled.c.tmpl?`},
	{"template is a folder", `template = "tiled.c.tmpl"`, `template = ‸"."`, `"." does not name a file inside the folder: write a path below it, with / between its parts`},
	{"include missing", `include = ["tile.h"]`, `include = ["tile.h", ‸"tiles.h"]`, `"tiles.h": no such file in the folder: did you mean tile.h?`},
	{"include twice", `include = ["tile.h"]`, `include = ["tile.h", ‸"tile.h"]`, `include "tile.h" is listed twice`},
	{"include of ours", `include = ["tile.h"]`, `include = [‸"evotune_kernel.h"]`, `include "evotune_kernel.h": names that begin with evotune_ belong to generated files: choose another`},
	{"start is not a genome", `blocking = [`, "start = [‸\"TILE\"]\nblocking = [", `start "TILE" is not of the form "TILE=32,UNROLL=4", as campaigns print it`},
	{"start of another parameter", `blocking = [`, "start = ['TILE=4,ROWS=2,OPTIMIZE=\"-O2\",FAST=true,SCALE=1.0,THREADS=1', ‸\"TILES=4\"]\nblocking = [", `start "TILES=4": there is no parameter TILES`},
	{"start with another value", `blocking = [`, "start = [‸\"TILE=5\"]\nblocking = [", `start "TILE=5": 5 is not a value of TILE`},
	{"start without a parameter", `blocking = [`, "start = [‸'TILE=4,ROWS=2,OPTIMIZE=\"-O2\",FAST=true,THREADS=1']\nblocking = [", `gives SCALE no value, so that it is in no space: add SCALE=0.5, say`},
	{"start of nothing", `blocking = [`, "start = [‸\"\"]\nblocking = [", `start "" gives TILE no value`},
	{"bad pattern", `'\[-Wuninitialized\]'`, `‸'[-Wuninitialized'`, "missing closing ]: `[-Wuninitialized`"},
	{"flag does not parse", `"{{.OPTIMIZE}}"`, `‸"{{.OPTIMIZE"`, `flag "{{.OPTIMIZE": unclosed action`},
	{"flag calls an unknown function", `"{{.OPTIMIZE}}"`, `‸"{{optimize}}"`, `flag "{{optimize}}": function "optimize" not defined`},
	{"threads of an unknown name", `threads = "THREADS"`, `threads = "‸THREAD"`, `in the expression "THREAD": unknown name THREAD; did you mean THREADS?`},
	{"threads over dimensions", `threads = "THREADS"`, `threads = "‸M"`, `in the expression "M": unknown name M; known are FAST, OPTIMIZE, ROWS, SCALE, SPLIT, THREADS, TILE`},
	{"launch on the CPU", "[implementation.binary]", "[‸implementation.launch]\ngrid = [\"1\"]\n[implementation.binary]", `the cpu backend calls the entry once and has no launch geometry: remove [implementation.launch]`},
	{"registers on the CPU", "max_stack = 4096", "‸max_registers = 64", `max_registers means nothing to the cpu backend: remove it`},
	{"profile on the CPU", "[implementation.binary]", "[[‸implementation.profile]]\ncounter = \"SM busy\"\nmin = 1\n[implementation.binary]", `profile means nothing to the cpu backend: remove it`},
	{"stack negative", "max_stack = 4096", "max_stack = ‸-1", `max_stack is -1, expected at least 0`},
	{"no implementation", base[strings.Index(base, "[[implementation]]"):], "[implementation]\n", `implementation is a table, expected an array`},
	{"bad name of an implementation", `name = "tiled"`, `name = ‸"the tiled"`, `the name "the tiled" has other characters than letters, digits and . _ + -: correct it`},
	{"no implementation key", base[strings.Index(base, "[[implementation]]"):], "", `kernel.toml lacks implementation: add a table [[implementation]]`},
	{"too many constraints", "[[implementation.constraint]]\nexpr = \"TILE*ROWS <= M*2\"", strings.Repeat("[[implementation.constraint]]\nexpr = \"TILE > 0\"\nwhy = \"x\"\n", 1023) + "[[implementation.constraint]]\nexpr = \"TILE*ROWS <= M*2\"", `there are 1025 tables [[implementation.constraint]], at most 1024`},
	{"constraint without a reason", "why = \"a tile must fit the first cache\"\n", "", `[[implementation.constraint]] lacks why: add why = "what would go wrong"`},

	// Parameters.
	{"parameter twice", `name = "FAST"`, `name = ‸"TILE"`, `parameter TILE: the name is already taken on line 94: choose another`},
	{"parameter called like a dimension", `name = "SCALE"`, `name = ‸"K"`, `parameter K has the name of a dimension: choose another`},
	{"parameter called like a limit", `name = "SCALE"`, `name = ‸"device_cores"`, `parameter device_cores has the name of a device limit: choose another`},
	{"parameter is not a name", `name = "SCALE"`, `name = ‸"TILE-M"`, `parameter "TILE-M": use letters, digits and _, not a digit first`},
	{"parameter is the choice", `name = "SCALE"`, `name = ‸"implementation"`, `parameter "implementation" is the choice among implementations: choose another name`},
	{"parameter is an expression word", `name = "SCALE"`, `name = ‸"max"`, `parameter: name "max" is taken: it is a word or function of the expression language; choose another`},
	{"two domains", `bool = true`, "bool = true\nvalues = [1]", `parameter FAST needs exactly one of values = [...], range = [lo, hi], pow2 = [lo, hi] and bool = true`},
	{"no domain", `bool = true`, "", `parameter FAST needs exactly one of values = [...], range = [lo, hi], pow2 = [lo, hi] and bool = true`},
	{"bool = false", `bool = true`, "bool = ‸false", `write bool = true: the parameter then is false or true`},
	{"no values", `values = [1, 2]`, `values = ‸[]`, `parameter THREADS has no values`},
	{"value twice", `values = [1, 2]`, `values = [1, 2, ‸1]`, `parameter THREADS has the value 1 twice`},
	{"float value twice", `values = [0.5, 1, 2]`, `values = [0.5, 1, ‸1.0]`, `parameter SCALE has the value 1.0 twice`},
	{"mixed values", `values = [1, 2]`, `values = [1, ‸"2"]`, `parameter THREADS mixes an integer with a string: its values must be of one kind`},
	{"values of tables", `values = [1, 2]`, `values = [‸{}]`, `parameter THREADS: a value is a table, expected numbers, strings or booleans`},
	{"value is not a number", `values = [0.5, 1, 2]`, `values = [0.5, ‸inf]`, `parameter SCALE: a value must be a finite number`},
	{"range of too many", "range = [2, 8]\nstep = 2", "range = ‸[0, 4096]", `range of ROWS has more than 4096 values: use a larger step, pow2, or a list of values`},
	{"range of all integers", "range = [2, 8]\nstep = 2", "range = ‸[-9223372036854775808, 9223372036854775807]", `range of ROWS has more than 4096 values: use a larger step, pow2, or a list of values`},
	{"range backwards", "range = [2, 8]", "range = ‸[8, 2]", `range of ROWS is empty: 8 is above 2`},
	{"range of floats", "range = [2, 8]", "range = ‸[2.0, 8.0]", `range of ROWS must be two integers: range = [1, 64]`},
	{"range of three", "range = [2, 8]", "range = ‸[2, 8, 2]", `range of ROWS must be two integers: range = [1, 64]`},
	{"step zero", "step = 2", "step = ‸0", `step of ROWS is 0, expected at least 1`},
	{"step without range", "pow2 = [4, 64]", "pow2 = [4, 64]\n‸step = 2", `step goes with range only: remove it`},
	{"no power of two", "pow2 = [4, 64]", "pow2 = [4, ‸48]", `pow2 of TILE: 48 is not a power of two`},
	{"power of two below one", "pow2 = [4, 64]", "pow2 = [‸0, 64]", `pow2 of TILE: 0 is not a power of two`},
	{"condition on an unknown name", `when = "THREADS > 1"`, `when = "‸THREAD > 1"`, `in the expression "THREAD > 1": unknown name THREAD; did you mean THREADS?`},
	{"condition on itself", `when = "THREADS > 1"`, `when = ‸"SPLIT == 'rows'"`, `the condition of SPLIT names SPLIT itself: it can depend on other parameters only`},
	{"conditions in a circle", "values = [1, 2]", "values = [1, 2]\nwhen = ‸\"SPLIT == 'rows'\"", `parameter THREADS exists only when others exist that depend on it: break the circle`},
	{"a parameter that leads to a circle", `when = "THREADS > 1"`, "when = \"THREADS > 1\"" +
		"\n[[implementation.parameter]]\nname = \"ZA\"\nbool = true\nwhen = \"ZB\"" +
		"\n[[implementation.parameter]]\nname = \"ZB\"\nbool = true\nwhen = ‸\"ZC\"" +
		"\n[[implementation.parameter]]\nname = \"ZC\"\nbool = true\nwhen = \"ZB\"", `parameter ZB exists only when others exist that depend on it: break the circle`},
	{"too many values", `values = [1, 2]`, "values = [1" + numbered(", %d", 4096) + "]", `parameter THREADS has 4097 values, at most 4096`},
	{"no list of values", `values = [1, 2]`, "values = ‸1", `values is an integer, expected an array`},
	{"condition of another type", `when = "THREADS > 1"`, `when = ‸1`, `when is an integer, expected a string`},

	// Constraints.
	{"unknown name in a constraint", `"TILE*ROWS <= M*2"`, `"TILE*‸ROW <= M*2"`, `in the expression "TILE*ROW <= M*2": unknown name ROW; did you mean ROWS?`},
	{"unknown limit in a constraint", `"TILE*ROWS*4 <= device_l1_bytes"`, `"TILE*ROWS*4 <= ‸device_l1_byte"`, `in the expression "TILE*ROWS*4 <= device_l1_byte": unknown name device_l1_byte; did you mean device_l1_bytes?`},
	{"constraint between types", `"TILE*ROWS <= M*2"`, `"TILE ‸> OPTIMIZE"`, `in the expression "TILE > OPTIMIZE": invalid operation: > (mismatched types int and string)`},

	// Baselines.
	{"no baseline", "[implementation.baseline]\ngenome = { TILE = 4, ROWS = 2, OPTIMIZE = \"-O2\", FAST = false, SCALE = 1, THREADS = 1 }", "", `no implementation for the cpu backend has a baseline to measure speedups against: add [implementation.baseline] with a genome, a source or a library`},
	{"two baselines", "[implementation.baseline]", "[‸implementation.baseline]\nlibrary = \"libx.so:f\"", `[implementation.baseline] needs exactly one of genome = {...}, source = "baseline.c" and library = "libname.so.1:symbol"; for GPUs it may have a library, and a genome for where that is not installed`},
	{"baseline with an unknown gene", "THREADS = 1 }", "THREADS = 1, ‸TEAM = 2 }", `the baseline genome has no key "TEAM": there are TILE, ROWS, OPTIMIZE, FAST, SCALE, THREADS, SPLIT`},
	{"baseline with an unknown value", "ROWS = 2,", "ROWS = ‸3,", `the baseline gives ROWS a value that the parameter does not have: it has 2, 4, 6, 8`},
	{"baseline with a value of another type", `OPTIMIZE = "-O2"`, `OPTIMIZE = ‸2`, `the baseline gives OPTIMIZE a value that the parameter does not have: it has "-O2", "-O3"`},
	{"baseline breaks a constraint", "{ TILE = 4, ROWS = 2,", "‸{ TILE = 32, ROWS = 2,", `the baseline genome is not in the space: at shape wide it breaks the constraint TILE*ROWS <= M*2 (a tile is not larger than the matrix)`},
	{"baseline lacks a gene", "{ TILE = 4, ROWS = 2,", "‸{ TILE = 4,", `the baseline genome is not in the space: at shape 64: gene ROWS is missing`},
	{"baseline lacks a conditional gene", "{ TILE = 4, ROWS = 2, OPTIMIZE = \"-O2\", FAST = false, SCALE = 1, THREADS = 1 }", "‸{ TILE = 4, ROWS = 2, OPTIMIZE = \"-O2\", FAST = false, SCALE = 1, THREADS = 2 }", `the baseline genome is not in the space: at shape 64: gene SPLIT is missing`},
	{"baseline has an inactive gene", "{ TILE = 4, ROWS = 2, OPTIMIZE = \"-O2\", FAST = false, SCALE = 1, THREADS = 1 }", "‸{ TILE = 4, ROWS = 2, OPTIMIZE = \"-O2\", FAST = false, SCALE = 1, THREADS = 1, SPLIT = \"rows\" }", `the baseline genome is not in the space: at shape 64: gene SPLIT must not be given`},
	{"baseline library of another form", `genome = { TILE = 4, ROWS = 2, OPTIMIZE = "-O2", FAST = false, SCALE = 1, THREADS = 1 }`, `library = ‸"libblas.so"`, `library "libblas.so" is not of the form "libname.so.1:symbol"`},
	{"baseline source missing", `genome = { TILE = 4, ROWS = 2, OPTIMIZE = "-O2", FAST = false, SCALE = 1, THREADS = 1 }`, `source = ‸"base.c"`, `"base.c": no such file in the folder: create it, or correct the name`},
	{"flags without a source", "[implementation.baseline]", "[implementation.baseline]\n‸flags = [\"-O2\"]", `[implementation.baseline] has flags without a source: remove it, or add source`},
	{"implementation twice", "[implementation.binary]", "[implementation.binary]\nforbid = []\n[[implementation]]\nname = ‸\"tiled\"\nbackend = \"cpu\"\ntarget = \"native\"\ntemplate = \"tiled.c.tmpl\"\nentry = \"product\"\n[[implementation.parameter]]\nname = \"TILE\"\nvalues = [1]\n[implementation.binary]", `implementation tiled is already declared on line 82: choose another name`},
	{"baseline for one backend twice", "[implementation.binary]", "[implementation.binary]\nforbid = []\n[[implementation]]\nname = \"again\"\nbackend = \"cpu\"\ntarget = \"native\"\ntemplate = \"tiled.c.tmpl\"\nentry = \"product\"\n[[implementation.parameter]]\nname = \"TILE\"\nvalues = [1]\n[‸implementation.baseline]\nlibrary = \"libx.so:f\"\n[implementation.binary]", `the baseline for the cpu backend is already declared on line 131: keep one of the two`},
	{"no launch geometry", `backend = "cpu"`, `backend = "cuda"`, `implementation tiled lacks its launch geometry: add [implementation.launch] with grid and block`},
}

// numbered repeats a text with the numbers from 2.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i+2)
	}
	return b.String()
}

// Faults of what definitions have for GPUs, in base with the implementation and the
// variant for them.
func TestLoadErrorsGPU(t *testing.T) {
	whole := base + cuda + variant
	for _, tt := range []struct{ old, new, want string }{
		{`grid = ["int(ceil(M/4))", "N"]`, `grid = ‸["1", "1", "1", "1"]`, `grid has 4 expressions, expected one to three`},
		{`grid = ["int(ceil(M/4))", "N"]` + "\n", "", `[problem.reference.cuda] lacks grid: add grid = ["1"]`},
		{`grid = ["int(ceil(M/4))", "N"]`, `grid = ‸"1"`, `grid is a string, expected an array`},
		{`library = "libcublas.so.12:cublasSgemm"`, "‸source = \"baseline.c\"\nentry = \"plain\"", `a source has no launch geometry: give the cuda backend a baseline with a genome or a library`},
		{`A = "f16"`, `‸X = "f16"`, `dtype of a variant has no key "X": there are A, B, mask, C`},
		{`A = "f16"`, `A = ‸"f17"`, `unknown dtype "f17": did you mean f16? there are f64, f32, f16, bf16, e4m3, e5m2, i64, i32, i16, i8, u32, u16, u8`},
		{`A = "f16"`, `A = ‸16`, `the dtype of A is an integer, expected a string`},
		{`A = "f16"`, `A = ‸"i8"`, `uniform gives fractions, which i8 cannot hold: use integers(lo,hi) or constant(x)`},
		{`dtype = { A = "f16"`, `dtype = ‸{ A = "bf16"`, `a control swaps A and B, which are bf16 and f16 here: only inputs of one type can be swapped`},
		{`cache = "cold"`, `cache = ‸"tepid"`, `unknown cache "tepid": there are warm, cold`},
		{`cache = "cold"`, "cache = \"cold\"\ndomain = { ‸D = \"[0, 1]\" }", `domain of a variant has no key "D": there are A, B, mask, C`},
		{`cache = "cold"`, "cache = \"cold\"\ndomain = { A = ‸1 }", `the domain of A is an integer, expected a string`},
		{`cache = "cold"`, "cache = \"cold\"\ndomain = { A = ‸\"[0, 1]\" }", `the domain of A does not hold its data uniform(-1,1): widen it`},
		{"f16 = 1e-3", "f16 = ‸2", `the tolerance for f16 must be a number from 0 to below 1, relative to the output's scale`},
		{"[problem.variant.tolerance]\nf16 = 1e-3", "[‸problem.variant.tolerance]\nf64 = 1e-3", `[problem.variant.tolerance] lacks f16, the type of output C: add f16 = 1e-5 or what its rounding needs`},
		{"[[problem.variant]]\nbackend = \"cuda\"", "[[‸problem.variant]]", `[[problem.variant]] lacks backend: add backend = "cuda"`},
		{"[[problem.variant]]\nbackend = \"cuda\"", "[[problem.variant]]\nbackend = ‸\"gpu\"", `unknown backend "gpu": did you mean cpu? there are cpu, cuda`},
		{"[[problem.variant]]\nbackend = \"cuda\"\n", "[[problem.variant]]\nbackend = \"cuda\"\n‸dims = []\n", `[[problem.variant]] has no key "dims": there are backend, dtype, domain, operations, bytes, pipe, cache, shape, tolerance`},
		{`{ M = 512, N = 512, K = 256 }`, `‸{ M = 512, N = 512 }`, `shape large lacks the dimension K: add K = 1 or the like`},
		{"name = \"large\"\ndims = { M = 512, N = 512, K = 256 }\nuse = \"tune\"", "name = \"large\"\ndims = { M = 512, N = 512, K = 256 }\nuse = \"verify\"", `no shape has use = "tune": add one`},
		{`source = "reference.cu"` + "\n", "", `[problem.reference.cuda] lacks source: add source = "reference.cu"`},
	} {
		if n := strings.Count(whole, tt.old); n != 1 {
			t.Fatalf("%q is %d times in the definition", tt.old, n)
		}
		text := strings.Replace(whole, tt.old, tt.new, 1)
		before, _, found := strings.Cut(text, mark)
		_, err := kernels.Load(folder(strings.Replace(text, mark, "", 1)), "k")
		var e *kernels.Error
		if !errors.As(err, &e) || e.Msg != tt.want {
			t.Errorf("%s\ngot  %v\nwant %s", tt.new, err, tt.want)
		} else if line, col := strings.Count(before, "\n")+1, len(before)-strings.LastIndex(before, "\n"); found && (e.Line != line || e.Col != col) {
			t.Errorf("%s: at %d:%d, want %d:%d", tt.new, e.Line, e.Col, line, col)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	for _, tt := range loadErrors {
		t.Run(tt.name, func(t *testing.T) {
			text := change(t, tt.old, tt.new)
			line, col := 0, 0
			if before, _, found := strings.Cut(text, mark); found {
				line = strings.Count(before, "\n") + 1
				col = len(before) - strings.LastIndex(before, "\n")
			}
			_, err := kernels.Load(folder(strings.Replace(text, mark, "", 1)), "k")
			if err == nil {
				t.Fatal("it loads")
			}
			if !errors.Is(err, kernels.ErrDefinition) {
				t.Errorf("%v is no ErrDefinition", err)
			}
			t.Log(err)
			var e *kernels.Error
			if !errors.As(err, &e) {
				t.Fatalf("%T is no *Error", err)
			}
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("more than one line: %q", err)
			}
			if line != 0 && (e.Line != line || e.Col != col) {
				t.Errorf("at %d:%d, want %d:%d", e.Line, e.Col, line, col)
			}
			if e.Line < 1 || e.Col < 1 || e.File != filepath.Join("k", "kernel.toml") {
				t.Errorf("no place: %v", err)
			}
			if !strings.Contains(e.Msg, tt.want) {
				t.Errorf("got  %s\nwant %s", e.Msg, tt.want)
			}
		})
	}
}

// Faults of the other files, and of the file system.
func TestLoadFileErrors(t *testing.T) {
	tests := []struct {
		name  string
		alter func(fsys fstest.MapFS)
		want  string
		is    error
	}{
		{"no definition", func(f fstest.MapFS) { delete(f, "k/kernel.toml") }, "k/kernel.toml: file does not exist: a kernel is a folder with a kernel.toml, readable by you", fs.ErrNotExist},
		{"no folder", func(f fstest.MapFS) { clear(f) }, "k/kernel.toml: file does not exist: a kernel is a folder with a kernel.toml, readable by you", fs.ErrNotExist},
		{"definition is a folder", func(f fstest.MapFS) { f["k/kernel.toml"] = &fstest.MapFile{Mode: fs.ModeDir} }, "k/kernel.toml: not a regular file: a kernel is a folder with a kernel.toml, readable by you", kernels.ErrDefinition},
		{"definition too large", func(f fstest.MapFS) { f["k/kernel.toml"].Data = make([]byte, 1<<19) }, "k/kernel.toml: larger than 262144 bytes: a kernel is a folder with a kernel.toml, readable by you", kernels.ErrDefinition},
		{"empty definition", func(f fstest.MapFS) { f["k/kernel.toml"].Data = nil }, "k/kernel.toml:1:1: kernel.toml lacks format: add format = 1", kernels.ErrDefinition},
		{"template is a folder", func(f fstest.MapFS) { f["k/tiled.c.tmpl"] = &fstest.MapFile{Mode: fs.ModeDir} }, `k/kernel.toml:86:12: "tiled.c.tmpl": not a regular file: the file must be readable by you`, kernels.ErrDefinition},
		{"template too large", func(f fstest.MapFS) { f["k/tiled.c.tmpl"].Data = make([]byte, 17<<20) }, `k/kernel.toml:86:12: "tiled.c.tmpl": larger than 16777216 bytes: the file must be readable by you`, kernels.ErrDefinition},
		{"template does not parse", func(f fstest.MapFS) { f["k/tiled.c.tmpl"].Data = []byte("a\nb\n{{if .TILE}}\n") }, `k/tiled.c.tmpl:4: unexpected EOF`, kernels.ErrRender},
		{"template calls an unknown function", func(f fstest.MapFS) { f["k/tiled.c.tmpl"].Data = []byte("a\n{{double .TILE}}\n") }, `k/tiled.c.tmpl:2: function "double" not defined`, kernels.ErrDefinition},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := folder(base)
			tt.alter(fsys)
			_, err := kernels.Load(fsys, "k")
			if err == nil || filepath.ToSlash(err.Error()) != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if !errors.Is(err, tt.is) || !errors.Is(err, kernels.ErrDefinition) {
				t.Errorf("%v is not %v", err, tt.is)
			}
		})
	}
}

// denied refuses to open one file, as a system does without permission: tests
// may run as root, whom nothing is refused.
type denied struct {
	fs.FS
	name string
}

func (d denied) Open(name string) (fs.File, error) {
	if name == d.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

func TestLoadWithoutPermission(t *testing.T) {
	for name, want := range map[string]string{
		"k/kernel.toml":  "k/kernel.toml: permission denied: a kernel is a folder with a kernel.toml, readable by you",
		"k/reference.c":  `k/kernel.toml:13:10: "reference.c": permission denied: the file must be readable by you`,
		"k/tiled.c.tmpl": `k/kernel.toml:86:12: "tiled.c.tmpl": permission denied: the file must be readable by you`,
		"k/tile.h":       `k/kernel.toml:90:12: "tile.h": permission denied: the file must be readable by you`,
	} {
		_, err := kernels.Load(denied{folder(base), name}, "k")
		if err == nil || filepath.ToSlash(err.Error()) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v is no ErrPermission", err)
		}
	}
}

func writeFolder(tb testing.TB, dir string, fsys fstest.MapFS) {
	tb.Helper()
	for name, f := range fsys {
		path := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, "k/")))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			tb.Fatal(err)
		}
	}
}

func TestLoadDir(t *testing.T) {
	dir := t.TempDir()
	writeFolder(t, dir, folder(base))
	d, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d.Dir != dir {
		t.Errorf("Dir = %s, want %s", d.Dir, dir)
	}
	if same := mustLoad(t, folder(base)); same.Hash != d.Hash {
		t.Error("the hash depends on where the folder is")
	}
	if _, err := kernels.LoadDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "\n") {
		t.Errorf("no such folder: %v", err)
	}
	if _, err := kernels.LoadDir(filepath.Join(dir, "tile.h")); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a file as a folder: %v", err)
	}
}

// A symbolic link must not lead out of the folder.
func TestLoadDirStaysInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	writeFolder(t, dir, folder(base))
	secret := filepath.Join(outside, "secret.h")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "tile.h")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "tile.h")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	_, err := kernels.LoadDir(dir)
	want := fmt.Sprintf(`%s:90:12: "tile.h": path escapes from parent: the file must be readable by you`, filepath.Join(dir, "kernel.toml"))
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Every file that matters is part of the hash, and no other.
func TestHash(t *testing.T) {
	before := mustLoad(t, folder(base)).Hash
	for name := range folder(base) {
		fsys := folder(base)
		fsys[name].Data = append(fsys[name].Data, '\n')
		after := mustLoad(t, fsys).Hash
		if used := name != "k/baseline.c" && name != "k/reference.cu"; used != (before != after) {
			t.Errorf("a change of %s changes the hash: %t, want %t", name, before != after, used)
		}
	}
}

// A reference in Python is part of the hash, and its function is found.
func TestPythonReference(t *testing.T) {
	fsys := folder(strings.Replace(base, `source = "reference.c"`, `python = "reference.py"`, 1))
	fsys["k/reference.py"] = &fstest.MapFile{Data: []byte("import numpy\n\ndef reference (A, B):\n    return A @ B\n\n  def inner():\n    pass\n")}
	d := mustLoad(t, fsys)
	if r := d.Problem.Reference; !r.Python || r.File != "reference.py" || r.Library != "" || r.Function("reference") != 3 || r.Function("refer") != 0 || r.Function("inner") != 0 {
		t.Errorf("%+v", r)
	}
	fsys["k/reference.py"].Data = append(fsys["k/reference.py"].Data, '\n')
	if mustLoad(t, fsys).Hash == d.Hash {
		t.Error("a change of the file does not change the hash")
	}
}

// Functions in Python make inputs, whose structure edge-case inputs keep.
func TestPythonInputs(t *testing.T) {
	text := strings.NewReplacer(`source = "reference.c"`, `python = "reference.py"`, `data = "integers(0,1)"`, `data = "python(make_mask)"`).Replace(base)
	load := func(text string) (*kernels.Definition, error) {
		fsys := folder(text)
		fsys["k/reference.py"] = &fstest.MapFile{Data: []byte("def reference(A, B, mask):\n    return A @ B\n\ndef make_mask(M, seed):\n    return [seed % 2] * M\n")}
		return kernels.Load(fsys, "k")
	}
	d, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	mask, _ := d.Problem.Buffer("mask")
	if !mask.Kept() || mask.Data.String() != "python(make_mask)" || mask.Data.Function != "make_mask" {
		t.Errorf("%+v", mask)
	}
	for i, b := range d.Problem.Buffers {
		if b.Name != "mask" {
			continue
		}
		made := []float64{1, 0, 1, 1}
		for _, c := range d.Problem.Further() {
			if got := c.Make(i, 4, 4, 1, made); !slices.Equal(got, made) {
				t.Errorf("%s: %v", c.Name, got)
			}
		}
	}
	// Where a domain is declared, any values in it do.
	if d, err = load(strings.Replace(text, `data = "python(make_mask)"`, "data = \"python(make_mask)\"\ndomain = \"[-3, 5]\"", 1)); err != nil {
		t.Fatal(err)
	}
	mask, _ = d.Problem.Buffer("mask")
	if mask.Kept() {
		t.Errorf("%+v", mask)
	}
	others := 0
	for _, c := range d.Problem.Further() {
		made := []float64{1, 0, 1, 1}
		for _, x := range c.Make(slices.IndexFunc(d.Problem.Buffers, func(b kernels.Buffer) bool { return b.Name == "mask" }), 4, 4, 1, made) {
			if !mask.Domain.Holds(x) {
				t.Errorf("%s: %v", c.Name, x)
			}
			if x != 0 && x != 1 {
				others++
			}
		}
	}
	if others == 0 {
		t.Error("nothing but what Python made is compared")
	}
	all := strings.NewReplacer(`data = "uniform(-1,1)"`, `data = "python(a)"`, `data = "normal(0, 0.5)"`, `data = "python(a)"`).Replace(text)
	if _, err := load(all); err == nil || !strings.Contains(err.Error(), "no input has data that are drawn anew for every launch") {
		t.Error(err)
	}
	dims := regexp.MustCompile(`\bK\b`).ReplaceAllString(text, "seed")
	if _, err := load(dims); err == nil || !strings.Contains(err.Error(), "make_mask gets the seed by the name seed, which a dimension has") {
		t.Error(err)
	}
	if d, err = load(strings.Replace(text, "make_mask", "made_mask", 1)); err != nil {
		t.Fatal(err)
	}
	if got := lint(d, 1); len(got) != 1 || !strings.Contains(got[0], "reference.py does not define made_mask: correct the name") {
		t.Error(got)
	}
}

func TestShapeErrors(t *testing.T) {
	d := mustLoad(t, folder(base))
	for name, want := range map[string]string{
		"wied": `unknown shape "wied": did you mean wide? there are 64, wide, odd, small`,
		"big":  `unknown shape "big": there are 64, wide, odd, small`,
	} {
		_, err := d.Problem.Shape(name)
		if err == nil || err.Error() != want || !errors.Is(err, kernels.ErrUnknownShape) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestSpace(t *testing.T) {
	d := mustLoad(t, folder(base))
	one, err := d.Problem.Shape("64")
	if err != nil {
		t.Fatal(err)
	}
	wide, err := d.Problem.Shape("wide")
	if err != nil {
		t.Fatal(err)
	}
	count := func(limits map[string]any, shapes ...kernels.Shape) int {
		t.Helper()
		s, err := d.Space(d.Implementations, shapes, limits)
		if err != nil {
			t.Fatal(err)
		}
		return int(s.Size())
	}
	// By hand: tiles 4, 8, ..., 64 and rows 2, 4, 6, 8, times 2*2*3 others,
	// times 1 + 2 for the threads and their split.
	tiles := func(most int) (n int) {
		for _, t := range []int{4, 8, 16, 32, 64} {
			for _, r := range []int{2, 4, 6, 8} {
				if t*r <= most {
					n++
				}
			}
		}
		return n * 2 * 2 * 3 * 3
	}
	if got, want := count(nil, one), tiles(128); got != want {
		t.Errorf("shape 64: %d genomes, want %d", got, want)
	}
	if got, want := count(nil, wide), tiles(32); got != want {
		t.Errorf("shape wide: %d genomes, want %d", got, want)
	}
	if got, want := count(nil, one, wide), tiles(32); got != want {
		t.Errorf("both shapes: %d genomes, want %d", got, want)
	}
	if got, want := count(map[string]any{"device_l1_bytes": 64}, one), tiles(16); got != want {
		t.Errorf("a small cache: %d genomes, want %d", got, want)
	}
	if _, err := d.Space(d.Implementations, []kernels.Shape{one}, map[string]any{"device_l1_bytes": 1}); !errors.Is(err, genome.ErrEmpty) {
		t.Errorf("no cache at all: %v, want ErrEmpty", err)
	}
	if _, err := d.Space(d.Implementations, []kernels.Shape{one}, map[string]any{"device_cache": 1}); err == nil {
		t.Error("an unknown limit is accepted")
	}
	if _, err := d.Space(nil, []kernels.Shape{one}, nil); err == nil {
		t.Error("a space without implementations")
	}
	if _, err := d.Space(d.Implementations, nil, nil); err == nil {
		t.Error("a space without shapes")
	}
}

// second is an implementation to add to base.
const second = `
[[implementation]]
name = "plain"
backend = "cpu"
target = "native"
template = "tiled.c.tmpl"
entry = "product"
include = ["tile.h"]
[[implementation.parameter]]
name = "TILE"
values = [4]
[[implementation.parameter]]
name = "ROWS"
values = [1, 2]
[[implementation.parameter]]
name = "THREADS"
values = [1]
`

func TestTwoImplementations(t *testing.T) {
	d := mustLoad(t, folder(base+second))
	shape := d.Problem.ShapesFor(kernels.Tune)[0]
	space, err := d.Space(d.Implementations, []kernels.Shape{shape}, nil)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := d.Space(d.Implementations[1:], []kernels.Shape{shape}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := space.FromMap(map[string]any{"implementation": "plain", "TILE": 4, "ROWS": 2, "THREADS": 1})
	if err != nil {
		t.Fatal(err)
	}
	im := d.Implementation(g, d.Implementations)
	if im != d.Implementations[1] {
		t.Fatalf("%s chooses %v", g, im)
	}
	fromUnion, err := im.Render(g)
	if err != nil {
		t.Fatal(err)
	}
	h, err := alone.FromMap(map[string]any{"TILE": 4, "ROWS": 2, "THREADS": 1})
	if err != nil {
		t.Fatal(err)
	}
	fromOne, err := d.Implementation(h, d.Implementations[1:]).Render(h)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromOne.Hash, fromUnion.Hash); diff != "" {
		t.Errorf("a candidate depends on how many implementations are searched:\n%s\n%s", fromOne.Source, fromUnion.Source)
	}
	// The baseline is the problem's, whichever implementation declares it.
	if b := im.Baseline(); b == nil || b.Implementation() != d.Implementations[0] {
		t.Errorf("baseline: %+v", b)
	}
	if d.Implementation(genome.Genome{}, d.Implementations) != nil {
		t.Error("no genome chooses an implementation")
	}
}

// Deep nesting is an error, or nothing; it never ends the process.
func TestNesting(t *testing.T) {
	const deep = 20000
	for _, text := range []string{
		"x = " + strings.Repeat("[", deep),
		"x = " + strings.Repeat("[", deep) + strings.Repeat("]", deep),
		"x = " + strings.Repeat("{x=", deep),
		strings.Repeat("x.", deep) + "x = 1",
		"[" + strings.Repeat("x.", deep) + "x]",
		change(t, `"2*M*N*K"`, `"`+strings.Repeat("(", deep)+`"`),
	} {
		if _, err := kernels.Load(folder(text), "k"); !errors.Is(err, kernels.ErrDefinition) || len(err.Error()) > 1000 {
			t.Errorf("%.40s...: %.200v", text, err)
		}
	}
	fsys := folder(base)
	fsys["k/tiled.c.tmpl"].Data = []byte("{{" + strings.Repeat("(", deep))
	if _, err := kernels.Load(fsys, "k"); !errors.Is(err, kernels.ErrDefinition) {
		t.Error(err)
	}
}
