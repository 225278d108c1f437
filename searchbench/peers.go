package searchbench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/evotune/evotune/internal/strict"
)

// Peers are the scores of other programs' strategies: by strategy, then by the
// name of the space.
type Peers map[string]map[string]Peer

// A Peer is the score of one strategy on one space.
type Peer struct {
	Repeats int     `json:"repeats"`
	PIso    float64 `json:"P_iso"`
	PMean   float64 `json:"P_mean"`
	PSE     float64 `json:"P_se"` // the standard error of PMean
}

// ReadPeers reads scores as JSON. Unknown fields are ignored.
func ReadPeers(r io.Reader) (Peers, error) {
	var p Peers
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if err := strict.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("not scores by strategy and space: %w", err)
	}
	return p, nil
}

// A Rank is a line of a league: the mean of a strategy over spaces.
type Rank struct {
	Strategy string   `json:"strategy"`
	Ours     bool     `json:"ours"`
	Spaces   int      `json:"spaces"` // number of compared spaces that it was scored on
	Repeats  int      `json:"repeats"`
	PIso     Estimate `json:"p_iso"` // without an error for peers
	PMean    Estimate `json:"p_mean"`
	// WorstIso and WorstMean are the spaces with the lowest figures.
	WorstIso  Worst `json:"worst_iso"`
	WorstMean Worst `json:"worst_mean"`
}

// League ranks the strategies of a comparison, with the first window, together with
// those of others on the same spaces, by P_iso, the best first. Peers without a score
// on any of the spaces are left out.
func (c *Comparison) League(peers Peers) []Rank {
	var out []Rank
	repeats := 0
	for _, cell := range c.Scores {
		repeats = max(repeats, cell.Runs)
	}
	for _, m := range c.Means {
		if m.LossIso == nil {
			out = append(out, Rank{
				Strategy: m.Strategy, Ours: true, Spaces: m.Spaces, Repeats: repeats,
				PIso: m.PIso, PMean: m.PMean, WorstIso: m.WorstIso, WorstMean: m.WorstMean,
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		r := Rank{Strategy: name, WorstIso: Worst{Value: math.Inf(1)}, WorstMean: Worst{Value: math.Inf(1)}}
		for _, s := range c.Spaces {
			p, ok := peers[name][s.Space]
			if !ok {
				continue
			}
			r.Spaces++
			r.Repeats = max(r.Repeats, p.Repeats)
			r.PIso = r.PIso.plus(Estimate{Value: p.PIso})
			r.PMean = r.PMean.plus(Estimate{p.PMean, p.PSE})
			r.WorstIso.consider(s.Space, p.PIso)
			r.WorstMean.consider(s.Space, p.PMean)
		}
		if r.Spaces == 0 {
			continue
		}
		n := float64(r.Spaces)
		r.PIso, r.PMean = r.PIso.over(n), r.PMean.over(n)
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b Rank) int { return cmp.Compare(b.PIso.Value, a.PIso.Value) })
	return out
}
