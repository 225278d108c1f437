package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const file = `# what this is
raised b 1 2 it has a new rule
a 10
	TestSlow 4
	TestQuick 1
b 2
`

// TestBudget compares test processes with the budgets above.
func TestBudget(t *testing.T) {
	for name, c := range map[string]struct {
		processes, tests string
		status           int
		want, not        string // the output has, and does not have
	}{
		"within":      {processes: `{"name":"a","cpu":10}`, want: "10 s of processor time, budget 12 s, promise 360 s\n", not: "a:"},
		"above":       {processes: `{"name":"a","cpu":14.9}`, want: "a: 14.9 s of processor time, above its budget of 10 s\n"},
		"far above":   {processes: `{"name":"a","cpu":15.1}`, status: 1, want: "a: 15.1 s of processor time, more than 1.5 times its budget of 10 s\n"},
		"has none":    {processes: `{"name":"c","cpu":3.2}`, status: 1, want: `c takes 3.2 s and has no budget: add the line "c 4"`},
		"what grew":   {processes: `{"name":"a","cpu":16}`, tests: `{"name":"a","test":"TestSlow","wall":5.9}` + "\n" + `{"name":"a","test":"TestQuick","wall":9}` + "\n" + `{"name":"b","test":"TestSlow","wall":9}`, status: 1, want: "10 s; grown: TestQuick 9.0 s (was 1.0)\n"},
		"a new test":  {processes: `{"name":"b","cpu":2.5}`, tests: `{"name":"b","test":"TestNew","wall":2}`, want: "grown: TestNew 2.0 s (was 0.0)"},
		"twice in CI": {processes: `{"name":"a","cpu":1}` + "\n" + `{"name":"b","cpu":4}`, status: 1, want: "b: 4.0 s"},
	} {
		dir := t.TempDir()
		write(t, dir, processesFile, c.processes+"\n")
		if c.tests != "" {
			write(t, dir, testsFile, c.tests+"\n")
		}
		var out strings.Builder
		status, err := budget(&out, dir, write(t, dir, "budget.txt", file))
		if err != nil || status != c.status || !strings.Contains(out.String(), c.want) || c.not != "" && strings.Contains(out.String(), c.not) {
			t.Errorf("%s: status %d, %v, want %d and %q in\n%s", name, status, err, c.status, c.want, out.String())
		}
	}
}

// TestPromise: budgets that together exceed what CONTRIBUTING promises are refused.
func TestPromise(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	status, err := budget(&out, dir, write(t, dir, "budget.txt", "a 200\nb 161\n"))
	if err != nil || status != 1 || !strings.Contains(out.String(), "the budgets sum up to 361 s and the promise is 360 s") {
		t.Errorf("status %d, %v:\n%s", status, err, out.String())
	}
}

// TestRaised: a budget may rise with a reason, and fall without.
func TestRaised(t *testing.T) {
	for name, c := range map[string]struct {
		earlier, now string
		want         int
	}{
		"fell":       {"a 3\n", "a 2\n", 0},
		"new":        {"a 3\n", "a 3\nb 9\n", 0},
		"rose":       {"a 3\n", "a 4\n", 1},
		"explained":  {"a 3\n", "raised a 3 4 it judges one kernel more\na 4\n", 0},
		"other size": {"a 3\n", "raised a 3 4 it judges one kernel more\na 5\n", 1},
	} {
		earlier, err := parse(c.earlier)
		if err != nil {
			t.Fatal(err)
		}
		now, err := parse(c.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := raisedSince(earlier, now, now, "budget.txt"); len(got) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestParse(t *testing.T) {
	b, err := parse(file)
	if err != nil || b.String() != strings.Replace(file, "\tTestSlow 4\n\tTestQuick 1\n", "\tTestQuick 1\n\tTestSlow 4\n", 1) {
		t.Errorf("%v:\n%s", err, b)
	}
	for _, bad := range []string{"a\n", "a b\n", "a -1\n", "raised a 1 2\n", "a 1 2\n"} {
		if _, err := parse(bad); err == nil || !strings.HasPrefix(err.Error(), "line 1: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestLower: budgets fall to what was measured, never rise, and new packages get one.
func TestLower(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, processesFile, `{"name":"a","cpu":4.1}`+"\n"+`{"name":"b","cpu":9}`+"\n"+`{"name":"c","cpu":0.01}`+"\n")
	write(t, dir, testsFile, `{"name":"a","test":"TestSlow","wall":2.5}`+"\n"+`{"name":"a","test":"TestQuick","wall":0.1}`+"\n")
	to := write(t, dir, "budget.txt", file)
	if err := lower(dir, to); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(to)
	if want := "# what this is\nraised b 1 2 it has a new rule\na 5\n\tTestSlow 2.5\nb 2\nc 1\n"; err != nil || string(text) != want {
		t.Errorf("%v:\n%swant\n%s", err, text, want)
	}
}

// TestShow reads what go test -json says of a package that passes, one that fails, and one
// whose process died. A test stands for its subtests, unless they ran beside each other.
func TestShow(t *testing.T) {
	const m = `"Package":"github.com/evotune/evotune/store"`
	in := strings.Join([]string{
		`{"Action":"run",` + m + `,"Test":"TestGood"}`,
		`{"Action":"output",` + m + `,"Test":"TestGood","Output":"    good\n"}`,
		`{"Action":"pass",` + m + `,"Test":"TestGood/case","Elapsed":1.4}`,
		`{"Action":"pass",` + m + `,"Test":"TestGood","Elapsed":1.5}`,
		`{"Action":"output",` + m + `,"Test":"TestBad","Output":"=== RUN   TestBad\n"}`,
		`{"Action":"output",` + m + `,"Test":"TestBad/case","Output":"    why\n"}`,
		`{"Action":"fail",` + m + `,"Test":"TestBad/case","Elapsed":9}`,
		`{"Action":"fail",` + m + `,"Test":"TestBad","Elapsed":2}`,
		`{"Action":"output",` + m + `,"Test":"TestDead","Output":"panic: no\n"}`,
		`{"Action":"output",` + m + `,"Output":"FAIL\tgithub.com/evotune/evotune/store\t3s\n"}`,
		`{"Action":"fail",` + m + `,"Elapsed":3}`,
		`go: downloading`,
	}, "\n")
	dir := t.TempDir()
	var out strings.Builder
	if err := show(strings.NewReader(in), &out, dir); err != nil {
		t.Fatal(err)
	}
	want := "    why\nFAIL\tgithub.com/evotune/evotune/store\t3s\ngo: downloading\ngithub.com/evotune/evotune/store TestDead did not end:\npanic: no\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	tests, err := read(dir, testsFile)
	if err != nil || len(tests) != 2 || tests[0] != (spent{Name: "store", Test: "TestGood", Wall: 1.5}) || tests[1] != (spent{Name: "store", Test: "TestBad/case", Wall: 9}) {
		t.Errorf("%v, %v", tests, err)
	}
}

// TestMeasured: the time of children counts, and the status is the command's.
func TestMeasured(t *testing.T) {
	dir := t.TempDir()
	code, err := measured(dir, stepsFile, "spin", []string{"sh", "-c", "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; exit 3"})
	if err != nil || code != 3 {
		t.Fatalf("%d, %v", code, err)
	}
	steps, err := read(dir, stepsFile)
	if err != nil || len(steps) != 1 || steps[0].Name != "spin" || steps[0].CPU < .01 || steps[0].Wall < .01 {
		t.Errorf("%v, %v", steps, err)
	}
	var out strings.Builder
	if err := report(&out, dir); err != nil || !strings.Contains(out.String(), "spin") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
