package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/kernels"
)

// A contender is a finalist while the finals run.
type contender struct {
	Artifact
	entry   *Finalist
	tallies map[string]*tally // by shape
}

func (c *contender) out() bool { return c.entry.Verdict != "" }

func (c *contender) lose(o Outcome) {
	if !c.out() {
		c.entry.Verdict, c.entry.Reason = o.Verdict, "finals: "+o.Reason
	}
}

// Duel implements stages. It uses several sets of fresh processes, one after the
// other. In each set every contender is timed at every shape: once in each round, in
// random order, beside the baseline. A contender that seems impossible,
// or was disturbed so much that its time is unknown, is timed once more alone.
//
// If the context has an end, only as many contenders take part as there is time for, the first
// first, and only as many sets. What is left of the checks when the time is over is left out, and
// with it the contender.
func (j *judge) Duel(ctx context.Context, bins []Artifact) ([]Finalist, *Early, error) {
	entries := make([]Finalist, len(bins))
	all := make([]*contender, len(bins))
	for i, a := range bins {
		all[i] = &contender{Artifact: a, entry: &entries[i], tallies: map[string]*tally{}}
	}
	var early *Early
	end, limited := EndOf(ctx)
	whole := ctx
	if limited {
		early = &Early{Of: j.rules.Processes}
		for _, c := range all[j.room(len(all), time.Until(end.By)):] {
			c.leave("")
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end.Last, errOver)
		defer cancel()
	}
	sets, err := j.duel(ctx, all)
	if over(ctx, whole) {
		err = nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, c := range all {
		if sets == 0 && !c.out() {
			c.leave("")
		}
		if c.out() {
			continue
		}
		o, err := j.settle(whole, c, sets, false)
		if err != nil {
			return nil, nil, err
		}
		if o.Verdict == Implausible || o.Verdict == Infrastructure {
			if limited && time.Now().Add(j.took.set(1)*time.Duration(j.rules.Processes)).After(end.By) {
				c.leave(o.Reason) // nothing is decided by one measurement
				continue
			}
			if _, err := j.lab.Peaks(whole, true); err != nil {
				return nil, nil, err
			}
			first := Evidence{Check: "first measurement", Outcome: Failed, Detail: o.Reason}
			c.tallies = map[string]*tally{}
			again, err := j.duel(ctx, []*contender{c})
			if over(ctx, whole) {
				c.leave(o.Reason)
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			if c.out() {
				continue
			}
			if o, err = j.settle(whole, c, again, true); err != nil {
				return nil, nil, err
			}
			if o.Verdict == "" {
				first.Outcome, first.Detail = Passed, "not so when measured again alone: "+first.Detail
			}
			c.entry.Evidence = append(c.entry.Evidence, first)
		}
		if o.Verdict != "" {
			c.lose(o)
			c.entry.Evidence = append(c.entry.Evidence, o.Evidence...)
			c.entry.Timings, c.entry.HeldOut = nil, nil
		}
	}
	// The best first: when the time is over, those that were not checked cannot win.
	slices.SortStableFunc(all, func(a, b *contender) int { return cmp.Compare(fitness(a.entry.Timings), fitness(b.entry.Timings)) })
	for _, c := range all {
		if c.out() {
			continue
		}
		err := j.checkFinalist(ctx, c)
		if over(ctx, whole) {
			c.leave("the sanitizers")
			continue
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if early != nil {
		early.Sets = sets
		left := func(e Finalist) bool { return strings.HasPrefix(e.Reason, TimeOver) }
		if sets == j.rules.Processes && !slices.ContainsFunc(entries, left) {
			early = nil
		}
	}
	return entries, early, nil
}

// TimeOver begins the reason of a finalist that was not measured, or not wholly checked,
// because the time was over.
const TimeOver = "not run: the time was over"

// errOver ends what still runs when the time of finals is over.
var errOver = errors.New("the time of the finals is over")

// over says that the time of finals ended ctx, and nobody else did.
func over(ctx, whole context.Context) bool { return ctx.Err() != nil && whole.Err() == nil }

// leave takes a contender out because the time is over; what says why the time was needed.
func (c *contender) leave(what string) {
	if c.out() {
		return
	}
	c.entry.Verdict, c.entry.Reason = Infrastructure, TimeOver
	if what != "" {
		c.entry.Reason += ": " + what
	}
	c.entry.Timings, c.entry.HeldOut = nil, nil
}

// leastSets is how many sets of processes there should be time for: with fewer finalists rather
// than with fewer sets, of which one separates nothing.
const leastSets = 3

// room is how many of n contenders there is time for. One always takes part: that it is faster than
// the baseline is worth more than that it is faster than others.
func (j *judge) room(n int, left time.Duration) int {
	sets := min(leastSets, j.rules.Processes)
	for n > 1 && j.took.finals(n, sets)*5/4 > left { // the machine may become busier
		n--
	}
	return n
}

// A spending is what measurements took until now, from which the next ones' time is
// estimated.
type spending struct {
	rules *backend.Rules
	// tuned is how many shapes are tuned for, checked at how many finals launch a finalist
	// under tools.
	tuned, checked int

	mu       sync.Mutex
	shapes   []time.Duration // of one candidate at a tuned shape, in the search
	sets     []time.Duration // of processes in finals, divided by the number of contenders
	launches []time.Duration // of a candidate under all tools, at one shape
}

func (s *spending) note(list *[]time.Duration, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append((*list)[max(0, len(*list)-recent+1):], took)
}

// recent is how many of the newest measurements an estimate is made from.
const recent = 64

// usual is the upper quartile: a machine that is busy now and then takes longer.
func usual(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)*3/4]
}

// heldOutToo is how many times as long as at the tuned shapes a set of finals takes at the
// held-out ones too, which the search does not time: 1.4 times for the built-in sgemm.
const heldOutToo = 1.5

// set estimates what a set of processes of n contenders takes.
func (s *spending) set(n int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := usual(s.sets)
	if len(s.sets) == 0 {
		one = time.Duration(heldOutToo * float64(s.tuned) * float64(usual(s.shapes)))
	}
	return max(s.rules.LeastSet, time.Duration(n)*one)
}

// finals estimates what finals of n contenders take.
func (s *spending) finals(n, sets int) time.Duration {
	d := time.Duration(sets) * s.set(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	return d + time.Duration(n*s.checked)*usual(s.launches)
}

// checkFinalist launches a contender under the tools at the remaining shapes, and profiles it.
func (j *judge) checkFinalist(ctx context.Context, c *contender) error {
	if err := j.sanitizeFinalist(ctx, c); err != nil || c.out() {
		return err
	}
	_, err := j.launchContender(ctx, c, func() (Outcome, error) { return j.launchFinalist(ctx, c.Artifact) })
	if err != nil || c.out() {
		return err
	}
	return j.profile(ctx, c)
}

// launchContender launches a contender under tools, and removes it if there is a finding.
func (j *judge) launchContender(ctx context.Context, c *contender, launch func() (Outcome, error)) (Outcome, error) {
	out, err := launch()
	// A retry does not repeat the measurements.
	for try := 0; err != nil && ctx.Err() == nil && try < infrastructureRetries && !errors.Is(err, ErrClosed); try++ {
		out, err = launch()
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	if err != nil {
		return out, err
	}
	for i := range out.Evidence {
		out.Evidence[i].Detail = strings.TrimSuffix("in finals: "+out.Evidence[i].Detail, ": ")
	}
	c.entry.Evidence = append(c.entry.Evidence, out.Evidence...)
	if out.Verdict != "" {
		c.lose(out)
		c.entry.Timings, c.entry.HeldOut = nil, nil
	}
	return out, nil
}

// sanitizeFinalist launches a contender under every tool at the sanitize shapes that the
// search left out. So the winner has been checked at every shape that the definition asks for.
func (j *judge) sanitizeFinalist(ctx context.Context, c *contender) error {
	shapes := j.unsearched(c.Artifact)
	if len(shapes) == 0 {
		return nil
	}
	out, err := j.launchContender(ctx, c, func() (Outcome, error) { return j.launches(ctx, c.Artifact, shapes) })
	if err != nil || c.out() {
		return err
	}
	ran := func(e Evidence) bool { return e.Outcome == Passed }
	if slices.ContainsFunc(out.Evidence, ran) {
		c.entry.Evidence = append(c.entry.Evidence, Evidence{
			Check: SanitizeShapes, Outcome: Passed, Detail: fmt.Sprintf("%s in the search, %s in finals", j.searchedAt(c.Artifact), shapeNames(shapes)),
		})
	}
	return nil
}

// settle judges the readings of a contender and makes its timings. The outcome
// has a verdict when a timing is not credible. Again says that this is the
// second measurement, sets how many sets of processes took part.
func (j *judge) settle(ctx context.Context, c *contender, sets int, again bool) (Outcome, error) {
	c.entry.Timings, c.entry.HeldOut = nil, nil
	var edges []Evidence
	for _, shape := range slices.Concat(j.plan.Tune, j.plan.Verify) {
		t := c.tallies[shape.Name]
		switch {
		case t == nil && j.tuned[shape.Name]:
			reason := "time " + shape.Name + ": the processes of the finals ended before anything was measured"
			return Outcome{Verdict: Infrastructure, Reason: reason, Disturbed: reason}, nil
		case t == nil || !j.tuned[shape.Name] && !t.everySet(sets):
			continue // too short to be measured, in some set of processes at least
		}
		n := t.count()
		stopped := stopLimit
		switch chance := n.chance(); {
		case chance < guilt:
			stopped = stopClock
		case chance < doubt, len(n.samples) < t.least():
			stopped = stopUnsettled
		}
		floor, err := j.floor(ctx, t)
		if err != nil {
			return Outcome{}, err
		}
		if o := j.judgeTally(t, stopped, floor, again); o.Verdict != "" {
			return o, nil
		}
		timing := t.timing(stopped, floor)
		if j.tuned[shape.Name] {
			c.entry.Timings = append(c.entry.Timings, timing)
		} else {
			c.entry.HeldOut = append(c.entry.HeldOut, timing)
		}
		if list := t.after.Edges; len(list) > 0 {
			edges = append(edges, Evidence{Check: "edge cases " + shape.Name, Outcome: Passed, Detail: "in finals, among timed launches: " + strings.Join(list, ", ")})
		}
	}
	c.entry.Evidence = append(c.entry.Evidence, edges...)
	return Outcome{}, nil
}

// errAgain says that a contender, which is out now, ended a set of processes.
var errAgain = errors.New("a process of the finals was lost")

// duel runs the sets of processes, as many as there is time for, and says how many. A
// contender that crashes is out; the others continue.
func (j *judge) duel(ctx context.Context, all []*contender) (n int, err error) {
	end, limited := EndOf(ctx)
	lost := 0
	for n < j.rules.Processes {
		var alive []*contender
		for _, c := range all {
			if !c.out() {
				alive = append(alive, c)
			}
		}
		if limited && n > 0 {
			fit := len(alive)
			for fit > 0 && time.Now().Add(j.took.finals(fit, 1)).After(end.By) {
				fit--
			}
			if fit < len(alive) && n > 1 {
				return n, nil
			}
			// One set shows no difference: the fastest have another one rather than none of them.
			if fit > 0 && fit < len(alive) {
				slices.SortStableFunc(alive, func(a, b *contender) int { return cmp.Compare(j.ratio(a), j.ratio(b)) })
				for _, c := range alive[fit:] {
					c.leave("it was not among the fastest of the first set of processes")
				}
				alive = alive[:fit]
			}
			if fit == 0 {
				return n, nil
			}
		}
		if len(alive) == 0 {
			return n, nil
		}
		begin := time.Now()
		err := j.duelOnce(ctx, alive, n)
		var gone *Lost
		var own *Fault
		switch {
		case ctx.Err() != nil:
			return n, ctx.Err()
		case err == nil:
			n++
			j.took.note(&j.took.sets, time.Since(begin)/time.Duration(len(alive)))
		case errors.Is(err, errAgain):
		case errors.As(err, &gone) || errors.As(err, &own):
			// One contender may have caused this: each is tried alone.
			for _, c := range alive {
				if err := j.alone(ctx, c); err != nil {
					return n, err
				}
			}
			if lost++; lost > len(all) {
				return n, fmt.Errorf("the processes of the finals keep ending: %w", err)
			}
		default:
			return n, err
		}
	}
	return n, nil
}

// ratio is the ratio to the baseline that a contender has so far, over the tuned shapes.
func (j *judge) ratio(c *contender) float64 {
	var ratios []float64
	for _, s := range j.plan.Tune {
		if t := c.tallies[s.Name]; t != nil {
			n := t.count()
			ratios = append(ratios, Median(Timing{SamplesNS: n.samples, BaselineNS: n.baseline}.Ratios()))
		}
	}
	if len(ratios) < len(j.plan.Tune) {
		return math.Inf(1)
	}
	return GeometricMean(ratios)
}

// alone times one contender with the baseline, to find out whether it
// ends processes.
func (j *judge) alone(ctx context.Context, c *contender) error {
	kept := c.tallies
	err := j.twice(ctx, c.Allowed, func(time.Duration) error {
		c.tallies = map[string]*tally{}
		if err := j.duelOnce(ctx, []*contender{c}, 0); !errors.Is(err, errAgain) {
			return err
		}
		return nil
	})
	c.tallies = kept
	o, err := fault(err, "the process", nil)
	if o.Verdict != "" {
		c.lose(o)
	}
	return err
}

// note adds what sets of processes report at their end, without duplicates.
func (c *contender) note(notes []Evidence) {
	for _, e := range notes {
		if !slices.Contains(c.entry.Evidence, e) {
			c.entry.Evidence = append(c.entry.Evidence, e)
		}
	}
}

// duelOnce runs the rounds of one set of processes, number set. The measurements of a
// lost set do not count.
func (j *judge) duelOnce(ctx context.Context, alive []*contender, set int) (err error) {
	artifacts := make([]Artifact, len(alive))
	for i, c := range alive {
		artifacts[i] = c.Artifact
		c.Allowed.grant(j.together(j.plan.FinalsSamples, j.rules.Batch, slices.Concat(j.plan.Tune, j.plan.Verify)...))
	}
	s, err := j.lab.Open(ctx, ForFinals, artifacts...)
	if err != nil {
		return err
	}
	fell := false
	defer func() {
		notes, closing := s.Close()
		var own *Fault
		if err == nil {
			for _, c := range alive {
				c.note(notes)
			}
		}
		switch {
		case err != nil && fell:
			err = errAgain
		case err == nil && errors.As(closing, &own) && len(alive) == 1:
			o, _ := fault(closing, "end of the process", nil)
			alive[0].lose(o)
		case err == nil && !errors.As(closing, &own):
			err = closing
		}
	}()
	rounds := (j.plan.FinalsSamples + j.rules.Processes - 1) / j.rules.Processes
	if _, limited := EndOf(ctx); limited && set == 0 {
		rounds = max(rounds, j.rules.Least) // it may be the only one
	}
	played := make([]map[string]*tally, len(alive))
	for i := range played {
		played[i] = map[string]*tally{}
	}
	for _, shape := range slices.Concat(j.plan.Tune, j.plan.Verify) {
		if _, ok := j.baseline[shape.Name]; !ok {
			continue
		}
		tallies := make([]*tally, len(alive))
		anybody := false
		for i, c := range alive {
			if c.Unsupported[shape.Name] == "" && !c.out() {
				tallies[i] = j.newTally(c.Artifact, shape)
				tallies[i].set = set
				anybody = true
			}
		}
		if !anybody {
			continue
		}
		faults, err := j.playShape(ctx, s, shape, alive, tallies, rounds, set)
		if err != nil {
			fell = fell || faults > 0
			return err
		}
		fell = fell || faults > 0
		for i, t := range tallies {
			if t != nil && len(t.pairs) > 0 {
				played[i][shape.Name] = t
			}
		}
	}
	for i, c := range alive {
		for name, t := range played[i] {
			if have := c.tallies[name]; have != nil {
				have.merge(t)
			} else {
				c.tallies[name] = t
			}
		}
	}
	return nil
}

// playShape runs the rounds at one shape and returns how many contenders were
// lost. A disturbed measurement takes more rounds, until enough pairs count.
func (j *judge) playShape(ctx context.Context, s Session, shape kernels.Shape, alive []*contender, tallies []*tally, rounds, set int) (faults int, err error) {
	take := func(n int, last bool) error {
		got, err := s.Sample(ctx, j.request(shape, n, last, set))
		if err != nil {
			return err
		}
		if len(got.Series) != len(alive) {
			return fmt.Errorf("the lab gave %d series for %d contenders", len(got.Series), len(alive))
		}
		for i, series := range got.Series {
			t := tallies[i]
			if t == nil || alive[i].out() {
				continue
			}
			if series.Fault != nil {
				o, _ := fault(series.Fault, shape.Name, nil)
				alive[i].lose(o)
				faults++
				continue
			}
			t.add(series, got)
			if err := j.compared(t); err != nil {
				return err
			}
			if o := j.judgeAfter(t); o.Verdict != "" {
				alive[i].lose(o)
			}
		}
		return nil
	}
	begin := time.Now()
	end, limited := EndOf(ctx)
	for played := 0; ; {
		n := 1
		if j.rules.Ask > 1 || played >= rounds {
			n = max(1, rounds/2)
		}
		if played >= rounds {
			for i, t := range tallies {
				if t != nil {
					alive[i].Allowed.extend(j.together(n, j.rules.Batch, shape))
				}
			}
		}
		if err := take(n, false); err != nil {
			return faults, err
		}
		if played == 0 && !j.tuned[shape.Name] && j.tooShort(tallies) {
			for i := range tallies {
				tallies[i] = nil
			}
			return faults, nil
		}
		played += n
		fewest, doubtful := rounds, false
		for i, t := range tallies {
			if t == nil || alive[i].out() {
				continue
			}
			c := t.count()
			if chance := c.chance(); chance >= guilt { // below that, more rounds change nothing
				fewest = min(fewest, len(c.samples))
				doubtful = doubtful || chance < doubt || c.early()
			}
		}
		spent := time.Since(begin)
		if limited && time.Now().After(end.By) {
			doubtful, fewest = false, rounds // the others wait for their turn
		}
		more := played < rounds || (fewest < rounds || doubtful) && spent < settleTime && played < 40*rounds
		if !more || played >= finalsLeast && spent > finalsLimit {
			return faults, take(0, true)
		}
	}
}

// tooShort says whether the baseline's batches at a held-out shape are too short
// to measure.
func (j *judge) tooShort(tallies []*tally) bool {
	for _, t := range tallies {
		if t != nil && len(t.pairs) > 0 {
			p := t.pairs[0]
			return p.baseline.NS*float64(p.baseBatch) < float64(j.rules.HeldOut)
		}
	}
	return false
}

// profile adds the device's counters to a finalist, and removes it if it breaks a bound of
// its definition. A profiler that does not work is noted in the evidence and fails no finalist.
func (j *judge) profile(ctx context.Context, c *contender) error {
	p, ok := j.lab.(Profiler)
	if !ok {
		return nil
	}
	c.Allowed.grant(j.underTools(1, j.plan.SanitizeAlso))
	readings, err := p.Profile(ctx, c.Artifact)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // a finalist that was not profiled must not win
	}
	rows, reason := holdProfile(c.Source.Profile, readings)
	c.entry.Evidence = append(c.entry.Evidence, append(readings, rows...)...)
	if reason != "" {
		c.lose(Outcome{Verdict: Inspect, Reason: reason})
	}
	return nil
}

// holdProfile compares a finalist's readings with the bounds of its definition. It
// returns a row for each bound, and the reason for the first broken one; "" when there
// is none. A counter that could not be read breaks no bound and is "not run".
func holdProfile(bounds []kernels.Bound, readings []Evidence) (rows []Evidence, reason string) {
	for _, b := range bounds {
		i := slices.IndexFunc(readings, func(e Evidence) bool { return e.Check == b.Counter })
		for _, side := range []struct {
			limit  *float64
			least  bool
			allows string
		}{{b.Min, true, "at least"}, {b.Max, false, "at most"}} {
			if side.limit == nil {
				continue
			}
			row := Evidence{Check: "requires " + b.Counter}
			wanted := fmt.Sprintf("%s %g is required", side.allows, *side.limit)
			switch {
			case i < 0:
				row.Outcome, row.Detail = NotRun, wanted+": profiling is switched off"
			case readings[i].Outcome == NotRun:
				row.Outcome, row.Detail = NotRun, wanted+": "+readings[i].Detail
			default:
				row.Outcome, row.Value, row.Unit = Passed, readings[i].Value, readings[i].Unit
				row.Limit, row.AtLeast = *side.limit, side.least
				if side.least && row.Value < row.Limit || !side.least && row.Value > row.Limit {
					row.Outcome, row.Detail = Failed, strings.TrimSpace(fmt.Sprintf("%g %s", row.Value, row.Unit))+", "+wanted
					if reason == "" {
						reason = row.Check + ": " + row.Detail
					}
				}
			}
			rows = append(rows, row)
		}
	}
	return rows, reason
}
