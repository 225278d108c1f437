package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/replay"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/store"
)

// table is the recorded space of the tests.
var table = sync.OnceValue(func() *tables.Table { return tables.Synthetic(20_000) })

// simulated is an evaluator of a recorded space that goes through the stages, and which a test can
// have fail.
type simulated struct {
	*replay.Evaluator
	// before is called in the stage in which a candidate runs, with its genome; it may be nil.
	before func(ctx context.Context, genome string) error
}

func newSimulated(tb testing.TB, before func(context.Context, string) error) *simulated {
	tb.Helper()
	ev, err := replay.New(table(), replay.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return &simulated{ev, before}
}

func (s *simulated) Evaluate(ctx context.Context, encoding string, incumbent float64) (evaluator.Result, error) {
	g, err := s.Space().Parse(encoding)
	if err != nil {
		return evaluator.Result{}, err
	}
	evaluator.Enter(ctx, evaluator.StageCompile)
	evaluator.Enter(ctx, evaluator.StageParity)
	if s.before != nil {
		if err := s.before(ctx, encoding); err != nil {
			return evaluator.Result{}, err
		}
	}
	return s.Evaluator.Evaluate(ctx, g, incumbent)
}

func (s *simulated) Finals(ctx context.Context, encodings []string) (evaluator.Finals, error) {
	var list []genome.Genome
	for _, e := range encodings {
		g, err := s.Space().Parse(e)
		if err != nil {
			return evaluator.Finals{}, err
		}
		list = append(list, g)
	}
	evaluator.Enter(ctx, evaluator.StageFinals)
	f, err := s.Evaluator.Finals(ctx, list)
	for i := range f.Entries {
		f.Entries[i].Genome = genome.Genome{}
	}
	return f, err
}

// quiet drops what is logged, unless -v asks for it.
func quiet() *slog.Logger {
	if testing.Verbose() {
		return slog.Default()
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}

// A farm is a coordinator with workers, on any transport.
type farm struct {
	tb    testing.TB
	lease time.Duration
	dial  func(fleet.Access) (fleet.Link, error)
	serve func(*fleet.Hub) fleet.Transport

	mu        sync.Mutex
	transport fleet.Transport
	hub       *fleet.Hub
	workers   map[string]*member
	group     sync.WaitGroup
	events    func(campaign, candidate string) bool // wanted
}

// A member is a worker of a farm.
type member struct {
	access fleet.Access
	kill   context.CancelFunc
	drain  chan struct{}
	link   func(fleet.Link) fleet.Link
	ended  chan error
}

func inMemory(tb testing.TB, lease time.Duration) *farm {
	wire := fleet.NewWire(nil)
	f := &farm{
		tb: tb, lease: lease, workers: map[string]*member{},
		dial: func(a fleet.Access) (fleet.Link, error) { return wire.Dial(a), nil },
		serve: func(h *fleet.Hub) fleet.Transport {
			t := wire.Transport()
			if err := t.Serve(h.Handle); err != nil {
				tb.Fatal(err)
			}
			return t
		},
	}
	f.start()
	tb.Cleanup(f.stop)
	return f
}

// start starts a coordinator.
func (f *farm) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hub = fleet.New(fleet.Options{Lease: f.lease, Stay: f.lease, Check: time.Hour, Version: "test", Logger: quiet(), Again: -1, Wanted: func(c, id string) bool {
		return f.events == nil || f.events(c, id)
	}})
	f.transport = f.serve(f.hub)
}

// halt ends the coordinator.
func (f *farm) halt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hub.Close()
	if err := f.transport.Close(); err != nil {
		f.tb.Error(err)
	}
}

func (f *farm) stop() {
	for _, m := range f.workers {
		m.kill()
	}
	f.group.Wait()
	f.halt()
}

