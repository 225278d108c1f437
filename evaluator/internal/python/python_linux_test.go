package python

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

const definition = `format = 1
name = "scaled"
description = "y = f x, and its sum"

[problem]
dims = ["R", "C"]
operations = "R*C"
bytes = "8*R*C"
pipe = "f32"

[problem.reference]
python = "reference.py"
entry = "reference"

[[problem.shape]]
name = "tune"
dims = { R = 2, C = 3 }
use = "tune"
[[problem.shape]]
name = "verify"
dims = { R = 1, C = 5 }
use = "verify"
[[problem.shape]]
name = "small"
dims = { R = 1, C = 2 }
use = "sanitize"

[[problem.buffer]]
name = "x"
dtype = "f32"
shape = ["R", "C"]
role = "in"
data = "uniform(-1,1)"
[[problem.buffer]]
name = "index"
dtype = "i32"
shape = ["R"]
role = "in"
data = "integers(0,3)"
[[problem.buffer]]
name = "y"
dtype = "f32"
shape = ["R", "C"]
role = "out"
[[problem.buffer]]
name = "total"
dtype = "f32"
shape = ["R"]
role = "inout"
data = "constant(1)"

[[problem.scalar]]
name = "f"
dtype = "f32"
value = "2"
[[problem.scalar]]
name = "k"
dtype = "i32"
value = "C"

[problem.tolerance]
f32 = 1e-5
[[problem.control]]
kind = "zeros"

[[implementation]]
name = "plain"
backend = "cpu"
target = "native"
template = "k.c.tmpl"
entry = "k"
[[implementation.parameter]]
name = "A"
values = [1, 2]
[implementation.baseline]
genome = { A = 1 }
`

func program(t *testing.T, o Options, text, library string) (*Program, error) {
	toml := definition
	if library != "" {
		toml = strings.Replace(toml, `entry = "reference"`, "entry = \"reference\"\nlibrary = \""+library+`"`, 1)
	}
	d, err := kernels.Load(fstest.MapFS{
		"scaled/kernel.toml":  {Data: []byte(toml)},
		"scaled/reference.py": {Data: []byte(text)},
		"scaled/k.c.tmpl":     {Data: []byte("void k(void) {}")},
	}, "scaled")
	if err != nil {
		t.Fatal(err)
	}
	base, err := labs.New(t.Context(), evaluator.Plan{Definition: d}, slog.New(slog.DiscardHandler), t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := base.End(nil, nil); err != nil {
			t.Error(err)
		}
	})
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	p, err := New(t.Context(), base, &d.Problem, o)
	t.Cleanup(p.Close)
	return p, err
}

func doubles(list ...float64) (b []byte) {
	for _, x := range list {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// ask computes the outputs at the tuned shape.
func ask(ctx context.Context, p *Program, twice bool) ([]float64, error) {
	z := labs.Size{Dims: []int64{2, 3}, Elements: []int64{6, 2, 6, 2}, Scalars: []float64{2, 3}}
	other := [][]byte{doubles(0, 0, 0, 0, 0, 0), doubles(0, 0), nil, doubles(1, 2)}
	out, err := p.Outputs(ctx, z, [][][]byte{{doubles(1, 2, 3, 4, 5, 6), doubles(0, 3), nil, doubles(10, 20)}, other}, true, twice)
	if err != nil {
		return nil, err
	}
	list := make([]float64, len(out[0])/8)
	for i := range list {
		list[i] = math.Float64frombits(binary.LittleEndian.Uint64(out[0][8*i:]))
	}
	if len(out) != 2 || len(out[1]) != len(out[0]) {
		return nil, errors.New("the second set has no answer of its own")
	}
	return list, nil
}

const right = `
def reference(x, total, f, k, R, index):
    assert isinstance(f, float) and isinstance(k, int) and isinstance(R, int), (f, k, R)
    assert str(index.dtype).endswith("int64") and str(x.dtype).endswith("float64"), (index.dtype, x.dtype)
    total += x.sum(1) + index
    x *= f
    return x, total
`

// Inputs come by name and by type, outputs are doubles, and what the function writes to
// changes nothing.
func TestOutputs(t *testing.T) { outputs(t, "numpy") }

func TestOutputsLong(t *testing.T) {
	longtest.Long(t, "starts PyTorch")
	outputs(t, "torch")
}

func outputs(t *testing.T, library string) {
	t.Helper()
	p, err := program(t, Options{Interpreter: backendtest.Python(t, library)}, right, library)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := ask(t.Context(), p, true)
		if err != nil {
			t.Fatal(err)
		}
		want := []float64{2, 4, 6, 8, 10, 12, 16, 38}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	}
	if tools := p.base.Desc.Tools; len(tools) != 1 || !strings.HasSuffix(tools[0].Version, ", "+library+" "+p.version) || p.Spent() <= 0 {
		t.Error(tools, p.Spent())
	}
	stopped := func() bool {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(p.child.PID) + "/stat")
		return err == nil && strings.Contains(string(state), ") T ")
	}
	for try := 0; !stopped(); try++ { // the system needs a moment for each thread
		if time.Sleep(10 * time.Millisecond); try == 6000 {
			t.Fatal("it does not stand still between calls")
		}
	}
}

