package tables

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
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

// A format reads tables of one kind of file.
type format struct {
	name string
	// mark is a key of the top-level object that only this format has; hint is
	// one that comes before it, in case the file ends there.
	mark, hint string
	read       func(text []byte, name string, description *t1Input) (*Table, error)
}

const (
	compactForm     = "compact"
	t4Form          = "t4"
	t1Form          = "t1"
	kernelTunerForm = "kerneltuner"
)

// formats are those that Read tells apart, by the keys of the top-level object.
var formats = []format{
	{compactForm, "configs", "params", readCompact},
	{t4Form, "results", "metadata", readT4},
	{kernelTunerForm, "cache", "device_name", readKernelTuner},
	{t1Form, "ConfigurationSpace", "General", func([]byte, string, *t1Input) (*Table, error) {
		return nil, fail(0, "a T1 description has no results: it goes beside a file that has some")
	}},
}

// Read reads a table from a stream, gzipped or not. name stands for the file in
// messages, and for the space if the file does not name it.
func Read(r io.Reader, name string) (*Table, error) {
	text, err := plain(r)
	if err != nil {
		return nil, fmt.Errorf("replay: %s: %w: %w", name, ErrFormat, err)
	}
	t, err := decode(text, name, nil)
	if err != nil {
		return nil, locate(text, name, err)
	}
	t.file = name
	if err := t.prove(text); err != nil {
		return nil, err
	}
	return t, nil
}

// plain reads the whole stream, decompressed.
func plain(r io.Reader) ([]byte, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	} else {
		r = b
	}
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("more than %d bytes", maxBytes)
	}
	return text, nil
}

// decode finds the format, by the first key that only one of them has.
func decode(text []byte, name string, description *t1Input) (*Table, error) {
	// Not valid JSON, or an object without a key that we know: the reader of the
	// first format knows how to say what is missing and where.
	found := formats[0]
	hinted := false
	for key := range keys(text) {
		if i := slices.IndexFunc(formats, func(f format) bool { return f.mark == key }); i >= 0 {
			found = formats[i]
			break
		}
		if i := slices.IndexFunc(formats, func(f format) bool { return f.hint == key }); i >= 0 && !hinted {
			found, hinted = formats[i], true
		}
	}
	t, err := found.read(text, name, description)
	if err != nil {
		return nil, err
	}
	t.form = found.name
	return t, nil
}

// keys gives the keys of the top-level object, up to the first fault.
func keys(text []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		d := json.NewDecoder(bytes.NewReader(text))
		if t, err := d.Token(); err != nil || t != json.Delim('{') {
			return
		}
		for d.More() {
			t, err := d.Token()
			key, ok := t.(string)
			if err != nil || !ok || !yield(key) {
				return
			}
			var skip json.RawMessage
			if d.Decode(&skip) != nil {
				return
			}
		}
	}
}

// A positionError is a fault at a byte of the text.
type positionError struct {
	offset int64
	msg    string
	cut    bool // the text ends too early
}

func (e *positionError) Error() string { return e.msg }

// locate turns a fault into one line with file, line and column.
func locate(text []byte, name string, err error) error {
	var p *positionError
	if !errors.As(err, &p) {
		return fmt.Errorf("replay: %s: %w: %w", name, ErrFormat, oneLineError{err})
	}
	before := text[:min(max(p.offset, 0), int64(len(text)))]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("replay: %s:%d:%d: %w: %s", name, line, column, ErrFormat, oneLine(p.msg))
}

// oneLine replaces what would break a line: messages quote what files contain.
func oneLine(msg string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, msg)
}

// A oneLineError is an error whose message has been freed of line breaks.
type oneLineError struct{ error }

func (e oneLineError) Error() string { return oneLine(e.error.Error()) }
func (e oneLineError) Unwrap() error { return e.error }

// A reader walks through the JSON text and knows where it is.
type reader struct {
	text []byte
	d    *json.Decoder
}

func newReader(text []byte) *reader {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return &reader{text, d}
}

// here is the offset of the next value.
func (r *reader) here() int64 {
	at := r.d.InputOffset()
	for at < int64(len(r.text)) && bytes.IndexByte([]byte(" \t\r\n,:"), r.text[at]) >= 0 {
		at++
	}
	return at
}

// fail makes a fault at the given place.
func fail(at int64, msg string, args ...any) error {
	return &positionError{offset: at, msg: fmt.Sprintf(msg, args...)}
}

// broken turns an error of the JSON decoder into a fault.
func (r *reader) broken(at int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &positionError{offset: int64(len(r.text)), msg: "the file ends too early", cut: true}
	}
	return fail(at, "%v", err)
}

