package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"
)

// answers are what a store says to every query.
type answers struct {
	Last       uint64
	Events     []Event
	Bare       int
	One        map[uint64]Event
	Log        map[string][]Event // of campaigns
	Campaigns  []Campaign
	Campaign   map[string]Campaign
	Candidates map[string]Candidate
	Pages      map[string][]string
	Best       map[string][]Candidate
	Parents    map[string][]string // in lineages
	Children   map[string][]Candidate
	Keys       map[string][]Candidate
}

func answersOf(t testing.TB, s *Store) answers {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a := answers{
		One: map[uint64]Event{}, Log: map[string][]Event{}, Campaign: map[string]Campaign{}, Candidates: map[string]Candidate{},
		Pages: map[string][]string{}, Best: map[string][]Candidate{}, Parents: map[string][]string{}, Children: map[string][]Candidate{}, Keys: map[string][]Candidate{},
	}
	var err error
	a.Last, err = s.Last()
	must(err)
	for e, err := range s.Events("", 0) {
		must(err)
		a.Events = append(a.Events, e)
		a.Log[e.Campaign] = nil
	}
	for _, err := range s.Events("", 7, WithoutDetail()) {
		must(err)
		a.Bare++
	}
	for _, e := range a.Events {
		if e.Seq%7 == 0 || e.Seq+5 > a.Last {
			a.One[e.Seq], err = s.Event(e.Seq)
			must(err)
		}
		if e.Asked == nil || e.Asked.Index%5 != 0 {
			continue
		}
		id := e.Asked.Candidate
		if a.Candidates[id], err = s.Candidate(id); err == nil && len(id) == 10 { // woven's differ before their end
			_, err = s.Candidate(id[:9])
		}
		must(err)
		if a.Children[id], err = s.Children(id); err == nil {
			a.Keys[id], err = s.ByKey("key of " + id)
		}
		must(err)
		n, err := s.Lineage(id)
		must(err)
		for todo := []*Node{n}; len(todo) > 0; todo = todo[1:] {
			if _, seen := a.Parents[todo[0].ID]; !seen {
				a.Parents[todo[0].ID] = []string{}
				for _, p := range todo[0].Parents {
					a.Parents[todo[0].ID] = append(a.Parents[todo[0].ID], p.ID)
				}
				todo = append(todo, todo[0].Parents...)
			}
		}
	}
	a.Campaigns, err = s.Campaigns()
	must(err)
	for i := range a.Campaigns {
		a.Campaigns[i].Archive = "" // alone that differs
	}
	qs := []Query{{Limit: 1}, {Limit: 1000}, {ProvenOnly: true, Limit: 1}, {ProvenOnly: true, Limit: 9}, {Kernel: "sgemm", Limit: 40}, {Kernel: "none"}}
	for _, c := range a.Campaigns {
		full, err := s.Campaign(c.ID)
		must(err)
		full.Archive = ""
		a.Campaign[c.ID] = full
		for e, err := range s.Events(c.ID, c.First+3) {
			must(err)
			a.Log[c.ID] = append(a.Log[c.ID], e)
		}
		qs = append(qs, Query{Campaign: c.ID, Limit: 3}, Query{Campaigns: []string{c.ID}, Limit: 17})
	}
	for _, q := range qs {
		name := fmt.Sprintf("%+v", q)
		a.Best[name], err = s.Best(q)
		must(err)
		for from, more := uint64(0), true; more; more = from != 0 {
			page, next, err := s.Candidates(q, from)
			must(err)
			for _, c := range page {
				a.Pages[name] = append(a.Pages[name], fmt.Sprint(c.ID, c.Proven))
			}
			from = next
		}
	}
	return a
}

// mustAnswer compares what a store says with what it said before some campaigns were
// archived.
func mustAnswer(t testing.TB, s *Store, want answers) {
	t.Helper()
	got := answersOf(t, s)
	if reflect.DeepEqual(want, got) {
		return // much faster than to compare for people
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("answers (-before +after):\n%s", diff)
	}
}

