package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
)

// skewed is a host on which candidates take longer than elsewhere, or get another verdict.
type skewed struct {
	*fleettest.Simulated
	by      func() float64
	verdict evaluator.Verdict
	timed   *atomic.Int64 // how often it was asked for a time alone
}

func (s skewed) Evaluate(ctx context.Context, g string, incumbent float64) (evaluator.Result, error) {
	r, err := s.Simulated.Evaluate(ctx, g, incumbent)
	if r.Verdict == evaluator.Correct {
		if r.Fitness *= s.by(); s.verdict != "" {
			r.Verdict, r.Reason = s.verdict, "planted"
		}
		if s.verdict != "" && s.verdict != evaluator.Slower {
			r.Fitness = 0
		}
	}
	return r, err
}

func (s skewed) Time(ctx context.Context, g string) (evaluator.Result, error) {
	if s.timed != nil {
		s.timed.Add(1)
	}
	r, err := s.Simulated.Time(ctx, g)
	r.Fitness *= s.by()
	return r, err
}

// noise is a little of it, different each time and the same in every test.
func noise() func() float64 {
	var n atomic.Int64
	return func() float64 { return 1 + float64(n.Add(1)*7919%100-50)/10_000 }
}

func hostOf(f *fleettest.Farm, name string) fleet.Status {
	for _, h := range f.Hub().Hosts() {
		if h.Name == name {
			return h
		}
	}
	return fleet.Status{}
}

// TestDisagreement: a host that alone finds other results than the others is named and drained; the
// others are not. Neither is one whose candidates are too slow to be sanitized: that is no other finding.
func TestDisagreement(t *testing.T) {
	for name, odd := range map[string]skewed{
		"slower": {by: func() float64 { return 1.3 }}, "another verdict": {by: func() float64 { return 1 }, verdict: evaluator.Parity},
		"not sanitized": {by: noise(), verdict: evaluator.Slower},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.NewFarm(t, fleettest.InMemory(), 5*time.Second, func(o *fleet.Options) { o.Again = .3 })
				for i := range 4 {
					one := skewed{by: noise()}
					if i == 2 {
						one = odd
					}
					f.Add(fmt.Sprint("w", i), 2, func(context.Context) (fleet.Runner, error) {
						one.Simulated = fleettest.NewSimulated(t, func(context.Context, string) error { time.Sleep(2 * time.Millisecond); return nil })
						return one, nil
					}, nil)
				}
				l := &fleettest.Log{}
				if _, err := f.Run(t.Context(), fleettest.Job(600, 16), l, 4); err != nil {
					t.Fatal(err)
				}
				for i := range 4 {
					h := hostOf(f, fmt.Sprint("w", i))
					odd := i == 2 && odd.verdict != evaluator.Slower
					if bad := h.State == "drained"; bad != odd || odd && !strings.Contains(h.Reason, "than two other hosts") && !strings.Contains(h.Reason, "three standard deviations") {
						t.Errorf("w%d is %s: %s, %+v", i, h.State, h.Reason, h.Stats)
					}
				}
				if len(l.Attempts(fleet.EndAgain)) == 0 {
					t.Error("the log does not say what was compared")
				}
			})
		})
	}
}

// TestDrift: a host whose reference candidate begins to take longer than the noise is drained.
func TestDrift(t *testing.T) { synctest.Test(t, testDrift) }

