// Package record writes what campaigns put into the log, and reads it back.
//
// To the store the payloads of events are opaque. They are JSON: a [Job] and an
// [evaluator.Description] in the event that starts a campaign, an [evaluator.Result] in
// each result, an [evaluator.Finals] in finals, a [Resumption] in the note of a
// resumption. Whoever reads a payload reads it here. [Summary] and [History] read whole logs.
//
// The errors name the campaign or the candidate, and say what to do.
package record

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/store"
)

// read decodes a payload, or gives nothing of it; format says whose it is.
func read[T any](payload json.RawMessage, format string, args ...any) (T, error) {
	var out T
	if err := json.Unmarshal(payload, &out); err != nil {
		var none T
		return none, fmt.Errorf("%s cannot be read: %w: run `tune check`", fmt.Sprintf(format, args...), err)
	}
	return out, nil
}

// write encodes a payload.
func write(value any, what string) (json.RawMessage, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("campaign: encode %s: %w", what, err)
	}
	return b, nil
}

// A startedJob is a job as the log has it. Prepared is how long the evaluator was prepared
// before the campaign started.
type startedJob struct {
	Job
	Prepared time.Duration `json:"prepared_ns,omitempty"`
}

// NewStarted is how the log says that a campaign of a job starts, on what d describes, with a
// version of its search, and after its evaluator was prepared for some time.
func NewStarted(j Job, d evaluator.Description, version int, prepared time.Duration) (*store.Started, error) {
	config, err := write(startedJob{j, prepared}, "configuration")
	if err != nil {
		return nil, err
	}
	description, err := write(d, "description")
	return &store.Started{
		Kernel: j.Kernel, Shapes: j.Shapes, Backend: d.Backend,
		Device: d.Device.Fingerprint, Name: d.Device.Name,
		Strategy: j.Strategy, SearchVersion: version, Seed: j.SearchSeed(),
		Config: config, Description: description,
	}, err
}

// ReadJob reads the job of a campaign, as it began; the zero one where the log has none.
func ReadJob(campaign string, s *store.Started) (Job, error) {
	j, err := readStarted(campaign, s)
	return j.Job, err
}

func readStarted(campaign string, s *store.Started) (startedJob, error) {
	if len(s.Config) == 0 {
		return startedJob{}, nil
	}
	j, err := read[startedJob](s.Config, "campaign %s: its configuration", campaign)
	if j.Finalists != nil && *j.Finalists < 0 { // no finals, in stores from before the first release
		*j.Finalists = 0
	}
	return j, err
}

// ReadDescription reads where and with what a campaign made its results; the zero one
// where the log has none.
func ReadDescription(campaign string, s *store.Started) (evaluator.Description, error) {
	if len(s.Description) == 0 {
		return evaluator.Description{}, nil
	}
	return read[evaluator.Description](s.Description, "campaign %s: its description", campaign)
}

// NewTold is how the log tells the result of proposal index.
func NewTold(index int, candidate string, r evaluator.Result) (*store.Told, error) {
	t := &store.Told{Index: index, Candidate: candidate, Verdict: string(r.Verdict), Key: r.Key}
	if r.Verdict == evaluator.Correct || r.Verdict == evaluator.Slower {
		t.Fitness = r.Fitness
		times := evaluator.MedianTimes(r.Timings)
		t.MedianNS, t.BaselineNS = times.MedianNS, times.BaselineNS
	}
	var err error
	t.Detail, err = write(r, "result of "+candidate)
	return t, err
}

// ReadResult reads a result with all its evidence.
func ReadResult(t *store.Told) (evaluator.Result, error) {
	return readPart[evaluator.Result](t)
}

// readPart reads the fields of a result that T has.
func readPart[T any](t *store.Told) (T, error) {
	return read[T](t.Detail, "candidate %s: its evidence", t.Candidate)
}

// ReadBinary reads of a result only which binary it is of and what disturbed it. It
// takes a small part of the time that all of it takes, in logs of many results.
func ReadBinary(t *store.Told) (binary, disturbed string, err error) {
	r, err := readPart[struct {
		Binary    string `json:"binary"`
		Disturbed string `json:"disturbed"`
	}](t)
	return r.Binary, r.Disturbed, err
}

// ReadTimings reads of a result only its timings and which binary they are of.
func ReadTimings(t *store.Told) (timings []evaluator.Timing, binary string, err error) {
	r, err := readPart[struct {
		Binary  string             `json:"binary"`
		Timings []evaluator.Timing `json:"timings"`
	}](t)
	return r.Timings, r.Binary, err
}

