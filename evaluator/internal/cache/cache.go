// Package cache keeps on disk what the backends of the evaluator find expensive
// to make again.
package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Cache keeps what is expensive to make again: binaries, outputs of
// references, measured peaks. Entries are named by the hash of all that they
// depend on. Several processes may use one folder: an entry is written beside
// and renamed into place, and one that does not match its own checksum is
// thrown away and made again.
type Cache struct {
	dir   string
	limit int64 // bytes; 0 sets no bound
	// scratch is where temporary files lie. It is locked while this process
	// lives: a process that can lock it may remove it.
	scratch string
	lock    *os.File

	mu   sync.Mutex
	size int64 // an estimate; negative before the first look
}

const magic = "evotune cache 1\n"

// header is the line between the magic and the contents.
type header struct {
	Size int             `json:"size"`
	Sum  string          `json:"sha256"`
	Meta json.RawMessage `json:"meta,omitempty"`
}

// New opens the cache in a folder, which is made where it is missing. A limit of
// zero or less sets no bound.
func New(dir string, limit int64) (*Cache, error) {
	dir, err := filepath.Abs(dir) // programs in it are started from other folders
	if err != nil {
		return nil, fmt.Errorf("the cache folder cannot be used: %w", err)
	}
	c := &Cache{dir: dir, limit: limit, size: -1}
	if err := c.begin(); err != nil {
		return nil, fmt.Errorf("the cache folder cannot be used: %w", err)
	}
	c.sweep()
	return c, nil
}

// begin makes and locks the folder of this process's temporary files.
func (c *Cache) begin() (err error) {
	tmp := filepath.Join(c.dir, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	for range 10 {
		if c.scratch, err = os.MkdirTemp(tmp, "run-"); err != nil {
			return err
		}
		if c.lock, err = os.Open(c.scratch); err == nil {
			lock(c.lock)
			if _, err = os.Stat(c.scratch); err == nil {
				return nil
			}
			discard(c.lock)
		}
		// Another process removed it between the two.
	}
	return err
}

// staleAfter is the age at which a temporary file belongs to nobody any more,
// where files cannot be locked.
const staleAfter = 48 * time.Hour

// sweep removes what evotunes that were killed have left behind.
func (c *Cache) sweep() {
	dir := filepath.Join(c.dir, "tmp")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if path == c.scratch {
			continue
		}
		info, err := e.Info()
		if err == nil && (e.IsDir() && strings.HasPrefix(e.Name(), "run-") && abandoned(path) || time.Since(info.ModTime()) > staleAfter) {
			remove(path)
		}
	}
}

// abandoned says that nobody holds the lock of a folder.
func abandoned(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer discard(f)
	return lock(f)
}

func (c *Cache) path(kind, key string) string {
	return filepath.Join(c.dir, kind, key[:2], key[2:])
}

// Get reads an entry into meta (which may be nil). ok is false when there is
// none, or when it is damaged.
func (c *Cache) Get(kind, key string, meta any) (contents []byte, ok bool) {
	path := c.path(kind, key)
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	contents, err = Open(file, meta)
	if err != nil {
		_ = os.Remove(path)
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // the least recently used go first
	return contents, true
}

// ErrDamaged says that an entry is not what was put.
var ErrDamaged = errors.New("damaged cache entry")

// Open gives what Seal made an entry of, and reads its meta (which may be nil). The error is
// ErrDamaged.
func Open(file []byte, meta any) ([]byte, error) {
	rest, ok := bytes.CutPrefix(file, []byte(magic))
	if !ok {
		return nil, ErrDamaged
	}
	line, contents, ok := bytes.Cut(rest, []byte{'\n'})
	if !ok {
		return nil, ErrDamaged
	}
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, ErrDamaged
	}
	sum := entrySum(h.Meta, contents)
	if h.Size != len(contents) || h.Sum != sum {
		return nil, ErrDamaged
	}
	if meta != nil {
		if err := json.Unmarshal(h.Meta, meta); err != nil {
			return nil, ErrDamaged
		}
	}
	return contents, nil
}

func entrySum(meta, contents []byte) string {
	h := sha256.New()
	h.Write(meta)
	h.Write([]byte{0})
	h.Write(contents)
	return hex.EncodeToString(h.Sum(nil))
}

// Seal makes an entry as it lies on a disk, or travels: its contents, with a checksum.
func Seal(contents []byte, meta any) ([]byte, error) {
	m, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	head, err := json.Marshal(header{Size: len(contents), Sum: entrySum(m, contents), Meta: m})
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(magic), head, []byte{'\n'}, contents), nil
}

// Put writes an entry.
func (c *Cache) Put(kind, key string, contents []byte, meta any) error {
	file, err := Seal(contents, meta)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(c.scratch, "entry-")
	if err != nil {
		return fmt.Errorf("writing to the cache: %w", err)
	}
	defer remove(f.Name())
	if _, err := f.Write(file); err != nil {
		discard(f)
		return fmt.Errorf("writing to the cache: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("writing to the cache: %w", err)
	}
	path := c.path(kind, key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing to the cache: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("writing to the cache: %w", err)
	}
	c.grown(int64(len(file)))
	return nil
}

// Fits says that an entry of n bytes leaves most of the room to others: it takes at most an
// eighth of it.
func (c *Cache) Fits(n int) bool { return c.limit <= 0 || int64(n) <= c.limit/8 }

// grown counts new bytes and makes room when there are too many.
func (c *Cache) grown(n int64) {
	if c.limit <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size >= 0 {
		if c.size += n; c.size <= c.limit {
			return
		}
	}
	c.size = c.evict()
}

// evict removes the least recently used entries until a tenth of the room is
// free, and returns what is left.
func (c *Cache) evict() int64 {
	type entry struct {
		path string
		size int64
		used time.Time
	}
	var entries []entry
	var total int64
	_ = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.IsDir() && path == filepath.Join(c.dir, "tmp") {
				return filepath.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err == nil {
			entries = append(entries, entry{path, info.Size(), info.ModTime()})
			total += info.Size()
		}
		return nil
	})
	if total <= c.limit {
		return total
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= c.limit/10*9 {
			break
		}
		if os.Remove(e.path) == nil {
			total -= e.size
		}
	}
	return total
}

// Close removes the temporary files. The Cache is of no more use.
func (c *Cache) Close() error {
	err := os.RemoveAll(c.scratch)
	discard(c.lock)
	return err
}

// Scratch makes a folder for one use.
func (c *Cache) Scratch() (string, error) {
	dir, err := os.MkdirTemp(c.scratch, "work-")
	if err != nil {
		return "", fmt.Errorf("a folder for temporary files: %w", err)
	}
	return dir, nil
}

// Key hashes parts so that no two lists of parts have one hash.
func Key(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// discard closes what was only read, or what an error has made worthless: that
// it cannot be closed changes nothing.
func discard(c io.Closer) { _ = c.Close() }

// remove removes what was made for one use: that it cannot be removed changes
// nothing.
func remove(path string) { _ = os.RemoveAll(path) }
