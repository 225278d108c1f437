// Package searchbench scores search strategies on recorded spaces.
//
// A [Space] is a recorded table, in which every configuration was measured,
// with what the scores need: a budget, the times at which progress is checked, and what
// random search is expected to have found by then. A [Search] is run many times on it,
// on a simulated clock that each evaluation advances by its recorded cost, and the runs
// get a [Score]. A [Plan] does this for many spaces, strategies and windows.
//
// # Model
//
// The scale is that of the published methodology for comparing auto-tuners
// (Willemsen et al., "A methodology for comparing optimization algorithms for
// auto-tuning", 2024): 0 is random search, 1 the optimum at once, averaged over
// 1000 moments between those at which random search is expected to have gone 1%
// and 95% of the way from the median to the optimum. docs/searchbench.md has
// all formulas.
//
// # Caveats
//
// Simulated time passes as if evaluations took turns, whatever the window: scores show
// what a window costs, but not what parallel evaluation gains. The
// search's own time is read from the wall clock while several runs share the
// processor; everything else depends on the seed alone.
package searchbench
