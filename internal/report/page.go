package report

import (
	_ "embed" // page.html
	"fmt"
	"html/template"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/chart"
)

// A page is what README.md and index.html both say; it is written once and
// rendered twice.
type page struct {
	Title  string
	Kicker string // above the title
	// Headline is the result in one sentence, and Tone how it is meant: "good",
	// "bad" or "idle".
	Headline, Tone string
	Figures        []figure
	Sections       []section
	Footer         string
}

// A figure is a number that is shown large.
type figure struct{ Value, Label string }

type section struct {
	Title  string
	Blocks []block
}

func (p *page) section(title string, blocks ...block) {
	var kept []block
	for _, b := range blocks {
		if b != nil {
			kept = append(kept, b)
		}
	}
	p.Sections = append(p.Sections, section{title, kept})
}

// A block is a part of a section; page.html has the HTML of each type.
type block interface {
	markdown(b *strings.Builder)
}

// para is a paragraph of plain text.
type para string

func (p para) markdown(b *strings.Builder) { fmt.Fprintf(b, "%s\n\n", markdownText(string(p))) }

// list is a list of plain text.
type list []string

func (l list) markdown(b *strings.Builder) {
	for _, s := range l {
		fmt.Fprintf(b, "- %s\n", markdownText(s))
	}
	b.WriteString("\n")
}

// code is text as it is; with a summary a page shows it when asked to.
type code struct{ Summary, Text string }

func (c code) markdown(b *strings.Builder) {
	if c.Summary != "" {
		fmt.Fprintf(b, "%s:\n\n", markdownText(c.Summary))
	}
	fence := "```"
	for strings.Contains(c.Text, fence) {
		fence += "`"
	}
	fmt.Fprintf(b, "%s\n%s\n%s\n\n", fence, strings.TrimRight(clean(c.Text), "\n"), fence)
}

// facts are names with their values.
type facts [][2]string

func (f facts) markdown(b *strings.Builder) {
	b.WriteString("| | |\n|---|---|\n")
	for _, r := range f {
		fmt.Fprintf(b, "| %s | %s |\n", markdownText(r[0]), markdownText(r[1]))
	}
	b.WriteString("\n")
}

// A cell of a table; Class is "num", "mono", "good", "bad", "idle" or several.
type cell struct{ Text, Class string }

func text(s string) cell                  { return cell{Text: s} }
func id(s string) cell                    { return cell{s, "mono id"} }
func mono(s string) cell                  { return cell{s, "mono"} }
func number(format string, a ...any) cell { return cell{fmt.Sprintf(format, a...), "num"} }
func strong(c cell) cell                  { c.Class += " strong"; return c }
func outcomeCell(c evaluator.Check) cell  { return cell{outcomeText(c), outcomeTone(c)} }
func verdictCell(v string) cell           { return cell{orElse(v, "pending"), verdictTone(v)} }
func outcomeText(c evaluator.Check) string {
	if c == evaluator.NotRun {
		return "NOT RUN"
	}
	return string(c)
}

func outcomeTone(c evaluator.Check) string {
	switch c {
	case evaluator.Passed:
		return "good"
	case evaluator.Failed:
		return "bad"
	}
	return "idle"
}

func verdictTone(v string) string {
	switch evaluator.Verdict(v) {
	case evaluator.Correct:
		return "good"
	case evaluator.Slower, evaluator.Infrastructure, "", "pending":
		return "idle"
	}
	return "bad"
}

// table is a table with a head.
type table struct {
	Head []string
	Rows [][]cell
	// Fold hides it behind a line to click, in HTML.
	Fold string
}

// Numeric says whether a column has numbers.
func (t table) Numeric(column int) bool {
	return len(t.Rows) > 0 && column < len(t.Rows[0]) && strings.Contains(t.Rows[0][column].Class, "num")
}

func (t table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "|")
	for _, h := range t.Head {
		fmt.Fprintf(b, " %s |", markdownText(h))
	}
	b.WriteString("\n|")
	for i := range t.Head {
		if t.Numeric(i) {
			b.WriteString("---:|")
		} else {
			b.WriteString("---|")
		}
	}
	b.WriteString("\n")
	for _, r := range t.Rows {
		b.WriteString("|")
		for _, c := range r {
			s := markdownText(c.Text)
			if strings.Contains(c.Class, "strong") && s != "" || s == "NOT RUN" {
				s = "**" + s + "**"
			}
			fmt.Fprintf(b, " %s |", s)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// markdown shows a plot as its file.
func (p *Plot) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "![%s](plots/%s.svg)\n\n%s\n\n", markdownText(p.Title), p.Name, markdownText(p.Caption))
}

// Inline is the drawing as an element of a page.
func (p *Plot) Inline() template.HTML { return template.HTML(p.drawing.SVG()) }

// plotBlock makes a block of a plot that there may not be.
func plotBlock(p *Plot) block {
	if p == nil {
		return nil
	}
	return p
}

// plots lists the drawings of a page.
func (p *page) plots() []*Plot {
	var out []*Plot
	for _, s := range p.Sections {
		for _, b := range s.Blocks {
			if v, ok := b.(*Plot); ok {
				out = append(out, v)
			}
		}
	}
	return out
}

// clean is text without what a terminal or an editor would act upon, and what XML
// has no way to say.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f || r == 0xFFFE || r == 0xFFFF {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

var markdownSpecial = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "\\|", "`", "\\`", "*", "\\*", "_", "\\_",
	"[", "\\[", "]", "\\]", "\\", "\\\\", "\n", " ", "\r", " ", "\t", " ", "#", "\\#", "~", "\\~",
)

// markdownText is plain text in Markdown, on one line.
func markdownText(s string) string { return markdownSpecial.Replace(clean(s)) }

// markdown renders the page as README.md.
func (p *page) markdown() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", markdownText(p.Title))
	if p.Headline != "" {
		fmt.Fprintf(&b, "**%s**\n\n", markdownText(p.Headline))
	}
	for _, s := range p.Sections {
		fmt.Fprintf(&b, "## %s\n\n", markdownText(s.Title))
		for _, block := range s.Blocks {
			block.markdown(&b)
		}
	}
	fmt.Fprintf(&b, "---\n\n%s\n", markdownText(p.Footer))
	return []byte(b.String())
}

//go:embed page.html
var pageHTML string

// The elements of a page are told apart by their types.
var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"split": strings.Split,
	"trim":  func(s string) string { return strings.TrimRight(s, "\n") },
}).Parse(pageHTML))

// Style is that of the plots.
func (p *page) Style() template.CSS { return chart.Style }

// html renders the page as index.html: one file that needs no other.
func (p *page) html() ([]byte, error) {
	var b strings.Builder
	err := pageTemplate.Execute(&b, p)
	return []byte(clean(b.String())), err
}
