package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// A Moment of a campaign in a service: an event as a campaign in this process would send it,
// or the campaign's state in the service.
type Moment struct {
	// ID is the number of the event in the log; 0 for a Status, and for events that are
	// reported once they are certain.
	ID uint64
	// Event is nil for a Status.
	Event  *evotune.Event
	Status *Status
}

// Follow follows a campaign like [Client.Events], but yields the events that
// evotune.Options.Listen gets, as far as a service sends them. Each genome has its own
// space. Finished comes once, when the campaign has ended or is paused, and Follow ends
// then.
func (c *Client) Follow(ctx context.Context, id string) iter.Seq2[Moment, error] {
	return c.follow(ctx, id, false)
}

// Attach is Follow, but first summarizes what has happened: beginnings, pauses, the best so
// far and the finals.
func (c *Client) Attach(ctx context.Context, id string) iter.Seq2[Moment, error] {
	return c.follow(ctx, id, true)
}

func (c *Client) follow(ctx context.Context, id string, short bool) iter.Seq2[Moment, error] {
	return func(yield func(Moment, error) bool) {
		f := follower{verdicts: map[evaluator.Verdict]int{}, warned: map[string]bool{}}
		for e, err := range c.events(ctx, id, 0, short) {
			if err != nil {
				yield(Moment{}, err)
				return
			}
			if e.Kind == "state" {
				s := new(Status)
				if err := json.Unmarshal(e.Data, s); err != nil {
					yield(Moment{}, fmt.Errorf("%s: an event cannot be read: %w", c.address, err))
					return
				}
				f.status = s
				if !yield(Moment{Status: s}, nil) {
					return
				}
				if s.State == Paused && s.Progress == nil {
					break
				}
				continue
			}
			told, err := f.event(e)
			if err != nil {
				yield(Moment{}, fmt.Errorf("%s: the event %s number %d cannot be read: %w", c.address, e.Kind, e.ID, err))
				return
			}
			if told != nil && !yield(Moment{ID: e.ID, Event: told}, nil) {
				return
			}
		}
		if f.end != nil {
			yield(Moment{Event: f.end}, nil)
		}
	}
}

// A follower remembers what later events of a campaign need.
type follower struct {
	status   *Status
	started  *evotune.Started
	budget   evotune.Budget // the newest
	begun    time.Time
	paused   time.Duration // of this run
	fresh    int           // results of this run
	until    uint64        // results until this event are already in fresh and verdicts
	verdicts map[evaluator.Verdict]int
	best     *evotune.Best
	warned   map[string]bool // warnings after the newest event with a number
	end      *evotune.Event  // the newest stop or end; the campaign may continue after it
}

// event returns an event as a campaign sends it; nil if it is not reported at once.
func (f *follower) event(e Event) (*evotune.Event, error) {
	out := &evotune.Event{Time: e.Time.Local()}
	if f.started == nil && e.Kind != "started" && e.Kind != "past" {
		return nil, errors.New("it comes before the campaign has started")
	}
	if e.ID > 0 {
		clear(f.warned)
	}
	switch e.Kind {
	case "warning":
		if f.warned[string(e.Data)] { // repeated after the connection was lost
			return nil, nil
		}
		f.warned[string(e.Data)] = true
		var told Warning
		err := json.Unmarshal(e.Data, &told)
		out.Warning = told.Message
		return out, err
	case "past":
		var told Past
		if err := json.Unmarshal(e.Data, &told); err != nil {
			return nil, err
		}
		f.until, f.fresh = told.Until, told.Fresh
		maps.Copy(f.verdicts, told.Verdicts)
		return nil, nil
	case "started":
		out.Started = new(evotune.Started)
		if err := json.Unmarshal(e.Data, out.Started); err != nil {
			return nil, err
		}
		f.started, f.budget, f.begun, f.paused, f.end = out.Started, out.Started.Config.Budget, e.Time, 0, nil
		if e.ID > f.until {
			f.fresh = 0
		}
	case "evaluated", "measured":
		told, err := f.evaluated(e)
		if err != nil {
			return nil, err
		}
		if e.Kind == "measured" {
			out.Measured = told
		} else {
			out.Evaluated = told
		}
	case "paused":
		out.Paused = new(evotune.Paused)
		return out, json.Unmarshal(e.Data, out.Paused)
	case "continued":
		out.Continued = new(evotune.Continued)
		if err := json.Unmarshal(e.Data, out.Continued); err != nil {
			return nil, err
		}
		f.paused += out.Continued.After
	case "budget":
		out.Budget = new(evotune.Budget)
		if err := json.Unmarshal(e.Data, out.Budget); err != nil {
			return nil, err
		}
		f.budget = *out.Budget
	case "searched":
		out.Searched = new(evotune.Searched)
		return out, json.Unmarshal(e.Data, out.Searched)
	case "finals":
		var told Comparison
		if err := json.Unmarshal(e.Data, &told); err != nil {
			return nil, err
		}
		var err error
		out.Finals, err = finalsOf(told)
		return out, err
	case "stopped", "finished":
		var err error
		if out.Finished, err = f.finished(e); err != nil {
			return nil, err
		}
		f.end = out
		return nil, nil
	default:
		return nil, nil // from a newer service
	}
	return out, nil
}

