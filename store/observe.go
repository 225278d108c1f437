package store

import "time"

// Observe has f told how long each transaction of Append took until it was durable, or had
// failed. It is called while the next one waits, so it must be quick. Nil ends it.
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

// Writable says why nothing can be appended (any more); nil when it can, as far as is known.
func (s *Store) Writable() error {
	if s.readOnly {
		return s.wrap(ErrReadOnly)
	}
	if err := s.failed(); err != nil {
		return s.wrap(err)
	}
	return nil
}
