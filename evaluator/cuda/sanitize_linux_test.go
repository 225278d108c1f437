//go:build linux

package cuda

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// sanitizedPlan is the plan of the fake kernel with a further sanitize shape, where the
// search launches a genome under tools at dimensions of its own.
func sanitizedPlan(tb testing.TB, dims string) evaluator.Plan {
	tb.Helper()
	keys := dims
	if strings.HasPrefix(dims, "{") {
		keys = "dims = " + dims
	}
	text := strings.Replace(fakeKernel, "[problem.tolerance]", "[[problem.shape]]\nname = \"small-odd\"\ndims = { N = 33 }\nuse = \"sanitize\"\n\n[problem.tolerance]", 1)
	text = strings.Replace(text, "or N != 37", "or N != 37 and N != 35", 1)
	if dims != "" {
		text = strings.Replace(text, "[implementation.baseline]", "[implementation.sanitize]\n"+keys+"\n\n[implementation.baseline]", 1)
	}
	p := planOf(fakeFrom(tb, text, "y[i] = 2 * x[i]", "const double *x"))
	p.SanitizeAlso = p.Definition.Problem.ShapesFor(kernels.Sanitize)[1:]
	return p
}

// watched lists what candidates were launched at under a tool since it was asked last:
// the shape's name, its sizes and elements, and the grid.
func watched(tb testing.TB, dir, tool string) (list []string) {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "watched-"+tool+"-*"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range files {
		_, name, _ := strings.Cut(strings.TrimPrefix(filepath.Base(f), "watched-"+tool+"-candidate-"), "-")
		list = append(list, name)
		if err := os.Remove(f); err != nil {
			tb.Fatal(err)
		}
	}
	slices.Sort(list)
	return list
}

// Tools launch a candidate at its own shape in the search, with the geometry and the buffers
// that it has there, and in the finals at the definition's. What is found there costs the
// win.
func TestSanitizeShapes(t *testing.T) {
	t.Parallel()
	const small, odd, own64, own128 = "small-[64][64 64][1 1 1]", "small-odd-[33][33 33][1 1 1]", "72-[72][72 72][2 1 1]", "136-[136][136 136][2 1 1]"
	for _, c := range []struct {
		dims   string
		block  int
		search string
		finals []string
	}{
		{"", 64, small, []string{odd}},
		{`{ N = "BLOCK + 8" }`, 64, own64, []string{small, odd}},
		{`{ N = "BLOCK + 8" }`, 128, own128, []string{"small-[64][64 64][1 1 1]", "small-odd-[33][33 33][1 1 1]"}},
		{`{ N = "BLOCK - 93" }`, 128, small, []string{odd}}, // 35, which blocks of 128 cannot
		{`{ N = "64*N/BLOCK" }`, 64, small, []string{odd}},  // the same
		{`{ N = "BLOCK/2 + 1" }`, 64, "33-[33][33 33][1 1 1]", []string{small}},
	} {
		t.Run(fmt.Sprint(c.dims, c.block), func(t *testing.T) {
			o, plan := fakeOptions(t), sanitizedPlan(t, c.dims)
			_, ev := openFakePlan(t, o, plan)
			for _, tool := range sanitizers() {
				if list := watched(t, stateOf(o), tool); len(list) > 0 {
					t.Errorf("%s watched %q before the search", tool, list)
				}
			}
			r := evaluate(t, ev, fakeBlock(t, "nothing", 3, c.block))
			if r.Verdict != evaluator.Correct {
				t.Fatalf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
			}
			name, _, _ := strings.Cut(c.search, "-")
			for _, tool := range sanitizers() {
				if list := watched(t, stateOf(o), tool); !slices.Equal(list, []string{c.search}) {
					t.Errorf("the search: %s watched %q, want %q", tool, list, c.search)
				}
				if e, _ := findEvidence(r, tool); e.Detail != "no fault in one launch at shape "+name {
					t.Errorf("the search: %+v", e)
				}
			}
			if _, left := findEvidence(r, evaluator.SanitizeShapes); left != (c.search != small) {
				t.Errorf("says what it left: %v", left)
			}
			f, err := ev.Finals(t.Context(), []genome.Genome{fakeBlock(t, "nothing", 3, c.block)})
			if err != nil || f.Winner != 0 {
				t.Fatalf("%+v, %v", f, err)
			}
			for _, tool := range sanitizers() {
				if list := watched(t, stateOf(o), tool); !slices.Equal(list, c.finals) {
					t.Errorf("the finals: %s watched %q, want %q", tool, list, c.finals)
				}
				n := 0
				for _, e := range f.Entries[0].Evidence {
					if e.Check == tool && e.Outcome == evaluator.Passed && strings.HasPrefix(e.Detail, "in finals: no fault in one launch at shape small") {
						n++
					}
				}
				if n != len(c.finals) {
					t.Errorf("%s: %d rows of the finals: %+v", tool, n, f.Entries[0].Evidence)
				}
			}
		})
	}
}

