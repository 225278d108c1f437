package cpu

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	programs "github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/evaluator/share"
)

// A second machine with a cache of its own gets the code of candidates, with the frame and the log, and
// compiles what is not a candidate. Code for other flags or another processor is another's.
func TestSharedObjects(t *testing.T) {
	s := &backendtest.Shelf{}
	ctx := share.With(t.Context(), s)
	// A machine has the cache of another one at first, where the hashes of the compiler's files are.
	folders := []string{}
	machine := func() *toolchain {
		dir := t.TempDir()
		if n := len(folders); n > 0 {
			if err := os.CopyFS(dir, os.DirFS(folders[n-1])); err != nil {
				t.Fatal(err)
			}
		}
		folders = append(folders, dir)
		c, err := cache.New(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		l := programs.NewLauncher()
		t.Cleanup(func() { l.Close(); c.Close() })
		tool, err := newToolchain(ctx, "auto", l, c, time.Minute)
		if err != nil {
			t.Skip(err)
		}
		return tool
	}
	unit := func(flags ...string) compilation {
		return compilation{
			files:     map[string]string{"kernel.c": "#warning mind this\nvoid use(double *);\nvoid kernel(void) { double a[64]; use(a); }\n"},
			args:      append(flags, "-shared", "-fPIC", "-I.", "kernel.c", "-lm"),
			frames:    true,
			candidate: true,
		}
	}
	one := machine()
	begin := time.Now()
	one.sharing.Look(ctx)
	read := time.Since(begin)
	two := machine()
	foreign := machine()
	begin = time.Now()
	(&labs.Sharing{Launcher: one.launcher, Cache: one.cache, Find: one.installation}).Look(ctx)
	t.Logf("the files of the compiler were read in %v, and looked at again in %v", read, time.Since(begin))
	first, err := one.compile(ctx, unit("-O2", "-march=native"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := two.compile(ctx, unit("-O2", "-march=native"))
	if err != nil || s.Hits() != 1 {
		t.Fatalf("the second machine had %d hits: %v", s.Hits(), err)
	}
	if !slices.Equal(first.Object, second.Object) || first.Log != second.Log || !strings.Contains(second.Log, "mind this") || first.Frame != second.Frame || second.Frame < 512 && !two.clang {
		t.Errorf("the second machine got another object: %+v", second)
	}
	if _, err := two.compile(ctx, unit("-O1", "-march=native")); err != nil || s.Hits() != 1 {
		t.Errorf("other flags, %d hits: %v", s.Hits(), err)
	}
	entries := s.Entries()
	harness := unit("-O2")
	harness.candidate = false
	if _, err := two.compile(ctx, harness); err != nil || s.Entries() != entries {
		t.Errorf("what is not a candidate is shared: %v", err)
	}
	// native: two processors that differ in anything, such as the model or a cache, have other devices.
	i, err := two.installation(t.Context())
	if err != nil || !slices.Contains(i.Facts, describeDevice().Fingerprint) || !slices.Contains(i.Facts, two.version) {
		t.Errorf("the facts %q lack the device or the compiler: %v", i.Facts, err)
	}
	find := foreign.sharing.Find
	foreign.sharing.Find = func(ctx context.Context) (i labs.Installation, err error) {
		i, err = find(ctx)
		i.Facts = append(slices.Clone(i.Facts), "another processor")
		return i, err
	}
	if _, err := foreign.compile(ctx, unit("-O2", "-march=native")); err != nil || s.Hits() != 1 {
		t.Errorf("a machine with another processor had %d hits: %v", s.Hits()-1, err)
	}
	// Who checks others compiles itself.
	if _, err := two.compile(share.Anew(ctx), unit("-O2", "-march=native")); err != nil || s.Hits() != 1 {
		t.Errorf("a check had %d hits: %v", s.Hits()-1, err)
	}
}
