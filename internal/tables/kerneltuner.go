package tables

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// Kernel Tuner keeps what it measured in a cache file, one JSON object:
//
//	{"device_name": "...", "kernel_name": "...", "problem_size": [4096, 4096],
//	 "tune_params_keys": ["block_size_x", ...],
//	 "tune_params": {"block_size_x": [16, 32], ...}, "objective": "time",
//	 "cache": {"16,1": {"block_size_x": 16, ..., "time": 3.87, "times": [...],
//	   "compile_time": ..., "verification_time": ..., "benchmark_time": ...,
//	   "strategy_time": ..., "framework_time": ..., "timestamp": "..."}, ...}}
//
// Times are milliseconds. The time of a configuration that failed is one of
// three words, as the value of "time", or, in other versions, of "__error__" or
// of the key that is the objective. A file of a run that was interrupted ends
// anywhere: Kernel Tuner writes as it goes.
//
// The format has no place for constraints, and none for what other formats tell;
// evotune writes further keys, which Kernel Tuner passes over. docs/tables.md
// lists them.

// cacheVersion is the version of the cache files' schema that is written.
const cacheVersion = "1.1.0"

// failures are Kernel Tuner's words for how candidates fail.
var failures = vocabulary{
	{"InvalidConfig", []evaluator.Verdict{evaluator.Infeasible}},
	{"CompilationFailedConfig", []evaluator.Verdict{evaluator.Compile, evaluator.Render, evaluator.Inspect}},
	{"RuntimeFailedConfig", []evaluator.Verdict{evaluator.Launch, evaluator.Timeout, evaluator.Parity, evaluator.Sanitizer, evaluator.Implausible}},
}

// kernelTunerKeys are the keys of the top-level object that are not kept as
// they are but made anew.
var kernelTunerKeys = []string{
	"schema_version", "device_name", "kernel_name", "tune_params_keys", "tune_params", "restrictions", "unrecorded", t4Form, t1Form, "cache",
}

func (t *Table) encodeKernelTuner(w io.Writer) error {
	var names []string
	var params object
	for _, p := range t.params {
		names = append(names, p.Name)
		params = params.with(p.Name, p.Values)
	}
	var cache lines
	for i, row := range t.rows {
		entry := t.configuration(row)
		key := make([]string, len(entry))
		for k, m := range entry {
			key[k] = plainValue(m.value.(genome.Value))
		}
		if row.Failed == "" {
			entry = entry.with("time", row.TimeMS)
		} else {
			word := failures.word(row.Failed)
			entry = entry.with("time", word).with("__error__", word)
			if !failures.whole(row.Failed) {
				entry = entry.with("verdict", row.Failed)
			}
		}
		rec := t.record(i)
		if stages(rec) == nil {
			entry = append(entry, row.unsplit()...).with("cost_s", row.CostS)
		}
		entry = append(entry, rec...)
		if taken := entry[len(names):].has(names...); taken != "" {
			return fmt.Errorf("replay: a cache file of Kernel Tuner has %w a parameter that is called %s", ErrNoPlace, taken)
		}
		cache = append(cache, member{strings.Join(key, ","), entry})
	}
	file := object{}.with("schema_version", cacheVersion).with("device_name", t.device).with("kernel_name", t.name).
		with("tune_params_keys", names).with("tune_params", params)
	if t.heads[kernelTunerForm].has("objective") == "" {
		file = file.with("objective", "time")
	}
	file = append(file, t.heads[kernelTunerForm]...).with("restrictions", t.Constraints())
	file, err := t.withUnrecorded(file)
	if err != nil {
		return err
	}
	file = t.withHeads(file, t4Form, t1Form)
	// Kernel Tuner goes on with a file by cutting its last two braces off: the
	// cache must be the last key.
	return writeJSON(w, file.with("cache", cache))
}

// plainValue writes a value as Python's str does.
func plainValue(v genome.Value) string {
	if s, ok := v.Any().(string); ok {
		return s
	}
	return strings.Trim(pythonValue(v), "()")
}

func (t *Table) decodeKernelTuner(r *reader, description *t1Input) error {
	text := bytes.TrimRight(r.text, " \t\r\n") // a file that is cut may have got a line end
	r = newReader(text)
	var (
		keys      []string
		values    map[string][]genome.Value
		entries   []entry
		objective string
	)
	t.listed = true
	if err := r.file("a cache file", "the cache file", func(key string, _ int64) (err error) {
		switch key {
		case "schema_version":
			_, err = r.value(key)
		case "kernel_name":
			var name string
			name, err = r.str(key)
			t.name = cmp.Or(name, t.name)
		case "device_name":
			t.device, err = r.str(key)
		case "tune_params_keys":
			err = r.into(&keys, key)
		case "tune_params":
			values, err = r.tuneParams()
		case "restrictions":
			t.rules, err = r.rules()
		case "unrecorded":
			t.listed, err = r.unrecorded()
		case t4Form, t1Form:
			err = t.decodeHead(r, key)
		case "cache":
			entries, err = r.entries()
		default:
			var raw json.RawMessage
			raw, err = r.value(key)
			if key == "objective" {
				objective, _ = scalar(raw).(string)
			}
			if key != "objective" || objective != "time" { // the usual one is written anyway
				t.heads[kernelTunerForm] = t.heads[kernelTunerForm].with(key, raw)
			}
		}
		return err
	}); err != nil {
		var p *positionError
		if len(entries) == 0 || !errors.As(err, &p) || !p.cut {
			return err
		}
		last := entries[len(entries)-1]
		notice := fmt.Sprintf("the run that wrote it was interrupted: %d whole configurations are read", len(entries))
		if rest := bytes.Trim(text[last.end:], " \t\r\n,}"); len(rest) > 0 {
			notice += ", the one that was cut off is left out"
		}
		t.notices = append(t.notices, notice)
	}
	if len(entries) == 0 {
		return fail(0, "no configuration is recorded")
	}
	var err error
	if t.params, err = orderParams(keys, values); err != nil {
		return err
	}
	if description != nil {
		if err := description.replaces(t); err != nil {
			return err
		}
	}
	if objective != "time" {
		t.noticeObjective(objective)
	}
	return t.decodeEntries(entries, func(e entry, place places) (Row, record, error) { return e.kernelTuner(place, objective) })
}

