package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

const (
	// cached is how many events of a campaign are kept in the form in which they are sent,
	// for the clients that follow it; a client that is further behind reads the log.
	cached = 1024
	// chunk is how many events a client is sent before it is looked whether it reads them.
	chunk = 128
	// pace is how often progress is told at most.
	pace = 200 * time.Millisecond
	// patience is how long a client may take to read what it is sent.
	patience = 30 * time.Second
	// alive is how often a silent stream says that it is there.
	alive = 15 * time.Second
)

// Streams has a stream for each campaign that somebody follows or has followed.
type streams struct {
	store *store.Store

	mu    sync.Mutex
	of    map[string]*stream
	moved chan struct{} // closed and made anew when the state of any campaign changes
}

// A stream is a campaign as its followers see it. Nothing waits for a follower: each reads at
// its own pace, from what is kept here or from the log.
type stream struct {
	store    *store.Store
	campaign string

	mu     sync.Mutex
	woken  chan struct{} // closed and made anew when there may be something new
	read   uint64        // events before it were looked at
	lines  []line        // the newest, at most cached
	before uint64        // the newest event that is no longer in lines
	best   float64
	best64 map[uint64]bool // the events that told a new best
}

// A line is an event as it is sent.
type line struct {
	seq  uint64
	kind string
	data []byte
}

func newStreams(s *store.Store) *streams {
	return &streams{store: s, of: map[string]*stream{}, moved: make(chan struct{})}
}

func (s *streams) stream(campaign string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of[campaign]
	if t == nil {
		t = &stream{store: s.store, campaign: campaign, woken: make(chan struct{}), best64: map[uint64]bool{}}
		s.of[campaign] = t
	}
	return t
}

// wake tells the followers of a campaign that its log has grown.
func (s *streams) wake(campaign string) {
	s.mu.Lock()
	t := s.of[campaign]
	s.mu.Unlock()
	if t != nil {
		t.wake()
	}
}

// state tells everybody that a campaign's state is another.
func (s *streams) state(campaign string) {
	s.wake(campaign)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.moved)
	s.moved = make(chan struct{})
}

// changes is closed when the state of a campaign changes.
func (s *streams) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}

func (t *stream) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.woken)
	t.woken = make(chan struct{})
}

// after gives the events after one, a chunk at most, and what is closed when there are more.
func (t *stream) after(seq uint64) (lines []line, woken <-chan struct{}, err error) {
	t.mu.Lock()
	woken = t.woken
	err = t.catchUp()
	if seq >= t.before {
		at, _ := slices.BinarySearchFunc(t.lines, seq+1, func(l line, seq uint64) int { return cmp.Compare(l.seq, seq) })
		lines = slices.Clone(t.lines[at:min(len(t.lines), at+chunk)])
		t.mu.Unlock()
		return lines, woken, err
	}
	t.mu.Unlock()
	for e, eventErr := range t.store.Events(t.campaign, seq+1) {
		if eventErr != nil {
			return lines, woken, eventErr
		}
		t.mu.Lock()
		best := t.best64[e.Seq]
		t.mu.Unlock()
		made, lineErr := t.lineOf(e, best)
		if lineErr != nil {
			return lines, woken, lineErr
		}
		if lines = append(lines, made...); len(lines) >= chunk {
			break
		}
	}
	return lines, woken, err
}

// catchUp reads what the log has that was not looked at, once for all followers.
func (t *stream) catchUp() error {
	for e, err := range t.store.Events(t.campaign, t.read+1) {
		if err != nil {
			return err
		}
		if told := e.Told; told != nil && told.Verdict == string(evaluator.Correct) && (t.best == 0 || told.Fitness < t.best) {
			t.best, t.best64[e.Seq] = told.Fitness, true
		}
		made, err := t.lineOf(e, t.best64[e.Seq])
		if err != nil {
			return err
		}
		t.lines, t.read = append(t.lines, made...), e.Seq
		if n := len(t.lines) - cached; n > 0 {
			t.before = t.lines[n-1].seq
			t.lines = slices.Delete(t.lines, 0, n)
		}
	}
	return nil
}

