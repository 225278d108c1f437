package cuda

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// The candidate that came to the lab first goes first, whenever it began to wait.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		leave, err := q.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		var all sync.WaitGroup
		come := func(ctx context.Context, name string) {
			all.Go(func() {
				out, err := q.enter(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name)
				out()
			})
			synctest.Wait()
		}
		come(ranked(t.Context(), 7), "seventh")
		come(ranked(t.Context(), 3), "third")
		come(t.Context(), "for no candidate")
		leave()
		all.Wait()
		if want := []string{"for no candidate", "third", "seventh"}; !slices.Equal(order, want) {
			t.Errorf("in the order %q, want %q", order, want)
		}
	})
}
