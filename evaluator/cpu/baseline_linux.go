package cpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

// proveBaseline puts the baseline through the ordeal's stages: what everything
// is measured against must itself be right.
func (h *bench) proveBaseline(ctx context.Context) error {
	name := h.plan.Definition.Name
	if len(h.plan.Implementations) == 0 {
		return fmt.Errorf("kernel %s: no implementation for the CPU was chosen", name)
	}
	im := h.plan.Implementations[0]
	h.desc.Baseline = im.Baseline().String()
	src, err := renderBaseline(im, h.plan.Tune)
	if err != nil {
		return fmt.Errorf("%w: kernel %s: %w", ErrBaseline, name, err)
	}
	release, err := h.share(ctx)
	if err != nil {
		return err
	}
	bin, outcome, err := h.compile(ctx, src)
	var took map[string]time.Duration
	if err == nil && outcome.Verdict == "" {
		outcome, took, err = h.parity(ctx, bin)
	}
	release()
	if err == nil && outcome.Verdict == "" {
		outcome, err = h.sanitizeBaseline(ctx, bin)
	}
	if err != nil {
		return err
	}
	if outcome.Verdict != "" {
		return fmt.Errorf("%w: kernel %s, %s: %s: %s", ErrBaseline, name, h.desc.Baseline, outcome.Verdict, outcome.Reason)
	}
	h.baseline, h.launchTime = bin, took
	return nil
}

// sanitizeBaseline remembers a baseline that passed: the same code under the
// same tools passes again.
func (h *bench) sanitizeBaseline(ctx context.Context, bin *candidate) (evaluator.Outcome, error) {
	key := cache.Key("baseline 1", h.base, bin.src.Hash)
	if _, ok := h.cache.Get("baselines", key, nil); ok {
		return evaluator.Outcome{}, nil
	}
	outcome, err := h.sanitizeAll(ctx, bin)
	if err == nil && outcome.Verdict == "" {
		// A full disk costs the next run some time, and this one nothing.
		_ = h.cache.Put("baselines", key, nil, nil)
	}
	return outcome, err
}
