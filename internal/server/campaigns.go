package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// One names what a request is about. (Only exported types can be embedded in requests.)
type One struct {
	ID string `path:"id" minLength:"1" maxLength:"200" doc:"An ID, or a unique beginning of it."`
}

// A campaignAnswer is a campaign with its version.
type campaignAnswer struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     api.Campaign
}

type submitRequest struct {
	Key  string `header:"Idempotency-Key" maxLength:"200" doc:"Repeating a request with the same key gives the same campaign."`
	Body submission
}

// A submission is an [api.Submission] whose schema has the options of a job, and not what a campaign fills in.
type submission struct{ api.Submission }

// TransformSchema is called by huma.
func (submission) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	taken := map[string]bool{}
	for _, f := range option.Of(api.Submission{}) {
		name, _, _ := strings.Cut(f.Key, ".")
		taken[name] = true
		if f.Default != "" {
			s.Properties[name].Description = option.Sentence(f.Doc) + " Default: " + f.Default + "."
		}
	}
	for name, p := range s.Properties {
		if taken[name] {
			continue
		}
		delete(s.Properties, name)
		for _, of := range []*huma.Schema{p, p.Items} {
			if of != nil && of.Ref != "" { // which nothing else refers to
				delete(r.Map(), strings.TrimPrefix(of.Ref, "#/components/schemas/"))
			}
		}
	}
	s.PrecomputeMessages()
	return s
}

// submittedKey is where the context of a submission has its body, as far as it could be read.
type submittedKey struct{}

// Resolve lets an answer to a body that its schema refuses tell what else is wrong.
func (r *submitRequest) Resolve(ctx huma.Context) []error {
	if body, ok := ctx.Context().Value(submittedKey{}).(*api.Submission); ok {
		*body = r.Body.Submission
	}
	return nil
}

// An ActRequest asks for a change of a campaign.
type ActRequest struct {
	One
	Match string `header:"If-Match" doc:"The ETag of the campaign as you know it: the change is refused if it is another by now."`
}

type changeRequest struct {
	ActRequest
	Body api.Change
}

type listRequest struct {
	State  string `query:"state" enum:"queued,preparing,searching,finals,paused,finished,failed,cancelled"`
	Kernel string `query:"kernel" maxLength:"200"`
	Cursor string `query:"cursor" maxLength:"1000" doc:"Next of the page before."`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
}

// campaignRoutes are those of campaigns as jobs.
func (s *Service) campaignRoutes() {
	submit := operation(http.MethodPost, "/v1/campaigns", "submit", api.Runner, "Submit a campaign", 400, 409, 413, 422)
	submit.DefaultStatus = http.StatusCreated
	submit.Middlewares = append(submit.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
		next(huma.WithValue(ctx, submittedKey{}, new(api.Submission)))
	})
	huma.Register(s.api, submit, func(ctx context.Context, in *submitRequest) (*campaignAnswer, error) {
		if err := s.takesCampaigns(); err != nil {
			return nil, err
		}
		if err := s.writable(); err != nil {
			return nil, failed(err)
		}
		text, err := json.Marshal(in.Body)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		id, _, err := s.jobs.submit(ctx, in.Body.Submission, in.Key, hex.EncodeToString(sum[:]))
		if err != nil {
			return nil, failed(err)
		}
		out, err := s.campaign(id)
		if err != nil {
			return nil, failed(err)
		}
		out.Location = "/v1/campaigns/" + id
		return out, nil
	})
	huma.Register(s.api, operation(http.MethodGet, "/v1/campaigns", "campaigns", api.Viewer, "List campaigns, the newest first", 422),
		func(_ context.Context, in *listRequest) (*body[api.Page[api.Campaign]], error) {
			page, err := s.campaigns(*in)
			return &body[api.Page[api.Campaign]]{page}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/campaigns/{id}", "campaign", api.Viewer, "One campaign", 404, 409),
		func(_ context.Context, in *One) (*campaignAnswer, error) {
			out, err := s.campaign(in.ID)
			return out, failed(err)
		})
	huma.Register(s.api, operation(http.MethodPatch, "/v1/campaigns/{id}", "change", api.Runner, "Change budget or priority, also while it runs", 404, 409, 412, 422),
		func(_ context.Context, in *changeRequest) (*campaignAnswer, error) {
			return s.asked(in.ID, func(id string) error { return s.jobs.change(id, in.Body, in.Match) })
		})
	for action, summary := range map[string]string{
		"pause":  "End a campaign after the candidates in flight, to be resumed",
		"resume": "Go on with a campaign that is paused or failed",
		"cancel": "End a campaign at once, for good",
	} {
		huma.Register(s.api, operation(http.MethodPost, "/v1/campaigns/{id}/"+action, action, api.Runner, summary, 404, 409, 412),
			func(ctx context.Context, in *ActRequest) (*campaignAnswer, error) {
				return s.asked(in.ID, func(id string) error { return s.jobs.act(ctx, id, action, in.Match) })
			})
	}
}

// takesCampaigns is the error of a service that takes none.
func (s *Service) takesCampaigns() error {
	if s.jobs == nil {
		return fail(http.StatusConflict, api.NotAService, "one `tune run` holds this store: it answers questions, and takes no campaigns; wait for its end, or start `tune serve`")
	}
	return nil
}

