package evotune

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/importance"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/store"
)

// ImportanceOptions configure the analysis. The zero value is a sensible default. Seed
// fixes the resamples and the trees, and Best, between 0 and 1, asks what matters among
// that best share of the evaluations.
type ImportanceOptions = importance.Options

// An Importance says which genes affected the time of a kernel, and how.
type Importance struct {
	// Campaign or Table names what was analyzed.
	Campaign string   `json:"campaign,omitempty"`
	Table    string   `json:"table,omitempty"`
	Kernel   string   `json:"kernel"`
	Shapes   []string `json:"shapes,omitempty"`
	Device   string   `json:"device,omitempty"`
	// Sampled counts the evaluations of genomes that were sampled from the whole space,
	// and not bred from others.
	Sampled int     `json:"sampled"`
	Best    float64 `json:"best"`
	// Reliable says whether the fit is good enough for the shares to mean
	// something.
	Reliable bool `json:"reliable"`
	*importance.Analysis
	// Failures are the values that fail more often than all evaluations together,
	// by more than chance.
	Failures []FailingValue `json:"failures"`
}

// A FailingValue is a value of a gene with which candidates fail.
type FailingValue struct {
	Gene    string  `json:"gene"`
	Value   string  `json:"value"`
	Failed  int     `json:"failed"`
	Of      int     `json:"of"`
	Share   float64 `json:"share"`
	AtLeast float64 `json:"at_least"` // with a probability of 97.5%
}

// TableImportance analyzes a recorded table. The error is an ErrInput.
func TableImportance(file string, o ImportanceOptions) (Importance, error) {
	t, err := tables.Load(file)
	if err != nil {
		return Importance{}, badInput(err)
	}
	space, err := t.Space()
	if err != nil {
		return Importance{}, badInput(err)
	}
	var es []importance.Evaluation
	for g, ms := range t.All() {
		es = append(es, importance.Evaluation{Genome: g, Time: ms})
	}
	v := Importance{Table: file, Kernel: t.Name(), Device: t.Device(), Sampled: len(es)}
	v.Analysis, err = importance.Analyse(space, es, o)
	return v.finish(o), named(file, err)
}

// Importance analyzes a stored campaign, given by its ID or a unique beginning. The error
// is one of the store, or an ErrInput.
func (m *Machine) Importance(s *store.Store, campaign string, o ImportanceOptions) (Importance, error) {
	c, err := s.Campaign(campaign)
	if err != nil {
		return Importance{}, err
	}
	t, err := m.Recorded(c)
	if err != nil {
		return Importance{}, err
	}
	space, err := t.Space()
	if err != nil {
		return Importance{}, err
	}
	v := Importance{Campaign: c.ID, Kernel: c.Started.Kernel, Shapes: c.Started.Shapes, Device: c.Started.Name}
	var h record.History
	for e, err := range s.Events(c.ID, 0, store.WithoutDetail()) {
		if err != nil {
			return v, err
		}
		if err := h.Add(e); err != nil {
			return v, err
		}
	}
	var es []importance.Evaluation
	for _, t := range h.Results {
		if t.Verdict == string(evaluator.Infrastructure) {
			continue
		}
		p := h.Proposals[t.Index]
		g, err := space.Parse(p.Genome)
		if err != nil {
			return v, badInput(fmt.Errorf("campaign %s: candidate %s is not a genome of the kernel as it is now: %w", c.ID, p.Candidate, err))
		}
		es = append(es, importance.Evaluation{Genome: g, Time: t.Fitness})
		if p.Operator == "seed" || p.Operator == "random" {
			v.Sampled++
		}
	}
	v.Analysis, err = importance.Analyse(space, es, o)
	return v.finish(o), named("campaign "+c.ID, err)
}

// named adds to an error whose evaluations are too few.
func named(what string, err error) error {
	if errors.Is(err, importance.ErrTooFew) {
		return badInput(fmt.Errorf("%s: %w", what, err))
	}
	return err
}

// finish fills in what follows from the analysis.
func (v Importance) finish(o ImportanceOptions) Importance {
	if v.Analysis == nil {
		return v
	}
	v.Best, v.Reliable, v.Failures = o.Best, v.R2 >= importance.GoodFit, []FailingValue{}
	all := float64(v.Evaluations-v.Correct) / float64(v.Evaluations)
	for _, g := range v.Genes {
		for _, e := range g.Values {
			if share, least := e.Failing(); least > all {
				v.Failures = append(v.Failures, FailingValue{g.Name, e.Value, e.Failed, e.Failed + e.Correct, share, least})
			}
		}
	}
	slices.SortStableFunc(v.Failures, func(a, b FailingValue) int { return cmp.Compare(b.AtLeast, a.AtLeast) })
	return v
}
