package tables

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// The T4 format holds the results of a tuning run, one JSON object:
//
//	{"schema_version": "1.1.0", "metadata": {"device": "...", "timeunit": "milliseconds", ...},
//	 "results": [{"timestamp": "...", "configuration": {"block_size_x": 16, ...},
//	   "times": {"compilation_time": ..., "validation": ..., "framework": ..., "search_algorithm": ...,
//	     "runtimes": [...]},
//	   "invalidity": "correct", "correctness": 1,
//	   "measurements": [{"name": "time", "value": 12.26, "unit": "ms"}, ...],
//	   "objectives": ["time"]}, ...]}
//
// It does not say which values a parameter may have, nor which constraints there
// are: that is what the T1 format is for. evotune puts its T1 description into the
// metadata as "input". Without one, a parameter has the values that occur.
//
// Some programs write "compilation" for "compilation_time", and "benchmark" for
// the time that a configuration was measured; both are read. Where the latter is
// missing, the samples stand for it.
//
// docs/tables.md lists what evotune adds.

// t4Version is the version of the results' schema that is written.
const t4Version = "1.1.0"

// invalidity says in the words of T4 how a candidate ended.
func invalidity(v evaluator.Verdict) string {
	switch v {
	case evaluator.Correct:
		return "correct"
	case evaluator.Infeasible:
		return "constraints"
	case evaluator.Render, evaluator.Compile, evaluator.Inspect:
		return "compile"
	case evaluator.Launch:
		return "runtime"
	case evaluator.Timeout:
		return "timeout"
	}
	return "correctness" // parity, sanitizer, implausible
}

// invalid is the inverse of invalidity, as far as there is one.
var invalid = map[string]evaluator.Verdict{
	"correct":     evaluator.Correct,
	"constraints": evaluator.Infeasible,
	"compile":     evaluator.Compile,
	"runtime":     evaluator.Launch,
	"timeout":     evaluator.Timeout,
	"correctness": evaluator.Parity,
}

// Keys that are not kept as they are but made anew: of the top-level object, of
// the metadata, of a result, and of its times, with the keys of a record that
// the latter stand for.
var (
	t4Keys         = []string{"schema_version", "results"}
	t4MetadataKeys = []string{"device", "kernel", "timeunit", "input", "unrecorded", kernelTunerForm}
	t4ResultKeys   = []string{"timestamp", "invalidity", kernelTunerForm}
	t4Times        = map[string]string{
		"compilation_time": "compile_time", "compilation": "compile_time", "validation": "verification_time",
		"benchmark": "benchmark_time", "search_algorithm": "strategy_time", "framework": "framework_time", "runtimes": "times",
	}
	t4TimesOf = map[string]string{
		"compile_time": "compilation_time", "verification_time": "validation", "benchmark_time": "benchmark",
		"strategy_time": "search_algorithm", "framework_time": "framework",
	}
)

// checkT4Head checks what another form keeps of a file of results.
func checkT4Head(rest object) error {
	key := rest.has(t4Keys...)
	if raw := rest.raw("metadata"); raw != nil && key == "" {
		metadata, err := members(raw)
		if err != nil {
			return fmt.Errorf("metadata: %w", err)
		}
		key = metadata.has(t4MetadataKeys...)
	}
	if key != "" {
		return fmt.Errorf("key %q is not expected here", key)
	}
	return nil
}

// A t4Rest is what a result holds that has no other place.
type t4Rest struct {
	configuration object            // values of what is no parameter
	times         object            // further times, in milliseconds
	measurements  []json.RawMessage // those that are more than a name, a value and a unit
	others        object            // correctness and objectives, where they are not as usual, and further keys
}

// checkT4Rest checks what another form keeps of a result.
func checkT4Rest(raw json.RawMessage, params []param) error {
	rest, err := readT4Rest(raw)
	if err != nil {
		return err
	}
	key := rest.others.has(t4ResultKeys...)
	for _, p := range params {
		key = cmp.Or(key, rest.configuration.has(p.name))
	}
	for name := range t4Times {
		key = cmp.Or(key, rest.times.has(name))
	}
	if key != "" {
		return fmt.Errorf("key %q is not expected here", key)
	}
	return nil
}

