package store

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// ErrDiffer is returned by Merge when two stores have different logs of one campaign.
// The message names both and where they differ.
var ErrDiffer = errors.New("stores differ")

// Merged says what Merge did.
type Merged struct {
	Path string `json:"path"`
	// Campaigns has one row per campaign of the destination, by id.
	Campaigns []MergedCampaign `json:"campaigns"`
	// Changed is false when the destination had everything and was not touched.
	Changed bool `json:"changed"`
	// Report is the result of Check on the new destination.
	Report Report `json:"report"`
}

// A MergedCampaign says where a campaign of the destination comes from.
type MergedCampaign struct {
	ID     string `json:"id"`
	Change Change `json:"change"`
	// From is the store that the campaign's log was taken from.
	From string `json:"from"`
}

// A Change says what a merge means for a campaign.
type Change string

// The changes.
const (
	Kept     Change = "kept"     // the destination had all of it
	Added    Change = "added"    // the destination had nothing of it
	Extended Change = "extended" // the destination had a beginning of it
)

// Merge merges the campaigns of several stores into one. The destination is another
// store, whose campaigns are kept, or a new file. A campaign that several stores have
// is taken once, from the one that has most of it; two logs give ErrDiffer unless one
// is a beginning of the other. Damage anywhere gives ErrCorrupt: every store is checked
// first.
//
// Events keep their times and their order within a campaign. Events of different
// campaigns are sorted by time, with parents before their children whatever the clocks
// of their machines said, and numbered anew. So the resulting log does not
// depend on the order in which stores are given or merged.
//
// The new file is written beside the destination, checked, and replaces it in one step;
// until then, and when anything fails, the destination is unchanged. A killed merge
// leaves a file "INTO.merge-*", which can be deleted. If a process writes one of the
// stores, or has the destination open, the error is ErrLocked.
func Merge(ctx context.Context, into string, from []string, o Options) (Merged, error) {
	m := merger{ctx: ctx, into: into, options: o, taken: map[string]*source{}}
	defer m.close()
	out, err := m.merge(from)
	if err != nil {
		return Merged{}, wrapPath(into, err)
	}
	return out, nil
}

type merger struct {
	ctx     context.Context
	into    string
	options Options
	stores  []*Store
	target  *Store // the existing destination; nil when it is new
	taken   map[string]*source
}

// A source is a campaign and the store that has most of it.
type source struct {
	id    string
	begun time.Time
	store *Store
}

func (m *merger) close() {
	for _, s := range m.stores {
		_ = s.Close()
	}
}

func (m *merger) merge(from []string) (Merged, error) {
	if err := m.open(from); err != nil {
		return Merged{}, err
	}
	out := Merged{Path: m.into, Campaigns: []MergedCampaign{}}
	had := map[string]bool{}
	for _, s := range m.stores {
		if err := m.ctx.Err(); err != nil {
			return out, err
		}
		rep, err := s.Check()
		if err == nil {
			err = rep.Err()
		}
		if err != nil {
			return out, err
		}
		if s == m.target {
			out.Report = rep
		}
		campaigns, err := s.Campaigns()
		if err != nil {
			return out, err
		}
		for _, c := range campaigns {
			if s == m.target {
				had[c.ID] = true
			}
			if err := m.take(&source{c.ID, c.StartedAt, s}); err != nil {
				return out, err
			}
		}
	}
	out.Changed = m.target == nil
	for _, c := range m.sources() {
		row := MergedCampaign{ID: c.id, From: c.store.path, Change: Added}
		switch {
		case c.store == m.target:
			row.Change = Kept
		case had[c.id]:
			row.Change = Extended
		}
		out.Changed = out.Changed || row.Change != Kept
		out.Campaigns = append(out.Campaigns, row)
	}
	if !out.Changed {
		return out, nil
	}
	var err error
	out.Report, err = m.write()
	out.Report.Path = m.into
	return out, err
}

