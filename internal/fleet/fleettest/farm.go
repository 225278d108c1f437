package fleettest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// Simulated is an evaluator of a recorded space that goes through the stages, and which a test can
// have fail.
type Simulated struct {
	*replay.Evaluator
	// before is called in the stage in which a candidate runs, with its genome; it may be nil.
	before func(ctx context.Context, genome string) error
}

// NewSimulated makes one. before is called in the stage in which a candidate runs; it may be nil.
func NewSimulated(tb testing.TB, before func(context.Context, string) error) *Simulated {
	tb.Helper()
	ev, err := replay.New(table(), replay.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return &Simulated{ev, before}
}

// Evaluate implements [fleet.Runner].
func (s *Simulated) Evaluate(ctx context.Context, encoding string, incumbent float64) (evaluator.Result, error) {
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

// Time implements [fleet.Runner].
func (s *Simulated) Time(ctx context.Context, encoding string) (evaluator.Result, error) {
	g, err := s.Space().Parse(encoding)
	if err != nil {
		return evaluator.Result{}, err
	}
	return evaluator.TimeOf(ctx, s.Evaluator, g)
}

// Finals implements [fleet.Runner].
func (s *Simulated) Finals(ctx context.Context, encodings []string) (evaluator.Finals, error) {
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

// Quiet drops what is logged, unless -v asks for it.
func Quiet() *slog.Logger {
	if testing.Verbose() {
		return slog.Default()
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}

// A Farm is a coordinator with workers, on any transport.
type Farm struct {
	tb    testing.TB
	lease time.Duration
	edit  func(*fleet.Options)
	rig   Rig

	mu        sync.Mutex
	transport fleet.Transport
	hub       *fleet.Hub
	workers   map[string]*Member
	group     sync.WaitGroup
	// Told says whether the log has a result of a candidate; it may be nil.
	Told func(candidate string) bool
}

// A Member is a worker of a farm.
type Member struct {
	access fleet.Access
	Kill   context.CancelFunc
	Drain  chan struct{}
	Ended  chan error
}

// NewFarm starts a coordinator on a transport. Everything ends with the test.
func NewFarm(tb testing.TB, rig Rig, lease time.Duration, edit func(*fleet.Options)) *Farm {
	tb.Helper()
	f := &Farm{tb: tb, lease: lease, edit: edit, rig: rig, workers: map[string]*Member{}}
	f.Start()
	tb.Cleanup(f.stop)
	return f
}

// InMemory is the rig of the transport within one process.
func InMemory() Rig {
	wire := fleet.NewWire(nil)
	return Rig{
		Coordinator: func(testing.TB) fleet.Transport { return wire.Transport() },
		Dial:        func(_ testing.TB, a fleet.Access) fleet.Link { return wire.Dial(a) },
	}
}

// Start starts a coordinator.
func (f *Farm) Start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := fleet.Options{Lease: f.lease, Stay: f.lease, Check: time.Hour, Version: "test", Logger: Quiet(), Again: -1, Wanted: func(_, candidate string) bool {
		return f.Told == nil || !f.Told(candidate)
	}}
	if f.edit != nil {
		f.edit(&o)
	}
	f.hub = fleet.New(o)
	f.transport = f.rig.Coordinator(f.tb)
	if err := f.transport.Serve(f.hub.Handle); err != nil {
		f.tb.Error(err)
	}
}

// Halt ends the coordinator.
func (f *Farm) Halt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hub.Close()
	if err := f.transport.Close(); err != nil {
		f.tb.Error(err)
	}
}

func (f *Farm) stop() {
	for _, m := range f.workers {
		m.Kill()
	}
	f.group.Wait()
	f.Halt()
}

// Hub is the coordinator.
func (f *Farm) Hub() *fleet.Hub {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hub
}

// Admit makes a credential.
func (f *Farm) Admit(name string) (fleet.Access, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.transport.Admit(name)
}

// Dial makes a link.
func (f *Farm) Dial(a fleet.Access) fleet.Link { return f.rig.Dial(f.tb, a) }

// Add starts a worker that takes so many candidates at once, with a link that may be wrapped.
func (f *Farm) Add(name string, slots int, open func(context.Context) (fleet.Runner, error), link func(fleet.Link) fleet.Link) *Member {
	f.tb.Helper()
	return f.AddWith(name, func(o *fleet.WorkerOptions) {
		o.Host.Slots = slots
		if dial := o.Dial; link != nil {
			o.Dial = func(ctx context.Context) (fleet.Link, error) {
				l, err := dial(ctx)
				return link(l), err
			}
		}
	}, open)
}

// AddWith starts a worker with other options.
func (f *Farm) AddWith(name string, edit func(*fleet.WorkerOptions), open func(context.Context) (fleet.Runner, error)) *Member {
	f.tb.Helper()
	a, err := f.Admit(name)
	if err != nil {
		f.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Member{access: a, Kill: cancel, Drain: make(chan struct{}), Ended: make(chan error, 1)}
	f.mu.Lock()
	f.workers[name] = m
	f.mu.Unlock()
	o := fleet.WorkerOptions{
		Host: fleet.Host{Name: name, Backend: "replay", Slots: 1, Version: "test"},
		Dial: func(context.Context) (fleet.Link, error) { return f.Dial(a), nil },
		Open: func(ctx context.Context, _ fleet.Place, _ func(context.Context, fleet.File, io.Writer) error) (fleet.Runner, error) {
			return open(ctx)
		},
		Drain: m.Drain, Logger: Quiet(),
	}
	edit(&o)
	f.group.Go(func() { m.Ended <- fleet.Work(ctx, o) })
	return m
}

// A Flag is set and read by several.
type Flag struct{ is atomic.Bool }

// Set sets it.
func (f *Flag) Set(v bool) { f.is.Store(v) }

// Get reads it.
func (f *Flag) Get() bool { return f.is.Load() }

// Log keeps events in memory.
type Log struct {
	mu     sync.Mutex
	events []store.Event
}

// Append implements campaign.Log.
func (l *Log) Append(events ...store.Event) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, events...)
	return 0, nil
}

// Past is what there is.
func (l *Log) Past() []store.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]store.Event(nil), l.events...)
}

