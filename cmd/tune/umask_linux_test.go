package main

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/internal/report"
)

// TestUmask: what commands write has the mode that the user's umask leaves.
func TestUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := t.TempDir()
	tune(t, 0, "space", "import", "../../internal/tables/testdata/synthetic.json", "--out", filepath.Join(dir, "space.json"))
	if err := draft.New(filepath.Join(dir, "mine"), "mine", "cpu"); err != nil {
		t.Fatal(err)
	}
	if err := report.Write(filepath.Join(dir, "report"), report.Files{"index.html": nil, "more/data.json": nil}, false); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		n++
		want := fs.FileMode(0o640)
		if e.IsDir() {
			want = 0o750
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, expected %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || n < 7 {
		t.Errorf("%d files, %v", n, err)
	}
}
