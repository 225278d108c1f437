package report_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/kernels"
)

// encodeMaps prints the strides that bench/pytorch/compare.py gives the driver for tensor maps.
const encodeMaps = `
import json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, "../../bench/pytorch")
import compare
for m in json.load(sys.stdin):
    compare.TensorMap.encode(lambda name, *args: print(*args[5]), m, 1 << 20)
    compare.TensorMap.encode(lambda name, *args: print(*args[5]), {**m, "strides": None}, 1 << 20)
`

// The tensor maps of winner.json mean to compare.py what they mean to the worker: strides
// are bytes.
func TestComparePyReadsTensorMaps(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	if _, err := os.ReadFile("../../bench/pytorch/compare.py"); err != nil { // so that go test knows when it changes
		t.Fatal(err)
	}
	maps := []kernels.MapGeometry{
		{DType: kernels.BF16, Dims: []int64{64, 8}, Strides: []int64{128}, Box: []int64{64, 8}, Swizzle: 128},
		{DType: kernels.F32, Dims: []int64{8, 4, 2}, Strides: []int64{32, 128}, Box: []int64{8, 2, 1}},
		{DType: kernels.E4M3, Dims: []int64{256, 2}, Strides: []int64{256}, Box: []int64{128, 2}, Swizzle: 128},
	}
	in, err := json.Marshal(maps)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", encodeMaps)
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.CombinedOutput()
	if got, want := string(out), "128\n128\n32 128\n32 128\n256\n256\n"; err != nil || got != want {
		t.Errorf("strides are %q, want %q: %v", got, want, err)
	}
}

// The references of compare.py give what those of the kernels give, for every output, and its
// inputs are what the definitions ask for; PyTorch's operators compute the same, as far as the
// PyTorch that is here has them.
func TestComparePyComputesLong(t *testing.T) {
	longtest.Long(t, "it starts PyTorch")
	i := slices.IndexFunc([]string{"python3", "/usr/bin/python3"}, func(p string) bool {
		return exec.CommandContext(t.Context(), p, "-c", "import torch").Run() == nil
	})
	gcc, err := exec.LookPath("gcc")
	if i < 0 || err != nil {
		t.Fatal("there is no python3 with torch, or no gcc: apt-get install gcc python3-torch")
	}
	for _, f := range []string{"../../bench/pytorch/compare.py", "testdata/compare_test.py"} { // so that go test knows when they change
		if _, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	type kernel struct {
		Kernel  string          `json:"kernel"`
		Library string          `json:"library"`
		Entry   string          `json:"entry"`
		Winners []report.Winner `json:"winners"`
	}
	var spec []kernel
	count := 0
	for _, name := range cat.Names() {
		if slices.Contains([]string{"attention", "conv2d", "gemm-gated"}, name) {
			continue // compare.py calls attention by what only a GPU has, and does not know the others
		}
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		p := d.ProblemOn("cuda")
		source, library := filepath.Join(t.TempDir(), "reference.c"), filepath.Join(t.TempDir(), "reference.so")
		if err := os.WriteFile(source, []byte(p.Reference.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), gcc, "-O1", "-shared", "-fPIC", "-o", library, source, "-lm").CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		k := kernel{Kernel: name, Library: library, Entry: p.Reference.Entry}
		for _, s := range slices.Concat(p.ShapesFor(kernels.Sanitize), p.ShapesFor(kernels.Verify)) {
			if work, err := p.Operations(s); err != nil || work > 1e8 {
				continue // the reference would take long
			}
			w, err := report.NewWinner(name, p, s)
			if err != nil {
				t.Fatal(err)
			}
			k.Winners = append(k.Winners, w)
			count++
		}
		spec = append(spec, k)
	}
	in, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), []string{"python3", "/usr/bin/python3"}[i], "testdata/compare_test.py", "../../bench/pytorch")
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), fmt.Sprintf("compared %d\n", count)) {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
