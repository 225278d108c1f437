//go:build cuda

package gputest

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// hopper skips a test on devices that lack what it is about.
func hopper(t *testing.T) {
	t.Helper()
	if device.Capability < 90 {
		t.Skipf("NOT RUN: the device has capability %d, and clusters, tensor maps and dependent launches need 90", device.Capability)
	}
}

// loadHopper loads kernels of hopper.cu under the name of the first.
func (c *client) loadHopper(t *testing.T, entry string, also ...string) wire.LoadAnswer {
	t.Helper()
	var a wire.LoadAnswer
	must(t, c.ask(wire.Load, wire.LoadRequest{Name: entry, Cubin: cubin("hopper"), Entry: entry, Also: also}, &a, time.Minute))
	if a.Fault != nil {
		t.Fatalf("load %s: %+v", entry, *a.Fault)
	}
	return a
}

const rows, columns = 301, 1204 // no multiples of a tile

func copies() wire.OpenRequest {
	return wire.OpenRequest{
		Harness: cubin("harness"),
		Buffers: []wire.Buffer{
			{Name: "x", DType: "f32", Role: "in", Distribution: "normal", B: 1},
			{Name: "o", DType: "f32", Role: "out"},
		},
		Reference: cubin("reference"), ReferenceEntry: "copy",
	}
}

// tiled is a copy by tensor maps in clusters of two.
func tiled() (wire.Geometry, wire.Shape) {
	tile := wire.TensorMap{
		DType: "f32", Dims: []int64{columns, rows}, Strides: []int64{4 * columns}, Box: []int64{32, 8}, Promotion: 128,
	}
	from, to := tile, tile
	to.Buffer = 1
	g := wire.Geometry{
		Grid: [3]int64{(columns + 63) / 64 * 2, (rows + 7) / 8, 1}, Block: [3]int64{128, 1, 1},
		Cluster: [3]int64{2, 1, 1}, Maps: []wire.TensorMap{from, to},
	}
	return g, wire.Shape{Name: "tiles", Dims: []int64{rows, columns}, Elements: []int64{rows * columns, rows * columns}, Reference: line(64)}
}

// TestTensorMaps: a map is made for every set of buffers, and a cluster is launched as one.
func TestTensorMaps(t *testing.T) {
	hopper(t)
	c := opened(t, copies(), nil)
	c.loadHopper(t, "tile_copy")
	g, s := tiled()
	a := c.parity(t, "tile_copy", g, s, 2)
	if !clean(a) {
		t.Errorf("%+v", a)
	}
	var x wire.TimeAnswer
	it := wire.Contender{Binary: "tile_copy", Geometry: g}
	must(t, c.ask(wire.Time, wire.TimeRequest{
		Contenders: []wire.Contender{it, it}, Shape: s, Seed: 5, BatchNS: 1e5, Rounds: 5, Last: true, Latencies: 3,
	}, &x, time.Minute))
	r := x.Contenders[1]
	if r.Fault != nil || r.Sets < 2 || len(r.After) != 1 || r.After[0].Error != 0 || len(r.LatencyNS) != 3 {
		t.Errorf("timed: %+v", r)
	}
	note(t, "%.0f ns on %d sets", slices.Min(r.SamplesNS), r.Sets)
	// A store by a map of an input is a change of the input.
	wrong, _ := tiled()
	wrong.Maps[0], wrong.Maps[1] = wrong.Maps[1], wrong.Maps[0]
	if a := c.parity(t, "tile_copy", wrong, s, 2); a.InputChanged != "x" || a.Outputs[0].Unwritten == 0 {
		t.Errorf("an input was written through a map: %+v", a)
	}
	// What the worker does not even try is the candidate's fault, with a reason.
	beyond, _ := tiled()
	beyond.Maps[1].Dims = []int64{columns, rows + 1}
	large, _ := tiled()
	large.Grid[0], large.Cluster = 48, [3]int64{16, 1, 1}
	for _, g := range []wire.Geometry{beyond, large} {
		if a := c.parity(t, "tile_copy", g, s, 2); a.Fault == nil || a.Fault.Why == "" || a.Fault.Fatal {
			t.Errorf("%v: %+v", g, a)
		}
	}
	if a := c.parity(t, "tile_copy", g, s, 2); !clean(a) {
		t.Errorf("after it: %+v", a)
	}
}

// then is a call of two kernels, the second dependent on the first if it is so.
func then(dependent bool, second string) wire.Geometry {
	g, next := line(64), line(32)
	g.Workspace, next.Entry, next.Dependent = 4*odd, second, dependent
	g.Then = []wire.Geometry{next}
	return g
}

