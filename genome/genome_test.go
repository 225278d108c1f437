package genome

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"testing"
)

func small(t testing.TB) *Space {
	s, err := NewSpace([]Gene{
		{Name: "BM", Values: []Value{Int(16), Int(32), Int(64)}, Ordinal: true},
		{Name: "PACK", Values: bools},
		{Name: "AHEAD", Values: []Value{Float(0), Float(0.5)}, Ordinal: true, When: "PACK"},
		{Name: "ORDER", Values: []Value{Str("ijk"), Str("k i j")}},
	}, []Constraint{{"BM < 64 or PACK", "large blocks need packing"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGenome(t *testing.T) {
	s := small(t)
	g, err := s.FromMap(map[string]any{"BM": 64, "PACK": true, "AHEAD": 0, "ORDER": "k i j"})
	if err != nil {
		t.Fatal(err)
	}
	const encoding = `BM=64,PACK=true,AHEAD=0.0,ORDER="k i j"`
	if g.String() != encoding {
		t.Errorf("%s, want %s", g, encoding)
	}
	sum := sha256.Sum256([]byte(encoding))
	if got, want := g.Hash(), hex.EncodeToString(sum[:])[:16]; got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
	if want := map[string]any{"BM": int64(64), "PACK": true, "AHEAD": 0.0, "ORDER": "k i j"}; !reflect.DeepEqual(g.Map(), want) {
		t.Errorf("map %v", g.Map())
	}
	data, err := json.Marshal(struct{ G Genome }{g})
	if err != nil || string(data) != `{"G":{"BM":64,"PACK":true,"AHEAD":0.0,"ORDER":"k i j"}}` {
		t.Errorf("JSON %s, %v", data, err)
	}
	var m map[string]Value
	if err := json.Unmarshal(data[5:len(data)-1], &m); err != nil || len(m) != 4 || m["AHEAD"] != Float(0) {
		t.Errorf("JSON comes back as %v, %v", m, err)
	}
	if err := json.Unmarshal(data[5:len(data)-1], &g); err == nil {
		t.Error("a genome can be read without its space")
	}
	h, err := s.Parse("BM=16,PACK=false,ORDER=ijk")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := h.Get("AHEAD"); ok {
		t.Error("an inactive gene has a value")
	}
	if _, ok := h.Get("NONE"); ok {
		t.Error("an unknown gene has a value")
	}
	if v, ok := h.Get("ORDER"); !ok || v != Str("ijk") {
		t.Errorf("ORDER is %v", v)
	}
	if got, want := s.Indices(h), []int{0, 0, -1, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("indices %v, want %v", got, want)
	}
	// BM by 2 of 2 places, PACK, AHEAD (which only one has), ORDER.
	if d := s.Distance(g, h); d != 1 {
		t.Errorf("distance %v, want 1", d)
	}
	var none Genome
	if data, err := json.Marshal(none); !none.IsZero() || none.String() != "" || none.Hash() != "" || none.Map() != nil || err != nil || string(data) != "null" {
		t.Error("the zero genome is something")
	}
	if err := json.Unmarshal([]byte("null"), &none); err != nil || !none.IsZero() {
		t.Errorf("null: %v", err)
	}
	if g == h || map[Genome]int{g: 1}[g] != 1 {
		t.Error("genomes do not compare")
	}
}

// TestGenesAreCopies: a caller that changes what it was given or has given
// does not change the space.
func TestGenesAreCopies(t *testing.T) {
	genes := []Gene{{Name: "A", Values: ints(1, 3)}}
	s, err := NewSpace(genes, nil)
	if err != nil {
		t.Fatal(err)
	}
	genes[0].Values[0] = Int(9)
	s.Genes()[0].Values[1] = Int(9)
	if got := s.Genes()[0].Values; !reflect.DeepEqual(got, ints(1, 3)) {
		t.Errorf("values %v", got)
	}
}

// TestAlone: a genome without its space is printed like the one with it.
func TestAlone(t *testing.T) {
	for _, encoding := range []string{`B=3,A=true,C="x y",D=0.5,E=2.0`, "X=1"} {
		g, err := Alone(encoding)
		if err != nil {
			t.Fatal(err)
		}
		if g.String() != encoding {
			t.Errorf("%s, want %s", g, encoding)
		}
	}
	g, err := Alone(`B=3,A=x`)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := g.MarshalJSON(); err != nil || string(b) != `{"B":3,"A":"x"}` {
		t.Errorf("%s, %v", b, err)
	}
	for _, wrong := range []string{"", "A", "A=1,A=2"} {
		if g, err := Alone(wrong); err == nil {
			t.Errorf("%q is %s", wrong, g)
		}
	}
}

func TestPlain(t *testing.T) {
	got := Plain(`A=3,B=true,C="x y",D=0.5`)
	if want := map[string]any{"A": int64(3), "B": true, "C": "x y", "D": 0.5}; !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, want %#v", got, want)
	}
	if got := Plain("A=,"); got != nil {
		t.Errorf("a damaged encoding: %#v", got)
	}
}
