package cuda

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/kernels"
)

// The harness's comparisons, on a device made of threads: what is passed over where the
// reference leaves elements as they were, what was written there all the same, what was not
// written, and how far apart two launches are. And its contents: the generator gives what its authors
// publish, contents follow from keys, and a late answer does not fit the inputs behind it.
func TestComparisonsOfTheHarness(t *testing.T) {
	t.Parallel()
	cc, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("there is no g++")
	}
	text, err := os.ReadFile(filepath.Join("testdata", "harness", "host.cpp"))
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(HarnessSource, "#include <cuda_fp16.h>\n")
	part, _, found := strings.Cut(part, "// What follows measures the device.")
	if !found {
		t.Fatal("the harness does not say where its measurements begin")
	}
	dir := t.TempDir()
	file, program := filepath.Join(dir, "host.cpp"), filepath.Join(dir, "host")
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "\nHARNESS\n", "\n"+part+"\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(cc, "-std=c++17", "-O1", "-w", "-pthread", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%.4000s", err, text)
	}
	out, err := exec.Command(program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out = drawnAsHere(t, out)
	const want = `4 bytes: 4294967295 0
2 bytes: 65535 0
2 bytes: 32767 -7
masked: diff 0 at 0 (2, 2) squares 2004 not finite 0 unwritten 0 skipped 500 surplus 500
not masked: diff inf at 1 (7, nan) squares nan not finite 0 unwritten 0 skipped 0 surplus 0
wrong: diff 1.5 at 10 (3.5, 2) squares 2004 not finite 0 unwritten 0 skipped 500 surplus 500
one unit: diff 0 at 0 (2, 2) squares 2004 not finite 0 unwritten 0 skipped 500 surplus 500
two units: diff 4.76837e-07 at 10 (2, 2) squares 2004 not finite 0 unwritten 0 skipped 500 surplus 500
unwritten: diff inf at 20 (nan, 2) squares 2004 not finite 1 unwritten 1 skipped 500 surplus 499
as the reference leaves it: diff 0 at 0 (2, 2) squares 2004 not finite 0 unwritten 0 skipped 500 surplus 0
another output: diff 0 at 0 (2, 2) squares 2004 not finite 0 unwritten 0 skipped 500 surplus 499
another output, not masked: diff inf at 1 (7, nan) squares nan not finite 1 unwritten 1 skipped 0 surplus 0
e4m3: diff 0 at 0 (2, 2) squares 2004 not finite 0 unwritten 0 skipped 500 surplus 500
e4m3 unwritten: diff inf at 30 (nan, 2) squares 2004 not finite 1 unwritten 1 skipped 500 surplus 499
the same: 0 by up to 0
signs of zero, bits: 1 by up to 0
signs of zero: 0 by up to 0
beside zero: 1 by up to 1e-30
bits: 3 by up to 3
bits, masked: 2 by up to 0.25
near: 0 by up to 0.25
not near: 1 by up to 0.25
near, not masked: 1 by up to 3
not a number: 1 by up to inf
philox 6627e8d5 e169c58d bc57ac4c 9b00dbd8
philox 408f276d 41c83b0e a20bc7c6 6d5451fd
philox d16cfe09 94fdcceb 5001e420 24126ea1
f32 normal: behind it 1, poison 1; again 1, intact 1, an input changed 1, a late answer 1, another secret 1
f32 normal: mean 1.04 rms 2.24 from -6.4 to 7.7
f64 normal: mean 0.97 rms 2.20 from -5.2 to 6.5
f16 normal: mean 1.03 rms 2.28 from -6.7 to 8.4
bf16 normal: mean 0.01 rms 1.02 from -3.8 to 3.7
f16 uniform: mean -0.00 rms 0.58 from -1.0 to 1.0
bf16 integers: mean 0.03 rms 2.00 from -3.0 to 3.0
e5m2 normal: mean -0.00 rms 1.00 from -4.0 to 4.0
f64 uniform: mean 0.01 rms 0.58 from -1.0 to 1.0
f32 uniform: mean 0.01 rms 0.58 from -1.0 to 1.0
i32 integers: mean 0.01 rms 1.42 from -2.0 to 2.0
i16 integers: mean 4.01 rms 4.10 from 3.0 to 5.0
i64 integers: mean 0.02 rms 1.44 from -2.0 to 2.0
u8 constant: mean 9.00 rms 9.00 from 9.0 to 9.0
permutation of 1000: 999 of 999 once, inside 1, moved 1
permutation of 17: 5 of 5 once, inside 1, moved 1
permutation of 65536: 65536 of 65536 once, inside 1, moved 1
2 offsets to 1000: ascending 1, ends 1, moved 0, a quarter nan, squares 1.0
9 offsets to 100000: ascending 1, ends 1, moved 1, a quarter 1.0, squares 1.8
100 offsets to 8: ascending 1, ends 1, moved 1, a quarter 0.9, squares 12.4
4001 offsets to 16777216: ascending 1, ends 1, moved 1, a quarter 1.0, squares 2.0
given: the same 1, poison 1, changed 0, then 1
squares 2005 sum 1001 infinite 1 nan 500
`
	if diff := cmp.Diff(want, strings.ReplaceAll(string(out), "-nan", "nan")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// drawnAsHere takes out the lines of vectors, and compares what the harness makes of random bits with what is made
// here: it may be off by some roundings.
func drawnAsHere(t *testing.T, out []byte) (rest []byte) {
	t.Helper()
	vectors := 0
	for line := range strings.Lines(string(out)) {
		var dtype kernels.DType
		var distribution kernels.Distribution
		var w [4]uint32
		if n, _ := fmt.Sscanf(line, "drawn %s %s %d %d %d %d", &dtype, &distribution, &w[0], &w[1], &w[2], &w[3]); n < 6 {
			if !strings.HasPrefix(line, "drawn ") {
				rest = append(rest, line...)
				continue
			}
		}
		vectors++
		b := kernels.Buffer{DType: dtype, Data: kernels.Data{Distribution: kernels.Distribution(strings.TrimSuffix(string(distribution), ":")), A: -1, B: 3}}
		_, values, _ := strings.Cut(line[len("drawn "+string(dtype)+" "+string(distribution)):], ": ")
		got := strings.Fields(values)
		want := appendVector(nil, b, w)
		if len(got) != len(want) || len(want) == 0 {
			t.Errorf("%q: %d elements, want %d", line, len(got), len(want))
			continue
		}
		for i, text := range got {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil || math.Abs(x-dtype.Round(want[i])) > 2e-6+dtype.Step()*math.Abs(x)*2 || distribution == "uniform:" && x != dtype.Round(want[i]) {
				t.Errorf("%q, element %d: %v, want %v (%v)", line, i, x, want[i], err)
			}
		}
	}
	if vectors != 18 {
		t.Errorf("%d vectors", vectors)
	}
	return rest
}
