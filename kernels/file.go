package kernels

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/sources"
	"github.com/evotune/evotune/internal/tomltext"
)

// FileGene is the only parameter of an implementation that is one file: its name.
const FileGene = "FILE"

// A File is one finished kernel, to be judged as it is.
//
// Comments of the file say what cannot be read from C, one line each:
//
//	// evotune: flags = ["-O3", "-march=native"]
//	// evotune: grid = ["int((N + 255)/256)"]
//
// Each is a key of TOML with its value; [FileKeys] lists the keys.
type File struct {
	// Path is the path of the file. Files that it includes with quotes are taken from
	// its folder and those below it.
	Path string
	// Flags and Threads override what the file says itself, or apply where it says
	// nothing (Default). Nil and zero mean that nothing is given.
	Flags   []string
	Threads int
	Default bool
}

// FileKeys lists the keys of a file's comments, and what each means.
func FileKeys() (keys [][2]string) {
	t := reflect.TypeFor[fileTable]()
	for i := 1; i < t.NumField(); i++ {
		keys = append(keys, [2]string{keyOf(t.Field(i)), t.Field(i).Tag.Get("doc")})
	}
	return keys
}

// Files of these names are evotune's own when a candidate is compiled.
var ownFiles = regexp.MustCompile(`^(evotune_.*|kernel\.cu?)$`)

// directive is a line with one of these keys.
var directive = regexp.MustCompile(`(?m)^[ \t]*//[ \t]*evotune[ \t]*:`)

// maxIncluded bounds the files that a file includes.
const maxIncluded = 256

// FromFile makes an implementation from a file: one without parameters to tune, whose
// definition has the problem and the baseline of d. It must meet what every
// implementation on the backend must meet: the blocking diagnostics, forbidden
// instructions, and the loosest of their bounds. What another implementation requires
// of its own code does not apply to it. Unless the file says otherwise it has the entry
// of the others, the flags that the baseline is compiled with, and one thread. The
// baseline's warnings are always on, so that diagnostics can block.
//
// Beside, if it is not nil, is another file's implementation of d: both belong to the
// definition then, named "file" and "beside", and neither affects what the other has to
// meet. The error is an *Error if the file is wrong.
func (d *Definition) FromFile(backend string, f File, beside *Implementation) (im *Implementation, err error) {
	def := d.On(backend)
	if len(def.Implementations) == 0 {
		return nil, fmt.Errorf("the kernel %s has no implementation for the %s backend, and so no baseline there", d.Name, backend)
	}
	text, files, _, err := readSources(f.Path, nil)
	if err != nil {
		return nil, err
	}
	said, err := directives(f.Path, text)
	if err != nil {
		return nil, err
	}
	doc, err := parseDocument(f.Path, said)
	if err != nil {
		return nil, err
	}
	def.doc = doc
	defer catch(&err)
	l := &loader{d: doc, def: def, env: map[string]any{}}
	file := l.fromFile(backend, f)
	name := filepath.Base(f.Path)
	file.Template, file.files, file.Include = name, files, slices.Sorted(maps.Keys(files))
	file.Parameters = []genome.Gene{{Name: FileGene, Values: []genome.Value{genome.Str(name)}}}
	file.main = &unit{file: f.Path, text: text}
	if sources.Quotable(name) { // compilers and sanitizers then name the file
		file.main.text = "#line 1 \"" + name + "\"\n" + text
	}
	first := []*Implementation{file}
	if beside != nil {
		other := *beside
		other.Name, other.definition = "beside", def
		first = append(first, &other)
	}
	def.Implementations = append(first, def.Implementations...)
	return file, nil
}

// maxDirectives bounds the directives of a file in bytes: the parser of TOML needs a
// thousand times as much memory as a hostile text is long.
const maxDirectives = 1 << 16

// directives returns a text with the same lines and columns that holds only the file's
// directives.
func directives(file, text string) ([]byte, error) {
	lines, size := strings.SplitAfter(text, "\n"), 0
	for i, line := range lines {
		if at := directive.FindStringIndex(line); at != nil {
			if size += len(line); size > maxDirectives {
				return nil, &Error{File: file, Line: i + 1, Col: 1, Err: ErrDefinition, Msg: fmt.Sprintf("its lines `// evotune:` have more than %d bytes together: shorten them", maxDirectives)}
			}
			lines[i] = strings.Repeat(" ", at[1]) + line[at[1]:]
		} else {
			lines[i] = "\n"
		}
	}
	return []byte(strings.Join(lines, "")), nil
}

