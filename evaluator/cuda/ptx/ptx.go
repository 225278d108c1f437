// Package ptx reads the assembly of GPUs as far as delays need it: where statements end, which
// of them are barriers, copies and atomics, and which lines tell of the source. [Delay] puts random delays around
// the former; see ADR 8.
package ptx

import (
	"fmt"
	"regexp"
	"strings"
)

// A Statement is an instruction in the body of a function.
type Statement struct {
	// start and end are where it lies in the text, from its predicate to behind its
	// semicolon.
	start, end int
	// Mnemonic is the operation with its modifiers: "mbarrier.try_wait.parity.b64".
	Mnemonic string
	entry    bool   // of a kernel, and not of another function
	label    bool   // something may jump to it
	function int    // counts the bodies
	name     string // of the function
}

// Statements lists the instructions of a module in the order of its text. It knows
// as much of PTX as it takes to say where one ends: comments, strings, braces, labels,
// predicates and directives. What inline assembly can hide an instruction behind is
// refused, or read as ptxas reads it.
func Statements(text string) ([]Statement, error) {
	p := &scanner{text: text}
	err := p.scan()
	return p.found, err
}

type scanner struct {
	text      string
	at        int
	functions int
	name      string // of the function that is being read
	found     []Statement
	about     []about
}

// An about is a directive, section or label that tells of the source.
type about struct {
	start, end int
	what       string // ".loc", ".file", ".section" or the label
}

