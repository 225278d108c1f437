package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/share"
)

// A Runner is an open evaluator of one place. If it has a method Trouble(context.Context) string, that
// says in one line why its device can time nothing now.
type Runner interface {
	Describe() evaluator.Description
	// Evaluate and Finals are those of evaluator.Evaluator, and Time is evaluator.TimeOf, with
	// genomes in their canonical encoding.
	Evaluate(ctx context.Context, genome string, incumbent float64) (evaluator.Result, error)
	Time(ctx context.Context, genome string) (evaluator.Result, error)
	Finals(ctx context.Context, genomes []string) (evaluator.Finals, error)
	Close() error
}

// WorkerOptions say what a worker is and how it works.
type WorkerOptions struct {
	Host Host
	// At is where the coordinator is, for the log.
	At string
	// Dial connects to the coordinator. It is called again when nothing was answered for a lease:
	// the coordinator may be another now, which knows no old credential.
	Dial func(ctx context.Context) (Link, error)
	// Open opens an evaluator. fetch writes a file of the place, by its hash.
	Open func(ctx context.Context, p Place, fetch func(ctx context.Context, f File, to io.Writer) error) (Runner, error)
	// Trouble says in one line why the host can evaluate nothing now; nil is like always "".
	Trouble func() string
	// Drain, when it is closed, ends the worker when it has no candidates.
	Drain <-chan struct{}
	// Logger takes what happens. Nil means slog.Default.
	Logger *slog.Logger
}

const (
	// retryEvery is the time between two tries to reach the coordinator, and sayEvery that between two
	// words about them.
	retryEvery = 250 * time.Millisecond
	sayEvery   = time.Minute
	// mostRefusals is how often in a row the coordinator may refuse a worker before that ends.
	mostRefusals = 3
	// leaveAfter is how many leases a worker that drains waits for its results to be durable.
	leaveAfter = 2
)

// A worker evaluates candidates for a coordinator.
type worker struct {
	o       WorkerOptions
	log     *slog.Logger
	session string
	group   sync.WaitGroup
	changed chan struct{} // has room for one
	beats   sync.Mutex    // one Beat at a time, so that they arrive in order as a rule

	dialing sync.Mutex           // one makes a link at a time
	link    atomic.Pointer[Link] // nil while there is none
	trouble atomic.Value         // of string: what the last Beat said
	heard   atomic.Int64         // when the coordinator answered last, in Unix nanoseconds
	shelf   *shelf

	preparation atomic.Pointer[evaluator.Preparation] // while an evaluator is opened
	patience    evaluator.Patience                    // with the log; under beats

	mu       sync.Mutex
	lease    time.Duration
	place    string
	class    string
	runner   Runner
	enrolled bool
	describe bool // the coordinator wants the description
	running  map[string]*running
	kept     map[string]*done // until they are durable
	drained  bool
}

// A running is a task that is evaluated.
type running struct {
	stage  string
	cancel context.CancelFunc
}

// Work evaluates candidates until ctx ends, Drain is closed and nothing is left to do, or the
// coordinator refuses the worker, which is a [Refusal].
func Work(ctx context.Context, o WorkerOptions) error {
	w := &worker{
		o: o, log: o.Logger, session: rand.Text(), changed: make(chan struct{}, 1), lease: DefaultLease,
		running: map[string]*running{}, kept: map[string]*done{},
	}
	if w.log == nil {
		w.log = slog.Default()
	}
	w.shelf = &shelf{worker: w}
	w.trouble.Store("")
	if err := CheckWorker(o.Host.Name); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		w.group.Wait()
		w.dialing.Lock()
		defer w.dialing.Unlock()
		w.unlink()
	}()
	if known, err := w.begin(ctx); err != nil || !known {
		return err
	}
	w.group.Go(func() { w.beat(ctx) })
	err := w.take(ctx)
	cancel()
	w.group.Wait()
	return errors.Join(err, w.leave())
}

