package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/kernels"
)

// Of 32 bits, cellBits say in which cell of a normal distribution a number is, and restBits where there.
const (
	cellBits = 10
	restBits = 32 - cellBits
)

// A cell is a part of the standard normal distribution with the same chance as each other: numbers
// from low on, in steps. Both ends have no step, and their side as low.
type cell struct{ low, step float64 }

var normalCells = sync.OnceValue(func() *[1 << cellBits]cell {
	var cells [1 << cellBits]cell
	low := normalAt(1 / float64(len(cells)))
	for i := 1; i < len(cells)-1; i++ {
		high := normalAt(float64(i+1) / float64(len(cells)))
		cells[i] = cell{low, (high - low) / (1 << restBits)}
		low = high
	}
	cells[0].low, cells[len(cells)-1].low = -1, 1
	return &cells
})

// normalAt is the number below which the standard normal distribution is with a chance.
func normalAt(chance float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*chance) }

// A secret makes the numbers of timed contents: those of a [stream] whose multipliers are secret as well. Of
// a stream's own, a few elements give all the others, which a launch then need not read.
type secret struct{ at, first, second uint64 }

// newSecret is that of a buffer in a set, which the set's seed decides.
func newSecret(seed uint64, buffer int) secret {
	var key [32]byte
	binary.NativeEndian.PutUint64(key[:], seed)
	binary.NativeEndian.PutUint64(key[8:], uint64(buffer))
	from := rand.NewChaCha8(key)
	return secret{from.Uint64(), from.Uint64() | 1, from.Uint64() | 1}
}

// weyl is what the counter of a secret is increased by, as of a [stream].
const weyl = 0x9e3779b97f4a7c15

func (s *secret) next() uint64 {
	s.at += weyl
	z := s.at
	z = (z ^ z>>30) * s.first
	z = (z ^ z>>27) * s.second
	return z ^ z>>31
}

// quick makes contents that are timed: like fill, but several times faster. Elements are drawn of
// the whole distribution, so that no candidate can learn which values come.
func (d distribution) quick(b []byte, t dtype, from secret) {
	n := len(b) / t.size()
	switch {
	case d.kind == "constant":
		d.fill(b, t, new(stream))
	case d.kind == "integers" && t == i32:
		whole(view[int32](b), d, from)
	case d.kind == "integers" && t == i64:
		whole(view[int64](b), d, from)
	case d.kind == "integers" && t == i16:
		whole(view[int16](b), d, from)
	case d.kind == "integers" && t == i8:
		whole(view[int8](b), d, from)
	case d.kind == "integers" && t == u32:
		whole(view[uint32](b), d, from)
	case d.kind == "integers" && t == u16:
		whole(view[uint16](b), d, from)
	case d.kind == "integers" && t == u8:
		whole(view[uint8](b), d, from)
	case d.kind == "integers":
		for i := range n {
			t.put(b, i, float64(d.integer(&from)))
		}
	case t == f32:
		d.singles(view[float32](b), from)
	case t == f64:
		d.doubles(view[float64](b), from)
	default: // rounded once more, which no bound of the distribution minds
		var some [512]float32
		for at := 0; at < n; at += len(some) {
			part := some[:min(len(some), n-at)]
			from = d.singles(part, from)
			to := view[uint16](b)[at:][:len(part)]
			if t == bf16 {
				for i, x := range part {
					to[i] = brainOf(x)
				}
				continue
			}
			for i, x := range part {
				if half, ok := halfOf(x); ok {
					to[i] = half
				} else {
					to[i] = halfBits(float64(x))
				}
			}
		}
	}
}

// integer makes a whole number, both ends included.
func (d distribution) integer(from *secret) int64 {
	low := int64(math.Ceil(d.a))
	n, _ := bits.Mul64(from.next(), uint64(int64(math.Floor(d.b))-low)+1)
	return low + int64(n)
}

// These have their secrets as values, which stay in registers.

func whole[T int64 | int32 | int16 | int8 | uint32 | uint16 | uint8](out []T, d distribution, from secret) {
	for i := range out {
		out[i] = T(d.integer(&from))
	}
}

