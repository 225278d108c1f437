package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// The buckets. The first three are the truth; the others follow from it.
// Sequence numbers in keys are 8 bytes, big endian.
var (
	bucketMeta    = []byte("meta")    // see keyFormat
	bucketEvents  = []byte("events")  // seq -> event (see encoding.go)
	bucketDetails = []byte("details") // seq -> payloads

	bucketCampaigns  = []byte("campaigns")  // seq of started -> campaignRecord
	bucketNames      = []byte("names")      // campaign id -> seq of started
	bucketIDs        = []byte("ids")        // candidate id -> seq of its first asked
	bucketCandidates = []byte("candidates") // seq of first asked -> candidateRecord
	bucketRanking    = []byte("ranking")    // seq of started, fitness bits, seq of the result -> nothing
	bucketKeys       = []byte("keys")       // first 8 bytes of SHA-256 of the content key, seq of the result -> nothing
	bucketChildren   = []byte("children")   // first asked seq of the parent, asked seq of the child -> nothing

	// What a store has of its archives. This is truth, too (see archive.go).
	bucketArchived = []byte("archived") // seq of started -> name of the archive, newest event
	bucketHeads    = []byte("heads")    // seq of started -> summary, and the events that it names
	bucketSpans    = []byte("spans")    // seq of started -> seqs of all its events
	bucketForeign  = []byte("foreign")  // id of a parent that is elsewhere -> seq of its first asked
	bucketRemoving = []byte("removing") // seq of started -> newest event that may be left here, while there are some

	bucketsTruth = [][]byte{bucketMeta, bucketEvents, bucketDetails}
	bucketsIndex = [][]byte{bucketCampaigns, bucketNames, bucketIDs, bucketCandidates, bucketRanking, bucketKeys, bucketChildren}
	bucketsMoved = [][]byte{bucketArchived, bucketHeads, bucketSpans, bucketForeign, bucketRemoving}
	bucketsAll   = slices.Concat(bucketsTruth, bucketsIndex, bucketsMoved)
)

// correct is the one verdict that the store knows: it has a fitness.
const correct = "correct"

// A State is a campaign's latest state in the log.
type State string

// The states. A campaign whose process was killed stays Running.
const (
	Running  State = "running"
	Stopped  State = "stopped"
	Finished State = "finished"
)

var states = [...]State{Running, Stopped, Finished}

// A campaignRecord summarizes a campaign. Sequence numbers are 0 if there is
// no such event.
type campaignRecord struct {
	id, kernel, device string
	shapes             []string
	state              State
	last               uint64 // newest event
	note               uint64 // newest resumed, stopped or finished
	finals             uint64 // newest finals
	asked, told        int
	verdicts           []verdictCount // by verdict
	best               uint64         // result of the best correct candidate
	fitness            float64        // its fitness
	winners            []uint64       // result of each winner of finals
}

type verdictCount struct {
	verdict string
	n       int
}

func newCampaignRecord(e *Event) *campaignRecord {
	return &campaignRecord{
		id: e.Campaign, kernel: e.Started.Kernel, device: e.Started.Device, shapes: e.Started.Shapes,
		state: Running, last: e.Seq,
	}
}

func (r *campaignRecord) encode(no uint64) []byte {
	b := []byte{formatVersion}
	b = appendString(b, r.id)
	b = appendString(b, r.kernel)
	b = appendString(b, r.device)
	b = binary.AppendUvarint(b, uint64(len(r.shapes)))
	for _, s := range r.shapes {
		b = appendString(b, s)
	}
	b = append(b, byte(slices.Index(states[:], r.state)))
	for _, v := range []uint64{r.last, r.note, r.finals, uint64(r.asked), uint64(r.told), uint64(len(r.verdicts))} {
		b = binary.AppendUvarint(b, v)
	}
	for _, v := range r.verdicts {
		b = binary.AppendUvarint(appendString(b, v.verdict), uint64(v.n))
	}
	b = appendFloats(binary.AppendUvarint(b, r.best), r.fitness)
	b = binary.AppendUvarint(b, uint64(len(r.winners)))
	for _, w := range r.winners {
		b = binary.AppendUvarint(b, w)
	}
	return seal(no, b)
}

