package cpu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	programs "github.com/evotune/evotune/evaluator/internal/process"
)

// codeHash hashes everything of a shared object that the loader uses: the segments
// and all sections in memory, with code, data, symbols, relocations and what it
// depends on. Debugging information and the linker's hash of it are left out.
// Objects with equal hashes do the same work. The declared threads go in as
// well, since they decide how the object is judged.
func codeHash(object []byte, threads int) (string, error) {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "threads %d\n", max(threads, 1))
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE {
			fmt.Fprintf(sum, "%d %d %d %d %d\n", p.Type, p.Flags, p.Vaddr, p.Memsz, p.Align)
		}
	}
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Name == ".note.gnu.build-id" {
			continue
		}
		fmt.Fprintf(sum, "%s %d %d %d %d\n", s.Name, s.Type, s.Flags, s.Addr, s.Size)
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

// needsExecutableStack is why an object is refused that could not be loaded: no memory of a candidate
// is both writable and executable.
const needsExecutableStack = "it needs an executable stack, which candidates do not have, as for the address of a nested function: make that a static function outside, and pass it what it uses"

// executableStack says whether the loader would make the stack executable for an object.
func executableStack(object []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return false // reading its code says so
	}
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_GNU_STACK && p.Flags&elf.PF_X != 0 })
}

// Inspect implements [evaluator.Lab]: what the compiler and objdump tell of the
// binary.
func (h *lab) Inspect(ctx context.Context, a evaluator.Artifact, _ []*regexp.Regexp) (seen evaluator.Inspection, err error) {
	c, err := labs.Handle[*candidate](a)
	if err != nil {
		return seen, err
	}
	ctx, done, err := h.work(ctx, 1)
	if err != nil {
		return seen, err
	}
	defer done()
	frame := evaluator.Measure{Check: "stack frame", Value: float64(c.clean.Frame), Unit: "bytes", Bound: evaluator.MaxStack}
	if c.clean.FrameOf != "" {
		frame.Detail = c.clean.FrameOf + " (" + c.clean.FrameKind + ")"
	} else {
		frame.NotRead = "this compiler does not tell"
	}
	seen.Measures = []evaluator.Measure{frame}
	if h.objdump == "" {
		seen.NotCounted = "objdump is not installed"
		return seen, nil
	}
	counts, err := h.disassemble(ctx, c.clean.Object)
	if err != nil {
		return seen, err
	}
	seen.Measures, seen.Instructions = append(seen.Measures, counts.measures()...), counts.Instructions
	return seen, nil
}

// instructionCounts is a static profile of a binary.
type instructionCounts struct {
	evaluator.Instructions
	widths map[string]int // "zmm", "ymm", "xmm": instructions by widest register
	fused  int            // multiply-adds on floating point
}

// disassemblyLimit bounds what is read of objdump's output.
const disassemblyLimit = 64 << 20

func (h *lab) disassemble(ctx context.Context, object []byte) (*instructionCounts, error) {
	f, err := os.CreateTemp(h.Scratch, "inspect-")
	if err != nil {
		return nil, err
	}
	defer remove(f.Name())
	_, err = f.Write(object)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("writing a binary for objdump: %w", err)
	}
	c := programs.Command{
		Path: h.objdump, Args: []string{"--disassemble", "--no-show-raw-insn", "--section=.text", f.Name()},
		Timeout: h.options.Timeout, Memory: compilerMemory, Output: disassemblyLimit,
	}
	if h.tool.jail != nil {
		c.Jail = h.tool.jail.With([]string{h.objdump, f.Name()}, nil)
	}
	text, err := h.Launcher.Run(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("running objdump: %w", err)
	}
	return countInstructions(string(text)), nil
}

// countInstructions reads objdump's lines: "  addr:\tmnemonic operands".
func countInstructions(text string) *instructionCounts {
	c := &instructionCounts{Instructions: evaluator.Instructions{}, widths: map[string]int{}}
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
		c.Instructions[m]++
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

// measures tells how many instructions there are, with the most frequent ones.
func (c *instructionCounts) measures() []evaluator.Measure {
	list := []evaluator.Measure{{Check: "instructions", Value: float64(c.Total()), Detail: c.Top(12)}}
	for _, w := range []string{"zmm", "ymm", "xmm"} {
		if n := c.widths[w]; n > 0 {
			list = append(list, evaluator.Measure{Check: w + " instructions", Value: float64(n)})
		}
	}
	if c.fused > 0 {
		list = append(list, evaluator.Measure{Check: "fused multiply-adds", Value: float64(c.fused)})
	}
	return list
}
