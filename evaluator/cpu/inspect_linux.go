package cpu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
)

// codeHash hashes what a shared object brings into memory: code and data, but
// no names, notes or debugging information. Objects with equal hashes do the
// same work. The declared threads go in as well, since they decide how the
// object is judged.
func codeHash(object []byte, threads int) (string, error) {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "threads %d\n", max(threads, 1))
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Type == elf.SHT_NOTE {
			continue
		}
		switch s.Type {
		case elf.SHT_PROGBITS, elf.SHT_INIT_ARRAY, elf.SHT_FINI_ARRAY, elf.SHT_NOBITS,
			elf.SHT_RELA: //nolint:misspell // relocations with addends
		default:
			continue // names and tables of the linker
		}
		fmt.Fprintf(sum, "%s %d %d\n", s.Name, s.Addr, s.Size)
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return "", err
		}
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Inspect implements [evaluator.Bench]: instructions from the disassembly, the
// stack frame from the compiler, and what the definition requires of both.
func (h *bench) Inspect(ctx context.Context, bin evaluator.Binary) (evaluator.Outcome, error) {
	ctx, leave, err := h.enter(ctx)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	defer leave()
	c, err := handle(bin)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	release, err := h.share(ctx)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	defer release()
	return h.inspect(ctx, c)
}

func (h *bench) inspect(ctx context.Context, c *candidate) (evaluator.Outcome, error) {
	var o evaluator.Outcome
	reject := func(check, reason string) {
		o.Evidence = append(o.Evidence, evaluator.Evidence{Check: check, Outcome: evaluator.Failed, Detail: reason})
		if o.Verdict == "" {
			o.Verdict, o.Reason = evaluator.Inspect, check+": "+reason
		}
	}
	want := c.src.Implementation.Binary

	frame := evaluator.Evidence{Check: "stack frame", Outcome: evaluator.Passed, Value: float64(c.clean.Frame), Unit: "bytes"}
	if c.clean.FrameOf != "" {
		frame.Detail = c.clean.FrameOf + " (" + c.clean.FrameKind + ")"
	} else {
		frame.Outcome, frame.Detail = evaluator.NotRun, "this compiler does not tell"
	}
	if want.MaxStack != nil {
		frame.Limit = float64(*want.MaxStack)
		if frame.Outcome == evaluator.Passed && c.clean.Frame > *want.MaxStack {
			reject("stack frame", fmt.Sprintf("%s needs %d bytes of stack, allowed are %d", c.clean.FrameOf, c.clean.Frame, *want.MaxStack))
		}
	}
	o.Evidence = append(o.Evidence, frame)

	if h.objdump == "" {
		missing := "objdump is not installed"
		o.Evidence = append(o.Evidence, evaluator.Evidence{Check: "instructions", Outcome: evaluator.NotRun, Detail: missing})
		for _, re := range slices.Concat(c.src.Require, want.Forbid) {
			o.Evidence = append(o.Evidence, evaluator.Evidence{Check: "mnemonic " + re.String(), Outcome: evaluator.NotRun, Detail: missing})
		}
		return o, nil
	}
	counts, err := h.disassemble(ctx, c.clean.Object)
	if err != nil {
		return o, err
	}
	o.Evidence = append(o.Evidence, counts.evidence()...)
	for _, re := range c.src.Require {
		check := "requires " + re.String()
		if n := counts.matching(re); n == 0 {
			reject(check, "no instruction of the binary matches "+re.String())
		} else {
			o.Evidence = append(o.Evidence, evaluator.Evidence{Check: check, Outcome: evaluator.Passed, Value: float64(n), Unit: "instructions"})
		}
	}
	for _, re := range want.Forbid {
		check := "forbids " + re.String()
		if n := counts.matching(re); n > 0 {
			reject(check, fmt.Sprintf("%d instructions of the binary match %s (%s)", n, re, counts.example(re)))
		} else {
			o.Evidence = append(o.Evidence, evaluator.Evidence{Check: check, Outcome: evaluator.Passed})
		}
	}
	return o, nil
}

