package cuda

import (
	"sync"
	"time"

	"github.com/evotune/evotune/evaluator"
)

// Usage says how busy the GPUs are.
func (h *lab) Usage() evaluator.Usage {
	u := evaluator.Usage{Stages: h.stages.all(), Waiting: map[string]int{"compiler": int(h.compileQueue.Load())}}
	wall := float64(max(time.Since(h.opened), 1))
	for _, g := range h.gpus {
		gate := g.gate.Usage()
		u.Reserved += float64(gate.Held-g.before) / wall / float64(len(h.gpus))
		u.Measuring += float64(g.measured.Load()) / wall / float64(len(h.gpus))
		for _, p := range g.pools() {
			u.Waiting[p.name] += int(p.queued.Load())
		}
		u.Waiting["timing"] += gate.Waiting
	}
	return u
}

// stageCounts counts the candidates in every stage. A candidate that is in one
// several times, under several tools, counts once.
type stageCounts struct {
	mu  sync.Mutex
	now map[evaluator.Stage]map[*candidate]int
}

// enter counts one in and returns how to count it out.
func (s *stageCounts) enter(stage evaluator.Stage, c *candidate) func() {
	s.add(stage, c, 1)
	return func() { s.add(stage, c, -1) }
}

func (s *stageCounts) add(stage evaluator.Stage, c *candidate, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now = map[evaluator.Stage]map[*candidate]int{}
	}
	if s.now[stage] == nil {
		s.now[stage] = map[*candidate]int{}
	}
	if s.now[stage][c] += n; s.now[stage][c] == 0 {
		delete(s.now[stage], c)
	}
}

func (s *stageCounts) all() map[evaluator.Stage]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[evaluator.Stage]int{}
	for stage, list := range s.now {
		counts[stage] = len(list)
	}
	return counts
}
