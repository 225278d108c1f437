package cuda

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/internal/longtest"
)

// opcodeSources use what built-in kernels use, and what a kernel may contain besides.
var opcodeSources = map[string]string{"wmma": gemmSource, "spills": spillingSource, "mma": mmaSource, "mixed": mixedSource}

// mmaSource has asynchronous copies, matrix loads and an mma with operands in
// registers.
const mmaSource = `
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half *a, const __half *b, float *c)
{
	__shared__ __align__(16) __half s[2][16 * 16];
	const int t = threadIdx.x;
	for (int i = 0; i < 2; i++) {
		unsigned to = (unsigned)__cvta_generic_to_shared(&s[i][t * 8]);
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"((i ? b : a) + t * 8));
	}
	asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
	__syncthreads();
	unsigned x[4], y[2];
	unsigned from = (unsigned)__cvta_generic_to_shared(&s[0][(t % 16) * 16 + t / 16 * 8]);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(from));
	from = (unsigned)__cvta_generic_to_shared(&s[1][(t % 16) * 16]);
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(y[0]), "=r"(y[1]) : "r"(from));
	float d[4] = {};
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
	for (int i = 0; i < 4; i++)
		c[t * 4 + i] = d[i];
}
`

// mixedSource has two kernels and a function, shuffles, votes, atomics, double
// precision, special functions and predicates.
const mixedSource = `
__device__ __noinline__ double slow(double x, int n) { return n < 0 ? sin(x) / x : x; }
extern "C" __global__ void other(int *x) { atomicAdd(&x[threadIdx.x % 7], __popc(x[threadIdx.x])); }
extern "C" __global__ void k(float *x, double *y, int n)
{
	extern __shared__ float s[];
	const int t = threadIdx.x;
	float v = t < n ? x[t] : 0;
	for (int o = 16; o; o /= 2)
		v += __shfl_xor_sync(~0u, v, o);
	if (__any_sync(~0u, v > 3))
		v = expf(v) + rsqrtf(v) + sinf(v);
	atomicMax((int *)&s[t / 32], (int)v);
	__syncthreads();
	y[t + n] = max((int)x[t], n); // VIMNMX, which 11.8 does not name
	x[t] = s[0] + __fdividef(v, 3.0f) + (float)(t / n) + (float)(n % (t + 1));
	y[t] = slow(y[t], n);
	if (v == 7)
		__nanosleep(20);
	__threadfence();
}
`

// opcodeBench is a bench as far as counting instructions needs one.
func opcodeBench(tb testing.TB, d *disassembler) *lab {
	base := &labs.Base{Log: slog.New(slog.NewTextHandler(tb.Output(), nil)), Scratch: tb.TempDir()}
	h := newLab(base, Options{CompileWorkers: 2, Timeout: time.Minute})
	h.disasm = d
	return h
}

// opcodeCandidates compiles every source for both architectures.
func opcodeCandidates(tb testing.TB, h *lab) map[string]*candidate {
	tb.Helper()
	l, _, found := compilers(tb)
	h.Launcher = l
	c, ok := found["nvcc"]
	if !ok {
		c = found["nvrtc"]
	}
	all := map[string]*candidate{}
	for _, arch := range []string{"sm_80", "sm_90"} {
		for name, source := range opcodeSources {
			u := unit{source: source, arch: arch, plain: true} // with lines, ptxas 11.8 crashes
			if name == "spills" {
				u.flags = []string{"--maxrregcount=32"}
			}
			out, err := c.compile(tb.Context(), u)
			if err != nil {
				tb.Fatalf("%s for %s: %v", name, arch, logOf(err))
			}
			name = name + " for " + arch
			cand := &candidate{name: name, out: out, path: filepath.Join(h.Scratch, name+".cubin"), hash: name}
			if err := os.WriteFile(cand.path, out.Cubin, 0o600); err != nil {
				tb.Fatal(err)
			}
			all[name] = cand
		}
	}
	return all
}

