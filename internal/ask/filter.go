package ask

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// fields are what expressions see of a candidate. What a candidate may lack is a
// pointer.
type fields struct {
	Candidate   string         `expr:"candidate"`
	Campaign    string         `expr:"campaign"`
	Kernel      string         `expr:"kernel"`
	Backend     string         `expr:"backend"`
	Device      string         `expr:"device"`
	DeviceName  string         `expr:"device_name"`
	Shapes      []string       `expr:"shapes"`
	Index       int            `expr:"index"`
	Operator    string         `expr:"operator"`
	ParentIDs   []string       `expr:"parent_ids"`
	Verdict     string         `expr:"verdict"`
	Fitness     *float64       `expr:"fitness"`
	Speedup     *float64       `expr:"speedup"`
	MedianNS    *float64       `expr:"median_ns"`
	BaselineNS  *float64       `expr:"baseline_ns"`
	Key         string         `expr:"key"`
	Finalist    bool           `expr:"finalist"`
	Proven      bool           `expr:"proven"`
	Measured    string         `expr:"measured"`
	Significant bool           `expr:"significant"`
	AskedAt     time.Time      `expr:"asked_at"`
	Encoding    string         `expr:"encoding"`
	Genome      map[string]any `expr:"genome"`
}

const genomeField = "genome"

// fieldTypes are the types of the fields, by their names in expressions.
var fieldTypes = func() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[fields]()) {
		types[f.Tag.Get("expr")] = f.Type
	}
	return types
}()

// mayLack tells whether some candidates have no value of a field.
func mayLack(name string) bool {
	t := fieldTypes[name]
	return t != nil && t.Kind() == reflect.Pointer
}

// Pending is the verdict of a candidate without a result.
const Pending = "pending"

// An expression is compiled, and has what it runs with: it is not safe for
// concurrent use.
type expression struct {
	source  string
	program *vm.Program
	// genes are the genes it names, with their places; whole says that it uses the
	// genome as such.
	genes map[string]file.Location
	whole bool
	seen  map[string]bool // those of genes that some candidate had

	machine vm.VM
	env     fields
	numbers [4]float64
	// values is the genome of the candidate that is looked at, once a gene of it was
	// asked for; encoding is what it is decoded from.
	values   map[string]genome.Value
	encoding string
}

// A Filter is a condition over stored candidates in the language of expr-lang:
//
//	verdict == "sanitizer" && genome.STAGES > 2
//
// docs/ask.md lists the fields. A gene that a candidate does not have is nil, and so
// is a time of one without a result; a comparison with what is not there is false,
// and so is such a gene as a condition. It is not safe for concurrent use.
type Filter struct{ expression }

// CompileFilter compiles a condition. The error is a *genome.ExprError, which names
// the column.
func CompileFilter(source string) (*Filter, error) {
	f := &Filter{}
	return f, f.compile(source, expr.AsBool())
}

// Match tells whether a candidate of a campaign that was started so meets the
// condition. An error, a *genome.ExprError, comes of genes whose type does not fit.
func (f *Filter) Match(c *store.Candidate, of *store.Started) (bool, error) {
	out, err := f.run(c, of)
	ok, _ := out.(bool) // as it was compiled
	return ok, err
}

// A SortKey orders candidates by a field or a gene.
type SortKey struct {
	expression
	descending bool
}

// CompileSortKey reads the name of a field, or genome.NAME; "-" before it puts the
// largest first.
func CompileSortKey(text string) (*SortKey, error) {
	k := &SortKey{}
	text, k.descending = strings.CutPrefix(text, "-")
	if err := k.compile(text); err != nil {
		return nil, err
	}
	switch n := k.program.Node().(type) {
	case *ast.IdentifierNode:
		if kind := fieldTypes[n.Value].Kind(); kind != reflect.Map && kind != reflect.Slice {
			return k, nil
		}
	case *ast.CallNode:
		if len(k.genes) == 1 && strings.HasPrefix(strings.TrimSpace(text), genomeField) {
			return k, nil
		}
	}
	return nil, k.fault(0, "candidates are sorted by one field that is not a list, or by genome.NAME")
}

