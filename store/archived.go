package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// This file reads campaigns that were moved to archives; archive.go moves them.
//
// An archive is a store file in the folder FILE.archive beside the store. Events keep
// their Seq there, so the files of a store share one numbering and no answer
// depends on where a campaign is. For an archived campaign the store keeps what lists and
// rankings need: its entries in the indexes "names" and "campaigns", and in its heads the few
// events that summarize it. An archive is opened when an answer needs more than that, and
// stays open.
//
// One entry of the bucket "archived" alone decides whether a campaign is in an archive.
// What the store still has of such a campaign is being removed, and readers ignore it.

// A moved is a campaign in an archive.
type moved struct {
	no, last uint64 // its first and its newest event
	name     string // of the archive
}

func (m moved) encode() []byte {
	b := appendString([]byte{formatVersion}, m.name)
	return seal(m.no, binary.AppendUvarint(b, m.last))
}

func decodeMoved(no uint64, b []byte) (moved, error) {
	body, err := unseal(no, b)
	if err != nil {
		return moved{}, fmt.Errorf("archived campaign %d: %w", no, err)
	}
	d := decoder{b: body}
	m := moved{no: no, name: d.string(), last: d.uvarint()}
	if m.name == "" || m.name != filepath.Base(m.name) || m.last < no || len(d.b) > 0 {
		d.fail("the archive is called %q and has the events %d to %d", m.name, no, m.last)
	}
	if d.err != nil {
		return moved{}, fmt.Errorf("archived campaign %d: %w", no, d.err)
	}
	return m, nil
}

// heads are what the store keeps for an archived campaign.
type heads struct {
	summary []byte // its campaignRecord, encoded
	events  map[uint64]head
}

// A head is the record of an event and that of its payloads, or nil.
type head struct{ event, detail []byte }

