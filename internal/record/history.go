package record

import (
	"fmt"
	"time"

	"github.com/evotune/evotune/store"
)

// A History is what the log says of one campaign, event by event. The zero History
// is that of a campaign that has not started.
type History struct {
	// Started is nil before the campaign has started.
	Started *store.Started
	// Job is the campaign's, with the budget that it last ran under.
	Job Job
	// Versions are those of the search, in order: several where newer ones went on.
	// Proposals before number Offset are not of the newest one.
	Versions []int
	Offset   int
	// Proposals are in their order, Results in that of the log.
	Proposals []Proposal
	Results   []Result
	// Resumptions counts those of evotune, Pauses how often the campaign waited for
	// the machine.
	Resumptions, Pauses int

	Clock
}

// A Proposal is one of the search, and what became of it.
type Proposal struct {
	*store.Asked
	// Told is what the search was told, Measured a second measurement; nil where the
	// log has none.
	Told, Measured *store.Told
}

// A Result is one that the log tells.
type Result struct {
	*store.Told
	// Again says that it is of a second measurement.
	Again bool
	// Spent is the campaign's wall time until then.
	Spent time.Duration
}

// Add takes the next event of the campaign, with its payloads.
func (h *History) Add(e store.Event) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("campaign %s: event %d: %s: run `tune check`", e.Campaign, e.Seq, fmt.Sprintf(format, args...))
	}
	switch e.Kind {
	case store.KindStarted:
		var err error
		if h.Job, err = ReadJob(e.Campaign, e.Started); err != nil {
			return err
		}
		h.Started = e.Started
		h.Versions = []int{e.Started.SearchVersion}
	case store.KindResumed:
		if err := h.resumed(&e); err != nil {
			return err
		}
	case store.KindAsked:
		if e.Asked.Index != len(h.Proposals) {
			return fault("proposal %d follows proposal %d", e.Asked.Index, len(h.Proposals)-1)
		}
		h.Proposals = append(h.Proposals, Proposal{Asked: e.Asked})
	case store.KindTold:
		p := h.proposal(e.Told.Index)
		if p == nil || p.Told != nil {
			return fault("result %d has no proposal of its own", e.Told.Index)
		}
		p.Told = e.Told
	case store.KindMeasured:
		p := h.proposal(e.Measured.Index)
		if p == nil || p.Told == nil {
			return fault("candidate %s was measured again and has no result", e.Measured.Candidate)
		}
		p.Measured = e.Measured
	}
	if err := h.Clock.Add(e); err != nil {
		return err
	}
	if t := e.Result(); t != nil {
		h.Results = append(h.Results, Result{Told: t, Again: e.Measured != nil, Spent: h.Spent()})
	}
	return nil
}

// resumed takes a resumption. What its note does not say stays as it was.
func (h *History) resumed(e *store.Event) error {
	switch {
	case e.Note != nil && e.Note.Reason == store.Continued:
		h.Pauses++
	case e.Note == nil || e.Note.Reason != store.InFinals && e.Note.Reason != store.NewBudget:
		h.Resumptions++
	}
	if e.Note == nil || len(e.Note.Detail) == 0 {
		return nil
	}
	r, err := ReadResumption(e)
	if err != nil {
		return err
	}
	h.Offset = r.Offset
	if r.Budget != nil {
		h.Job.Budget = *r.Budget
	}
	if n := len(h.Versions); r.SearchVersion != 0 && (n == 0 || h.Versions[n-1] != r.SearchVersion) {
		h.Versions = append(h.Versions, r.SearchVersion)
	}
	return nil
}

func (h *History) proposal(i int) *Proposal {
	if i < 0 || i >= len(h.Proposals) {
		return nil
	}
	return &h.Proposals[i]
}

// LastBudget is the budget that a stored campaign last ran under: that of its newest
// resumption or, when it was never resumed, the one that it was started with.
func LastBudget(s *store.Store, campaign string) (Budget, error) {
	var last uint64
	for e, err := range s.Events(campaign, 0, store.WithoutDetail()) {
		if err != nil {
			return Budget{}, err
		}
		if e.Kind == store.KindStarted || e.Kind == store.KindResumed {
			last = e.Seq
		}
	}
	e, err := s.Event(last)
	if err != nil {
		return Budget{}, err
	}
	if e.Kind == store.KindResumed {
		r, err := ReadResumption(&e)
		if err != nil || r.Budget == nil {
			return Budget{}, err
		}
		return *r.Budget, nil
	}
	j, err := ReadJob(campaign, e.Started)
	return j.Budget, err
}
