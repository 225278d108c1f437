package cuda

import (
	"maps"
	"sync"

	"github.com/evotune/evotune/evaluator"
)

// stageCounts counts the candidates in every stage.
type stageCounts struct {
	mu  sync.Mutex
	now map[evaluator.Stage]int
}

// enter counts one in and returns how to count it out.
func (s *stageCounts) enter(stage evaluator.Stage) func() {
	s.add(stage, 1)
	return func() { s.add(stage, -1) }
}

func (s *stageCounts) add(stage evaluator.Stage, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now = map[evaluator.Stage]int{}
	}
	s.now[stage] += n
}

func (s *stageCounts) all() map[evaluator.Stage]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.now)
}
