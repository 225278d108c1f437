package evaluator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

type (
	traceKey     struct{}
	holdKey      struct{}
	candidateKey struct{}
	endKey       struct{}
	prepareKey   struct{}
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

// A Preparation says what is being done for an evaluator that is being opened: making inputs,
// the reference at one shape, sanitizing the baseline. The zero value works, and it is safe for
// concurrent use.
type Preparation struct {
	mu    sync.Mutex
	steps []*preparing // under way, the oldest first
}

// A preparing is a step of a preparation.
type preparing struct {
	of    *Preparation
	in    *preparing // the step that it is a part of; nil for none
	parts int        // of it, under way
	what  string
	begun time.Time
}

// WithPreparation returns a context under which backends and labs tell p what they do with the
// methods that prepare: [Backend.Open], [Lab.Baseline], [Lab.Control]. Results never depend on it.
func WithPreparation(ctx context.Context, p *Preparation) context.Context {
	return context.WithValue(ctx, prepareKey{}, &preparing{of: p})
}

// Preparing reports that a step of a preparation begins, if a caller follows it, and returns the
// context for its parts. Done ends the step.
func Preparing(ctx context.Context, format string, args ...any) (_ context.Context, done func()) {
	return PreparingFor(ctx, 0, format, args...)
}

// PreparingFor is [Preparing] for a step that is known only now, and has been under way for some time: on
// another machine.
func PreparingFor(ctx context.Context, took time.Duration, format string, args ...any) (_ context.Context, done func()) {
	in, ok := ctx.Value(prepareKey{}).(*preparing)
	if !ok {
		return ctx, func() {}
	}
	p, s := in.of, &preparing{of: in.of, in: in, what: fmt.Sprintf(format, args...), begun: time.Now().Add(-took)}
	p.mu.Lock()
	defer p.mu.Unlock()
	in.parts++
	p.steps = append(p.steps, s)
	return context.WithValue(ctx, prepareKey{}, s), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if i := slices.Index(p.steps, s); i >= 0 {
			p.steps = slices.Delete(p.steps, i, i+1)
			in.parts--
		}
	}
}

// Now gives the step that has been under way for the longest time, of those without parts, and that time; ""
// if there is none.
func (p *Preparation) Now() (what string, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.steps {
		if s.parts == 0 {
			return s.what, time.Since(s.begun)
		}
	}
	return "", 0
}

// longStep is how long a step of preparation takes before people are told of it.
const longStep = 5 * time.Second

// A Patience says when to tell people that a step of preparation is under way: after 5 s, and
// whenever it has taken twice as long as when that was last told. The zero value works.
type Patience struct {
	// Scripts keep what they were told last: another step is then told at once.
	Scripts bool

	what string
	next time.Duration
	told bool
}

// Due says whether to tell of a step now. A step that is an earlier one again, for another shape
// say, has another name or has taken less time.
func (p *Patience) Due(what string, took time.Duration) bool {
	stale := p.Scripts && p.told && what != p.what
	if what != p.what || took < p.next/2 {
		p.what, p.next = what, longStep
	}
	if what == "" || took < p.next && !stale {
		return false
	}
	for p.next <= took {
		p.next *= 2
	}
	p.told = true
	return true
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
