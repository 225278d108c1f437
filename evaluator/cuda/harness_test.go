package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The harness's comparisons, on a device made of threads: what is passed over where the
// reference leaves elements as they were, what was written there all the same, what was not
// written, and how far apart two launches are.
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
squares 2005 sum 1001 infinite 1 nan 500
`
	if diff := cmp.Diff(want, strings.ReplaceAll(string(out), "-nan", "nan")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
