//go:build cuda

package gputest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// edgesOf writes edge-case inputs, each of one value a buffer, and gives the part of a request for them.
func edgesOf(t *testing.T, problem wire.OpenRequest, s wire.Shape, values ...float64) (list []wire.Edge) {
	t.Helper()
	for k, v := range values {
		var raw []byte
		for i, b := range problem.Buffers {
			if b.Role != "out" {
				raw = wire.AppendElements(raw, b.DType, slices.Repeat([]float64{v + float64(i)}, int(s.Elements[i])))
			}
		}
		file := filepath.Join(t.TempDir(), "inputs")
		must(t, os.WriteFile(file, raw, 0o600))
		list = append(list, wire.Edge{Name: string(rune('a' + k)), Inputs: file, Beyond: 8, Left: file + "-left"})
	}
	return list
}

// edged times two contenders with edge-case inputs on the way, and gives what is told of the second.
func (c *client) edged(t *testing.T, base, entry string, g wire.Geometry, s wire.Shape, edges []wire.Edge) wire.Timed {
	t.Helper()
	c.load(t, base)
	if entry != base {
		c.load(t, entry)
	}
	var a wire.TimeAnswer
	must(t, c.ask(wire.Time, wire.TimeRequest{
		Contenders: []wire.Contender{{Binary: base, Geometry: g}, {Binary: entry, Geometry: g}},
		Shape:      s, Seed: 2, BatchNS: 200_000, Rounds: 3, Last: true, Edges: edges,
	}, &a, time.Minute))
	x := a.Contenders[1]
	note(t, "%s beside %s: %d sets, input %q, guard %q, after %+v, edges %+v", entry, base, x.Sets, x.InputChanged, x.Guard, x.After, x.Edges)
	if len(a.Contenders[0].Edges) > 0 || len(x.Edges) != len(edges) || len(x.SamplesNS) != 4 {
		t.Fatalf("%s: %+v", entry, a.Contenders)
	}
	for _, e := range edges {
		if !slices.ContainsFunc(x.Edges, func(seen wire.Edged) bool { return seen.Inputs == e.Inputs }) {
			t.Errorf("%s: no answer for %s", entry, e.Name)
		}
	}
	if len(x.After) != 1 || !(float64(x.After[0].Error) <= x.After[0].Limit) || x.Guard != "" {
		t.Errorf("%s: what has the declared inputs is wrong: %+v", entry, x)
	}
	return x
}

func off(list []wire.Output) bool {
	return len(list) != 1 || list[0].NotFinite > 0 || list[0].Unwritten > 0 || !(float64(list[0].Error) <= 8*list[0].Limit)
}

// TestEdges: a launch among the timed ones has edge-case inputs. Who is wrong on them alone is, and who writes to them; the
// others keep their contents. Where the two are far apart, the reference decides about both.
func TestEdges(t *testing.T) {
	for _, n := range []int64{odd, 1 << 24} {
		s := axpyShape(n)
		for _, k := range []struct {
			base, entry           string
			far, wrong, wrongBase bool
			changed               string
		}{
			{"good", "slow", false, false, false, ""},
			{"good", "narrow", true, true, false, ""},
			{"narrow", "good", true, false, true, ""},
			{"good", "greedy_at_edges", false, false, false, "x"},
		} {
			c := opened(t, axpy(), nil)
			x := c.edged(t, k.base, k.entry, line(64), s, edgesOf(t, axpy(), s, 1000, 2000, 3))
			count := 0
			for i, e := range x.Edges {
				far := len(e.Reference) > 0
				if far {
					count++
				}
				if off(e.Outputs) != far || e.Silent != "" || e.Left != "" || far && (off(e.Reference) != k.wrong || off(e.Baseline) != k.wrongBase) {
					t.Errorf("%s beside %s, edge %d: %+v", k.entry, k.base, i, e)
				}
			}
			if want := map[bool]int{true: 2}[k.far]; count != want || x.InputChanged != k.changed {
				t.Errorf("%s beside %s: %d far, want %d; input %q, want %q", k.entry, k.base, count, want, x.InputChanged, k.changed)
			}
		}
	}
}

