package store

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// streamed is the name of the store in the tar of WriteBackup.
const streamed = "evotune.db"

// WriteBackup writes a copy of the store as it is now, and of its archives, as one tar: first
// the archives, evotune.db.archive/NAME, then the store, evotune.db. Campaigns may append
// meanwhile without waiting. WriteBackup checks nothing; [ReadBackup] does, at the other end.
//
// Meanwhile the store's file grows with each append, since freed space is not reused, so a slow
// writer costs disk space.
func (s *Store) WriteBackup(ctx context.Context, w io.Writer) error {
	out := tar.NewWriter(&interruptible{ctx, w})
	err := s.view(func(tx *bolt.Tx) error {
		names, err := archivesOf(s, tx)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := streamFile(out, path.Join(streamed+".archive", name), filepath.Join(archiveFolder(s.path), name)); err != nil {
				return err
			}
		}
		if err := out.WriteHeader(&tar.Header{Name: streamed, Mode: 0o600, Size: tx.Size()}); err != nil {
			return err
		}
		_, err = tx.WriteTo(out)
		return err
	})
	if err == nil {
		err = out.Close()
	}
	return s.wrap(err)
}

func streamFile(out *tar.Writer, name, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it is only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return err
}

// ReadBackup reads what [Store.WriteBackup] writes, and makes the copy at path like
// [Store.Backup]: checked, whole or not at all.
func ReadBackup(ctx context.Context, r io.Reader, path string, replace bool) (Backup, error) {
	b := Backup{Path: path, Archives: []string{}}
	err := install(ctx, &b, replace, nil, func(c *copying) error { return c.read(r) })
	if err != nil {
		var l located
		if !errors.As(err, &l) {
			err = located{fmt.Errorf("backup to %s: %w", path, err)}
		}
		return Backup{}, err
	}
	return b, nil
}

func (c *copying) read(r io.Reader) error {
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: it ends before the store", io.ErrUnexpectedEOF)
		case err != nil:
			return err
		}
		if h.Name == streamed {
			_, err := io.Copy(c, in)
			return err
		}
		name, ok := strings.CutPrefix(h.Name, streamed+".archive/")
		if !ok || name == "" || name == "." || name == ".." || name != filepath.Base(name) {
			return fmt.Errorf("%w: %q is not part of a backup", ErrNotStore, h.Name)
		}
		if err := c.addArchive(name, in, nil); err != nil {
			return err
		}
	}
}
