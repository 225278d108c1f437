package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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

// A format reads tables of one kind of file.
type format struct {
	name string
	// mark is a key of the top-level object that only this format has.
	mark string
	read func(text []byte, name string) (*Table, error)
}

// formats are those that Read tells apart, by the keys of the top-level object.
var formats = []format{
	{"compact", "configs", readCompact},
}

// Read reads a table from a stream, gzipped or not. name stands for the file in
// messages, and for the space if the file does not name it.
func Read(r io.Reader, name string) (*Table, error) {
	text, err := plain(r)
	if err != nil {
		return nil, fmt.Errorf("replay: %s: %w: %w", name, ErrFormat, err)
	}
	t, err := decode(text, name)
	if err == nil {
		err = t.verify()
	}
	if err != nil {
		return nil, locate(text, name, err)
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

// decode finds the format.
func decode(text []byte, name string) (*Table, error) {
	for _, f := range formats {
		if hasKey(text, f.mark) {
			return f.read(text, name)
		}
	}
	// Not valid JSON, or an object without the key that we need: the reader of
	// the first format knows how to say what is missing and where.
	return formats[0].read(text, name)
}

// hasKey looks for a key of the top-level object, up to the first fault.
func hasKey(text []byte, key string) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return false
		}
		if t == key {
			return true
		}
		var skip json.RawMessage
		if d.Decode(&skip) != nil {
			return false
		}
	}
	return false
}

// A positionError is a fault at a byte of the text.
type positionError struct {
	offset int64
	msg    string
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
	return &positionError{at, fmt.Sprintf(msg, args...)}
}

// broken turns an error of the JSON decoder into a fault.
func (r *reader) broken(at int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fail(int64(len(r.text)), "the file ends too early")
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

func readCompact(text []byte, name string) (*Table, error) {
	r := newReader(text)
	if err := r.delim('{', "a recorded space"); err != nil {
		return nil, err
	}
	var (
		space, device string
		params        []param
		rules         []rule
		rows          []row
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
	return newTable(space, device, digest(text), params, rules, rows)
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
		p := param{name: name}
		at = r.here()
		seen := map[genome.Value]bool{}
		if err := r.list("the values of "+name, func(int) error {
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
			p.values = append(p.values, v)
			return nil
		}); err != nil {
			return err
		}
		if len(p.values) == 0 {
			return fail(at, "parameter %s has no values", name)
		}
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

func (r *reader) configs(params []param) ([]row, error) {
	var rows []row
	err := r.list("configs", func(i int) error {
		w := row{offset: r.here()}
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
			w.failed = evaluator.Launch
		case time <= 0:
			return fail(at, "%s: the time must be above 0 ms, or null if it failed, not %g", what, time)
		default:
			w.timeMS = time
		}
		cost, ok, at, err := r.number(what + ": the cost")
		if err != nil {
			return err
		}
		if !ok || cost < 0 || cost > maxCost {
			return fail(at, "%s: the cost must be a number of seconds from 0 to %g", what, float64(maxCost))
		}
		w.costS = cost
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
	b := bufio.NewWriter(w)
	text := func(v any) string {
		var s strings.Builder
		e := json.NewEncoder(&s)
		e.SetEscapeHTML(false) // constraints are full of < and >
		_ = e.Encode(v)        // strings, integers and values always have a JSON form
		return strings.TrimSuffix(s.String(), "\n")
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
		if r.failed == "" {
			time = number(r.timeMS)
		}
		fmt.Fprintf(b, "%s\n[%s,%s,%s]", comma(i), text(t.digits(r.rank)), time, number(r.costS))
	}
	fmt.Fprint(b, "]}\n")
	return b.Flush()
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}
