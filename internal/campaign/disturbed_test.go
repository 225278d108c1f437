package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// memory is a log that, once it has limit events, fails as a killed process
// would: nothing more is kept.
type memory struct {
	mu     sync.Mutex
	events []store.Event
	limit  int
}

var errKilled = errors.New("killed")

func (m *memory) Append(events ...store.Event) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit > 0 && len(m.events)+len(events) > m.limit {
		m.limit = 1 // dead
		return 0, errKilled
	}
	first := uint64(len(m.events)) + 1
	for i, e := range events {
		e.Seq = first + uint64(i)
		m.events = append(m.events, e)
	}
	return first, nil
}

// path is what must be the same however a campaign was run, by kind.
func (m *memory) path() map[store.Kind][]store.Event {
	out := map[store.Kind][]store.Event{}
	for _, e := range m.events {
		e.Seq, e.Time = 0, time.Time{}
		switch e.Kind {
		case store.KindAsked, store.KindTold, store.KindMeasured, store.KindFinals:
			out[e.Kind] = append(out[e.Kind], e)
		}
	}
	return out
}

// differ is cmp.Diff, which takes its time over what is equal.
func differ(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

func (m *memory) told(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.events, func(e store.Event) bool { return e.Told != nil && e.Told.Candidate == id })
}

// busy is an evaluator on a machine that disturbs some genomes: all measurements
// that were made while it was so, and none of those made again.
type busy struct {
	evaluator.Evaluator
	log        *memory
	disturbs   func(id string) bool
	conditions func() (evaluator.Conditions, bool)

	device chan struct{} // has room for the one candidate that is timed
	takes  time.Duration // what that takes

	mu    sync.Mutex
	again []string // measured a second time
}

func (b *busy) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	id := campaign.CandidateID("test-1", g)
	b.device <- struct{}{}
	for over := evaluator.Held(ctx); over != nil; over = evaluator.Held(ctx) {
		<-b.device
		select {
		case <-over:
		case <-ctx.Done():
			return evaluator.Result{}, ctx.Err()
		}
		b.device <- struct{}{}
	}
	defer func() { <-b.device }()
	if b.takes > 0 {
		time.Sleep(b.takes)
	}
	if b.log.told(id) {
		b.mu.Lock()
		b.again = append(b.again, id)
		b.mu.Unlock()
	} else if b.disturbs(id) {
		return evaluator.Result{
			Verdict: evaluator.Infrastructure, Stage: evaluator.StageBenchmark, Reason: "did not settle", Disturbed: "steal 43%",
		}, nil
	}
	return b.Evaluator.Evaluate(ctx, g, incumbent)
}

func (b *busy) Conditions(context.Context) (evaluator.Conditions, bool) {
	if b.conditions == nil {
		return evaluator.Conditions{}, true
	}
	return b.conditions()
}

// some disturbs one candidate in n.
func some(n uint32) func(string) bool {
	return func(id string) bool {
		h := fnv.New32a()
		h.Write([]byte(id)) //nolint:errcheck // it never fails
		return h.Sum32()%n == 0
	}
}

// quick is one problem for many campaigns.
var quick = sync.OnceValues(func() (campaign.Problem, error) { return openProblem(0) })

// Its channels are made outside of any test's bubble.
func init() { _, _ = quick() }

func busyProblem(t testing.TB, log *memory, disturbs func(string) bool) (campaign.Problem, *busy) {
	t.Helper()
	p, err := quick()
	if err != nil {
		t.Fatal(err)
	}
	b := &busy{Evaluator: p.Evaluator, log: log, disturbs: disturbs, device: make(chan struct{}, 1)}
	p.Evaluator = b
	return p, b
}