// A Resumption is what a campaign notes when it goes on.
type Resumption struct {
	// SearchVersion is that of the search, whose proposals begin with number Offset:
	// those before it were made by an older one.
	SearchVersion int `json:"search_version"`
	Offset        int `json:"offset"`
	// Budget is nil where the log has none.
	Budget *Budget `json:"budget"`
	// Searched is what ended the search, where finals begin.
	Searched string `json:"searched,omitempty"`
	// Prepared is how long the evaluator was prepared before this event.
	Prepared time.Duration `json:"prepared_ns,omitempty"`
}

// Note is how the log tells it, after so many results.
func (r Resumption) Note(reason string, evaluated int) (*store.Note, error) {
	detail, err := write(r, "resumption")
	return &store.Note{Reason: reason, Evaluated: evaluated, Detail: detail}, err
}

// ReadResumption reads the note of an event that resumes a campaign.
func ReadResumption(e *store.Event) (Resumption, error) {
	return read[Resumption](e.Note.Detail, "campaign %s: event %d: the resumption", e.Campaign, e.Seq)
}

// Finals are an [evaluator.Finals] as the log has them.
type Finals struct {
	// Entries take the place of those of evaluator.Finals.
	Entries []Finalist `json:"entries"`
	// Refused are candidates that were in no finals and whose code these have found wrong
	// in a finalist.
	Refused []string `json:"refused,omitempty"`
	evaluator.Finals
}

// A Finalist is an [evaluator.Finalist] as the log has it.
type Finalist struct {
	Candidate string `json:"-"`
	// Genome takes the place of that of evaluator.Finalist: it has no space here.
	Genome map[string]any `json:"genome"`
	evaluator.Finalist
}

// NewFinals is how the log tells of finals of these candidates, and of others whose code
// they refused.
func NewFinals(candidates []string, f evaluator.Finals, refused ...string) (*store.Finals, error) {
	out := &store.Finals{Finalists: candidates}
	if f.Winner >= 0 {
		w := f.Entries[f.Winner]
		out.Winner, out.Fitness = candidates[f.Winner], w.Fitness
		times := evaluator.MedianTimes(w.Timings)
		out.MedianNS, out.BaselineNS = times.MedianNS, times.BaselineNS
		out.Significant = f.VsBaseline != nil && f.VsBaseline.Significant && f.VsBaseline.Ratio < 1
	}
	var err error
	out.Detail, err = write(struct {
		evaluator.Finals
		Refused []string `json:"refused,omitempty"`
	}{f, refused}, "finals")
	return out, err
}

// ReadFinals reads what the finals of a campaign measured; nil where there were none, or
// the log's account of them could not be had.
func ReadFinals(campaign string, f *store.Finals) (*Finals, error) {
	if f == nil || len(f.Detail) == 0 {
		return nil, nil
	}
	out, err := read[*Finals](f.Detail, "campaign %s: the finals", campaign)
	if err != nil {
		return nil, err
	}
	if len(out.Entries) != len(f.Finalists) {
		return nil, fmt.Errorf("campaign %s: the finals tell of %d candidates and name %d: run `tune check`", campaign, len(out.Entries), len(f.Finalists))
	}
	for i, id := range f.Finalists {
		out.Entries[i].Candidate = id
	}
	return out, nil
}

// Of gives a candidate's part in the finals; nil when it had none.
func (f *Finals) Of(candidate string) *Finalist {
	if f == nil {
		return nil
	}
	for i := range f.Entries {
		if f.Entries[i].Candidate == candidate {
			return &f.Entries[i]
		}
	}
	return nil
}

// An Attempt is what the log has of a candidate on a host, besides the result that counts.
type Attempt struct {
	Host string `json:"host"`
	// Session is that of the worker's process. Device says that the candidate was running there,
	// Alone that nothing else was, and Together that other hosts were lost at the same time.
	Session  string `json:"session,omitempty"`
	Device   bool   `json:"device,omitempty"`
	Alone    bool   `json:"alone,omitempty"`
	Together bool   `json:"together,omitempty"`
	// Verdict and Fitness are those of an evaluation that ended.
	Verdict evaluator.Verdict `json:"verdict,omitempty"`
	Fitness float64           `json:"fitness,omitempty"`
	Detail  string            `json:"detail,omitempty"`
}

// NewAttempt is how the log tells of an attempt on a host.
func NewAttempt(index int, candidate, stage, end string, a Attempt) (*store.Attempt, error) {
	detail, err := write(a, "attempt at "+candidate)
	return &store.Attempt{Index: index, Candidate: candidate, Stage: stage, End: end, Detail: detail}, err
}

// ReadAttempt reads where an attempt was made; ok is false for one of evotune's own process.
func ReadAttempt(a *store.Attempt) (out Attempt, ok bool, err error) {
	if len(a.Detail) == 0 {
		return Attempt{}, false, nil
	}
	out, err = read[Attempt](a.Detail, "candidate %s: an attempt", a.Candidate)
	return out, err == nil, err
}
