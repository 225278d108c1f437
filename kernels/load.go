package kernels

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/genome"
)

// Format is the version of kernel.toml that this package reads.
const Format = 1

// definitionFile is the file that makes a folder a kernel.
const definitionFile = "kernel.toml"

// includeFolder is the folder beside kernels' folders that holds what several of
// them include.
const includeFolder = "include"

// Bounds that no honest definition meets; they keep a broken or hostile one
// from taking all memory.
const (
	maxDefinition = 1 << 18  // bytes of kernel.toml
	maxFile       = 16 << 20 // bytes of any other file
	maxValues     = 4096     // of one parameter
	maxList       = 1024     // shapes, buffers, parameters, constraints, ...
	maxDim        = 1 << 40
)

// LoadDir reads the kernel in a folder of the file system. The error is an
// *Error.
func LoadDir(dir string) (*Definition, error) {
	_, d, err := loadDir(dir)
	return d, err
}

func loadDir(dir string) (name string, d *Definition, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil, unreadable(dir, err, "check the path and its permissions")
	}
	defer root.Close() //nolint:errcheck // nothing was written
	shared, done := besides(dir)
	defer done()
	return load(root.FS(), ".", shared, dir)
}

// besides opens the include folder beside a kernel's folder; nil if there is none. done
// closes it.
func besides(dir string) (shared fs.FS, done func()) {
	root, err := os.OpenRoot(filepath.Join(dir, "..", includeFolder))
	if err != nil {
		return nil, func() {}
	}
	return root.FS(), func() { root.Close() } //nolint:errcheck // nothing was written
}

// Load reads the kernel in a folder of fsys. The error is an *Error.
func Load(fsys fs.FS, dir string) (*Definition, error) {
	_, d, err := loadFrom(fsys, dir, dir)
	return d, err
}

func loadFrom(fsys fs.FS, dir, display string) (name string, d *Definition, err error) {
	var shared fs.FS
	if dir != "." {
		// Sub fails only for a name that is no path, which load says better.
		shared, _ = fs.Sub(fsys, path.Join(path.Dir(dir), includeFolder))
	}
	return load(fsys, dir, shared, display)
}

// unreadable makes the error for a file that the system does not give.
func unreadable(file string, err error, advice string) *Error {
	cause := err
	var pe *fs.PathError
	if errors.As(err, &pe) {
		cause = pe.Err
	}
	return &Error{File: file, Msg: fmt.Sprintf("%v: %s", cause, advice), Err: errors.Join(ErrDefinition, err)}
}

// A loader reads one folder.
type loader struct {
	fsys    fs.FS
	dir     string // within fsys
	shared  fs.FS  // the include folder beside it; nil if there is none
	display string // for messages
	d       *document
	def     *Definition
	texts   map[string]string // the files read, for the hash
	lent    map[string]bool   // which of them the include folder has
}

// load reads a kernel. The name is what the definition calls itself, and known
// even for many a definition that is wrong.
func load(fsys fs.FS, dir string, shared fs.FS, display string) (name string, def *Definition, err error) {
	l := &loader{fsys: fsys, dir: dir, shared: shared, display: display, texts: map[string]string{}, lent: map[string]bool{}}
	file := filepath.Join(display, definitionFile)
	text, err := readFile(fsys, path.Join(dir, definitionFile), maxDefinition)
	if err != nil {
		advice := "a kernel is a folder with a " + definitionFile + ", readable by you"
		return "", nil, unreadable(file, err, advice)
	}
	l.texts[definitionFile] = text
	if l.d, err = parseDocument(file, []byte(text)); err != nil {
		return "", nil, err
	}
	l.def = &Definition{Dir: display, doc: l.d}
	if open := l.unfilled(); len(open) > 0 {
		if n := l.d.root.children["name"]; n != nil {
			name = n.str
		}
		f := open[0]
		more := ""
		if len(open) > 1 {
			more = fmt.Sprintf(" (and %d more: `tune kernels lint %s` lists them)", len(open)-1, display)
		}
		return name, nil, &Error{File: f.File, Line: f.Line, Col: f.Col, Msg: f.Msg + more, Err: errors.Join(ErrDefinition, ErrUnfilled)}
	}
	l.definition()
	if l.d.err != nil {
		return l.def.Name, nil, l.d.err
	}
	l.def.Hash = hashFiles("evotune kernel 1", l.texts)
	return l.def.Name, l.def, nil
}

