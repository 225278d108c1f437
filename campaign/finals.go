package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/store"
)

// finals has the best candidates measured again and logs who won. It returns
// the winner, or the best of the search when there are no finals, or nil when
// there is no valid candidate.
func (r *runner) finals(ctx context.Context) (*Best, error) {
	finalists := r.finalists()
	if len(finalists) == 0 || r.cfg.Finalists < 0 {
		return r.progress().Best, nil
	}
	if done := r.past.finals; done != nil && r.evaluated() == r.past.told {
		return r.recallFinals(done), nil
	}
	genomes := make([]genome.Genome, len(finalists))
	ids := make([]string, len(finalists))
	for k, i := range finalists {
		genomes[k], ids[k] = r.candidates[i].genome, r.candidates[i].id
	}
	if r.opts.OnStage != nil {
		r.opts.OnStage(0, "finals", evaluator.StageBenchmark)
	}
	res, err := r.problem.Evaluator.Finals(ctx, genomes)
	if err != nil {
		return nil, err
	}
	detail, err := json.Marshal(res)
	if err != nil {
		return nil, fmt.Errorf("campaign: encode finals: %w", err)
	}
	logged := &store.Finals{Finalists: ids, Detail: detail}
	var best *Best
	if res.Winner >= 0 {
		w := res.Entries[res.Winner]
		best = &Best{Candidate: ids[res.Winner], Genome: genomes[res.Winner], Speedup: 1 / w.Fitness}
		best.MedianNS, best.BaselineNS = evaluator.MedianTimes(w.Timings)
		best.Significant = res.VsBaseline != nil && res.VsBaseline.Significant && res.VsBaseline.Ratio < 1
		logged.Winner, logged.Fitness = best.Candidate, w.Fitness
		logged.MedianNS, logged.BaselineNS, logged.Significant = best.MedianNS, best.BaselineNS, best.Significant
	}
	r.log(store.Event{Kind: store.KindFinals, Finals: logged})
	if r.opts.Listen != nil {
		r.notes = append(r.notes, Event{Finals: &Finals{Candidates: ids, Result: res}})
	}
	return best, nil
}

// recallFinals takes the winner of finals that the log already has.
func (r *runner) recallFinals(f *store.Finals) *Best {
	for _, c := range r.candidates {
		if c.id == f.Winner {
			return &Best{
				Candidate: c.id, Genome: c.genome, MedianNS: f.MedianNS, BaselineNS: f.BaselineNS,
				Speedup: 1 / f.Fitness, Significant: f.Significant,
			}
		}
	}
	return nil // no finalist survived
}

// finalists are the indexes of the best correct candidates, best first, one
// for each binary.
func (r *runner) finalists() []int {
	var order []int
	for i, c := range r.candidates {
		if c.told && c.verdict == evaluator.Correct {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch fa, fb := r.candidates[a].fitness, r.candidates[b].fitness; {
		case fa < fb:
			return -1
		case fa > fb:
			return 1
		}
		return a - b
	})
	seen := map[string]bool{}
	var out []int
	for _, i := range order {
		if b := r.candidates[i].binary; b != "" {
			if seen[b] {
				continue
			}
			seen[b] = true
		}
		if out = append(out, i); len(out) >= r.cfg.Finalists {
			break
		}
	}
	return out
}
