package report

import (
	"fmt"
	"strings"

	"github.com/evotune/evotune/evaluator"
)

// A page is what README.md and index.html both say; it is written once and
// rendered twice.
type page struct {
	title  string
	kicker string // above the title
	// headline is the result in one sentence, and tone how it is meant: "good",
	// "bad" or "idle".
	headline, tone string
	figures        []figure
	sections       []section
	footer         string
}

// A figure is a number that is shown large.
type figure struct{ value, label string }

type section struct {
	title  string
	blocks []block
}

func (p *page) section(title string, blocks ...block) {
	var kept []block
	for _, b := range blocks {
		if b != nil {
			kept = append(kept, b)
		}
	}
	p.sections = append(p.sections, section{title, kept})
}

// A block is a part of a section.
type block interface {
	markdown(b *strings.Builder)
	html(b *strings.Builder)
}

// para is a paragraph of plain text.
type para string

func (p para) markdown(b *strings.Builder) { fmt.Fprintf(b, "%s\n\n", markdownText(string(p))) }
func (p para) html(b *strings.Builder)     { fmt.Fprintf(b, "<p>%s</p>\n", escape(string(p))) }

// list is a list of plain text.
type list []string

func (l list) markdown(b *strings.Builder) {
	for _, s := range l {
		fmt.Fprintf(b, "- %s\n", markdownText(s))
	}
	b.WriteString("\n")
}

func (l list) html(b *strings.Builder) {
	b.WriteString("<ul>\n")
	for _, s := range l {
		fmt.Fprintf(b, "<li>%s</li>\n", escape(s))
	}
	b.WriteString("</ul>\n")
}

// code is text as it is; with a summary a page shows it when asked to.
type code struct{ summary, text string }

func (c code) markdown(b *strings.Builder) {
	if c.summary != "" {
		fmt.Fprintf(b, "%s:\n\n", markdownText(c.summary))
	}
	fence := "```"
	for strings.Contains(c.text, fence) {
		fence += "`"
	}
	fmt.Fprintf(b, "%s\n%s\n%s\n\n", fence, strings.TrimRight(clean(c.text), "\n"), fence)
}

func (c code) html(b *strings.Builder) {
	pre := "<pre>" + escape(strings.TrimRight(c.text, "\n")) + "</pre>"
	if c.summary == "" {
		b.WriteString(pre + "\n")
		return
	}
	fmt.Fprintf(b, "<details><summary>%s</summary>%s</details>\n", escape(c.summary), pre)
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

func (f facts) html(b *strings.Builder) {
	b.WriteString("<dl>\n")
	for _, r := range f {
		fmt.Fprintf(b, "<div><dt>%s</dt><dd>%s</dd></div>\n", escape(r[0]), strings.ReplaceAll(escape(r[1]), ",", ",<wbr/>"))
	}
	b.WriteString("</dl>\n")
}

// A cell of a table; class is "num", "mono", "good", "bad", "idle" or several.
type cell struct{ text, class string }

func text(s string) cell                  { return cell{text: s} }
func id(s string) cell                    { return cell{s, "mono id"} }
func mono(s string) cell                  { return cell{s, "mono"} }
func number(format string, a ...any) cell { return cell{fmt.Sprintf(format, a...), "num"} }
func strong(c cell) cell                  { c.class += " strong"; return c }
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
	case evaluator.Infrastructure, "", "pending":
		return "idle"
	}
	return "bad"
}

// table is a table with a head.
type table struct {
	head []string
	rows [][]cell
	// fold hides it behind a line to click, in HTML.
	fold string
}

