package cpu

import (
	"fmt"
	"slices"
	"unsafe"
)

// tableBits is the size of a table of elements, as a power of two: it stays in a
// core's own cache.
const tableBits = 16

// A table holds elements of one buffer's distribution, drawn from a secret. Contents
// that nobody has seen before are made by choosing among them.
type table struct {
	dtype dtype
	raw   []byte
}

func newTable(d distribution, t dtype, seed uint64) table {
	tb := table{dtype: t, raw: make([]byte, t.size()<<tableBits)}
	s := stream(seed)
	d.fill(tb.raw, t, &s)
	return tb
}

// fill makes contents of b, which is aligned to its elements.
func (t table) fill(b []byte, seed uint64) {
	s := stream(seed)
	switch t.dtype.size() {
	case 1:
		choose[uint8](b, t.raw, &s)
	case 2:
		choose[uint16](b, t.raw, &s)
	case 4:
		choose[uint32](b, t.raw, &s)
	default:
		choose[uint64](b, t.raw, &s)
	}
}

func choose[T uint8 | uint16 | uint32 | uint64](b, raw []byte, s *stream) {
	var one T
	size := int(unsafe.Sizeof(one))
	if len(b) < size {
		return
	}
	out := unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/size)
	from := (*[1 << tableBits]T)(unsafe.Pointer(&raw[0]))
	for ; len(out) >= 4; out = out[4:] {
		z := s.next()
		out[0], out[1], out[2], out[3] = from[z&0xffff], from[z>>16&0xffff], from[z>>32&0xffff], from[z>>48]
	}
	for z := s.next(); len(out) > 0; out, z = out[1:], z>>16 {
		out[0] = from[z&0xffff]
	}
}

// refresh gives the next n sets contents that no candidate has seen, the same ones in
// both arenas, and takes them out of the caches again. It does so right before they are
// used: contents whose turn is yet to come are nowhere that a candidate can read.
func (t *timingState) refresh(d *shapeData, n int) {
	p := t.places[d]
	for _, set := range p.turn(n) {
		p.seeds[set] = p.pool.Uint64()
		for b := range d.layout.buffers {
			if d.layout.buffers[b].role == roleIn {
				theirs, ours := t.theirs.buffer(&d.layout, p.base, int(set), b), t.ours.buffer(&d.layout, p.base, int(set), b)
				t.tables[b].fill(theirs, p.seeds[set]+uint64(b))
				copy(ours, theirs)
				evict(theirs)
				evict(ours)
			}
		}
	}
}

// prime puts into outputs what a launch must find there: poison or, where an
// output is read as well, the set's contents.
func (t *timingState) prime(a *arena, d *shapeData, sets []uint32) {
	p := t.places[d]
	for _, set := range sets {
		for b := range d.layout.buffers {
			out := a.buffer(&d.layout, p.base, int(set), b)
			switch d.layout.buffers[b].role {
			case roleOut:
				copy(out, d.poison[b])
			case roleInOut:
				t.tables[b].fill(out, p.seeds[set]+uint64(b))
			}
		}
	}
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
			for i, v := range floats32(got) {
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
