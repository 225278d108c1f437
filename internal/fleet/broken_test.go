package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
)

// A puppet is a worker with a valid credential that says what a test has it say.
type puppet struct {
	t             *testing.T
	hub           *fleet.Hub
	name, session string
	number        int
}

// ask sends a request and decodes the answer.
func (p *puppet) ask(verb fleet.Verb, body map[string]any) (map[string]any, error) {
	p.t.Helper()
	body["session"] = p.session
	b, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	reply, err := p.hub.Handle(p.t.Context(), p.name, verb, b)
	out := map[string]any{}
	if err == nil {
		err = json.Unmarshal(reply, &out)
	}
	return out, err
}

func (p *puppet) enrol() error {
	_, err := p.ask(fleet.Enrol, map[string]any{"protocol": 1, "time": time.Now(), "host": fleet.Host{Name: p.name, Backend: "replay", Version: "test", Slots: 4}})
	return err
}

func (p *puppet) take(place string) map[string]any {
	p.t.Helper()
	p.number++
	out, err := p.ask(fleet.Take, map[string]any{"number": p.number, "place": place, "class": p.class(), "free": 4, "wait_ns": 200 * time.Millisecond})
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *puppet) description() evaluator.Description {
	return fleettest.NewSimulated(p.t, nil).Describe()
}

func (p *puppet) class() string { return fleet.Class(p.description()) }

// settle has it take the place of a campaign.
func (p *puppet) settle(campaign string) {
	p.t.Helper()
	if err := p.enrol(); err != nil {
		p.t.Fatal(err)
	}
	for {
		if place, ok := p.take("")["place"].(map[string]any); ok && place["campaign"] == campaign {
			break
		}
	}
	if _, err := p.ask(fleet.Ready, map[string]any{"campaign": campaign, "description": p.description()}); err != nil {
		p.t.Fatal(err)
	}
}

// tasks are those of an answer to Take.
func tasks(out map[string]any) (list []map[string]any) {
	all, _ := out["tasks"].([]any)
	for _, v := range all {
		list = append(list, v.(map[string]any))
	}
	return list
}

func simulated(t *testing.T) func(context.Context) (fleet.Runner, error) {
	return func(context.Context) (fleet.Runner, error) {
		return fleettest.NewSimulated(t, func(context.Context, string) error { time.Sleep(time.Millisecond); return nil }), nil
	}
}

