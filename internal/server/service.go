package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/store"
)

// Options say what a service serves, and how.
type Options struct {
	// Store is open for writing. Who made it closes it, after Service.Close.
	Store *store.Store
	// Machine evaluates. Nil makes a service that answers questions and takes no campaigns:
	// that of one `tune run`, which holds the store.
	Machine *evotune.Machine
	// GPUs are the devices that campaigns are placed on, as in cuda.Options.Devices; nil
	// means that there are none.
	GPUs []string
	// Logger takes what happens. Nil means slog.Default.
	Logger *slog.Logger
}

// A Service serves a store: its handlers, its campaigns, and who may do what.
type Service struct {
	store    *store.Store
	reader   *remembered
	machine  *evotune.Machine // nil: questions alone
	tools    *evotune.Machine // machine, or one for questions
	log      *slog.Logger
	state    *state      // nil without a machine
	jobs     *scheduler  // nil without a machine
	ops      *operations // nil without a machine
	heavy    gate        // what takes much memory
	streams  *streams
	kernels  *library
	charts   *charts
	analyses analyses
	api      huma.API
	handler  http.Handler

	ending    context.Context // ends with the service
	end       context.CancelFunc
	listeners sync.WaitGroup
}

// New makes a service, which goes on with every campaign that it had when it ended. The
// error is one of the store, or store.ErrLocked when another process serves it.
func New(o Options) (*Service, error) {
	s := &Service{store: o.Store, reader: newRemembered(o.Store), machine: o.Machine, log: o.Logger, streams: newStreams(o.Store), charts: newCharts(o.Store), heavy: make(gate, 1)}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.tools = o.Machine; s.tools == nil {
		s.tools = &evotune.Machine{}
	}
	s.kernels = newLibrary(s.tools)
	s.ending, s.end = context.WithCancel(context.Background())
	if o.Machine != nil {
		var err error
		if s.state, err = openState(o.Store.Path() + ".service"); err != nil {
			return nil, err
		}
		if err = s.kernels.open(s.state, o.Store.Path()); err != nil {
			return nil, errors.Join(err, s.state.Close())
		}
		if s.jobs, err = newScheduler(s, o.GPUs); err != nil {
			return nil, errors.Join(err, s.state.Close())
		}
		if s.ops, err = newOperations(s); err != nil {
			return nil, errors.Join(err, s.state.Close())
		}
	}
	s.handler = s.routes()
	if s.jobs != nil {
		s.jobs.schedule()
		s.ops.start()
	}
	return s, nil
}

// Handler answers every request; requests of a listener that Listen was told is private are
// an admin's.
func (s *Service) Handler() http.Handler { return s.handler }

// Listen answers on a listener until Close. What comes over a private one, a socket that its
// file mode protects, needs no token.
func (s *Service) Listen(l net.Listener, private bool) {
	srv := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
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

// Close ends the service: campaigns end after the candidates in flight, at once when ctx
// ends, and go on with the next service.
func (s *Service) Close(ctx context.Context) error {
	if s.jobs != nil {
		s.ops.close()
		s.jobs.close(ctx)
	}
	s.end()
	s.listeners.Wait()
	s.analyses.group.Wait()
	if s.state == nil {
		return nil
	}
	return s.state.Close()
}

// privateKey is where a request's context says that it came over a private listener.
type privateKey struct{}

// callerKey is where it has the caller.
type callerKey struct{}

// A caller is who sent a request.
type caller struct {
	name  string
	scope api.Scope
}

// callerOf is who sent a request, once it is authorized.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}
