package export

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// A problem is a kernel as the templates of an export see it.
type problem struct {
	*kernels.Problem
	// Kernel is its name, Name that as a word of C, Func its function.
	Kernel, Name, Func   string
	Description, License string
	Variants             []*variant // tuned ones first
	Vendor               *vendor    // nil where the library calls none
	// Flags are the dimensions that are 0 or 1 in every shape, and both in some.
	Flags []string
}

// A variant is one compiled kernel of a problem.
type variant struct {
	// Symbol is its name in C: NAME_CANDIDATE.
	Symbol    string
	Candidate string
	Tuned     bool
	Device    string
	// Shapes are those it was tuned for.
	Shapes []kernels.Shape
	// Supports is the C condition over the dimensions; "" when it computes all.
	Supports string
	Flags    []string
	// Machine matches the processors it can be compiled for; "" matches all.
	Machine string
	// File is its source in the library.
	File     string
	Rendered kernels.Rendered
	Winner   *Winner // nil for a baseline
	// on is the device that it is compiled for; nil of a baseline for any.
	on *evaluator.Description
	// beaten are the tuned shapes at which the library calls something else.
	beaten map[string]instead
	// Also are winners for further shapes that are the same code, on the same device.
	Also   []*Winner
	order  []string
	limits map[string]any // of the device that it is launched on
	gpu                   // in libraries for GPUs
	*plan                 // nil where Geometry says how it is launched
}

var notWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

// word makes a name a word of C.
func word(name string) string { return strings.Trim(notWord.ReplaceAllString(name, "_"), "_") }

// comment makes a text one line that can stand in a comment of C and Go, and in a text
// of Python.
func comment(text string) string {
	return strings.NewReplacer("*/", "* /", "/*", "/ *", `\`, "/", `"`, "'").Replace(strings.Join(strings.Fields(text), " "))
}

// newProblem makes one of a kernel's, without variants.
func newProblem(d *kernels.Definition, of *kernels.Problem) *problem {
	name := word(d.Name)
	own := *of // whose shapes grow by those that the definition does not have
	own.Shapes = slices.Clone(of.Shapes)
	return &problem{
		Problem: &own, Kernel: d.Name, Name: name, Func: "evotune_" + name,
		Description: comment(d.Description), License: d.License, Flags: of.Flags(),
	}
}

// newProblems groups winners by kernel, both in one order: the same winners give the
// same problems, whatever order they come in. All are of one backend.
func newProblems(winners []*Winner) ([]*problem, error) {
	byName := map[string]*problem{}
	for _, w := range winners {
		d := w.Rendered.Implementation.Definition()
		p := byName[d.Name]
		if p == nil {
			p = newProblem(d, w.Rendered.Implementation.Problem())
			byName[d.Name] = p
			if err := p.translatable(); err != nil {
				return nil, fmt.Errorf("kernel %s cannot be exported: %s: %w", d.Name, path.Join(d.Dir, "kernel.toml"), err)
			}
		}
		v, err := p.variant(w.Rendered, w.Limits)
		if err != nil {
			return nil, fmt.Errorf("candidate %s of %s cannot be exported: %s: %w", w.Evidence.Candidate, d.Name, path.Join(d.Dir, "kernel.toml"), err)
		}
		v.Winner, v.Tuned, v.Candidate, v.on = w, true, w.Evidence.Candidate, &w.Evidence.Description
		v.beaten = map[string]instead{}
		v.Symbol = p.Name + "_" + v.Candidate
		v.Device = tabless(w.Evidence.Description.Device.Name)
		for _, name := range w.Evidence.Shapes {
			s, err := p.Shape(name)
			if err != nil {
				return nil, fmt.Errorf("kernel %s, candidate %s: %w", d.Name, v.Candidate, err)
			}
			v.Shapes = append(v.Shapes, s)
			if !slices.ContainsFunc(p.Shapes, func(have kernels.Shape) bool { return have.Name == s.Name }) {
				p.Shapes = append(p.Shapes, s)
			}
		}
		p.Variants = append(p.Variants, v)
	}
	var all []*problem
	words := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p := byName[name]
		if p.Name == "" {
			return nil, fmt.Errorf("the kernel %s has no name that a function can have: rename it", name)
		}
		for _, s := range p.symbols() {
			if other, taken := words[s]; taken {
				return nil, fmt.Errorf("the kernels %s and %s would have one function, %s: export them apart", other, name, s)
			}
			if slices.Contains(librarySymbols, s) {
				return nil, fmt.Errorf("the kernel %s would have the function %s, which every library has: rename it", name, s)
			}
			words[s] = name
		}
		slices.SortFunc(p.Variants, func(a, b *variant) int {
			return cmp.Or(strings.Compare(a.Device, b.Device), strings.Compare(a.Candidate, b.Candidate))
		})
		// Those of the definition come before all others, in its order.
		slices.SortStableFunc(p.Shapes, func(a, b kernels.Shape) int { return strings.Compare(written(a), written(b)) })
		p.merge()
		all = append(all, p)
	}
	return all, nil
}

