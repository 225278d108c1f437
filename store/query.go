package store

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A Campaign is what the log says about one campaign.
type Campaign struct {
	ID    string `json:"id"`
	State State  `json:"state"`
	// Reason is that of the newest stop or end; empty while Running.
	Reason string `json:"reason,omitempty"`
	// Started is how the campaign was started. Only Store.Campaign fills in Config and
	// Description.
	Started Started `json:"started"`
	// StartedAt and LastAt are the times of the first and the newest event,
	// First and Last their Seq.
	StartedAt time.Time `json:"started_at"`
	LastAt    time.Time `json:"last_at"`
	First     uint64    `json:"first"`
	Last      uint64    `json:"last"`
	// Asked counts the proposals, Evaluated the results.
	Asked     int            `json:"asked"`
	Evaluated int            `json:"evaluated"`
	Verdicts  map[string]int `json:"verdicts"`
	// Best is the correct result with the smallest fitness, the oldest of
	// several; nil when there is none. Its Detail is not filled in. BestAgain says
	// that it is from a second measurement.
	Best      *Told `json:"best,omitempty"`
	BestAgain bool  `json:"best_again,omitempty"`
	// Finals is the newest comparison; nil when there was none. Only Store.Campaign
	// fills in its Detail.
	Finals *Finals `json:"finals,omitempty"`
	// Archive is the name of the archive that the campaign was moved to; empty while
	// it is in the store's own file. A moved campaign takes no more events.
	Archive string `json:"archive,omitempty"`
}

// A Candidate is what the log says about one candidate.
type Candidate struct {
	ID       string `json:"id"`
	Campaign string `json:"campaign"`
	// Kernel, Device and Shapes are those of the campaign.
	Kernel string   `json:"kernel"`
	Device string   `json:"device"`
	Shapes []string `json:"shapes"`

	Asked   Asked     `json:"asked"`
	AskedAt time.Time `json:"asked_at"`
	// AskedSeq and ToldSeq are the Seq of proposal and result; ToldSeq is 0
	// without a result.
	AskedSeq uint64 `json:"asked_seq"`
	ToldSeq  uint64 `json:"told_seq,omitempty"`
	// Told is nil while there is no result. Only Store.Candidate fills in its Detail.
	Told   *Told     `json:"told,omitempty"`
	ToldAt time.Time `json:"told_at,omitzero"`
	// Again says that the result is from a second measurement, because the machine
	// disturbed the one that the search was told.
	Again bool `json:"again,omitempty"`

	// Finalist says that the candidate was measured again in finals, and
	// Proven that it won some finals of its campaign.
	Finalist bool `json:"finalist"`
	Proven   bool `json:"proven"`
	// FinalsSeq is the newest finals it was in, or 0, and Finals that event.
	// Store.Candidate fills in its Detail. For candidates that did not win, every query
	// does: their measurements of the finals are only there.
	FinalsSeq uint64  `json:"finals_seq,omitempty"`
	Finals    *Finals `json:"finals,omitempty"`
}

// A reader answers queries within one transaction.
type reader struct {
	store                                                                       *Store
	tx                                                                          *bolt.Tx
	events, details, campaigns, names, ids, candidates, ranking, keys, children *bolt.Bucket

	archived, heads *bolt.Bucket

	records map[uint64]*campaignRecord
	finals  map[uint64]*Finals // with their Detail
	list    *movedList         // once requested
	others  map[string]*reader // of archives, by their names
}

func newReader(s *Store, tx *bolt.Tx) *reader {
	return &reader{
		store: s, tx: tx, events: tx.Bucket(bucketEvents), details: tx.Bucket(bucketDetails),
		campaigns: tx.Bucket(bucketCampaigns), names: tx.Bucket(bucketNames), ids: tx.Bucket(bucketIDs), candidates: tx.Bucket(bucketCandidates),
		ranking: tx.Bucket(bucketRanking), keys: tx.Bucket(bucketKeys), children: tx.Bucket(bucketChildren),
		archived: tx.Bucket(bucketArchived), heads: tx.Bucket(bucketHeads),
		records: map[uint64]*campaignRecord{}, finals: map[uint64]*Finals{},
	}
}

// query runs f with a reader and returns its answer, or the zero value and an error.
func query[T any](s *Store, f func(*reader) (T, error)) (T, error) {
	var out T
	err := s.view(func(tx *bolt.Tx) (err error) {
		r := newReader(s, tx)
		defer r.leave()
		out, err = f(r)
		return err
	})
	if err != nil {
		var none T
		return none, s.wrap(err)
	}
	return out, nil
}

// The indexes lead to events, and a campaign's record has a checksum like an event's.
// The content of the other indexes is compared with the events that they lead to, here
// and in the functions event, candidate, known and resulting below, so that a damaged
// index gives an error, not a wrong figure. Only Check finds missing entries of an
// index.

