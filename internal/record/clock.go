package record

import (
	"time"

	"github.com/evotune/evotune/store"
)

// Phases are the parts of a campaign's wall time, over all of its processes.
type Phases struct {
	// Prepared is the time before candidates could be evaluated: harness, reference,
	// controls, baseline and the machine's peaks.
	Prepared time.Duration `json:"prepared_ns"`
	// Searched includes second measurements.
	Searched time.Duration `json:"searched_ns"`
	Finals   time.Duration `json:"finals_ns"`
}

// A Clock reads a campaign's wall time from its events, without that between a stop and
// the resumption after it. A log that does not note the time of preparation is
// read as if there had been none. The zero Clock is that of a campaign that has not
// started.
type Clock struct {
	before      time.Duration // of earlier processes, and before pauses
	begun, last time.Time
	prepared    time.Duration
	newest      time.Duration // of prepared, by the newest process
	finals      time.Duration // that are over
	rested      time.Time     // when the finals began; zero before that
}

// Spent is the campaign's wall time until the newest event.
func (c *Clock) Spent() time.Duration { return c.before + c.last.Sub(c.begun) }

// Prepared is how long the newest process prepared; 0 after a pause.
func (c *Clock) Prepared() time.Duration { return c.newest }

// Phases are the parts of Spent.
func (c *Clock) Phases() Phases {
	p := Phases{Prepared: c.prepared, Finals: c.finals}
	if !c.rested.IsZero() {
		p.Finals += c.last.Sub(c.rested)
	}
	p.Searched = c.Spent() - p.Prepared - p.Finals
	return p
}

// Add takes the next event of the campaign.
func (c *Clock) Add(e store.Event) error {
	switch e.Kind {
	case store.KindStarted:
		j, err := readStarted(e.Campaign, e.Started)
		if err != nil {
			return err
		}
		c.begin(e.Time, j.Prepared)
	case store.KindResumed:
		switch {
		case e.Note == nil:
			c.begin(e.Time, 0)
		case e.Note.Reason == store.NewBudget:
			return nil // perhaps in a pause, whose time does not count
		case e.Note.Reason == store.InFinals:
			c.rested = e.Time
		case len(e.Note.Detail) == 0:
			c.begin(e.Time, 0)
		default:
			r, err := ReadResumption(&e)
			if err != nil {
				return err
			}
			c.begin(e.Time, r.Prepared)
		}
	}
	c.last = e.Time
	return nil
}

// begin takes the beginning of a process, or the end of a pause.
func (c *Clock) begin(at time.Time, prepared time.Duration) {
	p := c.Phases()
	c.before, c.finals, c.rested = c.Spent(), p.Finals, time.Time{}
	c.begun, c.last = at.Add(-prepared), at
	c.prepared, c.newest = c.prepared+prepared, prepared
}
