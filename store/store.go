package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// formatVersion is the version of the file, and of each of its records: which buckets there are, what
// their keys mean, and which fields records have. A file of another version is refused. Stores that were
// written before the first release have versions up to 6, which scripts/convertstore reads.
const formatVersion = 7

// The keys of the meta bucket.
var (
	keyFormat = []byte("format")
	// keyLast has the largest Seq when the newest campaign was archived, as a uvarint:
	// numbers are never assigned twice.
	keyLast = []byte("last")
	// keyArchive has the name of the store that an archive belongs to.
	keyArchive = []byte("archive")
)

// Options say how a store is opened. The zero value opens it for writing and
// creates it when it is missing.
type Options struct {
	// ReadOnly opens the store for queries only. Several processes can do so at once,
	// as long as none writes. A missing file is an error.
	ReadOnly bool

	// MustExist makes a missing file an error when writing, too.
	MustExist bool

	// Timeout is how long to wait for another process to release the store
	// before ErrLocked. Zero means half a second; negative means no waiting.
	Timeout time.Duration
}

const defaultTimeout = 500 * time.Millisecond

func (o Options) timeout() time.Duration {
	switch {
	case o.Timeout == 0:
		return defaultTimeout
	case o.Timeout < 0:
		return 0
	}
	return o.Timeout
}

// A Store is an open store file. It is safe for concurrent use.
type Store struct {
	path     string
	readOnly bool
	file     *os.File // the one that bbolt has open
	db       *bolt.DB

	failure   atomic.Pointer[error] // why nothing more can be written, or nil
	abandoned atomic.Bool           // bbolt panicked in a write: its write lock may be held forever
	blind     atomic.Bool           // its other locks may be held, too

	touched atomic.Int64 // records read since the last trim

	moved     atomic.Pointer[movedList] // the newest list that was read
	archiveMu sync.Mutex                // held while campaigns are archived
	openMu    sync.Mutex
	archives  map[string]*Store // opened so far, guarded by openMu; nil after Close
	observer  atomic.Pointer[func(commit time.Duration)]

	commitMu sync.Mutex // held while committing, checking or closing
	closed   bool       // guarded by commitMu

	queueMu sync.Mutex
	queue   []*request // of Append, waiting for a commit
}

// Open opens a store, or creates it. See the errors of this package, and
// [io/fs.ErrNotExist] and [io/fs.ErrPermission].
//
// Open checks those parts of the file that lead to the rest; damage elsewhere is
// found when it is read, and by Check.
func Open(path string, o Options) (*Store, error) {
	s, err := open(path, o)
	if err != nil {
		return nil, wrapPath(path, err)
	}
	return s, nil
}

func open(path string, o Options) (*Store, error) {
	f, err := openLocked(path, o)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	s, err := openFile(path, f, o.ReadOnly)
	if err != nil {
		if info.Size() == 0 && !o.ReadOnly {
			// If the disk is full, a partly initialized file would not open again. The
			// lock may be gone with the file, but no store is open here yet.
			_ = os.Truncate(path, 0)
		}
		_ = abandon(f) // unless bbolt has closed it
		return nil, err
	}
	return s, nil
}

// abandon closes a file that bbolt may have mapped without unmapping it.
func abandon(f *os.File) error {
	if _, err := f.Stat(); err == nil {
		unlock(f)
	}
	return f.Close()
}

