package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A Finding is one thing that Check found wrong.
type Finding struct {
	// What says what is wrong, and where.
	What string `json:"what"`
	// Repairable says that Repair should fix it: it concerns what is derived from the
	// log, not the log itself.
	Repairable bool `json:"repairable"`
}

// maxFindings is how many findings a report lists; the others are counted.
const maxFindings = 100

// A Report says what Check read and what it found.
type Report struct {
	Path string `json:"path"`
	// Format is the version of the file's format, 0 if it cannot be read.
	Format int `json:"format"`
	// Events, Details, Campaigns, Candidates and Results count what was read
	// and is sound.
	Events     int `json:"events"`
	Details    int `json:"details"`
	Campaigns  int `json:"campaigns"`
	Candidates int `json:"candidates"`
	Results    int `json:"results"`
	// Bytes is the size of the file.
	Bytes   int64         `json:"bytes"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// Archives are the reports on the archives of the store; Lost and Wrong include
	// their counts.
	Archives []Report `json:"archives,omitempty"`
	// Findings lists what is wrong, the first hundred; Wrong counts all of it,
	// and Lost those that Repair cannot fix.
	Findings []Finding `json:"findings"`
	Wrong    int       `json:"wrong"`
	Lost     int       `json:"lost"`
}

// OK says that nothing is wrong.
func (r Report) OK() bool { return r.Wrong == 0 }

// Err is nil when nothing is wrong, and otherwise an ErrCorrupt with the first
// finding and what to do.
func (r Report) Err() error {
	if r.OK() {
		return nil
	}
	more := ""
	if r.Wrong > 1 {
		more = fmt.Sprintf(" (and %d more)", r.Wrong-1)
	}
	return located{fmt.Errorf("store %s: %w: %s%s: %s", r.Path, ErrCorrupt, r.Findings[0].What, more, r.Advice())}
}

// Advice says in a few words what to do about the findings; it is empty when nothing is wrong.
func (r Report) Advice() string {
	switch {
	case r.OK():
		return ""
	case r.Lost > 0:
		return "the log itself is damaged: everything else stays readable, restore the file from a copy if there is one"
	}
	return "`tune check --repair` writes the indexes anew"
}

func (r *Report) found(repairable bool, format string, args ...any) {
	r.Wrong++
	if !repairable {
		r.Lost++
	}
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, Finding{What: fmt.Sprintf(format, args...), Repairable: repairable})
	}
}

// text is the message of an error without the prefix that all findings share.
func text(err error) string {
	s := err.Error()
	if prefix := ErrCorrupt.Error() + ": "; errors.Is(err, ErrCorrupt) {
		s = string(bytes.Replace([]byte(s), []byte(prefix), nil, 1))
	}
	return s
}

// Check reads the whole file: every page, the checksum and the fields of every
// event and payload, the sequence of the log, that every result has its
// proposal and every parent came before its child. It also derives every entry of the indexes from
// the log and compares. Memory does not grow with the log, except for one bit per event and per
// page, a summary per campaign, and what bbolt needs to check itself. Append waits meanwhile.
//
// The Report says what is wrong; the error is for what prevented Check from reading.
func (s *Store) Check() (Report, error) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if s.closed {
		return Report{}, s.wrap(ErrClosed)
	}
	c, err := checkFile(s.path, s.file, s)
	if err == nil {
		c.archives()
	}
	return *c.Report, s.wrap(err)
}

// Check is Store.Check for a file that is not open, or too damaged to be opened.
// Like Open, it waits when a process writes the store.
func Check(path string, o Options) (Report, error) {
	c, err := check(path, o)
	if err != nil {
		return Report{}, err
	}
	c.archives()
	return *c.Report, nil
}

// checkAlone is Check without the archives of the store.
func checkAlone(path string, o Options) (Report, error) {
	c, err := check(path, o)
	if err != nil {
		return Report{}, err
	}
	return *c.Report, nil
}

func check(path string, o Options) (*checker, error) {
	o.ReadOnly = true
	f, err := openLocked(path, o)
	if err != nil {
		return nil, wrapPath(path, err)
	}
	// A store that opens is checked in full, others as far as possible.
	s, err := openFile(path, f, true)
	switch {
	case err == nil:
		defer s.shut() //nolint:errcheck // nothing was written
	case errors.Is(err, ErrCorrupt):
		_ = abandon(f) // unless bbolt has closed it
		if f, err = openLocked(path, o); err != nil {
			return nil, wrapPath(path, err)
		}
		defer f.Close() //nolint:errcheck // nothing was written
	default:
		_ = abandon(f)
		return nil, wrapPath(path, err)
	}
	c, err := checkFile(path, f, s)
	return c, wrapPath(path, err)
}

// A checker goes through one file.
type checker struct {
	*Report
	pager     *pager
	trees     map[string]tree
	campaigns map[uint64]*campaignRecord // from the log
	detailed  bitmap                     // events that have payloads

	// What the file says about archives.
	last    uint64 // the largest Seq assigned when the newest campaign was archived
	of      string // the store whose archive it is
	moved   map[uint64]moved
	heads   map[uint64]heads
	spans   map[uint64]spans
	gone    spans // events that are in archives; in an archive, its events
	leaving spans // of these, what is being removed from the store
	damaged bool  // some events cannot be read
}

type bitmap []byte

func (b *bitmap) set(i uint64) {
	if n := int(i/8) + 1; n > len(*b) {
		*b = append(*b, make([]byte, n-len(*b))...)
	}
	(*b)[i/8] |= 1 << (i % 8)
}

func (b bitmap) take(i uint64) bool {
	if i/8 >= uint64(len(b)) || b[i/8]&(1<<(i%8)) == 0 {
		return false
	}
	b[i/8] &^= 1 << (i % 8)
	return true
}

// checkFile checks f; s is nil when bbolt must not be asked.
func checkFile(path string, f *os.File, s *Store) (_ *checker, err error) {
	begin := time.Now()
	rep := &Report{Path: path}
	c := &checker{Report: rep, trees: map[string]tree{}, campaigns: map[uint64]*campaignRecord{}}
	defer func() { rep.Elapsed = time.Since(begin) }()
	info, err := f.Stat()
	if err != nil {
		return c, err
	}
	rep.Bytes = info.Size()
	c.pager, err = openPager(f, info.Size())
	if errors.Is(err, ErrCorrupt) {
		rep.found(false, "%s", text(err))
		return c, nil
	}
	if err != nil {
		return c, err
	}
	sound := c.pages()
	c.archiving()
	if sound && s != nil {
		// Every page that bbolt can reach is valid.
		err = s.view(func(tx *bolt.Tx) error {
			c.bolt(tx)
			against := &comparer{store: s, tx: tx, checker: c, index: newIndexer(tx), winners: map[string]bool{}, finalists: map[string]bool{}}
			c.log(against.event)
			against.counts()
			return nil
		})
	} else {
		c.log(nil)
	}
	c.payloads()
	if errors.Is(err, ErrCorrupt) {
		rep.found(false, "%s", text(err))
		err = nil
	}
	rep.Campaigns = len(c.campaigns)
	return c, err
}

// isTruth says whether damage to that part of the file cannot be repaired.
func isTruth(part string) bool {
	return part == partRoot || slices.ContainsFunc(slices.Concat(bucketsTruth, bucketsMoved), func(b []byte) bool { return string(b) == part })
}

// pages checks the pages of the file.
func (c *checker) pages() (sound bool) {
	sound = true
	if err := c.pager.reserve; err != nil {
		c.found(true, "%s: harmless if the machine lost power while it wrote; otherwise the newest events may be missing", text(err))
	}
	trees := c.pager.inspect(true, func(part string, err error) {
		sound = false
		c.found(!isTruth(part), "%s", text(err))
	})
	for _, t := range trees {
		c.trees[t.name] = t
	}
	c.scan(bucketMeta, func(k, v []byte) {
		n, _ := binary.Uvarint(v)
		switch {
		case bytes.Equal(k, keyFormat):
			c.Format = int(n)
		case bytes.Equal(k, keyLast):
			c.last = n
		case bytes.Equal(k, keyArchive):
			c.of = string(v)
		}
	})
	for _, name := range bucketsAll {
		b := string(name)
		if _, ok := c.trees[b]; !ok {
			sound = false
			c.found(!isTruth(b), "bucket %q is missing", b)
		}
	}
	return sound
}

// archiving reads what the file says about campaigns in archives, or as an archive.
func (c *checker) archiving() {
	c.moved, c.heads, c.spans = map[uint64]moved{}, map[uint64]heads{}, map[uint64]spans{}
	each := func(bucket []byte, f func(no uint64, v []byte) error) {
		c.scan(bucket, func(k, v []byte) {
			no, err := keySeq(k)
			if err == nil {
				err = f(no, bytes.Clone(v))
			}
			if err != nil {
				c.damaged = true
				c.found(false, "%s", text(err))
			}
		})
	}
	each(bucketArchived, func(no uint64, v []byte) (err error) { c.moved[no], err = decodeMoved(no, v); return err })
	each(bucketHeads, func(no uint64, v []byte) (err error) { c.heads[no], err = decodeHeads(no, v); return err })
	each(bucketSpans, func(no uint64, v []byte) (err error) { c.spans[no], err = decodeSpans(no, v); return err })
	c.gone = joined(slices.Collect(maps.Values(c.spans))...)
	if c.of != "" {
		return
	}
	var leaving []spans
	each(bucketRemoving, func(no uint64, _ []byte) error {
		if _, ok := c.moved[no]; !ok {
			return corrupt("campaign %d is in no archive and is being removed", no)
		}
		leaving = append(leaving, c.spans[no])
		return nil
	})
	c.leaving = joined(leaving...)
	for no, m := range c.moved {
		rec, err := decodeCampaign(no, c.heads[no].summary)
		if err != nil || c.spans[no] == nil {
			c.damaged = true
			c.found(false, "what is kept of archived campaign %d cannot be read", no)
			continue
		}
		c.campaigns[no] = rec
		if n := len(c.spans[no]); rec.last != m.last || c.spans[no][n-1][1] != m.last || m.last > c.last {
			c.found(false, "archived campaign %s ends with event %d, %d and %d", rec.id, rec.last, c.spans[no][n-1][1], m.last)
		}
	}
	for no := range c.spans {
		if _, ok := c.moved[no]; !ok {
			c.found(false, "campaign %d is in no archive and its events are said to be", no)
		}
	}
}

// expected are the events between from and to that the file must have.
func (c *checker) expected(from, to uint64) spans {
	if c.of != "" {
		return c.gone.within(from, to)
	}
	return c.gone.without(from, to)
}

// elsewhere says whether an event belongs in another file.
func (c *checker) elsewhere(seq uint64) bool { return c.gone.has(seq) != (c.of != "") }

// archives checks the archives of the store, and what the store says about them.
func (c *checker) archives() {
	byName := map[string][]uint64{}
	for no, m := range c.moved {
		if c.of == "" && c.campaigns[no] != nil {
			byName[m.name] = append(byName[m.name], no)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		file := filepath.Join(archiveFolder(c.Path), name)
		a, err := check(file, Options{})
		if errors.Is(err, fs.ErrNotExist) {
			err = missingArchive(c.Path, file)
		}
		if err != nil {
			c.found(false, "archive %s: %v", name, err)
			continue
		}
		for _, no := range byName[name] {
			if !a.OK() {
				break // its summaries are derived from the findings above
			}
			rec := a.campaigns[no]
			if a.of == "" || rec == nil || !bytes.Equal(rec.encode(no), c.heads[no].summary) || !slices.Equal(a.spans[no], c.spans[no]) {
				a.found(false, "it should have campaign %s with %d events and has another or none", c.campaigns[no].id, c.spans[no].count())
			}
		}
		c.Archives = append(c.Archives, *a.Report)
		for _, f := range a.Findings {
			c.found(f.Repairable, "archive %s: %s", name, f.What)
		}
		if more := a.Wrong - len(a.Findings); more > 0 { // those that are not listed
			c.Wrong += more
			c.Lost += max(0, a.Lost-len(a.Findings))
		}
	}
}

// bolt makes bbolt check its own structure. All buckets can be read, so a new file has nothing of
// what it finds.
func (c *checker) bolt(tx *bolt.Tx) {
	// It reads every page through the map, in a goroutine of its own.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for errs := tx.Check(); ; {
		select {
		case err, ok := <-errs:
			if !ok {
				return
			}
			c.found(true, "bbolt: %v", err)
		case <-tick.C:
			trim(tx, trimFrom)
		}
	}
}

// scan goes through a bucket, whose pages are already checked.
func (c *checker) scan(bucket []byte, entry func(k, v []byte)) {
	if t, ok := c.trees[string(bucket)]; ok {
		c.pager.scan(t, entry, func(error) {})
	}
}

// log goes through the events. compare is called with every sound event and returns
// what it says about earlier ones; it may be nil.
func (c *checker) log(compare func(e *Event, campaign uint64) related) {
	names := map[string]bool{}
	var last uint64
	lost := func(format string, args ...any) {
		c.damaged = true
		c.found(false, format, args...)
	}
	missing := func(from, to uint64) {
		for _, s := range c.expected(from, to) {
			lost("events %d to %d are missing", s[0], s[1])
		}
	}
	for _, rec := range c.campaigns { // in archives
		names[rec.id] = true
	}
	defer func() {
		end := c.last
		if n := len(c.gone); c.of != "" && n > 0 {
			end = c.gone[n-1][1]
		}
		if end > last {
			missing(last+1, end)
		}
	}()
	c.scan(bucketEvents, func(k, v []byte) {
		seq, err := keySeq(k)
		if err != nil {
			lost("%s", text(err))
			return
		}
		if seq > last+1 {
			missing(last+1, seq-1)
		}
		last = seq
		if c.elsewhere(seq) {
			if !c.leaving.has(seq) {
				c.found(true, "event %d is of a campaign that is in another file", seq)
			}
			return
		}
		e, no, detail, err := decodeEvent(seq, v)
		if err != nil {
			lost("event %d: %s", seq, text(err))
			return
		}
		if detail {
			c.detailed.set(seq)
		}
		if e.Kind == KindStarted {
			if no != seq || names[e.Campaign] {
				lost("event %d starts campaign %s again", seq, e.Campaign)
				return
			}
			names[e.Campaign] = true
			c.campaigns[seq] = newCampaignRecord(&e)
		} else if rec := c.campaigns[no]; rec != nil {
			e.Campaign = rec.id
		} else {
			lost("event %d is of a campaign that event %d should start", seq, no)
			return
		}
		if err := validate(&e); err != nil {
			lost("event %d: %v", seq, err)
			return
		}
		c.Events++
		switch e.Kind {
		case KindAsked:
			rec := c.campaigns[no]
			if e.Asked.Index != rec.asked && !c.damaged {
				lost("event %d: proposal %d of campaign %s, should be %d", seq, e.Asked.Index, e.Campaign, rec.asked)
			}
			rec.asked = max(rec.asked, e.Asked.Index)
		case KindTold:
			c.Results++
		}
		var of related
		if compare != nil {
			of = compare(&e, no)
		}
		if e.Kind != KindStarted {
			c.campaigns[no].take(&e, of)
		}
	})
}

// payloads goes through the details, after log has.
func (c *checker) payloads() {
	c.scan(bucketDetails, func(k, v []byte) {
		seq, err := keySeq(k)
		if err != nil {
			c.found(false, "detail: %s", text(err))
			return
		}
		if !c.detailed.take(seq) {
			if !c.damaged && !c.leaving.has(seq) {
				c.found(false, "there is a detail of event %d, which has none", seq)
			}
			return
		}
		if _, err := inflateDetail(seq, v); err != nil {
			c.found(false, "detail of event %d: %s", seq, text(err))
			return
		}
		c.Details++
	})
	for i, b := range c.detailed {
		for bit := range uint64(8) {
			if b&(1<<bit) != 0 {
				c.found(false, "the detail of event %d is missing", uint64(i)*8+bit)
			}
		}
	}
}

// A comparer derives index entries from events and looks for them. It is a second
// definition of the indexes, independent of the indexer that writes them. The counts
// reveal entries that should not be there.
type comparer struct {
	*checker
	store                            *Store
	tx                               *bolt.Tx
	index                            *indexer
	results, ranked, keyed, children int
	measured                         int
	newest                           int // proposals that are the newest of their candidate
	winners, finalists               map[string]bool
}

// find looks up a candidate that an event names.
func (c *comparer) find(e *Event, id string, campaign uint64) (candidateRecord, bool) {
	r, ok, err := c.index.candidate(id)
	switch {
	case err != nil:
		c.found(true, "candidate %s: %s", id, text(err))
	case !ok:
		c.found(!c.damaged, "event %d: candidate %s is not in the index", e.Seq, id)
	case campaign != 0 && r.campaign != campaign:
		c.found(true, "event %d: candidate %s is in the index with campaign %d, should be %d", e.Seq, id, r.campaign, campaign)
	default:
		return r, true
	}
	return r, false
}

// parent looks up the first asked of a parent, which may be in another file.
func (c *comparer) parent(e *Event, id string) (uint64, bool) {
	if v := c.index.foreign.Get([]byte(id)); v != nil {
		born, err := keySeq(v)
		if err != nil || c.expected(born, born) != nil {
			c.found(false, "candidate %s is said to be in another file, at event %x", id, v)
			return 0, false
		}
		return born, true
	}
	r, ok := c.find(e, id, 0)
	return r.born, ok
}

func (c *comparer) has(b *bolt.Bucket, key []byte) bool {
	k, _ := b.Cursor().Seek(key)
	return bytes.Equal(k, key)
}

func (c *comparer) event(e *Event, no uint64) (of related) {
	c.store.touch(c.tx, 4)
	index := func(ok bool, format string, args ...any) {
		if !ok {
			c.found(true, "event %d: %s", e.Seq, fmt.Sprintf(format, args...))
		}
	}
	switch e.Kind {
	case KindStarted:
		index(bytes.Equal(c.index.names.Get([]byte(e.Campaign)), seqKey(e.Seq)), "campaign %s is not in the index", e.Campaign)
	case KindAsked:
		a := e.Asked
		r, ok := c.find(e, a.Candidate, no)
		if !ok {
			break
		}
		if r.born == e.Seq {
			c.Candidates++
		}
		if r.asked == e.Seq {
			c.newest++
		}
		index(r.born <= e.Seq && r.asked >= e.Seq && (r.asked != e.Seq || r.index == a.Index), "the index of candidate %s is wrong", a.Candidate)
		var born []uint64
		seen := map[uint64]bool{}
		for _, id := range a.Parents {
			p, ok := c.parent(e, id)
			if !ok {
				continue
			}
			index(p < e.Seq && id != a.Candidate, "candidate %s has the parent %s, which was not asked for before it", a.Candidate, id)
			born = append(born, p)
			if !seen[p] {
				seen[p] = true
				c.children++
				index(c.has(c.index.children, childKey(p, e.Seq)), "candidate %s is not indexed as a child of %s", a.Candidate, id)
			}
		}
		if r.asked == e.Seq {
			index(slices.Equal(r.parents, born), "candidate %s is indexed with other parents", a.Candidate)
		}
	case KindTold, KindMeasured:
		t := e.Result()
		r, ok := c.find(e, t.Candidate, no)
		if e.Kind == KindTold {
			c.results++
		} else {
			c.measured++
		}
		if !ok {
			break
		}
		index(r.asked < e.Seq && r.index == t.Index, "the result of candidate %s has no proposal", t.Candidate)
		if e.Kind == KindTold {
			index(r.told == e.Seq && (r.measured == 0 || r.measured > e.Seq), "the index of candidate %s is wrong", t.Candidate)
		} else {
			index(r.measured == e.Seq && r.told != 0 && r.told < e.Seq, "the index of candidate %s is wrong", t.Candidate)
			if told, _, _, err := eventAt(c.index.events, r.told, KindTold); err == nil { // else it was found before
				of.was = told.Told.Verdict
			}
		}
		if r.result() != e.Seq {
			break // a second measurement has replaced it
		}
		index(r.correct == (t.Verdict == correct), "the index of candidate %s is wrong", t.Candidate)
		if t.Verdict == correct {
			c.ranked++
			index(c.has(c.index.ranking, rankingKey(no, t.Fitness, e.Seq)), "candidate %s is not ranked", t.Candidate)
		}
		if t.Key != "" {
			c.keyed++
			index(c.has(c.index.keys, contentKey(t.Key, e.Seq)), "candidate %s is not indexed by its key", t.Candidate)
		}
	case KindAttempt:
		a := e.Attempt
		if r, ok := c.find(e, a.Candidate, no); ok {
			index(r.born < e.Seq && (r.asked > e.Seq || r.index == a.Index), "the attempt at candidate %s has no proposal", a.Candidate)
		}
	case KindFinals:
		for _, id := range participants(e.Finals) {
			c.finalists[id] = true
			r, ok := c.find(e, id, no)
			if !ok {
				continue
			}
			index(r.finals >= e.Seq, "candidate %s is not indexed as a finalist", id)
			index(r.told != 0 && r.told < e.Seq, "candidate %s is in the finals without a result", id)
			if id == e.Finals.Winner {
				c.winners[id] = true
				of.winner = r.result()
				index(r.won, "candidate %s is not indexed as proven", id)
				index(r.correct, "candidate %s has won and is not correct", id)
			}
		}
	}
	return of
}

// counts looks for entries that do not follow from the log.
func (c *comparer) counts() {
	if c.damaged {
		return // the right number is then unknown
	}
	want := func(what string, got, want int) {
		if got != want {
			c.found(true, "the index of %s has %d entries, should have %d", what, got, want)
		}
	}
	var candidates, told, measured, won, finals, n int
	c.scan(bucketCandidates, func(k, v []byte) {
		born, _ := keySeq(k) // 0 when it is none
		if c.leaving.has(born) {
			return
		}
		candidates++
		r, err := decodeCandidate(born, v)
		if err != nil {
			return // found before, or not counted
		}
		for is, n := range map[*int]bool{&told: r.told != 0, &measured: r.measured != 0, &won: r.won, &finals: r.finals != 0} {
			if n {
				*is++
			}
		}
	})
	want("candidates", candidates, c.Candidates)
	want("proposals", c.newest, c.Candidates)
	want("results", told, c.results)
	want("second measurements", measured, c.measured)
	want("winners", won, len(c.winners))
	want("finalists", finals, len(c.finalists))
	// The event of an entry is at the end of the key or, of ids, the value.
	count := func(b []byte) (n int) {
		c.scan(b, func(k, v []byte) {
			if bytes.Equal(b, bucketIDs) {
				k = v
			}
			if len(k) < 8 || !c.leaving.has(binary.BigEndian.Uint64(k[len(k)-8:])) {
				n++
			}
		})
		return n
	}
	want("fitness", count(bucketRanking), c.ranked)
	want("ids", count(bucketIDs), c.Candidates)
	want("keys", count(bucketKeys), c.keyed)
	want("children", count(bucketChildren), c.children)
	named := 0
	c.scan(bucketNames, func(_, _ []byte) { named++ })
	want("campaign names", named, len(c.campaigns))
	for no, m := range c.moved {
		if rec := c.campaigns[no]; rec != nil && !bytes.Equal(c.index.names.Get([]byte(rec.id)), seqKey(m.no)) {
			c.found(true, "campaign %s is not in the index", rec.id)
		}
	}
	c.scan(bucketCampaigns, func(k, v []byte) {
		n++
		no, err := keySeq(k)
		if rec := c.campaigns[no]; err != nil || rec == nil || !bytes.Equal(rec.encode(no), v) {
			c.found(true, "the summary of campaign %d is wrong", no)
		}
	})
	want("campaigns", n, len(c.campaigns))
}

// Transactions of a repair are as large as fits comfortably in memory.
const (
	repairEvents = 20_000
	repairBytes  = 32 << 20
)

// Repair rewrites the store: the log unchanged, and indexes made from it. The new file
// replaces the old one at the end, in one step; until then, and when anything fails,
// the old one is untouched. It needs as much free space beside the store as the store
// takes. The file is compact afterwards.
//
// Events with damaged records are kept unchanged, and are not indexed. A store in which pages
// of the log cannot be read is not repaired, since that would lose what a better tool may still
// read; the error is ErrCorrupt. The report is that of Check, afterwards. If a process has the
// store open, the error is ErrLocked.
func Repair(path string, o Options) (Report, error) {
	o.ReadOnly, o.MustExist = false, true
	f, err := openLocked(path, o)
	if err != nil {
		return Report{}, wrapPath(path, err)
	}
	defer f.Close() //nolint:errcheck // nothing is written to it
	// A link stays a link.
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Report{}, wrapPath(path, err)
	}
	if err := repair(target, f); err != nil {
		return Report{}, wrapPath(path, err)
	}
	// The new file is in place; the lock on the old one means nothing any more.
	rep, err := Check(path, o)
	if err == nil {
		again := false
		for _, a := range rep.Archives {
			if !a.OK() && a.Lost == 0 {
				if _, err := Repair(a.Path, o); err != nil {
					return rep, err
				}
				again = true
			}
		}
		if again {
			rep, err = Check(path, o)
		}
	}
	// What is still wrong is in the log itself.
	for i := range rep.Findings {
		rep.Findings[i].Repairable = false
	}
	rep.Lost = rep.Wrong
	return rep, err
}

func repair(path string, f *os.File) (err error) {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p, err := openPager(f, info.Size())
	if err != nil {
		return err
	}
	c := &checker{Report: &Report{}, pager: p, trees: map[string]tree{}}
	c.pages()
	if len(c.trees) > 0 && !slices.ContainsFunc(bucketsAll, func(b []byte) bool { _, ok := c.trees[string(b)]; return ok }) {
		return fmt.Errorf("%w: another program's bbolt file", ErrNotStore)
	}
	c.scan(bucketMeta, func(k, v []byte) {
		if bytes.Equal(k, keyFormat) && errors.Is(checkFormat(v), ErrVersion) {
			err = checkFormat(v) // some of its events are unknown here
		}
	})
	if err != nil {
		return err
	}
	c.campaigns = map[uint64]*campaignRecord{}
	c.archiving()
	if c.Lost > 0 {
		for _, found := range c.Findings {
			if !found.Repairable {
				return fmt.Errorf("%w: %s: the log itself cannot be read there, nothing was changed; restore the file from a copy", ErrCorrupt, found.What)
			}
		}
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".repair-*")
	if err != nil {
		return cmp.Or(spaceError(err), fmt.Errorf("the new file cannot be created: %w", err))
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	s := &Store{path: tmp.Name(), file: tmp}
	if err := s.openBolt(); err != nil {
		_ = tmp.Close()
		return err
	}
	s.db.NoSync = true // until all is written
	if err := c.rewrite(s); err != nil {
		_ = s.shut()
		return err
	}
	if err := s.db.Sync(); err != nil {
		_ = s.shut()
		return cmp.Or(spaceError(err), fmt.Errorf("the new file cannot be written: %w", err))
	}
	if err := s.shut(); err != nil {
		return err
	}
	if err := os.Chmod(tmp.Name(), info.Mode().Perm()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename durable. Not every file system can sync a directory.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // nothing was written
	if err := d.Sync(); err != nil && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// A record is an entry of the log, as in the file.
type record struct{ k, v []byte }

// rewrite copies the log into s and indexes it.
func (c *checker) rewrite(s *Store) error {
	if err := s.update(createBuckets); err != nil {
		return err
	}
	if err := c.rewriteArchiving(s); err != nil {
		return err
	}
	names := map[uint64]string{}
	index := func(tx *bolt.Tx, batch []record) error {
		x := newIndexer(tx)
		x.gaps = true
		for _, r := range batch {
			seq, err := keySeq(r.k)
			if err != nil {
				continue
			}
			e, no, _, err := decodeEvent(seq, r.v)
			if err != nil {
				continue
			}
			if e.Kind == KindStarted {
				names[no] = e.Campaign
			}
			if e.Campaign = names[no]; validate(&e) != nil {
				continue
			}
			if _, err := x.apply(&e); err != nil && !errors.Is(err, ErrInvalid) {
				return err
			}
		}
		return x.flush()
	}
	if err := c.copy(s, bucketEvents, index); err != nil {
		return err
	}
	return c.copy(s, bucketDetails, nil)
}

// rewriteArchiving copies what the file says about archives, without the remains of
// archived campaigns.
func (c *checker) rewriteArchiving(s *Store) error {
	if err := s.update(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		err := meta.Put(keyLast, binary.AppendUvarint(nil, c.last))
		if c.of != "" {
			err = errors.Join(err, meta.Put(keyArchive, []byte(c.of)))
		}
		for no := range c.moved {
			rec := c.campaigns[no]
			err = errors.Join(err, tx.Bucket(bucketNames).Put([]byte(rec.id), seqKey(no)),
				tx.Bucket(bucketCampaigns).Put(seqKey(no), rec.encode(no)))
		}
		return err
	}); err != nil {
		return err
	}
	for _, b := range [][]byte{bucketArchived, bucketHeads, bucketSpans, bucketForeign} {
		if err := c.copy(s, b, nil); err != nil {
			return err
		}
	}
	return nil
}

// copy copies a bucket in several transactions, and calls also within each.
func (c *checker) copy(s *Store, bucket []byte, also func(*bolt.Tx, []record) error) error {
	var batch []record
	var size int
	var failed error
	flush := func() {
		if failed != nil || len(batch) == 0 {
			return
		}
		failed = s.update(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucket)
			b.FillPercent = 1
			for _, r := range batch {
				if err := b.Put(r.k, r.v); err != nil {
					return err
				}
			}
			if also == nil {
				return nil
			}
			return also(tx, batch)
		})
		clear(batch)
		batch, size = batch[:0], 0
	}
	numbered := bytes.Equal(bucket, bucketEvents) || bytes.Equal(bucket, bucketDetails)
	c.pager.scan(c.trees[string(bucket)], func(k, v []byte) {
		if seq, err := keySeq(k); numbered && err == nil && c.elsewhere(seq) {
			return
		}
		batch = append(batch, record{bytes.Clone(k), bytes.Clone(v)})
		if size += len(k) + len(v); len(batch) >= repairEvents || size >= repairBytes {
			flush()
		}
	}, func(err error) { failed = cmp.Or(failed, err) })
	flush()
	return failed
}
