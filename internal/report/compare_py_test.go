package report_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

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
