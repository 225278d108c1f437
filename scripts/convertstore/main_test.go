package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/store"
)

// unpack unpacks the files of a folder in testdata.
func unpack(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return err
		}
		if b, err = io.ReadAll(z); err != nil {
			return err
		}
		file := filepath.Join(to, strings.TrimSuffix(strings.TrimPrefix(path, dir), ".gz"))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, b, 0o644)
	}); err != nil {
		t.Fatal(err)
	}
	return to
}

// digest counts a campaign's events and hashes them, but for the configuration, whose form may change.
func digest(t *testing.T, s *store.Store, campaign string) string {
	t.Helper()
	h := sha256.New()
	n := 0
	for e, err := range s.Events(campaign, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Started != nil {
			e.Started.Config = nil
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(b)
		n++
	}
	return fmt.Sprintf("%d %x", n, h.Sum(nil)[:8])
}

// TestConvert converts a store of each older format, and one whose campaigns have the older form of jobs. The
// evotune of its time wrote each; the last that read them all gave the digests.
func TestConvert(t *testing.T) {
	for _, c := range []struct {
		store    string
		archived string // the campaign in an archive
		want     map[string]string
	}{
		{"1", "", map[string]string{"one": "9 d05fbd7b7c4a0b72", "two": "8 a515573538011034"}},
		{"2", "", map[string]string{"one": "10 2a67316b336c401e", "two": "8 a515573538011034"}},
		{"3", "", map[string]string{"one": "10 2a67316b336c401e", "two": "10 bf542c135e478eba"}},
		{"4", "two", map[string]string{"one": "10 2a67316b336c401e", "two": "10 bf542c135e478eba"}},
		{"5", "two", map[string]string{"one": "11 e8a50ead61a39c2a", "two": "10 bf542c135e478eba"}},
		{"6", "two", map[string]string{"one": "12 4dd36681647e4419", "two": "10 bf542c135e478eba"}},
		{"jobs", "", map[string]string{"mine-40e60627": "11 67e9f4f2d4a53293", "synthetic-1000-18b39d7c": "13 4741052f601c49e6", "mine-sweep-1bca057b": "6 a5983d8570ae74e3"}},
	} {
		t.Run(c.store, func(t *testing.T) {
			from, to := filepath.Join(unpack(t, filepath.Join("testdata", c.store)), "evotune.db"), filepath.Join(t.TempDir(), "new.db")
			before, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			rep, err := convert(t.Context(), from, to)
			if err != nil || !rep.OK() || rep.Campaigns != len(c.want) || (len(rep.Archives) == 1) != (c.archived != "") {
				t.Fatalf("%+v, %v", rep, err)
			}
			if after, err := os.ReadFile(from); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the old store has changed (%v)", err)
			}
			s, err := store.Open(to, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for id, want := range c.want {
				if got := digest(t, s, id); got != want {
					t.Errorf("%s: %s, want %s", id, got, want)
				}
				switch of, err := s.Campaign(id); {
				case err != nil || (of.Archive != "") != (id == c.archived):
					t.Errorf("%s: in the archive %q, %v", id, of.Archive, err)
				case bytes.Contains(of.Started.Config, []byte("extra")) || !bytes.Contains(of.Started.Config, []byte(map[bool]string{true: `"backend":`, false: `"workers":`}[c.store == "jobs"])):
					t.Errorf("%s: the job is %s", id, of.Started.Config)
				}
			}
		})
	}
}

// TestRefused: what cannot be converted leaves nothing behind, and no file is written over.
func TestRefused(t *testing.T) {
	dir := unpack(t, "testdata/4")
	old := filepath.Join(dir, "evotune.db")
	today, another, damaged := filepath.Join(dir, "today.db"), filepath.Join(dir, "another"), filepath.Join(dir, "damaged.db")
	s, err := store.Open(today, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(unpack(t, "testdata/1"), "evotune.db"))
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{another: []byte("text"), damaged: bytes.ReplaceAll(b, []byte("sgemm"), []byte("sgemn"))} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{old, today, "exists: name a new file"},
		{today, "new.db", "has format 7: only formats 1 to 6 are converted"},
		{another, "new.db", "another: invalid database"},
		{damaged, "new.db", "damaged.db: event 0000000000000001: the checksum of a record is wrong: repair the store with the evotune that wrote it"},
	} {
		to := c.to
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		if _, err := convert(t.Context(), c.from, to); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", filepath.Base(c.from), err, c.want)
		}
	}
	if err := os.RemoveAll(old + ".archive"); err != nil {
		t.Fatal(err)
	}
	if _, err := convert(t.Context(), old, filepath.Join(dir, "new.db")); err == nil || !strings.Contains(err.Error(), "2026-11-23.db: open ") {
		t.Errorf("without its archive: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "new.db*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