// Value gives what a candidate is sorted by; nil when it does not have it.
func (k *SortKey) Value(c *store.Candidate, of *store.Started) (any, error) {
	v, err := k.run(c, of)
	if p, ok := v.(*float64); ok {
		if p == nil {
			return nil, err
		}
		return *p, err
	}
	return v, err
}

// Compare orders two values of the key. What is not there comes last.
func (k *SortKey) Compare(a, b any) int {
	if a == nil || b == nil {
		return cmp.Compare(boolInt(a == nil), boolInt(b == nil))
	}
	if k.descending {
		a, b = b, a
	}
	x, xNumber := toFloat(a)
	y, yNumber := toFloat(b)
	switch {
	case xNumber && yNumber:
		return cmp.Compare(x, y)
	case xNumber != yNumber:
		return cmp.Compare(boolInt(yNumber), boolInt(xNumber))
	}
	if s, ok := a.(time.Time); ok {
		if t, ok := b.(time.Time); ok {
			return s.Compare(t)
		}
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func toFloat(x any) (float64, bool) {
	switch x := x.(type) {
	case int:
		return float64(x), true
	case float64:
		return x, true
	}
	return 0, false
}

// Genes lists the genes that the expression names, sorted.
func (e *expression) Genes() []string { return slices.Sorted(maps.Keys(e.genes)) }

// Known tells whether some candidate had each of the genes.
func (e *expression) Known() bool { return len(e.seen) == len(e.genes) }

// CheckGenes refuses a gene that no candidate had that the expression was run for:
// its name was mistaken. have are the genes that there are.
func (e *expression) CheckGenes(have []string) error {
	for _, name := range e.Genes() {
		if !e.seen[name] {
			return e.fault(e.genes[name].From, fmt.Sprintf("no candidate has a gene %s: there are %s", name, cmp.Or(strings.Join(have, ", "), "none")))
		}
	}
	return nil
}

// fault makes an error at a character.
func (e *expression) fault(at int, msg string) error {
	out := &genome.ExprError{Expr: e.source, Line: 1, Column: 1, Offset: len(e.source), Msg: msg}
	n := 0
	for i, r := range e.source {
		if n == at {
			out.Offset = i
			break
		}
		n++
		out.Column++
		if r == '\n' {
			out.Line, out.Column = out.Line+1, 1
		}
	}
	return out
}

// reword makes an error of expr-lang one of ours.
func (e *expression) reword(err error) error {
	var f *file.Error
	if !errors.As(err, &f) {
		return e.fault(0, strings.Join(strings.Fields(err.Error()), " "))
	}
	msg := strings.TrimPrefix(f.Message, "runtime error: ")
	msg = strings.Replace(msg, "interface conversion: interface {} is ", "the value is ", 1)
	if strings.HasPrefix(msg, "unknown name ") {
		msg += ": there are " + strings.Join(slices.Sorted(maps.Keys(fieldTypes)), ", ") + " with its genes, as in genome.NAME"
	}
	return e.fault(f.From, msg)
}

func (e *expression) compile(source string, options ...expr.Option) (err error) {
	e.source, e.genes, e.seen = source, map[string]file.Location{}, map[string]bool{}
	e.env.Genome = map[string]any{}
	defer func() {
		if r := recover(); r != nil { // a fault of expr-lang is one line, too
			err = e.fault(0, fmt.Sprintf("the expression cannot be compiled: %v", r))
		}
	}()
	if strings.TrimSpace(source) == "" {
		return e.fault(0, "the expression is empty")
	}
	p := &patcher{e: e}
	e.program, err = expr.Compile(source, append(options, expr.Env(&fields{}), expr.Patch(p), expr.Patch(lazily{}), expr.Function(geneFunction, e.gene, new(func(string) any)))...)
	switch {
	case err != nil:
		return e.reword(err)
	case p.refused != "":
		return e.fault(p.at, p.refused)
	}
	e.whole = p.mentions > p.genes
	return nil
}

// run evaluates the expression for a candidate.
func (e *expression) run(c *store.Candidate, of *store.Started) (any, error) {
	v := &e.env
	v.Candidate, v.Campaign, v.Kernel, v.Backend, v.Device, v.DeviceName = c.ID, c.Campaign, c.Kernel, of.Backend, c.Device, of.Name
	v.Shapes, v.Index, v.Operator, v.ParentIDs, v.Encoding, v.AskedAt = c.Shapes, c.Asked.Index, c.Asked.Operator, c.Asked.Parents, c.Asked.Genome, c.AskedAt
	v.Verdict, v.Key, v.Finalist = Pending, "", c.Finalist
	if c.Told != nil {
		v.Verdict, v.Key = c.Told.Verdict, c.Told.Key
	}
	f := record.FiguresOf(*c)
	v.Significant, v.Measured, v.Proven = f.Significant, f.From, c.Proven && f.Unproven == ""
	e.numbers = [4]float64{f.Fitness, 1 / f.Fitness, f.MedianNS, f.BaselineNS}
	for i, to := range []**float64{&v.Fitness, &v.Speedup, &v.MedianNS, &v.BaselineNS} {
		*to = nil
		if have := [4]float64{f.Fitness, f.Fitness, f.MedianNS, f.BaselineNS}; have[i] > 0 {
			*to = &e.numbers[i]
		}
	}
	e.values, e.encoding = nil, c.Asked.Genome
	if e.whole || !e.Known() {
		if err := e.decode(); err != nil {
			return nil, fmt.Errorf("candidate %s: its genome cannot be read: %w: run `tune check`", c.ID, err)
		}
	}
	out, err := e.machine.Run(e.program, v)
	if err != nil {
		var f *file.Error
		if errors.As(err, &f) {
			f.Message += " (candidate " + c.ID + " of " + c.Kernel + ")"
		}
		return nil, e.reword(err)
	}
	return out, nil
}

// decode reads the genome.
func (e *expression) decode() (err error) {
	if e.values, err = genome.Decode(e.encoding); err != nil {
		return err
	}
	for name := range e.genes {
		if _, ok := e.values[name]; ok {
			e.seen[name] = true
		}
	}
	if e.whole {
		clear(e.env.Genome)
		for name, v := range e.values {
			e.env.Genome[name] = plain(v)
		}
	}
	return nil
}

// gene is the function that genome.NAME calls: most conditions settle most
// candidates without a look at their genomes.
func (e *expression) gene(args ...any) (any, error) {
	if e.values == nil {
		if err := e.decode(); err != nil {
			return nil, err
		}
	}
	name, _ := args[0].(string)
	v, ok := e.values[name]
	if !ok {
		return nil, nil
	}
	return plain(v), nil
}

// plain gives a value as expressions have it: their integers are int.
func plain(v genome.Value) any {
	x := v.Any()
	if i, ok := x.(int64); ok {
		return int(i)
	}
	return x
}

// geneFunction is not a name that an expression could write.
const geneFunction = "$gene"

// lazily makes calls of what names genes.
type lazily struct{}

// Visit is called for the inner nodes first.
func (lazily) Visit(node *ast.Node) {
	if m, ok := (*node).(*ast.MemberNode); ok {
		if name := geneOf(m); name != "" {
			ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: geneFunction}, Arguments: []ast.Node{&ast.StringNode{Value: name}}})
		}
	}
}

