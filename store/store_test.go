package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
)

func TestAppendAndRead(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	var kinds []string
	seq := uint64(0)
	for e, err := range s.Events("", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seq++; e.Seq != seq {
			t.Errorf("event %d follows event %d", e.Seq, seq-1)
		}
		kinds = append(kinds, string(e.Kind))
	}
	if got := strings.Join(kinds, " "); got != "started asked told asked told asked asked told told started asked told asked told asked finals finished" {
		t.Errorf("log: %s", got)
	}
	last, err := s.Last()
	if err != nil || last != seq {
		t.Errorf("Last: %d, %v", last, err)
	}
	// What comes out is what went in.
	for _, want := range []struct {
		seq uint64
		e   Event
	}{
		{1, started("one")},
		{2, asked("one", 0, "aaaa0001")},
		{3, told("one", 0, "aaaa0001", 0.9)},
		{6, asked("one", 2, "cccc0001", "aaaa0001", "bbbb0001")},
		{16, finals("two", "eeee0001", "eeee0001", "ffff0001")},
		{17, note("two", KindFinished, "evaluations")},
	} {
		got, err := s.Event(want.seq)
		if err != nil {
			t.Fatal(err)
		}
		want.e.Seq = want.seq
		if diff := cmp.Diff(want.e, got); diff != "" {
			t.Errorf("event %d (-want +got):\n%s", want.seq, diff)
		}
	}
	if _, err := s.Event(18); !errors.Is(err, ErrNotFound) {
		t.Errorf("an event that is not there: %v", err)
	}
}

func TestEventsOfOneCampaign(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	mustAppend(t, s, note("one", KindStopped, "interrupted"), note("one", KindResumed, "resumed"))
	read := func(campaign string, from uint64, o ...EventsOption) (seqs []uint64, details int) {
		for e, err := range s.Events(campaign, from, o...) {
			if err != nil {
				t.Fatal(err)
			}
			if campaign != "" && e.Campaign != campaign {
				t.Errorf("event %d is of campaign %q", e.Seq, e.Campaign)
			}
			if hasDetail(&e) {
				details++
			}
			seqs = append(seqs, e.Seq)
		}
		return seqs, details
	}
	for _, test := range []struct {
		campaign string
		from     uint64
		options  []EventsOption
		want     []uint64
		details  int
	}{
		{"one", 0, nil, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 18, 19}, 7},
		{"one", 0, []EventsOption{WithoutDetail()}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 18, 19}, 0},
		{"one", 6, nil, []uint64{6, 7, 8, 9, 18, 19}, 4},
		{"two", 0, nil, []uint64{10, 11, 12, 13, 14, 15, 16, 17}, 5},
		{"two", 17, nil, []uint64{17}, 1},
		{"two", 18, nil, nil, 0},
		{"", 17, nil, []uint64{17, 18, 19}, 3},
		{"tw", 0, nil, nil, 0}, // a prefix is not a campaign
	} {
		seqs, details := read(test.campaign, test.from, test.options...)
		if !slices.Equal(seqs, test.want) || details != test.details {
			t.Errorf("Events(%q, %d): %v with %d details, want %v with %d", test.campaign, test.from, seqs, details, test.want, test.details)
		}
	}
}

// The loop over events may write: no transaction is open while it runs, which
// would stop the writer as soon as the file grows out of its map.
func TestAppendWhileReading(t *testing.T) {
	s := mustCreate(t)
	s.db.NoSync = true
	mustAppend(t, s, started("one"))
	grow := func(n int) {
		e := note("one", KindStopped, "grow")
		// Text that does not compress, so that the file grows.
		e.Note.Detail = json.RawMessage(fmt.Sprintf(`"%x"`, noise(int64(n), 2000)))
		mustAppend(t, s, e)
	}
	for n := range 300 {
		grow(n)
	}
	watchdog := time.AfterFunc(time.Minute, func() { panic("the reader stops the writer") })
	defer watchdog.Stop()
	n := 0
	for _, err := range s.Events("one", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		grow(n)
	}
	if n != 301 {
		t.Errorf("%d events, want those 301 that there were at the beginning", n)
	}
	if last, err := s.Last(); err != nil || last != 602 {
		t.Errorf("%d events in the end, %v", last, err)
	}
}

