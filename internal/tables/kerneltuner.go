package tables

import (
	"bytes"
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

// errorOf says in Kernel Tuner's words how a candidate failed.
func errorOf(v evaluator.Verdict) string {
	switch v {
	case evaluator.Infeasible:
		return "InvalidConfig"
	case evaluator.Render, evaluator.Compile, evaluator.Inspect:
		return "CompilationFailedConfig"
	}
	return "RuntimeFailedConfig"
}

// failures is the inverse of errorOf, as far as there is one.
var failures = map[string]evaluator.Verdict{
	"InvalidConfig":           evaluator.Infeasible,
	"CompilationFailedConfig": evaluator.Compile,
	"RuntimeFailedConfig":     evaluator.Launch,
}

// kernelTunerKeys are the keys of the top-level object that are not kept as
// they are but made anew.
var kernelTunerKeys = []string{
	"schema_version", "device_name", "kernel_name", "tune_params_keys", "tune_params", "restrictions", "unrecorded", t4Form, t1Form, "cache",
}

// checkKernelTunerRest checks what another form keeps for this one.
func checkKernelTunerRest(rest object) error {
	if key := rest.has(kernelTunerKeys...); key != "" {
		return fmt.Errorf("key %q is not expected here", key)
	}
	return nil
}

func (t *Table) writeKernelTuner(w io.Writer) error {
	var names []string
	var params object
	for _, p := range t.params {
		names = append(names, p.name)
		params = params.with(p.name, p.values)
	}
	var cache lines
	for i, row := range t.rows {
		var entry object
		var key []string
		for n, k := range t.digits(row.rank) {
			p := t.params[n]
			entry = entry.with(p.name, p.values[k])
			key = append(key, plainValue(p.values[k]))
		}
		if row.Failed == "" {
			entry = entry.with("time", row.TimeMS)
		} else {
			word := errorOf(row.Failed)
			entry = entry.with("time", word).with("__error__", word)
			if failures[word] != row.Failed {
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
	rules := t.Constraints()
	file := object{}.with("schema_version", cacheVersion).with("device_name", t.device).with("kernel_name", t.name).
		with("tune_params_keys", names).with("tune_params", params)
	if t.head.kernelTuner.has("objective") == "" {
		file = file.with("objective", "time")
	}
	file = append(file, t.head.kernelTuner...).with("restrictions", rules)
	file, err := t.withUnrecorded(file)
	if err != nil {
		return err
	}
	if len(t.head.t4) > 0 {
		file = file.with(t4Form, t.head.t4)
	}
	if len(t.head.t1) > 0 {
		file = file.with(t1Form, t.head.t1)
	}
	// Kernel Tuner goes on with a file by cutting its last two braces off: the
	// cache must be the last key.
	return writeJSON(w, file.with("cache", cache))
}

// withUnrecorded says that what the constraints allow and the file does not
// record is part of the space, in the forms where it is not.
func (t *Table) withUnrecorded(o object) (object, error) {
	if t.listed {
		return o, nil
	}
	whole, err := t.whole()
	if err == nil && !whole {
		o = o.with("unrecorded", "infeasible")
	}
	return o, err
}

// plainValue writes a value as Python's str does.
func plainValue(v genome.Value) string {
	if s, ok := v.Any().(string); ok {
		return s
	}
	return strings.Trim(pythonValue(v), "()")
}

func readKernelTuner(text []byte, name string, description *t1Input) (*Table, error) {
	r := newReader(bytes.TrimRight(text, " \t\r\n")) // a file that is cut may have got a line end
	if err := r.delim('{', "a cache file"); err != nil {
		return nil, err
	}
	var (
		kernel, device string
		keys           []string
		values         map[string][]genome.Value
		rules          []rule
		entries        []entry
		objective      string
		more           head
		notices        []string
		infeasible     bool
		seen           = map[string]bool{}
	)
	fill := func() error {
		for r.d.More() {
			at := r.here()
			key, err := r.str("a key")
			if err != nil {
				return err
			}
			if seen[key] {
				return fail(at, "key %q is there twice", key)
			}
			seen[key] = true
			switch key {
			case "schema_version":
				_, err = r.value(key)
			case "kernel_name":
				kernel, err = r.str(key)
			case "device_name":
				device, err = r.str(key)
			case "tune_params_keys":
				err = r.into(&keys, key)
			case "tune_params":
				values, err = r.tuneParams()
			case "restrictions":
				rules, err = r.rules()
			case "unrecorded":
				var absent bool
				absent, err = r.unrecorded()
				infeasible = !absent
			case t4Form:
				if more.t4, err = r.object(key); err == nil {
					err = checkT4Head(more.t4)
				}
			case t1Form:
				more.t1, err = r.object(key)
			case "cache":
				entries, err = r.entries()
			default:
				var raw json.RawMessage
				raw, err = r.value(key)
				if key == "objective" {
					objective, _ = scalar(raw).(string)
				}
				if key != "objective" || objective != "time" { // the usual one is written anyway
					more.kernelTuner = more.kernelTuner.with(key, raw)
				}
			}
			if err != nil {
				return placed(at, key, err)
			}
		}
		return r.end("the cache file")
	}
	if err := fill(); err != nil {
		var p *positionError
		if len(entries) == 0 || !errors.As(err, &p) || !p.cut {
			return nil, err
		}
		last := entries[len(entries)-1]
		notice := fmt.Sprintf("the run that wrote it was interrupted: %d whole configurations are read", len(entries))
		if rest := bytes.Trim(text[last.end:], " \t\r\n,}"); len(rest) > 0 {
			notice += ", the one that was cut off is left out"
		}
		notices = append(notices, notice)
	}
	if len(entries) == 0 {
		return nil, fail(0, "no configuration is recorded")
	}
	params, err := orderParams(keys, values)
	if err != nil {
		return nil, err
	}
	if description != nil {
		if params, rules, more.t1, err = description.instead(params, rules); err != nil {
			return nil, err
		}
	}
	place := placesOf(params)
	rows := make([]Row, len(entries))
	records := make([]record, len(entries))
	for i, e := range entries {
		if rows[i], records[i], err = e.row(place, objective); err != nil {
			return nil, fail(e.offset, "configuration %s: %v", show(json.Token(e.key)), err)
		}
	}
	if kernel == "" {
		kernel = name
	}
	t, err := newTable(kernel, device, digest(text), params, rules, rows)
	if err != nil {
		return nil, err
	}
	t.head, t.records, t.listed, t.notices = more, records, !infeasible, notices
	return t, nil
}

// into decodes the next value.
func (r *reader) into(v any, what string) error {
	at := r.here()
	err := r.d.Decode(v)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fail(at, "%s: %s is not expected here", what, kind.Value)
	}
	if err != nil {
		return r.broken(at, err)
	}
	return nil
}

// end reads the last brace, behind which there must be nothing.
func (r *reader) end(what string) error {
	if err := r.delim('}', what); err != nil {
		return err
	}
	if at := r.here(); at < int64(len(r.text)) {
		return fail(at, "something follows %s", what)
	}
	return nil
}

// tuneParams reads {"name": [values], ...}.
func (r *reader) tuneParams() (map[string][]genome.Value, error) {
	if err := r.delim('{', "tune_params"); err != nil {
		return nil, err
	}
	values := map[string][]genome.Value{}
	for r.d.More() {
		at := r.here()
		name, err := r.str("a parameter's name")
		if err != nil {
			return nil, err
		}
		if _, twice := values[name]; twice {
			return nil, fail(at, "parameter %s is there twice", name)
		}
		if values[name], err = r.values(name); err != nil {
			return nil, err
		}
	}
	return values, r.delim('}', "tune_params")
}

// orderParams puts the parameters into the order of the keys.
func orderParams(keys []string, values map[string][]genome.Value) ([]param, error) {
	const at = 0
	switch {
	case values == nil:
		return nil, fail(at, `key "tune_params" is missing`)
	case keys == nil:
		return nil, fail(at, `key "tune_params_keys" is missing`)
	case len(keys) != len(values):
		return nil, fail(at, "tune_params_keys has %d names, tune_params %d", len(keys), len(values))
	}
	params := make([]param, 0, len(keys))
	seen := map[string]bool{}
	for _, k := range keys {
		v, ok := values[k]
		if !ok || seen[k] {
			return nil, fail(at, "tune_params_keys names %q, which tune_params does not have once", k)
		}
		seen[k] = true
		params = append(params, param{k, v})
	}
	if _, err := radix(params); err != nil {
		return nil, fail(at, "%v", err)
	}
	return params, nil
}

// An entry is one configuration of a cache file.
type entry struct {
	key         string
	offset, end int64
	members     object
}

// entries reads {"16,1": {...}, ...}; those before a fault come with it.
func (r *reader) entries() ([]entry, error) {
	if err := r.delim('{', "cache"); err != nil {
		return nil, err
	}
	var entries []entry
	for r.d.More() {
		e := entry{offset: r.here()}
		var err error
		if e.key, err = r.str("a configuration"); err == nil {
			e.members, err = r.object("configuration " + show(json.Token(e.key)))
		}
		if err != nil {
			return entries, err
		}
		e.end = r.d.InputOffset()
		entries = append(entries, e)
	}
	return entries, r.delim('}', "cache")
}

// row reads one configuration.
func (e entry) row(place places, objective string) (w Row, rec record, err error) {
	w.offset = e.offset
	if w.rank, err = place.rank(e.members); err != nil {
		return w, nil, err
	}
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
	if s, ok := scalar(entry.raw(objective)).(string); ok && failures[s] != "" && time == nil && !failed {
		word, failed = s, true
	}
	own := entry.raw("verdict")
	verdict := verdictOf(scalar(own))
	if own != nil && verdict == "" && string(own) != `"correct"` {
		return fmt.Errorf("the verdict %s is not one of evotune's", oneLine(string(own)))
	}
	if failed {
		v, ok := failures[word]
		if !ok {
			return fmt.Errorf("the time is %s: expected a number, or InvalidConfig, CompilationFailedConfig or RuntimeFailedConfig", show(json.Token(word)))
		}
		w.Failed = v
		if verdict != "" && errorOf(verdict) == word {
			w.Failed = verdict
		}
		return nil
	}
	if time == nil {
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

// places finds the indexes of values.
type places struct {
	params []param
	names  []string
	index  []map[genome.Value]int
}

func placesOf(params []param) places {
	p := places{params: params}
	for _, q := range params {
		m := map[genome.Value]int{}
		for i, v := range q.values {
			m[v] = i
		}
		p.index = append(p.index, m)
		p.names = append(p.names, q.name)
	}
	return p
}

// rank finds the values of a configuration by their names. Numbers match across
// integers and floats.
func (p places) rank(values object) (uint64, error) {
	rank := uint64(0)
	for i, q := range p.params {
		raw := values.raw(q.name)
		if raw == nil {
			return 0, fmt.Errorf("parameter %s is missing", q.name)
		}
		v, err := genome.ValueOf(scalar(raw))
		if err != nil {
			return 0, fmt.Errorf("parameter %s: %w", q.name, err)
		}
		k, ok := p.index[i][v]
		for n := 0; !ok && n < len(q.values); n++ {
			if same(q.values[n], v) {
				k, ok = n, true
			}
		}
		if !ok {
			return 0, fmt.Errorf("parameter %s does not have the value %s", q.name, oneLine(v.String()))
		}
		rank = rank*uint64(len(q.values)) + uint64(k)
	}
	return rank, nil
}
