package evaluator

import (
	"context"

	"github.com/evotune/evotune/genome"
)

// An Ordeal judges the genomes of one Plan on one Bench, stage by stage.
type Ordeal struct {
	bench Bench
	plan  Plan
}

var _ Evaluator = (*Ordeal)(nil)

// NewOrdeal returns the ordeal of plan on bench. Closing it closes the bench.
func NewOrdeal(bench Bench, plan Plan) *Ordeal {
	return &Ordeal{bench: bench, plan: plan}
}

// Describe implements [Evaluator].
func (o *Ordeal) Describe() Description { return o.bench.Describe() }

// Evaluate implements [Evaluator].
func (o *Ordeal) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (Result, error) {
	return Result{}, ctx.Err()
}

// Finals implements [Evaluator].
func (o *Ordeal) Finals(ctx context.Context, finalists []genome.Genome) (Finals, error) {
	return Finals{Winner: -1}, ctx.Err()
}

// Close implements [Evaluator].
func (o *Ordeal) Close() error { return o.bench.Close() }