// lineOf is an event of the log in the words of docs/events.md; none for what these leave out.
func (t *stream) lineOf(e store.Event, best bool) ([]line, error) {
	made := func(kind string, data any) ([]line, error) {
		b, err := json.Marshal(data)
		if err != nil {
			return nil, err
		}
		head := fmt.Sprintf(`{"event":%q,"time":%q,"campaign":%q`, kind, e.Time.Format(time.RFC3339Nano), e.Campaign)
		if string(b) != "{}" {
			head += ","
		}
		return []line{{e.Seq, kind, append([]byte(head), b[1:]...)}}, nil
	}
	switch e.Kind {
	case store.KindStarted:
		job, err := record.ReadJob(e.Campaign, e.Started)
		if err != nil {
			return nil, err
		}
		d, err := record.ReadDescription(e.Campaign, e.Started)
		if err != nil {
			return nil, err
		}
		return made("started", struct {
			Config      record.Job            `json:"config"`
			Description evaluator.Description `json:"description"`
		}{job, d})
	case store.KindTold, store.KindMeasured:
		told, kind := e.Result(), "evaluated"
		if e.Measured != nil {
			kind = "measured"
		}
		r, err := record.ReadResult(told)
		if err != nil {
			return nil, err
		}
		c, err := t.store.Candidate(told.Candidate)
		if err != nil {
			return nil, err
		}
		return made(kind, api.Evaluated{
			Index: told.Index, Candidate: told.Candidate, Genome: genome.Plain(c.Asked.Genome), Operator: c.Asked.Operator, Parents: c.Asked.Parents,
			Record: best, Verdict: r.Verdict, Stage: r.Stage, Reason: r.Reason, Disturbed: r.Disturbed, Fitness: told.Fitness,
			Times: evaluator.Times{MedianNS: told.MedianNS, BaselineNS: told.BaselineNS}, CostNS: r.Cost,
		})
	case store.KindFinals:
		f, err := record.ReadFinals(e.Campaign, e.Finals)
		if err != nil {
			return nil, err
		}
		return made("finals", f)
	case store.KindResumed, store.KindStopped, store.KindFinished:
		return made(string(e.Kind), e.Note)
	}
	return nil, nil
}

type eventsRequest struct {
	One
	Last string `header:"Last-Event-ID" maxLength:"20" doc:"The id of the last event that you have; those after it follow."`
	From string `query:"after" maxLength:"20" doc:"The same, where no header can be sent."`
}

// eventRoutes are the streams.
func (s *Service) eventRoutes() {
	streamed := map[string]*huma.Response{"200": {Description: "Server-sent events.", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}}
	one := operation(http.MethodGet, "/v1/campaigns/{id}/events", "events", api.Viewer, "Follow a campaign: the events of its log, then its state and progress as they change", 404, 409, 422)
	one.Responses = streamed
	huma.Register(s.api, one, func(_ context.Context, in *eventsRequest) (*huma.StreamResponse, error) {
		c, err := s.campaign(in.ID)
		if err != nil {
			return nil, failed(err)
		}
		after := uint64(0)
		if text := cmp.Or(in.Last, in.From); text != "" {
			if after, err = strconv.ParseUint(text, 10, 64); err != nil {
				return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, "Last-Event-ID is not the number of an event: give the id of one that you have", api.Detail{Location: "header.Last-Event-ID", Message: "not a number"})
			}
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) { s.follow(ctx, c.Body.ID, after) }}, nil
	})
	every := operation(http.MethodGet, "/v1/events", "all-events", api.Viewer, "Follow the state and the progress of all campaigns")
	every.Responses = streamed
	huma.Register(s.api, every, func(context.Context, *struct{}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: s.followAll}, nil
	})
}

// A sender writes server-sent events.
type sender struct {
	w     http.ResponseWriter
	flush *http.ResponseController
}

func newSender(ctx huma.Context) sender {
	ctx.SetHeader("Content-Type", "text/event-stream")
	ctx.SetHeader("Cache-Control", "no-store")
	ctx.SetHeader("X-Accel-Buffering", "no")
	w := ctx.BodyWriter().(http.ResponseWriter) //nolint:errcheck,forcetypeassert // humago's is one
	return sender{w, http.NewResponseController(w)}
}

