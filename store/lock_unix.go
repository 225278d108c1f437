//go:build unix && !solaris && !aix

package store

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lockPoll is how long a process waits between two attempts to get the lock.
const lockPoll = 10 * time.Millisecond

// lock takes the same advisory lock that bbolt takes, on the same open file, so
// that the file can be checked before bbolt maps it. bbolt's own attempt then
// succeeds at once.
func lock(f *os.File, shared bool, timeout time.Duration) error {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	deadline := time.Now().Add(timeout)
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return err
		case time.Now().After(deadline):
			return ErrLocked
		}
		time.Sleep(lockPoll)
	}
}

// canMap says whether size bytes of a file can be mapped, more than it has. A limit on
// the address space may forbid it.
func canMap(f *os.File, size int64) bool {
	b, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return false
	}
	return syscall.Munmap(b) == nil
}

// unlock releases the lock even if the file stays mapped: a map keeps the
// open file alive, and with it the lock, after f is closed.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
