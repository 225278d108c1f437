package store

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/evotune/evotune/internal/longtest"
)

var (
	corruptTrials = flag.Int("store.corruptions", 60, "damaged files that TestRandomDamage makes")
	corruptSeed   = flag.Int64("store.seed", 0, "seed of TestRandomDamage; 0 takes the time")
)

// treeStore writes a store whose buckets have branch pages, and returns its bytes.
func treeStore(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "evotune.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.db.NoSync = true
	for _, campaign := range []string{"one", "two"} {
		mustAppend(t, s, started(campaign))
		for i := 0; i < 300; {
			var events []Event
			for range 1 + i%20 {
				id := fmt.Sprintf("%08x%s", uint32(i)*2654435761, campaign)
				var parents []string
				if i > 0 {
					parents = append(parents, fmt.Sprintf("%08x%s", uint32(i/2)*2654435761, campaign))
				}
				result := told(campaign, i, id, float64(i%50))
				result.Told.Detail = fmt.Appendf(nil, `"%x"`, noise(int64(i), 100))
				events = append(events, asked(campaign, i, id, parents...))
				if i%75 == 0 {
					events = append(events, attempt(campaign, i, id, ""))
				}
				events = append(events, result)
				if i%100 == 0 {
					events = append(events, measured(campaign, i, id, float64(1+i)))
				}
				i++
			}
			mustAppend(t, s, events...)
		}
		c, err := s.Best(Query{Campaign: campaign, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, s, finals(campaign, c[1].ID, c[0].ID, c[1].ID, c[2].ID))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// snapshot asks a store everything.
type snapshot struct {
	Events     []Event
	Campaigns  []Campaign
	Candidates []Candidate
	Best       []Candidate
	Proven     []Candidate
	Children   map[string]string
	Lineage    map[string]int
	Keys       map[string]string
}

func takeSnapshot(s *Store) (snap snapshot, err error) {
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	for e, err := range s.Events("", 0) {
		if err != nil {
			note(err)
			break
		}
		snap.Events = append(snap.Events, e)
	}
	snap.Children, snap.Lineage, snap.Keys = map[string]string{}, map[string]int{}, map[string]string{}
	for i, e := range snap.Events {
		if e.Told == nil || i%10 != 0 {
			continue
		}
		id := e.Told.Candidate
		c, err := s.Candidate(id)
		note(err)
		snap.Candidates = append(snap.Candidates, c)
		children, err := s.Children(id)
		note(err)
		snap.Children[id] = ids(children)
		n, err := s.Lineage(id)
		note(err)
		if err == nil {
			snap.Lineage[id] = countNodes(n)
		}
		same, err := s.ByKey(e.Told.Key)
		note(err)
		snap.Keys[id] = ids(same)
	}
	var e error
	snap.Campaigns, e = s.Campaigns()
	note(e)
	snap.Best, e = s.Best(Query{Limit: 1000})
	note(e)
	snap.Proven, e = s.Best(Query{Limit: 1000, ProvenOnly: true})
	note(e)
	return snap, err
}

func snapshotOf(t testing.TB, path string) snapshot {
	t.Helper()
	s, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	snap, err := takeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// Whatever happens to the bytes of the file: nothing crashes, and either it is
// noticed or nothing is lost.
func TestRandomDamage(t *testing.T) {
	seed := *corruptSeed
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	t.Logf("seed %d: -store.seed=%d", seed, seed)
	rng := rand.New(rand.NewSource(seed))
	good := treeStore(t)
	path := filepath.Join(t.TempDir(), "evotune.db")
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	want := snapshotOf(t, path)
	outcome := map[string]int{}
	for trial := range *corruptTrials {
		bad, how := damage(rng, good)
		write(bad)
		result := examine(t, path, fmt.Sprintf("trial %d (%s)", trial, how), want, func() { write(bad) })
		outcome[result]++
	}
	t.Log(outcome)
}

// damage returns a damaged copy and says what was done.
func damage(rng *rand.Rand, good []byte) ([]byte, string) {
	bad := bytes.Clone(good)
	page := func() int { return rng.Intn(len(bad)/4096) * 4096 }
	switch rng.Intn(8) {
	case 0:
		n := rng.Intn(len(bad))
		return bad[:n], fmt.Sprintf("cut to %d bytes", n)
	case 1:
		at := rng.Intn(len(bad))
		bad[at] ^= 1 << rng.Intn(8)
		return bad, fmt.Sprintf("bit of byte %d", at)
	case 2: // the header of a page
		at := page() + rng.Intn(16)
		bad[at] ^= byte(1 + rng.Intn(255))
		return bad, fmt.Sprintf("header byte %d", at)
	case 3: // the first elements of a page
		at := page() + 16 + rng.Intn(64)
		bad[at] ^= byte(1 + rng.Intn(255))
		return bad, fmt.Sprintf("element byte %d", at)
	case 4:
		at := page()
		clear(bad[at : at+4096])
		return bad, fmt.Sprintf("page %d zero", at/4096)
	case 5:
		at, from := page(), page()
		copy(bad[at:at+4096], good[from:from+4096])
		return bad, fmt.Sprintf("page %d is page %d", at/4096, from/4096)
	case 6: // a small number in place of another: a plausible page id or size
		at := page() + rng.Intn(16)*8
		copy(bad[at:at+8], []byte{byte(rng.Intn(100)), 0, 0, 0, 0, 0, 0, 0})
		return bad, fmt.Sprintf("number at %d", at)
	default:
		n := 1 + rng.Intn(50)
		for range n {
			bad[rng.Intn(len(bad))] = byte(rng.Intn(256))
		}
		return bad, fmt.Sprintf("%d bytes", n)
	}
}

// examine uses a damaged store in all ways. restore puts the damage back.
func examine(t *testing.T, path, what string, want snapshot, restore func()) string {
	t.Helper()
	known := func(err error) {
		t.Helper()
		for _, k := range []error{ErrCorrupt, ErrNotStore, ErrVersion} {
			if errors.Is(err, k) {
				oneLine(t, err, path)
				return
			}
		}
		t.Fatalf("%s: an error of no kind: %v", what, err)
	}
	rep, err := Check(path, Options{})
	if err != nil {
		known(err)
	} else if !rep.OK() {
		known(rep.Err())
	}
	noticed := err != nil || !rep.OK()
	s, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		known(err)
		if !noticed {
			t.Fatalf("%s: Check is content, Open is not: %v", what, err)
		}
	} else {
		got, err := takeSnapshot(s)
		switch {
		case err != nil && !noticed:
			t.Fatalf("%s: Check is content, a query is not: %v", what, err)
		case errors.Is(err, ErrNotFound): // its entry is
		case err != nil:
			known(err)
		case !noticed && !reflect.DeepEqual(want, got):
			t.Fatalf("%s: nobody noticed:\n%s", what, cmp.Diff(want, got))
		}
		_ = s.Close()
	}
	// Writing to it must not crash either, whatever becomes of it.
	if s, err := Open(path, Options{}); err != nil {
		known(err)
	} else {
		s.db.NoSync = true
		for i := range 20 {
			id := fmt.Sprintf("%08xnew", uint32(i)*2654435761)
			if _, err := s.Append(asked("one", 300+i, id), told("one", 300+i, id, 1)); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrInvalid) {
				known(err)
			}
		}
		_ = s.Close()
	}
	if !noticed {
		return "harmless"
	}
	// Repair puts right what it says it can.
	restore()
	after, err := Repair(path, Options{})
	if err != nil {
		known(err)
		if rep.Lost == 0 && rep.Wrong > 0 {
			t.Fatalf("%s: Check says that Repair helps (%s), Repair says %v", what, rep.Findings[0].What, err)
		}
		return "beyond repair"
	}
	if !after.OK() {
		if rep.Lost == 0 {
			t.Fatalf("%s: Check found %+v, and after Repair %+v", what, rep, after)
		}
		return "repaired in part"
	}
	if got := snapshotOf(t, path); rep.Lost == 0 && !reflect.DeepEqual(want, got) {
		// The one thing that may be missing is what the other meta page, now
		// unreadable, was to say.
		if !strings.Contains(rep.Findings[0].What, "meta page") {
			t.Fatalf("%s: repaired to something else:\n%s", what, cmp.Diff(want, got))
		}
		return "last transaction lost"
	}
	return "repaired"
}

// Each kind of damage is found for what it is, and what can be repaired is.
func TestCheckFinds(t *testing.T) {
	for _, test := range []struct {
		name       string
		edit       func(tx *bolt.Tx) error
		says       string
		repairable bool
	}{
		{"event", func(tx *bolt.Tx) error { return flip(tx.Bucket(bucketEvents), seqKey(3), 8) }, "event 3: checksum", false},
		{"event gone", func(tx *bolt.Tx) error { return tx.Bucket(bucketEvents).Delete(seqKey(9)) }, "events 9 to 9 are missing", false},
		{"event elsewhere", func(tx *bolt.Tx) error {
			b := tx.Bucket(bucketEvents)
			return b.Put(seqKey(18), bytes.Clone(b.Get(seqKey(17))))
		}, "event 18: checksum", false},
		{"strange key", func(tx *bolt.Tx) error { return tx.Bucket(bucketEvents).Put([]byte("x"), []byte("y")) }, "an event has a key of 1 bytes, 78", false},
		{"told without asked", func(tx *bolt.Tx) error {
			e := bare(told("one", 9, "9999", 1))
			e.Seq = 18
			return tx.Bucket(bucketEvents).Put(seqKey(18), encodeEvent(&e, 1))
		}, "event 18: candidate 9999 is not in the index", true},
		{"gap in the proposals", func(tx *bolt.Tx) error {
			e := asked("one", 9, "9999")
			e.Seq = 18
			return tx.Bucket(bucketEvents).Put(seqKey(18), encodeEvent(&e, 1))
		}, "event 18: proposal 9 of campaign one, should be 4", false},
		{"event of no campaign", func(tx *bolt.Tx) error {
			e := note("one", KindStopped, "")
			e.Seq = 18
			return tx.Bucket(bucketEvents).Put(seqKey(18), encodeEvent(&e, 12))
		}, "event 18 is of a campaign that event 12 should start", false},
		{"detail", func(tx *bolt.Tx) error { return flip(tx.Bucket(bucketDetails), seqKey(3), 8) }, "detail of event 3: checksum", false},
		{"detail gone", func(tx *bolt.Tx) error { return tx.Bucket(bucketDetails).Delete(seqKey(3)) }, "the detail of event 3 is missing", false},
		{"detail too many", func(tx *bolt.Tx) error { return tx.Bucket(bucketDetails).Put(seqKey(2), []byte("x")) }, "there is a detail of event 2", false},
		{"candidate", func(tx *bolt.Tx) error { return flip(tx.Bucket(bucketCandidates), seqKey(4), 2) }, "candidate bbbb0001", true},
		{"parents", func(tx *bolt.Tx) error {
			return editCandidate(tx, 6, func(r *candidateRecord) { r.parents[0], r.parents[1] = r.parents[1], r.parents[0] })
		}, "cccc0001 is indexed with other parents", true},
		{"flags of a candidate", func(tx *bolt.Tx) error { return flip(tx.Bucket(bucketCandidates), seqKey(4), 12) }, "flags", true},
		{"candidate gone", func(tx *bolt.Tx) error { return tx.Bucket(bucketCandidates).Delete(seqKey(4)) }, "index of candidate 4 is missing", true},
		{"id", func(tx *bolt.Tx) error { return tx.Bucket(bucketIDs).Put([]byte("bbbb0001"), seqKey(2)) }, "the index of candidate bbbb0001 is wrong", true},
		{"id gone", func(tx *bolt.Tx) error { return tx.Bucket(bucketIDs).Delete([]byte("bbbb0001")) }, "candidate bbbb0001 is not in the index", true},
		{"id too many", func(tx *bolt.Tx) error { return tx.Bucket(bucketIDs).Put([]byte("zz"), seqKey(2)) }, "index of ids has 8 entries, should have 7", true},
		{"candidate too many", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketCandidates).Put(seqKey(3), candidateRecord{campaign: 1, asked: 2}.encode())
		}, "index of candidates has 8 entries, should have 7", true},
		{"rank", func(tx *bolt.Tx) error { return tx.Bucket(bucketRanking).Delete(rankingKey(1, 0.8, 5)) }, "candidate bbbb0001 is not ranked", true},
		{"rank too many", func(tx *bolt.Tx) error { return tx.Bucket(bucketRanking).Put(rankingKey(1, 0.01, 5), nil) }, "index of fitness has 6", true},
		{"key", func(tx *bolt.Tx) error { return tx.Bucket(bucketKeys).Delete(contentKey("key of bbbb0001", 5)) }, "not indexed by its key", true},
		{"key too many", func(tx *bolt.Tx) error { return tx.Bucket(bucketKeys).Put(contentKey("other", 5), nil) }, "index of keys has 7", true},
		{"child", func(tx *bolt.Tx) error { return tx.Bucket(bucketChildren).Delete(childKey(2, 4)) }, "not indexed as a child of aaaa0001", true},
		{"child too many", func(tx *bolt.Tx) error { return tx.Bucket(bucketChildren).Put(childKey(2, 5), nil) }, "index of children has 7", true},
		{"campaign", func(tx *bolt.Tx) error { return flip(tx.Bucket(bucketCampaigns), seqKey(10), 5) }, "summary of campaign 10 is wrong", true},
		{"campaign gone", func(tx *bolt.Tx) error { return tx.Bucket(bucketCampaigns).Delete(seqKey(10)) }, "index of campaigns has 1", true},
		{"name", func(tx *bolt.Tx) error { return tx.Bucket(bucketNames).Delete([]byte("two")) }, "campaign two is not in the index", true},
		{"name too many", func(tx *bolt.Tx) error { return tx.Bucket(bucketNames).Put([]byte("three"), seqKey(1)) }, "index of campaign names has 3", true},
		{"finalist", func(tx *bolt.Tx) error {
			return editCandidate(tx, 13, func(r *candidateRecord) { r.finals = 0 })
		}, "ffff0001 is not indexed as a finalist", true},
		{"winner", func(tx *bolt.Tx) error {
			return editCandidate(tx, 13, func(r *candidateRecord) { r.won = true })
		}, "index of winners has 2 entries, should have 1", true},
		{"index gone", func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketKeys) }, `bucket "keys" is missing`, true},
		{"log gone", func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketEvents) }, `bucket "events" is missing`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "evotune.db")
			s, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			smallStore(t, s)
			want, err := takeSnapshot(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			edit(t, path, test.edit)
			rep, err := Check(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if rep.OK() || !strings.Contains(fmt.Sprint(rep.Findings), test.says) {
				t.Fatalf("found %+v, not %q", rep.Findings, test.says)
			}
			if err := rep.Err(); !errors.Is(err, ErrCorrupt) {
				t.Errorf("Err: %v", err)
			}
			oneLine(t, rep.Err(), path)
			if (rep.Lost == 0) != test.repairable {
				t.Errorf("%d of %d findings cannot be repaired: %+v", rep.Lost, rep.Wrong, rep.Findings)
			}
			after, err := Repair(path, Options{})
			if !test.repairable {
				if err == nil && after.OK() {
					t.Error("what is lost was repaired?")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.name == "told without asked" {
				return // the log itself is wrong, which nobody can tell from a damaged index
			}
			if !after.OK() {
				t.Fatalf("after Repair: %+v", after.Findings)
			}
			if got := snapshotOf(t, path); !reflect.DeepEqual(want, got) {
				t.Errorf("after Repair (-want +got):\n%s", cmp.Diff(want, got))
			}
			// It works as before.
			s = mustOpen(t, path, Options{})
			mustAppend(t, s, asked("one", 4, "new", "aaaa0001"), told("one", 4, "new", 0.1))
			if got, err := s.Best(Query{}); err != nil || ids(got) != "new" {
				t.Errorf("Best: %s, %v", ids(got), err)
			}
		})
	}
}

