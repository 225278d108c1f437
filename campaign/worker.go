package campaign

import (
	"context"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// A job is one candidate for a worker.
type job struct {
	index     int
	id        string
	genome    genome.Genome
	incumbent float64
}

type result struct {
	index  int
	result evaluator.Result
}

// work evaluates jobs until there are no more. An error ends the campaign.
func (r *runner) work(ctx context.Context, worker int, jobs <-chan job, results chan<- result) error {
	for j := range jobs {
		jctx := ctx
		if r.opts.OnStage != nil {
			r.opts.OnStage(worker, j.id, "")
			jctx = evaluator.WithTrace(ctx, func(s evaluator.Stage) { r.opts.OnStage(worker, j.id, s) })
		}
		res, err := r.problem.Evaluator.Evaluate(jctx, j.genome, j.incumbent)
		if r.opts.OnStage != nil {
			r.opts.OnStage(worker, "", "")
		}
		if err != nil {
			return err
		}
		select {
		case results <- result{j.index, res}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
