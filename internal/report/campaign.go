package report

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

// CampaignFormat is the format of report.json; see [EvidenceFormat].
const CampaignFormat = "evotune-report/1"

// A Log is what a campaign's report is made of.
type Log struct {
	// Campaign has its payloads; Events are all of its events, with theirs.
	Campaign store.Campaign
	Events   []store.Event
	// Lineage is that of the best candidate; nil when there is none.
	Lineage *store.Node
	// By names the evotune that wrote this, and Store the file it read.
	By, Store string
	Made      time.Time
	// Running says that the campaign has not ended.
	Running bool
}

// ReadLog gathers what a store holds of a campaign, given by its ID or a unique beginning.
func ReadLog(s *store.Store, id string) (Log, error) {
	c, err := s.Campaign(id)
	if err != nil {
		return Log{}, err
	}
	l := Log{Campaign: c, By: build.This().String(), Store: filepath.Base(s.Path()), Made: time.Now()}
	for e, err := range s.Events(c.ID, 0) {
		if err != nil {
			return l, err
		}
		l.Events = append(l.Events, e)
	}
	if best, _ := record.CampaignFigures(c); best != "" {
		l.Lineage, err = s.Lineage(best)
	}
	return l, err
}

// A Campaign is report.json.
type Campaign struct {
	Format string    `json:"format"`
	Made   time.Time `json:"made"`
	By     string    `json:"by"`

	Campaign string    `json:"campaign"`
	State    string    `json:"state"`
	Reason   string    `json:"reason,omitempty"`
	Started  time.Time `json:"started"`
	Last     time.Time `json:"last"`
	// Config is what the campaign was started with; its budget is the one that it
	// last ran under.
	Config record.Job `json:"config"`
	// Strategy and SearchVersion name the search that the campaign began with,
	// LaterVersions what went on with it where that was another.
	Strategy      string                `json:"strategy"`
	SearchVersion int                   `json:"search_version"`
	LaterVersions []int                 `json:"later_search_versions,omitempty"`
	Seed          int64                 `json:"seed"`
	Description   evaluator.Description `json:"description"`
	Asked         int                   `json:"asked"`
	Evaluated     int                   `json:"evaluated"`
	// Verdicts counts the results; a second measurement takes the place of the first.
	Verdicts map[evaluator.Verdict]int `json:"verdicts"`
	// SpentS is the wall time in seconds over all resumptions, without the
	// pauses between them; Resumptions counts them, and Pauses how often a
	// disturbed machine made the campaign wait.
	SpentS      float64 `json:"spent_s"`
	Resumptions int     `json:"resumptions"`
	Pauses      int     `json:"pauses,omitempty"`
	// PreparedS, SearchedS and FinalsS are the parts of SpentS.
	PreparedS float64 `json:"prepared_s"`
	SearchedS float64 `json:"searched_s"`
	FinalsS   float64 `json:"finals_s"`
	// PerMinute is the number of evaluations per minute of the search. TimedS is the
	// time in seconds that the device spent in timed launches of candidates and
	// baseline during the search, from the stored samples, and TimedShare its
	// share of the wall time; on several devices it may exceed 1.
	PerMinute  float64 `json:"per_minute"`
	TimedS     float64 `json:"timed_s"`
	TimedShare float64 `json:"timed_share"`

	// Best is the winner of the finals, or the best of the search.
	Best     *BestView        `json:"best"`
	Finals   *FinalsView      `json:"finals,omitempty"`
	Failures []record.Failure `json:"failures"`
	Stages   []StageRow       `json:"stages"`
	// Operators tells how the search's ways of making candidates did.
	Operators []OperatorRow `json:"operators"`
	Genes     []GeneEffect  `json:"genes"`
	Lineage   Lineage       `json:"lineage"`
	NotRun    []string      `json:"not_run"`
	Again     []string      `json:"again"`
	// Evaluations has one row per proposal, in order.
	Evaluations []Evaluation `json:"evaluations"`

	bestResult *evaluator.Result // of the search
}

// A BestView is the best candidate of a campaign.
type BestView struct {
	Candidate string         `json:"candidate"`
	Genome    map[string]any `json:"genome"`
	Encoding  string         `json:"encoding"`
	From      string         `json:"from"` // "finals", "again" or "search"
	Speedup   float64        `json:"speedup"`
	evaluator.AllTimes
	// Significant says that finals found the speedup to be more than noise.
	Significant bool `json:"significant"`
}

// A StageRow sums up one stage over all candidates.
type StageRow struct {
	Stage string `json:"stage"`
	record.StageSum
	Seconds float64 `json:"seconds"`
	// Share is of the time of all stages of all candidates. Stages of several
	// candidates overlap, so it is no share of the wall time.
	Share float64 `json:"share"`
}