// token reads one token.
func (r *reader) token() (json.Token, int64, error) {
	at := r.here()
	t, err := r.d.Token()
	if err != nil {
		return nil, at, r.broken(at, err)
	}
	return t, at, nil
}

// show presents a token in a message.
func show(t json.Token) string {
	switch t := t.(type) {
	case nil:
		return "null"
	case string:
		if len(t) > 40 {
			return strconv.Quote(t[:40]) + "..."
		}
		return strconv.Quote(t)
	}
	return fmt.Sprint(t)
}

// delim reads a bracket.
func (r *reader) delim(want json.Delim, what string) error {
	t, at, err := r.token()
	if err != nil {
		return err
	}
	if t != want {
		return fail(at, "%s: %q expected, not %s", what, want.String(), show(t))
	}
	return nil
}

// str reads a string.
func (r *reader) str(what string) (string, error) {
	t, at, err := r.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fail(at, "%s must be a string, not %s", what, show(t))
	}
	return s, nil
}

// list reads an array, element by element.
func (r *reader) list(what string, element func(i int) error) error {
	if err := r.delim('[', what); err != nil {
		return err
	}
	for i := 0; r.d.More(); i++ {
		if err := element(i); err != nil {
			return err
		}
	}
	return r.delim(']', what)
}

// number reads a number; null gives ok false.
func (r *reader) number(what string) (x float64, ok bool, at int64, err error) {
	t, at, err := r.token()
	if err != nil {
		return 0, false, at, err
	}
	if t == nil {
		return 0, false, at, nil
	}
	n, isNumber := t.(json.Number)
	if !isNumber {
		return 0, false, at, fail(at, "%s must be a number, not %s", what, show(t))
	}
	x, err = n.Float64()
	if err != nil {
		return 0, false, at, fail(at, "%s: %s is out of range", what, n)
	}
	return x, true, at, nil
}

