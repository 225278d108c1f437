package search

import "github.com/evotune/evotune/genome"

// Hillclimb descends from a random genome: it proposes the neighbors of the current one
// in random order, moves to the first that is better, and starts again from a new
// random genome when no neighbor is better.
//
// With a window of W the outcomes arrive W proposals late. Meanwhile the other
// neighbors of the current genome are proposed; when all are in flight, so is
// the next random start, from which the climb continues only if the current one
// is a local optimum.
type Hillclimb struct {
	*ledger
	current int             // entry; -1 before the first outcome
	around  []genome.Genome // neighbors of current that are not proposed yet
	waiting int             // neighbors of current that are not told yet
	base    map[int]int     // proposed neighbor -> the entry it is a neighbor of
	starts  []int           // random starts not climbed from yet, in order
}

func newHillclimb(l *ledger) Strategy {
	h := &Hillclimb{ledger: l, current: -1, base: map[int]int{}}
	for i := range l.entries {
		if h.current < 0 && l.entries[i].ok || h.current >= 0 && l.entries[i].better(&l.entries[h.current]) {
			h.current = i
		}
	}
	if h.current >= 0 {
		h.climb(h.current)
	}
	return h
}

// climb makes an entry the current one.
func (h *Hillclimb) climb(from int) {
	h.current, h.waiting = from, 0
	h.around = h.space.Neighbours(h.entries[from].genome)
	h.rng.Shuffle(len(h.around), func(i, j int) { h.around[i], h.around[j] = h.around[j], h.around[i] })
}

// Ask proposes a neighbor of the current genome, or a new start.
func (h *Hillclimb) Ask() (Proposal, bool) {
	if g, ok := h.warm(); ok {
		return h.begin(g, opWarm), true
	}
	for len(h.around) > 0 {
		g := h.around[len(h.around)-1]
		h.around = h.around[:len(h.around)-1]
		if h.isSpent(g) {
			continue
		}
		p := h.propose(g, opLocal, h.current)
		h.base[h.known+p.Index] = h.current
		h.waiting++
		return p, true
	}
	g, ok := h.fresh()
	if !ok {
		return Proposal{}, false
	}
	return h.begin(g, opRandom), true
}

// begin proposes a genome to climb from.
func (h *Hillclimb) begin(g genome.Genome, operator string) Proposal {
	p := h.propose(g, operator)
	h.starts = append(h.starts, h.known+p.Index)
	return p
}

// Tell moves to a better neighbor, or to the next start when the current
// genome has no better one.
func (h *Hillclimb) Tell(index int, o Outcome) {
	i := h.record(index, o)
	base, neighbour := h.base[i]
	delete(h.base, i)
	if neighbour && base == h.current {
		h.waiting--
		if h.entries[i].better(&h.entries[h.current]) {
			h.climb(i)
			return
		}
	}
	if h.current < 0 || len(h.around) == 0 && h.waiting == 0 {
		h.restart()
	}
}

// restart climbs from the oldest start whose outcome is known. Starts that
// failed are skipped.
func (h *Hillclimb) restart() {
	for len(h.starts) > 0 && h.entries[h.starts[0]].told {
		s := h.starts[0]
		h.starts = h.starts[1:]
		if h.entries[s].ok {
			h.climb(s)
			return
		}
	}
}
