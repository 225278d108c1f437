package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/words"
)

// A Difference is what two candidates differ in.
type Difference struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Genes are those with different values, SameGenes how many are alike.
	Genes     []DifferentGene `json:"genes"`
	SameGenes int             `json:"same_genes"`
	// Evidence sets side by side what the stages saw.
	Evidence []EvidencePair `json:"evidence"`
	// NotComparable says why times are not compared; empty when they are.
	NotComparable []string `json:"not_comparable"`
	// From names the measurements that Times are of.
	From string `json:"from,omitempty"`
	// Times has one row per shape that either was measured at.
	Times []TimePair `json:"times"`
	// Overall is over all tuned shapes, round by round; nil unless there are
	// several and both were in the same finals.
	Overall *evaluator.Comparison `json:"overall,omitempty"`
}

// A Side names one of the two.
type Side struct {
	Candidate string   `json:"candidate"`
	Campaign  string   `json:"campaign"`
	Kernel    string   `json:"kernel"`
	Shapes    []string `json:"shapes"`
	Device    string   `json:"device"`
	Encoding  string   `json:"encoding"`
}

// A DifferentGene is a gene with two values; Absent ones are null.
type DifferentGene struct {
	Gene string `json:"gene"`
	A    any    `json:"a"`
	B    any    `json:"b"`
}

// An EvidencePair is one thing that was looked at, in words.
type EvidencePair struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// A TimePair is one shape.
type TimePair struct {
	Shape   string `json:"shape"`
	HeldOut bool   `json:"held_out,omitempty"`
	// A and B are nil where there is no measurement.
	A *Time `json:"a"`
	B *Time `json:"b"`
	// Test compares the paired ratios of B with those of A: below 1 B is the
	// faster. It is nil where that would say nothing.
	Test *evaluator.Comparison `json:"test,omitempty"`
}

// A Time is a candidate's time at a shape, and the ratio to the baseline that
// was measured beside it.
type Time struct {
	evaluator.AllTimes
	Ratio float64 `json:"ratio"`
}

