//go:build linux

package cuda_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// The red team's kernels: evaluator/testdata/redteam-cuda/KINDS.md.
//
//	REDTEAM_BOMBS=1   judges the group "Bombs", too
//	REDTEAM_AFTER=1   judges an honest kernel after every case, not only after the
//	                  group "Left behind" and after faults
const redteamDir = "../testdata/redteam-cuda"

// bombs is the group of kernels that take compilers down.
const bombs = "Bombs"

// A redFolder is one definition of the red team with its table.
type redFolder struct {
	name   string
	plan   evaluator.Plan
	cases  []backendtest.Case
	genome func(kernel string, salt int) genome.Genome
}

func redFolders(tb testing.TB) []redFolder {
	tb.Helper()
	dirs, err := filepath.Glob(filepath.Join(redteamDir, "*", "kernel.toml"))
	if err != nil || len(dirs) == 0 {
		tb.Fatalf("%s has %d definitions, error %v", redteamDir, len(dirs), err)
	}
	var all []redFolder
	for _, path := range dirs {
		dir := filepath.Dir(path)
		plan, cases, genome := loadZoo(tb, dir)
		all = append(all, redFolder{filepath.Base(dir), plan, cases, genome})
	}
	return all
}

func wantedText(c backendtest.Case) string {
	var text []string
	for _, o := range c.Outcomes() {
		s := string(o.Verdict) + "@" + string(o.Stage)
		if c.Slower > 0 && o.Verdict == evaluator.Correct {
			s += fmt.Sprintf(">=%g", c.Slower)
		}
		text = append(text, s)
	}
	return strings.Join(text, "|")
}

// kept collects what the judge keeps of a result: the reason and all evidence, or
// the failed evidence alone.
func kept(r evaluator.Result, failed bool) string {
	text := []string{r.Reason}
	for _, s := range r.Steps {
		for _, e := range s.Evidence {
			if !failed || e.Outcome == evaluator.Failed {
				text = append(text, e.Check, e.Detail)
			}
		}
	}
	return strings.Join(text, "\n")
}

// fooled says why a result is not what the case wants, or "".
func fooled(c backendtest.Case, r evaluator.Result) string {
	for _, o := range c.Outcomes() {
		if r.Verdict != o.Verdict || r.Stage != o.Stage {
			continue
		}
		if r.Verdict != evaluator.Correct {
			if o.Check != "" && !strings.Contains(strings.ToLower(kept(r, true)), strings.ToLower(o.Check)) {
				return fmt.Sprintf("the right verdict without %q in its evidence", o.Check)
			}
			return ""
		}
		for _, tm := range r.Timings {
			if c.Slower > 0 && tm.Ratio < c.Slower {
				return fmt.Sprintf("it gained: ratio %.3f at %s", tm.Ratio, tm.Shape)
			}
		}
		return ""
	}
	if r.Verdict == evaluator.Correct {
		return "it passed"
	}
	return "another verdict"
}

// leaks says what of a user's or of a terminal's is in the text, or "".
func leaks(text string) string {
	if !utf8.ValidString(text) {
		return "bytes that are not UTF-8"
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
		return fmt.Sprintf("a control character: %q", text[max(0, i-20):min(len(text), i+20)])
	}
	if strings.Contains(text, "root:x:") || strings.Contains(text, "/bin/bash") {
		return "lines of /etc/passwd"
	}
	return ""
}

func short(s string) string {
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return strconv.Quote(s)
}

// TestRedTeam judges every kernel of the red team and prints one line for each:
//
//	RED definition/kind wanted seen ratio reason
//
// and, with REDTEAM_AFTER set, one for an honest kernel after each:
//
//	PAIR definition/kind honest-kernel verdict ratio nanoseconds
//
// A definition or a kind alone: -run 'TestRedTeam$/product/memo-probes-paced'.
func TestRedTeam(t *testing.T) {
	o := cuda.Options{CacheDir: t.TempDir(), Timeout: 20 * time.Second}
	gpuBackend(t, o)
	for _, f := range redFolders(t) {
		t.Run(f.name, func(t *testing.T) {
			ev, err := evaluator.Open(t.Context(), gpuBackend(t, o), f.plan)
			if err != nil {
				fmt.Printf("RED %s - error 0 %s\n", f.name, short(err.Error()))
				t.Fatal(err)
			}
			defer func() {
				if err := ev.Close(); err != nil {
					t.Error(err)
				}
			}()
			for n, c := range f.cases {
				t.Run(c.Kernel, func(t *testing.T) {
					if c.Group == bombs && os.Getenv("REDTEAM_BOMBS") == "" {
						t.Skip("REDTEAM_BOMBS is not set")
					}
					f.judge(t, ev, c, n)
				})
			}
		})
	}
}

