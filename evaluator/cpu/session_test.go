//go:build linux

package cpu

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// bare is a lab without a judge.
type bare struct {
	*lab
	t     *testing.T
	space *genome.Space
}

// openBare is the lab on the kernel "scale" that tests share.
func openBare(t *testing.T) bare {
	t.Helper()
	return bareOf(t, sharedLab(t, "scale"))
}

func bareOf(t *testing.T, s *setup) bare {
	t.Helper()
	t.Cleanup(func() {
		if left := children(os.Getpid()); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
	return bare{s.lab, t, s.space}
}

// build builds a candidate with a fault.
func (b bare) build(wrong string, threads int) evaluator.Artifact {
	b.t.Helper()
	s := &setup{space: b.space}
	src, err := b.Plan.Implementations[0].Render(s.genome(b.t, "WRONG", wrong, "THREADS", threads))
	if err != nil {
		b.t.Fatal(err)
	}
	a, report, err := b.Build(b.t.Context(), src)
	if err != nil || report.Refused != "" {
		b.t.Fatalf("%s: %v, %+v", wrong, err, report)
	}
	return a
}

func (b bare) open(p evaluator.Purpose, artifacts ...evaluator.Artifact) evaluator.Session {
	b.t.Helper()
	s, err := b.Open(b.t.Context(), p, artifacts...)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b bare) request(rounds int, last bool) evaluator.SampleRequest {
	return evaluator.SampleRequest{
		Shape: b.Plan.Tune[0], Rounds: rounds, Batch: 200 * time.Microsecond, Within: map[string]float64{"y": 1e-5}, Last: last,
	}
}

// A parity session says what it saw, right or wrong, and ends with what the
// candidate did at its end.
func TestCompareSession(t *testing.T) {
	b := openBare(t)
	for _, c := range []struct{ wrong, guard, end string }{
		{"nothing", "", ""},
		{"zone", "wrote byte 0 behind the end of y", ""},
		{"late", "", "SIGABRT (while it ended)"},
	} {
		s := b.open(evaluator.ForParity, b.build(c.wrong, 1))
		o, err := s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.Plan.Sanitize, Contents: 1})
		if err != nil {
			t.Fatalf("%s: %v", c.wrong, err)
		}
		if !strings.Contains(o.Guard, c.guard) || (o.Guard == "") != (c.guard == "") || o.Different != "" ||
			o.Threads != 1 || o.Elapsed <= 0 || len(o.Outputs) != 1 || o.Outputs[0].Name != "y" || o.Outputs[0].Elements != 67 || o.Outputs[0].Error > 1e-6 {
			t.Errorf("%s: %+v", c.wrong, o)
		}
		_, err = s.Close()
		var own *evaluator.Fault
		if errors.As(err, &own) != (c.end != "") || own != nil && !strings.Contains(own.Reason, c.end) {
			t.Errorf("%s ended with %v", c.wrong, err)
		}
		if _, err := s.Close(); err != nil {
			t.Errorf("%s closed again: %v", c.wrong, err)
		}
	}
}

// A candidate that ends its own run is a fault of its own.
func TestFaults(t *testing.T) {
	b := openBare(t)
	_, err := b.Open(t.Context(), evaluator.ForParity, b.build("constructor", 1))
	var own *evaluator.Fault
	if !errors.As(err, &own) || own.Hang || !strings.Contains(own.Reason, "exit (status 0)") {
		t.Errorf("got %v", err)
	}
	s := b.open(evaluator.ForParity, b.build("hang", 1))
	_, err = s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.Plan.Sanitize, Limit: 50 * time.Millisecond})
	if !errors.As(err, &own) || !own.Hang || own.Reason != "no answer within 50ms" {
		t.Errorf("got %v", err)
	}
	if _, err := s.Close(); err != nil {
		t.Errorf("what is known already is said again: %v", err)
	}
	s = b.open(evaluator.ForParity, b.build("input", 1))
	_, err = s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.Plan.Sanitize})
	if !errors.As(err, &own) || !own.Wrote || own.Reason != "wrote to input x at element 33" {
		t.Errorf("got %v", err)
	}
	if _, err := s.Close(); err != nil {
		t.Errorf("what is known already is said again: %v", err)
	}
}

// Launches none of which takes too long take too long together, in each stage.
func TestTogetherLong(t *testing.T) {
	longtest.Long(t, "it waits in each stage until launches are too long, and starts every sanitizer")
	b := bareOf(t, sharedLab(t, "scale", asanName, tsanName, guardsName))
	a := b.build("sleep", 1)
	const most = 90 * time.Millisecond
	hangs := func(what string, err error) {
		t.Helper()
		var own *evaluator.Fault
		if !errors.As(err, &own) || !own.Hang || !strings.Contains(own.Reason, "together until now, and all of them may take ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	a.Allowed = evaluator.NewAllowance(most)
	s := b.open(evaluator.ForTiming, a)
	got, err := s.Sample(t.Context(), b.request(2, true))
	if err != nil || got.Series[0].Fault == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	hangs("timing", got.Series[0].Fault)
	_, _ = s.Close()
	a.Allowed = evaluator.NewAllowance(most)
	s = b.open(evaluator.ForParity, a)
	_, err = s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.Plan.Sanitize})
	hangs("parity", err)
	_, _ = s.Close()
	a.Allowed = evaluator.NewAllowance(most)
	_, err = b.Launch(t.Context(), a, guardsName, b.Plan.Sanitize)
	hangs(guardsName, err)
	a.Allowed = evaluator.NewAllowance(time.Minute)
	s = b.open(evaluator.ForParity, a)
	if o, err := s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.Plan.Sanitize}); err != nil || a.Allowed.Spent() < 100*time.Millisecond {
		t.Errorf("%v: it took %s, %v", o, a.Allowed.Spent(), err)
	}
	_, _ = s.Close()
	// What one process has spent, another has not.
	a.Allowed = evaluator.NewAllowance(150 * time.Millisecond)
	s = b.open(evaluator.ForParity, a)
	if _, err := s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.Plan.Sanitize}); err != nil {
		t.Error(err)
	}
	_, _ = s.Close()
	_, err = b.Launch(t.Context(), a, guardsName, b.Plan.Sanitize)
	hangs("after parity", err)
}

