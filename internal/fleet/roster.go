package fleet

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"sync"
)

var workerName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// CheckWorker says what is wrong with the name of a worker. A name becomes part of what a
// transport sends to, so it has only characters that mean nothing there.
func CheckWorker(name string) error {
	if !workerName.MatchString(name) {
		return fmt.Errorf("%.80q cannot be the name of a worker: use 1 to 64 letters, digits, '-' and '_'", name)
	}
	return nil
}

// A Roster holds which workers are admitted. It knows hashes of their secrets only: who
// reads it cannot speak for a worker. It is safe for concurrent use.
type Roster struct {
	keep func(worker, hash string) error

	mu     sync.RWMutex
	hashes map[string]string
}

// NewRoster begins with the hashes of secrets, by worker, that an earlier roster had kept.
// keep makes every change durable before it counts; an empty hash means that the worker is
// expelled. A nil keep keeps nothing.
func NewRoster(hashes map[string]string, keep func(worker, hash string) error) *Roster {
	if keep == nil {
		keep = func(string, string) error { return nil }
	}
	r := &Roster{keep: keep, hashes: map[string]string{}}
	maps.Copy(r.hashes, hashes)
	return r
}

// Admit makes a secret for a worker. An older one is not valid any more. A new name beyond as many as a hub knows is
// refused: else whoever may admit workers could fill memory and disk with names.
func (r *Roster) Admit(worker string) (secret string, err error) {
	if err := CheckWorker(worker); err != nil {
		return "", err
	}
	r.mu.RLock()
	known, n := r.hashes[worker] != "", len(r.hashes)
	r.mu.RUnlock()
	if !known && n >= mostHosts {
		return "", Refusal(fmt.Sprintf("%d workers are admitted, and no more are taken: expel those that are gone", n))
	}
	secret = rand.Text()
	return secret, r.set(worker, hashOf(secret))
}

// Expel forgets a worker. It is not an error if nobody knows it.
func (r *Roster) Expel(worker string) error { return r.set(worker, "") }

func (r *Roster) set(worker, hash string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hash == r.hashes[worker] {
		return nil
	}
	if err := r.keep(worker, hash); err != nil {
		return err
	}
	if hash == "" {
		delete(r.hashes, worker)
	} else {
		r.hashes[worker] = hash
	}
	return nil
}

// Check refuses whoever does not know the secret of a worker. The time it takes does not
// depend on how much of a secret is right.
func (r *Roster) Check(worker, secret string) error {
	r.mu.RLock()
	want, ok := r.hashes[worker]
	r.mu.RUnlock()
	if same := subtle.ConstantTimeCompare([]byte(hashOf(secret)), []byte(want)) == 1; !ok || !same {
		return RefuseCredential(worker)
	}
	return nil
}

// RefuseCredential is the refusal for whoever does not know the secret of a worker.
func RefuseCredential(worker string) Refusal {
	return Refusal(fmt.Sprintf("the coordinator does not know worker %.80q by this credential: it was expelled, or admitted again; admit it and use the new one", worker))
}

// hashOf needs no salt and no slow hash: a secret is 130 random bits.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
