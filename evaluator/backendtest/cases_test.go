package backendtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// The judge of the suite must not pass what it is there to find.
func TestJudge(t *testing.T) {
	failed := func(v evaluator.Verdict, s evaluator.Stage, reason string, e ...evaluator.Evidence) evaluator.Result {
		return evaluator.Result{
			Verdict: v, Stage: s, Reason: reason,
			Steps: []evaluator.Step{{Stage: s, Outcome: evaluator.Failed, Evidence: e}},
		}
	}
	guard := Case{Kernel: "write-past-end", Verdict: evaluator.Parity, Stage: evaluator.StageParity, Check: "guard: wrote"}
	slow := Case{Kernel: "clock-tampering", Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark, Slower: 2}
	either := guard
	either.Or = []Outcome{{evaluator.Sanitizer, evaluator.StageSanitize, "memcheck"}, {evaluator.Timeout, evaluator.StageParity, ""}}
	for _, test := range []struct {
		name string
		c    Case
		r    evaluator.Result
		want string // part of the complaint; empty: none
	}{
		{"right, by the reason", guard, failed(evaluator.Parity, evaluator.StageParity, "Guard: wrote byte 0 behind the end of C"), ""},
		{
			"right, by evidence", guard,
			failed(evaluator.Parity, evaluator.StageParity, "memory", evaluator.Evidence{Check: "guard: wrote to C", Outcome: evaluator.Failed}), "",
		},
		{
			"evidence that passed shows nothing", guard,
			failed(evaluator.Parity, evaluator.StageParity, "error 1", evaluator.Evidence{Check: "guard: wrote to C", Outcome: evaluator.Passed}),
			"by another check",
		},
		{"by another check", guard, failed(evaluator.Parity, evaluator.StageParity, "error 1"), "by another check"},
		{"wrong verdict", guard, failed(evaluator.Launch, evaluator.StageParity, "guard: wrote byte 0"), "got launch"},
		{"wrong stage", guard, failed(evaluator.Parity, evaluator.StageBenchmark, "guard: wrote byte 0"), "at benchmark"},
		{"passed", guard, evaluator.Result{Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark}, "got correct"},
		{"no reason", guard, failed(evaluator.Parity, evaluator.StageParity, ""), "no reason"},
		{"no step", guard, evaluator.Result{Verdict: evaluator.Parity, Stage: evaluator.StageParity, Reason: "guard: wrote byte 0"}, "no step"},
		{"a fitness all the same", guard, func() evaluator.Result {
			r := failed(evaluator.Parity, evaluator.StageParity, "guard: wrote byte 0")
			r.Fitness = 1
			return r
		}(), "fitness"},
		{"either, the expected", either, failed(evaluator.Parity, evaluator.StageParity, "guard: wrote byte 0"), ""},
		{"either, the second", either, failed(evaluator.Sanitizer, evaluator.StageSanitize, "memcheck: a write"), ""},
		{"either, the last", either, failed(evaluator.Timeout, evaluator.StageParity, "no answer"), ""},
		{"either, the second by another check", either, failed(evaluator.Sanitizer, evaluator.StageSanitize, "racecheck"), "\"memcheck\" occurs neither"},
		{"either, and neither", either, failed(evaluator.Launch, evaluator.StageParity, "guard: wrote byte 0"), "want parity at parity"},
		{"either, passed", either, evaluator.Result{Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark}, "got correct"},
		{"gained nothing", slow, evaluator.Result{
			Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark, Timings: []evaluator.Timing{{Shape: "s", Ratio: 4}},
		}, ""},
		{"gained", slow, evaluator.Result{
			Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark, Timings: []evaluator.Timing{{Shape: "s", Ratio: 0.004}},
		}, "gained"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.c.Judge(test.r)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("judge says %q, want %q", got, test.want)
			}
		})
	}
}

func TestLoadCases(t *testing.T) {
	const good = "[[case]]\nkernel=\"a\"\ngroup=\"g\"\ndoes=\"d\"\nverdict=\"parity\"\nstage=\"parity\"\n"
	for _, test := range []struct{ name, text, want string }{
		{"good", good, ""},
		{"none", "", "no cases"},
		{"unknown key", good + "colour = \"red\"\n", "colour"},
		{"twice", good + good, "twice"},
		{"no such verdict", strings.Replace(good, `verdict="parity"`, `verdict="pretty"`, 1), "pretty"},
		{"no such stage", strings.Replace(good, `stage="parity"`, `stage="finals"`, 1), "finals"},
		{"passes", strings.Replace(good, `verdict="parity"`, `verdict="correct"`, 1), "slower"},
		{"passes, and is honest", strings.Replace(good, `verdict="parity"`, "honest=true\nverdict=\"correct\"", 1), ""},
		{"honest, and refused", good + "honest=true\n", "honest"},
		{"or", good + "or=[{verdict=\"timeout\",stage=\"parity\"}]\n", ""},
		{"or no such verdict", good + "or=[{verdict=\"late\",stage=\"parity\"}]\n", "late"},
		{"or correct", good + "or=[{verdict=\"correct\",stage=\"benchmark\"}]\n", "no other outcome"},
		{"nothing said", strings.Replace(good, `does="d"`, ``, 1), "required"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "verdicts.toml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cases, err := LoadCases(path)
			switch {
			case test.want == "" && (err != nil || len(cases) != 1):
				t.Errorf("LoadCases: %d cases, error %v", len(cases), err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("LoadCases: error %v, want one about %q", err, test.want)
			}
		})
	}
}

// What the suite uses to find processes that were left must find them, in
// whatever group or session they hide.
func TestDescendantsAreFound(t *testing.T) {
	if _, ok := descendants(); !ok {
		t.Skip("no /proc here")
	}
	process.AdoptOrphans()
	known, _ := descendants()
	if err := exec.Command("sh", "-c", "sleep 47 >/dev/null 2>&1 & exit 0").Run(); err != nil {
		t.Skipf("no shell: %v", err)
	}
	var orphan process.Entry
	if !eventually(5*time.Second, func() bool {
		now, _ := descendants()
		for _, p := range now {
			if p.Name == "sleep" && !slices.ContainsFunc(known, func(k process.Entry) bool { return k.PID == p.PID }) {
				orphan = p
				return true
			}
		}
		return false
	}) {
		t.Fatal("a process whose parent has ended was not found")
	}
	if err := syscall.Kill(orphan.PID, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := syscall.Wait4(orphan.PID, nil, 0, nil); err != nil {
		t.Error(err)
	}
	noProcesses(t, known, 0, time.Second)
}