// Whatever an entry of an index says: a query answers with what the log says of the
// campaigns and candidates asked for, or with an error, and with nothing else. What is
// missing because no entry leads to it any more, only Check finds.
func TestDamagedIndexGivesNoWrongAnswer(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "evotune.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it is damaged
	s.db.NoSync = true
	smallStore(t, s)
	// A second measurement, a proposal that is made again, and two finals.
	mustAppend(t, s,
		measured("one", 3, "dddd0001", 0.85), asked("one", 4, "eeee0002", "cccc0001"), asked("one", 5, "eeee0002", "dddd0001"),
		told("one", 5, "eeee0002", 0.95), finals("one", "cccc0001", "bbbb0001", "cccc0001"), finals("one", "bbbb0001", "bbbb0001", "aaaa0001"),
		asked("one", 6, "ffff0002"),
	)
	all, _, err := s.Candidates(Query{}, 0)
	if err != nil || len(all) != 9 {
		t.Fatalf("%d candidates, %v", len(all), err)
	}
	candidates, campaigns := map[string]Candidate{}, map[string]Campaign{}
	for _, c := range all {
		candidates[c.ID] = c
		if campaigns[c.Campaign], err = s.Campaign(c.Campaign); err != nil {
			t.Fatal(err)
		}
	}
	trial := ""
	refused := false
	failed := func(err error) bool {
		refused = refused || err != nil
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: an error of no kind: %v", trial, err)
		}
		if err != nil && strings.Contains(err.Error(), "cannot read a page") {
			t.Errorf("%s: a panic and no comparison: %v", trial, err)
		}
		return err != nil
	}
	// is reports a candidate that is not what the log says, or should not be there.
	is := func(query string, c Candidate, belongs bool) {
		want := candidates[c.ID]
		if c.ToldSeq == 0 {
			c.Told, c.ToldAt, c.ToldSeq, c.Again, c.Proven = want.Told, want.ToldAt, want.ToldSeq, want.Again, want.Proven
		}
		if c.FinalsSeq < want.FinalsSeq {
			c.Finals, c.FinalsSeq, c.Finalist = want.Finals, want.FinalsSeq, want.Finalist
		}
		if !belongs || !reflect.DeepEqual(c, want) {
			t.Errorf("%s: %s gives, though it should not:\n%s", trial, query, cmp.Diff(want, c))
		}
	}
	ask := func() {
		refused = false
		for id, want := range campaigns {
			if got, err := s.Campaign(id); !failed(err) && !reflect.DeepEqual(got, want) {
				t.Errorf("%s: campaign %s (-want +got):\n%s", trial, id, cmp.Diff(want, got))
			}
			for e, err := range s.Events(id, 0, WithoutDetail()) {
				if !failed(err) && e.Campaign != id {
					t.Errorf("%s: an event of campaign %s among those of %s", trial, e.Campaign, id)
				}
			}
		}
		for id := range candidates {
			if c, err := s.Candidate(id); !failed(err) && c.ID != id {
				t.Errorf("%s: candidate %s for %s", trial, c.ID, id)
			}
			children, err := s.Children(id)
			failed(err)
			for _, c := range children {
				is("Children of "+id, c, slices.Contains(c.Asked.Parents, id))
			}
			keyed, err := s.ByKey("key of " + id)
			failed(err)
			for _, c := range keyed {
				is("ByKey of "+id, c, c.ID == id)
			}
			n, err := s.Lineage(id)
			if failed(err) {
				continue
			}
			for _, p := range n.Parents {
				is("Lineage of "+id, p.Candidate, slices.Contains(n.Asked.Parents, p.ID))
			}
		}
		for _, q := range []Query{{Limit: 20}, {Limit: 20, ProvenOnly: true}, {Limit: 2, Campaign: "one"}} {
			best, err := s.Best(q)
			failed(err)
			for i, c := range best {
				is("Best", c, c.Told.Verdict == correct && (i == 0 || best[i-1].Told.Fitness <= c.Told.Fitness) && (c.Proven || !q.ProvenOnly))
			}
			some, _, err := s.Candidates(q, 0)
			failed(err)
			for i, c := range some {
				twice := slices.ContainsFunc(some[:i], func(other Candidate) bool { return other.ID == c.ID })
				is("Candidates", c, !twice && (c.Proven || !q.ProvenOnly) && (q.Campaign == "" || q.Campaign == c.Campaign))
			}
		}
	}
	if ask(); refused {
		t.Fatal("a sound store refuses")
	}
	edit := func(f func(*bolt.Tx) error) {
		if err := s.db.Update(f); err != nil {
			t.Fatal(err)
		}
	}
	trials, refusals := 0, 0
	for _, bucket := range bucketsIndex {
		var entries []record
		edit(func(tx *bolt.Tx) error {
			return tx.Bucket(bucket).ForEach(func(k, v []byte) error {
				entries = append(entries, record{bytes.Clone(k), bytes.Clone(v)})
				return nil
			})
		})
		for i, old := range entries {
			next := entries[(i+1)%len(entries)]
			others := []record{{old.k, next.v}}
			for at := range len(old.k) + len(old.v) {
				kv := slices.Concat(old.k, old.v)
				kv[at] ^= 1 << (at % 8)
				others = append(others, record{kv[:len(old.k)], kv[len(old.k):]})
				for _, b := range []byte{0, slices.Concat(next.k, next.v, make([]byte, len(kv)))[at]} {
					if kv := slices.Concat(old.k, old.v); kv[at] != b {
						kv[at] = b
						others = append(others, record{kv[:len(old.k)], kv[len(old.k):]})
					}
				}
			}
			for _, bad := range others {
				edit(func(tx *bolt.Tx) error {
					return errors.Join(tx.Bucket(bucket).Delete(old.k), tx.Bucket(bucket).Put(bad.k, bad.v))
				})
				trial = fmt.Sprintf("%s: %x = %x, was %x = %x", bucket, bad.k, bad.v, old.k, old.v)
				ask()
				if trials++; refused {
					refusals++
				}
				edit(func(tx *bolt.Tx) error {
					err := tx.Bucket(bucket).Delete(bad.k)
					for _, e := range entries {
						err = errors.Join(err, tx.Bucket(bucket).Put(e.k, e.v))
					}
					return err
				})
			}
		}
	}
	t.Logf("%d of %d refused", refusals, trials)
	if ask(); refused {
		t.Error("the store was not put right")
	}
	// Nothing shows the number of the proposal that the index of a candidate has.
	edit(func(tx *bolt.Tx) error { return editCandidate(tx, 2, func(r *candidateRecord) { r.index++ }) })
	if _, err := s.Candidate("aaaa0001"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "an index disagrees with the log: candidate aaaa0001") {
		t.Errorf("with another proposal: %v", err)
	}
	edit(func(tx *bolt.Tx) error { return tx.Bucket(bucketCampaigns).Delete(seqKey(1)) })
	if _, err := s.Campaign("one"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "an index disagrees with the log: campaign 1 is missing") {
		t.Errorf("without the campaign's record: %v", err)
	}
}

