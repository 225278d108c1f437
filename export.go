package evotune

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/internal/export"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// The languages of ExportOptions.Lang.
const (
	LangC    = string(export.C)
	LangCUDA = string(export.CUDA)
)

// ExportOptions say which winners are exported, and how.
type ExportOptions struct {
	// Kernels are the names of the kernels: at least one.
	Kernels []string
	// Devices limits the export to winners on these devices: parts of names, or
	// beginnings of fingerprints. Shapes limits it to winners that were tuned for one
	// of these. Empty means all.
	Devices, Shapes []string
	// Lang is LangC, for winners on CPUs, or LangCUDA, for those on GPUs. Empty means
	// LangC.
	Lang string
	// MinEvidence is how much must be proven: "parity", "sanitized" or "finals". Empty
	// means "finals".
	MinEvidence string
	// Embed, for LangCUDA, has nvcc compile the kernels now, so that the library holds
	// machine code. NVCC is the compiler; empty means the one on the PATH, in
	// CUDA_HOME, or in /usr/local/cuda.
	Embed bool
	NVCC  string
	// By names the program in what is written. Empty means "evotune".
	By string
	// Tell, if it is not nil, gets one readable line for every exported winner of finals that was
	// not faster than the baseline there: whether the library calls the baseline.
	Tell func(line string)
}

// Export makes a library of the winners of kernels, which other programs build and
// call: sources, a header, a build, tests and a manifest, for WriteFolder to write.
// For each device and each set of tuned shapes the best winner of finals is exported.
// The error is one of the store, an ErrInput, an ErrNoCandidate or an ErrUnproven.
func (m *Machine) Export(r Reader, o ExportOptions) (Files, error) {
	o.Lang = cmp.Or(o.Lang, LangC)
	o.MinEvidence = cmp.Or(o.MinEvidence, string(export.Finals))
	switch {
	case len(o.Kernels) == 0:
		return nil, badInput(errors.New("no kernel to export is named"))
	case !slices.Contains(export.Levels(), export.Level(o.MinEvidence)):
		return nil, badField("min-evidence", "%q is not known: choose one of %v", o.MinEvidence, export.Levels())
	case o.Lang != LangC && o.Lang != LangCUDA:
		return nil, badField("lang", "%q is not known: choose %s or %s", o.Lang, LangC, LangCUDA)
	}
	winners, err := m.winners(r, o)
	if err != nil {
		return nil, err
	}
	files, err := export.Export(winners, export.Options{
		Lang: export.Lang(o.Lang), Min: export.Level(o.MinEvidence), By: cmp.Or(o.By, "evotune"), Embed: o.Embed, NVCC: o.NVCC,
		Compile: cuda.Fatbin, Triton: m.triton, Tell: o.Tell,
	})
	if errors.Is(err, export.ErrUnproven) {
		return nil, err
	}
	if err != nil {
		return nil, badInput(err)
	}
	folder := Files(files)
	folder.Seal()
	return folder, nil
}

// triton compiles a winner in Triton.
func (m *Machine) triton(src kernels.Rendered, capability int) (export.TritonCode, error) {
	code, compiler, err := cuda.CompileTriton(m.CUDA, src, capability)
	return export.TritonCode{Code: code.Cubin, Threads: code.Threads, Shared: code.Shared, Name: code.Name, Compiler: compiler, Capability: capability}, err
}

// winners finds what to export: the best of each kernel, device and set of shapes.
func (m *Machine) winners(r Reader, x ExportOptions) ([]*export.Winner, error) {
	all, err := r.Campaigns()
	if err != nil {
		return nil, err
	}
	backend := export.Lang(x.Lang).Backend()
	var found []*export.Winner
	for _, name := range slices.Compact(slices.Sorted(slices.Values(x.Kernels))) {
		groups := map[string][]store.Campaign{} // by device and shapes
		var devices, shapes []string
		for _, c := range all {
			s := c.Started
			if s.Kernel != name || s.Backend != backend {
				continue
			}
			devices = append(devices, fmt.Sprintf("%s (%s)", s.Name, s.Device))
			shapes = append(shapes, s.Shapes...)
			if !x.wants(s) || candidateOf(c, x.MinEvidence) == "" {
				continue
			}
			key := s.Device + "\n" + strings.Join(slices.Sorted(slices.Values(s.Shapes)), "\n")
			groups[key] = append(groups[key], c)
		}
		switch {
		case len(devices) == 0:
			return nil, noCandidate("no campaign of %q on the %s backend is in %s: run `tune run %s`, or see `tune list`", name, backend, storeName(r), name)
		case len(groups) == 0 && len(x.Devices)+len(x.Shapes) > 0:
			return nil, noCandidate("%s has no winner for %s: there are campaigns on %s, for %s",
				name, x.asked(), distinct(devices), distinct(shapes))
		case len(groups) == 0:
			return nil, marked{noCandidate("nothing of %s is proven yet: no campaign has had finals with a winner: finish one with `tune resume`", name), ErrUnproven}
		}
		for _, key := range slices.Sorted(maps.Keys(groups)) {
			w, err := m.winner(r, groups[key], x.MinEvidence)
			if err != nil {
				return nil, err
			}
			found = append(found, w)
		}
	}
	return found, nil
}

// asked describes the devices and shapes that the options limit the export to.
func (x ExportOptions) asked() string {
	var parts []string
	if len(x.Devices) > 0 {
		parts = append(parts, "devices "+strings.Join(x.Devices, ","))
	}
	if len(x.Shapes) > 0 {
		parts = append(parts, "shapes "+strings.Join(x.Shapes, ","))
	}
	return strings.Join(parts, " and ")
}

func distinct(list []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(list))), ", ")
}