// begin enrols a worker that has nothing in flight: it is not known if Drain was closed before, and
// then nothing that is on its way is waited for.
func (w *worker) begin(ctx context.Context) (known bool, err error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	w.group.Go(func() {
		select {
		case <-w.o.Drain:
			stop()
		case <-asking.Done():
		}
	})
	err = w.enrol(asking)
	w.mu.Lock()
	known = w.enrolled
	w.mu.Unlock()
	if asking.Err() != nil && ctx.Err() == nil && !known {
		w.log.Info("the worker ends: it was not enrolled and has no candidates")
		return false, nil
	}
	return known, err
}

// enrol makes the worker known, as often as it takes to reach the coordinator; while it drains, once.
func (w *worker) enrol(ctx context.Context) error {
	var out enrolled
	var said time.Time
	for {
		err := w.request(ctx, Enrol, enrolment{Protocol: protocol, Session: w.session, Time: time.Now(), Host: w.o.Host}, &out)
		var refused Refusal
		switch {
		case err == nil:
			w.mu.Lock()
			w.lease = max(out.Lease, 10*time.Millisecond)
			w.enrolled = true
			w.mu.Unlock()
			w.log.Info(fmt.Sprintf("enrolled at %s as %s", cmp.Or(w.o.At, "the coordinator"), w.o.Host.Name))
			return nil
		case errors.As(err, &refused):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Since(said) >= sayEvery:
			said = time.Now()
			w.log.Warn("the coordinator is tried again and again", "error", err)
		}
		if !w.pause(ctx, w.o.Drain) {
			return ctx.Err()
		}
	}
}

// pause lets a moment pass before something is tried again, unless ctx ends or until is closed.
func (w *worker) pause(ctx context.Context, until <-chan struct{}) bool {
	w.mu.Lock()
	wait := min(retryEvery, w.lease/8)
	w.mu.Unlock()
	select {
	case <-time.After(wait):
		return true
	case <-until:
		return false
	case <-ctx.Done():
		return false
	}
}

// request asks the coordinator once.
func (w *worker) request(ctx context.Context, verb Verb, message, answer any) error {
	reply, err := w.ask(ctx, verb, message)
	if err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(reply, answer); err != nil {
		return fmt.Errorf("fleet: the answer to %s: %w", verb, err)
	}
	return nil
}

// ask is request with the answer as it came.
func (w *worker) ask(ctx context.Context, verb Verb, message any) ([]byte, error) {
	link, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("fleet: encode %s: %w", verb, err)
	}
	w.mu.Lock()
	limit := w.lease
	w.mu.Unlock()
	if t, ok := message.(take); ok {
		limit += t.Wait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := link.Request(ctx, verb, body)
	if err == nil {
		w.heard.Store(time.Now().UnixNano())
	}
	return reply, err
}

// dial is the link, a new one where the old one has been silent for long.
func (w *worker) dial(ctx context.Context) (Link, error) {
	w.mu.Lock()
	patience := w.lease + mostWait
	w.mu.Unlock()
	w.dialing.Lock()
	defer w.dialing.Unlock()
	if link := w.linked(); link != nil && time.Since(time.Unix(0, w.heard.Load())) < patience {
		return link, nil
	}
	w.unlink()
	link, err := w.o.Dial(ctx)
	if err != nil {
		return nil, err
	}
	w.link.Store(&link)
	w.heard.Store(time.Now().UnixNano())
	return link, nil
}

// linked is the link if there is one; nobody waits for a new one.
func (w *worker) linked() Link {
	if link := w.link.Load(); link != nil {
		return *link
	}
	return nil
}

// unlink ends the link, if there is one.
func (w *worker) unlink() {
	if link := w.link.Swap(nil); link != nil {
		(*link).Close() //nolint:errcheck // nothing is sent by it any more
	}
}

// beat tells the coordinator regularly what the worker does.
func (w *worker) beat(ctx context.Context) {
	for {
		w.mu.Lock()
		every := w.lease / 4
		w.mu.Unlock()
		select {
		case <-time.After(every):
			w.say(ctx, true) //nolint:errcheck // the next one is soon
		case <-ctx.Done():
			return
		}
	}
}

