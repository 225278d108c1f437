package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/viper"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// printed is what tune judge prints; genomes do not read back.
type printed struct {
	judgment
	Finals json.RawMessage `json:"finals"`
}

// judgeFile runs tune judge.
func judgeFile(t *testing.T, args ...string) printed {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"judge", "--json"}, args...), nil, &stdout, &stderr)
	var j printed
	if err := json.Unmarshal(stdout.Bytes(), &j); err != nil {
		t.Fatalf("tune judge %s: exit status %d: %s: %v", strings.Join(args, " "), code, stderr.String(), err)
	}
	if j.Status != code || stderr.Len() > 0 {
		t.Errorf("tune judge %s: exit status %d, and %d in what it prints; standard error: %s", strings.Join(args, " "), code, j.Status, stderr.String())
	}
	return j
}

func needGCC(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOOS != "linux" {
		t.Skip("no C compiler on Linux: kernels cannot be run")
	}
}

// needGPU skips a test where no GPU can be used.
func needGPU(t *testing.T) {
	t.Helper()
	a := &app{v: viper.New()}
	for name, f := range known {
		a.setDefault(f)
		if err := a.v.BindEnv(name, envName(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.readSettings(); err != nil {
		t.Fatal(err)
	}
	if err := a.machine().Available(t.Context(), evotune.CUDA); err != nil {
		t.Skipf("no GPU: %v", err)
	}
}

// writeKernel writes a candidate as tune show --source does.
func writeKernel(t *testing.T, name string, r kernels.Rendered) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+map[string]string{evotune.CPU: ".c", evotune.CUDA: ".cu"}[r.Implementation.Backend])
	if err := os.WriteFile(file, []byte(r.Directives(r.Entry)+r.SelfContained()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const zooDir = "../../evaluator/testdata/"

// zooCases are the kernels of a zoo with the verdict that each must get.
func zooCases(t *testing.T, zoo string, honest ...string) []backendtest.Case {
	t.Helper()
	cases, err := backendtest.LoadCases(zooDir + zoo + "/verdicts.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range honest {
		cases = append(cases, backendtest.Case{Kernel: name, Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark})
	}
	// A fault of the template is in no file.
	return slices.DeleteFunc(cases, func(c backendtest.Case) bool { return c.Kernel == "missing-key" })
}

// checkCase holds a judgment against the zoo's verdict.
func checkCase(t *testing.T, j printed, c backendtest.Case) {
	t.Helper()
	for _, tool := range j.Description.Tools {
		if tool.Name == c.Needs && tool.Missing != "" {
			t.Skipf("without %s: %s", tool.Name, tool.Missing)
		}
	}
	// Only waits of several threads cannot be taken off their time.
	if c.Kernel == "honest-threads" && j.Status == exitDisturbed {
		t.Skipf("the machine is too busy to time it: %s", j.Reason)
	}
	said := j.Reason
	for _, s := range j.Result.Steps {
		for _, e := range s.Evidence {
			if e.Outcome == evaluator.Failed {
				said += "\n" + e.Check + ": " + e.Detail
			}
		}
	}
	for _, end := range c.Outcomes() {
		if j.Verdict == end.Verdict && j.Stage == end.Stage && strings.Contains(strings.ToLower(said), strings.ToLower(end.Check)) &&
			(c.Slower == 0 || j.Verdict != evaluator.Correct || 1/j.Speedup >= c.Slower) {
			return
		}
	}
	t.Errorf("%s at %s, %.3fx: %s; want one of %+v, no faster than 1/%g", j.Verdict, j.Stage, j.Speedup, said, c.Outcomes(), c.Slower)
}

// TestJudgeZooLong: files of the zoo, by themselves, get the zoo's verdict. The conformance
// suite of the CPU backend judges all of the zoo; here the kernels come in files.
func TestJudgeZooLong(t *testing.T) {
	longtest.Long(t, "it judges files with every tool")
	needGCC(t)
	few := []string{"honest", "write-past-end", "read-past-end", "large-frame"}
	for _, c := range zooCases(t, "zoo", "honest") {
		if slices.Contains(few, c.Kernel) {
			t.Run(c.Kernel, func(t *testing.T) {
				checkCase(t, judgeFile(t, zooDir+"zoo/"+c.Kernel+".c", "--kernel", "zoo", "--kernels", zooDir+"zoo", "--timeout", "5s"), c)
			})
		}
	}
}

// TestJudgeZooOnGPULong: so do the kernels of the zoo for GPUs, each rendered into one file:
// beside the template they are parts of one.
func TestJudgeZooOnGPULong(t *testing.T) {
	longtest.Long(t, "it judges the zoo for GPUs")
	needGCC(t)
	needGPU(t)
	d, err := kernels.LoadDir(zooDir + "zoo-cuda")
	if err != nil {
		t.Fatal(err)
	}
	space, err := d.Space(d.Implementations, d.Problem.ShapesFor(kernels.Tune), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range zooCases(t, "zoo-cuda", "honest", "honest-twin", "honest-slow") {
		t.Run(c.Kernel, func(t *testing.T) {
			g, err := space.FromMap(map[string]any{"KERNEL": c.Kernel, "SALT": 1})
			if err != nil {
				t.Fatal(err)
			}
			r, err := d.Implementations[0].Render(g)
			if err != nil {
				t.Fatal(err)
			}
			checkCase(t, judgeFile(t, writeKernel(t, c.Kernel, r), "--kernel", d.Name, "--kernels", d.Dir), c)
		})
	}
}

// TestJudgeRenderedLong: what evotune wrote itself, in one file, is correct: the baseline and
// a random genome of an implementation.
func TestJudgeRenderedLong(t *testing.T) {
	longtest.Long(t, "it measures a built-in kernel")
	needGCC(t)
	judgeAllRendered(t, evotune.CPU, func(kernel string) bool { return kernel == oneKernel })
}

// TestJudgeRenderedNightly: so it is for every implementation of every other built-in kernel.
func TestJudgeRenderedNightly(t *testing.T) {
	longtest.Nightly(t, "soak", "it measures the built-in kernels")
	needGCC(t)
	t.Run(evotune.CPU, func(t *testing.T) {
		judgeAllRendered(t, evotune.CPU, func(kernel string) bool { return kernel != oneKernel })
	})
	t.Run(evotune.CUDA, func(t *testing.T) {
		needGPU(t)
		judgeAllRendered(t, evotune.CUDA, func(string) bool { return true })
	})
}

// oneKernel is the built-in kernel of the long set. It includes headers.
const oneKernel = "rmsnorm"

func judgeAllRendered(t *testing.T, backend string, wanted func(kernel string) bool) {
	builtin, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range builtin.Names() {
		d, err := builtin.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if !wanted(d.Name) {
			continue
		}
		for _, im := range d.On(backend).Implementations {
			t.Run(d.Name+" "+im.Name, func(t *testing.T) { judgeRendered(t, d, im) })
		}
	}
}

func judgeRendered(t *testing.T, d *kernels.Definition, im *kernels.Implementation) {
	shape := im.Problem().ShapesFor(kernels.Tune)[:1]
	space, err := d.Space([]*kernels.Implementation{im}, shape, nil)
	if err != nil {
		t.Fatal(err)
	}
	random, err := im.Render(space.Random(rand.New(rand.NewSource(1))))
	if err != nil {
		t.Fatal(err)
	}
	judge := func(files ...string) printed {
		return judgeFile(t, append(files, "--kernel", d.Name, "--sanitizers", "asan")...) // the zoo meets all of them
	}
	files := []string{writeKernel(t, "random", random)}
	if base, err := im.RenderBaseline(shape...); err == nil {
		files = append(files, "--against", writeKernel(t, "baseline", base)) // which is judged as well
	} else if !errors.Is(err, errors.ErrUnsupported) { // a routine of a library
		t.Fatal(err)
	}
	j := judge(files...)
	if j.Verdict == evaluator.Inspect { // the compiler needed more than the definition allows
		if len(files) == 1 {
			return
		}
		j = judge(files[2])
	}
	if j.Verdict != evaluator.Correct || j.Finals == nil || j.Speedup <= 0 {
		t.Errorf("%s: %s at %s: %s", random.Genome, j.Verdict, j.Stage, j.Reason)
	}
}

// TestJudgeConspiracyNightly: a file that is timed against one with the same fault, which
// shows in timed launches only, is refused; its honest twin is not.
func TestJudgeConspiracyNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "it measures pairs of files")
	needGCC(t)
	dir := t.TempDir()
	file := func(name, body string) string {
		path := filepath.Join(dir, name)
		text := "#include <math.h>\n#include <stdint.h>\nvoid softmax(int64_t ROWS, int64_t COLS, const float *X, float *Y)\n{\n\tstatic int launches;\n\tlaunches++;\n" +
			"\tfor (int64_t r = 0; r < ROWS; r++) {\n\t\tconst float *x = X + r * COLS;\n\t\tfloat *y = Y + r * COLS, m = x[0], s = 0;\n" + body + "\t}\n}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const right = "\t\tfor (int64_t c = 0; c < COLS; c++) m = fmaxf(m, x[c]);\n\t\tfor (int64_t c = 0; c < COLS; c++) s += y[c] = expf(x[c] - m);\n\t\tfor (int64_t c = 0; c < COLS; c++) y[c] /= s;\n"
	const lazy = "\t\tif (ROWS >= 1024 && launches > 4) {\n\t\t\tfor (int64_t c = 0; c < COLS; c++) y[c] = 1.0f / COLS;\n\t\t\tcontinue;\n\t\t}\n"
	const narrow = "\t\tif (ROWS >= 1024) {\n\t\t\tfor (int64_t c = 0; c < COLS; c++) s += y[c] = expf(x[c]);\n\t\t\tfor (int64_t c = 0; c < COLS; c++) y[c] /= s;\n\t\t\tcontinue;\n\t\t}\n"
	const seen = "\t\tstatic float *seen[1024];\n\t\tif (r == 0 && ROWS >= 1024) seen[launches % 1024] = Y;\n"
	// Where both are timed, the accomplice leaves a mark in a set of which its output has been compared.
	const marks = seen + "\t\tif (r == 0 && ROWS >= 1024 && launches > 80) *seen[(launches - 5) % 1024] = 12345;\n"
	const marked = seen + "\t\tstatic int together;\n\t\tfor (int i = 0; r == 0 && i < 1024; i++) together |= seen[i] && *seen[i] == 12345;\n" +
		"\t\tif (together) {\n\t\t\tfor (int64_t c = 0; c < COLS; c++) y[c] = 1.0f / COLS;\n\t\t\tcontinue;\n\t\t}\n"
	honest, twin := file("honest.c", right), file("twin.c", "\t\tif (!COLS) continue;\n"+right)
	cheat, accomplice := file("cheat.c", lazy+right), file("accomplice.c", "\t\tif (!COLS) continue;\n"+lazy+right)
	edgy, edgier := file("edgy.c", narrow+right), file("edgier.c", "\t\tif (!COLS) continue;\n"+narrow+right)
	marker, reader := file("marker.c", marks+right), file("reader.c", marked+right)
	if j := judgeFile(t, honest, "--kernel", "softmax", "--sanitizers", "none", "--against", twin); j.Verdict != evaluator.Correct || j.Speedup < .8 || j.Speedup > 1.25 {
		t.Errorf("honest twins: %s, %.3fx: %s", j.Verdict, j.Speedup, j.Reason)
	}
	if j := judgeFile(t, cheat, "--kernel", "softmax", "--sanitizers", "none", "--against", honest); j.Verdict != evaluator.Parity {
		t.Errorf("a cheat against an honest file: %s, %.3fx", j.Verdict, j.Speedup)
	}
	for cheat, accomplice := range map[string]string{cheat: accomplice, edgy: edgier} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"judge", cheat, "--kernel", "softmax", "--sanitizers", "none", "--against", accomplice}, nil, &stdout, &stderr)
		// Either is found first; before the finals, some edge-case inputs alone show what both do wrong.
		unfit := code == exitBadInput && strings.Contains(stderr.String(), "it is not correct itself: parity")
		if wrong := code == exitParity && strings.Contains(stdout.String(), "edge-case"); !unfit && !wrong {
			t.Errorf("%s against its accomplice: exit status %d: %s%s", cheat, code, stdout.String(), stderr.String())
		}
	}
	// A mark is harmless by itself; whoever acts on it is refused, or the mark has gone.
	j := judgeFile(t, reader, "--kernel", "softmax", "--sanitizers", "none", "--against", marker)
	t.Logf("marks: %s, %.3fx: %s", j.Verdict, j.Speedup, j.Reason)
	if j.Verdict == evaluator.Correct && j.Speedup > 1.25 {
		t.Errorf("a cheat that its accomplice tells when to cheat: %s, %.3fx", j.Verdict, j.Speedup)
	}
}
