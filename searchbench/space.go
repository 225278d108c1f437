package searchbench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/interp"
	"gonum.org/v1/gonum/stat"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/search"
)

// ErrUnscorable is wrapped by the errors for tables on which no score is
// defined.
var ErrUnscorable = errors.New("searches cannot be scored on it")

const (
	// moments is the number of times at which progress is checked.
	moments = 1000
	// The times reach from the one at which random search has gone firstWay of
	// the way from the median to the optimum to the one at which it has gone
	// lastWay. The budget is slack times the latter.
	firstWay, lastWay, slack = 0.01, 0.95, 1.1
	// largest is how many genomes a space may have if some are not
	// recorded: a search may try them all, at no cost.
	largest = 1_000_000
)

// A Space is a recorded space and the scale for scores of searches on it. It does not
// change, and is safe for concurrent use.
type Space struct {
	name   string
	device string
	space  *genome.Space
	index  map[genome.Genome]int32
	// By index: the outcome of an evaluation, and the rank of its fitness among
	// sorted. A fitness is a time over the median of all times.
	outcomes []search.Outcome
	ranks    []int32
	sorted   []float64 // the fitness of correct ones, ascending
	median   float64   // of sorted
	mean     float64   // of sorted
	medianMS float64   // the median of all times, the unit of fitness

	times []float64 // seconds
	// The expected best of random search at times: exactly (for P_mean), and by
	// the methodology's formula (for P_iso).
	expected, smoothed []float64
}

// A Table is a recorded space as in its file: for each configuration its time, or how
// it failed, and the cost to try it.
type Table = tables.Table

// Read reads a table in any of the formats of docs/tables.md, gzipped or not. name is
// the file's name in messages, and the space's if the file does not name it.
func Read(r io.Reader, name string) (*Table, error) { return tables.Read(r, name) }

// Synthetic makes a table of at least n configurations by a formula that imitates a
// kernel on a GPU. Nothing in it was measured.
func Synthetic(n int) *Table { return tables.Synthetic(n) }

// New makes a space from a table. Traces and results have its name. The
// error wraps ErrUnscorable for a table on which no score is defined.
func New(name string, t *Table) (*Space, error) {
	space, err := t.Space()
	if err != nil {
		return nil, err
	}
	s := &Space{name: name, device: t.Device(), space: space, medianMS: t.MedianMS(), index: map[genome.Genome]int32{}}
	if n := s.space.Size(); n > largest && n != float64(t.Len()) {
		return nil, fmt.Errorf("%s: %w: it records %d of about %.3g valid configurations", name, ErrUnscorable, t.Len(), n)
	}
	s.record(t)
	if err := s.measure(); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrUnscorable, err)
	}
	return s, nil
}

// record adds every recorded configuration.
func (s *Space) record(t *Table) {
	for g := range s.space.All() {
		w, ok := t.Lookup(g)
		if !ok {
			continue
		}
		s.index[g] = int32(len(s.outcomes))
		o := search.Outcome{OK: w.Failed == "", Cost: w.Cost()}
		if o.OK {
			o.Fitness = w.TimeMS / s.medianMS
			s.sorted = append(s.sorted, o.Fitness)
		}
		s.outcomes = append(s.outcomes, o)
	}
	slices.Sort(s.sorted)
	s.ranks = make([]int32, len(s.outcomes))
	for i, o := range s.outcomes {
		if o.OK {
			rank, _ := slices.BinarySearch(s.sorted, o.Fitness)
			s.ranks[i] = int32(rank)
		}
	}
}

// measure makes the scale: the times, and what random search has found by then.
func (s *Space) measure() error {
	n := float64(len(s.sorted))
	if n == 0 || s.sorted[0] == s.sorted[len(s.sorted)-1] {
		return errors.New("there are no two different times")
	}
	s.median, s.mean = evaluator.Median(s.sorted), stat.Mean(s.sorted, nil)
	var all, valid, failed []float64 // costs in seconds
	for _, o := range s.outcomes {
		c := inSeconds(o.Cost)
		all = append(all, c)
		if o.OK {
			valid = append(valid, c)
		} else {
			failed = append(failed, c)
		}
	}
	typical := evaluator.Median(all)
	if typical <= 0 {
		return errors.New("its evaluations cost nothing, so that there is no time to score by")
	}
	// The cost of one valid draw, as the methodology has it.
	perValid := stat.Mean(valid, nil)
	if len(failed) > 0 {
		perValid += float64(len(failed)) / float64(len(all)) * stat.Mean(failed, nil)
	}
	s.times = floats.Span(make([]float64, moments), s.draws(firstWay)*typical, s.draws(lastWay)*typical)
	s.smoothed = s.smooth(perValid)
	perDraw := stat.Mean(all, nil)
	for _, t := range s.times {
		m := max(1, n/float64(len(all))*t/perDraw)
		s.expected = append(s.expected, expectedBest(s.sorted, min(m, n)))
	}
	for i := range s.times {
		if s.expected[i] <= s.sorted[0] || s.smoothed[i] <= s.sorted[0] {
			return fmt.Errorf("with %d times it is so small that random search finds the optimum", len(s.sorted))
		}
	}
	return nil
}