func testDrift(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), 5*time.Second, func(o *fleet.Options) { o.Check = 20 * time.Millisecond })
	begin, timed := time.Now(), new(atomic.Int64)
	for i := range 3 {
		by := noise()
		one := skewed{by: by, timed: timed}
		if i == 1 {
			one.by = func() float64 {
				if time.Since(begin) > time.Second {
					return 1.2 * by()
				}
				return by()
			}
		}
		f.Add(fmt.Sprint("w", i), 2, func(context.Context) (fleet.Runner, error) {
			one.Simulated = fleettest.NewSimulated(t, func(context.Context, string) error { time.Sleep(5 * time.Millisecond); return nil })
			return one, nil
		}, nil)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() {
		for ctx.Err() == nil && hostOf(f, "w1").State != "drained" {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := f.Run(ctx, fleettest.Job(100_000, 16), &fleettest.Log{}, 3); err != nil {
		t.Fatal(err)
	}
	if h := hostOf(f, "w1"); h.State != "drained" || !strings.Contains(h.Reason, "three standard deviations") {
		t.Errorf("w1 is %s: %s", h.State, h.Reason)
	}
	if timed.Load() == 0 {
		t.Error("the reference candidate was evaluated, of which a worker may remember the result, and not timed")
	}
	for _, name := range []string{"w0", "w2"} {
		if h := hostOf(f, name); h.State == "drained" {
			t.Errorf("%s is drained: %s", name, h.Reason)
		}
	}
}

// TestShares: workers are shared among campaigns of one priority, those of a higher one come first,
// and no campaign has more than it may.
func TestShares(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), 200*time.Millisecond, nil)
	for i := range 9 {
		f.Add(fmt.Sprint("w", i), 1, func(context.Context) (fleet.Runner, error) {
			return fleettest.NewSimulated(t, func(context.Context, string) error { time.Sleep(5 * time.Millisecond); return nil }), nil
		}, nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 3)
	for i := range 3 {
		j := fleettest.Job(1_000_000, 64)
		j.ID, j.Strategy = fmt.Sprint("c", i), "random"
		go func() {
			_, err := f.RunAs(ctx, j, &fleettest.Log{}, 4, i/2) // the third is urgent
			done <- err
		}()
	}
	counts := func() (n [3]int) {
		for _, h := range f.Hub().Hosts() {
			var c int
			if _, err := fmt.Sscanf(h.Campaign, "c%d", &c); err == nil {
				n[c]++
			}
		}
		return n
	}
	var n [3]int
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if n = counts(); n[2] == 4 && n[0]+n[1] == 5 && min(n[0], n[1]) == 2 {
			break
		}
	}
	if n[2] != 4 || n[0]+n[1] != 5 || min(n[0], n[1]) != 2 {
		t.Errorf("the campaigns have %v workers", n)
	}
	cancel()
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestRefused: what keeps a worker from taking part is one line, at the worker and at the
// coordinator.
func TestRefused(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), time.Second, nil)
	enrol := func(edit func(*fleet.WorkerOptions)) error {
		o := fleet.WorkerOptions{Host: fleet.Host{Name: "w", Backend: "replay", Slots: 1, Version: "test"}, Logger: fleettest.Quiet()}
		a, err := f.Admit("w")
		if err != nil {
			t.Fatal(err)
		}
		o.Dial = func(context.Context) (fleet.Link, error) { return f.Dial(a), nil }
		edit(&o)
		return fleet.Work(t.Context(), o)
	}
	for want, edit := range map[string]func(*fleet.WorkerOptions){
		"this worker is old and the coordinator test: install the same evotune on both": func(o *fleet.WorkerOptions) { o.Host.Version = "old" },
		`"a/b" cannot be the name of a worker`:                                          func(o *fleet.WorkerOptions) { o.Host.Name = "a/b" },
		"the credential is of the worker \"w\", and not of \"x\"":                       func(o *fleet.WorkerOptions) { o.Host.Name = "x" },
		"does not know worker \"w\" by this credential": func(o *fleet.WorkerOptions) {
			o.Dial = func(context.Context) (fleet.Link, error) {
				return f.Dial(fleet.Access{Worker: "w", Secret: "guessed"}), nil
			}
		},
	} {
		err := enrol(edit)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}

	// One whose device is of another class, and one that cannot open the evaluator: both are told so,
	// the coordinator says it, and the others go on.
	f.Add("good", 2, func(context.Context) (fleet.Runner, error) { return fleettest.NewSimulated(t, nil), nil }, nil)
	l := &fleettest.Log{}
	j := fleettest.Job(2000, 16)
	j.Strategy = "random"
	ended := make(chan error, 1)
	opened := make(chan struct{}, 10)
	go func() {
		_, err := f.Run(t.Context(), j, l, 4)
		ended <- err
	}()
	for len(l.Past()) == 0 {
		time.Sleep(time.Millisecond)
	}
	f.Add("other", 2, func(context.Context) (fleet.Runner, error) {
		opened <- struct{}{}
		return described{fleettest.NewSimulated(t, nil)}, nil
	}, nil)
	f.Add("bare", 2, func(context.Context) (fleet.Runner, error) {
		opened <- struct{}{}
		return nil, fmt.Errorf("no C compiler was found: install gcc")
	}, nil)
	<-opened
	<-opened
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"other": "the device is of another class than the campaign's: here compiler gcc 99, there compiler; results would not be comparable",
		"bare":  "no C compiler was found: install gcc",
	} {
		if h := hostOf(f, name); h.Refused[j.ID] != want {
			t.Errorf("%s: %v, want %s", name, h.Refused, want)
		}
	}
}

// described is an evaluator with another compiler.
type described struct{ *fleettest.Simulated }

func (d described) Describe() evaluator.Description {
	out := d.Simulated.Describe()
	out.Compiler = "gcc 99"
	return out
}

// TestClock: a clock that is far off is said at once, with how far.
func TestClock(t *testing.T) {
	h := fleet.New(fleet.Options{Version: "test", Logger: fleettest.Quiet()})
	defer h.Close()
	for want, at := range map[string]time.Duration{"5m0s ahead of": 5 * time.Minute, "2h0m0s behind": -2 * time.Hour} {
		body := fmt.Sprintf(`{"protocol":1,"session":"s","time":%q,"host":{"name":"w","version":"test"}}`, time.Now().Add(at).Format(time.RFC3339Nano))
		_, err := h.Handle(t.Context(), "w", fleet.Enrol, []byte(body))
		if err == nil || !strings.Contains(err.Error(), "this worker's clock is "+want+" the coordinator's") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTrouble: a host that cannot evaluate now is given nothing until it can, and says why.
func TestTrouble(t *testing.T) { synctest.Test(t, testTrouble) }

func testTrouble(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), 200*time.Millisecond, nil)
	var full fleettest.Flag
	full.Set(true)
	f.AddWith("w", func(o *fleet.WorkerOptions) {
		o.Trouble = func() string {
			if full.Get() {
				return "the disk is full"
			}
			return ""
		}
	}, func(context.Context) (fleet.Runner, error) { return fleettest.NewSimulated(t, nil), nil })
	ended := make(chan error, 1)
	go func() {
		_, err := f.Run(t.Context(), fleettest.Job(50, 8), &fleettest.Log{}, 1)
		ended <- err
	}()
	for hostOf(f, "w").State != "troubled" {
		time.Sleep(5 * time.Millisecond)
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if h := hostOf(f, "w"); h.Reason != "the disk is full" {
		t.Errorf("%+v", h)
	}
	full.Set(false)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