// TestBrokenResults: a worker that sends results that are none ends nothing and records nothing: the
// log is that of one process.
func TestBrokenResults(t *testing.T) {
	j := fleettest.Job(60, 8)
	want := fleettest.Alone(t, j).Path()
	f := fleettest.NewFarm(t, fleettest.InMemory(), 2*time.Second, nil)
	p := &puppet{t: t, hub: f.Hub(), name: "broken", session: "s"}
	l := &fleettest.Log{}
	done := make(chan error, 1)
	go func() { _, err := f.Run(t.Context(), j, l, 4); done <- err }()
	p.settle(j.ID)
	f.Add("good", 2, simulated(t), nil)
	// Alone, the broken one is all that there is to try a candidate on.
	for good := false; !good; time.Sleep(time.Millisecond) {
		for _, x := range f.Hub().Hosts() {
			good = good || x.Name == "good" && x.Campaign == j.ID && x.State != "opening"
		}
	}
	junk := []map[string]any{
		{},
		{"result": map[string]any{"verdict": "banana", "fitness": 1}},
		{"result": map[string]any{"verdict": "correct"}},
		{"result": map[string]any{"verdict": "correct", "fitness": -1}},
		{"result": map[string]any{"verdict": "correct", "fitness": 1e-300}},
		{"result": map[string]any{"verdict": "correct", "fitness": 1, "timings": []any{map[string]any{"samples_ns": []float64{1e308, 1e308}}}}},
		{"result": map[string]any{"verdict": "correct", "fitness": 1, "timings": []any{map[string]any{"baseline_ns": []float64{-1}}}}},
		{"result": map[string]any{"verdict": "slower"}},
		{"result": map[string]any{"verdict": ""}},
		{"finals": map[string]any{"entries": []any{}, "winner": 7}},
		{"error": strings.Repeat("x", 1<<20)},
		{"result": map[string]any{"verdict": "correct", "fitness": 1, "reason": strings.Repeat("x", 9<<20)}},
	}
	go func() { // it goes on after it was drained
		for n := 0; t.Context().Err() == nil; {
			for _, task := range tasks(p.take(j.ID)) {
				m := map[string]any{"task": task["id"]}
				for k, v := range junk[n%len(junk)] {
					m[k] = v
				}
				p.ask(fleet.Done, m) //nolint:errcheck // whatever it says
				n++
			}
			// Finals that it does not have, and tasks of nobody.
			p.ask(fleet.Done, map[string]any{"task": j.ID + "/~finals-1", "finals": map[string]any{"winner": 3}}) //nolint:errcheck // likewise
			p.ask(fleet.Done, map[string]any{"task": "nobody", "error": "x"})                                     //nolint:errcheck // likewise
			p.hub.Drain("broken", "")                                                                             //nolint:errcheck // nothing is kept
		}
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := l.Path(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error("the log differs from that of one process")
	}
	for _, a := range l.Attempts(fleet.EndFailed) {
		if len(a.Detail) > 8<<10 {
			t.Errorf("an attempt has %d bytes", len(a.Detail))
		}
	}
	if len(l.Attempts(fleet.EndFailed)) == 0 {
		t.Error("nothing that is broken arrived")
	}
}

// TestBrokenFinals: finals that a worker answers with something else are held by another one.
func TestBrokenFinals(t *testing.T) {
	for name, finals := range map[string]any{
		"nothing": nil, "no entries": map[string]any{"winner": -1},
		"a winner that is none":      map[string]any{"winner": 9, "entries": []any{map[string]any{"verdict": "correct", "fitness": .5}}},
		"separated from nobody":      map[string]any{"winner": 0, "entries": []any{map[string]any{"verdict": "correct", "fitness": .5}}, "early": map[string]any{"sets": 1, "of": 6, "unseparated": []int{7}}},
		"a winner that failed":       map[string]any{"winner": 0, "entries": []any{map[string]any{"verdict": "parity"}}},
		"a time that no clock shows": map[string]any{"winner": 0, "entries": []any{map[string]any{"verdict": "correct", "fitness": .5, "held_out": []any{map[string]any{"median_ns": 1e300}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := fleettest.Job(1, 1)
				f := fleettest.NewFarm(t, fleettest.InMemory(), 2*time.Second, nil)
				p := &puppet{t: t, hub: f.Hub(), name: "broken", session: "s"}
				l := &fleettest.Log{}
				done := make(chan error, 1)
				go func() { _, err := f.Run(t.Context(), j, l, 4); done <- err }()
				p.settle(j.ID)
				ev := fleettest.NewSimulated(t, nil)
				for answered := false; !answered; {
					for _, task := range tasks(p.take(j.ID)) {
						m := map[string]any{"task": task["id"]}
						if answered = task["kind"] == "finals"; answered {
							f.Add("good", 1, simulated(t), nil) // which is there before the finals failed
							for w := hostOf(f, "good"); w.State == ""; w = hostOf(f, "good") {
								time.Sleep(time.Millisecond)
							}
							m["finals"] = finals
						} else {
							r, err := ev.Evaluate(t.Context(), task["genomes"].([]any)[0].(string), 0)
							if err != nil {
								t.Fatal(err)
							}
							m["result"] = r
						}
						if _, err := p.ask(fleet.Done, m); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := <-done; err != nil && !strings.Contains(err.Error(), "the worker's result is not used") {
					t.Error(err)
				}
			})
		})
	}
}

// TestLostTogether: a candidate is not blamed for hosts that fall silent together, however often that happens, and is
// for those that are lost while another host goes on.
func TestLostTogether(t *testing.T) {
	for _, together := range []bool{true, false} {
		t.Run(fmt.Sprint("together=", together), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lease = 4 * time.Second
				j := fleettest.Job(1, 1)
				want := fleettest.Alone(t, j)
				f := fleettest.NewFarm(t, fleettest.InMemory(), lease, nil)
				l := &fleettest.Log{}
				done := make(chan error, 1)
				go func() { _, err := f.Run(t.Context(), j, l, 4); done <- err }()
				for round := 0; round < 6 && len(done) == 0; round++ {
					pair := []*puppet{{t: t, hub: f.Hub(), name: "a"}, {t: t, hub: f.Hub(), name: "b"}}
					for _, p := range pair {
						p.session = fmt.Sprint(p.name, round)
						p.settle(j.ID)
					}
					silent := -1
					for turn := 0; silent < 0 && turn < 20; turn++ {
						if len(tasks(pair[turn%2].take(j.ID))) > 0 {
							silent = turn % 2
						}
					}
					for range 10 {
						time.Sleep(lease / 5)
						synctest.Wait()
						if !together && silent >= 0 {
							if _, err := pair[1-silent].ask(fleet.Beat, map[string]any{"place": j.ID}); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				f.Add("good", 1, simulated(t), nil)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if same := fmt.Sprint(l.Path()) == fmt.Sprint(want.Path()); same != together {
					t.Errorf("the log is that of one process: %v; %+v", same, l.Path())
				}
			})
		})
	}
}

// TestOlderProcess: a process whose name another has taken since gets one clear line, and takes
// nothing away from that one, not even with a request that was on its way for long.
func TestOlderProcess(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), 5*time.Second, nil)
	older, newer := &puppet{t: t, hub: f.Hub(), name: "w", session: "1"}, &puppet{t: t, hub: f.Hub(), name: "w", session: "2"}
	for _, p := range []*puppet{older, newer} {
		if err := p.enrol(); err != nil {
			t.Fatal(err)
		}
	}
	var refused fleet.Refusal
	if err := older.enrol(); !errors.As(err, &refused) || !strings.Contains(err.Error(), "--name") {
		t.Errorf("the older process enrols: %v", err)
	}
	if out, err := newer.ask(fleet.Beat, map[string]any{}); err != nil || out["enrol"] != nil {
		t.Errorf("the newer process is to enrol again: %v, %v", out, err)
	}
}

// TestOtherPlace: a worker that has the evaluator of one campaign open gets no candidates of
// another, whatever late beats have said.
func TestOtherPlace(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), 5*time.Second, nil)
	p := &puppet{t: t, hub: f.Hub(), name: "w", session: "1"}
	j := fleettest.Job(10, 2)
	go f.Run(t.Context(), j, &fleettest.Log{}, 4) //nolint:errcheck // it ends with the test
	p.settle(j.ID)
	if len(tasks(p.take(j.ID))) == 0 {
		t.Fatal("no candidate comes")
	}
	if out := p.take("another"); len(tasks(out)) != 0 || out["place"] == nil {
		t.Errorf("a worker that is elsewhere is given %v", out)
	}
}

