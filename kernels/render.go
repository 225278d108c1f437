package kernels

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/naming"
	"github.com/evotune/evotune/internal/sources"
)

// maxSource bounds a rendered template in bytes.
const maxSource = 8 << 20

// Rendered is a candidate as a backend compiles it. It depends only on the definition
// and the genome.
type Rendered struct {
	Implementation *Implementation
	// Genome is what the template was filled with. Genes that do not appear in the text
	// may still change the launch geometry.
	Genome genome.Genome
	// Entry is the function that the harness calls, in Source; for Triton [TritonKernel].
	Entry string
	// Source is the text to compile. Header declares the entry and must be
	// included before it, so that a wrong signature does not compile.
	Source, Header string
	// Files are the files to put beside the source, by their path.
	Files map[string]string
	// Flags are for the compiler, one argument each.
	Flags []string
	// Threads is how many threads the candidate starts, including its own.
	Threads int
	// Triton says how a Triton function is compiled; nil in other languages. With Triton,
	// Source is in Python, and Header is a comment.
	Triton *TritonCall
	// Require lists patterns of mnemonics that the entry's code must have.
	Require []*regexp.Regexp
	// Profile lists the bounds that a profile of the candidate must meet.
	Profile []Bound
	// Hash is the SHA-256 (hex) over what is compiled: all of the above except the
	// genome and the requirements.
	Hash string
}

// path returns a file of the folder as messages name it.
func (l *loader) path(name string) string { return filepath.Join(l.display, filepath.FromSlash(name)) }

// The name by which text/template knows a template, with its line, in errors.
const unitName = "T"

// parseUnit parses a template file.
func parseUnit(file, text string) *unit {
	u := &unit{file: file, text: text}
	if err := u.parse(); err != nil {
		line, _, msg := u.locate(err)
		panic(&Error{File: file, Line: line, Msg: msg, Err: errors.Join(ErrDefinition, ErrRender)})
	}
	return u
}

// flag parses one flag of kernel.toml.
func (l *loader) flag(n *node) *unit {
	u := &unit{file: l.d.file, text: n.str, at: n}
	if err := u.parse(); err != nil {
		_, _, msg := u.locate(err)
		e := l.d.fault(n.at, "flag %q: %s", n.str, msg)
		e.Err = errors.Join(ErrDefinition, ErrRender)
		panic(e)
	}
	return u
}

func (u *unit) parse() error {
	var err error
	u.tmpl, err = template.New(unitName).Funcs(functions).Funcs((&effort{}).functions()).Option("missingkey=error").Parse(u.text)
	if err != nil {
		return err
	}
	for _, t := range u.tmpl.Templates() {
		if t.Tree != nil {
			countSteps(t.Root)
		}
	}
	return nil
}

// The forms of the errors of text/template: "template: T:3: msg" when parsing,
// `template: T:3:7: executing "T" at <.X>: msg` when executing.
var templateError = regexp.MustCompile(`(?s)^template: ` + unitName + `:(\d+)(?::(\d+))?: (?:executing "[^"]*" at <(.*?)>: )?(.*)$`)

// locate splits an error of text/template into its parts. The column counts from 1; 0
// when it is not known.
func (u *unit) locate(err error) (line, col int, msg string) {
	m := templateError.FindStringSubmatch(err.Error())
	if m == nil {
		return 1, 0, strings.TrimPrefix(err.Error(), "template: ")
	}
	line, _ = strconv.Atoi(m[1])
	if m[2] != "" {
		col, _ = strconv.Atoi(m[2])
		col++ // text/template counts columns from 0
	}
	msg = m[4]
	if at := strings.Trim(m[3], "{}"); at != "" {
		if len(at) > maxMessage/10 {
			at = at[:maxMessage/10] + "..."
		}
		msg = fmt.Sprintf("{{%s}}: %s", at, msg)
	}
	return line, col, msg
}

// noValue is what text/template prints for a missing value.
const noValue = "<no value>"

