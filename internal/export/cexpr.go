package export

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/expr"
)

// A translator turns expressions of a definition into C. Names of dims stay,
// as int64_t; names of constants are replaced by their values, and whatever
// depends on them alone is evaluated here, by the evaluator that tuning used.
type translator struct {
	dims      []string
	constants map[string]any
	// limits are what is known of the device only where the library runs, and whether an
	// expression named it.
	limits map[string]bool
	// absent are genes that do not exist here, with a value of their type.
	absent map[string]any
	// saturating makes sums and products of integers stop at the largest, by the
	// functions of dispatch.h, for dimensions that may be any.
	saturating bool
	// array has the dimensions as its elements; "" where each is a variable.
	array string
	// long is whether a text became longer than maxText.
	long bool
}

// maxText is how long the C of an expression may become, in bytes: operations that
// name an operand twice double it, and so do those within them.
const maxText = 64 << 10

// integer translates an expression whose value is a whole number; in C it is -1 where
// the value is none.
func (t *translator) integer(src string) (string, error) {
	e, err := t.write(src)
	if err != nil {
		return "", err
	}
	switch e.Kind {
	case genome.KindInt:
		return e.Text, nil
	case genome.KindFloat:
		return fmt.Sprintf("(%[1]s == floor(%[1]s) && fabs(%[1]s) < 0x1p62 ? (int64_t)%[1]s : -1)", e.Text), nil
	}
	return "", fmt.Errorf("%q is not a number", src)
}

// float translates an expression whose value is a number.
func (t *translator) float(src string) (string, error) {
	e, err := t.write(src)
	if err != nil {
		return "", err
	}
	if e.Kind != genome.KindInt && e.Kind != genome.KindFloat {
		return "", fmt.Errorf("%q is not a number", src)
	}
	return asFloat(e), nil
}

// condition translates an expression that holds or does not.
func (t *translator) condition(src string) (string, error) {
	e, err := t.write(src)
	if err != nil {
		return "", err
	}
	if e.Kind != genome.KindBool {
		return "", fmt.Errorf("%q is no condition", src)
	}
	return e.Text, nil
}

func (t *translator) compile(src string) (*expr.Expr, error) {
	env := maps.Clone(t.absent)
	if env == nil {
		env = map[string]any{}
	}
	maps.Copy(env, t.constants)
	for _, d := range t.dims {
		env[d] = 0
	}
	for l := range t.limits {
		env[l] = 0
	}
	return expr.Compile(src, env)
}

func (t *translator) write(src string) (expr.Written, error) {
	e, err := t.compile(src)
	if err != nil {
		return expr.Written{}, err
	}
	t.long = false
	w, err := e.Write(t, t.constants)
	switch {
	case t.long:
		return w, fmt.Errorf("%q cannot be written in C: it would take more than %d KB, write it shorter", src, maxText>>10)
	case err != nil:
		return w, fmt.Errorf("%q cannot be written in C: %w", src, err)
	}
	return w, nil
}

// Name writes a dimension, or a limit of the device.
func (t *translator) Name(name string) string {
	if i := slices.Index(t.dims, name); i >= 0 {
		if t.array != "" {
			return fmt.Sprintf("%s[%d]", t.array, i)
		}
		return name
	}
	if _, ok := t.limits[name]; ok {
		t.limits[name] = true
		return name
	}
	return ""
}

// Value writes a number or a condition; texts must be computed away.
func (*translator) Value(v genome.Value) string {
	switch v := v.Any().(type) {
	case bool:
		return map[bool]string{false: "0", true: "1"}[v]
	case int64:
		if v == math.MinInt64 {
			return "INT64_MIN"
		}
		return "INT64_C(" + strconv.FormatInt(v, 10) + ")"
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		switch {
		case math.IsInf(v, 0) || math.IsNaN(v):
			return ""
		case !strings.ContainsAny(s, ".e"):
			s += ".0"
		}
		if v < 0 {
			s = "(" + s + ")"
		}
		return s
	}
	return ""
}

