package export

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/internal/cublaslt"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// besideCublasLt is a winner that finals found to be slower than a routine of cublasLt.
func besideCublasLt(t *testing.T, d *kernels.Definition, implementation string, shape kernels.Shape) *Winner {
	t.Helper()
	i := max(0, slices.IndexFunc(d.Implementations, func(im *kernels.Implementation) bool { return im.Name == implementation }))
	w := cudaWinner(t, d, d.Implementations[i], shape, rand.New(rand.NewSource(1)))
	w.Evidence.Summary.Speedup, w.Evidence.Summary.Significant = 0.953, false
	w.Evidence.Finals.Entries[0].Evidence = []evaluator.Evidence{{
		Check:  "baseline " + shape.Name,
		Detail: "cublasLt 13.0.2, best of 17 algorithms: algorithm 66, tile 20, stages 36, cluster 3, split 1, 7.1 us with a warm cache; the first that the library proposes takes 7.3 us",
	}}
	return w
}

// withGenome is gemm with a genome that stands in for cublasLt.
func withGenome(t *testing.T) *kernels.Definition {
	t.Helper()
	d, err := kernels.Load(kernels.Builtin(), "gemm") // the catalogue's is everybody's
	if err != nil {
		t.Fatal(err)
	}
	d = d.On("cuda")
	d.Implementations[0].Baseline().Genome = map[string]any{
		"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "WARPS_M": 2, "WARPS_N": 2, "STAGES": 3, "GROUP": 1, "SPLIT_K": 1, "AHEAD": false, "COPIES": "first",
		"EPILOGUE": "direct", "L2_PREFETCH": 0, "MIN_BLOCKS": 1,
	}
	return d
}

// TestVendor: where finals found nothing faster than cublasLt, a library calls it, and says so.
func TestVendor(t *testing.T) {
	var told []string
	options := Options{Lang: CUDA, By: "test", Tell: func(line string) { told = append(told, line) }}
	d := cudaKernel(t, "gemm")
	w := besideCublasLt(t, d, "wmma", d.Problem.ShapesFor(kernels.Tune)[0])
	files := mustExport(t, []*Winner{w}, options)
	const want = "gemm at 2048: the winner of its campaign was not faster than the baseline (0.953x): the library calls matmul_nn of libcublasLt.so there, and the winner where that is not installed"
	if len(told) != 1 || told[0] != want || !strings.Contains(string(files["README.md"]), "- "+want) {
		t.Errorf("told %q", told)
	}
	for name, texts := range map[string][]string{
		"src/kernels.c":  {`{"2048", (const int64_t[]){2048, 2048, 2048}`, ", 100, 2},", "{ {1, 2048, 2048, 2048}, {66, 20, 36, 3, 1} },", "\t\t.routine = 1,"},
		"CMakeLists.txt": {" src/vendor.c)", " ${CMAKE_DL_LIBS})"},
		"manifest.json":  {`"routine": "matmul_nn of libcublasLt.so"`},
		"src/lt.h":       {"LT_WORKSPACE = 67108864,"},
	} {
		for _, text := range texts {
			if !strings.Contains(string(files[name]), text) {
				t.Errorf("%s lacks %q", name, text)
			}
		}
	}
	// One that finals found to be faster calls nothing else, and contains nothing for it.
	w.Evidence.Summary.Speedup, w.Evidence.Summary.Significant = 1.2, true
	files = mustExport(t, []*Winner{w}, options)
	if files["src/vendor.c"] != nil || files["src/lt.h"] != nil || strings.Contains(string(files["CMakeLists.txt"]), "vendor.c") || len(told) != 1 {
		t.Errorf("a library without a use for cublasLt has vendor.c, or tells of it: %q", told)
	}
}

