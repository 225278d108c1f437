package tables

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
)

// A Recording is what was measured of a space, to be written as a table that
// this package reads back and that other programs know.
type Recording struct {
	// Name is the problem's, Entry the function that is called.
	Name  string
	Entry string
	// Device is the name of the device, Backend what ran the candidates.
	Device  string
	Backend string
	// Shapes are the names of the tuned shapes; with several of them a time is
	// the geometric mean of theirs. Size holds the dimensions of the first.
	Shapes []string
	Size   []int64
	// Started is when the measuring began, Version that of evotune.
	Started time.Time
	Version string
	// Space is what was measured, whole or in part, and Rules are its
	// constraints in Python, as [Declaration.Rules] gives them.
	Space *genome.Space
	Rules []string
	// Specification is the T1 format's description of the kernel; nil writes
	// the least that the format asks for.
	Specification *Specification
	Trials        []Trial
}

// A Trial is one configuration of a Recording.
type Trial struct {
	Genome genome.Genome
	// At is when the result was there.
	At     time.Time
	Result evaluator.Result
}

// Write writes the recording in the form of that name. In the forms that record
// what others measure, a sample is a space of its own.
func (r *Recording) Write(form string, w io.Writer) error {
	t, err := r.Table()
	if err != nil { // what cannot be read back is not written
		return err
	}
	t.listed = form != compactForm
	return t.Write(form, w)
}

// recorded are the trials that a table can have: those for which the machine,
// not the candidate, failed tell nothing of the configuration, and those that were too slow to be
// checked tell neither a time that counts nor a failure.
func (r *Recording) recorded() []Trial {
	return slices.DeleteFunc(slices.Clone(r.Trials), func(t Trial) bool {
		return t.Result.Verdict == evaluator.Infrastructure || t.Result.Verdict == evaluator.Slower
	})
}

// Table makes the table that the recording's files hold. An error says which
// trial breaks which rule.
func (r *Recording) Table() (*Table, error) {
	genes := r.Space.Genes()
	params := make([]Parameter, len(genes))
	for i, g := range genes {
		params[i] = parameter(g.Name, g.Values)
	}
	if _, err := radix(params); err != nil {
		return nil, fmt.Errorf("replay: %s: %w", r.Name, err)
	}
	rules := make([]rule, len(r.Rules))
	for i, source := range r.Rules {
		var err error
		if rules[i], err = newRule(source); err != nil {
			return nil, fmt.Errorf("replay: %s: constraint %q: %w", r.Name, source, err)
		}
	}
	var rows []Row
	var records []record
	for _, t := range r.recorded() {
		w := Row{CostS: t.Result.Cost.Seconds()}
		rec, err := r.record(t)
		if err != nil {
			return nil, fmt.Errorf("replay: %s: %s: %w", r.Name, t.Genome, err)
		}
		if err := w.setCost(rec, nil); err != nil {
			return nil, fmt.Errorf("replay: %s: %s: %w", r.Name, t.Genome, err)
		}
		for i, k := range r.indices(t.Genome) {
			w.rank = params[i].digit(w.rank, k)
		}
		if t.Result.Verdict == evaluator.Correct {
			w.TimeMS = timeMS(t.Result)
		} else {
			w.Failed = t.Result.Verdict
		}
		rows = append(rows, w)
		records = append(records, rec)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("replay: %s: nothing was recorded", r.Name)
	}
	t := &Table{
		name: r.Name, form: compactForm, device: r.Device, params: params, rules: rules, rows: rows, records: records,
	}
	if err := t.index(); err != nil {
		return nil, fmt.Errorf("replay: %s: %w", r.Name, err)
	}
	var err error
	if t.heads, err = r.heads(t); err != nil {
		return nil, err
	}
	if _, err := t.Space(); err != nil {
		return nil, fmt.Errorf("replay: %s: %w", r.Name, err)
	}
	var text bytes.Buffer
	if err := t.encodeCompact(&text); err != nil {
		return nil, err
	}
	t.hash = digest(text.Bytes())
	return t, nil
}

