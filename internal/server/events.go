package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	// chunk is how many events a client is sent before the sender checks that the client reads them.
	chunk = 512
	// pace is how often progress is told at most.
	pace = 200 * time.Millisecond
	// patience is how long a client may take to read what it is sent.
	patience = 30 * time.Second
	// alive is how often a silent stream says that it is there.
	alive = 15 * time.Second
	// mostWarnings is how many warnings of a campaign are kept: it has a few each time that it is run.
	mostWarnings = 100
	// idleStreams is how many campaigns that nobody follows any more keep what was read of them.
	idleStreams = 64
)

// Streams has a stream for each campaign that somebody follows, and for the last few that
// somebody has followed.
type streams struct {
	store *store.Store
	// space tells how many genomes a campaign searches, as far as that can be told here.
	space func(store.Campaign) (size float64, exact bool)
	// running has what a campaign runs with, by the campaigns that do.
	running sync.Map

	mu       sync.Mutex
	warnings map[string][]line // of the campaigns that this process ran; seq is the event that they come after
	of       map[string]*stream
	idle     []string      // of these nobody follows; the last one last
	moved    chan struct{} // closed and made anew when the state of any campaign changes
}

// A stream is a campaign as its followers see it. Nothing waits for a follower: each reads at
// its own pace, from what is kept here or from the log.
type stream struct {
	*streams
	campaign  string
	followers int // of streams.mu

	bell  sync.Mutex    // for woken alone: who rings does not wait for who reads
	woken chan struct{} // closed and made anew when there may be something new

	mu sync.Mutex
	reading
}

// A reading is what a stream has of the events that were looked at.
type reading struct {
	read    uint64          // the newest of them
	lines   []line          // the newest, at most cached
	before  uint64          // the newest event that is no longer in lines
	records map[uint64]bool // the events that told a new best
	best    uint64          // the newest of them
	finals  []uint64        // the events of finals
	sum     record.Summary
	started *api.Started
	last    time.Time       // of the newest event
	kept    map[uint64]line // beginnings and ends, which tell of what was before them
}

func newReading() reading {
	return reading{records: map[uint64]bool{}, kept: map[uint64]line{}}
}

// A board is the newest statuses, and the channel of changes as they were made.
type board struct {
	mu    sync.Mutex
	of    map[string]status
	moved <-chan struct{}
	made  time.Time
}

// A line is an event as it is sent.
type line struct {
	seq  uint64
	kind string
	data []byte
}

// Running is what a campaign runs with: how many workers, in a space of how many genomes.
type running struct {
	workers int
	size    float64
	exact   bool
}

func newStreams(s *Service) *streams {
	return &streams{store: s.store, space: s.spaceOf, warnings: map[string][]line{}, of: map[string]*stream{}, moved: make(chan struct{})}
}

// spaceOf is the size of the space that a campaign searches; zero where its kernel is no
// longer here.
func (s *Service) spaceOf(c store.Campaign) (size float64, exact bool) {
	if now, ok := s.streams.running.Load(c.ID); ok {
		return now.(running).size, now.(running).exact
	}
	t, err := s.tools.Recorded(c)
	if err != nil {
		return 0, false
	}
	space, err := t.Space()
	if err != nil {
		return 0, false
	}
	return space.Size(), space.Exact()
}

// join gives the stream of a campaign to a follower; leave must be called when it goes.
func (s *streams) join(campaign string) (t *stream, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t = s.of[campaign]; t == nil {
		t = &stream{streams: s, campaign: campaign, woken: make(chan struct{}), reading: newReading()}
		s.of[campaign] = t
	}
	if t.followers++; t.followers == 1 {
		s.idle = slices.DeleteFunc(s.idle, func(id string) bool { return id == campaign })
	}
	return t, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.followers--; t.followers > 0 {
			return
		}
		if s.idle = append(s.idle, campaign); len(s.idle) > idleStreams {
			delete(s.of, s.idle[0])
			s.idle = slices.Delete(s.idle, 0, 1)
		}
	}
}

