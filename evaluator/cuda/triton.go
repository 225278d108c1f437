package cuda

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/kernels"
)

// This file makes what Triton compiles a kernel like all others: one with evotune's
// parameters in evotune's order.

// A tritonMeta is what Triton says of a kernel that it has compiled. It knows further
// things.
type tritonMeta struct {
	Name        string `json:"name"`
	Warps       int64  `json:"num_warps"`
	Blocks      int64  `json:"num_ctas"` // of a cluster
	Shared      int64  `json:"shared"`
	Scratch     int64  `json:"global_scratch_size"`
	Profile     int64  `json:"profile_scratch_size"`
	Cooperative bool   `json:"launch_cooperative_grid"`
	Dependent   bool   `json:"launch_pdl"`
	Cluster     []int  `json:"cluster_dims"`
	Maps        []any  `json:"tensordesc_meta"`
}

// refused says what a kernel needs that evotune's launches do not have; "" for nothing.
func (m tritonMeta) refused() string {
	switch {
	case m.Blocks > 1 || slices.ContainsFunc(m.Cluster, func(n int) bool { return n > 1 }):
		return "it runs in clusters (num_ctas above 1)"
	case m.Scratch > 0:
		return fmt.Sprintf("it needs %d bytes of scratch memory for each program, as descriptors of tensors that are made on the device do", m.Scratch)
	case m.Profile > 0:
		return "it is instrumented for a profiler"
	case m.Cooperative:
		return "it wants a cooperative launch"
	case m.Dependent:
		return "it wants a dependent launch"
	case len(m.Maps) > 0:
		return "it gets descriptors of tensors"
	case m.Warps < 1:
		return "Triton does not say how many warps it has"
	}
	return ""
}

// A fixedLaunch is what a launch has to know of a compiled kernel besides its grid.
type fixedLaunch struct {
	Threads int64 `json:"threads"`
	Shared  int64 `json:"shared"` // dynamic, in bytes
}

// A TritonCode is a cubin that Triton has compiled, and what a block of it is launched with:
// threads, and bytes of dynamic shared memory.
type TritonCode struct {
	Cubin           []byte
	Threads, Shared int64
	// Name is what the evidence calls it ([evaluator.MachineCode]).
	Name string
}

// machineCode names what Triton compiled, by all that the driver makes a kernel of, and its
// launch.
func (c compiled) machineCode() (string, error) {
	hash, err := codeHash(c.Cubin, fmt.Sprintf("%d threads, %d bytes", c.Launched.Threads, c.Launched.Shared))
	return "SHA-256 " + hash, err
}

var (
	tritonEntry  = regexp.MustCompile(`(?m)^[ \t]*\.visible[ \t]+\.entry[ \t]+([\w$]+)[ \t]*\(([^)]*)\)`)
	tritonTarget = regexp.MustCompile(`(?m)^[ \t]*\.target[ \t]+(sm_\d+[af]?)`)
	tritonLine   = regexp.MustCompile(`(?m)^[ \t]*\.(loc|file)[ \t]`)
)

// adopt gives the kernel of Triton's PTX evotune's parameters: those that it has get the
// places that they have there, and what it reads of them stays. A number that it takes as
// 32 bits is the lower half of evotune's 64. Behind its own, Triton's kernels have
// parameters for scratch memory.
func adopt(ptx string, call *kernels.TritonCall) (string, error) {
	const entry = kernels.TritonKernel
	all := tritonEntry.FindAllStringSubmatchIndex(ptx, -1)
	if len(all) != 1 {
		return "", fmt.Errorf("the PTX of Triton has %d kernels, expected one", len(all))
	}
	at := all[0]
	name := ptx[at[2]:at[3]]
	var declared []string
	for p := range strings.SplitSeq(ptx[at[4]:at[5]], ",") {
		if p = strings.TrimSpace(p); p != "" {
			declared = append(declared, p)
		}
	}
	var given []kernels.TritonArgument
	for _, a := range call.Arguments {
		if a.Of >= 0 {
			given = append(given, a)
		}
	}
	const hidden = 2 // at most
	if len(declared) < len(given) || len(declared) > len(given)+hidden {
		return "", fmt.Errorf("the kernel %s of Triton has %d parameters, expected %d, and up to %d for scratch memory", name, len(declared), len(given), hidden)
	}
	params := make([]string, len(call.Params))
	for i, t := range call.Params {
		params[i] = fmt.Sprintf("\t.param %s %s_param_%d", t, entry, i)
	}
	to := make([]int, len(declared))
	for i, d := range declared {
		own := fmt.Sprintf("%s_param_%d", name, i)
		attributes, ok := strings.CutSuffix(d, own)
		if !ok || strings.ContainsAny(d, "[]") {
			return "", fmt.Errorf("the kernel %s of Triton has the parameter %q, expected a pointer or a number called %s", name, d, own)
		}
		if i >= len(given) {
			// No memory is asked for, so that no address leads anywhere.
			to[i] = slices.Index(call.Params, ".u64")
			continue
		}
		to[i] = given[i].Of
		if pointer := given[i].Type[0] == '*'; pointer != strings.Contains(attributes, "64") && pointer {
			return "", fmt.Errorf("the kernel %s of Triton has the parameter %q for a pointer", name, d)
		} else if pointer { // with what Triton says of where it points
			params[to[i]] = "\t" + attributes + fmt.Sprintf("%s_param_%d", entry, to[i])
		}
	}
	body := regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`_param_(\d+)\b`).ReplaceAllStringFunc(ptx[at[1]:], func(s string) string {
		i, err := strconv.Atoi(s[strings.LastIndexByte(s, '_')+1:])
		if err != nil || i >= len(to) {
			return s // which is not declared, as the assembler will say
		}
		return fmt.Sprintf("%s_param_%d", entry, to[i])
	})
	head := ptx[at[0]:at[2]] + entry + "(\n" + strings.Join(params, ",\n") + "\n)"
	return ptx[:at[0]] + head + body, nil
}

// A tritonRequest is what triton.py reads.
type tritonRequest struct {
	Text       string              `json:"text"`
	Call       *kernels.TritonCall `json:"call"`
	Capability int                 `json:"capability"`
	Debug      bool                `json:"debug"`
}

// A tritonAnswer is what it writes, or why there is nothing.
type tritonAnswer struct {
	PTX   string          `json:"ptx"`
	Meta  json.RawMessage `json:"meta"`
	Error string          `json:"error"`
	Line  int             `json:"line"` // of the file; 0 for none
	Log   string          `json:"log"`
}

// A tritonHello is what it writes first.
type tritonHello struct {
	Version      string `json:"version"`
	Python       string `json:"python"`
	PTXAS        string `json:"ptxas"`
	PTXASVersion string `json:"ptxas_version"`
	Error        string `json:"error"`
}
