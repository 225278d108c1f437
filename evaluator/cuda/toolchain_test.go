//go:build linux

package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// gemmSource is a kernel of the size that candidates have: WMMA, two stages in
// shared memory.
const gemmSource = `
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
enum { BM = 64, BN = 64, BK = 32, WM = 2, WN = 2, PAD = 8 };
extern "C" __global__ void __launch_bounds__(WM * WN * 32) gemm(long M, long N, long K, const __half *A, const __half *B, __half *C)
{
	__shared__ __align__(16) __half sa[2][BM][BK + PAD];
	__shared__ __align__(16) __half sb[2][BK][BN + PAD];
	__shared__ float sc[BM][BN];
	const int warp = threadIdx.x / 32, wm = warp / WN, wn = warp % WN;
	const long row0 = (long)blockIdx.y * BM, col0 = (long)blockIdx.x * BN;
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[BM / WM / 16][BN / WN / 16];
	for (int i = 0; i < BM / WM / 16; i++)
		for (int j = 0; j < BN / WN / 16; j++)
			wmma::fill_fragment(acc[i][j], 0.0f);
	auto load = [&](int s, long k0) {
		for (int t = threadIdx.x * 8; t < BM * BK; t += blockDim.x * 8)
			*(int4 *)&sa[s][t / BK][t % BK] = *(const int4 *)&A[(row0 + t / BK) * K + k0 + t % BK];
		for (int t = threadIdx.x * 8; t < BK * BN; t += blockDim.x * 8)
			*(int4 *)&sb[s][t / BN][t % BN] = *(const int4 *)&B[(k0 + t / BN) * N + col0 + t % BN];
	};
	load(0, 0);
	__syncthreads();
	for (long k0 = 0, s = 0; k0 < K; k0 += BK, s ^= 1) {
		if (k0 + BK < K)
			load(s ^ 1, k0 + BK);
#pragma unroll
		for (int kk = 0; kk < BK; kk += 16) {
			wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa[BM / WM / 16];
			wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb[BN / WN / 16];
			for (int i = 0; i < BM / WM / 16; i++)
				wmma::load_matrix_sync(fa[i], &sa[s][wm * (BM / WM) + i * 16][kk], BK + PAD);
			for (int j = 0; j < BN / WN / 16; j++)
				wmma::load_matrix_sync(fb[j], &sb[s][kk][wn * (BN / WN) + j * 16], BN + PAD);
			for (int i = 0; i < BM / WM / 16; i++)
				for (int j = 0; j < BN / WN / 16; j++)
					wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
		}
		__syncthreads();
	}
	for (int i = 0; i < BM / WM / 16; i++)
		for (int j = 0; j < BN / WN / 16; j++)
			wmma::store_matrix_sync(&sc[wm * (BM / WM) + i * 16][wn * (BN / WN) + j * 16], acc[i][j], BN, wmma::mem_row_major);
	__syncthreads();
	for (int t = threadIdx.x; t < BM * BN; t += blockDim.x)
		C[(row0 + t / BN) * N + col0 + t % BN] = __float2half(sc[t / BN][t % BN]);
}
`

// compilers gives the real compilers that work here. Tests that need some are in the long or the
// nightly set, and fail without.
func compilers(tb testing.TB) (*process.Launcher, *toolkit, map[string]compiler) {
	tb.Helper()
	l := process.NewLauncher()
	tb.Cleanup(l.Close)
	c, err := cache.New(tb.TempDir(), 0)
	if err != nil {
		tb.Fatal(err)
	}
	t := findToolkit(tb.Context(), Options{}, l)
	found := map[string]compiler{}
	if n, err := newNVCC(tb.Context(), t, l, c, time.Minute); err == nil {
		found["nvcc"] = n
	} else {
		tb.Logf("nvcc is not tried: %v", err)
	}
	if n, err := newNVRTC(tb.Context(), t, l, time.Minute); err == nil {
		found["nvrtc"] = n
		tb.Cleanup(n.close)
	} else if errors.Is(err, errNoLog) {
		tb.Errorf("NVRTC works, and its diagnostics are not seen: %v", err)
	} else {
		tb.Logf("NVRTC is not tried: %v", err)
	}
	if len(found) == 0 {
		tb.Fatal("no CUDA compiler works here: scripts/setup-cuda-debian.sh installs some")
	}
	return l, t, found
}

func TestCompilersLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	_, _, found := compilers(t)
	for name, c := range found {
		t.Run(name, func(t *testing.T) {
			if archs := c.architectures(); !slices.Contains(archs, 80) || !slices.Contains(archs, 90) {
				t.Errorf("architectures %v, want 80 and 90 among them", archs)
			}
			compile := func(source string, flags ...string) (compiled, error) {
				return c.compile(t.Context(), unit{source: source, flags: flags, arch: "sm_90", files: map[string]string{
					"sub/part.cuh": "#define PART 3\n",
				}})
			}
			out, err := compile(gemmSource, "-O3", "--maxrregcount=128", "-use_fast_math", "-Xptxas", "-O3")
			if err != nil {
				t.Fatal(err)
			}
			var r resources
			r.readLog(out.Log, "gemm")
			if err := r.readCubin(out.Cubin, "gemm"); err != nil {
				t.Fatal(err)
			}
			if r.registers < 32 || r.registers > 128 || r.shared != 35840 || r.stack != 0 || !r.told || r.barriers != 1 {
				t.Errorf("resources %+v\n%s", r, out.Log)
			}
			// What was compiled before is compiled again: a compiler's own cache
			// would give the code without the diagnostics.
			repeated, err := compile(gemmSource, "-O3", "--maxrregcount=128", "-use_fast_math", "-Xptxas", "-O3")
			if err != nil {
				t.Fatal(err)
			}
			var second resources
			if second.readLog(repeated.Log, "gemm"); !second.told {
				t.Errorf("the second time ptxas tells nothing: %q", repeated.Log)
			}
			// The cubin alone says the same, but for what ptxas takes on sm_90
			// for the system.
			var alone resources
			if err := alone.readCubin(out.Cubin, "gemm"); err != nil {
				t.Fatal(err)
			}
			// CUDA 13 no longer has the count of barriers among the flags of the code.
			if alone.registers != r.registers || alone.stack != r.stack || alone.barriers != 0 && alone.barriers != r.barriers || alone.told {
				t.Errorf("the cubin alone says %+v, with the log %+v", alone, r)
			}

			first, err := codeHash(out.Cubin, "x")
			if err != nil {
				t.Fatal(err)
			}
			again, err := compile("// another comment\n\n"+gemmSource, "-O3", "--maxrregcount=128", "-use_fast_math", "-Xptxas", "-O3")
			if err != nil {
				t.Fatal(err)
			}
			if second, err := codeHash(again.Cubin, "x"); err != nil || second != first {
				t.Errorf("comments change the hash of the code: %s, %s, %v", first, second, err)
			}
			if other, err := codeHash(out.Cubin, "y"); err != nil || other == first {
				t.Errorf("another launch has the same hash: %v", err)
			}
			changed, err := compile(strings.Replace(gemmSource, "0.0f", "1.0f", 1), "-O3", "--maxrregcount=128", "-use_fast_math")
			if err != nil {
				t.Fatal(err)
			}
			if other, err := codeHash(changed.Cubin, "x"); err != nil || other == first {
				t.Errorf("other code has the same hash: %v", err)
			}

			if out, err := compile("#include \"sub/part.cuh\"\nextern \"C\" __global__ void k(int *x) { x[PART] = NAMED; }\n", "-DNAMED=2"); err != nil {
				t.Errorf("a file beside the source: %v\n%s", err, out.Log)
			}
			_, err = compile("extern \"C\" __global__ void k(int *x) { x[0] = nothing; }\n")
			no := &labs.Refusal{}
			ok := errors.As(err, &no)
			if !ok || !strings.Contains(no.Summary, "nothing") || !strings.Contains(no.Summary, sourceFile) {
				t.Errorf("a source that is wrong: %v", err)
			}
			// Registers for so much are not there: some of it lives in memory.
			spilled, err := compile(spillingSource, "--maxrregcount=32")
			if err != nil {
				t.Fatal(err)
			}
			r = resources{}
			r.readLog(spilled.Log, "spills")
			if r.spillStores == 0 || r.spillLoads == 0 || r.stack == 0 {
				t.Errorf("resources of a kernel that spills: %+v\n%s", r, spilled.Log)
			}
		})
	}
}

