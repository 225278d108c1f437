package export

import (
	"encoding/json"
	"slices"

	"github.com/evotune/evotune/evaluator"
)

// ManifestFormat is the format of manifest.json. The number grows when a reader
// of the older one would misunderstand; fields may be added without.
const ManifestFormat = "evotune-manifest/1"

// A Manifest says what is in an exported library, where it came from and what is
// known of it: manifest.json, described by manifest.schema.json beside it.
type Manifest struct {
	Format string `json:"format"`
	By     string `json:"by"`
	Lang   Lang   `json:"lang"`
	// MinEvidence is what had to be proven of every variant.
	MinEvidence Level `json:"min_evidence"`
	// Embedded is the compiler of the machine code in the library; "" where the
	// library is compiled elsewhere.
	Embedded string           `json:"embedded,omitempty"`
	Kernels  []ManifestKernel `json:"kernels"`
}

// A ManifestKernel is one problem.
type ManifestKernel struct {
	Kernel      string            `json:"kernel"`
	Function    string            `json:"function"`
	Description string            `json:"description"`
	License     string            `json:"license"` // SPDX, or ""
	Dims        []string          `json:"dims"`
	Buffers     []ManifestBuffer  `json:"buffers"`
	Variants    []ManifestVariant `json:"variants"`
	// Fallbacks serve what no variant does, in this order: "baseline",
	// "reference". Nothing was proven of how they are compiled here.
	Fallbacks []string `json:"fallbacks"`
	// Routine is a vendor's, which serves shapes where finals found nothing faster, and what
	// nothing else does.
	Routine string `json:"routine,omitempty"`
}

// A ManifestBuffer is an array of a problem.
type ManifestBuffer struct {
	Name  string   `json:"name"`
	DType string   `json:"dtype"`
	Role  string   `json:"role"`
	Shape []string `json:"shape"`
}

// A ManifestVariant is one kernel with its proof.
type ManifestVariant struct {
	Candidate      string         `json:"candidate"`
	Campaign       string         `json:"campaign"`
	File           string         `json:"file"`
	Implementation string         `json:"implementation"`
	Genome         map[string]any `json:"genome"`
	// Flags are those of the library's build; TunedFlags those it was tuned with.
	Flags      []string `json:"flags"`
	TunedFlags []string `json:"tuned_flags"`
	// Source, Binary and Key are the hashes of the stored result.
	Source string `json:"source_hash"`
	Binary string `json:"binary_hash"`
	Key    string `json:"key"`
	// Lineage is the line of first parents.
	Lineage ManifestLineage `json:"lineage"`

	Device   ManifestDevice `json:"device"`
	Compiler string         `json:"compiler"`
	Harness  string         `json:"harness"`
	Baseline string         `json:"baseline"`

	// Lacks is what is not proven of it; empty for what passed everything.
	Lacks    []string          `json:"lacks"`
	Evidence ManifestEvidence  `json:"evidence"`
	Timings  []ManifestTiming  `json:"timings"`
	HeldOut  []ManifestHeldOut `json:"held_out"`
	// Also are the winners of other shapes that are this kernel, with the timings there.
	Also []ManifestAlso `json:"also,omitempty"`
}

// A ManifestAlso is a winner that is the code of another one.
type ManifestAlso struct {
	Candidate string           `json:"candidate"`
	Campaign  string           `json:"campaign"`
	Key       string           `json:"key"`
	Lacks     []string         `json:"lacks"`
	Evidence  ManifestEvidence `json:"evidence"`
	Timings   []ManifestTiming `json:"timings"`
}

// A ManifestLineage says what a candidate descends from.
type ManifestLineage struct {
	Root        string `json:"root"`
	Generations int    `json:"generations"`
	Operator    string `json:"operator"`
}

// A ManifestDevice is the device that a variant was tuned on.
type ManifestDevice struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Fingerprint string `json:"fingerprint"`
	Driver      string `json:"driver"`
}

// A ManifestEvidence is a proof in short.
type ManifestEvidence struct {
	Verdict string `json:"verdict"`
	// Parity counts the comparisons with the reference; Error is the largest
	// error seen and Tolerance what was allowed there.
	Parity    int     `json:"parity_checks"`
	Error     float64 `json:"largest_error"`
	Tolerance float64 `json:"tolerance"`
	// Sanitizers are the outcomes by name.
	Sanitizers map[string]string `json:"sanitizers"`
	// Winner says that it won finals; VsBaseline and VsRunnerUp are their tests.
	Winner      bool `json:"won_finals"`
	Significant bool `json:"significant"`
	// Measured says which measurement the timings are of: "finals", "again" or
	// "search".
	Measured   string                `json:"measured,omitempty"`
	VsBaseline *evaluator.Comparison `json:"vs_baseline"`
	VsRunnerUp *evaluator.Comparison `json:"vs_runner_up"`
}

// A ManifestTiming is the time at one tuned shape, all samples included.
type ManifestTiming struct {
	Shape      string           `json:"shape"`
	Dims       map[string]int64 `json:"dims"`
	MedianNS   float64          `json:"median_ns"`
	BaselineNS float64          `json:"baseline_median_ns"`
	Ratio      float64          `json:"ratio"`
	// SamplesNS and BaselineSamplesNS were taken in pairs.
	SamplesNS         []float64 `json:"samples_ns"`
	BaselineSamplesNS []float64 `json:"baseline_samples_ns"`
}

