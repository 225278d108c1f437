package main

import "slices"

// strangers lists the processes that do not descend from our parent, evotune. It
// lists none when we are not among the processes ourselves: then their numbers
// are those of another namespace and mean nothing here.
func strangers(pids []int, own int, parent func(int) int) []int {
	if !slices.Contains(pids, own) {
		return nil
	}
	head := parent(own)
	var list []int
	for _, pid := range pids {
		related := false
		for p, k := pid, 0; p > 1 && k < 64 && !related; k++ {
			related = p == own || p == head
			p = parent(p)
		}
		if !related && !slices.Contains(list, pid) {
			list = append(list, pid)
		}
	}
	return list
}
