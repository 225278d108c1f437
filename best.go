package evotune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/ask"
	"github.com/evotune/evotune/kernels"
)

// A Question asks for the best stored candidates of a kernel. An empty field matches
// anything.
type Question struct {
	Kernel string `json:"kernel"`
	// Device is a name or a part of it, the beginning of a fingerprint, a UUID, or
	// Auto for this machine: its GPU and, where no candidate answers for that, its CPU.
	Device string `json:"device,omitempty"`
	// Shapes are one shape by its dimensions ("B=2,H=8,S=512,D=64"), one by its name,
	// or the names of several that a campaign tuned together.
	Shapes []string `json:"shapes,omitempty"`
	// DType asks for problems with buffers of this type.
	DType kernels.DType `json:"dtype,omitempty"`
	// Proven asks for winners of finals only, and for proven ones.
	Proven bool `json:"proven,omitempty"`
	// Limit is how many are wanted. Zero means one.
	Limit int `json:"limit,omitempty"`
	// Definition is the kernel's, if the caller has it; nil means that it is looked up.
	Definition *kernels.Definition `json:"-"`
}

// An Answer is a stored candidate, and by which rule it answers: the device, the
// nearest shape with its distance in doublings, and whether the kernel has changed.
type Answer = ask.Answer

// Best returns the best stored candidates for a question, the best first, or the
// nearest ones in the store. The device counts first, then the shape; then winners of
// finals come first, then the smaller time relative to the baseline. The error is one
// of the store, an ErrInput, or an ErrNoCandidate.
func (m *Machine) Best(ctx context.Context, r Reader, q Question) ([]Answer, error) {
	// Kernels are read while devices are looked up: both take about as long.
	type resolved struct {
		ask.Question
		error
	}
	question := make(chan resolved, 1)
	go func() {
		q, err := m.question(q)
		question <- resolved{q, err}
	}()
	devices, unknown := m.wanted(ctx, r, q.Kernel, q.Device)
	asked := <-question
	if asked.error != nil {
		return nil, badInput(asked.error)
	}
	if unknown != nil {
		return nil, unknown
	}
	var answers []Answer
	var err error
	for _, d := range devices {
		asked.Device = d
		if answers, err = ask.Ask(r, asked.Question); !errors.Is(err, ask.ErrNoCandidate) {
			break
		}
	}
	if errors.Is(err, ask.ErrQuestion) {
		return nil, badInput(err)
	}
	return answers, err
}

// question converts a question, without the device.
func (m *Machine) question(of Question) (ask.Question, error) {
	q := ask.Question{Kernel: of.Kernel, DType: of.DType, Proven: of.Proven, Limit: of.Limit}
	if of.DType != "" && !slices.Contains(kernels.DTypes(), of.DType) {
		var known []string
		for _, t := range kernels.DTypes() {
			known = append(known, string(t))
		}
		return q, fmt.Errorf("unknown dtype %q: there are %s", of.DType, strings.Join(known, ", "))
	}
	if of.DType == "" && len(of.Shapes) == 0 {
		return q, nil
	}
	kernel, err := of.Definition, error(nil)
	if kernel == nil {
		kernel, err = kernels.Find(of.Kernel, m.Definitions...)
	}
	unknown := errors.Is(err, kernels.ErrUnknownKernel)
	if err != nil && !unknown {
		return q, err
	}
	q.Definition = kernel
	if unknown && of.DType != "" {
		return q, badField("dtype", "needs the definition of the kernel: %w", err)
	}
	for _, s := range of.Shapes {
		switch {
		case s == "":
			return q, badField("shape", "is empty: give dimensions (NAME=N,...) or the name of a shape")
		case !strings.Contains(s, "="):
			q.Shapes = append(q.Shapes, s)
		case len(of.Shapes) > 1:
			return q, badField("shape", "%s: a shape by its dimensions stands alone; several are given by their names", s)
		case unknown:
			return q, badField("shape", "%s: dimensions need the definition of the kernel; the name of a shape does not: %w", s, err)
		default:
			if q.Dims, err = ask.ParseShape(kernel, s); err != nil {
				return q, err
			}
		}
	}
	if len(q.Shapes) == 1 {
		q.Shape, q.Shapes = q.Shapes[0], nil
	}
	return q, nil
}

// wanted lists the devices that text may mean, in the order in which to try them; one
// nil stands for any device.
func (m *Machine) wanted(ctx context.Context, r Reader, kernel, text string) ([]*evaluator.Device, error) {
	if text == "" {
		return []*evaluator.Device{nil}, nil
	}
	if text == Auto {
		here, err := m.Devices(ctx)
		out := make([]*evaluator.Device, len(here))
		for i := range here {
			out[i] = &here[i]
		}
		return out, err
	}
	known, err := ask.Devices(r, strings.HasPrefix(text, "GPU-") || strings.HasPrefix(text, "MIG-"))
	if err != nil {
		return nil, err
	}
	d, err := ask.FindDevice(known, text)
	if err == nil {
		return []*evaluator.Device{&d}, nil
	}
	// This machine may have what the store has never seen.
	if here, hereErr := m.Devices(ctx); hereErr == nil {
		if d, hereErr = ask.FindDevice(here, text); hereErr == nil {
			return []*evaluator.Device{&d}, nil
		}
	}
	if campaigns, listErr := r.Campaigns(); listErr == nil && len(campaigns) == 0 {
		return nil, fmt.Errorf("%w of %q: no campaign has tuned it", ErrNoCandidate, kernel)
	}
	return nil, badInput(err)
}