func readT4Rest(raw json.RawMessage) (t4Rest, error) {
	var rest t4Rest
	whole, err := members(raw)
	if err != nil {
		return rest, err
	}
	for _, m := range whole {
		raw := m.value.(json.RawMessage)
		switch m.key {
		case "configuration":
			rest.configuration, err = members(raw)
		case "times":
			rest.times, err = members(raw)
		case "measurements":
			rest.measurements, err = list(raw)
		default:
			rest.others = append(rest.others, m)
		}
		if err != nil {
			return rest, fmt.Errorf("%s: %w", m.key, err)
		}
	}
	return rest, nil
}

// object is the inverse of readT4Rest.
func (rest t4Rest) object() object {
	var o object
	if len(rest.configuration) > 0 {
		o = o.with("configuration", rest.configuration)
	}
	if len(rest.times) > 0 {
		o = o.with("times", rest.times)
	}
	if len(rest.measurements) > 0 {
		o = o.with("measurements", rest.measurements)
	}
	return append(o, rest.others...)
}

// list reads the elements of a list.
func list(raw json.RawMessage) ([]json.RawMessage, error) {
	var out []json.RawMessage
	if json.Unmarshal(raw, &out) != nil {
		return nil, errors.New("a list is expected")
	}
	return out, nil
}

// objective is the name of the measurement that was minimised.
func (rest t4Rest) objective() string {
	if names, ok := scalar(rest.others.raw("objectives")).([]any); ok && len(names) > 0 {
		if name, ok := names[0].(string); ok {
			return name
		}
	}
	return "time"
}

func (t *Table) writeT4(w io.Writer) error {
	input, err := t.t1()
	if err != nil {
		return err
	}
	results := make([]object, len(t.rows))
	for i := range t.rows {
		if results[i], err = t.result(i); err != nil {
			return err
		}
	}
	metadata := object{}.with("device", t.device).with("kernel", t.name).with("timeunit", "milliseconds")
	if raw := t.head.t4.raw("metadata"); raw != nil {
		rest, err := members(raw)
		if err != nil {
			return err
		}
		metadata = append(metadata, rest...)
	}
	if metadata, err = t.withUnrecorded(metadata); err != nil {
		return err
	}
	metadata = metadata.with("input", input)
	if len(t.head.kernelTuner) > 0 {
		metadata = metadata.with(kernelTunerForm, t.head.kernelTuner)
	}
	file := object{}.with("schema_version", t4Version).with("metadata", metadata)
	return writeJSON(w, append(file, t.head.t4.without("metadata")...).with("results", results))
}

