package tables

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

func examine(t *testing.T, text string) Summary {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Examine(path, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSummary(t *testing.T) {
	s := examine(t, `{"device_name": "Card", "kernel_name": "k", "tune_params_keys": ["bx", "how"], "tune_params": {"bx": [16, 32, 64], "how": ["b", "a"]},
"restrictions": ["bx < 64 or how == 'a'"], "cache": {
"16,a": {"bx": 16, "how": "a", "time": 2.0, "times": [1, 3], "compile_time": 1000, "verification_time": 500, "benchmark_time": 500, "strategy_time": 100, "framework_time": 50},
"32,a": {"bx": 32, "how": "a", "time": 2.1, "times": [2.1], "compile_time": 2000, "benchmark_time": 2000},
"64,a": {"bx": 64, "how": "a", "time": "RuntimeFailedConfig", "compile_time": 3000},
"64,b": {"bx": 64, "how": "b", "time": "InvalidConfig"},`)
	want := Summary{
		Name: "k", Device: "Card", Form: "kerneltuner",
		Parameters: []Parameter{
			{"bx", []genome.Value{genome.Int(16), genome.Int(32), genome.Int(64)}, true},
			{"how", []genome.Value{genome.Str("b"), genome.Str("a")}, false},
		},
		Constraints: []string{"bx < 64 or how == 'a'"}, Combinations: 6, Allowed: 5, Exact: true,
		Recorded: 4, Valid: 2, Failed: map[evaluator.Verdict]int{evaluator.Launch: 1, evaluator.Infeasible: 1},
		Unrecorded: 2, // and the one that is forbidden was recorded as such
		BestMS:     2, MedianMS: 2.05, WorstMS: 2.1, BestConfiguration: "bx=16,how=a",
		Within:  []Within{{1, 1, 4. / 2}, {5, 2, 4. / 3}, {10, 2, 4. / 3}},
		Samples: 3,
		Cost:    Spent{9, 2.5},
		Stages: []StageSpent{
			{"compile", Spent{6, 2}}, {"verification", Spent{.5, 0}}, {"benchmark", Spent{2.5, .5}}, {"strategy", Spent{.1, 0}}, {"framework", Spent{.05, 0}},
		},
		Unsplit: 1,
		Notices: []string{"the run that wrote it was interrupted: 4 whole configurations are read"},
	}
	if diff := cmp.Diff(want, s, cmp.Comparer(func(a, b genome.Value) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// Constraints that forbid what was measured are counted, and named.
func TestSummaryOfContradictions(t *testing.T) {
	s := examine(t, strings.Replace(small, "x < 4 or not fast", "x < 2", 1))
	if s.Allowed != 2 || s.Forbidden != 3 || s.Unrecorded != 0 || !strings.HasPrefix(s.FirstForbidden, "configuration x=2,fast=false: ") {
		t.Errorf("%+v", s)
	}
	if s = examine(t, `{"params": [["x", [1, 2]]], "configs": [[[0], null, 0]]}`); s.Valid != 0 || s.Within != nil || s.Unrecorded != 1 || s.Unsplit != 1 {
		t.Errorf("without a valid configuration: %+v", s)
	}
}

// The expectation is that of the definition: over all orders, the mean place of
// the first good configuration.
func TestExpectedEvaluations(t *testing.T) {
	const n, k = 6, 2
	sum, orders := 0, 0
	for good := range 1 << n { // every set of k places is equally likely
		count, first := 0, 0
		for place := n; place > 0; place-- {
			if good>>(place-1)&1 == 1 {
				count, first = count+1, place
			}
		}
		if count == k {
			sum, orders = sum+first, orders+1
		}
	}
	s := examine(t, `{"params": [["x", [1, 2, 3, 4, 5, 6]]], "configs": [[[0], 1, 0], [[1], 1, 0], [[2], 5, 0], [[3], 5, 0], [[4], null, 0], [[5], 5, 0]]}`)
	if got, want := s.Within[0].Evaluations, float64(sum)/float64(orders); s.Within[0].Configurations != k || got != want {
		t.Errorf("%+v, want %g evaluations", s.Within[0], want)
	}
}
