package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.etcd.io/bbolt"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/internal/panics"
	"github.com/evotune/evotune/kernels"
)

// Bounds of operations.
const (
	maxWaiting   = 100      // that have not ended
	maxKept      = 200      // that have, the newest
	maxResult    = 16 << 20 // bytes of a result
	maxDownload  = 64 << 20 // bytes of files
	maxOperation = time.Hour

	// operationMemory is how long an operation is kept that has ended, with what was sent for it.
	operationMemory = 30 * 24 * time.Hour
	// operationPrefix begins their IDs, and the names of their folders.
	operationPrefix = "op-"
)

// The kinds of operations.
const (
	verifying = "verify"
	judging   = "judge"
	exporting = "export"
	backingUp = "backup"
	archiving = "archive"
)

// An action is an operation with what was asked for, as the service's state keeps it.
type action struct {
	api.Operation
	Turn uint64 `json:"turn"` // orders them
	// Exactly one of these is set.
	Verify  *verifyAction `json:"verify,omitempty"`
	Judge   *api.Judge    `json:"judge,omitempty"`
	Export  *api.Export   `json:"export,omitempty"`
	Backup  *api.Backup   `json:"backup,omitempty"`
	Archive *api.Archive  `json:"archive,omitempty"`
}

type verifyAction struct {
	Candidate string     `json:"candidate"`
	Options   api.Verify `json:"options"`
}

// Operations are the slow actions of a service. What measures takes its device through the
// scheduler, so that it runs beside no campaign there.
type operations struct {
	s   *Service
	dir string // of files

	changing sync.Mutex // as a scheduler's

	mu      sync.Mutex // as a scheduler's
	of      map[string]*action
	running map[string]context.CancelFunc
	prepare map[string]*evaluator.Preparation // of those that measure
	closed  bool
	group   sync.WaitGroup
	ctx     context.Context //nolint:containedctx // the life of the service, for what nobody waits for
	cancel  context.CancelFunc
	builder sync.Mutex // one export at a time
}

// newOperations reads what the last service had. What waited still does; what ran when that
// service was killed may have killed it, and is not run again unless somebody asks.
func newOperations(s *Service) (*operations, error) {
	o := &operations{s: s, dir: s.store.Path() + ".operations", of: map[string]*action{}, running: map[string]context.CancelFunc{}, prepare: map[string]*evaluator.Preparation{}}
	o.ctx, o.cancel = context.WithCancel(s.ending)
	list, err := all[action](s.state, opsBucket)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		o.of[a.ID] = &a
		if a.State == api.Preparing {
			a.State, a.Error, a.Ended = api.Failed, "the service was killed while this ran: ask again", time.Now().UTC()
			if err := o.keep(&a); err != nil {
				return nil, err
			}
		}
	}
	return o, errors.Join(o.sweep(), o.forget(time.Now()))
}

// sweep removes folders of operations that there are not: the service was killed between making
// one and noting the operation, or between forgetting that and removing its files.
func (o *operations) sweep() error {
	entries, err := os.ReadDir(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if a := o.of[e.Name()]; strings.HasPrefix(e.Name(), operationPrefix) && (a == nil || a.State.Ended() && a.Download == "") {
			err = errors.Join(err, os.RemoveAll(o.folder(e.Name())))
		}
	}
	return err
}

// forget forgets operations that have ended long ago, and the oldest where there are too many,
// with what was sent for them and what they made. The caller holds changing, or has it all alone.
func (o *operations) forget(now time.Time) (err error) {
	ended := slices.DeleteFunc(o.sorted(), func(a *action) bool { return !a.State.Ended() })
	for i, old := range ended {
		if i >= len(ended)-maxKept && now.Sub(old.Ended) <= operationMemory {
			continue
		}
		o.mu.Lock()
		delete(o.of, old.ID)
		o.mu.Unlock()
		err = errors.Join(err, o.s.state.change(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(opsBucket)).Delete([]byte(old.ID))
		}), os.RemoveAll(o.folder(old.ID)))
	}
	return err
}

// start goes on with what waits.
func (o *operations) start() {
	o.changing.Lock()
	defer o.changing.Unlock()
	for _, a := range o.sorted() {
		if a.State == api.Queued {
			o.begin(a)
		}
	}
}

// sorted lists all, the oldest first. The caller holds a lock.
func (o *operations) sorted() []*action {
	return slices.SortedFunc(maps.Values(o.of), func(a, b *action) int { return cmp.Compare(a.Turn, b.Turn) })
}

