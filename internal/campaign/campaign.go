// Package campaign drives a search: it asks a strategy for genomes, has an
// evaluator judge them, tells the strategy the results and logs all of it.
//
// # The path
//
// A campaign keeps up to Job.Window proposals in flight and tells results
// in the order in which they were proposed: proposal k is made when the search knows
// exactly the results 0..k-Window, and is compared with the best of these while it is
// timed. What the search sees, and what a candidate is asked to beat, therefore depend
// on the seed and on the results, never on who finished first, on how many workers there
// were, or on when a budget was changed.
//
// # The log
//
// Every proposal and every result is appended to the log in that same order,
// and is announced to the listener only once it is durable. A campaign is
// resumed by replaying its log into a fresh search of the same seed: nothing
// of the search's state is saved. A log that does not replay to itself is
// reported as [ErrDiverged]. When the search has a newer version than the one
// that wrote the log, the campaign starts the search afresh with the log's
// results as known, and says so.
//
// # A disturbed machine
//
// A result that the machine disturbed ([evaluator.Result.Disturbed]) is told to
// the search as a failure, like any other that is not the candidate's. When the
// search has ended such candidates are measured once more, which the log keeps
// as events of their own: they count in the finals and in every query, and the
// search is never told of them. Several such results in a row pause the campaign
// until the machine is calm; paused time counts towards no budget.
//
// # A candidate that ends evotune
//
// Where the log breaks off without a stop, a candidate may have done it, through a
// signal, the machine's memory or its driver. What was in flight then is evaluated
// alone, one after the other, and the log notes each stage before it begins
// ([store.KindAttempt]). A candidate that was running alone when evotune died a second
// time is not run again: its verdict is [evaluator.Launch]. A candidate that ran beside
// others keeps its verdict.
//
// # Caveats
//
// A person who kills evotune twice can hit one candidate with it, the second time
// while it runs alone: evotune cannot tell this from a crash that the candidate caused. Candidates are known by
// their genome: another that compiles to the same binary has to end evotune itself.
//
// Results that arrived out of turn are not durable before the ones proposed
// earlier: a crash loses at most Window evaluations in progress, none of which
// was acknowledged. A budget of money is checked between results, so candidates in
// flight may overrun it. What is in flight when a budget of time is over is given up, as
// in a crash (see time.go).
package campaign

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/search"
	"github.com/evotune/evotune/store"
)

// Errors that callers test for.
var (
	// ErrDiverged: replaying the log gave another proposal than the log holds.
	ErrDiverged = errors.New("the log does not replay to itself")
	// ErrInfrastructure: several evaluations in a row failed through no fault
	// of the candidates.
	ErrInfrastructure = errors.New("the machine keeps failing")
)

// maxInfrastructure is how many results in a row may be infrastructure
// failures before the campaign gives the machine up.
const maxInfrastructure = 5

// A Log keeps events. *store.Store is one.
type Log interface {
	// Append makes the events durable, in one transaction. It is safe for
	// concurrent use.
	Append(events ...store.Event) (first uint64, err error)
}

// A Problem is what is searched and who judges.
type Problem struct {
	Space     *genome.Space
	Evaluator evaluator.Evaluator
}

// Options say how a campaign runs here and now; they never change its path.
type Options struct {
	// Workers is how many candidates are evaluated at once. Zero means 1.
	Workers int
	// Log receives every event; nil keeps nothing.
	Log Log
	// Remote says that the evaluator has candidates run on other machines: none of them can
	// have ended this process.
	Remote bool
	// Begun is when this process began to prepare the evaluator; zero is when Run is called.
	Begun time.Time
	// Past holds the events of this campaign that the log already has, in
	// order; nil starts a new campaign.
	Past []store.Event
	// Listen, when not nil, is called from one goroutine, in order.
	Listen func(Event)
	// OnStage, when not nil, is called from the workers: with an empty stage when
	// they take a candidate, with the stages it enters, and with an empty
	// candidate when they are idle.
	OnStage func(worker int, candidate string, stage evaluator.Stage)
	// Drain, when it is closed, ends the campaign after the candidates that
	// are being evaluated.
	Drain <-chan struct{}
	// Budgets gives budgets that take the place of the campaign's. It is received
	// from until the search has come to rest.
	Budgets <-chan record.Budget
	// SearchOnly leaves second measurements and finals to a resumption without it. The
	// log has a stop then, whose reason begins with SearchedBy and names what ended the
	// search.
	SearchOnly bool
}

