package cuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// disassemblyLimit bounds what is read of a disassembler's output.
const disassemblyLimit = 64 << 20

// A disassembler is cuobjdump or nvdisasm, and what was learned from it.
type disassembler struct {
	path     string
	args     []string
	identity string
	names    nameTable
	jail     *process.Jail // what it may reach; nil locks it into nothing
}

func (d *disassembler) name() string { return filepath.Base(d.path) }

func (t *toolkit) disassembler(version func(path string) string) *disassembler {
	switch {
	case t.cuobjdump != "":
		return &disassembler{path: t.cuobjdump, args: []string{"-sass"}, identity: cache.Key(t.cuobjdump, version(t.cuobjdump)), jail: t.jail}
	case t.nvdisasm != "":
		return &disassembler{path: t.nvdisasm, args: []string{"-c", "-hex"}, identity: cache.Key(t.nvdisasm, version(t.nvdisasm)), jail: t.jail}
	}
	return nil
}

// Inspect implements [evaluator.Lab].
func (h *lab) Inspect(ctx context.Context, a evaluator.Artifact, patterns []*regexp.Regexp) (evaluator.Inspection, error) {
	ctx, leave, err := h.Enter(ctx)
	if err != nil {
		return evaluator.Inspection{}, err
	}
	defer leave()
	c, err := labs.Handle[*candidate](a)
	if err != nil {
		return evaluator.Inspection{}, err
	}
	defer h.stages.enter(evaluator.StageInspect, c)()
	return h.inspect(ranked(ctx, c.rank), c, patterns)
}

// inspect reads resources from ptxas's text and the cubin, and instructions from
// the disassembly or by their opcodes.
func (h *lab) inspect(ctx context.Context, c *candidate, patterns []*regexp.Regexp) (evaluator.Inspection, error) {
	var seen evaluator.Inspection
	if c.routine != "" {
		seen.NotCounted = "a routine of a library has no binary of its own"
		return seen, nil
	}
	// Each kernel keeps to the bounds when the one that takes the most does; what is
	// required or forbidden is looked for in the code of all of them.
	r, each, err := readKernels(c.out.Log, c.out.Cubin, c.kernels())
	if err != nil {
		// The header has declared the entry, and the source has not defined it.
		seen.Refused = err.Error()
		return seen, nil //nolint:nilerr // it is an observation
	}
	note := func(check string, value int64, unit, detail string, bound evaluator.Bound) {
		seen.Measures = append(seen.Measures, evaluator.Measure{Check: check, Value: float64(value), Unit: unit, Detail: detail, Bound: bound})
	}
	most := ""
	if len(each) > 1 {
		most = fmt.Sprintf("the most of %d kernels", len(each))
	}
	note("registers", r.registers, "registers per thread", most, evaluator.MaxRegisters)
	note("stack frame", r.stack, "bytes per thread", r.stackOf, evaluator.MaxStack)
	if r.told {
		note("spill stores", r.spillStores, "bytes per thread", "", evaluator.MaxSpill)
		note("spill loads", r.spillLoads, "bytes per thread", "", evaluator.MaxSpill)
	} else {
		seen.Measures = append(seen.Measures, evaluator.Measure{
			Check: "spills", Bound: evaluator.MaxSpill, NotRead: "ptxas did not tell: bytes on the stack and local loads and stores are counted all the same",
		})
	}
	note("static shared memory", r.shared, "bytes per block", most, evaluator.Unbound)
	note("constants", r.constant, "bytes", most, evaluator.Unbound)
	note("barriers", r.barriers, "barriers", most, evaluator.Unbound)
	seen.Measures = append(seen.Measures, h.occupancy(c, each))
	if c.src.Triton != nil { // by which an export knows it again
		name, err := c.out.machineCode()
		if err != nil {
			return seen, err
		}
		note(evaluator.MachineCode, int64(len(c.out.Cubin)), "bytes", name, evaluator.Unbound)
	}

	counts, how, why, err := h.instructions(ctx, c, slices.ContainsFunc(patterns, modifiersMatter))
	if err != nil || why != "" {
		seen.NotCounted = why
		return seen, err
	}
	seen.Instructions = counts.Mnemonics
	c.knows(counts.unfollowed())
	c.traps.Store(counts.has([]string{"BPT"}))
	code := counts.code()
	note("instructions", int64(code.Total()), "", how+": "+code.Top(12), evaluator.Unbound)
	for _, f := range families {
		if n := counts.family(f.stems...); n > 0 {
			note(f.name, int64(n), "instructions", strings.Join(f.stems, ", "), evaluator.Unbound)
		}
	}
	if local := counts.family("LDL", "STL"); local > 0 {
		note("local memory", int64(local), "instructions", "", evaluator.LocalMemory)
	}
	return seen, nil
}

