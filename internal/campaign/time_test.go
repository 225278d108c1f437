package campaign_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// A pace is an evaluator whose work takes time: an evaluation takes one, a set of processes of the
// finals set, for each finalist, of six.
type pace struct {
	evaluator.Evaluator
	one, set time.Duration
	busier   float64 // by how much more the finals take than their estimate
	refuse   bool    // no candidate is correct

	ends []evaluator.End // of finals
}

func (p *pace) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	select {
	case <-time.After(p.one):
	case <-ctx.Done():
		return evaluator.Result{}, ctx.Err()
	}
	r, err := p.Evaluator.Evaluate(ctx, g, incumbent)
	r.Cost = p.one
	if p.refuse {
		r = evaluator.Result{Verdict: evaluator.Parity, Stage: evaluator.StageParity, Cost: p.one}
	}
	return r, err
}

func (p *pace) FinalsTime(n int) (time.Duration, bool) { return 6 * p.set * time.Duration(n), true }

func (p *pace) Finals(ctx context.Context, finalists []genome.Genome) (evaluator.Finals, error) {
	end, limited := evaluator.EndOf(ctx)
	p.ends = append(p.ends, end)
	set := time.Duration(float64(p.set)*max(1, p.busier)) * time.Duration(len(finalists))
	sets := 0
	for ; sets < 6 && (!limited || time.Now().Add(set).Before(end.By)); sets++ {
		time.Sleep(set)
	}
	f, err := p.Evaluator.Finals(ctx, finalists)
	if sets < 6 {
		f.Early = &evaluator.Early{Sets: sets, Of: 6}
		if sets == 0 {
			f.Winner, f.VsBaseline, f.VsRunnerUp = -1, nil, nil
			for i := range f.Entries {
				f.Entries[i] = evaluator.Finalist{Genome: finalists[i], Verdict: evaluator.Infrastructure, Reason: evaluator.TimeOver}
			}
		}
	}
	return f, err
}

// A timed is a campaign in a bubble of simulated time.
type timed struct {
	pace
	log      *memory
	job      record.Job
	prepared time.Duration
	workers  int

	took     time.Duration // of the process, preparation included
	warnings []string
	finals   []evaluator.Finals
}

func (c *timed) run(t *testing.T) campaign.Finished {
	t.Helper()
	p := problem(t, 0)
	c.Evaluator = p.Evaluator
	p.Evaluator = &c.pace
	if c.log == nil {
		c.log = &memory{}
	}
	begun := time.Now()
	time.Sleep(c.prepared)
	f, err := campaign.Run(t.Context(), p, c.job, campaign.Options{
		Workers: max(c.workers, 2), Log: c.log, Begun: begun, Past: slices.Clone(c.log.events),
		Listen: func(e campaign.Event) {
			switch {
			case e.Warning != "":
				c.warnings = append(c.warnings, e.Warning)
			case e.Finals != nil:
				c.finals = append(c.finals, e.Finals.Result)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.took = time.Since(begun)
	var clock record.Clock
	for _, e := range c.log.events {
		if err := clock.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if clock.Phases() != f.Phases || clock.Spent() != f.Elapsed {
		t.Errorf("the log has %+v of %s, the summary %+v of %s", clock.Phases(), clock.Spent(), f.Phases, f.Elapsed)
	}
	return f
}

func within(d time.Duration) record.Job {
	j := config(0)
	j.Budget = record.Budget{Time: d}
	return j
}

// TestTimeIsWhole: a campaign prepares, searches and holds complete finals within its time, and
// uses most of it.
func TestTimeIsWhole(t *testing.T) {
	for _, c := range []timed{
		{job: within(2 * time.Minute), prepared: 20 * time.Second, pace: pace{one: 3 * time.Second, set: time.Second}},
		{job: within(2 * time.Minute), prepared: 90 * time.Second, pace: pace{one: time.Second, set: 300 * time.Millisecond}},
		{job: within(time.Hour), prepared: 20 * time.Second, pace: pace{one: 50 * time.Second, set: 5 * time.Second}, workers: 8},
	} {
		t.Run(fmt.Sprint(c.job.Budget.Time, " ", c.prepared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := c.run(t)
				limit := c.job.Budget.Time
				if c.took > limit || c.took < limit*4/5 || !f.Complete || f.Reason != "time of "+limit.String() {
					t.Errorf("it took %s of %s: %+v", c.took, limit, f)
				}
				if len(c.finals) != 1 || c.finals[0].Early != nil || f.Best == nil || len(c.warnings) > 0 {
					t.Errorf("finals %+v, warnings %q", c.finals, c.warnings)
				}
				if f.Phases.Prepared != c.prepared || f.Phases.Finals != 24*c.set || f.Phases.Searched <= 0 {
					t.Errorf("phases %+v", f.Phases)
				}
				if rate := float64(f.Evaluated) / f.Phases.Searched.Minutes(); f.PerMinute < rate*0.99 || f.PerMinute > rate*1.01 {
					t.Errorf("%.1f a minute of the search, not %.1f", f.PerMinute, rate)
				}
			})
		})
	}
}

// TestTimeKeepsPath: whatever the time is, the proposals and results are the first of one path, and
// a resumption with more time goes on with it.
func TestTimeKeepsPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := timed{job: config(90), pace: pace{one: 3 * time.Second, set: time.Second}}
		whole.run(t)
		same := func(log *memory) (asked, told int) {
			for _, kind := range []store.Kind{store.KindAsked, store.KindTold} {
				got, want := log.path()[kind], whole.log.path()[kind]
				if diff := differ(want[:len(got)], got); diff != "" {
					t.Errorf("%s events differ (-whole +timed):\n%s", kind, diff)
				}
			}
			return len(log.path()[store.KindAsked]), len(log.path()[store.KindTold])
		}
		for _, limit := range []time.Duration{time.Second, 40 * time.Second, 41 * time.Second, 75 * time.Second} {
			for _, workers := range []int{1, 3} {
				c := timed{job: within(limit), prepared: 5 * time.Second, pace: whole.pace, workers: workers}
				f := c.run(t)
				if asked, told := same(c.log); told != f.Evaluated || told == 0 || asked == told && limit > c.prepared {
					t.Errorf("%s, %d workers: %d asked, %d told, %d evaluated", limit, workers, asked, told, f.Evaluated)
				}
				c.job.Budget = record.Budget{Evaluations: 90}
				if f := c.run(t); f.Evaluated != 90 {
					t.Errorf("resumed: %+v", f)
				}
				same(c.log)
			}
		}
	})
}

