package cuda

import (
	"context"
	"slices"
	"sync"
)

// A queue lets so many in at once. Of those who wait, the candidate goes first that came to the
// lab first: it is nearest to its end, and frees a place in a search's window for one that is
// compiled while others are compared. In the order in which they began to wait, all would be
// compiled, then all compared and so on, and half of the machine would rest.
type queue struct {
	mu      sync.Mutex
	free    int
	waiting []*turn // by rank; of equals by when they came
}

// A turn is one who waits.
type turn struct {
	rank int64
	come chan struct{}
}

func newQueue(size int) *queue { return &queue{free: size} }

// enter waits and returns how to leave.
func (q *queue) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		return q.leave, nil
	}
	t := &turn{rank: rankOf(ctx), come: make(chan struct{})}
	at, _ := slices.BinarySearchFunc(q.waiting, t.rank, func(other *turn, rank int64) int {
		if other.rank <= rank {
			return -1
		}
		return 1
	})
	q.waiting = slices.Insert(q.waiting, at, t)
	q.mu.Unlock()
	select {
	case <-t.come:
		return q.leave, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, t); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	} else {
		q.pass() // it was let in at the same moment
	}
	return nil, ctx.Err()
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pass()
}

// pass gives a place on. The caller holds the lock.
func (q *queue) pass() {
	if len(q.waiting) == 0 {
		q.free++
		return
	}
	close(q.waiting[0].come)
	q.waiting = slices.Delete(q.waiting, 0, 1)
}

type rankKey struct{}

// ranked has what is done for a candidate wait by its rank, the number of those before it. What is
// done for none goes first.
func ranked(ctx context.Context, rank int64) context.Context {
	return context.WithValue(ctx, rankKey{}, rank)
}

func rankOf(ctx context.Context) int64 {
	rank, _ := ctx.Value(rankKey{}).(int64)
	return rank
}
