package cuda

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/evaluator"
)

// openCubin reads the headers of a cubin, which is an ELF file but for the
// version in its header: that is CUDA's own.
func openCubin(cubin []byte) (*elf.File, error) {
	const at = 20 // of the version in the header
	if len(cubin) > at+4 {
		cubin = slices.Clone(cubin)
		binary.LittleEndian.PutUint32(cubin[at:], uint32(elf.EV_CURRENT))
	}
	f, err := elf.NewFile(bytes.NewReader(cubin))
	if err != nil {
		return nil, fmt.Errorf("a cubin: %w", err)
	}
	return f, nil
}

// codeHash hashes what the driver makes a kernel of: code, constants, the sizes of
// shared memory, the registers that the code is given, symbols, relocations and
// the attributes of kernels, but no lines or notes. The launch goes in as well,
// since genes may change nothing else.
func codeHash(cubin []byte, launch string) (string, error) {
	f, err := openCubin(cubin)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "launch %s\n", launch)
	code := false
	for _, s := range f.Sections {
		switch {
		case strings.HasPrefix(s.Name, ".text."):
			// The flags hold the count of barriers.
			fmt.Fprintf(sum, "flags %d\n", s.Flags)
			code = true
		case s.Name == ".nv.info":
			// Of the attributes, those that change how the code runs.
			data, err := s.Data()
			if err != nil {
				return "", fmt.Errorf("a cubin: section %s: %w", s.Name, err)
			}
			for a := range attributes(data) {
				if a.code == infoRegisters || a.code == infoFrameSize {
					fmt.Fprintf(sum, "attribute %d %d\n", a.code, a.value)
				}
			}
			continue
		case strings.HasPrefix(s.Name, ".nv.constant"), strings.HasPrefix(s.Name, ".nv.global"),
			strings.HasPrefix(s.Name, ".nv.shared"), strings.HasPrefix(s.Name, ".nv.local"),
			strings.HasPrefix(s.Name, ".nv.info."),
			strings.HasPrefix(s.Name, ".rel") && !strings.Contains(s.Name, "debug"):
		default:
			continue
		}
		fmt.Fprintf(sum, "%s %d\n", s.Name, s.Size)
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return "", fmt.Errorf("a cubin: section %s: %w", s.Name, err)
		}
		sum.Write(data)
	}
	if !code {
		return "", fmt.Errorf("a cubin without code")
	}
	symbols, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return "", fmt.Errorf("a cubin: %w", err)
	}
	for _, s := range symbols {
		fmt.Fprintf(sum, "%q %d %d %d %d %d\n", s.Name, s.Info, s.Other, s.Section, s.Value, s.Size)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// usesHeap says whether a cubin calls the device's memory allocator: what it
// takes there belongs to the context, and outlives the module. Every cubin for
// sm_90 has undefined symbols that are not functions.
func usesHeap(cubin []byte) (bool, error) {
	f, err := openCubin(cubin)
	if err != nil {
		return false, err
	}
	symbols, err := f.Symbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("a cubin: %w", err)
	}
	return slices.ContainsFunc(symbols, func(s elf.Symbol) bool {
		return s.Section == elf.SHN_UNDEF && (s.Name == "free" || strings.Contains(s.Name, "malloc"))
	}), nil
}

// A resources is what one kernel takes of the device, or the most of several, by ptxas
// and the cubin.
type resources struct {
	registers   int64
	stack       int64 // the largest frame of all functions
	stackOf     string
	spillStores int64
	spillLoads  int64
	shared      int64 // static
	constant    int64
	barriers    int64
	// told says that ptxas told of spills; without it they are not known.
	told bool
}

var (
	propertiesLine = regexp.MustCompile(`Function properties for (\S+)`)
	entryLine      = regexp.MustCompile(`Compiling entry function '([^']+)'`)
	frameLine      = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedLine       = regexp.MustCompile(`Used (\d+) registers`)
	sharedBytes    = regexp.MustCompile(`(\d+) bytes smem`)
	barrierCount   = regexp.MustCompile(`used (\d+) barriers`)
)

// readLog takes from ptxas's verbose text what it says of an entry, and the
// stack and spills of all functions.
func (r *resources) readLog(log, entry string) {
	function, compiling := "", ""
	for line := range strings.Lines(log) {
		if m := entryLine.FindStringSubmatch(line); m != nil {
			compiling = m[1]
		}
		if m := propertiesLine.FindStringSubmatch(line); m != nil {
			function = m[1]
		}
		if m := frameLine.FindStringSubmatch(line); m != nil {
			stack, stores, loads := number(m[1]), number(m[2]), number(m[3])
			if stack > r.stack || r.stackOf == "" {
				r.stack, r.stackOf = stack, function
			}
			r.spillStores += stores
			r.spillLoads += loads
			r.told = true
		}
		if m := usedLine.FindStringSubmatch(line); m != nil && compiling == entry {
			r.registers = number(m[1])
			if m := barrierCount.FindStringSubmatch(line); m != nil {
				r.barriers = number(m[1])
			}
			if m := sharedBytes.FindStringSubmatch(line); m != nil {
				r.shared = number(m[1])
			}
		}
	}
}

// readKernels takes what each kernel of a binary says, and the most of all of them.
func readKernels(log string, cubin []byte, names []string) (most resources, each map[string]resources, err error) {
	each = map[string]resources{}
	for i, name := range names {
		var r resources
		r.readLog(log, name)
		if err := r.readCubin(cubin, name); err != nil {
			return most, nil, err
		}
		each[name] = r
		if i == 0 {
			most = r // frames and spills are those of all functions
		}
		most.registers, most.shared = max(most.registers, r.registers), max(most.shared, r.shared)
		most.constant, most.barriers = max(most.constant, r.constant), max(most.barriers, r.barriers)
	}
	return most, each, nil
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // the pattern lets nothing else through
	return n
}

