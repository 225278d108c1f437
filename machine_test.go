package evotune

import (
	"errors"
	"testing"

	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/evaluator/cuda"
)

// Options that make no sense are the caller's to correct, and what else keeps a backend
// from being made is not.
func TestBadOptions(t *testing.T) {
	if _, err := (&Machine{CPU: cpu.Options{Timeout: -1}}).backend(CPU); !errors.Is(err, ErrInput) || !errors.Is(err, cpu.ErrOptions) {
		t.Errorf("CPU: %v", err)
	}
	if _, err := (&Machine{CUDA: cuda.Options{Timeout: -1}}).backend(CUDA); !errors.Is(err, ErrInput) || !errors.Is(err, cuda.ErrOptions) {
		t.Errorf("CUDA: %v", err)
	}
	full := errors.New("no space left on device")
	if err := badOption(full, cpu.ErrOptions); errors.Is(err, ErrInput) || !errors.Is(err, full) {
		t.Errorf("the machine: %v", err)
	}
}
