package draft_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/kernels"
)

// scaledGiven is what a source that scales a row does not say.
const scaledGiven = `{
 "dims": ["T", "D"],
 "reference": {"source": "reference.c", "entry": "ref"},
 "files": {"reference.c": "#include <stdint.h>\nvoid ref(int64_t T, int64_t D, const double *x, double *o, double by) { for (int64_t i = 0; i < T*D; i++) o[i] = by*x[i]; }\n"},
 "shapes": [{"name": "big", "use": "tune", "dims": {"T": 512, "D": 4096}}],
 "buffers": [{"name": "x", "dtype": "f32", "shape": ["T", "D"], "role": "in"}, {"name": "o", "dtype": "f32", "shape": ["T*D"], "role": "out"}],
 "scalars": [{"name": "by", "dtype": "f32", "value": "1.5"}],
 "parameters": [{"name": "STEP", "values": [1, 2, 4]}, {"name": "FAST", "values": [true, false]}],
 "constraints": [{"expr": "STEP > 1 or not FAST", "why": "as one does"}]
}`

// given makes a folder of a source and of what is given, in which replace, pairs of
// texts, are replaced.
func given(t *testing.T, file, text string, replace ...string) (string, *draft.Draft, error) {
	t.Helper()
	return givenFiles(t, file, map[string]string{file: text}, replace...)
}

func givenFiles(t *testing.T, file string, files map[string]string, replace ...string) (string, *draft.Draft, error) {
	t.Helper()
	temp := t.TempDir()
	source, dir := filepath.Join(temp, file), filepath.Join(temp, "made")
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(temp, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(scaledGiven, replace[i]) {
			t.Fatalf("what is given has no %q", replace[i])
		}
	}
	g, err := draft.ParseGiven([]byte("\ufeff" + strings.NewReplacer(replace...).Replace(scaledGiven)))
	if err != nil {
		t.Fatal(err)
	}
	d, err := draft.From(dir, "made", source, "", g)
	return dir, d, err
}

const scaled = "void scale(float *o, const float *x, int T, int D, float by)\n{\n\tfor (int i = 0; i < T*D; i += STEP * FAST) o[i] = by*x[i];\n}\n"

func TestGiven(t *testing.T) {
	for _, c := range []struct{ name, file, source, want string }{
		{"macros before the source", "k.c", scaled, "#define STEP {{.STEP}}\n#define FAST {{if .FAST}}1{{else}}0{{end}}\nstatic void scale("},
		{"a macro of the source", "k.c", "#define STEP 8 // usual\n" + scaled, "#define STEP {{.STEP}} // usual\n"},
		{"a guarded macro", "k.c", "#ifndef STEP\n#define STEP\n#endif\n" + scaled, "#ifndef STEP\n#define STEP {{.STEP}}\n#endif\n"},
		{"a constant", "k.c", "static const int STEP = 2;\n" + scaled, "static const int STEP = {{.STEP}};\n"},
		{"a template", "k.c", strings.ReplaceAll(scaled, "STEP", "{{if .FAST}}{{.STEP}}{{end}}"), "i += {{if .FAST}}{{.STEP}}{{end}} * FAST"},
		{"the order of arguments", "k.c", scaled, "void run_made(int64_t T, int64_t D, const float *x, float *o, float by)\n{\n\tscale((float *)o, (float *)x, T, D, by);\n}\n"},
		{"an alias", "k.c", strings.NewReplacer("int T", "int len", "T*D", "len*D").Replace(scaled), "\tscale((float *)o, (float *)x, T, D, by);\n"},
		{"a result that is the output", "k.c", strings.Replace(strings.Replace(scaled, "void", "float", 1), "float *o, ", "", 1), "\to[0] = scale((float *)x, T, D, by);\n"},
		{"a result", "k.c", strings.Replace(strings.Replace(scaled, "void", "extern \"C\" float", 1), "by*x[i];\n", "by*x[i];\n\treturn 0;\n", 1), "static float scale("},
	} {
		t.Run(c.name, func(t *testing.T) {
			var replace []string
			if strings.Contains(c.source, "len") {
				replace = []string{`"scalars"`, `"aliases": {"len": "T"}, "scalars"`}
			}
			dir, d, err := given(t, c.file, c.source, replace...)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "kernel.c.tmpl"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), c.want) {
				t.Errorf("the template lacks %q:\n%s", c.want, text)
			}
			if len(d.Missing) != 0 {
				t.Errorf("left to fill in: %v", d.Missing)
			}
		})
	}
}