// open opens the destination, if it exists, and the stores, each file once.
func (m *merger) open(from []string) error {
	var seen []fs.FileInfo
	add := func(path string, o Options) (*Store, error) {
		s, err := Open(path, o)
		if err != nil {
			return nil, err
		}
		m.stores = append(m.stores, s)
		info, err := s.file.Stat()
		if err != nil {
			return nil, s.wrap(err)
		}
		seen = append(seen, info)
		return s, nil
	}
	writing, reading := m.options, m.options
	writing.MustExist, reading.ReadOnly = true, true
	s, err := add(m.into, writing)
	switch {
	case err == nil:
		m.target = s
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	for _, path := range from {
		info, err := os.Stat(path)
		if err == nil && slices.ContainsFunc(seen, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			continue
		}
		if _, err := add(path, reading); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) sources() []*source {
	var out []*source
	for _, c := range m.taken {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *source) int { return cmp.Compare(a.id, b.id) })
	return out
}

// take notes where a campaign is, and compares logs if another store has it, too.
func (m *merger) take(c *source) error {
	old := m.taken[c.id]
	if old == nil {
		m.taken[c.id] = c
		return nil
	}
	one, stopOne := iter.Pull2(old.store.Events(c.id, 0))
	defer stopOne()
	two, stopTwo := iter.Pull2(c.store.Events(c.id, 0))
	defer stopTwo()
	for n := 1; ; n++ {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		a, err, more := one()
		if err != nil {
			return err
		}
		b, err, longer := two()
		switch {
		case err != nil:
			return err
		case !more && longer:
			m.taken[c.id] = c
			return nil
		case !more || !longer:
			return nil
		}
		a.Seq, b.Seq = 0, 0
		if !reflect.DeepEqual(a, b) {
			return located{fmt.Errorf("%w: campaign %s parts at its event %d, which is %s in %s and %s in %s: keep one of them",
				ErrDiffer, c.id, n, a.brief(), old.store.path, b.brief(), c.store.path)}
		}
	}
}

// brief names an event for people.
func (e Event) brief() string {
	what := string(e.Kind)
	switch {
	case e.Asked != nil:
		what += " " + e.Asked.Candidate
	case e.Result() != nil:
		what += " " + e.Result().Candidate
	case e.Attempt != nil:
		what += " " + e.Attempt.Candidate
	}
	return fmt.Sprintf("%q of %s", what, e.Time.Format(time.RFC3339Nano))
}

// write makes the new file and puts it in place.
func (m *merger) write() (_ Report, err error) {
	// A link stays a link.
	path, mode := m.into, fs.FileMode(0)
	if m.target != nil {
		info, err := m.target.file.Stat()
		if err != nil {
			return Report{}, err
		}
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return Report{}, err
		}
	}
	name := path + ".merge-" + rand.Text()[:10]
	tmp, err := openRegular(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return Report{}, err
	}
	defer os.Remove(name) //nolint:errcheck // it no longer exists once it is in place
	if err := m.fill(&Store{path: name, file: tmp}); err != nil {
		return Report{}, err
	}
	rep, err := Check(name, Options{})
	if err == nil {
		err = rep.Err()
	}
	if err != nil {
		return Report{}, err
	}
	if m.target != nil {
		if err := os.Chmod(name, mode); err != nil {
			return Report{}, err
		}
		err = os.Rename(name, path)
	} else {
		err = os.Link(name, path) // a store that appeared meanwhile stays
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = os.Rename(name, path) // not every file system has links
		}
	}
	if err != nil {
		return Report{}, fmt.Errorf("the new file cannot be put in place: %w", err)
	}
	return rep, syncDir(filepath.Dir(path))
}

// fill writes every campaign into s, durably, and closes it.
func (m *merger) fill(s *Store) error {
	if err := s.openBolt(); err != nil {
		_ = s.file.Close()
		return err
	}
	s.db.NoSync = true // until all is written
	l := newLogs(m.sources())
	defer l.stop()
	err := s.update(createBuckets)
	for more := true; err == nil && more; {
		if err = m.ctx.Err(); err != nil {
			break
		}
		err = s.update(func(tx *bolt.Tx) (err error) {
			more, err = l.append(s, tx)
			return err
		})
	}
	if err == nil {
		if err = s.db.Sync(); err != nil {
			err = cmp.Or(spaceError(err), fmt.Errorf("the new file cannot be written: %w", err))
		}
	}
	return cmp.Or(err, s.shut())
}

