package record

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/store"
)

// A Summary is what the log says of one campaign, without its candidates. It is the one place
// that says what an event changes: how long a campaign took, its budget, its verdicts, its best
// so far. The zero Summary is that of a campaign that has not started.
type Summary struct {
	// Started is nil before the campaign has started.
	Started *store.Started
	// Job is the campaign's, with the budget that it last ran under.
	Job Job
	// Versions are those of the search, in order: several where newer ones went on.
	// Proposals before number Offset are not of the newest one.
	Versions []int
	Offset   int
	// Resumptions counts those of evotune, Pauses how often the campaign waited for
	// the machine. Paused is how long it last waited.
	Resumptions, Pauses int
	Paused              time.Duration
	// Evaluated counts the results that the search was told, Fresh those since evotune
	// began to run the campaign or resumed it.
	Evaluated, Fresh int
	// Verdicts counts the results. A second measurement takes the place of the first.
	Verdicts map[evaluator.Verdict]int
	// Best has each new best of the search and of second measurements, in order.
	Best []Best
	// Finals are the newest, without what they measured, and FinalsAt is when they ended;
	// nil without any.
	Finals   *store.Finals
	FinalsAt Moment
	// Outcomes are counted where they are not nil, which needs the payloads of all events.
	// Without them those of results are not read.
	Outcomes *Outcomes

	Clock

	devices  int           // how many the campaign holds, if Outcomes are counted
	searched time.Duration // until evotune began to run the campaign or resumed it
	stopped  time.Time
	failed   map[int]evaluator.Verdict // by proposal, of results that are not correct: they may be measured again
}

// A Moment of a campaign: after how many evaluations, wall time, and time of devices (see
// Summary.DeviceTime).
type Moment struct {
	Evaluated     int
	Spent, Device time.Duration
}

// A Best is a result that is better than all before it, without its payload.
type Best struct {
	Moment
	*store.Told
	// Again says that it is of a second measurement.
	Again bool
}

// fault is an error about an event.
func fault(e *store.Event, format string, args ...any) error {
	return fmt.Errorf("campaign %s: event %d: %s: run `tune check`", e.Campaign, e.Seq, fmt.Sprintf(format, args...))
}

// Add takes the next event of the campaign. After an error the summary must not be used.
func (s *Summary) Add(e store.Event) error {
	switch e.Kind {
	case store.KindStarted:
		if err := s.start(&e); err != nil {
			return err
		}
	case store.KindResumed:
		if err := s.resumed(&e); err != nil {
			return err
		}
	case store.KindStopped:
		s.stopped = e.Time
	}
	if err := s.Clock.Add(e); err != nil {
		return err
	}
	if f := e.Finals; f != nil {
		bare := *f
		bare.Detail = nil
		s.Finals, s.FinalsAt = &bare, s.now()
	}
	if t := e.Result(); t != nil {
		return s.result(&e, t)
	}
	return nil
}

func (s *Summary) start(e *store.Event) (err error) {
	if s.Job, err = ReadJob(e.Campaign, e.Started); err != nil {
		return err
	}
	s.Started, s.Versions = e.Started, []int{e.Started.SearchVersion}
	s.Verdicts, s.failed = map[evaluator.Verdict]int{}, map[int]evaluator.Verdict{}
	if s.Outcomes != nil {
		d, err := ReadDescription(e.Campaign, e.Started)
		if err != nil {
			return err
		}
		s.devices = max(1, len(strings.Fields(d.Device.Facts["uuid"])))
	}
	return nil
}

// resumed takes a resumption. What its note does not say stays as it was.
func (s *Summary) resumed(e *store.Event) error {
	reason := ""
	if e.Note != nil {
		reason = e.Note.Reason
	}
	switch reason {
	case store.Continued:
		s.Pauses++
		s.Paused = e.Time.Sub(s.stopped)
	case store.InFinals, store.NewBudget:
	default:
		s.Resumptions++
		s.Fresh, s.searched = 0, s.Phases().Searched
	}
	if e.Note == nil || len(e.Note.Detail) == 0 {
		return nil
	}
	r, err := ReadResumption(e)
	if err != nil {
		return err
	}
	s.Offset = r.Offset
	if r.Budget != nil {
		s.Job.Budget = *r.Budget
	}
	if n := len(s.Versions); r.SearchVersion != 0 && (n == 0 || s.Versions[n-1] != r.SearchVersion) {
		s.Versions = append(s.Versions, r.SearchVersion)
	}
	return nil
}

// result takes a first or a second measurement.
func (s *Summary) result(e *store.Event, t *store.Told) error {
	if s.failed == nil {
		return fault(e, "result %d comes before the campaign has started", t.Index)
	}
	again := e.Measured != nil
	if again {
		was, ok := s.failed[t.Index]
		if !ok {
			return fault(e, "candidate %s was measured again and has no result", t.Candidate)
		}
		if s.Verdicts[was]--; s.Verdicts[was] == 0 {
			delete(s.Verdicts, was)
		}
		delete(s.failed, t.Index)
	} else {
		s.Evaluated++
		s.Fresh++
	}
	v := evaluator.Verdict(t.Verdict)
	if s.Verdicts[v]++; v != evaluator.Correct {
		s.failed[t.Index] = v
	}
	if s.Outcomes != nil {
		if err := s.Outcomes.add(e, t); err != nil {
			return err
		}
	}
	if n := len(s.Best); Timed(t) && (n == 0 || t.Fitness < s.Best[n-1].Fitness) {
		bare := *t
		bare.Detail = nil
		s.Best = append(s.Best, Best{s.now(), &bare, again})
	}
	return nil
}

func (s *Summary) now() Moment { return Moment{s.Evaluated, s.Spent(), s.DeviceTime()} }

// DeviceTime is how long the campaign has held devices: the wall time of each of its GPUs, or of
// the CPU. A recorded table holds none: its time is what the evaluations took that it has
// recorded. It is 0 unless Outcomes are counted.
func (s *Summary) DeviceTime() time.Duration {
	switch {
	case s.Outcomes == nil || s.Started == nil:
		return 0
	case s.Started.Backend == "replay":
		return s.Outcomes.Cost
	}
	return s.Spent() * time.Duration(s.devices)
}

// PerMinute is the rate of evaluations since evotune began to run the campaign or resumed it,
// without preparation and finals; 0 if no time has passed.
func (s *Summary) PerMinute() float64 {
	if d := s.Phases().Searched - s.searched; d > 0 {
		return float64(s.Fresh) / d.Minutes()
	}
	return 0
}

// Figures are those of CampaignFigures.
func (s *Summary) Figures() (candidate string, f Figures) {
	c := store.Campaign{Finals: s.Finals}
	if n := len(s.Best); n > 0 {
		c.Best, c.BestAgain = s.Best[n-1].Told, s.Best[n-1].Again
	}
	return CampaignFigures(c)
}

// Events are those of a stored campaign without the payloads of results, which are most of a log.
func Events(s *store.Store, campaign string) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		for e, err := range s.Events(campaign, 0, store.WithoutDetail()) {
			if err == nil && e.Asked == nil && e.Result() == nil {
				e, err = s.Event(e.Seq)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// ReadSummary is what a store says of a campaign, given by its full ID. Outcomes are not counted.
func ReadSummary(s *store.Store, campaign string) (sum Summary, err error) {
	for e, err := range Events(s, campaign) {
		if err == nil {
			err = sum.Add(e)
		}
		if err != nil {
			return Summary{}, err
		}
	}
	return sum, nil
}