// What has a default is made, and the draft says so.
func TestGivenDefaults(t *testing.T) {
	dir, d, err := given(t, "k.c", scaled)
	if err != nil {
		t.Fatal(err)
	}
	def, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, im := &def.Problem, def.Implementations[0]
	if got := im.Baseline().Genome; got["STEP"] != int64(1) || got["FAST"] != false {
		t.Errorf("the baseline is %v: the first genome that the constraint allows has STEP 1 and not FAST", got)
	}
	if p.OperationsExpr != "" || p.Pipe != "" || p.BytesExpr != "4*(T*D + (T*D))" {
		t.Errorf("operations %q, pipe %q, bytes %q", p.OperationsExpr, p.Pipe, p.BytesExpr)
	}
	for use, want := range map[kernels.Use]map[string]int64{kernels.Verify: {"T": 131, "D": 203}, kernels.Sanitize: {"T": 139, "D": 149}} {
		s := p.ShapesFor(use)
		if len(s) != 1 || s[0].Dims["T"] != want["T"] || s[0].Dims["D"] != want["D"] {
			t.Errorf("shapes to %s: %v, want %v", use, s, want)
		}
	}
	var said []string
	for _, f := range d.Taken {
		said = append(said, f.Msg)
	}
	for _, want := range []string{"no operations", "bytes = ", "data = \"normal(0,1)\": what x is filled with", "f32 = 1e-5", "the first valid values", "for the sanitizers", "-O3"} {
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("the draft does not say %q:\n%s", want, strings.Join(said, "\n"))
		}
	}
}

// A kernel that computes whole tiles alone gets made shapes of whole tiles.
func TestGivenShapesMeetConstraints(t *testing.T) {
	dir, _, err := given(t, "k.c", scaled, `"constraints": [`, `"constraints": [{"expr": "D % 64 == 0", "why": "whole tiles"}, `)
	if err != nil {
		t.Fatal(err)
	}
	def, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range def.Problem.Shapes {
		if s.Dims["D"]%64 != 0 {
			t.Errorf("shape %s has D = %d", s.Name, s.Dims["D"])
		}
	}
}

// A shape for the sanitizers is one that the given shapes to verify show to be possible.
func TestGivenShapesLikeVerified(t *testing.T) {
	for _, c := range []struct{ verify, want string }{
		{`{"T": 37, "D": 96}`, "{ T = 37, D = 96 }"},           // small enough
		{`{"T": 1048576, "D": 96}`, "{ T = 512, D = 128 }"},    // D is a multiple of 32, T of 512
		{`{"T": 1048577, "D": 12288}`, "{ T = 9, D = 4096 }"},  // of 4096
		{`{"T": 1048577, "D": 12289}`, "{ T = 139, D = 149 }"}, // free
	} {
		dir, _, err := given(t, "k.c", scaled, `"dims": {"T": 512, "D": 4096}}`, `"dims": {"T": 512, "D": 4096}}, {"name": "v", "use": "verify", "dims": `+c.verify+`}`)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "kernel.toml"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "name = \"sanitize\"\ndims = "+c.want+"\n") {
			t.Errorf("verified %s: no %s in\n%s", c.verify, c.want, text)
		}
	}
}

