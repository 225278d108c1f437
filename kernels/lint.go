package kernels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/sources"
)

// A Finding is something suspicious in a definition that loads.
type Finding struct {
	File string `json:"file"`
	// Line and Col are as those of Error.
	Line int    `json:"line"`
	Col  int    `json:"col,omitempty"`
	Msg  string `json:"msg"`
}

// String returns one line, FILE:LINE:COL: what is wrong: what to do.
func (f Finding) String() string {
	return (&Error{File: f.File, Line: f.Line, Col: f.Col, Msg: f.Msg}).Error()
}

// Limits of what is small enough for the slowest sanitizer, which makes a kernel some
// fifty times slower.
const (
	smallOperations = 20e6
	smallElements   = 1 << 20
)

// Lint looks for suspicious parts of a definition that loads: parameters
// that change nothing, constraints that exclude nothing or everything,
// templates that fail for some genome, costs that no kernel can have, shapes
// and controls that prove little. It renders n random genomes of every
// implementation, drawn with rng, and neighbors of some. The findings are sorted by
// position. Lint does not run a compiler. When the context ends before it has looked at
// everything, a finding says so.
func Lint(ctx context.Context, d *Definition, n int, rng *rand.Rand) []Finding {
	l := &linter{d: d}
	l.problem(&d.Problem)
	for _, backend := range slices.Sorted(maps.Keys(d.Variants)) {
		l.problem(d.Variants[backend])
	}
	for _, im := range d.Implementations {
		if l.implementation(ctx, im, n, rng); ctx.Err() != nil {
			l.at(im.in.Table.key, "there was no time left to look at all of %s: make its space or its template smaller", im.Name)
			break
		}
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return slices.Compact(l.findings)
}

type linter struct {
	d        *Definition
	findings []Finding
}

// at notes a finding at an offset of kernel.toml, or of a file that a key like names.
func (l *linter) at(offset int, format string, args ...any) {
	e := l.d.doc.fault(offset, format, args...)
	l.findings = append(l.findings, Finding{e.File, e.Line, e.Col, e.Msg})
}

// err notes an error that has its own position.
func (l *linter) err(err error) {
	var e *Error
	if errors.As(err, &e) {
		l.findings = append(l.findings, Finding{e.File, e.Line, e.Col, oneLine(e.Msg)})
		return
	}
	l.findings = append(l.findings, Finding{File: l.d.doc.file, Line: 1, Col: 1, Msg: oneLine(err.Error())})
}

// problem checks the problem, or a variant of it.
func (l *linter) problem(p *Problem) {
	// A variant takes what it does not declare from the problem.
	t := *p.in
	var tolerances []string
	if t.Tolerance != nil {
		tolerances = t.Tolerance.names
	}
	if v := p.variant; v != nil {
		t.Operations, t.Bytes = cmp.Or(v.Operations, t.Operations), cmp.Or(v.Bytes, t.Bytes)
		if v.Shape != nil {
			t.Shape = v.Shape
		}
		tolerances = nil
		if v.Tolerance != nil {
			t.Tolerance, tolerances = v.Tolerance, v.Tolerance.names
		}
	}
	l.costs(p, &t)
	odd := false
	whole := slices.ContainsFunc(l.d.Implementations, func(im *Implementation) bool { return im.SanitizeBlocks == 0 })
	for i, s := range p.Shapes {
		n := t.Shape[i].Table
		switch s.Use {
		case Verify:
			for _, v := range s.Dims {
				odd = odd || v > 1 && v%2 == 1
			}
		case Sanitize:
			if !whole {
				break // the slowest tool sees a few blocks of it
			}
			if ops, _ := p.Operations(s); ops > smallOperations {
				l.at(n.key, "the shape %s is for the sanitizers and takes %.3g operations: below %.0g they end in a second or so", s.Name, ops, smallOperations)
			}
			total, _ := p.allElements(s) // evaluated when loading
			if total > smallElements {
				l.at(n.key, "the shape %s is for the sanitizers and has %d elements: below %d they end in a second or so", s.Name, total, smallElements)
			}
		}
		for _, other := range p.Shapes[:i] {
			if s.Use == other.Use && maps.Equal(s.Dims, other.Dims) {
				l.at(n.key, "the shapes %s and %s are the same: remove one", other.Name, s.Name)
			}
		}
	}
	if !odd && l.oddAllowed(p) {
		l.at(t.Shape[0].Table.key, `no shape with use = "verify" has an odd dimension above 1: a kernel that is right only for multiples of its tiles would pass`)
	}
	controls := t.Table.children["control"]
	if len(t.Control) > 0 {
		controls = t.Control[0].Table
	}
	kinds := map[ControlKind]bool{}
	for _, c := range p.Controls {
		kinds[c.Kind] = true
	}
	for _, k := range []ControlKind{Zeros, Mean} {
		if !kinds[k] {
			l.at(controls.key, "there is no control of kind %q: without it nothing shows that the tolerance refuses such an answer", string(k))
		}
	}
	for _, name := range tolerances {
		of := func(b Buffer) bool { return b.DType == DType(name) }
		switch n := t.Tolerance.children[name]; {
		case !slices.ContainsFunc(p.Outputs(), of):
			l.at(n.key, "no output has the type %s: remove its tolerance", name)
		case !slices.ContainsFunc(p.Outputs(), func(b Buffer) bool { return of(b) && b.Tolerance == nil }):
			l.at(n.key, "every output of the type %s has a tolerance of its own: remove this one", name)
		default:
			l.loose(n, p.Tolerance[DType(name)], DType(name))
		}
	}
	for i, b := range p.Buffers {
		if b.Data.Distribution == Python && p == &l.d.Problem && p.Reference.Function(b.Data.Function) == 0 {
			l.at(t.Buffer[i].Data.at, "%s does not define %s: correct the name", p.Reference.File, b.Data.Function)
		}
		if b.Tolerance != nil && p == &l.d.Problem {
			l.loose(t.Buffer[i].Tolerance, *b.Tolerance, b.DType)
		}
		if n := t.Buffer[i].Repeat; n != nil && p == &l.d.Problem {
			if limit, _ := p.ToleranceOf(b); b.Repeat > 2*limit {
				l.at(n.at, "launches may differ by %g, and two that are within the tolerance of %g of the reference cannot differ by more than twice that: lower repeat", b.Repeat, limit)
			}
		}
	}
	if r := p.Reference; !r.Python && !declares(r.Text, r.Entry) || r.Python && r.Function(r.Entry) == 0 {
		l.at(t.Reference.Entry.at, "%s does not define %s: correct the entry", p.Reference.File, p.Reference.Entry)
	}
	if r := p.DeviceReference; r != nil && !declares(r.Text, r.Entry) {
		l.at(t.Reference.Cuda.Entry.at, "%s does not define %s: correct the entry", r.File, r.Entry)
	}
}

// oddAllowed says whether an implementation could compute some shape with an odd dimension above 1: constraints may
// want multiples of every dimension.
func (l *linter) oddAllowed(p *Problem) bool {
	for _, im := range l.d.Implementations {
		if im.Problem() != p && p != &l.d.Problem {
			continue
		}
		for _, s := range p.ShapesFor(Tune) {
			for _, d := range p.Dims {
				for _, n := range []int64{s.Dims[d] - 1, s.Dims[d] + 1, 3} {
					x := Shape{Name: s.Name, Use: Tune, Dims: maps.Clone(s.Dims)}
					if x.Dims[d] = n; n < 3 || n%2 == 0 {
						continue
					}
					if _, err := p.allElements(x); err != nil {
						continue
					}
					if _, err := genome.NewSpace(im.Parameters, im.Constraints, im.env(x)); err == nil {
						return true
					}
				}
			}
		}
	}
	return false
}

// loose notes a tolerance that rejects almost nothing.
func (l *linter) loose(n *node, tolerance float64, t DType) {
	if tolerance > math.Max(0.1, 4*t.Step()) { // in 8-bit types, one rounding alone is that large
		l.at(n.at, "a tolerance of %g of the output's scale proves next to nothing", tolerance)
	}
}

// costs checks operations and bytes, from which the shortest possible time of a launch
// is computed: if they are too large, honest kernels look impossible.
func (l *linter) costs(p *Problem, t *problemTable) {
	for _, s := range p.Shapes {
		bytes, _ := p.Bytes(s) // evaluated when loading
		ops, _ := p.Operations(s)
		if bytes <= 0 {
			l.at(t.Bytes.at, "a launch at shape %s moves no bytes: it has to read its inputs and write its outputs once", s.Name)
			return
		}
		if t.Operations != nil && ops <= 0 && s.Use == Tune {
			l.at(t.Operations.at, "a launch at shape %s takes no operations: count one for each element that is moved, if it only moves them", s.Name)
			return
		}
		moved := 0.0
		for _, b := range p.Buffers {
			n, _ := p.Elements(b, s)
			times := int64(1)
			if b.Role == InOut {
				times = 2
			}
			moved += float64(n * times * b.DType.Size())
		}
		if bytes > moved {
			l.at(t.Bytes.at, "at shape %s bytes gives %.6g, but the buffers, each moved once, have %.6g: count what has to move, not what a kernel happens to move", s.Name, bytes, moved)
			return
		}
	}
}

// declares says whether a C text has a function with a name.
func declares(text, entry string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(entry) + `\s*\(`).MatchString(text)
}

