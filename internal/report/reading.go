package report

import (
	"encoding/json"
	"slices"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/store"
)

// The measurements that figures can be of.
const (
	// FromSearch: the one measurement that the search was told of. The best of many
	// such readings are also the luckiest.
	FromSearch = "search"
	// FromAgain: a second measurement, because the machine disturbed the first.
	FromAgain = "again"
	// FromFinals: the finals, in fresh processes beside the other finalists.
	FromFinals = "finals"
)

// Figures are the numbers that stand for a candidate.
type Figures struct {
	// Fitness is candidate time over baseline time, 0 without a result that is
	// correct; the times are nanoseconds per launch.
	Fitness, MedianNS, BaselineNS float64
	// Significant is that of the finals that the candidate won.
	Significant bool
	// From says which measurement they are of; "" without figures.
	From string
}

// Speedup is the inverse of the fitness; 0 without one.
func (f Figures) Speedup() float64 {
	if f.Fitness > 0 {
		return 1 / f.Fitness
	}
	return 0
}

// FiguresOf gives a candidate's figures: those of its newest finals where it was in
// some and they could time it, else those of the result.
func FiguresOf(c store.Candidate) Figures {
	if f := finalFigures(c.Finals, c.ID); f.Fitness > 0 {
		return f
	}
	if c.Told == nil || !(c.Told.Fitness > 0) {
		return Figures{}
	}
	return toldFigures(c.Told, c.Again)
}

func toldFigures(t *store.Told, again bool) Figures {
	f := Figures{Fitness: t.Fitness, MedianNS: t.MedianNS, BaselineNS: t.BaselineNS, From: FromSearch}
	if again {
		f.From = FromAgain
	}
	return f
}

// finalFigures are those of finals; none where they tell of none.
func finalFigures(f *store.Finals, candidate string) Figures {
	switch {
	case f == nil:
		return Figures{}
	case f.Winner == candidate && f.Fitness > 0:
		return Figures{f.Fitness, f.MedianNS, f.BaselineNS, f.Significant, FromFinals}
	}
	i := slices.Index(f.Finalists, candidate)
	entries, err := readEntries(f)
	if err != nil || i < 0 || i >= len(entries) || !(entries[i].Fitness > 0) {
		return Figures{} // what cannot be read is an error where all of it is shown
	}
	out := Figures{Fitness: entries[i].Fitness, From: FromFinals}
	var times, baselines []float64
	for _, t := range entries[i].Timings {
		times, baselines = append(times, t.MedianNS), append(baselines, t.BaselineMedianNS)
	}
	if len(times) > 0 {
		out.MedianNS, out.BaselineNS = evaluator.GeometricMean(times), evaluator.GeometricMean(baselines)
	}
	return out
}

// An entry is what is read of a finalist where its samples are not wanted.
type entry struct {
	Verdict evaluator.Verdict `json:"verdict"`
	Fitness float64           `json:"fitness"`
	Timings []struct {
		MedianNS         float64 `json:"median_ns"`
		BaselineMedianNS float64 `json:"baseline_median_ns"`
	} `json:"timings"`
}

func readEntries(f *store.Finals) ([]entry, error) {
	if len(f.Detail) == 0 {
		return nil, nil
	}
	var d struct {
		Entries []entry `json:"entries"`
	}
	err := json.Unmarshal(f.Detail, &d)
	return d.Entries, err
}

// CampaignFigures gives the figures of a campaign's best candidate, and its id: the
// winner of the finals, or the best result where there were none. There is none
// where no finalist survived the finals.
func CampaignFigures(c store.Campaign) (string, Figures) {
	switch f := c.Finals; {
	case f != nil:
		return f.Winner, finalFigures(f, f.Winner)
	case c.Best != nil && c.Best.Fitness > 0:
		return c.Best.Candidate, toldFigures(c.Best, c.BestAgain)
	}
	return "", Figures{}
}

// FailedFinals tells whether the newest finals that a candidate was in found it
// wrong, after it had been found correct. That the machine failed says nothing.
func FailedFinals(c store.Candidate) (bool, error) {
	f := c.Finals
	if f == nil || f.Winner == c.ID {
		return false, nil
	}
	entries, err := readEntries(f)
	if err != nil {
		return false, err
	}
	i := slices.Index(f.Finalists, c.ID)
	return i >= 0 && i < len(entries) && entries[i].Verdict != evaluator.Correct && entries[i].Verdict != evaluator.Infrastructure, nil
}
