package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/chart"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// A Lineage is a candidate with its ancestors, the candidate first, nearest
// generations before farther ones.
type Lineage struct {
	Nodes []LineageNode `json:"nodes"`
	// Omitted counts the ancestors beyond the bound.
	Omitted int `json:"omitted,omitempty"`
}

// A LineageNode is one candidate of a lineage.
type LineageNode struct {
	Candidate string   `json:"candidate"`
	Campaign  string   `json:"campaign"`
	Index     int      `json:"index"`
	Operator  string   `json:"operator"`
	Parents   []string `json:"parents,omitempty"`
	Verdict   string   `json:"verdict"`
	Speedup   float64  `json:"speedup,omitempty"`
	// Measured says which measurement that is of.
	Measured string `json:"measured,omitempty"`
	// Near is the parent that the candidate differs least from, and Changes
	// the genes in which it does: "MR 12 → 14".
	Near    string   `json:"near,omitempty"`
	Changes []string `json:"changes,omitempty"`
}

// newLineage flattens a lineage, at most limit candidates of it.
func newLineage(root *store.Node, limit int) Lineage {
	l := Lineage{Nodes: []LineageNode{}}
	if root == nil {
		return l
	}
	seen := map[string]bool{root.ID: true}
	for todo := []*store.Node{root}; len(todo) > 0; todo = todo[1:] {
		n := todo[0]
		if len(l.Nodes) < limit {
			l.Nodes = append(l.Nodes, lineageNode(n))
		} else {
			l.Omitted++
		}
		for _, p := range n.Parents {
			if !seen[p.ID] {
				seen[p.ID] = true
				todo = append(todo, p)
			}
		}
	}
	return l
}

func lineageNode(n *store.Node) LineageNode {
	v := LineageNode{Candidate: n.ID, Campaign: n.Campaign, Index: n.Asked.Index, Operator: n.Asked.Operator, Verdict: "pending"}
	if t := n.Told; t != nil {
		f := record.FiguresOf(n.Candidate)
		v.Verdict, v.Speedup, v.Measured = t.Verdict, f.Speedup(), f.From
	}
	for _, p := range n.Parents {
		v.Parents = append(v.Parents, p.ID)
		if d := changes(genome.Plain(p.Asked.Genome), genome.Plain(n.Asked.Genome)); v.Near == "" || len(d) < len(v.Changes) {
			v.Near, v.Changes = p.ID, d
		}
	}
	return v
}

// changes says in which genes a child differs from its parent.
func changes(was, now map[string]any) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(was)) {
		if v, ok := now[k]; !ok {
			out = append(out, "no "+k)
		} else if v != was[k] {
			out = append(out, fmt.Sprintf("%s %v → %v", k, was[k], v))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if _, ok := was[k]; !ok {
			out = append(out, fmt.Sprintf("%s %v", k, now[k]))
		}
	}
	return out
}

// drawn bounds the candidates in the drawing of a lineage.
const drawn = 40

// LineagePicture is a candidate with its ancestors as an SVG file that needs no
// other: the candidate on top, at most 40 candidates, and how many are left out.
func LineagePicture(root *store.Node) []byte {
	return drawLineage(newLineage(root, drawn)).file()
}

// plotLineage is drawLineage for pages; nil for a candidate without parents.
func plotLineage(l Lineage) *Plot {
	if len(l.Nodes) < 2 {
		return nil
	}
	return drawLineage(l)
}