func decodeCampaign(no uint64, b []byte) (*campaignRecord, error) {
	body, err := unseal(no, b)
	if err != nil {
		return nil, fmt.Errorf("index of campaign %d: %w", no, err)
	}
	d := decoder{b: body}
	r := &campaignRecord{id: d.string(), kernel: d.string(), device: d.string()}
	for range d.count() {
		r.shapes = append(r.shapes, d.string())
	}
	if s := int(d.byte()); s < len(states) {
		r.state = states[s]
	} else {
		d.fail("state %d is unknown", s)
	}
	r.last, r.note, r.finals = d.uvarint(), d.uvarint(), d.uvarint()
	r.asked, r.told = d.index(), d.index()
	for range d.count() {
		r.verdicts = append(r.verdicts, verdictCount{d.string(), d.index()})
	}
	r.best = d.uvarint()
	r.fitness, _, _ = d.floats()
	for range d.count() {
		r.winners = append(r.winners, d.uvarint())
	}
	if d.err != nil {
		return nil, fmt.Errorf("index of campaign %d: %w", no, d.err)
	}
	return r, nil
}

// count adds n, which may be negative, to the results of a verdict.
func (r *campaignRecord) count(verdict string, n int) {
	i, ok := slices.BinarySearchFunc(r.verdicts, verdict, func(v verdictCount, s string) int { return cmp.Compare(v.verdict, s) })
	if !ok {
		r.verdicts = slices.Insert(r.verdicts, i, verdictCount{verdict: verdict})
	}
	if r.verdicts[i].n += n; r.verdicts[i].n == 0 {
		r.verdicts = slices.Delete(r.verdicts, i, i+1)
	}
}

// related is what an event says about earlier ones.
type related struct {
	winner uint64 // of finals: the result of the winner, or 0
	was    string // of a measured event: the verdict that it replaces
}

// take updates the record with an event that check has passed.
func (r *campaignRecord) take(e *Event, of related) {
	r.last = e.Seq
	switch e.Kind {
	case KindAsked:
		r.asked++
	case KindTold, KindMeasured:
		t := e.Result()
		if e.Kind == KindTold {
			r.told++
		} else if of.was != "" {
			r.count(of.was, -1)
		}
		r.count(t.Verdict, 1)
		if t.Verdict == correct && (r.best == 0 || t.Fitness < r.fitness) {
			r.best, r.fitness = e.Seq, t.Fitness
		}
	case KindFinals:
		r.finals = e.Seq
		if of.winner != 0 && !slices.Contains(r.winners, of.winner) {
			r.winners = append(r.winners, of.winner)
		}
	case KindResumed:
		r.state, r.note = Running, e.Seq
	case KindStopped:
		r.state, r.note = Stopped, e.Seq
	case KindFinished:
		r.state, r.note = Finished, e.Seq
	}
}

// A candidateRecord says where a candidate's events are in the log.
type candidateRecord struct {
	born     uint64 // its first asked event: the key of the record
	campaign uint64
	asked    uint64 // its newest asked event: one without result may be asked again
	index    int    // of that proposal
	told     uint64 // 0 while there is no result
	measured uint64 // its second measurement, which is then its result, or 0
	finals   uint64 // the newest finals it was in, or 0
	correct  bool
	won      bool     // some finals
	parents  []uint64 // of that proposal, by their first asked
}

// result is the event that has the result, or 0.
func (r candidateRecord) result() uint64 { return cmp.Or(r.measured, r.told) }

// provenIn says whether it is among the winners in the campaign's record.
func (r candidateRecord) provenIn(campaign *campaignRecord) bool {
	return r.told != 0 && slices.Contains(campaign.winners, r.result())
}

func (r candidateRecord) encode() []byte {
	b := make([]byte, 0, 32)
	for _, v := range []uint64{r.campaign, r.asked, uint64(r.index), r.finals} {
		b = binary.AppendUvarint(b, v)
	}
	// The result usually comes later: the record must not grow then, since its page
	// may be full.
	b = binary.BigEndian.AppendUint64(b, r.told)
	b = append(b, boolByte(r.correct)|boolByte(r.won)<<1|boolByte(r.measured != 0)<<2)
	if r.measured != 0 {
		b = binary.AppendUvarint(b, r.measured)
	}
	for _, p := range r.parents {
		b = binary.AppendUvarint(b, p)
	}
	return b
}

