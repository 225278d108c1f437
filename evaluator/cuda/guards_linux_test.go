package cuda

import (
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// TestGuards: finalists are launched on buffers that end, and that begin, where mapped memory does; what is seen
// there costs the win, and the next candidate finds another worker. The search launches nobody so.
func TestGuards(t *testing.T) {
	t.Parallel()
	_, ev := openFake(t, fakeOptions(t))
	for i, c := range []struct {
		do      string
		verdict evaluator.Verdict
		outcome evaluator.Check
		says    string
	}{
		{"guards=end-fatal", evaluator.Sanitizer, evaluator.Failed, "it reads or writes beyond the end of a buffer: buffers end where mapped memory ends; cuCtxSynchronize failed: illegal address"},
		{"guards=begin-fatal", evaluator.Sanitizer, evaluator.Failed, "it reads or writes before the beginning of a buffer: buffers begin where mapped memory begins; cuCtx"},
		{"guards=end-fault", evaluator.Sanitizer, evaluator.Failed, "it fails with buffers that end where mapped memory ends, aligned to 16 bytes; cuLaunchKernel failed"},
		{"guards=begin-wrong", evaluator.Sanitizer, evaluator.Failed, "buffers that begin where mapped memory begins: output y: error 0.5"},
		{"guards=end-guard", evaluator.Sanitizer, evaluator.Failed, "memory outside of buffer y was changed, at byte 260"},
		{"guards=end-nowhere", evaluator.Correct, evaluator.NotRun, "no memory for buffers that end where mapped memory ends: cuMemCreate"},
		{"nothing", evaluator.Correct, evaluator.Passed, "no fault in two launches at shape tuned as it is timed: buffers that end where mapped memory ends, and that begin where it begins"},
	} {
		g := fakeGenome(t, c.do, 10+i)
		r := evaluate(t, ev, g)
		if e, ok := findEvidence(r, guards); r.Verdict != evaluator.Correct || ok {
			t.Errorf("%s: the search: %s %s, %+v", c.do, r.Verdict, r.Reason, e)
		}
		f, err := ev.Finals(t.Context(), []genome.Genome{g})
		if err != nil {
			t.Fatal(err)
		}
		x := f.Entries[0]
		row := slices.IndexFunc(x.Evidence, func(e evaluator.Evidence) bool { return e.Check == guards && e.Outcome == c.outcome })
		if x.Verdict != c.verdict || row < 0 || !strings.Contains(x.Evidence[row].Detail, c.says) {
			t.Errorf("%s: %s %s, %+v", c.do, x.Verdict, x.Reason, x.Evidence)
		}
	}
}

// TestGuardsThatDoNotWork: without such memory, or switched off, they are "not run".
func TestGuardsThatDoNotWork(t *testing.T) {
	t.Parallel()
	for say, change := range map[string]func(*Options){
		"the driver does not map memory at chosen addresses": func(o *Options) { o.workerEnv = append(o.workerEnv, "EVOTUNE_FAKE_MAPPING=none") },
		"switched off by the options":                        func(o *Options) { o.Sanitizers = []string{memcheck} },
	} {
		o := fakeOptions(t)
		change(&o)
		h, ev := openFake(t, o)
		r := evaluate(t, ev, fakeGenome(t, "guards=end-fatal", 1))
		if e, _ := findEvidence(r, guards); h.guarded || r.Verdict != evaluator.Correct || e.Outcome != evaluator.NotRun || !strings.Contains(e.Detail, say) {
			t.Errorf("%s: %s, %+v", say, r.Verdict, e)
		}
	}
}
