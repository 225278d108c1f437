package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// This file reads bbolt's pages without bbolt, for what bbolt's own check (Tx.Check, with guard
// around it) leaves uncovered. TestBoltAloneLong shows each:
//
//   - It ends the process: a branch page that leads back to itself, and an overflow of too many
//     pages, make it go on for ever; a leaf that says it is a branch, or an entry that says it is a bucket, makes it fault, in
//     a goroutine of its own, where nothing can recover.
//   - It says nothing of a value that goes on beyond its page.
//   - It ends at the first page that it cannot read. Which bucket that belongs to, and so whether
//     the log or only an index is damaged, is not known, and [Repair] has nothing to read the rest with.
//   - It needs an open file, and opening believes the list of free pages: the next write goes into
//     a page of that list, in use or not.
//
// So the pages that lead to others, and the list, are checked before bbolt sees the file, and the
// bounds and the order of all entries when the store is checked. Whether pages are lost, neither
// used nor free, is left to Tx.Check, which runs after this reader found nothing. The reader uses pread, never
// the map, and whatever it finds, it fails only with an error.
//
// The layout (bbolt 1.5, file version 2), integers in native byte order:
//
//	page:    uint64 id, uint16 flags, uint16 count, uint32 overflow pages
//	meta:    uint32 magic, version, page size, flags; bucket root;
//	         uint64 freelist page, first unused page, transaction, FNV-1a
//	bucket:  uint64 root page (0: the page follows inline), uint64 sequence
//	branch:  count times uint32 key position, key size, uint64 child page
//	leaf:    count times uint32 flags, position, key size, value size
//	freelist: count times uint64; a count of 0xFFFF: the first holds the count
//
// Positions count from the start of their element.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader    = 16
	pageElement   = 16
	bucketHeader  = 16
	metaSize      = 64
	noFreelist    = ^uint64(0)
	leafIsBucket  = 1
	flagBranch    = 0x01
	flagLeaf      = 0x02
	flagFreelist  = 0x10
	maxPageSize   = 1 << 24
	minPageSize   = 1 << 10
	maxTreeHeight = 32

	// Names in reports for parts of the file that are not buckets.
	partRoot = "the root"
	partFree = "the list of free pages"
)

var native = binary.NativeEndian

// A boltMeta is one of the two meta pages.
type boltMeta struct {
	pageSize                     uint32
	root, freelist, unused, txid uint64
}

func parseMeta(page []byte) (m boltMeta, magic bool, err error) {
	if len(page) < pageHeader+metaSize {
		return m, false, corrupt("meta page is cut short")
	}
	b := page[pageHeader:]
	if native.Uint32(b) != boltMagic {
		return m, false, corrupt("no bbolt meta page")
	}
	m = boltMeta{
		pageSize: native.Uint32(b[8:]), root: native.Uint64(b[16:]), freelist: native.Uint64(b[32:]),
		unused: native.Uint64(b[40:]), txid: native.Uint64(b[48:]),
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:56])
	switch {
	case h.Sum64() != native.Uint64(b[56:]):
		return m, true, corrupt("checksum of the meta page")
	case native.Uint32(b[4:]) != boltVersion:
		return m, true, fmt.Errorf("%w: bbolt file version %d, %d is known: upgrade evotune", ErrVersion, native.Uint32(b[4:]), boltVersion)
	case m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0:
		return m, true, corrupt("page size %d", m.pageSize)
	}
	return m, true, nil
}

// A pager reads the pages that one transaction sees.
type pager struct {
	r        io.ReaderAt
	size     int64
	meta     boltMeta
	reserve  error  // what is wrong with the other meta page, or nil
	seen     []byte // one bit per page that was reached or is free
	pageSize int
}