// say sends one Beat and carries out what the answer orders. Only one that is whole names the results
// that are kept, which may be many.
func (w *worker) say(ctx context.Context, whole bool) error {
	w.beats.Lock()
	defer w.beats.Unlock()
	w.mu.Lock()
	m := beat{Session: w.session, Place: w.place, Class: w.class, Leaving: w.drained}
	if whole {
		m.Kept = slices.Collect(maps.Keys(w.kept))
	}
	runner := w.runner
	if w.describe && runner != nil {
		d := runner.Describe()
		m.Description = &d
	}
	for id, r := range w.running {
		m.Doing = append(m.Doing, doing{id, r.stage})
	}
	w.mu.Unlock()
	if p := w.preparation.Load(); p != nil {
		m.Preparing, m.PreparingNS = p.Now()
		if w.patience.Due(m.Preparing, m.PreparingNS) {
			w.log.Info("an evaluator is being opened", "step", m.Preparing, "so far", m.PreparingNS.Round(time.Second))
		}
	}
	if w.o.Trouble != nil {
		m.Trouble = w.o.Trouble()
	}
	if p, ok := runner.(interface {
		Trouble(ctx context.Context) string
	}); ok && whole && m.Trouble == "" {
		m.Trouble = p.Trouble(ctx)
	} else if !whole && m.Trouble == "" {
		m.Trouble = w.trouble.Load().(string) //nolint:forcetypeassert // nothing else is stored
	}
	w.trouble.Store(m.Trouble)
	var out orders
	if err := w.request(ctx, Beat, m, &out); err != nil {
		return err
	}
	if out.Enrol {
		return w.enrol(ctx)
	}
	w.mu.Lock()
	w.describe = out.Describe
	for _, id := range out.Cancel {
		if r := w.running[id]; r != nil {
			r.cancel()
		}
	}
	for _, id := range out.Forget {
		delete(w.kept, id)
	}
	w.mu.Unlock()
	for _, id := range out.Send {
		w.send(ctx, id)
	}
	w.change()
	return nil
}

// change wakes the loop that takes tasks.
func (w *worker) change() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// send sends a result that is kept.
func (w *worker) send(ctx context.Context, id string) {
	w.mu.Lock()
	m := w.kept[id]
	w.mu.Unlock()
	if m == nil {
		return
	}
	err := w.request(ctx, Done, m, nil)
	var refused Refusal
	if errors.As(err, &refused) && m.Error == "" { // it is too large for the broker, say, and will be so again
		w.log.Warn("the result of a candidate is refused", "task", id, "reason", refused)
		m = &done{Session: w.session, Task: id, Error: "its result is refused: " + string(refused)}
		w.mu.Lock()
		if w.kept[id] != nil {
			w.kept[id] = m
		}
		w.mu.Unlock()
		err = w.request(ctx, Done, m, nil)
	}
	if err != nil && ctx.Err() == nil {
		w.log.Debug("a result did not arrive and will be asked for", "task", id, "error", err)
	}
}

