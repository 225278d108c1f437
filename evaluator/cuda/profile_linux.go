package cuda

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// profileTimeout bounds one run under Nsight Compute, which launches a kernel
// several times.
const profileTimeout = 2 * time.Minute

// profile adds the counters of the device to the finalists that did well. That
// it does not work is told in the evidence and is nobody's fault.
func (h *bench) profile(ctx context.Context, g *gpu, contenders []*duellist) {
	for _, c := range contenders {
		if c.entry.Verdict != "" || ctx.Err() != nil {
			continue
		}
		if h.toolkit.ncu == "" {
			c.entry.Evidence = notProfiled("ncu was not found: Nsight Compute comes with NVIDIA's CUDA toolkit")
			continue
		}
		text, err := h.profileOne(ctx, g, c.candidate)
		if err != nil {
			h.log.Warn("a finalist could not be profiled", "error", err)
			c.entry.Evidence = notProfiled(printable(err.Error()))
			continue
		}
		c.entry.Evidence = readProfile(text)
	}
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