// TestTimeOverInFlight: what takes too long is given up when the time is over, and a
// resumption evaluates it.
func TestTimeOverInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := timed{job: within(time.Minute), pace: pace{one: time.Second, set: 100 * time.Millisecond}}
		slow := &slowAfter{c: &c, at: 20 * time.Second}
		c.one = 0
		p := problem(t, 0)
		slow.Evaluator, c.log = p.Evaluator, &memory{}
		p.Evaluator = slow
		begun := time.Now()
		f, err := campaign.Run(t.Context(), p, c.job, campaign.Options{Workers: 2, Log: c.log})
		if err != nil || !f.Complete || f.Best == nil || f.Reason != "time of 1m0s" {
			t.Fatalf("%+v, %v", f, err)
		}
		if took := time.Since(begun); took > time.Minute || slow.given.Load() != 2 {
			t.Errorf("it took %s, and %d evaluations were given up", took, slow.given.Load())
		}
		c.job.Budget.Time, slow.at = 2*time.Minute, 0
		slow.one = time.Millisecond
		more, err := campaign.Run(t.Context(), p, c.job, campaign.Options{Workers: 2, Log: c.log, Past: slices.Clone(c.log.events)})
		if err != nil || more.Evaluated <= f.Evaluated {
			t.Errorf("resumed: %+v, %v", more, err)
		}
	})
}

// TestSleeperInFirstWindow: a candidate that takes for ever keeps the results of the others from being
// told, and the time ends it all the same. It has no verdict, and a resumption evaluates it.
func TestSleeperInFirstWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := timed{job: within(time.Minute), prepared: 10 * time.Second, log: &memory{}}
		p := problem(t, 0)
		s := &sleeper{pace: pace{Evaluator: p.Evaluator, one: 2 * time.Second, set: time.Second}, log: c.log, sleeps: time.Hour}
		p.Evaluator = s
		run := func() (campaign.Finished, time.Duration) {
			begun := time.Now()
			time.Sleep(c.prepared)
			f, err := campaign.Run(t.Context(), p, c.job, campaign.Options{Workers: 2, Log: c.log, Begun: begun, Past: slices.Clone(c.log.events)})
			if err != nil {
				t.Fatal(err)
			}
			return f, time.Since(begun)
		}
		f, took := run()
		if took > time.Minute+10*time.Second || f.Evaluated != 0 || f.Reason != "time of 1m0s" {
			t.Errorf("it took %s: %+v", took, f)
		}
		if path := c.log.path(); len(path[store.KindAsked]) == 0 || len(path[store.KindTold]) > 0 {
			t.Errorf("%d asked, %d told", len(path[store.KindAsked]), len(path[store.KindTold]))
		}
		s.sleeps = 0
		c.job.Budget.Time = 3 * time.Minute
		if f, _ := run(); f.Evaluated < campaign.DefaultWindow || f.Best == nil || s.first.Load() != 2 {
			t.Errorf("resumed: %+v, the first was evaluated %d times", f, s.first.Load())
		}
	})
}