// raceOf times a call beside itself.
func (c *client) raceOf(t *testing.T, name string, g wire.Geometry) wire.Timed {
	t.Helper()
	var x wire.TimeAnswer
	it := wire.Contender{Binary: name, Geometry: g}
	must(t, c.ask(wire.Time, wire.TimeRequest{
		Contenders: []wire.Contender{it, it}, Shape: axpyShape(odd), Seed: 5, BatchNS: 1e6, Rounds: 5, Last: true, Latencies: 3,
	}, &x, time.Minute))
	r := x.Contenders[1]
	if r.Fault != nil || r.Guard+r.InputChanged != "" || len(r.After) != 1 || !(float64(r.After[0].Error) <= r.After[0].Limit) {
		t.Fatalf("timed: %+v, %+v", r, r.Fault)
	}
	return r
}

// TestSequence: all kernels of a call are launched, in order, with one workspace.
func TestSequence(t *testing.T) {
	hopper(t)
	c := opened(t, axpy(), nil)
	both, one := c.loadHopper(t, "scale", "add"), c.loadHopper(t, "nothing")
	if both.Registers < one.Registers || both.MaxThreads > one.MaxThreads {
		t.Errorf("two kernels: %+v; one: %+v", both, one)
	}
	if a := c.parity(t, "scale", then(false, "add"), axpyShape(odd), 3); !clean(a) {
		t.Errorf("%+v", a)
	}
	first := then(false, "add")
	first.Then = nil
	if a := c.parity(t, "scale", first, axpyShape(odd), 2); a.Outputs[0].Unwritten != odd {
		t.Errorf("the first alone: %+v", a)
	}
	r := c.raceOf(t, "scale", then(false, "add"))
	note(t, "%.0f ns on %d sets", slices.Min(r.SamplesNS), r.Sets)
	var missing wire.LoadAnswer
	must(t, c.ask(wire.Load, wire.LoadRequest{Name: "x", Cubin: cubin("hopper"), Entry: "scale", Also: []string{"none"}}, &missing, time.Minute))
	if missing.Fault == nil {
		t.Error("a kernel that is not there was loaded")
	}
	if err := c.ask(wire.Parity, wire.ParityRequest{Binary: "scale", Geometry: then(false, "together"), Shape: axpyShape(odd), Repeat: 1}, &wire.ParityAnswer{}, time.Minute); err == nil {
		t.Error("a kernel was launched with which the binary was not loaded")
	}
}

// TestDependent: a kernel that may begin early gets what it waits for, a capture of it is
// legal, and work that ends after the last kernel is waited for and counted.
func TestDependent(t *testing.T) {
	hopper(t)
	c := opened(t, axpy(), nil)
	c.loadHopper(t, "scale_late", "add_awaited", "add")
	if a := c.parity(t, "scale_late", then(true, "add_awaited"), axpyShape(odd), 3); !clean(a) {
		t.Errorf("%+v", a)
	}
	r := c.raceOf(t, "scale_late", then(true, "add_awaited"))
	// Without the wait the workspace is read while nothing is there. That kernels overlap
	// is not promised, so that this is told and not judged.
	torn := c.parity(t, "scale_late", then(true, "add"), axpyShape(odd), 2)
	note(t, "%.0f ns; overlap seen without a wait: %v", slices.Min(r.SamplesNS), !clean(torn))

	c.loadHopper(t, "all_late", "nothing")
	g := then(true, "nothing")
	if a := c.parity(t, "all_late", g, axpyShape(odd), 3); !clean(a) {
		t.Errorf("work after the last kernel was not waited for: %+v", a)
	}
	r = c.raceOf(t, "all_late", g)
	least, latency := slices.Min(r.SamplesNS), slices.Min(r.LatencyNS)
	note(t, "a launch of 1 ms by the first kernel takes %.0f ns between events, latency %.0f ns", least, latency)
	if !(least > 0.99e6) || !(latency > 0.99e6) {
		t.Error("time that the first kernel takes after the last has ended is not counted")
	}
}

// TestCooperative: all blocks are there at once, or none.
func TestCooperative(t *testing.T) {
	hopper(t)
	c := opened(t, axpy(), nil)
	c.loadHopper(t, "together")
	g := line(64)
	g.Workspace, g.Cooperative = 4*odd, true
	if a := c.parity(t, "together", g, axpyShape(odd), 3); !clean(a) {
		t.Errorf("%+v", a)
	}
	r := c.raceOf(t, "together", g)
	note(t, "%.0f ns on %d sets", slices.Min(r.SamplesNS), r.Sets)
	g.Grid[0] = 1 << 20
	if a := c.parity(t, "together", g, axpyShape(odd), 2); a.Fault == nil || a.Fault.Name != "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" || a.Fault.Fatal {
		t.Errorf("more blocks than fit: %+v", a)
	}
	g.Grid[0] = 64
	if a := c.parity(t, "together", g, axpyShape(odd), 2); !clean(a) {
		t.Errorf("after it: %+v", a)
	}
}

