//go:build linux

package cpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// TestReach: of the red team's kernels that do something at large shapes alone, the lines
// that do it are named; of an honest one that does the same everywhere, none.
func TestReach(t *testing.T) {
	const folder = "../testdata/redteam"
	def, err := kernels.Load(os.DirFS(folder), "product")
	if err != nil {
		t.Fatal(err)
	}
	o := open(t, def, quick(asanName))
	l := o.lab
	if l.reachless != nil || len(l.flavours) == 0 {
		t.Skipf("skipped: %v, %d sanitizers", l.reachless, len(l.flavours))
	}
	for kernel, line := range map[string]string{
		"honest": "", "honest-large-frame": "",
		"read-past-end-large": "sink = B[",
		"data-race-large":     "rows_done)++",
		"aligned-large":       "_mm_load_ps(b + j)",
	} {
		src, err := l.Plan.Implementations[0].Render(o.genome(t, "KERNEL", kernel, "SALT", 0, "REPORT", false))
		if err != nil {
			t.Fatal(err)
		}
		a, report, err := l.Build(t.Context(), src)
		if err != nil || report.Refused != "" {
			t.Fatalf("%s: %v, %s", kernel, err, report.Log)
		}
		begin := time.Now()
		list, err := l.Profile(t.Context(), a)
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %v, %+v", kernel, err, list)
		}
		e := list[0]
		t.Logf("%s after %v: %s: %s", kernel, time.Since(begin), e.Outcome, e.Detail)
		if line == "" {
			if e.Outcome != evaluator.Passed {
				t.Errorf("%s: %s: %s", kernel, e.Outcome, e.Detail)
			}
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, "product", kernel+".c"))
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := strings.Cut(string(text), line)
		number := 1 + strings.Count(before, "\n")
		if e.Outcome != evaluator.NotRun || !strings.Contains(e.Detail, "and not at shape small") || !names(e.Detail, kernel+".c", number) {
			t.Errorf("%s: %s: %s; want line %d", kernel, e.Outcome, e.Detail, number)
		}
	}
}

// names says whether a list such as "kernel.c:12-15, 40" has a line of a file.
func names(list, file string, line int) bool {
	_, list, _ = strings.Cut(list, file+":")
	for place := range strings.SplitSeq(list, ", ") {
		var first, last int
		if n, _ := fmt.Sscanf(place, "%d-%d", &first, &last); n == 1 {
			last = first
		}
		if first <= line && line <= last {
			return true
		}
	}
	return false
}