// SearchedBy begins the reason of a stop by Options.SearchOnly.
const SearchedBy = "searched: "

// Exhausted is what ends a search whose strategy has nothing more to propose.
const Exhausted = "every valid genome was evaluated"

// CandidateID names a genome within a campaign: the first 16 hex digits of the
// SHA-256 of both.
func CandidateID(campaign string, g genome.Genome) string {
	sum := sha256.Sum256([]byte(campaign + "\n" + g.String()))
	return hex.EncodeToString(sum[:8])
}

// Run runs a campaign, or resumes it when o.Past has events. It returns when
// the budget is spent and the finals are done, when Drain is closed and the
// candidates in flight are done, or when ctx ends; in the last two cases the
// summary is not Complete and the campaign can be resumed. The error is not nil
// when evotune or the machine failed; all that was announced is in the log
// even then.
func Run(ctx context.Context, p Problem, cfg record.Job, o Options) (Finished, error) {
	cfg = WithDefaults(cfg)
	if err := Validate(cfg); err != nil {
		return Finished{}, err
	}
	o.Workers = max(o.Workers, 1)
	r := &runner{
		problem: p, cfg: cfg, opts: o,
		verdicts: map[evaluator.Verdict]int{},
		arrived:  map[int]evaluator.Result{},
		origins:  map[genome.Genome]string{},
		binaries: map[string]int{},
		start:    o.Begun,
	}
	if r.start.IsZero() {
		r.start = time.Now()
	} else {
		r.prepared = time.Since(r.start)
	}
	if err := r.open(); err != nil {
		return Finished{}, err
	}
	return r.run(ctx)
}

// A candidate is a proposal and, once told, what is worth remembering of its
// result.
type candidate struct {
	id       string
	genome   genome.Genome
	operator string
	parents  []string
	// incumbent is the best fitness that was known when it was proposed, or zero.
	incumbent float64
	told      bool
	// disturbed: the machine disturbed the measurement that the search was told
	// of; again: the figures are those of a second one.
	disturbed, again bool
	verdict          evaluator.Verdict
	figures          record.Figures
	binary           string
}

type runner struct {
	problem  Problem
	cfg      record.Job
	opts     Options
	strategy search.Strategy

	past     past
	start    time.Time
	prepared time.Duration // from start until there was a search
	rested   time.Time     // when the finals began; zero before that
	buffer   []store.Event // not yet durable
	notes    []Event       // to be announced once the buffer is durable

	candidates []candidate
	binaries   map[string]int           // by hash, the first correct candidate that was told
	known      []search.Known           // of an older search's log
	origins    map[genome.Genome]string // stored candidates that Job.Start was taken from
	offset     int                      // index of the strategy's proposal 0
	told       int                      // results 0..told-1 are in the log
	learned    int                      // results 0..learned-1 are known to the strategy
	standard   float64                  // the best fitness of these, or zero
	queue      []int                    // proposed, not handed to a worker
	late       bool                     // the time is over: what is in the queue stays there
	running    int                      // handed to a worker, not arrived
	arrived    map[int]evaluator.Result
	verdicts   map[evaluator.Verdict]int
	awaited    bool // the first window goes on though the time is over
	best       int  // index into candidates, or -1
	bestAt     int
	failures   int    // infrastructure results in a row
	disturbed  int    // disturbed results since the last that was timed
	disturbs   string // what disturbed the last of them
	gate       gate   // closed while the campaign is paused
	reason     string // why proposing has stopped; "" while it goes on
	interrupt  bool
	exhausted  bool

	paused   time.Duration // wall time of this process that does not count
	pausedAt time.Time     // since when no time counts; zero while it does

	flight context.Context    // of what is in flight
	cut    context.CancelFunc // gives it up
	costs  []time.Duration    // of the newest evaluations

	// How the search went, noted when it came to rest.
	resting   bool
	perMinute float64
	usage     *evaluator.Usage
}

