package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// A SelectRequest is a [store.Query]. (Only exported types can be embedded in requests.)
type SelectRequest struct {
	Kernel    string   `query:"kernel" maxLength:"200"`
	Device    string   `query:"device" maxLength:"200" doc:"A fingerprint."`
	Shapes    []string `query:"shape,explode" maxItems:"100" doc:"Only campaigns that were tuned for exactly these shapes."`
	Campaigns []string `query:"campaign,explode" maxItems:"10000" doc:"Whole IDs: only candidates of these."`
	Proven    bool     `query:"proven" doc:"Only winners of finals."`
	Limit     int      `query:"limit" minimum:"0" maximum:"10000" doc:"0: the default."`
}

func (r SelectRequest) query() store.Query {
	q := store.Query{Kernel: r.Kernel, Device: r.Device, Shapes: r.Shapes, ProvenOnly: r.Proven, Limit: r.Limit}
	if len(r.Campaigns) == 1 {
		q.Campaign = r.Campaigns[0]
	} else {
		q.Campaigns = r.Campaigns
	}
	return q
}

type pageRequest struct {
	SelectRequest
	From uint64 `query:"from" doc:"The event to begin with: the last answer's next."`
}

type sourceRequest struct {
	One
	Against string `query:"against" maxLength:"200" doc:"baseline, parent (the first), or a candidate: gives its source as well."`
}

// candidateRoutes tell what the store has, as it has it: a client answers with them what a
// [store.Store] does.
func (s *Service) candidateRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/log/campaigns", "logged-campaigns", api.Viewer, "All campaigns as the store has them, the oldest first"),
		func(context.Context, *struct{}) (*body[[]store.Campaign], error) {
			list, err := s.reader.Campaigns()
			return &body[[]store.Campaign]{list}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/log/campaigns/{id}", "logged-campaign", api.Viewer, "One campaign as the store has it, with its payloads", 404, 409, 422),
		func(_ context.Context, in *One) (*body[store.Campaign], error) {
			c, err := s.reader.Campaign(in.ID)
			return &body[store.Campaign]{c}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/candidates", "candidates", api.Viewer, "Candidates in the order of the log, page by page", 404, 422),
		func(_ context.Context, in *pageRequest) (*body[api.Candidates], error) {
			var page api.Candidates
			var err error
			page.Items, page.Next, err = s.reader.Candidates(in.query(), in.From)
			return &body[api.Candidates]{page}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/ranking", "ranking", api.Viewer, "The correct candidates with the smallest fitness", 404, 422),
		func(_ context.Context, in *SelectRequest) (*body[[]store.Candidate], error) {
			list, err := s.reader.Best(in.query())
			return &body[[]store.Candidate]{list}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/candidates/{id}", "candidate", api.Viewer, "One candidate as the store has it, with its payloads", 404, 409, 422),
		func(_ context.Context, in *One) (*body[store.Candidate], error) {
			c, err := s.reader.Candidate(in.ID)
			return &body[store.Candidate]{c}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/candidates/{id}/evidence", "evidence", api.Viewer, "All that was seen of a candidate: checks, raw samples, its part in the finals", 404, 409, 422),
		func(_ context.Context, in *One) (*body[api.Found], error) {
			c, err := s.reader.Candidate(in.ID)
			if err != nil {
				return nil, failed(err)
			}
			v, err := api.EvidenceOf(c)
			return &body[api.Found]{v}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/candidates/{id}/lineage", "lineage", api.Viewer, "A candidate with all its ancestors", 404, 409, 422),
		func(_ context.Context, in *One) (*body[api.Lineage], error) {
			n, err := s.reader.Lineage(in.ID)
			if err != nil {
				return nil, failed(err)
			}
			return &body[api.Lineage]{api.LineageOf(n)}, nil
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/candidates/{id}/children", "children", api.Viewer, "The candidates that were made of one, the oldest first", 404, 409, 422),
		scanning(s, func(_ context.Context, in *One) (*body[[]store.Candidate], error) {
			list, err := s.store.Children(in.ID)
			if list == nil {
				list = []store.Candidate{}
			}
			return &body[[]store.Candidate]{list}, failed(err)
		}))
	huma.Register(s.api, operation(http.MethodGet, "/v1/candidates/{id}/source", "source", api.Viewer, "The source of a candidate, rendered again, and that of another to hold it against", 404, 409, 422),
		func(_ context.Context, in *sourceRequest) (*body[api.Source], error) {
			out, err := s.source(in.ID, in.Against)
			return &body[api.Source]{out}, failed(err)
		})
}

// source renders a candidate and what it is held against.
func (s *Service) source(id, against string) (out api.Source, err error) {
	c, err := s.reader.Candidate(id)
	if err != nil {
		return out, err
	}
	out.Candidate = c.ID
	if out.Language, out.Source, err = s.rendered(c); err != nil {
		return out, err
	}
	switch against {
	case "":
		return out, nil
	case "baseline":
		out.Against = against
		out.Other, err = s.baseline(c)
		return out, err
	case "parent":
		if len(c.Asked.Parents) == 0 {
			return out, fail(http.StatusNotFound, api.NotFound, fmt.Sprintf("candidate %s has no parent: it was made by %q", c.ID, c.Asked.Operator), api.Detail{Location: "query.against", Message: "there is none"})
		}
		against = c.Asked.Parents[0]
	}
	other, err := s.reader.Candidate(against)
	if err != nil {
		return out, err
	}
	out.Against = other.ID
	_, out.Other, err = s.rendered(other)
	return out, err
}

// rendered is the source of a candidate in one file, as `tune show --source` prints it.
func (s *Service) rendered(c store.Candidate) (language, text string, err error) {
	t, err := s.target(c.Campaign)
	if err != nil {
		return "", "", err
	}
	src, err := t.Render(c.Asked.Genome)
	if err != nil {
		return "", "", err
	}
	if c.Told != nil {
		r, err := record.ReadResult(c.Told)
		if err != nil {
			return "", "", err
		}
		if r.Source != "" && r.Source != src.Hash {
			return "", "", fail(http.StatusConflict, api.Conflict, fmt.Sprintf("candidate %s renders to another source than the one that was judged (%.12s, now %.12s): the kernel %s has changed since", c.ID, r.Source, src.Hash, c.Kernel))
		}
	}
	return strings.ToLower(backend.Of(src.Implementation.Backend).Language), fmt.Sprintf("// candidate: %s\n// genome: %s\n// flags: %s\n", c.ID, src.Genome, strings.Join(src.Flags, " ")) +
		src.Directives(src.Entry) + src.SelfContained(), nil
}

// baseline is the source that a candidate was timed against.
func (s *Service) baseline(c store.Candidate) (string, error) {
	t, err := s.target(c.Campaign)
	if err != nil {
		return "", err
	}
	of, err := s.reader.Campaign(c.Campaign)
	if err != nil {
		return "", err
	}
	d, err := record.ReadDescription(of.ID, &of.Started)
	if err != nil {
		return "", err
	}
	src, err := t.RenderBaseline(d.Baseline)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("// baseline of: %s\n// flags: %s\n", c.Kernel, strings.Join(src.Flags, " ")) + src.SelfContained(), nil
}

// target is that of a stored campaign, by the kernel as it is now. One that has changed may
// still render what was measured.
func (s *Service) target(campaign string) (*evotune.Target, error) {
	c, err := s.reader.Campaign(campaign)
	if err != nil {
		return nil, err
	}
	t, err := s.tools.Recorded(c)
	if t != nil {
		return t, nil //nolint:nilerr // who renders holds the hashes against each other
	}
	return nil, err
}