// event reads one event of these kinds, any if there are none, with its payloads if
// full is set.
func (r *reader) event(seq uint64, full bool, kinds ...Kind) (Event, error) {
	r.store.touch(r.tx, 1)
	e, no, detail, err := eventAt(r.events, seq, kinds...)
	if err == nil {
		err = r.complete(&e, no, full && detail)
	}
	return e, err
}

// complete fills in what the record of an event does not have: the id of its
// campaign and, if requested, the payloads.
func (r *reader) complete(e *Event, no uint64, payloads bool) error {
	if e.Kind != KindStarted {
		rec, err := r.record(no)
		if err != nil {
			return err
		}
		e.Campaign = rec.id
	}
	if !payloads {
		return nil
	}
	r.store.touch(r.tx, 1)
	return fillDetail(e, r.details.Get(seqKey(e.Seq)))
}

// fillDetail puts the payloads in the record b, nil when it is missing, into e.
func fillDetail(e *Event, b []byte) error {
	if b == nil {
		return corrupt("the detail of event %d is missing", e.Seq)
	}
	if err := decodeDetail(e, b); err != nil {
		return fmt.Errorf("detail of event %d: %w", e.Seq, err)
	}
	return nil
}

// record reads the summary of a campaign.
func (r *reader) record(no uint64) (*campaignRecord, error) {
	if rec := r.records[no]; rec != nil {
		return rec, nil
	}
	b := r.campaigns.Get(seqKey(no))
	if b == nil {
		return nil, disagree("campaign %d is missing", no)
	}
	rec, err := decodeCampaign(no, b)
	if err != nil {
		return nil, err
	}
	r.records[no] = rec
	return rec, nil
}

// named finds a campaign by its full id.
func (r *reader) named(id string) (no uint64, rec *campaignRecord, err error) {
	v := r.names.Get([]byte(id))
	if v == nil {
		return 0, nil, fmt.Errorf("campaign %q: %w", id, ErrNotFound)
	}
	if no, err = keySeq(v); err != nil {
		return 0, nil, err
	}
	if rec, err = r.record(no); err == nil && rec.id != id {
		err = disagree("campaign %d is %s, not %s", no, rec.id, id)
	}
	return no, rec, err
}

// numbers lists the campaigns.
func (r *reader) numbers() (out []uint64, err error) {
	c := r.campaigns.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		no, err := keySeq(k)
		if err != nil {
			return nil, err
		}
		out = append(out, no)
	}
	return out, nil
}

// following lists the events that an index has after a prefix of eight bytes.
func following(b *bolt.Bucket, prefix []byte) (out []uint64) {
	c := b.Cursor()
	for k, _ := c.Seek(prefix); len(k) == 16 && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		out = append(out, binary.BigEndian.Uint64(k[8:]))
	}
	return out
}

// resolve finds the one key in the buckets that is id or begins with it.
func resolve(what, id string, buckets ...*bolt.Bucket) (string, error) {
	const show = 4
	var found []string
	for _, b := range buckets {
		c := b.Cursor()
		n := 0
		for k, _ := c.Seek([]byte(id)); id != "" && k != nil && bytes.HasPrefix(k, []byte(id)) && n <= show; k, _ = c.Next() {
			if len(k) == len(id) {
				return id, nil // it is a full id; others are longer
			}
			found, n = append(found, string(k)), n+1
		}
	}
	slices.Sort(found)
	found = slices.Compact(found) // a campaign that is being moved may be in two buckets
	switch {
	case len(found) == 0:
		return "", fmt.Errorf("%s %q: %w", what, id, ErrNotFound)
	case len(found) == 1:
		return found[0], nil
	}
	dots := ""
	if len(found) > show {
		found, dots = found[:show], ", ..."
	}
	return "", fmt.Errorf("%s %q: %w: it may be %s%s", what, id, ErrAmbiguous, strings.Join(found, ", "), dots)
}

