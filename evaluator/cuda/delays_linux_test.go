package cuda

import (
	"os"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// TestSchedules: candidates with copies that racecheck does not follow run with delays
// instead, and say so; others do not, and say that.
func TestSchedules(t *testing.T) {
	t.Parallel()
	h, ev := openFake(t, fakeOptions(t))
	if h.delayer == nil {
		t.Fatalf("delays do not work: %+v", h.Desc.Tools)
	}
	const copies = "it does not follow the tensor memory accelerator's copies; see schedules"
	for _, c := range []struct {
		do        string
		verdict   evaluator.Verdict
		reason    string // begins so
		schedules evaluator.Check
		says      string // in the evidence of schedules
		racecheck string // why it was not run
	}{
		{"nothing", evaluator.Correct, "", evaluator.Passed, "not needed: racecheck follows all of its instructions", ""},
		{"schedules=right", evaluator.Correct, "", evaluator.Passed, "no fault in 20 launches at each of the shapes small, odd, with random delays at 3 places (cp 2)", copies},
		{"schedules=waits", evaluator.Correct, "", evaluator.Passed, "places (mbarrier 1)", ""},
		{"schedules=different", evaluator.Sanitizer, "schedules: shape odd: not the same answer twice: 2 elements differ", evaluator.Failed, "with random delays", copies},
		{"schedules=large", evaluator.Sanitizer, "schedules: shape odd: not the same answer twice", evaluator.Failed, "", copies},
		{"schedules=wrong", evaluator.Sanitizer, "schedules: shape odd: output y: error 0.5", evaluator.Failed, "", copies},
		{"schedules=fatal", evaluator.Sanitizer, "schedules: cuCtxSynchronize failed: illegal address", evaluator.Failed, "", copies},
		{"schedules=hang", evaluator.Timeout, "schedules: no answer within", evaluator.Failed, "", copies},
		{"schedules=broken", evaluator.Sanitizer, "schedules: its PTX cannot be read: line", evaluator.Failed, "without its partner", ""},
		{"schedules=numbered", evaluator.Sanitizer, "schedules: its PTX cannot be read: line", evaluator.Failed, "lines must not be numbered", ""},
		{
			"schedules=unbearable", evaluator.Sanitizer, "schedules: its PTX can be assembled, and with delays it cannot: kernel.ptx(1): error", evaluator.Failed,
			"the fake refuses", copies,
		},
		{
			"schedules=tight", evaluator.Correct, "", evaluator.NotRun,
			"with delays it does not fit: cuLaunchKernelEx failed: launch out of resources (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701); fewer registers and fewer delays do not help", copies,
		},
		{"schedules=cooperative", evaluator.Correct, "", evaluator.NotRun, "with delays it does not fit: cuLaunchKernelEx failed: cooperative launch too large", copies},
		{"schedules=crowded", evaluator.Correct, "", evaluator.Passed, "places (mbarrier 2), around 2 instructions of 8", ""},
		{"schedules=unassembled", evaluator.Correct, "", evaluator.NotRun, "its code with delays cannot be made: kernel.ptx(1): error", copies},
		{"schedules=serialized", evaluator.Correct, "", evaluator.Passed, "in this build: ptxas info : (C7510) Potential Performance Loss", copies},
	} {
		t.Run(c.do, func(t *testing.T) {
			var r evaluator.Result
			if c.do == "schedules=hang" {
				r = hanging(t, h, ev, schedules, func(try int) genome.Genome { return fakeGenome(t, c.do, 3+try) })
			} else {
				r = evaluate(t, ev, fakeGenome(t, c.do, 3))
			}
			if r.Verdict != c.verdict || !strings.HasPrefix(r.Reason, c.reason) {
				t.Errorf("%s: %q", r.Verdict, r.Reason)
			}
			if e, _ := findEvidence(r, schedules); e.Outcome != c.schedules || !strings.Contains(e.Detail, c.says) {
				t.Errorf("schedules: %+v", e)
			}
			want := evaluator.NotRun
			if c.racecheck == "" {
				want = evaluator.Passed
			}
			if e, _ := findEvidence(r, racecheck); e.Outcome != want || want == evaluator.NotRun && e.Detail != c.racecheck {
				t.Errorf("racecheck: %+v", e)
			}
		})
	}
}

// TestNothingShared: racecheck is not asked about a kernel without shared memory.
func TestNothingShared(t *testing.T) {
	t.Parallel()
	_, ev := openFake(t, fakeOptions(t))
	for do, want := range map[string]string{"racecheck=alone": "not needed: no kernel of it has shared memory", "nothing": "no fault in "} {
		r := evaluate(t, ev, fakeGenome(t, do, 3))
		if e, _ := findEvidence(r, racecheck); r.Verdict != evaluator.Correct || e.Outcome != evaluator.Passed || !strings.HasPrefix(e.Detail, want) {
			t.Errorf("%s: %s %q, racecheck: %+v", do, r.Verdict, r.Reason, e)
		}
	}
}

// TestSchedulesThatDoNotWork: delays that do not show the planted fault, that show one
// where there is none, or that are switched off are "not run".
func TestSchedulesThatDoNotWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		blind, say string
		tools      []string
	}{
		{blind: schedules, say: "it does not work here (the assembler of the tests: delays do not show the fault that was planted for them (schedules))"},
		{blind: "schedules-takes", say: "delays do not show the fault that was planted for them (schedules-takes)"},
		{blind: "clean", say: "a kernel without a fault (clean) is wrong with delays"},
		{say: "switched off by the options", tools: []string{racecheck}},
	} {
		t.Run(c.say, func(t *testing.T) {
			o := fakeOptions(t, "EVOTUNE_FAKE_BLIND="+c.blind)
			o.Sanitizers = c.tools
			h, ev := openFake(t, o)
			if h.delayer != nil {
				t.Error("delays are trusted")
			}
			r := evaluate(t, ev, fakeGenome(t, "schedules=different", 1))
			if e, _ := findEvidence(r, schedules); r.Verdict != evaluator.Correct || e.Outcome != evaluator.NotRun || !strings.Contains(e.Detail, c.say) {
				t.Errorf("%s, schedules: %+v", r.Verdict, e)
			}
		})
	}
}