// TestMeasuredAgain: disturbed candidates are measured once more before the finals,
// each once, and the search walks the same path whether and when that happens,
// with any number of workers and killed after any event.
func TestMeasuredAgain(t *testing.T) {
	const n = 40
	run := func(log *memory, evaluations, workers int) (campaign.Finished, *busy, error) {
		p, b := busyProblem(t, log, some(4))
		cfg := config(evaluations)
		f, err := campaign.Run(t.Context(), p, cfg, campaign.Options{Workers: workers, Log: log, Past: slices.Clone(log.events)})
		return f, b, err
	}
	whole := &memory{}
	f, b, err := run(whole, n, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := whole.path()
	measured := want[store.KindMeasured]
	if len(measured) < 5 || len(measured) != len(b.again) || f.Verdicts[evaluator.Infrastructure] != 0 || f.Evaluated != n {
		t.Fatalf("%d measured again, %v; verdicts %v", len(measured), b.again, f.Verdicts)
	}
	correct := 0
	for _, e := range measured {
		if e.Measured.Verdict == string(evaluator.Correct) {
			correct++
		}
	}
	if correct < 5 {
		t.Errorf("%d of %d are correct", correct, len(measured))
	}
	for _, workers := range []int{2, 8} {
		log := &memory{}
		if _, _, err := run(log, n, workers); err != nil {
			t.Fatal(err)
		}
		if diff := differ(want, log.path()); diff != "" {
			t.Errorf("%d workers (-1 worker +%d workers):\n%s", workers, workers, diff)
		}
	}
	t.Run("killed", func(t *testing.T) {
		for limit := 1; limit < len(whole.events); limit++ {
			log := &memory{limit: limit}
			if _, _, err := run(log, n, 2); !errors.Is(err, errKilled) {
				t.Fatalf("killed after %d events: %v", limit, err)
			}
			log.limit = 0
			if _, _, err := run(log, n, 2); err != nil {
				t.Fatal(err)
			}
			if diff := differ(want, log.path()); diff != "" {
				t.Fatalf("killed after %d events (-whole +killed):\n%s", limit, diff)
			}
		}
	})
	t.Run("goes on", func(t *testing.T) {
		long := &memory{}
		if _, _, err := run(long, 2*n, 2); err != nil {
			t.Fatal(err)
		}
		before := len(whole.path()[store.KindMeasured])
		_, b, err := run(whole, 2*n, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []store.Kind{store.KindAsked, store.KindTold, store.KindMeasured} {
			if diff := differ(long.path()[kind], whole.path()[kind]); diff != "" {
				t.Errorf("%s events differ (-at once +in two runs):\n%s", kind, diff)
			}
		}
		if got := len(whole.path()[store.KindMeasured]) - before; got == 0 || got != len(b.again) {
			t.Errorf("%d more are measured, %d measurements", got, len(b.again))
		}
		// Nothing is left to do.
		finals := len(whole.path()[store.KindFinals])
		if _, b, err = run(whole, 2*n, 2); err != nil || len(b.again) > 0 || len(whole.path()[store.KindFinals]) != finals {
			t.Errorf("run once more: %v, %d measurements, %d finals", err, len(b.again), len(whole.path()[store.KindFinals])-finals)
		}
	})
}

// TestMeasuredAgainCounts: who was disturbed and is the fastest wins.
func TestMeasuredAgainCounts(t *testing.T) {
	calm := &memory{}
	p, _ := busyProblem(t, calm, func(string) bool { return false })
	cfg := config(60)
	f, err := campaign.Run(t.Context(), p, cfg, campaign.Options{Log: calm})
	if err != nil || f.Best == nil {
		t.Fatal(f, err)
	}
	// The same seed proposes it again unless what it is told before differs.
	log := &memory{}
	p, b := busyProblem(t, log, func(id string) bool { return id == f.Best.Candidate })
	cfg.Budget.Evaluations = 1 + slices.IndexFunc(calm.path()[store.KindAsked], func(e store.Event) bool { return e.Asked.Candidate == f.Best.Candidate })
	got, err := campaign.Run(t.Context(), p, cfg, campaign.Options{Log: log})
	if err != nil || got.Best == nil || got.Best.Candidate != f.Best.Candidate || len(b.again) != 1 {
		t.Errorf("best %+v, %v, want %s; again %v", got.Best, err, f.Best.Candidate, b.again)
	}
}

// paused runs a campaign of which every candidate is disturbed until calm.
func paused(t *testing.T, cfg record.Job, o campaign.Options, log *memory, conditions func() (evaluator.Conditions, bool), disturbed *atomic.Bool) ([]string, campaign.Finished) {
	t.Helper()
	p, b := busyProblem(t, log, func(string) bool { return disturbed.Load() })
	b.conditions = conditions
	var said []string
	listen := o.Listen
	o.Log, o.Past = log, slices.Clone(log.events)
	o.Listen = func(e campaign.Event) {
		switch {
		case e.Evaluated != nil:
			said = append(said, string(e.Evaluated.Result.Verdict))
		case e.Measured != nil:
			said = append(said, "measured "+string(e.Measured.Result.Verdict))
		case e.Paused != nil:
			said = append(said, "paused: "+e.Paused.Reason)
		case e.Continued != nil:
			said = append(said, fmt.Sprint("continued after ", e.Continued.After))
		}
		if listen != nil {
			listen(e)
		}
	}
	f, err := campaign.Run(t.Context(), p, cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return said, f
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		var disturbed atomic.Bool
		disturbed.Store(true)
		log := &memory{}
		cfg := config(12)
		cfg.Window = 2
		cfg.Budget.Time = time.Hour
		// Calm, disturbed once more, calm: only two calm looks in a row end it.
		conditions := func() (evaluator.Conditions, bool) {
			if looks++; looks < 100 && looks != 50 {
				return evaluator.Conditions{Disturbed: "python3 (pid 812) uses the GPU (97%)"}, true
			}
			disturbed.Store(false)
			return evaluator.Conditions{}, true
		}
		said, f := paused(t, cfg, campaign.Options{Workers: 1}, log, conditions, &disturbed)
		at := slices.IndexFunc(said, func(s string) bool { return strings.HasPrefix(s, "paused") })
		if at < 5 || at > 6 || said[at] != "paused: python3 (pid 812) uses the GPU (97%)" || said[at+1] != "continued after 8m20s" {
			t.Errorf("said %q", said)
		}
		for i, s := range said {
			if i != at && i != at+1 && i < 14 && (s == "infrastructure") != (i < at) {
				t.Errorf("%d: %s", i, s)
			}
		}
		if n := len(said) - 14; n != at || !f.Complete || f.Evaluated != 12 || f.Reason != "12 evaluations" {
			t.Errorf("%d measured again of %d; %+v", n, at, f)
		}
		if f.Elapsed > time.Second {
			t.Errorf("the pause counts: %v elapsed", f.Elapsed)
		}
		// Nor does it for those that read the log.
		cfg.Budget.Evaluations = 14
		if _, f = paused(t, cfg, campaign.Options{}, log, nil, &disturbed); f.Elapsed > time.Second || f.Evaluated != 14 {
			t.Errorf("resumed: %+v", f)
		}
	})
}

// TestPauseHolds: candidates in flight are not timed while the campaign is paused.
func TestPauseHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		cfg := config(24)
		cfg.Window = 16
		var disturbed atomic.Bool
		disturbed.Store(true)
		p, b := busyProblem(t, log, func(string) bool { return disturbed.Load() })
		b.takes = 5 * time.Second
		begin := time.Now()
		b.conditions = func() (evaluator.Conditions, bool) {
			if time.Since(begin) < 10*time.Minute {
				return evaluator.Conditions{Disturbed: "python3 (pid 812) uses the GPU (97%)"}, true
			}
			disturbed.Store(false)
			return evaluator.Conditions{}, true
		}
		count := map[string]int{}
		f, err := campaign.Run(t.Context(), p, cfg, campaign.Options{Workers: 16, Log: log, Listen: func(e campaign.Event) {
			switch {
			case e.Paused != nil:
				count["paused"]++
			case e.Evaluated != nil:
				count[string(e.Evaluated.Result.Verdict)]++
			}
		}})
		if err != nil || !f.Complete || count["paused"] != 1 || count[string(evaluator.Infrastructure)] < 5 || count[string(evaluator.Infrastructure)] > 6 {
			t.Errorf("%v, %v, %+v", err, count, f)
		}
		if f.Elapsed > 3*time.Minute {
			t.Errorf("the pause counts: %v", f.Elapsed)
		}
	})
}

