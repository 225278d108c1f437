package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/record"
)

// next are tasks for a host of the campaign, at most so many. The caller holds the lock.
func (c *Campaign) next(x *host, free int) (out []task) {
	if free <= 0 {
		return nil
	}
	for _, held := range x.holds {
		if held.alone {
			return nil
		}
	}
	if i := slices.IndexFunc(c.suspects, func(t *item) bool { return c.suits(t, x) && (!t.unclear() || !c.trying()) }); i >= 0 {
		if r := c.reserved; r == nil || !r.able() || r.away || r.waits == nil && len(r.holds) == 0 || !c.suits(c.suspects[i], r) {
			c.reserved = x
		}
		if c.reserved == x {
			if len(x.holds) > 0 {
				return nil // it runs alone, when these have ended
			}
			t := c.suspects[i]
			c.dequeue(t)
			t.give(x, true)
			c.reserved = nil
			return []task{t.now()}
		}
	}
	if t := c.check(x); t != nil {
		t.give(x, false)
		out = append(out, t.now())
	}
	for i := 0; i < len(c.queue) && len(out) < free; {
		t := c.queue[i]
		if !c.suits(t, x) {
			i++
			continue
		}
		c.queue = slices.Delete(c.queue, i, i+1)
		t.give(x, false)
		out = append(out, t.now())
	}
	return out
}

// trying says whether a suspect runs alone on a host.
func (c *Campaign) trying() bool {
	for x := range c.hosts {
		for _, held := range x.holds {
			if held.alone {
				return true
			}
		}
	}
	return false
}

// now is the task as it is sent at this time: a host's clock may be wrong.
func (t *item) now() task {
	out := t.task
	if !t.end.By.IsZero() {
		out.By, out.Last = time.Until(t.end.By), time.Until(t.end.Last)
	}
	return out
}

// suits says whether a host may have a task. One that the task is to avoid, or that failed it, or
// was lost with it, has it only if there is no other. The caller holds the lock.
func (c *Campaign) suits(t *item, x *host) bool {
	if t.avoid[x.Name] || x.has(t.ID) {
		return false
	}
	if !t.had(x) {
		return true
	}
	for o := range c.hosts {
		if o.able() && !t.had(o) && !t.avoid[o.Name] {
			return false
		}
	}
	return true
}

// had says whether a host failed a task or was lost with it.
func (t *item) had(x *host) bool {
	return t.tried[x.Name] != "" || slices.ContainsFunc(t.strikes, func(s strike) bool { return s.host == x.Name })
}

// give leases a task to a host. The caller holds the lock, and has it out of the queue.
func (t *item) give(x *host, alone bool) *hold {
	now := time.Now()
	held := &hold{item: t, alone: alone, named: now, since: now}
	t.on = x
	t.givenTo(x)
	x.holds[t.ID] = held
	return held
}

// givenTo notes that a host has a task. The caller holds the lock.
func (t *item) givenTo(x *host) {
	if t.given == nil {
		t.given = map[string]bool{}
	}
	t.given[x.session] = true
}

// foreign says that a host, whose evaluator is of a class, cannot have a task from an earlier coordinator, and has it
// not from this one: another has it or had it, it is of this coordinator alone, or the host is of another class.
// The caller holds the lock.
func (t *item) foreign(x *host, class string) bool {
	switch {
	case t.given[x.session]:
		return false
	case len(t.given) > 0, t.Kind == kindAgain, t.Kind == kindCheck:
		return true
	}
	return class != t.of.class && t.of.class != ""
}

// enter notes the stage that a candidate is in. The caller holds the lock.
func (held *hold) enter(stage string) {
	held.stage, held.since = stage, time.Now()
	switch evaluator.Stage(stage) {
	case evaluator.StageParity, evaluator.StageSanitize, evaluator.StageBenchmark, evaluator.StageFinals:
		held.device = true
	}
	select { // a watcher sees the newest
	case <-held.item.enter:
	default:
	}
	select {
	case held.item.enter <- evaluator.Stage(stage):
	default:
	}
}

// isStage says whether a worker names a stage that there is.
func isStage(name string) bool {
	s := evaluator.Stage(name)
	return s == evaluator.StageFinals || slices.Contains(evaluator.Stages(), s)
}

