package cuda

import (
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
)

// TestSchedules: candidates with copies that racecheck does not follow run with delays
// instead, and say so; others do not, and say that.
func TestSchedules(t *testing.T) {
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
		{"schedules=broken", evaluator.Correct, "", evaluator.NotRun, "its code with delays cannot be made: PTX, line", ""},
		{"schedules=unassembled", evaluator.Correct, "", evaluator.NotRun, "its code with delays cannot be made: kernel.ptx(1): error", copies},
		{"schedules=serialized", evaluator.Correct, "", evaluator.Passed, "in this build: ptxas info : (C7510) Potential Performance Loss", copies},
	} {
		t.Run(c.do, func(t *testing.T) {
			r := evaluate(t, ev, fakeGenome(t, c.do, 3))
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
	for _, c := range []struct {
		blind, say string
		tools      []string
	}{
		{blind: schedules, say: "it does not work here (the assembler of the tests: delays do not show the fault that was planted for them)"},
		{blind: "clean", say: "a kernel without a fault is wrong with delays"},
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
