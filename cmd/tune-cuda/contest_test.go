package main

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A field is simulated ways: what they take, with noise, and what is wrong with
// some. Its clock runs while they do.
type field struct {
	ns       []float64
	noise    float64
	broken   []int // cannot be run
	wrong    []int
	failing  []int         // cannot be run when they are compared
	tiring   map[int]int   // can be run so often
	idle     time.Duration // until then all take twice as long
	jolted   []int         // whose first reading takes three times as long
	clock    time.Duration
	rng      *rand.Rand
	readings []int
}

func (f *field) contest(budget time.Duration) contest {
	f.rng = rand.New(rand.NewPCG(1, 2))
	f.readings = make([]int, len(f.ns))
	return contest{
		ways: len(f.ns),
		reading: func(way int) (float64, bool, error) {
			if slices.Contains(f.broken, way) {
				return 0, false, nil
			}
			if n, tires := f.tiring[way]; tires && f.readings[way] == n {
				return 0, false, nil
			}
			f.readings[way]++
			ns := f.ns[way] * (1 + f.noise*f.rng.NormFloat64())
			if f.clock < f.idle {
				ns *= 2
			}
			if f.readings[way] == 1 && slices.Contains(f.jolted, way) {
				ns *= 3
			}
			f.clock += max(time.Duration(ns), 300*time.Microsecond) // short ones are repeated
			return ns, true, nil
		},
		right: func(way int) (bool, bool, error) {
			return !slices.Contains(f.wrong, way), !slices.Contains(f.failing, way), nil
		},
		spent:  func() time.Duration { return f.clock },
		budget: budget,
	}
}

func TestContest(t *testing.T) {
	many := make([]float64, 64)
	for i := range many {
		many[i] = 180e3 * (1 + float64(i)/100)
	}
	many[40] = 170e3
	early := slices.Clone(many)
	early[40], early[3] = 250e3, 170e3
	for name, c := range map[string]struct {
		field
		best, tried, wrong int
	}{
		"one":                    {field{ns: []float64{5e3}}, 0, 1, 0},
		"the first is best":      {field{ns: []float64{5e3, 6e3, 7e3}, noise: 0.005}, 0, 3, 0},
		"one percent":            {field{ns: []float64{181.8e3, 180e3, 250e3}, noise: 0.005}, 1, 3, 0},
		"far down the list":      {field{ns: many, noise: 0.01}, 40, 64, 0},
		"the best is wrong":      {field{ns: []float64{9e3, 1e3, 8e3}, noise: 0.002, wrong: []int{1}}, 2, 3, 1},
		"all others are wrong":   {field{ns: []float64{9e3, 1e3, 2e3, 3e3, 4e3}, wrong: []int{1, 2, 3, 4}}, 0, 5, 4},
		"some cannot be run":     {field{ns: []float64{9e3, 1e3, 8e3}, broken: []int{1}}, 2, 2, 0},
		"one cannot be compared": {field{ns: []float64{9e3, 1e3, 8e3}, failing: []int{1}}, 2, 2, 0},
		"some tire":              {field{ns: []float64{9e3, 1e3, 2e3, 3e3, 8e3}, tiring: map[int]int{1: 1, 2: 3, 3: 8}}, 4, 2, 0},
		"after idling":           {field{ns: early, noise: 0.01, idle: 5 * time.Millisecond}, 3, 64, 0},
		"a jolt":                 {field{ns: early, noise: 0.01, jolted: []int{3}}, 3, 64, 0},
		"slow ones do not wait":  {field{ns: []float64{10e3, 1e6, 9e3, 5e6}, noise: 0.01}, 2, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := c.contest(2 * time.Second).run()
			if err != nil || r.best != c.best || r.tried != c.tried || r.wrong != c.wrong {
				t.Fatalf("%+v, %v", r, err)
			}
			if d := r.ns/c.ns[c.best] - 1; d > 0.01 || d < -0.01 {
				t.Errorf("its time is %g, want about %g", r.ns, c.ns[c.best])
			}
			if d := r.first/c.ns[0] - 1; d > 0.01 || d < -0.01 {
				t.Errorf("the first's time is %g, want about %g", r.first, c.ns[0])
			}
			if c.clock > 2*time.Second {
				t.Errorf("it took %v", c.clock)
			}
		})
	}
}

