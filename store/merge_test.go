package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// storeOf writes a store and closes it.
func storeOf(t testing.TB, path string, events ...Event) string {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(events) > 0 {
		mustAppend(t, s, events...)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// logOf reads a whole log.
func logOf(t testing.TB, path string) []Event {
	t.Helper()
	s, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // only read
	var out []Event
	for e, err := range s.Events("", 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// at moves events to a time, a second after each other.
func at(start time.Time, events ...Event) []Event {
	for i := range events {
		events[i].Time = start.Add(time.Duration(i) * time.Second)
	}
	return events
}

func mustMerge(t testing.TB, into string, from ...string) Merged {
	t.Helper()
	m, err := Merge(context.Background(), into, from, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Path != into || m.Report.Path != into || !m.Report.OK() {
		t.Errorf("merged %+v", m)
	}
	mustBeSound(t, into)
	return m
}

func TestMerge(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	one := at(noon, started("one"), asked("one", 0, "aaaa0001"), told("one", 0, "aaaa0001", 0.9), asked("one", 1, "bbbb0001", "aaaa0001"))
	more := append(slices.Clone(one), at(noon.Add(time.Hour), told("one", 1, "bbbb0001", 0.8), finals("one", "bbbb0001", "bbbb0001"), note("one", KindFinished, "evaluations"))...)
	// The clock of the machine of "two" was wrong: it began with a candidate of
	// the future.
	two := at(noon.Add(-time.Hour), started("two"), asked("two", 0, "cccc0001", "aaaa0001"), told("two", 0, "cccc0001", 0.7))
	a := storeOf(t, path("a.db"), one...)
	b := storeOf(t, path("b.db"), append(slices.Clone(one), two...)...)
	c := storeOf(t, path("c.db"), more...)

	m := mustMerge(t, path("into.db"), a, b)
	want := []MergedCampaign{{"one", Added, a}, {"two", Added, b}}
	if diff := cmp.Diff(want, m.Campaigns); diff != "" || !m.Changed {
		t.Errorf("campaigns (-want +got):\n%s", diff)
	}
	m = mustMerge(t, path("into.db"), c, a)
	want = []MergedCampaign{{"one", Extended, c}, {"two", Kept, path("into.db")}}
	if diff := cmp.Diff(want, m.Campaigns); diff != "" || !m.Changed {
		t.Errorf("campaigns (-want +got):\n%s", diff)
	}
	// Parents come first, whatever the clocks said; else the older comes first.
	var order []string
	for _, e := range logOf(t, path("into.db")) {
		order = append(order, e.Campaign+" "+string(e.Kind))
	}
	if diff := cmp.Diff([]string{
		"two started", "one started", "one asked", "two asked", "two told", "one told", "one asked",
		"one told", "one finals", "one finished",
	}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	s := mustOpen(t, path("into.db"), Options{ReadOnly: true})
	n, err := s.Lineage("cccc0001")
	if err != nil || len(n.Parents) != 1 || n.Parents[0].ID != "aaaa0001" {
		t.Errorf("lineage of cccc0001: %+v, %v", n, err)
	}
	if found, err := s.Best(Query{ProvenOnly: true}); err != nil || len(found) != 1 || found[0].ID != "bbbb0001" {
		t.Errorf("best: %+v, %v", found, err)
	}
	if e, err := s.Campaign("one"); err != nil || e.State != Finished || string(e.Started.Config) != `{"workers":2}` {
		t.Errorf("campaign one: %+v, %v", e, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// What is there already changes nothing, itself and links to it included.
	if err := os.Symlink("into.db", path("link.db")); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path("into.db"))
	if err != nil {
		t.Fatal(err)
	}
	if m := mustMerge(t, path("link.db"), a, b, c, path("into.db")); m.Changed {
		t.Errorf("merged again: %+v", m)
	}
	after, err := os.ReadFile(path("into.db"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("merging again changed the file (%v)", err)
	}
	// A link stays a link, and permissions stay.
	d := storeOf(t, path("d.db"), started("four"))
	if err := os.Chmod(path("into.db"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustMerge(t, path("link.db"), d)
	info, err := os.Lstat(path("link.db"))
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info, err)
	}
	if info, err := os.Stat(path("into.db")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file became %v, %v", info, err)
	}
	if left, _ := filepath.Glob(path("*.merge-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestMergeInOrder: campaigns of two stores that ran at the same time have their events in the order of time.
func TestMergeInOrder(t *testing.T) {
	dir := t.TempDir()
	later := func(hours int, e Event) Event { e.Time = noon.Add(time.Duration(hours) * time.Hour); return e }
	a := storeOf(t, filepath.Join(dir, "a.db"), later(0, started("one")), later(2, note("one", KindStopped, "a rest")), later(4, note("one", KindFinished, "done")))
	b := storeOf(t, filepath.Join(dir, "b.db"), later(1, started("two")), later(3, note("two", KindFinished, "done")))
	into := filepath.Join(dir, "into.db")
	mustMerge(t, into, a, b)
	var order []string
	for _, e := range logOf(t, into) {
		order = append(order, e.Campaign+" "+string(e.Kind))
	}
	if diff := cmp.Diff([]string{"one started", "two started", "one stopped", "two finished", "one finished"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestMergeRefused(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	one := []Event{started("one"), asked("one", 0, "aaaa0001")}
	a := storeOf(t, path("a.db"), append(slices.Clone(one), told("one", 0, "aaaa0001", 0.9))...)
	other := storeOf(t, path("other.db"), append(slices.Clone(one), told("one", 0, "aaaa0001", 0.8))...)
	foreign := storeOf(t, path("foreign.db"), started("two"), asked("two", 0, "aaaa0001"))
	damaged := storeOf(t, path("damaged.db"), started("three"), asked("three", 0, "eeee0001"), told("three", 0, "eeee0001", 0.5))
	b, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(b, []byte("MR=0"))
	if i < 0 {
		t.Fatal("the event to damage is not there")
	}
	for ; i >= 0; i = bytes.Index(b, []byte("MR=0")) {
		copy(b[i:], "MR=9")
	}
	if err := os.WriteFile(damaged, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("text.db"), []byte(strings.Repeat("no store\n", 4096)), 0o644); err != nil {
		t.Fatal(err)
	}
	newer := storeOf(t, path("newer.db"), started("six"))
	edit(t, newer, func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keyFormat, binary.AppendUvarint(nil, formatVersion+1))
	})
	held := storeOf(t, path("held.db"), started("five"))
	s, err := Open(held, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // only held

	for _, c := range []struct {
		name, into string
		from       []string
		want       error
		names      string // in the message
	}{
		{"logs that differ", "new.db", []string{a, other}, ErrDiffer, "campaign one parts at its event 3"},
		{"a log that differs from the destination's", "a.db", []string{other}, ErrDiffer, "other.db"},
		{"a candidate of two campaigns", "new.db", []string{a, foreign}, ErrInvalid, "aaaa0001"},
		{"a damaged store", "a.db", []string{damaged}, ErrCorrupt, "damaged.db"},
		{"no store", "new.db", []string{a, path("text.db")}, ErrNotStore, "text.db"},
		{"a newer store", "new.db", []string{a, newer}, ErrVersion, "newer.db"},
		{"a newer destination", "newer.db", []string{a}, ErrVersion, "upgrade evotune"},
		{"a missing store", "new.db", []string{a, path("missing.db")}, fs.ErrNotExist, "missing.db"},
		{"a store in use", "new.db", []string{held}, ErrLocked, "held.db"},
		{"a destination in use", "held.db", []string{a}, ErrLocked, "held.db"},
		{"a missing folder", "none/new.db", []string{a}, fs.ErrNotExist, "new.db"},
	} {
		before, _ := os.ReadFile(path(c.into))
		_, err := Merge(context.Background(), path(c.into), c.from, Options{Timeout: -1})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
			continue
		}
		if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, c.names) || len(text) > 600 {
			t.Errorf("%s: not one clear line with %q: %q", c.name, c.names, text)
		}
		if after, _ := os.ReadFile(path(c.into)); !bytes.Equal(before, after) {
			t.Errorf("%s: the destination was changed", c.name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Merge(ctx, path("new.db"), []string{a}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if left, _ := filepath.Glob(path("*.merge-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(path("new.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("new.db was made: %v", err)
	}
}

// universe is a log of several campaigns with clocks that disagree.
func universe(t *rapid.T) []Event {
	var out []Event
	var ids []string
	next := map[string]int{}
	pending := map[string][]Event{}
	for i := range rapid.IntRange(1, 60).Draw(t, "events") {
		c := fmt.Sprintf("campaign-%d", rapid.IntRange(0, 4).Draw(t, "campaign"))
		n, begun := next[c]
		var e Event
		switch what := rapid.IntRange(0, 3).Draw(t, "kind"); {
		case !begun:
			e = started(c)
			next[c] = 0
		case what == 0 && len(pending[c]) > 0:
			e = pending[c][0]
			pending[c] = pending[c][1:]
		case what == 1:
			e = note(c, KindStopped, fmt.Sprint(i))
		default:
			id := fmt.Sprintf("%s-%04d", c, n)
			var parents []string
			for range min(len(ids), rapid.IntRange(0, 2).Draw(t, "parents")) {
				if p := rapid.SampledFrom(ids).Draw(t, "parent"); !slices.Contains(parents, p) {
					parents = append(parents, p)
				}
			}
			e = asked(c, n, id, parents...)
			next[c], ids = n+1, append(ids, id)
			pending[c] = append(pending[c], told(c, n, id, float64(rapid.IntRange(0, 3).Draw(t, "fitness"))/4))
		}
		e.Time = noon.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "time")) * time.Second)
		out = append(out, e)
	}
	return out
}

// part is what a store may have of the universe: a beginning of each campaign,
// with all parents.
func part(t *rapid.T, all []Event) []Event {
	left := map[string]int{}
	have := map[string]bool{}
	var out []Event
	for _, e := range all {
		n, seen := left[e.Campaign]
		if !seen {
			n = rapid.SampledFrom([]int{0, 3, 10, 100}).Draw(t, "length")
		}
		if e.Asked != nil && slices.ContainsFunc(e.Asked.Parents, func(p string) bool { return !have[p] }) {
			n = 0
		}
		left[e.Campaign] = max(n-1, 0)
		if n == 0 {
			continue
		}
		if e.Asked != nil {
			have[e.Asked.Candidate] = true
		}
		out = append(out, e)
	}
	return out
}

// TestMergeProperty: nothing is lost or doubled, whatever the order of the
// stores and however they are grouped, and merging again changes nothing.
func TestMergeProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "") //nolint:usetesting // one for each draw
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // of a test
		path := func(name string) string { return filepath.Join(dir, name) }
		all := universe(rt)
		var stores []string
		longest := map[string]int{}
		for i := range rapid.IntRange(1, 4).Draw(rt, "stores") {
			events := part(rt, all)
			stores = append(stores, storeOf(t, path(fmt.Sprintf("%d.db", i)), events...))
			n := map[string]int{}
			for _, e := range events {
				n[e.Campaign]++
				longest[e.Campaign] = max(longest[e.Campaign], n[e.Campaign])
			}
		}
		mustMerge(t, path("at once.db"), stores...)
		got := logOf(t, path("at once.db"))
		byCampaign := map[string][]Event{}
		for _, e := range got {
			e.Seq = 0
			byCampaign[e.Campaign] = append(byCampaign[e.Campaign], e)
		}
		want := map[string][]Event{}
		for _, e := range all {
			if len(want[e.Campaign]) < longest[e.Campaign] {
				want[e.Campaign] = append(want[e.Campaign], e)
			}
		}
		if diff := cmp.Diff(want, byCampaign); diff != "" {
			rt.Fatalf("campaigns (-want +got):\n%s", diff)
		}
		for i, s := range rapid.Permutation(stores).Draw(rt, "order") {
			mustMerge(t, path("one by one.db"), s)
			if i == 0 {
				continue
			}
			if m := mustMerge(t, path("one by one.db"), stores[0], s); i == len(stores)-1 && m.Changed {
				rt.Fatalf("merged again: %+v", m)
			}
		}
		if diff := cmp.Diff(got, logOf(t, path("one by one.db"))); diff != "" {
			rt.Fatalf("another order gives another log (-at once +one by one):\n%s", diff)
		}
	})
}
