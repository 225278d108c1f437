package main

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// terminal returns the terminal that output goes to, and whether it does.
func (o *output) terminal() (*os.File, bool) {
	f, ok := o.To.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// firstSteps is what `tune` alone suggests in a terminal.
func (a *app) firstSteps() error {
	return a.suggest("Three things to try:", [][2]string{
		{"tune run sgemm", "tune a matrix product for this machine, in about four minutes"},
		{"tune kernels", "list the kernels that come with evotune"},
		{"tune kernels new my-kernel", "write a small kernel that you can change into yours"},
	}, "`tune --help` lists all commands.\n")
}

// nextSteps suggests what to do after a campaign. definition is nil where nothing can be
// made from its winner: recorded tables, kernels that only a service has. from has the flags
// that name the store or the service.
func (a *app) nextSteps(c store.Campaign, job evotune.Job, definition *kernels.Definition, sum evotune.Finished, from string) error {
	if a.JSON || sum.Best == nil {
		return nil
	}
	show := [2]string{"tune show " + sum.Best.Candidate + from, "show what it is, and what was checked"}
	won := c.Finals != nil && c.Finals.Winner == sum.Best.Candidate
	switch {
	case c.Finals == nil:
		return a.suggest("\nno finals, so no winner; next:", [][2]string{
			show,
			{"tune run " + shellWord(cmp.Or(job.Table, job.Kernel)) + a.given("kernels", "backend", "shape") + from, "run a campaign with finals"},
		}, "")
	case !won || !sum.Best.Faster():
		return a.suggest("\nnothing is shown to be faster than the baseline; next:", [][2]string{
			show,
			{fmt.Sprintf("tune resume %s --evaluations %d", c.ID, 2*sum.Evaluated) + from, "search on with a larger budget"},
		}, "")
	case definition == nil || sum.Best.Unproven != "":
		return a.suggest("\nnext:", [][2]string{
			show,
			{"tune lineage " + sum.Best.Candidate + from, "show its ancestors"},
			{"tune importance " + c.ID + from, "show which parameters mattered"},
		}, "")
	}
	id := sum.Best.Candidate
	on := backend.Of(job.Backend)
	last := [2]string{"tune export " + job.Kernel + " --out lib" + job.Kernel + from, "write it as a library"}
	switch {
	case !on.Accelerator:
	case on.Library == "" || definition.Problem.DeviceReference == nil: // the library's test needs one
		if a.Server != "" {
			last = [2]string{"tune report " + c.ID + " --out report-" + c.ID + from, "write a folder that describes it"}
			break
		}
		last = [2]string{"tune evidence " + id + " --out evidence-" + id + from, "write a folder that proves it"}
	default:
		last[0] += " --lang " + on.Library
	}
	again := [2]string{"tune verify " + id + from + a.given(option.Names(backendOptions)...), "measure it again"}
	if a.Server != "" { // which tune verify does not take
		again = [2]string{"tune lineage " + id + from, "show its ancestors"}
	}
	return a.suggest("\nnext:", [][2]string{show, again, last}, "")
}

// suggest prints commands, each with what it does.
func (a *app) suggest(title string, commands [][2]string, last string) error {
	fmt.Fprintln(a.out, title)
	w := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	for _, c := range commands {
		fmt.Fprintf(w, "  %s\t# %s\n", c[0], c[1])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(a.out, last)
	return err
}

// given repeats settings as flags, where they are not the defaults.
func (a *app) given(keys ...string) string {
	var b strings.Builder
	for _, key := range keys {
		f, texts := known[key], a.texts(key)
		if slices.Equal(texts, f.Text(f.DefaultValue())) {
			continue
		}
		for _, text := range texts {
			if f.Kind().Kind() == reflect.Bool {
				fmt.Fprintf(&b, " --%s=%s", key, text)
				continue
			}
			fmt.Fprintf(&b, " --%s %s", key, shellWord(text))
		}
	}
	return b.String()
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// shellWord writes a text so that a shell reads it as one word.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
