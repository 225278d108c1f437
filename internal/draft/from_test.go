package draft_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/kernels"
)

// from writes a source and makes a folder of it; what it says is given without the
// path of the temporary folder.
func from(t testing.TB, name, text, entry string) (*draft.Draft, string, error) {
	t.Helper()
	temp := t.TempDir()
	file := filepath.Join(temp, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(temp, "made")
	d, err := draft.From(dir, "made", file, entry, nil)
	if err == nil {
		return d, dir, nil
	}
	if _, bad := os.Stat(dir); bad == nil {
		t.Errorf("a folder is made in spite of %v", err)
	}
	return d, dir, errors.New(strings.ReplaceAll(err.Error(), temp+string(filepath.Separator), ""))
}

// What cannot be understood is refused in one line that says where and what to do.
func TestFromRefusals(t *testing.T) {
	const plain = "void f(int n, const float *x, float *y) { y[0] = x[0] * TILE; }\n"
	const tile = "#define TILE 8 // tune: 4, 8\n"
	for _, c := range []struct{ name, text, entry, want string }{
		{"k.cpp", tile + plain, "", "k.cpp: the name ends neither in .c nor in .cu: C++ without CUDA cannot be tuned yet"},
		{"k.c", plain, "", "k.c:1: nothing says what to tune: write the values to try behind a macro, as #define TILE 32 // tune: 16, 32, 64"},
		{"k.c", tile, "", "k.c: it defines no function outside of classes and namespaces: name a file that has the kernel itself"},
		{"k.cu", tile + plain, "", "k.cu: it defines no __global__ function outside of classes and namespaces: name a file that has the kernel itself"},
		{"k.c", tile + plain + "void g(int n, float *y) {}\n", "", "k.c: it defines several functions: choose one with --entry: f, g"},
		{"k.c", tile + plain, "F2", `k.c: it defines no function "F2": did you mean f?`},
		{"k.c", tile + "struct s f(int n, const float *x) { return 0; }", "", "k.c:2: f returns struct s: let it return a number, or write that through a pointer"},
		{"k.c", tile + "float *f(int n, const float *x) { return 0; }", "", "k.c:2: f returns float *: let it return a number, or write that through a pointer"},
		{"k.c", tile + "void f(float *y) { }", "", "k.c:2: f has no integer argument: evotune calls kernels with their sizes, so make one of what is fixed in the source"},
		{"k.c", tile + "void f(void) { }", "", "k.c:2: f takes no arguments: it needs its buffers and sizes as arguments"},
		{"k.c", tile + "void f(int n,\n struct s *y) { }", "", "k.c:3: y points to elements of the type struct s, which evotune does not know: write what it holds, as // tune: y = float; there are float, double, int64_t, int32_t, int16_t, int8_t, uint32_t, uint16_t and uint8_t, in CUDA __half, __nv_bfloat16, __nv_fp8_e4m3 and __nv_fp8_e5m2 too"},
		{"k.c", tile + "void f(int n, __nv_fp8_e4m3 *y) { }", "", "k.c:2: y holds elements of the type __nv_fp8_e4m3, which GPUs alone have: give a source whose name ends in .cu"},
		{"k.c", tile + "void f(int n, __half *y) { }", "", "k.c:2: y holds elements of the type __half, which C does not have: take uint16_t, and say what its bits are, as // tune: y = __half"},
		{"k.c", tile + "void f(int n, short *y) { } // tune: y = float", "", "k.c:2: y points to short, which has 2 bytes, and is declared as float, which has 4: correct one of the two"},
		{"k.c", tile + "void f(int n, void *y) { } // tune: y = quad", "", "k.c:2: y cannot be declared as quad: there are float, double, int64_t, int32_t, int16_t, int8_t, uint32_t, uint16_t and uint8_t, in CUDA __half, __nv_bfloat16, __nv_fp8_e4m3 and __nv_fp8_e5m2 too"},
		{"k.c", tile + "void f(int n, float **y) { }", "", `k.c:2: the argument "float **y" of f is neither a number nor a pointer to numbers: give the kernel such arguments`},
		{"k.c", tile + "void f(int n, float *y) { \n", "", "k.c:3: the file ends within braces: give a source whose braces match without its #if"},
		{"k.c", tile + "void f(int n, const float *x) { }", "", `k.c:2: no definition can be made of it: no buffer has role "out" or "inout": a kernel must write something`},
		{"k.c", tile + "void f(int TILE, float *y) { }", "", "k.c:2: no definition can be made of it: parameter TILE has the name of a dimension: choose another"},
		{"k.c", "#define TILE 5 // tune: 4, 8\n" + plain, "", "k.c:1: TILE is 5, which is not among its values: add it, since it is what speedups are measured against"},
		{"k.c", "#define TILE 4 // tune: 4, 4\n" + plain, "", "k.c:1: TILE has the value 4 twice: remove one"},
		{"k.c", "#define TILE 4 // tune: 4, x\n" + plain, "", "k.c:1: the values 4 and x of TILE are of two kinds: write integers, words, or true and false"},
		{"k.c", "#define TILE 4 // tune: 4, 1180591620717411303424\n" + plain, "", "k.c:1: the value 1180591620717411303424 of TILE does not fit into 64 bits: give a smaller number"},
		{"k.c", "#define TILE 4 // tune: 4,\n" + plain, "", "k.c:1: TILE has an empty value: write them as // tune: 16, 32, 64"},
		{"k.c", "#define TILE 4 // tune: 4\n" + plain, "", "k.c:1: TILE has one value: give several, or remove the comment"},
		{"k.c", tile + "// tune: 1, 2\n" + plain, "", "k.c:2: this comment says what to tune of nothing: put it behind a #define, a constexpr or a template parameter of f"},
		{"k.c", tile + "// tune: BM = 1, 2\n" + plain, "", `k.c:2: f has no template parameter "BM": a macro has its comment on its own line, as #define TILE 32 // tune: 16, 32`},
		{"k.cu", tile + "__global__ void f(int n, float y[][4]) { }", "", "k.cu:2: y is an array of arrays, whose size a caller in CUDA cannot give: make it a pointer"},
		{"k.cu", "template <int BM>\n__global__ void f(int n, float *y) { }", "", "k.cu:1: the template parameter BM has no values: add a comment // tune: BM = 16, 32 (one value fixes it)"},
		{"k.cu", "template <int BM = 3> // tune: 4, 8\n__global__ void f(int n, float *y) { }", "", "k.cu:1: the default of BM is 3, which is not among its values: add it, since it is what speedups are measured against"},
		{"k.cu", "template <typename T> // tune: T = float, double\n__global__ void f(int n, T *y) { }", "", "k.cu:2: y is of the type T, of which there are several: fix it with // tune: T = float, since a definition has one type of element"},
	} {
		if _, _, err := from(t, c.name, c.text, c.entry); err == nil || err.Error() != c.want {
			t.Errorf("%q\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

// A file that is included must not have the name of one that evotune writes: it would be
// lost, and the candidate would include the reference.
func TestFromRefusesOwnNames(t *testing.T) {
	for _, c := range []struct{ name, include, file, want string }{
		{"k.c", "reference.c", "reference.c", "k.c:1: it includes reference.c, which is the name of a file that evotune writes: rename it"},
		{"k.c", "./Reference.c", "Reference.c", "k.c:1: it includes Reference.c, which is the name of a file that evotune writes: rename it"},
		{"k.c", "kernel.toml", "kernel.toml", "k.c:1: it includes kernel.toml, which is the name of a file that evotune writes: rename it"},
		{"k.c", "kernel.c.tmpl", "kernel.c.tmpl", "k.c:1: it includes kernel.c.tmpl, which is the name of a file that evotune writes: rename it"},
		{"k.cu", "kernel.cu.tmpl", "kernel.cu.tmpl", "k.cu:1: it includes kernel.cu.tmpl, which is the name of a file that evotune writes: rename it"},
		{"k.c", "other.h", "reference.c", "k.c: it includes reference.c, which is the name of a file that evotune writes: rename it"},
		{"k.c", "sub/reference.c", "sub/reference.c", ""},
	} {
		temp := t.TempDir()
		for name, text := range map[string]string{
			c.name:    "#include \"" + c.include + "\"\n#define U 1 // tune: 1, 2\n__global__ void f(int n, float *y)\n{ y[0] = U; }\n",
			"other.h": "#include \"reference.c\"\n",
			c.file:    "static void helper(void) {}\n",
		} {
			file := filepath.Join(temp, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		dir := filepath.Join(temp, "made")
		_, err := draft.From(dir, "made", filepath.Join(temp, c.name), "", nil)
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), temp+string(filepath.Separator), "")
		}
		if got != c.want {
			t.Errorf("%s\ngot  %q\nwant %q", c.include, got, c.want)
		}
		if _, err := os.Stat(dir); (err == nil) != (c.want == "") {
			t.Errorf("%s: the folder: %v", c.include, err)
		}
	}
}

// What the source says is taken from it, in the forms in which people write it.
func TestFromForms(t *testing.T) {
	for _, c := range []struct {
		what, name, text, entry string
		file                    string // of the folder, that has want
		want                    string
	}{
		{
			"shapes of arrays", "k.c",
			"#define U 1 // tune: 1, 2\nvoid f(int n, int m, const double a[restrict n][m], double y[static 3])\n{ y[0] = a[0][0]; }", "",
			"kernel.toml", "name = \"a\"\ndtype = \"f64\"\nshape = [\"n\", \"m\"]\nrole = \"in\"",
		},
		{
			"what is passed for arrays", "k.c",
			"#define U 1 // tune: 1, 2\nvoid f(int n, int m, const double a[n][m], double *y)\n{ y[0] = a[0][0]; }", "",
			"kernel.c.tmpl", "void run_made(int64_t n, int64_t m, const double *a, double *y)\n{\n\tf(n, m, (void *)a, y);\n}\n",
		},
		{
			"what is passed for arrays of a tuned size", "k.c",
			"#define TILE 8 // tune: 4, 8\nvoid f(int n, const float A[n][TILE], float *y)\n{ y[0] = A[0][0]; }", "",
			"kernel.c.tmpl", "\n\tf(n, (void *)A, y);\n",
		},
		{
			"functions that would meet those of another candidate in a library", "k.c",
			"float g(float);\n#define U 1 // tune: 1, 2\nextern float g(float x) { return x * U; }\nstatic int h(void) { return 0; }\nvoid f(int n, const float *x, float *y)\n{ y[h()] = g(x[0]); }", "f",
			"kernel.c.tmpl", "static float g(float);\n#define U {{.U}} // tune: 1, 2\nstatic float g(float x) { return x * U; }\nstatic int h(void) { return 0; }\nstatic void f(int n, const",
		},
		{
			"an output of one element that is changed", "k.c",
			"#define U 1 // tune: 1, 2\nvoid f(int n, float *y)\n{\n (*y)++;\n}", "",
			"kernel.toml", "line 4 of k.c changes it",
		},
		{
			"an output that is changed", "k.c",
			"#define U 1 // tune: 1, 2\nvoid f(int n, float *y)\n{\n for (int i = 0; i < n; i++)\n  y[i % (n)] += U;\n}", "",
			"kernel.toml", `role = 'FILL IN: "out", or "inout" if y counts before the launch, with a line data = "uniform(-1,1)" below: line 5 of k.c changes it'`,
		},
		{
			"integers alone, which have no floating-point operations", "k.cu",
			"#define U 1 // tune: 1, 2\n__global__ void f(int n, const unsigned char *x, unsigned *y)\n{ atomicAdd(&y[x[0]], U); }", "",
			"kernel.toml", "dims = [\"n\"]\nbytes = ",
		},
		{
			"tensor cores, of which there are several peaks", "k.cu",
			"#define U 1 // tune: 1, 2\n__global__ void f(int n, float *y)\n{ asm(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32\"); }", "",
			"kernel.toml", "\npipe = 'FILL IN: the peak that bounds the operations",
		},
		{
			"attributes, which are not functions", "k.c",
			"#define U 1 // tune: 1, 2\n__attribute__((cold)) void f(int n, float *y) __attribute__((hot)) __attribute__ ((noinline))\n{ y[0] = n; }", "f",
			"kernel.c.tmpl", "void run_made(int64_t n, float *y)\n{\n\tf(n, y);\n}\n",
		},
		{
			"words and truths", "k.c",
			"#define T float // tune: float, double\n#define P (true) // tune: false, (true)\nvoid f(int n, float *y)\n{ y[0] = (T)n; }", "",
			"kernel.toml", "values = [\"float\", \"double\"]\n\n[[implementation.parameter]]\nname = \"P\"\nvalues = [false, true]\n\n[implementation.baseline]\ngenome = { T = \"float\", P = true }\n",
		},
		{
			"parentheses, which stay", "k.c",
			"#define U (-1) // tune: -1, -2\nvoid f(int n, float *y)\n{ y[0] = n -U; }", "",
			"kernel.c.tmpl", "#define U ({{.U}}) // tune",
		},
		{
			"a constant, and braces", "k.cu",
			"constexpr int W[1] = {{4}};\nstatic constexpr unsigned U = 0x10; // tune: 8, 16\n__global__ void f(int n, float *y)\n{ y[0] = W[0]; }", "",
			"kernel.cu.tmpl", "constexpr int W[1] = {{\"{{\"}}4}};\nstatic constexpr unsigned U = {{.U}}; // tune: 8, 16\n__device__ __forceinline__ void f(",
		},
		{
			"extern C, whose braces do not count", "k.cu",
			"extern \"C\" {\n#define U 1 // tune: 1, 2\n__global__ void f(int n, float *y)\n{ y[0] = 1; }\n}", "",
			"kernel.cu.tmpl", "__device__ __forceinline__ void f(int n, float *y)\n",
		},
		{
			"one of several, the launch that the source has, dynamic shared memory", "k.cu",
			"#define U 1 // tune: 1, 2\n__global__ void e(int n, float *y) {}\n__global__ void f(int n, float *y)\n{ extern __shared__ float s[]; y[0] = s[0]; }\n" +
				"void go(int n, float *y) { dim3 g(n, 2); f<<<g, 64, 256>>>(n, y); }", "f",
			"kernel.toml", "line 5 of k.cu has <<<g, 64, 256>>> with dim3 g(n, 2), such as [\"256\"]'\nshared = \"FILL IN: ",
		},
		{
			"includes at the start, whose guard is whole", "k.cu",
			"#include <cuda_runtime.h>\n#include <vector>\n#include <cuda/pipeline>\n#define U 1 // tune: 1, 2\n__global__ void f(int n, float *y)\n{ y[0] = U; }", "",
			"kernel.cu.tmpl", "#ifndef __CUDACC_RTC__\n#include <cuda_runtime.h>\n#include <vector>\n#endif\n#include <cuda/pipeline>\n#define U {{.U}} // tune",
		},
		{
			"an include after an edit", "k.cu",
			"#define U 1 // tune: 1, 2\n#include <curand_kernel.h>\n#include <math.h>\n#include <cub/cub.cuh>\n__global__ void f(int n, float *y)\n{ y[0] = U; }", "",
			"kernel.cu.tmpl", "#define U {{.U}} // tune: 1, 2\n#include <curand_kernel.h>\n#ifndef __CUDACC_RTC__\n#include <math.h>\n#endif\n#include <cub/cub.cuh>\n__device__",
		},
		{
			"declarations before, and what only the host calls", "k.cu",
			"#define U 1 // tune: 1, 2\nextern \"C\" __global__ void __launch_bounds__(64) f(int n, float *y);\nvoid go(int n, float *y, cudaStream_t s);\n__global__ void f(int n, float *y)\n{ y[0] = U; }\nvoid go(int n, float *y, cudaStream_t s) { f<<<1, 64, 0, s>>>(n, y); }", "",
			"kernel.cu.tmpl", "// tune: 1, 2\n__device__ __forceinline__ void f(int n, float *y);\n\n__device__ __forceinline__ void f(int n, float *y)\n{",
		},
		{
			"a template that is declared before", "k.cu",
			"template <int U = 1>\n__global__ void f(int n, float *y);\ntemplate <int U> // tune: U = 1, 2\n__global__ void f(int n, float *y)\n{ y[0] = U; }", "",
			"kernel.cu.tmpl", "template <int U = 1>\n__device__ __forceinline__ void f(int n, float *y);\n",
		},
		{
			"one static function", "k.c",
			"#define U 1 // tune: 1, 2\nstatic void f(int n, float *y)\n{ y[0] = U; }", "",
			"kernel.c.tmpl", "\tf(n, y);",
		},
		{
			"types of CUDA with several numbers, and numbers without a sign", "k.cu",
			"#define U 1 // tune: 1, 2\n__global__ void f(int n, const float2 *x, const __half2 *h, const unsigned *k, const long *l, uint32_t *y)\n{ y[0] = U; }", "",
			"kernel.cu.tmpl", "run_made(int64_t n, const float *x, const __half *h, const uint32_t *k, const int64_t *l, uint32_t *y)\n{\n\tf(n, (float2 *)x, (__half2 *)h, (unsigned *)k, (long *)l, (uint32_t *)y);\n}\n",
		},
		{
			"how many numbers an element has", "k.cu",
			"#define U 1 // tune: 1, 2\n__global__ void f(int n, const float2 *x, float *y)\n{ y[0] = U; }", "",
			"kernel.toml", "the size of each axis of x, in numbers of f32, of which a float2 is 2, expressions",
		},
		{
			"a declared type", "k.cu",
			"#define U 1 // tune: 1, 2\n// tune: x = __half\n__global__ void f(int n, const void *x, uint16_t *y /* tune: y = __nv_bfloat16 */)\n{ y[0] = U; }", "",
			"kernel.cu.tmpl", "run_made(int64_t n, const __half *x, __nv_bfloat16 *y)\n{\n\tf(n, (void *)x, (uint16_t *)y);\n}\n",
		},
		{
			"integers of 16 bits", "k.c",
			"#define U 1 // tune: 1, 2\nvoid f(int n, const short *x, const unsigned short *b, int16_t *y, uint16_t *z)\n{ y[0] = U; }", "",
			"kernel.c.tmpl", "run_made(int64_t n, const int16_t *x, const uint16_t *b, int16_t *y, uint16_t *z)\n{\n\tf(n, (short *)x, (unsigned short *)b, (int16_t *)y, (uint16_t *)z);\n}\n",
		},
		{
			"halves in C", "k.c",
			"#define U 1 // tune: 1, 2\nvoid f(int n, const _Float16 *x, uint16_t *y) // tune: y = __nv_bfloat16\n{ y[0] = U; }", "",
			"kernel.c.tmpl", "run_made(int64_t n, const evotune_f16 *x, evotune_bf16 *y)\n{\n\tf(n, (_Float16 *)x, (uint16_t *)y);\n}\n",
		},
		{
			"a number without a sign that is returned", "k.c",
			"#define U 1 // tune: 1, 2\nuint32_t f(int n, const uint8_t *x)\n{ return x[0] * U; }", "",
			"kernel.c.tmpl", "void run_made(int64_t n, const uint8_t *x, uint32_t *result)\n{\n\tresult[0] = f(n, x);\n}\n",
		},
		{
			"a number that is returned", "k.c",
			"#define U 1 // tune: 1, 2\nstatic inline double f(int n, const float *x, float scale)\n{ return x[0] * U; }", "",
			"kernel.c.tmpl", "void run_made(int64_t n, const float *x, double *result, float scale)\n{\n\tresult[0] = f(n, x, scale);\n}\n",
		},
		{
			"names that mean something else in expressions", "k.c",
			"#define U 1 // tune: 1, 2\nvoid f(int len, int count, int len_, const float a[len][count], float *new)\n{ new[0] = U; }", "",
			"kernel.c.tmpl", "void run_made(int64_t len__, int64_t count_, int64_t len_, const float *a, float *new_)\n{\n\tf(len__, count_, len_, (void *)a, new_);\n}\n",
		},
		{
			"the axes by these names", "k.c",
			"#define U 1 // tune: 1, 2\nvoid f(int len, const float a[len][3], float *in)\n{ in[0] += U; }", "",
			"kernel.toml", "shape = [\"len_\", \"3\"]",
		},
		{
			"comments, not strings", "k.c",
			"const char *help = \"// tune: 1, 2\";\n/* Write\n   // tune: 3, 4\n*/\n#define U 1 // a tile // tune: 1, 2\nvoid f(int n, float *y)\n{ y[0] = U; }", "",
			"kernel.toml", "name = \"U\"\nvalues = [1, 2]\n\n[implementation.baseline]",
		},
		{
			"a byte order mark, and Latin-1", "k.c",
			"\ufeff#define U 1 // tune: 1, 2\nvoid f(int n, float *y) // schr\xe4g\n{ y[0] = U; }", "",
			"kernel.c.tmpl", "#define U {{.U}} // tune: 1, 2\nstatic void f(int n, float *y) // schräg\n",
		},
		{
			"integers that are read", "k.c",
			"#define U 1 // tune: 1, 2\nvoid f(bool causal, const int *index, int32_t *y)\n{ y[0] = index[0]; }", "",
			"kernel.toml", "data = 'FILL IN: the values of index, such as \"integers(0,7)\": an index must stay within what it indexes'",
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			d, dir, err := from(t, c.name, c.text, c.entry)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, c.file))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), c.want) {
				t.Errorf("%s:\n%s\nlacks\n%s", c.file, text, c.want)
			}
			if _, err := kernels.LoadDir(dir); !errors.Is(err, kernels.ErrUnfilled) {
				t.Errorf("loading it: %v", err)
			}
			cat, err := kernels.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := cat.Get("made"); !errors.Is(err, kernels.ErrUnfilled) {
				t.Errorf("asking for it: %v", err)
			}
			if len(d.Missing) == 0 {
				t.Error("nothing is left to fill in")
			}
		})
	}
}