// cForms are the operations in C, in parentheses where they must be.
var cForms = map[string]string{
	"and": "(%s && %s)", "or": "(%s || %s)", "not": "!%s", "?:": "(%s ? %s : %s)",
	"==": "(%s == %s)", "!=": "(%s != %s)", "<": "(%s < %s)", "<=": "(%s <= %s)", ">": "(%s > %s)", ">=": "(%s >= %s)",
	"+": "(%s + %s)", "-": "(%s - %s)", "*": "(%s * %s)", "/": "(%s / %s)", "**": "pow(%s, %s)",
	"ceil": "ceil(%s)", "floor": "floor(%s)", "round": "round(%s)", "float": "%s", "int": "((int64_t)%s)",
	"bitand": "(%s & %s)", "bitor": "(%s | %s)", "bitxor": "(%s ^ %s)", "bitnand": "(%s & ~%s)", "bitnot": "(~%s)",
	// -1 where the integer is too large. To the right, by 64 and more as in Go.
	"bitshl":  "(%[2]s < 0 ? -1 : %[1]s == 0 ? 0 : %[2]s < 64 && ((int64_t)((uint64_t)%[1]s << %[2]s) >> %[2]s) == %[1]s ? (int64_t)((uint64_t)%[1]s << %[2]s) : -1)",
	"bitshr":  "(%[1]s >> (%[2]s >= 0 && %[2]s < 64 ? %[2]s : 63))",
	"bitushr": "(%[2]s >= 0 && %[2]s < 64 ? (int64_t)((uint64_t)%[1]s >> %[2]s) : 0)",
}

// cSaturating are those of integers that could overflow.
var cSaturating = map[string]string{"+": "evo_add(%s, %s)", "-": "evo_sub(%s, %s)", "*": "evo_mul(%s, %s)"}

// Operation writes an operation.
func (t *translator) Operation(name string, xs []expr.Written) string {
	return t.fit(t.operation(name, xs))
}

// fit gives a text that is not too long; else none.
func (t *translator) fit(text string) string {
	if len(text) > maxText {
		t.long = true
		return ""
	}
	return text
}

func (t *translator) operation(name string, xs []expr.Written) string {
	ints := !slices.ContainsFunc(xs, func(x expr.Written) bool { return x.Kind != genome.KindInt })
	form := cForms[name]
	var args []any
	for _, x := range xs {
		switch {
		case slices.Contains([]string{"/", "**", "ceil", "floor", "round", "float"}, name), (name == "min" || name == "max") && !ints:
			x.Text = asFloat(x)
		}
		args = append(args, x.Text)
	}
	switch {
	case name == "-" && len(xs) == 1:
		form = "(-%s)"
	case ints && t.saturating && cSaturating[name] != "":
		form = cSaturating[name]
	case name == "abs" && ints:
		form = "(%[1]s < 0 ? -%[1]s : %[1]s)"
	case name == "abs":
		form = "fabs(%s)"
	case name == "%":
		form = "(%s %% %s)"
		if n, known := xs[1].Value.Any().(int64); !known || n == 0 || n == -1 { // which end a program
			form = "(%[2]s > 0 || %[2]s < -1 ? %[1]s %% %[2]s : %[2]s ? 0 : -1)"
		}
	case name == "..":
		form = "(%[1]s >= %[2]s && %[1]s <= %[3]s)"
		if xs[0].Kind == genome.KindFloat { // a range has whole numbers alone
			form = "((%[1]s >= %[2]s && %[1]s <= %[3]s) && %[1]s == floor(%[1]s))"
		}
	case name == "in":
		var equal []string
		if len(xs)*len(xs[0].Text) > maxText { // before memory is full
			t.long = true
			return ""
		}
		for _, x := range args[1:] {
			equal = append(equal, fmt.Sprintf("%s == %s", args[0], x))
		}
		if len(equal) == 0 {
			return "0"
		}
		return "(" + strings.Join(equal, " || ") + ")"
	case name == "min" || name == "max":
		return t.selection(map[string]string{"min": "<", "max": ">"}[name], args)
	}
	if form == "" {
		return ""
	}
	return fmt.Sprintf(form, args...)
}

// selection writes the smallest or largest of some: of the halves', which makes the text
// as long as the square of their number, where one after the other would double it.
func (t *translator) selection(than string, args []any) string {
	if len(args) == 1 {
		return args[0].(string)
	}
	half := (len(args) + 1) / 2
	x, y := t.selection(than, args[:half]), t.selection(than, args[half:])
	if x == "" || y == "" {
		return ""
	}
	return t.fit(fmt.Sprintf("(%[1]s %[3]s %[2]s ? %[1]s : %[2]s)", x, y, than))
}

func asFloat(e expr.Written) string {
	if e.Kind == genome.KindFloat {
		return e.Text
	}
	return "(double)" + e.Text
}