// manyFailures is how many genomes that fail are enough: more would say the same.
const manyFailures = 20

func (l *linter) implementation(ctx context.Context, im *Implementation, n int, rng *rand.Rand) {
	l.constraints(im)
	l.conditions(im)
	mentioned := l.unused(im)
	if b := im.baseline; b != nil && b.Kind == BaselineSource && !declares(b.Source.Text, b.Source.Entry) {
		l.at(im.in.Baseline.Entry.at, "%s does not define %s: correct the entry", b.Source.File, b.Source.Entry)
	}
	if b := im.baseline; b != nil && b.Genome != nil {
		if _, err := im.RenderBaseline(im.Problem().ShapesFor(Tune)[0]); err != nil {
			l.err(err)
		}
	}
	seen := map[string]bool{}    // findings of the samples, to report each once
	changed := map[string]bool{} // parameters that changed a candidate
	tried := map[string]bool{}
	starts := map[string]bool{} // those that some campaign proposes
	failures := 0
	for _, s := range im.Problem().ShapesFor(Tune) {
		space, err := l.d.Space([]*Implementation{im}, []Shape{s}, leastLimits(im.Target))
		if err != nil {
			if !errors.Is(err, genome.ErrEmpty) || len(l.findings) == 0 {
				l.at(im.in.Table.key, "at shape %s: %v", s.Name, err)
			}
			return
		}
		if space.Exact() && space.Size() < 2 {
			l.at(im.in.Table.key, "at shape %s the space of %s has a single genome: there is nothing to search", s.Name, im.Name)
		}
		for _, start := range im.Starts {
			if _, err := space.Parse(start); err == nil {
				starts[start] = true
			}
		}
		for i := range n {
			if failures >= manyFailures || ctx.Err() != nil {
				return
			}
			g := space.Random(rng)
			r, ok := l.sample(im, g, seen)
			if !ok {
				failures++
			}
			if !ok || i >= neighbourhoods {
				continue
			}
			for _, other := range space.Neighbours(g) {
				if ctx.Err() != nil {
					return
				}
				gene := difference(g, other)
				if gene == "" || changed[gene] {
					continue
				}
				tried[gene] = true
				if o, ok := l.sample(im, other, seen); ok && o.Hash != r.Hash || !ok || l.relaunches(im, g, other, s) {
					changed[gene] = true
				}
			}
		}
	}
	for _, start := range im.in.Start {
		// Starts of a shared file may belong to another implementation.
		if file, _ := l.d.doc.where(start.at); file == l.d.doc && !starts[start.str] {
			l.at(start.at, "start %q is valid at no tuned shape, so that no campaign proposes it: correct it, or remove it", start.str)
		}
	}
	for _, g := range im.Parameters {
		if tried[g.Name] && !changed[g.Name] && mentioned[g.Name] {
			l.at(im.params[g.Name].at, "parameter %s is read, but no value of it changed any of the candidates tried: is it inside text that is never rendered?", g.Name)
		}
	}
}