// drawsWide says that numbers of single precision are drawn in vectors, several times faster.
var drawsWide = canDrawWide()

// singles makes numbers of single precision, two of each number of the secret, and returns where
// that is then.
func (d distribution) singles(out []float32, from secret) secret {
	if drawsWide {
		return d.wideSingles(out, from)
	}
	if last := len(out) - 1; last%2 == 0 {
		var two [2]float32
		from = d.singles(two[:], from)
		out[last], out = two[0], out[:last]
	}
	if d.kind != "normal" {
		middle, step := d.uniformly()
		for i := 0; i < len(out)-1; i += 2 {
			z := from.next()
			x, y := float32(middle+step*float64(int32(z))), float32(middle+step*float64(int32(z>>32)))
			if float64(x) < d.a || float64(x) > d.b {
				x = float32(middle) // single precision lacks the ends
			}
			if float64(y) < d.a || float64(y) > d.b {
				y = float32(middle)
			}
			out[i], out[i+1] = x, y
		}
		return from
	}
	cells := normalCells()
	for i := 0; i < len(out)-1; i += 2 {
		z := from.next()
		c, e := &cells[uint32(z)>>restBits], &cells[z>>(64-cellBits)]
		x := d.a + d.b*(c.low+c.step*float64(int32(z&(1<<restBits-1))))
		y := d.a + d.b*(e.low+e.step*float64(int32(z>>32&(1<<restBits-1))))
		if c.step == 0 {
			x, from = d.far(c.low, from)
		}
		if e.step == 0 {
			y, from = d.far(e.low, from)
		}
		out[i], out[i+1] = float32(x), float32(y)
	}
	return from
}

// uniformly is the middle of a uniform distribution, and what to add for each unit of 32 bits with a sign.
func (d distribution) uniformly() (middle, step float64) {
	return (d.a + d.b) / 2, (d.b - d.a) * 0x1p-32
}

// doubles makes numbers of double precision.
func (d distribution) doubles(out []float64, from secret) {
	if d.kind != "normal" {
		for i := range out {
			out[i] = d.a + (d.b-d.a)*(float64(from.next()>>11)*0x1p-53)
		}
		return
	}
	cells := normalCells()
	for i := range out {
		z := from.next()
		c := &cells[z>>(64-cellBits)]
		x := d.a + d.b*(c.low+c.step*(float64(int64(z&(1<<(64-cellBits)-1)))*0x1p-32))
		if c.step == 0 {
			x, from = d.far(c.low, from)
		}
		out[i] = x
	}
}

// far makes a number of one end of a normal distribution, on a side of 1 or -1.
func (d distribution) far(side float64, from secret) (float64, secret) {
	x := normalAt((float64(from.next()>>11) + 0.5) * 0x1p-53 / (1 << cellBits))
	return d.a - d.b*side*x, from
}

// contents makes those of a buffer for a set: all that is drawn for it, and which part of it the launch gets.
func (t *timingState) contents(to []byte, d *shapeData, set uint32, buffer int) (own []byte) {
	p, l := t.places[d], &d.layout.buffers[buffer]
	own = to[l.window(buffer, p.windows[set]):][:l.bytes]
	given := p.given[set] != nil && p.given[set][buffer] != nil
	switch b := t.q.buffers[buffer]; {
	case given && len(to) == len(own):
	case b.Data.Distribution == kernels.Python: // there was no time, see given
		copy(to, d.inputs[p.made[set]%variants][buffer])
	case t.q.made(buffer):
		values, err := t.q.spec.Made(b, d.shape, p.made[set]+uint64(buffer))
		if err != nil {
			panic(err) // parity has had them at this shape
		}
		t.q.dtypes[buffer].putAll(to, values)
	default:
		t.q.data[buffer].quick(to, t.q.dtypes[buffer], newSecret(p.seeds[set], buffer))
	}
	if given {
		copy(own, p.given[set][buffer])
	}
	return own
}

