package main

import (
	"fmt"
	"testing"
)

// shelved is a shelf with things of some bytes each, used by the requests 1, 2, ...
func shelved(n int, bytes, budget int64) (s *shelf, freed *[]string) {
	made := newShelf()
	s, freed = &made, &[]string{}
	s.budget = budget
	for i := range n {
		key := fmt.Sprint(i + 1)
		s.kept[key] = &keep{bytes: bytes, used: uint64(i + 1), free: func() { *freed = append(*freed, key) }}
		s.held += bytes
	}
	return s, freed
}

func TestEvict(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		bytes  int64 // of each
		more   int64
		unused uint64
		given  int
		oldest string // of those that stay
		any    bool
	}{
		{"room", 5, 10, 50, 100, 0, "1", false},
		{"too many bytes", 5, 10, 65, 100, 2, "3", true},
		{"in use", 5, 10, 65, 2, 1, "2", true},
		{"all in use", 5, 10, 65, 1, 0, "1", false},
		{"too many small things", mostKept, 0, 0, mostKept + 1, 1, "2", true},
		{"far too many", mostKept + 7, 0, 0, mostKept + 8, 8, "9", true},
		{"too many small things, all in use", mostKept, 0, 0, 1, 0, "1", false},
		{"one less", mostKept - 1, 0, 0, mostKept, 0, "1", false},
	} {
		s, freed := shelved(c.n, c.bytes, 100)
		if got := s.evict(c.more, c.unused); got != c.any || len(*freed) != c.given || len(s.kept) != c.n-c.given || s.kept[c.oldest] == nil {
			t.Errorf("%s: %v, gave up %d, %d are left", c.name, got, len(*freed), len(s.kept))
		}
		if s.held != int64(len(s.kept))*c.bytes {
			t.Errorf("%s: %d bytes are held", c.name, s.held)
		}
	}
}

// TestFind: what was used last is given up last.
func TestFind(t *testing.T) {
	s, freed := shelved(3, 10, 30)
	s.kept["1"].value = "a kept thing"
	if v := s.find("1", 4); v != "a kept thing" {
		t.Errorf("found %v", v)
	}
	if v := s.find("none", 4); v != nil {
		t.Errorf("found %v where nothing is kept", v)
	}
	if s.evict(10, 5); len(*freed) != 1 || (*freed)[0] != "2" {
		t.Errorf("gave up %v, want 2: 1 was used later", *freed)
	}
}
