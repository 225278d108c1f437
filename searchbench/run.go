package searchbench

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/search"
)

// A Search says how a space is searched.
type Search struct {
	// Strategy is a name for search.New; empty means its default.
	Strategy string
	// Seed is that of the first run, Seed+1 that of the second, and so on.
	Seed int64
	// Window is how many proposals are in flight: proposal k is requested once the
	// outcomes 0..k-Window are told. Zero means 1.
	Window int
	// Budget is in simulated seconds. The evaluation that exceeds it is the
	// last. Zero means Space.Budget.
	Budget float64
	// Overhead makes the search's own time count as simulated time. Runs are then not
	// exactly reproducible.
	Overhead bool
	// Start, if it is not nil, returns the genomes of the space that run i begins with,
	// see search.Options.
	Start func(i int) []genome.Genome
}

// A Run is one search of a space.
type Run struct {
	// Genomes are the evaluated ones, in order.
	Genomes []genome.Genome
	// Window is that of the Search; 0 means 1.
	Window int
	// Own is the wall time of the strategy itself.
	Own time.Duration
	// Counted: Own is part of the simulated time, spread evenly over the
	// evaluations.
	Counted bool
}

// Runs searches the space n times, as many at once as there are processors. The
// result depends only on the Search, except for Run.Own. done, if it is not nil,
// is called after each run, from any goroutine.
func (s *Space) Runs(ctx context.Context, how Search, n int, done func()) ([]Run, error) {
	runs := make([]Run, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range runs {
		group.Go(func() error {
			r, err := s.run(ctx, how, i)
			if err != nil {
				return err
			}
			runs[i] = r
			if done != nil {
				done()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return runs, nil
}

// run is one search on the simulated clock, until its budget is spent or the
// space is exhausted.
func (s *Space) run(ctx context.Context, how Search, i int) (Run, error) {
	o := search.Options{Seed: how.Seed + int64(i)}
	if how.Start != nil {
		o.Start = how.Start(i)
	}
	budget := how.Budget
	if budget == 0 {
		budget = s.Budget()
	}
	r := Run{Window: how.Window, Counted: how.Overhead}
	began := time.Now()
	strategy, err := search.New(how.Strategy, s.space, o)
	if err != nil {
		return r, err
	}
	r.Own += time.Since(began)
	spent, told := time.Duration(0), 0
	clock := func() float64 {
		if how.Overhead {
			return (spent + r.Own).Seconds()
		}
		return spent.Seconds()
	}
	for clock() < budget {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		began := time.Now()
		for len(r.Genomes)-told >= max(1, how.Window) {
			strategy.Tell(told, s.outcome(r.Genomes[told]))
			told++
		}
		p, ok := strategy.Ask()
		r.Own += time.Since(began)
		if !ok {
			break
		}
		r.Genomes = append(r.Genomes, p.Genome)
		spent += s.outcome(p.Genome).Cost
	}
	return r, nil
}

// outcome is the outcome of an evaluation; a genome that is not recorded fails at
// no cost.
func (s *Space) outcome(g genome.Genome) search.Outcome {
	if i, ok := s.index[g]; ok {
		return s.outcomes[i]
	}
	return search.Outcome{}
}