// written is the name of a shape that is written by its dimensions, and "" for others.
func written(s kernels.Shape) string {
	if strings.Contains(s.Name, "=") {
		return s.Name
	}
	return ""
}

// merge makes one variant of those that are the same code, as the winners of a family
// often are at neighboring shapes.
func (p *problem) merge() {
	var kept []*variant
	for _, v := range p.Variants {
		e := v.Winner.Evidence
		i := slices.IndexFunc(kept, func(k *variant) bool {
			of := k.Winner.Evidence
			return k.Rendered.Hash == v.Rendered.Hash && of.Result.Binary == e.Result.Binary && k.Supports == v.Supports &&
				of.Description.Device.Fingerprint == e.Description.Device.Fingerprint && of.Description.Compiler == e.Description.Compiler
		})
		if i < 0 {
			kept = append(kept, v)
			continue
		}
		kept[i].Also = append(kept[i].Also, v.Winner)
		for _, s := range v.Shapes {
			if !slices.ContainsFunc(kept[i].Shapes, func(have kernels.Shape) bool { return have.Name == s.Name }) {
				kept[i].Shapes = append(kept[i].Shapes, s)
			}
		}
	}
	p.Variants = kept
}

// translatable says which expression of the problem cannot be written in C.
func (p *problem) translatable() error {
	for _, b := range p.Buffers() {
		if _, err := b.AxesC(); err != nil {
			return err
		}
	}
	if _, err := p.ScalarValues(); err != nil {
		return err
	}
	if p.DeviceReference != nil {
		if _, err := p.ReferenceGeometry(); err != nil {
			return fmt.Errorf("the reference: %w", err)
		}
	}
	return nil
}

// variant makes one of what is rendered.
func (p *problem) variant(r kernels.Rendered, limits map[string]any) (*variant, error) {
	v := &variant{Rendered: r, Flags: r.Flags, order: p.Dims, limits: limits}
	if r.Implementation.Launch != nil {
		var err error
		if v.plan, err = p.newPlan(r, limits); err != nil {
			return nil, err
		}
		if v.plan == nil {
			if _, err := v.Geometry(); err != nil {
				return nil, err
			}
		}
	}
	if r.Genome.IsZero() {
		return v, nil // a source of its own, without constraints
	}
	t := p.translator(r, limits)
	var all []string
	for _, c := range r.Implementation.Limiting() {
		e, err := t.compile(c.Expr)
		if err != nil {
			return nil, err
		}
		mentioned := e.Names()
		ofShape := slices.ContainsFunc(mentioned, func(n string) bool { return slices.Contains(p.Dims, n) })
		applies := !slices.ContainsFunc(mentioned, func(n string) bool { return t.absent[n] != nil })
		if !ofShape || !applies {
			continue
		}
		text, err := t.condition(c.Expr)
		if err != nil {
			return nil, fmt.Errorf("the constraint %w", err)
		}
		if text != "1" {
			all = append(all, text)
		}
	}
	v.Supports = strings.Join(all, " && ")
	return v, nil
}

