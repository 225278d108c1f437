// Package draft makes folders of kernels: from a source in C, CUDA or Triton (From), with what the source does not say or with
// lines to fill in, or from nothing (New).
//
// A source is read without a parser of C++: only the extent of functions, their parameters, and comments. A folder appears
// whole or not at all.
package draft

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evotune/evotune/internal/sources"
	"github.com/evotune/evotune/internal/tomltext"
	"github.com/evotune/evotune/kernels"
)

// A Draft says what [From] made of a source.
type Draft struct {
	Entry kernels.Finding `json:"entry"` // where the kernel is in the source
	// Taken is what was read from the source, at its lines, and what was assumed, at
	// the lines of the new folder that say so.
	Taken []kernels.Finding `json:"taken"`
	// Missing are the lines of the new folder that are still to fill in.
	Missing []kernels.Finding `json:"missing"`
}

// From writes the new folder dir with a kernel made from a source in C or, if
// its name ends in .cu, in CUDA. The candidate is the source with its parameters
// replaced, and a function that takes the arguments in evotune's order and calls the
// source's. Comments mark the parameters:
//
//	#define TILE 32            // tune: 16, 32, 64
//	constexpr int UNROLL = 4;  // tune: 1, 2, 4
//	template <int BM /* tune: 64, 128 */, int BN>  // tune: BN = 32, 64
//
// The comment of a template parameter follows it, or names it and can be anywhere. One
// value fixes it; of several, the first is the baseline's unless the parameter has a
// default. For other parameters the baseline has their current value.
//
// In the source's signature integers are dimensions, const pointers inputs, other
// pointers outputs and floating-point numbers scalars. What the source does not say is in g, whose
// buffers and scalars are matched by name. If g is nil, it must be filled in: until then the folder
// does not load, with an error that wraps [kernels.ErrUnfilled].
//
// Files that the source includes with quotes are copied from its folder; those that it
// lacks stay in the folder include beside the new one, where other kernels share them.
//
// entry is the function to tune; it may be empty if there is only one. The folder
// appears as in [New]. The error is a *kernels.Error if the source is wrong.
func From(dir, name, file, entry string, g *Given) (*Draft, error) {
	text, included, lent, err := kernels.ReadSource(file, dir)
	if err != nil {
		return nil, err
	}
	s := &source{file: file, text: text, included: included, lent: lent, cuda: strings.HasSuffix(file, ".cu"), given: g}
	if strings.HasSuffix(file, ".py") {
		if err := s.readPython(entry); err != nil {
			return nil, err
		}
		return s.scaffoldGiven(dir, name, nil)
	}
	if !s.cuda && !strings.HasSuffix(file, ".c") {
		return nil, s.fault(-1, "the name ends neither in .c nor in .cu: C++ without CUDA cannot be tuned yet")
	}
	for _, file := range slices.Sorted(maps.Keys(included)) {
		if draftFiles.MatchString(file) {
			return nil, s.fault(s.including(file), "it includes %s, which is the name of a file that evotune writes: rename it", file)
		}
	}
	if err := s.read(entry); err != nil {
		return nil, err
	}
	if g != nil {
		return s.scaffoldGiven(dir, name, included)
	}
	// Load it as if it were filled in, to find other errors.
	trial := s.folder(s.guess(true), name, included, s.bases(), nil)
	err = newFolder(dir, name, trial.files(), func(temp string) error {
		_, err := kernels.LoadDir(temp)
		var e *kernels.Error
		if errors.As(err, &e) {
			return s.fault(s.entry.name, "no definition can be made of it: %s", e.Msg)
		}
		return err
	}, false)
	if err != nil {
		return nil, err
	}
	d := s.folder(s.guess(false), name, included, s.bases(), nil)
	draft := &Draft{Entry: s.at(s.entry.name, "%s", s.entry.id), Taken: s.taken}
	for _, f := range d.assumed {
		f.File = filepath.Join(dir, f.File)
		draft.Taken = append(draft.Taken, f)
	}
	err = newFolder(dir, name, d.files(), func(temp string) error {
		_, err := kernels.LoadDir(temp)
		var fault *kernels.Error
		if !errors.As(err, &fault) || len(fault.Unfilled) == 0 {
			return fmt.Errorf("the lines to fill in are not found again: %w", err)
		}
		for _, f := range fault.Unfilled {
			f.File = filepath.Join(dir, filepath.Base(f.File))
			draft.Missing = append(draft.Missing, f)
		}
		return nil
	}, true)
	return draft, err
}

// draftFiles are the names of a drafted folder's own files; some file systems ignore
// case.
var draftFiles = regexp.MustCompile(`(?i)^(kernel\.toml|kernel\.cu?\.tmpl|reference\.c)$`)

// including is where the source includes a file; -1 if it does so through others.
func (s *source) including(file string) int {
	for _, m := range sources.LocalInclude.FindAllStringSubmatchIndex(s.text, -1) {
		if path.Clean(s.text[m[2]:m[3]]) == file {
			return m[2]
		}
	}
	return -1
}

