package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/share"
	"github.com/evotune/evotune/internal/words"
)

// Values that zero fields of Options stand for.
const (
	DefaultLease = 30 * time.Second
	DefaultStay  = 3 * time.Minute
	DefaultCheck = 10 * time.Minute
	DefaultAgain = .01
	// DefaultHang is how long a candidate may be in one stage, its waits for the device included, on a
	// worker that allows thirty seconds for one run.
	DefaultHang = 30 * time.Minute
	// DefaultMost is how many workers a campaign has at once: the search gains little from
	// more proposals in flight than so many GPUs need.
	DefaultMost = 4
)

const (
	// mostSkew is how far a worker's clock may be from the coordinator's.
	mostSkew = time.Minute
	// mostWait bounds how long an answer to Take is held back.
	mostWait = 20 * time.Second
	// mostTries is how many hosts may fail one candidate before the campaign is told.
	mostTries = 3
	// mostIdle is how long a worker waits for candidates of one campaign while another has some.
	mostIdle = 2 * time.Second
	// usualTimeout is what workers allow for one run of a candidate, unless they say otherwise.
	usualTimeout = 30 * time.Second
	// mostSlots is how many candidates a worker has at once.
	mostSlots = 1024
	// mostBefore is how many older processes of a name are known as such.
	mostBefore = 64
	// mostResult is the length in bytes of the largest result that goes into a log.
	mostResult = 8 << 20
	// mostText is the length in bytes of the longest error of a worker that goes into one, and of what it
	// says of itself.
	mostText = 4 << 10
	// mostHost is the length in bytes of the largest enrolment, and mostMessage that of any other message that
	// has no result: what they say of a worker is kept and shown.
	mostHost    = 64 << 10
	mostMessage = 1 << 20
	// mostHosts is how many workers are known at once.
	mostHosts = 4096
	// mostNS is the longest time in nanoseconds that a worker may have measured, 30 years, and the largest
	// fitness: sums, quotients and squares of such figures are numbers.
	mostNS = 1e18
	// mostAbsent is how many workers are told of that are lost for long, or were refused.
	mostAbsent = 256
	// refusedFor is how long a host is not asked again to open what it could not open.
	refusedFor = 10 * time.Minute
)

// Options configure a Hub. The zero value is fine.
type Options struct {
	// Lease is how long a worker may be silent before its candidates go elsewhere.
	Lease time.Duration
	// Stay is how long a worker is left with a campaign before another one may have it.
	Stay time.Duration
	// Check is how often a host measures its campaign's reference candidate.
	Check time.Duration
	// Hang is how long a candidate may be in one stage, or in the finals for each finalist, before it goes
	// elsewhere though its worker says that it has it. A worker that allows more time for one run has as
	// many times as long.
	Hang time.Duration
	// Again is the share of the correct candidates that another host evaluates as well;
	// negative for none.
	Again float64
	// Wanted says whether the result of a candidate can still be of use: it is false when the
	// log has one, or the campaign has ended. An empty candidate stands for finals. Nil means always.
	Wanted func(campaign, candidate string) bool
	// Drained are the workers that an earlier hub had drained, and why. Keep makes it durable that one is,
	// or with an empty reason that it goes on. Nil keeps nothing.
	Drained map[string]string
	Keep    func(worker, why string) error
	// Known is what an earlier hub knew of workers, as Remember had it: those that do not enrol again are
	// lost. Remember makes durable what is known of one, or with an empty text that it is forgotten. Nil
	// keeps nothing.
	Known    map[string]string
	Remember func(worker, what string) error
	// Version is the evotune of the coordinator; workers of another are refused.
	Version string
	// Shelf keeps the code that workers have compiled, for the others. Nil keeps none.
	Shelf share.Shelf
	// Logger takes what happens. Nil means slog.Default.
	Logger *slog.Logger
}

// A Hub is the coordinator: it gives the candidates of campaigns to workers, and takes the
// results. It holds nothing that the logs of the campaigns do not have: one that is killed is
// replaced by another, whose campaigns ask again, and to which workers tell what they do and
// which results they keep.
type Hub struct {
	o     Options
	began time.Time
	ended context.Context
	end   context.CancelFunc
	group sync.WaitGroup
	notes chan func()

	mu        sync.Mutex
	hosts     map[string]*host  // by name
	drained   map[string]string // by name, why a worker is given nothing
	absent    map[string]Status // by name or takenName, workers that are lost for long, or were refused
	campaigns map[string]*Campaign
	closed    map[string]bool   // campaigns that were open
	files     map[string]string // by hash, of open campaigns
	turn      uint64            // of campaigns

	traffic traffic
}

