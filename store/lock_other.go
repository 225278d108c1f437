//go:build !unix || solaris || aix

package store

import (
	"os"
	"time"
)

// lock leaves locking to bbolt, which knows how to do it on this system; the
// check of the file before that is then not protected from a writer.
func lock(*os.File, bool, time.Duration) error { return nil }

func unlock(*os.File) {}

// canMap returns false: a map may make the file as long as itself.
func canMap(*os.File, int64) bool { return false }
