package server

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
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
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/store"
)

const (
	// maxCharts is how many campaigns are kept summed up; others are read again.
	maxCharts = 64
	// maxPoints is how many candidates one answer has; the next has more.
	maxPoints = 200_000
)

type pointsRequest struct {
	One
	From  uint64 `query:"from" doc:"The event to begin with: the last answer's next."`
	Brief bool   `query:"brief" doc:"Whether to leave out the candidates' names and genes, which are most of the answer."`
}

type compareRequest struct {
	One
	With string `query:"with" required:"true" minLength:"1" maxLength:"200" doc:"Another campaign."`
}

// chartRoutes give what charts are drawn from.
func (s *Service) chartRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/campaigns/{id}/summary", "summary", api.Viewer, "New bests, verdicts with reasons, and time by stage", 404, 409, 422),
		func(_ context.Context, in *One) (*body[api.Summary], error) {
			c, err := s.campaign(in.ID)
			if err != nil {
				return nil, failed(err)
			}
			out, err := s.charts.summary(c.Body.ID)
			return &body[api.Summary]{out}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/campaigns/{id}/points", "points", api.Viewer, "All candidates of a campaign that have results, in columns", 404, 409, 422),
		scanning(s, func(_ context.Context, in *pointsRequest) (*body[api.Points], error) {
			c, err := s.campaign(in.ID)
			if err != nil {
				return nil, failed(err)
			}
			out, err := points(s.store, c.Body.ID, in.From, in.Brief)
			return &body[api.Points]{out}, failed(err)
		}))
	huma.Register(s.api, operation(http.MethodGet, "/v1/campaigns/{id}/compare", "compare", api.Viewer, "Two campaigns over equal device time", 404, 409, 422),
		func(_ context.Context, in *compareRequest) (*body[api.Compared], error) {
			out, err := s.compare(in.ID, in.With)
			return &body[api.Compared]{out}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/campaigns/{id}/roofline", "roofline", api.Viewer, "The best and the baseline against what the device can do at most", 404, 409, 422),
		func(_ context.Context, in *One) (*body[api.Roofline], error) {
			out, err := s.roofline(in.ID)
			return &body[api.Roofline]{out}, failed(err)
		})
}

// Charts sums up campaigns, and reads of each only what has come since the last time.
type charts struct {
	store *store.Store

	mu   sync.Mutex
	of   map[string]*chart
	used []string // the last one last
}

func newCharts(s *store.Store) *charts { return &charts{store: s, of: map[string]*chart{}} }

func (c *charts) chart(campaign string) *chart {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.of[campaign]
	if one == nil {
		one = &chart{}
		one.reset()
		c.of[campaign] = one
	}
	if at := slices.Index(c.used, campaign); at >= 0 {
		c.used = slices.Delete(c.used, at, at+1)
	}
	c.used = append(c.used, campaign)
	if len(c.used) > maxCharts {
		delete(c.of, c.used[0])
		c.used = c.used[1:]
	}
	return one
}

// summary is that of a campaign, by its whole ID; an empty one before it begins.
func (c *charts) summary(campaign string) (api.Summary, error) {
	one := c.chart(campaign)
	one.mu.Lock()
	defer one.mu.Unlock()
	if err := one.catchUp(c.store, campaign); err != nil {
		return api.Summary{}, err
	}
	return one.summary(), nil
}

// A chart is a campaign summed up as far as it was read.
type chart struct {
	mu     sync.Mutex
	read   uint64 // events up to it
	sum    record.Summary
	finals *api.FinalsSummary
}

func (c *chart) reset() {
	c.read, c.sum, c.finals = 0, record.Summary{Outcomes: &record.Outcomes{}}, nil
}

// catchUp reads what the log has that was not read.
func (c *chart) catchUp(s *store.Store, campaign string) error {
	for e, err := range s.Events(campaign, c.read+1) {
		if err == nil {
			err = c.add(e)
		}
		if err != nil {
			c.reset() // the event may be half added
			return err
		}
		c.read = e.Seq
	}
	return nil
}

