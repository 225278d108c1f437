package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// A Kind is the type of a Value.
type Kind uint8

// The kinds of values.
const (
	KindNone Kind = iota // the zero Value: no value at all
	KindInt
	KindFloat
	KindBool
	KindString
)

// String names the kind as error messages do.
func (k Kind) String() string {
	switch k {
	case KindInt:
		return "integer"
	case KindFloat:
		return "float"
	case KindBool:
		return "boolean"
	case KindString:
		return "string"
	}
	return "nothing"
}

// A Value is what a name has and an expression gives: an int64, a float64, a bool or a string. Values are
// comparable with ==; Int(1) and Float(1) differ. The zero Value is none of
// these.
type Value struct {
	kind Kind
	bits uint64 // the integer, the bits of the float, or 0 and 1
	str  string
}

// Int makes an integer value.
func Int(i int64) Value { return Value{kind: KindInt, bits: uint64(i)} }

// Float makes a floating-point value. Negative zero becomes zero, so that
// equal numbers are equal values. NaN and the infinities can be held, but no
// gene accepts them.
func Float(f float64) Value {
	if f == 0 {
		f = 0 // drops the sign of negative zero
	}
	return Value{kind: KindFloat, bits: math.Float64bits(f)}
}

// Bool makes a boolean value.
func Bool(b bool) Value {
	if b {
		return Value{kind: KindBool, bits: 1}
	}
	return Value{kind: KindBool}
}

// Str makes a string value.
func Str(s string) Value { return Value{kind: KindString, str: s} }

// ValueOf makes a value of a Go integer, float, bool, string or Value. It
// fails for everything else, and for integers beyond int64.
func ValueOf(x any) (Value, error) {
	switch x := x.(type) {
	case Value:
		if x.kind != KindNone {
			return x, nil
		}
	case int:
		return Int(int64(x)), nil
	case int8:
		return Int(int64(x)), nil
	case int16:
		return Int(int64(x)), nil
	case int32:
		return Int(int64(x)), nil
	case int64:
		return Int(x), nil
	case uint:
		return unsigned(uint64(x))
	case uint8:
		return Int(int64(x)), nil
	case uint16:
		return Int(int64(x)), nil
	case uint32:
		return Int(int64(x)), nil
	case uint64:
		return unsigned(x)
	case float32:
		return Float(float64(x)), nil
	case float64:
		return Float(x), nil
	case bool:
		return Bool(x), nil
	case string:
		return Str(x), nil
	case json.Number:
		return parseNumber(x.String())
	}
	return Value{}, fmt.Errorf("a value must be an integer, a float, a boolean or a string, not %s", typeOf(x))
}

// typeOf names what is not a value, as files have it.
func typeOf(x any) string {
	switch x := x.(type) {
	case nil:
		return "null"
	case json.Delim:
		if x == '{' {
			return "an object"
		}
		return "a list"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case Value:
		return "nothing"
	}
	if k := reflect.ValueOf(x).Kind(); k == reflect.Slice || k == reflect.Array {
		return "a list"
	}
	return fmt.Sprintf("a %T of Go", x)
}

// One names one value of the kind.
func (k Kind) One() string {
	if k == KindInt {
		return "an " + k.String()
	}
	return "a " + k.String()
}

func unsigned(u uint64) (Value, error) {
	if u > math.MaxInt64 {
		return Value{}, fmt.Errorf("integer %d is beyond the largest, %d", u, int64(math.MaxInt64))
	}
	return Int(int64(u)), nil
}

// Kind tells the type of the value.
func (v Value) Kind() Kind { return v.kind }

// Any gives the value as int64, float64, bool or string; nil for the zero
// Value.
func (v Value) Any() any {
	switch v.kind {
	case KindInt:
		return int64(v.bits)
	case KindFloat:
		return math.Float64frombits(v.bits)
	case KindBool:
		return v.bits != 0
	case KindString:
		return v.str
	}
	return nil
}