// workersOf is how many workers a campaign has; zero while nothing runs it.
func (s *streams) workersOf(campaign string) int {
	now, _ := s.running.Load(campaign)
	r, _ := now.(running)
	return r.workers
}

// warn keeps a warning of a campaign for its followers. What the campaign has told so far is in
// the log.
func (s *streams) warn(campaign, message string) error {
	last, err := s.store.Last()
	if err != nil {
		return err
	}
	told, err := made(store.Event{Seq: last, Time: time.Now()}, "warning", api.Warning{Campaign: campaign, Message: message})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.warnings[campaign]) < mostWarnings {
		s.warnings[campaign] = append(s.warnings[campaign], told...)
	}
	return nil
}

// warned are the warnings of a campaign so far.
func (s *streams) warned(campaign string) []line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.warnings[campaign])
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
	t.bell.Lock()
	defer t.bell.Unlock()
	close(t.woken)
	t.woken = make(chan struct{})
}

// after gives the events after one, a chunk at most, and what is closed when there are more.
func (t *stream) after(seq uint64) (lines []line, woken <-chan struct{}, err error) {
	t.bell.Lock()
	woken = t.woken
	t.bell.Unlock()
	t.mu.Lock()
	err = t.catchUp()
	if seq >= t.before {
		at, _ := slices.BinarySearchFunc(t.lines, seq+1, func(l line, seq uint64) int { return cmp.Compare(l.seq, seq) })
		lines = slices.Clone(t.lines[at:min(len(t.lines), at+chunk)])
		t.mu.Unlock()
		return lines, woken, err
	}
	t.mu.Unlock()
	asked := map[string]*store.Asked{} // of which no result came yet
	for e, eventErr := range t.store.Events(t.campaign, seq+1) {
		if eventErr != nil {
			return lines, woken, eventErr
		}
		if e.Asked != nil {
			asked[e.Asked.Candidate] = e.Asked
			continue
		}
		t.mu.Lock()
		best := t.records[e.Seq]
		kept, ok := t.kept[e.Seq]
		t.mu.Unlock()
		if ok {
			lines = append(lines, kept)
			continue
		}
		made, lineErr := t.lineOf(e, best, asked)
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
func (t *stream) catchUp() (err error) {
	defer func() {
		if err != nil {
			t.reading = newReading() // the event may be half looked at
		}
	}()
	if t.read == 0 {
		if err := t.skim(); err != nil {
			return err
		}
	}
	for e, err := range t.store.Events(t.campaign, t.read+1) {
		if err != nil {
			return err
		}
		made, err := t.look(e)
		if err == nil && made == nil {
			made, err = t.lineOf(e, t.records[e.Seq], nil)
		}
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

// skim looks at the beginning of a long log, up to the events that are kept.
func (t *stream) skim() error {
	c, err := t.store.Campaign(t.campaign)
	if errors.Is(err, store.ErrNotFound) { // it has not begun
		return nil
	}
	if err != nil || c.Last-c.First < cached {
		return err
	}
	last := c.Last - cached // other campaigns may have some of the numbers after it
	for e, err := range record.Events(t.store, t.campaign) {
		if err != nil {
			return err
		}
		if e.Seq > last {
			break
		}
		if _, err := t.look(e); err != nil {
			return err
		}
	}
	t.before, t.read = last, last
	return nil
}

// look adds an event to the summary, and tells it if it is a turn.
func (t *stream) look(e store.Event) ([]line, error) {
	bests := len(t.sum.Best)
	if err := t.sum.Add(e); err != nil {
		return nil, err
	}
	t.last = e.Time
	if e.Told != nil && len(t.sum.Best) > bests {
		t.records[e.Seq], t.best = true, e.Seq
	}
	if e.Kind == store.KindFinals {
		t.finals = append(t.finals, e.Seq)
	}
	made, err := t.turn(e)
	if len(made) > 0 {
		t.kept[e.Seq] = made[0]
	}
	return made, err
}

// past tells shortly what has happened: a summary of the results, then beginnings, pauses and
// ends, the best so far and the finals, and last the number of the newest event.
func (t *stream) past() (lines []line, until uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.catchUp(); err != nil || t.read == 0 {
		return nil, 0, err
	}
	whole := slices.Clone(t.finals)
	if t.best > 0 {
		whole = append(whole, t.best)
	}
	for _, seq := range whole {
		e, err := t.store.Event(seq)
		if err != nil {
			return nil, 0, err
		}
		told, err := t.lineOf(e, seq == t.best, nil)
		if err != nil {
			return nil, 0, err
		}
		lines = append(lines, told...)
	}
	lines = slices.AppendSeq(lines, maps.Values(t.kept))
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.seq, b.seq) })
	sum, err := made(store.Event{Time: t.last}, "past", api.Past{Campaign: t.campaign, Until: t.read, Verdicts: t.sum.Verdicts, Fresh: t.sum.Fresh})
	return slices.Concat(sum, lines, []line{{seq: t.read}}), t.read, err
}

// made is an event of the log as it is sent.
func made(e store.Event, kind string, data any) ([]line, error) {
	b, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(`{"event":%q,"time":%q`, kind, e.Time.Format(time.RFC3339Nano))
	if string(b) != "{}" {
		head += ","
	}
	return []line{{e.Seq, kind, append([]byte(head), b[1:]...)}}, nil
}

// turn is a beginning, an end or a pause of the campaign, told in the words of
// docs/events.md; nil for other events. It reads the summary, which has the event.
func (t *stream) turn(e store.Event) ([]line, error) {
	switch e.Kind {
	case store.KindStarted:
		c, err := t.store.Campaign(e.Campaign)
		if err != nil {
			return nil, err
		}
		d, err := record.ReadDescription(e.Campaign, e.Started)
		if err != nil {
			return nil, err
		}
		t.started = &api.Started{Campaign: e.Campaign, Config: t.sum.Job, Description: d}
		t.started.SpaceSize, t.started.SpaceExact = t.space(c)
		return made(e, "started", t.beginning(0))
	case store.KindResumed:
		var note store.Note
		if e.Note != nil {
			note = *e.Note
		}
		switch note.Reason {
		case store.Continued:
			return made(e, "continued", api.Continuation{AfterNS: t.sum.Paused})
		case store.InFinals:
			out := api.Searched{Evaluated: note.Evaluated}
			if len(note.Detail) > 0 {
				r, err := record.ReadResumption(&e)
				if err != nil {
					return nil, err
				}
				out.Reason = r.Searched
			}
			return made(e, "searched", out)
		case store.NewBudget:
			return made(e, "budget", t.sum.Job.Budget)
		}
		return made(e, "started", t.beginning(note.Evaluated))
	case store.KindStopped, store.KindFinished:
		if e.Note != nil {
			if why, ok := strings.CutPrefix(e.Note.Reason, "paused: "); ok && e.Kind == store.KindStopped {
				return made(e, "paused", api.Pause{Reason: why})
			}
		}
		f, err := t.ending(e)
		if err != nil {
			return nil, err
		}
		return made(e, string(e.Kind), f)
	}
	return nil, nil
}

// beginning is what is told when a process begins to run the campaign, or goes on with it after so many results.
func (t *stream) beginning(evaluated int) api.Started {
	out, prepared := *t.started, t.sum.Prepared()
	out.Config.Budget, out.Workers = t.sum.Job.Budget, t.workersOf(out.Campaign)
	out.Resumed, out.Prepared, out.Spent = evaluated, prepared, t.sum.Spent()-prepared
	return out
}

// ending is what is told when the campaign stops or has ended.
func (t *stream) ending(e store.Event) (api.Outcome, error) {
	s := &t.sum
	out := api.Outcome{
		Campaign: e.Campaign, Evaluated: s.Evaluated, Verdicts: s.Verdicts, SpaceSize: t.started.SpaceSize, PerMinute: s.PerMinute(),
		Sanitized: s.Job.Sanitized(), ElapsedNS: s.Spent(), Phases: s.Phases(),
	}
	if e.Note != nil {
		out.Reason = e.Note.Reason
	}
	id, f := s.Figures()
	if id == "" {
		return out, nil
	}
	c, err := t.store.Candidate(id)
	out.Best = &api.Best{
		Candidate: id, Genome: genome.Plain(c.Asked.Genome), Encoding: c.Asked.Genome,
		AllTimes: evaluator.AllTimes(f.Times), Speedup: f.Speedup(), Significant: f.Significant, Measured: f.From, Slower: f.Slower, Unproven: f.Unproven,
	}
	return out, err
}

// lineOf is a result or finals as they are sent; none for other events. Asked has proposals
// that were read before; the others are looked up.
func (t *stream) lineOf(e store.Event, best bool, asked map[string]*store.Asked) ([]line, error) {
	switch e.Kind {
	case store.KindTold, store.KindMeasured:
		told, kind := e.Result(), "evaluated"
		if e.Measured != nil {
			kind = "measured"
		}
		r, err := record.ReadResult(told)
		if err != nil {
			return nil, err
		}
		from := asked[told.Candidate]
		if from == nil {
			c, err := t.store.Candidate(told.Candidate)
			if err != nil {
				return nil, err
			}
			from = &c.Asked
		}
		delete(asked, told.Candidate)
		return made(e, kind, api.Evaluated{
			Campaign: e.Campaign, Index: told.Index, Candidate: told.Candidate, Genome: genome.Plain(from.Genome), Encoding: from.Genome,
			Operator: from.Operator, Parents: from.Parents,
			Record: best, Verdict: r.Verdict, Stage: r.Stage, Reason: r.Reason, Disturbed: r.Disturbed, Fitness: told.Fitness,
			Times: evaluator.MedianTimes(r.Timings[:min(1, len(r.Timings))]), CostNS: r.Cost,
		})
	case store.KindFinals:
		f, err := record.ReadFinals(e.Campaign, e.Finals)
		if err != nil {
			return nil, err
		}
		out := api.Comparison{Campaign: e.Campaign, Candidates: e.Finals.Finalists, Result: f}
		for _, id := range e.Finals.Finalists {
			c, err := t.store.Candidate(id)
			if err != nil {
				return nil, err
			}
			out.Encodings = append(out.Encodings, c.Asked.Genome)
		}
		return made(e, "finals", out)
	}
	return nil, nil
}

type eventsRequest struct {
	One
	Last string `header:"Last-Event-ID" maxLength:"20" doc:"The id of the last event that you have; those after it follow."`
	From string `query:"after" maxLength:"20" doc:"The same, where no header can be sent."`
	Past string `query:"past" enum:"whole,short" doc:"short: begin with a summary of what has happened, the best so far and the finals. Not together with an id."`
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
		if in.Past == "short" && after > 0 {
			return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, "a stream that goes on after an event has no past to tell shortly: leave past out", api.Detail{Location: "query.past", Message: "comes with the id of an event"})
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) { s.follow(ctx, c.Body.ID, after, in.Past == "short") }}, nil
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
		if l.kind == "" { // only the number
			if _, err := fmt.Fprintf(s.w, "%s\n", id); err != nil {
				return false
			}
			continue
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
// all of it was sent. Short tells what has happened so far shortly.
func (s *Service) follow(ctx huma.Context, id string, after uint64, short bool) {
	out := newSender(ctx)
	t, leave := s.streams.join(id)
	defer leave()
	tick, still := time.NewTicker(pace), time.NewTicker(alive)
	defer tick.Stop()
	defer still.Stop()
	var said []byte // the newest state and progress
	begin := after  // warnings before it were told
	warned := 0
	if !out.comment() {
		return
	}
	if short {
		lines, until, err := t.past()
		if err != nil {
			s.log.Error("a stream ended", "campaign", id, "error", err)
			return
		}
		if after = until; !out.send(lines...) {
			return
		}
	}
	for {
		moved := s.streams.changes()
		warnings := s.streams.warned(id) // before the log is read, which has what they come after
		lines, woken, err := t.after(after)
		if err != nil {
			s.log.Error("a stream ended", "campaign", id, "error", err)
			return
		}
		if len(lines) > 0 {
			after = lines[len(lines)-1].seq
		}
		for ; warned < len(warnings) && (len(lines) == 0 || warnings[warned].seq < after); warned++ {
			w := warnings[warned]
			if w.seq < begin {
				continue
			}
			at := slices.IndexFunc(lines, func(l line) bool { return l.seq > w.seq })
			if at < 0 {
				at = len(lines)
			}
			w.seq = 0 // it is not in the log
			lines = slices.Insert(lines, at, w)
		}
		if len(lines) > 0 {
			if !out.send(lines...) {
				return
			}
			continue
		}
		of, err := s.statuses()
		if err != nil {
			s.log.Error("a stream ended", "campaign", id, "error", err)
			return
		}
		now, known := of[id]
		if !known && s.jobs != nil { // one that no service ran is as it was
			if now, err = s.rests(id); err != nil {
				s.log.Error("a stream ended", "campaign", id, "error", err)
				return
			}
			known = true
		}
		if known && string(now.data) != string(said) {
			if said = now.data; !out.send(now.line) {
				return
			}
		}
		if now.ended {
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

// A status is the state of a campaign, with its progress, as an event.
type status struct {
	line
	version uint64
	ended   bool
}

// statuses are those of the campaigns that the service runs or ran, made at most once in a
// while for all who follow them.
func (s *Service) statuses() (map[string]status, error) {
	if s.jobs == nil {
		return nil, nil
	}
	moved := s.streams.changes()
	b := &s.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.moved == moved && time.Since(b.made) < pace {
		return b.of, nil
	}
	of := map[string]status{}
	for _, c := range s.jobs.views() {
		if old, ok := b.of[c.ID]; ok && old.ended && old.version == c.version {
			of[c.ID] = old
			continue
		}
		data, err := json.Marshal(api.Status{
			Kind: "state", Campaign: c.ID, State: c.State, Reason: c.Reason, Position: c.Position, Progress: c.Progress,
		})
		if err != nil {
			return nil, err
		}
		of[c.ID] = status{line{kind: "state", data: data}, c.version, c.State.Ended() && c.Progress == nil} // one that is cancelled still writes why it stopped
	}
	b.of, b.moved, b.made = of, moved, time.Now()
	return of, nil
}

// rests is the state of a campaign that no service ran, which ends its stream: nothing will
// change unless somebody asks for it.
func (s *Service) rests(id string) (status, error) {
	c, err := s.campaign(id)
	if err != nil {
		return status{}, err
	}
	data, err := json.Marshal(api.Status{Kind: "state", Campaign: c.Body.ID, State: c.Body.State, Reason: c.Body.Reason})
	return status{line: line{kind: "state", data: data}, ended: true}, err
}

// followAll sends the state of every campaign, and then of every one that changes.
func (s *Service) followAll(ctx huma.Context) {
	out := newSender(ctx)
	tick, still := time.NewTicker(pace), time.NewTicker(alive)
	defer tick.Stop()
	defer still.Stop()
	said := map[string][]byte{} // shared with all who are told it
	if !out.comment() {
		return
	}
	for {
		moved := s.streams.changes()
		of, err := s.statuses()
		if err != nil {
			s.log.Error("a stream ended", "error", err)
			return
		}
		for id, now := range of {
			if bytes.Equal(said[id], now.data) {
				continue
			}
			if said[id] = now.data; !out.send(now.line) {
				return
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
