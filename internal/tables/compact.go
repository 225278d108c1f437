package tables

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/evotune/evotune/evaluator"
)

// The compact form is one JSON object, gzipped or not:
//
//	{"name": "...", "device": "...",
//	 "params": [["block_x", [16, 32, 64]], ...],
//	 "constraints": ["block_x * block_y <= 1024", ...],
//	 "fields": ["value_index_per_param", "time_ms_or_null", "cost_s"],
//	 "configs": [[[0, 2, 1], 5.9, 1.083], [[0, 2, 2], null, 0.4], ...]}
//
// A configuration is the index of each parameter's value, the time in
// milliseconds (null: it failed) and the cost of trying it in seconds.
// Constraints are Python expressions. "fields" may be missing; "params" comes
// before "configs". Other keys are an error, so that a misspelt one is seen.

// "details", the last key if it is there, has what other forms tell and this one
// has no place for; docs/tables.md describes it:
//
//	"details": {"kerneltuner": {...}, "t4": {...}, "t1": {...}, "unrecorded": "absent",
//	  "configs": [{"times": [...], "compile_time": ..., ...}, {"verdict": "compile", ...}, ...]}

func (t *Table) decodeCompact(r *reader, description *t1Input) error {
	if description != nil {
		return fail(0, "the compact form has constraints of its own: no T1 description goes with it")
	}
	configs := false
	if err := r.file("a recorded space", "the recorded space", func(key string, at int64) (err error) {
		switch key {
		case "name":
			var name string
			name, err = r.str(key)
			t.name = cmp.Or(name, t.name)
		case "device":
			t.device, err = r.str(key)
		case "params":
			t.params, err = r.params()
		case "constraints":
			t.rules, err = r.rules()
		case "fields":
			err = r.fields()
		case "configs":
			if t.params == nil {
				return fail(at, `"params" must come before "configs"`)
			}
			configs = true
			err = t.decodeConfigs(r)
		case "details":
			if t.rows == nil {
				return fail(at, `"configs" must come before "details"`)
			}
			err = t.decodeDetails(r)
		default:
			err = fail(at, "unknown key %q", key)
		}
		return err
	}); err != nil {
		return err
	}
	switch {
	case t.params == nil:
		return fail(0, `key "params" is missing`)
	case !configs:
		return fail(0, `key "configs" is missing`)
	case len(t.rows) == 0:
		return fail(0, "no configuration is recorded")
	}
	return nil
}

// decodeDetails reads the last key; rows get their verdicts.
func (t *Table) decodeDetails(r *reader) error {
	if err := r.delim('{', "details"); err != nil {
		return err
	}
	return r.each("a key", func(key string, at int64) (err error) {
		switch key {
		case kernelTunerForm, t4Form, t1Form:
			err = t.decodeHead(r, key)
		case "unrecorded":
			t.listed, err = r.unrecorded()
		case "configs":
			err = t.decodeRecords(r)
		default:
			err = fail(at, "unknown key %q in the details", key)
		}
		return err
	})
}

// decodeRecords reads what is told of each row.
func (t *Table) decodeRecords(r *reader) error {
	at := r.here()
	t.records = make([]record, 0, len(t.rows))
	err := r.list("the configurations' details", func(i int) error {
		at := r.here()
		what := fmt.Sprintf("details of configuration %d", i+1)
		entry, err := r.object(what)
		if err != nil {
			return err
		}
		if i >= len(t.rows) {
			return fail(at, "details of more than the %d configurations", len(t.rows))
		}
		w := &t.rows[i]
		if key := entry.has("time", "__error__", "cost_s"); key != "" {
			return fail(at, "%s: key %q is not expected here", what, key)
		}
		if raw := entry.raw("verdict"); raw != nil {
			verdict := verdictOf(scalar(raw))
			if verdict == "" || w.Failed == "" {
				return fail(at, "%s: the verdict %s is not that of a configuration that failed", what, oneLine(string(raw)))
			}
			w.Failed = verdict
		}
		rec, err := newRecord(entry, t.params)
		if err != nil {
			return fail(at, "%s: %v", what, err)
		}
		if stages(rec) != nil {
			cost := w.CostS
			if err := w.setCost(rec, nil); err != nil {
				return fail(at, "%s: %v", what, err)
			}
			if math.Abs(w.CostS-cost) > 1e-9*cost {
				return fail(at, "%s: compile, verification and benchmark sum to %g s; its cost is %g s", what, w.CostS, cost)
			}
		}
		t.records = append(t.records, rec)
		return nil
	})
	if err == nil && len(t.records) != len(t.rows) {
		err = fail(at, "details of %d configurations; there are %d", len(t.records), len(t.rows))
	}
	return err
}

// params reads [["name", [values]], ...].
func (r *reader) params() ([]Parameter, error) {
	at := r.here()
	params := []Parameter{}
	names := map[string]bool{}
	err := r.list("params", func(i int) error {
		what := fmt.Sprintf("parameter %d", i+1)
		if err := r.delim('[', what); err != nil {
			return err
		}
		at := r.here()
		name, err := r.str(what + ": the name")
		if err != nil {
			return err
		}
		if names[name] {
			return fail(at, "parameter %s is there twice", name)
		}
		names[name] = true
		values, err := r.values(name)
		if err != nil {
			return err
		}
		params = append(params, parameter(name, values))
		return r.delim(']', what)
	})
	if err != nil {
		return nil, err
	}
	if _, err := radix(params); err != nil {
		return nil, fail(at, "%v", err)
	}
	return params, nil
}

