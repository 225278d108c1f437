package kernels

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/internal/longtest"
)

// TestWrittenFiles: what evotune writes of a candidate says of itself all that a judge
// has to know: of every implementation of every built-in kernel, and of the zoos.
func TestWrittenFiles(t *testing.T) { writtenFiles(t, 1, 6) }

func TestWrittenFilesLong(t *testing.T) {
	longtest.Long(t, "it renders and reads a thousand files")
	writtenFiles(t, 2, 20)
}

func writtenFiles(t *testing.T, seed int64, genomes int) {
	t.Helper()
	zoos := os.DirFS("../evaluator/testdata")
	var all []*Definition
	builtin, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range builtin.Names() {
		d, err := builtin.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	for _, name := range []string{"zoo", "zoo-cuda"} {
		d, err := Load(zoos, name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	rng := rand.New(rand.NewSource(seed))
	dir := t.TempDir()
	for _, d := range all {
		for _, im := range d.Implementations {
			p := im.Problem()
			space, err := d.Space([]*Implementation{im}, p.ShapesFor(Tune)[:1], nil)
			if err != nil {
				t.Fatal(err)
			}
			for range genomes {
				g := space.Random(rng)
				if k, ok := g.Get("KERNEL"); ok && k.String() == "missing-key" {
					continue
				}
				r, err := im.Render(g)
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, "kernel."+map[string]string{"cpu": "c", "cuda": "cu"}[im.Backend])
				text := r.Directives("evotune_one") + r.SelfContained()
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				of, err := d.FromFile(im.Backend, File{Path: path}, nil)
				if err != nil {
					t.Fatalf("%s, %s, genome %s: %v\n%s", d.Name, im.Name, g, err, r.Directives("x"))
				}
				file := sole(t, of)
				if !slices.Equal(file.Flags, r.Flags) || file.Threads != r.Threads || file.Entry != "evotune_one" || len(file.Files) > 0 || !strings.HasSuffix(file.Source, text) {
					t.Fatalf("%s, %s, genome %s: flags %q, want %q; threads %d, want %d; entry %s; files %v",
						d.Name, im.Name, g, file.Flags, r.Flags, file.Threads, r.Threads, file.Entry, slices.Collect(maps.Keys(file.Files)))
				}
				if len(file.Require) != len(r.Require) || of.Target != im.Target {
					t.Fatalf("%s, %s, genome %s: requires %v for %s, want %v for %s", d.Name, im.Name, g, file.Require, of.Target, r.Require, im.Target)
				}
				for _, s := range p.Shapes {
					a, b := im.Supports(g, s, nil), of.Supports(file.Genome, s, nil)
					if (a == nil) != (b == nil) {
						t.Fatalf("%s, %s, genome %s at %s: %v, but of the file %v", d.Name, im.Name, g, s.Name, a, b)
					}
					if im.Launch == nil || a != nil {
						continue
					}
					want, err := im.Geometry(g, s, nil)
					if err != nil {
						t.Fatal(err)
					}
					if got, err := of.Geometry(file.Genome, s, nil); err != nil || !reflect.DeepEqual(got, want) {
						t.Fatalf("%s, %s, genome %s at %s: launch %v, want %v (%v)", d.Name, im.Name, g, s.Name, got, want, err)
					}
				}
			}
		}
	}
}

// TestWrittenThreads: a file says how many threads its candidate uses. Few that TestWrittenFiles draws use more than one.
func TestWrittenThreads(t *testing.T) {
	d, err := Load(os.DirFS("../evaluator/testdata"), "zoo")
	if err != nil {
		t.Fatal(err)
	}
	im := d.Implementations[0]
	space, err := d.Space(d.Implementations, im.Problem().ShapesFor(Tune)[:1], nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kernel.c")
	for kernel, want := range map[string]int{"honest": 1, "data-race": 2} {
		g, err := space.FromMap(map[string]any{"KERNEL": kernel, "SALT": 1})
		if err != nil {
			t.Fatal(err)
		}
		r, err := im.Render(g)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(r.Directives("evotune_one")+r.SelfContained()), 0o600); err != nil {
			t.Fatal(err)
		}
		of, err := d.FromFile(im.Backend, File{Path: path}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := sole(t, of).Threads; got != want || r.Threads != want {
			t.Errorf("%s: the file says %d threads, the candidate has %d, want %d", kernel, got, r.Threads, want)
		}
	}
}

// sole renders an implementation that is a file.
func sole(t *testing.T, im *Implementation) Rendered {
	t.Helper()
	space, err := im.Definition().Space([]*Implementation{im}, im.Problem().ShapesFor(Tune)[:1], nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := im.Render(space.Random(rand.New(rand.NewSource(1))))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// write makes a folder of files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFromFile(t *testing.T) {
	d, err := Load(Builtin(), "softmax")
	if err != nil {
		t.Fatal(err)
	}
	const braces = "/* {{.NOTHING}} is not a template here */ int a[1] = {{0}}; /* <no value> */\n"
	dir := write(t, map[string]string{
		"kernel.c":      "#include \"a.h\"\n#include \"sub/b.h\"\n#include \"absent.h\"\n#include \"../outside.h\"\n#include <math.h>\n" + braces,
		"a.h":           "#include \"kernel.h\"\n#include \"a.h\"\n",
		"kernel.h":      "#include \"evotune_kernel.h\"\n",
		"sub/b.h":       "#include \"c.h\"\n#include \"a.h\"\n",
		"sub/c.h":       "",
		"not-asked-for": "",
	})
	im, err := d.FromFile("cpu", File{Path: filepath.Join(dir, "kernel.c")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := sole(t, im)
	if want := []string{"a.h", "kernel.h", "sub/b.h", "sub/c.h"}; !slices.Equal(im.Include, want) || len(r.Files) != len(want) {
		t.Errorf("it includes %v, want %v", im.Include, want)
	}
	if !strings.HasPrefix(r.Source, "#line 1 \"kernel.c\"\n") || !strings.HasSuffix(r.Source, braces) {
		t.Errorf("the source is not the file:\n%s", r.Source)
	}
	base, err := d.Implementations[0].RenderBaseline(d.Problem.ShapesFor(Tune)[0])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Flags, base.Flags) || r.Threads != 1 || r.Entry != base.Entry || len(r.Require) > 0 {
		t.Errorf("flags %q, want the baseline's, %q; %d threads, entry %s, requires %v", r.Flags, base.Flags, r.Threads, r.Entry, r.Require)
	}
	if im.Baseline().Implementation() == im || len(im.Blocking) == 0 {
		t.Errorf("baseline %s, blocking %v: want those of the kernel", im.Baseline(), im.Blocking)
	}
}

// What is given for the file goes before what it says, and what is given for its
// rival is for one that says nothing.
func TestFileGivenAndSaid(t *testing.T) {
	d, err := Load(Builtin(), "softmax")
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{"said.c": "  //  evotune : flags = [\"-O1\"]\n//evotune:threads = 3\n", "silent.c": "// evotune is not meant here\n"})
	for _, c := range []struct {
		file  string
		given File
		flags string
		n     int
	}{
		{"said.c", File{}, "-O1", 3},
		{"said.c", File{Flags: []string{"-O2"}, Threads: 2}, "-O2", 2},
		{"said.c", File{Flags: []string{"-O2"}, Threads: 2, Default: true}, "-O1", 3},
		{"said.c", File{Flags: []string{}}, "", 3},
		{"silent.c", File{Flags: []string{"-O2"}, Threads: 2, Default: true}, "-O2", 2},
	} {
		c.given.Path = filepath.Join(dir, c.file)
		im, err := d.FromFile("cpu", c.given, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.flags = strings.TrimSpace(c.flags + " -Wall -Wextra -Wno-psabi") // those of the baseline
		if r := sole(t, im); strings.Join(r.Flags, " ") != c.flags || r.Threads != c.n {
			t.Errorf("%+v: flags %q and %d threads, want %s and %d", c.given, r.Flags, r.Threads, c.flags, c.n)
		}
	}
}

// Two files are implementations of one definition: the kernel's own baseline stays, and
// neither file's bounds hold for the other.
func TestFileBeside(t *testing.T) {
	d, err := Load(Builtin(), "softmax")
	if err != nil {
		t.Fatal(err)
	}
	launch := "// evotune: grid = [\"ROWS\"]\n// evotune: block = [\"32\"]\n"
	dir := write(t, map[string]string{"new.cu": launch + "new", "old.cu": launch + "// evotune: max_registers = 7\nold"})
	old, err := d.FromFile("cuda", File{Path: filepath.Join(dir, "old.cu")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	im, err := d.FromFile("cuda", File{Path: filepath.Join(dir, "new.cu")}, old)
	if err != nil {
		t.Fatal(err)
	}
	shape := im.Problem().ShapesFor(Tune)[0]
	want, err := d.On("cuda").Implementations[0].RenderBaseline(shape)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"file", "beside"} {
		each := im.Definition().Implementations[i]
		r, err := each.RenderBaseline(shape)
		if err != nil {
			t.Fatal(err)
		}
		if each.Name != name || r.Hash != want.Hash {
			t.Errorf("%s has the baseline %s, want %s", each.Name, each.Baseline(), d.On("cuda").Implementations[0].Baseline())
		}
		if bound := each.Binary.MaxRegisters; (bound != nil && *bound == 7) != (name == "beside") {
			t.Errorf("%s: registers are bounded by %v", name, bound)
		}
	}
}

// A file that is wrong is refused in one line that says where.
func TestWrongFiles(t *testing.T) {
	d, err := Load(Builtin(), "softmax")
	if err != nil {
		t.Fatal(err)
	}
	const launch = "// evotune: grid = [\"ROWS\"]\n// evotune: block = [\"32\"]\n"
	for _, c := range []struct{ name, text, want string }{
		{"k.c", "\n  // evotune: colour = 3\n", `k.c:2:15: the file has no key "colour"`},
		{"k.c", "// evotune: flags = \"-O3\"\n", "k.c:1:21: flags is a string, expected an array"},
		{"k.c", "// evotune: threads = 0\n", "k.c:1:23: threads is 0"},
		{"k.c", "// evotune: threads = 5000\n", "threads is 5000"},
		{"k.c", "// evotune: threads =\n", "k.c:1:"},
		{"k.c", "// evotune: grid = [\"1\"]\n", "grid means nothing in a kernel for the CPU"},
		{"k.c", "// evotune: target = \"sm_80\"\n", "CUDA kernels have one"},
		{"k.c", "// evotune: max_spill = 4\n", "max_spill means nothing"},
		{"k.c", "// evotune: entry = \"a b\"\n", "cannot be the name of a function"},
		{"k.c", "// evotune: where = [\"ROWS % 2 == 0\", \"WIDTH > 1\"]\n", "k.c:1:40: "},
		{"k.c", "#include \"evotune_glue.c\"\n", "evotune has a file of this name"},
		{"k.cu", "// evotune: block = [\"32\"]\n", "it does not say how it is launched: add a line such as // evotune: grid"},
		{"k.cu", launch + "// evotune: shared = \"BYTES\"\n", "k.cu:3:23: in the expression \"BYTES\""},
		{"k.cu", launch + "// evotune: target = \"80\"\n", "k.cu:3:22: target"},
	} {
		dir := write(t, map[string]string{c.name: c.text, "evotune_glue.c": ""})
		backend := map[string]string{".c": "cpu", ".cu": "cuda"}[filepath.Ext(c.name)]
		_, err := d.FromFile(backend, File{Path: filepath.Join(dir, c.name)}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	dir := write(t, map[string]string{"k.c": "#include \"secret.h\"\n", "pipe/x": ""})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "secret.h")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.FromFile("cpu", File{Path: filepath.Join(dir, "k.c")}, nil); err == nil || !strings.Contains(err.Error(), "secret.h") {
		t.Errorf("a link that leads out of the folder: %v", err)
	}
	if _, err := d.FromFile("cpu", File{Path: filepath.Join(dir, "none.c")}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := d.FromFile("cpu", File{Path: filepath.Join(dir, "pipe")}, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// A file must not make the compiler read or write other files, run programs, or keep
// code from a sanitizer.
func TestCompilerFlags(t *testing.T) {
	for backend, lists := range map[string][2]string{
		"cpu": {
			"-O3 -Ofast -std=gnu11 -march=native -mavx512f -mprefer-vector-width=512 -ffast-math -fno-math-errno -funroll-loops -fvect-cost-model=unlimited -fopenmp -pthread -lm -Wall -Wno-psabi -DN=3 -DX -Ua",
			"-w -o /x -o/x -include @x -I/ -L. -lc -fplugin=x -fplugin-arg-x-y -fno-sanitize=all -fsanitize=address -fdump-tree-all -fprofile-use=/x -fprofile-generate -fuse-ld=gold -flto -flto=auto -Wl,-z,x -Wp,-MD,x -Wa,-x -save-temps -specs=x -wrapper -B. -x -E -c kernel.c -fopt-info=x -mllvm -fmacro-prefix-map=/a=b -fcompare-debug -MD -fsyntax-only -fpreprocessed -fdiagnostics-format=json -fno-diagnostics-show-option -fdisable-tree-asan1 -fdisable-tree-tsan1 -fdisable-tree-sanopt -fenable-tree-x -fdbg-cnt=x -fhelp -fhelp=x -ftarget-help -fself-test=x -fwpa -fltrans -fresolution=x -fcs-profile-generate -fmemory-profile -Devotune_call=x -Uevotune_call -D ",
		},
		"cuda": {
			"-O3 -std=c++17 --std=c++20 --maxrregcount=64 -maxrregcount=32 --use_fast_math -use_fast_math --ptxas-options=-O3 -Xptxas=-dlcm=ca -DN=4 --fmad=false",
			"-I/ -include --pre-include=/etc/passwd -Xcompiler -ccbin=/x --compiler-bindir=x --ptxas-options=-o,x -o -arch=sm_90 --run -dc -G --device-debug --options-file=x",
		},
	} {
		for i, list := range lists {
			for f := range strings.SplitSeq(list, " ") {
				if f != "" && (CheckFlag(backend, f) == nil) != (i == 0) {
					t.Errorf("%s: flag %s: %t, want %t", backend, f, i != 0, i == 0)
				}
			}
		}
		for _, f := range []string{
			"", "@file", "-I/etc", "-iquote.", "-isystem", "-imacros/etc/passwd", "-B/x", "-specs=x", "--specs=x", "--param=x=1", "--param", "-T/x", "-Tx", "-x", "-xc", "-o", "-oa", "-MF", "-MMD",
			"-Xlinker", "-Xassembler", "-Xpreprocessor", "-Xptxas", "-v", "-Wp,-imacros,/etc/passwd", "-Wa,-I/etc", "-Wl,-T,/etc/passwd", "-save-temps=obj", "-fdump-rtl-all", "-fplugin=/x.so", "-fmodule-mapper=x", "-foffload=x",
			"/etc/passwd", "kernel.c", "-DX=1\n#include \"/etc/passwd\"", "-DX=1\r2", "-DX=\x00", "-D X=1", "-O3\n", "-lm\n-include", " -O3", "-include=/etc/passwd", "--sysroot=/", "-L/", "-l:x", "-fdebug-prefix-map=a=b",
		} {
			if CheckFlag(backend, f) == nil {
				t.Errorf("%s: flag %q is taken", backend, f)
			}
		}
	}
	// nvcc's shell would run them.
	for _, f := range []string{"-DX=$(id)", "-DX=`id`", `-DX="a`, `-DX=\`, "-DX=${HOME}"} {
		if CheckFlag("cuda", f) == nil {
			t.Errorf("flag %q is taken", f)
		}
	}
}

// FuzzFile reads arbitrary files: none may crash, what is refused is refused in one
// line, and what is taken is compiled as it is.
func FuzzFile(f *testing.F) {
	f.Add("// evotune: flags = [\"-O3\"]\nvoid softmax() { {{.X}} }\n")
	f.Add("// evotune: grid = [\"ROWS\"]\r\n// evotune: block = [\"1\", \"COLS % 2\"]\n// evotune: where = [\"COLS > 1\"]")
	f.Add("// evotune: [a]\n// evotune: threads = 9999999999999999999\n// evotune: = \xff")
	f.Add("// evotune: target = \"sm_90a\"\n// evotune: launch = [{ grid = [\"2*ROWS\"], block = [\"32\"], cluster = [\"2\"], cooperative = \"ROWS > 1\" }, { entry = \"b\", grid = [\"1\"], block = [\"1\"], dependent = \"true\" }]\n" +
		"// evotune: tensor_map = [{ name = \"m\", buffer = \"X\", dims = [\"COLS\", \"ROWS\"], box = [\"64\", \"1\"], swizzle = \"128\" }]")
	f.Add("#include \"a.h\"\n#include \"../a.h\"\n#include \"\"\n// evotune: x = '''\n'''")
	d, err := Load(Builtin(), "softmax")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for backend, name := range map[string]string{"cpu": "k.c", "cuda": "k.cu"} {
			dir := write(t, map[string]string{name: text})
			im, err := d.FromFile(backend, File{Path: filepath.Join(dir, name)}, nil)
			if err != nil {
				if s := err.Error(); s == "" || strings.ContainsAny(s, "\n\r") {
					t.Errorf("the error is not one line: %q", s)
				}
				continue
			}
			if len(im.Constraints) > 0 {
				continue // which may leave no shape
			}
			if r := sole(t, im); !strings.HasSuffix(r.Source, text) {
				t.Errorf("the source is not the file: %q", r.Source)
			}
		}
	})
}

// Directives are bounded before they are parsed: one of 1.6 MB took 1.9 GB, and a key of
// many names makes as many tables.
func TestLongDirectives(t *testing.T) {
	d, err := Load(Builtin(), "softmax")
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		"// evotune: " + strings.Repeat("a.", 800_000) + "a = 1\n":               "k.c:2:1: its lines `// evotune:` have more than 65536 bytes together: shorten them",
		strings.Repeat("// evotune: x"+strings.Repeat("y", 1000)+" = 1\n", 70):   "k.c:66:1: its lines `// evotune:` have more than 65536 bytes together",
		"// evotune: " + strings.Repeat("a.", 30_000) + "a = 1\n":                "k.c:2:45: the key has more than 16 names",
		"// evotune: " + "[" + strings.Repeat("a.", 30_000) + "a]\n":             "the key has more than 16 names",
		"// evotune: launch = [{ " + strings.Repeat("a.", 30_000) + "a = 1 }]\n": "the key has more than 16 names",
		// The longest that are read nest as deep as they can.
		"// evotune: flags = " + strings.Repeat("[", 32_000) + strings.Repeat("]", 32_000) + "\n":         "flags holds an array, expected strings",
		"// evotune: flags = " + strings.Repeat("{a=", 16_000) + "1" + strings.Repeat("}", 16_000) + "\n": "flags is a table, expected an array",
		"// evotune: where = [\"" + strings.Repeat("-", 20_000) + "1 > ROWS + PAGES\"]\n":                 "in the expression",
	} {
		dir := write(t, map[string]string{"k.c": "\n" + what})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := d.FromFile("cpu", File{Path: filepath.Join(dir, "k.c")}, nil)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %.200v; want %s", what, err, want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%.40q: %d MB were allocated", what, took>>20)
		}
	}
	long := "// evotune: flags = [" + strings.Repeat(`"-DA=1", `, 6000) + "]\n" // an honest file that says much
	dir := write(t, map[string]string{"k.c": long})
	if im, err := d.FromFile("cpu", File{Path: filepath.Join(dir, "k.c")}, nil); err != nil || len(sole(t, im).Flags) < 6000 {
		t.Errorf("a long line: %v", err)
	}
}
