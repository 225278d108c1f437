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

// TestPatience: a step that takes long is told after 5 s and whenever its time has doubled, and the
// next one only if it takes long, too. Scripts hear of the next one at once.
func TestPatience(t *testing.T) {
	type moment struct {
		what           string
		seconds        float64
		people, script bool
	}
	people, scripts := evaluator.Patience{}, evaluator.Patience{Scripts: true}
	for i, m := range []moment{
		{"", 0, false, false},
		{"harness", 4.9, false, false},
		{"inputs", 0.1, false, false},
		{"inputs", 5, true, true},
		{"inputs", 9, false, false},
		{"inputs", 41, true, true},
		{"inputs", 79, false, false},
		{"reference", 0, false, true},
		{"reference", 0.2, false, false},
		{"reference", 6, true, true},
		{"reference", 1, false, false}, // another of the same name
		{"reference", 5, true, true},
	} {
		took := time.Duration(m.seconds * float64(time.Second))
		if got := people.Due(m.what, took); got != m.people {
			t.Errorf("%d: people are told of %q after %v: %v", i, m.what, took, got)
		}
		if got := scripts.Due(m.what, took); got != m.script {
			t.Errorf("%d: scripts are told of %q after %v: %v", i, m.what, took, got)
		}
	}
}
