package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/kernels"
)

// judgeStatus is the exit status of a verdict. Infrastructure has none of its own: the
// machine failed or was too busy.
var judgeStatus = map[evaluator.Verdict]int{
	evaluator.Correct: exitOK, evaluator.Render: exitCompile, evaluator.Compile: exitCompile,
	evaluator.Inspect: exitInspect, evaluator.Launch: exitLaunch, evaluator.Timeout: exitTimeout, evaluator.Parity: exitParity,
	evaluator.Sanitizer: exitSanitizer, evaluator.Implausible: exitImplausible, evaluator.Infrastructure: exitFailure,
}

func (a *app) judgeCommand() *cobra.Command {
	var j judging
	var flags string
	keys := ""
	for _, k := range kernels.FileKeys() {
		keys += fmt.Sprintf("  %-14s %s\n", k[0], k[1])
	}
	cmd := &cobra.Command{
		Use:   "judge FILE --kernel NAME",
		Short: "Judge one finished kernel, without a search",
		Long: `Judge one finished kernel, in C (.c) or CUDA (.cu), without a search: compile it,
inspect it, compare it with the double-precision reference of the kernel NAME, run
it under the sanitizers, and time it against a baseline in fresh processes. The
first stage that it fails gives the verdict. Nothing is stored.

The file defines the function that the kernel's implementations define; "tune
kernels show NAME" prints its prototype. It may include files from its own folder.
With --against it is timed against another file, which has to pass the same stages.
What is right is decided by the kernel's own reference and baseline in either case.

Comment lines in the file say what C cannot express:
  // evotune: flags = ["-O3", "-march=native"]
  // evotune: grid = ["int((ROWS + 3)/4)"]
  // evotune: block = ["32", "4"]
The keys are
` + keys + `Kernels in CUDA need grid and block. Sources that evotune wrote ("tune export", "tune
show --source") have all of these lines. Without flags a file is compiled like the
kernel's own baseline.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitDisturbed, exitCompile, exitInspect, exitLaunch, exitTimeout, exitParity, exitSanitizer, exitImplausible) + "  130  interrupted\n",
		Example: `  tune judge kernel.c --kernel softmax
  tune judge kernel.c --kernel sgemm --shape 512 --flags "-O3 -march=native" --threads 2
  tune judge new.cu --kernel attention --against old.cu --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			j.file.Path = args[0]
			if cmd.Flags().Changed("flags") {
				j.file.Flags = append([]string{}, strings.Fields(flags)...)
			}
			if n := j.file.Threads; n < 0 || n == 0 && cmd.Flags().Changed("threads") {
				return badInputf("--threads is %d: give 1 or more", n)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			err := a.judge(ctx, cmd, j)
			if ctx.Err() != nil {
				return &exitError{exitInterrupted, errors.New("interrupted: nothing was found right or wrong")}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&j.kernel, "kernel", "", "the `NAME` of the kernel whose problem the file solves")
	cmd.Flags().StringVar(&j.against, "against", "", "time it against this `FILE` instead of the kernel's own baseline")
	cmd.Flags().StringVar(&flags, "flags", "", "compile it with these `FLAGS`, separated by spaces; also the file of --against, unless it names its own")
	cmd.Flags().IntVar(&j.file.Threads, "threads", 0, "it uses `N` threads (default: what the file says, or 1); the file of --against as for --flags")
	addOptions(cmd.Flags(), option.Named(runOptions, "shape", "strict"), option.Without(backendOptions, "latency"))
	cmd.Flags().Lookup("shape").Usage = "judge it at the shape `NAME` (repeatable; default: the kernel's first)"
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

// A judging says what is to be judged.
type judging struct {
	file            kernels.File
	kernel, against string
}

// A judgment is what was found, as --json prints it.
type judgment struct {
	evotune.Judgment
	Status int `json:"status"`
}

// judge judges a file, here or in a service. What is wrong with the file is told before it is sent, as far as this
// machine can tell.
func (a *app) judge(ctx context.Context, cmd *cobra.Command, j judging) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if c != nil {
		defer c.Close()
	}
	if j.kernel == "" {
		return badInputf("--kernel is missing: name the kernel whose problem the file solves; `tune kernels` lists them")
	}
	if c != nil {
		if err := elsewhereOnly(cmd); err != nil {
			return err
		}
	}
	t, err := a.machine().FileTarget(evotune.Job{Kernel: j.kernel, Shapes: a.Run.Shapes, Seed: a.Run.Seed, Strict: a.Run.Strict}, j.file, j.against)
	if err != nil && (c == nil || !errors.Is(err, kernels.ErrUnknownKernel)) { // the service may know the kernel
		return err
	}
	var found evotune.Judgment
	if c != nil {
		found, err = a.judgeThere(ctx, c, j, t)
	} else {
		found, err = a.judgeHere(ctx, j, t)
	}
	if err != nil {
		return err
	}
	return a.judged(found)
}

func (a *app) judgeHere(ctx context.Context, j judging, t *evotune.Target) (evotune.Judgment, error) {
	if !a.JSON {
		a.preparing(t.Job.Kernel)
	}
	ctx, prepared := a.followPreparation(ctx)
	defer prepared()
	return t.Judge(ctx, func() {
		prepared()
		if !a.JSON {
			fmt.Fprintf(a.out, "judging %s\n", plain(j.file.Path))
		}
	})
}

// judged prints what was found.
func (a *app) judged(found evotune.Judgment) error {
	status := judgeStatus[found.Verdict]
	if found.Disturbed != "" {
		status = exitDisturbed
	}
	if a.JSON {
		if err := a.printJSON(judgment{found, status}); err != nil {
			return err
		}
	} else {
		var page strings.Builder
		judgment{found, status}.print(&page)
		fmt.Fprint(a.out, plain(page.String()))
	}
	if status != exitOK {
		return &exitError{code: status}
	}
	return nil
}

// judgeThere has a service judge a file. The target is nil if this machine does not know the kernel.
func (a *app) judgeThere(ctx context.Context, c *api.Client, j judging, t *evotune.Target) (found evotune.Judgment, err error) {
	if t != nil && len(t.File().Include) > 0 {
		return found, badInputf("%s includes %s from its folder, and a service takes one file: put it in", j.file.Path, strings.Join(t.File().Include, ", "))
	}
	in := api.Judge{
		Kernel: j.kernel, Name: filepath.Base(j.file.Path), Flags: j.file.Flags, Threads: j.file.Threads,
		Shapes: a.Run.Shapes, Seed: a.Run.Seed, Strict: a.Run.Strict,
	}
	if in.Source, err = readSource(j.file.Path); err != nil {
		return found, err
	}
	if j.against != "" {
		in.AgainstName = filepath.Base(j.against)
		if in.Against, err = readSource(j.against); err != nil {
			return found, err
		}
		if in.AgainstName == in.Name { // both are in one folder there
			in.AgainstName = "against-" + in.Name
		}
	}
	if err := a.upload(ctx, c, j.kernel); err != nil {
		return found, err
	}
	o, err := c.Judge(ctx, in)
	if err != nil {
		return found, remoteError(err)
	}
	if !a.JSON {
		a.preparing(j.kernel)
		fmt.Fprintf(a.out, "judging %s\n", plain(j.file.Path))
	}
	told := evaluator.Patience{Scripts: a.JSON}
	if o, err = c.Wait(ctx, o.ID, func(o api.Operation) {
		if p := o.Preparing; p != nil && told.Due(p.Step, p.SinceNS) {
			a.stillPreparing("", p.Step, p.SinceNS)
		}
	}); err != nil {
		return found, remoteError(err)
	}
	if o.State != api.Finished {
		return found, fmt.Errorf("%s: the judgment has %s: %s", c.Address(), o.State, o.Error)
	}
	if found, err = o.Judgment(); err != nil {
		return found, err
	}
	found.File, found.Against = j.file.Path, j.against
	if t != nil {
		found.Implementation = t.File()
	}
	return found, nil
}

// readSource reads a file that a service is to judge.
func readSource(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", badInput(err)
	}
	return string(b), nil
}

// plain replaces what a terminal would act on by spaces: parts of the text come
// from the candidate.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// print writes one page for people.
func (f judgment) print(w io.Writer) {
	d := f.Description
	compiled := "without flags"
	if len(f.Flags) > 0 {
		compiled = "with " + strings.Join(f.Flags, " ")
	}
	row(w, "file", "%s: %s, %s, compiled %s", f.File, f.Entry, words.Plural(f.Threads, "thread"), compiled)
	if f.Implementation != nil { // of a kernel that only a service has
		for _, c := range f.Implementation.Constraints {
			row(w, "", "only for shapes where %s", c.Expr)
		}
	}
	sanitized := f.Sanitized
	if len(f.SanitizedAlso) > 0 {
		sanitized += ", and in finals at " + strings.Join(f.SanitizedAlso, ", ")
	}
	row(w, "problem", "%s at %s; outputs are compared at %s as well, sanitizers run at %s", f.Kernel,
		strings.Join(d.Shapes, ", "), strings.Join(append([]string{f.Sanitized}, d.Verified...), ", "), sanitized)
	row(w, "device", "%s, %s", d.Device.Name, d.Compiler)
	row(w, "baseline", "%s", d.Baseline)
	if f.Against != "" {
		row(w, "against", "%s, which passes every stage itself", f.Against)
	}
	for _, u := range d.Unproven {
		row(w, "not proven", "%s", u)
	}
	fmt.Fprintln(w)
	for _, stage := range evaluator.Stages() {
		if step, reached := f.Result.Step(stage); reached {
			f.printStep(w, step)
		} else {
			row(w, string(stage), "not run, because %s failed", f.Result.Stage)
		}
	}
	if f.Finals != nil {
		f.printFinals(w)
	}
	fmt.Fprintln(w)
	verdict := string(f.Verdict)
	if f.Reason != "" {
		verdict += ": " + words.OneLine(f.Reason)
	} else if why := d.NotProven(); why != "" {
		verdict += ", " + why
	}
	row(w, "verdict", "%s", verdict)
	if next := f.next(); next != "" {
		row(w, "next", "%s", next)
	}
}

// printStep writes a stage: one line, and more for each check that was not run or failed.
func (f judgment) printStep(w io.Writer, s evaluator.Step) {
	passed := 0
	var closest *evaluator.Evidence
	for i, e := range s.Evidence {
		if e.Outcome == evaluator.Passed {
			passed++
		}
		if e.Limit > 0 && !e.AtLeast && s.Stage == evaluator.StageParity && (closest == nil || e.Value/e.Limit > closest.Value/closest.Limit) {
			closest = &s.Evidence[i]
		}
	}
	text := fmt.Sprintf("%s in %s", s.Outcome, duration(s.Elapsed))
	if passed > 0 {
		text += ": " + words.Plural(passed, "check") + " passed"
	}
	if closest != nil && s.Outcome == evaluator.Passed {
		text += fmt.Sprintf("; largest error %.2g, %.2g allowed (%s)", closest.Value, closest.Limit, closest.Check)
	}
	row(w, string(s.Stage), "%s", text)
	for _, e := range s.Evidence {
		switch e.Outcome {
		case evaluator.NotRun:
			fmt.Fprintf(w, "  %-28s %s\n", e.Check, evidenceText(e))
		case evaluator.Failed:
			if e.Detail == "" {
				fmt.Fprintf(w, "  %-28s %s\n", e.Check, evidenceText(e))
				continue
			}
			fmt.Fprintf(w, "  %-28s failed\n", e.Check)
			printReport(w, e.Detail, judgeLines)
		}
	}
}

// judgeLines bounds what is printed of a report, so that the output stays one page.
const judgeLines = 12

// printFinals writes the time and its test.
func (f judgment) printFinals(w io.Writer) {
	e := f.Finals.Entries[0]
	for _, ev := range e.Evidence {
		switch {
		case ev.Outcome == evaluator.Failed && strings.Contains(ev.Detail, "\n"): // a tool's report
			fmt.Fprintf(w, "  %-28s failed\n", ev.Check)
			printReport(w, ev.Detail, judgeLines)
		case ev.Outcome != evaluator.Passed:
			fmt.Fprintf(w, "  %-28s %s\n", ev.Check, evidenceText(ev))
		}
	}
	rival := "the baseline"
	if f.Against != "" {
		rival = f.Against
	}
	tuned, heldOut := f.Timings()
	for _, t := range tuned {
		row(w, "time", "%s at %s, %s %s", nanoseconds(t.MedianNS), t.Shape, strings.TrimPrefix(rival, "the "), nanoseconds(t.BaselineMedianNS))
	}
	vs := f.Versus()
	if vs == nil {
		return
	}
	text := "~ no significant difference from " + rival
	switch {
	case vs.Significant && f.Speedup >= 1:
		text = fmt.Sprintf("%.3fx as fast as %s", f.Speedup, rival)
	case vs.Significant:
		text = fmt.Sprintf("%.3fx as fast as %s: slower", f.Speedup, rival)
	}
	row(w, "speedup", "%s (time ratio %.3f, p=%.2g, %d and %d samples in fresh processes)", text, vs.Ratio, vs.P, vs.N1, vs.N2)
	var held []string
	for _, t := range heldOut {
		held = append(held, fmt.Sprintf("%s %.2fx", t.Shape, 1/t.Ratio))
	}
	if held != nil {
		row(w, "other shapes", "%s", strings.Join(held, ", "))
	}
}

// next says what the kernel's author can do about a verdict.
func (f judgment) next() string {
	switch im := f.Implementation; f.Verdict {
	case evaluator.Render:
		return "correct the launch in the lines `// evotune:` of " + f.File
	case evaluator.Compile:
		if strings.Contains(f.Reason, "cannot open source file") {
			return "NVRTC has no header of the host: use --cuda-compiler nvcc, or include the header only where __CUDACC_RTC__ is not defined"
		}
		if im == nil || !strings.Contains(f.Reason, im.Entry) {
			return "correct what the compiler reports above"
		}
		return "the function must be " + im.Prototype()
	case evaluator.Inspect:
		return "change what the failed check names; `// evotune: max_stack = N` (max_registers, max_spill) sets another bound"
	case evaluator.Launch:
		return "the kernel crashed, or did what is refused to kernels: start processes, open files, change limits, leave threads behind"
	case evaluator.Timeout:
		return "the kernel hangs, or needs more time than the line above allows"
	case evaluator.Parity:
		if im == nil {
			return fmt.Sprintf("compare with the reference of the kernel %s, at the shape named above", f.Kernel)
		}
		return fmt.Sprintf("compare with the reference, %s of the kernel %s, at the shape named above", im.Problem().Reference.File, f.Kernel)
	case evaluator.Sanitizer:
		return "the report above names the line"
	case evaluator.Implausible:
		return "the measured time cannot be true: docs/timing.md, \"Which readings count\" and \"The physical floor\""
	case evaluator.Infrastructure:
		return "nothing was found right or wrong: judge it again when the machine is calm"
	}
	return ""
}