// A host is a worker as the coordinator knows it.
type host struct {
	Host
	session string
	// before are sessions of older processes of this name, the newest last.
	before  []string
	seen    time.Time
	lost    bool
	leaving bool
	left    bool   // leaving, and it has nothing more to do
	trouble string // why it takes nothing now, by its own account
	drained string // why it is given nothing, by the coordinator's, as Hub.drained has it
	underway

	of      *Campaign // where it is placed, or nil
	open    bool      // its evaluator is open there
	away    bool      // it is to leave that place when it has no candidates
	placed  time.Time
	checked time.Time
	class   string
	refused map[string]refusal // by campaign: what it could not open
	holds   map[string]*hold   // by task
	hung    map[string]string  // by task that was taken back while the host says that it has it, its stage

	number uint64 // of the newest Take
	waits  *waiter
	answer *given // to the newest Take, when it was answered

	stats   Stats
	scolded time.Time // when the log last said that it sent results of tasks that it was not given
	// How often in a row: others disagreed with it, it failed an evaluation, its reference
	// candidate was beyond the noise.
	doubt, failing, drifts int
}

type refusal struct {
	why   string
	until time.Time
}

// A hold is a task that a host has.
type hold struct {
	item  *item
	stage string
	// device: it has entered a stage that runs the candidate.
	device bool
	alone  bool
	named  time.Time // when the host last named it
	since  time.Time // when it entered the stage
}

// A waiter is a Take that is not answered yet.
type waiter struct {
	free  int
	place string // whose evaluator the worker has open
	since time.Time
	done  chan struct{} // closed when host.answer is there, or a newer Take came
}

