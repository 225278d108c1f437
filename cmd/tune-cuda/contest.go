package main

import (
	"cmp"
	"slices"
	"time"
)

// A contest finds the fastest of several ways to compute one thing. The first of
// them can be run and is right.
type contest struct {
	ways int
	// reading times a way once: nanoseconds, or false where it cannot be run.
	reading func(way int) (ns float64, able bool, err error)
	// right says whether a way gives what the first gives.
	right func(way int) (bool, error)
	// spent is the time since the contest began, and budget what it may take: long
	// launches take longer only by the fewest readings that can decide.
	spent  func() time.Duration
	budget time.Duration
}

// A standing is the outcome of a contest. Both times are medians of its last rounds,
// in nanoseconds.
type standing struct {
	best         int
	ns, first    float64
	tried, wrong int
}

const (
	// Ways that are slower than the fastest by more than this drop out: after their
	// first reading, and after each of the rounds that narrow the field.
	slowerAtOnce, slowerInRounds = 1.3, 1.08
	narrowing                    = 5
	// The fastest that are right meet once more, with the first, in so many rounds.
	finalists, deciding, leastDeciding = 3, 11, 3
)

func (c contest) run() (standing, error) {
	var r standing
	samples := make([][]float64, c.ways)
	take := func(way int) error {
		ns, able, err := c.reading(way)
		if able && err == nil {
			samples[way] = append(samples[way], ns)
		}
		return err
	}
	faster := func(a, b int) int { return cmp.Or(cmp.Compare(median(samples[a]), median(samples[b])), a-b) }

	var all []int
	for way := range c.ways {
		if len(all) > 1 && c.spent() > c.budget/2 {
			break
		}
		if err := take(way); err != nil {
			return r, err
		}
		if len(samples[way]) > 0 {
			all = append(all, way)
		}
	}
	if r.tried = len(all); r.tried == 0 {
		return r, nil
	}
	narrow := func(list []int, by float64) []int {
		least := median(samples[slices.MinFunc(list, faster)])
		return slices.DeleteFunc(list, func(way int) bool { return median(samples[way]) > by*least })
	}
	left := narrow(slices.Clone(all), slowerAtOnce)
	for round := 0; round < narrowing && len(left) > 1 && c.spent() < c.budget*3/4; round++ {
		for _, k := range order(uint64(c.ways), round, len(left)) {
			if err := take(left[k]); err != nil {
				return r, err
			}
		}
		left = narrow(left, slowerInRounds)
	}

	// Those that dropped out take the places of those that are wrong.
	slices.SortFunc(left, faster)
	slices.SortFunc(all, faster)
	seen, last := map[int]bool{}, []int(nil)
	for _, way := range slices.Concat(left, all) {
		if seen[way] || len(last) == finalists {
			continue
		}
		seen[way] = true
		right := way == 0
		if !right {
			var err error
			if right, err = c.right(way); err != nil {
				return r, err
			}
		}
		if right {
			last = append(last, way)
		} else {
			r.wrong++
		}
	}
	if !slices.Contains(last, 0) {
		last = append(last, 0)
	}
	for _, way := range last {
		samples[way] = nil
	}
	for round := range deciding {
		if round >= leastDeciding && c.spent() > c.budget {
			break
		}
		for _, k := range order(uint64(c.ways), narrowing+round, len(last)) {
			if err := take(last[k]); err != nil {
				return r, err
			}
		}
	}
	r.best = slices.MinFunc(last, faster)
	r.ns, r.first = median(samples[r.best]), median(samples[0])
	return r, nil
}

// median of a list that is not empty.
func median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
