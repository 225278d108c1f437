package cuda

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// toolPorts are where compute-sanitizer and ncu speak with what they start: they
// take one of so many from this on.
const (
	firstToolPort = 49152
	toolPorts     = 64
)

// workerJail is what workers may reach: the driver's devices and libraries, and
// the toolkit. The devices must be there, as they are once a worker said hello.
func (h *lab) workerJail(ctx context.Context) *process.Jail {
	tools := foldersOf(append([]string{h.toolkit.sanitizer, h.toolkit.ncu, os.Getenv("TUNE_CUDA_CUBLAS"), os.Getenv("TUNE_CUDA_CUBLASLT")}, h.cudnn...))
	// Libraries of the toolkit and the driver load others of theirs.
	libraries := append(linkerLibraries(ctx, h.Launcher, `lib(?:cu|nv).*`), h.toolkit.libraries...)
	read := slices.Concat(
		[]string{h.workerPath, "/sys", "/etc/nvidia", "/usr/share/nvidia", "/opt/nvidia", "/dev/zero", "/dev/urandom"},
		toolkitRoots(h.options), tools, rootsOf(tools), foldersOf(libraries), filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")),
	)
	read = slices.DeleteFunc(read, func(path string) bool { return path == "/usr" || !filepath.IsAbs(path) })
	devices, _ := filepath.Glob("/dev/nvidia*")
	// cuInit gives CUDA_ERROR_OPERATING_SYSTEM where the driver cannot write to /proc.
	return process.NewJail(read...).With(nil, slices.Concat(devices, []string{"/dev/shm", "/proc"}, h.options.workerWrites))
}

// lockIn has workers run in a jail where one in it works as one outside does.
func (h *lab) lockIn(ctx context.Context) {
	if process.Landlock() == 0 {
		return // which is told of the compilers
	}
	h.jail = h.workerJail(ctx)
	note := evaluator.Tool{Name: "worker jail", Version: "landlock version " + strconv.Itoa(process.Landlock())}
	if inside := h.tryWorker(ctx); inside != nil {
		h.jail = nil
		note = unjailed(note.Name, "GPU workers do", inside)
		if outside := h.tryWorker(ctx); outside != nil {
			note.Missing = "a worker works neither in it nor outside: " + plain.Line(outside.Error())
		}
		h.Log.Warn("GPU workers are not locked in", "reason", note.Missing)
	}
	h.Found(note)
}

// unjailed is what a tool that is missing says of programs outside of a jail.
func unjailed(name, who string, err error) evaluator.Tool {
	return evaluator.Tool{Name: name, Missing: fmt.Sprintf("%s not work with Landlock (%s): the user's files and the network are in reach", who, plain.Line(err.Error()))}
}

// tryWorker begins a problem in a worker, with the library that the baseline
// needs. One that a genome may stand in for is asked for later: see chooseBaseline.
func (h *lab) tryWorker(ctx context.Context) error {
	open, _ := h.trialProblem()
	if len(h.problem.open.Buffers) > 0 { // libraries compute certain problems alone
		open = h.problem.open
		open.Reference, open.ReferenceEntry = "", ""
	}
	w, err := h.startWorker(ctx, workerSpec{uuid: h.gpus[0].device.UUID, share: 1}, nil, open)
	if err != nil {
		return err
	}
	defer w.quit(5 * time.Second)
	if d := w.hello.Device; d != h.gpus[0].device {
		return fmt.Errorf("it sees the GPU as %+v, a worker outside as %+v", d, h.gpus[0].device)
	}
	if len(h.Plan.Implementations) > 0 {
		if b := h.Plan.Implementations[0].Baseline(); b.Library != "" && !b.Varies() {
			return w.call(ctx, h.options.Timeout, wire.Load, h.newRoutine("trial", routineName(b)).load(), &wire.LoadAnswer{})
		}
	}
	return nil
}

// toolJail is the jail of tools around workers. ncu speaks TCP with them, compute-sanitizer
// through a Unix socket with an abstract name.
func (h *lab) toolJail() *process.Jail {
	if h.jail == nil {
		return nil
	}
	j := h.jail.With(nil, nil)
	j.Streams = true
	for i := range uint16(toolPorts) {
		j.Ports = append(j.Ports, firstToolPort+i)
	}
	return j
}
