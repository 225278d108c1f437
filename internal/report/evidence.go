package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// EvidenceFormat is the format of evidence.json. The number grows when a
// reader of the older one would misunderstand; fields may be added without.
const EvidenceFormat = "evotune-evidence/1"

// MaxAncestors bounds the lineage that evidence tells, in candidates.
const MaxAncestors = 200

// A Subject is what evidence is made of: what the store holds of a candidate.
type Subject struct {
	// Candidate and Campaign have their payloads.
	Candidate store.Candidate
	Campaign  store.Campaign
	// Finals is the comparison that the candidate was in, with its Detail; nil
	// when there was none.
	Finals *store.Finals
	// Lineage is the candidate with its ancestors.
	Lineage *store.Node
	// Source is what was rebuilt.
	Source Source
	// By names the evotune that wrote this, and Store the file it read.
	By, Store string
	Made      time.Time
}

// Evidence is evidence.json.
type Evidence struct {
	Format string    `json:"format"`
	Made   time.Time `json:"made"`
	By     string    `json:"by"`

	Candidate string         `json:"candidate"`
	Campaign  string         `json:"campaign"`
	Index     int            `json:"index"`
	Kernel    string         `json:"kernel"`
	Shapes    []string       `json:"shapes"`
	Genome    map[string]any `json:"genome"`
	Encoding  string         `json:"encoding"`
	Operator  string         `json:"operator"`
	Parents   []string       `json:"parents,omitempty"`
	AskedAt   time.Time      `json:"asked_at"`
	ToldAt    time.Time      `json:"told_at,omitzero"`

	// Summary is the result in one place: that of the finals where the
	// candidate was in some, that of the search otherwise.
	Summary Summary `json:"summary"`
	// Seed makes the data that the candidate saw.
	Seed int64 `json:"seed"`
	// Description says where and with what: device, facts, peaks, compiler,
	// tools, harness, baseline.
	Description evaluator.Description `json:"description"`
	// Result is the stored result as it is, all samples included.
	Result evaluator.Result `json:"result"`
	// Parity, Sanitizers, Inspection and Profile are rows of Result.Steps, read
	// for people.
	Parity     []ParityRow          `json:"parity"`
	Sanitizers []evaluator.Evidence `json:"sanitizers"`
	Inspection []evaluator.Evidence `json:"inspection"`
	Profile    []evaluator.Evidence `json:"profile"`
	// Estimates has the ratios to the baseline, by shape, with intervals.
	Estimates []ShapeEstimate `json:"estimates"`
	Finals    *FinalsView     `json:"finals,omitempty"`
	Source    Source          `json:"source"`
	Lineage   Lineage         `json:"lineage"`
	// NotRun lists everything that was not checked or not measured, and what proves nothing.
	NotRun []string `json:"not_run"`
	// Again are commands that make the figures again.
	Again []string `json:"again"`

	again bool // the result is of a second measurement
}