// fromFile reads the file's directives.
func (l *loader) fromFile(on string, f File) *Implementation {
	var t fileTable
	l.d.decode(l.d.root, &t)
	others := l.def.Implementations
	base := others[0].Baseline().owner
	im := &Implementation{
		definition: l.def, Name: "file", Backend: on, Target: base.Target, Entry: base.Entry,
		params: map[string]*node{}, whens: map[string]*expression{},
	}
	im.hold(others)
	if t.Entry != nil {
		// Unlike a definition's, it may begin with evotune_, as exported kernels do.
		l.function(t.Entry)
		im.Entry = t.Entry.str
	}
	if t.Target != nil {
		if im.Target = t.Target.str; !im.on().Has(backend.Target) || !architecture.MatchString(im.Target) {
			l.d.fail(t.Target.at, `target %q: CUDA kernels have one, such as "sm_80" or "sm_90a"`, im.Target)
		}
	}
	for _, n := range t.Flags {
		if err := CheckFlag(on, n.str); err != nil {
			l.d.fail(n.at, "%v", err)
		}
	}
	usual := []string{"-O3", "-march=native"}
	if r, err := others[0].RenderBaseline(l.def.Problem.ShapesFor(Tune)[0]); err == nil {
		usual = r.Flags
	} else if im.on().Has(backend.Launch) {
		usual = nil
	}
	flags := strs(t.Flags)
	switch {
	case f.Flags != nil && (t.Flags == nil || !f.Default):
		flags = f.Flags
	case t.Flags == nil:
		flags = usual
	}
	flags = slices.Clone(flags)
	for _, flag := range usual { // without its warnings no diagnostic could block
		if strings.HasPrefix(flag, "-W") && !slices.Contains(flags, flag) {
			flags = append(flags, flag)
		}
	}
	for _, flag := range flags {
		im.Flags = append(im.Flags, flag)
		im.flags = append(im.flags, &unit{file: l.d.file, text: flag})
	}
	threads := int64(1)
	if t.Threads != nil {
		if threads = t.Threads.value.(int64); threads < 1 || threads > maxThreads {
			l.d.fail(t.Threads.at, "threads is %d, expected 1 to %d", threads, maxThreads)
		}
	}
	if f.Threads > 0 && (t.Threads == nil || !f.Default) {
		threads = int64(f.Threads)
	}
	if threads > 1 {
		im.ThreadsExpr = strconv.FormatInt(threads, 10)
		im.threads = l.compile(&node{kind: stringNode, str: im.ThreadsExpr}, nil)
	}
	for _, dim := range l.def.Problem.Dims {
		l.env[dim] = 1
	}
	all := defaultLimits()
	maps.Copy(all, l.env)
	for _, n := range t.Where {
		im.Constraints = append(im.Constraints, genome.Constraint{Expr: n.str, Why: l.d.file + " says so"})
		im.checks, im.sparing = append(im.checks, l.compile(n, all)), append(im.sparing, false)
	}
	for _, re := range l.patterns(t.Require) {
		im.Binary.Require = append(im.Binary.Require, Requirement{Pattern: re})
	}
	bound := func(key string, n *node, has bool, to **int64) {
		if x := l.most(key, n, has, "%s means nothing in a kernel for "+im.on().Device+": remove it"); x != nil {
			*to = x
		}
	}
	bound("max_stack", t.MaxStack, true, &im.Binary.MaxStack)
	bound(backend.MaxRegisters, t.MaxRegisters, im.on().Has(backend.MaxRegisters), &im.Binary.MaxRegisters)
	bound(backend.MaxSpill, t.MaxSpill, im.on().Has(backend.MaxSpill), &im.Binary.MaxSpill)
	l.fileLaunch(&t, im, all)
	return im
}

// function checks the name of an existing function.
func (l *loader) function(n *node) {
	if !identifier.MatchString(n.str) || slices.Contains(keywords, n.str) {
		l.d.fail(n.at, "entry %q cannot be the name of a function", n.str)
	}
}

// fileLaunch reads the launch geometry, with expressions over some names.
func (l *loader) fileLaunch(t *fileTable, im *Implementation, names map[string]any) {
	for _, key := range []string{"grid", "block", "shared", "workspace", "cluster", "cooperative", "launch", "tensor_map"} {
		switch n := t.Table.children[key]; {
		case n != nil && !im.on().Has(backend.Launch):
			l.d.fail(n.key, "%s means nothing in a kernel for %s, which is called once: remove it", key, im.on().Device)
		case n != nil && key != "launch" && key != "tensor_map" && len(t.Launch) > 0:
			l.d.fail(n.key, "%s is of the only kernel, and launch lists several: put it into the first table of launch", key)
		case n == nil && len(t.Launch) == 0 && im.on().Has(backend.Launch) && (key == "grid" || key == "block"):
			panic(&Error{File: l.d.file, Err: ErrDefinition, Msg: fmt.Sprintf(
				`it does not say how it is launched: add a line such as // evotune: %s = ["256"], with one to three expressions over %s`, key, strings.Join(l.def.Problem.Dims, ", "))})
		}
	}
	if !im.on().Has(backend.Launch) {
		return
	}
	if len(t.Launch) == 0 {
		t.Launch = []*launchTable{{
			Table: t.Table, Grid: t.Grid, Block: t.Block, Shared: t.Shared, Workspace: t.Workspace,
			Cluster: t.Cluster, Cooperative: t.Cooperative,
		}}
	}
	im.Launch = l.launches(t.Launch, im, names)
	l.tensorMaps(t.TensorMap, im, names)
}

