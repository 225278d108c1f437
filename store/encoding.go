package store

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"
	"time"
)

// The encoding of an event. All integers are varints of
// encoding/binary unless said otherwise.
//
//	byte    the version of the format
//	byte    kind (see kindCodes)
//	byte    flags: 1 = the details bucket holds payloads of this event
//	varint  seconds of the time since 1970, uvarint nanoseconds
//	uvarint the campaign: the Seq of its started event
//	...     fields of the kind, in the order of the type's declaration
//	uint32  little endian, CRC-32C of the key (8 bytes, big endian Seq) and of
//	        everything before it
//
// Strings are a uvarint length and bytes; ids and keys a uvarint 2*length, or
// 2*length+1 when the text is lower-case hex and stored as length bytes of
// twice as many digits. Floats are 8 bytes, little endian, IEEE 754.
//
// The payloads of an event are one record in the details bucket:
//
//	byte    the version of the format
//	byte    codec: 0 = as it is, 1 = DEFLATE
//	uvarint length before compression
//	...     the payloads; for started: uvarint length of Config, Config, Description
//	uint32  CRC-32C as above
const (
	flagDetail = 1

	codecRaw     = 0
	codecDeflate = 1

	// compressFrom is the size below which DEFLATE rarely gains.
	compressFrom = 192
	// maxDetail bounds the payloads of one event. It is far above what is expected, and
	// keeps a forged length from allocating all memory.
	maxDetail = 256 << 20
	// trustedDetail is how much is allocated before the length is known to be true.
	trustedDetail = 64 << 10
	// maxID bounds ids and keys of results, maxText any other string.
	maxID   = 256
	maxText = 16 << 20
)

var kindCodes = map[Kind]byte{
	KindStarted: 1, KindAsked: 2, KindTold: 3, KindResumed: 4, KindStopped: 5, KindFinals: 6, KindFinished: 7, KindMeasured: 8, KindAttempt: 9,
}

var kindNames = func() (names [10]Kind) {
	for k, c := range kindCodes {
		names[c] = k
	}
	return names
}()

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers the key as well, to detect a record under another's key.
func checksum(seq uint64, b []byte) uint32 {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], seq)
	return crc32.Update(crc32.Checksum(key[:], castagnoli), castagnoli, b)
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// seal appends the checksum.
func seal(seq uint64, b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, checksum(seq, b))
}

// unseal checks version and checksum and returns what is between them.
func unseal(seq uint64, b []byte) ([]byte, error) {
	if len(b) < 5 {
		return nil, corrupt("record of %d bytes is cut short", len(b))
	}
	body := b[:len(b)-4]
	if got, want := checksum(seq, body), binary.LittleEndian.Uint32(b[len(b)-4:]); got != want {
		return nil, corrupt("checksum is %08x, should be %08x", got, want)
	}
	if body[0] != formatVersion {
		return nil, otherVersion("a record", uint64(body[0]))
	}
	return body[1:], nil
}

// encodeEvent encodes the part of an event that queries read. campaign is the Seq
// of the campaign's started event.
func encodeEvent(e *Event, campaign uint64) []byte {
	var flags byte
	if hasDetail(e) {
		flags |= flagDetail
	}
	b := append(make([]byte, 0, 256), formatVersion, kindCodes[e.Kind], flags)
	b = binary.AppendVarint(b, e.Time.Unix())
	b = binary.AppendUvarint(b, uint64(e.Time.Nanosecond()))
	b = binary.AppendUvarint(b, campaign)
	switch e.Kind {
	case KindStarted:
		s := e.Started
		b = appendString(b, e.Campaign)
		b = appendString(b, s.Kernel)
		b = binary.AppendUvarint(b, uint64(len(s.Shapes)))
		for _, shape := range s.Shapes {
			b = appendString(b, shape)
		}
		b = appendString(b, s.Backend)
		b = appendString(b, s.Device)
		b = appendString(b, s.Name)
		b = appendString(b, s.Strategy)
		b = binary.AppendVarint(b, int64(s.SearchVersion))
		b = binary.AppendVarint(b, s.Seed)
	case KindAsked:
		a := e.Asked
		b = binary.AppendUvarint(b, uint64(a.Index))
		b = appendID(b, a.Candidate)
		b = appendString(b, a.Genome)
		b = appendString(b, a.Operator)
		b = appendIDs(b, a.Parents)
	case KindTold, KindMeasured:
		t := e.Result()
		b = binary.AppendUvarint(b, uint64(t.Index))
		b = appendID(b, t.Candidate)
		b = appendString(b, t.Verdict)
		b = appendFloats(b, t.Fitness, t.MedianNS, t.BaselineNS)
		b = appendID(b, t.Key)
	case KindFinals:
		f := e.Finals
		b = appendID(b, f.Winner)
		b = appendFloats(b, f.Fitness, f.MedianNS, f.BaselineNS)
		b = append(b, boolByte(f.Significant))
		b = appendFloats(b, f.Slower)
		b = appendString(b, f.Unproven)
		b = appendIDs(b, f.Finalists)
	case KindAttempt:
		a := e.Attempt
		b = binary.AppendUvarint(b, uint64(a.Index))
		b = appendID(b, a.Candidate)
		b = appendString(b, a.Stage)
		b = appendString(b, a.End)
		b = appendString(b, string(a.Detail))
	default:
		b = appendString(b, e.Note.Reason)
		b = binary.AppendVarint(b, int64(e.Note.Evaluated))
	}
	return seal(e.Seq, b)
}

