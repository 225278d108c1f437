package importance

import (
	"cmp"
	"math"
	"math/rand"
	"slices"
)

// A tree is a regression tree (Breiman, Friedman, Olshen, Stone 1984). Node 0 is
// the root.
type tree []node

// A node sends the values of left to the child at low, the others to the one after
// it. A leaf has no low.
type node struct {
	gene int
	left set
	low  int
	mean float64 // of the evaluations in the node
}

const (
	leastLeaf = 3 // evaluations in a leaf
	// candidates is the part of the genes that a split may choose from; the rest
	// of a random forest's variety comes from the resamples.
	candidates = 2.0 / 3
)

// A grower makes a tree.
type grower struct {
	d     *data
	rng   *rand.Rand
	tree  tree
	order []int // genes, shuffled for each split
}

func (d *data) grow(rows []int, rng *rand.Rand) tree {
	g := grower{d: d, rng: rng, order: rng.Perm(len(d.genes)), tree: make(tree, 1)}
	g.node(0, rows)
	return g.tree
}

// node makes node at of the rows, and all below it. Rows are reordered.
func (g *grower) node(at int, rows []int) {
	sum := 0.0
	for _, i := range rows {
		sum += g.d.y[i]
	}
	g.tree[at].mean = sum / float64(len(rows))
	if len(rows) < 2*leastLeaf {
		return
	}
	best := split{gain: 1e-12}
	g.rng.Shuffle(len(g.order), func(i, j int) { g.order[i], g.order[j] = g.order[j], g.order[i] })
	wanted := int(math.Ceil(candidates * float64(len(g.order))))
	for _, j := range g.order {
		s, ok := g.split(j, rows, g.tree[at].mean)
		if !ok {
			continue // the gene cannot split these, and does not count
		}
		if s.gain > best.gain {
			best = s
		}
		if wanted--; wanted == 0 {
			break
		}
	}
	if best.left == 0 {
		return
	}
	m := 0
	for i, r := range rows {
		if best.left.has(g.d.rows[r][best.gene]) {
			rows[m], rows[i] = rows[i], rows[m]
			m++
		}
	}
	low := len(g.tree)
	g.tree = append(g.tree, node{}, node{})
	g.tree[at].gene, g.tree[at].left, g.tree[at].low = best.gene, best.left, low
	g.node(low, rows[:m])
	g.node(low+1, rows[m:])
}

// A split sends the rows with values of left one way.
type split struct {
	gene int
	left set
	gain float64 // what it takes off the sum of squares
}

// split finds the best split of the rows by a gene; false if they all have one
// value, or the gene does not exist in some of them: the genes that it depends on
// have to split them first.
//
// The values of a gene without an order are put in that of their means, which
// holds the best of all splits in two (W. Fisher 1958).
func (g *grower) split(j int, rows []int, mean float64) (split, bool) {
	var n, sum [maxValues]float64
	for _, i := range rows {
		v := g.d.rows[i][j]
		if v == absent {
			return split{}, false
		}
		n[v]++
		sum[v] += g.d.y[i] - mean
	}
	own := &g.d.genes[j]
	var there [maxValues]int
	seen := there[:0]
	for v := range own.values {
		if n[v] > 0 {
			seen = append(seen, v)
		}
	}
	if len(seen) < 2 {
		return split{}, false
	}
	if !own.ordinal {
		slices.SortStableFunc(seen, func(a, b int) int { return cmp.Compare(sum[a]/n[a], sum[b]/n[b]) })
	}
	best, cut := split{gene: j}, -1
	count, total := 0.0, 0.0
	for k, v := range seen[:len(seen)-1] {
		count += n[v]
		total += sum[v]
		others := float64(len(rows)) - count
		if count < leastLeaf || others < leastLeaf {
			continue
		}
		if gain := total*total/count + total*total/others; gain > best.gain { // the sums of both sides cancel
			best.gain, cut = gain, k
		}
	}
	if cut < 0 {
		return best, true
	}
	for _, v := range seen[:cut+1] {
		best.left |= 1 << uint(v)
	}
	g.place(own, &best, seen, cut)
	return best, true
}

// place decides where the values go that none of the rows has: by chance, those
// of an ordinal gene on the proper side of a border in the gap.
func (g *grower) place(own *gene, s *split, seen []int, cut int) {
	border := 0 // the first value beyond it
	if own.ordinal {
		border = seen[cut] + 1 + g.rng.Intn(seen[cut+1]-seen[cut])
	}
	for v := range own.values {
		switch {
		case slices.Contains(seen, v):
		case own.ordinal && v < border, !own.ordinal && g.rng.Intn(2) == 0:
			s.left |= 1 << uint(v)
		}
	}
}

// predict gives the mean of the leaf that a row ends in, or of the node whose gene
// it does not have.
func (t tree) predict(row []int8) float64 {
	n := &t[0]
	for n.low != 0 && row[n.gene] != absent {
		at := n.low
		if !n.left.has(row[n.gene]) {
			at++
		}
		n = &t[at]
	}
	return n.mean
}

// A resample is a bootstrap sample of the evaluations and the trees that were
// grown on it.
type resample struct {
	in    []bool // which evaluations it has
	trees []tree
}

func (d *data) resample(rng *rand.Rand) resample {
	r := resample{in: make([]bool, len(d.y))}
	rows := make([]int, len(d.y))
	for i := range rows {
		rows[i] = rng.Intn(len(d.y))
		r.in[rows[i]] = true
	}
	for range trees {
		r.trees = append(r.trees, d.grow(rows, rng))
	}
	return r
}

func (r resample) predict(row []int8) float64 {
	sum := 0.0
	for _, t := range r.trees {
		sum += t.predict(row)
	}
	return sum / float64(len(r.trees))
}

// outOfBag sums up what the resamples say of evaluations that they do not have.
type outOfBag struct{ sum, n []float64 }

func (b *outOfBag) add(d *data, r resample) {
	if b.n == nil {
		b.sum, b.n = make([]float64, len(d.y)), make([]float64, len(d.y))
	}
	for i, in := range r.in {
		if !in {
			b.sum[i] += r.predict(d.rows[i])
			b.n[i]++
		}
	}
}

// r2 is the share of the variance that the predictions explain; 0 when there is no
// variance.
func (b *outOfBag) r2(d *data) float64 {
	n, mean := 0.0, 0.0
	for i, y := range d.y {
		if b.n[i] > 0 {
			n++
			mean += (y - mean) / n
		}
	}
	wrong, all := 0.0, 0.0
	for i, y := range d.y {
		if b.n[i] > 0 {
			e := y - b.sum[i]/b.n[i]
			wrong += e * e
			all += (y - mean) * (y - mean)
		}
	}
	if all < 1e-18*n {
		return 0
	}
	return 1 - wrong/all
}
