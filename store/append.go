package store

import (
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A request is one call of Append.
type request struct {
	events  []Event
	details [][]byte // encoded, without checksum; nil if there is none
	first   uint64
	err     error
	done    bool
	refused bool // err is caused by these events, not by the store
}

// Append adds events to the log, in order, in one transaction: all of them or
// none. When it returns without an error they are durable. It sets Seq, and
// Time where it is zero; the events passed are not changed. It returns the Seq
// of the first; the others follow without a gap.
//
// Events that would make the log inconsistent give ErrInvalid. Concurrent calls share one
// transaction, so many callers together wait for few disk syncs.
func (s *Store) Append(events ...Event) (first uint64, err error) {
	if s.readOnly {
		return 0, s.wrap(fmt.Errorf("%w: nothing can be written", ErrReadOnly))
	}
	if len(events) == 0 {
		return 0, s.wrap(fmt.Errorf("%w: no events", ErrInvalid))
	}
	r := &request{events: make([]Event, len(events)), details: make([][]byte, len(events))}
	now := time.Now().UTC()
	for i, e := range events {
		if e.Time.IsZero() {
			e.Time = now
		}
		if err := validate(&e); err != nil {
			return 0, s.wrap(err)
		}
		if r.details[i], err = encodeDetail(&e); err != nil {
			return 0, s.wrap(err)
		}
		r.events[i] = e
	}
	s.queueMu.Lock()
	s.queue = append(s.queue, r)
	s.queueMu.Unlock()

	// The caller that gets the lock commits for all that wait for it.
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if !r.done {
		s.queueMu.Lock()
		group := s.queue
		s.queue = nil
		s.queueMu.Unlock()
		s.commit(group)
	}
	if r.err != nil {
		return 0, s.wrap(r.err)
	}
	return r.first, nil
}

// commit writes the requests in one transaction. If one is refused, each gets its own,
// so that a bad request does not affect others.
func (s *Store) commit(group []*request) {
	err := s.write(group)
	refused := false
	for _, r := range group {
		refused = refused || r.refused
	}
	if refused && len(group) > 1 {
		for _, r := range group {
			r.refused = false
			s.commit([]*request{r})
		}
		return
	}
	for _, r := range group {
		r.err, r.done = err, true
	}
}

func (s *Store) write(group []*request) error {
	defer s.observe(time.Now())
	return s.update(func(tx *bolt.Tx) error {
		a, err := newAppender(tx)
		if err != nil {
			return err
		}
		reader := newReader(s, tx)
		defer reader.leave()
		a.index.elsewhere = reader.archivedCandidate
		for _, r := range group {
			r.first = a.next
			s.touch(tx, 8*int64(len(r.events))) // each changes a handful of index entries
			for i := range r.events {
				e := r.events[i]
				e.Seq = a.next
				if err := a.add(&e, r.details[i]); err != nil {
					r.refused = true
					return err
				}
			}
		}
		return a.index.flush()
	})
}

// An appender adds events within one transaction.
type appender struct {
	events, details *bolt.Bucket
	index           *indexer
	next            uint64
}

func newAppender(tx *bolt.Tx) (*appender, error) {
	a := &appender{events: tx.Bucket(bucketEvents), details: tx.Bucket(bucketDetails), index: newIndexer(tx)}
	// Keys only grow, so pages can be filled completely.
	a.events.FillPercent, a.details.FillPercent = 1, 1
	last, err := lastSeq(tx)
	if err != nil {
		return nil, err
	}
	a.next = last + 1
	return a, nil
}

// lastSeq is the largest Seq assigned so far, 0 in an empty store.
func lastSeq(tx *bolt.Tx) (uint64, error) {
	k, _ := tx.Bucket(bucketEvents).Cursor().Last()
	last, err := keySeq(k)
	if err != nil {
		return 0, err
	}
	moved, _ := binary.Uvarint(tx.Bucket(bucketMeta).Get(keyLast))
	return max(last, moved), nil
}

// keySeq reads the key of an event; no key is 0.
func keySeq(k []byte) (uint64, error) {
	switch len(k) {
	case 0:
		return 0, nil
	case 8:
		return binary.BigEndian.Uint64(k), nil
	}
	return 0, corrupt("an event has a key of %d bytes, %.16x", len(k), k)
}

// add indexes and stores one event, whose Seq is a.next.
func (a *appender) add(e *Event, detail []byte) error {
	campaign, err := a.index.apply(e)
	if err != nil {
		return err
	}
	b := encodeEvent(e, campaign)
	if len(b) > maxText {
		return fmt.Errorf("%w: %s event of campaign %s has %d bytes without its detail, at most %d are kept", ErrInvalid, e.Kind, e.Campaign, len(b), maxText)
	}
	if err := a.events.Put(seqKey(e.Seq), b); err != nil {
		return err
	}
	if detail != nil {
		if err := a.details.Put(seqKey(e.Seq), seal(e.Seq, detail)); err != nil {
			return err
		}
	}
	a.next++
	return nil
}
