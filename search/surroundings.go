package search

import "github.com/evotune/evotune/genome"

// surroundings caches the unspent genomes near candidates, since the search returns to
// members of a population again and again.
type surroundings struct {
	near func(genome.Genome) []genome.Genome
	// unspent holds, by entry, the result of near, without genomes that were found
	// spent.
	unspent map[int][]genome.Genome
}

// maxSurroundings bounds the candidates whose surroundings are held; beyond
// that all are forgotten. It is more than a population has members.
const maxSurroundings = 100

func newSurroundings(near func(genome.Genome) []genome.Genome) surroundings {
	return surroundings{near, map[int][]genome.Genome{}}
}

// draw returns a random unspent genome near an entry of the ledger; the zero
// Genome if there is none.
func (s *surroundings) draw(l *ledger, entry int) genome.Genome {
	list, held := s.unspent[entry]
	if !held {
		if len(s.unspent) >= maxSurroundings {
			clear(s.unspent)
		}
		list = s.near(l.entries[entry].genome)
	}
	var drawn genome.Genome
	for len(list) > 0 {
		i := l.rng.Intn(len(list))
		if !l.isSpent(list[i]) {
			drawn = list[i]
			break
		}
		list[i] = list[len(list)-1]
		list = list[:len(list)-1]
	}
	s.unspent[entry] = list
	return drawn
}
