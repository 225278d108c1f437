package main

import (
	"fmt"
	"testing"

	"github.com/evotune/evotune/store"
)

// ladder is a lineage of n generations in which both parents are shared, so
// that a tree of it has 2^n leaves.
func ladder(n int) *store.Node {
	node := func(i, k int) *store.Node {
		return &store.Node{Candidate: store.Candidate{ID: fmt.Sprintf("%d-%d", i, k), Asked: store.Asked{Genome: "X=1"}}}
	}
	a, b := node(0, 0), node(0, 1)
	for i := 1; i < n; i++ {
		na, nb := node(i, 0), node(i, 1)
		na.Parents, nb.Parents = []*store.Node{a, b}, []*store.Node{a, b}
		a, b = na, nb
	}
	return a
}

func TestNest(t *testing.T) {
	count := func(v lineageView) (all, full int) {
		var walk func(v lineageView)
		walk = func(v lineageView) {
			all++
			if !v.Repeated {
				full++
			}
			for _, p := range v.Parents {
				walk(p)
			}
		}
		walk(v)
		return all, full
	}
	if all, full := count(nest(ladder(5))); all != 31 || full != 31 {
		t.Errorf("5 generations: %d candidates, %d in full, want the whole tree of 31", all, full)
	}
	all, full := count(nest(ladder(60)))
	if all > 4*60 {
		t.Errorf("60 generations: %d candidates, shared ancestors are repeated without end", all)
	}
	seen := map[string]bool{}
	var walk func(v lineageView)
	walk = func(v lineageView) {
		seen[v.Candidate] = true
		for _, p := range v.Parents {
			walk(p)
		}
	}
	walk(nest(ladder(60)))
	if len(seen) != 119 || full < 119 {
		t.Errorf("60 generations: %d of 119 ancestors are there, %d in full", len(seen), full)
	}
}
