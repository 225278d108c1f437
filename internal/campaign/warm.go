package campaign

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/ask"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// DefaultWarmStart is how many genomes WarmStart gives when it is asked for no
// number: as many as are proposed before the first result is told.
const DefaultWarmStart = DefaultWindow

// winnersPerCampaign is how many candidates of one campaign WarmStart looks at:
// its usual finalists. Those that took more than runnerUp of the first one's time
// are not winners.
const (
	winnersPerCampaign = 4
	runnerUp           = 1.1
)

// WarmStart gives at most limit genomes to start a campaign with: the winners of
// earlier campaigns of the same kernel on the same backend, the nearest
// campaign's first. Nearness goes by the device, then by the shapes:
//
//   - devices by the rules of [ask.CompareDevices], those that it calls other
//     ones last;
//   - the distance of two campaigns is the mean over the new one's shapes of the
//     distance to the nearest of the old one's, by [ask.Nearest]. A shape that dims does
//     not know is farther than all others;
//   - of equals the newest comes first.
//
// Of each campaign come the winner of its finals, then the other finalists;
// without finals its best; four at most, and none that took over 1.1 times as long
// as the first. All campaigns give their first before any gives its second.
//
// A genome is carried over by the names and values of its genes. Where an ordinal
// gene lacks a value, it gets the nearest (by ratio); a genome that is not valid
// then, or is of an implementation that is not searched, is left out.
//
// Nothing else is carried over: the genomes are evaluated like any others. Of here
// only backend, device and implementations are looked at. dims gives the dimensions of
// a shape by its name, or nil.
func WarmStart(s *store.Store, space *genome.Space, here evaluator.Description, cfg record.Job, dims func(shape string) map[string]int64, limit int) ([]record.Start, error) {
	all, err := s.Campaigns()
	if err != nil {
		return nil, err
	}
	return WarmStartFrom(s, all, space, here, cfg, dims, limit)
}

// WarmStartFrom is WarmStart with the winners of some campaigns alone, which are in the
// order of the log.
func WarmStartFrom(s *store.Store, all []store.Campaign, space *genome.Space, here evaluator.Description, cfg record.Job, dims func(shape string) map[string]int64, limit int) (_ []record.Start, err error) {
	var near []neighbour
	for _, c := range slices.Backward(all) { // the newest first
		if c.Started.Kernel != cfg.Kernel || c.Started.Backend != here.Backend || c.Best == nil {
			continue
		}
		if c, err = s.Campaign(c.ID); err != nil { // with its description
			return nil, err
		}
		n := neighbour{Campaign: c, distance: shapesDistance(cfg.Shapes, c.Started.Shapes, dims)}
		if n.there, err = record.ReadDescription(c.ID, &c.Started); err != nil {
			continue // a campaign that cannot be read is no help, and no harm
		}
		n.rule = ask.CompareDevices(here.Device, n.there.Device)
		near = append(near, n)
	}
	slices.SortStableFunc(near, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.distance, b.distance))
	})
	var out []record.Start
	seen := map[genome.Genome]bool{}
	for rank := range winnersPerCampaign {
		for i := range near {
			if len(out) >= limit {
				return out, nil
			}
			n := &near[i]
			w, err := n.winner(s, rank)
			if err != nil {
				return nil, err
			}
			if w == nil {
				continue
			}
			g, ok := carryOver(space, w.Asked.Genome, n.there.Implementations, here.Implementations)
			if !ok || seen[g] {
				continue
			}
			seen[g] = true
			out = append(out, record.Start{
				Genome: g.String(), Candidate: w.ID, Campaign: n.ID, Shapes: n.Started.Shapes, Device: n.Started.Name,
			})
		}
	}
	return out, nil
}

