//go:build linux

package cpu

import (
	"maps"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/kernels"
)

func TestFirstError(t *testing.T) {
	for log, want := range map[string]string{
		"a.c: In function 'f':\na.c:3:5: error: no\nmore":                            "a.c:3:5: error: no",
		"/usr/bin/ld: g.c:(.text+0x1): undefined reference to `f'\ncollect2: error:": "/usr/bin/ld: g.c:(.text+0x1): undefined reference to `f'",
		"\n\nsomething\n": "something",
		"":                "the compiler failed and did not say why",
	} {
		if got := labs.FirstError(log, errorMarks...); got != want {
			t.Errorf("%q gives %q", log, got)
		}
	}
}

func TestFindings(t *testing.T) {
	for _, c := range []struct{ flavour, log, name, line string }{
		{asanName, "==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x7 bp 0x7\nREAD", asanName, "heap-buffer-overflow"},
		{asanName, "k.c:9:25: runtime error: load of misaligned address", "ubsan", "k.c:9:25: runtime error: load of misaligned address"},
		{tsanName, "WARNING: ThreadSanitizer: data race (pid=12)\n", tsanName, "data race"},
		{memcheckName, "==7== Conditional jump or move depends on uninitialised value(s)\n==7==    at 0x1", memcheckName, "Conditional jump or move depends on uninitialised value(s)"},
		{asanName, "nothing of the kind", asanName, ""},
		{asanName, "opencl: runtime error: no device, using the processor", asanName, ""}, // what an honest kernel prints
		{asanName, "<unknown>: runtime error: division by zero", "ubsan", "<unknown>: runtime error: division by zero"},
		{tsanName, "ERROR: AddressSanitizer: not this tool's", tsanName, ""},
	} {
		if name, line := finding(c.flavour, c.log); name != c.name || line != c.line {
			t.Errorf("%s: %q, %q", c.log, name, line)
		}
	}
}

func TestCountInstructions(t *testing.T) {
	c := countInstructions("kernel.so:     file format elf64-x86-64\n\n0000000000001040 <f>:\n" +
		"    1040:\tvfmadd231ps %zmm0,%zmm1,%zmm2\n    1046:\trep stos %al,%es:(%rdi)\n" +
		"    1048:\tvmovups (%rdi),%ymm3\n    104c:\tlock xadd %eax,(%rdi)\n    1050:\tret\n")
	if c.Total() != 5 || c.fused != 1 || c.widths["zmm"] != 1 || c.widths["ymm"] != 1 || c.Instructions["stos"] != 1 || c.Instructions["xadd"] != 1 {
		t.Errorf("%+v", c)
	}
	if n, example := c.Matching(regexp.MustCompile("^vfm")); n != 1 || example != "vfmadd231ps" {
		t.Errorf("%d %q", n, example)
	}
}

func TestPlainMachine(t *testing.T) {
	got := sanitizableFlags([]string{"-O3", "-flto", "-march=native", "-fomit-frame-pointer", "-s", "-DX"})
	if strings.Join(got, " ") != "-O3 -march=native -DX" {
		t.Errorf("%q", got)
	}
}

// TestQuickCode: what a definition asks of code that is timed costs no time in the sanitizers' builds of gcc.
func TestQuickCode(t *testing.T) {
	s := sharedLab(t, "scale", asanName, tsanName, guardsName)
	if s.lab.tool.clang {
		t.Skip("clang has other flags")
	}
	for _, f := range s.lab.flavours {
		args := f.compilation(&kernels.Rendered{Flags: []string{"-O3", "-funroll-loops"}}, "").args
		asked, last := slices.Index(args, "-funroll-loops"), slices.Index(args, "-fno-unroll-loops")
		if f.guards == (last >= 0) || !f.guards && last < asked {
			t.Errorf("%s is compiled with %q", f.name, args)
		}
	}
}

