//go:build cuda

package gputest

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// mapped compares one launch on buffers between pages that are not mapped.
func (c *client) mapped(t *testing.T, entry string, g wire.Geometry, s wire.Shape, where string) (a wire.ParityAnswer) {
	t.Helper()
	must(t, c.ask(wire.Parity, wire.ParityRequest{Binary: entry, Geometry: g, Shape: s, Seed: 7, Repeat: 1, Mapped: where, TimeoutNS: 1e9}, &a, time.Minute))
	return a
}

// TestMapped: an access outside of a buffer is a fault where nothing is mapped there, and what is read or written in
// the gap before the end is seen. Whoever keeps to its buffers is right.
func TestMapped(t *testing.T) {
	if !device.Mapping {
		t.Skip("NOT RUN: the driver does not map memory at chosen addresses")
	}
	outside := func(a wire.ParityAnswer) bool {
		return a.Fault != nil && a.Fault.Fatal && a.Fault.Name == "CUDA_ERROR_ILLEGAL_ADDRESS"
	}
	work := line(64)
	work.Workspace = 1000
	for _, k := range []struct {
		entry, where string
		n            int64
		g            wire.Geometry
		sees         func(wire.ParityAnswer) bool
	}{
		{"good", wire.AtEnd, odd, line(64), clean},
		{"good", wire.AtBegin, odd, line(64), clean},
		{"good", wire.AtEnd, 1 << 19, line(64), clean}, // whole pages
		{"good", wire.AtEnd, 1, line(64), clean},
		{"vectors", wire.AtEnd, odd, line(64), clean},
		{"vectors", wire.AtBegin, odd, line(64), clean},
		{"counted", wire.AtEnd, odd, work, clean},
		{"reads_beyond", wire.AtEnd, odd, line(64), outside},
		{"reads_beyond", wire.AtBegin, odd, line(64), clean},
		{"reads_before", wire.AtBegin, odd, line(64), outside},
		{"reads_before", wire.AtEnd, odd, line(64), clean},
		{"writes_far", wire.AtEnd, odd, line(64), outside},
		{"works_beyond", wire.AtEnd, odd, work, outside},
		{"works_beyond", wire.AtBegin, odd, work, func(a wire.ParityAnswer) bool { return a.Guard == "workspace" && a.GuardOffset >= 1008 }},
		{"counts_tail", wire.AtEnd, odd, line(64), func(a wire.ParityAnswer) bool {
			return a.Fault == nil && len(a.Outputs) == 1 && float64(a.Outputs[0].Error) > a.Outputs[0].Limit && a.Outputs[0].Worst == odd-1
		}},
		{"past_end", wire.AtBegin, odd, line(64), func(a wire.ParityAnswer) bool { return a.Guard == "o" && a.GuardOffset/4 == odd+3 }},
	} {
		t.Run(k.entry+" "+k.where, func(t *testing.T) {
			c := opened(t, axpy(), nil)
			c.load(t, k.entry)
			begin := time.Now()
			a := c.mapped(t, k.entry, k.g, axpyShape(k.n), k.where)
			note(t, "seen %v in %v: fault %+v zone %q%+d %+v", k.sees(a), time.Since(begin).Round(time.Microsecond), a.Fault, a.Guard, a.GuardOffset, a.Outputs)
			if !k.sees(a) {
				t.Errorf("%+v", a)
			}
			if a.Fault != nil {
				return
			}
			// The worker goes on as before.
			c.load(t, "good")
			if a := c.parity(t, "good", line(64), axpyShape(odd), 2); !clean(a) {
				t.Errorf("after it: %+v", a)
			}
		})
	}
	c := opened(t, axpy(), nil)
	c.load(t, "good")
	if a := c.parity(t, "good", line(64), axpyShape(odd), 2); !clean(a) {
		t.Error("before")
	}
	var before, after wire.TelemetryAnswer
	must(t, c.ask(wire.Telemetry, wire.TelemetryRequest{}, &before, time.Minute))
	begin := time.Now()
	for range 50 {
		if a := c.mapped(t, "good", line(64), axpyShape(odd), wire.AtEnd); !clean(a) {
			t.Fatalf("%+v", a)
		}
	}
	each := time.Since(begin) / 50
	must(t, c.ask(wire.Telemetry, wire.TelemetryRequest{}, &after, time.Minute))
	note(t, "%v each; device memory %d MiB, then %d MiB", each.Round(time.Microsecond), before.State.UsedBytes>>20, after.State.UsedBytes>>20)
	if after.State.UsedBytes > before.State.UsedBytes+8<<20 {
		t.Error("device memory grows")
	}
	// More than there is: nothing was launched, and the worker goes on.
	large := axpyShape(odd)
	g := line(64)
	g.Workspace = device.MemoryBytes * 2
	a := c.mapped(t, "good", g, large, wire.AtEnd)
	note(t, "too large: %q", a.NotMapped)
	if a.NotMapped == "" || a.Fault != nil {
		t.Errorf("%+v", a)
	}
	if a := c.mapped(t, "good", line(64), axpyShape(odd), wire.AtEnd); !clean(a) {
		t.Errorf("after it: %+v", a)
	}
}

