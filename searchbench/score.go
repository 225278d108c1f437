package searchbench

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/evotune/evotune/evaluator"
)

// An Estimate is a figure and its standard error, which is 0 if there is only one run.
type Estimate struct {
	Value float64 `json:"value"`
	Err   float64 `json:"err"`
}

// A Median is a median over runs. It is infinite if half of the runs or more never got
// that far; JSON has null for it.
type Median float64

// String is the number, or "-".
func (m Median) String() string {
	if math.IsInf(float64(m), 1) {
		return "-"
	}
	return strconv.FormatFloat(float64(m), 'f', -1, 64)
}

// MarshalJSON writes a number or null.
func (m Median) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(m), 1) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(m))
}

// A Reach says when runs came within a share of the optimum.
type Reach struct {
	Hit         float64 `json:"hit"`         // share of the runs that did
	Evaluations Median  `json:"evaluations"` // including the one that did
	Seconds     Median  `json:"seconds"`     // simulated
	// Parallel is simulated, too, as if there were a worker for each proposal in flight.
	Parallel Median `json:"parallel_seconds"`
}

// A Score is the score of the runs of one search on one space.
type Score struct {
	// PIso is the methodology's estimate; its error is by a bootstrap over the
	// runs.
	PIso Estimate `json:"p_iso"`
	// PMean is the mean over the runs of their scores.
	PMean Estimate `json:"p_mean"`
	Runs  int      `json:"runs"`
	// Evaluations is the median number of evaluations of a run, including failed
	// configurations.
	Evaluations Median `json:"evaluations"`
	// Ratio is the median of the runs' best over the optimum; infinite if
	// nothing valid was found. BestMS is the best of all runs.
	Ratio   Median `json:"ratio"`
	BestMS  Median `json:"best_ms"`
	Within5 Reach  `json:"within_5pct"`
	Within1 Reach  `json:"within_1pct"`
	// Own is the search's own time for one evaluation, in nanoseconds.
	Own time.Duration `json:"own_ns"`
}

// A step is a run after one evaluation.
type step struct {
	at   float64 // simulated seconds
	rank int32   // of the best so far; -1 while there is none
}

// steps returns the steps of a run. A genome that is not recorded, or was evaluated
// before, costs nothing and makes no step.
func (s *Space) steps(r Run) []step {
	var out []step
	seen := make([]bool, len(s.outcomes))
	at, best := 0.0, int32(-1)
	own := 0.0
	if r.Counted {
		own = r.Own.Seconds() / float64(max(1, len(r.Genomes)))
	}
	for _, g := range r.Genomes {
		at += own
		i, ok := s.index[g]
		if !ok || seen[i] {
			continue
		}
		seen[i] = true
		o := s.outcomes[i]
		at += inSeconds(o.Cost)
		if o.OK && (best < 0 || s.ranks[i] < best) {
			best = s.ranks[i]
		}
		out = append(out, step{at, best})
	}
	return out
}

// Score scores runs of the space.
func (s *Space) Score(runs []Run) Score {
	all := make([][]step, len(runs))
	var scores, evaluations, ratios []float64
	best := math.Inf(1)
	total, own := 0, time.Duration(0)
	for i, r := range runs {
		all[i] = s.steps(r)
		scores = append(scores, s.scoreMean(all[i]))
		evaluations = append(evaluations, float64(len(all[i])))
		ratio := math.Inf(1)
		if k := len(all[i]); k > 0 && all[i][k-1].rank >= 0 {
			found := s.sorted[all[i][k-1].rank]
			best, ratio = min(best, found*s.medianMS), found/s.sorted[0]
		}
		ratios = append(ratios, ratio)
		total += len(r.Genomes)
		own += r.Own
	}
	return Score{
		PIso: s.isotonic(all), PMean: meanOf(scores), Runs: len(runs),
		Evaluations: medianOf(evaluations), Ratio: medianOf(ratios), BestMS: Median(best),
		Within5: s.reach(runs, all, 0.05), Within1: s.reach(runs, all, 0.01),
		Own: own / time.Duration(max(1, total)),
	}
}

// scoreMean is the mean over the times of how far the best so far is on the way from
// the expectation of random search to the optimum. Until something valid is found, the
// mean of all valid configurations is used.
func (s *Space) scoreMean(run []step) float64 {
	sum, k := 0.0, 0
	for i, t := range s.times {
		for k < len(run) && run[k].at <= t {
			k++
		}
		have := s.mean
		if k > 0 && run[k-1].rank >= 0 {
			have = s.sorted[run[k-1].rank]
		}
		sum += (s.expected[i] - have) / (s.expected[i] - s.sorted[0])
	}
	return sum / moments
}

// reach returns when runs were within a share of the optimum.
func (s *Space) reach(runs []Run, all [][]step, share float64) Reach {
	var r Reach
	hits := 0
	evaluations, seconds, parallel := make([]float64, len(runs)), make([]float64, len(runs)), make([]float64, len(runs))
	for i, run := range all {
		evaluations[i], seconds[i] = s.within(run, share)
		parallel[i] = s.parallel(runs[i], share)
		if !math.IsInf(evaluations[i], 1) {
			hits++
		}
	}
	r.Hit = float64(hits) / float64(len(runs))
	r.Evaluations, r.Seconds, r.Parallel = medianOf(evaluations), medianOf(seconds), medianOf(parallel)
	return r
}

// parallel is after how many simulated seconds a run has a result within a share of the
// optimum if there is a worker for each proposal in flight; infinite if never. A proposal
// starts as soon as all outcomes that it waits for are told: then fewer than the window
// are outstanding, so a worker is free.
func (s *Space) parallel(r Run, share float64) float64 {
	target := s.sorted[0] * (1 + share)
	start, soonest := 0.0, math.Inf(1)
	ends := make([]float64, len(r.Genomes))
	for k, g := range r.Genomes {
		if due := k - max(1, r.Window); due >= 0 {
			start = math.Max(start, ends[due])
		}
		o := s.outcome(g)
		ends[k] = start + inSeconds(o.Cost)
		if o.OK && o.Fitness <= target {
			soonest = math.Min(soonest, ends[k])
		}
	}
	return soonest
}

// within is after how many evaluations and simulated seconds a run was within a
// share of the optimum; infinite if never.
func (s *Space) within(run []step, share float64) (evaluations, seconds float64) {
	target := s.sorted[0] * (1 + share)
	k := slices.IndexFunc(run, func(p step) bool { return p.rank >= 0 && s.sorted[p.rank] <= target })
	if k < 0 {
		return math.Inf(1), math.Inf(1)
	}
	return float64(k + 1), run[k].at
}

func medianOf(values []float64) Median { return Median(evaluator.Median(values)) }

// meanOf is a mean and its standard error.
func meanOf(values []float64) Estimate {
	mean, deviation := stat.MeanStdDev(values, nil)
	if len(values) < 2 {
		return Estimate{Value: mean}
	}
	return Estimate{mean, stat.StdErr(deviation, float64(len(values)))}
}