// scan reads a module.
func (p *scanner) scan() error {
	for {
		p.blank()
		if p.at == len(p.text) {
			return nil
		}
		if err := p.outside(); err != nil {
			line := 1 + strings.Count(p.text[:p.at], "\n")
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// without gives PTX without some of what tells of the source; as it is where it cannot be read.
func without(ptx string, cut func(about) bool) string {
	p := &scanner{text: ptx}
	if p.scan() != nil {
		return ptx
	}
	var out strings.Builder
	at := 0
	for _, a := range p.about {
		if cut(a) {
			out.WriteString(ptx[at:a.start])
			at = a.end
		}
	}
	out.WriteString(ptx[at:])
	return out.String()
}

// Unnumbered gives PTX without the lines of the source. Nothing else is cut: whatever inline assembly makes
// of comments and strings, a number of a line holds no instruction.
func Unnumbered(ptx string) string {
	return without(ptx, func(a about) bool { return a.what == ".loc" })
}

// Unlined leaves out all that tells of the source: labels that nothing else names, too.
func Unlined(ptx string) string {
	ptx = without(ptx, func(a about) bool { return a.what[0] == '.' })
	named := map[string]int{}
	for _, name := range debugLabel.FindAllString(ptx, -1) {
		named[name]++
	}
	return without(ptx, func(a about) bool { return named[a.what] == 1 })
}

// debugLabel is what Triton's compiler calls places in the source.
var debugLabel = regexp.MustCompile(`\$L__tmp\d+`)

// openDirectives end with their operands, behind which another statement may stand on the
// same line; all others end with a semicolon or a block.
var openDirectives = map[string]*regexp.Regexp{
	".version":      regexp.MustCompile(`^\.version[ \t]+\d+\.\d+`),
	".target":       regexp.MustCompile(`^\.target[ \t]+\w+(,[ \t]*\w+)*`),
	".address_size": regexp.MustCompile(`^\.address_size[ \t]+\d+`),
	".file":         regexp.MustCompile(`^\.file[ \t]+\d+[ \t]+"[^"\n]*"([ \t]*,[ \t]*\d+[ \t]*,[ \t]*\d+)?`),
	".loc": regexp.MustCompile(`^\.loc[ \t]+\d+[ \t]+\d+[ \t]+\d+` +
		`([ \t]*,[ \t]*function_name[ \t]+[\w$]+([ \t]*\+[ \t]*\d+)?([ \t]*,[ \t]*inlined_at[ \t]+\d+[ \t]+\d+[ \t]+\d+)?)?`),
}

// innerDirectives are those of function bodies that end with a semicolon.
var innerDirectives = map[string]bool{
	".reg": true, ".local": true, ".shared": true, ".param": true, ".global": true, ".const": true, ".extern": true, ".pragma": true,
	".branchtargets": true, ".calltargets": true, ".callprototype": true,
}

// operands goes behind a directive that ends with its operands.
func (p *scanner) operands(word string) error {
	n := len(openDirectives[word].FindString(p.text[p.at:]))
	if n == 0 {
		return fmt.Errorf("%q has operands that are not known", p.rest())
	}
	begin := p.at
	p.at += n
	if p.at < len(p.text) && strings.IndexByte(" \t\r\n/", p.text[p.at]) < 0 {
		p.at = begin
		return fmt.Errorf("%q goes on behind its operands", p.rest())
	}
	if word == ".loc" || word == ".file" {
		p.about = append(p.about, about{begin, p.at, word})
	}
	return nil
}

// outside reads one directive of a module, with the body of a function.
func (p *scanner) outside() error {
	if word := p.word(); openDirectives[word] != nil {
		return p.operands(word)
	}
	// A directive may name its kind behind linking directives: .visible .entry f(...), or
	// .visible.entry f(...).
	kind, begin, debug := "", p.at, false
	p.name = ""
	for p.at < len(p.text) {
		p.blank()
		switch word := p.word(); {
		case word != "":
			for part := range strings.SplitSeq(word, ".") {
				if part = "." + part; part == ".entry" || part == ".func" || part == ".section" {
					kind = part
				}
				debug = debug || strings.HasPrefix(part, ".debug_")
			}
			if word[0] != '.' && p.name == "" && (kind == ".entry" || kind == ".func") {
				p.name = word
			}
			p.at += len(word)
		case p.at == len(p.text):
		case p.text[p.at] == ';':
			p.at++
			return nil
		case p.text[p.at] == '(' || p.text[p.at] == '"':
			if err := p.skip(); err != nil {
				return err
			}
		case p.text[p.at] == '{' && (kind == ".entry" || kind == ".func"):
			p.functions++
			return p.body(kind == ".entry")
		case p.text[p.at] == '{':
			if err := p.skip(); err != nil {
				return err
			}
			if kind == ".section" {
				if debug {
					p.about = append(p.about, about{begin, p.at, kind})
				}
				return nil
			}
		case p.text[p.at] == '#':
			return p.line()
		default:
			p.at++
		}
	}
	return fmt.Errorf("a directive without an end")
}

// body reads a function's block, and the blocks in it.
func (p *scanner) body(entry bool) error {
	depth, label := 0, false
	for {
		p.blank()
		if p.at == len(p.text) {
			return fmt.Errorf("a function without an end")
		}
		switch p.text[p.at] {
		case '{':
			depth++
			p.at++
			continue
		case '}':
			p.at++
			if depth--; depth == 0 {
				return nil
			}
			continue
		case ';':
			p.at++
			continue
		case '#':
			return p.line()
		}
		start := p.at
		if p.text[p.at] == '@' { // a predicate: @p, @!%p1
			p.at++
			p.blank()
			if p.at < len(p.text) && p.text[p.at] == '!' {
				p.at++
				p.blank()
			}
			p.at += len(p.word())
			p.blank()
		}
		word := p.word()
		if word == "" {
			return fmt.Errorf("%q begins no statement", p.rest())
		}
		if word == ".loc" || word == ".file" {
			if err := p.operands(word); err != nil {
				return err
			}
			continue
		}
		if word[0] == '.' && !innerDirectives[word] {
			return fmt.Errorf("%q is not a directive of a function", p.rest())
		}
		p.at += len(word)
		if p.label() {
			if p.text[start] != '@' && debugLabel.FindString(word) == word {
				p.about = append(p.about, about{start, p.at, word})
			}
			label = true
			continue
		}
		if err := p.semicolon(); err != nil {
			return err
		}
		if word[0] != '.' {
			p.found = append(p.found, Statement{start, p.at, word, entry, label, p.functions, p.name})
			label = false
		}
	}
}

// label takes the colon behind a label. What follows it is a statement of its own.
func (p *scanner) label() bool {
	mark := p.at
	p.blank()
	if p.at < len(p.text) && p.text[p.at] == ':' {
		p.at++
		return true
	}
	p.at = mark
	return false
}

// line refuses what numbers lines as a preprocessor does.
func (p *scanner) line() error {
	return fmt.Errorf("%q: lines must not be numbered in PTX, such as by inline assembly", p.rest())
}

// semicolon goes behind the end of a statement, with the braces of its operands.
func (p *scanner) semicolon() error {
	for {
		p.blank()
		switch {
		case p.at == len(p.text) || p.text[p.at] == '}':
			return fmt.Errorf("a statement without a semicolon before %q", p.rest())
		case p.text[p.at] == ';':
			p.at++
			return nil
		case strings.IndexByte("{([\"", p.text[p.at]) >= 0:
			if err := p.skip(); err != nil {
				return err
			}
		case p.text[p.at] == '#':
			return p.line()
		default:
			p.at++
		}
	}
}

// skip goes behind a bracket's partner, or a string.
func (p *scanner) skip() error {
	open := p.at
	partner := map[byte]byte{'{': '}', '(': ')', '[': ']'}[p.text[p.at]]
	if partner == 0 {
		n := strings.IndexByte(p.text[p.at+1:], '"')
		if n < 0 {
			return fmt.Errorf("a string without an end")
		}
		p.at += n + 2
		return nil
	}
	p.at++
	for {
		p.blank()
		switch {
		case p.at == len(p.text):
			p.at = open
			return fmt.Errorf("%q without its partner", p.text[open])
		case p.text[p.at] == partner:
			p.at++
			return nil
		case strings.IndexByte("{([\"", p.text[p.at]) >= 0:
			if err := p.skip(); err != nil {
				return err
			}
		case p.text[p.at] == '#':
			return p.line()
		case p.text[p.at] == ';':
			p.at = open
			return fmt.Errorf("%q without its partner before the semicolon", p.text[p.at])
		default:
			p.at++
		}
	}
}

// blank skips white space and comments.
func (p *scanner) blank() {
	for p.at < len(p.text) {
		switch rest := p.text[p.at:]; {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			p.at++
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			p.at += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				p.at = len(p.text)
				return
			}
			p.at += n + 4
		default:
			return
		}
	}
}

// word is the name or mnemonic here; "" if there is none. Two colons are a part of a
// mnemonic (.shared::cta), one ends a label.
func (p *scanner) word() string {
	i := p.at
	for i < len(p.text) {
		c := p.text[i]
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._$%", c) >= 0:
			i++
		case c == ':' && strings.HasPrefix(p.text[i:], "::"):
			i += 2
		default:
			return p.text[p.at:i]
		}
	}
	return p.text[p.at:i]
}

// rest is the start of what follows, for messages.
func (p *scanner) rest() string {
	line, _, _ := strings.Cut(p.text[p.at:], "\n")
	return line[:min(len(line), 40)]
}
