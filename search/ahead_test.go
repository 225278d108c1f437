package search_test

import (
	"slices"
	"testing"

	"github.com/evotune/evotune/search"
)

// What is in flight shapes the search, and changes nothing where nothing is in flight.
func TestAhead(t *testing.T) {
	defer search.AddBlind()()
	space := ordinalSpace(t, 9, 7, 5, 4, 6, 3)
	walk := func(strategy string, n, window int) string {
		return path(drive(t, open(t, strategy, space, search.Options{Seed: 1}), n, window, made))
	}
	if walk("", 100, 1) != walk("blind", 100, 1) {
		t.Error("with nothing in flight the path depends on what is in flight")
	}
	if walk("", 32, 32) == walk("blind", 32, 32) {
		t.Error("the seeds proposed while others are in flight are those that spread gives")
	}
}

// A proposal in flight may be a parent: the next generation does not wait for it.
func TestParentsInFlight(t *testing.T) {
	const window = 32
	ps := drive(t, open(t, "", ordinalSpace(t, 9, 7, 5, 4, 6, 3), search.Options{Seed: 1}), 200, window, made)
	if !slices.ContainsFunc(ps, func(p search.Proposal) bool {
		return slices.ContainsFunc(p.Parents, func(parent int) bool { return parent > p.Index-window })
	}) {
		t.Error("no proposal has a parent in flight")
	}
}
