package evaluator

import "context"

type (
	traceKey struct{}
	holdKey  struct{}
)

// WithTrace returns a context under which an Ordeal calls enter at the start
// of every stage. It is how a display learns what a worker is doing; results
// never depend on it.
func WithTrace(ctx context.Context, enter func(Stage)) context.Context {
	return context.WithValue(ctx, traceKey{}, enter)
}

// trace reports the start of a stage to whoever asked for it.
func trace(ctx context.Context, stage Stage) {
	if enter, ok := ctx.Value(traceKey{}).(func(Stage)); ok {
		enter(stage)
	}
}

// WithHold returns a context under which an Evaluator calls wait before it times a
// candidate, when the device is its own. Wait says whether it had to wait, which
// it does without end but for that of its context; the device is then given up
// meanwhile. It is how a campaign waits for a calm machine.
func WithHold(ctx context.Context, wait func(context.Context) bool) context.Context {
	return context.WithValue(ctx, holdKey{}, wait)
}

// Held waits while candidates are held up, and says whether it had to.
func Held(ctx context.Context) bool {
	wait, ok := ctx.Value(holdKey{}).(func(context.Context) bool)
	return ok && wait(ctx)
}
