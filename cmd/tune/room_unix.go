//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// leastFree is how much of the cache's disk a worker needs, in bytes.
const leastFree = 256 << 20

// noRoom says that there is too little disk space for compiled candidates; empty when there is
// enough.
func noRoom(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		var disk syscall.Statfs_t
		err := syscall.Statfs(at, &disk)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue // it is made later
		}
		if free := int64(disk.Bavail) * int64(disk.Bsize); err == nil && free < leastFree { //nolint:unconvert // not on every system
			return fmt.Sprintf("the disk of %s is full: %d MiB are left, and %d are needed: make room, or give another --cache-dir", dir, free>>20, leastFree>>20)
		}
		return ""
	}
}
