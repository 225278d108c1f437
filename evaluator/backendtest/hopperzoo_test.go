package backendtest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

const (
	hopperZooDir = "../testdata/zoo-hopper"
	hopperZooDoc = "../../docs/zoo-hopper.md"
)

// TestHopperZooIsComplete holds the parts together: every kernel but the baseline has a
// verdict and a place in the template, and docs/zoo-hopper.md says what the table says.
func TestHopperZooIsComplete(t *testing.T) {
	text, err := os.ReadFile(hopperZooDir + "/kernel.toml")
	if err != nil {
		t.Fatal(err)
	}
	var definition struct {
		Implementation []struct {
			Parameter []struct {
				Name   string
				Values []string
			}
		}
	}
	if err := toml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	cases, err := LoadCases(hopperZooDir + "/verdicts.toml")
	if err != nil {
		t.Fatal(err)
	}
	template, err := os.ReadFile(hopperZooDir + "/pipeline.cu.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	known := definition.Implementation[0].Parameter[0].Values
	listed := map[string]bool{}
	for _, c := range cases {
		listed[c.Kernel] = true
		if !slices.Contains(known, c.Kernel) {
			t.Errorf("verdicts.toml lists %s, which kernel.toml does not know", c.Kernel)
		}
		if honest := strings.HasPrefix(c.Kernel, "honest"); honest != c.Honest {
			t.Errorf("%s: its verdict says honest %t, its name says %t", c.Kernel, c.Honest, honest)
		}
	}
	for _, name := range known {
		if listed[name] == (name == "honest") {
			t.Errorf("%s: has a verdict %t", name, listed[name])
		}
		if name != "honest" && !strings.Contains(string(template), "\""+name+"\"") {
			t.Errorf("%s: the template does not have it", name)
		}
	}

	page, err := os.ReadFile(hopperZooDoc)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- printed from evaluator/testdata/zoo-hopper/verdicts.toml -->\n"
	head, table, found := strings.Cut(string(page), mark)
	if !found {
		t.Fatalf("%s has no line %q", hopperZooDoc, strings.TrimSpace(mark))
	}
	want := Table(cases)
	if table == want {
		return
	}
	if !*update {
		t.Fatalf("%s does not say what %s/verdicts.toml says; run the test with -update", hopperZooDoc, hopperZooDir)
	}
	if err := os.WriteFile(hopperZooDoc, []byte(head+mark+want), 0o644); err != nil {
		t.Fatal(err)
	}
}
