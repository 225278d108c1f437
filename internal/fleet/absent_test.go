package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAbsent: workers that were lost or refused are told of, also by the next hub; those that have left,
// are expelled or enrol are not.
func TestAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		known := map[string]string{}
		open := func() *Hub {
			return New(Options{Version: "1", Known: known, Logger: slog.New(slog.DiscardHandler), Remember: func(worker, what string) error {
				mu.Lock()
				defer mu.Unlock()
				if known[worker] = what; what == "" {
					delete(known, worker)
				}
				return nil
			}})
		}
		ask := func(h *Hub, worker string, verb Verb, m any) error {
			body, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			_, err = h.Handle(context.Background(), worker, verb, body)
			return err
		}
		enrol := func(h *Hub, worker, version string) error {
			return ask(h, worker, Enrol, enrolment{Protocol: protocol, Session: worker + version, Time: time.Now(), Host: Host{Name: worker, Version: version, Slots: 1}})
		}
		states := func(h *Hub) string {
			var list []string
			for _, s := range h.Hosts() {
				list = append(list, s.Name+" "+s.State)
			}
			return strings.Join(list, ", ")
		}
		want := func(h *Hub, want string) {
			t.Helper()
			if got := states(h); got != want {
				t.Errorf("the workers are %q, want %q", got, want)
			}
		}
		h := open()
		for _, worker := range []string{"leaves", "silent", "stays"} {
			if err := enrol(h, worker, "1"); err != nil {
				t.Fatal(err)
			}
		}
		if err := enrol(h, "old", "0"); !errors.As(err, new(Refusal)) {
			t.Errorf("a worker of another version: %v", err)
		}
		go func() {
			time.Sleep(time.Millisecond)
			ask(h, "stays", Beat, beat{Session: "stays1"}) //nolint:errcheck // its answer is of no interest
		}()
		if err := h.Vacant(context.Background(), "stays"); !errors.As(err, new(Refusal)) {
			t.Errorf("a worker whose name is taken: %v", err)
		}
		if err := ask(h, "leaves", Beat, beat{Session: "leaves1", Leaving: true}); err != nil {
			t.Fatal(err)
		}
		want(h, "leaves leaving, old refused, silent idle, stays idle, stays refused")
		time.Sleep(2 * time.Hour)
		if err := enrol(h, "stays", "1"); err != nil {
			t.Fatal(err)
		}
		want(h, "old refused, silent lost, stays idle, stays refused")
		synctest.Wait()
		h.Close()

		h = open()
		want(h, "old refused, silent lost, stays lost, stays refused")
		for _, s := range h.Hosts() {
			if s.Name == "old" && !strings.Contains(s.Reason, "install the same evotune") || s.Name == "stays" && s.State == stateRefused && !strings.Contains(s.Reason, "--name of its own") || s.Name == "stays" && s.State == stateLost && !strings.Contains(s.Reason, "started again") || s.Seen.IsZero() {
				t.Errorf("%s: %q, seen %s", s.Name, s.Reason, s.Seen)
			}
		}
		if err := errors.Join(enrol(h, "stays", "1"), enrol(h, "old", "1")); err != nil {
			t.Error(err)
		}
		if !h.Expel("silent") || h.Expel("silent") {
			t.Error("a worker that is lost cannot be expelled, or twice")
		}
		want(h, "old idle, stays idle, stays refused")
		synctest.Wait()
		h.Close()
		h = open()
		want(h, "old lost, stays lost, stays refused")
		if err := h.Vacant(context.Background(), "stays"); err != nil {
			t.Error(err)
		}
		want(h, "old lost, stays lost")
		h.Close()
	})
}