// A sleeper sleeps in the evaluation of the candidate that was asked for first.
type sleeper struct {
	pace
	log    *memory
	sleeps time.Duration
	first  atomic.Int64 // how often that one was evaluated
}

func (s *sleeper) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	s.log.mu.Lock()
	first := s.log.path()[store.KindAsked][0].Asked.Genome == g.String()
	s.log.mu.Unlock()
	if first {
		s.first.Add(1)
		select {
		case <-time.After(s.sleeps):
		case <-ctx.Done():
			return evaluator.Result{}, ctx.Err()
		}
	}
	return s.pace.Evaluate(ctx, g, incumbent)
}

// slowAfter takes an hour for what begins after a time, else a second.
type slowAfter struct {
	evaluator.Evaluator
	c     *timed
	at    time.Duration
	one   time.Duration
	begin sync.Once
	begun time.Time
	given atomic.Int64
}

func (s *slowAfter) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	s.begin.Do(func() { s.begun = time.Now() })
	d := max(s.one, time.Second)
	if s.at > 0 && time.Since(s.begun) > s.at {
		d = time.Hour
	}
	select {
	case <-time.After(d):
		return s.Evaluator.Evaluate(ctx, g, incumbent)
	case <-ctx.Done():
		s.given.Add(1)
		return evaluator.Result{}, ctx.Err()
	}
}

// TestFinalsDoNotFit: finals for which little time is left have half of what preparation left, and
// a machine that gets busier does not make them longer.
func TestFinalsDoNotFit(t *testing.T) {
	for name, c := range map[string]timed{
		"long":   {job: within(2 * time.Minute), prepared: 40 * time.Second, pace: pace{one: 3 * time.Second, set: 3 * time.Second}},
		"busier": {job: within(2 * time.Minute), prepared: 40 * time.Second, pace: pace{one: time.Second, set: time.Second, busier: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := c.run(t)
				if c.took > 2*time.Minute || len(c.finals) != 1 || c.finals[0].Early == nil || c.finals[0].Early.Sets == 0 || !f.Complete || f.Best == nil {
					t.Fatalf("it took %s: %+v, finals %+v", c.took, f, c.finals)
				}
				if half := 40 * time.Second; f.Phases.Searched < half-c.one {
					t.Errorf("phases %+v", f.Phases)
				}
				// More time holds them again, and no less.
				before := f.Evaluated
				c.job.Budget = record.Budget{Evaluations: before}
				f = c.run(t)
				if len(c.finals) != 2 || c.finals[1].Early != nil || f.Evaluated != before {
					t.Errorf("finals %+v, %+v", c.finals, f)
				}
				c.job.Budget.Evaluations, c.job.Budget.Time = before, time.Hour
				if c.run(t); len(c.finals) != 2 {
					t.Errorf("complete finals were held again")
				}
			})
		})
	}
}

// TestNoTimeForFinals: without any finals the best is that of the search, and the log has none.
func TestNoTimeForFinals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := timed{job: within(2 * time.Minute), prepared: 40 * time.Second, pace: pace{one: time.Second, set: time.Second, busier: 60}}
		f := c.run(t)
		if c.took > 2*time.Minute || len(c.finals) > 0 || len(c.log.path()[store.KindFinals]) > 0 || f.Best == nil || f.Best.Significant || !f.Complete {
			t.Errorf("it took %s: %+v, finals %+v", c.took, f, c.finals)
		}
		if len(c.warnings) != 1 || !strings.HasPrefix(c.warnings[0], "the time was over before the finals could tell anything of a finalist") {
			t.Errorf("warnings %q", c.warnings)
		}
	})
}

