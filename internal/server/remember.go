package server

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/evotune/evotune/store"
)

// Remembered is a store that does not read again of its campaigns what has not changed: every
// question begins with the list of them. It looks at each event once. What it gives is shared
// and must not be changed.
type remembered struct {
	*store.Store

	mu   sync.Mutex
	last uint64                    // events up to it were looked at
	list map[string]store.Campaign // by ID, without payloads
	full map[string]store.Campaign // with them
}

// maxFull is how many campaigns are kept with their payloads.
const maxFull = 256

func newRemembered(s *store.Store) *remembered {
	r := &remembered{Store: s}
	r.forget()
	return r
}

// forget reads everything again: campaigns have been taken out of the store.
func (r *remembered) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.list, r.full = 0, map[string]store.Campaign{}, map[string]store.Campaign{}
}

// catchUp reads the campaigns again that have new events. The caller holds the lock.
func (r *remembered) catchUp() error {
	last, err := r.Last()
	if err != nil || last == r.last {
		return err
	}
	if r.last == 0 {
		all, err := r.Store.Campaigns()
		if err != nil {
			return err
		}
		for _, c := range all {
			r.list[c.ID] = c
		}
		r.last = last // what has come since is looked at once more
		return nil
	}
	changed := map[string]bool{}
	for e, err := range r.Events("", r.last+1, store.WithoutDetail()) {
		if err != nil {
			return err
		}
		changed[e.Campaign], last = true, e.Seq
	}
	for id := range changed {
		c, err := r.Store.Campaign(id)
		if err != nil {
			return err
		}
		r.keep(c)
		c.Started.Config, c.Started.Description = nil, nil
		if c.Finals != nil {
			finals := *c.Finals
			finals.Detail = nil
			c.Finals = &finals
		}
		r.list[id] = c
	}
	r.last = last
	return nil
}

// keep keeps a campaign with its payloads. The caller holds the lock.
func (r *remembered) keep(c store.Campaign) {
	if len(r.full) >= maxFull {
		clear(r.full)
	}
	r.full[c.ID] = c
}

// Campaigns lists the campaigns, the oldest first.
func (r *remembered) Campaigns() ([]store.Campaign, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.catchUp(); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(r.list), func(a, b store.Campaign) int { return cmp.Compare(a.First, b.First) }), nil
}

// Campaign finds a campaign by its ID or a unique beginning of it.
func (r *remembered) Campaign(id string) (store.Campaign, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.catchUp(); err != nil {
		return store.Campaign{}, err
	}
	if c, known := r.full[id]; known {
		return c, nil
	}
	c, err := r.Store.Campaign(id)
	if err == nil && c.Last <= r.last {
		r.keep(c)
	}
	return c, err
}

// brief is a campaign without payloads, by its whole ID.
func (r *remembered) brief(id string) (store.Campaign, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.catchUp() != nil {
		return store.Campaign{}, false // who asks has the campaign as it was before
	}
	c, known := r.list[id]
	return c, known
}
