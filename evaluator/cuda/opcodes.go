package cuda

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/evotune/evotune/evaluator"
)

// An opcode is the low bits of an instruction: the operation and the form of
// its operands. Predicates, registers and nearly all modifiers are in others.
type opcode uint16

const (
	opcodeMask = 1<<12 - 1
	// instructionSize holds since sm_70. Shorter instructions would not agree
	// with their listing, from which all is learned.
	instructionSize = 16
)

// A machineCode counts a cubin's instructions by opcode.
type machineCode struct {
	arch    uint32 // the flags of the cubin's header, of which the architecture is a part
	opcodes map[opcode]int
}

// readOpcodes reads all code of a cubin, as disassemblers do: the entry's, other
// functions', and the padding.
func readOpcodes(cubin []byte) (machineCode, error) {
	f, err := openCubin(cubin)
	if err != nil {
		return machineCode{}, err
	}
	const at = 48 // of the flags in the header, which has been read up to its end
	code := machineCode{binary.LittleEndian.Uint32(cubin[at:]), map[opcode]int{}}
	for _, s := range f.Sections {
		if !strings.HasPrefix(s.Name, ".text.") || s.Type != elf.SHT_PROGBITS {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return machineCode{}, fmt.Errorf("a cubin: section %s: %w", s.Name, err)
		}
		if len(data)%instructionSize != 0 {
			return machineCode{}, fmt.Errorf("a cubin: section %s has %d bytes, which is not a multiple of an instruction's %d", s.Name, len(data), instructionSize)
		}
		for ; len(data) > 0; data = data[instructionSize:] {
			code.opcodes[opcode(binary.LittleEndian.Uint16(data)&opcodeMask)]++
		}
	}
	return code, nil
}

// encoding is a word of an instruction in a listing: the first is behind the
// mnemonic, the second on a line of its own.
var encoding = regexp.MustCompile(`/\* 0x([0-9a-f]{16}) \*/\s*$`)

const (
	// ambiguous is the name of an opcode that has several.
	ambiguous = ""
	// unnamed is that of one of which listings show the encoding alone, as those
	// of CUDA 11.8 do of VIMNMX. It is not counted, as it is not in a listing.
	unnamed = "?"
)

// readNames reads a listing: the names of opcodes, without modifiers, and how
// often each occurs.
func readNames(listing string) (names map[opcode]string, counts map[opcode]int) {
	names, counts = map[opcode]string{}, map[opcode]int{}
	second := false
	for line := range strings.Lines(listing) {
		e := encoding.FindStringSubmatch(line)
		if e == nil {
			continue
		}
		name := unnamed
		if m := instructionLine.FindStringSubmatch(line); m != nil {
			name, _, _ = strings.Cut(m[1], ".")
		} else if second {
			second = false
			continue
		}
		second = true
		word, err := strconv.ParseUint(e[1], 16, 64)
		if err != nil {
			continue // the pattern lets nothing else through
		}
		op := opcode(word & opcodeMask)
		if known, ok := names[op]; ok && known != name {
			name = ambiguous
		}
		names[op] = name
		counts[op]++
	}
	return names, counts
}

// checkEvery is how many cubins are counted by opcodes for one that the
// disassembler counts too.
const checkEvery = 64

// A nameTable counts the instructions of cubins by names that a disassembler
// has given to their opcodes in cubins before. Starting a disassembler takes
// half a second, which is twice what compiling takes.
type nameTable struct {
	mu     sync.Mutex
	names  map[uint32]map[opcode]string // by architecture
	served int
	// distrusted says that the disassembler has contradicted what was learned.
	distrusted bool
}

// count counts mnemonics without modifiers. It declines cubins with an opcode
// of which the name is not known for certain, and from time to time another, in
// order that what was learned be checked.
func (t *nameTable) count(code machineCode) (d disassembly, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.distrusted || !t.knows(code) {
		return d, false
	}
	if t.served++; t.served%checkEvery == 0 {
		return d, false
	}
	d.Mnemonics = evaluator.Instructions{}
	for op, n := range code.opcodes {
		if name := t.names[code.arch][op]; name != unnamed {
			d.Mnemonics[name] += n
		} else {
			d.Unnamed += n
		}
	}
	return d, true
}

// known says whether all names are, or never will be.
func (t *nameTable) known(code machineCode) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.distrusted || t.knows(code)
}

func (t *nameTable) knows(code machineCode) bool {
	names := t.names[code.arch]
	for op := range code.opcodes {
		if names[op] == ambiguous { // or not there
			return false
		}
	}
	return true
}

// learn takes the names of opcodes from a cubin's listing. Where nothing in the
// cubin is new, the listing must agree with what was learned. An error says that
// it did not, or that it is not one of the cubin's code, and that from now on
// nothing is counted by opcodes.
func (t *nameTable) learn(code machineCode, listing string) error {
	names, listed := readNames(listing)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.distrusted {
		return nil
	}
	distrust := func(format string, args ...any) error {
		t.distrusted, t.names = true, nil
		return fmt.Errorf(format, args...)
	}
	if !maps.Equal(listed, code.opcodes) {
		return distrust("the disassembler's listing is not one of the cubin's code: it has %d opcodes, and the cubin %d, or they occur at other numbers", len(listed), len(code.opcodes))
	}
	known := t.knows(code)
	if t.names == nil {
		t.names = map[uint32]map[opcode]string{}
	}
	table := t.names[code.arch]
	if table == nil {
		table = map[opcode]string{}
		t.names[code.arch] = table
	}
	for op, name := range names {
		switch old, ok := table[op]; {
		case !ok:
			table[op] = name
		case old == name:
		case known:
			return distrust("the disassembler names the opcode %#x %q, which was %q in all cubins before", op, name, old)
		default:
			table[op] = ambiguous
		}
	}
	return nil
}

// modifiersMatter reports whether a pattern may tell apart two mnemonics that
// differ in their modifiers. It cannot when each match begins where the mnemonic
// does and nothing in it matches a dot or looks for the end: what it matches
// then lies before the first modifier.
func modifiersMatter(re *regexp.Regexp) bool {
	s, err := syntax.Parse(re.String(), syntax.Perl)
	return err != nil || !fromStart(s) || leavesStem(s)
}

func fromStart(s *syntax.Regexp) bool {
	switch s.Op {
	case syntax.OpBeginText:
		return true
	case syntax.OpCapture, syntax.OpConcat:
		return len(s.Sub) > 0 && fromStart(s.Sub[0])
	case syntax.OpAlternate:
		return !slices.ContainsFunc(s.Sub, func(s *syntax.Regexp) bool { return !fromStart(s) })
	}
	return false
}

func leavesStem(s *syntax.Regexp) bool {
	switch s.Op {
	case syntax.OpLiteral:
		return slices.Contains(s.Rune, '.')
	case syntax.OpCharClass:
		for i := 0; i < len(s.Rune); i += 2 {
			if s.Rune[i] <= '.' && '.' <= s.Rune[i+1] {
				return true
			}
		}
		return false
	case syntax.OpBeginText, syntax.OpEmptyMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return false
	case syntax.OpCapture, syntax.OpConcat, syntax.OpAlternate, syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		return slices.ContainsFunc(s.Sub, leavesStem)
	}
	return true
}
