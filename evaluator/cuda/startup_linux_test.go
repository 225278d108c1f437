package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// TestStartingHoldsNobodyUp: while workers start, which takes racecheck seconds
// here, others are timed, and what starts stands still meanwhile.
func TestStartingHoldsNobodyUp(t *testing.T) {
	state := t.TempDir()
	h, ev := openFake(t, fakeOptions(t, "EVOTUNE_FAKE_APART="+state, "EVOTUNE_FAKE_START=500ms"))
	// The first one waits for all tools; then it is timed as often as asked.
	evaluate(t, ev, fakeGenome(t, "nothing", 1))
	src, err := h.plan.Implementations[0].Render(fakeGenome(t, "nothing", 2))
	if err != nil {
		t.Fatal(err)
	}
	c, out, err := h.Compile(t.Context(), src)
	if err != nil || out.Verdict != "" {
		t.Fatal(out, err)
	}
	racecheck := h.gpus[0].tools[racecheck]
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() {
		if r := evaluate(t, ev, fakeGenome(t, "racecheck=report", 3)); r.Verdict != evaluator.Sanitizer {
			t.Errorf("%s: %s", r.Verdict, r.Reason)
		}
	})
	starting := func() bool {
		found, _ := filepath.Glob(filepath.Join(state, "starting-*"))
		return len(found) > 0
	}
	for begin := time.Now(); !starting(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("no worker takes the place of the one that was lost")
		}
	}
	during := 0
	for starting() {
		if _, out, err := h.Benchmark(t.Context(), c, 0); err != nil || out.Verdict != "" {
			t.Fatal(out, err)
		}
		if starting() {
			during++
		}
		time.Sleep(50 * time.Millisecond) // for those who stood still
	}
	if during < 3 {
		t.Errorf("timed %d times while workers started", during)
	}
	if clash, _ := filepath.Glob(filepath.Join(state, "clash-*")); len(clash) > 0 {
		t.Errorf("timed work met a worker that was starting: %v", clash)
	}
	wait.Wait()
	racecheck.mu.Lock()
	defer racecheck.mu.Unlock()
	if racecheck.lost != 1 || racecheck.room() != racecheck.size+1 {
		t.Errorf("%d workers lost, room for %d: there should be one to spare", racecheck.lost, racecheck.room())
	}
}

// TestNoRoomForMoreWorkers: that no further worker starts is no reason to stop
// while there is one.
func TestNoRoomForMoreWorkers(t *testing.T) {
	o := fakeOptions(t, "EVOTUNE_FAKE_TWICE=memcheck") // once for the proof
	o.SanitizeWorkers = 3
	h, ev := openFake(t, o)
	p := h.gpus[0].tools[memcheck]
	w, err := p.take(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		w, err := p.take(t.Context(), false)
		if err == nil {
			p.put(w)
		}
		second <- err
	}()
	state := func() (int, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.failures, p.full
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if failures, full := state(); failures == 1 && full {
			break
		} else if failures > 1 || time.Since(begin) > 20*time.Second {
			t.Fatalf("it was tried %d times to start a further worker (full: %t)", failures, full)
		}
	}
	p.put(w)
	if err := <-second; err != nil {
		t.Errorf("while there was a worker: %v", err)
	}
	// The last one is lost, and no other comes.
	if r := evaluate(t, ev, fakeGenome(t, "memcheck=report", 20)); r.Verdict != evaluator.Sanitizer {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	if r := evaluate(t, ev, fakeGenome(t, "nothing", 21)); r.Verdict != evaluator.Infrastructure || !strings.Contains(r.Reason, "a worker for memcheck does not start") {
		t.Errorf("without a worker: %s: %s", r.Verdict, r.Reason)
	}
}

// TestStartup: a worker that is starting stands still while something is timed,
// and its time limit with it.
func TestStartup(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := process.NewLauncher()
	defer l.Close()
	var s startup
	defer s.close()
	w, err := startWorker(t.Context(), l, workerSpec{path: self, env: []string{fakeVariable + "=1"}, startup: &s})
	if err != nil {
		t.Fatal(err)
	}
	defer w.kill()
	if standsStill(w.pid) {
		// It waits for a request, which is not standing still.
		t.Error("a worker stands still that was not stopped")
	}
	s.pause()
	s.pause()
	if !standsStill(w.pid) {
		t.Error("a worker that starts runs while something is timed")
	}
	s.resume()
	if !standsStill(w.pid) {
		t.Error("a worker goes on before the last who stopped it has ended")
	}
	const limit = 300 * time.Millisecond
	time.AfterFunc(3*limit, s.resume)
	begin := time.Now()
	if err := w.call(t.Context(), limit, wire.Open, wire.OpenRequest{}, &wire.OpenAnswer{}); err != nil {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	if took := time.Since(begin); took < 2*limit {
		t.Errorf("it answered after %v, while it was stopped", took)
	}
	w.begun()
	s.pause()
	defer s.resume()
	if standsStill(w.pid) {
		t.Error("a worker stands still that has started")
	}
	signalGroup(w, unix.SIGSTOP)
	for !standsStill(w.pid) {
		time.Sleep(time.Millisecond)
	}
	var late *timeoutError
	if err := w.call(t.Context(), limit, wire.Open, wire.OpenRequest{}, &wire.OpenAnswer{}); !errors.As(err, &late) {
		t.Errorf("a worker that has started and does not answer: %v, want a timeout", err)
	}
}

// TestStartupGuard: a worker that stands still when evotune is killed does not
// stay so for ever, and one that has gone on is left alone.
func TestStartupGuard(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for paused, wait := range map[bool]time.Duration{true: 20 * time.Second, false: 300 * time.Millisecond} {
		l := process.NewLauncher()
		var s startup
		w, err := startWorker(t.Context(), l, workerSpec{path: self, env: []string{fakeVariable + "=1"}, startup: &s})
		if err != nil {
			t.Fatal(err)
		}
		s.pause()
		if !paused {
			s.resume()
		}
		// What the kernel does when evotune is killed.
		if err := s.told.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.guard.Wait(); err != nil && !paused {
			t.Error(err)
		}
		ended := false
		select {
		case <-w.exited:
			ended = true
		case <-time.After(wait):
		}
		if ended != paused {
			t.Errorf("stands still: %t; killed: %t", paused, ended)
		}
		w.kill()
		l.Close()
	}
}