// TestPauseBlind: where nobody can tell the conditions, the campaign waits a minute
// and tries.
func TestPauseBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disturbed atomic.Bool
		disturbed.Store(true)
		cannot := func() (evaluator.Conditions, bool) { return evaluator.Conditions{}, false }
		cfg := config(8)
		cfg.Finalists = new(0)
		begin := time.Now()
		said, f := paused(t, cfg, campaign.Options{
			Workers: 1, Listen: func(campaign.Event) { disturbed.Store(time.Since(begin) < 90*time.Second) },
		}, &memory{}, cannot, &disturbed)
		if want := "paused: steal 43%"; said[5] != want || said[6] != "continued after 1m0s" || said[8] != want || said[9] != "continued after 1m0s" || !f.Complete {
			t.Errorf("said %q", said)
		}
	})
}

// TestPauseEnds: Ctrl-C ends a pause, and the time in it does not count.
func TestPauseEnds(t *testing.T) {
	busy := func() (evaluator.Conditions, bool) { return evaluator.Conditions{Disturbed: "steal 43%"}, true }
	for _, how := range []string{"drain", "cancel"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var disturbed atomic.Bool
				disturbed.Store(true)
				log := &memory{}
				cfg := config(12)
				drain := make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p, b := busyProblem(t, log, func(string) bool { return disturbed.Load() })
				b.conditions = busy
				f, err := campaign.Run(ctx, p, cfg, campaign.Options{Workers: 2, Log: log, Drain: drain, Listen: func(e campaign.Event) {
					if e.Paused == nil {
						return
					}
					if last := log.events[len(log.events)-1]; last.Kind != store.KindStopped || last.Note.Reason != "paused: steal 43%" {
						t.Errorf("the log ends with %+v", last)
					}
					time.AfterFunc(time.Hour, func() {
						if how == "drain" {
							close(drain)
						} else {
							cancel()
						}
					})
				}})
				if err != nil || f.Complete || f.Reason != "interrupted" || f.Elapsed > time.Second {
					t.Fatalf("%+v, %v", f, err)
				}
				if last := log.events[len(log.events)-1]; last.Kind != store.KindStopped || last.Note.Reason != "interrupted" {
					t.Errorf("the log ends with %+v", last)
				}
				disturbed.Store(false)
				if said, f := paused(t, cfg, campaign.Options{}, log, nil, &disturbed); !f.Complete || f.Elapsed > time.Second {
					t.Errorf("resumed: %+v, said %q", f, said)
				}
			})
		})
	}
}

