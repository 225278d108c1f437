package evaluator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/kernels"
)

// A tally is what is known about one contender's time at one shape: every pair of
// readings, and what else was observed.
type tally struct {
	rules   *backend.Rules
	shape   kernels.Shape
	threads int // of the candidate
	base    int // of the baseline
	// patience multiplies the candidate's usual time limit.
	patience time.Duration
	allowed  *Allowance // the candidate's
	pairs    []pair
	set      int // of processes, in the finals
	sets     int // of inputs
	after    Observation
	latency  []float64
	seen     Conditions
	pools    []string
	making   time.Duration // of contents, beside other work
}

// A pair is a reading of the candidate and the reading of the baseline taken next to it.
type pair struct {
	candidate, baseline Reading
	batch, baseBatch    int
	set                 int // of processes
}

// merge adds the samples of the same contender from other processes.
func (t *tally) merge(u *tally) {
	t.pairs = append(t.pairs, u.pairs...)
	t.sets = max(t.sets, u.sets)
	t.after.merge(u.after)
	t.latency = append(t.latency, u.latency...)
	t.seen.merge(u.seen)
	t.seen.WaitedNS += u.seen.WaitedNS
	t.seen.Preempted += u.seen.Preempted
	t.pools = append(t.pools, u.pools...)
}

// everySet says whether each of the sets of processes has taken pairs.
func (t *tally) everySet(sets int) bool {
	for set := range sets {
		if !slices.ContainsFunc(t.pairs, func(p pair) bool { return p.set == set }) {
			return false
		}
	}
	return true
}

// add adds a session's samples of a contender.
func (t *tally) add(s Series, of Sampled) {
	if of.Pool != "" && !slices.Contains(t.pools, of.Pool) {
		t.pools = append(t.pools, of.Pool)
	}
	for i := range min(len(s.Readings), len(s.Baseline)) {
		t.pairs = append(t.pairs, pair{s.Readings[i], s.Baseline[i], max(s.Batch, 1), max(s.BaselineBatch, 1), t.set})
	}
	t.making += of.Making
	t.sets = max(t.sets, s.Sets)
	t.after.merge(s.After)
	t.latency = append(t.latency, s.LatencyNS...)
	t.seen.merge(of.Conditions)
	for i := range min(len(s.Readings), len(s.Baseline)) {
		for _, r := range []Reading{s.Readings[i], s.Baseline[i]} {
			t.seen.WaitedNS += r.WaitedNS
			t.seen.Preempted += r.Preempted
		}
	}
}

// merge keeps the worst of two observations.
func (o *Observation) merge(p Observation) {
	for _, out := range p.Outputs {
		i := slices.IndexFunc(o.Outputs, func(x Output) bool { return x.Name == out.Name })
		switch {
		case i < 0:
			o.Outputs = append(o.Outputs, out)
		case out.badness() > o.Outputs[i].badness():
			out.Skipped = max(out.Skipped, o.Outputs[i].Skipped)
			o.Outputs[i] = out
		default:
			o.Outputs[i].Skipped = max(out.Skipped, o.Outputs[i].Skipped)
		}
	}
	for _, field := range []struct{ to, from *string }{
		{&o.Guard, &p.Guard}, {&o.InputChanged, &p.InputChanged}, {&o.Different, &p.Different}, {&o.Wrong, &p.Wrong}, {&o.Contents, &p.Contents},
	} {
		if *field.to == "" {
			*field.to = *field.from
		}
	}
	o.Edges = slices.Compact(slices.Sorted(slices.Values(append(o.Edges, p.Edges...))))
	o.Threads = max(o.Threads, p.Threads)
	o.AgainstBaseline = o.AgainstBaseline || p.AgainstBaseline
}

// badness orders observations of one output.
func (o Output) badness() float64 {
	if o.Unwritten > 0 || o.NotFinite > 0 || math.IsNaN(o.Error) {
		return math.Inf(1)
	}
	return o.Error
}

// merge adds later conditions.
func (c *Conditions) merge(d Conditions) {
	c.Cores = max(c.Cores, d.Cores)
	c.Steal, c.Busy, c.Pressure = max(c.Steal, d.Steal), max(c.Busy, d.Busy), max(c.Pressure, d.Pressure)
	c.OthersShare = max(c.OthersShare, d.OthersShare)
	if d.ClockMHz > 0 {
		c.ClockMHz, c.MemoryClockMHz, c.PowerWatts, c.Celsius = d.ClockMHz, d.MemoryClockMHz, d.PowerWatts, d.Celsius
	}
	for _, list := range []struct{ to, from *[]string }{{&c.Throttle, &d.Throttle}, {&c.Others, &d.Others}} {
		for _, x := range *list.from {
			if !slices.Contains(*list.to, x) && len(*list.to) < 8 {
				*list.to = append(*list.to, x)
			}
		}
	}
	if d.Disturbed != "" {
		c.Disturbed = d.Disturbed
	}
}

