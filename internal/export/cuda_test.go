package export

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// hopper are the limits of the device that the winners of these tests were tuned on.
var hopper = map[string]any{"device_max_shared_bytes": int64(227 << 10), "device_capability": int64(90), "device_cores": int64(132)}

// cudaKernels are the built-in kernels for GPUs.
func cudaKernels(t *testing.T) []*kernels.Definition {
	t.Helper()
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	var list []*kernels.Definition
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if d = d.On("cuda"); len(d.Implementations) > 0 {
			list = append(list, d)
		}
	}
	if len(list) < 8 {
		t.Fatalf("%d kernels for GPUs", len(list))
	}
	return list
}

// cudaKernel is a built-in kernel for GPUs.
func cudaKernel(t *testing.T, name string) *kernels.Definition {
	t.Helper()
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	d, err := cat.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return d.On("cuda")
}

// A kernel for GPUs with an input that a function in Python makes is not called on other contents.
func TestNotRunOnGPU(t *testing.T) {
	d := cudaKernel(t, "softmax")
	w := cudaWinner(t, d, d.Implementations[0], d.Problem.ShapesFor(kernels.Tune)[0], rand.New(rand.NewSource(1)))
	p := w.Rendered.Implementation.Problem()
	before := p.Buffers
	t.Cleanup(func() { p.Buffers = before })
	p.Buffers = slices.Clone(p.Buffers)
	p.Buffers[0].Data = kernels.Data{Distribution: kernels.Python, Function: "rows"}
	text := string(mustExport(t, []*Winner{w}, Options{Lang: CUDA, By: "test"})["test/check.c"])
	if strings.Count(text, `evo_skip("softmax: not run: a function in Python makes X, `) != 1 || strings.Contains(text, "evotune_softmax(") || strings.Contains(text, "check_softmax(") {
		t.Error(text)
	}
}

// cudaWinner makes a winner of a kernel for GPUs.
func cudaWinner(t *testing.T, d *kernels.Definition, im *kernels.Implementation, s kernels.Shape, rng *rand.Rand) *Winner {
	t.Helper()
	device := evaluator.Device{Name: "NVIDIA H200", Kind: "cuda", Fingerprint: "0123", Facts: map[string]string{"capability": "9.0", "driver": "580"}}
	return proven(t, d, []*kernels.Implementation{im}, s, device, hopper, "", rng)
}

// cudaWinners has one of every implementation of every kernel.
func cudaWinners(t *testing.T, seed int64) []*Winner {
	rng := rand.New(rand.NewSource(seed))
	var list []*Winner
	for _, d := range cudaKernels(t) {
		for _, im := range d.Implementations {
			list = append(list, cudaWinner(t, d, im, d.Problem.ShapesFor(kernels.Tune)[0], rng))
		}
	}
	return list
}

func writeFiles(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGeometryInC compiles the launches and the constraints of random genomes, and
// holds what they say at random shapes against what tuning would have said.
func TestGeometryInC(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: no translation was run")
	}
	const genomes, shapes = 6, 12
	rng := rand.New(rand.NewSource(7))
	var program, body strings.Builder
	var want []string
	program.WriteString("#include <inttypes.h>\n#include <math.h>\n#include <stdio.h>\n")
	for _, d := range cudaKernels(t) {
		for _, im := range d.Implementations {
			for range genomes {
				tune := d.Problem.ShapesFor(kernels.Tune)
				w := cudaWinner(t, d, im, tune[rng.Intn(len(tune))], rng)
				problems, err := newProblems([]*Winner{w})
				if err != nil {
					t.Fatal(err)
				}
				p, v := problems[0], problems[0].Variants[0]
				if v.Planned() { // see TestPlansInC
					continue
				}
				geometry, err := v.Geometry()
				if err != nil {
					t.Fatal(err)
				}
				supports := v.Supports
				if supports == "" {
					supports = "1"
				}
				fmt.Fprintf(&program, "static void f_%s(const int64_t *d)\n{\n%s\n", v.Symbol, p.Unpack("d"))
				for _, e := range append([]string{supports}, geometry...) {
					fmt.Fprintf(&program, "\tprintf(\"%%\" PRId64 \" \", (int64_t)(%s));\n", e)
				}
				program.WriteString("\tputs(\"\");\n}\n")
				for i := range shapes {
					s := kernels.Shape{Name: "random", Dims: map[string]int64{}}
					var dims []string
					for _, name := range p.Dims {
						n := 1 + rng.Int63n(1<<uint(1+rng.Intn(13)))
						switch {
						case slices.Contains(p.Flags, name):
							n = rng.Int63n(2)
						case i == 0: // one that it was tuned for
							n = v.Shapes[0].Dims[name]
						case i%2 == 0:
							n = max(8, n&^7)
						}
						if name == "D" && i%3 != 1 {
							n = 64 << rng.Intn(2)
						}
						s.Dims[name] = n
						dims = append(dims, strconv.FormatInt(n, 10))
					}
					can := "1"
					if im.Supports(w.Rendered.Genome, s, hopper) != nil {
						can = "0"
					}
					g, err := im.Geometry(w.Rendered.Genome, s, w.Limits)
					if err != nil {
						t.Fatal(err)
					}
					line := can
					for _, n := range slices.Concat(g.Grid[:], g.Block[:], []int64{g.SharedBytes, g.WorkspaceBytes}) {
						line += " " + strconv.FormatInt(n, 10)
					}
					want = append(want, line)
					fmt.Fprintf(&body, "\tf_%s((const int64_t[]){%s});\n", v.Symbol, strings.Join(dims, ", "))
				}
			}
		}
	}
	program.WriteString("int main(void)\n{\n" + body.String() + "\treturn 0;\n}\n")
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{"p.c": []byte(program.String())})
	run(t, dir, cc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "p", "p.c", "-lm")
	got := strings.Split(strings.TrimSpace(run(t, dir, "./p")), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	said := map[string]int{}
	for i, line := range got {
		line = strings.TrimSpace(line)
		said[line[:1]]++
		if line != want[i] {
			t.Errorf("%d: C says %q, tuning %q", i, line, want[i])
		}
	}
	if said["0"] < 20 || said["1"] < 20 {
		t.Errorf("too few of a kind: %v", said)
	}
}

