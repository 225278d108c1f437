//go:build !linux

package cpu

import (
	"context"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/backend"
)

func (b *Backend) doctor(context.Context) []evaluator.Tool {
	return []evaluator.Tool{{Name: "linux", Missing: ErrUnsupported.Error() + ": no candidate can be run here"}}
}

func (b *Backend) open(context.Context, evaluator.Plan) (evaluator.Lab, error) {
	return nil, ErrUnsupported
}

// Available implements [evaluator.Backend].
func (b *Backend) Available(context.Context) error { return ErrUnsupported }

// Limits implements [evaluator.Backend].
func (b *Backend) Limits() map[string]any { return nil }

// Device implements [evaluator.Backend].
func (b *Backend) Device(context.Context) (evaluator.Device, error) {
	return evaluator.Device{Kind: backend.CPU}, nil
}