// TestNeededOrNot: that racecheck follows a candidate's instructions counts where racecheck
// runs.
func TestNeededOrNot(t *testing.T) {
	t.Parallel()
	o := fakeOptions(t)
	o.Sanitizers = []string{memcheck, schedules}
	_, ev := openFake(t, o)
	r := evaluate(t, ev, fakeGenome(t, "nothing", 3))
	e, _ := findEvidence(r, schedules)
	if want := "racecheck follows all of its instructions, and does not run here"; r.Verdict != evaluator.Correct || e.Outcome != evaluator.NotRun || e.Detail != want {
		t.Errorf("%s, schedules: %+v, want %q", r.Verdict, e, want)
	}
}

// TestSchedulesOfOlderDevices: where there are no such instructions, there is no such check
// to tell of, whatever the options say.
func TestSchedulesOfOlderDevices(t *testing.T) {
	t.Parallel()
	for _, tools := range [][]string{nil, {memcheck}} {
		t.Run(strings.Join(tools, ""), func(t *testing.T) {
			o := fakeOptions(t, "EVOTUNE_FAKE_CAPABILITY=86")
			o.Sanitizers = tools
			h, ev := openFake(t, o)
			r := evaluate(t, ev, fakeGenome(t, "nothing", 3))
			if e, ok := findEvidence(r, schedules); ok || r.Verdict != evaluator.Correct || h.delayer != nil {
				t.Errorf("%s %s, schedules: %+v", r.Verdict, r.Reason, e)
			}
			for _, tool := range h.Describe().Tools {
				if tool.Name == schedules {
					t.Errorf("the description has %+v", tool)
				}
			}
		})
	}
}

// TestSchedulesSayHowNear: where launches may differ a little, the evidence says how much
// they did with delays.
func TestSchedulesSayHowNear(t *testing.T) {
	t.Parallel()
	const y = "name = \"y\"\ndtype = \"f32\"\nrole = \"out\"\nshape = [\"N\"]\n"
	d := fakeFrom(t, strings.Replace(fakeKernel, y, y+"repeat = 4e-7\n", 1), "y[i] = 2 * x[i]", "const double *x")
	_, ev := openFakePlan(t, fakeOptions(t), planOf(d))
	r := evaluate(t, ev, fakeGenome(t, "schedules=right", 3))
	e, _ := findEvidence(r, schedules)
	if want := "; shape odd: reproducible to 1e-07 of the RMS from the first launch, as declared; shape small: reproducible to 1e-07 of the RMS from the first launch, as declared"; e.Outcome != evaluator.Passed || !strings.HasSuffix(e.Detail, want) {
		t.Errorf("%s %s, schedules: %+v", r.Verdict, r.Reason, e)
	}
}