// examine makes an error of a result that is none of the task's: what the search, the finals and the
// log take for granted must hold whatever a worker sends.
func (t *item) examine(m *done) {
	good := func(v evaluator.Verdict, fitness float64, timings []evaluator.Timing) string {
		for _, t := range timings {
			for _, ns := range slices.Concat(t.SamplesNS, t.BaselineNS, []float64{t.MedianNS, t.BaselineMedianNS, t.FloorNS}) {
				if !(ns >= 0 && ns <= mostNS) {
					return fmt.Sprintf("it tells of %v ns", ns)
				}
			}
		}
		switch {
		case !slices.Contains(evaluator.Verdicts(), v):
			return fmt.Sprintf("unknown verdict %.40q", v)
		case (v == evaluator.Correct || v == evaluator.Slower) && !(fitness >= 1/mostNS && fitness <= mostNS):
			return fmt.Sprintf("it is %s with the fitness %v", v, fitness)
		}
		return ""
	}
	why := ""
	switch finals := t.Kind == kindFinals; {
	case m.Error != "":
	case finals && m.Finals == nil, !finals && m.Result == nil:
		why = "there is none"
	case !finals:
		why = good(m.Result.Verdict, m.Result.Fitness, m.Result.Timings)
	case len(m.Finals.Entries) != len(t.Genomes):
		why = fmt.Sprintf("it tells of %d finalists, and there are %d", len(m.Finals.Entries), len(t.Genomes))
	case m.Finals.Winner < -1 || m.Finals.Winner >= len(t.Genomes):
		why = fmt.Sprintf("finalist %d wins of %d", m.Finals.Winner, len(t.Genomes))
	case m.Finals.Winner >= 0 && m.Finals.Entries[m.Finals.Winner].Verdict != evaluator.Correct:
		why = fmt.Sprintf("a finalist with the verdict %.40q wins", m.Finals.Entries[m.Finals.Winner].Verdict)
	case m.Finals.Early != nil && slices.ContainsFunc(m.Finals.Early.Unseparated, func(i int) bool { return i < 0 || i >= len(t.Genomes) }):
		why = "it does not separate the winner from a finalist that there is not"
	default:
		for _, e := range m.Finals.Entries {
			why = cmp.Or(why, good(e.Verdict, e.Fitness, slices.Concat(e.Timings, e.HeldOut)))
		}
	}
	if why != "" {
		m.Error = "the worker's result is not used: " + why
	}
	if m.Error != "" {
		m.Result, m.Finals = nil, nil
		m.Error = m.Error[:min(len(m.Error), mostText)]
	}
}

// dequeue takes a task out of the queue, if it is there. The caller holds the lock.
func (c *Campaign) dequeue(t *item) {
	same := func(o *item) bool { return o == t }
	c.queue = slices.DeleteFunc(c.queue, same)
	c.suspects = slices.DeleteFunc(c.suspects, same)
}

// struck takes a task from a host that was lost, perhaps together with others. The caller holds the lock.
func (c *Campaign) struck(held *hold, x *host, together bool, why string) {
	t := held.item
	if t.on != x || t.result != nil {
		return
	}
	t.on = nil
	switch t.Kind {
	case kindAgain, kindCheck:
		delete(c.items, t.ID)
		return
	}
	c.note(t, held.stage, EndLost, record.Attempt{Host: x.Name, Session: x.session, Device: held.device, Alone: held.alone, Together: together, Detail: why})
	t.strikes = append(t.strikes, strike{x.session, x.Name, held.stage, held.device, held.alone, together})
	c.requeue(t)
}

// acquit takes back what a host that was given up, and is there, is held against a task. The caller
// holds the lock.
func (c *Campaign) acquit(t *item, x *host) {
	before := len(t.strikes)
	t.strikes = slices.DeleteFunc(t.strikes, func(s strike) bool { return s.session == x.session })
	if len(t.strikes) == before || t.result != nil {
		return
	}
	c.note(t, "", EndReturned, record.Attempt{Host: x.Name, Session: x.session})
	if t.on == nil && !t.suspect() {
		c.dequeue(t)
		c.requeue(t)
	}
}

