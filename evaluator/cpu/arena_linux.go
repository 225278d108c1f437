package cpu

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// redZone is the width, in bytes, of the canaries on each side of a buffer.
const redZone = 4096

// A placedBuffer is a buffer of the problem at one shape, and its place in a
// set.
type placedBuffer struct {
	name     string
	dtype    dtype
	elements int
	bytes    int
	role     uint64 // as in region
	offset   int    // from the start of a set
}

// A layout places the buffers of one shape: each with a red zone on both
// sides, of exactly its size, aligned to 64 bytes and no more.
type layout struct {
	buffers []placedBuffer
	stride  int // bytes of a set
}

const (
	roleIn uint64 = iota
	roleOut
	roleInOut
)

// newLayout places the buffers one after the other. Their distances are no
// powers of two, lest all of them fall into the same lines of a cache.
func newLayout(buffers []placedBuffer) layout {
	l := layout{buffers: buffers}
	at := 0
	for i := range l.buffers {
		b := &l.buffers[i]
		at = roundUp(at+redZone+320*(i+1), 64)
		b.offset = at
		at += b.bytes + redZone
	}
	l.stride = roundUp(at+64, 64)
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
	l := layout{buffers: slices.Clone(buffers)}
	page := os.Getpagesize()
	at := page
	for i := range l.buffers {
		b := &l.buffers[i]
		b.offset = at
		room := roundUp(b.bytes+b.dtype.size(), page)
		switch where {
		case atEnd:
			b.offset += room - b.bytes
		case unaligned:
			b.offset += b.dtype.size()
		}
		at += room + page
	}
	l.stride = at
	return l
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// An arena is memory shared with a candidate: sets of buffers. The candidate
// can write all of it, which is why nothing in it is believed.
type arena struct {
	file   *os.File
	mem    []byte
	canary []byte // what red zones hold
}

// newArena makes an arena of a fixed size. The seals keep a candidate from
// cutting it off under evotune.
func newArena(size int) (*arena, error) {
	size = roundUp(max(size, 1), os.Getpagesize())
	fd, err := unix.MemfdCreate("evotune-arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "arena")
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		discard(f)
		return nil, fmt.Errorf("shared memory of %d bytes: %w", size, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		discard(f)
		return nil, fmt.Errorf("sealing shared memory: %w", err)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		discard(f)
		return nil, fmt.Errorf("mapping %d bytes of shared memory: %w", size, err)
	}
	a := &arena{file: f, mem: mem, canary: make([]byte, redZone)}
	if _, err := rand.Read(a.canary); err != nil {
		a.close()
		return nil, err
	}
	// Every word is a NaN in whatever floating-point type it is read, so that
	// a read past the end shows in the output when it matters.
	for i := 0; i < redZone; i += 4 {
		w := binary.NativeEndian.Uint32(a.canary[i:])
		binary.NativeEndian.PutUint32(a.canary[i:], w&0x000fffff|0x7ff00001)
	}
	return a, nil
}

func (a *arena) size() int64 { return int64(len(a.mem)) }

func (a *arena) close() {
	if a.mem != nil {
		_ = unix.Munmap(a.mem)
		a.mem = nil
	}
	discard(a.file)
}

// buffer is the memory of buffer b in a set that starts at base.
func (a *arena) buffer(l *layout, base, set, b int) []byte {
	p := &l.buffers[b]
	at := base + set*l.stride + p.offset
	return a.mem[at : at+p.bytes : at+p.bytes]
}

// fence fills the red zones of a set.
func (a *arena) fence(l *layout, base, set int) {
	for b := range l.buffers {
		at := base + set*l.stride + l.buffers[b].offset
		copy(a.mem[at-redZone:at], a.canary)
		end := at + l.buffers[b].bytes
		copy(a.mem[end:end+redZone], a.canary)
	}
}

// checkFence says which red zone of a set was written, or nothing.
func (a *arena) checkFence(l *layout, base, set int) string {
	for b := range l.buffers {
		p := &l.buffers[b]
		at := base + set*l.stride + p.offset
		if got := a.mem[at-redZone : at]; !bytes.Equal(got, a.canary) {
			last := redZone - 1
			for got[last] == a.canary[last] {
				last--
			}
			return fmt.Sprintf("red zone: wrote byte %d before the start of %s", redZone-last, p.name)
		}
		end := at + p.bytes
		if got := a.mem[end : end+redZone]; !bytes.Equal(got, a.canary) {
			first := 0
			for got[first] == a.canary[first] {
				first++
			}
			return fmt.Sprintf("red zone: wrote byte %d behind the end of %s", first, p.name)
		}
	}
	return ""
}

// regions is the layout in the form that the harness is told.
func (l *layout) regions(base int) []region {
	r := make([]region, len(l.buffers))
	for i := range l.buffers {
		b := &l.buffers[i]
		r[i] = region{offset: uint64(base + b.offset), bytes: uint64(b.bytes), role: b.role}
	}
	return r
}
