package search

import (
	"math"
	"math/rand"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/evotune/evotune/genome"
)

func told(t *testing.T, m *surrogate, outcomes map[string]float64, order ...string) {
	t.Helper()
	for _, encoding := range order {
		m.add(at(t, m.space, encoding))
		m.tell(outcomes[encoding])
	}
}

// The surrogate expects more near the good than near the bad, takes failures
// for bad, and while it knows too little it promises most of what it is least
// certain of.
func TestSurrogate(t *testing.T) {
	space := grid(t)
	m := newSurrogate(space, standard.model)
	if p, q := m.promise(at(t, space, "x=0,y=0,order=a"), math.Inf(-1)), m.promise(at(t, space, "x=9,y=9,order=b"), math.Inf(-1)); p != q {
		t.Errorf("%g and %g are promised out of nothing", p, q)
	}
	told(t, m, map[string]float64{"x=5,y=5,order=a": math.Inf(1)}, "x=5,y=5,order=a")
	if near, far := m.promise(at(t, space, "x=5,y=6,order=a"), math.Inf(-1)), m.promise(at(t, space, "x=0,y=0,order=b"), math.Inf(-1)); !(near < far) {
		t.Errorf("%g is promised beside the only genome that is known, a failure, and %g far from it", near, far)
	}
	told(t, m, map[string]float64{
		"x=1,y=1,order=a": -1, "x=1,y=2,order=a": -0.9, "x=2,y=2,order=a": -0.8, "x=0,y=5,order=a": 0,
		"x=9,y=9,order=c,extra=3": 2, "x=9,y=2,order=b": 1, "x=8,y=2,order=b": 3, "x=9,y=3,order=a": math.Inf(1),
	}, "x=1,y=1,order=a", "x=1,y=2,order=a", "x=2,y=2,order=a", "x=0,y=5,order=a", "x=9,y=9,order=c,extra=3", "x=9,y=2,order=b", "x=8,y=2,order=b", "x=9,y=3,order=a")
	near := m.promise(at(t, space, "x=2,y=1,order=a"), math.Inf(-1))
	for _, far := range []string{"x=9,y=8,order=c,extra=3", "x=9,y=9,order=c,extra=9", "x=9,y=1,order=b", "x=9,y=4,order=a", "x=6,y=5,order=a"} {
		if p := m.promise(at(t, space, far), math.Inf(-1)); !(near > p) || math.IsNaN(p) {
			t.Errorf("%.3f is promised near the best, %.3f at %s", near, p, far)
		}
	}
	// A proposal in flight makes its surroundings promise less, and what lies
	// far away hardly.
	beside := m.promise(at(t, space, "x=3,y=1,order=a"), math.Inf(-1))
	elsewhere := m.promise(at(t, space, "x=2,y=9,order=c,extra=5"), math.Inf(-1))
	m.add(at(t, space, "x=2,y=1,order=a"))
	if p := m.promise(at(t, space, "x=3,y=1,order=a"), math.Inf(-1)); !(p < beside-0.1) {
		t.Errorf("%.3f beside a proposal in flight, %.3f before it", p, beside)
	}
	if p := m.promise(at(t, space, "x=2,y=9,order=c,extra=5"), math.Inf(-1)); math.Abs(p-elsewhere) > 0.1 {
		t.Errorf("%.3f far from a proposal in flight, %.3f before it", p, elsewhere)
	}
}

// covariance of two points: a product over the genes of a factor that depends on the
// distance of their values, and is the smallest where one of them has none.
func covariance(m *surrogate, a, b int) float64 {
	c := 1.0
	for _, s := range m.genes {
		x, y, none, last := s.alleles[a], s.alleles[b], int32(2*s.values), float64(max(1, s.values-1))
		distance := 1.0
		switch d := math.Abs(float64(x - y)); {
		case x == y:
			continue
		case x != none && y != none && s.ordinal && d < last:
			distance = firstStep + (1-firstStep)*(d-1)/(last-1)
		}
		c *= s.shared + (1-s.shared)*math.Exp(-s.decay*distance)
	}
	return c
}

