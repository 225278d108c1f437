package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/words"
)

// A printer renders the events of a campaign. stage may be called at any time
// from any goroutine, event from one.
type printer interface {
	event(e campaign.Event)
	stage(worker int, candidate string, s evaluator.Stage)
	// say prints a message for the user, from any goroutine.
	say(line string)
	close()
}

// ---- JSON: one event a line ----

type jsonPrinter struct{ w, err io.Writer }

func (p jsonPrinter) say(line string) { fmt.Fprintf(p.err, "tune: %s\n", line) }

func (p jsonPrinter) close() {}

func (p jsonPrinter) stage(int, string, evaluator.Stage) {}

func (p jsonPrinter) event(e campaign.Event) {
	switch {
	case e.Started != nil:
		p.line("started", *e.Started)
	case e.Evaluated != nil:
		p.evaluated("evaluated", e.Evaluated)
	case e.Measured != nil:
		p.evaluated("measured", e.Measured)
	case e.Paused != nil:
		p.line("paused", *e.Paused)
	case e.Continued != nil:
		p.line("continued", *e.Continued)
	case e.Budget != nil:
		p.line("budget", *e.Budget)
	case e.Searched != nil:
		p.line("searched", *e.Searched)
	case e.Finals != nil:
		p.line("finals", *e.Finals)
	case e.Warning != "":
		p.line("warning", struct {
			Message string `json:"message"`
		}{e.Warning})
	case e.Finished != nil:
		if !e.Finished.Complete {
			p.line("stopped", struct {
				Campaign string `json:"campaign"`
				Reason   string `json:"reason"`
			}{e.Finished.Campaign, e.Finished.Reason})
		}
		p.line("finished", *e.Finished)
	}
}

func (p jsonPrinter) evaluated(name string, v *campaign.Evaluated) {
	p.line(name, struct {
		*campaign.Evaluated
		Verdict   evaluator.Verdict `json:"verdict"`
		Stage     evaluator.Stage   `json:"stage"`
		Reason    string            `json:"reason,omitempty"`
		Disturbed string            `json:"disturbed,omitempty"`
		Fitness   float64           `json:"fitness,omitempty"`
		evaluator.Times
		CostNS time.Duration `json:"cost_ns"`
	}{v, v.Result.Verdict, v.Result.Stage, v.Result.Reason, v.Result.Disturbed, v.Result.Fitness, headline(v.Result.Timings), v.Result.Cost})
}

// line prints {"event":name, ...fields of v}.
func (p jsonPrinter) line(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte(fmt.Sprintf(`{"error":%q}`, err.Error()))
	}
	sep := ","
	if string(b) == "{}" {
		sep = ""
	}
	fmt.Fprintf(p.w, `{"event":%q%s%s`+"\n", name, sep, b[1:])
}

// ---- text: plain lines, and the words that the live display shares ----

type textPrinter struct {
	w       io.Writer
	started bool
	missing []string // checks that no candidate gets, or that prove nothing, and why
}

func (p *textPrinter) close() {}

func (p *textPrinter) say(line string) { fmt.Fprintln(p.w, line) }

func (p *textPrinter) stage(int, string, evaluator.Stage) {}