func decodeCandidate(born uint64, b []byte) (candidateRecord, error) {
	d := decoder{b: b}
	r := candidateRecord{born: born, campaign: d.uvarint(), asked: d.uvarint(), index: d.index(), finals: d.uvarint()}
	if told := d.bytes(8); told != nil {
		r.told = binary.BigEndian.Uint64(told)
	}
	flags := d.byte()
	if flags > 7 {
		d.fail("flags %#x", flags)
	}
	r.correct, r.won = flags&1 != 0, flags&2 != 0
	if flags&4 != 0 {
		r.measured = d.uvarint()
	}
	for len(d.b) > 0 {
		r.parents = append(r.parents, d.uvarint())
	}
	if d.err != nil {
		return candidateRecord{}, fmt.Errorf("index of candidate %d: %w", born, d.err)
	}
	return r, nil
}

// findCandidate looks up a candidate by its id.
func findCandidate(ids, candidates *bolt.Bucket, id string) (r candidateRecord, ok bool, err error) {
	k := ids.Get([]byte(id))
	if k == nil {
		return candidateRecord{}, false, nil
	}
	born, err := keySeq(k)
	if err == nil {
		r, err = candidateAt(candidates, born)
	}
	return r, err == nil, err
}

func candidateAt(candidates *bolt.Bucket, born uint64) (candidateRecord, error) {
	b := candidates.Get(seqKey(born))
	if b == nil {
		return candidateRecord{}, corrupt("index of candidate %d is missing", born)
	}
	return decodeCandidate(born, b)
}

// rankingKey orders the correct candidates of a campaign by fitness, ties by
// age. The bits of positive floats are in the order of the floats.
func rankingKey(campaign uint64, fitness float64, told uint64) []byte {
	b := make([]byte, 0, 24)
	b = binary.BigEndian.AppendUint64(b, campaign)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(fitness))
	return binary.BigEndian.AppendUint64(b, told)
}

func contentKey(key string, told uint64) []byte {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.AppendUint64(sum[:8:8], told)
}

func childKey(parent, child uint64) []byte {
	return binary.BigEndian.AppendUint64(seqKey(parent), child)
}

// An indexer updates the indexes with the events it is given, in order, within one
// transaction. flush writes the records of campaigns.
type indexer struct {
	campaigns, names, ids, candidates, ranking, keys, children *bolt.Bucket

	events            *bolt.Bucket
	archived, foreign *bolt.Bucket
	// elsewhere finds the first asked of a candidate that is not in this file; it may be nil.
	elsewhere func(id string) (born uint64, ok bool, err error)

	open map[uint64]*campaignRecord

	// gaps allows for events that are missing because they are damaged.
	gaps bool
}

func newIndexer(tx *bolt.Tx) *indexer {
	x := &indexer{
		events:    tx.Bucket(bucketEvents),
		campaigns: tx.Bucket(bucketCampaigns), names: tx.Bucket(bucketNames), ids: tx.Bucket(bucketIDs), candidates: tx.Bucket(bucketCandidates),
		ranking: tx.Bucket(bucketRanking), keys: tx.Bucket(bucketKeys), children: tx.Bucket(bucketChildren),
		archived: tx.Bucket(bucketArchived), foreign: tx.Bucket(bucketForeign),
		open: map[uint64]*campaignRecord{},
	}
	// Candidates come in order, and children soon after their parents.
	x.candidates.FillPercent, x.children.FillPercent = 0.95, 0.9
	return x
}

func (x *indexer) candidate(id string) (candidateRecord, bool, error) {
	return findCandidate(x.ids, x.candidates, id)
}

func (x *indexer) put(r candidateRecord) error {
	return x.candidates.Put(seqKey(r.born), r.encode())
}