// TestNotPaused: disturbed results do not count as failures of the machine, nor
// failures as disturbances.
func TestNotPaused(t *testing.T) {
	log := &memory{}
	p, b := busyProblem(t, log, func(string) bool { return true })
	n := 0
	b.conditions = func() (evaluator.Conditions, bool) {
		t.Error("paused")
		return evaluator.Conditions{}, true
	}
	p.Evaluator = alternating{b, &n}
	_, err := campaign.Run(t.Context(), p, config(40), campaign.Options{Log: log})
	if !errors.Is(err, campaign.ErrInfrastructure) || len(log.path()[store.KindTold]) != 4+5 {
		t.Errorf("%v after %d results", err, len(log.path()[store.KindTold]))
	}
}

// alternating is disturbed four times and then fails.
type alternating struct {
	*busy
	n *int
}

func (a alternating) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	if *a.n++; *a.n <= 4 {
		return a.busy.Evaluate(ctx, g, incumbent)
	}
	return evaluator.Result{Verdict: evaluator.Infrastructure, Reason: "the disk is full"}, nil
}

// restless is an evaluator whose finals the machine disturbs.
type restless struct {
	evaluator.Evaluator
	disturbed bool
}

func (r *restless) Finals(ctx context.Context, list []genome.Genome) (evaluator.Finals, error) {
	if !r.disturbed {
		return r.Evaluator.Finals(ctx, list)
	}
	f := evaluator.Finals{Winner: -1}
	for _, g := range list {
		f.Entries = append(f.Entries, evaluator.Finalist{Genome: g, Verdict: evaluator.Infrastructure, Reason: "steal 43%"})
	}
	return f, nil
}

// TestDisturbedFinals: finals that the machine disturbed are not a campaign's last
// word.
func TestDisturbedFinals(t *testing.T) {
	p, err := quick()
	if err != nil {
		t.Fatal(err)
	}
	ev := &restless{p.Evaluator, true}
	p.Evaluator = ev
	log := &memory{}
	f, err := campaign.Run(t.Context(), p, config(12), campaign.Options{Log: log})
	if err == nil || !strings.Contains(err.Error(), "the machine disturbed the finals: steal 43%") || f.Complete {
		t.Errorf("%v, %+v", err, f)
	}
	if n := len(log.path()[store.KindFinals]); n != 0 {
		t.Errorf("%d finals are logged", n)
	}
	ev.disturbed = false
	f, err = campaign.Run(t.Context(), p, config(12), campaign.Options{Log: log, Past: slices.Clone(log.events)})
	if err != nil || !f.Complete || f.Best == nil || len(log.path()[store.KindFinals]) != 1 {
		t.Errorf("resumed: %v, %+v", err, f)
	}
}

// slowed is an evaluator in whose finals the baseline takes longer than usual, call by call.
type slowed struct {
	evaluator.Evaluator
	factors []float64
	wrong   int    // finalist whom the first finals find wrong; -1 for nobody
	second  string // what becomes of second finals: "error", "disturbed", "disturbed, the winner wrong", "disturbed, the last wrong", or nothing
	asked   []int

	unproven []evaluator.Unproven
}

func (s *slowed) Describe() evaluator.Description {
	d := s.Evaluator.Describe()
	d.Unproven = s.unproven
	return d
}

