//go:build !linux

package cpu

import (
	"context"

	"github.com/evotune/evotune/evaluator"
)

func (b *Backend) doctor(context.Context) []evaluator.Tool {
	return []evaluator.Tool{{Name: "linux", Missing: ErrUnsupported.Error() + ": no candidate can be run here"}}
}

func (b *Backend) open(context.Context, evaluator.Plan) (evaluator.Lab, error) {
	return nil, ErrUnsupported
}

// Limits describes this machine by the names that definitions may use in
// constraints; nothing is known of it here.
func (b *Backend) Limits() map[string]any { return nil }

// Device describes this machine; nothing is known of it here.
func (b *Backend) Device() evaluator.Device { return evaluator.Device{Kind: "cpu"} }
