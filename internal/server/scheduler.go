package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// A job is a campaign that was submitted, as the service's state keeps it.
type job struct {
	// Job is fixed at submission: what other campaigns find later does not change its path.
	Job evotune.Job `json:"job"`
	// GPU is the device that was asked for; empty means any. With "fleet", workers evaluate that have
	// the device Elsewhere, at most so many at once.
	GPU       string               `json:"gpu,omitempty"`
	Elsewhere *evotune.FleetDevice `json:"elsewhere,omitempty"`
	Workers   int                  `json:"workers,omitempty"`
	Priority  int                  `json:"priority"`
	Submitted time.Time            `json:"submitted"`
	By        string               `json:"by"`
	// State is Queued as long as it is to run, also while it does; else Paused, or how it ended.
	State  api.State `json:"state"`
	Reason string    `json:"reason,omitempty"`
	// Turn orders jobs of one priority, the smaller first.
	Turn uint64 `json:"turn"`
	// Version counts its changes.
	Version uint64 `json:"version"`
	// Began is there while it runs: how many results it had when it began. Deaths is how often the
	// service was killed while it ran, since its newest result.
	Began  *int `json:"began,omitempty"`
	Deaths int  `json:"deaths,omitempty"`

	// target is what its submission was found to mean, if the campaign began at once.
	target *evotune.Target
}

// mostDeaths is how often a campaign is run again without a new result when the service was
// killed while it ran: it may be what kills it, by taking all memory for instance.
const mostDeaths = 3

// A device is where campaigns run: as many at once as there is room for.
type device struct {
	name    string // "cpu", "replay", "fleet", or an accelerator's
	backend string // empty for the fleet, which has all
	room    int
	machine *evotune.Machine
	holds   map[string]bool // campaigns, and operations

	looking sync.Mutex
	known   *evaluator.Device // once it was looked at
}

// A claim is an operation that waits for a device.
type claim struct {
	id, backend string
	got         chan *device
}

// A run is a campaign that holds a device.
type run struct {
	device *device
	phase  api.State
	drain  func()             // once: ends it after the candidates in flight
	cancel context.CancelFunc // ends it at once
	// then is what it becomes when it has ended, if somebody asked for that: Paused, Cancelled,
	// or Queued, which goes on with the same campaign. Empty lets the campaign say.
	then     api.State
	budgets  chan evotune.Budget
	budget   evotune.Budget // the newest that it knows of, as the job had it
	progress progress
}

// end ends a campaign after the candidates in flight, if there are any. Those of the fleet are not
// waited for, since no worker may be left: workers finish what they have, and keep the results until
// the campaign goes on and asks for them.
func (r *run) end() {
	r.drain()
	if r.phase == api.Preparing || r.device.name == fleetDevice {
		r.cancel()
	}
}

// A scheduler places campaigns on devices.
//
// Whoever changes something holds changing: decides, makes it durable, and then takes mu for as long
// as it takes to say so. Whoever asks takes mu alone, and so never waits for the disk. To read, one of
// the two locks is enough. What a campaign tells while it runs, its phase and the budget that it has
// taken, needs mu alone.
type scheduler struct {
	s       *Service
	devices []*device

	changing sync.Mutex // before mu; never taken under it

	mu     sync.Mutex // nothing reads or writes a file under it
	jobs   map[string]*job
	claims []*claim
	runs   map[string]*run
	closed bool
	group  sync.WaitGroup
}

// replayRoom is how many recorded campaigns run at once: they take a core and no device.
const replayRoom = 8

