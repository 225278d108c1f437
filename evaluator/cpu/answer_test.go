//go:build linux

package cpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
)

// packet encodes an answer as native/harness.c does.
func packet(kind uint32, nonce, seq, elapsed, value uint64, errno, launches uint32, text string) []byte {
	order := binary.NativeEndian
	b := order.AppendUint32(nil, answerMagic)
	b = order.AppendUint32(b, kind)
	for _, v := range []uint64{nonce, seq, elapsed, value} {
		b = order.AppendUint64(b, v)
	}
	b = order.AppendUint32(b, errno)
	b = order.AppendUint32(b, launches)
	t := make([]byte, textBytes)
	copy(t, text)
	return append(b, t...)
}

func TestParseAnswer(t *testing.T) {
	good := packet(uint32(answerDone), 7, 8, 1500, 0, 0, 3, "")
	a, err := parseAnswer(good)
	if err != nil || a.Kind != answerDone || a.Nonce != 7 || a.Seq != 8 || a.Elapsed != 1500*time.Nanosecond || a.Launches != 3 {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = parseAnswer(packet(uint32(answerFailed), 1, 2, 0, 0, 12, 0, "two\nlines\x1b[31m"))
	if err != nil || a.Text != "two lines [31m" || a.Error != 12 {
		t.Errorf("%+v, %v", a, err)
	}
	for name, bad := range map[string][]byte{
		"empty":        nil,
		"short":        good[:answerBytes-1],
		"long":         append(append([]byte{}, good...), 0),
		"other magic":  append([]byte{1}, good[1:]...),
		"kind 0":       packet(0, 1, 1, 0, 0, 0, 0, ""),
		"kind 8":       packet(8, 1, 1, 0, 0, 0, 0, ""),
		"a long time":  packet(uint32(answerDone), 1, 1, 1<<63, 0, 0, 0, ""),
		"many":         packet(uint32(answerDone), 1, 1, 1, 0, 0, maxLaunches+1, ""),
		"time of none": packet(uint32(answerReady), 1, 1, 1, 0, 0, 0, ""),
		"endless text": packet(uint32(answerFailed), 1, 1, 0, 0, 0, 0, strings.Repeat("x", textBytes)),
	} {
		if a, err := parseAnswer(bad); !errors.Is(err, errAnswer) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// FuzzAnswer: whatever a candidate writes to the harness's socket, evotune
// neither fails nor takes it for more than an answer can say.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(packet(uint32(answerDone), 1, 2, 3, 4, 5, 6, "text"))
	f.Add(packet(uint32(answerFailed), 0, 0, 0, 0, 99, 0, "\xff\xfe\x00"))
	f.Add(packet(uint32(answerDenied), 1<<63, 1<<63, 0, 57, 0, 0, ""))
	f.Add([]byte(strings.Repeat("E", answerBytes)))
	f.Fuzz(func(t *testing.T, p []byte) {
		a, err := parseAnswer(p)
		if err != nil {
			if !errors.Is(err, errAnswer) || a != (answer{}) {
				t.Fatalf("%+v, %v", a, err)
			}
			return
		}
		if a.Kind < answerReady || a.Kind > answerWrote || a.Elapsed < 0 || a.Elapsed > 24*time.Hour || a.Launches > maxLaunches {
			t.Fatalf("accepted %+v", a)
		}
		for _, r := range a.Text {
			if !unicode.IsPrint(r) {
				t.Fatalf("text %q", a.Text)
			}
		}
		// What is said for people is one line, whatever was sent.
		for _, s := range []string{failedReason(a), deniedReason(a.Value)} {
			if s == "" || strings.ContainsAny(s, "\n\r\x1b") {
				t.Fatalf("reason %q", s)
			}
		}
		again := packet(uint32(a.Kind), a.Nonce, a.Seq, uint64(a.Elapsed), a.Value, a.Error, a.Launches, a.Text)
		if b, err := parseAnswer(again); err != nil || b != a {
			t.Fatalf("%+v becomes %+v, %v", a, b, err)
		}
	})
}

func TestCommandLayout(t *testing.T) {
	c := command{
		kind: commandRun, nonce: 1, seq: 2, dims: []int64{3}, scalars: []float64{4, 5},
		buffers: []region{{6, 7, 10, 1, 64}}, launches: []uint32{8, 9}, junk: 0xff,
	}
	b := c.append(nil)
	if want := commandBytes + 8 + 16 + 40; len(b) != want {
		t.Errorf("%d bytes, want %d", len(b), want)
	}
	if got := binary.NativeEndian.Uint32(b[40:]); got != 1 {
		t.Errorf("flags %d", got)
	}
	if got := binary.NativeEndian.Uint32(b[36:]); got != 2 {
		t.Errorf("takes %d turns at once, wants both", got)
	}
	if want := []byte("\x08\x00\x00\x00\x09\x00\x00\x00\xff\xff\xff\xff"); littleEndian && !bytes.Equal(c.turns(), want) {
		t.Errorf("turns %q", c.turns())
	}
	c.junk, c.step = -1, 1
	if got := binary.NativeEndian.Uint32(c.append(nil)[36:]); got != 1 {
		t.Errorf("takes %d turns at once, wants one", got)
	}
	if got := binary.NativeEndian.Uint32(c.append(nil)[40:]); got != 0 {
		t.Errorf("flags %d", got)
	}
}
