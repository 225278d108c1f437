// Package importance says which genes of a space affect the time of a kernel, and
// how, from existing evaluations.
//
// # Model
//
// A random forest of regression trees is fitted to the logarithm of the times of
// the correct evaluations, and its function is decomposed by functional
// analysis of variance (F. Hutter, H. Hoos, K. Leyton-Brown: An Efficient Approach
// for Assessing Hyperparameter Importance, ICML 2014): a part for each gene alone,
// a part for each pair beyond what the two do alone, and the rest. For trees these
// parts are sums over leaves, and exact. The share of a gene is the variance of
// its part over that of the whole function.
//
// Averages go over the space and not over the evaluations: each gene is drawn by
// itself, with the frequencies that its values have among the valid genomes. A
// gene that does not exist in all genomes is drawn among its values; where it does
// not exist the forest does not depend on it.
//
// # Uncertainty
//
// The evaluations are resampled (bootstrap), and each resample gets a forest of
// its own. Errors are the standard deviations between them. The part of a
// variance that is due to noise of the fit is estimated from the same spread and
// subtracted, so that a gene that does nothing has a share around zero, a
// little below it as often as above.
//
// # Caveats
//
// The evaluations of a search concentrate around its best and are not a random
// sample of the space. The forest is averaged over the space, so concentration by
// itself adds no bias; but where the search has few evaluations the forest guesses,
// and genes that the search always changed together cannot be told apart. Genomes
// that the constraints exclude are part of the averages, since genes are drawn
// independently. See docs/importance.md.
package importance

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"

	"github.com/evotune/evotune/genome"
)

// ErrTooFew says that there are not enough correct evaluations to say anything.
var ErrTooFew = errors.New("too few correct evaluations")

// Least is how many correct evaluations Analyse needs.
const Least = 20

// GoodFit is the out-of-bag R² from which the shares mean something: the forest
// then explains more of the times than it leaves unexplained.
const GoodFit = 0.5

// An Evaluation is one genome and what came of it.
type Evaluation struct {
	Genome genome.Genome
	// Time is in any unit, or relative to a baseline; zero for a candidate that
	// failed.
	Time float64
}

// Options say what is asked. The zero value is a sensible question.
type Options struct {
	// Seed fixes the resamples and the trees.
	Seed int64
	// Best, between 0 and 1, asks what matters among the best share of the
	// evaluations: all slower times count as that of its slowest. Zero and 1 ask
	// about all of them.
	Best float64
}

// An Estimate is a figure and its standard error.
type Estimate struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"`
}

// Clear says whether the figure can be told from zero: whether it is more than
// two standard errors above it.
func (e Estimate) Clear() bool { return e.Value > 2*e.Error && e.Value > 0 }

// An Analysis says which genes matter.
type Analysis struct {
	// Evaluations counts all, Correct those with a time.
	Evaluations int `json:"evaluations"`
	Correct     int `json:"correct"`
	// R2 is how much of the variance of the logarithm of the times the forest
	// explains for evaluations that it was not fitted to (out of bag): 1 is all of
	// it, 0 and less is nothing.
	R2 float64 `json:"r2"`
	// Spread is the standard deviation of the logarithm of the times over the
	// space, predicted by the forest: the 100% of the shares.
	Spread float64 `json:"spread"`
	// Genes and Pairs have the largest share first.
	Genes []Gene `json:"genes"`
	Pairs []Pair `json:"pairs"`
	// Rest is the share of what is neither owed to one gene nor to a pair:
	// interactions of three and more, and the noise of the fit.
	Rest float64 `json:"rest"`
}

// A Gene says how much one gene matters by itself.
type Gene struct {
	Name  string   `json:"gene"`
	Share Estimate `json:"share"`
	// Clear says whether the share can be told from zero.
	Clear bool `json:"clear"`
	// Values are in the order of the space.
	Values []Effect `json:"values"`
	// Best and Worst are positions in Values of the smallest and the largest
	// Ratio among the values with correct evaluations.
	Best  int `json:"best"`
	Worst int `json:"worst"`
}

// An Effect is what one value of a gene does.
type Effect struct {
	// Value is the canonical form; "a to b" where many values are taken together.
	Value string `json:"value"`
	// Ratio is the geometric mean of the time with this value, over that of the
	// whole space.
	Ratio Estimate `json:"ratio"`
	// Correct and Failed count evaluations.
	Correct int `json:"correct"`
	Failed  int `json:"failed"`
}

// Failing is the share of evaluations with this value that failed, and the bound
// that it exceeds with a probability of 97.5% (E. B. Wilson 1927).
func (e Effect) Failing() (share, atLeast float64) {
	n := float64(e.Correct + e.Failed)
	if n == 0 {
		return 0, 0
	}
	const z = 1.96
	p := float64(e.Failed) / n
	centre, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return p, max(0, (centre-half)/(1+z*z/n))
}

// A Pair says how much two genes matter together, beyond what each does alone.
type Pair struct {
	Genes [2]string `json:"genes"`
	Share Estimate  `json:"share"`
	Clear bool      `json:"clear"`
}

// The size of the forest. Errors are standard deviations between resamples, so
// that these must be some dozens.
const (
	resamples = 32
	trees     = 8    // for each resample
	points    = 4096 // at which the variance of the whole function is taken
	draws     = 4096 // of valid genomes, to see how frequent values are
)

// Analyse says which genes matter to the times of the evaluations, whose genomes
// are of the space. The error is ErrTooFew with fewer than Least correct
// evaluations.
func Analyse(space *genome.Space, evaluations []Evaluation, o Options) (*Analysis, error) {
	d := newData(space, evaluations, o)
	if len(d.y) < Least {
		return nil, fmt.Errorf("%w: %d of %d, and %d are needed", ErrTooFew, len(d.y), len(evaluations), Least)
	}
	a := &Analysis{Evaluations: len(evaluations), Correct: len(d.y)}
	whole := newParts(d)
	var bag outOfBag
	for i := range resamples {
		// A generator for each, so that one resample never depends on another.
		r := d.resample(rand.New(rand.NewSource(o.Seed + int64(i)*1_000_003)))
		bag.add(d, r)
		whole.add(d, r)
	}
	a.R2 = bag.r2(d)
	a.Spread = math.Sqrt(whole.variance())
	rest := 1.0
	for j := range d.genes {
		g := Gene{Name: d.genes[j].name, Share: whole.share(whole.mains[j])}
		g.Clear = g.Share.Clear()
		g.Values, g.Best, g.Worst = whole.effects(d, j)
		rest -= g.Share.Value
		a.Genes = append(a.Genes, g)
	}
	for i, jk := range d.pairs() {
		p := Pair{Genes: [2]string{d.genes[jk[0]].name, d.genes[jk[1]].name}, Share: whole.share(whole.pairs[i])}
		p.Clear = p.Share.Clear()
		rest -= p.Share.Value
		a.Pairs = append(a.Pairs, p)
	}
	a.Rest = rest
	slices.SortStableFunc(a.Genes, func(x, y Gene) int { return x.Share.descending(y.Share) })
	slices.SortStableFunc(a.Pairs, func(x, y Pair) int { return x.Share.descending(y.Share) })
	return a, nil
}

func (e Estimate) descending(other Estimate) int {
	switch {
	case e.Value > other.Value:
		return -1
	case e.Value < other.Value:
		return 1
	}
	return 0
}
