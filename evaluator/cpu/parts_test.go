//go:build linux

package cpu

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

func TestFirstError(t *testing.T) {
	for log, want := range map[string]string{
		"a.c: In function 'f':\na.c:3:5: error: no\nmore":                            "a.c:3:5: error: no",
		"/usr/bin/ld: g.c:(.text+0x1): undefined reference to `f'\ncollect2: error:": "/usr/bin/ld: g.c:(.text+0x1): undefined reference to `f'",
		"\n\nsomething\n": "something",
		"":                "the compiler failed and did not say why",
	} {
		if got := firstError(log); got != want {
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
	if c.total != 5 || c.fused != 1 || c.widths["zmm"] != 1 || c.widths["ymm"] != 1 || c.mnemonics["stos"] != 1 || c.mnemonics["xadd"] != 1 {
		t.Errorf("%+v", c)
	}
	if re := regexp.MustCompile("^vfm"); c.matching(re) != 1 || c.example(re) != "vfmadd231ps" {
		t.Errorf("%d %q", c.matching(re), c.example(re))
	}
}

func TestPlainMachine(t *testing.T) {
	got := sanitizableFlags([]string{"-O3", "-flto", "-march=native", "-fomit-frame-pointer", "-s", "-DX"})
	if strings.Join(got, " ") != "-O3 -march=native -DX" {
		t.Errorf("%q", got)
	}
}

func TestArena(t *testing.T) {
	l := newLayout([]placedBuffer{
		{name: "a", dtype: f32, elements: 3, bytes: 12},
		{name: "b", dtype: i8, elements: 5, bytes: 5, role: roleOut},
	})
	a, err := newArena(3 * l.stride)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for s := range 3 {
		a.fence(&l, 0, s)
	}
	for b := range l.buffers {
		if l.buffers[b].offset%64 != 0 {
			t.Errorf("buffer %d begins at %d", b, l.buffers[b].offset)
		}
		for s := range 3 {
			mem := a.buffer(&l, 0, s, b)
			if len(mem) != l.buffers[b].bytes {
				t.Errorf("buffer %d has %d bytes", b, len(mem))
			}
			for i := range mem {
				mem[i] = 0xee
			}
		}
	}
	for s := range 3 {
		if reason := a.checkFence(&l, 0, s); reason != "" {
			t.Errorf("set %d: %s", s, reason)
		}
	}
	at := l.stride + l.buffers[1].offset
	for _, c := range []struct {
		byte int
		want string
	}{
		{at + 5, "red zone: wrote byte 0 behind the end of b"},
		{at + 5 + redZone - 1, "red zone: wrote byte 4095 behind the end of b"},
		{at - 1, "red zone: wrote byte 1 before the start of b"},
	} {
		a.mem[c.byte] ^= 0x10
		if reason := a.checkFence(&l, 0, 1); reason != c.want {
			t.Errorf("%q, want %q", reason, c.want)
		}
		if reason := a.checkFence(&l, 0, 0); reason != "" {
			t.Errorf("the set beside: %s", reason)
		}
		a.mem[c.byte] ^= 0x10
	}
}

func TestEnough(t *testing.T) {
	h := &bench{options: Options{Samples: 20, SampleTime: time.Second}, problem: &problem{tune: make([]*shapeData, 1)}}
	ones := func(n int, ratio ...float64) (s, b []float64) {
		for i := range n {
			s, b = append(s, 100*ratio[i%len(ratio)]), append(b, 100)
		}
		return s, b
	}
	for _, c := range []struct {
		n         int
		ratios    []float64
		spent     time.Duration
		incumbent float64
		want      string
	}{
		{2, []float64{5}, time.Hour, 1, ""},
		{3, []float64{1.2, 1.3}, 0, 1, "slower"},
		{3, []float64{1.05, 1.3}, 0, 1, ""},
		{3, []float64{1.3}, 0, 0, ""},
		{5, []float64{1}, 0, 0, ""},
		{6, []float64{1, 1.005}, 0, 0, "precise"},
		{6, []float64{1, 1.5}, 0, 0, ""},
		{5, []float64{1, 1.5}, time.Second, 0, "limit"},
		{4, []float64{1, 1.5}, time.Second, 0, ""},
		{3, []float64{1, 1.5}, 2 * time.Second, 0, "limit"},
		{20, []float64{1, 1.5}, 0, 0, "limit"},
	} {
		s, b := ones(c.n, c.ratios...)
		if got := h.enough(s, b, c.spent, c.incumbent); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	h.problem.tune = make([]*shapeData, 2)
	s, b := ones(3, 1.3)
	if got := h.enough(s, b, 0, 1); got != "" {
		t.Errorf("of two shapes, one that is slower: %q", got)
	}
}

func TestFloor(t *testing.T) {
	h := &bench{
		peaks: map[string]float64{"f32/1": 1e9, "memory/1": 1e9},
		plan:  evaluator.Plan{Definition: &kernels.Definition{Problem: kernels.Problem{Pipe: "f32"}}},
	}
	d := &shapeData{operations: 1.1e6, traffic: 1.3e6, inBytes: 1.3e6}
	if got := h.floor(d, 1, 1); got < 0.999e6 || got > 1.001e6 {
		t.Errorf("a million operations at 10^9 per second take %v ns", got)
	}
	d.operations = 0
	if got := h.floor(d, 1, 1); got != 0 {
		t.Errorf("what fits the cache has a floor of %v ns", got)
	}
	if got := h.floor(d, 1_000_000, 1); got < 0.99e6 || got > 1.001e6 {
		t.Errorf("a million bytes at 10^9 per second take %v ns", got)
	}
	h.plan.Definition.Problem.Pipe = "tensor-f16"
	d.operations = 1e30
	if got := h.floor(d, 1, 1); got != 0 {
		t.Errorf("a pipe without a peak has a floor of %v ns", got)
	}
}

// What is wrong must fail the tolerance; what happens to be right says nothing.
func TestMustFail(t *testing.T) {
	e, err := newExpected([]float64{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	d := &shapeData{layout: newLayout([]placedBuffer{{name: "y", dtype: f32, elements: 4, bytes: 16, role: roleOut}})}
	d.expected[0] = []expected{e}
	q := &problem{definition: &kernels.Definition{Name: "k"}, tolerance: []float64{0.1}}
	c := kernels.Control{Kind: kernels.Swapped, Buffers: []string{"a", "b"}}
	if told, err := q.mustFail(d, c, [][]float64{{1, 2, 3, 5}}); err != nil || !told {
		t.Errorf("an error above the tolerance: %v, %v", told, err)
	}
	if _, err := q.mustFail(d, c, [][]float64{{1, 2, 3, 4.1}}); !errors.Is(err, ErrControl) || !strings.Contains(err.Error(), "swap of a and b") {
		t.Errorf("an error below the tolerance: %v", err)
	}
	if told, err := q.mustFail(d, c, [][]float64{{1, 2, 3, 4}}); err != nil || told {
		t.Errorf("the right answer: %v, %v", told, err)
	}
}

func TestDeniedReason(t *testing.T) {
	if got := deniedReason(1 << 40); !strings.Contains(got, "number 1099511627776") {
		t.Error(got)
	}
}
