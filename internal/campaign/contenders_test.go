package campaign_test

import (
	"context"
	"math/rand"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// onlyContenders is an evaluator that sanitizes only contenders.
type onlyContenders struct{ evaluator.Evaluator }

func (e onlyContenders) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	r, err := e.Evaluator.Evaluate(ctx, g, incumbent)
	if incumbent > 0 && r.Verdict == evaluator.Correct && r.Fitness > 1.25*incumbent {
		r.Verdict, r.Reason = evaluator.Slower, "slower"
	}
	return r, err
}

// TestContenders: a campaign that sanitizes only contenders proposes the same genomes with any number of
// workers and across interruptions. They are those that it would propose if it sanitized all: the search
// learns the time of a slower candidate. Nothing else counts it.
func TestContenders(t *testing.T) {
	const n = 120
	cfg := config(n)
	cfg.Sanitize = record.SanitizeContenders
	run := func(workers, endEvery int, p campaign.Problem) *store.Store {
		t.Helper()
		s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
		p.Evaluator = &jitter{Evaluator: p.Evaluator, rng: rand.New(rand.NewSource(int64(workers)))}
		for range n {
			drain, told := make(chan struct{}), 0
			f, err := campaign.Run(t.Context(), p, cfg, campaign.Options{
				Workers: workers, Log: s, Past: past(t, s, cfg.ID), Drain: drain,
				Listen: func(e campaign.Event) {
					if e.Evaluated == nil {
						return
					}
					if told++; told == endEvery {
						close(drain)
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if f.Sanitized != record.SanitizeContenders {
				t.Fatalf("its summary says that %q were sanitized", f.Sanitized)
			}
			if f.Complete {
				return s
			}
		}
		t.Fatal("the campaign does not end")
		return nil
	}
	only := func() campaign.Problem {
		p := problem(t, 0)
		p.Evaluator = onlyContenders{p.Evaluator}
		return p
	}
	first := run(1, n+1, only())
	want := lineage(t, first, cfg.ID)
	for name, s := range map[string]*store.Store{"eight workers": run(8, n+1, only()), "interrupted": run(3, 17, only())} {
		if diff := cmp.Diff(want, lineage(t, s, cfg.ID)); diff != "" {
			t.Errorf("%s: another path:\n%s", name, diff)
		}
	}
	genomes := func(s *store.Store) (out []string) {
		for _, e := range lineage(t, s, cfg.ID) {
			if e.Asked != nil {
				out = append(out, e.Asked.Genome)
			}
		}
		return out
	}
	if diff := cmp.Diff(genomes(run(8, n+1, problem(t, 0))), genomes(first)); diff != "" {
		t.Errorf("the search did not learn the times of slower candidates (-all sanitized +contenders):\n%s", diff)
	}

	c, err := first.Campaign(cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	if job, err := record.ReadJob(c.ID, &c.Started); err != nil || job.Sanitize != record.SanitizeContenders {
		t.Errorf("the log has the mode %q, %v", job.Sanitize, err)
	}
	slower := map[string]bool{}
	for _, e := range want {
		if e.Told != nil && e.Told.Verdict == string(evaluator.Slower) {
			slower[e.Told.Candidate] = true
			if !(e.Told.Fitness > 0) {
				t.Errorf("the log has no time of %s, and a resumption would not learn it", e.Told.Candidate)
			}
		}
	}
	if len(slower) < n/4 || len(slower) != c.Verdicts[string(evaluator.Slower)] {
		t.Fatalf("%d candidates are slower, and the campaign counts %v", len(slower), c.Verdicts)
	}
	best, err := first.Best(store.Query{Campaign: cfg.ID})
	if err != nil || len(best) == 0 {
		t.Fatal(len(best), err)
	}
	for _, b := range best {
		if slower[b.ID] {
			t.Errorf("slower candidate %s is among the best", b.ID)
		}
	}
	for id := range slower {
		if slices.Contains(c.Finals.Finalists, id) {
			t.Errorf("slower candidate %s was in the finals", id)
		}
		full, err := first.Candidate(id)
		if err != nil {
			t.Fatal(err)
		}
		if f := record.FiguresOf(full); f != (record.Figures{}) {
			t.Errorf("slower candidate %s has figures: %+v", id, f)
		}
	}
	cfg.Sanitize = "some"
	if _, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{}); err == nil || err.Error() != `campaign: sanitize is "some": give all or contenders` {
		t.Errorf("another mode: %v", err)
	}
}

// TestSlowerIsNeverBest: whatever time a slower candidate has, it is not the best, and nothing has to beat it.
func TestSlowerIsNeverBest(t *testing.T) {
	cfg := config(40)
	cfg.Finalists = new(0) // else they name the best
	p := problem(t, 0)
	seen := map[string]float64{}
	p.Evaluator = &pinned{Evaluator: quickest{p.Evaluator}, incumbents: seen}
	log := &memory{}
	f, err := campaign.Run(t.Context(), p, cfg, campaign.Options{Workers: 4, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if f.Best == nil || f.Best.Speedup > 1e5 || f.Verdicts[evaluator.Slower] == 0 {
		t.Errorf("the best is %v of %v", f.Best, f.Verdicts)
	}
	for g, incumbent := range seen {
		if incumbent == tooQuick {
			t.Errorf("%s had to beat a slower candidate", g)
		}
	}
}

const tooQuick = 1e-6

// quickest gives every candidate with an incumbent the verdict slower and an impossible time.
type quickest struct{ evaluator.Evaluator }

func (e quickest) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	r, err := e.Evaluator.Evaluate(ctx, g, incumbent)
	if incumbent > 0 && r.Verdict == evaluator.Correct {
		r.Verdict, r.Fitness, r.Reason = evaluator.Slower, tooQuick, "slower"
	}
	return r, err
}