func newScheduler(s *Service, accelerators []evotune.Accelerator) (*scheduler, error) {
	q := &scheduler{s: s, jobs: map[string]*job{}, runs: map[string]*run{}}
	q.devices = []*device{
		{name: evotune.CPU, backend: evotune.CPU, room: 1, machine: s.machine},
		{name: evotune.Replay, backend: evotune.Replay, room: replayRoom, machine: s.machine},
	}
	for _, a := range accelerators {
		q.devices = append(q.devices, &device{name: a.Device, backend: a.Backend, room: 1, machine: s.machine.Alone(a)})
	}
	if s.fleet != nil {
		q.devices = append(q.devices, &device{name: fleetDevice, room: fleetRoom, machine: s.machine})
	}
	for _, d := range q.devices {
		d.holds = map[string]bool{}
	}
	if err := s.state.forgetKeys(time.Now()); err != nil {
		return nil, err
	}
	jobs, err := all[job](s.state, jobsBucket)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		q.jobs[j.Job.ID] = &j
		s.fleet.ended(j.Job.ID, j.State.Ended())
		if err := q.bury(&j); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// bury counts that the last service was killed, if it was while a campaign ran.
func (q *scheduler) bury(j *job) error {
	if j.Began == nil {
		return nil
	}
	evaluated, err := q.evaluated(j)
	if err != nil {
		return err
	}
	if evaluated > *j.Began {
		j.Deaths = 0
	}
	j.Began = nil
	if j.Deaths++; j.Deaths >= mostDeaths && j.State == api.Queued {
		j.State = api.Failed
		j.Reason = fmt.Sprintf("the service was killed %d times while this campaign ran, without a new result between: it may need more memory than there is (see the system's log); resume it to try again", j.Deaths)
		q.s.log.Error("a campaign failed", "campaign", j.Job.ID, "error", j.Reason)
	}
	return q.keep(j)
}

// evaluated is how many results a campaign has.
func (q *scheduler) evaluated(j *job) (int, error) {
	c, err := q.s.store.Campaign(j.Job.ID)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	return c.Evaluated, err
}

// target is what a submission asks for, and the device of workers that does it, or nil. It gives the
// submission its backend and device where these follow from it. The error names all fields that are wrong.
func (q *scheduler) target(ctx context.Context, in *api.Submission) (*evotune.Target, *evotune.FleetDevice, error) {
	want := in.Job
	want.Definitions = q.s.kernels.folders(in.Kernel)
	if want.Backend == evotune.Replay && want.Table == "" {
		want.Kernel, want.Table = "", want.Kernel
	}
	if scope := callerOf(ctx).scope; want.Table != "" && scope != api.Author && scope != api.Admin {
		return nil, nil, fail(http.StatusForbidden, api.Forbidden, "a table is a file of the server: a token of scope author is needed for it")
	}
	if want.Table != "" && !maybeTable(want.Table) {
		return nil, nil, notTable(want.Table)
	}
	elsewhere, device := q.s.fleet.find(in, q.accelerated())
	if (want.Backend == "" || want.Backend == evotune.Auto) && want.Table == "" && !q.accelerated() && elsewhere == nil {
		want.Backend = evotune.CPU
	}
	machine := q.s.machine
	if device == nil {
		if machine, device = q.machineFor(*in, elsewhere); device != nil {
			machine = q.s.machine // with which the rest is looked at
		}
	}
	t, err := machine.Target(want)
	if errors.Is(err, evotune.ErrTable) {
		q.s.log.Warn("a file was named that is not a recorded table", "by", callerOf(ctx).name, "reason", err)
		return nil, nil, notTable(want.Table)
	}
	if err := wrongFields(device, inBody(err)); err != nil {
		return nil, nil, err
	}
	return t, elsewhere, nil
}

// alsoWrong are the fields of a submission that are wrong beside those that its schema refuses.
func (q *scheduler) alsoWrong(ctx context.Context, in api.Submission, told []api.Detail) (more []api.Detail) {
	var p *problem
	if _, _, err := q.target(ctx, &in); !errors.As(err, &p) {
		return nil
	}
	for _, d := range p.Errors {
		if !slices.ContainsFunc(told, func(t api.Detail) bool {
			return t.Location == d.Location || strings.HasPrefix(t.Location, d.Location+"[")
		}) {
			more = append(more, d)
		}
	}
	return more
}

// submit makes a job of what was asked for. A key that came before, with the same body,
// gives the campaign that it gave then; fresh is false.
func (q *scheduler) submit(ctx context.Context, in api.Submission, key, digest string) (id string, fresh bool, err error) {
	who := callerOf(ctx).name
	if key != "" {
		key = who + "\n" + key
		if id, ok, err := q.known(key, digest); ok || err != nil {
			return id, false, err
		}
	}
	t, elsewhere, err := q.accept(ctx, &in)
	if err != nil {
		return "", false, err
	}
	fixed, err := t.Fix(ctx, q.s.store)
	if err != nil {
		return "", false, failed(err)
	}
	taken := func() error {
		return fail(http.StatusServiceUnavailable, api.Unavailable, "a name for the campaign was drawn that is taken: try again")
	}
	if _, err := q.s.store.Campaign(fixed.ID); err == nil {
		return "", false, taken()
	}
	j := &job{Job: fixed, GPU: in.Device, Elsewhere: elsewhere, Workers: in.Workers, Priority: in.Priority, Submitted: time.Now().UTC(), By: who, State: api.Queued, Version: 1}
	q.changing.Lock()
	defer q.changing.Unlock()
	if q.closed {
		return "", false, fail(http.StatusServiceUnavailable, api.Unavailable, "the service is ending: try again")
	}
	if q.jobs[fixed.ID] != nil {
		return "", false, taken()
	}
	fresh = true
	err = q.s.state.change(func(tx *bbolt.Tx) error {
		if key != "" {
			old, ok, err := get[submitted](tx, keysBucket, key)
			if err != nil {
				return err
			}
			if ok {
				id, fresh = old.Campaign, false
				return old.check(digest)
			}
			if err := put(tx, keysBucket, key, submitted{j.Job.ID, digest, j.Submitted}); err != nil {
				return err
			}
		}
		turn, err := tx.Bucket([]byte(jobsBucket)).NextSequence()
		if err != nil {
			return err
		}
		j.Turn = turn
		return put(tx, jobsBucket, j.Job.ID, j)
	})
	if err != nil || !fresh {
		return id, false, err
	}
	if q.free(j.Job.Backend, j.GPU) != nil { // thousands that wait would take much memory
		j.target = t
	}
	q.mu.Lock()
	q.jobs[j.Job.ID] = j
	q.mu.Unlock()
	q.changed(j)
	q.place()
	return j.Job.ID, true, nil
}

// accept is target, for a campaign that this service has a device for.
func (q *scheduler) accept(ctx context.Context, in *api.Submission) (*evotune.Target, *evotune.FleetDevice, error) {
	asked := *in
	t, elsewhere, err := q.target(ctx, in)
	if err == nil && elsewhere != nil && t.Job.Backend != evotune.Replay && t.Job.Backend != elsewhere.Device.Kind {
		// The kernel is for another backend than these workers are.
		*in, in.Backend = asked, t.Job.Backend
		t, elsewhere, err = q.target(ctx, in)
	}
	if err == nil && elsewhere == nil && !q.has(t.Job.Backend) {
		err = fail(http.StatusUnprocessableEntity, api.BadRequest, fmt.Sprintf("this service has no device for the backend %s: see GET /v1/devices", t.Job.Backend), api.Detail{Location: "body.backend", Message: "no device for the backend " + t.Job.Backend})
	}
	return t, elsewhere, err
}

// bodyField is the place in a body of a field that an error names by its option.
func bodyField(name string) string {
	for _, f := range option.Of(api.Submission{}) {
		if f.Name == name {
			return "body." + f.Key
		}
	}
	return "body." + name
}

// inBody is failed for an error about a job that a body describes: its fields have the names that they have there.
func inBody(err error) error {
	var p *problem
	switch {
	case errors.As(err, &p):
		return err
	case errors.Is(err, kernels.ErrUnknownKernel) && len(evotune.FieldErrors(err)) == 0:
		return fail(http.StatusUnprocessableEntity, api.BadRequest, err.Error(), api.Detail{Location: "body.kernel", Message: err.Error()})
	}
	err = failed(err)
	if errors.As(err, &p) {
		for i, d := range p.Errors {
			p.Errors[i].Location = bodyField(d.Location)
		}
	}
	return err
}

// wrongFields joins what is wrong with the device of a submission and with the rest of it, so that
// all wrong fields are told at once. What is no fault of a field is told where the device is right.
func wrongFields(device, rest error) error {
	var p, more *problem
	if device == nil || !errors.As(device, &p) {
		return cmp.Or(device, rest)
	}
	if errors.As(rest, &more) && len(more.Errors) > 0 {
		return fail(p.Status, p.Type, p.Detail+"; "+more.Detail, slices.Concat(p.Errors, more.Errors)...)
	}
	return device
}

// keyLife is how long an Idempotency-Key is remembered at least.
const keyLife = 30 * 24 * time.Hour

// maybeTable says whether a file can be a recorded table, before it is opened: reading a pipe
// or a file of the kernel may never end.
func maybeTable(path string) bool {
	if !strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".json") {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// notTable is the same whatever is wrong: callers learn nothing of the server's files, not
// even whether there is one. The service's log has the reason.
func notTable(path string) error {
	return fail(http.StatusUnprocessableEntity, api.BadRequest, path+" cannot be read as a recorded table: name a .json or .json.gz file of the server; its log has the reason",
		api.Detail{Location: "body.table", Message: "cannot be read as a recorded table"})
}

// forgetKeys forgets keys that nobody repeats any more.
func (s *state) forgetKeys(now time.Time) error {
	return s.change(func(tx *bbolt.Tx) error {
		var old [][]byte
		b := tx.Bucket([]byte(keysBucket))
		err := b.ForEach(func(k, v []byte) error {
			var key submitted
			if err := json.Unmarshal(v, &key); err != nil {
				return fmt.Errorf("the service's state: %s %q: %w", keysBucket, k, err)
			}
			if now.Sub(key.Time) > keyLife {
				old = append(old, k)
			}
			return nil
		})
		for _, k := range old {
			err = errors.Join(err, b.Delete(k))
		}
		return err
	})
}

// submitted is what an Idempotency-Key gave.
type submitted struct {
	Campaign string    `json:"campaign"`
	Digest   string    `json:"digest"` // of the request
	Time     time.Time `json:"time"`
}

func (s submitted) check(digest string) error {
	if s.Digest != digest {
		return fail(http.StatusUnprocessableEntity, api.Reused, "this Idempotency-Key came before with another request: take a new key for a new campaign")
	}
	return nil
}

func (q *scheduler) known(key, digest string) (id string, ok bool, err error) {
	err = q.s.state.db.View(func(tx *bbolt.Tx) error {
		old, found, err := get[submitted](tx, keysBucket, key)
		if id, ok = old.Campaign, found; !found || err != nil {
			return err
		}
		return old.check(digest)
	})
	return id, ok, err
}

// has says whether there is a device for a backend.
func (q *scheduler) has(name string) bool {
	return slices.ContainsFunc(q.devices, func(d *device) bool { return d.backend == name })
}

// accelerated says whether there is a device besides the processor.
func (q *scheduler) accelerated() bool {
	return slices.ContainsFunc(q.devices, func(d *device) bool { return d.accelerator() })
}

// accelerator says whether campaigns name the device.
func (d *device) accelerator() bool { return backend.Of(d.backend).Accelerator }

// on is a machine for jobs that workers with a device do.
func (q *scheduler) on(d *evotune.FleetDevice) *evotune.Machine {
	return &evotune.Machine{Definitions: q.s.machine.Definitions, ReplayLatency: q.s.machine.ReplayLatency, Elsewhere: d}
}

// machineFor is the machine that a submission is looked at with: that of the GPU it asks for.
func (q *scheduler) machineFor(in api.Submission, elsewhere *evotune.FleetDevice) (*evotune.Machine, error) {
	machine := q.s.machine
	if elsewhere != nil {
		return q.on(elsewhere), nil
	}
	for _, d := range q.devices {
		switch {
		case !d.accelerator():
		case in.Device == d.name:
			return d.machine, nil
		case machine == q.s.machine:
			machine = d.machine
		}
	}
	if in.Device != "" {
		return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, fmt.Sprintf("this service has no GPU %q: see GET /v1/devices", in.Device), api.Detail{Location: "body.device", Message: fmt.Sprintf("no GPU %q", in.Device)})
	}
	return machine, nil
}

// schedule places what waits.
func (q *scheduler) schedule() {
	q.changing.Lock()
	defer q.changing.Unlock()
	q.place()
}

// queue lists what waits, the next first. The caller holds a lock.
func (q *scheduler) queue() (list []*job) {
	for id, j := range q.jobs {
		if j.State == api.Queued && q.runs[id] == nil {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *job) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Turn, b.Turn))
	})
	return list
}