// keep makes an operation durable.
func (o *operations) keep(a *action) error {
	return o.s.state.change(func(tx *bbolt.Tx) error { return put(tx, opsBucket, a.ID, a) })
}

// add queues an operation, once prepare, if it is not nil, has made what it needs in its
// folder and found nothing wrong.
func (o *operations) add(ctx context.Context, a action, prepare func(dir string) error) (api.Operation, error) {
	b := make([]byte, 6)
	rand.Read(b) //nolint:errcheck // never fails
	a.ID, a.State, a.Started, a.By = operationPrefix+hex.EncodeToString(b), api.Queued, time.Now().UTC(), callerOf(ctx).name
	o.changing.Lock()
	defer o.changing.Unlock()
	waiting := 0
	for _, other := range o.of {
		if !other.State.Ended() {
			waiting++
		}
	}
	switch {
	case o.closed:
		return a.Operation, fail(http.StatusServiceUnavailable, api.Unavailable, "the service is ending: try again")
	case waiting >= maxWaiting:
		return a.Operation, fail(http.StatusTooManyRequests, api.TooMany, fmt.Sprintf("%d operations wait: cancel some, or try again later", waiting))
	}
	if prepare != nil {
		dir := o.folder(a.ID)
		err := errors.Join(privateFolder(o.dir), privateFolder(dir))
		if err == nil {
			err = prepare(dir)
		}
		if err != nil {
			if removeErr := os.RemoveAll(dir); removeErr != nil {
				return a.Operation, removeErr
			}
			return a.Operation, o.hide(err, a.ID)
		}
	}
	err := o.s.state.change(func(tx *bbolt.Tx) error {
		turn, err := tx.Bucket([]byte(opsBucket)).NextSequence()
		if err != nil {
			return err
		}
		a.Turn = turn
		return put(tx, opsBucket, a.ID, a)
	})
	if err != nil {
		return a.Operation, errors.Join(err, os.RemoveAll(o.folder(a.ID)))
	}
	added := a.Operation
	o.mu.Lock()
	o.of[a.ID] = &a
	o.mu.Unlock()
	o.begin(&a)
	return added, nil
}

// folder is where the files of an operation are.
func (o *operations) folder(id string) string { return filepath.Join(o.dir, id) }

// hide takes out of an error where the server keeps the files of an operation.
func (o *operations) hide(err error, id string) error {
	var p *problem
	if !errors.As(failed(err), &p) {
		return nil
	}
	out := *p
	out.Detail, out.Errors = o.hidden(p.Detail, id), slices.Clone(p.Errors)
	for i := range out.Errors {
		out.Errors[i].Message = o.hidden(out.Errors[i].Message, id)
	}
	return &out
}

func (o *operations) hidden(text, id string) string {
	return strings.ReplaceAll(text, o.folder(id)+string(filepath.Separator), "")
}

// begin runs an operation as soon as its device is free. The caller holds changing.
func (o *operations) begin(a *action) {
	ctx, cancel := context.WithCancel(o.ctx)
	o.mu.Lock()
	o.running[a.ID] = cancel
	o.mu.Unlock()
	asked := *a
	o.group.Go(func() {
		defer cancel()
		result, download, err := o.run(ctx, asked)
		o.changing.Lock()
		defer o.changing.Unlock()
		next := *a
		switch {
		case a.State == api.Cancelled:
		case err != nil && o.ctx.Err() != nil:
			next.State = api.Queued // the next service does it
		case err != nil:
			next.State, next.Error = api.Failed, o.hidden(err.Error(), a.ID)
		default:
			next.State, next.Result, next.Download = api.Finished, result, download
		}
		if next.State.Ended() {
			next.Ended = time.Now().UTC()
		}
		o.settle(a, next)
	})
}

// settle makes durable what became of an operation, and forgets the oldest. The caller holds
// changing.
func (o *operations) settle(a *action, next action) {
	err := o.keep(&next)
	o.mu.Lock()
	*a = next
	delete(o.running, a.ID)
	delete(o.prepare, a.ID)
	o.mu.Unlock()
	if a.State.Ended() && a.Download == "" {
		err = errors.Join(err, os.RemoveAll(o.folder(a.ID)))
	}
	if err = errors.Join(err, o.forget(time.Now())); err != nil {
		o.s.log.Error("an operation was not kept", "operation", a.ID, "error", err)
	}
}

// become makes an operation what it is to be, once that is durable. The caller holds changing.
func (o *operations) become(a *action, next action) error {
	if err := o.keep(&next); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	*a = next
	return nil
}

