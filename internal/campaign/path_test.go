package campaign_test

import (
	"context"
	"encoding/json"
	"math/rand"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// A pinned evaluator notes what each candidate had to beat.
type pinned struct {
	evaluator.Evaluator
	mu         sync.Mutex
	incumbents map[string]float64
}

func (p *pinned) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	p.mu.Lock()
	p.incumbents[g.String()] = incumbent
	p.mu.Unlock()
	return p.Evaluator.Evaluate(ctx, g, incumbent)
}

// TestIncumbent: what a candidate has to beat is the best of the results that its
// proposal was made after, however many workers there are, whenever these are free, and
// however often the campaign goes on after an end.
func TestIncumbent(t *testing.T) {
	const n = 120
	cfg := config(n)
	// beaten is what the log says that each had to beat.
	beaten := func(log *memory) map[string]float64 {
		var asked []string
		var told []*store.Told
		for _, e := range log.events {
			switch {
			case e.Asked != nil:
				asked = append(asked, e.Asked.Genome)
			case e.Told != nil:
				told = append(told, e.Told)
			}
		}
		out := map[string]float64{}
		for k, g := range asked {
			best := 0.0
			for _, r := range told[:max(0, k-campaign.DefaultWindow+1)] {
				if r.Verdict == string(evaluator.Correct) && (best == 0 || r.Fitness < best) {
					best = r.Fitness
				}
			}
			out[g] = best
		}
		return out
	}
	for name, tt := range map[string]struct{ workers, endEvery int }{
		"one worker": {1, n}, "two": {2, n}, "eight": {8, n}, "resumed": {4, 17},
	} {
		t.Run(name, func(t *testing.T) {
			log, seen := &memory{}, map[string]float64{}
			for round := range int64(n) {
				p := problem(t, 0)
				ev := &pinned{Evaluator: &jitter{Evaluator: p.Evaluator, rng: rand.New(rand.NewSource(round))}, incumbents: seen}
				p.Evaluator = ev
				drain, told := make(chan struct{}), 0
				f, err := campaign.Run(t.Context(), p, cfg, campaign.Options{
					Workers: tt.workers, Log: log, Past: slices.Clone(log.events), Drain: drain,
					Listen: func(e campaign.Event) {
						if e.Evaluated == nil {
							return
						}
						if told++; told == tt.endEvery {
							close(drain)
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				if f.Complete {
					break
				}
			}
			if len(seen) != n {
				t.Fatalf("%d of %d were evaluated", len(seen), n)
			}
			if diff := differ(beaten(log), seen); diff != "" {
				t.Errorf("what candidates had to beat (-by the log +as asked):\n%s", diff)
			}
		})
	}
}

// whole is a campaign's log, one event a line, without its places in the store and times.
func whole(t testing.TB, s *store.Store, id string) (lines []string) {
	t.Helper()
	for _, e := range past(t, s, id) {
		e.Seq, e.Time = 0, time.Time{}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}

// TestTogether: campaigns at once in one store have, to the byte, the logs that they have
// alone, with any number of workers that take any time.
func TestTogether(t *testing.T) {
	jobs := make([]record.Job, 3)
	alone := make([][]string, len(jobs))
	for i, strategy := range []string{"evolution", "hillclimb", "evolution"} {
		jobs[i] = config(150)
		jobs[i].ID, jobs[i].Strategy, jobs[i].Seed = strategy+"-"+string(rune('a'+i)), strategy, int64(i)
		s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
		if _, err := campaign.Run(t.Context(), problem(t, 0), jobs[i], campaign.Options{Log: s}); err != nil {
			t.Fatal(err)
		}
		if alone[i] = whole(t, s, jobs[i].ID); len(alone[i]) < 2*150+3 {
			t.Fatalf("%d events", len(alone[i]))
		}
	}
	for _, workers := range []int{1, 8} {
		s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
		var group errgroup.Group
		for i, cfg := range jobs {
			p := problem(t, 0)
			p.Evaluator = &jitter{Evaluator: p.Evaluator, rng: rand.New(rand.NewSource(int64(i)))}
			group.Go(func() error {
				_, err := campaign.Run(t.Context(), p, cfg, campaign.Options{Workers: workers, Log: s})
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for i, cfg := range jobs {
			if diff := differ(alone[i], whole(t, s, cfg.ID)); diff != "" {
				t.Errorf("%s with %d workers (-alone +together):\n%s", cfg.ID, workers, diff)
			}
		}
	}
}
