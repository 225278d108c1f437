package kernels

import (
	"fmt"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/naming"
)

// Backends lists the backends that definitions may name.
func Backends() []string { return backend.Names() }

func (l *loader) implementation(t *implementationTable) *Implementation {
	im := &Implementation{
		definition: l.def, in: t, Name: t.Name.str, Language: t.Language.text(), Backend: t.Backend.str, Target: t.Target.str, Template: t.Template.str,
		params: map[string]*node{}, whens: map[string]*expression{}, files: map[string]string{},
	}
	if !shapeName.MatchString(im.Name) {
		l.d.fail(t.Name.at, "the name %q has other characters than letters, digits and . _ + -: correct it", im.Name)
	}
	l.supported(t, im)
	if im.Language == Triton {
		l.foreign(t)
	} else if t.Args != nil {
		l.d.fail(t.Args.key, "args is for implementations in Triton: remove it, or add language = %q", Triton)
	}
	im.Entry = l.entry(t.Table, t.Entry, strings.ReplaceAll(l.def.Name, "-", "_"))
	// Expressions are over the parameters, with the dimensions, or with the device's
	// limits as well.
	params, all := map[string]any{}, defaultLimits()
	maps.Copy(all, l.env)
	l.parameters(t, im, params, all)

	for _, c := range t.Constraint {
		im.Constraints = append(im.Constraints, genome.Constraint{Expr: c.Expr.str, Why: c.Why.str})
		im.checks = append(im.checks, l.compile(c.Expr, all))
		im.sparing = append(im.sparing, c.Search != nil && c.Search.value.(bool))
	}
	im.ThreadsExpr, im.threads = t.Threads.text(), l.compile(t.Threads, params)
	if text := l.file(t.Template, true); im.Language == Triton {
		im.main = &unit{file: l.path(im.Template), text: text}
	} else {
		im.main = parseUnit(l.path(im.Template), text)
	}
	for _, f := range t.Flags {
		im.Flags = append(im.Flags, f.str)
		im.flags = append(im.flags, l.flag(f))
	}
	for _, f := range t.Include {
		if strings.HasPrefix(f.str, "evotune_") {
			l.d.fail(f.at, "include %q: names that begin with evotune_ belong to generated files: choose another", f.str)
		}
		if _, ok := im.files[f.str]; ok {
			l.d.fail(f.at, "include %q is listed twice", f.str)
		}
		im.files[f.str] = l.file(f, true)
		im.Include = append(im.Include, f.str)
	}
	im.Blocking = l.patterns(t.Blocking)
	for _, n := range t.Start {
		l.start(n, im)
	}
	if b := t.Binary; b != nil {
		l.binary(b, im, params)
	}
	if len(t.Profile) > 0 && !im.on().Has(backend.Profile) {
		l.d.fail(t.Profile[0].Table.key, "profile means nothing to the %s backend: remove it", im.Backend)
	}
	for _, b := range t.Profile {
		im.Profile = append(im.Profile, l.bound(b, params))
	}
	switch {
	case len(t.Launch) > 0 && !im.on().Has(backend.Launch):
		l.d.fail(t.Launch[0].Table.key, "the %s backend calls the entry once and has no launch geometry: remove [implementation.launch]", im.Backend)
	case len(t.Launch) > 0:
		if im.Language == Triton {
			t.Launch[0].Block = []*node{{kind: stringNode, str: tritonBlock(im), at: t.Launch[0].Table.at, key: t.Launch[0].Table.key}}
		}
		im.Launch = l.launches(t.Launch, im, all)
	case im.on().Has(backend.Launch):
		l.d.fail(t.Table.key, "implementation %s lacks its launch geometry: add [implementation.launch] with grid and block", im.Name)
	}
	if im.Language == Triton {
		l.triton(t, im, params)
	}
	l.tensorMaps(t.TensorMap, im, all)
	if t.Sanitize != nil {
		l.sanitize(t.Sanitize, im, all)
	}
	if t.Baseline != nil {
		l.baseline(t.Baseline, im)
	}
	return im
}

