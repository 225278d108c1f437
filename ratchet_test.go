package evotune

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// A judgeStub answers with what it was given, and its finals one after another,
// the last again and again.
type judgeStub struct {
	result evaluator.Result
	finals []evaluator.Finalist
	err    error
}

func (s *judgeStub) Describe() evaluator.Description { return evaluator.Description{} }
func (s *judgeStub) Close() error                    { return nil }
func (s *judgeStub) Evaluate(context.Context, genome.Genome, float64) (evaluator.Result, error) {
	return s.result, s.err
}

func (s *judgeStub) Finals(context.Context, []genome.Genome) (evaluator.Finals, error) {
	f := s.finals[0]
	if len(s.finals) > 1 {
		s.finals = s.finals[1:]
	}
	return evaluator.Finals{Entries: []evaluator.Finalist{f}}, s.err
}

// rounds are timings of 20 rounds around a ratio to the baseline; wobble is how
// far they are apart, relative to it.
func rounds(ratio, wobble float64) []evaluator.Timing {
	var mine, base []float64
	for i := range 20 {
		b := 1000 + float64(i*37%11)
		base, mine = append(base, b), append(mine, b*ratio*(1+wobble*float64(i*7%20-10)/10))
	}
	return []evaluator.Timing{evaluator.NewTiming("8", mine, base, 1, 1)}
}

func TestRatchetJudge(t *testing.T) {
	correct := evaluator.Result{Verdict: evaluator.Correct, Fitness: 0.5, Timings: rounds(0.5, 0.01)}
	failing := func(v evaluator.Verdict) evaluator.Result {
		return evaluator.Result{Verdict: v, Stage: evaluator.StageParity, Reason: "because"}
	}
	final := func(ratio, wobble float64) []evaluator.Finalist {
		return []evaluator.Finalist{{Verdict: evaluator.Correct, Fitness: ratio, Timings: rounds(ratio, wobble)}}
	}
	var e RatchetEntry
	e.measure(rounds(0.5, 0.01))
	for _, c := range []struct {
		name      string
		result    evaluator.Result
		finals    []evaluator.Finalist
		threshold float64
		want      RatchetState
		reason    string
	}{
		{"as it was", correct, final(0.5, 0.01), 0.03, RatchetOK, ""},
		{"slower, by less than the threshold", correct, final(0.51, 0.001), 0.03, RatchetOK, ""},
		{"slower, by more", correct, final(0.55, 0.01), 0.03, RatchetSlower, "more than 3% and more than noise, in each of 3 measurements"},
		{"slower, once", correct, append(final(0.55, 0.01), final(0.5, 0.01)...), 0.03, RatchetOK, "slower at first, but not in measurement 2"},
		{"slower, twice", correct, slices.Concat(final(0.55, 0.01), final(0.56, 0.01), final(0.4, 0.01)), 0.03, RatchetOK, "not in measurement 3"},
		{"slower, and crashes then", correct, append(final(0.55, 0.01), evaluator.Finalist{Verdict: evaluator.Launch}), 0.03, RatchetFailed, "launch"},
		{"slower, by more, and it is allowed", correct, final(0.55, 0.01), 0.2, RatchetOK, ""},
		{"slower, by any", correct, final(0.51, 0.001), 0, RatchetSlower, "more than 0%"},
		{"slower, and all noise", correct, final(0.55, 0.9), 0.03, RatchetOK, "no more than noise"},
		{"faster", correct, final(0.4, 0.01), 0.03, RatchetFaster, "--update"},
		{"no longer correct", failing(evaluator.Parity), nil, 0.03, RatchetFailed, "parity, in parity: because"},
		{"no longer compiles", evaluator.Result{Verdict: evaluator.Compile, Stage: evaluator.StageCompile, Reason: "a\nb"}, nil, 0.03, RatchetFailed, "compile, in compile: a; b"},
		{"crashes in the finals", correct, []evaluator.Finalist{{Verdict: evaluator.Launch, Reason: "signal"}}, 0.03, RatchetFailed, "launch, in finals: signal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			row := RatchetRow{RatchetSubject: RatchetSubject{Candidate: "a"}}
			if err := row.judge(t.Context(), &judgeStub{result: c.result, finals: c.finals}, genome.Genome{}, e, correct, c.threshold); err != nil {
				t.Fatal(err)
			}
			if row.State != c.want || !strings.Contains(row.Reason, c.reason) || (c.reason == "") != (row.Reason == "") {
				t.Errorf("%s: %q (%+.3f), want %s: %q", row.State, row.Reason, row.Change, c.want, c.reason)
			}
			if row.Measurements < 1 && c.want != RatchetFailed || row.Measurements != 3 && c.want == RatchetSlower {
				t.Errorf("%d measurements", row.Measurements)
			}
		})
	}
	for name, s := range map[string]*judgeStub{
		"the machine failed":            {err: errors.New("no room")},
		"the machine failed, a verdict": {result: failing(evaluator.Infrastructure)},
	} {
		row := RatchetRow{RatchetSubject: RatchetSubject{Candidate: "a"}}
		if err := row.judge(t.Context(), s, genome.Genome{}, e, correct, 0.03); err == nil || row.State != "" {
			t.Errorf("%s: %v, %s", name, err, row.State)
		}
	}
}

func TestReadRatchet(t *testing.T) {
	entry := func(changes ...string) string {
		s := `{"candidate":"a","kernel":"k","shapes":["8","9"],"device":{"name":"n","fingerprint":"f"},"harness":"h","ratio":2,"rounds":[1,2,3]}`
		return strings.NewReplacer(changes...).Replace(s)
	}
	file := func(entries ...string) string {
		return `{"format":"evotune-ratchet/1","entries":[` + strings.Join(entries, ",") + `]}`
	}
	for _, c := range []struct{ name, text, want string }{
		{"good", file(entry(), entry(`"f"`, `"g"`)), ""},
		{"empty", file(), ""},
		{"a key twice", file(entry(`"kernel":"k"`, `"kernel":"k","kernel":"l"`)), `key "kernel" is there twice in entries[0]`},
		{"a key in other case", file(entry(`"kernel"`, `"Kernel"`)), `key "Kernel" is spelled "kernel" in entries[0]`},
		{"no JSON", "[", "it is not a ratchet file"},
		{"another file", `{"format":"evotune-report/1"}`, "it is not a ratchet file: its format is"},
		{"newer", `{"format":"evotune-ratchet/2"}`, "upgrade evotune"},
		{"no candidate", file(entry(`"a"`, `""`)), "entry 1 has no candidate"},
		{"no rounds", file(entry("[1,2,3]", "[]")), "entry 1 (a): its rounds"},
		{"a round of nothing", file(entry("[1,2,3]", "[0,2,3]")), "entry 1 (a): its rounds"},
		{"a figure that nobody measured", file(entry(`"ratio":2`, `"ratio":1.9`)), "is not the median of its rounds, 2"},
		{"twice", file(entry(), entry(`"a"`, `"b"`, `["8","9"]`, `["9","8"]`)), "entry 2 (b): there is another"},
	} {
		path := filepath.Join(t.TempDir(), "ratchet.json")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadRatchet(path)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
