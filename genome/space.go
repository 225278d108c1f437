package genome

import (
	"fmt"
	"iter"
	"math/rand"
	"slices"
)

// A Space is the set of valid genomes over some genes. It is immutable and
// safe for concurrent use.
type Space struct {
	genes   []Gene
	text    [][]string // canonical form of each value
	byName  map[string]int
	choice  int
	alts    []alt
	size    float64
	listing []Genome
}

type alt struct {
	genes       []int
	whens       []*Expr
	constraints []check
}

type check struct {
	Constraint
	expr *Expr
	env  map[string]any
}

// NewSpace compiles genes and constraints once. Each env is a set of constants
// (shape, limits) for the expressions; a constraint must hold under every one.
func NewSpace(genes []Gene, constraints []Constraint, envs ...map[string]any) (*Space, error) {
	s := &Space{choice: -1, byName: map[string]int{}}
	for _, g := range genes {
		s.add(g)
	}
	a, err := s.alternative(genes, constraints, envs)
	if err != nil {
		return nil, err
	}
	s.alts = []alt{a}
	return s, s.finish()
}

// NewUnion joins alternatives: its first gene chooses among them.
func NewUnion(gene string, alternatives []Alternative, envs ...map[string]any) (*Space, error) {
	s := &Space{choice: 0, byName: map[string]int{}}
	g := Gene{Name: gene}
	for _, a := range alternatives {
		g.Values = append(g.Values, Str(a.Name))
	}
	s.add(g)
	for _, a := range alternatives {
		for _, g := range a.Genes {
			s.add(g)
		}
		b, err := s.alternative(a.Genes, a.Constraints, envs)
		if err != nil {
			return nil, err
		}
		s.alts = append(s.alts, b)
	}
	return s, s.finish()
}

func (s *Space) add(g Gene) {
	i, ok := s.byName[g.Name]
	if !ok {
		i = len(s.genes)
		s.byName[g.Name] = i
		s.genes = append(s.genes, Gene{Name: g.Name, Ordinal: g.Ordinal, When: g.When})
		s.text = append(s.text, nil)
	}
	for _, v := range g.Values {
		if !slices.Contains(s.genes[i].Values, v) {
			s.genes[i].Values = append(s.genes[i].Values, v)
			s.text[i] = append(s.text[i], v.String())
		}
	}
}

func (s *Space) alternative(genes []Gene, constraints []Constraint, envs []map[string]any) (alt, error) {
	if len(envs) == 0 {
		envs = []map[string]any{nil}
	}
	types := map[string]any{}
	for k, v := range envs[0] {
		types[k] = v
	}
	for _, g := range genes {
		if err := checkName(g.Name); err != nil {
			return alt{}, fmt.Errorf("gene: %w", err)
		}
		if len(g.Values) == 0 {
			return alt{}, fmt.Errorf("gene %s has no values", g.Name)
		}
		types[g.Name] = g.Values[0]
	}
	var a alt
	for _, g := range genes {
		a.genes = append(a.genes, s.byName[g.Name])
		var w *Expr
		if g.When != "" {
			var err error
			if w, err = CompileExpr(g.When, types); err != nil {
				return alt{}, fmt.Errorf("gene %s: when: %w", g.Name, err)
			}
		}
		a.whens = append(a.whens, w)
	}
	for _, c := range constraints {
		e, err := CompileExpr(c.Expr, types)
		if err != nil {
			return alt{}, fmt.Errorf("constraint: %w", err)
		}
		for _, env := range envs {
			a.constraints = append(a.constraints, check{c, e, env})
		}
	}
	return a, nil
}

func (s *Space) finish() error {
	total := 1.0
	for _, g := range s.genes {
		total *= float64(len(g.Values) + 1)
	}
	if total > 1e6 {
		s.size = total
		return nil
	}
	for ix := range s.product() {
		if s.check(ix) == nil {
			s.listing = append(s.listing, s.genome(ix))
		}
	}
	s.size = float64(len(s.listing))
	if s.size == 0 {
		return ErrEmpty
	}
	return nil
}

func (s *Space) product() iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		ix := make([]int, len(s.genes))
		for i := range ix {
			ix[i] = -1
		}
		for {
			if !yield(ix) {
				return
			}
			i := len(ix) - 1
			for ; i >= 0; i-- {
				ix[i]++
				if ix[i] < len(s.genes[i].Values) {
					break
				}
				ix[i] = -1
			}
			if i < 0 {
				return
			}
		}
	}
}

func (s *Space) genome(ix []int) Genome {
	code := make([]byte, 2*len(ix))
	for i, k := range ix {
		code[2*i], code[2*i+1] = byte((k+1)>>8), byte(k+1)
	}
	return Genome{s, string(code)}
}