// decodeEvent decodes what encodeEvent made. It leaves Campaign empty, except
// for started events, and returns the number of the campaign instead. The result
// shares no memory with b.
func decodeEvent(seq uint64, b []byte) (e Event, campaign uint64, detail bool, err error) {
	body, err := unseal(seq, b)
	if err != nil {
		return Event{}, 0, false, err
	}
	d := decoder{b: body}
	code, flags := d.byte(), d.byte()
	if d.err == nil && (code == 0 || int(code) >= len(kindNames)) {
		d.fail("kind %d is unknown", code)
	}
	if d.err == nil && flags&^byte(flagDetail) != 0 {
		d.fail("flags %#x are unknown", flags)
	}
	sec, nsec := d.varint(), d.uvarint()
	campaign = d.uvarint()
	if d.err != nil {
		return Event{}, 0, false, d.err
	}
	e = Event{Seq: seq, Time: time.Unix(sec, int64(nsec)).UTC(), Kind: kindNames[code]}
	switch e.Kind {
	case KindStarted:
		e.Campaign = d.string()
		s := &Started{Kernel: d.string()}
		for range d.count() {
			s.Shapes = append(s.Shapes, d.string())
		}
		s.Backend, s.Device, s.Name, s.Strategy = d.string(), d.string(), d.string(), d.string()
		s.SearchVersion, s.Seed = d.int(), d.varint()
		e.Started = s
	case KindAsked:
		e.Asked = &Asked{Index: d.index(), Candidate: d.id(), Genome: d.string(), Operator: d.string(), Parents: d.ids()}
	case KindTold, KindMeasured:
		t := &Told{Index: d.index(), Candidate: d.id(), Verdict: d.string()}
		t.Fitness, t.MedianNS, t.BaselineNS = d.floats()
		t.Key = d.id()
		if e.Told = t; e.Kind == KindMeasured {
			e.Told, e.Measured = nil, t
		}
	case KindFinals:
		f := &Finals{Winner: d.id()}
		f.Fitness, f.MedianNS, f.BaselineNS = d.floats()
		f.Significant = d.byte() != 0
		f.Slower, _, _ = d.floats()
		f.Unproven = d.string()
		f.Finalists = d.ids()
		e.Finals = f
	case KindAttempt:
		e.Attempt = &Attempt{Index: d.index(), Candidate: d.id(), Stage: d.string(), End: d.string(), Detail: orNil([]byte(d.string()))}
	default:
		e.Note = &Note{Reason: d.string(), Evaluated: d.int()}
	}
	detail = flags&flagDetail != 0
	if first, _ := payloads(&e); detail && first == nil {
		d.fail("a %s event has no detail", e.Kind)
	}
	if len(d.b) > 0 {
		d.fail("%d bytes too many", len(d.b))
	}
	if d.err != nil {
		return Event{}, 0, false, d.err
	}
	return e, campaign, detail, nil
}

// payloads returns the fields of an event that are kept apart.
func payloads(e *Event) (first, second *json.RawMessage) {
	switch {
	case e.Started != nil:
		return &e.Started.Config, &e.Started.Description
	case e.Result() != nil:
		return &e.Result().Detail, nil
	case e.Finals != nil:
		return &e.Finals.Detail, nil
	case e.Note != nil:
		return &e.Note.Detail, nil
	}
	return nil, nil
}

func hasDetail(e *Event) bool {
	first, second := payloads(e)
	return first != nil && len(*first) > 0 || second != nil && len(*second) > 0
}

// encodeDetail makes the record of an event's payloads without the checksum,
// or returns nil when there are none.
func encodeDetail(e *Event) ([]byte, error) {
	if !hasDetail(e) {
		return nil, nil
	}
	first, second := payloads(e)
	raw := []byte(*first)
	if second != nil {
		raw = binary.AppendUvarint(make([]byte, 0, len(*first)+len(*second)+5), uint64(len(*first)))
		raw = append(append(raw, *first...), *second...)
	}
	if len(raw) > maxDetail {
		return nil, fmt.Errorf("%w: detail of %d bytes, at most %d are kept", ErrInvalid, len(raw), maxDetail)
	}
	if len(raw) < compressFrom {
		return append(binary.AppendUvarint([]byte{formatVersion, codecRaw}, uint64(len(raw))), raw...), nil
	}
	buf := bytes.NewBuffer(make([]byte, 0, len(raw)/2+64))
	buf.Write(binary.AppendUvarint([]byte{formatVersion, codecDeflate}, uint64(len(raw))))
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(buf)
	_, err := w.Write(raw)
	if err := cmp.Or(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress detail: %w", err)
	}
	return buf.Bytes(), nil
}

