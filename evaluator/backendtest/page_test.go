package backendtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evotune/evotune/kernels"
)

var update = flag.Bool("update", false, "write the tables of docs/evidence/zoo.md from the verdicts")

const zooList = "../../docs/evidence/zoo.md"

// zoos are those that the page lists. Parts are the kernels that the suite's Harness has for parts of their own, and that
// have no verdict therefore.
var zoos = []struct {
	dir, title string
	parts      []string
}{
	{"zoo", "On a CPU", []string{"honest", "honest-twin", "honest-slow", "honest-threads"}},
	{"zoo-cuda", "On a GPU", []string{"honest", "honest-twin", "honest-slow"}},
	{"zoo-hopper", "On Hopper", []string{"honest"}},
}

// TestZoosAreComplete holds the files of each zoo together: every kernel has a verdict or a part of its own in the suite,
// and a source: a file, or a place in the template. Every file is a kernel's, or shared by some.
func TestZoosAreComplete(t *testing.T) {
	for _, z := range zoos {
		dir := "../testdata/" + z.dir
		def, err := kernels.LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := LoadCases(dir + "/verdicts.toml")
		if err != nil {
			t.Fatal(err)
		}
		im := def.Implementations[0]
		template, err := os.ReadFile(filepath.Join(dir, im.Template))
		if err != nil {
			t.Fatal(err)
		}
		listed, known := map[string]bool{}, zooKernels(im)
		for _, c := range cases {
			listed[c.Kernel] = true
			if !slices.Contains(known, c.Kernel) {
				t.Errorf("%s: verdicts.toml lists %s, which kernel.toml does not know", z.dir, c.Kernel)
			}
			if honest := strings.HasPrefix(c.Kernel, "honest"); honest != c.Honest {
				t.Errorf("%s: %s: its verdict says honest %t, its name says %t", z.dir, c.Kernel, c.Honest, honest)
			}
		}
		files := map[string]bool{}
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if name, source := strings.CutSuffix(f.Name(), filepath.Ext(strings.TrimSuffix(im.Template, ".tmpl"))); source {
				files[name] = true
				if name != "reference" && !slices.Contains(known, name) {
					t.Errorf("%s: %s is not a kernel of the zoo", z.dir, f.Name())
				}
			}
		}
		for _, name := range known {
			if part := slices.Contains(z.parts, name); listed[name] == part {
				t.Errorf("%s: %s: has a verdict %t, a part of its own %t", z.dir, name, listed[name], part)
			}
			if name != "honest" && !files[name] && !strings.Contains(string(template), "\""+name+"\"") {
				t.Errorf("%s: %s: there is no file, and the template does not have it", z.dir, name)
			}
		}
	}
}

// TestZooPage: docs/evidence/zoo.md lists what verdicts.toml of each zoo says.
func TestZooPage(t *testing.T) {
	text, err := os.ReadFile(zooList)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- printed from evaluator/testdata/zoo*/verdicts.toml -->\n"
	head, tables, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no line %q", zooList, strings.TrimSpace(mark))
	}
	var want strings.Builder
	for _, z := range zoos {
		cases, err := LoadCases("../testdata/" + z.dir + "/verdicts.toml")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "\n## %s\n\n| `%s` | what it does | verdict |\n|---|---|---|\n", z.title, z.dir)
		group := ""
		for _, c := range cases {
			if c.Group != group {
				group = c.Group
				fmt.Fprintf(&want, "| **%s** | | |\n", group)
			}
			fmt.Fprintf(&want, "| `%s` | %s | %s |\n", c.Kernel, strings.ReplaceAll(c.Does, "|", `\|`), c.Verdict)
		}
	}
	if tables == want.String() {
		return
	}
	if !*update {
		t.Fatalf("%s does not list what verdicts.toml says: run the test with -update", zooList)
	}
	if err := os.WriteFile(zooList, []byte(head+mark+want.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTenWays: what the page names as shown by exists, for each of the ten ways to be
// fooled.
func TestTenWays(t *testing.T) {
	text, err := os.ReadFile(zooList)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string][]Case{}
	for _, z := range zoos {
		if cases[z.dir], err = LoadCases("../testdata/" + z.dir + "/verdicts.toml"); err != nil {
			t.Fatal(err)
		}
	}
	rows := 0
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.TrimSpace(cells[1]) != strconv.Itoa(rows+1) {
			continue
		}
		rows++
		names := quoted.FindAllStringSubmatch(cells[4], -1)
		if len(names) == 0 {
			t.Errorf("row %d is shown by nothing", rows)
		}
		for _, m := range names {
			file, test, isTest := strings.Cut(m[1], ":")
			if isTest {
				source, err := os.ReadFile(filepath.Join("../..", file))
				if err != nil || !strings.Contains(string(source), "\nfunc "+test+"(t *testing.T)") {
					t.Errorf("row %d: there is no test %s in %s (%v)", rows, test, file, err)
				}
				continue
			}
			zoo, kernel, _ := strings.Cut(m[1], "/")
			if !slices.ContainsFunc(cases[zoo], func(c Case) bool { return c.Kernel == kernel }) {
				t.Errorf("row %d: %s is not a case of a zoo", rows, m[1])
			}
		}
	}
	if rows != 10 {
		t.Errorf("%d rows, want 10", rows)
	}
}
