package replay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/tables"
)

// small is a table of five configurations that its constraint gives exactly.
const small = `{"name": "small", "device": "none",
 "params": [["x", [1, 2, 4]], ["fast", [false, true]]],
 "constraints": ["x < 4 or not fast"],
 "configs": [[[0, 0], 4.0, 0.5], [[0, 1], 2.0, 0.25], [[1, 0], null, 0.125], [[1, 1], 1.5, 0.5], [[2, 0], 3, 1]]}`

func read(tb testing.TB, text string) *tables.Table {
	tb.Helper()
	t, err := tables.Read(strings.NewReader(text), "small.json")
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func open(tb testing.TB, t *tables.Table, o Options) *Evaluator {
	tb.Helper()
	e, err := New(t, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	return e
}

func pick(tb testing.TB, e *Evaluator, encoding string) genome.Genome {
	tb.Helper()
	g, err := e.Space().Parse(encoding)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func TestEvaluate(t *testing.T) {
	// Without the constraint, x=4,fast=true is valid and not recorded.
	table := read(t, strings.Replace(small, `"x < 4 or not fast"`, ``, 1))
	e := open(t, table, Options{})
	for encoding, want := range map[string]struct {
		verdict evaluator.Verdict
		fitness float64
		cost    time.Duration
	}{
		"x=1,fast=false": {evaluator.Correct, 4.0 / 2.5, 500 * time.Millisecond},
		"x=1,fast=true":  {evaluator.Correct, 2.0 / 2.5, 250 * time.Millisecond},
		"x=2,fast=false": {evaluator.Launch, 0, 125 * time.Millisecond},
		"x=4,fast=false": {evaluator.Correct, 3.0 / 2.5, time.Second},
		"x=4,fast=true":  {evaluator.Infeasible, 0, 0},
	} {
		r, err := e.Evaluate(t.Context(), pick(t, e, encoding), 0.001)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != want.verdict || r.Fitness != want.fitness || r.Cost != want.cost {
			t.Errorf("%s: %s, fitness %g, cost %v; want %+v", encoding, r.Verdict, r.Fitness, r.Cost, want)
		}
		if (r.Reason == "") != (r.Verdict == evaluator.Correct) {
			t.Errorf("%s: %s for the reason %q", encoding, r.Verdict, r.Reason)
		}
		if r.Verdict == evaluator.Correct && (r.Timings[0].MedianNS != 2.5e6*want.fitness || r.Timings[0].BaselineMedianNS != 2.5e6) {
			t.Errorf("%s: timing %+v", encoding, r.Timings[0])
		}
	}

	// The same values in another space are the same configuration.
	other := open(t, read(t, small), Options{})
	r, err := e.Evaluate(t.Context(), pick(t, other, "x=1,fast=true"), 0)
	if err != nil || r.Verdict != evaluator.Correct || r.Fitness != 0.8 {
		t.Errorf("a genome of an equal space: %s %g %v", r.Verdict, r.Fitness, err)
	}
	// Keys tell tables apart.
	s, err := other.Evaluate(t.Context(), pick(t, other, "x=1,fast=true"), 0)
	if err != nil || s.Key == r.Key || e.Describe().Device.Fingerprint == other.Describe().Device.Fingerprint {
		t.Errorf("two tables share the key %s or the device %s (%v)", s.Key, e.Describe().Device.Fingerprint, err)
	}
}

// What a table lists is what the evaluator answers.
func TestAll(t *testing.T) {
	table := tables.Synthetic(1000)
	ev := open(t, table, Options{})
	n, failed := 0, 0
	for g, ms := range table.All() {
		n++
		if ms == 0 {
			failed++
		}
		r, err := ev.Evaluate(t.Context(), g, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Timings) == 0 != (ms == 0) || ms > 0 && r.Timings[0].MedianNS != ms*1e6 {
			t.Errorf("%s: %v ms, evaluated as %s %v", g, ms, r.Verdict, r.Timings)
		}
	}
	if n != table.Len() || failed != table.Failed() {
		t.Errorf("%d configurations, %d failed, of %d and %d", n, failed, table.Len(), table.Failed())
	}
	for range table.All() {
		break
	}
}

func TestFinals(t *testing.T) {
	e := open(t, read(t, small), Options{})
	finalists := func(encodings ...string) (gs []genome.Genome) {
		for _, s := range encodings {
			gs = append(gs, pick(t, e, s))
		}
		return gs
	}
	f, err := e.Finals(t.Context(), finalists("x=1,fast=true", "x=2,fast=false", "x=2,fast=true", "x=4,fast=false"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Winner != 2 || f.Entries[1].Verdict != evaluator.Launch || len(f.Entries) != 4 {
		t.Errorf("finals %+v", f)
	}
	if v := f.VsRunnerUp; v == nil || v.Ratio != 1.5/2.0 || v.Significant || len(v.Warnings) == 0 {
		t.Errorf("against the runner-up: %+v; want the ratio 0.75, and a warning instead of a claim", v)
	}
	if v := f.VsBaseline; v == nil || v.Ratio != 1.5/2.5 || v.Significant {
		t.Errorf("against the baseline: %+v", v)
	}
	again, err := e.Finals(t.Context(), finalists("x=1,fast=true", "x=2,fast=false", "x=2,fast=true", "x=4,fast=false"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, again, cmp.Comparer(func(a, b genome.Genome) bool { return a == b })); diff != "" {
		t.Errorf("finals differ from time to time:\n%s", diff)
	}
	if f, err = e.Finals(t.Context(), finalists("x=2,fast=false")); err != nil || f.Winner != -1 || f.VsBaseline != nil {
		t.Errorf("a failed finalist alone: %+v, %v", f, err)
	}
}

func TestLatencyAndClose(t *testing.T) {
	table := read(t, small)
	slow := open(t, table, Options{Latency: 20 * time.Millisecond})
	g := pick(t, slow, "x=1,fast=true")
	start := time.Now()
	r, err := slow.Evaluate(t.Context(), g, 0)
	if took := time.Since(start); err != nil || took < 20*time.Millisecond {
		t.Errorf("took %v (%v), want the latency of 20 ms", took, err)
	}
	fast, err := open(t, table, Options{}).Evaluate(t.Context(), g, 0)
	if diff := cmp.Diff(r, fast); err != nil || diff != "" {
		t.Errorf("the latency changes the result: %v\n%s", err, diff)
	}

	endless := open(t, table, Options{Latency: time.Hour})
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if _, err := endless.Evaluate(ctx, g, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that ends: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := endless.Evaluate(t.Context(), g, 0)
		done <- err
	}()
	time.Sleep(10 * time.Millisecond)
	if err := endless.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("an evaluation under way when closed: %v", err)
	}
	if _, err := endless.Evaluate(t.Context(), g, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Many at once give what one at a time gives.
func TestConcurrency(t *testing.T) {
	e := open(t, tables.Synthetic(300), Options{})
	all := slices.Collect(e.Space().All())
	want := make([]evaluator.Result, len(all))
	for i, g := range all {
		r, err := e.Evaluate(t.Context(), g, 0)
		if err != nil {
			t.Fatal(err)
		}
		want[i] = r
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for i, g := range all {
				r, err := e.Evaluate(t.Context(), g, 0)
				if err != nil || r.Verdict != want[i].Verdict || r.Fitness != want[i].Fitness || r.Key != want[i].Key {
					t.Errorf("%s: %v, %v", g, r.Verdict, err)
					return
				}
			}
		})
	}
	wait.Wait()
}

func BenchmarkEvaluate(b *testing.B) {
	e := open(b, tables.Synthetic(1_000_000), Options{})
	var genomes []genome.Genome
	for g := range e.Space().All() {
		if genomes = append(genomes, g); len(genomes) == 4096 {
			break
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := e.Evaluate(b.Context(), genomes[i%len(genomes)], 0); err != nil {
			b.Fatal(err)
		}
	}
}
