package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/kernels"
)

// buildHarness compiles what every worker loads: the harness's own kernels and
// the reference.
func (h *bench) buildHarness(ctx context.Context, d wire.Device) error {
	if err := h.buildTrialHarness(ctx, d); err != nil {
		return err
	}
	arch, err := architecture("sm_80", d.Capability, h.compiler.architectures())
	if err != nil {
		return err
	}
	spec := h.problem.spec
	// As exact as CUDA is: without contraction of multiplications and
	// additions.
	ref := unit{
		source: "#include \"evotune_reference.h\"\n#line 1 \"" + spec.DeviceReference.File + "\"\n" + spec.DeviceReference.Text,
		files:  map[string]string{"evotune_reference.h": kernels.DeviceReferenceHeader(spec)},
		flags:  []string{"-O3", "-fmad=false"}, arch: arch,
	}
	out, err := h.build(ctx, ref)
	if err != nil {
		return fmt.Errorf("%w to compile: kernel %s: %w", ErrReference, h.problem.name, logOf(err))
	}
	h.problem.open.Reference = filepath.Join(h.scratch, "reference.cubin")
	return os.WriteFile(h.problem.open.Reference, out.Cubin, 0o600)
}

// buildTrialHarness compiles the harness's own kernels.
func (h *bench) buildTrialHarness(ctx context.Context, d wire.Device) error {
	arch, err := architecture("sm_80", d.Capability, h.compiler.architectures())
	if err != nil {
		return err
	}
	out, err := h.build(ctx, unit{source: HarnessSource, flags: []string{"-O3"}, arch: arch, plain: true})
	if err != nil {
		return fmt.Errorf("building the harness: %w", logOf(err))
	}
	h.problem.open.Harness = filepath.Join(h.scratch, "harness.cubin")
	return os.WriteFile(h.problem.open.Harness, out.Cubin, 0o600)
}

// logOf adds the start of a compiler's log to its refusal.
func logOf(err error) error {
	var no *refused
	if errors.As(err, &no) && no.log != "" {
		text := no.log
		if len(text) > 2000 {
			text = text[:2000] + "..."
		}
		return fmt.Errorf("%w\n%s", err, text)
	}
	return err
}

// prepare proves what everything rests on: the reference, the tolerance and
// the baseline; and it measures the device's peaks if they are not known.
func (h *bench) prepare(ctx context.Context) error {
	g := h.gpus[0]
	if err := h.loadPeaks(ctx, g); err != nil {
		return err
	}
	if err := h.checkReference(ctx, g); err != nil {
		return err
	}
	if err := g.parity.run(ctx, func(w *worker) error { return h.checkControls(ctx, w) }); err != nil {
		return notOurs(err)
	}
	return h.proveBaseline(ctx, g)
}

