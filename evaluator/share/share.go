// Package share shares compiled code between machines that evaluate candidates. A lab that
// has to compile a candidate asks a [Shelf] first, if the context has one, and puts there what it
// has compiled. The key of an entry covers all that decides the code: the source and the flags,
// the compiler, all that is installed with it, and the device where the code depends on it.
package share

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/evotune/evotune/evaluator/internal/cache"
)

// MaxEntry is the size in bytes of the largest entry that is shared: one message carries it.
const MaxEntry = 4 << 20

// A Shelf has entries for others. It is safe for concurrent use. An entry is whole or is none:
// whoever gets one checks it, and compiles where there is none. So a Shelf has no errors, and
// one that would take longer than a compiler does has no entry.
type Shelf interface {
	// Get gives an entry; nil when there is none.
	Get(ctx context.Context, kind, key string) []byte
	// Put adds an entry. One that is there stays.
	Put(ctx context.Context, kind, key string, entry []byte)
}

type (
	shelfKey struct{}
	anewKey  struct{}
)

// With returns a context under which labs share the code of candidates. What they judge candidates
// by, such as the harness, the reference and the baseline, each lab compiles for itself.
func With(ctx context.Context, s Shelf) context.Context {
	return context.WithValue(ctx, shelfKey{}, s)
}

// Anew returns a context under which labs compile every candidate: neither a shelf nor
// their own cache has an answer. It is for evaluations that others are checked by.
func Anew(ctx context.Context) context.Context {
	return context.WithValue(ctx, anewKey{}, true)
}

// From is what With and Anew were told; a nil Shelf is none.
func From(ctx context.Context) (s Shelf, anew bool) {
	if anew, _ = ctx.Value(anewKey{}).(bool); anew {
		return nil, true
	}
	s, _ = ctx.Value(shelfKey{}).(Shelf)
	return s, false
}

// name is the meta of an entry: a shelf that mixes entries up is found out. Meta is the lab's.
type name struct {
	Kind string          `json:"kind"`
	Key  string          `json:"key"`
	Meta json.RawMessage `json:"meta"`
}

// Seal makes an entry, with a checksum.
func Seal(kind, key string, code []byte, meta any) ([]byte, error) {
	m, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	return cache.Seal(code, name{kind, key, m})
}

// Open checks an entry and gives the code in it. It reads the meta, which may be nil.
func Open(kind, key string, entry []byte, meta any) ([]byte, error) {
	var n name
	code, err := cache.Open(entry, &n)
	switch {
	case err != nil:
		return nil, err
	case n.Kind != kind || n.Key != key:
		return nil, fmt.Errorf("the entry is that of %.32s %.12s", n.Kind, n.Key)
	case meta != nil:
		return code, json.Unmarshal(n.Meta, meta)
	}
	return code, nil
}

// A Folder is a Shelf on a disk, bounded by its size. The least recently used entries go first.
type Folder struct{ cache *cache.Cache }

var _ Shelf = (*Folder)(nil)

// NewFolder makes the folder of at most so many bytes; zero or less sets no bound.
func NewFolder(dir string, limit int64) (*Folder, error) {
	c, err := cache.New(dir, limit)
	if err != nil {
		return nil, fmt.Errorf("compiled code of the fleet: %w", err)
	}
	return &Folder{c}, nil
}

// Kinds and keys become names of files.
var (
	kindForm = regexp.MustCompile(`^[a-z]{1,32}$`)
	keyForm  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func named(kind, key string) bool {
	return kindForm.MatchString(kind) && keyForm.MatchString(key) && kind != "tmp"
}

// Get implements [Shelf].
func (f *Folder) Get(_ context.Context, kind, key string) []byte {
	if !named(kind, key) {
		return nil
	}
	entry, ok := f.cache.Get(kind, key, nil)
	if !ok {
		return nil
	}
	return entry
}

// Put implements [Shelf]. What is not an entry, or too large, or finds no room is not kept.
func (f *Folder) Put(ctx context.Context, kind, key string, entry []byte) {
	if !named(kind, key) || len(entry) > MaxEntry || f.Get(ctx, kind, key) != nil {
		return
	}
	if _, err := Open(kind, key, entry, nil); err != nil {
		return
	}
	_ = f.cache.Put(kind, key, entry, nil) // without room, others compile
}

// Close ends the use of the folder. The entries stay.
func (f *Folder) Close() error { return f.cache.Close() }
