package cuda

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// listing is what cuobjdump prints of instructions that are given as an opcode
// and a mnemonic, or none where it prints the encoding alone.
func listing(instructions ...any) (text string, code machineCode) {
	code = machineCode{90, map[opcode]int{}}
	var s strings.Builder
	s.WriteString("\tcode for sm_90\n\t\tFunction : k\n")
	for i := 0; i < len(instructions); i += 2 {
		op := opcode(instructions[i].(int))
		if instructions[i+1] != "" {
			fmt.Fprintf(&s, "        /*%04x*/              @!P0 %v R1, c[0x0][0x28] ;", 8*i, instructions[i+1])
		}
		fmt.Fprintf(&s, "          /* 0x00000a00ff01%04x */\n", 0x9000|op)
		fmt.Fprintf(&s, "                                                                    /* 0x000fe40000000f00 */\n")
		code.opcodes[op]++
	}
	return s.String(), code
}

func learn(t *testing.T, n *nameTable, instructions ...any) machineCode {
	t.Helper()
	text, code := listing(instructions...)
	if err := n.learn(code, text); err != nil {
		t.Fatal(err)
	}
	return code
}

func TestNameTable(t *testing.T) {
	var n nameTable
	_, code := listing(0x23c, "HMMA", 0xb82, "LDC", 0x23c, "HMMA")
	if d, ok := n.count(code); ok {
		t.Errorf("an empty table counts %v", d)
	}
	learn(t, &n, 0x23c, "HMMA.16816.F32", 0xb82, "LDC.64")
	if d, ok := n.count(code); !ok || !maps.Equal(d.Mnemonics, map[string]int{"HMMA": 2, "LDC": 1}) {
		t.Errorf("%v %v", d, ok)
	}
	other := code
	other.arch = 80
	if d, ok := n.count(other); ok {
		t.Errorf("another architecture's: %v", d)
	}
	_, unknown := listing(0x23c, "HMMA", 0x918, "NOP")
	if d, ok := n.count(unknown); ok {
		t.Errorf("with an opcode that is not known: %v", d)
	}
	learn(t, &n, 0x23c, "HMMA.1688.F16", 0x918, "NOP")
	if d, ok := n.count(unknown); !ok || d.code().Total() != 1 {
		t.Errorf("%v %v", d, ok)
	}
}

// TestUnnamedOpcodes: what a listing shows without a name, it does not count.
func TestUnnamedOpcodes(t *testing.T) {
	var n nameTable
	code := learn(t, &n, 0xc48, "", 0x986, "STG.E", 0x248, "", 0x248, "", 0x918, "NOP")
	if d, ok := n.count(code); !ok || d.Unnamed != 3 || !maps.Equal(d.Mnemonics, map[string]int{"STG": 1, "NOP": 1}) {
		t.Errorf("%v %v", d, ok)
	}
	learn(t, &n, 0xc48, "VIMNMX", 0x947, "BRA")
	if d, ok := n.count(code); ok {
		t.Errorf("named elsewhere, and counted as %v", d)
	}
}

// TestAmbiguousOpcodes: an opcode with two names is nobody's, whether they meet
// in one listing or in two.
func TestAmbiguousOpcodes(t *testing.T) {
	for name, both := range map[string][][]any{
		"in one listing":  {{0x111, "FADD", 0x222, "LDG", 0x111, "FMUL"}},
		"in two":          {{0x111, "FADD", 0x222, "LDG"}, {0x111, "FMUL", 0x333, "STG"}},
		"and once more":   {{0x111, "FADD", 0x222, "LDG"}, {0x111, "FMUL", 0x333, "STG"}, {0x111, "FADD"}},
		"in two of three": {{0x111, "FADD", 0x111, "FMUL"}, {0x111, "FADD", 0x222, "LDG"}},
	} {
		t.Run(name, func(t *testing.T) {
			var n nameTable
			for _, l := range both {
				learn(t, &n, l...)
			}
			_, code := listing(0x111, "FADD", 0x222, "LDG")
			if d, ok := n.count(code); ok {
				t.Errorf("counted as %v", d)
			}
			_, code = listing(0x222, "LDG")
			if _, ok := n.count(code); !ok {
				t.Error("a cubin without it is not counted")
			}
		})
	}
}