const spillingSource = `
extern "C" __global__ void spills(float *x)
{
	float a[96];
#pragma unroll
	for (int i = 0; i < 96; i++)
		a[i] = x[i * 32 + threadIdx.x];
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 96; i++)
		x[i * 32 + threadIdx.x] = a[95 - i] * a[i];
}
`

const assertingSource = `
extern "C" __global__ void asserts(float *x, int n)
{
	assert(threadIdx.x < n);
	x[threadIdx.x] = 2 * x[threadIdx.x];
}
`

// TestHeapIsSeenLong: who takes memory of the device's heap is known by its cubin.
func TestHeapIsSeenLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	_, _, found := compilers(t)
	const head = "extern \"C\" __global__ void take(int *o) { "
	for source, want := range map[string]bool{
		head + "int *p = (int *)malloc(64); if (p) *p = 1, o[0] = *p; }": true,
		head + "int *p = new int[4]; o[0] = p != 0; }":                   true,
		head + "printf(\"%d\", o[0]); }":                                 false,
		head + "o[0] = 1; }":                                             false,
	} {
		for name, c := range found {
			text := source
			if name == "nvcc" {
				text = "#include <cstdio>\n" + source
			}
			out, err := c.compile(t.Context(), unit{source: text, arch: "sm_80"})
			if err != nil {
				t.Errorf("%s: %s: %v", name, source, err)
				continue
			}
			if got, err := usesHeap(out.Cubin); got != want || err != nil {
				t.Errorf("%s: %s: heap %v, error %v, want %v", name, source, got, err, want)
			}
		}
	}
}

