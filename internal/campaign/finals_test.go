package campaign

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// The best candidate's times are in the events also where they are 0.
func TestBestHasTimes(t *testing.T) {
	b, err := json.Marshal(Best{})
	if err != nil || !strings.Contains(string(b), `"median_ns":0,"baseline_ns":0,"speedup":0`) {
		t.Errorf("%s, %v", b, err)
	}
}

// To go on, a campaign needs all that its resumptions noted.
func TestResumptionWithoutNote(t *testing.T) {
	var p past
	err := p.read([]store.Event{
		{Seq: 1, Campaign: "k-1", Kind: store.KindStarted, Started: &store.Started{SearchVersion: 1}},
		{Seq: 2, Campaign: "k-1", Kind: store.KindResumed, Note: &store.Note{Reason: "resumed"}},
	}, false)
	if err == nil || !strings.HasPrefix(err.Error(), "campaign k-1: event 2: the resumption cannot be read: ") {
		t.Error(err)
	}
}

// TestFinalists: who was timed beside a slow baseline by chance does not keep out
// who is fast, and nobody is measured twice.
func TestFinalists(t *testing.T) {
	r := &runner{cfg: record.Job{Finalists: new(4)}}
	add := func(median, baseline float64, binary string) {
		r.candidates = append(r.candidates, candidate{
			told: true, verdict: evaluator.Correct, figures: record.Figures{Fitness: median / baseline, Times: evaluator.Times{MedianNS: median, BaselineNS: baseline}}, binary: binary,
		})
	}
	for i := range 200 {
		add(80+float64(i%50), 100, fmt.Sprint("honest ", i))
	}
	for i := range 5 {
		add(80, 105+float64(i), fmt.Sprint("lucky ", i))
		r.candidates = append(r.candidates, candidate{told: true, verdict: evaluator.Parity, figures: record.Figures{Fitness: 0.1}})
	}
	add(79, 100, "fastest")
	add(79, 100, "fastest") // the same code by other genes
	add(79.5, 100, "")      // nobody knows whether its code is another's
	binaries := func() (out []string) {
		for _, i := range r.finalists() {
			out = append(out, r.candidates[i].binary)
		}
		return out
	}
	if got, want := binaries(), []string{"lucky 4", "fastest", "lucky 3", ""}; !slices.Equal(got, want) {
		t.Errorf("finalists %q, want %q", got, want)
	}
	// A machine that is slower for a while is so for the baseline as well.
	r.candidates = nil
	for i := range 400 {
		slow := 1.0
		if i >= 200 {
			slow = 1.5
		}
		add(slow*(90-float64(i%200)/100), slow*100, fmt.Sprint(i))
	}
	if got, want := binaries(), []string{"199", "399", "198", "398"}; !slices.Equal(got, want) {
		t.Errorf("on a machine that gets slower: finalists %q, want %q", got, want)
	}
	r.candidates = r.candidates[:3]
	if got := r.finalists(); len(got) != 3 {
		t.Errorf("of three candidates %v are finalists", got)
	}
	r.candidates = nil
	if got := r.finalists(); len(got) != 0 {
		t.Errorf("of none %v are finalists", got)
	}
}

// TestRefusedCode: what finals say of a finalist, they say of all that compile to its code.
func TestRefusedCode(t *testing.T) {
	r := &runner{}
	for i, binary := range []string{"x", "y", "x", "", "", "x", "y", "z"} {
		r.candidates = append(r.candidates, candidate{id: fmt.Sprint(i), binary: binary})
	}
	res := evaluator.Finals{Entries: []evaluator.Finalist{{Verdict: evaluator.Sanitizer}, {Verdict: evaluator.Correct}, {Verdict: evaluator.Parity}, {Verdict: evaluator.Infrastructure}}}
	if got, want := r.refused([]int{0, 1, 3, 7}, res), []string{"2", "5"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
