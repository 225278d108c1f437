package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestMode: what a store has is its user's alone, like a service's state, also in copies and archives.
func TestMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "in")
	if err := syscall.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Open(filepath.Join(dir, "s.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Now().UTC()
	if _, err := s.Append(
		Event{Kind: KindStarted, Campaign: "a", Time: now, Started: &Started{Kernel: "k", Backend: "cpu", Shapes: []string{"s"}}},
		Event{Kind: KindFinished, Campaign: "a", Time: now, Note: &Note{Reason: "done"}},
	); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Archive(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(t.Context(), filepath.Join(dir, "copy.db"), false); err != nil {
		t.Fatal(err)
	}
	n := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		n++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || n < 5 {
		t.Errorf("%d files, %v", n, err)
	}
}

// TestModeOfCopy: a store that others can read, as a plain copy is, is its user's alone
// once it is opened to write. One that a user shares with a group stays so, and reading changes nothing.
func TestModeOfCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	for _, c := range []struct {
		mode, want fs.FileMode
		readOnly   bool
	}{{0o600, 0o600, false}, {0o644, 0o644, true}, {0o644, 0o600, false}, {0o664, 0o600, false}, {0o640, 0o640, false}} {
		s, err := Open(path, Options{})
		if err == nil {
			err = errors.Join(s.Close(), os.Chmod(path, c.mode))
		}
		if err == nil {
			s, err = Open(path, Options{ReadOnly: c.readOnly})
		}
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != c.want {
			t.Errorf("a file of mode %v, opened to read only: %t, has %v, want %v (%v)", c.mode, c.readOnly, info.Mode().Perm(), c.want, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