// TestUndescribed: a worker that has a campaign open which nobody has described to this coordinator
// opens it anew, and the campaign does not wait without end.
func TestUndescribed(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), 5*time.Second, nil)
	p := &puppet{t: t, hub: f.Hub(), name: "w", session: "1"}
	if err := p.enrol(); err != nil {
		t.Fatal(err)
	}
	j := fleettest.Job(10, 2)
	go f.Run(t.Context(), j, &fleettest.Log{}, 4) //nolint:errcheck // it ends with the test
	for len(f.Hub().Waiting()) == 0 {
		time.Sleep(time.Millisecond)
	}
	if out := p.take(j.ID); out["leave"] != true {
		t.Errorf("it is told %v, and not to leave", out)
	}
}

// TestWrongReference: where the host whose candidate is the reference is itself the one that is
// wrong, it is drained and the others are not.
func TestWrongReference(t *testing.T) {
	for name, odd := range map[string]wrong{"another time": {by: 1.4}, "another verdict": {by: 1, verdict: evaluator.Parity}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.NewFarm(t, fleettest.InMemory(), 5*time.Second, func(o *fleet.Options) { o.Check = 20 * time.Millisecond })
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				l := &fleettest.Log{}
				ended := make(chan error, 1)
				go func() { _, err := f.Run(ctx, fleettest.Job(1_000_000, 16), l, 4); ended <- err }()
				add := func(name string, w wrong) {
					f.Add(name, 2, func(context.Context) (fleet.Runner, error) {
						w.Simulated = fleettest.NewSimulated(t, func(context.Context, string) error { time.Sleep(2 * time.Millisecond); return nil })
						return w, nil
					}, nil)
				}
				add("first", odd)
				for hostOf(f, "first").Stats.Evaluated < 10 {
					time.Sleep(time.Millisecond)
				}
				for i := range 3 {
					add(fmt.Sprint("good", i), wrong{by: 1})
				}
				for ctx.Err() == nil && hostOf(f, "first").State != "drained" {
					time.Sleep(5 * time.Millisecond)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				for _, h := range f.Hub().Hosts() {
					if bad := h.State == "drained"; bad != (h.Name == "first") {
						t.Errorf("%s is %s: %s", h.Name, h.State, h.Reason)
					}
				}
			})
		})
	}
}

