package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/internal/docs"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/internal/tables"
)

const repository = "../.."

// notInCI are scripts that CI does not run, and why.
var notInCI = map[string]string{
	"scripts/bench-attention.sh": "compares times, for which the machine must be calm",
	"scripts/bench-openblas.sh":  "compares times, for which the machine must be calm; needs OpenBLAS",
	"scripts/fuzz.sh":            "takes a minute for each target",
	"scripts/gpu-export.sh":      "needs a GPU",
	"scripts/gpu-records.sh":     "needs a GPU",
	"scripts/judge-records.sh":   "takes hours",
	"scripts/warm-start.sh":      "compares times, for which the machine must be calm",
}

// TestDocCommands checks that every command in the documentation exists, with its
// flags, packages and patterns; and that CI runs the same subcommand with the
// same flags, script or program, or that the block is marked as needing a GPU.
func TestDocCommands(t *testing.T) {
	longtest.Short(t, "computes for long")
	pages, err := docs.Pages(repository)
	if err != nil {
		t.Fatal(err)
	}
	ci := whatCIRuns(t)
	var found []docs.Finding
	n := 0
	for _, p := range pages {
		for _, c := range p.Commands() {
			n++
			if err := checkCommand(c, ci); err != nil {
				found = append(found, docs.Finding{File: c.Page, Line: c.Line, What: fmt.Sprintf("%s: %v", strings.Join(c.Words, " "), err)})
			}
		}
	}
	if n < 100 {
		t.Errorf("found no more than %d commands", n)
	}
	for _, f := range found {
		t.Error(f)
	}
}

func checkCommand(c docs.Command, ci map[string]bool) error {
	if strings.HasPrefix(c.Page, "docs/evidence/") {
		c.GPU = true // a record names what CI need not run
	}
	if args, ok := tuneArgs(c.Words); ok {
		return checkTune(c, args, ci)
	}
	name := c.Words[0]
	switch {
	case name == "go":
		return checkGo(c.Words[1], c.Words[2:])
	case strings.HasPrefix(name, "scripts/"):
		info, err := os.Stat(filepath.Join(repository, name))
		if err != nil {
			return fmt.Errorf("there is no %s", name)
		}
		if info.Mode()&0o111 == 0 && !c.Inline {
			return fmt.Errorf("%s is not executable", name)
		}
		if c.GPU || c.Inline || notInCI[name] != "" {
			return nil
		}
	case c.GPU || name == ".ci/run" || name == "cd":
		return nil
	}
	if !ci[name] && !ci[strings.TrimPrefix(name, "examples/")] && !c.Inline { // a script copies the examples
		return fmt.Errorf("no script that CI runs has %s: let one run it, or put %s before the block", name, docs.GPUMarker)
	}
	return nil
}

// tuneArgs are the arguments of a command that is tune.
func tuneArgs(words []string) ([]string, bool) {
	if len(words) > 2 && slices.Equal(words[:3], []string{"go", "run", "./cmd/tune"}) {
		return words[3:], true
	}
	return words[1:], slices.Contains([]string{"tune", "./tune", "bin/tune"}, words[0])
}

// subcommand finds the subcommand, its own arguments, and the flags among them:
// an unknown one is an error.
func subcommand(args []string) (cmd *cobra.Command, rest, flags []string, err error) {
	a := &app{in: strings.NewReader(""), out: newOutput(io.Discard), err: newOutput(io.Discard), v: viper.New()}
	if cmd, rest, err = a.root().Find(args); err != nil {
		return nil, nil, nil, err
	}
	for _, arg := range rest {
		name, _, _ := strings.Cut(arg, "=")
		if name, long := strings.CutPrefix(name, "--"); long && name != "help" {
			if cmd.Flag(name) == nil {
				return nil, nil, nil, fmt.Errorf("%s has no --%s", cmd.CommandPath(), name)
			}
			flags = append(flags, name)
		}
	}
	return cmd, rest, flags, nil
}