// The file is cut while it is open, as when a disk fails under its map: every call says
// so and returns, and so does Close.
func TestFileCutWhileOpen(t *testing.T) {
	whole := treeStore(t)
	for _, size := range []int{0, 100, 4096, 2 * 4096, 3 * 4096} {
		path := filepath.Join(t.TempDir(), "evotune.db")
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		one, err := s.Campaign("one")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(size)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for n := range 3 {
				if _, err := takeSnapshot(s); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%d bytes left: query %d: %v", size, n, err)
				}
				if _, err := s.Append(asked("one", one.Asked, "new"), told("one", one.Asked, "new", 1)); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%d bytes left: Append %d: %v", size, n, err)
				}
			}
			for range 2 {
				if err := s.Close(); err != nil {
					t.Errorf("%d bytes left: Close: %v", size, err)
				}
			}
			if s, err := Open(path, Options{Timeout: -1}); errors.Is(err, ErrLocked) {
				t.Errorf("%d bytes left: the lock is held after Close", size)
			} else if err == nil {
				_ = s.Close()
			}
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%d bytes left: a call hangs", size)
		}
	}
}

// After a write that failed in an unknown way nothing more is written, and what was
// there can be read.
func TestFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	smallStore(t, s)
	if err := s.file.Close(); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		_, err := s.Append(asked("one", 4, "new"))
		if err == nil || errors.Is(err, ErrFailed) != (n > 0) {
			t.Errorf("Append %d: %v", n, err)
		}
	}
	if _, err := s.Candidate("aaaa0001"); err != nil {
		t.Error(err)
	}
	_ = s.Close()
	mustBeSound(t, path)
}