// compactFields are what a configuration consists of.
var compactFields = []string{"value_index_per_param", "time_ms_or_null", "cost_s"}

// fields checks that the configurations mean what this reader takes them for.
func (r *reader) fields() error {
	n := 0
	at := r.here()
	err := r.list("fields", func(i int) error {
		at := r.here()
		s, err := r.str("a field")
		if err != nil {
			return err
		}
		if i >= len(compactFields) || s != compactFields[i] {
			return fail(at, "field %d is %q; configurations are %q", i+1, s, compactFields)
		}
		n++
		return nil
	})
	if err == nil && n != len(compactFields) {
		return fail(at, "%d fields; configurations are %q", n, compactFields)
	}
	return err
}

func (t *Table) decodeConfigs(r *reader) error {
	return r.list("configs", func(i int) error {
		w := Row{offset: r.here()}
		what := fmt.Sprintf("configuration %d", i+1)
		if err := r.delim('[', what); err != nil {
			return err
		}
		n := 0
		if err := r.list(what+": the value indexes", func(k int) error {
			x, ok, at, err := r.number(what + ": a value index")
			if err != nil {
				return err
			}
			if k >= len(t.params) {
				return fail(at, "%s has more than %d value indexes", what, len(t.params))
			}
			p := t.params[k]
			if !ok || x != math.Trunc(x) || x < 0 || x >= float64(len(p.Values)) {
				return fail(at, "%s: the value index of %s must be a whole number below %d", what, p.Name, len(p.Values))
			}
			w.rank = p.digit(w.rank, int(x))
			n++
			return nil
		}); err != nil {
			return err
		}
		if n != len(t.params) {
			return fail(w.offset, "%s has %d value indexes for %d parameters", what, n, len(t.params))
		}
		time, ok, at, err := r.number(what + ": the time")
		if err != nil {
			return err
		}
		switch {
		case !ok:
			w.Failed = evaluator.Launch
		case time <= 0:
			return fail(at, "%s: the time must be above 0 ms, or null if it failed, not %g", what, time)
		default:
			w.TimeMS = time
		}
		cost, ok, at, err := r.number(what + ": the cost")
		if err != nil {
			return err
		}
		if !ok || cost < 0 || cost > maxCost {
			return fail(at, "%s: the cost must be a number of seconds from 0 to %g", what, float64(maxCost))
		}
		w.CostS = cost
		t.rows = append(t.rows, w)
		return r.delim(']', what)
	})
}

// maxCost is the longest evaluation that a table may have, in seconds: a
// hundred years, so that it fits a time.Duration.
const maxCost = 100 * 365 * 24 * 3600

// encodeCompact writes one configuration per line.
func (t *Table) encodeCompact(w io.Writer) error {
	more, err := t.details()
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	text := func(v any) string {
		s, _ := compactJSON(v) // strings, integers and values always have a JSON form
		return string(s)
	}
	fmt.Fprintf(b, "{\"name\":%s,\"device\":%s,\n\"params\":[", text(t.name), text(t.device))
	for i, p := range t.params {
		fmt.Fprintf(b, "%s\n[%s,%s]", comma(i), text(p.Name), text(p.Values))
	}
	fmt.Fprintf(b, "],\n\"constraints\":[")
	for i, r := range t.rules {
		fmt.Fprintf(b, "%s\n%s", comma(i), text(r.source))
	}
	fmt.Fprintf(b, "],\n\"fields\":%s,\n\"configs\":[", text(compactFields))
	for i, r := range t.rows {
		time := "null"
		if r.Failed == "" {
			time = number(r.TimeMS)
		}
		fmt.Fprintf(b, "%s\n[%s,%s,%s]", comma(i), text(t.digits(r.rank)), time, number(r.CostS))
	}
	fmt.Fprint(b, "]")
	if more != nil {
		fmt.Fprint(b, ",\n\"details\":")
		if err := writeJSON(b, more); err != nil {
			return err
		}
	}
	fmt.Fprint(b, "}\n")
	return b.Flush()
}

// details are what the compact form has no other place for; nil without any.
func (t *Table) details() (object, error) {
	more := t.withHeads(nil, kernelTunerForm, t4Form, t1Form)
	if t.listed {
		whole, err := t.whole()
		if err != nil {
			return nil, err
		}
		if !whole {
			more = more.with("unrecorded", "absent")
		}
	}
	empty := true
	entries := make([]object, len(t.rows))
	for i, w := range t.rows {
		entries[i] = object{}
		if w.Failed != "" && w.Failed != evaluator.Launch {
			entries[i] = entries[i].with("verdict", w.Failed)
		}
		entries[i] = append(entries[i], t.record(i)...)
		empty = empty && len(entries[i]) == 0
	}
	if !empty {
		more = more.with("configs", entries)
	}
	return more, nil
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