// Campaigns returns all campaigns in the order in which they were started.
func (s *Store) Campaigns() ([]Campaign, error) {
	return query(s, func(r *reader) (out []Campaign, err error) {
		all, err := r.numbers()
		if err != nil {
			return nil, err
		}
		for _, no := range all {
			c, err := r.campaign(no, false)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
		return out, nil
	})
}

// Campaign returns the campaign with the given id, or the one whose id begins
// with it, with all payloads. It gives ErrNotFound and ErrAmbiguous.
func (s *Store) Campaign(idOrPrefix string) (Campaign, error) {
	return query(s, func(r *reader) (Campaign, error) {
		id, err := resolve("campaign", idOrPrefix, r.names)
		if err != nil {
			return Campaign{}, err
		}
		no, _, err := r.named(id)
		if err != nil {
			return Campaign{}, err
		}
		return r.campaign(no, true)
	})
}

func (r *reader) campaign(no uint64, full bool) (Campaign, error) {
	rec, err := r.record(no)
	if err != nil {
		return Campaign{}, err
	}
	list, err := r.moved()
	if err != nil {
		return Campaign{}, err
	}
	event := r.event
	where, isMoved := list.byNo[no]
	if isMoved {
		if event, err = r.headsOf(no, rec); err != nil {
			return Campaign{}, err
		}
	}
	read := func(seq uint64, full bool, kinds ...Kind) (e Event) {
		if err == nil && seq != 0 {
			e, err = event(seq, full, kinds...)
		}
		return e
	}
	started, last := read(no, full, KindStarted), read(rec.last, false)
	note := read(rec.note, false, KindResumed, KindStopped, KindFinished)
	best, finals := read(rec.best, false, KindTold, KindMeasured), read(rec.finals, full, KindFinals)
	if err != nil {
		return Campaign{}, err
	}
	c := Campaign{
		ID: rec.id, State: rec.state, Started: *started.Started,
		StartedAt: started.Time, LastAt: last.Time, First: no, Last: rec.last,
		Asked: rec.asked, Evaluated: rec.told, Verdicts: make(map[string]int, len(rec.verdicts)),
		Best: best.Result(), BestAgain: best.Measured != nil, Finals: finals.Finals, Archive: where.name,
	}
	for _, v := range rec.verdicts {
		c.Verdicts[v.verdict] = v.n
	}
	if note.Note != nil && rec.state != Running {
		c.Reason = note.Note.Reason
	}
	return c, nil
}

// headsOf reads the events that summarize an archived campaign.
func (r *reader) headsOf(no uint64, rec *campaignRecord) (func(uint64, bool, ...Kind) (Event, error), error) {
	b := r.heads.Get(seqKey(no))
	if b == nil {
		return nil, corrupt("the heads of archived campaign %s are missing", rec.id)
	}
	h, err := decodeHeads(no, b)
	if err != nil {
		return nil, err
	}
	return func(seq uint64, full bool, kinds ...Kind) (Event, error) {
		e, of, detail, err := parseEvent(seq, h.events[seq].event, kinds...)
		switch {
		case err != nil:
			return Event{}, err
		case of != no:
			return Event{}, disagree("event %d is of campaign %d, not %d", seq, of, no)
		}
		e.Campaign = rec.id
		if full && detail {
			err = fillDetail(&e, h.events[seq].detail)
		}
		return e, err
	}, nil
}

// eventsChunk is how many events are read in one transaction.
const eventsChunk = 256

// An EventsOption changes what Events reads.
type EventsOption func(*eventsConfig)

type eventsConfig struct{ bare bool }

// WithoutDetail leaves Detail, Config and Description empty, which is many times faster.
func WithoutDetail() EventsOption { return func(c *eventsConfig) { c.bare = true } }

// Events returns the events of a campaign, or of all when campaign is empty, from
// the Seq from on, in order. The campaign is given by its full id; an unknown one has
// no events. The sequence ends after the first error.
//
// The events are those in the log when the loop begins. No transaction is open while
// the caller handles an event, so it may append meanwhile.
func (s *Store) Events(campaign string, from uint64, options ...EventsOption) iter.Seq2[Event, error] {
	var cfg eventsConfig
	for _, o := range options {
		o(&cfg)
	}
	return func(yield func(Event, error) bool) {
		next, last := max(from, 1), uint64(0)
		for next != 0 {
			var chunk []Event
			var err error
			next, err = query(s, func(r *reader) (more uint64, err error) {
				if last == 0 {
					if last, err = r.last(); err != nil {
						return 0, err
					}
				}
				chunk, more, err = r.chunk(campaign, next, last, cfg.bare)
				return more, err
			})
			for _, e := range chunk {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// chunk reads events from next to last. It returns where to continue, or 0 at the end.
// Events before a damaged one are returned with the error.
func (r *reader) chunk(campaign string, next, last uint64, bare bool) (out []Event, more uint64, err error) {
	if campaign != "" {
		no, rec, err := r.named(campaign)
		if errors.Is(err, ErrNotFound) {
			return nil, 0, nil
		}
		if err != nil {
			return nil, 0, err
		}
		h, err := r.home(no)
		if err != nil {
			return nil, 0, err
		}
		return h.scan(no, max(next, no), min(last, rec.last), bare)
	}
	files, err := r.homes(func(m moved) bool { return m.no <= last && m.last >= next })
	if err != nil {
		return nil, 0, err
	}
	// Events after the point where one file stopped are left for the next call.
	end := uint64(math.MaxUint64)
	for _, h := range files {
		some, next, scanErr := h.scan(0, next, last, bare)
		if scanErr != nil {
			if next, err = 0, h.store.wrap(scanErr); len(some) > 0 {
				next = some[len(some)-1].Seq + 1
			}
			end = min(end, next)
		} else if next != 0 {
			end = min(end, next)
		}
		out = append(out, some...)
	}
	if len(files) > 1 {
		slices.SortFunc(out, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
		if len(out) > eventsChunk {
			end = min(end, out[eventsChunk].Seq)
		}
		i, _ := slices.BinarySearchFunc(out, end, func(e Event, end uint64) int { return cmp.Compare(e.Seq, end) })
		out = out[:i]
	}
	if err != nil || end == math.MaxUint64 {
		return out, 0, err
	}
	return out, end, nil
}

// scan is chunk for the events in one file, of the campaign only unless that is 0.
func (r *reader) scan(only, next, last uint64, bare bool) (out []Event, _ uint64, err error) {
	list, err := r.moved()
	if err != nil {
		return nil, 0, err
	}
	c := r.events.Cursor()
	k, v := c.Seek(seqKey(next))
	for n := 0; k != nil; k, v = c.Next() {
		seq, err := keySeq(k)
		if err != nil {
			return out, 0, err
		}
		if seq > last {
			return out, 0, nil
		}
		// Events of other campaigns cost time, too: do not keep the
		// transaction for too many of them.
		if n++; n > 4*eventsChunk || len(out) == eventsChunk {
			return out, seq, nil
		}
		e, no, detail, err := decodeEvent(seq, v)
		if err != nil {
			return out, 0, fmt.Errorf("event %d: %w", seq, err)
		}
		if _, gone := list.byNo[no]; gone || only != 0 && no != only {
			continue
		}
		if err := r.complete(&e, no, detail && !bare); err != nil {
			return out, 0, err
		}
		out = append(out, e)
		r.store.touch(r.tx, 1)
	}
	return out, 0, nil
}

// Event returns one event with its payloads. The error is ErrNotFound when there is
// none with this Seq.
func (s *Store) Event(seq uint64) (Event, error) {
	return query(s, func(r *reader) (Event, error) {
		files, err := r.homes(func(m moved) bool { return m.no <= seq && seq <= m.last })
		if err != nil {
			return Event{}, err
		}
		for _, h := range files {
			if b := h.events.Get(seqKey(seq)); b != nil {
				_, no, _, err := parseEvent(seq, b)
				if err != nil {
					return Event{}, h.store.wrap(err)
				}
				if gone, err := h.gone(no); err != nil || gone {
					continue // it is also in its archive
				}
				e, err := h.event(seq, true)
				return e, h.store.wrap(err)
			}
		}
		return Event{}, fmt.Errorf("event %d: %w", seq, ErrNotFound)
	})
}

// Last returns the Seq of the newest event, 0 in an empty store.
func (s *Store) Last() (uint64, error) { return query(s, (*reader).last) }

func (r *reader) last() (uint64, error) { return lastSeq(r.tx) }

// Candidate returns the candidate with the given id, or the one whose id begins
// with it, with all payloads. It gives ErrNotFound and ErrAmbiguous.
func (s *Store) Candidate(idOrPrefix string) (Candidate, error) {
	return query(s, func(r *reader) (Candidate, error) {
		c, _, _, err := r.resolve(idOrPrefix, true)
		return c, err
	})
}

// resolve reads the candidate with that id, or the one whose id begins with it, and
// returns the reader that has it.
func (r *reader) resolve(idOrPrefix string, full bool) (Candidate, candidateRecord, *reader, error) {
	h, ok, err := r.has(idOrPrefix)
	if err != nil {
		return Candidate{}, candidateRecord{}, nil, err
	}
	id := idOrPrefix
	if !ok {
		files, err := r.homes(anyCampaign)
		if err != nil {
			return Candidate{}, candidateRecord{}, nil, err
		}
		var ids []*bolt.Bucket
		for _, h := range files {
			ids = append(ids, h.ids)
		}
		if id, err = resolve("candidate", idOrPrefix, ids...); err == nil {
			if h, ok, err = r.has(id); err == nil && !ok {
				err = disagree("candidate %s is missing", id)
			}
		}
		if err != nil {
			return Candidate{}, candidateRecord{}, nil, err
		}
	}
	c, rec, err := h.known(id, full)
	return c, rec, h, h.store.wrap(err)
}

// has finds the file that has the candidate with that full id.
func (r *reader) has(id string) (*reader, bool, error) {
	mine := func(h *reader) (bool, error) {
		rec, ok, err := findCandidate(h.ids, h.candidates, id)
		if err != nil || !ok {
			return false, h.store.wrap(err)
		}
		gone, err := h.gone(rec.campaign)
		return !gone, err
	}
	if ok, err := mine(r); ok || err != nil || id == "" {
		return r, ok, err
	}
	list, err := r.moved()
	if err != nil {
		return nil, false, err
	}
	for _, m := range slices.Backward(list.all) { // the newest are requested most
		h, err := r.archive(m.name)
		if err != nil {
			return nil, false, err
		}
		if ok, err := mine(h); ok || err != nil {
			return h, ok, err
		}
	}
	return nil, false, nil
}

// known reads a candidate by its full id.
func (r *reader) known(id string, full bool) (Candidate, candidateRecord, error) {
	r.store.touch(r.tx, 1)
	rec, ok, err := findCandidate(r.ids, r.candidates, id)
	if err == nil && !ok {
		err = disagree("candidate %s is missing", id)
	}
	if err != nil {
		return Candidate{}, candidateRecord{}, err
	}
	c, err := r.candidate(rec, full)
	if err == nil && c.ID != id {
		err = disagree("candidate %s stands for %s", c.ID, id)
	}
	return c, rec, err
}

// resulting reads the candidate whose result an index says that event is.
func (r *reader) resulting(seq uint64) (Candidate, error) {
	e, err := r.event(seq, false, KindTold, KindMeasured)
	if err != nil {
		return Candidate{}, err
	}
	c, _, err := r.known(e.Result().Candidate, false)
	if err == nil && c.ToldSeq != seq {
		err = disagree("event %d is not the result of candidate %s", seq, c.ID)
	}
	return c, err
}

// candidate reads the events of a candidate and compares the record with them.
func (r *reader) candidate(rec candidateRecord, full bool) (Candidate, error) {
	asked, err := r.event(rec.asked, false, KindAsked)
	if err != nil {
		return Candidate{}, err
	}
	campaign, err := r.record(rec.campaign)
	if err != nil {
		return Candidate{}, err
	}
	c := Candidate{
		ID: asked.Asked.Candidate, Campaign: campaign.id, Kernel: campaign.kernel, Device: campaign.device, Shapes: campaign.shapes,
		Asked: *asked.Asked, AskedAt: asked.Time, AskedSeq: rec.asked,
		ToldSeq: rec.result(), Again: rec.measured != 0, FinalsSeq: rec.finals, Finalist: rec.finals != 0, Proven: rec.provenIn(campaign),
	}
	agrees := asked.Campaign == campaign.id && asked.Asked.Index == rec.index && len(rec.parents) <= len(c.Asked.Parents)
	if rec.asked != rec.born {
		first, err := r.event(rec.born, false, KindAsked)
		if err != nil {
			return Candidate{}, err
		}
		agrees = agrees && first.Asked.Candidate == c.ID
	}
	if c.ToldSeq != 0 {
		kind := KindTold
		if c.Again {
			kind = KindMeasured
		}
		told, err := r.event(c.ToldSeq, full, kind)
		if err != nil {
			return Candidate{}, err
		}
		c.Told, c.ToldAt = told.Result(), told.Time
		agrees = agrees && c.Told.Candidate == c.ID && rec.correct == (c.Told.Verdict == correct)
	}
	if rec.finals != 0 {
		if c.Finals, err = r.finalsOf(rec.finals, c.ID, full); err != nil {
			return Candidate{}, err
		}
		agrees = agrees && slices.Contains(participants(c.Finals), c.ID)
	}
	if !agrees {
		return Candidate{}, disagree("candidate %s", c.ID)
	}
	return c, nil
}

// finalsOf reads finals for a candidate that was in them: with their Detail, but for
// the winner only if full is set.
func (r *reader) finalsOf(seq uint64, id string, full bool) (*Finals, error) {
	if f := r.finals[seq]; f != nil && (full || f.Winner != id) {
		return f, nil
	}
	e, err := r.event(seq, full, KindFinals)
	if err == nil && !full && e.Finals.Winner != id {
		full = true
		e, err = r.event(seq, full)
	}
	if err == nil && full {
		r.finals[seq] = e.Finals
	}
	return e.Finals, err
}

// A Query selects campaigns whose candidates are ranked. Empty fields select all.
type Query struct {
	Kernel string
	Device string // fingerprint
	// Shapes selects campaigns tuned for exactly these shapes, in any order.
	Shapes []string
	// Campaign is a full id; Campaigns are several, each of which is considered.
	Campaign  string
	Campaigns []string
	// ProvenOnly leaves out candidates that won no finals.
	ProvenOnly bool
	// Limit is how many to return. Zero means one.
	Limit int
}

func (q Query) selects(r *campaignRecord) bool {
	if q.Kernel != "" && q.Kernel != r.kernel || q.Device != "" && q.Device != r.device || q.Campaign != "" && q.Campaign != r.id {
		return false
	}
	if len(q.Shapes) == 0 || slices.Equal(q.Shapes, r.shapes) {
		return true
	}
	if len(q.Shapes) != len(r.shapes) {
		return false
	}
	a, b := slices.Clone(q.Shapes), slices.Clone(r.shapes)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// Best returns the correct candidates with the smallest fitness, the best first and of
// equal ones the older first; none is not an error. A fitness is relative to the
// baseline of its device, kernel and shapes: across several of them the order says
// little. A small fitness may be luck; Proven and Finals show which results a second
// measurement confirmed. Details are not filled in.
func (s *Store) Best(q Query) ([]Candidate, error) {
	if q.Limit <= 0 {
		q.Limit = 1
	}
	return query(s, func(r *reader) (out []Candidate, err error) {
		ranks, err := r.rank(q)
		if err != nil {
			return nil, err
		}
		for _, k := range ranks {
			h, err := r.home(k.campaign)
			if err != nil {
				return nil, err
			}
			c, err := h.resulting(k.told)
			if err != nil {
				return nil, h.store.wrap(err)
			}
			if c.Told.Verdict != correct || c.Told.Fitness != k.fitness {
				return nil, disagree("candidate %s is ranked with fitness %v", c.ID, k.fitness)
			}
			out = append(out, c)
		}
		return out, nil
	})
}

// pageSize is how many candidates a page has when a query sets no limit.
const pageSize = 1000

// Candidates returns the candidates of the campaigns that q selects by kernel,
// device, shapes and campaign, in the order of the log, whatever their verdicts: at
// most q.Limit of those first asked for at the event from or after it. next is the from of the
// next page, 0 after the last. Details are not filled in.
func (s *Store) Candidates(q Query, from uint64) (out []Candidate, next uint64, err error) {
	if q.Limit <= 0 {
		q.Limit = pageSize
	}
	next, err = query(s, func(r *reader) (next uint64, err error) {
		out, next, err = r.page(q, from)
		return next, err
	})
	if err != nil {
		return nil, 0, err
	}
	return out, next, nil
}

// page is Candidates over all files.
func (r *reader) page(q Query, from uint64) (out []Candidate, next uint64, err error) {
	last := uint64(math.MaxUint64)
	files := []*reader{r}
	if q.Campaign != "" {
		no, rec, err := r.named(q.Campaign)
		if err != nil {
			return nil, 0, err
		}
		from, last = max(from, no), rec.last
		if files[0], err = r.home(no); err != nil {
			return nil, 0, err
		}
	} else {
		var failed error
		files, err = r.homes(func(m moved) bool {
			rec, err := r.record(m.no)
			failed = cmp.Or(failed, err)
			return err == nil && m.last >= from && q.wants(rec)
		})
		if err = cmp.Or(failed, err); err != nil {
			return nil, 0, err
		}
	}
	if len(files) == 1 {
		found, next, err := files[0].born(q, from, last)
		for _, b := range found {
			out = append(out, b.Candidate)
		}
		return out, next, files[0].store.wrap(err)
	}
	// Candidates after the point where one file stopped are left for the next page.
	var all []bornCandidate
	end := last
	for _, h := range files {
		found, next, err := h.born(q, from, end)
		if err != nil {
			return nil, 0, h.store.wrap(err)
		}
		if next != 0 {
			end = min(end, next-1)
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b bornCandidate) int { return cmp.Compare(a.born, b.born) })
	for _, b := range all {
		if b.born > end {
			return out, end + 1, nil
		}
		if len(out) == q.Limit {
			return out, b.born, nil
		}
		out = append(out, b.Candidate)
	}
	if end != last {
		return out, end + 1, nil
	}
	return out, 0, nil
}

// A bornCandidate is a candidate with the event at which it was first asked for.
type bornCandidate struct {
	Candidate
	born uint64
}

// wants is selects, but also checks Campaigns.
func (q Query) wants(r *campaignRecord) bool {
	return q.selects(r) && (len(q.Campaigns) == 0 || slices.Contains(q.Campaigns, r.id))
}

// born is Candidates for one file.
func (r *reader) born(q Query, from, last uint64) (out []bornCandidate, next uint64, err error) {
	list, err := r.moved()
	if err != nil {
		return nil, 0, err
	}
	c := r.candidates.Cursor()
	// Candidates of other campaigns cost time, too: do not keep the
	// transaction for too many of them.
	seen := 0
	for k, v := c.Seek(seqKey(from)); k != nil; k, v = c.Next() {
		born, err := keySeq(k)
		if err != nil {
			return nil, 0, err
		}
		if born > last {
			return out, 0, nil
		}
		if seen++; len(out) == q.Limit || seen > pageSize+4*q.Limit {
			return out, born, nil
		}
		rec, err := decodeCandidate(born, v)
		if err != nil {
			return nil, 0, err
		}
		if _, gone := list.byNo[rec.campaign]; gone {
			continue
		}
		of, err := r.record(rec.campaign)
		if err != nil {
			return nil, 0, err
		}
		if !q.wants(of) || q.ProvenOnly && !rec.provenIn(of) {
			continue
		}
		found, err := r.candidate(rec, false)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, bornCandidate{found, born})
	}
	return out, 0, nil
}

// A rank is one correct result.
type rank struct {
	fitness float64
	told    uint64
}

func (a rank) compare(b rank) int {
	switch {
	case a.fitness < b.fitness:
		return -1
	case a.fitness > b.fitness:
		return 1
	case a.told < b.told:
		return -1
	case a.told > b.told:
		return 1
	}
	return 0
}

// A place is a rank and the campaign that has it.
type place struct {
	rank
	campaign uint64
}

// rank merges the rankings of the campaigns that q selects. A campaign's
// ranking is only opened when its best, which is in its record, comes up.
func (r *reader) rank(q Query) ([]place, error) {
	var all []uint64
	var err error
	switch {
	case q.Campaign == "" && len(q.Campaigns) == 0:
		if all, err = r.numbers(); err != nil {
			return nil, err
		}
	case q.Campaign != "":
		q.Campaigns = []string{q.Campaign}
	}
	for _, id := range q.Campaigns {
		no, _, err := r.named(id)
		if err != nil {
			return nil, err
		}
		all = append(all, no)
	}
	var h rankHeap
	for _, no := range all {
		rec, err := r.record(no)
		if err != nil {
			return nil, err
		}
		if q.selects(rec) && rec.best != 0 && (!q.ProvenOnly || len(rec.winners) > 0) {
			h = append(h, &ranking{place: place{rank{rec.fitness, rec.best}, no}})
		}
	}
	if q.ProvenOnly {
		return r.winners(h, q.Limit)
	}
	heap.Init(&h)
	var out []place
	for len(h) > 0 && len(out) < q.Limit {
		top := h[0]
		out = append(out, top.place)
		more, err := top.advance(r)
		switch {
		case err != nil:
			return nil, err
		case more:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
	}
	return out, nil
}

// winners lists the best winners of finals. None is better than the best of its
// campaign, so campaigns whose best is not good enough are skipped.
func (r *reader) winners(of rankHeap, limit int) (out []place, err error) {
	slices.SortFunc(of, func(a, b *ranking) int { return a.compare(b.rank) })
	for _, c := range of {
		if len(out) >= limit && out[limit-1].compare(c.rank) < 0 {
			break
		}
		h, err := r.home(c.campaign)
		if err != nil {
			return nil, err
		}
		rec, err := r.record(c.campaign)
		if err != nil {
			return nil, err
		}
		for _, w := range rec.winners {
			e, err := h.event(w, false, KindTold, KindMeasured)
			if err != nil {
				return nil, h.store.wrap(err)
			}
			out = append(out, place{rank{e.Result().Fitness, w}, c.campaign})
		}
		slices.SortFunc(out, func(a, b place) int { return a.compare(b.rank) })
	}
	return out[:min(len(out), limit)], nil
}

// A ranking walks the ranked results of one campaign.
type ranking struct {
	place
	cursor *bolt.Cursor
}

// advance moves to the next result, and says whether there is one.
func (w *ranking) advance(r *reader) (bool, error) {
	var k []byte
	if w.cursor == nil {
		h, err := r.home(w.campaign)
		if err != nil {
			return false, err
		}
		w.cursor = h.ranking.Cursor()
		k, _ = w.cursor.Seek(rankingKey(w.campaign, w.fitness, w.told+1))
	} else {
		k, _ = w.cursor.Next()
	}
	if len(k) != 24 || binary.BigEndian.Uint64(k) != w.campaign {
		return false, nil
	}
	w.rank = rank{math.Float64frombits(binary.BigEndian.Uint64(k[8:])), binary.BigEndian.Uint64(k[16:])}
	return true, nil
}

type rankHeap []*ranking

func (h rankHeap) Len() int           { return len(h) }
func (h rankHeap) Less(i, j int) bool { return h[i].compare(h[j].rank) < 0 }
func (h rankHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rankHeap) Push(x any)        { *h = append(*h, x.(*ranking)) }
func (h *rankHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// ByKey returns the candidates whose results have the content key, the oldest first;
// none is not an error. Details are not filled in.
func (s *Store) ByKey(key string) ([]Candidate, error) {
	if key == "" {
		return nil, nil
	}
	return query(s, func(r *reader) (out []Candidate, err error) {
		files, err := r.homes(anyCampaign)
		if err != nil {
			return nil, err
		}
		for _, h := range files {
			for _, seq := range following(h.keys, contentKey(key, 0)[:8]) {
				if _, no, _, err := eventAt(h.events, seq); err == nil {
					if gone, err := h.gone(no); err == nil && gone {
						continue
					}
				}
				c, err := h.resulting(seq)
				if err != nil {
					return nil, h.store.wrap(err)
				}
				if c.Told.Key == key { // otherwise only the first bytes of its hash are the same
					out = append(out, c)
				}
			}
		}
		slices.SortFunc(out, func(a, b Candidate) int { return cmp.Compare(a.ToldSeq, b.ToldSeq) })
		return out, nil
	})
}

// A Node is a candidate with its parents, in the order of the proposal.
type Node struct {
	Candidate
	// Parents are shared: a candidate that is reached by several paths is one Node.
	// There are no cycles.
	Parents []*Node
}

// Lineage returns a candidate, given as for Candidate, with all its ancestors.
// Details are not filled in.
//
// A candidate whose evaluation was lost may be proposed again, perhaps as a
// child of its own descendants: such parents are left out.
func (s *Store) Lineage(idOrPrefix string) (*Node, error) {
	return query(s, func(r *reader) (*Node, error) {
		c, rec, h, err := r.resolve(idOrPrefix, false)
		if err != nil {
			return nil, err
		}
		// By their first proposal, as records name parents.
		nodes := map[uint64]*Node{}
		var todo, again []*Node
		var parents [][]uint64 // of todo
		var where []*reader    // of todo
		visit := func(c Candidate, rec candidateRecord, h *reader) *Node {
			n := &Node{Candidate: c}
			nodes[rec.born] = n
			todo, parents, where = append(todo, n), append(parents, rec.parents), append(where, h)
			if rec.asked != rec.born {
				again = append(again, n)
			}
			return n
		}
		root := visit(c, rec, h)
		for len(todo) > 0 {
			last := len(todo) - 1
			n, born, h := todo[last], parents[last], where[last]
			todo, parents, where = todo[:last], parents[:last], where[:last]
			for _, b := range born {
				p := nodes[b]
				if p == nil {
					h.store.touch(h.tx, 1)
					h, rec, err := r.bornAt(b, h)
					if err != nil {
						return nil, err
					}
					c, err := h.candidate(rec, false)
					if err != nil {
						return nil, h.store.wrap(err)
					}
					p = visit(c, rec, h)
				}
				if !slices.Contains(n.Asked.Parents, p.ID) {
					return nil, disagree("candidate %s is not a parent of %s", p.ID, n.ID)
				}
				n.Parents = append(n.Parents, p)
			}
		}
		for _, n := range again {
			n.Parents = slices.DeleteFunc(n.Parents, func(p *Node) bool { return p.reaches(n) })
		}
		return root, nil
	})
}

// bornAt finds the candidate that was first asked for at that event. It looks in the
// file near first.
func (r *reader) bornAt(born uint64, near *reader) (*reader, candidateRecord, error) {
	look := func(h *reader) (candidateRecord, bool, error) {
		b := h.candidates.Get(seqKey(born))
		if b == nil {
			return candidateRecord{}, false, nil
		}
		rec, err := decodeCandidate(born, b)
		if err != nil {
			return candidateRecord{}, false, h.store.wrap(err)
		}
		gone, err := h.gone(rec.campaign)
		return rec, !gone, err
	}
	if rec, ok, err := look(near); ok || err != nil {
		return near, rec, err
	}
	files, err := r.homes(func(m moved) bool { return m.no <= born && born <= m.last })
	if err != nil {
		return nil, candidateRecord{}, err
	}
	for _, h := range files {
		if rec, ok, err := look(h); ok || err != nil {
			return h, rec, err
		}
	}
	return nil, candidateRecord{}, corrupt("index of candidate %d is missing", born)
}

// reaches says whether n is p or one of its ancestors.
func (p *Node) reaches(n *Node) bool {
	seen := map[*Node]bool{p: true}
	for todo := []*Node{p}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at == n {
			return true
		}
		for _, q := range at.Parents {
			if !seen[q] {
				seen[q] = true
				todo = append(todo, q)
			}
		}
	}
	return false
}

// Children returns the candidates that have the given one, given as for
// Candidate, among their parents, oldest first. Details are not filled in.
func (s *Store) Children(idOrPrefix string) ([]Candidate, error) {
	return query(s, func(r *reader) (out []Candidate, err error) {
		parent, rec, _, err := r.resolve(idOrPrefix, false)
		if err != nil {
			return nil, err
		}
		files, err := r.homes(anyCampaign)
		if err != nil {
			return nil, err
		}
		for _, h := range files {
			some, err := h.childrenOf(parent, rec.born)
			if err != nil {
				return nil, h.store.wrap(err)
			}
			out = append(out, some...)
		}
		slices.SortFunc(out, func(a, b Candidate) int { return cmp.Compare(a.AskedSeq, b.AskedSeq) })
		return out, nil
	})
}

func (r *reader) childrenOf(parent Candidate, born uint64) (out []Candidate, err error) {
	for _, seq := range following(r.children, seqKey(born)) {
		asked, no, _, err := eventAt(r.events, seq, KindAsked)
		if err != nil {
			return nil, err
		}
		if gone, err := r.gone(no); err != nil {
			return nil, err
		} else if gone {
			continue
		}
		if !slices.Contains(asked.Asked.Parents, parent.ID) {
			return nil, disagree("candidate %s is not a child of %s", asked.Asked.Candidate, parent.ID)
		}
		child, _, err := r.known(asked.Asked.Candidate, false)
		if err != nil {
			return nil, err
		}
		if child.AskedSeq == seq { // otherwise it was asked for again since, perhaps with other parents
			out = append(out, child)
		}
	}
	return out, nil
}
