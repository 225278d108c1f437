package draft_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/kernels"
)

func TestNew(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "my-kernel")
	if err := draft.New(dir, "my-kernel", "cpu"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the folder there is something else: %v, %v", entries, err)
	}
	cat, err := kernels.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := cat.Get("my-kernel")
	if err != nil {
		t.Fatal(err)
	}
	if d.Implementations[0].Entry != "run_my_kernel" {
		t.Errorf("entry %s", d.Implementations[0].Entry)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode of the folder: %v, %v", info.Mode(), err)
	}

	// What is there stays as it is, whatever it is.
	note := filepath.Join(dir, "kernel.toml")
	if err := os.WriteFile(note, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{dir, note} {
		err := draft.New(taken, "my-kernel", "cpu")
		if want := taken + " is already there: choose another name, or remove it: file already exists"; !errors.Is(err, fs.ErrExist) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if text, err := os.ReadFile(note); err != nil || string(text) != "mine" {
		t.Errorf("overwritten: %q, %v", text, err)
	}
	for _, name := range []string{"", "My Kernel", "a/b", "../x", ".hidden"} {
		if err := draft.New(filepath.Join(parent, "other"), name, "cpu"); err == nil {
			t.Errorf("the name %q is accepted", name)
		}
	}
	err = draft.New(filepath.Join(parent, "none", "x"), "x", "cpu")
	if want := "x cannot be made in " + filepath.Join(parent, "none") + ": no such file or directory"; err == nil || err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