// New makes a hub. Close ends it.
func New(o Options) *Hub {
	o.Lease, o.Stay, o.Check = cmp.Or(o.Lease, DefaultLease), cmp.Or(o.Stay, DefaultStay), cmp.Or(o.Check, DefaultCheck)
	o.Again, o.Hang = cmp.Or(o.Again, DefaultAgain), cmp.Or(o.Hang, DefaultHang)
	if o.Wanted == nil {
		o.Wanted = func(string, string) bool { return true }
	}
	if o.Keep == nil {
		o.Keep = func(string, string) error { return nil }
	}
	if o.Remember == nil {
		o.Remember = func(string, string) error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &Hub{
		o: o, began: time.Now(), ended: ctx, end: cancel, notes: make(chan func(), 1024),
		hosts: map[string]*host{}, drained: map[string]string{}, absent: map[string]Status{}, campaigns: map[string]*Campaign{}, closed: map[string]bool{}, files: map[string]string{},
	}
	maps.Copy(h.drained, o.Drained)
	for name, what := range o.Known {
		var s Status
		if err := json.Unmarshal([]byte(what), &s); err != nil {
			h.o.Logger.Warn("what was known of a worker cannot be read", "worker", name, "error", err)
			continue
		}
		if s.State == stateLost {
			s.Reason = fmt.Sprintf("not heard of since the coordinator started again at %s", h.began.UTC().Format(time.RFC3339))
		}
		h.absent[name] = s
	}
	h.group.Go(func() { h.watch(ctx) })
	h.group.Go(func() { h.write(ctx) })
	return h
}

// Close ends the hub: campaigns that are open fail with ErrClosed.
func (h *Hub) Close() {
	h.mu.Lock()
	h.end() // no other is opened
	open := slices.Collect(maps.Values(h.campaigns))
	h.mu.Unlock()
	for _, c := range open {
		c.Close() //nolint:errcheck // has no error
	}
	h.group.Wait()
}

// write makes attempts durable, in their order and without the lock.
func (h *Hub) write(ctx context.Context) {
	for {
		select {
		case note := <-h.notes:
			note()
			continue
		default:
		}
		select {
		case note := <-h.notes:
			note()
		case <-ctx.Done():
			return
		}
	}
}

// Handle answers a request of a worker. It is a [Handler].
func (h *Hub) Handle(ctx context.Context, worker string, verb Verb, body []byte) ([]byte, error) {
	switch verb {
	case Enrol:
		return reply(body, mostHost, func(m enrolment) (enrolled, error) { return h.enrol(worker, m) })
	case Beat:
		return reply(body, mostMessage, func(m beat) (orders, error) { return h.beat(worker, m), nil })
	case Take:
		return reply(body, mostMessage, func(m take) (given, error) { return h.take(ctx, worker, m) })
	case Ready:
		return reply(body, mostMessage, func(m ready) (struct{}, error) { return struct{}{}, h.ready(worker, m) })
	case Done:
		return reply(body, math.MaxInt, func(m done) (struct{}, error) {
			if len(body) > mostResult {
				m.Result, m.Finals, m.Error = nil, nil, fmt.Sprintf("the result has %d bytes, and %d are taken", len(body), mostResult)
			}
			return struct{}{}, h.done(worker, m)
		})
	case Fetch:
		var m fetch
		if err := json.Unmarshal(body, &m); err != nil {
			return nil, Refusal("the request cannot be read: " + err.Error())
		}
		if m.Key != "" {
			return h.shared(ctx, m.name), nil
		}
		return h.fetch(m)
	case Keep:
		return nil, h.shelve(ctx, worker, body)
	}
	return nil, Refusal(fmt.Sprintf("%q is not a request of protocol %d: install the same evotune on both", verb, protocol))
}

// reply decodes a request of at most so many bytes, without what a terminal would act on, and encodes its answer.
func reply[M, A any](body []byte, most int, do func(M) (A, error)) ([]byte, error) {
	if len(body) > most {
		return nil, Refusal(fmt.Sprintf("the request has %d bytes, and %d are taken", len(body), most))
	}
	var m M
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, Refusal("the request cannot be read: " + err.Error())
	}
	clean(reflect.ValueOf(&m).Elem())
	a, err := do(m)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

// enrol takes a worker in. One of the same name and another session has ended.
func (h *Hub) enrol(worker string, m enrolment) (enrolled, error) {
	skew := time.Since(m.Time)
	switch {
	case m.Protocol != protocol || m.Host.Version != h.o.Version:
		return enrolled{}, h.refuse(worker, m.Host, "this worker is %s and the coordinator %s: install the same evotune on both", cmp.Or(m.Host.Version, "of no version"), h.o.Version)
	case m.Host.Name != worker || CheckWorker(worker) != nil:
		return enrolled{}, h.refuse(worker, m.Host, "the credential is of the worker %q, and not of %q: enrol again", worker, m.Host.Name)
	case skew.Abs() > mostSkew:
		way := "behind"
		if skew < 0 {
			way = "ahead of"
		}
		return enrolled{}, h.refuse(worker, m.Host, "this worker's clock is %s %s the coordinator's: set it (with NTP, say), since leases and records need the time", skew.Abs().Round(time.Second), way)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.hosts[worker]
	if x != nil && x.session == m.Session {
		h.back(x)
		return enrolled{h.o.Lease}, nil
	}
	if x != nil && slices.Contains(x.before, m.Session) { // the old process still runs, or its request was delayed
		why := fmt.Sprintf("another process has enrolled as the worker %q since this one did: give each a --name of its own", worker)
		h.refused(takenName(worker), m.Host, why)
		return enrolled{}, Refusal(why)
	}
	if x != nil && !x.lost {
		h.lose(x, "its process has ended")
	}
	if x == nil && len(h.hosts) >= mostHosts {
		return enrolled{}, Refusal(fmt.Sprintf("the coordinator knows %d workers, and takes no more: use fewer names, or try again in an hour", mostHosts))
	}
	next := &host{Host: m.Host, session: m.Session, seen: time.Now(), refused: map[string]refusal{}, holds: map[string]*hold{}, hung: map[string]string{}}
	next.drained = h.drained[worker]
	next.Slots = min(max(next.Slots, 1), mostSlots)
	if x != nil {
		next.stats, next.doubt = x.stats, x.doubt
		next.before = append(x.before[max(0, len(x.before)-mostBefore+1):], x.session)
	}
	h.hosts[worker] = next
	delete(h.absent, worker)
	h.remember(worker, next.lostStatus())
	h.o.Logger.Info("a worker has enrolled", "worker", worker, "device", m.Host.Device.Name)
	return enrolled{h.o.Lease}, nil
}

// refuse is the error for a worker that may not enrol. Unless one of its name is there, it is told of.
func (h *Hub) refuse(worker string, host Host, format string, args ...any) error {
	why := fmt.Sprintf(format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.hosts[worker]; x == nil || x.lost {
		host.Name = worker
		h.refused(worker, host, why)
	}
	return Refusal(why)
}

// takenName is the key of a worker that was refused since another one has its name: no name has such a sign.
func takenName(worker string) string { return worker + "/taken" }

// refused tells of a worker that was refused, by a key. The caller holds the lock.
func (h *Hub) refused(key string, host Host, why string) {
	again := h.absent[key].Reason == why
	s := Status{Host: host, Seen: time.Now().UTC(), State: stateRefused, Reason: why}
	h.tell(key, s)
	if !again {
		h.o.Logger.Warn("a worker is refused", "worker", host.Name, "reason", why)
		h.remember(key, &s)
	}
}

// forget tells no more of a worker that is not there. The caller holds the lock.
func (h *Hub) forget(key string) bool {
	_, told := h.absent[key]
	if told {
		delete(h.absent, key)
		h.remember(key, nil)
	}
	return told
}

// tell has a worker among those that are told of although they are not there. The caller holds the lock.
func (h *Hub) tell(key string, s Status) {
	h.absent[key] = s
	for len(h.absent) > mostAbsent {
		h.forget(slices.MinFunc(slices.Collect(maps.Keys(h.absent)), func(a, b string) int { return h.absent[a].Seen.Compare(h.absent[b].Seen) }))
	}
}

// remember makes durable what is known of a worker; nil forgets it. The caller holds the lock, so it does
// not wait for the disk.
func (h *Hub) remember(worker string, s *Status) {
	what := ""
	if s != nil {
		b, err := json.Marshal(s)
		if err != nil {
			h.o.Logger.Error("what is known of a worker is not noted", "worker", worker, "error", err)
			return
		}
		what = string(b)
	}
	select {
	case h.notes <- func() {
		if err := h.o.Remember(worker, what); err != nil {
			h.o.Logger.Error("what is known of a worker is not noted", "worker", worker, "error", err)
		}
	}:
	default:
		h.o.Logger.Warn("what is known of a worker is not noted: too much is to be noted at once", "worker", worker)
	}
}

// lostStatus is a host as it is told of when it is not heard of any more.
func (x *host) lostStatus() *Status {
	return &Status{Host: x.Host, Seen: x.seen.UTC(), State: stateLost, Reason: "silent since " + x.seen.UTC().Format(time.RFC3339)}
}

// Vacant says that a name is free for another process: it refuses the name of a worker that is there,
// which it may have to wait for. One that was killed is silent for half a lease by then.
func (h *Hub) Vacant(ctx context.Context, worker string) error {
	asked := time.Now()
	for {
		h.mu.Lock()
		x := h.hosts[worker]
		vacant := x == nil || x.lost || x.left || time.Since(x.seen) > h.o.Lease/2
		there := x != nil && x.seen.After(asked)
		why := fmt.Sprintf("the name %q is that of a worker that runs already: give this one a --name of its own, or end the other", worker)
		switch {
		case vacant:
			h.forget(takenName(worker))
		case there:
			h.refused(takenName(worker), Host{Name: worker}, why)
		}
		h.mu.Unlock()
		switch {
		case vacant:
			return nil
		case there:
			return Refusal(why)
		}
		select {
		case <-time.After(max(h.o.Lease/100, time.Millisecond)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// known is the host of a session, which is there as of now; nil when it must enrol. The caller
// holds the lock.
func (h *Hub) known(worker, session string) *host {
	x := h.hosts[worker]
	if x == nil || x.session != session {
		return nil
	}
	h.back(x)
	return x
}

// back notes that a host is there. If it was given up, what was held against its candidates
// was wrong. The caller holds the lock.
func (h *Hub) back(x *host) {
	x.seen = time.Now()
	if !x.lost {
		return
	}
	x.lost = false
	h.o.Logger.Info("a worker is back", "worker", x.Name)
	for _, c := range h.campaigns {
		for _, t := range c.items {
			c.acquit(t, x)
		}
	}
}

// watch looks for workers that are silent.
func (h *Hub) watch(ctx context.Context) {
	tick := time.NewTicker(max(h.o.Lease/20, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.look()
		case <-ctx.Done():
			return
		}
	}
}

func (h *Hub) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, x := range h.hosts {
		if !x.lost && now.Sub(x.seen) > h.o.Lease {
			h.lose(x, fmt.Sprintf("it was silent for %s", h.o.Lease))
		}
		for id, held := range x.holds {
			if now.Sub(held.named) > h.o.Lease { // the worker is there and does not have it
				delete(x.holds, id)
				if held.item.on == x {
					held.item.of.requeue(held.item)
				}
			} else if limit := h.limit(x, held); now.Sub(held.since) > limit {
				h.hangs(x, held, limit)
			}
		}
		h.feed(x)
	}
	for name, x := range h.hosts {
		if x.lost && now.Sub(x.seen) > time.Hour {
			delete(h.hosts, name)
			if _, refused := h.absent[name]; !refused && !x.left {
				s := *x.lostStatus()
				s.Stats = x.stats
				h.tell(name, s)
			}
		}
	}
}

// limit is how long a candidate may be in a stage. The caller holds the lock.
func (h *Hub) limit(x *host, held *hold) time.Duration {
	runs := max(1, int64(x.Timeout/usualTimeout))
	if held.item.Kind == kindFinals {
		runs *= int64(len(held.item.Genomes))
	}
	return h.o.Hang * time.Duration(runs)
}

// hangs takes a task from a host that makes no progress with it. It counts as lost with that task, and
// has one slot fewer while it still reports the task. The caller holds the lock.
func (h *Hub) hangs(x *host, held *hold, limit time.Duration) {
	why := fmt.Sprintf("it made no progress for %s", limit)
	h.o.Logger.Warn("a candidate hangs on a worker, and goes elsewhere", "worker", x.Name, "campaign", held.item.of.id, "candidate", held.item.candidate, "stage", held.stage, "limit", limit)
	delete(x.holds, held.item.ID)
	x.hung[held.item.ID] = held.stage
	held.item.of.struck(held, x, false, why)
}

// hanging says which evaluations hang on a host; empty when none does.
func (x *host) hanging() string {
	if len(x.hung) == 0 {
		return ""
	}
	id := slices.Sorted(maps.Keys(x.hung))[0]
	return fmt.Sprintf("%s there made no progress and went elsewhere, such as %s in the stage %q: restart the worker if it does not come to an end", words.Plural(len(x.hung), "evaluation"), id, x.hung[id])
}

// lose gives a host up: its candidates go elsewhere, without a verdict. The caller holds the lock.
func (h *Hub) lose(x *host, why string) {
	x.lost = true
	x.stats.Lost++
	if !x.left {
		h.remember(x.Name, x.lostStatus())
	}
	together := h.together(x)
	h.o.Logger.Warn("a worker is lost", "worker", x.Name, "reason", why, "together", together, "candidates", len(x.holds))
	for id, held := range x.holds {
		delete(x.holds, id)
		held.item.of.struck(held, x, together, why)
	}
	if c := x.of; c != nil {
		c.unplace(x)
	}
	x.release(given{Enrol: true})
}

// together says whether others fell silent when a host did. The caller holds the lock.
func (h *Hub) together(x *host) bool {
	silence := h.o.Lease / 2 // those that are there are heard of more often
	for _, o := range h.hosts {
		if o != x && !o.left && time.Since(o.seen) > silence && o.seen.Sub(x.seen).Abs() < silence {
			return true
		}
	}
	return false
}

// beat takes note of what a worker does.
func (h *Hub) beat(worker string, m beat) (out orders) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.known(worker, m.Session)
	if x == nil {
		return orders{Enrol: true}
	}
	x.trouble, x.leaving, x.underway = m.Trouble[:min(len(m.Trouble), mostText)], m.Leaving, m.underway
	x.Preparing = x.Preparing[:min(len(x.Preparing), mostText)]
	if left := m.Leaving && len(m.Doing)+len(m.Kept) == 0; left != x.left {
		if x.left = left; left {
			h.remember(worker, nil) // it has not got lost
		} else {
			h.remember(worker, x.lostStatus())
		}
	}
	if m.Place != "" && x.of == nil {
		h.adopt(x, m.Place, m.Class, m.Description)
	}
	if c := x.of; c != nil && c.id == m.Place && m.Description != nil {
		c.describe(m.Description)
	}
	class := cmp.Or(x.class, m.Class)
	now := time.Now()
	maps.DeleteFunc(x.hung, func(id, _ string) bool {
		return !slices.ContainsFunc(m.Doing, func(d doing) bool { return d.Task == id })
	})
	for _, d := range m.Doing {
		held := x.holds[d.Task]
		if held == nil {
			if held = h.claim(x, d.Task); held == nil {
				if !h.wanted(d.Task) {
					out.Cancel = append(out.Cancel, d.Task)
				}
				continue
			}
		}
		held.named = now
		if d.Stage != held.stage && isStage(d.Stage) {
			held.enter(d.Stage)
		}
	}
	for _, id := range m.Kept {
		c, t := h.item(id)
		switch {
		case t != nil && (t.foreign(x, class) || c.class == ""): // another one's, or it is not known whose
		case t != nil && t.result == nil:
			t.givenTo(x)
			out.Send = append(out.Send, id)
		case t == nil && !h.wanted(id) || t == nil && c != nil && c.internal(id):
			out.Forget = append(out.Forget, id)
		}
	}
	if c := x.of; c != nil && c.id == m.Place && c.description == nil {
		out.Describe = true
	}
	h.feed(x)
	return out
}

// adopt takes a worker for a campaign whose evaluator it has open already, from before the
// coordinator was started or the campaign paused. It says whether it is to leave that place: the
// campaign is of another class or of none yet, it was closed, or nobody has opened it again. The caller holds the lock.
func (h *Hub) adopt(x *host, place, class string, d *evaluator.Description) (leave bool) {
	c := h.campaigns[place]
	if c == nil {
		return h.closed[place] || time.Since(h.began) > h.o.Lease
	}
	if !c.takes(x) {
		return true
	}
	if c.class == "" && d != nil {
		c.describe(d)
	}
	if c.class != "" && c.class == class {
		h.place(x, c)
		x.open, x.class = true, class
	}
	return c.class == "" || c.class != class
}

// claim gives a host a task that it does already, if nobody else has it; nil when that is not
// so. The caller holds the lock.
func (h *Hub) claim(x *host, id string) *hold {
	c, t := h.item(id)
	if t == nil || x.of != c || t.result != nil || t.on != nil || t.foreign(x, x.class) || t.suspect() || len(x.holds) >= x.Slots || x.has(id) {
		return nil
	}
	t.of.dequeue(t)
	return t.give(x, false)
}

// item finds a task, and its campaign. The caller holds the lock.
func (h *Hub) item(id string) (*Campaign, *item) {
	campaign, _ := splitTask(id)
	c := h.campaigns[campaign]
	if c == nil {
		return nil, nil
	}
	return c, c.items[id]
}

// wanted says whether the result of a task can be of use. One that no campaign waits for yet may
// be asked for soon: campaigns ask again one after the other when a coordinator begins.
func (h *Hub) wanted(id string) bool {
	campaign, candidate := splitTask(id)
	return (candidate != "" || strings.Contains(id, finalsMark)) && h.o.Wanted(campaign, candidate)
}

// take answers with a place or with tasks, as soon as there are any.
func (h *Hub) take(ctx context.Context, worker string, m take) (given, error) {
	h.mu.Lock()
	x := h.known(worker, m.Session)
	if x == nil {
		h.mu.Unlock()
		return given{Enrol: true}, nil
	}
	switch {
	case m.Number < x.number:
		h.mu.Unlock()
		return given{}, nil // a late one; its worker has asked anew
	case m.Number > x.number:
		x.release(given{}) // an older one that was lost on its way
		x.number, x.answer = m.Number, nil
		x.waits = &waiter{free: m.Free, place: m.Place, since: time.Now(), done: make(chan struct{})}
		if x.of != nil && m.Place != x.of.id {
			x.open = false // it has closed what it had, or a late Beat spoke of that
		}
		switch {
		case x.of != nil || m.Place == "":
			h.feed(x)
		case h.adopt(x, m.Place, m.Class, nil):
			x.release(given{Leave: true})
		default:
			h.feed(x)
		}
	}
	w := x.waits
	h.mu.Unlock()
	if w != nil {
		wait := time.NewTimer(min(m.Wait, mostWait))
		defer wait.Stop()
		select {
		case <-w.done:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.number != m.Number {
		return given{}, nil
	}
	x.release(given{})
	return *x.answer, nil
}

// release answers the Take that waits, if one does. The caller holds the lock.
func (x *host) release(g given) {
	if x.answer == nil {
		x.answer = &g
	}
	if x.waits != nil {
		close(x.waits.done)
		x.waits = nil
	}
}

// feed answers the Take of a host, if it waits and there is something for it. The caller holds
// the lock.
func (h *Hub) feed(x *host) {
	if x.waits == nil {
		return
	}
	if !x.able() || x.of != nil && (x.away || h.moves(x)) {
		if x.away = x.of != nil; x.away && len(x.holds) == 0 {
			h.leave(x)
		}
		return
	}
	if x.of == nil && x.waits.place == "" {
		if c := h.choose(x); c != nil {
			h.place(x, c)
		}
	}
	switch {
	case x.of == nil:
	case !x.open:
		x.release(given{Place: &x.of.place})
	default:
		free := min(x.waits.free, x.Slots-len(x.holds)-len(x.hung))
		if tasks := x.of.next(x, free); len(tasks) > 0 {
			x.release(given{Tasks: tasks})
		}
	}
}

// able says whether a host is given anything.
func (x *host) able() bool {
	return !x.lost && !x.leaving && x.trouble == "" && x.drained == "" && len(x.hung) < x.Slots
}

// has says whether a task that was taken back hangs on a host.
func (x *host) has(task string) bool {
	_, ok := x.hung[task]
	return ok
}

// leave has a host close the evaluator of its place. The caller holds the lock.
func (h *Hub) leave(x *host) {
	open := x.open
	x.of.unplace(x)
	if open {
		x.release(given{Leave: true})
	}
}

// place puts a host on a campaign. The caller holds the lock.
func (h *Hub) place(x *host, c *Campaign) {
	x.of, x.open, x.away, x.placed, x.checked = c, false, false, time.Now(), time.Time{}
	c.hosts[x] = true
}

// choose is the campaign that an idle host goes to, or nil. Those of the highest priority come
// first, among them the one with the fewest hosts for its share, then the oldest. The caller
// holds the lock.
func (h *Hub) choose(x *host) (best *Campaign) {
	for _, c := range h.campaigns {
		if c.takes(x) && c.crew() < c.most && c.needs() && (best == nil || c.before(best)) {
			best = c
		}
	}
	return best
}

// before says whether a campaign has the better claim to one more host.
func (c *Campaign) before(o *Campaign) bool {
	return cmp.Or(cmp.Compare(o.priority, c.priority), cmp.Compare(c.crew(), o.crew()), cmp.Compare(c.turn, o.turn)) < 0
}

// moves says whether a host should go to another campaign: one with a higher priority or with fewer
// hosts by two or, when there is nothing for it where it is, any that has something. The caller
// holds the lock.
func (h *Hub) moves(x *host) bool {
	idle := !x.of.needs() && len(x.holds) == 0 && time.Since(x.waits.since) > min(h.o.Stay, mostIdle)
	if !x.open || !idle && time.Since(x.placed) < h.o.Stay {
		return false
	}
	for _, c := range h.campaigns {
		if c == x.of || !c.takes(x) || c.crew() >= c.most || !c.needs() {
			continue
		}
		if idle || c.priority > x.of.priority || c.priority == x.of.priority && c.crew()+1 < x.of.crew() {
			return true
		}
	}
	return false
}

// ready notes that a host has opened the evaluator of its place, or could not.
func (h *Hub) ready(worker string, m ready) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.known(worker, m.Session)
	if x == nil || x.of == nil || x.of.id != m.Campaign {
		return nil // it will learn so by its next Take
	}
	c := x.of
	why := m.Error[:min(len(m.Error), mostText)]
	if m.Description == nil {
		why = cmp.Or(why, "the worker does not say what it evaluates with")
	} else {
		x.class = Class(*m.Description)
		if c.class == "" {
			c.describe(m.Description)
		}
		if x.class != c.class {
			why = "the device is of another class than the campaign's: " + difference(*m.Description, *c.description) + "; results would not be comparable"
		}
	}
	if why == "" {
		x.open = true
		h.feed(x)
		return nil
	}
	h.o.Logger.Warn("a worker cannot evaluate a campaign", "worker", x.Name, "campaign", c.id, "reason", why)
	x.refused[c.id] = refusal{why, time.Now().Add(max(refusedFor, 2*h.o.Lease))}
	c.unplace(x)
	return Refusal(why)
}

// done takes a result.
func (h *Hub) done(worker string, m done) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.known(worker, m.Session)
	if x == nil {
		return nil // it enrols, and is asked for the result
	}
	delete(x.holds, m.Task)
	delete(x.hung, m.Task)
	c, t := h.item(m.Task)
	if t != nil && t.foreign(x, x.class) || t == nil && c != nil && c.toldWithout(x, m.Task) {
		if now := time.Now(); now.Sub(x.scolded) > h.o.Lease {
			x.scolded = now
			h.o.Logger.Warn("a worker sends the result of a task that it was not given", "worker", x.Name, "device", x.Device.Name, "task", m.Task)
		}
		return Refusal(fmt.Sprintf("the task %.200q was not given to this worker: its result is not taken", m.Task))
	}
	switch {
	case t != nil && !t.given[x.session]: // an earlier coordinator gave it: the worker is asked for the result when it says that it has it
	case t != nil && (t.Kind == kindAgain || t.Kind == kindCheck) && t.on != x: // that is about one host
	case t != nil:
		t.examine(&m)
		c.arrived(t, x, m)
	case c != nil:
		c.late(x, m)
	}
	h.feed(x)
	return nil
}

// fetch reads a piece of a file of an open campaign.
func (h *Hub) fetch(m fetch) ([]byte, error) {
	h.mu.Lock()
	path, ok := h.files[m.SHA256]
	h.mu.Unlock()
	if !ok {
		return nil, Refusal(fmt.Sprintf("no open campaign has a file %.12s", m.SHA256))
	}
	return piece(path, m.Offset)
}

// Expel takes a worker out: its candidates go elsewhere.
func (h *Hub) Expel(worker string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	x, known := h.hosts[worker]
	if known && !x.lost {
		h.lose(x, "it was expelled")
	}
	delete(h.hosts, worker)
	absent, taken := h.forget(worker), h.forget(takenName(worker))
	if known {
		h.remember(worker, nil) // also one that was never lost
	}
	return known || absent || taken
}

// Drain has a worker finish what it has and take nothing more, for a reason; none lets it go on. That
// holds for its name until the next call, also when the worker or the hub is another. False means that
// nobody knows the worker. The error is that of Options.Keep.
func (h *Hub) Drain(worker, why string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.hosts[worker]; x != nil {
		return true, h.drain(x, why)
	}
	if h.drained[worker] == "" {
		return false, nil
	}
	return true, h.keep(worker, why)
}

// drain is Drain for a caller that holds the lock. What is not durable holds for this hub all the same.
func (h *Hub) drain(x *host, why string) error {
	x.drained = why
	if why != "" {
		h.o.Logger.Warn("a worker is drained", "worker", x.Name, "reason", why)
	} else {
		x.doubt, x.failing = 0, 0
	}
	err := h.keep(x.Name, why)
	h.feed(x)
	return err
}

// keep remembers that a worker is drained, or no more. The caller holds the lock.
func (h *Hub) keep(worker, why string) error {
	if h.drained[worker] == why {
		return nil
	}
	if h.drained[worker] = why; why == "" {
		delete(h.drained, worker)
	}
	err := h.o.Keep(worker, why)
	if err != nil {
		h.o.Logger.Error("a worker that is drained, or no more, is not noted", "worker", worker, "error", err)
	}
	return err
}

// Stats count what a worker did.
type Stats struct {
	Evaluated int `json:"evaluated"`
	// Failed counts evaluations that the machine failed, Lost how often the worker was given
	// up, Late results that another worker had given before.
	Failed int `json:"failed"`
	Lost   int `json:"lost"`
	Late   int `json:"late"`
	// Compared counts candidates that another host evaluated too, Disagreed those that it
	// alone gave another time or verdict.
	Compared  int `json:"compared"`
	Disagreed int `json:"disagreed"`
}

// A Status is what the coordinator knows of a worker.
type Status struct {
	Host
	Seen time.Time `json:"seen"`
	// State is "idle", "opening", "evaluating", "drained", "leaving", "troubled", "lost" or, for one that
	// could not enrol, "refused".
	State string `json:"state"`
	// Reason says why it is given nothing.
	Reason   string `json:"reason,omitempty"`
	Campaign string `json:"campaign,omitempty"`
	// Preparing is what it does while it is "opening", such as "reference at shape 1024, on the CPU", and
	// PreparingNS for how long when it was last heard.
	Preparing   string        `json:"preparing,omitempty"`
	PreparingNS time.Duration `json:"preparing_ns,omitempty"`
	// Doing has one entry for each candidate that it has.
	Doing []Lease `json:"doing,omitempty"`
	// Drift is the time of its campaign's reference candidate here over that elsewhere; zero
	// when it is not known.
	Drift float64 `json:"drift,omitempty"`
	// Refused says, by campaign, what it could not evaluate, and why.
	Refused map[string]string `json:"refused,omitempty"`
	Stats   Stats             `json:"stats"`
}

// The states of workers that are not there.
const (
	stateLost    = "lost"
	stateRefused = "refused"
)

// A Lease is a candidate that a worker has.
type Lease struct {
	Candidate string `json:"candidate"`
	Kind      string `json:"kind,omitempty"`
	Stage     string `json:"stage,omitempty"`
	Alone     bool   `json:"alone,omitempty"`
}

// Hosts lists the workers by their names, also those that are lost or were refused.
func (h *Hub) Hosts() []Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := []Status{}
	for key, s := range h.absent {
		if x := h.hosts[key]; x == nil || x.lost {
			list = append(list, s)
		}
	}
	for name, x := range h.hosts {
		if _, told := h.absent[name]; told && x.lost {
			continue
		}
		s := Status{Host: x.Host, Seen: x.seen.UTC(), State: "idle", Reason: cmp.Or(x.drained, x.trouble, x.hanging()), Stats: x.stats}
		if x.of != nil {
			s.Campaign, s.State = x.of.id, "opening"
			if x.open {
				s.State = "evaluating"
			} else {
				s.Preparing, s.PreparingNS = x.Preparing, x.PreparingNS
			}
			s.Drift = x.of.drift(x)
		}
		switch {
		case x.lost:
			s.State, s.Reason = stateLost, cmp.Or(s.Reason, "silent since "+x.seen.UTC().Format(time.RFC3339))
		case x.drained != "":
			s.State = "drained"
		case x.leaving:
			s.State = "leaving"
		case x.trouble != "", len(x.hung) >= x.Slots:
			s.State = "troubled"
		}
		for _, id := range slices.Sorted(maps.Keys(x.holds)) {
			held := x.holds[id]
			s.Doing = append(s.Doing, Lease{held.item.candidate, held.item.Kind, held.stage, held.alone})
		}
		for id, r := range x.refused {
			if time.Now().Before(r.until) {
				if s.Refused == nil {
					s.Refused = map[string]string{}
				}
				s.Refused[id] = r.why
			}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.State, b.State)) // one that was refused may have the name of another
	})
	return list
}

// Waiting says, by campaign, why nobody evaluates it.
func (h *Hub) Waiting() map[string]string {
	h.mu.Lock()
	open := slices.Collect(maps.Values(h.campaigns))
	h.mu.Unlock()
	out := map[string]string{}
	for _, c := range open {
		if why := c.Waiting(); why != "" {
			out[c.id] = why
		}
	}
	return out
}

// Devices lists what enrolled workers of a backend have, one of each fingerprint, with the limits
// that constraints may name and how many workers there are.
func (h *Hub) Devices(backend string) (list []Kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(h.hosts)) {
		x := h.hosts[name]
		if x.lost || x.Backend != backend {
			continue
		}
		i, ok := at[x.Device.Fingerprint]
		if !ok {
			i = len(list)
			at[x.Device.Fingerprint] = i
			list = append(list, Kind{Device: x.Device, Limits: x.Limits})
		}
		list[i].Workers++
	}
	return list
}

// A Kind is a device that workers have.
type Kind struct {
	Device  evaluator.Device `json:"device"`
	Limits  map[string]int64 `json:"limits,omitempty"`
	Workers int              `json:"workers"`
}
