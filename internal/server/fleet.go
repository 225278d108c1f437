package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"go.etcd.io/bbolt"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/store"
)

const (
	// fleetDevice is what a submission names that workers are to evaluate.
	fleetDevice = "fleet"
	// fleetRoom is how many campaigns of the fleet run at once; workers are shared among them.
	fleetRoom = 1000
)

// Workers are those on other machines. Nil has none.
type workers struct {
	hub       *fleet.Hub
	transport fleet.Transport
	roster    *fleet.Roster
	over      sync.Map // campaigns that have ended without results for all that was asked
}

func newWorkers(s *Service, o Options) (*workers, error) {
	hashes, err := s.state.workers(workersBucket)
	if err != nil {
		return nil, err
	}
	drained, err := s.state.workers(drainedBucket)
	if err != nil {
		return nil, err
	}
	known, err := s.state.workers(knownBucket)
	if err != nil {
		return nil, err
	}
	w := &workers{}
	w.hub = fleet.New(fleet.Options{Version: build.Program(), Logger: s.log, Shelf: o.Shelf, Lease: o.lease, Drained: drained, Keep: s.state.keeper(drainedBucket), Known: known, Remember: s.state.keeper(knownBucket), Wanted: func(campaign, candidate string) bool {
		if _, over := w.over.Load(campaign); over {
			return false
		}
		if candidate == "" {
			return true
		}
		c, err := s.store.Candidate(candidate)
		return errors.Is(err, store.ErrNotFound) || err == nil && c.Told == nil
	}})
	w.roster = fleet.NewRoster(hashes, s.state.keeper(workersBucket))
	w.transport, err = o.Fleet(w.roster)
	if err == nil {
		err = w.transport.Serve(w.hub.Handle)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// ended notes whether the results of a campaign are of no more use.
func (w *workers) ended(campaign string, over bool) {
	if w != nil && over {
		w.over.Store(campaign, true)
	} else if w != nil {
		w.over.Delete(campaign)
	}
}

func (w *workers) close() error {
	if w == nil {
		return nil
	}
	w.hub.Close()
	if w.transport == nil {
		return nil
	}
	return w.transport.Close()
}

// workers are what a bucket has of each worker: the hashes of the secrets of those that are admitted, or
// why they are drained.
func (s *state) workers(bucket string) (map[string]string, error) {
	list := map[string]string{}
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucket)).ForEach(func(k, v []byte) error {
			list[string(k)] = string(v)
			return nil
		})
	})
	return list, err
}

// keeper keeps what a bucket has of a worker, or forgets the worker where that is empty.
func (s *state) keeper(bucket string) func(worker, what string) error {
	return func(worker, what string) error {
		return s.change(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(bucket))
			if what == "" {
				return b.Delete([]byte(worker))
			}
			return b.Put([]byte(worker), []byte(what))
		})
	}
}

// find is the device of workers that a submission asks for, or nil if it asks for none. One that
// names no device gets that of workers where the service has no GPU itself and they have.
func (w *workers) find(in *api.Submission, accelerated bool) (*evotune.FleetDevice, error) {
	on := in.Backend
	if in.Table != "" {
		on = evotune.Replay
	}
	name, wanted := strings.CutPrefix(in.Device, fleetDevice)
	wanted = wanted && (name == "" || name[0] == ':')
	switch {
	case w == nil && wanted:
		return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, "this service has no fleet: start it with `tune serve --fleet ADDRESS`", api.Detail{Location: "body.device", Message: "no fleet"})
	case w == nil, !wanted && in.Device != "":
		return nil, nil
	}
	any := on == "" || on == evotune.Auto
	var found []evotune.FleetDevice
	for _, b := range append([]string{evotune.Replay}, backend.Names()...) {
		if any && b != evotune.Replay || on == b {
			found = append(w.hub.Devices(b), found...) // what is preferred comes last
		}
	}
	if !wanted && (accelerated || !any && !backend.Of(on).Accelerator || len(found) == 0 || !backend.Of(found[0].Device.Kind).Accelerator) {
		return nil, nil
	}
	name = strings.TrimPrefix(name, ":")
	var best *evotune.FleetDevice
	for i, d := range found {
		if !strings.Contains(strings.ToLower(d.Device.Name), strings.ToLower(name)) && d.Device.Fingerprint != name {
			continue
		}
		if best == nil || d.Device.Kind == best.Device.Kind && d.Workers > best.Workers {
			best = &found[i]
		}
	}
	if best == nil {
		what := "the backend " + cmp.Or(on, evotune.Auto)
		if name != "" {
			what += fmt.Sprintf(" and the device %q", name)
		}
		return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, "no worker is enrolled with "+what+": start one with `tune worker`, or see GET /v1/fleet", api.Detail{Location: "body.device", Message: "no such worker"})
	}
	if any {
		in.Backend = best.Device.Kind
	}
	in.Device = fleetDevice
	best.Workers = min(best.Workers, cmp.Or(in.Workers, fleet.DefaultMost)) // the window is for so many
	return best, nil
}

