package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/viper"

	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/internal/words"
)

func TestMain(m *testing.M) {
	cuda.CompileServerMain() // returns unless this process is to compile
	testscript.Main(m, map[string]func(){"tune": main})
}

// TestScripts runs testdata/script: what a person sees, exit statuses included.
func TestScripts(t *testing.T) { scripts(t, "testdata/script") }

// TestScriptsLong runs the scripts that tune kernels on this machine.
func TestScriptsLong(t *testing.T) {
	longtest.Long(t, "they tune kernels")
	scripts(t, "testdata/script/long")
}

func scripts(t *testing.T, dir string) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	proven := filepath.Join(t.TempDir(), "proven.db")
	addProven(t, proven, "softmax", 1, 0.5)
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("ROOT", root)
			tools, _, _ := strings.Cut(e.Getenv("PATH"), string(filepath.ListSeparator))
			e.Setenv("ONLYTUNE", tools) // a PATH on which there is no compiler
			e.Setenv("NUMPY", numpy())
			e.Setenv("TABLE", "synthetic.json")
			e.Setenv("PROVEN", proven)        // a store with a winner of softmax that can be exported
			e.Setenv("XDG_CACHE_HOME", cache) // compiled references are slow to make again
			return os.WriteFile(filepath.Join(e.WorkDir, "synthetic.json"), tables.SyntheticFile(1000), 0o644)
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "compiler":
				_, err := exec.LookPath("gcc")
				return err == nil, nil
			case "numpy":
				return numpy() != "", nil
			case "userroot":
				return os.Getuid() == 0, nil
			}
			return false, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":  status,
			"lastly":  lastly,
			"capture": capture,
		},
	})
}

// numpy is a Python that has it, "" where there is none.
var numpy = sync.OnceValue(func() string { return backendtest.FindPython("numpy") })

// status runs a command and checks its exit status, which may be one of several:
// status 3 tune run ..., status 0,4 tune verify ...
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND [ARGS]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if !slices.Contains(strings.Split(args[0], ","), got) {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// lastly checks fields of the last JSON line of stdout: lastly event=finished
func lastly(ts *testscript.TestScript, neg bool, args []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	var m map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &m); err != nil {
		ts.Fatalf("the last line is no JSON object: %v", err)
	}
	for _, a := range args {
		k, want, _ := strings.Cut(a, "=")
		v, ok := lookup(m, strings.Split(k, "."))
		if !ok {
			ts.Fatalf("the last line has no %q", k)
		}
		b, err := json.Marshal(v)
		if err != nil {
			ts.Fatalf("%v", err)
		}
		if got := strings.Trim(string(b), `"`); want != "" && (got == want) == neg {
			ts.Fatalf("%s is %s, want %s", k, got, want)
		}
	}
}

func lookup(m map[string]any, path []string) (any, bool) {
	v, ok := m[path[0]]
	if !ok || len(path) == 1 {
		return v, ok
	}
	sub, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	return lookup(sub, path[1:])
}

// capture sets a variable from a field of the last JSON line of stdout:
// capture ID best.candidate
func capture(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	var m map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &m); err != nil {
		ts.Fatalf("the last line is no JSON object: %v", err)
	}
	v, ok := lookup(m, strings.Split(args[1], "."))
	if !ok {
		ts.Fatalf("the last line has no %q", args[1])
	}
	ts.Setenv(args[0], v.(string))
}

// full is an output that has no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A command that could not print what it was asked for has failed.
func TestFullOutput(t *testing.T) {
	path := manyCandidates(t, 3, 5)
	for _, args := range [][]string{
		{"best", "softmax"}, {"best", "softmax", "--json"}, {"query", "true"}, {"query", "true", "--count"}, {"query", "true", "--format", "csv"}, {"list"},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), append(args, "--store", path), nil, full{}, &stderr); code != exitFailure || stderr.String() != "tune: no space left on device\n" {
			t.Errorf("tune %s: exit status %d: %s", strings.Join(args, " "), code, stderr.String())
		}
	}
}

// TestPermission runs as an unprivileged user: root may read everything.
func TestPermission(t *testing.T) {
	dir := t.TempDir()
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o000); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(locked, 0o700) }) //nolint:errcheck // being removed
	var stdout, stderr bytes.Buffer
	if os.Getuid() != 0 {
		code := run(context.Background(), []string{"run", "x", "--kernels", locked}, nil, &stdout, &stderr)
		checkPermission(t, code, stderr.String())
		return
	}
	exe := copyBinary(t)
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(exe, "run", "x", "--kernels", locked)
	cmd.Args[0] = "tune"
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	code := 0
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		code = cmd.ProcessState.ExitCode()
	}
	checkPermission(t, code, stderr.String())
}

func checkPermission(t *testing.T, code int, stderr string) {
	t.Helper()
	if code != exitBadInput || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "permission denied") {
		t.Errorf("exit status %d, stderr:\n%s", code, stderr)
	}
}

// copyBinary puts the test binary, which is tune under the name "tune", where
// everybody can run it.
func copyBinary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tune") //nolint:usetesting // others cannot enter a test's own folder
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "tune")
	if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return exe
}

// A byte order mark begins some files.
func TestConfigMark(t *testing.T) {
	a := &app{v: viper.New()}
	if err := a.readConfig(strings.NewReader("\ufeffseed = 7\n"), "config.toml"); err != nil || a.v.GetInt("seed") != 7 {
		t.Errorf("the seed is %d: %v", a.v.GetInt("seed"), err)
	}
}

// TestConfigFault: what is no TOML is told in plain words, at its place.
func TestConfigFault(t *testing.T) {
	for text, want := range map[string]string{
		"seed = 1\nstore =":     "config.toml:2:8: expected value, but the file ends",
		"seed = 1\nstore = x\n": "config.toml:2:9: this is not a value: a string needs quotes",
		"seed = 1\nseed = 2\n":  "config.toml: key seed is already defined",
	} {
		a := &app{v: viper.New()}
		if err := a.readConfig(strings.NewReader(text), "config.toml"); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzConfig reads arbitrary configuration files: none may crash tune, and what
// is refused is refused in one line.
func FuzzConfig(f *testing.F) {
	example, err := os.ReadFile("../../config.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add("evaluations = \"many\"")
	f.Add("[run]\nseed = 1")
	f.Add("shape = [1, 2]\ntime = 3")
	f.Add("seed = 9223372036854775808")
	f.Fuzz(func(t *testing.T, text string) {
		a := &app{v: viper.New()}
		for _, f := range known {
			a.setDefault(f)
		}
		err := a.readConfig(strings.NewReader(text), "config.toml")
		if err == nil {
			err = a.readSettings()
		}
		if err != nil {
			if s := words.OneLine(err.Error()); s == "" || strings.ContainsAny(s, "\n\r") {
				t.Errorf("error is not one line: %q", s)
			}
			return
		}
	})
}