// openPager finds the newest good meta page. ErrNotStore means that the file
// does not look like a bbolt file.
func openPager(r io.ReaderAt, size int64) (*pager, error) {
	if size == 0 {
		return nil, fmt.Errorf("%w: the file is empty", ErrNotStore)
	}
	var buf [4096]byte
	read := func(off int64) (boltMeta, bool, error) {
		n, err := r.ReadAt(buf[:min(int64(len(buf)), max(0, size-off))], off)
		if err != nil && err != io.EOF {
			return boltMeta{}, false, err
		}
		return parseMeta(buf[:n])
	}
	first, magic, err0 := read(0)
	if err0 != nil && !errors.Is(err0, ErrCorrupt) && !errors.Is(err0, ErrVersion) {
		return nil, err0
	}
	var second boltMeta
	err1 := corrupt("no second meta page")
	if err0 == nil {
		second, _, err1 = read(int64(first.pageSize))
	} else {
		// The first page does not tell the page size: try all.
		for n := int64(minPageSize); n <= maxPageSize && n < size; n *= 2 {
			m, is, err := read(n)
			if is {
				magic = true
			}
			if err == nil && int64(m.pageSize) == n {
				second, err1 = m, nil
				break
			}
		}
	}
	p := &pager{r: r, size: size}
	switch {
	case err0 != nil && err1 != nil:
		if !magic {
			return nil, fmt.Errorf("%w: another kind of file", ErrNotStore)
		}
		if errors.Is(err0, ErrVersion) {
			return nil, err0
		}
		return nil, corrupt("both meta pages are bad")
	case err0 != nil:
		p.meta, p.reserve = second, fmt.Errorf("meta page 0: %w", err0)
	case err1 != nil:
		p.meta, p.reserve = first, fmt.Errorf("meta page 1: %w", err1)
	case second.pageSize != first.pageSize:
		return nil, corrupt("the meta pages disagree about the page size")
	case second.txid > first.txid:
		p.meta = second
	default:
		p.meta = first
	}
	p.pageSize = int(p.meta.pageSize)
	pages := uint64(size) / uint64(p.pageSize)
	if p.meta.unused > pages {
		return nil, corrupt("the file is cut short: it has %d bytes and should have %d at least", size, p.meta.unused*uint64(p.pageSize))
	}
	if p.meta.root < 2 || p.meta.root >= p.meta.unused {
		return nil, corrupt("the root is page %d of %d", p.meta.root, p.meta.unused)
	}
	p.seen = make([]byte, p.meta.unused/8+1)
	return p, nil
}

// mark marks n pages from id on as used; it returns false if one of them was used
// already or does not exist.
func (p *pager) mark(id, n uint64) bool {
	if id < 2 || n > p.meta.unused || id > p.meta.unused-n {
		return false
	}
	for i := id; i < id+n; i++ {
		if p.seen[i/8]&(1<<(i%8)) != 0 {
			return false
		}
		p.seen[i/8] |= 1 << (i % 8)
	}
	return true
}

// A page is one page with its overflow pages.
type page struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64
	b        []byte
}

// read reads a page into buf, which grows as needed.
func (p *pager) read(id uint64, buf []byte) (page, []byte, error) {
	if id < 2 || id >= p.meta.unused {
		return page{}, buf, corrupt("page %d of %d", id, p.meta.unused)
	}
	buf = slices.Grow(buf[:0], p.pageSize)[:p.pageSize]
	if _, err := p.r.ReadAt(buf, int64(id)*int64(p.pageSize)); err != nil {
		return page{}, buf, fmt.Errorf("page %d: %w", id, err)
	}
	g := page{
		id: native.Uint64(buf), flags: native.Uint16(buf[8:]), count: int(native.Uint16(buf[10:])),
		overflow: uint64(native.Uint32(buf[12:])),
	}
	if g.id != id {
		return page{}, buf, corrupt("page %d says that it is page %d", id, g.id)
	}
	if g.overflow >= p.meta.unused-id {
		return page{}, buf, corrupt("page %d goes on for %d pages", id, g.overflow)
	}
	if g.overflow > 0 {
		n := (int(g.overflow) + 1) * p.pageSize
		buf = slices.Grow(buf, n-len(buf))[:n]
		if _, err := p.r.ReadAt(buf[p.pageSize:], int64(id+1)*int64(p.pageSize)); err != nil {
			return page{}, buf, fmt.Errorf("page %d: %w", id, err)
		}
	}
	g.b = buf
	return g, buf, nil
}

// slice cuts n bytes at pos of element i.
func (g *page) slice(i int, pos, n uint32) ([]byte, bool) {
	from := uint64(pageHeader+i*pageElement) + uint64(pos)
	to := from + uint64(n)
	if from < uint64(pageHeader+g.count*pageElement) || to > uint64(len(g.b)) {
		return nil, false
	}
	return g.b[from:to:to], true
}

func (g *page) element(i int) ([]byte, bool) {
	at := pageHeader + i*pageElement
	if at+pageElement > len(g.b) {
		return nil, false
	}
	return g.b[at : at+pageElement], true
}