// add starts a worker that takes so many candidates at once.
func (f *farm) add(name string, slots int, open func(context.Context) (fleet.Runner, error), link func(fleet.Link) fleet.Link) *member {
	f.tb.Helper()
	f.mu.Lock()
	a, err := f.transport.Admit(name)
	f.mu.Unlock()
	if err != nil {
		f.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{access: a, kill: cancel, drain: make(chan struct{}), ended: make(chan error, 1)}
	f.mu.Lock()
	f.workers[name] = m
	f.mu.Unlock()
	f.group.Go(func() {
		m.ended <- fleet.Work(ctx, fleet.WorkerOptions{
			Host: fleet.Host{Name: name, Backend: "replay", Slots: slots, Version: "test"},
			Dial: func(context.Context) (fleet.Link, error) {
				l, err := f.dial(a)
				if err == nil && link != nil {
					l = link(l)
				}
				return l, err
			},
			Open: func(ctx context.Context, _ fleet.Place, _ func(context.Context, fleet.File, io.Writer) error) (fleet.Runner, error) {
				return open(ctx)
			},
			Drain: m.drain, Logger: quiet(),
		})
	})
	return m
}

// log keeps events in memory.
type log struct {
	mu     sync.Mutex
	events []store.Event
}

func (l *log) Append(events ...store.Event) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, events...)
	return 0, nil
}

func (l *log) past() []store.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]store.Event(nil), l.events...)
}

// A line is of an event what has to be the same whoever evaluates.
type line struct {
	Kind      store.Kind
	Index     int
	Candidate string
	Genome    string
	Verdict   string
	Fitness   float64
}

// path is what the log says of the search.
func (l *log) path() (lines []line) {
	for _, e := range l.past() {
		switch {
		case e.Asked != nil:
			lines = append(lines, line{e.Kind, e.Asked.Index, e.Asked.Candidate, e.Asked.Genome, "", 0})
		case e.Told != nil:
			lines = append(lines, line{e.Kind, e.Told.Index, e.Told.Candidate, "", e.Told.Verdict, e.Told.Fitness})
		}
	}
	return lines
}

// attempts are those of workers.
func (l *log) attempts(end string) (list []*store.Attempt) {
	for _, e := range l.past() {
		if e.Attempt != nil && e.Attempt.End == end {
			list = append(list, e.Attempt)
		}
	}
	return list
}

func job(evaluations, window int) record.Job {
	return campaign.WithDefaults(record.Job{ID: "test-1", Kernel: "synthetic", Shapes: []string{"recorded"}, Backend: "replay", Strategy: "evolution", Seed: 3, Window: window, Budget: record.Budget{Evaluations: evaluations}})
}

// alone is the log of a campaign without a fleet.
func alone(tb testing.TB, j record.Job) *log {
	tb.Helper()
	l := &log{}
	ev, err := replay.New(table(), replay.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := campaign.Run(tb.Context(), campaign.Problem{Space: ev.Space(), Evaluator: ev}, j, campaign.Options{Workers: 4, Log: l}); err != nil {
		tb.Fatal(err)
	}
	return l
}

// on runs a campaign, or the rest of it, on a farm.
func (f *farm) on(ctx context.Context, j record.Job, l *log, most int) (campaign.Finished, error) {
	ev, err := replay.New(table(), replay.Options{})
	if err != nil {
		return campaign.Finished{}, err
	}
	o := fleet.Order{Campaign: j.ID, Backend: "replay", Most: most, Place: fleet.Place{Campaign: j.ID, Job: json.RawMessage(`{}`)}}
	o.Note = func(a *store.Attempt) error {
		_, err := l.Append(store.Event{Campaign: j.ID, Kind: store.KindAttempt, Time: time.Now(), Attempt: a})
		return err
	}
	past := l.past()
	for _, e := range past {
		if e.Attempt != nil {
			o.Past = append(o.Past, e.Attempt)
		}
	}
	f.mu.Lock()
	hub := f.hub
	f.mu.Unlock()
	c, err := hub.Open(ctx, o)
	if err != nil {
		return campaign.Finished{}, err
	}
	defer c.Close()
	return campaign.Run(ctx, campaign.Problem{Space: ev.Space(), Evaluator: c}, j, campaign.Options{
		Workers: j.Window, Log: l, Past: past, Remote: true,
		Listen: func(e campaign.Event) {
			if e.Evaluated != nil {
				c.Recorded(e.Evaluated.Candidate)
			}
		},
	})
}

// TestPath: whoever evaluates, and however many there are, the log says the same.
func TestPath(t *testing.T) {
	j := job(3000, 1024)
	want := alone(t, j).path()
	for _, n := range []int{1, 8, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := inMemory(t, 5*time.Second)
			for i := range n {
				ev := newSimulated(t, nil)
				f.add(fmt.Sprint("w", i), max(1, 8/n), func(context.Context) (fleet.Runner, error) { return ev, nil }, nil)
			}
			l := &log{}
			begin := time.Now()
			done, err := f.on(t.Context(), j, l, n)
			if err != nil || !done.Complete {
				t.Fatal(done, err)
			}
			t.Logf("%d workers: %.0f evaluations a second", n, float64(j.Budget.Evaluations)/time.Since(begin).Seconds())
			if diff := cmp.Diff(want, l.path()); diff != "" {
				t.Errorf("the path is another (-alone +fleet):\n%.2000s", diff)
			}
		})
	}
}

