package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/semaphore"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator/share"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/turns"
	"github.com/evotune/evotune/store"
)

// Options say what a service serves, and how.
type Options struct {
	// Store is open for writing. Who made it closes it, after Service.Close.
	Store *store.Store
	// Machine evaluates. Nil makes a service that answers questions and takes no campaigns:
	// that of one `tune run`, which holds the store.
	Machine *evotune.Machine
	// Accelerators are the devices that campaigns are placed on besides the processor.
	Accelerators []evotune.Accelerator
	// TokenFile has an admin's token: the one that is in it or, where there is no such file, a
	// new one. Empty means no file.
	TokenFile string
	// ArchiveAfter moves campaigns to archives when they have been finished for so long. Zero
	// keeps them.
	ArchiveAfter time.Duration
	// Fleet makes the transport to workers on other machines, of those that the roster admits; nil
	// means that there are none.
	Fleet func(roster *fleet.Roster) (fleet.Transport, error)
	// Shelf keeps what workers compile, for the others. Nil keeps nothing.
	Shelf share.Shelf
	// Limits say how much is taken.
	Limits Limits
	// Logger takes what happens. Nil means slog.Default.
	Logger *slog.Logger

	probePace time.Duration // zero means the constant
	lease     time.Duration // of workers; zero means the fleet's
	touched   func()        // as in state; nil but in tests
}

// A Service serves a store: its handlers, its campaigns, and who may do what.
type Service struct {
	store    *store.Store
	reader   *remembered
	machine  *evotune.Machine // nil: questions alone
	tools    *evotune.Machine // machine, or one for questions
	log      *slog.Logger
	state    *state       // nil without a machine
	tokens   *tokens      // nil without a machine: then there are none
	jobs     *scheduler   // nil without a machine
	ops      *operations  // nil without a machine
	fleet    *workers     // nil without a fleet
	heavy    *turns.Turns // what takes much memory: one at a time
	scans    *semaphore.Weighted
	audit    *audit // nil without a machine
	limits   *limiters
	metrics  *metrics
	streams  *streams
	board    board
	kernels  *library
	charts   *charts
	analyses analyses
	probe    probe
	panics   atomic.Int64 // of requests
	phase    atomic.Value // of string: why it is not ready; "" when it is
	api      huma.API
	handler  http.Handler

	closing   closing         // tests shorten it
	ending    context.Context // ends with the service
	end       context.CancelFunc
	listeners sync.WaitGroup
}

// New makes a service, which goes on with every campaign that it had when it ended. The
// error is one of the store, or store.ErrLocked when another process serves it.
func New(o Options) (*Service, error) {
	s := &Service{store: o.Store, reader: newRemembered(o.Store), machine: o.Machine, log: o.Logger, charts: newCharts(o.Store), heavy: turns.New(1), scans: semaphore.NewWeighted(mostScans), closing: closing{inFlight: 4 * time.Second, stuck: 2 * time.Second}}
	s.streams = newStreams(s)
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.tools = o.Machine; s.tools == nil {
		s.tools = &evotune.Machine{}
	}
	s.kernels = newLibrary(s.tools)
	s.phase.Store("the service is starting")
	s.limits = newLimiters(o.Limits)
	s.probe.pace = cmp.Or(o.probePace, probePace)
	s.metrics = newMetrics(s)
	s.ending, s.end = context.WithCancel(context.Background())
	if o.Machine != nil {
		var err error
		if s.state, err = openState(o.Store.Path() + ".service"); err != nil {
			return nil, err
		}
		s.state.touched = o.touched
		if s.tokens, err = openTokens(s.state); err == nil && o.TokenFile != "" {
			err = s.tokens.file(o.TokenFile)
		}
		if err == nil {
			err = s.kernels.open(s.state, o.Store.Path())
		}
		if err == nil {
			s.audit, err = openAudit(s.state, s.log)
		}
		if err == nil && o.Fleet != nil {
			s.fleet, err = newWorkers(s, o)
		}
		if err == nil {
			s.jobs, err = newScheduler(s, o.Accelerators)
		}
		if err == nil {
			s.ops, err = newOperations(s)
		}
		if err != nil {
			return nil, errors.Join(err, s.fleet.close(), s.state.Close())
		}
	}
	s.handler = s.routes()
	if s.tokens != nil {
		s.listeners.Go(s.tidy)
	}
	if s.jobs != nil {
		s.listeners.Go(s.watchRoom)
	}
	if s.audit != nil {
		s.listeners.Go(func() { s.audit.writeRefused(s.ending) })
	}
	o.Store.Observe(s.metrics.commit)
	if s.jobs != nil {
		s.jobs.schedule()
		s.ops.start()
		if o.ArchiveAfter > 0 {
			s.listeners.Go(func() { s.archiveOld(o.ArchiveAfter) })
		}
	}
	s.phase.Store("")
	return s, nil
}

