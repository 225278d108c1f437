package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

type bestRequest struct {
	Kernel string   `query:"kernel" required:"true" minLength:"1" maxLength:"200"`
	Device string   `query:"device" maxLength:"200" doc:"A name or a part of it, the beginning of a fingerprint, a UUID, or auto for the server's. Default: any."`
	Shapes []string `query:"shape,explode" maxItems:"100" doc:"One by its dimensions (B=2,H=8,...) or its name, or the names of several that were tuned for together. Default: any."`
	DType  string   `query:"dtype" maxLength:"20" doc:"For problems with buffers of this type. Default: any."`
	Proven bool     `query:"proven" doc:"Only winners of finals."`
	Top    int      `query:"top" default:"1" minimum:"1" maximum:"1000" doc:"How many."`
}

type queryRequest struct {
	Where    string `query:"where" required:"true" minLength:"1" maxLength:"4000" doc:"A condition over the fields of a candidate; docs/ask.md lists them. For all: true."`
	Kernel   string `query:"kernel" maxLength:"200"`
	Campaign string `query:"campaign" maxLength:"200" doc:"An ID, or a unique beginning of it."`
	Sort     string `query:"sort" maxLength:"200" doc:"A field or genome.NAME, the smallest first; with - before it the largest."`
	Limit    int    `query:"limit" default:"20" minimum:"1" maximum:"100000"`
	Count    bool   `query:"count" doc:"Only say how many there are."`
}

// answerRoutes answer questions.
func (s *Service) answerRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/best", "best", api.Viewer, "The best candidates of a kernel, or the nearest", 404, 422),
		func(ctx context.Context, in *bestRequest) (*body[api.Answers], error) {
			q := evotune.Question{Kernel: in.Kernel, Device: in.Device, Shapes: in.Shapes, DType: kernels.DType(in.DType), Proven: in.Proven, Limit: in.Top}
			if in.DType != "" || len(in.Shapes) > 0 {
				// Of a kernel that is not known (any more), the machine says what it makes of that.
				q.Definition, _ = s.kernels.get(in.Kernel)
			}
			found, err := s.tools.Best(ctx, s.reader, q)
			return &body[api.Answers]{api.Answers{Answers: api.AnswersOf(found)}}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/query", "query", api.Viewer, "The candidates that meet a condition", 404, 409, 422),
		scanning(s, func(ctx context.Context, in *queryRequest) (*body[api.Matches], error) {
			o := evotune.Selection{Where: in.Where, Kernel: in.Kernel, Campaign: in.Campaign, Sort: in.Sort, Limit: in.Limit, Count: in.Count}
			if err := o.Check(); err != nil {
				return nil, failed(err)
			}
			found, err := evotune.Select(abandonable{s.reader, ctx}, o)
			out := api.Matches{Items: api.MatchesOf(found), Count: found.Matched, Candidates: found.Of, Genes: append([]string{}, found.Genes...)}
			return &body[api.Matches]{out}, failed(err)
		}))
	huma.Register(s.api, operation(http.MethodGet, "/v1/leaderboard", "leaderboard", api.Viewer, "The best by kernel, device and shapes"),
		func(context.Context, *struct{}) (*body[[]api.LeaderboardRow], error) {
			rows, err := s.leaderboard()
			return &body[[]api.LeaderboardRow]{rows}, failed(err)
		})
}

// An abandonable reader stops looking at candidates when nobody waits any more.
type abandonable struct {
	evotune.Reader
	ctx context.Context //nolint:containedctx // it lives as long as the request
}

func (r abandonable) Candidates(q store.Query, from uint64) ([]store.Candidate, uint64, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, 0, err
	}
	return r.Reader.Candidates(q, from)
}

// leaderboard lists the best of each kernel, device and set of shapes: winners of finals
// first, of these the significant ones, then by time relative to the baseline, or by the time itself
// where that was measured against different ones.
func (s *Service) leaderboard() ([]api.LeaderboardRow, error) {
	all, err := s.reader.Campaigns()
	if err != nil {
		return nil, err
	}
	rank := func(r api.LeaderboardRow) int {
		switch {
		case !r.Proven:
			return 2
		case !r.Significant:
			return 1
		}
		return 0
	}
	best, of := map[string]api.LeaderboardRow{}, map[string][]api.LeaderboardRow{}
	for _, c := range all {
		id, f := record.CampaignFigures(c)
		if id == "" || f.Fitness <= 0 {
			continue
		}
		row := api.LeaderboardRow{
			Kernel: c.Started.Kernel, Backend: c.Started.Backend, Device: c.Started.Device, DeviceName: c.Started.Name, Shapes: slices.Sorted(slices.Values(c.Started.Shapes)),
			Candidate: id, Campaign: c.ID, Speedup: f.Speedup(), MedianNS: f.MedianNS, BaselineNS: f.BaselineNS,
			Measured: f.From, Proven: f.From == record.FromFinals && f.Unproven == "", Significant: f.Significant, Unproven: f.Unproven,
		}
		key := strings.Join(append([]string{row.Kernel, row.Device}, row.Shapes...), "\n")
		of[key] = append(of[key], row)
	}
	for key, rows := range of {
		one := true
		if d, err := s.kernels.get(rows[0].Kernel); len(rows) > 1 && (err != nil || d.BaselineVaries()) {
			var ids []string
			for _, row := range rows {
				ids = append(ids, row.Campaign)
			}
			if one, err = record.OneBaseline(s.reader.Campaign, ids); err != nil {
				return nil, err
			}
		}
		best[key] = slices.MinFunc(rows, func(a, b api.LeaderboardRow) int {
			if !one {
				return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.MedianNS, b.MedianNS))
			}
			return cmp.Or(cmp.Compare(rank(a), rank(b)), -cmp.Compare(a.Speedup, b.Speedup))
		})
	}
	rows := make([]api.LeaderboardRow, 0, len(best))
	for _, row := range best {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b api.LeaderboardRow) int {
		return cmp.Or(cmp.Compare(a.Kernel, b.Kernel), cmp.Compare(a.DeviceName, b.DeviceName), cmp.Compare(a.Device, b.Device), slices.Compare(a.Shapes, b.Shapes))
	})
	return rows, nil
}