// lost tells the strikes of while a candidate ran from those of before. A host that was lost together with others is
// no strike: their network, or the process that all of them are in, is more likely the cause.
func (t *item) lost(device bool) (list []strike) {
	for _, s := range t.strikes {
		if s.device == device && !s.together {
			list = append(list, s)
		}
	}
	return list
}

// names are the hosts of strikes, each once.
func names(list []strike) (hosts []string) {
	for _, s := range list {
		hosts = append(hosts, s.host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// suspect says whether a task is to run alone. One that was compiled on a worker that was lost was
// one of many there: it is not, unless another host was lost with it as well, or the same one again.
func (t *item) suspect() bool {
	return len(t.lost(true)) > 0 || len(t.lost(false)) > 1 || t.unclear()
}

// unclear says that hosts were lost with a task again and again, and each time together with others: as when two
// candidates take down a host each at the same time. Such a task runs alone while no other suspect does.
func (t *item) unclear() bool {
	n := len(t.strikes) - len(t.lost(true)) - len(t.lost(false))
	return n >= mostStrikes
}

// convict gives a candidate its verdict if it has taken down workers: launch, the last two while it
// was alone on them, or compile. The caller holds the lock.
func (c *Campaign) convict(t *item) bool {
	list, verdict, what := t.lost(true), evaluator.Launch, "it ran on them, the last two while nothing else did"
	if n := len(list); n < mostStrikes || !list[n-1].alone || !list[n-2].alone {
		list, verdict, what = t.lost(false), evaluator.Compile, "they compiled it, the last while it did nothing else"
		n = len(list)
		if n < mostStrikes || !list[n-1].alone || len(names(list)) < mostStrikes && n < mostLosses {
			return false
		}
	}
	n := len(list)
	var hosts []string
	for _, s := range list {
		hosts = append(hosts, fmt.Sprintf("%s (%s)", s.host, cmp.Or(s.stage, "first stage")))
	}
	last := evaluator.Stage(list[n-1].stage)
	if verdict == evaluator.Compile {
		last = evaluator.StageCompile
	}
	why := fmt.Sprintf("%d workers were lost while %s: %s", n, what, strings.Join(hosts, ", "))
	m := &done{Task: t.ID, Error: why}
	if t.Kind != kindFinals {
		m = &done{Task: t.ID, Result: &evaluator.Result{
			Verdict: verdict, Stage: last, Reason: why,
			Steps: []evaluator.Step{{Stage: last, Outcome: evaluator.Failed, Evidence: []evaluator.Evidence{{
				Check: "the worker goes on", Outcome: evaluator.Failed, Value: float64(n), Unit: "workers", Detail: why,
			}}}},
		}}
	}
	t.settle(m)
	return true
}

// settle gives a task its result. The caller holds the lock.
func (t *item) settle(m *done) {
	t.of.dequeue(t)
	t.result = m
	close(t.arrived)
}

// arrived takes what a host says of a task. The first result counts. The caller holds the lock.
func (c *Campaign) arrived(t *item, x *host, m done) {
	switch t.Kind {
	case kindAgain:
		delete(c.items, t.ID)
		if m.Result != nil && m.Result.Verdict != evaluator.Infrastructure {
			c.again(t, x, *m.Result)
		}
		return
	case kindCheck:
		delete(c.items, t.ID)
		if r := c.reference; m.Result != nil && r != nil && r.Genomes[0] == t.Genomes[0] { // else there is another one by now
			c.checked(x, *m.Result)
		}
		return
	}
	if t.result != nil {
		c.noteLate(t, x, m)
		return
	}
	failed := m.Error
	if m.Result != nil && m.Result.Verdict == evaluator.Infrastructure {
		failed = cmp.Or(m.Result.Reason, "the machine failed it")
	}
	if failed != "" {
		c.failed(t, x, m, failed)
		return
	}
	x.failing = 0
	x.stats.Evaluated++
	if m.Result != nil {
		m.Result.Host = x.Name
	}
	if m.Finals != nil {
		m.Finals.Host = x.Name
	}
	t.by = x
	t.settle(&m)
	if m.Result != nil && m.Result.Verdict == evaluator.Correct {
		c.compare(t)
	}
}

// failed takes note that the machine failed a task: another host may do better. The caller holds
// the lock.
func (c *Campaign) failed(t *item, x *host, m done, why string) {
	x.stats.Failed++
	if x.failing++; x.failing >= mostFailing {
		c.hub.drain(x, fmt.Sprintf("it failed %d evaluations in a row, the last: %s", x.failing, why)) //nolint:errcheck // it was logged
	}
	if t.tried == nil {
		t.tried = map[string]string{}
	}
	t.tried[x.Name] = why
	c.note(t, "", EndFailed, record.Attempt{Host: x.Name, Session: x.session, Detail: why})
	others := false
	for o := range c.hosts {
		others = others || o.able() && !t.had(o)
	}
	if t.on == x {
		t.on = nil
	}
	if others && len(t.tried) < mostTries {
		if t.on == nil {
			c.requeue(t)
		}
		return
	}
	if m.Result == nil && t.Kind == kindCandidate {
		m.Result = &evaluator.Result{
			Verdict: evaluator.Infrastructure, Reason: why,
			Steps: []evaluator.Step{{Outcome: evaluator.NotRun, Evidence: []evaluator.Evidence{{Check: "infrastructure", Outcome: evaluator.NotRun, Detail: why}}}},
		}
	}
	if m.Result != nil {
		m.Result.Host = x.Name
	}
	t.settle(&m)
}

// Recorded says that the result of a candidate is durable in the log: workers may forget theirs.
func (c *Campaign) Recorded(candidate string) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	id := taskID(c.id, candidate, "")
	t := c.items[id]
	if t == nil || t.result == nil {
		return
	}
	delete(c.items, id)
	b := brief{index: t.Index, verdict: t.result.Result.Verdict, fitness: t.result.Result.Fitness, host: t.result.Result.Host, late: t.late, given: t.given}
	c.told[candidate] = b
}

// noteLate notes a result that came after another one, once for each worker. The caller holds the lock.
func (c *Campaign) noteLate(t *item, x *host, m done) {
	if m.Result == nil || t.by == x || slices.Contains(t.late, x.session) {
		return
	}
	t.late = append(t.late, x.session)
	x.stats.Late++
	c.note(t, "", EndLate, record.Attempt{Host: x.Name, Session: x.session, Verdict: m.Result.Verdict, Fitness: m.Result.Fitness})
	if t.by != nil {
		c.differ(t, t.by, x, *t.result.Result, *m.Result)
	}
}

// toldWithout says that a candidate was told already, and that a host never had it. The caller holds the lock.
func (c *Campaign) toldWithout(x *host, task string) bool {
	_, candidate := splitTask(task)
	b, told := c.told[candidate]
	return told && task == taskID(c.id, candidate, "") && !b.given[x.session]
}

// late takes a result of a candidate that was told already. The caller holds the lock.
func (c *Campaign) late(x *host, m done) {
	_, candidate := splitTask(m.Task)
	b, ok := c.told[candidate]
	if !ok || !b.given[x.session] || m.Result == nil || b.host == x.Name || slices.Contains(b.late, x.session) {
		return
	}
	b.late = append(b.late, x.session)
	c.told[candidate] = b
	x.stats.Late++
	c.note(&item{task: task{Index: b.index}, candidate: candidate}, "", EndLate, record.Attempt{Host: x.Name, Session: x.session, Verdict: m.Result.Verdict, Fitness: m.Result.Fitness})
}

// internal says whether a task is none of the search's.
func (c *Campaign) internal(id string) bool {
	_, candidate := splitTask(id)
	return candidate == ""
}

// note makes an attempt durable, later and in order. The caller holds the lock.
func (c *Campaign) note(t *item, stage, end string, a record.Attempt) {
	if c.o.Note == nil || t.candidate == "" {
		return
	}
	index, candidate := t.Index, t.candidate
	write := func() {
		e, err := record.NewAttempt(index, candidate, stage, end, a)
		if err == nil {
			err = c.o.Note(e)
		}
		if err != nil {
			c.hub.o.Logger.Error("an attempt is not in the log", "campaign", c.id, "candidate", candidate, "error", err)
		}
	}
	select {
	case c.hub.notes <- write:
	case <-c.hub.ended.Done():
	}
}