// TestCUDAExport looks at what a library for GPUs has in it.
func TestCUDAExport(t *testing.T) {
	winners := cudaWinners(t, 1)
	files, err := Export(winners, Options{Lang: CUDA, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	few := slices.Clone(winners[:5])
	forth := mustExport(t, few, Options{Lang: CUDA, By: "test"})
	slices.Reverse(few)
	if back := mustExport(t, few, Options{Lang: CUDA, By: "test"}); !maps.EqualFunc(forth, back, bytes.Equal) {
		t.Error("the order of the winners shows in the files")
	}
	for _, w := range winners {
		d := w.Rendered.Implementation.Definition()
		line := d.Name + "\t"
		i := bytes.Index(files["wisdom.txt"], []byte("\t"+w.Evidence.Candidate+"\t"))
		if i < 0 {
			if len(d.On("cuda").Implementations) == 1 {
				t.Errorf("wisdom.txt lacks %s of %s", w.Evidence.Candidate, d.Name)
			}
			continue // another of the same shape stands there
		}
		start := bytes.LastIndexByte(files["wisdom.txt"][:i], '\n') + 1
		text, _, _ := strings.Cut(string(files["wisdom.txt"][start:]), "\n")
		fields := strings.Split(text, "\t")
		launch := "-" // of what wisdom files cannot say
		if im := w.Rendered.Implementation; im.Launch.Cluster == nil && im.TensorMaps == nil {
			launch = "1,1,1"
		}
		if !strings.HasPrefix(text, line) || len(fields) != 7 || launch == "-" && fields[5] != "-" || launch != "-" && strings.Count(fields[5], ",") != 7 {
			t.Errorf("wisdom.txt: %q", text)
		}
	}
	for name, text := range map[string]string{
		"include/evotune.h": "int evotune_reduce_workspace(int64_t ROWS, int64_t COLS, size_t *bytes);",
		"CMakeLists.txt":    "\"80;90\"",
		"src/kernels.c":     ".capability = 90,",
	} {
		if !bytes.Contains(files[name], []byte(text)) {
			t.Errorf("%s lacks %q", name, text)
		}
	}
	t.Run("Python", func(t *testing.T) { compilePython(t, files) })
}

// TestCUDAWithoutReference: a kernel that has no reference in CUDA is exported; the library's
// check says that it compared two calls.
func TestCUDAWithoutReference(t *testing.T) {
	w := withoutReference(t)
	files, err := Export([]*Winner{w}, Options{Lang: CUDA, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	check := string(files["test/check.c"])
	if files["test/reference_softmax.cu"] != nil || strings.Contains(string(files["CMakeLists.txt"]), "reference_softmax") || !strings.Contains(check, `evo_again("softmax"`) || strings.Contains(check, "double_") {
		t.Errorf("the check of a kernel without a reference in CUDA:\n%s", check)
	}
}

// withoutReference is a winner of a kernel that has no reference in CUDA.
func withoutReference(t *testing.T) *Winner {
	t.Helper()
	d, err := kernels.Load(kernels.Builtin(), "softmax") // the catalogue's is everybody's
	if err != nil {
		t.Fatal(err)
	}
	d = d.On("cuda")
	d.Implementations[0].Problem().DeviceReference = nil
	return cudaWinner(t, d, d.Implementations[0], d.Problem.ShapesFor(kernels.Tune)[0], rand.New(rand.NewSource(1)))
}

func TestCUDAExportRefuses(t *testing.T) {
	broken := func(change func(w *Winner)) []*Winner {
		d := cudaKernel(t, "softmax")
		w := cudaWinner(t, d, d.Implementations[0], d.Problem.ShapesFor(kernels.Tune)[0], rand.New(rand.NewSource(1)))
		change(w)
		return []*Winner{w}
	}
	for _, c := range []struct {
		name    string
		winners []*Winner
		options Options
		want    string
	}{
		{"another language", broken(func(*Winner) {}), Options{Lang: C}, "is for the cuda backend"},
		{"no proof", broken(func(w *Winner) { w.Evidence.Summary.Winner = false }), Options{Lang: CUDA}, "it won no finals"},
		{"no capability", broken(func(w *Winner) { w.Evidence.Description.Device.Facts = nil }), Options{Lang: CUDA}, "compute capability"},
		{"no compiler", broken(func(*Winner) {}), Options{Lang: CUDA, Embed: true, NVCC: "/nonexistent/nvcc"}, "/nonexistent/nvcc cannot be run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Export(c.winners, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// builtLong are the kernels, of both kinds, of which the long set builds libraries.
var builtLong = []string{"reduce", "rope-kv", "softmax", "spread"}

// TestCUDALibrariesBuildLong builds what is exported of a few kernels, and of their baselines, both ways,
// without a warning: what is for several devices by the usual nvcc, which may be an older
// one, the rest by one that knows sm_90a. TestCUDAExport exports all.
func TestCUDALibrariesBuildLong(t *testing.T) {
	longtest.Long(t, "it builds libraries for GPUs")
	buildLibraries(t, func(w *Winner) bool {
		return slices.Contains(builtLong, w.Rendered.Implementation.Definition().Name)
	}, withoutReference(t))
}

// TestCUDALibrariesBuildNightly builds what is exported of the others.
func TestCUDALibrariesBuildNightly(t *testing.T) {
	longtest.Nightly(t, "cuda", "it builds every kernel for GPUs into libraries")
	buildLibraries(t, func(w *Winner) bool {
		return !slices.Contains(builtLong, w.Rendered.Implementation.Definition().Name)
	}, nil)
}

// buildLibraries builds libraries with the winners of some kernels. One without a reference is in one of its own.
func buildLibraries(t *testing.T, has func(*Winner) bool, bare *Winner) {
	t.Helper()
	usual, exact := bothKinds(t, 3)
	others := func(w *Winner) bool { return !has(w) }
	usual, exact = slices.DeleteFunc(usual, others), slices.DeleteFunc(exact, others)
	nvcc, err := findNVCC("", nil)
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(t *testing.T, dir string){
		"sources":        func(t *testing.T, dir string) { buildCUDA(t, dir, usual, nvcc, false) },
		"embedded":       func(t *testing.T, dir string) { buildCUDA(t, dir, usual, nvcc, true) },
		"embedded-exact": func(t *testing.T, dir string) { buildCUDA(t, dir, exact, newerNVCC(t), true) },
		"sources-exact":  func(t *testing.T, dir string) { compileCUDASources(t, dir, exact, newerNVCC(t)) },
	}
	if bare == nil { // nightly
		d := cudaKernel(t, "gemm")
		beside := []*Winner{besideCublasLt(t, d, "wmma", d.Problem.ShapesFor(kernels.Tune)[0])}
		ways["beside cublasLt"] = func(t *testing.T, dir string) { buildCUDA(t, dir, beside, nvcc, false) }
	} else {
		ways["without a reference"] = func(t *testing.T, dir string) { buildCUDA(t, dir, []*Winner{bare}, nvcc, false) }
	}
	for name, build := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build(t, filepath.Join(t.TempDir(), "library"))
		})
	}
}

// compileCUDASources compiles the sources of a library as its CMakeLists.txt says, and
// links them but for CUDA's runtime, which a newer compiler beside an older toolkit
// may come without.
func compileCUDASources(t *testing.T, dir string, winners []*Winner, nvcc string) {
	t.Helper()
	files, err := Export(winners, Options{Lang: CUDA, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, files)
	problems, err := newProblems(winners)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-shared", "-o", "libevotune.so"}
	compile := func(by, source string, flags ...string) {
		t.Helper()
		object := strings.ReplaceAll(source, "/", "_") + ".o"
		if text := run(t, dir, by, slices.Concat(flags, []string{"-Iinclude", "-Isrc", "-c", "-o", object, source})...); strings.Contains(strings.ToLower(text), "warning") {
			t.Errorf("%s: %s", source, text)
		}
		if !strings.HasPrefix(source, "test/") {
			args = append(args, object)
		}
	}
	strict := []string{"-std=c11", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-isystem", filepath.Join(filepath.Dir(filepath.Dir(nvcc)), "include")}
	for _, p := range problems {
		if err := (&export{}).addBaseline(p); err != nil {
			t.Fatal(err)
		}
		for _, v := range p.Variants {
			g, err := newGPU(v)
			if err != nil {
				t.Fatal(err)
			}
			flags := withStandard(v.Rendered.Flags)
			for _, a := range g.Architectures {
				flags = append(flags, "-gencode=arch=compute_"+a+",code=sm_"+a)
			}
			compile(nvcc, "src/kernels/"+v.Symbol+".cu", append(flags, "-Xcompiler", "-fPIC,-fvisibility=hidden")...)
			strict = append(strict, "-DEVOTUNE_HAVE_"+v.Symbol)
		}
		compile(nvcc, "test/reference_"+p.Name+".cu", "-fmad=false", "-std=c++17", "-gencode=arch=compute_90,code=compute_90")
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".c") {
			compile("gcc", name, strict...)
		}
	}
	run(t, dir, "gcc", append(args, "-lm", "-ldl", "-lpthread")...)
	onlyOurs(t, filepath.Join(dir, "libevotune.so"))
	f, err := elf.Open(filepath.Join(dir, "libevotune.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	missing, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	launches := false
	for _, m := range missing {
		launches = launches || m.Name == "cudaLaunchKernelExC"
		if strings.Contains(m.Name, "evotune") || strings.HasPrefix(m.Name, "evo_") {
			t.Errorf("the library lacks %s", m.Name)
		}
	}
	if !launches {
		t.Error("the library does not launch by cudaLaunchKernelExC")
	}
}

// bothKinds are winners of all kernels: those whose code is for several devices, and
// those whose is for one compute capability alone.
func bothKinds(t *testing.T, seed int64) (usual, exact []*Winner) {
	t.Helper()
	for _, w := range append(cudaWinners(t, seed), spreadWinner(t, map[string]any{"BLOCKS": 2, "EARLY": true})) {
		g, err := newGPU(&variant{Rendered: w.Rendered})
		if err != nil {
			t.Fatal(err)
		}
		if g.Exact {
			exact = append(exact, w)
		} else {
			usual = append(usual, w)
		}
	}
	return usual, exact
}

// buildCUDA exports winners into a folder and builds the library.
func buildCUDA(t *testing.T, dir string, winners []*Winner, nvcc string, embed bool) {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := Export(winners, Options{Lang: CUDA, By: "test", Embed: embed, NVCC: nvcc, Compile: cuda.Fatbin})
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, files)
	for _, args := range [][]string{
		// Some systems link the C++ library in; what is asked for here is some of it.
		{
			"-S", dir, "-B", filepath.Join(dir, "build"), "-DCMAKE_C_FLAGS=-Wall -Wextra", "-DCMAKE_CUDA_COMPILER=" + nvcc,
			"-DCMAKE_SHARED_LINKER_FLAGS=-static-libstdc++ -Wl,-u,__cxa_demangle",
		},
		{"--build", filepath.Join(dir, "build"), "-j", "2"},
	} {
		if embed { // needs no compiler of CUDA
			args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "-DCMAKE_CUDA_COMPILER=") })
		}
		out, err := exec.CommandContext(t.Context(), "cmake", args...).CombinedOutput()
		if err != nil || bytes.Contains(bytes.ToLower(out), []byte("warning")) || bytes.Contains(out, []byte("left out")) {
			t.Fatalf("cmake %q: %v\n%s", args, err, out)
		}
	}
	onlyOurs(t, filepath.Join(dir, "build", "libevotune.so"))
}

// onlyOurs: a library gives nothing to others but its own interface. PyTorch's
// operators have crashed on a C++ library that came along.
func onlyOurs(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && !strings.HasPrefix(s.Name, "evotune_") {
			t.Fatalf("%s defines %s for everybody", path, s.Name)
		}
	}
}