// place starts what has a free device. The caller holds changing.
func (q *scheduler) place() {
	if q.closed || q.s.probe.known() != nil {
		return
	}
	q.grant()
	for _, j := range q.queue() {
		d := q.free(j.Job.Backend, j.GPU)
		if d == nil {
			continue
		}
		next := *j
		if err := q.stopped(&next); err != nil {
			q.s.probe.failed(err)
			return
		}
		if err := q.begins(&next); err != nil {
			q.s.log.Error("the service's state was not written", "campaign", j.Job.ID, "error", err)
		}
		next.target = nil
		ctx, cancel := context.WithCancel(q.s.ending)
		drain := make(chan struct{})
		r := &run{device: d, phase: api.Preparing, cancel: cancel, drain: sync.OnceFunc(func() { close(drain) }), budgets: make(chan evotune.Budget, 1), budget: next.Job.Budget}
		q.mu.Lock()
		began := *j
		*j = next
		d.holds[j.Job.ID] = true
		q.runs[j.Job.ID] = r
		q.mu.Unlock()
		q.changed(j)
		q.group.Go(func() {
			defer cancel()
			done, err := q.tune(ctx, began, r, drain)
			q.ran(ctx, j, r, done, err)
		})
	}
}

// grant gives devices to operations, before campaigns: they take minutes, and somebody waits for
// them. The caller holds changing.
func (q *scheduler) grant() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims = slices.DeleteFunc(q.claims, func(c *claim) bool {
		d := q.free(c.backend, "")
		if d == nil {
			return false
		}
		d.holds[c.id] = true
		c.got <- d
		return true
	})
}

