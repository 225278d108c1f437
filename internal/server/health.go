package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.etcd.io/bbolt"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/store"
)

const (
	// probePace is how often it is tried whether the disk can be written.
	probePace = 5 * time.Second
	// probeRoom is how much must fit, in bytes: what a campaign writes in some minutes.
	probeRoom = 4 << 20
)

// A probe remembers whether the disk could be written.
type probe struct {
	pace time.Duration // probePace; tests shorten it

	// waits says that something may wait for room. Whoever asks whether there is some may be the first to
	// learn so, and lets nothing go on: watchRoom does.
	waits atomic.Bool

	mu   sync.Mutex
	when time.Time
	err  error
}

// failed notes that something could not be written.
func (p *probe) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.when, p.err = time.Now(), err
	p.waits.Store(true)
}

// known is what is known without trying.
func (p *probe) known() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
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
		if errors.Is(err, store.ErrFull) {
			return noRoom
		}
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
	if now := time.Now(); now.Sub(s.probe.when) > s.probe.pace {
		s.probe.when = now
		s.probe.err = s.state.change(func(tx *bbolt.Tx) error { return put(tx, probeBucket, "last", now.UTC()) })
		if s.probe.err == nil {
			s.probe.err = fits(s.store.Path()+".probe", probeRoom)
		}
		if s.probe.err != nil {
			s.probe.waits.Store(true)
		}
	}
	return s.probe.err
}

// fits tries whether a file of a size can be written. Files that are written already have pages that
// are free, so that a full disk does not show in them at once.
func fits(path string, size int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(make([]byte, size))
		err = errors.Join(err, f.Close(), os.Remove(path))
	}
	return cmp.Or(store.Full(err), err)
}

// watchRoom lets campaigns that waited for room go on when there is some.
func (s *Service) watchRoom() {
	tick := time.NewTicker(s.probe.pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ending.Done():
			return
		}
		if !s.probe.waits.Swap(false) {
			continue
		}
		if s.writable() != nil {
			s.probe.waits.Store(true)
			continue
		}
		s.log.Info("there is room on the disk again: campaigns go on")
		s.jobs.schedule()
	}
}