func (p *textPrinter) event(e campaign.Event) {
	switch {
	case e.Started != nil && p.started: // a service was restarted, or somebody resumed it there
		fmt.Fprintf(p.w, "%s resumed after %s and %s\n", e.Time.Format(time.TimeOnly), words.Plural(e.Started.Resumed, "evaluation"), duration(e.Started.Spent))
	case e.Started != nil:
		p.started = true
		for _, t := range e.Started.Description.Tools {
			if t.Missing != "" {
				p.missing = append(p.missing, fmt.Sprintf("%s: NOT RUN: %s", t.Name, t.Missing))
			}
		}
		for _, u := range e.Started.Description.Unproven {
			p.missing = append(p.missing, u.String())
		}
		fmt.Fprint(p.w, startLines(e.Started, p.missing))
	case e.Evaluated != nil:
		fmt.Fprintln(p.w, evaluatedLine(e.Time, e.Evaluated))
	case e.Measured != nil:
		fmt.Fprintln(p.w, evaluatedLine(e.Time, e.Measured)+"  measured again")
	case e.Paused != nil:
		fmt.Fprintf(p.w, "%s paused: %s; the campaign goes on when the machine is calm (Ctrl-C stops it, tune resume goes on)\n", e.Time.Format(time.TimeOnly), words.OneLine(e.Paused.Reason))
	case e.Continued != nil:
		fmt.Fprintf(p.w, "%s continued after a pause of %s\n", e.Time.Format(time.TimeOnly), duration(e.Continued.After))
	case e.Budget != nil:
		fmt.Fprintf(p.w, "%s new budget: %s\n", e.Time.Format(time.TimeOnly), budgetText(*e.Budget))
	case e.Finals != nil:
		fmt.Fprint(p.w, finalsLines(e.Finals))
	case e.Warning != "":
		fmt.Fprintf(p.w, "warning: %s\n", e.Warning)
	case e.Finished != nil:
		fmt.Fprint(p.w, finishedLines(e.Finished, p.missing))
	}
}

func startLines(s *campaign.Started, missing []string) string {
	var b strings.Builder
	d := s.Description
	fmt.Fprintf(&b, "%s at %s on %s", s.Config.Kernel, strings.Join(d.Shapes, ", "), d.Device.Name)
	if d.Compiler != "" {
		fmt.Fprintf(&b, ", %s", d.Compiler)
	}
	fmt.Fprintf(&b, "\ncampaign %s: %s%s search, seed %d, window %d", s.Campaign, spaceText(s), s.Config.Strategy, s.Config.SearchSeed(), s.Config.Window)
	if s.Workers > 0 { // somebody runs it now
		fmt.Fprintf(&b, ", %s", words.Plural(s.Workers, "worker"))
	}
	fmt.Fprintln(&b)
	fmt.Fprintf(&b, "budget: %s; baseline: %s\n", budgetText(s.Config.Budget), orNone(d.Baseline))
	var ran []string
	for _, t := range d.Tools {
		if t.Missing == "" {
			ran = append(ran, t.Name)
		}
	}
	if len(ran) > 0 {
		fmt.Fprintf(&b, "checks: %s\n", strings.Join(ran, ", "))
	}
	if s.Config.Sanitized() == evotune.SanitizeContenders {
		fmt.Fprintf(&b, "sanitized: %s\n", sanitizedText(s.Config.Sanitized()))
	}
	for _, m := range missing {
		fmt.Fprintln(&b, m)
	}
	if len(s.Config.Start) > 0 {
		fmt.Fprintf(&b, "warm start: %s\n", warmText(s.Config.Start))
	}
	if s.Resumed > 0 {
		fmt.Fprintf(&b, "resumed after %s and %s\n", words.Plural(s.Resumed, "evaluation"), duration(s.Spent))
	}
	return b.String()
}

// spaceText says how many genomes are searched, if that is known.
func spaceText(s *campaign.Started) string {
	switch {
	case s.SpaceSize == 0: // a service no longer has the kernel
		return ""
	case s.SpaceExact:
		return count(s.SpaceSize) + " genomes, "
	}
	return "about " + count(s.SpaceSize) + " genomes, "
}

// warmText says in one line how many genomes a campaign began with, and where
// they come from.
func warmText(start []evotune.Start) string {
	const shown = 3
	n := map[string]int{}
	var froms []evotune.Start // one of each campaign, in order
	for _, s := range start {
		if n[s.Campaign]++; n[s.Campaign] == 1 && s.Campaign != "" {
			froms = append(froms, s)
		}
	}
	var parts []string
	for i, s := range froms {
		if i == shown {
			parts = append(parts, "and "+words.Plural(len(froms)-shown, "more campaign"))
			break
		}
		parts = append(parts, fmt.Sprintf("%d of %s (%s, %s)", n[s.Campaign], s.Campaign, strings.Join(s.Shapes, " "), s.Device))
	}
	if n[""] > 0 {
		parts = append(parts, fmt.Sprintf("%d of the definition", n[""]))
	}
	return words.Plural(len(start), "genome") + ": " + strings.Join(parts, ", ")
}

