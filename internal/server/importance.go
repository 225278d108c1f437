package server

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
)

const (
	// patient is how long a request waits for an analysis, which goes on without it.
	patient = 20 * time.Second
	// maxAnalyses is how many are kept.
	maxAnalyses = 64
	// maxPending is how many wait to be made: each takes a while, and goes on when nobody waits
	// for it any more.
	maxPending = 16
)

type importanceRequest struct {
	One
	Best  float64 `query:"best" default:"1" exclusiveMinimum:"0" maximum:"1" doc:"What matters among this share of the candidates, the best."`
	Pairs int     `query:"pairs" default:"5" minimum:"0" maximum:"1000" doc:"The pairs with the largest shares."`
}

// importanceRoutes tell which genes matter.
func (s *Service) importanceRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/campaigns/{id}/importance", "importance", api.Viewer,
		"Which genes matter, and how. Takes a while: 503 with Retry-After means that it is still being computed", 404, 409, 422, 503),
		func(ctx context.Context, in *importanceRequest) (*body[evotune.Importance], error) {
			if math.IsNaN(in.Best) { // which no bound refuses
				return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, "best is not a number: give a share above 0 and at most 1", api.Detail{Location: "query.best", Message: "not a number"})
			}
			c, err := s.logged(in.ID)
			if err != nil {
				return nil, failed(err)
			}
			v, err := s.analyses.get(ctx, s, analysisKey{c.ID, in.Best}, c.Last)
			if err != nil {
				return nil, failed(err)
			}
			v.Pairs = v.Pairs[:min(in.Pairs, len(v.Pairs))]
			return &body[evotune.Importance]{v}, nil
		})
}

type analysisKey struct {
	campaign string
	best     float64
}

// An analysis is one that was made or is being made, of the events up to last.
type analysis struct {
	last uint64
	done chan struct{} // closed when it is
	evotune.Importance
	err error
}

// Analyses keeps what was computed until there is something new.
type analyses struct {
	mu      sync.Mutex
	of      map[analysisKey]*analysis
	pending int // that are being made or wait for it
	group   sync.WaitGroup
}

// get gives the analysis of the events up to last. One of fewer events that is being made will
// do: a campaign that runs has always new ones.
func (l *analyses) get(ctx context.Context, s *Service, key analysisKey, last uint64) (evotune.Importance, error) {
	l.mu.Lock()
	a := l.of[key]
	busy := func() error {
		return huma.ErrorWithHeaders(
			fail(http.StatusServiceUnavailable, api.Unavailable, "the analysis is still being computed: ask again"), http.Header{"Retry-After": {"5"}})
	}
	if a == nil || a.last != last && a.ready() {
		if l.pending >= maxPending {
			l.mu.Unlock()
			return evotune.Importance{}, busy()
		}
		l.pending++
		if l.of == nil || len(l.of) >= maxAnalyses {
			l.of = map[analysisKey]*analysis{} // those that are being made are still waited for
		}
		a = &analysis{last: last, done: make(chan struct{})}
		l.of[key] = a
		l.group.Go(func() {
			defer close(a.done)
			defer func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.pending--
			}()
			var leave func()
			if leave, a.err = s.heavily(s.ending); a.err != nil {
				return
			}
			defer leave()
			a.Importance, a.err = s.tools.Importance(s.store, key.campaign, evotune.ImportanceOptions{Best: key.best})
		})
	}
	l.mu.Unlock()
	select {
	case <-a.done:
		v := a.Importance
		if a.Analysis != nil {
			whole := *a.Analysis // who gets it shortens the list of pairs
			v.Analysis = &whole
		}
		return v, a.err
	case <-ctx.Done():
		return evotune.Importance{}, ctx.Err()
	case <-time.After(patient):
		return evotune.Importance{}, busy()
	}
}

func (a *analysis) ready() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}
