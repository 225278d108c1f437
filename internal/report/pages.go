package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/chart"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/words"
)

// Files are the contents of the folder of evidence.
func (e *Evidence) Files() (Files, error) {
	p := e.page()
	f, err := render("evidence.json", e, p)
	if err != nil {
		return nil, err
	}
	for _, s := range e.Source.Files {
		f["source/"+s.Name] = []byte(s.text)
	}
	for i, w := range e.Source.Winners {
		b, err := encode(w)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			f["winner.json"] = b
		}
		f["winner-"+fileName(w.Shape)+".json"] = b
	}
	if e.Source.whole != "" {
		f[winnerSource] = []byte(e.Source.whole)
	}
	f.Seal()
	return f, nil
}

// Files are the contents of the folder of a campaign's report.
func (r *Campaign) Files() (Files, error) {
	f, err := render("report.json", r, r.page())
	if err != nil {
		return nil, err
	}
	f.Seal()
	return f, nil
}

func render(name string, v any, p *page) (Files, error) {
	b, err := encode(v)
	if err != nil {
		return nil, err
	}
	index, err := p.html()
	if err != nil {
		return nil, err
	}
	f := Files{name: b, "README.md": p.markdown(), "index.html": index}
	for _, plot := range p.plots() {
		f["plots/"+plot.Name+".svg"] = plot.file()
	}
	return f, nil
}

func encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// fileName makes a name of a shape's.
func fileName(shape string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._+-", r) {
			return r
		}
		return '_'
	}, shape)
}

func nanoseconds(ns float64) string {
	if math.IsNaN(ns) || math.IsInf(ns, 0) {
		return "not finite"
	}
	unit, f := timeUnit(ns)
	return strconv.FormatFloat(ns*f, 'f', 2, 64) + " " + unit
}

