package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/longtest"
)

// TestPythonAgrees holds expressions written in Python against the evaluator that
// tuning uses: run by Python where it is installed, and read back.
func TestPythonAgrees(t *testing.T) {
	d := Declaration{
		Alternatives: []genome.Alternative{{Genes: []genome.Gene{
			{Name: "a", Values: []genome.Value{genome.Int(1), genome.Int(2), genome.Int(24)}},
			{Name: "b", Values: []genome.Value{genome.Int(3), genome.Int(7), genome.Int(64)}},
			{Name: "f", Values: []genome.Value{genome.Float(0.5), genome.Float(2)}},
			{Name: "s", Values: []genome.Value{genome.Str("x"), genome.Str("a b")}},
			{Name: "p", Values: []genome.Value{genome.Bool(false), genome.Bool(true)}},
		}}},
		Envs: []map[string]any{{"N": 16, "T": "it's", "Q": false, "H": 0.1}},
	}
	sources := []string{
		"a % b == 0", "a / b", "a ** 2 * f", "-a - -b", "a - (b - a)", "not (a > b) or p", "p and s == 'x'", "s in ['x', 'y']", "a in [1, b, N]", "a not in 2..24",
		"a in 1..N", "f in 1..3", "p ? a : f", "a > b ? 1 : 2.5", "min(a, b, f)", "max(N, a)", "abs(a - b)", "floor(a / b)", "ceil(a / b)", "int(a / f)", "float(a)", "+a",
		"min(a)", "T == 'x' or a > N", "Q and a > 1", "Q ? a : b", "N * H * a", "bitand(N, 3) + a", "!p == (a == b)", "a <= b and b < 9.5", "s < 'b'", "p != Q", "1e300 * f",
	}
	params := (&ruleWriter{d: d}).params()
	rng := rand.New(rand.NewSource(1))
	for range 300 {
		sources = append(sources, drawSource(rng, "c", 4), drawSource(rng, "x", 4))
	}
	type row struct {
		Src, Text string
		Names     map[string]any
		Want      any
	}
	var rows []row
	for _, src := range sources {
		env := map[string]any{}
		for k, v := range d.Envs[0] {
			env[k] = v
		}
		for _, g := range d.Alternatives[0].Genes {
			env[g.Name] = g.Values[0]
		}
		e, err := expr.Compile(src, env)
		if err != nil {
			t.Fatal(err)
		}
		text, err := d.Python(src)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		again, err := Expression(params, text)
		if err != nil {
			t.Fatalf("%s is %s: %v", src, text, err)
		}
		back, err := expr.Compile(again, env)
		if err != nil {
			t.Fatalf("%s is %s, read as %s: %v", src, text, again, err)
		}
		for range 8 {
			names := map[string]any{}
			for _, g := range d.Alternatives[0].Genes {
				v := g.Values[rng.Intn(len(g.Values))]
				env[g.Name], names[g.Name] = v, v
			}
			want, err := e.Any(env)
			if err != nil {
				t.Fatal(err)
			}
			got, err := back.Any(env)
			if fmt.Sprint(got) != fmt.Sprint(want) || err != nil {
				t.Errorf("%s over %v is %v; %s, read as %s, is %v, %v", src, names, want, text, again, got, err)
			}
			if f, ok := want.(float64); !ok || !math.IsInf(f, 0) && !math.IsNaN(f) {
				rows = append(rows, row{src, text, names, want})
			}
		}
	}
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: what was written was read back, not run")
	}
	input, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(interpreter, "-c", `
import json, sys
for row in json.load(sys.stdin):
    got = eval(row["Text"], {}, row["Names"])
    if got != row["Want"] or isinstance(got, bool) != isinstance(row["Want"], bool):
        print(row["Src"], "over", row["Names"], "is", row["Want"], "and", row["Text"], "is", got)
`)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%.4000s", err, out)
	}
}

// drawSource replaces the letters of a form by random expressions: x is a number, c a
// condition, n a positive integer, for remainders of negative numbers and divisions
// by 0 differ between the languages.
func drawSource(rng *rand.Rand, form string, depth int) string {
	forms := map[string][]string{
		"x": {"n", "n", "(x + x)", "(x - x)", "(x * n)", "(x / n)", "(-x)", "abs(x)", "min(x, x)", "max(x, n, x)", "floor(x)", "ceil(x)", "int(x)", "float(n)", "(c ? x : x)"},
		"n": {"(n + n)", "(n % n + 1)", "min(n, n)", "max(n, n)", "(c ? n : n)", "abs(n)"},
		"c": {"(x < x)", "(x <= x)", "(x > n)", "(x >= x)", "(x == x)", "(x != n)", "(c and c)", "(c or c)", "(not c)", "(n in [n, 3, n])", "(n in 2..9)", "(c == c)", "(c ? c : c)", "(s == 'x')"},
	}
	if depth == 0 {
		forms = map[string][]string{"x": {"a", "b", "f", "N", "0.25", "H"}, "n": {"a", "b", "N", "3"}, "c": {"p", "Q", "(s != 'x')", "(a > b)"}}
	}
	return regexp.MustCompile(`[A-Za-z']+`).ReplaceAllStringFunc(form, func(w string) string {
		if list := forms[w]; list != nil && depth >= 0 {
			return drawSource(rng, list[rng.Intn(len(list))], depth-1)
		}
		return w
	})
}

