package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// ErrExists is returned by Backup when there is something where the copy should be.
var ErrExists = errors.New("exists already")

// A Backup says what Store.Backup wrote.
type Backup struct {
	Path string `json:"path"`
	// Archives are the files of archives that belong to the copy.
	Archives []string `json:"archives"`
	// Report is that of Check on the copy.
	Report Report `json:"report"`
}

// Backup writes a copy of the store as it is now to path, and its archives beside that.
// Campaigns may append meanwhile and wait for nothing; what they append is not in the
// copy. The copy is written beside its place, synced and checked, and takes its place
// in one step: there is a whole copy or none, also when the context ends, the disk is full or
// the process is killed. Killed, it leaves files "PATH.backup-*", which can be deleted.
//
// A path that exists gives ErrExists; replace allows it if it is a store that
// nobody has open. The file grows meanwhile by what is appended and not used again.
func (s *Store) Backup(ctx context.Context, path string, replace bool) (Backup, error) {
	b := Backup{Path: path, Archives: []string{}}
	err := s.backup(ctx, &b, replace)
	if err != nil {
		var l located
		if !errors.As(err, &l) {
			err = located{fmt.Errorf("backup of %s to %s: %w", s.path, path, err)}
		}
		return Backup{}, err
	}
	return b, nil
}

