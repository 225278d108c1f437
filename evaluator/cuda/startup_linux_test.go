package cuda

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// TestWorkersOfASearch: a lab of a search has all of its workers before a candidate comes, and the
// first of each kind before others; any other lab starts no more than it needs.
func TestWorkersOfASearch(t *testing.T) {
	t.Parallel()
	for _, search := range []bool{true, false} {
		t.Run(fmt.Sprint(search), func(t *testing.T) {
			o := fakeOptions(t, "EVOTUNE_FAKE_START=500ms") // racecheck's begin late
			o.SanitizeWorkers, o.ParityWorkers = 6, 6
			plan := fakePlan(t)
			plan.Search = search
			h, _ := openFakePlan(t, o, plan)
			var firsts, others []int
			for _, p := range h.gpus[0].pools() {
				workers := func() (pids []int) {
					p.mu.Lock()
					defer p.mu.Unlock()
					for w := range p.all {
						pids = append(pids, w.PID)
					}
					return pids
				}
				if search {
					within(t, "all workers for "+p.name+" have started", func() bool { return len(workers()) == p.room() })
				}
				pids := workers()
				slices.Sort(pids)
				switch {
				case !search && !p.alone && len(pids) >= p.size:
					t.Errorf("%d workers for %s, and nobody needs them", len(pids), p.name)
				case search:
					firsts = append(firsts, pids[0])
					if p.name != racecheck { // while its first one starts, the baseline asks for another
						others = append(others, pids[1:]...)
					}
				}
			}
			if search && slices.Max(firsts) > slices.Min(others) {
				t.Errorf("there were others, %v, before the first of each kind, %v", others, firsts)
			}
		})
	}
}

// TestRehearsal: in a search all workers do what each does once when the first candidate comes, and
// those that come later before anybody has them.
func TestRehearsal(t *testing.T) {
	t.Parallel()
	for _, search := range []bool{true, false} {
		t.Run(fmt.Sprint(search), func(t *testing.T) {
			o := fakeOptions(t)
			o.ParityWorkers = 3
			plan := fakePlan(t)
			plan.Search = search
			h, _ := openFakePlan(t, o, plan)
			proven := 0 // kinds of contents on which the baseline was
			h.contents.Range(func(any, any) bool { proven++; return true })
			build(t, h, "nothing", 1)
			p := h.gpus[0].parity
			ready := func() (n int) {
				p.mu.Lock()
				defer p.mu.Unlock()
				for _, w := range p.idle {
					if len(w.prepared) == proven {
						n++
					}
				}
				return n
			}
			if !search {
				asked := true
				h.rehearsed.Do(func() { asked = false })
				if asked {
					t.Error("workers prepare, and no search was to come")
				}
				return
			}
			within(t, "three workers are ready", func() bool { return ready() == 3 })
			timing := h.gpus[0].timing
			timing.mu.Lock()
			for _, d := range h.problem.Tune {
				if len(timing.idle) != 1 || timing.idle[0].batches[d] == 0 {
					t.Errorf("%d workers are ready to time, or not at %s", len(timing.idle), d.shape.Name)
				}
			}
			timing.mu.Unlock()
			p.mu.Lock()
			p.lost++ // there is room for one more
			p.grow()
			p.mu.Unlock()
			within(t, "a fourth worker is ready", func() bool { return ready() == 4 })
		})
	}
}

