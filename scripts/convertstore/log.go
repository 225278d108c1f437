package main

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/evotune/evotune/store"
)

// newest is the last format that this program reads.
const newest = 6

// A log is that of an old store with its archives.
type log struct {
	path string
	// archived has the campaigns in archives, by the names of these.
	archived map[string][]string
	files    []*file
}

// A file is a store or one of its archives. The campaigns of an archive may be left in part in the store:
// those events are in both.
type file struct {
	db              *bolt.DB
	tx              *bolt.Tx
	events, details *bolt.Bucket
}

// openLog opens a store and its archives for reading.
func openLog(path string) (_ *log, err error) {
	l := &log{path: path, archived: map[string][]string{}}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	main, err := l.open(path)
	if err != nil {
		return nil, err
	}
	moved := main.tx.Bucket([]byte("archived")) // nil before the first archive
	if moved == nil {
		return l, nil
	}
	byNumber := map[uint64]string{}
	if err := moved.ForEach(func(k, v []byte) error {
		r, err := unseal(k, v)
		if err == nil {
			byNumber[binary.BigEndian.Uint64(k)] = r.string()
			err = r.err
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("%s: the list of archived campaigns: %w", path, err)
	}
	of := map[string]*file{}
	for no, name := range byNumber {
		f := of[name]
		if f == nil {
			if f, err = l.open(filepath.Join(path+".archive", filepath.Base(name))); err != nil {
				return nil, err
			}
			of[name] = f
		}
		e, err := f.event(binary.BigEndian.AppendUint64(nil, no))
		if err != nil {
			return nil, err
		}
		l.archived[name] = append(l.archived[name], e.Campaign)
	}
	return l, nil
}

func (l *log) open(path string) (*file, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := &file{db: db}
	l.files = append(l.files, f)
	if f.tx, err = db.Begin(false); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	meta := f.tx.Bucket([]byte("meta"))
	f.events, f.details = f.tx.Bucket([]byte("events")), f.tx.Bucket([]byte("details"))
	if meta == nil || f.events == nil || f.details == nil {
		return nil, fmt.Errorf("%s: not an evotune store", path)
	}
	if v, _ := binary.Uvarint(meta.Get([]byte("format"))); v < 1 || v > newest {
		return nil, fmt.Errorf("%s has format %d: only formats 1 to %d are converted", path, v, newest)
	}
	return f, nil
}

func (l *log) close() {
	for _, f := range l.files {
		if f.tx != nil {
			_ = f.tx.Rollback() // it only read
		}
		_ = f.db.Close()
	}
}

// events gives the events of all files in the order of their numbers.
func (l *log) events() iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		names := map[uint64]string{}
		cursors, keys := make([]*bolt.Cursor, len(l.files)), make([][]byte, len(l.files))
		for i, f := range l.files {
			cursors[i] = f.events.Cursor()
			keys[i], _ = cursors[i].First()
		}
		for {
			var first []byte
			var of *file
			for i, k := range keys {
				if k != nil && (first == nil || bytes.Compare(k, first) < 0) {
					first, of = k, l.files[i]
				}
			}
			if first == nil {
				return
			}
			e, no, err := of.read(first)
			if e.Started != nil {
				names[no] = e.Campaign
			}
			if e.Campaign = names[no]; !yield(e, err) || err != nil {
				return
			}
			for i, k := range keys {
				if bytes.Equal(k, first) {
					keys[i], _ = cursors[i].Next()
				}
			}
		}
	}
}

func (f *file) event(key []byte) (store.Event, error) {
	e, _, err := f.read(key)
	return e, err
}

// read returns an event with its payloads, and the number of its campaign.
func (f *file) read(key []byte) (e store.Event, campaign uint64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: event %x: %w: repair the store with the evotune that wrote it", f.db.Path(), key, err)
		}
	}()
	if len(key) != 8 {
		return e, 0, errors.New("its key does not have 8 bytes")
	}
	v := f.events.Get(key)
	r, err := unseal(key, v)
	if err != nil {
		return e, 0, err
	}
	e, campaign, detail := r.event(v[0])
	e.Seq = binary.BigEndian.Uint64(key)
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	if r.err != nil || !detail {
		return e, campaign, r.err
	}
	return e, campaign, payloads(&e, key, f.details.Get(key))
}

var kinds = []store.Kind{
	"", store.KindStarted, store.KindAsked, store.KindTold, store.KindResumed, store.KindStopped, store.KindFinals, store.KindFinished, store.KindMeasured, store.KindAttempt,
}

