package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/kernels"
)

// buildHarness compiles what every worker loads: the harness's own kernels and
// the reference.
func (h *lab) buildHarness(ctx context.Context, d wire.Device) (err error) {
	ctx, done := evaluator.Preparing(ctx, "compiling the harness and the reference")
	defer done()
	if err := h.buildTrialHarness(ctx, d); err != nil {
		return err
	}
	spec := h.problem.spec
	if spec.DeviceReference == nil {
		return nil // the one in C computes what is expected
	}
	h.problem.open.Reference, err = h.cubin(ctx, d, "reference", referenceUnit(spec))
	if refused := (*labs.Refusal)(nil); err != nil && !errors.As(err, &refused) {
		return err // the machine's fault, and not the definition's
	}
	if err != nil && spec.Oracle == kernels.OwnBaseline {
		h.Log.Warn("the kernel itself does not compile in double precision for the GPU: its outputs are computed on the CPU", "reason", err)
		h.problem.withoutDeviceReference()
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w to compile: kernel %s: %w", ErrReference, h.problem.name, logOf(err))
	}
	return nil
}

// referenceUnit is the reference in CUDA, as exact as CUDA is: without contraction of
// multiplications and additions.
func referenceUnit(spec *kernels.Problem) unit {
	return unit{
		source: "#include \"evotune_reference.h\"\n#line 1 \"" + spec.DeviceReference.File + "\"\n" + spec.DeviceReference.Text,
		files:  map[string]string{"evotune_reference.h": kernels.DeviceReferenceHeader(spec)},
		flags:  []string{"-O3", "-fmad=false"},
	}
}

// buildTrialHarness compiles the harness's own kernels.
func (h *lab) buildTrialHarness(ctx context.Context, d wire.Device) (err error) {
	h.problem.open.Harness, err = h.cubin(ctx, d, "harness", unit{source: HarnessSource, flags: []string{"-O3"}, plain: true})
	if err != nil {
		return fmt.Errorf("building the harness: %w", logOf(err))
	}
	return nil
}

// cubin compiles what is evotune's own or the definition's, for any device from
// sm_80 on, and gives the file.
func (h *lab) cubin(ctx context.Context, d wire.Device, name string, u unit) (path string, err error) {
	if u.arch, err = architecture("sm_80", d.Capability, h.compiler.architectures()); err != nil {
		return "", err
	}
	out, err := h.build(ctx, u)
	if err != nil {
		return "", err
	}
	path = filepath.Join(h.Scratch, name+".cubin")
	return path, os.WriteFile(path, out.Cubin, 0o600)
}

// logOf adds the start of a compiler's log to its refusal.
func logOf(err error) error {
	var no *labs.Refusal
	if errors.As(err, &no) && no.Log != "" {
		text := no.Log
		if len(text) > 2000 {
			text = text[:2000] + "..."
		}
		return fmt.Errorf("%w\n%s", err, text)
	}
	return err
}

// prepare measures the device's peaks if they are not known, and holds the
// reference on the device against the one on the CPU. Where there is none on the
// device, it gets the one on the CPU ready to take its place.
func (h *lab) prepare(ctx context.Context) error {
	for _, d := range h.problem.placed {
		if err := h.placeMade(ctx, d); err != nil {
			return err
		}
	}
	if err := h.loadPeaks(ctx); err != nil {
		return err
	}
	spec := h.problem.spec
	if spec.DeviceReference != nil {
		return h.checkReference(ctx, h.gpus[0])
	}
	if h.python != nil {
		h.hostKey = h.python.Key
	} else {
		if err := h.needHostReference(ctx); err != nil {
			return err
		}
		if h.hostReference == "" {
			return fmt.Errorf("%w: kernel %s has none in CUDA, and the one in C cannot be used: %s", ErrReference, h.problem.name, noCompiler)
		}
		program, err := os.ReadFile(h.hostReference)
		if err != nil {
			return err
		}
		h.hostKey = cache.Key(string(program))
	}
	h.Found(evaluator.Tool{Name: "reference while timing", Missing: "there is none in CUDA: outputs of timed launches are compared with the baseline's alone"})
	return nil
}