// stopped logs that a campaign has stopped which waited for room: there was none for this, and
// nothing has killed the service. The caller holds changing.
func (q *scheduler) stopped(j *job) error {
	if j.Reason != noRoom {
		return nil
	}
	c, err := q.s.store.Campaign(j.Job.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return err
	case c.State == store.Running:
		note := store.Event{Kind: store.KindStopped, Campaign: j.Job.ID, Time: time.Now().UTC(), Note: &store.Note{Reason: "no room on the disk", Evaluated: c.Evaluated}}
		if _, err := q.s.store.Append(note); err != nil {
			return err
		}
	}
	j.Reason = ""
	return nil
}

// begins notes that a campaign runs, for the next service if this one is killed. The caller holds
// changing.
func (q *scheduler) begins(j *job) (err error) {
	evaluated := 0
	if j.target == nil { // else it is new
		if evaluated, err = q.evaluated(j); err != nil {
			return err
		}
	}
	j.Began = &evaluated
	return q.write(j)
}

// free is a device of a backend that has room, the GPU of that name unless it is empty; nil if
// there is none. The caller holds a lock.
func (q *scheduler) free(backend, gpu string) *device {
	for _, d := range q.devices {
		if len(d.holds) < d.room && (d.backend == backend && gpu == "" || gpu == d.name) {
			return d
		}
	}
	return nil
}

