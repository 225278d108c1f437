package tables

import (
	"fmt"
	"slices"
	"strings"
)

// Translate turns a Python expression, as recorded spaces have them, into one
// of this project's. It knows numbers, strings, names, True and False,
// parentheses, "or", "and", "not", comparisons (chained ones, "in" and "not
// in" with a list or tuple), + - * / // % and **, "x if c else y", and calls of
// a few functions. Attributes, other calls, lambdas and the like are refused. Everything is put in parentheses, so that the two languages'
// precedence does not matter. The remainder of negative numbers, where the two
// languages differ, does not occur in sizes and counts.
func Translate(source string) (string, error) {
	p := &python{source: source}
	if err := p.next(); err != nil {
		return "", err
	}
	out, err := p.ternary()
	if err != nil {
		return "", err
	}
	if p.kind != pyEnd {
		return "", p.unexpected()
	}
	return out, nil
}

type pyKind int

const (
	pyEnd pyKind = iota
	pyNumber
	pyString
	pyName
	pySymbol
)

// python is a recursive-descent parser, one token ahead.
type python struct {
	source string
	at     int // offset behind the token
	start  int // offset of the token
	kind   pyKind
	token  string
	depth  int
}

// The infix operators and functions that both languages have, which one reads and
// the other writes. "//" is Python's alone.
var (
	pyComparisons = []string{"==", "!=", "<=", ">=", "<", ">"}
	pySums        = []string{"+", "-"}
	pyProducts    = []string{"*", "/", "%"}
	pyInfix       = slices.Concat([]string{"or", "and", "**"}, pyComparisons, pySums, pyProducts)
	pyFunctions   = []string{"abs", "int", "float", "min", "max", "ceil", "floor"}
)

// pySymbols are the tokens that are neither words nor values, longer ones first.
var pySymbols = slices.Concat([]string{"**", "//"}, pyComparisons, pySums, pyProducts, []string{"(", ")", "[", "]", ","})

// notInText is what a string must not have in it, to be the same in both languages.
const notInText = "\\\"'\n"

func (p *python) fail(at int, format string, args ...any) error {
	return fmt.Errorf("column %d: %s", at+1, fmt.Sprintf(format, args...))
}

func (p *python) unexpected() error {
	if p.kind == pyEnd {
		return p.fail(p.start, "the expression ends too early")
	}
	return p.fail(p.start, "%q is not expected here", p.token)
}

func letter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// next reads the next token.
func (p *python) next() error {
	s := p.source
	for p.at < len(s) && strings.IndexByte(" \t\r\n", s[p.at]) >= 0 {
		p.at++
	}
	p.start = p.at
	if p.at == len(s) {
		p.kind, p.token = pyEnd, ""
		return nil
	}
	c := s[p.at]
	switch {
	case letter(c):
		for p.at < len(s) && (letter(s[p.at]) || digit(s[p.at])) {
			p.at++
		}
		p.kind = pyName
	case digit(c) || c == '.' && p.at+1 < len(s) && digit(s[p.at+1]):
		for p.at < len(s) && (digit(s[p.at]) || s[p.at] == '.' || letter(s[p.at]) ||
			(s[p.at] == '+' || s[p.at] == '-') && (s[p.at-1] == 'e' || s[p.at-1] == 'E')) {
			p.at++
		}
		p.kind = pyNumber
		if strings.Trim(s[p.start:p.at], "0123456789.eE+-") != "" {
			return p.fail(p.start, "%q is not a decimal number", s[p.start:p.at])
		}
	case c == '"' || c == '\'':
		end := strings.IndexByte(s[p.at+1:], c)
		if end < 0 {
			return p.fail(p.start, "the string does not end")
		}
		p.at += end + 2
		if strings.ContainsAny(s[p.start+1:p.at-1], notInText) {
			return p.fail(p.start, "escapes in strings are not known here")
		}
		p.kind = pyString
	default:
		p.kind = pySymbol
		for _, symbol := range pySymbols {
			if strings.HasPrefix(s[p.at:], symbol) {
				p.at += len(symbol)
				p.token = symbol
				return nil
			}
		}
		return p.fail(p.start, "%q is not known here", rune(c))
	}
	p.token = s[p.start:p.at]
	return nil
}

// is says whether the token is the given symbol or keyword.
func (p *python) is(token string) bool {
	return (p.kind == pySymbol || p.kind == pyName) && p.token == token
}

// accept skips the token if it is the given one.
func (p *python) accept(token string) (bool, error) {
	if !p.is(token) {
		return false, nil
	}
	return true, p.next()
}

// binary parses operand (operator operand)*, from the left.
func (p *python) binary(operand func() (string, error), operators ...string) (string, error) {
	left, err := operand()
	if err != nil {
		return "", err
	}
again:
	for _, operator := range operators {
		ok, err := p.accept(operator)
		if err != nil {
			return "", err
		}
		if !ok {
			continue
		}
		right, err := operand()
		if err != nil {
			return "", err
		}
		if operator == "//" {
			left = "int(floor(" + left + " / " + right + "))"
		} else {
			left = "(" + left + " " + operator + " " + right + ")"
		}
		goto again
	}
	return left, nil
}

// ternary parses "x if c else y".
func (p *python) ternary() (string, error) {
	then, err := p.or()
	if err != nil {
		return "", err
	}
	if ok, err := p.accept("if"); err != nil || !ok {
		return then, err
	}
	if err := p.enter(); err != nil {
		return "", err
	}
	defer p.leave()
	condition, err := p.or()
	if err != nil {
		return "", err
	}
	if ok, err := p.accept("else"); err != nil {
		return "", err
	} else if !ok {
		return "", p.unexpected()
	}
	otherwise, err := p.ternary()
	if err != nil {
		return "", err
	}
	return "(" + condition + " ? " + then + " : " + otherwise + ")", nil
}