// take asks for places and tasks.
func (w *worker) take(ctx context.Context) error {
	drain, refusals := w.o.Drain, 0
	var left, away, said time.Time
	for number := uint64(1); ; {
		w.mu.Lock()
		free, lease := w.o.Host.Slots-len(w.running), w.lease
		rest := len(w.running) + len(w.kept)
		drained := w.drained
		w.mu.Unlock()
		if drained && (rest == 0 || time.Since(left) > leaveAfter*lease && free == w.o.Host.Slots) {
			err := w.say(ctx, true)
			var refused Refusal
			if err != nil && rest == 0 && ctx.Err() == nil && !errors.As(err, &refused) { // it has nothing that could be lost
				w.log.Warn("the coordinator was not told that the worker ends", "error", err)
				return nil
			}
			return err
		}
		if drained || free <= 0 {
			select {
			case <-w.changed:
			case <-time.After(lease / 4):
			case <-drain:
				drain, left = nil, time.Now()
				w.drain(ctx)
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		var g given
		asked := make(chan error, 1)
		asking, stop := context.WithCancel(ctx)
		w.mu.Lock()
		m := take{Session: w.session, Number: number, Place: w.place, Class: w.class, Free: free, Wait: min(mostWait, lease)}
		w.mu.Unlock()
		go func() { asked <- w.request(asking, Take, m, &g) }()
		var err error
		select {
		case err = <-asked:
			stop()
		case <-drain:
			stop()
			<-asked //nolint:errcheck // it was stopped
			drain, left = nil, time.Now()
			w.drain(ctx)
			continue // what an answer on its way has given is lost by its lease
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // the same again: it may have been answered
			if away.IsZero() {
				away = time.Now()
			}
			if time.Since(said) >= sayEvery {
				said = time.Now()
				w.log.Warn("the coordinator is tried again and again; candidates go on, and their results are kept", "error", err)
			}
			var refused Refusal
			if errors.As(err, &refused) {
				if refusals++; refusals > mostRefusals {
					return err
				}
				w.log.Warn("the coordinator refuses a request", "reason", refused)
				w.heard.Store(0) // with a new credential, if there is one
			}
			w.pause(ctx, w.o.Drain)
			continue
		}
		if !away.IsZero() {
			w.log.Info("the coordinator answers again", "after", time.Since(away).Round(time.Millisecond))
		}
		number++
		refusals, away, said = 0, time.Time{}, time.Time{}
		if err := w.obey(ctx, g); err != nil {
			return err
		}
	}
}

// drain says that the worker takes nothing more.
func (w *worker) drain(ctx context.Context) {
	w.mu.Lock()
	w.drained = true
	n := len(w.running)
	w.mu.Unlock()
	w.log.Info("the worker drains: it ends after the candidates in flight", "candidates", n)
	w.say(ctx, true) //nolint:errcheck // the next one is soon
}

// obey carries out what Take has given.
func (w *worker) obey(ctx context.Context, g given) error {
	switch {
	case g.Enrol:
		return w.enrol(ctx)
	case g.Leave:
		return w.leave()
	case g.Place != nil:
		if err := w.leave(); err != nil {
			w.log.Warn("the evaluator of the last campaign did not close", "error", err)
		}
		return w.open(ctx, *g.Place)
	}
	for _, t := range g.Tasks {
		w.start(ctx, t)
	}
	return nil
}

// leave closes the evaluator, when the candidates in it have ended.
func (w *worker) leave() error {
	for {
		w.mu.Lock()
		n := len(w.running)
		runner := w.runner
		if n == 0 {
			left := w.place
			w.runner, w.place, w.class = nil, "", ""
			w.mu.Unlock()
			if runner == nil {
				return nil
			}
			w.log.Info("a campaign is left", "campaign", left, "compiled code", w.shelf.tell())
			return runner.Close()
		}
		w.mu.Unlock()
		<-w.changed
	}
}

// open opens the evaluator of a place and says how that ended.
func (w *worker) open(ctx context.Context, p Place) error {
	begun := time.Now()
	preparation := &evaluator.Preparation{}
	w.preparation.Store(preparation)
	runner, err := w.o.Open(evaluator.WithPreparation(share.With(ctx, w.shelf), preparation), p, w.fetch)
	w.preparation.Store(nil)
	if ctx.Err() != nil {
		if runner != nil {
			return errors.Join(ctx.Err(), runner.Close())
		}
		return ctx.Err()
	}
	m := ready{Session: w.session, Campaign: p.Campaign}
	if err != nil {
		m.Error = err.Error()
		w.log.Warn("a campaign cannot be evaluated here", "campaign", p.Campaign, "reason", err)
	} else {
		d := runner.Describe()
		m.Description = &d
		w.log.Info("a campaign is evaluated", "campaign", p.Campaign, "opened", time.Since(begun).Round(time.Millisecond))
		w.mu.Lock()
		w.runner, w.place, w.class = runner, p.Campaign, Class(d)
		w.mu.Unlock()
	}
	for {
		err := w.request(ctx, Ready, m, nil)
		var refused Refusal
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused):
			if m.Error == "" {
				w.log.Warn("a campaign cannot be evaluated here", "campaign", p.Campaign, "reason", refused)
			}
			return w.leave()
		case !w.pause(ctx, w.o.Drain):
			return ctx.Err()
		}
	}
}