// checkReference holds the device's reference against the one on the CPU, at
// the sanitize shape.
func (h *bench) checkReference(ctx context.Context, g *gpu) error {
	spec, d := h.problem.spec, h.problem.sanitize
	note := func(missing string) {
		h.log.Warn("the reference on the device was not held against the one on the CPU", "reason", missing)
		h.tools = append(h.tools, evaluator.Tool{Name: "reference check", Missing: missing})
		h.desc.Tools = h.tools
	}
	key := cache.Key("reference check 1", h.desc.Device.Fingerprint, HarnessSource, h.compiler.identity(), spec.Reference.Text,
		spec.DeviceReference.Text, kernels.DeviceReferenceHeader(spec), fmt.Sprint(d.wire), fmt.Sprint(h.problem.open.Buffers), strconv.FormatUint(h.problem.seed, 10))
	if _, ok := h.cache.Get("references", key, nil); ok {
		return nil
	}
	cc := lookTool("cc", nil)
	for _, name := range []string{"gcc", "clang"} {
		if cc == "" {
			cc = lookTool(name, nil)
		}
	}
	if cc == "" {
		note("there is no C compiler for it (apt-get install gcc libc6-dev)")
		return nil
	}
	dir, err := os.MkdirTemp(h.scratch, "reference-")
	if err != nil {
		return err
	}
	defer remove(dir)
	dump := filepath.Join(dir, "device")
	var a wire.ReferenceAnswer
	err = g.parity.run(ctx, func(w *worker) error {
		return w.call(ctx, h.options.Timeout+prepareTimeout, wire.Reference, wire.ReferenceRequest{Shape: d.wire, Seed: h.problem.seedOf(0), File: dump}, &a)
	})
	if err != nil {
		return fmt.Errorf("%w: kernel %s, on the device: %w", ErrReference, h.problem.name, notOurs(err))
	}
	device, err := readDoubles(dump)
	if err != nil {
		return fmt.Errorf("%w: kernel %s: %w", ErrReference, h.problem.name, err)
	}
	for name, text := range map[string]string{
		"reference.c": spec.Reference.Text, "evotune_reference.h": kernels.ReferenceHeader(spec), "main.c": h.referenceMain(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	args := []string{"-O2", "-ffp-contract=off", "-include", "evotune_reference.h", "main.c", "reference.c", "-lm", "-o", "reference"}
	text, err := h.launcher.Run(ctx, process.Command{Path: cc, Args: args, Dir: dir, Timeout: time.Minute, Output: compilerLog})
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w to compile for the CPU: kernel %s: %s", ErrReference, h.problem.name, firstError(string(text)))
	} else if err != nil {
		return err
	}
	host := filepath.Join(dir, "host")
	text, err = h.launcher.Run(ctx, process.Command{Path: filepath.Join(dir, "reference"), Args: []string{dump, host}, Dir: dir, Timeout: prepareTimeout, Output: 4096})
	if err != nil {
		return fmt.Errorf("%w: kernel %s, shape %s, on the CPU: %w %s", ErrReference, h.problem.name, d.shape.Name, err, printable(string(text)))
	}
	want, err := readDoubles(host)
	if err != nil {
		return fmt.Errorf("%w: kernel %s: %w", ErrReference, h.problem.name, err)
	}
	if err := h.problem.agree(d, device, want); err != nil {
		return fmt.Errorf("%w: kernel %s, shape %s: the one on the device disagrees with the one on the CPU: %w", ErrReference, h.problem.name, d.shape.Name, err)
	}
	// A full disk costs the next run some time, and this one nothing.
	_ = h.cache.Put("references", key, nil, nil)
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
			square += v * v / float64(n)
		}
		scale := math.Sqrt(square)
		if scale == 0 {
			scale = 1
		}
		for i := range n {
			if !(math.Abs(device[i]-host[i]) <= referenceAgreement*scale) {
				return fmt.Errorf("output %s, element %d is %.17g there and %.17g here", buffer.Name, i, device[i], host[i])
			}
		}
		device, host = device[n:], host[n:]
	}
	return nil
}

