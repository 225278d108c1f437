package server

import (
	"context"
	"testing"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
)

// TestPreparingProgress: the progress of a campaign that is being prepared says what is done and for how long.
func TestPreparingProgress(t *testing.T) {
	var p progress
	if got := p.now("a-1", api.Preparing).Preparing; got != nil {
		t.Errorf("before it begins: %+v", got)
	}
	_, done := evaluator.Preparing(evaluator.WithPreparation(context.Background(), &p.preparation), "reference at shape %s, on the CPU", "X")
	if got := p.now("a-1", api.Preparing).Preparing; got == nil || got.Step != "reference at shape X, on the CPU" || got.SinceNS < 0 {
		t.Errorf("while the reference runs: %+v", got)
	}
	if got := p.now("a-1", api.Searching).Preparing; got != nil {
		t.Errorf("while it searches: %+v", got)
	}
	done()
	if got := p.now("a-1", api.Preparing).Preparing; got != nil {
		t.Errorf("after it: %+v", got)
	}
}

// TestPreparingOperation: an operation that measures says what is done for it and for how long, and the state keeps nothing of that.
func TestPreparingOperation(t *testing.T) {
	o := &operations{prepare: map[string]*evaluator.Preparation{}}
	a := &action{Operation: api.Operation{ID: "op-1", Kind: judging, State: api.Preparing}}
	if got := o.shown(a).Preparing; got != nil {
		t.Errorf("before it begins: %+v", got)
	}
	_, done := evaluator.Preparing(o.following(context.Background(), "op-1"), "reference at shape %s, on the CPU", "X")
	if got := o.shown(a).Preparing; got == nil || got.Step != "reference at shape X, on the CPU" || got.SinceNS < 0 || a.Preparing != nil {
		t.Errorf("while the reference runs: %+v, kept %+v", got, a.Preparing)
	}
	done()
	if got := o.shown(a).Preparing; got != nil {
		t.Errorf("after it: %+v", got)
	}
}