var missingKey = regexp.MustCompile(`map has no entry for key "([^"]*)"`)

// execute fills a template with genes. The error is an *Error.
func (im *Implementation) execute(u *unit, genes map[string]any) (string, error) {
	if u.tmpl == nil {
		return u.text, nil
	}
	b := effort{began: time.Now()}
	tmpl, err := u.tmpl.Clone()
	if err == nil {
		err = tmpl.Funcs(b.functions()).Execute(&b, genes)
	}
	if err == nil && strings.Contains(b.String(), noValue) {
		err = errors.New("the template prints a value that does not exist (" + noValue + ")")
	}
	if err == nil {
		return b.String(), nil
	}
	line, col, msg := u.locate(err)
	if tooMuch := (*tooMuchError)(nil); errors.As(err, &tooMuch) {
		msg = tooMuch.Error()
	}
	if len(msg) > maxMessage {
		msg = strings.ToValidUTF8(msg[:maxMessage], "") + "..."
	}
	if m := missingKey.FindStringSubmatch(msg); m != nil {
		msg = im.missing(m[1])
	}
	if u.at != nil {
		return "", im.fail(u.at, "flag %q: %s", u.text, msg)
	}
	return "", &Error{File: u.file, Line: line, Col: col, Msg: msg, Err: ErrRender}
}

// missing writes the error message for a key that a genome does not have.
func (im *Implementation) missing(key string) string {
	names := make([]string, len(im.Parameters))
	for i, g := range im.Parameters {
		names[i] = g.Name
		if g.Name == key {
			return fmt.Sprintf(`the template uses .%s, which exists only when %s: put it inside {{if has $ "%s"}} ... {{end}}`, key, g.When, key)
		}
	}
	return fmt.Sprintf("the template uses .%s, which is not a parameter of implementation %s: %s", key, im.Name, naming.Suggest(key, names))
}

// Render fills the template and the flags with a genome. The error is an
// *Error with the file and line of the template, and wraps ErrRender.
func (im *Implementation) Render(g genome.Genome) (Rendered, error) {
	genes := g.Map()
	delete(genes, ImplementationGene)
	r := Rendered{Implementation: im, Genome: g, Entry: im.Entry, Files: maps.Clone(im.files)}
	var err error
	if im.Language != Triton {
		r.Header = Header(im.Problem(), im)
	} else if r.Triton, err = im.tritonCall(g); err != nil {
		return Rendered{}, err
	} else {
		r.Header, r.Entry = r.Triton.comment(), TritonKernel
	}
	if r.Source, err = im.execute(im.main, genes); err != nil {
		return Rendered{}, err
	}
	for _, u := range im.flags {
		f, err := im.execute(u, genes)
		if err != nil {
			return Rendered{}, err
		}
		if f = strings.TrimSpace(f); f == "" {
			continue
		}
		if err := im.checkFlag(u, f); err != nil {
			return Rendered{}, err
		}
		r.Flags = append(r.Flags, f)
	}
	if r.Threads, err = im.Threads(g); err != nil {
		return Rendered{}, err
	}
	for _, q := range im.Binary.Require {
		holds, err := q.when.holds(genes)
		if err != nil {
			return Rendered{}, im.fail(q.when.at, "require: %v", err)
		}
		if holds {
			r.Require = append(r.Require, q.Pattern)
		}
	}
	for _, b := range im.Profile {
		holds, err := b.when.holds(genes)
		if err != nil {
			return Rendered{}, im.fail(b.when.at, "profile: %v", err)
		}
		if holds {
			r.Profile = append(r.Profile, b)
		}
	}
	r.Hash = r.hash()
	return r, nil
}

// holds evaluates a condition over the parameters; nil always holds. A condition over a
// parameter that the genome lacks does not.
func (e *expression) holds(genes map[string]any) (bool, error) {
	if e == nil {
		return true, nil
	}
	if slices.ContainsFunc(e.prog.Names(), func(n string) bool { _, ok := genes[n]; return !ok }) {
		return false, nil
	}
	return e.prog.Bool(genes)
}

