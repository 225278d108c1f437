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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
)

// TestBackup copies a store while a campaign appends, in the middle of the copy.
func TestBackup(t *testing.T) {
	s := mustCreate(t)
	names := woven(t, s, 3, 60)
	mustArchive(t, s, names[0])
	want := answersOf(t, s)
	file := filepath.Join(t.TempDir(), "copy.db")
	// The copy is made in the goroutine that appends: if it held Append back, or
	// made it wait for a larger map, this would not end.
	n := 60
	h := &hooked{t.Context(), 0, nil}
	h.n, h.do = 5, func() {
		for range 100 {
			id := fmt.Sprintf("x%07d", n)
			e := told(names[2], n, id, 0.5)
			e.Told.Detail = fmt.Appendf(nil, `"%x"`, noise(int64(n), 8000))
			mustAppend(t, s, asked(names[2], n, id), e)
			n++
		}
	}
	small := s.bytes(t)
	b, err := s.Backup(h, file, false)
	if err != nil || h.n > 0 {
		t.Fatalf("%v, asked %d times less", err, h.n)
	}
	if large := s.bytes(t); large < 2*small {
		t.Fatalf("the file only grew from %d to %d bytes", small, large)
	}
	if b.Path != file || b.Report.Path != file || !b.Report.OK() || len(b.Archives) != 1 || filepath.Dir(b.Archives[0]) != file+".archive" {
		t.Errorf("backup: %+v", b)
	}
	c := mustOpen(t, file, Options{})
	mustAnswer(t, c, want)
	// It is a store like any other.
	mustAppend(t, c, note(names[2], KindFinished, "evaluations"))
	mustArchive(t, c, names[2])
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Dir(file) + "/*backup-*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// Again, in its place; archives that are there are not copied again.
	before, err := os.Stat(b.Archives[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(t.Context(), file, true); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(b.Archives[0])
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("an archive that was there was copied again, %v", err)
	}
	last, err := s.Last()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := mustOpen(t, file, Options{ReadOnly: true}).Last(); err != nil || got != last || last != want.Last+200 {
		t.Errorf("the last event of the copy is %d of %d, %v", got, last, err)
	}
}

func (s *Store) bytes(t *testing.T) int64 {
	t.Helper()
	info, err := s.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestBackupRefused(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	path := in("evotune.db")
	s := mustOpen(t, path, Options{})
	names := woven(t, s, 2, 20)
	a := mustArchive(t, s, names[0])
	write := func(name, text string) string {
		if err := os.WriteFile(in(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	held := mustOpen(t, in("held.db"), Options{})
	smallStore(t, held)
	other := storeOf(t, in("other.db"), started("one"))
	if err := os.Mkdir(other+".archive", 0o755); err != nil {
		t.Fatal(err)
	}
	write("other.db.archive/"+filepath.Base(a.Path), "another archive")
	if err := os.Symlink("evotune.db", in("link.db")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		replace    bool
		want       error
		says       string
	}{
		{"a store", other, false, ErrExists, "exists already"},
		{"another file", write("text.txt", "precious"), true, ErrExists, "only a store is replaced"},
		{"a folder", dir, true, ErrExists, "only a store is replaced"},
		{"the store", path, true, ErrExists, "it is the store itself"},
		{"a link to it", in("link.db"), true, ErrExists, "it is the store itself"},
		{"a store in use", in("held.db"), true, ErrLocked, "in use"},
		{"no folder", in("none/copy.db"), false, fs.ErrNotExist, "its directory is missing"},
	} {
		_, err := s.Backup(t.Context(), c.file, c.replace)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Backup(ctx, in("new.db"), false); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	for n := 1; ; n++ { // interrupted everywhere
		_, err := s.Backup(&fuse{t.Context(), n}, in("new.db"), false)
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) || n > 10000 {
			t.Fatalf("interrupted after %d: %v", n, err)
		}
		if left, _ := filepath.Glob(in("new.db*")); len(left) > 0 {
			t.Fatalf("interrupted after %d: left behind %v", n, left)
		}
	}
	// Another archive of the same name is replaced with the store that it belonged to.
	if _, err := s.Backup(t.Context(), other, true); err != nil {
		t.Fatal(err)
	}
	mustBeSound(t, other)
	// So is half a copy, and one that a newer evotune has made.
	if err := os.Truncate(other, 8<<10); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(t.Context(), other, true); err != nil {
		t.Errorf("over half a copy: %v", err)
	}
	edit(t, other, func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keyFormat, binary.AppendUvarint(nil, formatVersion+1))
	})
	if _, err := s.Backup(t.Context(), other, true); err != nil {
		t.Errorf("over a newer copy: %v", err)
	}
	if b, err := os.ReadFile(in("text.txt")); err != nil || string(b) != "precious" {
		t.Errorf("the other file has %q, %v", b, err)
	}
	if left, _ := filepath.Glob(in("*backup-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What cannot be read is not copied as if it could.
func TestBackupOfDamage(t *testing.T) {
	dir := t.TempDir()
	path := storeOf(t, filepath.Join(dir, "evotune.db"), started("one"), asked("one", 0, "aaaa0001"), told("one", 0, "aaaa0001", 0.5))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte("MR=0"), []byte("MR=9")), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Backup(t.Context(), filepath.Join(dir, "copy.db"), false); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged store: %v", err)
	}
	var names []string
	all, err := os.ReadDir(dir)
	for _, e := range all {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"evotune.db"}, names); err != nil || diff != "" {
		t.Errorf("%v left behind:\n%s", err, diff)
	}
}
