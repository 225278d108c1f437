package main

import (
	encoding "encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

func open() wire.OpenRequest {
	return wire.OpenRequest{
		Harness: "harness.cubin",
		Buffers: []wire.Buffer{
			{Name: "A", DType: "f16", Role: "in", Distribution: "normal", B: 1},
			{Name: "B", DType: "i32", Role: "inout", Distribution: "integers", A: -3, B: 3},
			{Name: "C", DType: "f16", Role: "out", Tolerance: 1e-3},
		},
		Scalars: []string{"f32"},
	}
}

func TestCheckOpen(t *testing.T) {
	buffers, err := checkOpen(open())
	if err != nil {
		t.Fatal(err)
	}
	if b := buffers[1]; b.size() != 4 || !b.input() || !b.output() || distributions[b.distribution] != "integers" {
		t.Errorf("buffer B: %+v", b)
	}
	for say, change := range map[string]func(*wire.OpenRequest){
		"name":             func(r *wire.OpenRequest) { r.Buffers[1].Name = "A" },
		"unknown type":     func(r *wire.OpenRequest) { r.Buffers[0].DType = "f8" },
		"unknown role":     func(r *wire.OpenRequest) { r.Buffers[0].Role = "output" },
		"distribution":     func(r *wire.OpenRequest) { r.Buffers[0].Distribution = "" },
		"no integer":       func(r *wire.OpenRequest) { r.Buffers[1].A, r.Buffers[1].B = 0.2, 0.8 },
		"differ by -1":     func(r *wire.OpenRequest) { r.Buffers[2].Repeat = -1 },
		"differ by +Inf":   func(r *wire.OpenRequest) { r.Buffers[2].Repeat = math.Inf(1) },
		"neither repeat":   func(r *wire.OpenRequest) { r.Buffers[0].Repeat = 0.1 },
		"that are not wri": func(r *wire.OpenRequest) { r.Buffers[0].UnwrittenNaN = true },
		"no output":        func(r *wire.OpenRequest) { r.Buffers = r.Buffers[:1] },
		"scalar 0":         func(r *wire.OpenRequest) { r.Scalars[0] = "f16" },
		"cubin and an ent": func(r *wire.OpenRequest) { r.ReferenceEntry = "reference" },
	} {
		r := open()
		change(&r)
		if _, err := checkOpen(r); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("want an error that says %q, got %v", say, err)
		}
	}
}