func (s *Space) check(ix []int) error {
	b := 0
	if s.choice >= 0 {
		if b = ix[0]; b < 0 {
			return &InvalidError{Msg: "gene " + s.genes[0].Name + " is missing"}
		}
	}
	a := s.alts[b]
	env := map[string]any{}
	for i, k := range ix {
		if k >= 0 {
			env[s.genes[i].Name] = s.genes[i].Values[k]
			if i != s.choice && !slices.Contains(a.genes, i) {
				return &InvalidError{Msg: "gene " + s.genes[i].Name + " is inactive here"}
			}
		}
	}
	applies := func(e *Expr) bool {
		for _, n := range e.names {
			if _, ok := env[n]; !ok && s.byName[n] >= 0 {
				if _, gene := s.byName[n]; gene {
					return false
				}
			}
		}
		return true
	}
	for j, i := range a.genes {
		on := true
		if w := a.whens[j]; w != nil {
			on = false
			if applies(w) {
				on, _ = w.Bool(env)
			}
		}
		if on != (ix[i] >= 0) {
			return &InvalidError{Msg: "gene " + s.genes[i].Name + " is missing or must not be there"}
		}
	}
	for _, c := range a.constraints {
		if !applies(c.expr) {
			continue
		}
		for k, v := range c.env {
			env[k] = v
		}
		ok, err := c.expr.Bool(env)
		for k := range c.env {
			delete(env, k)
		}
		if err != nil {
			return &InvalidError{Constraint: c.Expr, Why: c.Why, Msg: err.Error()}
		}
		if !ok {
			return &InvalidError{Constraint: c.Expr, Why: c.Why}
		}
	}
	return nil
}

// Genes lists the genes in the order of encodings.
func (s *Space) Genes() []Gene { return slices.Clone(s.genes) }

// Size is the number of valid genomes.
func (s *Space) Size() float64 { return s.size }

// Exact tells whether Size is exact and Random exactly uniform.
func (s *Space) Exact() bool { return s.listing != nil }

// Random draws a valid genome uniformly.
func (s *Space) Random(rng *rand.Rand) Genome {
	if s.listing != nil {
		return s.listing[rng.Intn(len(s.listing))]
	}
	ix := make([]int, len(s.genes))
	for {
		for i := range ix {
			ix[i] = rng.Intn(len(s.genes[i].Values)+1) - 1
		}
		if s.check(ix) == nil {
			return s.genome(ix)
		}
	}
}

// All yields every valid genome in a fixed order.
func (s *Space) All() iter.Seq[Genome] {
	return func(yield func(Genome) bool) {
		if s.listing != nil {
			for _, g := range s.listing {
				if !yield(g) {
					return
				}
			}
			return
		}
		for ix := range s.product() {
			if s.check(ix) == nil && !yield(s.genome(ix)) {
				return
			}
		}
	}
}

// At gives the genome with a rank in the order of All.
func (s *Space) At(rank uint64) (Genome, bool) {
	if rank < uint64(len(s.listing)) {
		return s.listing[rank], true
	}
	return Genome{}, false
}

// Rank is the inverse of At.
func (s *Space) Rank(g Genome) (uint64, bool) {
	i := slices.Index(s.listing, g)
	return uint64(i), i >= 0
}

// Check tells whether g is in the space: nil or an *InvalidError.
func (s *Space) Check(g Genome) error {
	if g.space != s {
		return &InvalidError{Msg: "it belongs to another space"}
	}
	return s.check(s.Indices(g))
}

// FromMap makes a genome of a complete assignment by name.
func (s *Space) FromMap(values map[string]any) (Genome, error) {
	ix := make([]int, len(s.genes))
	for i := range ix {
		ix[i] = -1
	}
	for name, x := range values {
		i, ok := s.byName[name]
		if !ok {
			return Genome{}, &InvalidError{Msg: unknown("gene", name, s.names(), s.names())}
		}
		v, err := ValueOf(x)
		if err != nil {
			return Genome{}, &InvalidError{Msg: "gene " + name + ": " + err.Error()}
		}
		k := slices.Index(s.genes[i].Values, v)
		if k < 0 {
			return Genome{}, &InvalidError{Msg: fmt.Sprintf("gene %s has no value %s", name, v)}
		}
		ix[i] = k
	}
	if err := s.check(ix); err != nil {
		return Genome{}, err
	}
	return s.genome(ix), nil
}

func (s *Space) names() []string {
	var out []string
	for _, g := range s.genes {
		out = append(out, g.Name)
	}
	return out
}

// Parse reads a canonical encoding.
func (s *Space) Parse(encoding string) (Genome, error) {
	fs, err := fields(encoding)
	if err != nil {
		return Genome{}, err
	}
	m := make(map[string]any, len(fs))
	for _, f := range fs {
		m[f.name] = f.value
	}
	return s.FromMap(m)
}

// Indices gives per gene the index of its value, -1 when inactive.
func (s *Space) Indices(g Genome) []int {
	ix := make([]int, len(s.genes))
	for i := range ix {
		ix[i] = g.index(i)
	}
	return ix
}
