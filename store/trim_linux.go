package store

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// trim releases the pages of the map that were read so far, when from bytes of files
// are resident. They stay in the system's cache, so the next access costs only a soft
// fault, but they no longer count as memory of this process. The system maps up to 16
// pages around each one that is read, so a few ten thousand reads all over a
// large store would otherwise make hundreds of megabytes resident. tx keeps the map
// in place.
func trim(tx *bolt.Tx, from int) {
	if mapped() < from {
		return
	}
	info := tx.DB().Info()
	// On an error the pages stay resident, which is harmless.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, info.Data, uintptr(tx.Size()), syscall.MADV_DONTNEED)
}

// mapped returns how many bytes of files are resident in this process, or 0
// when the system does not say.
func mapped() int {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(statm)) // total, resident, resident of files, ...
	if len(fields) < 3 {
		return 0
	}
	pages, err := strconv.Atoi(fields[2])
	if err != nil {
		return 0
	}
	return pages * os.Getpagesize()
}