// Named gives the genomes that definitions name to start with, and that are valid here
// and not in list, as far as they are searched. It returns list with them at its end.
func Named(space *genome.Space, here evaluator.Description, list []record.Start, implementations []*kernels.Implementation) []record.Start {
	for _, im := range implementations {
		for _, encoding := range im.Starts {
			g, ok := carryOver(space, encoding, []string{im.Name}, here.Implementations)
			if ok && !slices.ContainsFunc(list, func(s record.Start) bool { return s.Genome == g.String() }) {
				list = append(list, record.Start{Genome: g.String()})
			}
		}
	}
	return list
}

// A neighbour is an earlier campaign.
type neighbour struct {
	store.Campaign
	there    evaluator.Description
	rule     ask.DeviceRule
	distance float64
	winners  []store.Candidate // once they were asked for
}

// winner is the candidate of that rank, or nil.
func (n *neighbour) winner(s *store.Store, rank int) (*store.Candidate, error) {
	if n.winners == nil {
		best, err := s.Best(store.Query{Campaign: n.ID, Limit: winnersPerCampaign})
		if err != nil {
			return nil, err
		}
		if f := n.Finals; f != nil && f.Winner != "" {
			best = best[:0]
			for _, id := range append([]string{f.Winner}, f.Finalists...) {
				c, err := s.Candidate(id)
				if err != nil {
					return nil, err
				}
				if len(best) == 0 || id != f.Winner {
					best = append(best, c)
				}
			}
		}
		n.winners = slices.DeleteFunc(best, func(c store.Candidate) bool { return c.Told.Fitness > runnerUp*best[0].Told.Fitness })
	}
	if rank >= len(n.winners) {
		return nil, nil
	}
	return &n.winners[rank], nil
}

// shapesDistance is how far the shapes of an earlier campaign are from those of
// a new one.
func shapesDistance(now, then []string, dims func(string) map[string]int64) float64 {
	sum := 0.0
	for _, shape := range now {
		_, distance := ask.Nearest(shape, dims(shape), then, dims)
		sum += distance
	}
	return sum / float64(max(1, len(now)))
}

// carryOver makes a genome of space from the encoding of one from elsewhere.
// The implementations are those that were, and are, searched.
func carryOver(space *genome.Space, encoding string, then, now []string) (genome.Genome, bool) {
	values, err := genome.Decode(encoding)
	if err != nil {
		return genome.Genome{}, false
	}
	// The choice is a gene only where there is one.
	if _, ok := values[kernels.ImplementationGene]; !ok && len(then) == 1 {
		values[kernels.ImplementationGene] = genome.Str(then[0])
	}
	genes := space.Genes()
	if genes[0].Name != kernels.ImplementationGene && len(now) == 1 && values[kernels.ImplementationGene] != genome.Str(now[0]) {
		return genome.Genome{}, false
	}
	own := map[string]any{}
	for _, g := range genes {
		if v, ok := values[g.Name]; ok {
			own[g.Name] = nearestValue(g, v)
		}
	}
	g, err := space.FromMap(own)
	return g, err == nil
}

// nearestValue is the value of an ordinal gene that is nearest to v: by ratio
// where both are positive, by difference otherwise. It is v itself where there is
// none to choose.
func nearestValue(g genome.Gene, v genome.Value) genome.Value {
	x, ok := v.Number()
	if !g.Ordinal || !ok || slices.Contains(g.Values, v) {
		return v
	}
	best, least := v, math.Inf(1)
	for _, w := range g.Values {
		y, ok := w.Number()
		if !ok {
			return v
		}
		d := math.Abs(x - y)
		if x > 0 && y > 0 {
			d = math.Abs(math.Log(x / y))
		}
		if d < least {
			best, least = w, d
		}
	}
	return best
}

// starts reads the genomes to start with, and notes where they come from.
func (r *runner) starts() ([]genome.Genome, error) {
	out := make([]genome.Genome, len(r.cfg.Start))
	for i, s := range r.cfg.Start {
		g, err := r.problem.Space.Parse(s.Genome)
		if err != nil {
			return nil, fmt.Errorf("campaign %s: genome %d to start with: %w", r.cfg.ID, i, err)
		}
		out[i], r.origins[g] = g, s.Candidate
	}
	return out, nil
}
