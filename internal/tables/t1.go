package tables

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/evotune/evotune/genome"
)

// The T1 format describes a problem to tuners, one JSON object:
//
//	{"General": {"BenchmarkName": "...", "FormatVersion": 1, "TimeUnit": "Milliseconds"},
//	 "ConfigurationSpace": {
//	   "TuningParameters": [{"Name": "block_size_x", "Type": "int", "Values": "[16, 32]"}, ...],
//	   "Conditions": [{"Expression": "block_size_x * block_size_y <= 1024", "Parameters": [...]}, ...]},
//	 "KernelSpecification": {"Language": "CUDA", "KernelName": "...", "KernelFile": "...",
//	   "GlobalSize": {"X": "..."}, "LocalSize": {"X": "..."}, "Arguments": [...]}}
//
// Values and expressions are Python.

// A Specification is the part of a T1 description that tells of the kernel.
type Specification struct {
	Language        string
	KernelName      string
	KernelFile      string
	CompilerOptions []string `json:",omitempty"`
	// GlobalSizeType says in what GlobalSize counts: "CUDA" is blocks.
	GlobalSizeType string `json:",omitempty"`
	GlobalSize     Extent
	LocalSize      Extent
	SharedMemory   string       `json:",omitempty"`
	ProblemSize    []int64      `json:",omitempty"`
	Arguments      []T1Argument `json:",omitempty"`
}

// An Extent has an expression for each axis.
type Extent struct {
	X string
	Y string `json:",omitempty"`
	Z string `json:",omitempty"`
}

// A T1Argument is one argument of the kernel.
type T1Argument struct {
	Name       string
	Type       string
	TypeSize   int64    `json:",omitempty"` // of a custom type, in bytes
	MemoryType string   // Vector or Scalar
	AccessType string   `json:",omitempty"` // ReadOnly, WriteOnly, ReadWrite
	Size       int64    `json:",omitempty"` // elements
	FillType   string   `json:",omitempty"` // Random, Constant
	FillValue  *float64 `json:",omitempty"`
}

// t1Input is a T1 description and what of it is understood.
type t1Input struct {
	whole object
	read  struct {
		General            struct{ BenchmarkName string }
		ConfigurationSpace struct {
			TuningParameters []struct {
				Name   string
				Values any
			}
			Conditions []struct{ Expression string }
		}
	}
}

// readT1 reads a T1 description from a file of its own.
func readT1(text []byte, name string) (*t1Input, error) {
	r := newReader(text)
	whole, err := r.object("a T1 description")
	if err == nil {
		err = r.nothingAfter("the description")
	}
	var in *t1Input
	if err == nil {
		in, err = newT1Input(whole)
	}
	if err == nil {
		_, _, err = in.space()
	}
	if err != nil {
		return nil, locate(text, name, err)
	}
	return in, nil
}

// newT1Input understands a description as far as it is needed.
func newT1Input(whole object) (*t1Input, error) {
	in := &t1Input{whole: whole}
	text, err := compactJSON(whole)
	if err != nil {
		return nil, err
	}
	return in, unplaced(newReader(text).into(&in.read, "the description"))
}

// describes says whether a description has the parameters and constraints of a
// table.
func (in *t1Input) describes(t *Table) bool {
	params, rules, err := in.space()
	return err == nil && slices.EqualFunc(rules, t.rules, func(a, b rule) bool { return a.source == b.source }) &&
		slices.EqualFunc(params, t.params, func(a, b Parameter) bool { return a.Name == b.Name && slices.Equal(a.Values, b.Values) })
}

// replaces gives a table the parameters and constraints of a description in place of
// those that a cache file has.
func (in *t1Input) replaces(t *Table) error {
	if len(t.rules) > 0 {
		return fail(0, "the file has constraints of its own: no T1 description goes with it")
	}
	described, rules, err := in.space()
	if err != nil {
		return fail(0, "T1 description: %v", err)
	}
	for _, p := range t.params {
		if !slices.ContainsFunc(described, func(q Parameter) bool { return q.Name == p.Name }) {
			return fail(0, "the T1 description has no parameter %s", oneLine(p.Name))
		}
	}
	t.params, t.rules, t.heads[t1Form] = described, rules, in.whole
	return nil
}

func (t *Table) decodeT1(*reader, *t1Input) error {
	return fail(0, "a T1 description has no results: it goes beside a file that has some")
}

