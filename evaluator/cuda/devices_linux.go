package cuda

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// workerName is the program that needs the driver.
const workerName = "tune-cuda"

// findWorker resolves Options.Worker.
func findWorker(option string) (string, error) {
	if option != "" {
		path, err := exec.LookPath(option)
		if err != nil {
			return "", fmt.Errorf("%w: %s: %w", ErrWorker, option, err)
		}
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), workerName)); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath(workerName); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("%w: %s is neither beside this program nor on the PATH: build it with `go build -tags cuda ./cmd/%s`", ErrWorker, workerName, workerName)
}

// askHello asks a worker for a device: the first, or that with an index or
// UUID.
func askHello(ctx context.Context, l *process.Launcher, path, device string, env []string) (wire.Device, error) {
	w, err := startWorker(ctx, l, workerSpec{path: path, uuid: device, env: env})
	if err != nil {
		return wire.Device{}, fmt.Errorf("%w: %w", ErrWorker, err)
	}
	defer w.quit(5 * time.Second)
	return w.hello.Device, nil
}

// visible lists the GPUs that this process may use, as CUDA_VISIBLE_DEVICES
// does; empty means that nobody has restricted them.
func visible() []string {
	v := os.Getenv("CUDA_VISIBLE_DEVICES")
	if v == "" {
		return nil
	}
	var list []string
	for d := range strings.SplitSeq(v, ",") {
		list = append(list, strings.TrimSpace(d))
	}
	return list
}

// chosen turns Options.Devices into what CUDA_VISIBLE_DEVICES takes, one entry
// for each GPU; "" is the first.
func chosen(devices []string) (list []string, all bool, err error) {
	mine := visible()
	switch {
	case len(devices) == 0:
		if len(mine) > 0 {
			return mine[:1], false, nil
		}
		return []string{""}, false, nil
	case len(devices) == 1 && devices[0] == "all":
		if len(mine) > 0 {
			return mine, true, nil
		}
		// The driver lists those that it has, and perhaps some that this
		// process may not use.
		found, _ := filepath.Glob("/proc/driver/nvidia/gpus/*")
		for i := range max(len(found), 1) {
			list = append(list, strconv.Itoa(i))
		}
		return list, true, nil
	}
	for _, d := range devices {
		i, err := strconv.Atoi(d)
		switch {
		case err != nil && !strings.HasPrefix(d, "GPU-") && !strings.HasPrefix(d, "MIG-"):
			return nil, false, fmt.Errorf("%w: the device %q is neither an index, nor a UUID (GPU-...), nor \"all\"", ErrOptions, d)
		case err == nil && len(mine) > 0 && (i < 0 || i >= len(mine)):
			return nil, false, fmt.Errorf("%w: there is no device %d: CUDA_VISIBLE_DEVICES names %d", ErrOptions, i, len(mine))
		case err == nil && len(mine) > 0:
			d = mine[i]
		}
		list = append(list, d)
	}
	return list, false, nil
}

