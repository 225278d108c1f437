package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// ErrFormat is wrapped by every error about the content of a file.
var ErrFormat = errors.New("not a usable recorded space")

// maxBytes bounds the text of one table, after decompression.
const maxBytes = 1 << 30

// A Table is a recorded space: for each configuration its time and what it
// cost to try. It does not change once it is made, and is safe for concurrent
// use.
type Table struct {
	name   string
	device string
	hash   string // SHA-256 (hex) of what was read
	params []param
	rules  []rule
	rows   []row
	byRank map[uint64]int32 // rank of the value indexes -> row
	median float64          // of the recorded times, in milliseconds; 0 without any

	once  sync.Once
	space *genome.Space
	err   error
}

// A param is one tunable parameter.
type param struct {
	name   string
	values []genome.Value
}

// A rule is a constraint as the file has it, and as this project writes it.
type rule struct {
	source string // Python
	expr   string
}

// A row is one recorded configuration. Which values it has is in its rank, the
// number whose digits, in the mixed radix of the parameters' value counts, are
// the value indexes, the last parameter the lowest digit.
type row struct {
	rank   uint64
	timeMS float64 // 0 when it failed
	costS  float64
	failed evaluator.Verdict // empty when it has a time
	offset int64             // in the file, for messages
}

// Load reads a table from a file, gzipped or not. Every error is one line that
// names the file, and the line and column where the content is at fault.
func Load(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer f.Close()
	return Read(f, filepath.Base(path))
}

// newTable checks what all formats have in common. The rows' ranks are known
// to be in range.
func newTable(name, device, hash string, params []param, rules []rule, rows []row) (*Table, error) {
	t := &Table{name: name, device: device, hash: hash, params: params, rules: rules, rows: rows}
	t.byRank = make(map[uint64]int32, len(rows))
	times := make([]float64, 0, len(rows))
	for i, r := range rows {
		if _, twice := t.byRank[r.rank]; twice {
			return nil, &positionError{r.offset, fmt.Sprintf("configuration %s is there twice", t.format(r.rank))}
		}
		t.byRank[r.rank] = int32(i)
		if r.failed == "" {
			times = append(times, r.timeMS)
		}
	}
	if len(times) > 0 {
		t.median = evaluator.Median(times)
	}
	return t, nil
}

// radix is the product of the value counts; an error if it does not fit.
func radix(params []param) (uint64, error) {
	product := uint64(1)
	for _, p := range params {
		n := uint64(len(p.values))
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
		n := uint64(len(t.params[i].values))
		out[i] = int(rank % n)
		rank /= n
	}
	return out
}

// assignment gives the values of a rank by name.
func (t *Table) assignment(rank uint64) map[string]any {
	m := make(map[string]any, len(t.params))
	for i, k := range t.digits(rank) {
		m[t.params[i].name] = t.params[i].values[k].Any()
	}
	return m
}

func (t *Table) format(rank uint64) string {
	s := ""
	for i, k := range t.digits(rank) {
		if i > 0 {
			s += ","
		}
		s += t.params[i].name + "=" + t.params[i].values[k].String()
	}
	return s
}

// Name is the name of the recorded space.
func (t *Table) Name() string { return t.name }

// Device is the device that it was recorded on; it may be empty.
func (t *Table) Device() string { return t.device }

// Hash is the SHA-256 (hex) over the content of the table.
func (t *Table) Hash() string { return t.hash }

// Len is the number of recorded configurations, failed ones included.
func (t *Table) Len() int { return len(t.rows) }

// Failed is the number of recorded configurations that have no time.
func (t *Table) Failed() int {
	n := 0
	for _, r := range t.rows {
		if r.failed != "" {
			n++
		}
	}
	return n
}

// Space is the space of the table: its parameters and constraints. Parameters
// whose values are all numbers are ordinal. Every recorded configuration is
// valid in it; an error names the first that is not.
//
// A constraint that the recorder did not write down leaves genomes that are
// valid and not recorded; see [Table.Complete].
func (t *Table) Space() (*genome.Space, error) {
	t.once.Do(func() { t.space, t.err = t.newSpace() })
	return t.space, t.err
}

// Complete says whether the valid genomes are exactly the recorded ones. If
// not, the others are judged infeasible.
func (t *Table) Complete() (bool, error) {
	s, err := t.Space()
	if err != nil {
		return false, err
	}
	return s.Size() == float64(len(t.rows)), nil
}

func (t *Table) newSpace() (*genome.Space, error) {
	genes := make([]genome.Gene, len(t.params))
	for i, p := range t.params {
		genes[i] = genome.Gene{Name: p.name, Values: p.values, Ordinal: ordinal(p.values)}
	}
	constraints := make([]genome.Constraint, len(t.rules))
	for i, r := range t.rules {
		constraints[i] = genome.Constraint{Expr: r.expr, Why: "constraint of the recorded space: " + r.source}
	}
	s, err := genome.NewSpace(genes, constraints)
	if err != nil {
		return nil, fmt.Errorf("replay: space of %s: %w", t.name, err)
	}
	return s, nil
}

// verify proves that every recorded configuration is valid.
func (t *Table) verify() error {
	s, err := t.Space()
	if err != nil {
		return err
	}
	for _, r := range t.rows {
		if _, err := s.FromMap(t.assignment(r.rank)); err != nil {
			return &positionError{r.offset, fmt.Sprintf("configuration %s: %v", t.format(r.rank), err)}
		}
	}
	return nil
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