// Nobody can tell where an input that is drawn begins before its turn says so, by others of the same turn neither.
func TestWindow(t *testing.T) {
	l := newLayout([]placedBuffer{{bytes: 12, windows: windows}, {bytes: 5}, {bytes: 12, windows: windows}})
	a, err := newArena(l.stride)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	var came [windows]int
	pairs := map[[2]int]bool{}
	const turns = 1 << windowBits
	for drawn := range uint32(turns) {
		if turn := turnOf(1<<setBits-1, drawn); turn == math.MaxUint32 || turn>>setBits != drawn {
			t.Fatalf("turn %x of %x", turn, drawn)
		}
		if n := l.buffers[1].window(1, drawn); n != 0 {
			t.Fatalf("a buffer of one place begins at %d", n)
		}
		if n := l.buffers[2].window(int(drawn%maxBuffers), 0); n != 0 {
			t.Fatalf("where nothing was drawn it begins at %d", n)
		}
		first, other := l.buffers[0].window(0, drawn), l.buffers[2].window(2, drawn)
		if first%64 != 0 || first < 0 || len(a.drawn(&l, span{}, 0, 0)[first:]) < 12 {
			t.Fatalf("it begins at %d", first)
		}
		came[first/windowStep]++
		pairs[[2]int{first, other}] = true
	}
	for at, n := range came {
		if n < turns/windows*9/10 || n > turns/windows*11/10 {
			t.Errorf("window %d came %d times of %d", at, n, turns)
		}
	}
	if len(pairs) < windows*windows/2 {
		t.Errorf("two inputs begin at %d pairs of places", len(pairs))
	}
	if most := a.drawn(&l, span{}, 0, 2); len(most) > 12+guardBytes {
		t.Errorf("%d bytes are drawn", len(most))
	}
}