func noise(seed int64, n int) []byte {
	b := make([]byte, n)
	x := uint64(seed)*0x9E3779B97F4A7C15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

func TestAppendSetsTime(t *testing.T) {
	s := mustCreate(t)
	e := started("one")
	e.Time = time.Time{}
	before := time.Now()
	mustAppend(t, s, e)
	if !e.Time.IsZero() {
		t.Error("the caller's event was changed")
	}
	got, err := s.Event(1)
	if err != nil || got.Time.Before(before.Add(-time.Millisecond)) || got.Time.After(time.Now()) {
		t.Errorf("time %v, %v", got.Time, err)
	}
}

func TestAppendRefuses(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	mutate := func(e Event, f func(*Event)) Event { f(&e); return e }
	for name, events := range map[string][]Event{
		"nothing":                    {},
		"no kind":                    {{Campaign: "one"}},
		"no campaign":                {note("", KindStopped, "")},
		"a long campaign":            {started(strings.Repeat("x", maxID+1))},
		"no field":                   {{Campaign: "one", Kind: KindAsked}},
		"another field":              {{Campaign: "one", Kind: KindAsked, Note: &Note{}}},
		"two fields":                 {mutate(asked("one", 4, "new"), func(e *Event) { e.Note = &Note{} })},
		"unknown campaign":           {asked("three", 0, "new")},
		"part of a campaign's id":    {asked("on", 4, "new")},
		"started twice":              {started("one")},
		"started twice in one call":  {started("three"), started("three")},
		"no candidate":               {asked("one", 4, "")},
		"a long candidate":           {asked("one", 4, strings.Repeat("x", maxID+1))},
		"a gap":                      {asked("one", 5, "new")},
		"an index again":             {asked("one", 3, "new")},
		"a negative index":           {asked("one", -1, "new")},
		"asked with a result":        {asked("one", 4, "aaaa0001")},
		"asked elsewhere":            {asked("one", 4, "aaaa0002")},
		"an unknown parent":          {asked("one", 4, "new", "aaaa0001", "nobody")},
		"its own parent":             {asked("one", 4, "new", "new")},
		"an empty parent":            {asked("one", 4, "new", "")},
		"a parent that comes later":  {asked("one", 4, "new", "next"), asked("one", 5, "next")},
		"told, not asked":            {told("one", 4, "new", 1)},
		"told twice":                 {told("one", 0, "aaaa0001", 1)},
		"told in another campaign":   {told("one", 2, "aaaa0002", 1)},
		"told with another index":    {told("two", 1, "aaaa0002", 1)},
		"attempt, not asked":         {attempt("one", 4, "new", "")},
		"attempt as another":         {attempt("one", 2, "dddd0001", "")},
		"attempt elsewhere":          {attempt("two", 3, "dddd0001", "")},
		"attempt and note":           {mutate(attempt("one", 3, "dddd0001", ""), func(e *Event) { e.Note = &Note{} })},
		"attempt, index":             {attempt("one", -1, "dddd0001", "")},
		"measured, not asked":        {measured("one", 4, "new", 1)},
		"measured, not told":         {measured("two", 2, "aaaa0002", 1)},
		"measured though correct":    {measured("one", 0, "aaaa0001", 1)},
		"measured twice":             {measured("one", 3, "dddd0001", 0), measured("one", 3, "dddd0001", 1)},
		"measured as another":        {measured("one", 2, "dddd0001", 1)},
		"measured and told":          {mutate(measured("one", 3, "dddd0001", 1), func(e *Event) { e.Told = e.Measured })},
		"measured in another field":  {mutate(told("one", 3, "dddd0001", 1), func(e *Event) { e.Kind = KindMeasured })},
		"no verdict":                 {mutate(told("two", 2, "aaaa0002", 0), func(e *Event) { e.Told.Verdict = "" })},
		"correct without fitness":    {mutate(told("two", 2, "aaaa0002", 1), func(e *Event) { e.Told.Fitness = 0 })},
		"correct with NaN":           {mutate(told("two", 2, "aaaa0002", 1), func(e *Event) { e.Told.Fitness = nan() })},
		"correct with infinity":      {mutate(told("two", 2, "aaaa0002", 1), func(e *Event) { e.Told.Fitness = 1 / zero() })},
		"correct and negative":       {mutate(told("two", 2, "aaaa0002", 1), func(e *Event) { e.Told.Fitness = -1 })},
		"a long key":                 {mutate(told("two", 2, "aaaa0002", 1), func(e *Event) { e.Told.Key = strings.Repeat("k", maxID+1) })},
		"finals of the untold":       {finals("two", "", "eeee0001", "aaaa0002")},
		"finals of others":           {finals("two", "", "aaaa0001")},
		"finals won by the wrong":    {finals("one", "dddd0001", "aaaa0001", "dddd0001")},
		"good, then bad":             {asked("one", 4, "new"), told("one", 4, "newer", 1)},
		"a genome without end":       {mutate(asked("one", 4, "new"), func(e *Event) { e.Asked.Genome = strings.Repeat("g", maxText) })},
		"a detail without end":       {mutate(note("one", KindStopped, ""), func(e *Event) { e.Note.Detail = make([]byte, maxDetail+1) })},
		"good, bad, and not changed": {note("one", KindStopped, "kept?"), note("three", KindStopped, "")},
	} {
		first, err := s.Append(events...)
		if !errors.Is(err, ErrInvalid) || first != 0 {
			t.Errorf("%s: %d, %v", name, first, err)
			continue
		}
		oneLine(t, err, s.Path())
	}
	if last, err := s.Last(); err != nil || last != 17 {
		t.Errorf("something was kept: the last event is %d, %v", last, err)
	}
	// Other parts of the call must not have reached the indexes.
	if c, err := s.Campaign("one"); err != nil || c.State != Running || c.Asked != 4 {
		t.Errorf("campaign one: %+v, %v", c, err)
	}
	if _, err := s.Candidate("new"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a refused candidate: %v", err)
	}
}

func zero() float64 { return 0 }
func nan() float64  { return zero() / zero() }

func TestCampaigns(t *testing.T) {
	s := mustCreate(t)
	if got, err := s.Campaigns(); err != nil || len(got) != 0 {
		t.Errorf("an empty store has campaigns %v, %v", got, err)
	}
	smallStore(t, s)
	got, err := s.Campaigns()
	if err != nil {
		t.Fatal(err)
	}
	bareStart := func(id string) Started { e := bare(started(id)); return *e.Started }
	bareTold := func(e Event) *Told { return bare(e).Told }
	want := []Campaign{
		{
			ID: "one", State: Running, Started: bareStart("one"), StartedAt: noon, LastAt: noon, First: 1, Last: 9,
			Asked: 4, Evaluated: 4, Verdicts: map[string]int{"correct": 3, "parity": 1},
			Best: bareTold(told("one", 1, "bbbb0001", 0.8)),
		},
		{
			ID: "two", State: Finished, Reason: "evaluations", Started: bareStart("two"), StartedAt: noon, LastAt: noon, First: 10, Last: 17,
			Asked: 3, Evaluated: 2, Verdicts: map[string]int{"correct": 2},
			Best:   bareTold(told("two", 1, "ffff0001", 0.6)),
			Finals: bare(finals("two", "eeee0001", "eeee0001", "ffff0001")).Finals,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("campaigns (-want +got):\n%s", diff)
	}
	two, err := s.Campaign("tw")
	if err != nil {
		t.Fatal(err)
	}
	if string(two.Started.Config) != `{"workers":2}` || string(two.Started.Description) != `{"backend":"cpu"}` || string(two.Finals.Detail) != `{"entries":[]}` {
		t.Errorf("payloads: %s %s %s", two.Started.Config, two.Started.Description, two.Finals.Detail)
	}
	mustAppend(t, s, note("two", KindResumed, "resumed"), started("onerous"))
	if c, err := s.Campaign("two"); err != nil || c.State != Running || c.Reason != "" {
		t.Errorf("resumed: %s %q, %v", c.State, c.Reason, err)
	}
	// "one" is the id of one and the beginning of another: the id wins.
	if c, err := s.Campaign("one"); err != nil || c.ID != "one" {
		t.Errorf("Campaign(one): %s, %v", c.ID, err)
	}
	for id, want := range map[string]error{"on": ErrAmbiguous, "three": ErrNotFound, "": ErrNotFound} {
		_, err := s.Campaign(id)
		if !errors.Is(err, want) {
			t.Errorf("Campaign(%q): %v", id, err)
		}
		oneLine(t, err, s.Path())
	}
}

func ids(cs []Candidate) string {
	var out []string
	for _, c := range cs {
		out = append(out, c.ID)
	}
	return strings.Join(out, " ")
}

func TestCandidate(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	got, err := s.Candidate("e")
	if err != nil {
		t.Fatal(err)
	}
	want := Candidate{
		ID: "eeee0001", Campaign: "two", Kernel: "sgemm", Device: "f00d", Shapes: []string{"1024", "odd"},
		Asked: *asked("two", 0, "eeee0001").Asked, AskedAt: noon, AskedSeq: 11, ToldSeq: 12, ToldAt: noon,
		Told: told("two", 0, "eeee0001", 0.7).Told, Finalist: true, Proven: true, FinalsSeq: 16,
		Finals: finals("two", "eeee0001", "eeee0001", "ffff0001").Finals,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("candidate (-want +got):\n%s", diff)
	}
	if got, err = s.Candidate("aaaa0002"); err != nil || got.Told != nil || got.ToldSeq != 0 || got.Proven || got.Finalist {
		t.Errorf("a candidate without result: %+v, %v", got, err)
	}
	if got, err = s.Candidate("ffff"); err != nil || !got.Finalist || got.Proven {
		t.Errorf("a finalist: %+v, %v", got, err)
	}
	for id, want := range map[string]error{"aaaa": ErrAmbiguous, "a": ErrAmbiguous, "nobody": ErrNotFound, "": ErrNotFound, "eeee00011": ErrNotFound} {
		_, err := s.Candidate(id)
		if !errors.Is(err, want) {
			t.Errorf("Candidate(%q): %v", id, err)
		}
		oneLine(t, err, s.Path())
	}
	if _, err := s.Candidate("aaaa"); !strings.Contains(err.Error(), "aaaa0001, aaaa0002") {
		t.Errorf("it should say which there are: %v", err)
	}
}

func TestBest(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	other := started("three")
	other.Started.Kernel, other.Started.Device, other.Started.Shapes = "softmax", "beef", []string{"odd"}
	mustAppend(t, s, other, asked("three", 0, "99990001"), told("three", 0, "99990001", 0.75), asked("three", 1, "99990002"), told("three", 1, "99990002", 0))
	for _, test := range []struct {
		q    Query
		want string
	}{
		{Query{}, "ffff0001"},
		{Query{Limit: 3}, "ffff0001 eeee0001 99990001"},
		// b and c have the same fitness: the older comes first.
		{Query{Limit: 100}, "ffff0001 eeee0001 99990001 bbbb0001 cccc0001 aaaa0001"},
		{Query{Limit: 100, Campaign: "one"}, "bbbb0001 cccc0001 aaaa0001"},
		{Query{Limit: 100, Kernel: "sgemm"}, "ffff0001 eeee0001 bbbb0001 cccc0001 aaaa0001"},
		{Query{Limit: 100, Kernel: "softmax"}, "99990001"},
		{Query{Limit: 100, Kernel: "softmax", Device: "f00d"}, ""},
		{Query{Limit: 2, Device: "f00d"}, "ffff0001 eeee0001"},
		{Query{Limit: 1, Shapes: []string{"odd", "1024"}}, "ffff0001"},
		{Query{Limit: 1, Shapes: []string{"odd"}}, "99990001"},
		{Query{Limit: 1, Shapes: []string{"1024"}}, ""},
		{Query{Limit: 9, ProvenOnly: true}, "eeee0001"},
		{Query{Limit: 9, ProvenOnly: true, Campaign: "one"}, ""},
		{Query{Limit: 9, Campaigns: []string{"three", "one"}}, "99990001 bbbb0001 cccc0001 aaaa0001"},
		{Query{Limit: 9, Campaigns: []string{"three", "two"}, Kernel: "sgemm"}, "ffff0001 eeee0001"},
	} {
		got, err := s.Best(test.q)
		if err != nil || ids(got) != test.want {
			t.Errorf("Best(%+v): %s, %v; want %s", test.q, ids(got), err, test.want)
		}
		for _, c := range got {
			if len(c.Told.Detail) > 0 {
				t.Error("Best reads details")
			}
		}
	}
	if _, err := s.Best(Query{Campaign: "four"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Best of an unknown campaign: %v", err)
	}
}

func TestCandidates(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	var want []string
	of := map[string]string{}
	for e, err := range s.Events("", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Asked != nil && of[e.Asked.Candidate] == "" {
			want = append(want, e.Asked.Candidate)
			of[e.Asked.Candidate] = e.Campaign
		}
	}
	only := func(campaigns ...string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(want), func(id string) bool { return !slices.Contains(campaigns, of[id]) }), " ")
	}
	for _, test := range []struct {
		q    Query
		want string
	}{
		{Query{}, strings.Join(want, " ")},
		{Query{Campaign: "one"}, only("one")},
		{Query{Campaign: "two"}, only("two")},
		{Query{Campaigns: []string{"two"}}, only("two")},
		{Query{Kernel: "sgemm", Device: "f00d"}, only("one", "two")},
		{Query{Kernel: "softmax"}, ""},
		{Query{ProvenOnly: true}, "eeee0001"},
	} {
		for _, limit := range []int{0, 1, 2, 100} {
			test.q.Limit = limit
			var all []Candidate
			for from, first := uint64(0), true; first || from != 0; first = false {
				page, next, err := s.Candidates(test.q, from)
				if err != nil || limit > 0 && len(page) > limit || next != 0 && next <= from {
					t.Fatalf("Candidates(%+v, %d): %d of them, then %d, %v", test.q, from, len(page), next, err)
				}
				all, from = append(all, page...), next
			}
			if ids(all) != test.want {
				t.Errorf("Candidates(%+v): %s, want %s", test.q, ids(all), test.want)
			}
			for _, c := range all {
				one, err := s.Candidate(c.ID)
				if one.Told != nil {
					one.Told.Detail = nil
				}
				if one.Finals != nil && one.Finals.Winner == one.ID {
					one.Finals.Detail = nil // what finals say of the winner is in the event itself
				}
				if diff := cmp.Diff(one, c); err != nil || diff != "" {
					t.Errorf("one alone and one of many differ: %v\n%s", err, diff)
				}
			}
		}
	}
	if _, _, err := s.Candidates(Query{Campaign: "four"}, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("candidates of an unknown campaign: %v", err)
	}
}

func TestByKey(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	again := told("two", 2, "aaaa0002", 0.5)
	again.Told.Key = "key of aaaa0001"
	mustAppend(t, s, again)
	for key, want := range map[string]string{"key of aaaa0001": "aaaa0001 aaaa0002", "key of bbbb0001": "bbbb0001", "key": "", "": ""} {
		if got, err := s.ByKey(key); err != nil || ids(got) != want {
			t.Errorf("ByKey(%q): %s, %v; want %s", key, ids(got), err, want)
		}
	}
}

// TestAttempt: attempts are in the log and in no query. One on another host says more.
func TestAttempt(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	before, err := s.Candidate("dddd0001")
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, attempt("one", 3, "dddd0001", ""), attempt("one", 3, "dddd0001", "evotune ended"), elsewhere("one", 3, "dddd0001"))
	after, err := s.Candidate("dddd0001")
	if diff := cmp.Diff(before, after); err != nil || diff != "" {
		t.Errorf("attempts changed the candidate (-before +after):\n%s%v", diff, err)
	}
	look := func(s *Store) {
		t.Helper()
		var got []Attempt
		for e, err := range s.Events("one", 18, WithoutDetail()) {
			if err != nil || e.Attempt == nil {
				t.Fatal(e, err)
			}
			got = append(got, *e.Attempt)
		}
		want := []Attempt{{3, "dddd0001", "parity", "", nil}, {3, "dddd0001", "parity", "evotune ended", nil}, *elsewhere("one", 3, "dddd0001").Attempt}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	}
	look(s)
	path := s.Path()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustBeSound(t, path)
	if _, err := Repair(path, Options{}); err != nil {
		t.Fatal(err)
	}
	mustBeSound(t, path)
	look(mustOpen(t, path, Options{ReadOnly: true}))
}

