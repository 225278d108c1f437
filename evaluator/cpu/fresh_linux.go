package cpu

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/kernels"
)

// tableBits is the size of a table of elements, as a power of two: it stays in a
// core's own cache.
const tableBits = 16

// A table holds elements of one buffer's distribution, drawn from a secret. Contents
// that nobody has seen before are made by choosing among them.
type table struct {
	dtype dtype
	raw   []byte
	// noise is the bits of an element that are drawn anew each time. A candidate could
	// learn the answers for all elements of a table: so these bits matter more than any
	// tolerance. They are at most all but seven of the mantissa.
	noise uint64
	// each is set where there are more integers than a table has room for: every element
	// is drawn from it.
	each *distribution
}

func newTable(d distribution, t dtype, seed uint64) table {
	if d.kind == "integers" && d.b-d.a >= 1<<tableBits && t.size() >= 4 {
		return table{dtype: t, each: &d}
	}
	tb := table{dtype: t, raw: make([]byte, t.size()<<tableBits)}
	s := stream(seed)
	d.fill(tb.raw, t, &s)
	if d.kind == "uniform" || d.kind == "normal" {
		switch t {
		case f32:
			tb.noise = uint64(quiet[float32](d, tb.raw, uint32(1<<16-1), &s))
		case f64:
			tb.noise = quiet[float64](d, tb.raw, uint64(1<<45-1), &s)
		}
	}
	return tb
}

// quiet gives as much of the noise as fits well into a distribution with ends, and draws
// elements again that it could take past these.
func quiet[F float32 | float64, T uint32 | uint64](d distribution, raw []byte, noise T, s *stream) T {
	if d.kind != "uniform" {
		return noise
	}
	values, bits := view[F](raw), view[T](raw)
	span := func(i int) (least, most F) {
		low, high := bits[i]&^noise, bits[i]|noise
		x, y := *(*F)(unsafe.Pointer(&low)), *(*F)(unsafe.Pointer(&high))
		return min(x, y), max(x, y)
	}
	for i := range values {
		for least, most := span(i); ; least, most = span(i) {
			if noise != 0 && float64(most)-float64(least) > (d.b-d.a)/64 {
				return quiet[F](d, raw, noise>>1, s)
			}
			if noise == 0 || float64(least) >= d.a && float64(most) <= d.b {
				break
			}
			values[i] = F(d.draw(s))
		}
	}
	return noise
}

// fill makes contents of b, which is aligned to its elements.
func (t table) fill(b []byte, seed uint64) {
	s := stream(seed)
	if t.each != nil {
		t.each.fill(b, t.dtype, &s)
		return
	}
	switch t.dtype.size() {
	case 1:
		choose(view[uint8](b), view[uint8](t.raw), 0, &s)
	case 2:
		choose(view[uint16](b), view[uint16](t.raw), 0, &s)
	case 4:
		choose(view[uint32](b), view[uint32](t.raw), uint32(t.noise), &s)
	default:
		choose(view[uint64](b), view[uint64](t.raw), t.noise, &s)
	}
}

func choose[T uint8 | uint16 | uint32 | uint64](out, table []T, noise T, s *stream) {
	from := (*[1 << tableBits]T)(table)
	for ; len(out) >= 4; out = out[4:] {
		z := s.next()
		out[0], out[1], out[2], out[3] = from[z&0xffff], from[z>>16&0xffff], from[z>>32&0xffff], from[z>>48]
		switch {
		case noise == 0:
		case uint64(noise) <= 0xffff:
			z = s.next()
			out[0], out[1], out[2], out[3] = out[0]^T(z)&noise, out[1]^T(z>>16)&noise, out[2]^T(z>>32)&noise, out[3]^T(z>>48)&noise
		default:
			out[0], out[1], out[2], out[3] = out[0]^T(s.next())&noise, out[1]^T(s.next())&noise, out[2]^T(s.next())&noise, out[3]^T(s.next())&noise
		}
	}
	for z := s.next(); len(out) > 0; out, z = out[1:], z>>16 {
		out[0] = from[z&0xffff] ^ T(s.next())&noise
	}
}

// contents makes those of a buffer for a set.
func (t *timingState) contents(to []byte, d *shapeData, set uint32, buffer int) {
	p := t.places[d]
	seed := p.seeds[set]
	switch b := t.q.buffers[buffer]; {
	case p.given[set] != nil && p.given[set][buffer] != nil:
		copy(to, p.given[set][buffer])
	case b.Data.Distribution == kernels.Python: // there was no time, see given
		copy(to, d.inputs[seed%variants][buffer])
	case t.q.made(buffer):
		values, err := t.q.spec.Made(b, d.shape, seed+uint64(buffer))
		if err != nil {
			panic(err) // parity has had them at this shape
		}
		t.q.dtypes[buffer].putAll(to, values)
	default:
		t.tables[buffer].fill(to, seed+uint64(buffer))
	}
}

