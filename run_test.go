package evotune

import (
	"runtime"
	"testing"
)

// Nobody who sets nothing gets one worker on many cores.
func TestWorkers(t *testing.T) {
	cores := runtime.NumCPU()
	for _, c := range []struct {
		asked, window int
		backend       string
		want          int
	}{
		{0, 0, CPU, min(cores, 8)},
		{0, 1, CPU, 1},
		{3, 0, CPU, 3},
		{9, 4, CPU, 4},
		{0, 32, CUDA, 32},
		{2, 32, CUDA, 2},
	} {
		if got := workersFor(c.asked, c.window, c.backend); got != c.want {
			t.Errorf("%d asked for, window %d on %s: %d workers, want %d", c.asked, c.window, c.backend, got, c.want)
		}
	}
}