// TestEdgesWithoutReference: what is far apart is written down.
func TestEdgesWithoutReference(t *testing.T) {
	p := axpy()
	p.Reference, p.ReferenceEntry = "", ""
	s := axpyShape(odd)
	c := opened(t, p, nil)
	x := c.edged(t, "good", "narrow", line(64), s, edgesOf(t, p, s, 1000))
	raw, err := os.ReadFile(x.Edges[0].Left)
	must(t, err)
	left := wire.Doubles(raw)
	if len(left) != 2*odd || left[7] != 0.5*50+1001 || left[odd+7] != 0.5*1000+1001 || len(x.Edges[0].Reference) > 0 {
		t.Errorf("%d doubles, %v and %v; %+v", len(left), left[7], left[len(left)-1], x.Edges[0])
	}
}

// TestEdgesInPlace: what a launch changes has edge-case contents, too.
func TestEdgesInPlace(t *testing.T) {
	p := wire.OpenRequest{
		Harness: cubin("harness"),
		Buffers: []wire.Buffer{
			{Name: "x", DType: "i32", Role: "in", Distribution: "integers", A: -100, B: 100},
			{Name: "o", DType: "i32", Role: "inout", Distribution: "integers", A: 1, B: 6},
		},
		Reference: cubin("reference"), ReferenceEntry: "accumulate",
	}
	s := wire.Shape{Name: "odd", Dims: []int64{odd}, Elements: []int64{odd, odd}, Reference: line(64)}
	c := opened(t, p, nil)
	if x := c.edged(t, "accumulate", "accumulate", line(64), s, edgesOf(t, p, s, 1e6, -1e6)); off(x.Edges[0].Outputs) || off(x.Edges[1].Outputs) {
		t.Errorf("%+v", x.Edges)
	}
}

// TestEdgesMade: contents that are made as a whole come from the file like all others, and other launches keep theirs.
func TestEdgesMade(t *testing.T) {
	p := wire.OpenRequest{
		Harness: cubin("harness"),
		Buffers: []wire.Buffer{
			{Name: "t", DType: "i32", Role: "in", Distribution: wire.Made},
			{Name: "u", DType: "i32", Role: "in", Distribution: wire.Made},
			{Name: "x", DType: "f32", Role: "in", Distribution: "normal", B: 1},
			{Name: "o", DType: "f32", Role: "out", Tolerance: 1e-5},
		},
		Reference: cubin("reference"), ReferenceEntry: "together",
	}
	s := wire.Shape{Name: "odd", Dims: []int64{odd}, Elements: []int64{1, 1, odd, odd}, Reference: line(64), Made: filepath.Join(t.TempDir(), "made")}
	must(t, os.WriteFile(s.Made, wire.AppendElements(nil, "i32", []float64{1, 1, 2, 2, 3, 3}), 0o600))
	c := opened(t, p, nil)
	// Values differ by buffer, so the answer tells that these two do not belong together.
	if x := c.edged(t, "together", "together", line(64), s, edgesOf(t, p, s, 1)); off(x.Edges[0].Outputs) {
		t.Errorf("%+v", x.Edges)
	}
}

// TestOffsets: elements in ascending order are made for each launch, and again alike where they are checked.
func TestOffsets(t *testing.T) {
	p := wire.OpenRequest{
		Harness: cubin("harness"),
		Buffers: []wire.Buffer{{Name: "s", DType: "i32", Role: "in", Distribution: wire.Made}, {Name: "o", DType: "f32", Role: "out", Tolerance: 1e-5}},
	}
	for _, n := range []int64{2, 17, odd} {
		s := wire.Shape{Name: "s", Dims: []int64{n}, Elements: []int64{n, n}, Made: filepath.Join(t.TempDir(), "made"), Keyed: []wire.Keyed{{Distribution: "offsets", B: 1000}, {}}}
		must(t, os.WriteFile(s.Made, make([]byte, wire.MadeContents*n*wire.ElementBytes("i32")), 0o600))
		c := opened(t, p, nil)
		if x := c.edged(t, "ones", "ascends", line(64), s, nil); x.InputChanged != "" || x.After[0].Error != 0 {
			t.Errorf("%d elements: %+v", n, x)
		}
	}
}
