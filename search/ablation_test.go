package search_test

import (
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/search"
	"github.com/evotune/evotune/searchbench"
)

var (
	spacesFlag  = flag.String("spaces", "", "files of recorded spaces (a glob pattern) for the ablation")
	repeatsFlag = flag.Int("repeats", 40, "runs of each variant on each space")
)

// TestAblation changes evolution in one part at a time and scores each variant
// on recorded spaces, which do not belong to the repository. Then it leaves one
// kernel out at a time: of all variants, the one that is best on the other
// kernels is what would have been chosen without it, and its score there is
// free of that choice. docs/evidence/search.md has the result. Without spaces
// the variants are run once on a small one.
func TestAblation(t *testing.T) {
	defer search.AddVariants()()
	var names []string
	for _, v := range search.Variants {
		names = append(names, v.Name)
	}
	if *spacesFlag == "" {
		space := ordinalSpace(t, 9, 7, 5, 4, 6, 3)
		paths := map[string]string{}
		for _, name := range names {
			p := path(drive(t, open(t, name, space, search.Options{Seed: 1}), 120, 1, made))
			if other, twice := paths[p]; twice {
				t.Errorf("%q walks the path of %q", name, other)
			}
			paths[p] = name
		}
		return
	}
	files, err := filepath.Glob(*spacesFlag)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s (%v)", *spacesFlag, err)
	}
	plan := searchbench.Plan{Strategies: names, Windows: []int{1}, Repeats: *repeatsFlag, Seed: 1}
	var kernels []string // of each space: the names of its parameters
	for _, file := range files {
		table, err := tables.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		recorded, err := searchbench.New(filepath.Base(file), table)
		if err != nil {
			t.Fatal(err)
		}
		space, err := table.Space()
		if err != nil {
			t.Fatal(err)
		}
		var params []string
		for _, g := range space.Genes() {
			params = append(params, g.Name)
		}
		kernels = append(kernels, strings.Join(params, " "))
		plan.Spaces = append(plan.Spaces, recorded)
	}
	c, err := plan.Compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("| change | P_iso | P_mean | worst P_mean |\n|---|---|---|---|")
	for _, m := range c.Means {
		fmt.Printf("| %s | %.3f ± %.3f | %.3f ± %.3f | %.3f |\n", m.Strategy, m.PIso.Value, m.PIso.Err, m.PMean.Value, m.PMean.Err, m.WorstMean.Value)
	}
	// cell(s, v) is the score of variant v on space s.
	cell := func(s, v int) searchbench.Cell { return c.Scores[s*len(names)+v] }
	var iso, mean float64
	for _, kernel := range slices.Compact(slices.Sorted(slices.Values(kernels))) {
		best, most := 0, math.Inf(-1)
		for v := range names {
			sum := 0.0
			for s := range files {
				if kernels[s] != kernel {
					sum += cell(s, v).PIso.Value + cell(s, v).PMean.Value
				}
			}
			if sum > most {
				best, most = v, sum
			}
		}
		for s := range files {
			if kernels[s] == kernel {
				iso += cell(s, best).PIso.Value / float64(len(files))
				mean += cell(s, best).PMean.Value / float64(len(files))
				fmt.Printf("left out: %-28s %.3f %.3f, with the change %q\n", cell(s, best).Space, cell(s, best).PIso.Value, cell(s, best).PMean.Value, names[best])
			}
		}
	}
	fmt.Printf("leave-one-kernel-out over %d variants: P_iso %.3f, P_mean %.3f\n", len(names), iso, mean)
}
