package api

import (
	"errors"

	"github.com/evotune/evotune/store"
)

// LineageOf returns a candidate with its ancestors, each once.
func LineageOf(root *store.Node) Lineage {
	var l Lineage
	at := map[*store.Node]int{}
	var walk func(n *store.Node) int
	walk = func(n *store.Node) int {
		if i, ok := at[n]; ok {
			return i
		}
		i := len(l.Candidates)
		at[n] = i
		l.Candidates = append(l.Candidates, n.Candidate)
		l.Parents = append(l.Parents, []int{})
		for _, p := range n.Parents {
			j := walk(p) // this may move l.Parents
			l.Parents[i] = append(l.Parents[i], j)
		}
		return i
	}
	walk(root)
	return l
}

// Node returns the lineage in the store's form.
func (l Lineage) Node() (*store.Node, error) {
	if len(l.Candidates) == 0 || len(l.Parents) != len(l.Candidates) {
		return nil, errors.New("the answer is not a lineage")
	}
	nodes := make([]store.Node, len(l.Candidates))
	for i, c := range l.Candidates {
		nodes[i].Candidate = c
		for _, j := range l.Parents[i] {
			if j < 0 || j >= len(nodes) {
				return nil, errors.New("the answer is not a lineage")
			}
			nodes[i].Parents = append(nodes[i].Parents, &nodes[j])
		}
	}
	return &nodes[0], nil
}