// TestMeasured: a second measurement takes the place of the result in every query.
func TestMeasured(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	again := measured("one", 3, "dddd0001", 0.5)
	again.Measured.Key = "another key"
	mustAppend(t, s, again)
	look := func(t *testing.T, s *Store) {
		t.Helper()
		c, err := s.Candidate("dddd0001")
		if err != nil || !c.Again || c.ToldSeq != 18 || c.Told.Verdict != correct || c.Told.Fitness != 0.5 || len(c.Told.Detail) == 0 {
			t.Errorf("candidate %+v, told %+v, %v", c, c.Told, err)
		}
		if best, err := s.Best(Query{Campaign: "one"}); err != nil || ids(best) != "dddd0001" {
			t.Errorf("best %s, %v", ids(best), err)
		}
		of, err := s.Campaign("one")
		if err != nil || of.Best == nil || of.Best.Candidate != "dddd0001" || of.Evaluated != 4 || of.Verdicts[correct] != 4 || len(of.Verdicts) != 1 {
			t.Errorf("campaign %+v, %v", of, err)
		}
		for key, want := range map[string]string{"key of dddd0001": "", "another key": "dddd0001"} {
			if found, err := s.ByKey(key); err != nil || ids(found) != want {
				t.Errorf("ByKey(%q): %s, %v", key, ids(found), err)
			}
		}
	}
	look(t, s)
	path := s.Path()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustBeSound(t, path)
	for name, damage := range map[string]func(tx *bolt.Tx) error{
		"none": func(*bolt.Tx) error { return nil },
		"record": func(tx *bolt.Tx) error {
			return editCandidate(tx, 7, func(r *candidateRecord) { r.measured, r.correct = 0, false })
		},
		"rank": func(tx *bolt.Tx) error { return tx.Bucket(bucketRanking).Delete(rankingKey(1, 0.5, 18)) },
		"key":  func(tx *bolt.Tx) error { return tx.Bucket(bucketKeys).Put(contentKey("key of dddd0001", 9), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			edit(t, path, damage)
			if rep, err := Check(path, Options{}); err != nil || rep.OK() != (name == "none") || rep.Lost > 0 {
				t.Errorf("check: %+v, %v", rep, err)
			}
			if rep, err := Repair(path, Options{}); err != nil || !rep.OK() {
				t.Fatalf("repair: %+v, %v", rep, err)
			}
			s, err := Open(path, Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			look(t, s)
		})
	}
}

func TestLineageAndChildren(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	c, err := s.Lineage("cccc")
	if err != nil {
		t.Fatal(err)
	}
	if c.ID != "cccc0001" || len(c.Parents) != 2 || c.Parents[0].ID != "aaaa0001" || c.Parents[1].ID != "bbbb0001" {
		t.Fatalf("lineage of c: %+v", c)
	}
	if b := c.Parents[1]; len(b.Parents) != 1 || b.Parents[0] != c.Parents[0] {
		t.Error("a is the parent of b and of c, and should be one node")
	}
	if len(c.Told.Detail) > 0 || c.Told.Fitness != 0.8 {
		t.Errorf("told: %+v", c.Told)
	}
	for id, want := range map[string]string{"aaaa0001": "bbbb0001 cccc0001", "bbbb0001": "cccc0001 dddd0001", "cccc0001": "", "ffff": "aaaa0002"} {
		if got, err := s.Children(id); err != nil || ids(got) != want {
			t.Errorf("Children(%s): %s, %v; want %s", id, ids(got), err, want)
		}
	}
	for _, f := range []func(string) error{
		func(id string) error { _, err := s.Lineage(id); return err },
		func(id string) error { _, err := s.Children(id); return err },
	} {
		if err := f("aaaa"); !errors.Is(err, ErrAmbiguous) {
			t.Error(err)
		}
		if err := f("nobody"); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	}
}

// A candidate whose evaluation was lost is asked for again, as a child of its own
// child: lineages must not go round.
func TestAskedAgain(t *testing.T) {
	s := mustCreate(t)
	mustAppend(t, s,
		started("one"), asked("one", 0, "aa"), asked("one", 1, "bb", "aa"), asked("one", 2, "cc"),
		told("one", 1, "bb", 0.5), note("one", KindResumed, "a newer search"),
		asked("one", 3, "aa", "bb", "cc"), told("one", 3, "aa", 0.4),
	)
	if _, err := s.Append(told("one", 0, "aa", 0.4)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a result for the first of two proposals: %v", err)
	}
	a, err := s.Lineage("aa")
	if err != nil {
		t.Fatal(err)
	}
	if a.Asked.Index != 3 || len(a.Parents) != 1 || a.Parents[0].ID != "cc" {
		t.Errorf("lineage of aa: %+v", a)
	}
	b, err := s.Lineage("bb")
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Parents) != 1 || b.Parents[0].ID != "aa" || len(b.Parents[0].Parents) != 1 || b.Parents[0].Parents[0].ID != "cc" {
		t.Errorf("lineage of bb: %+v", b)
	}
	for id, want := range map[string]string{"aa": "bb", "bb": "aa", "cc": "aa"} {
		if got, err := s.Children(id); err != nil || ids(got) != want {
			t.Errorf("Children(%s): %s, %v; want %s", id, ids(got), err, want)
		}
	}
}