// judge judges a case, and an honest kernel after it where something may be left.
// Around a case that may leave the device's heap full that is one that needs the
// heap, before it as well: only then what is wrong after it is of its making.
func (f redFolder) judge(t *testing.T, ev evaluator.Evaluator, c backendtest.Case, n int) {
	name := f.name + "/" + c.Kernel
	heap := strings.HasPrefix(c.Kernel, "heap-")
	if heap {
		r, err := ev.Evaluate(t.Context(), f.genome("honest-heap", 600+n), 0)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != evaluator.Correct {
			fmt.Printf("BEFORE %s honest-heap %s@%s %s\n", name, r.Verdict, r.Stage, short(r.Reason))
			t.Errorf("before %s, honest-heap: %s at %s: %s", name, r.Verdict, r.Stage, r.Reason)
			heap = false
		}
	}
	began := time.Now()
	g := f.genome(c.Kernel, 1+n)
	r, err := ev.Evaluate(t.Context(), g, 0)
	if err == nil && r.Verdict == evaluator.Correct && fooled(c, r) != "" && slices.ContainsFunc(c.Outcomes(), func(o backendtest.Outcome) bool {
		return o.Verdict == evaluator.Parity && o.Stage == evaluator.StageBenchmark
	}) { // a search meets one edge case in a measurement, finals all
		var finals evaluator.Finals
		if finals, err = ev.Finals(t.Context(), []genome.Genome{g}); err == nil {
			r.Verdict, r.Reason = finals.Entries[0].Verdict, "in finals: "+finals.Entries[0].Reason
		}
	}
	if err != nil {
		fmt.Printf("RED %s %s error 0 %s\n", name, wantedText(c), short(err.Error()))
		t.Fatal(err)
	}
	fmt.Printf("RED %s %s %s@%s %.3f %s\n", name, wantedText(c), r.Verdict, r.Stage, r.Fitness, short(r.Reason))
	t.Logf("%s: %.1f s", name, time.Since(began).Seconds())
	if why := fooled(c, r); why != "" {
		fmt.Printf("HOLE %s %s\n", name, why)
		t.Errorf("%s: %s", name, why)
	}
	if what := leaks(kept(r, false)); what != "" {
		fmt.Printf("LEAK %s %s\n", name, strconv.Quote(what))
		t.Errorf("%s: what is kept has %s", name, what)
	}
	faulty := r.Verdict == evaluator.Launch || r.Verdict == evaluator.Timeout || r.Verdict == evaluator.Infrastructure
	if c.Group != "Left behind" && !faulty && os.Getenv("REDTEAM_AFTER") == "" {
		return
	}
	next := []string{"honest"}
	if heap {
		next = append([]string{"honest-heap"}, next...)
	}
	for i, kernel := range next {
		r, err := ev.Evaluate(t.Context(), f.genome(kernel, 300+2*n+i), 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("PAIR %s %s %s %.3f %.0f\n", name, kernel, r.Verdict, r.Fitness, median(r))
		if r.Verdict != evaluator.Correct || r.Fitness < 0.8 || r.Fitness > 1.25 {
			fmt.Printf("AFTER %s %s %s@%s %.3f %s\n", name, kernel, r.Verdict, r.Stage, r.Fitness, short(r.Reason))
			t.Errorf("after %s, %s: %s at %s, ratio %.3f: %s", name, kernel, r.Verdict, r.Stage, r.Fitness, r.Reason)
		}
	}
}

// median is what a launch took at the first tuned shape, in nanoseconds.
func median(r evaluator.Result) float64 {
	if len(r.Timings) == 0 {
		return 0
	}
	return r.Timings[0].MedianNS
}

// TestRedTeamIsComplete: every kernel has a case, and every file is a kernel.
func TestRedTeamIsComplete(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(redteamDir, "KINDS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range redFolders(t) {
		known := []string{"reference", "honest"}
		for _, c := range f.cases {
			known = append(known, c.Kernel)
			f.genome(c.Kernel, 1)
			if honest := strings.HasPrefix(c.Kernel, "honest"); honest != c.Honest {
				t.Errorf("%s/%s: its verdict says honest %t", f.name, c.Kernel, c.Honest)
			}
			if !strings.Contains(string(table), "| "+f.name+" | `"+c.Kernel+"` |") {
				t.Errorf("KINDS.md has no line for %s/%s", f.name, c.Kernel)
			}
		}
		files, err := filepath.Glob(filepath.Join(redteamDir, f.name, "*.cu"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if name := strings.TrimSuffix(filepath.Base(path), ".cu"); !slices.Contains(known, name) {
				t.Errorf("%s has no verdict", path)
			}
		}
	}
}

var (
	redStack = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores`)
	// redUnbuilt may fail to compile by nvcc although they are wanted correct.
	redUnbuilt = []string{"asm-breakout", "warning-escapes"}
)

// TestRedTeamCompilesNightly compiles them all, bombs apart. What may end at another stage than compile
// must compile.
func TestRedTeamCompilesNightly(t *testing.T) {
	longtest.Nightly(t, "cuda", "it compiles some hundred kernels")
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Fatalf("nvcc is not installed: run scripts/setup-cuda-debian.sh: %v", err)
	}
	list, err := filepath.Glob("/usr/local/cuda*/bin/nvcc") // that on the PATH may know no Hopper
	if err != nil {
		t.Fatal(err)
	}
	newer := append([]string{nvcc}, list...)
	for _, f := range redFolders(t) {
		im, nvcc := f.plan.Implementations[0], nvcc
		archs := []string{"sm_80", "sm_90"}
		if im.Target != archs[0] {
			archs, nvcc = []string{im.Target}, newer[len(newer)-1]
		}
		for _, arch := range archs {
			for _, c := range append(f.cases, backendtest.Case{Kernel: "honest", Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark}) {
				if c.Group == bombs {
					continue
				}
				t.Run(f.name+"/"+arch+"/"+c.Kernel, func(t *testing.T) {
					t.Parallel()
					r, err := im.Render(f.genome(c.Kernel, 7))
					if err != nil {
						t.Fatal(err)
					}
					out, err := redCompile(t.Context(), t, nvcc, arch, r)
					if c.Verdict == evaluator.Compile {
						t.Logf("may be refused: %v", err)
						return
					}
					if err != nil {
						if !slices.Contains(redUnbuilt, c.Kernel) {
							t.Errorf("%v\n%q", err, out)
						}
						return
					}
					for _, m := range redStack.FindAllStringSubmatch(out, -1) {
						stack, _ := strconv.ParseInt(m[1], 10, 64)
						spill, _ := strconv.ParseInt(m[2], 10, 64)
						if stack > *im.Binary.MaxStack || spill > *im.Binary.MaxSpill {
							t.Errorf("%s: more than the definition allows", m[0])
						}
					}
				})
			}
		}
	}
}

func redCompile(ctx context.Context, t *testing.T, nvcc, arch string, r kernels.Rendered) (string, error) {
	t.Helper()
	dir := t.TempDir()
	files := maps.Clone(r.Files)
	files[kernels.HeaderFile] = r.Header
	files["kernel.cu"] = "#include \"" + kernels.HeaderFile + "\"\n" + r.Source
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-cubin", "-std=c++17", "-arch=" + arch, "-lineinfo", "-DNDEBUG", "-Xptxas", "-v", "-o", filepath.Join(dir, "kernel.cubin")}
	out, err := exec.CommandContext(ctx, nvcc, append(append(args, r.Flags...), filepath.Join(dir, "kernel.cu"))...).CombinedOutput()
	return string(out), err
}
