//go:build linux

package cpu_test

import (
	"os"
	"testing"

	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/kernels"
)

// TestRedTeamLoads: the red team's definitions and tables of verdicts load, and
// each kernel but the baseline has a verdict.
func TestRedTeamLoads(t *testing.T) {
	for _, name := range []string{"product", "softmax", "layernorm", "rowmax"} {
		def, err := kernels.Load(os.DirFS("../testdata/redteam"), name)
		if err != nil {
			t.Error(err)
			continue
		}
		cases, err := backendtest.LoadCases("../testdata/redteam/" + name + "/verdicts.toml")
		if err != nil {
			t.Error(err)
			continue
		}
		listed := map[string]bool{"honest": true}
		for _, c := range cases {
			listed[c.Kernel] = true
		}
		for _, gene := range zooSpace(t, def).Genes() {
			if gene.Name != "KERNEL" {
				continue
			}
			for _, v := range gene.Values {
				if !listed[v.Any().(string)] {
					t.Errorf("%s: kernel %v has no verdict", name, v.Any())
				}
			}
			if len(gene.Values) != len(listed) {
				t.Errorf("%s: %d kernels, %d verdicts", name, len(gene.Values), len(listed))
			}
		}
	}
}
