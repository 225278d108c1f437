package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evotune/evotune/campaign"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/evaluator/replay"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// A target is what a campaign tunes: a kernel at some shapes on a backend. It
// is filled from the settings, or from what a campaign recorded.
type target struct {
	kernel          string // a name, or a table's file for the replay backend
	dirs            []string
	backend         string
	shapes          []string
	implementations []string
	hash            string // of the definition or table; checked when resuming
	// limits are the device's, which constraints may name. They are part of
	// the space, so a campaign records them.
	limits map[string]any

	// debug judges candidates in the debug flavour.
	debug bool
	// pools are the contents to time on; none draws new ones.
	pools []string

	// gpu says why the CUDA backend cannot be used; nil when it can, or when
	// nobody can tell.
	gpu func() error

	table *replay.Table
	// definition is the kernel as the backend has it.
	definition *kernels.Definition
	chosen     []*kernels.Implementation
}

const (
	backendAuto   = "auto"
	backendCPU    = "cpu"
	backendCUDA   = "cuda"
	backendReplay = "replay"
)

// target takes the settings.
func (a *app) target(kernel string) target {
	return target{
		kernel: kernel, dirs: a.list("kernels"), backend: a.v.GetString("backend"),
		shapes: a.list("shape"), implementations: a.list("implementation"),
		gpu: a.gpu,
	}
}

// record is what a later resumption needs to make the same target.
func (t target) record() map[string]string {
	dirs := make([]string, len(t.dirs))
	for i, d := range t.dirs {
		dirs[i] = absolute(d)
	}
	kernel := t.kernel
	if t.backend == backendReplay {
		kernel = absolute(kernel)
	}
	m := map[string]string{"kernel": kernel, "backend": t.backend, "hash": t.hash}
	if len(dirs) > 0 {
		m["kernels"] = strings.Join(dirs, string(filepath.ListSeparator))
	}
	if len(t.limits) > 0 {
		if b, err := json.Marshal(t.limits); err == nil { // plain numbers always encode
			m["limits"] = string(b)
		}
	}
	if len(t.implementations) > 0 {
		m["implementations"] = strings.Join(t.implementations, ",")
	}
	return m
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// recordedCampaign reads back the configuration and target of a campaign.
func (a *app) recordedCampaign(c store.Campaign) (campaign.Config, target, error) {
	var cfg campaign.Config
	if err := json.Unmarshal(c.Started.Config, &cfg); err != nil {
		return cfg, target{}, fmt.Errorf("campaign %s: its configuration cannot be read: %w: run `tune check`", c.ID, err)
	}
	x := cfg.Extra
	t := target{kernel: x["kernel"], backend: x["backend"], shapes: cfg.Shapes, hash: x["hash"]}
	if x["kernels"] != "" {
		t.dirs = filepath.SplitList(x["kernels"])
	}
	t.dirs = append(t.dirs, a.list("kernels")...)
	if x["implementations"] != "" {
		t.implementations = strings.Split(x["implementations"], ",")
	}
	if x["limits"] != "" {
		var limits map[string]int64
		if err := json.Unmarshal([]byte(x["limits"]), &limits); err != nil {
			return cfg, t, fmt.Errorf("campaign %s: its device limits cannot be read: %w: run `tune check`", c.ID, err)
		}
		t.limits = map[string]any{}
		for name, v := range limits {
			t.limits[name] = v
		}
	}
	want := t.hash
	if err := t.resolve(); err != nil {
		return cfg, t, err
	}
	if want != "" && want != t.hash {
		return cfg, t, fmt.Errorf("the kernel %s has changed since campaign %s was started (%.12s, now %.12s): results before and after would not be comparable; start a new campaign", cfg.Kernel, c.ID, want, t.hash)
	}
	return cfg, t, nil
}

func (t *target) name() string {
	if t.table != nil {
		return t.table.Name()
	}
	return t.definition.Name
}

// resolve loads the kernel and settles backend, shapes and implementations.
func (t *target) resolve() error {
	switch t.backend {
	case backendReplay:
		table, err := replay.Load(t.kernel)
		if err != nil {
			return err
		}
		for _, n := range table.Notices() {
			slog.Warn(n, "file", t.kernel)
		}
		t.table, t.hash, t.shapes = table, table.Hash(), []string{"recorded"}
		return nil
	case backendAuto, backendCPU, backendCUDA:
	default:
		return fmt.Errorf("unknown backend %q: there are auto, cpu, cuda and replay", t.backend)
	}
	catalogue, err := kernels.Open(t.dirs...)
	if err != nil {
		return err
	}
	if t.definition, err = catalogue.Get(t.kernel); err != nil {
		// A folder that could not be read is the likelier reason.
		if broken := catalogue.Errors(); errors.Is(err, kernels.ErrUnknownKernel) && len(broken) > 0 {
			return broken[0]
		}
		return err
	}
	t.hash = t.definition.Hash
	var noGPU error
	if t.backend == backendAuto {
		// Whether there is a GPU is asked for kernels that run on one alone.
		t.backend = backendCPU
		if len(t.definition.On(backendCUDA).Implementations) > 0 && t.gpu != nil {
			if noGPU = t.gpu(); noGPU == nil {
				t.backend = backendCUDA
			}
		}
	}
	t.definition = t.definition.On(t.backend)
	if err := t.choose(); err != nil {
		if noGPU != nil && len(t.definition.Implementations) == 0 {
			return fmt.Errorf("%w, and no GPU can be used: %w", err, noGPU)
		}
		return err
	}
	if len(t.shapes) == 0 {
		t.shapes = []string{t.definition.Problem.ShapesFor(kernels.Tune)[0].Name}
	}
	_, err = t.tuned()
	return err
}

// choose settles which implementations are searched.
func (t *target) choose() error {
	var have []string
	wanted := map[string]bool{}
	for _, n := range t.implementations {
		wanted[n] = true
	}
	for _, im := range t.definition.Implementations {
		if im.Backend != t.backend {
			continue
		}
		have = append(have, im.Name)
		if len(t.implementations) == 0 || wanted[im.Name] {
			t.chosen = append(t.chosen, im)
			delete(wanted, im.Name)
		}
	}
	if len(have) == 0 {
		return fmt.Errorf("the kernel %s has no implementation for the %s backend", t.definition.Name, t.backend)
	}
	for _, n := range t.implementations {
		if wanted[n] {
			return fmt.Errorf("the kernel %s has no implementation %q for the %s backend: it has %s", t.definition.Name, n, t.backend, strings.Join(have, ", "))
		}
	}
	return nil
}

// tuned looks the shapes up.
func (t *target) tuned() ([]kernels.Shape, error) {
	out := make([]kernels.Shape, len(t.shapes))
	for i, n := range t.shapes {
		s, err := t.definition.Problem.Shape(n)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", t.definition.Name, err)
		}
		out[i] = s
	}
	return out, nil
}