// A search launches the first blocks alone where the implementation says so, and the evidence
// says how many. The finals launch all, but under racecheck.
func TestSanitizeBlocks(t *testing.T) {
	t.Parallel()
	const odd = "small-odd-[33][33 33][1 1 1]"
	for _, c := range []struct {
		keys, search, detail string
		left                 bool     // whether the search leaves something to the finals
		finals, racecheck    []string // what the finals launch, and under racecheck
	}{
		{
			"blocks = 1", "small-[200][200 200][1 1 1]", "a launch at shape small of the first 1x1x1 of its 4x1x1 blocks, and the others did not run", true,
			[]string{odd, "small-[200][200 200][4 1 1]"},
			[]string{odd, "small-[200][200 200][1 1 1]"},
		},
		{
			"blocks = 3", "small-[200][200 200][3 1 1]", "a launch at shape small of the first 3x1x1 of its 4x1x1 blocks, and the others did not run", true,
			[]string{odd, "small-[200][200 200][4 1 1]"},
			[]string{odd, "small-[200][200 200][3 1 1]"},
		},
		{"blocks = 4", "small-[200][200 200][4 1 1]", "one launch at shape small", false, []string{odd}, []string{odd}},
		{
			"dims = { N = \"4*BLOCK + 8\" }\nblocks = 2", "264-[264][264 264][2 1 1]", "a launch at shape 264 of the first 2x1x1 of its 5x1x1 blocks, and the others did not run", true,
			[]string{odd, "small-[200][200 200][4 1 1]"},
			[]string{odd, "small-[200][200 200][2 1 1]"},
		},
		{
			"dims = { N = \"BLOCK + 8\" }\nblocks = 2", "72-[72][72 72][2 1 1]", "one launch at shape 72", true,
			[]string{odd, "small-[200][200 200][4 1 1]"},
			[]string{odd, "small-[200][200 200][2 1 1]"},
		},
	} {
		t.Run(c.keys, func(t *testing.T) {
			o, plan := fakeOptions(t), sanitizedPlan(t, c.keys)
			plan.Sanitize.Dims = map[string]int64{"N": 200}
			_, ev := openFakePlan(t, o, plan)
			g := fakeBlock(t, "nothing", 3, 64)
			r := evaluate(t, ev, g)
			if r.Verdict != evaluator.Correct {
				t.Fatalf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
			}
			for _, tool := range sanitizers() {
				if list := watched(t, stateOf(o), tool); !slices.Equal(list, []string{c.search}) {
					t.Errorf("the search: %s watched %q, want %q", tool, list, c.search)
				}
				if e, _ := findEvidence(r, tool); e.Detail != "no fault in "+c.detail {
					t.Errorf("%+v, want %q", e, c.detail)
				}
			}
			if _, left := findEvidence(r, evaluator.SanitizeShapes); left != c.left {
				t.Errorf("says what it left: %v", left)
			}
			f, err := ev.Finals(t.Context(), []genome.Genome{g})
			if err != nil || f.Winner != 0 {
				t.Fatalf("%+v, %v", f, err)
			}
			for _, tool := range sanitizers() {
				want := c.finals
				if tool == racecheck {
					want = c.racecheck
				}
				slices.Sort(want)
				if list := watched(t, stateOf(o), tool); !slices.Equal(list, want) {
					t.Errorf("the finals: %s watched %q, want %q", tool, list, want)
				}
			}
		})
	}
}

