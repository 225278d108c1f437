package cpu

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/evotune/evotune/evaluator/internal/plain"
)

// The protocol between evotune and native/harness.c: sequenced packets over a
// socket, one command or one answer each, in the machine's byte order. Both
// ends are built together, so there is no version in it.
const (
	commandMagic = 0x43545645
	answerMagic  = 0x41545645

	commandBytes = 48
	answerBytes  = 128
	textBytes    = 80

	// Limits of the harness's tables.
	maxDims     = 32
	maxScalars  = 32
	maxBuffers  = 32
	maxLaunches = 1 << 15
)

type commandKind uint32

const (
	commandLoad commandKind = iota + 1
	commandShape
	commandRun
	commandQuit
)

type answerKind uint32

const (
	answerReady answerKind = iota + 1
	answerLoaded
	answerShaped
	answerDone
	answerDenied
	answerFailed
	answerWrote
)

// An answer is what the harness says of a command. Anything in it may be
// forged by the candidate, which shares the harness's memory: it is used only
// where a lie does not pay or is found out.
type answer struct {
	Kind  answerKind
	Nonce uint64
	Seq   uint64
	// Elapsed is how long the launches took, without what lay between them.
	Elapsed time.Duration
	// Value is the number of the refused system call, the place in the memory of
	// the inputs that was written, or how long launches and what lay between them took, in nanoseconds.
	Value    uint64
	Error    uint32
	Launches uint32
	Text     string
	// wall is the time from sending the command until the answer was sent, by
	// clocks that the candidate cannot reach.
	wall time.Duration
}

var errAnswer = errors.New("not an answer of the harness")

// parseAnswer reads one packet. It accepts nothing that the harness would not
// send.
func parseAnswer(p []byte) (answer, error) {
	if len(p) != answerBytes {
		return answer{}, fmt.Errorf("%w: %d bytes instead of %d", errAnswer, len(p), answerBytes)
	}
	order := binary.NativeEndian
	if order.Uint32(p) != answerMagic {
		return answer{}, fmt.Errorf("%w: it starts with other bytes", errAnswer)
	}
	a := answer{
		Kind:     answerKind(order.Uint32(p[4:])),
		Nonce:    order.Uint64(p[8:]),
		Seq:      order.Uint64(p[16:]),
		Value:    order.Uint64(p[32:]),
		Error:    order.Uint32(p[40:]),
		Launches: order.Uint32(p[44:]),
	}
	if a.Kind < answerReady || a.Kind > answerWrote {
		return answer{}, fmt.Errorf("%w: kind %d does not exist", errAnswer, a.Kind)
	}
	elapsed := order.Uint64(p[24:])
	if elapsed > uint64(24*time.Hour) {
		return answer{}, fmt.Errorf("%w: %d ns is longer than a day", errAnswer, elapsed)
	}
	a.Elapsed = time.Duration(elapsed)
	if a.Launches > maxLaunches {
		return answer{}, fmt.Errorf("%w: %d launches are more than it can make", errAnswer, a.Launches)
	}
	if elapsed != 0 && a.Kind != answerDone {
		return answer{}, fmt.Errorf("%w: a time for something that was not run", errAnswer)
	}
	text := p[answerBytes-textBytes:]
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	} else {
		return answer{}, fmt.Errorf("%w: its text does not end", errAnswer)
	}
	a.Text = plain.Line(string(text))
	return a, nil
}

// A command is what evotune tells the harness.
type command struct {
	kind     commandKind
	nonce    uint64
	seq      uint64
	dims     []int64
	scalars  []float64
	buffers  []region
	launches []uint32 // the turn of each launch; the harness gets them through a pipe
	step     int      // how many of them it takes at once; 0 for all
	junk     int      // byte that fills the stack; negative leaves it
}

// A region is where a buffer lies in set 0 of its zone, and how far it is from
// there to the next set.
type region struct {
	offset, bytes, stride uint64
	role                  uint64 // 0 in, 1 out, 2 inout
	windows               uint64 // see window
}

// append encodes the command after b.
func (c command) append(b []byte) []byte {
	order := binary.NativeEndian
	b = order.AppendUint32(b, commandMagic)
	b = order.AppendUint32(b, uint32(c.kind))
	b = order.AppendUint64(b, c.nonce)
	b = order.AppendUint64(b, c.seq)
	b = order.AppendUint32(b, uint32(len(c.dims)))
	b = order.AppendUint32(b, uint32(len(c.scalars)))
	b = order.AppendUint32(b, uint32(len(c.buffers)))
	b = order.AppendUint32(b, uint32(min(max(cmp.Or(c.step, len(c.launches)), 1), maxLaunches)))
	flags, junk := uint32(0), uint32(0)
	if c.kind == commandRun && c.junk >= 0 {
		flags, junk = 1, uint32(c.junk)
	}
	b = order.AppendUint32(b, flags)
	b = order.AppendUint32(b, junk)
	for _, d := range c.dims {
		b = order.AppendUint64(b, uint64(d))
	}
	for _, s := range c.scalars {
		b = appendFloat(b, s)
	}
	for _, r := range c.buffers {
		b = order.AppendUint64(b, r.offset)
		b = order.AppendUint64(b, r.bytes)
		b = order.AppendUint64(b, r.stride)
		b = order.AppendUint64(b, r.role)
		b = order.AppendUint64(b, max(r.windows, 1))
	}
	return b
}

// turns encodes the launches.
func (c command) turns() []byte {
	b := make([]byte, 0, 4*len(c.launches)+4)
	for _, set := range c.launches {
		b = binary.NativeEndian.AppendUint32(b, set)
	}
	return binary.NativeEndian.AppendUint32(b, math.MaxUint32)
}
