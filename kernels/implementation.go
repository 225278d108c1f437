package kernels

import (
	"fmt"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strings"

	"github.com/evotune/evotune/genome"
)

// Backends lists the backends that definitions may name.
func Backends() []string { return []string{"cpu", "cuda"} }

func (l *loader) implementation(n *node) *Implementation {
	t := l.d.table(n, "[[implementation]]", "name", "backend", "target", "template", "entry", "flags", "threads",
		"include", "blocking", "parameter", "constraint", "baseline", "launch", "binary", "profile")
	im := &Implementation{definition: l.def, node: n, params: map[string]*node{}, whens: map[string]*expression{}}
	var e *node
	if im.Name, e = t.needText("name", `"plain"`); e != nil && !shapeName.MatchString(im.Name) {
		l.d.fail(e.at, "the name %q has other characters than letters, digits and . _ + -: correct it", im.Name)
	}
	if im.Backend, e = t.needText("backend", `"cpu"`); !l.oneOf(e, "backend", Backends()) {
		return im
	}
	im.Target, _ = t.needText("target", `"native"`)
	im.Entry, e = t.needText("entry", `"`+strings.ReplaceAll(l.def.Name, "-", "_")+`"`)
	if !l.name(e, "entry") {
		return im
	}
	env := map[string]any{}
	constants := defaultLimits()
	for _, d := range l.def.Problem.Dims {
		constants[d] = 1
	}
	l.parameters(t, im, env, constants)
	all := maps.Clone(env)
	maps.Copy(all, constants)
	l.constraints(t, im, all)

	if text, e := t.text("threads"); e != nil {
		im.ThreadsExpr = text
		im.threads = l.compile(e, env)
	}
	l.templates(t, im)
	for _, e := range t.texts("blocking") {
		im.Blocking = append(im.Blocking, l.pattern(e))
	}
	l.binary(t, im, env)
	l.profile(t, im, env)
	l.launch(t, im, env)
	if e := t.get("baseline", tableNode); e != nil && l.d.err == nil {
		l.baseline(e, im)
	}
	return im
}

