package cpu

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/kernels"
)

// cellBits is the number of cells of a normal distribution, as a power of two.
const cellBits = 12

// A cell is a part of the standard normal distribution with the same chance as each other:
// numbers from low on, evenly over a width. Those at both ends are drawn otherwise.
type cell struct{ low, width float64 }

var normalCells = sync.OnceValue(func() *[1 << cellBits]cell {
	var cells [1 << cellBits]cell
	low := normalAt(1 / float64(len(cells)))
	for i := 1; i < len(cells)-1; i++ {
		high := normalAt(float64(i+1) / float64(len(cells)))
		cells[i] = cell{low, high - low}
		low = high
	}
	return &cells
})

// normalAt is the number below which the standard normal distribution is with a chance.
func normalAt(chance float64) float64 { return math.Sqrt2 * math.Erfinv(2*chance-1) }

// quick makes contents that are timed: like fill, but several times faster. Elements are drawn of
// the whole distribution, so that no candidate can learn which values come.
func (d distribution) quick(b []byte, t dtype, s *stream) {
	n := len(b) / t.size()
	switch {
	case d.kind == "constant":
		d.fill(b, t, s)
	case d.kind == "integers":
		low, count := int64(math.Ceil(d.a)), uint64(int64(math.Floor(d.b))-int64(math.Ceil(d.a)))+1
		one := func() int64 {
			high, _ := bits.Mul64(s.next(), count)
			return low + int64(high)
		}
		switch t {
		case i32:
			whole(view[int32](b), one)
		case i64:
			whole(view[int64](b), one)
		case i16:
			whole(view[int16](b), one)
		case i8:
			whole(view[int8](b), one)
		case u8:
			whole(view[uint8](b), one)
		default:
			for i := range n {
				t.put(b, i, float64(one()))
			}
		}
	case t == f32:
		d.singles(view[float32](b), s)
	case t == f64:
		out := view[float64](b)
		for i := range out {
			out[i] = d.real(s.next(), s)
		}
	default: // rounded once more, which no bound of the distribution minds
		var some [512]float32
		for from := 0; from < n; from += len(some) {
			part := some[:min(len(some), n-from)]
			d.singles(part, s)
			to := view[uint16](b)[from:]
			for i, x := range part {
				if t == bf16 {
					to[i] = brainBits(float64(x))
				} else {
					to[i] = halfOf(x)
				}
			}
		}
	}
}

// singles makes numbers of single precision, two of each number of the stream.
func (d distribution) singles(out []float32, s *stream) {
	cells, normal := normalCells(), d.kind == "normal"
	width := d.b - d.a
	for i := 0; i < len(out); i += 2 {
		z := s.next()
		for k := range min(2, len(out)-i) {
			half := z << (32 * k) >> 32
			var x float64
			at := half >> (32 - cellBits)
			switch {
			case !normal:
				if x = float64(float32(d.a + width*(float64(half)*0x1p-32))); x < d.a || x > d.b {
					x = (d.a + d.b) / 2 // single precision lacks the ends
				}
			case at-1 < 1<<cellBits-2:
				x = d.a + d.b*(cells[at].low+cells[at].width*(float64(half&(1<<(32-cellBits)-1))*(1./(1<<(32-cellBits)))))
			default:
				x = d.real(half<<32, s)
			}
			out[i+k] = float32(x)
		}
	}
}

func whole[T int64 | int32 | int16 | int8 | uint8](out []T, one func() int64) {
	for i := range out {
		out[i] = T(one())
	}
}

// real makes a number of the bits of z and, seldom, of more.
func (d distribution) real(z uint64, s *stream) float64 {
	if d.kind != "normal" {
		return d.a + (d.b-d.a)*(float64(z>>11)*0x1p-53)
	}
	i := z >> (64 - cellBits)
	if i-1 < 1<<cellBits-2 {
		c := &normalCells()[i]
		return d.a + d.b*(c.low+c.width*(float64(z<<cellBits>>11)*0x1p-53))
	}
	x := normalAt((float64(s.next()>>11) + 0.5) * 0x1p-53 / (1 << cellBits))
	if i != 0 {
		x = -x
	}
	return d.a + d.b*x
}

// contents makes those of a buffer for a set.
func (t *timingState) contents(to []byte, d *shapeData, set uint32, buffer int) {
	p := t.places[d]
	seed := p.seeds[set]
	switch b := t.q.buffers[buffer]; {
	case p.given[set] != nil && p.given[set][buffer] != nil:
		copy(to, p.given[set][buffer])
	case b.Data.Distribution == kernels.Python: // there was no time, see given
		copy(to, d.inputs[p.made[set]%variants][buffer])
	case t.q.made(buffer):
		values, err := t.q.spec.Made(b, d.shape, p.made[set]+uint64(buffer))
		if err != nil {
			panic(err) // parity has had them at this shape
		}
		t.q.dtypes[buffer].putAll(to, values)
	default:
		from := stream(seed + uint64(buffer))
		t.q.data[buffer].quick(to, t.q.dtypes[buffer], &from)
	}
}

// refresh gives the next sets contents that no candidate has seen, and takes them out of the
// caches again. It does so right before they are used: contents whose turn is yet to come are
// nowhere that a candidate can read. The sets are those of the next turns, by sides, the candidate's and the
// baseline's: what is made as a whole is the same for the first launch of each side, for the second, and
// so on, since how long a launch takes may depend on it.
func (t *timingState) refresh(d *shapeData, sides ...[]uint32) error {
	p := t.places[d]
	sets := p.turn(len(slices.Concat(sides...)))
	for _, set := range sets {
		p.seeds[set] = p.pool.Uint64()
	}
	alike := p.alike.Uint64()
	for _, side := range sides {
		from := stream(alike)
		for _, set := range side {
			p.made[set] = from.next()
		}
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
			seeds[i] = (p.made[set] + uint64(b)) >> 1 // Python gets them as an int64
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

// waiting gives those of a batch's sets that no launch can have begun to work on, by what is in their
// outputs: one may be at work, the first that lacks something. It names a buffer of these that is not
// as prime left it.
func (t *timingState) waiting(a *arena, d *shapeData, sets []uint32) (waiting []uint32, changed string) {
	first := slices.IndexFunc(sets, func(set uint32) bool { _, done := t.written(a, d, set); return !done })
	if first < 0 {
		return nil, ""
	}
	for _, set := range sets[first+1:] {
		name, _ := t.written(a, d, set)
		if waiting = append(waiting, set); name != "" {
			changed = name
		}
	}
	return waiting, changed
}

// written names an output of a set that is not as prime left it, and says whether all may have been
// written: none is as it was, and floating-point outputs hold no poison any more.
func (t *timingState) written(a *arena, d *shapeData, set uint32) (name string, done bool) {
	done = true
	for b := range d.layout.buffers {
		l := &d.layout.buffers[b]
		got, was := a.buffer(&d.layout, t.places[d].base, int(set), b), d.poison[b]
		switch l.role {
		case roleIn:
			continue
		case roleInOut:
			was = make([]byte, len(got))
			t.contents(was, d, set, b)
		}
		if bytes.Equal(got, was) {
			done = false
			continue
		}
		name = l.name
		if size := l.dtype.size(); l.role == roleOut && !l.dtype.integer() {
			for at := 0; at < len(got) && done; at += size {
				done = !bytes.Equal(got[at:at+size], was[at:at+size])
			}
		}
	}
	return name, done
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