func checkTune(c docs.Command, args []string, ci map[string]bool) error {
	cmd, rest, flags, err := subcommand(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("%s has no subcommand %s", cmd.CommandPath(), rest[0])
	}
	if c.Inline {
		return nil
	}
	switch err := cmd.ParseFlags(rest); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	if c.GPU {
		return nil
	}
	if backend := cmd.Flag("backend"); backend != nil && backend.Value.String() == evotune.CUDA || slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "cuda-") }) {
		return fmt.Errorf("put %s before the block", docs.GPUMarker)
	}
	if !ci[cmd.CommandPath()] {
		return fmt.Errorf("no script that CI runs has %s", cmd.CommandPath())
	}
	for _, f := range flags {
		if !ci[cmd.CommandPath()+" --"+f] {
			return fmt.Errorf("no script that CI runs has %s with --%s", cmd.CommandPath(), f)
		}
	}
	return nil
}

// whatCIRuns are the programs and scripts, and the subcommands of tune, alone and
// with each of their flags, in .ci/run, in .ci/nightly, in scripts that they run and in
// the test scripts.
func whatCIRuns(t *testing.T) map[string]bool {
	t.Helper()
	runs := map[string]bool{}
	var files []string
	for _, dir := range []string{"testdata/script", "testdata/script/long"} {
		found, err := filepath.Glob(dir + "/*.txtar")
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no scripts: %v", dir, err)
		}
		files = append(files, found...)
	}
	for _, name := range []string{".ci/run", ".ci/nightly"} {
		name = filepath.Join(repository, name)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range regexp.MustCompile(`scripts/[\w-]+\.sh`).FindAllString(string(text), -1) {
			files = append(files, filepath.Join(repository, script))
		}
		files = append(files, name)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			for _, words := range docs.Split(line) {
				for i, word := range words {
					args, ok := tuneArgs(words[i:])
					if !ok {
						runs[word] = true
						continue
					}
					if cmd, _, flags, err := subcommand(args); err == nil { // what is wrong is a test's business
						runs[cmd.CommandPath()] = true
						for _, f := range flags {
							runs[cmd.CommandPath()+" --"+f] = true
						}
					}
					break
				}
			}
		}
	}
	return runs
}

// goFlags are those of the go command that take no part in the check.
var goFlags = []string{"v", "c", "o", "args", "tags", "race", "short", "cpu", "count", "timeout", "benchtime", "fuzztime", "fuzzminimizetime", "rapid.checks"}

