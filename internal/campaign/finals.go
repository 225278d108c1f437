package campaign

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// finals has the best candidates measured again and logs who won. It returns
// the winner, or the best of the search when there are no finals, or nil when
// there is no valid candidate.
func (r *runner) finals(ctx context.Context) (*Best, error) {
	finalists := r.finalists()
	if len(finalists) == 0 || r.cfg.FinalsOf() < 1 {
		return r.progress().Best, nil
	}
	if done := r.past.finals; done != nil && r.evaluated() == r.past.Evaluated && !r.incomplete(done) {
		return r.winner(done), nil
	}
	ids := make([]string, len(finalists))
	for k, i := range finalists {
		ids[k] = r.candidates[i].id
	}
	if r.opts.OnStage != nil {
		r.opts.OnStage(0, "finals", evaluator.StageBenchmark)
	}
	if err := r.logResume(store.InFinals, r.evaluated()); err != nil {
		return nil, err
	}
	r.rested = time.Now()
	if err := r.flush(); err != nil {
		return nil, err
	}
	parent := ctx
	end, limited := r.end(len(finalists))
	if limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(evaluator.WithEnd(ctx, end), end.Last.Add(endingFinals))
		defer cancel()
	}
	res, err := r.compare(ctx, finalists, nil)
	if err != nil && ctx.Err() != nil && parent.Err() == nil {
		res, err = evaluator.Finals{Winner: -1, Early: &evaluator.Early{}}, nil // a worker that is not there
	}
	if err != nil {
		return nil, err
	}
	if res.Early != nil && res.Winner < 0 && !slices.ContainsFunc(res.Entries, func(e evaluator.Finalist) bool { return record.Refuses(e.Verdict) }) {
		r.warn("the time was over before the finals could tell anything of a finalist: the best is the best of the search; with more time, a resumption holds them")
		return r.progress().Best, nil
	}
	again := !limited || time.Now().Add(time.Since(r.rested)).Before(end.By)
	if again && r.slower(res) > 0 { // once more, and those count: no speedup decides which
		again, err := r.compare(ctx, finalists, res.Entries)
		disturbed := err != nil || again.Winner < 0 && slices.ContainsFunc(again.Entries, func(e evaluator.Finalist) bool { return e.Verdict == evaluator.Infrastructure })
		if !disturbed || err == nil && record.Refuses(again.Entries[res.Winner].Verdict) {
			res = again
		} else if err == nil {
			for k, e := range again.Entries {
				if record.Refuses(e.Verdict) {
					res.Entries[k] = e
				}
			}
		}
	}
	for _, e := range res.Entries {
		if res.Winner < 0 && e.Verdict == evaluator.Infrastructure && res.Early == nil {
			// Not the last word: a resumption repeats them.
			return nil, fmt.Errorf("the machine disturbed the finals: %s", e.Reason)
		}
	}
	slower := r.slower(res)
	if slower > 0 {
		w := &res.Entries[res.Winner]
		w.Evidence = append(w.Evidence, evaluator.Evidence{
			Check: "baseline as usual", Outcome: evaluator.Failed, Value: 1 + slower, Limit: usualBaseline,
			Detail: "in the finals it took that many times as long as beside most candidates of the search: something slowed the machine, and perhaps not both alike",
		})
	}
	logged, err := record.NewFinals(ids, res, r.refused(finalists, res)...)
	if err != nil {
		return nil, err
	}
	if logged.Slower = slower; res.Winner >= 0 {
		logged.Unproven = r.problem.Evaluator.Describe().NotProven()
	}
	r.log(store.Event{Kind: store.KindFinals, Finals: logged})
	if r.opts.Listen != nil {
		r.notes = append(r.notes, Event{Finals: &Finals{Candidates: ids, Result: res}})
	}
	return r.winner(logged), nil
}

// incomplete says that earlier finals ended early, and there is time for complete ones.
func (r *runner) incomplete(f *store.Finals) bool {
	logged, err := record.ReadFinals(r.cfg.ID, f)
	if err != nil || logged == nil || logged.Early == nil {
		return false // what cannot be read is an error where all of it is shown
	}
	t := r.cfg.Budget.Time
	return t == 0 || t-r.used() > r.finalsTime(len(f.Finalists))
}

