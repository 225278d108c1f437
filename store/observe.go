package store

import "time"

// Observe sets a function that is told how long each transaction of Append took until it
// was durable, or had failed. The next transaction waits for f, so f must be fast. Nil
// removes it.
func (s *Store) Observe(f func(commit time.Duration)) {
	if f == nil {
		s.observer.Store(nil)
		return
	}
	s.observer.Store(&f)
}

func (s *Store) observe(began time.Time) {
	if f := s.observer.Load(); f != nil {
		(*f)(time.Since(began))
	}
}

// Writable says why nothing can be appended (any more); nil if, as far as is known, Append
// can succeed.
func (s *Store) Writable() error {
	if s.readOnly {
		return s.wrap(ErrReadOnly)
	}
	if err := s.failed(); err != nil {
		return s.wrap(err)
	}
	return nil
}
