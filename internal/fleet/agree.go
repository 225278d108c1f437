package fleet

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/record"
)

// Whether hosts agree: 1% of the correct candidates are evaluated on a second host, and every host
// measures one of them, the reference candidate, now and then. Fitness is a ratio to the baseline on
// the same device, so two hosts should find the same up to noise. How large the noise is follows from
// the pairs themselves.

const (
	// mostFailing is how many evaluations in a row a machine may fail.
	mostFailing = 5
	// mostDoubt is how many disagreements in a row name a host as the one that is wrong.
	mostDoubt = 2
	// leastApart is a difference that never counts, as a logarithm; firstApart one that counts as
	// long as there are fewer pairs than fewPairs to tell the noise from.
	leastApart = .03
	firstApart = .15
	fewPairs   = 8
	mostPairs  = 256
)

// limit is how far apart two measurements may be: three standard deviations of the pairs seen so
// far. The caller holds the lock.
func (c *Campaign) limit() float64 {
	if len(c.apart) < fewPairs {
		return firstApart
	}
	sorted := slices.Clone(c.apart)
	slices.Sort(sorted)
	return max(leastApart, 3*1.4826*sorted[len(sorted)/2])
}

// pair remembers by how much two results of one candidate differ, if both are times. The caller holds the lock.
func (c *Campaign) pair(a, b evaluator.Result) {
	if a.Verdict == evaluator.Correct && b.Verdict == evaluator.Correct {
		c.differed(math.Log(b.Fitness / a.Fitness))
	}
}

// differed remembers by how much two measurements of one thing differ. The caller holds the lock.
func (c *Campaign) differed(d float64) {
	if c.apart = append(c.apart, math.Abs(d)); len(c.apart) > mostPairs {
		c.apart = slices.Delete(c.apart, 0, 1)
	}
}

// compare has a correct candidate evaluated elsewhere too, if its turn has come. Which are chosen
// depends on their names alone. The caller holds the lock.
func (c *Campaign) compare(t *item) {
	if c.reference == nil {
		c.reference = t
	}
	f := fnv.New32a()
	f.Write([]byte(t.ID)) //nolint:errcheck // never fails
	if float64(f.Sum32())/(1<<32) < c.hub.o.Again && len(c.hosts) > 1 {
		c.repeat(t, t.result.Result, "~again", t.by.Name)
	}
}

// repeat has a candidate evaluated on a host that is none of these. The caller holds the lock.
func (c *Campaign) repeat(t *item, first *evaluator.Result, suffix string, not ...string) {
	again := &item{
		task:      task{ID: taskID(c.id, t.candidate, suffix), Kind: kindAgain, Index: t.Index, Genomes: t.Genomes, Incumbent: t.Incumbent},
		candidate: t.candidate, by: t.by, avoid: map[string]bool{}, first: first,
	}
	if c.items[again.ID] != nil {
		return
	}
	for _, name := range not {
		again.avoid[name] = true
	}
	c.submit(again)
}

// again compares what a second, or a third, host found of a candidate. The caller holds the lock.
func (c *Campaign) again(t *item, x *host, r evaluator.Result) {
	c.note(t, "", EndAgain, record.Attempt{Host: x.Name, Session: x.session, Verdict: r.Verdict, Fitness: r.Fitness})
	if t.second == nil {
		x.stats.Compared++
		t.by.stats.Compared++
		c.differ(t, t.by, x, *t.first, r)
		return
	}
	// The third host tells which of the two is alone with its finding. What lies between that one and the others is not noise,
	// unless nobody agrees with anybody.
	odd, other, like := t.by, t.secondBy, t.second
	if c.agree(*t.first, r) {
		odd, other, like = other, odd, t.first
	} else if !c.agree(*t.second, r) {
		c.pair(*t.first, *t.second)
		c.pair(*t.first, r)
		c.pair(*t.second, r)
		c.hub.o.Logger.Warn("three hosts disagree on a candidate", "campaign", c.id, "candidate", t.candidate, "hosts", fmt.Sprint(t.by.Name, ", ", t.secondBy.Name, ", ", x.Name))
		return
	}
	c.pair(*like, r)
	c.note(t, "", EndDisagree, record.Attempt{Host: odd.Name, Session: odd.session, Detail: fmt.Sprintf("%s and %s agree, and it does not", other.Name, x.Name)})
	odd.stats.Disagreed++
	other.doubt = 0
	if odd.doubt++; odd.doubt >= mostDoubt {
		c.hub.drain(odd, fmt.Sprintf("it found another result than two other hosts, %d times in a row, the last of candidate %s", odd.doubt, t.candidate)) //nolint:errcheck // it was logged
	}
}

// differ compares what two hosts found of a candidate; a third decides if they disagree. The caller
// holds the lock.
func (c *Campaign) differ(t *item, a, b *host, first, second evaluator.Result) {
	if c.agree(first, second) {
		c.pair(first, second)
		a.doubt, b.doubt = 0, 0
		return
	}
	c.hub.o.Logger.Warn("two hosts disagree on a candidate", "campaign", c.id, "candidate", t.candidate,
		a.Name, fmt.Sprint(first.Verdict, " ", first.Fitness), b.Name, fmt.Sprint(second.Verdict, " ", second.Fitness))
	third := *t
	third.by = a
	c.repeat(&third, &first, "~third", a.Name, b.Name)
	if q := c.items[taskID(c.id, t.candidate, "~third")]; q != nil {
		q.second, q.secondBy = &second, b
	}
}