// logs are the events of several campaigns, to be put in order.
type logs struct {
	ready   logHeap
	waiting map[string][]*campaignLog // by the parent that they wait for
}

// A campaignLog walks the events of one campaign. It is opened when its first
// event is due, so that few are open at once.
type campaignLog struct {
	*source
	at   time.Time // of head
	head *Event    // nil at the end
	next func() (Event, error, bool)
	stop func()
}

func newLogs(sources []*source) *logs {
	l := &logs{waiting: map[string][]*campaignLog{}}
	for _, c := range sources {
		l.ready = append(l.ready, &campaignLog{source: c, at: c.begun})
	}
	heap.Init(&l.ready)
	return l
}

func (l *logs) stop() {
	open := slices.Clone(l.ready)
	for _, w := range l.waiting {
		open = append(open, w...)
	}
	for _, c := range open {
		if c.stop != nil {
			c.stop()
		}
	}
}

// append adds events in tx, as many as one transaction should have, and reports
// whether there are more.
func (l *logs) append(s *Store, tx *bolt.Tx) (more bool, err error) {
	a, err := newAppender(tx)
	if err != nil {
		return false, err
	}
	for n, size := 0, 0; len(l.ready) > 0 && n < repairEvents && size < repairBytes; n++ {
		c := l.ready[0]
		if c.next == nil {
			c.next, c.stop = iter.Pull2(c.store.Events(c.id, 0))
			if err := c.advance(); err != nil {
				return false, err
			}
		}
		e := c.head
		if e == nil {
			c.stop()
			heap.Pop(&l.ready)
			continue
		}
		if e.Asked != nil {
			parent, err := a.missing(e.Asked.Parents)
			if err != nil {
				return false, err
			}
			if parent != "" {
				heap.Pop(&l.ready)
				l.waiting[parent] = append(l.waiting[parent], c)
				continue
			}
		}
		e.Seq = a.next
		detail, err := encodeDetail(e)
		if err != nil {
			return false, err
		}
		if err := a.add(e, detail); err != nil {
			return false, err
		}
		s.touch(tx, 8)
		size += len(detail)
		if err := c.advance(); err != nil {
			return false, err
		}
		heap.Fix(&l.ready, 0)
		if e.Asked != nil {
			for _, w := range l.waiting[e.Asked.Candidate] {
				heap.Push(&l.ready, w)
			}
			delete(l.waiting, e.Asked.Candidate)
		}
	}
	if len(l.ready) == 0 && len(l.waiting) > 0 {
		return false, fmt.Errorf("%w: parents of some candidates are in none of the stores: an archive is merged with its store, by naming that", ErrInvalid)
	}
	return len(l.ready) > 0, a.index.flush()
}

// advance goes to the next event; head is nil at the end.
func (c *campaignLog) advance() error {
	e, err, ok := c.next()
	if err != nil {
		return err
	}
	if c.head = nil; ok {
		c.head, c.at = &e, e.Time
	}
	return nil
}

// missing is the first parent that has not been asked for yet, or "".
func (a *appender) missing(parents []string) (string, error) {
	for _, id := range parents {
		_, ok, err := a.index.candidate(id)
		if err != nil || !ok {
			return id, err
		}
	}
	return "", nil
}

// A logHeap has at its top the log with the oldest next event.
type logHeap []*campaignLog

func (h logHeap) Len() int { return len(h) }
func (h logHeap) Less(i, j int) bool {
	if c := h[i].at.Compare(h[j].at); c != 0 {
		return c < 0
	}
	return h[i].id < h[j].id
}
func (h logHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *logHeap) Push(x any)   { *h = append(*h, x.(*campaignLog)) }
func (h *logHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