// deviceOf is a device of a backend, free or not.
func (q *scheduler) deviceOf(backend string) (*device, error) {
	for _, d := range q.devices {
		if d.backend == backend {
			return d, nil
		}
	}
	return nil, fail(http.StatusConflict, api.Conflict, fmt.Sprintf("this service has no device for the backend %s: see GET /v1/devices", backend))
}

// claim waits for a device of a backend, for an operation.
func (q *scheduler) claim(ctx context.Context, id, backend string) (*device, error) {
	if _, err := q.deviceOf(backend); err != nil {
		return nil, err
	}
	c := &claim{id, backend, make(chan *device, 1)}
	claims := func(list []*claim) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.claims = list
	}
	q.changing.Lock()
	claims(append(q.claims, c))
	q.place()
	q.changing.Unlock()
	select {
	case d := <-c.got:
		return d, nil
	case <-ctx.Done():
	}
	q.changing.Lock()
	claims(slices.DeleteFunc(q.claims, func(o *claim) bool { return o == c }))
	q.changing.Unlock()
	select {
	case d := <-c.got: // meanwhile
		q.release(d, id)
	default:
	}
	return nil, ctx.Err()
}

// release gives a device back.
func (q *scheduler) release(d *device, id string) {
	q.changing.Lock()
	defer q.changing.Unlock()
	q.mu.Lock()
	delete(d.holds, id)
	q.mu.Unlock()
	q.place()
}

// ran notes how a campaign has ended.
func (q *scheduler) ran(ctx context.Context, j *job, r *run, done evotune.Finished, err error) {
	q.changing.Lock()
	defer q.changing.Unlock()
	id, state, reason := j.Job.ID, api.Finished, done.Reason
	var finished *evotune.FinishedError
	switch {
	case errors.As(err, &finished):
		reason = finished.Campaign.Reason
	case errors.Is(err, store.ErrFull):
		q.s.probe.failed(err)
		state, reason = cmp.Or(r.then, api.Queued), cmp.Or(j.Reason, noRoom)
		q.s.log.Error("a campaign waits for room on the disk", "campaign", id, "error", err)
	case err != nil && ctx.Err() == nil:
		state, reason = api.Failed, err.Error()
		q.s.log.Error("a campaign failed", "campaign", id, "error", err)
	case err == nil && done.Complete:
	case r.then != "":
		state, reason = r.then, j.Reason
	default:
		state, reason = api.Queued, "" // the service ends, and goes on with it the next time
	}
	if b := j.Job.Budget; state == api.Finished && !b.IsZero() && b != r.budget {
		// It was given another budget when the search had ended. A pause or cancel that was
		// acknowledged meanwhile still applies.
		state, reason = cmp.Or(r.then, api.Queued), j.Reason
	}
	next := *j
	next.State, next.Reason, next.Began = state, reason, nil
	if err := q.keep(&next); err != nil {
		q.s.log.Error("the service's state was not written", "campaign", id, "error", err)
	}
	q.mu.Lock()
	*j = next
	delete(r.device.holds, id)
	delete(q.runs, id)
	q.mu.Unlock()
	q.changed(j)
	q.place()
}

