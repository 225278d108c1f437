package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	fleettest.Run(t, func() fleettest.Rig {
		wire := fleet.NewWire(nil)
		return fleettest.Rig{
			Coordinator: func(testing.TB) fleet.Transport { return wire.Transport() },
			Dial:        func(_ testing.TB, a fleet.Access) fleet.Link { return wire.Dial(a) },
		}
	})
}

// A coordinator that was killed closes nothing: the next one ends what it has left.
func TestMemoryTakeOver(t *testing.T) {
	wire := fleet.NewWire(nil)
	old := wire.Transport()
	started := make(chan struct{})
	err := old.Serve(func(ctx context.Context, _ string, _ fleet.Verb, _ []byte) ([]byte, error) {
		close(started)
		<-ctx.Done()
		return []byte("old"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := old.Admit("w")
	if err != nil {
		t.Fatal(err)
	}
	l := wire.Dial(a)
	got := make(chan error, 1)
	go func() {
		_, err := l.Request(t.Context(), fleet.Take, nil)
		got <- err
	}()
	<-started
	next := wire.Transport()
	if err := next.Serve(func(context.Context, string, fleet.Verb, []byte) ([]byte, error) { return []byte("next"), nil }); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil && !errors.Is(err, fleet.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
	if body, err := l.Request(t.Context(), fleet.Take, nil); err != nil || string(body) != "next" {
		t.Errorf("got %q, %v from the next coordinator", body, err)
	}
	for _, c := range []fleet.Transport{old, next} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a roster has kept is enough for the next one; a change that cannot be kept does not
// count.
func TestRoster(t *testing.T) {
	kept := map[string]string{}
	full := errors.New("the disk is full")
	var fail error
	keep := func(worker, hash string) error {
		if fail != nil {
			return fail
		}
		if kept[worker] = hash; hash == "" {
			delete(kept, worker)
		}
		return nil
	}
	r := fleet.NewRoster(nil, keep)
	secret, err := r.Admit("w")
	if err != nil {
		t.Fatal(err)
	}
	if kept["w"] == "" || kept["w"] == secret {
		t.Errorf("%q was kept for the secret %q", kept["w"], secret)
	}
	next := fleet.NewRoster(kept, keep)
	if err := next.Check("w", secret); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", secret[1:], secret + "x", kept["w"]} {
		var refusal fleet.Refusal
		if err := next.Check("w", wrong); !errors.As(err, &refusal) {
			t.Errorf("secret %q: %v", wrong, err)
		}
	}
	if next.Check("nobody", "") == nil {
		t.Error("a worker that nobody knows needs no secret")
	}
	fail = full
	if _, err := next.Admit("w"); !errors.Is(err, full) {
		t.Error(err)
	}
	if err := next.Expel("w"); !errors.Is(err, full) || next.Check("w", secret) != nil {
		t.Errorf("a change that could not be kept counts: %v", err)
	}
	fail = nil
	if err := next.Expel("w"); err != nil || len(kept) != 0 || next.Check("w", secret) == nil {
		t.Errorf("after an expulsion %v is kept: %v", kept, err)
	}
	crowd := map[string]string{}
	for i := range 4096 {
		crowd[fmt.Sprint("w", i)] = "hash"
	}
	r = fleet.NewRoster(crowd, keep)
	var refusal fleet.Refusal
	if _, err := r.Admit("one-more"); !errors.As(err, &refusal) {
		t.Errorf("more workers than a hub knows are admitted: %v", err)
	}
	if _, err := r.Admit("w7"); err != nil {
		t.Errorf("a worker that is known is not admitted again: %v", err)
	}
}