// declared are functions and flags of tests.
var declared = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(|flag\.\w+\((?:&\w+, )?("[\w.]+")`)

// checkGo checks that packages exist, that patterns match a test, and that the
// packages' tests have the flags that the go command has not.
func checkGo(verb string, args []string) error {
	var names []string
	for _, arg := range args {
		if !strings.HasPrefix(arg, "./") {
			continue
		}
		dir, below := strings.CutSuffix(arg, "/...")
		files, err := goFiles(filepath.Join(repository, dir), below)
		if err != nil || len(files) == 0 {
			return fmt.Errorf("there is no package %s", arg)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if strings.HasSuffix(file, "_test.go") {
				for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
					names = append(names, m[1]+m[2])
				}
			}
		}
	}
	for i, arg := range args {
		name, value, assigned := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		kind := map[string]string{"run": "Test", "bench": "Benchmark", "fuzz": "Fuzz"}[name]
		switch {
		case arg[0] != '-' || slices.Contains(goFlags, name):
			continue
		case kind == "" && !slices.Contains(names, fmt.Sprintf("%q", name)):
			return fmt.Errorf("go %s knows no -%s there", verb, name)
		case kind == "":
			continue
		case !assigned && i+1 < len(args):
			value = args[i+1]
		}
		if value == "^$" {
			continue
		}
		top, _, _ := strings.Cut(value, "/")
		for one := range strings.SplitSeq(top, "|") {
			re, err := regexp.Compile(one)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(names, func(f string) bool { return strings.HasPrefix(f, kind) && re.MatchString(f) }) {
				return fmt.Errorf("-%s %s matches nothing", name, one)
			}
		}
	}
	return nil
}

// goFiles are the Go files of a folder, and of those below it.
func goFiles(dir string, below bool) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != dir && !below:
			return fs.SkipDir
		case filepath.Ext(name) == ".go":
			out = append(out, name)
		}
		return nil
	})
	return out, err
}

// asked are the subcommands that answer within a second from a store, a table or
// the built-in kernels.
var asked = []string{
	"best", "check", "compare", "evidence", "importance", "kernels", "kernels new", "kernels show", "lineage", "list", "merge", "plot",
	"query", "report", "show", "space export", "space import", "space info", "version",
}

// TestDocCommandsAnswer runs those of the documentation's commands on a store with
// a short campaign. Names that are particular to a page are replaced by the
// store's.
func TestDocCommandsAnswer(t *testing.T) {
	longtest.Short(t, "computes for long")
	pages, err := docs.Pages(repository)
	if err != nil {
		t.Fatal(err)
	}
	gpu := manyCandidates(t, 6, 5)
	source, err := os.ReadFile("testdata/from/blocked.c")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("matmul.c", source, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("synthetic.json", tables.SyntheticFile(1000), 0o644); err != nil {
		t.Fatal(err)
	}
	tune := func(args ...string) (int, string) {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
		return code, stdout.String() + stderr.String()
	}
	must := func(args ...string) string {
		t.Helper()
		code, said := tune(args...)
		if code != exitOK {
			t.Fatalf("tune %s: exit status %d: %s", strings.Join(args, " "), code, said)
		}
		return said
	}
	must("run", "synthetic.json", "--backend", "replay", "--evaluations", "100", "--seed", "3", "--store", "s.db")
	must("merge", gpu, "s.db", "--into", "evotune.db")
	campaign := regexp.MustCompile(`synthetic-1000-[0-9a-f]{8}`).FindString(must("list", "--store", "s.db"))
	candidates := regexp.MustCompile(`(?m)^[0-9a-f]{16}`).FindAllString(must("query", `verdict == "correct"`, "--store", "s.db"), 2)
	if campaign == "" || len(candidates) < 2 {
		t.Fatalf("campaign %q, candidates %v", campaign, candidates)
	}
	var found []docs.Finding
	n := 0
	for _, p := range pages {
		for _, c := range p.Commands() {
			args, ok := tuneArgs(c.Words)
			if !ok || c.Inline {
				continue
			}
			cmd, _, flags, err := subcommand(args)
			if err != nil || !slices.Contains(asked, strings.TrimPrefix(cmd.CommandPath(), "tune ")) || slices.Contains(flags, "source") {
				continue // recorded tables have no sources
			}
			n++
			args = concrete(args, campaign, candidates, n)
			// A store may lack what a page's has.
			if code, said := tune(args...); code != exitOK && code != exitNoCandidate {
				found = append(found, docs.Finding{File: c.Page, Line: c.Line, What: fmt.Sprintf("tune %s: exit status %d: %s", strings.Join(args, " "), code, said)})
			}
		}
	}
	if n < 20 {
		t.Errorf("found no more than %d commands to run", n)
	}
	for _, f := range found {
		t.Error(f)
	}
}

var (
	aCandidate = regexp.MustCompile(`^([0-9a-f]{4,16}|CANDIDATE|A|B)$`)
	aCampaign  = regexp.MustCompile(`^(CAMPAIGN|[\w-]+-[0-9a-f]{8})$`)
	aTable     = regexp.MustCompile(`^((FILE|SPACE)(\.\.\.)?|\S+\.json(\.gz)?)$`)
)

// concrete puts a store's names and fresh files in the place of a page's.
func concrete(args []string, campaign string, candidates []string, n int) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		switch {
		case i > 0 && slices.Contains([]string{"--out", "--trace"}, out[i-1]):
			out[i] = fmt.Sprintf("out-%d", n)
		case i > 0 && strings.HasPrefix(out[i-1], "--"):
			out[i], _, _ = strings.Cut(arg, "|")
		case aCandidate.MatchString(arg):
			out[i], candidates = candidates[0], candidates[1:]
		case aCampaign.MatchString(arg):
			out[i] = campaign
		case aTable.MatchString(arg):
			out[i] = "synthetic.json"
		}
	}
	return out
}
