package cuda

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/share"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// TestSharedCubinsLong: a second machine with a cache of its own gets the cubins of candidates, and their
// builds with delays, with what the compiler told. The harness, the reference and the baseline it
// compiles, and so does who checks others, and what Triton compiles.
func TestSharedCubinsLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	l, _, found := compilers(t)
	for name, c := range found {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &backendtest.Shelf{}
			ctx := share.With(t.Context(), s)
			by, assembles := c.(assembler)
			machine := func() *lab {
				h := newLab(&labs.Base{Scratch: t.TempDir(), Launcher: l}, Options{CompileWorkers: 1})
				var err error
				if h.Cache, err = cache.New(t.TempDir(), 0); err != nil {
					t.Fatal(err)
				}
				if h.compiler = c; assembles {
					h.delayer = by
				}
				return h
			}
			one, two := machine(), machine()
			u := unit{source: gemmSource, flags: []string{"-O3"}, arch: "sm_80", candidate: true}
			begin := time.Now()
			one.sharing().Look(ctx)
			looked := time.Since(begin)
			begin = time.Now()
			first, err := one.build(ctx, u)
			if err != nil {
				t.Fatal(err)
			}
			compiling := time.Since(begin)
			two.sharing().Look(ctx)
			begin = time.Now()
			second, err := two.build(ctx, u)
			if err != nil || s.Hits() != 1 || !bytes.Equal(first.Cubin, second.Cubin) || first.Log != second.Log || first.Log == "" {
				t.Fatalf("the second machine had %d hits, and another cubin or log: %v", s.Hits(), err)
			}
			t.Logf("compiled in %v, got in %v; the files of the compiler were read in %v", compiling, time.Since(begin), looked)
			other := u
			other.arch = "sm_90"
			if _, err := two.build(ctx, other); err != nil || s.Hits() != 1 {
				t.Errorf("for another architecture there were %d hits: %v", s.Hits()-1, err)
			}
			if _, err := two.build(share.Anew(ctx), u); err != nil || s.Hits() != 1 {
				t.Errorf("a check had %d hits: %v", s.Hits()-1, err)
			}
			if assembles {
				u.plain = true
				made, err := one.buildDelayed(ctx, u, by, room{})
				if err != nil {
					t.Fatal(err)
				}
				got, err := two.buildDelayed(ctx, u, by, room{})
				if err != nil || s.Hits() != 2 || !bytes.Equal(made.Cubin, got.Cubin) || made.Delays != got.Delays {
					t.Errorf("the build with delays is another, after %d hits: %v", s.Hits()-1, err)
				}
			}
			entries := s.Entries()
			if _, err := two.build(ctx, unit{source: HarnessSource, flags: []string{"-O3"}, arch: "sm_80", plain: true}); err != nil || s.Entries() != entries {
				t.Errorf("the harness is shared: %v", err)
			}
			for what, u := range map[string]unit{
				"a baseline": {}, "a file elsewhere": {candidate: true, source: `#include "/etc/passwd"`},
				"a folder elsewhere": {candidate: true, flags: []string{"-I/opt/include"}}, "two words": {candidate: true, flags: []string{"-I", "more"}},
				"what Triton compiles": {candidate: true, triton: &kernels.TritonCall{}},
			} {
				if !u.local() {
					t.Errorf("%s is shared", what)
				}
			}
		})
	}
}

// TestCompilerFilesLong: what decides the code of a compiler is among the files that are compared.
func TestCompilerFilesLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	_, _, found := compilers(t)
	want := map[string][]string{
		"nvcc":  {"/nvcc\n", "/nvcc.profile\n", "/cicc\n", "/ptxas\n", "libdevice\n", "/cc1plus\n", "/usr/include\n", "include/c++/"},
		"nvrtc": {"libnvrtc.so", "libnvrtc-builtins.so", "include\n"},
	}
	for name, c := range found {
		i, err := c.(installed).installation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(slices.Concat(i.Programs, i.Files), "\n") + "\n"
		for _, w := range want[name] {
			if !strings.Contains(all, w) {
				t.Errorf("%s: %q is missing in\n%s", name, w, all)
			}
		}
	}
}
