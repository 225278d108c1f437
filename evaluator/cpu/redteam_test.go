//go:build linux

package cpu_test

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

var redOut = flag.String("redteam.out", "", "TestRedTeamTable: write the table to this `FILE.csv`")

// redTeam are the red team's definitions.
var redTeam = []string{"product", "softmax", "layernorm", "rowmax"}

// notYet are kernels whose verdict another part of the ordeal would have to give.
var notYet = map[string]string{
	"product/known-shapes-only": "right on all contents at every shape that the definition names",
}

// TestRedTeamBites: of the kernels that are wrong on data that bite none is believed,
// and all honest ones are. It prints a line for each kind.
func TestRedTeamBites(t *testing.T) {
	longtest.Skip(t, "it judges some fifty kernels")
	for _, name := range redTeam {
		def, err := kernels.Load(os.DirFS("../testdata/redteam"), name)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := backendtest.LoadCases("../testdata/redteam/" + name + "/verdicts.toml")
		if err != nil {
			t.Fatal(err)
		}
		plan := zooPlan(t, def)
		b, err := cpu.New(cpu.Options{CacheDir: t.TempDir(), Sanitizers: []string{"none"}})
		if err != nil {
			t.Fatal(err)
		}
		o, err := evaluator.Open(t.Context(), b, plan)
		if err != nil {
			t.Fatal(err)
		}
		space := zooSpace(t, def)
		for _, c := range cases {
			if !strings.HasPrefix(c.Group, "2.") && !strings.HasPrefix(c.Kernel, "honest") {
				continue
			}
			values := map[string]any{"KERNEL": c.Kernel, "SALT": 0}
			if name == "product" {
				values["REPORT"] = false
			}
			g, err := space.FromMap(values)
			if err != nil {
				t.Fatal(err)
			}
			r, err := o.Evaluate(t.Context(), g, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("RED %s/%s wants %s, gets %s %s", name, c.Kernel, c.Verdict, r.Verdict, r.Reason)
			step, _ := r.Step(evaluator.StageParity)
			for _, e := range step.Evidence {
				if e.Outcome == evaluator.NotRun {
					t.Errorf("%s: %s says nothing: %s", name, e.Check, e.Detail)
				}
			}
			if why := notYet[name+"/"+c.Kernel]; r.Verdict != c.Verdict && why == "" {
				t.Errorf("%s/%s (%s) gets %s, not %s", name, c.Kernel, c.Does, r.Verdict, c.Verdict)
			}
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRedTeamTable judges every kernel of the red team, through all stages and in the
// finals where it is believed, and writes a table.
//
//	go test ./evaluator/cpu -run TestRedTeamTable -timeout 60m -redteam.out FILE.csv
func TestRedTeamTable(t *testing.T) {
	if *redOut == "" {
		t.Skip("writes a table where -redteam.out says")
	}
	table := [][]string{{"kernel", "family", "wanted", "verdict", "stage", "ratio", "reason"}}
	for _, name := range redTeam {
		def, err := kernels.Load(os.DirFS("../testdata/redteam"), name)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := backendtest.LoadCases("../testdata/redteam/" + name + "/verdicts.toml")
		if err != nil {
			t.Fatal(err)
		}
		o := zooOptions(t)
		o.Timeout = 20 * time.Second
		ev := opener(t, zooPlan(t, def), o)(t)
		space := zooSpace(t, def)
		for _, c := range cases {
			g := redKernel(t, space, c.Kernel, 3)
			r, err := ev.Evaluate(t.Context(), g, 0)
			if err != nil {
				t.Fatalf("%s: %v", c.Kernel, err)
			}
			row := []string{name + "/" + c.Kernel, c.Group, string(c.Verdict), string(r.Verdict), string(r.Stage), "", r.Reason}
			if r.Verdict == evaluator.Correct {
				f, err := ev.Finals(t.Context(), []genome.Genome{g})
				if err != nil {
					t.Fatalf("%s: %v", c.Kernel, err)
				}
				e := f.Entries[0]
				row[3], row[4], row[5], row[6] = string(e.Verdict), "finals", fmt.Sprintf("%.3f", e.Fitness), e.Reason
			}
			row[6] = strings.SplitN(row[6], "\n", 2)[0]
			t.Log(row)
			table = append(table, row)
		}
		if err := ev.Close(); err != nil {
			t.Error(err)
		}
	}
	f, err := os.Create(*redOut)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(csv.NewWriter(f).WriteAll(table), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRedTeamLoads: the red team's definitions and tables of verdicts load, and
// each kernel but the baseline has a verdict.
func TestRedTeamLoads(t *testing.T) {
	for _, name := range redTeam {
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