// standInLt tells of everything that it is asked. It proposes three algorithms: one that needs too much, one
// that finals did not choose, and one that they did, with a workspace unless it may have none.
const standInLt = `
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define OUT(...) (printf(__VA_ARGS__), 0)
struct result { uint64_t algorithm[8], workspace; int state; float waves; int reserved[4]; };
static void number(const char *what, int attribute, const void *value, size_t bytes)
{
	int64_t v = 0;
	memcpy(&v, value, bytes);
	printf("%s %d %d:%lld\n", what, attribute, (int)bytes, (long long)v);
}
static int live;
static int make(void **at) { live++; *at = malloc(1); return 0; }
static int drop(void *at) { live--; free(at); return 0; }
int cublasLtCreate(void **h) { *h = (void *)5; return getenv("FAKE_LT_REFUSES") ? 1 : OUT("create\n"); }
int cublasLtDestroy(void *h) { return !h; }
size_t cublasLtGetVersion(void) { return 130002; }
int cublasLtMatmulDescCreate(void **d, int compute, int scale) { printf("product %d %d\n", compute, scale); return make(d); }
int cublasLtMatmulDescDestroy(void *d) { return drop(d); }
int cublasLtMatmulDescSetAttribute(void *d, int a, const void *v, size_t n) { (void)d; number("desc", a, v, n); return 0; }
int cublasLtMatrixLayoutCreate(void **l, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
	printf("layout %d %d %d %d\n", type, (int)rows, (int)cols, (int)ld);
	return make(l);
}
int cublasLtMatrixLayoutDestroy(void *l) { return drop(l); }
int cublasLtMatrixLayoutSetAttribute(void *l, int a, const void *v, size_t n) { (void)l; number("of", a, v, n); return 0; }
int cublasLtMatmulPreferenceCreate(void **p) { return make(p); }
int cublasLtMatmulPreferenceDestroy(void *p) { return drop(p); }
int cublasLtMatmulPreferenceSetAttribute(void *p, int a, const void *v, size_t n) { (void)p; number("prefer", a, v, n); return 0; }
int cublasLtMatmulAlgoGetHeuristic(void *h, void *d, void *a, void *b, void *c, void *e, void *p, int most, struct result *r, int *found)
{
	(void)h, (void)d, (void)a, (void)b, (void)c, (void)e, (void)p;
	*found = getenv("FAKE_LT_NONE") ? 0 : 3;
	for (int i = 0; i < *found; i++)
		r[i] = (struct result){.algorithm = {(uint64_t)i}, .workspace = i == 0 ? 65 << 20 : i == 2 ? 4096 : 0};
	return OUT("heuristic %d\n", most);
}
int cublasLtMatmulAlgoConfigGetAttribute(const void *algorithm, int a, void *v, size_t n, size_t *written)
{
	const int chosen[] = {[0] = 66, [1] = 20, [2] = 1, [6] = 36, [8] = 3};
	const int value = *(const uint64_t *)algorithm == 2 ? chosen[a] : 9;
	memcpy(v, &value, n);
	*written = n;
	return 0;
}
int cublasLtMatmul(void *h, void *d, const float *one, const void *a, void *la, const void *b, void *lb, const float *beta, const void *c, void *lc,
	void *e, void *le, const void *algorithm, void *workspace, size_t bytes, void *stream)
{
	(void)d, (void)la, (void)lb;
	printf("matmul %d %g %d %d %g %d %d %d by %d in %d, %d on %d, %d are left\n", (int)(intptr_t)h, *one, (int)(intptr_t)a, (int)(intptr_t)b, *beta, (int)(intptr_t)c,
		(int)(intptr_t)e, lc == le, (int)*(const uint64_t *)algorithm, (int)(intptr_t)workspace, (int)bytes, (int)(intptr_t)stream, live);
	if (getenv("FAKE_LT_REJECTS") && *(const uint64_t *)algorithm == 2)
		return 15;
	return getenv("FAKE_LT_FAILS") ? 13 : 0;
}
`

