package evaluator

import (
	"context"
	"time"
)

type (
	traceKey     struct{}
	holdKey      struct{}
	candidateKey struct{}
	endKey       struct{}
)

// A Candidate names a candidate of a campaign: the number of its proposal, and its ID.
type Candidate struct {
	Index int
	ID    string
}

// WithCandidate returns a context that names the candidate for an Evaluator that sends
// candidates elsewhere, or that takes them in the order of their proposals, in which a campaign
// waits for them; results never depend on it.
func WithCandidate(ctx context.Context, c Candidate) context.Context {
	return context.WithValue(ctx, candidateKey{}, c)
}

// CandidateOf returns the candidate of WithCandidate.
func CandidateOf(ctx context.Context) (c Candidate, ok bool) {
	c, ok = ctx.Value(candidateKey{}).(Candidate)
	return c, ok
}

// WithTrace returns a context under which an Evaluator that runs candidates calls
// enter before every stage, and before finals. It tells a display what a
// worker is doing, and a campaign what might end it; results never depend on it.
func WithTrace(ctx context.Context, enter func(Stage)) context.Context {
	return context.WithValue(ctx, traceKey{}, enter)
}

// Enter reports the start of a stage to the observer, if there is one.
func Enter(ctx context.Context, stage Stage) {
	if enter, ok := ctx.Value(traceKey{}).(func(Stage)); ok {
		enter(stage)
	}
}

// WithHold returns a context under which an Evaluator calls hold before it times a
// candidate, when it has the device to itself. While the result is not nil, it gives up
// the device and waits until the channel is closed. So a campaign
// waits for a calm machine.
func WithHold(ctx context.Context, hold func() <-chan struct{}) context.Context {
	return context.WithValue(ctx, holdKey{}, hold)
}

// Held is nil when candidates may be timed, else a channel that is closed when they
// may.
func Held(ctx context.Context) <-chan struct{} {
	if hold, ok := ctx.Value(holdKey{}).(func() <-chan struct{}); ok {
		return hold()
	}
	return nil
}

// An End says when finals have to be over.
type End struct {
	// By is when they should be over: no set of processes begins that would probably end
	// later.
	By time.Time
	// Last is when what still runs is given up.
	Last time.Time
}

// WithEnd returns a context under which finals end early when their time is over. What they
// measured until then counts, and [Finals.Early] says what it does not show.
func WithEnd(ctx context.Context, e End) context.Context {
	return context.WithValue(ctx, endKey{}, e)
}

// EndOf returns the end of WithEnd.
func EndOf(ctx context.Context) (e End, ok bool) {
	e, ok = ctx.Value(endKey{}).(End)
	return e, ok
}
