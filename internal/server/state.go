package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/evotune/evotune/store"
)

// State is what a service knows besides its store: which campaigns were submitted and what
// is wanted of them, tokens, keys of idempotent requests, operations, uploaded kernels,
// the audit log. It is
// a file of its own, with mode 0600: a store may be copied, merged and given away, and
// must hold nobody's credentials; and a store is only ever appended to.
type state struct {
	db      *bbolt.DB
	touched func() // called before each change; nil but in tests
}

// The buckets of a state.
const (
	jobsBucket    = "jobs"
	tokensBucket  = "tokens"
	keysBucket    = "keys"
	opsBucket     = "operations"
	auditBucket   = "audit"
	probeBucket   = "probe" // is written to see whether the disk can be
	kernelsBucket = "kernels"
	workersBucket = "workers" // hashes of their secrets
	drainedBucket = "drained" // workers, and why
	knownBucket   = "known"   // workers that have enrolled and not left, or were refused
)

func openState(path string) (*state, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 500 * time.Millisecond})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("%s: %w", path, store.ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("open the service's state: %w", err)
	}
	s := &state{db: db}
	err = errors.Join(os.Chmod(path, 0o600), db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{jobsBucket, tokensBucket, keysBucket, opsBucket, auditBucket, probeBucket, kernelsBucket, workersBucket, drainedBucket, knownBucket} {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	}))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *state) Close() error { return s.db.Close() }

// change does several things in one transaction, which is durable when it returns nil.
// Where there is no room for it, the error is a store.ErrFull.
func (s *state) change(f func(tx *bbolt.Tx) error) error {
	if s.touched != nil {
		s.touched()
	}
	err := s.db.Update(f)
	return cmp.Or(store.Full(err), err)
}

// put keeps a value under a key.
func put(tx *bbolt.Tx, bucket, key string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return tx.Bucket([]byte(bucket)).Put([]byte(key), b)
}

// get reads the value under a key; false when there is none.
func get[T any](tx *bbolt.Tx, bucket, key string) (v T, ok bool, err error) {
	b := tx.Bucket([]byte(bucket)).Get([]byte(key))
	if b == nil {
		return v, false, nil
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return v, false, fmt.Errorf("the service's state: %s %q: %w", bucket, key, err)
	}
	return v, true, nil
}

// all reads the values of a bucket, by their keys.
func all[T any](s *state, bucket string) (list []T, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucket)).ForEach(func(k, b []byte) error {
			var v T
			if err := json.Unmarshal(b, &v); err != nil {
				return fmt.Errorf("the service's state: %s %q: %w", bucket, k, err)
			}
			list = append(list, v)
			return nil
		})
	})
	return list, err
}
