package process

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestHostWithin: who has a part of the host waits for no other, and for itself neither.
func TestHostWithin(t *testing.T) {
	mine, leave, err := ShareHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	waiting := make(chan error)
	go func() {
		_, _, err := TakeHost(stop) // it is in line before the next
		waiting <- err
	}()
	time.Sleep(10 * time.Millisecond)
	_, again, err := ShareHost(mine)
	if err != nil {
		t.Fatal(err)
	}
	again() // gives back nothing that the outer one has
	if _, _, err := TakeHost(mine); !errors.Is(err, errUpgrade) {
		t.Errorf("a share became all of the host: %v", err)
	}
	if err := <-waiting; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("all of the host was to be had beside a share: %v", err)
	}
	leave()
	all, leave, err := TakeHost(mine) // its share is over
	if err != nil {
		t.Fatal(err)
	}
	for _, enter := range []func(context.Context) (context.Context, func(), error){ShareHost, TakeHost} {
		if _, leave, err := enter(all); err != nil {
			t.Error(err)
		} else {
			leave()
		}
	}
	leave()
}

// BenchmarkHost is what a share costs where nobody else wants one, and within another.
func BenchmarkHost(b *testing.B) {
	b.Run("share", func(b *testing.B) {
		for b.Loop() {
			_, leave, _ := ShareHost(b.Context())
			leave()
		}
	})
	b.Run("within", func(b *testing.B) {
		mine, leave, _ := ShareHost(b.Context())
		defer leave()
		for b.Loop() {
			_, leave, _ := ShareHost(mine)
			leave()
		}
	})
}

// TestHostLeavesCores: a timing that leaves a core has only work on one core beside it, one at a time.
func TestHostLeavesCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timing, leave, err := TakeCores(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		goesIn := func(enter func(context.Context) (context.Context, func(), error)) bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, leave, err := enter(ctx)
			if err == nil {
				leave()
			}
			return err == nil
		}
		cores := func(n int) func(context.Context) (context.Context, func(), error) {
			return func(ctx context.Context) (context.Context, func(), error) { return ShareCores(ctx, n) }
		}
		if !goesIn(cores(1)) || goesIn(cores(2)) || goesIn(ShareHost) || goesIn(TakeHost) {
			t.Error("beside a timing that leaves one core runs what asks for one core, and nothing else")
		}
		beside, done, err := ShareCores(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if goesIn(cores(1)) {
			t.Error("two run on the core that a timing leaves")
		}
		if _, _, err := TakeCores(beside, 1); !errors.Is(err, errUpgrade) {
			t.Errorf("work on one core became a timing: %v", err)
		}
		if _, again, err := ShareHost(timing); err != nil {
			t.Error(err)
		} else {
			again()
		}
		leave()
		// A timing waits until no more run than it leaves.
		_, second, err := ShareCores(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		take := func(ctx context.Context) (context.Context, func(), error) { return TakeCores(ctx, 1) }
		if goesIn(take) {
			t.Error("a timing that leaves one core began beside work on two")
		}
		second()
		if !goesIn(take) || goesIn(TakeHost) {
			t.Error("beside work on one core begins only a timing that leaves one")
		}
		done()
	})
}
