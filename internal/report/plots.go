package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/evotune/evotune/evaluator"
)

// A Plot is one drawing with its name and what to read from it.
type Plot struct {
	Name    string // the file, without .svg
	Title   string
	Caption string
	svg     *svg
}

// plotWidth is the width of every plot but the lineage.
const plotWidth = 880

// plotDistribution shows every sample at one shape, candidate over baseline,
// as strips with the box of the middle half.
func plotDistribution(name string, t evaluator.Timing, candidate string) *Plot {
	unit, f := timeUnit(max(medianOf(t.SamplesNS), medianOf(t.BaselineNS)))
	rows := []struct {
		label, dot, box, median string
		values                  []float64
	}{
		{candidate, "dot-a", "box-a", "median-a", scaled(t.SamplesNS, f)},
		{"baseline", "dot-b", "box-b", "median-b", scaled(t.BaselineNS, f)},
	}
	const top, row, left = 10.0, 56.0, 150.0
	s := newSVG(plotWidth, top+row*2+46, "samples at "+t.Shape)
	lo, hi, ok := span(append(slices.Clone(rows[0].values), rows[1].values...), 0.06)
	p := &Plot{
		Name: name, Title: "Samples at " + t.Shape, svg: s,
		Caption: fmt.Sprintf("One mark per sample (a batch of %s, baseline %s). The box is the middle half, the bar in it the median.", launches(t.Batch), launches(t.BaselineBatch)),
	}
	if !ok {
		s.text(plotWidth/2, top+row, "middle", "soft", "no samples")
		return p
	}
	x := scale{lo: lo, hi: hi, from: left, to: plotWidth - 20}
	bottom := top + row*2
	s.axisX(x, bottom, top, "time per launch ("+unit+")")
	for i, r := range rows {
		mid := top + row*(float64(i)+0.5)
		s.text(left-12, mid-2, "end", "strong small", r.label)
		values := finite(r.values)
		if len(values) == 0 {
			s.text(left-12, mid+12, "end", "soft small", "no samples")
			continue
		}
		sorted := slices.Sorted(slices.Values(values))
		m := evaluator.Median(sorted)
		s.text(left-12, mid+12, "end", "soft small", fmt.Sprintf("median %.4g %s", m, unit))
		a, b := x.at(evaluator.Quantile(sorted, 0.25)), x.at(evaluator.Quantile(sorted, 0.75))
		s.rect(a, mid-17, max(b-a, 1), 34, r.box, "")
		s.line(x.at(m), mid-17, x.at(m), mid+17, r.median)
		for j, v := range values {
			y := mid + jitter(j)*12
			tip := fmt.Sprintf("sample %d: %.5g %s", j, v, unit)
			if i == 0 {
				s.circle(x.at(v), y, 3.2, r.dot, tip)
			} else {
				s.diamond(x.at(v), y, 4, r.dot, tip)
			}
		}
	}
	return p
}

// jitter spreads marks evenly over [-1, 1] without a random number.
func jitter(i int) float64 {
	_, f := math.Modf(float64(i+1) * 0.6180339887498949)
	return 2*f - 1
}

// plotDrift shows the samples at one shape in the order in which they were
// taken; nil for fewer than two.
func plotDrift(name string, t evaluator.Timing, candidate string) *Plot {
	if len(t.SamplesNS) < 2 {
		return nil
	}
	unit, f := timeUnit(max(medianOf(t.SamplesNS), medianOf(t.BaselineNS)))
	const top, left, height = 28.0, 76.0, 190.0
	s := newSVG(plotWidth, top+height+44, "samples over time at "+t.Shape)
	p := &Plot{
		Name: name, Title: "Samples in their order at " + t.Shape, svg: s,
		Caption: "Neighboring marks of both lines were taken back to back; what moves both is the machine, what moves one is the kernel.",
	}
	mine, theirs := scaled(t.SamplesNS, f), scaled(t.BaselineNS, f)
	lo, hi, ok := span(append(slices.Clone(mine), theirs...), 0.08)
	if !ok {
		s.text(plotWidth/2, top+height/2, "middle", "soft", "no samples")
		return p
	}
	x := scale{lo: 0, hi: float64(max(len(mine), len(theirs)) - 1), from: left + 8, to: plotWidth - 20}
	y := scale{lo: lo, hi: hi, from: top + height, to: top}
	s.axisY(y, left, plotWidth-12, "time per launch ("+unit+")")
	s.axisX(x, top+height, top+height, "sample, in the order taken")
	s.path(track(mine, x, y), "line-a")
	s.path(track(theirs, x, y), "line-b")
	marks(mine, func(i int, v float64) {
		s.circle(x.at(float64(i)), y.at(v), 3.2, "dot-a", fmt.Sprintf("%.5g %s", v, unit))
	})
	marks(theirs, func(i int, v float64) {
		s.diamond(x.at(float64(i)), y.at(v), 4, "dot-b", fmt.Sprintf("%.5g %s", v, unit))
	})
	s.circle(left+14, 13, 4, "dot-a", "")
	s.text(left+24, 17, "start", "small", candidate)
	s.diamond(left+174, 13, 4.5, "dot-b", "")
	s.text(left+184, 17, "start", "small", "baseline")
	return p
}

