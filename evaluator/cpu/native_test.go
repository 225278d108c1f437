//go:build linux

package cpu

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	programs "github.com/evotune/evotune/evaluator/internal/process"
)

// What native spells out allows the compiler the same instruction sets as
// -march=native does.
func TestNative(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("instruction sets are listed for amd64 alone")
	}
	c, err := cache.New(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	l := programs.NewLauncher()
	defer l.Close()
	tool, err := newToolchain(t.Context(), "auto", l, c, time.Minute)
	if err != nil {
		t.Skip(err)
	}
	args := tool.native(t.Context())
	if len(args) == 0 || args[0] != "-march=x86-64" {
		t.Fatalf("%q", args)
	}
	macros := func(args ...string) string {
		text, err := tool.command(t.Context(), tool.path, append(args, "-dM", "-E", "-x", "c", os.DevNull)...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, text)
		}
		return string(text)
	}
	want, got := macros("-march=native"), macros(args...)
	for _, f := range append(evaluator.Features(), companions...) {
		if line := "#define " + f.Macro + " "; strings.Contains(want, line) != strings.Contains(got, line) {
			t.Errorf("%s: %v with -march=native, %v with %q", f.Macro, strings.Contains(want, line), strings.Contains(got, line), args)
		}
	}
}
