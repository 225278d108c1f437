package cpu

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// guardBytes is the width, in bytes, of the guard on each side of a buffer.
const guardBytes = 4096

// A placedBuffer is a buffer of the problem at one shape, and its place in a
// set.
type placedBuffer struct {
	name     string
	dtype    dtype
	elements int
	bytes    int
	role     uint64 // as in region
	offset   int    // from the start of a set, in its zone
	windows  int    // how many places it may begin at in a turn, see window; 0 for one
}

// An input that is drawn element by element begins in a turn at one of several places in what was drawn for it, and
// the turn says which: before that nobody can know it, though all of it is in memory, or compute anything of it.
const (
	windows    = 64
	windowStep = 64 // bytes: buffers are aligned to as many
	setBits    = 15 // of a turn; the others decide the places
	windowBits = 16
)

// turnOf is a turn as the harness is told.
func turnOf(set, drawn uint32) uint32 { return drawn<<setBits | set }

// window is how many bytes behind its place buffer b begins, as the harness has it; none where nothing was drawn. That
// of one buffer tells nothing of another's.
func (p *placedBuffer) window(b int, drawn uint32) int {
	own := drawn * uint32(2*b+1) * 0x9e3779b1
	own = (own ^ own>>15) * 0x2c1b3c6d
	own ^= own >> 12
	return int(uint64(own)*uint64(max(p.windows, 1))>>32) * windowStep
}

// more is how many bytes are drawn for a buffer besides its own.
func (p *placedBuffer) more() int { return (max(p.windows, 1) - 1) * windowStep }

// A zone is memory that candidates map in one way.
type zone int

const (
	writable zone = iota // outputs
	readOnly             // inputs
	zones
)

// zone is where a buffer lies.
func (p *placedBuffer) zone() zone {
	if p.role == roleIn {
		return readOnly
	}
	return writable
}

// A span is a number of bytes in each zone.
type span [zones]int

func (s span) times(n int) span {
	for z := range s {
		s[z] *= n
	}
	return s
}

func (s span) max(t span) span {
	for z := range s {
		s[z] = max(s[z], t[z])
	}
	return s
}

// A layout places the buffers of one shape: each with a guard on both
// sides, of exactly its size, aligned to 64 bytes and no more.
type layout struct {
	buffers []placedBuffer
	stride  span // bytes of a set
}

const (
	roleIn uint64 = iota
	roleOut
	roleInOut
)

// newLayout places the buffers one after the other. Their distances are not powers
// of two, so that they do not all fall into the same lines of a cache.
func newLayout(buffers []placedBuffer) layout {
	l := layout{buffers: buffers}
	for i := range l.buffers {
		b := &l.buffers[i]
		at := &l.stride[b.zone()]
		b.offset = roundUp(*at+guardBytes+320*(i+1), 64)
		*at = b.offset + b.bytes + guardBytes
	}
	for z := range l.stride {
		l.stride[z] = roundUp(l.stride[z]+64, 64)
	}
	return l
}

// A placing says where a buffer lies between two pages that nobody can access.
type placing string

// The placings: from the first byte of a page, up to the last one, and an element
// behind the first, which is as badly aligned as a caller's buffer may be.
const (
	atBegin   placing = "with guard pages before the buffers"
	atEnd     placing = "with guard pages behind the buffers"
	unaligned placing = "with buffers aligned for their elements alone"
)

