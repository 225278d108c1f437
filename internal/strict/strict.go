// Package strict reads JSON that people write. encoding/json takes the last of two equal keys and
// a key in other case without a word; here both are errors.
package strict

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Unmarshal is json.Unmarshal, and refuses an object in which a key is there twice, or is a field's
// in other case. A key that is not a field's is ignored. Values that read themselves are looked at for
// keys that are there twice alone.
func Unmarshal(text []byte, v any) error {
	if err := Check(text, v); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// Check refuses what Unmarshal refuses besides encoding/json. What is not JSON, or of another type,
// passes: encoding/json says so.
func Check(text []byte, v any) error {
	if bytes.IndexByte(text, '{') < 0 { // there are no keys
		return nil
	}
	w := &walker{d: json.NewDecoder(bytes.NewReader(text))}
	w.d.UseNumber()
	_, err := w.value(reflect.TypeOf(v))
	return err
}

type walker struct {
	d  *json.Decoder
	at []any // where it is: keys, and indexes
}

// mostDepth is that of encoding/json.
const mostDepth = 10_000

// value walks over the next value, which is decoded into a t; nil is anything. It returns false
// when the text ends or is not JSON.
func (w *walker) value(t reflect.Type) (bool, error) {
	if len(w.at) > mostDepth {
		return false, nil
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && readsItself(t) {
		t = nil
	}
	token, err := w.d.Token()
	if err != nil {
		return false, nil //nolint:nilerr // encoding/json says it better
	}
	switch token {
	case json.Delim('{'):
		return w.object(t)
	case json.Delim('['):
		var of reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			of = t.Elem()
		}
		for i := 0; w.d.More(); i++ {
			if ok, err := w.part(i, of); !ok || err != nil {
				return ok, err
			}
		}
		_, err := w.d.Token()
		return err == nil, nil
	}
	return true, nil
}

// object walks over the members of an object, and its brace.
func (w *walker) object(t reflect.Type) (bool, error) {
	var fields map[string]reflect.Type
	var of reflect.Type // of the values of a map
	switch {
	case t == nil:
	case t.Kind() == reflect.Struct:
		fields = map[string]reflect.Type{}
		fieldsOf(t, fields)
	case t.Kind() == reflect.Map:
		of = t.Elem()
	}
	seen := map[string]bool{}
	for w.d.More() {
		token, err := w.d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return false, nil //nolint:nilerr // encoding/json says it better
		}
		if seen[key] {
			return false, fmt.Errorf("key %.60q is there twice%s", key, w.in())
		}
		seen[key] = true
		kind, known := fields[key]
		if !known {
			kind = of
			for name := range fields {
				if strings.EqualFold(name, key) {
					return false, fmt.Errorf("key %.60q is spelled %q%s", key, name, w.in())
				}
			}
		}
		if ok, err := w.part(key, kind); !ok || err != nil {
			return ok, err
		}
	}
	_, err := w.d.Token()
	return err == nil, nil
}

// part walks over a member or an element.
func (w *walker) part(name any, t reflect.Type) (bool, error) {
	w.at = append(w.at, name)
	ok, err := w.value(t)
	w.at = w.at[:len(w.at)-1]
	return ok, err
}

// in says where it is; empty at the top.
func (w *walker) in() string {
	var b strings.Builder
	for _, part := range w.at {
		switch part := part.(type) {
		case string:
			fmt.Fprintf(&b, ".%.60s", part)
		default:
			fmt.Fprintf(&b, "[%d]", part)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf(" in %.120s", strings.TrimPrefix(b.String(), "."))
}

// fieldsOf collects the keys of a struct, with those of what it embeds.
func fieldsOf(t reflect.Type, out map[string]reflect.Type) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported(), name == "-":
		case f.Anonymous && name == "":
		case name != "":
			out[name] = f.Type
		default:
			out[f.Name] = f.Type
		}
	}
}

// readsItself says whether a type has a method that reads its JSON.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