// TestMappedTiles: the tensor memory accelerator reads nothing outside of an array whose last rows and columns it
// does not fill.
func TestMappedTiles(t *testing.T) {
	hopper(t)
	g, s := tiled()
	for _, where := range []string{wire.AtEnd, wire.AtBegin} {
		c := opened(t, copies(), nil)
		c.loadHopper(t, "tile_copy")
		if a := c.mapped(t, "tile_copy", g, s, where); !clean(a) {
			t.Errorf("%s: %+v", where, a)
		}
	}
}

// TestScribbled: what a candidate changes of what the worker keeps for other shapes is made anew before another is
// compared with it.
func TestScribbled(t *testing.T) {
	const small, other = 4099, 5003
	c := opened(t, axpy(), nil)
	c.load(t, "good")
	for _, n := range []int64{small, other, small + 1, other + 1} {
		if a := c.parity(t, "good", line(8), axpyShape(n), 2); !clean(a) {
			t.Fatalf("before: %+v", a)
		}
	}
	c.load(t, "scribbles")
	a := c.parity(t, "scribbles", line(8), axpyShape(small), 1)
	note(t, "the one that scribbles: fault %+v in %q zone %q%+d different %d", a.Fault, a.InputChanged, a.Guard, a.GuardOffset, a.Different)
	if a.Fault != nil && a.Fault.Fatal {
		t.Fatal("it did not outlive its own request")
	}
	begin := time.Now()
	c.load(t, "good")
	for _, n := range []int64{other, small, other + 1, small + 1} {
		if a := c.parity(t, "good", line(8), axpyShape(n), 2); !clean(a) {
			t.Errorf("an honest one after it, at %d: %+v", n, a)
		}
	}
	took := time.Since(begin)
	c.load(t, "wrong")
	if a := c.parity(t, "wrong", line(8), axpyShape(other), 2); clean(a) {
		t.Error("a wrong one after it passes")
	}
	if err := c.end(); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	said := c.said.String()
	note(t, "four comparisons after it in %v; said %q", took.Round(time.Microsecond), said)
	if !strings.Contains(said, "made anew") {
		t.Error("nothing that is kept was changed: the test tests nothing")
	}
}

// TestReviewed: what the review of all that is kept takes.
func TestReviewed(t *testing.T) {
	c := opened(t, axpy(), nil)
	c.load(t, "good")
	const shapes = 30
	for n := range int64(shapes) {
		if a := c.parity(t, "good", line(64), axpyShape(1<<20+n), 2); !clean(a) {
			t.Fatalf("%+v", a)
		}
	}
	best := map[bool]time.Duration{}
	for range 20 {
		c.load(t, "good")
		for _, reviewed := range []bool{true, false} {
			begin := time.Now()
			if a := c.parity(t, "good", line(64), axpyShape(1<<20), 2); !clean(a) {
				t.Fatalf("%+v", a)
			}
			if d := time.Since(begin); best[reviewed] == 0 || d < best[reviewed] {
				best[reviewed] = d
			}
		}
	}
	note(t, "a comparison %v, with a review of %d shapes of 12 MiB %v", best[false].Round(time.Microsecond), shapes, best[true].Round(time.Microsecond))
}

// TestTornSequence: a kernel that does not wait for the one before it is wrong where that is late, in every second
// launch on the same inputs.
func TestTornSequence(t *testing.T) {
	hopper(t)
	c := opened(t, axpy(), nil)
	c.loadHopper(t, "scale_late", "add_awaited", "add")
	if a := c.parity(t, "scale_late", then(true, "add_awaited"), axpyShape(odd), 20); !clean(a) {
		t.Errorf("%+v", a)
	}
	a := c.parity(t, "scale_late", then(true, "add"), axpyShape(odd), 20)
	note(t, "without a wait: %d differ, %+v", a.Different, a.Outputs)
	if clean(a) {
		t.Error("a launch that does not wait passes")
	}
}