func readDoubles(path string) ([]float64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list := make([]float64, len(raw)/8)
	for i := range list {
		list[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	return list, nil
}

// referenceMain is a program that reads the buffers of the sanitize shape,
// calls the reference, and writes the outputs.
func (h *bench) referenceMain() string {
	spec, d := h.problem.spec, h.problem.sanitize
	var s strings.Builder
	s.WriteString("#include <stdio.h>\n#include <stdlib.h>\n#include <math.h>\n" +
		"static double *get(FILE *f, size_t n, int poison)\n{\n\tdouble *p = malloc((n ? n : 1) * sizeof *p);\n" +
		"\tif (!p || fread(p, sizeof *p, n, f) != n)\n\t\texit(1);\n" +
		"\tfor (size_t i = 0; poison && i < n; i++)\n\t\tp[i] = NAN;\n\treturn p;\n}\n" +
		"int main(int argc, char **argv)\n{\n\tif (argc != 3)\n\t\treturn 2;\n\tFILE *in = fopen(argv[1], \"rb\"), *out = fopen(argv[2], \"wb\");\n\tif (!in || !out)\n\t\treturn 2;\n")
	var args []string
	for _, n := range d.wire.Dims {
		args = append(args, fmt.Sprintf("INT64_C(%d)", n))
	}
	for i, b := range spec.Buffers {
		poison := 0
		if b.Role == kernels.Out {
			poison = 1
		}
		fmt.Fprintf(&s, "\tdouble *b%d = get(in, %d, %d);\n", i, d.wire.Elements[i], poison)
		args = append(args, fmt.Sprintf("b%d", i))
	}
	for _, v := range d.wire.Scalars {
		args = append(args, strconv.FormatFloat(v, 'x', -1, 64))
	}
	fmt.Fprintf(&s, "\t%s(%s);\n", spec.Reference.Entry, strings.Join(args, ", "))
	for i, b := range spec.Buffers {
		if b.Role != kernels.In {
			fmt.Fprintf(&s, "\tif (fwrite(b%d, sizeof *b%d, %d, out) != %d)\n\t\treturn 3;\n", i, i, d.wire.Elements[i], d.wire.Elements[i])
		}
	}
	s.WriteString("\treturn fclose(out) ? 3 : 0;\n}\n")
	return s.String()
}

// sameAnswer is the error up to which a control is taken to be the right answer
// in other words: the constant at a shape with one element, say.
const sameAnswer = 1e-12

// checkControls proves the tolerance: what is wrong on purpose must fail it at
// every shape where it is wrong at all, and be wrong at one at least.
func (h *bench) checkControls(ctx context.Context, w *worker) error {
	q := h.problem
	for _, c := range q.controls() {
		looked := false
		for _, d := range q.shapes() {
			if !d.comparable(q, c) {
				continue
			}
			r := c
			r.Shape, r.Seed = d.wire, q.seedOf(0)
			var a wire.ControlAnswer
			if err := w.call(ctx, prepareTimeout, wire.Control, r, &a); err != nil {
				return err
			}
			least, most, refused := math.Inf(1), 0.0, false
			for _, o := range a.Outputs {
				e := float64(o.Error)
				refused = refused || !(e <= o.Limit)
				least, most = math.Min(least, e), math.Max(most, e)
			}
			if !refused && most > sameAnswer {
				return fmt.Errorf("%w: kernel %s: the control %q passes at shape %s with an error of %.3g: the tolerance is too wide, or the data hides the difference",
					ErrControl, q.name, controlName(c), d.shape.Name, least)
			}
			looked = looked || refused
		}
		if !looked {
			return fmt.Errorf("%w: kernel %s: the control %q says nothing at any shape: it gives the right answer everywhere, or its inputs differ in size everywhere; change the sanitize shape or a verify shape",
				ErrControl, q.name, controlName(c))
		}
	}
	return nil
}

// comparable says whether the two inputs that a control exchanges have one size
// at the shape.
func (d *shapeData) comparable(q *problem, c wire.ControlRequest) bool {
	if len(c.Buffers) != 2 {
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

// proveBaseline puts the baseline through the ordeal's stages: what everything
// is measured against must itself be right. A baseline may depend on the shape.
func (h *bench) proveBaseline(ctx context.Context, g *gpu) error {
	im := h.plan.Implementations[0]
	base := im.Baseline()
	h.desc.Baseline = base.String()
	made := map[string]*candidate{}
	for _, d := range h.problem.shapes() {
		c, err := h.baselineAt(ctx, im, d, made)
		if err != nil {
			return fmt.Errorf("%w: kernel %s, %s: %w", ErrBaseline, h.problem.name, base, err)
		}
		if c.unsupported[d] == "" {
			h.baselines[d] = c
		}
	}
	if h.baselines[h.problem.sanitize] == nil {
		h.log.Warn("the baseline cannot compute the sanitize shape and is not sanitized", "reason", made)
	}
	for _, c := range made {
		out, err := h.proveOne(ctx, g, c)
		if err != nil {
			return err
		}
		if out.Verdict != "" {
			return fmt.Errorf("%w: kernel %s, %s: %s: %s", ErrBaseline, h.problem.name, base, out.Verdict, out.Reason)
		}
	}
	return h.timeParity(ctx, g)
}

// timeParity notes how long the baseline's comparisons take once inputs and
// reference are there: a candidate that takes very much longer hangs.
func (h *bench) timeParity(ctx context.Context, g *gpu) error {
	took := map[*shapeData]time.Duration{}
	err := g.parity.run(ctx, func(w *worker) error {
		for d, c := range h.baselines {
			if err := h.loadBaseline(ctx, w, d); err != nil {
				return err
			}
			if err := h.prepareShape(ctx, w, d, h.problem.seedOf(0)); err != nil {
				return err
			}
			begin := time.Now()
			if _, err := h.askParity(ctx, w, c, d, 0); err != nil {
				return err
			}
			took[d] = time.Since(begin)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the baseline: %w", notOurs(err))
	}
	h.parityTime = took
	return nil
}

func (h *bench) baselineAt(ctx context.Context, im *kernels.Implementation, d *shapeData, made map[string]*candidate) (*candidate, error) {
	base := im.Baseline()
	src, err := im.RenderBaseline(d.shape)
	if errors.Is(err, errors.ErrUnsupported) {
		routine := routineName(base)
		c := made[routine]
		if c == nil {
			c = &candidate{
				name: "baseline-" + strconv.Itoa(len(made)), routine: routine, hash: cache.Key("routine", routine),
				geometry: map[*shapeData]wire.Geometry{}, unsupported: map[*shapeData]string{},
			}
			for _, d := range h.problem.shapes() {
				c.geometry[d] = wire.Geometry{Grid: [3]int64{1, 1, 1}, Block: [3]int64{1, 1, 1}}
			}
			made[routine] = c
		}
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if c := made[src.Hash]; c != nil {
		return c, nil
	}
	c, out, err := h.compile(ctx, src, false)
	if err != nil {
		return nil, err
	}
	if out.Verdict != "" {
		return nil, fmt.Errorf("at shape %s: %s: %s", d.shape.Name, out.Verdict, out.Reason)
	}
	c.name = "baseline-" + strconv.Itoa(len(made))
	made[src.Hash] = c
	return c, nil
}

// routineName is how the worker calls a routine of a vendor's library:
// "libcublas.so" with the symbol "gemm" is "cublas:gemm".
func routineName(b *kernels.Baseline) string {
	library := strings.TrimPrefix(filepath.Base(b.Library), "lib")
	library, _, _ = strings.Cut(library, ".so")
	return library + ":" + b.Symbol
}

// proveOne compares a baseline with the reference at the shapes that it is the
// baseline of, and sanitizes it where it has a source. One that has passed is
// remembered.
func (h *bench) proveOne(ctx context.Context, g *gpu, c *candidate) (evaluator.Outcome, error) {
	for _, d := range h.problem.shapes() {
		if h.baselines[d] != c && c.unsupported[d] == "" {
			c.unsupported[d] = "another baseline is for this shape"
		}
	}
	key := cache.Key("baseline 1", h.base, c.hash)
	if _, ok := h.cache.Get("baselines", key, nil); ok && c.routine == "" {
		return evaluator.Outcome{}, nil
	}
	out, err := h.parity(ctx, g, c)
	if err == nil && out.Verdict == "" && c.routine == "" {
		out, err = h.sanitize(ctx, g, c)
	}
	if err == nil && out.Verdict == "" {
		// A full disk costs the next run some time, and this one nothing.
		_ = h.cache.Put("baselines", key, nil, nil)
	}
	return out, err
}

// loadPeaks takes the device's peaks from the cache or measures them.
func (h *bench) loadPeaks(ctx context.Context, g *gpu) error {
	var peaks map[string]float64
	if _, ok := h.cache.Get("peaks", h.peaksKey(), &peaks); ok && len(peaks) > 0 {
		h.setPeaks(peaks)
		return nil
	}
	return h.measurePeaks(ctx, g)
}

func (h *bench) peaksKey() string {
	return cache.Key("cuda peaks 1", h.desc.Device.Fingerprint, HarnessSource)
}

// measurePeaks measures and keeps the larger of what was known and what was
// found: what disturbs a measurement only makes it smaller.
func (h *bench) measurePeaks(ctx context.Context, g *gpu) error {
	var a wire.PeaksAnswer
	err := g.timing.run(ctx, func(w *worker) error {
		return w.call(ctx, h.options.Timeout+openTimeout, wire.Peaks, wire.PeaksRequest{Harness: h.problem.open.Harness}, &a)
	})
	if err != nil {
		return fmt.Errorf("measuring the device's peaks: %w", notOurs(err))
	}
	peaks := maps.Clone(h.currentPeaks())
	if peaks == nil {
		peaks = map[string]float64{}
	}
	for name, v := range a.Peaks {
		if !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("measuring the device's peaks: the worker says that %s is %v", name, v)
		}
		peaks[name] = max(peaks[name], v)
	}
	h.setPeaks(peaks)
	// A full disk costs the next run some time, and this one nothing.
	_ = h.cache.Put("peaks", h.peaksKey(), nil, peaks)
	return nil
}

func (h *bench) setPeaks(peaks map[string]float64) {
	h.peaksMu.Lock()
	defer h.peaksMu.Unlock()
	h.peaks = peaks
}

func (h *bench) currentPeaks() map[string]float64 {
	h.peaksMu.Lock()
	defer h.peaksMu.Unlock()
	return h.peaks
}
