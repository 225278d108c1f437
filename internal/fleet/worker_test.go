package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
)

// TestUnreached: a worker that does not reach its coordinator says so once a minute, and ends at once
// when it is to drain, whether its connection is refused or not answered.
func TestUnreached(t *testing.T) {
	for name, dial := range map[string]func(context.Context) error{
		"refused":    func(context.Context) error { return errors.New("connection refused") },
		"unanswered": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				drain, ended := make(chan struct{}), make(chan error, 1)
				go func() {
					ended <- fleet.Work(t.Context(), fleet.WorkerOptions{
						Host: fleet.Host{Name: "w", Slots: 1}, Drain: drain, Logger: slog.New(slog.NewTextHandler(&log, nil)),
						Dial: func(ctx context.Context) (fleet.Link, error) { return nil, dial(ctx) },
					})
				}()
				time.Sleep(3*time.Minute + 30*time.Second)
				synctest.Wait()
				if n := strings.Count(log.String(), "the coordinator is tried again"); name == "refused" && n != 4 {
					t.Errorf("in three and a half minutes it says %d times that it tries again, want 4:\n%s", n, &log)
				}
				close(drain)
				begun := time.Now()
				if err := <-ended; err != nil || time.Since(begun) > 0 {
					t.Errorf("it ended with %v after %s", err, time.Since(begun))
				}
			})
		})
	}
}

// TestLeftAlone: a worker with nothing in flight ends well when its coordinator is gone.
func TestLeftAlone(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), 400*time.Millisecond, nil)
	a, err := f.Admit("w")
	if err != nil {
		t.Fatal(err)
	}
	drain := make(chan struct{})
	gone := sync.OnceFunc(func() { go func() { f.Halt(); close(drain) }() })
	if err := fleet.Work(t.Context(), fleet.WorkerOptions{
		Host: fleet.Host{Name: "w", Backend: "replay", Slots: 1, Version: "test"}, Drain: drain, Logger: fleettest.Quiet(),
		Dial:    func(context.Context) (fleet.Link, error) { return f.Dial(a), nil },
		Trouble: func() string { gone(); return "" }, // asked once it is enrolled
	}); err != nil {
		t.Error(err)
	}
}

// TestEnrolled: the log says where a worker has enrolled.
func TestEnrolled(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), time.Second, nil)
	a, err := f.Admit("w")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	drain := make(chan struct{})
	err = fleet.Work(t.Context(), fleet.WorkerOptions{
		Host: fleet.Host{Name: "w", Backend: "replay", Slots: 1, Version: "test"}, At: "http://there:8787", Drain: drain,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Dial:   func(context.Context) (fleet.Link, error) { return f.Dial(a), nil },
		Trouble: func() string { // asked once it is enrolled
			select {
			case <-drain:
			default:
				close(drain)
			}
			return ""
		},
	})
	if want := "enrolled at http://there:8787 as w"; err != nil || !strings.Contains(log.String(), want) {
		t.Errorf("%v, and the log lacks %q:\n%s", err, want, &log)
	}
}

// TestOpeningIsTold: while a worker opens an evaluator, its log, the coordinator's list of workers and the preparation of the campaign
// say which step is under way, and for how long.
func TestOpeningIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.NewFarm(t, fleettest.InMemory(), fleet.DefaultLease, nil)
		var log bytes.Buffer
		f.AddWith("w", func(o *fleet.WorkerOptions) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, func(ctx context.Context) (fleet.Runner, error) {
			_, done := evaluator.Preparing(ctx, "reference at shape %s, on the CPU", "X")
			time.Sleep(time.Minute)
			done()
			return fleettest.NewSimulated(t, nil), nil
		})
		var p evaluator.Preparation
		ended := make(chan error, 1)
		go func() {
			_, err := f.Run(evaluator.WithPreparation(t.Context(), &p), fleettest.Job(1, 1), &fleettest.Log{}, 1)
			ended <- err
		}()
		time.Sleep(41 * time.Second)
		synctest.Wait()
		h := hostOf(f, "w")
		if h.State != "opening" || h.Preparing != "reference at shape X, on the CPU" || h.PreparingNS < 30*time.Second {
			t.Errorf("the worker is %s: %q for %s", h.State, h.Preparing, h.PreparingNS)
		}
		if what, took := p.Now(); what != "reference at shape X, on the CPU, by worker w" || took < 39*time.Second || took > 42*time.Second {
			t.Errorf("the campaign prepares %q for %s", what, took)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if what, _ := p.Now(); what != "" || hostOf(f, "w").Preparing != "" {
			t.Errorf("it is prepared, and %q is under way", what)
		}
		if n := strings.Count(log.String(), `step="reference at shape X, on the CPU" "so far"=`); n < 3 || n > 4 {
			t.Errorf("its log tells %d times of a step of a minute:\n%s", n, &log)
		}
	})
}
