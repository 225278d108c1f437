// Package docs reads the pages of this repository and the commands in them, for
// the tests that hold them to what they say.
//
// # Model
//
// A page is a Markdown file of the root, of examples, of docs or of docs/evidence, whose
// folders are left as they are. A command is a line of a block of code that
// has the language sh, is indented, or follows a prompt ("$ "), and what stands
// in backticks in running text and begins with tune, go or scripts/. A block
// that cannot be run without a GPU has [GPUMarker] on a line of its own before
// it.
//
// # Caveats
//
// It knows the Markdown that this project writes, and no other. Words are split
// as a shell does, but for nested quotes, substitutions and here-documents.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// GPUMarker stands on a line of its own before a block of commands.
const GPUMarker = "<!-- needs a GPU -->"

// A Page is a Markdown file.
type Page struct {
	Path  string // from the repository's root, with slashes
	Lines []Line
}

// A Line is one line of a page.
type Line struct {
	Text  string
	Code  bool // in a block of code
	block string
	gpu   bool
}

// The languages of blocks: that of a fence, or this.
const indented = "indented"

// A Command is one that a page shows.
type Command struct {
	Page   string
	Line   int      // from 1
	Words  []string // without assignments, redirections and brackets
	Inline bool     // in running text, where a part of the command may do
	GPU    bool     // in a block with GPUMarker
}

// Pages reads all pages below root.
func Pages(root string) ([]*Page, error) {
	var out []*Page
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			top, _, _ := strings.Cut(name, "/")
			if name != "." && top != "docs" && top != "examples" || path.Dir(name) == "docs/evidence" {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		p, err := Read(root, name)
		out = append(out, p)
		return err
	})
	return out, err
}

// Read reads one page below root.
func Read(root, name string) (*Page, error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	p := &Page{Path: path.Clean(name)}
	fence, fenced, marked := "", false, false
	last := Line{}
	for text := range strings.Lines(string(text)) {
		line := Line{Text: strings.TrimSuffix(text, "\n")}
		info, ticks := strings.CutPrefix(line.Text, "```")
		switch {
		case ticks:
			fenced = !fenced
			fence = info
		case fenced:
			line.Code, line.block, line.gpu = true, fence, marked
		case strings.HasPrefix(line.Text, "    ") && (last.block == indented || last.Text == GPUMarker || strings.TrimSpace(last.Text) == ""):
			line.Code, line.block, line.gpu = true, indented, marked
		case line.Text == GPUMarker:
			marked = true
		case strings.TrimSpace(line.Text) != "":
			marked = false
		}
		p.Lines = append(p.Lines, line)
		last = line
	}
	return p, nil
}

// Size is the page's length in bytes.
func (p *Page) Size() int {
	n := 0
	for _, l := range p.Lines {
		n += len(l.Text) + 1
	}
	return n
}

var (
	link     = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	backtick = regexp.MustCompile("`[^`]+`")
	noSlug   = regexp.MustCompile(`[^\p{L}\p{N}\p{M} _-]`)
)

// Prose is the line without what is in backticks.
func (l Line) Prose() string { return backtick.ReplaceAllString(l.Text, "") }

// Links are the targets of a line's links to files of the repository, from its
// root, with their anchors.
func (p *Page) Links(l Line) []string {
	var out []string
	for _, m := range link.FindAllStringSubmatch(backtick.ReplaceAllString(l.Text, "code"), -1) {
		switch target := m[2]; {
		case strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:"):
		case target[0] == '#':
			out = append(out, p.Path+target)
		default:
			out = append(out, path.Join(path.Dir(p.Path), target))
		}
	}
	return out
}

// Anchors are what GitHub makes of the headings.
func (p *Page) Anchors() []string {
	var out []string
	for _, l := range p.Lines {
		hashes, title, _ := strings.Cut(l.Text, " ")
		if l.Code || hashes == "" || strings.Trim(hashes, "#") != "" {
			continue
		}
		title = noSlug.ReplaceAllString(strings.ToLower(link.ReplaceAllString(title, "$1")), "")
		slug := strings.ReplaceAll(title, " ", "-")
		unique := slug
		for n := 1; slices.Contains(out, unique); n++ {
			unique = fmt.Sprintf("%s-%d", slug, n)
		}
		out = append(out, unique)
	}
	return out
}

var (
	// typed is how a command in an indented block begins.
	typed = regexp.MustCompile(`^\(?(sudo |[A-Z_]+=\S+ )*((\./|bin/)?tune|cd|go|scripts/\S+|\.ci/run|cmake|python3|scp|apt-get)( |$)`)
	// named is how one in running text does.
	named = regexp.MustCompile(`^(tune|go (test|run|build|vet|install)) |^scripts/`)
)

// Commands are those that the page shows, in its order.
func (p *Page) Commands() []Command {
	var out []Command
	for i, l := range p.Lines {
		text := strings.TrimSpace(l.Text)
		prompted, prompt := strings.CutPrefix(text, "$ ")
		var shown []string
		switch {
		case !l.Code:
			for _, span := range backtick.FindAllString(l.Text, -1) {
				span = strings.ReplaceAll(strings.Trim(span, "`"), `\|`, "|") // as in a table
				if named.MatchString(span) {
					shown = append(shown, span)
				}
			}
		case prompt:
			shown = []string{prompted}
		case l.block == "sh", l.block == indented && typed.MatchString(text):
			shown = []string{text}
		}
		for _, s := range shown {
			for _, words := range Split(s) {
				out = append(out, Command{p.Path, i + 1, words, !l.Code, l.gpu})
			}
		}
	}
	return out
}

var (
	word       = regexp.MustCompile(`^(?:'[^']*'|"[^"]*"|[^\s'"])+`)
	part       = regexp.MustCompile(`'[^']*'|"[^"]*"|[^'"]+`)
	assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)
)

// Split splits a line into commands, and these into words.
func Split(line string) [][]string {
	var out [][]string
	var words []string
	end := func() {
		for len(words) > 0 && (words[0] == "sudo" || assignment.MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) > 0 {
			out = append(out, words)
		}
		words = nil
	}
	for {
		line = strings.TrimLeft(line, " \t(")
		w := word.FindString(line)
		if w == "" || w[0] == '#' {
			end()
			return out
		}
		line = line[len(w):]
		switch w := strings.TrimRight(w, ";)"); {
		case w == "|" || w == "&&" || w == "||":
			end()
		case w == "" || w[0] == '>' || w[0] == '<':
		default:
			words = append(words, part.ReplaceAllStringFunc(w, func(s string) string {
				if s[0] == '\'' || s[0] == '"' {
					return s[1 : len(s)-1]
				}
				return strings.Trim(s, "[]") // of what is optional
			}))
		}
		if strings.HasSuffix(w, ";") {
			end()
		}
	}
}

// A Finding is what is wrong on a line of a file.
type Finding struct {
	File string // from the repository's root
	Line int
	What string
}

func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.What) }
