package report

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files are the contents of a folder by slash-separated path.
type Files map[string][]byte

// sumsFile lists the SHA-256 of every other file, for `sha256sum -c`.
const sumsFile = "SHA256SUMS"

// Seal adds SHA256SUMS, by which [Write] knows its own folders.
func (f Files) Seal() {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if name != sumsFile {
			fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(f[name]), name)
		}
	}
	f[sumsFile] = []byte(b.String())
}

// A RefusedError is the error of Write for a name that is taken.
type RefusedError struct {
	Dir string
	Why string // goes on after the name, and says what to do
}

func (e *RefusedError) Error() string { return e.Dir + " " + e.Why }

// Write writes a folder. It is made beside its final name and renamed when it
// is whole and synced, so that an interruption leaves nothing under that name
// (but may leave a folder "NAME.partial-*", which can be deleted).
//
// A folder that is there and not empty is refused with a *RefusedError, unless
// force is set. Then it is replaced: moved aside, and deleted when the new one
// is in place. Only a folder that Write has written is replaced.
func Write(dir string, files Files, force bool) (err error) {
	dir = filepath.Clean(dir)
	exists, err := replaceable(dir, force)
	if err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(parent, filepath.Base(dir)+".partial-"+rand.Text()[:10])
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // nothing is there once it was renamed
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("the file name %q leads out of the folder", name)
		}
		if err := writeFile(filepath.Join(tmp, filepath.FromSlash(name)), files[name]); err != nil {
			return err
		}
	}
	old := ""
	if exists {
		old = tmp + ".old"
		if err := os.Rename(dir, old); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, dir); err != nil {
		if old != "" {
			err = errors.Join(err, os.Rename(old, dir))
		}
		return err
	}
	if old != "" {
		return os.RemoveAll(old)
	}
	return nil
}

// replaceable says whether dir is there, and refuses what must not be
// replaced.
func replaceable(dir string, force bool) (exists bool, err error) {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, &RefusedError{dir, "is there and is not a folder: choose another name"}
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return false, err
	case len(entries) == 0:
		return true, nil
	case !force:
		return false, &RefusedError{dir, "is there and is not empty: choose another name, or replace it with --force"}
	case !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == sumsFile }):
		return false, &RefusedError{dir, "was not written by this command (it has no " + sumsFile + "): choose another name, or empty it yourself"}
	}
	return true, nil
}

func writeFile(name string, content []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}