// RenderBaseline renders the baseline of the problem on the implementation's backend at some
// shapes, at least one, like a candidate. For a routine of a library it renders the genome
// that stands in for it. If there is none, there is no source, and the error wraps
// errors.ErrUnsupported.
func (im *Implementation) RenderBaseline(shapes ...Shape) (Rendered, error) {
	b := im.Baseline()
	switch {
	case b.Kind == BaselineSource:
		r := Rendered{
			Implementation: b.owner, Entry: b.Source.Entry, Source: b.Source.Text, Files: maps.Clone(b.owner.files),
			Header: header(im.Problem(), b.owner, b.Source.Entry), Flags: slices.Clone(b.Flags), Threads: 1,
		}
		r.Hash = r.hash()
		return r, nil
	case b.Genome == nil:
		return Rendered{}, fmt.Errorf("the baseline %s is compiled already: %w", b, errors.ErrUnsupported)
	}
	if len(shapes) == 0 {
		return Rendered{}, fmt.Errorf("baseline of %s: no shape was chosen", b.owner.Name)
	}
	values, err := b.At(shapes[0])
	if err != nil {
		return Rendered{}, err
	}
	for _, s := range shapes[1:] {
		other, err := b.At(s)
		if err != nil {
			return Rendered{}, err
		}
		if !maps.Equal(values, other) {
			return Rendered{}, fmt.Errorf("baseline of %s: it differs between the shapes %s and %s: tune them one at a time", b.owner.Name, shapes[0].Name, s.Name)
		}
	}
	space, err := genome.NewSpace(b.owner.narrowed(values), nil)
	if err != nil {
		return Rendered{}, fmt.Errorf("baseline of %s: %w", b.owner.Name, err)
	}
	g, err := space.FromMap(values)
	if err != nil {
		return Rendered{}, fmt.Errorf("baseline of %s: %w", b.owner.Name, err)
	}
	return b.owner.Render(g)
}

func (r *Rendered) hash() string {
	texts := map[string]string{
		"evotune/source": r.Source, "evotune/header": r.Header, "evotune/entry": r.Entry,
		"evotune/threads": strconv.Itoa(r.Threads),
	}
	for i, f := range r.Flags {
		texts["evotune/flag/"+strconv.Itoa(i)] = f
	}
	for name, text := range r.Files {
		texts["file/"+name] = text
	}
	return hashFiles("evotune candidate 1", texts)
}

var pragmaOnce = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*pragma[ \t]+once[ \t]*$`)

var ownDirective = regexp.MustCompile(`(?m)^[ \t]*//[ \t]*evotune[ \t]*:.*\n?`)

// SelfContained returns the source of a candidate as one file: the generated header
// first, then the source, with the files beside it inserted where they are
// included (each once).
func (r Rendered) SelfContained() string {
	if r.Triton != nil {
		return r.Header + r.Source
	}
	seen := map[string]bool{}
	var inline func(text string) string
	inline = func(text string) string {
		return sources.LocalInclude.ReplaceAllStringFunc(text, func(line string) string {
			name := sources.LocalInclude.FindStringSubmatch(line)[1]
			if name == HeaderFile {
				return "/* " + name + " is above */"
			}
			body, ok := r.Files[path.Clean(name)]
			if !ok {
				return line
			}
			if seen[path.Clean(name)] {
				return "/* " + name + " is above */"
			}
			seen[path.Clean(name)] = true
			body = pragmaOnce.ReplaceAllString(body, "")
			body = ownDirective.ReplaceAllString(body, "") // Directives replace the file's own
			return "/* begin " + name + " */\n" + strings.TrimRight(inline(body), "\n") + "\n/* end " + name + " */"
		})
	}
	return r.Header + "\n" + inline(r.Source)
}