// open makes the strategy and reads the past.
func (r *runner) open() error {
	r.best = -1
	if err := r.past.read(r.opts.Past, r.opts.Remote); err != nil {
		return err
	}
	version := search.Version(r.cfg.Strategy)
	if r.past.restart(version) {
		// The results of the log are known, its path is over.
		r.warn("the search has changed since this campaign was last run (version %d, now %d): it starts afresh, knowing the %d results of the log",
			r.past.oldVersion, version, r.past.Evaluated)
	}
	r.offset = r.past.Offset
	for i := range r.offset {
		if err := r.recall(i); err != nil {
			return err
		}
	}
	start, err := r.starts()
	if err != nil {
		return err
	}
	s, err := search.New(r.cfg.Strategy, r.problem.Space, search.Options{Seed: r.cfg.SearchSeed(), Known: r.known, Start: start})
	if err != nil {
		return err
	}
	r.strategy, r.learned, r.standard = s, r.offset, r.incumbent()
	if r.past.Started == nil {
		return r.logStart(version)
	}
	if err := r.logResume(store.Resumed, r.past.Evaluated); err != nil {
		return err
	}
	r.suspect()
	return nil
}

func (r *runner) logStart(version int) error {
	started, err := record.NewStarted(r.cfg, r.problem.Evaluator.Describe(), version, r.prepared)
	if err != nil {
		return err
	}
	r.log(store.Event{Kind: store.KindStarted, Started: started})
	return nil
}

func (r *runner) logResume(reason string, evaluated int) error {
	resumption := record.Resumption{SearchVersion: search.Version(r.cfg.Strategy), Offset: r.offset, Budget: &r.cfg.Budget}
	switch reason {
	case store.InFinals:
		resumption.Searched = r.reason
	case store.Resumed:
		resumption.Prepared = r.prepared
	}
	note, err := resumption.Note(reason, evaluated)
	r.log(store.Event{Kind: store.KindResumed, Note: note})
	return err
}

// recall takes proposal i of an earlier search's path from the log.
func (r *runner) recall(i int) error {
	pc := r.past.Proposals[i]
	g, err := r.problem.Space.Parse(pc.Genome)
	if err != nil {
		return fmt.Errorf("campaign: the log's candidate %s is not a genome of this space: %w", pc.Candidate, err)
	}
	c := candidate{id: pc.Candidate, genome: g, operator: pc.Operator, parents: pc.Parents}
	if t := pc.Told; t != nil {
		c.recall(t)
		r.known = append(r.known, search.Known{Genome: g, Outcome: c.outcome()})
		r.verdicts[c.verdict]++
	}
	r.candidates = append(r.candidates, c)
	r.told = i + 1
	r.consider(i)
	return nil
}

func (r *runner) run(parent context.Context) (Finished, error) {
	// Workers see a context of their own, so that they finish what they hold
	// when the campaign drains and stop at once when ctx ends.
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	group, wctx := errgroup.WithContext(ctx)
	jobs := make(chan job)
	results := make(chan result)
	for w := range r.opts.Workers {
		group.Go(func() error { return r.work(wctx, w, jobs, results) })
	}
	interrupted := func() bool { return parent.Err() != nil }
	r.rush()
	err := r.coordinate(wctx, jobs, results)
	if err != nil {
		cancel() // let no worker wait for a coordinator that is gone
	}
	if errors.Is(err, errHeld) {
		err = nil
	}
	close(jobs)
	if werr := group.Wait(); werr != nil && !errors.Is(werr, context.Canceled) {
		err = werr
	}
	if interrupted() && (err == nil || errors.Is(err, context.Canceled)) {
		r.interrupt, err = true, nil
	}
	if err != nil {
		return r.finish(r.stopped(err.Error()), err)
	}
	if r.interrupt {
		return r.finish(r.stopped("interrupted"), nil)
	}
	r.rest()
	r.notes = append(r.notes, Event{Searched: &Searched{Reason: r.reason, Evaluated: r.evaluated()}})
	if r.opts.SearchOnly {
		return r.finish(r.stopped(SearchedBy+r.reason), nil)
	}
	if err := r.flush(); err != nil {
		return r.finish(r.stopped(err.Error()), err)
	}
	err = r.measureAgain(ctx)
	if r.interrupt && err == nil {
		return r.finish(r.stopped("interrupted before the finals"), nil)
	}
	var best *Best
	if err == nil {
		best, err = r.finals(ctx)
	}
	if err != nil {
		if interrupted() {
			return r.finish(r.stopped("interrupted during the finals"), nil)
		}
		return r.finish(r.stopped(err.Error()), err)
	}
	f := r.summary()
	f.Best, f.Complete = best, true
	r.log(store.Event{Kind: store.KindFinished, Note: &store.Note{Reason: f.Reason, Evaluated: f.Evaluated}})
	return r.finish(f, nil)
}

