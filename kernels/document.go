package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A document is a parsed TOML file that knows where each of its values stands.
// go-toml decodes the values and judges the syntax; its syntax tree gives the
// positions, which its decoder keeps for its own errors only.
type document struct {
	file string // for messages
	text []byte
	root *node
	err  error // the first fault found while reading the tree
}

// A nodeKind is the type of a TOML value.
type nodeKind int

const (
	tableNode nodeKind = iota
	arrayNode
	stringNode
	integerNode
	floatNode
	boolNode
	timeNode // dates and times, which no definition uses
)

func (k nodeKind) String() string {
	switch k {
	case tableNode:
		return "a table"
	case arrayNode:
		return "an array"
	case stringNode:
		return "a string"
	case integerNode:
		return "an integer"
	case floatNode:
		return "a float"
	case boolNode:
		return "a boolean"
	}
	return "a date or time"
}

// A node is one TOML value.
type node struct {
	kind nodeKind
	at   int // offset of the value in the text
	key  int // offset of its key, or of the value where there is none
	// explicit: a table that was opened by a header or a value; it must not be
	// opened again. tables: an array that [[headers]] extend.
	explicit, tables bool

	names    []string // of a table's children, in the order of the text
	children map[string]*node
	items    []*node // of an array
	str      string
	raw      string // of a string, with its quotes
	integer  int64
	float    float64
	boolean  bool
}

func newTable(at int) *node {
	return &node{kind: tableNode, at: at, key: at, children: map[string]*node{}}
}

func (n *node) set(name string, child *node) {
	n.names = append(n.names, name)
	n.children[name] = child
}

// parseDocument reads TOML. The error is an *Error.
func parseDocument(file string, text []byte) (*document, error) {
	d := &document{file: file, text: text, root: newTable(0)}
	if i := invalidUTF8(text); i >= 0 {
		return nil, d.fault(i, "the file is not UTF-8 text")
	}
	if err := d.build(); err != nil {
		return nil, err
	}
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		var decode *toml.DecodeError
		if errors.As(err, &decode) {
			line, col := decode.Position()
			msg := strings.TrimPrefix(decode.Error(), "toml: ")
			if strings.HasSuffix(msg, "value out of range") {
				msg = "the number is out of range"
			}
			return nil, &Error{File: file, Line: line, Col: col, Msg: msg, Err: ErrDefinition}
		}
		return nil, &Error{File: file, Line: 1, Col: 1, Msg: strings.TrimPrefix(err.Error(), "toml: "), Err: ErrDefinition}
	}
	if err := d.fill(d.root, values); err != nil {
		return nil, err
	}
	return d, nil
}

func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// position turns an offset into a line and a column.
func (d *document) position(at int) (line, col int) {
	at = min(max(at, 0), len(d.text))
	lead := d.text[:at]
	return bytes.Count(lead, []byte{'\n'}) + 1, len(lead) - bytes.LastIndexByte(lead, '\n')
}

// fault makes the error for an offset of the text.
func (d *document) fault(at int, format string, args ...any) *Error {
	line, col := d.position(at)
	return &Error{File: d.file, Line: line, Col: col, Msg: fmt.Sprintf(format, args...), Err: ErrDefinition}
}