func (h heads) encode(no uint64) []byte {
	b := appendString([]byte{formatVersion}, string(h.summary))
	b = binary.AppendUvarint(b, uint64(len(h.events)))
	seqs := make([]uint64, 0, len(h.events))
	for seq := range h.events {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	for _, seq := range seqs {
		b = binary.AppendUvarint(b, seq)
		b = appendString(appendString(b, string(h.events[seq].event)), string(h.events[seq].detail))
	}
	return seal(no, b)
}

func decodeHeads(no uint64, b []byte) (heads, error) {
	body, err := unseal(no, b)
	if err != nil {
		return heads{}, fmt.Errorf("heads of campaign %d: %w", no, err)
	}
	d := decoder{b: body}
	h := heads{summary: d.bytes(d.uvarint()), events: map[uint64]head{}}
	for range d.count() {
		seq := d.uvarint()
		h.events[seq] = head{d.bytes(d.uvarint()), d.bytes(d.uvarint())}
	}
	if len(d.b) > 0 {
		d.fail("%d bytes too many", len(d.b))
	}
	if d.err != nil {
		return heads{}, fmt.Errorf("heads of campaign %d: %w", no, d.err)
	}
	return h, nil
}

// spans are ranges of event numbers, from and to included, sorted and disjoint.
type spans [][2]uint64

// add adds a number that is larger than all others.
func (s *spans) add(seq uint64) {
	if n := len(*s); n > 0 && (*s)[n-1][1]+1 == seq {
		(*s)[n-1][1] = seq
		return
	}
	*s = append(*s, [2]uint64{seq, seq})
}

// at is the index of the first span that does not end before seq.
func (s spans) at(seq uint64) int {
	i, _ := slices.BinarySearchFunc(s, seq, func(span [2]uint64, seq uint64) int { return cmp.Compare(span[1], seq) })
	return i
}

func (s spans) has(seq uint64) bool {
	i := s.at(seq)
	return i < len(s) && s[i][0] <= seq
}

// within returns the parts of [from, to] that are in s, without those that are not.
func (s spans) within(from, to uint64) (out spans) {
	for _, span := range s[s.at(from):] {
		if span[0] > to {
			break
		}
		out = append(out, [2]uint64{max(span[0], from), min(span[1], to)})
	}
	return out
}

func (s spans) without(from, to uint64) (out spans) {
	for _, in := range s.within(from, to) {
		if in[0] > from {
			out = append(out, [2]uint64{from, in[0] - 1})
		}
		from = in[1] + 1
	}
	if from <= to {
		out = append(out, [2]uint64{from, to})
	}
	return out
}

// count is how many numbers there are.
func (s spans) count() (n uint64) {
	for _, span := range s {
		n += span[1] - span[0] + 1
	}
	return n
}

// joined merges spans that share no number.
func joined(all ...spans) spans {
	var out spans
	sorted := slices.Concat(all...)
	slices.SortFunc(sorted, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	for _, span := range sorted {
		if n := len(out); n > 0 && out[n-1][1]+1 >= span[0] {
			out[n-1][1] = max(out[n-1][1], span[1])
			continue
		}
		out = append(out, span)
	}
	return out
}

func (s spans) encode(no uint64) []byte {
	b := binary.AppendUvarint([]byte{formatVersion}, uint64(len(s)))
	next := uint64(0)
	for _, span := range s {
		b = binary.AppendUvarint(b, span[0]-next)
		b = binary.AppendUvarint(b, span[1]-span[0])
		next = span[1] + 1
	}
	return seal(no, b)
}

func decodeSpans(no uint64, b []byte) (spans, error) {
	body, err := unseal(no, b)
	if err != nil {
		return nil, fmt.Errorf("events of archived campaign %d: %w", no, err)
	}
	d := decoder{b: body}
	var out spans
	next := uint64(0)
	for range d.count() {
		from := next + d.uvarint()
		to := from + d.uvarint()
		if from < next || to < from || to+1 == 0 {
			d.fail("events %d to %d", from, to)
			break
		}
		out, next = append(out, [2]uint64{from, to}), to+1
	}
	if d.err == nil && (len(d.b) > 0 || len(out) == 0 || out[0][0] != no) {
		d.fail("they do not begin with event %d", no)
	}
	if d.err != nil {
		return nil, fmt.Errorf("events of archived campaign %d: %w", no, d.err)
	}
	return out, nil
}

// A movedList has the archived campaigns at some state of their bucket.
type movedList struct {
	state uint64
	all   []moved // by their numbers
	byNo  map[uint64]moved
}

// moved lists the archived campaigns.
func (r *reader) moved() (*movedList, error) {
	if r.list != nil {
		return r.list, nil
	}
	if known := r.store.moved.Load(); known != nil && known.state == r.archived.Sequence() {
		r.list = known
		return r.list, nil
	}
	list := &movedList{state: r.archived.Sequence(), byNo: map[uint64]moved{}}
	c := r.archived.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		no, err := keySeq(k)
		if err != nil {
			return nil, err
		}
		m, err := decodeMoved(no, v)
		if err != nil {
			return nil, err
		}
		list.all, list.byNo[no] = append(list.all, m), m
	}
	if !r.tx.Writable() { // a transaction that writes may be rolled back
		r.store.moved.Store(list)
	}
	r.list = list
	return list, nil
}

// gone says whether a campaign is in an archive. It is false for a reader of an
// archive.
func (r *reader) gone(no uint64) (bool, error) {
	list, err := r.moved()
	if err != nil {
		return false, err
	}
	_, gone := list.byNo[no]
	return gone, nil
}

// home returns the reader that has the events of a campaign.
func (r *reader) home(no uint64) (*reader, error) {
	list, err := r.moved()
	if err != nil {
		return nil, err
	}
	if m, ok := list.byNo[no]; ok {
		return r.archive(m.name)
	}
	return r, nil
}

// homes returns r, and the readers of all archives with campaigns for which want is
// true.
func (r *reader) homes(want func(moved) bool) ([]*reader, error) {
	out := []*reader{r}
	list, err := r.moved()
	if err != nil {
		return nil, err
	}
	for _, m := range list.all {
		if !want(m) {
			continue
		}
		h, err := r.archive(m.name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out, nil
}

func anyCampaign(moved) bool { return true }

// archive returns a reader of an archive, which is valid as long as r.
func (r *reader) archive(name string) (*reader, error) {
	if h := r.others[name]; h != nil {
		return h, nil
	}
	s, err := r.store.archive(name)
	if err != nil {
		return nil, err
	}
	tx, err := s.db.Begin(false)
	if err != nil {
		return nil, s.wrap(err)
	}
	if r.others == nil {
		r.others = map[string]*reader{}
	}
	r.others[name] = newReader(s, tx)
	return r.others[name], nil
}

// leave ends the transactions that archive began.
func (r *reader) leave() {
	for _, h := range r.others {
		_ = h.tx.Rollback() // it only read
	}
}

// archivedCandidate finds the first asked of a candidate in the archives.
func (r *reader) archivedCandidate(id string) (born uint64, ok bool, err error) {
	all, err := r.homes(anyCampaign)
	if err != nil {
		return 0, false, err
	}
	for _, h := range all[1:] {
		if v := h.ids.Get([]byte(id)); v != nil {
			born, err = keySeq(v)
			return born, err == nil, h.store.wrap(err)
		}
	}
	return 0, false, nil
}

// archiveFolder is the folder with the archives of a store.
func archiveFolder(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return path + ".archive"
}

// archive opens an archive of s, once.
func (s *Store) archive(name string) (*Store, error) {
	s.openMu.Lock()
	defer s.openMu.Unlock()
	if a := s.archives[name]; a != nil {
		return a, nil
	}
	a, err := openArchive(s.path, name)
	if err != nil {
		return nil, err
	}
	if s.archives == nil {
		s.archives = map[string]*Store{}
	}
	s.archives[name] = a
	return a, nil
}

func openArchive(path, name string) (*Store, error) {
	file := filepath.Join(archiveFolder(path), name)
	a, err := Open(file, Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingArchive(path, file)
	}
	if err != nil {
		return nil, err
	}
	is := false
	err = a.view(func(tx *bolt.Tx) error {
		is = tx.Bucket(bucketMeta).Get(keyArchive) != nil
		return nil
	})
	if err == nil && !is {
		err = corrupt("it should be an archive of %s and is another store", path)
	}
	if err != nil {
		_ = a.Close()
		return nil, a.wrap(err)
	}
	return a, nil
}

func missingArchive(path, file string) error {
	return located{fmt.Errorf("store %s: its archive %s is missing: put it back, or restore both from one backup: %w", path, file, fs.ErrNotExist)}
}
