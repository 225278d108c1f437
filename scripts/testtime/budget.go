package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// promised is the processor time of the whole default set, in seconds, as CONTRIBUTING
	// promises it on two idle cores.
	promised = 360
	// slack is how many times its budget a package may take: processor time varies by up to
	// a half with what else the machine does.
	slack = 1.5
	// noted is from how many seconds on a test's time stands in the file.
	noted = 0.5
)

// budgets are what the file of budgets says.
type budgets struct {
	comments []string                      // the lines before the first package
	packages map[string]float64            // processor seconds
	tests    map[string]map[string]float64 // wall seconds when the budget was set
	raised   map[string]bool               // "package from to", of the lines that give a reason
}

// parse reads the file of budgets:
//
//	# comment
//	raised PACKAGE FROM TO REASON...
//	PACKAGE SECONDS
//		TEST SECONDS
func parse(text string) (budgets, error) {
	b := budgets{packages: map[string]float64{}, tests: map[string]map[string]float64{}, raised: map[string]bool{}}
	of := ""
	for n, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case strings.HasPrefix(line, "#"):
			b.comments = append(b.comments, line)
			continue
		case fields[0] == "raised":
			if len(fields) < 5 {
				return b, fmt.Errorf("line %d: want raised PACKAGE FROM TO REASON", n+1)
			}
			b.raised[strings.Join(fields[1:4], " ")] = true
			b.comments = append(b.comments, line)
			continue
		case len(fields) != 2:
			return b, fmt.Errorf("line %d: want PACKAGE SECONDS, or a test's below it", n+1)
		}
		seconds, err := strconv.ParseFloat(fields[1], 64)
		if err != nil || !(seconds > 0) {
			return b, fmt.Errorf("line %d: %s is not a number of seconds", n+1, fields[1])
		}
		if !strings.HasPrefix(line, "\t") {
			of = fields[0]
			b.packages[of], b.tests[of] = seconds, map[string]float64{}
		} else if of != "" {
			b.tests[of][fields[0]] = seconds
		}
	}
	return b, nil
}

func (b budgets) String() string {
	var text strings.Builder
	for _, line := range b.comments {
		fmt.Fprintln(&text, line)
	}
	for _, name := range slices.Sorted(maps.Keys(b.packages)) {
		fmt.Fprintf(&text, "%s %g\n", name, b.packages[name])
		for _, test := range slices.Sorted(maps.Keys(b.tests[name])) {
			fmt.Fprintf(&text, "\t%s %g\n", test, b.tests[name][test])
		}
	}
	return text.String()
}

func load(file string) (budgets, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return budgets{}, err
	}
	b, err := parse(string(text))
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return b, err
}

// budget prints the packages above their budget, with the tests that grew. The status is 1 if one is
// above slack times its budget or has none, if the budgets exceed the promise, or if
// one was raised without a reason.
func budget(to io.Writer, dir, file string) (status int, err error) {
	b, err := load(file)
	if err != nil {
		return 0, err
	}
	processes, err := read(dir, processesFile)
	if err != nil {
		return 0, err
	}
	tests, err := read(dir, testsFile)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, p := range processes {
		sum += p.CPU
		of, is := b.packages[p.Name]
		switch {
		case !is:
			status = 1
			fmt.Fprintf(to, "%s takes %.1f s and has no budget: add the line %q to %s\n", p.Name, p.CPU, fmt.Sprintf("%s %.0f", p.Name, math.Ceil(p.CPU)), file)
		case p.CPU > slack*of:
			status = 1
			fmt.Fprintf(to, "%s: %.1f s of processor time, more than %g times its budget of %g s%s\n", p.Name, p.CPU, slack, of, grown(b.tests[p.Name], p.Name, tests))
		case p.CPU > of:
			fmt.Fprintf(to, "%s: %.1f s of processor time, above its budget of %g s%s\n", p.Name, p.CPU, of, grown(b.tests[p.Name], p.Name, tests))
		}
	}
	all := 0.0
	for _, seconds := range b.packages {
		all += seconds
	}
	fmt.Fprintf(to, "%.0f s of processor time, budget %.0f s, promise %d s\n", sum, all, promised)
	if all > promised {
		status = 1
		fmt.Fprintf(to, "%s: the budgets sum up to %.0f s and the promise is %d s: lower one\n", file, all, promised)
	}
	for _, why := range unexplained(file, b) {
		status = 1
		fmt.Fprintln(to, why)
	}
	return status, nil
}

// grown lists the tests of a package that take at least half as long again as when its
// budget was set, and noted longer.
func grown(before map[string]float64, name string, tests []spent) string {
	var list []string
	for _, t := range tests {
		if was := before[t.Test]; t.Name == name && t.Wall > slack*was && t.Wall > was+noted {
			list = append(list, fmt.Sprintf("%s %.1f s (was %.1f)", t.Test, t.Wall, was))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "; grown: " + strings.Join(list, ", ")
}

// unexplained lists the budgets that are larger than in an earlier commit of the file, without a line
// that says why. Where there is no history, as in a shallow clone, it lists none.
func unexplained(file string, now budgets) []string {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = filepath.Dir(file)
		out, err := cmd.Output()
		return string(out), err
	}
	base := filepath.Base(file)
	commits, err := git("log", "--format=%h", "--", base)
	if err != nil {
		return nil
	}
	var list []string
	later := now
	for _, commit := range strings.Fields(commits) {
		text, err := git("show", commit+":./"+base)
		if err != nil { // deleted there
			continue
		}
		earlier, err := parse(text)
		if err != nil {
			continue
		}
		list = append(list, raisedSince(earlier, later, now, file)...)
		later = earlier
	}
	return list
}

// raisedSince compares two versions that follow each other; the newest version holds the reasons.
func raisedSince(earlier, later, newest budgets, file string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(later.packages)) {
		from, was := earlier.packages[name]
		to := later.packages[name]
		line := fmt.Sprintf("%s %g %g", name, from, to)
		if was && to > from && !newest.raised[line] {
			list = append(list, fmt.Sprintf("%s: %s was raised from %g to %g s: find what grew, or add the line \"raised %s REASON\"", file, name, from, to, line))
		}
	}
	return list
}

// lower lowers each budget to what was measured, rounded up to whole seconds, adds packages that have none,
// and notes their tests' times. No budget rises.
func lower(dir, file string) error {
	b, err := load(file)
	if errors.Is(err, os.ErrNotExist) {
		b, err = parse("")
	}
	if err != nil {
		return err
	}
	processes, err := read(dir, processesFile)
	if err != nil {
		return err
	}
	tests, err := read(dir, testsFile)
	if err != nil {
		return err
	}
	for _, p := range processes {
		seconds := math.Ceil(p.CPU)
		if before := b.packages[p.Name]; before > 0 && seconds >= before {
			continue
		}
		b.packages[p.Name], b.tests[p.Name] = cmp.Or(seconds, 1), map[string]float64{}
		for _, t := range tests {
			if t.Name == p.Name && t.Wall >= noted {
				b.tests[p.Name][t.Test] = t.Wall
			}
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
