package main

import "slices"

// strangers counts processes that do not descend from our parent, evotune. It
// is 0 when we are not among the processes ourselves: then their numbers are
// those of another namespace and mean nothing here.
func strangers(pids []int, own int, parent func(int) int) int {
	if !slices.Contains(pids, own) {
		return 0
	}
	head := parent(own)
	n := 0
	for _, p := range pids {
		related := false
		for k := 0; p > 1 && k < 64 && !related; k++ {
			related = p == own || p == head
			p = parent(p)
		}
		if !related {
			n++
		}
	}
	return n
}