func (f *follower) evaluated(e Event) (*evotune.Evaluated, error) {
	var told Evaluated
	if err := json.Unmarshal(e.Data, &told); err != nil {
		return nil, err
	}
	g, err := genome.Alone(told.Encoding)
	if err != nil {
		return nil, err
	}
	out := &evotune.Evaluated{
		Index: told.Index, Candidate: told.Candidate, Genome: g, Operator: told.Operator, Parents: told.Parents, Record: told.Record,
		Result: evaluator.Result{
			Verdict: told.Verdict, Stage: told.Stage, Reason: told.Reason, Disturbed: told.Disturbed, Fitness: told.Fitness, Cost: told.CostNS,
		},
	}
	if told.MedianNS > 0 {
		out.Result.Timings = []evaluator.Timing{{MedianNS: told.MedianNS, BaselineMedianNS: told.BaselineNS}}
	}
	if e.Kind == "measured" {
		return out, nil
	}
	if e.ID > f.until {
		f.fresh++
		f.verdicts[told.Verdict]++
	}
	if told.Record {
		f.best = &evotune.Best{Candidate: told.Candidate, Genome: g, AllTimes: evaluator.AllTimes(told.Times), Speedup: 1 / told.Fitness}
	}
	out.Progress = f.progress(e.Time)
	return out, nil
}

// progress summarizes the campaign.
func (f *follower) progress(at time.Time) evotune.Progress {
	ran := at.Sub(f.begun) - f.paused
	p := evotune.Progress{Verdicts: maps.Clone(f.verdicts), Best: f.best, Elapsed: f.started.Spent + f.started.Prepared + ran, Remaining: -1}
	for _, n := range f.verdicts {
		p.Evaluated += n
	}
	b := f.budget
	if b.Time > 0 {
		p.Remaining = max(0, b.Time-p.Elapsed)
	}
	if left := b.Evaluations - p.Evaluated; b.Evaluations > 0 && f.fresh > 0 {
		d := time.Duration(min(ran.Seconds()/float64(f.fresh)*float64(max(0, left)), evotune.MaxTime.Seconds()) * float64(time.Second))
		if p.Remaining < 0 || d < p.Remaining {
			p.Remaining = d
		}
	}
	return p
}

func (f *follower) finished(e Event) (*evotune.Finished, error) {
	var told Outcome
	if err := json.Unmarshal(e.Data, &told); err != nil {
		return nil, err
	}
	out := &evotune.Finished{
		Campaign: told.Campaign, Evaluated: told.Evaluated, Verdicts: told.Verdicts, SpaceSize: told.SpaceSize, PerMinute: told.PerMinute,
		Sanitized: told.Sanitized, Reason: told.Reason, Complete: e.Kind == "finished", Elapsed: told.ElapsedNS, Phases: told.Phases,
	}
	if s := f.status; s != nil && s.Progress != nil && s.Progress.Usage != nil {
		u := *s.Progress.Usage
		u.Stages, u.Waiting = nil, nil // nothing is under way
		out.Usage = &u
	}
	if b := told.Best; b != nil {
		g, err := genome.Alone(b.Encoding)
		if err != nil {
			return nil, err
		}
		out.Best = &evotune.Best{Candidate: b.Candidate, Genome: g, AllTimes: b.AllTimes, Speedup: b.Speedup, Significant: b.Significant, Measured: b.Measured, Slower: b.Slower, Unproven: b.Unproven}
	}
	return out, nil
}

func finalsOf(told Comparison) (*evotune.Compared, error) {
	if told.Result == nil || len(told.Encodings) != len(told.Result.Entries) {
		return nil, errors.New("it does not tell of all finalists")
	}
	out := &evotune.Compared{Candidates: told.Candidates, Result: told.Result.Finals}
	for i, e := range told.Result.Entries {
		var err error
		if e.Finalist.Genome, err = genome.Alone(told.Encodings[i]); err != nil {
			return nil, err
		}
		out.Result.Entries = append(out.Result.Entries, e.Finalist)
	}
	return out, nil
}
