package store

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	berrors "go.etcd.io/bbolt/errors"
)

// These errors can be returned when a store is opened. A file that is missing
// or may not be read gives [io/fs.ErrNotExist] or [io/fs.ErrPermission].
var (
	// ErrLocked is returned when another process has the store open and did not
	// release it within Options.Timeout.
	ErrLocked = errors.New("in use by another process")

	// ErrNotStore is returned when the path is not an evotune store: another
	// kind of file, an empty one (when reading only), or a directory.
	ErrNotStore = errors.New("not an evotune store")

	// ErrVersion is returned when the store was written in another version of the format. The message
	// says whether it is an older one, and then what converts it.
	ErrVersion = errors.New("written in another format")
)

// These errors can be returned at any time.
var (
	// ErrCorrupt is returned when the file is damaged. The message says where.
	ErrCorrupt = errors.New("damaged")

	// ErrClosed is returned when a store is used after Close.
	ErrClosed = errors.New("closed")
)

// These errors can be returned by Append.
var (
	// ErrReadOnly is returned when the store was opened for reading only.
	ErrReadOnly = errors.New("opened for reading only")

	// ErrInvalid is returned for events that would make the log inconsistent.
	// None of the events of that call was kept.
	ErrInvalid = errors.New("refused")

	// ErrFull is returned when the disk, the quota or the process's file size
	// limit is reached. None of the events of that call was kept. The
	// store stays readable, and Append may be called again when there is room.
	ErrFull = errors.New("out of space")

	// ErrFailed is returned when an earlier write failed and it is not known what
	// reached the disk. Open the store again.
	ErrFailed = errors.New("an earlier write failed")
)

// These errors can be returned by queries.
var (
	// ErrNotFound is returned when nothing has the given id or prefix.
	ErrNotFound = errors.New("not found")

	// ErrAmbiguous is returned when several ids have the given prefix.
	ErrAmbiguous = errors.New("ambiguous")
)

// corrupt says what is damaged, and where. advise adds what to do.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// otherVersion says that what has another version of the format, and what to do.
func otherVersion(what string, v uint64) error {
	advice := "upgrade evotune"
	if v < formatVersion {
		advice = "convert it with `go run ./scripts/convertstore OLD NEW` in evotune's sources"
	}
	return fmt.Errorf("%w: %s has format %d and this evotune reads %d: %s", ErrVersion, what, v, formatVersion, advice)
}

// wrap adds to an error the store's name and what to do, once.
func (s *Store) wrap(err error) error { return wrapPath(s.path, err) }

// located marks errors that already name their store.
type located struct{ error }

func (l located) Unwrap() error { return l.error }

func wrapPath(path string, err error) error {
	var l located
	if err == nil || errors.As(err, &l) {
		return err
	}
	hint := ""
	switch {
	case errors.Is(err, berrors.ErrDatabaseNotOpen), errors.Is(err, berrors.ErrTxClosed):
		err = ErrClosed
	case errors.Is(err, ErrCorrupt):
		hint = ": run `tune check`"
	case errors.Is(err, ErrFailed):
		hint = ": open the store again"
	}
	return located{fmt.Errorf("store %s: %w%s", path, err, hint)}
}

// Full returns an ErrFull when err, of whatever wrote a file, says that there is no room for more;
// nil otherwise.
func Full(err error) error { return spaceError(err) }

// spaceError returns an ErrFull when err says that there is no room for more,
// else nil.
func spaceError(err error) error {
	for _, no := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		// bbolt formats some of these with %s, so that errors.Is sees nothing.
		if errors.Is(err, no) || err != nil && strings.Contains(err.Error(), no.Error()) {
			return fmt.Errorf("%w (%w): nothing of this was kept, all that was there is safe: free some space and try again", ErrFull, no)
		}
	}
	return nil
}

// writeError classifies the error of a failed commit. sticky says that what reached the
// disk is unknown: after a failed sync the kernel may have dropped the pages
// and report success the next time.
func writeError(err error) (_ error, sticky bool) {
	full := spaceError(err)
	if full == nil {
		return fmt.Errorf("write failed, the events of this call may be lost, all earlier ones are safe: %w", err), true
	}
	// A failed write or resize left the last state in force; a bare errno comes
	// from the sync.
	_, sync := err.(syscall.Errno) //nolint:errorlint // wrapped ones are not meant
	return full, sync
}