// event reads what the record of an event has after its version, as package store encoded it: integers are
// varints, ids of hex digits are packed, and each kind has its fields. Version 5 added the detail of
// attempts on other hosts, and version 6 what is doubtful about the winner of finals.
func (r *fields) event(version byte) (e store.Event, campaign uint64, detail bool) {
	code, flags := int(r.byte()), r.byte()
	if code == 0 || code >= len(kinds) {
		r.fail("its kind %d is unknown", code)
		return e, 0, false
	}
	e.Kind = kinds[code]
	sec, nsec := r.varint(), r.uvarint()
	e.Time = time.Unix(sec, int64(nsec)).UTC()
	campaign = r.uvarint()
	switch e.Kind {
	case store.KindStarted:
		e.Campaign = r.string()
		s := &store.Started{Kernel: r.string()}
		for range r.count() {
			s.Shapes = append(s.Shapes, r.string())
		}
		s.Backend, s.Device, s.Name, s.Strategy = r.string(), r.string(), r.string(), r.string()
		s.SearchVersion, s.Seed = int(r.varint()), r.varint()
		e.Started = s
	case store.KindAsked:
		e.Asked = &store.Asked{Index: int(r.uvarint()), Candidate: r.id(), Genome: r.string(), Operator: r.string(), Parents: r.ids()}
	case store.KindTold, store.KindMeasured:
		t := &store.Told{Index: int(r.uvarint()), Candidate: r.id(), Verdict: r.string()}
		t.Fitness, t.MedianNS, t.BaselineNS = r.floats()
		t.Key = r.id()
		if e.Kind == store.KindTold {
			e.Told = t
		} else {
			e.Measured = t
		}
	case store.KindFinals:
		f := &store.Finals{Winner: r.id()}
		f.Fitness, f.MedianNS, f.BaselineNS = r.floats()
		f.Significant = r.byte() != 0
		f.Finalists = r.ids()
		if version == 6 {
			f.Slower, _, _ = r.floats()
			f.Unproven = r.string()
		}
		e.Finals = f
	case store.KindAttempt:
		e.Attempt = &store.Attempt{Index: int(r.uvarint()), Candidate: r.id(), Stage: r.string(), End: r.string()}
		if version == 5 {
			e.Attempt.Detail = json.RawMessage(r.string())
		}
	default:
		e.Note = &store.Note{Reason: r.string(), Evaluated: int(r.varint())}
	}
	return e, campaign, flags&1 != 0
}

// payloads reads the payloads of an event, which are kept apart: a byte that says whether they are
// compressed, their length, and the bytes.
func payloads(e *store.Event, key, b []byte) error {
	r, err := unseal(key, b)
	if err != nil {
		return fmt.Errorf("its payloads: %w", err)
	}
	codec, n := r.byte(), r.uvarint()
	raw := r.b
	if codec == 1 {
		if raw, err = io.ReadAll(flate.NewReader(bytes.NewReader(raw))); err != nil {
			return fmt.Errorf("its payloads: %w", err)
		}
	}
	if r.err != nil || codec > 1 || uint64(len(raw)) != n {
		return errors.New("its payloads are damaged")
	}
	raw = bytes.Clone(raw)
	switch {
	case e.Started != nil:
		r := fields{b: raw}
		e.Started.Config = r.bytes(r.uvarint())
		e.Started.Description = r.b
		return r.err
	case e.Result() != nil:
		e.Result().Detail = raw
	case e.Finals != nil:
		e.Finals.Detail = raw
	case e.Note != nil:
		e.Note.Detail = raw
	default:
		return errors.New("it has payloads that its kind does not have")
	}
	return nil
}

// unseal checks a record's version and checksum, which covers its key, and returns what is between them.
func unseal(key, b []byte) (*fields, error) {
	if len(b) < 5 {
		return nil, fmt.Errorf("a record of %d bytes is cut short", len(b))
	}
	body := b[:len(b)-4]
	table := crc32.MakeTable(crc32.Castagnoli)
	if crc32.Update(crc32.Checksum(key, table), table, body) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, errors.New("the checksum of a record is wrong")
	}
	if body[0] < 1 || body[0] > newest {
		return nil, fmt.Errorf("a record has version %d", body[0])
	}
	return &fields{b: body[1:]}, nil
}

// Fields of a record; err says what was wrong first.
type fields struct {
	b   []byte
	err error
}

func (r *fields) fail(format string, args ...any) {
	if r.b = nil; r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *fields) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail("a record is cut short")
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *fields) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *fields) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.bytes(uint64(max(n, 1)))
	return v
}

func (r *fields) varint() int64 {
	v, n := binary.Varint(r.b)
	r.bytes(uint64(max(n, 1)))
	return v
}

// count is a number of fields of a byte at least.
func (r *fields) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail("a record is cut short")
		return 0
	}
	return n
}

func (r *fields) string() string { return string(r.bytes(r.uvarint())) }

func (r *fields) id() string {
	v := r.uvarint()
	b := r.bytes(v / 2)
	if v%2 == 1 {
		return hex.EncodeToString(b)
	}
	return string(b)
}

func (r *fields) ids() (out []string) {
	for range r.count() {
		out = append(out, r.id())
	}
	return out
}

// floats reads up to three numbers: a byte says which of them are not zero.
func (r *fields) floats() (_, _, _ float64) {
	mask := r.byte()
	var v [3]float64
	for i := range v {
		if mask&(1<<i) != 0 {
			if b := r.bytes(8); b != nil {
				v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
			}
		}
	}
	return v[0], v[1], v[2]
}