func marks(values []float64, draw func(int, float64)) {
	for i, v := range values {
		if len(finite([]float64{v})) == 1 {
			draw(i, v)
		}
	}
}

func track(values []float64, x, y scale) [][2]float64 {
	var out [][2]float64
	for i, v := range values {
		if len(finite([]float64{v})) == 1 {
			out = append(out, [2]float64{x.at(float64(i)), y.at(v)})
		}
	}
	return out
}

// plotParity shows every measured error against its limit, on a logarithmic
// axis; nil when nothing was measured.
func plotParity(rows []ParityRow) *Plot {
	type group struct {
		label string
		rows  []ParityRow
	}
	var groups []group
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		if !(r.Limit > 0) {
			continue
		}
		label := r.Shape
		if r.Output != "" {
			label += " " + r.Output
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.label == label })
		if i < 0 {
			groups, i = append(groups, group{label: label}), len(groups)
		}
		groups[i].rows = append(groups[i].rows, r)
		for _, v := range finite([]float64{r.Error, r.Limit}) {
			if v > 0 {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if len(groups) == 0 || lo > hi {
		return nil
	}
	lo, hi = max(lo, 1e-290), max(hi, 1e-289)
	const top, row, left = 10.0, 26.0, 170.0
	height := top + row*float64(len(groups))
	s := newSVG(plotWidth, height+46, "parity errors and their limits")
	x := scale{lo: math.Pow(10, math.Floor(math.Log10(lo)-0.3)), hi: math.Pow(10, math.Ceil(math.Log10(hi)+0.05)), from: left, to: plotWidth - 20, log: true}
	s.axisX(x, height, top, "max |output − reference| / RMS(reference)")
	for i, g := range groups {
		mid := top + row*(float64(i)+0.5)
		s.text(left-10, mid+4, "end", "small", shorten(g.label, 26))
		limit := 0.0
		for _, r := range g.rows {
			limit = r.Limit
			tip := fmt.Sprintf("%s: %.3g of %.3g allowed", r.Check, r.Error, r.Limit)
			switch v := finite([]float64{r.Error}); {
			case len(v) == 0:
				s.text(plotWidth-24, mid+4, "end", "strong small", "not finite")
			case r.Outcome == evaluator.Failed:
				s.diamond(x.at(max(r.Error, x.lo)), mid, 5, "dot-bad", tip)
			default:
				s.circle(x.at(max(r.Error, x.lo)), mid, 4, "dot-a", tip)
			}
		}
		s.line(x.at(limit), mid-10, x.at(limit), mid+10, "mark")
	}
	return &Plot{
		Name: "parity", Title: "Parity: errors and limits", svg: s,
		Caption: "One mark per contents of the inputs; the dashed line is the limit, which the definition's wrong answers on purpose must exceed before anything is judged. An error of zero is drawn at the left edge.",
	}
}

// A ratioRow is one comparison of plotRatios.
type ratioRow struct {
	label string
	est   *Estimate
	raw   []float64
	main  bool
}

// plotRatios shows time ratios with their intervals around 1; nil when there
// are none.
func plotRatios(rows []ratioRow) *Plot {
	var all []float64
	kept := rows[:0:0]
	for _, r := range rows {
		if r.est == nil {
			continue
		}
		kept = append(kept, r)
		all = append(all, r.est.Median)
		if r.est.bounded() {
			all = append(all, r.est.Lo, r.est.Hi)
		}
		if v := finite(r.raw); len(v) > 0 {
			sorted := slices.Sorted(slices.Values(v))
			all = append(all, evaluator.Quantile(sorted, 0.02), evaluator.Quantile(sorted, 0.98))
		}
	}
	if len(kept) == 0 {
		return nil
	}
	lo, hi, _ := span(append(all, 1), 0.05)
	const top, row, left = 22.0, 34.0, 240.0
	height := top + row*float64(len(kept))
	s := newSVG(plotWidth, height+46, "time ratios with intervals")
	x := scale{lo: lo, hi: hi, from: left, to: plotWidth - 150}
	s.axisX(x, height, top, "time ratio (below 1 is faster)")
	s.line(x.at(1), top-6, x.at(1), height, "mark")
	s.text(x.at(1), top-10, "middle", "soft small", "equal")
	for i, r := range kept {
		mid := top + row*(float64(i)+0.5)
		class := "small"
		if r.main {
			class = "small strong"
		}
		s.text(left-12, mid+4, "end", class, shorten(r.label, 38))
		for j, v := range finite(r.raw) {
			if v >= x.lo && v <= x.hi {
				s.circle(x.at(v), mid+jitter(j)*9, 2, "dot-idle", fmt.Sprintf("%.4f", v))
			}
		}
		if r.est.bounded() {
			s.line(x.at(r.est.Lo), mid, x.at(r.est.Hi), mid, "whisker")
			s.line(x.at(r.est.Lo), mid-5, x.at(r.est.Lo), mid+5, "whisker")
			s.line(x.at(r.est.Hi), mid-5, x.at(r.est.Hi), mid+5, "whisker")
		}
		s.circle(x.at(r.est.Median), mid, 5, "dot-a", fmt.Sprintf("%.4f, 95%% interval: %s", r.est.Median, r.est.interval()))
		s.text(plotWidth-138, mid+4, "start", "small strong", fmt.Sprintf("%.3f", r.est.Median))
		s.text(plotWidth-98, mid+4, "start", "soft small", r.est.interval())
	}
	return &Plot{
		Name: "ratios", Title: "Time ratios with 95% intervals", svg: s,
		Caption: "The large mark is the median of the paired ratios, the whisker its 95% interval, the small marks are the pairs.",
	}
}

// maxMarks bounds the marks of plotProgress, but for new bests.
const maxMarks = 4000

// plotProgress shows every evaluation and the best so far, over evaluations
// or over time.
func plotProgress(evals []Evaluation, overTime bool) *Plot {
	at := func(e Evaluation) float64 { return float64(e.Index) }
	name, label, title := "progress", "evaluation", "Best so far over evaluations"
	unit := 1.0
	if overTime {
		name, label, title = "progress-time", "time spent (s)", "Best so far over time"
		last := 0.0
		for _, e := range evals {
			last = max(last, e.SpentS)
		}
		if last > 600 {
			label, unit = "time spent (min)", 60
		}
		at = func(e Evaluation) float64 { return e.SpentS / unit }
	}
	order := slices.Clone(evals)
	slices.SortStableFunc(order, func(a, b Evaluation) int { return cmp.Compare(at(a), at(b)) })
	var xs, ys []float64
	for _, e := range order {
		xs = append(xs, at(e))
		if e.Speedup > 0 {
			ys = append(ys, e.Speedup)
		}
	}
	lo, hi, ok := span(ys, 0.06)
	xlo, xhi, any := span(xs, 0.01)
	if !ok || !any {
		return nil
	}
	const top, left, height, rug = 28.0, 76.0, 230.0, 16.0
	s := newSVG(plotWidth, top+height+rug+44, title)
	x := scale{lo: min(xlo, 0), hi: xhi, from: left, to: plotWidth - 20}
	y := scale{lo: lo, hi: hi, from: top + height - 8, to: top}
	s.axisY(y, left, plotWidth-20, "speedup over the baseline")
	s.axisX(x, top+height+rug, top+height+rug, label)
	if lo < 1 && hi > 1 {
		s.line(left, y.at(1), plotWidth-20, y.at(1), "mark")
	}
	best := 0.0
	var steps [][2]float64
	// A page stays small enough to be opened.
	stride := (len(order) + maxMarks - 1) / maxMarks
	for i, e := range order {
		if i%stride != 0 && !(e.Speedup > best) {
			continue
		}
		px := x.at(at(e))
		tip := fmt.Sprintf("%d %s %s", e.Index, e.Candidate, e.Verdict)
		if !(e.Speedup > 0) || len(finite([]float64{e.Speedup})) == 0 {
			if e.Verdict != "" && e.Verdict != string(evaluator.Correct) {
				s.line(px, top+height+2, px, top+height+rug-3, "whisker-bad")
			}
			continue
		}
		s.circle(px, y.at(e.Speedup), 2.4, "dot-idle", fmt.Sprintf("%s %.3fx", tip, e.Speedup))
		if e.Speedup > best {
			if best > 0 {
				steps = append(steps, [2]float64{px, y.at(best)})
			}
			best = e.Speedup
			steps = append(steps, [2]float64{px, y.at(best)})
		}
	}
	if len(steps) > 0 {
		steps = append(steps, [2]float64{x.at(xhi), steps[len(steps)-1][1]})
	}
	s.path(steps, "line-c")
	s.line(left+6, 13, left+30, 13, "line-c")
	s.text(left+36, 17, "start", "small", "best so far")
	s.circle(left+130, 13, 3, "dot-idle", "")
	s.text(left+140, 17, "start", "small", "one correct candidate")
	s.line(left+290, 7, left+290, 18, "whisker-bad")
	s.text(left+298, 17, "start", "small", "one that failed (below)")
	p := &Plot{
		Name: name, Title: title, svg: s,
		Caption: "Speedups of the search, each one measurement during the search; the finals decide. The dashed line is the baseline.",
	}
	if stride > 1 {
		p.Caption += fmt.Sprintf(" Of those that are no new best, one in %d is drawn.", stride)
	}
	return p
}

// A barPart is a piece of a bar.
type barPart struct {
	value float64
	class string
	tip   string
}

// A bar is one row of plotBars.
type bar struct {
	label string
	note  string
	parts []barPart
}

// plotBars shows rows of stacked pieces.
func plotBars(name, title, axis, caption string, legend []barPart, rows []bar) *Plot {
	most := 0.0
	for _, r := range rows {
		sum := 0.0
		for _, p := range r.parts {
			sum += p.value
		}
		most = max(most, sum)
	}
	if !(most > 0) {
		return nil
	}
	const top, row, left, right = 28.0, 26.0, 130.0, 170.0
	height := top + row*float64(len(rows))
	s := newSVG(plotWidth, height+46, title)
	x := scale{lo: 0, hi: most, from: left, to: plotWidth - right}
	s.axisX(x, height, top, axis)
	at := left
	for _, l := range legend {
		s.rect(at, 6, 12, 12, l.class, "")
		s.text(at+17, 16, "start", "small", l.tip)
		at += 32 + 6.6*float64(len(l.tip))
	}
	for i, r := range rows {
		y := top + row*float64(i) + 4
		s.text(left-10, y+13, "end", "small", shorten(r.label, 20))
		from := 0.0
		for _, p := range r.parts {
			if !(p.value > 0) {
				continue
			}
			a, b := x.at(from), x.at(from+p.value)
			s.rect(a, y, max(b-a, 1), row-8, p.class, p.tip)
			from += p.value
		}
		s.text(x.at(from)+8, y+13, "start", "soft small", r.note)
	}
	return &Plot{Name: name, Title: title, Caption: caption, svg: s}
}

// plotGenes shows the median speedup of the candidates with each value of
// each gene, the gene with the largest range first.
func plotGenes(genes []GeneEffect) *Plot {
	var all []float64
	kept := genes[:0:0]
	for _, g := range genes {
		if len(g.Values) < 2 {
			continue
		}
		kept = append(kept, g)
		for _, v := range g.Values {
			all = append(all, v.MedianSpeedup)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	if len(kept) > 20 {
		kept = kept[:20]
	}
	lo, hi, _ := span(all, 0.08)
	const top, row, left = 10.0, 38.0, 190.0
	height := top + row*float64(len(kept))
	s := newSVG(plotWidth, height+46, "median speedup by value of each gene")
	x := scale{lo: lo, hi: hi, from: left, to: plotWidth - 24}
	s.axisX(x, height, top, "median speedup of the candidates that have the value")
	for i, g := range kept {
		mid := top + row*(float64(i)+0.5)
		s.text(left-10, mid+4, "end", "mono", shorten(g.Gene, 24))
		s.line(x.at(g.Values[0].MedianSpeedup), mid, x.at(g.Values[len(g.Values)-1].MedianSpeedup), mid, "axis")
		free := [2]float64{math.Inf(-1), math.Inf(-1)} // where labels above and below the line may begin
		for j, v := range g.Values {
			px := x.at(v.MedianSpeedup)
			s.circle(px, mid, min(3+math.Sqrt(float64(v.N))*0.5, 8), "dot-a", fmt.Sprintf("%s=%s: median %.3fx of %d", g.Gene, v.Value, v.MedianSpeedup, v.N))
			label := shorten(v.Value, 14)
			half := 3.1 * float64(len([]rune(label)))
			side, dy := 0, -9.0
			if px-half < free[0] {
				side, dy = 1, 17
			}
			if px-half < free[side] && j != len(g.Values)-1 {
				continue // it would lie on another; the mark's title has it
			}
			if px-half >= free[side] {
				s.text(px, mid+dy, "middle", "soft small", label)
				free[side] = px + half + 4
			}
		}
	}
	return &Plot{
		Name: "genes", Title: "Genes: median speedup by value", svg: s,
		Caption: "Marginal medians over the correct candidates of this search, the gene with the widest range first; the size of a mark tells how many. A search does not sample evenly, so a value seen in good company looks good: a hint, not a proof.",
	}
}

func medianOf(v []float64) float64 {
	if v = finite(v); len(v) > 0 {
		return evaluator.Median(v)
	}
	return 0
}

func scaled(v []float64, f float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] * f
	}
	return out
}

// shorten cuts a label in the middle of its end.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

func launches(n int) string {
	if n == 1 {
		return "1 launch"
	}
	return fmt.Sprintf("%d launches", n)
}