// readFile reads a regular file of a bounded size.
func readFile(fsys fs.FS, name string, limit int64) (string, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", err
	}
	if int64(len(text)) > limit {
		return "", &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d bytes", limit)}
	}
	return string(text), nil
}

// hashFiles hashes named texts so that no two sets give the same input.
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

// file reads a file of the folder that a value names, or, for an include that the
// folder lacks, of the include folder beside it. The hash is the same wherever it lies.
func (l *loader) file(n *node, include bool) (string, bool) {
	name := n.str
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\:\x00") {
		l.d.fail(n.at, "%q does not name a file inside the folder: write a path below it, with / between its parts", name)
		return "", false
	}
	if text, ok := l.texts[name]; ok && (include || !l.lent[name]) {
		return text, true
	}
	text, err := readFile(l.fsys, path.Join(l.dir, name), maxFile)
	if include && l.shared != nil && errors.Is(err, fs.ErrNotExist) {
		if text, err = readFile(l.shared, name, maxFile); err == nil {
			l.lent[name] = true
		}
	}
	advice := "no such file in the folder"
	switch {
	case err == nil:
		l.texts[name] = text
		return text, true
	case !errors.Is(err, fs.ErrNotExist):
		cause := err
		var pe *fs.PathError
		if errors.As(err, &pe) {
			cause = pe.Err
		}
		advice = fmt.Sprintf("%v: the file must be readable by you", cause)
	default:
		names := l.entries(l.fsys, path.Join(l.dir, path.Dir(name)))
		if include && l.shared != nil {
			if _, err := fs.Stat(l.shared, "."); err == nil {
				advice += ", nor in the folder " + includeFolder + " beside it"
				names = append(names, l.entries(l.shared, path.Dir(name))...)
			}
		}
		if near := nearest(path.Base(name), names); near != "" {
			advice += ": did you mean " + path.Join(path.Dir(name), near) + "?"
		} else {
			advice += ": create it, or correct the name"
		}
	}
	l.failWith(n.at, err, "%q: %s", name, advice)
	return "", false
}

func (l *loader) failWith(at int, err error, format string, args ...any) {
	if l.d.err == nil {
		e := l.d.fault(at, format, args...)
		e.Err = errors.Join(ErrDefinition, err)
		l.d.err = e
	}
}