// A ManifestHeldOut is the time at a shape that was not tuned for.
type ManifestHeldOut struct {
	Shape string  `json:"shape"`
	Ratio float64 `json:"ratio"`
}

// manifest is manifest.json.
func (x *export) manifest() ([]byte, error) {
	m := Manifest{Format: ManifestFormat, By: x.By, Lang: x.Lang, MinEvidence: x.Min, Embedded: x.compiler}
	for _, p := range x.Kernels {
		k := ManifestKernel{
			Kernel: p.Kernel, Function: p.Func, Description: p.Variants[0].Rendered.Implementation.Definition().Description, License: p.License, Dims: p.Dims, Fallbacks: []string{},
		}
		for _, b := range p.Problem.Buffers {
			k.Buffers = append(k.Buffers, ManifestBuffer{b.Name, string(b.DType), string(b.Role), b.Shape})
		}
		for _, v := range p.Variants {
			if !v.Tuned {
				if !slices.Contains(k.Fallbacks, v.Candidate) { // of several devices
					k.Fallbacks = append(k.Fallbacks, v.Candidate)
				}
				continue
			}
			k.Variants = append(k.Variants, x.manifestVariant(p, v))
		}
		if p.Vendor != nil {
			k.Routine = p.Vendor.Library
		}
		if x.Lang == C && !p.InPython() {
			k.Fallbacks = append(k.Fallbacks, "reference")
		}
		m.Kernels = append(m.Kernels, k)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	return append(text, '\n'), err
}

func (x *export) manifestVariant(p *problem, v *variant) ManifestVariant {
	e := v.Winner.Evidence
	d := e.Description
	out := ManifestVariant{
		Candidate: v.Candidate, Campaign: e.Campaign, File: v.File, Implementation: v.Rendered.Implementation.Name,
		Genome: e.Genome, Flags: orEmpty(v.Flags), TunedFlags: orEmpty(v.Rendered.Flags),
		Source: e.Result.Source, Binary: e.Result.Binary, Key: e.Result.Key,
		Lineage:  v.lineage(),
		Device:   ManifestDevice{d.Device.Name, d.Device.Kind, d.Device.Fingerprint, d.Device.Facts["driver"]},
		Compiler: d.Compiler, Harness: d.Harness, Baseline: d.Baseline,
		Lacks: orEmpty(v.Winner.Lacks(Finals)), Timings: []ManifestTiming{}, HeldOut: []ManifestHeldOut{},
	}
	out.Evidence, out.Timings = v.Winner.evidence(), p.timed(v.Winner)
	for _, w := range v.Also {
		of := w.Evidence
		out.Also = append(out.Also, ManifestAlso{of.Candidate, of.Campaign, of.Result.Key, orEmpty(w.Lacks(Finals)), w.evidence(), p.timed(w)})
	}
	if f := v.Winner.final(); f != nil {
		for _, t := range f.HeldOut {
			out.HeldOut = append(out.HeldOut, ManifestHeldOut{t.Shape, t.Ratio})
		}
	}
	return out
}

// evidence is what is proven of a winner, in short.
func (w *Winner) evidence() ManifestEvidence {
	e := w.Evidence
	s := ManifestEvidence{
		Verdict: e.Summary.Verdict, Sanitizers: map[string]string{}, Winner: e.Summary.Winner, Significant: e.Summary.Significant, Measured: e.Summary.From,
	}
	for _, row := range e.Parity {
		if row.Limit > 0 || row.Seed != "" && row.Outcome == evaluator.Passed { // where nothing is allowed, there is no limit
			s.Parity++
		}
		if row.Limit > 0 && (s.Tolerance == 0 || row.Error/row.Limit > s.Error/s.Tolerance) {
			s.Error, s.Tolerance = row.Error, row.Limit
		}
	}
	for _, c := range e.Sanitizers {
		// In the search and in the finals: what failed, or was not run, in one of the two.
		if had := s.Sanitizers[c.Check]; had == "" || had == string(evaluator.Passed) {
			s.Sanitizers[c.Check] = string(c.Outcome)
		}
	}
	if e.Finals != nil && e.Summary.Winner {
		s.VsBaseline, s.VsRunnerUp = e.Finals.VsBaseline, e.Finals.VsRunnerUp
	}
	return s
}

// timed are the times of a winner at its tuned shapes.
func (p *problem) timed(w *Winner) []ManifestTiming {
	out := []ManifestTiming{}
	for _, t := range w.timings() {
		row := ManifestTiming{
			Shape: t.Shape, MedianNS: t.MedianNS, BaselineNS: t.BaselineMedianNS, Ratio: t.Ratio,
			SamplesNS: orEmpty(t.SamplesNS), BaselineSamplesNS: orEmpty(t.BaselineNS),
		}
		if s, err := p.Shape(t.Shape); err == nil {
			row.Dims = s.Dims
		}
		out = append(out, row)
	}
	return out
}

// lineage follows first parents to one that has none.
func (v *variant) lineage() ManifestLineage {
	e := v.Winner.Evidence
	parents := map[string][]string{}
	for _, n := range e.Lineage.Nodes {
		parents[n.Candidate] = n.Parents
	}
	l := ManifestLineage{Root: e.Candidate, Operator: e.Operator}
	for len(parents[l.Root]) > 0 && l.Generations < len(e.Lineage.Nodes) {
		l.Root = parents[l.Root][0]
		l.Generations++
	}
	return l
}

// orEmpty makes a list that JSON writes as [].
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
