package labs

import (
	"math/rand/v2"
	"testing"

	"github.com/evotune/evotune/evaluator"
)

type namedEdge struct {
	name   string
	hidden bool
}

func (e namedEdge) Hidden() bool { return e.hidden }

// TestEdgesOf: the sets of processes of finals meet all edge cases together, or as many as their bytes allow.
func TestEdgesOf(t *testing.T) {
	list := make([]int, 16)
	for i := range list {
		list[i] = i
	}
	for _, c := range []struct{ bytes, each, all int }{{0, 6, 16}, {1 << 20, 6, 16}, {64 << 20, 4, 12}, {1 << 40, 1, 3}} {
		met := map[int]bool{}
		for set := range 3 {
			got := EdgesOf(list, set, c.bytes)
			if len(got) != c.each {
				t.Errorf("%d bytes: %d in a set, want %d", c.bytes, len(got), c.each)
			}
			for _, i := range got {
				met[i] = true
			}
		}
		if len(met) != c.all {
			t.Errorf("%d bytes: %d are met, want %d", c.bytes, len(met), c.all)
		}
	}
	if got := EdgesOf([]int(nil), 1, 0); got != nil {
		t.Errorf("of none: %v", got)
	}
}

func TestAnyEdge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	list := []namedEdge{{"a", false}, {"b", true}, {"c", false}, {"d", false}}
	met := map[string]int{}
	for range 1000 {
		met[AnyEdge(list, rng)[0].name]++
	}
	if met["b"] < 550 || met["b"] > 700 || met["a"] < 80 || met["c"] < 80 || met["d"] < 80 {
		t.Errorf("%v, want more than half hidden, and all", met)
	}
	if got := AnyEdge([]namedEdge(nil), rng); got != nil {
		t.Errorf("of none: %v", got)
	}
}

func TestFar(t *testing.T) {
	limit := func(string) float64 { return 0.5 }
	if why := Far([]evaluator.Output{{Name: "y", Error: 3.9}, {Name: "z", Error: 4}}, limit); why != "" {
		t.Error(why)
	}
	for _, o := range []evaluator.Output{{Error: 4.1}, {NotFinite: 1}, {Unwritten: 1}} {
		if Far([]evaluator.Output{{}, o}, limit) == "" {
			t.Errorf("%+v is not far", o)
		}
	}
}