// What takes long is bounded, and still decided by several readings.
func TestContestIsBounded(t *testing.T) {
	ns := make([]float64, 64)
	for i := range ns {
		ns[i] = 50e6 - float64(i)*0.5e6
	}
	f := &field{ns: ns}
	r, err := f.contest(2 * time.Second).run()
	if err != nil || r.tried < 10 || r.tried > 30 || r.best != r.tried-1 {
		t.Errorf("%+v, %v", r, err)
	}
	if f.clock > 3*time.Second {
		t.Errorf("it took %v", f.clock)
	}
	f = &field{ns: []float64{2e9, 1e9, 3e9}}
	if r, err = f.contest(2 * time.Second).run(); err != nil || r.best != 1 || r.tried != 2 || f.readings[2] != 0 {
		t.Errorf("long launches: %+v, %v, readings %v", r, err, f.readings)
	}
}

func TestContestFails(t *testing.T) {
	lost := errors.New("lost")
	f := &field{ns: []float64{1, 2, 3}}
	c := f.contest(time.Second)
	c.right = func(int) (bool, bool, error) { return false, true, lost }
	c.reading = func(way int) (float64, bool, error) { return float64(9 - way), true, nil }
	if _, err := c.run(); !errors.Is(err, lost) {
		t.Errorf("a comparison that failed: %v", err)
	}
	c.reading = func(int) (float64, bool, error) { return 0, true, lost }
	if _, err := c.run(); !errors.Is(err, lost) {
		t.Errorf("a reading that failed: %v", err)
	}
	c.reading = func(int) (float64, bool, error) { return 0, false, nil }
	if r, err := c.run(); !errors.Is(err, errFirst) {
		t.Errorf("nothing can be run: %+v, %v", r, err)
	}
	c = (&field{ns: []float64{1, 2, 3}, broken: []int{0}}).contest(time.Second)
	if r, err := c.run(); !errors.Is(err, errFirst) {
		t.Errorf("all but the first can be run: %+v, %v", r, err)
	}
	whole := &field{ns: []float64{50e6, 2e6, 3e6}}
	if _, err := whole.contest(time.Second).run(); err != nil || whole.readings[0] < 5 {
		t.Fatalf("%v, readings %v", err, whole.readings)
	}
	for n := range whole.readings[0] {
		f := &field{ns: whole.ns, tiring: map[int]int{0: n}}
		if r, err := f.contest(time.Second).run(); !errors.Is(err, errFirst) {
			t.Errorf("the first can be run %d times: %+v, %v", n, r, err)
		}
	}
}

func TestSaid(t *testing.T) {
	for _, c := range []struct {
		r                standing
		proposed, passed int
		cold             bool
		want             string
	}{
		{
			standing{best: 3, ns: 179.24e3, first: 188.02e3, tried: 17},
			17, 0, false,
			"cublasLt 12.9.1, best of 17 algorithms: algorithm 66, tile 20, 179.2 us with a warm cache; the first that the library proposes takes 188 us",
		},
		{
			standing{ns: 5.5e3, first: 5.5e3, tried: 4, wrong: 1},
			9, 0, true,
			"cublasLt 12.9.1, best of 4 algorithms (of 9 proposed), without 1 that gave other results: algorithm 66, tile 20, 5.5 us with a cold cache; the first that the library proposes takes 5.5 us",
		},
		{
			standing{best: 1, ns: 5e3, first: 6e3, tried: 7},
			9, 2, false,
			"cublasLt 12.9.1, best of 7 algorithms (of 9 proposed): algorithm 66, tile 20, 5 us with a warm cache; the first of them that can be run takes 6 us",
		},
	} {
		if got := saidOf("cublasLt 12.9.1", "algorithms", c.r, c.proposed, c.passed, c.cold, "algorithm 66, tile 20"); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
