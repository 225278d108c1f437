package record

import (
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
	// correct. Only the figures that the search is told are of slower candidates, too.
	Fitness float64
	evaluator.Times
	// Significant is that of the finals that the candidate won.
	Significant bool
	// From says which measurement they are of; "" without figures.
	From string
	// Slower and Unproven are those of the finals that the candidate won.
	Slower   float64
	Unproven string
}

// Speedup is the inverse of the fitness; 0 without one.
func (f Figures) Speedup() float64 {
	if f.Fitness > 0 {
		return 1 / f.Fitness
	}
	return 0
}

// Faster says that finals found a candidate with these figures to be faster than the baseline.
// Otherwise the baseline is what to use. Everything that calls something the best asks here.
func Faster(significant bool, speedup float64) bool { return significant && speedup > 1 }

// NothingFaster says that the newest finals of a campaign found nothing faster than the baseline. It is
// false of recorded tables, where nothing is tested.
func NothingFaster(c store.Campaign) bool {
	_, f := CampaignFigures(c)
	return f.From == FromFinals && c.Started.Backend != "replay" && !Faster(f.Significant, f.Speedup())
}

// FiguresOf gives a candidate's figures: those of its newest finals where it was in
// some and they could time it, else those of the result.
func FiguresOf(c store.Candidate) Figures {
	if f := finalFigures(c.Campaign, c.Finals, c.ID); f.Fitness > 0 {
		return f
	}
	if c.Told == nil || !Timed(c.Told) {
		return Figures{}
	}
	return ToldFigures(c.Told, c.Again)
}

// Timed says whether a result has a time that counts. That of a slower candidate, which nothing has shown
// to be right, is for the search alone.
func Timed(t *store.Told) bool { return t.Fitness > 0 && t.Verdict == string(evaluator.Correct) }

// ToldFigures are those of a result, measured again or not.
func ToldFigures(t *store.Told, again bool) Figures {
	f := Figures{Fitness: t.Fitness, Times: evaluator.Times{MedianNS: t.MedianNS, BaselineNS: t.BaselineNS}, From: FromSearch}
	if again {
		f.From = FromAgain
	}
	return f
}

// finalFigures are those of finals; none where they tell of none.
func finalFigures(campaign string, f *store.Finals, candidate string) Figures {
	switch {
	case f == nil:
		return Figures{}
	case f.Winner == candidate && f.Fitness > 0:
		return WinnerFigures(f)
	}
	logged, err := ReadFinals(campaign, f)
	e := logged.Of(candidate)
	if err != nil || e == nil || !(e.Fitness > 0) {
		return Figures{} // what cannot be read is an error where all of it is shown
	}
	return Figures{Fitness: e.Fitness, Times: evaluator.MedianTimes(e.Timings), From: FromFinals}
}

// WinnerFigures are those of the winner of finals.
func WinnerFigures(f *store.Finals) Figures {
	return Figures{f.Fitness, evaluator.Times{MedianNS: f.MedianNS, BaselineNS: f.BaselineNS}, f.Significant, FromFinals, f.Slower, f.Unproven}
}

// CampaignFigures gives the figures of a campaign's best candidate, and its id: the
// winner of the finals, or the best result where there were none. There is none
// where no finalist survived the finals.
func CampaignFigures(c store.Campaign) (string, Figures) {
	switch f := c.Finals; {
	case f != nil:
		return f.Winner, finalFigures(c.ID, f, f.Winner)
	case c.Best != nil && c.Best.Fitness > 0:
		return c.Best.Candidate, ToldFigures(c.Best, c.BestAgain)
	}
	return "", Figures{}
}

// OneBaseline says whether campaigns were measured against one baseline, as far as that is recorded: else
// their times relative to it do not compare. What a baseline is may depend on the libraries of a machine.
func OneBaseline(read func(id string) (store.Campaign, error), ids []string) (bool, error) {
	if len(ids) < 2 {
		return true, nil
	}
	first := ""
	for _, id := range ids {
		c, err := read(id)
		if err != nil {
			return false, err
		}
		d, err := ReadDescription(id, &c.Started)
		if err != nil {
			return false, err
		}
		if first == "" {
			first = d.Baseline
		}
		if d.Baseline != "" && d.Baseline != first {
			return false, nil
		}
	}
	return true, nil
}

// FailedFinals tells whether the newest finals that a candidate was in found it
// wrong, after it had been found correct. That the machine failed says nothing.
func FailedFinals(c store.Candidate) (bool, error) {
	f := c.Finals
	if f == nil || f.Winner == c.ID {
		return false, nil
	}
	logged, err := ReadFinals(c.Campaign, f)
	e := logged.Of(c.ID)
	return e != nil && Refuses(e.Verdict), err
}

// Refuses tells whether a verdict of the finals says that a candidate is wrong.
func Refuses(v evaluator.Verdict) bool {
	return v != evaluator.Correct && v != evaluator.Infrastructure
}