// entries lists the files of a folder, to suggest one of them.
func (l *loader) entries(fsys fs.FS, dir string) []string {
	list, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range list {
		if !e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

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

// name checks a name that C code will see.
func (l *loader) name(n *node, what string) bool {
	if n == nil {
		return false
	}
	switch {
	case !identifier.MatchString(n.str):
		l.d.fail(n.at, "%s %q cannot be a name in C: use letters, digits and _, not a digit first", what, n.str)
	case slices.Contains(keywords, n.str):
		l.d.fail(n.at, "%s %q is a word of C or C++: choose another", what, n.str)
	case strings.HasPrefix(n.str, "evotune_"):
		l.d.fail(n.at, "%s %q: names that begin with evotune_ belong to the generated header: choose another", what, n.str)
	default:
		return true
	}
	return false
}

// oneOf checks a word against a closed set.
func (l *loader) oneOf(n *node, what string, words []string) bool {
	if n == nil {
		return false
	}
	if slices.Contains(words, n.str) {
		return true
	}
	near := ""
	if m := nearest(n.str, words); m != "" {
		near = "did you mean " + m + "? "
	}
	l.d.fail(n.at, "unknown %s %q: %sthere are %s", what, n.str, near, strings.Join(words, ", "))
	return false
}

// compile compiles an expression over the names of env.
func (l *loader) compile(n *node, env map[string]any) *expression {
	if n == nil || l.d.err != nil {
		return nil
	}
	prog, err := genome.CompileExpr(n.str, env)
	var fault *genome.ExprError
	if errors.As(err, &fault) {
		src := n.str
		if len(src) > 200 {
			src = src[:200] + "..."
		}
		l.d.fail(n.within(fault.Offset), "in the expression %q: %s", src, fault.Msg)
		return nil
	} else if err != nil {
		l.d.fail(n.at, "%v", err)
		return nil
	}
	return &expression{src: n.str, at: n, prog: prog}
}

// compileNumber compiles an expression over the dimensions that gives a number.
// It computes with floats where it can, for integers would overflow silently:
// 2*M*N*K may well be beyond 64 bits.
func (l *loader) compileNumber(n *node, env map[string]any) *expression {
	e := l.compile(n, env)
	if e == nil {
		return nil
	}
	floats := make(map[string]any, len(env))
	for name := range env {
		floats[name] = 1.0
	}
	if prog, err := genome.CompileExpr(e.src, floats); err == nil {
		e.prog = prog
	}
	return e
}

func (l *loader) definition() {
	// A newer format may have keys that this package does not know: say so
	// rather than call them unknown.
	if n := l.d.root.children["format"]; n != nil && n.kind == integerNode && n.integer > Format {
		l.d.fail(n.at, "format %d is newer than this evotune, which reads format %d: update evotune", n.integer, Format)
		return
	}
	t := l.d.table(l.d.root, definitionFile, "format", "name", "description", "license", "problem", "implementation")
	if n := t.need("format", "format = 1", integerNode); n != nil && n.integer != Format {
		l.d.fail(n.at, "format %d is unknown: write format = %d", n.integer, Format)
	}
	var n *node
	if l.def.Name, n = t.needText("name", `"my-kernel"`); n != nil && !kernelName.MatchString(n.str) {
		l.d.fail(n.at, "the name %q has other characters than a-z, 0-9, - and _: correct it", n.str)
	}
	l.def.Description, _ = t.needText("description", `"what it computes"`)
	l.def.License, _ = t.text("license")
	if p := t.need("problem", "a table [problem]", tableNode); p != nil && l.d.err == nil {
		l.problem(p)
	}
	impls := t.need("implementation", "a table [[implementation]]", arrayNode)
	if impls == nil || l.d.err != nil {
		return
	}
	seen := map[string]*node{}
	for _, n := range t.tables("implementation") {
		if l.d.err != nil {
			return
		}
		im := l.implementation(n)
		if prev := seen[im.Name]; prev != nil {
			line, _ := l.d.position(prev.key)
			l.d.fail(n.children["name"].at, "implementation %s is already declared on line %d: choose another name", im.Name, line)
		}
		seen[im.Name] = n
		l.def.Implementations = append(l.def.Implementations, im)
	}
	if len(l.def.Implementations) == 0 {
		l.d.fail(impls.at, "there is no implementation: add a table [[implementation]]")
	}
	l.baselines()
}

// baselines sees to it that every backend has exactly one.
func (l *loader) baselines() {
	if l.d.err != nil {
		return
	}
	owner := map[string]*Implementation{}
	for _, im := range l.def.Implementations {
		if im.baseline == nil {
			continue
		}
		if prev := owner[im.Backend]; prev != nil {
			line, _ := l.d.position(prev.node.children["baseline"].key)
			l.d.fail(im.node.children["baseline"].key, "the baseline for the %s backend is already declared on line %d: keep one of the two", im.Backend, line)
			return
		}
		owner[im.Backend] = im
	}
	for _, im := range l.def.Implementations {
		if owner[im.Backend] == nil {
			l.d.fail(im.node.key, "no implementation for the %s backend has a baseline to measure speedups against: add [implementation.baseline] with a genome, a source or a library", im.Backend)
			return
		}
	}
}

func (l *loader) problem(n *node) {
	t := l.d.table(n, "[problem]", "dims", "operations", "bytes", "pipe", "cache", "reference", "shape", "buffer", "scalar", "tolerance", "control", "variant")
	p := &l.def.Problem
	names := map[string]*node{} // all parameters of the entry

	dims := t.need("dims", `dims = ["N"]`, arrayNode)
	if dims == nil {
		return
	}
	env := map[string]any{}
	for _, d := range t.texts("dims") {
		if !l.name(d, "dimension") || !l.fresh(names, d, "dimension") {
			return
		}
		if slices.Contains(limitNames(), d.str) {
			l.d.fail(d.at, "dimension %q has the name of a device limit: choose another", d.str)
			return
		}
		p.Dims = append(p.Dims, d.str)
		env[d.str] = 1
		if _, err := genome.CompileExpr("1", env); err != nil {
			l.d.fail(d.at, "dimension: %v", err)
			return
		}
	}
	if len(p.Dims) == 0 && l.d.err == nil {
		l.d.fail(dims.at, `a problem has at least one dimension: write dims = ["N"]`)
	}
	if len(p.Dims) > maxList {
		l.d.fail(dims.at, "%d dimensions are too many, at most %d", len(p.Dims), maxList)
	}

	t.needText("operations", `"2*N"`)
	t.needText("bytes", `"8*N"`)
	t.needText("pipe", `"f32"`)
	p.Cache = Warm
	l.costs(t, p, env)

	if r := t.need("reference", "a table [problem.reference] with source and entry", tableNode); r != nil {
		rt := l.d.table(r, "[problem.reference]", "source", "entry", "cuda")
		p.Reference, _ = l.source(rt, "reference.c")
		l.deviceReference(rt, p, env)
	}
	l.buffers(t, env, names)
	l.scalars(t, env, names)
	l.list(t, "shape", "problem.shape")
	l.shapes(t, p)
	t.need("tolerance", "a table [problem.tolerance] with a number for every type of output", tableNode)
	l.tolerance(t, p, "[problem.tolerance]")
	l.controls(t)
	l.evaluate(p)
	l.variants(t, env)
}

// costs reads what bounds the time of a launch, as far as it is given.
func (l *loader) costs(t table, p *Problem, env map[string]any) {
	if text, e := t.text("operations"); e != nil {
		p.OperationsExpr, p.operations = text, l.compileNumber(e, env)
	}
	if text, e := t.text("bytes"); e != nil {
		p.BytesExpr, p.bytes = text, l.compileNumber(e, env)
	}
	if text, e := t.text("pipe"); l.oneOf(e, "pipe", pipes()) {
		p.Pipe = text
	}
	if text, e := t.text("cache"); l.oneOf(e, "cache", words([]Cache{Warm, Cold})) {
		p.Cache = Cache(text)
	}
}

// deviceReference reads the reference for GPUs.
func (l *loader) deviceReference(t table, p *Problem, env map[string]any) {
	n := t.get("cuda", tableNode)
	if n == nil || l.d.err != nil {
		return
	}
	rt := l.d.table(n, "[problem.reference.cuda]", "source", "entry", "grid", "block")
	r := &DeviceReference{}
	r.Source, _ = l.source(rt, "reference.cu")
	r.Launch = *l.geometry(rt, env)
	p.DeviceReference = r
}

// variants reads the problem as other backends have it.
func (l *loader) variants(t table, env map[string]any) {
	for _, n := range t.tables("variant") {
		if l.d.err != nil {
			return
		}
		vt := l.d.table(n, "[[problem.variant]]", "backend", "dtype", "domain", "operations", "bytes", "pipe", "cache", "shape", "tolerance")
		text, e := vt.needText("backend", `"cuda"`)
		if !l.oneOf(e, "backend", Backends()) {
			return
		}
		if l.def.Variants[text] != nil {
			l.d.fail(e.at, "there is a variant for the %s backend already: put both together", text)
			return
		}
		p := l.def.Problem
		p.Buffers = slices.Clone(p.Buffers)
		l.costs(vt, &p, env)
		l.dtypes(vt, &p)
		l.domains(vt, &p)
		if vt.n.children["shape"] != nil {
			p.Shapes = nil
			l.shapes(vt, &p)
		}
		l.tolerance(vt, &p, "[problem.variant.tolerance]")
		l.evaluate(&p)
		if l.def.Variants == nil {
			l.def.Variants = map[string]*Problem{}
		}
		l.def.Variants[text] = &p
	}
}

// dtypes gives buffers of a variant other types.
func (l *loader) dtypes(t table, p *Problem) {
	n := t.get("dtype", tableNode)
	if n == nil || l.d.err != nil {
		return
	}
	names := make([]string, len(p.Buffers))
	for i, b := range p.Buffers {
		names[i] = b.Name
	}
	l.d.table(n, "dtype of a variant", names...)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		e := n.children[b.Name]
		switch {
		case e == nil || l.d.err != nil:
			continue
		case e.kind != stringNode:
			l.d.fail(e.at, "the dtype of %s is %s, expected a string", b.Name, e.kind)
		case l.oneOf(e, "dtype", words(DTypes())):
			if b.DType = DType(e.str); b.Role != Out {
				l.data(e, b.Data.String(), b.DType) // whether the new type can hold it
				b.Domain = b.Domain.within(b.DType)
			}
		}
	}
	for _, c := range p.Controls {
		if c.Kind != Swapped || l.d.err != nil {
			continue
		}
		a, _ := p.Buffer(c.Buffers[0])
		b, _ := p.Buffer(c.Buffers[1])
		if a.DType != b.DType {
			l.d.fail(n.at, "a control swaps %s and %s, which are %s and %s here: only inputs of one type can be swapped", a.Name, b.Name, a.DType, b.DType)
		}
	}
}

// domains gives buffers of a variant other domains.
func (l *loader) domains(t table, p *Problem) {
	n := t.get("domain", tableNode)
	if n == nil || l.d.err != nil {
		return
	}
	names := make([]string, 0, len(p.Buffers))
	for _, b := range p.Buffers {
		if b.Role != Out {
			names = append(names, b.Name)
		}
	}
	l.d.table(n, "domain of a variant", names...)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		e := n.children[b.Name]
		switch {
		case e == nil || l.d.err != nil:
		case e.kind != stringNode:
			l.d.fail(e.at, "the domain of %s is %s, expected a string", b.Name, e.kind)
		default:
			l.interval(e, e.str, b)
		}
	}
}

