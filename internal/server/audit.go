package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"
	"go.etcd.io/bbolt"

	"github.com/evotune/evotune/api"
)

const (
	// mostChanges and mostRefused are how many entries the audit log keeps, the newest, of
	// requests that changed something and of refused ones. Whoever may do nothing can send as
	// many of the latter as he likes, and must not push out the former.
	mostChanges = 100_000
	mostRefused = 20_000
	// auditQueue is how many entries of refused requests wait to be written; more are counted alone.
	auditQueue = 256
)

// The parts of the audit log.
const (
	changesPart = "changes"
	refusedPart = "refused"
)

// Audit is the audit log, in the service's state.
type audit struct {
	state *state
	log   *slog.Logger

	most    map[string]int // of each part
	refused chan api.AuditEntry
	dropped atomic.Int64

	mu    sync.Mutex
	count map[string]int // of each part, what is written
}

// openAudit counts what there is.
func openAudit(s *state, log *slog.Logger) (*audit, error) {
	a := &audit{state: s, log: log, refused: make(chan api.AuditEntry, auditQueue), count: map[string]int{}, most: map[string]int{changesPart: mostChanges, refusedPart: mostRefused}}
	return a, s.change(func(tx *bbolt.Tx) error {
		for part := range a.most {
			b, err := tx.Bucket([]byte(auditBucket)).CreateBucketIfNotExists([]byte(part))
			if err != nil {
				return err
			}
			a.count[part] = b.Stats().KeyN
		}
		return nil
	})
}

// note keeps an entry: durably when something was changed, and soon when a request was
// refused, of which there may be many.
func (a *audit) note(e api.AuditEntry, refused bool) {
	if refused {
		select {
		case a.refused <- e:
		default:
			a.dropped.Add(1)
		}
		return
	}
	if err := a.write(changesPart, e); err != nil {
		a.log.Error("the audit log was not written", "request", e.Request, "error", err)
	}
}

// write adds entries to a part and removes as many of its oldest as there are too many.
func (a *audit) write(part string, entries ...api.AuditEntry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.count[part]
	err := a.state.change(func(tx *bbolt.Tx) error {
		all := tx.Bucket([]byte(auditBucket))
		b := all.Bucket([]byte(part))
		for _, e := range entries {
			seq, err := all.NextSequence()
			if err != nil {
				return err
			}
			e.Seq = seq
			text, err := json.Marshal(e)
			if err != nil {
				return err
			}
			if err := b.Put(binary.BigEndian.AppendUint64(nil, seq), text); err != nil {
				return err
			}
			n++
		}
		for c := b.Cursor(); n > a.most[part]; n-- {
			if k, _ := c.First(); k == nil {
				break
			}
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		a.count[part] = n
	}
	return err
}

// writeRefused writes what waits, until ctx ends.
func (a *audit) writeRefused(ctx context.Context) {
	for last := false; !last; {
		var entries []api.AuditEntry
		select {
		case e := <-a.refused:
			entries = append(entries, e)
		case <-ctx.Done():
			last = true
		}
		for more := true; more && len(entries) < auditQueue; {
			select {
			case e := <-a.refused:
				entries = append(entries, e)
			default:
				more = false
			}
		}
		if len(entries) > 0 {
			if err := a.write(refusedPart, entries...); err != nil {
				a.log.Error("the audit log was not written", "error", err)
			}
		}
		if n := a.dropped.Swap(0); n > 0 {
			a.log.Warn("requests were refused faster than they could be noted", "not_noted", n)
		}
	}
}

// read gives the entries before one, the newest first; 0 means all.
func (a *audit) read(before uint64, limit int) (list []api.AuditEntry, err error) {
	list = []api.AuditEntry{}
	err = a.state.db.View(func(tx *bbolt.Tx) error {
		type place struct {
			c    *bbolt.Cursor
			k, v []byte
		}
		var places []*place
		for part := range a.most {
			p := &place{c: tx.Bucket([]byte(auditBucket)).Bucket([]byte(part)).Cursor()}
			if before == 0 {
				p.k, p.v = p.c.Last()
			} else if k, _ := p.c.Seek(binary.BigEndian.AppendUint64(nil, before)); k == nil {
				p.k, p.v = p.c.Last()
			} else {
				p.k, p.v = p.c.Prev()
			}
			places = append(places, p)
		}
		for len(list) < limit {
			var next *place
			for _, p := range places {
				if p.k != nil && (next == nil || string(p.k) > string(next.k)) {
					next = p
				}
			}
			if next == nil {
				return nil
			}
			var e api.AuditEntry
			if err := json.Unmarshal(next.v, &e); err != nil {
				return err
			}
			list = append(list, e)
			next.k, next.v = next.c.Prev()
		}
		return nil
	})
	return list, err
}

type auditRequest struct {
	Cursor string `query:"cursor" maxLength:"40" doc:"Next of the page before."`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
}

func (s *Service) auditRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/audit", "audit", api.Admin, "Requests that changed something or were refused, the newest first", 409, 422),
		func(_ context.Context, in *auditRequest) (*body[api.Page[api.AuditEntry]], error) {
			if err := s.takesCampaigns(); err != nil {
				return nil, err
			}
			before := uint64(0)
			if in.Cursor != "" {
				b := []byte(cursorText(in.Cursor))
				if len(b) != 8 || binary.BigEndian.Uint64(b) == 0 {
					return nil, noCursor()
				}
				before = binary.BigEndian.Uint64(b)
			}
			list, err := s.audit.read(before, in.Limit+1)
			page := api.Page[api.AuditEntry]{Items: list}
			if len(list) > in.Limit {
				page.Items = list[:in.Limit]
				page.Next = cursorOf(string(binary.BigEndian.AppendUint64(nil, page.Items[in.Limit-1].Seq)))
			}
			return &body[api.Page[api.AuditEntry]]{page}, failed(err)
		})
}
