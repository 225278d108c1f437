package cuda

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// openLab opens a lab without a judge, and without tools: those take half of the time.
func openLab(t *testing.T, env ...string) *lab {
	t.Helper()
	return openLabOf(t, fakePlan(t), env...)
}

func openLabOf(t *testing.T, plan evaluator.Plan, env ...string) *lab {
	t.Helper()
	o := fakeOptions(t, env...)
	o.Sanitizers = []string{"none"}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.open(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, d := range h.problem.shapes() {
		a, report, err := h.Baseline(t.Context(), d.shape)
		if err != nil || a.Hash == "" || a.Unsupported[d.shape.Name] != "" {
			t.Fatalf("the baseline at %s: %+v %+v %v", d.shape.Name, a, report, err)
		}
	}
	return h
}

func openSession(t *testing.T, h *lab, p evaluator.Purpose, do ...string) (evaluator.Session, error) {
	t.Helper()
	var list []evaluator.Artifact
	for i, d := range do {
		list = append(list, build(t, h, d, 50+i))
	}
	return h.Open(t.Context(), p, list...)
}

func sample(t *testing.T, s evaluator.Session, h *lab, rounds int, last bool) (evaluator.Sampled, error) {
	t.Helper()
	return s.Sample(t.Context(), evaluator.SampleRequest{Shape: h.Plan.Tune[0], Rounds: rounds, Last: last})
}

// TestSample: rounds come as they are asked for, and what was left is looked at in
// each.
func TestSample(t *testing.T) {
	t.Parallel()
	h := openLab(t)
	for _, p := range []evaluator.Purpose{evaluator.ForTiming, evaluator.ForFinals} {
		s, err := openSession(t, h, p, "nothing")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			rounds        int
			last, latency bool
			want          int
		}{{3, false, false, 3}, {2, false, false, 2}, {0, true, false, 1}, {0, true, true, 1}, {1, true, true, 2}} {
			got, err := s.Sample(t.Context(), evaluator.SampleRequest{Shape: h.Plan.Tune[0], Rounds: c.rounds, Last: c.last, Latency: c.latency})
			if err != nil || len(got.Series) != 1 {
				t.Fatalf("%+v: %+v %v", c, got, err)
			}
			r := got.Series[0]
			latencies := 0
			if c.latency {
				latencies = 16
			}
			if len(r.Readings) != c.want || len(r.Baseline) != c.want || len(r.LatencyNS) != latencies || len(r.After.Outputs) == 0 || r.Fault != nil {
				t.Errorf("%+v: %+v", c, r)
			}
			// WallNS is that of the whole batch.
			if r.Batch != 100 || r.Sets != 3 || r.Readings[0].NS != 10_000 || r.Readings[0].WallNS != 1_010_000 || r.Readings[0].CPUNS != 0 {
				t.Errorf("%+v: %+v", c, r)
			}
			if got.Conditions.ClockMHz != 1965 || got.Conditions.Disturbed != "" {
				t.Errorf("conditions %+v", got.Conditions)
			}
		}
		if got, err := s.Sample(t.Context(), evaluator.SampleRequest{Shape: h.Plan.Verify[0], Rounds: 1}); err != nil || len(got.Series[0].Readings) != 1 {
			t.Errorf("at another shape: %+v %v", got, err)
		}
		if got, err := sample(t, s, h, 1, false); err != nil || len(got.Series[0].Readings) != 1 {
			t.Errorf("at the first shape again: %+v %v", got, err)
		}
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLonger: who would be wrong in more launches than are timed gets them where the judge asks for that.
func TestLonger(t *testing.T) {
	t.Parallel()
	h := openLab(t)
	s, err := openSession(t, h, evaluator.ForTiming, "time=tires")
	if err != nil {
		t.Fatal(err)
	}
	for _, longer := range []bool{false, true} {
		got, err := s.Sample(t.Context(), evaluator.SampleRequest{Shape: h.Plan.Tune[0], Rounds: 1, Last: true, Longer: longer})
		if err != nil || (got.Series[0].After.Outputs[0].Error > 0.1) != longer {
			t.Errorf("longer %v: %+v, %v", longer, got, err)
		}
	}
}

// TestTrapAlone: who may trap has the GPU alone, so that nobody waits for the driver with it.
func TestTrapAlone(t *testing.T) {
	t.Parallel()
	h := openLab(t)
	for _, traps := range []bool{false, true} {
		a := build(t, h, "nothing", 70)
		c, err := labs.Handle[*candidate](a)
		if err != nil {
			t.Fatal(err)
		}
		c.traps.Store(traps)
		s, err := h.Open(t.Context(), evaluator.ForParity, a)
		if err != nil {
			t.Fatal(err)
		}
		if g := h.gpus[0].gate.Usage(); g.Alone != traps || g.Sharing != map[bool]int64{false: 1}[traps] {
			t.Errorf("traps %v: %+v", traps, g)
		}
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSamplePool: a session draws its contents, or takes those that are asked for; the
// fake refuses a race on contents that it has seen.
func TestSamplePool(t *testing.T) {
	t.Parallel()
	h := openLab(t)
	seen := map[string]bool{}
	for _, asked := range []string{"", "", "asked for"} {
		s, err := openSession(t, h, evaluator.ForFinals, "nothing")
		if err != nil {
			t.Fatal(err)
		}
		pool := ""
		for _, shape := range []kernels.Shape{h.Plan.Tune[0], h.Plan.Verify[0], h.Plan.Tune[0]} {
			got, err := s.Sample(t.Context(), evaluator.SampleRequest{Shape: shape, Rounds: 1, Pool: asked})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Pool) < 9 || asked != "" && got.Pool != asked || pool != "" && got.Pool != pool || seen[got.Pool] {
				t.Errorf("asked for %q, got %q after %q, %v", asked, got.Pool, pool, seen)
			}
			pool = got.Pool
		}
		seen[pool] = true
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWorkersWithHeap: the heap belongs to the context. What a candidate leaves in
// it ends with the worker, in every stage.
func TestWorkersWithHeap(t *testing.T) {
	t.Parallel()
	h := openLab(t)
	for _, p := range []evaluator.Purpose{evaluator.ForParity, evaluator.ForTiming} {
		pid := func(salt int, heap bool) int {
			a := build(t, h, "nothing", salt)
			a.Handle.(*candidate).heap = heap
			s, err := h.Open(t.Context(), p, a)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if _, err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			return s.(*session).w.PID
		}
		first, with, after := pid(70, false), pid(71, true), pid(72, false)
		if first != with || with == after {
			t.Errorf("for %d: workers %d, %d with a heap, %d after it", p, first, with, after)
		}
	}
}

// TestFaultsInFinals: who faults takes no further part, and the others are timed
// all the same, in a fresh process where it has cost one.
func TestFaultsInFinals(t *testing.T) {
	t.Parallel()
	h := openLab(t)
	for _, do := range []string{"time=fault", "time=fatal", "load=fault"} {
		t.Run(do, func(t *testing.T) {
			s, err := openSession(t, h, evaluator.ForFinals, "nothing", do, "slow")
			if err != nil {
				t.Fatal(err)
			}
			first := s.(*session).w.PID
			for _, last := range []bool{false, true} {
				got, err := sample(t, s, h, 2, last)
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range got.Series {
					if out := i == 1; out != (r.Fault != nil) || out != (len(r.Readings) == 0) {
						t.Errorf("%d: %+v", i, r)
					}
				}
				if f := got.Series[1].Fault; f == nil || f.Hang || !strings.Contains(f.Reason, "failed: ") {
					t.Errorf("fault %+v", f)
				}
			}
			if fresh := s.(*session).w.PID != first; fresh != (do == "time=fatal") {
				t.Errorf("a fresh process: %v", fresh)
			}
			if _, err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHowCandidatesEndSessions: what a driver says and a time that is over are the
// candidate's doing; of a process that died nobody knows.
func TestHowCandidatesEndSessions(t *testing.T) {
	t.Parallel()
	h := openLab(t)
	const fault, hang, lost = "fault", "hang", "lost"
	for _, c := range []struct {
		do      string
		purpose evaluator.Purpose
		beside  []string
		want    string
	}{
		{"parity=fault", evaluator.ForParity, nil, fault},
		{"parity=fatal", evaluator.ForParity, nil, fault},
		{"parity=hang", evaluator.ForParity, nil, hang},
		{"parity=die", evaluator.ForParity, nil, lost},
		{"load=fault", evaluator.ForParity, nil, fault},
		{"load=fault", evaluator.ForTiming, nil, fault},
		{"load=fault", evaluator.ForFinals, nil, fault},
		{"time=fatal", evaluator.ForTiming, nil, fault},
		{"time=hang", evaluator.ForTiming, nil, hang},
		{"time=die", evaluator.ForTiming, nil, lost},
		{"time=hang", evaluator.ForFinals, []string{"nothing"}, lost}, // one of two
		{"time=die", evaluator.ForFinals, []string{"nothing"}, lost},
	} {
		limit := time.Duration(0) // the lab's
		if strings.HasSuffix(c.do, "=hang") {
			limit = 300 * time.Millisecond
		}
		s, err := openSession(t, h, c.purpose, append(c.beside, c.do)...)
		if err == nil && c.purpose == evaluator.ForParity {
			_, err = s.Compare(t.Context(), evaluator.CompareRequest{Shape: h.Plan.Sanitize, Limit: limit})
		} else if err == nil {
			var got evaluator.Sampled
			if got, err = s.Sample(t.Context(), evaluator.SampleRequest{Shape: h.Plan.Tune[0], Rounds: 3, Limit: limit}); err == nil && got.Series[len(c.beside)].Fault != nil {
				err = got.Series[len(c.beside)].Fault
			}
		}
		var own *evaluator.Fault
		var died *evaluator.Lost
		got := ""
		switch {
		case errors.As(err, &own) && own.Hang:
			got = hang
		case errors.As(err, &own):
			got = fault
		case errors.As(err, &died):
			got = lost
		}
		if got != c.want {
			t.Errorf("%s for %d: %v, want a %s", c.do, c.purpose, err, c.want)
		}
		if s != nil {
			if _, err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		// Nothing is kept from the next one.
		next, err := openSession(t, h, c.purpose, "nothing")
		if err != nil {
			t.Fatalf("after %s: %v", c.do, err)
		}
		if _, err := next.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseBesideSession: a lab that is closed does not wait for a session that
// nobody uses, whose end then costs nothing.
func TestCloseBesideSession(t *testing.T) {
	h := openLab(t)
	parity, err := openSession(t, h, evaluator.ForParity, "nothing")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := parity.Compare(t.Context(), evaluator.CompareRequest{Shape: h.Plan.Sanitize}); !errors.Is(err, evaluator.ErrClosed) {
		t.Errorf("after the lab was closed: %v", err)
	}
	if _, err := parity.Close(); err != nil {
		t.Error(err)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env               []string
		others, disturbed string
	}{
		{nil, "", ""},
		{[]string{"EVOTUNE_FAKE_OTHER=97"}, "python3 (pid 812), 97% of the GPU, 3072 MiB", "another process uses the GPU: python3 (pid 812), 97% of the GPU, 3072 MiB"},
		{[]string{"EVOTUNE_FAKE_OTHER=0"}, "python3 (pid 812), 3072 MiB", ""}, // it only holds memory
		{[]string{"EVOTUNE_FAKE_OTHER=4"}, "python3 (pid 812), 4% of the GPU, 3072 MiB", ""},
	} {
		h := openLab(t, c.env...)
		got := h.Conditions(t.Context())
		if got.ClockMHz != 1980 || got.PowerWatts != 120 || strings.Join(got.Others, "; ") != c.others || got.Disturbed != c.disturbed {
			t.Errorf("%v: %+v", c.env, got)
		}
	}
}

// TestConditionsUnknown: where candidates have all workers of a GPU, its conditions are not known, and nobody else
// is to blame.
func TestConditionsUnknown(t *testing.T) {
	t.Parallel()
	longtest.Short(t, "waits for compilers")
	h := openLab(t)
	for range h.gpus[0].parity.size {
		leave, err := h.gpus[0].parity.slots.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	if got := h.Conditions(t.Context()); !got.Unknown || got.Disturbed != "the state of the GPU could not be read: candidates take all of its workers for 5s" {
		t.Errorf("conditions %+v", got)
	}
}

// TestConditionsText: a slowdown disturbs, and what our own load does not.
func TestConditionsText(t *testing.T) {
	for reason, disturbs := range map[string]bool{
		"power cap": false, "applications clocks": false, "sync boost": false,
		"hardware slowdown": true, "thermal slowdown": true, "hardware thermal slowdown": true, "power brake": true,
	} {
		c := conditions(wire.State{Throttle: []string{reason}}, wire.State{Throttle: []string{reason}})
		if len(c.Throttle) != 1 || (c.Disturbed != "") != disturbs {
			t.Errorf("%s: %+v", reason, c)
		}
	}
}

// TestFingerprint: what a GPU is set to is part of what makes results comparable,
// and what is not known of it is not.
func TestFingerprint(t *testing.T) {
	d := wire.Device{Name: "Fake GPU", Capability: 90, UUID: "GPU-1"}
	first := describeDevice([]wire.Device{d})
	d.UUID = "GPU-2"
	if again := describeDevice([]wire.Device{d}); again.Fingerprint != first.Fingerprint {
		t.Error("another card of the same model has another fingerprint")
	}
	if s := first.Facts["settings"]; s != "power limit unknown, application clocks unknown and memory unknown, highest clock unknown" {
		t.Errorf("settings: %s", s)
	}
	for _, change := range []func(*wire.Device){
		func(d *wire.Device) { d.PowerLimitWatts = 500 },
		func(d *wire.Device) { d.AppClockMHz = 1500 },
		func(d *wire.Device) { d.AppMemoryClockMHz = 1500 },
		func(d *wire.Device) { d.MaxClockMHz = 1500 },
	} {
		other := d
		change(&other)
		if describeDevice([]wire.Device{other}).Fingerprint == first.Fingerprint {
			t.Errorf("%s: the same fingerprint", settings(other))
		}
	}
}
