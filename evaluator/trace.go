package evaluator

import "context"

type traceKey struct{}

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