func budgetText(b evotune.Budget) string {
	var parts []string
	if b.Evaluations > 0 {
		parts = append(parts, words.Plural(b.Evaluations, "evaluation"))
	}
	if b.Time > 0 {
		parts = append(parts, duration(b.Time))
	}
	if b.Target > 0 {
		parts = append(parts, fmt.Sprintf("%gx the baseline", b.Target))
	}
	if b.Patience > 0 {
		parts = append(parts, fmt.Sprintf("%d without progress", b.Patience))
	}
	if b.MaxCost > 0 {
		parts = append(parts, fmt.Sprintf("a cost of %g at %g an hour", b.MaxCost, b.CostPerHour))
	}
	if len(parts) == 0 {
		return "the whole space"
	}
	return strings.Join(parts, " or ")
}

func evaluatedLine(at time.Time, e *campaign.Evaluated) string {
	r := e.Result
	s := fmt.Sprintf("%s %5d  %s  %-11s", at.Format("15:04:05"), e.Index, e.Candidate, r.Verdict)
	if r.Verdict == evaluator.Correct {
		s += fmt.Sprintf("  %s  %.3fx", nanoseconds(headline(r.Timings).MedianNS), 1/r.Fitness)
		if e.Record {
			s += "  best so far"
		}
		return s + "  " + e.Operator
	}
	if r.Verdict == evaluator.Slower {
		s += fmt.Sprintf("  %s  %.3fx", nanoseconds(headline(r.Timings).MedianNS), 1/r.Fitness)
	}
	return s + "  " + words.OneLine(r.Reason)
}

func finalsLines(f *campaign.Finals) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nfinals: %s measured again in fresh processes, interleaved\n", words.Plural(len(f.Candidates), "finalist"))
	for i, e := range f.Result.Entries {
		mark := " "
		if i == f.Result.Winner {
			mark = "*"
		}
		if strings.HasPrefix(e.Reason, evaluator.TimeOver) {
			fmt.Fprintf(&b, "%s %s  %s\n", mark, f.Candidates[i], words.OneLine(e.Reason))
			continue
		}
		if e.Verdict != evaluator.Correct {
			fmt.Fprintf(&b, "%s %s  %s: %s\n", mark, f.Candidates[i], e.Verdict, words.OneLine(e.Reason))
			continue
		}
		times := headline(e.Timings)
		fmt.Fprintf(&b, "%s %s  %s  baseline %s  %.3fx", mark, f.Candidates[i], nanoseconds(times.MedianNS), nanoseconds(times.BaselineNS), 1/e.Fitness)
		for _, h := range e.HeldOut {
			fmt.Fprintf(&b, "  (%s %.2fx)", h.Shape, 1/h.Ratio)
		}
		fmt.Fprintln(&b)
	}
	if c := f.Result.VsBaseline; c != nil {
		fmt.Fprintf(&b, "winner against baseline:  %s\n", comparison(*c))
	}
	if c := f.Result.VsRunnerUp; c != nil {
		fmt.Fprintf(&b, "winner against runner-up: %s\n", comparison(*c))
	}
	if text := f.Result.EndedEarly(func(i int) string { return f.Candidates[i] }); text != "" {
		fmt.Fprintln(&b, text)
	}
	return b.String()
}

// sanitizedText says which candidates were sanitized.
func sanitizedText(s evotune.Sanitize) string {
	if s == evotune.SanitizeContenders {
		return "contenders only; slower candidates are timed unsanitized"
	}
	return "every candidate that matches the reference"
}

// comparison prints a test honestly: "~" where the difference is noise.
func comparison(c evaluator.Comparison) string {
	s := fmt.Sprintf("time ratio %.3f (p=%.3g, n=%d+%d)", c.Ratio, c.P, c.N1, c.N2)
	if !c.Significant {
		s = "~ no difference: " + s
	}
	for _, w := range c.Warnings {
		s += "; " + w
	}
	return s
}