// What runs under the other tools has the GPU by turns: a launch under a tool may take longer than one elsewhere.
func TestToolPatience(t *testing.T) {
	t.Parallel()
	longtest.Short(t, "waits for four seconds")
	o := fakeOptions(t)
	o.Timeout = 3 * time.Second
	_, ev := openFakePlan(t, o, sanitizedPlan(t, `{ N = "BLOCK + 8" }`))
	if r := evaluate(t, ev, fakeGenome(t, "racecheck=dawdle", 1)); r.Verdict != evaluator.Correct {
		t.Errorf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
}

// A finding at the genome's own shape refuses it in the search, and one at the
// definition's shapes in the finals, where the next best wins.
func TestFindingsAtShapes(t *testing.T) {
	t.Parallel()
	_, ev := openFakePlan(t, fakeOptions(t), sanitizedPlan(t, `{ N = "BLOCK + 8" }`))
	for do, want := range map[string]string{
		"memcheck=at-72": "memcheck: at shape 72: Invalid __global__ write", "racecheck=at-small": "", "memcheck=at-small-odd": "", "synccheck=at-136": "",
	} {
		verdict := evaluator.Correct
		if want != "" {
			verdict = evaluator.Sanitizer
		}
		if r := evaluate(t, ev, fakeGenome(t, do, 1)); r.Verdict != verdict || !strings.HasPrefix(r.Reason, want) {
			t.Errorf("%s: %s at %s: %s", do, r.Verdict, r.Stage, r.Reason)
		}
	}
	if r := evaluate(t, ev, fakeBlock(t, "synccheck=at-136", 1, 128)); r.Verdict != evaluator.Sanitizer {
		t.Errorf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
	for do, want := range map[string]string{
		"racecheck=at-small":    "finals: racecheck: at shape small: Error: Race reported",
		"memcheck=at-small-odd": "finals: memcheck: at shape small-odd: Invalid __global__ write",
	} {
		f, err := ev.Finals(t.Context(), []genome.Genome{fakeGenome(t, do, 1), fakeGenome(t, "slow", 2)})
		if err != nil {
			t.Fatal(err)
		}
		if e := f.Entries[0]; e.Verdict != evaluator.Sanitizer || !strings.HasPrefix(e.Reason, want) || f.Winner != 1 || f.Entries[1].Verdict != evaluator.Correct {
			t.Errorf("%s: %s: %s; winner %d, the other %s: %s", do, e.Verdict, e.Reason, f.Winner, f.Entries[1].Verdict, f.Entries[1].Reason)
		}
	}
}

// A shape of its own is none for which anything else is prepared, or on which the identity
// of other candidates depends.
func TestOwnShape(t *testing.T) {
	t.Parallel()
	plan := sanitizedPlan(t, `{ N = "BLOCK + SALT + 8" }`)
	h, _ := openFakePlan(t, fakeOptions(t), plan)
	a, b := build(t, h, "nothing", 1), build(t, h, "nothing", 2)
	if a.Sanitize.Name != "73" || b.Sanitize.Name != "74" || !maps.Equal(a.Sanitize.Dims, map[string]int64{"N": 73}) {
		t.Errorf("%+v and %+v", a.Sanitize, b.Sanitize)
	}
	if len(a.Unsupported) > 0 {
		t.Errorf("unsupported: %v", a.Unsupported)
	}
	names := func() (list []string) {
		for _, d := range h.problem.shapes() {
			list = append(list, d.shape.Name)
		}
		return list
	}
	if got := names(); slices.Contains(got, "73") || slices.Contains(got, "small-odd") {
		t.Errorf("shapes of the search: %q", got)
	}
	baseline, _, err := h.Baseline(t.Context(), plan.Tune[0])
	if err != nil || baseline.Sanitize.Name != "" {
		t.Errorf("the baseline has a shape of its own: %+v, %v", baseline.Sanitize, err)
	}
	if _, err := h.Launch(t.Context(), a, memcheck, kernels.Shape{Name: "73", Dims: map[string]int64{"N": 75}}); err == nil {
		t.Error("a shape that is nobody's is launched")
	}
}

// What a code is called does not depend on where tools look at it, and what a result is
// called does.
func TestIdentityOfOwnShapes(t *testing.T) {
	t.Parallel()
	with, without := sanitizedPlan(t, `{ N = "BLOCK + (DO == 'nothing' ? 8 : 16)" }`), sanitizedPlan(t, "")
	bare := without
	bare.SanitizeAlso = nil
	var hashes, keys [3][2]string
	for i, plan := range []evaluator.Plan{with, without, bare} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			h, _ := openFakePlan(t, fakeOptions(t), plan)
			for k, do := range []string{"nothing", "slow"} {
				src, err := plan.Implementations[0].Render(fakeGenome(t, do, 1))
				if err != nil {
					t.Fatal(err)
				}
				src.Hash = "one"
				src.Source = "extern \"C\" __global__ void fake(int64_t N, const float *x, float *y) {}\n" // one code
				a, report, err := h.Build(t.Context(), src)
				if err != nil || report.Refused+report.Geometry != "" {
					t.Fatal(report, err)
				}
				hashes[i][k], keys[i][k] = a.Hash, a.Key
			}
		})
	}
	one := hashes[0][0]
	if all := [2]string{one, one}; hashes != [3][2]string{all, all, all} {
		t.Errorf("one code has the names %q", hashes)
	}
	if keys[0][0] == keys[0][1] || keys[1][0] != keys[1][1] {
		t.Errorf("results have the names %q", keys)
	}
}

// What a definition says of a shape that cannot be is the candidate's fault, with the
// place.
func TestWrongOwnShape(t *testing.T) {
	t.Parallel()
	_, ev := openFakePlan(t, fakeOptions(t), sanitizedPlan(t, `{ N = "BLOCK - 64" }`))
	r := evaluate(t, ev, fakeGenome(t, "nothing", 1))
	if r.Verdict != evaluator.Render || !strings.Contains(r.Reason, "fake/kernel.toml:") || !strings.Contains(r.Reason, `N: "BLOCK - 64" gives 0`) {
		t.Errorf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
}
