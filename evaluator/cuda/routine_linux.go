package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/kernels"
)

// routineName is how the worker calls a routine of a vendor's library:
// "libcublas.so" with the symbol "gemm" is "cublas:gemm".
func routineName(b *kernels.Baseline) string {
	library := strings.TrimPrefix(filepath.Base(b.Library), "lib")
	library, _, _ = strings.Cut(library, ".so")
	return library + ":" + b.Symbol
}

// newRoutine makes a candidate of a vendor's routine.
func (h *lab) newRoutine(name, routine string) *candidate {
	c := &candidate{
		name: name, routine: routine, hash: cache.Key("routine", routine),
		geometry: map[*shapeData]wire.Geometry{}, unsupported: map[*shapeData]string{},
	}
	if len(h.cudnn) > 0 {
		c.path = h.cudnn[0]
	}
	for _, d := range h.problem.shapes() {
		c.geometry[d] = wire.Geometry{Grid: [3]int64{1, 1, 1}, Block: [3]int64{1, 1, 1}}
	}
	return c
}

// withoutCUDNN is the value of TUNE_CUDA_CUDNN with which cuDNN is taken for missing.
const withoutCUDNN = "none"

// findCUDNN lists the files of cuDNN: that which TUNE_CUDA_CUDNN names, or else those that the
// linker finds and those of Python's packages, also of the python3 on the PATH: PyTorch's may be there.
func (h *lab) findCUDNN(ctx context.Context) []string {
	switch own := os.Getenv("TUNE_CUDA_CUDNN"); own {
	case "":
	case withoutCUDNN:
		return nil
	default:
		return []string{own}
	}
	found := linkerLibraries(ctx, h.Launcher, "libcudnn")
	folders := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	for _, dir := range pythonPackages(pythonPrefix()...) {
		folders = append(folders, filepath.Join(dir, "lib"))
	}
	for _, dir := range folders {
		more, _ := filepath.Glob(filepath.Join(dir, "libcudnn.so.9"))
		found = append(found, more...)
	}
	found = slices.DeleteFunc(found, func(path string) bool { return filepath.Base(path) != "libcudnn.so.9" })
	slices.Sort(found)
	return slices.Compact(found)
}

// chooseBaseline finds at which tuned shapes a library computes the baseline, where a genome
// may stand in for it, and tells why not at the others. Of several files it takes that which
// computes most of them, or else the newest. It is called before the lab is described.
func (h *lab) chooseBaseline(ctx context.Context) error {
	b := h.Plan.Implementations[0].Baseline()
	if !b.Varies() {
		return nil
	}
	c := h.newRoutine("baseline-routine", routineName(b))
	library, _, _ := strings.Cut(c.routine, ":")
	var tuned []wire.Shape
	for _, s := range h.Plan.Tune {
		d, err := h.problem.find(s)
		if err != nil {
			return err
		}
		tuned = append(tuned, d.wire)
	}
	a, err := h.askRoutines(ctx, c, tuned)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if own := os.Getenv("TUNE_CUDA_CUDNN"); err != nil && library == "cudnn" && own != "" && own != withoutCUDNN {
		return fmt.Errorf("%w: TUNE_CUDA_CUDNN names %s: %w; name another file, or \"%s\" to measure against %s", ErrOptions, own, err, withoutCUDNN, b.Instead())
	}
	tool := evaluator.Tool{Name: library, Path: c.path, Version: a.Version}
	var refused []string
	for _, d := range h.problem.shapes() {
		switch i := slices.IndexFunc(h.Plan.Tune, func(s kernels.Shape) bool { return s.Name == d.shape.Name }); {
		case err != nil:
			c.unsupported[d] = err.Error()
		case i < 0:
			c.unsupported[d] = "it is the baseline of tuned shapes alone"
		case a.Refused[d.shape.Name] != "":
			c.unsupported[d] = a.Refused[d.shape.Name]
			refused = append(refused, d.shape.Name)
		}
	}
	instead := b.Instead()
	h.baselineText = fmt.Sprintf("%s %s (at %s: %s)", b, a.Version, strings.Join(append(refused, "shapes that are not tuned"), ", "), instead)
	switch {
	case err != nil:
		tool.Missing = fmt.Sprintf("the baseline is %s: %s", instead, plain.Line(err.Error()))
		h.baselineText = instead
	case len(refused) == len(tuned):
		tool.Missing = fmt.Sprintf("the baseline is %s: %s", instead, plain.Line(a.Refused[refused[0]]))
		h.baselineText = instead
	}
	for _, name := range refused {
		h.Log.Warn("a library does not compute the baseline of a shape", "library", library, "shape", name, "reason", plain.Line(a.Refused[name]))
	}
	h.Found(tool)
	h.routine = c
	return nil
}