// add takes the next event.
func (c *chart) add(e store.Event) error {
	if err := c.sum.Add(e); err != nil || e.Finals == nil {
		return err
	}
	f, err := report.ReadFinals(e.Campaign, e.Finals)
	if f == nil {
		return err
	}
	c.finals = &api.FinalsSummary{
		Winner: f.Winner, VsBaseline: f.VsBaseline, VsRunnerUp: f.VsRunnerUp, RunnerUp: f.RunnerUp, Early: f.Early,
		Evaluations: c.sum.FinalsAt.Evaluated, ElapsedNS: c.sum.FinalsAt.Spent,
	}
	for _, one := range f.Entries {
		times := evaluator.MedianTimes(one.Timings)
		row := api.FinalsRow{Candidate: one.Candidate, Verdict: one.Verdict, Reason: one.Reason, MedianNS: times.MedianNS, BaselineNS: times.BaselineNS, Speedup: one.Speedup}
		if i := one.Interval; i != nil && i.Lo > 0 { // of time, which the speedup is the inverse of
			row.Lo, row.Hi = 1/i.Hi, 1/i.Lo
		}
		c.finals.Entries = append(c.finals.Entries, row)
	}
	return nil
}

func (c *chart) summary() api.Summary {
	sum := &c.sum
	out := api.Summary{
		Best: []api.BestPoint{}, Funnel: []api.FunnelRow{}, Stages: map[evaluator.Stage]time.Duration{},
		Evaluated: sum.Evaluated, ElapsedNS: sum.Spent(), DeviceNS: sum.DeviceTime(), Phases: sum.Phases(), Finals: c.finals,
	}
	for _, b := range sum.Best {
		out.Best = append(out.Best, api.BestPoint{Evaluations: b.Evaluated, ElapsedNS: b.Spent, DeviceNS: b.Device, Speedup: 1 / b.Fitness, Candidate: b.Candidate})
	}
	if n := sum.Verdicts[evaluator.Correct]; n > 0 {
		out.Funnel = append(out.Funnel, api.FunnelRow{Verdict: evaluator.Correct, Count: n})
	}
	for _, f := range sum.Outcomes.Failures() {
		out.Funnel = append(out.Funnel, api.FunnelRow{Verdict: f.Verdict, Stage: f.Stage, Reason: f.Alike, Count: f.Count})
	}
	slices.SortStableFunc(out.Funnel, func(a, b api.FunnelRow) int { return cmp.Compare(b.Count, a.Count) })
	for stage, s := range sum.Outcomes.Stages() {
		out.Stages[stage] = s.Elapsed
	}
	return out
}

// A pointSet gathers the columns of api.Points.
type pointSet struct {
	api.Points
	rows     map[int]int    // by number
	verdicts map[string]int // positions
	genes    []*geneColumn  // in the order of the space, as far as it can be told
	columns  map[string]*geneColumn
}

// A geneColumn is one gene of all candidates.
type geneColumn struct {
	api.GenePoints
	at map[string]int // positions of the values as they are encoded
}

// points are the results of a campaign from an event on; brief ones are without the candidates' names and
// genes.
func points(s *store.Store, campaign string, from uint64, brief bool) (api.Points, error) {
	p := pointSet{rows: map[int]int{}, verdicts: map[string]int{}, columns: map[string]*geneColumn{}}
	p.Candidates, p.Index, p.Verdict, p.Verdicts, p.Speedup = []string{}, []int{}, []int{}, []string{}, []float64{}
	p.Next = max(from, 1)
	genomes := map[int]string{} // of what has no result yet
	for e, err := range s.Events(campaign, from, store.WithoutDetail()) {
		if err != nil {
			return p.Points, err
		}
		if len(p.Index) == maxPoints {
			break
		}
		p.Next = e.Seq + 1
		if e.Asked != nil && !brief {
			genomes[e.Asked.Index] = e.Asked.Genome
		}
		t := e.Result()
		if t == nil {
			continue
		}
		encoding, known := genomes[t.Index]
		if row, again := p.rows[t.Index]; again {
			p.set(row, t)
			continue
		}
		if !known && !brief { // it was asked for before
			c, err := s.Candidate(t.Candidate)
			if err != nil {
				return p.Points, err
			}
			encoding = c.Asked.Genome
		}
		delete(genomes, t.Index)
		if err := p.add(t, encoding); err != nil {
			return p.Points, err
		}
	}
	if brief {
		p.Candidates = []string{}
	}
	return p.finish(), nil
}

