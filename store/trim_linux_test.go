package store

import (
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// What was read of the map does not stay resident, and is read again.
func TestTrim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	if err := os.WriteFile(path, treeStore(t), 0o644); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, Options{})
	want, err := takeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	err = s.view(func(tx *bolt.Tx) error {
		before := mapped()
		trim(tx, before+1)
		if now := mapped(); now < before {
			t.Errorf("%d bytes were resident, %d are: they were not too many", before, now)
		}
		trim(tx, 0)
		if now := mapped(); now > before-int(tx.Size())/4 {
			t.Errorf("%d bytes were resident, %d are, of a file of %d", before, now, tx.Size())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := takeSnapshot(s)
	if err != nil || len(got.Events) != len(want.Events) {
		t.Errorf("%d events, %d before: %v", len(got.Events), len(want.Events), err)
	}
}