// drawLineage draws the candidate on top and its ancestors below. There is at
// least one.
func drawLineage(l Lineage) *Plot {
	nodes := l.Nodes[:min(len(l.Nodes), drawn)]
	at := map[string]int{}
	for i, n := range nodes {
		at[n.Candidate] = i
	}
	// The row of a candidate is below every child's: the longest way from the
	// top. Rounds are bounded, so that a lineage with a circle ends as well.
	level := make([]int, len(nodes))
	for range nodes {
		moved := false
		for i, n := range nodes {
			for _, p := range n.Parents {
				if j, ok := at[p]; ok && level[j] <= level[i] && level[i] < len(nodes) {
					level[j], moved = level[i]+1, true
				}
			}
		}
		if !moved {
			break
		}
	}
	// The main line follows the nearest parent.
	mainLine := map[string]bool{}
	for n := &nodes[0]; ; {
		mainLine[n.Candidate] = true
		j, ok := at[n.Near]
		if n.Near == "" || !ok || mainLine[n.Near] {
			break
		}
		n = &nodes[j]
	}
	const boxW, boxH, gapX, gapY = 200.0, 62.0, 22.0, 30.0
	// An edge that skips rows passes each of them through a place of its own,
	// so that it does not lie under a box.
	type place struct {
		width, x, y float64
		above       []int // the places that lead here
	}
	places := make([]place, len(nodes))
	rows := map[int][]int{}
	deepest := 0
	for i := range nodes {
		places[i] = place{width: boxW}
		rows[level[i]] = append(rows[level[i]], i)
		deepest = max(deepest, level[i])
	}
	type edge struct {
		child, parent int
		via           []int
	}
	var edges []edge
	for i, n := range nodes {
		for _, p := range n.Parents {
			j, ok := at[p]
			if !ok {
				continue
			}
			e := edge{child: i, parent: j}
			from := i
			for r := level[i] + 1; r < level[j]; r++ {
				places = append(places, place{width: 6, above: []int{from}})
				from = len(places) - 1
				rows[r] = append(rows[r], from)
				e.via = append(e.via, from)
			}
			places[j].above = append(places[j].above, from)
			edges = append(edges, e)
		}
	}
	width := float64(chart.Width)
	for _, row := range rows {
		w := gapX
		for _, k := range row {
			w += places[k].width + gapX
		}
		width = max(width, w)
	}
	y := 12.0
	for r := 0; r <= deepest; r++ {
		row, total := rows[r], -gapX
		// Near those who lead here, which are placed already.
		wish := map[int]float64{}
		for _, k := range row {
			total += places[k].width + gapX
			wish[k] = width / 2
			if above := places[k].above; len(above) > 0 {
				sum := 0.0
				for _, q := range above {
					sum += places[q].x
				}
				wish[k] = sum / float64(len(above))
			}
		}
		slices.SortStableFunc(row, func(a, b int) int { return cmp.Compare(wish[a], wish[b]) })
		left := (width - total) / 2
		for _, k := range row {
			places[k].x, places[k].y = left+places[k].width/2, y
			left += places[k].width + gapX
		}
		y += boxH + gapY
	}
	height := y - gapY + 12
	if len(nodes) < len(l.Nodes) || l.Omitted > 0 {
		height += 22
	}
	picture := func(c draw.Canvas) {
		point := func(x, y float64) vg.Point { return vg.Point{X: vg.Points(x), Y: vg.Points(height - y)} } // from the top
		thin := chart.Stroke(chart.Idle, 1.1)
		for _, e := range edges {
			from, to := places[e.child], places[e.parent]
			points := []vg.Point{point(from.x, from.y+boxH), point(from.x, from.y+boxH+8)}
			for _, k := range e.via {
				v := places[k]
				points = append(points, point(v.x, v.y-8), point(v.x, v.y+boxH+8))
			}
			style := thin
			if child := nodes[e.child]; mainLine[child.Candidate] && child.Near == nodes[e.parent].Candidate {
				style = chart.Stroke(chart.C, 2)
			}
			c.StrokeLines(style, append(points, point(to.x, to.y-8), point(to.x, to.y)))
		}
		for i, n := range nodes {
			if slices.ContainsFunc(n.Parents, func(p string) bool { _, ok := at[p]; return !ok }) {
				p := places[i]
				c.StrokeLines(thin, []vg.Point{point(p.x, p.y+boxH), point(p.x, p.y+boxH+12)}) // it goes on, undrawn
			}
		}
		for i, n := range nodes {
			n.draw(c, nodes[0], vg.Rectangle{Min: point(places[i].x-boxW/2, places[i].y+boxH), Max: point(places[i].x+boxW/2, places[i].y)})
		}
		if more := len(l.Nodes) - len(nodes) + l.Omitted; more > 0 {
			style := chart.Regular(12, chart.Soft)
			style.XAlign = draw.XCenter
			c.FillText(style, point(width/2, height-12), fmt.Sprintf("%d more ancestors are not drawn", more))
		}
	}
	return &Plot{
		Name: "lineage", Title: "Lineage", drawing: chart.Drawing{Label: "lineage of " + nodes[0].Candidate, Width: vg.Points(width), Height: vg.Points(height), Draw: picture},
		Caption: "The candidate on top, parents below. Each box has the operator, the speedup with the measurement that it is of (finals, search), and what differs from the nearest parent, to whom the thick line leads.",
	}
}

// draw draws the box of a candidate in the lineage of another.
func (n LineageNode) draw(c draw.Canvas, of LineageNode, r vg.Rectangle) {
	edge := chart.Stroke(chart.Rule, 1)
	switch {
	case n.Candidate == of.Candidate:
		edge = chart.Stroke(chart.C, 2.2)
	case n.Verdict != string(evaluator.Correct):
		edge = chart.Stroke(chart.Bad, 1.2)
	}
	differs := strings.Join(n.Changes, ", ")
	chart.Rectangle(c, r, chart.Card, edge, colon(n.Candidate+" "+n.Operator+" "+n.Verdict, differs))
	figure := n.Verdict
	if n.Speedup > 0 {
		figure = fmt.Sprintf("%.3fx %s", n.Speedup, n.Measured)
	}
	if len(n.Parents) > 0 && differs == "" {
		differs = "no gene differs"
	}
	made := n.Operator
	if n.Campaign != of.Campaign {
		made += ", " + n.Campaign
	}
	left := func(down float64) vg.Point { return vg.Point{X: r.Min.X + 9, Y: r.Max.Y - vg.Points(down)} }
	right := chart.Bold(11, chart.Ink)
	right.XAlign = draw.XRight
	c.FillText(chart.Mono(10.5, chart.Ink), left(14), shorten(n.Candidate, 17))
	c.FillText(right, vg.Point{X: r.Max.X - 9, Y: r.Max.Y - 14}, figure)
	c.FillText(chart.Regular(11, chart.Soft), left(31), shorten(made, 32))
	c.FillText(chart.Regular(11, chart.Ink), left(47), shorten(differs, 34))
}
