package process

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// The host is shared by all labs of this process: what is compiled, and what is launched
// without being timed on the CPU, holds one share of it, and what is timed there holds
// all of it. The semaphore serves in the order of asking: a timing waits for what is under
// way, nothing new overtakes it, and it overtakes nothing. Who holds a part of the host
// never waits for a GPU, so that nobody waits in a circle.
const wholeHost = 1 << 30

var host = semaphore.NewWeighted(wholeHost)

// A hold is a part of the host that a context's owner has.
type hold struct {
	alone bool
	over  atomic.Bool
}

type holdKey struct{}

// errUpgrade is a fault of evotune: it would wait for itself.
var errUpgrade = errors.New("who holds a share of the host cannot have all of it")

// ShareHost waits for a share of the host and returns how to give it back. Who has the
// context that it returns has the share, and waits for no other.
func ShareHost(ctx context.Context) (context.Context, func(), error) {
	return enterHost(ctx, 1)
}

// TakeHost waits for all of the host: nothing else compiles, and nothing is launched on
// it, until it is given back.
func TakeHost(ctx context.Context) (context.Context, func(), error) {
	return enterHost(ctx, wholeHost)
}

// HoldsHost says whether a context has a share of the host, or all of it.
func HoldsHost(ctx context.Context) bool { return holdOf(ctx) != nil }

func holdOf(ctx context.Context) *hold {
	if h, ok := ctx.Value(holdKey{}).(*hold); ok && !h.over.Load() {
		return h
	}
	return nil
}

func enterHost(ctx context.Context, part int64) (context.Context, func(), error) {
	if h := holdOf(ctx); h != nil {
		if part == wholeHost && !h.alone {
			return nil, nil, errUpgrade
		}
		return ctx, func() {}, nil
	}
	if err := host.Acquire(ctx, part); err != nil {
		return nil, nil, err
	}
	h := &hold{alone: part == wholeHost}
	return context.WithValue(ctx, holdKey{}, h), sync.OnceFunc(func() {
		h.over.Store(true)
		host.Release(part)
	}), nil
}