// tune is the campaign itself: a new one, or the rest of one that the log has.
func (q *scheduler) tune(ctx context.Context, j job, r *run, drain <-chan struct{}) (evotune.Finished, error) {
	want, machine, o := j.Job, r.device.machine, evotune.Options{}
	if j.Elsewhere != nil {
		machine = q.on(j.Elsewhere)
		o.Fleet, o.FleetWorkers, o.Priority = q.s.fleet.hub, j.Workers, j.Priority
	}
	t, done, err := q.resolve(j, machine)
	if t == nil || err != nil {
		return done, err
	}
	space, err := t.Space()
	if err != nil {
		return evotune.Finished{}, err
	}
	defer q.s.streams.wake(want.ID)
	defer q.s.streams.running.Delete(want.ID)
	o.Drain, o.Budgets, o.OnStage = drain, r.budgets, r.progress.stage
	o.Ready = func(workers int, ev evaluator.Evaluator) {
		q.s.streams.running.Store(want.ID, running{workers, space.Size(), space.Exact()})
		r.progress.ready(workers, ev)
	}
	o.Listen = func(e evotune.Event) {
		r.progress.event(e)
		q.s.metrics.event(e)
		if e.Warning != "" {
			if err := q.s.streams.warn(want.ID, e.Warning); err != nil {
				q.s.log.Error("a warning is not told", "campaign", want.ID, "warning", e.Warning, "error", err)
			}
		}
		q.s.streams.wake(want.ID)
		switch {
		case e.Started != nil:
			q.enter(want.ID, r, api.Searching)
		case e.Budget != nil:
			q.took(r, *e.Budget)
		case e.Searched != nil:
			q.enter(want.ID, r, api.Finals)
		}
	}
	return t.Run(evaluator.WithPreparation(ctx, &r.progress.preparation), q.s.store, o)
}

// resolve is what a job has to do on a machine. Where nothing is left to do, t is nil and done says so.
func (q *scheduler) resolve(j job, m *evotune.Machine) (t *evotune.Target, done evotune.Finished, err error) {
	if j.target != nil {
		return j.target.On(m, j.Job), done, nil
	}
	_, err = q.s.store.Campaign(j.Job.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		t, err = m.Target(j.Job)
	case err == nil && j.Job.Sweep:
		var whole bool
		if t, whole, err = m.ContinueSweep(q.s.store, j.Job.ID, j.Job.Budget.Evaluations); whole {
			return nil, evotune.Finished{Campaign: j.Job.ID, Reason: campaign.Exhausted, Complete: true}, nil
		}
	case err == nil:
		t, err = m.Continue(q.s.store, j.Job.ID, j.Job.Budget)
	}
	return t, done, err
}

// enter notes that a campaign is in another phase.
func (q *scheduler) enter(id string, r *run, phase api.State) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.phase != phase {
		r.phase = phase
		q.s.streams.state(id)
	}
}

// took notes under which budget a campaign runs.
func (q *scheduler) took(r *run, b evotune.Budget) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.budget = b
}

// keep makes what a job is to be durable. The caller holds changing, and says so then.
func (q *scheduler) keep(next *job) error {
	next.Version++
	err := q.write(next)
	if err == nil {
		q.s.fleet.ended(next.Job.ID, next.State.Ended())
	}
	return err
}

func (q *scheduler) write(j *job) error {
	return q.s.state.change(func(tx *bbolt.Tx) error { return put(tx, jobsBucket, j.Job.ID, j) })
}

// become makes a job what it is to be, once that is durable, and does with its run, if there is one,
// what follows. The caller holds changing.
func (q *scheduler) become(j *job, next job, do func(*run)) error {
	if err := q.keep(&next); err != nil {
		return failed(err)
	}
	q.mu.Lock()
	*j = next
	if r := q.runs[j.Job.ID]; r != nil {
		do(r)
	}
	q.mu.Unlock()
	q.changed(j)
	q.place()
	return nil
}