// A process learns the sets of several launches at once only where these are shorter than what reading a turn takes.
func TestStep(t *testing.T) {
	for _, c := range []struct{ tried, fastest, want float64 }{
		{0, 0, 1}, {2000, 0, 1}, {300, 0, 1}, {2000, 250, 1}, {100, 0, 3}, {2000, 10, 30},
	} {
		if got := (&contender{tried: c.tried, fastest: c.fastest}).step(); got != int(c.want) {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Turns that were taken together come faster than launches ever do: than the fastest reading of all, not of those so far.
func TestHurried(t *testing.T) {
	for _, c := range []struct {
		rushed, fastest float64
		want            bool
	}{
		{0, 1000, false}, {1000, 1000, false}, {501, 1000, false}, {499, 1000, true}, {499, 900, false}, {499, 0, false},
	} {
		if got := (&contender{rushed: c.rushed, fastest: c.fastest}).hurried(); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// Reading turns is in no launch's time: what the baseline usually takes for it counts, for both sides.
func TestTurnCost(t *testing.T) {
	p := newPlacement(span{}, 4)
	if p.turnCost() != 0 {
		t.Error(p.turnCost())
	}
	for _, ns := range []float64{10, 20, 4000, 900, 300, 300, 310, 300, 2e6, 3000, 290} {
		p.took(ns)
	}
	if p.turnCost() != 300 || len(p.turns) != 9 {
		t.Error(p.turns)
	}
	for _, c := range []struct{ passed, claimed, want float64 }{
		{2000, 1000, 1700}, // usually read, or less was claimed than it took
		{1200, 1000, 1000}, // read quicker than usual
		{200, 10, 10},
		{2000, 2500, 1700}, // waited for a core in a launch
	} {
		if got := withoutTurns(c.passed, c.claimed, 300); got != c.want {
			t.Errorf("%+v: %g", c, got)
		}
	}
}

func TestArena(t *testing.T) {
	l := newLayout([]placedBuffer{
		{name: "a", dtype: f32, elements: 3, bytes: 12},
		{name: "b", dtype: i8, elements: 5, bytes: 5, role: roleOut},
	})
	a, err := newArena(l.stride.times(3))
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for s := range 3 {
		a.setGuards(&l, span{}, s)
	}
	for b := range l.buffers {
		if l.buffers[b].offset%64 != 0 {
			t.Errorf("buffer %d begins at %d", b, l.buffers[b].offset)
		}
		for s := range 3 {
			mem := a.buffer(&l, span{}, s, b)
			if len(mem) != l.buffers[b].bytes {
				t.Errorf("buffer %d has %d bytes", b, len(mem))
			}
			for i := range mem {
				mem[i] = 0xee
			}
		}
	}
	for s := range 3 {
		if reason := a.checkGuards(&l, span{}, s); reason != "" {
			t.Errorf("set %d: %s", s, reason)
		}
	}
	at := l.stride[writable] + l.buffers[1].offset
	for _, c := range []struct {
		byte int
		want string
	}{
		{at + 5, "guard: wrote byte 0 behind the end of b"},
		{at + 5 + guardBytes - 1, "guard: wrote byte 4095 behind the end of b"},
		{at - 1, "guard: wrote byte 1 before the start of b"},
	} {
		a.mem[writable][c.byte] ^= 0x10
		if reason := a.checkGuards(&l, span{}, 1); reason != c.want {
			t.Errorf("%q, want %q", reason, c.want)
		}
		if reason := a.checkGuards(&l, span{}, 0); reason != "" {
			t.Errorf("the set beside: %s", reason)
		}
		a.mem[writable][c.byte] ^= 0x10
	}
}

func TestDeniedReason(t *testing.T) {
	if got := deniedReason(1 << 40); !strings.Contains(got, "number 1099511627776") {
		t.Error(got)
	}
}

// The kernel's stamp of an answer is taken where it can be right.
func TestBetween(t *testing.T) {
	sent := time.Now()
	received := sent.Add(5 * time.Millisecond)
	stamp := func(after time.Duration) time.Time { return time.Unix(0, sent.Add(after).UnixNano()) }
	for name, c := range map[string]struct {
		stamp time.Time
		want  time.Duration
	}{
		"stamped":        {stamp(2 * time.Millisecond), 2 * time.Millisecond},
		"no stamp":       {time.Time{}, 5 * time.Millisecond},
		"stamped before": {stamp(-time.Millisecond), 5 * time.Millisecond},
		"stamped after":  {stamp(6 * time.Millisecond), 5 * time.Millisecond},
	} {
		if got := between(sent, c.stamp, received); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestKeepRates: timings leave cores only where all cores together reach what one reaches, times their number.
func TestKeepRates(t *testing.T) {
	rates := map[string]float64{"f32/1": 10, "f32/4": 39, "llc/1": 5, "llc/4": 20, "memory/1": 3, "memory/4": 12}
	if !keepRates(rates, 4) {
		t.Error("cores that keep their rates")
	}
	for name, less := range map[string]float64{"f32/4": 37, "llc/4": 18, "memory/4": 9, "memory/1": 0} {
		slower := maps.Clone(rates)
		slower[name] = less
		if keepRates(slower, 4) {
			t.Errorf("%s of %v", name, less)
		}
	}
	if keepRates(rates, 2) || keepRates(nil, 1) {
		t.Error("rates that were not measured")
	}
}

// TestOwnUsage: what a compiler's parts used counts as evotune's own while the compiler still runs.
func TestOwnUsage(t *testing.T) {
	shell := exec.Command("sh", "-c", "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done); echo done; read end")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Error(err)
	}
	if got := waitedFor(shell.Process.Pid); got < 2*tick {
		t.Errorf("its parts used %v s", got)
	}
	_ = in.Close()
	_ = shell.Wait() // the status of read
}

func TestUsage(t *testing.T) {
	at := time.Now()
	a := &usage{at: at, busy: 10, steal: 1, own: 5, pressure: 3}
	n := float64(cores())
	b := &usage{at: at.Add(time.Second), busy: 10 + 0.9*n, steal: 1 + 0.2*n, own: 5 + 0.4*n, pressure: 3.5}
	c := b.since(a)
	near := func(x, want float64) bool { return x > want-1e-9 && x < want+1e-9 }
	if !near(c.Busy, 0.5) || !near(c.Steal, 0.2) || !near(c.Pressure, 0.5) ||
		!strings.Contains(c.Disturbed, "other processes keep") || !strings.Contains(c.Disturbed, "the hypervisor takes 20% of the time") {
		t.Errorf("%+v", c)
	}
	b = &usage{at: at.Add(time.Second), busy: 10.41, steal: 1, own: 5.4, pressure: 3}
	if c := b.since(a); c.Busy != 0 || c.Disturbed != "" {
		t.Errorf("rounding disturbs: %+v", c)
	}
}
