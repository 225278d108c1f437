package store

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

var newFormat = flag.Bool("store.newformat", false, "write testdata/formats of the newest version, which must not be there yet")

// formatted writes what the files in testdata/formats have, as that version of the
// format has it.
func formatted(t *testing.T, path string, version int) *Store {
	t.Helper()
	s := mustOpen(t, path, Options{})
	smallStore(t, s)
	if version > 1 {
		mustAppend(t, s, measured("one", 3, "dddd0001", 0.5))
	}
	if version > 2 {
		mustAppend(t, s, attempt("two", 2, "aaaa0002", ""), attempt("two", 2, "aaaa0002", "evotune ended"))
	}
	if version > 3 {
		mustArchive(t, s, "two")
	}
	if version > 4 {
		mustAppend(t, s, elsewhere("one", 3, "dddd0001"))
	}
	if version > 5 {
		e := finals("one", "aaaa0001")
		e.Finals.Slower, e.Finals.Unproven = 0.25, "not proven"
		mustAppend(t, s, e)
	}
	return s
}

// TestFormats opens files of each version of the format, which the evotune of that
// time wrote. Files that exist are never written anew: they are what users have.
func TestFormats(t *testing.T) {
	if *newFormat {
		writeFormat(t, fmt.Sprintf("testdata/formats/%d", formatVersion))
	}
	for version := 1; version <= formatVersion; version++ {
		path := unpackFormat(t, fmt.Sprintf("testdata/formats/%d", version))
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := answersOf(t, formatted(t, filepath.Join(t.TempDir(), "fresh.db"), version))
		// A reader answers, and changes nothing.
		s, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		mustAnswer(t, s, want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if rep := mustBeSound(t, path); rep.Format != version || (len(rep.Archives) > 0) != (version > 3) {
			t.Errorf("version %d is read as %d with %d archives", version, rep.Format, len(rep.Archives))
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(old, now) {
			t.Errorf("version %d: a reader changed the file, %v", version, err)
		}
		// A writer goes on with it, in its format as long as that has what is written.
		if s, err = Open(path, Options{}); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, s, note("one", KindFinished, "evaluations"))
		if got := storedFormat(t, s); got != uint64(version) {
			t.Errorf("version %d became %d", version, got)
		}
		want = answersOf(t, s)
		mustArchive(t, s, "one")
		if got := storedFormat(t, s); got != max(formatArchives, uint64(version)) {
			t.Errorf("version %d with an archive is %d", version, got)
		}
		mustAnswer(t, s, want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if rep, err := Repair(path, Options{}); err != nil || !rep.OK() {
			t.Errorf("version %d: repair: %+v, %v", version, rep, err)
		}
		mustAnswer(t, mustOpen(t, path, Options{ReadOnly: true}), want)
	}
}

// A file of a newer version is refused in one line that says both and what to do.
func TestNewerFormat(t *testing.T) {
	path := storeOf(t, filepath.Join(t.TempDir(), "evotune.db"), started("one"))
	edit(t, path, func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyFormat, []byte{formatVersion + 3}) })
	want := fmt.Sprintf("store %s: written in a newer format than this evotune knows: it has format %d, this evotune knows those up to %d: upgrade evotune",
		path, formatVersion+3, formatVersion)
	_, writing := Open(path, Options{})
	_, reading := Open(path, Options{ReadOnly: true})
	_, checked := Check(path, Options{})
	_, repaired := Repair(path, Options{})
	for _, err := range []error{writing, reading, checked, repaired} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func writeFormat(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); err == nil {
		t.Fatalf("%s is there: files of a version are written once, by the first evotune that has it", dir)
	}
	from := t.TempDir()
	s := formatted(t, filepath.Join(from, "evotune.db"), formatVersion)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err == nil {
			_, err = z.Write(b)
		}
		if err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, from)+".gz")
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, packed.Bytes(), 0o644)
	}); err != nil {
		t.Fatal(err)
	}
}

// unpackFormat unpacks the store in a folder, with its archives.
func unpackFormat(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(z)
		if err != nil {
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
	return filepath.Join(to, "evotune.db")
}
