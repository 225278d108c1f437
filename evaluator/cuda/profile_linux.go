package cuda

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// profileTimeout bounds one run under Nsight Compute, which launches a kernel
// several times.
const profileTimeout = 2 * time.Minute

// profile adds the counters of the device to the finalists that did well, and
// ends the part of those that break a bound of their definition. That it does not
// work is told in the evidence and is nobody's fault. The error is that of ctx.
func (h *bench) profile(ctx context.Context, g *gpu, contenders []*duellist) error {
	for _, c := range contenders {
		if c.entry.Verdict != "" {
			continue
		}
		readings := h.readings(ctx, g, c.candidate)
		if ctx.Err() != nil {
			return context.Cause(ctx) // who was not looked at must not win
		}
		rows, reason := hold(c.src.Profile, readings)
		c.entry.Evidence = append(readings, rows...)
		if reason != "" {
			c.lose(evaluator.Inspect, "finals: "+reason)
		}
	}
	return nil
}

// readings are the counters of one finalist; none when nobody is profiled.
func (h *bench) readings(ctx context.Context, g *gpu, c *candidate) []evaluator.Evidence {
	switch {
	case !h.options.Profile:
		return nil
	case h.toolkit.ncu == "":
		return notProfiled("ncu was not found: Nsight Compute comes with NVIDIA's CUDA toolkit")
	}
	text, err := h.profileOne(ctx, g, c)
	if err != nil {
		h.log.Warn("a finalist could not be profiled", "error", err)
		return notProfiled(printable(err.Error()))
	}
	return readProfile(text)
}

// profileOne gives a worker under ncu all of its requests at once and returns
// what ncu wrote.
func (h *bench) profileOne(ctx context.Context, g *gpu, c *candidate) (string, error) {
	d := h.problem.tune[0]
	var requests bytes.Buffer
	for _, r := range []struct {
		kind wire.Kind
		body any
	}{
		{wire.Hello, wire.HelloRequest{Version: wire.Version}},
		{wire.Open, h.problem.open},
		{wire.Load, c.load()},
		{wire.Launch, wire.LaunchRequest{Binary: c.name, Geometry: c.geometry[d], Shape: d.wire, Seed: h.problem.seedOf(0)}},
		{wire.Quit, wire.QuitRequest{}},
	} {
		if err := wire.Write(&requests, r.kind, r.body); err != nil {
			return "", err
		}
	}
	release, err := g.gate.single(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	dir, err := os.MkdirTemp(h.scratch, "profile-")
	if err != nil {
		return "", err
	}
	defer remove(dir)
	log := filepath.Join(dir, "ncu.csv")
	out, err := h.launcher.Run(ctx, process.Command{
		Path: h.toolkit.ncu,
		Args: []string{
			"--clock-control", "none", "--csv", "--log-file", log, "--metrics", profileMetrics(),
			"--kernel-name", c.src.Entry, "--launch-count", "1", "--target-processes", "application-only", h.workerPath,
		},
		Dir:     dir,
		Env:     append([]string{"CUDA_VISIBLE_DEVICES=" + g.device.UUID}, h.options.workerEnv...),
		Timeout: profileTimeout, Output: 64 << 10, Stdin: &requests,
	})
	text, readErr := os.ReadFile(log)
	switch {
	case len(text) > 0:
		return string(text), nil // what is missing in it is told of
	case err != nil:
		return "", fmt.Errorf("ncu: %w: %s", err, printable(firstLine(string(out))))
	}
	return "", readErr
}