// askDevices asks for every GPU that was chosen. Where all were, some may be missing,
// of which unusable is told.
func askDevices(ctx context.Context, l *process.Launcher, worker string, o Options, unusable func(device string, err error)) ([]wire.Device, error) {
	list, all, err := chosen(o.Devices)
	if err != nil {
		return nil, err
	}
	var devices []wire.Device
	for _, d := range list {
		dev, err := askHello(ctx, l, worker, d, o.workerEnv)
		if err != nil && all && len(devices) > 0 {
			unusable(d, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(devices, func(o wire.Device) bool { return o.UUID == dev.UUID }) {
			continue
		}
		devices = append(devices, dev)
	}
	return devices, nil
}

// findDevices asks for every GPU that was chosen. They must be alike.
func (h *lab) findDevices(ctx context.Context) ([]wire.Device, error) {
	devices, err := askDevices(ctx, h.Launcher, h.workerPath, h.options, func(device string, err error) {
		h.Log.Warn("a GPU cannot be used", "device", device, "error", err)
	})
	if err != nil {
		return nil, err
	}
	first := devices[0]
	for _, d := range devices[1:] {
		if settings(d) != settings(first) {
			return nil, fmt.Errorf("%w: %s has %s and %s has %s: times on them cannot be compared; give them the same limits, or choose one", ErrDevices, first.UUID, settings(first), d.UUID, settings(d))
		}
		if d.Name != first.Name || d.Capability != first.Capability || d.SMs != first.SMs || d.MemoryBytes>>30 != first.MemoryBytes>>30 {
			return nil, fmt.Errorf("%w: %s (%s) and %s (%s): times on them cannot be compared; choose GPUs of one model", ErrDevices, first.Name, first.UUID, d.Name, d.UUID)
		}
	}
	return devices, nil
}

// probe asks for the first GPU once. Whether there is one does not depend on the others:
// one of these that cannot be used is an error when it is opened.
func (b *Backend) probe(ctx context.Context) (wire.Device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first != nil {
		return *b.first, nil
	}
	list, _, err := chosen(b.options.Devices)
	if err != nil {
		return wire.Device{}, err
	}
	path, err := findWorker(b.options.Worker)
	if err != nil {
		return wire.Device{}, err
	}
	l := process.NewLauncher()
	defer l.Close()
	d, err := askHello(ctx, l, path, list[0], b.options.workerEnv)
	if err == nil {
		b.first = &d
	}
	return d, err
}

// all asks for all GPUs once.
func (b *Backend) all(ctx context.Context) ([]wire.Device, error) {
	list, _, err := chosen(b.options.Devices)
	if err != nil {
		return nil, err
	}
	if len(list) == 1 {
		d, err := b.probe(ctx)
		return []wire.Device{d}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.gpus) > 0 {
		return b.gpus, nil
	}
	devices, err := ask(ctx, b.options, func(string, error) {}) // opening tells
	b.gpus = devices
	return b.gpus, err
}

// ask asks for all GPUs.
func ask(ctx context.Context, o Options, unusable func(device string, err error)) ([]wire.Device, error) {
	path, err := findWorker(o.Worker)
	if err != nil {
		return nil, err
	}
	l := process.NewLauncher()
	defer l.Close()
	return askDevices(ctx, l, path, o, unusable)
}

func (b *Backend) uuids(ctx context.Context) (list []string, err error) {
	o := b.options
	if len(o.Devices) == 0 {
		o.Devices = []string{"all"}
	}
	devices, err := ask(ctx, o, func(device string, err error) {
		b.options.Logger.Warn("a GPU cannot be used", "device", device, "error", err)
	})
	for _, d := range devices {
		list = append(list, d.UUID)
	}
	return list, err
}

func (b *Backend) remember(devices []wire.Device) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first, b.gpus = &devices[0], devices
}

// settings says what a GPU is set to: the power and the clocks that it is allowed.
// What NVML does not tell is unknown, and equal to all else that is.
func settings(d wire.Device) string {
	value := func(n int, unit string) string {
		if n == 0 {
			return "unknown"
		}
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("power limit %s, application clocks %s and memory %s, highest clock %s", value(d.PowerLimitWatts, "W"),
		value(d.AppClockMHz, "MHz"), value(d.AppMemoryClockMHz, "MHz"), value(d.MaxClockMHz, "MHz"))
}

// describeDevice says what results depend on. The fingerprint holds what
// changes how fast code runs; which of several equal GPUs it was does not.
func describeDevice(devices []wire.Device) evaluator.Device {
	d := devices[0]
	capability := fmt.Sprintf("%d.%d", d.Capability/10, d.Capability%10)
	driver := d.DriverString
	if driver == "" {
		driver = fmt.Sprintf("CUDA %d.%d", d.CUDADriver/1000, d.CUDADriver%1000/10)
	}
	memory := fmt.Sprintf("%d MiB", d.MemoryBytes>>20)
	var uuids []string
	for _, d := range devices {
		uuids = append(uuids, d.UUID)
	}
	facts := map[string]string{
		"capability": capability, "driver": driver, "memory": memory, "gpus": strconv.Itoa(len(devices)),
		"uuid": strings.Join(uuids, " "), "multiprocessors": strconv.Itoa(d.SMs),
		"l2": fmt.Sprintf("%d KiB", d.L2Bytes>>10), "cuda": fmt.Sprintf("%d.%d", d.CUDADriver/1000, d.CUDADriver%1000/10),
		"clock": fmt.Sprintf("%d MHz", d.ClockKHz/1000), "nvml": "works", "settings": settings(d),
	}
	if d.NVML != "" {
		facts["nvml"] = "not there: " + d.NVML
	}
	return evaluator.Device{
		Name: d.Name, Kind: "cuda", Facts: facts,
		Fingerprint: cache.Key("cuda 2", settings(d), d.Name, capability, driver, memory, strconv.Itoa(d.SMs), strconv.FormatInt(d.L2Bytes, 10))[:16],
	}
}