// families are the kinds of instructions that say how a kernel works.
var families = []struct {
	name  string
	stems []string
}{
	{"tensor core instructions", []string{"HMMA", "HGMMA", "IMMA", "IGMMA", "QGMMA", "DMMA", "BMMA", "UTCHMMA"}},
	{"fused multiply-adds", []string{"FFMA", "FFMA2", "HFMA2", "DFMA"}},
	{"special functions", []string{"MUFU"}},
	{"asynchronous copies", []string{"LDGSTS", "UTMALDG", "UBLKCP"}},
	{"matrix loads", []string{"LDSM", "STSM"}},
	{"global loads", []string{"LDG", "LD"}},
	{"global stores", []string{"STG", "ST"}},
	{"shared loads", []string{"LDS"}},
	{"shared stores", []string{"STS"}},
	{"barrier instructions", []string{"BAR", "SYNCS", "WARPSYNC"}},
	{"atomics", []string{"ATOM", "ATOMG", "ATOMS", "RED", "REDG"}},
	{"shuffles", []string{"SHFL"}},
}

// occupancy is how many threads fit at the first shape, of several kernels the least. It
// is never a reason to reject: fast kernels run at a tenth.
func (h *lab) occupancy(c *candidate, each map[string]resources) evaluator.Measure {
	d, dev := h.problem.Tune[0], h.gpus[0].device
	least := evaluator.Measure{Check: "theoretical occupancy"}
	for i, g := range c.geometry[d].Kernels() {
		name := cmp.Or(g.Entry, c.src.Entry)
		r, threads := each[name], g.Block[0]*g.Block[1]*g.Block[2]
		// The multiprocessor has one kilobyte more than a block may opt in to.
		share, bound := occupancy(threads, r.registers, r.shared+g.Shared, int64(dev.ThreadsSM), int64(dev.RegistersSM), dev.SharedOptin+1<<10)
		if i == 0 || share < least.Value {
			least.Value, least.Detail = share, fmt.Sprintf("at shape %s, bound by %s", d.shape.Name, bound)
			if len(each) > 1 {
				least.Detail = "kernel " + name + " " + least.Detail
			}
		}
	}
	return least
}

// instructions counts the instructions of a binary, with their modifiers
// if it must be so. How says what they were counted by; why says that it cannot
// be done here.
func (h *lab) instructions(ctx context.Context, c *candidate, modifiers bool) (counts disassembly, how, why string, err error) {
	if h.disasm == nil {
		return counts, "", "neither cuobjdump nor nvdisasm is installed", nil
	}
	tool := h.disasm.name()
	key := cache.Key("instructions 2", h.disasm.identity, c.hash)
	if _, ok := h.Cache.Get("instructions", key, &counts); ok {
		return counts, "by " + tool, "", nil
	}
	code, unread := readOpcodes(c.out.Cubin)
	if unread == nil && !modifiers {
		if !h.disasm.names.known(code) {
			// What is being learned from others may be all that is missing.
			leave, err := h.learning.enter(ctx)
			if err != nil {
				return counts, "", "", err
			}
			defer leave()
		}
		if counts, ok := h.disasm.names.count(code); ok {
			return counts, "by opcodes that " + tool + " named", "", nil
		}
	}
	text, why, err := h.disassemble(ctx, c)
	if why != "" || err != nil {
		return counts, "", why, err
	}
	counts = countInstructions(text)
	if counts.code().Total() == 0 {
		return counts, "", h.disasm.path + " shows no instructions", nil
	}
	if unread == nil {
		if err := h.disasm.names.learn(code, text); err != nil {
			h.Log.Error("the disassembler is started for every binary from now on, which takes longer than compiling", "error", err)
		}
	}
	h.Keep("instructions", key, nil, counts)
	return counts, "by " + tool, "", nil
}

// disassemble starts the disassembler. Why says that it cannot read the binary.
func (h *lab) disassemble(ctx context.Context, c *candidate) (text, why string, err error) {
	release, err := h.acquireCore(ctx)
	if err != nil {
		return "", "", err
	}
	defer release()
	jail := h.disasm.jail
	if jail != nil {
		jail = jail.With([]string{h.disasm.path, c.path}, []string{h.Scratch})
	}
	out, err := h.Launcher.Run(ctx, process.Command{
		Jail: jail, Memory: compilerMemory, FileSize: cubinLimit,
		Path: h.disasm.path, Args: append(slices.Clone(h.disasm.args), c.path),
		Timeout: h.options.Timeout, Output: disassemblyLimit,
		// cuobjdump leaves temporary files behind when it is killed.
		Env: []string{"TMPDIR=" + h.Scratch},
	})
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return "", fmt.Sprintf("%s cannot read it: %s", h.disasm.path, plain.First(string(out))), nil
	case err != nil:
		return "", "", fmt.Errorf("running %s: %w", h.disasm.path, err)
	}
	return string(out), "", nil
}