// Handler answers every request; requests of a listener that Listen was told is private are
// an admin's.
func (s *Service) Handler() http.Handler { return s.handler }

// Listen answers on a listener until Close. What comes over a private one, a socket that its
// file mode protects, needs no token.
func (s *Service) Listen(l net.Listener, private bool) {
	srv := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTime, WriteTimeout: answerTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: mostHeader,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return context.WithValue(s.ending, privateKey{}, private) },
	}
	s.listeners.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Warn("a listener no longer answers", "address", l.Addr().String(), "error", err)
		}
	})
	s.listeners.Go(func() {
		<-s.ending.Done()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
	})
}

// Closing says how long a service takes to end at most, besides the two seconds of its listeners.
type closing struct {
	// inFlight is for candidates and finals: those that take longer begin anew with the next service.
	inFlight time.Duration
	// stuck is for what does not end at once when it is told to: the process ends without it.
	stuck time.Duration
}

// Close ends the service: campaigns end after the candidates in flight, when ctx ends at the
// latest or after 4 s, and go on with the next service.
func (s *Service) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.closing.inFlight)
	defer cancel()
	s.phase.Store("the service is ending")
	s.leave(ctx, "campaigns and operations", func() {
		if s.jobs != nil {
			var both sync.WaitGroup
			both.Go(s.ops.close)
			both.Go(func() { s.jobs.close(ctx) })
			both.Wait()
		}
	})
	s.end()
	s.listeners.Wait()
	s.store.Observe(nil)
	s.leave(ctx, "analyses", s.analyses.group.Wait)
	if s.state == nil {
		return nil
	}
	return errors.Join(s.fleet.close(), s.state.Close())
}

// leave waits until something has ended, but not for long after ctx ended.
func (s *Service) leave(ctx context.Context, what string, wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	select {
	case <-done:
	case <-time.After(s.closing.stuck):
		s.log.Error("the service ends without waiting any longer", "for", what)
	}
}

// tidy writes down once a minute which tokens were used, and forgets those that have long been
// invalid, and operations that have long ended.
func (s *Service) tidy() {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for last := false; !last; {
		s.pruneTokens(time.Now())
		s.ops.changing.Lock()
		err := s.ops.forget(time.Now())
		s.ops.changing.Unlock()
		if err != nil {
			s.log.Error("old operations are not forgotten", "error", err)
		}
		select {
		case <-tick.C:
		case <-s.ending.Done():
			last = true
		}
		if err := s.tokens.noteUse(); err != nil {
			s.log.Error("the service's state was not written", "error", err)
		}
	}
}

// pruneTokens forgets tokens that have long been invalid. The audit log tells which.
func (s *Service) pruneTokens(now time.Time) {
	gone, err := s.tokens.prune(now)
	if err == nil && len(gone) > 0 {
		var entries []api.AuditEntry
		for _, t := range gone {
			s.limits.forget(t.ID)
			entries = append(entries, api.AuditEntry{Time: now.UTC(), Token: t.Name, From: "the service", Action: "forget /v1/tokens/" + t.ID, Status: http.StatusOK})
		}
		err = s.audit.write(changesPart, entries...)
	}
	if err != nil {
		s.log.Error("the service's state was not written", "error", err)
	}
}

// privateKey is where a request's context says that it came over a private listener.
type privateKey struct{}

// callerKey is where it has the caller.
type callerKey struct{}

// A caller is who sent a request.
type caller struct {
	name  string
	scope api.Scope
	token string // its ID; empty for the socket
}

// callerOf is who sent a request, once it is authorized.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}
