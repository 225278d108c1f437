package labs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/evaluator/share"
)

// A shelf of a test notes what it is asked, and calls before each time.
type shelf struct {
	mu      sync.Mutex
	entries map[string][]byte
	gets    int
	puts    int
	before  func(ctx context.Context)
}

func (s *shelf) Get(ctx context.Context, kind, key string) []byte {
	s.before(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	return s.entries[kind+key]
}

func (s *shelf) Put(ctx context.Context, kind, key string, entry []byte) {
	s.before(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	s.entries[kind+key] = entry
}

func newShelf() *shelf {
	return &shelf{entries: map[string][]byte{}, before: func(context.Context) {}}
}

// newSharing is what a machine of its own has, with an empty cache.
func newSharing(t *testing.T, facts ...string) *Sharing {
	b := newBase(t, t.TempDir())
	return &Sharing{Launcher: b.Launcher, Cache: b.Cache, Find: func(context.Context) (Installation, error) {
		return Installation{Facts: facts}, nil
	}}
}

// What one machine compiled, another one of the same installation gets, with what is told of it. One of
// another installation does not.
func TestSharing(t *testing.T) {
	type meta struct{ Log string }
	s := newShelf()
	ctx := share.With(t.Context(), s)
	key, code := cache.Key("a source"), []byte("its code")
	one, two, other := newSharing(t, "gcc"), newSharing(t, "gcc"), newSharing(t, "gcc", "of another processor")
	if _, ok := one.Get(ctx, "objects", key, false, nil); ok || s.gets != 1 {
		t.Fatalf("an empty shelf, asked %d times, has an entry: %v", s.gets, ok)
	}
	one.Put(ctx, "objects", key, false, code, meta{"a warning"})
	var m meta
	if got, ok := two.Get(ctx, "objects", key, false, &m); !ok || string(got) != string(code) || m.Log != "a warning" {
		t.Errorf("the second machine got %q, %v, %+v", got, ok, m)
	}
	if _, ok := other.Get(ctx, "objects", key, false, nil); ok {
		t.Error("a machine of another installation got the code")
	}
	if _, ok := two.Cache.Get("objects", key, nil); ok {
		t.Error("what came from the shelf is in the cache, which is for what was compiled here")
	}
	if _, ok := two.Get(t.Context(), "objects", key, false, nil); ok {
		t.Error("without a shelf there is an entry")
	}
	// Who checks another machine compiles, whatever there is, also in its own cache.
	for i, machine := range []*Sharing{one, two} {
		if _, ok := machine.Get(share.Anew(ctx), "objects", key, false, nil); ok {
			t.Errorf("machine %d has code for a check without compiling", i)
		}
	}
	gets, puts := s.gets, s.puts
	two.Put(share.Anew(ctx), "objects", key, false, code, nil)
	two.Get(ctx, "objects", cache.Key("the harness"), true, nil)
	two.Put(ctx, "objects", cache.Key("the harness"), true, code, nil)
	if s.gets != gets || s.puts != puts {
		t.Errorf("the shelf was asked %d times and told %d times of what is not shared", s.gets-gets, s.puts-puts)
	}
	two.Put(ctx, "objects", cache.Key("large"), false, make([]byte, share.MaxEntry), nil)
	if s.puts != puts {
		t.Error("an entry is shared that is too large")
	}
}

// Whatever byte of an entry is wrong, or whatever other entry the shelf has mixed it up with, the code is
// compiled.
func TestDamagedEntry(t *testing.T) {
	s := newShelf()
	ctx := share.With(t.Context(), s)
	one, two := newSharing(t), newSharing(t)
	keys := []string{cache.Key("a"), cache.Key("b")}
	for _, k := range keys {
		one.Put(ctx, "objects", k, false, []byte("the code of "+k), nil)
	}
	if len(s.entries) != 2 {
		t.Fatalf("%d entries", len(s.entries))
	}
	a, b := "objects"+sharedKey(keys[0], two.where(ctx)), "objects"+sharedKey(keys[1], two.where(ctx))
	if _, ok := two.Get(ctx, "objects", keys[0], false, nil); !ok {
		t.Fatal("there is no entry")
	}
	whole := s.entries[a]
	for i := range whole {
		s.entries[a] = append([]byte{}, whole...)
		s.entries[a][i] ^= 0x20
		if got, ok := two.Get(ctx, "objects", keys[0], false, nil); ok && string(got) != "the code of "+keys[0] {
			t.Fatalf("byte %d was changed, and the entry believed: %q", i, got)
		}
		s.entries[a] = whole[:i]
		if _, ok := two.Get(ctx, "objects", keys[0], false, nil); ok {
			t.Fatalf("%d bytes of %d were believed", i, len(whole))
		}
	}
	s.entries[a] = s.entries[b]
	if got, ok := two.Get(ctx, "objects", keys[0], false, nil); ok {
		t.Errorf("another entry was believed: %q", got)
	}
}

// Nothing is timed on the CPU while an entry travels.
func TestSharingWaitsForTimings(t *testing.T) {
	s, m := newShelf(), newSharing(t)
	ctx := share.With(t.Context(), s)
	asked := 0
	s.before = func(context.Context) {
		asked++
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, leave, err := process.TakeHost(short); err == nil {
			leave()
			t.Error("a candidate can be timed while an entry travels")
		}
	}
	m.Get(ctx, "objects", cache.Key("a"), false, nil)
	m.Put(ctx, "objects", cache.Key("a"), false, nil, nil)
	if asked != 2 {
		t.Errorf("%d times", asked)
	}
	_, leave, err := process.TakeHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	timing, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	m.Get(timing, "objects", cache.Key("a different one"), false, nil)
	if asked != 2 {
		t.Error("the shelf was asked while a candidate was timed")
	}
}

// What is not known in full is not shared.
func TestUnknownInstallation(t *testing.T) {
	s := newShelf()
	ctx := share.With(t.Context(), s)
	m := newSharing(t)
	m.Find = func(context.Context) (Installation, error) { return Installation{}, errors.New("it does not tell") }
	m.Put(ctx, "objects", cache.Key("a"), false, nil, nil)
	if s.puts != 0 {
		t.Errorf("%d entries", s.puts)
	}
}

// The hash of an installation changes with each of its files, also behind links and in folders, and not
// with its times. What has not been touched is not read again.
func TestInstallation(t *testing.T) {
	b := newBase(t, t.TempDir())
	dir, elsewhere := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "include", "a.h"), "a")
	write(filepath.Join(elsewhere, "b.h"), "b")
	for to, from := range map[string]string{filepath.Join(elsewhere, "b.h"): "include/b.h", elsewhere: "include/more", dir: "include/circle", "nowhere": "include/nothing"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	i := Installation{Facts: []string{"avx2"}, Programs: []string{"/bin/sh"}, Files: []string{filepath.Join(dir, "include"), filepath.Join(dir, "absent.h")}}
	hash := func() string {
		t.Helper()
		sum, err := i.hash(t.Context(), b.Launcher, b.Cache)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := hash()
	seen := map[string]string{first: "nothing"}
	for what, change := range map[string]func(){
		"a header":                   func() { write(filepath.Join(dir, "include", "a.h"), "A") },
		"a header behind a link":     func() { write(filepath.Join(elsewhere, "b.h"), "B") },
		"one that was not there":     func() { write(filepath.Join(dir, "absent.h"), "") },
		"one behind a linked folder": func() { write(filepath.Join(elsewhere, "sys", "c.h"), "c") },
		"a fact":                     func() { i.Facts = []string{"avx512f"} },
		"a program":                  func() { i.Programs = append(i.Programs, "/bin/ls") },
	} {
		change()
		sum := hash()
		if old, ok := seen[sum]; ok {
			t.Errorf("%s changed, and the hash is that after %s", what, old)
		}
		seen[sum] = what
	}
	last := hash()
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "include", "a.h"), past, past); err != nil {
		t.Fatal(err)
	}
	if hash() != last {
		t.Error("the time of a file changes the hash")
	}
}

