package python

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// An Interpreter is an installed Python.
type Interpreter struct {
	// Path is the program itself, not what starts it.
	Path    string `json:"path"`
	Version string `json:"version"`
	// Torch, NumPy and Triton are the versions of the libraries; "" where they are missing.
	Torch  string `json:"torch"`
	NumPy  string `json:"numpy"`
	Triton string `json:"triton"`
	// Folders are where it and its modules lie.
	Folders []string `json:"folders"`
}

// lookAround asks an interpreter about itself. It imports nothing that takes long.
const lookAround = `import importlib.metadata, importlib.util, json, os, sys
sys.path[:] = [p for p in sys.path if p]
def version(name):
    try:
        return importlib.metadata.version(name) if importlib.util.find_spec(name) else ""
    except Exception:
        return "of an unknown version"
print(json.dumps({
    "path": sys.executable, "version": ".".join(map(str, sys.version_info[:3])), "torch": version("torch"), "numpy": version("numpy"), "triton": version("triton"),
    "folders": [p for p in [os.path.dirname(os.path.realpath(sys.executable)), sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path] if os.path.isabs(p)],
}))`

// Variables say where an interpreter finds its modules.
var Variables = []string{"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX"}

// Find looks for the interpreter of a name or path; "" is python3.
func Find(ctx context.Context, l *process.Launcher, name string) (Interpreter, error) {
	const hint = "install Python and NumPy (apt-get install python3 python3-numpy), or name another with EVOTUNE_PYTHON"
	var p Interpreter
	if name == "" {
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return p, fmt.Errorf("there is no Python, %s: %s", name, hint)
	}
	text, err := l.Run(ctx, process.Command{Path: path, Args: []string{"-c", lookAround}, Dir: "/", Env: process.Environment(), Timeout: time.Minute, Output: 64 << 10})
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	switch {
	case ctx.Err() != nil:
		return p, ctx.Err()
	case err != nil || p.Path == "":
		return p, fmt.Errorf("the Python %s does not run (%s): %s", path, plain.First(string(text)+"\n"+fmt.Sprint(err)), hint)
	}
	return p, nil
}

// Library chooses the one that a definition asks for, and gives its version: "" asks for
// torch, or else numpy.
func (p Interpreter) Library(asked string) (name, version string, err error) {
	switch {
	case asked != "numpy" && p.Torch != "":
		return "torch", p.Torch, nil
	case asked != "torch" && p.NumPy != "":
		return "numpy", p.NumPy, nil
	case asked == "":
		return "", "", fmt.Errorf("%s has neither torch nor numpy: install one (apt-get install python3-numpy), or name another Python with EVOTUNE_PYTHON", p.Path)
	}
	return "", "", fmt.Errorf("%s has no %s: install it (apt-get install python3-%s), or name another Python with EVOTUNE_PYTHON", p.Path, asked, asked)
}

// Jail is what the interpreter may reach: its modules and the machine's libraries, and no
// other files of users.
func (p Interpreter) Jail() *process.Jail {
	read := slices.Concat(p.Folders, filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), []string{"/dev/urandom"})
	lists, _ := filepath.Glob("/etc/ld.so.conf.d/*.conf")
	for _, list := range lists {
		text, _ := os.ReadFile(list) // what cannot be read names nothing
		read = append(read, strings.Fields(string(text))...)
	}
	return process.NewJail(slices.DeleteFunc(read, func(path string) bool {
		return !filepath.IsAbs(path) || path == "/usr" || path == "/usr/local"
	})...)
}

// Doctor says which interpreter and which libraries there are.
func Doctor(ctx context.Context, l *process.Launcher, name string) evaluator.Tool {
	t := evaluator.Tool{Name: "python"}
	p, err := Find(ctx, l, name)
	if err != nil {
		t.Missing = "references in Python cannot run: " + err.Error()
		return t
	}
	t.Path, t.Version = p.Path, p.Version
	if _, _, err := p.Library(""); err != nil {
		t.Missing = "references in Python cannot run: " + err.Error()
		return t
	}
	for _, m := range [][2]string{{"torch", p.Torch}, {"numpy", p.NumPy}} {
		if m[1] != "" {
			t.Version += ", " + m[0] + " " + m[1]
		} else {
			t.Version += ", no " + m[0]
		}
	}
	return t
}