// neighbourhoods is the number of samples for which all neighbors are rendered.
const neighbourhoods = 20

// difference names the one gene in which two genomes differ; "" if there are several,
// such as when one enables others.
func difference(a, b genome.Genome) string {
	name := ""
	for _, g := range a.Space().Genes() {
		x, inA := a.Get(g.Name)
		y, inB := b.Get(g.Name)
		if inA == inB && x == y {
			continue
		}
		if name != "" || inA != inB {
			return ""
		}
		name = g.Name
	}
	return name
}

// relaunches says whether two genomes are launched differently.
func (l *linter) relaunches(im *Implementation, a, b genome.Genome, s Shape) bool {
	if im.Launch == nil {
		return false
	}
	x, err1 := im.Geometry(a, s, leastLimits(im.Target))
	y, err2 := im.Geometry(b, s, leastLimits(im.Target))
	return err1 != nil || err2 != nil || !reflect.DeepEqual(x, y)
}

var quoted = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"\n]*)"`)

// sample renders a genome and checks the result.
func (l *linter) sample(im *Implementation, g genome.Genome, seen map[string]bool) (Rendered, bool) {
	once := func(key string) bool {
		had := seen[key]
		seen[key] = true
		return !had
	}
	fail := func(err error) {
		key := err.Error()
		if e := (*Error)(nil); errors.As(err, &e) { // one finding for a place: the message may name the genome
			key = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Col)
		}
		if once(key) {
			l.err(err)
		}
	}
	r, err := im.Render(g)
	if err != nil {
		fail(err)
		return r, false
	}
	all := r.Source
	for _, name := range im.Include {
		all += "\n" + r.Files[name]
	}
	for _, m := range quoted.FindAllStringSubmatch(sources.Ours(all), -1) {
		name := filepath.ToSlash(filepath.Clean(m[1]))
		if _, ok := r.Files[name]; !ok && name != HeaderFile && once("include "+name) {
			l.at(im.in.Template.at, "the candidate %s includes %q, which include does not list: add it", g, m[1])
		}
	}
	entries := []*node{im.in.Entry}
	if r.Triton != nil {
		entries = nil // loading has checked them
	}
	if im.Launch != nil && len(im.Launch.Then) > 0 {
		for _, t := range im.in.Launch[1:] {
			entries = append(entries, t.Entry)
		}
	}
	for _, n := range entries {
		if !declares(all, n.str) && once("entry "+n.str) {
			l.at(n.at, "the candidate %s does not define %s: correct the entry", g, n.str)
		}
	}
	for i, u := range im.flags {
		f, _ := im.execute(u, g.Map()) // rendered above
		if f = strings.TrimSpace(f); strings.ContainsAny(f, " \t\n") && once(fmt.Sprint("flag ", i)) {
			l.at(u.at.at, "the flag %q has a space in it: each flag is one argument of the compiler", f)
		}
	}
	for _, s := range im.Problem().Shapes {
		if im.Launch == nil {
			break
		}
		limits := leastLimits(im.Target)
		if im.Supports(g, s, limits) != nil {
			continue // it is not launched at this shape
		}
		if _, err := im.Geometry(g, s, limits); err != nil {
			fail(err)
		}
	}
	if im.sanitize != nil {
		if err := l.sanitizeShape(im, g, once); err != nil {
			fail(err)
		}
	}
	return r, true
}

// sanitizeShape checks the launch of a genome under the tools of a search, which should be
// smaller than the usual one.
func (l *linter) sanitizeShape(im *Implementation, g genome.Genome, once func(string) bool) error {
	p, limits := im.Problem(), leastLimits(im.Target)
	usual := p.ShapesFor(Sanitize)
	s := usual[0]
	if i := slices.IndexFunc(usual, func(s Shape) bool { return im.Supports(g, s, limits) == nil }); i >= 0 {
		s = usual[i]
	}
	own, err := im.SanitizeShape(g, s, limits)
	if err != nil || own.Name == s.Name {
		return err
	}
	if _, err := im.Geometry(g, own, limits); err != nil {
		return err
	}
	mine, err := p.allElements(own)
	if err != nil {
		return im.fail(im.in.Sanitize.Dims, "%v, for the genome %s", err, g)
	}
	if most, _ := p.allElements(s); mine > most && once("sanitize") { // that of s was evaluated when loading
		l.at(im.in.Sanitize.Dims.at, "the candidate %s is sanitized at %s with %d elements, more than the %d of the shape %s, so that it takes longer than without: lower the dimensions",
			g, own.Name, mine, most, s.Name)
	}
	return nil
}

// env gives the constants of a shape.
func (im *Implementation) env(s Shape) map[string]any {
	env := s.env()
	maps.Copy(env, leastLimits(im.Target))
	return env
}

// constraints finds constraints that exclude nothing, or everything. Each is checked
// separately, over the genes and their conditions alone.
func (l *linter) constraints(im *Implementation) {
	free := map[string]*genome.Space{} // by shape, without constraints
	for i, c := range im.Constraints {
		names := im.checks[i].prog.Names()
		device := slices.ContainsFunc(names, func(n string) bool { return slices.Contains(limitNames(), n) })
		// What a limit excludes depends on the device, and a constraint over dimensions
		// alone may exclude shapes that only users have.
		excludes := device || !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(im.Problem().Dims, n) })
		for _, s := range im.Problem().Shapes {
			whole := free[s.Name]
			if whole == nil {
				var err error
				if whole, err = genome.NewSpace(im.Parameters, nil, im.env(s)); err != nil {
					l.err(err)
					return
				}
				free[s.Name] = whole
			}
			part, err := genome.NewSpace(im.Parameters, []genome.Constraint{c}, im.env(s))
			if errors.Is(err, genome.ErrEmpty) {
				if s.Use == Tune {
					l.at(im.checks[i].at.at, "no genome satisfies the constraint %q at shape %s: correct it", c.Expr, s.Name)
				}
				excludes = true
				break
			}
			if err != nil {
				l.at(im.checks[i].at.at, "%v", err)
				return
			}
			if !whole.Exact() || !part.Exact() || part.Size() < whole.Size() {
				excludes = true
				break
			}
		}
		if !excludes && !l.excludesElsewhere(im, c, names) {
			l.at(im.checks[i].at.at, "the constraint %q excludes nothing at any shape: remove it, or correct it", c.Expr)
		}
	}
}

// excludesElsewhere says whether a constraint over dimensions excludes genomes at shapes that the definition does not have,
// and its users may: a row longer than any block, or of one element.
func (l *linter) excludesElsewhere(im *Implementation, c genome.Constraint, names []string) bool {
	for _, s := range im.Problem().ShapesFor(Tune) {
		for _, d := range im.Problem().Dims {
			if !slices.Contains(names, d) {
				continue
			}
			for _, n := range []int64{1, 3, s.Dims[d] + 1, 1 << 20} {
				x := Shape{Name: s.Name, Use: Tune, Dims: maps.Clone(s.Dims)}
				x.Dims[d] = n
				whole, err := genome.NewSpace(im.Parameters, nil, im.env(x))
				if err != nil {
					continue
				}
				part, err := genome.NewSpace(im.Parameters, []genome.Constraint{c}, im.env(x))
				if err != nil || !whole.Exact() || !part.Exact() || part.Size() < whole.Size() {
					return true
				}
			}
		}
	}
	return false
}

// conditions finds parameters that always exist, or never.
func (l *linter) conditions(im *Implementation) {
	for _, g := range im.Parameters {
		w := im.whens[g.Name]
		if w == nil {
			continue
		}
		s := im.Problem().ShapesFor(Tune)[0]
		whole, err := genome.NewSpace(im.Parameters, nil, im.env(s))
		if err != nil || !whole.Exact() {
			continue
		}
		// This constraint holds only where the gene does not exist.
		never := genome.Constraint{Expr: g.Name + " != " + g.Name}
		without, err := genome.NewSpace(im.Parameters, []genome.Constraint{never}, im.env(s))
		switch {
		case errors.Is(err, genome.ErrEmpty):
			l.at(w.at.at, "the condition of %s always holds: remove it, or correct it", g.Name)
		case err == nil && without.Exact() && without.Size() == whole.Size():
			l.at(w.at.at, "the condition of %s never holds: correct it", g.Name)
		}
	}
}

// unused finds parameters that nothing reads, and returns those that something reads.
func (l *linter) unused(im *Implementation) map[string]bool {
	read := map[string]bool{}
	note := func(e *expression) {
		if e != nil {
			for _, name := range e.prog.Names() {
				read[name] = true
			}
		}
	}
	note(im.threads)
	if im.Launch != nil {
		for _, k := range append([]*Launch{im.Launch}, im.Launch.Then...) {
			for _, e := range slices.Concat(k.grid, k.block, k.cluster, []*expression{k.shared, k.workspace, k.cooperative, k.dependent}) {
				note(e)
			}
		}
	}
	for _, m := range im.TensorMaps {
		for _, e := range slices.Concat(m.dims, m.strides, m.box, []*expression{m.swizzle, m.promotion}) {
			note(e)
		}
	}
	all := false
	templates := append([]*unit{im.main}, im.flags...)
	if im.triton != nil {
		templates = nil
		for name := range tritonOptions {
			read[name] = true
		}
		for _, a := range im.triton.args {
			note(a.expr)
			read[a.gene] = true
		}
	}
	for _, u := range templates {
		for _, t := range u.tmpl.Templates() {
			if t.Tree != nil && mentions(t.Root, read) {
				all = true
			}
		}
	}
	gates := map[string]bool{}
	for _, w := range im.whens {
		for _, name := range w.prog.Names() {
			gates[name] = true
		}
	}
	for _, g := range im.Parameters {
		switch {
		case all || read[g.Name] || gates[g.Name]:
		case slices.ContainsFunc(im.checks, func(e *expression) bool { return slices.Contains(e.prog.Names(), g.Name) }):
			l.at(im.params[g.Name].at, "parameter %s is read by constraints alone, so that no value of it changes a candidate: use it or remove it", g.Name)
		default:
			l.at(im.params[g.Name].at, "nothing reads the parameter %s: use it in the template or in a flag, or remove it", g.Name)
		}
	}
	return read
}

// mentions collects the names of genes in a template, and says whether it takes the
// genome as a whole, as {{range .}} does. It counts a name as a gene wherever it
// appears, which may miss an unused gene but never reports a used one.
func mentions(n parse.Node, names map[string]bool) (all bool) {
	list := func(nodes []parse.Node) {
		for _, m := range nodes {
			all = mentions(m, names) || all
		}
	}
	branch := func(b *parse.BranchNode) {
		all = mentions(b.Pipe, names) || all
		all = mentions(b.List, names) || all
		if b.ElseList != nil {
			all = mentions(b.ElseList, names) || all
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			list(n.Nodes)
		}
	case *parse.ActionNode:
		return mentions(n.Pipe, names)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		if len(n.Pipe.Cmds) == 1 && len(n.Pipe.Cmds[0].Args) == 1 {
			switch n.Pipe.Cmds[0].Args[0].String() {
			case ".", "$":
				all = true
			}
		}
		branch(&n.BranchNode)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			return mentions(n.Pipe, names)
		}
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			list(c.Args)
		}
	case *parse.FieldNode:
		names[n.Ident[0]] = true
	case *parse.VariableNode:
		if len(n.Ident) > 1 {
			names[n.Ident[1]] = true
		}
	case *parse.ChainNode:
		names[n.Field[0]] = true
		return mentions(n.Node, names)
	case *parse.StringNode: // has $ "NAME", index $ "NAME"
		names[n.Text] = true
	}
	return all
}