func (t *Table) encodeT1(w io.Writer) error {
	o, err := t.t1()
	if err != nil {
		return err
	}
	return writeJSON(w, o)
}

// t1 describes the space: as it was described, or else with the least that the
// format asks for.
func (t *Table) t1() (object, error) {
	if in, err := newT1Input(t.heads[t1Form]); err == nil && in.describes(t) {
		return in.whole, nil
	}
	return t.describe(t.name, nil)
}

var errLiteral = fmt.Errorf("the T1 format has %w the value", ErrNoPlace)

// describe makes the T1 description of the table's space. An error says whether
// a value is a text that Python's literals, as they are read here, cannot hold.
func (t *Table) describe(entry string, s *Specification) (object, error) {
	parameters := []object{}
	for _, p := range t.params {
		values := make([]string, len(p.Values))
		for i, v := range p.Values {
			if s, ok := v.Any().(string); ok && strings.ContainsAny(s, notInText) {
				return nil, fmt.Errorf("replay: parameter %s: %w %q: quotes and backslashes are not known there", p.Name, errLiteral, s)
			}
			values[i] = pythonValue(v)
		}
		parameters = append(parameters, object{}.with("Name", p.Name).
			with("Type", t1Type(p.Values[0].Kind())).with("Values", "["+strings.Join(values, ", ")+"]"))
	}
	conditions := []object{}
	for _, r := range t.rules {
		conditions = append(conditions, object{}.with("Parameters", r.names(t.params)).with("Expression", r.source))
	}
	if s == nil {
		s = &Specification{Language: "unknown", KernelName: entry, GlobalSize: Extent{X: "1"}, LocalSize: Extent{X: "1"}}
	}
	return rawObject(object{}.
		with("General", object{}.with("BenchmarkName", t.name).with("FormatVersion", 1).with("TimeUnit", "Milliseconds").with("OutputFormat", "JSON")).
		with("ConfigurationSpace", object{}.with("TuningParameters", parameters).with("Conditions", conditions)).
		with("KernelSpecification", s))
}

// t1Type names a kind of values as T1 does.
func t1Type(k genome.Kind) string {
	switch k {
	case genome.KindInt:
		return "int"
	case genome.KindFloat:
		return "float"
	case genome.KindBool:
		return "bool"
	}
	return "string"
}

// space reads parameters and conditions.
func (in *t1Input) space() ([]Parameter, []rule, error) {
	params := []Parameter{}
	for _, p := range in.read.ConfigurationSpace.TuningParameters {
		if slices.ContainsFunc(params, func(q Parameter) bool { return q.Name == p.Name }) {
			return nil, nil, fmt.Errorf("parameter %s is there twice", oneLine(p.Name))
		}
		values, err := t1Values(p.Values)
		if err != nil {
			return nil, nil, fmt.Errorf("parameter %s: %w", oneLine(p.Name), err)
		}
		params = append(params, parameter(p.Name, values))
	}
	if len(params) == 0 {
		return nil, nil, errors.New("it has no parameters")
	}
	if _, err := radix(params); err != nil {
		return nil, nil, err
	}
	var rules []rule
	for _, c := range in.read.ConfigurationSpace.Conditions {
		rule, err := newRule(c.Expression)
		if err != nil {
			return nil, nil, fmt.Errorf("condition %q: %w", oneLine(c.Expression), err)
		}
		rules = append(rules, rule)
	}
	return params, rules, nil
}

// t1Values reads a list of Python's literals, or of JSON's.
func t1Values(raw any) ([]genome.Value, error) {
	var values []genome.Value
	seen := map[genome.Value]bool{}
	add := func(x any) error {
		v, err := genome.ValueOf(x)
		if err != nil {
			return err
		}
		if seen[v] {
			return fmt.Errorf("the value %s is there twice", oneLine(v.String()))
		}
		seen[v] = true
		values = append(values, v)
		return nil
	}
	var err error
	switch raw := raw.(type) {
	case []any:
		for _, x := range raw {
			if err == nil {
				err = add(x)
			}
		}
	case string:
		var n *pyNode
		var list []genome.Value
		if n, err = parsePython(raw); err == nil {
			list, err = pyNames{}.list(n)
		}
		for _, v := range list {
			if err == nil {
				err = add(v)
			}
		}
	default:
		err = errors.New("the values are not a list")
	}
	if err == nil && len(values) == 0 {
		err = errors.New("it has no values")
	}
	return values, err
}
