// Command testtime measures the tests and holds them to their budgets. .ci/run uses it:
//
//	testtime step NAME COMMAND...   runs a step and records its wall and processor time
//	testtime exec TEST ARGUMENTS... for go test -exec: records a test process's
//	testtime show                   prints what "go test -json" says, and records each test's time
//	testtime budget FILE            compares the processes with the budgets in FILE
//	testtime lower FILE             lowers the budgets in FILE to what was measured
//	testtime report                 prints the steps and the twenty slowest tests
//
// The records are files in the folder that TESTTIME names. Processor time is that of a
// process and its children, in seconds. The exit status is the command's; that of budget is 1 when
// a package is above its bound.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// A spent is the time of a step, of a package's test process, or of a test.
type spent struct {
	Name string  `json:"name"`
	Test string  `json:"test,omitempty"`
	Wall float64 `json:"wall"` // seconds
	CPU  float64 `json:"cpu,omitempty"`
}

// The files with the records.
const (
	stepsFile     = "steps"
	processesFile = "processes"
	testsFile     = "tests"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testtime:", err)
		code = 1
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	dir := os.Getenv("TESTTIME")
	if dir == "" {
		return 0, errors.New("set TESTTIME to the folder of the records")
	}
	switch {
	case len(args) > 2 && args[0] == "step":
		return measured(dir, stepsFile, args[1], args[2:])
	case len(args) > 1 && args[0] == "exec":
		name, err := packageHere()
		if err != nil {
			return 0, err
		}
		return measured(dir, processesFile, name, args[1:])
	case len(args) == 1 && args[0] == "show":
		return 0, show(os.Stdin, os.Stdout, dir)
	case len(args) == 1 && args[0] == "report":
		return 0, report(os.Stdout, dir)
	case len(args) == 2 && args[0] == "budget":
		return budget(os.Stdout, dir, args[1])
	case len(args) == 2 && args[0] == "lower":
		return 0, lower(dir, args[1])
	}
	return 0, errors.New("usage: testtime step NAME COMMAND... | exec TEST... | show | budget FILE | lower FILE | report")
}

// packageHere is the folder of the test that runs here, as in ./...: go test starts a test
// process in its package's folder.
func packageHere() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for root := here; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return filepath.Rel(root, here)
		}
		if root == filepath.Dir(root) {
			return "", fmt.Errorf("%s is in no module", here)
		}
	}
}

// measured runs a command and records its time. Signals that ask for an end go to the command.
func measured(dir, file, name string, args []string) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	err := cmd.Wait()
	state := cmd.ProcessState
	if state == nil {
		return 0, err
	}
	// What the kernel counts for a process that was waited for includes its own children.
	s := spent{Name: name, Wall: time.Since(begin).Seconds(), CPU: (state.UserTime() + state.SystemTime()).Seconds()}
	code := state.ExitCode()
	if code < 0 { // by a signal
		code = 1
	}
	return code, add(dir, file, s)
}

// add appends a record. A short write to a file opened for appending is not interleaved
// with others'.
func add(dir, file string, s spent) error {
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func read(dir, file string) ([]spent, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var all []spent
	for line := range strings.Lines(string(text)) {
		var s spent
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// An event is a line of "go test -json" (see go doc test2json).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// show prints the output of failed tests and of packages, as go test does without -v, and
// records the time of each test.
func show(from io.Reader, to io.Writer, dir string) error {
	output := map[[2]string][]string{}  // by package and test
	subtests := map[[2]string][]spent{} // by package and test
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil { // a message of go itself
			fmt.Fprintln(to, lines.Text())
			continue
		}
		key := [2]string{e.Package, e.Test}
		switch e.Action {
		case "output", "build-output":
			if strings.HasPrefix(e.Output, "=== ") || e.Output == "PASS\n" {
				continue
			}
			if e.Test == "" {
				fmt.Fprint(to, e.Output)
			} else {
				output[key] = append(output[key], e.Output)
			}
		case "fail":
			fmt.Fprint(to, strings.Join(output[key], ""))
			delete(output, key)
		case "pass", "skip":
			delete(output, key)
		}
		if e.Test != "" && (e.Action == "pass" || e.Action == "fail") {
			_, name, _ := strings.Cut(strings.TrimPrefix(e.Package, "github.com/"), "/evotune/")
			s := spent{Name: cmp.Or(name, "."), Test: e.Test, Wall: e.Elapsed}
			if top, _, is := strings.Cut(e.Test, "/"); is {
				key[1] = top
				subtests[key] = append(subtests[key], s)
				continue
			}
			// What a test waits for while its subtests run beside each other is not in its own time.
			stand := []spent{s}
			if slices.ContainsFunc(subtests[key], func(of spent) bool { return of.Wall > s.Wall }) {
				stand = subtests[key]
			}
			delete(subtests, key)
			for _, s := range stand {
				if err := add(dir, testsFile, s); err != nil {
					return err
				}
			}
		}
	}
	// A test that never ended, because its process did.
	for key, lines := range output {
		fmt.Fprintf(to, "%s %s did not end:\n%s", key[0], key[1], strings.Join(lines, ""))
	}
	return lines.Err()
}

// report prints the steps, and the twenty tests that took longest.
func report(to io.Writer, dir string) error {
	steps, err := read(dir, stepsFile)
	if err != nil {
		return err
	}
	tests, err := read(dir, testsFile)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "step\twall s\tprocessor s\t")
	var sum spent
	for _, s := range steps {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t\n", s.Name, s.Wall, s.CPU)
		sum.Wall, sum.CPU = sum.Wall+s.Wall, sum.CPU+s.CPU
	}
	fmt.Fprintf(w, "all\t%.0f\t%.0f\t\n\n", sum.Wall, sum.CPU)
	slices.SortStableFunc(tests, func(a, b spent) int { return cmp.Compare(b.Wall, a.Wall) })
	fmt.Fprintln(w, "the slowest tests\twall s\t\t")
	for _, t := range tests[:min(20, len(tests))] {
		fmt.Fprintf(w, "%s %s\t%.1f\t\t\n", t.Name, t.Test, t.Wall)
	}
	return w.Flush()
}
