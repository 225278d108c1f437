package tables

import (
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

// invalidity are T4's words for how candidates end.
var invalidity = vocabulary{
	{"correct", []evaluator.Verdict{evaluator.Correct}},
	{"constraints", []evaluator.Verdict{evaluator.Infeasible}},
	{"compile", []evaluator.Verdict{evaluator.Compile, evaluator.Render, evaluator.Inspect}},
	{"runtime", []evaluator.Verdict{evaluator.Launch}},
	{"timeout", []evaluator.Verdict{evaluator.Timeout}},
	{"correctness", []evaluator.Verdict{evaluator.Parity, evaluator.Sanitizer, evaluator.Implausible}},
}

// Keys that are not kept as they are but made anew: of the top-level object, of
// the metadata, and of a result.
var (
	t4Keys         = []string{"schema_version", "results"}
	t4MetadataKeys = []string{"device", "kernel", "timeunit", "input", "unrecorded", kernelTunerForm}
	t4ResultKeys   = []string{"timestamp", "invalidity", kernelTunerForm}
)

// t4Times are the keys of a record that a result's times stand for.
var t4Times = func() map[string]string {
	keys := map[string]string{"runtimes": "times", "compilation": "compile_time"}
	for _, s := range costStages {
		keys[s.t4] = s.key
	}
	return keys
}()

// A t4Rest is what a result holds that has no other place.
type t4Rest struct {
	configuration object            // values of what is not a parameter
	times         object            // further times, in milliseconds
	measurements  []json.RawMessage // those that are more than a name, a value and a unit
	others        object            // correctness and objectives, where they are not as usual, and further keys
}

// checkT4Rest checks what another form keeps of a result.
func checkT4Rest(raw json.RawMessage, params []Parameter) error {
	rest, err := readT4Rest(raw)
	if err != nil {
		return err
	}
	key := rest.others.has(t4ResultKeys...)
	for _, p := range params {
		key = cmp.Or(key, rest.configuration.has(p.Name))
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

// objective is the name of the measurement that was minimised.
func (rest t4Rest) objective() string {
	if names, ok := scalar(rest.others.raw("objectives")).([]any); ok && len(names) > 0 {
		if name, ok := names[0].(string); ok {
			return name
		}
	}
	return "time"
}

// measured are the names of the measurements that are kept.
func (rest t4Rest) measured() []string {
	var names []string
	for _, raw := range rest.measurements {
		if m, err := readMeasurement(raw); err == nil {
			names = append(names, m.name)
		}
	}
	return names
}

func (t *Table) encodeT4(w io.Writer) error {
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
	if raw := t.heads[t4Form].raw("metadata"); raw != nil {
		rest, err := members(raw)
		if err != nil {
			return err
		}
		metadata = append(metadata, rest...)
	}
	if metadata, err = t.withUnrecorded(metadata); err != nil {
		return err
	}
	metadata = t.withHeads(metadata.with("input", input), kernelTunerForm)
	file := object{}.with("schema_version", t4Version).with("metadata", metadata)
	return writeJSON(w, append(file, t.heads[t4Form].without("metadata")...).with("results", results))
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
	spent := rec
	whole := stages(rec) == nil
	if whole {
		spent = w.unsplit()
	}
	times := object{}
	for _, m := range spent {
		if k := slices.Index(stageKeys, m.key); k >= 0 {
			times = times.with(costStages[k].t4, m.value)
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
		timed := rest.objective()
		if slices.Contains(rest.measured(), timed) || rec.raw(timed) != nil { // the objective is not a time
			timed = "time"
		}
		measurement(timed, w.TimeMS, "ms")
	} else if word = invalidity.word(w.Failed); !invalidity.whole(w.Failed) {
		measurement("verdict", w.Failed, "")
	}
	if whole {
		measurement("cost_s", w.CostS, "s")
	}
	var other object // what cannot be measured
	for _, m := range rec {
		switch raw := m.value.(json.RawMessage); {
		case slices.Contains(recordKeys, m.key):
		case measurable(raw) && !slices.ContainsFunc(t.params, func(p Parameter) bool { return p.Name == m.key }):
			measurement(m.key, raw, units[m.key])
		default:
			other = append(other, m)
		}
	}
	for _, raw := range rest.measurements {
		measurements = append(measurements, raw)
	}
	o = o.with("configuration", append(t.configuration(w), rest.configuration...)).with("times", append(times, rest.times...)).with("invalidity", word)
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
	// input describes the space: what is beside the file or else in it; nil without.
	input *t1Input
}

// A t4Measurement is a name, a value and a unit.
type t4Measurement struct {
	name, unit string
	value      json.RawMessage
	more       bool // there are further keys
}

func (t *Table) decodeT4(r *reader, description *t1Input) error {
	var (
		metadata object
		metaAt   int64
		results  []entry
	)
	t.listed = true
	if err := r.file("a file of results", "the results", func(key string, _ int64) (err error) {
		switch key {
		case "metadata":
			metaAt = r.here()
			metadata, err = r.object(key)
		case "results":
			results, err = r.results()
		default:
			var raw json.RawMessage
			raw, err = r.value(key)
			if key != "schema_version" {
				t.heads[t4Form] = t.heads[t4Form].with(key, raw)
			}
		}
		return err
	}); err != nil {
		return err
	}
	if len(results) == 0 {
		return fail(0, "no configuration is recorded")
	}
	// Faults of the metadata, which was read as a whole, are placed at its start.
	meta, err := t.decodeT4Metadata(metadata, description)
	if err != nil {
		return fail(metaAt, "metadata: %v", err)
	}
	u, err := unitOf(meta.TimeUnit)
	if err != nil {
		return fail(metaAt, "timeunit: %v", err)
	}
	if description = meta.input; description == nil {
		if t.params, err = occurring(results); err != nil {
			return err
		}
		if _, err := radix(t.params); err != nil {
			return fail(metaAt, "%v", err)
		}
	} else if t.params, t.rules, err = description.space(); err != nil {
		return fail(metaAt, "input: %v", err)
	}
	another := "" // an objective that is not a time
	if err := t.decodeEntries(results, func(e entry, place places) (Row, record, error) {
		w, rec, rest, err := e.t4(place, u)
		if objective := rest.objective(); w.Failed == "" && (slices.Contains(rest.measured(), objective) || rec.raw(objective) != nil) {
			another = objective
		}
		return w, rec, err
	}); err != nil {
		return err
	}
	t.noticeObjective(another)
	if description != nil {
		if made, err := t.t1(); err != nil || !sameObject(made, description.whole) {
			t.heads[t1Form] = description.whole
		}
	}
	return nil
}

// results reads the configurations.
func (r *reader) results() ([]entry, error) {
	var results []entry
	err := r.list("results", func(i int) error {
		e := entry{what: fmt.Sprintf("result %d", i+1), offset: r.here()}
		var err error
		if e.members, err = r.object(e.what); err == nil {
			e.configuration, err = members(e.members.raw("configuration"))
		}
		if err != nil {
			return placed(e.offset, e.what, err)
		}
		results = append(results, e)
		return nil
	})
	return results, err
}

// decodeT4Metadata understands the metadata, and keeps the rest of them.
func (t *Table) decodeT4Metadata(metadata object, description *t1Input) (meta t4Metadata, err error) {
	text, err := compactJSON(metadata)
	if err != nil {
		return meta, err
	}
	if err := newReader(text).into(&meta, "metadata"); err != nil {
		return meta, err
	}
	t.name, t.device = cmp.Or(meta.Kernel, t.name), meta.Device
	if raw := metadata.raw("unrecorded"); raw != nil {
		if t.listed, err = newReader(raw).unrecorded(); err != nil {
			return meta, err
		}
	}
	if raw := metadata.raw(kernelTunerForm); raw != nil {
		head, err := members(raw)
		if err == nil {
			err = t.keepHead(kernelTunerForm, head)
		}
		if err != nil {
			return meta, fmt.Errorf("%s: %w", kernelTunerForm, err)
		}
	}
	meta.input = description
	if raw := metadata.raw("input"); raw != nil && description == nil {
		whole, err := members(raw)
		if err == nil {
			meta.input, err = newT1Input(whole)
		}
		if err != nil {
			return meta, fmt.Errorf("input: %w", err)
		}
	}
	if rest := metadata.without(t4MetadataKeys...); len(rest) > 0 {
		raw, err := compactJSON(rest)
		if err != nil {
			return meta, err
		}
		t.heads[t4Form] = t.heads[t4Form].with("metadata", json.RawMessage(raw))
	}
	return meta, nil
}

// occurring takes the values that occur, in ascending order where they are
// numbers.
func occurring(results []entry) ([]Parameter, error) {
	var names []string
	values := map[string][]genome.Value{}
	for _, result := range results {
		for _, m := range result.configuration {
			name := m.key
			v, err := genome.ValueOf(scalar(m.value.(json.RawMessage)))
			if err != nil {
				return nil, fail(result.offset, "%s: parameter %s: %v", result.what, oneLine(name), err)
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
	params := []Parameter{}
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
		params = append(params, parameter(name, list))
	}
	return params, nil
}

// t4 is what a result says beside its values. u is the unit of the file's times.
func (e entry) t4(place places, u unit) (w Row, rec record, rest t4Rest, err error) {
	rest = t4Rest{configuration: e.configuration.without(place.names...)}
	made, err := e.t4Record(&rest, u)
	if err != nil {
		return w, nil, rest, err
	}
	var measurements []t4Measurement
	if raw := e.members.raw("measurements"); told(raw) {
		list, err := list(raw)
		if err != nil {
			return w, nil, rest, fmt.Errorf("measurements: %w", err)
		}
		for i, raw := range list {
			m, err := readMeasurement(raw)
			if err != nil {
				return w, nil, rest, fmt.Errorf("measurement %d: %w", i+1, err)
			}
			measurements = append(measurements, m)
			rest.measurements = append(rest.measurements, raw)
		}
	}
	timed := "" // the measurement that is the time
	word, _ := scalar(e.members.raw("invalidity")).(string)
	verdict := invalidity.verdict(word)
	if verdict == "" {
		return w, nil, rest, fmt.Errorf("invalidity is %s, which T4 does not have", show(scalar(e.members.raw("invalidity"))))
	}
	if verdict != evaluator.Correct {
		w.Failed = verdict
	} else if timed, w.TimeMS, err = t4Time(rest.objective(), measurements, made, u); err != nil {
		return w, nil, rest, err
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
		case w.Failed == "" && plain && m.name == timed && !slices.ContainsFunc(measurements[:i], func(o t4Measurement) bool { return o.name == m.name }):
		case plain && m.name == "verdict" && (own != "" && invalidity.word(own) == word || w.Failed == "" && string(m.value) == `"correct"`):
			if own != "" {
				w.Failed = own
			}
		case plain && m.name == "cost_s" && m.unit == "s" && number != "" && whole == nil:
			whole = m.value
		case plain && measurable(m.value) && !slices.Contains(recordKeys, m.name) && !slices.Contains(rowKeys, m.name) &&
			!slices.Contains(place.names, m.name) && made.has(m.name) == "":
			made = made.with(m.name, m.value)
			if m.unit != "" {
				units = units.with(m.name, m.unit)
			}
		default:
			left = append(left, rest.measurements[i])
		}
	}
	rest.measurements = left
	if raw := e.members.raw(kernelTunerForm); raw != nil {
		others, err := members(raw)
		if err != nil {
			return w, nil, rest, fmt.Errorf("%s: %w", kernelTunerForm, err)
		}
		for _, m := range others {
			if key := (object{m}).has(slices.Concat(recordKeys, rowKeys)...); key != "" || made.has(m.key) != "" {
				return w, nil, rest, fmt.Errorf("%s: key %q is not expected here", kernelTunerForm, m.key)
			}
			made = append(made, m)
		}
	}
	if len(units) > 0 {
		made = made.with("units", units)
	}
	if more := rest.object(); len(more) > 0 {
		made = made.with("t4", more)
	}
	if made, err = rawObject(made); err != nil {
		return w, nil, rest, err
	}
	if told(whole) {
		made = withoutStages(made)
	}
	if rec, err = newRecord(made, place.params); err != nil {
		return w, nil, rest, err
	}
	return w, rec, rest, w.setCost(rec, whole)
}

// t4Record begins the entry of a cache file that says what a result does; rest
// gets what has no place there, but for measurements.
func (e entry) t4Record(rest *t4Rest, u unit) (object, error) {
	var made object
	for _, m := range e.members {
		raw := m.value.(json.RawMessage)
		switch m.key {
		case "configuration", "invalidity", "measurements", kernelTunerForm:
		case "timestamp":
			made = append(made, m)
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
				case known && made.has(key) != "":
					return nil, errors.New("compilation_time and compilation are both there")
				case known:
					made = made.with(key, ms)
				case err != nil: // no time at all
					rest.times = append(rest.times, m)
				default:
					rest.times = rest.times.with(m.key, ms)
				}
			}
		case "correctness":
			correct := "0"
			if string(e.members.raw("invalidity")) == `"correct"` {
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
	if samples := made.raw("times"); samples != nil && made.has("benchmark_time") == "" {
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
		made = made.with("benchmark_time", json.RawMessage(raw))
	}
	return made, nil
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

// t4Time finds the time of a configuration, in milliseconds, and the name of its
// measurement: the one that the objective names, or "time" where that is not a time,
// or the median of the samples.
func t4Time(objective string, measurements []t4Measurement, entry object, u unit) (name string, ms float64, err error) {
	for _, m := range measurements {
		if m.name != objective {
			continue
		}
		var isTime error
		if m.unit != "" {
			u, isTime = unitOf(m.unit)
		} else if objective != "time" {
			isTime = errors.New("it has no unit of time")
		}
		if isTime != nil {
			if objective != "time" {
				if name, ms, err := t4Time("time", measurements, entry, u); err == nil {
					return name, ms, nil
				}
			}
			return "", 0, fmt.Errorf("the objective %s: %w, and no other time is there: only times can be replayed", oneLine(objective), isTime)
		}
		ms, err := millis(scalar(m.value), u)
		if err == nil && ms <= 0 {
			err = fmt.Errorf("%g ms is no time", ms)
		}
		if err != nil {
			return "", 0, fmt.Errorf("the objective %s: %w", oneLine(objective), err)
		}
		return objective, ms, nil
	}
	samples, err := numbers(entry.raw("times"))
	if err != nil || len(samples) == 0 || objective != "time" {
		return "", 0, fmt.Errorf("it is correct and has no measurement %q", oneLine(objective))
	}
	if ms = evaluator.Median(samples); ms <= 0 {
		return "", 0, fmt.Errorf("runtimes: %g ms is no time", ms)
	}
	return "time", ms, nil
}