// Types of the source are those that are given: the same ones, or others of the same size that its pointers are cast to.
func TestGivenTypes(t *testing.T) {
	x := func(dtype string) []string {
		return []string{`"name": "x", "dtype": "f32", "shape": ["T", "D"], "role": "in"`, `"name": "x", "dtype": "` + dtype + `", "shape": ["T", "D"], "role": "in", "data": "constant(1)"`}
	}
	cuda := []string{`"parameters"`, `"grid": ["ceil(T/STEP)"], "block": ["STEP"], "parameters"`}
	for _, c := range []struct{ file, ctype, dtype, want string }{
		{"k.c", "unsigned", "u32", "const uint32_t *x, float *o, float by)\n{\n\tscale((float *)o, (unsigned *)x, "},
		{"k.c", "uint32_t", "i32", "const int32_t *x, float *o, float by)\n{\n\tscale((float *)o, (uint32_t *)x, "},
		{"k.c", "uint16_t", "bf16", "const evotune_bf16 *x, float *o, float by)\n{\n\tscale((float *)o, (uint16_t *)x, "},
		{"k.c", "short", "i16", "const int16_t *x, float *o, float by)\n{\n\tscale((float *)o, (short *)x, "},
		{"k.c", "void", "u8", "const uint8_t *x, float *o, float by)\n{\n\tscale((float *)o, (void *)x, "},
		{"k.cu", "__half2", "f16", "const __half *x, float *o, float by)\n{\n\tscale((float *)o, (__half2 *)x, "},
		{"k.cu", "uint16_t", "u16", "const uint16_t *x, float *o, float by)\n{\n\tscale((float *)o, (uint16_t *)x, "},
		{"k.c", "unsigned", "f64", "!k.c:1: x of scale points to unsigned, and is given as f64: correct one of the two"},
		{"k.c", "uint16_t", "u8", "!k.c:1: x of scale points to uint16_t, and is given as u8: correct one of the two"},
	} {
		source, replace := strings.Replace(scaled, "const float *x", "const "+c.ctype+" *x", 1), x(c.dtype)
		if c.file == "k.cu" {
			source, replace = "__global__ "+source, append(replace, cuda...)
		}
		dir, _, err := given(t, c.file, source, replace...)
		want, refused := strings.CutPrefix(c.want, "!")
		if refused {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s as %s: %v, want %s", c.ctype, c.dtype, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s as %s: %v", c.ctype, c.dtype, err)
			continue
		}
		if text, err := os.ReadFile(filepath.Join(dir, "kernel."+strings.TrimPrefix(c.file, "k.")+".tmpl")); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s as %s: %v, no %q in\n%s", c.ctype, c.dtype, err, want, text)
		}
	}
}

func TestGivenInCUDA(t *testing.T) {
	source := `#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
template <int STEP, bool FAST = true>
__global__ void scale(bf16 *o, const bf16 *__restrict__ x, int T, int D, float by)
{
}
`
	dir, _, err := given(t, "k.cu", source, `"f32", "shape"`, `"bf16", "shape"`, `"parameters"`, `"grid": ["ceil(T*D/STEP)"], "block": ["STEP"], "parameters"`)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "kernel.cu.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	want := "extern \"C\" __global__ void run_made(int64_t T, int64_t D, const __nv_bfloat16 *__restrict__ x, __nv_bfloat16 *o, float by)\n{\n\tscale<{{.STEP}}, {{.FAST}}>((bf16 *)o, (bf16 *)x, T, D, by);\n}\n"
	if !strings.Contains(string(text), want) {
		t.Errorf("the template lacks %q:\n%s", want, text)
	}
}

