package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/internal/server"
)

// percent is a flag: a share such as 3% or 0.03.
type percent float64

func (p *percent) String() string { return fmt.Sprintf("%.4g%%", 100*float64(*p)) }
func (p *percent) Type() string   { return "SHARE" }
func (p *percent) Set(s string) error {
	number, cut := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(number, 64)
	if cut {
		x /= 100
	}
	if err != nil || !(x >= 0 && x < 10) {
		return errors.New("give a share such as 3% or 0.03")
	}
	*p = percent(x)
	return nil
}

func (a *app) ratchetCommand() *cobra.Command {
	var path string
	var update bool
	threshold := percent(0.03)
	cmd := &cobra.Command{
		Use:   "ratchet --baseline FILE",
		Short: "Fail when a kernel has become slower",
		Long: `For the CI of kernel libraries: put the candidates of a file through the whole
ordeal again on this device, and measure them as in finals, in fresh processes beside
their baseline. The command fails when one has become slower, relative to the
baseline, by more than the threshold and by more than noise, three times in a row. A
candidate that no longer compiles or is no longer correct fails too.

--update writes the file, without measuring, from the winners of finals that the
store has: the best of each kernel, device and set of shapes. Entries for which the
store has nothing better are kept. The candidates are looked up in the store, which
must exist; kernels come from --kernels if given, else from where the campaign had
them.

Entries of other devices and of other versions of the harness are skipped. If nothing
could be checked, the command fails. docs/judge.md#the-ratchet describes the file.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate, exitSlower, exitDisturbed) + interruptedHelp,
		Example: "  tune ratchet --baseline ratchet.json --update\n  tune ratchet --baseline ratchet.json --threshold 5% --kernels kernels",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return badInputf("what should it be held against? give --baseline FILE; --update writes it")
			}
			if update && strings.HasSuffix(path, ".gz") {
				return badInputf("%s would be compressed, and is to be read by people: name it without .gz", path)
			}
			if update {
				return a.updateRatchet(cmd, path)
			}
			return a.ratchet(cmd, path, float64(threshold))
		},
	}
	addOptions(cmd.Flags(), backendOptions)
	cmd.Flags().StringVar(&path, "baseline", "", "the `FILE` with what was measured before")
	cmd.Flags().BoolVar(&update, "update", false, "write the file from the store's winners of finals")
	cmd.Flags().Var(&threshold, "threshold", "how much slower is allowed")
	return cmd
}

// updateRatchet writes the file anew.
func (a *app) updateRatchet(cmd *cobra.Command, path string) error {
	old, err := evotune.ReadRatchet(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var next evotune.Ratchet
	var kept, fresh int
	if err := a.withReader(cmd, func(r server.Reader) error {
		next, kept, fresh, err = a.machine().UpdateRatchet(r, old)
		return storeError(err)
	}); err != nil {
		return err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(next); err != nil {
		return err
	}
	if err := writeTrace(path, func(w io.Writer) error {
		_, err := w.Write(b.Bytes())
		return err
	}); err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(next)
	}
	for _, e := range next.Entries {
		fmt.Fprintf(a.out, "%s  %s at %s on %s: %.3f of the baseline's time\n", e.Candidate, e.Kernel, strings.Join(e.Shapes, ", "), e.Device.Name, e.Ratio)
	}
	fmt.Fprintf(a.out, "%s: %d kept that this store does not have, %d new or replaced of %d\n", path, kept, fresh, len(next.Entries))
	return nil
}

// A ratchetReport is what the command says.
type ratchetReport struct {
	Baseline  string               `json:"baseline"`
	Threshold float64              `json:"threshold"`
	Entries   []evotune.RatchetRow `json:"entries"`
	// Checked counts those that are not skipped.
	Checked int  `json:"checked"`
	Slower  int  `json:"slower"`
	Failed  int  `json:"failed"`
	Skipped int  `json:"skipped"`
	OK      bool `json:"ok"`
}

func (a *app) ratchet(cmd *cobra.Command, path string, threshold float64) error {
	file, err := evotune.ReadRatchet(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = badInputf("%s is not there: --update writes it", path)
	}
	if err != nil {
		return err
	}
	var jobs []evotune.RatchetJob
	if err := a.withReader(cmd, func(r server.Reader) error {
		jobs, err = file.Jobs(r)
		return storeError(err)
	}); err != nil {
		return err
	}
	out := ratchetReport{Baseline: path, Threshold: threshold, Entries: []evotune.RatchetRow{}}
	if err := a.interruptible(cmd.Context(), len(jobs), func(ctx context.Context, done func()) error {
		for _, j := range jobs {
			row, err := a.machine().Hold(ctx, j, threshold)
			if err != nil {
				return err
			}
			out.Entries = append(out.Entries, row)
			done()
		}
		return nil
	}); err != nil {
		return err
	}
	for _, row := range out.Entries {
		switch row.State {
		case evotune.RatchetSkipped:
			out.Skipped++
			continue
		case evotune.RatchetSlower:
			out.Slower++
		case evotune.RatchetFailed:
			out.Failed++
		}
		out.Checked++
	}
	out.OK = out.Checked > 0 && out.Slower+out.Failed == 0
	if a.JSON {
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		a.printRatchet(out)
	}
	switch {
	case out.Checked == 0:
		return fmt.Errorf("nothing was checked: %s has %s, %d skipped", path, entries(len(out.Entries)), out.Skipped)
	case !out.OK:
		return &exitError{code: exitSlower}
	}
	return nil
}

func (a *app) printRatchet(out ratchetReport) {
	rows := [][]string{{"CANDIDATE", "KERNEL", "SHAPES", "WAS", "NOW", "CHANGE", "VERDICT"}}
	for _, r := range out.Entries {
		now, change := "-", "-"
		if r.Test != nil {
			now, change = fmt.Sprintf("%.3f", r.Now), fmt.Sprintf("%+.1f%%", 100*r.Change)
			if !r.Test.Significant {
				change += " ~"
			}
		}
		verdict := string(r.State)
		if r.State == evotune.RatchetSlower || r.State == evotune.RatchetFailed {
			verdict = strings.ToUpper(verdict)
		}
		rows = append(rows, []string{r.Candidate, r.Kernel, strings.Join(r.Shapes, ","), fmt.Sprintf("%.3f", r.Was), now, change, verdict})
	}
	printColumns(a.out, rows, 20, 24, 30, 8, 8, 10, 10)
	for _, r := range out.Entries {
		if r.Reason != "" {
			fmt.Fprintf(a.out, "%s %s: %s\n", r.Candidate, r.State, r.Reason)
		}
		var changed []string
		if r.KernelChanged {
			changed = append(changed, "the kernel")
		}
		if r.CompilerChanged {
			changed = append(changed, "the compiler")
		}
		if len(changed) > 0 {
			fmt.Fprintf(a.out, "%s note: not as they were: %s; the baseline may have changed, too\n", r.Candidate, strings.Join(changed, ", "))
		}
	}
	fmt.Fprintf(a.out, "%s checked, times relative to the baseline beside them: %d slower by more than %.3g%% and noise, %d failed; %d skipped\n",
		entries(out.Checked), out.Slower, 100*out.Threshold, out.Failed, out.Skipped)
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}
