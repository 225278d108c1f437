package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/campaign"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/report"
	"github.com/evotune/evotune/server"
	"github.com/evotune/evotune/store"
)

// ratchetFormat is the format of the file. The number grows when a reader of the
// older one would misunderstand; fields may be added without.
const ratchetFormat = "evotune-ratchet/1"

// A ratchet is the file: what must not get slower.
type ratchet struct {
	Format  string         `json:"format"`
	Entries []ratchetEntry `json:"entries"`
}

// A ratchetEntry is the best proven candidate of a kernel at its shapes on a
// device, as its finals measured it.
type ratchetEntry struct {
	Candidate string        `json:"candidate"`
	Kernel    string        `json:"kernel"`
	Shapes    []string      `json:"shapes"`
	Device    ratchetDevice `json:"device"`
	Harness   string        `json:"harness"`
	Compiler  string        `json:"compiler,omitempty"`
	// Ratio is the median of Rounds, Lo and Hi its 95% interval; no bounds with
	// fewer than six rounds.
	Ratio float64 `json:"ratio"`
	Lo    float64 `json:"lo,omitempty"`
	Hi    float64 `json:"hi,omitempty"`
	// MedianNS is the time, a geometric mean over the shapes.
	MedianNS float64 `json:"median_ns"`
	// Rounds are the time ratios to the baseline, one for each round of the finals.
	Rounds []float64 `json:"rounds"`
}

type ratchetDevice struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
}

// measure fills in what follows from timings of finals.
func (e *ratchetEntry) measure(ts []evaluator.Timing) {
	e.Rounds = evaluator.RoundRatios(ts)
	e.Ratio, e.Lo, e.Hi = evaluator.Interval(e.Rounds)
	if math.IsInf(e.Lo, 0) || math.IsInf(e.Hi, 0) {
		e.Lo, e.Hi = 0, 0
	}
	e.MedianNS, _ = evaluator.MedianTimes(ts)
}

// same says whether both are of one kernel, device and set of shapes.
func (e *ratchetEntry) same(o ratchetEntry) bool {
	return e.Kernel == o.Kernel && e.Device.Fingerprint == o.Device.Fingerprint &&
		slices.Equal(slices.Sorted(slices.Values(e.Shapes)), slices.Sorted(slices.Values(o.Shapes)))
}

// A ratchetState says how an entry fared.
type ratchetState string

const (
	ratchetOK      ratchetState = "ok"      // no slower than allowed, or not by more than noise
	ratchetFaster  ratchetState = "faster"  // by more than the threshold and more than noise
	ratchetSlower  ratchetState = "slower"  // likewise
	ratchetFailed  ratchetState = "failed"  // there is no time: it does not compile, is not correct, is gone
	ratchetSkipped ratchetState = "skipped" // not measured here
)

// A ratchetRow is an entry and what became of it.
type ratchetRow struct {
	Candidate string        `json:"candidate"`
	Kernel    string        `json:"kernel"`
	Shapes    []string      `json:"shapes"`
	Device    ratchetDevice `json:"device"`
	State     ratchetState  `json:"state"`
	Reason    string        `json:"reason,omitempty"`
	// Was and Now are times relative to the baseline, Change is Now / Was - 1.
	Was    float64 `json:"was"`
	Now    float64 `json:"now,omitempty"`
	Change float64 `json:"change"`
	NowNS  float64 `json:"now_ns,omitempty"`
	// Measurements is how often it was measured: again when it was slower.
	Measurements int `json:"measurements"`
	// Test compares the rounds of now with those of the file.
	Test *evaluator.Comparison `json:"test,omitempty"`
	// KernelChanged: the definition is another than the campaign's, and
	// CompilerChanged: the compiler is, so the baseline may be another, too.
	// SameBinary: the machine code is as it was.
	KernelChanged   bool `json:"kernel_changed,omitempty"`
	CompilerChanged bool `json:"compiler_changed,omitempty"`
	SameBinary      bool `json:"same_binary,omitempty"`
}

