package evotune

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/search"
	"github.com/evotune/evotune/store"
)

// oldStore opens a copy of testdata/old, which revision 185b99f wrote: a search and a
// sweep of the kernel "mine", and a campaign on a recorded table. Their folders are
// gone.
func oldStore(t *testing.T) (*store.Store, *Machine) {
	t.Helper()
	f, err := os.Open("testdata/old/old.db.gz")
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
	path := filepath.Join(t.TempDir(), "old.db")
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
	return s, &Machine{Definitions: []string{"testdata/old/mine"}}
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

// What campaigns recorded in a map of strings are fields of a job.
func TestOldJobs(t *testing.T) {
	s, _ := oldStore(t)
	c, job := kernelOf(t, s, "mine", false)
	if job.ID != c.ID || job.Backend != CPU || len(job.Hash) != 64 || job.Limits["device_cores"] < 1 || len(job.Definitions) != 1 ||
		!filepath.IsAbs(job.Definitions[0]) || job.Window != DefaultWindow || job.Finalists != 2 || job.Budget.Evaluations != 4 || job.Table != "" {
		t.Errorf("the search is read as %+v", job)
	}
	if _, job := kernelOf(t, s, "mine", true); job.Strategy != sweepStrategy || job.Budget.Evaluations != 2 || job.Finalists != -1 {
		t.Errorf("the sweep is read as %+v", job)
	}
	if _, job := kernelOf(t, s, "synthetic-1000", false); job.Backend != Replay || filepath.Base(job.Table) != "synthetic.json" {
		t.Errorf("the campaign on a table is read as %+v", job)
	}
}

// A store of an older version answers what a new one does.
func TestOldStore(t *testing.T) {
	s, m := oldStore(t)
	askOldStore(t, s, m)
}

// So it does when all of it is in archives.
func TestArchivedStore(t *testing.T) {
	s, m := oldStore(t)
	old, err := s.Archivable(time.Now())
	if err != nil || len(old) != 3 {
		t.Fatalf("%d campaigns can be archived, %v", len(old), err)
	}
	for _, c := range old {
		if _, err := s.Archive(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
	}
	askOldStore(t, s, m)
	_, job := kernelOf(t, s, "mine", false)
	if _, err := m.Continue(s, job.ID, Budget{Evaluations: 6}); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "takes no more evaluations") {
		t.Errorf("a campaign in an archive: %v", err)
	}
	sweep, _ := kernelOf(t, s, "mine", true)
	if _, _, err := m.ContinueSweep(s, sweep.ID, 3); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "takes no more evaluations") {
		t.Errorf("a sweep in an archive: %v", err)
	}
}

func askOldStore(t *testing.T, s *store.Store, m *Machine) {
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
	s, m := oldStore(t)
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

// TestOldResume goes on with a campaign of an older version on a table, which is here
// now. Its search was another: this one goes on with what is known, and proposes nothing again.
func TestOldResume(t *testing.T) {
	old, m := oldStore(t)
	const table = "internal/tables/testdata/synthetic.json"
	_, job := kernelOf(t, old, "synthetic-1000", false)
	s, err := store.Open(filepath.Join(t.TempDir(), "moved.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	here, err := json.Marshal(absolute(table))
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range old.Events(job.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Started != nil {
			config := string(e.Started.Config)
			if !strings.Contains(config, `"extra":{`) {
				t.Fatalf("not of an older version: %s", config)
			}
			e.Started.Config = json.RawMessage(strings.Replace(config, `"`+job.Table+`"`, string(here), 1))
		}
		if _, err := s.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Continue(s, job.ID, Budget{}); !errors.As(err, new(*FinishedError)) {
		t.Errorf("a finished campaign without a larger budget: %v", err)
	}
	if sum, err := m.Resume(t.Context(), s, "", Budget{Evaluations: 30}, Options{}); err != nil || !sum.Complete || sum.Evaluated != 30 || sum.Campaign != job.ID {
		t.Fatalf("resumed: %+v, %v", sum, err)
	}
	before, all := asked(t, old, job.ID), asked(t, s, job.ID)
	if n := len(before); len(all) != 30 || !slices.Equal(all[:n], before) {
		t.Errorf("%d proposals, which do not begin with the %d before", len(all), n)
	}
	if slices.Sort(all); len(slices.Compact(all)) != 30 {
		t.Error("a genome is proposed twice")
	}
	c, err := s.Campaign(job.ID)
	if err != nil || c.Started.SearchVersion == search.Version("evolution") {
		t.Errorf("of this version, or %v", err)
	}
	fresh, err := m.Run(t.Context(), s, Job{Table: table, Seed: job.Seed, Budget: Budget{Evaluations: 30}}, Options{Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	if c, err = s.Campaign(fresh.Campaign); err != nil {
		t.Fatal(err)
	}
	again, err := RecordedJob(c)
	if err != nil || again.Table != absolute(table) || again.Backend != Replay || again.Hash != job.Hash || strings.Contains(string(c.Started.Config), "extra") {
		t.Errorf("recorded as %s (%v)", c.Started.Config, err)
	}
}

// asked are the genomes of a campaign, in order.
func asked(t *testing.T, s *store.Store, campaign string) (out []string) {
	t.Helper()
	for e, err := range s.Events(campaign, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Asked != nil {
			out = append(out, e.Asked.Genome)
		}
	}
	return out
}

// TestOldRecord: a candidate of an older version can be verified.
func TestOldRecord(t *testing.T) {
	rec, _ := oldRecord(t)
	if rec.Result.Verdict != evaluator.Correct || rec.Finals == nil {
		t.Errorf("%+v", rec)
	}
}

func oldRecord(t *testing.T) (Record, *Machine) {
	t.Helper()
	s, m := oldStore(t)
	answers, err := m.Best(t.Context(), s, Question{Kernel: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := NewRecord(s, answers[0].ID, false)
	if err != nil {
		t.Fatal(err)
	}
	return rec, m
}

// TestOldVerifyLong measures a candidate of an older version again.
func TestOldVerifyLong(t *testing.T) {
	longtest.Long(t, "it measures")
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOOS != "linux" {
		t.Skip("no C compiler on Linux: kernels cannot be run")
	}
	rec, m := oldRecord(t)
	v, err := m.Verify(t.Context(), rec, VerifyOptions{Tolerance: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	if v.Stored.Verdict != evaluator.Correct || v.Measured != record.FromFinals || !v.SameSource {
		t.Errorf("stored %s, measured in the %s, the same source: %t", v.Stored.Verdict, v.Measured, v.SameSource)
	}
	if v.Disturbed != "" { // the time is this machine's
		t.Skipf("the machine is too busy to measure: %s", v.Disturbed)
	}
	if v.Again.Verdict != evaluator.Correct {
		t.Errorf("now %s: %s", v.Again.Verdict, v.Again.Reason)
	}
}

// A campaign whose definition has changed says in one line what to do, and the same job begins anew with
// its winners.
func TestChangedDefinition(t *testing.T) {
	s, _ := oldStore(t)
	dir := filepath.Join(t.TempDir(), "mine")
	if err := os.CopyFS(dir, os.DirFS("testdata/old/mine")); err != nil {
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
