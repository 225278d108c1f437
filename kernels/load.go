package kernels

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/evotune/evotune/internal/naming"
)

// Format is the version of kernel.toml that this package reads.
const Format = 1

// DefinitionFile is the file that marks a folder as a kernel.
const DefinitionFile = "kernel.toml"

// includeFolder is the folder beside kernels' folders with files that several of
// them include.
const includeFolder = "include"

// Bounds that no honest definition reaches; they keep a broken or hostile one from
// using all memory.
const (
	maxDefinition = 1 << 18  // bytes of kernel.toml
	maxFile       = 16 << 20 // bytes of any other file
	maxValues     = 4096     // of one parameter
	maxList       = 1024     // shapes, buffers, parameters, constraints, ...
	maxDim        = 1 << 40
)

// Bounds of a candidate; the GPU worker has the same.
const (
	MaxKernels = 16 // in sequence
	MaxMaps    = 16 // tensor maps
)

// FillIn begins what a draft leaves to fill in: strings of kernel.toml, and #error
// lines of references.
const FillIn = "FILL IN: "

var openLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*error[ \t]+"?` + FillIn + `([^"\n]*)`)

// LoadDir reads the kernel in a folder of the file system; of several, that with the folder's name. The error is an
// *Error.
func LoadDir(dir string) (*Definition, error) { return loadDir(dir, "") }

// LoadAll is LoadDir for a folder that may have several kernels, each a [[form]] of one operator.
func LoadAll(dir string) (list []*Definition, err error) {
	for _, name := range namesIn(dir) {
		d, err := loadDir(dir, name)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// folderName is the name of a folder, also of "." and "..".
func folderName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir)
}

// namesIn lists the names of the kernels in a folder of the file system: those of its forms, or one name, which is empty
// where it cannot be read. Loading the kernel reports the error.
func namesIn(dir string) (names []string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return []string{""}
	}
	defer root.Close() //nolint:errcheck // nothing was written
	l := &loader{fsys: root.FS(), dir: ".", display: dir}
	if l.parse() != nil {
		return []string{""}
	}
	own, forms := l.d.root.children["name"], l.d.root.children["form"]
	if own != nil || forms == nil || len(forms.items) == 0 { // a copy for one of the forms says its name
		return []string{own.text()}
	}
	for _, item := range forms.items {
		names = append(names, item.child("name").text())
	}
	return names
}

// loadDir reads a kernel of a folder of the file system; form "" is that with the folder's name.
func loadDir(dir, form string) (*Definition, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, unreadable(dir, err, "check the path and its permissions")
	}
	defer root.Close() //nolint:errcheck // nothing was written
	shared, done := openSharedIncludes(dir)
	defer done()
	if form == "" {
		form = folderName(dir)
	}
	return load(root.FS(), ".", shared, dir, form)
}

// openSharedIncludes opens the include folder beside a kernel's folder; shared is nil if there is
// none. done closes it.
func openSharedIncludes(dir string) (shared fs.FS, done func()) {
	root, err := os.OpenRoot(filepath.Join(dir, "..", includeFolder))
	if err != nil {
		return nil, func() {}
	}
	return root.FS(), func() { root.Close() } //nolint:errcheck // nothing was written
}

// Load reads the kernel in a folder of fsys; of several, that with the folder's name. The error is an *Error.
func Load(fsys fs.FS, dir string) (*Definition, error) { return loadFrom(fsys, dir, dir, "") }

func loadFrom(fsys fs.FS, dir, display, form string) (*Definition, error) {
	var shared fs.FS
	if dir != "." {
		// Sub fails only for a name that is not a path, which load reports better.
		shared, _ = fs.Sub(fsys, path.Join(path.Dir(dir), includeFolder))
	}
	return load(fsys, dir, shared, display, form)
}

// unreadable makes the error for a file that cannot be read.
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
	form    string // the kernel to read, where the folder has several; "" is that with its name
	formed  bool   // whether it has
	d       *document
	def     *Definition
	env     map[string]any    // the dimensions, for expressions
	texts   map[string]string // the files read, for the hash
	lent    map[string]bool   // which of them the include folder has
}

// load reads a kernel: it parses kernel.toml, keeps what belongs to the form, and builds the definition from that.
func load(fsys fs.FS, dir string, shared fs.FS, display, form string) (def *Definition, err error) {
	l := &loader{fsys: fsys, dir: dir, shared: shared, display: display, form: form}
	if err := l.parse(); err != nil {
		return nil, err
	}
	if open := l.unfilled(); len(open) > 0 {
		f := open[0]
		more := ""
		if len(open) > 1 {
			more = fmt.Sprintf(" (and %d more: `tune kernels lint %s` lists them)", len(open)-1, display)
		}
		return nil, &Error{File: f.File, Line: f.Line, Col: f.Col, Msg: f.Msg + more, Err: errors.Join(ErrDefinition, ErrUnfilled), Unfilled: open}
	}
	defer catch(&err)
	l.choose()
	l.definition()
	return l.def, nil
}

// parse reads kernel.toml.
func (l *loader) parse() error {
	file := l.path(DefinitionFile)
	text, err := readFile(l.fsys, path.Join(l.dir, DefinitionFile), maxDefinition)
	if err != nil {
		return unreadable(file, err, "a kernel is a folder with a "+DefinitionFile+", readable by you")
	}
	l.texts, l.lent = map[string]string{DefinitionFile: text}, map[string]bool{}
	l.d, err = parseDocument(file, []byte(text))
	return err
}

// unfilled finds what is still to fill in, in text order.
func (l *loader) unfilled() []Finding {
	var list []Finding
	var walk func(name string, n *node)
	walk = func(name string, n *node) {
		if what, ok := strings.CutPrefix(n.str, FillIn); ok && n.kind == stringNode {
			line, col := l.d.position(n.at)
			list = append(list, Finding{l.d.file, line, col, "fill in " + name + ": " + oneLine(what)})
		}
		for _, item := range n.items {
			walk(name, item)
		}
		for _, child := range n.names {
			walk(child, n.children[child])
		}
	}
	walk("", l.d.root)
	reference := l.d.root.child("problem").child("reference")
	for _, n := range []*node{reference.child("source"), reference.child("cuda").child("source")} {
		if n == nil || n.kind != stringNode {
			continue
		}
		text, err := readFile(l.fsys, path.Join(l.dir, n.str), maxFile)
		if err != nil {
			continue // loading reports the error
		}
		for _, m := range openLine.FindAllStringSubmatchIndex(text, -1) {
			list = append(list, Finding{filepath.Join(l.display, n.str), strings.Count(text[:m[0]], "\n") + 1, 0, "fill in: " + text[m[2]:m[3]]})
		}
	}
	return list
}

// readFile reads a regular file of a bounded size, without the byte order mark that some
// editors begin it with.
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
	return strings.TrimPrefix(string(text), byteOrderMark), nil
}

const byteOrderMark = "\uFEFF"

// readSource is readFile for code. Old sources have comments in Latin-1: they are read as
// such, since results hold text in UTF-8.
func readSource(fsys fs.FS, name string, limit int64) (string, error) {
	text, err := readFile(fsys, name, limit)
	switch {
	case err != nil || utf8.ValidString(text):
		return text, err
	case strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") || strings.Contains(text, "\x00"):
		return "", &fs.PathError{Op: "read", Path: name, Err: errors.New("neither UTF-8 nor Latin-1: save it as UTF-8")}
	}
	var b strings.Builder
	for i := range len(text) {
		b.WriteRune(rune(text[i]))
	}
	return b.String(), nil
}

// file reads the file of the folder that a value names or, for an include that the
// folder lacks, the file of the include folder beside it. The hash is the same in both
// cases.
func (l *loader) file(n *node, include bool) string {
	name := n.str
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\:\x00") {
		l.d.fail(n.at, "%q does not name a file inside the folder: write a path below it, with / between its parts", name)
	}
	if text, ok := l.texts[name]; ok && (include || !l.lent[name]) {
		return text
	}
	text, err := readSource(l.fsys, path.Join(l.dir, name), maxFile)
	if include && l.shared != nil && errors.Is(err, fs.ErrNotExist) {
		if text, err = readSource(l.shared, name, maxFile); err == nil {
			l.lent[name] = true
		}
	}
	advice := "no such file in the folder"
	switch {
	case err == nil:
		l.texts[name] = text
		return text
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
		if near := naming.Nearest(path.Base(name), names); near != "" {
			advice += ": did you mean " + path.Join(path.Dir(name), near) + "?"
		} else {
			advice += ": create it, or correct the name"
		}
	}
	e := l.d.fault(n.at, "%q: %s", name, advice)
	e.Err = errors.Join(ErrDefinition, err)
	panic(e)
}

// entries lists the files of a folder, for suggestions.
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
