//go:build linux

package cpu

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/kernels"
)

// inPython is the kernel "scale" with a reference in Python.
func inPython(t testing.TB, text string, pairs ...string) *kernels.Definition {
	t.Helper()
	d := changed(t, append(pairs, "reference.c", "void", "void")...)
	toml := filepath.Join(d.Dir, "kernel.toml")
	b, err := os.ReadFile(toml)
	if err != nil {
		t.Fatal(err)
	}
	b = []byte(strings.Replace(string(b), `source = "reference.c"`, `python = "reference.py"`, 1))
	if err := errors.Join(os.WriteFile(toml, b, 0o644), os.WriteFile(filepath.Join(d.Dir, "reference.py"), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	if d, err = kernels.LoadDir(d.Dir); err != nil {
		t.Fatal(err)
	}
	return d
}

func pythonOptions(t testing.TB, library string) Options {
	o := quick()
	o.Python = backendtest.Python(t, library)
	return o
}

func openLab(t *testing.T, d *kernels.Definition, o Options) *lab {
	t.Helper()
	needCompiler(t)
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := b.Open(t.Context(), planOf(d))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.(*lab)
}

const scaleInPython = "def reference(x, factor):\n    return factor * x\n"

// What a reference in Python gives is what one in C gives, on all contents, and what
// honest answers may differ by.
func TestPythonReference(t *testing.T) {
	o := pythonOptions(t, "numpy")
	o.CacheDir = t.TempDir()
	c, python := openLab(t, load(t, "scale"), o), openLab(t, inPython(t, scaleInPython), o)
	if c.Key == python.Key {
		t.Error("the results have one key")
	}
	if !slices.ContainsFunc(python.Describe().Tools, func(t evaluator.Tool) bool { return t.Name == "python" && t.Missing == "" }) {
		t.Errorf("the interpreter is not told: %+v", python.Describe().Tools)
	}
	compared := 0
	same := func(what string, a, b expected) {
		t.Helper()
		if compared++; !slices.Equal(a.values, b.values) || a.slack != b.slack || len(a.values) == 0 {
			t.Errorf("%s differs", what)
		}
	}
	for i, d := range c.problem.shapes() {
		e := python.problem.shapes()[i]
		for v := range variants {
			same(d.shape.Name, d.expected[v][1], e.expected[v][1])
		}
		for name, f := range d.further {
			same(d.shape.Name+" "+name, f.expected[0][1], e.further[name].expected[0][1])
		}
	}
	if compared < 20 {
		t.Errorf("only %d were compared", compared)
	}
	if spent := python.python.Spent(); spent <= 0 {
		t.Error("no time was spent")
	}
	// The cache has all answers: Python does not start again.
	if again := openLab(t, inPython(t, scaleInPython), o); again.python.Spent() != 0 {
		t.Errorf("what was known took %v", again.python.Spent())
	}
	// Another text is another reference.
	if other := openLab(t, inPython(t, scaleInPython+"\n"), o); other.python.Spent() == 0 || other.Key == python.Key {
		t.Error("another file has the answers of this one")
	}
}

// Candidates are judged by a reference in Python.
func TestPythonJudges(t *testing.T) {
	s := open(t, inPython(t, scaleInPython), pythonOptions(t, "numpy"))
	if r := s.evaluate(t, "UNROLL", 4); r.Verdict != evaluator.Correct {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	needCompiler(t)
	b, err := New(pythonOptions(t, "numpy"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = evaluator.Open(t.Context(), b, planOf(inPython(t, "def reference(x, factor):\n    return factor * x + 1\n")))
	if !errors.Is(err, evaluator.ErrBaseline) {
		t.Errorf("a reference that computes something else gives %v", err)
	}
}

// What is wrong with the file ends the opening, in one line with its name and line.
func TestPythonFails(t *testing.T) {
	needCompiler(t)
	o := pythonOptions(t, "numpy")
	for name, c := range map[string]struct{ text, want string }{
		"raises at one shape":   {"def reference(x, N, factor):\n    if N == 1237:\n        raise ValueError('odd')\n    return x * factor\n", "kernel scale, shape odd: DIR/reference.py:3: ValueError: odd"},
		"another shape":         {"def reference(x, factor):\n    return (x * factor)[1:]\n", "DIR/reference.py:1: reference returns an array of shape ["},
		"NaN":                   {"def reference(x, factor):\n    return (x - x) / (x - x)\n", "DIR/reference.py:1: reference returns nan as element 0 of y: every element must be finite"},
		"differs between calls": {"calls = 0\ndef reference(x, factor):\n    global calls\n    calls += 1\n    return x * factor + calls\n", "DIR/reference.py:2: reference differs between two runs on the same inputs: element 0 of y is "},
		"hangs":                 {"def reference(x, factor):\n    while True:\n        x = x * 1\n", "DIR/reference.py:3: no answer within 10s: it hangs, or is too slow for this shape"},
		"is not there":          {"def other(x, factor):\n    return x * factor\n", "DIR/reference.py: it does not define reference: correct the entry, or define it"},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			o.Timeout = time.Second
			b, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			d := inPython(t, c.text)
			_, err = evaluator.Open(t.Context(), b, planOf(d))
			if want := strings.ReplaceAll(c.want, "DIR", filepath.Base(d.Dir)); !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// Where a reference is not finite on edge-case inputs, these are not compared.
func TestPythonIsSilent(t *testing.T) {
	d := inPython(t, "import numpy as np\ndef reference(x, factor):\n    with np.errstate(all='ignore'):\n        return np.where(x > 1e30, np.inf, x * factor)\n",
		"kernel.toml", `data = "normal(1,2)"`, "data = \"normal(1,2)\"\ndomain = \"[-1e32, 1e32]\"")
	h := openLab(t, d, pythonOptions(t, "numpy"))
	e := h.problem.Sanitize.further["ends"]
	if e == nil || !strings.Contains(e.silent, "the reference gives no finite answer") || math.IsNaN(e.Scalars[0]) {
		t.Errorf("%+v", e)
	}
}