// A search launches a few blocks of a shape that is not small under tools, which is said; the linter takes
// it for small then.
func TestGivenBlocks(t *testing.T) {
	const source = "template <int STEP, bool FAST>\n__global__ void scale(float *o, const float *x, int T, int D, float by)\n{\n}\n"
	for size, want := range map[string]int64{"64": 0, "4096": 2} {
		dir, draft, err := given(t, "k.cu", source, `"shapes": [`, `"shapes": [{"name": "same", "dims": {"T": `+size+`, "D": `+size+`}, "use": "sanitize"}, `,
			`"parameters"`, `"grid": ["ceil(T*D/STEP)"], "block": ["STEP"], "parameters"`)
		if err != nil {
			t.Fatal(err)
		}
		def, err := kernels.LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(draft.Taken, func(f kernels.Finding) bool { return strings.Contains(f.Msg, "blocks = 2") })
		if got := def.Implementations[0].SanitizeBlocks; got != want || said != (want > 0) {
			t.Errorf("%s: %d blocks, said %v", size, got, said)
		}
		for _, f := range kernels.Lint(t.Context(), def, 3, rand.New(rand.NewSource(1))) {
			if strings.Contains(f.Msg, "for the sanitizers") {
				t.Errorf("%s: %s", size, f.Msg)
			}
		}
	}
}

func TestGivenErrors(t *testing.T) {
	for _, c := range []struct {
		name, source string
		replace      []string
		want         string
	}{
		{"an unknown pointer", strings.ReplaceAll(scaled, "x", "in"), nil, "the pointer in of scale is neither an input nor an output"},
		{"an unknown number", strings.ReplaceAll(scaled, "by", "alpha"), nil, "the argument alpha of scale is neither a dimension nor a scalar"},
		{"a buffer that is not passed", strings.Replace(scaled, "const float *x, ", "", 1), nil, "scale has no argument x"},
		{"another type", strings.Replace(scaled, "const float", "const double", 1), nil, "x of scale points to double, and is given as f32"},
		{"an output that is const", strings.Replace(scaled, "float *o", "const float *o", 1), nil, "o of scale points to const"},
		{"a parameter that nothing reads", scaled, []string{`"STEP", "values"`, `"STRIDE", "values"`, "STEP > 1", "T > 1"}, "nothing reads the parameter STRIDE"},
		{"no values", scaled, []string{"[1, 2, 4]", "[]"}, "STEP has no values"},
		{"values of two kinds", scaled, []string{"[1, 2, 4]", `[1, "two"]`}, "mixes"},
		{"a value of 71 bits", scaled, []string{"[1, 2, 4]", "[1, 1180591620717411303424]"}, "the parameter STEP: 1180591620717411303424 does not fit into 64 bits"},
		{"an alias of nothing", scaled, []string{`"scalars"`, `"aliases": {"len": "T"}, "scalars"`}, "scale has no argument len, which is to be named T"},
		{"another type of the result", strings.Replace(strings.Replace(scaled, "void", "double", 1), "float *o, ", "", 1), nil, "scale returns double, and o is given as f32"},
		{"nothing to tune for", scaled, []string{`"tune"`, `"verify"`}, "no shape is to be tuned for"},
		{"no valid genome", scaled, []string{"STEP > 1 or not FAST", "STEP > 4"}, "no"},
		{"a dimension without a size", scaled, []string{`"T": 512, `, ""}, "T"},
		{"a file elsewhere", scaled, []string{`"files": {`, `"files": {"../elsewhere": "", `}, "leads out of the kernel's folder"},
		{"an expression", scaled, []string{`["T*D"]`, `["T*N"]`}, "N"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _, err := given(t, "k.c", c.source, c.replace...)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("a folder was left")
			}
		})
	}
}

// itself replaces the reference of a kernel in CUDA by the kernel itself.
var itself = []string{
	`{"source": "reference.c", "entry": "ref"}`, `{"baseline": true, "grid": ["(T + STEP - 1) / STEP"], "block": ["STEP"]}`,
	`"parameters"`, `"grid": ["ceil(T/STEP)"], "block": ["STEP"], "parameters"`,
}