// TestPoison: candidates that take their workers down are found out, with at most three workers lost
// for each; those that ran beside them are not blamed, and the campaign finishes.
func TestPoison(t *testing.T) {
	j := job(300, 32)
	want := alone(t, j)
	poisoned := map[string]bool{}
	for _, i := range []int{20, 21, 130} {
		poisoned[want.path()[genomeLine(want, i)].Genome] = true
	}
	f := inMemory(t, 300*time.Millisecond)
	var lost atomic.Int32
	var add func(n int)
	add = func(n int) {
		name := fmt.Sprint("w", n%8)
		var m *member
		dead, once := make(chan struct{}), sync.Once{}
		ev := newSimulated(t, func(ctx context.Context, g string) error {
			if poisoned[g] {
				lost.Add(1)
				m.kill()
				<-ctx.Done()
				once.Do(func() { close(dead) })
				return ctx.Err()
			}
			return nil
		})
		m = f.add(name, 4, func(context.Context) (fleet.Runner, error) { return ev, nil }, nil)
		go func() {
			select {
			case <-dead:
				time.Sleep(20 * time.Millisecond)
				add(n) // it is started again, as a service of the host would
			case <-t.Context().Done():
			}
		}()
	}
	for n := range 8 {
		add(n)
	}
	l := &log{}
	done, err := f.on(t.Context(), j, l, 8)
	if err != nil || !done.Complete {
		t.Fatal(done, err)
	}
	found := 0
	for _, e := range l.past() {
		if e.Told == nil {
			continue
		}
		g := l.path()[genomeLine(l, e.Told.Index)].Genome
		if poisoned[g] {
			found++
			r, err := record.ReadResult(e.Told)
			if err != nil || r.Verdict != evaluator.Launch || len(r.Steps) != 1 || len(r.Steps[0].Evidence) != 1 {
				t.Errorf("the poisoned candidate %d: %+v, %v", e.Told.Index, r, err)
			}
			t.Log(r.Reason)
		} else if r, err := record.ReadResult(e.Told); err != nil || r.Host == "" {
			t.Errorf("candidate %d is blamed: %+v, %v", e.Told.Index, r, err)
		}
	}
	if n := int(lost.Load()); n > 3*found || found == 0 {
		t.Errorf("%d poisoned candidates cost %d workers", found, n)
	}
}

// genomeLine is where the path has proposal i.
func genomeLine(l *log, i int) int {
	for k, p := range l.path() {
		if p.Kind == store.KindAsked && p.Index == i {
			return k
		}
	}
	return -1
}

var errPlanned = errors.New("planned")

// BenchmarkCoordinator is what an evaluation costs besides the search and the evaluation itself.
func BenchmarkCoordinator(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := inMemory(b, 30*time.Second)
			for i := range n {
				ev := newSimulated(b, nil)
				f.add(fmt.Sprint("w", i), 1, func(context.Context) (fleet.Runner, error) { return ev, nil }, nil)
			}
			j := job(max(b.N, n), 1024)
			j.Strategy, j.Finalists = "random", -1
			b.ResetTimer()
			if _, err := f.on(b.Context(), j, &log{}, n); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "evaluations/s")
		})
	}
}
