package cuda

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// Who came to the lab first goes first, whenever it began to wait; who gives up leaves no gap.
func TestQueue(t *testing.T) {
	q := newQueue(1)
	leave, err := q.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, giveUp := context.WithCancel(t.Context())
	var mu sync.Mutex
	var order []int64
	var all sync.WaitGroup
	for n, rank := range []int64{7, 3, 9, 3, 0, 5} {
		ctx := ranked(t.Context(), rank)
		if rank == 5 {
			ctx = ranked(gone, rank)
		}
		all.Go(func() {
			out, err := q.enter(ctx)
			if rank == 5 {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("who gave up: %v", err)
				}
				return
			}
			mu.Lock()
			order = append(order, rank)
			mu.Unlock()
			out()
		})
		for range 1000 { // until it waits
			q.mu.Lock()
			waiting := len(q.waiting)
			q.mu.Unlock()
			if waiting == n+1 {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	giveUp()
	for range 1000 {
		q.mu.Lock()
		waiting := len(q.waiting)
		q.mu.Unlock()
		if waiting == 5 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	leave()
	all.Wait()
	if !slices.Equal(order, []int64{0, 3, 3, 7, 9}) {
		t.Errorf("in the order %v", order)
	}
	for range 2 { // the place is free again, and there is one
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err = q.enter(ctx)
		cancel()
	}
	if !errors.Is(err, context.DeadlineExceeded) || q.free != 0 || len(q.waiting) != 0 {
		t.Errorf("%v, %d free, %d waiting", err, q.free, len(q.waiting))
	}
}
