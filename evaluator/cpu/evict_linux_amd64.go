package cpu

import (
	"slices"
	"strings"
	"sync"
)

// evictLines writes the lines of b back to memory and takes them out of the caches of
// all cores. Weak lets the processor do so in any order, which is faster where it can.
func evictLines(b []byte, weak bool)

var canEvictWeakly = sync.OnceValue(func() bool {
	return slices.Contains(strings.Fields(cpuInfo()["flags"]), "clflushopt")
})

// evict takes b out of all caches.
func evict(b []byte) { evictLines(b, canEvictWeakly()) }