// finishedLines sums up a campaign and names the checks that did not run in it: a rate or
// a speedup without them must not pass for one with them.
func finishedLines(f *campaign.Finished, missing []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s in %s: %s\n", words.Plural(f.Evaluated, "evaluation"), duration(f.Elapsed), verdictCounts(f.Verdicts))
	fmt.Fprintf(&b, "prepared in %s, searched in %s", duration(f.Phases.Prepared), duration(f.Phases.Searched))
	if f.PerMinute > 0 {
		fmt.Fprintf(&b, " (%.0f a minute)", f.PerMinute)
	}
	if f.Phases.Finals > 0 {
		fmt.Fprintf(&b, ", finals in %s", duration(f.Phases.Finals))
	}
	fmt.Fprintln(&b)
	if f.Sanitized != "" {
		fmt.Fprintf(&b, "sanitized: %s\n", sanitizedText(f.Sanitized))
	}
	if f.Usage != nil {
		fmt.Fprintf(&b, "%s\n", usageLine(*f.Usage))
	}
	if f.Reason != "" {
		fmt.Fprintf(&b, "ended by: %s\n", f.Reason)
	}
	if f.Best == nil {
		fmt.Fprintln(&b, "no valid candidate")
	} else {
		best := f.Best
		what, sure := "best", "significant"
		tested := best.Measured == record.FromFinals && f.Sanitized != "" // not of a recorded table
		if tested && !best.Faster() {
			fmt.Fprintf(&b, "nothing faster was found: %s tried; the baseline takes %s\n", triedText(f), nanoseconds(best.BaselineNS))
			what = "nearest"
		}
		switch {
		case !f.Complete:
			sure = "no finals yet"
		case f.Sanitized != "" && best.Measured != "" && !tested && best.Speedup > 1:
			sure = "not tested: no finals"
		case best.Speedup <= 1:
			sure = "not faster than the baseline"
		case best.Unproven != "":
			sure = best.Unproven
		case best.Significant:
		case f.Sanitized == "": // a table's
			sure = "recorded; nothing was tested"
		default:
			sure = "not significant"
		}
		fmt.Fprintf(&b, "%s: %s  %s against %s baseline: %.3fx (%s)\n      %s\n", what, best.Candidate,
			nanoseconds(best.MedianNS), nanoseconds(best.BaselineNS), best.Speedup, sure, best.Genome)
		if best.Slower > 0 {
			fmt.Fprintf(&b, "warning: the baseline took %.0f%% longer in the finals than beside most candidates: something slowed the machine, and the speedup may be off; measure again when it is idle: tune verify %s\n",
				100*best.Slower, best.Candidate)
		}
	}
	for _, m := range missing {
		fmt.Fprintf(&b, "warning: %s\n", m)
	}
	if !f.Complete {
		fmt.Fprintf(&b, "to go on: tune resume %s\n", f.Campaign)
	}
	return b.String()
}

// triedText counts the genomes that a campaign tried, of how many.
func triedText(f *campaign.Finished) string {
	if f.SpaceSize <= 0 {
		return words.Plural(f.Evaluated, "genome")
	}
	return fmt.Sprintf("%d of %s", f.Evaluated, words.Plural(int(min(f.SpaceSize, 1<<53)), "genome"))
}

// ---- live: the terminal ----

// livePrinter keeps a few lines at the bottom of a terminal up to date and
// lets what is worth keeping scroll above them.
type livePrinter struct {
	out      io.Writer
	text     textPrinter
	progress *mpb.Progress
	bars     []*mpb.Bar
	total    *mpb.Bar

	usage func() (evaluator.Usage, bool)

	mu      sync.Mutex
	state   campaign.Progress
	budget  evotune.Budget
	began   time.Time
	paused  time.Time // since when; zero while it is not
	finals  bool      // the search has ended
	workers []string
}

const barScale = 1000

