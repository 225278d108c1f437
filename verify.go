package evotune

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// A Record is what a store holds of a candidate to measure again.
type Record struct {
	Candidate store.Candidate
	Campaign  store.Campaign
	// Record is what the new measurement is compared with: the candidate's result, its
	// part in the finals and, if it was in none, the results that it was selected from.
	campaign.Record
}

// NewRecord gathers what a verification compares a candidate with; the candidate is
// named by its ID or a unique beginning. The store can be closed afterwards. Untimed,
// for Debug, leaves out what times are compared with. The error is one of the store, or
// an ErrInput.
func NewRecord(r Reader, id string, untimed bool) (rec Record, err error) {
	if rec.Candidate, err = r.Candidate(id); err != nil {
		return rec, err
	}
	c := rec.Candidate
	if rec.Campaign, err = r.Campaign(c.Campaign); err != nil {
		return rec, err
	}
	if c.Told == nil {
		return rec, badInput(fmt.Errorf("candidate %s has no result yet: resume campaign %s", c.ID, c.Campaign))
	}
	if rec.Result, err = record.ReadResult(c.Told); err != nil {
		return rec, err
	}
	if untimed || rec.Result.Verdict != evaluator.Correct {
		return rec, nil
	}
	finals, err := record.ReadFinals(c.Campaign, c.Finals)
	if err != nil {
		return rec, err
	}
	if f := finals.Of(c.ID); f != nil && f.Fitness > 0 {
		rec.Finals = &f.Finalist
		return rec, nil
	}
	log, ok := r.(eventLog)
	if !ok {
		return rec, badInput(fmt.Errorf("another process holds the store, which has the results that candidate %s was selected from: verify it when that has ended", c.ID))
	}
	rec.Readings, rec.At, err = readings(log, c)
	return rec, err
}

// An eventLog is a reader with the whole log: a store.
type eventLog interface {
	Events(campaign string, from uint64, o ...store.EventsOption) iter.Seq2[store.Event, error]
}

// readings are the correct results of a candidate's campaign, one for each binary; at
// is the index of the candidate's own.
func readings(log eventLog, c store.Candidate) (out []campaign.Reading, at int, err error) {
	seen := map[string]int{} // by binary
	for e, err := range log.Events(c.Campaign, 0) {
		if err != nil {
			return nil, 0, err
		}
		t := e.Result()
		if t == nil || t.Verdict != string(evaluator.Correct) {
			continue
		}
		timings, binary, err := record.ReadTimings(t)
		if err != nil {
			return nil, 0, err
		}
		if len(timings) == 0 {
			continue
		}
		i, known := seen[binary]
		if !known || binary == "" {
			i = len(out)
			seen[binary] = i
			out = append(out, campaign.NewReading(timings))
		}
		if t.Candidate == c.ID {
			at = i
		}
	}
	return out, at, nil
}

// A Verification compares a stored result with a new one: the verdicts, what is the
// same, the change of the time with its test, and whether the result is Reproduced.
type Verification struct {
	Candidate  string `json:"candidate"`
	SameDevice bool   `json:"same_device"`
	// SameDefinition: the kernel's definition has not changed. If it has, the candidate
	// is measured if it renders to the same source.
	SameDefinition bool `json:"same_definition"`
	// StoredHarness and Harness are the versions of the harness, then and now: what
	// is timed, and how, may differ between versions.
	StoredHarness string `json:"stored_harness"`
	Harness       string `json:"harness"`
	// Measured says which stored measurement the time is compared with: that of the
	// finals, that of the search, or a second one of the search ("again").
	Measured string `json:"measured"`
	campaign.Verification
}

// VerifyOptions say how a candidate is measured again.
type VerifyOptions struct {
	// Tolerance is the relative change of the time that is allowed: 0.05 is 5%. Zero
	// allows noise only.
	Tolerance float64
	// StoredContents times on the contents that the stored measurement used. The error
	// is an ErrInput if they were not kept. False draws new contents, in
	// secret.
	StoredContents bool
}