func (x ExportOptions) wants(s store.Started) bool {
	device := len(x.Devices) == 0 || slices.ContainsFunc(x.Devices, func(d string) bool {
		return strings.Contains(strings.ToLower(s.Name), strings.ToLower(d)) || strings.HasPrefix(s.Device, d)
	})
	shape := len(x.Shapes) == 0 || slices.ContainsFunc(x.Shapes, func(n string) bool { return slices.Contains(s.Shapes, n) })
	return device && shape
}

// candidateOf returns the winner of a campaign's finals or, without one and if that is
// enough evidence, the best of the search; "" for none.
func candidateOf(c store.Campaign, min string) string {
	switch {
	case c.Finals != nil && c.Finals.Winner != "":
		return c.Finals.Winner
	case min != string(export.Finals) && c.Best != nil:
		return c.Best.Candidate
	}
	return ""
}

// winner is the best of campaigns for one device and shapes whose source can still
// be rendered: those with finals first, then by the time relative to the baseline, or by the
// time itself where the baselines differ.
func (m *Machine) winner(r Reader, of []store.Campaign, min string) (*export.Winner, error) {
	var ids []string
	for _, c := range of {
		ids = append(ids, c.ID)
	}
	one, err := record.OneBaseline(r.Campaign, ids)
	if err != nil {
		return nil, err
	}
	fitness := func(c store.Campaign) (float64, bool) {
		finals := c.Finals != nil && c.Finals.Winner != ""
		switch {
		case finals && one:
			return c.Finals.Fitness, true
		case finals:
			_, f := record.CampaignFigures(c)
			return f.MedianNS, true
		case one:
			return c.Best.Fitness, false
		}
		return c.Best.MedianNS, false
	}
	slices.SortStableFunc(of, func(a, b store.Campaign) int {
		fa, finalsA := fitness(a)
		fb, finalsB := fitness(b)
		switch {
		case finalsA != finalsB && finalsA, finalsA == finalsB && fa < fb:
			return -1
		case finalsA != finalsB || fa > fb:
			return 1
		}
		return 0
	})
	var why error
	for _, brief := range of {
		id := candidateOf(brief, min)
		c, err := r.Candidate(id)
		if err != nil {
			return nil, err
		}
		whole, err := r.Campaign(brief.ID)
		if err != nil {
			return nil, err
		}
		src, rendered, limits := m.renderAgain(c, whole)
		if src.Status != report.SourceRebuilt {
			slog.Warn("a winner is left out", "candidate", c.ID, "kernel", c.Kernel, "why", src.Why)
			if why == nil {
				why = noCandidate("the winner %s of %s cannot be exported: %s: search at %s again, or leave out that kernel or shape", c.ID, c.Kernel, src.Why, strings.Join(whole.Started.Shapes, ","))
			}
			continue
		}
		subject, err := subjectOf(r, c, whole, src)
		if err != nil {
			return nil, err
		}
		e, err := report.NewEvidence(subject)
		if err != nil {
			return nil, err
		}
		return &export.Winner{Evidence: e, Rendered: rendered, Limits: limits}, nil
	}
	return nil, why
}

// A Subject is what a store holds of a candidate, with its source rendered again: what
// evidence and comparisons are made of.
type Subject = report.Subject

// Subject gathers what a store holds of a candidate. The error is one of the store.
func (m *Machine) Subject(r Reader, id string) (Subject, error) {
	c, err := r.Candidate(id)
	if err != nil {
		return Subject{}, err
	}
	of, err := r.Campaign(c.Campaign)
	if err != nil {
		return Subject{}, err
	}
	src, _, _ := m.renderAgain(c, of)
	return subjectOf(r, c, of, src)
}

// subjectOf is Subject for a candidate that is already found and
// rendered.
func subjectOf(r Reader, c store.Candidate, of store.Campaign, src report.Source) (Subject, error) {
	n, err := r.Lineage(c.ID)
	return Subject{Candidate: c, Campaign: of, Lineage: n, Finals: c.Finals, Source: src}, err
}

// renderAgain renders a candidate from the kernel as it is now, and returns the source,
// what was rendered and the limits of the device. They
// are those of the stored candidate only if the source says that it was rebuilt.
func (m *Machine) renderAgain(c store.Candidate, of store.Campaign) (report.Source, kernels.Rendered, map[string]any) {
	none := func(recorded, format string, args ...any) (report.Source, kernels.Rendered, map[string]any) {
		return report.LeftOut(recorded, format, args...), kernels.Rendered{}, nil
	}
	var recorded evaluator.Result
	if c.Told != nil {
		var err error
		if recorded, err = record.ReadResult(c.Told); err != nil {
			return none("", "%v", err)
		}
	}
	if recorded.Source == "" {
		return none("", "no source was recorded with the result")
	}
	// A kernel that has changed may still render this candidate as it was.
	t, err := m.Recorded(of)
	if t == nil {
		return none(recorded.Source, "%s", words.OneLine(err.Error()))
	}
	rendered, err := t.render(c.Asked.Genome)
	if err != nil {
		return none(recorded.Source, "%s", words.OneLine(err.Error()))
	}
	job, err := RecordedJob(of)
	if err != nil {
		return none(recorded.Source, "%s", words.OneLine(err.Error()))
	}
	src := report.NewSource(rendered, recorded.Source, job.Hash)
	var shapes []kernels.Shape
	for _, name := range c.Shapes {
		if s, err := rendered.Implementation.Problem().Shape(name); err == nil {
			shapes = append(shapes, s)
		}
	}
	if err := src.SetWinners(rendered, t.limits(), c.ID, shapes); err != nil {
		return none(recorded.Source, "its launch cannot be computed: %s", words.OneLine(err.Error()))
	}
	return src, rendered, t.limits()
}