// wrong is a host on which all takes longer than elsewhere; or one that calls correct what is not, and
// the other way round.
type wrong struct {
	*fleettest.Simulated
	by      float64
	verdict evaluator.Verdict
}

func (w wrong) Evaluate(ctx context.Context, g string, incumbent float64) (evaluator.Result, error) {
	r, err := w.Simulated.Evaluate(ctx, g, incumbent)
	r.Verdict, r.Fitness = w.says(r.Verdict, r.Fitness)
	return r, err
}

func (w wrong) Time(ctx context.Context, g string) (evaluator.Result, error) {
	r, err := w.Simulated.Time(ctx, g)
	r.Verdict, r.Fitness = w.says(r.Verdict, r.Fitness)
	return r, err
}

func (w wrong) says(v evaluator.Verdict, fitness float64) (evaluator.Verdict, float64) {
	switch {
	case w.verdict == "":
		return v, fitness * w.by
	case v == evaluator.Correct:
		return w.verdict, 0
	}
	return evaluator.Correct, 1
}

// TestLyingWorker: only who has a task, or had it, tells anything of it: not another worker of the campaign, not one of
// another class, and none that was never placed.
func TestLyingWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := fleettest.Job(12, 4)
		want := fleettest.Alone(t, j).Path()
		f := fleettest.NewFarm(t, fleettest.InMemory(), 2*time.Second, nil)
		honest := &puppet{t: t, hub: f.Hub(), name: "honest", session: "h"}
		liar := &puppet{t: t, hub: f.Hub(), name: "liar", session: "l"}
		other := &puppet{t: t, hub: f.Hub(), name: "other", session: "o"}
		l := &fleettest.Log{}
		done := make(chan error, 1)
		go func() { _, err := f.Run(t.Context(), j, l, 4); done <- err }()
		// What nobody has described, a worker of another backend does not describe either.
		if _, err := other.ask(fleet.Enrol, map[string]any{"protocol": 1, "time": time.Now(), "host": fleet.Host{Name: "other", Backend: "cpu", Version: "test", Slots: 4}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wrong := other.description()
		wrong.Device.Fingerprint = "another"
		if _, err := other.ask(fleet.Beat, map[string]any{"place": j.ID, "class": fleet.Class(wrong), "description": wrong}); err != nil {
			t.Fatal(err)
		}
		honest.settle(j.ID)
		liar.settle(j.ID)
		ev := fleettest.NewSimulated(t, nil)
		lie := map[string]any{"verdict": "correct", "fitness": .001}
		refused := func(p *puppet, task any) {
			t.Helper()
			var no fleet.Refusal
			if _, err := p.ask(fleet.Done, map[string]any{"task": task, "result": lie}); !errors.As(err, &no) || !strings.Contains(err.Error(), "was not given to this worker") {
				t.Errorf("a result of %s from %s: %v", task, p.name, err)
			}
			if _, err := p.ask(fleet.Done, map[string]any{"task": task, "error": "the machine failed"}); !errors.As(err, &no) {
				t.Errorf("a failure of %s from %s: %v", task, p.name, err)
			}
		}
		for ended := false; !ended; {
			for _, task := range tasks(honest.take(j.ID)) {
				for _, p := range []*puppet{liar, other} {
					for _, said := range []map[string]any{{"doing": []any{map[string]any{"task": task["id"]}}}, {"kept": []any{task["id"]}}} {
						said["place"], said["class"] = j.ID, p.class()
						if out, err := p.ask(fleet.Beat, said); err != nil || out["send"] != nil {
							t.Errorf("%s says %v and is told %v, %v", p.name, said, out, err)
						}
					}
					refused(p, task["id"])
				}
				m := map[string]any{"task": task["id"]}
				if task["kind"] == "finals" {
					f.Hub().Expel(liar.name)
					m["error"] = "none here"
				} else {
					r, err := ev.Evaluate(t.Context(), task["genomes"].([]any)[0].(string), 0)
					if err != nil {
						t.Fatal(err)
					}
					m["result"] = r
				}
				if _, err := honest.ask(fleet.Done, m); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if task["kind"] == nil {
					refused(liar, task["id"]) // also when it was told
				}
			}
			select {
			case err := <-done:
				if ended = true; err == nil || !strings.Contains(err.Error(), "none here") {
					t.Errorf("the finals, which failed, give %v", err)
				}
			default:
			}
		}
		if got := l.Path(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the log differs from that of one process:\n%v\n%v", got, want)
		}
		if late := l.Attempts(fleet.EndLate); len(late) > 0 {
			t.Errorf("results that were not taken are in the log: %v", late)
		}
		for _, x := range f.Hub().Hosts() {
			if x.Name != "honest" && (x.Stats.Evaluated > 0 || x.Stats.Late > 0 || x.Stats.Failed > 0) {
				t.Errorf("%s counts %+v", x.Name, x.Stats)
			}
		}
	})
}