// TestHiddenInstructions: machine code with what its PTX does not show was read otherwise by
// ptxas. A disassembler that knows no name of an instruction leaves it to delays.
func TestHiddenInstructions(t *testing.T) {
	code := disassembly{Mnemonics: evaluator.Instructions{"SYNCS.ARRIVE.TRANS64": 2, "UTMALDG.2D": 1, "HGMMA": 4, "FFMA": 9}}
	for _, c := range []struct {
		ptx  []string
		want string
	}{
		{nil, "HGMMA SYNCS UTMALDG"},
		{[]string{"mbarrier.init.shared.b64", "cp.async.bulk.commit_group", "wgmma.fence.sync.aligned"}, "UTMALDG"},
		{[]string{"mbarrier.init.shared.b64", "cp.async.bulk.tensor.2d.shared", "wgmma.mma_async.sync"}, ""},
	} {
		if got := strings.Join(code.hidden(c.ptx), " "); got != c.want {
			t.Errorf("%q: hidden are %q, want %q", c.ptx, got, c.want)
		}
	}
	for _, list := range [][]string{copyInstructions, waitInstructions} {
		for _, name := range list {
			if len(shownBy[name]) == 0 {
				t.Errorf("it is not known what %s comes of", name)
			}
		}
	}
	const listing = "/*0000*/ MOV R1, c[0x0][0x28] ; /* 0x00000a0000017a02 */\n /* 0x000fe40000000f00 */\n /* 0x000000ff00007848 */\n /* 0x004fca0003fe0100 */\n"
	d := countInstructions(listing)
	if d.Unnamed != 1 || d.unfollowed() != (unfollowed{waits: true}) {
		t.Errorf("a listing with an instruction without a name: %+v, %+v", d, d.unfollowed())
	}
	for _, name := range []string{"HGMMA", "QGMMA", "IGMMA", "BGMMA", "WARPGROUP"} {
		if d := (disassembly{Mnemonics: evaluator.Instructions{name + ".64": 1}}); d.unfollowed() != (unfollowed{waits: true}) {
			t.Errorf("%s: %+v", name, d.unfollowed())
		}
	}
	if d := (disassembly{Mnemonics: evaluator.Instructions{"FFMA": 1}}); d.unfollowed() != (unfollowed{}) {
		t.Errorf("FFMA: %+v", d.unfollowed())
	}
}

// copiesSource reads numbers that a bulk copy brings to shared memory, after a wait for it or at once.
const copiesSource = `
static __device__ __forceinline__ void hand_on(long n, float *out, float *work, bool waits)
{
	__shared__ alignas(128) volatile float numbers[256];
	__shared__ unsigned long long barrier;
	const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier), to = (unsigned)__cvta_generic_to_shared((float *)numbers);
	const unsigned i = threadIdx.x;
	work[i] = n - 1 - i;
	if (i == 0)
		asm volatile("mbarrier.init.shared.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(at) : "memory");
	asm volatile("fence.proxy.async;" ::: "memory");
	__syncthreads();
	if (i == 0) {
		asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(at) : "memory");
		asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(to), "l"(work), "r"(at) : "memory");
	}
	__syncthreads();
	unsigned done;
	do
		asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.parity.shared.b64 p, [%1], 0;\n\tselp.u32 %0, 1, 0, p;\n\t}" : "=r"(done) : "r"(at) : "memory");
	while (waits && !done);
	if (i < n)
		out[i] = numbers[i];
	do // nobody leaves before the copy has ended
		asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.parity.shared.b64 p, [%1], 0;\n\tselp.u32 %0, 1, 0, p;\n\t}" : "=r"(done) : "r"(at) : "memory");
	while (!done);
}
extern "C" __global__ void awaited(long n, const float *in, float *out, float *work) { hand_on(n, out, work, true); }
`

// TestDelaysOnGPU: with delays, and with NaN where a bulk copy is to put its numbers, who waits for it is right. Who
// does not is wrong where his reader comes before the copy, which is a matter of a microsecond: of that there is no test.
func TestDelaysOnGPU(t *testing.T) {
	worker := os.Getenv("EVOTUNE_CUDA_WORKER")
	if worker == "" {
		t.Skip("NOT RUN: EVOTUNE_CUDA_WORKER names no worker")
	}
	def, err := kernels.Load(os.DirFS("../testdata"), "zoo-cuda")
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Options{Worker: worker, CacheDir: t.TempDir(), Sanitizers: []string{schedules, guards}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.open(t.Context(), planOf(def))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close() //nolint:errcheck // nothing is kept
	for _, tool := range h.Describe().Tools {
		t.Logf("%s %s %s", tool.Name, tool.Version, tool.Missing)
	}
	if h.delayer == nil || !h.guarded {
		t.Fatal("delays or guards do not work")
	}
	d := h.gpus[0].device
	if d.Capability != 90 {
		t.Skipf("NOT RUN: the device has capability %d", d.Capability)
	}
	g := wire.Geometry{Grid: [3]int64{1, 1, 1}, Block: [3]int64{256, 1, 1}, Workspace: 1024}
	trials := []delayTrial{{right: true, entry: "awaited", geometry: g}}
	if err := h.tryDelays(t.Context(), h.delayer, unit{source: copiesSource, arch: "sm_90", plain: true}, trials); err != nil {
		t.Error(err)
	}
}
