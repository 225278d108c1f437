package genome

import "github.com/evotune/evotune/internal/expr"

// A Value is one allele: an int64, a float64, a bool or a string. Values are comparable with ==; Int(1) and Float(1)
// differ. The zero Value is none of these. Expressions compute with the same values.
type Value = expr.Value

// A Kind is the type of a Value.
type Kind = expr.Kind

// The kinds of values.
const (
	KindNone   = expr.KindNone // the zero Value: no value at all
	KindInt    = expr.KindInt
	KindFloat  = expr.KindFloat
	KindBool   = expr.KindBool
	KindString = expr.KindString
)

// Int makes an integer value.
func Int(i int64) Value { return expr.Int(i) }

// Float makes a floating-point value. Negative zero becomes zero, so that equal numbers are equal values. NaN and the
// infinities can be held, but no gene accepts them.
func Float(f float64) Value { return expr.Float(f) }

// Bool makes a boolean value.
func Bool(b bool) Value { return expr.Bool(b) }

// Str makes a string value.
func Str(s string) Value { return expr.Str(s) }

// ValueOf makes a value of a Go integer, float, bool, string or Value. It fails for everything else, and for integers
// beyond int64.
func ValueOf(x any) (Value, error) { return expr.ValueOf(x) }

// ParseValue reads the form that Value.String writes: 64, 0.5, true, fast, "with spaces".
func ParseValue(s string) (Value, error) { return expr.ParseValue(s) }

// An ExprError says what is wrong with a constraint or a condition, and where.
type ExprError = expr.Error
