package search

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/evotune/evotune/genome"
)

// A surrogate predicts from the outcomes so far how much better than the best a genome
// may be, so that the most promising of many offspring is proposed. It
// is a Gaussian process over the scores (Rasmussen and Williams, 2006), with
// expected improvement (Jones, Schonlau and Welch, 1998) as the promise.
//
// The covariance of two genomes is a product over the genes of (1 + s)/2, where
// s is 1 if they agree in that gene and falls with the distance of their values
// if not. Multiplied out it is a sum over all sets of genes: main effects,
// pairs, and so on. So the effect of one gene is learned from genomes that differ in
// others. How fast each s falls is learned: a gene that does not matter soon has little
// weight.
//
// Scores above the median of what is remembered count as that median, failures too: how
// bad the bad ones are says nothing about where the good ones are, and one enormous
// time would distort its surroundings.
//
// Proposals without an outcome take part with their expected score. That does not
// change the predictions, but makes the surroundings of such a proposal less uncertain,
// so that proposals in flight keep apart.
type surrogate struct {
	parts modelParts
	space *genome.Space
	genes []similarity // of the genes that can differ
	// scores are those of the remembered points, in the order of the proposals;
	// each similarity has their alleles. The first told of them have an outcome:
	// +Inf for a failure.
	scores []float64
	told   int
	turn   int // counts the tried changes of a gene's decay

	// factor is the lower Cholesky factor of the covariance of the points,
	// as many as it has rows; row i has i+1 columns.
	factor [][]float64
	spare  [2][][]float64 // for the factors that adapt tries
	// The fit to the outcomes; stale says that it is older than they are.
	stale   bool
	weights []float64 // per point with an outcome; nil while too little is known
	mean    float64   // of the scores
	unit    float64   // their deviation
	scale   float64   // the process's variance; scores have mean 0 and variance 1
	best    float64   // the best score, so scaled
	row     []float64 // for promise
}

// modelParts are the settings of a surrogate.
type modelParts struct {
	// memory is how many outcomes are kept when older ones are forgotten: the newest,
	// since the search is where they are, but a quarter are the best of all.
	memory int
	// cut is the quantile of the scores above which all count the same.
	cut float64
	// shared is the share of two genomes' covariance that a gene in which they
	// differ does not affect.
	shared float64
	// decay is the expected decay of a gene, and width that of its prior: decays within
	// that factor of it, either way, are common. Without learned, it does not change.
	decay, width float64
	learned      bool
}

// A similarity is how alike two values of a gene are.
type similarity struct {
	gene    int // index in the space
	values  int
	ordinal bool
	shared  float64
	decay   float64
	// factors[2*values+d] is the factor for alleles d apart, either way. An allele is
	// the value's index. For an inactive gene it is twice the number of values, so
	// that it is farther from all values than these are from each other.
	factors []float64
	alleles []int32 // of the points
}

const (
	// surrogateSlack is how many outcomes beyond the memory are kept before older ones
	// are forgotten.
	surrogateSlack = 32
	// surrogateNoise is the variance of a measurement, in terms of the
	// process's.
	surrogateNoise = 1e-3
	// firstStep is the distance between two neighboring values of an ordinal gene. The
	// distance from the first to the last is 1, as between any two
	// values of an enumeration.
	firstStep = 0.3
	// decayStep is the factor by which a decay is changed.
	decayStep = 1.7
	// adaptEvery is how many outcomes lie between two changes of a decay, once
	// there are enough outcomes to make changes expensive.
	adaptEvery = 3
	// cheapPoints is up to how many outcomes changes are cheap.
	cheapPoints = 40
	// promiseStep is after how many points promise checks whether a genome may still
	// be the most promising.
	promiseStep = 32
	// promiseSlack is how much more a genome may promise than with some of the points,
	// relative to one plus that: it covers rounding, and the step of logImprovement
	// where its series begins.
	promiseSlack = 0.1
	// enoughPoints is how many outcomes are needed to learn about decays.
	enoughPoints = 8
)

func newSurrogate(space *genome.Space, parts modelParts) *surrogate {
	m := &surrogate{space: space, parts: parts, stale: true}
	for i, g := range space.Genes() {
		if len(g.Values) > 1 || g.When != "" {
			s := similarity{gene: i, values: len(g.Values), ordinal: g.Ordinal, shared: parts.shared, factors: make([]float64, 4*len(g.Values)+1)}
			s.set(parts.decay)
			m.genes = append(m.genes, s)
		}
	}
	return m
}