// indices gives the place of every gene's value: the first where it does not
// exist.
func (r *Recording) indices(g genome.Genome) []int {
	ix := r.Space.Indices(g)
	for i, k := range ix {
		ix[i] = max(k, 0)
	}
	return ix
}

// record is what is told of a trial beside its time and verdict.
func (r *Recording) record(t Trial) (record, error) {
	var entry, units object
	add := func(key string, value any, unit string) {
		entry = entry.with(key, value)
		if unit != "" {
			units = units.with(key, unit)
		}
	}
	if len(t.Result.Steps) > 0 {
		s := spentMS(t.Result)
		entry = entry.with("compile_time", s.compile).with("verification_time", s.verify).
			with("benchmark_time", s.benchmark).with("strategy_time", 0).with("framework_time", s.framework)
	}
	if len(t.Result.Timings) == 1 {
		entry = entry.with("times", samplesMS(t.Result.Timings[0]))
	} else {
		for _, shape := range t.Result.Timings {
			add("times at "+shape.Shape, samplesMS(shape), "ms")
		}
	}
	entry = entry.with("timestamp", t.At.UTC().Format(time.RFC3339Nano))
	if t.Result.Verdict == evaluator.Correct {
		add("baseline_time", evaluator.MedianTimes(t.Result.Timings).BaselineNS/nsPerMS, "ms")
		add("ratio", t.Result.Fitness, "")
	}
	add("genome", t.Genome.String(), "")
	if t.Result.Reason != "" {
		add("reason", t.Result.Reason, "")
	}
	if len(units) > 0 {
		entry = entry.with("units", units)
	}
	entry, err := rawObject(entry)
	if err != nil {
		return nil, err
	}
	return newRecord(entry, nil)
}

// heads are what is told of the whole, each in the form that has a place for it.
func (r *Recording) heads(t *Table) (map[string]object, error) {
	size := any(r.Size)
	if r.Size == nil {
		size = strings.Join(r.Shapes, ",")
	}
	kernelTuner, err := rawObject(object{}.with("problem_size", size))
	if err != nil {
		return nil, err
	}
	var metadata object
	if f := backend.Of(r.Backend); f.Accelerator {
		metadata = metadata.with("compute_api", f.Language)
	}
	metadata = metadata.with("autotuner", "evotune").with("autotuner_version", r.Version).
		with("timestamp", r.Started.UTC().Format(time.RFC3339Nano)).with("shapes", r.Shapes)
	t4, err := rawObject(object{}.with("metadata", metadata))
	if err != nil {
		return nil, err
	}
	t1, err := t.describe(r.Entry, r.Specification)
	if err != nil && !errors.Is(err, errLiteral) {
		return nil, err
	}
	return map[string]object{kernelTunerForm: kernelTuner, t4Form: t4, t1Form: t1}, nil
}

const nsPerMS = 1e6

// timeMS is the geometric mean over the shapes of the median times.
func timeMS(r evaluator.Result) float64 {
	return evaluator.MedianTimes(r.Timings).MedianNS / nsPerMS
}

// samplesMS are the samples of one shape.
func samplesMS(t evaluator.Timing) []float64 {
	out := make([]float64, len(t.SamplesNS))
	for i, ns := range t.SamplesNS {
		out[i] = ns / nsPerMS
	}
	return out
}

// spent splits what a trial cost, in milliseconds; framework is what no stage
// took.
type spent struct{ compile, verify, benchmark, framework float64 }

func spentMS(r evaluator.Result) spent {
	var s spent
	for _, step := range r.Steps {
		ms := float64(step.Elapsed) / float64(time.Millisecond)
		switch step.Stage {
		case evaluator.StageRender, evaluator.StageCompile, evaluator.StageInspect:
			s.compile += ms
		case evaluator.StageParity, evaluator.StageSanitize:
			s.verify += ms
		case evaluator.StageBenchmark:
			s.benchmark += ms
		}
	}
	cost := float64(r.Cost) / float64(time.Millisecond)
	s.framework = max(0, cost-s.compile-s.verify-s.benchmark)
	return s
}
