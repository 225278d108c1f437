package search

// Random proposes valid genomes uniformly, without replacement. Every other strategy is
// measured against it.
type Random struct{ *ledger }

func newRandom(l *ledger) Strategy { return &Random{l} }

// Ask draws a genome that was not proposed yet.
func (r *Random) Ask() (Proposal, bool) {
	if g, ok := r.warm(); ok {
		return r.propose(g, opWarm), true
	}
	g, ok := r.fresh()
	if !ok {
		return Proposal{}, false
	}
	return r.propose(g, opRandom), true
}

// Tell notes the outcome; it changes nothing.
func (r *Random) Tell(index int, o Outcome) { r.record(index, o) }
