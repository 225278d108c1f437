package cuda

import (
	"context"
	"time"

	"github.com/evotune/evotune/internal/turns"
)

// newGate says who may use a GPU: many at once who share it, or one alone. Changing over is
// expensive: a sanitized launch can take half a second.
func newGate() *turns.Turns {
	return turns.Patient(turns.Patience{Enough: 4, Patience: 150 * time.Millisecond, Longest: 2 * time.Second})
}

// A queue lets so many in at once. Of those who wait, the candidate goes first that came to the
// lab first: it is nearest to its end, and frees a place in a search's window for one that is
// compiled while others are compared. In the order in which they began to wait, all would be
// compiled, then all compared and so on, and half of the machine would rest.
type queue struct{ *turns.Turns }

func newQueue(size int) queue { return queue{turns.New(int64(size))} }

// enter waits and returns how to leave.
func (q queue) enter(ctx context.Context) (leave func(), err error) {
	rank, _ := ctx.Value(rankKey{}).(int64)
	return q.Enter(ctx, 1, rank)
}

type rankKey struct{}

// ranked has what is done for a candidate wait by its rank, the number of those before it. What is
// done for none goes first.
func ranked(ctx context.Context, rank int64) context.Context {
	return context.WithValue(ctx, rankKey{}, rank)
}