// start reads a genome to start with. Whether it is valid depends on the shape and the
// device. Its names and values must exist, and it must have every gene that all genomes
// have.
func (l *loader) start(n *node, im *Implementation) {
	values, err := genome.Decode(n.str)
	if err != nil {
		l.d.fail(n.at, "start %q is not of the form \"TILE=32,UNROLL=4\", as campaigns print it: %v", n.str, err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(im.Parameters, func(g genome.Gene) bool { return g.Name == name })
		if i < 0 {
			l.d.fail(n.at, "start %q: there is no parameter %s", n.str, name)
		}
		if v := values[name]; !slices.Contains(im.Parameters[i].Values, v) {
			l.d.fail(n.at, "start %q: %s is not a value of %s", n.str, v, name)
		}
	}
	for _, g := range im.Parameters {
		if _, ok := values[g.Name]; !ok && g.When == "" {
			l.d.fail(n.at, "start %q gives %s no value, so that it is in no space: add %s=%s, say", n.str, g.Name, g.Name, g.Values[0])
		}
	}
	im.Starts = append(im.Starts, n.str)
}

// on has the facts of the implementation's backend.
func (im *Implementation) on() *backend.Facts { return backend.Of(im.Backend) }

// supported refuses properties of buffers that the backend does not have.
func (l *loader) supported(t *implementationTable, im *Implementation) {
	on := im.on()
	for _, b := range im.Problem().Buffers {
		key := ""
		switch {
		case b.DType.FP8() && !on.Has(backend.FP8):
			l.d.fail(t.Backend.at, "buffer %s is %s, which the %s backend does not have: give it another type there by a [[problem.variant]], or remove this implementation", b.Name, b.DType, on.Name)
		case b.Repeat > 0:
			key = backend.Repeat
		case b.Unwritten:
			key = backend.Unwritten
		}
		if key != "" && !on.Has(key) {
			l.d.fail(t.Backend.at, "buffer %s has %s, which the %s backend does not have: remove one of the two", b.Name, key, on.Name)
		}
	}
}

// patterns compiles regular expressions.
func (l *loader) patterns(list []*node) (out []*regexp.Regexp) {
	for _, n := range list {
		re, err := regexp.Compile(n.str)
		if err != nil {
			l.d.fail(n.at, "%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		out = append(out, re)
	}
	return out
}

// parameters reads the parameters and adds their names to those that expressions may
// use: to params, for expressions over parameters alone, and to all.
func (l *loader) parameters(t *implementationTable, im *Implementation, params, all map[string]any) {
	if len(t.Parameter) == 0 {
		l.d.fail(t.Table.key, "implementation %s has no parameter, so that there is nothing to search: add [[implementation.parameter]]", im.Name)
	}
	for _, p := range t.Parameter {
		g := genome.Gene{Name: p.Name.str, When: p.When.text()}
		switch {
		case !identifier.MatchString(g.Name):
			l.d.fail(p.Name.at, "parameter %q: use letters, digits and _, not a digit first", g.Name)
		case g.Name == ImplementationGene:
			l.d.fail(p.Name.at, "parameter %q is the choice among implementations: choose another name", g.Name)
		case slices.Contains(l.def.Problem.Dims, g.Name):
			l.d.fail(p.Name.at, "parameter %s has the name of a dimension: choose another", g.Name)
		case slices.Contains(limitNames(), g.Name):
			l.d.fail(p.Name.at, "parameter %s has the name of a device limit: choose another", g.Name)
		}
		l.fresh(im.params, p.Name, "parameter")
		g.Values, g.Ordinal = l.domain(p)
		params[g.Name], all[g.Name] = g.Values[0].Any(), g.Values[0].Any()
		if _, err := expr.Compile("1", params); err != nil {
			l.d.fail(p.Name.at, "parameter: %v", err)
		}
		im.Parameters = append(im.Parameters, g)
	}
	for _, p := range t.Parameter {
		if p.When == nil {
			continue
		}
		name, when := p.Name.str, l.compile(p.When, all)
		if slices.Contains(when.prog.Names(), name) {
			l.d.fail(p.When.at, "the condition of %s names %s itself: it can depend on other parameters only", name, name)
		}
		im.whens[name] = when
	}
	l.cycles(im)
}

// cycles refuses conditions that depend on one another in a cycle.
func (l *loader) cycles(im *Implementation) {
	names := make([]string, len(im.Parameters))
	for i, g := range im.Parameters {
		names[i] = g.Name
	}
	trail := naming.Cycle(names, func(name string) []string {
		if im.whens[name] == nil {
			return nil
		}
		return im.whens[name].prog.Names()
	})
	if trail != nil {
		name := trail[len(trail)-1] // the first may only lead to the cycle
		l.d.fail(im.whens[name].at.at, "parameter %s exists only when others exist that depend on it: break the circle", name)
	}
}

// domain reads the values of a parameter.
func (l *loader) domain(t *parameterTable) (values []genome.Value, ordinal bool) {
	name := t.Name.str
	forms := slices.DeleteFunc([]*node{t.Values, t.Range, t.Pow2, t.Bool}, func(n *node) bool { return n == nil })
	if len(forms) != 1 {
		l.d.fail(t.Table.key, "parameter %s needs exactly one of values = [...], range = [lo, hi], pow2 = [lo, hi] and bool = true", name)
	}
	if t.Step != nil && t.Range == nil {
		l.d.fail(t.Step.key, "step goes with range only: remove it")
	}
	form, key := forms[0], "range"
	switch form {
	case t.Bool:
		if form.value == false {
			l.d.fail(form.at, "write bool = true: the parameter then is false or true")
		}
		return []genome.Value{genome.Bool(false), genome.Bool(true)}, false
	case t.Values:
		return l.values(form, name)
	case t.Pow2:
		key = "pow2"
	}
	if len(form.items) != 2 || form.items[0].kind != integerNode || form.items[1].kind != integerNode {
		l.d.fail(form.at, "%s of %s must be two integers: %s = [1, 64]", key, name, key)
	}
	lo, hi := form.items[0].value.(int64), form.items[1].value.(int64)
	if lo > hi {
		l.d.fail(form.at, "%s of %s is empty: %d is above %d", key, name, lo, hi)
	}
	if key == "pow2" {
		for _, item := range form.items {
			if v := item.value.(int64); v < 1 || bits.OnesCount64(uint64(v)) != 1 {
				l.d.fail(item.at, "pow2 of %s: %d is not a power of two", name, v)
			}
		}
		for v := lo; v > 0 && v <= hi; v *= 2 {
			values = append(values, genome.Int(v))
		}
		return values, true
	}
	step := int64(1)
	if t.Step != nil {
		if step = t.Step.value.(int64); step < 1 {
			l.d.fail(t.Step.at, "step of %s is %d, expected at least 1", name, step)
		}
	}
	// hi-lo may overflow int64, but never uint64.
	if n := (uint64(hi) - uint64(lo)) / uint64(step); n >= maxValues {
		l.d.fail(form.at, "range of %s has more than %d values: use a larger step, pow2, or a list of values", name, maxValues)
	}
	for v, last := lo, false; !last; v += step {
		values = append(values, genome.Int(v))
		last = uint64(hi)-uint64(v) < uint64(step)
	}
	return values, true
}

// values reads a list of alleles.
func (l *loader) values(form *node, name string) (values []genome.Value, ordinal bool) {
	if len(form.items) == 0 {
		l.d.fail(form.at, "parameter %s has no values", name)
	}
	if len(form.items) > maxValues {
		l.d.fail(form.items[maxValues].at, "parameter %s has %d values, at most %d", name, len(form.items), maxValues)
	}
	first := form.items[0]
	floats := slices.ContainsFunc(form.items, func(n *node) bool { return n.kind == floatNode })
	number := func(n *node) bool { return n.kind == integerNode || n.kind == floatNode }
	for _, n := range form.items {
		if alike := n.kind == first.kind || floats && number(n) && number(first); !alike {
			l.d.fail(n.at, "parameter %s mixes %s with %s: its values must be of one kind", name, first.kind, n.kind)
		}
		kind, ok := kindOf[n.kind]
		if !ok {
			l.d.fail(n.at, "parameter %s: a value is %s, expected numbers, strings or booleans", name, n.kind)
		}
		if floats && number(n) {
			kind = genome.KindFloat
		}
		v, ok := n.allele(kind)
		if !ok {
			l.d.fail(n.at, "parameter %s: a value must be a finite number", name)
		}
		if slices.Contains(values, v) {
			l.d.fail(n.at, "parameter %s has the value %s twice", name, v)
		}
		values = append(values, v)
	}
	return values, number(first)
}

// kindOf are the kinds of alleles.
var kindOf = map[nodeKind]genome.Kind{integerNode: genome.KindInt, floatNode: genome.KindFloat, boolNode: genome.KindBool, stringNode: genome.KindString}

// allele converts a TOML value to an allele of a kind.
func (n *node) allele(kind genome.Kind) (genome.Value, bool) {
	if kind == genome.KindFloat {
		x, ok := n.number()
		return genome.Float(x), ok
	}
	v, err := genome.ValueOf(n.value)
	return v, err == nil && v.Kind() == kind
}

// binary reads the requirements on the compiled code.
func (l *loader) binary(t *binaryTable, im *Implementation, params map[string]any) {
	if t.Require != nil {
		for _, n := range t.Require.items {
			var r Requirement
			switch n.kind {
			case stringNode:
				r.Pattern = l.patterns([]*node{n})[0]
			case tableNode:
				var rt requirementTable
				l.d.decode(n, &rt)
				r = Requirement{Pattern: l.patterns([]*node{rt.Pattern})[0], When: rt.When.str, when: l.compile(rt.When, params)}
			default:
				l.d.fail(n.at, "a requirement is %s, expected a pattern or { pattern = '...', when = \"...\" }", n.kind)
			}
			im.Binary.Require = append(im.Binary.Require, r)
		}
	}
	im.Binary.Forbid = l.patterns(t.Forbid)
	alien := "%s means nothing to the " + im.Backend + " backend: remove it"
	im.Binary.MaxStack = l.most("max_stack", t.MaxStack, true, alien)
	im.Binary.MaxRegisters = l.most(backend.MaxRegisters, t.MaxRegisters, im.on().Has(backend.MaxRegisters), alien)
	im.Binary.MaxSpill = l.most(backend.MaxSpill, t.MaxSpill, im.on().Has(backend.MaxSpill), alien)
}

// most reads a bound on what compiled code may use; alien is the message where the backend
// does not have it.
func (l *loader) most(key string, n *node, has bool, alien string) *int64 {
	if n == nil {
		return nil
	}
	x := n.value.(int64)
	if x < 0 {
		l.d.fail(n.at, "%s is %d, expected at least 0", key, x)
	}
	if !has {
		l.d.fail(n.key, alien, key)
	}
	return &x
}

// bound reads a bound on a profiler's counter.
func (l *loader) bound(t *boundTable, params map[string]any) Bound {
	number := func(key string, n *node) *float64 {
		if n == nil {
			return nil
		}
		x, ok := n.number()
		if !ok || x < 0 {
			l.d.fail(n.at, "%s must be a finite number, not below 0", key)
		}
		return &x
	}
	b := Bound{Counter: t.Counter.str, Min: number("min", t.Min), Max: number("max", t.Max), When: t.When.text(), when: l.compile(t.When, params)}
	switch {
	case b.Max == nil && (b.Min == nil || *b.Min == 0):
		l.d.fail(t.Table.key, "[[implementation.profile]] bounds nothing: add min, above 0, or max")
	case b.Min != nil && b.Max != nil && *b.Min > *b.Max:
		l.d.fail(t.Min.at, "min is %g, above max, which is %g", *b.Min, *b.Max)
	}
	return b
}

// launches reads the kernels of a candidate, in the order in which they run.
func (l *loader) launches(list []*launchTable, im *Implementation, names map[string]any) *Launch {
	if len(list) > MaxKernels {
		l.d.fail(list[MaxKernels].Table.key, "a candidate has at most %d kernels: remove this one", MaxKernels)
	}
	first := l.launch(list[0], im, names)
	if n := list[0].Dependent; n != nil {
		l.d.fail(n.key, "dependent is for a kernel that follows another of the candidate, and this is the first: remove it")
	}
	if n := list[0].Entry; n != nil && n.str != im.Entry {
		l.d.fail(n.at, "the first kernel is the entry, %s, and this names %q: remove this one, or correct one of the two", im.Entry, n.str)
	}
	first.Entry = "" // the implementation's own entry
	for _, t := range list[1:] {
		next := l.launch(t, im, names)
		switch {
		case t.Entry == nil:
			l.d.lacks(t.Table, "entry", `"combine"`)
		case t.Workspace != nil:
			l.d.fail(t.Workspace.key, "all kernels of a candidate get the workspace that the first declares: remove this one, or give the first the larger of the two")
		}
		if im.in != nil {
			l.name(t.Entry, "entry")
		} else {
			l.function(t.Entry)
		}
		first.Then = append(first.Then, next)
	}
	return first
}

// launch reads one kernel of a candidate.
func (l *loader) launch(t *launchTable, im *Implementation, names map[string]any) *Launch {
	g := l.geometry(t.Table, t.Grid, t.Block, names)
	g.Entry = t.Entry.text()
	g.Shared, g.shared = t.Shared.text(), l.compile(t.Shared, names)
	g.Workspace, g.workspace = t.Workspace.text(), l.compile(t.Workspace, names)
	if t.Cluster != nil {
		n := t.Table.children["cluster"]
		if len(t.Cluster) < 1 || len(t.Cluster) > 3 {
			l.d.fail(n.at, "cluster has %d expressions, expected one to three", len(t.Cluster))
		}
		if capability(im.Target) < hopper {
			l.d.fail(n.key, "clusters need a target of sm_90 or above, and this is %s: raise the target, or remove cluster", im.Target)
		}
		for _, a := range t.Cluster {
			g.cluster = append(g.cluster, l.compile(a, names))
		}
		g.Cluster = strs(t.Cluster)
	}
	g.Cooperative, g.cooperative = t.Cooperative.text(), l.compile(t.Cooperative, names)
	g.Dependent, g.dependent = t.Dependent.text(), l.compile(t.Dependent, names)
	return g
}

// hopper is the lowest compute capability with clusters and tensor maps: ten times the
// major plus the minor number.
const hopper = 90

// RunsOn says whether code for the implementation's target runs on a GPU of a compute
// capability: ten times the major plus the minor number. It is true for other backends.
func (im *Implementation) RunsOn(device int64) bool {
	least := int64(capability(im.Target))
	if !im.on().Has(backend.Target) || least == 0 {
		return true
	}
	if exact := strings.TrimRight(im.Target, "af") != im.Target; exact {
		return device == least
	}
	return device >= least
}

// capability is the compute capability of a target for CUDA; 0 if it has none.
func capability(target string) int {
	n, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(target, "sm_"), "af"))
	if err != nil {
		return 0
	}
	return n
}

// geometry reads the grid and block of a table.
func (l *loader) geometry(table *node, grid, block []*node, names map[string]any) *Launch {
	axes := func(key string, list []*node) (out []*expression) {
		if list == nil {
			l.d.lacks(table, key, `["1"]`)
		}
		if len(list) < 1 || len(list) > 3 {
			l.d.fail(table.children[key].at, "%s has %d expressions, expected one to three", key, len(list))
		}
		for _, a := range list {
			out = append(out, l.compile(a, names))
		}
		return out
	}
	return &Launch{grid: axes("grid", grid), Grid: strs(grid), block: axes("block", block), Block: strs(block)}
}

func (l *loader) baseline(t *baselineTable, im *Implementation) {
	n := t.Table
	forms := 0
	for _, form := range []*node{t.Genome, t.Source, t.Library} {
		if form != nil {
			forms++
		}
	}
	// A genome may stand in for a library that is not installed.
	if instead := t.Library != nil && t.Genome != nil && t.Source == nil && im.on().Has(backend.Launch); forms != 1 && !instead {
		l.d.fail(n.key, `[implementation.baseline] needs exactly one of genome = {...}, source = "baseline.c" and library = "libname.so.1:symbol"; for GPUs it may have a library, and a genome for where that is not installed`)
	}
	for _, key := range []string{"entry", "flags"} {
		if e := n.children[key]; e != nil && t.Source == nil {
			l.d.fail(e.key, "[implementation.baseline] has %s without a source: remove it, or add source", key)
		}
	}
	b := &Baseline{owner: im}
	im.baseline = b
	switch {
	case t.Source != nil && im.on().Has(backend.Launch):
		l.d.fail(t.Source.key, "a source has no launch geometry: give the %s backend a baseline with a genome or a library", im.Backend)
	case t.Source != nil:
		b.Kind = BaselineSource
		s := l.source(n, t.Source, t.Entry, "baseline")
		b.Source, b.Flags = &s, strs(t.Flags)
		for _, f := range t.Flags {
			if err := CheckFlag(im.Backend, f.str); err != nil && l.def.Uploaded {
				l.d.fail(f.at, "%v", err)
			}
		}
	case t.Library != nil:
		m := library.FindStringSubmatch(t.Library.str)
		if m == nil {
			l.d.fail(t.Library.at, `library %q is not of the form "libname.so.1:symbol"`, t.Library.str)
		}
		if l.def.Uploaded && strings.Contains(m[1], "/") {
			l.d.fail(t.Library.at, "library %q: an uploaded kernel names no file: give the library's name alone", t.Library.str)
		}
		b.Kind, b.Library, b.Symbol = BaselineLibrary, m[1], m[2]
	default:
		b.Kind = BaselineGenome
	}
	if t.Genome != nil {
		l.baselineGenome(t.Genome, im)
	}
}

// baselineGenome reads the genome of a baseline, which must be valid at each tuned
// shape separately.
func (l *loader) baselineGenome(n *node, im *Implementation) {
	names := make([]string, len(im.Parameters))
	for i, g := range im.Parameters {
		names[i] = g.Name
	}
	l.d.only(n, "the baseline genome", names...)
	b := im.baseline
	b.Genome, b.exprs = map[string]any{}, map[string]*expression{}
	for _, g := range im.Parameters {
		v := n.children[g.Name]
		if v == nil {
			continue
		}
		if v.kind == stringNode && g.Values[0].Kind() == genome.KindInt {
			b.Genome[g.Name], b.exprs[g.Name] = v.str, l.compile(v, l.env)
			continue
		}
		x, ok := v.allele(g.Values[0].Kind())
		if !ok || !slices.Contains(g.Values, x) {
			list := make([]string, len(g.Values))
			for i, v := range g.Values {
				list[i] = v.String()
			}
			if len(list) > 16 {
				list = append(list[:15], "...", list[len(list)-1])
			}
			l.d.fail(v.at, "the baseline gives %s a value that the parameter does not have: it has %s", g.Name, strings.Join(list, ", "))
		}
		b.Genome[g.Name] = x.Any()
	}
	if msg := im.refuse(); msg != "" {
		l.d.fail(n.at, "the baseline genome is not in the space: %s", msg)
	}
}

// refuse says why a baseline genome is not in the space of one of the tuned
// shapes, or "". Spaces over the genome's own values give the same answer as the whole
// space, and cost nothing.
func (im *Implementation) refuse() string {
	for _, s := range im.Problem().ShapesFor(Tune) {
		values, err := im.baseline.At(s)
		if err != nil {
			return err.Error()
		}
		for name := range im.baseline.exprs {
			g := im.Parameters[slices.IndexFunc(im.Parameters, func(g genome.Gene) bool { return g.Name == name })]
			if x, err := genome.ValueOf(values[name]); err != nil || !slices.Contains(g.Values, x) {
				return fmt.Sprintf("at shape %s: %s gives %v, which is not a value of %s", s.Name, im.baseline.exprs[name].src, values[name], name)
			}
		}
		genes := im.narrowed(values)
		env := s.env()
		maps.Copy(env, leastLimits(im.Target))
		free, err := genome.NewSpace(genes, nil, env)
		if err != nil {
			return err.Error()
		}
		if _, err := free.FromMap(values); err != nil {
			return "at shape " + s.Name + ": " + strings.TrimPrefix(err.Error(), "invalid genome: ")
		}
		maps.Copy(env, values)
		for i, e := range im.checks {
			if slices.ContainsFunc(e.prog.Names(), func(n string) bool { _, ok := env[n]; return !ok }) {
				continue // the gene is not active
			}
			if ok, err := e.prog.Bool(env); err != nil || !ok {
				c := im.Constraints[i]
				return "at shape " + s.Name + " it breaks the constraint " + c.Expr + " (" + c.Why + ")"
			}
		}
	}
	return ""
}

// narrowed restricts every parameter to the value that it has in a genome.
func (im *Implementation) narrowed(values map[string]any) []genome.Gene {
	genes := slices.Clone(im.Parameters)
	for i, g := range genes {
		genes[i].Values = g.Values[:1]
		if x, err := genome.ValueOf(values[g.Name]); err == nil {
			genes[i].Values = []genome.Value{x}
		}
	}
	return genes
}
