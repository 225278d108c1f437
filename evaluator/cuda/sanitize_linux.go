package cuda

import (
	"context"
	_ "embed" // for the planted faults
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/kernels"
)

// plantedSource holds one faulty kernel for each tool.
//
//go:embed planted.cu
var plantedSource string

// A sanitizer is one tool of compute-sanitizer that was found to work.
type sanitizer struct {
	name    string
	path    string
	version string
	// delay is how long a report came after the answer that it belongs to,
	// when a fault was planted.
	delay time.Duration
	// late says that reports are complete only when the process has ended:
	// every candidate then costs one.
	late bool
	// jail is what it and its worker may reach; nil locks them into nothing.
	jail *process.Jail
}

// command is the command line before the worker's.
func (s *sanitizer) command(log string) []string {
	c := []string{s.path, "--tool", s.name, "--log-file", log, "--print-limit", "100", "--launch-timeout", "60"}
	if s.name == memcheck {
		// A failed call of the driver is the worker's to tell of.
		c = append(c, "--report-api-errors", "no")
	}
	return c
}

// settle is how long to wait for reports after an answer.
func (s *sanitizer) settle() time.Duration { return 2 * s.delay }

// proveSanitizers plants a fault for each tool and trusts those that find it.
func (h *lab) proveSanitizers(ctx context.Context) {
	version := ""
	if h.toolkit.sanitizer != "" {
		version, _ = labs.Version(ctx, h.Launcher, h.toolkit.sanitizer)
	}
	names := sanitizers()
	jail := h.toolJail()
	tools := make([]evaluator.Tool, len(names))
	proven := make([]*sanitizer, len(names))
	free := make([]error, len(names)) // why it is not locked in
	var wait sync.WaitGroup
	for i, name := range names {
		tools[i] = evaluator.Tool{Name: name, Path: h.toolkit.sanitizer, Version: version}
		switch {
		case len(h.options.Sanitizers) > 0 && !slices.Contains(h.options.Sanitizers, name):
			tools[i].Missing = "switched off by the options"
		case h.toolkit.sanitizer == "":
			tools[i].Missing = lost[name] + "; compute-sanitizer comes with NVIDIA's CUDA toolkit (apt-get install cuda-sanitizer-13-0, or nvidia-cuda-toolkit on Debian)"
		default:
			wait.Go(func() {
				s := &sanitizer{name: name, path: h.toolkit.sanitizer, version: version, jail: jail}
				err := h.prove(ctx, s)
				if err != nil && jail != nil && ctx.Err() == nil {
					free[i], s.jail = err, nil
					err = h.prove(ctx, s)
				}
				if err != nil {
					tools[i].Missing = fmt.Sprintf("it does not work here (%s): %s", plain.Line(err.Error()), lost[name])
					h.Log.Warn("sanitizer does not work", "tool", name, "error", err)
					return
				}
				proven[i] = s
			})
		}
	}
	wait.Wait()
	h.Found(tools...)
	for i, s := range proven {
		if s == nil {
			continue
		}
		if free[i] != nil {
			h.Found(unjailed(s.name+" jail", "its processes do", free[i]))
			h.Log.Warn("a sanitizer is not locked in", "tool", s.name, "reason", free[i])
		}
		h.sanitizers = append(h.sanitizers, s)
		size := h.options.SanitizeWorkers
		if s.name == racecheck {
			size *= 2 // it is slower by far
		}
		for _, g := range h.gpus {
			p := h.newPool(g, s.name, size)
			p.tool = s
			g.tools[s.name] = p
		}
	}
	h.proveDelays(ctx)
	h.findGuards()
}

// lost says what is not looked for without a tool.
var lost = map[string]string{
	memcheck:  "reads and writes outside of buffers are found only where they change an answer or a guard",
	racecheck: "data races in shared memory are found only where they change an answer",
	synccheck: "barriers that not all threads reach are found only where they hang",
	initcheck: "reads of memory that was never written are found only where they change an answer",
}