// An OperatorRow sums up what one operator proposed.
type OperatorRow struct {
	Operator string `json:"operator"`
	Proposed int    `json:"proposed"`
	Correct  int    `json:"correct"`
	// Improved counts those faster than every parent, of WithParents correct
	// ones that have parents with figures; Records those that were the best so
	// far.
	Improved    int `json:"improved"`
	WithParents int `json:"with_parents"`
	Records     int `json:"records"`
}

// A GeneEffect has the marginal medians of one gene.
type GeneEffect struct {
	Gene string `json:"gene"`
	// Range is the largest median over the smallest.
	Range float64 `json:"range"`
	// Values are in the order of their medians.
	Values []GeneValue `json:"values"`
}

// A GeneValue is one value of a gene.
type GeneValue struct {
	Value         string  `json:"value"`
	N             int     `json:"n"`
	MedianSpeedup float64 `json:"median_speedup"`
}

// An Evaluation is one proposal and what became of it.
type Evaluation struct {
	Index     int      `json:"index"`
	Candidate string   `json:"candidate"`
	Genome    string   `json:"genome"`
	Operator  string   `json:"operator"`
	Parents   []string `json:"parents,omitempty"`
	Verdict   string   `json:"verdict,omitempty"` // empty while there is no result
	Stage     string   `json:"stage,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	// Speedup and MedianNS are of the search's one measurement or, where Again says
	// so, of the second one; FinalsSpeedup is that of the newest finals.
	Speedup       float64 `json:"speedup,omitempty"`
	MedianNS      float64 `json:"median_ns,omitempty"`
	Again         bool    `json:"measured_again,omitempty"`
	FinalsSpeedup float64 `json:"finals_speedup,omitempty"`
	Record        bool    `json:"record,omitempty"`
	// SpentS is the campaign's wall time when the result was logged, CostS
	// what the evaluation took, in seconds.
	SpentS float64 `json:"spent_s,omitempty"`
	CostS  float64 `json:"cost_s,omitempty"`
}

// NewCampaign makes a report of a campaign's log. The error says what cannot
// be read.
func NewCampaign(l Log) (*Campaign, error) {
	c := l.Campaign
	r := &Campaign{
		Format: CampaignFormat, Made: l.Made.UTC().Truncate(time.Second), By: l.By,
		Campaign: c.ID, State: string(c.State), Reason: c.Reason, Started: c.StartedAt, Last: c.LastAt,
		Strategy: c.Started.Strategy, SearchVersion: c.Started.SearchVersion, Seed: c.Started.Seed,
		Failures: []record.Failure{}, NotRun: []string{}, Genes: []GeneEffect{},
	}
	if c.State == store.Running && !l.Running {
		r.State = "killed"
	}
	var err error
	if r.Description, err = record.ReadDescription(c.ID, &c.Started); err != nil {
		return nil, err
	}
	if r.Finals, err = ReadFinals(c.ID, c.Finals); err != nil {
		return nil, err
	}
	h := record.History{Summary: record.Summary{Outcomes: &record.Outcomes{}}}
	for _, e := range l.Events {
		if err := h.Add(e); err != nil {
			return nil, err
		}
	}
	notRun, err := r.read(&h)
	if err != nil {
		return nil, err
	}
	r.best(c)
	r.operators()
	r.genes()
	r.Lineage = newLineage(l.Lineage, MaxAncestors)
	r.missing(notRun)
	r.Again = r.commands(l.Store)
	return r, nil
}

// read goes through the log. It returns how often each check did not run.
func (r *Campaign) read(h *record.History) (map[string]int, error) {
	r.Config, r.Resumptions, r.Pauses, r.Asked, r.Evaluated, r.Verdicts = h.Job, h.Resumptions, h.Pauses, len(h.Proposals), h.Evaluated, h.Verdicts
	if len(h.Versions) > 1 {
		r.LaterVersions = h.Versions[1:]
	}
	for _, p := range h.Proposals {
		r.Evaluations = append(r.Evaluations, Evaluation{
			Index: p.Index, Candidate: p.Candidate, Genome: p.Genome, Operator: p.Operator, Parents: p.Parents,
		})
	}
	notRun := map[string]int{}
	for _, t := range h.Results {
		res, err := record.ReadResult(t.Told)
		if err != nil {
			return nil, err
		}
		v := &r.Evaluations[t.Index]
		v.Verdict, v.Stage, v.Reason, v.MedianNS, v.Again = t.Verdict, string(res.Stage), res.Reason, t.MedianNS, t.Again
		if !t.Again {
			v.SpentS, v.CostS = t.Spent.Seconds(), res.Cost.Seconds()
		}
		if record.Timed(t.Told) {
			v.Speedup = 1 / t.Fitness
		}
		r.TimedS += timed(res)
		if t.Again || h.Proposals[t.Index].Measured == nil {
			count(res, notRun)
		}
	}
	for _, b := range h.Best {
		r.Evaluations[b.Index].Record = true
	}
	if n := len(h.Best); n > 0 {
		p := h.Proposals[h.Best[n-1].Index]
		res, err := record.ReadResult(cmp.Or(p.Measured, p.Told))
		if err != nil {
			return nil, err
		}
		r.bestResult = &res
	}
	if r.Finals != nil {
		for _, f := range r.Finals.Entries {
			if i := slices.IndexFunc(r.Evaluations, func(v Evaluation) bool { return v.Candidate == f.Candidate }); i >= 0 {
				r.Evaluations[i].FinalsSpeedup = f.Speedup
			}
		}
	}
	r.SpentS = h.Spent().Seconds()
	p := h.Phases()
	r.PreparedS, r.SearchedS, r.FinalsS = p.Prepared.Seconds(), p.Searched.Seconds(), p.Finals.Seconds()
	if r.SearchedS > 0 {
		r.PerMinute = 60 * float64(r.Evaluated) / r.SearchedS
	}
	if r.SpentS > 0 {
		r.TimedShare = r.TimedS / r.SpentS
	}
	stages, total := h.Outcomes.Stages(), 0.0
	for _, s := range stages {
		total += s.Elapsed.Seconds()
	}
	for _, name := range evaluator.Stages() {
		s := stages[name]
		row := StageRow{Stage: string(name), StageSum: s, Seconds: s.Elapsed.Seconds()}
		if total > 0 {
			row.Share = row.Seconds / total
		}
		r.Stages = append(r.Stages, row)
	}
	for _, f := range h.Outcomes.Failures() {
		if f.Verdict != evaluator.Slower {
			r.Failures = append(r.Failures, f)
		}
	}
	return notRun, nil
}

// timed is the time of all samples of a result, in seconds; none when it
// repeats another's.
func timed(res evaluator.Result) float64 {
	if res.SharedWith != "" {
		return 0
	}
	ns := 0.0
	for _, t := range res.Timings {
		for _, v := range finite(t.SamplesNS) {
			ns += v * float64(t.Batch)
		}
		for _, v := range finite(t.BaselineNS) {
			ns += v * float64(t.BaselineBatch)
		}
	}
	return ns / 1e9
}

// count adds the checks of a result that did not run.
func count(res evaluator.Result, notRun map[string]int) {
	for _, step := range res.Steps {
		if !record.OwnStep(res.SharedWith, step.Stage) {
			continue
		}
		for _, v := range step.Evidence {
			if v.Outcome == evaluator.NotRun {
				notRun[colon(string(step.Stage)+": "+v.Check, words.FirstLine(v.Detail))]++
			}
		}
	}
}

func (r *Campaign) best(c store.Campaign) {
	found := func(id string) *BestView {
		i := slices.IndexFunc(r.Evaluations, func(e Evaluation) bool { return e.Candidate == id })
		if i < 0 {
			return nil
		}
		g := r.Evaluations[i].Genome
		return &BestView{Candidate: id, Encoding: g, Genome: genome.Plain(g)}
	}
	id, f := record.CampaignFigures(c)
	if f.Fitness > 0 {
		r.Best = found(id)
	}
	if r.Best != nil {
		r.Best.From, r.Best.Speedup, r.Best.AllTimes, r.Best.Significant = f.From, f.Speedup(), evaluator.AllTimes(f.Times), f.Significant
	}
}

func (r *Campaign) operators() {
	speed := map[string]float64{}
	for _, e := range r.Evaluations {
		if e.Speedup > 0 {
			speed[e.Candidate] = e.Speedup
		}
	}
	rows := map[string]*OperatorRow{}
	for _, e := range r.Evaluations {
		o := rows[e.Operator]
		if o == nil {
			o = &OperatorRow{Operator: e.Operator}
			rows[e.Operator] = o
		}
		o.Proposed++
		if e.Verdict == string(evaluator.Correct) {
			o.Correct++
		}
		if e.Record {
			o.Records++
		}
		parent := 0.0
		for _, p := range e.Parents {
			parent = max(parent, speed[p])
		}
		if e.Speedup > 0 && parent > 0 {
			o.WithParents++
			if e.Speedup > parent {
				o.Improved++
			}
		}
	}
	r.Operators = []OperatorRow{}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r.Operators = append(r.Operators, *rows[name])
	}
	slices.SortStableFunc(r.Operators, func(a, b OperatorRow) int { return cmp.Compare(b.Proposed, a.Proposed) })
}

func (r *Campaign) genes() {
	speeds := map[string]map[string][]float64{}
	for _, e := range r.Evaluations {
		if !(e.Speedup > 0) {
			continue
		}
		for k, v := range genome.Plain(e.Genome) {
			if speeds[k] == nil {
				speeds[k] = map[string][]float64{}
			}
			name := fmt.Sprint(v)
			speeds[k][name] = append(speeds[k][name], e.Speedup)
		}
	}
	for _, gene := range slices.Sorted(maps.Keys(speeds)) {
		g := GeneEffect{Gene: gene}
		for _, v := range slices.Sorted(maps.Keys(speeds[gene])) {
			all := speeds[gene][v]
			g.Values = append(g.Values, GeneValue{Value: v, N: len(all), MedianSpeedup: evaluator.Median(all)})
		}
		slices.SortStableFunc(g.Values, func(a, b GeneValue) int { return cmp.Compare(a.MedianSpeedup, b.MedianSpeedup) })
		g.Range = g.Values[len(g.Values)-1].MedianSpeedup / g.Values[0].MedianSpeedup
		r.Genes = append(r.Genes, g)
	}
	slices.SortStableFunc(r.Genes, func(a, b GeneEffect) int { return cmp.Compare(b.Range, a.Range) })
}

// missing lists what did not run in the campaign.
func (r *Campaign) missing(notRun map[string]int) {
	for _, t := range r.Description.Tools {
		if t.Missing != "" {
			r.NotRun = append(r.NotRun, t.Name+": "+t.Missing)
		}
	}
	for _, u := range r.Description.Unproven {
		r.NotRun = append(r.NotRun, u.String())
	}
	for _, k := range slices.Sorted(maps.Keys(notRun)) {
		r.NotRun = append(r.NotRun, fmt.Sprintf("%s (%s)", k, words.Plural(notRun[k], "candidate")))
	}
	for _, s := range r.Stages {
		if s.Passed+s.Failed+s.NotRun == 0 && r.Evaluated > 0 {
			r.NotRun = append(r.NotRun, s.Stage+": reached by no candidate")
		}
	}
	if n := r.Asked - r.Evaluated; n > 0 {
		r.NotRun = append(r.NotRun, fmt.Sprintf("%s without a result", words.Plural(n, "proposal")))
	}
	switch {
	case r.Finals == nil:
		r.NotRun = append(r.NotRun, "finals: there were none, so the best is that of single measurements and no test was made")
	case r.Finals.Winner == "":
		r.NotRun = append(r.NotRun, "winner: no finalist survived the finals")
	case r.Finals.VsRunnerUp == nil:
		r.NotRun = append(r.NotRun, "test against a runner-up: there was one finalist")
	}
	if r.Finals != nil && r.Finals.Early != "" {
		r.NotRun = append(r.NotRun, "the rest of the finals: "+r.Finals.Early)
	}
}

// commands are those that make the figures again.
func (r *Campaign) commands(path string) []string {
	at := storeFlag(path)
	var out []string
	if r.Best != nil {
		out = append(out, "tune verify "+r.Best.Candidate+at, "tune evidence "+r.Best.Candidate+at+" --out DIR")
	}
	if r.State != string(store.Finished) {
		out = append(out, "tune resume "+r.Campaign+at)
	}
	return append(out, r.runCommand())
}

// search names the search, and what it became on the way.
func (r *Campaign) search() string {
	s := fmt.Sprintf("%s version %d", r.Strategy, r.SearchVersion)
	for _, v := range r.LaterVersions {
		s += fmt.Sprintf(", then %d", v)
	}
	return fmt.Sprintf("%s, seed %d", s, r.Seed)
}

// runCommand is the command that began the campaign, as far as its record
// tells.
func (r *Campaign) runCommand() string {
	j := r.Config
	b := strings.Builder{}
	b.WriteString("tune run " + quote(orElse(j.Table, r.Description.Kernel)))
	flag := func(name, value string) { fmt.Fprintf(&b, " --%s %s", name, quote(value)) }
	for _, f := range option.Of(j) {
		v := f.Value(j)
		switch {
		case f.Name == "" || v.IsZero() || f.Name == "shape" && j.Backend == "replay":
		case v.Kind() == reflect.Bool:
			b.WriteString(" --" + f.Name)
		default:
			for _, text := range f.Text(v) {
				flag(f.Name, text)
			}
		}
	}
	return b.String()
}

// limits are those that a budget sets, by their names.
func limits(b record.Budget) (out []string) {
	for _, f := range option.Of(b) {
		if v := f.Value(b); !v.IsZero() {
			out = append(out, f.Name+" "+f.Text(v)[0])
		}
	}
	return out
}

// nonZero is empty for what was not set.
func nonZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
