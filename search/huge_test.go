//go:build unix

package search_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/evotune/evotune/search"
)

// A space of 10^12 genomes is searched from the first second on, in little
// memory.
func TestHuge(t *testing.T) {
	begin := processorTime(t)
	space := huge(t)
	s, err := search.New("", space, search.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	first, ok := s.Ask()
	took := processorTime(t) - begin
	if !ok || took > time.Second {
		t.Errorf("the first proposal of %.3g genomes took %v of processor time", space.Size(), took)
	}
	if space.Size() < 1e11 {
		t.Errorf("a space of %.3g genomes is not huge", space.Size())
	}
	s.Tell(0, made(first.Genome))
	ps := []search.Proposal{first}
	for k := 1; k < 500; k++ {
		p, ok := s.Ask()
		if !ok {
			t.Fatal("exhausted")
		}
		s.Tell(k, made(p.Genome))
		ps = append(ps, p)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.Sys > 200<<20 {
		t.Errorf("%d MB of memory", m.Sys>>20)
	}
	t.Logf("%.3g genomes: first proposal after %v of processor time, %d MB of memory; best of 500 %.3g", space.Size(), took, m.Sys>>20, best(ps))
	if early, late := best(ps[:50]), best(ps); late > 0.7*early {
		t.Errorf("the best of 50 is %.3g, of 500 %.3g", early, late)
	}
}

// processorTime is what this process has used. Unlike the time of day it does not
// depend on what else the machine does.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