// set gives the gene a decay.
func (s *similarity) set(decay float64) {
	s.decay = decay
	middle, last := 2*s.values, max(1, s.values-1)
	s.factors[middle] = 1
	for d := 1; d <= middle; d++ {
		if d > last {
			s.factors[middle+d] = s.factors[middle+last]
		} else {
			distance := 1.0
			if s.ordinal && d < last {
				distance = firstStep + (1-firstStep)*float64(d-1)/float64(last-1)
			}
			s.factors[middle+d] = s.shared + (1-s.shared)*math.Exp(-decay*distance)
		}
		s.factors[middle-d] = s.factors[middle+d]
	}
}

// allele is the index of a genome's value among the values of the gene.
func (s *similarity) allele(indices []int) int32 {
	if i := indices[s.gene]; i >= 0 {
		return int32(i)
	}
	return int32(2 * s.values)
}

// toward returns the factors of an allele and others, to be indexed by the other.
func (s *similarity) toward(allele int32) []float64 { return s.factors[2*s.values-int(allele):] }

// covariances fills row with those of a point and the first points, in units of the
// process's variance. allele defines the point.
func (m *surrogate) covariances(row []float64, allele func(*similarity) int32) {
	for i := range row {
		row[i] = 1
	}
	for k := range m.genes {
		s := &m.genes[k]
		factors := s.toward(allele(s))
		for i, other := range s.alleles[:len(row)] {
			row[i] *= factors[other]
		}
	}
}

// add remembers a proposal.
func (m *surrogate) add(g genome.Genome) {
	indices := m.space.Indices(g)
	for k := range m.genes {
		s := &m.genes[k]
		s.alleles = append(s.alleles, s.allele(indices))
	}
	m.scores = append(m.scores, 0)
}

// tell sets the score of the first proposal that has none; +Inf for a failure.
func (m *surrogate) tell(score float64) {
	m.scores[m.told] = score
	m.told++
	m.stale = true
	if m.told >= m.parts.memory+surrogateSlack {
		m.forget()
	}
}

// clear drops all points; the decays stay.
func (m *surrogate) clear() {
	m.keep(nil, len(m.scores))
	m.told, m.stale = 0, true
}

// keep drops the first points, except some of them.
func (m *surrogate) keep(some []int, first int) {
	for k := range m.genes {
		m.genes[k].alleles = pick(m.genes[k].alleles, some, first)
	}
	m.scores = pick(m.scores, some, first)
	m.factor = m.factor[:0]
}

// pick moves some of the first elements to the front, and those after the first behind them.
func pick[E any](all []E, some []int, first int) []E {
	for to, from := range some {
		all[to] = all[from]
	}
	return append(all[:len(some)], all[first:]...)
}

// forget drops outcomes: all but the newest and the best.
func (m *surrogate) forget() {
	best := m.parts.memory / 4
	old := m.told - (m.parts.memory - best)
	order := make([]int, old)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m.scores[a], m.scores[b]) })
	some := order[:best]
	slices.Sort(some)
	m.keep(some, old)
	m.told -= old - best
}

// cholesky extends the factor to n points. It reuses rows that factor had before it was
// shortened.
func (m *surrogate) cholesky(factor [][]float64, n int) [][]float64 {
	for i := len(factor); i < n; i++ {
		if i < cap(factor) {
			factor = factor[:i+1]
		} else {
			factor = append(factor, nil)
		}
		if factor[i] == nil {
			factor[i] = make([]float64, i+1)
		}
		row := factor[i]
		m.covariances(row[:i], func(s *similarity) int32 { return s.alleles[i] })
		for j := range row[:i] {
			row[j] = (row[j] - floats.Dot(row[:j], factor[j][:j])) / factor[j][j]
		}
		// Without rounding, the rest is at least the noise.
		rest := 1 + surrogateNoise - floats.Dot(row[:i], row[:i])
		row[i] = math.Sqrt(math.Max(rest, surrogateNoise))
	}
	return factor
}

