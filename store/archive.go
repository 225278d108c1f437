package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Archived says what Store.Archive did.
type Archived struct {
	// Path is the archive that was made; empty if no campaign was moved.
	Path string `json:"path,omitempty"`
	// Campaigns are the archive's campaigns, the oldest first.
	Campaigns []string `json:"campaigns"`
	// Events counts their events.
	Events int `json:"events"`
	// Left says that some of their events are still in the store, where nothing reads
	// them, because the disk was full or the context ended. The next call removes them.
	Left bool `json:"left,omitempty"`
	// Report is the result of Check on the archive.
	Report Report `json:"report"`
}

// Archivable lists the finished campaigns that are not in an archive and have had no
// event since the given time, the oldest first.
func (s *Store) Archivable(before time.Time) ([]Campaign, error) {
	all, err := s.Campaigns()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(c Campaign) bool { return !c.Archivable(before) }), nil
}

// Archivable says whether Store.Archivable lists a campaign.
func (c Campaign) Archivable(before time.Time) bool {
	return c.State == Finished && c.Archive == "" && c.LastAt.Before(before)
}

// Archive moves finished campaigns, given by their full ids, to a new archive: a store
// file in the folder FILE.archive beside the store, which never changes again. All
// queries of the store find them there, with the same Seq. Appends and queries may run
// meanwhile. The store's file does not shrink, but appending reuses the space.
//
// The archive is first written, checked and synced. Then one transaction records that
// the campaigns are there, and from then on readers look there. Last, many short
// transactions remove their events from the store. Even if the process is killed at any
// instant, every reader finds a campaign in exactly one place; the next call of
// Archive, which may name no campaign, removes what is left. A campaign that is not
// finished gives ErrInvalid; one that is already in an archive stays there.
func (s *Store) Archive(ctx context.Context, ids ...string) (Archived, error) {
	s.archiveMu.Lock()
	defer s.archiveMu.Unlock()
	a := archiver{store: s, ctx: ctx}
	out, err := a.run(ids)
	if err != nil {
		return Archived{}, s.wrap(err)
	}
	return out, nil
}

// maxRemoved is how many events one transaction removes: Append waits for it.
var maxRemoved = 500

// An archiver moves campaigns.
type archiver struct {
	store *Store
	ctx   context.Context //nolint:containedctx // of one call

	ids   map[uint64]string
	nos   []uint64
	spans map[uint64]*spans
	last  uint64 // newest event of the campaigns
	seen  uint64 // the newest event of all when foreign was looked for
	// foreign are moved candidates whose children stay, by their ids.
	foreign map[string]uint64
}

func (a *archiver) run(ids []string) (out Archived, err error) {
	s := a.store
	out.Campaigns = []string{}
	if s.readOnly {
		return out, fmt.Errorf("%w: nothing can be archived", ErrReadOnly)
	}
	if err := a.remove(); err != nil { // left by an earlier call
		return out, err
	}
	if err := a.choose(ids); err != nil {
		return out, err
	}
	if len(a.nos) == 0 {
		return out, nil
	}
	folder := archiveFolder(s.path)
	if err := makeFolder(folder); err != nil {
		return out, err
	}
	defer os.Remove(folder) //nolint:errcheck // this fails unless it is empty
	a.tidy(folder)
	name, err := a.free(folder)
	if err != nil {
		return out, err
	}
	w, err := newReplacement(filepath.Join(folder, name), partial, s.file)
	if err != nil {
		return out, err
	}
	defer w.discard()
	if err := a.fill(w); err != nil {
		return out, err
	}
	if err := a.families(); err != nil {
		return out, err
	}
	if out.Report, err = checkAlone(w.name, Options{}); err == nil {
		err = out.Report.Err()
	}
	if err != nil {
		return out, err
	}
	summaries, err := a.summaries(w.name)
	if err != nil {
		return out, err
	}
	if err := a.ctx.Err(); err != nil {
		return out, err
	}
	if err := w.place(false); err != nil {
		return out, err
	}
	if err := a.move(name, summaries); err != nil {
		if s.failed() == nil { // otherwise the transaction may have reached the disk
			_ = os.Remove(w.target)
		}
		return out, err
	}
	out.Path, out.Report.Path, out.Events = w.target, w.target, out.Report.Events
	for _, no := range a.nos {
		out.Campaigns = append(out.Campaigns, a.ids[no])
	}
	// They are moved, whatever happens from here on.
	err = a.remove()
	if errors.Is(err, ErrFull) || err != nil && a.ctx.Err() != nil {
		out.Left, err = true, nil
	}
	return out, err
}