// decodeDetail decodes into e the payloads that encodeDetail encoded, now with their
// checksum.
func decodeDetail(e *Event, b []byte) error {
	raw, err := inflateDetail(e.Seq, b)
	if err != nil {
		return err
	}
	first, second := payloads(e)
	switch {
	case first == nil:
		return corrupt("a %s event has no detail", e.Kind)
	case second == nil:
		*first = raw
	default:
		n, size := binary.Uvarint(raw)
		if size <= 0 || n > uint64(len(raw)-size) {
			return corrupt("detail is cut short")
		}
		*first, *second = orNil(raw[size:size+int(n)]), orNil(raw[size+int(n):])
	}
	if !hasDetail(e) {
		return corrupt("detail is empty")
	}
	return nil
}

func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b[:len(b):len(b)]
}

func inflateDetail(seq uint64, b []byte) ([]byte, error) {
	body, err := unseal(seq, b)
	if err != nil {
		return nil, err
	}
	d := decoder{b: body}
	codec, n := d.byte(), d.uvarint()
	if d.err != nil {
		return nil, d.err
	}
	if n > maxDetail {
		return nil, corrupt("detail of %d bytes", n)
	}
	switch codec {
	case codecRaw:
		if uint64(len(d.b)) != n {
			return nil, corrupt("detail has %d bytes, should have %d", len(d.b), n)
		}
		return bytes.Clone(d.b), nil
	case codecDeflate:
		r := inflaters.Get().(io.ReadCloser)
		defer inflaters.Put(r)
		if err := r.(flate.Resetter).Reset(bytes.NewReader(d.b), nil); err != nil {
			return nil, fmt.Errorf("expand detail: %w", err)
		}
		out := bytes.NewBuffer(make([]byte, 0, min(n, trustedDetail)+bytes.MinRead))
		if _, err := out.ReadFrom(io.LimitReader(r, int64(n)+1)); err != nil {
			return nil, corrupt("detail does not expand: %v", err)
		}
		if uint64(out.Len()) != n {
			return nil, corrupt("detail expands to %d bytes or more, should have %d", out.Len(), n)
		}
		return out.Bytes(), nil
	default:
		return nil, corrupt("codec %d is unknown", codec)
	}
}

// Writers and readers of DEFLATE are large, so they are reused.
var (
	deflaters = sync.Pool{New: func() any {
		w, err := flate.NewWriter(nil, flate.BestSpeed)
		if err != nil {
			panic(err) // the level is a constant
		}
		return w
	}}
	inflaters = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}
)

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendID packs lower-case hex, which ids and keys mostly are.
func appendID(b []byte, s string) []byte {
	if s == "" || len(s)%2 != 0 || !isHex(s) {
		return append(binary.AppendUvarint(b, 2*uint64(len(s))), s...)
	}
	b = binary.AppendUvarint(b, uint64(len(s))+1) // 2*(len/2)+1
	n := len(b)
	b = append(b, s[:len(s)/2]...)
	_, _ = hex.Decode(b[n:], []byte(s)) // isHex has checked it
	return b
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func appendIDs(b []byte, ids []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = appendID(b, id)
	}
	return b
}

// appendFloats writes a byte that says which floats are not +0, and then those floats.
func appendFloats(b []byte, fs ...float64) []byte {
	at := len(b)
	b = append(b, 0)
	for i, f := range fs {
		if bits := math.Float64bits(f); bits != 0 {
			b[at] |= 1 << i
			b = binary.LittleEndian.AppendUint64(b, bits)
		}
	}
	return b
}

// A decoder reads fields until one is wrong; after that every read returns zero, and
// err says what was wrong first.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = corrupt(format, args...)
		d.b = nil
	}
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("record is cut short")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail("record is cut short")
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("record is cut short")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("record is cut short")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int { return int(d.varint()) }

// index reads a number that is not negative as an int.
func (d *decoder) index() int {
	v := d.uvarint()
	if v > math.MaxInt {
		d.fail("index %d", v)
		return 0
	}
	return int(v)
}

// count reads a number of things of one byte at least.
func (d *decoder) count() int {
	v := d.uvarint()
	if v > uint64(len(d.b)) {
		d.fail("record is cut short")
		return 0
	}
	return int(v)
}

func (d *decoder) string() string { return string(d.bytes(d.uvarint())) }

func (d *decoder) id() string {
	v := d.uvarint()
	b := d.bytes(v / 2)
	if v%2 == 1 {
		return hex.EncodeToString(b)
	}
	return string(b)
}

func (d *decoder) ids() []string {
	n := d.count()
	if n == 0 {
		return nil
	}
	ids := make([]string, 0, n)
	for range n {
		ids = append(ids, d.id())
	}
	return ids
}

func (d *decoder) floats() (_, _, _ float64) {
	mask := d.byte()
	var v [3]float64
	for i := range v {
		if mask&(1<<i) != 0 {
			if b := d.bytes(8); b != nil {
				v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
			}
		}
	}
	return v[0], v[1], v[2]
}