// trialProblem is the problem that the planted faults get.
func (h *lab) trialProblem() (open wire.OpenRequest, shape wire.Shape) {
	open = wire.OpenRequest{
		Harness: h.problem.open.Harness,
		Buffers: []wire.Buffer{
			{Name: "in", DType: "f32", Role: "in", Distribution: "uniform", A: 0, B: 1},
			{Name: "out", DType: "f32", Role: "out", Tolerance: 1},
		},
	}
	return open, wire.Shape{Name: "trial", Dims: []int64{256}, Elements: []int64{256, 256}}
}

// prove lets a tool look at a clean kernel and then at its own fault.
func (h *lab) prove(ctx context.Context, s *sanitizer) error {
	key := cache.Key("sanitizer 2", s.name, s.path, s.version, plantedSource, h.gpus[0].device.Name, h.gpus[0].device.DriverString,
		h.compiler.identity(), HarnessSource, fmt.Sprint(h.options.workerEnv), h.workerPath, fmt.Sprint(s.jail))
	var known struct {
		Delay time.Duration `json:"delay"`
		Late  bool          `json:"late"`
	}
	if _, ok := h.Cache.Get("sanitizers", key, &known); ok {
		s.delay, s.late = known.Delay, known.Late
		return nil
	}
	path, err := h.cubin(ctx, h.gpus[0].device, "planted-"+s.name, unit{source: plantedSource})
	if err != nil {
		return fmt.Errorf("the planted faults: %w", err)
	}
	open, shape := h.trialProblem()
	w, err := h.startWorker(ctx, workerSpec{uuid: h.gpus[0].device.UUID, share: 1}, s, open)
	if err != nil {
		return err
	}
	defer w.kill()
	for _, entry := range []string{"clean", s.name} {
		var loaded wire.LoadAnswer
		if err := w.call(ctx, h.options.Timeout, wire.Load, wire.LoadRequest{Name: entry, Cubin: path, Entry: entry}, &loaded); err != nil {
			return err
		}
		if loaded.Fault != nil {
			return errors.New(faultText(loaded.Fault))
		}
		w.faults.mark()
		r := wire.LaunchRequest{
			Binary: entry, Shape: shape, Seed: 1,
			Geometry: wire.Geometry{Grid: [3]int64{1, 1, 1}, Block: [3]int64{256, 1, 1}},
		}
		var a wire.LaunchAnswer
		err := w.call(ctx, h.options.Timeout, wire.Launch, r, &a)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		answered := time.Now()
		if entry == "clean" {
			switch {
			case err != nil:
				return fmt.Errorf("a kernel without a fault: %w", err)
			case a.Fault != nil:
				return fmt.Errorf("a kernel without a fault: %s", faultText(a.Fault))
			}
			time.Sleep(20 * time.Millisecond)
			if found := w.faults.found(); len(found) > 0 {
				return fmt.Errorf("it reports a fault where there is none: %s", firstFault(found))
			}
			continue
		}
		for len(w.faults.found()) == 0 && time.Since(answered) < time.Second {
			time.Sleep(time.Millisecond)
		}
		if len(w.faults.found()) > 0 {
			s.delay = time.Since(answered)
			break
		}
		w.quit(20 * time.Second)
		if len(w.faults.found()) == 0 {
			return errors.New("it did not find the fault that was planted for it")
		}
		s.late = true
		h.Log.Warn("a sanitizer reports only when its process ends: every candidate needs one of its own", "tool", s.name)
	}
	known.Delay, known.Late = s.delay, s.late
	h.Keep("sanitizers", key, nil, known)
	return nil
}

// Sanitizers implements [evaluator.Lab].
func (h *lab) Sanitizers() []string {
	var names []string
	for _, s := range h.sanitizers {
		names = append(names, s.name)
	}
	if h.delayer != nil {
		names = append(names, schedules)
	}
	if h.guarded {
		names = append(names, guards)
	}
	return names
}

