package genome

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// A Genome is one point of a Space: an immutable value. Two genomes of one
// space are equal with == exactly when they have the same values, so a Genome
// can be the key of a map. The zero Genome is not a genome.
type Genome struct {
	space *Space
	code  string // two bytes per gene of the space: 0 inactive, else index + 1
}

// IsZero reports whether g is the zero value, which is not a genome.
func (g Genome) IsZero() bool { return g.space == nil }

// Space returns the space that g belongs to; nil for the zero Genome.
func (g Genome) Space() *Space { return g.space }

// index returns the position of the i-th gene's value among its values, or -1
// when the gene is inactive.
func (g Genome) index(i int) int {
	return int(g.code[2*i])<<8 + int(g.code[2*i+1]) - 1
}

// String returns the canonical encoding: "BM=64,PACK=true,ORDER=ijk", the genes in the
// order of the space, inactive ones left out, strings quoted if they are ambiguous.
// Space.Parse reads it back, Decode without a space. It depends only on names and
// values, never on the space's other values or constraints.
func (g Genome) String() string {
	if g.space == nil {
		return ""
	}
	return string(g.append(make([]byte, 0, 16*len(g.space.genes))))
}

func (g Genome) append(dst []byte) []byte {
	for i := range g.space.genes {
		k := g.index(i)
		if k < 0 {
			continue
		}
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, g.space.genes[i].Name...)
		dst = append(dst, '=')
		dst = append(dst, g.space.text[i][k]...)
	}
	return dst
}

// Hash returns the first 16 hexadecimal digits of SHA-256 over the canonical
// encoding; "" for the zero Genome.
func (g Genome) Hash() string {
	if g.space == nil {
		return ""
	}
	sum := sha256.Sum256(g.append(make([]byte, 0, 16*len(g.space.genes))))
	return hex.EncodeToString(sum[:8])
}

// Get returns the value of a gene; false when the space has no such gene or the
// gene is inactive.
func (g Genome) Get(name string) (Value, bool) {
	if g.space == nil {
		return Value{}, false
	}
	i, ok := g.space.byName[name]
	if !ok {
		return Value{}, false
	}
	k := g.index(i)
	if k < 0 {
		return Value{}, false
	}
	return g.space.genes[i].Values[k], true
}

// Map returns the active genes by name, as int64, float64, bool or string: what
// templates see. The caller may change the map.
func (g Genome) Map() map[string]any {
	if g.space == nil {
		return nil
	}
	m := make(map[string]any, len(g.space.genes))
	for i := range g.space.genes {
		if k := g.index(i); k >= 0 {
			m[g.space.genes[i].Name] = g.space.genes[i].Values[k].Any()
		}
	}
	return m
}

// MarshalJSON writes an object with the active genes in the order of the
// space; null for the zero Genome.
func (g Genome) MarshalJSON() ([]byte, error) {
	if g.space == nil {
		return []byte("null"), nil
	}
	dst := []byte{'{'}
	for i := range g.space.genes {
		k := g.index(i)
		if k < 0 {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		name, err := json.Marshal(g.space.genes[i].Name)
		if err != nil {
			return nil, err
		}
		value, err := g.space.genes[i].Values[k].MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("gene %s: %w", g.space.genes[i].Name, err)
		}
		dst = append(append(append(dst, name...), ':'), value...)
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON accepts null, which gives the zero Genome, and fails for
// anything else: a genome needs its space, so read it with Space.Parse or
// Space.FromMap.
func (g *Genome) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*g = Genome{}
		return nil
	}
	return errors.New("a genome cannot be read from JSON without its space: decode a map and use Space.FromMap")
}
