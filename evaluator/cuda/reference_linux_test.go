package cuda

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// bareDefinition is of a kernel with two inputs whose only reference is in C.
func bareDefinition(t *testing.T) *kernels.Definition {
	t.Helper()
	return fakeFrom(t, bareText(t), "y[i] = 2 * x[i] + w[i]", "const double *x, const double *w")
}

func bareText(t *testing.T) string {
	t.Helper()
	text := fakeKernel
	replace := func(old, with string) {
		t.Helper()
		if strings.Count(text, old) != 1 {
			t.Fatalf("the fake kernel has %q %d times", old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, with, 1)
	}
	replace("[problem.reference.cuda]\nsource = \"reference.cu\"\nentry = \"reference\"\ngrid = [\"ceil(N/128)\"]\nblock = [\"128\"]\n", "")
	replace("[[problem.buffer]]\nname = \"y\"", "[[problem.buffer]]\nname = \"w\"\ndtype = \"f32\"\nrole = \"in\"\nshape = [\"N\"]\ndata = \"normal(0,1)\"\n\n[[problem.buffer]]\nname = \"y\"")
	replace("kind = \"constant\"\n", "kind = \"constant\"\n\n[[problem.control]]\nkind = \"swap\"\nbuffers = [\"x\", \"w\"]\n")
	return text
}

// Where the only reference is in C, the worker gets what it gives for the contents that
// the worker made, for those of files, and for exchanged inputs. The fake worker holds
// each against its own answer, and fails where there is none or another.
func TestReferenceInC(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no C compiler: the reference in C cannot run")
	}
	dir := filepath.Join(t.TempDir(), "cache")
	t.Run("evaluated", func(t *testing.T) { evaluateBare(t, dir) })
	// The cache has the answers: the next lab does not run the reference.
	t.Run("again", func(t *testing.T) { expectAgain(t, dir) })
}

// The kernel itself as a reference need not compile in double precision for the GPU; a reference of its own must.
func TestReferenceDoesNotCompile(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no C compiler: the reference in C cannot run")
	}
	text := strings.Replace(bareText(t), "[[problem.shape]]", "[problem.reference.cuda]\nsource = \"reference.cu\"\nentry = \"reference\"\ngrid = [\"ceil(N/128)\"]\nblock = [\"128\"]\n\n[[problem.shape]]", 1)
	files := map[string]string{
		"reference.c":  "#include <stdint.h>\nvoid reference(int64_t N, const double *x, const double *w, double *y)\n{\n\tfor (int64_t i = 0; i < N; i++)\n\t\ty[i] = 2 * x[i] + w[i];\n}\n",
		"reference.cu": "// do: compile=error\nextern \"C\" __global__ void reference(int64_t N, const double *x, const double *w, double *y) {}\n",
	}
	b, err := New(fakeOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evaluator.Open(t.Context(), b, planOf(fakeFiles(t, text, files))); !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), "the fake refuses") {
		t.Errorf("a reference of its own: error %v", err)
	}
	own := strings.Replace(text, "[problem.reference]\n", "oracle = \"baseline\"\n\n[problem.reference]\n", 1)
	h, ev := openFakePlan(t, fakeOptions(t), planOf(fakeFiles(t, own, files)))
	if h.hostReference == "" {
		t.Error("there is no program with the reference in C")
	}
	for do, want := range map[string]evaluator.Verdict{"nothing": evaluator.Correct, "parity=wrong": evaluator.Parity} {
		if r := evaluate(t, ev, fakeGenome(t, do, 1)); r.Verdict != want {
			t.Errorf("%s: %s at %s: %s", do, r.Verdict, r.Stage, r.Reason)
		}
	}
}