// TestFP8: inputs are numbers of the type and look like their distribution, and outputs are
// compared to the bit.
func TestFP8(t *testing.T) {
	const n = rows * columns
	s := wire.Shape{Name: "bytes", Dims: []int64{rows, columns}, Elements: []int64{n, n}, Reference: line(64)}
	for dtype, step := range map[string]float64{"e4m3": 0x1p-9, "e5m2": 0x1p-16} { // the smallest numbers
		t.Run(dtype, func(t *testing.T) {
			problem := copies()
			problem.Buffers[0].DType, problem.Buffers[1].DType = dtype, dtype
			c := opened(t, problem, nil)
			for _, k := range []struct {
				entry string
				sees  func(wire.ParityAnswer) bool
			}{
				{"bytes", clean},
				{"bytes_partial", func(a wire.ParityAnswer) bool {
					o := a.Outputs[0]
					return o.Unwritten == (n-5+96)/97 && o.NotFinite == o.Unwritten && o.Worst == 5
				}},
				{"bytes_wrong", func(a wire.ParityAnswer) bool {
					o := a.Outputs[0]
					return o.Error > 0 && o.Worst == 1000 && o.Unwritten == 0 && o.NotFinite == 0
				}},
				{"bytes", clean},
			} {
				c.load(t, k.entry)
				if a := c.parity(t, k.entry, line(64), s, 2); !k.sees(a) {
					t.Errorf("%s: %+v", k.entry, a)
				}
			}
			r := func() wire.Timed {
				var x wire.TimeAnswer
				it := wire.Contender{Binary: "bytes", Geometry: line(64)}
				must(t, c.ask(wire.Time, wire.TimeRequest{
					Contenders: []wire.Contender{it, it}, Shape: s, Seed: 5, BatchNS: 1e5, Rounds: 5, Last: true, Reference: true,
				}, &x, time.Minute))
				return x.Contenders[1]
			}()
			if r.Fault != nil || len(r.After) != 1 || r.After[0].Error != 0 || r.After[0].Unwritten != 0 {
				t.Errorf("timed: %+v", r)
			}
			file := filepath.Join(dir, "fp8")
			must(t, c.ask(wire.Reference, wire.ReferenceRequest{Shape: s, Seed: 3, File: file}, &wire.ReferenceAnswer{}, time.Minute))
			raw, err := os.ReadFile(file)
			must(t, err)
			sum, squares, small := 0.0, 0.0, 0
			values := map[float64]bool{}
			for i := range n {
				x := math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
				if x/step != math.Trunc(x/step) {
					t.Fatalf("element %d is %g, which is no %s", i, x, dtype)
				}
				if math.Abs(x) < 1 {
					small++
				}
				values[x] = true
				sum, squares = sum+x, squares+x*x
			}
			mean, deviation, share := sum/n, math.Sqrt(squares/n), float64(small)/n
			note(t, "%d values, mean %.4f, deviation %.4f, below 1: %.3f", len(values), mean, deviation, share)
			if len(values) < 60 || len(values) > 254 || math.Abs(mean) > 0.02 || math.Abs(deviation-1) > 0.03 || share < 0.6 || share > 0.75 {
				t.Error("the inputs are not what was asked for")
			}
		})
	}
}

// TestFP8OfTheDevice holds conversions of the worker's own against those of the device.
func TestFP8OfTheDevice(t *testing.T) {
	hopper(t)
	const n = rows * columns
	s := wire.Shape{Name: "bytes", Dims: []int64{rows, columns}, Elements: []int64{n, n}, Reference: line(64)}
	for _, k := range []struct {
		entry, in, out string
		tolerance      float64
	}{
		{"widen_e4m3", "e4m3", "f32", 0},
		{"widen_e5m2", "e5m2", "f32", 0},
		{"narrow_e4m3", "f32", "e4m3", 0.26}, // half a step between 4 and 8
		{"narrow_e5m2", "f32", "e5m2", 0.51},
	} {
		problem := copies()
		problem.Buffers[0].DType, problem.Buffers[1].DType, problem.Buffers[1].Tolerance = k.in, k.out, k.tolerance
		c := opened(t, problem, nil)
		c.loadHopper(t, k.entry)
		if a := c.parity(t, k.entry, line(64), s, 2); !clean(a) {
			t.Errorf("%s: %+v", k.entry, a)
		}
	}
}

