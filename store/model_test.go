package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// A model is a store that does everything the simple way: it keeps the events and
// looks through all of them for every answer.
type model struct{ events []Event }

func (m *model) append(events ...Event) uint64 {
	first := uint64(len(m.events)) + 1
	for i, e := range events {
		e.Seq = first + uint64(i)
		m.events = append(m.events, e)
	}
	return first
}

func (m *model) campaigns() []string {
	var out []string
	for _, e := range m.events {
		if e.Started != nil {
			out = append(out, e.Campaign)
		}
	}
	return out
}

// candidates returns all candidates in the order in which they were first asked for.
func (m *model) candidates() []*Candidate {
	var out []*Candidate
	byID := map[string]*Candidate{}
	start := map[string]*Started{}
	for _, e := range m.events {
		switch {
		case e.Started != nil:
			start[e.Campaign] = e.Started
		case e.Asked != nil:
			c := byID[e.Asked.Candidate]
			if c == nil {
				s := start[e.Campaign]
				c = &Candidate{ID: e.Asked.Candidate, Campaign: e.Campaign, Kernel: s.Kernel, Device: s.Device, Shapes: s.Shapes}
				byID[c.ID] = c
				out = append(out, c)
			}
			c.Asked, c.AskedAt, c.AskedSeq = *e.Asked, e.Time, e.Seq
		case e.Result() != nil:
			c := byID[e.Result().Candidate]
			c.Told, c.ToldAt, c.ToldSeq, c.Again = e.Result(), e.Time, e.Seq, e.Measured != nil
		case e.Finals != nil:
			for _, id := range participants(e.Finals) {
				c := byID[id]
				c.Finalist, c.FinalsSeq, c.Finals = true, e.Seq, e.Finals
				if id == e.Finals.Winner {
					c.Proven = true
				}
			}
		}
	}
	return out
}

func (m *model) campaign(id string) Campaign {
	c := Campaign{ID: id, Verdicts: map[string]int{}}
	was := map[string]string{}
	for _, e := range m.events {
		if e.Campaign != id {
			continue
		}
		c.Last, c.LastAt = e.Seq, e.Time
		switch e.Kind {
		case KindStarted:
			c.Started, c.StartedAt, c.First, c.State = *e.Started, e.Time, e.Seq, Running
		case KindAsked:
			c.Asked++
		case KindTold, KindMeasured:
			t := bare(e)
			r := t.Result()
			if old := was[r.Candidate]; old == "" {
				c.Evaluated++
			} else if c.Verdicts[old]--; c.Verdicts[old] == 0 {
				delete(c.Verdicts, old)
			}
			was[r.Candidate] = r.Verdict
			c.Verdicts[r.Verdict]++
			if r.Verdict == correct && (c.Best == nil || r.Fitness < c.Best.Fitness) {
				c.Best, c.BestAgain = r, e.Measured != nil
			}
		case KindFinals:
			c.Finals = e.Finals
		case KindResumed:
			c.State, c.Reason = Running, ""
		case KindStopped:
			c.State, c.Reason = Stopped, e.Note.Reason
		case KindFinished:
			c.State, c.Reason = Finished, e.Note.Reason
		}
	}
	return c
}

func (m *model) best(q Query) []string {
	var found []*Candidate
	for _, c := range m.candidates() {
		switch {
		case c.Told == nil || c.Told.Verdict != correct,
			q.Kernel != "" && q.Kernel != c.Kernel, q.Device != "" && q.Device != c.Device,
			q.Campaign != "" && q.Campaign != c.Campaign, q.ProvenOnly && !c.Proven,
			len(q.Shapes) > 0 && !slices.Equal(q.Shapes, c.Shapes):
		default:
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *Candidate) int {
		return rank{a.Told.Fitness, a.ToldSeq}.compare(rank{b.Told.Fitness, b.ToldSeq})
	})
	out := []string{}
	for _, c := range found[:min(len(found), q.Limit)] {
		out = append(out, c.ID)
	}
	return out
}