// A dictionary, a list and other types of numbers do as well.
func TestReturned(t *testing.T) {
	python := backendtest.Python(t, "numpy")
	for _, text := range []string{
		"def reference(x):\n    return {'total': x.sum(1).astype(int), 'y': x.astype('float32')}\n",
		"def reference(x):\n    return [x.tolist(), [6, 15]]\n",
		"@(lambda f: f)\ndef reference(x, more=3, *rest, **named):\n    print('noise', input if False else '')\n    return x, x.sum(1)\n",
		"def reference(x, index):\n    import sys\n    return x + len(sys.stdin.read()), x.sum(1)\n",
	} {
		p, err := program(t, Options{Interpreter: python}, text, "numpy")
		if err != nil {
			t.Fatal(err)
		}
		got, err := ask(t.Context(), p, true)
		if err != nil || got[5] != 6 || got[6] != 6 || got[7] != 15 {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// A badFile is what is wrong with a file, and the line that says so.
type badFile struct{ name, text, want string }

// Whatever is wrong with the file is one line that names it and its line.
func TestBadFiles(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(home+"/secret", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	badFiles(t, []badFile{
		{"wrong shape", "\ndef reference(x):\n    return x.T, x.sum(1)\n", `scaled/reference.py:2: reference returns an array of shape [3, 2] for y, whose shape is [2, 3]`},
		{"complex", "def reference(x):\n    return x * 1j, x.sum(1)\n", `scaled/reference.py:1: reference returns an array of complex128 for y: return an array of float64`},
		{"NaN", "def reference(x):\n    x[1, 1] = float('nan')\n    return x, x.sum(1)\n", `scaled/reference.py:1: reference returns nan as element 4 of y: every element must be finite`},
		{"nothing", "def reference(x):\n    pass\n", `scaled/reference.py:1: reference returns nothing: return y, total`},
		{"other names", "def reference(x):\n    return {'Y': x}\n", `scaled/reference.py:1: reference returns a dict with Y: the outputs are y, total`},
		{"raises", "import math\ndef helper(x):\n    return math.sqrt(-1)\n\ndef reference(x):\n    return helper(x)\n", `scaled/reference.py:3: ValueError: math domain error`},
		{"syntax", "def reference(x):\n    return )\n", `scaled/reference.py:2: SyntaxError: unmatched ')'`},
		{"exits at once", "import os\ndef reference(x):\n    os._exit(3)\n", `scaled/reference.py:2: it ended the interpreter (status 3)`},
		{"crashes", "import ctypes\ndef reference(x):\n    ctypes.string_at(0)\n", `scaled/reference.py:3: it crashed the interpreter (SIGSEGV)`},
		{"not defined", "def other(x):\n    return x\n", `scaled/reference.py: it does not define reference: correct the entry, or define it`},
		{"unknown parameter", "def reference(X):\n    return X, X.sum(1)\n", `scaled/reference.py:1: reference has the parameter X, which nothing has as its name: there are C, R, f, k, x, index, total`},
		{"random", "import numpy as np\nrng = np.random.default_rng()\ndef reference(x):\n    return x, rng.random(2)\n", `scaled/reference.py:3: reference differs between two runs on the same inputs: element 0 of total is `},
		{"network", "import socket\ndef reference(x):\n    socket.create_connection(('127.0.0.1', 80))\n", `scaled/reference.py:3: PermissionError: [Errno 13] Permission denied`},
		{"files of the user", "def reference(x):\n    open('" + home + "/secret')\n", `scaled/reference.py:2: PermissionError: [Errno 13] Permission denied: '` + home + "/secret'"},
	})
}

func TestBadFilesLong(t *testing.T) {
	longtest.Long(t, "starts Python many times")
	badFiles(t, []badFile{
		{"no shape", "def reference(x):\n    return x, 1.5\n", `scaled/reference.py:1: reference returns an array of shape [] for total, whose shape is [2]`},
		{"ragged", "def reference(x):\n    return [[1, 2], [3]], x.sum(1)\n", `scaled/reference.py:1: reference returns a list, which is not an array (`},
		{"text", "def reference(x):\n    return 'x', x.sum(1)\n", `scaled/reference.py:1: reference returns an array of <U1 for y: return an array of float64`},
		{"infinite", "def reference(x):\n    return x, x.sum(1) / 0.\n", `scaled/reference.py:1: reference returns inf as element 0 of total: every element must be finite`},
		{"one for two", "def reference(x):\n    return x\n", `scaled/reference.py:1: reference returns one value: the outputs are y, total`},
		{"three for two", "def reference(x):\n    return x, x, x\n", `scaled/reference.py:1: reference returns 3 values: the outputs are y, total`},
		{"raises in a library", "import numpy as np\n\ndef reference(x):\n    return np.zeros(3) + np.zeros(4)\n", `scaled/reference.py:4: ValueError: operands could not be broadcast together with shapes (3,) (4,)`},
		{"several lines", "def reference(x):\n    raise ValueError('one\\ntwo')\n", `scaled/reference.py:2: ValueError: one`},
		{"at import", "\nimport no_such_module\n", `scaled/reference.py:2: ModuleNotFoundError: No module named 'no_such_module'`},
		{"exits", "import sys\ndef reference(x):\n    sys.exit(3)\n", `scaled/reference.py:3: SystemExit: 3`},
		{"killed", "import os, signal\ndef reference(x):\n    os.kill(os.getpid(), signal.SIGKILL)\n", `scaled/reference.py:2: the system killed it, as it does where no memory is left: compute in smaller parts`},
		{"output as parameter", "def reference(x, y):\n    return x, x.sum(1)\n", `scaled/reference.py:1: reference has the parameter y, which is an output: remove it, and return the output`},
		{"random when loaded", "import numpy as np\nw = np.random.random(2)\ndef reference(x):\n    return x, w\n", `scaled/reference.py:3: reference differs between two runs on the same inputs: element 0 of total is `},
		{"processes outside", "import os\ndef reference(x):\n    os.kill(os.getppid(), 0)\n    return x, x.sum(1)\n", `scaled/reference.py:3: PermissionError: [Errno 1] Operation not permitted`},
	})
}

func badFiles(t *testing.T, list []badFile) {
	t.Helper()
	python := backendtest.Python(t, "numpy")
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			p, err := program(t, Options{Interpreter: python}, c.text, "numpy")
			if err != nil {
				t.Fatal(err)
			}
			_, err = ask(t.Context(), p, true)
			var e *Error
			if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// One that hangs is killed, and says where it was; the next call starts anew.
func TestHang(t *testing.T) {
	hang(t, "while True: pass", 2)
}

func TestHangLong(t *testing.T) {
	longtest.Long(t, "waits")
	hang(t, "__import__('time').sleep(1000)", 1)
	hang(t, "exec('while True:\\n try:\\n  while True: pass\\n except BaseException: pass')", 1)
}

func hang(t *testing.T, body string, times int) {
	t.Helper()
	p, err := program(t, Options{Interpreter: backendtest.Python(t, "numpy")}, "def reference(x):\n    if x[0, 0] == 1:\n        "+body+"\n", "numpy")
	if err != nil {
		t.Fatal(err)
	}
	usual := p.options.Timeout
	for range times {
		p.options.Timeout = usual
		if err := p.start(t.Context()); err != nil { // the import may take long on a busy machine
			t.Fatal(err)
		}
		p.options.Timeout = time.Second
		_, err := ask(t.Context(), p, false)
		if want := `scaled/reference.py:3: no answer within 1s: it hangs, or is too slow for this shape`; err == nil || err.Error() != want {
			t.Errorf("%s: got  %v\nwant %s", body, err, want)
		}
	}
}

// A call that is canceled ends.
func TestCanceled(t *testing.T) {
	p, err := program(t, Options{Interpreter: backendtest.Python(t, "numpy")}, "import time\ndef reference(x):\n    time.sleep(1000)\n", "numpy")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := ask(ctx, p, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// One that eats memory is refused it, at its line.
func TestMemory(t *testing.T) {
	p, err := program(t, Options{Interpreter: backendtest.Python(t, "numpy"), Memory: 1 << 30}, "import numpy as np\ndef reference(x):\n    all = []\n    while True:\n        all.append(np.ones(1 << 22))\n", "numpy")
	if err != nil {
		t.Fatal(err)
	}
	_, err = ask(t.Context(), p, false)
	if want := `scaled/reference.py:5: `; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "MemoryError") {
		t.Errorf("got %v, want %s...MemoryError", err, want)
	}
}

// What is missing is named, with what to install.
func TestMissing(t *testing.T) {
	path, err := exec.LookPath(backendtest.Python(t, "numpy"))
	if err != nil {
		t.Fatal(err)
	}
	bare := t.TempDir() + "/python"
	// Without its site module an interpreter finds the standard library alone.
	if err := os.WriteFile(bare, []byte("#!/bin/sh\nexec "+path+" -S \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ python, library, want string }{
		{"no-such-python", "", `scaled/reference.py: there is no Python, no-such-python: install Python and NumPy (apt-get install python3 python3-numpy), or name another with EVOTUNE_PYTHON`},
		{"false", "", `scaled/reference.py: the Python /usr/bin/false does not run (`},
		{bare, "", `has neither torch nor numpy: install one (apt-get install python3-numpy), or name another Python with EVOTUNE_PYTHON`},
		{bare, "numpy", `has no numpy: install it (apt-get install python3-numpy), or name another Python with EVOTUNE_PYTHON`},
		{bare, "torch", `has no torch: install it (apt-get install python3-torch), or name another Python with EVOTUNE_PYTHON`},
	} {
		_, err := program(t, Options{Interpreter: c.python}, right, c.library)
		if err == nil || !strings.HasPrefix(err.Error(), "scaled/reference.py: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// Where a definition names no library it gets PyTorch, and NumPy where that is not installed.
func TestLibrary(t *testing.T) {
	both, one := Interpreter{Torch: "2.8", NumPy: "2.3"}, Interpreter{NumPy: "2.3"}
	for _, c := range []struct {
		p           Interpreter
		asked, want string
	}{{both, "", "torch"}, {both, "numpy", "numpy"}, {both, "torch", "torch"}, {one, "", "numpy"}, {one, "numpy", "numpy"}, {one, "torch", ""}} {
		if name, version, err := c.p.Library(c.asked); name != c.want || (err == nil) != (c.want != "") || (err == nil) != (version != "") {
			t.Errorf("%+v, asked for %q: %q %q, %v", c.p, c.asked, name, version, err)
		}
	}
}

// Doctor names the interpreter and its libraries, and what is lost without.
func TestDoctor(t *testing.T) {
	l := process.NewLauncher()
	defer l.Close()
	path := backendtest.Python(t, "numpy")
	if d := Doctor(t.Context(), l, path); d.Name != "python" || d.Missing != "" || d.Path == "" || !strings.Contains(d.Version, "numpy") || !strings.Contains(d.Version, "torch") {
		t.Errorf("%+v", d)
	}
	if d := Doctor(t.Context(), l, "no-such-python"); !strings.HasPrefix(d.Missing, "references in Python cannot run: there is no Python, no-such-python: ") {
		t.Errorf("%+v", d)
	}
}