// send writes lines; false when the client is gone or does not read.
func (s sender) send(lines ...line) bool {
	_ = s.flush.SetWriteDeadline(time.Now().Add(patience))
	for _, l := range lines {
		id := ""
		if l.seq > 0 {
			id = fmt.Sprintf("id: %d\n", l.seq)
		}
		if _, err := fmt.Fprintf(s.w, "%sevent: %s\ndata: %s\n\n", id, l.kind, l.data); err != nil {
			return false
		}
	}
	return s.flush.Flush() == nil
}

func (s sender) comment() bool {
	_ = s.flush.SetWriteDeadline(time.Now().Add(patience))
	_, err := fmt.Fprint(s.w, ": alive\n\n")
	return err == nil && s.flush.Flush() == nil
}

// follow sends one campaign's events until the client goes, or the campaign has ended and
// all of it was sent.
func (s *Service) follow(ctx huma.Context, id string, after uint64) {
	out, t := newSender(ctx), s.streams.stream(id)
	tick, still := time.NewTicker(pace), time.NewTicker(alive)
	defer tick.Stop()
	defer still.Stop()
	var said []byte // the newest state and progress
	if !out.comment() {
		return
	}
	for {
		moved := s.streams.changes()
		lines, woken, err := t.after(after)
		if err != nil {
			s.log.Error("a stream ended", "campaign", id, "error", err)
			return
		}
		if len(lines) > 0 {
			after = lines[len(lines)-1].seq
			if !out.send(lines...) {
				return
			}
			continue
		}
		l, ended, err := s.now(id)
		if err != nil {
			return
		}
		if string(l.data) != string(said) {
			if said = l.data; !out.send(l) {
				return
			}
		}
		if ended {
			// What was written before the end was noted may have come after the last look.
			if lines, _, err = t.after(after); err == nil && len(lines) == 0 {
				return
			}
			continue
		}
		select {
		case <-ctx.Context().Done():
			return
		case <-s.ending.Done():
			return
		case <-moved:
		case <-woken:
		case <-tick.C:
		case <-still.C:
			if !out.comment() {
				return
			}
		}
	}
}

// now is the state of a campaign, with its progress, as an event.
func (s *Service) now(id string) (l line, ended bool, err error) {
	c, err := s.campaign(id)
	if err != nil {
		return l, false, err
	}
	l = line{kind: "state"}
	l.data, err = json.Marshal(struct {
		Kind     string        `json:"event"`
		Campaign string        `json:"campaign"`
		State    api.State     `json:"state"`
		Reason   string        `json:"reason,omitempty"`
		Position int           `json:"position,omitempty"`
		Progress *api.Progress `json:"progress,omitempty"`
	}{"state", c.Body.ID, c.Body.State, c.Body.Reason, c.Body.Position, c.Body.Progress})
	return l, c.Body.State.Ended() || s.jobs == nil && c.Body.State == api.Finished, err
}

// followAll sends the state of every campaign that changes.
func (s *Service) followAll(ctx huma.Context) {
	out := newSender(ctx)
	tick, still := time.NewTicker(pace), time.NewTicker(alive)
	defer tick.Stop()
	defer still.Stop()
	said := map[string]string{}
	if !out.comment() {
		return
	}
	for first := true; ; first = false {
		moved := s.streams.changes()
		page, err := s.campaigns(listRequest{Limit: 1000})
		if err != nil {
			s.log.Error("a stream ended", "error", err)
			return
		}
		for _, c := range page.Items {
			if c.State.Ended() && !first && said[c.ID] == string(c.State) {
				continue
			}
			l, _, err := s.now(c.ID)
			if err != nil {
				return
			}
			now := string(l.data)
			if c.State.Ended() {
				now = string(c.State)
			}
			if said[c.ID] != now {
				if said[c.ID] = now; !out.send(l) {
					return
				}
			}
		}
		select {
		case <-ctx.Context().Done():
			return
		case <-s.ending.Done():
			return
		case <-moved:
		case <-tick.C:
		case <-still.C:
			if !out.comment() {
				return
			}
		}
	}
}