// build makes the tree of tables and the positions; fill adds the values.
func (d *document) build() error {
	p := &unstable.Parser{}
	p.Reset(d.text)
	current := d.root
	for p.NextExpression() {
		e := p.Expression()
		var err error
		switch e.Kind {
		case unstable.Table:
			current, err = d.openTable(e)
		case unstable.ArrayTable:
			current, err = d.openArrayTable(e)
		case unstable.KeyValue:
			err = d.keyValue(p, current, e)
		}
		if err != nil {
			return err
		}
	}
	var syntax *unstable.ParserError
	if err := p.Error(); errors.As(err, &syntax) {
		at := len(d.text)
		if len(syntax.Highlight) > 0 {
			at = int(p.Range(syntax.Highlight).Offset)
		}
		msg := syntax.Message
		if msg == "incomplete number" { // what go-toml says of anything that is no value
			msg = "this is no value: a string needs quotes"
		}
		return d.fault(at, "%s", msg)
	} else if err != nil {
		return d.fault(len(d.text), "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	return nil
}

// A part is one name of a dotted key.
type part struct {
	name    string
	at, end int
}

func parts(e *unstable.Node) []part {
	var out []part
	for it := e.Key(); it.Next(); {
		k := it.Node()
		out = append(out, part{string(k.Data), int(k.Raw.Offset), int(k.Raw.Offset + k.Raw.Length)})
	}
	return out
}

// descend finds or makes the table that a name leads to.
func (d *document) descend(n *node, k part) (*node, error) {
	child, ok := n.children[k.name]
	switch {
	case !ok:
		child = newTable(k.at)
		n.set(k.name, child)
	case child.kind == arrayNode && child.tables:
		child = child.items[len(child.items)-1]
	case child.kind != tableNode:
		line, _ := d.position(child.key)
		return nil, d.fault(k.at, "%s is %s on line %d and cannot be a table as well", k.name, child.kind, line)
	}
	return child, nil
}

func (d *document) openTable(e *unstable.Node) (*node, error) {
	n := d.root
	var err error
	keys := parts(e)
	for i, k := range keys {
		prev, had := n.children[k.name]
		if i == len(keys)-1 && had && (prev.kind != tableNode || prev.explicit) {
			line, _ := d.position(prev.key)
			return nil, d.fault(k.at, "the table %s is already there on line %d: merge the two", k.name, line)
		}
		if n, err = d.descend(n, k); err != nil {
			return nil, err
		}
	}
	n.explicit = true
	n.key, n.at = keys[0].at, keys[0].at
	return n, nil
}

func (d *document) openArrayTable(e *unstable.Node) (*node, error) {
	n := d.root
	var err error
	keys := parts(e)
	for _, k := range keys[:len(keys)-1] {
		if n, err = d.descend(n, k); err != nil {
			return nil, err
		}
	}
	k := keys[len(keys)-1]
	list, ok := n.children[k.name]
	if !ok {
		list = &node{kind: arrayNode, at: k.at, key: k.at, tables: true}
		n.set(k.name, list)
	} else if !list.tables {
		line, _ := d.position(list.key)
		return nil, d.fault(k.at, "%s is already there on line %d as %s: write [[%s]] there as well, or here another name", k.name, line, list.kind, k.name)
	}
	item := newTable(keys[0].at)
	item.explicit = true
	list.items = append(list.items, item)
	return item, nil
}

func (d *document) keyValue(p *unstable.Parser, n *node, e *unstable.Node) error {
	keys := parts(e)
	var err error
	for _, k := range keys[:len(keys)-1] {
		if n, err = d.descend(n, k); err != nil {
			return err
		}
	}
	k := keys[len(keys)-1]
	if prev, ok := n.children[k.name]; ok {
		line, _ := d.position(prev.key)
		return d.fault(k.at, "%s is already set on line %d: remove one of the two", k.name, line)
	}
	v, err := d.value(p, e.Value(), d.valueStart(k.end))
	if err != nil {
		return err
	}
	v.key = k.at
	n.set(k.name, v)
	return nil
}

// valueStart finds where the value after a key begins: go-toml gives no
// position for arrays.
func (d *document) valueStart(at int) int {
	for at < len(d.text) && strings.IndexByte(" \t=", d.text[at]) >= 0 {
		at++
	}
	return at
}

// value makes the node of a value that starts at or after an offset.
func (d *document) value(p *unstable.Parser, v *unstable.Node, at int) (*node, error) {
	n := &node{at: at, key: at}
	switch v.Kind {
	case unstable.String:
		n.kind, n.str, n.raw = stringNode, string(v.Data), string(p.Raw(v.Raw))
		n.at = int(v.Raw.Offset)
	case unstable.Integer, unstable.Float, unstable.Bool:
		n.kind = map[unstable.Kind]nodeKind{unstable.Integer: integerNode, unstable.Float: floatNode, unstable.Bool: boolNode}[v.Kind]
		n.at = int(p.Range(v.Data).Offset)
	case unstable.Array:
		n.kind = arrayNode
		for it := v.Children(); it.Next(); {
			item, err := d.value(p, it.Node(), at)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	case unstable.InlineTable:
		n = newTable(int(v.Raw.Offset))
		n.explicit = true
		for it := v.Children(); it.Next(); {
			if err := d.keyValue(p, n, it.Node()); err != nil {
				return nil, err
			}
		}
		return n, nil
	default:
		n.kind = timeNode
	}
	n.key = n.at
	return n, nil
}

// fill copies the decoded values into the tree.
func (d *document) fill(n *node, value any) error {
	ok := true
	switch n.kind {
	case tableNode:
		var m map[string]any
		if m, ok = value.(map[string]any); ok {
			for _, name := range n.names {
				if err := d.fill(n.children[name], m[name]); err != nil {
					return err
				}
			}
		}
	case arrayNode:
		var list []any
		if list, ok = value.([]any); ok && len(list) == len(n.items) {
			for i, item := range n.items {
				if err := d.fill(item, list[i]); err != nil {
					return err
				}
			}
		} else {
			ok = false
		}
	case integerNode:
		n.integer, ok = value.(int64)
	case floatNode:
		n.float, ok = value.(float64)
	case boolNode:
		n.boolean, ok = value.(bool)
	}
	if !ok {
		return d.fault(n.key, "this value cannot be read as %s", n.kind)
	}
	return nil
}

// within gives the offset in the text of a byte of a string's value.
func (n *node) within(offset int) int {
	open := 1
	if strings.HasPrefix(n.raw, `"""`) || strings.HasPrefix(n.raw, "'''") {
		open = 3
		if strings.HasPrefix(n.raw[3:], "\n") {
			open = 4
		} else if strings.HasPrefix(n.raw[3:], "\r\n") {
			open = 5
		}
	}
	if n.raw == "" || n.raw[0] == '\'' {
		return n.at + open + offset
	}
	// A basic string: escapes are longer than what they stand for.
	i, done := open, 0
	for done < offset && i < len(n.raw) {
		if n.raw[i] != '\\' || i+1 >= len(n.raw) {
			i++
			done++
			continue
		}
		switch c := n.raw[i+1]; c {
		case 'u', 'U':
			digits := 4
			if c == 'U' {
				digits = 8
			}
			var r rune
			if end := i + 2 + digits; end <= len(n.raw) {
				if _, err := fmt.Sscanf(n.raw[i+2:end], "%x", &r); err != nil {
					return n.at
				}
			}
			i += 2 + digits
			done += max(utf8.RuneLen(r), 1)
		case ' ', '\t', '\r', '\n': // a line ending in a backslash swallows white space
			for i++; i < len(n.raw) && strings.IndexByte(" \t\r\n", n.raw[i]) >= 0; i++ {
			}
		default:
			i += 2
			done++
		}
	}
	return n.at + i
}

// fail keeps the first fault; readers go on with zero values.
func (d *document) fail(at int, format string, args ...any) {
	if d.err == nil {
		d.err = d.fault(at, format, args...)
	}
}

// A table reads the keys of one TOML table strictly.
type table struct {
	d    *document
	n    *node
	what string // for messages: "[problem]", "[[problem.buffer]]"
}

// table starts reading a table that may have the given keys.
func (d *document) table(n *node, what string, keys ...string) table {
	if n == nil {
		n = newTable(0)
	}
	for _, name := range n.names {
		if !slices.Contains(keys, name) {
			d.fail(n.children[name].key, "%s has no key %q: %s", what, name, suggest(name, keys))
		}
	}
	return table{d, n, what}
}

// get finds a key; kinds are those that it may have.
func (t table) get(key string, kinds ...nodeKind) *node {
	n, ok := t.n.children[key]
	if !ok {
		return nil
	}
	if !slices.Contains(kinds, n.kind) {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = k.String()
		}
		t.d.fail(n.at, "%s is %s, expected %s", key, n.kind, strings.Join(names, " or "))
		return nil
	}
	return n
}

// need is get for a key that must be there.
func (t table) need(key, example string, kinds ...nodeKind) *node {
	if _, ok := t.n.children[key]; !ok {
		t.d.fail(t.n.key, "%s lacks %s: add %s", t.what, key, example)
		return nil
	}
	return t.get(key, kinds...)
}

// text reads an optional string.
func (t table) text(key string) (string, *node) {
	if n := t.get(key, stringNode); n != nil {
		return n.str, n
	}
	return "", nil
}

// needText reads a string that must be there and must not be empty.
func (t table) needText(key, example string) (string, *node) {
	n := t.need(key, key+" = "+example, stringNode)
	if n == nil {
		return "", nil
	}
	if strings.TrimSpace(n.str) == "" {
		t.d.fail(n.at, "%s is empty: write something like %s", key, example)
		return "", nil
	}
	return n.str, n
}

// texts reads an optional array of strings.
func (t table) texts(key string) []*node {
	n := t.get(key, arrayNode)
	if n == nil {
		return nil
	}
	for _, item := range n.items {
		if item.kind != stringNode {
			t.d.fail(item.at, "%s holds %s, expected strings", key, item.kind)
			return nil
		}
	}
	return n.items
}

// tables reads an array of tables.
func (t table) tables(key string) []*node {
	n := t.get(key, arrayNode)
	if n == nil {
		return nil
	}
	for _, item := range n.items {
		if item.kind != tableNode {
			t.d.fail(item.at, "%s holds %s, expected tables", key, item.kind)
			return nil
		}
	}
	return n.items
}

// number gives the value of an integer or a float.
func (n *node) number() (float64, bool) {
	switch n.kind {
	case integerNode:
		return float64(n.integer), true
	case floatNode:
		return n.float, !math.IsNaN(n.float) && !math.IsInf(n.float, 0)
	}
	return 0, false
}

func strs(nodes []*node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.str
	}
	return out
}
