//go:build linux

package cpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evotune/evotune/evaluator"
	programs "github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// testCache is shared by the tests of one run: what one compiled the next
// finds, as in life.
var testCache string

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimVariable); dir != "" {
		victim(dir)
		return
	}
	dir, err := os.MkdirTemp("", "evotune-cpu-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testCache = dir
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	remove(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// needCompiler skips a test on machines where nothing can be compiled.
func needCompiler(t testing.TB) {
	t.Helper()
	if _, err := findCompiler("auto"); err != nil {
		t.Skipf("skipped: %v", err)
	}
}

// quick are options under which a test takes no longer than it must.
func quick(sanitizers ...string) Options {
	if len(sanitizers) == 0 {
		sanitizers = []string{"none"}
	}
	return Options{CacheDir: testCache, Sanitizers: sanitizers, Timeout: 20 * time.Second}
}

func load(t testing.TB, name string) *kernels.Definition {
	t.Helper()
	d, err := kernels.LoadDir(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// changed loads the kernel "scale" with some of its text replaced: file, old
// and new, three by three.
func changed(t testing.TB, pairs ...string) *kernels.Definition {
	t.Helper()
	return altered(t, "scale", pairs...)
}

// altered is changed for another definition in testdata.
func altered(t testing.TB, name string, pairs ...string) *kernels.Definition {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 3 {
		path := filepath.Join(dir, pairs[i])
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), pairs[i+1]) {
			t.Fatalf("%s does not contain %q", path, pairs[i+1])
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), pairs[i+1], pairs[i+2])), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func planOf(d *kernels.Definition) evaluator.Plan {
	return evaluator.Plan{
		Definition: d, Implementations: d.Implementations,
		Tune: d.Problem.ShapesFor(kernels.Tune)[:1], Verify: d.Problem.ShapesFor(kernels.Verify),
		Sanitize: d.Problem.ShapesFor(kernels.Sanitize)[0], Seed: 1,
		Samples: 5, SampleTime: 100 * time.Millisecond, FinalsSamples: 8,
	}
}

// setup is an ordeal on a kernel, its lab, and the space of its genomes.
type setup struct {
	*evaluator.Ordeal
	lab   *lab
	space *genome.Space
}

// opened are the ordeals that are open, and shared those of them that tests share, by definition and tools.
var (
	opened = map[*setup]bool{}
	shared = map[string]*setup{}
)

// sharedLab is the ordeal on a definition in testdata, with these sanitizers, that all tests use which
// open nothing in another way. The first one opens it, and TestMain closes it.
func sharedLab(t testing.TB, name string, sanitizers ...string) *setup {
	t.Helper()
	key := fmt.Sprint(name, sanitizers)
	if shared[key] == nil {
		s, err := newSetup(planOf(load(t, name)), quick(sanitizers...))
		if err != nil {
			t.Fatal(err)
		}
		shared[key] = s
	}
	return shared[key]
}

func closeShared() (err error) {
	for _, s := range shared {
		err = errors.Join(err, s.Close())
	}
	clear(shared)
	return err
}

func newSetup(plan evaluator.Plan, o Options) (*setup, error) {
	b, err := New(o)
	if err != nil {
		return nil, err
	}
	l, err := b.Open(context.Background(), plan)
	if err != nil {
		return nil, err
	}
	s := &setup{lab: l.(*lab)} //nolint:forcetypeassert // it is one
	if s.Ordeal, err = evaluator.NewOrdeal(context.Background(), l, plan); err != nil {
		return nil, err
	}
	opened[s] = true
	s.space, err = plan.Definition.Space(plan.Implementations, plan.Tune, b.Limits())
	return s, err
}

// Close closes the ordeal.
func (s *setup) Close() error {
	delete(opened, s)
	return s.Ordeal.Close()
}

// open opens an ordeal of the test's own.
func open(t testing.TB, d *kernels.Definition, o Options) *setup {
	t.Helper()
	return openPlan(t, planOf(d), o)
}

func openPlan(t testing.TB, plan evaluator.Plan, o Options) *setup {
	t.Helper()
	needCompiler(t)
	s, err := newSetup(plan, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// genome makes one of the space: the first values, but for those given as name
// and value.
func (s *setup) genome(t testing.TB, pairs ...any) genome.Genome {
	t.Helper()
	values := map[string]any{}
	for _, g := range s.space.Genes() {
		values[g.Name] = g.Values[0].Any()
	}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i].(string)] = pairs[i+1]
	}
	g, err := s.space.FromMap(values)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (s *setup) evaluate(t testing.TB, pairs ...any) evaluator.Result {
	t.Helper()
	r, err := s.Evaluate(t.Context(), s.genome(t, pairs...), 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// until is evaluate to the end of a stage: what passes has no verdict.
func (s *setup) until(t testing.TB, last evaluator.Stage, pairs ...any) evaluator.Result {
	t.Helper()
	r, err := s.Until(t.Context(), s.genome(t, pairs...), last)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// works says whether a tool does, and logs why not.
func (s *setup) works(t testing.TB, name string) bool {
	t.Helper()
	for _, tool := range s.Describe().Tools {
		if tool.Name == name && tool.Missing != "" {
			t.Logf("left out: no %s here: %s", name, tool.Missing)
			return false
		}
	}
	return true
}

// wait asks until the answer is yes.
func wait(limit time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// hanging waits for a candidate that uses a core and does not end.
func hanging(root int) (running []programs.Entry) {
	wait(5*time.Minute, func() bool {
		running = running[:0]
		for _, p := range children(root) {
			if hasPrefixVariable(p.PID, runVariable+"=") && usedCPU(p.PID) > 10 {
				running = append(running, p)
			}
		}
		return len(running) > 0
	})
	return running
}

// children lists the living processes that this one or its children started, but for those that a lab keeps
// until it is closed: its baseline, and its reference in Python.
func children(root int) []programs.Entry {
	var kept []int
	python := false
	for s := range opened {
		python = python || s.lab.python != nil
		if timing := s.lab.timing; timing != nil {
			for _, p := range []*process{timing.timed, timing.answers} {
				if p != nil {
					kept = append(kept, p.pid)
				}
			}
		}
	}
	return slices.DeleteFunc(programs.Descendants(programs.Table(), root), func(p programs.Entry) bool {
		return p.State == 'Z' || slices.Contains(kept, p.PID) || python && strings.HasPrefix(p.Name, "python")
	})
}

// victimVariable makes the test's binary a process that is killed while a
// candidate hangs.
const victimVariable = "EVOTUNE_CPU_TEST_VICTIM"

func victim(cache string) {
	d, err := kernels.LoadDir(filepath.Join("testdata", "scale"))
	if err != nil {
		panic(err)
	}
	o := quick()
	o.CacheDir, o.noSandbox = cache, true
	b, err := New(o)
	if err != nil {
		panic(err)
	}
	plan := planOf(d)
	ordeal, err := evaluator.Open(context.Background(), b, plan)
	if err != nil {
		panic(err)
	}
	space, err := d.Space(d.Implementations, plan.Tune, nil)
	if err != nil {
		panic(err)
	}
	g, err := space.FromMap(map[string]any{"UNROLL": 1, "VECTORIZE": false, "THREADS": 1, "WRONG": "hang"})
	if err != nil {
		panic(err)
	}
	r, err := ordeal.Evaluate(context.Background(), g, 0)
	fmt.Println(r, err)
}

func TestKilledEvotuneLeavesNothing(t *testing.T) {
	needCompiler(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+testCache)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	running := hanging(cmd.Process.Pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if len(running) == 0 {
		t.Fatal("the hanging candidate was never seen")
	}
	for _, p := range running {
		gone := wait(time.Minute, func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/%d", p.PID))
			return err != nil || !hasPrefixVariable(p.PID, runVariable+"=")
		})
		if !gone {
			t.Errorf("candidate %d outlived the evotune that was killed", p.PID)
		}
	}
}

func hasPrefixVariable(pid int, prefix string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && strings.Contains("\x00"+string(text), "\x00"+prefix)
}

// usedCPU is the processor time of a process in hundredths of a second.
func usedCPU(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		return 0
	}
	return user + system
}