// fetch writes a file, piece by piece, and checks it.
func (w *worker) fetch(ctx context.Context, f File, to io.Writer) error {
	sum := sha256.New()
	to = io.MultiWriter(to, sum)
	for at := int64(0); at < f.Size; {
		b, err := w.ask(ctx, Fetch, fetch{SHA256: f.SHA256, Offset: at})
		var refused Refusal
		if err != nil && !errors.As(err, &refused) && w.pause(ctx, w.o.Drain) {
			continue // the coordinator may be back soon, and knows then whether the campaign is open
		}
		if err != nil {
			return fmt.Errorf("fetch %s: %w", f.Path, err)
		}
		if len(b) == 0 {
			return fmt.Errorf("fetch %s: it ends after %d of %d bytes: it has changed on the coordinator", f.Path, at, f.Size)
		}
		if _, err := to.Write(b); err != nil {
			return err
		}
		at += int64(len(b))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("fetch %s: its hash is %.12s and not %.12s: it has changed on the coordinator", f.Path, got, f.SHA256)
	}
	return nil
}

// start evaluates a task on a goroutine of its own.
func (w *worker) start(ctx context.Context, t task) {
	w.mu.Lock()
	runner := w.runner
	if w.kept[t.ID] != nil { // it was given up while it ran, and is here again
		w.group.Go(func() { w.send(ctx, t.ID) })
	}
	campaign, _ := splitTask(t.ID) // a task of another place would have another's genome
	if w.kept[t.ID] != nil || w.running[t.ID] != nil || runner == nil || campaign != w.place {
		w.mu.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel}
	w.running[t.ID] = r
	w.mu.Unlock()
	w.group.Go(func() {
		defer cancel()
		m := w.evaluate(ctx, runner, t, r)
		w.mu.Lock()
		delete(w.running, t.ID)
		if ctx.Err() == nil {
			w.kept[t.ID] = m
		}
		w.mu.Unlock()
		if ctx.Err() == nil {
			w.send(ctx, t.ID)
		}
		w.change()
	})
}

// evaluate carries out a task.
func (w *worker) evaluate(ctx context.Context, runner Runner, t task, r *running) *done {
	ctx = evaluator.WithTrace(ctx, func(s evaluator.Stage) { w.enter(ctx, r, s) })
	ctx = w.shelf.lend(ctx, t.Kind)
	m := &done{Session: w.session, Task: t.ID}
	var err error
	switch t.Kind {
	case kindCheck:
		var res evaluator.Result
		if res, err = runner.Time(ctx, t.Genomes[0]); err == nil {
			m.Result = &res
		}
	case kindFinals:
		if t.By != 0 || t.Last != 0 {
			now := time.Now()
			ctx = evaluator.WithEnd(ctx, evaluator.End{By: now.Add(t.By), Last: now.Add(t.Last)})
		}
		var f evaluator.Finals
		if f, err = runner.Finals(ctx, t.Genomes); err == nil {
			m.Finals = &f
		}
	default:
		var res evaluator.Result
		ctx = evaluator.WithCandidate(ctx, evaluator.Candidate{Index: t.Index, ID: t.ID})
		if res, err = runner.Evaluate(ctx, t.Genomes[0], t.Incumbent); err == nil {
			m.Result = &res
		}
	}
	if err != nil {
		m.Error = err.Error()
	}
	return m
}

// enter notes the stage of a candidate. Before the first that runs it, the coordinator knows: a
// candidate that takes the worker down is told by that from one that was in company.
func (w *worker) enter(ctx context.Context, r *running, s evaluator.Stage) {
	device := func(stage string) bool {
		switch evaluator.Stage(stage) {
		case evaluator.StageParity, evaluator.StageSanitize, evaluator.StageBenchmark, evaluator.StageFinals:
			return true
		}
		return false
	}
	w.mu.Lock()
	first := device(string(s)) && !device(r.stage)
	r.stage = string(s)
	give := time.Now().Add(w.lease)
	w.mu.Unlock()
	for first && time.Now().Before(give) && w.say(ctx, false) != nil && w.pause(ctx, nil) { //nolint:revive // all is in the condition
	}
}