// asked does something with a campaign and answers with what it is then.
func (s *Service) asked(id string, do func(id string) error) (*campaignAnswer, error) {
	if err := s.takesCampaigns(); err != nil {
		return nil, err
	}
	c, err := s.campaign(id)
	if err == nil {
		id = c.Body.ID
		err = do(id)
	}
	if err != nil {
		return nil, failed(err)
	}
	out, err := s.campaign(id)
	return out, failed(err)
}

// campaign is one, by its ID or the beginning of it.
func (s *Service) campaign(id string) (*campaignAnswer, error) {
	out := &campaignAnswer{}
	c, err := s.reader.Campaign(id)
	var jobs []string // besides, which the log does not have yet
	if s.jobs != nil && (err != nil || c.ID != id) {
		for _, known := range s.jobs.ids() {
			if known == id {
				jobs = []string{id}
				break
			}
			if strings.HasPrefix(known, id) && (err != nil || known != c.ID) {
				jobs = append(jobs, known)
			}
		}
	}
	switch none := errors.Is(err, store.ErrNotFound); {
	case len(jobs) == 1 && (none || jobs[0] == id):
		out.Body.ID = jobs[0]
	case len(jobs) > 0 && (none || err == nil):
		return nil, fail(http.StatusConflict, api.Ambiguous, fmt.Sprintf("several campaigns begin with %q: give more of the ID", id))
	case err != nil:
		return nil, err
	default:
		out.Body = viewOf(c)
	}
	if s.jobs != nil {
		out.ETag = s.jobs.view(&out.Body)
		s.complete(&out.Body)
	}
	return out, nil
}

// logged is a campaign as the log has it. The error says so where the service knows the
// campaign and the log has nothing of it.
func (s *Service) logged(id string) (store.Campaign, error) {
	c, err := s.reader.Campaign(id)
	if errors.Is(err, store.ErrNotFound) {
		if known, other := s.campaign(id); other == nil && known.Body.Log == nil {
			return c, fail(http.StatusNotFound, api.NotFound, fmt.Sprintf("campaign %s is %s: it has not begun, so there is nothing to tell of it", known.Body.ID, known.Body.State))
		}
	}
	return c, err
}

// complete reads the log again of a campaign that has ended since it was read: the end comes
// with the last events, and is not told without them.
func (s *Service) complete(c *api.Campaign) {
	if c.Log == nil || !c.State.Ended() {
		return
	}
	if now, known := s.reader.brief(c.ID); known && now.Last != c.Log.Last {
		now.Started.Config, now.Started.Description = c.Log.Started.Config, c.Log.Started.Description
		*c = viewOf(now)
		s.jobs.view(c)
	}
}

// viewOf is a campaign by what the log says of it.
func viewOf(c store.Campaign) api.Campaign {
	best, f := record.CampaignFigures(c)
	out := api.Campaign{
		ID: c.ID, State: stateOf(c), Reason: c.Reason, Kernel: c.Started.Kernel, Backend: c.Started.Backend, Shapes: c.Started.Shapes,
		Device: c.Started.Name, Evaluated: c.Evaluated, Best: best, Speedup: f.Speedup(), Measured: f.From, Significant: f.Significant, Unproven: f.Unproven, Log: &c,
	}
	if job, err := evotune.RecordedJob(c); err == nil && c.Started.Config != nil {
		out.Budget = job.Budget
	}
	return out
}

// campaigns lists them, the newest first. The cursor is the position behind the last.
func (s *Service) campaigns(in listRequest) (page api.Page[api.Campaign], err error) {
	before := cursorText(in.Cursor)
	if in.Cursor != "" && !strings.Contains(before, " ") {
		return page, noCursor()
	}
	stored, err := s.reader.Campaigns()
	if err != nil {
		return page, err
	}
	known := map[string]bool{}
	var list []api.Campaign
	for _, c := range stored {
		known[c.ID] = true
		list = append(list, viewOf(c))
	}
	if s.jobs != nil {
		for _, id := range s.jobs.ids() {
			if !known[id] {
				list = append(list, api.Campaign{ID: id})
			}
		}
		s.jobs.viewAll(list)
		for i := range list {
			s.complete(&list[i])
		}
	}
	// By when they were submitted or, where nobody submitted them, started; the ID settles ties.
	at := func(c api.Campaign) string {
		t := c.Submitted
		if t.IsZero() && c.Log != nil {
			t = c.Log.StartedAt
		}
		return strconv.FormatInt(t.UnixNano(), 10) + " " + c.ID
	}
	slices.SortFunc(list, func(a, b api.Campaign) int { return strings.Compare(at(b), at(a)) })
	page.Items = []api.Campaign{}
	for _, c := range list {
		if in.State != "" && string(c.State) != in.State || in.Kernel != "" && c.Kernel != in.Kernel || before != "" && at(c) >= before {
			continue
		}
		if len(page.Items) == in.Limit {
			page.Next = cursorOf(at(page.Items[in.Limit-1]))
			break
		}
		page.Items = append(page.Items, c)
	}
	return page, nil
}

// cursorOf hides what a cursor is made of, which may change.
func cursorOf(text string) string { return hex.EncodeToString([]byte(text)) }

// noCursor is the answer to a cursor that no page had.
func noCursor() error {
	return fail(http.StatusUnprocessableEntity, api.BadRequest, "this cursor is none of this list: take next of the page before", api.Detail{Location: "query.cursor", Message: "is not a cursor"})
}

// cursorText is what a cursor was made of; empty for nonsense.
func cursorText(cursor string) string {
	b, err := hex.DecodeString(cursor)
	if err != nil {
		return ""
	}
	return string(b)
}
