package cuda

import (
	"context"
	"time"

	"github.com/evotune/evotune/internal/turns"
)

// newGate shares a GPU among many, or gives it to one alone. Changing is expensive: a sanitized
// launch can take half a second.
func newGate() *turns.Turns {
	return turns.Patient(turns.Patience{Enough: 4, Patience: 150 * time.Millisecond, Longest: 2 * time.Second})
}

// A queue has a number of places. Of the candidates that wait for one, that goes first which came to the
// lab first: it is nearest to its end, and frees a place in a search's window for another that is
// compiled while others are compared. In the order in which they began to wait, all would be
// compiled, then all compared and so on, and half of the machine would rest.
type queue struct{ *turns.Turns }

func newQueue(size int) queue { return queue{turns.New(int64(size))} }

// enter waits for a place and returns what frees it.
func (q queue) enter(ctx context.Context) (leave func(), err error) {
	rank, _ := ctx.Value(rankKey{}).(int64)
	return q.Enter(ctx, 1, rank)
}

type rankKey struct{}

// ranked makes work for a candidate wait by its rank, the number of candidates before it. Work for no
// candidate goes first.
func ranked(ctx context.Context, rank int64) context.Context {
	return context.WithValue(ctx, rankKey{}, rank)
}
