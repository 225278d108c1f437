package evotune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/evaluator/share"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/nats"
	"github.com/evotune/evotune/internal/longtest"
)

// A pair runs one campaign after the other, each on another worker with an empty cache, over a broker.
type pair struct {
	testing.TB
	hub       *Fleet
	transport fleet.Transport
	cc        string
	runs      string // a line for each run of the compiler, which a jail would not let it write
}

func newPair(tb testing.TB, shelf share.Shelf) *pair {
	tb.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		tb.Skip(err)
	}
	p := &pair{TB: tb, cc: filepath.Join(tb.TempDir(), "cc"), runs: filepath.Join(tb.TempDir(), "runs")}
	script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *\" out.so \"*) echo run >>%s || exit 1;; esac\nexec %s \"$@\"\n", p.runs, gcc)
	if err := os.WriteFile(p.cc, []byte(script), 0o755); err != nil {
		tb.Fatal(err)
	}
	p.hub = fleet.New(fleet.Options{Version: "test", Shelf: shelf, Again: -1, Logger: slog.New(slog.DiscardHandler)})
	p.transport, err = nats.Embed(nats.EmbedOptions{Listen: "127.0.0.1:0"})
	if err == nil {
		err = p.transport.Serve(p.hub.Handle)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.hub.Close()
		p.transport.Close() //nolint:errcheck // the test is over
	})
	return p
}

// compiled is how often the compiler has made a shared object.
func (p *pair) compiled() int {
	b, err := os.ReadFile(p.runs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// A seen is what a campaign did: its candidates with their verdicts, how often compilers ran after the
// evaluator was open, how long that took and how long all took.
type seen struct {
	candidates        []string
	compiled          int
	compiling, search time.Duration
}

// run runs a campaign on a new worker with an empty cache.
func (p *pair) run(name string, evaluations int, sanitizers ...string) (out seen) {
	p.Helper()
	m := &Machine{CPU: cpu.Options{Compiler: p.cc, CacheDir: p.TempDir(), Sanitizers: sanitizers}}
	places := filepath.Join(p.TempDir(), "places")
	access, err := p.transport.Admit(name)
	if err != nil {
		p.Fatal(err)
	}
	var opened int
	var begun time.Time
	ctx, stop := context.WithCancel(p.Context())
	ended := make(chan error, 1)
	var log strings.Builder
	device, limits, err := m.Offer(ctx, CPU)
	if err != nil {
		p.Fatal(err)
	}
	go func() {
		ended <- fleet.Work(ctx, fleet.WorkerOptions{
			Host:   fleet.Host{Name: name, Backend: CPU, Slots: 2, Version: "test", Device: device, Limits: limits},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Dial:   func(context.Context) (fleet.Link, error) { return nats.Dial(access, nil) },
			Open: func(ctx context.Context, place fleet.Place, fetch func(context.Context, fleet.File, io.Writer) error) (fleet.Runner, error) {
				r, err := m.OpenPlace(ctx, place, filepath.Join(places, place.Campaign), fetch)
				if err != nil {
					return nil, err // nil, and not a nil place
				}
				opened, begun = p.compiled(), time.Now()
				return r, nil
			},
		})
	}()
	job := Job{ID: "of-" + name, Kernel: "softmax", Shapes: []string{"8192x64"}, Backend: CPU, Strategy: "random", Seed: new(int64(4)), Window: 2, WarmStart: new(0), Finalists: new(0), Budget: Budget{Evaluations: evaluations}}
	coordinator := &Machine{Elsewhere: &FleetDevice{Device: device, Limits: limits, Workers: 1}}
	done, err := coordinator.Run(p.Context(), nil, job, Options{Fleet: p.hub, Listen: func(e Event) {
		if e.Evaluated == nil {
			return
		}
		r := e.Evaluated.Result
		out.candidates = append(out.candidates, fmt.Sprint(r.Source, " ", r.Binary, " ", r.Verdict))
		for _, s := range r.Steps {
			if s.Stage == evaluator.StageCompile {
				out.compiling += s.Elapsed
			}
		}
	}})
	if err != nil || !done.Complete {
		p.Fatalf("%+v, %v\n%s", done, err, log.String())
	}
	out.compiled, out.search = p.compiled()-opened, time.Since(begun)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) { // it leaves the campaign, and removes what it fetched
		if left, _ := os.ReadDir(places); len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			p.Error("the files of a campaign that has ended are there still")
			break
		}
	}
	stop()
	<-ended //nolint:errcheck // it was stopped
	p.Log(log.String())
	return out
}

// TestSharedBetweenHostsLong: a second worker with an empty cache compiles none of the candidates that a
// first one has compiled, for sanitizers neither, but for the one that the host is checked by, and finds the
// same of each. Without a shelf it compiles all.
func TestSharedBetweenHostsLong(t *testing.T) {
	longtest.Long(t, "it opens labs without a cache")
	folder, err := share.NewFolder(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close() //nolint:errcheck // the test is over
	const evaluations = 4
	for shelf, sanitizer := range map[share.Shelf]string{folder: "memcheck", nil: "none"} {
		p := newPair(t, shelf)
		first, second := p.run("one", evaluations, sanitizer), p.run("two", evaluations, sanitizer)
		if diff := cmp.Diff(first.candidates, second.candidates); diff != "" {
			t.Errorf("the second host found something else (-first +second):\n%s", diff)
		}
		n := p.hub.Traffic()
		t.Logf("compilers ran %d times, then %d times: %+v", first.compiled, second.compiled, n)
		const check = 2 // objects of the reference candidate, which each host is checked by with code of its own
		switch {
		case first.compiled < evaluations*3/4: // a few are not feasible or the same
			t.Errorf("the first worker compiled %d times for %d candidates", first.compiled, evaluations)
		case shelf == nil && (second.compiled < first.compiled-check || n.Hits+n.Kept != 0):
			t.Errorf("without a shelf the second worker compiled %d times and the first %d times: %+v", second.compiled, first.compiled, n)
		case shelf != nil && (second.compiled > check || n.Hits != n.Kept || n.Misses != n.Kept || n.Kept < int64(first.compiled-check)):
			t.Errorf("the second worker compiled %d times, the first %d times: %+v", second.compiled, first.compiled, n)
		}
	}
}

// BenchmarkSharedBetweenHosts measures a campaign on a second host with an empty cache: the ratios are
// without sharing over with it, of the time that candidates compiled and of the whole search.
func BenchmarkSharedBetweenHosts(b *testing.B) {
	folder, err := share.NewFolder(b.TempDir(), 0)
	if err != nil {
		b.Fatal(err)
	}
	defer folder.Close() //nolint:errcheck // the benchmark is over
	for range b.N {
		var with, without seen
		for _, shelf := range []share.Shelf{folder, nil} {
			p := newPair(b, shelf)
			p.run("one", 12)
			if out := p.run("two", 12); shelf == nil {
				without = out
			} else {
				with = out
			}
		}
		b.ReportMetric(without.compiling.Seconds()/with.compiling.Seconds(), "compile-ratio")
		b.ReportMetric(without.search.Seconds()/with.search.Seconds(), "search-ratio")
		b.ReportMetric(without.search.Seconds(), "s-without")
		b.ReportMetric(float64(without.compiled), "compilers-without")
		b.ReportMetric(float64(with.compiled), "compilers-with")
	}
}
