package api

import (
	"encoding/json"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/record"
)

// An Event is one line of `tune run --json`, and the data of one event of a stream: the
// kind and the fields that docs/events.md lists for it. In a stream the event's id is ID.
type Event struct {
	// ID is the number of the event in the store's log; 0 for a state, which is not in
	// the log. A client that reconnects names the last one that it saw.
	ID   uint64    `json:"-"`
	Kind string    `json:"event" enum:"started,evaluated,measured,paused,continued,budget,searched,warning,finals,stopped,finished,state"`
	Time time.Time `json:"time"`
	// Data are the fields, including those above.
	Data json.RawMessage `json:"-"`
}

// A Status is the data of the event state, which a stream sends whenever state or progress
// changes, at most five times a second.
type Status struct {
	Kind     string    `json:"event"`
	Campaign string    `json:"campaign"`
	State    State     `json:"state"`
	Reason   string    `json:"reason,omitempty"`
	Position int       `json:"position,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
}

// Evaluated is the data of the events evaluated and measured.
type Evaluated struct {
	Campaign  string         `json:"campaign,omitempty"`
	Index     int            `json:"index"`
	Candidate string         `json:"candidate"`
	Genome    map[string]any `json:"genome"`
	// Encoding is the genome as one text, its genes in the order of the space.
	Encoding  string            `json:"encoding"`
	Operator  string            `json:"operator"`
	Parents   []string          `json:"parents,omitempty"`
	Record    bool              `json:"record"`
	Verdict   evaluator.Verdict `json:"verdict"`
	Stage     evaluator.Stage   `json:"stage"`
	Reason    string            `json:"reason,omitempty"`
	Disturbed string            `json:"disturbed,omitempty"`
	Fitness   float64           `json:"fitness,omitempty"`
	evaluator.Times
	CostNS time.Duration `json:"cost_ns"`
}

// Started is the data of the event started, which comes once for each time that a
// process began to run the campaign. Workers is zero when no process runs it.
type Started = evotune.Started

// An Outcome is the data of the events stopped and finished.
type Outcome struct {
	Campaign  string                    `json:"campaign"`
	Evaluated int                       `json:"evaluated"`
	Verdicts  map[evaluator.Verdict]int `json:"verdicts"`
	Best      *Best                     `json:"best"` // nil when no candidate is valid
	// SpaceSize is the number of valid genomes; 0 if it is not known.
	SpaceSize float64 `json:"space_size,omitempty"`
	// PerMinute is the rate of evaluations since the campaign began or was resumed,
	// excluding preparation and the finals.
	PerMinute float64          `json:"per_minute,omitempty"`
	Sanitized evotune.Sanitize `json:"sanitized,omitempty" doc:"Which candidates that passed parity were sanitized: all, or contenders."`
	Reason    string           `json:"reason"`
	ElapsedNS time.Duration    `json:"elapsed_ns"`
	// Phases are the parts of ElapsedNS.
	Phases record.Phases `json:"phases"`
}

// Best is the best candidate of an ended campaign.
type Best struct {
	Candidate string         `json:"candidate"`
	Genome    map[string]any `json:"genome"`
	Encoding  string         `json:"encoding"`
	evaluator.AllTimes
	Speedup     float64 `json:"speedup"`
	Significant bool    `json:"significant"`
	// Measured is which measurement the figures are of: "finals", "again" or "search".
	Measured string `json:"measured,omitempty"`
	// Slower says by how much longer than usual the baseline took in the finals, if that is
	// unusual (0.2 is 20%): the speedup may then be off.
	Slower float64 `json:"slower,omitempty"`
	// Unproven says why the winner of the finals is not proven to be right.
	Unproven string `json:"unproven,omitempty"`
}

// A Comparison is the data of the event finals.
type Comparison struct {
	Campaign   string   `json:"campaign"`
	Candidates []string `json:"candidates"`
	// Encodings are the genomes of the candidates, as Evaluated.Encoding has them.
	Encodings []string       `json:"encodings"`
	Result    *record.Finals `json:"result"`
}

// A Pause is the data of the event paused: the machine is too busy to measure.
type Pause struct {
	Reason string `json:"reason"`
}

// A Warning is the data of the event warning. It is not in the log, so it has no id, and only
// the process that ran the campaign at that time sends it.
type Warning struct {
	Campaign string `json:"campaign"`
	Message  string `json:"message"`
}

// A Past is the data of the event past, which comes first in a stream that summarizes the past.
// Of the events up to Until, it is followed by beginnings, pauses, ends, the best so far and
// finals.
type Past struct {
	Campaign string `json:"campaign"`
	Until    uint64 `json:"until" doc:"The number of the newest event that is summed up."`
	// Verdicts counts all results; Fresh those since the campaign was begun or resumed.
	Verdicts map[evaluator.Verdict]int `json:"verdicts"`
	Fresh    int                       `json:"fresh"`
}

// Searched is the data of the event searched: finals begin.
type Searched struct {
	Reason    string `json:"reason" doc:"What ended the search."`
	Evaluated int    `json:"evaluated"`
}

// A Continuation is the data of the event continued: the machine is calm again.
type Continuation struct {
	AfterNS time.Duration `json:"after_ns"`
}
