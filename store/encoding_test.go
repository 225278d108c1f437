package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// anyEvent draws events of all kinds with all values of their fields that
// Append accepts.
func anyEvent(t *rapid.T) Event {
	text := rapid.StringN(0, 12, 40)
	id := rapid.OneOf(rapid.StringMatching(`[0-9a-f]{1,16}`), rapid.StringN(1, 8, 30), rapid.Just("ABCDEF"))
	ids := func(label string) []string {
		if s := rapid.SliceOfN(id, 0, 4).Draw(t, label); len(s) > 0 {
			return s
		}
		return nil
	}
	payload := func(label string) json.RawMessage {
		b := rapid.OneOf(
			rapid.SliceOfN(rapid.Byte(), 0, 20),
			rapid.Map(rapid.IntRange(1, 400), func(n int) []byte { return []byte(`{"log":"` + strings.Repeat("warning ", n) + `"}`) }),
		).Draw(t, label)
		if len(b) == 0 {
			return nil
		}
		return b
	}
	number := rapid.OneOf(rapid.Just(0.0), rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) }))
	e := Event{
		Seq:      rapid.Uint64Min(1).Draw(t, "seq"),
		Time:     time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "sec"), rapid.Int64Range(0, 999_999_999).Draw(t, "nsec")).UTC(),
		Campaign: id.Draw(t, "campaign"),
		Kind:     rapid.SampledFrom(kindNames[1:]).Draw(t, "kind"),
	}
	switch e.Kind {
	case KindStarted:
		e.Started = &Started{
			Kernel: text.Draw(t, "kernel"), Shapes: ids("shapes"), Backend: text.Draw(t, "backend"), Device: text.Draw(t, "device"),
			Name: text.Draw(t, "name"), Strategy: text.Draw(t, "strategy"), SearchVersion: rapid.Int().Draw(t, "version"),
			Seed: rapid.Int64().Draw(t, "seed"), Config: payload("config"), Description: payload("description"),
		}
	case KindAsked:
		e.Asked = &Asked{
			Index: rapid.IntMin(0).Draw(t, "index"), Candidate: id.Draw(t, "candidate"), Genome: text.Draw(t, "genome"),
			Operator: text.Draw(t, "operator"), Parents: ids("parents"),
		}
	case KindTold, KindMeasured:
		e.Told = &Told{
			Index: rapid.IntMin(0).Draw(t, "index"), Candidate: id.Draw(t, "candidate"), Verdict: rapid.SampledFrom([]string{"correct", "parity", "é"}).Draw(t, "verdict"),
			Fitness: number.Draw(t, "fitness"), MedianNS: number.Draw(t, "median"), BaselineNS: number.Draw(t, "baseline"),
			Key: rapid.OneOf(rapid.Just(""), id).Draw(t, "key"), Detail: payload("detail"),
		}
		if e.Told.Verdict == correct {
			e.Told.Fitness = rapid.Float64Range(math.SmallestNonzeroFloat64, math.MaxFloat64).Draw(t, "correct fitness")
		}
		if e.Kind == KindMeasured {
			e.Told, e.Measured = nil, e.Told
		}
	case KindFinals:
		e.Finals = &Finals{
			Winner: rapid.OneOf(rapid.Just(""), id).Draw(t, "winner"), Fitness: number.Draw(t, "fitness"), MedianNS: number.Draw(t, "median"),
			BaselineNS: number.Draw(t, "baseline"), Significant: rapid.Bool().Draw(t, "significant"), Finalists: ids("finalists"), Detail: payload("detail"),
			Slower: number.Draw(t, "slower"), Unproven: rapid.OneOf(rapid.Just(""), text).Draw(t, "unproven"),
		}
	case KindAttempt:
		e.Attempt = &Attempt{
			Index: rapid.IntMin(0).Draw(t, "index"), Candidate: id.Draw(t, "candidate"), Stage: text.Draw(t, "stage"), End: text.Draw(t, "end"), Detail: payload("detail"),
		}
	default:
		e.Note = &Note{Reason: text.Draw(t, "reason"), Evaluated: rapid.Int().Draw(t, "evaluated"), Detail: payload("detail")}
	}
	return e
}

// bare is an event as it comes out of its hot record.
func bare(e Event) Event {
	out := e
	for _, field := range []any{&out.Started, &out.Told, &out.Measured, &out.Finals, &out.Note} {
		if v := reflect.ValueOf(field).Elem(); !v.IsNil() {
			c := reflect.New(v.Elem().Type())
			c.Elem().Set(v.Elem())
			v.Set(c)
		}
	}
	first, second := payloads(&out)
	if first != nil {
		*first = nil
	}
	if second != nil {
		*second = nil
	}
	return out
}

func TestEncodingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent(t)
		if err := validate(&e); err != nil {
			t.Fatalf("the generator makes events that Append refuses: %v", err)
		}
		number := rapid.Uint64().Draw(t, "campaign number")
		b := encodeEvent(&e, number)
		got, campaign, detail, err := decodeEvent(e.Seq, b)
		if err != nil {
			t.Fatal(err)
		}
		want := bare(e)
		if e.Kind != KindStarted {
			want.Campaign = ""
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("event changed (-want +got):\n%s", diff)
		}
		if campaign != number || detail != hasDetail(&e) {
			t.Fatalf("campaign %d, detail %v; want %d, %v", campaign, detail, number, hasDetail(&e))
		}
		d, err := encodeDetail(&e)
		if err != nil {
			t.Fatal(err)
		}
		if (d != nil) != detail {
			t.Fatalf("detail record of %d bytes, detail %v", len(d), detail)
		}
		if d == nil {
			return
		}
		if err := decodeDetail(&got, seal(e.Seq, d)); err != nil {
			t.Fatal(err)
		}
		got.Campaign = e.Campaign
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatalf("payloads changed (-want +got):\n%s", diff)
		}
	})
}

// The checksum must find whatever is done to a record: every single bit, and
// its being in another's place.
func TestEncodingFindsDamage(t *testing.T) {
	e := told("one", 3, "0123456789abcdef", 0.25)
	e.Seq = 77
	d, err := encodeDetail(&e)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"event": encodeEvent(&e, 5), "detail": seal(e.Seq, d)} {
		read := func(seq uint64, b []byte) error {
			if name == "event" {
				_, _, _, err := decodeEvent(seq, b)
				return err
			}
			e := bare(e)
			e.Seq = seq
			return decodeDetail(&e, b)
		}
		if err := read(77, b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range len(b) * 8 {
			bad := bytes.Clone(b)
			bad[i/8] ^= 1 << (i % 8)
			if err := read(77, bad); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: bit %d flipped: %v", name, i, err)
			}
		}
		for n := range b {
			if err := read(77, b[:n]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: cut to %d bytes: %v", name, n, err)
			}
		}
		if err := read(78, b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: read under another key: %v", name, err)
		}
	}
}

func TestEncodingOfNewerVersion(t *testing.T) {
	e := note("one", KindStopped, "")
	e.Seq = 1
	b := encodeEvent(&e, 1)
	for _, kind := range []byte{b[1], 99} {
		b[0], b[1] = formatVersion+1, kind
		_, _, _, err := decodeEvent(1, seal(1, bytes.Clone(b[:len(b)-4])))
		if !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
			t.Errorf("kind %d in a newer version with a good checksum: %v", kind, err)
		}
	}
}

// A number that does not fit is damage, and no negative index.
func TestForgedNumber(t *testing.T) {
	for _, e := range []Event{asked("one", -1, "aa"), bare(told("one", -1, "aa", 1)), bare(measured("one", -1, "aa", 1)), attempt("one", -1, "aa", "")} {
		if _, _, _, err := decodeEvent(0, encodeEvent(&e, 1)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", e.Kind, err)
		}
	}
	if _, err := decodeCandidate(1, candidateRecord{index: -1}.encode()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("candidate: %v", err)
	}
	for name, r := range map[string]campaignRecord{
		"asked": {state: Running, asked: -1}, "told": {state: Running, told: -1}, "verdicts": {state: Running, verdicts: []verdictCount{{correct, -1}}},
	} {
		if _, err := decodeCampaign(1, r.encode(1)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s of a campaign: %v", name, err)
		}
	}
}

// Ids are mostly hex, and take half as many bytes.
func TestIDsArePacked(t *testing.T) {
	id := strings.Repeat("0a", 32)
	e := asked("one", 0, id, id, id)
	if n := len(encodeEvent(&e, 1)); n > 3*len(id)/2+len(e.Asked.Genome)+len(e.Asked.Operator)+40 {
		t.Errorf("%d bytes with three ids of %d", n, len(id))
	}
}

// A record that is longer than its fields was written by something else.
func TestRecordWithMore(t *testing.T) {
	for _, e := range []Event{asked("one", 0, "aa"), bare(told("one", 0, "aa", 1)), bare(finals("one", "aa", "aa"))} {
		b := encodeEvent(&e, 1)
		if _, _, _, err := decodeEvent(0, seal(0, append(bytes.Clone(b[:len(b)-4]), 0))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s with a byte more: %v", e.Kind, err)
		}
	}
}

func TestDetailIsCompressed(t *testing.T) {
	e := told("one", 0, "aa", 1)
	e.Told.Detail = json.RawMessage(`{"log":"` + strings.Repeat("spilled 3 registers; ", 1000) + `"}`)
	d, err := encodeDetail(&e)
	if err != nil {
		t.Fatal(err)
	}
	if len(d) > len(e.Told.Detail)/20 {
		t.Errorf("%d bytes take %d", len(e.Told.Detail), len(d))
	}
}

