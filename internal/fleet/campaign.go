package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

const (
	// mostStrikes is how many workers one candidate may take down. The last two were alone with it, and each was
	// lost by itself.
	// While it was compiled, when others are as likely to have done it, those are hosts of as many
	// names, and only the last was alone with it; or there are no such hosts and it took mostLosses.
	mostStrikes = 3
	mostLosses  = 5
)

// ErrLostFinals is the error of finals that took down one worker after the other.
var ErrLostFinals = errors.New("several workers ended while they held the finals")

// An Order opens a campaign to the workers.
type Order struct {
	// Campaign is its ID. Place is what a worker opens an evaluator of, and Paths says, by the
	// hashes of its files, where they are here.
	Campaign string
	Place    Place
	Paths    map[string]string
	// Backend is that of the workers. Device is the fingerprint of theirs, and Description what
	// results have been made with so far: both may be empty, and the first worker decides.
	Backend     string
	Device      string
	Description *evaluator.Description
	// Priority orders campaigns, the larger first. Most is how many workers it has at once, at
	// most; zero means DefaultMost.
	Priority int
	Most     int
	// Past are the attempts that the log has, in order. Note makes another one durable there; nil
	// keeps none.
	Past []*store.Attempt
	Note func(*store.Attempt) error
}

// How attempts end whose results are not those that the search is told of.
const (
	EndLost     = "lost"     // the worker was given up
	EndReturned = "returned" // it was there all the time: that was wrong
	EndFailed   = "failed"   // the machine failed the evaluation
	EndLate     = "late"     // another worker's result came first
	EndAgain    = "again"    // another host evaluated it as well, to compare the hosts
	EndDisagree = "disagrees"
)

// A Campaign is an evaluator whose candidates are evaluated by workers.
type Campaign struct {
	hub   *Hub
	o     Order
	id    string
	place Place
	most  int
	turn  uint64

	// The rest is the hub's, under its lock.
	priority    int
	class       string
	description *evaluator.Description
	described   chan struct{} // closed when there is one
	closed      chan struct{}
	hosts       map[*host]bool
	items       map[string]*item // until they are recorded
	queue       []*item          // nobody has them; by their order
	suspects    []*item          // likewise; each runs alone on a host
	reserved    *host            // empties itself for a suspect
	told        map[string]brief // by candidate, what the search was told
	finals      int              // how many were asked for
	checks      int              // likewise

	reference *item     // a correct candidate, which hosts measure to see whether they drift
	standards []reading // of it
	apart     []float64 // by how much two hosts differ, as logarithms; the newest last
}

var _ evaluator.Evaluator = (*Campaign)(nil)

// A brief is what is kept of a candidate that was told.
type brief struct {
	index   int
	host    string
	verdict evaluator.Verdict
	fitness float64
	late    []string        // sessions that gave it too
	given   map[string]bool // as the item's
}

// A reading is one measurement of the reference candidate: the logarithm of its fitness.
type reading struct {
	host  *host
	value float64
}

// An item is a task with what the coordinator knows of it.
type item struct {
	task
	of        *Campaign
	candidate string
	end       evaluator.End // of finals
	only      *host         // who it is for, if not for anybody
	on        *host
	given     map[string]bool // sessions that have it or had it: others tell nothing of it
	strikes   []strike
	tried     map[string]string // hosts that failed it, and how
	avoid     map[string]bool   // hosts that it is not for
	// by gave the result. first is the result that one of another host is compared with, by's;
	// second, of secondBy, differs from it, and a third decides.
	by, secondBy  *host
	first, second *evaluator.Result
	late          []string // sessions whose results came after it
	result        *done
	arrived       chan struct{} // closed when there is a result
	enter         chan evaluator.Stage
}

// A strike is a worker that was lost while it had a candidate.
type strike struct {
	session, host, stage string
	device               bool // the candidate ran; else it was compiled
	alone                bool
	together             bool // with other hosts: the candidate has not done that
}

// taskID names a task: its campaign, its candidate, and what else it is.
func taskID(campaign, candidate, suffix string) string {
	return campaign + "/" + candidate + suffix
}

// finalsMark is in the names of finals.
const finalsMark = "~finals-"

// splitTask takes a name apart. Tasks that are not candidates of the search have no candidate.
func splitTask(id string) (campaign, candidate string) {
	i := strings.LastIndexByte(id, '/')
	if i < 0 {
		return "", ""
	}
	if candidate = id[i+1:]; strings.Contains(candidate, "~") {
		candidate = ""
	}
	return id[:i], candidate
}