// translator knows the genome of what is rendered, and the limits of its device.
func (p *problem) translator(r kernels.Rendered, limits map[string]any) *translator {
	t := &translator{dims: p.Dims, constants: constants(r, limits), absent: map[string]any{}}
	for _, g := range r.Implementation.Parameters {
		if t.constants[g.Name] == nil {
			t.absent[g.Name] = g.Values[0]
		}
	}
	return t
}

// constants are what expressions know besides the dimensions: the genome of what is
// rendered, and the limits of its device.
func constants(r kernels.Rendered, limits map[string]any) map[string]any {
	all := map[string]any{}
	for _, l := range kernels.Limits() {
		all[l.Name] = l.Default
	}
	maps.Copy(all, limits)
	maps.Copy(all, r.Genome.Map())
	return all
}

// The texts below are parts of C.

// commas writes a list of texts that are made of items.
func commas[T any](items []T, text func(T) string) string {
	list := make([]string, len(items))
	for i, x := range items {
		list[i] = text(x)
	}
	return strings.Join(list, ", ")
}

// DimParams declares the dimensions.
func (p *problem) DimParams() string {
	return strings.Join(kernels.Params(p.Problem)[:len(p.Dims)], ", ")
}

// DimNames are the names as texts.
func (p *problem) DimNames() string { return commas(p.Dims, strconv.Quote) }

// FlagText lists the flags for people.
func (p *problem) FlagText() string { return strings.Join(p.Flags, ", ") }

// BufferParams declares the arrays as the exported function has them.
func (p *problem) BufferParams() string {
	return strings.Join(kernels.Params(p.Problem)[len(p.Dims):][:len(p.Problem.Buffers)], ", ")
}

// BufferArgs names the arrays.
func (p *problem) BufferArgs() string {
	return commas(p.Problem.Buffers, func(b kernels.Buffer) string { return b.Name })
}

// KernelParams declares what a kernel takes.
func (p *problem) KernelParams() string { return strings.Join(kernels.Params(p.Problem), ", ") }

// KernelArgs passes that on, the scalars computed from the dimensions.
func (p *problem) KernelArgs() (string, error) {
	values, err := p.scalars(func(s kernels.Scalar, value string) string { return "(" + s.DType.C() + ")(" + value + ")" })
	return strings.Join(slices.Concat(p.Dims, []string{p.BufferArgs()}, values), ", "), err
}

// scalars computes the scalars from the dimensions.
func (p *problem) scalars(text func(s kernels.Scalar, value string) string) ([]string, error) {
	var list []string
	for _, s := range p.Scalars {
		value, err := (&translator{dims: p.Dims}).float(s.Value)
		if err != nil {
			return nil, fmt.Errorf("the value of %s: %w", s.Name, err)
		}
		list = append(list, text(s, value))
	}
	return list, nil
}

// InPython says that the reference is in Python, which no library contains.
func (p *problem) InPython() bool { return p.Reference.Python }