// pattern compiles a regular expression.
func (l *loader) pattern(n *node) *regexp.Regexp {
	re, err := regexp.Compile(n.str)
	if err != nil {
		l.d.fail(n.at, "%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re
}

// parameters reads the parameters and adds their names to env.
func (l *loader) parameters(t table, im *Implementation, env, constants map[string]any) {
	if l.list(t, "parameter", "implementation.parameter") == nil {
		if l.d.err == nil {
			l.d.fail(t.n.key, "implementation %s has no parameter, so that there is nothing to search: add [[implementation.parameter]]", im.Name)
		}
		return
	}
	type conditional struct {
		name string
		when *node
	}
	var whens []conditional
	seen := map[string]*node{}
	for _, n := range t.tables("parameter") {
		if l.d.err != nil {
			return
		}
		pt := l.d.table(n, "[[implementation.parameter]]", "name", "values", "range", "step", "pow2", "bool", "when")
		var g genome.Gene
		var e *node
		if g.Name, e = pt.needText("name", `"TILE"`); e == nil {
			return
		}
		switch {
		case !identifier.MatchString(g.Name):
			l.d.fail(e.at, "parameter %q: use letters, digits and _, not a digit first", g.Name)
		case g.Name == ImplementationGene:
			l.d.fail(e.at, "parameter %q is the choice among implementations: choose another name", g.Name)
		case slices.Contains(l.def.Problem.Dims, g.Name):
			l.d.fail(e.at, "parameter %s has the name of a dimension: choose another", g.Name)
		case slices.Contains(limitNames(), g.Name):
			l.d.fail(e.at, "parameter %s has the name of a device limit: choose another", g.Name)
		}
		if l.d.err != nil || !l.fresh(seen, e, "parameter") {
			return
		}
		g.Values, g.Ordinal = l.domain(pt, g.Name)
		if l.d.err != nil {
			return
		}
		env[g.Name] = g.Values[0].Any()
		if _, err := genome.CompileExpr("1", env); err != nil {
			l.d.fail(e.at, "parameter: %v", err)
			return
		}
		if text, w := pt.text("when"); w != nil {
			g.When = text
			whens = append(whens, conditional{g.Name, w})
		}
		im.params[g.Name] = e
		im.Parameters = append(im.Parameters, g)
	}
	for _, w := range whens {
		names := maps.Clone(env)
		maps.Copy(names, constants)
		ex := l.compile(w.when, names)
		if ex == nil {
			return
		}
		if slices.Contains(ex.prog.Names(), w.name) {
			l.d.fail(w.when.at, "the condition of %s names %s itself: it can depend on other parameters only", w.name, w.name)
			return
		}
		im.whens[w.name] = ex
	}
	l.cycles(im)
}

// cycles refuses conditions that hang on one another in a circle.
func (l *loader) cycles(im *Implementation) {
	names := make([]string, len(im.Parameters))
	for i, g := range im.Parameters {
		names[i] = g.Name
	}
	trail := genome.Cycle(names, func(name string) []string {
		if im.whens[name] == nil {
			return nil
		}
		return im.whens[name].prog.Names()
	})
	if trail != nil {
		l.d.fail(im.whens[trail[0]].at.at, "parameter %s exists only when others exist that depend on it: break the circle", trail[0])
	}
}

// domain reads the values of a parameter.
func (l *loader) domain(t table, name string) (values []genome.Value, ordinal bool) {
	var form *node
	count := 0
	for _, key := range []string{"values", "range", "pow2", "bool"} {
		if n := t.n.children[key]; n != nil {
			form = n
			count++
		}
	}
	if count != 1 {
		l.d.fail(t.n.key, "parameter %s needs exactly one of values = [...], range = [lo, hi], pow2 = [lo, hi] and bool = true", name)
		return nil, false
	}
	if n := t.n.children["step"]; n != nil && t.n.children["range"] == nil {
		l.d.fail(n.key, "step goes with range only: remove it")
		return nil, false
	}
	switch {
	case t.n.children["bool"] != nil:
		if n := t.get("bool", boolNode); n != nil && !n.boolean {
			l.d.fail(n.at, "write bool = true: the parameter then is false or true")
		}
		return []genome.Value{genome.Bool(false), genome.Bool(true)}, false
	case t.n.children["values"] != nil:
		return l.values(t, name)
	}
	key := "range"
	if t.n.children["pow2"] != nil {
		key = "pow2"
	}
	if t.get(key, arrayNode) == nil {
		return nil, false
	}
	if len(form.items) != 2 || form.items[0].kind != integerNode || form.items[1].kind != integerNode {
		l.d.fail(form.at, "%s of %s must be two integers: %s = [1, 64]", key, name, key)
		return nil, false
	}
	lo, hi := form.items[0].integer, form.items[1].integer
	if lo > hi {
		l.d.fail(form.at, "%s of %s is empty: %d is above %d", key, name, lo, hi)
		return nil, false
	}
	if key == "pow2" {
		for _, item := range form.items {
			if item.integer < 1 || bits.OnesCount64(uint64(item.integer)) != 1 {
				l.d.fail(item.at, "pow2 of %s: %d is no power of two", name, item.integer)
				return nil, false
			}
		}
		for v := lo; v > 0 && v <= hi; v *= 2 {
			values = append(values, genome.Int(v))
		}
		return values, true
	}
	step := int64(1)
	if n := t.get("step", integerNode); n != nil {
		if step = n.integer; step < 1 {
			l.d.fail(n.at, "step of %s is %d, expected at least 1", name, step)
			return nil, false
		}
	}
	// hi-lo may be beyond int64, but never beyond uint64.
	if n := (uint64(hi) - uint64(lo)) / uint64(step); n >= maxValues {
		l.d.fail(form.at, "range of %s has more than %d values: use a larger step, pow2, or a list of values", name, maxValues)
		return nil, false
	}
	for v, last := lo, false; !last; v += step {
		values = append(values, genome.Int(v))
		last = uint64(hi)-uint64(v) < uint64(step)
	}
	return values, true
}

// values reads a list of alleles.
func (l *loader) values(t table, name string) (values []genome.Value, ordinal bool) {
	form := t.get("values", arrayNode)
	if form == nil {
		return nil, false
	}
	if len(form.items) == 0 {
		l.d.fail(form.at, "parameter %s has no values", name)
		return nil, false
	}
	if len(form.items) > maxValues {
		l.d.fail(form.items[maxValues].at, "parameter %s has %d values, at most %d", name, len(form.items), maxValues)
		return nil, false
	}
	floats := slices.ContainsFunc(form.items, func(n *node) bool { return n.kind == floatNode })
	kindOf := func(n *node) nodeKind {
		if n.kind == integerNode && floats {
			return floatNode
		}
		return n.kind
	}
	for _, n := range form.items {
		kind := kindOf(n)
		if first := form.items[0]; kind != kindOf(first) {
			l.d.fail(n.at, "parameter %s mixes %s with %s: its values must be of one kind", name, first.kind, n.kind)
			return nil, false
		}
		var v genome.Value
		switch kind {
		case integerNode:
			v = genome.Int(n.integer)
		case floatNode:
			x, ok := n.number()
			if !ok {
				l.d.fail(n.at, "parameter %s: a value must be a finite number", name)
				return nil, false
			}
			v = genome.Float(x)
		case boolNode:
			v = genome.Bool(n.boolean)
		case stringNode:
			v = genome.Str(n.str)
		default:
			l.d.fail(n.at, "parameter %s: a value is %s, expected numbers, strings or booleans", name, n.kind)
			return nil, false
		}
		if slices.Contains(values, v) {
			l.d.fail(n.at, "parameter %s has the value %s twice", name, v)
			return nil, false
		}
		values = append(values, v)
	}
	return values, values[0].Kind() == genome.KindInt || values[0].Kind() == genome.KindFloat
}

func (l *loader) constraints(t table, im *Implementation, env map[string]any) {
	list := t.tables("constraint")
	if len(list) > maxList {
		l.d.fail(list[maxList].key, "there are %d constraints, at most %d", len(list), maxList)
	}
	for _, n := range list {
		if l.d.err != nil {
			return
		}
		ct := l.d.table(n, "[[implementation.constraint]]", "expr", "why", "search")
		var c genome.Constraint
		var e *node
		c.Expr, e = ct.needText("expr", `"TILE <= 64"`)
		c.Why, _ = ct.needText("why", `"what would go wrong"`)
		ex := l.compile(e, env)
		im.checks = append(im.checks, ex)
		im.Constraints = append(im.Constraints, c)
		search := ct.get("search", boolNode)
		im.sparing = append(im.sparing, search != nil && search.boolean)
	}
}

// templates parses the template and the flags, and reads the includes.
func (l *loader) templates(t table, im *Implementation) {
	var n *node
	if im.Template, n = t.needText("template", `"kernel.c.tmpl"`); n == nil || l.d.err != nil {
		return
	}
	text, ok := l.file(n)
	if !ok {
		return
	}
	file := l.path(im.Template)
	var err error
	if im.main, err = parseUnit(file, text); err != nil {
		l.d.err = err
		return
	}
	for _, f := range t.texts("flags") {
		u, err := l.flag(f)
		if err != nil {
			l.d.err = err
			return
		}
		im.Flags = append(im.Flags, f.str)
		im.flags = append(im.flags, u)
	}
	im.files = map[string]string{}
	for _, f := range t.texts("include") {
		if strings.HasPrefix(f.str, "evotune_") {
			l.d.fail(f.at, "include %q: names that begin with evotune_ belong to generated files: choose another", f.str)
			return
		}
		if _, ok := im.files[f.str]; ok {
			l.d.fail(f.at, "include %q is listed twice", f.str)
			return
		}
		text, ok := l.file(f)
		if !ok {
			return
		}
		im.files[f.str] = text
		im.Include = append(im.Include, f.str)
	}
}

// requirement reads a pattern, or a table with a pattern and a condition.
func (l *loader) requirement(n *node, env map[string]any) Requirement {
	switch n.kind {
	case stringNode:
		return Requirement{Pattern: l.pattern(n)}
	case tableNode:
		rt := l.d.table(n, "a requirement", "pattern", "when")
		var r Requirement
		if _, e := rt.needText("pattern", `'^HMMA'`); e != nil {
			r.Pattern = l.pattern(e)
		}
		var e *node
		if r.When, e = rt.needText("when", `"TENSOR_CORES"`); e != nil {
			r.when = l.compile(e, env)
		}
		return r
	}
	l.d.fail(n.at, "a requirement is %s, expected a pattern or { pattern = '...', when = \"...\" }", n.kind)
	return Requirement{}
}

func (l *loader) binary(t table, im *Implementation, env map[string]any) {
	n := t.get("binary", tableNode)
	if n == nil {
		return
	}
	bt := l.d.table(n, "[implementation.binary]", "require", "forbid", "max_stack", "max_registers", "max_spill")
	if e := bt.get("require", arrayNode); e != nil {
		for _, item := range e.items {
			im.Binary.Require = append(im.Binary.Require, l.requirement(item, env))
		}
	}
	for _, e := range bt.texts("forbid") {
		im.Binary.Forbid = append(im.Binary.Forbid, l.pattern(e))
	}
	bound := func(key string) *int64 {
		e := bt.get(key, integerNode)
		if e == nil {
			return nil
		}
		if e.integer < 0 {
			l.d.fail(e.at, "%s is %d, expected at least 0", key, e.integer)
		}
		if im.Backend == "cpu" && key != "max_stack" {
			l.d.fail(e.key, "%s means nothing to the cpu backend: remove it", key)
		}
		return &e.integer
	}
	im.Binary.MaxStack, im.Binary.MaxRegisters, im.Binary.MaxSpill = bound("max_stack"), bound("max_registers"), bound("max_spill")
}

func (l *loader) profile(t table, im *Implementation, env map[string]any) {
	list := t.tables("profile")
	switch {
	case len(list) > maxList:
		l.d.fail(list[maxList].key, "there are %d bounds on the profile, at most %d", len(list), maxList)
	case len(list) > 0 && im.Backend == "cpu":
		l.d.fail(list[0].key, "profile means nothing to the cpu backend: remove it")
	}
	for _, n := range list {
		if l.d.err != nil {
			return
		}
		pt := l.d.table(n, "[[implementation.profile]]", "counter", "min", "max", "when")
		var b Bound
		var e *node
		if b.Counter, e = pt.needText("counter", `"tensor pipe active"`); !l.oneOf(e, "counter", Counters()) {
			return
		}
		number := func(key string) *float64 {
			e := pt.get(key, integerNode, floatNode)
			if e == nil {
				return nil
			}
			x, ok := e.number()
			if !ok || x < 0 {
				l.d.fail(e.at, "%s must be a finite number, not below 0", key)
			}
			return &x
		}
		b.Min, b.Max = number("min"), number("max")
		switch {
		case l.d.err != nil:
			return
		case b.Max == nil && (b.Min == nil || *b.Min == 0):
			l.d.fail(n.key, "[[implementation.profile]] bounds nothing: add min, above 0, or max")
		case b.Min != nil && b.Max != nil && *b.Min > *b.Max:
			l.d.fail(n.children["min"].at, "min is %g, above max, which is %g", *b.Min, *b.Max)
		}
		if b.When, e = pt.text("when"); e != nil {
			b.when = l.compile(e, env)
		}
		im.Profile = append(im.Profile, b)
	}
}

func (l *loader) launch(t table, im *Implementation, env map[string]any) {
	n := t.get("launch", tableNode)
	if l.d.err != nil {
		return
	}
	if im.Backend == "cpu" {
		if n != nil {
			l.d.fail(n.key, "the cpu backend calls the entry once and has no launch geometry: remove [implementation.launch]")
		}
		return
	}
	if n == nil {
		l.d.fail(t.n.key, "implementation %s lacks its launch geometry: add [implementation.launch] with grid and block", im.Name)
		return
	}
	lt := l.d.table(n, "[implementation.launch]", "grid", "block", "shared", "workspace")
	names := maps.Clone(env)
	for _, d := range l.def.Problem.Dims {
		names[d] = 1
	}
	im.Launch = l.geometry(lt, names)
	if text, e := lt.text("shared"); e != nil {
		im.Launch.Shared = text
		im.Launch.shared = l.compile(e, names)
	}
	if text, e := lt.text("workspace"); e != nil {
		im.Launch.Workspace = text
		im.Launch.workspace = l.compile(e, names)
	}
}

// geometry reads grid and block.
func (l *loader) geometry(lt table, names map[string]any) *Launch {
	axes := func(key string) (src []string, out []*expression) {
		e := lt.need(key, key+` = ["1"]`, arrayNode)
		if e == nil {
			return nil, nil
		}
		list := lt.texts(key)
		if len(list) < 1 || len(list) > 3 {
			l.d.fail(e.at, "%s has %d expressions, expected one to three", key, len(list))
			return nil, nil
		}
		for _, a := range list {
			out = append(out, l.compile(a, names))
		}
		return strs(list), out
	}
	out := &Launch{}
	out.Grid, out.grid = axes("grid")
	out.Block, out.block = axes("block")
	return out
}

func (l *loader) baseline(n *node, im *Implementation) {
	t := l.d.table(n, "[implementation.baseline]", "genome", "source", "entry", "flags", "library")
	count := 0
	for _, key := range []string{"genome", "source", "library"} {
		if n.children[key] != nil {
			count++
		}
	}
	if count != 1 {
		l.d.fail(n.key, `[implementation.baseline] needs exactly one of genome = {...}, source = "baseline.c" and library = "libname.so.1:symbol"`)
		return
	}
	b := &Baseline{owner: im}
	im.baseline = b
	for _, key := range []string{"entry", "flags"} {
		if e := n.children[key]; e != nil && n.children["source"] == nil {
			l.d.fail(e.key, "[implementation.baseline] has %s without a source: remove it, or add source", key)
			return
		}
	}
	switch {
	case n.children["source"] != nil && im.Backend != "cpu":
		l.d.fail(n.children["source"].key, "a source has no launch geometry: give the %s backend a baseline with a genome or a library", im.Backend)
	case n.children["source"] != nil:
		b.Kind = BaselineSource
		s, ok := l.source(t, "baseline.c")
		if !ok {
			return
		}
		b.Source = &s
		b.Flags = strs(t.texts("flags"))
	case n.children["library"] != nil:
		b.Kind = BaselineLibrary
		text, e := t.needText("library", `"libname.so.1:symbol"`)
		if e == nil {
			return
		}
		m := library.FindStringSubmatch(text)
		if m == nil {
			l.d.fail(e.at, `library %q is not of the form "libname.so.1:symbol"`, text)
			return
		}
		b.Library, b.Symbol = m[1], m[2]
	default:
		b.Kind = BaselineGenome
		l.baselineGenome(t, im)
	}
}

// baselineGenome reads the genome of a baseline, which must be valid at every
// tuned shape by itself.
func (l *loader) baselineGenome(t table, im *Implementation) {
	n := t.get("genome", tableNode)
	if n == nil {
		return
	}
	names := make([]string, len(im.Parameters))
	for i, g := range im.Parameters {
		names[i] = g.Name
	}
	l.d.table(n, "the baseline genome", names...)
	if l.d.err != nil {
		return
	}
	dims := map[string]any{}
	for _, d := range l.def.Problem.Dims {
		dims[d] = 1
	}
	im.baseline.exprs = map[string]*expression{}
	values := map[string]any{}
	for _, g := range im.Parameters {
		v := n.children[g.Name]
		if v == nil {
			continue
		}
		if v.kind == stringNode && g.Values[0].Kind() == genome.KindInt {
			values[g.Name] = v.str
			im.baseline.exprs[g.Name] = l.compile(v, dims)
			if l.d.err != nil {
				return
			}
			continue
		}
		x, ok := v.value(g.Values[0].Kind())
		if !ok || !slices.Contains(g.Values, x) {
			list := make([]string, len(g.Values))
			for i, v := range g.Values {
				list[i] = v.String()
			}
			if len(list) > 16 {
				list = append(list[:15], "...", list[len(list)-1])
			}
			l.d.fail(v.at, "the baseline gives %s a value that the parameter does not have: it has %s", g.Name, strings.Join(list, ", "))
			return
		}
		values[g.Name] = x.Any()
	}
	im.baseline.Genome = values
	if msg := im.refuse(); msg != "" {
		l.d.fail(n.at, "the baseline genome is not in the space: %s", msg)
	}
}

// value gives a TOML value as an allele of a kind.
func (n *node) value(kind genome.Kind) (genome.Value, bool) {
	switch {
	case kind == genome.KindInt && n.kind == integerNode:
		return genome.Int(n.integer), true
	case kind == genome.KindFloat:
		x, ok := n.number()
		return genome.Float(x), ok
	case kind == genome.KindBool && n.kind == boolNode:
		return genome.Bool(n.boolean), true
	case kind == genome.KindString && n.kind == stringNode:
		return genome.Str(n.str), true
	}
	return genome.Value{}, false
}

// refuse says why a baseline genome is not in the space of one of the tuned
// shapes, or "". Spaces over the genome's own values alone are as good as the
// whole one, and cost nothing.
func (im *Implementation) refuse() string {
	for _, s := range im.Problem().ShapesFor(Tune) {
		values, err := im.baseline.At(s)
		if err != nil {
			return err.Error()
		}
		for name := range im.baseline.exprs {
			g := im.Parameters[slices.IndexFunc(im.Parameters, func(g genome.Gene) bool { return g.Name == name })]
			if x, err := genome.ValueOf(values[name]); err != nil || !slices.Contains(g.Values, x) {
				return fmt.Sprintf("at shape %s: %s gives %v, which is no value of %s", s.Name, im.baseline.exprs[name].src, values[name], name)
			}
		}
		genes := im.narrowed(values)
		env := s.env()
		maps.Copy(env, defaultLimits())
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
				continue // of a gene that is not active
			}
			if ok, err := e.prog.Bool(env); err != nil || !ok {
				c := im.Constraints[i]
				return "at shape " + s.Name + " it breaks the constraint " + c.Expr + " (" + c.Why + ")"
			}
		}
	}
	return ""
}

// narrowed gives every parameter the one value that it has in a genome.
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
