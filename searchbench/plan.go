package searchbench

import (
	"context"
	"math"

	"github.com/evotune/evotune/search"
)

// A Plan is a comparison of strategies and windows over spaces.
type Plan struct {
	Spaces     []*Space
	Strategies []string // names for search.New
	Windows    []int    // proposals in flight; the first is what others are compared with
	Repeats    int      // runs of each
	Seed       int64    // of the first run
	Overhead   bool     // see Search
	// Warm is how many of the best genomes of another space of the same kernel a search
	// of the first strategy and window starts with, to measure the gain. Zero
	// leaves this out.
	Warm int

	// Runs, if it is not nil, gets the runs of every space, strategy and window
	// before they are discarded.
	Runs func(*Space, Search, []Run) error
	// Done, if it is not nil, is called after each run, from any goroutine.
	Done func()
}

// Size is how many runs the plan has.
func (p *Plan) Size() int {
	cells := len(p.Spaces) * len(p.Strategies) * len(p.Windows)
	if p.Warm > 0 {
		cells += len(p.pairs())
	}
	return cells * p.Repeats
}

// A Comparison is the result of a plan.
type Comparison struct {
	Spaces []Facts `json:"spaces"`
	// Scores are ordered by space, then by strategy, then by window.
	Scores []Cell `json:"scores"`
	// Means has one entry for each strategy and window.
	Means []Mean     `json:"means"`
	Warm  *WarmStart `json:"warm_start,omitempty"`
}

// A Cell is the score of one strategy with one window on one space.
type Cell struct {
	Space    string `json:"space"`
	Strategy string `json:"strategy"`
	Window   int    `json:"window"`
	Score
}

// A Worst is the space on which a figure is the lowest.
type Worst struct {
	Space string  `json:"space"`
	Value float64 `json:"value"`
}

// A Mean is over all spaces.
type Mean struct {
	Strategy string   `json:"strategy"`
	Window   int      `json:"window"`
	Spaces   int      `json:"spaces"`
	PIso     Estimate `json:"p_iso"`
	PMean    Estimate `json:"p_mean"`
	// WorstIso and WorstMean are the spaces with the lowest figures.
	WorstIso  Worst `json:"worst_iso"`
	WorstMean Worst `json:"worst_mean"`
	// LossIso and LossMean are the losses relative to the first window; nil for
	// the first itself.
	LossIso  *Estimate `json:"loss_iso,omitempty"`
	LossMean *Estimate `json:"loss_mean,omitempty"`
	// OwnNS is the search's own time for one evaluation, in nanoseconds: the
	// mean over the spaces, and the longest of them.
	OwnNS     float64 `json:"own_ns"`
	LongestNS float64 `json:"longest_own_ns"`
}

// Compare runs the plan. An error of the context ends it early.
func (p *Plan) Compare(ctx context.Context) (*Comparison, error) {
	c := &Comparison{}
	cold := map[*Space][]Run{} // the runs that warm starts use and are compared with
	for _, s := range p.Spaces {
		c.Spaces = append(c.Spaces, s.Facts())
		for i, strategy := range p.Strategies {
			for k, window := range p.Windows {
				how := Search{Strategy: strategy, Seed: p.Seed, Window: window, Overhead: p.Overhead}
				runs, err := s.Runs(ctx, how, p.Repeats, p.Done)
				if err != nil {
					return nil, err
				}
				if p.Runs != nil {
					if err := p.Runs(s, how, runs); err != nil {
						return nil, err
					}
				}
				if i == 0 && k == 0 && p.Warm > 0 {
					cold[s] = runs
				}
				c.Scores = append(c.Scores, Cell{s.Name(), strategy, window, s.Score(runs)})
			}
		}
	}
	c.Means = means(c.Scores)
	if p.Warm > 0 {
		w, err := p.warmStart(ctx, cold)
		if err != nil {
			return nil, err
		}
		c.Warm = w
	}
	return c, nil
}

// means averages scores over the spaces, for each strategy and window in the
// order of their first occurrence.
func means(cells []Cell) []Mean {
	var out []Mean
	at := map[Mean]int{} // by strategy and window
	for _, c := range cells {
		key := Mean{Strategy: c.Strategy, Window: c.Window}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			key.WorstIso.Value, key.WorstMean.Value = math.Inf(1), math.Inf(1)
			out = append(out, key)
		}
		out[i].add(c)
	}
	first := map[string]Mean{}
	for i := range out {
		m := &out[i]
		n := float64(m.Spaces)
		m.PIso, m.PMean = m.PIso.over(n), m.PMean.over(n)
		m.OwnNS /= n
		if f, ok := first[m.Strategy]; ok {
			iso, mean := f.PIso.minus(m.PIso), f.PMean.minus(m.PMean)
			m.LossIso, m.LossMean = &iso, &mean
		} else {
			first[m.Strategy] = *m
		}
	}
	return out
}

// add sums up.
func (m *Mean) add(c Cell) {
	m.Spaces++
	m.PIso, m.PMean = m.PIso.plus(c.PIso), m.PMean.plus(c.PMean)
	m.WorstIso.consider(c.Space, c.PIso.Value)
	m.WorstMean.consider(c.Space, c.PMean.Value)
	m.OwnNS += float64(c.Own)
	m.LongestNS = max(m.LongestNS, float64(c.Own))
}

func (w *Worst) consider(space string, value float64) {
	if value < w.Value {
		*w = Worst{space, value}
	}
}

// The arithmetic of independent estimates.

func (e Estimate) plus(o Estimate) Estimate {
	return Estimate{e.Value + o.Value, math.Hypot(e.Err, o.Err)}
}

func (e Estimate) minus(o Estimate) Estimate {
	return Estimate{e.Value - o.Value, math.Hypot(e.Err, o.Err)}
}

func (e Estimate) over(n float64) Estimate { return Estimate{e.Value / n, e.Err / n} }

// Validate says what is wrong with a plan.
func (p *Plan) Validate() error {
	for _, name := range p.Strategies {
		if search.Version(name) == 0 {
			_, err := search.New(name, nil, search.Options{})
			return err
		}
	}
	return nil
}
