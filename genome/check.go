package genome

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evotune/evotune/internal/naming"
)

// Check returns nil if g is a valid genome of this space, else an *InvalidError that
// names the broken constraint and its reason. It checks a genome of another space by
// its names and values.
//
// Everything that makes genomes agrees with Check: samplers and operators walk
// diagrams compiled from the same rules, FromMap and Parse call the same
// function.
func (s *Space) Check(g Genome) error {
	_, err := s.adopt(g)
	return err
}

// adopt returns the genome of this space with the names and values of g.
func (s *Space) adopt(g Genome) (Genome, error) {
	if g.space == nil {
		return Genome{}, &InvalidError{Msg: "there is none (the zero Genome)"}
	}
	if g.space == s {
		return g, s.check(s.Indices(g))
	}
	return s.FromMap(g.Map())
}

// own returns g in this space; operators call it. A genome that is not in the space is
// an error of the caller.
func (s *Space) own(g Genome) Genome {
	if g.space == s {
		return g
	}
	h, err := s.adopt(g)
	if err != nil {
		panic(fmt.Sprintf("genome: an operator was given a genome of another space: %v", err))
	}
	return h
}

// check checks an index vector; see Indices. Only this function
// decides what is valid.
func (s *Space) check(ix []int) error {
	b := s.branches[0]
	if s.union {
		if ix[0] < 0 {
			return &InvalidError{Msg: fmt.Sprintf("gene %s is missing", s.genes[0].Name)}
		}
		b = s.branches[ix[0]]
	}
	for i, k := range ix {
		if k < 0 || s.union && i == 0 {
			continue
		}
		l := b.local[i]
		if l < 0 {
			return &InvalidError{Msg: fmt.Sprintf("gene %s does not exist in %s", s.genes[i].Name, b.name)}
		}
		if b.genes[l].slotOf[k] < 0 {
			return &InvalidError{Msg: fmt.Sprintf("gene %s has no value %s in %s; %s",
				s.genes[i].Name, s.text[i][k], b.name, has(b.genes[l].Values, s.genes[i].Values[k]))}
		}
	}
	slot := func(g int) int32 { return b.genes[g].slot(ix[b.genes[g].global]) }
	if s.listed {
		path := make([]int32, len(b.genes))
		for i := range path {
			if path[i] = slot(i); path[i] >= b.genes[i].slots() {
				return &InvalidError{Msg: fmt.Sprintf("gene %s is missing", b.genes[i].Name)}
			}
		}
		if !b.comps[0].d.has(path) {
			return &InvalidError{Msg: fmt.Sprintf("it is not among the %.0f that are listed", s.size)}
		}
		return nil
	}
	for i := range b.genes {
		g := &b.genes[i]
		missing := ix[g.global] < 0
		switch r := b.whens[i]; {
		case r == nil && missing:
			return &InvalidError{Msg: fmt.Sprintf("gene %s is missing", g.Name)}
		case r == nil:
		default:
			switch v := r.judge(b, slot); {
			case v == fails:
				return &InvalidError{Constraint: r.Expr, Msg: fmt.Sprintf("the condition of gene %s fails: %s", g.Name, r.failure(b, slot))}
			case v == holds && missing:
				return &InvalidError{Msg: fmt.Sprintf("gene %s is missing; it exists because %q holds", g.Name, r.Expr)}
			case v != holds && !missing:
				return &InvalidError{Msg: fmt.Sprintf("gene %s must not be given; it exists only where %q holds", g.Name, r.Expr)}
			}
		}
	}
	for _, r := range b.rules {
		if r.gene >= 0 {
			continue
		}
		switch r.judge(b, slot) {
		case broken:
			return &InvalidError{Constraint: r.Expr, Why: r.Why}
		case fails:
			return &InvalidError{Constraint: r.Expr, Why: r.Why, Msg: "it fails: " + r.failure(b, slot)}
		}
	}
	return nil
}