// exact says whether the operating system's accounting alone determines how long a
// reading took: it is one thread's processor time, which contains everything that the
// thread does. With several declared threads perhaps only one works, and they can
// make each other wait; then evotune's clock counts.
func (r Reading) exact(threads int) bool { return threads <= 1 && r.CPUNS > 0 }

// elsewhere says that the candidate ran on another device than evotune's clock:
// the process that launched it may have waited for a core, but the candidate did not.
func (r Reading) elsewhere() bool { return !(r.CPUNS > 0) }

// passed is how long a batch took, in nanoseconds, by clocks that a candidate
// cannot forge, including the time to start it and to learn of its end. When
// exact, waits for a core are subtracted. They are also subtracted for a device, where
// the wait may overlap with the device's work: the result is then a lower bound.
// Parallel is how many threads can have worked at once.
func (r Reading) passed(parallel int, exact bool) float64 {
	if exact || r.elsewhere() {
		return math.Max(r.WallNS-r.WaitedNS, r.CPUNS)
	}
	return math.Max(r.WallNS, r.CPUNS/float64(parallel))
}

// waited says whether the process of a reading waited for a core within the
// timed region, for more than a share of it. Waits that evotune's clock saw
// before or after the region are subtracted.
func (r Reading) waited(batch, threads int) bool {
	if r.elsewhere() {
		return false
	}
	claimed := r.NS * float64(batch)
	inside := r.WaitedNS - math.Max(0, r.WallNS-claimed)
	return inside > preempted*claimed*float64(max(threads, 1))
}

// A claim says how the time that a reading claims compares with the time that passed.
type claim int

const (
	confirmed claim = iota
	// short: it claims less. Its clock was tampered with, work was done outside
	// of the timed region, or it waited for a core there.
	short
	// impossible: it claims less than the processor time, or more than passed in all, which waiting does
	// not explain.
	impossible
	// long: it claims more than passed without waits, since it waited for a core within the timed region.
	long
)

// parallel is how many of the declared threads can work at once.
func (t *tally) parallel(threads int) int {
	if t.seen.Cores > 0 {
		threads = min(threads, t.seen.Cores)
	}
	return max(threads, 1)
}

// usual is what the trusted baseline shows about the machine in
// this measurement: how much of the elapsed time an honest reading leaves
// unclaimed, and in which share of its readings it waited for a core.
func (t *tally) usual() (open, taken float64) {
	var left []float64
	at, most := 0.5, math.Inf(1)
	for _, p := range t.pairs {
		if p.baseline.waited(p.baseBatch, t.base) {
			taken += 1 / float64(len(t.pairs))
			continue
		}
		exact := p.baseline.exact(t.base)
		if !exact {
			// Most of these include a wait for a core before the timed region.
			at, most = 0.1, mostOpen
		}
		left = append(left, p.baseline.passed(t.parallel(t.base), exact)-p.baseline.NS*float64(p.baseBatch))
	}
	if len(left) < 3 {
		return 0, taken // one of two may have been disturbed by the hypervisor
	}
	slices.Sort(left)
	return math.Min(math.Max(0, Quantile(left, at)), most), taken
}

// hold compares the time that a reading claims with the time that passed, less
// what the baseline leaves unclaimed, and returns the latter per launch. More is
// how many launches more than the baseline's batch it has.
func (t *tally) hold(r Reading, batch, more, threads int, exact bool, open float64) (claim, float64) {
	claimed := r.NS * float64(batch)
	seen := r.passed(t.parallel(threads), exact) - open
	allowed := t.rules.ClockShare*claimed + float64(t.rules.ClockSlack) + float64(t.rules.LaunchSlack)*float64(max(0, more))
	how := confirmed
	switch {
	case exact && (r.CPUNS-open-claimed > allowed || claimed-r.WallNS > allowed && r.WallNS > 0):
		how = impossible
	case !(seen-claimed <= allowed) || !(r.WallNS > 0):
		how = short
	case exact && claimed-seen > allowed:
		how = long
	}
	return how, seen / float64(batch)
}

// tells says whether a reading shows if its clock is right. If waits for a core are
// subtracted, a long wait may have been inside or outside the timed region.
func (r Reading) tells(batch int, how claim, exact bool) bool {
	if !exact && !r.elsewhere() {
		return true
	}
	return how == impossible || how != long && r.WaitedNS < telling*r.NS*float64(batch)
}

// A count is what the pairs of a tally show.
type count struct {
	samples, baseline []float64 // of the pairs that count
	perSet            []int     // how many of these are of each set of processes
	// told counts the readings that show whether their clock is right, confirmed those
	// of them that are confirmed; base and baseTold are the same for the baseline,
	// under the rule for the candidate.
	confirmed, told, base, baseTold int
	// slowdown is the ratio of the candidate's reading time to the baseline's, because the
	// candidate is slower; 1 when it is not.
	slowdown float64
	// taken is how many pairs there are, dropped how many of them do not count,
	// bent how many are dropped or have a time other than what was claimed.
	taken, dropped, bent int
}