// The factor is that of the covariance of all points, those in flight included,
// however it came to be, and the process meets the outcomes within the noise.
func TestFit(t *testing.T) {
	space := grid(t)
	m := newSurrogate(space, standard.model)
	rng := rand.New(rand.NewSource(3))
	seen := map[genome.Genome]bool{}
	inFlight := 0
	for i := 0; i < 400; i++ {
		g := space.Random(rng)
		if seen[g] {
			continue
		}
		seen[g] = true
		m.add(g)
		if inFlight++; inFlight > 9 {
			inFlight--
			score := math.Sin(float64(i))
			switch {
			case i == 21:
				score = -5 // the best of all, early
			case i%5 == 0:
				score = math.Inf(1)
			}
			m.tell(score)
		}
		if p := m.promise(g, math.Inf(-1)); math.IsNaN(p) {
			t.Fatalf("after %d points the promise is not a number", i+1)
		}
		if m.told >= m.parts.memory+surrogateSlack || len(m.scores) != m.told+inFlight || len(m.factor) != len(m.scores) {
			t.Fatalf("after %d: %d points, %d of them told, %d rows", i+1, len(m.scores), m.told, len(m.factor))
		}
		if i%40 != 39 {
			continue
		}
		for a := range m.scores {
			for b := range a + 1 {
				want := covariance(m, a, b)
				if a == b {
					want += surrogateNoise
				}
				if got := floats.Dot(m.factor[a][:b+1], m.factor[b]); math.Abs(got-want) > 1e-9 {
					t.Fatalf("after %d: the covariance of points %d and %d is %g, by the factor %g", i+1, a, b, want, got)
				}
			}
		}
		y := m.targets()
		for a := range m.told {
			mean := 0.0
			for b, w := range m.weights {
				mean += w * covariance(m, a, b)
			}
			if math.Abs(mean+surrogateNoise*m.weights[a]-y[a]) > 1e-9 {
				t.Fatalf("after %d: point %d is %g, the process expects %g", i+1, a, y[a], mean)
			}
		}
	}
	least := math.Inf(1)
	for _, score := range m.scores[:m.told] {
		least = math.Min(least, score)
	}
	if least != -5 {
		t.Errorf("the best of all was forgotten: %g is left", least)
	}
}

// What promises enough is weighed exactly, and what does not is known not to.
func TestPromisesEnough(t *testing.T) {
	space := grid(t)
	m := newSurrogate(space, standard.model)
	rng := rand.New(rand.NewSource(5))
	short := 0
	for i := range 200 {
		g := space.Random(rng)
		m.add(g)
		m.tell(math.Sin(float64(i)))
		most := math.Inf(-1)
		for range 10 {
			g := space.Random(rng)
			exact := m.promise(g, math.Inf(-1))
			switch p := m.promise(g, most); {
			case exact >= most && p != exact:
				t.Fatalf("after %d: %g is promised, with %g to be enough %g", i+1, exact, most, p)
			case exact < most && p >= most:
				t.Fatalf("after %d: %g is promised, and %g, which %g is enough for", i+1, exact, p, most)
			case p != exact:
				short++
			}
			most = math.Max(most, exact)
		}
	}
	if short == 0 {
		t.Error("all were weighed to the end")
	}
}

// A gene that does not matter comes to count for less than those that do.
func TestDecays(t *testing.T) {
	space := grid(t)
	m := newSurrogate(space, standard.model)
	rng := rand.New(rand.NewSource(4))
	for range 100 {
		g := space.Random(rng)
		x, _ := g.Get("x")
		v, _ := x.Number()
		m.add(g)
		m.tell(math.Abs(v - 4))
		m.promise(g, math.Inf(-1))
	}
	if x, y := m.genes[0].decay, m.genes[1].decay; x < 4*y {
		t.Errorf("the decay is %.3f for the gene that matters, %.3f for one that does not", x, y)
	}
}

// Where nothing differs nothing is promised, and the search goes on.
func TestPlateau(t *testing.T) {
	l, err := newLedger("evolution", grid(t), Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := standard.assemble(l)
	for i := range 300 {
		p, ok := e.Ask()
		if !ok {
			t.Fatal("exhausted")
		}
		if promise := e.model.promise(p.Genome, math.Inf(-1)); math.IsNaN(promise) || promise > 0 {
			t.Fatalf("proposal %d promises %g", i, promise)
		}
		e.Tell(i, Outcome{OK: true, Fitness: 1})
	}
	for _, g := range e.model.genes {
		if g.decay != standard.model.decay {
			t.Errorf("a decay of %g was learned from nothing", g.decay)
		}
	}
}

func TestLogImprovement(t *testing.T) {
	for _, mean := range []float64{-30, -12.01, -11.99, -3, 0, 1, 20} {
		const deviation = 2.0
		// By the rectangle rule over where the density counts.
		sum := 0.0
		const step = 1e-4
		for x := step / 2; x < 60; x += step {
			z := (x - mean) / deviation
			sum += x * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) / deviation * step
		}
		if got, want := logImprovement(mean, deviation), math.Log(sum); math.Abs(got-want) > 0.1 {
			t.Errorf("mean %g: %g, by integration %g", mean, got, want)
		}
	}
	// Where the density itself is no longer a number of float64.
	if a, b := logImprovement(-100, 2), logImprovement(-200, 2); math.IsInf(a, 0) || !(b < a) || math.IsInf(b, 0) {
		t.Errorf("50 deviations away %g, 100 away %g", a, b)
	}
	if a, b := logImprovement(1, 0), logImprovement(-1, 0); a != 0 || !math.IsInf(b, -1) {
		t.Errorf("without uncertainty %g and %g", a, b)
	}
}