// openLocked opens the file and takes the lock.
func openLocked(path string, o Options) (*os.File, error) {
	flag := os.O_RDWR
	switch {
	case o.ReadOnly:
		flag = os.O_RDONLY
	case !o.MustExist:
		flag |= os.O_CREATE
	}
	for {
		f, err := openRegular(path, flag)
		if err != nil {
			return nil, err
		}
		if err := lock(f, o.ReadOnly, o.timeout()); err != nil {
			_ = f.Close()
			if errors.Is(err, ErrLocked) {
				return nil, lockedError(o.ReadOnly)
			}
			return nil, fmt.Errorf("cannot be locked: %w", err)
		}
		// While this process waited, Repair may have replaced the file.
		mine, err := f.Stat()
		if err == nil {
			var now fs.FileInfo
			if now, err = os.Stat(path); err == nil && os.SameFile(mine, now) {
				// A copy may have been made as the umask said. Where another user owns it, it stays.
				if !o.ReadOnly && mine.Mode().Perm()&0o007 != 0 {
					_ = f.Chmod(0o600)
				}
				return f, nil
			}
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

func lockedError(reading bool) error {
	if reading {
		return fmt.Errorf("%w that writes it: ask the running campaign, or wait until it ends", ErrLocked)
	}
	return fmt.Errorf("%w: one process at a time can write: wait until it ends, or choose another store", ErrLocked)
}

func openRegular(path string, flag int) (*os.File, error) {
	// Use Stat to detect a directory or a pipe: opening one may fail with another
	// error, or hang.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return nil, fmt.Errorf("%w: it is a directory", ErrNotStore)
		}
		return nil, fmt.Errorf("%w: it is not a regular file", ErrNotStore)
	}
	f, err := os.OpenFile(path, flag, 0o600) // as the service's state beside it
	if err == nil {
		return f, nil
	}
	reason := err
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		reason = pe.Err // the path is named already
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
		return nil, fmt.Errorf("cannot be created: its directory is missing: %w", reason)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no store: start a campaign, or name another: %w", reason)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("cannot be opened: change its permissions or choose another: %w", reason)
	}
	if full := spaceError(err); full != nil {
		return nil, full
	}
	return nil, fmt.Errorf("cannot be opened: %w", reason)
}

// openFile opens the locked file f.
func openFile(path string, f *os.File, readOnly bool) (*Store, error) {
	s := &Store{path: path, readOnly: readOnly, file: f}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > 0 || readOnly {
		p, err := openPager(f, info.Size())
		if err != nil {
			return nil, err
		}
		if err := inspectOpening(p); err != nil {
			return nil, err
		}
	}
	if err := s.openBolt(); err != nil {
		return nil, err
	}
	if err := s.openBuckets(); err != nil {
		_ = s.shut()
		return nil, err
	}
	return s, nil
}

// inspectOpening refuses a file that would make bbolt crash.
func inspectOpening(p *pager) error {
	var first error
	n := 0
	trees := p.inspect(false, func(_ string, err error) {
		first = cmp.Or(first, err)
		n++
	})
	if first != nil {
		if n > 1 {
			return fmt.Errorf("%w (and %d more)", first, n-1)
		}
		return first
	}
	for _, t := range trees {
		if t.name == string(bucketMeta) {
			return nil
		}
	}
	if len(trees) > 0 {
		return fmt.Errorf("%w: another program's bbolt file", ErrNotStore)
	}
	return nil // created, but without a first transaction
}

func (s *Store) openBolt() error {
	_, err := guard(func() (err error) {
		size, err := s.mapSize()
		if err != nil {
			return err
		}
		s.db, err = bolt.Open(s.path, 0o600, &bolt.Options{
			InitialMmapSize: size,
			// The lock is held already; other systems wait here.
			Timeout:  defaultTimeout,
			ReadOnly: s.readOnly,
			// The free list is written with every commit, in order. The array is kept
			// in order; the map would be sorted each time.
			FreelistType: bolt.FreelistArrayType,
			NoStatistics: true,
			OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return s.file, nil },
		})
		switch {
		case err == nil:
			return nil
		case errors.Is(err, berrors.ErrTimeout):
			return lockedError(s.readOnly)
		case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum):
			return corrupt("%v", err)
		case errors.Is(err, berrors.ErrVersionMismatch):
			return fmt.Errorf("%w: %w: upgrade evotune", ErrVersion, err)
		}
		return cmp.Or(spaceError(err), err)
	})
	return err
}

// mapSize is how much address space to map for a file that is written.
// bbolt has to wait for all readers when the file outgrows its map: a backup
// would then keep campaigns waiting.
func (s *Store) mapSize() (int, error) {
	if s.readOnly || bits.UintSize < 64 {
		return 0, nil
	}
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	size := max(mapAtLeast, 4*info.Size())
	if !canMap(s.file, size) {
		return 0, nil // backups may then keep campaigns waiting
	}
	return int(size), nil
}

const mapAtLeast = int64(16) << 30

// grown sets by how much bbolt extends the file when it is full: with a map longer than
// the file, AllocSize decides. The file doubles until that is
// bbolt's own step.
func (s *Store) grown() {
	if info, err := s.file.Stat(); err == nil {
		s.db.AllocSize = int(min(max(info.Size(), 32<<10), 16<<20))
	}
}