// What fails at the shape for the sanitizers does so before anything else is compiled, and says what sets the shape.
func TestReferenceIsTriedFirst(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no C compiler: the reference in C cannot run")
	}
	text := strings.Replace(bareText(t), "[[problem.shape]]", "[problem.reference.cuda]\nsource = \"reference.cu\"\nentry = \"reference\"\ngrid = [\"ceil(N/128)\"]\nblock = [\"128\"]\n\n[[problem.shape]]", 1)
	d := fakeFiles(t, text, map[string]string{
		"reference.c":  "#include <stdint.h>\nvoid reference(int64_t N, const double *x, const double *w, double *y)\n{\n\t*(volatile int *)8 = 0;\n}\n",
		"reference.cu": "// do: compile=error\nextern \"C\" __global__ void reference(int64_t N, const double *x, const double *w, double *y) {}\n",
	})
	b, err := New(fakeOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	s := planOf(d).Sanitize
	_, err = b.open(t.Context(), planOf(d))
	want := fmt.Sprintf("; if it cannot compute N = %d, set other dims in kernel.toml, [[problem.shape]] with name = %q and use = \"sanitize\"", s.Dims["N"], s.Name)
	if !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "shape "+s.Name+", on the CPU: ") {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func evaluateBare(t *testing.T, dir string) {
	o := fakeOptions(t)
	o.CacheDir = dir
	plan := planOf(bareDefinition(t))
	h, ev := openFakePlan(t, o, plan)
	if h.hostReference == "" {
		t.Fatal("there is no program with the reference in C")
	}
	if !slices.ContainsFunc(h.Describe().Tools, func(t evaluator.Tool) bool { return t.Name == "reference while timing" && t.Missing != "" }) {
		t.Errorf("it is not told what is not run: %+v", h.Describe().Tools)
	}
	space, err := plan.Definition.Space(plan.Implementations, plan.Tune, nil)
	if err != nil {
		t.Fatal(err)
	}
	for do, want := range map[string]evaluator.Verdict{"nothing": evaluator.Correct, "parity=wrong": evaluator.Parity, "time=after": evaluator.Parity} {
		g, err := space.FromMap(map[string]any{"DO": do, "SALT": 1, "BLOCK": 64})
		if err != nil {
			t.Fatal(err)
		}
		r := evaluate(t, ev, g)
		if r.Verdict != want {
			t.Errorf("%s: %s at %s: %s", do, r.Verdict, r.Stage, r.Reason)
		}
	}
	for _, what := range []string{"tuned-false-0-0", "tuned-false-1-0", "tuned-false-0-3", "odd-false-0-0", "small-true-0-0"} {
		if _, err := os.Stat(filepath.Join(stateOf(o), "expected-"+what)); err != nil {
			t.Errorf("the worker was not told what is expected at %s", what)
		}
	}
}

func expectAgain(t *testing.T, dir string) {
	o := fakeOptions(t)
	o.CacheDir = dir
	h, _ := openFakePlan(t, o, planOf(bareDefinition(t)))
	if err := os.WriteFile(h.hostReference, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := h.gpus[0].parity.own(t.Context(), func(w *worker) error {
		_, err := h.expect(t.Context(), w, h.problem.Verify[0].wire, h.problem.seedOf(1), nil)
		return err
	})
	if err != nil {
		t.Errorf("what was known is computed again: %v", err)
	}
	// What is not known says that the reference fails.
	err = h.gpus[0].parity.own(t.Context(), func(w *worker) error {
		s := h.problem.Verify[0].wire
		s.Dims, s.Elements = []int64{5}, []int64{5, 5, 5}
		_, err := h.expect(t.Context(), w, s, h.problem.seedOf(1), nil)
		return err
	})
	if !errors.Is(err, ErrReference) {
		t.Errorf("a reference that fails gives %v", err)
	}
	// Names that the problem does not have are refused.
	for _, swap := range [][]string{{"x", "none"}, {"none", "w"}} {
		err = h.gpus[0].parity.own(t.Context(), func(w *worker) error {
			_, err := h.expect(t.Context(), w, h.problem.Verify[0].wire, h.problem.seedOf(1), &wire.ControlRequest{Kind: "swap", Buffers: swap})
			return err
		})
		if err == nil || !strings.HasPrefix(err.Error(), "the control swap: ") {
			t.Errorf("%q gives %v", swap, err)
		}
	}
}

// Whoever waits for another's answer stops when it is told to.
func TestExpectIsCanceled(t *testing.T) {
	h := newLab(&labs.Base{}, Options{CompileWorkers: 1})
	h.hostKey = "reference"
	if err := h.expecting.Acquire(t.Context(), 1); err != nil { // another computes
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := h.expect(ctx, nil, wire.Shape{}, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it gives %v", err)
	}
}

// A reference in C reads no file of the user, neither when it is compiled nor when it runs.
func TestReferenceInCJailed(t *testing.T) {
	secret := userFile(t)
	h, _ := openFakePlan(t, fakeOptions(t), planOf(bareDefinition(t)))
	spec := *h.problem.spec
	h.problem.spec = &spec
	spec.Reference.Text = fmt.Sprintf("#include %q\n", secret)
	if _, err := h.buildHostReference(t.Context()); !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("it is included: %v", err)
	}
	spec.Reference.Text = fmt.Sprintf("#include <stdio.h>\n#include <stdlib.h>\n"+
		"void %s(int64_t n, const double *x, const double *w, double *y) { (void)n, (void)x, (void)w, (void)y; exit(fopen(%q, \"r\") ? 40 : 41); }\n", spec.Reference.Entry, secret)
	program, err := h.buildHostReference(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := h.problem.Sanitize.wire
	var buffers [][]byte
	for _, n := range s.Elements {
		buffers = append(buffers, make([]byte, 8*n))
	}
	if _, err := h.computeOnHost(t.Context(), program, s, buffers, time.Minute, true, false); err == nil || !strings.Contains(err.Error(), "exit status 41") {
		t.Errorf("it is read: %v", err)
	}
}

// A run of the reference has the time that it is given.
func TestReferenceInCTimeout(t *testing.T) {
	t.Parallel()
	o := fakeOptions(t)
	h, _ := openFakePlan(t, o, planOf(bareDefinition(t)))
	program := filepath.Join(h.Scratch, "slow")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	err := h.runHostReference(t.Context(), program, h.problem.Sanitize.wire, "in", "out", 100*time.Millisecond)
	if !errors.Is(err, ErrReference) || time.Since(begin) > 30*time.Second {
		t.Errorf("after %s it gives %v", time.Since(begin), err)
	}
}

// Without a compiler such a kernel cannot be tuned, and it is said what to install.
func TestReferenceInCWithoutCompiler(t *testing.T) {
	o := fakeOptions(t)
	tools := t.TempDir()
	for _, name := range []string{"sh", "cat", "true"} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(tools, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("PATH", tools)
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.open(t.Context(), planOf(bareDefinition(t)))
	if h != nil {
		_ = h.Close()
	}
	if want := fmt.Sprint("kernel fake has none in CUDA, and the one in C cannot be used: ", noCompiler); !errors.Is(err, ErrReference) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// inPython is a definition whose reference is in Python.
func inPython(t *testing.T, definition, text string) *kernels.Definition {
	t.Helper()
	return fakeFiles(t, strings.Replace(definition, `source = "reference.c"`, "python = \"reference.py\"\nlibrary = \"numpy\"", 1), map[string]string{"reference.py": text})
}

// A reference in Python takes the place of one in C: without one in CUDA the worker gets
// what it gives, and otherwise the one in CUDA is held against it.
func TestReferenceInPython(t *testing.T) {
	t.Parallel()
	o := fakeOptions(t)
	o.Python = backendtest.Python(t, "numpy")
	bare := inPython(t, bareText(t), "def reference(x, w):\n    return 2 * x + w\n")
	t.Run("evaluated", func(t *testing.T) {
		plan := planOf(bare)
		h, ev := openFakePlan(t, o, plan)
		if h.python == nil || h.hostKey != h.python.Key || h.hostReference != "" || h.python.Spent() <= 0 {
			t.Fatalf("Python does not compute what is expected: %+v", h.python)
		}
		for do, want := range map[string]evaluator.Verdict{"nothing": evaluator.Correct, "parity=wrong": evaluator.Parity} {
			space, err := bare.Space(plan.Implementations, plan.Tune, nil)
			if err != nil {
				t.Fatal(err)
			}
			g, err := space.FromMap(map[string]any{"DO": do, "SALT": 1, "BLOCK": 64})
			if err != nil {
				t.Fatal(err)
			}
			if r := evaluate(t, ev, g); r.Verdict != want {
				t.Errorf("%s: %s at %s: %s", do, r.Verdict, r.Stage, r.Reason)
			}
		}
	})
	t.Run("missing", func(t *testing.T) {
		o := o
		o.Python = "no-such-python"
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.open(t.Context(), planOf(bare))
		if want := "kernel fake: fake/reference.py: there is no Python, no-such-python: "; !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// Two references are held against each other, and one that fails says where.
func TestReferenceInPythonLong(t *testing.T) {
	longtest.Long(t, "it starts Python some twenty times")
	o := fakeOptions(t)
	o.Python = backendtest.Python(t, "numpy")
	t.Run("beside one in CUDA", func(t *testing.T) {
		h, _ := openFakePlan(t, o, planOf(inPython(t, fakeKernel, "def reference(x):\n    return 2 * x\n")))
		if h.hostKey != "" || h.python == nil || h.python.Spent() <= 0 {
			t.Error("the one in CUDA was not held against the one in Python")
		}
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		wrong, err := b.open(t.Context(), planOf(inPython(t, fakeKernel, "def reference(x):\n    return 2 * x + 1e-3\n")))
		if wrong != nil {
			_ = wrong.Close()
		}
		if want := "the one on the device disagrees with the one on the CPU: output y, element 0 is "; !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	})
	for name, c := range map[string]struct{ text, want string }{
		"raises": {"def reference(x, w):\n    raise ValueError('no')\n", "the reference fails: kernel fake, shape small: fake/reference.py:2: ValueError: no"},
		"random": {"import numpy as np\ndef reference(x, w):\n    return 2 * x + w + np.random.random(len(x))\n", "fake/reference.py:2: reference differs between two runs on the same inputs: element 0 of y is "},
		"NaN":    {"def reference(x, w):\n    return x * float('nan')\n", "fake/reference.py:1: reference returns nan as element 0 of y: every element must be finite"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = evaluator.Open(t.Context(), b, planOf(inPython(t, bareText(t), c.text)))
			if !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// Inputs from Python reach the worker in a file, and the reference as the worker has them.
func TestInputsInPythonLong(t *testing.T) {
	longtest.Long(t, "it starts Python some twenty times")
	o := fakeOptions(t)
	o.Python = backendtest.Python(t, "numpy")
	text := strings.Replace(bareText(t), "[\"N\"]\ndata = \"normal(0,1)\"\n\n[[problem.buffer]]\nname = \"y\"", "[\"N\"]\ndata = \"python(make_w)\"\n\n[[problem.buffer]]\nname = \"y\"", 1)
	d := inPython(t, text, "import numpy as np\n\ndef reference(x, w):\n    return 2 * x + w\n\ndef make_w(N, seed):\n    return np.arange(N) + seed % 1000\n")
	if w, _ := d.Problem.Buffer("w"); !w.Kept() {
		t.Fatalf("%+v", w)
	}
	plan := planOf(d)
	h, ev := openFakePlan(t, o, plan)
	space, err := d.Space(plan.Implementations, plan.Tune, nil)
	if err != nil {
		t.Fatal(err)
	}
	for do, want := range map[string]evaluator.Verdict{"nothing": evaluator.Correct, "parity=wrong": evaluator.Parity} {
		g, err := space.FromMap(map[string]any{"DO": do, "SALT": 1, "BLOCK": 64})
		if err != nil {
			t.Fatal(err)
		}
		if r := evaluate(t, ev, g); r.Verdict != want {
			t.Errorf("%s: %s at %s: %s", do, r.Verdict, r.Stage, r.Reason)
		}
	}
	for _, s := range h.problem.placed {
		made, err := readElements(s.wire.Made, h.problem.open.Buffers[1].DType)
		n := int(s.wire.Elements[1])
		if err != nil || len(made) != wire.MadeContents*n {
			t.Fatalf("%d numbers for %d elements (%v)", len(made), n, err)
		}
		for k := range uint64(wire.MadeContents) {
			seed := h.problem.seedOf(int(k))
			if got, want := made[int(seed%wire.MadeContents)*n], float64(seed%1000); got != want {
				t.Errorf("%s, content %d: %g, want %g", s.shape.Name, k, got, want)
			}
		}
	}
	own, err := h.problem.sized(kernels.Shape{Name: "own", Dims: map[string]int64{"N": 5}})
	if err == nil {
		err = errors.Join(h.placeMade(t.Context(), own), h.placeMade(t.Context(), own))
	}
	if info, statErr := os.Stat(own.wire.Made); err != nil || statErr != nil || info.Size() != 3*5*wire.ElementBytes(h.problem.open.Buffers[1].DType) {
		t.Errorf("a shape of a candidate's own: %v, %v", err, statErr)
	}
}

// The examples for a GPU are in order as far as can be told without one.
func TestReferenceExamples(t *testing.T) {
	for _, name := range []string{"c-reference", "python-reference"} {
		d, err := kernels.LoadDir(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if d.Problem.DeviceReference != nil {
			t.Errorf("%s has a reference in CUDA", name)
		}
		for _, f := range kernels.Lint(t.Context(), d, 50, rand.New(rand.NewSource(1))) {
			t.Error(f)
		}
	}
}