// Launch implements [evaluator.Lab]. What the driver says of the launch is a
// fault beside what the tool has found.
func (h *lab) Launch(ctx context.Context, a evaluator.Artifact, tool string, s kernels.Shape) (evaluator.Findings, error) {
	ctx, leave, err := h.Enter(ctx)
	if err != nil {
		return evaluator.Findings{}, err
	}
	defer leave()
	c, err := labs.Handle[*candidate](a)
	if err != nil {
		return evaluator.Findings{}, err
	}
	ctx = ranked(ctx, c.rank)
	d := h.searched(c)
	if err := h.placeMade(ctx, d); err != nil {
		return evaluator.Findings{}, err
	}
	if tool == schedules {
		d = h.problem.Sanitize // the first of its own
	} else if !maps.Equal(s.Dims, d.shape.Dims) {
		if d, err = h.problem.find(s); err != nil {
			return evaluator.Findings{}, err
		}
	}
	if why := c.unsupported[d]; why != "" {
		return evaluator.Findings{NotRun: why}, nil
	}
	defer h.stages.enter(evaluator.StageSanitize, c)()
	if tool == schedules && h.delayer != nil {
		return h.launchDelayed(ctx, c, a.Allowed)
	}
	if tool == guards && h.guarded {
		return h.launchGuarded(ctx, c, d)
	}
	if tool == racecheck {
		if shares, err := c.shares(d); err != nil || !shares {
			return evaluator.Findings{NotNeeded: "no kernel of it has shared memory"}, err
		}
		// It would not see races around them, and report some that are none.
		switch seen, err := h.unfollowed(ctx, c); {
		case err != nil:
			return evaluator.Findings{}, err
		case seen.copies:
			return evaluator.Findings{NotRun: "it does not follow the tensor memory accelerator's copies; see " + schedules}, nil
		}
	}
	g, free := h.place()
	defer free()
	p := g.tools[tool]
	if p == nil {
		return evaluator.Findings{}, fmt.Errorf("there is no tool %q", tool)
	}
	var f evaluator.Findings
	err = p.run(ctx, c.lost.Swap(false), func(w *worker) (err error) {
		f, err = h.sanitizedLaunch(ctx, w, p.tool, c, a.Allowed, d, s.Blocks)
		return err
	})
	return f, blame(err, c)
}

// shares says whether a kernel that is launched at a shape has shared memory.
func (c *candidate) shares(d *shapeData) (bool, error) {
	for _, k := range c.geometry[d].Kernels() {
		if k.Shared > 0 {
			return true, nil
		}
	}
	if c.routine != "" {
		return true, nil // nobody knows
	}
	most, _, err := readKernels(c.out.Log, c.out.Cubin, c.kernels())
	return most.shared > 0, err
}

// sanitizedLaunch launches the first blocks of a candidate once under a tool, at a shape. A
// fault ends the process: what follows in it could not be told apart.
func (h *lab) sanitizedLaunch(ctx context.Context, w *worker, s *sanitizer, c *candidate, allowed *evaluator.Allowance, d *shapeData, most int64) (evaluator.Findings, error) {
	begin := time.Now()
	w.faults.mark()
	// The report is read while it is written: a faulty kernel can fill seconds
	// with reports of what the first has told.
	watched, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			if len(w.faults.found()) == 0 && w.faults.failed() == "" {
				continue
			}
			select {
			case <-ended:
			case <-time.After(50 * time.Millisecond): // for the rest of the first report
				stop(errFaultSeen)
			}
			return
		}
	})
	if s.name == racecheck && c.src.Implementation != nil { // nil: a routine of a library
		most = c.src.Implementation.SanitizeBlocks // in finals as well: all would take minutes
	}
	geo, ran := c.geometry[d], ""
	if whole := geo.Grid; firstBlocks(whole, most) != whole {
		geo.Grid = firstBlocks(whole, most)
		ran = fmt.Sprintf("a launch at shape %s of the first %s of its %s blocks, and the others did not run", d.shape.Name, blocks(geo.Grid), blocks(whole))
	}
	fault, spent, err := h.loadAndLaunch(watched, w, c, d, geo)
	close(ended)
	watcher.Wait()
	seen := errors.Is(context.Cause(watched), errFaultSeen) && ctx.Err() == nil
	stop(nil)
	if seen {
		err = nil
	}
	if err != nil {
		var died *workerError
		if found := w.faults.found(); errors.As(err, &died) && len(found) > 0 {
			return findings(w, s, found, nil)
		}
		return evaluator.Findings{}, err
	}
	if s.late {
		w.quit(20 * time.Second)
	} else if !w.dead && len(w.faults.found()) == 0 {
		time.Sleep(s.settle())
	}
	found := w.faults.found()
	if text := w.faults.failed(); text != "" && len(found) == 0 && fault == nil {
		w.kill()
		w.dead = true
		return evaluator.Findings{}, fmt.Errorf("%s failed: %s", s.name, text)
	}
	if fault == nil && len(found) == 0 {
		h.unload(w, c)
		h.Log.Debug("a launch under a tool", "tool", s.name, "load", spent[0], "data", spent[1], "launch", spent[2],
			"all", time.Since(begin))
		return evaluator.Findings{Elapsed: time.Since(begin), Ran: ran}, allowed.Spend(spent[2])
	}
	if fault != nil && len(found) == 0 {
		// The report follows the driver's word.
		for wait := time.Now(); len(w.faults.found()) == 0 && time.Since(wait) < 200*time.Millisecond; {
			time.Sleep(5 * time.Millisecond)
		}
		found = w.faults.found()
	}
	return findings(w, s, found, fault)
}

