// Package tables reads and writes recorded spaces: what was measured, configuration
// by configuration, of a whole space or a sample of one.
//
// # Model
//
// A [Table] holds, for each configuration of a space, the time that was
// measured or the fact that it failed, and what it cost to try. It is read from a
// file by [Load] or [Read], or made of what was measured here, a [Recording].
// [Examine] says what a file holds.
//
// Files come in forms ([Forms]): evotune's own, the T4 format with its T1
// descriptions, and cache files of Kernel Tuner. [Table.Write] writes any
// table in each of them, and nothing is lost between them; docs/tables.md says what
// goes where.
//
// # Caveats
//
// A table is held in memory whole. One recorded time per configuration tells
// nothing of its noise.
package tables

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/expr"
)

// A Table is a recorded space: for each configuration its time and what it
// cost to try. It does not change once it is made, and is safe for concurrent
// use.
type Table struct {
	name   string
	file   string // the file that it was read from
	form   string // that it was read from; compact for what was made here
	device string
	hash   string // SHA-256 (hex) of what was read
	params []Parameter
	rules  []rule
	rows   []Row
	byRank map[uint64]int32 // rank of the value indexes -> row
	// records has what else is told of each row; nil where there is nothing.
	records []record
	// heads are what files tell beside parameters, constraints and configurations,
	// and what only their own form has a place for, by its name. Each form keeps what
	// the others tell, so that it is there when it is written in theirs.
	heads   map[string]object
	notices []string
	median  float64 // of the recorded times, in milliseconds; 0 without any
	// listed: the file's form has no place for constraints, or holds a sample; the
	// space is what is recorded, where the constraints allow more.
	listed bool

	once    sync.Once
	space   *genome.Space
	outside int     // rows that failed as infeasible, and that the constraints do forbid
	allowed float64 // genomes that the constraints allow
	err     error
}

// A Parameter is one tunable parameter. Ordinal says that its values are numbers
// in order, so that neighbours mean something.
type Parameter struct {
	Name    string         `json:"name"`
	Values  []genome.Value `json:"values"`
	Ordinal bool           `json:"ordinal"`
}

// parameter makes a Parameter.
func parameter(name string, values []genome.Value) Parameter {
	return Parameter{name, values, ordinal(values)}
}

// digit puts the index of one of its values behind the rank that those of the
// parameters before it have.
func (p Parameter) digit(rank uint64, k int) uint64 { return rank*uint64(len(p.Values)) + uint64(k) }

// A rule is a constraint as the file has it, in Python.
type rule struct {
	source string
	tree   *pyNode
}

func newRule(source string) (rule, error) {
	tree, err := parsePython(source)
	return rule{source, tree}, err
}

// names lists the parameters that it names, sorted.
func (r rule) names(params []Parameter) []string {
	names := []string{}
	r.tree.walk(func(n *pyNode) {
		if n.op == "name" && !slices.Contains(names, n.name) && slices.ContainsFunc(params, func(p Parameter) bool { return p.Name == n.name }) {
			names = append(names, n.name)
		}
	})
	slices.Sort(names)
	return names
}

// A Row is one recorded configuration.
type Row struct {
	// rank says which values it has: the number whose digits, in the mixed radix of
	// the parameters' value counts, are the value indexes, the last parameter the
	// lowest digit.
	rank   uint64
	TimeMS float64           // milliseconds; 0 when it failed
	CostS  float64           // what it took to try, in seconds
	Failed evaluator.Verdict // how it failed; empty when it has a time
	offset int64             // in the file, for messages
}

// Cost is CostS as a duration.
func (w Row) Cost() time.Duration {
	return time.Duration(math.Round(w.CostS * float64(time.Second)))
}

