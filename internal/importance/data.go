package importance

import (
	"math"
	"math/bits"
	"math/rand"
	"slices"

	"github.com/evotune/evotune/genome"
)

// maxValues is how many values of a gene are told apart; it is also what fits
// into a set. Longer lists are cut into so many pieces.
const maxValues = 32

// A set holds values of a gene, by position.
type set uint32

func (s set) has(v int8) bool { return s>>uint(v)&1 != 0 }

// each calls f with the members, in order.
func (s set) each(f func(v int)) {
	for ; s != 0; s &= s - 1 {
		f(bits.TrailingZeros32(uint32(s)))
	}
}

// data is what the trees see.
type data struct {
	genes []gene
	rows  [][]int8  // per correct evaluation and gene, the value; absent where it does not exist
	y     []float64 // the logarithm of the time
}

// absent is the value of a gene that does not exist in a genome.
const absent = -1

type gene struct {
	name    string
	ordinal bool
	values  []string
	full    set
	weight  []float64 // of each value, in the space; they sum to 1
	correct []int     // evaluations with each value
	failed  []int
}

// probability of drawing a member of s.
func (g *gene) probability(s set) float64 {
	if s == g.full {
		return 1
	}
	p := 0.0
	s.each(func(v int) { p += g.weight[v] })
	return p
}

func newData(space *genome.Space, evaluations []Evaluation, o Options) *data {
	d := &data{}
	pieces := make([]int, 0, len(space.Genes()))
	for _, g := range space.Genes() {
		n := min(len(g.Values), maxValues)
		pieces = append(pieces, n)
		own := gene{
			name: g.Name, ordinal: g.Ordinal, full: set(1<<uint(n) - 1),
			weight: make([]float64, n), correct: make([]int, n), failed: make([]int, n), values: make([]string, n),
		}
		for i, v := range g.Values {
			switch k := i * n / len(g.Values); {
			case own.values[k] == "":
				own.values[k] = v.String()
			case i+1 == len(g.Values) || (i+1)*n/len(g.Values) != k:
				own.values[k] += " to " + v.String()
			}
		}
		d.genes = append(d.genes, own)
	}
	read := func(g genome.Genome) []int8 {
		row := make([]int8, len(d.genes))
		for j, k := range space.Indices(g) {
			row[j] = absent
			if k >= 0 {
				row[j] = int8(k * pieces[j] / len(space.Genes()[j].Values))
			}
		}
		return row
	}
	for _, e := range evaluations {
		row := read(e.Genome)
		for j, v := range row {
			switch g := &d.genes[j]; {
			case v == absent:
			case e.Time > 0:
				g.correct[v]++
			default:
				g.failed[v]++
			}
		}
		if e.Time > 0 {
			d.rows, d.y = append(d.rows, row), append(d.y, math.Log(e.Time))
		}
	}
	d.weigh(space, read, o)
	if o.Best > 0 && o.Best < 1 && len(d.y) > 0 {
		sorted := slices.Sorted(slices.Values(d.y))
		slowest := sorted[min(len(sorted)-1, int(o.Best*float64(len(sorted))))]
		for i := range d.y {
			d.y[i] = min(d.y[i], slowest)
		}
	}
	return d
}

// weigh counts the values of the genes among the valid genomes: all, or a sample
// where there are many.
func (d *data) weigh(space *genome.Space, read func(genome.Genome) []int8, o Options) {
	count := func(g genome.Genome) {
		for j, v := range read(g) {
			if v != absent {
				d.genes[j].weight[v]++
			}
		}
	}
	if space.Exact() && space.Size() <= draws {
		for g := range space.All() {
			count(g)
		}
	} else {
		rng := rand.New(rand.NewSource(o.Seed))
		for range draws {
			count(space.Random(rng))
		}
	}
	for j := range d.genes {
		g := &d.genes[j]
		sum := 0.0
		for v := range g.weight {
			if g.correct[v] > 0 {
				g.weight[v] = max(g.weight[v], 1) // rare, but seen
			}
			sum += g.weight[v]
		}
		for v := range g.weight {
			if sum > 0 {
				g.weight[v] /= sum
			} else {
				g.weight[v] = 1 / float64(len(g.weight)) // it exists nowhere
			}
		}
	}
}

// pairs lists the pairs of genes.
func (d *data) pairs() [][2]int {
	var out [][2]int
	for k := range d.genes {
		for j := range k {
			out = append(out, [2]int{j, k})
		}
	}
	return out
}

// pairAt is the position of j < k in pairs.
func pairAt(j, k int) int { return k*(k-1)/2 + j }

// sample gives n points of the space in which genes are drawn one by one. Each
// gene has its values as often as their weights say (a Latin hypercube), so that
// averages of what one gene does are exact.
func (d *data) sample(n int, rng *rand.Rand) [][]int8 {
	out := make([][]int8, n)
	for i := range out {
		out[i] = make([]int8, len(d.genes))
	}
	for j := range d.genes {
		v, below := 0, d.genes[j].weight[0]
		for k, i := range rng.Perm(n) {
			for v < len(d.genes[j].weight)-1 && (float64(k)+0.5)/float64(n) > below {
				v++
				below += d.genes[j].weight[v]
			}
			out[i][j] = int8(v)
		}
	}
	return out
}
