// Package exprtest draws expressions for tests of what reads them.
package exprtest

import (
	"fmt"

	"pgregory.net/rapid"
)

// Names are the names that expressions may have, by the types of their values.
type Names struct{ Ints, Floats, Bools, Strings []string }

func integer(t *rapid.T, s Names, depth int) string {
	sub := func() string { return integer(t, s, depth-1) }
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
		if len(s.Ints) > 0 && rapid.IntRange(0, 3).Draw(t, "name") > 0 {
			return rapid.SampledFrom(s.Ints).Draw(t, "int")
		}
		return fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "literal"))
	}
	switch rapid.IntRange(0, 10).Draw(t, "intop") {
	case 0, 1:
		return "(" + sub() + " + " + sub() + ")"
	case 2:
		return "(" + sub() + " - " + sub() + ")"
	case 3, 4:
		return sub() + " * " + sub()
	case 5:
		return "(" + sub() + ") % (" + sub() + ")"
	case 6:
		return rapid.SampledFrom([]string{"min", "max", "bitand", "bitor", "bitxor", "bitshl", "bitshr"}).Draw(t, "f") + "(" + sub() + ", " + sub() + ")"
	case 7:
		return rapid.SampledFrom([]string{"abs", "-", "bitnot"}).Draw(t, "f") + "(" + sub() + ")"
	case 8:
		return "int(" + float(t, s, depth-1) + ")"
	case 9:
		return "(" + Condition(t, s, depth-1) + " ? " + sub() + " : " + sub() + ")"
	}
	return "sum([" + sub() + ", " + sub() + "])"
}

func float(t *rapid.T, s Names, depth int) string {
	sub := func() string { return float(t, s, depth-1) }
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
		if len(s.Floats) > 0 && rapid.Bool().Draw(t, "name") {
			return rapid.SampledFrom(s.Floats).Draw(t, "float")
		}
		return rapid.SampledFrom([]string{"0.5", "2.0", "3.25"}).Draw(t, "literal")
	}
	switch rapid.IntRange(0, 6).Draw(t, "floatop") {
	case 0:
		return "(" + sub() + " + " + integer(t, s, depth-1) + ")"
	case 1:
		return "(" + sub() + " - " + sub() + ")"
	case 2:
		return sub() + " * " + sub()
	case 3:
		return "(" + integer(t, s, depth-1) + ") / (" + integer(t, s, depth-1) + ")"
	case 4:
		return "(" + sub() + ") ** 2"
	case 5:
		return rapid.SampledFrom([]string{"ceil", "floor", "round", "abs", "-"}).Draw(t, "f") + "(" + sub() + ")"
	}
	return "max(" + sub() + ", " + sub() + ")"
}

// Condition draws an expression that gives true or false, of operations at most depth deep.
func Condition(t *rapid.T, s Names, depth int) string {
	sub := func() string { return Condition(t, s, depth-1) }
	if depth == 0 {
		if len(s.Bools) > 0 {
			return rapid.SampledFrom(s.Bools).Draw(t, "bool")
		}
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "literal")
	}
	comparison := rapid.SampledFrom([]string{"<", "<=", ">", ">=", "==", "!="})
	switch rapid.IntRange(0, 12).Draw(t, "boolop") {
	case 0, 1, 2, 3:
		return integer(t, s, depth-1) + " " + comparison.Draw(t, "cmp") + " " + integer(t, s, depth-1)
	case 4:
		return float(t, s, depth-1) + " " + comparison.Draw(t, "cmp") + " " + integer(t, s, depth-1)
	case 5:
		return "(" + sub() + " and " + sub() + ")"
	case 6, 7:
		return "(" + sub() + " or " + sub() + ")"
	case 8:
		return "not (" + sub() + ")"
	case 9:
		return integer(t, s, depth-1) + rapid.SampledFrom([]string{" in [1, 2, 8]", " not in [0, 4]", " in 2..9"}).Draw(t, "in")
	case 10:
		return "any([" + integer(t, s, depth-1) + ", 3], # > 2)"
	case 11:
		if len(s.Strings) > 0 {
			return rapid.SampledFrom(s.Strings).Draw(t, "string") + rapid.SampledFrom([]string{` == "a"`, ` contains "a"`, ` in ["7", ""]`, ` < "b"`, ` matches "^a"`}).Draw(t, "test")
		}
	}
	return "(" + sub() + ") == (" + sub() + ")"
}
