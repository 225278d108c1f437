package kernels_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/kernels"
)

// sharing is the folder "k" of base with its header in the folder include beside it.
func sharing() fstest.MapFS {
	fsys := folder(base)
	fsys["include/tile.h"], fsys["include/other.h"] = fsys["k/tile.h"], &fstest.MapFile{Data: []byte("/* of another kernel */\n")}
	delete(fsys, "k/tile.h")
	return fsys
}

// A header that several kernels share counts as if it lay in the folder of each that
// includes it, and not at all for the others.
func TestSharedInclude(t *testing.T) {
	own := mustLoad(t, folder(base))
	baseline := func(d *kernels.Definition) kernels.Rendered {
		t.Helper()
		r, err := d.Implementations[0].RenderBaseline(d.Problem.Shapes[0])
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		what  string
		alter func(fstest.MapFS)
		same  bool
	}{
		{"nothing", func(fstest.MapFS) {}, true},
		{"another header", func(f fstest.MapFS) { f["include/other.h"].Data = nil }, true},
		{"the header", func(f fstest.MapFS) { f["include/tile.h"].Data = []byte("/* two() */\n") }, false},
		{"a header of the folder's own", func(f fstest.MapFS) { f["k/tile.h"] = &fstest.MapFile{Data: []byte("/* own() */\n")} }, false},
		{"the shared one behind the folder's own", func(f fstest.MapFS) {
			f["k/tile.h"] = &fstest.MapFile{Data: f["include/tile.h"].Data}
			f["include/tile.h"] = &fstest.MapFile{}
		}, true},
	} {
		fsys := sharing()
		c.alter(fsys)
		d := mustLoad(t, fsys)
		if got := d.Hash == own.Hash; got != c.same {
			t.Errorf("with a change of %s the definition is the same: %t, want %t", c.what, got, c.same)
		}
		if got := baseline(d).Hash == baseline(own).Hash; got != c.same {
			t.Errorf("with a change of %s a candidate is the same: %t, want %t", c.what, got, c.same)
		}
	}
	if text := baseline(mustLoad(t, sharing())).SelfContained(); !strings.Contains(text, "/* one() */") {
		t.Errorf("the header is not in the candidate as one file:\n%s", text)
	}
}

func TestSharedIncludeErrors(t *testing.T) {
	for _, c := range []struct {
		what  string
		alter func(fstest.MapFS)
		want  string
	}{
		{"another name", func(f fstest.MapFS) { f["include/tiles.h"] = f["include/tile.h"]; delete(f, "include/tile.h") }, `k/kernel.toml:90:12: "tile.h": no such file in the folder, nor in the folder include beside it: did you mean tiles.h?`},
		{"another name in the folder", func(f fstest.MapFS) { f["k/tile.hh"] = f["include/tile.h"]; delete(f, "include/tile.h") }, `k/kernel.toml:90:12: "tile.h": no such file in the folder, nor in the folder include beside it: did you mean tile.hh?`},
		{"a folder", func(f fstest.MapFS) { delete(f, "include/tile.h"); f["include/tile.h/x"] = &fstest.MapFile{} }, `k/kernel.toml:90:12: "tile.h": not a regular file: the file must be readable by you`},
		// Only includes are shared: a reference is the kernel's own.
		{"the reference", func(f fstest.MapFS) { f["include/reference.c"] = f["k/reference.c"]; delete(f, "k/reference.c") }, `k/kernel.toml:13:10: "reference.c": no such file in the folder: did you mean reference.cu?`},
		{"a baseline that is included too", func(f fstest.MapFS) {
			f["include/base.c"] = &fstest.MapFile{Data: []byte("void base(void);\n")}
			text := strings.Replace(base, `include = ["tile.h"]`, `include = ["tile.h", "base.c"]`, 1)
			at := strings.Index(text, "genome = {")
			f["k/kernel.toml"].Data = []byte(text[:at] + "source = \"base.c\"\nentry = \"base\"\n" + text[at+strings.Index(text[at:], "\n"):])
		}, `k/kernel.toml:132:10: "base.c": no such file in the folder: create it, or correct the name`},
	} {
		fsys := sharing()
		c.alter(fsys)
		if _, err := kernels.Load(fsys, "k"); err == nil || filepath.ToSlash(err.Error()) != c.want || !errors.Is(err, kernels.ErrDefinition) {
			t.Errorf("%s:\ngot  %v\nwant %s", c.what, err, c.want)
		}
	}
}

