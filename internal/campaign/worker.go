package campaign

import (
	"context"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// A job is one candidate for a worker.
type job struct {
	ctx       context.Context // ends when the time is over
	index     int
	id        string
	genome    genome.Genome
	incumbent float64
	alone     bool // nothing else runs, and the log tells which stages it enters
}

type result struct {
	index  int
	result evaluator.Result
	cut    bool // given up when the time was over
}

// work evaluates jobs until there are no more. An error ends the campaign, unless the time was over.
func (r *runner) work(ctx context.Context, worker int, jobs <-chan job, results chan<- result) error {
	for j := range jobs {
		res, err := r.evaluate(j.ctx, worker, j)
		cut := err != nil && j.ctx.Err() != nil && ctx.Err() == nil
		if err != nil && !cut {
			return err
		}
		select {
		case results <- result{j.index, res, cut}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// evaluate evaluates one job and says how far it is.
func (r *runner) evaluate(ctx context.Context, worker int, j job) (res evaluator.Result, err error) {
	tell := func(string, evaluator.Stage) {}
	if r.opts.OnStage != nil {
		tell = func(candidate string, s evaluator.Stage) { r.opts.OnStage(worker, candidate, s) }
	}
	tell(j.id, "")
	defer tell("", "")
	run := func(ctx context.Context, enter func(evaluator.Stage)) (err error) {
		ctx = evaluator.WithTrace(ctx, func(s evaluator.Stage) {
			tell(j.id, s)
			enter(s)
		})
		ctx = evaluator.WithHold(ctx, r.gate.held)
		ctx = evaluator.WithCandidate(ctx, evaluator.Candidate{Index: j.index, ID: j.id})
		res, err = r.problem.Evaluator.Evaluate(ctx, j.genome, j.incumbent)
		return err
	}
	if j.alone {
		return res, r.alone(ctx, j.index, j.id, run)
	}
	return res, run(ctx, func(evaluator.Stage) {})
}