func seconds(s float64) string {
	if s >= 60 {
		return time.Duration(s * float64(time.Second)).Round(time.Second).String()
	}
	return fmt.Sprintf("%.3gs", s)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func significance(c evaluator.Comparison) string {
	s := fmt.Sprintf("time ratio %.3f, p = %.3g, samples %d + %d, level %g", c.Ratio, c.P, c.N1, c.N2, c.Alpha)
	if !c.Significant {
		s = "~ no significant difference: " + s
	}
	for _, w := range c.Warnings {
		s += "; " + w
	}
	return s
}

// tested says what the test against the baseline found, on what d describes.
func tested(vs evaluator.Comparison, d evaluator.Description) (said, tone string) {
	switch {
	case len(d.Unproven) > 0:
		return d.NotProven(), "idle"
	case !vs.Significant:
		return "but the difference is NOT significant", "idle"
	case vs.Ratio < 1:
		return "significant", "good"
	}
	return "and significantly SLOWER than the baseline", "bad"
}

// pace says how fast a candidate is.
func pace(speedup, median, baseline float64) string {
	return fmt.Sprintf("%.3f times as fast as the baseline (%s against %s)", speedup, nanoseconds(median), nanoseconds(baseline))
}

// paceFigures are those of a measurement.
func paceFigures(from string, speedup, median, baseline float64) []figure {
	return []figure{{fmt.Sprintf("%.3fx", speedup), "speedup (" + from + ")"}, {nanoseconds(median), "per launch"}, {nanoseconds(baseline), "baseline"}}
}

// headline says a result in one sentence.
func (e *Evidence) headline() (line, tone string) {
	s := e.Summary
	if recorded(e.Description) {
		line = fmt.Sprintf("Recorded as %s in a table", s.Verdict)
		if s.Speedup > 0 {
			line += fmt.Sprintf(", at %.3f times the speed of its baseline", s.Speedup)
		}
		return line + "; nothing was checked or measured here", "idle"
	}
	if s.Verdict != string(evaluator.Correct) {
		return colon(fmt.Sprintf("Not correct: %s in the stage %s", s.Verdict, orElse(s.Stage, "before any")), words.FirstLine(s.Reason)), "bad"
	}
	if !(s.Speedup > 0) {
		return "Correct; no time was measured", "idle"
	}
	line = "Correct, and " + pace(s.Speedup, s.MedianNS, s.BaselineNS)
	switch {
	case s.Tested:
		said, tone := tested(*e.Finals.VsBaseline, e.Description)
		return line + ": the winner of the finals, " + said, tone
	case s.Winner:
		return line + ": the winner of the finals, but no test was made", "idle"
	case s.From == "finals":
		return line + ": measured again in finals, which another candidate won; no test was made for this one", "idle"
	}
	return line + ": one measurement during the search, without a test", "idle"
}

func (e *Evidence) page() *page {
	p := &page{
		Title: e.Kernel + " " + e.Candidate, Kicker: "evidence of one candidate",
		Footer: fmt.Sprintf("Made by %s on %s; format %s. Every figure here is computed from evidence.json; SHA256SUMS has the hashes of all files.", orElse(e.By, "evotune"), stamp(e.Made), e.Format),
	}
	p.Headline, p.Tone = e.headline()
	if e.Summary.Speedup > 0 {
		p.Figures = paceFigures(e.Summary.From, e.Summary.Speedup, e.Summary.MedianNS, e.Summary.BaselineNS)
	}
	p.Figures = append(p.Figures, figure{orElse(e.Summary.Verdict, "pending"), "verdict"}, figure{fmt.Sprint(len(e.NotRun)), "not run (listed below)"})

	d := e.Description
	identity := facts{
		{"candidate", e.Candidate},
		{"campaign", fmt.Sprintf("%s, proposal %d", e.Campaign, e.Index)},
		{"kernel", fmt.Sprintf("%s at %s", e.Kernel, strings.Join(e.Shapes, ", "))},
		{"genome", e.Encoding},
		{"made by", orElse(e.Operator, "?") + parentText(e.Parents)},
		{"judged", stamp(e.AskedAt) + " to " + stamp(e.ToldAt)},
		{"device", d.Device.Name + " (" + d.Device.Fingerprint + ")"},
		{"baseline", orElse(d.Baseline, "not recorded")},
		{"compiler", orElse(d.Compiler, "not recorded")},
		{"flags", e.flagText()},
		{"harness", orElse(d.Harness, "not recorded")},
		{"data seed", fmt.Sprint(e.Seed)},
		{"key of the result", orElse(e.Result.Key, "none")},
		{"source (SHA-256)", orElse(e.Result.Source, "none")},
		{"binary (SHA-256)", orElse(e.Result.Binary, "none")},
	}
	if e.Result.SharedWith != "" {
		identity = append(identity, [2]string{"same binary as", e.Result.SharedWith + " (its evaluation answers for this one)"})
	}
	if e.Result.Reason != "" {
		identity = append(identity, [2]string{"reason", e.Result.Reason})
	}
	p.section("Identity", identity)
	p.section("Time", e.timeBlocks()...)
	if e.Finals != nil {
		p.section("Finals", append([]block{finalsPara(e.Description)}, finalsBlocks(e.Finals, e.Candidate)...)...)
	}
	p.section("Parity", e.parityBlocks()...)
	p.section("Sanitizers", evidenceBlocks(e.Sanitizers, "No sanitizer ran: the stage was not reached.")...)
	p.section("Inspection", evidenceBlocks(e.Inspection, "Nothing was inspected: the stage was not reached or the tools were missing.")...)
	p.section("Profile", evidenceBlocks(e.Profile, "Not measured. (Not measured is not zero.)")...)
	p.section("Stages", stepsTable(e.Result))
	p.section("Compilation", evidenceBlocks(e.observed(evaluator.StageCompile), "Nothing was compiled.")...)
	p.section("Source", e.sourceBlocks()...)
	p.section("Lineage", lineageBlocks(e.Lineage)...)
	p.section("Device and tools", deviceBlocks(d)...)
	p.section("Not run", notRunBlock(e.NotRun))
	p.section("Make it again", againBlocks(e.Again)...)
	return p
}

func (e *Evidence) flagText() string {
	if e.Source.Status != SourceRebuilt {
		return "left out with the source"
	}
	return orElse(strings.Join(e.Source.Flags, " "), "none of its own")
}

func parentText(parents []string) string {
	if len(parents) == 0 {
		return ", without parents"
	}
	return " from " + strings.Join(parents, " and ")
}

// maxShapes bounds the shapes whose samples are drawn; all are in the tables
// and in the JSON.
const maxShapes = 6

func (e *Evidence) timeBlocks() []block {
	if len(e.Result.Timings) == 0 && e.finalist() == nil {
		return []block{para("Not measured: the candidate did not reach the benchmark.")}
	}
	of := e.readingOf()
	rows := timingRows(e.Result.Timings, of)
	var ratios []ratioRow
	add := func(label string, ts []evaluator.Timing) {
		for _, t := range ts {
			ratios = append(ratios, ratioRow{label: t.Shape + ", " + label, est: estimate(t.Ratios()), raw: t.Ratios()})
		}
	}
	add(of, e.Result.Timings)
	if f := e.finalist(); f != nil {
		rows = append(rows, timingRows(f.Timings, "finals")...)
		rows = append(rows, timingRows(f.HeldOut, "finals, held out")...)
		add("finals", f.Timings)
		add("held out", f.HeldOut)
		if len(f.Timings) > 1 {
			rr := evaluator.RoundRatios(f.Timings)
			ratios = append(ratios, ratioRow{label: "all tuned shapes, finals", est: estimate(rr), raw: rr, main: true})
		}
	}
	out := []block{timingTable(rows), plotBlock(plotRatios(ratios))}
	draw := func(of, prefix string, ts []evaluator.Timing) {
		for i, t := range ts[:min(len(ts), maxShapes)] {
			for _, q := range []*Plot{
				plotDistribution(fmt.Sprintf("%s-samples-%d", prefix, i), t, e.Candidate),
				plotDrift(fmt.Sprintf("%s-drift-%d", prefix, i), t, e.Candidate),
			} {
				if q != nil {
					q.Title += " (" + of + ")"
					out = append(out, q)
				}
			}
		}
	}
	if f := e.finalist(); f != nil {
		draw("finals", "finals", f.Timings)
	}
	draw(of, "search", e.Result.Timings)
	out = append(out, rawSamples("all raw samples of the search, in ns per launch", e.Result.Timings))
	if checks := e.observed(evaluator.StageBenchmark); len(checks) > 0 {
		out = append(out, para("What was checked around the timing:"))
		out = append(out, evidenceBlocks(checks, "")...)
	}
	return out
}

func rawSamples(summary string, ts []evaluator.Timing) block {
	if len(ts) == 0 {
		return nil
	}
	var b strings.Builder
	for _, t := range ts {
		fmt.Fprintf(&b, "%s candidate: %s\n%s baseline:  %s\n", t.Shape, joinNumbers(t.SamplesNS), t.Shape, joinNumbers(t.BaselineNS))
	}
	return code{summary, b.String()}
}

func joinNumbers(v []float64) string {
	s := make([]string, len(v))
	for i, x := range v {
		s[i] = strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strings.Join(s, " ")
}

type timingRow struct {
	of string
	t  evaluator.Timing
}

func timingRows(ts []evaluator.Timing, of string) []timingRow {
	out := make([]timingRow, len(ts))
	for i, t := range ts {
		out[i] = timingRow{of, t}
	}
	return out
}

func timingTable(rows []timingRow) block {
	t := table{Head: []string{"shape", "measured in", "samples", "median", "baseline", "ratio", "95% interval", "spread", "batch", "floor", "stopped"}}
	for _, r := range rows {
		interval := estimate(r.t.Ratios()).interval()
		floor := "-"
		if r.t.FloorNS > 0 {
			floor = nanoseconds(r.t.FloorNS)
		}
		t.Rows = append(t.Rows, []cell{
			text(r.t.Shape), text(r.of), number("%d", len(r.t.SamplesNS)), number("%s", nanoseconds(r.t.MedianNS)), number("%s", nanoseconds(r.t.BaselineMedianNS)),
			strong(number("%.4f", r.t.Ratio)), number("%s", interval), number("%.1f%%", 100*r.t.Spread), number("%d", r.t.Batch), number("%s", floor), text(r.t.Stopped),
		})
	}
	return t
}

// recorded says that results come from a table, which proves nothing.
func recorded(d evaluator.Description) bool { return d.Device.Kind == "recorded" }

func finalsPara(d evaluator.Description) block {
	if recorded(d) {
		return para("The best candidates again, from the recorded table: nothing was measured.")
	}
	return para("The best candidates and the baseline were measured again in fresh processes, interleaved in random order.")
}

// finalsBlocks are the table and the tests of finals; mark is the candidate
// that the page is about.
func finalsBlocks(f *FinalsView, mark string) []block {
	t := table{Head: []string{"candidate", "", "verdict", "median", "baseline", "speedup", "ratio, 95% interval", "held-out shapes"}}
	for _, e := range f.Entries {
		note := ""
		switch e.Candidate {
		case f.Winner:
			note = "winner"
		case f.RunnerUp:
			note = "runner-up"
		}
		times := evaluator.MedianTimes(e.Timings)
		speed, interval := "-", "-"
		if e.Speedup > 0 {
			speed = fmt.Sprintf("%.3fx", e.Speedup)
		}
		if e.Interval != nil {
			interval = fmt.Sprintf("%.3f (%s)", e.Interval.Median, e.Interval.interval())
		}
		var held []string
		for _, h := range e.HeldOut {
			if h.Ratio > 0 {
				held = append(held, fmt.Sprintf("%s %.2fx", h.Shape, 1/h.Ratio))
			}
		}
		name := id(e.Candidate)
		if e.Candidate == mark {
			name = strong(name)
		}
		t.Rows = append(t.Rows, []cell{
			name, text(note),
			{colon(string(e.Verdict), words.FirstLine(e.Reason)), verdictTone(string(e.Verdict))},
			number("%s", nanoseconds(times.MedianNS)), number("%s", nanoseconds(times.BaselineNS)), strong(number("%s", speed)), number("%s", interval), text(strings.Join(held, ", ")),
		})
	}
	tests := list{}
	if f.Winner == "" {
		tests = append(tests, "No finalist survived: there is no winner.")
	}
	if f.VsBaseline != nil {
		tests = append(tests, "winner against baseline: "+significance(*f.VsBaseline))
	}
	if f.VsRunnerUp != nil {
		tests = append(tests, fmt.Sprintf("winner against runner-up %s: %s", f.RunnerUp, significance(*f.VsRunnerUp)))
	}
	if f.Early != "" {
		tests = append(tests, f.Early)
	}
	var ratios []ratioRow
	for _, e := range f.Entries {
		if e.Interval != nil {
			label := e.Candidate
			if e.Candidate == f.Winner {
				label += " (winner)"
			}
			ratios = append(ratios, ratioRow{label: label, est: e.Interval, raw: evaluator.RoundRatios(e.Timings), main: e.Candidate == mark})
		}
	}
	plot := plotRatios(ratios)
	if plot != nil {
		plot.Name, plot.Title = "finals", "Finalists: time ratio to the baseline, round by round"
	}
	return []block{t, tests, plotBlock(plot)}
}

func (e *Evidence) parityBlocks() []block {
	if len(e.Parity) == 0 {
		return []block{para("Not compared with the reference: the stage was not reached.")}
	}
	t := table{Head: []string{"shape", "seed", "output", "outcome", "error", "limit", "of the limit", "detail"}, Fold: fmt.Sprintf("%s with the reference", words.Plural(len(e.Parity), "comparison"))}
	worst := 0.0
	for _, r := range e.Parity {
		share := "-"
		if r.Limit > 0 {
			share = fmt.Sprintf("%.2g%%", 100*r.Error/r.Limit)
			worst = max(worst, r.Error/r.Limit)
		}
		limit := "-"
		if r.Limit > 0 {
			limit = fmt.Sprintf("%.3g", r.Limit)
		}
		t.Rows = append(t.Rows, []cell{
			text(orElse(r.Shape, r.Check)), text(r.Seed), text(orElse(r.Output, "worst of all")), outcomeCell(r.Outcome),
			number("%.3g", r.Error), number("%s", limit), number("%s", share), text(words.FirstLine(r.Detail)),
		})
	}
	out := []block{}
	if worst > 0 {
		out = append(out, para(fmt.Sprintf("The error is max |output − reference| / RMS(reference), the reference in double precision. The largest is %.2g%% of its limit.", 100*worst)))
	}
	out = append(out, plotBlock(plotParity(e.Parity)), t)
	for _, r := range e.Parity {
		out = append(out, logBlock(r.Check, r.Detail))
	}
	return out
}

// logBlock folds away a text of several lines; nil for shorter ones.
func logBlock(check, detail string) block {
	if !strings.Contains(strings.TrimSpace(detail), "\n") {
		return nil
	}
	return code{"log of " + check, detail}
}

// evidenceBlocks is a table of observations, and their logs.
func evidenceBlocks(list []evaluator.Evidence, none string) []block {
	if len(list) == 0 {
		return []block{para(none)}
	}
	t := table{Head: []string{"check", "outcome", "value", "limit", "detail"}}
	for _, v := range list {
		value, limit := "", ""
		if v.Value != 0 || v.Limit != 0 || v.Unit != "" {
			value = strings.TrimSpace(fmt.Sprintf("%s %s", short(v.Value), v.Unit))
		}
		if v.Limit != 0 {
			limit = short(v.Limit)
			if v.AtLeast {
				limit = "at least " + limit
			}
		}
		t.Rows = append(t.Rows, []cell{text(v.Check), outcomeCell(v.Outcome), number("%s", value), number("%s", limit), text(shorten(words.FirstLine(v.Detail), 400))})
	}
	out := []block{t}
	for _, v := range list {
		out = append(out, logBlock(v.Check, v.Detail))
	}
	return out
}

// short prints counts as they are and measured values with five digits or so.
func short(v float64) string {
	switch size := math.Abs(v); {
	case v == math.Trunc(v) && size < 1e15:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case size >= 1e4 && size < 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

func stepsTable(r evaluator.Result) block {
	t := table{Head: []string{"stage", "outcome", "checks", "time"}}
	for _, stage := range evaluator.Stages() {
		s, ok := r.Step(stage)
		if !ok {
			t.Rows = append(t.Rows, []cell{text(string(stage)), {"NOT RUN", "idle"}, number("0"), number("-")})
			continue
		}
		t.Rows = append(t.Rows, []cell{text(string(stage)), outcomeCell(s.Outcome), number("%d", len(s.Evidence)), number("%s", nanoseconds(float64(s.Elapsed)))})
	}
	return t
}

// observed are the observations of a stage, but for a profiler's.
func (e *Evidence) observed(stage evaluator.Stage) []evaluator.Evidence {
	step, _ := e.Result.Step(stage)
	return slices.DeleteFunc(slices.Clone(step.Evidence), func(v evaluator.Evidence) bool { return profileCheck.MatchString(v.Check) })
}

func (e *Evidence) sourceBlocks() []block {
	s := e.Source
	if s.Status != SourceRebuilt {
		return []block{para("Left out: " + s.Why + ".")}
	}
	f := facts{
		{"implementation", s.Implementation + " (" + s.Target + ")"},
		{"entry", s.Entry},
		{"flags", orElse(strings.Join(s.Flags, " "), "none of its own")},
		{"hash, recorded", s.Recorded},
		{"hash, rendered again", s.Now + " (the same)"},
		{"definition", s.DefinitionNow},
	}
	if len(s.Winners) == 0 {
		f = append(f, [2]string{"threads", fmt.Sprint(s.Threads)})
	}
	if s.Why != "" {
		f = append(f, [2]string{"note", s.Why})
	}
	out := []block{para("Rendered again from the kernel's definition; its hash is the one that was recorded when it was judged."), f}
	for _, file := range s.Files {
		out = append(out, newSourceCode(file))
	}
	if len(s.Winners) > 0 {
		t := table{Head: []string{"shape", "grid", "block", "shared bytes", "workspace bytes", "file"}}
		for _, w := range s.Winners {
			t.Rows = append(t.Rows, []cell{text(w.Shape), text(triple(w.Grid)), text(triple(w.Block)), number("%d", w.Shared), number("%d", w.Workspace), mono("winner-" + fileName(w.Shape) + ".json")})
			for _, k := range w.Then { // with the same workspace
				t.Rows = append(t.Rows, []cell{text(w.Shape + ", then " + k.Entry), text(triple(k.Grid)), text(triple(k.Block)), number("%d", k.SharedBytes), number("%d", w.Workspace), text("")})
			}
		}
		out = append(out, para("How to launch it, for programs with a harness of their own (the source in one file is "+winnerSource+"):"), t)
	}
	return out
}

func triple(v [3]int64) string { return fmt.Sprintf("%d, %d, %d", v[0], v[1], v[2]) }

// A sourceCode is in the page as text and in the Markdown as a link.
type sourceCode struct {
	code
	SourceFile
}

func newSourceCode(f SourceFile) sourceCode {
	return sourceCode{code{fmt.Sprintf("source/%s (%s, SHA-256 %.16s…)", f.Name, words.Plural(strings.Count(f.text, "\n"), "line"), f.SHA256), f.text}, f}
}

func (s sourceCode) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "- [source/%s](source/%s), SHA-256 %s\n\n", markdownText(s.Name), strings.ReplaceAll(s.Name, " ", "%20"), s.SHA256)
}

func lineageBlocks(l Lineage) []block {
	if len(l.Nodes) < 2 {
		return []block{para("It has no ancestors: it was made from nothing.")}
	}
	t := table{Head: []string{"candidate", "proposal", "operator", "verdict", "speedup", "measured", "parents", "differs from its nearest parent"}, Fold: words.Plural(len(l.Nodes), "candidate") + " of the lineage"}
	for _, n := range l.Nodes {
		speed := "-"
		if n.Speedup > 0 {
			speed = fmt.Sprintf("%.3fx", n.Speedup)
		}
		t.Rows = append(t.Rows, []cell{id(n.Candidate), number("%d", n.Index), text(n.Operator), verdictCell(n.Verdict), number("%s", speed), text(orElse(n.Measured, "-")), mono(strings.Join(n.Parents, " ")), text(strings.Join(n.Changes, ", "))})
	}
	out := []block{plotBlock(plotLineage(l)), t}
	if l.Omitted > 0 {
		out = append(out, para(fmt.Sprintf("%d more ancestors are left out: `tune lineage` has them all.", l.Omitted)))
	}
	return out
}

func deviceBlocks(d evaluator.Description) []block {
	f := facts{{"name", d.Device.Name}, {"kind", d.Device.Kind}, {"fingerprint", d.Device.Fingerprint}}
	for _, k := range slices.Sorted(maps.Keys(d.Device.Facts)) {
		f = append(f, [2]string{k, d.Device.Facts[k]})
	}
	out := []block{f}
	if len(d.Device.Peaks) > 0 {
		t := table{Head: []string{"measured peak", "value", "unit"}}
		for _, k := range slices.Sorted(maps.Keys(d.Device.Peaks)) {
			v, unit := d.Device.Peaks[k], "FLOP/s"
			if base, _, _ := strings.Cut(k, "/"); slices.Contains([]string{"memory", "llc", "copy", "read", "write", "l2"}, base) {
				unit = "B/s"
			}
			if v >= 1e12 {
				v, unit = v/1e12, "T"+unit
			} else {
				v, unit = v/1e9, "G"+unit
			}
			t.Rows = append(t.Rows, []cell{text(k), number("%.4g", v), text(unit)})
		}
		out = append(out, t)
	} else {
		out = append(out, para("Peaks: not measured."))
	}
	t := table{Head: []string{"tool", "state", "version", "path"}}
	for _, tool := range d.Tools {
		state := cell{"found", "good"}
		version := tool.Version
		if tool.Missing != "" {
			state, version = cell{"MISSING", "idle"}, tool.Missing
		}
		t.Rows = append(t.Rows, []cell{text(tool.Name), state, text(version), mono(tool.Path)})
	}
	if len(t.Rows) == 0 {
		return append(out, para("Tools: none were recorded."))
	}
	return append(out, t)
}

func notRunBlock(l []string) block {
	if len(l) == 0 {
		return para("Everything that there is to run was run.")
	}
	return list(l)
}

func againBlocks(commands []string) []block {
	return []block{
		para("On the same machine, with the same evotune and the store that this was made from:"),
		code{Text: strings.Join(commands, "\n")},
	}
}

func (r *Campaign) page() *page {
	p := &page{
		Title: r.Description.Kernel + ": " + r.Campaign, Kicker: "report of a campaign", Tone: "idle",
		Footer: fmt.Sprintf("Made by %s on %s; format %s. Every figure here is computed from report.json; SHA256SUMS has the hashes of all files.", orElse(r.By, "evotune"), stamp(r.Made), r.Format),
	}
	if b := r.Best; b != nil {
		what := "Best"
		if b.From == record.FromFinals && !record.Faster(b.Significant, b.Speedup) && !recorded(r.Description) {
			what = fmt.Sprintf("Nothing faster was found: %d genomes tried. Nearest", r.Evaluated)
		}
		p.Headline = fmt.Sprintf("%s: %s, %s", what, b.Candidate, pace(b.Speedup, b.MedianNS, b.BaselineNS))
		switch {
		case recorded(r.Description):
			p.Headline += ": times of a recorded table, nothing was checked or measured here"
		case b.From == "finals" && r.Finals != nil && r.Finals.VsBaseline != nil:
			said, tone := tested(*r.Finals.VsBaseline, r.Description)
			p.Headline, p.Tone = p.Headline+": the winner of the finals, "+said, tone
		default:
			p.Headline += ": without a test"
		}
		p.Figures = paceFigures(b.From, b.Speedup, b.MedianNS, b.BaselineNS)
	} else {
		p.Headline, p.Tone = "No valid candidate", "bad"
	}
	p.Figures = append(p.Figures, figure{fmt.Sprint(r.Evaluated), "evaluations"}, figure{fmt.Sprint(r.Verdicts[evaluator.Correct]), "correct"}, figure{seconds(r.SpentS), "wall time"})

	p.section("Campaign", r.configuration())
	p.section("Progress", r.progressBlocks()...)
	if r.Finals != nil {
		mark := ""
		if r.Best != nil {
			mark = r.Best.Candidate
		}
		p.section("Finals", append([]block{finalsPara(r.Description)}, finalsBlocks(r.Finals, mark)...)...)
	}
	p.section("The best, shape by shape", r.bestBlocks()...)
	p.section("Verdicts", r.verdictBlocks()...)
	p.section("Where the time went", r.stageTable(), facts{
		{"wall time", fmt.Sprintf("%s: prepared in %s, searched in %s, finals in %s", seconds(r.SpentS), seconds(r.PreparedS), seconds(r.SearchedS), seconds(r.FinalsS))},
		{"evaluations per minute of the search", fmt.Sprintf("%.1f", r.PerMinute)},
		{"in timed launches", fmt.Sprintf("%s, %.1f%% of the wall time: candidates and baseline, batch by batch, from the stored samples of the search", seconds(r.TimedS), 100*r.TimedShare)},
	})
	p.section("Operators", r.operatorBlocks()...)
	p.section("Genes", r.geneBlocks()...)
	p.section("Lineage of the best", lineageBlocks(r.Lineage)...)
	p.section("Device and tools", deviceBlocks(r.Description)...)
	p.section("Not run", notRunBlock(r.NotRun))
	p.section("Make it again", againBlocks(r.Again)...)
	return p
}

func (r *Campaign) configuration() block {
	d := r.Description
	state := colon(r.State, r.Reason)
	f := facts{
		{"campaign", r.Campaign + " (" + state + ")"},
		{"kernel", d.Kernel + " at " + strings.Join(d.Shapes, ", ")},
		{"also verified at", orElse(strings.Join(d.Verified, ", "), "no other shape")},
		{"device", d.Device.Name + " (" + d.Device.Fingerprint + "), " + d.Backend + " backend"},
		{"implementations", orElse(strings.Join(d.Implementations, ", "), "not recorded")},
		{"baseline", orElse(d.Baseline, "not recorded")},
		{"compiler", orElse(d.Compiler, "not recorded")},
		{"harness", orElse(d.Harness, "not recorded")},
		{"search", r.search()},
		{"started", stamp(r.Started)},
		{"last event", stamp(r.Last)},
		{"wall time", seconds(r.SpentS) + ", " + words.Plural(r.Resumptions, "resumption") + pauses(r.Pauses)},
	}
	j := r.Config
	add := func(name, text string) {
		if text != "" {
			f = append(f, [2]string{name, text})
		}
	}
	add("window", nonZero(j.Window))
	add("finalists", strconv.Itoa(j.FinalsOf()))
	add("sanitized", map[record.Sanitize]string{
		record.SanitizeAll:        "all candidates that passed parity",
		record.SanitizeContenders: "contenders; slower candidates were timed unsanitized",
	}[j.Sanitized()])
	budget := limits(j.Budget)
	slices.Sort(budget)
	add("budget", orElse(strings.Join(budget, ", "), "none"))
	add("backend", j.Backend)
	add("table", j.Table)
	add("definitions", strings.Join(j.Definitions, " "))
	add("implementations", strings.Join(j.Implementations, " "))
	var of []string
	for _, name := range slices.Sorted(maps.Keys(j.Limits)) {
		of = append(of, fmt.Sprintf("%s %d", name, j.Limits[name]))
	}
	add("limits", strings.Join(of, ", "))
	add("definition (SHA-256)", j.Hash)
	if j.Sweep {
		add("sweep", "true")
	}
	return f
}

// pauses says how often the campaign waited for the machine, if it did.
func pauses(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + words.Plural(n, "pause") + " on a disturbed machine"
}

func (r *Campaign) progressBlocks() []block {
	a, b := r.plotProgress(false), r.plotProgress(true)
	if a == nil && b == nil {
		return []block{para("No candidate was correct, so there is no progress to draw.")}
	}
	t := table{Head: []string{"evaluation", "after", "candidate", "operator", "median in the search", "speedup in the search", "in the finals"}, Fold: "every new best"}
	for _, e := range r.Evaluations {
		if e.Record {
			finals := "-"
			if e.FinalsSpeedup > 0 {
				finals = fmt.Sprintf("%.3fx", e.FinalsSpeedup)
			}
			t.Rows = append(t.Rows, []cell{number("%d", e.Index), number("%s", seconds(e.SpentS)), id(e.Candidate), text(e.Operator), number("%s", nanoseconds(e.MedianNS)), strong(number("%.3fx", e.Speedup)), number("%s", finals)})
		}
	}
	return []block{plotBlock(a), plotBlock(b), t}
}

// bestBlocks show the times of the best candidate, from the finals if there
// were any.
func (r *Campaign) bestBlocks() []block {
	if r.Best == nil {
		return []block{para("There is none.")}
	}
	out := []block{facts{{"candidate", r.Best.Candidate}, {"genome", r.Best.Encoding}}}
	var tuned, held []evaluator.Timing
	of := r.Best.From
	if of == record.FromFinals && r.Finals != nil {
		for _, e := range r.Finals.Entries {
			if e.Candidate == r.Best.Candidate {
				tuned, held = e.Timings, e.HeldOut
			}
		}
	} else if r.bestResult != nil {
		tuned = r.bestResult.Timings
	}
	if len(tuned) == 0 {
		return append(out, para("Its samples are not in the log."))
	}
	out = append(out, timingTable(append(timingRows(tuned, of), timingRows(held, of+", held out")...)))
	for i, t := range tuned[:min(len(tuned), maxShapes)] {
		out = append(out, plotDistribution(fmt.Sprintf("best-samples-%d", i), t, r.Best.Candidate),
			plotBlock(plotDrift(fmt.Sprintf("best-drift-%d", i), t, r.Best.Candidate)))
	}
	return out
}

// maxFailures bounds the reasons on the page; report.json has all.
const maxFailures = 15

func (r *Campaign) verdictBlocks() []block {
	t := table{Head: []string{"verdict", "candidates", "share"}}
	for _, v := range evaluator.Verdicts() {
		if n := r.Verdicts[v]; n > 0 {
			t.Rows = append(t.Rows, []cell{{string(v), verdictTone(string(v))}, number("%d", n), number("%.1f%%", 100*float64(n)/float64(max(r.Evaluated, 1)))})
		}
	}
	var rows []bar
	for _, s := range r.Stages {
		rows = append(rows, bar{label: s.Stage, note: stageNote(s), parts: []float64{float64(s.Passed), float64(s.Failed), float64(s.NotRun)}})
	}
	out := []block{t, plotBlock(plotBars("stages", "What each stage said", "candidates",
		"Candidates that reached a stage, and how it ended for them. Those that share another's binary are counted once from inspection on.",
		[]part{{"passed", chart.A}, {"failed", chart.B}, {"not run", chart.Idle}}, rows))}
	if len(r.Failures) == 0 {
		return append(out, para("No candidate failed."))
	}
	ft := table{Head: []string{"count", "verdict", "stage", "reason (of the first)", "candidate"}}
	for _, f := range r.Failures[:min(len(r.Failures), maxFailures)] {
		ft.Rows = append(ft.Rows, []cell{number("%d", f.Count), {string(f.Verdict), verdictTone(string(f.Verdict))}, text(string(f.Stage)), text(shorten(words.FirstLine(f.Reason), 300)), id(f.Candidate)})
	}
	out = append(out, ft)
	if n := len(r.Failures) - maxFailures; n > 0 {
		out = append(out, para(fmt.Sprintf("%s more in report.json.", words.Plural(n, "reason"))))
	}
	return out
}

func stageNote(s StageRow) string {
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{s.Passed, "passed"}, {s.Failed, "failed"}, {s.NotRun, "not run"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return orElse(strings.Join(parts, ", "), "not reached")
}

func (r *Campaign) stageTable() block {
	t := table{Head: []string{"stage", "time", "share of all stages", "per candidate"}}
	for _, s := range r.Stages {
		n := s.Passed + s.Failed + s.NotRun
		each := "-"
		if n > 0 {
			each = nanoseconds(s.Seconds / float64(n) * 1e9)
		}
		t.Rows = append(t.Rows, []cell{text(s.Stage), number("%s", seconds(s.Seconds)), number("%.1f%%", 100*s.Share), number("%s", each)})
	}
	return t
}

func (r *Campaign) operatorBlocks() []block {
	t := table{Head: []string{"operator", "proposed", "correct", "faster than its parents", "new best"}}
	var rows []bar
	for _, o := range r.Operators {
		improved := "-"
		if o.WithParents > 0 {
			improved = fmt.Sprintf("%d of %d", o.Improved, o.WithParents)
		}
		t.Rows = append(t.Rows, []cell{text(o.Operator), number("%d", o.Proposed), number("%d", o.Correct), number("%s", improved), number("%d", o.Records)})
		rows = append(rows, bar{label: o.Operator, note: fmt.Sprintf("%d proposed, %d improved", o.Proposed, o.Improved), parts: []float64{
			float64(o.Improved), float64(max(o.Correct-o.Improved, 0)), float64(max(o.Proposed-o.Correct, 0)),
		}})
	}
	return []block{plotBlock(plotBars("operators", "What each operator proposed", "proposals",
		"An operator improves when a candidate is faster than the fastest of its parents, by one measurement each.",
		[]part{{"faster than its parents", chart.C}, {"other correct ones", chart.A}, {"failed or no result", chart.Idle}}, rows)), t}
}

func (r *Campaign) geneBlocks() []block {
	p := plotGenes(r.Genes)
	if p == nil {
		return []block{para("No gene was seen with two values among correct candidates.")}
	}
	t := table{Head: []string{"gene", "widest over narrowest median", "values (median speedup, candidates)"}, Fold: "all values"}
	for _, g := range r.Genes {
		var v []string
		for _, x := range g.Values {
			v = append(v, fmt.Sprintf("%s %.3fx (%d)", x.Value, x.MedianSpeedup, x.N))
		}
		t.Rows = append(t.Rows, []cell{mono(g.Gene), number("%.3f", g.Range), text(strings.Join(v, ", "))})
	}
	return []block{p, t}
}
