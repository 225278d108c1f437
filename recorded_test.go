package evotune

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/store"
)

// recordedStore opens a copy of the store in testdata/recorded: a search and a
// sweep of the kernel "mine", and a campaign on a recorded table. Their folders are
// gone.
func recordedStore(t *testing.T) (*store.Store, *Machine) {
	t.Helper()
	f, err := os.Open("testdata/recorded/evotune.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "evotune.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, &Machine{Definitions: []string{"testdata/recorded/mine"}}
}

// kernelOf finds the campaign of a kernel, a sweep or not.
func kernelOf(t *testing.T, s *store.Store, kernel string, sweep bool) (store.Campaign, Job) {
	t.Helper()
	all, err := s.Campaigns()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c, err = s.Campaign(c.ID); err != nil {
			t.Fatal(err)
		}
		job, err := RecordedJob(c)
		if err != nil {
			t.Fatal(err)
		}
		if job.Kernel == kernel && job.Sweep == sweep {
			return c, job
		}
	}
	t.Fatalf("no campaign of %s", kernel)
	return store.Campaign{}, Job{}
}

// TestRecordedJobs: what a campaign needs to go on is in its log.
func TestRecordedJobs(t *testing.T) {
	s, _ := recordedStore(t)
	c, job := kernelOf(t, s, "mine", false)
	if job.ID != c.ID || job.Backend != CPU || len(job.Hash) != 64 || job.Limits["device_cores"] < 1 || len(job.Definitions) != 1 ||
		!filepath.IsAbs(job.Definitions[0]) || job.Window != DefaultWindow || job.FinalsOf() != 2 || job.Budget.Evaluations != 4 || job.Table != "" {
		t.Errorf("the search is read as %+v", job)
	}
	if _, job := kernelOf(t, s, "mine", true); job.Strategy != sweepStrategy || job.Budget.Evaluations != 2 || job.FinalsOf() != 0 {
		t.Errorf("the sweep is read as %+v", job)
	}
	if _, job := kernelOf(t, s, "synthetic-1000", false); job.Backend != Replay || filepath.Base(job.Table) != "synthetic.json" {
		t.Errorf("the campaign on a table is read as %+v", job)
	}
}

// TestArchivedStore: a store answers the same when all of it is in archives.
func TestArchivedStore(t *testing.T) {
	s, m := recordedStore(t)
	askStore(t, s, m)
	all, err := s.Archivable(time.Now())
	if err != nil || len(all) != 3 {
		t.Fatalf("%d campaigns can be archived, %v", len(all), err)
	}
	for _, c := range all {
		if _, err := s.Archive(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
	}
	askStore(t, s, m)
	_, job := kernelOf(t, s, "mine", false)
	if _, err := m.Continue(s, job.ID, Budget{Evaluations: 6}); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "takes no more evaluations") {
		t.Errorf("a campaign in an archive: %v", err)
	}
	sweep, _ := kernelOf(t, s, "mine", true)
	if _, _, err := m.ContinueSweep(s, sweep.ID, 3); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "takes no more evaluations") {
		t.Errorf("a sweep in an archive: %v", err)
	}
}

func askStore(t *testing.T, s *store.Store, m *Machine) {
	t.Helper()
	_, job := kernelOf(t, s, "mine", false)
	answers, err := m.Best(t.Context(), s, Question{Kernel: "mine", Shapes: job.Shapes, Proven: true})
	if err != nil || len(answers) != 1 || answers[0].Changed {
		t.Fatalf("best: %+v, %v", answers, err)
	}
	best := answers[0].ID
	if found, err := Select(s, Selection{Where: `proven && kernel == "mine"`}); err != nil || found.Matched != 1 || found.Candidates[0].ID != best {
		t.Errorf("query: %+v, %v", found, err)
	}
	subject, err := m.Subject(s, best)
	if err != nil || subject.Source.Status != report.SourceRebuilt || subject.Lineage.ID != best {
		t.Errorf("evidence: %s %s, %v", subject.Source.Status, subject.Source.Why, err)
	}
	files, err := m.Export(s, ExportOptions{Kernels: []string{"mine"}, MinEvidence: "parity"})
	if err != nil || len(files["manifest.json"]) == 0 {
		t.Errorf("export: %d files, %v", len(files), err)
	}
	sweep, _ := kernelOf(t, s, "mine", true)
	target, done, err := m.ContinueSweep(s, sweep.ID, 0)
	if err != nil || !done {
		t.Fatalf("sweep: %t, %v", done, err)
	}
	if rec, _, err := target.Recording(s, "test"); err != nil || len(rec.Trials) != 2 {
		t.Errorf("sweep: %+v, %v", rec, err)
	}
	// Without the folder the kernel is not known, and nothing is guessed.
	if _, err := new(Machine).Continue(s, job.ID, Budget{Evaluations: 6}); !errors.Is(err, ErrInput) {
		t.Errorf("a campaign without its kernel: %v", err)
	}
	_, err = new(Machine).Export(s, ExportOptions{Kernels: []string{"mine"}, MinEvidence: "parity"})
	if err == nil || !strings.Contains(err.Error(), " of mine cannot be exported: ") || !strings.HasSuffix(err.Error(), ": search at "+job.Shapes[0]+" again, or leave out that kernel or shape") {
		t.Errorf("a winner without its kernel: %v", err)
	}
}