// entered notes that an operation runs.
func (o *operations) entered(id string) error {
	o.changing.Lock()
	defer o.changing.Unlock()
	a := o.of[id]
	if a == nil || a.State != api.Queued { // one that was cancelled may be forgotten by now
		return context.Canceled
	}
	next := *a
	next.State = api.Preparing
	return o.become(a, next)
}

// run does what was asked for, and gives the result and the path of the files.
func (o *operations) run(ctx context.Context, a action) (out json.RawMessage, download string, err error) {
	defer panics.Catch(&err)
	var result any
	switch {
	case a.Export != nil:
		download = "/v1/operations/" + a.ID + "/files"
		result, err = o.export(ctx, a)
	case a.Backup != nil:
		result, err = o.backup(ctx, a)
	case a.Archive != nil:
		result, err = o.archive(ctx, a)
	case a.Judge != nil:
		err = o.holding(ctx, a.ID, backendOf(a.Judge.Name), func(ctx context.Context, m *evotune.Machine) error {
			result, err = o.judge(ctx, m, a)
			return err
		})
	default:
		var rec evotune.Record
		rec, err = evotune.NewRecord(o.s.reader, a.Verify.Candidate, a.Verify.Options.Flavour == "debug")
		if err == nil {
			err = o.holding(ctx, a.ID, rec.Campaign.Started.Backend, func(ctx context.Context, m *evotune.Machine) error {
				result, err = verify(ctx, m, rec, a.Verify.Options)
				return err
			})
		}
	}
	if err != nil {
		return nil, "", err
	}
	b, err := json.Marshal(result)
	if err == nil && len(b) > maxResult {
		err = fmt.Errorf("the result has %d bytes, and %d are kept at most", len(b), maxResult)
	}
	return b, download, err
}

// holding does something while nothing else has the device.
func (o *operations) holding(ctx context.Context, id, backend string, do func(context.Context, *evotune.Machine) error) error {
	d, err := o.s.jobs.claim(ctx, id, backend)
	if err != nil {
		return err
	}
	defer o.s.jobs.release(d, id)
	if err := o.entered(id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxOperation, fmt.Errorf("it took longer than %s", maxOperation))
	defer cancel()
	if err := do(o.following(ctx, id), d.machine); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}

// following returns a context under which the preparation of an operation is shown.
func (o *operations) following(ctx context.Context, id string) context.Context {
	var p evaluator.Preparation
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prepare[id] = &p
	return evaluator.WithPreparation(ctx, &p)
}

// shown is an operation of this moment. The caller holds the lock.
func (o *operations) shown(a *action) api.Operation {
	one := a.Operation
	if p := o.prepare[a.ID]; p != nil {
		one.Preparing = stepOf(p)
	}
	return one
}

// verify judges a candidate again.
func verify(ctx context.Context, m *evotune.Machine, rec evotune.Record, o api.Verify) (any, error) {
	if o.Flavour == "debug" {
		again, err := m.Debug(ctx, rec)
		return struct {
			Candidate string           `json:"candidate"`
			Flavour   string           `json:"flavour"`
			Stored    evaluator.Result `json:"stored"`
			Again     evaluator.Result `json:"again"`
		}{rec.Candidate.ID, o.Flavour, rec.Result, again}, err
	}
	tolerance := 0.05
	if o.Tolerance != nil {
		tolerance = *o.Tolerance
	}
	return m.Verify(ctx, rec, evotune.VerifyOptions{Tolerance: tolerance, StoredContents: o.Contents == "stored"})
}

// backendOf is that of a file, by its name.
func backendOf(name string) string {
	if f := backend.OfSource(filepath.Ext(name)); f != nil {
		return f.Name
	}
	return evotune.CPU
}

// fileTarget is what a judgment is made with, in the folder of its files.
func (o *operations) fileTarget(m *evotune.Machine, j *api.Judge, dir string) (*evotune.Target, error) {
	for i, f := range j.Flags {
		if err := kernels.CheckFlag(backendOf(j.Name), f); err != nil {
			return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, err.Error(), api.Detail{Location: fmt.Sprintf("body.flags[%d]", i), Message: err.Error()})
		}
	}
	against := ""
	if j.Against != "" {
		against = filepath.Join(dir, j.AgainstName)
	}
	job := evotune.Job{Kernel: j.Kernel, Shapes: j.Shapes, Seed: j.Seed, Strict: j.Strict, Definitions: o.s.kernels.folders(j.Kernel)}
	return m.FileTarget(job, kernels.File{Path: filepath.Join(dir, j.Name), Flags: j.Flags, Threads: j.Threads}, against)
}