// count evaluates the pairs. A claim that is confirmed counts unchanged.
//
// If the operating system's accounting is exact, every pair counts: a claim that is too
// short or too long is replaced by the time that passed. Whatever a candidate does
// to its readings, it cannot choose which of them count.
//
// Otherwise a reading whose claim is too short may have waited for a core. As many
// are dropped as the baseline has; the others count with the whole elapsed time, so
// that a candidate cannot get rid of its bad readings this way. If the baseline waited
// within the timed region, only pairs that did not wait count. On a device, only
// readings that show whether their clock is right count.
func (t *tally) count() count {
	c := count{taken: len(t.pairs), slowdown: t.slowdown()}
	open, baseWaited := t.usual()
	type sample struct {
		candidate, baseline float64
		set                 int
		short, bent         bool
	}
	var list []sample
	var shorts []float64 // ratios
	baseShort := 0
	for _, p := range t.pairs {
		s := sample{candidate: p.candidate.NS, baseline: p.baseline.NS, set: p.set}
		exact, baseExact := p.candidate.exact(t.threads), p.baseline.exact(t.base)
		how, seen := t.hold(p.candidate, p.batch, p.batch-p.baseBatch, t.threads, exact, open)
		base, _ := t.hold(p.baseline, p.baseBatch, 0, t.base, exact && baseExact, open)
		tells := p.candidate.tells(p.batch, how, exact)
		if tells {
			c.told++
			c.confirmed += btoi(how == confirmed)
		}
		if p.baseline.tells(p.baseBatch, base, exact) {
			c.baseTold++
			c.base += btoi(base == confirmed)
		}
		baseShort += btoi(base == short)
		if !tells && p.candidate.elsewhere() {
			continue // nothing shows that its clock is right
		}
		still := true // no wait within the timed region that cannot be subtracted
		if baseExact {
			if own, took := t.hold(p.baseline, p.baseBatch, 0, t.base, true, open); own == long {
				s.baseline, s.bent = took, true
			}
		} else {
			still = !p.baseline.waited(p.baseBatch, t.base)
		}
		switch {
		case exact && how != confirmed:
			s.candidate, s.bent = seen, true
		case how == short:
			s.candidate, s.short, s.bent = seen, true, true
			shorts = append(shorts, s.candidate/s.baseline)
		case !exact:
			still = still && !p.candidate.waited(p.batch, t.threads)
		}
		if still || s.short || baseWaited < disturbedShare {
			list = append(list, s)
		}
	}
	// The short ones count in the same proportion as the others.
	most := math.Inf(-1) // the largest ratio of a short one that counts
	if excess := len(shorts) - baseShort; excess > 0 {
		slices.Sort(shorts)
		if n := excess * max(len(list)-len(shorts), 1) / max(c.taken-len(shorts), 1); n > 0 {
			most = shorts[n-1]
		}
	}
	for _, s := range list {
		if !s.short || s.candidate/s.baseline <= most {
			c.samples, c.baseline = append(c.samples, s.candidate), append(c.baseline, s.baseline)
			c.bent += btoi(s.bent)
			for len(c.perSet) <= s.set {
				c.perSet = append(c.perSet, 0)
			}
			c.perSet[s.set]++
		}
	}
	c.dropped = c.taken - len(c.samples)
	c.bent += c.dropped
	return c
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// slowdown is the ratio of the candidate's reading time to the baseline's, at least 1, as
// far as the candidate's launches are slower. A larger number of launches, which the
// candidate can influence, does not count.
func (t *tally) slowdown() float64 {
	var launch, reading []float64
	for _, p := range t.pairs {
		launch = append(launch, p.candidate.NS/p.baseline.NS)
		reading = append(reading, p.candidate.NS*float64(p.batch)/(p.baseline.NS*float64(p.baseBatch)))
	}
	if k := math.Min(Median(launch), Median(reading)); k > 1 {
		return k
	}
	return 1
}

// rate is the least share of an honest candidate's readings that are confirmed:
// the baseline's rate in the same measurement, lower where readings are longer,
// times leastConfirmed.
func (c count) rate() float64 {
	return leastConfirmed * math.Pow((float64(c.base)+1)/(float64(c.baseTold)+2), c.slowdown)
}

// chance is how likely an honest candidate has so few confirmed readings.
func (c count) chance() float64 { return binomialTail(c.confirmed, c.told, c.rate()) }

// early says that too few of the first readings are confirmed to conclude anything
// before more are taken.
func (c count) early() bool {
	return c.told < leastForDoubt && float64(c.confirmed) < c.rate()*float64(c.told)
}

// binomialTail is the probability of at most k successes among n, each with
// probability p.
func binomialTail(k, n int, p float64) float64 {
	sum := 0.0
	for i := 0; i <= k; i++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(i + 1))
		c, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(a - b - c + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return math.Min(1, sum)
}

// disturbed says whether the machine disturbed the measurement.
func (t *tally) disturbed(c count) bool {
	return t.seen.Disturbed != "" || float64(c.bent) >= disturbedShare*float64(c.taken) && c.bent > 1
}

// least is how many pairs must count before anything is concluded.
func (t *tally) least() int {
	sum := 0.0
	for _, p := range t.pairs {
		sum += p.candidate.WallNS + p.baseline.WallNS
	}
	if len(t.pairs) > 0 && sum/float64(len(t.pairs)) > float64(t.rules.SlowPair) {
		return t.rules.LeastSlow
	}
	return t.rules.Least
}

// leads says whether the candidate may be faster than the best so far, whose ratio is given. If
// there is none (0), as for all candidates in flight at the start, a candidate leads if it is not
// far slower than the baseline. At one of several shapes the fastest may be slower.
func (t *tally) leads(incumbent float64, shapes int) bool {
	if incumbent <= 0 {
		incumbent = farSlower
	}
	if shapes > 1 {
		incumbent *= slowerShape
	}
	c := t.count()
	ratios := Timing{SamplesNS: c.samples, BaselineNS: c.baseline}.Ratios()
	_, lo, _ := Interval(ratios)
	return len(ratios) == 0 || max(slices.Min(ratios), lo) <= incumbent // the same interval as for stopSlower
}

// farSlower is the ratio above which a candidate does not get [SampleRequest].Longer while no other
// is known.
const farSlower = 1.5

// The reasons why sampling ends. The first three are stored with the timing.
const (
	stopPrecise   = "precise"
	stopSlower    = "slower"
	stopLimit     = "limit"
	stopUnsettled = "unsettled"
	stopClock     = "clock"
)

// enough says why sampling should end; empty when it should not. On a calm
// machine it ends as soon as the ratio is precise, or when the samples or the
// time that the plan allows are spent. A disturbed measurement goes on until
// its ratio has settled.
func (j *judge) enough(t *tally, spent time.Duration, incumbent, floor float64) string {
	c := t.count()
	n, least, chance := len(c.samples), t.least(), c.chance()
	over := spent >= settleTime && c.taken >= min(suspiciousRounds, j.plan.Samples)
	late := over && c.taken >= suspiciousRounds
	switch {
	case chance < guilt:
		return stopClock
	case chance < doubt && late, n < 3 && over, c.early() && over,
		len(t.seen.Others) > 0 && spent >= hopeless && c.taken >= suspiciousRounds && float64(n) < hopelessShare*float64(c.taken):
		return stopUnsettled
	case chance < doubt, n < 3, c.early():
		return ""
	}
	ratios := Timing{SamplesNS: c.samples, BaselineNS: c.baseline}.Ratios()
	centre, lo, hi := Interval(ratios)
	half := (hi - lo) / 2 / centre
	margin := slower
	if len(j.plan.Tune) > 1 {
		margin = slowerShape
	}
	// If every reading waited, none shows whether the clock is right. The first that
	// did not wait would expose a tampered clock, so sampling waits for it as long as
	// the plan allows.
	spentAll := c.taken >= j.plan.Samples && c.told > 0 || spent >= j.plan.SampleTime
	switch {
	// With fewer than six samples there is no 95% interval; all of them on one
	// side by that much is good enough.
	case incumbent > 0 && max(slices.Min(ratios), lo) > incumbent*margin:
		return stopSlower
	case half <= precise && (c.told > 0 || spentAll):
		return stopPrecise
	// More samples below the floor would prove nothing.
	case n >= least && slices.Min(c.samples) < floor:
		return stopLimit
	case n < least && over:
		return stopUnsettled
	case n < least || !spentAll:
		return ""
	case !t.disturbed(c) || half <= settled:
		return stopLimit
	case !over:
		return ""
	case half > unsettled:
		return stopUnsettled
	}
	return stopLimit
}

// timing returns the stored summary of a tally.
func (t *tally) timing(stopped string, floor float64) Timing {
	c := t.count()
	batch, base := 0, 0
	if len(t.pairs) > 0 {
		batch, base = t.pairs[0].batch, t.pairs[0].baseBatch
	}
	out := NewTiming(t.shape.Name, c.samples, c.baseline, batch, base)
	out.Stopped, out.FloorNS, out.Discarded = stopped, floor, c.dropped
	seen := t.seen
	out.Conditions, out.Pools = &seen, t.pools
	if len(c.perSet) > 1 {
		out.PerSet = c.perSet
	}
	return out
}

// lie says how much of the candidate's time was not claimed, in words.
func (t *tally) lie() string {
	var claimed, wall, processor []float64
	open, _ := t.usual()
	for _, p := range t.pairs {
		claimed = append(claimed, p.candidate.NS*float64(p.batch))
		wall = append(wall, p.candidate.WallNS)
		processor = append(processor, p.candidate.CPUNS)
	}
	text := fmt.Sprintf("its clock disagrees with evotune's: of %d batches %d are confirmed; in the middle one %s were claimed, and %s passed",
		len(t.pairs), t.count().confirmed, ns(Median(claimed)), ns(Median(wall)))
	if p := Median(processor); p > 0 {
		text += fmt.Sprintf(", in which %s of processor time were used by %d declared threads", ns(p), max(t.threads, 1))
	}
	return text + fmt.Sprintf("; the baseline leaves %s unclaimed", ns(open))
}

// ns formats nanoseconds for people.
func ns(x float64) string {
	d := time.Duration(x)
	return d.Round(max(1, time.Duration(math.Pow(10, math.Floor(math.Log10(math.Max(x, 1)))-2)))).String()
}

// why says what disturbed a measurement that did not settle.
func (t *tally) why() string {
	c := t.count()
	reason := t.seen.Disturbed
	switch {
	case reason != "":
	case len(t.seen.Others) > 0:
		reason = "others are on the device: " + strings.Join(t.seen.Others, ", ")
	default:
		reason = "what disturbs the machine could not be seen"
	}
	if c.chance() < doubt {
		return fmt.Sprintf("evotune's clock confirms only %d of %d readings: %s", c.confirmed, c.told, reason)
	}
	if len(c.samples) < t.least() {
		return fmt.Sprintf("only %d of %d pairs of samples count: %s", len(c.samples), c.taken, reason)
	}
	centre, lo, hi := Interval(Timing{SamplesNS: c.samples, BaselineNS: c.baseline}.Ratios())
	if math.IsInf(hi, 1) {
		return fmt.Sprintf("%d pairs of samples are too few to know the ratio to the baseline: %s", len(c.samples), reason)
	}
	return fmt.Sprintf("after %d pairs of samples the ratio to the baseline is still known to within %.0f%% only: %s", c.taken, 100*(hi-lo)/2/centre, reason)
}

// Benchmark implements stages. No candidate is implausible on one measurement:
// the peaks may have been measured while something else was running, and a
// machine may disturb one process more than another.
func (j *judge) Benchmark(ctx context.Context, a Artifact, incumbent float64) ([]Timing, Outcome, error) {
	timings, out, err := j.benchmark(ctx, ForTiming, a, j.timed(incumbent, false))
	if err != nil || out.Verdict != Implausible {
		return timings, out, err
	}
	if _, err := j.lab.Peaks(ctx, true); err != nil {
		return nil, Outcome{}, err
	}
	again, second, err := j.benchmark(ctx, ForFinals, a, j.timed(0, true))
	if err != nil {
		return nil, Outcome{}, err
	}
	first := Evidence{Check: "first measurement", Outcome: Failed, Detail: out.Reason}
	if second.Verdict == "" {
		first.Outcome = Passed
		first.Detail = "implausible, and not so when measured again in a fresh process: " + out.Reason
	}
	second.Evidence = append([]Evidence{first}, second.Evidence...)
	return again, second, nil
}

// FirstReadings implements stages. A candidate is slower if every one of them says so, by the same
// rule that ends a benchmark early; at a single shape the first that does not ends them. Where too few
// count, it is a contender, and the benchmark decides.
//
// The session ends before the sanitizers run, since it has the device to itself. The benchmark of a
// contender starts afresh: readings that decided whether it goes on would make it look faster than
// it is.
func (j *judge) FirstReadings(ctx context.Context, a Artifact, incumbent float64) ([]Timing, Outcome, error) {
	limit := farBehind * incumbent
	timings, out, err := j.benchmark(ctx, ForTiming, a, func(ctx context.Context, s Session, t *tally) (Timing, Outcome, error) {
		for tries := 0; tries < mostFirst && len(t.pairs) < mostFirst; tries++ {
			if err := j.sample(ctx, s, t, min(j.rules.Ask, firstReadings), "", incumbent); err != nil {
				return Timing{}, Outcome{}, err
			}
			if out := j.judgeAfter(t); out.Verdict != "" {
				return t.timing(stopLimit, 0), out, nil
			}
			c, first := t.count(), t.timing(stopSlower, 0)
			contends := len(j.plan.Tune) == 1 && len(c.samples) > 0 && slices.Min(first.Ratios()) <= limit
			if contends || len(c.samples) >= firstReadings && c.chance() >= doubt && !c.early() {
				return first, Outcome{}, nil
			}
		}
		return t.timing(stopUnsettled, 0), Outcome{}, nil
	})
	if err != nil || out.Verdict != "" {
		return timings, out, err
	}
	var least []float64
	for _, t := range timings {
		if t.Stopped == stopSlower {
			least = append(least, slices.Min(t.Ratios()))
		}
	}
	e := Evidence{Check: "first readings", Outcome: Passed, Value: GeometricMean(least), Limit: limit, Detail: "times the baseline's time: sanitized before any further reading"}
	switch {
	case len(least) < len(j.plan.Tune):
		e = Evidence{Check: e.Check, Outcome: NotRun, Detail: "too few count to say that it is slower than the best: sanitized before any further reading"}
	case e.Value > e.Limit:
		e.Value, e.Limit = fitness(timings), 0
		e.Detail = fmt.Sprintf("times the baseline's time, where the best took %.4g", incumbent)
		out.Verdict, out.Reason = Slower, fmt.Sprintf("%.2f times the time of the best that was known: not sanitized", e.Value/incumbent)
	}
	out.Evidence = append(out.Evidence, e)
	return timings, out, nil
}

// timed returns how benchmark times one shape: until enough is known. Again says that this is the
// second measurement.
func (j *judge) timed(incumbent float64, again bool) func(context.Context, Session, *tally) (Timing, Outcome, error) {
	return func(ctx context.Context, s Session, t *tally) (Timing, Outcome, error) {
		begin := time.Now()
		defer func() { j.took.note(&j.took.shapes, time.Since(begin)) }()
		return j.timeShape(ctx, s, t, incumbent, again)
	}
}

// benchmark times a candidate at every tuned shape in one session.
func (j *judge) benchmark(ctx context.Context, p Purpose, a Artifact, at func(context.Context, Session, *tally) (Timing, Outcome, error)) (timings []Timing, out Outcome, err error) {
	check := "load"
	err = j.twice(ctx, a.Allowed, func(patience time.Duration) error {
		timings, out, check = nil, Outcome{}, "load"
		a.Allowed.grant(j.together(j.plan.Samples, j.rules.Batch, j.plan.Tune...))
		s, err := j.lab.Open(ctx, p, a)
		for err == nil {
			over := Held(ctx)
			if over == nil {
				break
			}
			// The check whether the machine is calm needs a free device.
			_, _ = s.Close() // it has not been used
			select {
			case <-over:
			case <-ctx.Done():
				return ctx.Err()
			}
			s, err = j.lab.Open(ctx, p, a)
		}
		if err != nil {
			return err
		}
		closed := false
		defer func() {
			if !closed {
				_, _ = s.Close() // the cause is already known
			}
		}()
		for _, shape := range j.plan.Tune {
			check = "benchmark " + shape.Name
			t := j.newTally(a, shape)
			t.patience = patience
			timing, o, err := at(ctx, s, t)
			out.Evidence = append(out.Evidence, o.Evidence...)
			if err != nil {
				return err
			}
			if len(timing.SamplesNS) > 0 { // without samples, medians are not numbers
				timings = append(timings, timing)
			}
			if o.Verdict != "" {
				out.Verdict, out.Reason, out.Disturbed = o.Verdict, o.Reason, o.Disturbed
				return nil
			}
		}
		check, closed = "end of the process", true
		notes, err := s.Close()
		out.Evidence = append(out.Evidence, notes...)
		return err
	})
	if ctx.Err() != nil {
		return nil, Outcome{}, ctx.Err()
	}
	if err != nil {
		out, err = fault(err, check, out.Evidence)
	}
	return timings, out, err
}

// newTally makes an empty tally of an artifact at a shape.
func (j *judge) newTally(a Artifact, shape kernels.Shape) *tally {
	return &tally{rules: j.rules, patience: 1, allowed: a.Allowed, shape: shape, threads: a.Threads, base: j.baseline[shape.Name].Threads}
}

// request asks for rounds at a shape from a set of processes: 0, 1, ...
func (j *judge) request(shape kernels.Shape, rounds int, last bool, set int) SampleRequest {
	r := SampleRequest{Shape: shape, Rounds: rounds, Batch: j.rules.Batch, Limit: j.limit(shape), Within: j.againstBaseline(shape), Last: last, Longer: last, Set: set}
	if n := len(j.plan.Pools); n > 0 {
		r.Pool = j.plan.Pools[set%n]
	}
	return r
}

// sample takes rounds of the only contender of a session. They are the last if stopped says
// why sampling ends.
func (j *judge) sample(ctx context.Context, s Session, t *tally, rounds int, stopped string, incumbent float64) error {
	r := j.request(t.shape, rounds, stopped != "", 0)
	r.Latency = r.Last && stopped != stopSlower
	r.Longer = r.Last && t.leads(incumbent, len(j.plan.Tune))
	r.Limit *= t.patience
	got, err := s.Sample(ctx, r)
	switch {
	case err != nil:
		return err
	case len(got.Series) != 1:
		return fmt.Errorf("the lab gave %d series for one contender", len(got.Series))
	case got.Series[0].Fault != nil:
		return got.Series[0].Fault
	}
	t.add(got.Series[0], got)
	return j.compared(t)
}

// compared returns an error if less than half of an output was compared, as
// in parity: it is the definition's fault, whatever the contents are.
func (j *judge) compared(t *tally) error {
	if why := unwritten(t.after.Outputs); why != "" {
		return fmt.Errorf("%w: kernel %s, while it is timed at shape %s: %s", ErrUnwritten, j.plan.Definition.Name, t.shape.Name, why)
	}
	return nil
}

// timeShape samples one candidate at one shape until enough is known. Again says
// that this is the second measurement.
func (j *judge) timeShape(ctx context.Context, s Session, t *tally, incumbent float64, again bool) (Timing, Outcome, error) {
	stopped, floor := "", 0.0
	for begin := time.Now(); stopped == ""; {
		rounds := j.rules.Ask
		if len(t.pairs) > j.plan.Samples {
			rounds = max(rounds, len(t.pairs)/8) // a disturbed measurement takes long
			t.allowed.extend(j.together(rounds, j.rules.Batch, t.shape))
		}
		if err := j.sample(ctx, s, t, rounds, "", incumbent); err != nil {
			return Timing{}, Outcome{}, err
		}
		if out := j.judgeAfter(t); out.Verdict != "" {
			return t.timing(stopLimit, 0), out, nil
		}
		var err error
		if floor, err = j.floor(ctx, t); err != nil {
			return Timing{}, Outcome{}, err
		}
		stopped = j.enough(t, time.Since(begin)-t.making, incumbent, floor)
	}
	if stopped != stopClock && stopped != stopUnsettled {
		if err := j.sample(ctx, s, t, 0, stopped, incumbent); err != nil {
			return Timing{}, Outcome{}, err
		}
	}
	return t.timing(stopped, floor), j.judgeTally(t, stopped, floor, again), nil
}

// judgeAfter judges the outputs and the memory after timed launches.
func (j *judge) judgeAfter(t *tally) Outcome {
	check := "outputs after timing " + t.shape.Name
	if len(t.after.Outputs) == 0 && t.after.Guard == "" && t.after.InputChanged == "" && t.after.Wrong == "" {
		return Outcome{} // nothing was looked at yet
	}
	limits := j.limitsOf(t)
	verdict, reason := limits.wrong(t.after, t.threads)
	if verdict == "" {
		return Outcome{}
	}
	out := failed(verdict, check, "after timing: "+reason)
	w := limits.worst(t.after.Outputs)
	out.Evidence[0].Value, out.Evidence[0].Limit = finite(w.Error), limits[w.Name]
	return out
}

// judgeTally judges a finished measurement. Again says that this is the second
// measurement of the candidate.
func (j *judge) judgeTally(t *tally, stopped string, floor float64, again bool) Outcome {
	shape := t.shape.Name
	switch stopped {
	case stopClock:
		return failed(Implausible, "clock "+shape, t.lie())
	case stopUnsettled:
		reason := t.why()
		return Outcome{
			Verdict: Infrastructure, Reason: "time " + shape + ": " + reason, Disturbed: reason,
			Evidence: []Evidence{{Check: "time " + shape, Outcome: NotRun, Detail: reason}},
		}
	}
	if len(t.after.Outputs) == 0 {
		return failed(Parity, "outputs after timing "+shape, "no output was compared")
	}
	if out := j.judgeAfter(t); out.Verdict != "" {
		return out
	}
	var out Outcome
	note := func(e Evidence) { out.Evidence = append(out.Evidence, e) }
	c := t.count()
	limits := j.limitsOf(t)
	w := limits.worst(t.after.Outputs)
	detail := fmt.Sprintf("%d sets of inputs", t.sets)
	if list := t.after.Edges; len(list) > 0 {
		detail += ", and the edge cases " + strings.Join(list, ", ") + " among timed launches"
	}
	if t.after.Contents != "" {
		detail += ", timed with " + t.after.Contents
	}
	note(Evidence{Check: "outputs after timing " + shape, Outcome: Passed, Value: finite(w.Error), Limit: limits[w.Name], Detail: detail})
	var open []float64
	for _, p := range t.pairs {
		r := p.candidate
		open = append(open, r.passed(t.parallel(t.threads), r.exact(t.threads))-r.NS*float64(p.batch))
	}
	note(Evidence{
		Check: "clock " + shape, Outcome: Passed, Value: Median(open), Unit: "ns",
		Detail: fmt.Sprintf("unclaimed in the middle batch; %d of %d pairs count", len(c.samples), c.taken),
	})
	least := slices.Min(c.samples)
	if !(least >= floor) || !(least > 0) {
		reason := fmt.Sprintf("a launch took %.4g us, below the physical floor of %.4g us that this device's measured peaks set", least/1e3, floor/1e3)
		o := failed(Implausible, "floor "+shape, reason, out.Evidence...)
		e := &o.Evidence[len(o.Evidence)-1]
		e.Value, e.Limit, e.AtLeast, e.Unit = least, floor, true, "ns"
		if again && least*floorDoubt >= floor && t.disturbed(c) {
			// The peaks were measured on this machine while it was as busy.
			o.Verdict, e.Outcome = Infrastructure, NotRun
			o.Disturbed = reason + ", and the machine is busy: " + t.why()
		}
		return o
	}
	note(Evidence{Check: "floor " + shape, Outcome: Passed, Value: least, Limit: floor, AtLeast: true, Unit: "ns"})
	if j.spec.Oracle == kernels.OwnBaseline {
		note(Evidence{Check: "independent reference " + shape, Outcome: NotRun, Detail: "the oracle is the kernel's own baseline: that candidates agree with it does not show that it is right"})
	}
	if j.spec.OperationsExpr == "" {
		note(Evidence{Check: "compute floor " + shape, Outcome: NotRun, Detail: "the definition does not say how many operations a launch takes"})
	}
	if n := len(t.latency); n > 0 {
		sorted := slices.Sorted(slices.Values(t.latency))
		note(Evidence{
			Check: "latency " + shape, Outcome: Passed, Value: Median(t.latency), Unit: "ns",
			Detail: fmt.Sprintf("one launch and its synchronization by the wall clock: median of %d, 90th percentile %.4g us", n, Quantile(sorted, 0.9)/1e3),
		})
	}
	note(t.seen.evidence("conditions " + shape))
	return out
}

// evidence describes the conditions under which something was measured.
func (c Conditions) evidence(check string) Evidence {
	var words []string
	say := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	say(c.ClockMHz > 0, "%d MHz", c.ClockMHz)
	say(c.MemoryClockMHz > 0, "memory %d MHz", c.MemoryClockMHz)
	say(c.PowerWatts > 0, "%.0f W", c.PowerWatts)
	say(c.Celsius > 0, "%d C", c.Celsius)
	say(len(c.Throttle) > 0, "slowed by %s", strings.Join(c.Throttle, " and "))
	say(c.Busy > 0.01, "others use %.0f%% of the cores", 100*c.Busy)
	say(c.Pressure > 0.01, "%.0f%% of the time some process waits for a core", 100*c.Pressure)
	say(c.Steal > 0.001, "the hypervisor takes %.1f%%", 100*c.Steal)
	say(c.WaitedNS > 1e3, "waited %s for a core", ns(c.WaitedNS))
	say(c.Preempted > 0, "preempted %d times", c.Preempted)
	say(len(c.Others) > 0, "others on the device: %s", strings.Join(c.Others, ", "))
	if len(words) == 0 {
		return Evidence{Check: check, Outcome: NotRun, Detail: "this machine tells nothing of its state"}
	}
	return Evidence{Check: check, Outcome: Passed, Detail: strings.Join(words, ", ")}
}

// floor is the time, in nanoseconds, below which no launch at a shape can be:
// its operations at the peak rate of the declared threads, or its bytes at the
// rates of the caches and the memory that they can come from, whichever takes
// longer.
//
// On a CPU only inputs count as traffic: evotune itself has just written the
// outputs and may have left them in the last cache. The last cache may also still hold
// as much of the inputs as fits, since the sets are visited in turn.
// On a GPU what is written may stay in the cache as well, and everything passes
// through it.
func (j *judge) floor(ctx context.Context, t *tally) (float64, error) {
	peaks, err := j.lab.Peaks(ctx, false)
	operations, err1 := j.spec.Operations(t.shape)
	traffic, err2 := j.spec.Bytes(t.shape)
	if err := errors.Join(err, err1, err2); err != nil {
		return 0, fmt.Errorf("the floor of shape %s: %w", t.shape.Name, err)
	}
	least := 0.0
	if p := peaks.rate(j.spec.Pipe, t.threads); p > 0 {
		least = operations / (p * j.rules.ComputeHeadroom) * 1e9
	}
	cache := 1.25 * float64(peaks.CacheBytes)
	memory := peaks.rate("memory", t.threads)
	if memory > 0 { // a CPU
		in := j.inputBytes(t.shape)
		cached := math.Min(1, cache/math.Max(in*float64(t.sets), 1))
		outside := math.Min(traffic, in) * (1 - cached)
		return math.Max(least, outside/(memory*j.rules.MemoryHeadroom)*1e9), nil
	}
	memory = max(peaks.Rates["read"], peaks.Rates["write"], peaks.Rates["copy"])
	if l2 := max(peaks.Rates["l2"], memory); l2 > 0 {
		least = math.Max(least, traffic/(l2*j.rules.MemoryHeadroom)*1e9)
	}
	if memory > 0 {
		least = math.Max(least, math.Max(0, traffic-cache)/(memory*j.rules.MemoryHeadroom)*1e9)
	}
	return least, nil
}

// inputBytes is the size of the buffers that are only read.
func (j *judge) inputBytes(s kernels.Shape) float64 {
	sum := 0.0
	for _, b := range j.spec.Buffers {
		if n, err := j.spec.Elements(b, s); b.Role == kernels.In && err == nil {
			sum += float64(n) * float64(b.DType.Size())
		}
	}
	return sum
}

// rate is the rate that a number of threads cannot exceed. On a CPU that is the rate of
// all cores, or that many times the rate of one thread, whichever is less.
func (p Peaks) rate(name string, threads int) float64 {
	one, perThread := p.Rates[name+"/1"]
	if !perThread {
		if name == "memory" {
			return 0
		}
		return p.Rates[name]
	}
	all := p.Rates[name+"/"+strconv.Itoa(p.Cores)]
	most := one * float64(max(threads, 1))
	if all > 0 && threads > 1 {
		most = math.Min(most, math.Max(all, one))
	}
	return most
}