// Number gives integers, floats and booleans (as 0 and 1) as a float64, and
// false for strings and the zero Value.
func (v Value) Number() (float64, bool) {
	switch v.kind {
	case KindInt:
		return float64(int64(v.bits)), true
	case KindFloat:
		return math.Float64frombits(v.bits), true
	case KindBool:
		return float64(v.bits), true
	}
	return 0, false
}

// String gives the canonical form: floats always show a point or an exponent,
// strings are quoted as Go quotes them wherever they could be read as
// something else. ParseValue reads it back.
func (v Value) String() string {
	var buf [24]byte
	return string(v.append(buf[:0]))
}

func (v Value) append(dst []byte) []byte {
	switch v.kind {
	case KindInt:
		return strconv.AppendInt(dst, int64(v.bits), 10)
	case KindFloat:
		start := len(dst)
		dst = strconv.AppendFloat(dst, math.Float64frombits(v.bits), 'g', -1, 64)
		if !bytes.ContainsAny(dst[start:], ".eIN") { // Inf and NaN need no point
			dst = append(dst, ".0"...)
		}
		return dst
	case KindBool:
		return strconv.AppendBool(dst, v.bits != 0)
	case KindString:
		if plain(v.str) {
			return append(dst, v.str...)
		}
		return strconv.AppendQuote(dst, v.str)
	}
	return dst
}

// plain tells whether a string can stand unquoted in an encoding: an
// identifier-like word that is neither a number nor a boolean.
func plain(s string) bool {
	if s == "" || s == "true" || s == "false" || s == "NaN" || s == "Inf" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		other := '0' <= c && c <= '9' || strings.IndexByte("-.+/:@", c) >= 0
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return true
}

// ParseValue reads the form that String writes: 64, 0.5, true, fast,
// "with spaces".
func ParseValue(s string) (Value, error) {
	switch {
	case s == "":
		return Value{}, fmt.Errorf("a value is missing")
	case s == "true":
		return Bool(true), nil
	case s == "false":
		return Bool(false), nil
	case s[0] == '"':
		t, err := strconv.Unquote(s)
		if err != nil {
			return Value{}, fmt.Errorf("value %s is not a well-formed quoted string", s)
		}
		return Str(t), nil
	case plain(s):
		return Str(s), nil
	}
	return parseNumber(s)
}

func parseNumber(s string) (Value, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Int(i), nil
	}
	if c := s[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') {
		return Value{}, fmt.Errorf("value %q is neither a number, true, false nor a word; put it in double quotes", s)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) || strings.ContainsAny(s, "xX_") {
		return Value{}, fmt.Errorf("value %q is neither a number, true, false nor a word; put it in double quotes", s)
	}
	return Float(f), nil
}

// MarshalJSON writes a JSON number, boolean or string. Floats keep a point or
// an exponent, so that they come back as floats.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case KindNone:
		return []byte("null"), nil
	case KindString:
		return json.Marshal(v.str)
	case KindFloat:
		if f := math.Float64frombits(v.bits); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("value %v has no JSON form", f)
		}
	}
	return v.append(nil), nil
}

// UnmarshalJSON reads a JSON number, boolean or string; a number with a point
// or an exponent is a float, any other an integer.
func (v *Value) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	if x == nil {
		*v = Value{}
		return nil
	}
	w, err := ValueOf(x)
	if err != nil {
		return err
	}
	*v = w
	return nil
}

// As gives v in kind k where that loses nothing: 64 as 64.0, 64.0 as 64,
// and the numbers 0 and 1 are not booleans.
func (v Value) As(k Kind) (Value, bool) {
	switch {
	case v.kind == k:
		return v, true
	case v.kind == KindInt && k == KindFloat:
		i := int64(v.bits)
		if f := float64(i); int64(f) == i && math.Abs(f) < 1<<63 {
			return Float(f), true
		}
	case v.kind == KindFloat && k == KindInt:
		if f := math.Float64frombits(v.bits); f == math.Trunc(f) && math.Abs(f) < 1<<63 {
			return Int(int64(f)), true
		}
	}
	return Value{}, false
}
