package evotune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

func TestFamilyGrid(t *testing.T) {
	c, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Get("attention")
	if err != nil {
		t.Fatal(err)
	}
	p := &d.On(CPU).Problem
	g, err := readGrid(p, "S=2048,512 D=64,128,64 B=2 H=8")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s, d int) string { return fmt.Sprintf("B=2,H=8,S=%d,D=%d,CAUSAL=0", s, d) }
	if diff := cmp.Diff([]string{at(512, 64), at(512, 128), at(2048, 64), at(2048, 128)}, g.names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{at(1024, 64), at(1024, 128)}, g.between()); diff != "" {
		t.Error(diff)
	}
	if g, err = readGrid(p, "S=512,2048 D=64 B=2 H=2,8,16"); err != nil {
		t.Fatal(err)
	}
	finer := func(s, h int) string { return fmt.Sprintf("B=2,H=%d,S=%d,D=64,CAUSAL=0", h, s) }
	if diff := cmp.Diff([]string{finer(1024, 2), finer(512, 4), finer(1024, 4), finer(2048, 4), finer(1024, 8), finer(1024, 16)}, g.between()); diff != "" {
		t.Error(diff)
	}
	for _, c := range [][3]int64{{512, 2048, 1024}, {512, 4096, 1408}, {1, 8, 3}, {3, 10, 5}, {1000, 5000, 2304}} {
		if m := middleOf(c[0], c[1]); m != c[2] {
			t.Errorf("between %d and %d: %d, want %d", c[0], c[1], m, c[2])
		}
	}
	if g, err = readGrid(p, "2x8x512x64, 2x8x512x64-causal"); err != nil || !slices.Equal(g.names, []string{"2x8x512x64", "2x8x512x64-causal"}) || g.between() != nil {
		t.Errorf("names: %v, %v", g, err)
	}
	for text, want := range map[string]string{
		"":                             "it is empty",
		" ":                            "it is empty",
		"S=512 D=64 B=2":               "H is missing",
		"S=512 D=64 B=2 H=8 Q=1":       `there is no dimension "Q": there are B, H, S, D, CAUSAL`,
		"S=512, D=64 B=2 H=8":          `S is "512,", expected whole numbers with commas between them`,
		"S=512,x D=64 B=2 H=8":         `S is "512,x"`,
		"S=-1 D=64 B=2 H=8":            `S is "-1"`,
		"S=512 S=64 D=64 B=2 H=8":      "S is given twice",
		"S=512 2x8x512x64":             `"2x8x512x64" is not of the form NAME=N,N`,
		"S=" + strings.Repeat("7,", 3): "expected whole numbers",
	} {
		if _, err := readGrid(p, text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestCenterFirst(t *testing.T) {
	dims := func(name string) map[string]int64 {
		var n int64
		fmt.Sscan(name, &n) //nolint:errcheck // it is a number
		return map[string]int64{"N": n}
	}
	if order := centerFirst([]string{"16", "4096", "64", "1024"}, dims); !slices.Equal(order, []int{2, 0, 3, 1}) {
		t.Errorf("the order is %v", order)
	}
}

func TestFamilyRefuses(t *testing.T) {
	m := new(Machine)
	for name, c := range map[string]struct {
		job  Job
		spec FamilySpec
		want string
	}{
		"one shape":             {Job{Kernel: "sgemm"}, FamilySpec{Grids: []string{"1024"}}, "the family has 1 shape: a family has two at least, and --shape is for one"},
		"the same shape twice":  {Job{Kernel: "sgemm"}, FamilySpec{Grids: []string{"512", "M=512 N=512 K=512 TEAM=1"}}, "the family has 1 shape"},
		"a shape that none can": {Job{Kernel: "sgemm"}, FamilySpec{Grids: []string{"M=64,512 N=64 K=64 TEAM=0"}}, "the family's shape M=64,N=64,K=64,TEAM=0: kernel sgemm"},
		"an unknown name":       {Job{Kernel: "sgemm"}, FamilySpec{Grids: []string{"512 1025"}}, `the family's shape 1025: kernel sgemm: unknown shape "1025": did you mean 1024?`},
		"nothing in a buffer":   {Job{Kernel: "sgemm"}, FamilySpec{Grids: []string{"M=0,512 N=64 K=64 TEAM=1"}}, `axis "M" is 0`},
		"shapes besides":        {Job{Kernel: "sgemm", Shapes: []string{"512"}}, FamilySpec{Grids: []string{"512 1024"}}, "leave out --shape"},
		"another budget":        {Job{Kernel: "sgemm", Budget: Budget{Patience: 3}}, FamilySpec{Grids: []string{"512 1024"}}, "a family ends by --evaluations or by --time alone"},
		"two budgets":           {Job{Kernel: "sgemm", Budget: Budget{Evaluations: 30, Time: 3}}, FamilySpec{Grids: []string{"512 1024"}}, "a family ends by --evaluations or by --time alone"},
		"too small a budget":    {Job{Kernel: "sgemm", Budget: Budget{Evaluations: 3}}, FamilySpec{Grids: []string{"512 1024"}}, "3 is too few for a family of 2: give 4 at least"},
		"a sweep":               {Job{Kernel: "sgemm", Sweep: true}, FamilySpec{Grids: []string{"512 1024"}}, "a sweep has no family"},
		"the same table":        {Job{Table: "internal/tables/testdata/synthetic.json"}, FamilySpec{Grids: []string{"internal/tables/testdata/synthetic.json"}}, "is in the family already"},
		"between tables":        {Job{Table: "internal/tables/testdata/synthetic.json"}, FamilySpec{Grids: []string{"x"}, Between: []string{"y"}}, "leave out --between"},
		"between that none can": {Job{Kernel: "sgemm"}, FamilySpec{Grids: []string{"512 1024"}, Between: []string{"M=64 N=64 K=64 TEAM=0"}}, "the family's shape M=64,N=64,K=64,TEAM=0: kernel sgemm"},
	} {
		c.job.Backend = map[bool]string{true: CPU, false: Replay}[c.job.Table == ""]
		_, err := m.Family(t.Context(), c.job, c.spec)
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The same kernel, device and shapes are one family; another shape makes another.
func TestFamilyName(t *testing.T) {
	m := new(Machine)
	id := func(seed int64, budget int, spec FamilySpec) string {
		f, err := m.Family(t.Context(), Job{Kernel: "sgemm", Backend: CPU, Seed: new(seed), Budget: Budget{Evaluations: budget}}, spec)
		if err != nil {
			t.Fatal(err)
		}
		return f.Plan.ID
	}
	one := id(1, 20, FamilySpec{Grids: []string{"512 1024"}})
	if !strings.HasPrefix(one, "sgemm-family-") || one != id(1, 40, FamilySpec{Grids: []string{"M=512 N=512 K=512 TEAM=1", "1024"}, Between: []string{}}) {
		t.Errorf("%s is called otherwise with another budget", one)
	}
	for _, other := range []string{id(2, 20, FamilySpec{Grids: []string{"512 1024"}}), id(1, 20, FamilySpec{Grids: []string{"512 1024 1024-team2"}})} {
		if other == one {
			t.Errorf("another family is called %s as well", one)
		}
	}
}

// A family that is killed again and again ends as one that was left alone: all campaigns
// have the same candidates, in one order over all of them, and the same winners.
func TestFamilyResumed(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i, n := range []int{1000, 700, 300} {
		files = append(files, filepath.Join(dir, fmt.Sprintf("table%d.json", i)))
		if err := os.WriteFile(files[i], bytes.ReplaceAll(tables.SyntheticFile(n), fmt.Appendf(nil, "synthetic-%d", n), []byte("one")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := new(Machine)
	job := Job{Table: files[0], Seed: new(int64(5)), Budget: Budget{Evaluations: 90}}
	spec := FamilySpec{Grids: files[1:]}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	// run gives what was asked and told over all campaigns, in order, and the winners.
	run := func(name string, calm bool) (told, winners []string, rounds int) {
		s, err := store.Open(filepath.Join(dir, name), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // it was read back
		var f *Family
		for tries := 0; ; tries++ {
			if f, err = m.Family(t.Context(), job, spec); err != nil {
				t.Fatal(err)
			}
			if tries%2 == 1 { // by its name, which knows the budget as well
				if c, err := m.ContinueFamily(s, f.Plan.ID, Budget{}); err != nil {
					t.Fatal(err)
				} else if c != nil { // else it was interrupted before anything began
					f = c
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			left := -1
			if !calm && tries < 12 {
				left = 1 + rng.IntN(20)
			}
			out, err := f.Run(ctx, s, Options{Workers: 1 + rng.IntN(4), Listen: func(Event) {
				if left--; left == 0 {
					cancel()
				}
			}}, func(FamilyRound) { rounds++ })
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if out.Complete {
				break
			}
		}
		for e, err := range s.Events("", 0) {
			switch {
			case err != nil:
				t.Fatal(err)
			case e.Told != nil:
				told = append(told, fmt.Sprint(e.Campaign, " ", e.Told.Candidate, " ", e.Told.Fitness))
			case e.Asked != nil && e.Asked.Operator == "warm":
				told = append(told, "warm "+e.Asked.Candidate)
			}
		}
		for i := range f.Plan.Tables {
			c, err := s.Campaign(f.member(i))
			if err != nil {
				t.Fatal(err)
			}
			if c.State != store.Finished || c.Finals == nil || FamilyOf(c) != f.Plan.ID {
				t.Errorf("%s is %s, of the family %q", c.ID, c.State, FamilyOf(c))
			}
			winners = append(winners, c.Finals.Winner)
		}
		return told, winners, rounds
	}
	told, winners, rounds := run("calm.db", true)
	again, won, _ := run("torn.db", false)
	// The order of what is asked among what is told depends on the workers.
	inOrder := func(list []string) (told, warm []string) {
		for _, line := range list {
			if strings.HasPrefix(line, "warm ") {
				warm = append(warm, line)
			} else {
				told = append(told, line)
			}
		}
		return told, warm
	}
	a, warm := inOrder(told)
	b, warmAgain := inOrder(again)
	for what, diff := range map[string]string{"results": cmp.Diff(a, b), "warm starts": cmp.Diff(warm, warmAgain), "winners": cmp.Diff(winners, won)} {
		if diff != "" {
			t.Errorf("interrupted, other %s:\n%s", what, diff)
		}
	}
	if len(a) != 90 || len(warm) == 0 || rounds != 9 {
		t.Errorf("%d results, %d warm starts, %d rounds", len(a), len(warm), rounds)
	}

	// A larger budget goes on, the same one is finished.
	s, err := store.Open(filepath.Join(dir, "calm.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it was read back
	for _, want := range []int{0, 15} {
		job.Budget.Evaluations = 90 + want
		f, err := m.Family(t.Context(), job, spec)
		if err != nil {
			t.Fatal(err)
		}
		phases := map[string]int{}
		if out, err := f.Run(t.Context(), s, Options{}, func(r FamilyRound) { phases[r.Phase]++ }); err != nil || !out.Complete {
			t.Fatal(out, err)
		}
		if (len(phases) > 0) != (want > 0) || want > 0 && (phases["search"] == 0 || phases["finals"] == 0) {
			t.Errorf("with %d more evaluations: %v", want, phases)
		}
	}
}

// A family whose time is over stays finished, whatever preparing its rounds took; more time goes on.
func TestFamilyTime(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i, n := range []int{1000, 700} {
		files = append(files, filepath.Join(dir, fmt.Sprintf("table%d.json", i)))
		if err := os.WriteFile(files[i], tables.SyntheticFile(n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(filepath.Join(dir, "evotune.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it was read back
	m := &Machine{ReplayLatency: 20 * time.Millisecond}
	for i, c := range []struct {
		time time.Duration
		want bool
	}{{1500 * time.Millisecond, true}, {1500 * time.Millisecond, false}, {4 * time.Second, true}, {4 * time.Second, false}, {time.Second, false}} {
		f, err := m.Family(t.Context(), Job{Table: files[0], Seed: new(int64(1)), Budget: Budget{Time: c.time}}, FamilySpec{Grids: files[1:]})
		if err != nil {
			t.Fatal(err)
		}
		phases := map[string]int{}
		out, err := f.Run(t.Context(), s, Options{Workers: 1}, func(r FamilyRound) { phases[r.Phase]++ })
		if err != nil || !out.Complete {
			t.Fatal(out, err)
		}
		if worked := phases["search"] > 0 && phases["finals"] > 0; worked != c.want || !c.want && len(phases) > 0 {
			t.Errorf("run %d, of %s: %v", i, c.time, phases)
		}
	}
}
