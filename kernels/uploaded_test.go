package kernels_test

import (
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/kernels"
)

// uploadedWith is a small kernel in a folder that is marked, with a text of its kernel.toml
// replaced.
func uploadedWith(t *testing.T, old, replacement string) (*kernels.Definition, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mine")
	if err := draft.New(dir, "mine", "cpu"); err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{"mine/" + kernels.UploadedFile: {}}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() == kernels.DefinitionFile {
			if !strings.Contains(string(text), old) {
				t.Fatalf("there is no %s", old)
			}
			text = []byte(strings.Replace(string(text), old, replacement, 1))
		}
		fsys["mine/"+e.Name()] = &fstest.MapFile{Data: text}
	}
	return kernels.Load(fsys, "mine")
}

// An uploaded kernel's flags are checked as the compiler gets them, and no path in one is
// opened to a compiler.
func TestUploadedFlags(t *testing.T) {
	for _, flag := range []string{
		`-include`, `-I/etc`, `{{if eq .WIDTH 1}}-include{{end}}-I/etc`, `-{{"include"}}`, `{{printf "-I%s" "/etc"}}`, `{{"@"}}x`,
		`-DX={{"\n"}}#include`, `{{range until 1}}-Wl,-T,/etc/shadow{{end}}`,
	} {
		d, err := uploadedWith(t, `"-march=native"`, `'`+flag+`'`)
		if err != nil {
			t.Fatal(err)
		}
		im := d.Implementations[0]
		space, err := d.Space(d.Implementations, d.Problem.ShapesFor(kernels.Tune)[:1], nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = im.Render(space.Random(rand.New(rand.NewSource(1))))
		if !errors.Is(err, kernels.ErrRender) || !strings.Contains(err.Error(), "kernel.toml:") || !strings.Contains(err.Error(), "remove it") || strings.Contains(err.Error(), "\n") {
			t.Errorf("flag %s: %v", flag, err)
		}
		if paths := im.OwnFlags(); len(paths) > 0 {
			t.Errorf("compilers may read what %q name", paths)
		}
	}
	const genome = `genome = { WIDTH = 1, SUMS = 1, PREFETCH = false, OPTIMIZE = "-O2" }`
	for _, baseline := range []string{`library = "/etc/shadow:x"`, `library = "../x.so:x"`, "source = \"reference.c\"\nentry = \"reference\"\nflags = [\"-O2\", \"-include/etc/shadow\"]"} {
		if _, err := uploadedWith(t, genome, baseline); err == nil || !strings.Contains(err.Error(), "uploaded kernel") {
			t.Errorf("baseline %s: %v", baseline, err)
		}
	}
}