// A hill climb has lineages as long as the campaign.
func TestLongLineage(t *testing.T) {
	s := mustCreate(t)
	const n = 20_000
	events := []Event{started("one"), asked("one", 0, "c0")}
	for i := 1; i < n; i++ {
		events = append(events, asked("one", i, fmt.Sprintf("c%d", i), fmt.Sprintf("c%d", i-1)))
	}
	mustAppend(t, s, events...)
	node, err := s.Lineage(fmt.Sprintf("c%d", n-1))
	if err != nil {
		t.Fatal(err)
	}
	depth := 1
	for ; len(node.Parents) > 0; node = node.Parents[0] {
		depth++
	}
	if depth != n {
		t.Errorf("depth %d, want %d", depth, n)
	}
}

func TestConcurrentAppend(t *testing.T) {
	s := mustCreate(t)
	const appenders, each = 8, 25
	var wg sync.WaitGroup
	for a := range appenders {
		wg.Add(1)
		go func() {
			defer wg.Done()
			campaign := fmt.Sprintf("campaign-%d", a)
			if _, err := s.Append(started(campaign)); err != nil {
				t.Error(err)
				return
			}
			for i := range each {
				id := fmt.Sprintf("%02x%02x", a, i)
				first, err := s.Append(asked(campaign, i, id), told(campaign, i, id, float64(i+1)))
				if err != nil {
					t.Error(err)
					return
				}
				// What was acknowledged is there, at the Seq that was told.
				if e, err := s.Event(first + 1); err != nil || e.Told == nil || e.Told.Candidate != id {
					t.Errorf("event %d: %+v, %v", first+1, e, err)
				}
				// A bad request among the others harms only itself.
				if _, err := s.Append(told(campaign, i, id, 1)); !errors.Is(err, ErrInvalid) {
					t.Errorf("a second result: %v", err)
				}
				if _, err := s.Best(Query{Limit: 5}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if last, err := s.Last(); err != nil || last != appenders*(1+2*each) {
		t.Errorf("%d events, %v", last, err)
	}
}

func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	s := mustOpen(t, path, Options{})
	smallStore(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Two at once.
	a, b := mustOpen(t, path, Options{ReadOnly: true}), mustOpen(t, path, Options{ReadOnly: true})
	for _, r := range []*Store{a, b} {
		if got, err := r.Best(Query{}); err != nil || ids(got) != "ffff0001" {
			t.Errorf("Best: %s, %v", ids(got), err)
		}
		_, err := r.Append(note("one", KindStopped, ""))
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("Append: %v", err)
		}
		oneLine(t, err, path)
		if r.Path() != path {
			t.Errorf("Path: %s", r.Path())
		}
	}
}

func TestLocked(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	for _, o := range []Options{{}, {ReadOnly: true}, {Timeout: -1}, {Timeout: 50 * time.Millisecond}} {
		begin := time.Now()
		_, err := Open(s.Path(), o)
		if !errors.Is(err, ErrLocked) {
			t.Errorf("%+v: %v", o, err)
		}
		if took, limit := time.Since(begin), o.timeout()+5*time.Second; took > limit {
			t.Errorf("%+v: took %v", o, took)
		}
		oneLine(t, err, s.Path())
	}
	if _, err := Check(s.Path(), Options{Timeout: -1}); !errors.Is(err, ErrLocked) {
		t.Errorf("Check: %v", err)
	}
	if _, err := Repair(s.Path(), Options{Timeout: -1}); !errors.Is(err, ErrLocked) {
		t.Errorf("Repair: %v", err)
	}
	// A writer gets the store when the readers leave within its timeout.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, s.Path(), Options{ReadOnly: true})
	time.AfterFunc(50*time.Millisecond, func() { _ = r.Close() })
	w, err := Open(s.Path(), Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestClosed(t *testing.T) {
	s := mustCreate(t)
	smallStore(t, s)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range map[string]func() error{
		"Append":    func() error { _, err := s.Append(note("one", KindStopped, "")); return err },
		"Campaigns": func() error { _, err := s.Campaigns(); return err },
		"Best":      func() error { _, err := s.Best(Query{}); return err },
		"Check":     func() error { _, err := s.Check(); return err },
		"Events": func() error {
			for _, err := range s.Events("", 0) {
				return err
			}
			return nil
		},
	} {
		if err := f(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		} else {
			oneLine(t, err, s.Path())
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	otherBolt := filepath.Join(dir, "other.db")
	edit(t, otherBolt, func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("someone else's"))
		return err
	})
	bare := filepath.Join(dir, "bare.db")
	edit(t, bare, func(*bolt.Tx) error { return nil })

	writing, reading := []Options{{}}, []Options{{ReadOnly: true}}
	both := append(writing, reading...)
	for _, test := range []struct {
		name, path string
		options    []Options
		want       error
		says       string
	}{
		{"missing", filepath.Join(dir, "missing.db"), append(reading, Options{MustExist: true}), fs.ErrNotExist, "there is no store"},
		{"missing folder", filepath.Join(dir, "no", "missing.db"), both, fs.ErrNotExist, ""},
		{"folder", dir, both, ErrNotStore, "directory"},
		{"device", os.DevNull, both, ErrNotStore, "not a regular file"},
		{"text", write("text.db", []byte(strings.Repeat("not a store\n", 1000))), both, ErrNotStore, "another kind of file"},
		{"one byte", write("byte.db", []byte("x")), both, ErrNotStore, "another kind of file"},
		{"empty, reading", write("empty.db", nil), reading, ErrNotStore, "empty"},
		{"created only, reading", bare, reading, ErrNotStore, "nothing was ever written"},
		{"other bbolt file", otherBolt, both, ErrNotStore, "another program"},
	} {
		for _, o := range test.options {
			_, err := Open(test.path, o)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s (%+v): %v", test.name, o, err)
			}
			oneLine(t, err, test.path)
			if _, err := os.Stat(filepath.Join(dir, "missing.db")); err == nil {
				t.Fatal("a store was created")
			}
		}
		if errors.Is(test.want, ErrNotStore) && test.path != bare {
			if _, err := Check(test.path, Options{}); !errors.Is(err, ErrNotStore) {
				t.Errorf("Check of %s: %v", test.name, err)
			}
			if _, err := Repair(test.path, Options{}); !errors.Is(err, ErrNotStore) {
				t.Errorf("Repair of %s: %v", test.name, err)
			}
		}
	}
	// An empty file, and one whose creation was cut off, become stores.
	for _, path := range []string{filepath.Join(dir, "empty.db"), bare} {
		s := mustOpen(t, path, Options{})
		smallStore(t, s)
	}
}

// edit changes a bbolt file behind the store's back.
func edit(t testing.TB, path string, f func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o644, &bolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := db.Update(f); err != nil {
		t.Fatal(err)
	}
}

// mustCloseNew creates a store.
func mustCloseNew(t testing.TB, path string) {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may open everything: TestPermissionAsNobody tests this")
	}
	path := filepath.Join(t.TempDir(), "evotune.db")
	mustCloseNew(t, path)
	if err := os.Chmod(path, 0o000); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(path, 0o644) })
	_, err := Open(path, Options{})
	if !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	oneLine(t, err, path)
}

// TestObserve: each transaction is told, and that one that failed cannot be written.
func TestObserve(t *testing.T) {
	s := mustCreate(t)
	var told []time.Duration
	s.Observe(func(took time.Duration) { told = append(told, took) })
	smallStore(t, s)
	n := len(told)
	if n == 0 || slices.Min(told) <= 0 {
		t.Errorf("told: %v", told)
	}
	s.Observe(nil)
	if _, err := s.Append(Event{}); err == nil {
		t.Error("an empty event is taken")
	}
	if len(told) != n {
		t.Error("told after the end")
	}
	if err := s.Writable(); err != nil {
		t.Error(err)
	}
	s.fail(errors.New("the disk is full"))
	if err := s.Writable(); !errors.Is(err, ErrFailed) {
		t.Errorf("%v", err)
	}
}
