package server

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/store"
)

// TestDiskHoldsNobody: whoever asks what is known of campaigns and operations does not wait for a disk
// that something else writes to.
func TestDiskHoldsNobody(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "s.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var service atomic.Pointer[Service]
	var writes, held atomic.Int64
	f := serveWith(t, Options{Store: s, Machine: &evotune.Machine{ReplayLatency: time.Millisecond}, touched: func() {
		s := service.Load()
		if s == nil || held.Load() > 0 {
			return
		}
		asked := make(chan bool)
		go func() {
			for _, mu := range []*sync.Mutex{&s.jobs.mu, &s.ops.mu} {
				mu.Lock()
				mu.Unlock() //nolint:staticcheck // it is asked whether it can be had
			}
			close(asked)
		}()
		select {
		case <-asked:
			writes.Add(1)
		case <-time.After(2 * time.Second):
			held.Add(1)
		}
	}})
	defer f.stop()
	service.Store(f.service)
	one, two := f.submit(1, 1000), f.submit(2, 20)
	urgent := 5
	f.do("PATCH", "/v1/campaigns/"+one.ID, api.Change{Priority: &urgent, Budget: &evotune.Budget{Evaluations: 500}}, nil, 200)
	for _, action := range []string{"pause", "resume", "cancel"} {
		f.do("POST", "/v1/campaigns/"+one.ID+"/"+action, nil, nil, 200)
	}
	best := f.until(two.ID, api.Finished).Best
	d, err := f.service.jobs.claim(t.Context(), "op-1", evotune.CPU)
	if err != nil {
		t.Fatal(err)
	}
	f.service.jobs.release(d, "op-1")
	a := f.begin("/v1/candidates/"+best+"/verify", api.Verify{})
	f.do("DELETE", "/v1/operations/"+a.ID, nil, nil, 200)
	if held.Load() > 0 || writes.Load() < 11 {
		t.Errorf("a lock that answers take was held during %d writes, and free during %d", held.Load(), writes.Load())
	}
}

// both takes the two locks, as whoever changes something has them in the end.
func (q *scheduler) both() (release func()) {
	q.changing.Lock()
	q.mu.Lock()
	return func() {
		q.mu.Unlock()
		q.changing.Unlock()
	}
}
