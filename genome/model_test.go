package genome

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/expr/exprtest"
)

// A model is a declaration of a space, kept so that tests can decide validity
// by brute force, one evaluation of each expression for each genome, without folding, automata and diagrams.
type model struct {
	genes       []Gene
	constraints []Constraint
	envs        []map[string]any
}

func (m model) String() string {
	var b strings.Builder
	for _, g := range m.genes {
		fmt.Fprintf(&b, "%s %v ordinal=%v when=%q\n", g.Name, g.Values, g.Ordinal, g.When)
	}
	for _, c := range m.constraints {
		fmt.Fprintf(&b, "constraint %q\n", c.Expr)
	}
	fmt.Fprintf(&b, "envs %v", m.envs)
	return b.String()
}

func (m model) sample(env map[string]any) map[string]any {
	types := maps.Clone(env)
	if types == nil {
		types = map[string]any{}
	}
	for _, g := range m.genes {
		types[g.Name] = g.Values[0]
	}
	return types
}

func (m model) environments() []map[string]any {
	if len(m.envs) == 0 {
		return []map[string]any{nil}
	}
	return m.envs
}

// holds evaluates an expression over the active genes: holds, broken, fails or
// idle.
func (m model) holds(t testing.TB, src string, active map[string]Value, some bool) verdict {
	for _, env := range m.environments() {
		e, err := expr.Compile(src, m.sample(env))
		if err != nil {
			t.Fatalf("%v", err)
		}
		args := maps.Clone(env)
		if args == nil {
			args = map[string]any{}
		}
		for _, name := range e.Names() {
			if _, constant := env[name]; constant {
				continue
			}
			v, ok := active[name]
			if !ok {
				return idle
			}
			args[name] = v
		}
		x, err := e.Any(args)
		ok, isBool := x.(bool)
		switch {
		case err != nil || !isBool:
			return fails
		case some && ok:
			return holds
		case !some && !ok:
			return broken
		}
	}
	if some {
		return broken
	}
	return holds
}

func (m model) valid(t testing.TB, active map[string]Value) bool {
	for _, g := range m.genes {
		_, on := active[g.Name]
		want := true
		if g.When != "" {
			v := m.holds(t, g.When, active, true)
			if v == fails {
				return false
			}
			want = v == holds
		}
		if on != want {
			return false
		}
	}
	for _, c := range m.constraints {
		if v := m.holds(t, c.Expr, active, false); v == broken || v == fails {
			return false
		}
	}
	return true
}

// all gives the encodings of every valid genome.
func (m model) all(t testing.TB) map[string]bool {
	out := map[string]bool{}
	active := map[string]Value{}
	var walk func(i int, encoding []string)
	walk = func(i int, encoding []string) {
		if i == len(m.genes) {
			if m.valid(t, active) {
				out[strings.Join(encoding, ",")] = true
			}
			return
		}
		g := m.genes[i]
		for _, v := range g.Values {
			active[g.Name] = v
			walk(i+1, append(slices.Clone(encoding), g.Name+"="+v.String()))
		}
		delete(active, g.Name)
		if g.When != "" {
			walk(i+1, encoding)
		}
	}
	walk(0, nil)
	return out
}

// genModel draws small spaces with every feature.
func genModel(t *rapid.T) model {
	var m model
	ints, floats, bools, strs := []string{}, []string{}, []string{}, []string{}
	if n := rapid.IntRange(0, 2).Draw(t, "envs"); n > 0 {
		for range n {
			m.envs = append(m.envs, map[string]any{"N": rapid.IntRange(0, 9).Draw(t, "N"), "LIMIT": rapid.SampledFrom([]float64{0.5, 3, 8}).Draw(t, "LIMIT")})
		}
		ints, floats = append(ints, "N"), append(floats, "LIMIT")
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "genes") {
		g := Gene{Name: string(rune('A' + i)), Ordinal: rapid.Bool().Draw(t, "ordinal")}
		if i > 0 && rapid.IntRange(0, 3).Draw(t, "conditional") == 0 {
			g.When = exprtest.Condition(t, exprtest.Names{Ints: ints, Floats: floats, Bools: bools, Strings: strs}, 2)
		}
		n := rapid.IntRange(1, 4).Draw(t, "values")
		switch rapid.SampledFrom([]string{"int", "int", "int", "float", "bool", "string"}).Draw(t, "kind") {
		case "int":
			for _, v := range rapid.SliceOfNDistinct(rapid.IntRange(-2, 12), n, n, rapid.ID).Draw(t, "ints") {
				g.Values = append(g.Values, Int(int64(v)))
			}
			ints = append(ints, g.Name)
		case "float":
			for _, v := range rapid.SliceOfNDistinct(rapid.SampledFrom([]float64{-1, 0, 0.5, 1, 2, 3.25}), n, n, rapid.ID).Draw(t, "floats") {
				g.Values = append(g.Values, Float(v))
			}
			floats = append(floats, g.Name)
		case "bool":
			g.Values = []Value{Bool(false), Bool(true)}
			bools = append(bools, g.Name)
		default:
			for _, v := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "ab", "x y", "7", "true", ""}), n, n, rapid.ID).Draw(t, "strings") {
				g.Values = append(g.Values, Str(v))
			}
			strs = append(strs, g.Name)
		}
		m.genes = append(m.genes, g)
	}
	for range rapid.IntRange(0, 4).Draw(t, "constraints") {
		m.constraints = append(m.constraints, Constraint{Expr: exprtest.Condition(t, exprtest.Names{Ints: ints, Floats: floats, Bools: bools, Strings: strs}, 3), Why: "so drawn"})
	}
	return m
}

// genSpace draws models until one is a space.
func genSpace(t *rapid.T) (model, *Space) {
	m := genModel(t)
	s, err := NewSpace(m.genes, m.constraints, m.envs...)
	if err != nil {
		t.Skip("no space: ", err)
	}
	return m, s
}