// refused are the candidates that are not finalists and have the code of one that is wrong.
func (r *runner) refused(finalists []int, res evaluator.Finals) (ids []string) {
	for k, i := range finalists {
		for n, c := range r.candidates {
			if wrong := record.Refuses(res.Entries[k].Verdict) && c.binary != "" && c.binary == r.candidates[i].binary; wrong && n != i {
				ids = append(ids, c.id)
			}
		}
	}
	return ids
}

// winner is that of finals that the log has.
func (r *runner) winner(f *store.Finals) *Best {
	for _, c := range r.candidates {
		if c.id == f.Winner {
			won := record.WinnerFigures(f)
			return &Best{Candidate: c.id, Genome: c.genome, AllTimes: evaluator.AllTimes(won.Times), Speedup: won.Speedup(), Significant: won.Significant, Measured: won.From, Slower: won.Slower, Unproven: won.Unproven}
		}
	}
	return nil // no finalist survived
}

// finalists are the indexes of those that are measured again, one for each binary:
// by turns the next best by fitness and the next best by steadied fitness. The
// first is the best of the search.
func (r *runner) finalists() []int {
	var correct []int
	seen := map[string]bool{}
	for i, c := range r.candidates {
		if !c.told || c.verdict != evaluator.Correct || c.binary != "" && seen[c.binary] {
			continue
		}
		seen[c.binary] = true
		correct = append(correct, i)
	}
	// In the order in which they were measured.
	slices.SortStableFunc(correct, func(a, b int) int {
		switch x, y := r.candidates[a].again, r.candidates[b].again; {
		case x == y:
			return 0
		case x:
			return 1
		}
		return -1
	})
	rank := func(fitness func(i int) float64) []int {
		return slices.SortedStableFunc(slices.Values(correct), func(a, b int) int {
			return cmp.Compare(fitness(a), fitness(b))
		})
	}
	steadied := r.steadied(correct)
	ranks := [2][]int{
		rank(func(i int) float64 { return r.candidates[i].figures.Fitness }),
		rank(func(i int) float64 { return steadied[i] }),
	}
	var out []int
	for turn := 0; len(out) < min(r.cfg.FinalsOf(), len(correct)); turn++ {
		left := ranks[turn%2]
		for slices.Contains(out, left[0]) {
			left = left[1:]
		}
		out, ranks[turn%2] = append(out, left[0]), left[1:]
	}
	return out
}

// steadyWindow is how many results to each side tell what the baseline takes.
const steadyWindow = 25

// steadied is the fitness of candidates, by index, if each had met the baseline as
// most of those around it did. Fitness is relative to the baseline beside which a
// candidate was timed: that takes out what drifts, and brings in what the baseline
// happened to take in those milliseconds. Among thousands of candidates the best by
// fitness are those whose baseline was slow by chance.
func (r *runner) steadied(correct []int) map[int]float64 {
	out := make(map[int]float64, len(correct))
	baselines := make([]float64, len(correct))
	for k, i := range correct {
		baselines[k] = r.candidates[i].figures.BaselineNS
	}
	for k, i := range correct {
		c := r.candidates[i]
		out[i] = c.figures.Fitness
		around := evaluator.Median(baselines[max(0, k-steadyWindow):min(len(baselines), k+steadyWindow+1)])
		if around > 0 && c.figures.BaselineNS > 0 {
			out[i] *= c.figures.BaselineNS / around
		}
	}
	return out
}

const (
	// usualBaseline is how many times as long as usual the baseline may take in finals.
	usualBaseline = 1.05
	// usualLeast is how many results tell what is usual.
	usualLeast = 10
)

// slower says by how much more of its time the baseline took in finals than it usually did
// in the search, where that is more than usualBaseline allows and more than it took beside nine of ten
// candidates; 0 otherwise, and where nothing can be said: there are few results, or several
// machines made them. What slows memory slows the baseline and the winner by different
// shares, and pairing does not help against it.
func (r *runner) slower(res evaluator.Finals) float64 {
	if res.Winner < 0 || res.Host != "" {
		return 0
	}
	var usual []float64
	for _, c := range r.candidates {
		if c.told && c.verdict == evaluator.Correct && c.figures.BaselineNS > 0 {
			usual = append(usual, c.figures.BaselineNS)
		}
	}
	if len(usual) < usualLeast {
		return 0
	}
	slices.Sort(usual)
	took := evaluator.MedianTimes(res.Entries[res.Winner].Timings).BaselineNS
	if ratio := took / evaluator.Median(usual); ratio > usualBaseline && took > usual[len(usual)*9/10] {
		return ratio - 1
	}
	return 0
}