// prefix says what looking up a prefix among ids must give.
func prefix(all []string, p string) (string, error) {
	var found []string
	for _, id := range all {
		if id == p && p != "" {
			return id, nil
		}
		if strings.HasPrefix(id, p) && p != "" {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", ErrNotFound
	case 1:
		return found[0], nil
	}
	return "", ErrAmbiguous
}

// machine runs a store beside the model.
type machine struct {
	path  string
	store *Store
	model model
	next  int

	archived map[string]bool
}

func (m *machine) open(t *rapid.T) {
	s, err := Open(m.path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.db.NoSync = true // this test is not about power cuts
	m.store = s
}

func (m *machine) close(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	rep, err := Check(m.path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !rep.OK() {
		t.Fatalf("check: %+v", rep.Findings)
	}
	events, candidates, archived := rep.Events, rep.Candidates, 0
	for _, a := range rep.Archives {
		events, candidates, archived = events+a.Events, candidates+a.Candidates, archived+a.Campaigns
	}
	if events != len(m.model.events) || rep.Campaigns != len(m.model.campaigns()) || candidates != len(m.model.candidates()) || archived != len(m.archived) {
		t.Fatalf("check counts %+v with %d campaigns in archives", rep, len(m.archived))
	}
}

// draw makes an event that fits what there is, and says no when there is none of this
// kind.
func (m *machine) draw(t *rapid.T, pending []Event) (Event, bool) {
	all := model{slices.Clone(m.model.events)}
	all.append(pending...)
	campaigns := all.campaigns()
	if len(campaigns) == 0 || rapid.IntRange(0, 19).Draw(t, "new campaign?") == 0 {
		m.next++
		e := started(fmt.Sprintf("%s-%d", rapid.SampledFrom([]string{"sgemm", "softmax"}).Draw(t, "name"), m.next))
		e.Started.Kernel, _, _ = strings.Cut(e.Campaign, "-")
		e.Started.Device = rapid.SampledFrom([]string{"d1", "d2"}).Draw(t, "device")
		return e, true
	}
	campaign := rapid.SampledFrom(campaigns).Draw(t, "campaign")
	if m.archived[campaign] {
		return Event{}, false
	}
	var mine, anyone, untold, toldOnes, right, disturbed []*Candidate
	for _, c := range all.candidates() {
		anyone = append(anyone, c)
		if c.Campaign != campaign {
			continue
		}
		mine = append(mine, c)
		switch {
		case c.Told == nil:
			untold = append(untold, c)
		case c.Told.Verdict == correct:
			toldOnes, right = append(toldOnes, c), append(right, c)
		default:
			toldOnes = append(toldOnes, c)
			if !c.Again {
				disturbed = append(disturbed, c)
			}
		}
	}
	kind := rapid.SampledFrom([]string{"ask", "ask", "ask", "tell", "tell", "tell", "again", "note", "finals", "measure", "attempt"}).Draw(t, "kind")
	switch {
	case kind == "tell" && len(untold) > 0:
		c := rapid.SampledFrom(untold).Draw(t, "untold")
		e := told(campaign, c.Asked.Index, c.ID, float64(rapid.IntRange(0, 5).Draw(t, "fitness")))
		e.Told.Key = rapid.SampledFrom([]string{"", "k1", "k2", c.ID}).Draw(t, "key")
		if rapid.Bool().Draw(t, "no detail") {
			e.Told.Detail = nil
		}
		return e, true
	case kind == "measure" && len(disturbed) > 0:
		c := rapid.SampledFrom(disturbed).Draw(t, "disturbed")
		e := measured(campaign, c.Asked.Index, c.ID, float64(rapid.IntRange(0, 5).Draw(t, "fitness")))
		e.Measured.Key = rapid.SampledFrom([]string{"", "k1", "k2", c.ID}).Draw(t, "key")
		return e, true
	case kind == "attempt" && len(untold)+len(toldOnes) > 0:
		c := rapid.SampledFrom(append(slices.Clone(untold), toldOnes...)).Draw(t, "attempted")
		if rapid.Bool().Draw(t, "elsewhere") {
			return elsewhere(campaign, c.Asked.Index, c.ID), true
		}
		return attempt(campaign, c.Asked.Index, c.ID, rapid.SampledFrom([]string{"", "evotune ended"}).Draw(t, "end")), true
	case kind == "note":
		return note(campaign, rapid.SampledFrom([]Kind{KindStopped, KindResumed, KindFinished}).Draw(t, "note"), "because"), true
	case kind == "finals" && len(toldOnes) > 0:
		var ids []string
		for _, c := range rapid.SliceOfNDistinct(rapid.SampledFrom(toldOnes), 1, min(3, len(toldOnes)), func(c *Candidate) string { return c.ID }).Draw(t, "finalists") {
			ids = append(ids, c.ID)
		}
		winner := ""
		if len(right) > 0 && rapid.Bool().Draw(t, "won?") {
			winner = rapid.SampledFrom(right).Draw(t, "winner").ID
		}
		return finals(campaign, winner, ids...), true
	case kind == "ask" || kind == "again" && len(untold) > 0:
		index := 0
		for _, e := range all.events {
			if e.Asked != nil && e.Campaign == campaign {
				index++
			}
		}
		m.next++
		// Few digits and many candidates: prefixes are shared.
		id := fmt.Sprintf("%x%x", rapid.IntRange(0, 15).Draw(t, "id"), m.next)
		if rapid.Bool().Draw(t, "no hex") {
			id = "no-hex-" + id
		}
		if kind == "again" {
			id = rapid.SampledFrom(untold).Draw(t, "again").ID
		}
		var parents []string
		for range rapid.IntRange(0, 3).Draw(t, "parents") {
			from := mine
			if rapid.IntRange(0, 3).Draw(t, "of another campaign?") == 0 {
				from = anyone // as one that begins with winners
			}
			if len(from) == 0 {
				break
			}
			if p := rapid.SampledFrom(from).Draw(t, "parent").ID; p != id {
				parents = append(parents, p)
			}
		}
		return asked(campaign, index, id, parents...), true
	}
	return Event{}, false
}

// Append appends events that are drawn.
func (m *machine) Append(t *rapid.T) {
	var events []Event
	for range rapid.IntRange(1, 12).Draw(t, "calls") {
		if e, ok := m.draw(t, events); ok {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		t.Skip("nothing fits")
	}
	first, err := m.store.Append(events...)
	if err != nil {
		t.Fatal(err)
	}
	if want := m.model.append(events...); first != want {
		t.Fatalf("first is %d, want %d", first, want)
	}
}

// Refuse appends good events and one that repeats the last of them.
func (m *machine) Refuse(t *rapid.T) {
	e, ok := m.draw(t, nil)
	if !ok || e.Note != nil || e.Finals != nil || e.Attempt != nil {
		t.Skip("it could be repeated")
	}
	if _, err := m.store.Append(e, e); !errors.Is(err, ErrInvalid) {
		t.Fatalf("%+v twice: %v", e, err)
	}
}

// A fuse is a context that ends when it was asked often enough.
type fuse struct {
	context.Context //nolint:containedctx // it is one
	left            int
}

func (f *fuse) Err() error {
	if f.left--; f.left < 0 {
		return context.Canceled
	}
	return nil
}

// Archive moves what is finished to an archive, or stops somewhere.
func (m *machine) Archive(t *rapid.T) {
	var finished []string
	for _, id := range m.model.campaigns() {
		if m.model.campaign(id).State == Finished && (m.archived[id] || rapid.Bool().Draw(t, "this one")) {
			finished = append(finished, id)
		}
	}
	f := &fuse{t.Context(), 1000}
	if rapid.Bool().Draw(t, "stops") {
		f.left = rapid.IntRange(0, 12).Draw(t, "when")
	}
	a, err := m.store.Archive(f, finished...)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if a.Left != (len(a.Campaigns) > 0 && m.removing(t)) {
		t.Fatalf("it says that events are left: %t", a.Left)
	}
	for _, id := range a.Campaigns {
		if m.archived[id] {
			t.Fatalf("campaign %s was archived twice", id)
		}
		m.archived[id] = true
	}
	if left, _ := filepath.Glob(filepath.Join(m.path+".archive", "*"+partial+"*")); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
}

// removing says whether events of archived campaigns are left.
func (m *machine) removing(t *rapid.T) (some bool) {
	if err := m.store.view(func(tx *bolt.Tx) error {
		k, _ := tx.Bucket(bucketRemoving).Cursor().First()
		some = k != nil
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return some
}

func (m *machine) Reopen(t *rapid.T) {
	m.close(t)
	m.open(t)
}

// Repair must change nothing.
func (m *machine) Repair(t *rapid.T) {
	m.close(t)
	if rep, err := Repair(m.path, Options{}); err != nil || !rep.OK() {
		t.Fatalf("repair: %+v, %v", rep, err)
	}
	m.open(t)
}

func (m *machine) Events(t *rapid.T) {
	campaign := rapid.SampledFrom(append(m.model.campaigns(), "", "none")).Draw(t, "campaign")
	from := rapid.Uint64Range(0, uint64(len(m.model.events))+2).Draw(t, "from")
	var want, got []Event
	for _, e := range m.model.events {
		if (campaign == "" || e.Campaign == campaign) && e.Seq >= from {
			want = append(want, e)
		}
	}
	for e, err := range m.store.Events(campaign, from) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("events of %q from %d (-want +got):\n%s", campaign, from, diff)
	}
}

func (m *machine) Campaigns(t *rapid.T) {
	all := m.model.campaigns()
	got, err := m.store.Campaigns()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(all) {
		t.Fatalf("%d campaigns, want %d", len(got), len(all))
	}
	for i, id := range all {
		if got[i].ID != id {
			t.Fatalf("campaign %d is %s, want %s", i, got[i].ID, id)
		}
	}
	p := rapid.SampledFrom(append(all, "s", "sgemm-", "x", "")).Draw(t, "prefix")
	id, want := prefix(all, p)
	c, err := m.store.Campaign(p)
	if !errors.Is(err, want) {
		t.Fatalf("Campaign(%q): %v, want %v", p, err, want)
	}
	if err != nil {
		return
	}
	if (c.Archive != "") != m.archived[id] {
		t.Fatalf("campaign %s is in the archive %q", id, c.Archive)
	}
	c.Archive = ""
	if diff := cmp.Diff(m.model.campaign(id), c); diff != "" {
		t.Fatalf("campaign %q (-want +got):\n%s", p, diff)
	}
}

// someone draws an id, or a part of one, and says whom it names.
func (m *machine) someone(t *rapid.T) (p string, want *Candidate, err error) {
	var ids []string
	all := m.model.candidates()
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	if p = rapid.SampledFrom(append(ids, "none", "")).Draw(t, "candidate"); len(p) > 1 && rapid.Bool().Draw(t, "prefix") {
		p = p[:rapid.IntRange(1, len(p)).Draw(t, "length")]
	}
	id, err := prefix(ids, p)
	for _, c := range all {
		if c.ID == id {
			want = c
		}
	}
	return p, want, err
}

func (m *machine) Candidate(t *rapid.T) {
	p, want, wantErr := m.someone(t)
	got, err := m.store.Candidate(p)
	if !errors.Is(err, wantErr) {
		t.Fatalf("Candidate(%q): %v, want %v", p, err, wantErr)
	}
	if want != nil {
		if diff := cmp.Diff(*want, got); diff != "" {
			t.Fatalf("candidate %q (-want +got):\n%s", p, diff)
		}
	}
}

// Candidates reads page by page.
func (m *machine) Candidates(t *rapid.T) {
	q := Query{
		Kernel: rapid.SampledFrom([]string{"", "sgemm", "softmax"}).Draw(t, "kernel"),
		Limit:  rapid.IntRange(1, 9).Draw(t, "limit"), ProvenOnly: rapid.Bool().Draw(t, "proven"),
	}
	if all := m.model.campaigns(); len(all) > 0 {
		switch rapid.IntRange(0, 3).Draw(t, "of") {
		case 0:
			q.Campaign = rapid.SampledFrom(all).Draw(t, "campaign")
		case 1:
			q.Campaigns = rapid.SliceOfN(rapid.SampledFrom(all), 1, 3).Draw(t, "campaigns")
		}
	}
	var want, got []string
	for _, c := range m.model.candidates() {
		if (q.Kernel == "" || c.Kernel == q.Kernel) && (q.Campaign == "" || c.Campaign == q.Campaign) &&
			(len(q.Campaigns) == 0 || slices.Contains(q.Campaigns, c.Campaign)) && (!q.ProvenOnly || c.Proven) {
			want = append(want, c.ID)
		}
	}
	for from, more := uint64(0), true; more; more = from != 0 {
		page, next, err := m.store.Candidates(q, from)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > q.Limit || next != 0 && next <= from {
			t.Fatalf("a page of %d from %d goes on at %d", len(page), from, next)
		}
		for _, c := range page {
			got = append(got, c.ID)
		}
		from = next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("Candidates(%+v) (-want +got):\n%s", q, diff)
	}
}

// Event looks at one event, and at the last.
func (m *machine) Event(t *rapid.T) {
	n := uint64(len(m.model.events))
	if last, err := m.store.Last(); err != nil || last != n {
		t.Fatalf("last %d, want %d, %v", last, n, err)
	}
	seq := rapid.Uint64Range(0, n+1).Draw(t, "seq")
	e, err := m.store.Event(seq)
	if seq == 0 || seq > n {
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("event %d: %v", seq, err)
		}
		return
	}
	if diff := cmp.Diff(m.model.events[seq-1], e); diff != "" || err != nil {
		t.Fatalf("event %d: %v (-want +got):\n%s", seq, err, diff)
	}
}

func (m *machine) Best(t *rapid.T) {
	q := Query{
		Kernel: rapid.SampledFrom([]string{"", "sgemm", "softmax"}).Draw(t, "kernel"),
		Device: rapid.SampledFrom([]string{"", "", "d1", "d2"}).Draw(t, "device"),
		Limit:  rapid.IntRange(1, 20).Draw(t, "limit"), ProvenOnly: rapid.Bool().Draw(t, "proven"),
	}
	if all := m.model.campaigns(); len(all) > 0 && rapid.Bool().Draw(t, "one campaign") {
		q.Campaign = rapid.SampledFrom(all).Draw(t, "campaign")
	}
	got, err := m.store.Best(q)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(m.model.best(q), " "); ids(got) != want {
		t.Fatalf("Best(%+v): %s, want %s", q, ids(got), want)
	}
}

func (m *machine) Family(t *rapid.T) {
	p, want, wantErr := m.someone(t)
	node, err := m.store.Lineage(p)
	if !errors.Is(err, wantErr) {
		t.Fatalf("Lineage(%q): %v, want %v", p, err, wantErr)
	}
	children, err := m.store.Children(p)
	if !errors.Is(err, wantErr) {
		t.Fatalf("Children(%q): %v, want %v", p, err, wantErr)
	}
	if want == nil {
		return
	}
	byID := map[string]*Candidate{}
	var of []*Candidate
	for _, c := range m.model.candidates() {
		byID[c.ID] = c
		if slices.Contains(c.Asked.Parents, want.ID) {
			of = append(of, c)
		}
	}
	slices.SortFunc(of, func(a, b *Candidate) int { return int(a.AskedSeq) - int(b.AskedSeq) })
	var names []string
	for _, c := range of {
		names = append(names, c.ID)
	}
	if got := ids(children); got != strings.Join(names, " ") {
		t.Fatalf("Children(%q): %s, want %v", p, got, names)
	}
	// Every node has its parents but for those that would close a circle, and
	// marshalling, which goes down every way, comes to an end.
	seen := map[*Node]bool{}
	var walk func(n *Node, above []string)
	walk = func(n *Node, above []string) {
		if slices.Contains(above, n.ID) {
			t.Fatalf("the lineage of %q goes round at %s", p, n.ID)
		}
		if seen[n] {
			return
		}
		seen[n] = true
		c := byID[n.ID]
		if n.AskedSeq != c.AskedSeq || n.Campaign != c.Campaign {
			t.Fatalf("node %+v, want %+v", n.Candidate, c)
		}
		left := slices.Clone(c.Asked.Parents)
		for _, q := range n.Parents {
			i := slices.Index(left, q.ID)
			if i < 0 {
				t.Fatalf("%s has the parents %v, not %s", n.ID, c.Asked.Parents, q.ID)
			}
			left = slices.Delete(left, i, i+1)
		}
		for _, id := range left {
			if byID[id].AskedSeq < c.AskedSeq && !reasked(m.model.events, c.ID) {
				t.Fatalf("%s has no parent %s", n.ID, id)
			}
		}
		for _, q := range n.Parents {
			walk(q, append(above, n.ID))
		}
	}
	walk(node, nil)
	if _, err := json.Marshal(node.Candidate); err != nil {
		t.Fatal(err)
	}
}

func reasked(events []Event, id string) bool {
	n := 0
	for _, e := range events {
		if e.Asked != nil && e.Asked.Candidate == id {
			n++
		}
	}
	return n > 1
}

func (m *machine) ByKey(t *rapid.T) {
	key := rapid.SampledFrom([]string{"k1", "k2", "k3", ""}).Draw(t, "key")
	var want []*Candidate
	for _, c := range m.model.candidates() {
		if key != "" && c.Told != nil && c.Told.Key == key {
			want = append(want, c)
		}
	}
	slices.SortFunc(want, func(a, b *Candidate) int { return int(a.ToldSeq) - int(b.ToldSeq) })
	var names []string
	for _, c := range want {
		names = append(names, c.ID)
	}
	got, err := m.store.ByKey(key)
	if err != nil || ids(got) != strings.Join(names, " ") {
		t.Fatalf("ByKey(%q): %s, %v; want %v", key, ids(got), err, names)
	}
}

// Check is what rapid calls after every step. The store is checked when it is
// closed, which costs more than all the steps.
func (m *machine) Check(*rapid.T) {}

// TestModel does random operations on a store and on the model: all answers
// must be the same, before and after the store was closed, checked and
// repaired.
func TestModel(t *testing.T) {
	defer func(n int) { maxRemoved = n }(maxRemoved)
	maxRemoved = 3
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		m := &machine{path: filepath.Join(dir, fmt.Sprintf("%d.db", run)), archived: map[string]bool{}}
		m.open(t)
		defer func() {
			_ = m.store.Close()
			_ = os.Remove(m.path)
			_ = os.RemoveAll(m.path + ".archive")
		}()
		t.Repeat(rapid.StateMachineActions(m))
		m.close(t)
	})
}
