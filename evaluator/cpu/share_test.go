package cpu

import (
	"context"
	"errors"
	"testing"
	"time"

	programs "github.com/evotune/evotune/evaluator/internal/process"
)

// TestShare: other work waits while something is timed.
func TestShare(t *testing.T) {
	_, timed, err := programs.TakeHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Share(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("work began beside a timing: %v", err)
	}
	timed()
	release, err := Share(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release()
}
