package kernels

import (
	"fmt"
	"maps"
	"slices"

	"github.com/evotune/evotune/internal/naming"
)

// A Limit is a property of the device that constraints and launch geometry may name.
type Limit struct {
	Name string
	// Default is used if the device is not known, such as when a
	// definition is loaded or linted. It is that of a small common device.
	Default int64
	Doc     string
}

// limits are in the order of the table in docs/kernels.md.
var limits = []Limit{
	{"device_cores", 2, "hardware threads that a candidate may use (CPU), multiprocessors (GPU)"},
	{"device_l1_bytes", 32 << 10, "first-level data cache of one core"},
	{"device_l2_bytes", 512 << 10, "second-level cache of one core (CPU), of the device (GPU)"},
	{"device_l3_bytes", 8 << 20, "last-level cache; 0 where there is none"},
	{"device_line_bytes", 64, "cache line"},
	{"device_vector_bytes", 16, "widest vector register that the target has (CPU)"},
	{"device_capability", 80, "compute capability, ten times the major plus the minor number (CUDA)"},
	{"device_warp", 32, "threads in a warp (GPU)"},
	{"device_max_threads", 1024, "threads that a block may have (GPU)"},
	{"device_max_shared_bytes", 48 << 10, "shared memory that a block may have, opt-in included (GPU)"},
	{"device_registers", 64 << 10, "32-bit registers of a multiprocessor (GPU)"},
}

// Limits lists the properties of a device that expressions may name.
func Limits() []Limit { return slices.Clone(limits) }

// defaultLimits returns every limit with its default.
func defaultLimits() map[string]any {
	m := make(map[string]any, len(limits))
	for _, l := range limits {
		m[l.Name] = l.Default
	}
	return m
}

// leastLimits are those of the least device that a target can run on: the defaults, unless the
// target is for one architecture only. They stand for an unknown device when something about the
// target is checked, such as whether its baseline can run.
func leastLimits(target string) map[string]any {
	m := defaultLimits()
	if target == "sm_90a" {
		m["device_capability"], m["device_max_shared_bytes"] = int64(90), int64(227<<10)
	}
	return m
}

// withDefaults adds the defaults to what a backend knows about its device. A name that
// is not a limit is an error of the caller.
func withDefaults(known map[string]any) (map[string]any, error) {
	m := defaultLimits()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ok := m[name]; !ok {
			return nil, fmt.Errorf("unknown device limit %q: %s", name, naming.Suggest(name, limitNames()))
		}
		m[name] = known[name]
	}
	return m, nil
}

func limitNames() []string {
	out := make([]string, len(limits))
	for i, l := range limits {
		out[i] = l.Name
	}
	return out
}
