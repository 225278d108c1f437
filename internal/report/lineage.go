package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
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
	for _, k := range sortedKeys(was) {
		if v, ok := now[k]; !ok {
			out = append(out, "no "+k)
		} else if v != was[k] {
			out = append(out, fmt.Sprintf("%s %v → %v", k, was[k], v))
		}
	}
	for _, k := range sortedKeys(now) {
		if _, ok := was[k]; !ok {
			out = append(out, fmt.Sprintf("%s %v", k, now[k]))
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// drawn bounds the candidates in the drawing of a lineage.
const drawn = 40

// LineagePicture is a candidate with its ancestors as an SVG file that needs no
// other: the candidate on top, at most 40 candidates, and how many are left out.
func LineagePicture(root *store.Node) []byte {
	return drawLineage(newLineage(root, drawn)).svg.file()
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
	width := float64(plotWidth)
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
	s := newSVG(width, height, "lineage of "+nodes[0].Candidate)
	for _, e := range edges {
		from, to := places[e.child], places[e.parent]
		points := [][2]float64{{from.x, from.y + boxH}, {from.x, from.y + boxH + 8}}
		for _, k := range e.via {
			v := places[k]
			points = append(points, [2]float64{v.x, v.y - 8}, [2]float64{v.x, v.y + boxH + 8})
		}
		class := "edge"
		if child := nodes[e.child]; mainLine[child.Candidate] && child.Near == nodes[e.parent].Candidate {
			class = "edge-main"
		}
		s.path(append(points, [2]float64{to.x, to.y - 8}, [2]float64{to.x, to.y}), class)
	}
	for i, n := range nodes {
		if slices.ContainsFunc(n.Parents, func(p string) bool { _, ok := at[p]; return !ok }) {
			s.line(places[i].x, places[i].y+boxH, places[i].x, places[i].y+boxH+12, "edge") // it goes on, undrawn
		}
	}
	for i, n := range nodes {
		px, py := places[i].x, places[i].y
		class := "node"
		switch {
		case i == 0:
			class = "node-top"
		case n.Verdict != string(evaluator.Correct):
			class = "node-bad"
		}
		tip := n.Candidate + " " + n.Operator + " " + n.Verdict
		if len(n.Changes) > 0 {
			tip += ": " + strings.Join(n.Changes, ", ")
		}
		s.rect(px-boxW/2, py, boxW, boxH, class, tip)
		figure := n.Verdict
		if n.Speedup > 0 {
			figure = fmt.Sprintf("%.3fx %s", n.Speedup, n.Measured)
		}
		s.text(px-boxW/2+9, py+18, "start", "mono", shorten(n.Candidate, 17))
		s.text(px+boxW/2-9, py+18, "end", "small strong", figure)
		made := n.Operator
		if n.Campaign != nodes[0].Campaign {
			made += ", " + n.Campaign
		}
		s.text(px-boxW/2+9, py+35, "start", "soft small", shorten(made, 32))
		note := strings.Join(n.Changes, ", ")
		if len(n.Parents) > 0 && note == "" {
			note = "no gene differs"
		}
		s.text(px-boxW/2+9, py+51, "start", "small", shorten(note, 34))
	}
	if more := len(l.Nodes) - len(nodes) + l.Omitted; more > 0 {
		s.text(width/2, height-10, "middle", "soft", fmt.Sprintf("%d more ancestors are not drawn", more))
	}
	return &Plot{
		Name: "lineage", Title: "Lineage", svg: s,
		Caption: "The candidate on top, parents below. Each box has the operator, the speedup with the measurement that it is of (finals, search), and what differs from the nearest parent, to whom the thick line leads.",
	}
}
