package evotune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/strict"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

// RatchetFormat is the format of the file. The number grows when a reader of the
// older format would misread the file; fields may be added without that.
const RatchetFormat = "evotune-ratchet/1"

// A Ratchet is the content of the file: what must not get slower.
type Ratchet struct {
	Format  string         `json:"format"`
	Entries []RatchetEntry `json:"entries"`
}

// A RatchetSubject is a candidate of a kernel at its shapes on a device.
type RatchetSubject struct {
	Candidate string        `json:"candidate"`
	Kernel    string        `json:"kernel"`
	Shapes    []string      `json:"shapes"`
	Device    RatchetDevice `json:"device"`
}

// A RatchetEntry is the best proven candidate of a kernel at its shapes on a
// device, as its finals measured it.
type RatchetEntry struct {
	RatchetSubject
	Harness  string `json:"harness"`
	Compiler string `json:"compiler,omitempty"`
	// Ratio is the median of Rounds, Lo and Hi its 95% interval; there is none with
	// fewer than six rounds.
	Ratio float64 `json:"ratio"`
	Lo    float64 `json:"lo,omitempty"`
	Hi    float64 `json:"hi,omitempty"`
	// MedianNS is the time, a geometric mean over the shapes.
	MedianNS float64 `json:"median_ns"`
	// Rounds are the time ratios to the baseline, one for each round of the finals.
	Rounds []float64 `json:"rounds"`
}

// A RatchetDevice is a device, as in [evaluator.Device].
type RatchetDevice struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
}

// measure fills in what follows from timings of finals.
func (e *RatchetEntry) measure(ts []evaluator.Timing) {
	e.Rounds = evaluator.RoundRatios(ts)
	e.Ratio, e.Lo, e.Hi = evaluator.Interval(e.Rounds)
	if math.IsInf(e.Lo, 0) || math.IsInf(e.Hi, 0) {
		e.Lo, e.Hi = 0, 0
	}
	e.MedianNS = evaluator.MedianTimes(ts).MedianNS
}

// same says whether both have the same kernel, device and set of shapes.
func (s RatchetSubject) same(o RatchetEntry) bool {
	return s.Kernel == o.Kernel && s.Device.Fingerprint == o.Device.Fingerprint &&
		slices.Equal(slices.Sorted(slices.Values(s.Shapes)), slices.Sorted(slices.Values(o.Shapes)))
}

// A RatchetState says how the check of an entry ended.
type RatchetState string

// The states of an entry.
const (
	RatchetOK      RatchetState = "ok"      // no slower than allowed, or not by more than noise
	RatchetFaster  RatchetState = "faster"  // by more than the threshold and more than noise
	RatchetSlower  RatchetState = "slower"  // by more than the threshold and more than noise
	RatchetFailed  RatchetState = "failed"  // there is no time: it does not compile, is not correct, or is gone
	RatchetSkipped RatchetState = "skipped" // not measured here
)

// A RatchetRow is an entry and what became of it.
type RatchetRow struct {
	RatchetSubject
	State  RatchetState `json:"state"`
	Reason string       `json:"reason,omitempty"`
	// Was and Now are times relative to the baseline, Change is Now / Was - 1.
	Was    float64 `json:"was"`
	Now    float64 `json:"now,omitempty"`
	Change float64 `json:"change"`
	NowNS  float64 `json:"now_ns,omitempty"`
	// Measurements is how often it was measured: it is measured again when it was
	// slower.
	Measurements int `json:"measurements"`
	// Test compares the new rounds with those of the file.
	Test *evaluator.Comparison `json:"test,omitempty"`
	// KernelChanged: the definition differs from the campaign's. CompilerChanged: the
	// compiler differs, so the baseline may differ, too. SameBinary: the machine code
	// is unchanged.
	KernelChanged   bool `json:"kernel_changed,omitempty"`
	CompilerChanged bool `json:"compiler_changed,omitempty"`
	SameBinary      bool `json:"same_binary,omitempty"`
}