// newLivePrinter makes a printer for a number of workers. usage says how busy the devices are.
func newLivePrinter(w io.Writer, workers int, usage func() (evaluator.Usage, bool)) *livePrinter {
	p := &livePrinter{out: w, began: time.Now(), workers: make([]string, workers), usage: usage}
	p.progress = mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh(), mpb.WithRefreshRate(200*time.Millisecond), mpb.WithWidth(40))
	p.text.w = &words.Redactor{To: cleanLine{p.progress}}
	return p
}

// cleanLine clears what a frame or the terminal's echo left on the line before
// text is written over it.
type cleanLine struct{ w io.Writer }

func (c cleanLine) Write(b []byte) (int, error) {
	const clear = "\r\x1b[2K"
	n, err := c.w.Write(append([]byte(clear), b...))
	return max(0, n-len(clear)), err
}

// show adds the lines at the bottom; before the campaign starts there is
// nothing to show.
func (p *livePrinter) show(s *campaign.Started) {
	p.mu.Lock()
	p.budget = s.Config.Budget
	p.state = campaign.Progress{Elapsed: s.Spent + s.Prepared, Remaining: -1, Evaluated: s.Resumed}
	p.began, p.finals = time.Now().Add(-s.Spent-s.Prepared), false
	p.mu.Unlock()
	if p.total != nil { // somebody else goes on with the campaign
		return
	}
	p.total = p.progress.New(barScale, mpb.BarStyle().Lbound("[").Rbound("]").Filler("=").Tip(">").Padding(" "),
		mpb.BarRemoveOnComplete(),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.headline() })))
	p.bars = append(p.bars, p.total)
	p.line(func() string { return p.bestLine() })
	p.line(func() string { return verdictCounts(p.state.Verdicts) })
	if _, ok := p.usage(); ok {
		p.line(func() string { u, _ := p.usage(); return usageLine(u) })
	}
	if len(p.workers) > mostWorkerLines {
		p.line(p.stages)
		return
	}
	for i := range p.workers {
		p.line(func() string { return fmt.Sprintf("worker %d  %s", i+1, p.workers[i]) })
	}
}

// mostWorkerLines is how many workers have a line each; more are counted.
const mostWorkerLines = 8

// stages counts the workers in each stage.
func (p *livePrinter) stages() string {
	count := map[string]int{}
	for _, w := range p.workers {
		stage, _, _ := strings.Cut(w, " ")
		count[stage]++
	}
	parts := []string{fmt.Sprintf("%d workers", len(p.workers))}
	for _, s := range evaluator.Stages() {
		if n := count[string(s)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", s, n))
		}
	}
	return strings.Join(parts, " ")
}

// usageLine says how busy the devices are and how many wait for what.
func usageLine(u evaluator.Usage) string {
	s := fmt.Sprintf("device: measuring %.1f%% of the time, kept free for it %.1f%%", 100*u.Measuring, 100*u.Reserved)
	var waits []string
	for _, what := range slices.Sorted(maps.Keys(u.Waiting)) {
		if n := u.Waiting[what]; n > 0 {
			waits = append(waits, fmt.Sprintf("%s %d", what, n))
		}
	}
	if len(waits) > 0 {
		s += "; waiting for: " + strings.Join(waits, ", ")
	}
	return s
}

func (p *livePrinter) line(text func() string) {
	bar := p.progress.New(0, mpb.NopStyle(), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return text()
	})))
	p.bars = append(p.bars, bar)
}

func (p *livePrinter) headline() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := time.Since(p.began)
	if !p.paused.IsZero() {
		elapsed = p.paused.Sub(p.began)
	}
	s := fmt.Sprintf(" %s, %s", words.Plural(p.state.Evaluated, "evaluation"), duration(elapsed))
	if !p.paused.IsZero() {
		s += ", paused"
	} else if p.finals {
		s += ", finals"
	} else if left := p.remaining(elapsed); left >= 0 {
		s += fmt.Sprintf(", about %s left", duration(left))
	}
	return s
}

// remaining brings the last estimate up to now.
func (p *livePrinter) remaining(elapsed time.Duration) time.Duration {
	if p.state.Remaining < 0 {
		if p.budget.Time > 0 {
			return max(0, p.budget.Time-elapsed)
		}
		return -1
	}
	return max(0, p.state.Remaining-(elapsed-p.state.Elapsed))
}