// Open opens a campaign to the workers, and waits until one of them has opened its evaluator or,
// where the log says what results are made with, not at all. The error is that of ctx, or
// evaluator.ErrClosed.
func (h *Hub) Open(ctx context.Context, o Order) (*Campaign, error) {
	c := &Campaign{
		hub: h, o: o, id: o.Campaign, place: o.Place, most: cmp.Or(o.Most, DefaultMost), priority: o.Priority,
		described: make(chan struct{}), closed: make(chan struct{}),
		hosts: map[*host]bool{}, items: map[string]*item{}, told: map[string]brief{},
	}
	h.mu.Lock()
	if h.ended.Err() != nil || h.campaigns[c.id] != nil {
		h.mu.Unlock()
		return nil, fmt.Errorf("fleet: campaign %s is open already, or the fleet is closed: %w", c.id, evaluator.ErrClosed)
	}
	h.turn++
	c.turn = h.turn
	h.campaigns[c.id] = c
	delete(h.closed, c.id)
	for sum, path := range o.Paths {
		h.files[sum] = path
	}
	if o.Description != nil {
		c.describe(o.Description)
	}
	for _, x := range h.hosts {
		h.feed(x)
	}
	h.mu.Unlock()
	tick := time.NewTicker(min(time.Second, h.o.Lease/4))
	defer tick.Stop()
	at, done := "", func() {}
	defer func() { done() }()
	for {
		select {
		case <-c.described:
			return c, nil
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), c.Close())
		case <-c.closed:
			return nil, fmt.Errorf("fleet: %w", evaluator.ErrClosed)
		case <-tick.C:
		}
		if what, took := c.preparing(); what != at {
			done()
			at, done = what, func() {}
			if what != "" {
				_, done = evaluator.PreparingFor(ctx, took, "%s", what)
			}
		}
	}
}

// preparing is the longest step of preparation of the workers that open the campaign's evaluator; "" without one.
func (c *Campaign) preparing() (what string, took time.Duration) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	for x := range c.hosts {
		if x.Preparing != "" && (what == "" || x.PreparingNS > took) {
			what, took = fmt.Sprintf("%s, by worker %s", x.Preparing, x.Name), x.PreparingNS
		}
	}
	return what, took
}

// SetPriority changes the order among campaigns, if this one is open.
func (h *Hub) SetPriority(campaign string, p int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.campaigns[campaign]; c != nil {
		c.priority = p
	}
}

// Close ends what waits for results. Workers leave the campaign.
func (c *Campaign) Close() error {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.campaigns[c.id] != c {
		return nil
	}
	delete(h.campaigns, c.id)
	h.closed[c.id] = true
	for sum := range c.o.Paths {
		delete(h.files, sum)
	}
	for _, o := range h.campaigns { // which may have the same files
		for sum, path := range o.o.Paths {
			h.files[sum] = path
		}
	}
	close(c.closed)
	for x := range c.hosts {
		for id, held := range x.holds {
			if held.item.of == c {
				delete(x.holds, id)
			}
		}
		x.away = true
		h.leave(x)
		h.feed(x)
	}
	return nil
}

// describe pins what results are made with. The caller holds the lock.
func (c *Campaign) describe(d *evaluator.Description) {
	if c.description == nil {
		c.description, c.class = d, Class(*d)
		close(c.described)
	}
}

// Describe tells what results are made with: what the first worker told.
func (c *Campaign) Describe() evaluator.Description { return *c.description }

// Waiting says why nothing is evaluated now; empty when workers are there.
func (c *Campaign) Waiting() string {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	why := []string{}
	for _, t := range slices.Concat(c.suspects, c.queue) {
		for _, x := range h.hosts {
			if x.has(t.ID) && !slices.Contains(why, x.Name) {
				why = append(why, x.Name)
			}
		}
	}
	slices.Sort(why)
	if len(why) > 0 {
		return "candidates made no progress on " + strings.Join(why, ", ") + ", and wait for another worker: restart it, or start one more"
	}
	if c.crew() > 0 {
		return ""
	}
	for _, x := range h.hosts {
		if r := x.refused[c.id]; time.Now().Before(r.until) {
			why = append(why, x.Name+": "+r.why)
		}
	}
	slices.Sort(why)
	if len(why) > 0 {
		return "no worker can evaluate it: " + strings.Join(why, "; ")
	}
	return fmt.Sprintf("it waits for a worker with the backend %s", c.o.Backend)
}

// takes says whether a host may evaluate the campaign at all. The caller holds the lock.
func (c *Campaign) takes(x *host) bool {
	return x.Backend == c.o.Backend && (c.o.Device == "" || x.Device.Fingerprint == c.o.Device) &&
		!time.Now().Before(x.refused[c.id].until)
}

// needs says whether the campaign has candidates that nobody has, or is to be opened. The caller
// holds the lock.
func (c *Campaign) needs() bool {
	return c.description == nil && c.crew() == 0 || len(c.suspects) > 0 ||
		slices.ContainsFunc(c.queue, func(t *item) bool { return t.Kind != kindAgain })
}

// crew is how many hosts are there to stay: one that is troubled or drained, or leaves, has its place
// free for another. The caller holds the lock.
func (c *Campaign) crew() (n int) {
	for x := range c.hosts {
		if x.able() && !x.away {
			n++
		}
	}
	return n
}

// unplace takes a host off the campaign. The caller holds the lock.
func (c *Campaign) unplace(x *host) {
	delete(c.hosts, x)
	x.of, x.open, x.away = nil, false, false
	if c.reserved == x {
		c.reserved = nil
	}
}