// TestTellsTwice: a compiler that keeps what it compiled, without its text, is found
// out by the second compilation.
func TestTellsTwice(t *testing.T) {
	const log = "ptxas info    : Function properties for trial\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		logs []string
		err  error
		want error
	}{
		{"tells", []string{log, log}, nil, nil},
		{"keeps", []string{log, ""}, nil, errNoLog},
		{"silent", []string{"", ""}, nil, errNoLog},
		{"broken", []string{log, log}, broken, broken},
	} {
		n := 0
		err := tellsTwice(func() (compiled, error) {
			n++
			return compiled{Log: c.logs[n-1]}, c.err
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestFlavoursLong: a release has no asserts, and a debug flavour has them, and
// information for a debugger, whatever a definition's own flags say.
func TestFlavoursLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	_, _, found := compilers(t)
	flags := []string{"-O3", "-Xptxas", "-O3,--warn-on-spills", "-D", "NDEBUG", "--maxrregcount=64", "-use_fast_math"}
	for name, c := range found {
		t.Run(name, func(t *testing.T) {
			for _, u := range []unit{
				{source: assertingSource, arch: "sm_90"},
				{source: assertingSource, arch: "sm_90", flags: flags},
				{source: assertingSource, arch: "sm_90", debug: true},
				{source: assertingSource, arch: "sm_90", debug: true, flags: append(flags, "-lineinfo")},
				{source: gemmSource, arch: "sm_90", debug: true, flags: flags[:3]},
			} {
				out, err := c.compile(t.Context(), u)
				if err != nil {
					t.Errorf("%v %v: %v\n%s", u.common(), u.own(), err, out.Log)
					continue
				}
				if strings.Contains(strings.ToLower(out.Log), "cannot perform wmma") {
					t.Errorf("%v: %s", u.own(), out.Log)
				}
				f, err := openCubin(out.Cubin)
				if err != nil {
					t.Fatal(err)
				}
				if has := f.Section(".debug_info") != nil; has != u.debug {
					t.Errorf("%v %v: debugging information: %v", u.common(), u.own(), has)
				}
				text := []byte("threadIdx.x < n\x00")
				if has := bytes.Contains(out.Cubin, text); u.source == assertingSource && has != u.debug {
					t.Errorf("%v %v: has the text of the assert: %v", u.common(), u.own(), has)
				}
			}
		})
	}
}

// TestRegisterLimitLong: the gene of conv2d that limits registers reaches the code. A
// compiler that ignores the limit, as it does beside launch bounds, does not say so.
func TestRegisterLimitLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	_, _, found := compilers(t)
	catalogue, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	d, err := catalogue.Get("conv2d")
	if err != nil {
		t.Fatal(err)
	}
	d = d.On("cuda")
	space, err := d.Space(d.Implementations, d.Problem.ShapesFor(kernels.Tune)[:1], nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range found {
		t.Run(name, func(t *testing.T) {
			registers := func(limit int) int64 {
				g, err := space.Parse(fmt.Sprintf("FILTERS=32,TILE_H=8,TILE_W=8,CHANNELS=16,WARPS_F=1,WARPS_P=2,BUFFERS=1,UNROLL=3,MAX_REGISTERS=%d", limit))
				if err != nil {
					t.Fatal(err)
				}
				src, err := d.Implementations[0].Render(g)
				if err != nil {
					t.Fatal(err)
				}
				out, err := c.compile(t.Context(), unit{
					source: candidateSource(src), files: map[string]string{kernels.HeaderFile: src.Header}, flags: src.Flags, arch: "sm_90",
				})
				if err != nil {
					t.Fatal(logOf(err))
				}
				var r resources
				if err := r.readCubin(out.Cubin, src.Entry); err != nil {
					t.Fatal(err)
				}
				return r.registers
			}
			free, limited := registers(0), registers(80)
			t.Logf("%d registers without a limit, %d with one of 80", free, limited)
			if free <= 80 || limited > 80 {
				t.Error("the limit changes nothing, or there is nothing to limit")
			}
		})
	}
}

// TestDisassemblyLong counts the instructions of real binaries.
func TestDisassemblyLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	l, kit, found := compilers(t)
	disasm := kit.disassembler(func(string) string { return "" })
	if disasm == nil {
		t.Fatal("neither cuobjdump nor nvdisasm is here")
	}
	for name, c := range found {
		out, err := c.compile(t.Context(), unit{source: gemmSource, arch: "sm_90"})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "k.cubin")
		if err := os.WriteFile(path, out.Cubin, 0o600); err != nil {
			t.Fatal(err)
		}
		both := []*disassembler{disasm}
		if kit.nvdisasm != "" {
			both = append(both, (&toolkit{nvdisasm: kit.nvdisasm}).disassembler(func(string) string { return "" }))
		}
		var totals []int
		for _, d := range both {
			text, err := l.Run(t.Context(), process.Command{Path: d.path, Args: append(slices.Clone(d.args), path), Timeout: time.Minute, Output: disassemblyLimit})
			if err != nil {
				t.Fatal(err)
			}
			counts := countInstructions(string(text))
			totals = append(totals, counts.code().Total())
			for _, stem := range []string{"HMMA", "LDSM", "BAR", "LDG", "STG", "EXIT"} {
				if counts.family(stem) == 0 {
					t.Errorf("%s, %s: no %s among %s", name, d.path, stem, counts.code().Top(40))
				}
			}
			if n := counts.family("LDL", "STL"); n != 0 {
				t.Errorf("%s: %d local accesses", name, n)
			}
		}
		if slices.Min(totals) != slices.Max(totals) || totals[0] < 100 {
			t.Errorf("%s: the disassemblers count %v instructions", name, totals)
		}
	}
}

