// Command chart draws docs/attention-h200.svg, the chart of the README, from
// the record docs/evidence/h200/pytorch.txt. Run it in the root of the
// repository:
//
//	go run ./scripts/chart
//
// The test of this package fails when the committed chart differs from what the
// record gives.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	record = "docs/evidence/h200/pytorch.txt"
	chart  = "docs/attention-h200.svg"
)

func main() {
	if err := run(record, chart); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	groups, err := parse(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return os.WriteFile(to, draw(groups), 0o644)
}

// bars are the contenders that are drawn, as the record names them.
var bars = []struct{ name, label, class string }{
	{"evotune", "evotune", "a"},
	{"SDPA cuDNN", "cuDNN", "b"},
	{"SDPA flash", "flash", "c"},
}

// A group is one attention shape. micros are the medians of bars, in
// microseconds.
type group struct {
	shape  string
	micros []float64
}

// ratio is the time of bar i over that of evotune.
func (g group) ratio(i int) float64 { return g.micros[i] / g.micros[0] }

// parse reads the output of bench/pytorch/compare.py and returns its attention
// shapes, ordered by cuDNN's time over evotune's, the largest first.
func parse(r io.Reader) ([]group, error) {
	var groups []group
	in := false // in a block about attention
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case line[0] != ' ':
			if in = fields[0] == "attention"; in {
				groups = append(groups, group{fields[1], make([]float64, len(bars))})
			}
		case in && len(fields) > 5:
			name := strings.Join(fields[:len(fields)-5], " ")
			i := slices.IndexFunc(bars, func(b struct{ name, label, class string }) bool { return b.name == name })
			if i < 0 {
				continue
			}
			us, err := strconv.ParseFloat(fields[len(fields)-5], 64)
			if err != nil || us <= 0 {
				return nil, fmt.Errorf("line %d: %q is not a time", n, fields[len(fields)-5])
			}
			groups[len(groups)-1].micros[i] = us
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("it has no attention shape")
	}
	for _, g := range groups {
		if i := slices.Index(g.micros, 0); i >= 0 {
			return nil, fmt.Errorf("attention %s lacks %s", g.shape, bars[i].name)
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.ratio(1), a.ratio(1)) })
	return groups, nil
}

// Sizes in pixels: a group is three bars and the space below them.
const (
	width, left, right = 760, 200, 130
	top, bar, space    = 74, 15, 14
)

const style = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1b1f24}
.title{font-weight:600;font-size:15px}.soft{fill:#5a6472}.strong{font-weight:600}
.paper{fill:#fff}
.a{fill:#0072b2}.b{fill:#c8590a}.c{fill:#8a94a3}
@media (prefers-color-scheme:dark){
text{fill:#e6e9ee}.soft{fill:#a0a9b6}.paper{fill:#14171c}
.a{fill:#56b4e9}.b{fill:#f0a24a}.c{fill:#77818f}
}
</style>
`

func draw(groups []group) []byte {
	longest := 1.0
	for _, g := range groups {
		for i := range bars {
			longest = max(longest, g.ratio(i))
		}
	}
	scale := (width - left - right) / longest
	height := top + len(groups)*(len(bars)*bar+space) + 4

	var b strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&b, format, a...) }
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Attention on an H200: time per launch of evotune, cuDNN and flash">`+"\n", width, height, width, height)
	p("%s", style)
	p(`<rect class="paper" width="%d" height="%d" rx="6"/>`+"\n", width, height)
	p(`<text class="title" x="16" y="26">fp16 attention on an NVIDIA H200: time per launch (shorter is better)</text>` + "\n")
	p(`<text class="soft" x="16" y="50">batch x heads x length x head size</text>` + "\n")
	for i, c := range bars {
		x := width - right - 240 + 90*i
		p(`<rect class="%s" x="%d" y="40" width="11" height="11"/><text x="%d" y="50">%s</text>`+"\n", c.class, x, x+17, c.label)
	}
	y := top
	for _, g := range groups {
		shape, causal, _ := strings.Cut(g.shape, "-")
		p(`<text class="strong" x="16" y="%d">%s</text>`+"\n", y+12, strings.TrimSpace(shape+" "+causal))
		fastest := 0
		for i := range bars {
			if g.micros[i] < g.micros[fastest] {
				fastest = i
			}
		}
		p(`<text class="soft" x="16" y="%d">%s is fastest</text>`+"\n", y+12+bar, bars[fastest].label)
		for i, c := range bars {
			w := g.ratio(i) * scale
			p(`<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`, c.class, left, y, w, bar-2)
			p(`<text x="%.1f" y="%d">%.2f us <tspan class="soft">%.2fx</tspan></text>`+"\n", left+w+6, y+11, g.micros[i], g.ratio(i))
			y += bar
		}
		y += space
	}
	p("</svg>\n")
	return []byte(b.String())
}