// judge judges a file.
func (o *operations) judge(ctx context.Context, m *evotune.Machine, a action) (any, error) {
	t, err := o.fileTarget(m, a.Judge, o.folder(a.ID))
	if err != nil {
		return nil, err
	}
	found, err := t.Judge(ctx, nil)
	found.File = a.Judge.Name
	if found.Against != "" {
		found.Against = a.Judge.AgainstName
	}
	return api.Judgment{Judgment: found, Disturbed: found.Disturbed, Sanitized: found.Sanitized, SanitizedAlso: found.SanitizedAlso}, err
}

// export writes winners as a library, into one file.
func (o *operations) export(ctx context.Context, a action) (any, error) {
	o.builder.Lock()
	defer o.builder.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := o.entered(a.ID); err != nil {
		return nil, err
	}
	x, done := a.Export, api.Exported{Kernels: a.Export.Kernels}
	files, err := o.s.tools.Export(o.s.reader, evotune.ExportOptions{
		Kernels: x.Kernels, Devices: x.Devices, Shapes: x.Shapes, Lang: x.Lang, MinEvidence: x.MinEvidence, By: build.This().String(),
		Tell: func(line string) { done.NotFaster = append(done.NotFaster, line) },
	})
	if err != nil {
		return nil, err
	}
	b, err := zipped("library", files)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(privateFolder(o.dir), privateFolder(o.folder(a.ID))); err != nil {
		return nil, err
	}
	done.Files = slices.Sorted(maps.Keys(files))
	return done, os.WriteFile(filepath.Join(o.folder(a.ID), archiveName), b, 0o600)
}

// archiveName is the file of an operation that is downloaded.
const archiveName = "files.zip"

// find is an operation by its ID. The caller holds a lock.
func (o *operations) find(id string) (*action, error) {
	if a := o.of[id]; a != nil {
		return a, nil
	}
	return nil, fail(http.StatusNotFound, api.NotFound, fmt.Sprintf("there is no operation %q: the newest %d are kept, for %d days", id, maxKept, operationMemory/(24*time.Hour)))
}

// stop cancels an operation.
func (o *operations) stop(id string) (api.Operation, error) {
	o.changing.Lock()
	defer o.changing.Unlock()
	a, err := o.find(id)
	switch {
	case err != nil:
		return api.Operation{}, err
	case a.State == api.Cancelled:
		return a.Operation, nil
	case a.State.Ended():
		return a.Operation, fail(http.StatusConflict, api.Conflict, fmt.Sprintf("operation %s is %s", id, a.State))
	}
	next := *a
	next.State, next.Ended = api.Cancelled, time.Now().UTC()
	if err := o.become(a, next); err != nil {
		return a.Operation, err
	}
	if cancel := o.running[id]; cancel != nil {
		cancel() // what it leaves is settled there
	}
	return a.Operation, nil
}

// close cancels what runs, which the next service does again.
func (o *operations) close() {
	o.changing.Lock()
	o.closed = true
	o.changing.Unlock()
	o.cancel()
	o.group.Wait()
}

type operationAnswer struct {
	Location string `header:"Location"`
	Body     api.Operation
}

type verifyRequest struct {
	One
	Body api.Verify
}

type judgeRequest struct{ Body api.Judge }

type exportRequest struct{ Body api.Export }

type operationRequest struct {
	ID string `path:"id" minLength:"1" maxLength:"100"`
}