// A launch that waits for a core does not take time, unless it works meanwhile.
func TestCharge(t *testing.T) {
	for _, c := range []struct {
		took, waited, used time.Duration
		threads            int
		want               time.Duration
	}{
		{20, 0, 0, 1, 20},   // sleeps
		{20, 0, 20, 1, 20},  // works
		{20, 15, 5, 1, 5},   // waits
		{20, 15, 40, 1, 40}, // for its own threads
		{20, 15, 40, 2, 20}, // which it declares
	} {
		if got := charge(c.took, c.waited, c.used, c.threads); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// inputsSource has x, of 67 elements, for an input, and does with it what dims[0] says.
const inputsSource = `
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

static void *put(void *x) { *(volatile float *)x += 1; return 0; }

void evotune_call(const int64_t *dims, void *const *buffers, const double *scalars)
{
	float *x = buffers[0], *y = buffers[1];
	void *page = (void *)((uintptr_t)x & ~(uintptr_t)4095);
	pthread_t other;
	(void)scalars;
	y[0] = x[66];
	switch (dims[0]) {
	case 1: { float old = x[33]; put(x + 33); *(volatile float *)(x + 33) = old; break; }
	case 2: put(x - 1); break;
	case 3: put(x + 67); break;
	case 4: if (!pthread_create(&other, 0, put, x)) pthread_join(other, 0); break;
	case 5: y[0] = mprotect(page, 4096, PROT_READ | PROT_WRITE) ? -errno : 1; break;
	case 6: put(mremap(page, 0, 8192, MREMAP_MAYMOVE)); break;
	case 7: put(0); break;
	case 8: raise(SIGSEGV); break;
	case 9: mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); put(x); break;
	}
}
`

// Nothing that a candidate does changes an input; that it tried is told.
func TestInputsAreReadOnly(t *testing.T) {
	b := openBare(t)
	object, err := b.tool.compile(t.Context(), compilation{
		files: map[string]string{"inputs.c": inputsSource}, args: []string{"-O1", "-shared", "-fPIC", "inputs.c", "-pthread"},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := newLayout([]placedBuffer{
		{name: "x", dtype: f32, elements: 67, bytes: 268, role: roleIn}, {name: "y", dtype: f32, elements: 1, bytes: 4, role: roleOut},
	})
	a, err := newArena(l.stride.times(2))
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	x, y := a.buffer(&l, l.stride, 0, 0), a.buffer(&l, l.stride, 0, 1)
	f32.put(x, 66, 7)
	before := bytes.Clone(a.mem[readOnly])
	for act, c := range []struct {
		reason string // of a fault, if there is one
		wrote  bool
		y      float64
	}{
		{y: 7},
		{reason: "wrote to input x at element 33", wrote: true},
		{reason: "guard: wrote byte 4 before the start of x", wrote: true},
		{reason: "guard: wrote byte 0 behind the end of x", wrote: true},
		{reason: "wrote to input x at element 0", wrote: true},
		{y: -13},
		{reason: "SIGSEGV"},
		{reason: "SIGSEGV"},
		{reason: "SIGSEGV"},
		{y: 7},
	} {
		f := cleanFlavour()
		p, err := b.start(t.Context(), &f, object.Object, a, nil, 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.setShape(&shapeData{Size: labs.Size{Dims: []int64{int64(act)}}, layout: l}, l.stride); err != nil {
			t.Fatal(err)
		}
		_, err = p.ask(command{kind: commandRun, launches: []uint32{0}, junk: -1}, answerDone, 20*time.Second)
		var own *evaluator.Fault
		switch errors.As(err, &own); {
		case c.reason == "" && (err != nil || f32.get(y, 0) != c.y):
			t.Errorf("act %d: error %v, wrote %v", act, err, f32.get(y, 0))
		case c.reason != "" && (own == nil || own.Wrote != c.wrote || !strings.Contains(own.Reason, c.reason)):
			t.Errorf("act %d: error %v", act, err)
		}
		p.kill()
		if !bytes.Equal(a.mem[readOnly], before) {
			t.Fatalf("act %d changed an input", act)
		}
	}
}

func checkReading(t *testing.T, r evaluator.Reading, batch int) {
	t.Helper()
	claimed := r.NS * float64(batch)
	// Evotune sends before the first launch begins, and the answer is sent after
	// the last one has ended.
	if !(r.NS > 0) || r.WallNS < claimed || !(r.CPUNS > 0) || r.WaitedNS < 0 {
		t.Errorf("%+v, batch %d", r, batch)
	}
}

// Who was killed may have been chosen by the system: that is for the judge to look at
// twice. A baseline that was killed is not a candidate's fault.
func TestKilled(t *testing.T) {
	b := openBare(t)
	a := b.build("nothing", 1)
	var lost *evaluator.Lost
	s := b.open(evaluator.ForParity, a)
	_ = unix.Kill(s.(*session).entries[0].p.pid, unix.SIGKILL)
	if _, err := s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.problem.Sanitize.shape}); !errors.As(err, &lost) {
		t.Errorf("parity: %v", err)
	}
	_, _ = s.Close()
	s = b.open(evaluator.ForTiming, a)
	if _, err := s.Sample(t.Context(), b.request(1, false)); err != nil {
		t.Fatal(err)
	}
	_ = unix.Kill(s.(*session).state.timed.pid, unix.SIGKILL)
	if _, err := s.Sample(t.Context(), b.request(1, false)); err == nil || errors.As(err, &lost) {
		t.Errorf("the baseline: %v", err)
	}
	_, _ = s.Close()
}

// A baseline is replaced before it has used up its processor time in the midst of a measurement.
func TestWorn(t *testing.T) {
	b := openBare(t)
	candidate := b.build("nothing", 1)
	baseline := func() *process {
		s := b.open(evaluator.ForTiming, candidate)
		defer s.Close() //nolint:errcheck // another test's
		if _, err := s.Sample(t.Context(), b.request(1, false)); err != nil {
			t.Fatal(err)
		}
		return s.(*session).state.timed //nolint:forcetypeassert // it is one
	}
	first := baseline()
	if second := baseline(); second != first {
		t.Error("each session has a baseline of its own")
	}
	first.allowed = time.Nanosecond
	if third := baseline(); third == first || third.allowed < time.Minute {
		t.Errorf("a baseline goes on with %v of processor time", third.allowed)
	}
}

// What is known of the baseline's process is not measured again for each candidate, unless it holds no more.
func TestCalibratedOnce(t *testing.T) {
	b := openBare(t)
	candidate := b.build("nothing", 1)
	launches := func(before func(*timingState)) (n uint64) {
		s := b.open(evaluator.ForTiming, candidate).(*session) //nolint:forcetypeassert // it is one
		defer s.Close()                                        //nolint:errcheck // another test's
		before(s.state)
		if s.state.timed != nil {
			n = -s.state.timed.seq
		}
		if _, err := s.Sample(t.Context(), b.request(0, false)); err != nil {
			t.Fatal(err)
		}
		return n + s.state.timed.seq
	}
	nothing := func(*timingState) {}
	launches(nothing)
	var seen []uint64
	for range 20 { // on a busy machine a launch may take twice as long
		n := launches(nothing)
		if seen = append(seen, n); n == 1 {
			break
		}
	}
	if seen[len(seen)-1] != 1 {
		t.Errorf("%v launches of a baseline that was calibrated", seen)
	}
	var slower uint64
	for range 20 { // and now and then eight times
		slower = launches(func(s *timingState) {
			for d := range s.calibrated {
				s.calibrated[d] *= 8
			}
		})
		if slower >= 4 {
			break
		}
		launches(nothing)
	}
	fresh := launches(func(s *timingState) { s.dropBaseline() })
	if slower < 4 || fresh < 4 {
		t.Errorf("%d and %d launches where nothing is known", slower, fresh)
	}
}

// Outputs that were compared are not compared again before the candidate goes on.
func TestLookedOnce(t *testing.T) {
	b := openBare(t)
	s := b.open(evaluator.ForTiming, b.build("nothing", 1)).(*session) //nolint:forcetypeassert // it is one
	defer s.Close()                                                    //nolint:errcheck // another test's
	if _, err := s.Sample(t.Context(), b.request(1, false)); err != nil {
		t.Fatal(err)
	}
	c := s.entries[0].now
	c.batch = 2
	if _, err := c.try(c.batch); err != nil {
		t.Fatal(err)
	}
	first, other := c.last[:1], c.last
	for _, step := range []struct {
		last     []uint32
		launches uint64
	}{{first, 1}, {first, 0}, {other, 1}, {other, 0}} {
		c.last = step.last
		var left evaluator.Observation
		before := s.state.answers.seq
		if err := c.look(s.base, &left, true); err != nil {
			t.Fatal(err)
		}
		if got := s.state.answers.seq - before; got != step.launches {
			t.Errorf("%d batches of the baseline for %d launches, %d of them compared; want %d", got, len(c.last), len(c.looked), step.launches)
		}
	}
	if len(c.looked) != 2 {
		t.Errorf("%d of 2 launches were compared", len(c.looked))
	}
}

// In a pair the second is bound to the core that the first had; who may use several is bound to none.
func TestSameCore(t *testing.T) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil || allowed.Count() < 2 {
		t.Skip("needs two cores")
	}
	b := openBare(t)
	for _, threads := range []int{1, 2} {
		s := b.open(evaluator.ForTiming, b.build("nothing", threads))
		for range 5 {
			if _, err := s.Sample(t.Context(), b.request(1, false)); err != nil {
				t.Fatal(err)
			}
			var bound []int                                                         // to how many cores
			pair := []*process{s.(*session).entries[0].p, s.(*session).state.timed} //nolint:forcetypeassert // it is one
			for _, p := range pair {
				var has unix.CPUSet
				if err := unix.SchedGetaffinity(p.pid, &has); err != nil {
					t.Fatal(err)
				}
				bound = append(bound, has.Count())
			}
			slices.Sort(bound)
			if all := allowed.Count(); threads == 1 && !slices.Equal(bound, []int{1, all}) || threads == 2 && bound[0] != all {
				t.Errorf("%d threads: bound to %v cores", threads, bound)
			}
			if one, other := pair[0].core(), pair[1].core(); threads == 1 && one != other {
				t.Errorf("cores %d and %d", one, other)
			}
		}
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A timing session gives pairs, and looks at what is left. What a candidate writes to all descriptors is not an answer.
func TestSampleSession(t *testing.T) {
	b := openBare(t)
	for _, c := range []struct {
		wrong   string
		threads int
	}{{"nothing", 1}, {"nothing", 2}, {"noise", 1}} {
		threads := c.threads
		s := b.open(evaluator.ForTiming, b.build(c.wrong, threads))
		for _, r := range []evaluator.SampleRequest{b.request(3, false), b.request(0, true)} {
			got, err := s.Sample(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			series := got.Series[0]
			if len(got.Series) != 1 || len(series.Readings) != r.Rounds || len(series.Baseline) != r.Rounds || series.Fault != nil {
				t.Fatalf("%+v", got)
			}
			if series.Batch < 1 || series.BaselineBatch < 1 || series.Sets < variants {
				t.Errorf("batches %d and %d, %d sets", series.Batch, series.BaselineBatch, series.Sets)
			}
			after := series.After
			if len(after.Outputs) != 1 || after.Outputs[0].Error > 1e-6 || after.Guard != "" || after.InputChanged != "" || after.Threads > threads {
				t.Errorf("after %d rounds: %+v", r.Rounds, after)
			}
			for i := range series.Readings {
				checkReading(t, series.Readings[i], series.Batch)
				checkReading(t, series.Baseline[i], series.BaselineBatch)
			}
		}
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a candidate did to guards is held against nobody who comes after it, be it when its process ends, or
// between the batches of the finals.
func TestGuardsOfOthers(t *testing.T) {
	b := openBare(t)
	spoil := func(state *timingState) {
		for _, d := range state.shapes {
			p := state.places[d]
			for set := range p.sets {
				for i := range d.layout.buffers {
					before, _, _ := state.ours.around(&d.layout, p.base, set, i)
					before[0]++
				}
			}
		}
	}
	sample := func(s evaluator.Session) (guards []string) {
		t.Helper()
		got, err := s.Sample(t.Context(), b.request(2, true))
		if err != nil {
			t.Fatal(err)
		}
		for _, series := range got.Series {
			if series.Fault != nil {
				t.Error(series.Fault)
			}
			guards = append(guards, series.After.Guard)
		}
		return guards
	}
	honest := b.build("nothing", 1)
	for range 2 {
		s := b.open(evaluator.ForTiming, honest)
		if got := sample(s); got[0] != "" {
			t.Errorf("a candidate answers for the one before: %s", got[0])
		}
		spoil(b.timing)
		if got := sample(s); got[0] == "" {
			t.Error("nobody sees guards that were written to")
		}
		spoil(b.timing) // it does so at its very end
		mem, mark := b.timing.ours.mem[writable], []byte("it was here")
		copy(mem, mark) // no guard is there
		copy(b.timing.ours.buffer(&b.timing.shapes[0].layout, span{}, 1, 1), mark)
		copy(mem[len(mem)-len(mark):], mark)
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
		next := b.open(evaluator.ForTiming, honest)
		if n := bytes.Count(mem, mark); n > 0 {
			t.Errorf("the next candidate finds %d marks", n)
		}
		if _, err := next.Close(); err != nil {
			t.Error(err)
		}
	}
	s := b.open(evaluator.ForFinals, honest, honest)
	defer s.Close() //nolint:errcheck // another test's
	for range 3 {
		if got := sample(s); got[0]+got[1] != "" {
			t.Errorf("finalists answer for others: %q", got)
		}
		spoil(s.(*session).state) //nolint:forcetypeassert // it is one
	}
}

// Whatever a batch was for, the next one is timed with the same chance.
func TestDraw(t *testing.T) {
	for _, edges := range []int{edgesInSearch, edgesInFinals} {
		c := &contender{rng: newRand(), edges: edges}
		var after, followed [3]float64 // by kind: batches, and those before a timed one
		const all = 100000
		for last, n := c.draw(), 0; n < all; n++ {
			next := c.draw()
			if after[last]++; next == timed {
				followed[last]++
			}
			last = next
		}
		for kind := range after {
			share, usual := followed[kind]/after[kind], after[timed]/all
			if error := 5 * math.Sqrt(usual*(1-usual)/after[kind]); math.Abs(share-usual) > error || usual > 0.9 {
				t.Errorf("one of %d has edge cases: %.3f of those after kind %d are timed, of all %.3f", edges, share, kind, usual)
			}
		}
	}
}

// Every edge case that is due comes once, and half of the others are hidden ones, if there are any.
func TestNextEdge(t *testing.T) {
	c := &contender{h: &lab{edges: map[*shapeData][]*edge{}}, rng: newRand()}
	list := []*edge{{}, {EdgeCase: labs.EdgeCase{Seed: 1}}, {EdgeCase: labs.EdgeCase{Seed: 2}}, {EdgeCase: labs.EdgeCase{Seed: 3, Further: kernels.Further{Name: "somewhere"}}}}
	c.h.edges[nil], c.due = list, slices.Clone(list[1:3])
	var came [4]int
	for range 1000 {
		came[c.nextEdge()[0].Seed]++
	}
	if len(c.due) != 0 || came[3] < 500 || min(came[0], came[1], came[2]) < 50 {
		t.Errorf("%v, %d are due", came, len(c.due))
	}
	c.h.edges[nil] = list[:1]
	if got := c.nextEdge(); len(got) != 1 {
		t.Error(got)
	}
	if c.h.edges[nil] = []*edge{}; len(c.nextEdge()) != 0 {
		t.Error("an edge case where there is none")
	}
}

// What was drawn for the baseline stays where it is while other candidates come, since it may be launched on it again.
func TestInputsStay(t *testing.T) {
	b := openBare(t)
	a := b.build("nothing", 1)
	s := b.open(evaluator.ForTiming, a)
	if _, err := s.Sample(t.Context(), b.request(1, false)); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Close()
	s = b.open(evaluator.ForTiming, a)
	defer s.Close() //nolint:errcheck // another test's
	state := b.timing
	d := state.shapes[0]
	p, looked := state.places[d], 0
	for set := range uint32(p.sets) { //nolint:gosec // at most maxLaunches
		if in := state.ours.drawn(&d.layout, p.base, int(set), 0); p.seeds[set] != 0 {
			was := make([]byte, len(in))
			if state.contents(was, d, set, 0); !bytes.Equal(in, was) {
				t.Errorf("set %d has other inputs", set)
			}
			looked++
		}
	}
	if looked == 0 {
		t.Error("no set has inputs")
	}
}

// Launches whose turns are in the pipe have not begun, whatever was written to their outputs; nor have those behind
// the first that has nothing in them, where outputs tell.
func TestWaiting(t *testing.T) {
	b := openBare(t)
	s := b.open(evaluator.ForTiming, b.build("nothing", 1))
	defer s.Close() //nolint:errcheck // another test's
	if _, err := s.Sample(t.Context(), b.request(1, true)); err != nil {
		t.Fatal(err)
	}
	p := s.(*session).entries[0].p //nolint:forcetypeassert // it is one
	left := 0
	for _, c := range []struct{ left, taken int }{{0, 5}, {1, 5}, {3, 3}, {6, 0}} { // of five turns and the end
		if _, err := p.turns.Write(make([]byte, 4*(c.left-left))); err != nil {
			t.Fatal(err)
		}
		left = c.left
		if got, err := p.taken(5); got != c.taken || err != nil {
			t.Errorf("with %d in the pipe %d were taken, %v", left, got, err)
		}
	}
	if _, err := p.turns.Write(make([]byte, 4)); err != nil { // the end of a batch that was answered before it
		t.Fatal(err)
	}
	var fault *evaluator.Fault
	if _, err := p.taken(5); !errors.As(err, &fault) {
		t.Errorf("with the end of an earlier batch in the pipe: %v", err)
	}

	state := b.timing
	d := state.shapes[0]
	sets := state.places[d].turn(6)
	const changed, taken = "buffer y of a launch that had not begun was changed", "the turns of launches that had not begun were taken"
	for _, c := range []struct {
		written     []int // launches
		taken, step int
		from        int // the first that waits
		ahead       string
	}{
		{nil, 2, 2, 1, ""},
		{nil, 0, 2, 0, ""},
		{[]int{0, 1}, 4, 2, 3, ""},
		{[]int{0, 1}, 2, 2, 2, ""},
		{[]int{0, 1, 2, 3}, 3, 3, 3, changed},       // worked ahead
		{[]int{0, 1, 2, 3, 4, 5}, 3, 3, 3, changed}, // and everywhere
		{[]int{0, 1, 2, 3, 4, 5}, 6, 3, 6, ""},      // the batch is over
		{[]int{0, 3}, 6, 6, 2, changed},             // what it had not come to
		{nil, 6, 2, 1, taken},                       // it knows all that come
		{[]int{0, 1}, 5, 2, 3, taken},
		{[]int{0}, 3, 2, 2, taken},
		{[]int{0, 1, 2, 3, 4}, 6, 1, 6, ""},
	} {
		state.prime(state.ours, d, sets)
		for _, i := range c.written {
			for b, l := range d.layout.buffers {
				if l.role != roleIn {
					clear(state.ours.buffer(&d.layout, state.places[d].base, int(sets[i]), b))
				}
			}
		}
		waiting, ahead := state.waiting(state.ours, d, sets, c.taken, c.step)
		if !slices.Equal(waiting, sets[c.from:]) || ahead != c.ahead {
			t.Errorf("%+v: %v of %v wait, %q", c, waiting, sets, ahead)
		}
	}

	// Of the launches that have begun one at most is written to later.
	state.prime(state.ours, d, sets)
	outputs := func(i int) []byte {
		b := slices.IndexFunc(d.layout.buffers, func(b placedBuffer) bool { return b.role == roleOut })
		return state.ours.buffer(&d.layout, state.places[d].base, int(sets[i]), b)
	}
	for i := range 4 {
		clear(outputs(i))
	}
	begun := state.begun(state.ours, d, sets)
	if len(begun) != 4 || state.changed(state.ours, d, begun) != 0 {
		t.Errorf("begun: %v", begun)
	}
	for i := 2; i < 6; i++ { // two of those, and two that had not begun
		outputs(i)[len(outputs(i))-1]++
		if n := state.changed(state.ours, d, begun); n != min(i-1, 2) {
			t.Errorf("%d have changed", n)
		}
	}

	// Where a launch may leave outputs as they were, these tell nothing.
	for _, c := range []struct {
		change func(*placedBuffer)
		tells  bool
	}{
		{func(*placedBuffer) {}, true},
		{func(b *placedBuffer) { b.role = roleInOut }, false},
		{func(b *placedBuffer) { b.dtype, b.elements = u8, 7 }, false},
		{func(b *placedBuffer) { b.dtype, b.elements = i32, 2 }, true},
	} {
		other := *d
		other.layout.buffers = slices.Clone(d.layout.buffers)
		for i := range other.layout.buffers {
			if other.layout.buffers[i].role == roleOut {
				c.change(&other.layout.buffers[i])
			}
		}
		if other.tells() != c.tells {
			t.Errorf("%+v: it should be %t", other.layout.buffers, c.tells)
		}
	}
}

// Who works on a launch that has yet to begin is found out where a batch is stopped. What
// it writes there is written again by that launch itself, so nothing else tells.
func TestInterrupt(t *testing.T) {
	b := openBare(t)
	for wrong, want := range map[string]string{
		"nothing": "", "ahead": "buffer y of a launch that had not begun was changed", "everywhere": "launch",
	} {
		s := b.open(evaluator.ForTiming, b.build(wrong, 1))
		for n := 0; n < 8 || n < 200 && want != ""; n++ { // on a busy machine a batch may be over before it is stopped
			r := b.request(0, true)
			r.Batch = 2 * time.Millisecond // as usual: a shorter one is over soon
			got, err := s.Sample(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			after := got.Series[0].After
			if got.Series[0].Batch < 4 || len(after.Outputs) != 1 || after.Outputs[0].Error > 1e-6 {
				t.Errorf("%s: batch of %d, %+v", wrong, got.Series[0].Batch, after)
			}
			if after.Guard != want && wrong == "nothing" {
				t.Errorf("%s: %q", wrong, after.Guard)
			}
			if strings.Contains(after.Guard, want) {
				want = ""
			}
		}
		if want != "" {
			t.Errorf("%s is not found out", wrong)
		}
		_, _ = s.Close()
	}
}

// So is who computes them elsewhere: they get other inputs then.
func TestInterruptGivesOthers(t *testing.T) {
	b := openBare(t)
	s := b.open(evaluator.ForTiming, b.build("privately", 1))
	defer s.Close() //nolint:errcheck // another test's
	for range 200 { // on a busy machine a batch may be over before it is stopped
		r := b.request(0, true)
		r.Batch = 2 * time.Millisecond // as in TestInterrupt
		got, err := s.Sample(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if after := got.Series[0].After; len(after.Outputs) == 1 && after.Outputs[0].Error > 1e-6 {
			return
		}
	}
	t.Error("launches that are computed ahead are not found out")
}

// Who is right in the first launches only is found out, though few launches are timed.
func TestOutlast(t *testing.T) {
	b := openBare(t)
	honest, tired := b.build("nothing", 1), b.build("tired", 1)
	for _, artifacts := range [][]evaluator.Artifact{{tired}, {honest, tired}} {
		s := b.open(evaluator.ForFinals, artifacts...)
		r := b.request(1, true)
		r.Batch = 1 // one launch
		got, err := s.Sample(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for i, series := range got.Series {
			wrong := series.After.Outputs[0].Unwritten > 0
			if series.Batch != 1 || series.Fault != nil || wrong != (i == len(got.Series)-1) {
				t.Errorf("%d of %d: %+v", i, len(got.Series), series)
			}
		}
		_, _ = s.Close()
	}
}

// bothWays tests what draws numbers, in vectors where the processor can and one by one.
func bothWays(t *testing.T, test func(t *testing.T)) {
	can := drawsWide
	defer func() { drawsWide = can }()
	for _, drawsWide = range []bool{false, true} {
		if can || !drawsWide {
			t.Run(fmt.Sprintf("wide=%t", drawsWide), test)
		}
	}
}

// Timed contents have the distribution that is declared, to its ends, and no few values.
func TestQuick(t *testing.T) { bothWays(t, testQuick) }

func testQuick(t *testing.T) {
	for _, c := range []struct {
		d      distribution
		dtype  dtype
		values int // at least
	}{
		{distribution{"uniform", 1, 2}, f32, 1 << 17},
		{distribution{"uniform", -1, 1}, f64, 1 << 17},
		{distribution{"uniform", 0, 0.1}, f32, 1 << 17},
		{distribution{"uniform", -2, 3}, f64, 1 << 17},
		{distribution{"uniform", 0.99999, 1}, f32, 100},
		{distribution{"uniform", 1e9, 1e9 + 1}, f64, 1 << 17},
		{distribution{"normal", 0, 1}, f32, 1 << 17},
		{distribution{"normal", -5, 1e-3}, f64, 1 << 17},
		{distribution{"normal", 3, 2}, f16, 1 << 12},
		{distribution{"normal", 0, 1}, bf16, 1 << 10},
		{distribution{"uniform", -1, 1}, f16, 1 << 13},
		{distribution{"integers", 0, 1e6}, f32, 1 << 17},
		{distribution{"integers", 1, 2e9}, i32, 1 << 17},
		{distribution{"integers", -5e4, 5e4}, i64, 60000},
		{distribution{"integers", 0, 1000}, i32, 1001},
		{distribution{"integers", -128, 127}, i8, 256},
		{distribution{"integers", 0, 255}, u8, 256},
		{distribution{"integers", -9, 9}, i16, 19},
		{distribution{"integers", 0, 1000}, u32, 1001},
		{distribution{"integers", 0, 9}, u16, 10},
		{distribution{"constant", 3, 0}, f32, 1},
	} {
		const n = 1 << 18
		raw := make([]byte, n*c.dtype.size())
		c.d.quick(raw, c.dtype, newSecret(2, 0))
		seen, sum, squares := map[float64]bool{}, 0.0, 0.0
		middle, spread := (c.d.a+c.d.b)/2, (c.d.b-c.d.a)/math.Sqrt(12)
		switch c.d.kind {
		case "normal":
			middle, spread = c.d.a, c.d.b
		case "integers":
			spread = math.Sqrt(((c.d.b-c.d.a+1)*(c.d.b-c.d.a+1) - 1) / 12)
		case "constant":
			middle, spread = c.d.a, 0
		}
		far, low := 0, 0
		for i := range n {
			v := c.dtype.get(raw, i)
			if c.dtype == f16 && halfBits(v) != view[uint16](raw)[i] {
				t.Fatalf("%#x is not a number of half precision", view[uint16](raw)[i])
			}
			seen[v] = true
			sum, squares = sum+(v-middle), squares+(v-middle)*(v-middle)
			if c.d.kind != "normal" && c.d.kind != "constant" && (v < c.d.a || v > c.d.b) {
				t.Fatalf("%v of %v: %g", c.dtype, c.d, v)
			}
			far += btoi(math.Abs(v-middle) > 4*spread)
			low += btoi(v < middle-spread)
		}
		if len(seen) < c.values {
			t.Errorf("%v of %v: %d values", c.dtype, c.d, len(seen))
		}
		mean, width := sum/n, math.Sqrt(squares/n-sum/n*sum/n)
		if scale := math.Max(spread, 1e-3*math.Abs(middle)/64); math.Abs(mean) > 0.02*scale || math.Abs(width-spread) > 0.02*scale {
			t.Errorf("%v of %v: mean %g from the middle, deviation %g", c.dtype, c.d, mean, width)
		}
		// 6.3 in 10^5 are beyond four deviations, 15.9% below one.
		if c.d.kind == "normal" && (far < 4 || far > 40 || math.Abs(float64(low)/n-0.1587) > 0.02) {
			t.Errorf("%v of %v: %d of %d far out, %d low", c.dtype, c.d, far, n, low)
		}
	}
}

// What is drawn in vectors is what the secret says, to the last element and no further.
func TestDrawWide(t *testing.T) {
	if !drawsWide {
		t.Skip("this processor draws one by one")
	}
	defer func() { drawsWide = true }()
	const n = 100
	for _, d := range []distribution{{"uniform", -1, 1}, {"uniform", 0, 0.1}, {"uniform", 1, math.Nextafter(1, 2)}, {"normal", 0, 1}, {"normal", -5, 1e-3}} {
		for size := range n {
			from := newSecret(uint64(size), 1)
			out, want := make([]float32, n), make([]float32, n)
			drawsWide = true
			after := d.singles(out[:size], from)
			drawsWide = false
			if d.kind == "uniform" {
				d.singles(want[:size+size%2], from) // which begins with the last one of an odd number
				clear(want[size:])
			} else {
				normals(want[:size], d, from)
			}
			for i := range out {
				// An error of the radius, of the angle, and that of the rounding.
				if off := math.Abs(float64(out[i] - want[i])); off > 0 && (d.kind == "uniform" || !(off < 1e-5*d.b+1e-7*math.Abs(d.a))) {
					t.Fatalf("%v, %d elements: element %d is %v, want %v", d, size, i, out[i], want[i])
				}
			}
			for range (size + 15) / 16 * 8 {
				from.next()
			}
			if after != from && d.kind == "normal" {
				t.Fatalf("%v, %d elements: the numbers go on at %v, want %v", d, size, after, from)
			}
		}
	}
}

// normals is what drawNormals computes, in double precision.
func normals(out []float32, d distribution, from secret) {
	var radius, angle [8]uint32
	for at := 0; at < len(out); at += 16 {
		for _, lanes := range [][]uint32{radius[:], angle[:]} {
			for i := 0; i < len(lanes); i += 2 {
				z := from.next()
				lanes[i], lanes[i+1] = uint32(z), uint32(z>>32)
			}
		}
		for i := range radius {
			r := d.b * math.Sqrt(-2*math.Log(float64(radius[i]>>1|1)*0x1p-31))
			s, c := math.Sincos(math.Pi / 4 * 0x1p-31 * float64(int32(angle[i]<<2)))
			if angle[i]>>31 == 1 {
				s, c = c, s
			}
			if radius[i]&1 == 1 {
				s = -s
			}
			if angle[i]>>30&1 == 1 {
				c = -c
			}
			for k, x := range []float64{s, c} {
				if to := at + i + 8*k; to < len(out) {
					out[to] = float32(d.a + r*x)
				}
			}
		}
	}
}

// The number that follows one of a stream can be computed from it. That is no help with timed contents, whose buffers
// have nothing in common either.
func TestSecret(t *testing.T) {
	undo := func(z uint64, shift int) uint64 { // of z ^ z>>shift
		for x := z; ; x = z ^ x>>shift {
			if x^x>>shift == z {
				return x
			}
		}
	}
	inverse := func(odd uint64) uint64 {
		x := odd
		for range 6 { // Newton: each step doubles the bits that are right
			x *= 2 - odd*x
		}
		return x
	}
	after := func(z uint64) uint64 {
		z = undo(z, 31) * inverse(0x94d049bb133111eb)
		z = undo(z, 27) * inverse(0xbf58476d1ce4e5b9)
		s := stream(undo(z, 30))
		return s.next()
	}
	open := stream(7)
	if first := open.next(); after(first) != open.next() {
		t.Fatal("a stream is not undone as it should be")
	}
	seen := map[uint64]bool{}
	for seed := range uint64(20) {
		for buffer := range 5 {
			s := newSecret(seed, buffer)
			first := s.next()
			if after(first) == s.next() {
				t.Errorf("seed %d, buffer %d: a number tells the next one", seed, buffer)
			}
			if again := newSecret(seed, buffer); again.next() != first || seen[first] {
				t.Errorf("seed %d, buffer %d: not its own numbers", seed, buffer)
			}
			seen[first] = true
		}
	}
}

// BenchmarkQuick draws a million elements, which campaigns do for every launch.
func BenchmarkQuick(b *testing.B) {
	for _, t := range []dtype{f32, f64, f16, bf16} {
		for _, d := range []distribution{{"uniform", -1, 1}, {"normal", 0, 1}} {
			b.Run(d.kind+" "+t.String(), func(b *testing.B) {
				raw := make([]byte, 1<<20*t.size())
				for range b.N {
					d.quick(raw, t, newSecret(1, 0))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(1<<20), "ns/element")
			})
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Contents come in one order, which the pool alone decides, however many launches a
// batch has; and every session has a pool of its own, unless one is asked for.
func TestPools(t *testing.T) {
	b := openBare(t)
	state, err := newTimingState(b.lab, b.problem.Tune)
	if err != nil {
		t.Fatal(err)
	}
	defer state.close()
	d := state.shapes[0]
	p := state.places[d]
	// What a set will hold when its turn comes is nowhere before.
	refresh := func(d *shapeData, n int) {
		if err := state.refresh(d, state.places[d].turn(n)); err != nil {
			t.Fatal(err)
		}
	}
	state.draw("a")
	refresh(d, 1)
	for i, set := range p.turn(2) {
		if ahead := slices.Max(state.ours.buffer(&d.layout, p.base, int(set), 0)) != 0; ahead != (i == 0) {
			t.Errorf("turn %d: has contents %t", i, ahead)
		}
	}
	p.next = 0

	launched := func(pool string, batch int) (all []byte) {
		state.draw(pool)
		for len(all) < 2*p.sets*8 { // each set has its turn twice
			refresh(d, batch)
			for _, set := range p.turn(batch) {
				state.load(state.theirs, d, []uint32{set}) // the same ones where the answers are computed
				for _, a := range []*arena{state.ours, state.theirs} {
					all = append(all, a.buffer(&d.layout, p.base, int(set), 0)[:4]...)
				}
			}
			p.use(batch)
		}
		return all[:2*p.sets*8]
	}
	first := launched("a", 1)
	if !bytes.Equal(launched("a", 7), first) {
		t.Error("the same pool gives other contents")
	}
	if bytes.Equal(launched("b", 1), first) {
		t.Error("another pool gives the same contents")
	}

	a := b.build("nothing", 1)
	seen := map[string]bool{}
	var before []uint64
	if b.timing != nil { // another test's
		before = slices.Clone(b.timing.places[b.timing.shapes[0]].seeds)
	}
	for _, pool := range []string{"", "", drawnAs() + "asked for", "of an older version"} {
		s := b.open(evaluator.ForTiming, a)
		r := b.request(2, false)
		r.Pool = pool
		got, err := s.Sample(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if seen[got.Pool] || len(got.Pool) < 9 || strings.HasPrefix(pool, drawnAs()) != (got.Pool == pool) {
			t.Errorf("asked for pool %q, got %q after %v", pool, got.Pool, seen)
		}
		seen[got.Pool] = true
		held := slices.Clone(b.timing.places[b.timing.shapes[0]].seeds)
		b.timing.draw(got.Pool)
		var known []uint64
		for range 100 * len(held) {
			known = append(known, b.timing.places[b.timing.shapes[0]].pool.Uint64())
		}
		turns := 0
		for set, seed := range held {
			if before != nil && seed == before[set] || seed == 0 {
				continue // its turn did not come
			}
			if turns++; !slices.Contains(known, seed) {
				t.Errorf("pool %q: set %d has contents of elsewhere", pool, set)
			}
		}
		if before = held; turns == 0 {
			t.Errorf("pool %q: no set had new contents", pool)
		}
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// In the finals who crashes, or writes to an input, is out, and the others go on;
// what one spoils is held against nobody else.
func TestFinalsSession(t *testing.T) {
	b := openBare(t)
	s := b.open(evaluator.ForFinals, b.build("nothing", 1), b.build("segfault", 1), b.build("constructor", 1), b.build("input", 1), b.build("zone", 1))
	for _, shape := range []kernels.Shape{b.Plan.Tune[0], b.Plan.Verify[0]} {
		for _, rounds := range []int{2, 0} {
			r := b.request(rounds, rounds == 0)
			r.Shape = shape
			got, err := s.Sample(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{"", "SIGSEGV", "exit (status 0)", "wrote to input x at element", ""} {
				series := got.Series[i]
				if want != "" {
					if series.Fault == nil || !strings.Contains(series.Fault.Reason, want) || len(series.Readings) != 0 {
						t.Errorf("contender %d: %+v", i, series)
					}
					continue
				}
				if spoilt := i == 4; (series.After.Guard != "") != spoilt {
					t.Errorf("contender %d: guard %q", i, series.After.Guard)
				}
				if series.Fault != nil || len(series.Readings) != rounds || len(series.Baseline) != rounds || len(series.After.Outputs) != 1 {
					t.Errorf("contender %d: %+v", i, series)
				}
			}
		}
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Controls are as wrong as they are, at shapes where they can be made.
func TestControl(t *testing.T) {
	b := openBare(t)
	out, err := b.Control(t.Context(), kernels.Control{Kind: kernels.Zeros}, b.Plan.Sanitize)
	if err != nil || len(out) != 1 || out[0].Name != "y" || !(out[0].Error > 0.5) || out[0].Got != 0 {
		t.Errorf("zeros: %+v, %v", out, err)
	}
	out, err = b.Control(t.Context(), kernels.Control{Kind: kernels.Mean}, b.Plan.Verify[0])
	if err != nil || len(out) != 1 || !(out[0].Error > 0.5) || out[0].Elements != 1237 || math.IsInf(out[0].Error, 0) {
		t.Errorf("mean: %+v, %v", out, err)
	}
}

// What every definition is tried with: an input as the answer, and the reference without some of
// the elements. Of several outputs those count that this changes.
func TestUndeclaredControls(t *testing.T) {
	h := sharedLab(t, "mixed", guardsName).lab
	small := h.Plan.Sanitize
	controls, err := h.problem.spec.Undeclared(small)
	if err != nil {
		t.Fatal(err)
	}
	errs := map[string]float64{}
	for _, c := range controls {
		outputs, err := h.Control(t.Context(), c, small)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outputs {
			errs[c.String()+": "+o.Name] = o.Error
		}
	}
	// The axis of b is that of no output; b is little of sum.
	if got := errs["work left out along axis 0 of b: sum"]; !(got > 1e-9) || got > 0.1 {
		t.Errorf("b alone: error %g", got)
	}
	delete(errs, "work left out along axis 0 of b: sum")
	// Sum is also an input, total has no input of its type, and a is three times its half.
	for _, name := range []string{"sum returned as sum: sum", "a returned as half: half", "f returned as last: last", "work left out: sum", "work left out: total", "work left out: half", "work left out: last"} {
		if !(errs[name] > 0.1) || math.IsInf(errs[name], 0) {
			t.Errorf("%s: error %g", name, errs[name])
		}
		delete(errs, name)
	}
	if len(errs) > 0 {
		t.Errorf("also: %v", errs)
	}
	// Nothing but a is replaced, so the others are as they were.
	whole := *h.problem.spec
	defer func() { *h.problem.spec = whole }()
	h.problem.spec.Buffers = slices.Clone(whole.Buffers)
	for i, b := range h.problem.spec.Buffers {
		if b.Role == kernels.In && b.Name != "a" {
			h.problem.spec.Buffers[i].Data.Distribution = kernels.Constant
		}
	}
	only := func(names ...string) {
		t.Helper()
		outputs, err := h.Control(t.Context(), kernels.Control{Kind: kernels.LeftOut}, small)
		var got []string
		for _, o := range outputs {
			got = append(got, o.Name)
		}
		if err != nil || !slices.Equal(got, names) {
			t.Errorf("outputs %q, %v, want %q", got, err, names)
		}
	}
	for i, b := range h.problem.spec.Buffers {
		if b.Role == kernels.InOut {
			h.problem.spec.Buffers[i].Data.Distribution = kernels.Constant
		}
	}
	only("sum", "half")
	h.problem.spec.Buffers[0].Data.Distribution = kernels.Constant
	only()
}

// A tolerance within which a constant is the mean of many elements is refused. Where only a
// sample is, the definition is not proven, and a sample is believed; where neither is, a sample is refused.
func TestWorkLeftOut(t *testing.T) {
	needCompiler(t)
	for _, c := range []struct {
		shape int
		want  string
	}{
		{0, `the control "constant" passes at shape long`},
		{1, `the control "work left out" passes at shape one: output Y is off by 0.`}, // the mean of one mean is right
	} {
		p := planOf(altered(t, "mean", "kernel.toml", "f32 = 1e-5", "f32 = 1e-2"))
		p.Tune, p.Strict = p.Definition.Problem.ShapesFor(kernels.Tune)[c.shape:][:1], true
		s, err := newSetup(p, quick())
		if !errors.Is(err, evaluator.ErrControl) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", p.Tune[0].Name, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
	p := planOf(load(t, "mean"))
	p.Strict = true
	s := openPlan(t, p, quick())
	for every, want := range map[int]evaluator.Verdict{1: "", 8: evaluator.Parity} {
		r, err := s.Until(t.Context(), s.genome(t, "EVERY", every, "SUMS", 4), evaluator.StageParity)
		if err != nil || r.Verdict != want {
			t.Errorf("every %d: %s, %s, %v", every, r.Verdict, r.Reason, err)
		}
	}
}

func TestPeaksAndConditions(t *testing.T) {
	b := openBare(t)
	before, err := b.Peaks(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	after, err := b.Peaks(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f32/1", "f64/1", "memory/1", "llc/1", "memory", "llc"} {
		if !(before.Rates[name] > 0) || after.Rates[name] < before.Rates[name] {
			t.Errorf("%s: %v, then %v", name, before.Rates[name], after.Rates[name])
		}
	}
	if after.Cores != cores() || after.CacheBytes <= 0 {
		t.Errorf("%+v", after)
	}
	if c := b.Conditions(t.Context()); c.Busy < 0 || c.Busy > 1 || c.Steal < 0 || c.Steal > 1 || c.Pressure < 0 || c.Pressure > 1 {
		t.Errorf("%+v", c)
	}
	if key := t.Name(); b.Recall(key) {
		t.Error("nobody asked to remember this")
	} else if b.Remember(key); !b.Recall(key) {
		t.Error("forgotten at once")
	}
}

// Sets come in an order of their own each time, and none again before others had their turn; and
// a batch has the first of those that a longer one would have.
func TestTurns(t *testing.T) {
	for _, sets := range []int{3, 4, 7, 64} {
		for _, batch := range []int{1, 2, 3, sets} {
			p := newPlacement(span{}, sets)
			last, before := make([]int, sets), map[uint32]uint32{}
			repeated, turns := 0, 0
			for turn := 1; turn < 40*sets; {
				all := p.turn(sets)
				if now := slices.Sorted(slices.Values(all)); int(now[0]) != 0 || int(now[sets-1]) != sets-1 || len(slices.Compact(now)) != sets {
					t.Fatalf("%d sets: %v", sets, all)
				}
				now := p.turn(batch)
				if !slices.Equal(now, all[:batch]) {
					t.Fatalf("%d sets: %v begins otherwise than %v", sets, now, all)
				}
				for i, set := range now {
					if last[set] > 0 && turn-last[set] <= sets-(sets+1)/2 {
						t.Fatalf("%d sets, batches of %d: set %d again after %d turns", sets, batch, set, turn-last[set])
					}
					last[set] = turn
					turn++
					if i > 0 {
						turns++
						if before[now[i-1]] == set+1 {
							repeated++
						}
						before[now[i-1]] = set + 1
					}
				}
				p.use(batch)
			}
			if sets == 64 && batch > 1 && repeated > turns/8 {
				t.Errorf("batches of %d: %d of %d times the set that came next the time before", batch, repeated, turns)
			}
		}
	}
}

// No claim about time changes the size of batches by more than an honest process may leave unclaimed.
func TestLasted(t *testing.T) {
	for _, c := range []struct{ claimed, wall, waited, want float64 }{
		{20e3, 2.1e6, 0, 20e3},     // honest: 100 launches of 20 us
		{35e3, 2.1e6, 0, 21e3},     // longer than it was
		{0, 2.1e6, 0, 18.5e3},      // no time at all
		{20e3, 9.1e6, 7e6, 20e3},   // waited for a core
		{1, 2e5, 0, 1},             // too short to tell
		{18.9e3, 2.1e6, 0, 18.9e3}, // within what is left open
	} {
		if got := lasted(evaluator.Reading{NS: c.claimed, WallNS: c.wall, WaitedNS: c.waited}, 100); got != c.want {
			t.Errorf("%+v: %g", c, got)
		}
	}
}