// newGuardedLayout places each buffer between pages of its own.
func newGuardedLayout(buffers []placedBuffer, where placing) layout {
	page := os.Getpagesize()
	l := layout{buffers: slices.Clone(buffers), stride: span{page, page}}
	for i := range l.buffers {
		b := &l.buffers[i]
		b.windows = 0
		at := &l.stride[b.zone()]
		b.offset = *at
		room := roundUp(b.bytes+b.dtype.size(), page)
		switch where {
		case atEnd:
			b.offset += room - b.bytes
		case unaligned:
			b.offset += b.dtype.size()
		}
		*at += room + page
	}
	return l
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// An arena is memory shared with a candidate: sets of buffers. The candidate can
// write all of the outputs' zone, which is why nothing in it is believed, and
// nothing of the inputs': it has no descriptor for writing, so that the kernel
// refuses a mapping that can be written, now and later.
type arena struct {
	files   [zones]*os.File // what a candidate maps
	mem     [zones][]byte   // the same, writable here
	pattern []byte          // what guards hold
}

// newArena makes an arena of a fixed size.
func newArena(size span) (_ *arena, err error) {
	a := &arena{pattern: make([]byte, guardBytes)}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	for z := range zones {
		if a.files[z], a.mem[z], err = sharedMemory(size[z], z == readOnly); err != nil {
			return nil, err
		}
	}
	if _, err := rand.Read(a.pattern); err != nil {
		return nil, err
	}
	// Every word is a NaN in whatever floating-point type it is read, so that
	// a read past the end shows in the output when it matters.
	for i := 0; i < guardBytes; i += 4 {
		w := binary.NativeEndian.Uint32(a.pattern[i:])
		binary.NativeEndian.PutUint32(a.pattern[i:], w&0x000fffff|0x7ff00001)
	}
	return a, nil
}

// sharedMemory makes memory and a descriptor with which others can map it. The
// seals keep a candidate from cutting it off under evotune.
func sharedMemory(size int, readOnly bool) (*os.File, []byte, error) {
	size = roundUp(max(size, 1), os.Getpagesize())
	fd, err := unix.MemfdCreate("evotune-arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "arena")
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		discard(f)
		return nil, nil, fmt.Errorf("shared memory of %d bytes: %w", size, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		discard(f)
		return nil, nil, fmt.Errorf("sealing shared memory: %w", err)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		discard(f)
		return nil, nil, fmt.Errorf("mapping %d bytes of shared memory: %w", size, err)
	}
	if !readOnly {
		return f, mem, nil
	}
	r, err := forReading(f)
	if err != nil {
		_ = unix.Munmap(mem)
		return nil, nil, err
	}
	return r, mem, nil
}

// forReading closes a file and opens it anew, for reading.
func forReading(f *os.File) (*os.File, error) {
	defer discard(f)
	r, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return nil, fmt.Errorf("opening shared memory for reading: %w", err)
	}
	return r, nil
}

func (a *arena) close() {
	for z := range zones {
		if a.mem[z] != nil {
			_ = unix.Munmap(a.mem[z])
			a.mem[z] = nil
			discard(a.files[z])
		}
	}
}

// buffer is the memory of buffer b in a set of those that start at base.
func (a *arena) buffer(l *layout, base span, set, b int) []byte {
	_, buffer, _ := a.around(l, base, set, b)
	return buffer
}

// around is buffer b in a set, with its guards.
func (a *arena) around(l *layout, base span, set, b int) (before, buffer, behind []byte) {
	p := &l.buffers[b]
	z := p.zone()
	mem := a.mem[z]
	at := base[z] + set*l.stride[z] + p.offset
	end := at + p.bytes
	return mem[max(at-guardBytes, 0):at], mem[at:end:end], mem[end:min(end+guardBytes, len(mem))]
}

// drawn is the memory in which an input begins somewhere: it reaches into the guard behind.
func (a *arena) drawn(l *layout, base span, set, b int) []byte {
	p := &l.buffers[b]
	at := base[p.zone()] + set*l.stride[p.zone()] + p.offset
	return a.mem[p.zone()][at:][:p.bytes+p.more()]
}

// setGuards fills the guards of a set.
func (a *arena) setGuards(l *layout, base span, set int) {
	for b := range l.buffers {
		a.setGuard(l, base, set, b)
	}
}

// restoreGuards fills those that a candidate can have written to. Behind an input lies what was drawn for it.
func (a *arena) restoreGuards(l *layout, base span, set int) {
	for b := range l.buffers {
		if l.buffers[b].zone() == writable {
			a.setGuard(l, base, set, b)
		}
	}
}

func (a *arena) setGuard(l *layout, base span, set, b int) {
	before, _, behind := a.around(l, base, set, b)
	copy(before, a.pattern)
	copy(behind, a.pattern)
}

// checkGuards says which guard of a set was written, or nothing.
func (a *arena) checkGuards(l *layout, base span, set int) string {
	for b := range l.buffers {
		p := &l.buffers[b]
		if p.zone() == readOnly {
			continue
		}
		before, _, behind := a.around(l, base, set, b)
		if !bytes.Equal(before, a.pattern) {
			last := guardBytes - 1
			for before[last] == a.pattern[last] {
				last--
			}
			return wroteBefore(guardBytes-last, p.name)
		}
		if !bytes.Equal(behind, a.pattern) {
			first := 0
			for behind[first] == a.pattern[first] {
				first++
			}
			return wroteBehind(first, p.name)
		}
	}
	return ""
}

func wroteBefore(n int, buffer string) string {
	return fmt.Sprintf("guard: wrote byte %d before the start of %s", n, buffer)
}

func wroteBehind(n int, buffer string) string {
	return fmt.Sprintf("guard: wrote byte %d behind the end of %s", n, buffer)
}

// written says what lies at a place in the memory that is only read, to which a
// candidate wrote.
func (l *layout) written(base span, at uint64) string {
	if from := uint64(base[readOnly]); at >= from && l.stride[readOnly] > 0 {
		at := int((at - from) % uint64(l.stride[readOnly]))
		for i := range l.buffers {
			p := &l.buffers[i]
			if p.zone() != readOnly {
				continue
			}
			switch n := at - p.offset; {
			case n >= -guardBytes && n < 0:
				return wroteBefore(-n, p.name)
			case n >= 0 && n < p.bytes:
				return fmt.Sprintf("wrote to input %s at element %d", p.name, n/p.dtype.size())
			case n >= p.bytes && n < p.bytes+guardBytes:
				return wroteBehind(n-p.bytes, p.name)
			}
		}
	}
	return "wrote to memory that it may only read"
}

// regions is the layout in the form that the harness is told.
func (l *layout) regions(base span) []region {
	r := make([]region, len(l.buffers))
	for i := range l.buffers {
		b := &l.buffers[i]
		z := b.zone()
		r[i] = region{offset: uint64(base[z] + b.offset), bytes: uint64(b.bytes), stride: uint64(l.stride[z]), role: b.role, windows: uint64(b.windows)}
	}
	return r
}
