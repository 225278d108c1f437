package cuda

import (
	"context"
	"fmt"
	"slices"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// placings are how guards has the buffers lie: where, what is outside, and what that is called.
var placings = []struct{ where, lie, outside string }{
	{wire.AtEnd, "end where mapped memory ends", "beyond the end of"},
	{wire.AtBegin, "begin where mapped memory begins", "before the beginning of"},
}

// findGuards says whether buffers can be placed between pages that are not mapped.
func (h *lab) findGuards() {
	const lost = "reads outside of buffers at tuned shapes are found only where they change an output"
	tool := evaluator.Tool{Name: guards}
	switch {
	case len(h.options.Sanitizers) > 0 && !slices.Contains(h.options.Sanitizers, guards):
		tool.Missing = "switched off by the options"
	case !h.gpus[0].device.Mapping:
		tool.Missing = "the driver does not map memory at chosen addresses: " + lost
	default:
		h.guarded = true
		tool.Version = fmt.Sprintf("memory mapped by a driver of CUDA %d.%d", h.gpus[0].device.CUDADriver/1000, h.gpus[0].device.CUDADriver%1000/10)
	}
	h.Found(tool)
}

// launchGuarded launches a candidate, as it is timed, with buffers that end where mapped memory does, and with
// buffers that begin there.
func (h *lab) launchGuarded(ctx context.Context, c *candidate, d *shapeData) (f evaluator.Findings, err error) {
	g, free := h.place()
	defer free()
	err = g.parity.run(ctx, c.lost.Swap(false), func(w *worker) error {
		loaded, err := h.load(ctx, w, c)
		if err != nil {
			return err
		}
		if loaded.Fault != nil {
			return w.faulted(loaded.Fault)
		}
		w.had(c)
		defer h.unload(w, c)
		f.Observed = map[string]evaluator.Observation{}
		for _, p := range placings {
			a, silent, err := h.compareIn(ctx, w, c, d, wire.ParityRequest{Repeat: 1, Mapped: p.where})
			if err != nil {
				return err
			}
			if silent != "" || a.NotMapped != "" {
				f = evaluator.Findings{NotRun: silent}
				if silent == "" {
					f.NotRun = fmt.Sprintf("no memory for buffers that %s: %s", p.lie, a.NotMapped)
				}
				return nil
			}
			if a.Fault != nil {
				w.dead = w.dead || a.Fault.Fatal
				f = evaluator.Findings{By: guards, Found: fmt.Sprintf("it fails with buffers that %s, aligned to 16 bytes", p.lie)}
				if a.Fault.Name == "CUDA_ERROR_ILLEGAL_ADDRESS" {
					f.Found = fmt.Sprintf("it reads or writes %s a buffer: buffers %s", p.outside, p.lie)
				}
				own := w.faulted(a.Fault)
				f.Log = own.Log
				return own
			}
			f.Observed[fmt.Sprintf("%s, buffers that %s", d.shape.Name, p.lie)] = observation(a)
			f.Elapsed += observation(a).Elapsed
		}
		f.Ran = fmt.Sprintf("two launches at shape %s as it is timed: buffers that end where mapped memory ends, and that begin where it begins", d.shape.Name)
		return nil
	})
	return f, blame(err, c)
}