// Without a reference the kernel itself, with the values of its baseline, is one.
func TestGivenOwnBaseline(t *testing.T) {
	for file, wants := range map[string][]string{
		"k.c": {"static void run_made(", "#define STEP 1\n", "own_x[i] = (float)x[i];", "run_made(T, D, own_x, own_o, (float)by);", "o[i] = own_o[i];"},
		"k.cu": {
			"static _Thread_local struct evotune_dim3 threadIdx", "#define float double\n", "static void run_made(",
			"evotune_launch((struct evotune_dim3){(T + STEP - 1) / STEP, 1, 1}, (struct evotune_dim3){STEP, 1, 1}, 1, 0, &evotune_given);",
		},
	} {
		t.Run(file, func(t *testing.T) {
			source, replace := scaled, []string{`{"source": "reference.c", "entry": "ref"}`, `{"baseline": true, "grid": ["(T + STEP - 1) / STEP"], "block": ["STEP"]}`}
			if file == "k.cu" {
				source = "__global__ " + strings.Replace(scaled, "{\n", "{\n\t__syncthreads();\n", 1)
				replace = append(replace, `"parameters"`, `"grid": ["ceil(T/STEP)"], "block": ["STEP"], "parameters"`)
			}
			dir, _, err := given(t, file, source, replace...)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "reference.c"))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range wants {
				if !strings.Contains(string(text), want) {
					t.Errorf("the reference lacks %q:\n%s", want, text)
				}
			}
			def, err := kernels.LoadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if def.Problem.Oracle != kernels.OwnBaseline {
				t.Errorf("the oracle is %q", def.Problem.Oracle)
			}
			if file == "k.c" {
				return
			}
			device := def.Problem.DeviceReference
			if device == nil || !strings.Contains(device.Text, "#define float double\n") || !strings.Contains(device.Text, "\trun_made(T, D, (double *)x, (double *)o, by);\n") {
				t.Fatalf("the reference for GPUs: %+v", device)
			}
			if l := device.Launch; len(l.Grid) != 1 || l.Grid[0] != "ceil(T/1)" || len(l.Block) != 1 || l.Block[0] != "1" {
				t.Errorf("its launch: %v %v", l.Grid, l.Block)
			}
		})
	}
}

// What only a compiler of CUDA knows is told at its line in the source, before anything is compiled.
func TestGivenOwnBaselineInC(t *testing.T) {
	for _, c := range []struct{ before, code, want string }{
		{"#include <cub/block/block_reduce.cuh>\n", "", "k.cu:1: <cub/block/block_reduce.cuh> is for a compiler of CUDA: without a reference the kernel itself is one, and runs on the CPU as C: give a reference of its own"},
		{"", "\tauto sum = 0.0f;\n", "k.cu:3: auto is for"},
		{"", "\tfloat s = __shfl_xor_sync(~0u, by, 1);\n", "k.cu:3: __shfl_xor_sync is for"},
		{"void go(float *o) { std::vector<int> v; }\n", "\tcg::sync(b);\n", "k.cu:4: cg::sync is for"},
		{"", "\textern __shared__ float s[];\n", "k.cu:3: extern __shared__ is for"},
		{"#include <cuda_runtime.h>\n", "\tint half = T / 2; // auto\n", ""},
	} {
		source := c.before + "__global__ " + strings.Replace(scaled, "{\n", "{\n"+c.code, 1)
		_, _, err := given(t, "k.cu", source, itself...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s%s: %v, want %q", c.before, c.code, err, c.want)
		}
	}
}