// changed tells streams that a campaign's state is another. The caller holds a lock.
func (q *scheduler) changed(j *job) { q.s.streams.state(j.Job.ID) }

// find is the job of a campaign, by its ID. A campaign that the store has from before gets
// a job as soon as something is wanted of it. The caller holds changing.
func (q *scheduler) find(id string) (*job, error) {
	if j := q.jobs[id]; j != nil {
		return j, nil
	}
	c, err := q.s.store.Campaign(id)
	if err != nil {
		return nil, failed(err)
	}
	if j := q.jobs[c.ID]; j != nil {
		return j, nil
	}
	recorded, err := evotune.RecordedJob(c)
	if err != nil {
		return nil, failed(err)
	}
	recorded.Budget = evotune.Budget{} // the newest, which the log has
	j := &job{Job: recorded, State: stateOf(c), Reason: c.Reason}
	q.mu.Lock()
	q.jobs[c.ID] = j
	q.mu.Unlock()
	return j, nil
}

// stateOf is the state of a campaign that no service ran.
func stateOf(c store.Campaign) api.State {
	if c.State == store.Finished {
		return api.Finished
	}
	return api.Paused
}

// act does what was asked with a campaign: "pause", "resume" or "cancel". What is so
// already is not an error.
func (q *scheduler) act(ctx context.Context, id, action, match string) error {
	q.changing.Lock()
	defer q.changing.Unlock()
	j, err := q.find(id)
	if err != nil {
		return err
	}
	if err := j.match(match); err != nil {
		return err
	}
	no := func() error {
		q.mu.Lock()
		defer q.mu.Unlock()
		return fail(http.StatusConflict, api.Conflict, fmt.Sprintf("campaign %s is %s: it cannot be asked to %s", j.Job.ID, q.stateOf(j), action))
	}
	by := func(what string) string { return what + " by " + callerOf(ctx).name }
	next, do := *j, func(*run) {}
	switch action {
	case "pause":
		switch {
		case j.State == api.Paused:
			return nil
		case j.State.Ended():
			return no()
		}
		next.State, next.Reason = api.Paused, by("paused")
		do = func(r *run) {
			r.then = api.Paused
			r.end()
		}
	case "resume":
		switch j.State {
		case api.Queued:
			return nil
		case api.Finished:
			return fail(http.StatusConflict, api.Conflict, fmt.Sprintf("campaign %s is finished: give it a larger budget to go on", j.Job.ID))
		case api.Cancelled:
			return no()
		}
		next.State, next.Reason, next.Deaths = api.Queued, "", 0
		do = func(r *run) { r.then = api.Queued } // it still ends what is in flight
	case "cancel":
		switch {
		case j.State == api.Cancelled:
			return nil
		case j.State.Ended():
			return no()
		}
		next.State, next.Reason = api.Cancelled, by("cancelled")
		do = func(r *run) {
			r.then = api.Cancelled
			r.cancel()
		}
	}
	return q.become(j, next, do)
}

// change changes budget and priority.
func (q *scheduler) change(id string, c api.Change, match string) error {
	q.changing.Lock()
	defer q.changing.Unlock()
	j, err := q.find(id)
	if err != nil {
		return err
	}
	if err := j.match(match); err != nil {
		return err
	}
	if c.Budget == nil && (c.Priority == nil || *c.Priority == j.Priority) {
		return nil
	}
	if c.Budget != nil && c.Budget.IsZero() {
		return fail(http.StatusUnprocessableEntity, api.BadRequest, "the budget sets no limit: give at least one", api.Detail{Location: "body.budget", Message: "sets no limit"})
	}
	if c.Budget != nil && j.State == api.Finished {
		if err := q.goesOn(j, *c.Budget); err != nil {
			return err
		}
	}
	next := *j
	if c.Priority != nil {
		next.Priority = *c.Priority
	}
	if c.Budget != nil {
		next.Job.Budget = *c.Budget
		if q.runs[j.Job.ID] == nil && j.State == api.Finished {
			next.State, next.Reason = api.Queued, ""
		}
	}
	return q.become(j, next, func(r *run) {
		if next.Elsewhere != nil {
			q.s.fleet.hub.SetPriority(next.Job.ID, next.Priority)
		}
		if c.Budget == nil {
			return
		}
		select {
		case <-r.budgets: // an older one that was not seen yet
		default:
		}
		r.budgets <- next.Job.Budget
	})
}

