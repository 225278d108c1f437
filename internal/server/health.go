package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.etcd.io/bbolt"

	"github.com/evotune/evotune/api"
)

// probePace is how often it is tried whether the disk can be written.
const probePace = 5 * time.Second

// A probe remembers whether the disk could be written.
type probe struct {
	mu   sync.Mutex
	when time.Time
	err  error
}

// health is the answer of both: there is nothing in it that a stranger could use.
type health struct {
	Status string `json:"status" enum:"ok"`
}

func (s *Service) healthRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/healthz", "health", "", "Whether the process answers"),
		func(context.Context, *struct{}) (*body[health], error) { return &body[health]{health{"ok"}}, nil })
	huma.Register(s.api, operation(http.MethodGet, "/readyz", "ready", "", "Whether campaigns are taken and kept", 503),
		func(context.Context, *struct{}) (*body[health], error) {
			if why := s.notReady(); why != "" {
				return nil, fail(http.StatusServiceUnavailable, api.Unavailable, why)
			}
			return &body[health]{health{"ok"}}, nil
		})
}

// notReady says why the service is not ready; empty when it is. What a disk says is for the
// logs, and not for everybody.
func (s *Service) notReady() string {
	if why, _ := s.phase.Load().(string); why != "" {
		return why
	}
	if err := s.writable(); err != nil {
		s.log.Error("the service is not ready", "error", err)
		return "the store cannot be written: the service's log says why"
	}
	return ""
}

// writable tries to write beside the store, now and then, and says what the store met.
func (s *Service) writable() error {
	if err := s.store.Writable(); err != nil || s.state == nil {
		return err
	}
	s.probe.mu.Lock()
	defer s.probe.mu.Unlock()
	if now := time.Now(); now.Sub(s.probe.when) > probePace {
		s.probe.when = now
		s.probe.err = s.state.change(func(tx *bbolt.Tx) error { return put(tx, probeBucket, "last", now.UTC()) })
	}
	return s.probe.err
}
