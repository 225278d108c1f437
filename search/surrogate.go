package search

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/evotune/evotune/genome"
)

// A surrogate guesses from the outcomes so far how much better than the best a
// genome may be, so that of many offspring the most promising is proposed. It
// is a Gaussian process over the scores (Rasmussen and Williams, 2006), with
// expected improvement (Jones, Schonlau and Welch, 1998) as the promise.
//
// The covariance of two genomes is a product over the genes of (1 + s)/2, where
// s is 1 if they agree in that gene and falls with the distance of their values
// if not. Multiplied out it is a sum over all sets of genes: main effects,
// pairs, and so on, so that what one gene does is learned from genomes that
// differ in others. How fast each s falls is learned: a gene that does not
// matter soon counts for little.
//
// Scores beyond the median of what is remembered count as that median, failures
// too: how bad the bad ones are says nothing about where the good ones are, and
// one enormous time would drown its surroundings.
//
// Proposals whose outcome is outstanding take part with what the process expects
// of them. That leaves the guesses as they are and makes the surroundings of
// such a proposal less uncertain, so that proposals in flight keep apart.
type surrogate struct {
	parts modelParts
	space *genome.Space
	genes []similarity // of the genes that can differ
	// points are what is remembered, in the order of the proposals. The first
	// told of them have an outcome.
	points []point
	told   int
	turn   int // counts the changes of a gene's decay that were tried

	// factor is the lower Cholesky factor of the covariance of the points, of
	// as many as it has rows; row i has i+1 columns.
	factor [][]float64
	// The fit to the outcomes; stale says that it is older than they are.
	stale   bool
	weights []float64 // per point with an outcome; nil while too little is known
	scale   float64   // the process's variance; scores have mean 0 and variance 1
	best    float64   // the best score, so scaled
	row     []float64 // for promise
	alleles []int32   // for promise
}

// modelParts are what a surrogate is made of.
type modelParts struct {
	// memory is how many outcomes are remembered when the older ones are
	// forgotten: the newest, since the search is where they are, and a quarter
	// of them the best of all.
	memory int
	// cut is the quantile of the scores beyond which all are alike.
	cut float64
	// shared is the share of two genomes' covariance that a gene in which they
	// differ leaves alone.
	shared float64
	// decay is the expected decay of a gene, and width its prior's: decays
	// within that factor of it, either way, are nothing special. Without
	// learned, it stays.
	decay, width float64
	learned      bool
}

// A point is a proposal and, once it is told, its score: +Inf for a failure.
type point struct {
	alleles []int32 // per similarity: 0 for an inactive gene, else the value's place from 1 on
	score   float64
}

// A similarity is how alike two values of a gene are.
type similarity struct {
	gene    int // index in the space
	ordinal bool
	shared  float64
	decay   float64
	// factors[d] is the factor for values d places apart; the last one is also
	// that of an inactive gene against an active one.
	factors []float64
}

const (
	// surrogateSlack is how many outcomes come to be remembered beyond the
	// memory, before the older ones are forgotten.
	surrogateSlack = 32
	// surrogateNoise is the variance of a measurement, in terms of the
	// process's.
	surrogateNoise = 1e-3
	// firstStep is the distance of two neighboring values of an ordinal gene,
	// where that from the first to the last is 1, as it is between any two
	// values of an enumeration.
	firstStep = 0.3
	// decayStep is the factor by which a decay is changed.
	decayStep = 1.7
	// adaptEvery is how many outcomes lie between two changes of a decay, once
	// there are enough to make them expensive.
	adaptEvery = 3
	// cheapPoints is how many outcomes are that cheap.
	cheapPoints = 40
	// enoughPoints is how many outcomes tell anything about decays.
	enoughPoints = 8
)

func newSurrogate(space *genome.Space, parts modelParts) *surrogate {
	m := &surrogate{space: space, parts: parts}
	for i, g := range space.Genes() {
		if len(g.Values) > 1 || g.When != "" {
			s := similarity{gene: i, ordinal: g.Ordinal, shared: parts.shared, factors: make([]float64, max(2, len(g.Values)))}
			s.set(parts.decay)
			m.genes = append(m.genes, s)
		}
	}
	m.alleles = make([]int32, len(m.genes))
	return m
}

