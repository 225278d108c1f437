package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/plain"
)

const (
	// conditionsWindow is how long the device is watched for its conditions. The
	// driver takes a sample of what processes do at least once a second, so that
	// the first of two readings looks back, and the second sees what is new.
	conditionsWindow = 300 * time.Millisecond
	// conditionsWait bounds the wait for a worker to ask: all may be waiting for the
	// GPU, which whoever asks may have for itself.
	conditionsWait = 5 * time.Second
	// disturbingShare is the share of the time, in percent, from which on another
	// process disturbs what is timed: at less than that its kernels meet too few
	// readings to move a median. Memory that it only holds disturbs nothing.
	disturbingShare = 5
)

// disturbing are the reasons for low clocks that are not our own load's doing: a
// power cap is, and the clocks that a person has set are the same for all
// contenders.
var disturbing = []string{wire.HardwareSlowdown, wire.HardwareThermalSlowdown, wire.ThermalSlowdown, wire.PowerBrake}

// errOccupied is a GPU all of whose workers are taken by candidates.
var errOccupied = errors.New("candidates take all of its workers")

// Conditions implements [evaluator.Lab]. It needs a worker, and not the GPU.
func (h *lab) Conditions(ctx context.Context) evaluator.Conditions {
	ctx, leave, err := h.Enter(ctx)
	if err != nil {
		return evaluator.Conditions{}
	}
	defer leave()
	seen := make([]evaluator.Conditions, len(h.gpus))
	var wait sync.WaitGroup
	for i, g := range h.gpus {
		wait.Go(func() {
			c, err := g.parity.watch(ctx)
			if err != nil && ctx.Err() == nil {
				h.Log.Warn("the state of the GPU could not be read", "error", err)
				c.Disturbed, c.Unknown = "the state of the GPU could not be read: "+plain.Line(err.Error()), errors.Is(err, errOccupied)
			}
			seen[i] = c
		})
	}
	wait.Wait()
	all := seen[0]
	for _, c := range seen[1:] {
		all.Throttle = append(all.Throttle, c.Throttle...)
		all.Others = append(all.Others, c.Others...)
		if c.Disturbed != "" && (all.Disturbed == "" || all.Unknown) { // what is known comes first
			all.Disturbed, all.Unknown = c.Disturbed, c.Unknown
		}
	}
	slices.Sort(all.Throttle)
	all.Throttle = slices.Compact(all.Throttle)
	return all
}

// watch has a worker read the state of its device twice.
func (p *pool) watch(ctx context.Context) (evaluator.Conditions, error) {
	wait, stop := context.WithTimeout(ctx, conditionsWait)
	defer stop()
	occupied := func(err error) error {
		if wait.Err() != nil {
			return fmt.Errorf("%w for %s", errOccupied, conditionsWait)
		}
		return err
	}
	leave, err := p.slot(wait)
	if err != nil {
		return evaluator.Conditions{}, occupied(err)
	}
	defer leave()
	w, err := p.take(wait, false)
	if err != nil {
		return evaluator.Conditions{}, occupied(err)
	}
	defer p.put(w)
	var first, second wire.TelemetryAnswer
	if err := w.call(ctx, p.h.options.Timeout, wire.Telemetry, wire.TelemetryRequest{}, &first); err != nil {
		return evaluator.Conditions{}, err
	}
	select {
	case <-time.After(conditionsWindow):
	case <-ctx.Done():
		return evaluator.Conditions{}, ctx.Err()
	}
	if err := w.call(ctx, p.h.options.Timeout, wire.Telemetry, wire.TelemetryRequest{}, &second); err != nil {
		return evaluator.Conditions{}, err
	}
	c := conditions(first.State, second.State)
	// Where the driver does not tell what each process uses, the device tells what
	// all use; evotune's own work has ended when the machine is looked at.
	if use := second.State.Utilization; c.Disturbed == "" && len(c.Others) > 0 && use >= disturbingShare {
		c.OthersShare = float64(use) / 100
		c.Disturbed = fmt.Sprintf("others use the GPU, %d%% of the time: %s", use, strings.Join(c.Others, ", "))
	}
	return c, nil
}

// conditions puts two readings together: the clocks as they were last, and
// whatever was seen in either.
func conditions(before, after wire.State) evaluator.Conditions {
	c := evaluator.Conditions{
		ClockMHz: after.SMClockMHz, MemoryClockMHz: after.MemoryClockMHz, PowerWatts: after.PowerWatts, Celsius: after.Celsius,
	}
	for _, reason := range slices.Concat(before.Throttle, after.Throttle) {
		if !slices.Contains(c.Throttle, reason) {
			c.Throttle = append(c.Throttle, reason)
		}
	}
	busiest := wire.Process{}
	for _, p := range others(before.Others, after.Others) {
		c.Others = append(c.Others, processText(p))
		if p.Percent > busiest.Percent {
			busiest = p
		}
	}
	slowed := slices.IndexFunc(c.Throttle, func(reason string) bool { return slices.Contains(disturbing, reason) })
	switch {
	case busiest.Percent >= disturbingShare:
		c.OthersShare = float64(busiest.Percent) / 100
		c.Disturbed = "another process uses the GPU: " + processText(busiest)
	case slowed >= 0:
		c.Disturbed = "the GPU has lowered its clocks: " + c.Throttle[slowed]
	}
	return c
}

// others lists the processes of two readings, each as busy as it was at most.
func others(before, after []wire.Process) []wire.Process {
	list := slices.Clone(after)
	for _, p := range before {
		i := slices.IndexFunc(list, func(q wire.Process) bool { return q.PID == p.PID })
		if i < 0 {
			list = append(list, p)
			continue
		}
		list[i].Percent = max(list[i].Percent, p.Percent)
	}
	return list
}

// processText names a process as in "python3 (pid 812), 97% of the GPU".
func processText(p wire.Process) string {
	name := plain.Line(p.Name)
	if name == "" {
		name = "a process"
	}
	text := fmt.Sprintf("%s (pid %d)", name, p.PID)
	if p.Percent > 0 {
		text += fmt.Sprintf(", %d%% of the GPU", p.Percent)
	}
	if p.Bytes > 0 {
		text += fmt.Sprintf(", %d MiB", p.Bytes>>20)
	}
	return text
}
