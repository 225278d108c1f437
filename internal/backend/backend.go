// Package backend has the facts of every backend: what its definitions may say, how its
// results are judged, and what commands need to know of it. Code that would ask "is this CUDA?" asks
// here for the fact that the answer stands for.
//
// It measures nothing and opens nothing. The labs are below evaluator, and the table
// modules of the package evotune opens them. A new backend is a file here, named in All, its lab
// and a row in that table; CONTRIBUTING.md has the steps.
package backend

import "slices"

// The names of the backends.
const (
	CPU  = "cpu"
	CUDA = "cuda"
)

// Facts are what is known of a backend without its devices.
type Facts struct {
	// Name is what definitions, jobs and --backend call it, and the kind of its devices.
	Name string
	// Accelerator says that its devices are apart from the processor of the host. There may be
	// none, or several that run campaigns side by side.
	Accelerator bool
	// Device is what a kernel runs on, for messages: "the CPU", "a GPU".
	Device string
	// Language is what kernels are written in, as tables name it; Source is how the names of their
	// files end.
	Language, Source string
	// Library is the language of `tune export --lang` for its winners; empty if they cannot be
	// exported.
	Library string
	// Window is how many proposals are in flight for each device by default; 0 means as many
	// as for any campaign.
	Window int
	// Keys are the parts of a definition that it supports beyond those that every backend does; see
	// the constants.
	Keys []string
	// Flag says whether a file to judge, or an uploaded kernel, may give a flag to its compiler.
	Flag func(flag string) bool
	// Dialect declares kernels for a device; nil means plain C.
	Dialect *Dialect
	// Sandbox names the tools of its Doctor without which candidates reach the user's files.
	Sandbox []string
	// Rules judge its results; nil for a kind of device that is not judged.
	Rules *Rules
}

// The parts of a definition that not every backend supports, by their keys in kernel.toml where
// they have one.
const (
	Launch       = "launch"        // a grid of blocks: launch geometry, workspace, several kernels
	TensorMap    = "tensor_map"    // tensor maps as arguments
	Target       = "target"        // an architecture, such as sm_90a, and what depends on it
	Profile      = "profile"       // bounds on a profiler's counters
	Sanitize     = "sanitize"      // shapes of its own for sanitizers
	MaxRegisters = "max_registers" // registers of a thread
	MaxSpill     = "max_spill"     // bytes that a thread spills
	Repeat       = "repeat"        // buffers that repeat
	Unwritten    = "unwritten"     // outputs that are partly left alone
	FP8          = "fp8"           // buffers of the types e4m3 and e5m2
	Triton       = "triton"        // implementations in Triton
)

// Has says whether the backend supports a part of a definition.
func (f *Facts) Has(key string) bool { return slices.Contains(f.Keys, key) }

// A Dialect is how the generated header declares kernels for a device.
type Dialect struct {
	// Prelude comes before everything else: the integer types, if the compiler has no headers.
	Prelude string
	// Types are the element types that differ from C's, by their names in definitions.
	Types map[string]Type
}

// A Type is an element type: its name in the language and the header that has it.
type Type struct{ Name, Header string }

// All lists the backends. The first is the host's processor, which is always there. Where a job
// leaves the choice, the last that the kernel and the machine have is used.
func All() []*Facts { return []*Facts{&cpu, &cuda} }

// Of returns the facts of a backend, or of a kind of device. A name that no backend has, such as
// that of recorded tables, has no facts beyond it.
func Of(name string) *Facts {
	for _, f := range All() {
		if f.Name == name {
			return f
		}
	}
	return &Facts{Name: name}
}

// OfSource returns the backend whose sources end in ext, such as ".cu"; nil if none do.
func OfSource(ext string) *Facts {
	for _, f := range All() {
		if f.Source == ext {
			return f
		}
	}
	return nil
}

// Names lists the names, in the order of All.
func Names() (names []string) {
	for _, f := range All() {
		names = append(names, f.Name)
	}
	return names
}