// pipes lists the peaks that can bound a kernel.
func pipes() []string {
	var out []string
	for _, t := range DTypes() {
		out = append(out, string(t))
	}
	return append(out, "tensor-f64", "tensor-tf32", "tensor-f16", "tensor-bf16", "tensor-f8", "tensor-i8")
}

// fresh notes a name that must not be taken.
func (l *loader) fresh(names map[string]*node, n *node, what string) bool {
	if prev := names[n.str]; prev != nil {
		line, _ := l.d.position(prev.at)
		l.d.fail(n.at, "%s %s: the name is already taken on line %d: choose another", what, n.str, line)
		return false
	}
	names[n.str] = n
	return true
}

// source reads a C file and its entry.
func (l *loader) source(t table, example string) (Source, bool) {
	var s Source
	name, n := t.needText("source", strconv.Quote(example))
	if n == nil {
		return s, false
	}
	s.File = name
	var ok bool
	if s.Text, ok = l.file(n, false); !ok {
		return s, false
	}
	s.Entry, n = t.needText("entry", `"`+strings.TrimSuffix(example, ".c")+`"`)
	return s, n != nil && l.name(n, "entry")
}

// list reads an array of tables that must have at least one.
func (l *loader) list(t table, key, header string) []*node {
	if t.need(key, "a table [["+header+"]]", arrayNode) == nil {
		return nil
	}
	out := t.tables(key)
	if len(out) > maxList {
		l.d.fail(out[maxList].at, "there are %d tables [[%s]], at most %d", len(out), header, maxList)
	}
	return out
}