// has lists the values that there are, for messages.
func has(values []Value, wanted Value) string {
	if w, ok := wanted.Number(); ok && len(values) > 12 {
		var below, above string
		for _, v := range values {
			if x, ok := v.Number(); ok && x < w {
				below = v.String()
			} else if ok && above == "" {
				above = v.String()
			}
		}
		near := strings.Trim(below+" and "+above, " and")
		if below != "" && above != "" {
			near = below + " and " + above
		}
		return fmt.Sprintf("it has %d values from %s to %s, the nearest being %s", len(values), values[0], values[len(values)-1], near)
	}
	var list []string
	for _, v := range values[:min(len(values), 24)] {
		list = append(list, v.String())
	}
	if len(values) > 24 {
		list = append(list, "...")
	}
	msg := "it has " + strings.Join(list, ", ")
	if near := naming.Nearest(wanted.String(), list); near != "" && wanted.Kind() == KindString {
		msg = fmt.Sprintf("did you mean %s? %s", near, msg)
	}
	return msg
}

// valueIndex finds a value of a gene; numbers match across integer and float
// when nothing is lost.
func (s *Space) valueIndex(gene int, v Value) (int, bool) {
	if k, ok := s.lookup[gene][v]; ok {
		return k, true
	}
	for _, kind := range []Kind{KindInt, KindFloat} {
		if w, ok := v.As(kind); ok {
			if k, ok := s.lookup[gene][w]; ok {
				return k, true
			}
		}
	}
	return 0, false
}

// FromMap makes a genome from a complete assignment by name: integers, floats,
// booleans, strings or Values. Numbers match across integer and float when
// nothing is lost. The error, for which errors.Is reports ErrInvalid, is an
// *InvalidError that says which gene is unknown or missing, which value it
// does not have, or which constraint is broken.
func (s *Space) FromMap(values map[string]any) (Genome, error) {
	ix := s.blank()
	for _, name := range slices.Sorted(maps.Keys(values)) { // sorted, so that the error is always the same
		v, err := ValueOf(values[name])
		if err != nil {
			return Genome{}, &InvalidError{Msg: fmt.Sprintf("gene %s: %v", name, err)}
		}
		if err := s.assign(ix, name, v); err != nil {
			return Genome{}, err
		}
	}
	return s.FromIndices(ix)
}

func (s *Space) blank() []int {
	ix := make([]int, len(s.genes))
	for i := range ix {
		ix[i] = -1
	}
	return ix
}

func (s *Space) assign(ix []int, name string, v Value) error {
	i, ok := s.byName[name]
	if !ok {
		return &InvalidError{Msg: naming.Unknown("gene", name, s.names(), s.names())}
	}
	k, ok := s.valueIndex(i, v)
	if !ok {
		return &InvalidError{Msg: fmt.Sprintf("gene %s has no value %s; %s", name, v, has(s.genes[i].Values, v))}
	}
	ix[i] = k
	return nil
}

func (s *Space) names() []string {
	names := make([]string, len(s.genes))
	for i, g := range s.genes {
		names[i] = g.Name
	}
	return names
}

// Parse reads the encoding of a genome: NAME=VALUE separated by commas, as
// Genome.String writes it, in any order and with spaces around names and
// values. The error is an *EncodingError with the position for a malformed
// encoding, otherwise one of FromMap.
func (s *Space) Parse(encoding string) (Genome, error) {
	fs, err := fields(encoding)
	if err != nil {
		return Genome{}, err
	}
	ix := s.blank()
	for _, f := range fs {
		if err := s.assign(ix, f.name, f.value); err != nil {
			return Genome{}, err
		}
	}
	return s.FromIndices(ix)
}

// FromIndices makes a genome from an index vector, as Indices returns it.
func (s *Space) FromIndices(ix []int) (Genome, error) {
	if len(ix) != len(s.genes) {
		return Genome{}, &InvalidError{Msg: fmt.Sprintf("%d indices for %d genes", len(ix), len(s.genes))}
	}
	for i, k := range ix {
		if k < -1 || k >= len(s.genes[i].Values) {
			return Genome{}, &InvalidError{Msg: fmt.Sprintf("gene %s has no value with index %d, only 0 to %d", s.genes[i].Name, k, len(s.genes[i].Values)-1)}
		}
	}
	if err := s.check(ix); err != nil {
		return Genome{}, err
	}
	code := make([]byte, 2*len(ix))
	for i, k := range ix {
		code[2*i], code[2*i+1] = byte((k+1)>>8), byte(k+1)
	}
	return Genome{s, string(code)}, nil
}

// Indices returns, per gene of the space, the index of its value among the
// gene's values, -1 when it is inactive. FromIndices is the inverse.
func (s *Space) Indices(g Genome) []int {
	g = s.own(g)
	ix := make([]int, len(s.genes))
	for i := range ix {
		ix[i] = g.index(i)
	}
	return ix
}
