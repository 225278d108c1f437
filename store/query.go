package store

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A Campaign is what the log says of one campaign.
type Campaign struct {
	ID    string `json:"id"`
	State State  `json:"state"`
	// Reason is that of the newest stop or end; empty while Running.
	Reason string `json:"reason,omitempty"`
	// Started is how the campaign was started. Config and Description are
	// filled in by Store.Campaign only.
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
	// that it is of a second measurement.
	Best      *Told `json:"best,omitempty"`
	BestAgain bool  `json:"best_again,omitempty"`
	// Finals is the newest comparison; nil when there was none. Its Detail is
	// filled in by Store.Campaign only.
	Finals *Finals `json:"finals,omitempty"`
}

// A Candidate is what the log says of one candidate.
type Candidate struct {
	ID       string `json:"id"`
	Campaign string `json:"campaign"`
	// Kernel, Device and Shapes are those of the campaign.
	Kernel string   `json:"kernel"`
	Device string   `json:"device"`
	Shapes []string `json:"shapes"`

	Asked   Asked     `json:"asked"`
	AskedAt time.Time `json:"asked_at"`
	// AskedSeq and ToldSeq are the events of proposal and result; ToldSeq is 0
	// without a result.
	AskedSeq uint64 `json:"asked_seq"`
	ToldSeq  uint64 `json:"told_seq,omitempty"`
	// Told is nil while there is no result. Its Detail is filled in by
	// Store.Candidate only.
	Told   *Told     `json:"told,omitempty"`
	ToldAt time.Time `json:"told_at,omitzero"`
	// Again says that the result is that of a second measurement, because the
	// machine disturbed the one that the search was told of.
	Again bool `json:"again,omitempty"`

	// Finalist says that the candidate was measured again in finals, and
	// Proven that it won some finals of its campaign.
	Finalist bool `json:"finalist"`
	Proven   bool `json:"proven"`
	// FinalsSeq is the newest finals it was in, or 0, and Finals that event. Its
	// Detail is filled in by Store.Candidate, and everywhere for those that did not
	// win: only there is what the finals measured of them.
	FinalsSeq uint64  `json:"finals_seq,omitempty"`
	Finals    *Finals `json:"finals,omitempty"`
}

// A reader answers queries within one transaction.
type reader struct {
	store                                                                       *Store
	tx                                                                          *bolt.Tx
	events, details, campaigns, names, ids, candidates, ranking, keys, children *bolt.Bucket

	records map[uint64]*campaignRecord
	finals  map[uint64]*Finals // with their Detail
}

// query runs f with a reader.
func (s *Store) query(f func(*reader) error) error {
	return s.wrap(s.view(func(tx *bolt.Tx) error {
		r := &reader{
			store: s, tx: tx, events: tx.Bucket(bucketEvents), details: tx.Bucket(bucketDetails),
			campaigns: tx.Bucket(bucketCampaigns), names: tx.Bucket(bucketNames), ids: tx.Bucket(bucketIDs), candidates: tx.Bucket(bucketCandidates),
			ranking: tx.Bucket(bucketRanking), keys: tx.Bucket(bucketKeys), children: tx.Bucket(bucketChildren),
			records: map[uint64]*campaignRecord{}, finals: map[uint64]*Finals{},
		}
		return f(r)
	}))
}

// disagree is the error of an index that does not say what the log says.
func disagree(format string, args ...any) error {
	return corrupt("an index disagrees with the log: %s", fmt.Sprintf(format, args...))
}

// event reads one event, with its campaign but without payloads.
func (r *reader) event(seq uint64) (e Event, detail bool, err error) {
	r.store.touch(r.tx, 1)
	b := r.events.Get(seqKey(seq))
	if b == nil {
		return Event{}, false, disagree("event %d is missing", seq)
	}
	e, no, detail, err := decodeEvent(seq, b)
	if err != nil {
		return Event{}, false, fmt.Errorf("event %d: %w", seq, err)
	}
	if e.Kind != KindStarted {
		rec, err := r.record(no)
		if err != nil {
			return Event{}, false, err
		}
		e.Campaign = rec.id
	}
	return e, detail, nil
}

