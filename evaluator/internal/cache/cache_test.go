package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestCache(t *testing.T) {
	c, err := New(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	type meta struct{ Log string }
	key := Key("a")
	if _, ok := c.Get("objects", key, nil); ok {
		t.Error("an empty cache has an entry")
	}
	want := bytes.Repeat([]byte("contents\n"), 100)
	if err := c.Put("objects", key, want, meta{"log\nof two lines"}); err != nil {
		t.Fatal(err)
	}
	var m meta
	if got, ok := c.Get("objects", key, &m); !ok || !bytes.Equal(got, want) || m.Log != "log\nof two lines" {
		t.Errorf("got %d bytes, %v, %+v", len(got), ok, m)
	}
	// Whatever byte of an entry is damaged or missing, it is not believed.
	path := c.path("objects", key)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(file); i += 7 {
		damaged := bytes.Clone(file)
		damaged[i] ^= 1
		if contents, err := Open(damaged, &meta{}); err == nil && !bytes.Equal(contents, want) {
			t.Fatalf("byte %d was changed and the entry believed", i)
		}
		if _, err := Open(file[:i], &meta{}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("the first %d bytes were believed: %v", i, err)
		}
	}
	if err := os.WriteFile(path, file[:len(file)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Get("objects", key, nil); ok {
		t.Error("a truncated entry was believed")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a truncated entry was kept")
	}
}

func TestCacheIsBounded(t *testing.T) {
	const limit = 100 << 10
	dir := t.TempDir()
	var group sync.WaitGroup
	for writer := range 3 { // as several processes would
		c, err := New(dir, limit)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for i := range 60 {
				key := Key(fmt.Sprint(writer, i))
				if err := c.Put("objects", key, make([]byte, 4<<10), nil); err != nil {
					t.Error(err)
				}
				if contents, ok := c.Get("objects", key, nil); ok && len(contents) != 4<<10 {
					t.Errorf("%d bytes", len(contents))
				}
			}
		})
	}
	group.Wait()
	last, err := New(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	recent := Key("used")
	if err := last.Put("objects", recent, make([]byte, 4<<10), nil); err != nil {
		t.Fatal(err)
	}
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(last.path("objects", recent), future, future); err != nil {
		t.Fatal(err)
	}
	last.size = limit // the next one is too many
	if err := last.Put("objects", Key("last"), make([]byte, 4<<10), nil); err != nil {
		t.Fatal(err)
	}
	var total int64
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, _ error) error {
		if info, err := d.Info(); err == nil && !d.IsDir() {
			total += info.Size()
		}
		return nil
	})
	if total > limit {
		t.Errorf("the cache has %d bytes, allowed are %d", total, limit)
	}
	if _, ok := last.Get("objects", recent, nil); !ok {
		t.Error("what was used last went first")
	}
}

func TestKey(t *testing.T) {
	if Key("ab", "c") == Key("a", "bc") || Key("a") == Key("a", "") {
		t.Error("other parts, the same key")
	}
}

// What a killed evotune left is removed by the next; what a living one works on
// is not.
func TestAbandonedScratch(t *testing.T) {
	dir := t.TempDir()
	living, err := New(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := living.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	killed, err := New(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	left, err := killed.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.lock.Close(); err != nil { // as the kernel does at its end
		t.Fatal(err)
	}
	if _, err := New(dir, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the folder of a living process: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(left)); !os.IsNotExist(err) {
		t.Errorf("the folder of a process that has ended: %v", err)
	}
	if err := living.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(kept)); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}

func TestRelativeFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := New("cache", 0)
	if err != nil {
		t.Fatal(err)
	}
	if dir, err := c.Scratch(); err != nil || !filepath.IsAbs(dir) {
		t.Errorf("%q, %v", dir, err)
	}
}