// partial is in the names of archives that are being written.
const partial = ".partial-"

// tidy removes what a killed call has left in the folder: incomplete files, and
// archives that no campaign was moved to, since all of their campaigns are in the
// store.
func (a *archiver) tidy(folder string) {
	all, err := filepath.Glob(filepath.Join(globbed(folder), "*"))
	if err != nil {
		return
	}
	for _, name := range all {
		if strings.Contains(filepath.Base(name), partial) || strings.HasSuffix(name, ".db") && a.double(name) {
			_ = os.Remove(name)
		}
	}
}

// double says whether a file is an archive whose content is all in the store itself.
func (a *archiver) double(name string) bool {
	t, err := Open(name, Options{ReadOnly: true, Timeout: -1})
	if err != nil {
		return false
	}
	defer t.Close() //nolint:errcheck // it is only read
	has := map[uint64][]byte{}
	if err := t.view(func(tx *bolt.Tx) error {
		if tx.Bucket(bucketMeta).Get(keyArchive) == nil {
			return nil
		}
		return tx.Bucket(bucketCampaigns).ForEach(func(k, v []byte) error {
			no, err := keySeq(k)
			has[no] = bytes.Clone(v)
			return err
		})
	}); err != nil || len(has) == 0 {
		return false
	}
	double, err := query(a.store, func(r *reader) (bool, error) {
		for no, summary := range has {
			if gone, err := r.gone(no); err != nil || gone || !bytes.Equal(r.campaigns.Get(seqKey(no)), summary) {
				return false, err
			}
		}
		return true, nil
	})
	return err == nil && double
}

// globbed quotes the characters that Match would not take literally.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// choose finds the campaigns to move.
func (a *archiver) choose(ids []string) error {
	a.ids, a.spans, a.foreign = map[uint64]string{}, map[uint64]*spans{}, map[string]uint64{}
	_, err := query(a.store, func(r *reader) (none struct{}, err error) {
		for _, id := range ids {
			no, rec, err := r.named(id)
			if err != nil {
				return none, err
			}
			gone, err := r.gone(no)
			switch {
			case err != nil:
				return none, err
			case gone || a.ids[no] != "":
				continue
			case rec.state != Finished:
				return none, fmt.Errorf("%w: campaign %s is %s: only finished campaigns are archived", ErrInvalid, id, rec.state)
			}
			a.ids[no], a.spans[no] = id, new(spans)
			a.nos, a.last = append(a.nos, no), max(a.last, rec.last)
		}
		return none, nil
	})
	slices.Sort(a.nos)
	return err
}