// campaign returns the number and the record of a campaign.
func (x *indexer) campaign(id string) (uint64, *campaignRecord, error) {
	b := x.names.Get([]byte(id))
	if b == nil {
		return 0, nil, fmt.Errorf("%w: campaign %q was not started", ErrInvalid, id)
	}
	no, err := keySeq(b)
	if err != nil {
		return 0, nil, err
	}
	if r := x.open[no]; r != nil {
		return no, r, nil
	}
	if v := x.archived.Get(b); v != nil {
		m, err := decodeMoved(no, v)
		if err == nil {
			err = fmt.Errorf("%w: campaign %s is in the archive %s and takes no more events", ErrInvalid, id, m.name)
		}
		return 0, nil, err
	}
	r, err := decodeCampaign(no, x.campaigns.Get(b))
	if err != nil {
		return 0, nil, err
	}
	x.open[no] = r
	return no, r, nil
}

// apply checks an event against all before it and indexes it. It returns the
// number of its campaign. A refused event leaves the indexes unchanged: a repair keeps
// such events.
func (x *indexer) apply(e *Event) (campaign uint64, err error) {
	if e.Kind == KindStarted {
		if x.names.Get([]byte(e.Campaign)) != nil {
			return 0, fmt.Errorf("%w: campaign %q was started before", ErrInvalid, e.Campaign)
		}
		x.open[e.Seq] = newCampaignRecord(e)
		return e.Seq, x.names.Put([]byte(e.Campaign), seqKey(e.Seq))
	}
	no, r, err := x.campaign(e.Campaign)
	if err != nil {
		return 0, err
	}
	var of related
	switch e.Kind {
	case KindAsked:
		err = x.asked(e, no, r)
	case KindTold:
		err = x.told(e, no)
	case KindMeasured:
		of.was, err = x.measured(e, no)
	case KindFinals:
		of.winner, err = x.finals(e, no)
	case KindAttempt:
		err = x.attempt(e, no)
	}
	if err != nil {
		return 0, err
	}
	r.take(e, of)
	return no, nil
}

// parents returns the first asked of each parent.
func (x *indexer) parents(a *Asked) ([]uint64, error) {
	var born []uint64
	for _, id := range a.Parents {
		p, here, ok, err := x.parent(id)
		if err == nil && ok && !here {
			err = x.foreign.Put([]byte(id), seqKey(p))
		}
		switch {
		case err != nil:
			return nil, err
		case !ok && x.gaps:
		case !ok || id == a.Candidate:
			return nil, fmt.Errorf("%w: candidate %s: its parent %s was not asked for before it", ErrInvalid, a.Candidate, id)
		default:
			born = append(born, p)
		}
	}
	return born, nil
}

// parent finds the first asked of a candidate, here or in another file of the store.
func (x *indexer) parent(id string) (born uint64, here, ok bool, err error) {
	c, ok, err := x.candidate(id)
	if err != nil {
		return 0, false, false, err
	}
	if ok { // events that are being removed are in the archive
		return c.born, x.archived.Get(seqKey(c.campaign)) == nil, true, nil
	}
	if v := x.foreign.Get([]byte(id)); v != nil {
		born, err = keySeq(v)
		return born, false, err == nil, err
	}
	if x.elsewhere == nil {
		return 0, false, false, nil
	}
	born, ok, err = x.elsewhere(id)
	return born, false, ok, err
}

func (x *indexer) asked(e *Event, no uint64, r *campaignRecord) error {
	a := e.Asked
	if x.gaps {
		r.asked = max(r.asked, a.Index)
	}
	if a.Index != r.asked {
		return fmt.Errorf("%w: campaign %s has %d proposals, the next cannot be number %d", ErrInvalid, e.Campaign, r.asked, a.Index)
	}
	parents, err := x.parents(a)
	if err != nil {
		return err
	}
	c, known, err := x.candidate(a.Candidate)
	switch {
	case err != nil:
		return err
	case known && c.campaign != no:
		return fmt.Errorf("%w: candidate %s belongs to another campaign than %s", ErrInvalid, a.Candidate, e.Campaign)
	case known && c.told != 0:
		return fmt.Errorf("%w: candidate %s has a result and cannot be asked for again", ErrInvalid, a.Candidate)
	case !known:
		c = candidateRecord{campaign: no, born: e.Seq}
		if err := x.ids.Put([]byte(a.Candidate), seqKey(e.Seq)); err != nil {
			return err
		}
	}
	c.asked, c.index, c.parents = e.Seq, a.Index, parents
	for _, b := range parents {
		if err := x.children.Put(childKey(b, e.Seq), nil); err != nil {
			return err
		}
	}
	return x.put(c)
}

