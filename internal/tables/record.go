package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/evotune/evotune/evaluator"
)

// A record is what a file tells of one configuration beside its values, its
// time, its verdict and its cost: an object with the keys of an entry in Kernel
// Tuner's cache, as JSON and in the order of recordKeys, whatever else was
// there following as it was. It is kept so that nothing is lost between forms.
//
//	times          the samples, in milliseconds
//	compile_time, verification_time, benchmark_time, strategy_time, framework_time
//	               what was spent, in milliseconds: all five or none
//	timestamp      when it was measured
//	units          the units of further keys that have one: {"power": "W"}
//	t4             what a result of the T4 format held that has no other place
type record = object

// stageKeys are the parts of what a configuration cost; the first costParts of
// them sum to the cost of the row.
var stageKeys = []string{"compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time"}

const costParts = 3

// recordKeys have a meaning of their own in a record.
var recordKeys = append(append([]string{"times"}, stageKeys...), "timestamp", "units", "t4")

// rowKeys are said by a row, so a record has none of them.
var rowKeys = []string{"time", "__error__", "verdict", "cost_s"}

// newRecord checks what an entry holds beside its parameters and what its row
// says. params are the names of the parameters.
func newRecord(entry object, params []param) (record, error) {
	var rec record
	if raw := entry.raw("times"); told(raw) {
		if _, err := numbers(raw); err != nil {
			return nil, fmt.Errorf("times: %w", err)
		}
		rec = rec.with("times", raw)
	}
	if slices.ContainsFunc(stageKeys, func(k string) bool { return told(entry.raw(k)) }) {
		for _, k := range stageKeys {
			raw := entry.raw(k)
			if !told(raw) {
				raw = json.RawMessage("0")
			}
			if _, err := millis(scalar(raw), unitless); err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			rec = rec.with(k, raw)
		}
	}
	if raw := entry.raw("timestamp"); told(raw) {
		rec = rec.with("timestamp", raw)
	}
	for _, m := range entry {
		if slices.Contains(recordKeys, m.key) || slices.Contains(rowKeys, m.key) {
			continue
		}
		rec = append(rec, m)
	}
	if raw := entry.raw("units"); told(raw) {
		units, err := members(raw)
		if err != nil {
			return nil, fmt.Errorf("units: %w", err)
		}
		for _, u := range units {
			if s, ok := scalar(u.value.(json.RawMessage)).(string); !ok || s == "" {
				return nil, fmt.Errorf("units: the unit of %s is no text", oneLine(u.key))
			}
			raw := rec.raw(u.key)
			if raw == nil || !measurable(raw) || slices.Contains(recordKeys, u.key) || slices.ContainsFunc(params, func(p param) bool { return p.name == u.key }) {
				return nil, fmt.Errorf("units: %s has one and is no measurement of the configuration", oneLine(u.key))
			}
		}
		rec = rec.with("units", raw)
	}
	if raw := entry.raw("t4"); told(raw) {
		if err := checkT4Rest(raw, params); err != nil {
			return nil, fmt.Errorf("t4: %w", err)
		}
		rec = rec.with("t4", raw)
	}
	return rec, nil
}

// stages gives what was spent, in milliseconds, in the order of stageKeys; nil
// where that is not told.
func stages(rec record) []float64 {
	if rec.raw(stageKeys[0]) == nil {
		return nil
	}
	out := make([]float64, len(stageKeys))
	for i, k := range stageKeys {
		out[i], _ = millis(scalar(rec.raw(k)), unitless) // was checked
	}
	return out
}

// setCost gives a row the cost that its record tells, or else the one that the
// file has for the whole, in seconds; a nil whole is zero.
func (w *Row) setCost(rec record, whole json.RawMessage) error {
	if parts := stages(rec); parts != nil && !told(whole) {
		sum := 0.0
		for _, ms := range parts[:costParts] {
			sum += ms
		}
		w.CostS = sum / 1000
	} else if told(whole) {
		n, ok := scalar(whole).(json.Number)
		if !ok {
			return fmt.Errorf("cost_s: %s is not a number", oneLine(string(whole)))
		}
		var err error
		if w.CostS, err = n.Float64(); err != nil || w.CostS < 0 {
			return fmt.Errorf("cost_s: %s is not a number of seconds", n)
		}
	}
	if w.CostS > maxCost {
		return errors.New("it took more than a hundred years")
	}
	return nil
}

