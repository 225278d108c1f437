package genome

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand"
	"slices"
	"strings"

	"github.com/evotune/evotune/internal/expr"
)

// A Space is the set of valid genomes over some genes. It is immutable and
// safe for concurrent use.
type Space struct {
	genes    []Gene
	text     [][]string      // per gene and value: the canonical form
	lookup   []map[Value]int // per gene: the index of a value
	byName   map[string]int
	union    bool // whether gene 0 chooses the branch
	branches []*branch
	limits   limits
	listed   bool // whether the valid genomes were listed, not described
	// relaxed is the number of genomes that the diagrams hold; size is the
	// number of valid ones, estimated when there are deferred rules.
	relaxed, size float64
	exact         bool
	varying       int // genes that are not the same in every genome by declaration
}

// limits bound the cost of NewSpace's diagrams.
type limits struct {
	automaton int // children per constraint
	diagram   int // edges per component, about
	width     int // nodes that every level may have, whatever the budget left
	draws     int // to estimate the size if constraints are deferred
}

// standard keeps NewSpace within a second or two and some 150 MB even for
// spaces made to defeat it; see docs/spaces.md.
var standard = limits{automaton: 1 << 19, diagram: 1 << 21, width: 1024, draws: 200000}

const (
	maxGenes  = 1000
	maxValues = 1<<16 - 2

	estimateAccepted = 2000 // accepted draws that are enough for an estimate
	leastAccepted    = 10   // with fewer, the space cannot be searched
	maxRejectedDraws = 1 << 26
)

// NewSpace compiles genes and constraints. Each env is a set of constants (a shape's
// dimensions, a device's limits) that expressions can name; all sets have the same
// names. A constraint must hold under every set; no set counts as one empty set.
//
// An error about an expression is an *ExprError, with its position. errors.Is
// reports ErrEmpty when no genome is valid; the message names a constraint, or
// a smallest set of them, that leaves none.
func NewSpace(genes []Gene, constraints []Constraint, envs ...map[string]any) (*Space, error) {
	return newSpace(standard, genes, constraints, envs)
}

func newSpace(lim limits, genes []Gene, constraints []Constraint, envs []map[string]any) (*Space, error) {
	s := &Space{limits: lim}
	if len(genes) == 0 {
		return nil, errors.New("space: there are no genes; declare one at least")
	}
	if err := s.declare(genes); err != nil {
		return nil, err
	}
	s.seal()
	b, err := s.newBranch("", genes, constraints, envs, nil)
	if err != nil {
		return nil, err
	}
	s.branches = []*branch{b}
	if err := s.measure(); err != nil {
		return nil, err
	}
	return s, nil
}