func (l *loader) buffers(t table, env map[string]any, names map[string]*node) {
	p := &l.def.Problem
	for _, n := range l.list(t, "buffer", "problem.buffer") {
		if l.d.err != nil {
			return
		}
		bt := l.d.table(n, "[[problem.buffer]]", "name", "dtype", "shape", "role", "data", "domain", "denormals")
		var b Buffer
		var e *node
		if b.Name, e = bt.needText("name", `"A"`); !l.name(e, "buffer") || !l.fresh(names, e, "buffer") {
			return
		}
		if e = bt.need("dtype", `dtype = "f32"`, stringNode); !l.oneOf(e, "dtype", words(DTypes())) {
			return
		}
		b.DType = DType(e.str)
		if e = bt.need("role", `role = "in"`, stringNode); !l.oneOf(e, "role", words([]Role{In, Out, InOut})) {
			return
		}
		b.Role = Role(e.str)
		if e = bt.need("shape", `shape = ["N"]`, arrayNode); e == nil {
			return
		}
		axes := bt.texts("shape")
		if len(axes) == 0 {
			l.d.fail(e.at, "buffer %s has no axis: write shape = [\"1\"] for a single element", b.Name)
			return
		}
		if len(axes) > maxList {
			l.d.fail(e.at, "buffer %s has %d axes, at most %d", b.Name, len(axes), maxList)
			return
		}
		b.Shape = strs(axes)
		for _, a := range axes {
			b.axes = append(b.axes, l.compileNumber(a, env))
		}
		text, e := bt.text("data")
		switch {
		case e != nil && b.Role == Out:
			l.d.fail(e.at, "buffer %s is an output, which holds NaN before every run: remove data", b.Name)
		case e == nil && b.Role != Out:
			l.d.fail(n.key, `[[problem.buffer]] %s lacks data: add data = "uniform(-1,1)", or normal(mean,std), integers(lo,hi), constant(x)`, b.Name)
		case e != nil:
			b.Data = l.data(e, text, b.DType)
		}
		l.region(bt, &b)
		p.Buffers = append(p.Buffers, b)
	}
	if l.d.err == nil && len(p.Outputs()) == 0 {
		l.d.fail(t.n.key, `no buffer has role "out" or "inout": a kernel must write something`)
	}
}

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}