// readCubin takes what the cubin says itself: static shared memory and
// constants, and the registers and frames where ptxas was silent.
func (r *resources) readCubin(cubin []byte, entry string) error {
	f, err := openCubin(cubin)
	if err != nil {
		return err
	}
	text := f.Section(".text." + entry)
	if text == nil {
		var names []string
		for _, s := range f.Sections {
			if name, ok := strings.CutPrefix(s.Name, ".text."); ok {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return fmt.Errorf("the binary has no kernel %s: it has %s", entry, strings.Join(names, ", "))
	}
	symbol := text.Info & 0xffffff
	if r.barriers == 0 {
		r.barriers = int64(text.Flags>>20) & 0x7f
	}
	for _, s := range f.Sections {
		switch {
		case s.Name == ".nv.shared."+entry && r.shared == 0:
			r.shared = int64(s.Size)
		case strings.HasPrefix(s.Name, ".nv.constant") && (strings.HasSuffix(s.Name, "."+entry) || strings.Count(s.Name, ".") == 2):
			r.constant += int64(s.Size)
		case s.Name == ".nv.info":
			data, err := s.Data()
			if err != nil {
				return fmt.Errorf("a cubin: %s: %w", s.Name, err)
			}
			for a := range attributes(data) {
				switch {
				case a.code == infoFrameSize && a.value > r.stack:
					r.stack, r.stackOf = a.value, entry
				case a.code == infoRegisters && a.symbol == symbol && r.registers == 0:
					r.registers = a.value
				}
			}
		}
	}
	return nil
}

// Attributes in .nv.info: a format, a code, then a value of 16 bits or the size
// of what follows, which for these is the index of a symbol and a number.
const (
	infoSized     = 4
	infoFrameSize = 0x11
	infoRegisters = 0x2f
)

type attribute struct {
	code   byte
	symbol uint32
	value  int64
}

// attributes lists those of .nv.info that give a function a number.
func attributes(info []byte) iter.Seq[attribute] {
	return func(yield func(attribute) bool) {
		for len(info) >= 4 {
			size := 0
			if info[0] == infoSized {
				size = int(binary.LittleEndian.Uint16(info[2:]))
			}
			if len(info) < 4+size {
				return
			}
			if info[0] == infoSized && size == 8 {
				a := attribute{info[1], binary.LittleEndian.Uint32(info[4:]), int64(binary.LittleEndian.Uint32(info[8:]))}
				if !yield(a) {
					return
				}
			}
			info = info[4+size:]
		}
	}
}

// A disassembly counts instructions by mnemonic, modifiers included
// ("HMMA.16816.F32") unless they were counted by opcodes.
type disassembly struct {
	Mnemonics evaluator.Instructions `json:"mnemonics"`
	// Unnamed are instructions of which the disassembler shows the encoding alone.
	Unnamed int `json:"unnamed,omitempty"`
}

// instructionLine is one of cuobjdump -sass or nvdisasm: an address, perhaps a
// predicate, a mnemonic.
var instructionLine = regexp.MustCompile(`^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)`)

// countInstructions reads a disassembly.
func countInstructions(text string) disassembly {
	d := disassembly{Mnemonics: evaluator.Instructions{}}
	for line := range strings.Lines(text) {
		if m := instructionLine.FindStringSubmatch(line); m != nil {
			d.Mnemonics[m[1]]++
		}
	}
	_, encoded := readNames(text)
	for _, n := range encoded {
		d.Unnamed += n
	}
	d.Unnamed = max(d.Unnamed-d.Mnemonics.Total(), 0)
	return d
}

// code is the instructions without padding.
func (d disassembly) code() evaluator.Instructions {
	c := maps.Clone(d.Mnemonics)
	delete(c, "NOP")
	return c
}

// family counts the instructions whose mnemonic, without modifiers, is one of
// the names.
func (d disassembly) family(names ...string) (n int) {
	for m, count := range d.Mnemonics {
		stem, _, _ := strings.Cut(m, ".")
		if slices.Contains(names, stem) {
			n += count
		}
	}
	return n
}

// occupancy is the share of a multiprocessor's threads that fit at once, and
// what bounds it: threads, registers, shared memory or blocks.
func occupancy(threads, registers, shared, threadsSM, registersSM, sharedSM int64) (share float64, bound string) {
	if threads <= 0 || threadsSM <= 0 {
		return 0, ""
	}
	const (
		warp = 32
		// Registers are given to warps in units of 256, shared memory to blocks
		// in units of 128 bytes, of which the system takes 1 KB for itself.
		registerUnit = 256
		sharedUnit   = 128
		sharedSystem = 1 << 10
		blocksSM     = 32
	)
	warps := (threads + warp - 1) / warp
	blocks, bound := threadsSM/(warps*warp), "threads"
	if registers > 0 && registersSM > 0 {
		perWarp := (registers*warp + registerUnit - 1) / registerUnit * registerUnit
		if n := registersSM / perWarp / warps; n < blocks {
			blocks, bound = n, "registers"
		}
	}
	if sharedSM > 0 {
		perBlock := (shared+sharedUnit-1)/sharedUnit*sharedUnit + sharedSystem
		if n := sharedSM / perBlock; n < blocks {
			blocks, bound = n, "shared memory"
		}
	}
	if blocks > blocksSM {
		blocks, bound = blocksSM, "blocks"
	}
	return float64(blocks*warps*warp) / float64(threadsSM), bound
}
