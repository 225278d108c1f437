package main

import (
	"errors"
	"io/fs"
	"log/slog"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/store"
)

// machine returns the machine of the settings, which it makes once.
func (a *app) machine() *evotune.Machine {
	if a.m != nil {
		return a.m
	}
	cache := int64(a.v.GetInt("cache-size")) << 20
	var verbose *slog.Logger
	if a.v.GetBool("verbose") {
		verbose = slog.Default()
	}
	a.m = &evotune.Machine{
		Definitions: a.list("kernels"),
		CPU: cpu.Options{
			Compiler:   a.v.GetString("compiler"),
			Python:     a.v.GetString("python"),
			Sanitizers: a.list("sanitizers"),
			Timeout:    a.v.GetDuration("timeout"),
			CacheDir:   a.v.GetString("cache-dir"),
			CacheSize:  cache,
			Logger:     verbose,
		},
		CUDA: cuda.Options{
			Worker:          a.v.GetString("cuda-worker"),
			Devices:         a.list("cuda-devices"),
			Compiler:        a.v.GetString("cuda-compiler"),
			Python:          a.v.GetString("python"),
			NVCC:            a.v.GetString("cuda-nvcc"),
			NVRTC:           a.v.GetString("cuda-nvrtc"),
			Sanitizers:      a.list("sanitizers"),
			SanitizeWorkers: a.v.GetInt("cuda-sanitize-workers"),
			ParityWorkers:   a.v.GetInt("cuda-parity-workers"),
			CompileWorkers:  a.v.GetInt("cuda-compile-workers"),
			Profile:         a.v.GetBool("cuda-profile"),
			Timeout:         a.v.GetDuration("timeout"),
			CacheDir:        a.v.GetString("cache-dir"),
			CacheSize:       cache,
			Logger:          slog.Default(),
		},
		ReplayLatency: a.v.GetDuration("latency"),
	}
	return a.m
}

// storeError gives the errors of a store that the user can correct their exit
// status.
func storeError(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrAmbiguous),
		errors.Is(err, store.ErrNotStore), errors.Is(err, store.ErrVersion), errors.Is(err, fs.ErrNotExist):
		return badInput(err)
	}
	return err
}