// The hash of a compiler covers its programs with their libraries, the headers, and what is linked.
func TestHostCompiler(t *testing.T) {
	gcc := Find("gcc")
	if gcc == "" {
		t.Skip("there is no gcc")
	}
	b := newBase(t, t.TempDir())
	i, err := HostCompiler(t.Context(), b.Launcher, gcc, "c")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(append(i.Programs, i.Files...), "\n") + "\n"
	for _, want := range []string{gcc, "/cc1\n", "/as\n", "/ld\n", "/usr/include\n", "/crtbeginS.o\n", "/libm.so.6\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	libraries, err := loaded(t.Context(), b.Launcher, Find("as"))
	if err != nil || !strings.Contains(strings.Join(libraries, "\n"), "libc.so") {
		t.Errorf("the assembler loads %q, %v", libraries, err)
	}
}

func TestOwn(t *testing.T) {
	for _, c := range []struct {
		own   bool
		text  string
		flags string
	}{
		{false, "#include <immintrin.h>\n#include \"mine.h\"", "-O3 -march=native -fopenmp -lm -I. -DN=4 -lineinfo -include evotune_kernel.h -Wl,--no-undefined"},
		{true, "#include \"/etc/passwd\"", "-O3"},
		{true, "#include <../mine.h>", ""},
		{true, "", "-I/opt/include"},
		{true, "", "-Iinclude"},
		{true, "", "-lblas"},
		{true, "", "-L lib"},
		{true, "", "-fplugin=mine"},
		{true, "", "@options"},
		{true, "", "-ccbin clang++"},
		{true, "", "-Wl,-Tscript"},
	} {
		if got := Own(map[string]string{"kernel.c": c.text}, strings.Fields(c.flags)); got != c.own {
			t.Errorf("%q with %q: %v", c.text, c.flags, got)
		}
	}
}