func readCompact(text []byte, name string, description *t1Input) (*Table, error) {
	if description != nil {
		return nil, fail(0, "the compact form has constraints of its own: no T1 description goes with it")
	}
	r := newReader(text)
	if err := r.delim('{', "a recorded space"); err != nil {
		return nil, err
	}
	var (
		space, device string
		params        []param
		rules         []rule
		rows          []Row
		more          details
		seen          = map[string]bool{}
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
		case "name":
			space, err = r.str("name")
		case "device":
			device, err = r.str("device")
		case "params":
			params, err = r.params()
		case "constraints":
			rules, err = r.rules()
		case "fields":
			err = r.fields()
		case "configs":
			if params == nil {
				return nil, fail(at, `"params" must come before "configs"`)
			}
			rows, err = r.configs(params)
		case "details":
			if rows == nil {
				return nil, fail(at, `"configs" must come before "details"`)
			}
			more, err = r.details(params, rows)
		default:
			err = fail(at, "unknown key %q", key)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.delim('}', "a recorded space"); err != nil {
		return nil, err
	}
	if at := r.here(); at < int64(len(text)) {
		return nil, fail(at, "something follows the recorded space")
	}
	for _, key := range []string{"params", "configs"} {
		if !seen[key] {
			return nil, fail(0, "key %q is missing", key)
		}
	}
	if len(rows) == 0 {
		return nil, fail(0, "no configuration is recorded")
	}
	if space == "" {
		space = name
	}
	t, err := newTable(space, device, digest(text), params, rules, rows)
	if err != nil {
		return nil, err
	}
	t.head, t.records, t.listed = more.head, more.records, more.absent
	return t, nil
}

// details are what the compact form keeps for others.
type details struct {
	head    head
	records []record
	absent  bool // what is not recorded is not in the space
}

// details reads the last key; rows get their verdicts.
func (r *reader) details(params []param, rows []Row) (details, error) {
	var d details
	if err := r.delim('{', "details"); err != nil {
		return d, err
	}
	for r.d.More() {
		at := r.here()
		key, err := r.str("a key")
		if err != nil {
			return d, err
		}
		switch key {
		case kernelTunerForm:
			if d.head.kernelTuner, err = r.object(key); err == nil {
				err = checkKernelTunerRest(d.head.kernelTuner)
			}
		case t4Form:
			if d.head.t4, err = r.object(key); err == nil {
				err = checkT4Head(d.head.t4)
			}
		case t1Form:
			d.head.t1, err = r.object(key)
		case "unrecorded":
			d.absent, err = r.unrecorded()
		case "configs":
			d.records, err = r.records(params, rows)
		default:
			return d, fail(at, "unknown key %q in the details", key)
		}
		if err != nil {
			return d, placed(at, key, err)
		}
	}
	return d, r.delim('}', "details")
}

// unrecorded reads what is thought of configurations that the constraints allow
// and that are not recorded: "absent" from the space, or "infeasible".
func (r *reader) unrecorded() (absent bool, err error) {
	at := r.here()
	s, err := r.str("unrecorded")
	if err == nil && s != "absent" && s != "infeasible" {
		err = fail(at, `unrecorded is %s: expected "absent" or "infeasible"`, show(json.Token(s)))
	}
	return s == "absent", err
}

// placed gives a fault without a place the one of the key that it is under.
func placed(at int64, key string, err error) error {
	var p *positionError
	if errors.As(err, &p) {
		return err
	}
	return fail(at, "%s: %v", key, err)
}

// records reads what is told of each row.
func (r *reader) records(params []param, rows []Row) ([]record, error) {
	at := r.here()
	records := make([]record, 0, len(rows))
	err := r.list("the configurations' details", func(i int) error {
		at := r.here()
		what := fmt.Sprintf("details of configuration %d", i+1)
		entry, err := r.object(what)
		if err != nil {
			return err
		}
		if i >= len(rows) {
			return fail(at, "details of more than the %d configurations", len(rows))
		}
		w := &rows[i]
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
		rec, err := newRecord(entry, params)
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
		records = append(records, rec)
		return nil
	})
	if err == nil && len(records) != len(rows) {
		err = fail(at, "details of %d configurations; there are %d", len(records), len(rows))
	}
	return records, err
}

// params reads [["name", [values]], ...].
func (r *reader) params() ([]param, error) {
	at := r.here()
	params := []param{}
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
		p := param{name, values}
		params = append(params, p)
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

// values reads the values of a parameter.
func (r *reader) values(name string) ([]genome.Value, error) {
	at := r.here()
	var values []genome.Value
	seen := map[genome.Value]bool{}
	err := r.list("the values of "+name, func(int) error {
		t, at, err := r.token()
		if err != nil {
			return err
		}
		v, err := genome.ValueOf(t)
		if err != nil {
			return fail(at, "parameter %s: %v", name, err)
		}
		if seen[v] {
			return fail(at, "parameter %s has the value %s twice", name, v)
		}
		seen[v] = true
		values = append(values, v)
		return nil
	})
	if err == nil && len(values) == 0 {
		err = fail(at, "parameter %s has no values", name)
	}
	return values, err
}

func (r *reader) rules() ([]rule, error) {
	var rules []rule
	err := r.list("constraints", func(i int) error {
		at := r.here()
		source, err := r.str(fmt.Sprintf("constraint %d", i+1))
		if err != nil {
			return err
		}
		expr, err := translate(source)
		if err != nil {
			return fail(at, "constraint %q: %v", source, err)
		}
		rules = append(rules, rule{source, expr})
		return nil
	})
	return rules, err
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

func (r *reader) configs(params []param) ([]Row, error) {
	var rows []Row
	err := r.list("configs", func(i int) error {
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
			if k >= len(params) {
				return fail(at, "%s has more than %d value indexes", what, len(params))
			}
			if values := len(params[k].values); !ok || x != math.Trunc(x) || x < 0 || x >= float64(values) {
				return fail(at, "%s: the value index of %s must be a whole number below %d", what, params[k].name, values)
			}
			w.rank = w.rank*uint64(len(params[k].values)) + uint64(x)
			n++
			return nil
		}); err != nil {
			return err
		}
		if n != len(params) {
			return fail(w.offset, "%s has %d value indexes for %d parameters", what, n, len(params))
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
		rows = append(rows, w)
		return r.delim(']', what)
	})
	return rows, err
}

// maxCost is the longest evaluation that a table may have, in seconds: a
// hundred years, so that it fits a time.Duration.
const maxCost = 100 * 365 * 24 * 3600

// Encode writes the table in the compact form, one configuration per line. Read
// gives back an equal table.
func (t *Table) Encode(w io.Writer) error {
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
		fmt.Fprintf(b, "%s\n[%s,%s]", comma(i), text(p.name), text(p.values))
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
	var more object
	for _, h := range []struct {
		key  string
		head object
	}{{kernelTunerForm, t.head.kernelTuner}, {t4Form, t.head.t4}, {t1Form, t.head.t1}} {
		if len(h.head) > 0 {
			more = more.with(h.key, h.head)
		}
	}
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

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}
