package store

import (
	"encoding/json"
	"time"
)

// A Kind names what happened.
type Kind string

// The kinds of events.
const (
	KindStarted  Kind = "started"
	KindAsked    Kind = "asked"
	KindTold     Kind = "told"
	KindResumed  Kind = "resumed"
	KindStopped  Kind = "stopped"
	KindFinals   Kind = "finals"
	KindFinished Kind = "finished"
	// KindMeasured: a candidate was measured a second time, because the machine
	// disturbed the first measurement. The search is never told.
	KindMeasured Kind = "measured"
	// KindAttempt: a candidate runs alone because evotune ended
	// while it was in flight, or such a run ended without a result.
	KindAttempt Kind = "attempt"
)

// An Event is one entry of the append-only log: the truth from which every
// index can be rebuilt. Exactly the field that Kind names is set (Resumed,
// Stopped and Finished share Note).
type Event struct {
	// Seq is assigned by Append: 1, 2, 3, ... over the whole store.
	Seq      uint64    `json:"seq"`
	Time     time.Time `json:"time"`
	Campaign string    `json:"campaign"`
	Kind     Kind      `json:"kind"`

	Started *Started `json:"started,omitempty"`
	Asked   *Asked   `json:"asked,omitempty"`
	Told    *Told    `json:"told,omitempty"`
	Finals  *Finals  `json:"finals,omitempty"`
	Note    *Note    `json:"note,omitempty"`
	// Measured replaces the result in queries. Its Index is the proposal's.
	Measured *Told    `json:"measured,omitempty"`
	Attempt  *Attempt `json:"attempt,omitempty"`
}

// Result is what a told or a measured event records, or nil.
func (e *Event) Result() *Told {
	if e.Measured != nil {
		return e.Measured
	}
	return e.Told
}

// Started opens a campaign. What resuming needs is in Config.
type Started struct {
	Kernel   string   `json:"kernel"`
	Shapes   []string `json:"shapes"`
	Backend  string   `json:"backend"`
	Device   string   `json:"device"` // fingerprint
	Name     string   `json:"device_name"`
	Strategy string   `json:"strategy"`
	// SearchVersion is the version of the search's path.
	SearchVersion int   `json:"search_version"`
	Seed          int64 `json:"seed"`
	// Config is the campaign's whole configuration, opaque to the store.
	Config json.RawMessage `json:"config,omitempty"`
	// Description is the evaluator's description, opaque to the store.
	Description json.RawMessage `json:"description,omitempty"`
}

// Asked records a proposal of the search.
type Asked struct {
	// Index counts the campaign's proposals: 0, 1, 2, ...
	Index     int    `json:"index"`
	Candidate string `json:"candidate"`
	// Genome is the canonical encoding.
	Genome   string   `json:"genome"`
	Operator string   `json:"operator"`
	Parents  []string `json:"parents,omitempty"` // candidates
}

// Told records a result that the search was told.
type Told struct {
	Index     int    `json:"index"`
	Candidate string `json:"candidate"`
	Verdict   string `json:"verdict"`
	// Fitness is candidate time over baseline time; 0 unless Verdict is
	// "correct" or "slower". Only "correct" is ranked.
	Fitness    float64 `json:"fitness,omitempty"`
	MedianNS   float64 `json:"median_ns,omitempty"`
	BaselineNS float64 `json:"baseline_ns,omitempty"`
	// Key identifies everything that could change the result.
	Key string `json:"key,omitempty"`
	// Detail is the evaluator's whole result, opaque to the store, kept
	// compressed.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Finals records the last comparison of a campaign.
type Finals struct {
	// Winner is empty when no finalist survived.
	Winner      string  `json:"winner,omitempty"`
	Fitness     float64 `json:"fitness,omitempty"`
	MedianNS    float64 `json:"median_ns,omitempty"`
	BaselineNS  float64 `json:"baseline_ns,omitempty"`
	Significant bool    `json:"significant"`
	// Slower says by how much longer the baseline took than in the search: 0.2 is 20%. It
	// is 0 if the difference is usual.
	Slower float64 `json:"slower,omitempty"`
	// Unproven says in a few words why the winner is not proven to be right; empty if it is.
	Unproven string `json:"unproven,omitempty"`
	// Finalists lists every candidate of the finals, and Detail the
	// evaluator's account of them.
	Finalists []string        `json:"finalists,omitempty"`
	Detail    json.RawMessage `json:"detail,omitempty"`
}

// Attempt records that a candidate is about to enter a stage alone, or how that ended, or what
// happened to it on a host other than the one whose result counts. A result also ends an attempt,
// and so does a stop of the campaign. An attempt without an end ended the process that made it.
type Attempt struct {
	Index     int    `json:"index"` // of the proposal
	Candidate string `json:"candidate"`
	// Stage is empty before the first one.
	Stage string `json:"stage,omitempty"`
	// End is empty when the attempt begins.
	End string `json:"end,omitempty"`
	// Detail is set when the attempt was made on another host: which one, and what is known
	// about it, opaque to the store.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// The reasons of resumptions. Resumed is that of another process. The others are within a
// running one: Continued ends a pause, in which
// the campaign waited for the machine, NewBudget gives the running campaign another
// budget, and InFinals begins the finals.
const (
	Resumed   = "resumed"
	Continued = "continued"
	NewBudget = "budget"
	InFinals  = "finals"
)

// A Note says why a campaign stopped, resumed or finished.
type Note struct {
	Reason string `json:"reason"`
	// Evaluated counts the results told so far.
	Evaluated int             `json:"evaluated"`
	Detail    json.RawMessage `json:"detail,omitempty"`
}