func (s *slowed) Finals(ctx context.Context, list []genome.Genome) (evaluator.Finals, error) {
	f, err := s.Evaluator.Finals(ctx, list)
	if err != nil {
		return f, err
	}
	n := len(s.asked)
	s.asked = append(s.asked, len(list))
	if n == 1 && s.second == "error" {
		return f, errKilled
	}
	if n == 1 && s.second != "" {
		for i := range f.Entries {
			f.Entries[i].Verdict, f.Entries[i].Reason = evaluator.Infrastructure, "steal 43%"
			if i == f.Winner && s.second == "disturbed, the winner wrong" || i == 3 && s.second == "disturbed, the last wrong" {
				f.Entries[i].Verdict, f.Entries[i].Reason = evaluator.Sanitizer, "a race"
			}
		}
		f.Winner = -1
		return f, nil
	}
	for i := range f.Entries {
		f.Entries[i].Timings = slices.Clone(f.Entries[i].Timings)
		for k := range f.Entries[i].Timings {
			f.Entries[i].Timings[k].BaselineMedianNS *= s.factors[n]
		}
		if n == 0 && i == s.wrong && s.second == "" {
			f.Entries[i].Verdict, f.Entries[i].Reason = evaluator.Sanitizer, "a race"
		}
	}
	return f, nil
}

// TestSlowFinals: finals in which the baseline takes longer than in the search are held once
// more, and what stays unusual is told. Nobody who was found wrong comes back.
func TestSlowFinals(t *testing.T) {
	for _, c := range []struct {
		factors []float64
		wrong   int
		second  string
		asked   []int
		slower  float64
	}{
		{[]float64{1}, -1, "", []int{4}, 0},
		{[]float64{0.7}, -1, "", []int{4}, 0},
		{[]float64{1.04}, -1, "", []int{4}, 0},
		{[]float64{1.2, 1}, -1, "", []int{4, 4}, 0},
		{[]float64{1.2, 1.3}, -1, "", []int{4, 4}, 0.3},
		{[]float64{1.2, 1}, 3, "", []int{4, 3}, 0},
		// What the first have found is not lost to the second.
		{[]float64{1.2, 1}, -1, "error", []int{4, 4}, 0.2},
		{[]float64{1.2, 1}, -1, "disturbed", []int{4, 4}, 0.2},
		{[]float64{1.2, 1}, 3, "disturbed, the last wrong", []int{4, 4}, 0.2},
		{[]float64{1.2, 1}, -1, "disturbed, the winner wrong", []int{4, 4}, -1},
	} {
		p, err := quick()
		if err != nil {
			t.Fatal(err)
		}
		ev := &slowed{Evaluator: p.Evaluator, factors: c.factors, wrong: c.wrong, second: c.second}
		if c.slower > 0 {
			ev.unproven = []evaluator.Unproven{{Control: "work left out"}}
		}
		p.Evaluator = ev
		log, cfg := &memory{}, config(40)
		cfg.Finalists = new(4)
		f, err := campaign.Run(t.Context(), p, cfg, campaign.Options{Log: log})
		if c.slower < 0 {
			if err == nil || !strings.Contains(err.Error(), "the machine disturbed the finals: steal 43%") || len(log.path()[store.KindFinals]) != 0 {
				t.Errorf("%s: %v", c.second, err)
			}
			continue
		}
		if err != nil || f.Best == nil {
			t.Fatalf("%v: %v", c.factors, err)
		}
		logged := log.path()[store.KindFinals][0].Finals
		if !slices.Equal(ev.asked, c.asked) || math.Abs(f.Best.Slower-c.slower) > 0.05 || (f.Best.Slower == 0) != (c.slower == 0) || logged.Slower != f.Best.Slower {
			t.Errorf("%v: finals of %v, %.3f slower, logged %.3f", c.factors, ev.asked, f.Best.Slower, logged.Slower)
		}
		if why := ev.Describe().NotProven(); logged.Unproven != why || f.Best.Unproven != why {
			t.Errorf("%v: %q is logged, %q told, want %q", c.factors, logged.Unproven, f.Best.Unproven, why)
		}
		if told := strings.Contains(string(logged.Detail), "baseline as usual"); told != (c.slower > 0) {
			t.Errorf("%v: the evidence tells of it: %t", c.factors, told)
		}
		detail, err := record.ReadFinals("k", logged)
		if err != nil {
			t.Fatal(err)
		}
		if c.wrong >= 0 && detail.Entries[c.wrong].Verdict != evaluator.Sanitizer {
			t.Errorf("%v: %+v", c.factors, detail.Entries[c.wrong].Verdict)
		}
	}
}
