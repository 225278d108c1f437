package api

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/store"
)

// A Reader answers queries about a service's store exactly like the [store.Store].
type Reader struct {
	*Client
	ctx context.Context //nolint:containedctx // evotune.Reader takes none: the queries end with their caller
	who func() (Who, error)
}

var _ evotune.Reader = (*Reader)(nil)

// Reader returns a Reader of the service's store, until ctx ends.
func (c *Client) Reader(ctx context.Context) *Reader {
	return &Reader{c, ctx, sync.OnceValues(func() (Who, error) { return c.Who(ctx) })}
}

// Path returns the file of the store, or the address of the service if that may be on
// another machine.
func (r *Reader) Path() string {
	if !strings.HasPrefix(r.address, "unix:") {
		return r.address
	}
	who, err := r.who()
	if err != nil || who.Store == "" {
		return "the store"
	}
	return who.Store
}

// State returns the state of a campaign without an end in the log. For a process that runs
// one campaign and is not a service, it is Searching.
func (r *Reader) State(id string) (State, error) {
	who, err := r.who()
	if err != nil {
		return "", err
	}
	if !who.Service {
		return Searching, nil
	}
	c, err := r.Client.Campaign(r.ctx, id)
	return c.State, err
}

// Campaigns lists the campaigns, the oldest first.
func (r *Reader) Campaigns() ([]store.Campaign, error) {
	return get[[]store.Campaign](r.ctx, r.Client, nil, "log", "campaigns")
}

// Campaign finds a campaign by its ID or a unique beginning of it.
func (r *Reader) Campaign(id string) (store.Campaign, error) {
	return get[store.Campaign](r.ctx, r.Client, nil, "log", "campaigns", id)
}

// Candidate finds a candidate by its ID or a unique beginning of it.
func (r *Reader) Candidate(id string) (store.Candidate, error) {
	return get[store.Candidate](r.ctx, r.Client, nil, "candidates", id)
}

// Best lists correct candidates, the best first.
func (r *Reader) Best(q store.Query) ([]store.Candidate, error) {
	return get[[]store.Candidate](r.ctx, r.Client, queryOf(q), "ranking")
}

// Candidates lists candidates in the order of the log, page by page.
func (r *Reader) Candidates(q store.Query, from uint64) ([]store.Candidate, uint64, error) {
	query := queryOf(q)
	if from > 0 {
		query.Set("from", strconv.FormatUint(from, 10))
	}
	page, err := get[Candidates](r.ctx, r.Client, query, "candidates")
	return page.Items, page.Next, err
}

// Lineage gives a candidate and its ancestors.
func (r *Reader) Lineage(id string) (*store.Node, error) {
	l, err := get[Lineage](r.ctx, r.Client, nil, "candidates", id, "lineage")
	if err != nil {
		return nil, err
	}
	return l.Node()
}

// queryOf returns a query as URL parameters.
func queryOf(q store.Query) url.Values {
	v := url.Values{}
	for key, value := range map[string]string{"kernel": q.Kernel, "device": q.Device} {
		if value != "" {
			v.Set(key, value)
		}
	}
	if q.Campaign != "" {
		v.Add("campaign", q.Campaign)
	}
	v["campaign"] = append(v["campaign"], q.Campaigns...)
	v["shape"] = q.Shapes
	if q.ProvenOnly {
		v.Set("proven", "true")
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}