// draws is after how many draws of valid configurations random search is
// expected to have gone a share of the way from the median to the optimum.
func (s *Space) draws(way float64) float64 {
	target := s.sorted[0] + (s.median-s.sorted[0])*(1-way)
	n := float64(len(s.sorted))
	worse := 0.0
	for _, v := range s.sorted {
		if v > target {
			worse++
		}
	}
	return math.Ceil(worse / (n + 1 - worse))
}

// smooth is the methodology's expectation of random search at the times: the
// value at the expected rank of the best of m draws, interpolated if the thousand
// moments have few different m.
func (s *Space) smooth(perValid float64) []float64 {
	n := float64(len(s.sorted))
	ms := make([]float64, len(s.times))
	ys := make([]float64, len(s.times))
	var knots, values []float64
	for i, t := range s.times {
		m := math.RoundToEven(max(t/perValid, 1))
		rank := min(n-1, math.RoundToEven(m*(n+1)/(m+1))) // 0 is the worst
		ms[i], ys[i] = m, s.sorted[len(s.sorted)-1-int(rank)]
		if i == 0 || m > ms[i-1] {
			knots, values = append(knots, m), append(values, ys[i])
		}
	}
	if len(knots) < 3 {
		return ys
	}
	var curve interp.FritschButland // monotone, PCHIP
	_ = curve.Fit(knots, values)    // it never fails
	for i, m := range floats.Span(ms, ms[0], ms[len(ms)-1]) {
		ys[i] = curve.Predict(m)
	}
	return ys
}

// expectedBest is the expected minimum of m of the sorted values, drawn without
// replacement, with any real m from 1 to their number:
//
//	v[0] + Σ P(none of the i best is drawn) (v[i] - v[i-1])
//
// where that probability is the product over j < i of (n-m-j)/(n-j).
func expectedBest(sorted []float64, m float64) float64 {
	n := float64(len(sorted))
	e, p := sorted[0], 1.0
	for i := 1; i < len(sorted) && float64(i) <= n-m && p > 0; i++ {
		j := float64(i - 1)
		p *= (n - m - j) / (n - j)
		e += p * (sorted[i] - sorted[i-1])
	}
	return e
}

// Name returns the name that New was given.
func (s *Space) Name() string { return s.name }

// Facts describe a space.
type Facts struct {
	Space  string `json:"space"`
	Device string `json:"device,omitempty"`
	// Configurations counts all recorded ones, Failed those without a time.
	Configurations int `json:"configurations"`
	Failed         int `json:"failed"`
	// OptimumMS and MedianMS are those of the recorded times, in milliseconds.
	OptimumMS float64 `json:"optimum_ms"`
	MedianMS  float64 `json:"median_ms"`
	// FirstS and LastS are the times between which searches are scored, BudgetS
	// the budget of a search, in simulated seconds.
	FirstS  float64 `json:"first_s"`
	LastS   float64 `json:"last_s"`
	BudgetS float64 `json:"budget_s"`
}

// Facts returns a description of the space.
func (s *Space) Facts() Facts {
	return Facts{
		Space: s.name, Device: s.device, Configurations: len(s.outcomes), Failed: len(s.outcomes) - len(s.sorted),
		OptimumMS: s.sorted[0] * s.medianMS, MedianMS: s.medianMS,
		FirstS: s.times[0], LastS: s.times[moments-1], BudgetS: s.Budget(),
	}
}

// Budget is the methodology's budget for a search, in simulated seconds.
func (s *Space) Budget() float64 { return slack * s.times[moments-1] }

// inSeconds is the number of seconds whose decimal form the duration has.
func inSeconds(d time.Duration) float64 { return float64(d) / float64(time.Second) }