// Each line of the kernel as its own reference says where it comes from, and a compiler names that place.
func TestGivenOwnBaselineLines(t *testing.T) {
	source := `#include <stdio.h>
#include "part.h"
#define STEP 2
#define LONG(x) \
	((x) + \
	 STEP)
/* A comment
   of two lines. */
static __device__ float half(float x)
{
	return x / 2;
}

int main(void)
{
	printf("%d\n", STEP);
}

__global__ void scale(float *o, const float *x, int T, int D, float by)
{
	for (int i = 0; i < T*D; i += STEP * FAST)
		o[i] = by*x[i] + part(LONG(0));
}
`
	const part = "#pragma once\n#include <stdio.h>\n\n// Adds.\nstatic __device__ int part(int x)\n{\n\treturn x + 1;\n}\n"
	for _, actions := range []bool{false, true} {
		source := source
		if actions {
			source = strings.Replace(source, "#define STEP 2\n", "{{if .FAST}}\n#define STEP {{.STEP}}\n{{else}}\n#define STEP {{/* less\n*/}}1\n{{end}}\n", 1)
		}
		files := map[string]string{"k.cu": source, "part.h": part}
		dir, _, err := givenFiles(t, "k.cu", files, itself...)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "reference.c"))
		if err != nil {
			t.Fatal(err)
		}
		if template, err := os.ReadFile(filepath.Join(dir, "kernel.cu.tmpl")); err != nil || strings.Contains(string(template), "@*/") || strings.Contains(string(text), "@*/") {
			t.Errorf("marks are left: %v", err)
		}
		from, n, found := "reference.c", 0, map[string]int{}
		for i, line := range strings.Split(string(text), "\n") {
			if _, err := fmt.Sscanf(line, "#line %d %q", &n, &from); err == nil {
				n--
				continue
			}
			n++
			if from == "reference.c" {
				if n != i+1 {
					t.Fatalf("line %d of reference.c is taken for line %d: %s", i+1, n, line)
				}
				continue
			}
			if strings.Split(files[from], "\n")[n-1] == line && strings.TrimSpace(line) != "" {
				found[line]++
			}
		}
		for _, line := range []string{"\t((x) + \\", "   of two lines. */", "\treturn x / 2;", "\t\to[i] = by*x[i] + part(LONG(0));", "\treturn x + 1;", "}"} {
			if found[line] == 0 {
				t.Errorf("the place of %q is not known in\n%s", line, text)
			}
		}
		gcc, err := exec.LookPath("gcc")
		if err != nil || actions {
			continue
		}
		for old, want := range map[string]string{
			"return x / 2;": "k.cu:%d: ", "return x + 1;": "part.h:%d: ", "o[i] = by*x[i]": "k.cu:%d: ", "\nvoid reference(": "reference.c:%d: ",
		} {
			wrong, number := strings.Replace(string(text), old, " @ "+old, 1), 0
			for _, s := range []string{source, part, string(text)} {
				if before, _, ok := strings.Cut(s, old); ok && number == 0 {
					number = 1 + strings.Count(before, "\n")
				}
			}
			cmd := exec.Command(gcc, "-fsyntax-only", "-fno-show-column", "-w", "-x", "c", "-")
			cmd.Stdin = strings.NewReader(wrong)
			if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(said), fmt.Sprintf(want, number)) {
				t.Errorf("what is wrong at %q is told as %s", old, said)
			}
		}
	}
}

// What looks at the bits of floats, or adds to elements by several blocks, has no reference in double precision on GPUs.
func TestGivenNarrowBaseline(t *testing.T) {
	for _, c := range []struct {
		code string
		wide bool // on the CPU
	}{{"o[0] = __int_as_float(7);", false}, {"atomicAdd(o, 1.0f);", true}} {
		source := "__global__ " + strings.Replace(scaled, "{\n", "{\n\t"+c.code+"\n", 1)
		dir, _, err := given(t, "k.cu", source, itself...)
		if err != nil {
			t.Fatal(err)
		}
		def, err := kernels.LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if def.Problem.DeviceReference != nil {
			t.Errorf("%s: there is a reference for GPUs", c.code)
		}
		if wide := strings.Contains(def.Problem.Reference.Text, "#define float double\n"); wide != c.wide {
			t.Errorf("%s: in double precision on the CPU: %t, want %t", c.code, wide, c.wide)
		}
	}
}

// A type parameter may have one value, which lint finds in the template.
func TestGivenType(t *testing.T) {
	source := "template <typename ELEMENT, int STEP>\n__global__ " + strings.NewReplacer("const float", "const ELEMENT", "STEP * FAST", "STEP", "float *o", "ELEMENT *o").Replace(scaled)
	dir, _, err := given(t, "k.cu", source, `{"name": "FAST", "values": [true, false]}`, `{"name": "ELEMENT", "values": ["float"]}`, ` or not FAST`, "",
		`"parameters"`, `"grid": ["ceil(T/STEP)"], "block": ["32"], "parameters"`)
	if err != nil {
		t.Fatal(err)
	}
	d, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range kernels.Lint(t.Context(), d, 4, rand.New(rand.NewSource(1))) {
		if strings.Contains(f.Msg, "nothing reads") {
			t.Error(f)
		}
	}
}