// openBuckets creates what a new store needs, or checks the format.
func (s *Store) openBuckets() error {
	empty := false
	err := s.view(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			empty = true
			return nil
		}
		if err := checkFormat(meta.Get(keyFormat)); err != nil {
			return err
		}
		for _, name := range bucketsAll {
			if tx.Bucket(name) == nil {
				return corrupt("bucket %q is missing", name)
			}
		}
		if of := meta.Get(keyArchive); of != nil && !s.readOnly {
			return fmt.Errorf("%w: it is an archive of the store %s, and archives do not change: name that store", ErrReadOnly, of)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !empty:
		return nil
	case s.readOnly:
		return fmt.Errorf("%w: it was created but nothing was ever written", ErrNotStore)
	}
	return s.update(createBuckets)
}

func checkFormat(b []byte) error {
	switch v, n := binary.Uvarint(b); {
	case n <= 0 || v == 0:
		return corrupt("the format is not noted")
	case v != formatVersion:
		return otherVersion("it", v)
	}
	return nil
}

func createBuckets(tx *bolt.Tx) error {
	for _, name := range bucketsAll {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketMeta).Put(keyFormat, binary.AppendUvarint(nil, formatVersion))
}

// Path returns the path that the store was opened with.
func (s *Store) Path() string { return s.path }

// Close waits for writes and reads in progress and closes the store. Closing
// twice is harmless.
func (s *Store) Close() error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.shut()
	s.openMu.Lock()
	defer s.openMu.Unlock()
	for _, a := range s.archives {
		err = cmp.Or(err, a.Close())
	}
	s.archives = nil
	return s.wrap(err)
}

// shut closes the file. After a panic bbolt may wait for its own locks forever,
// so it is not closed then; its map stays until the process ends.
func (s *Store) shut() error {
	if s.abandoned.Load() || s.blind.Load() {
		return abandon(s.file)
	}
	return s.db.Close()
}

// guard calls f, which uses bbolt, and turns what bbolt does on a damaged file into an
// error: panics, and faults where the file is shorter than its map.
func guard(f func() error) (panicked bool, err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if r := recover(); r != nil {
			panicked, err = true, corrupt("bbolt cannot read a page of the file (%v): run `tune check`", r)
		}
	}()
	return false, f()
}

// After every trimEvery records that are read, each of which makes some 15 kB resident,
// the store checks whether trimFrom bytes of the map are resident.
const (
	trimEvery = 2048
	trimFrom  = 160 << 20
)

// touch counts n records that were read or written in tx.
func (s *Store) touch(tx *bolt.Tx, n int64) {
	if s.touched.Add(n) >= trimEvery {
		s.touched.Store(0)
		trim(tx, trimFrom)
	}
}

func (s *Store) fail(err error) { s.failure.CompareAndSwap(nil, &err) }

// failed says why nothing more can be written.
func (s *Store) failed() error {
	e := s.failure.Load()
	if e == nil {
		return nil
	}
	if errors.Is(*e, ErrCorrupt) {
		return *e
	}
	return fmt.Errorf("%w: %w", ErrFailed, *e)
}

// view runs f in a read transaction.
func (s *Store) view(f func(*bolt.Tx) error) error {
	if s.blind.Load() {
		return s.failed()
	}
	begun := false
	panicked, err := guard(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			begun = true
			return f(tx)
		})
	})
	// A transaction that has begun releases its locks even when f panics.
	if panicked && !begun {
		s.fail(err)
		s.blind.Store(true)
	}
	return err
}

// update runs f in a transaction that is durable on return. Callers hold
// commitMu, or have exclusive use of the store.
func (s *Store) update(f func(*bolt.Tx) error) error {
	if err := s.failed(); err != nil {
		return err
	}
	var inner error
	panicked, err := guard(func() error {
		s.grown()
		return s.db.Update(func(tx *bolt.Tx) error {
			inner = f(tx)
			return inner
		})
	})
	switch {
	case panicked:
		s.fail(err)
		s.abandoned.Store(true)
	case err == nil || inner != nil || errors.Is(err, berrors.ErrDatabaseNotOpen):
	default:
		var sticky bool
		if err, sticky = writeError(err); sticky {
			s.fail(err)
		}
	}
	return err
}
