package report_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/store"
)

// A contender is what compared makes a subject of.
type contender struct {
	id, kernel, device, harness, hash, compiler string
	genome                                      string
	shapes                                      []string
	verdict                                     evaluator.Verdict
	// machine is how slow the machine was then, ratio the time relative to the
	// baseline, wobble how far samples are apart.
	machine, ratio, wobble float64
}

func (c contender) timings() []evaluator.Timing {
	var out []evaluator.Timing
	for _, shape := range c.shapes {
		var mine, base []float64
		for i := range 20 {
			b := 1000 * c.machine * (1 + c.wobble*float64(i%5))
			base, mine = append(base, b), append(mine, b*c.ratio*(1+c.wobble*float64(i%7)))
		}
		out = append(out, evaluator.NewTiming(shape, mine, base, 1, 1))
	}
	return out
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (c contender) subject(t *testing.T, finals *store.Finals) report.Subject {
	t.Helper()
	r := evaluator.Result{
		Verdict: c.verdict, Stage: evaluator.StageBenchmark, Timings: c.timings(), Source: "s" + c.id, Binary: "b" + c.id,
		Steps: []evaluator.Step{
			{Stage: evaluator.StageInspect, Outcome: evaluator.Passed, Evidence: []evaluator.Evidence{
				{Check: "registers", Outcome: evaluator.Passed, Value: 64, Limit: 255, Unit: "registers per thread"},
				{Check: "spill stores", Outcome: evaluator.Passed, Unit: "bytes per thread"},
			}},
			{Stage: evaluator.StageParity, Outcome: evaluator.Passed, Evidence: []evaluator.Evidence{
				{Check: "parity 8 seed 1", Outcome: evaluator.Passed, Value: 1e-6, Limit: 1e-5},
				{Check: "parity 8 seed 2", Outcome: evaluator.Passed, Value: 3e-6, Limit: 1e-5},
			}},
			{Stage: evaluator.StageSanitize, Outcome: evaluator.Passed, Evidence: []evaluator.Evidence{
				{Check: "asan", Outcome: evaluator.Passed},
				{Check: "tsan", Outcome: evaluator.NotRun, Detail: "one thread"},
			}},
		},
	}
	if c.verdict != evaluator.Correct {
		r.Timings = nil
	}
	d := evaluator.Description{Backend: "cpu", Device: evaluator.Device{Name: "the " + c.device, Fingerprint: c.device}, Harness: c.harness, Compiler: c.compiler, Baseline: "plain"}
	of := store.Campaign{ID: "campaign of " + c.id, Started: store.Started{
		Kernel: c.kernel, Config: encode(t, map[string]string{"hash": c.hash}), Description: encode(t, d),
	}}
	return report.Subject{
		Candidate: store.Candidate{
			ID: c.id, Campaign: of.ID, Kernel: c.kernel, Shapes: c.shapes, Asked: store.Asked{Genome: c.genome},
			Told: &store.Told{Verdict: string(c.verdict), Fitness: c.ratio, Detail: encode(t, r)},
		},
		Campaign: of, Finals: finals, Source: report.LeftOut("", "none"),
	}
}

func finalsOf(t *testing.T, of ...contender) *store.Finals {
	t.Helper()
	f := &store.Finals{Winner: of[0].id}
	var d evaluator.Finals
	for _, c := range of {
		f.Finalists = append(f.Finalists, c.id)
		d.Entries = append(d.Entries, evaluator.Finalist{Verdict: c.verdict, Fitness: c.ratio, Timings: c.timings()})
	}
	f.Detail = encode(t, d)
	return f
}

// Figures that every answer has are there also where they are 0, others are not.
func TestTimesOfNothing(t *testing.T) {
	for _, c := range []struct {
		value any
		there bool
	}{{report.BestView{}, true}, {report.Time{}, true}, {report.Summary{}, false}} {
		b, err := json.Marshal(c.value)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{`"median_ns":0`, `"baseline_ns":0`} {
			if strings.Contains(string(b), name) != c.there {
				t.Errorf("%T: %s", c.value, b)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	plain := func(id string, change func(*contender)) contender {
		c := contender{
			id: id, kernel: "k", device: "d1", harness: "h1", hash: "one", compiler: "gcc 12", genome: "A=1,B=true",
			shapes: []string{"8"}, verdict: evaluator.Correct, machine: 1, ratio: 0.5, wobble: 0.01,
		}
		if change != nil {
			change(&c)
		}
		return c
	}
	slower := func(c *contender) { c.ratio, c.genome = 0.6, "A=2,B=true" }
	for _, c := range []struct {
		name   string
		a, b   contender
		finals string // "both", "each" or ""
		reason string // why it is not comparable
		want   string // the test at shape 8
	}{
		{"the same time on a slower day", plain("a", nil), plain("b", func(c *contender) { c.machine = 3 }), "", "", "~"},
		{"slower", plain("a", nil), plain("b", slower), "", "", "+20.00%"},
		{"faster", plain("a", slower), plain("b", nil), "", "", "-16.67%"},
		{"slower in the same finals", plain("a", nil), plain("b", slower), "both", "", "+20.00%"},
		{"slower in the finals of each", plain("a", nil), plain("b", slower), "each", "", "+20.00%"},
		{"kernels", plain("a", nil), plain("b", func(c *contender) { c.kernel = "other" }), "", "kernels differ: k and other", ""},
		{"devices", plain("a", nil), plain("b", func(c *contender) { c.device = "d2" }), "", "devices differ: d1: the d1 and d2: the d2", ""},
		{"harnesses", plain("a", nil), plain("b", func(c *contender) { c.harness = "h2" }), "both", "harness versions differ: h1 and h2", ""},
		{"definitions", plain("a", nil), plain("b", func(c *contender) { c.hash = "two" }), "", "definitions of the kernel differ: one and two", ""},
		{"compilers", plain("a", nil), plain("b", func(c *contender) { c.compiler = "clang" }), "", "compilers differ: gcc 12 and clang", ""},
		{"shapes", plain("a", nil), plain("b", func(c *contender) { c.shapes = []string{"9"} }), "", "shapes differ: 8 and 9", ""},
		{"a shape in common", plain("a", nil), plain("b", func(c *contender) { c.shapes = []string{"9", "8"} }), "", "", "~"},
		{"one failed", plain("a", nil), plain("b", func(c *contender) { c.verdict = evaluator.Parity }), "", "b is not correct: parity", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fa, fb *store.Finals
			from := "the search, one measurement each"
			switch c.finals {
			case "both":
				fa, from = finalsOf(t, c.a, c.b), "the finals that both were in, round by round"
			case "each":
				fa, fb, from = finalsOf(t, c.a), finalsOf(t, c.b), "the finals of each"
			}
			d, err := report.Compare(c.a.subject(t, fa), c.b.subject(t, fb))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(d.NotComparable, "; "); got != c.reason {
				t.Errorf("not comparable: %q, want %q", got, c.reason)
			}
			if d.From != from {
				t.Errorf("times of %q, want %q", d.From, from)
			}
			got := ""
			for _, p := range d.Times {
				if p.Test != nil && c.reason != "" {
					t.Errorf("%s: tested in spite of %s", p.Shape, c.reason)
				}
				if p.Shape == "8" && p.Test != nil {
					got = p.Test.String()
				}
			}
			if got != c.want {
				t.Errorf("B against A: %q, want %q", got, c.want)
			}
		})
	}
	two := func(c *contender) { c.shapes = []string{"8", "9"} }
	a, b := plain("a", two), plain("b", func(c *contender) { slower(c); two(c) })
	d, err := report.Compare(a.subject(t, finalsOf(t, a, b)), b.subject(t, nil))
	if err != nil || d.Overall == nil || d.Overall.String() != "+20.00%" {
		t.Errorf("over all shapes: %+v, %v", d.Overall, err)
	}
	if diff := cmp.Diff([]report.DifferentGene{{Gene: "A", A: int64(1), B: int64(2)}}, d.Genes); diff != "" || d.SameGenes != 1 {
		t.Errorf("genes, %d alike (-want +got):\n%s", d.SameGenes, diff)
	}
	if diff := cmp.Diff([]report.EvidencePair{
		{"verdict", "correct", "correct"},
		{"finals", "won, not tested", "in none"},
		{"source", "sa", "sb"},
		{"binary", "ba", "bb"},
		{"parity", "2 passed, worst 3e-06 of 1e-05", "2 passed, worst 3e-06 of 1e-05"},
		{"asan", "passed", "passed"},
		{"tsan", "not run: one thread", "not run: one thread"},
		{"registers", "64 registers per thread", "64 registers per thread"},
		{"spill stores", "0 bytes per thread", "0 bytes per thread"},
	}, d.Evidence); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
}