var errFaultSeen = errors.New("the sanitizer has reported a fault")

// findings ends the worker and tells what the tool and the driver said.
func findings(w *worker, s *sanitizer, found []string, fault *wire.Fault) (evaluator.Findings, error) {
	text := w.faults.text()
	w.dead = true
	f := evaluator.Findings{By: s.name, Found: firstFault(found), Log: text + w.written()}
	if n := len(found); n > 1 {
		f.Found += fmt.Sprintf(" (%d reports)", n)
	}
	if fault == nil {
		return f, nil
	}
	return f, w.faulted(fault)
}

// firstBlocks is as much of a grid as a launch of at most so many blocks of each axis has; 0
// is all.
func firstBlocks(grid [3]int64, most int64) [3]int64 {
	if most > 0 {
		for i, n := range grid {
			grid[i] = min(n, most)
		}
	}
	return grid
}

// blocks writes the size of a grid.
func blocks(grid [3]int64) string { return fmt.Sprintf("%dx%dx%d", grid[0], grid[1], grid[2]) }

// toolPatience is how many times as long as elsewhere a request under a tool may take, or one with delays: what
// runs under the other tools has the GPU by turns with it.
const toolPatience = 4

// within is how long a candidate may take for a request to a worker.
func (h *lab) within(w *worker) time.Duration {
	if w.faults != nil { // under a tool
		return toolPatience * h.options.Timeout
	}
	return h.options.Timeout
}

// loadAndLaunch says how long it took to load, to make data, and to launch.
func (h *lab) loadAndLaunch(ctx context.Context, w *worker, c *candidate, d *shapeData, geo wire.Geometry) (_ *wire.Fault, spent [3]time.Duration, err error) {
	begin := time.Now()
	loaded, err := h.load(ctx, w, c)
	if err != nil || loaded.Fault != nil {
		return loaded.Fault, spent, err
	}
	spent[0] = time.Since(begin)
	w.had(c)
	var a wire.LaunchAnswer
	seed := h.problem.seedOf(0)
	r := wire.LaunchRequest{Binary: c.name, Geometry: geo, Shape: d.wire, Seed: seed}
	if err := w.call(ctx, h.within(w), wire.Launch, r, &a); err != nil {
		return nil, spent, err
	}
	if a.Fault != nil && a.Fault.Fatal {
		w.dead = true
	}
	spent[2] = time.Duration(a.ElapsedNS)
	spent[1] = time.Since(begin) - spent[0] - spent[2]
	return a.Fault, spent, nil
}

// lateFaults is what a tool reported after the last candidate's mark.
func (w *worker) lateFaults() string {
	if w.faults == nil {
		return ""
	}
	return strings.Join(w.faults.found(), "; ")
}