// checkReference holds the device's reference against the one on the CPU, at
// the sanitize shape.
func (h *lab) checkReference(ctx context.Context, g *gpu) error {
	spec, d := h.problem.spec, h.problem.Sanitize
	note := func(missing string) {
		h.Log.Warn("the reference on the device was not held against the one on the CPU", "reason", missing)
		h.Found(evaluator.Tool{Name: "reference check", Missing: missing})
	}
	key := cache.Key("reference check 1", h.Desc.Device.Fingerprint, HarnessSource, h.compiler.identity(), spec.Reference.Text,
		spec.DeviceReference.Text, kernels.DeviceReferenceHeader(spec), fmt.Sprint(d.wire), fmt.Sprint(h.problem.open.Buffers), strconv.FormatUint(h.problem.seed, 10))
	if h.python != nil {
		key = cache.Key(key, h.python.Key)
	}
	if _, ok := h.Cache.Get("references", key, nil); ok {
		return nil
	}
	if h.python == nil {
		if err := h.needHostReference(ctx); err != nil {
			return err
		}
		if h.hostReference == "" {
			note(noCompiler)
			return nil
		}
	}
	dir, err := os.MkdirTemp(h.Scratch, "reference-")
	if err != nil {
		return err
	}
	defer remove(dir)
	dump := filepath.Join(dir, "device")
	var a wire.ReferenceAnswer
	ctx, done := evaluator.Preparing(ctx, "reference at shape %s, on the GPU", d.shape.Name)
	defer done()
	err = g.parity.own(ctx, func(w *worker) error {
		return w.call(ctx, h.options.Timeout+prepareTimeout, wire.Reference, wire.ReferenceRequest{Shape: d.wire, Seed: h.problem.seedOf(0), File: dump}, &a)
	})
	if err != nil {
		return fmt.Errorf("%w: kernel %s, on the device: %w", ErrReference, h.problem.name, err)
	}
	device, err := os.ReadFile(dump)
	if err != nil {
		return fmt.Errorf("%w: kernel %s: %w", ErrReference, h.problem.name, err)
	}
	buffers, _, err := h.problem.split(d.wire, device)
	if err != nil {
		return fmt.Errorf("%w: kernel %s: %w", ErrReference, h.problem.name, err)
	}
	want, err := h.computeOnHost(ctx, h.hostReference, d.wire, buffers, prepareTimeout, true, true)
	if err != nil {
		return err
	}
	if err := h.problem.agree(d, wire.Doubles(device), wire.Doubles(want)); err != nil {
		return fmt.Errorf("%w: kernel %s, shape %s: the one on the device disagrees with the one on the CPU: %w", ErrReference, h.problem.name, d.shape.Name, err)
	}
	h.Keep("references", key, nil, nil)
	return nil
}

// referenceAgreement is by how much two references may differ, relative to the
// scale of the output: they add in other orders, with other libraries.
const referenceAgreement = 1e-10

// agree compares the outputs that follow the buffers in the device's dump with
// those of the CPU.
func (q *problem) agree(d *shapeData, device, host []float64) error {
	at := 0
	for _, n := range d.wire.Elements {
		at += int(n)
	}
	if len(device) < at {
		return fmt.Errorf("the worker wrote %d numbers, and the buffers alone have %d", len(device), at)
	}
	device = device[at:]
	if len(device) != len(host) {
		return fmt.Errorf("%d numbers of outputs on the device, %d on the CPU", len(device), len(host))
	}
	for b, buffer := range q.open.Buffers {
		if buffer.Role == string(kernels.In) {
			continue
		}
		n := int(d.wire.Elements[b])
		square := 0.0
		for _, v := range host[:n] {
			if !buffer.UnwrittenNaN || !math.IsNaN(v) {
				square += v * v / float64(n)
			}
		}
		scale := math.Sqrt(square)
		if scale == 0 {
			scale = 1
		}
		for i := range n {
			if buffer.UnwrittenNaN && math.IsNaN(device[i]) && math.IsNaN(host[i]) {
				continue // left as it was by both
			}
			if !(math.Abs(device[i]-host[i]) <= referenceAgreement*scale) {
				return fmt.Errorf("output %s, element %d is %.17g there and %.17g here", buffer.Name, i, device[i], host[i])
			}
		}
		device, host = device[n:], host[n:]
	}
	return nil
}

