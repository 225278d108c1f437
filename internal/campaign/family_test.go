package campaign

import (
	"testing"
	"time"

	"github.com/evotune/evotune/internal/record"
)

// member is one whose results came every ten seconds, the last part of them from the
// result number part.
func member(part int, rested bool, fitness ...float64) Member {
	m := Member{Begun: true, Rested: rested, Evaluated: len(fitness), part: part}
	for i, f := range fitness {
		m.results = append(m.results, point{f, time.Duration(i+1) * 10 * time.Second})
	}
	m.Searched = time.Duration(len(fitness)) * 10 * time.Second
	m.Spent = m.Searched
	m.Budget.Evaluations = len(fitness)
	return m
}

func TestNextPart(t *testing.T) {
	evaluations := func(n int) record.Budget { return record.Budget{Evaluations: n} }
	flat := member(0, true, 0.5, 0.5, 0.5, 0.5)
	gained := member(0, true, 0.9, 0.9, 0.9, 0.6)
	less := member(0, true, 0.9, 0.9, 0.9, 0.8)
	torn := member(0, false, 0.5, 0.5)
	torn.Budget.Evaluations = 4
	spent := gained
	spent.Exhausted = true
	slow := gained // the same gain, in ten times the time
	slow.results = nil
	for i, p := range gained.results {
		slow.results = append(slow.results, point{p.fitness, time.Duration(i+1) * 100 * time.Second})
	}
	slow.Searched, slow.Spent = 400*time.Second, 400*time.Second
	for name, c := range map[string]struct {
		members []Member
		order   []int
		budget  record.Budget
		lost    time.Duration // in the first one, to preparing
		want    int           // -1: nothing
		until   record.Budget
		why     string
	}{
		"begins in the given order":  {[]Member{{}, {}, {}}, []int{1, 0, 2}, evaluations(24), 0, 1, evaluations(4), "first round, 1 of 3"},
		"then its next":              {[]Member{{}, flat, {}}, []int{1, 0, 2}, evaluations(24), 0, 0, evaluations(4), "first round, 2 of 3"},
		"the most gain":              {[]Member{flat, less, gained}, []int{0, 1, 2}, evaluations(24), 0, 2, evaluations(8), "its last 2 evaluations gained 50.0%, the most"},
		"no more than is left":       {[]Member{flat, less, gained}, []int{0, 1, 2}, evaluations(13), 0, 2, evaluations(5), "its last 2 evaluations gained 50.0%, the most"},
		"what was interrupted":       {[]Member{flat, torn, gained}, []int{0, 1, 2}, evaluations(24), 0, 1, evaluations(4), "it was interrupted"},
		"nobody gained":              {[]Member{flat, flat, member(0, true, 0.5, 0.5)}, []int{0, 1, 2}, evaluations(24), 0, 2, evaluations(6), "nothing gained lately, and it had least"},
		"nobody gained, all alike":   {[]Member{flat, flat}, []int{1, 0}, evaluations(16), 0, 1, evaluations(8), "nothing gained lately, and it had least"},
		"nothing is left of a space": {[]Member{flat, spent}, []int{0, 1}, evaluations(16), 0, 0, evaluations(8), "nothing gained lately, and it had least"},
		"all spaces":                 {[]Member{spent, spent}, []int{0, 1}, evaluations(16), 0, -1, record.Budget{}, ""},
		"the budget is spent":        {[]Member{flat, gained}, []int{0, 1}, evaluations(8), 0, -1, record.Budget{}, ""},
		"no valid candidate yet":     {[]Member{member(0, true, 0, 0, 0, 0), less}, []int{0, 1}, evaluations(16), 0, 1, evaluations(8), "its last 2 evaluations gained 12.5%, the most"},
		"its first valid candidates": {[]Member{flat, member(0, true, 0, 0, 0, 0.9)}, []int{0, 1}, evaluations(16), 0, 1, evaluations(8), "its first valid candidates came in its last 2 evaluations"},
		"gain for its time":          {[]Member{slow, less}, []int{0, 1}, record.Budget{Time: 800 * time.Second}, 0, 1, record.Budget{Time: 240 * time.Second}, "its last 2 evaluations gained 12.5%, the most"},
		"gain for an evaluation":     {[]Member{slow, less}, []int{0, 1}, evaluations(16), 0, 0, evaluations(8), "its last 2 evaluations gained 50.0%, the most"},
		"time lost to preparing":     {[]Member{flat, gained}, []int{0, 1}, record.Budget{Time: 120 * time.Second}, 20 * time.Second, 1, record.Budget{Time: 60 * time.Second}, "its last 2 evaluations gained 50.0%, the most"},
		"preparing takes much":       {[]Member{flat, {}, {}}, []int{0, 1, 2}, record.Budget{Time: 120 * time.Second}, 20 * time.Second, 1, record.Budget{Time: 10 * time.Second}, "first round, 2 of 3"},
		"nobody is left out":         {[]Member{flat, gained, {}}, []int{0, 1, 2}, record.Budget{Time: 80 * time.Second}, 60 * time.Second, 2, record.Budget{Time: time.Second}, "first round, 3 of 3"},
		"too little time":            {[]Member{flat, gained}, []int{0, 1}, record.Budget{Time: 100 * time.Second}, 10 * time.Second, -1, record.Budget{}, ""},
	} {
		c.members[0].Prepared = c.lost
		p, more := NextPart(c.members, c.order, c.budget)
		switch {
		case more != (c.want >= 0):
			t.Errorf("%s: more is %v", name, more)
		case more && (p.Member != c.want || p.Budget != c.until || p.Why != c.why):
			t.Errorf("%s: member %d until %+v: %s", name, p.Member, p.Budget, p.Why)
		}
	}
}

// A part that was interrupted counts as one with what goes on.
func TestRecentOfPart(t *testing.T) {
	m := member(2, true, 0.9, 0.5, 0.5, 0.4)
	if factor, n, took := m.recent(); factor != 1.25 || n != 1 || took != 10*time.Second {
		t.Errorf("the newest part gained %v in %d evaluations, %s", factor, n, took)
	}
	m.part = 4
	if factor, n, _ := m.recent(); factor != 1 || n != 0 {
		t.Errorf("a part without results gained %v in %d evaluations", factor, n)
	}
}
