package kernels

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/evotune/evotune/internal/naming"
)

// A document is a parsed TOML file that knows the position of each of its values.
// go-toml decodes the values and checks the syntax. The positions come from its syntax
// tree, since its decoder uses them only for its own errors.
//
// The first error ends reading: fail panics, and catch turns the panic into an error.
type document struct {
	file string // for messages
	text []byte
	root *node
	more []section
}

// A section is a file that a document includes: its offsets begin at one of the
// document's.
type section struct {
	from int
	*document
}

// A nodeKind is the type of a TOML value, as named in messages.
type nodeKind string

const (
	tableNode   nodeKind = "a table"
	arrayNode   nodeKind = "an array"
	stringNode  nodeKind = "a string"
	integerNode nodeKind = "an integer"
	floatNode   nodeKind = "a float"
	boolNode    nodeKind = "a boolean"
	timeNode    nodeKind = "a date or time" // not used in definitions
)

// A node is one TOML value.
type node struct {
	kind nodeKind
	at   int // offset of the value in the text
	key  int // offset of its key, or of the value if there is none
	// explicit: a table that was opened by a header or a value, and must not be
	// opened again. tables: an array that [[headers]] extend.
	explicit, tables bool

	names    []string // of a table's children, in text order
	children map[string]*node
	items    []*node // of an array
	str      string
	raw      string // of a string, including its quotes
	what     string // the name of a decoded table in messages
	value    any    // as go-toml decodes it
}

func newTable(at int) *node {
	return &node{kind: tableNode, at: at, key: at, explicit: true, children: map[string]*node{}}
}

func (n *node) set(name string, child *node) {
	n.names = append(n.names, name)
	n.children[name] = child
}

// child is the value of a key; nil if there is none.
func (n *node) child(name string) *node {
	if n == nil {
		return nil
	}
	return n.children[name]
}

// text is the value of a string that may be missing.
func (n *node) text() string {
	if n == nil {
		return ""
	}
	return n.str
}

// number returns the value of an integer or a float, if it is finite.
func (n *node) number() (float64, bool) {
	switch x := n.value.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, !math.IsNaN(x) && !math.IsInf(x, 0)
	}
	return 0, false
}

// parseDocument reads TOML. The error is an *Error.
func parseDocument(file string, text []byte) (d *document, err error) {
	defer catch(&err)
	d = &document{file: file, text: text, root: newTable(0)}
	if i := invalidUTF8(text); i >= 0 {
		d.fail(i, "the file is not UTF-8 text")
	}
	d.build()
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		fault := &Error{File: file, Line: 1, Col: 1, Msg: strings.TrimPrefix(err.Error(), "toml: "), Err: ErrDefinition}
		var decode *toml.DecodeError
		if errors.As(err, &decode) {
			fault.Line, fault.Col = decode.Position()
			if strings.HasSuffix(fault.Msg, "value out of range") {
				fault.Msg = "the number is out of range"
			}
		}
		return nil, fault
	}
	d.fill(d.root, values)
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

// take parses another file into the document and returns its table.
func (d *document) take(file string, text []byte) (*node, error) {
	part, err := parseDocument(file, text)
	if err != nil {
		return nil, err
	}
	from := len(d.text) + 1
	if n := len(d.more); n > 0 {
		from = d.more[n-1].from + len(d.more[n-1].text) + 1
	}
	d.more = append(d.more, section{from, part})
	part.root.move(from)
	return part.root, nil
}

// move shifts every offset of a node.
func (n *node) move(by int) {
	n.at += by
	n.key += by
	for _, item := range n.items {
		item.move(by)
	}
	for _, child := range n.children {
		child.move(by)
	}
}

// where returns the file of an offset, and the offset in it.
func (d *document) where(at int) (*document, int) {
	for _, s := range slices.Backward(d.more) {
		if at >= s.from {
			return s.document, at - s.from
		}
	}
	return d, at
}

// position converts an offset to a line and a column.
func (d *document) position(at int) (line, col int) {
	d, at = d.where(at)
	at = min(max(at, 0), len(d.text))
	lead := d.text[:at]
	return bytes.Count(lead, []byte{'\n'}) + 1, len(lead) - bytes.LastIndexByte(lead, '\n')
}

// fault makes the error for an offset of the text.
func (d *document) fault(at int, format string, args ...any) *Error {
	line, col := d.position(at)
	in, _ := d.where(at)
	return &Error{File: in.file, Line: line, Col: col, Msg: fmt.Sprintf(format, args...), Err: ErrDefinition}
}

// fail ends reading with an error.
func (d *document) fail(at int, format string, args ...any) { panic(d.fault(at, format, args...)) }

// catch, when deferred, returns the error that ended reading.
func catch(err *error) {
	switch fault := recover().(type) {
	case nil:
	case *Error:
		*err = fault
	default:
		panic(fault)
	}
}

// line returns the line of an offset, for messages about two places.
func (d *document) line(at int) int {
	line, _ := d.position(at)
	return line
}