// Control implements [evaluator.Lab].
func (h *lab) Control(ctx context.Context, c kernels.Control, s kernels.Shape) ([]evaluator.Output, error) {
	ctx, leave, err := h.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, err := h.problem.find(s)
	if err != nil || !h.problem.comparable(d, c) {
		return nil, err
	}
	var a wire.ControlAnswer
	err = h.gpus[0].parity.own(ctx, func(w *worker) error {
		r := wire.ControlRequest{Kind: string(c.Kind), Buffers: c.Buffers, Shape: d.wire, Seed: h.problem.seedOf(0)}
		var err error
		if r.Shape.Outputs, err = h.expect(ctx, w, d.wire, r.Seed, nil); err != nil {
			return err
		}
		if c.Kind == kernels.LeftOut {
			thinned, err := h.problem.spec.Thinned(c, s)
			if err != nil {
				return err
			}
			for _, t := range thinned {
				r.Last, r.Inner = append(r.Last, t.Steps), append(r.Inner, t.Inner)
			}
			if slices.Max(r.Last) == 0 {
				return nil
			}
		}
		if c.Kind == kernels.Swapped || c.Kind == kernels.LeftOut {
			if r.Answer, err = h.expect(ctx, w, d.wire, r.Seed, &r); err != nil {
				return err
			}
		}
		return w.call(ctx, prepareTimeout, wire.Control, r, &a)
	})
	return outputs(a.Outputs), err
}

// comparable says whether the two inputs that a control exchanges have one size
// at the shape.
func (q *problem) comparable(d *shapeData, c kernels.Control) bool {
	if c.Kind != kernels.Swapped {
		return true
	}
	size := [2]int64{-1, -2}
	for b, buffer := range q.open.Buffers {
		for i, name := range c.Buffers {
			if buffer.Name == name {
				size[i] = d.wire.Elements[b]
			}
		}
	}
	return size[0] == size[1]
}

// Baseline implements [evaluator.Lab]. A baseline may depend on the shape.
func (h *lab) Baseline(ctx context.Context, s kernels.Shape) (evaluator.Artifact, evaluator.BuildReport, error) {
	var report evaluator.BuildReport
	ctx, leave, err := h.Enter(ctx)
	if err != nil {
		return evaluator.Artifact{}, report, err
	}
	defer leave()
	d, err := h.problem.find(s)
	if err != nil {
		return evaluator.Artifact{}, report, err
	}
	h.baseMu.Lock()
	defer h.baseMu.Unlock()
	c, report, err := h.makeBaseline(ctx, d)
	if c == nil {
		return evaluator.Artifact{}, report, err
	}
	if c.unsupported[d] == "" {
		h.baselines[d] = c
	}
	return h.artifact(c, cache.Key(h.Key, c.src.Hash, c.hash)), report, nil
}

// baselineOf is the baseline of a shape, or nil.
func (h *lab) baselineOf(d *shapeData) *candidate {
	h.baseMu.Lock()
	defer h.baseMu.Unlock()
	return h.baselines[d]
}

// loadPeaks takes the device's peaks from the cache or measures them.
func (h *lab) loadPeaks(ctx context.Context) error {
	return h.LoadPeaks(ctx, labs.Ceilings{
		Key:     cache.Key("cuda peaks 1", h.Desc.Device.Fingerprint, HarnessSource),
		Measure: h.measurePeaks, Device: evaluator.Peaks{CacheBytes: h.gpus[0].device.L2Bytes},
	})
}

// measurePeaks has a worker measure the device's peaks.
func (h *lab) measurePeaks(ctx context.Context) (map[string]float64, error) {
	var a wire.PeaksAnswer
	err := h.gpus[0].timing.own(ctx, func(w *worker) error {
		return w.call(ctx, h.options.Timeout+openTimeout, wire.Peaks, wire.PeaksRequest{Harness: h.problem.open.Harness}, &a)
	})
	if err != nil {
		return nil, fmt.Errorf("measuring the device's peaks: %w", err)
	}
	for name, v := range a.Peaks {
		if !(v > 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("measuring the device's peaks: the worker says that %s is %v", name, v)
		}
	}
	return a.Peaks, nil
}
