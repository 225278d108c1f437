package backendtest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

const hopperZooDir = "../testdata/zoo-hopper"

// TestHopperZooIsComplete holds the parts together: every kernel but the baseline has a
// verdict and a place in the template.
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
}