func TestCheckShape(t *testing.T) {
	buffers, err := checkOpen(open())
	if err != nil {
		t.Fatal(err)
	}
	good := wire.Shape{Elements: []int64{4, 4, 4}, Scalars: []float64{1}}
	if err := checkShape(good, buffers, []string{"f32"}); err != nil {
		t.Error(err)
	}
	good.Keyed = []wire.Keyed{{}, {Distribution: "offsets"}, {}}
	if err := checkShape(good, buffers, []string{"f32"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []wire.Shape{
		{Elements: []int64{4, 4}, Scalars: []float64{1}},
		{Elements: []int64{4, 4, 0}, Scalars: []float64{1}},
		{Elements: []int64{4, 4, math.MaxInt64}, Scalars: []float64{1}},
		{Elements: []int64{4, 4, 4}},
		{Elements: []int64{4, 1, 4}, Scalars: []float64{1}, Keyed: []wire.Keyed{{}, {Distribution: "offsets", B: 4}, {}}},
		{Elements: []int64{4, 4, 4}, Scalars: []float64{1}, Keyed: []wire.Keyed{{}, {Distribution: "permutation", B: 3}, {}}},
		{Elements: []int64{4, 4, 4}, Scalars: []float64{1}, Keyed: []wire.Keyed{{}, {Distribution: "between", A: 3, B: 2}, {}}},
		{Elements: []int64{4, 4, 4}, Scalars: []float64{1}, Keyed: []wire.Keyed{{}, {Distribution: "sorted", B: 3}, {}}},
	} {
		if err := checkShape(bad, buffers, []string{"f32"}); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestDimensions(t *testing.T) {
	good := wire.Geometry{Grid: [3]int64{3, 2, 1}, Block: [3]int64{128, 1, 1}, Shared: 227 << 10}
	if d, shared, ok := dimensions(good); !ok || d != [6]uint32{3, 2, 1, 128, 1, 1} || shared != 227<<10 {
		t.Errorf("%v %d %v", d, shared, ok)
	}
	for _, change := range []func(*wire.Geometry){
		func(g *wire.Geometry) { g.Grid[1] = 0 },
		func(g *wire.Geometry) { g.Grid[0] = 1 << 32 },
		func(g *wire.Geometry) { g.Block[0] = -1 },
		func(g *wire.Geometry) { g.Block[2] = 1 << 33 },
		func(g *wire.Geometry) { g.Shared = -1 },
		func(g *wire.Geometry) { g.Workspace = 1 << 50 },
	} {
		g := good
		change(&g)
		if _, _, ok := dimensions(g); ok {
			t.Errorf("%+v was taken", g)
		}
	}
}

func TestLaunches(t *testing.T) {
	good := func() wire.Geometry {
		first := wire.Geometry{
			Grid: [3]int64{6, 4, 1}, Block: [3]int64{128, 1, 1}, Shared: 1024, Workspace: 4096, Cluster: [3]int64{2, 4, 1},
			Dependent: true, Maps: []wire.TensorMap{{}},
		}
		second := wire.Geometry{Grid: [3]int64{8, 1, 1}, Block: [3]int64{64, 1, 1}, Entry: "combine", Cooperative: true, Dependent: true, Cluster: [3]int64{1, 1, 1}}
		first.Then = []wire.Geometry{second}
		return first
	}
	list, err := launches(good())
	want := []launch{
		// Nothing of the call is before the first, so that it depends on nothing.
		{d: [6]uint32{6, 4, 1, 128, 1, 1}, shared: 1024, cluster: [3]uint32{2, 4, 1}},
		{entry: "combine", d: [6]uint32{8, 1, 1, 64, 1, 1}, cooperative: true, dependent: true},
	}
	if diff := cmp.Diff(want, list, cmp.AllowUnexported(launch{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	plain, err := launches(wire.Geometry{Grid: [3]int64{1, 1, 1}, Block: [3]int64{32, 1, 1}, Dependent: true})
	if err != nil || len(plain) != 1 || plain[0].attributes() {
		t.Errorf("%+v, %v: a launch like those of old drivers has attributes", plain, err)
	}
	for say, change := range map[string]func(*wire.Geometry){
		"kernels":                             func(g *wire.Geometry) { g.Then = slices.Repeat(g.Then, maxKernels) },
		"kernel 2 has a workspace":            func(g *wire.Geometry) { g.Then[0].Workspace = 64 },
		"kernel 2 has a workspace, tensor":    func(g *wire.Geometry) { g.Then[0].Maps = g.Maps },
		"kernel 2 has a workspace, tensor m":  func(g *wire.Geometry) { g.Then[0].Then = []wire.Geometry{{}} },
		"a grid of [0 1 1]":                   func(g *wire.Geometry) { g.Then[0].Grid[0] = 0 },
		"a grid of [6 4 1]":                   func(g *wire.Geometry) { g.Shared = -1 },
		"a cluster of [2 0 1]":                func(g *wire.Geometry) { g.Cluster[1] = 0 },
		"a cluster of [16 1 1]":               func(g *wire.Geometry) { g.Grid[0], g.Cluster = 16, [3]int64{16, 1, 1} },
		"does not divide the grid of [6 4 1]": func(g *wire.Geometry) { g.Cluster = [3]int64{4, 1, 1} },
		"which is 16 blocks":                  func(g *wire.Geometry) { g.Grid[2], g.Cluster[2] = 2, 2 },
		"a cluster of [-1 1 1]":               func(g *wire.Geometry) { g.Then[0].Cluster[0] = -1 },
	} {
		g := good()
		change(&g)
		if _, err := launches(g); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("want an error that says %q, got %v", say, err)
		}
	}
}

func TestCheckMaps(t *testing.T) {
	buffers, err := checkOpen(open()) // f16, i32 and f16
	if err != nil {
		t.Fatal(err)
	}
	s := wire.Shape{Elements: []int64{64 * 40, 64, 64}}
	good := func() wire.TensorMap {
		return wire.TensorMap{Buffer: 0, DType: "f16", Dims: []int64{60, 40}, Strides: []int64{128}, Box: []int64{32, 256}, Swizzle: 64, Promotion: 128, NaN: true}
	}
	for _, m := range []wire.TensorMap{
		good(),
		{DType: "f16", Dims: []int64{64 * 40}, Box: []int64{256}},
		{DType: "f32", Dims: []int64{32, 40}, Strides: []int64{128}, Box: []int64{32, 8}, Swizzle: 128},     // as another type
		{DType: "f16", Dims: []int64{8, 5, 8, 8}, Strides: []int64{128, 640, 16}, Box: []int64{8, 1, 1, 1}}, // in no order
		{DType: "f16", Dims: []int64{64 * 40, 1 << 20}, Strides: []int64{0}, Box: []int64{64, 8}},           // the same again and again
		{DType: "u8", Dims: []int64{16, 2, 2, 2, 2}, Strides: []int64{16, 32, 64, 128}, Box: []int64{16, 2, 2, 2, 2}},
	} {
		if err := checkMaps([]wire.TensorMap{m}, s, buffers); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	for say, change := range map[string]func(*wire.TensorMap){
		"of buffer -1, and there are 3":   func(m *wire.TensorMap) { m.Buffer = -1 },
		"of buffer 3, and there are 3":    func(m *wire.TensorMap) { m.Buffer = 3 },
		"unknown type":                    func(m *wire.TensorMap) { m.DType = "f8" },
		"0 axes":                          func(m *wire.TensorMap) { m.Dims, m.Strides, m.Box = nil, nil, nil },
		"6 axes":                          func(m *wire.TensorMap) { m.Dims = make([]int64, 6) },
		"2 axes, 2 strides":               func(m *wire.TensorMap) { m.Strides = []int64{128, 128} },
		"a box of 1 axes":                 func(m *wire.TensorMap) { m.Box = m.Box[:1] },
		"swizzle of 16":                   func(m *wire.TensorMap) { m.Swizzle = 16 },
		"promotion to 32":                 func(m *wire.TensorMap) { m.Promotion = 32 },
		"NaN cannot be read as i32":       func(m *wire.TensorMap) { m.DType = "i32" },
		"axis 2 has 0 elements":           func(m *wire.TensorMap) { m.Dims[1] = 0 },
		"axis 1 has 4294967297":           func(m *wire.TensorMap) { m.Dims[0] = 1<<32 + 1 },
		"257 elements along axis 2":       func(m *wire.TensorMap) { m.Box[1] = 257 },
		"0 elements along axis 1":         func(m *wire.TensorMap) { m.Box[0] = 0 },
		"a box of 40 bytes":               func(m *wire.TensorMap) { m.Box[0] = 20 },
		"the swizzle allows 32":           func(m *wire.TensorMap) { m.Swizzle = 32 },
		"a stride of 8 bytes":             func(m *wire.TensorMap) { m.Strides[0] = 8 },
		"a stride of -128 bytes":          func(m *wire.TensorMap) { m.Strides[0] = -128 },
		"a stride of 1099511627776 bytes": func(m *wire.TensorMap) { m.Strides[0] = 1 << 40 },
		"of [60 41] elements of 2 bytes":  func(m *wire.TensorMap) { m.Dims[1] = 41 },
		"of [65 40] elements":             func(m *wire.TensorMap) { m.Dims[0] = 65 }, // by one element
		"of [4294967296 1] elements":      func(m *wire.TensorMap) { m.Dims = []int64{1 << 32, 1} },
		"with strides of [1099511627760]": func(m *wire.TensorMap) { m.Dims[1], m.Strides[0] = 1<<32, 1<<40-16 }, // more than 64 bits
		"within the buffer's 256 bytes":   func(m *wire.TensorMap) { m.Buffer = 1 },
	} {
		m := good()
		change(&m)
		if err := checkMaps([]wire.TensorMap{good(), m}, s, buffers); err == nil || !strings.Contains(err.Error(), say) || !strings.HasPrefix(err.Error(), "tensor map 2") {
			t.Errorf("want an error about the second map that says %q, got %v", say, err)
		}
	}
	if err := checkMaps(make([]wire.TensorMap, maxMaps+1), s, buffers); err == nil {
		t.Error("as many maps as no kernel can take were taken")
	}
}

func TestScalarBits(t *testing.T) {
	for _, c := range []struct {
		dtype string
		v     float64
		want  uint64
	}{
		{"f64", 0.1, 0x3fb999999999999a},
		{"f32", 0.1, 0x3dcccccd},
		{"i32", -2, math.MaxUint64 - 1}, // the low four bytes are -2
		{"u8", 200, 200},
		{"i64", 1 << 40, 1 << 40},
	} {
		if got := scalarBits(c.dtype, c.v); got != c.want {
			t.Errorf("%s %g: %#x, want %#x", c.dtype, c.v, got, c.want)
		}
	}
}

// Streams of different seeds and buffers must not be the same.
func TestKeysDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(50) {
		for k := range 20 {
			seen[bufferKey(seed, k)] = true
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d keys, want 1000", len(seen))
	}
}

func TestPlanSets(t *testing.T) {
	const mb, l2, all = 1 << 20, 60 << 20, 64 << 30
	for _, c := range []struct {
		bytes, limit int64
		cold         bool
		want         int
	}{
		{mb, all, false, 30},
		{10 * mb, all, false, someSets},
		{30 * mb, all, false, 8},
		{100 * mb, all, false, fewSets},
		{100 * mb, 250 * mb, false, 1}, // unless memory is short: one more is for comparisons
		{100 * mb, 50 * mb, false, 1},
		{10 * mb, all, true, 19},       // more than three times the cache
		{200 * mb, all, true, fewSets}, //
		{mb, all, true, maxSets},       // too small to drive each other out
		{10 * mb, 100 * mb, true, 9},   // short of memory
		{100, all, false, maxSets},
		{0, all, true, maxSets},
	} {
		if got := planSets(c.bytes, l2, c.limit, c.cold); got != c.want {
			t.Errorf("%d bytes, cold %v: %d sets, want %d", c.bytes, c.cold, got, c.want)
		}
	}
	if sweeps(30*mb, l2, false) || !sweeps(31*mb, l2, false) || !sweeps(1, l2, true) {
		t.Error("the cache is emptied where sets fit, or is not where they do not or should be cold")
	}
}

func TestPlanBlock(t *testing.T) {
	for _, bytes := range []int64{0, 1, 4096, pageBytes - 1, pageBytes, pageBytes + 1, 100*pageBytes + 3} {
		align, room := planBlock(bytes)
		if want := int64(guardBytes); bytes < pageBytes && align != want || bytes >= pageBytes && align != pageBytes {
			t.Errorf("%d bytes begin at multiples of %d", bytes, align)
		}
		for base := uint64(0x7f00_0000_0000); base <= 0x7f00_0000_0000+pageBytes; base += 256 {
			at := startIn(base, align)
			if at%uint64(align) != 0 || at < base+guardBytes || at+uint64(bytes)+guardBytes > base+uint64(room) {
				t.Fatalf("%d bytes in %d from %#x begin at %#x", bytes, room, base, at)
			}
		}
	}
}

func TestPlanDirty(t *testing.T) {
	for _, c := range []struct{ written, bytes, want int64 }{
		{0, 100, 0},     // a kernel that leaves a few numbers
		{1, 1 << 20, 0}, //
		{500, 1000, 32}, // a copy
		{100, 300, 21},  // two inputs, one output
		{200, 300, 43},  // one input, two outputs
		{100, 100, 64},  // in place
		{0, 0, 0},
	} {
		if got := planDirty(c.written, c.bytes); got != c.want {
			t.Errorf("%d of %d bytes: %d of 64 pieces, want %d", c.written, c.bytes, got, c.want)
		}
	}
}

func TestPlanReading(t *testing.T) {
	for _, c := range []struct {
		launch       float64
		sets         int
		used, passes int
	}{
		{1e3, 64, 63, 8},
		{5e3, 64, 50, 2},
		{10e3, 64, 50, 1},
		{25e3, 5, 5, 4},
		{24e3, 8, 7, 3}, // 21 launches last a batch
		{60e3, 8, 5, 2},
		{100e3, 64, 5, 1},
		{10e6, 64, 3, 1}, // a few
		{20e6, 64, 2, 1}, // no longer than longLaunch
		{100e3, 2, 2, 3},
		{30e6, 2, 1, 1},
		{2e9, 3, 1, 1},
		{0, 4, 4, 1}, // not known
		{math.Inf(1), 4, 1, 1},
	} {
		if used, passes := planReading(c.launch, 500e3, c.sets); used != c.used || passes != c.passes {
			t.Errorf("%+v: %d of the sets, %d passes", c, used, passes)
		}
	}
	if planRow(1, 132) != 396 || planRow(2, 132) != 264 || planRow(3, 132) != 132 || planRow(64, 0) != 1 {
		t.Error("a few buffers have too few blocks or many too many")
	}
	if planAlone(100e3, 90e3) != 1 || planAlone(100e3, 250e3) != 4 || planAlone(100e3, 500e3) != 8 {
		t.Error("contents that take long are not timed beside each pass, or those that do not are")
	}
}

func TestPlanPasses(t *testing.T) {
	for _, c := range []struct {
		pass, batch float64
		want        int
	}{
		{40e3, 500e3, 13},
		{500e3, 500e3, 1},
		{2e9, 500e3, 1}, // long
		{1, 500e3, maxPasses},
		{0, 500e3, 1}, // not known
		{math.Inf(1), 500e3, 1},
		{math.NaN(), 500e3, 1},
	} {
		if got := planPasses(c.pass, c.batch); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestPlanLooks(t *testing.T) {
	for _, c := range []struct {
		baseline, reading float64
		sets, want        int
	}{
		{10e3, 500e3, 7, 4},
		{25e3, 500e3, 7, 2},
		{100e3, 500e3, 7, 1}, // one at least
		{1e9, 500e3, 1, 1},
		{1e3, 500e3, 2, 2}, // no more than there are
		{0, 500e3, 7, 1},
	} {
		if got := planLooks(c.baseline, c.reading, c.sets); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestPlanEdges: each of the edge-case inputs comes once, at any time with the same chance.
func TestPlanEdges(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	var came [4]int
	for range 400 {
		due := planEdges(dice, 3, 3)
		if all := slices.Sorted(slices.Values(slices.Concat(due...))); len(due) != 4 || !slices.Equal(all, []int{0, 1, 2}) {
			t.Fatal(due)
		}
		for n, list := range due {
			came[n] += len(list)
		}
	}
	if slices.Min(came[:]) < 230 {
		t.Errorf("before each round, and behind the last: %v", came)
	}
	if due := planEdges(dice, 0, 1); len(slices.Concat(due...)) > 0 || len(due) != 2 {
		t.Errorf("none: %v", due)
	}
}

func TestFar(t *testing.T) {
	for _, c := range []struct {
		o    wire.Output
		want bool
	}{
		{wire.Output{Error: 0.8, Limit: 0.1}, false},
		{wire.Output{Error: 0.81, Limit: 0.1}, true},
		{wire.Output{Error: wire.Number(math.NaN()), Limit: 1}, true},
		{wire.Output{Limit: 1, NotFinite: 1}, true},
		{wire.Output{Limit: 1, Unwritten: 1}, true},
	} {
		if got := far([]wire.Output{{Limit: 1}, c.o}, 8); got != c.want {
			t.Errorf("%+v: %v", c.o, got)
		}
	}
}

func TestOrder(t *testing.T) {
	first := map[int]int{}
	for round := range 200 {
		o := order(3, round, 4)
		if s := slices.Sorted(slices.Values(o)); !slices.Equal(s, []int{0, 1, 2, 3}) {
			t.Fatalf("round %d: %v", round, o)
		}
		if !slices.Equal(o, order(3, round, 4)) {
			t.Fatal("the same seed gives another order")
		}
		first[o[0]]++
	}
	for i := range 4 {
		if first[i] < 25 {
			t.Errorf("contender %d is first in %d of 200 rounds", i, first[i])
		}
	}
}

func TestCeilings(t *testing.T) {
	h200 := wire.Device{Capability: 90, SMs: 132, ClockKHz: 1_980_000}
	p := map[string]float64{"tensor-f16": 6e14, "f32": 9e13, "copy": 4e12}
	ceilings(p, h200)
	if v := p["tensor-f16"]; math.Abs(v-1.0705e15) > 1e12 {
		t.Errorf("tensor-f16: %g", v)
	}
	if p["f32"] != 9e13 || p["measured-f32"] != 9e13 || p["measured-tensor-f16"] != 6e14 {
		t.Errorf("%v: what was measured is lost or lowered", p)
	}
	if _, ok := p["measured-copy"]; ok || p["copy"] != 4e12 {
		t.Errorf("copy is as measured: %v", p)
	}
	unknown := map[string]float64{"tensor-f16": 1}
	ceilings(unknown, wire.Device{Capability: 75, SMs: 40, ClockKHz: 1_500_000})
	if unknown["tensor-f16"] != 1 {
		t.Errorf("a figure was made up: %v", unknown)
	}
}

func TestStrangers(t *testing.T) {
	parents := map[int]int{10: 1, 11: 10, 12: 10, 13: 12, 20: 1, 21: 20}
	parent := func(p int) int { return parents[p] }
	for _, c := range []struct {
		pids []int
		want []int
	}{
		{[]int{11}, nil},
		{[]int{11, 12, 13}, nil}, // evotune's other workers, and one behind a tool
		{[]int{11, 21}, []int{21}},
		{[]int{11, 20, 21, 99}, []int{20, 21, 99}},
		{[]int{21}, nil}, // numbers of another namespace
		{nil, nil},
	} {
		if got := strangers(c.pids, 11, parent); !slices.Equal(got, c.want) {
			t.Errorf("%v: the strangers are %v, want %v", c.pids, got, c.want)
		}
	}
}

func TestReadInputs(t *testing.T) {
	buffers, err := checkOpen(open()) // two inputs and an output
	if err != nil {
		t.Fatal(err)
	}
	s := wire.Shape{Elements: []int64{2, 1, 4}, Inputs: filepath.Join(t.TempDir(), "inputs")}
	var raw []byte
	want := make([][]byte, 3)
	for i, list := range [][]float64{{1, 2}, {3}} {
		want[i] = wire.AppendElements(nil, buffers[i].DType, list)
		raw = append(raw, want[i]...)
		if got := wire.Elements(want[i], buffers[i].DType); !slices.Equal(got, list) {
			t.Errorf("%s: %v came back as %v", buffers[i].DType, list, got)
		}
	}
	if err := os.WriteFile(s.Inputs, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := readInputs(s, buffers, 7)
	if diff := cmp.Diff(want, data); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	s.Elements[0] = 3
	if _, err := readInputs(s, buffers, 7); err == nil {
		t.Error("a file that is too short was taken")
	}
	s.Inputs += "-none"
	if _, err := readInputs(s, buffers, 7); err == nil {
		t.Error("a file that is not there was taken")
	}
}

func TestReadOutputs(t *testing.T) {
	buffers, err := checkOpen(open()) // of which the last two are outputs
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "outputs")
	var raw []byte
	for i := range 6 {
		raw = encoding.LittleEndian.AppendUint64(raw, math.Float64bits(float64(i)))
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s := wire.Shape{Elements: []int64{7, 1, 2}}
	data, err := readOutputs(file, s, buffers, 2)
	want := [][][]float64{{nil, {0}, {1, 2}}, {nil, {3}, {4, 5}}}
	if diff := cmp.Diff(want, data); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := readOutputs(file, s, buffers, 1); err == nil {
		t.Error("a file with more contents than asked for was taken")
	}
	if _, err := readOutputs(file+"-none", s, buffers, 2); err == nil {
		t.Error("a file that is not there was taken")
	}
}

func TestHalve(t *testing.T) {
	for _, c := range []struct{ v, want []float64 }{
		{[]float64{3, -1, 2, -4}, []float64{3, 0, 0, -4}},
		{[]float64{5, -2, 1}, []float64{5, 0, 0}},
		{nil, nil},
		{[]float64{math.Inf(1), 4, 3, 2, 1}, []float64{math.Inf(1), 4, 0, 0, 0}},
	} {
		if halve(c.v); !slices.Equal(c.v, c.want) {
			t.Errorf("%v, want %v", c.v, c.want)
		}
	}
	masked := []float64{math.NaN(), 3, math.NaN(), 1, math.NaN(), 2, 4}
	if halve(masked); !math.IsNaN(masked[0]) || masked[1] != 3 || masked[3] != 0 || masked[5] != 0 || masked[6] != 4 {
		t.Errorf("%v: half of what is compared is to be zero", masked)
	}
}

func TestLeaveOut(t *testing.T) {
	for _, c := range []struct {
		in, want   string
		size, last int
	}{
		{"abcdefghijABCDEFGHIJ", "bbcdefghjjBBCDEFGHJJ", 1, 10},
		{"abcdefghiABCDEFGHI", "bbcdefghhBBCDEFGHH", 1, 9},
		{"aAbBcC", "bBbBcC", 2, 3},
		{"ab", "bb", 1, 2},
	} {
		got := []byte(c.in)
		if leaveOut(got, c.size, c.last); string(got) != c.want {
			t.Errorf("%s in rows of %d elements of %d bytes: %s, want %s", c.in, c.last, c.size, got, c.want)
		}
	}
}

func TestReturned(t *testing.T) {
	buffers, err := checkOpen(open())
	if err != nil {
		t.Fatal(err)
	}
	s := wire.Shape{Elements: []int64{4, 5, 4}}
	for _, c := range []struct {
		names []string
		good  bool
	}{
		{[]string{"A", "C"}, true},
		{[]string{"B", "C"}, false}, // of another size
		{[]string{"C", "A"}, false},
		{[]string{"A"}, false},
	} {
		if in, out, err := returned(buffers, s, c.names); (err == nil) != c.good || c.good && (in != 0 || out != 2) {
			t.Errorf("%q: %d, %d, %v", c.names, in, out, err)
		}
	}
}

func TestSwapped(t *testing.T) {
	buffers, err := checkOpen(open())
	if err != nil {
		t.Fatal(err)
	}
	s := wire.Shape{Elements: []int64{4, 4, 4}}
	if i, j, err := swapped(buffers, s, []string{"B", "A"}); i != 1 || j != 0 || err != nil {
		t.Errorf("%d %d %v", i, j, err)
	}
	for _, names := range [][]string{{"A"}, {"A", "C"}, {"A", "none"}} {
		if _, _, err := swapped(buffers, s, names); err == nil {
			t.Errorf("%v was taken", names)
		}
	}
	s.Elements[0] = 5
	if _, _, err := swapped(buffers, s, []string{"A", "B"}); err == nil {
		t.Error("inputs of different sizes were exchanged")
	}
}

func TestCheckGEMM(t *testing.T) {
	r := open()
	if buffers, _ := checkOpen(r); checkGEMM(buffers, nil) == nil {
		t.Error("an i32 input was taken")
	}
	r.Buffers[1] = r.Buffers[0]
	r.Buffers[1].Name = "B"
	buffers, err := checkOpen(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkGEMM(buffers, nil); err != nil {
		t.Error(err)
	}
	if checkGEMM(buffers, []string{"f32"}) == nil {
		t.Error("a scalar was taken")
	}
	if v := blasVersion(120803); v != "12.8.3" {
		t.Errorf("version %s", v)
	}
}

// Every type has a size, a step and a poison of its own, and the poison of a floating
// point type is NaN in every element.
func TestTypes(t *testing.T) {
	if len(dtypeSizes) != len(dtypes) || len(dtypeSteps) != len(dtypes) || len(poisons) != len(dtypes) || len(mapTypes) != len(dtypes) {
		t.Fatalf("%d types, %d sizes, %d steps, %d poisons, %d codes of tensor maps", len(dtypes), len(dtypeSizes), len(dtypeSteps), len(poisons), len(mapTypes))
	}
	nan := map[string]func(uint64) bool{
		"f64":  func(x uint64) bool { return math.IsNaN(math.Float64frombits(x)) },
		"f32":  func(x uint64) bool { return math.IsNaN(float64(math.Float32frombits(uint32(x)))) },
		"f16":  func(x uint64) bool { return x&0x7fff > 0x7c00 },
		"bf16": func(x uint64) bool { return x&0x7fff > 0x7f80 },
		"e4m3": func(x uint64) bool { return x&0x7f == 0x7f },
		"e5m2": func(x uint64) bool { return x&0x7f > 0x7c },
	}
	for i, name := range dtypes {
		isNaN := nan[name]
		if (isNaN != nil) != (dtypeSteps[i] > 0) {
			t.Errorf("%s: a step of %g", name, dtypeSteps[i])
		}
		bits := 8 * dtypeSizes[i]
		for at := int64(0); at < 64 && isNaN != nil; at += bits {
			if x := poisons[i] >> at & (1<<bits - 1); !isNaN(x) {
				t.Errorf("%s: the poison %#x is a number", name, x)
			}
		}
	}
	r := open()
	for _, s := range []string{"f16", "e4m3", "e5m2"} {
		r.Scalars[0] = s
		if _, err := checkOpen(r); err == nil {
			t.Errorf("a scalar of type %s was taken", s)
		}
	}
}

// What a driver lacks is told by what it is asked for, whatever else it has.
func TestTooOld(t *testing.T) {
	all := map[string]bool{"cuLaunchKernelEx": true, "cuTensorMapEncodeTiled": true}
	plain, dependent := launch{}, launch{dependent: true}
	for _, c := range []struct {
		list      []launch
		maps      int
		driver    int
		has       map[string]bool
		call, why string
	}{
		{[]launch{plain, plain}, 0, 11020, nil, "", ""},
		{[]launch{plain, {cooperative: true}}, 0, 11070, nil, "cuLaunchKernelEx", "the driver is of CUDA 11.7 and knows no clusters, cooperative and dependent launches: update it to one of CUDA 11.8 or later"},
		{[]launch{{cluster: [3]uint32{2, 1, 1}}, {cooperative: true}}, 0, 11080, all, "", ""},
		{[]launch{plain, dependent}, 1, 11040, nil, "cuLaunchKernelEx", "the driver is of CUDA 11.4 and knows no graphs of dependent launches, by which these are timed: update it to one of CUDA 12.3 or later"},
		{[]launch{{cooperative: true}}, 1, 11040, nil, "cuTensorMapEncodeTiled", "the driver is of CUDA 11.4 and knows no tensor maps: update it to one of CUDA 12.0 or later"},
		{[]launch{plain, dependent}, 1, 12020, all, "cuLaunchKernelEx", "the driver is of CUDA 12.2 and knows no graphs of dependent launches, by which these are timed: update it to one of CUDA 12.3 or later"},
		{[]launch{plain, dependent}, 1, 12030, all, "", ""},
		{[]launch{plain}, 1, 11080, map[string]bool{"cuLaunchKernelEx": true}, "cuTensorMapEncodeTiled", "the driver is of CUDA 11.8 and knows no tensor maps: update it to one of CUDA 12.0 or later"},
	} {
		call, err := tooOld(c.list, c.maps, c.driver, func(name string) bool { return c.has[name] })
		if call != c.call || (err == nil) != (c.why == "") || err != nil && err.Error() != c.why {
			t.Errorf("%+v with %d maps on %d: %q, %v", c.list, c.maps, c.driver, call, err)
		}
	}
}

// Where the reference is zero everywhere, what need not be the same bits must be the same
// number: zeros of both signs are.
func TestApartLimit(t *testing.T) {
	for _, c := range []struct{ repeat, rms, want float64 }{{0, 2, -1}, {0, 0, -1}, {1e-3, 2, 2e-3}, {1e-3, 0, 0}} {
		if got := apartLimit(buffer{Buffer: wire.Buffer{Repeat: c.repeat}}, c.rms); got != c.want {
			t.Errorf("%+v: %g", c, got)
		}
	}
}

// Inputs that Python makes come from a file, with so many contents.
func TestReadMade(t *testing.T) {
	r := open()
	r.Buffers[1].Distribution, r.Buffers[1].A, r.Buffers[1].B = wire.Made, 0, 0
	buffers, err := checkOpen(r)
	if err != nil {
		t.Fatal(err)
	}
	s := wire.Shape{Name: "s", Elements: []int64{4, 2, 4}, Scalars: []float64{1}}
	if err := checkShape(s, buffers, r.Scalars); err == nil || err.Error() != "shape s: buffer B comes from a file, and there is none" {
		t.Error(err)
	}
	s.Made = filepath.Join(t.TempDir(), "made")
	if err := os.WriteFile(s.Made, wire.AppendElements(nil, buffers[1].DType, []float64{0, 1, 2, 3, 4, 5}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkShape(s, buffers, r.Scalars); err != nil {
		t.Error(err)
	}
	for seed := range uint64(2 * wire.MadeContents) {
		made, err := readInputs(s, buffers, seed)
		if err != nil {
			t.Fatal(err)
		}
		k := float64(seed % wire.MadeContents)
		if got := wire.Elements(made[1], buffers[1].DType); made[0] != nil || made[2] != nil || !slices.Equal(got, []float64{2 * k, 2*k + 1}) {
			t.Errorf("seed %d: %v", seed, made)
		}
	}
	s.Elements[1] = 3
	if _, err := readInputs(s, buffers, 0); err == nil {
		t.Error("a file of another size is read")
	}
	plain, err := checkOpen(open())
	if err != nil {
		t.Fatal(err)
	}
	if made, err := readInputs(s, plain, 0); len(slices.Concat(made...)) > 0 || err != nil {
		t.Errorf("without such inputs it reads %v, %v", made, err)
	}
}

func TestBesideCUBLAS(t *testing.T) {
	for file, want := range map[string]string{
		"/a/libcublas.so.12": "/a/libcublasLt.so.12", "libcublas.so": "libcublasLt.so", "/libcublas.d/libcublas.so": "/libcublas.d/libcublasLt.so",
	} {
		if got := besideCUBLAS(file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}

// made makes buffers out of types: inputs and, last, the output.
func made(types ...string) []buffer {
	var list []buffer
	for i, d := range types {
		b := buffer{Buffer: wire.Buffer{Name: fmt.Sprintf("x%d", i), DType: d, Role: "in"}, dtype: slices.Index(dtypes, d)}
		if i == len(types)-1 {
			b.Role = "out"
		}
		list = append(list, b)
	}
	return list
}

// TestMapped: buffers begin where mapped memory begins, or end less than 16 bytes before it does, and guards have what
// is left on both sides.
func TestMapped(t *testing.T) {
	const room = pageBytes
	for _, c := range []struct {
		bytes                 int64
		where                 string
		offset, before, after int64
	}{
		{4, wire.AtBegin, 0, 0, guardBytes},
		{room, wire.AtBegin, 0, 0, 0},
		{room - 100, wire.AtBegin, 0, 0, 100},
		{4, wire.AtEnd, room - 16, guardBytes, 12},
		{16, wire.AtEnd, room - 16, guardBytes, 0},
		{17, wire.AtEnd, room - 32, guardBytes, 15},
		{room, wire.AtEnd, 0, 0, 0},
		{room - 20, wire.AtEnd, 16, 16, 4},
	} {
		if offset, before, after := planMapped(c.bytes, room, c.where); offset != c.offset || before != c.before || after != c.after {
			t.Errorf("%d bytes at the %s: at %d with guards of %d and %d, want %d, %d and %d", c.bytes, c.where, offset, before, after, c.offset, c.before, c.after)
		}
	}
}

func TestLackingWorkspace(t *testing.T) {
	for most, want := range map[int64]string{
		100: "a workspace of 100 bytes, where the device has 50 of 200 free",
		99:  "a workspace of 100 bytes, where the device has 50 of 200 free: one may have at least 99, make it smaller",
	} {
		if got := lackingWorkspace(100, most, 50, 200); got != want {
			t.Errorf("%q", got)
		}
	}
}
