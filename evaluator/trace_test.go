package evaluator_test

import (
	"context"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
)

// TestPreparation: of steps at once the oldest is told, and of a step with parts its oldest part.
func TestPreparation(t *testing.T) {
	var p evaluator.Preparation
	now := func(want string) {
		t.Helper()
		what, took := p.Now()
		if what != want || took < 0 || took > time.Minute {
			t.Errorf("%q for %v, want %q", what, took, want)
		}
	}
	ctx := evaluator.WithPreparation(context.Background(), &p)
	now("")
	first, endFirst := evaluator.Preparing(ctx, "inputs of shape %s", "a")
	_, endSecond := evaluator.Preparing(ctx, "inputs of shape %s", "b")
	now("inputs of shape a")
	_, endPart := evaluator.Preparing(first, "Python")
	now("inputs of shape b") // older than the part
	endSecond()
	now("Python")
	endPart()
	now("inputs of shape a")
	endPart() // again: nothing changes
	now("inputs of shape a")
	endFirst()
	now("")
	if same, done := evaluator.Preparing(context.Background(), "unseen"); same != context.Background() {
		t.Error("a step that nobody follows has a context of its own")
	} else {
		done()
	}
}
