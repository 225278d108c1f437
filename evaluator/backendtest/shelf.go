package backendtest

import (
	"context"
	"sync"
)

// A Shelf keeps compiled code in memory, for labs that share it.
type Shelf struct {
	mu      sync.Mutex
	entries map[string][]byte
	hits    int
}

// Get implements share.Shelf.
func (s *Shelf) Get(_ context.Context, kind, key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[kind+key]
	if e != nil {
		s.hits++
	}
	return e
}

// Put implements share.Shelf.
func (s *Shelf) Put(_ context.Context, kind, key string, entry []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil {
		s.entries = map[string][]byte{}
	}
	s.entries[kind+key] = entry
}

// Hits is how often Get had what it was asked for.
func (s *Shelf) Hits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits
}

// Entries is how many there are.
func (s *Shelf) Entries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}
