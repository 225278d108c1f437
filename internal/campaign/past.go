package campaign

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/evotune/evotune/store"
)

// past is what the log says of a campaign.
type past struct {
	started       bool
	searchVersion int
	oldVersion    int
	offset        int // proposals before it belong to an older search's path
	asked         []*store.Asked
	results       []*store.Told // by index; nil where no result was logged
	measured      map[int]*store.Told
	told          int
	elapsed       time.Duration
	finals        *store.Finals // over all of the results, or nil

	// What ended evotune, as far as the log can tell.
	broken   bool                     // the log ends without a stop
	suspects int                      // proposals before it that have no result were in flight at such an end
	inFinals bool                     // the finals were, and did not end
	alone    *store.Attempt           // an attempt that nothing has ended
	unmarked *store.Attempt           // that of the last culprit, if the log does not say so yet
	culprits map[string]store.Attempt // by candidate
}

// resumption is the detail of a "resumed" event.
type resumption struct {
	SearchVersion int    `json:"search_version"`
	Offset        int    `json:"offset"`
	Budget        Budget `json:"budget"`
}

func readResumption(e store.Event) (resumption, error) {
	var r resumption
	if err := json.Unmarshal(e.Note.Detail, &r); err != nil {
		return r, fmt.Errorf("campaign %s: event %d: the resumption cannot be read: %w: run `tune check`", e.Campaign, e.Seq, err)
	}
	return r, nil
}

// LastBudget is the budget that a campaign last ran under: that of its newest
// resumption or, when it was never resumed, the one that it was started with.
func LastBudget(events iter.Seq2[store.Event, error]) (Budget, error) {
	var last Budget
	for e, err := range events {
		if err != nil {
			return Budget{}, err
		}
		switch e.Kind {
		case store.KindStarted:
			var c Config
			if err := json.Unmarshal(e.Started.Config, &c); err != nil {
				return Budget{}, fmt.Errorf("campaign %s: its configuration cannot be read: %w: run `tune check`", e.Campaign, err)
			}
			last = c.Budget
		case store.KindResumed:
			r, err := readResumption(e)
			if err != nil {
				return Budget{}, err
			}
			last = r.Budget
		}
	}
	return last, nil
}

// read takes the events of one campaign, in order.
func (p *past) read(events []store.Event) error {
	var begun, last time.Time
	p.culprits = map[string]store.Attempt{}
	for _, e := range events {
		switch e.Kind {
		case store.KindStarted:
			p.started, p.broken = true, true
			p.searchVersion = e.Started.SearchVersion
			begun = e.Time
		case store.KindResumed:
			r, err := readResumption(e)
			if err != nil {
				return err
			}
			switch {
			case e.Note.Reason == store.InFinals:
				p.inFinals = true
			case e.Note.Reason != store.Continued && p.broken:
				p.ended()
			}
			p.broken = true
			p.searchVersion, p.offset = r.SearchVersion, r.Offset
			p.elapsed += last.Sub(begun)
			begun = e.Time
		case store.KindAsked:
			if e.Asked.Index != len(p.asked) {
				return fmt.Errorf("campaign %s: event %d: proposal %d follows proposal %d: run `tune check`", e.Campaign, e.Seq, e.Asked.Index, len(p.asked)-1)
			}
			p.asked = append(p.asked, e.Asked)
			p.results = append(p.results, nil)
		case store.KindTold:
			if e.Told.Index >= len(p.asked) || p.results[e.Told.Index] != nil {
				return fmt.Errorf("campaign %s: event %d: result %d has no proposal of its own: run `tune check`", e.Campaign, e.Seq, e.Told.Index)
			}
			p.results[e.Told.Index] = e.Told
			p.told++
			p.finals, p.alone, p.inFinals = nil, nil, false // there is more to compare now
		case store.KindMeasured:
			if p.result(e.Measured.Index) == nil {
				return fmt.Errorf("campaign %s: event %d: candidate %s was measured again and has no result: run `tune check`", e.Campaign, e.Seq, e.Measured.Candidate)
			}
			if p.measured == nil {
				p.measured = map[int]*store.Told{}
			}
			p.measured[e.Measured.Index] = e.Measured
			p.finals, p.alone, p.inFinals = nil, nil, false
		case store.KindAttempt:
			if p.alone = e.Attempt; e.Attempt.End != "" {
				p.alone = nil
			}
		case store.KindFinals:
			p.finals, p.alone, p.inFinals = e.Finals, nil, false
		case store.KindStopped, store.KindFinished:
			p.alone = nil
			if !strings.HasPrefix(e.Note.Reason, pausedBy) {
				p.broken, p.inFinals = false, false
			}
		}
		last = e.Time
	}
	if p.broken {
		p.unmarked = p.alone
		p.ended()
	}
	if p.started {
		p.elapsed += last.Sub(begun)
	}
	return nil
}

// restart makes everything so far the known results of a new path.
func (p *past) restart(version int) {
	p.oldVersion, p.searchVersion = p.searchVersion, version
	p.offset = len(p.asked)
}

// result is the logged result of proposal i, or nil.
func (p *past) result(i int) *store.Told {
	if i < len(p.results) {
		return p.results[i]
	}
	return nil
}