// When a sync fails it is not known what reached the disk, whatever the reason; when a
// write fails for lack of space, the last state is in force.
func TestWriteError(t *testing.T) {
	for _, test := range []struct {
		err          error
		full, sticky bool
	}{
		{syscall.ENOSPC, true, true},
		{&os.PathError{Op: "write", Err: syscall.ENOSPC}, true, false},
		{errors.New("file resize error: " + syscall.EDQUOT.Error()), true, false}, // as bbolt has it
		{syscall.EIO, false, true},
		{&os.PathError{Op: "write", Err: syscall.EIO}, false, true},
	} {
		err, sticky := writeError(test.err)
		if errors.Is(err, ErrFull) != test.full || sticky != test.sticky {
			t.Errorf("%v: %v, sticky %v", test.err, err, sticky)
		}
	}
}

func editCandidate(tx *bolt.Tx, born uint64, f func(*candidateRecord)) error {
	r, err := candidateAt(tx.Bucket(bucketCandidates), born)
	if err != nil {
		return err
	}
	f(&r)
	return tx.Bucket(bucketCandidates).Put(seqKey(born), r.encode())
}

func flip(b *bolt.Bucket, key []byte, at int) error {
	v := bytes.Clone(b.Get(key))
	v[at] ^= 0x10
	return b.Put(key, v)
}