// dims gives the dimensions of a shape by its name; nil if it is not known.
func (t *target) dims(shape string) map[string]int64 {
	if t.definition == nil {
		return nil
	}
	s, err := t.definition.Problem.Shape(shape)
	if err != nil {
		return nil
	}
	return s.Dims
}

// space is what is searched.
func (t *target) space() (*genome.Space, error) {
	if t.table != nil {
		return t.table.Space()
	}
	shapes, err := t.tuned()
	if err != nil {
		return nil, err
	}
	return t.definition.Space(t.chosen, shapes, t.limits)
}

// open makes the problem that a campaign works on.
func (a *app) open(ctx context.Context, t target, seed int64) (campaign.Problem, error) {
	if t.table != nil {
		ev, err := replay.New(t.table, replay.Options{Latency: a.v.GetDuration("latency")})
		if err != nil {
			return campaign.Problem{}, badInput(err)
		}
		return campaign.Problem{Space: ev.Space(), Evaluator: ev}, nil
	}
	space, err := t.space()
	if err != nil {
		return campaign.Problem{}, badInput(err)
	}
	backend, err := a.backend(t.backend)
	if err != nil {
		return campaign.Problem{}, err
	}
	tune, err := t.tuned()
	if err != nil {
		return campaign.Problem{}, err
	}
	plan := evaluator.Plan{Definition: t.definition, Implementations: t.chosen, Tune: tune, Seed: uint64(seed), Debug: t.debug, Pools: t.pools}
	isTuned := map[string]bool{}
	for _, s := range tune {
		isTuned[s.Name] = true
	}
	for _, s := range t.definition.Problem.ShapesFor(kernels.Verify) {
		if !isTuned[s.Name] {
			plan.Verify = append(plan.Verify, s)
		}
	}
	plan.Sanitize = t.sanitized(tune)
	ordeal, err := evaluator.Open(ctx, backend, plan)
	if err != nil {
		return campaign.Problem{}, err
	}
	return campaign.Problem{Space: space, Evaluator: ordeal}, nil
}