func (t table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "|")
	for _, h := range t.head {
		fmt.Fprintf(b, " %s |", markdownText(h))
	}
	b.WriteString("\n|")
	for i := range t.head {
		if len(t.rows) > 0 && i < len(t.rows[0]) && strings.Contains(t.rows[0][i].class, "num") {
			b.WriteString("---:|")
		} else {
			b.WriteString("---|")
		}
	}
	b.WriteString("\n")
	for _, r := range t.rows {
		b.WriteString("|")
		for _, c := range r {
			s := markdownText(c.text)
			if strings.Contains(c.class, "strong") && s != "" || s == "NOT RUN" {
				s = "**" + s + "**"
			}
			fmt.Fprintf(b, " %s |", s)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func (t table) html(b *strings.Builder) {
	if t.fold != "" {
		fmt.Fprintf(b, "<details><summary>%s</summary>", escape(t.fold))
		defer b.WriteString("</details>\n")
	}
	b.WriteString("<div class=\"wide\"><table>\n<thead><tr>")
	for i, h := range t.head {
		class := ""
		if len(t.rows) > 0 && i < len(t.rows[0]) && strings.Contains(t.rows[0][i].class, "num") {
			class = ` class="num"`
		}
		fmt.Fprintf(b, "<th%s>%s</th>", class, escape(h))
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	for _, r := range t.rows {
		b.WriteString("<tr>")
		for _, c := range r {
			class := ""
			if c.class != "" {
				class = fmt.Sprintf(` class="%s"`, escape(strings.TrimSpace(c.class)))
			}
			fmt.Fprintf(b, "<td%s>%s</td>", class, escape(c.text))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
}

// markdown shows a plot as its file.
func (p *Plot) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "![%s](plots/%s.svg)\n\n%s\n\n", markdownText(p.Title), p.Name, markdownText(p.Caption))
}

func (p *Plot) html(b *strings.Builder) {
	fmt.Fprintf(b, "<figure><figcaption><b>%s</b> %s</figcaption><div class=\"wide\">%s</div></figure>\n", escape(p.Title), escape(p.Caption), p.svg.inline())
}

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
	for _, s := range p.sections {
		for _, b := range s.blocks {
			if v, ok := b.(*Plot); ok {
				out = append(out, v)
			}
		}
	}
	return out
}

// clean is text without what a terminal or an editor would act upon.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f {
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
	fmt.Fprintf(&b, "# %s\n\n", markdownText(p.title))
	if p.headline != "" {
		fmt.Fprintf(&b, "**%s**\n\n", markdownText(p.headline))
	}
	for _, s := range p.sections {
		fmt.Fprintf(&b, "## %s\n\n", markdownText(s.title))
		for _, block := range s.blocks {
			block.markdown(&b)
		}
	}
	fmt.Fprintf(&b, "---\n\n%s\n", markdownText(p.footer))
	return []byte(b.String())
}

// html renders the page as index.html: one file that needs no other.
func (p *page) html() []byte {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n" +
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n" +
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n")
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s%s%s</style>\n</head>\n<body>\n", escape(p.title), palette, pageStyle, plotStyle)
	fmt.Fprintf(&b, "<header><p class=\"kicker\">%s</p><h1>%s</h1>\n", escape(p.kicker), escape(p.title))
	if p.headline != "" {
		fmt.Fprintf(&b, "<p class=\"headline %s\">%s</p>\n", p.tone, escape(p.headline))
	}
	if len(p.figures) > 0 {
		b.WriteString("<div class=\"figures\">")
		for _, f := range p.figures {
			fmt.Fprintf(&b, "<div><b>%s</b><span>%s</span></div>", escape(f.value), escape(f.label))
		}
		b.WriteString("</div>\n")
	}
	b.WriteString("<nav>")
	for i, s := range p.sections {
		fmt.Fprintf(&b, "<a href=\"#s%d\">%s</a> ", i, escape(s.title))
	}
	b.WriteString("</nav></header>\n<main>\n")
	for i, s := range p.sections {
		fmt.Fprintf(&b, "<section id=\"s%d\"><h2>%s</h2>\n", i, escape(s.title))
		for _, block := range s.blocks {
			block.html(&b)
		}
		b.WriteString("</section>\n")
	}
	fmt.Fprintf(&b, "</main>\n<footer>%s</footer>\n</body>\n</html>\n", escape(p.footer))
	return []byte(b.String())
}

const pageStyle = `
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
header,main,footer{max-width:940px;margin:0 auto;padding:0 24px}
header{padding-top:40px}
.kicker{margin:0;color:var(--soft);font-size:13px;letter-spacing:.04em;text-transform:uppercase}
h1{margin:2px 0 10px;font-size:30px;line-height:1.2;overflow-wrap:anywhere}
h2{margin:44px 0 12px;padding-bottom:6px;font-size:20px;border-bottom:1px solid var(--rule)}
.headline{margin:0 0 18px;padding:10px 14px;border-left:4px solid var(--idle);background:var(--card);border-radius:0 6px 6px 0;font-size:16px}
.headline.good{border-color:var(--good)}.headline.bad{border-color:var(--bad)}
.figures{display:flex;flex-wrap:wrap;gap:12px;margin:0 0 18px}
.figures div{flex:1 1 130px;padding:12px 14px;background:var(--card);border:1px solid var(--rule);border-radius:8px}
.figures b{display:block;font-size:22px;line-height:1.25;font-weight:650}.figures span{color:var(--soft);font-size:13px}
nav{font-size:13px;line-height:1.9}nav a{margin-right:12px;color:var(--a);text-decoration:none;white-space:nowrap}nav a:hover{text-decoration:underline}
dl{margin:0 0 16px;display:grid;gap:0}
dl div{display:grid;grid-template-columns:170px minmax(0,1fr);gap:14px;padding:5px 0;border-bottom:1px solid var(--grid)}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;margin:0 0 16px;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px 5px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid)}
th{color:var(--soft);font-weight:600;border-bottom-color:var(--rule);white-space:nowrap}
.num{text-align:right;white-space:nowrap}.strong{font-weight:650}
.mono,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12.5px}
td.mono{overflow-wrap:anywhere}td.id{white-space:nowrap}td.note{white-space:nowrap}
td.good{color:var(--good)}td.bad{color:var(--bad);font-weight:650}td.idle{color:var(--soft);font-weight:650}
pre{margin:0 0 16px;padding:12px 14px;background:var(--card);border:1px solid var(--rule);border-radius:6px;overflow:auto;max-height:520px;line-height:1.45}
details{margin:0 0 14px}summary{cursor:pointer;color:var(--a);margin-bottom:8px}
figure{margin:0 0 26px}figcaption{color:var(--soft);font-size:13px;margin-bottom:8px}figcaption b{display:block;color:var(--ink);font-size:14.5px}
footer{padding-top:30px;padding-bottom:50px;color:var(--soft);font-size:13px;overflow-wrap:anywhere}
@media (max-width:600px){dl div{grid-template-columns:1fr;gap:0}header,main,footer{padding-left:14px;padding-right:14px}}
@media print{details>*{display:block}pre{max-height:none;white-space:pre-wrap}nav{display:none}}
`
