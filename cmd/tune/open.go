package main

import (
	"errors"
	"io/fs"
	"log/slog"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/store"
)

// machine returns the machine of the settings, which it makes once.
func (a *app) machine() *evotune.Machine {
	if a.m != nil {
		return a.m
	}
	cache := int64(a.Backends.CacheSize) << 20
	var verbose *slog.Logger
	if a.Verbose {
		verbose = slog.Default()
	}
	a.m = &evotune.Machine{Definitions: a.Kernels, CPU: a.Backends.CPU, CUDA: a.Backends.CUDA, ReplayLatency: a.Backends.Latency}
	a.m.CPU.CacheSize, a.m.CPU.Logger = cache, verbose
	a.m.CUDA.CacheSize, a.m.CUDA.Logger = cache, slog.Default()
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