// branch reads element i of a branch page.
func (g *page) branch(i int) (key []byte, child uint64, ok bool) {
	e, ok := g.element(i)
	if !ok {
		return nil, 0, false
	}
	key, ok = g.slice(i, native.Uint32(e), native.Uint32(e[4:]))
	return key, native.Uint64(e[8:]), ok && len(key) > 0
}

// leaf reads element i of a leaf page.
func (g *page) leaf(i int) (key, value []byte, bucket, ok bool) {
	e, ok := g.element(i)
	if !ok {
		return nil, nil, false, false
	}
	flags, pos, ksize, vsize := native.Uint32(e), native.Uint32(e[4:]), native.Uint32(e[8:]), native.Uint32(e[12:])
	if flags&^leafIsBucket != 0 || ksize == 0 || uint64(ksize)+uint64(vsize) > uint64(len(g.b)) {
		return nil, nil, false, false
	}
	kv, ok := g.slice(i, pos, ksize+vsize)
	if !ok {
		return nil, nil, false, false
	}
	return kv[:ksize:ksize], kv[ksize:], flags == leafIsBucket, true
}

// A tree is a bucket found in the root.
type tree struct {
	name   string
	root   uint64
	inline []byte // the page itself when root is 0
}

// trees lists the buckets.
func (p *pager) trees() ([]tree, error) {
	var out []tree
	var first error
	p.walk(tree{name: partRoot, root: p.meta.root}, walker{
		entry: func(key, value []byte, bucket bool) {
			if !bucket || len(value) < bucketHeader {
				first = cmp.Or(first, corrupt("the root holds %.40q, which is not a bucket", key))
				return
			}
			t := tree{name: string(key), root: native.Uint64(value)}
			if t.root == 0 {
				t.inline = bytes.Clone(value[bucketHeader:])
			}
			out = append(out, t)
		},
		bad: func(err error) { first = cmp.Or(first, err) },
	})
	return out, first
}

// A walker says what to do on a walk. Nil functions are skipped.
type walker struct {
	// entry is called for every entry of the leaves, in order. Without it and
	// leaves the leaf pages are not read.
	entry func(key, value []byte, bucket bool)
	// bad is called for every bad page; its entries are left out.
	bad func(error)
	// leaves reads the leaves even without entry.
	leaves bool
}

// walk goes through a bucket. Pages are marked as seen.
func (p *pager) walk(t tree, w walker) {
	if t.root == 0 {
		g := page{b: t.inline}
		if len(t.inline) < pageHeader {
			w.bad(corrupt("bucket %.40q is cut short", t.name))
			return
		}
		g.flags, g.count = native.Uint16(t.inline[8:]), int(native.Uint16(t.inline[10:]))
		if g.flags != flagLeaf {
			w.bad(corrupt("bucket %.40q: its page has flags %#x", t.name, g.flags))
			return
		}
		w.leaf(t.name, &g, nil, nil)
		return
	}
	height, err := p.height(t.root)
	if err != nil {
		w.bad(fmt.Errorf("bucket %.40q: %w", t.name, err))
		return
	}
	p.descend(t, w, t.root, height, nil, nil, make([][]byte, height+1))
}

// height finds how many levels of branch pages are above the leaves. bbolt keeps all
// leaves at one depth.
func (p *pager) height(id uint64) (int, error) {
	var buf []byte
	for h := range maxTreeHeight {
		var g page
		var err error
		if g, buf, err = p.read(id, buf); err != nil {
			return 0, err
		}
		if g.flags == flagLeaf {
			return h, nil
		}
		if g.flags != flagBranch {
			return 0, corrupt("page %d has flags %#x", id, g.flags)
		}
		_, child, ok := g.branch(0)
		if !ok {
			return 0, corrupt("page %d has a bad element", id)
		}
		id = child
	}
	return 0, corrupt("page %d: the tree is deeper than %d pages", id, maxTreeHeight)
}