// A patcher guards comparisons: one with what a candidate does not have is false.
type patcher struct {
	e               *expression
	mentions, genes int // of the genome, and of them those that name a gene
	refused         string
	at              int
}

// comparisons are the operators, and functions those of the functions, that give
// true or false of values that must be there.
var (
	comparisons = []string{"==", "!=", "<", "<=", ">", ">=", "in", "matches", "contains", "startsWith", "endsWith"}
	conditions  = []string{"&&", "||", "and", "or"}
	predicates  = []string{"hasPrefix", "hasSuffix"}
)

// Visit is called for the inner nodes first.
func (p *patcher) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == genomeField {
			p.mentions++
		}
		if n.Value == "$env" {
			p.refuse(n, "$env is not available: write the fields themselves")
		}
	case *ast.VariableDeclaratorNode:
		p.refuse(n, "variables are not available")
	case *ast.MemberNode:
		if isGenome(n.Node) {
			name := geneOf(n)
			if name == "" {
				p.refuse(n, "a gene is written genome.NAME")
			}
			p.genes++
			if _, ok := p.e.genes[name]; !ok {
				p.e.genes[name] = n.Property.Location()
			}
		}
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			condition(&n.Node)
		}
	case *ast.ConditionalNode:
		condition(&n.Cond)
	case *ast.PredicateNode:
		condition(&n.Node)
	case *ast.BinaryNode:
		switch {
		case slices.Contains(conditions, n.Operator):
			condition(&n.Left)
			condition(&n.Right)
		case slices.Contains(comparisons, n.Operator) && !isNil(n.Left) && !isNil(n.Right):
			guard(node, n.Left, n.Right)
		}
	case *ast.BuiltinNode:
		if slices.Contains(predicates, n.Name) {
			guard(node, n.Arguments...)
		}
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok && slices.Contains(predicates, id.Value) {
			guard(node, n.Arguments...)
		}
	}
}