// result writes one configuration.
func (t *Table) result(i int) (object, error) {
	w, rec := t.rows[i], t.record(i)
	var rest t4Rest
	if raw := rec.raw("t4"); raw != nil {
		var err error
		if rest, err = readT4Rest(raw); err != nil {
			return nil, err
		}
	}
	units, err := unitsOf(rec)
	if err != nil {
		return nil, err
	}
	var o object
	if raw := rec.raw("timestamp"); raw != nil {
		o = o.with("timestamp", raw)
	}
	configuration := object{}
	for n, k := range t.digits(w.rank) {
		configuration = configuration.with(t.params[n].name, t.params[n].values[k])
	}
	spent := rec
	whole := stages(rec) == nil
	if whole {
		spent = w.unsplit()
	}
	times := object{}
	for _, m := range spent {
		if key, ok := t4TimesOf[m.key]; ok {
			times = times.with(key, m.value)
		}
	}
	if raw := rec.raw("times"); raw != nil {
		times = times.with("runtimes", raw)
	}
	measurements := []any{}
	measurement := func(name string, value any, unit string) {
		measurements = append(measurements, object{}.with("name", name).with("value", value).with("unit", unit))
	}
	correct := 0
	word := "correct"
	if w.Failed == "" {
		correct = 1
		measurement(rest.objective(), w.TimeMS, "ms")
	} else if word = invalidity(w.Failed); invalid[word] != w.Failed {
		measurement("verdict", w.Failed, "")
	}
	if whole {
		measurement("cost_s", w.CostS, "s")
	}
	var other object // what cannot be measured
	for _, m := range rec {
		switch raw := m.value.(json.RawMessage); {
		case slices.Contains(recordKeys, m.key):
		case measurable(raw) && !slices.ContainsFunc(t.params, func(p param) bool { return p.name == m.key }):
			measurement(m.key, raw, units[m.key])
		default:
			other = append(other, m)
		}
	}
	for _, raw := range rest.measurements {
		measurements = append(measurements, raw)
	}
	o = o.with("configuration", append(configuration, rest.configuration...)).with("times", append(times, rest.times...)).with("invalidity", word)
	if rest.others.has("correctness") == "" {
		o = o.with("correctness", correct)
	}
	o = o.with("measurements", measurements)
	if rest.others.has("objectives") == "" {
		o = o.with("objectives", []string{"time"})
	}
	o = append(o, rest.others...)
	if len(other) > 0 {
		o = o.with(kernelTunerForm, other)
	}
	return o, nil
}

// measurable says whether the format has a place for a measurement of the
// value: a number, a text or a list.
func measurable(raw json.RawMessage) bool {
	switch scalar(raw).(type) {
	case json.Number, string, []any:
		return true
	}
	return false
}

// unitsOf are the units of the further keys of a record.
func unitsOf(rec record) (map[string]string, error) {
	units := map[string]string{}
	if raw := rec.raw("units"); raw != nil {
		if err := json.Unmarshal(raw, &units); err != nil {
			return nil, err
		}
	}
	return units, nil
}

// t4Metadata is what of the metadata is understood.
type t4Metadata struct {
	Device   string `json:"device"`
	Kernel   string `json:"kernel"`
	TimeUnit string `json:"timeunit"`
}

// A t4Result is one result of a file.
type t4Result struct {
	offset        int64
	configuration object
	whole         object // all of it
}

// A t4Measurement is a name, a value and a unit.
type t4Measurement struct {
	name, unit string
	value      json.RawMessage
	more       bool // there are further keys
}

