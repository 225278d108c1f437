package campaign_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
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
		jobs[i].ID, jobs[i].Strategy, jobs[i].Seed = strategy+"-"+string(rune('a'+i)), strategy, new(int64(i))
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

// twins has every third candidate compile to one of two binaries, and finds another time for them each
// time that it measures: as several hosts do, which do not know what the others measured.
type twins struct {
	evaluator.Evaluator
	mu sync.Mutex
	n  int
}

func (w *twins) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	r, err := w.Evaluator.Evaluate(ctx, g, incumbent)
	h := sha256.Sum256([]byte(g.String()))
	if r.Verdict != evaluator.Correct || h[0]%3 != 0 {
		return r, err
	}
	w.mu.Lock()
	w.n++
	by := 1 + float64(w.n*7919%1000)/10_000
	w.mu.Unlock()
	r.Binary, r.Fitness = fmt.Sprint("binary ", h[1]%2), by
	for i := range r.Timings {
		r.Timings[i].MedianNS *= by
	}
	return r, err
}

// TestEqualBinaries: of candidates that are one binary all have the times of the first that was told,
// whoever measured them and whoever was first to.
func TestEqualBinaries(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "equal.db"))
	p := problem(t, 0)
	p.Evaluator = &jitter{Evaluator: &twins{Evaluator: p.Evaluator}, rng: rand.New(rand.NewSource(1))}
	cfg := config(90)
	if _, err := campaign.Run(t.Context(), p, cfg, campaign.Options{Workers: 8, Log: s}); err != nil {
		t.Fatal(err)
	}
	type first struct {
		genome, timings string
		fitness         float64
	}
	seen, shared := map[string]first{}, 0
	genomes := map[int]string{}
	for e, err := range s.Events(cfg.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Asked != nil {
			genomes[e.Asked.Index] = e.Asked.Genome
		}
		if e.Told == nil {
			continue
		}
		r, err := record.ReadResult(e.Told)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(r.Binary, "binary ") {
			continue
		}
		is := first{genomes[e.Told.Index], fmt.Sprint(r.Timings), r.Fitness}
		was, ok := seen[r.Binary]
		if !ok {
			seen[r.Binary] = is
			continue
		}
		if is.timings != was.timings || is.fitness != was.fitness || e.Told.Fitness != was.fitness {
			t.Errorf("proposal %d: %v, the first of its binary has %v", e.Told.Index, is, was)
		}
		if r.SharedWith != "" {
			if shared++; r.SharedWith != was.genome {
				t.Errorf("proposal %d shares with %s, not %s", e.Told.Index, r.SharedWith, was.genome)
			}
		}
	}
	if len(seen) != 2 || shared < 5 {
		t.Errorf("%d binaries, %d candidates that share", len(seen), shared)
	}
}

// leaky says a token in what it finds, or in its finals.
type leaky struct {
	evaluator.Evaluator
	token    string
	inFinals bool
}

func (l leaky) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	r, err := l.Evaluator.Evaluate(ctx, g, incumbent)
	if !l.inFinals {
		r.Verdict, r.Reason = evaluator.Compile, "kernel.c:1: "+l.token
	}
	return r, err
}

func (l leaky) Finals(context.Context, []genome.Genome) (evaluator.Finals, error) {
	return evaluator.Finals{}, errors.New(l.token)
}

// TestTokensAreRedacted: what the log keeps of results and errors has no token.
func TestTokensAreRedacted(t *testing.T) {
	token := "evt_" + strings.Repeat("aB_-9", 9)[:43]
	log := &memory{}
	for _, inFinals := range []bool{false, true} {
		p := problem(t, 0)
		p.Evaluator = leaky{p.Evaluator, token, inFinals}
		if _, err := campaign.Run(t.Context(), p, config(3), campaign.Options{Log: log}); (err != nil) != inFinals {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(log.events)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), token) || strings.Count(string(text), "evt_...") != 4 {
		t.Errorf("%s", text)
	}
}