// free finds a name that no archive has or had: the day, and a number if there are
// several.
func (a *archiver) free(folder string) (string, error) {
	list, err := query(a.store, (*reader).moved)
	if err != nil {
		return "", err
	}
	day := time.Now().UTC().Format(time.DateOnly)
	for n := 1; ; n++ {
		name := day + ".db"
		if n > 1 {
			name = fmt.Sprintf("%s-%d.db", day, n)
		}
		_, err := os.Lstat(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(list.all, func(m moved) bool { return m.name == name }) {
			return name, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
}

// fill writes the archive and closes it. Records are copied unchanged, with their
// numbers.
func (a *archiver) fill(w *replacement) error {
	t := &Store{path: w.name, file: w.File}
	if err := t.openBolt(); err != nil {
		return err
	}
	t.db.NoSync = true // until everything is written
	err := t.update(func(tx *bolt.Tx) error {
		if err := createBuckets(tx); err != nil {
			return err
		}
		return tx.Bucket(bucketMeta).Put(keyArchive, []byte(filepath.Base(a.store.path)))
	})
	for next := a.nos[0]; err == nil && next != 0; {
		var batch, details []record
		if err = a.ctx.Err(); err != nil {
			break
		}
		if batch, details, next, err = a.records(next); err == nil {
			err = t.update(func(tx *bolt.Tx) error {
				t.touch(tx, 8*int64(len(batch)))
				return a.write(tx, batch, details)
			})
		}
	}
	if err == nil {
		err = t.update(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucketSpans)
			for _, no := range a.nos {
				if err := b.Put(seqKey(no), a.spans[no].encode(no)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil {
		if err = t.db.Sync(); err != nil {
			err = cmp.Or(spaceError(err), fmt.Errorf("the archive cannot be written: %w", err))
		}
	}
	return cmp.Or(err, t.shut())
}

// records reads the campaigns' events from next on, as many as one transaction should
// have, and returns where to continue, or 0 at the end.
func (a *archiver) records(next uint64) (batch, details []record, _ uint64, err error) {
	next, err = query(a.store, func(r *reader) (uint64, error) {
		size, seen := 0, 0
		c := r.events.Cursor()
		for k, v := c.Seek(seqKey(next)); k != nil; k, v = c.Next() {
			seq, err := keySeq(k)
			if err != nil {
				return 0, err
			}
			if seq > a.last {
				return 0, nil
			}
			// Do not keep the transaction open for too many.
			if seen++; seen > repairEvents || size > repairBytes {
				return seq, nil
			}
			e, no, detail, err := decodeEvent(seq, v)
			if err != nil {
				return 0, fmt.Errorf("event %d: %w", seq, err)
			}
			mine := a.spans[no]
			if mine == nil {
				continue
			}
			mine.add(seq)
			batch = append(batch, record{bytes.Clone(k), bytes.Clone(v)})
			size += len(v)
			if detail {
				d := r.details.Get(k)
				if _, err := inflateDetail(seq, d); err != nil {
					return 0, fmt.Errorf("detail of %s event %d: %w", e.Kind, seq, err)
				}
				details = append(details, record{bytes.Clone(k), bytes.Clone(d)})
				size += len(d)
			}
			r.store.touch(r.tx, 2)
		}
		return 0, nil
	})
	return batch, details, next, err
}

// write adds records to the archive, and indexes them.
func (a *archiver) write(tx *bolt.Tx, batch, details []record) error {
	x := newIndexer(tx)
	x.elsewhere = a.elsewhere
	events, payloads := tx.Bucket(bucketEvents), tx.Bucket(bucketDetails)
	events.FillPercent, payloads.FillPercent = 1, 1
	for _, r := range batch {
		seq := binary.BigEndian.Uint64(r.k)
		e, no, _, err := decodeEvent(seq, r.v)
		if err != nil {
			return err
		}
		e.Campaign = a.ids[no]
		if _, err := x.apply(&e); err != nil {
			return fmt.Errorf("event %d: %w", seq, err)
		}
		if err := events.Put(r.k, r.v); err != nil {
			return err
		}
	}
	for _, r := range details {
		if err := payloads.Put(r.k, r.v); err != nil {
			return err
		}
	}
	return x.flush()
}

// elsewhere finds a parent that is in none of the campaigns.
func (a *archiver) elsewhere(id string) (uint64, bool, error) {
	var ok bool
	born, err := query(a.store, func(r *reader) (born uint64, err error) {
		born, _, ok, err = newIndexer(r.tx).parent(id)
		return born, err
	})
	return born, ok, err
}

// families finds the candidates that have children in campaigns that stay.
func (a *archiver) families() error {
	return a.inPieces(func(r *reader, from uint64) (next uint64, err error) {
		if from == 0 {
			if a.seen, err = r.last(); err != nil {
				return 0, err
			}
		}
		c := r.candidates.Cursor()
		n := 0
		for k, v := c.Seek(seqKey(max(from, a.nos[0]))); k != nil; k, v = c.Next() {
			born, err := keySeq(k)
			if err != nil {
				return 0, err
			}
			if n++; n > 4*eventsChunk {
				return born, nil
			}
			rec, err := decodeCandidate(born, v)
			if err != nil {
				return 0, err
			}
			if a.spans[rec.campaign] == nil {
				continue
			}
			for _, child := range following(r.children, k) {
				if a.has(child) {
					continue
				}
				if err := a.stays(r, child, born); err != nil {
					return 0, err
				}
			}
			r.store.touch(r.tx, 1)
		}
		return 0, nil
	})
}

// inPieces calls f in short transactions until it returns 0.
func (a *archiver) inPieces(f func(r *reader, from uint64) (uint64, error)) error {
	for from, more := uint64(0), true; more; more = from != 0 {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		var err error
		if from, err = query(a.store, func(r *reader) (uint64, error) { return f(r, from) }); err != nil {
			return err
		}
	}
	return nil
}

// has says whether an event belongs to one of the campaigns.
func (a *archiver) has(seq uint64) bool {
	for _, s := range a.spans {
		if s.has(seq) {
			return true
		}
	}
	return false
}

// stays notes the parent, first asked for at born, of a child that stays, asked for at
// seq.
func (a *archiver) stays(r *reader, seq, born uint64) error {
	parent, _, _, err := eventAt(r.events, born, KindAsked)
	if err != nil {
		return err
	}
	if child, _, _, err := eventAt(r.events, seq, KindAsked); err != nil {
		return err
	} else if !slices.Contains(child.Asked.Parents, parent.Asked.Candidate) {
		return disagree("candidate %s is not a child of %s", child.Asked.Candidate, parent.Asked.Candidate)
	}
	a.foreign[parent.Asked.Candidate] = born
	return nil
}

// summaries reads the archive's summaries of its campaigns.
func (a *archiver) summaries(name string) (map[uint64][]byte, error) {
	t, err := Open(name, Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer t.Close() //nolint:errcheck // it is only read
	return query(t, func(r *reader) (map[uint64][]byte, error) {
		out := map[uint64][]byte{}
		for _, no := range a.nos {
			out[no] = bytes.Clone(r.campaigns.Get(seqKey(no)))
		}
		return out, nil
	})
}

// move makes readers look into the archive from now on.
func (a *archiver) move(name string, summaries map[uint64][]byte) error {
	s := a.store
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	return s.update(func(tx *bolt.Tx) error {
		r := newReader(s, tx)
		// Campaigns that began meanwhile may have children of moved candidates.
		c := r.events.Cursor()
		for k, v := c.Seek(seqKey(a.seen + 1)); k != nil; k, v = c.Next() {
			seq, err := keySeq(k)
			if err != nil {
				return err
			}
			e, _, _, err := decodeEvent(seq, v)
			if err != nil {
				return fmt.Errorf("event %d: %w", seq, err)
			}
			if e.Asked == nil {
				continue
			}
			for _, id := range e.Asked.Parents {
				rec, ok, err := findCandidate(r.ids, r.candidates, id)
				if err != nil {
					return err
				}
				if ok && a.spans[rec.campaign] != nil {
					a.foreign[id] = rec.born
				}
			}
		}
		last, err := r.last()
		if err != nil {
			return err
		}
		if err := tx.Bucket(bucketMeta).Put(keyLast, binary.AppendUvarint(nil, last)); err != nil {
			return err
		}
		put := func(bucket []byte, no uint64, value []byte) {
			if err == nil {
				err = tx.Bucket(bucket).Put(seqKey(no), value)
			}
		}
		for _, no := range a.nos {
			summary := r.campaigns.Get(seqKey(no))
			if !bytes.Equal(summary, summaries[no]) {
				return fmt.Errorf("%w: campaign %s has gone on meanwhile", ErrInvalid, a.ids[no])
			}
			rec, err := decodeCampaign(no, summary)
			if err != nil {
				return err
			}
			h := heads{summary: bytes.Clone(summary), events: map[uint64]head{}}
			for _, seq := range []uint64{no, rec.last, rec.note, rec.best, rec.finals} {
				if seq != 0 {
					h.events[seq] = head{bytes.Clone(r.events.Get(seqKey(seq))), bytes.Clone(r.details.Get(seqKey(seq)))}
				}
			}
			put(bucketHeads, no, h.encode(no))
			put(bucketSpans, no, a.spans[no].encode(no))
			put(bucketArchived, no, moved{no, rec.last, name}.encode())
			put(bucketRemoving, no, seqKey(rec.last))
		}
		for id, born := range a.foreign {
			if err == nil {
				err = tx.Bucket(bucketForeign).Put([]byte(id), seqKey(born))
			}
		}
		if err == nil { // the list that was read before is out of date
			_, err = tx.Bucket(bucketArchived).NextSequence()
		}
		return err
	})
}

// remove removes the events of all campaigns that are in archives.
func (a *archiver) remove() error {
	s := a.store
	for {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		s.commitMu.Lock()
		more := false
		err := s.failed()
		if err == nil && s.closed {
			err = ErrClosed
		}
		if err == nil {
			some := false
			if err = s.view(func(tx *bolt.Tx) error {
				k, _ := tx.Bucket(bucketRemoving).Cursor().First()
				some = k != nil
				return nil
			}); err == nil && some {
				err = s.update(func(tx *bolt.Tx) (err error) {
					s.touch(tx, 8*int64(maxRemoved))
					r := newReader(s, tx)
					defer r.leave()
					more, err = removeSome(tx, r.archivedCandidate)
					return err
				})
			}
		}
		s.commitMu.Unlock()
		if err != nil || !more {
			return err
		}
	}
}

// removeSome removes the newest remaining events of an archived campaign, children before
// their parents, with their index entries. It says whether there may be more.
func removeSome(tx *bolt.Tx, elsewhere func(string) (uint64, bool, error)) (more bool, err error) {
	removing := tx.Bucket(bucketRemoving)
	k, left := removing.Cursor().First()
	if k == nil {
		return false, nil
	}
	no, err := keySeq(k)
	if err != nil {
		return false, err
	}
	end, err := keySeq(left)
	if err != nil {
		return false, err
	}
	mine, err := decodeSpans(no, tx.Bucket(bucketSpans).Get(k))
	if err != nil {
		return false, err
	}
	x := newIndexer(tx)
	x.elsewhere = elsewhere
	// First find them all: a cursor cannot cross emptied pages.
	var found []uint64
	c := x.events.Cursor()
	for _, span := range slices.Backward(mine.within(no, end)) {
		for to := span[1]; to >= span[0] && len(found) <= maxRemoved; to-- {
			if to = lastWithin(c, span[0], to); to == 0 {
				break
			}
			found = append(found, to)
		}
	}
	details := tx.Bucket(bucketDetails)
	for i, seq := range found {
		if i == maxRemoved {
			return true, removing.Put(seqKey(no), seqKey(seq))
		}
		if err := x.forget(seq, no); err != nil {
			return false, err
		}
		if err := errors.Join(details.Delete(seqKey(seq)), x.events.Delete(seqKey(seq))); err != nil {
			return false, err
		}
	}
	err = removing.Delete(seqKey(no))
	k, _ = removing.Cursor().First()
	return k != nil, err
}

// lastWithin finds the last event from from to to that is there, or 0.
func lastWithin(c *bolt.Cursor, from, to uint64) uint64 {
	k, _ := c.Seek(seqKey(to))
	if k == nil {
		k, _ = c.Last()
	} else if binary.BigEndian.Uint64(k) > to {
		k, _ = c.Prev()
	}
	if len(k) != 8 || binary.BigEndian.Uint64(k) < from {
		return 0
	}
	return binary.BigEndian.Uint64(k)
}

// forget removes the index entries of the event seq of an archived campaign; all later
// events are already removed.
func (x *indexer) forget(seq, no uint64) error {
	e, of, _, err := eventAt(x.events, seq)
	if err != nil {
		return err
	}
	if of != no {
		return disagree("event %d is of campaign %d, not %d", seq, of, no)
	}
	if t := e.Result(); t != nil {
		if t.Verdict == correct {
			err = x.ranking.Delete(rankingKey(no, t.Fitness, seq))
		}
		if t.Key != "" {
			err = errors.Join(err, x.keys.Delete(contentKey(t.Key, seq)))
		}
		return err
	}
	if e.Asked == nil {
		return nil
	}
	for _, id := range e.Asked.Parents {
		born, _, ok, err := x.parent(id)
		if err != nil {
			return err
		}
		if !ok {
			return disagree("event %d: candidate %s is not in the index", seq, id)
		}
		if err := x.children.Delete(childKey(born, seq)); err != nil {
			return err
		}
		if x.foreign.Get([]byte(id)) != nil && len(following(x.children, seqKey(born))) == 0 {
			if err := x.foreign.Delete([]byte(id)); err != nil {
				return err
			}
		}
	}
	if born, err := keySeq(x.ids.Get([]byte(e.Asked.Candidate))); err != nil || born != seq {
		return err // it was first asked for earlier
	}
	return errors.Join(x.ids.Delete([]byte(e.Asked.Candidate)), x.candidates.Delete(seqKey(seq)))
}
