//go:build !linux

package cuda

import (
	"context"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/kernels"
)

func (b *Backend) doctor(context.Context) []evaluator.Tool {
	return []evaluator.Tool{{Name: "linux", Missing: ErrUnsupported.Error() + ": no candidate can be run here"}}
}

func (b *Backend) open(context.Context, evaluator.Plan) (evaluator.Lab, error) {
	return nil, ErrUnsupported
}

func (b *Backend) probe(context.Context) (wire.Device, error) { return wire.Device{}, ErrUnsupported }

func (b *Backend) all(context.Context) ([]wire.Device, error) { return nil, ErrUnsupported }

func (b *Backend) uuids(context.Context) ([]string, error) { return nil, ErrUnsupported }

func describeDevice([]wire.Device) evaluator.Device { return evaluator.Device{} }

// CompileServerMain does nothing on this system.
func CompileServerMain() {}

// CompileTriton compiles nothing on this system.
func CompileTriton(Options, kernels.Rendered, int) (TritonCode, string, error) {
	return TritonCode{}, "", ErrUnsupported
}

// Fatbin compiles nothing on this system.
func Fatbin(string, string, []string) ([]byte, error) { return nil, ErrUnsupported }
