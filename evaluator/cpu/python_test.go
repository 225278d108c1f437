//go:build linux

package cpu

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// inPython is the kernel "scale" with a reference in Python, and with some of its definition
// replaced: old and new, two by two.
func inPython(t testing.TB, text string, pairs ...string) *kernels.Definition {
	t.Helper()
	return inPythonWith(t, text, "", pairs...)
}

// inPythonWith has another template, too, unless that is "".
func inPythonWith(t testing.TB, text, template string, pairs ...string) *kernels.Definition {
	t.Helper()
	dir := t.TempDir()
	toml, err := os.ReadFile(filepath.Join("testdata", "scale", "kernel.toml"))
	if err == nil && template == "" {
		var b []byte
		b, err = os.ReadFile(filepath.Join("testdata", "scale", "scale.c.tmpl"))
		template = string(b)
	}
	pairs = append(pairs, `source = "reference.c"`, "python = \"reference.py\"\nlibrary = \"numpy\"") // starting PyTorch takes a second
	definition := strings.NewReplacer(pairs...).Replace(string(toml))
	for name, text := range map[string]string{"kernel.toml": definition, "reference.py": text, "scale.c.tmpl": template} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func pythonOptions(t testing.TB, library string) Options {
	o := quick()
	o.Python = backendtest.Python(t, library)
	return o
}

func openLab(t testing.TB, d *kernels.Definition, o Options) *lab {
	t.Helper()
	return open(t, d, o).lab
}

const scaleInPython = "def reference(x, factor):\n    return factor * x\n"

// What a reference in Python gives is what one in C gives, on all contents, and what
// honest answers may differ by. Candidates are judged by it.
func TestPythonReference(t *testing.T) {
	o := pythonOptions(t, "numpy")
	c, judge := sharedLab(t, "scale").lab, open(t, inPython(t, scaleInPython), o)
	python := judge.lab
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
	sin{"nothing", 1, "", evaluator.StageParity, ""}.check(t, judge.until(t, evaluator.StageParity, "UNROLL", 4))
	// Another text is another reference.
	b, err := New(o)
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
	pythonFails(t, pythonOptions(t, "numpy"), "def reference(x, N, factor):\n    if N == 1237:\n        raise ValueError('odd')\n    return x * factor\n",
		"kernel scale, shape odd: DIR/reference.py:3: ValueError: odd")
}

func TestPythonFailsLong(t *testing.T) {
	longtest.Long(t, "waits for what hangs")
	o := pythonOptions(t, "numpy")
	pythonFails(t, o, "calls = 0\ndef reference(x, factor):\n    global calls\n    calls += 1\n    return x * factor + calls\n",
		"DIR/reference.py:2: reference differs between two runs on the same inputs: element 0 of y is ")
	o.Timeout = time.Second
	pythonFails(t, o, "def reference(x, factor):\n    while True:\n        x = x * 1\n",
		"DIR/reference.py:3: no answer within 10s: it hangs, or is too slow for this shape")
}

func pythonFails(t *testing.T, o Options, text, want string) {
	t.Helper()
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	d := inPython(t, text)
	_, err = evaluator.Open(t.Context(), b, planOf(d))
	if want := strings.ReplaceAll(want, "DIR", filepath.Base(d.Dir)); !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Where a reference is not finite on edge-case inputs, these are not compared.
func TestPythonIsSilent(t *testing.T) {
	d := inPython(t, "import numpy as np\ndef reference(x, factor):\n    with np.errstate(all='ignore'):\n        return np.where(x > 1e30, np.inf, x * factor)\n",
		`data = "normal(1,2)"`, "data = \"normal(1,2)\"\ndomain = \"[-1e32, 1e32]\"")
	h := openLab(t, d, pythonOptions(t, "numpy"))
	e := h.problem.Sanitize.further["ends"]
	if e == nil || !strings.Contains(e.silent, "the reference gives no finite answer") || math.IsNaN(e.Scalars[0]) {
		t.Errorf("%+v", e)
	}
}

const gather = `import numpy as np

def reference(x, order, factor):
    return factor * x[order]

def permutation(N, seed):
    return np.random.default_rng(seed).permutation(N)
`

// gathered is a kernel that reads x in the order of a permutation, which Python makes.
func gathered(t *testing.T, python string, pairs ...string) *kernels.Definition {
	t.Helper()
	template := "#include <stdint.h>\n/* {{.UNROLL}} */\nvoid scale(int64_t N, const float *x, const int32_t *order, float *y, float factor)\n{\n\tfor (int64_t i = 0; i < N; i++)\n\t\ty[i] = factor * x[order[i]];\n}\n"
	const y = "[[problem.buffer]]\nname = \"y\""
	order := strings.NewReplacer(pairs...).Replace("[[problem.buffer]]\nname = \"order\"\ndtype = \"i32\"\nshape = [\"N\"]\nrole = \"in\"\ndata = \"python(permutation)\"\n\n")
	// Of 65536 elements most of the time would go into making them and reading them back.
	return inPythonWith(t, python, template, y, order+y, "N = 65536", "N = 8192")
}

// Inputs from Python are whole wherever a candidate meets them: in parity, on edge-case
// inputs of the others, and when it is timed.
func TestPythonInputs(t *testing.T) {
	s := gatheredLab(t, "python(permutation)")
	q := s.lab.problem
	for _, d := range q.shapes() {
		for v := range variants {
			checkPermutation(t, d.shape.Name, d.inputs[v][1], d)
		}
		if slices.Equal(d.inputs[0][1], d.inputs[1][1]) {
			t.Error("two seeds give one permutation")
		}
		for name, f := range d.further {
			checkPermutation(t, d.shape.Name+" "+name, f.inputs[0][1], f)
			if name != "constant" && name != "zeros" && slices.Equal(f.inputs[0][0], d.inputs[0][0]) {
				t.Errorf("%s: x is as declared", name)
			}
		}
	}
	r := s.until(t, evaluator.StageParity, "UNROLL", 2)
	sin{"nothing", 1, "", evaluator.StageParity, ""}.check(t, r)
	told := false
	for _, stage := range r.Steps {
		told = told || slices.ContainsFunc(stage.Evidence, func(e evaluator.Evidence) bool {
			return e.Check == "parity small ramp" && e.Detail == "with the data of order as Python makes them"
		})
	}
	if !told {
		t.Errorf("what is kept is not told: %+v", r.Steps)
	}
}

// gatheredLab is the ordeal on "gathered" with the permutations made by data. Tests share it.
func gatheredLab(t *testing.T, data string) *setup {
	t.Helper()
	key := "gathered " + data
	if shared[key] == nil {
		s, err := newSetup(planOf(gathered(t, gather, "python(permutation)", data)), pythonOptions(t, "numpy"))
		if err != nil {
			t.Fatal(err)
		}
		shared[key] = s
	}
	return shared[key]
}

// timedOn is the memory in which "gathered" is timed, its permutations made by data.
func timedOn(t *testing.T, data string) (*timingState, *shapeData, *placement) {
	t.Helper()
	h := gatheredLab(t, data).lab
	h.holding = t.Context()
	timing, err := newTimingState(h, h.problem.Tune)
	if err != nil {
		t.Fatal(err)
	}
	d := h.problem.Tune[0]
	p := newPlacement(timing.places[d].base, 8) // of some hundred
	timing.places[d] = p
	timing.draw(newPool())
	return timing, d, p
}

// Every timed launch has a structure of its own, whoever makes it: else a candidate could remember
// what it computed of one. Functions in Python may take as long as what is timed.
func TestMadeAnew(t *testing.T) {
	for _, data := range []string{"python(permutation)", "permutation(N)"} {
		timing, d, p := timedOn(t, data)
		seen := map[string]bool{}
		look := func(n int, again bool) {
			t.Helper()
			sets := p.turn(n)
			if err := timing.refresh(d, sets); err != nil {
				t.Fatal(err)
			}
			for _, set := range sets {
				order := timing.ours.buffer(&d.layout, p.base, int(set), 1)
				checkPermutation(t, data, order, d)
				if seen[string(order)] != again {
					t.Errorf("%s: a launch whose permutation came before: %t, wants %t", data, !again, again)
				}
				seen[string(order)] = true
			}
			p.use(n)
		}
		timing.drawn = time.Now().Add(-time.Hour) // a busy machine has time, too
		look(p.sets, false)
		look(3, false)
		timing.pythonTime = time.Hour
		look(3, data == "python(permutation)")
		timing.close()
	}
}

// How long a launch takes may depend on a structure: one launch of the candidate and one of the
// baseline have the same. What else they work on differs.
func TestMadePairs(t *testing.T) {
	for _, data := range []string{"python(permutation)", "permutation(N)"} {
		timing, d, p := timedOn(t, data)
		of := func(set uint32, buffer int) string {
			return string(timing.ours.buffer(&d.layout, p.base, int(set), buffer))
		}
		sets := p.turn(3)
		mine, others := sets[:2], sets[2:]
		if err := timing.refresh(d, mine, others); err != nil {
			t.Fatal(err)
		}
		if of(mine[0], 1) != of(others[0], 1) || of(mine[1], 1) == of(others[0], 1) {
			t.Errorf("%s: the first launches of both sides have one permutation: %t; the second has it, too: %t", data, of(mine[0], 1) == of(others[0], 1), of(mine[1], 1) == of(others[0], 1))
		}
		if of(mine[0], 0) == of(others[0], 0) {
			t.Errorf("%s: both sides have the same x", data)
		}
		timing.close()
	}
}

// What the baseline made of a structure is gone before a candidate runs on the same: it may be the answer.
func TestMadeAnswers(t *testing.T) {
	made := gatheredLab(t, "permutation(N)")
	h := made.lab
	opened, err := h.Open(t.Context(), evaluator.ForTiming, bareOf(t, made).build("nothing", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close() //nolint:errcheck // what it says of the candidate is not asked
	s := opened.(*session)
	out, err := s.Sample(t.Context(), evaluator.SampleRequest{Shape: h.Plan.Tune[0], Rounds: 1, Batch: 200 * time.Microsecond, Within: map[string]float64{"y": 1e-5}})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Series[0]; got.Batch != got.BaselineBatch {
		t.Errorf("%d launches beside %d: some have no partner", got.Batch, got.BaselineBatch)
	}
	c, y := s.entries[0].now, 2
	c.edges = 1 << 30
	side, _ := s.state.sides(c, s.base)
	n := 2 * side
	seen := map[bool]int{}
	for seed := range uint64(12) {
		c.rng = rand.New(rand.NewPCG(seed, 1))
		same := rand.New(rand.NewPCG(seed, 1))
		if drawn := [2]int{same.IntN(seldom), same.IntN(c.edges)}; drawn[0] == 0 || drawn[1] == 0 {
			continue // something else comes first
		}
		others := c.place.turn(n)[side:]
		if same.IntN(2) == 0 {
			others = c.place.turn(n)[:side]
		}
		first := same.IntN(2) == 0 // the baseline is
		if _, _, err := s.state.pair(c, s.base, &evaluator.Observation{}); err != nil {
			t.Fatal(err)
		}
		for _, set := range others {
			if gone := bytes.Equal(s.state.ours.buffer(&c.d.layout, c.place.base, int(set), y), c.d.poison[y]); gone != first {
				t.Errorf("seed %d: the baseline was first: %t; its answers are gone: %t", seed, first, gone)
			}
		}
		seen[first]++
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("%v", seen)
	}
}

func checkPermutation(t *testing.T, what string, raw []byte, d *shapeData) {
	t.Helper()
	seen := make([]bool, d.Dims[0])
	for i := range seen {
		seen[int(i32.get(raw, i))] = true
	}
	if slices.Contains(seen, false) {
		t.Errorf("%s: no permutation", what)
	}
}

// What is wrong with inputs from Python is one line, too.
func TestPythonInputsFail(t *testing.T) {
	pythonInputsFail(t, "np.arange(N)", "[0, 9]", "reference.py:6: permutation makes 10 as element 10 of order, outside of its domain [0, 9]")
}

func TestPythonInputsFailLong(t *testing.T) {
	longtest.Long(t, "starts Python several times")
	pythonInputsFail(t, "np.arange(N) + 0.5", "", "reference.py:6: permutation makes 0.5 as element 0 of order, which i32 cannot hold")
	pythonInputsFail(t, "np.random.permutation(N)", "", "reference.py:6: permutation differs between two runs on the same inputs: element ")
	pythonInputsFail(t, "missing", "", "reference.py:7: NameError: name 'missing' is not defined")
}

func pythonInputsFail(t *testing.T, body, domain, want string) {
	t.Helper()
	b, err := New(pythonOptions(t, "numpy"))
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	if domain != "" {
		pairs = []string{"data = \"python(permutation)\"", "data = \"python(permutation)\"\ndomain = \"" + domain + "\""}
	}
	text := strings.Replace(gather, "np.random.default_rng(seed).permutation(N)", body, 1)
	_, err = evaluator.Open(t.Context(), b, planOf(gathered(t, text, pairs...)))
	if !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestPythonCostNightly: a reference in Python costs a campaign of a minute at most a twentieth: its start, and what
// it computes for all shapes and contents where nothing is known before.
func TestPythonCostNightly(t *testing.T) {
	longtest.Nightly(t, "measure", "measures")
	all := t.TempDir() // with what kernels share
	if err := os.CopyFS(all, kernels.Builtin()); err != nil {
		t.Fatal(err)
	}
	softmax := filepath.Join(all, "softmax")
	toml, err := os.ReadFile(filepath.Join(softmax, "kernel.toml"))
	if err != nil {
		t.Fatal(err)
	}
	toml = []byte(strings.Replace(string(toml), `source = "reference.c"`, `python = "reference.py"`, 1))
	for library, text := range map[string]string{
		"numpy": "import numpy as np\ndef reference(X):\n    e = np.exp(X - X.max(1, keepdims=True))\n    return e / e.sum(1, keepdims=True)\n",
		"torch": "import torch\ndef reference(X):\n    return torch.softmax(X, 1)\n",
	} {
		t.Run(library, func(t *testing.T) {
			o := pythonOptions(t, library)
			files := map[string][]byte{"kernel.toml": []byte(strings.Replace(string(toml), "python = ", "library = \""+library+"\"\npython = ", 1)), "reference.py": []byte(text)}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(softmax, name), text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			large, err := kernels.LoadDir(softmax)
			if err != nil {
				t.Fatal(err)
			}
			small := inPython(t, scaleInPython, `source = "reference.c"`, "python = \"reference.py\"\nlibrary = \""+library+"\"")
			for _, d := range []*kernels.Definition{small, large.On("cpu")} {
				spent := time.Duration(math.MaxInt64)
				for try := 0; try < 3 && spent > time.Minute/20; try++ { // others on the machine only add to it
					o.CacheDir = t.TempDir()
					h := openLab(t, d, o)
					spent = min(spent, h.python.Spent())
				}
				t.Logf("%s: %v, %.1f%% of a minute", d.Name, spent, 100*spent.Minutes())
				if spent > time.Minute/20 {
					t.Errorf("%s: %v is more than a twentieth of a minute", d.Name, spent)
				}
			}
		})
	}
}
