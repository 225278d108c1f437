package tables

import (
	"slices"

	"github.com/evotune/evotune/evaluator"
)

// A Summary says what a table holds. Times of configurations are milliseconds,
// costs seconds.
type Summary struct {
	Name   string `json:"name"`
	Device string `json:"device"`
	// Form is that of the file; see [Forms].
	Form       string      `json:"form"`
	Parameters []Parameter `json:"parameters"`
	// Constraints are as the file has them, in Python.
	Constraints []string `json:"constraints"`

	// Combinations is the product of the numbers of values. Allowed counts those
	// of them that the constraints allow; it is a bound from above where Exact
	// is false, since the space is too large to be counted.
	Combinations float64 `json:"combinations"`
	Allowed      float64 `json:"allowed"`
	Exact        bool    `json:"exact"`

	// Recorded configurations are Valid, which have a time, or failed.
	Recorded int                       `json:"recorded"`
	Valid    int                       `json:"valid"`
	Failed   map[evaluator.Verdict]int `json:"failed"`

	// Unrecorded are allowed and not recorded; Forbidden are recorded and not
	// allowed, though their verdict is not infeasible, which no such table is
	// replayed with. FirstForbidden says what the first of them breaks.
	Unrecorded     float64 `json:"unrecorded"`
	Forbidden      int     `json:"forbidden"`
	FirstForbidden string  `json:"first_forbidden,omitempty"`

	// Best, Median and Worst are of the valid configurations; 0 without any.
	// BestConfiguration is the first of the fastest.
	BestMS            float64 `json:"best_ms"`
	MedianMS          float64 `json:"median_ms"`
	WorstMS           float64 `json:"worst_ms"`
	BestConfiguration string  `json:"best_configuration,omitempty"`
	// Within tells of the configurations that are nearly as fast as the best.
	Within []Within `json:"within"`
	// Samples counts the raw samples of all configurations.
	Samples int `json:"samples"`

	// Cost is what it took to compile, verify and benchmark. The stages follow,
	// as far as the file tells them; Unsplit counts configurations for which it
	// does not. Strategy and framework are not part of Cost.
	Cost    Spent        `json:"cost"`
	Stages  []StageSpent `json:"stages,omitempty"`
	Unsplit int          `json:"unsplit"`

	// Notices tell of damage; see [Table.Notices].
	Notices []string `json:"notices,omitempty"`
}

// Within counts the configurations whose time is at most Percent above the
// best.
type Within struct {
	Percent        float64 `json:"percent"`
	Configurations int     `json:"configurations"`
	// Evaluations is how many random search, which draws among the recorded
	// configurations and none twice, needs on average to find one of them: the
	// first of k among N is at (N+1)/(k+1).
	Evaluations float64 `json:"evaluations"`
}

// Spent is an amount of time, in seconds, over all configurations and in the
// median one.
type Spent struct {
	TotalS  float64 `json:"total_s"`
	MedianS float64 `json:"median_s"`
}

// StageSpent is what one stage took.
type StageSpent struct {
	Stage string `json:"stage"`
	Spent
}

// withins are the percentages of a summary.
var withins = []float64{1, 5, 10}

// Examine summarises a file, with a T1 description of it or none; see
// [LoadDescribed]. Unlike that it takes a table whose constraints forbid what it
// records, and counts.
func Examine(path, description string) (Summary, error) {
	t, text, err := loadUnproven(path, description)
	if err != nil {
		return Summary{}, err
	}
	s, err := t.summary()
	if err != nil {
		return Summary{}, locate(text, t.file, err)
	}
	return s, nil
}

// summary counts.
func (t *Table) summary() (Summary, error) {
	s := Summary{
		Name: t.name, Device: t.device, Form: t.form, Parameters: t.params, Constraints: t.Constraints(), Combinations: 1,
		Recorded: len(t.rows), Failed: map[evaluator.Verdict]int{}, Notices: t.Notices(),
	}
	for _, p := range t.params {
		s.Combinations *= float64(len(p.Values))
	}
	space, err := t.declared()
	if err != nil {
		return s, err
	}
	s.Allowed, s.Exact = space.Size(), space.Exact()
	s.Unrecorded = s.Allowed
	drawn := 0 // what random search draws from
	for i, why := range t.forbidden(space) {
		switch {
		case why == nil:
			s.Unrecorded--
			drawn++
		case t.rows[i].Failed != evaluator.Infeasible:
			if s.Forbidden++; s.FirstForbidden == "" {
				s.FirstForbidden = oneLine(why.Error())
			}
		}
	}
	s.Unrecorded = max(s.Unrecorded, 0) // the size may be estimated
	s.times(t, drawn)
	s.costs(t)
	return s, nil
}

// times tells of the valid configurations; n is what random search draws from.
func (s *Summary) times(t *Table, n int) {
	var times []float64
	for i, w := range t.rows {
		if samples, err := numbers(t.record(i).raw("times")); err == nil {
			s.Samples += len(samples)
		}
		if w.Failed != "" {
			s.Failed[w.Failed]++
			continue
		}
		times = append(times, w.TimeMS)
		if len(times) == 1 || w.TimeMS < s.BestMS {
			s.BestMS, s.BestConfiguration = w.TimeMS, t.format(w.rank)
		}
	}
	if s.Valid = len(times); s.Valid == 0 {
		return
	}
	s.MedianMS, s.WorstMS = t.median, slices.Max(times)
	for _, percent := range withins {
		w := Within{Percent: percent}
		for _, ms := range times {
			if ms <= s.BestMS*(1+percent/100) {
				w.Configurations++
			}
		}
		w.Evaluations = float64(n+1) / float64(w.Configurations+1)
		s.Within = append(s.Within, w)
	}
}

// costs tells what was spent.
func (s *Summary) costs(t *Table) {
	total := make([]float64, len(t.rows))
	parts := make([][]float64, len(costStages))
	for i, w := range t.rows {
		total[i] = w.CostS
		split := stages(t.record(i))
		if split == nil {
			s.Unsplit++
			continue
		}
		for k, ms := range split {
			parts[k] = append(parts[k], ms/1000)
		}
	}
	s.Cost = spentOf(total)
	for k, list := range parts {
		if len(list) > 0 {
			s.Stages = append(s.Stages, StageSpent{costStages[k].name, spentOf(list)})
		}
	}
}

func spentOf(seconds []float64) Spent {
	sum := 0.0
	for _, x := range seconds {
		sum += x
	}
	return Spent{TotalS: sum, MedianS: evaluator.Median(seconds)}
}
