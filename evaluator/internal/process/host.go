package process

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/evotune/evotune/internal/turns"
)

// The host is shared by all labs of this process: what is compiled, and what is launched
// without being timed on the CPU, holds a share of it, and what is timed there holds
// all of it, or all but the cores that it leaves to others. They come in the order of
// asking: a timing waits for what is under way, nothing new overtakes it, and it
// overtakes nothing. Work that holds a part of the host never waits for a GPU, so there is
// no circle of waits.
const (
	wholeHost = turns.Many
	// usualShare is more than the cores that a timing leaves: only work that asks for
	// single cores runs beside a timing.
	usualShare = 1 << 12
)

var host = turns.New(wholeHost)

// A hold is a part of the host that a context's owner has.
type hold struct {
	part int64
	over atomic.Bool
}

type holdKey struct{}

// errUpgrade is a fault of evotune: it would wait for itself.
var errUpgrade = errors.New("a holder of a share of the host cannot have all of it")

// ShareHost waits for a share of the host and returns how to give it back. A caller that has the
// context that it returns has the share, and waits for no other.
func ShareHost(ctx context.Context) (context.Context, func(), error) {
	return enterHost(ctx, usualShare)
}

// ShareCores is ShareHost for work on so many cores that may run beside a timing that
// leaves as many.
func ShareCores(ctx context.Context, cores int) (context.Context, func(), error) {
	return enterHost(ctx, int64(min(max(cores, 1), usualShare)))
}

// TakeHost waits for all of the host: nothing else compiles, and nothing is launched on
// it, until it is given back.
func TakeHost(ctx context.Context) (context.Context, func(), error) {
	return enterHost(ctx, wholeHost)
}

// TakeCores is TakeHost for a timing that leaves so many cores to those that asked for
// single ones.
func TakeCores(ctx context.Context, leaves int) (context.Context, func(), error) {
	return enterHost(ctx, wholeHost-int64(min(max(leaves, 0), usualShare-1)))
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
		if part > h.part && part >= wholeHost-usualShare {
			return nil, nil, errUpgrade
		}
		return ctx, func() {}, nil
	}
	leave, err := host.Enter(ctx, part, 0)
	if err != nil {
		return nil, nil, err
	}
	h := &hold{part: part}
	return context.WithValue(ctx, holdKey{}, h), func() {
		h.over.Store(true)
		leave()
	}, nil
}
