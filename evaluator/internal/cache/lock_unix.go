//go:build unix

package cache

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock locks a folder until it is closed, or its process ends. It says whether
// it did: false when another holds it, and where folders cannot be locked.
func lock(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
