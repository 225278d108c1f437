package evotune

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/ask"
	"github.com/evotune/evotune/store"
)

// A Selection is a condition over the candidates of a store.
type Selection struct {
	// Where is an expression over the fields of a candidate; docs/ask.md lists them.
	Where string
	// Kernel and Campaign, if not empty, limit it to the candidates of one kernel or
	// campaign; a campaign by its ID or a unique beginning of it.
	Kernel, Campaign string
	// Sort is a field, or genome.NAME: the smallest first or, with a "-" before it,
	// the largest. Empty keeps the order of the log.
	Sort string
	// Limit is the largest number of candidates to return. Zero means all.
	Limit int
	// Count asks only for the number.
	Count bool
}

// Selected is the result of a Selection.
type Selected struct {
	// Candidates are at most Limit candidates, and none with Count.
	Candidates []store.Candidate
	// Started are the opening events of the store's campaigns, by their IDs.
	Started map[string]*store.Started
	// Matched is how many candidates match, Of how many were looked at.
	Matched, Of int
	// Genes are the genes that the condition names.
	Genes []string
}

// A hit is a matching candidate, and what it is sorted by.
type hit struct {
	*store.Candidate
	key any
}

// spare is how many hits beyond the limit are kept before the surplus is dropped.
const spare = 1000

// Check says what is wrong with the condition or the order, as far as it can without a
// store. The error is an ErrInput.
func (o Selection) Check() error {
	if _, err := ask.CompileFilter(o.Where); err != nil {
		return badInput(err)
	}
	if o.Sort != "" && !o.Count {
		_, err := ask.CompileSortKey(o.Sort)
		return badInput(err)
	}
	return nil
}

// Select looks at every candidate of a store once. The error is one of the store, or
// an ErrInput.
func Select(r Reader, o Selection) (Selected, error) {
	s := Selected{Started: map[string]*store.Started{}}
	filter, err := ask.CompileFilter(o.Where)
	if err != nil {
		return s, badInput(err)
	}
	s.Genes = filter.Genes()
	var found []hit
	campaigns, err := r.Campaigns()
	if err != nil {
		return s, err
	}
	q := store.Query{Kernel: o.Kernel}
	var names []string
	for _, c := range campaigns {
		s.Started[c.ID] = &c.Started
		if !slices.Contains(names, c.Started.Kernel) {
			names = append(names, c.Started.Kernel)
		}
	}
	if o.Kernel != "" && !slices.Contains(names, o.Kernel) {
		return s, badInput(fmt.Errorf("no campaign has tuned the kernel %q: there are %s", o.Kernel, cmp.Or(strings.Join(names, ", "), "none")))
	}
	if o.Campaign != "" {
		c, err := r.Campaign(o.Campaign)
		if err != nil {
			return s, err
		}
		q.Campaign = c.ID
	}
	var key *ask.SortKey
	if o.Sort != "" && !o.Count {
		if key, err = ask.CompileSortKey(o.Sort); err != nil {
			return s, badInput(err)
		}
	}
	// sorted sorts the hits and keeps those that are wanted.
	sorted := func() {
		slices.SortStableFunc(found, func(a, b hit) int { return key.Compare(a.key, b.key) })
		if o.Limit > 0 {
			found = found[:min(len(found), o.Limit)]
		}
	}
	genes := map[string][]string{} // by campaign
	for from, more := uint64(0), true; more; more = from != 0 {
		page, next, err := r.Candidates(q, from)
		if err != nil {
			return s, err
		}
		for i := range page {
			c := &page[i]
			started := s.Started[c.Campaign]
			if started == nil {
				continue // the campaign was started meanwhile
			}
			s.Of++
			if genes[c.Campaign] == nil {
				genes[c.Campaign] = geneNames(c.Asked.Genome)
			}
			ok, err := filter.Match(c, started)
			if err != nil {
				return s, badInput(err)
			}
			h := hit{Candidate: c}
			if key != nil && (ok || !key.Known()) {
				if h.key, err = key.Value(c, started); err != nil {
					return s, badInput(err)
				}
			}
			if !ok {
				continue
			}
			s.Matched++
			if !o.Count && (key != nil || o.Limit == 0 || len(found) < o.Limit) {
				found = append(found, h)
			}
		}
		if key != nil && o.Limit > 0 && len(found) > o.Limit+spare {
			sorted()
		}
		from = next
	}
	if s.Of > 0 {
		var have []string
		for _, g := range genes {
			have = append(have, g...)
		}
		slices.Sort(have)
		have = slices.Compact(have)
		if err := filter.CheckGenes(have); err != nil {
			return s, badInput(err)
		}
		if key != nil {
			if err := key.CheckGenes(have); err != nil {
				return s, badInput(err)
			}
		}
	}
	if key != nil {
		sorted()
	}
	for _, h := range found {
		s.Candidates = append(s.Candidates, *h.Candidate)
	}
	return s, nil
}

func geneNames(encoding string) []string {
	names := []string{}
	for name := range genome.Plain(encoding) {
		names = append(names, name)
	}
	return names
}