// expect reads an event that must be of a kind.
func (r *reader) expect(seq uint64, kind Kind) (Event, bool, error) {
	e, detail, err := r.event(seq)
	if err == nil && e.Kind != kind {
		err = disagree("event %d is %s, not %s", seq, e.Kind, kind)
	}
	return e, detail, err
}

// result reads an event that must record a result.
func (r *reader) result(seq uint64) (e Event, t *Told, detail bool, err error) {
	e, detail, err = r.event(seq)
	if t = e.Result(); err == nil && t == nil {
		err = disagree("event %d is %s, not %s", seq, e.Kind, KindTold)
	}
	return e, t, detail, err
}

// fill reads the payloads of an event.
func (r *reader) fill(e *Event) error {
	r.store.touch(r.tx, 1)
	b := r.details.Get(seqKey(e.Seq))
	if b == nil {
		return corrupt("the detail of event %d is missing", e.Seq)
	}
	if err := decodeDetail(e, b); err != nil {
		return fmt.Errorf("detail of event %d: %w", e.Seq, err)
	}
	return nil
}

// full reads an event with everything.
func (r *reader) full(seq uint64) (Event, error) {
	e, detail, err := r.event(seq)
	if err == nil && detail {
		err = r.fill(&e)
	}
	return e, err
}

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

// resolve finds the one key in b that is id or begins with it.
func resolve(b *bolt.Bucket, what, id string) (key, value []byte, err error) {
	if id == "" {
		return nil, nil, fmt.Errorf("%s %q: %w", what, id, ErrNotFound)
	}
	c := b.Cursor()
	key, value = c.Seek([]byte(id))
	switch {
	case key == nil || !bytes.HasPrefix(key, []byte(id)):
		return nil, nil, fmt.Errorf("%s %q: %w", what, id, ErrNotFound)
	case len(key) == len(id):
		return key, value, nil
	}
	const show = 4
	var also []string
	for k, _ := c.Next(); k != nil && bytes.HasPrefix(k, []byte(id)) && len(also) < show; k, _ = c.Next() {
		also = append(also, string(k))
	}
	if len(also) == 0 {
		return key, value, nil
	}
	also = append([]string{string(key)}, also...)
	dots := ""
	if len(also) > show {
		also, dots = also[:show], ", ..."
	}
	return nil, nil, fmt.Errorf("%s %q: %w: it may be %s%s", what, id, ErrAmbiguous, strings.Join(also, ", "), dots)
}