// goesOn says why a finished campaign cannot go on with a budget; nil when it can.
func (q *scheduler) goesOn(j *job, b evotune.Budget) error {
	machine := q.s.machine
	if j.Elsewhere != nil {
		machine = q.on(j.Elsewhere)
	}
	var err error
	if j.Job.Sweep {
		_, _, err = machine.ContinueSweep(q.s.store, j.Job.ID, b.Evaluations)
	} else {
		_, err = machine.Continue(q.s.store, j.Job.ID, b)
	}
	if errors.Is(err, evotune.ErrInput) {
		return fail(http.StatusConflict, api.Conflict, err.Error())
	}
	return failed(err)
}

// etag is the job's version, as HTTP has it.
func (j *job) etag() string { return fmt.Sprintf("%q", fmt.Sprint(j.Version)) }

// match refuses a change of another version than the one named; empty names none.
func (j *job) match(match string) error {
	if match != "" && match != "*" && match != j.etag() {
		return fail(http.StatusPreconditionFailed, api.Changed, fmt.Sprintf("campaign %s has changed since: look at it again, and repeat what you still want", j.Job.ID))
	}
	return nil
}

// stateOf is the state of a job as it is now. The caller holds mu.
func (q *scheduler) stateOf(j *job) api.State {
	if r := q.runs[j.Job.ID]; r != nil && j.State == api.Queued {
		return r.phase
	}
	return j.State
}

// view fills in what the scheduler knows of a campaign, and gives its version as HTTP has it.
func (q *scheduler) view(c *api.Campaign) (etag string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[c.ID]
	if j == nil {
		return ""
	}
	q.fill(c, j, q.positions())
	return j.etag()
}

// viewAll fills in what the scheduler knows of campaigns, which may be thousands.
func (q *scheduler) viewAll(list []api.Campaign) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.positions()
	for i := range list {
		if j := q.jobs[list[i].ID]; j != nil {
			q.fill(&list[i], j, at)
		}
	}
}

// positions are those of the jobs in the queue, from 1. The caller holds a lock.
func (q *scheduler) positions() map[*job]int {
	at := map[*job]int{}
	for i, j := range q.queue() {
		at[j] = i + 1
	}
	return at
}

// A jobView is what the scheduler knows of a campaign, and the version of its job.
type jobView struct {
	api.Campaign
	version uint64
}

// views are those of all campaigns that have jobs.
func (q *scheduler) views() []jobView {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.positions()
	list := make([]jobView, 0, len(q.jobs))
	for id, j := range q.jobs {
		v := jobView{api.Campaign{ID: id}, j.Version}
		q.fill(&v.Campaign, j, at)
		list = append(list, v)
	}
	return list
}

// fill fills in what is known of a job. The caller holds mu.
func (q *scheduler) fill(c *api.Campaign, j *job, at map[*job]int) {
	c.State, c.Reason, c.Priority, c.Submitted, c.By = q.stateOf(j), j.Reason, j.Priority, j.Submitted, j.By
	c.Kernel, c.Backend, c.Shapes = j.Job.Kernel, j.Job.Backend, j.Job.Shapes
	c.Uploaded = slices.ContainsFunc(j.Job.Definitions, q.s.kernels.has)
	if !j.Job.Budget.IsZero() {
		c.Budget = j.Job.Budget
	}
	if r := q.runs[c.ID]; r != nil {
		p := r.progress.now(c.ID, c.State)
		c.Progress = &p
	} else if j.State == api.Queued {
		c.Position = at[j]
	}
}

// ids lists the campaigns that have jobs.
func (q *scheduler) ids() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.jobs))
}

// A deviceUse is what a device does.
type deviceUse struct {
	name      string
	campaigns int
	usage     *evaluator.Usage // nil when the device does not tell, or does nothing
}

// inUse lists the devices with what they do.
func (q *scheduler) inUse() (list []deviceUse) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range q.devices {
		use := deviceUse{name: d.name, campaigns: len(d.holds)}
		for id, r := range q.runs {
			if r.device == d {
				use.usage = r.progress.now(id, r.phase).Usage
			}
		}
		list = append(list, use)
	}
	return list
}

// close ends every campaign after the candidates in flight, and at once when ctx ends: these
// candidates, and finals, begin anew with the next service.
func (q *scheduler) close(ctx context.Context) {
	q.changing.Lock()
	q.mu.Lock()
	q.closed = true
	for _, r := range q.runs {
		r.end()
	}
	q.mu.Unlock()
	q.changing.Unlock()
	stop := context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, r := range q.runs {
			r.cancel()
		}
	})
	defer stop()
	q.group.Wait()
}