// Compare says what differs in two candidates. Times of different moments are
// compared through the baseline that was measured beside each, and only where
// that is the same baseline on the same device. The error says what cannot be
// read.
func Compare(a, b Subject) (*Difference, error) {
	ea, err := NewEvidence(a)
	if err != nil {
		return nil, err
	}
	eb, err := NewEvidence(b)
	if err != nil {
		return nil, err
	}
	d := &Difference{
		A: ea.side(), B: eb.side(), Genes: []DifferentGene{}, NotComparable: []string{},
		Evidence: pairEvidence(ea, eb), Times: []TimePair{},
	}
	genes := map[string]bool{}
	for _, g := range []map[string]any{ea.Genome, eb.Genome} {
		for k := range g {
			genes[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(genes)) {
		if x, y := ea.Genome[k], eb.Genome[k]; x != y {
			d.Genes = append(d.Genes, DifferentGene{k, x, y})
		} else {
			d.SameGenes++
		}
	}
	if err := d.comparable(a, b, ea, eb); err != nil {
		return nil, err
	}
	d.times(ea, eb)
	return d, nil
}

func (e *Evidence) side() Side {
	return Side{
		Candidate: e.Candidate, Campaign: e.Campaign, Kernel: e.Kernel, Shapes: e.Shapes,
		Device: colon(e.Description.Device.Fingerprint, e.Description.Device.Name), Encoding: e.Encoding,
	}
}

// comparable notes all that makes times of the two say nothing about each other.
func (d *Difference) comparable(a, b Subject, ea, eb *Evidence) error {
	differ := func(what, x, y string) {
		if x != y {
			d.NotComparable = append(d.NotComparable, fmt.Sprintf("%s differ: %s and %s", what, orElse(x, "unknown"), orElse(y, "unknown")))
		}
	}
	ha, err := definitionHash(a)
	if err != nil {
		return err
	}
	hb, err := definitionHash(b)
	if err != nil {
		return err
	}
	da, db := ea.Description, eb.Description
	differ("kernels", ea.Kernel, eb.Kernel)
	differ("backends", da.Backend, db.Backend)
	if da.Device.Fingerprint != db.Device.Fingerprint {
		differ("devices", d.A.Device, d.B.Device)
	}
	differ("harness versions", da.Harness, db.Harness)
	if ea.Kernel == eb.Kernel {
		differ("definitions of the kernel", shorten(ha, 13), shorten(hb, 13))
		differ("baselines", da.Baseline, db.Baseline)
	}
	if da.Backend == db.Backend {
		differ("compilers", da.Compiler, db.Compiler)
	}
	for _, e := range []*Evidence{ea, eb} {
		if v := e.Summary.Verdict; v != string(evaluator.Correct) {
			d.NotComparable = append(d.NotComparable, fmt.Sprintf("%s is not correct: %s", e.Candidate, v))
		}
	}
	if !slices.ContainsFunc(ea.Shapes, func(s string) bool { return slices.Contains(eb.Shapes, s) }) {
		differ("shapes", strings.Join(ea.Shapes, ", "), strings.Join(eb.Shapes, ", "))
	}
	return nil
}

// definitionHash is that of the kernel, baseline included, when the campaign
// began; "" when it was not noted.
func definitionHash(s Subject) (string, error) {
	j, err := record.ReadJob(s.Campaign.ID, &s.Campaign.Started)
	return j.Hash, err
}

// times sets the measurements side by side: those of the finals that both were
// in, else those of the finals of each, else those of the search. Finals and
// search measure under different conditions and are never mixed.
func (d *Difference) times(ea, eb *Evidence) {
	fa, fb := ea.finalist(), eb.finalist()
	same := false
	// The newest finals of one may have the other in them, too.
	for _, f := range []*FinalsView{ea.Finals, eb.Finals} {
		if x, y := f.entry(ea.Candidate), f.entry(eb.Candidate); !same && x != nil && y != nil {
			fa, fb, same = x, y, true
		}
	}
	var held [2][]evaluator.Timing
	a, b := ea.Result.Timings, eb.Result.Timings
	d.From = "the search, one measurement each"
	if fa != nil && fb != nil {
		a, b = fa.Timings, fb.Timings
		held = [2][]evaluator.Timing{fa.HeldOut, fb.HeldOut}
		if d.From = "the finals of each"; same {
			d.From = "the finals that both were in, round by round"
		}
	}
	d.pair(a, b, false)
	d.pair(held[0], held[1], true)
	if len(d.Times) == 0 {
		d.From = ""
	}
	if same && len(d.NotComparable) == 0 && len(a) > 1 && len(b) > 1 {
		c := evaluator.Compare(evaluator.RoundRatios(b), evaluator.RoundRatios(a))
		d.Overall = &c
	}
}

// entry is a candidate's part in finals, or nil.
func (f *FinalsView) entry(candidate string) *FinalistView {
	if f == nil {
		return nil
	}
	i := slices.IndexFunc(f.Entries, func(v FinalistView) bool { return v.Candidate == candidate })
	if i < 0 {
		return nil
	}
	return &f.Entries[i]
}

func (d *Difference) pair(a, b []evaluator.Timing, heldOut bool) {
	at := func(ts []evaluator.Timing, shape string) *evaluator.Timing {
		i := slices.IndexFunc(ts, func(t evaluator.Timing) bool { return t.Shape == shape })
		if i < 0 {
			return nil
		}
		return &ts[i]
	}
	var shapes []string
	for _, t := range slices.Concat(a, b) {
		if !slices.Contains(shapes, t.Shape) {
			shapes = append(shapes, t.Shape)
		}
	}
	for _, s := range shapes {
		x, y := at(a, s), at(b, s)
		p := TimePair{Shape: s, HeldOut: heldOut, A: timeOf(x), B: timeOf(y)}
		if x != nil && y != nil && len(d.NotComparable) == 0 {
			c := evaluator.Compare(y.Ratios(), x.Ratios())
			p.Test = &c
		}
		d.Times = append(d.Times, p)
	}
}

func timeOf(t *evaluator.Timing) *Time {
	if t == nil {
		return nil
	}
	return &Time{evaluator.AllTimes(evaluator.MedianTimes([]evaluator.Timing{*t})), t.Ratio}
}

// pairEvidence sets side by side what the stages saw.
func pairEvidence(a, b *Evidence) []EvidencePair {
	var out []EvidencePair
	add := func(what string, of func(*Evidence) string) {
		if x, y := of(a), of(b); x != "" || y != "" {
			out = append(out, EvidencePair{what, orElse(x, "-"), orElse(y, "-")})
		}
	}
	add("verdict", func(e *Evidence) string { return e.Summary.Verdict })
	add("reason", func(e *Evidence) string { return words.FirstLine(e.Summary.Reason) })
	add("finals", func(e *Evidence) string {
		switch {
		case e.Finals == nil:
			return "in none"
		case e.Summary.Winner && e.Summary.Significant:
			return "won, faster than the baseline"
		case e.Summary.Winner && !e.Summary.Tested:
			return "won, not tested"
		case e.Summary.Winner:
			return "won, ~ no difference to the baseline"
		}
		return "lost"
	})
	add("source", func(e *Evidence) string { return shorten(e.Result.Source, 17) })
	add("binary", func(e *Evidence) string { return shorten(e.Result.Binary, 17) })
	add("parity", parityText)
	var sanitizers, inspected []string
	for _, e := range []*Evidence{a, b} {
		sanitizers = union(sanitizers, e.Sanitizers, func(evaluator.Evidence) bool { return true })
		inspected = union(inspected, e.Inspection, func(v evaluator.Evidence) bool {
			return v.Value != 0 || v.Unit != "" || v.Outcome != evaluator.Passed
		})
	}
	for _, check := range sanitizers {
		add(check, func(e *Evidence) string { return measuredText(find(e.Sanitizers, check), notRunText) })
	}
	if len(sanitizers) == 0 {
		add("sanitizers", func(*Evidence) string { return notRunText })
	}
	for _, check := range inspected {
		add(check, func(e *Evidence) string { return measuredText(find(e.Inspection, check), "-") })
	}
	return out
}

const notRunText = string(evaluator.NotRun)

// parityText is the largest error against its limit.
func parityText(e *Evidence) string {
	var worst *ParityRow
	n := map[evaluator.Check]int{}
	for i, r := range e.Parity {
		n[r.Outcome]++
		if r.Limit > 0 && (worst == nil || r.Error/r.Limit > worst.Error/worst.Limit) {
			worst = &e.Parity[i]
		}
	}
	var parts []string
	for _, c := range []evaluator.Check{evaluator.Passed, evaluator.Failed, evaluator.NotRun} {
		if n[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[c], c))
		}
	}
	if worst != nil {
		parts = append(parts, fmt.Sprintf("worst %.2g of %.2g", worst.Error, worst.Limit))
	}
	return orElse(strings.Join(parts, ", "), notRunText)
}

// union adds the checks that are wanted and not there yet.
func union(names []string, list []evaluator.Evidence, wanted func(evaluator.Evidence) bool) []string {
	for _, v := range list {
		if wanted(v) && !slices.Contains(names, v.Check) {
			names = append(names, v.Check)
		}
	}
	return names
}

func find(list []evaluator.Evidence, check string) *evaluator.Evidence {
	i := slices.IndexFunc(list, func(v evaluator.Evidence) bool { return v.Check == check })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// measuredText is a figure where there is one, else how the check ended.
func measuredText(v *evaluator.Evidence, none string) string {
	switch {
	case v == nil:
		return none
	case v.Outcome == evaluator.Passed && (v.Unit != "" || v.Limit == 0 && v.Value != 0):
		return strings.TrimSpace(fmt.Sprintf("%.6g %s", v.Value, v.Unit))
	case v.Outcome == evaluator.Passed:
		return string(v.Outcome)
	}
	return colon(string(v.Outcome), words.FirstLine(v.Detail))
}