var dataForm = regexp.MustCompile(`^\s*([A-Za-z]+)\s*\(\s*([^()]*?)\s*\)\s*$`)

// data parses a distribution.
func (l *loader) data(n *node, text string, dtype DType) Data {
	m := dataForm.FindStringSubmatch(text)
	if m == nil {
		l.d.fail(n.at, "data %q is no distribution: write uniform(lo,hi), normal(mean,std), integers(lo,hi) or constant(x)", text)
		return Data{}
	}
	d := Data{Distribution: Distribution(m[1])}
	known := []Distribution{Uniform, Normal, Integers, Constant}
	if !slices.Contains(known, d.Distribution) {
		l.d.fail(n.within(strings.Index(text, m[1])), "unknown distribution %q: %s", m[1], suggest(m[1], words(known)))
		return d
	}
	want := 2
	if d.Distribution == Constant {
		want = 1
	}
	args := strings.Split(m[2], ",")
	if len(args) != want {
		l.d.fail(n.at, "%s takes %d numbers, found %q", d.Distribution, want, m[2])
		return d
	}
	for i, a := range args {
		x, err := strconv.ParseFloat(strings.TrimSpace(a), 64)
		if err != nil || x != x || x > 1e300 || x < -1e300 {
			l.d.fail(n.at, "%s: %q is no finite number", d.Distribution, strings.TrimSpace(a))
			return d
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

// region reads where a kernel has to be right.
func (l *loader) region(t table, b *Buffer) {
	if n := t.get("denormals", boolNode); n != nil {
		b.Denormals = n.boolean
		if n.boolean && (b.Role == Out || !b.DType.Float()) {
			l.d.fail(n.at, "buffer %s: only inputs of a floating-point type can hold denormals: remove denormals", b.Name)
		}
	}
	text, n := t.text("domain")
	switch {
	case b.Role == Out && n != nil:
		l.d.fail(n.at, "buffer %s is an output, whose elements the kernel makes: remove domain", b.Name)
	case n != nil:
		l.interval(n, text, b)
	case b.Role != Out:
		b.Domain = b.Data.Domain().within(b.DType)
	}
}

// interval reads a domain that is declared.
func (l *loader) interval(n *node, text string, b *Buffer) {
	m := domainForm.FindStringSubmatch(text)
	if m == nil {
		l.d.fail(n.at, "the domain %q of %s is no interval: write \"[-1e4, 1e4]\", or \"(0, 1]\" where an end does not belong to it", text, b.Name)
		return
	}
	lo, err1 := strconv.ParseFloat(m[2], 64)
	hi, err2 := strconv.ParseFloat(m[3], 64)
	if all := b.DType.span(); err1 != nil || err2 != nil || !all.Holds(lo) || !all.Holds(hi) {
		l.d.fail(n.at, "the ends of the domain %q of %s must be numbers that %s holds, from %g to %g", text, b.Name, b.DType, all.Lo, all.Hi)
		return
	}
	if m[1] == "(" {
		lo = b.DType.next(lo, 1)
	}
	if m[4] == ")" {
		hi = b.DType.next(hi, -1)
	}
	b.Domain = Domain{lo, hi}.within(b.DType)
	l.inDomain(n, b)
}

// inDomain sees to it that what is declared of a buffer lies in its domain.
func (l *loader) inDomain(n *node, b *Buffer) {
	data, d := b.Data.Domain(), b.Domain
	if b.Data.Distribution == Normal {
		data = Domain{b.Data.A - b.Data.B, b.Data.A + b.Data.B} // the ends are cut off
	}
	data = data.within(b.DType)
	switch {
	case l.d.err != nil:
	case !(d.Lo <= d.Hi):
		l.d.fail(n.at, "the domain of %s is empty in %s: put the smaller end first", b.Name, b.DType)
	case !d.Holds(data.Lo) || !d.Holds(data.Hi):
		l.d.fail(n.at, "the domain of %s does not hold its data %s: widen it", b.Name, b.Data)
	case b.Denormals && !(d.Lo <= -b.DType.normal() && b.DType.normal() <= d.Hi):
		l.d.fail(n.at, "the domain of %s has no room for denormals around zero: widen it, or remove denormals", b.Name)
	}
}

func (l *loader) scalars(t table, env map[string]any, names map[string]*node) {
	p := &l.def.Problem
	for _, n := range t.tables("scalar") {
		if l.d.err != nil {
			return
		}
		st := l.d.table(n, "[[problem.scalar]]", "name", "dtype", "value", "also")
		var s Scalar
		var e *node
		if s.Name, e = st.needText("name", `"alpha"`); !l.name(e, "scalar") || !l.fresh(names, e, "scalar") {
			return
		}
		if e = st.need("dtype", `dtype = "f32"`, stringNode); !l.oneOf(e, "dtype of a scalar", words([]DType{F64, F32, I64, I32})) {
			return
		}
		s.DType = DType(e.str)
		s.Value, e = st.needText("value", `"1.0"`)
		s.expr = l.compileNumber(e, env)
		if list := st.get("also", arrayNode); list != nil {
			for _, item := range list.items {
				x, ok := item.number()
				if !ok || !s.holds(x) {
					l.d.fail(list.at, "also of scalar %s must be a list of numbers that %s holds, such as [0.5, 2]", s.Name, s.DType)
					return
				}
				s.Also = append(s.Also, x)
			}
		}
		p.Scalars = append(p.Scalars, s)
	}
}

func (l *loader) shapes(t table, p *Problem) {
	seen := map[string]*node{}
	list := t.tables("shape")
	if len(list) > maxList {
		l.d.fail(list[maxList].key, "there are %d shapes, at most %d", len(list), maxList)
	}
	for _, n := range list {
		if l.d.err != nil {
			return
		}
		st := l.d.table(n, "[[problem.shape]]", "name", "dims", "use")
		s := Shape{Dims: map[string]int64{}}
		var e *node
		if s.Name, e = st.needText("name", `"1024"`); e == nil {
			return
		}
		if !shapeName.MatchString(s.Name) {
			l.d.fail(e.at, "shape name %q has other characters than letters, digits and . _ + -: correct it", s.Name)
			return
		}
		if !l.fresh(seen, e, "shape") {
			return
		}
		if e = st.need("use", `use = "tune"`, stringNode); !l.oneOf(e, "use", words([]Use{Tune, Verify, Sanitize})) {
			return
		}
		s.Use = Use(e.str)
		dims := st.need("dims", "dims = { "+strings.Join(p.Dims, " = 1, ")+" = 1 }", tableNode)
		if dims == nil {
			return
		}
		l.d.table(dims, "dims of shape "+s.Name, p.Dims...)
		for _, name := range p.Dims {
			v := dims.children[name]
			switch {
			case v == nil:
				l.d.fail(dims.at, "shape %s lacks the dimension %s: add %s = 1 or the like", s.Name, name, name)
			case v.kind != integerNode:
				l.d.fail(v.at, "dimension %s is %s, expected an integer", name, v.kind)
			case v.integer < 0 || v.integer > maxDim:
				l.d.fail(v.at, "dimension %s is %d, expected 0 to %d", name, v.integer, int64(maxDim))
			default:
				s.Dims[name] = v.integer
			}
		}
		p.Shapes = append(p.Shapes, s)
	}
	for _, use := range []Use{Tune, Verify, Sanitize} {
		if l.d.err == nil && len(p.ShapesFor(use)) == 0 {
			l.d.fail(t.n.key, "no shape has use = %q: add one", string(use))
		}
	}
}

// tolerance reads the bounds on errors. Those of a variant are added to the
// problem's.
func (l *loader) tolerance(t table, p *Problem, header string) {
	at := t.n.key
	p.Tolerance = maps.Clone(p.Tolerance)
	if p.Tolerance == nil {
		p.Tolerance = map[DType]float64{}
	}
	n := t.get("tolerance", tableNode)
	if l.d.err != nil {
		return
	}
	if n != nil {
		at = n.key
		l.d.table(n, header, words(DTypes())...)
		for _, name := range n.names {
			v := n.children[name]
			x, ok := v.number()
			if !ok || x < 0 || x >= 1 {
				l.d.fail(v.at, "the tolerance for %s must be a number from 0 to below 1, relative to the output's scale", name)
				return
			}
			p.Tolerance[DType(name)] = x
		}
	}
	for _, b := range p.Outputs() {
		if _, ok := p.Tolerance[b.DType]; !ok {
			l.d.fail(at, "%s lacks %s, the type of output %s: add %s = 1e-5 or what its rounding needs", header, b.DType, b.Name, b.DType)
			return
		}
	}
}

func (l *loader) controls(t table) {
	p := &l.def.Problem
	for _, n := range l.list(t, "control", "problem.control") {
		if l.d.err != nil {
			return
		}
		ct := l.d.table(n, "[[problem.control]]", "kind", "buffers")
		e := ct.need("kind", `kind = "zeros"`, stringNode)
		if !l.oneOf(e, "control", words([]ControlKind{Zeros, Mean, Swapped})) {
			return
		}
		c := Control{Kind: ControlKind(e.str)}
		pair := ct.texts("buffers")
		switch {
		case c.Kind != Swapped && ct.n.children["buffers"] != nil:
			l.d.fail(ct.n.children["buffers"].at, "only the control swap takes buffers: remove them")
			return
		case c.Kind == Swapped && len(pair) != 2:
			l.d.fail(n.key, `the control swap needs two inputs: add buffers = ["A", "B"]`)
			return
		}
		c.Buffers = strs(pair)
		if c.Kind == Swapped && !l.swap(pair) {
			return
		}
		p.Controls = append(p.Controls, c)
	}
}

// swap checks the pair of buffers of a control.
func (l *loader) swap(pair []*node) bool {
	p := &l.def.Problem
	var ins []string
	for _, b := range p.Buffers {
		if b.Role != Out {
			ins = append(ins, b.Name)
		}
	}
	for _, n := range pair {
		if !slices.Contains(ins, n.str) {
			l.d.fail(n.at, "no input is called %q: %s", n.str, suggest(n.str, ins))
			return false
		}
	}
	a, _ := p.Buffer(pair[0].str)
	b, _ := p.Buffer(pair[1].str)
	switch {
	case a.Name == b.Name:
		l.d.fail(pair[1].at, "%s cannot be swapped with itself: name two inputs", a.Name)
		return false
	case a.DType != b.DType:
		l.d.fail(pair[1].at, "%s is %s and %s is %s: only inputs of one type can be swapped", a.Name, a.DType, b.Name, b.DType)
		return false
	}
	if l.d.err != nil {
		return false
	}
	for _, s := range p.Shapes {
		n, err1 := p.Elements(a, s)
		m, err2 := p.Elements(b, s)
		if err1 != nil || err2 != nil || n == m { // evaluate reports the errors
			return true
		}
	}
	l.d.fail(pair[0].at, "%s and %s have the same size in no shape, so that they can never be swapped: add a shape, or remove the control", a.Name, b.Name)
	return false
}

// evaluate computes every expression of the problem at every shape, so that
// the helpers of a loaded Problem do not fail later.
func (l *loader) evaluate(p *Problem) {
	for _, s := range p.Shapes {
		if l.d.err != nil {
			return
		}
		if _, err := p.Operations(s); err != nil {
			l.d.fail(p.operations.at.at, "%v", err)
			return
		}
		if _, err := p.Bytes(s); err != nil {
			l.d.fail(p.bytes.at.at, "%v", err)
			return
		}
		for _, b := range p.Buffers {
			if _, err := p.Elements(b, s); err != nil {
				l.d.fail(b.axes[0].at.at, "%v", err)
				return
			}
		}
		if p.DeviceReference != nil {
			if _, at, err := p.DeviceReference.Launch.at(s.env()); err != nil {
				l.d.fail(at.at.at, "at shape %s: %v", s.Name, err)
				return
			}
		}
		for i := range p.Scalars {
			one := Problem{Scalars: p.Scalars[i : i+1]}
			if _, err := one.ScalarValues(s); err != nil {
				l.d.fail(p.Scalars[i].expr.at.at, "%v", err)
				return
			}
		}
	}
}
