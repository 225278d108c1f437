package store

import (
	"fmt"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestOtherFormat: a file of another version is refused in one line that says both versions and what to do.
func TestOtherFormat(t *testing.T) {
	for _, c := range []struct {
		format byte
		advice string
	}{
		{formatVersion + 3, "upgrade evotune"},
		{formatVersion - 1, "convert it with `go run ./scripts/convertstore OLD NEW` in evotune's sources"},
		{1, "convert it with `go run ./scripts/convertstore OLD NEW` in evotune's sources"},
	} {
		path := storeOf(t, filepath.Join(t.TempDir(), "evotune.db"), started("one"))
		edit(t, path, func(tx *bolt.Tx) error {
			for _, name := range bucketsMoved { // stores before the first archive did not have them
				if err := tx.DeleteBucket(name); err != nil {
					return err
				}
			}
			return tx.Bucket(bucketMeta).Put(keyFormat, []byte{c.format})
		})
		want := fmt.Sprintf("store %s: written in another format: it has format %d and this evotune reads %d: %s", path, c.format, formatVersion, c.advice)
		_, writing := Open(path, Options{})
		_, reading := Open(path, Options{ReadOnly: true})
		_, checked := Check(path, Options{})
		_, repaired := Repair(path, Options{})
		_, merged := Merge(t.Context(), filepath.Join(t.TempDir(), "into.db"), []string{path}, Options{})
		for _, err := range []error{writing, reading, checked, repaired, merged} {
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}
