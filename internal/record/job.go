package record

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// A Job is a campaign's configuration: what it is, apart from the machine that it
// happens to run on. It is the root package's Job, which documents the fields.
type Job struct {
	ID     string   `json:"id"`
	Kernel string   `json:"kernel"`
	Shapes []string `json:"shapes"`

	// What a campaign keeps for its caller and does not look at: how the same
	// evaluator is opened again.

	Backend         string           `json:"backend,omitempty"`
	Definitions     []string         `json:"definitions,omitempty"`
	Table           string           `json:"table,omitempty"`
	Implementations []string         `json:"implementations,omitempty"`
	Hash            string           `json:"hash,omitempty"`
	Limits          map[string]int64 `json:"limits,omitempty"`
	Sweep           bool             `json:"sweep,omitempty"`
	WarmStart       int              `json:"warm_start,omitempty"`

	// Sanitize is which candidates are sanitized; empty means SanitizeAll.
	Sanitize Sanitize `json:"sanitize,omitempty"`
	// Strict refuses a problem that proves nothing, as in [evaluator.Plan.Strict].
	Strict bool `json:"strict,omitempty"`

	Strategy string `json:"strategy"`
	Seed     int64  `json:"seed"`
	// Window: proposal k is made after exactly the results 0..k-Window were told, so the
	// path depends on the window but never on the number of workers.
	Window    int `json:"window"`
	Finalists int `json:"finalists"`
	// Start are proposed by the operator "warm" and with the stored candidates that they
	// were taken from as parents, which the log must have. Those that a definition names
	// have none. Nil leaves the choice to who starts the campaign; empty says that there
	// are none, in the log as well.
	Start  []Start `json:"start,omitzero"`
	Budget Budget  `json:"budget"`
	// Family is what the campaign is a part of; nil for one of its own.
	Family *Family `json:"family,omitempty"`
	// Arch is the processor architecture (GOARCH) that the search runs on: paths are computed in
	// floating point, which others may round otherwise. Empty where a store from before the first release was
	// converted, which did not say it.
	Arch string `json:"arch,omitempty"`
}

// Sanitize says which candidates the sanitizers see.
type Sanitize string

// The values of Sanitize.
const (
	// SanitizeAll: every candidate that passes parity.
	SanitizeAll Sanitize = "all"
	// SanitizeContenders: those whose first readings are not far slower than the best that
	// was known when they were proposed, as in [evaluator.Plan.Contenders].
	SanitizeContenders Sanitize = "contenders"
)

// Sanitized is the job's Sanitize, also where that is empty; empty for a recorded table, whose results
// nothing checks.
func (j Job) Sanitized() Sanitize {
	if j.Table != "" {
		return ""
	}
	return cmp.Or(j.Sanitize, SanitizeAll)
}

// A Family is a list of problems that are tuned together under one budget, each by a
// campaign of its own. All of these record it. It is the root package's FamilyPlan.
type Family struct {
	ID string `json:"id"`
	// Tuned and Between are names of shapes. Those of Between are searched by nobody: the
	// winners of their neighbors are compared there.
	Tuned   []string `json:"tuned,omitempty"`
	Between []string `json:"between,omitempty"`
	// Tables are those of a family of recorded spaces, which have no shapes.
	Tables []string `json:"tables,omitempty"`
	// Budget is what the searches of all share: Evaluations, or Time.
	Budget Budget `json:"budget"`
}

// A Start is a genome that the search proposes before all others, and where it
// comes from.
type Start struct {
	// Genome is the canonical encoding, in the campaign's own space.
	Genome string `json:"genome"`
	// Candidate is the stored candidate that the genome was taken from; the log
	// names it as the parent. Campaign, Shapes and Device, a name, are those of
	// that candidate.
	Candidate string   `json:"candidate,omitempty"`
	Campaign  string   `json:"campaign,omitempty"`
	Shapes    []string `json:"shapes,omitempty"`
	Device    string   `json:"device,omitempty"`
}

// A Budget combines limits: the first one that is reached ends the search. A
// zero field sets no limit.
type Budget struct {
	// Evaluations limits how many candidates are proposed.
	Evaluations int `json:"evaluations,omitempty"`
	// Time limits the wall time of the whole campaign over all resumptions: preparation,
	// search and finals. The search ends early enough for the finals.
	Time time.Duration `json:"time_ns,omitempty"`
	// Target ends the search at this speedup over the baseline.
	Target float64 `json:"target,omitempty"`
	// Patience ends the search after so many evaluations without a new best.
	Patience int `json:"patience,omitempty"`
	// CostPerHour is the price of the machine and MaxCost the money there is,
	// in the same currency.
	CostPerHour float64 `json:"cost_per_hour,omitempty"`
	MaxCost     float64 `json:"max_cost,omitempty"`
}

// IsZero says that nothing but the end of the space ends the search.
func (b Budget) IsZero() bool {
	return b.Evaluations == 0 && b.Time == 0 && b.Target == 0 && b.Patience == 0 && b.MaxCost == 0
}

// The largest limits that a Budget may set. Zero sets none.
const (
	MaxEvaluations = 100_000_000 // of Patience, too
	MaxTime        = 1_000_000_000 * time.Second
	MaxAmount      = 1e12 // of Target, CostPerHour and MaxCost
)

// Validate reports the first thing that makes a budget unusable.
func (b Budget) Validate() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"evaluations", b.Evaluations}, {"patience", b.Patience}} {
		switch {
		case n.value < 0:
			return fmt.Errorf("%s is %d, it must not be negative", n.name, n.value)
		case n.value > MaxEvaluations:
			return fmt.Errorf("%s is %d, it must be at most %d", n.name, n.value, MaxEvaluations)
		}
	}
	for _, x := range []struct {
		name  string
		value float64
	}{{"target", b.Target}, {"cost-per-hour", b.CostPerHour}, {"max-cost", b.MaxCost}} {
		switch {
		case x.value < 0:
			return fmt.Errorf("%s is %g, it must not be negative", x.name, x.value)
		case !(x.value <= MaxAmount): // not a number, too
			return fmt.Errorf("%s is %g, it must be a number up to %g", x.name, x.value, MaxAmount)
		}
	}
	switch {
	case b.Time < 0:
		return fmt.Errorf("time is %s, it must not be negative", b.Time)
	case b.Time > MaxTime:
		return fmt.Errorf("time is %s, it must be at most %s", b.Time, MaxTime)
	case b.MaxCost > 0 && b.CostPerHour == 0:
		return errors.New("max-cost needs cost-per-hour: what does an hour of this machine cost?")
	}
	return nil
}