// set gives the gene a decay.
func (s *similarity) set(decay float64) {
	s.decay = decay
	s.factors[0] = 1
	for d := 1; d < len(s.factors); d++ {
		distance := 1.0
		if last := len(s.factors) - 1; s.ordinal && d < last {
			distance = firstStep + (1-firstStep)*float64(d-1)/float64(last-1)
		}
		s.factors[d] = s.shared + (1-s.shared)*math.Exp(-decay*distance)
	}
}

// between gives the factor of two alleles.
func (s *similarity) between(a, b int32) float64 {
	switch {
	case a == b:
		return 1
	case a == 0 || b == 0:
		return s.factors[len(s.factors)-1]
	case a < b:
		return s.factors[b-a]
	}
	return s.factors[a-b]
}

// covariance of two points, in terms of the process's variance.
func (m *surrogate) covariance(a, b []int32) float64 {
	c := 1.0
	for k := range m.genes {
		c *= m.genes[k].between(a[k], b[k])
	}
	return c
}

// place writes a genome's alleles.
func (m *surrogate) place(g genome.Genome, alleles []int32) {
	indices := m.space.Indices(g)
	for k := range m.genes {
		alleles[k] = int32(indices[m.genes[k].gene] + 1)
	}
}

// add remembers a proposal.
func (m *surrogate) add(g genome.Genome) {
	p := point{alleles: make([]int32, len(m.genes))}
	m.place(g, p.alleles)
	m.points = append(m.points, p)
}

// tell enters the score of the first proposal that has none; +Inf for a failure.
func (m *surrogate) tell(score float64) {
	m.points[m.told].score = score
	m.told++
	m.stale = true
	if m.told >= m.parts.memory+surrogateSlack {
		m.forget()
	}
}

// clear drops all points; the decays stay.
func (m *surrogate) clear() {
	m.points, m.told = nil, 0
	m.factor, m.weights, m.stale = nil, nil, false
}

// forget drops outcomes: all but the newest and the best.
func (m *surrogate) forget() {
	best := m.parts.memory / 4
	old := m.told - (m.parts.memory - best)
	order := make([]int, old)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case m.points[a].score < m.points[b].score:
			return -1
		case m.points[a].score > m.points[b].score:
			return 1
		}
		return 0
	})
	keep := order[:best]
	slices.Sort(keep)
	kept := make([]point, 0, len(m.points)-old+best)
	for _, i := range keep {
		kept = append(kept, m.points[i])
	}
	m.points = append(kept, m.points[old:]...)
	m.told -= old - best
	m.factor = nil
}

// cholesky extends the factor to n points.
func (m *surrogate) cholesky(factor [][]float64, n int) [][]float64 {
	for i := len(factor); i < n; i++ {
		row := make([]float64, i+1)
		for j := range row[:i] {
			c := m.covariance(m.points[i].alleles, m.points[j].alleles)
			row[j] = (c - floats.Dot(row[:j], factor[j][:j])) / factor[j][j]
		}
		// No less remains than the noise, but for rounding.
		rest := 1 + surrogateNoise - floats.Dot(row[:i], row[:i])
		row[i] = math.Sqrt(math.Max(rest, surrogateNoise))
		factor = append(factor, row)
	}
	return factor
}

// solve replaces b by the solution of factor x = b.
func solve(factor [][]float64, b []float64) {
	for i := range b {
		b[i] = (b[i] - floats.Dot(factor[i][:i], b[:i])) / factor[i][i]
	}
}

// solveTransposed replaces b by the solution of factor' x = b.
func solveTransposed(factor [][]float64, b []float64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] /= factor[i][i]
		floats.AddScaled(b[:i], -b[i], factor[i][:i])
	}
}

