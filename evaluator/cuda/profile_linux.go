package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// profileTimeout bounds one run under Nsight Compute, which launches a kernel
// several times.
const profileTimeout = 2 * time.Minute

// Profile implements [evaluator.Profiler]. That it does not work is told in the
// readings and is nobody's fault. The error is that of ctx.
func (h *lab) Profile(ctx context.Context, a evaluator.Artifact) ([]evaluator.Evidence, error) {
	ctx, leave, err := h.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	c, err := labs.Handle[*candidate](a)
	switch {
	case err != nil:
		return nil, err
	case !h.options.Profile:
		return nil, nil
	case h.toolkit.ncu == "":
		return notProfiled("ncu was not found: Nsight Compute comes with NVIDIA's CUDA toolkit"), nil
	}
	g, free := h.place()
	defer free()
	p := &h.profiler
	p.Lock()
	defer p.Unlock()
	jail := h.toolJail()
	if p.free != "" {
		jail = nil
	}
	list, err := h.profileIn(ctx, g, c, jail)
	if jail != nil && !p.tried && err == nil && !slices.ContainsFunc(list, read) {
		var outside []evaluator.Evidence
		if outside, err = h.profileIn(ctx, g, c, nil); slices.ContainsFunc(outside, read) {
			p.free = unjailed("", "ncu does", errors.New(list[0].Detail)).Missing
			list = outside
		}
	}
	if err != nil {
		return nil, err
	}
	p.tried = true
	if p.free != "" {
		list = append(list, evaluator.Evidence{Check: "ncu jail", Outcome: evaluator.NotRun, Detail: p.free})
	}
	return list, nil
}

// A profiler is what is known of ncu, which is tried in the jail when it is first
// needed.
type profiler struct {
	sync.Mutex
	tried bool
	free  string // why it runs outside
}

// read says whether ncu could read a counter.
func read(e evaluator.Evidence) bool { return e.Outcome == evaluator.Passed }

// profileIn profiles a candidate in a jail. The error is that of ctx.
func (h *lab) profileIn(ctx context.Context, g *gpu, c *candidate, jail *process.Jail) ([]evaluator.Evidence, error) {
	text, err := h.profileOne(ctx, g, c, jail)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx) // a finalist that was not profiled must not win
	case err != nil:
		h.Log.Warn("a finalist could not be profiled", "error", err)
		return notProfiled(plain.Line(err.Error())), nil
	}
	return readProfile(text), nil
}

// profileOne gives a worker under ncu all of its requests at once and returns
// what ncu wrote.
func (h *lab) profileOne(ctx context.Context, g *gpu, c *candidate, jail *process.Jail) (string, error) {
	d := h.problem.Tune[0]
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
	release, err := g.gate.Alone(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	dir, err := os.MkdirTemp(h.Scratch, "profile-")
	if err != nil {
		return "", err
	}
	defer remove(dir)
	log := filepath.Join(dir, "ncu.csv")
	env := slices.Concat(process.Environment(), []string{"CUDA_VISIBLE_DEVICES=" + g.device.UUID}, h.options.workerEnv)
	if jail != nil {
		jail, env = jail.With(nil, []string{h.Scratch}), append(env, "HOME="+h.Scratch) // where it puts files of its own, once
		jail.Capabilities = true                                                        // drivers may let only root's read counters
	}
	out, err := h.Launcher.Run(ctx, process.Command{
		Path: h.toolkit.ncu,
		Args: []string{
			"--clock-control", "none", "--csv", "--log-file", log, "--metrics", profileMetrics(),
			"--kernel-name", profiledKernels(c.kernels()), "--launch-count", strconv.Itoa(len(c.geometry[d].Kernels())), "--target-processes", "application-only", h.workerPath,
		},
		Dir:     dir,
		Env:     env,
		Jail:    jail,
		Timeout: profileTimeout, Output: 64 << 10, Stdin: &requests,
	})
	text, readErr := os.ReadFile(log)
	switch {
	case len(text) > 0:
		return string(text), nil // what is missing in it is told of
	case err != nil:
		return "", fmt.Errorf("ncu: %w: %s", err, plain.First(string(out)))
	}
	return "", readErr
}
