package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/internal/docs"
)

const root = "../.."

func pages(t *testing.T) []*docs.Page {
	t.Helper()
	out, err := docs.Pages(root)
	if err != nil || len(out) < 10 {
		t.Fatalf("%d pages: %v", len(out), err)
	}
	return out
}

// TestSize: the first page fits on a screen or two. No other page has a limit: it is as
// long as its task needs.
func TestSize(t *testing.T) {
	const most = 5120 // bytes
	p, err := docs.Read(root, "README.md")
	if err != nil {
		t.Fatal(err)
	}
	if size := p.Size(); size > most {
		t.Errorf("README.md has %d bytes, at most %d are allowed", size, most)
	}
}

// TestOpening: a page of docs says first what it is for, and shows a command.
func TestOpening(t *testing.T) {
	const within = 12 // lines
	prose := regexp.MustCompile("^[A-Z`\\[*]")
	for _, p := range pages(t) {
		if path.Dir(p.Path) != "docs" {
			continue
		}
		if len(p.Lines) < 3 || !strings.HasPrefix(p.Lines[0].Text, "# ") || p.Lines[2].Code || !prose.MatchString(p.Lines[2].Text) {
			t.Errorf("%s:3: say here, below the title, what the page is for", p.Path)
		}
		if c := p.Commands(); len(c) == 0 || c[0].Line > within {
			t.Errorf("%s: show a command in the first %d lines", p.Path, within)
		}
	}
}

// TestMentions follows what code, scripts and definitions say of pages.
func TestMentions(t *testing.T) {
	page := regexp.MustCompile(`\bdocs/[\w-]+\.md(#[\w-]+)?`)
	n := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || name == "dist" || name == "node_modules"):
			return filepath.SkipDir
		case !slices.Contains([]string{".go", ".py", ".sh", ".toml", ".cu", ".c", ".tmpl", ".yml", ".md"}, filepath.Ext(name)):
			return nil
		}
		text, err := os.ReadFile(file)
		for i, line := range strings.Split(string(text), "\n") {
			for _, target := range page.FindAllString(line, -1) {
				n++
				if what := follow(target); what != "" {
					t.Errorf("%s:%d: %s", strings.TrimPrefix(file, root+"/"), i+1, what)
				}
			}
		}
		return err
	})
	if err != nil || n < 100 {
		t.Fatalf("%d mentions: %v", n, err)
	}
}

var aFile = regexp.MustCompile("`((?:docs|scripts|examples|bench|\\.github)/[\\w./-]+)`")

// TestLinks follows every link to a file, with its anchor, and every file that is
// named in full.
func TestLinks(t *testing.T) {
	all := pages(t)
	records, err := docs.Read(root, "docs/evidence/h200/README.md")
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, records)
	var found []docs.Finding
	for _, p := range all {
		for i, line := range p.Lines {
			if line.Code {
				continue
			}
			targets := p.Links(line)
			for _, m := range aFile.FindAllStringSubmatch(line.Text, -1) {
				targets = append(targets, m[1])
			}
			for _, target := range targets {
				if what := follow(target); what != "" {
					found = append(found, docs.Finding{File: p.Path, Line: i + 1, What: what})
				}
			}
		}
	}
	for _, f := range found {
		t.Error(f)
	}
}

// follow says what is wrong with a link.
func follow(target string) string {
	file, anchor, _ := strings.Cut(target, "#")
	if _, err := os.Stat(filepath.Join(root, file)); err != nil {
		return fmt.Sprintf("there is no %s", file)
	}
	if anchor == "" {
		return ""
	}
	p, err := docs.Read(root, file)
	if err != nil || !slices.Contains(p.Anchors(), anchor) {
		return fmt.Sprintf("%s has no heading #%s", file, anchor)
	}
	return ""
}

// words are not to be used; the value says what to use instead.
var words = map[string]string{
	`mend(s|ed|ing)?`: "fix",
	`cannot leave|what is not proven (stays|is refused)`: "cannot be exported; unproven kernels are not exported",
	`race that there is not`:                             "a false positive",
	`(is|are) no (numbers?|faster|slower|better|worse)`:  "is not ...",
	`gives? others nothing`:                              "hides",
	`let .* loose`:                                       "run",
	`red[ -]zones?|canary|canaries`:                      "guard",
	`fence[sd]?`:                                         "guard; a memory fence is a term",
	`graze[sd]?|litters?|bears?|bore|outposts?`:          "seen, offspring, produce",
	`of ours|ours alone`:                                 "our ...",
	`earlier version of the search`:                      "search version N",
	`aloud`:                                              "prints a warning",
	`(neighbour|behaviour|colour|favour|licence)\w*`:     "American spelling",
	`(optim|minim|maxim|normal|recogn|initial|organ|summar)is(e|ed|es|ing|ation)`: "American spelling",
}

// terms contain such words and are not meant.
var terms = regexp.MustCompile(`(?i)memory fences?|__threadfence\w*|fence\.\w+`)

// anyWord finds a line in which one of words may be: most have none.
var anyWord = regexp.MustCompile(`(?i)\b(` + strings.Join(slices.Sorted(maps.Keys(words)), "|") + `)\b`)

