package importance

import (
	"math"
	"math/rand"
)

// parts are the parts of the functions of all resamples.
type parts struct {
	mains, pairs []*part // by gene, and by pairAt
	at           [][]int8
	whole        *part // the function itself, at random points of the space
}

// A part is one term of the decomposition: its values on the cells of one gene or
// of two, each with a weight that sums to 1 over the cells and a mean of 0.
type part struct {
	weight  []float64
	sum     []float64 // over resamples
	ratios  []float64 // sums and, behind them, sums of squares of exp(value)
	norms   []float64 // the variance in each resample
	current []float64 // of the resample that is being added
}

func newPart(weight []float64) *part {
	n := len(weight)
	return &part{weight: weight, sum: make([]float64, n), ratios: make([]float64, 2*n), current: make([]float64, n)}
}

func newParts(d *data) *parts {
	p := &parts{}
	for _, g := range d.genes {
		p.mains = append(p.mains, newPart(g.weight))
	}
	for _, jk := range d.pairs() {
		var w []float64
		for _, a := range d.genes[jk[0]].weight {
			for _, b := range d.genes[jk[1]].weight {
				w = append(w, a*b)
			}
		}
		p.pairs = append(p.pairs, newPart(w))
	}
	p.at = d.sample(points, rand.New(rand.NewSource(points)))
	equal := make([]float64, points)
	for i := range equal {
		equal[i] = 1.0 / points
	}
	p.whole = newPart(equal)
	return p
}

// add takes a resample apart.
func (p *parts) add(d *data, r resample) {
	for _, t := range r.trees {
		w := walk{d: d, parts: p, tree: t, box: make([]set, len(d.genes)), chance: make([]float64, len(d.genes))}
		for j := range d.genes {
			w.box[j], w.chance[j] = d.genes[j].full, 1
		}
		w.node(0, 1/float64(len(r.trees)))
	}
	for _, m := range p.mains {
		m.centre()
		m.close()
	}
	for i, jk := range d.pairs() {
		p.pairs[i].centre2(d.genes[jk[0]].weight, d.genes[jk[1]].weight)
		p.pairs[i].close()
	}
	for i, x := range p.at {
		p.whole.current[i] = r.predict(x)
	}
	p.whole.centre()
	p.whole.close()
}

// A walk visits the leaves of a tree.
//
// A leaf is a box: the product, over the genes that the path to it splits by, of
// sets B with the chances p(B). Its function is its mean c times the product of
// the indicators 1(B), and 1(B) = p(B)·(1 + z) with z = 1(B)/p(B) - 1, whose mean
// over the gene is 0. Multiplied out, the term with z of one gene belongs to that
// gene's part, the term with the z of two to the pair's. Here 1(B)/p(B) alone is
// summed; centring takes off the rest, for all leaves at once.
type walk struct {
	d      *data
	parts  *parts
	tree   tree
	box    []set
	chance []float64 // of box
	path   []int     // genes with a box that is not all of their values
}

// node visits what is below a node whose box has the weight, as a share of the
// space.
func (w *walk) node(at int, weight float64) {
	n := &w.tree[at]
	if n.low == 0 {
		w.leaf(n.mean * weight)
		return
	}
	j := n.gene
	box, chance := w.box[j], w.chance[j]
	fresh := box == w.d.genes[j].full
	if fresh {
		w.path = append(w.path, j)
	}
	for side, s := range [2]set{box & n.left, box &^ n.left} {
		if p := w.d.genes[j].probability(s); p > 0 {
			w.box[j], w.chance[j] = s, p
			w.node(n.low+side, weight*p/chance)
		}
	}
	w.box[j], w.chance[j] = box, chance
	if fresh {
		w.path = w.path[:len(w.path)-1]
	}
}

func (w *walk) leaf(c float64) {
	for a, j := range w.path {
		own, x := w.parts.mains[j].current, c/w.chance[j]
		w.box[j].each(func(v int) { own[v] += x })
		for _, k := range w.path[:a] {
			lo, hi := min(j, k), max(j, k)
			own, x := w.parts.pairs[pairAt(lo, hi)].current, x/w.chance[k]
			width := len(w.d.genes[hi].values)
			w.box[lo].each(func(v int) {
				w.box[hi].each(func(u int) { own[v*width+u] += x })
			})
		}
	}
}

// centre subtracts the mean.
func (t *part) centre() {
	mean := 0.0
	for i, x := range t.current {
		mean += t.weight[i] * x
	}
	for i := range t.current {
		t.current[i] -= mean
	}
}

// centre2 takes the means of rows and of columns off.
func (t *part) centre2(rows, columns []float64) {
	n := len(columns)
	for v := range rows {
		mean := 0.0
		for u, p := range columns {
			mean += p * t.current[v*n+u]
		}
		for u := range columns {
			t.current[v*n+u] -= mean
		}
	}
	for u := range columns {
		mean := 0.0
		for v, p := range rows {
			mean += p * t.current[v*n+u]
		}
		for v := range rows {
			t.current[v*n+u] -= mean
		}
	}
}

// close ends a resample.
func (t *part) close() {
	norm := 0.0
	for i, x := range t.current {
		norm += t.weight[i] * x * x
		t.sum[i] += x
		e := math.Exp(x)
		t.ratios[2*i] += e
		t.ratios[2*i+1] += e * e
		t.current[i] = 0
	}
	t.norms = append(t.norms, norm)
}

// variance is that of the mean function of all resamples.
func (t *part) variance() float64 {
	norm := 0.0
	for i, x := range t.sum {
		m := x / float64(len(t.norms))
		norm += t.weight[i] * m * m
	}
	return norm
}

func (p *parts) variance() float64 { return p.whole.variance() }

// share is the share of a part in the variance of the whole, less what the noise
// of the fit adds to a variance: as much as the resamples vary around their mean.
func (p *parts) share(t *part) Estimate {
	all := p.variance()
	if all < 1e-18 {
		return Estimate{}
	}
	n := float64(len(t.norms))
	v, mean := t.variance(), 0.0
	shares := make([]float64, len(t.norms))
	for i, norm := range t.norms {
		mean += norm / n
		if p.whole.norms[i] > 0 {
			shares[i] = norm / p.whole.norms[i]
		}
	}
	noise := (mean - v) * n / (n - 1)
	return Estimate{Value: (v - noise) / all, Error: deviation(shares)}
}

// effects are those of the values of gene j, with the positions of the best and
// the worst.
func (p *parts) effects(d *data, j int) (out []Effect, best, worst int) {
	g, t := &d.genes[j], p.mains[j]
	best, worst = -1, -1
	n := float64(len(t.norms))
	for v, name := range g.values {
		mean := t.ratios[2*v] / n
		out = append(out, Effect{
			Value: name, Correct: g.correct[v], Failed: g.failed[v],
			Ratio: Estimate{math.Exp(t.sum[v] / n), math.Sqrt(max(0, t.ratios[2*v+1]/n-mean*mean) * n / (n - 1))},
		})
		if g.correct[v] == 0 {
			continue
		}
		if best < 0 || t.sum[v] < t.sum[best] {
			best = v
		}
		if worst < 0 || t.sum[v] > t.sum[worst] {
			worst = v
		}
	}
	return out, max(best, 0), max(worst, 0)
}

// deviation is the standard deviation of a sample.
func deviation(x []float64) float64 {
	mean, sum := 0.0, 0.0
	for i, v := range x {
		mean += (v - mean) / float64(i+1)
	}
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(max(1, len(x)-1)))
}
