package cuda

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
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
}

func (d *disassembler) name() string { return filepath.Base(d.path) }

func (t *toolkit) disassembler(version func(path string) string) *disassembler {
	switch {
	case t.cuobjdump != "":
		return &disassembler{path: t.cuobjdump, args: []string{"-sass"}, identity: cache.Key(t.cuobjdump, version(t.cuobjdump))}
	case t.nvdisasm != "":
		return &disassembler{path: t.nvdisasm, args: []string{"-c", "-hex"}, identity: cache.Key(t.nvdisasm, version(t.nvdisasm))}
	}
	return nil
}

// Inspect implements [evaluator.Bench]: resources from ptxas and the cubin,
// instructions from the disassembly or by their opcodes, and what the definition requires of both.
func (h *bench) Inspect(ctx context.Context, bin evaluator.Binary) (evaluator.Outcome, error) {
	ctx, c, leave, err := h.stage(ctx, evaluator.StageInspect, bin)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	defer leave()
	return h.inspect(ctx, c)
}

func (h *bench) inspect(ctx context.Context, c *candidate) (evaluator.Outcome, error) {
	var o evaluator.Outcome
	note := func(e evaluator.Evidence) { o.Evidence = append(o.Evidence, e) }
	reject := func(check, reason string, value, limit float64) {
		note(evaluator.Evidence{Check: check, Outcome: evaluator.Failed, Value: value, Limit: limit, Detail: reason})
		if o.Verdict == "" {
			o.Verdict, o.Reason = evaluator.Inspect, check+": "+reason
		}
	}
	var r resources
	r.readLog(c.out.Log, c.src.Entry)
	if err := r.readCubin(c.out.Cubin, c.src.Entry); err != nil {
		// The header has declared the entry, and the source has not defined it.
		reject("entry", err.Error(), 0, 0)
		return o, nil
	}
	want := c.src.Implementation.Binary
	// bounded notes a measure, and rejects what is above a bound.
	bounded := func(check, unit, detail string, value int64, limit *int64) {
		e := evaluator.Evidence{Check: check, Outcome: evaluator.Passed, Value: float64(value), Unit: unit, Detail: detail}
		if limit != nil {
			e.Limit = float64(*limit)
			if value > *limit {
				reject(check, fmt.Sprintf("%d %s, allowed are %d", value, unit, *limit), float64(value), float64(*limit))
				return
			}
		}
		note(e)
	}
	bounded("registers", "registers per thread", "", r.registers, want.MaxRegisters)
	bounded("stack frame", "bytes per thread", r.stackOf, r.stack, want.MaxStack)
	if r.told {
		bounded("spill stores", "bytes per thread", "", r.spillStores, want.MaxSpill)
		bounded("spill loads", "bytes per thread", "", r.spillLoads, want.MaxSpill)
	} else {
		note(evaluator.Evidence{Check: "spills", Outcome: evaluator.NotRun, Detail: "ptxas did not tell: bytes on the stack and local loads and stores are counted all the same"})
	}
	bounded("static shared memory", "bytes per block", "", r.shared, nil)
	bounded("constants", "bytes", "", r.constant, nil)
	bounded("barriers", "barriers", "", r.barriers, nil)
	h.noteOccupancy(c, r, note)

	patterns := slices.Concat(c.src.Require, want.Forbid)
	counts, how, why, err := h.instructions(ctx, c, slices.ContainsFunc(patterns, modifiersMatter))
	if err != nil {
		return o, err
	}
	if why != "" {
		note(evaluator.Evidence{Check: "instructions", Outcome: evaluator.NotRun, Detail: why})
		for _, re := range patterns {
			note(evaluator.Evidence{Check: "mnemonic " + re.String(), Outcome: evaluator.NotRun, Detail: why})
		}
		return o, nil
	}
	note(evaluator.Evidence{Check: "instructions", Outcome: evaluator.Passed, Value: float64(counts.total()), Detail: how + ": " + counts.top(12)})
	for _, f := range families {
		if n := counts.family(f.stems...); n > 0 {
			note(evaluator.Evidence{Check: f.name, Outcome: evaluator.Passed, Value: float64(n), Unit: "instructions", Detail: strings.Join(f.stems, ", ")})
		}
	}
	local := counts.family("LDL", "STL")
	switch {
	case local > 0 && want.MaxStack != nil && *want.MaxStack == 0:
		reject("local memory", fmt.Sprintf("%d instructions load from or store to local memory, where no stack frame is allowed", local), float64(local), 0)
	case local > 0:
		note(evaluator.Evidence{Check: "local memory", Outcome: evaluator.Passed, Value: float64(local), Unit: "instructions"})
	}
	for _, re := range c.src.Require {
		check := "requires " + re.String()
		if n := counts.matching(re); n == 0 {
			reject(check, "no instruction of the binary matches "+re.String(), 0, 0)
		} else {
			note(evaluator.Evidence{Check: check, Outcome: evaluator.Passed, Value: float64(n), Unit: "instructions"})
		}
	}
	for _, re := range want.Forbid {
		check := "forbids " + re.String()
		if n := counts.matching(re); n > 0 {
			reject(check, fmt.Sprintf("%d instructions of the binary match %s", n, re), float64(n), 0)
		} else {
			note(evaluator.Evidence{Check: check, Outcome: evaluator.Passed})
		}
	}
	return o, nil
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

// noteOccupancy records how many threads fit at the first shape. It is never a
// reason to reject: fast kernels run at a tenth.
func (h *bench) noteOccupancy(c *candidate, r resources, note func(evaluator.Evidence)) {
	d := h.problem.tune[0]
	g, dev := c.geometry[d], h.gpus[0].device
	threads := g.Block[0] * g.Block[1] * g.Block[2]
	// The multiprocessor has one kilobyte more than a block may opt in to.
	share, bound := occupancy(threads, r.registers, r.shared+g.Shared, int64(dev.ThreadsSM), int64(dev.RegistersSM), dev.SharedOptin+1<<10)
	note(evaluator.Evidence{Check: "theoretical occupancy", Outcome: evaluator.Passed, Value: share, Detail: fmt.Sprintf("at shape %s, bound by %s", d.shape.Name, bound)})
}

// instructions counts the instructions of a binary, with their modifiers
// if it must be so. How says what they were counted by; why says that it cannot
// be done here.
func (h *bench) instructions(ctx context.Context, c *candidate, modifiers bool) (counts disassembly, how, why string, err error) {
	if h.disasm == nil {
		return counts, "", "neither cuobjdump nor nvdisasm is installed", nil
	}
	tool := h.disasm.name()
	key := cache.Key("instructions 1", h.disasm.identity, c.hash)
	if _, ok := h.cache.Get("instructions", key, &counts); ok {
		return counts, "by " + tool, "", nil
	}
	code, unread := readOpcodes(c.out.Cubin)
	if unread == nil && !modifiers {
		if counts, ok := h.disasm.names.count(code); ok {
			return counts, "by opcodes that " + tool + " named", "", nil
		}
	}
	text, why, err := h.disassemble(ctx, c)
	if why != "" || err != nil {
		return counts, "", why, err
	}
	counts = countInstructions(text)
	if counts.total() == 0 {
		return counts, "", h.disasm.path + " shows no instructions", nil
	}
	if unread == nil {
		if err := h.disasm.names.learn(code, text); err != nil {
			h.log.Error("the disassembler is started for every binary from now on, which takes longer than compiling", "error", err)
		}
	}
	// A full disk costs the next run some time, and this one nothing.
	_ = h.cache.Put("instructions", key, nil, counts)
	return counts, "by " + tool, "", nil
}

// disassemble starts the disassembler. Why says that it cannot read the binary.
func (h *bench) disassemble(ctx context.Context, c *candidate) (text, why string, err error) {
	if err := h.acquireCore(ctx); err != nil {
		return "", "", err
	}
	defer h.compiling.Release(1)
	out, err := h.launcher.Run(ctx, process.Command{
		Path: h.disasm.path, Args: append(slices.Clone(h.disasm.args), c.path),
		Timeout: h.options.Timeout, Output: disassemblyLimit,
		// cuobjdump leaves temporary files behind when it is killed.
		Env: []string{"TMPDIR=" + h.scratch},
	})
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return "", fmt.Sprintf("%s cannot read it: %s", h.disasm.path, printable(firstLine(string(out)))), nil
	case err != nil:
		return "", "", fmt.Errorf("running %s: %w", h.disasm.path, err)
	}
	return string(out), "", nil
}
