package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/internal/longtest"
)

// A source reads no file of the user: neither into a diagnostic nor into what
// is compiled, and its text cannot command a terminal.
func TestCompilersAreJailedLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	if process.Landlock() == 0 {
		t.Skip(process.NoLandlock)
	}
	_, kit, found := compilers(t)
	if kit.jail == nil {
		t.Fatalf("compilers are not locked in: %s", kit.unjailed)
	}
	secret := filepath.Join(t.TempDir(), "secret.h")
	if err := os.WriteFile(secret, []byte("password secret;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	climb := strings.Repeat("../", 12) + secret[1:]
	const kernel = "extern \"C\" __global__ void k(int *x) { *x = 1; }\n"
	for name, c := range found {
		for what, source := range map[string]string{
			"include":          "#include \"" + secret + "\"\n",
			"include climbing": "#include \"" + climb + "\"\n",
			"passwd":           "#include \"/etc/passwd\"\n",
			"device":           "#include \"/dev/tty\"\n",
			"macro":            "#define THE \"" + secret + "\"\n#include THE\n",
			"of PTX":           "__device__ void f() { asm volatile(\".include \\\"" + secret + "\\\"\"); }\n__global__ void g() { f(); }\n",
			"line":             "#line 1 \"" + secret + "\"\n#error x\n",
		} {
			out, err := c.compile(t.Context(), unit{source: source + kernel, arch: "sm_80"})
			var no *labs.Refusal
			if !errors.As(err, &no) {
				t.Errorf("%s, %s: error %v", name, what, err)
			}
			if strings.Contains(out.Log, "password") || strings.Contains(out.Log, "root:") {
				t.Errorf("%s, %s: the log shows the file: %s", name, what, out.Log)
			}
		}
		asked := "#if __has_include(\"" + secret + "\")\n#error it sees the file\n#endif\n#if !__has_include(<cuda_fp16.h>)\n#error it does not see its own\n#endif\n"
		if out, err := c.compile(t.Context(), unit{source: asked + kernel, arch: "sm_80"}); err != nil && strings.Contains(out.Log, "it ") {
			t.Errorf("%s asks for files: %v\n%s", name, err, out.Log)
		}
		out, err := c.compile(t.Context(), unit{source: "#error \x1b[2Jgone\x1b]0;title\a\n" + kernel, arch: "sm_80"})
		if err == nil || strings.ContainsAny(out.Log+err.Error(), "\x1b\a") {
			t.Errorf("%s, control characters: %q, %v", name, out.Log, err)
		}
	}
}

// userFile makes a home folder with a file in it.
func userFile(t *testing.T) string {
	if process.Landlock() == 0 {
		t.Skip(process.NoLandlock)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	path := filepath.Join(home, "secret")
	if err := os.WriteFile(path, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Neither a worker nor one under a tool reads the user's files or has a network.
func TestWorkersAreJailed(t *testing.T) {
	h, ev := openFake(t, fakeOptions(t, "EVOTUNE_FAKE_FILE=all:"+userFile(t)))
	evaluate(t, ev, fakeGenome(t, "nothing", 1))
	state := h.options.workerWrites[0]
	for _, tool := range append(sanitizers(), "") {
		if text, err := os.ReadFile(filepath.Join(state, "reach-"+tool)); string(text) != "true true\n" {
			t.Errorf("under %q: kept from the file and from the network: %q, %v", tool, text, err)
		}
	}
	for _, tool := range h.Describe().Tools {
		if strings.Contains(tool.Name, "jail") && (tool.Missing != "" || tool.Name != "worker jail") {
			t.Errorf("%+v", tool)
		}
	}
}

// A worker, and one under a tool, reaches nothing of a service that started it, as root
// and as a user.
func TestWorkersContained(t *testing.T) {
	if process.Landlock() < 6 {
		t.Skip("this kernel's Landlock does not confine signals and sockets")
	}
	s := backendtest.NewService(t)
	h, ev := openFake(t, fakeOptions(t, fmt.Sprintf("EVOTUNE_FAKE_SERVICE=:%s,%d,%d,%d", s.Dir, s.Port, os.Getpid(), s.Other)))
	if r := evaluate(t, ev, fakeGenome(t, "nothing", 1)); r.Verdict != evaluator.Correct {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	for _, tool := range append(sanitizers(), "") {
		if text, err := os.ReadFile(filepath.Join(h.options.workerWrites[0], "reach-"+tool)); string(text) != "tried\n" {
			t.Errorf("under %q: %s, %v", tool, text, err)
		}
	}
	s.Unharmed(t)
	backendtest.AsNobody(t)
}

// What works outside of the jail alone runs there, and the description says so.
func TestUnjailed(t *testing.T) {
	for _, c := range []struct{ needs, missing string }{
		{"", "worker jail: GPU workers do not work with Landlock"},
		{memcheck, "memcheck jail: its processes do not work with Landlock"},
	} {
		t.Run(c.missing, func(t *testing.T) {
			h, ev := openFake(t, fakeOptions(t, "EVOTUNE_FAKE_FILE="+c.needs+":"+userFile(t)))
			if r := evaluate(t, ev, fakeGenome(t, "nothing", 1)); r.Verdict != evaluator.Correct {
				t.Errorf("%s: %s", r.Verdict, r.Reason)
			}
			if len(h.sanitizers) != 4 {
				t.Errorf("%d sanitizers", len(h.sanitizers))
			}
			var missing []string
			for _, tool := range h.Describe().Tools {
				if strings.HasSuffix(tool.Name, "jail") && tool.Missing != "" {
					missing = append(missing, tool.Name+": "+tool.Missing)
				}
			}
			if len(missing) != 1 || !strings.HasPrefix(missing[0], c.missing) || !strings.Contains(missing[0], "permission denied") {
				t.Errorf("missing: %q", missing)
			}
			for _, s := range h.sanitizers {
				if free := c.needs == "" || s.name == c.needs; (s.jail == nil) != free {
					t.Errorf("%s runs outside: %t, want %t", s.name, s.jail == nil, free)
				}
			}
		})
	}
}

// What works nowhere is not the jail's fault.
func TestDoctorOfBrokenWorkerLong(t *testing.T) {
	longtest.Long(t, "it tries the compilers of CUDA that are here")
	b, err := New(fakeOptions(t, "EVOTUNE_FAKE_FILE=:/nowhere"))
	if err != nil {
		t.Fatal(err)
	}
	tools := b.Doctor(t.Context())
	i := slices.IndexFunc(tools, func(tool evaluator.Tool) bool { return tool.Name == "worker jail" })
	if i < 0 || !strings.Contains(tools[i].Missing, "neither in it nor outside") || !strings.Contains(tools[i].Missing, "no such file") {
		t.Errorf("of a worker that never starts doctor says %+v", tools)
	}
}

// ncu is tried with the first finalist.
func TestUnjailedProfiler(t *testing.T) {
	outside := userFile(t)
	for _, free := range []bool{false, true} {
		t.Run(strconv.FormatBool(free), func(t *testing.T) {
			script := ncuScript
			if free {
				script = strings.Replace(script, "busy=0\n", "busy=0\ncat "+outside+" || exit 1\n", 1)
			}
			o := fakeOptions(t)
			o.Profile = true
			if err := os.WriteFile(filepath.Join(o.programs, "ncu"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			h, _ := openFake(t, o)
			for range 2 {
				list, err := h.Profile(t.Context(), build(t, h, "slow", 1))
				if err != nil || !slices.ContainsFunc(list, read) {
					t.Fatal(list, err)
				}
				last := list[len(list)-1]
				if (last.Check == "ncu jail" && last.Outcome == evaluator.NotRun) != free || free && !strings.Contains(last.Detail, "Permission denied") {
					t.Errorf("outside %t: %+v", free, last)
				}
			}
		})
	}
}

// A library is compiled as candidates are: no source of it reads a file of the user.
func TestFatbinLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	if process.Landlock() == 0 {
		t.Skip(process.NoLandlock)
	}
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Fatalf("nvcc is not installed: scripts/setup-cuda-debian.sh installs it: %v", err)
	}
	secret := filepath.Join(t.TempDir(), "secret.h")
	if err := os.WriteFile(secret, []byte("#error "+backendtest.Secret+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const kernel = "\nextern \"C\" __global__ void k(int *x) { *x = 1; }\n"
	args := []string{"-fatbin", "-gencode=arch=compute_80,code=sm_80"}
	if code, err := Fatbin(nvcc, kernel, args); err != nil || len(code) < 1000 {
		t.Errorf("%d bytes, %v", len(code), err)
	}
	_, err = Fatbin(nvcc, "#define THE \""+secret+"\"\n#include THE"+kernel, args)
	if err == nil || !strings.Contains(err.Error(), "ermission denied") || strings.Contains(err.Error(), backendtest.Secret) {
		t.Errorf("a source that names a file of the user: %v", err)
	}
}
