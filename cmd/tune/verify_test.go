package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// rounds are timings of 20 rounds within 1% of a ratio to the baseline.
func rounds(ratio float64) []evaluator.Timing {
	var mine, base []float64
	for i := range 20 {
		b := 1000 + float64(i*37%11)
		base, mine = append(base, b), append(mine, b*ratio*(1+.01*float64(i*7%20-10)/10))
	}
	return []evaluator.Timing{evaluator.NewTiming("8", mine, base, 1, 1)}
}

// TestPrintVerification: what was compared is said, and a busy machine is neither.
func TestPrintVerification(t *testing.T) {
	correct := evaluator.Result{Verdict: evaluator.Correct, Fitness: 1 / 3.057, Timings: rounds(1 / 3.057)}
	fresh := &evaluator.Finalist{Verdict: evaluator.Correct, Fitness: 1 / 2.9, Timings: rounds(1 / 2.9)}
	test := evaluator.Comparison{Ratio: 1.03, P: 0.01, Significant: true}
	both := campaign.Verification{Stored: correct, Again: correct, Reference: correct.Fitness, Fresh: fresh, Test: &test}
	searched, inFinals, twice := both, both, both
	searched.Corrected, searched.SelectedFrom, searched.Reproduced = 1/2.98, 84, true
	inFinals.Reproduced = true
	twice.Reason = "twice"
	for _, c := range []struct {
		v    campaign.Verification
		rec  campaign.Record
		from string
		want string
	}{
		{searched, campaign.Record{Result: correct}, record.FromSearch, "stored (search, selected from 84) 3.057x, corrected 2.980x: compared with what was corrected\nreproduced\n"},
		{inFinals, campaign.Record{Result: correct, Finals: fresh}, record.FromFinals, "stored (finals) 3.057x\nreproduced\n"},
		{twice, campaign.Record{Result: correct, Finals: fresh}, record.FromFinals, "stored (finals) 3.057x\nNOT reproduced: twice\n"},
		{
			campaign.Verification{Stored: correct, Again: evaluator.Result{Verdict: evaluator.Infrastructure}, Disturbed: "python3 (pid 812) uses the GPU (97%)"},
			campaign.Record{Result: correct},
			record.FromSearch, "\nnot verified: the machine is busy: python3 (pid 812) uses the GPU (97%)\n",
		},
	} {
		var b bytes.Buffer
		if err := printVerification(&b, evotune.Record{Candidate: store.Candidate{ID: "a"}, Record: c.rec}, evotune.Verification{SameDevice: true, StoredHarness: "cpu/1", Harness: "cpu/5", Measured: c.from, Verification: c.v}); err != nil {
			t.Fatal(err)
		}
		if said := b.String(); !strings.HasSuffix(said, c.want) || !regexp.MustCompile(`(?m)^harness +cpu/1 +cpu/5$`).MatchString(said) || !strings.Contains(said, "CHANGED: definition, source") {
			t.Errorf("printed\n%swant at the end\n%s", said, c.want)
		}
	}
}
