package campaign

import (
	"fmt"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
)

// An Event is one moment of a campaign, as the terminal, the JSON printer and
// other programs see it. Exactly one field besides Time is set. An event is
// sent after what it tells is durable in the store.
type Event struct {
	Time      time.Time
	Started   *Started
	Evaluated *Evaluated
	// Measured tells of a candidate that was measured a second time, because the
	// machine disturbed the first measurement.
	Measured  *Evaluated
	Paused    *Paused
	Continued *Continued
	// Budget is what a campaign has taken for its new budget.
	Budget *record.Budget
	// Searched says that the search has come to rest. Second measurements and the
	// finals follow, if there are any, and Finished.
	Searched *Searched
	Finals   *Finals
	Warning  string
	Finished *Finished
}

// Started opens the stream, or opens it again after a resumption.
type Started struct {
	Campaign    string                `json:"campaign"`
	Config      record.Job            `json:"config"`
	Description evaluator.Description `json:"description"`
	// SpaceSize is the number of valid genomes; SpaceExact says whether it was
	// counted or estimated.
	SpaceSize  float64 `json:"space_size"`
	SpaceExact bool    `json:"space_exact"`
	Workers    int     `json:"workers"`
	// Resumed counts the results that the log already held; Spent is the wall
	// time of the processes that made them, and Prepared what this one has taken to prepare.
	Resumed  int           `json:"resumed,omitempty"`
	Spent    time.Duration `json:"spent_ns,omitempty"`
	Prepared time.Duration `json:"prepared_ns,omitempty"`
}

// Evaluated tells of one candidate, in the order in which they were proposed.
type Evaluated struct {
	Index     int              `json:"index"`
	Candidate string           `json:"candidate"`
	Genome    genome.Genome    `json:"genome"`
	Operator  string           `json:"operator"`
	Parents   []string         `json:"parents,omitempty"`
	Result    evaluator.Result `json:"-"`
	// Record says that the candidate is the best so far.
	Record bool `json:"record"`
	// Progress after this evaluation.
	Progress Progress `json:"-"`
}

// Paused says that no candidate is evaluated until the machine is calm.
type Paused struct {
	// Reason is what disturbs the measurements.
	Reason string `json:"reason"`
}

// Continued ends a pause, of the given wall time.
type Continued struct {
	After time.Duration `json:"after_ns"`
}

// Searched ends the search, but not the campaign.
type Searched struct {
	// Reason is what ended it, such as the limit of the budget that was reached.
	Reason    string `json:"reason"`
	Evaluated int    `json:"evaluated"`
}

// Progress sums up a campaign so far.
type Progress struct {
	Evaluated int
	Verdicts  map[evaluator.Verdict]int
	Best      *Best
	Elapsed   time.Duration
	// Remaining estimates the time until the budget ends the search; negative
	// when that cannot be told.
	Remaining time.Duration
}

// Finals tells the outcome of the last comparison.
type Finals struct {
	Candidates []string         `json:"candidates"`
	Result     evaluator.Finals `json:"result"`
}

// Best is the best candidate: that of the finals if there were any, otherwise
// the best of the search.
type Best struct {
	Candidate string        `json:"candidate"`
	Genome    genome.Genome `json:"genome"`
	// Times are medians over samples, and geometric means over the tuned shapes
	// when there are several.
	evaluator.AllTimes
	// Speedup is the inverse of the fitness: the geometric mean over shapes of
	// the median paired ratio baseline/candidate.
	Speedup float64 `json:"speedup"`
	// Significant says that the finals found the speedup over the baseline to
	// be more than noise. It is false when there were no finals.
	Significant bool `json:"significant"`
	// Measured is which measurement the figures are of: "finals", "again" or "search".
	Measured string `json:"measured,omitempty"`
	// Slower says by how much more of its usual time the baseline took in the finals than in
	// the search, where that is unusual: the speedup may be off then.
	Slower float64 `json:"slower,omitempty"`
	// Unproven says why the winner of the finals is not proven to be right; empty if it is.
	Unproven string `json:"unproven,omitempty"`
}

// Faster says that the finals found it to be faster than the baseline. Otherwise the
// baseline is what to use.
func (b *Best) Faster() bool { return record.Faster(b.Significant, b.Speedup) }

// String is one line for people, also where there is no candidate.
func (b *Best) String() string {
	if b == nil {
		return "no valid candidate"
	}
	sure := "not significant"
	switch {
	case b.Unproven != "":
		sure = b.Unproven
	case b.Faster():
		sure = "significant"
	case b.Speedup <= 1:
		sure = "not faster"
	}
	return fmt.Sprintf("%s: %.3f us against %.3f us, %.3f times as fast as the baseline (%s): %s", b.Candidate, b.MedianNS/1e3, b.BaselineNS/1e3, b.Speedup, sure, b.Genome)
}

// Finished closes the stream.
type Finished struct {
	Campaign  string                    `json:"campaign"`
	Evaluated int                       `json:"evaluated"`
	Verdicts  map[evaluator.Verdict]int `json:"verdicts"`
	Best      *Best                     `json:"best"`
	// SpaceSize is the number of valid genomes; 0 if it is not known.
	SpaceSize float64 `json:"space_size,omitempty"`
	// PerMinute is the rate of evaluations of this process in its search: preparation and
	// finals are left out.
	PerMinute float64 `json:"per_minute,omitempty"`
	// Usage says how busy the devices were until the finals, where the
	// evaluator can tell.
	Usage *evaluator.Usage `json:"usage,omitempty"`
	// Sanitized says which candidates the sanitizers saw; empty for a recorded table.
	Sanitized record.Sanitize `json:"sanitized,omitempty"`
	// Reason says what ended the campaign; Complete is false when it was
	// interrupted and can be resumed.
	Reason   string        `json:"-"`
	Complete bool          `json:"-"`
	Elapsed  time.Duration `json:"-"`
	// Phases are the parts of Elapsed.
	Phases record.Phases `json:"phases"`
}