// TestSilentContents: where the reference has no answer is known after the first time, too.
func TestSilentContents(t *testing.T) {
	t.Parallel()
	h, _ := openFake(t, fakeOptions(t, "EVOTUNE_FAKE_CONTROL=silent"))
	for range 2 {
		err := h.gpus[0].parity.run(t.Context(), false, func(w *worker) error {
			for seed, want := range map[uint64]string{98: "", 99: "nothing is finite there"} {
				if silent, err := h.prepareShape(t.Context(), w, h.problem.Tune[0].wire, seed); err != nil || silent != want {
					t.Errorf("seed %d: %q, %v", seed, silent, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestOrderOfProposals: candidates wait in the order of their proposals, whenever they come.
func TestOrderOfProposals(t *testing.T) {
	t.Parallel()
	h, _ := openFake(t, fakeOptions(t))
	for _, index := range []int{41, 7} {
		src, err := h.Plan.Implementations[0].Render(fakeGenome(t, "nothing", index))
		if err != nil {
			t.Fatal(err)
		}
		a, _, err := h.Build(evaluator.WithCandidate(t.Context(), evaluator.Candidate{Index: index}), src)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := labs.Handle[*candidate](a); err != nil || c.rank != int64(index)+1 {
			t.Errorf("proposal %d waits as number %d (%v)", index, c.rank, err)
		}
	}
}

// TestStartingHoldsNobodyUp: while workers start, which takes racecheck seconds
// here, others are timed, and what starts stands still meanwhile.
func TestStartingHoldsNobodyUp(t *testing.T) {
	state := t.TempDir()
	h, ev := openFake(t, fakeOptions(t, "EVOTUNE_FAKE_APART="+state, "EVOTUNE_FAKE_START=500ms"))
	// The first one waits for all tools; then it is timed as often as asked.
	evaluate(t, ev, fakeGenome(t, "nothing", 1))
	a := build(t, h, "nothing", 2)
	starting := func() bool {
		found, _ := filepath.Glob(filepath.Join(state, "starting-*"))
		return len(found) > 0
	}
	within(t, "the first ones have started", func() bool { return !starting() })
	racecheck := h.gpus[0].tools[racecheck]
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() {
		if r := evaluate(t, ev, fakeGenome(t, "racecheck=report", 3)); r.Verdict != evaluator.Sanitizer {
			t.Errorf("%s: %s", r.Verdict, r.Reason)
		}
	})
	within(t, "a worker takes the place of the one that was lost", starting)
	// Somebody waits for it, since the others are taken.
	racecheck.mu.Lock()
	taken := racecheck.idle
	racecheck.idle = nil
	racecheck.mu.Unlock()
	wait.Go(func() {
		if err := racecheck.run(t.Context(), false, func(*worker) error { return nil }); err != nil {
			t.Error(err)
		}
		for _, w := range taken {
			racecheck.put(w)
		}
	})
	during := 0
	for starting() {
		s, err := h.Open(t.Context(), evaluator.ForTiming, a)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Sample(t.Context(), evaluator.SampleRequest{Shape: h.Plan.Tune[0], Rounds: 3, Last: true})
		if err != nil || got.Series[0].Fault != nil {
			t.Fatal(got, err)
		}
		if _, err := s.Close(); err != nil {
			t.Fatal(err)
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
	t.Parallel()
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
	within(t, "a further worker fails to start", func() bool {
		failures, full := state()
		return failures == 1 && full
	})
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
	var late *timeoutError
	// On a busy machine an honest answer may need more time.
	for limit := 300 * time.Millisecond; ; limit *= 5 {
		if err = startsWithin(t, l, self, limit); !errors.As(err, &late) || limit > 5*time.Second {
			break
		}
		t.Log(err)
	}
	if err != nil {
		t.Error(err)
	}
}

// startsWithin is TestStartup with a limit for answers. Its error is that of a worker which was
// stopped and then did not answer.
func startsWithin(t *testing.T, l *process.Launcher, self string, limit time.Duration) error {
	t.Helper()
	var s startup
	defer s.close()
	w, err := startWorker(t.Context(), l, workerSpec{path: self, env: []string{fakeVariable + "=1"}, startup: &s})
	if err != nil {
		t.Fatal(err)
	}
	defer w.kill()
	if standsStill(w.PID) {
		// It waits for a request, which is not standing still.
		t.Error("a worker stands still that was not stopped")
	}
	s.pause()
	s.pause()
	if !standsStill(w.PID) {
		t.Error("a worker that starts runs while something is timed")
	}
	s.resume()
	if !standsStill(w.PID) {
		t.Error("a worker goes on before the last who stopped it has ended")
	}
	resume := time.AfterFunc(3*limit, s.resume)
	defer resume.Stop()
	begin := time.Now()
	if err := w.call(t.Context(), limit, wire.Open, wire.OpenRequest{}, &wire.OpenAnswer{}); err != nil {
		return fmt.Errorf("after %v: %w", time.Since(begin), err)
	}
	if took := time.Since(begin); took < 2*limit {
		t.Errorf("it answered after %v, while it was stopped", took)
	}
	w.begun()
	s.pause()
	defer s.resume()
	if standsStill(w.PID) {
		t.Error("a worker stands still that has started")
	}
	signalGroup(w, unix.SIGSTOP)
	within(t, "it stands still", func() bool { return standsStill(w.PID) })
	var late *timeoutError
	if err := w.call(t.Context(), limit, wire.Open, wire.OpenRequest{}, &wire.OpenAnswer{}); !errors.As(err, &late) {
		t.Errorf("a worker that has started and does not answer: %v, want a timeout", err)
	}
	return nil
}

// TestStartupGuard: a worker that stands still when evotune is killed does not
// stay so for ever, and one that has gone on is left alone.
func TestStartupGuard(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for paused, wait := range map[bool]time.Duration{true: time.Minute, false: 300 * time.Millisecond} {
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
		case <-w.Exited:
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

// TestStandsStillInVfork: a parent that waits for its child to begin a program is
// stopped with it, whatever its state says.
func TestStandsStillInVfork(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	program := filepath.Join(t.TempDir(), "vfork")
	build := exec.Command(cc, "-x", "c", "-", "-o", program)
	build.Stdin = strings.NewReader("#include <unistd.h>\nint main(void)\n{\n\tif (vfork() == 0) {\n\t\tsleep(60);\n\t\t_exit(0);\n\t}\n\treturn 0;\n}\n")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	l := process.NewLauncher()
	defer l.Close()
	cmd := exec.Command(program)
	if err := l.Start(cmd); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer func() {
		process.KillGroup(pid)
		_ = cmd.Wait()
	}()
	state := func() string {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := strings.Cut(string(stat), ") ")
		return after[:min(1, len(after))]
	}
	within(t, "the parent waits", func() bool { return state() == "D" })
	if standsStill(pid) {
		t.Error("it stands still, and its child runs")
	}
	if err := unix.Kill(-pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	within(t, "they stand still", func() bool { return standsStill(pid) })
}

// within waits for something to become true.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestWhoSharesSleeps: workers that share the GPU leave the core to others while
// it works; one whose launches are timed does not, since waking takes time.
func TestWhoSharesSleeps(t *testing.T) {
	t.Parallel()
	h, ev := openFake(t, fakeOptions(t))
	evaluate(t, ev, fakeGenome(t, "nothing", 1))
	if len(family(os.Getpid(), stateOf(h.options))) < 6 {
		t.Error("the check for processes left behind does not see the workers")
	}
	g := h.gpus[0]
	for _, p := range append(slices.Collect(maps.Values(g.tools)), g.parity, g.timing) {
		p.mu.Lock()
		var workers []*worker
		for w := range p.all {
			workers = append(workers, w)
		}
		p.mu.Unlock()
		if len(workers) == 0 {
			t.Errorf("%s has no worker", p.name)
		}
		for _, w := range workers {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", w.PID))
			if err != nil {
				t.Fatal(err)
			}
			shares := strings.HasSuffix(string(line), fmt.Sprintf("\x00-share\x00%d\x00", p.size))
			if shares == p.alone {
				t.Errorf("%s: %q", p.name, line)
			}
		}
	}
}
