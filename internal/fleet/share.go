package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evotune/evotune/evaluator/share"
)

// Workers share what they compile: the coordinator keeps it, and has it for the next one that needs the
// same. Without the coordinator a worker compiles, and that is all: nothing here is an error of a candidate.

const (
	// mostShelf is how long a worker waits for compiled code: a large kernel compiles about as long. What it hands
	// over gets more time by its size: as much as a slow link or a busy coordinator needs for a megabyte.
	mostShelf    = 5 * time.Second
	mostShelfMiB = 10 * time.Second
	// restShelf is how long it asks no more when nothing was answered.
	restShelf = 30 * time.Second
)

// Traffic counts what became of compiled code.
type Traffic struct {
	// Hits and Misses count requests that found an entry and that did not, Kept entries that
	// workers handed over.
	Hits, Misses, Kept int64
}

type traffic struct{ hits, misses, kept atomic.Int64 }

// Traffic is that of all workers since the hub was made.
func (h *Hub) Traffic() Traffic {
	return Traffic{h.traffic.hits.Load(), h.traffic.misses.Load(), h.traffic.kept.Load()}
}

// shared is an entry of compiled code, empty when there is none.
func (h *Hub) shared(ctx context.Context, n name) []byte {
	var entry []byte
	if h.o.Shelf != nil {
		entry = h.o.Shelf.Get(ctx, n.Kind, n.Key)
	}
	if entry == nil {
		h.traffic.misses.Add(1)
	} else {
		h.traffic.hits.Add(1)
	}
	return entry
}

// keep takes an entry from a worker that others may rely on: its results count as much.
func (h *Hub) shelve(ctx context.Context, worker string, body []byte) error {
	line, entry, _ := bytes.Cut(body, []byte{'\n'})
	var n name
	if err := json.Unmarshal(line, &n); err != nil {
		return Refusal("the request cannot be read: " + err.Error())
	}
	h.mu.Lock()
	x := h.hosts[worker]
	trusted := x != nil && x.drained == ""
	h.mu.Unlock()
	if _, err := share.Open(n.Kind, n.Key, entry, nil); err != nil {
		return Refusal("the compiled code is not taken: " + err.Error())
	}
	if h.o.Shelf == nil || !trusted || len(entry) > share.MaxEntry {
		return Refusal("the compiled code is not taken: the coordinator keeps none, or none of this worker, or none so large")
	}
	h.o.Shelf.Put(ctx, n.Kind, n.Key, entry)
	h.traffic.kept.Add(1)
	return nil
}

// A shelf is the coordinator's as a worker has it.
type shelf struct {
	worker             *worker
	hits, misses, kept atomic.Int64

	mu    sync.Mutex
	until time.Time // when it asks again
}

var _ share.Shelf = (*shelf)(nil)

// lend gives the shelf to the evaluation of a kind of task. An evaluation that another host is checked
// by compiles itself: else code that one host has compiled wrongly would confirm itself.
func (s *shelf) lend(ctx context.Context, kind string) context.Context {
	switch kind {
	case kindCandidate, kindFinals:
		return share.With(ctx, s)
	case kindAgain:
		return share.Anew(ctx)
	}
	return ctx
}

// Get implements [share.Shelf].
func (s *shelf) Get(ctx context.Context, kind, key string) []byte {
	body, err := json.Marshal(fetch{name: name{kind, key}})
	var entry []byte
	if err == nil {
		entry = s.ask(ctx, Fetch, body)
	}
	if len(entry) == 0 || len(entry) > share.MaxEntry {
		s.misses.Add(1)
		return nil
	}
	s.hits.Add(1)
	return entry
}

// Put implements [share.Shelf].
func (s *shelf) Put(ctx context.Context, kind, key string, entry []byte) {
	line, err := json.Marshal(name{kind, key})
	if err != nil || len(entry) > share.MaxEntry {
		return
	}
	if s.ask(ctx, Keep, bytes.Join([][]byte{line, entry}, []byte{'\n'})) != nil {
		s.kept.Add(1)
	}
}

// ask asks the coordinator once; nil means that it has not answered, or refuses.
func (s *shelf) ask(ctx context.Context, verb Verb, body []byte) []byte {
	s.mu.Lock()
	rests := time.Now().Before(s.until)
	s.mu.Unlock()
	link := s.worker.linked()
	if rests || link == nil {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, mostShelf+mostShelfMiB*time.Duration(len(body))/(1<<20))
	defer cancel()
	answer, err := link.Request(asking, verb, body)
	var refused Refusal
	switch {
	case err == nil:
		s.worker.heard.Store(time.Now().UnixNano())
		return append([]byte{}, answer...) // not nil
	case !errors.As(err, &refused) && ctx.Err() == nil:
		s.mu.Lock()
		s.until = time.Now().Add(restShelf)
		s.mu.Unlock()
		s.worker.log.Debug("compiled code is not shared for a while", "for", restShelf, "error", err)
	}
	return nil
}

// tell says what was shared since it was asked last.
func (s *shelf) tell() string {
	return fmt.Sprintf("%d from other workers, %d compiled here, %d of them for others", s.hits.Swap(0), s.misses.Swap(0), s.kept.Swap(0))
}