func (r *ratchetRow) set(s ratchetState, format string, args ...any) {
	r.State, r.Reason = s, oneLine(fmt.Sprintf(format, args...))
}

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
		Short: "Fail when a kernel that was fast has got slower",
		Long: `Put the candidates of a file through the whole ordeal again on this device, measure
them as finals do, in fresh processes beside their baseline, and fail when one has
got slower: relative to the baseline by more than the threshold, and by more than
noise, three times in a row. One that does not compile any more, or is not correct,
fails too. For the CI of kernel libraries.

--update writes the file, without measuring, from the winners of finals that the
store has: the best of each kernel, device and set of shapes. Entries that the
store knows nothing better to put for are kept. The candidates are looked up in the
store, which has to be there; kernels are taken from --kernels where it is given,
else from where the campaign had them.

Entries of other devices and of other versions of the harness are skipped. When
nothing could be checked at all the command fails. docs/ratchet.md has the file.
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
	addSettings(cmd.Flags(), backendSettings)
	cmd.Flags().StringVar(&path, "baseline", "", "what was measured before, a `FILE`")
	cmd.Flags().BoolVar(&update, "update", false, "write the file from the store's winners of finals")
	cmd.Flags().Var(&threshold, "threshold", "how much slower is allowed")
	return cmd
}

// readRatchet reads the file and holds it to its promises.
func readRatchet(path string) (ratchet, error) {
	var r ratchet
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	bad := func(format string, args ...any) (ratchet, error) {
		return ratchet{}, badInputf("%s: %s", path, fmt.Sprintf(format, args...))
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return bad("it is no ratchet file: %v: --update writes one", err)
	}
	kind, version, _ := strings.Cut(r.Format, "/")
	ours, known, _ := strings.Cut(ratchetFormat, "/")
	switch {
	case kind != ours:
		return bad("it is no ratchet file: its format is %q, not %q", r.Format, ratchetFormat)
	case version != known:
		return bad("format %q is not known, only %q: upgrade evotune", r.Format, ratchetFormat)
	}
	for i, e := range r.Entries {
		positive := func(x float64) bool { return x > 0 && x <= math.MaxFloat64 }
		switch {
		case e.Candidate == "" || e.Kernel == "" || e.Device.Fingerprint == "":
			return bad("entry %d has no candidate, kernel or device: make it again with --update", i+1)
		case len(e.Rounds) == 0 || slices.ContainsFunc(e.Rounds, func(x float64) bool { return !positive(x) }):
			return bad("entry %d (%s): its rounds are no list of positive numbers: make it again with --update", i+1, e.Candidate)
		case math.Abs(e.Ratio-evaluator.Median(e.Rounds)) > 1e-9*e.Ratio:
			return bad("entry %d (%s): the ratio %g is not the median of its rounds, %g: make it again with --update", i+1, e.Candidate, e.Ratio, evaluator.Median(e.Rounds))
		case slices.ContainsFunc(r.Entries[:i], e.same):
			return bad("entry %d (%s): there is another for this kernel, device and shapes", i+1, e.Candidate)
		}
	}
	return r, nil
}

// updateRatchet writes the file anew.
func (a *app) updateRatchet(cmd *cobra.Command, path string) error {
	old, err := readRatchet(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return badInput(err)
	}
	next := ratchet{Format: ratchetFormat}
	if err := a.withReader(cmd, func(r server.Reader) error {
		next.Entries, err = a.provenBest(r)
		return err
	}); err != nil {
		return err
	}
	if len(next.Entries) == 0 {
		return &exitError{exitNoCandidate, fmt.Errorf("%s has no winner of finals: run a campaign to its end, or see `tune list`", a.v.GetString("store"))}
	}
	fresh, kept := 0, 0
	for _, e := range next.Entries {
		if !slices.ContainsFunc(old.Entries, func(o ratchetEntry) bool { return e.same(o) && e.Candidate == o.Candidate }) {
			fresh++
		}
	}
	for _, o := range old.Entries {
		if !slices.ContainsFunc(next.Entries, o.same) {
			next.Entries = append(next.Entries, o)
			kept++
		}
	}
	slices.SortFunc(next.Entries, func(x, y ratchetEntry) int {
		return cmp.Or(cmp.Compare(x.Kernel, y.Kernel), cmp.Compare(x.Device.Name, y.Device.Name),
			cmp.Compare(x.Device.Fingerprint, y.Device.Fingerprint), slices.Compare(x.Shapes, y.Shapes))
	})
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
	if a.v.GetBool("json") {
		return a.printJSON(next)
	}
	for _, e := range next.Entries {
		fmt.Fprintf(a.out, "%s  %s at %s on %s: %.3f of the baseline's time\n", e.Candidate, e.Kernel, strings.Join(e.Shapes, ", "), e.Device.Name, e.Ratio)
	}
	fmt.Fprintf(a.out, "%s: %d kept that this store does not have, %d new or replaced of %d\n", path, kept, fresh, len(next.Entries))
	return nil
}

// provenBest are the best winners of finals, one for each kernel, device and
// set of shapes.
func (a *app) provenBest(r server.Reader) ([]ratchetEntry, error) {
	campaigns, err := r.Campaigns()
	if err != nil {
		return nil, storeError(err)
	}
	var out []ratchetEntry
	beside := map[string]string{} // by candidate: what a ratio is relative to
	for _, c := range campaigns {
		e := ratchetEntry{
			Kernel: c.Started.Kernel, Shapes: c.Started.Shapes,
			Device: ratchetDevice{Name: c.Started.Name, Fingerprint: c.Started.Device},
		}
		if c.Finals == nil || c.Finals.Winner == "" {
			continue
		}
		i := slices.IndexFunc(out, e.same)
		s, err := a.subject(r, c.Finals.Winner)
		if err != nil {
			return nil, err
		}
		v, err := report.NewEvidence(s)
		if err != nil {
			return nil, err
		}
		if v.Finals == nil {
			continue // what they measured was not kept
		}
		for _, f := range v.Finals.Entries {
			if f.Candidate == c.Finals.Winner {
				e.measure(f.Timings)
			}
		}
		e.Candidate, e.Harness, e.Compiler = c.Finals.Winner, v.Description.Harness, v.Description.Compiler
		var cfg campaign.Config
		if err := json.Unmarshal(s.Campaign.Started.Config, &cfg); err != nil {
			return nil, fmt.Errorf("campaign %s: its configuration cannot be read: %w: run `tune check`", c.ID, err)
		}
		beside[e.Candidate] = strings.Join([]string{cfg.Extra["hash"], e.Harness, e.Compiler}, "\n")
		// Ratios to different baselines are not compared: the newest campaign's counts.
		if len(e.Rounds) == 0 || i >= 0 && beside[out[i].Candidate] == beside[e.Candidate] && out[i].Ratio <= e.Ratio {
			continue
		}
		if i < 0 {
			out = append(out, e)
		} else {
			out[i] = e
		}
	}
	return out, nil
}

// A ratchetReport is what the command says.
type ratchetReport struct {
	Baseline  string       `json:"baseline"`
	Threshold float64      `json:"threshold"`
	Entries   []ratchetRow `json:"entries"`
	// Checked counts those that are not skipped.
	Checked int  `json:"checked"`
	Slower  int  `json:"slower"`
	Failed  int  `json:"failed"`
	Skipped int  `json:"skipped"`
	OK      bool `json:"ok"`
}

func (a *app) ratchet(cmd *cobra.Command, path string, threshold float64) error {
	file, err := readRatchet(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s is not there: --update writes it", path)
		}
		return badInput(err)
	}
	jobs := make([]ratchetJob, len(file.Entries))
	if err := a.withReader(cmd, func(r server.Reader) error {
		for i, e := range file.Entries {
			jobs[i] = ratchetJob{entry: e}
			if err := jobs[i].lookUp(r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	out := ratchetReport{Baseline: path, Threshold: threshold, Entries: []ratchetRow{}}
	if err := a.interruptible(cmd.Context(), len(jobs), func(ctx context.Context, done func()) error {
		for _, j := range jobs {
			row, err := a.hold(ctx, j, threshold)
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
		case ratchetSkipped:
			out.Skipped++
			continue
		case ratchetSlower:
			out.Slower++
		case ratchetFailed:
			out.Failed++
		}
		out.Checked++
	}
	out.OK = out.Checked > 0 && out.Slower+out.Failed == 0
	if a.v.GetBool("json") {
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

// A ratchetJob is an entry with what the store has of it.
type ratchetJob struct {
	entry     ratchetEntry
	candidate store.Candidate
	campaign  store.Campaign
	missing   string // why the store cannot tell what to measure
}

func (j *ratchetJob) lookUp(r server.Reader) (err error) {
	if j.candidate, err = r.Candidate(j.entry.Candidate); errors.Is(err, store.ErrNotFound) {
		j.missing = "the store does not have it"
		return nil
	}
	if err != nil {
		return storeError(err)
	}
	c := j.candidate
	if j.campaign, err = r.Campaign(c.Campaign); err != nil {
		return storeError(err)
	}
	of := ratchetEntry{Kernel: c.Kernel, Shapes: c.Shapes, Device: j.entry.Device} // other devices are skipped
	switch {
	case c.ID != j.entry.Candidate || !of.same(j.entry):
		j.missing = fmt.Sprintf("in the store it is %s, of %s at %s", c.ID, c.Kernel, strings.Join(c.Shapes, ", "))
	case c.Told == nil:
		j.missing = "the store has no result of it"
	}
	return nil
}

// hold measures one entry again. The error is for what kept it from doing so.
func (a *app) hold(ctx context.Context, j ratchetJob, threshold float64) (ratchetRow, error) {
	e := j.entry
	row := ratchetRow{Candidate: e.Candidate, Kernel: e.Kernel, Shapes: e.Shapes, Device: e.Device, Was: e.Ratio}
	here, err := a.isHere(ctx, e.Device, j.campaign.Started.Backend)
	if err != nil {
		return row, err
	}
	if !here {
		row.set(ratchetSkipped, "it was measured on another device, %s (%s)", e.Device.Name, e.Device.Fingerprint)
		return row, nil
	}
	if j.missing != "" {
		row.set(ratchetFailed, "%s: merge the store that has it, or make the file again with --update", j.missing)
		return row, nil
	}
	seed, t, changed, err := a.ratchetTarget(j.campaign)
	if err != nil {
		row.set(ratchetFailed, "%v", err)
		return row, nil
	}
	p, err := a.open(ctx, t, seed)
	if err != nil && changed && ctx.Err() == nil { // it could be opened before the kernel changed
		row.set(ratchetFailed, "the kernel as it is now: %v", err)
		return row, nil
	}
	if err != nil {
		return row, err
	}
	defer p.Evaluator.Close() //nolint:errcheck // nothing is kept
	now := p.Evaluator.Describe()
	switch {
	case now.Device.Fingerprint != e.Device.Fingerprint:
		row.set(ratchetSkipped, "it was measured on another device, %s (%s)", e.Device.Name, e.Device.Fingerprint)
		return row, nil
	case now.Harness != e.Harness:
		row.set(ratchetSkipped, "it was measured by version %q of the harness, this is %q: run a campaign and --update", e.Harness, now.Harness)
		return row, nil
	}
	row.KernelChanged, row.CompilerChanged = changed, now.Compiler != e.Compiler
	g, err := p.Space.Parse(j.candidate.Asked.Genome)
	if err != nil {
		row.set(ratchetFailed, "it is no genome of the kernel as it is now: %v", err)
		return row, nil
	}
	var stored evaluator.Result
	if err := json.Unmarshal(j.candidate.Told.Detail, &stored); err != nil {
		return row, fmt.Errorf("candidate %s: its evidence cannot be read: %w: run `tune check`", e.Candidate, err)
	}
	return row, row.judge(ctx, p.Evaluator, g, e, stored, threshold)
}

// isHere says whether a device is one of this machine's. Recorded ones are told
// by their table.
func (a *app) isHere(ctx context.Context, d ratchetDevice, backend string) (bool, error) {
	if backend == backendReplay {
		return true, nil
	}
	here, err := a.devices(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(here, func(h *evaluator.Device) bool { return h.Fingerprint == d.Fingerprint }), nil
}

// ratchetTarget is what the campaign tuned, by the kernel as it is now, and
// whether that has changed. --kernels stands in for the campaign's own folders.
func (a *app) ratchetTarget(of store.Campaign) (seed int64, _ target, changed bool, err error) {
	if len(a.list("kernels")) > 0 {
		var cfg campaign.Config
		if err := json.Unmarshal(of.Started.Config, &cfg); err == nil {
			delete(cfg.Extra, "kernels")
			if of.Started.Config, err = json.Marshal(cfg); err != nil {
				return 0, target{}, false, err
			}
		}
	}
	cfg, t, err := a.recordedCampaign(of)
	was := cfg.Extra["hash"]
	// That a kernel has changed is what a library's CI is there for.
	if changed = was != "" && was != t.hash; changed && (t.table != nil || len(t.chosen) > 0) {
		err = nil
	}
	return cfg.Seed, t, changed, err
}

// ratchetTries is how often a candidate has to be found slower. The test knows
// the noise within one measurement; that from one to the next shows in repeating it.
const ratchetTries = 3

// judge puts the candidate through the ordeal and, if it is still correct,
// measures it as finals do, which is how the file's figures were made. The row has
// the last measurement.
func (r *ratchetRow) judge(ctx context.Context, ev evaluator.Evaluator, g genome.Genome, e ratchetEntry, stored evaluator.Result, threshold float64) error {
	again, err := ev.Evaluate(ctx, g, 0)
	if err != nil {
		return err
	}
	r.SameBinary = stored.Binary == again.Binary
	failed := func(verdict evaluator.Verdict, stage, reason string) error {
		if verdict == evaluator.Infrastructure {
			return fmt.Errorf("candidate %s could not be judged: %s: %s", r.Candidate, stage, reason)
		}
		r.set(ratchetFailed, "%s, in %s: %s", verdict, stage, reason)
		return nil
	}
	if again.Disturbed != "" {
		return &exitError{exitDisturbed, fmt.Errorf("candidate %s could not be measured: the machine is busy: %s", r.Candidate, again.Disturbed)}
	}
	if again.Verdict != evaluator.Correct {
		return failed(again.Verdict, string(again.Stage), again.Reason)
	}
	for r.Measurements < ratchetTries {
		f, err := ev.Finals(ctx, []genome.Genome{g})
		if err != nil {
			return err
		}
		if f := f.Entries[0]; f.Verdict != evaluator.Correct {
			return failed(f.Verdict, "finals", f.Reason)
		}
		var now ratchetEntry
		now.measure(f.Entries[0].Timings)
		test := evaluator.Compare(now.Rounds, e.Rounds)
		r.Measurements++
		r.Now, r.NowNS, r.Change, r.Test = now.Ratio, now.MedianNS, now.Ratio/e.Ratio-1, &test
		if !test.Significant || r.Change <= threshold {
			break
		}
	}
	switch {
	case r.Test.Significant && r.Change > threshold:
		r.set(ratchetSlower, "more than %.3g%% and more than noise, in each of %d measurements", 100*threshold, r.Measurements)
	case r.Measurements > 1:
		r.set(ratchetOK, "slower at first, but not in measurement %d", r.Measurements)
	case r.Test.Significant && r.Change < -threshold:
		r.set(ratchetFaster, "a campaign and --update would keep it")
	case !r.Test.Significant && math.Abs(r.Change) > threshold:
		r.set(ratchetOK, "no more than noise")
	default:
		r.set(ratchetOK, "")
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
		if r.State == ratchetSlower || r.State == ratchetFailed {
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