func (p *python) or() (string, error)  { return p.binary(p.and, "or") }
func (p *python) and() (string, error) { return p.binary(p.not, "and") }

func (p *python) not() (string, error) {
	ok, err := p.accept("not")
	if err != nil {
		return "", err
	}
	if !ok {
		return p.comparison()
	}
	if err := p.enter(); err != nil {
		return "", err
	}
	defer p.leave()
	x, err := p.not()
	if err != nil {
		return "", err
	}
	return "(not " + x + ")", nil
}

// comparison parses a < b < c, which means a < b and b < c.
func (p *python) comparison() (string, error) {
	left, err := p.sum()
	if err != nil {
		return "", err
	}
	var parts []string
	for {
		operator := ""
		for _, o := range append([]string{"in", "not"}, pyComparisons...) {
			if p.is(o) {
				operator = o
			}
		}
		if operator == "" {
			break
		}
		if err := p.next(); err != nil {
			return "", err
		}
		if operator == "not" {
			if !p.is("in") {
				return "", p.unexpected()
			}
			if err := p.next(); err != nil {
				return "", err
			}
			operator = "not in"
		}
		var right string
		if strings.HasSuffix(operator, "in") {
			right, err = p.collection()
		} else {
			right, err = p.sum()
		}
		if err != nil {
			return "", err
		}
		parts = append(parts, "("+left+" "+operator+" "+right+")")
		left = right
	}
	switch len(parts) {
	case 0:
		return left, nil
	case 1:
		return parts[0], nil
	}
	return "(" + strings.Join(parts, " and ") + ")", nil
}

// collection parses [a, b] or (a, b).
func (p *python) collection() (string, error) {
	end := "]"
	switch {
	case p.is("["):
	case p.is("("):
		end = ")"
	default:
		return "", p.unexpected()
	}
	if err := p.next(); err != nil {
		return "", err
	}
	var items []string
	for !p.is(end) {
		x, err := p.sum()
		if err != nil {
			return "", err
		}
		items = append(items, x)
		if ok, err := p.accept(","); err != nil {
			return "", err
		} else if !ok && !p.is(end) {
			return "", p.unexpected()
		}
	}
	return "[" + strings.Join(items, ", ") + "]", p.next()
}

func (p *python) sum() (string, error) { return p.binary(p.product, pySums...) }
func (p *python) product() (string, error) {
	return p.binary(p.unary, append([]string{"//"}, pyProducts...)...)
}

func (p *python) unary() (string, error) {
	for _, sign := range []string{"-", "+"} {
		ok, err := p.accept(sign)
		if err != nil {
			return "", err
		}
		if !ok {
			continue
		}
		if err := p.enter(); err != nil {
			return "", err
		}
		defer p.leave()
		x, err := p.unary()
		if err != nil || sign == "+" {
			return x, err
		}
		return "(-" + x + ")", nil
	}
	return p.power()
}

// power binds tighter than a sign on its left, and to the right.
func (p *python) power() (string, error) {
	base, err := p.atom()
	if err != nil {
		return "", err
	}
	ok, err := p.accept("**")
	if err != nil || !ok {
		return base, err
	}
	if err := p.enter(); err != nil {
		return "", err
	}
	defer p.leave()
	exponent, err := p.unary()
	if err != nil {
		return "", err
	}
	return "(" + base + " ** " + exponent + ")", nil
}

// pyRefused are words of Python that are no names.
var pyRefused = []string{"lambda", "if", "else", "is", "for", "None", "and", "or", "not", "in"}

func (p *python) atom() (string, error) {
	token := p.token
	switch p.kind {
	case pyNumber:
		return token, p.next()
	case pyString:
		return `"` + token[1:len(token)-1] + `"`, p.next()
	case pyName:
		switch token {
		case "True":
			token = "true"
		case "False":
			token = "false"
		default:
			for _, word := range pyRefused {
				if token == word {
					return "", p.fail(p.start, "%q is not known here", token)
				}
			}
		}
		if err := p.next(); err != nil || !p.is("(") || !slices.Contains(pyFunctions, token) {
			return token, err
		}
		return p.call(token)
	case pySymbol:
		if token != "(" {
			break
		}
		if err := p.enter(); err != nil {
			return "", err
		}
		defer p.leave()
		if err := p.next(); err != nil {
			return "", err
		}
		x, err := p.ternary()
		if err != nil {
			return "", err
		}
		if !p.is(")") {
			return "", p.unexpected()
		}
		return "(" + x + ")", p.next()
	}
	return "", p.unexpected()
}

// call parses the arguments of a function.
func (p *python) call(name string) (string, error) {
	if err := p.enter(); err != nil {
		return "", err
	}
	defer p.leave()
	if err := p.next(); err != nil {
		return "", err
	}
	var args []string
	for !p.is(")") {
		x, err := p.ternary()
		if err != nil {
			return "", err
		}
		args = append(args, x)
		if ok, err := p.accept(","); err != nil {
			return "", err
		} else if !ok && !p.is(")") {
			return "", p.unexpected()
		}
	}
	return name + "(" + strings.Join(args, ", ") + ")", p.next()
}

// maxDepth bounds the nesting, so that no input can exhaust the stack.
const maxDepth = 100

func (p *python) enter() error {
	if p.depth++; p.depth > maxDepth {
		return p.fail(p.start, "nested more than %d deep", maxDepth)
	}
	return nil
}

func (p *python) leave() { p.depth-- }