// refresh gives the next sets contents that no candidate has seen, and takes them out of the
// caches again. It does so right before they are used: contents whose turn is yet to come are
// nowhere that a candidate can read. The sets are those of the next turns, by sides, the candidate's and the
// baseline's: what is made as a whole is the same for the first launch of each side, for the second, and
// so on, since how long a launch takes may depend on it.
func (t *timingState) refresh(d *shapeData, sides ...[]uint32) error {
	defer func(begin time.Time) { t.making += time.Since(begin) }(time.Now())
	p := t.places[d]
	sets := p.turn(len(slices.Concat(sides...)))
	for _, set := range sets {
		p.seeds[set] = p.pool.Uint64()
		p.windows[set] = uint32(p.pool.Uint64() >> (64 - windowBits))
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
				to := a.drawn(&d.layout, p.base, int(set), b)
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
// output is read as well, the set's contents. Among several contenders it makes guards good that another
// may have written to.
func (t *timingState) prime(a *arena, d *shapeData, sets []uint32) {
	p := t.places[d]
	each(sets, func(set uint32) {
		if t.several && a == t.ours {
			a.restoreGuards(&d.layout, p.base, int(set))
		}
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

// waiting gives those of a batch's sets that no launch can have begun to work on, and says what was done ahead:
// turns were taken of which the harness takes so many in a step, or a buffer of these sets is not as prime left it.
// Turns that are still in the pipe have not begun. Where outputs tell whether a launch has ended, one may be at
// work, the first that has not, and the others behind it have not begun either.
func (t *timingState) waiting(a *arena, d *shapeData, sets []uint32, taken, step int) (waiting []uint32, ahead string) {
	from := taken
	if d.tells() {
		first := slices.IndexFunc(sets, func(set uint32) bool { _, done := t.written(a, d, set); return !done })
		if first >= 0 {
			from = min(from, first+1)
			if taken > (first/step+1)*step {
				ahead = turnsTaken
			}
		}
	}
	for _, set := range sets[from:] {
		if name, _ := t.written(a, d, set); name != "" {
			ahead = fmt.Sprintf("buffer %s of a launch that had not begun was changed", name)
		}
		waiting = append(waiting, set)
	}
	return waiting, ahead
}

// begun gives digests of what is in the outputs of sets that are not as prime left them. Of these one launch
// may be at work still, and all others have ended.
func (t *timingState) begun(a *arena, d *shapeData, sets []uint32) map[uint32]uint64 {
	all := map[uint32]uint64{}
	for _, set := range sets {
		if name, _ := t.written(a, d, set); name != "" {
			all[set] = t.digest(a, d, set)
		}
	}
	return all
}

// changed is how many of those have other outputs now.
func (t *timingState) changed(a *arena, d *shapeData, begun map[uint32]uint64) (n int) {
	for set, was := range begun {
		if t.digest(a, d, set) != was {
			n++
		}
	}
	return n
}

var digestSeed = maphash.MakeSeed()

// digest is of the outputs of a set.
func (t *timingState) digest(a *arena, d *shapeData, set uint32) uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	for b := range d.layout.buffers {
		if d.layout.buffers[b].role != roleIn {
			h.Write(a.buffer(&d.layout, t.places[d].base, int(set), b)) //nolint:errcheck // it never fails
		}
	}
	return h.Sum64()
}

// tells says whether outputs show that a launch has ended: none may rightly be as it was before.
func (d *shapeData) tells() bool {
	return !slices.ContainsFunc(d.layout.buffers, func(b placedBuffer) bool {
		return b.role == roleInOut || b.role == roleOut && b.dtype.integer() && b.elements*b.dtype.size() < 8
	})
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
		spread(runtime.NumCPU(), len(values), func(from, to int) (none struct{}) { // nothing is timed meanwhile
			if p.dtype == f32 {
				for i, v := range view[float32](got)[from:to] {
					values[from+i] = float64(v)
				}
				return none
			}
			for i := from; i < to; i++ {
				values[i] = p.dtype.get(got, i)
			}
			return none
		})
		e, err := expectedOn(runtime.NumCPU(), values)
		if err != nil {
			return nil, fmt.Errorf("the baseline at shape %s: output %s: %w", d.shape.Name, p.name, err)
		}
		all[b] = e
	}
	return all, nil
}
