package api

import (
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/store"
)

// A Found is a stored candidate as queries print it, with its representative figures.
type Found struct {
	Candidate string         `json:"candidate"`
	Campaign  string         `json:"campaign"`
	Kernel    string         `json:"kernel,omitempty"`
	Shapes    []string       `json:"shapes,omitempty"`
	Device    string         `json:"device,omitempty"`
	Index     int            `json:"index"`
	Genome    map[string]any `json:"genome"`
	Encoding  string         `json:"encoding"`
	Operator  string         `json:"operator"`
	ParentIDs []string       `json:"parent_ids,omitempty"`
	Verdict   string         `json:"verdict"`
	Fitness   float64        `json:"fitness,omitempty"`
	Speedup   float64        `json:"speedup,omitempty"`
	evaluator.Times
	// Measured says which measurement the figures are from: finals, again or search.
	Measured string `json:"measured,omitempty"`
	Key      string `json:"key,omitempty"`
	Finalist bool   `json:"finalist"`
	// Proven says that it won finals, and nothing is Unproven.
	Proven bool `json:"proven"`
	// Significant, Slower and Unproven are those of the finals that the candidate won.
	Significant bool    `json:"significant"`
	Slower      float64 `json:"slower"`
	Unproven    string  `json:"unproven,omitempty" doc:"Why the winner of finals is not proven to be right."`
	// Result is its whole result, and Finals its part in the finals that it was in. Both
	// are set only for a candidate that was requested by name.
	Result *evaluator.Result    `json:"result,omitempty"`
	Finals *report.FinalistView `json:"finals,omitempty"`
}

// FoundOf returns a stored candidate without its evidence.
func FoundOf(c store.Candidate) Found {
	v := Found{
		Candidate: c.ID, Campaign: c.Campaign, Kernel: c.Kernel, Shapes: c.Shapes, Device: c.Device,
		Index: c.Asked.Index, Encoding: c.Asked.Genome, Genome: genome.Plain(c.Asked.Genome),
		Operator: c.Asked.Operator, ParentIDs: c.Asked.Parents, Verdict: "pending",
		Finalist: c.Finalist,
	}
	if t := c.Told; t != nil {
		v.Verdict, v.Key = t.Verdict, t.Key
	}
	f := record.FiguresOf(c)
	v.Fitness, v.Times, v.Significant, v.Slower = f.Fitness, f.Times, f.Significant, f.Slower
	v.Speedup, v.Measured = f.Speedup(), f.From
	v.Unproven, v.Proven = f.Unproven, c.Proven && f.Unproven == ""
	return v
}

// EvidenceOf returns a stored candidate with its evidence. The candidate must have its
// payloads.
func EvidenceOf(c store.Candidate) (Found, error) {
	v := FoundOf(c)
	if c.Told != nil {
		r, err := record.ReadResult(c.Told)
		if err != nil {
			return v, err
		}
		v.Result = &r
	}
	var err error
	v.Finals, err = report.FinalistOf(c)
	return v, err
}

// An Answer answers a question for the best of a kernel.
type Answer struct {
	Found
	Backend    string `json:"backend"`
	DeviceName string `json:"device_name"`
	// Rule says in words which rule applied; DeviceRule, NearestShape and
	// Distance say it for scripts.
	Rule          string  `json:"rule"`
	DeviceRule    string  `json:"device_rule"`
	NearestShape  string  `json:"nearest_shape"`
	Distance      float64 `json:"distance"`
	KernelChanged bool    `json:"kernel_changed"`
}

// AnswersOf returns answers in printed form.
func AnswersOf(answers []evotune.Answer) []Answer {
	out := make([]Answer, len(answers))
	for i, n := range answers {
		out[i] = Answer{
			FoundOf(n.Candidate), n.Backend, n.DeviceName, n.Rule(), n.DeviceRule.String(), n.Shape, n.Distance, n.Changed,
		}
	}
	return out
}

// Answers is the body of an answer.
type Answers struct {
	Answers []Answer `json:"answers"`
}

// A Match is a candidate that meets a condition.
type Match struct {
	Found
	Backend    string    `json:"backend"`
	DeviceName string    `json:"device_name"`
	AskedAt    time.Time `json:"asked_at"`
}

// MatchesOf returns the candidates of a selection in printed form.
func MatchesOf(s evotune.Selected) []Match {
	out := make([]Match, len(s.Candidates))
	for i, c := range s.Candidates {
		at := s.Started[c.Campaign]
		out[i] = Match{FoundOf(c), at.Backend, at.Name, c.AskedAt}
	}
	return out
}

// Matches are the candidates that meet a condition.
type Matches struct {
	// Items are at most as many as requested; none if only the number was requested.
	Items []Match `json:"items"`
	// Count is how many match, Candidates how many were looked at.
	Count      int `json:"count"`
	Candidates int `json:"candidates"`
	// Genes are the genes that the condition names.
	Genes []string `json:"genes"`
}