// member finds a candidate that was asked for in the campaign.
func (x *indexer) member(id string, e *Event, no uint64) (candidateRecord, error) {
	c, ok, err := x.candidate(id)
	if err == nil && (!ok || c.campaign != no) {
		err = fmt.Errorf("%w: campaign %s never asked for candidate %s", ErrInvalid, e.Campaign, id)
	}
	return c, err
}

func (x *indexer) told(e *Event, no uint64) error {
	t := e.Told
	c, err := x.member(t.Candidate, e, no)
	switch {
	case err != nil:
		return err
	case c.told != 0:
		return fmt.Errorf("%w: candidate %s has a result already", ErrInvalid, t.Candidate)
	case c.index != t.Index:
		return fmt.Errorf("%w: candidate %s is proposal %d, not %d", ErrInvalid, t.Candidate, c.index, t.Index)
	}
	c.told = e.Seq
	return x.rank(c, t, e.Seq)
}

// rank indexes a result of a candidate, which the event seq records.
func (x *indexer) rank(c candidateRecord, t *Told, seq uint64) error {
	if c.correct = t.Verdict == correct; c.correct {
		if err := x.ranking.Put(rankingKey(c.campaign, t.Fitness, seq), nil); err != nil {
			return err
		}
	}
	if t.Key != "" {
		if err := x.keys.Put(contentKey(t.Key, seq), nil); err != nil {
			return err
		}
	}
	return x.put(c)
}

// measured replaces the result by a second measurement, and returns the
// verdict that it replaces.
func (x *indexer) measured(e *Event, no uint64) (was string, err error) {
	t := e.Measured
	c, err := x.member(t.Candidate, e, no)
	switch {
	case err != nil:
		return "", err
	case c.told == 0:
		return "", fmt.Errorf("%w: candidate %s has no result and cannot have been measured again", ErrInvalid, t.Candidate)
	case c.measured != 0:
		return "", fmt.Errorf("%w: candidate %s was measured again already", ErrInvalid, t.Candidate)
	case c.correct:
		return "", fmt.Errorf("%w: candidate %s is correct and its result stands", ErrInvalid, t.Candidate)
	case c.index != t.Index:
		return "", fmt.Errorf("%w: candidate %s is proposal %d, not %d", ErrInvalid, t.Candidate, c.index, t.Index)
	}
	told, _, _, err := eventAt(x.events, c.told, KindTold)
	if err != nil {
		return "", err
	}
	if told.Told.Key != "" {
		if err := x.keys.Delete(contentKey(told.Told.Key, c.told)); err != nil {
			return "", err
		}
	}
	c.measured = e.Seq
	return told.Told.Verdict, x.rank(c, t, e.Seq)
}

// attempt changes no index. It checks that the attempt is for a proposal of the
// campaign.
func (x *indexer) attempt(e *Event, no uint64) error {
	a := e.Attempt
	c, err := x.member(a.Candidate, e, no)
	if err == nil && c.index != a.Index {
		err = fmt.Errorf("%w: candidate %s is proposal %d, not %d", ErrInvalid, a.Candidate, c.index, a.Index)
	}
	return err
}

// disagree is the error of an index that does not match the log.
func disagree(format string, args ...any) error {
	return corrupt("an index disagrees with the log: %s", fmt.Sprintf(format, args...))
}

// eventAt reads an event of one of these kinds, any if there are none, as decodeEvent
// returns it.
func eventAt(events *bolt.Bucket, seq uint64, kinds ...Kind) (e Event, campaign uint64, detail bool, err error) {
	return parseEvent(seq, events.Get(seqKey(seq)), kinds...)
}

// parseEvent is eventAt for the record b, which is nil when there is none.
func parseEvent(seq uint64, b []byte, kinds ...Kind) (e Event, campaign uint64, detail bool, err error) {
	if b == nil {
		return Event{}, 0, false, disagree("event %d is missing", seq)
	}
	if e, campaign, detail, err = decodeEvent(seq, b); err != nil {
		return Event{}, 0, false, fmt.Errorf("event %d: %w", seq, err)
	}
	if len(kinds) > 0 && !slices.Contains(kinds, e.Kind) {
		return Event{}, 0, false, disagree("event %d is %s, not %s", seq, e.Kind, kinds[0])
	}
	return e, campaign, detail, nil
}