// What the source does not say is listed as assumed.
func TestFromAssumes(t *testing.T) {
	d, dir, err := from(t, "k.c", "#define U 1 // tune: 1, 2\nvoid f(int n, const float *x, float *y)\n{ y[0] = x[0]; }", "")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range d.Taken {
		said = append(said, strings.TrimPrefix(f.String(), filepath.Dir(dir)+string(filepath.Separator)))
	}
	for _, want := range []string{
		"k.c:2: assumed: n is a dimension: every integer becomes one; a flag or a stride too",
		`made/kernel.toml:11: assumed: pipe = "f32": the peak that bounds the operations, if they have the type of the buffers`,
	} {
		if !slices.Contains(said, want) {
			t.Errorf("%s\nlacks\n%s", strings.Join(said, "\n"), want)
		}
	}
}

// Whatever the source, there is a folder or an error of one line.
func FuzzFrom(f *testing.F) {
	f.Add("#define TILE 8 // tune: 4, 8\nvoid f(int n, const float *x, float *y) { y[0] = x[0]; }\n")
	f.Add("template <typename T, int N /* tune: 1, 2 */> // tune: T = float\n__global__ void __launch_bounds__(N) f(int n, T *y) { y[0] += 1; }\nint main() { f<<<1, 2>>>(); }")
	f.Add("extern \"C\" { void f(int n, float y[n][2]) { \"{\"; '}'; /* } */ } }")
	f.Add("#include <x>\n#include <y>\nconstexpr int A = 1; // tune: 1, 2")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"k.c", "k.cu"} {
			_, _, err := from(t, name, text, "")
			if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("not one line: %q", err)
			}
		}
	})
}

// A source in CUDA may have 8-bit numbers; the tolerance is as coarse as they are.
func TestFromFP8(t *testing.T) {
	const text = "#define TILE 8 // tune: 4, 8\n__global__ void f(int n, const __nv_fp8_e5m2 *x, __nv_fp8_e4m3 *y) { y[0] = __nv_fp8_e4m3((float)x[0] * TILE); }\n"
	_, dir, err := from(t, "k.cu", text, "")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"kernel.toml":    {"dtype = \"e5m2\"", "dtype = \"e4m3\"", "e4m3 = 0.25"},
		"kernel.cu.tmpl": {"const __nv_fp8_e5m2 *x, __nv_fp8_e4m3 *y)"},
		"reference.c":    {"const double *x, double *y)"},
	} {
		got, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(got), w) {
				t.Errorf("%s lacks %q:\n%s", file, w, got)
			}
		}
	}
	if _, _, err := from(t, "k.c", strings.Replace(text, "__global__ ", "", 1), ""); err == nil || !strings.Contains(err.Error(), "which GPUs alone have") {
		t.Errorf("8-bit numbers in C: %v", err)
	}
}
