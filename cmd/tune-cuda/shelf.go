package main

import (
	"maps"
	"slices"
)

// A shelf is what stays in device memory for longer than a request, by keys.
type shelf struct {
	kept   map[string]*keep
	held   int64 // bytes of all that is kept
	budget int64 // how much may be
}

// A keep is a thing on a shelf.
type keep struct {
	value any
	bytes int64
	used  uint64 // the request that used it last
	free  func()
}

// mostKept bounds how many things are kept, whatever they take: every candidate of a search
// may have inputs of its own size under a tool, and thousands of small ones take more than
// their bytes, of the driver's memory and of the tool's.
const mostKept = 1024

func newShelf() shelf { return shelf{kept: map[string]*keep{}} }

// evict makes room for one thing more, of so many bytes, as far as it can; it says whether
// it gave anything up. Nothing is given up that a request from unused on has used.
func (s *shelf) evict(bytes int64, unused uint64) bool {
	any := false
	for s.held+bytes > s.budget || len(s.kept) >= mostKept {
		oldest, found := "", false
		for _, key := range slices.Sorted(maps.Keys(s.kept)) {
			if s.kept[key].used < unused && (!found || s.kept[key].used < s.kept[oldest].used) {
				oldest, found = key, true
			}
		}
		if !found {
			break
		}
		s.forget(oldest)
		any = true
	}
	return any
}

// find returns what is kept under a key, nil for nothing, and notes that a request uses it.
func (s *shelf) find(key string, request uint64) any {
	k := s.kept[key]
	if k == nil {
		return nil
	}
	k.used = request
	return k.value
}

func (s *shelf) forget(key string) {
	k := s.kept[key]
	k.free()
	s.held -= k.bytes
	delete(s.kept, key)
}