// tuneParams reads {"name": [values], ...}.
func (r *reader) tuneParams() (map[string][]genome.Value, error) {
	if err := r.delim('{', "tune_params"); err != nil {
		return nil, err
	}
	values := map[string][]genome.Value{}
	err := r.each("a parameter's name", func(name string, at int64) (err error) {
		if _, twice := values[name]; twice {
			return fail(at, "parameter %s is there twice", name)
		}
		values[name], err = r.values(name)
		return err
	})
	return values, err
}

// orderParams puts the parameters into the order of the keys.
func orderParams(keys []string, values map[string][]genome.Value) ([]Parameter, error) {
	const at = 0
	switch {
	case values == nil:
		return nil, fail(at, `key "tune_params" is missing`)
	case keys == nil:
		return nil, fail(at, `key "tune_params_keys" is missing`)
	case len(keys) != len(values):
		return nil, fail(at, "tune_params_keys has %d names, tune_params %d", len(keys), len(values))
	}
	params := make([]Parameter, 0, len(keys))
	seen := map[string]bool{}
	for _, k := range keys {
		v, ok := values[k]
		if !ok || seen[k] {
			return nil, fail(at, "tune_params_keys names %q, which tune_params does not have once", k)
		}
		seen[k] = true
		params = append(params, parameter(k, v))
	}
	if _, err := radix(params); err != nil {
		return nil, fail(at, "%v", err)
	}
	return params, nil
}

// entries reads {"16,1": {...}, ...}; those before a fault come with it.
func (r *reader) entries() ([]entry, error) {
	if err := r.delim('{', "cache"); err != nil {
		return nil, err
	}
	var entries []entry
	err := r.each("a configuration", func(key string, at int64) error {
		e := entry{what: "configuration " + show(json.Token(key)), offset: at}
		var err error
		if e.members, err = r.object(e.what); err != nil {
			return err
		}
		e.configuration, e.end = e.members, r.d.InputOffset()
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// kernelTuner is what an entry of a cache file says beside its values.
func (e entry) kernelTuner(place places, objective string) (w Row, rec record, err error) {
	rest := e.members.without(place.names...)
	whole := rest.raw("cost_s")
	if told(whole) {
		rest = withoutStages(rest)
	}
	if rec, err = newRecord(rest, place.params); err != nil {
		return w, nil, err
	}
	if err = w.setCost(rec, whole); err != nil {
		return w, nil, err
	}
	return w, rec, w.outcome(rest, objective)
}

// outcome reads the time, or how the configuration failed.
func (w *Row) outcome(entry object, objective string) error {
	time := scalar(entry.raw("time"))
	word, failed := scalar(entry.raw("__error__")).(string)
	if s, ok := time.(string); ok {
		word, failed = s, true
	}
	if s, ok := scalar(entry.raw(objective)).(string); ok && failures.verdict(s) != "" && time == nil && !failed {
		word, failed = s, true
	}
	own := entry.raw("verdict")
	verdict := verdictOf(scalar(own))
	if own != nil && verdict == "" && string(own) != `"correct"` {
		return fmt.Errorf("the verdict %s is not one of evotune's", oneLine(string(own)))
	}
	if failed {
		if w.Failed = failures.verdict(word); w.Failed == "" {
			return fmt.Errorf("the time is %s: expected a number, or InvalidConfig, CompilationFailedConfig or RuntimeFailedConfig", show(json.Token(word)))
		}
		if verdict != "" && failures.word(verdict) == word {
			w.Failed = verdict
		}
		return nil
	}
	switch {
	case time == nil && objective != "" && objective != "time" && entry.raw(objective) != nil:
		return fmt.Errorf("it has no time, and its objective, %s, is not one: only times can be replayed", oneLine(objective))
	case time == nil:
		return errors.New("it has no time")
	}
	ms, err := millis(time, unitless)
	if err == nil && ms >= failedTime {
		w.Failed = evaluator.Launch
		return nil
	}
	if err == nil && ms <= 0 {
		err = fmt.Errorf("%g ms is no time", ms)
	}
	if err != nil {
		return fmt.Errorf("time: %w", err)
	}
	w.TimeMS = ms
	return nil
}

// failedTime is what old versions of Kernel Tuner wrote for the time of a
// configuration that failed.
const failedTime = 1e20