// A forged length must not take memory.
func TestDetailWithForgedLength(t *testing.T) {
	for _, n := range []uint64{maxDetail, maxDetail + 1, math.MaxUint64} {
		for _, codec := range []byte{codecRaw, codecDeflate, 9} {
			b := binary.AppendUvarint([]byte{formatVersion, codec}, n)
			e := bare(told("one", 0, "aa", 1))
			if err := decodeDetail(&e, seal(0, append(b, "some bytes"...))); !errors.Is(err, ErrCorrupt) {
				t.Errorf("length %d, codec %d: %v", n, codec, err)
			}
		}
	}
	zeros, err := encodeDetail(&Event{Told: &Told{Detail: make([]byte, 64<<20)}})
	if err != nil {
		t.Fatal(err)
	}
	stream := zeros[len(binary.AppendUvarint([]byte{formatVersion, codecDeflate}, 64<<20)):]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, n := range []uint64{3, maxDetail} {
		b := append(binary.AppendUvarint([]byte{formatVersion, codecDeflate}, n), stream[:1000]...)
		if _, err := inflateDetail(0, seal(0, b)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a stream of another length than %d: %v", n, err)
		}
	}
	b := append(binary.AppendUvarint([]byte{formatVersion, codecDeflate}, 3), stream...)
	if _, err := inflateDetail(0, seal(0, b)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a stream of another length than 3: %v", err)
	}
	// A number of parents for which there is no room in the record.
	e := asked("one", 0, "aa")
	b = encodeEvent(&e, 1)
	b = binary.AppendUvarint(b[:len(b)-5], 1<<40)
	if _, _, _, err := decodeEvent(0, seal(0, b)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("many parents: %v", err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 16<<20 {
		t.Errorf("%d bytes were allocated", after.TotalAlloc-before.TotalAlloc)
	}
}

// FuzzDecodeEvent decodes any bytes, as they are and with the right checksum, as
// event and as detail: it must neither fail nor allocate without bound, and
// what it accepts must come out the same when it is encoded again.
func FuzzDecodeEvent(f *testing.F) {
	for _, e := range []Event{
		started("one"), asked("one", 1, "0011", "aabb", "XYZ"), told("one", 1, "0011", 0.5), told("one", 1, "0011", 0),
		finals("one", "0011", "0011", "aabb"), note("one", KindStopped, "interrupted"), note("one", KindResumed, ""), note("one", KindFinished, "time"),
	} {
		e.Seq = 9
		b := encodeEvent(&e, 3)
		f.Add(uint64(9), b[:len(b)-4])
		d, err := encodeDetail(&e)
		if err != nil {
			f.Fatal(err)
		}
		if d != nil {
			f.Add(uint64(9), d)
		}
	}
	f.Fuzz(func(t *testing.T, seq uint64, b []byte) {
		_, _, _, _ = decodeEvent(seq, b)
		_, _ = inflateDetail(seq, b)
		sealed := seal(seq, bytes.Clone(b))
		if e, campaign, detail, err := decodeEvent(seq, sealed); err == nil {
			// Only the presence of payloads is in the record.
			if first, _ := payloads(&e); detail {
				*first = json.RawMessage("{}")
			}
			again, campaign2, detail2, err := decodeEvent(seq, encodeEvent(&e, campaign))
			if err != nil {
				t.Fatalf("what was accepted is not accepted again: %v", err)
			}
			want := bare(e)
			if !sameEvent(want, again) || campaign != campaign2 || detail != detail2 {
				t.Fatalf("decoded %+v, then %+v", want, again)
			}
		}
		for _, kind := range []Event{{Seq: seq, Started: &Started{}}, {Seq: seq, Told: &Told{}}, {Seq: seq, Asked: &Asked{}}} {
			if err := decodeDetail(&kind, sealed); err != nil {
				continue
			}
			d, err := encodeDetail(&kind)
			if err != nil {
				t.Fatal(err)
			}
			again := bare(kind)
			if err := decodeDetail(&again, seal(seq, d)); err != nil || !sameEvent(kind, again) {
				t.Fatalf("payloads %+v, then %+v: %v", kind, again, err)
			}
		}
	})
}

// sameEvent compares as == does but for NaN, which equals itself here.
func sameEvent(a, b Event) bool {
	return cmp.Equal(a, b, cmp.Comparer(func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }))
}

func TestFlagsOfAsked(t *testing.T) {
	e := asked("one", 0, "aa")
	e.Seq = 4
	b := encodeEvent(&e, 1)
	for _, flags := range []byte{flagDetail, 2, 0x80} {
		b[2] = flags
		if _, _, _, err := decodeEvent(4, seal(4, bytes.Clone(b[:len(b)-4]))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("flags %#x: %v", flags, err)
		}
	}
}
