package tables

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/genome"
)

// This file reads Python's expressions, as restrictions of recorded spaces and values of
// T1 files have them, into trees. What the trees mean is in meaning.go.

// A pyNode is a part of an expression.
type pyNode struct {
	// op is an operator ("neg" and "pos" are the signs), or "value", "name", "None",
	// "call", "list" (a tuple or a set, too), "if" (then, condition, otherwise),
	// "compare" and "comprehension".
	op    string
	at    int    // offset in the source
	name  string // of a name or a call
	value genome.Value
	args  []*pyNode
	// comparisons are the operators between the args of "compare".
	comparisons []string
	loops       []pyLoop // of a comprehension, whose arg is the element
}

// A pyLoop is "for name in list if condition if condition".
type pyLoop struct {
	name       string
	list       *pyNode
	conditions []*pyNode
}

// parsePython reads one expression.
func parsePython(source string) (*pyNode, error) {
	p := &python{source: source}
	if err := p.next(); err != nil {
		return nil, err
	}
	n, err := p.ternary()
	if err != nil {
		return nil, err
	}
	if p.kind != pyEnd {
		return nil, p.unexpected()
	}
	return n, nil
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

// pyLevels are the infix operators that are read from the left, those that bind least
// first.
var pyLevels = [][]string{{"or"}, {"and"}, {"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "//", "/", "%"}}

const (
	notLevel       = 2   // of "not" and of comparisons
	maxDepth       = 100 // of nesting, so that no input can exhaust the stack
	notInText      = "\\\"'\n"
	pyWords        = " lambda if else is for None and or not in "
	pyOrder        = " == != <= >= < > "
	pySymbolTokens = "** // << >> == != <= >= < > + - * / % & | ^ ~ ( ) [ ] { } , ."
)

// pySymbols are the tokens that are neither words nor values, longer ones first.
var pySymbols = strings.Fields(pySymbolTokens)

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
		hex := strings.HasPrefix(strings.ToLower(s[p.at:]), "0x")
		for p.at < len(s) && (digit(s[p.at]) || s[p.at] == '.' || letter(s[p.at]) ||
			!hex && (s[p.at] == '+' || s[p.at] == '-') && (s[p.at-1] == 'e' || s[p.at-1] == 'E')) {
			p.at++
		}
		p.kind = pyNumber
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

// expect skips the given token.
func (p *python) expect(token string) error {
	if !p.is(token) {
		return p.unexpected()
	}
	return p.next()
}

// nested parses one level deeper.
func (p *python) nested(part func() (*pyNode, error)) (*pyNode, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(p.start, "nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	return part()
}

// ternary parses "x if c else y".
func (p *python) ternary() (*pyNode, error) {
	at := p.start
	then, err := p.level(0)
	if err != nil || !p.is("if") {
		return then, err
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	condition, err := p.level(0)
	if err != nil {
		return nil, err
	}
	if err := p.expect("else"); err != nil {
		return nil, err
	}
	otherwise, err := p.nested(p.ternary)
	return &pyNode{op: "if", at: at, args: []*pyNode{then, condition, otherwise}}, err
}

// level parses operand (operator operand)*, from the left.
func (p *python) level(n int) (*pyNode, error) {
	operand, operators := func() (*pyNode, error) { return p.level(n + 1) }, n
	switch {
	case n == notLevel && p.is("not"):
		at := p.start
		if err := p.next(); err != nil {
			return nil, err
		}
		x, err := p.nested(func() (*pyNode, error) { return p.level(notLevel) })
		return &pyNode{op: "not", at: at, args: []*pyNode{x}}, err
	case n == notLevel:
		return p.comparison()
	case n > notLevel:
		operators = n - 1 // comparisons have a level of their own
	}
	if operators == len(pyLevels)-1 {
		operand = p.unary
	}
	left, err := operand()
	for err == nil {
		i := slices.IndexFunc(pyLevels[operators], p.is)
		if i < 0 {
			break
		}
		at := p.start
		if err = p.next(); err != nil {
			break
		}
		var right *pyNode
		right, err = operand()
		left = &pyNode{op: pyLevels[operators][i], at: at, args: []*pyNode{left, right}}
	}
	return left, err
}

// comparison parses a < b < c, which means a < b and b < c.
func (p *python) comparison() (*pyNode, error) {
	at := p.start
	left, err := p.level(notLevel + 1)
	if err != nil {
		return nil, err
	}
	n := &pyNode{op: "compare", at: at, args: []*pyNode{left}}
	for {
		operator := p.token
		switch {
		case p.is("not"):
			if err := p.next(); err != nil {
				return nil, err
			}
			if !p.is("in") {
				return nil, p.unexpected()
			}
			operator = "not in"
		case p.is("in"), p.is("is"), p.kind == pySymbol && strings.Contains(pyOrder, " "+operator+" "):
		case len(n.comparisons) == 0:
			return left, nil
		default:
			return n, nil
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		if operator == "is" {
			if ok, err := p.accept("not"); err != nil {
				return nil, err
			} else if ok {
				operator = "is not"
			}
		}
		right, err := p.level(notLevel + 1)
		if err != nil {
			return nil, err
		}
		n.args, n.comparisons = append(n.args, right), append(n.comparisons, operator)
	}
}

func (p *python) unary() (*pyNode, error) {
	for sign, op := range map[string]string{"-": "neg", "+": "pos", "~": "~"} {
		if !p.is(sign) {
			continue
		}
		at := p.start
		if err := p.next(); err != nil {
			return nil, err
		}
		x, err := p.nested(p.unary)
		if err == nil && op == "neg" && x.op == "value" {
			if v, ok := negative(x.value); ok {
				return &pyNode{op: "value", at: at, value: v}, nil
			}
		}
		return &pyNode{op: op, at: at, args: []*pyNode{x}}, err
	}
	return p.power()
}

// negative gives a literal with a minus sign.
func negative(v genome.Value) (genome.Value, bool) {
	switch x := v.Any().(type) {
	case int64:
		return genome.Int(-x), true
	case float64:
		return genome.Float(-x), x != 0 // a Value has no negative zero
	}
	return v, false
}

// power binds tighter than a sign on its left, and to the right.
func (p *python) power() (*pyNode, error) {
	base, err := p.atom()
	if err != nil || !p.is("**") {
		return base, err
	}
	at := p.start
	if err := p.next(); err != nil {
		return nil, err
	}
	exponent, err := p.nested(p.unary)
	return &pyNode{op: "**", at: at, args: []*pyNode{base, exponent}}, err
}

func (p *python) atom() (*pyNode, error) {
	n := &pyNode{op: "value", at: p.start}
	token := p.token
	switch p.kind {
	case pyNumber:
		v, why := pyNumberOf(token)
		if why != "" {
			return nil, p.fail(p.start, "%q %s", token, why)
		}
		n.value = v
		return n, p.next()
	case pyString:
		n.value = genome.Str(token[1 : len(token)-1])
		return n, p.next()
	case pyName:
		switch {
		case token == "True" || token == "False":
			n.value = genome.Bool(token == "True")
			return n, p.next()
		case token == "None":
			n.op = "None"
			return n, p.next()
		case strings.Contains(pyWords, " "+token+" "):
			return nil, p.fail(p.start, "%q is not known here", token)
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		if token == "math" && p.is(".") { // math.ceil is ceil
			if err := p.next(); err != nil {
				return nil, err
			}
			if token = p.token; token != "ceil" && token != "floor" {
				return nil, p.fail(p.start, "%q is not known here", "math."+token)
			}
			if err := p.next(); err != nil {
				return nil, err
			}
		}
		n.op, n.name = "name", token
		if p.is(".") {
			return nil, p.fail(p.start, "'.' is not known here")
		}
		if !p.is("(") || !slices.Contains(pyFunctions, token) {
			return n, nil
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		n.op = "call"
		return p.nested(func() (*pyNode, error) {
			_, err := p.items(n, ")")
			return n, err
		})
	case pySymbol:
		end := map[string]string{"(": ")", "[": "]", "{": "}"}[token]
		if end == "" {
			break
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		n.op = "list"
		return p.nested(func() (*pyNode, error) {
			comma, err := p.items(n, end)
			if err == nil && end == ")" && len(n.args) == 1 && !comma && n.op == "list" {
				return n.args[0], nil
			}
			return n, err
		})
	}
	return nil, p.unexpected()
}

// items parses "a, b)" into the args of a node, or the rest of a comprehension, and says
// whether there is a comma.
func (p *python) items(n *pyNode, end string) (comma bool, err error) {
	for !p.is(end) {
		x, err := p.ternary()
		if err != nil {
			return comma, err
		}
		n.args = append(n.args, x)
		if len(n.args) == 1 && n.op == "list" && p.is("for") {
			n.op = "comprehension"
			return comma, p.loops(n, end)
		}
		ok, err := p.accept(",")
		if err != nil {
			return comma, err
		}
		if comma = comma || ok; !ok && !p.is(end) {
			return comma, p.unexpected()
		}
	}
	return comma, p.next()
}

// loops parses the loops of a comprehension.
func (p *python) loops(n *pyNode, end string) error {
	for !p.is(end) {
		switch {
		case p.is("for"):
			if err := p.next(); err != nil {
				return err
			}
			if p.kind != pyName || strings.Contains(pyWords, " "+p.token+" ") {
				return p.unexpected()
			}
			loop := pyLoop{name: p.token}
			if err := p.next(); err != nil {
				return err
			}
			if err := p.expect("in"); err != nil {
				return err
			}
			var err error
			if loop.list, err = p.level(0); err != nil {
				return err
			}
			n.loops = append(n.loops, loop)
		case p.is("if"):
			if err := p.next(); err != nil {
				return err
			}
			condition, err := p.level(0)
			if err != nil {
				return err
			}
			last := &n.loops[len(n.loops)-1]
			last.conditions = append(last.conditions, condition)
		default:
			return p.unexpected()
		}
	}
	return p.next()
}

// pyNumberOf reads a number as Python does, or says why it cannot.
func pyNumberOf(token string) (v genome.Value, why string) {
	plain := strings.ReplaceAll(token, "_", "")
	integer := strings.Trim(plain, "0123456789") == ""
	underscores := strings.HasSuffix(token, "_") || strings.Contains(token, "__")
	switch prefix := strings.ToLower(token[:min(len(token), 2)]); {
	case underscores:
	case prefix == "0x" || prefix == "0o" || prefix == "0b":
		if i, err := strconv.ParseInt(token, 0, 64); err == nil {
			return genome.Int(i), ""
		}
	case integer && len(plain) > 1 && plain[0] == '0' && strings.Trim(plain, "0") != "":
	case integer:
		if i, err := strconv.ParseInt(plain, 10, 64); err == nil {
			return genome.Int(i), ""
		}
		return v, "does not fit into 64 bits"
	default:
		if x, err := strconv.ParseFloat(plain, 64); err == nil && !math.IsInf(x, 0) && strings.Trim(plain, "0123456789.eE+-") == "" {
			return genome.Float(x), ""
		}
	}
	return v, "is not a number"
}