// TestMasked: what the reference leaves unwritten is not compared, in parity, against the
// baseline while something is timed, and between launches.
func TestMasked(t *testing.T) {
	problem := axpy()
	problem.ReferenceEntry, problem.Buffers[2].UnwrittenNaN = "axpy_even", true
	c := opened(t, problem, nil)
	right := func(o wire.Output) bool {
		return float64(o.Error) <= o.Limit && o.Unwritten == 0 && o.NotFinite == 0 && o.Skipped == odd/2 && o.Elements == odd
	}
	for _, k := range []struct {
		entry string
		sees  func(wire.ParityAnswer) bool
	}{
		{"even", func(a wire.ParityAnswer) bool { return clean(a) && right(a.Outputs[0]) && a.Outputs[0].Surplus == 0 }},
		{"good", func(a wire.ParityAnswer) bool {
			return clean(a) && right(a.Outputs[0]) && a.Outputs[0].Surplus == odd/2
		}},
		{"even_wrong", func(a wire.ParityAnswer) bool {
			o := a.Outputs[0]
			return o.Error > 0.1 && o.Error < 10 && o.Worst == 1000 && o.Skipped == odd/2
		}},
		{"even_most", func(a wire.ParityAnswer) bool {
			return a.Outputs[0].Unwritten == 1 && a.Outputs[0].Worst == 1000 && a.Different == 1
		}},
		{"moody", func(a wire.ParityAnswer) bool { return a.Different > 0 && a.Different <= odd/2+1 }},
	} {
		c.load(t, k.entry)
		if a := c.parity(t, k.entry, line(64), axpyShape(odd), 2); !k.sees(a) {
			t.Errorf("%s: %+v", k.entry, a)
		}
	}
	for _, k := range []struct {
		base, it string
		right    bool
	}{{"even", "even", true}, {"even", "good", true}, {"good", "even", true}, {"even", "even_wrong", false}, {"good", "even_most", false}} {
		var x wire.TimeAnswer
		must(t, c.ask(wire.Time, wire.TimeRequest{
			Contenders: []wire.Contender{{Binary: k.base, Geometry: line(64)}, {Binary: k.it, Geometry: line(64)}},
			Shape:      axpyShape(odd), Seed: 5, BatchNS: 1e5, Rounds: 3, Last: true, Reference: true,
		}, &x, time.Minute))
		o := x.Contenders[1].After[0]
		if got := float64(o.Error) <= o.Limit && o.Unwritten == 0 && o.NotFinite == 0; got != k.right {
			t.Errorf("%s beside %s: %+v", k.it, k.base, o)
		}
	}
	var a wire.ControlAnswer
	for _, kind := range []string{"zeros", "constant", "half"} {
		must(t, c.ask(wire.Control, wire.ControlRequest{Kind: kind, Shape: axpyShape(odd), Seed: 3}, &a, time.Minute))
		note(t, "%s: error %.3g", kind, float64(a.Outputs[0].Error))
		if e := float64(a.Outputs[0].Error); e < 0.1 || e > 20 || a.Outputs[0].Skipped != odd/2 {
			t.Errorf("%s: %+v", kind, a.Outputs[0])
		}
	}
}

// TestRepeat: launches may differ by as much as is declared, and it is told by how much.
func TestRepeat(t *testing.T) {
	for _, k := range []struct {
		entry  string
		repeat float64
		sees   func(wire.ParityAnswer) bool
	}{
		{"good", 1e-5, func(a wire.ParityAnswer) bool { return clean(a) && a.Apart == 0 }},
		{"moody", 1e-5, func(a wire.ParityAnswer) bool { return clean(a) && a.Apart > 1e-8 && a.Apart <= 1e-5 }},
		{"moody", 1e-9, func(a wire.ParityAnswer) bool { return a.Different > 0 && a.Apart > 1e-9 }},
		{"moody", 0, func(a wire.ParityAnswer) bool { return a.Different > 0 && a.Apart == 0 }},
	} {
		problem := axpy()
		problem.Buffers[2].Repeat = k.repeat
		c := opened(t, problem, nil)
		c.load(t, k.entry)
		a := c.parity(t, k.entry, line(64), axpyShape(odd), 3)
		note(t, "%s, %g declared: apart by %.2g, %d differ", k.entry, k.repeat, float64(a.Apart), a.Different)
		if !k.sees(a) {
			t.Errorf("%s, %g: %+v", k.entry, k.repeat, a)
		}
	}
}