// Verify puts a stored candidate through all stages again, in fresh processes,
// measures it as finals do, and compares.
func (m *Machine) Verify(ctx context.Context, rec Record, o VerifyOptions) (Verification, error) {
	v := Verification{Candidate: rec.Candidate.ID, Measured: record.FromFinals}
	if rec.Finals == nil {
		if v.Measured = record.FromSearch; rec.Candidate.Again {
			v.Measured = record.FromAgain
		}
	}
	then, err := record.ReadDescription(rec.Campaign.ID, &rec.Campaign.Started)
	if err != nil {
		return v, err
	}
	varies := false
	p, g, err := m.openAgain(ctx, rec, func(t *Target, same bool) error {
		v.SameDefinition = same
		varies = t.definition != nil && t.definition.BaselineVaries()
		if !o.StoredContents {
			return nil
		}
		if t.pools = rec.Pools(); len(t.pools) == 0 {
			return fmt.Errorf("the contents that candidate %s was timed on are not stored", rec.Candidate.ID)
		}
		return nil
	})
	if err != nil {
		return v, err
	}
	defer p.Evaluator.Close() //nolint:errcheck // nothing is kept
	now := p.Evaluator.Describe()
	if err := sameBaseline(then, now); varies && err != nil {
		return v, badInput(fmt.Errorf("candidate %s: %w", rec.Candidate.ID, err))
	}
	v.SameDevice = now.Device.Fingerprint == rec.Campaign.Started.Device
	v.StoredHarness, v.Harness = then.Harness, now.Harness
	if v.Verification, err = campaign.Verify(ctx, p.Evaluator, g, rec.Record, o.Tolerance); err != nil {
		return v, fmt.Errorf("candidate %s: %w", rec.Candidate.ID, err)
	}
	return v, nil
}

// Debug shows why a stored candidate was rejected: it compiles the candidate without
// optimization, with debugging information and with asserts enabled, and puts it
// through compile, inspect, parity and the sanitizers. It times nothing.
func (m *Machine) Debug(ctx context.Context, rec Record) (evaluator.Result, error) {
	p, g, err := m.openAgain(ctx, rec, func(t *Target, _ bool) error {
		if t.debug = true; t.table != nil {
			return fmt.Errorf("candidate %s comes from a recorded table, which has no source to compile for debugging", rec.Candidate.ID)
		}
		return nil
	})
	if err != nil {
		return evaluator.Result{}, err
	}
	defer p.Evaluator.Close() //nolint:errcheck // nothing is kept
	return p.Evaluator.Evaluate(ctx, g, 0)
}

// openAgain opens the target of a stored candidate. Adjust may change the target; same
// says whether the definition is the same. A changed definition is accepted if it
// renders the candidate to the same source.
func (m *Machine) openAgain(ctx context.Context, rec Record, adjust func(t *Target, same bool) error) (Problem, genome.Genome, error) {
	t, err := m.Recorded(rec.Campaign)
	same := err == nil
	if errors.Is(err, errChanged) {
		if r, failed := t.Render(rec.Candidate.Asked.Genome); failed == nil && r.Hash == rec.Result.Source {
			err = nil
		}
	}
	if err == nil {
		err = badInput(adjust(t, same))
	}
	if err != nil {
		return Problem{}, genome.Genome{}, err
	}
	p, err := t.Open(ctx)
	if err != nil {
		return p, genome.Genome{}, err
	}
	g, err := p.Space.Parse(rec.Candidate.Asked.Genome)
	if err != nil {
		p.Evaluator.Close() //nolint:errcheck // nothing is kept
		return p, g, badInput(fmt.Errorf("candidate %s is not a genome of the kernel as it is now: %w", rec.Candidate.ID, err))
	}
	return p, g, nil
}