// Kept is a log that a campaign goes on with.
type Kept interface {
	campaign.Log
	Past() []store.Event
}

// Told says whether there is a result of a candidate.
func (l *Log) Told(candidate string) bool {
	for _, e := range l.Past() {
		if e.Told != nil && e.Told.Candidate == candidate {
			return true
		}
	}
	return false
}

// A Line is of an event what has to be the same whoever evaluates.
type Line struct {
	Kind      store.Kind
	Index     int
	Candidate string
	Genome    string
	Verdict   string
	Fitness   float64
}

// Path is what the log says of the search.
func (l *Log) Path() (lines []Line) {
	for _, e := range l.Past() {
		switch {
		case e.Asked != nil:
			lines = append(lines, Line{e.Kind, e.Asked.Index, e.Asked.Candidate, e.Asked.Genome, "", 0})
		case e.Told != nil:
			lines = append(lines, Line{e.Kind, e.Told.Index, e.Told.Candidate, "", e.Told.Verdict, e.Told.Fitness})
		}
	}
	return lines
}

// Attempts are those of workers.
func (l *Log) Attempts(end string) (list []*store.Attempt) {
	for _, e := range l.Past() {
		if e.Attempt != nil && e.Attempt.End == end {
			list = append(list, e.Attempt)
		}
	}
	return list
}

// Job is one for the recorded space of the tests.
func Job(evaluations, window int) record.Job {
	return campaign.WithDefaults(record.Job{ID: "test-1", Kernel: "synthetic", Shapes: []string{"recorded"}, Backend: "replay", Strategy: "evolution", Seed: new(int64(3)), Window: window, Budget: record.Budget{Evaluations: evaluations}})
}

// Alone is the log of a campaign without a fleet.
func Alone(tb testing.TB, j record.Job) *Log {
	tb.Helper()
	l := &Log{}
	ev, err := replay.New(table(), replay.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := campaign.Run(tb.Context(), campaign.Problem{Space: ev.Space(), Evaluator: ev}, j, campaign.Options{Workers: 4, Log: l}); err != nil {
		tb.Fatal(err)
	}
	return l
}

// Run runs a campaign, or the rest of it, on a farm.
func (f *Farm) Run(ctx context.Context, j record.Job, l Kept, most int) (campaign.Finished, error) {
	return f.RunAs(ctx, j, l, most, 0)
}

// RunAs is Run with a priority.
func (f *Farm) RunAs(ctx context.Context, j record.Job, l Kept, most, priority int) (campaign.Finished, error) {
	ev, err := replay.New(table(), replay.Options{})
	if err != nil {
		return campaign.Finished{}, err
	}
	o := fleet.Order{Campaign: j.ID, Backend: "replay", Most: most, Priority: priority, Place: fleet.Place{Campaign: j.ID, Job: json.RawMessage(`{}`)}}
	o.Note = func(a *store.Attempt) error {
		_, err := l.Append(store.Event{Campaign: j.ID, Kind: store.KindAttempt, Time: time.Now(), Attempt: a})
		return err
	}
	past := l.Past()
	for _, e := range past {
		if e.Attempt != nil {
			o.Past = append(o.Past, e.Attempt)
		}
	}
	c, err := f.Hub().Open(ctx, o)
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
