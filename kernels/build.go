package kernels

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/naming"
)

var (
	kernelName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	shapeName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$`)
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
	library    = regexp.MustCompile(`^([^:\s]+):([A-Za-z_][A-Za-z0-9_]*)$`)
)

// keywords cannot be names in the C prototype.
var keywords = strings.Fields(`auto break case char const continue default do double else enum extern float for goto
	if inline int long register restrict return short signed sizeof static struct switch typedef union unsigned void
	volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert
	_Thread_local asm typeof class namespace new private protected public template this virtual operator friend
	delete catch throw try using bool true false main`)

// CheckName says why a kernel cannot have a name; nil if it can.
func CheckName(name string) error {
	if !kernelName.MatchString(name) {
		return fmt.Errorf("%q cannot name a kernel: use a-z, 0-9, - and _, beginning with a letter or digit", name)
	}
	return nil
}

// Nameable says whether a definition can have a name, for a dimension or for something else.
func Nameable(name string, dim bool) bool {
	if slices.Contains(keywords, name) || strings.HasPrefix(name, "evotune_") || !identifier.MatchString(name) {
		return false
	}
	if !dim {
		return true
	}
	_, err := expr.Compile(name, map[string]any{name: 1})
	return err == nil && !slices.Contains(limitNames(), name)
}

// name checks a name that C code will see.
func (l *loader) name(n *node, what string) {
	switch {
	case !identifier.MatchString(n.str):
		l.d.fail(n.at, "%s %q cannot be a name in C: use letters, digits and _, not a digit first", what, n.str)
	case slices.Contains(keywords, n.str):
		l.d.fail(n.at, "%s %q is a word of C or C++: choose another", what, n.str)
	case strings.HasPrefix(n.str, "evotune_"):
		l.d.fail(n.at, "%s %q: names that begin with evotune_ belong to the generated header: choose another", what, n.str)
	}
}

// fresh notes a name that must not be taken.
func (l *loader) fresh(names map[string]*node, n *node, what string) {
	if prev := names[n.str]; prev != nil {
		l.d.fail(n.at, "%s %s: the name is already taken on line %d: choose another", what, n.str, l.d.line(prev.at))
	}
	names[n.str] = n
}

// compile compiles an expression over the names of env; nil if there is none.
func (l *loader) compile(n *node, env map[string]any) *expression {
	if n == nil {
		return nil
	}
	prog, err := expr.Compile(n.str, env)
	var fault *expr.Error
	if errors.As(err, &fault) {
		src := n.str
		if len(src) > 200 {
			src = src[:200] + "..."
		}
		l.d.fail(n.within(fault.Offset), "in the expression %q: %s", src, fault.Msg)
	} else if err != nil {
		l.d.fail(n.at, "%v", err)
	}
	return &expression{src: n.str, at: n, prog: prog}
}

// number compiles an expression over the dimensions that gives a number.
// It computes with floats where it can, since integers would overflow silently: 2*M*N*K
// may exceed 64 bits.
func (l *loader) number(n *node) *expression {
	e := l.compile(n, l.env)
	floats := make(map[string]any, len(l.env))
	for name := range l.env {
		floats[name] = 1.0
	}
	if prog, err := expr.Compile(e.src, floats); err == nil {
		e.prog = prog
	}
	return e
}

// definition builds the definition from the tables of kernel.toml.
func (l *loader) definition() {
	// A newer format may have keys that this package does not know: report the format,
	// not the keys.
	if n := l.d.root.children["format"]; n != nil {
		if format, ok := n.value.(int64); ok && format > Format {
			l.d.fail(n.at, "format %d is newer than this evotune, which reads format %d: update evotune", format, Format)
		}
	}
	l.likes()
	in := &kernelTable{}
	l.d.decode(l.d.root, in)
	if in.Format.value != int64(Format) {
		l.d.fail(in.Format.at, "format %d is unknown: write format = %d", in.Format.value, Format)
	}
	if !kernelName.MatchString(in.Name.str) {
		l.d.fail(in.Name.at, "the name %q has other characters than a-z, 0-9, - and _: correct it", in.Name.str)
	}
	l.def = &Definition{Name: in.Name.str, Description: in.Description.str, License: in.License.text(), Dir: l.display, doc: l.d}
	_, err := fs.Stat(l.fsys, path.Join(l.dir, UploadedFile))
	l.def.Uploaded = !errors.Is(err, fs.ErrNotExist)
	l.problem(in.Problem)
	lines := map[string]*node{}
	for _, t := range in.Implementation {
		im := l.implementation(t)
		if prev := lines[im.Name]; prev != nil {
			l.d.fail(t.Name.at, "implementation %s is already declared on line %d: choose another name", im.Name, l.d.line(prev.key))
		}
		lines[im.Name] = t.Table
		l.def.Implementations = append(l.def.Implementations, im)
	}
	if len(in.Implementation) == 0 {
		l.d.fail(l.d.root.children["implementation"].at, "there is no implementation: add a table [[implementation]]")
	}
	l.baselines()
	if in.Torch != nil {
		l.def.Torch = l.torch(in.Torch)
	}
	l.settle()
	l.def.Hash, l.def.files = hashFiles("evotune kernel 1", l.texts), l.texts
}

// settle leaves out the problem that no implementation of a form has: that of its only backend takes its place.
func (l *loader) settle() {
	if !l.formed || len(l.def.Variants) != 1 {
		return
	}
	for backend, p := range l.def.Variants {
		if slices.ContainsFunc(l.def.Implementations, func(im *Implementation) bool { return im.Backend != backend }) {
			return
		}
		l.def.Problem, l.def.Variants = *p, nil
	}
}

// hashFiles hashes named texts such that different sets give different input.
func hashFiles(what string, texts map[string]string) string {
	h := sha256.New()
	add := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	add(what)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		add(name)
		add(texts[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// torch reads which functions of a Python file the PyTorch operator calls.
func (l *loader) torch(t *torchTable) *Torch {
	out := &Torch{File: t.Source.str, Text: l.file(t.Source, false)}
	for _, f := range []struct {
		n    *node
		name *string
	}{{t.Forward, &out.Forward}, {t.Backward, &out.Backward}} {
		if f.n == nil {
			continue
		}
		l.name(f.n, "function")
		*f.name = f.n.str
		if !regexp.MustCompile(`(?m)^def ` + f.n.str + `\s*\(`).MatchString(out.Text) {
			l.d.fail(f.n.at, "%s does not define the function %s: correct the name", out.File, f.n.str)
		}
	}
	if t.Forward == nil && t.Backward == nil {
		l.d.fail(t.Table.key, `[torch] names no function: add forward = "NAME", what PyTorch computes the kernel with, or backward = "NAME", its derivatives`)
	}
	return out
}

// likes merges into implementations what they share with others: the tables of a file
// that they name. What an implementation declares itself replaces the shared value, but
// parameters and constraints are added.
func (l *loader) likes() {
	list := l.d.root.children["implementation"]
	if list == nil {
		return
	}
	for _, im := range list.items {
		n := im.child("like")
		if n == nil || n.kind != stringNode {
			continue // decoding reports the error
		}
		common, err := l.d.take(l.path(n.str), []byte(l.file(n, true)))
		var fault *Error
		if errors.As(err, &fault) {
			panic(fault)
		}
		for _, key := range []string{"like", "name"} {
			if own := common.children[key]; own != nil {
				l.d.fail(own.key, "%s belongs to an implementation, not to what several share: remove it", key)
			}
		}
		for _, name := range common.names {
			child, own := common.children[name], im.children[name]
			switch added := name == "parameter" || name == "constraint"; {
			case own == nil:
				im.set(name, child)
			case added && own.tables && child.tables:
				own.items = slices.Concat(child.items, own.items)
			}
		}
	}
}

// baselines checks that every backend has exactly one.
func (l *loader) baselines() {
	owner := map[string]*Implementation{}
	for _, im := range l.def.Implementations {
		if im.baseline == nil {
			continue
		}
		if prev := owner[im.Backend]; prev != nil {
			l.d.fail(im.in.Baseline.Table.key, "the baseline for the %s backend is already declared on line %d: keep one of the two", im.Backend, l.d.line(prev.in.Baseline.Table.key))
		}
		owner[im.Backend] = im
	}
	for _, im := range l.def.Implementations {
		if owner[im.Backend] == nil {
			l.d.fail(im.in.Table.key, "no implementation for the %s backend has a baseline to measure speedups against: add [implementation.baseline] with a genome, a source or a library", im.Backend)
		}
	}
}

func (l *loader) problem(t *problemTable) {
	p := &l.def.Problem
	p.in, p.Cache, p.Oracle = t, Warm, Independent
	if t.Oracle != nil {
		p.Oracle = Oracle(t.Oracle.str)
	}
	names := map[string]*node{} // all parameters of the entry
	l.env = map[string]any{}
	for _, d := range t.Dims {
		l.name(d, "dimension")
		l.fresh(names, d, "dimension")
		if slices.Contains(limitNames(), d.str) {
			l.d.fail(d.at, "dimension %q has the name of a device limit: choose another", d.str)
		}
		l.env[d.str] = 1
		if _, err := expr.Compile("1", l.env); err != nil {
			l.d.fail(d.at, "dimension: %v", err)
		}
	}
	p.Dims = strs(t.Dims)
	if n := t.Table.children["dims"]; len(p.Dims) == 0 {
		l.d.fail(n.at, `a problem has at least one dimension: write dims = ["N"]`)
	} else if len(p.Dims) > maxList {
		l.d.fail(n.at, "%d dimensions are too many, at most %d", len(p.Dims), maxList)
	}
	l.costs(p, t.Operations, t.Bytes, t.Pipe, t.Cache)
	p.Reference = l.reference(t.Reference)
	if r := t.Reference.Cuda; r != nil {
		p.DeviceReference = &DeviceReference{Source: l.source(r.Table, r.Source, r.Entry, "reference"), Launch: *l.geometry(r.Table, r.Grid, r.Block, l.env)}
	}
	for _, b := range t.Buffer {
		l.name(b.Name, "buffer")
		l.fresh(names, b.Name, "buffer")
		p.Buffers = append(p.Buffers, l.buffer(b))
	}
	if i := slices.IndexFunc(p.Buffers, func(b Buffer) bool { return b.Data.Made() }); i >= 0 && !slices.ContainsFunc(p.Buffers, fresh) {
		l.d.fail(t.Buffer[i].Data.at, "no input has data that are drawn anew for every launch, so that a candidate could remember the answers: give one of them uniform, normal or integers")
	}
	if len(p.Outputs()) == 0 {
		l.d.fail(t.Table.key, `no buffer has role "out" or "inout": a kernel must write something`)
	}
	for _, s := range t.Scalar {
		l.name(s.Name, "scalar")
		l.fresh(names, s.Name, "scalar")
		p.Scalars = append(p.Scalars, l.scalar(s))
	}
	l.shapes(p, t.Table, t.Shape)
	l.tolerance(p, t.Table, t.Tolerance, "[problem.tolerance]")
	for _, c := range t.Control {
		p.Controls = append(p.Controls, l.control(c))
	}
	l.limited(p, t.Table)
	l.evaluate(p)
	for _, v := range t.Variant {
		l.variant(v)
	}
}

// fresh says that the contents of a buffer are drawn anew whenever they are needed.
func fresh(b Buffer) bool {
	return b.Role != Out && !b.Data.Made() && b.Data.Distribution != Constant
}

// costs reads the given bounds on the time of a launch.
func (l *loader) costs(p *Problem, operations, bytes, pipe, cache *node) {
	if operations != nil {
		p.OperationsExpr, p.operations = operations.str, l.number(operations)
	}
	if bytes != nil {
		p.BytesExpr, p.bytes = bytes.str, l.number(bytes)
	}
	if pipe != nil {
		p.Pipe = pipe.str
	}
	if cache != nil {
		p.Cache = Cache(cache.str)
	}
}

// limited checks that the peak that limits the operations is given.
func (l *loader) limited(p *Problem, table *node) {
	switch {
	case p.operations != nil && p.Pipe == "":
		l.d.lacks(table, "pipe", `"f32"`)
	case p.operations == nil && p.Pipe != "":
		l.d.fail(table.key, "pipe says which peak limits the operations, and %s has no operations: add them, or remove pipe", table.what)
	}
}

// variant reads the problem as another backend has it.
func (l *loader) variant(t *variantTable) {
	if l.def.Variants[t.Backend.str] != nil {
		l.d.fail(t.Backend.at, "there is a variant for the %s backend already: put both together", t.Backend.str)
	}
	p := l.def.Problem
	p.variant = t
	p.Buffers = slices.Clone(p.Buffers)
	l.costs(&p, t.Operations, t.Bytes, t.Pipe, t.Cache)
	l.limited(&p, t.Table)
	var all, inputs []string
	for _, b := range p.Buffers {
		all = append(all, b.Name)
		if b.Role != Out {
			inputs = append(inputs, b.Name)
		}
	}
	l.ofBuffers(&p, t.DType, "dtype", all, func(b *Buffer, n *node) {
		l.d.oneOf(n, "dtype", words["dtype"])
		if DType(n.str) != b.DType {
			b.Tolerance = nil // it was for the other type
		}
		if b.DType = DType(n.str); b.Unwritten && !b.DType.Float() {
			l.d.fail(n.at, "buffer %s has unwritten, and %s has no NaN that could stand for what is not written: choose a floating-point type", b.Name, b.DType)
		}
		if b.Role != Out {
			l.data(n, b.Data.String(), b.DType) // checks that the new type can hold it
			if !b.Kept() {
				b.Domain = b.Domain.within(b.DType)
			}
		}
	})
	for _, c := range p.Controls {
		if c.Kind != Swapped {
			continue
		}
		a, _ := p.Buffer(c.Buffers[0])
		if b, _ := p.Buffer(c.Buffers[1]); a.DType != b.DType {
			l.d.fail(t.DType.at, "a control swaps %s and %s, which are %s and %s here: only inputs of one type can be swapped", a.Name, b.Name, a.DType, b.DType)
		}
	}
	l.ofBuffers(&p, t.Domain, "domain", inputs, l.interval)
	if t.Table.children["shape"] != nil {
		p.Shapes = nil
		l.shapes(&p, t.Table, t.Shape)
	}
	l.tolerance(&p, t.Table, t.Tolerance, "[problem.variant.tolerance]")
	l.evaluate(&p)
	if l.def.Variants == nil {
		l.def.Variants = map[string]*Problem{}
	}
	l.def.Variants[t.Backend.str] = &p
}

// ofBuffers reads what a variant says about buffers, in a table with their names.
func (l *loader) ofBuffers(p *Problem, t *node, what string, names []string, read func(*Buffer, *node)) {
	if t == nil {
		return
	}
	l.d.only(t, what+" of a variant", names...)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		n := t.children[b.Name]
		if n == nil {
			continue
		}
		l.d.expect("the "+what+" of "+b.Name, n, stringNode)
		read(b, n)
	}
}

// reference reads the reference, which is in C or in Python.
func (l *loader) reference(t *referenceTable) Reference {
	switch {
	case (t.Source == nil) == (t.Python == nil):
		l.d.fail(t.Table.key, `[problem.reference] needs exactly one of source = "reference.c" and python = "reference.py"`)
	case t.Source != nil && t.Library != nil:
		l.d.fail(t.Library.key, "library is for a reference in Python: remove it")
	case t.Source != nil:
		return Reference{Source: l.source(t.Table, t.Source, t.Entry, "reference")}
	}
	return Reference{Source: l.source(t.Table, t.Python, t.Entry, "reference"), Python: true, Library: t.Library.text()}
}

// source reads a C or Python file and its entry, from a table.
func (l *loader) source(table, file, entry *node, example string) Source {
	return Source{File: file.str, Text: l.file(file, false), Entry: l.entry(table, entry, example)}
}

// entry reads the name of a function.
func (l *loader) entry(table, n *node, example string) string {
	if n == nil {
		l.d.lacks(table, "entry", strconv.Quote(example))
	}
	l.d.filled(n, "entry", strconv.Quote(example))
	l.name(n, "entry")
	return n.str
}

func (l *loader) buffer(t *bufferTable) Buffer {
	b := Buffer{Name: t.Name.str, DType: DType(t.DType.str), Role: Role(t.Role.str), Shape: strs(t.Shape)}
	if n := t.Table.children["shape"]; len(t.Shape) == 0 {
		l.d.fail(n.at, "buffer %s has no axis: write shape = [\"1\"] for a single element", b.Name)
	} else if len(t.Shape) > maxList {
		l.d.fail(n.at, "buffer %s has %d axes, at most %d", b.Name, len(t.Shape), maxList)
	}
	for _, a := range t.Shape {
		b.axes = append(b.axes, l.number(a))
	}
	switch {
	case t.Data != nil && b.Role == Out:
		l.d.fail(t.Data.at, "buffer %s is an output, which holds NaN before every run: remove data", b.Name)
	case t.Data == nil && b.Role != Out:
		l.d.fail(t.Table.key, `[[problem.buffer]] %s lacks data: add data = "uniform(-1,1)", or normal(mean,std), integers(lo,hi), constant(x)`, b.Name)
	case t.Data != nil:
		b.Data = l.data(t.Data, t.Data.str, b.DType)
		for _, end := range b.Data.Ends {
			if end == "" {
				break
			}
			n := *t.Data
			n.str = end
			b.ends = append(b.ends, l.number(&n))
		}
	}
	if t.Denormals != nil {
		if b.Denormals = t.Denormals.value.(bool); b.Denormals && (b.Role == Out || !b.DType.Float()) {
			l.d.fail(t.Denormals.at, "buffer %s: only inputs of a floating-point type can hold denormals: remove denormals", b.Name)
		}
	}
	l.outputKeys(t, &b)
	switch {
	case b.Role == Out && t.Domain != nil:
		l.d.fail(t.Domain.at, "buffer %s is an output, whose elements the kernel makes: remove domain", b.Name)
	case t.Domain != nil:
		l.interval(&b, t.Domain)
	case b.Role != Out && !b.Data.Made():
		if b.Domain = b.Data.Domain().within(b.DType); !(b.Domain.Lo <= b.Domain.Hi) {
			l.d.fail(t.Data.at, "data %s of buffer %s: %s has no number there: widen it", b.Data, b.Name, b.DType)
		}
	}
	return b
}

// outputKeys reads the keys that only outputs have.
func (l *loader) outputKeys(t *bufferTable, b *Buffer) {
	for _, key := range []string{"tolerance", "repeat", "unwritten"} {
		n := t.Table.children[key]
		switch {
		case n == nil:
		case b.Role == In:
			l.d.fail(n.key, "buffer %s is an input, and %s is for outputs: remove it", b.Name, key)
		case key == "unwritten" && b.Role != Out:
			l.d.fail(n.key, "buffer %s holds data before the launch, and unwritten is for outputs alone: remove it, or write role = \"out\"", b.Name)
		}
	}
	number := func(key string, n *node) (x float64) {
		x, ok := n.number()
		if !ok || x < 0 || x >= 1 {
			l.d.fail(n.at, "%s of %s must be a number from 0 to below 1, relative to the output's scale", key, b.Name)
		}
		return x
	}
	if t.Tolerance != nil {
		x := number("tolerance", t.Tolerance)
		b.Tolerance = &x
	}
	if t.Repeat != nil {
		b.Repeat = number("repeat", t.Repeat)
	}
	b.Unwritten = t.Unwritten != nil
	if b.Unwritten && !b.DType.Float() {
		l.d.fail(t.Unwritten.at, "buffer %s is %s, which has no NaN that could stand for what is not written: remove unwritten", b.Name, b.DType)
	}
}

var dataForm = regexp.MustCompile(`^\s*([A-Za-z]+)\s*\(\s*([^()]*?)\s*\)\s*$`)

// data parses a distribution.
func (l *loader) data(n *node, text string, dtype DType) Data {
	m := dataForm.FindStringSubmatch(text)
	if m == nil {
		l.d.fail(n.at, "data %q is not a distribution: write uniform(lo,hi), normal(mean,std), integers(lo,hi), constant(x) or python(FUNCTION)", text)
	}
	d := Data{Distribution: Distribution(m[1])}
	known := []Distribution{Uniform, Normal, Integers, Constant, Python, Permutation, Between, Offsets}
	if !slices.Contains(known, d.Distribution) {
		l.d.fail(n.within(strings.Index(text, m[1])), "unknown distribution %q: %s", m[1], naming.Suggest(m[1], plain(known)))
	}
	if d.Distribution == Python {
		d.Function = m[2]
		switch {
		case !identifier.MatchString(m[2]):
			l.d.fail(n.at, "python(%s): name a function of the reference's file", m[2])
		case !l.def.Problem.Reference.Python:
			l.d.fail(n.at, "%s is a function of the reference's file, which is not in Python: write python = \"reference.py\" in [problem.reference]", m[2])
		case l.env["seed"] != nil:
			l.d.fail(n.at, "%s gets the seed by the name seed, which a dimension has: rename the dimension", m[2])
		}
		return d
	}
	want := 2
	if d.Distribution == Constant || d.Distribution == Permutation || d.Distribution == Offsets {
		want = 1
	}
	args := strings.Split(m[2], ",")
	if len(args) != want {
		l.d.fail(n.at, "%s takes %d numbers, found %q", d.Distribution, want, m[2])
	}
	if d.Keyed() {
		if dtype.Float() {
			l.d.fail(n.at, "%s gives integers that count or point: choose an integer type in place of %s", d.Distribution, dtype)
		}
		for i, a := range args {
			if d.Ends[i] = strings.TrimSpace(a); d.Ends[i] == "" {
				l.d.fail(n.at, "%s takes %d expressions, found %q", d.Distribution, want, m[2])
			}
		}
		return d
	}
	for i, a := range args {
		x, err := strconv.ParseFloat(strings.TrimSpace(a), 64)
		if err != nil || x != x || x > 1e300 || x < -1e300 {
			l.d.fail(n.at, "%s: %q is not a finite number", d.Distribution, strings.TrimSpace(a))
		}
		if i == 0 {
			d.A = x
		} else {
			d.B = x
		}
	}
	whole := func(x float64) bool { lo, hi := dtype.Range(); return x == float64(int64(x)) && x >= lo && x <= hi }
	switch {
	case !dtype.Float() && (d.Distribution == Uniform || d.Distribution == Normal):
		l.d.fail(n.at, "%s gives fractions, which %s cannot hold: use integers(lo,hi) or constant(x)", d.Distribution, dtype)
	case d.Distribution == Uniform && d.A >= d.B:
		l.d.fail(n.at, "uniform(%g,%g) is empty: the first number must be the smaller one", d.A, d.B)
	case d.Distribution == Normal && d.B <= 0:
		l.d.fail(n.at, "normal(%g,%g): the standard deviation must be above 0", d.A, d.B)
	case d.Distribution == Integers && d.A > d.B:
		l.d.fail(n.at, "integers(%g,%g) is empty: the first number must not be the larger one", d.A, d.B)
	case d.Distribution == Integers && (!whole(d.A) || !whole(d.B)),
		d.Distribution == Constant && !dtype.Float() && !whole(d.A):
		lo, hi := dtype.Range()
		l.d.fail(n.at, "%s: %s holds the integers from %.0f to %.0f", d, dtype, lo, hi)
	}
	return d
}

var domainForm = regexp.MustCompile(`^\s*([\[(])\s*([^,\s]+)\s*,\s*([^,\s]+)\s*([\])])\s*$`)

// interval reads a declared domain.
func (l *loader) interval(b *Buffer, n *node) {
	m := domainForm.FindStringSubmatch(n.str)
	if m == nil {
		l.d.fail(n.at, "the domain %q of %s is not an interval: write \"[-1e4, 1e4]\", or \"(0, 1]\" where an end does not belong to it", n.str, b.Name)
	}
	lo, err1 := strconv.ParseFloat(m[2], 64)
	hi, err2 := strconv.ParseFloat(m[3], 64)
	if all := b.DType.span(); err1 != nil || err2 != nil || !all.Holds(lo) || !all.Holds(hi) {
		l.d.fail(n.at, "the ends of the domain %q of %s must be numbers that %s holds, from %g to %g", n.str, b.Name, b.DType, all.Lo, all.Hi)
	}
	if m[1] == "(" {
		lo = b.DType.next(lo, 1)
	}
	if m[4] == ")" {
		hi = b.DType.next(hi, -1)
	}
	if b.Data.Keyed() {
		l.d.fail(n.at, "edge-case inputs leave the data %s of %s as they are: remove domain", b.Data, b.Name)
	}
	d := Domain{lo, hi}.within(b.DType)
	b.Domain = d
	data := b.Data.Domain()
	if b.Data.Distribution == Normal {
		data = Domain{b.Data.A - b.Data.B, b.Data.A + b.Data.B} // the ends are cut off
	}
	data = data.within(b.DType)
	switch {
	case !(d.Lo <= d.Hi):
		l.d.fail(n.at, "the domain of %s is empty in %s: put the smaller end first", b.Name, b.DType)
	case b.Data.Distribution != Python && (!d.Holds(data.Lo) || !d.Holds(data.Hi)):
		l.d.fail(n.at, "the domain of %s does not hold its data %s: widen it", b.Name, b.Data)
	case b.Denormals && !(d.Lo <= -b.DType.normal() && b.DType.normal() <= d.Hi):
		l.d.fail(n.at, "the domain of %s has no room for denormals around zero: widen it, or remove denormals", b.Name)
	}
}

func (l *loader) scalar(t *scalarTable) Scalar {
	s := Scalar{Name: t.Name.str, DType: DType(t.DType.str), Value: t.Value.str, expr: l.number(t.Value)}
	if t.Also != nil {
		for _, item := range t.Also.items {
			x, ok := item.number()
			if !ok || !s.holds(x) {
				l.d.fail(t.Also.at, "also of scalar %s must be a list of numbers that %s holds, such as [0.5, 2]", s.Name, s.DType)
			}
			s.Also = append(s.Also, x)
		}
	}
	return s
}

// shapes reads the shapes of the problem or of a variant, which table holds.
func (l *loader) shapes(p *Problem, table *node, list []*shapeTable) {
	seen := map[string]*node{}
	for _, t := range list {
		s := Shape{Name: t.Name.str, Use: Use(t.Use.str), Dims: map[string]int64{}}
		if !shapeName.MatchString(s.Name) {
			l.d.fail(t.Name.at, "shape name %q has other characters than letters, digits and . _ + -: correct it", s.Name)
		}
		l.fresh(seen, t.Name, "shape")
		if t.Dims == nil {
			l.d.lacks(t.Table, "dims", "{ "+strings.Join(p.Dims, " = 1, ")+" = 1 }")
		}
		l.d.only(t.Dims, "dims of shape "+s.Name, p.Dims...)
		for _, name := range p.Dims {
			v := t.Dims.children[name]
			if v == nil {
				l.d.fail(t.Dims.at, "shape %s lacks the dimension %s: add %s = 1 or the like", s.Name, name, name)
			}
			l.d.expect("dimension "+name, v, integerNode)
			if s.Dims[name] = v.value.(int64); s.Dims[name] < 0 || s.Dims[name] > maxDim {
				l.d.fail(v.at, "dimension %s is %d, expected 0 to %d", name, v.value, int64(maxDim))
			}
		}
		p.Shapes = append(p.Shapes, s)
	}
	for _, use := range []Use{Tune, Verify, Sanitize} {
		if len(p.ShapesFor(use)) == 0 {
			l.d.fail(table.key, "no shape has use = %q: add one", string(use))
		}
	}
}

// tolerance reads the bounds on errors. Those of a variant are added to the
// problem's.
func (l *loader) tolerance(p *Problem, table, t *node, header string) {
	at := table.key
	p.Tolerance = maps.Clone(p.Tolerance)
	if p.Tolerance == nil {
		p.Tolerance = map[DType]float64{}
	}
	if t != nil {
		at = t.key
		l.d.only(t, header, words["dtype"]...)
		for _, name := range t.names {
			v := t.children[name]
			x, ok := v.number()
			if !ok || x < 0 || x >= 1 {
				l.d.fail(v.at, "the tolerance for %s must be a number from 0 to below 1, relative to the output's scale", name)
			}
			p.Tolerance[DType(name)] = x
		}
	}
	for _, b := range p.Outputs() {
		if _, ok := p.ToleranceOf(b); ok {
			continue
		}
		if t == nil && p.variant == nil {
			l.d.lacks(table, "tolerance", "a table [problem.tolerance] with a number for every type of output")
		} else {
			l.d.fail(at, "%s lacks %s, the type of output %s: add %s = 1e-5 or what its rounding needs", header, b.DType, b.Name, b.DType)
		}
	}
}

func (l *loader) control(t *controlTable) Control {
	c := Control{Kind: ControlKind(t.Kind.str), Buffers: strs(t.Buffers)}
	switch {
	case c.Kind != Swapped && t.Buffers != nil:
		l.d.fail(t.Table.children["buffers"].at, "only the control swap takes buffers: remove them")
	case c.Kind == Swapped && len(t.Buffers) != 2:
		l.d.fail(t.Table.key, `the control swap needs two inputs: add buffers = ["A", "B"]`)
	case c.Kind == Swapped:
		l.swap(t.Buffers[0], t.Buffers[1])
	}
	return c
}

// swap checks the pair of buffers of a control.
func (l *loader) swap(one, other *node) {
	p := &l.def.Problem
	var ins []string
	for _, b := range p.Buffers {
		if b.Role != Out {
			ins = append(ins, b.Name)
		}
	}
	for _, n := range []*node{one, other} {
		if !slices.Contains(ins, n.str) {
			l.d.fail(n.at, "no input is called %q: %s", n.str, naming.Suggest(n.str, ins))
		}
	}
	a, _ := p.Buffer(one.str)
	b, _ := p.Buffer(other.str)
	switch {
	case a.Name == b.Name:
		l.d.fail(other.at, "%s cannot be swapped with itself: name two inputs", a.Name)
	case a.DType != b.DType:
		l.d.fail(other.at, "%s is %s and %s is %s: only inputs of one type can be swapped", a.Name, a.DType, b.Name, b.DType)
	}
	for _, s := range p.Shapes {
		n, err1 := p.Elements(a, s)
		m, err2 := p.Elements(b, s)
		if err1 != nil || err2 != nil || n == m { // evaluate reports the errors
			return
		}
	}
	l.d.fail(one.at, "%s and %s have the same size in no shape, so that they can never be swapped: add a shape, or remove the control", a.Name, b.Name)
}

// evaluate computes every expression of the problem at every shape, so that
// the helpers of a loaded Problem do not fail later.
func (l *loader) evaluate(p *Problem) {
	must := func(at *node, err error) {
		if err != nil {
			l.d.fail(at.at, "%v", err)
		}
	}
	for _, s := range p.Shapes {
		if p.operations != nil {
			_, err := p.Operations(s)
			must(p.operations.at, err)
		}
		_, err := p.Bytes(s)
		must(p.bytes.at, err)
		for _, b := range p.Buffers {
			n, err := p.Elements(b, s)
			must(b.axes[0].at, err)
			if len(b.ends) > 0 {
				_, err := b.endsAt(s, n)
				must(b.ends[0].at, err)
			}
		}
		if p.DeviceReference != nil {
			if _, at, err := p.DeviceReference.Launch.at(s.env()); err != nil {
				l.d.fail(at.at.at, "at shape %s: %v", s.Name, err)
			}
		}
		for i, sc := range p.Scalars {
			one := Problem{Scalars: p.Scalars[i : i+1]}
			_, err := one.ScalarValues(s)
			must(sc.expr.at, err)
		}
	}
}
