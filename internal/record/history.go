package record

import (
	"time"

	"github.com/evotune/evotune/store"
)

// A History is what the log says of one campaign, with its candidates. The zero History
// is that of a campaign that has not started.
type History struct {
	// Proposals are in their order, Results in that of the log.
	Proposals []Proposal
	Results   []Result

	Summary
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

// Add takes the next event of the campaign. After an error the history must not be used.
func (h *History) Add(e store.Event) error {
	switch e.Kind {
	case store.KindAsked:
		if e.Asked.Index != len(h.Proposals) {
			return fault(&e, "proposal %d follows proposal %d", e.Asked.Index, len(h.Proposals)-1)
		}
		h.Proposals = append(h.Proposals, Proposal{Asked: e.Asked})
	case store.KindTold:
		p := h.proposal(e.Told.Index)
		if p == nil || p.Told != nil {
			return fault(&e, "result %d has no proposal of its own", e.Told.Index)
		}
		p.Told = e.Told
	}
	if err := h.Summary.Add(e); err != nil {
		return err
	}
	if e.Measured != nil {
		h.Proposals[e.Measured.Index].Measured = e.Measured
	}
	if t := e.Result(); t != nil {
		h.Results = append(h.Results, Result{Told: t, Again: e.Measured != nil, Spent: h.Spent()})
	}
	return nil
}

func (h *History) proposal(i int) *Proposal {
	if i < 0 || i >= len(h.Proposals) {
		return nil
	}
	return &h.Proposals[i]
}
