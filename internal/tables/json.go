package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/evotune/evotune/internal/strict"
)

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
	end := len(bytes.TrimRight(text, " \t\r\n")) // a file that ends too early ends there
	before := text[:min(max(p.offset, 0), int64(end))]
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

// each reads the members of an object whose brace was read, and the other brace. name
// is what its keys are.
func (r *reader) each(name string, member func(key string, at int64) error) error {
	for r.d.More() {
		at := r.here()
		key, err := r.str(name)
		if err != nil {
			return err
		}
		if err := member(key, at); err != nil {
			return placed(at, key, err)
		}
	}
	return r.delim('}', name)
}

// file reads the whole text: one object, in which no key is there twice.
func (r *reader) file(begins, whole string, member func(key string, at int64) error) error {
	if err := r.delim('{', begins); err != nil {
		return err
	}
	seen := map[string]bool{}
	err := r.each("a key", func(key string, at int64) error {
		if seen[key] {
			return fail(at, "key %q is there twice", key)
		}
		seen[key] = true
		return member(key, at)
	})
	if err != nil {
		return err
	}
	return r.nothingAfter(whole)
}

// nothingAfter says whether the text ends here.
func (r *reader) nothingAfter(what string) error {
	if at := r.here(); at < int64(len(r.text)) {
		return fail(at, "something follows %s", what)
	}
	return nil
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

// into decodes the next value.
func (r *reader) into(v any, what string) error {
	at := r.here()
	var raw json.RawMessage
	err := r.d.Decode(&raw)
	if err == nil {
		if err := strict.Check(raw, v); err != nil {
			return fail(at, "%s: %v", what, err)
		}
		if text, ok := v.(*json.RawMessage); ok {
			*text = raw
			return nil
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		err = d.Decode(v)
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fail(at, "%s: %s is not expected here", what, kind.Value)
	}
	if err != nil {
		return r.broken(at, err)
	}
	return nil
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

// placed gives a fault without a place the one of the key that it is under.
func placed(at int64, key string, err error) error {
	var p *positionError
	if errors.As(err, &p) {
		return err
	}
	return fail(at, "%s: %v", key, err)
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
	err = r.each("a key", func(key string, at int64) error {
		if seen[key] {
			return fail(at, "%s: key %s is there twice", what, show(key))
		}
		seen[key] = true
		raw, err := r.value(what)
		o = o.with(key, raw)
		return err
	})
	return o, err
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

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := compactJSON(m.key)
		if err != nil {
			return nil, err
		}
		value, err := compactJSON(m.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.key, err)
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// compactJSON encodes without escaping < and >, of which constraints are full.
func compactJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// writeJSON writes the object with one line for each of its members, and one
// for each element of a member that is a list of objects or an object of them.
func writeJSON(w io.Writer, o object) error {
	var b bytes.Buffer
	line := func(prefix string, v any) error {
		text, err := compactJSON(v)
		b.WriteString(prefix)
		b.Write(text)
		return err
	}
	b.WriteByte('{')
	for i, m := range o {
		b.WriteString(comma(i) + "\n")
		if err := line("", m.key); err != nil {
			return err
		}
		b.WriteByte(':')
		switch value := m.value.(type) {
		case []object:
			b.WriteByte('[')
			for k, x := range value {
				if err := line(comma(k)+"\n", x); err != nil {
					return err
				}
			}
			b.WriteString("\n]")
		case lines:
			b.WriteByte('{')
			for k, x := range value {
				if err := line(comma(k)+"\n", x.key); err != nil {
					return err
				}
				if err := line(":", x.value); err != nil {
					return err
				}
			}
			b.WriteString("}\n") // Kernel Tuner looks for a closing brace on a line of its own
		default:
			if err := line("", value); err != nil {
				return err
			}
		}
	}
	s := strings.TrimSuffix(b.String(), "\n") + "\n}"
	_, err := io.WriteString(w, s)
	return err
}

// lines is an object that is written with one line for each member.
type lines object

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// list reads the elements of a list.
func list(raw json.RawMessage) ([]json.RawMessage, error) {
	var out []json.RawMessage
	if json.Unmarshal(raw, &out) != nil {
		return nil, errors.New("a list is expected")
	}
	return out, nil
}

// sameObject compares what two objects are as JSON.
func sameObject(a, b object) bool {
	x, errX := compactJSON(a)
	y, errY := compactJSON(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