// A damaged event costs itself and nothing else, before Repair and after.
func TestDamagedEventCostsItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	smallStore(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The proposal of b, which is the parent of c and d.
	edit(t, path, func(tx *bolt.Tx) error { return flip(tx.Bucket(bucketEvents), seqKey(4), 9) })
	for _, step := range []string{"damaged", "repaired"} {
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Candidate("bbbb0001"); err == nil {
			t.Errorf("%s: b is whole", step)
		}
		for _, id := range []string{"aaaa0001", "cccc0001", "dddd0001", "eeee0001"} {
			if _, err := s.Candidate(id); err != nil {
				t.Errorf("%s: %v", step, err)
			}
		}
		if got, err := s.Best(Query{Campaign: "two", Limit: 5}); err != nil || ids(got) != "ffff0001 eeee0001" {
			t.Errorf("%s: Best: %s, %v", step, ids(got), err)
		}
		// It takes more.
		i := map[string]int{"damaged": 4, "repaired": 5}[step]
		if _, err := s.Append(asked("one", i, "new"+step, "cccc0001"), told("one", i, "new"+step, 2)); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if step == "damaged" {
			rep, err := Repair(path, Options{})
			if err != nil || rep.OK() || !strings.Contains(rep.Findings[0].What, "event 4: checksum") {
				t.Errorf("repair: %+v, %v", rep, err)
			}
		}
	}
}