func readT4(text []byte, name string, description *t1Input) (*Table, error) {
	r := newReader(text)
	if err := r.delim('{', "a file of results"); err != nil {
		return nil, err
	}
	var (
		metadata   object
		meta       t4Metadata
		results    []t4Result
		metaAt     int64
		more       head
		infeasible bool
		seen       = map[string]bool{}
	)
	for r.d.More() {
		at := r.here()
		key, err := r.str("a key")
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, fail(at, "key %q is there twice", key)
		}
		seen[key] = true
		switch key {
		case "metadata":
			metaAt = r.here()
			metadata, err = r.object(key)
		case "results":
			err = r.list(key, func(i int) error {
				result := t4Result{offset: r.here()}
				var err error
				if result.whole, err = r.object(fmt.Sprintf("result %d", i+1)); err == nil {
					result.configuration, err = members(result.whole.raw("configuration"))
				}
				if err != nil {
					return placed(result.offset, fmt.Sprintf("result %d", i+1), err)
				}
				results = append(results, result)
				return nil
			})
		default:
			var raw json.RawMessage
			raw, err = r.value(key)
			if key != "schema_version" {
				more.t4 = more.t4.with(key, raw)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.end("the results"); err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, fail(0, "no configuration is recorded")
	}
	// Faults of the metadata, which was read as a whole, are placed at its start.
	understand := func() error {
		raw, err := compactJSON(metadata)
		if err != nil {
			return err
		}
		if err := newReader(raw).into(&meta, "metadata"); err != nil {
			return err
		}
		if raw := metadata.raw("unrecorded"); raw != nil {
			absent, err := newReader(raw).unrecorded()
			if err != nil {
				return err
			}
			infeasible = !absent
		}
		if raw := metadata.raw(kernelTunerForm); raw != nil {
			if more.kernelTuner, err = members(raw); err == nil {
				err = checkKernelTunerRest(more.kernelTuner)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", kernelTunerForm, err)
			}
		}
		if raw := metadata.raw("input"); raw != nil && description == nil {
			whole, err := members(raw)
			if err == nil {
				description, err = newT1Input(whole)
			}
			if err != nil {
				return fmt.Errorf("input: %w", err)
			}
		}
		if rest := metadata.without(t4MetadataKeys...); len(rest) > 0 {
			raw, err := compactJSON(rest)
			if err != nil {
				return err
			}
			more.t4 = more.t4.with("metadata", json.RawMessage(raw))
		}
		return nil
	}
	if err := understand(); err != nil {
		return nil, fail(metaAt, "metadata: %v", err)
	}
	u, err := unitOf(meta.TimeUnit)
	if err != nil {
		return nil, fail(metaAt, "timeunit: %v", err)
	}
	var params []param
	var rules []rule
	if description == nil {
		if params, err = occurring(results); err != nil {
			return nil, err
		}
		if _, err := radix(params); err != nil {
			return nil, fail(metaAt, "%v", err)
		}
	} else if params, rules, err = description.space(); err != nil {
		return nil, fail(metaAt, "input: %v", err)
	}
	place := placesOf(params)
	rows := make([]Row, len(results))
	records := make([]record, len(results))
	for i, result := range results {
		if rows[i], records[i], err = result.row(place, u); err != nil {
			return nil, fail(result.offset, "result %d: %v", i+1, err)
		}
	}
	if meta.Kernel == "" {
		meta.Kernel = name
	}
	t, err := newTable(meta.Kernel, meta.Device, digest(text), params, rules, rows)
	if err != nil {
		return nil, err
	}
	t.head, t.records, t.listed = more, records, !infeasible
	if description != nil {
		if made, err := t.t1(); err != nil || !sameObject(made, description.whole) {
			t.head.t1 = description.whole
		}
	}
	return t, nil
}

// sameObject compares what two objects are as JSON.
func sameObject(a, b object) bool {
	x, errX := compactJSON(a)
	y, errY := compactJSON(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// occurring takes the values that occur, in ascending order where they are
// numbers.
func occurring(results []t4Result) ([]param, error) {
	var names []string
	values := map[string][]genome.Value{}
	for i, result := range results {
		for _, m := range result.configuration {
			name := m.key
			v, err := genome.ValueOf(scalar(m.value.(json.RawMessage)))
			if err != nil {
				return nil, fail(result.offset, "result %d: parameter %s: %v", i+1, oneLine(name), err)
			}
			if values[name] == nil {
				names = append(names, name)
			}
			if !slices.ContainsFunc(values[name], func(o genome.Value) bool { return same(o, v) }) {
				values[name] = append(values[name], v)
			}
		}
	}
	slices.Sort(names) // an object of JSON has no order
	params := []param{}
	for _, name := range names {
		list := values[name]
		slices.SortStableFunc(list, func(a, b genome.Value) int {
			x, okX := a.Number()
			y, okY := b.Number()
			switch {
			case okX && okY && x != y && x < y:
				return -1
			case okX && okY && x > y:
				return 1
			case okX && okY:
				return 0
			}
			return strings.Compare(a.String(), b.String())
		})
		params = append(params, param{name, list})
	}
	return params, nil
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
	return unit{}, fmt.Errorf("%s is no unit of time known here: there are nanoseconds, microseconds, milliseconds, seconds", show(json.Token(name)))
}

// row reads one result. u is the unit of the file's times.
func (t t4Result) row(place places, u unit) (w Row, rec record, err error) {
	w.offset = t.offset
	if w.rank, err = place.rank(t.configuration); err != nil {
		return w, nil, err
	}
	rest := t4Rest{configuration: t.configuration.without(place.names...)}
	entry, err := t.entry(&rest, u)
	if err != nil {
		return w, nil, err
	}
	var measurements []t4Measurement
	if raw := t.whole.raw("measurements"); told(raw) {
		list, err := list(raw)
		if err != nil {
			return w, nil, fmt.Errorf("measurements: %w", err)
		}
		for i, raw := range list {
			m, err := readMeasurement(raw)
			if err != nil {
				return w, nil, fmt.Errorf("measurement %d: %w", i+1, err)
			}
			measurements = append(measurements, m)
			rest.measurements = append(rest.measurements, raw)
		}
	}
	word, _ := scalar(t.whole.raw("invalidity")).(string)
	verdict, ok := invalid[word]
	if !ok {
		return w, nil, fmt.Errorf("invalidity is %s, which T4 does not have", show(scalar(t.whole.raw("invalidity"))))
	}
	if verdict != evaluator.Correct {
		w.Failed = verdict
	} else if w.TimeMS, err = t4Time(rest.objective(), measurements, entry, u); err != nil {
		return w, nil, err
	}
	// What has a place of its own leaves the list of measurements.
	var units object
	var whole json.RawMessage
	left := rest.measurements[:0]
	for i, m := range measurements {
		own := evaluator.Verdict("")
		if m.name == "verdict" {
			own = verdictOf(scalar(m.value))
		}
		number, _ := scalar(m.value).(json.Number)
		switch plain := !m.more; {
		case w.Failed == "" && plain && m.name == rest.objective() && !slices.ContainsFunc(measurements[:i], func(o t4Measurement) bool { return o.name == m.name }):
		case plain && m.name == "verdict" && (own != "" && invalidity(own) == word || w.Failed == "" && string(m.value) == `"correct"`):
			if own != "" {
				w.Failed = own
			}
		case plain && m.name == "cost_s" && m.unit == "s" && number != "" && whole == nil:
			whole = m.value
		case plain && measurable(m.value) && !slices.Contains(recordKeys, m.name) && !slices.Contains(rowKeys, m.name) &&
			!slices.Contains(place.names, m.name) && entry.has(m.name) == "":
			entry = entry.with(m.name, m.value)
			if m.unit != "" {
				units = units.with(m.name, m.unit)
			}
		default:
			left = append(left, rest.measurements[i])
		}
	}
	rest.measurements = left
	if raw := t.whole.raw(kernelTunerForm); raw != nil {
		others, err := members(raw)
		if err != nil {
			return w, nil, fmt.Errorf("%s: %w", kernelTunerForm, err)
		}
		for _, m := range others {
			if key := (object{m}).has(slices.Concat(recordKeys, rowKeys)...); key != "" || entry.has(m.key) != "" {
				return w, nil, fmt.Errorf("%s: key %q is not expected here", kernelTunerForm, m.key)
			}
			entry = append(entry, m)
		}
	}
	if len(units) > 0 {
		entry = entry.with("units", units)
	}
	if more := rest.object(); len(more) > 0 {
		entry = entry.with("t4", more)
	}
	if entry, err = rawObject(entry); err != nil {
		return w, nil, err
	}
	if told(whole) {
		entry = withoutStages(entry)
	}
	if rec, err = newRecord(entry, place.params); err != nil {
		return w, nil, err
	}
	return w, rec, w.setCost(rec, whole)
}

// entry begins the entry of a cache file that says what a result does; rest
// gets what has no place there, but for measurements.
func (t t4Result) entry(rest *t4Rest, u unit) (object, error) {
	var entry object
	for _, m := range t.whole {
		raw := m.value.(json.RawMessage)
		switch m.key {
		case "configuration", "invalidity", "measurements", kernelTunerForm:
		case "timestamp":
			entry = append(entry, m)
		case "times":
			times, err := members(raw)
			if err != nil {
				return nil, fmt.Errorf("times: %w", err)
			}
			for _, m := range times {
				ms, err := inMS(m.value.(json.RawMessage), u)
				key, known := t4Times[m.key]
				switch {
				case known && err != nil:
					return nil, fmt.Errorf("%s: %w", m.key, err)
				case known && entry.has(key) != "":
					return nil, errors.New("compilation_time and compilation are both there")
				case known:
					entry = entry.with(key, ms)
				case err != nil: // no time at all
					rest.times = append(rest.times, m)
				default:
					rest.times = rest.times.with(m.key, ms)
				}
			}
		case "correctness":
			correct := "0"
			if string(t.whole.raw("invalidity")) == `"correct"` {
				correct = "1"
			}
			if string(raw) != correct {
				rest.others = append(rest.others, m)
			}
		case "objectives":
			if string(raw) != `["time"]` {
				rest.others = append(rest.others, m)
			}
		default:
			rest.others = append(rest.others, m)
		}
	}
	if samples := entry.raw("times"); samples != nil && entry.has("benchmark_time") == "" {
		list, err := numbers(samples)
		if err != nil {
			return nil, fmt.Errorf("runtimes: %w", err)
		}
		sum := 0.0
		for _, ms := range list {
			sum += ms
		}
		raw, err := compactJSON(sum)
		if err != nil {
			return nil, fmt.Errorf("runtimes: %w", err)
		}
		entry = entry.with("benchmark_time", json.RawMessage(raw))
	}
	return entry, nil
}

// inMS writes a time, or a list of them, in milliseconds.
func inMS(raw json.RawMessage, u unit) (json.RawMessage, error) {
	var ms any
	switch v := scalar(raw).(type) {
	case []any:
		list := make([]float64, len(v))
		for i, x := range v {
			var err error
			if x == nil {
				err = errors.New("null is not a number")
			} else {
				list[i], err = millis(x, u)
			}
			if err != nil {
				return nil, err
			}
		}
		ms = list
	case nil:
		return raw, nil
	default:
		x, err := millis(v, u)
		if err != nil {
			return nil, err
		}
		ms = x
	}
	if u == unitless {
		return raw, nil // as it was written
	}
	return compactJSON(ms)
}

func readMeasurement(raw json.RawMessage) (t4Measurement, error) {
	var m t4Measurement
	o, err := members(raw)
	if err != nil {
		return m, err
	}
	name, okName := scalar(o.raw("name")).(string)
	unit, okUnit := scalar(o.raw("unit")).(string)
	m.name, m.unit, m.value = name, unit, o.raw("value")
	m.more = !okName || !okUnit && told(o.raw("unit")) || m.value == nil || len(o.without("name", "value", "unit")) > 0
	return m, nil
}

// t4Time finds what was minimised, in milliseconds: the measurement that the
// objective names, or the median of the samples.
func t4Time(objective string, measurements []t4Measurement, entry object, u unit) (float64, error) {
	for _, m := range measurements {
		if m.name != objective {
			continue
		}
		if m.unit != "" {
			var err error
			if u, err = unitOf(m.unit); err != nil {
				return 0, fmt.Errorf("the objective %s: %w", oneLine(objective), err)
			}
		} else if objective != "time" {
			return 0, fmt.Errorf("the objective %s has no unit of time: only times can be replayed", oneLine(objective))
		}
		ms, err := millis(scalar(m.value), u)
		if err == nil && ms <= 0 {
			err = fmt.Errorf("%g ms is no time", ms)
		}
		if err != nil {
			return 0, fmt.Errorf("the objective %s: %w", oneLine(objective), err)
		}
		return ms, nil
	}
	samples, err := numbers(entry.raw("times"))
	if err != nil || len(samples) == 0 || objective != "time" {
		return 0, fmt.Errorf("it is correct and has no measurement %q", oneLine(objective))
	}
	ms := evaluator.Median(samples)
	if ms <= 0 {
		return 0, fmt.Errorf("runtimes: %g ms is no time", ms)
	}
	return ms, nil
}