// TestDistrust: who once was wrong counts no more.
func TestDistrust(t *testing.T) {
	text, code := listing(0x111, "FADD", 0x222, "LDG")
	renamed, _ := listing(0x111, "FMUL", 0x222, "LDG")
	longer, _ := listing(0x111, "FADD", 0x222, "LDG", 0x222, "LDG")
	for name, wrong := range map[string]string{"renamed": renamed, "longer": longer, "empty": "", "without encodings": strings.ReplaceAll(text, "0x00000a00", "")} {
		t.Run(name, func(t *testing.T) {
			var n nameTable
			if err := n.learn(code, text); err != nil {
				t.Fatal(err)
			}
			if _, ok := n.count(code); !ok {
				t.Fatal("what was learned is not counted")
			}
			if err := n.learn(code, wrong); err == nil {
				t.Error("the contradiction was not seen")
			}
			if err := n.learn(code, text); err != nil {
				t.Errorf("it is told twice: %v", err)
			}
			if d, ok := n.count(code); ok {
				t.Errorf("still counted, as %v", d)
			}
		})
	}
}

// TestNameTableIsChecked: now and then the disassembler is asked although all is
// known.
func TestNameTableIsChecked(t *testing.T) {
	var n nameTable
	code := learn(t, &n, 0x111, "FADD")
	asked := 0
	for range 4 * checkEvery {
		if _, ok := n.count(code); !ok {
			asked++
		}
	}
	if asked != 4 {
		t.Errorf("asked %d times in %d", asked, 4*checkEvery)
	}
}

// TestNameTableAtOnce: many count and learn, and nobody counts wrongly.
func TestNameTableAtOnce(t *testing.T) {
	var n nameTable
	learn(t, &n, 0xfff, "TWO0", 0xfff, "TWO1")
	var counted atomic.Int64
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			for i := range 400 {
				a, b := 1+(g+i)%40, 1+(g*7+i*3)%40
				text, code := listing(a, fmt.Sprintf("OP%d.X", a), b, fmt.Sprintf("OP%d.Y", b), 0xfff, fmt.Sprintf("TWO%d", i%2))
				if d, ok := n.count(code); ok {
					t.Errorf("what has two names is counted as %v", d)
				}
				if err := n.learn(code, text); err != nil {
					t.Error(err)
				}
				_, code = listing(a, "", b, "")
				d, ok := n.count(code)
				if !ok {
					continue
				}
				counted.Add(1)
				if d.code().Total() != 2 || d.family(fmt.Sprintf("OP%d", a), fmt.Sprintf("OP%d", b)) != 2 {
					t.Errorf("opcodes %d and %d are counted as %v", a, b, d)
				}
			}
		})
	}
	wait.Wait()
	if n := counted.Load(); n < 8*400*9/10 {
		t.Errorf("%d of %d were counted", n, 8*400)
	}
}

func TestModifiersMatter(t *testing.T) {
	for pattern, want := range map[string]bool{
		"^HMMA": false, "^LDG": false, `^LDS\b`: false, "^(HMMA|HGMMA)": false, "^HMMA|^IMMA": false, "^H?MMA[0-9]*": false, `^\w+MMA`: false,
		`^HMMA\.16816`: true, "^HMMA.16816": true, "^LDS$": true, "HMMA": true, "F16": true, "^HMMA|F16": true, "^[^X]": true,
		`^MUFU(\.EX2)?`: true, "^MUFU.*EX2": true, `\bF16`: true, "": true, `^LDG(\b|$)`: true,
	} {
		if got := modifiersMatter(regexp.MustCompile(pattern)); got != want {
			t.Errorf("%q: %v", pattern, got)
		}
	}
}

// FuzzModifiersMatter holds the judgement on patterns against what they match.
func FuzzModifiersMatter(f *testing.F) {
	for _, p := range []string{"^HMMA", `^LDS\b`, "^LDS$", "^A|^B", `^(a|b)*\B`, `^\w+$`, "^[A-Z]+", `^HMMA\.16816`, "(?i)^hmma", `^LD(G|S)\b`} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		re, err := regexp.Compile(pattern)
		if err != nil || modifiersMatter(re) {
			return
		}
		for _, m := range []string{"HMMA.16816.F32", "LDS.U.128", "LDG.E.128.CONSTANT", "A.B", "B.A", "STG.E"} {
			base, _, _ := strings.Cut(m, ".")
			if re.MatchString(base) != re.MatchString(m) {
				t.Errorf("%q tells %s from %s", pattern, base, m)
			}
		}
	})
}