// build makes the tree of tables and the positions; fill adds the values.
func (d *document) build() {
	p := &unstable.Parser{}
	p.Reset(d.text)
	current := d.root
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table:
			current = d.openTable(e)
		case unstable.ArrayTable:
			current = d.openArrayTable(e)
		case unstable.KeyValue:
			d.keyValue(p, current, e)
		}
	}
	var syntax *unstable.ParserError
	if err := p.Error(); errors.As(err, &syntax) {
		end := len(bytes.TrimRight(d.text, " \t\r\n")) // a file that ends too early ends there
		at := end
		if len(syntax.Highlight) > 0 {
			at = min(at, int(p.Range(syntax.Highlight).Offset))
		}
		d.fail(at, "%s", TOMLFault(syntax.Message))
	} else if err != nil {
		d.fail(len(bytes.TrimRight(d.text, " \t\r\n")), "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
}

// TOMLFault says in plain words what go-toml says of a text that is not TOML.
func TOMLFault(msg string) string {
	msg = strings.Replace(strings.TrimPrefix(msg, "toml: "), "not eof", "but the file ends", 1)
	if msg == "incomplete number" { // of anything that is not a value
		return "this is not a value: a string needs quotes"
	}
	return msg
}

// A part is one name of a dotted key.
type part struct {
	name    string
	at, end int
}

// maxParts bounds the names of a dotted key: each makes a table.
const maxParts = 16

// parts splits a dotted key into all but the last part, and the last one.
func (d *document) parts(e *unstable.Node) (lead []part, last part) {
	for it := e.Key(); it.Next(); {
		k := it.Node()
		if len(lead) == maxParts {
			d.fail(int(k.Raw.Offset), "the key has more than %d names", maxParts)
		}
		lead = append(lead, part{string(k.Data), int(k.Raw.Offset), int(k.Raw.Offset + k.Raw.Length)})
	}
	return lead[:len(lead)-1], lead[len(lead)-1]
}

// descend finds or makes the table that names lead to.
func (d *document) descend(n *node, names ...part) *node {
	for _, k := range names {
		child, ok := n.children[k.name]
		switch {
		case !ok:
			child = newTable(k.at)
			child.explicit = false
			n.set(k.name, child)
		case child.tables:
			child = child.items[len(child.items)-1]
		case child.kind != tableNode:
			d.fail(k.at, "%s is %s on line %d and cannot be a table as well", k.name, child.kind, d.line(child.key))
		}
		n = child
	}
	return n
}

func (d *document) openTable(e *unstable.Node) *node {
	lead, last := d.parts(e)
	n := d.descend(d.root, lead...)
	if prev, had := n.children[last.name]; had && (prev.kind != tableNode || prev.explicit) {
		d.fail(last.at, "the table %s is already there on line %d: merge the two", last.name, d.line(prev.key))
	}
	n = d.descend(n, last)
	n.explicit = true
	n.at = append(lead, last)[0].at
	n.key = n.at
	return n
}

func (d *document) openArrayTable(e *unstable.Node) *node {
	lead, last := d.parts(e)
	n := d.descend(d.root, lead...)
	list, ok := n.children[last.name]
	if !ok {
		list = &node{kind: arrayNode, at: last.at, key: last.at, tables: true}
		n.set(last.name, list)
	} else if !list.tables {
		d.fail(last.at, "%s is already there on line %d as %s: write [[%s]] there as well, or here another name", last.name, d.line(list.key), list.kind, last.name)
	}
	item := newTable(append(lead, last)[0].at)
	list.items = append(list.items, item)
	return item
}

func (d *document) keyValue(p *unstable.Parser, n *node, e *unstable.Node) {
	lead, last := d.parts(e)
	n = d.descend(n, lead...)
	if prev, ok := n.children[last.name]; ok {
		d.fail(last.at, "%s is already set on line %d: remove one of the two", last.name, d.line(prev.key))
	}
	at := last.end // of the value: go-toml gives no position for arrays
	for at < len(d.text) && strings.IndexByte(" \t=", d.text[at]) >= 0 {
		at++
	}
	v := d.value(p, e.Value(), at)
	v.key = last.at
	n.set(last.name, v)
}

// value makes the node of a value that starts at or after an offset.
func (d *document) value(p *unstable.Parser, v *unstable.Node, at int) *node {
	n := &node{at: at}
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
			n.items = append(n.items, d.value(p, it.Node(), at))
		}
	case unstable.InlineTable:
		n = newTable(int(v.Raw.Offset))
		for it := v.Children(); it.Next(); {
			d.keyValue(p, n, it.Node())
		}
	default:
		n.kind = timeNode
	}
	n.key = n.at
	return n
}

// fill copies the decoded values into the tree.
func (d *document) fill(n *node, value any) {
	n.value = value
	kind := timeNode
	switch v := value.(type) {
	case map[string]any:
		kind = tableNode
		for _, name := range n.names {
			d.fill(n.children[name], v[name])
		}
	case []any:
		if len(v) == len(n.items) {
			kind = arrayNode
			for i, item := range n.items {
				d.fill(item, v[i])
			}
		}
	case string:
		kind = stringNode
	case int64:
		kind = integerNode
	case float64:
		kind = floatNode
	case bool:
		kind = boolNode
	}
	if kind != n.kind {
		d.fail(n.key, "this value cannot be read as %s", n.kind)
	}
}

