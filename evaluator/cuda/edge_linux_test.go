package cuda

import (
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
)

// TestEdges: edge-case inputs come among timed launches, one in a measurement of a search and all in finals. Who is
// wrong on them is wrong, by the reference on the device or on the CPU; where the baseline is wrong, too, nobody is compared.
func TestEdges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		env   string
		wrong bool // of who is far from the baseline
		does  []string
	}{
		{"device", "", true, []string{"nothing", "time=grazed", "time=bitten"}},
		{"the baseline is wrong", "EVOTUNE_FAKE_BASELINE=bitten", false, []string{"nothing"}},
		{"CPU", "", true, []string{"time=bitten"}},
		{"CPU, the baseline is wrong", "EVOTUNE_FAKE_BASELINE=bitten", false, []string{"nothing"}},
	} {
		plan := fakePlan(t)
		if strings.HasPrefix(c.name, "CPU") {
			if _, err := exec.LookPath("gcc"); err != nil {
				t.Skip("there is no C compiler: the reference in C cannot run")
			}
			plan = planOf(bareDefinition(t))
		}
		h := openLabOf(t, plan, c.env)
		for _, do := range c.does {
			wrong := do == "time=bitten"
			met := edgesMet(t, h, evaluator.ForTiming, do, 0, wrong)
			if len(met) > 1 || !wrong && c.env == "" && len(met) == 0 || c.env != "" && len(met) > 0 {
				t.Errorf("%s, %s: compared in a search: %v", c.name, do, met)
			}
			if do == "time=grazed" || c.name != "device" {
				continue
			}
			var finals []string
			for set := range 3 {
				finals = append(finals, edgesMet(t, h, evaluator.ForFinals, do, set, wrong)...)
				if wrong {
					break
				}
			}
			if all := len(h.edges[h.problem.Tune[0]]); !wrong && len(finals) < all {
				t.Errorf("%s: compared in finals: %v, want %d", do, finals, all)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(h.Scratch, "left-*")); len(left) > 0 {
			t.Errorf("outputs are left behind: %v", left)
		}
	}
}

// edgesMet measures at the tuned shape, and gives the edge cases that were compared.
func edgesMet(t *testing.T, h *lab, p evaluator.Purpose, do string, set int, wrong bool) (met []string) {
	t.Helper()
	s, err := openSession(t, h, p, do)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	said := ""
	for _, last := range []bool{false, true} {
		got, err := s.Sample(t.Context(), evaluator.SampleRequest{Shape: h.Plan.Tune[0], Rounds: 2, Last: last, Set: set})
		if err != nil {
			t.Fatal(err)
		}
		met, said = append(met, got.Series[0].After.Edges...), said+got.Series[0].After.Wrong
	}
	if (said != "") != wrong || wrong && !strings.Contains(said, "in a pass like those that are timed: output y: error") {
		t.Errorf("%s: %q", do, said)
	}
	return met
}

// TestComparable: a search draws from what is kept once there is no room for more, and never what shows nothing.
func TestComparable(t *testing.T) {
	list := []*edge{{taken: true}, {taken: true}, {taken: true, silent: true}, {}, {silent: true}}
	for bytes, want := range map[int][]*edge{
		1: {list[0], list[1], list[3]}, labs.EdgeBudget / 3: {list[0], list[1], list[3]}, labs.EdgeBudget/3 + 1: {list[0], list[1]}, math.MaxInt32: {list[0], list[1]},
	} {
		if got := comparable(list, bytes); !slices.Equal(got, want) {
			t.Errorf("of %d bytes each: %d, want %d", bytes, len(got), len(want))
		}
	}
	if got := comparable(list[3:], math.MaxInt32); !slices.Equal(got, list[3:4]) {
		t.Errorf("none is kept: %d", len(got))
	}
	if got := comparable(list[2:3], 1); len(got) != 0 {
		t.Errorf("one that shows nothing is drawn: %v", got)
	}
}

// TestEdgeless: what takes too much is not made, and the evidence says so.
func TestEdgeless(t *testing.T) {
	q, err := newProblem(fakePlan(t))
	if err != nil {
		t.Fatal(err)
	}
	h := &lab{problem: q, edges: map[*shapeData][]*edge{}}
	d := *q.Tune[0]
	d.wire.Elements = []int64{labs.EdgeBudget/4 + 1, 1}
	s := &session{h: h, purpose: evaluator.ForFinals, due: map[*shapeData][]*edge{}, made: map[*shapeData]string{}}
	var r wire.TimeRequest
	if list, err := h.anyEdge(&d); len(list) > 0 || err != nil {
		t.Error(list, err)
	}
	if err := s.askEdges(&r, &d, evaluator.SampleRequest{Last: true}); err != nil || len(r.Edges) > 0 || len(s.said) != 1 {
		t.Fatal(r.Edges, s.said, err)
	}
	if e := s.said[0]; e.Check != "edge cases tuned" || e.Outcome != evaluator.NotRun || !strings.Contains(e.Detail, "they take 256 MB, and at most 256 are made") {
		t.Errorf("%+v", e)
	}
	d.wire.Elements[0]--
	if why := h.edgeless(&d); why != "" {
		t.Error(why)
	}
}

// TestBeside: the distance from the reference is what exceeds the slack, relative to the reference's scale.
func TestBeside(t *testing.T) {
	q, err := newProblem(fakePlan(t))
	if err != nil {
		t.Fatal(err)
	}
	d := *q.Tune[0]
	d.wire.Elements = []int64{4, 4}
	truth := [3][]float64{{1, -1, 1, -1}, {1, -1, 1.25, -1}, {1, -1, 1, -1}}
	for _, c := range []struct {
		got   []float64
		error float64
		worst int64
		bad   int64
	}{
		{[]float64{1, -1, 1, -1}, 0, 0, 0},
		{[]float64{1, -1, 1.25, -1}, 0, 2, 0},
		{[]float64{1, -1.5, 1.25, -1}, 0.25 - 0x1p-23, 1, 0},
		{[]float64{1, -1, 1, math.NaN()}, math.Inf(1), 3, 1},
	} {
		o := q.beside(&d, c.got, truth)[0]
		if o.Name != "y" || float64(o.Error) != c.error || o.Worst != c.worst || o.NotFinite != c.bad || o.Limit != 1e-5 || o.Elements != 4 || o.RMS != 1 {
			t.Errorf("%v: %+v", c.got, o)
		}
	}
	zeros := make([]float64, 4)
	if o := q.beside(&d, []float64{0, 0, 1e-9, 0}, [3][]float64{zeros, zeros, zeros})[0]; !math.IsInf(float64(o.Error), 1) {
		t.Errorf("beside zeros: %+v", o)
	}
}
