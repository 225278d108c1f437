package main

import (
	"context"
	"fmt"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
)

// preparingText is what a step of preparation is, and for how long it has been.
func preparingText(what string, took time.Duration) string {
	return fmt.Sprintf("%s: %s so far", what, took.Round(time.Second))
}

// preparing says what takes the first seconds.
func (a *app) preparing(kernel string) {
	fmt.Fprintf(a.out, "preparing %s: harness, reference, baseline, ceilings of this machine\n", kernel)
}

// stillPreparing prints a step of preparation that takes long, as a line for people or for scripts.
func (a *app) stillPreparing(campaign, what string, took time.Duration) {
	if a.JSON {
		jsonPrinter{a.out, a.err}.line("state", struct {
			Campaign string       `json:"campaign,omitempty"`
			State    api.State    `json:"state"`
			Progress preparedPart `json:"progress"`
		}{campaign, api.Preparing, preparedPart{api.Preparation{Step: what, SinceNS: took}}})
		return
	}
	fmt.Fprintln(a.out, preparingText(what, took))
}

// preparedPart is what is known of the progress of a campaign that is being prepared.
type preparedPart struct {
	Preparing api.Preparation `json:"preparing"`
}

// followPreparation returns a context under which a campaign or a judgment is prepared, and shows
// what is being done: in a terminal in one line, else in a line for each step that takes long.
// Stop removes the line; it may be called again.
func (a *app) followPreparation(ctx context.Context) (_ context.Context, stop func()) {
	var p evaluator.Preparation
	ended, watched := context.WithCancel(ctx)
	done := make(chan struct{})
	if f, ok := a.out.terminal(); ok && !a.JSON {
		lines := mpb.New(mpb.WithOutput(f), mpb.WithAutoRefresh(), mpb.WithRefreshRate(200*time.Millisecond))
		bar := lines.New(0, mpb.NopStyle(), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			what, took := p.Now()
			if what == "" {
				return ""
			}
			return preparingText(what, took)
		})))
		go func() {
			defer close(done)
			<-ended.Done()
			bar.Abort(true)
			lines.Wait()
		}()
	} else {
		go func() {
			defer close(done)
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			told := evaluator.Patience{Scripts: a.JSON}
			for {
				select {
				case <-ended.Done():
					return
				case <-tick.C:
					if what, took := p.Now(); told.Due(what, took) {
						a.stillPreparing("", what, took)
					}
				}
			}
		}()
	}
	return evaluator.WithPreparation(ctx, &p), func() { watched(); <-done }
}