// A result that names a proposal which the log does not have is an error of the log.
func TestForgedResult(t *testing.T) {
	s, m := recordedStore(t)
	sweep, _ := kernelOf(t, s, "mine", true)
	target, _, err := m.ContinueSweep(s, sweep.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	var told uint64
	for e, err := range s.Events(sweep.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Told != nil {
			told = e.Seq
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(s.Path(), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error {
		key := binary.BigEndian.AppendUint64(nil, told)
		events := tx.Bucket([]byte("events"))
		b := bytes.Clone(events.Get(key))
		at := 3 // version, kind and flags; then seconds, nanoseconds and the campaign
		for range 3 {
			_, n := binary.Uvarint(b[at:])
			at += n
		}
		b[at] = 100
		b = b[:len(b)-4]
		sum := crc32.Checksum(slices.Concat(key, b), crc32.MakeTable(crc32.Castagnoli))
		return events.Put(key, binary.LittleEndian.AppendUint32(b, sum))
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(s.Path(), store.Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it is only read
	want := fmt.Sprintf("campaign %s: event %d: result 100 has no proposal of its own: run `tune check`", sweep.ID, told)
	if _, _, err := target.Recording(s, "test"); err == nil || err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
}

// A campaign whose definition has changed says in one line what to do, and the same job begins anew with
// its winners.
func TestChangedDefinition(t *testing.T) {
	s, _ := recordedStore(t)
	dir := filepath.Join(t.TempDir(), "mine")
	if err := os.CopyFS(dir, os.DirFS("testdata/recorded/mine")); err != nil {
		t.Fatal(err)
	}
	m := &Machine{Definitions: []string{dir}}
	c, job := kernelOf(t, s, "mine", false)
	if _, err := m.Recorded(c); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "kernel.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("# changed\n"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = m.Continue(s, c.ID, Budget{Evaluations: 100})
	if err == nil || !errors.Is(err, ErrInput) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "the kernel mine has changed since campaign "+c.ID) ||
		!strings.HasSuffix(err.Error(), "`tune run` with the same words begins anew, with its winners") {
		t.Errorf("it says %v", err)
	}
	again, err := m.Target(Job{Kernel: "mine", Backend: CPU, Seed: job.Seed, Finalists: job.Finalists, Budget: job.Budget, Limits: job.Limits})
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := again.Fix(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if fixed.ID == c.ID || fixed.Hash == job.Hash || !slices.ContainsFunc(fixed.Start, func(b Start) bool { return b.Campaign == c.ID && b.Candidate == c.Best.Candidate }) {
		t.Errorf("it begins anew as %+v, without the winner %s of %s", fixed, c.Best.Candidate, c.ID)
	}

	for want, changed := range map[string]Job{
		"`tune sweep` with the same words begins anew":             {Sweep: true},
		"`tune run` with the same words begins anew":               {Strategy: "random"},
		"the table is another file now: `tune run` with it begins": {Table: "space.json"},
	} {
		if got := anew(changed); !strings.HasPrefix(got, want) || strings.Contains(got, "winners") {
			t.Errorf("%+v: %s", changed, got)
		}
	}
}