// A user's folder of kernels has an include folder of its own, whether it is named as
// a whole or one of its kernels is. Built-in headers are not offered to it.
func TestSharedIncludeOfFolders(t *testing.T) {
	dir := t.TempDir()
	fsys := sharing()
	for name, f := range fsys {
		writeFolder(t, dir, fstest.MapFS{strings.Replace(name, "k/", "k/mine/", 1): f})
	}
	t.Chdir(filepath.Join(dir, "mine"))
	for _, folder := range []string{dir, filepath.Join(dir, "mine"), "."} {
		c, err := kernels.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.Get("product")
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Errors()) > 0 || slices.Contains(c.Names(), "include") || d.Hash != mustLoad(t, fsys).Hash {
			t.Errorf("%s: %v, kernels %v", folder, c.Errors(), c.Names())
		}
	}
	if err := os.Remove(filepath.Join(dir, "include", "tile.h")); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret.h")
	if err := os.WriteFile(secret, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "include", "tile.h")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	if _, err := kernels.LoadDir("."); err == nil || !strings.Contains(err.Error(), `"tile.h": path escapes from parent`) {
		t.Errorf("a link that leads out of the include folder: %v", err)
	}
	if err := os.WriteFile("kernel.toml", []byte(strings.Replace(base, `"tile.h"`, `"rows.cuh"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := kernels.LoadDir("."); err == nil || !strings.Contains(err.Error(), `"rows.cuh": no such file in the folder, nor in`) {
		t.Errorf("a built-in header in a user's kernel: %v", err)
	}
}

// A source may include what the new folder will share: it is listed, and not copied.
func TestFromSharedInclude(t *testing.T) {
	dir := t.TempDir()
	writeFolder(t, dir, fstest.MapFS{
		"k/src/k.c":                {Data: []byte("#include \"near.h\"\n#include \"far.h\"\n#define U 1 // tune: 1, 2\nvoid f(int n, float *y)\n{ y[0] = U; }\n")},
		"k/src/near.h":             {Data: []byte("/* near */\n")},
		"k/kernels/include/far.h":  {Data: []byte("#include \"near.h\"\n#include \"more.h\"\n")},
		"k/kernels/include/near.h": {Data: []byte("/* not this one */\n")},
		"k/kernels/include/more.h": {Data: []byte("/* more */\n")},
	})
	made := filepath.Join(dir, "kernels", "made")
	if _, err := draft.From(made, "made", filepath.Join(dir, "src", "k.c"), "", nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(made, "kernel.toml"))
	if err != nil || !strings.Contains(string(text), `include = ["far.h", "more.h", "near.h"]`) {
		t.Errorf("%v\n%s", err, text)
	}
	if near, err := os.ReadFile(filepath.Join(made, "near.h")); err != nil || string(near) != "/* near */\n" {
		t.Errorf("near.h: %q, %v", near, err)
	}
	for _, name := range []string{"far.h", "more.h"} {
		if _, err := os.Stat(filepath.Join(made, name)); err == nil {
			t.Errorf("%s is copied", name)
		}
	}
}

// alike is base with nearly all of its implementation in a file that several share.
func alike(t *testing.T) fstest.MapFS {
	t.Helper()
	fsys := sharing()
	before, im, ok := strings.Cut(base, "[[implementation]]\n")
	name, common, ok2 := strings.Cut(im, "\n")
	if !ok || !ok2 || !strings.HasPrefix(name, "name = ") || strings.Contains(common, "[[implementation]]") {
		t.Fatal("the definition of the tests is another")
	}
	for _, open := range []string{"[[", "["} {
		common = strings.ReplaceAll(common, "\n"+open+"implementation.", "\n"+open)
	}
	fsys["k/kernel.toml"] = &fstest.MapFile{Data: []byte(before + "[[implementation]]\n" + name + "\nlike = \"common.toml\"\n")}
	fsys["include/common.toml"] = &fstest.MapFile{Data: []byte(common)}
	return fsys
}

// An implementation that says what it is like has all of the other file, but for what it
// says itself.
func TestLike(t *testing.T) {
	own, d := mustLoad(t, folder(base)).Implementations[0], mustLoad(t, alike(t)).Implementations[0]
	if got, want := mustJSON(t, d), mustJSON(t, own); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	fsys := alike(t)
	fsys["include/common.toml"].Data = bytes.Replace(fsys["include/common.toml"].Data, []byte("genome = { "), []byte("genome = { MORE = 1, "), 1)
	fsys["k/kernel.toml"].Data = append(fsys["k/kernel.toml"].Data, `flags = ["-O1"]
[[implementation.parameter]]
name = "MORE"
values = [1, 2]
[[implementation.constraint]]
expr = "MORE != 2"
why = "for the test"
`...)
	d = mustLoad(t, fsys).Implementations[0]
	if len(d.Flags) != 1 || d.Flags[0] != "-O1" {
		t.Errorf("flags %q, want the implementation's own", d.Flags)
	}
	if n := len(own.Parameters); len(d.Parameters) != n+1 || d.Parameters[n].Name != "MORE" || len(d.Constraints) != len(own.Constraints)+1 {
		t.Errorf("%d parameters, %d constraints: its own were not added", len(d.Parameters), len(d.Constraints))
	}
	if d.Definition().Hash == mustLoad(t, alike(t)).Hash {
		t.Error("the hash does not depend on kernel.toml")
	}
	fsys = alike(t)
	fsys["include/common.toml"].Data = append(fsys["include/common.toml"].Data, "# more\n"...)
	if mustLoad(t, fsys).Hash == mustLoad(t, alike(t)).Hash {
		t.Error("the hash does not depend on the other file")
	}
}

// Faults name the file in which they are.
func TestLikeErrors(t *testing.T) {
	for _, c := range []struct{ common, kernel, want string }{
		{"backend = \"gpu\"\n", "", `k/common.toml:1:11: unknown backend "gpu"`},
		{"a = \n", "", "k/common.toml:1:"},
		{"like = \"common.toml\"\n", "", "k/common.toml:1:1: like belongs to an implementation, not to what several share: remove it"},
		{"\nname = \"x\"\n", "", "k/common.toml:2:1: name belongs to an implementation, not to what several share: remove it"},
		{"", "like = 3", "k/kernel.toml:"},
		{"", "like = \"commen.toml\"", `"commen.toml": no such file in the folder, nor in the folder include beside it: did you mean common.toml?`},
	} {
		fsys := alike(t)
		if c.common != "" {
			fsys["include/common.toml"].Data = []byte(c.common)
		}
		if c.kernel != "" {
			fsys["k/kernel.toml"].Data = []byte(strings.Replace(string(fsys["k/kernel.toml"].Data), `like = "common.toml"`, c.kernel, 1))
		}
		if _, err := kernels.Load(fsys, "k"); err == nil || !strings.Contains(filepath.ToSlash(err.Error()), c.want) || !errors.Is(err, kernels.ErrDefinition) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
