package cuda

import (
	"time"

	"github.com/evotune/evotune/evaluator"
)

// Usage says how busy the GPUs are.
func (h *bench) Usage() evaluator.Usage {
	u := evaluator.Usage{Stages: h.stages.all(), Waiting: map[string]int{"compiler": int(h.compileQueue.Load())}}
	wall := float64(max(time.Since(h.opened), 1))
	for _, g := range h.gpus {
		held, waiting := g.gate.held()
		u.Reserved += held / float64(len(h.gpus))
		u.Measuring += float64(g.measured.Load()) / wall / float64(len(h.gpus))
		for _, p := range g.pools() {
			u.Waiting[p.name] += int(p.queued.Load())
		}
		u.Waiting["timing"] += waiting
	}
	return u
}