// hold applies to an implementation the requirements of all others.
func (im *Implementation) hold(others []*Implementation) {
	common := func(of func(*Implementation) []*regexp.Regexp) (list []*regexp.Regexp) {
		for _, re := range of(others[0]) {
			if !slices.ContainsFunc(others, func(o *Implementation) bool {
				return !slices.ContainsFunc(of(o), func(r *regexp.Regexp) bool { return r.String() == re.String() })
			}) {
				list = append(list, re)
			}
		}
		return list
	}
	loosest := func(of func(*Binary) *int64) *int64 {
		most := of(&others[0].Binary)
		for _, o := range others {
			if b := of(&o.Binary); b == nil || most == nil {
				return nil
			} else if *b > *most {
				most = b
			}
		}
		return most
	}
	im.Blocking = common(func(o *Implementation) []*regexp.Regexp { return o.Blocking })
	im.Binary.Forbid = common(func(o *Implementation) []*regexp.Regexp { return o.Binary.Forbid })
	im.Binary.MaxStack = loosest(func(b *Binary) *int64 { return b.MaxStack })
	im.Binary.MaxRegisters = loosest(func(b *Binary) *int64 { return b.MaxRegisters })
	im.Binary.MaxSpill = loosest(func(b *Binary) *int64 { return b.MaxSpill })
}

// ReadSource reads a source and the files that it includes, from its folder or else, for a kernel in the folder dir, from the
// folder include beside that; lent names the latter. Without dir there are none. The error is an *Error.
func ReadSource(file, dir string) (text string, files map[string]string, lent map[string]bool, err error) {
	if dir == "" {
		return readSources(file, nil)
	}
	shared, done := openSharedIncludes(dir)
	defer done()
	return readSources(file, shared)
}