// A Summary is a result in short.
type Summary struct {
	Verdict string `json:"verdict"`
	Stage   string `json:"stage,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// From says which measurement the figures are of: "finals", "again" or "search".
	From    string  `json:"from,omitempty"`
	Speedup float64 `json:"speedup,omitempty"`
	evaluator.Times
	// Significant says that finals found the speedup to be more than noise;
	// Tested that there were finals to find it.
	Tested      bool `json:"tested"`
	Significant bool `json:"significant"`
	Winner      bool `json:"winner"`
}

// A ParityRow is one comparison with the reference.
type ParityRow struct {
	Check   string          `json:"check"`
	Shape   string          `json:"shape"`
	Seed    string          `json:"seed,omitempty"`
	Output  string          `json:"output,omitempty"`
	Outcome evaluator.Check `json:"outcome"`
	Error   float64         `json:"error"`
	Limit   float64         `json:"limit,omitempty"`
	Detail  string          `json:"detail,omitempty"`
}

// A ShapeEstimate is the time ratio to the baseline at one shape.
type ShapeEstimate struct {
	Shape string `json:"shape"`
	// Of is "search", "again", "finals" or "finals, held out".
	Of string `json:"of"`
	Estimate
}

// NewEvidence makes evidence of what the store holds. The error says that it
// cannot be read.
func NewEvidence(s Subject) (*Evidence, error) {
	c := s.Candidate
	e := &Evidence{
		Format: EvidenceFormat, Made: s.Made.UTC().Truncate(time.Second), By: s.By,
		Candidate: c.ID, Campaign: c.Campaign, Index: c.Asked.Index, Kernel: c.Kernel, Shapes: c.Shapes,
		Genome: genome.Plain(c.Asked.Genome), Encoding: c.Asked.Genome,
		Operator: c.Asked.Operator, Parents: c.Asked.Parents, AskedAt: c.AskedAt, ToldAt: c.ToldAt,
		Seed: s.Campaign.Started.Seed, Source: s.Source, NotRun: []string{},
		Parity: []ParityRow{}, Sanitizers: []evaluator.Evidence{}, Inspection: []evaluator.Evidence{},
		Profile: []evaluator.Evidence{}, Estimates: []ShapeEstimate{}, again: c.Again,
	}
	if c.Told == nil {
		return nil, fmt.Errorf("candidate %s has no result yet: resume campaign %s", c.ID, c.Campaign)
	}
	var err error
	if e.Result, err = record.ReadResult(c.Told); err != nil {
		return nil, err
	}
	if e.Description, err = record.ReadDescription(c.Campaign, &s.Campaign.Started); err != nil {
		return nil, err
	}
	if e.Finals, err = ReadFinals(c.Campaign, s.Finals); err != nil {
		return nil, err
	}
	e.Lineage = newLineage(s.Lineage, MaxAncestors)
	e.Summary = e.summary(c)
	e.sort()
	e.estimates()
	e.notRun(c)
	e.Again = []string{
		"tune verify " + c.ID + storeFlag(s.Store),
		"tune show " + c.ID + storeFlag(s.Store),
		"tune evidence " + c.ID + storeFlag(s.Store) + " --out DIR",
	}
	return e, nil
}

func (e *Evidence) summary(c store.Candidate) Summary {
	s := Summary{Verdict: string(e.Result.Verdict), Stage: string(e.Result.Stage), Reason: e.Result.Reason}
	if t := c.Told; record.Timed(t) {
		f := record.ToldFigures(t, c.Again)
		s.From, s.Speedup, s.Times = f.From, f.Speedup(), f.Times
	}
	if e.Finals == nil {
		return s
	}
	for _, f := range e.Finals.Entries {
		if f.Candidate != e.Candidate {
			continue
		}
		if f.Speedup > 0 {
			s.From, s.Speedup, s.Times = record.FromFinals, f.Speedup, evaluator.MedianTimes(f.Timings)
		}
		s.Winner = e.Finals.Winner == e.Candidate
		s.Tested = s.Winner && e.Finals.VsBaseline != nil
		s.Significant = s.Tested && e.Finals.VsBaseline.Significant && e.Finals.VsBaseline.Ratio < 1
		if f.Verdict != evaluator.Correct {
			s.Verdict, s.Stage, s.Reason = string(f.Verdict), "finals", f.Reason
			s.From, s.Speedup, s.Times = "", 0, evaluator.Times{}
		}
	}
	return s
}

// The checks of parity are called "parity SHAPE seed N", with the output after
// it where there are several.
var parityCheck = regexp.MustCompile(`^parity (\S+)(?: seed (\d+))?(?: (?:output )?(.+))?$`)

// profileCheck recognises what a profiler measured.
var profileCheck = regexp.MustCompile(`^(ncu|profile)\b`)

// sort puts the stages' evidence where people look for it.
func (e *Evidence) sort() {
	for _, step := range e.Result.Steps {
		for _, v := range step.Evidence {
			switch {
			case profileCheck.MatchString(v.Check):
				e.Profile = append(e.Profile, v)
			case step.Stage == evaluator.StageParity:
				row := ParityRow{Check: v.Check, Outcome: v.Outcome, Error: v.Value, Limit: v.Limit, Detail: v.Detail}
				if m := parityCheck.FindStringSubmatch(v.Check); m != nil {
					row.Shape, row.Seed, row.Output = m[1], m[2], m[3]
				}
				e.Parity = append(e.Parity, row)
			case step.Stage == evaluator.StageSanitize:
				e.Sanitizers = append(e.Sanitizers, v)
			case step.Stage == evaluator.StageInspect:
				e.Inspection = append(e.Inspection, v)
			}
		}
	}
	// The finals profile what they measured, and launch it under sanitizers at more shapes.
	if f := e.finalist(); f != nil {
		for _, v := range f.Evidence {
			if evaluator.OfSanitizers(v.Check) {
				e.sanitized(v)
			} else {
				e.Profile = append(e.Profile, v)
			}
		}
	}
}

// sanitized adds what a tool has seen in the finals to what it has seen in the search. What
// the search left for the finals is done with that.
func (e *Evidence) sanitized(v evaluator.Evidence) {
	i := slices.IndexFunc(e.Sanitizers, func(had evaluator.Evidence) bool { return had.Check == v.Check })
	switch {
	case i >= 0 && v.Check == evaluator.SanitizeShapes && v.Outcome == evaluator.Passed:
		e.Sanitizers[i] = v
	case i >= 0 && v.Outcome == evaluator.Passed && e.Sanitizers[i].Outcome == evaluator.Passed && v.Detail != "":
		if had := &e.Sanitizers[i].Detail; *had != "" {
			*had += "; " + v.Detail
		} else {
			*had = "in the search; " + v.Detail
		}
	case i < 0 || v.Outcome != evaluator.Passed:
		e.Sanitizers = append(e.Sanitizers, v)
	}
}

func (e *Evidence) estimates() {
	add := func(of string, ts []evaluator.Timing) {
		for _, t := range ts {
			if est := estimate(t.Ratios()); est != nil {
				e.Estimates = append(e.Estimates, ShapeEstimate{Shape: t.Shape, Of: of, Estimate: *est})
			}
		}
	}
	add(e.readingOf(), e.Result.Timings)
	if f := e.finalist(); f != nil {
		add("finals", f.Timings)
		add("finals, held out", f.HeldOut)
	}
}

// readingOf says which measurement the result is of.
func (e *Evidence) readingOf() string {
	if e.again {
		return record.FromAgain
	}
	return record.FromSearch
}

// finalist is the candidate's own part in the finals, or nil.
func (e *Evidence) finalist() *FinalistView { return e.Finals.entry(e.Candidate) }

// FinalistOf reads a candidate's part in the newest finals that it was in; nil when it
// had none.
func FinalistOf(c store.Candidate) (*FinalistView, error) {
	v, err := ReadFinals(c.Campaign, c.Finals)
	return v.entry(c.ID), err
}

// notRun lists what was not checked. "Not run" is never "passed".
func (e *Evidence) notRun(c store.Candidate) {
	for _, u := range e.Description.Unproven {
		e.NotRun = append(e.NotRun, u.String())
	}
	for _, step := range e.Result.Steps {
		if step.Outcome == evaluator.NotRun && len(step.Evidence) == 0 {
			e.NotRun = append(e.NotRun, fmt.Sprintf("%s: the stage looked at nothing", step.Stage))
		}
		for _, v := range step.Evidence {
			left := v.Check == evaluator.SanitizeShapes && !slices.Contains(e.Sanitizers, v)
			if v.Outcome == evaluator.NotRun && !left {
				e.NotRun = append(e.NotRun, colon(string(step.Stage)+": "+v.Check, v.Detail))
			}
		}
	}
	if f := e.finalist(); f != nil {
		for _, v := range f.Evidence {
			if v.Outcome == evaluator.NotRun {
				e.NotRun = append(e.NotRun, colon("finals: "+v.Check, v.Detail))
			}
		}
	}
	ended := false
	for _, stage := range evaluator.Stages() {
		switch _, reached := e.Result.Step(stage); {
		case !reached && ended:
			e.NotRun = append(e.NotRun, fmt.Sprintf("%s: not reached, the candidate ended in %s", stage, e.Result.Stage))
		case !reached:
			e.NotRun = append(e.NotRun, fmt.Sprintf("%s: the result has no such step", stage))
		}
		ended = ended || stage == e.Result.Stage
	}
	if len(e.Profile) == 0 {
		e.NotRun = append(e.NotRun, "profile: not measured")
	}
	switch {
	case e.Finals == nil && c.Finalist:
		e.NotRun = append(e.NotRun, "finals: the candidate was in finals whose account could not be had; read the store while no campaign holds it")
	case e.Finals == nil:
		e.NotRun = append(e.NotRun, "finals: the candidate was in none, so its figures are of one measurement and no test was made")
	}
	if e.Source.Status != SourceRebuilt {
		e.NotRun = append(e.NotRun, "source: "+e.Source.Why)
	}
}

// A FinalsView is the last comparison of a campaign.
type FinalsView struct {
	Winner     string                `json:"winner,omitempty"`
	Entries    []FinalistView        `json:"entries"`
	VsBaseline *evaluator.Comparison `json:"vs_baseline,omitempty"`
	VsRunnerUp *evaluator.Comparison `json:"vs_runner_up,omitempty"`
	// RunnerUp is the second best, whom VsRunnerUp compares the winner with.
	RunnerUp string `json:"runner_up,omitempty"`
	// Early says what they do not show where they ended early, because the time was over.
	Early string `json:"early,omitempty"`
}

// A FinalistView is one candidate of the finals.
type FinalistView struct {
	Candidate string         `json:"candidate"`
	Genome    map[string]any `json:"genome"`
	evaluator.Finalist
	Speedup  float64   `json:"speedup,omitempty"`
	Interval *Estimate `json:"interval,omitempty"` // of the time ratio, over all tuned shapes
}

// ReadFinals reads logged finals; nil when there are none.
func ReadFinals(campaign string, f *store.Finals) (*FinalsView, error) {
	logged, err := record.ReadFinals(campaign, f)
	if logged == nil {
		return nil, err
	}
	out := &FinalsView{Winner: f.Winner, VsBaseline: logged.VsBaseline, VsRunnerUp: logged.VsRunnerUp, Entries: []FinalistView{}}
	out.Early = logged.EndedEarly(func(i int) string { return f.Finalists[i] })
	second := 0.0
	for _, e := range logged.Entries {
		v := FinalistView{Candidate: e.Candidate, Genome: e.Genome, Finalist: e.Finalist}
		if e.Fitness > 0 {
			v.Speedup = 1 / e.Fitness
			v.Interval = estimate(evaluator.RoundRatios(e.Timings))
			if v.Candidate != f.Winner && (second == 0 || e.Fitness < second) && out.VsRunnerUp != nil {
				second, out.RunnerUp = e.Fitness, v.Candidate
			}
		}
		out.Entries = append(out.Entries, v)
	}
	return out, nil
}

func storeFlag(store string) string {
	if store == "" {
		return ""
	}
	return " --store " + quote(store)
}

// quote makes one word for a shell.
func quote(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// colon joins what and why.
func colon(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
