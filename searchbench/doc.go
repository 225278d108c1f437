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
// and 95% of the way from the median to the optimum.
//
// # Formulas
//
// A space has S configurations, of which N have a time, v1 <= ... <= vN (smaller is
// better; opt = v1); the others failed. Each, failed or not, has a cost in seconds for
// compiling, verifying and benchmarking it.
//
//   - The target after a share c of the way is opt + (median(v) - opt) (1 - c).
//   - Random search needs F(c) = ceil(i / (N + 1 - i)) draws for it, where i of the v are
//     above the target, in the time T(c) = F(c) times the median of all costs.
//   - 1000 moments are scored, evenly from T(0.01) to T(0.95). The budget of a run is
//     1.1 T(0.95); the evaluation that exceeds it is the last.
//   - The score at a moment t is (random(t) - found(t)) / (random(t) - opt), and the score
//     the mean over the moments; over several spaces, the mean of their scores.
//
// P_mean: found is the best so far, and the score is the mean over the runs. Until a run
// finds something valid, found is the mean of all v. random is the exact expectation of
// the best of m valid draws without replacement, m = max(1, N/S t / mean cost): v1 plus
// the sum over i of P(none of the i best is drawn) (v(i+1) - v(i)), where P is the product
// over j from 0 to i-1 of (N - m - j) / (N - j). Its standard error is that of a mean.
//
// P_iso, the methodology's own estimator: for found, the points (time, rank of the best so
// far) of all runs, from 0.9 times the first moment to 1.1 times the last, are fitted by
// a non-increasing function (isotonic regression: pooling adjacent violators, linear between
// the points), and the value at the rounded rank counts. From the first moment after the
// median run has ended, the curve is constant. random is the value at the expected rank:
// v from the worst on at round(M (N + 1) / (M + 1)), where M = round(max(1, t / (mean
// cost of the valid ones + share of failed ones times their mean cost))), interpolated
// monotonically (PCHIP) over the distinct M. Rounding is to even. The regression is plain,
// without the original's random ensemble around it. The standard error is from a
// bootstrap: 200 times, as many runs are drawn from the runs, with replacement.
//
// # Caveats
//
// Simulated time passes as if evaluations took turns, whatever the window: scores show
// what a window costs, but not what parallel evaluation gains. The
// search's own time is read from the wall clock while several runs share the
// processor; everything else depends on the seed alone.
package searchbench