// add adds a row.
func (p *pointSet) add(t *store.Told, encoding string) error {
	row := len(p.Index)
	p.rows[t.Index] = row
	p.Candidates, p.Index = append(p.Candidates, t.Candidate), append(p.Index, t.Index)
	p.Verdict, p.Speedup = append(p.Verdict, 0), append(p.Speedup, 0)
	p.set(row, t)
	place := 0 // where a gene belongs that was not seen before
	for name, text := range encoded(encoding) {
		g := p.columns[name]
		if g == nil {
			g = &geneColumn{api.GenePoints{Name: name, Values: []any{}, At: make([]int, row, row+1)}, map[string]int{}}
			for i := range g.At {
				g.At[i] = -1
			}
			p.columns[name] = g
			p.genes = slices.Insert(p.genes, place, g)
		}
		if place == len(p.genes) || p.genes[place] != g {
			place = slices.Index(p.genes, g)
		}
		place++
		at, known := g.at[text]
		if !known {
			value, err := genome.Decode(name + "=" + text)
			if err != nil {
				return err
			}
			at = len(g.Values)
			g.at[text], g.Values = at, append(g.Values, value[name].Any())
		}
		g.At = append(g.At, at)
	}
	for _, g := range p.genes {
		if len(g.At) == row {
			g.At = append(g.At, -1)
		}
	}
	return nil
}

// encoded lists the genes of a genome in their order, with their values as they are written.
func encoded(encoding string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for rest := encoding; rest != ""; {
			name, after, _ := strings.Cut(rest, "=")
			value, err := strconv.QuotedPrefix(after)
			if err != nil {
				value, _, _ = strings.Cut(after, ",")
			}
			rest = strings.TrimPrefix(after[len(value):], ",")
			if !yield(name, value) {
				return
			}
		}
	}
}

// set sets what a result tells of a row.
func (p *pointSet) set(row int, t *store.Told) {
	at, known := p.verdicts[t.Verdict]
	if !known {
		at = len(p.Verdicts)
		p.verdicts[t.Verdict], p.Verdicts = at, append(p.Verdicts, t.Verdict)
	}
	p.Verdict[row], p.Speedup[row] = at, 0
	if record.Timed(t) {
		p.Speedup[row] = sixDigits(1 / t.Fitness)
	}
}

// sixDigits rounds to what a chart can show.
func sixDigits(v float64) float64 {
	scale := math.Pow(10, 5-math.Floor(math.Log10(v)))
	if r := math.Round(v*scale) / scale; r > 0 && !math.IsInf(r, 0) {
		return r
	}
	return v
}

// finish puts the values of each gene in order.
func (p *pointSet) finish() api.Points {
	p.Genes = make([]api.GenePoints, len(p.genes))
	for i, g := range p.genes {
		order := make([]int, len(g.Values))
		for k := range order {
			order[k] = k
		}
		slices.SortStableFunc(order, func(a, b int) int { return compareValues(g.Values[a], g.Values[b]) })
		values, moved := make([]any, len(order)), make([]int, len(order))
		for k, old := range order {
			values[k], moved[old] = g.Values[old], k
		}
		for k, old := range g.At {
			if old >= 0 {
				g.At[k] = moved[old]
			}
		}
		p.Genes[i] = api.GenePoints{Name: g.Name, Values: values, At: g.At}
	}
	return p.Points
}

// compareValues orders the values of a gene: numbers by their size, others as they are
// written.
func compareValues(a, b any) int {
	number := func(v any) (float64, bool) {
		switch v := v.(type) {
		case int64:
			return float64(v), true
		case float64:
			return v, true
		}
		return 0, false
	}
	x, one := number(a)
	y, two := number(b)
	switch {
	case one && two:
		return cmp.Compare(x, y)
	case one != two:
		if one {
			return -1
		}
		return 1
	}
	s, _ := a.(string)
	t, _ := b.(string)
	if p, ok := a.(bool); ok {
		if q, _ := b.(bool); p == q {
			return 0
		} else if q {
			return -1
		}
		return 1
	}
	return strings.Compare(s, t)
}

// curve is the best so far of a campaign that has begun.
func (s *Service) curve(id string) (store.Campaign, api.Curve, error) {
	c, err := s.logged(id)
	if err != nil {
		return c, api.Curve{}, err
	}
	sum, err := s.charts.summary(c.ID)
	return c, api.Curve{
		Campaign: c.ID, Kernel: c.Started.Kernel, Shapes: c.Started.Shapes, Device: c.Started.Device, DeviceName: c.Started.Name,
		Strategy: c.Started.Strategy, DeviceNS: sum.DeviceNS, Best: sum.Best,
	}, err
}