func readSources(file string, shared fs.FS) (text string, files map[string]string, lent map[string]bool, err error) {
	advice := "name a file in C or CUDA that you can read"
	read := func(fsys fs.FS, name string) (string, error) { return readSource(fsys, name, maxSource) }
	dir, name := filepath.Split(file)
	if dir == "" {
		dir = "."
	}
	if text, err = read(os.DirFS(dir), name); err != nil {
		return "", nil, nil, unreadable(file, err, advice)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil, nil, unreadable(file, err, advice)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	files, lent = map[string]string{}, map[string]bool{}
	size := len(text)
	var include func(from, text string) error
	include = func(from, text string) error {
		for _, m := range sources.LocalInclude.FindAllStringSubmatch(sources.Ours(text), -1) {
			// The search order of compilers: beside the including file, then beside the
			// kernel. A missing file may be in a branch that is not compiled: the compiler
			// reports it.
			for _, name := range []string{path.Join(path.Dir(from), m[1]), path.Clean(m[1])} {
				if _, have := files[name]; have || !fs.ValidPath(name) || m[1] == HeaderFile {
					break
				}
				body, err := read(root.FS(), name)
				if shared != nil && errors.Is(err, fs.ErrNotExist) {
					body, err = read(shared, name)
					lent[name] = err == nil
				}
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err == nil && ownFiles.MatchString(name) {
					err = errors.New("evotune has a file of this name: rename it")
				}
				if err != nil {
					return unreadable(filepath.Join(dir, name), err, "it is included by "+filepath.Join(dir, from))
				}
				files[name] = body
				if size += len(body); len(files) > maxIncluded || size > maxFile {
					return &Error{File: file, Err: ErrDefinition, Msg: fmt.Sprintf("it includes more than %d files or %d bytes", maxIncluded, maxFile)}
				}
				if err := include(name, body); err != nil {
					return err
				}
				break
			}
		}
		return nil
	}
	return text, files, lent, include(name, text)
}

var architecture = regexp.MustCompile(`^sm_\d+[af]?$`)

// Prototype declares the entry, with a semicolon.
func (im *Implementation) Prototype() string {
	for line := range strings.Lines(Header(im.Problem(), im)) {
		if strings.Contains(line, " "+im.Entry+"(") {
			return strings.TrimSpace(line)
		}
	}
	return "" // every header has it
}

// Directives returns the lines that [Definition.FromFile] needs in a file with the
// candidate's source; entry is the name of the function there.
func (r Rendered) Directives(entry string) string {
	im := r.Implementation
	if r.Triton != nil {
		return "" // a file in Python cannot be judged by itself
	}
	var b strings.Builder
	say := func(key string, value string) { fmt.Fprintf(&b, "// evotune: %s = %s\n", key, value) }
	list := func(key string, texts []string) { say(key, tomltext.List(texts)) }
	say("entry", tomltext.Quote(entry))
	list("flags", r.Flags)
	if r.Threads > 1 {
		say("threads", strconv.Itoa(r.Threads))
	}
	if l := im.Launch; l != nil {
		say("target", tomltext.Quote(im.Target))
		var kernels []string
		for i, k := range append([]*Launch{l}, l.Then...) {
			keys := im.launchKeys(k, r.Genome)
			if i > 0 {
				keys = append([][2]string{{"entry", tomltext.Quote(k.Entry)}}, keys...)
			}
			if len(l.Then) > 0 {
				kernels = append(kernels, tomltext.Table(keys))
				continue
			}
			for _, key := range keys {
				say(key[0], key[1])
			}
		}
		if kernels != nil {
			say("launch", "["+strings.Join(kernels, ", ")+"]")
		}
		var maps []string
		for i := range im.TensorMaps {
			maps = append(maps, tomltext.Table(im.mapKeys(&im.TensorMaps[i], r.Genome)))
		}
		if maps != nil {
			say("tensor_map", "["+strings.Join(maps, ", ")+"]")
		}
	}
	genes := r.Genome.Map()
	var where []string
	for i, e := range im.checks {
		dims, active := false, true
		for _, n := range e.prog.Names() {
			_, gene := im.params[n]
			_, has := genes[n]
			dims, active = dims || slices.Contains(im.Problem().Dims, n), active && (!gene || has)
		}
		if dims && active && !im.sparing[i] {
			where = append(where, im.over(im.Constraints[i].Expr, r.Genome))
		}
	}
	if where != nil {
		list("where", where)
	}
	if r.Require != nil {
		var patterns []string
		for _, re := range r.Require {
			patterns = append(patterns, re.String())
		}
		list("require", patterns)
	}
	return b.String()
}

// launchKeys are the keys of a launch with a genome's values, and the values in TOML.
func (im *Implementation) launchKeys(l *Launch, g genome.Genome) (keys [][2]string) {
	list := func(key string, src []string) {
		if src != nil {
			keys = append(keys, [2]string{key, tomltext.List(im.overAll(src, g))})
		}
	}
	one := func(key, src string) {
		if src != "" {
			keys = append(keys, [2]string{key, tomltext.Quote(im.over(src, g))})
		}
	}
	genes := g.Map()
	condition := func(key string, e *expression) {
		// A condition over a parameter that the genome lacks does not hold.
		if e != nil && !slices.ContainsFunc(e.prog.Names(), func(n string) bool { _, gene := im.params[n]; _, has := genes[n]; return gene && !has }) {
			one(key, e.src)
		}
	}
	list("grid", l.Grid)
	list("block", l.Block)
	one("shared", l.Shared)
	one("workspace", l.Workspace)
	list("cluster", l.Cluster)
	condition("cooperative", l.cooperative)
	condition("dependent", l.dependent)
	return keys
}

// overAll is over for several expressions.
func (im *Implementation) overAll(src []string, g genome.Genome) []string {
	out := make([]string, len(src))
	for i, s := range src {
		out[i] = im.over(s, g)
	}
	return out
}

var word = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[A-Za-z_]\w*`)

// over returns an expression of the implementation with the parameters replaced by the
// genome's values. A parameter that the genome lacks cannot affect the result, and
// gets its first value.
func (im *Implementation) over(src string, g genome.Genome) string {
	genes := g.Map()
	src = word.ReplaceAllStringFunc(src, func(name string) string {
		i := slices.IndexFunc(im.Parameters, func(p genome.Gene) bool { return p.Name == name })
		if i < 0 {
			return name
		}
		v, ok := genes[name]
		if !ok {
			v = im.Parameters[i].Values[0].Any()
		}
		switch x := v.(type) {
		case string:
			if !strings.ContainsAny(x, `'\`) {
				return "'" + x + "'" // readable within a string of TOML
			}
			return strconv.Quote(x)
		case float64:
			text := strconv.FormatFloat(x, 'f', -1, 64)
			if !strings.Contains(text, ".") {
				text += ".0"
			}
			return "(" + text + ")"
		case int64:
			if x < 0 {
				return fmt.Sprintf("(%d)", x)
			}
		}
		return fmt.Sprint(v)
	})
	if e, err := expr.Compile(src, nil); err == nil { // it is constant
		if n, err := e.Int(nil); err == nil {
			return strconv.FormatInt(n, 10)
		}
	}
	return src
}