// anyLaunch is the rest of standInDriver, for kernels of any kind.
const anyLaunch = `
int cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) { *f = (CUfunction)m; return strncmp(name, "evotune_kernel", 14); }
int cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **args, void **extra)
{
	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)s, (void)args, (void)extra;
	printf("launch %.*s\n", (int)strcspn((char *)f, "\n"), (char *)f);
	return 0;
}
int cuLaunchKernelEx(const struct evo_config *c, CUfunction f, void **args, void **extra) { return cuLaunchKernel(f, 0, 0, 0, 0, 0, 0, c->shared, c->stream, args, extra); }
int cuTensorMapEncodeTiled(void *m, int type, uint32_t axes, void *at, const uint64_t *dims, const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int i, int s, int p, int n)
{
	(void)m, (void)type, (void)axes, (void)at, (void)dims, (void)strides, (void)box, (void)steps, (void)i, (void)s, (void)p, (void)n;
	return 0;
}
int cuStreamIsCapturing(CUstream s, int *status) { (void)s; *status = 0; return 0; }
`

// wantedCalls is what the library is told of a product, by what the worker tells it.
func wantedCalls(t *testing.T, m cublaslt.Matmul, buffers []cublaslt.Buffer, dims, elements []int64, bias int) string {
	t.Helper()
	p, err := m.Product("s", dims, elements, buffers)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	flag := func(t bool) int { return map[bool]int{true: cublaslt.OpT, false: cublaslt.OpN}[t] }
	at := func(operand string) int { return slices.Index(m.Operands(), operand) }
	say("product %d %d", m.Compute(), cublaslt.Types["f32"])
	say("desc %d 4:%d\ndesc %d 4:%d\ndesc %d 4:%d", cublaslt.DescTransA, flag(p.TransA), cublaslt.DescTransB, flag(p.TransB), cublaslt.DescEpilogue, m.Epilogue())
	if m.Bias {
		say("desc %d 8:%d", cublaslt.DescBias, bias)
	}
	if m.Fast {
		say("desc %d 1:1", cublaslt.DescFast)
	}
	for i, of := range []cublaslt.Layout{p.A, p.B, p.C} {
		say("layout %d %d %d %d", cublaslt.Types[buffers[at([]string{"B", "A", "C"}[i])].DType], of.Rows, of.Cols, of.LD)
		if p.Batch > 1 {
			say("of %d 4:%d\nof %d 8:%d", cublaslt.LayoutBatch, p.Batch, cublaslt.LayoutStride, of.Stride)
		}
	}
	return b.String()
}