// TestPreparationTakesTime: where preparation alone takes the time, one window is evaluated, and
// finals of it are held, and the campaign says so.
func TestPreparationTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := timed{job: within(2 * time.Minute), prepared: 125 * time.Second, pace: pace{one: time.Second, set: time.Second}}
		f := c.run(t)
		if f.Evaluated != campaign.DefaultWindow || len(c.log.path()[store.KindAsked]) != campaign.DefaultWindow || len(c.finals) != 1 || c.finals[0].Early != nil || f.Reason != "time of 2m0s" {
			t.Errorf("%+v, finals %+v", f, c.finals)
		}
		if want := []string{"preparation took 2m5s of the time of 2m0s: one window of 8 candidates is evaluated, and finals of these follow"}; !slices.Equal(c.warnings, want) {
			t.Errorf("warnings %q", c.warnings)
		}
	})
	// Finals that take long have half of the time.
	synctest.Test(t, func(t *testing.T) {
		c := timed{job: within(2 * time.Minute), prepared: 125 * time.Second, pace: pace{one: time.Second, set: 5 * time.Second}}
		f := c.run(t)
		if f.Phases.Finals > time.Minute || len(c.finals) != 1 || c.finals[0].Early == nil {
			t.Errorf("%+v, finals %+v", f, c.finals)
		}
	})
	// Where it takes nearly all, the window goes on until there is something to hold finals of.
	synctest.Test(t, func(t *testing.T) {
		c := timed{job: within(2 * time.Minute), prepared: 119 * time.Second, pace: pace{one: 5 * time.Second, set: time.Second}}
		f := c.run(t)
		if f.Evaluated < 1 || f.Evaluated > 2 || len(c.finals) != 1 || f.Best == nil || len(c.warnings) != 1 || !strings.HasPrefix(c.warnings[0], "no candidate was correct yet") {
			t.Errorf("%+v, finals %+v, warnings %q", f, c.finals, c.warnings)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := timed{job: within(2 * time.Minute), prepared: 119 * time.Second, pace: pace{one: 5 * time.Second, refuse: true}}
		if f := c.run(t); f.Evaluated != campaign.DefaultWindow || f.Best != nil || !f.Complete {
			t.Errorf("%+v", f)
		}
	})
}

// TestTimeOverResumptions: the time of earlier processes counts, their preparation and finals
// included.
func TestTimeOverResumptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		c := timed{job: within(2 * time.Minute), prepared: 30 * time.Second, log: log, pace: pace{one: time.Second, set: 200 * time.Millisecond}}
		p := problem(t, 0)
		c.Evaluator = p.Evaluator
		p.Evaluator = &c.pace
		begun := time.Now()
		time.Sleep(c.prepared)
		drain := make(chan struct{})
		time.AfterFunc(20*time.Second, func() { close(drain) })
		f, err := campaign.Run(t.Context(), p, c.job, campaign.Options{Workers: 2, Log: log, Begun: begun, Drain: drain})
		if err != nil || f.Complete || f.Elapsed < 50*time.Second || f.Elapsed > 52*time.Second {
			t.Fatalf("%+v, %v", f, err)
		}
		time.Sleep(time.Hour)
		second := c.run(t) // 30 s more of preparation
		if total := f.Elapsed + c.took; total > 2*time.Minute || total < 100*time.Second || second.Phases.Prepared != time.Minute || len(c.finals) != 1 {
			t.Errorf("it took %s: %+v", total, second)
		}
	})
	// Where a resumption's preparation takes the rest, finals have time of their own.
	synctest.Test(t, func(t *testing.T) {
		c := timed{job: within(2 * time.Minute), prepared: 30 * time.Second, pace: pace{one: time.Second, set: 200 * time.Millisecond}}
		c.job.Finalists = new(0) // the first process ends before its finals
		first := c.run(t)
		for i, e := range c.log.events {
			if e.Kind == store.KindFinished {
				c.log.events = c.log.events[:i]
			}
		}
		c.job.Finalists = new(4)
		f := c.run(t)
		if f.Evaluated != first.Evaluated || len(c.finals) != 1 || c.finals[0].Early != nil || !strings.HasSuffix(strings.Join(c.warnings, "\n"), "the finals follow") {
			t.Errorf("%+v, finals %+v, warnings %q", f, c.finals, c.warnings)
		}
	})
}

// TestPauseEndsInTime: a machine that does not become calm holds a campaign up until its time is
// over, and the pause is not in the log's time.
func TestPauseEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		p, b := busyProblem(t, log, func(string) bool { return len(log.path()[store.KindTold]) > 4 })
		b.takes = time.Second
		b.conditions = func() (evaluator.Conditions, bool) { return evaluator.Conditions{Disturbed: "steal 43%"}, true }
		begun := time.Now()
		f, err := campaign.Run(t.Context(), p, within(2*time.Minute), campaign.Options{Workers: 1, Log: log})
		if took := time.Since(begun); err != nil || took < time.Minute || took > 2*time.Minute || !f.Complete || f.Best == nil || f.Elapsed > 30*time.Second {
			t.Errorf("it took %s: %+v, %v", took, f, err)
		}
	})
}