// Where the number of blocks depends on a parameter, an output of one element for each block does: the
// kernel with its baseline's values is not the reference for other values.
func TestGivenOutputByBlock(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"o[blockIdx.x] = by;", "k.cu:3: o has an element for each block, and their number, ceil(T/STEP), depends on STEP: genomes differ in what they compute, and the kernel itself cannot be the reference"},
		{"int block = blockIdx.x;\n\to[block] += by;", "k.cu:4: o has an element for each block"},
		{"o[blockIdx.y] = by;", ""},
		{"o[blockIdx.x * STEP + threadIdx.x] = by;", ""},
	} {
		source := "__global__ " + strings.Replace(scaled, "{\n", "{\n\t"+c.code+"\n", 1)
		_, _, err := given(t, "k.cu", source, itself...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.code, err, c.want)
		}
	}
}

// Constraints and launches may be given in Python.
func TestGivenTranslates(t *testing.T) {
	g := &draft.Given{Python: true, Grid: []string{"a"}, Block: []string{"b"}}
	g.Constraints = []genome.Constraint{{Expr: "c"}}
	if err := g.Translate(func(x []string) ([]string, error) { return []string{x[0] + " != 0"}, nil }, func(x string) (string, error) { return "(" + x + ")", nil }); err != nil {
		t.Fatal(err)
	}
	if g.Grid[0] != "(a)" || g.Block[0] != "(b)" || g.Constraints[0].Expr != "c != 0" || g.Python {
		t.Errorf("translated to %v %v %v", g.Grid, g.Block, g.Constraints)
	}
}

func TestReadSignature(t *testing.T) {
	file := filepath.Join(t.TempDir(), "k.cu")
	if err := os.WriteFile(file, []byte("__global__ void f(float *c, const double *a, int n, float by) { c[threadIdx.x] = a[n == 1]; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := draft.ReadSignature(file, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"entry":"f","line":1,"arguments":[{"name":"c","type":"float","dtype":"f32","pointer":true,"const":false,"written":true},` +
		`{"name":"a","type":"double","dtype":"f64","pointer":true,"const":true,"written":false},{"name":"n","type":"int","dtype":"i64","pointer":false,"const":false,"written":false},` +
		`{"name":"by","type":"float","dtype":"f32","pointer":false,"const":false,"written":false}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestGivenKeys: a key that is there twice, or in other case, is an error.
func TestGivenKeys(t *testing.T) {
	for text, want := range map[string]string{
		`{"dims": ["N"], "dims": ["M"]}`:          `key "dims" is there twice`,
		`{"Dims": ["N"]}`:                         `key "Dims" is spelled "dims"`,
		`{"scalars": [{"name": "a", "Name": 1}]}`: `key "Name" is spelled "name" in scalars[0]`,
		`{"dimensions": []}`:                      `unknown field "dimensions"`,
	} {
		if _, err := draft.ParseGiven([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	untagged(t, reflect.TypeFor[draft.Given](), map[reflect.Type]bool{})
}

// untagged finds fields whose keys would begin with a capital.
func untagged(t *testing.T, of reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		untagged(t, of.Elem(), seen)
	case reflect.Struct:
		if seen[of] || reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return
		}
		seen[of] = true
		for f := range of.Fields() {
			tag := f.Tag.Get("json")
			if !f.IsExported() || tag == "-" {
				continue
			}
			if !f.Anonymous && tag == "" {
				t.Errorf("%s.%s has no key", of, f.Name)
			}
			untagged(t, f.Type, seen)
		}
	}
}