// What Python does not have is named.
func TestNotInPython(t *testing.T) {
	d := Declaration{Alternatives: []genome.Alternative{{Genes: []genome.Gene{
		{Name: "a", Values: []genome.Value{genome.Int(1)}}, {Name: "s", Values: []genome.Value{genome.Str("x")}},
	}}}}
	for src, want := range map[string]string{
		"bitand(a, 1)":       "the function bitand has no translation",
		"s contains 'x'":     "the operator contains has no translation",
		"a in 1..1000":       "the operator .. has no translation",
		"a in -a..5":         "the operator .. has no translation",
		"s == \"it's\"":      "it's",
		"any([a, 2], # > 1)": "any([a, 2], # > 1) has no translation",
		"a > b":              "unknown name b",
		"1 % (2 - 2) == a":   "integer divide by zero",
	} {
		if text, err := d.Python(src); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot be said in Python here: ") {
			t.Errorf("%s is %s, %v; want %s", src, text, err, want)
		}
	}
}

// TestPythonsOwnAnswers holds restrictions against what Python made of them, over every
// configuration: the same answers, or a refusal in one line, never another count.
// testdata/restrictions.py made the answers.
func TestPythonsOwnAnswers(t *testing.T) {
	text, err := os.ReadFile("testdata/restrictions.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Parameters   [][2]json.RawMessage
		Restrictions []struct {
			Restriction string
			Over        []string
			Answers     string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []Parameter
	for _, raw := range file.Parameters {
		var name string
		var values []genome.Value
		if err := errors.Join(json.Unmarshal(raw[0], &name), json.Unmarshal(raw[1], &values)); err != nil {
			t.Fatal(err)
		}
		all = append(all, parameter(name, values))
	}
	equal := 0
	for _, r := range file.Restrictions {
		table := &Table{}
		for _, p := range all {
			if !slices.Contains(r.Over, p.Name) {
				p = parameter(p.Name, p.Values[:1])
			}
			table.params = append(table.params, p)
		}
		rule, err := newRule(r.Restriction)
		var space *genome.Space
		if err == nil {
			table.rules = append(table.rules, rule)
			space, err = table.declared()
		}
		switch {
		case errors.Is(err, genome.ErrEmpty):
			if strings.Trim(r.Answers, "0") != "" {
				t.Errorf("%s: no configuration is left; Python says %s", r.Restriction, r.Answers)
			}
			equal++
			continue
		case err != nil:
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "%!") {
				t.Errorf("%s: refused with %v", r.Restriction, err)
			}
			if !strings.Contains(r.Answers, "x") && !slices.Contains(refused, r.Restriction) {
				t.Errorf("%s: refused, which Python is not: %v", r.Restriction, err)
			}
			continue
		}
		answers := ""
		for rank := range len(r.Answers) {
			answer := "0"
			if _, err := space.FromIndices(table.digits(uint64(rank))); err == nil {
				answer = "1"
			}
			answers += answer
		}
		if answers != r.Answers {
			t.Errorf("%s: %s, Python says %s", r.Restriction, answers, r.Answers)
		}
		equal++
	}
	if equal < 100 {
		t.Errorf("only %d restrictions have Python's answers", equal)
	}
}

// TestAnswersArePythonsLong: the answers that are stored are those that Python gives today.
func TestAnswersArePythonsLong(t *testing.T) {
	longtest.Long(t, "runs Python")
	want, err := os.ReadFile("testdata/restrictions.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command("/usr/bin/python3", "-W", "ignore", "testdata/restrictions.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("Python answers otherwise: run testdata/restrictions.py and read the difference")
	}
}

// refused are restrictions that Python answers and that are refused here.
var refused = []string{
	"big * big > 0", "big + big > 0", "big + 1 > big", "big ** 2 > 0", "10 ** 20 > block", // beyond 64 bits
	"2 ** n > 1", "n ** -1 < 0", // a power whose type depends on its values
	"(block if flag else mode) == 16", "mode + 'er' == 'faster'", "block * '1' == 1", "int(mode) == 1",
	"block.bit_length() > 5", "[block][0] == 16", "lambda: 1", "1e400 > block",
	"all(i > 1 for i in [block, tile])", "any([pad, flag])", "sum([block, tile]) > 40", "round(x) == 0",
}
