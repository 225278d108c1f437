package campaign

import (
	"strings"

	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// past is what the log says of a campaign.
type past struct {
	record.History
	version    int           // of the search that went on last
	oldVersion int           // of the search, where it has changed since
	finals     *store.Finals // over all of the results, or nil

	// What ended evotune, as far as the log can tell.
	broken   bool                     // the log ends without a stop
	suspects int                      // proposals before it that have no result were in flight at such an end
	inFinals bool                     // the finals were, and did not end
	alone    *store.Attempt           // an attempt that nothing has ended
	unmarked *store.Attempt           // that of the last culprit, if the log does not say so yet
	culprits map[string]store.Attempt // by candidate
}

// read takes the events of one campaign, in order. Remote says that its candidates run elsewhere.
func (p *past) read(events []store.Event, remote bool) error {
	p.culprits = map[string]store.Attempt{}
	for _, e := range events {
		switch e.Kind {
		case store.KindStarted:
			p.broken, p.version = true, e.Started.SearchVersion
		case store.KindResumed:
			r, err := record.ReadResumption(&e) // what a report can do without is needed to go on
			if err != nil {
				return err
			}
			switch {
			case e.Note.Reason == store.InFinals:
				p.inFinals = true
			case e.Note.Reason != store.Continued && e.Note.Reason != store.NewBudget && p.broken && !remote:
				p.ended()
			}
			p.broken, p.version = true, r.SearchVersion
		case store.KindTold:
			p.finals, p.alone, p.inFinals = nil, nil, false // there is more to compare now
		case store.KindMeasured:
			p.finals, p.alone, p.inFinals = nil, nil, false
		case store.KindAttempt:
			if len(e.Attempt.Detail) > 0 {
				break // on another host, which this process outlived
			}
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
		if err := p.Add(e); err != nil {
			return err
		}
	}
	if remote {
		p.broken, p.inFinals = false, false
	}
	if p.broken {
		p.unmarked = p.alone
		p.ended()
	}
	return nil
}

// restart makes everything so far the known results of a new path, where the log was
// walked by another version of the search.
func (p *past) restart(version int) (restarted bool) {
	if p.Started == nil || p.version == version {
		return false
	}
	p.oldVersion, p.Offset = p.version, len(p.Proposals)
	return true
}

// proposal is what the log has of proposal i, if it has it.
func (p *past) proposal(i int) record.Proposal {
	if i < len(p.Proposals) {
		return p.Proposals[i]
	}
	return record.Proposal{}
}
