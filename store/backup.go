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

// ErrExists is returned by Backup when the path of the copy exists.
var ErrExists = errors.New("exists already")

// A Backup says what Store.Backup wrote.
type Backup struct {
	Path string `json:"path"`
	// Archives are the archive files of the copy.
	Archives []string `json:"archives"`
	// Report is the result of Check on the copy.
	Report Report `json:"report"`
}

// Backup writes a copy of the store as it is now to path, and its archives beside it.
// Campaigns may append meanwhile without waiting; what they append is not in the copy. The
// copy is written beside path, synced and checked, and moved to path in one step: there is a
// whole copy or none, even when the context ends, the disk is full or the process is killed.
// A killed Backup leaves files "PATH.backup-*", which can be deleted.
//
// A path that exists gives ErrExists; replace allows it if it is a store that
// no process has open. During the backup the store's file grows with each append, since
// freed space is not reused.
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

func (s *Store) backup(ctx context.Context, b *Backup, replace bool) error {
	return install(ctx, b, replace, s.file, func(c *copying) error {
		var names []string
		if err := s.view(func(tx *bolt.Tx) (err error) {
			if names, err = archivesOf(s, tx); err == nil {
				_, err = tx.WriteTo(c)
			}
			return err
		}); err != nil {
			return err
		}
		for _, name := range names {
			if err := c.copyArchive(filepath.Join(archiveFolder(s.path), name), name); err != nil {
				return err
			}
		}
		return nil
	})
}

// archivesOf lists the archive files of a store.
func archivesOf(s *Store, tx *bolt.Tx) (names []string, err error) {
	list, err := newReader(s, tx).moved()
	if err != nil {
		return nil, err
	}
	for _, m := range list.all {
		if !slices.Contains(names, m.name) {
			names = append(names, m.name)
		}
	}
	return names, nil
}

// A copying is a copy of a store on its way to its place.
type copying struct {
	*interruptible // writes the store
	target         string
	replace        bool
	names          []string // of its archives
	made           []string // archives that are new: nothing reads them before the store is in place
}

// install makes a copy of a store. fill writes the store and adds its archives. Like is the
// store that is copied; nil if it is not on this machine.
func install(ctx context.Context, b *Backup, replace bool, like *os.File, fill func(*copying) error) (err error) {
	target := b.Path
	if _, err := os.Lstat(target); err == nil {
		if !replace {
			return ErrExists
		}
		old, err := replaceable(target, like)
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
	w, err := newReplacement(target, ".backup-", like)
	if err != nil {
		return err
	}
	defer w.discard()
	c := &copying{interruptible: &interruptible{ctx, w}, target: target, replace: replace}
	defer func() {
		if err != nil {
			for _, name := range c.made {
				_ = os.Remove(name)
			}
			_ = os.Remove(archiveFolder(target)) // if it is empty
		}
	}()
	if err := fill(c); err != nil {
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
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.place(replace); err != nil {
		return err
	}
	for _, name := range c.names {
		b.Archives = append(b.Archives, filepath.Join(archiveFolder(target), name))
	}
	b.Report, b.Report.Path = rep, b.Path
	return nil
}

// replaceable locks the store that a backup will replace.
func replaceable(path string, like *os.File) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if like != nil {
		if mine, err := like.Stat(); err == nil && os.SameFile(mine, info) {
			return nil, fmt.Errorf("%w: it is the store itself: choose another name", ErrExists)
		}
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
		err = nil // a partial copy, or one for another evotune version
	}
	if err != nil && f != nil {
		_ = f.Close()
	}
	return f, err
}

// copyArchive adds an archive from this machine, unless the copy has it.
func (c *copying) copyArchive(from, name string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it is only read
	to := filepath.Join(archiveFolder(c.target), name)
	if same, err := c.same(in, to); same || err != nil {
		c.names = append(c.names, name)
		return err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return c.addArchive(name, in, in)
}

// same says whether the file at to has the content of an archive.
func (c *copying) same(in io.Reader, to string) (bool, error) {
	there, err := os.Open(to)
	if err != nil {
		return false, nil //nolint:nilerr // writing it will report the error
	}
	same, err := sameContent(c.interruptible, in, there)
	_ = there.Close()
	if err == nil && !same && !c.replace {
		err = fmt.Errorf("%w: %s is another archive than that of the store: choose another name", ErrExists, to)
	}
	return same, err
}

// addArchive adds an archive, which never changes, unless it is there already.
func (c *copying) addArchive(name string, in io.Reader, like *os.File) error {
	to := filepath.Join(archiveFolder(c.target), name)
	if err := makeFolder(filepath.Dir(to)); err != nil {
		return err
	}
	w, err := newReplacement(to, ".backup-", like)
	if err != nil {
		return err
	}
	defer w.discard()
	if _, err := io.Copy(&interruptible{c.ctx, w}, in); err != nil {
		return err
	}
	_, before := os.Stat(to)
	if before == nil && like == nil { // only now is it known to be there
		if _, err := w.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if same, err := c.same(w, to); same || err != nil {
			c.names = append(c.names, name)
			return err
		}
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
	if err := w.place(c.replace); err != nil {
		return err
	}
	if c.names = append(c.names, name); errors.Is(before, fs.ErrNotExist) {
		c.made = append(c.made, to)
	}
	return nil
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

// A replacement is a file that is written beside its target.
type replacement struct {
	*os.File
	name, target string
	placed       bool
}

// newReplacement creates a replacement with the permissions of the file like, if that
// is not nil.
func newReplacement(target, infix string, like *os.File) (*replacement, error) {
	name := target + infix + rand.Text()[:10]
	f, err := openRegular(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	w := &replacement{f, name, target, false}
	if like == nil {
		return w, nil
	}
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

// place moves the sealed file to its target.
func (w *replacement) place(replace bool) error {
	if err := placeFile(w.name, w.target, replace); err != nil {
		return err
	}
	w.placed = true
	return syncDir(filepath.Dir(w.target))
}

// placeFile renames a file to target; an existing target is only replaced if replace is
// set.
func placeFile(name, target string, replace bool) error {
	var err error
	if replace {
		err = os.Rename(name, target)
	} else {
		if err = os.Link(name, target); err == nil { // a file that appeared meanwhile stays
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
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return cmp.Or(spaceError(err), fmt.Errorf("the folder of the archives cannot be made: %w", err))
	}
	return syncDir(filepath.Dir(dir))
}