// descend walks the subtree of page id, whose keys are in [low, high).
func (p *pager) descend(t tree, w walker, id uint64, height int, low, high []byte, bufs [][]byte) {
	bad := func(err error) { w.bad(fmt.Errorf("bucket %.40q: %w", t.name, err)) }
	if height == 0 && w.entry == nil && !w.leaves {
		// The content of the leaf is not needed.
		if !p.mark(id, 1) {
			bad(corrupt("page %d is used twice or does not exist", id))
		}
		return
	}
	g, buf, err := p.read(id, bufs[height])
	bufs[height] = buf
	if err != nil {
		bad(err)
		return
	}
	if !p.mark(id, g.overflow+1) {
		bad(corrupt("page %d is used twice or does not exist", id))
		return
	}
	if height == 0 {
		if g.flags != flagLeaf {
			bad(corrupt("page %d has flags %#x, should be a leaf", id, g.flags))
			return
		}
		w.leaf(t.name, &g, low, high)
		return
	}
	if g.flags != flagBranch || g.count == 0 {
		bad(corrupt("page %d has flags %#x and %d elements, should be a branch", id, g.flags, g.count))
		return
	}
	var last []byte
	for i := range g.count {
		key, child, ok := g.branch(i)
		if !ok {
			bad(corrupt("page %d: element %d is bad", id, i))
			return
		}
		if i == 0 && low != nil && bytes.Compare(key, low) < 0 || i > 0 && bytes.Compare(key, last) <= 0 ||
			high != nil && bytes.Compare(key, high) >= 0 {
			bad(corrupt("page %d: element %d is out of order", id, i))
			return
		}
		last = key
		next := high
		if i+1 < g.count {
			if next, _, ok = g.branch(i + 1); !ok {
				bad(corrupt("page %d: element %d is bad", id, i+1))
				return
			}
		}
		p.descend(t, w, child, height-1, key, next, bufs)
	}
}

// leaf visits the entries of a leaf page.
func (w walker) leaf(name string, g *page, low, high []byte) {
	var last []byte
	// Check the whole page before trusting any entry.
	for i := range g.count {
		key, _, bucket, ok := g.leaf(i)
		if !ok {
			w.bad(corrupt("bucket %.40q: page %d: element %d is bad", name, g.id, i))
			return
		}
		if bucket && name != partRoot { // bbolt would follow it, wherever it leads
			w.bad(corrupt("bucket %.40q: page %d: element %d says that it is a bucket", name, g.id, i))
			return
		}
		if last != nil && bytes.Compare(key, last) <= 0 || low != nil && bytes.Compare(key, low) < 0 ||
			high != nil && bytes.Compare(key, high) >= 0 {
			w.bad(corrupt("bucket %.40q: page %d: element %d is out of order", name, g.id, i))
			return
		}
		last = key
	}
	if w.entry == nil {
		return
	}
	for i := range g.count {
		key, value, bucket, _ := g.leaf(i)
		w.entry(key, value, bucket)
	}
}

// free checks the list of free pages: bbolt would overwrite the pages in it.
func (p *pager) free() error {
	if p.meta.freelist == noFreelist {
		return nil
	}
	g, _, err := p.read(p.meta.freelist, nil)
	if err != nil {
		return fmt.Errorf("freelist: %w", err)
	}
	if g.flags != flagFreelist {
		return corrupt("freelist: page %d has flags %#x", g.id, g.flags)
	}
	if !p.mark(g.id, g.overflow+1) {
		return corrupt("freelist: page %d is used twice", g.id)
	}
	ids := g.b[pageHeader:]
	count := uint64(g.count)
	if g.count == 0xFFFF {
		count, ids = native.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return corrupt("freelist: %d entries do not fit", count)
	}
	last := uint64(1)
	for i := range count {
		id := native.Uint64(ids[8*i:])
		if id <= last || !p.mark(id, 1) {
			return corrupt("freelist: page %d is in use, out of order or does not exist", id)
		}
		last = id
	}
	return nil
}

// inspect checks all pages that lead to others, and the leaves too if leaves is set. It
// calls bad for every error, with the name of the bucket, partRoot or partFree.
func (p *pager) inspect(leaves bool, bad func(bucket string, err error)) []tree {
	clear(p.seen)
	trees, err := p.trees()
	if err != nil {
		bad(partRoot, err)
		return trees
	}
	for _, t := range trees {
		p.walk(t, walker{leaves: leaves, bad: func(err error) { bad(t.name, err) }})
	}
	if err := p.free(); err != nil {
		bad(partFree, err)
	}
	return trees
}

// scan calls entry for all entries of a bucket, in order, and bad for pages
// whose entries cannot be read.
func (p *pager) scan(t tree, entry func(key, value []byte), bad func(error)) {
	clear(p.seen)
	p.walk(t, walker{entry: func(k, v []byte, _ bool) { entry(k, v) }, bad: bad})
}