// A drafted folder: kernel.toml line by line, and the other files.
type drafted struct {
	lines   []string
	others  map[string]string
	assumed []kernels.Finding
}

func (d *drafted) files() map[string]string {
	all := maps.Clone(d.others)
	all[kernels.DefinitionFile] = strings.Join(d.lines, "\n") + "\n"
	return all
}

func (d *drafted) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// assume adds a line that the source does not say.
func (d *drafted) assume(why, format string, args ...any) {
	d.add(format, args...)
	line := d.lines[len(d.lines)-1]
	d.assumed = append(d.assumed, kernels.Finding{File: kernels.DefinitionFile, Line: len(d.lines), Msg: "assumed: " + line + ": " + why})
}

// parameters adds a table for each parameter.
func (d *drafted) parameters(list []tuned) {
	for _, p := range list {
		values := make([]string, len(p.values))
		for i, v := range p.values {
			values[i] = tomlValue(v)
		}
		d.add("")
		d.add("[[implementation.parameter]]")
		d.add("name = %s", tomltext.Quote(p.name))
		d.add("values = [%s]", strings.Join(values, ", "))
	}
}

// usualTolerance is the assumed tolerance of outputs. For the 16-bit types it is half a unit in the
// last place of an element of 32 times the output's scale: products of normal numbers reach that in
// large outputs.
var usualTolerance = map[kernels.DType]string{kernels.F64: "1e-12", kernels.F32: "1e-5", kernels.F16: "8e-3", kernels.BF16: "6e-2", kernels.E4M3: "0.25", kernels.E5M2: "0.5"}

// tensorCores matches their use in a source.
var tensorCores = regexp.MustCompile(`wmma|wgmma|mma\.sync|mma::`)

func tomlValue(v any) string {
	switch v := v.(type) {
	case string:
		return tomltext.Quote(v)
	case float64:
		return tomlNumber(v)
	}
	return fmt.Sprint(v)
}