func (s *Store) backup(ctx context.Context, b *Backup, replace bool) (err error) {
	target := b.Path
	if _, err := os.Lstat(target); err == nil {
		if !replace {
			return ErrExists
		}
		old, err := s.replaceable(target)
		if err != nil {
			return err
		}
		defer old.Close()                                            //nolint:errcheck // it is only locked
		if target, err = filepath.EvalSymlinks(target); err != nil { // a link stays a link
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var made []string // archives, which nobody reads before the copy is in place
	defer func() {
		if err != nil {
			for _, name := range made {
				_ = os.Remove(name)
			}
			_ = os.Remove(archiveFolder(target)) // if it is empty
		}
	}()
	w, err := newReplacement(target, ".backup-", s.file)
	if err != nil {
		return err
	}
	defer w.discard()
	var names []string
	if err := s.view(func(tx *bolt.Tx) error {
		r := newReader(s, tx)
		list, err := r.moved()
		if err != nil {
			return err
		}
		for _, m := range list.all {
			if !slices.Contains(names, m.name) {
				names = append(names, m.name)
			}
		}
		_, err = tx.WriteTo(&interruptible{ctx, w})
		return err
	}); err != nil {
		return cmp.Or(ctx.Err(), spaceError(err), err)
	}
	if err := w.seal(); err != nil {
		return err
	}
	rep, err := checkAlone(w.name, Options{})
	if err == nil {
		err = rep.Err()
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		to := filepath.Join(archiveFolder(target), name)
		fresh, err := copyArchive(ctx, filepath.Join(archiveFolder(s.path), name), to, replace)
		if fresh {
			made = append(made, to)
		}
		if err != nil {
			return err
		}
		b.Archives = append(b.Archives, to)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.place(replace); err != nil {
		return err
	}
	b.Report, b.Report.Path = rep, b.Path
	return nil
}

// replaceable locks the store that a backup will replace.
func (s *Store) replaceable(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mine, err := s.file.Stat(); err == nil && os.SameFile(mine, info) {
		return nil, fmt.Errorf("%w: it is the store itself: choose another name", ErrExists)
	}
	f, err := openLocked(path, Options{MustExist: true})
	if err == nil {
		if info, err = f.Stat(); err == nil {
			_, err = openPager(f, info.Size())
		}
	}
	switch {
	case errors.Is(err, ErrNotStore):
		err = fmt.Errorf("%w: only a store is replaced: choose another name: %w", ErrExists, err)
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrVersion):
		err = nil // half a copy, or one for another evotune
	}
	if err != nil && f != nil {
		_ = f.Close()
	}
	return f, err
}

// copyArchive copies a file that never changes, unless it is there. It says whether
// it made the copy.
func copyArchive(ctx context.Context, from, to string, replace bool) (fresh bool, err error) {
	in, err := os.Open(from)
	if err != nil {
		return false, err
	}
	defer in.Close() //nolint:errcheck // it is only read
	if there, err := os.Open(to); err == nil {
		same, err := sameContent(&interruptible{ctx, nil}, in, there)
		_ = there.Close()
		switch {
		case err != nil:
			return false, err
		case same:
			return false, nil
		case !replace:
			return false, fmt.Errorf("%w: %s is another archive than that of the store: choose another name", ErrExists, to)
		}
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return false, err
		}
	}
	if err := makeFolder(filepath.Dir(to)); err != nil {
		return false, err
	}
	w, err := newReplacement(to, ".backup-", in)
	if err != nil {
		return false, err
	}
	defer w.discard()
	if _, err := io.Copy(&interruptible{ctx, w}, in); err != nil {
		return false, cmp.Or(ctx.Err(), spaceError(err), err)
	}
	if err := w.seal(); err != nil {
		return false, err
	}
	rep, err := checkAlone(w.name, Options{})
	if err == nil {
		err = rep.Err()
	}
	if err != nil {
		return false, err
	}
	_, before := os.Stat(to)
	if err := w.place(replace); err != nil {
		return false, err
	}
	return errors.Is(before, fs.ErrNotExist), nil
}

func sameContent(stop *interruptible, a, b io.Reader) (bool, error) {
	var x, y [64 << 10]byte
	for {
		if err := stop.ctx.Err(); err != nil {
			return false, err
		}
		n, err := io.ReadFull(a, x[:])
		m, err2 := io.ReadFull(b, y[:])
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if ended2 := errors.Is(err2, io.EOF) || errors.Is(err2, io.ErrUnexpectedEOF); ended && ended2 {
			return true, nil
		}
		if err := cmp.Or(err, err2); err != nil {
			return false, err
		}
	}
}

// interruptible is a writer that fails when a context has ended.
type interruptible struct {
	ctx context.Context //nolint:containedctx // of one copy
	w   io.Writer
}

func (i *interruptible) Write(b []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.w.Write(b)
}

// A replacement is a file that is written beside its place.
type replacement struct {
	*os.File
	name, target string
	placed       bool
}

// newReplacement creates one with the permissions of the file like.
func newReplacement(target, infix string, like *os.File) (*replacement, error) {
	name := target + infix + rand.Text()[:10]
	f, err := openRegular(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	w := &replacement{f, name, target, false}
	info, err := like.Stat()
	if err == nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err != nil {
		w.discard()
		return nil, err
	}
	return w, nil
}

// seal makes what was written durable and closes the file.
func (w *replacement) seal() error {
	err := w.Sync()
	if err := cmp.Or(err, w.Close()); err != nil {
		return cmp.Or(spaceError(err), fmt.Errorf("the new file cannot be written: %w", err))
	}
	return nil
}

// place puts the sealed file in its place.
func (w *replacement) place(replace bool) error {
	if err := placeFile(w.name, w.target, replace); err != nil {
		return err
	}
	w.placed = true
	return syncDir(filepath.Dir(w.target))
}

// placeFile gives a file its name, and takes it from another one only to replace it.
func placeFile(name, target string, replace bool) error {
	var err error
	if replace {
		err = os.Rename(name, target)
	} else {
		if err = os.Link(name, target); err == nil { // a file that came meanwhile stays
			return os.Remove(name)
		}
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %s came meanwhile", ErrExists, target)
		}
		err = os.Rename(name, target) // not every file system has links
	}
	if err != nil {
		return fmt.Errorf("the new file cannot be put in place: %w", err)
	}
	return nil
}

func (w *replacement) discard() {
	_ = w.Close() // it may be closed already
	if !w.placed {
		_ = os.Remove(w.name)
	}
}

// makeFolder makes a folder, durably, if it is not there.
func makeFolder(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return cmp.Or(spaceError(err), fmt.Errorf("the folder of the archives cannot be made: %w", err))
	}
	return syncDir(filepath.Dir(dir))
}