// agree says whether two results of one candidate are the same up to noise. A benchmark that ended
// early, since the candidate is slower than another, is not a precise time. The caller holds the lock.
func (c *Campaign) agree(a, b evaluator.Result) bool {
	if a.Verdict != b.Verdict {
		// Neither found anything wrong, and whoever calls it slower measured no precise time.
		passed := func(v evaluator.Verdict) bool { return v == evaluator.Correct || v == evaluator.Slower }
		return passed(a.Verdict) && passed(b.Verdict)
	}
	limit := c.limit()
	for _, r := range []evaluator.Result{a, b} {
		for _, t := range r.Timings {
			if t.Stopped == "slower" {
				limit = math.Inf(1)
			}
		}
	}
	return a.Verdict != evaluator.Correct || math.Abs(math.Log(b.Fitness/a.Fitness)) <= limit
}

// check is a measurement of the reference candidate, if it is time for one on this host; nil
// otherwise. The caller holds the lock.
func (c *Campaign) check(x *host) *item {
	if c.reference == nil || time.Since(x.checked) < c.hub.o.Check {
		return nil
	}
	x.checked = time.Now()
	c.checks++ // a name of its own: the worker keeps the last one's result until it is told to forget it
	t := &item{task: task{ID: taskID(c.id, c.reference.candidate, fmt.Sprintf("~check-%d", c.checks)), Kind: kindCheck, Genomes: c.reference.Genomes}, only: x}
	t.of, t.enter = c, make(chan evaluator.Stage, 1)
	c.items[t.ID] = t
	return t
}

// checked takes a measurement of the reference candidate. A host is drained that is beyond the noise
// twice in a row of what it found first or of what most others find: one host is not a measure of
// another, since it may be the one that is wrong. The caller holds the lock.
func (c *Campaign) checked(x *host, r evaluator.Result) {
	if r.Verdict == evaluator.Infrastructure {
		return
	}
	if r.Verdict != evaluator.Correct {
		c.refuted(x, r)
		return
	}
	value := math.Log(r.Fitness)
	own, others := c.readings(x)
	off := 0.
	if len(own) > 0 {
		off = value - median(own)
		c.differed(off)
	}
	if len(others) > 0 { // the nearest one: another may be the one that is wrong
		nearest := slices.MinFunc(others, func(a, b float64) int { return cmp.Compare(math.Abs(value-a), math.Abs(value-b)) })
		c.differed(value - nearest)
	}
	limit, apart := c.limit(), 0
	for _, v := range others {
		if math.Abs(value-v) > limit {
			apart++
		}
	}
	if most := 2*apart > len(others)+1; most && math.Abs(off) <= limit {
		off = value - median(others)
	}
	if math.Abs(off) <= limit {
		x.drifts = 0
		c.standards = append(c.standards, reading{x, value})
		return
	}
	if x.drifts++; x.drifts < 2 {
		x.checked = time.Time{} // once more, at once
		return
	}
	x.drifts = 0
	c.hub.drain(x, fmt.Sprintf("the reference candidate %s takes %.3f of what it should, and %.3f is three standard deviations", c.reference.candidate, math.Exp(off), math.Exp(limit))) //nolint:errcheck // it was logged
}

// refuted takes note that the reference candidate is not correct on a host. It is the host that is
// wrong if another one confirms the first; until then, a third decides, and the campaign takes
// another candidate as its reference. The caller holds the lock.
func (c *Campaign) refuted(x *host, r evaluator.Result) {
	ref := c.reference
	confirmed := ref.by.Name == x.Name || slices.ContainsFunc(c.standards, func(r reading) bool { return r.host.Name != ref.by.Name && r.host.Name != x.Name })
	if confirmed {
		c.hub.drain(x, fmt.Sprintf("the reference candidate %s has the verdict %s here: %s", ref.candidate, r.Verdict, r.Reason)) //nolint:errcheck // it was logged
		return
	}
	c.reference, c.standards = nil, nil
	c.differ(ref, ref.by, x, *ref.result.Result, evaluator.Result{Verdict: r.Verdict, Reason: r.Reason})
}

// readings are what a host found of the reference candidate and the newest of each other host. The
// caller holds the lock.
func (c *Campaign) readings(x *host) (own, others []float64) {
	newest := map[string]float64{}
	for _, r := range c.standards {
		if r.host == x {
			own = append(own, r.value)
		} else if r.host.Name != x.Name {
			newest[r.host.Name] = r.value
		}
	}
	for _, v := range newest {
		others = append(others, v)
	}
	return own, others
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// standard is what a measurement of the reference candidate should give on a host: the median of
// the others' or, without any, of its own. The caller holds the lock.
func (c *Campaign) standard(x *host) (value float64, ok bool) {
	own, others := c.readings(x)
	switch {
	case len(others) > 0:
		return median(others), true
	case len(own) > 0:
		return median(own), true
	}
	return 0, false
}

// drift is how much longer the reference candidate takes on a host than it should, as a ratio; zero
// when it is not known. The caller holds the lock.
func (c *Campaign) drift(x *host) float64 {
	standard, ok := c.standard(x)
	for i := len(c.standards) - 1; ok && i >= 0; i-- {
		if c.standards[i].host == x {
			return math.Exp(c.standards[i].value - standard)
		}
	}
	return 0
}
