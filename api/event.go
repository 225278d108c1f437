package api

import (
	"encoding/json"
	"time"

	"github.com/evotune/evotune/evaluator"
)

// An Event is one line of `tune run --json`, and the data of one event of a stream: the
// kind and the fields that docs/events.md lists for it. In a stream the event's id is ID.
type Event struct {
	// ID is the number of the event in the store's log that tells it; 0 for a state,
	// which is not in the log. A client that comes back names the last one that it saw.
	ID   uint64    `json:"-"`
	Kind string    `json:"event" enum:"started,evaluated,measured,paused,continued,warning,finals,stopped,resumed,state"`
	Time time.Time `json:"time"`
	// Data are the fields, with those above.
	Data json.RawMessage `json:"-"`
}

// A Status is the data of the event state, which a stream has whenever state or progress are
// others, five times a second at most.
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
	Campaign  string            `json:"campaign,omitempty"`
	Index     int               `json:"index"`
	Candidate string            `json:"candidate"`
	Genome    map[string]any    `json:"genome"`
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