// targets gives the scores of the points with an outcome, cut and scaled to mean 0 and variance 1; nil if they are too few.
func (m *surrogate) targets() []float64 {
	var finite []float64
	for _, p := range m.points[:m.told] {
		if !math.IsInf(p.score, 1) {
			finite = append(finite, p.score)
		}
	}
	if len(finite) < enoughToBreed {
		return nil
	}
	slices.Sort(finite)
	cut := finite[int(float64(len(finite)-1)*m.parts.cut)]
	if cut == finite[0] {
		cut = finite[len(finite)-1]
	}
	y := make([]float64, m.told)
	for i, p := range m.points[:m.told] {
		y[i] = math.Min(p.score, cut)
	}
	n := float64(len(y))
	floats.AddConst(-floats.Sum(y)/n, y)
	if norm := floats.Norm(y, 2); norm > 0 {
		floats.Scale(math.Sqrt(n)/norm, y)
	}
	return y
}

// likelihood is the logarithm of the probability density of the targets, the
// process's variance at its best, and of the decays' prior; constants are left
// out.
func (m *surrogate) likelihood(factor [][]float64, y []float64) float64 {
	v := slices.Clone(y)
	solve(factor, v)
	n := float64(len(y))
	l := -n / 2 * math.Log(floats.Dot(v, v)/n)
	for i := range y {
		l -= math.Log(factor[i][i])
	}
	for k := range m.genes {
		e := math.Log(m.genes[k].decay/m.parts.decay) / math.Log(m.parts.width)
		l -= e * e / 2
	}
	return l
}

// adapt tries a larger and a smaller decay for one gene, each in its turn, and
// keeps what makes the outcomes most likely.
func (m *surrogate) adapt(y []float64) {
	s := &m.genes[m.turn%len(m.genes)]
	m.turn++
	was := s.decay
	decay, most, factor := was, m.likelihood(m.factor, y), m.factor
	for _, d := range []float64{was / decayStep, was * decayStep} {
		s.set(d)
		f := m.cholesky(nil, m.told)
		if l := m.likelihood(f, y); l > most {
			decay, most, factor = d, l, f
		}
	}
	s.set(decay)
	m.factor = factor
}

// fit brings the factor and the weights up to date.
func (m *surrogate) fit() {
	if m.stale {
		m.stale, m.weights = false, nil
		if y := m.targets(); y != nil {
			m.factor = m.cholesky(m.factor, m.told)
			if m.parts.learned && len(m.genes) > 0 && m.told >= enoughPoints && (m.told < cheapPoints || m.told%adaptEvery == 0) {
				m.adapt(y)
			}
			m.best = floats.Min(y)
			solve(m.factor, y)
			m.scale = floats.Dot(y, y) / float64(len(y))
			solveTransposed(m.factor, y)
			m.weights = y
		}
	}
	m.factor = m.cholesky(m.factor, len(m.points))
}

// promise is the logarithm of the improvement that is expected of a genome,
// over the best score, in terms of the scores' deviation; 0 for all while too
// little is known.
func (m *surrogate) promise(g genome.Genome) float64 {
	if m.stale || len(m.factor) < len(m.points) {
		m.fit()
	}
	if m.weights == nil {
		return 0
	}
	m.place(g, m.alleles)
	m.row = slices.Grow(m.row[:0], len(m.points))[:len(m.points)]
	for i := range m.row {
		m.row[i] = m.covariance(m.alleles, m.points[i].alleles)
	}
	mean := floats.Dot(m.weights, m.row[:len(m.weights)])
	solve(m.factor, m.row)
	rest := math.Max(1-floats.Dot(m.row, m.row), 1e-12)
	return logImprovement(m.best-mean, math.Sqrt(rest*m.scale))
}

// logImprovement is the logarithm of the mean of max(0, x) of a normally
// distributed x.
func logImprovement(mean, deviation float64) float64 {
	if deviation == 0 {
		return math.Log(math.Max(0, mean))
	}
	z := mean / deviation
	if z < -6 { // the first term of the asymptotic series, where the difference below cancels
		return math.Log(deviation) - z*z/2 - math.Log(math.Sqrt(2*math.Pi)*z*z)
	}
	return math.Log(deviation * (z*0.5*math.Erfc(-z/math.Sqrt2) + math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)))
}
