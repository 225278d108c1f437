package cpu

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/kernels"
)

// renderBaseline gives the source of the baseline, that of a wrapper for a
// routine of a library.
func renderBaseline(im *kernels.Implementation, shapes []kernels.Shape) (kernels.Rendered, error) {
	r, err := im.RenderBaseline(shapes...)
	if !errors.Is(err, errors.ErrUnsupported) {
		return r, err
	}
	base := im.Baseline()
	owner := base.Implementation()
	library := base.Library
	if !strings.Contains(library, "/") {
		library = "-l:" + library
	}
	return kernels.Rendered{
		Implementation: owner, Entry: base.Symbol, Threads: 1,
		Header: kernels.Header(owner.Problem(), owner),
		// The header declares the entry; the routine has its type.
		Source: fmt.Sprintf("extern __typeof__(%s) %s;\n", owner.Entry, base.Symbol),
		Flags:  []string{"-O2", library},
		Hash:   cache.Key("library", base.Library, base.Symbol),
	}, nil
}

// Baseline implements [evaluator.Lab]: one baseline serves all shapes.
func (h *lab) Baseline(ctx context.Context, _ kernels.Shape) (evaluator.Artifact, evaluator.BuildReport, error) {
	a, report, err := h.build(ctx, h.baselineSource, cache.Key("baseline 1", h.Key, h.baselineSource.Hash))
	if err == nil && report.Refused == "" {
		h.baselineMu.Lock()
		h.baseline = a.Handle.(*candidate)
		h.baselineMu.Unlock()
	}
	return a, report, err
}

// builtBaseline gives the baseline, and builds it when nobody asked for it yet.
func (h *lab) builtBaseline(ctx context.Context) (*candidate, error) {
	h.baselineMu.Lock()
	c := h.baseline
	h.baselineMu.Unlock()
	if c != nil {
		return c, nil
	}
	a, report, err := h.Baseline(ctx, kernels.Shape{})
	if err == nil && report.Refused != "" {
		err = fmt.Errorf("%w to compile: %s", evaluator.ErrBaseline, report.Refused)
	}
	if err != nil {
		return nil, err
	}
	return a.Handle.(*candidate), nil
}