// refresh gives the next n sets contents that no candidate has seen, and takes them out of the
// caches again. It does so right before they are used: contents whose turn is yet to come are
// nowhere that a candidate can read.
func (t *timingState) refresh(d *shapeData, n int) error {
	p := t.places[d]
	sets := p.turn(n)
	for _, set := range sets {
		p.seeds[set] = p.pool.Uint64()
	}
	if err := t.give(d, sets); err != nil {
		return err
	}
	t.load(t.ours, d, sets)
	return nil
}

// give has functions in Python make what they make of sets. They may take as long as all that
// is timed, and a little at first; when they have, sets keep what they had at their last turn.
func (t *timingState) give(d *shapeData, sets []uint32) error {
	p := t.places[d]
	for b := range t.q.buffers {
		if t.q.buffers[b].Data.Distribution != kernels.Python {
			continue
		}
		seeds := make([]uint64, len(sets))
		for i, set := range sets {
			seeds[i] = (p.seeds[set] + uint64(b)) >> 1 // Python gets them as an int64
		}
		begin := time.Now()
		if t.pythonTime > pythonGrace+begin.Sub(t.drawn)/2 {
			continue
		}
		values, err := t.h.python.Fresh(t.h.holding, d.Size, b, seeds)
		if err != nil {
			return python.Blame(err, ErrReference, "kernel "+t.q.name+", shape "+d.shape.Name)
		}
		t.pythonTime += time.Since(begin)
		for i, set := range sets {
			if p.given[set] == nil {
				p.given[set] = make([][]byte, len(t.q.buffers))
			}
			p.given[set][b] = make([]byte, d.layout.buffers[b].bytes)
			t.q.dtypes[b].putAll(p.given[set][b], values[i])
		}
	}
	return nil
}

// load makes the inputs of sets.
func (t *timingState) load(a *arena, d *shapeData, sets []uint32) {
	p := t.places[d]
	each(sets, func(set uint32) {
		for b := range d.layout.buffers {
			if d.layout.buffers[b].role == roleIn {
				to := a.buffer(&d.layout, p.base, int(set), b)
				t.contents(to, d, set, b)
				evict(to)
			}
		}
	})
}

// each does something with sets, on all cores: nothing is timed meanwhile.
func each(sets []uint32, do func(set uint32)) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range min(runtime.NumCPU(), len(sets)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(sets)); i = next.Add(1) - 1 {
				do(sets[i])
			}
		})
	}
	all.Wait()
}

// prime puts into outputs what a launch must find there: poison or, where an
// output is read as well, the set's contents.
func (t *timingState) prime(a *arena, d *shapeData, sets []uint32) {
	p := t.places[d]
	each(sets, func(set uint32) {
		for b := range d.layout.buffers {
			out := a.buffer(&d.layout, p.base, int(set), b)
			switch d.layout.buffers[b].role {
			case roleOut:
				copy(out, d.poison[b])
			case roleInOut:
				t.contents(out, d, set, b)
			}
		}
	})
}

// changed names a buffer of sets in which no launch has begun that is not as prime
// left it; inputs cannot be written to.
func (t *timingState) changed(a *arena, d *shapeData, sets []uint32) string {
	p := t.places[d]
	for b := range d.layout.buffers {
		l := &d.layout.buffers[b]
		want := d.poison[b]
		for _, set := range sets {
			if l.role == roleInOut {
				want = append([]byte(nil), a.buffer(&d.layout, p.base, int(set), b)...)
				t.contents(want, d, set, b)
			}
			if l.role != roleIn && !bytes.Equal(a.buffer(&d.layout, p.base, int(set), b), want) {
				return l.name
			}
		}
	}
	return ""
}

// answer is what the baseline has computed in a set, as what a candidate's outputs
// are compared with; by buffer, empty for inputs. It is valid until the next.
func (t *timingState) answer(d *shapeData, set uint32) ([]expected, error) {
	all := make([]expected, len(d.layout.buffers))
	for b := range d.layout.buffers {
		p := &d.layout.buffers[b]
		if p.role == roleIn {
			continue
		}
		got := t.theirs.buffer(&d.layout, t.places[d].base, int(set), b)
		t.values[b] = slices.Grow(t.values[b][:0], p.elements)[:p.elements]
		values := t.values[b]
		if p.dtype == f32 {
			for i, v := range view[float32](got) {
				values[i] = float64(v)
			}
		} else {
			for i := range values {
				values[i] = p.dtype.get(got, i)
			}
		}
		e, err := newExpected(values)
		if err != nil {
			return nil, fmt.Errorf("the baseline at shape %s: output %s: %w", d.shape.Name, p.name, err)
		}
		all[b] = e
	}
	return all, nil
}