func (x *indexer) finals(e *Event, no uint64) (winner uint64, err error) {
	f := e.Finals
	ids := participants(f)
	records := make([]candidateRecord, len(ids))
	for i, id := range ids {
		c, err := x.member(id, e, no)
		switch {
		case err != nil:
			return 0, err
		case c.told == 0:
			return 0, fmt.Errorf("%w: candidate %s has no result and cannot be in the finals", ErrInvalid, id)
		case id == f.Winner && !c.correct:
			return 0, fmt.Errorf("%w: candidate %s is not correct and cannot have won", ErrInvalid, id)
		case id == f.Winner:
			c.won, winner = true, c.result()
		}
		c.finals = e.Seq
		records[i] = c
	}
	for _, r := range records {
		if err := x.put(r); err != nil {
			return 0, err
		}
	}
	return winner, nil
}

// participants lists the finalists, and the winner even if it is not among them.
func participants(f *Finals) []string {
	if f.Winner == "" || slices.Contains(f.Finalists, f.Winner) {
		return f.Finalists
	}
	return append(slices.Clone(f.Finalists), f.Winner)
}

// flush writes the records of the campaigns that had events.
func (x *indexer) flush() error {
	for no, r := range x.open {
		if err := x.campaigns.Put(seqKey(no), r.encode(no)); err != nil {
			return err
		}
	}
	return nil
}

// validate checks what can be checked of an event by itself.
func validate(e *Event) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s event of campaign %q: %s", ErrInvalid, e.Kind, e.Campaign, fmt.Sprintf(format, args...))
	}
	if _, ok := kindCodes[e.Kind]; !ok {
		return fmt.Errorf("%w: %q is not a kind of event", ErrInvalid, e.Kind)
	}
	if e.Campaign == "" || len(e.Campaign) > maxID {
		return refuse("the campaign's id must have 1 to %d bytes", maxID)
	}
	set := 0
	for _, field := range []bool{e.Started != nil, e.Asked != nil, e.Told != nil, e.Finals != nil, e.Note != nil, e.Measured != nil, e.Attempt != nil} {
		if field {
			set++
		}
	}
	var ok bool
	var ids []string
	switch e.Kind {
	case KindStarted:
		ok = e.Started != nil
	case KindAsked:
		if ok = e.Asked != nil; ok {
			ids = append(ids, e.Asked.Candidate)
			ids = append(ids, e.Asked.Parents...)
		}
	case KindTold, KindMeasured:
		if ok = (e.Kind == KindTold) == (e.Told != nil) && e.Result() != nil; ok {
			ids = append(ids, e.Result().Candidate)
		}
	case KindFinals:
		if ok = e.Finals != nil; ok {
			ids = participants(e.Finals)
		}
	case KindAttempt:
		if ok = e.Attempt != nil; ok {
			ids = append(ids, e.Attempt.Candidate)
		}
	default:
		ok = e.Note != nil
	}
	if !ok || set != 1 {
		return refuse("exactly the field of its kind must be set")
	}
	for _, id := range ids {
		if id == "" || len(id) > maxID {
			return refuse("candidate %.40q: ids have 1 to %d bytes", id, maxID)
		}
	}
	switch e.Kind {
	case KindAsked:
		if e.Asked.Index < 0 {
			return refuse("index %d", e.Asked.Index)
		}
	case KindAttempt:
		if e.Attempt.Index < 0 {
			return refuse("index %d", e.Attempt.Index)
		}
	case KindTold, KindMeasured:
		switch t := e.Result(); {
		case t.Index < 0:
			return refuse("index %d", t.Index)
		case t.Verdict == "":
			return refuse("candidate %s has no verdict", t.Candidate)
		case len(t.Key) > maxID:
			return refuse("candidate %s: its key has %d bytes, at most %d are kept", t.Candidate, len(t.Key), maxID)
		case t.Verdict == correct && !(t.Fitness > 0 && t.Fitness <= math.MaxFloat64):
			return refuse("candidate %s is correct with a fitness of %v, it must be positive and finite", t.Candidate, t.Fitness)
		}
	}
	return nil
}