// woven fills a store with campaigns whose events lie between each other's, as those
// of a service do, and which begin with candidates of others. All but the last are
// finished.
func woven(t testing.TB, s *Store, campaigns, evaluations int) (names []string) {
	t.Helper()
	s.db.NoSync = true
	defer func() { s.db.NoSync = false }()
	for c := range campaigns {
		names = append(names, fmt.Sprintf("campaign-%d", c))
	}
	for i := range evaluations {
		var events []Event
		for c, name := range names {
			if i == 0 {
				events = append(events, started(name))
			}
			id := func(c, i int) string { return fmt.Sprintf("%02x%08x", c, uint32(i)*2654435761) }
			var parents []string
			if i > 0 {
				parents = append(parents, id(c, i/2))
			}
			if i%10 == 1 && c > 0 { // of another campaign, there before it
				parents = append(parents, id((c+i)%c, i-1))
			}
			result := told(name, i, id(c, i), float64((i*37+c*11)%50))
			result.Told.Detail = fmt.Appendf(nil, `"%x"`, noise(int64(i), 60))
			events = append(events, asked(name, i, id(c, i), parents...))
			if i%40 == 7 {
				events = append(events, attempt(name, i, id(c, i), ""))
			}
			events = append(events, result)
			if result.Told.Fitness == 0 {
				events = append(events, measured(name, i, id(c, i), float64(c)))
			}
			if i == evaluations-1 {
				events = append(events, finals(name, id(c, 2), id(c, 2), id(c, 3)))
				if c < campaigns-1 {
					events = append(events, note(name, KindFinished, "evaluations"))
				}
			}
		}
		mustAppend(t, s, events...)
	}
	return names
}