func (r *RatchetRow) set(s RatchetState, format string, args ...any) {
	r.State, r.Reason = s, words.OneLine(fmt.Sprintf(format, args...))
}

// ReadRatchet reads the file and checks its content. The error is an ErrInput;
// a file that is missing gives [io/fs.ErrNotExist].
func ReadRatchet(path string) (Ratchet, error) {
	var r Ratchet
	b, err := os.ReadFile(path)
	if err != nil {
		return r, badInput(err)
	}
	bad := func(format string, args ...any) (Ratchet, error) {
		return Ratchet{}, badInput(fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
	}
	if err := strict.Unmarshal(b, &r); err != nil {
		return bad("it is not a ratchet file: %v: --update writes one", err)
	}
	kind, version, _ := strings.Cut(r.Format, "/")
	ours, known, _ := strings.Cut(RatchetFormat, "/")
	switch {
	case kind != ours:
		return bad("it is not a ratchet file: its format is %q, not %q", r.Format, RatchetFormat)
	case version != known:
		return bad("format %q is not known, only %q: upgrade evotune", r.Format, RatchetFormat)
	}
	for i, e := range r.Entries {
		positive := func(x float64) bool { return x > 0 && x <= math.MaxFloat64 }
		switch {
		case e.Candidate == "" || e.Kernel == "" || e.Device.Fingerprint == "":
			return bad("entry %d has no candidate, kernel or device: make it again with --update", i+1)
		case len(e.Rounds) == 0 || slices.ContainsFunc(e.Rounds, func(x float64) bool { return !positive(x) }):
			return bad("entry %d (%s): its rounds are not a list of positive numbers: make it again with --update", i+1, e.Candidate)
		case math.Abs(e.Ratio-evaluator.Median(e.Rounds)) > 1e-9*e.Ratio:
			return bad("entry %d (%s): the ratio %g is not the median of its rounds, %g: make it again with --update", i+1, e.Candidate, e.Ratio, evaluator.Median(e.Rounds))
		case slices.ContainsFunc(r.Entries[:i], e.same):
			return bad("entry %d (%s): there is another for this kernel, device and shapes", i+1, e.Candidate)
		}
	}
	return r, nil
}

// UpdateRatchet makes the file anew from the winners of finals in a store: the best of
// each kernel, device and set of shapes. Entries of old for which the store has nothing
// better are kept; kept counts them. Fresh counts the entries that are new or
// replaced. The error is one of the store, or an ErrNoCandidate.
func (*Machine) UpdateRatchet(r Reader, old Ratchet) (next Ratchet, kept, fresh int, err error) {
	next.Format = RatchetFormat
	if next.Entries, err = provenBest(r); err != nil {
		return next, 0, 0, err
	}
	if len(next.Entries) == 0 {
		return next, 0, 0, noCandidate("%s has no winner of finals: run a campaign to its end, or see `tune list`", storeName(r))
	}
	for _, e := range next.Entries {
		if !slices.ContainsFunc(old.Entries, func(o RatchetEntry) bool { return e.same(o) && e.Candidate == o.Candidate }) {
			fresh++
		}
	}
	for _, o := range old.Entries {
		if !slices.ContainsFunc(next.Entries, o.same) {
			next.Entries = append(next.Entries, o)
			kept++
		}
	}
	slices.SortFunc(next.Entries, func(x, y RatchetEntry) int {
		return cmp.Or(cmp.Compare(x.Kernel, y.Kernel), cmp.Compare(x.Device.Name, y.Device.Name),
			cmp.Compare(x.Device.Fingerprint, y.Device.Fingerprint), slices.Compare(x.Shapes, y.Shapes))
	})
	return next, kept, fresh, nil
}

// provenBest are the best winners of finals, one for each kernel, device and
// set of shapes.
func provenBest(r Reader) ([]RatchetEntry, error) {
	campaigns, err := r.Campaigns()
	if err != nil {
		return nil, err
	}
	var out []RatchetEntry
	beside := map[string]string{} // by candidate: what a ratio is relative to
	for _, c := range campaigns {
		e := RatchetEntry{RatchetSubject: RatchetSubject{
			Kernel: c.Started.Kernel, Shapes: c.Started.Shapes,
			Device: RatchetDevice{Name: c.Started.Name, Fingerprint: c.Started.Device},
		}}
		if c.Finals == nil || c.Finals.Winner == "" {
			continue
		}
		i := slices.IndexFunc(out, e.same)
		if c, err = r.Campaign(c.ID); err != nil { // including its payloads
			return nil, err
		}
		finals, err := record.ReadFinals(c.ID, c.Finals)
		if err != nil {
			return nil, err
		}
		won := finals.Of(c.Finals.Winner)
		if won == nil {
			continue // their measurements were not kept
		}
		e.measure(won.Timings)
		d, err := record.ReadDescription(c.ID, &c.Started)
		if err != nil {
			return nil, err
		}
		e.Candidate, e.Harness, e.Compiler = won.Candidate, d.Harness, d.Compiler
		job, err := RecordedJob(c)
		if err != nil {
			return nil, err
		}
		beside[e.Candidate] = strings.Join([]string{job.Hash, e.Harness, e.Compiler, d.Baseline}, "\n")
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

// A RatchetJob is an entry with what the store has about it.
type RatchetJob struct {
	Entry     RatchetEntry
	candidate store.Candidate
	campaign  store.Campaign
	missing   string // why the store does not say what to measure
}

// Jobs looks the entries up in a store, which can be closed afterwards.
func (f Ratchet) Jobs(r Reader) ([]RatchetJob, error) {
	jobs := make([]RatchetJob, len(f.Entries))
	for i, e := range f.Entries {
		jobs[i] = RatchetJob{Entry: e}
		if err := jobs[i].lookUp(r); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

func (j *RatchetJob) lookUp(r Reader) (err error) {
	if j.candidate, err = r.Candidate(j.Entry.Candidate); errors.Is(err, store.ErrNotFound) {
		j.missing = "the store does not have it"
		return nil
	}
	if err != nil {
		return err
	}
	c := j.candidate
	if j.campaign, err = r.Campaign(c.Campaign); err != nil {
		return err
	}
	of := RatchetSubject{Kernel: c.Kernel, Shapes: c.Shapes, Device: j.Entry.Device} // entries of other devices are skipped
	switch {
	case c.ID != j.Entry.Candidate || !of.same(j.Entry):
		j.missing = fmt.Sprintf("in the store it is %s, of %s at %s", c.ID, c.Kernel, strings.Join(c.Shapes, ", "))
	case c.Told == nil:
		j.missing = "the store has no result of it"
	}
	return nil
}

// Hold measures one entry of a ratchet again, as finals do. It measures up to three
// times while the entry is slower than before by more than the threshold (0.03 is 3%)
// and more than noise. The error is what prevented a measurement, such as ErrDisturbed.
func (m *Machine) Hold(ctx context.Context, j RatchetJob, threshold float64) (RatchetRow, error) {
	e := j.Entry
	row := RatchetRow{RatchetSubject: e.RatchetSubject, Was: e.Ratio}
	here, err := m.isHere(ctx, e.Device, j.campaign.Started.Backend)
	if err != nil {
		return row, err
	}
	if !here {
		row.set(RatchetSkipped, "it was measured on another device, %s (%s)", e.Device.Name, e.Device.Fingerprint)
		return row, nil
	}
	if j.missing != "" {
		row.set(RatchetFailed, "%s: merge the store that has it, or make the file again with --update", j.missing)
		return row, nil
	}
	t, changed, err := m.ratchetTarget(j.campaign)
	if err != nil {
		row.set(RatchetFailed, "%v", err)
		return row, nil
	}
	p, err := t.Open(ctx)
	if err != nil && changed && ctx.Err() == nil { // it could be opened before the kernel changed
		row.set(RatchetFailed, "the kernel as it is now: %v", err)
		return row, nil
	}
	if err != nil {
		return row, err
	}
	defer p.Evaluator.Close() //nolint:errcheck // nothing is kept
	now := p.Evaluator.Describe()
	switch {
	case now.Device.Fingerprint != e.Device.Fingerprint:
		row.set(RatchetSkipped, "it was measured on another device, %s (%s)", e.Device.Name, e.Device.Fingerprint)
		return row, nil
	case now.Harness != e.Harness:
		row.set(RatchetSkipped, "it was measured by version %q of the harness, this is %q: run a campaign and --update", e.Harness, now.Harness)
		return row, nil
	}
	if t.definition != nil && t.definition.BaselineVaries() {
		then, err := record.ReadDescription(j.campaign.ID, &j.campaign.Started)
		if err != nil {
			return row, err
		}
		if err := sameBaseline(then, now); err != nil {
			row.set(RatchetSkipped, "%v; or run a campaign and --update", err)
			return row, nil
		}
	}
	row.KernelChanged, row.CompilerChanged = changed, now.Compiler != e.Compiler
	g, err := p.Space.Parse(j.candidate.Asked.Genome)
	if err != nil {
		row.set(RatchetFailed, "it is not a genome of the kernel as it is now: %v", err)
		return row, nil
	}
	stored, err := record.ReadResult(j.candidate.Told)
	if err != nil {
		return row, err
	}
	return row, row.judge(ctx, p.Evaluator, g, e, stored, threshold)
}

// isHere says whether a device is one of this machine's. The caller checks the device
// of a recorded table.
func (m *Machine) isHere(ctx context.Context, d RatchetDevice, backend string) (bool, error) {
	if backend == Replay {
		return true, nil
	}
	here, err := m.Devices(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(here, func(h evaluator.Device) bool { return h.Fingerprint == d.Fingerprint }), nil
}

// ratchetTarget is what the campaign tuned, by the kernel as it is now, and
// whether that has changed. Machine.Definitions stand in for the campaign's own.
func (m *Machine) ratchetTarget(of store.Campaign) (t *Target, changed bool, err error) {
	job, err := RecordedJob(of)
	if err != nil {
		return nil, false, err
	}
	was := job.Hash
	if len(m.Definitions) > 0 {
		job.Definitions = m.Definitions
	}
	t = &Target{Job: job, machine: m}
	err = t.load()
	// A changed kernel is not an error: a library's CI is there to check it.
	return t, was != "" && was != t.Job.Hash, err
}

// ratchetTries is how often a candidate has to be found slower. The test knows
// the noise within one measurement; only repeating it shows the noise between
// measurements.
const ratchetTries = 3

// judge puts the candidate through the ordeal and, if it is still correct,
// measures it as finals do, which is how the file's figures were made. The row has
// the last measurement.
func (r *RatchetRow) judge(ctx context.Context, ev evaluator.Evaluator, g genome.Genome, e RatchetEntry, stored evaluator.Result, threshold float64) error {
	again, err := ev.Evaluate(ctx, g, 0)
	if err != nil {
		return err
	}
	r.SameBinary = stored.Binary == again.Binary
	failed := func(verdict evaluator.Verdict, stage, reason string) error {
		if verdict == evaluator.Infrastructure {
			return fmt.Errorf("candidate %s could not be judged: %s: %s", r.Candidate, stage, reason)
		}
		r.set(RatchetFailed, "%s, in %s: %s", verdict, stage, reason)
		return nil
	}
	if again.Disturbed != "" {
		return fmt.Errorf("candidate %s could not be measured: %w: %s", r.Candidate, ErrDisturbed, again.Disturbed)
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
		var now RatchetEntry
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
		r.set(RatchetSlower, "more than %.3g%% and more than noise, in each of %d measurements", 100*threshold, r.Measurements)
	case r.Measurements > 1:
		r.set(RatchetOK, "slower at first, but not in measurement %d", r.Measurements)
	case r.Test.Significant && r.Change < -threshold:
		r.set(RatchetFaster, "a campaign and --update would keep it")
	case !r.Test.Significant && math.Abs(r.Change) > threshold:
		r.set(RatchetOK, "no more than noise")
	default:
		r.set(RatchetOK, "")
	}
	return nil
}
