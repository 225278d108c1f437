package tables

import (
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

// costStages are the parts of what a configuration cost: their keys in a record,
// what T4 calls them, and people. The first costParts of them sum to the cost of
// the row.
var costStages = []struct{ key, t4, name string }{
	{"compile_time", "compilation_time", "compile"},
	{"verification_time", "validation", "verification"},
	{"benchmark_time", "benchmark", "benchmark"},
	{"strategy_time", "search_algorithm", "strategy"},
	{"framework_time", "framework", "framework"},
}

const costParts = 3

var stageKeys = func() (keys []string) {
	for _, s := range costStages {
		keys = append(keys, s.key)
	}
	return keys
}()

// recordKeys have a meaning of their own in a record.
var recordKeys = append(append([]string{"times"}, stageKeys...), "timestamp", "units", "t4")

// rowKeys are said by a row, so a record has none of them.
var rowKeys = []string{"time", "__error__", "verdict", "cost_s"}

// newRecord checks what an entry holds beside its parameters and what its row
// says. params are the parameters.
func newRecord(entry object, params []Parameter) (record, error) {
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
				return nil, fmt.Errorf("units: the unit of %s is not a text", oneLine(u.key))
			}
			raw := rec.raw(u.key)
			if raw == nil || !measurable(raw) || slices.Contains(recordKeys, u.key) || slices.ContainsFunc(params, func(p Parameter) bool { return p.Name == u.key }) {
				return nil, fmt.Errorf("units: %s has one and is not a measurement of the configuration", oneLine(u.key))
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

// decodeHead reads what a file keeps of another form's head.
func (t *Table) decodeHead(r *reader, form string) error {
	head, err := r.object(form)
	if err != nil {
		return err
	}
	return t.keepHead(form, head)
}

// keepHead takes what another form has kept, and checks that it has only what its own
// decoder would have kept.
func (t *Table) keepHead(form string, head object) error {
	key := ""
	switch form {
	case kernelTunerForm:
		key = head.has(kernelTunerKeys...)
	case t4Form:
		key = head.has(t4Keys...)
		if raw := head.raw("metadata"); raw != nil && key == "" {
			metadata, err := members(raw)
			if err != nil {
				return fmt.Errorf("metadata: %w", err)
			}
			key = metadata.has(t4MetadataKeys...)
		}
	}
	if key != "" {
		return fmt.Errorf("key %q is not expected here", key)
	}
	t.heads[form] = head
	return nil
}

// withHeads adds what is kept for other forms.
func (t *Table) withHeads(o object, forms ...string) object {
	for _, form := range forms {
		if len(t.heads[form]) > 0 {
			o = o.with(form, t.heads[form])
		}
	}
	return o
}

// A vocabulary is how a form says the way in which candidates end: each word with
// the verdicts that it stands for, of which it means the first when it is read.
type vocabulary []struct {
	word     string
	verdicts []evaluator.Verdict
}

// word says a verdict; the last word is for what has no other.
func (v vocabulary) word(verdict evaluator.Verdict) string {
	for _, w := range v {
		if slices.Contains(w.verdicts, verdict) {
			return w.word
		}
	}
	return v[len(v)-1].word
}

// verdict is what a word means; "" if it is none of the form.
func (v vocabulary) verdict(word string) evaluator.Verdict {
	for _, w := range v {
		if w.word == word {
			return w.verdicts[0]
		}
	}
	return ""
}

// whole says whether the word alone gives the verdict back.
func (v vocabulary) whole(verdict evaluator.Verdict) bool {
	return v.verdict(v.word(verdict)) == verdict
}

// verdictOf reads a verdict with which a candidate can fail; "" if it is none.
func verdictOf(v any) evaluator.Verdict {
	s, _ := v.(string)
	for _, known := range evaluator.Verdicts() {
		if string(known) == s && known != evaluator.Correct && known != evaluator.Slower && known != evaluator.Infrastructure {
			return known
		}
	}
	return ""
}
