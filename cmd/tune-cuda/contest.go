package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A contest finds the fastest of several ways to compute one thing. The first of
// them can be run and is right.
type contest struct {
	ways int
	// reading times a way once: nanoseconds, or false where it cannot be run.
	reading func(way int) (ns float64, able bool, err error)
	// right says whether a way gives what the first gives, and able whether it could be run.
	right func(way int) (right, able bool, err error)
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
	// Before anything counts, the first way runs for this part of the budget, once at least
	// and so often at most: a device that was idle is slow at first.
	warming, mostWarming = 1.0 / 20, 500
	// All that take part are read twice, which may take so much of the budget, and then
	// narrowed down until so much of it is spent.
	entering, narrowed = 3.0 / 5, 3.0 / 4
	// Ways that are slower than the fastest by more than this drop out: after two
	// readings, by the lesser of them, and after each of the rounds that narrow the field.
	slowerAtOnce, slowerInRounds = 1.3, 1.08
	narrowing                    = 5
	// The fastest that are right meet once more, with the first, in so many rounds.
	finalists, deciding, leastDeciding = 3, 11, 3
)

// errFirst is that the way that all are held against fails.
var errFirst = errors.New("the first way cannot be run any more")

func (c contest) run() (standing, error) {
	var r standing
	samples := make([][]float64, c.ways)
	unable := make([]bool, c.ways)
	rounds := 0
	// round reads ways once each, in random order, but for those that it is to skip.
	round := func(list []int, skip func(way int) bool) error {
		defer func() { rounds++ }()
		for _, k := range order(uint64(c.ways), rounds, len(list)) {
			way := list[k]
			if unable[way] || skip(way) {
				continue
			}
			ns, able, err := c.reading(way)
			switch {
			case err != nil:
				return err
			case able:
				samples[way] = append(samples[way], ns)
			case way == 0:
				return errFirst
			default:
				unable[way] = true
			}
		}
		return nil
	}
	past := func(part float64) bool { return float64(c.spent()) > part*float64(c.budget) }
	none := func(int) bool { return false }
	able := func(list []int) []int {
		return slices.DeleteFunc(list, func(way int) bool { return unable[way] || len(samples[way]) == 0 })
	}
	narrow := func(list []int, by float64, of func([]float64) float64) []int {
		if len(list) == 0 {
			return nil
		}
		least := of(samples[slices.MinFunc(list, func(a, b int) int { return cmp.Compare(of(samples[a]), of(samples[b])) })])
		return slices.DeleteFunc(list, func(way int) bool { return of(samples[way]) > by*least })
	}

	begin, warm := c.spent(), 0
	for ; warm == 0 || warm < mostWarming && !past(warming); warm++ {
		if err := round([]int{0}, none); err != nil {
			return r, err
		}
	}
	took := float64(c.spent()-begin) / float64(warm)
	samples[0] = nil
	// The library's order is the best guess at those for which there is no time.
	all := make([]int, c.ways)
	for way := range all {
		all[way] = way
	}
	if room := (entering*float64(c.budget) - float64(c.spent())) / (2 * max(took, 1)); room < float64(c.ways) {
		all = all[:min(max(2, int(room)), c.ways)]
	}
	// Where others take longer than the first some are not read: never the first, nor all
	// others. Those that are read are read once more before anyone drops out.
	if err := round(all, func(way int) bool {
		others := slices.ContainsFunc(all, func(way int) bool { return way != 0 && len(samples[way]) > 0 })
		return way != 0 && others && past(2*entering/3)
	}); err != nil {
		return r, err
	}
	all = able(all)
	if err := round(all, none); err != nil {
		return r, err
	}
	all = able(all)
	left := narrow(slices.Clone(all), slowerAtOnce, slices.Min[[]float64])
	for n := 0; n < narrowing && len(left) > 1 && !past(narrowed); n++ {
		if err := round(left, none); err != nil {
			return r, err
		}
		left = narrow(able(left), slowerInRounds, median)
	}

	last, err := c.finalists(&r, samples, unable, left, all)
	if err != nil {
		return r, err
	}
	for _, way := range last {
		samples[way] = nil
	}
	for n := range deciding {
		if n >= leastDeciding && past(1) {
			break
		}
		if err := round(last, none); err != nil {
			return r, err
		}
	}
	r.tried = len(able(slices.Clone(all)))
	last = able(last)
	r.best = slices.MinFunc(last, byMedian(samples))
	r.ns, r.first = median(samples[r.best]), median(samples[0])
	return r, nil
}

// finalists are the fastest that are right, and the first. Those that dropped out take the
// places of those that are wrong or cannot be run.
func (c contest) finalists(r *standing, samples [][]float64, unable []bool, left, all []int) ([]int, error) {
	slices.SortFunc(left, byMedian(samples))
	all = slices.Clone(all)
	slices.SortFunc(all, byMedian(samples))
	seen, last := map[int]bool{}, []int(nil)
	for _, way := range slices.Concat(left, all) {
		if seen[way] || unable[way] || len(last) == finalists {
			continue
		}
		seen[way] = true
		right, able := true, true
		if way != 0 {
			var err error
			if right, able, err = c.right(way); err != nil {
				return nil, err
			}
		}
		switch {
		case !able:
			unable[way] = true
		case right:
			last = append(last, way)
		default:
			r.wrong++
		}
	}
	if !slices.Contains(last, 0) {
		last = append(last, 0)
	}
	return last, nil
}

// byMedian orders ways by their times and, where these are equal, by their order.
func byMedian(samples [][]float64) func(a, b int) int {
	return func(a, b int) int { return cmp.Or(cmp.Compare(median(samples[a]), median(samples[b])), a-b) }
}

// median of a list that is not empty.
func median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// saidOf tells of a search among what a library proposes, such as algorithms, of which as many at the
// front cannot be run, and of the one that was found.
func saidOf(library, what string, r standing, proposed, passed int, cold bool, best string) string {
	text := fmt.Sprintf("%s, best of %d %s", library, r.tried, what)
	if r.tried < proposed {
		text += fmt.Sprintf(" (of %d proposed)", proposed)
	}
	if r.wrong > 0 {
		text += fmt.Sprintf(", without %d that gave other results", r.wrong)
	}
	cache := "warm"
	if cold {
		cache = "cold"
	}
	first := "the first that the library proposes"
	if passed > 0 {
		first = "the first of them that can be run"
	}
	return fmt.Sprintf("%s: %s, %.4g us with a %s cache; %s takes %.4g us", text, best, r.ns/1e3, cache, first, r.first/1e3)
}