// TestCompilingChildrenLong: a child that dies costs nothing, one that never
// answers is ended, and many compile at once.
func TestCompilingChildrenLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	_, _, found := compilers(t)
	n, ok := found["nvrtc"].(*nvrtc)
	if !ok {
		t.Fatal("NVRTC does not work here")
	}
	killOne(n.idle[0].PID)
	small := unit{source: "extern \"C\" __global__ void k(int *x) { x[0] = 1; }\n", arch: "sm_80"}
	if _, err := n.compile(t.Context(), small); err != nil {
		t.Errorf("after its child was killed: %v", err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if _, err := n.compile(t.Context(), small); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()

	n.timeout = time.Second
	begin := time.Now()
	_, err := n.compile(t.Context(), unit{source: endlessSource, arch: "sm_80"})
	no := &labs.Refusal{}
	if !errors.As(err, &no) || !strings.Contains(no.Summary, "did not end") {
		t.Errorf("a source that takes for ever: %v after %v", err, time.Since(begin))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	n.timeout = time.Minute
	if _, err := n.compile(ctx, unit{source: endlessSource, arch: "sm_80"}); ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := n.compile(t.Context(), small); err != nil {
		t.Errorf("after all of that: %v", err)
	}
}

// endlessSource keeps a compiler busy for minutes: templates that double.
const endlessSource = `
template <int N, int M> struct twice { static __device__ int f(int x) { return twice<N - 1, 2 * M>::f(x) + twice<N - 1, 2 * M + 1>::f(x * 3); } };
template <int M> struct twice<0, M> { static __device__ int f(int x) { return x * M + x / (M + 1); } };
extern "C" __global__ void k(int *x) { x[0] = twice<18, 0>::f(x[1]); }
`

// TestNoServerInChildren: a program that does not call CompileServerMain is not
// started again and again.
func TestNoServerInChildren(t *testing.T) {
	if os.Getenv("EVOTUNE_TEST_NO_SERVER") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNoServerInChildren$")
		cmd.Env = append(os.Environ(), "EVOTUNE_TEST_NO_SERVER=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	t.Setenv(serverVariable, "/nonexistent")
	if _, err := startServer(nil, "/nonexistent", nil); !errors.Is(err, errNoServer) {
		t.Errorf("error %v", err)
	}
}

func BenchmarkCompile(b *testing.B) {
	_, _, found := compilers(b)
	for name, c := range found {
		b.Run(name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.compile(b.Context(), unit{source: gemmSource, arch: "sm_90"}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// An oldCompiler knows no target of one architecture alone.
type oldCompiler struct{ fakeCompiler }

func (c oldCompiler) compile(ctx context.Context, u unit) (compiled, error) {
	if u.arch == "sm_90a" {
		return compiled{}, &labs.Refusal{Summary: "nvcc fatal   : Value 'sm_90a' is not defined for option 'gpu-architecture'"}
	}
	return c.fakeCompiler.compile(ctx, u)
}

// TestCompilerWithoutTarget: what a compiler cannot make is said once, before candidates
// are refused for it.
func TestCompilerWithoutTarget(t *testing.T) {
	h := newLab(&labs.Base{Scratch: t.TempDir()}, Options{CompileWorkers: 1})
	var err error
	if h.Cache, err = cache.New(t.TempDir(), 0); err != nil {
		t.Fatal(err)
	}
	list := []*kernels.Implementation{{Name: "old", Backend: "cuda", Target: "sm_80"}, {Name: "new", Backend: "cuda", Target: "sm_90a"}}
	h.compiler = oldCompiler{}
	want := "implementation new: the compiler of the tests does not compile for sm_90a: use a newer CUDA toolkit, or choose others by --implementation: nvcc fatal : Value 'sm_90a' is not defined"
	if err := h.compilesFor(t.Context(), list); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v\nwant %s", err, want)
	}
	h.compiler = fakeCompiler{}
	if err := h.compilesFor(t.Context(), list); err != nil {
		t.Error(err)
	}
}