// solve replaces b by the solution of factor x = b, for the elements in [from, to);
// those before are solved already.
func solve(factor [][]float64, b []float64, from, to int) {
	for i := from; i < to; i++ {
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

// targets returns the scores of the points with an outcome, cut and scaled to mean 0 and variance
// 1; nil if they are too few. It sets the mean and the unit.
func (m *surrogate) targets() []float64 {
	var finite []float64
	for _, score := range m.scores[:m.told] {
		if !math.IsInf(score, 1) {
			finite = append(finite, score)
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
	for i, score := range m.scores[:m.told] {
		y[i] = math.Min(score, cut)
	}
	n := float64(len(y))
	m.mean, m.unit = floats.Sum(y)/n, 0
	floats.AddConst(-floats.Sum(y)/n, y)
	if norm := floats.Norm(y, 2); norm > 0 {
		floats.Scale(math.Sqrt(n)/norm, y)
		m.unit = norm / math.Sqrt(n)
	}
	return y
}

// likelihood is the logarithm of the probability density of the targets, at the best
// variance of the process, and of the decays' prior; constants are left
// out.
func (m *surrogate) likelihood(factor [][]float64, y []float64) float64 {
	v := slices.Clone(y)
	solve(factor, v, 0, len(v))
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

// adapt tries a larger and a smaller decay for one gene, the genes in turn, and
// keeps what makes the outcomes most likely.
func (m *surrogate) adapt(y []float64) {
	s := &m.genes[m.turn%len(m.genes)]
	m.turn++
	was := s.decay
	decay, most := was, m.likelihood(m.factor, y)
	for i, d := range []float64{was / decayStep, was * decayStep} {
		s.set(d)
		m.spare[i] = m.cholesky(m.spare[i][:0], m.told)
		if l := m.likelihood(m.spare[i], y); l > most {
			decay, most = d, l
			m.factor, m.spare[i] = m.spare[i], m.factor
		}
	}
	s.set(decay)
}

// fit brings the factor and the weights up to date.
func (m *surrogate) fit() {
	if m.stale {
		m.stale, m.weights, m.scale, m.best = false, nil, 1, 0
		if y := m.targets(); y != nil {
			m.factor = m.cholesky(m.factor, m.told)
			if m.parts.learned && len(m.genes) > 0 && m.told >= enoughPoints && (m.told < cheapPoints || m.told%adaptEvery == 0) {
				m.adapt(y)
			}
			m.best = floats.Min(y)
			solve(m.factor, y, 0, len(y))
			m.scale = floats.Dot(y, y) / float64(len(y))
			solveTransposed(m.factor, y)
			m.weights = y
		}
	}
	m.factor = m.cholesky(m.factor, len(m.scores))
}

// expected is the expected score of a proposal in flight, counted from the first in
// flight.
func (m *surrogate) expected(inFlight int) float64 {
	m.fit()
	point := m.told + inFlight
	m.row = slices.Grow(m.row[:0], m.told)[:m.told]
	m.covariances(m.row, func(s *similarity) int32 { return s.alleles[point] })
	return m.mean + m.unit*floats.Dot(m.weights, m.row)
}

// promise is the logarithm of the expected improvement of a genome over the best score,
// in units of the scores' deviation. While too little is known, all genomes have the
// same expectation, and the least certain promises most. If it is certainly less than
// enough, it may be any number less than enough.
func (m *surrogate) promise(g genome.Genome, enough float64) float64 {
	m.fit()
	m.row = slices.Grow(m.row[:0], len(m.scores))[:len(m.scores)]
	indices := m.space.Indices(g)
	m.covariances(m.row, func(s *similarity) int32 { return s.allele(indices) })
	better := m.best - floats.Dot(m.weights, m.row[:len(m.weights)])
	promised := func(known []float64) float64 {
		rest := math.Max(1-floats.Dot(known, known), 1e-12)
		return logImprovement(better, math.Sqrt(rest*m.scale))
	}
	// The more points are taken into account, the less uncertain the genome is,
	// and the less it promises.
	for n := 0; n < len(m.row); n += promiseStep {
		if p := promised(m.row[:n]); p < enough-promiseSlack*(1+math.Abs(enough)) {
			return p
		}
		solve(m.factor, m.row, n, min(n+promiseStep, len(m.row)))
	}
	return promised(m.row)
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