// operationRoutes are those of slow actions.
func (s *Service) operationRoutes() {
	accepted := func(a api.Operation, err error) (*operationAnswer, error) {
		return &operationAnswer{"/v1/operations/" + a.ID, a}, failed(err)
	}
	begin := func(route, id string, scope api.Scope, summary string) huma.Operation {
		op := operation(http.MethodPost, route, id, scope, summary, 404, 409, 413, 422, 503)
		op.DefaultStatus = http.StatusAccepted
		return op
	}
	huma.Register(s.api, begin("/v1/candidates/{id}/verify", "verify", api.Runner, "Judge a stored candidate again, and compare: an operation"),
		func(ctx context.Context, in *verifyRequest) (*operationAnswer, error) {
			if err := s.takesCampaigns(); err != nil {
				return nil, err
			}
			c, err := s.reader.Candidate(in.ID)
			if err != nil {
				return nil, failed(err)
			}
			of, err := s.reader.Campaign(c.Campaign)
			if err != nil {
				return nil, failed(err)
			}
			if c.Told == nil {
				return nil, fail(http.StatusConflict, api.Conflict, fmt.Sprintf("candidate %s has no result yet", c.ID))
			}
			if _, err := s.jobs.deviceOf(of.Started.Backend); err != nil {
				return nil, err
			}
			return accepted(s.ops.add(ctx, action{Operation: api.Operation{Kind: verifying}, Verify: &verifyAction{c.ID, in.Body}}, nil))
		})
	judge := begin("/v1/judge", "judge", api.Author, "Judge one finished kernel: an operation")
	judge.MaxBodyBytes = maxUploadBody
	huma.Register(s.api, judge, func(ctx context.Context, in *judgeRequest) (*operationAnswer, error) {
		if err := s.takesCampaigns(); err != nil {
			return nil, err
		}
		j := in.Body
		if (j.Against == "") != (j.AgainstName == "") || j.Against != "" && (j.AgainstName == j.Name || filepath.Ext(j.AgainstName) != filepath.Ext(j.Name)) {
			return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, "against and against_name go together: another file, of the same language",
				api.Detail{Location: "body.against_name", Message: "must name another file of the same language"})
		}
		d, err := s.jobs.deviceOf(backendOf(j.Name))
		if err != nil {
			return nil, err
		}
		return accepted(s.ops.add(ctx, action{Operation: api.Operation{Kind: judging}, Judge: &j}, func(dir string) error {
			files := map[string]string{j.Name: j.Source}
			if j.Against != "" {
				files[j.AgainstName] = j.Against
			}
			if err := writeUpload(dir, files); err != nil {
				return err
			}
			_, err := s.ops.fileTarget(d.machine, &j, dir)
			return err
		}))
	})
	huma.Register(s.api, begin("/v1/exports", "export", api.Runner, "Write winners as a library that other programs build and call: an operation"),
		func(ctx context.Context, in *exportRequest) (*operationAnswer, error) {
			if err := s.takesCampaigns(); err != nil {
				return nil, err
			}
			if len(in.Body.Kernels) == 0 { // null has no length for the schema
				return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, "no kernel to export is named", api.Detail{Location: "body.kernels", Message: "name one at least"})
			}
			return accepted(s.ops.add(ctx, action{Operation: api.Operation{Kind: exporting}, Export: &in.Body}, nil))
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/operations", "operations", api.Viewer, "List operations, the newest first, without their results"),
		func(context.Context, *struct{}) (*body[[]api.Operation], error) {
			list := []api.Operation{}
			if s.ops != nil {
				s.ops.mu.Lock()
				defer s.ops.mu.Unlock()
				for _, a := range slices.Backward(s.ops.sorted()) {
					one := s.ops.shown(a)
					one.Result = nil
					list = append(list, one)
				}
			}
			return &body[[]api.Operation]{list}, nil
		})
	one := func(id string) (api.Operation, error) {
		if err := s.takesCampaigns(); err != nil {
			return api.Operation{}, err
		}
		s.ops.mu.Lock()
		defer s.ops.mu.Unlock()
		a, err := s.ops.find(id)
		if err != nil {
			return api.Operation{}, err
		}
		return s.ops.shown(a), nil
	}
	huma.Register(s.api, operation(http.MethodGet, "/v1/operations/{id}", "operation", api.Viewer, "One operation, with its result", 404, 409, 422),
		func(_ context.Context, in *operationRequest) (*body[api.Operation], error) {
			a, err := one(in.ID)
			return &body[api.Operation]{a}, err
		})
	huma.Register(s.api, operation(http.MethodDelete, "/v1/operations/{id}", "cancel-operation", api.Runner, "Cancel an operation", 404, 409, 422),
		func(_ context.Context, in *operationRequest) (*body[api.Operation], error) {
			if err := s.takesCampaigns(); err != nil {
				return nil, err
			}
			a, err := s.ops.stop(in.ID)
			return &body[api.Operation]{a}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/operations/{id}/files", "operation-files", api.Viewer, "Download what an operation has made, as a zip", 404, 409, 422),
		func(_ context.Context, in *operationRequest) (*download, error) {
			a, err := one(in.ID)
			if err != nil {
				return nil, err
			}
			if a.Download == "" {
				return nil, fail(http.StatusNotFound, api.NotFound, fmt.Sprintf("operation %s is %s and has made no files", a.ID, a.State))
			}
			b, err := os.ReadFile(filepath.Join(s.ops.folder(a.ID), archiveName))
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fail(http.StatusNotFound, api.NotFound, fmt.Sprintf("the files of operation %s are gone", a.ID))
			}
			return newDownload(a.Kind+"-"+a.ID+".zip", b), failed(err)
		})
}