// within returns the offset in the text of a byte of a string's value.
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

// kinds are the kinds that a value may have, by the value of a field's tag "is".
var kinds = map[string][]nodeKind{
	"": {stringNode}, "integer": {integerNode}, "number": {integerNode, floatNode}, "boolean": {boolNode}, "array": {arrayNode}, "table": {tableNode},
}

// decode fills the structure that to points to from a table, strictly. The structure's first field
// is the table's node, whose tag is the table's name in messages. Each other field is a key: a
// *node for a value, a []*node for an array of strings, a structure for a table and a slice of them
// for an array of tables; missing keys are nil. Tags say that a key has another name than the field
// (key), that its tables are called otherwise in messages (what), that it is of another kind than a
// string (is; "tables" is an array of tables that may be one table instead), that it is one of
// words (of), and, with an example, that it is required (need) or must not be empty if present
// (full).
func (d *document) decode(n *node, to any) {
	s := reflect.ValueOf(to).Elem()
	t := s.Type()
	s.Field(0).Set(reflect.ValueOf(n))
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = keyOf(t.Field(i))
	}
	if n.what == "" {
		n.what = t.Field(0).Tag.Get("what")
	}
	d.only(n, n.what, names[1:]...)
	for i := 1; i < len(names); i++ {
		f, child := t.Field(i), n.children[names[i]]
		example, needed := f.Tag.Lookup("need")
		if !needed {
			example = f.Tag.Get("full")
		}
		if child == nil {
			if needed {
				d.lacks(n, names[i], example)
			}
			continue
		}
		switch to := s.Field(i).Addr().Interface().(type) {
		case **node:
			d.expect(names[i], child, kinds[f.Tag.Get("is")]...)
			if set := f.Tag.Get("of"); set != "" {
				d.oneOf(child, set, words[set])
			} else if example != "" {
				d.filled(child, names[i], example)
			}
			*to = child
		case *[]*node:
			d.expect(names[i], child, arrayNode)
			for _, item := range child.items {
				if item.kind != stringNode {
					d.fail(item.at, "%s holds %s, expected strings", names[i], item.kind)
				}
			}
			*to = append([]*node{}, child.items...)
		default:
			if f.Type.Kind() == reflect.Pointer {
				d.expect(names[i], child, tableNode)
				table := reflect.New(f.Type.Elem())
				d.decode(child, table.Interface())
				s.Field(i).Set(table)
				continue
			}
			if child.kind == tableNode && f.Tag.Get("is") == "tables" {
				child = &node{kind: arrayNode, at: child.at, key: child.key, items: []*node{child}}
			}
			if f.Tag.Get("is") == "tables" {
				d.expect(names[i], child, tableNode, arrayNode)
			}
			d.expect(names[i], child, arrayNode)
			table := f.Type.Elem().Elem()
			if len(child.items) > maxList {
				d.fail(child.items[maxList].key, "there are %d tables %s, at most %d", len(child.items), table.Field(0).Tag.Get("what"), maxList)
			}
			for _, item := range child.items {
				if item.kind != tableNode {
					d.fail(item.at, "%s holds %s, expected tables", names[i], item.kind)
				}
				item.what = f.Tag.Get("what")
				table := reflect.New(table)
				d.decode(item, table.Interface())
				s.Field(i).Set(reflect.Append(s.Field(i), table))
			}
		}
	}
}

// keyOf returns the key of a field of a table's structure.
func keyOf(f reflect.StructField) string {
	return cmp.Or(f.Tag.Get("key"), strings.ToLower(f.Name))
}

// only checks that a table has no other keys.
func (d *document) only(n *node, what string, names ...string) {
	for _, name := range n.names {
		if !slices.Contains(names, name) {
			d.fail(n.children[name].key, "%s has no key %q: %s", what, name, naming.Suggest(name, names))
		}
	}
}

// lacks ends reading because a key is missing.
func (d *document) lacks(n *node, name, example string) {
	if !strings.HasPrefix(example, "a table ") {
		example = name + " = " + example
	}
	d.fail(n.key, "%s lacks %s: add %s", n.what, name, example)
}

// filled checks that a string is not empty.
func (d *document) filled(n *node, name, example string) {
	if n.kind == stringNode && strings.TrimSpace(n.str) == "" {
		d.fail(n.at, "%s is empty: write something like %s", name, example)
	}
}

func (d *document) expect(name string, n *node, kinds ...nodeKind) {
	if !slices.Contains(kinds, n.kind) {
		d.fail(n.at, "%s is %s, expected %s", name, n.kind, strings.Join(plain(kinds), " or "))
	}
}

// oneOf checks a word against a closed set.
func (d *document) oneOf(n *node, what string, words []string) {
	if slices.Contains(words, n.str) {
		return
	}
	near := ""
	if m := naming.Nearest(n.str, words); m != "" {
		near = "did you mean " + m + "? "
	}
	d.fail(n.at, "unknown %s %q: %sthere are %s", what, n.str, near, strings.Join(words, ", "))
}

func strs(nodes []*node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.str
	}
	return out
}