func (p *livePrinter) bestLine() string {
	b := p.state.Best
	if b == nil {
		return "best: none yet"
	}
	if b.Speedup <= 1 {
		return fmt.Sprintf("nothing faster yet than the baseline, %s  nearest: %.3fx  %s  %s", nanoseconds(b.BaselineNS), b.Speedup, nanoseconds(b.MedianNS), b.Candidate)
	}
	return fmt.Sprintf("best: %.3fx the baseline  %s against %s  %s", b.Speedup, nanoseconds(b.MedianNS), nanoseconds(b.BaselineNS), b.Candidate)
}

func (p *livePrinter) event(e campaign.Event) {
	switch {
	case e.Started != nil:
		p.text.event(e)
		p.show(e.Started)
	case e.Evaluated != nil:
		p.mu.Lock()
		p.state = e.Evaluated.Progress
		p.mu.Unlock()
		if e.Evaluated.Record {
			p.text.event(e)
		}
		p.advance()
	case e.Budget != nil:
		p.mu.Lock()
		p.budget, p.finals = *e.Budget, false
		p.mu.Unlock()
		p.text.event(e)
	case e.Paused != nil || e.Continued != nil:
		p.mu.Lock()
		if e.Paused != nil {
			p.paused = time.Now()
		} else {
			p.began, p.paused = p.began.Add(e.Continued.After), time.Time{}
		}
		p.mu.Unlock()
		p.text.event(e)
	case e.Searched != nil:
		p.mu.Lock()
		p.finals = true
		p.mu.Unlock()
		p.text.event(e)
	case e.Finished != nil:
		p.close()
		p.text.event(e)
	default:
		p.text.event(e)
	}
}

// advance moves the bar to the share of the budget that is spent.
func (p *livePrinter) advance() {
	p.mu.Lock()
	share := 0.0
	if n := p.budget.Evaluations; n > 0 {
		share = max(share, float64(p.state.Evaluated)/float64(n))
	}
	if t := p.budget.Time; t > 0 {
		share = max(share, float64(p.state.Elapsed)/float64(t))
	}
	p.mu.Unlock()
	if p.total != nil {
		// The bar completes only when the campaign is closed.
		p.total.SetCurrent(int64(min(share, 0.999) * barScale))
	}
}

func (p *livePrinter) say(line string) {
	p.mu.Lock()
	w := p.text.w
	p.mu.Unlock()
	fmt.Fprintln(w, line)
}

func (p *livePrinter) stage(worker int, candidate string, s evaluator.Stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if worker < len(p.workers) {
		p.workers[worker] = strings.TrimSpace(fmt.Sprintf("%-10s %s", s, candidate))
		if candidate == "" {
			p.workers[worker] = "idle"
		}
	}
}

// close removes the live lines; what was printed above them stays.
func (p *livePrinter) close() {
	if p.progress == nil {
		return
	}
	for _, b := range p.bars {
		b.Abort(true)
	}
	p.progress.Wait()
	p.progress = nil
	p.mu.Lock()
	p.text.w = p.out
	p.mu.Unlock()
}

// ---- words ----

func verdictCounts(v map[evaluator.Verdict]int) string {
	var parts []string
	for _, name := range evaluator.Verdicts() {
		if n := v[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	if len(parts) == 0 {
		return "no verdicts yet"
	}
	return strings.Join(parts, ", ")
}

// headline is the time of the first tuned shape.
func headline(ts []evaluator.Timing) evaluator.Times {
	return evaluator.MedianTimes(ts[:min(1, len(ts))])
}

func nanoseconds(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.1f ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.2f us", ns/1e3)
	case ns < 1e9:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	}
	return fmt.Sprintf("%.2f s", ns/1e9)
}

func duration(d time.Duration) string {
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// count prints a number of genomes so that its size can be read.
func count(n float64) string {
	if n >= 1e7 {
		return fmt.Sprintf("%.3g", n)
	}
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
