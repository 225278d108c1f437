package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// judgeFile runs tune judge.
func judgeFile(t *testing.T, args ...string) judgment {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"judge", "--json"}, args...), nil, &stdout, &stderr)
	var j judgment
	if err := json.Unmarshal(stdout.Bytes(), &j); err != nil {
		t.Fatalf("tune judge %s: exit status %d: %s", strings.Join(args, " "), code, stderr.String())
	}
	if j.Status != code || stderr.Len() > 0 {
		t.Errorf("tune judge %s: exit status %d, and %d in what it prints; standard error: %s", strings.Join(args, " "), code, j.Status, stderr.String())
	}
	return j
}

func needGCC(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOOS != "linux" {
		t.Skip("no C compiler on Linux: kernels cannot be run")
	}
}

// TestJudgeZoo: each file of the zoo, by itself, gets the zoo's verdict.
func TestJudgeZoo(t *testing.T) {
	longtest.Skip(t, "judges the zoo")
	needGCC(t)
	const dir = "../../evaluator/testdata/zoo"
	cases, err := backendtest.LoadCases(filepath.Join(dir, "verdicts.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"honest", "honest-twin", "honest-slow", "honest-threads"} {
		cases = append(cases, backendtest.Case{Kernel: name, Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark})
	}
	for _, c := range cases {
		file := filepath.Join(dir, c.Kernel+".c")
		if _, err := os.Stat(file); err != nil {
			continue // a fault of the template, which is no file
		}
		t.Run(c.Kernel, func(t *testing.T) {
			j := judgeFile(t, file, "--kernel", "zoo", "--kernels", dir)
			for _, tool := range j.Description.Tools {
				if tool.Name == c.Needs && tool.Missing != "" {
					t.Skipf("without %s: %s", tool.Name, tool.Missing)
				}
			}
			said := j.Reason
			for _, s := range j.Result.Steps {
				for _, e := range s.Evidence {
					if e.Outcome == evaluator.Failed {
						said += "\n" + e.Check + ": " + e.Detail
					}
				}
			}
			ends := append([]backendtest.Outcome{{Verdict: c.Verdict, Stage: c.Stage, Check: c.Check}}, c.Or...)
			for _, end := range ends {
				if j.Verdict == end.Verdict && j.Stage == end.Stage && strings.Contains(strings.ToLower(said), strings.ToLower(end.Check)) &&
					(c.Slower == 0 || j.Verdict != evaluator.Correct || 1/j.Speedup >= c.Slower) {
					return
				}
			}
			t.Errorf("%s at %s, %.3fx: %s; want one of %+v, no faster than 1/%g", j.Verdict, j.Stage, j.Speedup, said, ends, c.Slower)
		})
	}
}

// TestJudgeRendered: what evotune wrote itself, in one file, is correct: of every
// implementation for the CPU of every built-in kernel.
func TestJudgeRendered(t *testing.T) {
	longtest.Skip(t, "judges the built-in kernels")
	needGCC(t)
	builtin, err := fs.ReadDir(kernels.Builtin(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range builtin {
		d, err := kernels.Load(kernels.Builtin(), e.Name())
		if err != nil {
			t.Fatal(err)
		}
		write := func(name string, r kernels.Rendered) string {
			file := filepath.Join(t.TempDir(), name+".c")
			if err := os.WriteFile(file, []byte(r.Directives(r.Entry)+r.SelfContained()), 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		}
		for _, im := range d.On("cpu").Implementations {
			shape := im.Problem().ShapesFor(kernels.Tune)[:1]
			space, err := d.Space([]*kernels.Implementation{im}, shape, nil)
			if err != nil {
				t.Fatal(err)
			}
			g := space.Random(rand.New(rand.NewSource(1)))
			r, err := im.Render(g)
			if err != nil {
				t.Fatal(err)
			}
			base, err := im.RenderBaseline(shape...)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(d.Name+" "+im.Name, func(t *testing.T) {
				for _, file := range []string{write("baseline", base), write("random", r)} {
					if j := judgeFile(t, file, "--kernel", d.Name); j.Verdict != evaluator.Correct || j.Finals == nil || j.Speedup <= 0 {
						t.Errorf("%s (%s): %s at %s: %s", filepath.Base(file), g, j.Verdict, j.Stage, j.Reason)
					}
				}
			})
		}
	}
}
