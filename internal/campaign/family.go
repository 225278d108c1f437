package campaign

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

// A Member is a campaign of a family as the log has it. The zero Member has not begun.
type Member struct {
	Begun     bool
	Evaluated int
	// Spent is the wall time of all Phases. Budget is the newest one: one of time is for
	// the search alone (see Options.SearchOnly).
	Spent time.Duration
	record.Phases
	Budget record.Budget
	// Rested says that the search has ended by its budget, Exhausted that nothing is
	// left to be searched.
	Rested, Exhausted bool

	results []point
	part    int // where among them the newest budget begins
}

// point is the fitness of a result, 0 unless it is correct, and the search's time then.
type point struct {
	fitness float64
	at      time.Duration
}

// ReadMember reads the events of one campaign, in order.
func ReadMember(events iter.Seq2[store.Event, error]) (m Member, err error) {
	var sum record.Summary
	for e, err := range events {
		if err != nil {
			return m, err
		}
		budget := sum.Job.Budget
		if err := sum.Add(e); err != nil {
			return m, err
		}
		if sum.Job.Budget != budget {
			m.part = len(m.results)
		}
		switch e.Kind {
		case store.KindStarted:
			m.Begun = true
		case store.KindResumed:
			m.Rested = false
		case store.KindTold:
			p := point{at: sum.Phases().Searched}
			if record.Timed(e.Told) {
				p.fitness = e.Told.Fitness
			}
			m.results = append(m.results, p)
		case store.KindStopped, store.KindFinished:
			reason, searched := strings.CutPrefix(e.Note.Reason, SearchedBy)
			m.Rested = searched || e.Kind == store.KindFinished
			m.Exhausted = m.Exhausted || reason == Exhausted
		}
	}
	m.Evaluated, m.Spent, m.Phases, m.Budget = sum.Evaluated, sum.Spent(), sum.Phases(), sum.Job.Budget
	return m, nil
}

// unfinished says that a part of the search was interrupted.
func (m *Member) unfinished() bool {
	b := m.Budget
	spent := b.Evaluations > 0 && m.Evaluated >= b.Evaluations || b.Time > 0 && m.Searched >= b.Time
	return m.Begun && !m.Rested && !spent
}

// best is the best fitness of the first n results, or 0.
func (m *Member) best(n int) (best float64) {
	for _, r := range m.results[:n] {
		if r.fitness > 0 && (best == 0 || r.fitness < best) {
			best = r.fitness
		}
	}
	return best
}

// recent is by which factor the second half of the newest part made the best time
// smaller, and how many evaluations and how long that took.
func (m *Member) recent() (factor float64, evaluations int, took time.Duration) {
	n := len(m.results)
	mid := n - (n-m.part+1)/2
	before, after := m.best(mid), m.best(n)
	if n == mid || after == 0 {
		return 1, 0, 0
	}
	took = m.results[n-1].at
	if mid > 0 {
		took -= m.results[mid-1].at
	}
	if before == 0 { // it has only just found something
		return math.E, n - mid, took
	}
	return before / after, n - mid, took
}

// A Part is the next to be searched of a family: which member, until which budget, and
// why it.
type Part struct {
	Member int
	Budget record.Budget
	// More is what the budget adds, in evaluations or as a duration.
	More string
	Why  string
}

// leastTime is what preparing leaves of a first part at least: every member shall have an answer.
const leastTime = time.Second

// NextPart plans a family of campaigns, by the log alone. The first round gives half of the budget
// to all, in the given order and alike; of a time less, where preparing takes so much of it that the last
// would get nothing, but every member leastTime, also when the time is over. Each later part is as large, and goes to the
// member that gained most for an evaluation, or for a second where the budget is a time, in the second half of
// its newest part; where nobody gained, to the one that had least. A part that was
// interrupted comes before all others.
// There is no more when the budget is spent, or nothing is left to be searched.
func NextPart(members []Member, order []int, b record.Budget) (p Part, more bool) {
	timed := b.Time > 0
	used, prepared, evaluated, waiting := time.Duration(0), time.Duration(0), 0, 0
	for i, m := range members {
		prepared, evaluated = prepared+m.Prepared, evaluated+m.Evaluated
		used += m.Prepared + m.Searched
		if !m.Begun {
			waiting++
		}
		if m.unfinished() {
			return Part{Member: i, Budget: m.Budget, More: "what is left", Why: "it was interrupted"}, true
		}
	}
	grant := func(i int) (Part, bool) {
		m := &members[i]
		if timed {
			size, left := b.Time/time.Duration(2*len(members)), b.Time-used
			if waiting > 0 {
				if begun := len(members) - waiting; begun > 0 {
					left -= prepared / time.Duration(begun) * time.Duration(waiting) // preparing those that wait
				}
				size = max(min(size, leastTime), min(size, left/time.Duration(waiting)))
			} else if left < size {
				if left < size/2 {
					return p, false // preparing it would take as long
				}
				size = left
			}
			return Part{Member: i, Budget: record.Budget{Time: m.Searched + size}, More: size.Round(100 * time.Millisecond).String()}, true
		}
		size := min(max(1, b.Evaluations/(2*len(members))), b.Evaluations-evaluated)
		return Part{Member: i, Budget: record.Budget{Evaluations: m.Evaluated + size}, More: words.Plural(size, "evaluation")}, size > 0
	}
	for n, i := range order {
		if !members[i].Begun {
			p, more = grant(i)
			p.Why = fmt.Sprintf("first round, %d of %d", n+1, len(order))
			return p, more
		}
	}
	choice, most := -1, 0.0
	for _, i := range order {
		m := &members[i]
		if m.Exhausted {
			continue
		}
		factor, evaluations, took := m.recent()
		rate := 0.0
		if timed && took > 0 {
			rate = math.Log(factor) / took.Seconds()
		} else if !timed && evaluations > 0 {
			rate = math.Log(factor) / float64(evaluations)
		}
		least := choice >= 0 && rate == most && (timed && m.Searched < members[choice].Searched || !timed && m.Evaluated < members[choice].Evaluated)
		if choice < 0 || rate > most || least {
			choice, most = i, rate
		}
	}
	if choice < 0 {
		return p, false
	}
	p, more = grant(choice)
	factor, evaluations, _ := members[choice].recent()
	switch {
	case most == 0:
		p.Why = "nothing gained lately, and it had least"
	case evaluations == members[choice].Evaluated || members[choice].best(members[choice].Evaluated-evaluations) == 0:
		p.Why = fmt.Sprintf("its first valid candidates came in its last %s", words.Plural(evaluations, "evaluation"))
	default:
		p.Why = fmt.Sprintf("its last %s gained %.1f%%, the most", words.Plural(evaluations, "evaluation"), 100*(factor-1))
	}
	return p, more
}