// unsplit are the five times that stand for a cost that is not told by stages:
// all of it as benchmark. cost_s beside them says so, and has the exact figure.
func (w Row) unsplit() object {
	var o object
	for _, k := range stageKeys {
		ms := 0.0
		if k == "benchmark_time" {
			ms = w.CostS * 1000
		}
		o = o.with(k, ms)
	}
	return o
}

// withoutStages drops the five times from an entry that has cost_s beside them.
func withoutStages(entry object) object {
	return slices.DeleteFunc(slices.Clone(entry), func(m member) bool { return slices.Contains(stageKeys, m.key) })
}

// verdictOf reads a verdict with which a candidate can fail; "" if it is none.
func verdictOf(v any) evaluator.Verdict {
	s, _ := v.(string)
	for _, known := range evaluator.Verdicts() {
		if string(known) == s && known != evaluator.Correct && known != evaluator.Infrastructure {
			return known
		}
	}
	return ""
}

// An object is a JSON object whose keys keep their order. Values that were read
// are json.RawMessage.
type object []member

type member struct {
	key   string
	value any
}

func (o object) with(key string, value any) object { return append(o, member{key, value}) }

// raw is the JSON of a member of an object that was read; nil if it is absent.
func (o object) raw(key string) json.RawMessage {
	for _, m := range o {
		if m.key == key {
			raw, _ := m.value.(json.RawMessage)
			return raw
		}
	}
	return nil
}

// without leaves out the members with the given keys.
func (o object) without(keys ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return slices.Contains(keys, m.key) })
}

// has says which of the keys the object has; "" if none.
func (o object) has(keys ...string) string {
	for _, m := range o {
		if slices.Contains(keys, m.key) {
			return m.key
		}
	}
	return ""
}

// told says whether there is a value, and not null.
func told(raw json.RawMessage) bool { return raw != nil && string(raw) != "null" }

// scalar decodes a value. Numbers are json.Number.
func scalar(raw json.RawMessage) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&v) // what was read is valid JSON
	return v
}

// numbers decodes a list of numbers.
func numbers(raw json.RawMessage) ([]float64, error) {
	list, ok := scalar(raw).([]any)
	if !ok {
		return nil, errors.New("a list of numbers is expected")
	}
	out := make([]float64, len(list))
	for i, v := range list {
		n, ok := v.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s is not a number", show(v))
		}
		var err error
		if out[i], err = n.Float64(); err != nil {
			return nil, fmt.Errorf("%s is out of range", n)
		}
	}
	return out, nil
}

// members reads an object from JSON.
func members(raw json.RawMessage) (object, error) {
	if raw == nil {
		return nil, errors.New("it is missing")
	}
	o, err := newReader(raw).object("it")
	return o, unplaced(err)
}

// unplaced drops the place of a fault in a text that is a part of the file.
func unplaced(err error) error {
	var p *positionError
	if errors.As(err, &p) {
		return errors.New(p.msg)
	}
	return err
}

// object reads {"key": value, ...}. Values keep their text, spaces apart.
func (r *reader) object(what string) (object, error) {
	at := r.here()
	t, _, err := r.token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, fail(at, "%s must be an object, not %s", what, show(t))
	}
	var o object
	seen := map[string]bool{}
	for r.d.More() {
		at := r.here()
		key, err := r.str("a key")
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, fail(at, "%s: key %s is there twice", what, show(key))
		}
		seen[key] = true
		raw, err := r.value(what)
		if err != nil {
			return nil, err
		}
		o = o.with(key, raw)
	}
	return o, r.delim('}', what)
}

// value reads any value as text without spaces between its parts.
func (r *reader) value(what string) (json.RawMessage, error) {
	var raw json.RawMessage
	if err := r.into(&raw, what); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, r.broken(r.here(), err)
	}
	return b.Bytes(), nil
}

// rawObject turns the values of an object that was made here into JSON.
func rawObject(o object) (object, error) {
	out := make(object, len(o))
	for i, m := range o {
		raw, err := compactJSON(m.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.key, err)
		}
		out[i] = member{m.key, json.RawMessage(raw)}
	}
	return out, nil
}
