package cuda

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/kernels"
)

// findTools looks for the tools of inspection and profiling; those of
// sanitizing are proven elsewhere.
func (h *lab) findTools(ctx context.Context) {
	t := h.toolkit
	h.Found(evaluator.Tool{Name: "compiler", Version: h.compiler.version()}, t.locked())
	version := func(path string) string {
		v, _ := labs.Version(ctx, h.Launcher, path) // one that does not run is found out when it is used
		return v
	}
	tool := func(name, path, missing string) {
		e := evaluator.Tool{Name: name, Path: path}
		if path == "" {
			e.Missing = missing
		} else {
			e.Version = version(path)
		}
		h.Found(e)
	}
	h.disasm = t.disassembler(version)
	path := ""
	if h.disasm != nil {
		path = h.disasm.path
	}
	tool("disassembler", path, "instructions are not counted, and what definitions require or forbid of the binary is not checked; cuobjdump and nvdisasm come with NVIDIA's CUDA toolkit")
	tool("ncu", t.ncu, "finalists are not profiled; Nsight Compute comes with NVIDIA's CUDA toolkit")
}

// doctor looks for every tool without a plan.
func (b *Backend) doctor(ctx context.Context) []evaluator.Tool {
	return labs.Try(ctx, b.options.Logger, func(base *labs.Base) []evaluator.Tool { return b.look(ctx, newLab(base, b.options)) })
}

func (b *Backend) look(ctx context.Context, h *lab) []evaluator.Tool {
	o := b.options
	h.toolkit = findToolkit(ctx, o, h.Launcher)
	t := h.toolkit

	add := func(name, path, version, missing string) {
		h.Found(evaluator.Tool{Name: name, Path: path, Version: version, Missing: missing})
	}
	program := func(name, path, missing string) {
		if path == "" {
			add(name, "", "", missing)
			return
		}
		v, err := labs.Version(ctx, h.Launcher, path)
		if err != nil {
			add(name, path, "", "it does not run ("+plain.Line(err.Error())+"): "+missing)
			return
		}
		add(name, path, v, "")
	}
	const toolkitHint = "it comes with NVIDIA's CUDA toolkit (developer.nvidia.com/cuda-downloads; on Debian apt-get install nvidia-cuda-toolkit)"
	program("nvcc", t.nvcc, "candidates are compiled by NVRTC alone; "+toolkitHint)
	rtc, err := newNVRTC(ctx, t, h.Launcher, max(o.Timeout, time.Minute))
	if err != nil {
		add("nvrtc", "", "", "nvcc compiles, which takes about twice as long: "+plain.Line(err.Error()))
	} else {
		add("nvrtc", rtc.library, rtc.version(), "")
		h.compiler = rtc
		defer rtc.close()
	}
	if h.compiler == nil {
		if n, err := newNVCC(ctx, t, h.Launcher, h.Cache, max(o.Timeout, time.Minute)); err == nil {
			h.compiler = n
		}
	}
	if o.compiler != nil {
		h.compiler = o.compiler
	}
	h.Found(t.locked())
	h.Found(python.Doctor(ctx, h.Launcher, o.Python))
	if n, err := newTriton(ctx, t, h.Launcher, h.Cache, o.Python, max(o.Timeout, time.Minute)); err != nil {
		add(kernels.Triton, "", "", "kernels in Triton cannot be tuned: "+plain.Line(err.Error()))
	} else {
		add(kernels.Triton, n.python.Path, n.version(), "")
		n.close()
	}
	program("ptxas", t.ptxas, "nvcc cannot compile; "+toolkitHint)
	program("cuobjdump", t.cuobjdump, "nvdisasm disassembles instead, if it is there; "+toolkitHint)
	program("nvdisasm", t.nvdisasm, "cuobjdump cannot disassemble; "+toolkitHint)
	program("ncu", t.ncu, "finalists are not profiled; Nsight Compute comes with NVIDIA's CUDA toolkit")
	for _, name := range []string{"cublas", "cublasLt"} {
		path := vendorLibrary(t, name)
		missing := ""
		if path == "" {
			missing = "kernels whose baseline is a routine of " + name + " cannot be tuned; " + toolkitHint
		}
		add(name, path, "", missing)
	}
	if h.cudnn = h.findCUDNN(ctx); len(h.cudnn) == 0 {
		add("cudnn", "", "", "attention is measured against its textbook genome; cuDNN 9 comes with PyTorch: see docs/gpu-kernels.md#library-baselines")
	}
	for _, path := range h.cudnn {
		add("cudnn", path, "", "")
	}

	path, err := findWorker(o.Worker)
	if err != nil {
		add("worker", "", "", "nothing runs on a GPU: "+err.Error())
		return h.Desc.Tools
	}
	h.workerPath = path
	devices, err := h.findDevices(ctx)
	if err != nil {
		add("worker", path, "", "nothing runs on a GPU: "+plain.Line(err.Error()))
		return h.Desc.Tools
	}
	d := devices[0]
	b.remember(devices)
	add("worker", path, fmt.Sprintf("protocol %d", wire.Version), "")
	facts := describeDevice(devices)
	add("GPU", "", fmt.Sprintf("%d x %s, capability %s, %s, driver %s, %s", len(devices), d.Name, facts.Facts["capability"], facts.Facts["memory"], facts.Facts["driver"], facts.Facts["settings"]), "")
	if d.NVML == "" {
		add("nvml", "", "works", "")
	} else {
		add("nvml", "", "", "clocks, power and temperature are not recorded: "+d.NVML)
	}
	if h.compiler == nil {
		add("compute-sanitizer", t.sanitizer, "", "not tried without a compiler")
		return h.Desc.Tools
	}
	h.gpus = []*gpu{h.newGPU(d)}
	defer leaveGPU(d.UUID)
	h.limits = limitsOf(d)
	if err := h.buildTrialHarness(ctx, d); err != nil {
		add("harness", "", "", plain.Line(err.Error()))
		return h.Desc.Tools
	}
	h.lockIn(ctx)
	h.proveSanitizers(ctx)
	h.closePools()
	return h.Desc.Tools
}

// vendorLibrary finds "cublas" or "cublasLt" where the worker will look for it, and
// beside the toolkit.
func vendorLibrary(t *toolkit, name string) string {
	dirs := []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/cuda/lib64"}
	for _, l := range t.libraries {
		dirs = append(dirs, filepath.Dir(l))
	}
	for _, d := range dirs {
		if found, _ := filepath.Glob(filepath.Join(d, "lib"+name+".so*")); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}