// at is the best that a curve had after so much device time.
func at(c api.Curve, limit time.Duration) (best float64) {
	for _, p := range c.Best {
		if p.DeviceNS <= limit {
			best = p.Speedup
		}
	}
	return best
}

// compare holds two campaigns against each other.
func (s *Service) compare(id, with string) (out api.Compared, err error) {
	var a, b store.Campaign
	if a, out.A, err = s.curve(id); err != nil {
		return out, err
	}
	if b, out.B, err = s.curve(with); err != nil {
		return out, err
	}
	if a.ID == b.ID {
		return out, fail(http.StatusUnprocessableEntity, api.BadRequest, "a campaign cannot be compared with itself: name another", api.Detail{Location: "query.with", Message: "the same campaign"})
	}
	out.EqualNS = min(out.A.DeviceNS, out.B.DeviceNS)
	out.AtA, out.AtB = at(out.A, out.EqualNS), at(out.B, out.EqualNS)
	out.NotComparable = []string{}
	ja, err := record.ReadJob(a.ID, &a.Started)
	if err != nil {
		return out, err
	}
	jb, err := record.ReadJob(b.ID, &b.Started)
	if err != nil {
		return out, err
	}
	sorted := func(list []string) string { return strings.Join(slices.Sorted(slices.Values(list)), ", ") }
	for _, x := range []struct{ what, a, b string }{
		{"kernel", a.Started.Kernel, b.Started.Kernel},
		{"definition", ja.Hash, jb.Hash},
		{"shapes", sorted(a.Started.Shapes), sorted(b.Started.Shapes)},
		{"device", a.Started.Device, b.Started.Device},
	} {
		if x.a != x.b {
			out.NotComparable = append(out.NotComparable, fmt.Sprintf("%s: %s and %s", x.what, x.a, x.b))
		}
	}
	return out, nil
}

// roofline is the best of a campaign, and its baseline, by shape.
func (s *Service) roofline(id string) (out api.Roofline, err error) {
	c, err := s.logged(id)
	if err != nil {
		return out, err
	}
	d, err := record.ReadDescription(c.ID, &c.Started)
	if err != nil {
		return out, err
	}
	out = api.Roofline{Campaign: c.ID, Device: c.Started.Device, DeviceName: c.Started.Name, Peaks: d.Device.Peaks, Points: []api.RooflinePoint{}}
	t, err := s.tools.Recorded(c)
	if err != nil {
		return out, err
	}
	if t.Definition() == nil {
		return out, fail(http.StatusNotFound, api.NotFound, "a recorded table does not say how many operations its kernel has")
	}
	best, f := record.CampaignFigures(c)
	if best == "" {
		return out, fail(http.StatusNotFound, api.NoCandidate, fmt.Sprintf("campaign %s has found no correct candidate", c.ID))
	}
	found, err := s.reader.Candidate(best)
	if err != nil {
		return out, err
	}
	v, err := api.EvidenceOf(found)
	if err != nil {
		return out, err
	}
	var timings []evaluator.Timing
	switch {
	case v.Finals != nil && f.From == record.FromFinals:
		timings = v.Finals.Timings
	case v.Result != nil:
		timings = v.Result.Timings
	}
	problem := &t.Definition().Problem
	for _, timing := range timings {
		shape, err := problem.Shape(timing.Shape)
		if err != nil {
			return out, err
		}
		p := api.RooflinePoint{Shape: timing.Shape, Measured: f.From, FloorNS: timing.FloorNS}
		if p.Operations, err = problem.Operations(shape); err != nil {
			return out, err
		}
		if p.Bytes, err = problem.Bytes(shape); err != nil {
			return out, err
		}
		if p.Bytes > 0 {
			p.Intensity = p.Operations / p.Bytes
		}
		for _, of := range []struct {
			candidate string
			ns        float64
		}{{"", timing.BaselineMedianNS}, {best, timing.MedianNS}} {
			if of.ns > 0 {
				p.Candidate, p.MedianNS = of.candidate, of.ns
				p.OperationsRate, p.BytesRate = p.Operations/of.ns*1e9, p.Bytes/of.ns*1e9
				out.Points = append(out.Points, p)
			}
		}
	}
	return out, nil
}