// Unmade says that nothing here makes some of its inputs, in one line for people: a function
// in Python did, and other contents may lead a kernel out of its arrays. It is "" where all
// inputs can be made.
func (p *problem) Unmade() string {
	var names []string
	for _, b := range p.Buffers() {
		if b.Read() && b.Data.Distribution == kernels.Python {
			names = append(names, b.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: not run: a function in Python makes %s, and the library does not contain it", p.Kernel, strings.Join(names, ", "))
}

// ReferenceSymbol is the reference's function.
func (p *problem) ReferenceSymbol() string { return "evotune_reference_" + p.Name }

// ReferenceParams declares what the reference takes: everything as double.
func (p *problem) ReferenceParams() string {
	return strings.Join(kernels.ReferenceParams(p.Problem), ", ")
}

// ReferenceArgs passes arrays called wide_NAME.
func (p *problem) ReferenceArgs() (string, error) {
	wide := commas(p.Problem.Buffers, func(b kernels.Buffer) string { return "wide_" + b.Name })
	values, err := p.scalars(func(_ kernels.Scalar, value string) string { return value })
	return strings.Join(slices.Concat(p.Dims, []string{wide}, values), ", "), err
}

// Unpack declares the dimensions from an array.
func (p *problem) Unpack(from string) string {
	var b strings.Builder
	for i, d := range p.Dims {
		fmt.Fprintf(&b, "\tconst int64_t %s = %s[%d];\n", d, from, i)
	}
	for _, d := range p.Dims {
		fmt.Fprintf(&b, "\t(void)%s;\n", d)
	}
	return strings.TrimRight(b.String(), "\n")
}

// A buffer is an array of a problem.
type buffer struct {
	kernels.Buffer
	of *problem
}

// Buffers are the arrays in their order, Written those that the kernel writes.
func (p *problem) Buffers() []buffer {
	var list []buffer
	for _, b := range p.Problem.Buffers {
		list = append(list, buffer{b, p})
	}
	return list
}

// Written are the arrays that the kernel writes.
func (p *problem) Written() []buffer {
	return slices.DeleteFunc(p.Buffers(), func(b buffer) bool { return !b.IsWritten() })
}

// IsWritten and Read say what the kernel does with it.
func (b buffer) IsWritten() bool { return b.Role != kernels.In }

// Read says that the kernel reads it.
func (b buffer) Read() bool { return b.Role != kernels.Out }

// CType is its element in C.
func (b buffer) CType() string { return b.DType.C() }

// ShapeText and RoleText are for people.
func (b buffer) ShapeText() string { return strings.Join(b.Shape, ", ") }

// RoleText says in words what the kernel does with it.
func (b buffer) RoleText() string {
	switch b.Role {
	case kernels.In:
		return "read"
	case kernels.Out:
		return "written"
	}
	return "read and written"
}

// Count is the number of elements, in C.
func (b buffer) Count() (string, error) {
	axes, err := b.axes(&translator{dims: b.of.Dims})
	return strings.Join(axes, " * "), err
}

// AxesC are its axes, in C that computes with numbers of any size.
func (b buffer) AxesC() ([]string, error) {
	return b.axes(&translator{dims: b.of.Dims, saturating: true})
}

func (b buffer) axes(t *translator) ([]string, error) {
	var axes []string
	for _, a := range b.Shape {
		text, err := t.integer(a)
		if err != nil {
			return nil, fmt.Errorf("the shape of %s: %w", b.Name, err)
		}
		axes = append(axes, text)
	}
	return axes, nil
}

// Widen makes an element a double; Narrow the reverse.
func (b buffer) Widen(x string) string {
	if kernels.Conversions(b.DType) != "" {
		return "(double)" + b.CType() + "_to_float(" + x + ")"
	}
	return "(double)" + x
}

// Narrow makes a double an element.
func (b buffer) Narrow(x string) string {
	if kernels.Conversions(b.DType) != "" {
		return b.CType() + "_from_float((float)" + x + ")"
	}
	return "(" + b.CType() + ")" + x
}

// Draw is a random element, as a double; evo_i is its index. There is none where a function
// in Python makes them, see Unmade.
func (b buffer) Draw() (string, error) {
	switch b.Data.Distribution {
	case kernels.Python:
		return "", fmt.Errorf("the data of %s: a function in Python makes them", b.Name)
	case kernels.Permutation: // one of them
		return "(double)evo_i", nil
	case kernels.Offsets: // of parts that are alike
		end, err := (&translator{dims: b.of.Dims}).float(b.Data.Ends[0])
		if err != nil {
			return "", fmt.Errorf("the data of %s: %w", b.Name, err)
		}
		return fmt.Sprintf("floor(%s*evo_i/(count_%s - 1))", end, b.Name), nil
	case kernels.Between:
		var ends [2]string
		for i, e := range b.Data.Ends {
			var err error
			if ends[i], err = (&translator{dims: b.of.Dims}).float(e); err != nil {
				return "", fmt.Errorf("the data of %s: %w", b.Name, err)
			}
		}
		return fmt.Sprintf("draw_integers(%s, %s)", ends[0], ends[1]), nil
	}
	return fmt.Sprintf("draw_%s(%s, %s)", b.Data.Distribution, number(b.Data.A), number(b.Data.B)), nil
}

// Tolerance is what its error may be.
func (b buffer) Tolerance() string {
	limit, _ := b.of.ToleranceOf(b.Buffer)
	return number(limit)
}

// Units is within which distance an element is right whatever the tolerance; see kernels.Problem.UnitsOf.
func (b buffer) Units() string { return number(b.of.UnitsOf(b.Buffer)) }

// RepeatText is how far two launches of it may lie apart.
func (b buffer) RepeatText() string { return number(b.Repeat) }

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// A shape is a shape of a problem in C.
type shape struct {
	Name string
	// NS is the time of a launch, in nanoseconds.
	NS float64
	// Instead is what the library calls there.
	Instead instead
	dims    []int64
}

func newShape(s kernels.Shape, order []string) shape {
	out := shape{Name: s.Name}
	for _, d := range order {
		out.dims = append(out.dims, s.Dims[d])
	}
	return out
}

// Dims are the sizes.
func (s shape) Dims() string {
	return commas(s.dims, func(d int64) string { return strconv.FormatInt(d, 10) })
}

// Logs are log2(1 + size), of which distances are made.
func (s shape) Logs() string {
	return commas(s.dims, func(d int64) string { return number(math.Log2(1 + float64(d))) })
}

// TunedShapes are those that the variant was tuned for.
func (v *variant) TunedShapes() []shape {
	var list []shape
	for _, s := range v.Shapes {
		out := newShape(s, v.order)
		out.Instead = v.beaten[s.Name]
		for _, t := range v.timings() {
			if t.Shape == s.Name {
				out.NS = t.MedianNS
			}
		}
		list = append(list, out)
	}
	return list
}

// timings are those of the finals, or of the search where there were none.
func (w *Winner) timings() []evaluator.Timing {
	if f := w.final(); f != nil && len(f.Timings) > 0 {
		return f.Timings
	}
	return w.Evidence.Result.Timings
}

// winners are the variant's; none of a baseline.
func (v *variant) winners() []*Winner {
	if v.Winner == nil {
		return nil
	}
	return append([]*Winner{v.Winner}, v.Also...)
}

// timings are those of all its winners.
func (v *variant) timings() (all []evaluator.Timing) {
	for _, w := range v.winners() {
		all = append(all, w.timings()...)
	}
	return all
}

// CheckShapes are all shapes of the definition.
func (p *problem) CheckShapes() []shape {
	var list []shape
	for _, s := range p.Shapes {
		list = append(list, newShape(s, p.Dims))
	}
	return list
}

// Tuned are the shapes that some variant was tuned for, each once.
func (p *problem) Tuned() []shape {
	var list []shape
	for _, s := range p.Shapes {
		if slices.ContainsFunc(p.Variants, func(v *variant) bool {
			return slices.ContainsFunc(v.Shapes, func(t kernels.Shape) bool { return t.Name == s.Name })
		}) {
			list = append(list, newShape(s, p.Dims))
		}
	}
	return list
}

// OtherDims is the first tuned shape with one size, of no flag if it can be, made odd
// or even by a counter.
func (p *problem) OtherDims(counter string) string {
	list := strings.Split(p.Tuned()[0].Dims(), ", ")
	i := max(0, slices.IndexFunc(p.Dims, func(d string) bool { return !slices.Contains(p.Flags, d) }))
	list[i] += " + (" + counter + " & 1)"
	return strings.Join(list, ", ")
}