// The file is compact after a repair, and what was appended meanwhile is kept
// nowhere but in it.
func TestRepairOfSoundStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	if err := os.WriteFile(path, treeStore(t), 0o640); err != nil {
		t.Fatal(err)
	}
	want := snapshotOf(t, path)
	for range 2 {
		rep, err := Repair(path, Options{})
		if err != nil || !rep.OK() {
			t.Fatalf("%+v, %v", rep, err)
		}
	}
	if got := snapshotOf(t, path); !reflect.DeepEqual(want, got) {
		t.Errorf("changed (-want +got):\n%s", cmp.Diff(want, got))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// A link to it stays one.
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Skipf("no links here: %v", err)
	}
	if rep, err := Repair(link, Options{}); err != nil || !rep.OK() {
		t.Fatalf("%+v, %v", rep, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().IsRegular() {
		t.Errorf("the link is now %v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Damage that bbolt itself would find is found and repaired, and damage that it dies of is found.
func TestPageDamage(t *testing.T) {
	whole := treeStore(t)
	p, err := openPager(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	_, leaf := somePages(t, p)
	free := native.Uint16(whole[p.meta.freelist*4096+10:])
	for _, c := range []struct {
		name, says string
		id         uint64
		at         int
		value      []byte
	}{
		{"a page neither used nor free", "unreachable unfreed", p.meta.freelist, 10, native.AppendUint16(nil, free-1)},
		{"an entry that says it is a bucket", "says that it is a bucket", leaf, pageHeader, native.AppendUint32(nil, leafIsBucket)},
	} {
		b := bytes.Clone(whole)
		copy(b[c.id*4096+uint64(c.at):], c.value)
		path := filepath.Join(t.TempDir(), "evotune.db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if rep, err := Check(path, Options{}); err != nil || rep.Wrong == 0 || rep.Lost != 0 || !strings.Contains(rep.Findings[0].What, c.says) {
			t.Errorf("%s: %+v, %v", c.name, rep, err)
		}
		if rep, err := Repair(path, Options{}); err != nil || !rep.OK() {
			t.Errorf("%s: repair: %+v, %v", c.name, rep, err)
		}
	}
}

// TestLongName: of a damaged name that swallowed what is behind it, a line has the beginning.
func TestLongName(t *testing.T) {
	b := treeStore(t)
	p, err := openPager(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	first := b[p.meta.root*4096+pageHeader:] // flags, place, length of the key, length of the value
	copy(first, native.AppendUint32(nil, 0))
	copy(first[8:], native.AppendUint32(nil, 300))
	if _, err := p.trees(); err == nil || !strings.Contains(err.Error(), "which is not a bucket") || len(err.Error()) > 250 {
		t.Errorf("%v", err)
	}
}

// somePages are a branch page of some index, and the first leaf below it.
func somePages(t *testing.T, p *pager) (branch, leaf uint64) {
	trees, err := p.trees()
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range trees {
		if g, _, err := p.read(max(in.root, 2), nil); in.root != 0 && err == nil && g.flags == flagBranch && in.name == string(bucketCandidates) {
			_, leaf, _ = g.branch(0)
			return in.root, leaf
		}
	}
	t.Fatal("no index has a branch page")
	return 0, 0
}

// boltEnv names the file of such a child.
const boltEnv = "EVOTUNE_STORE_BOLT"

// boltAlone is what a child does: it opens and checks a file without this package.
func boltAlone(path string) {
	panicked, err := guard(func() error {
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			return err
		}
		return db.View(func(tx *bolt.Tx) error {
			for err := range tx.Check() {
				if strings.Contains(err.Error(), "reachable freed") {
					return errors.New("it finds a page in use only when it checks")
				}
			}
			return nil
		})
	})
	fmt.Println("says", panicked, err)
	os.Exit(0)
}

// What bbolt alone makes of damage: where it dies of it, goes on for ever or says nothing, this
// package reads pages by itself. If this test fails because bbolt copes, that part of pages.go can go.
func TestBoltAloneLong(t *testing.T) {
	longtest.Long(t, "it waits for what never ends")
	whole := treeStore(t)
	p, err := openPager(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	branch, leaf := somePages(t, p)
	for _, c := range []struct {
		name, says string
		id         uint64
		at         int
		value      []byte
	}{
		{"a branch that leads to itself", "killed", branch, pageHeader + 8, native.AppendUint64(nil, branch)},
		{"an overflow of too many pages", "killed", leaf, 12, native.AppendUint32(nil, 1<<30)},
		{"a leaf that is a branch", "fault", leaf, 8, native.AppendUint16(nil, flagBranch)},
		{"an entry that is a bucket", "fault", leaf, pageHeader, native.AppendUint32(nil, leafIsBucket)},
		{"a value beyond its page", "says false <nil>", leaf, pageHeader + 12, native.AppendUint32(nil, 1<<20)},
		{"a page in use among the free", "only when it checks", p.meta.freelist, pageHeader, native.AppendUint64(nil, leaf)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bytes.Clone(whole)
			copy(b[c.id*4096+uint64(c.at):], c.value)
			path := filepath.Join(t.TempDir(), "evotune.db")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			alone := exec.CommandContext(ctx, os.Args[0])
			alone.Env = append(os.Environ(), boltEnv+"="+path)
			out, err := alone.CombinedOutput()
			if got := fmt.Sprint(err, " ", string(out)); !strings.Contains(got, c.says) {
				t.Errorf("bbolt: %.300s, want %q", got, c.says)
			}
			if rep, err := Check(path, Options{}); err != nil || rep.OK() {
				t.Errorf("Check: %+v, %v", rep, err)
			}
		})
	}
}

// Each field of the meta pages is believed only when it makes sense, and the newer of
// two good ones counts.
func TestMetaPages(t *testing.T) {
	whole := treeStore(t)
	metas := func(b []byte) (first, second []byte) { return b[pageHeader:], b[4096+pageHeader:] }
	seal := func(m []byte) {
		h := fnv.New64a()
		_, _ = h.Write(m[:56])
		native.PutUint64(m[56:], h.Sum64())
	}
	for _, test := range []struct {
		name string
		edit func(m []byte) // of both
		want error
	}{
		{"checksum", func(m []byte) { m[16] ^= 1 }, ErrCorrupt},
		{"version", func(m []byte) { m[4]++; seal(m) }, ErrVersion},
		{"page size", func(m []byte) { native.PutUint32(m[8:], 4097); seal(m) }, ErrCorrupt},
		{"root", func(m []byte) { native.PutUint64(m[16:], 1); seal(m) }, ErrCorrupt},
		{"pages", func(m []byte) { native.PutUint64(m[40:], 1<<40); seal(m) }, ErrCorrupt},
		{"nothing", func([]byte) {}, nil},
	} {
		b := bytes.Clone(whole)
		first, second := metas(b)
		test.edit(first)
		test.edit(second)
		if _, err := openPager(bytes.NewReader(b), int64(len(b))); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for newest := range 2 {
		b := bytes.Clone(whole)
		for i, m := range [][]byte{b[pageHeader:], b[4096+pageHeader:]} {
			native.PutUint64(m[48:], 100)
			if i == newest {
				native.PutUint64(m[48:], 101)
			}
			seal(m)
		}
		if p, err := openPager(bytes.NewReader(b), int64(len(b))); err != nil || p.meta.txid != 101 {
			t.Errorf("the newer of two is %d: %+v, %v", newest, p, err)
		}
		// Without the newer one, the other counts.
		b[newest*4096+pageHeader+16] ^= 1
		if p, err := openPager(bytes.NewReader(b), int64(len(b))); err != nil || p.meta.txid != 100 || p.reserve == nil {
			t.Errorf("without meta page %d: %+v, %v", newest, p, err)
		}
	}
}