// Campaigns returns all campaigns in the order in which they were started.
func (s *Store) Campaigns() ([]Campaign, error) {
	var out []Campaign
	err := s.query(func(r *reader) error {
		c := r.campaigns.Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			no, err := keySeq(k)
			if err != nil {
				return err
			}
			campaign, err := r.campaign(no, false)
			if err != nil {
				return err
			}
			out = append(out, campaign)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Campaign returns the campaign with the given id, or the one whose id begins
// with it, with all payloads. It gives ErrNotFound and ErrAmbiguous.
func (s *Store) Campaign(idOrPrefix string) (Campaign, error) {
	var out Campaign
	err := s.query(func(r *reader) error {
		_, v, err := resolve(r.names, "campaign", idOrPrefix)
		if err != nil {
			return err
		}
		no, err := keySeq(v)
		if err != nil {
			return err
		}
		out, err = r.campaign(no, true)
		return err
	})
	if err != nil {
		return Campaign{}, err
	}
	return out, nil
}

func (r *reader) campaign(no uint64, payloads bool) (Campaign, error) {
	rec, err := r.record(no)
	if err != nil {
		return Campaign{}, err
	}
	get := func(seq uint64, kind Kind) (Event, error) {
		e, detail, err := r.event(seq)
		if err == nil && (kind != "" && e.Kind != kind || e.Campaign != rec.id) {
			err = disagree("event %d is %s of campaign %s", seq, e.Kind, e.Campaign)
		}
		if err == nil && payloads && detail {
			err = r.fill(&e)
		}
		return e, err
	}
	started, err := get(no, KindStarted)
	if err != nil {
		return Campaign{}, err
	}
	last, err := get(rec.last, "")
	if err != nil {
		return Campaign{}, err
	}
	c := Campaign{
		ID: rec.id, State: rec.state, Started: *started.Started,
		StartedAt: started.Time, LastAt: last.Time, First: no, Last: rec.last,
		Asked: rec.asked, Evaluated: rec.told, Verdicts: make(map[string]int, len(rec.verdicts)),
	}
	for _, v := range rec.verdicts {
		c.Verdicts[v.verdict] = v.n
	}
	if rec.note != 0 && rec.state != Running {
		note, _, err := r.event(rec.note)
		if err != nil {
			return Campaign{}, err
		}
		if note.Note == nil {
			return Campaign{}, disagree("event %d is %s", rec.note, note.Kind)
		}
		c.Reason = note.Note.Reason
	}
	if rec.best != 0 {
		e, told, _, err := r.result(rec.best)
		if err != nil {
			return Campaign{}, err
		}
		if told.Fitness != rec.fitness {
			return Campaign{}, disagree("event %d has fitness %v, not %v", rec.best, told.Fitness, rec.fitness)
		}
		c.Best, c.BestAgain = told, e.Measured != nil
	}
	if rec.finals != 0 {
		finals, err := get(rec.finals, KindFinals)
		if err != nil {
			return Campaign{}, err
		}
		c.Finals = finals.Finals
	}
	return c, nil
}

// eventsChunk is how many events are read in one transaction.
const eventsChunk = 256

// An EventsOption changes what Events reads.
type EventsOption func(*eventsConfig)

type eventsConfig struct{ bare bool }

// WithoutDetail leaves Detail, Config and Description empty: many times faster when they
// are not needed.
func WithoutDetail() EventsOption { return func(c *eventsConfig) { c.bare = true } }

// Events returns the events of a campaign, or of all when campaign is empty, from
// the Seq from on, in order. The campaign is given by its whole id; one that is
// not there has no events. The sequence ends after the first error.
//
// The events are those that the log has when the loop begins. No transaction is
// held while an event is with the caller, who may append meanwhile.
func (s *Store) Events(campaign string, from uint64, options ...EventsOption) iter.Seq2[Event, error] {
	var cfg eventsConfig
	for _, o := range options {
		o(&cfg)
	}
	return func(yield func(Event, error) bool) {
		next, last := max(from, 1), uint64(0)
		for next != 0 {
			var chunk []Event
			err := s.query(func(r *reader) (err error) {
				if last == 0 {
					k, _ := r.events.Cursor().Last()
					if last, err = keySeq(k); err != nil {
						return err
					}
				}
				chunk, next, err = r.chunk(campaign, next, last, cfg.bare)
				return err
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

// chunk reads events from next to last. It returns where to go on, or 0 at the end.
// Events before a damaged one come with the error.
func (r *reader) chunk(campaign string, next, last uint64, bare bool) (out []Event, _ uint64, err error) {
	var only uint64
	if campaign != "" {
		v := r.names.Get([]byte(campaign))
		if v == nil {
			return nil, 0, nil
		}
		if only, err = keySeq(v); err != nil {
			return nil, 0, err
		}
		rec, err := r.record(only)
		if err != nil {
			return nil, 0, err
		}
		next, last = max(next, only), min(last, rec.last)
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
		if campaign != "" && no != only {
			continue
		}
		if e.Kind != KindStarted {
			rec, err := r.record(no)
			if err != nil {
				return out, 0, err
			}
			e.Campaign = rec.id
		}
		if detail && !bare {
			if err := r.fill(&e); err != nil {
				return out, 0, err
			}
		}
		out = append(out, e)
		r.store.touch(r.tx, 1)
	}
	return out, 0, nil
}

// Event returns one event with its payloads. It gives ErrNotFound when there is
// none with this Seq.
func (s *Store) Event(seq uint64) (Event, error) {
	var out Event
	err := s.query(func(r *reader) (err error) {
		if r.events.Get(seqKey(seq)) == nil {
			return fmt.Errorf("event %d: %w", seq, ErrNotFound)
		}
		out, err = r.full(seq)
		return err
	})
	if err != nil {
		return Event{}, err
	}
	return out, nil
}

// Last returns the Seq of the newest event, 0 in an empty store.
func (s *Store) Last() (uint64, error) {
	var last uint64
	err := s.query(func(r *reader) (err error) {
		k, _ := r.events.Cursor().Last()
		last, err = keySeq(k)
		return err
	})
	return last, err
}

// Candidate returns the candidate with the given id, or the one whose id begins
// with it, with all payloads. It gives ErrNotFound and ErrAmbiguous.
func (s *Store) Candidate(idOrPrefix string) (Candidate, error) {
	var out Candidate
	err := s.query(func(r *reader) error {
		rec, err := r.resolve(idOrPrefix)
		if err != nil {
			return err
		}
		out, err = r.candidate(rec, true)
		return err
	})
	if err != nil {
		return Candidate{}, err
	}
	return out, nil
}

// lookup finds a candidate by its whole id.
func (r *reader) lookup(id string) (candidateRecord, error) {
	r.store.touch(r.tx, 1)
	rec, ok, err := findCandidate(r.ids, r.candidates, id)
	if err == nil && !ok {
		err = disagree("candidate %s is missing", id)
	}
	return rec, err
}

// resolve finds a candidate by its id or the beginning of it, and holds it
// against its event.
func (r *reader) resolve(idOrPrefix string) (candidateRecord, error) {
	k, _, err := resolve(r.ids, "candidate", idOrPrefix)
	if err != nil {
		return candidateRecord{}, err
	}
	rec, err := r.lookup(string(k))
	if err != nil {
		return candidateRecord{}, err
	}
	asked, _, err := r.expect(rec.asked, KindAsked)
	if err == nil && asked.Asked.Candidate != string(k) {
		err = disagree("event %d asks for candidate %s, not for %s", rec.asked, asked.Asked.Candidate, k)
	}
	return rec, err
}

// candidate reads the events of a candidate and holds the record against them.
func (r *reader) candidate(rec candidateRecord, payloads bool) (Candidate, error) {
	asked, _, err := r.expect(rec.asked, KindAsked)
	if err != nil {
		return Candidate{}, err
	}
	id := asked.Asked.Candidate
	if rec.asked != rec.born {
		first, _, err := r.expect(rec.born, KindAsked)
		if err != nil {
			return Candidate{}, err
		}
		if first.Asked.Candidate != id {
			return Candidate{}, disagree("event %d asks for candidate %s, event %d for %s", rec.born, first.Asked.Candidate, rec.asked, id)
		}
	}
	campaign, err := r.record(rec.campaign)
	if err != nil {
		return Candidate{}, err
	}
	if asked.Asked.Index != rec.index || asked.Campaign != campaign.id {
		return Candidate{}, disagree("event %d asks for proposal %d of campaign %s, not for %d of %s",
			rec.asked, asked.Asked.Index, asked.Campaign, rec.index, campaign.id)
	}
	c := Candidate{
		ID: id, Campaign: campaign.id, Kernel: campaign.kernel, Device: campaign.device, Shapes: campaign.shapes,
		Asked: *asked.Asked, AskedAt: asked.Time, AskedSeq: rec.asked,
		ToldSeq: rec.result(), Again: rec.measured != 0, FinalsSeq: rec.finals, Finalist: rec.finals != 0, Proven: rec.won,
	}
	if rec.told != 0 {
		e, told, detail, err := r.result(c.ToldSeq)
		if err != nil {
			return Candidate{}, err
		}
		if told.Candidate != id || c.Again != (e.Measured != nil) {
			return Candidate{}, disagree("event %d is %s of candidate %s, not the result of %s", c.ToldSeq, e.Kind, told.Candidate, id)
		}
		if payloads && detail {
			if err := r.fill(&e); err != nil {
				return Candidate{}, err
			}
		}
		c.Told, c.ToldAt = told, e.Time
	}
	if rec.finals != 0 {
		if c.Finals, err = r.finalsOf(rec.finals, id, payloads); err != nil {
			return Candidate{}, err
		}
		if !slices.Contains(participants(c.Finals), id) {
			return Candidate{}, disagree("candidate %s is not in the finals of event %d", id, rec.finals)
		}
	}
	return c, nil
}

// finalsOf reads finals for one who was in them: with their Detail, but for the
// winner only if it is asked for.
func (r *reader) finalsOf(seq uint64, id string, payloads bool) (*Finals, error) {
	if f := r.finals[seq]; f != nil && (payloads || f.Winner != id) {
		return f, nil
	}
	e, detail, err := r.expect(seq, KindFinals)
	if err != nil {
		return nil, err
	}
	if detail && (payloads || e.Finals.Winner != id) {
		if err := r.fill(&e); err != nil {
			return nil, err
		}
		r.finals[seq] = e.Finals
	}
	return e.Finals, nil
}

// A Query selects campaigns whose candidates are ranked. Empty fields select all.
type Query struct {
	Kernel string
	Device string // fingerprint
	// Shapes selects campaigns tuned for exactly these shapes, in any order.
	Shapes []string
	// Campaign is a whole id; Campaigns are several, of which each is looked at.
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

// Best returns the correct candidates with the smallest fitness, best first and
// of equal ones the older first; none is no error. A fitness is relative to
// the baseline of its device, kernel and shapes: across several of them the
// order says little. A small fitness may be luck; Proven and Finals tell what
// stood a second measurement. Details are not filled in.
func (s *Store) Best(q Query) ([]Candidate, error) {
	if q.Limit <= 0 {
		q.Limit = 1
	}
	var out []Candidate
	err := s.query(func(r *reader) error {
		ranks, err := r.rank(q)
		if err != nil {
			return err
		}
		for _, k := range ranks {
			_, told, _, err := r.result(k.told)
			if err != nil {
				return err
			}
			if told.Verdict != correct || told.Fitness != k.fitness {
				return disagree("event %d is %s with fitness %v, not %s with %v",
					k.told, told.Verdict, told.Fitness, correct, k.fitness)
			}
			rec, err := r.lookup(told.Candidate)
			if err != nil {
				return err
			}
			c, err := r.candidate(rec, false)
			if err != nil {
				return err
			}
			if c.ID != told.Candidate || c.ToldSeq != k.told || q.ProvenOnly && !c.Proven {
				return disagree("candidate %s", c.ID)
			}
			out = append(out, c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// pageSize is how many candidates a page has when a query sets no limit.
const pageSize = 1000

// Candidates returns the candidates of the campaigns that q selects by kernel,
// device, shapes and campaign, in the order of the log, whatever their verdicts: at
// most q.Limit of those first asked for at the event from or after it. next is the from of the
// page that follows, 0 after the last. Details are not filled in.
func (s *Store) Candidates(q Query, from uint64) (out []Candidate, next uint64, err error) {
	if q.Limit <= 0 {
		q.Limit = pageSize
	}
	err = s.query(func(r *reader) error {
		var last uint64 = math.MaxUint64
		if q.Campaign != "" {
			v := r.names.Get([]byte(q.Campaign))
			if v == nil {
				return fmt.Errorf("campaign %q: %w", q.Campaign, ErrNotFound)
			}
			no, err := keySeq(v)
			if err != nil {
				return err
			}
			rec, err := r.record(no)
			if err != nil {
				return err
			}
			from, last = max(from, no), rec.last
		}
		c := r.candidates.Cursor()
		// Candidates of other campaigns cost time, too: do not keep the
		// transaction for too many of them.
		seen := 0
		for k, v := c.Seek(seqKey(from)); k != nil; k, v = c.Next() {
			born, err := keySeq(k)
			if err != nil {
				return err
			}
			if born > last {
				return nil
			}
			if seen++; len(out) == q.Limit || seen > pageSize+4*q.Limit {
				next = born
				return nil
			}
			rec, err := decodeCandidate(born, v)
			if err != nil {
				return err
			}
			of, err := r.record(rec.campaign)
			if err != nil {
				return err
			}
			if !q.selects(of) || len(q.Campaigns) > 0 && !slices.Contains(q.Campaigns, of.id) || q.ProvenOnly && !rec.won {
				continue
			}
			found, err := r.candidate(rec, false)
			if err != nil {
				return err
			}
			out = append(out, found)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return out, next, nil
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

// rank merges the rankings of the campaigns that q selects. A campaign's
// ranking is only opened when its best, which its record tells, comes up.
func (r *reader) rank(q Query) ([]rank, error) {
	var h rankHeap
	var winners []rank
	add := func(no uint64) error {
		rec, err := r.record(no)
		if err != nil || !q.selects(rec) {
			return err
		}
		if !q.ProvenOnly {
			if rec.best != 0 {
				h = append(h, &ranking{campaign: no, rank: rank{rec.fitness, rec.best}})
			}
			return nil
		}
		for _, w := range rec.winners {
			_, told, _, err := r.result(w)
			if err != nil {
				return err
			}
			winners = append(winners, rank{told.Fitness, w})
		}
		return nil
	}
	named := q.Campaigns
	if q.Campaign != "" {
		named = []string{q.Campaign}
	}
	for _, id := range named {
		v := r.names.Get([]byte(id))
		if v == nil {
			return nil, fmt.Errorf("campaign %q: %w", id, ErrNotFound)
		}
		no, err := keySeq(v)
		if err != nil {
			return nil, err
		}
		if err := add(no); err != nil {
			return nil, err
		}
	}
	if len(named) == 0 {
		c := r.campaigns.Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			no, err := keySeq(k)
			if err != nil {
				return nil, err
			}
			if err := add(no); err != nil {
				return nil, err
			}
		}
	}
	if q.ProvenOnly {
		slices.SortFunc(winners, rank.compare)
		return winners[:min(len(winners), q.Limit)], nil
	}
	heap.Init(&h)
	var out []rank
	for len(h) > 0 && len(out) < q.Limit {
		top := h[0]
		out = append(out, top.rank)
		more, err := top.advance(r)
		if err != nil {
			return nil, err
		}
		if more {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return out, nil
}

// A ranking walks the ranked results of one campaign.
type ranking struct {
	rank
	campaign uint64
	cursor   *bolt.Cursor
}

// advance goes to the next result, and says whether there is one.
func (w *ranking) advance(r *reader) (bool, error) {
	var k []byte
	if w.cursor == nil {
		w.cursor = r.ranking.Cursor()
		want := rankingKey(w.campaign, w.fitness, w.told)
		if k, _ = w.cursor.Seek(seqKey(w.campaign)); !bytes.Equal(k, want) {
			return false, disagree("the best of campaign %d is event %d", w.campaign, w.told)
		}
	}
	k, _ = w.cursor.Next()
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

// ByKey returns the candidates whose results have the content key, oldest
// first; none is no error. Details are not filled in.
func (s *Store) ByKey(key string) ([]Candidate, error) {
	if key == "" {
		return nil, nil
	}
	var out []Candidate
	err := s.query(func(r *reader) error {
		prefix := contentKey(key, 0)[:8]
		c := r.keys.Cursor()
		for k, _ := c.Seek(prefix); len(k) == 16 && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			seq := binary.BigEndian.Uint64(k[8:])
			_, told, _, err := r.result(seq)
			if err != nil {
				return err
			}
			if told.Key != key {
				continue // only the first bytes of its hash are the same
			}
			rec, err := r.lookup(told.Candidate)
			if err != nil {
				return err
			}
			found, err := r.candidate(rec, false)
			if err != nil {
				return err
			}
			out = append(out, found)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// A Node is a candidate with its parents, in the order of the proposal.
type Node struct {
	Candidate
	// Parents are shared: a candidate that is reached on several ways is one Node. There
	// are no cycles.
	Parents []*Node
}

// Lineage returns a candidate, given as for Candidate, with all its ancestors.
// Details are not filled in.
//
// A candidate whose evaluation was lost may be asked for again, then perhaps as a
// child of its own descendants: such parents are left out.
func (s *Store) Lineage(idOrPrefix string) (*Node, error) {
	var root *Node
	err := s.query(func(r *reader) error {
		rec, err := r.resolve(idOrPrefix)
		if err != nil {
			return err
		}
		// By their first proposal, which is how records name parents.
		nodes := map[uint64]*Node{}
		var todo, again []*Node
		var parents [][]uint64 // of todo
		visit := func(rec candidateRecord) (*Node, error) {
			c, err := r.candidate(rec, false)
			if err != nil {
				return nil, err
			}
			n := &Node{Candidate: c}
			nodes[rec.born] = n
			todo, parents = append(todo, n), append(parents, rec.parents)
			if rec.asked != rec.born {
				again = append(again, n)
			}
			return n, nil
		}
		if root, err = visit(rec); err != nil {
			return err
		}
		for len(todo) > 0 {
			last := len(todo) - 1
			n, born := todo[last], parents[last]
			todo, parents = todo[:last], parents[:last]
			for _, b := range born {
				p := nodes[b]
				if p == nil {
					r.store.touch(r.tx, 1)
					rec, err := candidateAt(r.candidates, b)
					if err != nil {
						return err
					}
					if p, err = visit(rec); err != nil {
						return err
					}
				}
				if !slices.Contains(n.Asked.Parents, p.ID) {
					return disagree("candidate %s is no parent of %s", p.ID, n.ID)
				}
				n.Parents = append(n.Parents, p)
			}
		}
		for _, n := range again {
			n.Parents = slices.DeleteFunc(n.Parents, func(p *Node) bool { return p.reaches(n) })
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return root, nil
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
	var out []Candidate
	err := s.query(func(r *reader) error {
		rec, err := r.resolve(idOrPrefix)
		if err != nil {
			return err
		}
		asked, _, err := r.expect(rec.asked, KindAsked)
		if err != nil {
			return err
		}
		id := asked.Asked.Candidate
		prefix := seqKey(rec.born)
		c := r.children.Cursor()
		for k, _ := c.Seek(prefix); len(k) == 16 && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			seq := binary.BigEndian.Uint64(k[8:])
			asked, _, err := r.expect(seq, KindAsked)
			if err != nil {
				return err
			}
			if !slices.Contains(asked.Asked.Parents, id) {
				return disagree("candidate %s is no child of %s", asked.Asked.Candidate, id)
			}
			child, err := r.lookup(asked.Asked.Candidate)
			if err != nil {
				return err
			}
			if child.asked != seq {
				continue // asked for again since, perhaps with other parents
			}
			found, err := r.candidate(child, false)
			if err != nil {
				return err
			}
			out = append(out, found)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