// guess is what is given of a source of which nothing is: what the source says, what is assumed, and what is left to fill in. For a
// trial, that has values with which the folder loads.
func (s *source) guess(trial bool) *Given {
	base := filepath.Base(s.file)
	g := &Given{
		Description: s.entry.id + " of " + base, Reference: GivenReference{Source: "reference.c", Entry: "reference"},
		open: true, why: map[string]string{}, sizes: map[string]string{}, Baseline: map[string]json.RawMessage{},
	}
	ask := func(what, dummy string) string {
		if trial {
			return dummy
		}
		return kernels.FillIn + what
	}
	var outs []string
	flags := map[string]bool{}
	bySize := map[int64][]string{}
	kinds := map[kernels.DType]bool{}
	args := s.ordered()
	for _, a := range args {
		switch {
		case !a.pointer && a.dtype == kernels.I64:
			g.Dims = append(g.Dims, a.name)
			flags[a.name] = a.flag
		case a.pointer:
			kinds[a.dtype] = true
			if !a.input {
				outs = append(outs, a.name)
			}
			bySize[a.dtype.Size()] = append(bySize[a.dtype.Size()], a.name)
		}
	}
	over := "over " + strings.Join(g.Dims, ", ")
	counts := !slices.ContainsFunc(args, func(a argument) bool { return a.dtype.Float() }) // as a histogram does
	if counts {
		g.why["operations"] = ", since no number is a floating-point one"
	} else {
		g.Operations = ask(`the floating-point operations of one launch, an expression `+over+`, such as "2*`+strings.Join(g.Dims, "*")+`"`, "1")
	}
	var moved []string
	for _, n := range slices.Sorted(maps.Keys(bySize)) {
		moved = append(moved, fmt.Sprintf("%d*(%s)", n, strings.Join(bySize[n], " + ")))
	}
	g.Bytes = ask("what one launch has to move, an expression "+over+": "+strings.Join(moved, " + ")+", with the number of elements for each name", "1")
	if len(kinds) == 1 && !tensorCores.MatchString(s.text+strings.Join(slices.Collect(maps.Values(s.included)), "\n")) {
		for kind := range kinds {
			g.Pipe = map[kernels.DType]string{kernels.F32: "f32", kernels.F64: "f64"}[kind]
		}
	}
	switch {
	case counts:
		g.Pipe = ""
	case g.Pipe != "":
		g.why["pipe"] = "the peak that bounds the operations, if they have the type of the buffers"
	default:
		g.Pipe = ask(`the peak that bounds the operations, such as "f32", or "tensor-f16" for tensor cores`, "f32")
	}
	for _, shape := range []struct {
		name string
		use  kernels.Use
		what string
		like []int64
	}{
		{"main", kernels.Tune, "the sizes to tune for", []int64{1024}},
		{"odd", kernels.Verify, "other sizes that must be right: odd ones, no multiples of a tile", []int64{131, 203, 77}},
		{"small", kernels.Sanitize, "sizes small enough for the sanitizers, with a part of a tile at the end", []int64{33, 47, 21}},
	} {
		x := kernels.Shape{Name: shape.name, Use: shape.use, Dims: map[string]int64{}}
		var like []string
		for i, dim := range g.Dims {
			n := shape.like[i%len(shape.like)]
			if flags[dim] {
				n = 1
			}
			x.Dims[dim] = 1
			like = append(like, fmt.Sprintf("%s = %d", dim, n))
		}
		if !trial {
			g.sizes[x.Name] = kernels.FillIn + shape.what + ", such as { " + strings.Join(like, ", ") + " }"
		}
		g.Shapes = append(g.Shapes, x)
	}
	for _, a := range args {
		switch {
		case !a.pointer && a.dtype == kernels.I64:
			continue
		case !a.pointer:
			g.Scalars = append(g.Scalars, GivenScalar{Name: a.name, DType: a.dtype, Value: ask("what "+a.name+" is, a number or an expression "+over+`, such as "1.5"`, "1")})
			continue
		}
		b := GivenBuffer{Name: a.name, DType: a.dtype, Shape: a.axes, Role: kernels.Out}
		if a.axes == nil {
			b.Shape = []string{ask("the size of each axis of "+a.name+vectors(a)+", expressions "+over+`, such as ["`+strings.Join(g.Dims[:min(2, len(g.Dims))], `", "`)+`"]`, "1")}
		}
		switch {
		case a.input && a.dtype.Float():
			b.Role, b.Data = kernels.In, "uniform(-1,1)"
			g.why["data of "+a.name] = "what " + a.name + " is filled with"
		case a.input:
			b.Role, b.Data = kernels.In, ask("the values of "+a.name+`, such as "integers(0,7)": an index must stay within what it indexes`, "constant(0)")
		case s.result != nil && a.name == s.result.name:
		case a.changed > 0:
			b.Role = kernels.Role(ask(fmt.Sprintf(`"out", or "inout" if %s counts before the launch, with a line data = "%s" below: line %d of %s changes it`, a.name, map[bool]string{true: "uniform(-1,1)", false: "integers(0,7)"}[a.dtype.Float()], a.changed, base), "out"))
		default:
			g.why["role of "+a.name] = "inout if the kernel reads it before it writes it"
		}
		g.Buffers = append(g.Buffers, b)
	}
	if s.cuda {
		var names []string
		for _, p := range s.params {
			names = append(names, p.name)
		}
		hint := "one to three expressions over " + strings.Join(append(names, g.Dims...), ", ")
		if s.launch != "" {
			hint += fmt.Sprintf("; line %d of %s has %s", s.launched, base, s.launch)
		}
		g.Grid = []string{ask(`how many blocks, `+hint+`, such as ["ceil(`+g.Dims[0]+`/256)"]`, "1")}
		g.Block = []string{ask(`the threads of a block, `+hint+`, such as ["256"]`, "1")}
		if regexp.MustCompile(`\bextern\s+__shared__\b`).MatchString(s.bare) {
			g.Shared = ask("the bytes of dynamic shared memory, an expression over "+strings.Join(append(names, g.Dims...), ", "), "0")
		}
	}
	for _, p := range s.params {
		g.Baseline[p.name] = nil // their values in the source
	}
	g.Files = map[string]string{"reference.c": s.reference(outs, trial)}
	return g
}

// bases are the values of the parameters in the source.
func (s *source) bases() map[string]any {
	all := map[string]any{}
	for _, p := range s.params {
		all[p.name] = p.base
	}
	return all
}

// vectors says how many numbers an element of the source's has.
func vectors(a argument) string {
	if a.each < 2 {
		return ""
	}
	return fmt.Sprintf(", in numbers of %s, of which a %s is %d", a.dtype, a.ctype, a.each)
}

// wrapper names the function that evotune calls.
func (s *source) wrapper(name string) string {
	entry := "run_" + strings.ReplaceAll(name, "-", "_")
	for regexp.MustCompile(`\b` + entry + `\b`).MatchString(s.text) {
		entry += "_"
	}
	return entry
}

// reference is the reference with its body to fill in.
func (s *source) reference(outs []string, trial bool) string {
	var params []string
	for _, a := range s.ordered() {
		switch {
		case a.pointer && a.input:
			params = append(params, "const double *"+a.name)
		case a.pointer:
			params = append(params, "double *"+a.name)
		case a.dtype == kernels.I64:
			params = append(params, "int64_t "+a.name)
		default:
			params = append(params, "double "+a.name)
		}
	}
	body := "#error \"" + kernels.FillIn + "compute " + strings.Join(outs, " and ") + " with plain loops in double precision\"\n"
	if trial {
		body = ""
	}
	return "/* What " + s.entry.id + " computes, in double precision. It shares no code with the kernel. */\n#include <math.h>\n#include <stdint.h>\n\n" +
		"void reference(" + strings.Join(params, ", ") + ")\n{\n" + body + "}\n"
}