// Evaluate implements [evaluator.Evaluator]. The context names the candidate, with
// [evaluator.WithCandidate].
func (c *Campaign) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	who, ok := evaluator.CandidateOf(ctx)
	if !ok {
		return evaluator.Result{}, errors.New("fleet: the context does not name the candidate")
	}
	t := &item{
		task: task{ID: taskID(c.id, who.ID, ""), Genomes: []string{g.String()}, Index: who.Index, Incumbent: incumbent}, candidate: who.ID,
	}
	m, err := c.wait(ctx, t)
	if err != nil {
		return evaluator.Result{}, err
	}
	return *m.Result, nil
}

// Finals implements [evaluator.Evaluator]: on the device of one worker.
func (c *Campaign) Finals(ctx context.Context, finalists []genome.Genome) (evaluator.Finals, error) {
	t := &item{task: task{Kind: kindFinals, Index: math.MaxInt}}
	t.end, _ = evaluator.EndOf(ctx)
	for _, g := range finalists {
		t.Genomes = append(t.Genomes, g.String())
	}
	c.hub.mu.Lock()
	c.finals++
	// A worker may keep the result of finals of other candidates, from before the campaign was opened.
	t.ID = taskID(c.id, "", fmt.Sprintf("%s%d-%x", finalsMark, c.finals, sha256.Sum256([]byte(strings.Join(t.Genomes, "\n"))))[:28])
	c.hub.mu.Unlock()
	m, err := c.wait(ctx, t)
	c.hub.mu.Lock()
	delete(c.items, t.ID)
	c.hub.mu.Unlock()
	switch {
	case err != nil:
		return evaluator.Finals{}, err
	case m.Finals == nil && len(t.strikes) >= mostStrikes:
		return evaluator.Finals{}, fmt.Errorf("%w: %s", ErrLostFinals, m.Error)
	case m.Finals == nil:
		return evaluator.Finals{}, fmt.Errorf("fleet: the finals: %s", m.Error)
	}
	for i, g := range finalists {
		m.Finals.Entries[i].Genome = g
	}
	return *m.Finals, nil
}

// wait queues a task, or finds the one that is there, and waits for its result.
func (c *Campaign) wait(ctx context.Context, t *item) (*done, error) {
	c.hub.mu.Lock()
	if old := c.items[t.ID]; old != nil && old.Incumbent == t.Incumbent && old.result == nil {
		t = old
	} else {
		c.submit(t)
	}
	c.hub.mu.Unlock()
	for {
		select {
		case <-t.arrived:
			return t.result, nil
		case s := <-t.enter:
			evaluator.Enter(ctx, s)
		case <-ctx.Done():
			c.hub.mu.Lock()
			defer c.hub.mu.Unlock()
			if t.result == nil {
				c.dequeue(t)
				delete(c.items, t.ID)
			}
			return nil, ctx.Err()
		case <-c.closed:
			return nil, fmt.Errorf("fleet: %w", evaluator.ErrClosed)
		}
	}
}

// submit queues a new task. The caller holds the lock.
func (c *Campaign) submit(t *item) {
	t.of, t.arrived, t.enter = c, make(chan struct{}), make(chan evaluator.Stage, 1)
	if t.Kind == kindCandidate {
		c.remember(t)
	}
	c.items[t.ID] = t
	c.requeue(t)
}

// remember gives a task the strikes that the log has against its candidate. The caller holds the lock.
func (c *Campaign) remember(t *item) {
	for _, e := range c.o.Past {
		if e.Candidate != t.candidate {
			continue
		}
		a, ok, err := record.ReadAttempt(e)
		switch {
		case err != nil:
			c.hub.o.Logger.Error("an attempt in the log is passed over", "error", err)
		case ok && e.End == EndLost:
			t.strikes = append(t.strikes, strike{a.Session, a.Host, e.Stage, a.Device, a.Alone, a.Together})
		case ok && e.End == EndReturned:
			t.strikes = slices.DeleteFunc(t.strikes, func(s strike) bool { return s.session == a.Session })
		}
	}
}

// requeue puts a task that nobody has into the queue, by its order, unless it has a verdict now.
// The caller holds the lock.
func (c *Campaign) requeue(t *item) {
	t.on = nil
	if t.only != nil {
		delete(c.items, t.ID)
		return
	}
	if t.result != nil || c.items[t.ID] != t || c.convict(t) {
		return
	}
	list := &c.queue
	if t.suspect() {
		list = &c.suspects
	}
	i, _ := slices.BinarySearchFunc(*list, t, func(a, b *item) int { return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.ID, b.ID)) })
	*list = slices.Insert(*list, i, t)
	c.pump()
}

// pump feeds hosts that wait, until nothing is queued. The caller holds the lock.
func (c *Campaign) pump() {
	for x := range c.hosts {
		if len(c.queue)+len(c.suspects) == 0 {
			return
		}
		c.hub.feed(x)
	}
	if c.crew() < c.most && c.needs() {
		for _, x := range c.hub.hosts {
			if x.of == nil && x.waits != nil {
				c.hub.feed(x)
				if c.crew() >= c.most {
					return
				}
			}
		}
	}
}