// instructionCounts is a static profile of a binary.
type instructionCounts struct {
	total     int
	mnemonics map[string]int
	widths    map[string]int // "zmm", "ymm", "xmm": instructions by widest register
	fused     int            // multiply-adds on floating point
}

// disassemblyLimit bounds what is read of objdump's output.
const disassemblyLimit = 64 << 20

func (h *bench) disassemble(ctx context.Context, object []byte) (*instructionCounts, error) {
	f, err := os.CreateTemp(h.scratch, "inspect-")
	if err != nil {
		return nil, err
	}
	defer remove(f.Name())
	_, err = f.Write(object)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("writing a binary for objdump: %w", err)
	}
	text, err := runTool(ctx, h.launcher, h.options.Timeout, h.scratch, disassemblyLimit, h.objdump,
		"--disassemble", "--no-show-raw-insn", "--section=.text", f.Name())
	if err != nil {
		return nil, fmt.Errorf("running objdump: %w", err)
	}
	return countInstructions(string(text)), nil
}

// countInstructions reads objdump's lines: "  addr:\tmnemonic operands".
func countInstructions(text string) *instructionCounts {
	c := &instructionCounts{mnemonics: map[string]int{}, widths: map[string]int{}}
	for line := range strings.Lines(text) {
		_, instruction, ok := strings.Cut(line, ":\t")
		if !ok {
			continue
		}
		fields := strings.Fields(instruction)
		for len(fields) > 1 && prefixes[fields[0]] {
			fields = fields[1:]
		}
		if len(fields) == 0 {
			continue
		}
		m := fields[0]
		c.total++
		c.mnemonics[m]++
		if strings.HasPrefix(m, "vfm") || strings.HasPrefix(m, "vfnm") || m == "fmla" || m == "fmadd" || m == "fmls" {
			c.fused++
		}
		for _, w := range []string{"%zmm", "%ymm", "%xmm"} {
			if strings.Contains(instruction, w) {
				c.widths[w[1:]]++
				break
			}
		}
	}
	return c
}

var prefixes = map[string]bool{
	"lock": true, "rep": true, "repz": true, "repnz": true, "bnd": true, "notrack": true, "data16": true, "cs": true, "ds": true,
}

func (c *instructionCounts) matching(re *regexp.Regexp) int {
	n := 0
	for m, count := range c.mnemonics {
		if re.MatchString(m) {
			n += count
		}
	}
	return n
}

func (c *instructionCounts) example(re *regexp.Regexp) string {
	for _, m := range slices.Sorted(maps.Keys(c.mnemonics)) {
		if re.MatchString(m) {
			return m
		}
	}
	return ""
}

func (c *instructionCounts) evidence() []evaluator.Evidence {
	type count struct {
		m string
		n int
	}
	var top []count
	for m, n := range c.mnemonics {
		top = append(top, count{m, n})
	}
	slices.SortFunc(top, func(a, b count) int {
		if a.n != b.n {
			return b.n - a.n
		}
		return strings.Compare(a.m, b.m)
	})
	var words []string
	for _, t := range top[:min(len(top), 12)] {
		words = append(words, fmt.Sprintf("%s %d", t.m, t.n))
	}
	e := []evaluator.Evidence{{Check: "instructions", Outcome: evaluator.Passed, Value: float64(c.total), Detail: strings.Join(words, ", ")}}
	for _, w := range []string{"zmm", "ymm", "xmm"} {
		if n := c.widths[w]; n > 0 {
			e = append(e, evaluator.Evidence{Check: w + " instructions", Outcome: evaluator.Passed, Value: float64(n)})
		}
	}
	if c.fused > 0 {
		e = append(e, evaluator.Evidence{Check: "fused multiply-adds", Outcome: evaluator.Passed, Value: float64(c.fused)})
	}
	return e
}