// disassemblers are all that are here, each with nothing learned.
func disassemblers(tb testing.TB) (all []*disassembler) {
	l, _, _ := compilers(tb)
	t := findToolkit(tb.Context(), Options{}, l)
	for _, kit := range []*toolkit{{cuobjdump: t.cuobjdump, jail: t.jail}, {nvdisasm: t.nvdisasm, jail: t.jail}} {
		if d := kit.disassembler(func(string) string { return "" }); d != nil {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		tb.Fatal("neither cuobjdump nor nvdisasm is here")
	}
	return all
}

// stems adds up what differs in modifiers alone.
func (d disassembly) stems() map[string]int {
	sum := map[string]int{}
	for m, n := range d.Mnemonics {
		stem, _, _ := strings.Cut(m, ".")
		sum[stem] += n
	}
	return sum
}

// TestCountingByOpcodesLong holds both ways of counting equal.
func TestCountingByOpcodesLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	var err error
	h := opcodeBench(t, nil)
	candidates := opcodeCandidates(t, h)
	for _, d := range disassemblers(t) {
		t.Run(d.name(), func(t *testing.T) {
			h.disasm = d
			count := func(c *candidate, modifiers bool) (disassembly, string) {
				t.Helper()
				counts, how, why, err := h.instructions(t.Context(), c, modifiers)
				if err != nil || why != "" {
					t.Fatalf("%s: %v %s", c.name, err, why)
				}
				return counts, how
			}
			fresh := func() { // a cache that remembers nothing
				t.Helper()
				if h.Cache, err = cache.New(t.TempDir(), 0); err != nil {
					t.Fatal(err)
				}
			}
			fresh()
			byTool := "by " + d.name()
			listed, first := map[string]disassembly{}, 0
			for name, c := range candidates {
				counts, how := count(c, true)
				if how != byTool {
					t.Errorf("%s, where modifiers matter, is counted %s", name, how)
				}
				listed[name] = counts
			}
			// The same once more, by a table that has seen nothing.
			d.names = nameTable{}
			fresh()
			for _, c := range candidates {
				if _, how := count(c, false); how == byTool {
					first++
				}
			}
			if first == 0 {
				t.Error("a table that had seen nothing never needed the disassembler")
			}
			fresh()
			for name, c := range candidates {
				counts, how := count(c, false)
				if how != "by opcodes that "+d.name()+" named" {
					t.Errorf("%s: counted %s", name, how)
				}
				if want := listed[name]; !maps.Equal(counts.Mnemonics, want.stems()) || counts.code().Total() != want.code().Total() || want.code().Total() == 0 {
					t.Errorf("%s: opcodes are %v, the disassembler counts %v", name, counts.Mnemonics, want.stems())
				}
			}
			for name, stems := range map[string][]string{"wmma": {"HMMA", "BAR"}, "spills": {"LDL", "STL"}, "mma": {"HMMA", "LDSM", "LDGSTS"}, "mixed": {"SHFL", "MUFU", "DFMA", "VOTE"}} {
				for _, arch := range []string{"sm_80", "sm_90"} {
					counts, _ := count(candidates[name+" for "+arch], false)
					for _, stem := range stems {
						if counts.family(stem) == 0 {
							t.Errorf("%s for %s: no %s among %s", name, arch, stem, counts.code().Top(60))
						}
					}
				}
			}
			for arch, table := range d.names.names {
				several := 0
				for _, name := range table {
					if name == ambiguous {
						several++
					}
				}
				t.Logf("architecture %#x: %d opcodes, %d of them ambiguous; %d of %d cubins were disassembled", arch, len(table), several, first, len(candidates))
			}

			// One name that is wrong is found out when the disassembler is asked.
			c := candidates["mma for sm_90"]
			code, err := readOpcodes(c.out.Cubin)
			if err != nil {
				t.Fatal(err)
			}
			table := d.names.names[code.arch]
			for op, name := range table {
				if name == "HMMA" {
					table[op] = "FFMA"
				}
			}
			fresh()
			if _, how := count(c, true); how != byTool || !d.names.distrusted {
				t.Errorf("counted %s, distrusted: %v", how, d.names.distrusted)
			}
			fresh()
			if counts, how := count(c, false); how != byTool || counts.family("HMMA") == 0 {
				t.Errorf("after that, counted %s: %s", how, counts.code().Top(60))
			}
		})
	}
}

// TestLearningTogetherLong: of binaries with the same instructions that come at once, one is disassembled.
func TestLearningTogetherLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	h := opcodeBench(t, disassemblers(t)[0])
	l, _, found := compilers(t)
	h.Launcher = l
	c, ok := found["nvrtc"]
	if !ok {
		c = found["nvcc"]
	}
	out, err := c.compile(t.Context(), unit{source: opcodeSources["mma"], arch: "sm_90", plain: true})
	if err != nil {
		t.Fatal(logOf(err))
	}
	path := filepath.Join(h.Scratch, "mma.cubin")
	if err := os.WriteFile(path, out.Cubin, 0o600); err != nil {
		t.Fatal(err)
	}
	if h.Cache, err = cache.New(t.TempDir(), 0); err != nil {
		t.Fatal(err)
	}
	var listed atomic.Int32
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			_, how, why, err := h.instructions(t.Context(), &candidate{out: out, path: path, hash: fmt.Sprint(i)}, false)
			if err != nil || why != "" {
				t.Error(why, err)
			}
			if how == "by "+h.disasm.name() {
				listed.Add(1)
			}
		})
	}
	all.Wait()
	if n := listed.Load(); n != 1 {
		t.Errorf("%d were disassembled, want 1", n)
	}
}

func BenchmarkCounting(b *testing.B) {
	h := opcodeBench(b, disassemblers(b)[0])
	all := opcodeCandidates(b, h)
	var err error
	if h.Cache, err = cache.New(b.TempDir(), 0); err != nil {
		b.Fatal(err)
	}
	c := &candidate{src: all["wmma for sm_90"].src, out: all["wmma for sm_90"].out, path: all["wmma for sm_90"].path}
	for name, modifiers := range map[string]bool{"opcodes": false, "disassembler": true} {
		b.Run(name, func(b *testing.B) {
			for i := range b.N {
				c.hash = fmt.Sprint(name, b.N, i) // which is in no cache
				if _, _, why, err := h.instructions(b.Context(), c, modifiers); err != nil || why != "" {
					b.Fatal(err, why)
				}
			}
		})
	}
}