func mustArchive(t testing.TB, s *Store, ids ...string) Archived {
	t.Helper()
	a, err := s.Archive(t.Context(), ids...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "evotune.db")
	s := mustOpen(t, path, Options{})
	names := woven(t, s, 4, 120)
	want := answersOf(t, s)
	day := time.Now().UTC().Format(time.DateOnly)
	a := mustArchive(t, s, names[2], names[0], names[2])
	if diff := cmp.Diff([]string{names[0], names[2]}, a.Campaigns); diff != "" || filepath.Dir(a.Path) != path+".archive" ||
		!strings.HasPrefix(filepath.Base(a.Path), day[:8]) || a.Events != a.Report.Events || a.Events < 480 || !a.Report.OK() {
		t.Errorf("archived %+v\n%s", a, diff)
	}
	mustAnswer(t, s, want)
	rep, err := s.Check()
	if err != nil || !rep.OK() || len(rep.Archives) != 1 || rep.Events+rep.Archives[0].Events != len(want.Events) || rep.Format != formatVersion {
		t.Errorf("check: %+v, %v", rep, err)
	}
	c, err := s.Campaign(names[0])
	if err != nil || c.Archive != filepath.Base(a.Path) {
		t.Errorf("campaign %s is in %q, %v", names[0], c.Archive, err)
	}
	// An archive that a kill left before anything was moved is removed, and no other.
	orphan := filepath.Join(t.TempDir(), "orphan.db")
	other := mustOpen(t, orphan, Options{})
	woven(t, other, 4, 120)
	twin := mustArchive(t, other, names[1])
	for to, from := range map[string]string{"2001-01-01.db": twin.Path, "2001-01-02.db": a.Path, "x" + partial + "y": twin.Path} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(path+".archive", to), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Once more, and what is there stays.
	if a := mustArchive(t, s, names[0]); a.Path != "" || len(a.Campaigns) != 0 {
		t.Errorf("archived again: %+v", a)
	}
	if a := mustArchive(t, s, names[0], names[1]); len(a.Campaigns) != 1 {
		t.Errorf("archived %+v", a)
	}
	if left, _ := filepath.Glob(path + ".archive/*"); len(left) != 3 || filepath.Base(left[0]) != "2001-01-02.db" {
		t.Errorf("the folder has %v", left)
	}
	mustAnswer(t, s, want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Any number reads; a link to the store leads to the same archives.
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link} {
		r := mustOpen(t, p, Options{ReadOnly: true})
		mustAnswer(t, r, want)
		mustBeSound(t, p)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// An archive is a store of its own, which nobody writes.
	alone := mustOpen(t, a.Path, Options{ReadOnly: true})
	if all, err := alone.Campaigns(); err != nil || len(all) != 2 {
		t.Errorf("an archive has %d campaigns, %v", len(all), err)
	}
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(a.Path, Options{}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("opened for writing: %v", err)
	} else {
		oneLine(t, err, a.Path)
	}
}

// Campaigns that ran one after the other leave whole pages empty.
func TestArchiveInOrder(t *testing.T) {
	s := mustCreate(t)
	var names []string
	for c := range 4 {
		name := fmt.Sprintf("campaign-%d", c)
		names = append(names, name)
		var events []Event
		events = append(events, started(name))
		for i := range 100 {
			id := fmt.Sprintf("%02x%08x", c, uint32(i)*2654435761)
			result := told(name, i, id, float64(1+i%50))
			result.Told.Detail = fmt.Appendf(nil, `"%x"`, noise(int64(i), 200))
			events = append(events, asked(name, i, id), result)
		}
		mustAppend(t, s, append(events, note(name, KindFinished, "evaluations"))...)
	}
	want := answersOf(t, s)
	for _, some := range [][]string{names[3:], names[:2], names[2:3]} {
		mustArchive(t, s, some...)
		mustAnswer(t, s, want)
		if rep, err := s.Check(); err != nil || !rep.OK() {
			t.Fatalf("check: %+v, %v", rep.Findings, err)
		}
	}
	if rep, err := s.Check(); err != nil || rep.Events != 0 || rep.Candidates != 0 || rep.Campaigns != 4 {
		t.Errorf("check: %+v, %v", rep, err)
	}
	if first := mustAppend(t, s, started("new")); first != want.Last+1 {
		t.Errorf("the next event is %d after %d", first, want.Last)
	}
}

// A repair keeps the gaps, and repairs archives, too.
func TestArchiveRepair(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	s := mustOpen(t, path, Options{})
	names := woven(t, s, 3, 60)
	want := answersOf(t, s)
	f := &fuse{t.Context(), 1000}
	defer func(n int) { maxRemoved = n }(maxRemoved)
	maxRemoved = 50
	a, err := s.Archive(f, names[0])
	if err != nil {
		t.Fatal(err)
	}
	// Of the second one some is left: the context ends when all was removed but that.
	f.left = 1000 - f.left - 2
	if _, err := s.Archive(f, names[1]); err != nil {
		t.Fatal(err)
	}
	mustAnswer(t, s, want)
	before, err := s.Check()
	if err != nil || !before.OK() {
		t.Fatalf("%+v, %v", before, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	pending := 0
	edit(t, path, func(tx *bolt.Tx) error {
		pending = tx.Bucket(bucketRemoving).Stats().KeyN
		return tx.Bucket(bucketRanking).Delete(firstKey(tx.Bucket(bucketRanking)))
	})
	if pending != 1 {
		t.Fatalf("%d campaigns are being removed", pending)
	}
	edit(t, a.Path, func(tx *bolt.Tx) error { return tx.Bucket(bucketIDs).Delete(firstKey(tx.Bucket(bucketIDs))) })
	rep, err := Check(path, Options{})
	if err != nil || rep.OK() || rep.Lost != 0 || !strings.Contains(fmt.Sprint(rep.Findings), "archive "+filepath.Base(a.Path)) {
		t.Fatalf("check: %+v, %v", rep, err)
	}
	if rep, err := Repair(path, Options{}); err != nil || !rep.OK() || rep.Events != before.Events || len(rep.Archives) != 2 {
		t.Fatalf("repair: %+v, %v", rep, err)
	}
	s = mustOpen(t, path, Options{})
	mustAnswer(t, s, want)
	if first := mustAppend(t, s, note(names[2], KindStopped, "on")); first != want.Last+1 {
		t.Errorf("the next event is %d after %d", first, want.Last)
	}
}

func firstKey(b *bolt.Bucket) []byte {
	k, _ := b.Cursor().First()
	return k
}

// hooked is a context that does something when it is asked the nth time.
type hooked struct {
	context.Context //nolint:containedctx // it is one
	n               int
	do              func()
}

func (h *hooked) Err() error {
	if h.n--; h.n == 0 {
		h.do()
	}
	return nil
}

// A campaign may begin with a candidate of one that is being archived, at any moment,
// and with one that is in an archive.
func TestArchiveMeanwhile(t *testing.T) {
	defer func(n int) { maxRemoved = n }(maxRemoved)
	maxRemoved = 20
	for n, done := 1, false; !done; n++ {
		path := filepath.Join(t.TempDir(), "evotune.db")
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		names := woven(t, s, 2, 30)
		best, err := s.Best(Query{Campaign: names[0], Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		done = true
		var want answers
		h := &hooked{t.Context(), n, func() {
			done = false
			mustAppend(t, s, started("new"), asked("new", 0, "new00001", best[0].ID, best[1].ID), told("new", 0, "new00001", 0.01))
			want = answersOf(t, s)
		}}
		if _, err := s.Archive(h, names[0]); err != nil {
			t.Fatal(err)
		}
		if !done {
			mustAnswer(t, s, want)
		}
		// The clock of a campaign says nothing: its first parent is in the archive.
		mustAppend(t, s, started("later"), asked("later", 0, "late0001", best[1].ID), told("later", 0, "late0001", 0.02))
		if l, err := s.Lineage("late0001"); err != nil || len(l.Parents) != 1 || l.Parents[0].ID != best[1].ID {
			t.Fatalf("lineage %+v, %v", l, err)
		}
		want = answersOf(t, s)
		mustAppend(t, s, note("later", KindFinished, "evaluations"))
		mustArchive(t, s, "later")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		mustBeSound(t, path)
		if n > 100 {
			t.Fatal("the context was asked too often")
		}
	}
}

// A campaign that goes on while it is archived stays where it is, with all of it.
func TestArchiveResumedMeanwhile(t *testing.T) {
	for n, done := 1, false; !done; n++ {
		s := mustCreate(t)
		names := woven(t, s, 2, 8)
		done = true
		var refused error
		h := &hooked{t.Context(), n, func() {
			done = false
			_, refused = s.Append(note(names[0], KindResumed, "more"))
		}}
		_, err := s.Archive(h, names[0])
		if (err == nil) != (done || refused != nil) || err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatalf("resumed when asked the %dth time (%v): %v", n, refused, err)
		}
		c, err := s.Campaign(names[0])
		if err != nil || (c.State == Running) != (c.Archive == "") {
			t.Fatalf("%s in %q, %v", c.State, c.Archive, err)
		}
		if left, _ := filepath.Glob(s.Path() + ".archive/*"); c.Archive == "" && len(left) > 0 {
			t.Fatalf("left behind %v", left)
		}
	}
}

// Campaigns append, others ask and a backup is made while campaigns are archived.
func TestArchiveConcurrent(t *testing.T) {
	defer func(n int) { maxRemoved = n }(maxRemoved)
	maxRemoved = 25
	s := mustCreate(t)
	names := woven(t, s, 4, 50)
	best, err := s.Best(Query{Campaign: names[0], Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	log := logOfCampaigns(t, s)
	var g errgroup.Group
	stop := make(chan struct{})
	for w := range 2 {
		g.Go(func() error {
			name := fmt.Sprintf("worker-%d", w)
			if _, err := s.Append(started(name)); err != nil {
				return err
			}
			for i := 0; ; i++ {
				id := fmt.Sprintf("worker%d-%05d", w, i)
				if _, err := s.Append(asked(name, i, id, best[i%3].ID), told(name, i, id, 1)); err != nil {
					return err
				}
				select {
				case <-stop:
					return nil
				default:
				}
			}
		})
		g.Go(func() error {
			for {
				seen := uint64(0)
				for e, err := range s.Events("", 0, WithoutDetail()) {
					if err != nil {
						return err
					}
					if seen++; e.Seq != seen {
						return fmt.Errorf("event %d is the %dth", e.Seq, seen)
					}
				}
				n := 0
				for _, err := range s.Events(names[0], 0) {
					if err != nil {
						return err
					}
					n++
				}
				if n != len(log[names[0]]) {
					return fmt.Errorf("%d events of %d", n, len(log[names[0]]))
				}
				now, err := s.Best(Query{Campaign: names[0], Limit: 3})
				if err != nil || ids(now) != ids(best) {
					return fmt.Errorf("best %s, were %s: %w", ids(now), ids(best), err)
				}
				if l, err := s.Lineage(best[0].ID); err != nil || l.ID != best[0].ID {
					return fmt.Errorf("lineage: %w", err)
				}
				select {
				case <-stop:
					return nil
				default:
				}
			}
		})
	}
	file := filepath.Join(t.TempDir(), "copy.db")
	for _, name := range names[:3] {
		mustArchive(t, s, name)
		if _, err := s.Backup(t.Context(), file, true); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	mustBeSound(t, file)
	after := logOfCampaigns(t, s)
	for _, name := range names {
		if diff := cmp.Diff(log[name], after[name]); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}

func TestArchiveRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := woven(t, s, 3, 20)
	refused := func(want error, says string, err error) {
		t.Helper()
		oneLine(t, err, path)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %v with %q", err, want, says)
		}
	}
	_, err = s.Archive(t.Context(), names[0], names[2])
	refused(ErrInvalid, "campaign-2 is running: only finished campaigns", err)
	_, err = s.Archive(t.Context(), "campaign")
	refused(ErrNotFound, `campaign "campaign"`, err)
	if _, err := os.Stat(path + ".archive"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder was made: %v", err)
	}
	if all, err := s.Archivable(noon); err != nil || len(all) != 0 {
		t.Errorf("%d campaigns are older than themselves, %v", len(all), err)
	}
	if all, err := s.Archivable(noon.Add(1)); err != nil || len(all) != 2 || all[1].ID != names[1] {
		t.Errorf("%d campaigns are old, %v", len(all), err)
	}
	a := mustArchive(t, s, names[0])
	if all, err := s.Archivable(noon.Add(1)); err != nil || len(all) != 1 || all[0].ID != names[1] {
		t.Errorf("%d campaigns are old, %v", len(all), err)
	}
	_, err = s.Append(note(names[0], KindResumed, "more"))
	refused(ErrInvalid, "campaign-0 is in the archive "+filepath.Base(a.Path)+" and takes no more events", err)
	_, err = s.Append(started(names[0]))
	refused(ErrInvalid, "was started before", err)
	_, err = s.Append(asked(names[2], 20, "new00001", "nobody"))
	refused(ErrInvalid, "its parent nobody was not asked for", err)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	r, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Archive(t.Context(), names[1])
	refused(ErrReadOnly, "nothing can be archived", err)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	// Without its archive a store answers what it can.
	if err := os.Rename(path+".archive", path+".away"); err != nil {
		t.Fatal(err)
	}
	if r, err = Open(path, Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	if all, err := r.Campaigns(); err != nil || len(all) != 3 || all[0].Finals == nil {
		t.Errorf("%d campaigns, %v", len(all), err)
	}
	if c, err := r.Campaign(names[0]); err != nil || len(c.Finals.Detail) == 0 || len(c.Started.Config) == 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if best, err := r.Best(Query{Campaigns: names[1:], Limit: 5}); err != nil || len(best) != 5 {
		t.Errorf("%d best, %v", len(best), err)
	}
	for _, err := range r.Events(names[0], 0) {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "store "+path+": its archive "+a.Path+" is missing: put it back") {
			t.Errorf("without the archive: %v", err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	rep, err := Check(path, Options{})
	if err != nil || rep.Lost != 1 || !strings.Contains(rep.Err().Error(), "is missing: put it back") {
		t.Errorf("check: %+v, %v", rep, err)
	}
	// Another store is not taken for it.
	if err := os.Mkdir(path+".archive", 0o755); err != nil {
		t.Fatal(err)
	}
	storeOf(t, a.Path, started(names[0]))
	rep, err = Check(path, Options{})
	if err != nil || rep.Lost != 1 || !strings.Contains(rep.Err().Error(), "it should have campaign campaign-0 with") {
		t.Errorf("check: %+v, %v", rep, err)
	}
	if r, err = Open(path, Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err = r.Candidate("none"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("with another store for an archive: %v", err)
	}
}

// Check finds what does not fit the archives.
func TestArchiveCheckFinds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := woven(t, s, 3, 30)
	a := mustArchive(t, s, names[0])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good, archive := read(path), read(a.Path)
	for _, c := range []struct {
		name string
		live bool
		do   func(*bolt.Tx) error
		says string
		lost bool
	}{
		{"an event of another campaign is missing", true, func(tx *bolt.Tx) error { return tx.Bucket(bucketEvents).Delete(seqKey(9)) }, "events 9 to 9 are missing", true},
		{"an event is missing in the archive", false, func(tx *bolt.Tx) error { return tx.Bucket(bucketEvents).Delete(seqKey(2)) }, "events 2 to 2 are missing", true},
		{"an event came back", true, func(tx *bolt.Tx) error {
			return tx.Bucket(bucketEvents).Put(seqKey(1), encodeEvent(&Event{Seq: 1, Kind: KindStarted, Campaign: names[0], Started: &Started{}}, 1))
		}, "event 1 is of a campaign that is in another file", false},
		{"a parent elsewhere is forgotten", true, func(tx *bolt.Tx) error {
			b := tx.Bucket(bucketForeign)
			return b.Delete(firstKey(b))
		}, "is not in the index", false},
		{"a name is forgotten", true, func(tx *bolt.Tx) error { return tx.Bucket(bucketNames).Delete([]byte(names[0])) }, "campaign campaign-0 is not in the index", false},
		{"a summary is wrong", true, func(tx *bolt.Tx) error { return tx.Bucket(bucketCampaigns).Delete(seqKey(1)) }, "the index of campaigns has 2 entries, should have 3", false},
		{"an archive is renamed", true, func(tx *bolt.Tx) error {
			return tx.Bucket(bucketArchived).Put(seqKey(1), append([]byte("x"), tx.Bucket(bucketArchived).Get(seqKey(1))...))
		}, "archived campaign 1: checksum", true},
		{"the events are not those", true, func(tx *bolt.Tx) error {
			return tx.Bucket(bucketSpans).Put(seqKey(1), spans{{1, 2}}.encode(1))
		}, "archived campaign campaign-0 ends with event", true},
		{"a bucket is missing", true, func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketHeads) }, `bucket "heads" is missing`, true},
		{"an index entry is left", true, func(tx *bolt.Tx) error { return tx.Bucket(bucketIDs).Put([]byte("aaaa"), seqKey(2)) }, "the index of ids has", false},
	} {
		for name, b := range map[string][]byte{path: good, a.Path: archive} {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c.live {
			edit(t, path, c.do)
		} else {
			edit(t, a.Path, c.do)
		}
		rep, err := Check(path, Options{})
		if err != nil || rep.OK() || !strings.Contains(fmt.Sprint(rep.Findings), c.says) || (rep.Lost > 0) != c.lost {
			t.Errorf("%s: %+v, %v", c.name, rep.Findings, err)
		}
		if c.lost {
			continue
		}
		if c.name == "a parent elsewhere is forgotten" { // it is in no log of this file
			continue
		}
		if rep, err := Repair(path, Options{}); err != nil || !rep.OK() {
			t.Errorf("%s: repair: %+v, %v", c.name, rep.Findings, err)
		}
	}
}

// What was archived comes back by a merge into a new store.
func TestArchiveMerge(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "evotune.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := woven(t, s, 3, 40)
	before := logOfCampaigns(t, s)
	mustArchive(t, s, names[0])
	mustArchive(t, s, names[1])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(dir, "whole.db")
	if m := mustMerge(t, whole, path); len(m.Campaigns) != 3 {
		t.Errorf("merged %+v", m)
	}
	if m := mustMerge(t, path, whole); m.Changed {
		t.Errorf("what it has in archives was merged again: %+v", m)
	}
	again := mustOpen(t, whole, Options{})
	if diff := cmp.Diff(before, logOfCampaigns(t, again)); diff != "" {
		t.Errorf("logs (-before +after):\n%s", diff)
	}
	mustAppend(t, again, note(names[0], KindResumed, "more"))
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	// The destination's archives are read as well; then it has all of it itself.
	other := storeOf(t, filepath.Join(dir, "other.db"), started("other"))
	if m := mustMerge(t, path, other); len(m.Campaigns) != 4 || len(m.Report.Archives) != 0 {
		t.Errorf("merged %+v", m)
	}
	s = mustOpen(t, path, Options{})
	after := logOfCampaigns(t, s)
	delete(after, "other")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("logs (-before +after):\n%s", diff)
	}
	want := answersOf(t, s)
	a := mustArchive(t, s, names[0], names[1])
	mustAnswer(t, s, want)
	// An archive alone lacks the parents that are elsewhere.
	b := mustArchive(t, s)
	if b.Path != "" {
		t.Errorf("archived %+v", b)
	}
	_, err = Merge(t.Context(), filepath.Join(dir, "alone.db"), []string{firstArchive(t, path, a.Path)}, Options{})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "by naming that") {
		t.Errorf("an archive merged alone: %v", err)
	}
}

// firstArchive finds an archive of the second campaign, which has parents in the first.
func firstArchive(t testing.TB, path, not string) string {
	t.Helper()
	all, err := filepath.Glob(path + ".archive/*.db")
	for _, name := range all {
		if s, err := Open(name, Options{ReadOnly: true}); err == nil {
			campaigns, err := s.Campaigns()
			_ = s.Close()
			if err == nil && name != not && len(campaigns) == 1 && campaigns[0].ID == "campaign-1" {
				return name
			}
		}
	}
	t.Fatalf("there is none among %v, %v", all, err)
	return ""
}

func logOfCampaigns(t testing.TB, s *Store) map[string][]Event {
	t.Helper()
	out := map[string][]Event{}
	for e, err := range s.Events("", 0) {
		if err != nil {
			t.Fatal(err)
		}
		e.Seq = 0
		out[e.Campaign] = append(out[e.Campaign], e)
	}
	return out
}

// Best opens no archive that has nothing good enough.
func TestArchivesAreOpenedWhenNeeded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	s := mustOpen(t, path, Options{})
	add := func(name string, fitness float64) {
		mustAppend(t, s, started(name), asked(name, 0, name+"-a"), told(name, 0, name+"-a", fitness),
			finals(name, name+"-a", name+"-a"), note(name, KindFinished, "evaluations"))
	}
	for i := range 5 {
		name := fmt.Sprintf("old-%d", i)
		add(name, 0.5+float64(i)/10)
		mustArchive(t, s, name)
	}
	add("new", 0.2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, path, Options{ReadOnly: true})
	opened := func(want int) {
		t.Helper()
		if len(s.archives) != want {
			t.Errorf("%d archives are open, want %d", len(s.archives), want)
		}
	}
	for _, q := range []Query{{}, {ProvenOnly: true}, {Kernel: "sgemm"}} {
		if best, err := s.Best(q); err != nil || ids(best) != "new-a" {
			t.Errorf("best: %s, %v", ids(best), err)
		}
	}
	if all, err := s.Campaigns(); err != nil || len(all) != 6 {
		t.Errorf("%d campaigns, %v", len(all), err)
	}
	if _, err := s.Campaign("old-3"); err != nil {
		t.Error(err)
	}
	if _, err := s.Candidate("new-a"); err != nil {
		t.Error(err)
	}
	opened(0)
	for _, q := range []Query{{Limit: 2}, {Limit: 2, ProvenOnly: true}} {
		if best, err := s.Best(q); err != nil || ids(best) != "new-a old-0-a" {
			t.Errorf("best: %s, %v", ids(best), err)
		}
	}
	opened(1)
	if best, err := s.Best(Query{Campaign: "old-2"}); err != nil || ids(best) != "old-2-a" {
		t.Errorf("best: %s, %v", ids(best), err)
	}
	opened(2)
}