// A WorkerRequest names a worker. It is exported since huma embeds only such types.
type WorkerRequest struct {
	Name string `path:"name" pattern:"^[A-Za-z0-9_-]{1,64}$"`
}

// fleetRoutes tell of workers, admit them and take them out.
func (s *Service) fleetRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/fleet", "fleet", api.Viewer, "The workers: devices, what they do, whether they agree"),
		func(context.Context, *struct{}) (*body[api.Fleet], error) {
			out := api.Fleet{Hosts: []evotune.FleetHost{}}
			if s.fleet != nil {
				out.Hosts, out.Waiting = s.fleet.hub.Hosts(), s.fleet.hub.Waiting()
			}
			return &body[api.Fleet]{out}, nil
		})
	admit := operation(http.MethodPost, "/v1/fleet/workers", "admit-worker", api.WorkerScope, "Admit a worker: what it connects with", 409)
	huma.Register(s.api, admit, func(ctx context.Context, in *struct{ Body api.NewWorker }) (*body[evotune.FleetAccess], error) {
		if s.fleet == nil {
			return nil, noFleet()
		}
		if s.fleet.roster.Check(in.Body.Name, in.Body.Secret) != nil { // it is not the worker of that name
			var taken fleet.Refusal
			if err := s.fleet.hub.Vacant(ctx, in.Body.Name); errors.As(err, &taken) {
				return nil, fail(http.StatusConflict, api.Conflict, err.Error())
			} else if err != nil {
				return nil, failed(err)
			}
		}
		a, err := s.fleet.transport.Admit(in.Body.Name)
		if full := fleet.Refusal(""); errors.As(err, &full) {
			return nil, fail(http.StatusConflict, api.Conflict, err.Error())
		}
		return &body[evotune.FleetAccess]{a}, failed(err)
	})
	huma.Register(s.api, operation(http.MethodPost, "/v1/fleet/workers/{name}/drain", "drain-worker", api.Admin, "Have a worker take nothing more, or go on", 404, 409),
		func(_ context.Context, in *struct {
			WorkerRequest
			Body api.Drain
		},
		) (*struct{}, error) {
			if s.fleet == nil {
				return nil, noFleet()
			}
			switch known, err := s.fleet.hub.Drain(in.Name, in.Body.Reason); {
			case err != nil:
				return nil, failed(err)
			case !known:
				return nil, noWorker(in.Name)
			}
			return &struct{}{}, nil
		})
	huma.Register(s.api, operation(http.MethodDelete, "/v1/fleet/workers/{name}", "expel-worker", api.Admin, "Take a worker's credential back: its candidates go elsewhere", 404, 409),
		func(_ context.Context, in *WorkerRequest) (*struct{}, error) {
			if s.fleet == nil {
				return nil, noFleet()
			}
			admitted, err := s.state.workers(workersBucket)
			if err != nil {
				return nil, failed(err)
			}
			// The credential first: the worker must not enrol again in between. One may have it who never did.
			if err := s.fleet.transport.Expel(in.Name); err != nil {
				return nil, failed(err)
			}
			if _, ok := admitted[in.Name]; !s.fleet.hub.Expel(in.Name) && !ok {
				return nil, noWorker(in.Name)
			}
			return &struct{}{}, nil
		})
}

func noFleet() error {
	return fail(http.StatusConflict, api.Conflict, "this service has no fleet: start it with `tune serve --fleet ADDRESS`")
}

func noWorker(name string) error {
	return fail(http.StatusNotFound, api.NotFound, fmt.Sprintf("no worker %q is enrolled: see GET /v1/fleet", name))
}