// TestVendorLong calls what every kernel whose baseline is cublasLt exports, through one that stands in for it: it is told what
// the worker tells it. Without it, or where it cannot, the library's own kernel is launched.
func TestVendorLong(t *testing.T) {
	longtest.Long(t, "it compiles a library")
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	nvcc := filepath.Join(dir, "nvcc")
	if err := os.WriteFile(nvcc, []byte(strings.Replace(standInNVCC, "while", "if [ \"$1\" = --dryrun ]; then exit; fi\nwhile", 1)), 0o755); err != nil {
		t.Fatal(err)
	}
	var winners []*Winner
	for _, d := range cudaKernels(t) {
		if d.Name == "gemm" {
			d = withGenome(t)
		}
		if b := d.Implementations[0].Baseline(); b.Library == "libcublasLt.so" {
			winners = append(winners, besideCublasLt(t, d, "wmma", d.Problem.ShapesFor(kernels.Tune)[0]))
		}
	}
	if len(winners) < 7 {
		t.Fatalf("%d kernels beside cublasLt", len(winners))
	}
	files, err := Export(winners, Options{Lang: CUDA, By: "test", Embed: true, NVCC: nvcc, Compile: cuda.Fatbin})
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, files)
	// Every product is called twice, the second time with an array that is aligned to 16 bytes only.
	var calls strings.Builder
	want := map[string][2]string{}
	for _, w := range winners {
		im := w.Rendered.Implementation
		p := im.Problem()
		s, err := p.Shape(w.Evidence.Shapes[0])
		if err != nil {
			t.Fatal(err)
		}
		m, err := cublaslt.Parse("cublasLt:" + im.Baseline().Symbol)
		if err != nil {
			t.Fatal(err)
		}
		var dims, elements []int64
		var texts []string
		var buffers []cublaslt.Buffer
		at := map[string]int{}
		for _, d := range p.Dims {
			dims, texts = append(dims, s.Dims[d]), append(texts, fmt.Sprint(s.Dims[d]))
		}
		for i, of := range p.Buffers {
			n, err := p.Elements(of, s)
			if err != nil {
				t.Fatal(err)
			}
			at[m.Operands()[i]] = 4096 * (i + 1)
			elements, buffers = append(elements, n), append(buffers, cublaslt.Buffer{Name: of.Name, DType: string(of.DType), Role: string(of.Role)})
			odd := ""
			if i == 0 {
				odd = " + 16*i"
			}
			texts = append(texts, fmt.Sprintf("(void *)(intptr_t)(%d%s)", 4096*(i+1), odd))
		}
		name := word(w.Evidence.Kernel)
		fmt.Fprintf(&calls, "\tprintf(\"= %s\\n\");\n\tfor (int i = 0; i < 2; i++) {\n\t\tprintf(\"choice %%d\", evotune_%[1]s_choice(%[2]s, &c));\n\t\tprintf(\" %%d %%s.\\n\", c.rule, c.candidate);\n"+
			"\t\tprintf(\"workspace %%d\", evotune_%[1]s_workspace(%[2]s, &bytes));\n\t\tprintf(\" %%d\\n\", (int)bytes);\n"+
			"\t\tprintf(\"status %%d\\n\", evotune_%[1]s(%[3]s, (void *)65536, bytes, (evotune_stream)7));\n\t}\n", name, strings.Join(texts[:len(dims)], ", "), strings.Join(texts, ", "))
		prefer := func(workspace, a int) string {
			text := fmt.Sprintf("prefer %d 8:%d\nprefer %d 4:%d\n", cublaslt.PreferWorkspace, workspace, cublaslt.PreferReduction, cublaslt.ReduceComputeType)
			if a > 0 { // our A is the library's B
				text += fmt.Sprintf("prefer %d 4:%d\n", cublaslt.PreferAlignmentA+1, a)
			}
			return text + fmt.Sprintf("heuristic %d\n", cublaslt.Algorithms)
		}
		beta, residual := 0, at["C"]
		if m.Residual {
			beta, residual = 1, at["residual"]
		}
		matmul := func(odd int) string {
			return wantedCalls(t, m, buffers, dims, elements, at["bias"]) +
				fmt.Sprintf("matmul 5 1 %d %d %d %d %d 1 by 2 in 65536, 4096 on 7, 4 are left\nstatus 0\n", at["B"], at["A"]+odd, beta, residual, at["C"])
		}
		asked := wantedCalls(t, m, buffers, dims, elements, 512)
		want[name] = [2]string{
			asked + prefer(cublaslt.Workspace, 0) + "choice 0 4 .\nworkspace 0 4096\n" + matmul(0),
			"choice 0 4 .\nworkspace 0 4096\n" + asked + prefer(4096, 16) + matmul(16),
		}
	}
	program := "#include <stdint.h>\n#include <stdio.h>\n#include \"evotune.h\"\nint main(void)\n{\n\tstruct evotune_choice c;\n\tsize_t bytes;\n\tsetvbuf(stdout, NULL, _IONBF, 0);\n\tprintf(\"prepare %d\\n\", evotune_prepare());\n" +
		calls.String() + "\treturn 0;\n}\n"
	writeFiles(t, dir, map[string][]byte{
		"fake/libcuda.c": []byte(standInDriver + anyLaunch), "lt.c": []byte(standInLt), "program.c": []byte(program), "none.c": nil, "lt/keep": nil, "none/keep": nil,
	})
	strict := []string{"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Isrc"}
	run(t, dir, cc, append(strict, "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", "fake/libcuda.so.1", "fake/libcuda.c")...)
	run(t, dir, cc, append(strict, "-shared", "-fPIC", "-o", "lt/libcublasLt.so.13", "lt.c")...)
	for _, name := range cublaslt.Names() { // that an installed one is not found
		run(t, dir, cc, "-shared", "-fPIC", "-o", "none/"+name, "none.c")
	}
	run(t, dir, cc, slices.Concat(strict, []string{"-fsanitize=undefined,address", "-pthread", "-o", "program", "program.c"}, sourcesIn(files), []string{"-lm", "-ldl"})...)
	on := func(folder string, env ...string) (string, string) {
		t.Helper()
		var out, told strings.Builder
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "program"))
		cmd.Env = append(env, "LD_LIBRARY_PATH="+filepath.Join(dir, "fake")+":"+filepath.Join(dir, folder), "FAKE_CAPABILITY=90", "FAKE_NAME=NVIDIA H200", "ASAN_OPTIONS=detect_leaks=0")
		cmd.Stdout, cmd.Stderr = &out, &told
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s%s", err, out.String(), told.String())
		}
		return out.String(), told.String()
	}
	parts := func(out string) map[string]string {
		list := map[string]string{}
		for _, part := range strings.Split(out, "= ")[1:] {
			name, text, _ := strings.Cut(part, "\n")
			list[name] = text
		}
		return list
	}

	out, told := on("lt")
	if told != "" || strings.Count(out, "create\n") != 1 || !strings.Contains(out[:strings.Index(out, "= ")], "create\n") || !strings.Contains(out, "\nprepare 0\n= ") {
		t.Errorf("prepared with\n%.400s\ntold %q", out, told)
	}
	for name, text := range parts(out) {
		if w := want[name][0] + want[name][1]; text != w {
			t.Errorf("%s: the library was told\n%swant\n%s", name, text, w)
		}
	}
	for _, c := range []struct{ folder, variable, told string }{
		{"none", "X=", "evotune: cublasLt cannot be called (it has no cublasLtCreate): kernels of this library compute what it was faster at\n"},
		{"lt", "FAKE_LT_REFUSES=1", "evotune: cublasLt cannot be called (it refuses this device): kernels of this library compute what it was faster at\n"},
		{"lt", "FAKE_LT_NONE=1", ""},
	} {
		out, told := on(c.folder, c.variable)
		id := winners[slices.IndexFunc(winners, func(w *Winner) bool { return w.Evidence.Kernel == "gemm" })].Evidence.Candidate
		if told != c.told || !strings.Contains(parts(out)["gemm"], "choice 0 1 "+id+".\n") || !strings.Contains(parts(out)["gemm"], "launch gemm, "+id+"\n") || strings.Contains(out, "matmul") {
			t.Errorf("%s: told %q\n%s", c.variable, told, parts(out)["gemm"])
		}
	}
	if out, _ := on("lt", "FAKE_LT_FAILS=1"); !strings.Contains(parts(out)["gemm"], "status 6\n") {
		t.Errorf("it failed, and the library says\n%s", parts(out)["gemm"])
	}
	// An algorithm that is proposed and cannot be run gives way to the next.
	if out, _ := on("lt", "FAKE_LT_REJECTS=1"); !regexp.MustCompile(`(?s)by 2 in 65536, 4096 .*by 1 in 65536, 0 on 7, 4 are left\nstatus 0\n`).MatchString(parts(out)["gemm"]) {
		t.Errorf("what the library proposes first cannot be run, and it is told\n%s", parts(out)["gemm"])
	}
}
