package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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
	// noise is the bits of an element that are drawn anew each time, 16 at most: a
	// candidate could learn the answers to all elements of a table. They change an
	// element by 2^-15 of itself at most.
	noise uint64
}

func newTable(d distribution, t dtype, seed uint64) table {
	tb := table{dtype: t, raw: make([]byte, t.size()<<tableBits)}
	s := stream(seed)
	d.fill(tb.raw, t, &s)
	switch {
	case d.kind != "uniform" && d.kind != "normal":
	case t == f32:
		tb.noise = 1<<8 - 1
		quiet[float32](d, tb.raw, uint32(tb.noise), &s)
	case t == f64:
		tb.noise = 1<<16 - 1
		quiet[float64](d, tb.raw, tb.noise, &s)
	}
	return tb
}

// quiet draws elements again that noise could take past the ends of their
// distribution, as long as there are others.
func quiet[F float32 | float64, T uint32 | uint64](d distribution, raw []byte, noise T, s *stream) {
	if d.kind != "uniform" {
		return
	}
	values, bits := view[F](raw), view[T](raw)
	ends := [2]F{F(d.a), F(d.b)}
	for i := range values {
		for range 64 {
			low, high := bits[i]&^noise, bits[i]|noise
			x, y := *(*F)(unsafe.Pointer(&low)), *(*F)(unsafe.Pointer(&high))
			if min(x, y) >= ends[0] && max(x, y) <= ends[1] {
				break
			}
			values[i] = F(d.draw(s))
		}
	}
}

// fill makes contents of b, which is aligned to its elements.
func (t table) fill(b []byte, seed uint64) {
	s := stream(seed)
	switch {
	case t.noise != 0:
		t.fillNoisy(b, &s)
	case t.dtype.size() == 1:
		choose(view[uint8](b), view[uint8](t.raw), &s)
	case t.dtype.size() == 2:
		choose(view[uint16](b), view[uint16](t.raw), &s)
	case t.dtype.size() == 4:
		choose(view[uint32](b), view[uint32](t.raw), &s)
	default:
		choose(view[uint64](b), view[uint64](t.raw), &s)
	}
}

func choose[T uint8 | uint16 | uint32 | uint64](out, table []T, s *stream) {
	from := (*[1 << tableBits]T)(table)
	for ; len(out) >= 4; out = out[4:] {
		z := s.next()
		out[0], out[1], out[2], out[3] = from[z&0xffff], from[z>>16&0xffff], from[z>>32&0xffff], from[z>>48]
	}
	for z := s.next(); len(out) > 0; out, z = out[1:], z>>16 {
		out[0] = from[z&0xffff]
	}
}

// fillNoisy chooses vectors of 16 bytes and changes the last bits of their elements.
func (t table) fillNoisy(b []byte, s *stream) {
	from := view[uint64](t.raw)
	vectors, noise, shift := uint64(len(from)/2-1), t.noise, 32
	if t.dtype == f32 {
		noise, shift = noise|noise<<32, 24
	}
	next := func(b []byte) {
		z := s.next()
		k := 2 * (z & vectors)
		binary.NativeEndian.PutUint64(b, from[k]^z>>16&noise)
		binary.NativeEndian.PutUint64(b[8:], from[k+1]^z>>shift&noise)
	}
	for ; len(b) >= 16; b = b[16:] {
		next(b)
	}
	var last [16]byte
	next(last[:])
	copy(b, last[:])
}

// refresh gives the next n sets contents that no candidate has seen, the same ones in
// both arenas, and takes them out of the caches again. It does so right before they are
// used: contents whose turn is yet to come are nowhere that a candidate can read.
func (t *timingState) refresh(d *shapeData, n int) {
	p := t.places[d]
	sets := p.turn(n)
	for _, set := range sets {
		p.seeds[set] = p.pool.Uint64()
	}
	each(sets, func(set uint32) {
		for b := range d.layout.buffers {
			if d.layout.buffers[b].role == roleIn {
				theirs, ours := t.theirs.buffer(&d.layout, p.base, int(set), b), t.ours.buffer(&d.layout, p.base, int(set), b)
				t.tables[b].fill(theirs, p.seeds[set]+uint64(b))
				copy(ours, theirs)
				evict(theirs)
				evict(ours)
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
				t.tables[b].fill(out, p.seeds[set]+uint64(b))
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
				t.tables[b].fill(want, p.seeds[set]+uint64(b))
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