// NewUnion makes the space whose first gene, named gene, chooses among
// alternatives, each a space of its own. Genes of the same name in several
// alternatives are one gene, so that an offspring keeps their values when the
// choice changes; the gene has the values of all, and each alternative accepts
// only its own. In expressions the choosing gene is a constant string.
func NewUnion(gene string, alts []Alternative, envs ...map[string]any) (*Space, error) {
	if len(alts) == 0 {
		return nil, errors.New("space: a union needs an alternative at least")
	}
	s := &Space{limits: standard, union: true}
	choice := Gene{Name: gene}
	for _, a := range alts {
		choice.Values = append(choice.Values, Str(a.Name))
	}
	if err := s.declare([]Gene{choice}); err != nil {
		return nil, err
	}
	for _, a := range alts {
		if slices.ContainsFunc(a.Genes, func(g Gene) bool { return g.Name == gene }) {
			return nil, fmt.Errorf("space: %s: gene %s has the name of the choosing gene", a.Name, gene)
		}
		if err := s.declare(a.Genes); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	s.seal()
	for _, a := range alts {
		b, err := s.newBranch(a.Name, a.Genes, a.Constraints, envs, map[string]Value{gene: Str(a.Name)})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		s.branches = append(s.branches, b)
	}
	if err := s.measure(); err != nil {
		return nil, err
	}
	return s, nil
}

// NewListed makes the space of the listed genomes, each an index vector over
// the genes as Space.Indices returns it: -1 where a gene is inactive. It is for
// recorded spaces whose constraints are not known. Repeats count once; When of
// the genes is not used.
func NewListed(genes []Gene, rows [][]int) (*Space, error) {
	s := &Space{limits: standard, listed: true}
	if len(genes) == 0 {
		return nil, errors.New("space: there are no genes; declare one at least")
	}
	genes = slices.Clone(genes)
	for i := range genes {
		genes[i].When = ""
	}
	if err := s.declare(genes); err != nil {
		return nil, err
	}
	s.seal()
	if len(rows) == 0 {
		return nil, fmt.Errorf("space: %w: no genome is listed", ErrEmpty)
	}
	b, err := s.newBranch("", genes, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	flat := make([]int32, 0, len(rows)*len(genes))
	for n, row := range rows {
		if len(row) != len(genes) {
			return nil, fmt.Errorf("space: listed genome %d has %d indices for %d genes", n, len(row), len(genes))
		}
		for i, k := range row {
			g := &b.genes[i]
			if k < -1 || k >= len(g.Values) {
				return nil, fmt.Errorf("space: listed genome %d: gene %s has no value with index %d, only 0 to %d", n, g.Name, k, len(g.Values)-1)
			}
			g.conditional = g.conditional || k < 0
			flat = append(flat, g.slot(k))
		}
	}
	c := component{}
	slots := make([]int32, len(genes))
	for i := range genes {
		c.genes = append(c.genes, i)
		slots[i] = b.genes[i].slots()
	}
	c.d = listDiagram(slots, flat)
	b.comps = []component{c}
	b.length = 0
	b.sum()
	s.branches = []*branch{b}
	if err := s.measure(); err != nil {
		return nil, err
	}
	return s, nil
}

// declare checks genes and adds them to the space's; values of genes of the
// same name are joined.
func (s *Space) declare(genes []Gene) error {
	if s.byName == nil {
		s.byName = map[string]int{}
	}
	seen := map[string]bool{}
	for _, g := range genes {
		if err := expr.CheckName(g.Name); err != nil {
			return fmt.Errorf("space: gene: %w", err)
		}
		if seen[g.Name] {
			return fmt.Errorf("space: gene %s is declared twice", g.Name)
		}
		seen[g.Name] = true
		values, _, err := normalise(g)
		if err != nil {
			return fmt.Errorf("space: gene %s: %w", g.Name, err)
		}
		i, ok := s.byName[g.Name]
		if !ok {
			s.byName[g.Name] = len(s.genes)
			g.Values = values
			s.genes = append(s.genes, g)
			continue
		}
		old := &s.genes[i]
		old.Ordinal = old.Ordinal && g.Ordinal
		if old.When != g.When {
			old.When = "" // differs between alternatives
		}
		rising := ascending(old.Values) && ascending(values)
		for _, v := range values {
			if !slices.Contains(old.Values, v) {
				old.Values = append(old.Values, v)
			}
		}
		if rising {
			slices.SortStableFunc(old.Values, func(a, b Value) int {
				x, _ := a.Number()
				y, _ := b.Number()
				if x != y {
					return int(math.Copysign(1, x-y))
				}
				return int(a.Kind()) - int(b.Kind())
			})
		}
	}
	if len(s.genes) > maxGenes {
		return fmt.Errorf("space: %d genes are too many, at most %d", len(s.genes), maxGenes)
	}
	return nil
}

func ascending(values []Value) bool {
	for i, v := range values {
		x, ok := v.Number()
		if !ok || v.Kind() == KindBool {
			return false
		}
		if i > 0 {
			if y, _ := values[i-1].Number(); y >= x {
				return false
			}
		}
	}
	return true
}

// normalise returns the values of a gene in one kind, and that kind.
func normalise(g Gene) ([]Value, Kind, error) {
	if len(g.Values) == 0 {
		return nil, 0, errors.New("it has no values")
	}
	if len(g.Values) > maxValues {
		return nil, 0, fmt.Errorf("%d values are too many, at most %d", len(g.Values), maxValues)
	}
	kind := g.Values[0].Kind()
	for _, v := range g.Values {
		if kind == KindInt && v.Kind() == KindFloat {
			kind = KindFloat
		}
	}
	values := make([]Value, len(g.Values))
	seen := make(map[Value]bool, len(g.Values))
	for i, v := range g.Values {
		w, ok := v.As(kind)
		if !ok || v.Kind() == KindNone {
			return nil, 0, fmt.Errorf("value %s is %s among values of type %s; use one type", v, v.Kind().One(), kind)
		}
		if f, _ := w.Number(); kind == KindFloat && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return nil, 0, fmt.Errorf("value %s is not finite", w)
		}
		if seen[w] {
			return nil, 0, fmt.Errorf("value %s is listed twice", w)
		}
		seen[w] = true
		values[i] = w
	}
	return values, kind, nil
}

// seal prepares the lookups once every gene is declared.
func (s *Space) seal() {
	for _, g := range s.genes {
		text := make([]string, len(g.Values))
		lookup := make(map[Value]int, len(g.Values))
		for i, v := range g.Values {
			text[i] = v.String()
			lookup[v] = i
		}
		s.text = append(s.text, text)
		s.lookup = append(s.lookup, lookup)
	}
}

// newBranch compiles one alternative.
func (s *Space) newBranch(name string, genes []Gene, constraints []Constraint, envs []map[string]any, extra map[string]Value) (*branch, error) {
	b := &branch{limits: s.limits, name: name, local: make([]int, len(s.genes)), whens: make([]*rule, len(genes))}
	for i := range b.local {
		b.local[i] = -1
	}
	names := make(map[string]int, len(genes)) // of genes: the local number
	types := map[string]Kind{}
	for i, g := range genes {
		values, kind, err := normalise(g)
		if err != nil {
			return nil, fmt.Errorf("space: gene %s: %w", g.Name, err)
		}
		l := localGene{Gene: g, global: s.byName[g.Name], kind: kind, conditional: g.When != ""}
		l.Values = values
		l.slotOf = make([]int32, len(s.genes[l.global].Values))
		for k := range l.slotOf {
			l.slotOf[k] = -1
		}
		for slot, v := range values {
			k := s.lookup[l.global][v]
			l.values = append(l.values, int32(k))
			l.slotOf[k] = int32(slot)
		}
		b.genes = append(b.genes, l)
		b.local[l.global] = i
		names[g.Name] = i
		types[g.Name] = kind
	}
	constants, err := readConstants(envs, extra, types)
	if err != nil {
		return nil, err
	}
	for _, c := range constraints {
		r := &rule{Constraint: c, gene: -1}
		if err := b.compileRule(r, names, constants); err != nil {
			return nil, fmt.Errorf("space: constraint: %w", err)
		}
		b.rules = append(b.rules, r)
	}
	for i := range b.genes {
		if when := b.genes[i].When; when != "" {
			r := &rule{Constraint: Constraint{Expr: when}, gene: i}
			if err := b.compileRule(r, names, constants); err != nil {
				return nil, fmt.Errorf("space: gene %s: when: %w", b.genes[i].Name, err)
			}
			b.rules = append(b.rules, r)
			b.whens[i] = r
		}
	}
	if err := b.checkCycles(); err != nil {
		return nil, err
	}
	for _, r := range b.rules {
		slices.Sort(r.names)
		r.compileTerm(b)
	}
	if err := b.build(); err != nil {
		return nil, err
	}
	for _, r := range b.rules {
		r.pool = nil
	}
	return b, nil
}

// readConstants checks the sets of constants.
func readConstants(envs []map[string]any, extra map[string]Value, genes map[string]Kind) ([]map[string]Value, error) {
	if len(envs) == 0 {
		envs = []map[string]any{nil}
	}
	out := make([]map[string]Value, len(envs))
	for i, env := range envs {
		m := make(map[string]Value, len(env)+len(extra))
		for _, name := range slices.Sorted(maps.Keys(env)) {
			if err := expr.CheckName(name); err != nil {
				return nil, fmt.Errorf("space: constant: %w", err)
			}
			v, err := ValueOf(env[name])
			if err != nil {
				return nil, fmt.Errorf("space: constant %s: %w", name, err)
			}
			if _, clash := genes[name]; clash {
				return nil, fmt.Errorf("space: %s is both a gene and a constant; rename one", name)
			}
			if _, clash := extra[name]; clash {
				return nil, fmt.Errorf("space: %s is both the choosing gene and a constant; rename one", name)
			}
			m[name] = v
		}
		for name, v := range extra {
			m[name] = v
		}
		for name := range m {
			if _, ok := out[0][name]; i > 0 && !ok {
				return nil, fmt.Errorf("space: constant %s is missing in the first of %d sets of constants", name, len(envs))
			}
		}
		if i > 0 && len(m) != len(out[0]) {
			for _, name := range slices.Sorted(maps.Keys(out[0])) {
				if _, ok := m[name]; !ok {
					return nil, fmt.Errorf("space: constant %s is missing in set %d of %d", name, i+1, len(envs))
				}
			}
		}
		out[i] = m
	}
	return out, nil
}

// measure adds up the branches, and estimates the size if rules are
// deferred.
func (s *Space) measure() error {
	for i, g := range s.genes {
		if len(g.Values) > 1 || slices.ContainsFunc(s.branches, func(b *branch) bool {
			l := b.local[i]
			choice := s.union && i == 0
			return !choice && (l < 0 || b.genes[l].conditional)
		}) {
			s.varying++
		}
	}
	deferred := 0
	s.exact = true
	total := uint64(0)
	for _, b := range s.branches {
		s.relaxed += b.count
		deferred += len(b.deferred)
		s.exact = s.exact && b.exact
		total += b.total // each below 2^63
		s.exact = s.exact && total <= math.MaxInt64
		if !s.exact {
			total = 0
		}
	}
	s.size = s.relaxed
	if s.exact {
		s.size = float64(total)
	}
	if deferred == 0 {
		return nil
	}
	s.exact = false
	rng := rand.New(rand.NewSource(1)) // fixed, so that Size is
	accepted, draws := 0, 0
	buf := make([]int32, s.longest())
	for ; draws < s.limits.draws && accepted < estimateAccepted; draws++ {
		if b, path := s.draw(rng, buf); b.admits(path) {
			accepted++
		}
	}
	if accepted < leastAccepted {
		var which []string
		for _, c := range s.Deferred() {
			which = append(which, fmt.Sprintf("%q", c.Expr))
		}
		return fmt.Errorf("space: %d of %d draws satisfy the constraints that are too large to be compiled: %s; "+
			"split them into smaller ones or shorten the lists of values", accepted, draws, strings.Join(which, " and "))
	}
	s.size = s.relaxed * float64(accepted) / float64(draws)
	return nil
}

func (s *Space) longest() int {
	n := 0
	for _, b := range s.branches {
		n = max(n, b.length)
	}
	return n
}

// draw picks uniformly from the diagrams: a branch and a path of it, written
// into buf.
func (s *Space) draw(rng *rand.Rand, buf []int32) (*branch, []int32) {
	b := s.branches[0]
	if len(s.branches) > 1 {
		r := rng.Float64() * s.relaxed
		for _, c := range s.branches {
			b = c
			if r -= c.count; r < 0 {
				break
			}
		}
	}
	path := buf[:b.length]
	for i := range b.comps {
		c := &b.comps[i]
		c.d.sample(rng, path[c.start:c.start+len(c.genes)])
	}
	return b, path
}

// genome makes the genome of a path.
func (s *Space) genome(b *branch, path []int32) Genome {
	code := make([]byte, 2*len(s.genes))
	if s.union {
		k := slices.Index(s.branches, b) + 1
		code[0], code[1] = byte(k>>8), byte(k)
	}
	for i := range b.comps {
		c := &b.comps[i]
		for l, g := range c.genes {
			lg := &b.genes[g]
			if slot := path[c.start+l]; int(slot) < len(lg.values) {
				k := lg.values[slot] + 1
				code[2*lg.global], code[2*lg.global+1] = byte(k>>8), byte(k)
			}
		}
	}
	return Genome{s, string(code)}
}

// branchOf returns the branch of a genome of this space.
func (s *Space) branchOf(g Genome) *branch {
	if s.union {
		return s.branches[g.index(0)]
	}
	return s.branches[0]
}

// path returns the slots of a genome of this space, level by level.
func (s *Space) path(b *branch, g Genome, buf []int32) []int32 {
	path := buf[:0]
	for i := range b.comps {
		for _, l := range b.comps[i].genes {
			path = append(path, b.genes[l].slot(g.index(b.genes[l].global)))
		}
	}
	return path
}

// Genes lists the genes in the order of encodings. In a union, the values of a
// gene are those of all alternatives, and When is kept only where they agree.
func (s *Space) Genes() []Gene {
	genes := slices.Clone(s.genes)
	for i := range genes {
		genes[i].Values = slices.Clone(genes[i].Values)
	}
	return genes
}

// Size is the number of valid genomes: exact up to 2^53 and rounded beyond
// when Exact is true or the space is merely larger than 2^63; estimated from
// a fixed random sample of 2000 genomes (within some 5 percent; less well where
// fewer than one draw in 100 is valid) when constraints were too large to be
// compiled (see Deferred).
func (s *Space) Size() float64 { return s.size }

// Exact says whether every valid genome has a rank: no constraint is deferred
// and there are at most 2^63 - 1 genomes.
func (s *Space) Exact() bool { return s.exact }

// Deferred lists the constraints, and conditions of genes, that are too large
// to be compiled into diagrams. Random draws until they hold, so it stays
// uniform but takes longer; Size is an estimate; ranks are not available.
func (s *Space) Deferred() []Constraint {
	var out []Constraint
	for _, b := range s.branches {
		for _, r := range b.rules {
			if slices.ContainsFunc(b.deferred, func(x *piece) bool { return x.rule == r }) {
				out = append(out, r.Constraint)
			}
		}
	}
	return out
}

// Nodes counts the nodes of the diagrams, a measure of the memory they take:
// 8 bytes for each, and 4 for each value of its gene.
func (s *Space) Nodes() int {
	n := 0
	for _, b := range s.branches {
		for i := range b.comps {
			d := b.comps[i].d
			n += max(len(d.counts), len(d.weights)) - 2
		}
	}
	return n
}

// Random draws a valid genome, uniformly over all.
func (s *Space) Random(rng *rand.Rand) Genome {
	buf := make([]int32, 64)
	if n := s.longest(); n > len(buf) {
		buf = make([]int32, n)
	}
	for range maxRejectedDraws {
		if b, path := s.draw(rng, buf); b.admits(path) {
			return s.genome(b, path)
		}
	}
	// NewSpace has seen one draw in 20000 accepted, so this is a bug in evotune.
	panic("genome: no valid genome found by drawing")
}

// At returns the genome of a rank below Size, in the order of All; false when
// there is none or the space is not Exact.
func (s *Space) At(rank uint64) (Genome, bool) {
	if !s.exact {
		return Genome{}, false
	}
	for _, b := range s.branches {
		if rank >= b.total {
			rank -= b.total
			continue
		}
		path := make([]int32, b.length)
		for i := len(b.comps) - 1; i >= 0; i-- {
			c := &b.comps[i]
			c.d.at(rank%c.total, path[c.start:c.start+len(c.genes)])
			rank /= c.total
		}
		return s.genome(b, path), true
	}
	return Genome{}, false
}

// Rank is the inverse of At: the number of valid genomes before g in the order
// of All; false when the space is not Exact or g is not in it.
func (s *Space) Rank(g Genome) (uint64, bool) {
	if !s.exact || g.space != s {
		return 0, false
	}
	b := s.branchOf(g)
	path := s.path(b, g, nil)
	rank := uint64(0)
	for i := range b.comps {
		c := &b.comps[i]
		rank = rank*c.total + c.d.rank(path[c.start:c.start+len(c.genes)])
	}
	for _, other := range s.branches {
		if other == b {
			return rank, true
		}
		rank += other.total
	}
	return 0, false
}

// All yields every valid genome once, in a fixed order: that of the diagrams,
// not of the encodings. It does not hold the genomes in memory.
func (s *Space) All() iter.Seq[Genome] {
	return func(yield func(Genome) bool) {
		for _, b := range s.branches {
			path := make([]int32, b.length)
			if !b.all(0, path, func() bool { return !b.admits(path) || yield(s.genome(b, path)) }) {
				return
			}
		}
	}
}