func (p *patcher) refuse(n ast.Node, msg string) {
	if p.refused == "" {
		p.refused, p.at = msg, n.Location().From
	}
}

func isNil(n ast.Node) bool {
	_, ok := n.(*ast.NilNode)
	return ok
}

func isGenome(n ast.Node) bool {
	id, ok := n.(*ast.IdentifierNode)
	return ok && id.Value == genomeField
}

// geneOf gives the gene that a node is, or "".
func geneOf(n ast.Node) string {
	if chain, ok := n.(*ast.ChainNode); ok {
		n = chain.Node
	}
	m, ok := n.(*ast.MemberNode)
	if !ok || !isGenome(m.Node) {
		return ""
	}
	name, _ := m.Property.(*ast.StringNode)
	if name == nil {
		return ""
	}
	return name.Value
}

// condition makes a gene that stands as a condition false where it is missing.
func condition(node *ast.Node) {
	if geneOf(*node) != "" {
		ast.Patch(node, &ast.BinaryNode{Operator: "??", Left: *node, Right: &ast.BoolNode{}})
	}
}

// guard puts "X != nil &&" before a comparison for every X in it that may be
// missing.
func guard(node *ast.Node, operands ...ast.Node) {
	needs := map[string]ast.Node{}
	for _, n := range operands {
		missing(n, needs)
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(needs))) {
		there := &ast.BinaryNode{Operator: "!=", Left: needs[name], Right: &ast.NilNode{}}
		there.SetLocation((*node).Location())
		ast.Patch(node, &ast.BinaryNode{Operator: "&&", Left: there, Right: *node})
	}
}

// missing collects what may be missing in an operand. Parts that say themselves what
// happens then are left alone.
func missing(n ast.Node, needs map[string]ast.Node) {
	if name := geneOf(n); name != "" {
		m := &ast.MemberNode{Node: &ast.IdentifierNode{Value: genomeField}, Property: &ast.StringNode{Value: name}}
		needs[genomeField+"."+name] = m
		return
	}
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if mayLack(n.Value) {
			needs[n.Value] = &ast.IdentifierNode{Value: n.Value}
		}
	case *ast.UnaryNode:
		missing(n.Node, needs)
	case *ast.BinaryNode:
		if n.Operator != "??" && !slices.Contains(conditions, n.Operator) && !slices.Contains(comparisons, n.Operator) {
			missing(n.Left, needs)
			missing(n.Right, needs)
		}
	case *ast.ArrayNode:
		for _, m := range n.Nodes {
			missing(m, needs)
		}
	case *ast.BuiltinNode:
		for _, m := range n.Arguments {
			missing(m, needs)
		}
	case *ast.CallNode:
		for _, m := range n.Arguments {
			missing(m, needs)
		}
	}
}