// sanitized is the shape for the sanitizers: the first that candidates for the
// tuned shapes can compute.
func (t *target) sanitized(tune []kernels.Shape) kernels.Shape {
	small := t.definition.Problem.ShapesFor(kernels.Sanitize)
	for _, s := range small {
		if _, err := t.definition.Space(t.chosen, append(slices.Clone(tune), s), t.limits); err == nil {
			return s
		}
	}
	return small[0]
}

// A limitedBackend is a backend that tells of its device what constraints may
// name.
type limitedBackend interface {
	evaluator.Backend
	Limits() map[string]any
}

// backend makes the backend of a name from the settings.
func (a *app) backend(name string) (limitedBackend, error) {
	if name == backendCUDA {
		return a.cudaBackend()
	}
	return a.cpuBackend()
}

// gpu says why the CUDA backend cannot be used.
func (a *app) gpu() error {
	b, err := a.cudaBackend()
	if err != nil {
		return err
	}
	return b.Available(context.Background())
}

// cudaBackend makes the CUDA backend from the settings, once.
func (a *app) cudaBackend() (*cuda.Backend, error) {
	if a.cuda != nil {
		return a.cuda, nil
	}
	b, err := cuda.New(cuda.Options{
		Worker:          a.v.GetString("cuda-worker"),
		Devices:         a.list("cuda-devices"),
		Compiler:        a.v.GetString("cuda-compiler"),
		NVCC:            a.v.GetString("cuda-nvcc"),
		NVRTC:           a.v.GetString("cuda-nvrtc"),
		Sanitizers:      a.list("sanitizers"),
		SanitizeWorkers: a.v.GetInt("cuda-sanitize-workers"),
		ParityWorkers:   a.v.GetInt("cuda-parity-workers"),
		CompileWorkers:  a.v.GetInt("cuda-compile-workers"),
		Profile:         a.v.GetBool("cuda-profile"),
		Timeout:         a.v.GetDuration("timeout"),
		CacheDir:        a.v.GetString("cache-dir"),
		CacheSize:       int64(a.v.GetInt("cache-size")) << 20,
		Logger:          slog.Default(),
	})
	a.cuda = b
	return b, err
}

// cpuBackend makes the CPU backend from the settings.
func (a *app) cpuBackend() (*cpu.Backend, error) {
	return cpu.New(cpu.Options{
		Compiler:   a.v.GetString("compiler"),
		Sanitizers: a.list("sanitizers"),
		Timeout:    a.v.GetDuration("timeout"),
		CacheDir:   a.v.GetString("cache-dir"),
		CacheSize:  int64(a.v.GetInt("cache-size")) << 20,
	})
}

// sameDevice refuses to go on with a campaign on another device: its results
// would not be comparable.
func sameDevice(past []store.Event, now evaluator.Description) error {
	for _, e := range past {
		if e.Started != nil && e.Started.Device != now.Device.Fingerprint {
			return fmt.Errorf("campaign %s was started on another device (%s, %s; this is %s, %s): results would not be comparable; start a new campaign here",
				e.Campaign, e.Started.Name, e.Started.Device, now.Device.Name, now.Device.Fingerprint)
		}
	}
	return nil
}

// storeError says what a person can do about the store, and gives bad input
// its exit status.
func storeError(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrAmbiguous),
		errors.Is(err, store.ErrNotStore), errors.Is(err, store.ErrVersion), errors.Is(err, fs.ErrNotExist):
		return badInput(err)
	}
	return err
}
