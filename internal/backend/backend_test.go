package backend

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every backend has the facts that others rely on, and no two share what one is found by.
func TestFacts(t *testing.T) {
	seen := map[string]string{}
	for i, f := range All() {
		for _, by := range []string{"name " + f.Name, "source " + f.Source} {
			if seen[by] != "" || strings.HasSuffix(by, " ") {
				t.Errorf("%s and %s: the %q", seen[by], f.Name, by)
			}
			seen[by] = f.Name
		}
		if f.Accelerator == (i == 0) {
			t.Errorf("%s: the first of All is the host's processor, and no other", f.Name)
		}
		if f.Device == "" || f.Language == "" || f.Flag == nil || f.Rules == nil || len(f.Sandbox) == 0 {
			t.Errorf("%s lacks facts: %+v", f.Name, f)
		}
		if f.Accelerator && (f.Dialect == nil || f.Window == 0 || !f.Has(Launch)) {
			t.Errorf("%s is an accelerator and has no dialect, no window or no launch geometry", f.Name)
		}
		if Of(f.Name) != f || OfSource(f.Source) != f {
			t.Errorf("%s is not found", f.Name)
		}
	}
	if f := Of("recorded"); f.Rules != nil || f.Accelerator || f.Has(Launch) || OfSource(".py") != nil {
		t.Errorf("an unknown backend has facts: %+v", f)
	}
}

// Code that decides by a backend's name has to be found and changed for each new backend. Only the
// backend's own folders do that; all others ask for a fact.
func TestDecisionsByName(t *testing.T) {
	root := filepath.Join("..", "..")
	own := map[string]bool{"bin": true}
	for _, name := range Names() {
		own["evaluator/"+name], own["cmd/tune-"+name] = true, true
	}
	lower, upper := strings.Join(Names(), "|"), strings.ToUpper(strings.Join(Names(), "|"))
	quick := regexp.MustCompile(upper + `|"(` + lower + `)"`)
	compared := regexp.MustCompile(`(==|!=|case) ("(` + lower + `)"|(evotune\.|backend\.|kernels\.)(` + upper + `)\b)|[bB]ackend (==|!=) (` + upper + `)\b`)
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || len(d.Name()) > 1 && d.Name()[0] == '.' || own[path]):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		for i, line := range strings.Split(string(text), "\n") {
			if quick.MatchString(line) && compared.MatchString(line) {
				t.Errorf("%s:%d: %s", path, i+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
