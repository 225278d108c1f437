package tables

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/words"
)

// An entry is one configuration of a file whose parameters may come after it.
type entry struct {
	what          string // of the file, for messages
	offset, end   int64
	members       object
	configuration object // the members that are values of parameters, or have them
}

// decodeEntries makes rows and records of entries, each by what row makes of it and of
// the values that it has.
func (t *Table) decodeEntries(entries []entry, row func(entry, places) (Row, record, error)) error {
	place := placesOf(t.params)
	t.rows, t.records = make([]Row, len(entries)), make([]record, len(entries))
	for i, e := range entries {
		rank, err := place.rank(e.configuration)
		if err == nil {
			t.rows[i], t.records[i], err = row(e, place)
		}
		if err != nil {
			return fail(e.offset, "%s: %v", e.what, err)
		}
		t.rows[i].rank, t.rows[i].offset = rank, e.offset
	}
	t.keepLast()
	return nil
}

// keepLast leaves out what was measured again later: other programs append to their
// files, and the last result of a configuration is the one that counts for them.
func (t *Table) keepLast() {
	last := make(map[uint64]int, len(t.rows))
	for i, w := range t.rows {
		last[w.rank] = i
	}
	again := len(t.rows) - len(last)
	if again == 0 {
		return
	}
	first := slices.IndexFunc(t.rows, func(w Row) bool { return t.rows[last[w.rank]].offset != w.offset })
	example := t.format(t.rows[first].rank)
	n := 0
	for i, w := range t.rows {
		if last[w.rank] == i {
			t.rows[n], t.records[n] = w, t.records[i]
			n++
		}
	}
	t.rows, t.records = t.rows[:n], t.records[:n]
	t.notices = append(t.notices, fmt.Sprintf("%s repeated, such as %s: the last of each counts", words.Plural(again, "configuration"), example))
}

// noticeObjective tells that a file was tuned for something else than the time; "" for
// nothing else.
func (t *Table) noticeObjective(objective string) {
	if objective != "" {
		t.notices = append(t.notices, fmt.Sprintf("its objective is %s: the times are read, and nothing else is replayed", oneLine(objective)))
	}
}

// places finds the indexes of values.
type places struct {
	params []Parameter
	names  []string
	index  []map[genome.Value]int
}

func placesOf(params []Parameter) places {
	p := places{params: params}
	for _, q := range params {
		m := map[genome.Value]int{}
		for i, v := range q.Values {
			m[v] = i
		}
		p.index = append(p.index, m)
		p.names = append(p.names, q.Name)
	}
	return p
}

// rank finds the values of a configuration by their names. Numbers match across
// integers and floats.
func (p places) rank(values object) (uint64, error) {
	rank := uint64(0)
	for i, q := range p.params {
		raw := values.raw(q.Name)
		if raw == nil {
			return 0, fmt.Errorf("parameter %s is missing", q.Name)
		}
		v, err := genome.ValueOf(scalar(raw))
		if err != nil {
			return 0, fmt.Errorf("parameter %s: %w", q.Name, err)
		}
		k, ok := p.index[i][v]
		for n := 0; !ok && n < len(q.Values); n++ {
			if same(q.Values[n], v) {
				k, ok = n, true
			}
		}
		if !ok {
			return 0, fmt.Errorf("parameter %s does not have the value %s", q.Name, oneLine(v.String()))
		}
		rank = q.digit(rank, k)
	}
	return rank, nil
}

// A unit of time is so many milliseconds, times over by.
type unit struct{ times, by float64 }

var unitless = unit{1, 1}

// millis reads a time; what is missing is zero.
func millis(v any, u unit) (float64, error) {
	if v == nil {
		return 0, nil
	}
	n, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%v is not a number", v)
	}
	x, err := n.Float64()
	if err != nil {
		return 0, fmt.Errorf("%s is out of range", n)
	}
	if x < 0 {
		return 0, fmt.Errorf("%s is below zero", n)
	}
	return x * u.times / u.by, nil
}

// unitOf finds a unit by its name; no name means milliseconds.
func unitOf(name string) (unit, error) {
	switch strings.ToLower(name) {
	case "nanoseconds", "ns":
		return unit{1, 1e6}, nil
	case "microseconds", "us", "µs":
		return unit{1, 1e3}, nil
	case "", "milliseconds", "miliseconds", "ms": // files with the second spelling are about
		return unitless, nil
	case "seconds", "s":
		return unit{1e3, 1}, nil
	}
	return unit{}, fmt.Errorf("%s is not a unit of time known here: there are nanoseconds, microseconds, milliseconds, seconds", show(json.Token(name)))
}