// askRoutines asks all files of a routine's library, and leaves the candidate the best.
func (h *lab) askRoutines(ctx context.Context, c *candidate, shapes []wire.Shape) (best wire.LoadAnswer, err error) {
	files := []string{""} // which the worker knows
	if strings.HasPrefix(c.routine, "cudnn:") {
		files = h.cudnn
		if os.Getenv("TUNE_CUDA_CUDNN") == withoutCUDNN {
			return best, errors.New("TUNE_CUDA_CUDNN is " + withoutCUDNN)
		}
		if len(files) == 0 {
			return best, errors.New("cuDNN 9 was not found; set TUNE_CUDA_CUDNN to its libcudnn.so.9 if it is installed")
		}
	}
	for _, path := range files {
		one := &candidate{name: c.name, routine: c.routine, path: path}
		a, failed := h.askRoutine(ctx, one, shapes)
		switch {
		case failed != nil:
			h.Log.Warn("a library cannot be used", "file", path, "reason", failed)
			err = failed
		case best.Version == "" || len(a.Refused) < len(best.Refused) || len(a.Refused) == len(best.Refused) && newer(a.Version, best.Version):
			best, c.path = a, path
		}
	}
	if best.Version != "" {
		err = nil
	}
	return best, err
}

// newer compares versions such as 9.19.0.
func newer(a, b string) bool {
	number := func(part string) int {
		n, _ := strconv.Atoi(part) // 0 for what is none
		return n
	}
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int { return number(x) - number(y) }) > 0
}

// askRoutine asks a worker of its own for a routine's library and the shapes that it computes.
func (h *lab) askRoutine(ctx context.Context, c *candidate, shapes []wire.Shape) (a wire.LoadAnswer, err error) {
	open := h.problem.open
	open.Reference, open.ReferenceEntry = "", ""
	w, err := h.startWorker(ctx, workerSpec{uuid: h.gpus[0].device.UUID, share: 1}, nil, open)
	if err != nil {
		return a, err
	}
	defer w.quit(5 * time.Second)
	load := c.load()
	load.Shapes = shapes
	if err = w.call(ctx, h.options.Timeout+openTimeout, wire.Load, load, &a); err == nil && a.Fault != nil {
		err = errors.New(faultText(a.Fault))
	}
	return a, err
}

// makeBaseline makes the baseline of a shape, unless another shape has it. The
// caller holds the lock.
func (h *lab) makeBaseline(ctx context.Context, d *shapeData) (*candidate, evaluator.BuildReport, error) {
	var report evaluator.BuildReport
	if c := h.routine; c != nil && c.unsupported[d] == "" {
		return c, report, nil
	}
	im := h.Plan.Implementations[0]
	src, err := im.RenderBaseline(d.shape)
	name := "baseline-" + strconv.Itoa(len(h.made))
	if errors.Is(err, errors.ErrUnsupported) {
		routine := routineName(im.Baseline())
		if h.made[routine] == nil {
			h.made[routine] = h.newRoutine(name, routine)
		}
		return h.made[routine], report, nil
	}
	if err != nil {
		return nil, report, fmt.Errorf("the baseline of kernel %s: %w", h.problem.name, err)
	}
	if c := h.made[src.Hash]; c != nil {
		report.Log, report.Bytes = c.out.Log, len(c.out.Cubin)
		return c, report, nil
	}
	c, report, err := h.compile(ctx, src, false, true)
	if c != nil {
		c.name = name
		h.made[src.Hash] = c
	}
	return c, report, err
}