// index is the last step of making a table, from a file of any form or of what was
// measured. The rows' ranks are known to be in range.
func (t *Table) index() error {
	t.byRank = make(map[uint64]int32, len(t.rows))
	times := make([]float64, 0, len(t.rows))
	for i, r := range t.rows {
		if _, twice := t.byRank[r.rank]; twice {
			return fail(r.offset, "configuration %s is there twice", t.format(r.rank))
		}
		t.byRank[r.rank] = int32(i)
		if r.Failed == "" {
			times = append(times, r.TimeMS)
		}
	}
	if len(times) > 0 {
		t.median = evaluator.Median(times)
	}
	return nil
}

// radix is the product of the value counts; an error if it does not fit.
func radix(params []Parameter) (uint64, error) {
	product := uint64(1)
	for _, p := range params {
		n := uint64(len(p.Values))
		if product > math.MaxUint64/n {
			return 0, fmt.Errorf("the parameters have more than 2^64 combinations")
		}
		product *= n
	}
	return product, nil
}

// digits gives the value indexes of a rank.
func (t *Table) digits(rank uint64) []int {
	out := make([]int, len(t.params))
	for i := len(t.params) - 1; i >= 0; i-- {
		n := uint64(len(t.params[i].Values))
		out[i] = int(rank % n)
		rank /= n
	}
	return out
}

// configuration gives the values of a row by name.
func (t *Table) configuration(w Row) object {
	o := object{}
	for i, k := range t.digits(w.rank) {
		o = o.with(t.params[i].Name, t.params[i].Values[k])
	}
	return o
}

func (t *Table) format(rank uint64) string {
	s := ""
	for i, k := range t.digits(rank) {
		if i > 0 {
			s += ","
		}
		s += t.params[i].Name + "=" + t.params[i].Values[k].String()
	}
	return s
}

// Name is the name of the recorded space.
func (t *Table) Name() string { return t.name }

// Form names the form that it was read from; see [Forms].
func (t *Table) Form() string { return t.form }

// Notices tell, a line each, what the reader of a damaged file has to know: how
// much of the file of an interrupted run was there.
func (t *Table) Notices() []string { return slices.Clone(t.notices) }

// record has what else is told of a row.
func (t *Table) record(i int) record {
	if t.records == nil {
		return nil
	}
	return t.records[i]
}

// Device is the device that it was recorded on; it may be empty.
func (t *Table) Device() string { return t.device }

// Hash is the SHA-256 (hex) over the content of the table.
func (t *Table) Hash() string { return t.hash }

// MedianMS is the median of the recorded times, in milliseconds; 0 without any.
func (t *Table) MedianMS() float64 { return t.median }

// Lookup finds what is recorded of a genome, which may be one of another space:
// the values count. The table must have a space.
func (t *Table) Lookup(g genome.Genome) (Row, bool) {
	space, err := t.Space()
	if err != nil {
		return Row{}, false
	}
	if g.Space() != space {
		if g, err = space.FromMap(g.Map()); err != nil {
			return Row{}, false
		}
	}
	rank := uint64(0)
	for i, k := range space.Indices(g) {
		rank = t.params[i].digit(rank, k)
	}
	i, ok := t.byRank[rank]
	if !ok {
		return Row{}, false
	}
	return t.rows[i], true
}

// Constraints are those of the table as it has them, in Python.
func (t *Table) Constraints() []string {
	out := make([]string, len(t.rules))
	for i, r := range t.rules {
		out[i] = r.source
	}
	return out
}

// Len is the number of recorded configurations, failed ones included.
func (t *Table) Len() int { return len(t.rows) }

// Failed is the number of recorded configurations that have no time.
func (t *Table) Failed() int {
	n := 0
	for _, r := range t.rows {
		if r.Failed != "" {
			n++
		}
	}
	return n
}

// Space is the space of the table: its parameters and constraints. Parameters
// whose values are all numbers are ordinal. Every recorded configuration is
// valid in it; an error names the first that is not.
//
// Where the constraints allow more than is recorded, the compact form has
// genomes that are valid and not recorded; see [Table.Complete]. In the other
// forms, which often come without constraints, the space is what is recorded; a
// file can say otherwise, as docs/tables.md tells. What is recorded as infeasible
// may be outside.
func (t *Table) Space() (*genome.Space, error) {
	t.once.Do(func() { t.space, t.err = t.newSpace() })
	return t.space, t.err
}