func misworded(file string, line int, text string) []docs.Finding {
	var out []docs.Finding
	if text = terms.ReplaceAllString(text, ""); !anyWord.MatchString(text) {
		return nil
	}
	for _, pattern := range slices.Sorted(maps.Keys(words)) {
		if m := regexp.MustCompile(`(?i)\b(` + pattern + `)\b`).FindString(text); m != "" {
			out = append(out, docs.Finding{File: file, Line: line, What: fmt.Sprintf("%q: say %q", m, words[pattern])})
		}
	}
	return out
}

// TestWords looks for them in the pages and in all that programs print.
func TestWords(t *testing.T) {
	var found []docs.Finding
	for _, p := range pages(t) {
		for i, line := range p.Lines {
			if !line.Code {
				found = append(found, misworded(p.Path, i+1, line.Prose())...)
			}
		}
	}
	var files []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "docs" && strings.HasSuffix(filepath.Dir(file), "internal")) {
			return fs.SkipDir
		}
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			files = append(files, file)
		}
		return err
	})
	if err != nil || len(files) < 100 {
		t.Fatalf("%d files in Go: %v", len(files), err)
	}
	for _, file := range files {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
				first := set.Position(s.Pos()).Line
				for i, text := range strings.Split(s.Value, "\n") {
					found = append(found, misworded(strings.TrimPrefix(file, root+"/"), first+i, text)...)
				}
			}
			return true
		})
	}
	for _, f := range found {
		t.Error(f)
	}
}

// TestReading holds the reader of pages to one that has some of everything; ~
// stands for a backtick.
func TestReading(t *testing.T) {
	dir := t.TempDir()
	text := strings.ReplaceAll(`# A page: its ~title~

See [there](../b.md#x) and [~here~](#a-page-its-title), not [outside](https://example.com) or ~[code](c.md)~.
Type ~tune best KERNEL [--json]~ or ~go test ./x -run 'A\|B'~, not ~go~.

~~~sh
tune run sgemm --time 3m && scripts/x.sh  # then wait
LANG=C sudo bin/tune list | head -3 >out
~~~

## A page: its title

<!-- needs a GPU -->

    tune run gemm --backend cuda
    not a command

    (cd x && go test ./...)

<!-- needs a GPU -->
    tune doctor

Text.

~~~
$ tune query 'a && "b"' --sort=-"x y"
tune, as it prints
~~~
`, "~", "`")
	if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := docs.Read(dir, "a.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a-page-its-title", "a-page-its-title-1"}, p.Anchors()); d != "" {
		t.Errorf("anchors (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"../b.md#x", "a.md#a-page-its-title"}, p.Links(p.Lines[2])); d != "" {
		t.Errorf("links (-want +got):\n%s", d)
	}
	if p.Size() != len(text) {
		t.Errorf("size %d, want %d", p.Size(), len(text))
	}
	type c = docs.Command
	want := []c{
		{Page: "a.md", Line: 4, Inline: true, Words: []string{"tune", "best", "KERNEL", "--json"}},
		{Page: "a.md", Line: 4, Inline: true, Words: []string{"go", "test", "./x", "-run", "A|B"}},
		{Page: "a.md", Line: 7, Words: []string{"tune", "run", "sgemm", "--time", "3m"}},
		{Page: "a.md", Line: 7, Words: []string{"scripts/x.sh"}},
		{Page: "a.md", Line: 8, Words: []string{"bin/tune", "list"}},
		{Page: "a.md", Line: 8, Words: []string{"head", "-3"}},
		{Page: "a.md", Line: 15, GPU: true, Words: []string{"tune", "run", "gemm", "--backend", "cuda"}},
		{Page: "a.md", Line: 18, GPU: true, Words: []string{"cd", "x"}},
		{Page: "a.md", Line: 18, GPU: true, Words: []string{"go", "test", "./..."}},
		{Page: "a.md", Line: 21, GPU: true, Words: []string{"tune", "doctor"}},
		{Page: "a.md", Line: 26, Words: []string{"tune", "query", `a && "b"`, "--sort=-x y"}},
	}
	if d := cmp.Diff(want, p.Commands()); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
}

// TestArchitecture looks for every package in the picture of docs/architecture.md.
func TestArchitecture(t *testing.T) {
	page, err := docs.Read(root, "docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var picture strings.Builder
	for _, l := range page.Lines {
		if l.Code {
			picture.WriteString(l.Text + "\n")
		}
	}
	packages := map[string]bool{}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && (name == "testdata" || name == "examples" || name == "scripts" || name == "bin" || name == "gputest" || strings.HasPrefix(name, ".") && name != ".."):
			if file != root {
				return filepath.SkipDir
			}
		case strings.HasSuffix(name, ".go"):
			if dir, err := filepath.Rel(root, filepath.Dir(file)); err == nil && dir != "." {
				packages[filepath.ToSlash(dir)] = true
			}
		}
		return nil
	})
	if err != nil || len(packages) < 20 {
		t.Fatalf("%d packages: %v", len(packages), err)
	}
	for _, p := range slices.Sorted(maps.Keys(packages)) {
		shown := false
		for name := p; !shown; _, name, _ = strings.Cut(name, "/") { // cmd/tune, or its last parts
			shown = regexp.MustCompile(`(?m)(^|[\s/])` + regexp.QuoteMeta(name) + `(/|\s|,|$)`).MatchString(picture.String())
			if !strings.Contains(name, "/") {
				break
			}
		}
		if !shown {
			t.Errorf("the picture in docs/architecture.md does not show %s", p)
		}
	}
}