// coordinate asks, tells and logs until the budget is spent or the campaign is
// drained. It is the one goroutine that touches the runner.
func (r *runner) coordinate(ctx context.Context, jobs chan<- job, results <-chan result) error {
	drain := r.opts.Drain
	timer := time.NewTimer(0)
	defer timer.Stop()
	var clock <-chan time.Time
	restart := func() {
		clock = nil
		if left, limited := r.left(); limited {
			if r.awaited {
				left = max(left, r.overtime())
			}
			timer.Reset(max(0, left))
			clock = timer.C
		}
	}
	restart()
	r.flight, r.cut = context.WithCancel(ctx)
	defer func() { r.cut() }() // another one, perhaps
	// Without a log nothing is read back, and the start is announced at once.
	r.announceStart()
	for {
		select {
		case <-drain:
			// Proposing goes on, so that the log reads as if nothing had
			// happened; what no worker holds waits for a resumption.
			drain = nil
			r.interrupt = true
		default:
		}
		if err := r.propose(ctx); err != nil {
			return err
		}
		if res, ok := r.arrived[r.told]; ok && !r.proposing() {
			delete(r.arrived, r.told)
			if err := r.tell(res); err != nil {
				return err
			}
			continue
		}
		if err := r.flush(); err != nil {
			return err
		}
		select { // one that is there already is not too late
		case b, ok := <-r.opts.Budgets:
			if err := r.rebudget(b, ok); err != nil {
				return err
			}
			restart()
			continue
		default:
		}
		awaited := r.awaited
		if r.hurry(); r.awaited && !awaited {
			restart()
		}
		if r.running == 0 && !r.more() && !r.proposing() {
			if _, ok := r.arrived[r.told]; ok { // it came while the window was filled, and the end with it
				continue
			}
			return nil
		}
		if r.disturbed >= maxDisturbed && !r.interrupt {
			if err := r.pause(ctx); err != nil {
				return err
			}
			if r.interrupt {
				return errHeld
			}
			restart()
			continue
		}
		var out chan<- job
		var next job
		if r.more() {
			if r.flight.Err() != nil && ctx.Err() == nil { // there is more time now
				r.flight, r.cut = context.WithCancel(ctx)
			}
			i := r.queue[0]
			next = job{ctx: r.flight, index: i, id: r.candidates[i].id, genome: r.candidates[i].genome, incumbent: r.candidates[i].incumbent, alone: r.isolate(i)}
			if r.running == 0 || !r.isolate(r.told) {
				out = jobs
			}
		}
		var further <-chan time.Time // while there is more to propose, what is there already goes first, and nothing is waited for
		if r.proposing() {
			further = time.After(time.Millisecond)
		}
		select {
		case <-further:
		case out <- next:
			r.queue = r.queue[1:]
			r.running++
		case res := <-results:
			r.running--
			if res.cut { // a resumption evaluates it, or this process with more time
				at, _ := slices.BinarySearch(r.queue, res.index)
				r.queue = slices.Insert(r.queue, at, res.index)
				continue
			}
			r.arrived[res.index] = res.result
			r.account(res.result)
			r.costs = append(r.costs[max(0, len(r.costs)-recentCosts+1):], res.result.Cost)
			restart() // the finals' time is known better
		case <-clock:
			clock = nil
		case b, ok := <-r.opts.Budgets:
			if err := r.rebudget(b, ok); err != nil {
				return err
			}
			restart()
		case <-drain: // seen before more is proposed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// proposingTime is how long the search may propose before workers, budgets and a drain are looked
// after: where many proposals are in flight, each takes long.
const proposingTime = 200 * time.Millisecond

// proposing says that propose is to go on. No result is told before: the log has the same order
// however long proposing takes.
func (r *runner) proposing() bool {
	return len(r.candidates)-r.told < r.cfg.Window && !r.exhausted && !r.interrupt && (r.reason == "" || len(r.candidates) < len(r.past.Proposals))
}

// propose asks the strategy until the window is full, or for proposingTime.
func (r *runner) propose(ctx context.Context) error {
	begun := time.Now()
	for n := 0; len(r.candidates)-r.told < r.cfg.Window && !r.exhausted; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if n > 0 && time.Since(begun) > proposingTime {
			return nil
		}
		if r.interrupt && len(r.candidates)-r.told < r.cfg.Window-1 {
			return nil // it was not full yet: a resumption fills it
		}
		replaying := len(r.candidates) < len(r.past.Proposals)
		if r.reason != "" && !replaying {
			return nil
		}
		if n := r.cfg.Budget.Evaluations; n > 0 && len(r.candidates) >= n && !replaying {
			r.stop(spent(r.cfg.Budget, 0, n, 0, 0))
			return nil
		}
		for ; r.learned <= len(r.candidates)-r.cfg.Window; r.learned++ {
			r.learn(r.learned)
		}
		p, ok := r.strategy.Ask()
		if !ok {
			r.exhausted = true
			r.stopExhausted()
			return nil
		}
		if err := r.accept(p); err != nil {
			return err
		}
	}
	return nil
}

// learn tells the strategy the result of candidate i. Results that are in the log already
// wait for the proposal that is made after them: where a budget ended proposing and
// another one goes on, the path is as if it had been there from the start.
func (r *runner) learn(i int) {
	c := &r.candidates[i]
	r.strategy.Tell(i-r.offset, c.outcome())
	if c.verdict == evaluator.Correct && (r.standard == 0 || c.figures.Fitness < r.standard) {
		r.standard = c.figures.Fitness
	}
}

// accept takes one proposal: from the log if it is there, otherwise to be
// evaluated.
func (r *runner) accept(p search.Proposal) error {
	i := len(r.candidates)
	c := candidate{
		id: CandidateID(r.cfg.ID, p.Genome), genome: p.Genome, operator: p.Operator,
		parents: r.parentIDs(p.Parents), incumbent: r.standard,
	}
	if from := r.origins[p.Genome]; from != "" {
		c.parents = []string{from}
	}
	r.candidates = append(r.candidates, c)
	if i < len(r.past.Proposals) {
		if logged := r.past.Proposals[i]; logged.Genome != p.Genome.String() || logged.Operator != p.Operator {
			return fmt.Errorf("campaign %s: %w: proposal %d is %s by %s, the log has %s by %s",
				r.cfg.ID, ErrDiverged, i, p.Genome, p.Operator, logged.Genome, logged.Operator)
		}
		if r.past.proposal(i).Told != nil {
			r.arrived[i] = evaluator.Result{} // tell reads the log's record
			return nil
		}
	} else {
		r.log(store.Event{Kind: store.KindAsked, Asked: &store.Asked{
			Index: i, Candidate: c.id, Genome: p.Genome.String(), Operator: c.operator, Parents: c.parents,
		}})
	}
	if a := r.past.culprit(c.id); a != nil {
		r.arrived[i] = verdictOn(*a)
		return nil
	}
	r.queue = append(r.queue, i)
	return nil
}

func (r *runner) parentIDs(indexes []int) []string {
	ids := make([]string, 0, len(indexes))
	for _, p := range indexes {
		ids = append(ids, r.candidates[r.offset+p].id)
	}
	return ids
}

// tell passes the next result on to the log; propose passes it on to the search.
func (r *runner) tell(res evaluator.Result) error {
	i := r.told
	c := &r.candidates[i]
	if logged := r.past.proposal(i).Told; logged != nil {
		c.recall(logged)
		r.first(i)
		r.told++
		r.verdicts[c.verdict]++
		r.consider(i)
		return nil
	}
	res, err := r.share(res)
	if err != nil {
		return err
	}
	t, err := c.judged(i, res)
	if err != nil {
		return err
	}
	r.told++
	r.first(i)
	r.verdicts[c.verdict]++
	record := r.consider(i)
	r.log(store.Event{Kind: store.KindTold, Told: t})
	if r.opts.Listen != nil {
		r.notes = append(r.notes, Event{Evaluated: r.announced(i, res, record)})
	}
	if err := r.failed(res); err != nil {
		return err
	}
	if r.reason == "" && len(r.candidates) >= len(r.past.Proposals) {
		r.stopSpent()
	}
	return nil
}

// first notes a correct candidate as the first of its binary that was told.
func (r *runner) first(i int) {
	c := r.candidates[i]
	if _, known := r.binaries[c.binary]; !known && c.binary != "" && c.verdict == evaluator.Correct {
		r.binaries[c.binary] = i
	}
}

// share gives a candidate the times of the first that was told and is the same binary. An evaluator
// shares what it knows; what several of them know, or one that was opened again, is decided
// here, where the order is that of the proposals.
func (r *runner) share(res evaluator.Result) (evaluator.Result, error) {
	k, ok := r.binaries[res.Binary]
	if !ok || res.Verdict != evaluator.Correct || res.Fitness == r.candidates[k].figures.Fitness {
		return res, nil
	}
	log, ok := r.opts.Log.(interface {
		Candidate(idOrPrefix string) (store.Candidate, error)
	})
	if !ok {
		return res, nil
	}
	if err := r.flush(); err != nil { // it may have been told just now
		return res, err
	}
	c, err := log.Candidate(r.candidates[k].id)
	if err != nil {
		return res, fmt.Errorf("campaign %s: %w", r.cfg.ID, err)
	}
	if c.Told == nil {
		return res, nil
	}
	timings, _, err := record.ReadTimings(c.Told)
	if err != nil {
		return res, err
	}
	res.Timings, res.Fitness, res.SharedWith = timings, c.Told.Fitness, r.candidates[k].genome.String()
	return res, nil
}

// stopSpent ends proposing if a limit has been reached. Evaluations are counted when
// proposing.
func (r *runner) stopSpent() {
	b := r.cfg.Budget
	b.Evaluations = 0
	r.stop(spent(b, r.elapsed(), r.told, r.told-1-r.bestAt, r.incumbent()))
	if left, limited := r.left(); limited && left <= 0 {
		r.stop(r.timeSpent())
	}
}

// stopExhausted ends proposing since the strategy has no more to propose.
func (r *runner) stopExhausted() {
	if len(r.candidates)-r.offset+len(r.known) > 0 {
		r.stop(Exhausted)
	}
}

// more says whether the next proposal in the queue is to be evaluated by this process.
// What the budget no longer covers stays unevaluated until a resumption.
func (r *runner) more() bool {
	n := r.cfg.Budget.Evaluations
	return len(r.queue) > 0 && !r.interrupt && !r.late && (n == 0 || r.queue[0] < n)
}

// rebudget takes what Options.Budgets gave: a budget that replaces the one there is, for
// later resumptions too. A limit that ended the search ends it no more, unless it does by
// the new budget.
func (r *runner) rebudget(b record.Budget, ok bool) error {
	if !ok {
		r.opts.Budgets = nil
		return nil
	}
	if err := b.Validate(); err != nil {
		r.warn("the budget stays as it is: %v", err)
		return nil
	}
	r.cfg.Budget = b
	if err := r.logResume(store.NewBudget, r.evaluated()); err != nil {
		return err
	}
	r.notes = append(r.notes, Event{Budget: &b})
	r.reason, r.late = "", false
	if r.exhausted {
		r.stopExhausted()
	}
	if n := b.Evaluations; n > 0 && len(r.candidates) >= n {
		r.stop(spent(b, 0, n, 0, 0))
	}
	r.stopSpent()
	r.hurry()
	return nil
}

// judged takes the result of candidate i, and makes what the log keeps of it.
func (c *candidate) judged(i int, res evaluator.Result) (*store.Told, error) {
	t, err := record.NewTold(i, c.id, res)
	c.take(t, res.Binary, res.Disturbed)
	return t, err
}

// recall takes a result back from the log.
func (c *candidate) recall(t *store.Told) {
	binary, disturbed, _ := record.ReadBinary(t) // a damaged one costs only the recognition of equal binaries, and of what to measure again
	c.take(t, binary, disturbed)
}

func (c *candidate) take(t *store.Told, binary, disturbed string) {
	c.told = true
	c.verdict, c.figures = evaluator.Verdict(t.Verdict), record.ToldFigures(t, false)
	c.binary, c.disturbed = binary, disturbed != ""
}

// announced is what is said of candidate i.
func (r *runner) announced(i int, res evaluator.Result, record bool) *Evaluated {
	c := r.candidates[i]
	return &Evaluated{
		Index: i, Candidate: c.id, Genome: c.genome, Operator: c.operator, Parents: c.parents,
		Result: res, Record: record, Progress: r.progress(),
	}
}

// consider makes candidate i the best if it is.
func (r *runner) consider(i int) bool {
	c := &r.candidates[i]
	if c.verdict != evaluator.Correct || (r.best >= 0 && c.figures.Fitness >= r.candidates[r.best].figures.Fitness) {
		return false
	}
	r.best, r.bestAt = i, i
	return true
}

// stop ends proposing; the first reason stays.
func (r *runner) stop(reason string) {
	if r.reason == "" {
		r.reason = reason
	}
}

// incumbent is the best fitness so far, or zero.
func (r *runner) incumbent() float64 {
	if r.best < 0 {
		return 0
	}
	return r.candidates[r.best].figures.Fitness
}

// ran is the wall time of this process, and elapsed that of the campaign, earlier
// runs included. Paused time is in neither.
func (r *runner) ran() time.Duration {
	now := time.Now()
	if !r.pausedAt.IsZero() {
		now = r.pausedAt
	}
	return now.Sub(r.start) - r.paused
}
func (r *runner) elapsed() time.Duration { return r.past.Spent() + r.ran() }

// phases are the parts of elapsed.
func (r *runner) phases() record.Phases {
	p := r.past.Phases()
	p.Prepared += r.prepared
	if !r.rested.IsZero() {
		p.Finals += time.Since(r.rested)
	}
	p.Searched = r.elapsed() - p.Prepared - p.Finals
	return p
}

// log queues an event for the next transaction.
func (r *runner) log(e store.Event) {
	if r.opts.Log == nil {
		return
	}
	e.Campaign = r.cfg.ID
	e.Time = time.Now().UTC()
	redact(&e)
	r.buffer = append(r.buffer, e)
}

// redact takes tokens out of what compilers, candidates and errors say.
func redact(e *store.Event) {
	switch {
	case e.Note != nil:
		e.Note.Reason = string(words.Redact([]byte(e.Note.Reason)))
	case e.Result() != nil:
		t := e.Result()
		t.Detail = words.Redact(t.Detail)
	case e.Finals != nil:
		e.Finals.Detail = words.Redact(e.Finals.Detail)
	}
}

// flush makes the queued events durable and announces them.
func (r *runner) flush() error {
	if len(r.buffer) > 0 {
		if _, err := r.opts.Log.Append(r.buffer...); err != nil {
			// What is not durable is never announced.
			r.buffer, r.notes = nil, nil
			return fmt.Errorf("campaign %s: %w", r.cfg.ID, err)
		}
		r.buffer = r.buffer[:0]
	}
	if r.opts.Listen != nil {
		for _, e := range r.notes {
			e.Time = time.Now()
			r.opts.Listen(e)
		}
	}
	r.notes = r.notes[:0]
	return nil
}

func (r *runner) announceStart() {
	if r.opts.Listen == nil {
		return
	}
	r.notes = append(r.notes, Event{Started: &Started{
		Campaign: r.cfg.ID, Config: r.cfg, Description: r.problem.Evaluator.Describe(),
		SpaceSize: r.problem.Space.Size(), SpaceExact: r.problem.Space.Exact(),
		Workers: r.opts.Workers, Resumed: r.past.Evaluated, Spent: r.past.Spent(), Prepared: r.prepared,
	}})
}

func (r *runner) warn(format string, args ...any) {
	r.notes = append(r.notes, Event{Warning: fmt.Sprintf(format, args...)})
}

// stopped logs that the campaign can be resumed.
func (r *runner) stopped(reason string) Finished {
	r.reason = ""
	r.stop(reason)
	f := r.summary()
	r.log(store.Event{Kind: store.KindStopped, Note: &store.Note{Reason: reason, Evaluated: f.Evaluated}})
	return f
}

// finish flushes, announces the end and returns it. cause is what ended the
// campaign early, or nil.
func (r *runner) finish(f Finished, cause error) (Finished, error) {
	if r.opts.Listen != nil {
		r.notes = append(r.notes, Event{Finished: &f})
	}
	if err := r.flush(); err != nil && cause == nil {
		cause = err
	}
	return f, cause
}

// rest notes, once, how the search went before anything else begins.
func (r *runner) rest() {
	if r.resting {
		return
	}
	r.resting, r.opts.Budgets = true, nil
	if d := r.ran() - r.prepared; d > 0 {
		r.perMinute = float64(r.evaluated()-r.past.Evaluated) / d.Minutes()
	}
	if u, ok := evaluator.UsageOf(r.problem.Evaluator); ok {
		u.Stages, u.Waiting = nil, nil // nothing is under way
		r.usage = &u
	}
}

func (r *runner) summary() Finished {
	r.rest()
	p := r.progress()
	return Finished{
		Campaign: r.cfg.ID, Evaluated: p.Evaluated, Verdicts: p.Verdicts, Best: p.Best, SpaceSize: r.problem.Space.Size(),
		PerMinute: r.perMinute, Usage: r.usage, Sanitized: r.cfg.Sanitized(), Reason: r.reason, Elapsed: p.Elapsed, Phases: r.phases(),
	}
}

func (r *runner) progress() Progress {
	p := Progress{Evaluated: r.evaluated(), Verdicts: map[evaluator.Verdict]int{}, Elapsed: r.elapsed(), Remaining: -1}
	for v, n := range r.verdicts {
		p.Verdicts[v] = n
	}
	if r.best >= 0 {
		c := r.candidates[r.best]
		p.Best = &Best{
			Candidate: c.id, Genome: c.genome, AllTimes: evaluator.AllTimes(c.figures.Times), Speedup: c.figures.Speedup(), Measured: c.figures.From,
		}
	}
	b := r.cfg.Budget
	if b.Time > 0 {
		p.Remaining = max(0, b.Time-r.used())
	}
	if d := costs(b); d > 0 && (p.Remaining < 0 || d-p.Elapsed < p.Remaining) {
		p.Remaining = max(0, d-p.Elapsed)
	}
	fresh := p.Evaluated - r.past.Evaluated
	if b.Evaluations > 0 && fresh > 0 {
		left := time.Duration(min(float64(r.ran()-r.prepared)/float64(fresh)*float64(b.Evaluations-p.Evaluated), float64(record.MaxTime)))
		if p.Remaining < 0 || left < p.Remaining {
			p.Remaining = max(0, left)
		}
	}
	return p
}

// evaluated counts the results told, and those of the log that are not read yet.
func (r *runner) evaluated() int {
	n := 0
	for _, k := range r.verdicts {
		n += k
	}
	return max(n, r.past.Evaluated)
}

// outcome is what the search is told: what the log has of it, without the cost, so that
// a resumption tells the same.
func (c *candidate) outcome() search.Outcome {
	timed := c.verdict == evaluator.Correct || c.verdict == evaluator.Slower
	return search.Outcome{OK: timed, Fitness: c.figures.Fitness}
}