// TestWords: what a worker says of itself is bounded, and nothing of it reaches a terminal as a command.
func TestWords(t *testing.T) {
	hub := fleet.New(fleet.Options{Version: "test"})
	defer hub.Close()
	long, odd := strings.Repeat("a", 1<<20), "\x1b]0;mine\a\u202e"
	p := &puppet{t: t, hub: hub, name: "liar", session: "1"}
	large := fleet.Host{Name: p.name, Backend: "replay", Version: "test", Tools: []evaluator.Tool{{Name: long}}}
	if _, err := p.ask(fleet.Enrol, map[string]any{"protocol": 1, "time": time.Now(), "host": large}); err == nil || len(err.Error()) > 200 {
		t.Errorf("a host with much to tell: %.200v", err)
	}
	host := fleet.Host{Name: p.name, Backend: "replay", Version: "test", Device: evaluator.Device{Name: odd, Facts: map[string]string{odd: odd}}, Tools: []evaluator.Tool{{Name: odd}}}
	if _, err := p.ask(fleet.Enrol, map[string]any{"protocol": 1, "time": time.Now(), "host": host}); err != nil {
		t.Fatal(err)
	}
	if d := (evaluator.Description{Compiler: odd}); fleet.Class(d) != fleet.Class(evaluator.Description{Compiler: "?]0;mine??"}) {
		t.Error("the class of a worker is another one than that of what it says")
	}
	for _, trouble := range []string{odd, long[:1<<16]} {
		if _, err := p.ask(fleet.Beat, map[string]any{"trouble": trouble, "preparing": trouble}); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(hub.Hosts())
		if err != nil {
			t.Fatal(err)
		}
		if s := string(b); len(s) > 16<<10 || strings.Contains(s, `\u001b`) || strings.Contains(s, "\u202e") || !strings.Contains(s, "?]0;mine??") {
			t.Errorf("%d bytes of workers: %.500s", len(s), s)
		}
	}
}
