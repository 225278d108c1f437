package store

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"
)

// TestStreamedBackup: what WriteBackup writes is a copy like that of Backup, and no part of it
// is one.
func TestStreamedBackup(t *testing.T) {
	s := mustCreate(t)
	names := woven(t, s, 3, 30)
	mustArchive(t, s, names[0])
	want := answersOf(t, s)
	var whole bytes.Buffer
	if err := s.WriteBackup(t.Context(), &whole); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "copy.db")
	b, err := ReadBackup(t.Context(), bytes.NewReader(whole.Bytes()), file, false)
	if err != nil {
		t.Fatal(err)
	}
	if b.Path != file || !b.Report.OK() || len(b.Archives) != 1 || filepath.Dir(b.Archives[0]) != file+".archive" {
		t.Errorf("backup: %+v", b)
	}
	c := mustOpen(t, file, Options{ReadOnly: true})
	mustAnswer(t, c, want)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadBackup(t.Context(), bytes.NewReader(whole.Bytes()), file, false); !errors.Is(err, ErrExists) {
		t.Errorf("over a store: %v", err)
	}
	if _, err := ReadBackup(t.Context(), bytes.NewReader(whole.Bytes()), file, true); err != nil {
		t.Errorf("in place of it: %v", err)
	}
	for n := 0; n < whole.Len()-1024; n += 1500 { // the last two blocks of 512 bytes are the end
		_, err := ReadBackup(t.Context(), bytes.NewReader(whole.Bytes()[:n]), filepath.Join(dir, "part.db"), false)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v", n, whole.Len(), err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "part.db*")); len(left) > 0 {
			t.Fatalf("%d of %d bytes leave %v", n, whole.Len(), left)
		}
	}
	// What is damaged on the way is found.
	damaged := bytes.ReplaceAll(whole.Bytes(), []byte(names[1]), bytes.Repeat([]byte("x"), len(names[1])))
	if _, err := ReadBackup(t.Context(), bytes.NewReader(damaged), filepath.Join(dir, "bad.db"), false); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
	for _, name := range []string{"other.db", "evotune.db.archive/../x.db", "evotune.db.archive/", "/evotune.db"} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o600}), w.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadBackup(t.Context(), &b, filepath.Join(dir, "bad.db"), false); !errors.Is(err, ErrNotStore) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "bad*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