// All gives the recorded configurations that the space has, in the order of the
// file, each with its time in milliseconds, 0 for one that failed. The space is
// that of [Table.Space], without which there are none.
func (t *Table) All() iter.Seq2[genome.Genome, float64] {
	return func(yield func(genome.Genome, float64) bool) {
		space, err := t.Space()
		if err != nil {
			return
		}
		for _, r := range t.rows {
			g, err := space.FromIndices(t.digits(r.rank))
			if err == nil && !yield(g, r.TimeMS) {
				return
			}
		}
	}
}

// Complete says whether the valid genomes are exactly the recorded ones. If
// not, the others are judged infeasible.
func (t *Table) Complete() (bool, error) {
	s, err := t.Space()
	if err != nil {
		return false, err
	}
	return s.Size() == float64(len(t.rows)-t.outside), nil
}

// whole says whether the constraints allow no more than what is recorded.
func (t *Table) whole() (bool, error) {
	if _, err := t.Space(); err != nil { // counts what is outside
		return false, err
	}
	return t.allowed == float64(len(t.rows)-t.outside), nil
}

// declared is the space of the parameters and the constraints, recorded or not.
func (t *Table) declared() (*genome.Space, error) {
	texts, err := namesOf(t.params).conditions(t.params, t.rules, make([]bool, len(t.rules)))
	if err != nil {
		if _, cause := genome.NewSpace(genes(t.params), nil); cause != nil { // a parameter's name, for example
			err = cause
		}
		return nil, fmt.Errorf("replay: space of %s: %w", t.name, err)
	}
	constraints := make([]genome.Constraint, len(t.rules))
	for i, r := range t.rules {
		constraints[i] = genome.Constraint{Expr: texts[i], Why: "constraint of the recorded space: " + r.source}
	}
	s, err := genome.NewSpace(genes(t.params), constraints)
	var at *expr.Error
	if errors.As(err, &at) { // its place is one in the translation
		if i := slices.Index(texts, at.Expr); i >= 0 {
			err = fmt.Errorf("the restriction %q: %s", oneLine(t.rules[i].source), at.Msg)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("replay: space of %s: %w", t.name, err)
	}
	return s, nil
}

func (t *Table) newSpace() (*genome.Space, error) {
	s, err := t.declared()
	if err != nil {
		return nil, err
	}
	t.allowed = s.Size()
	var rows [][]int // that the constraints allow
	for i, err := range t.forbidden(s) {
		switch {
		case err == nil:
			rows = append(rows, t.digits(t.rows[i].rank))
		case t.rows[i].Failed == evaluator.Infeasible:
			t.outside++ // file and constraints agree
		default:
			return nil, err
		}
	}
	if !t.listed || s.Size() == float64(len(rows)) {
		return s, nil
	}
	if s, err = genome.NewListed(s.Genes(), rows); err != nil {
		return nil, fmt.Errorf("replay: space of %s: %w", t.name, err)
	}
	return s, nil
}

// forbidden gives, for each row, why a space does not have it; nil if it has.
func (t *Table) forbidden(s *genome.Space) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i, r := range t.rows {
			var why error
			if _, err := s.FromIndices(t.digits(r.rank)); err != nil {
				why = fail(r.offset, "configuration %s: %v", t.format(r.rank), err)
			}
			if !yield(i, why) {
				return
			}
		}
	}
}

// ordinal says whether the values are numbers in ascending or descending
// order.
func ordinal(values []genome.Value) bool {
	numbers := make([]float64, len(values))
	for i, v := range values {
		n, ok := v.Number()
		if !ok || v.Kind() == genome.KindBool {
			return false
		}
		numbers[i] = n
	}
	if slices.IsSorted(numbers) {
		return true
	}
	slices.Reverse(numbers)
	return slices.IsSorted(numbers)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
