package ask

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/store"
)

// filtered are the candidates of the tests: one correct, one that failed, one without
// a result, one of another kernel with other genes.
func filtered() ([]store.Candidate, *store.Started) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	asked := func(i int, genome string) store.Asked {
		return store.Asked{Index: i, Genome: genome, Operator: "mutation", Parents: []string{"p"}}
	}
	return []store.Candidate{
		{
			ID: "good", Campaign: "c-1", Kernel: "k", Shapes: []string{"512"}, Asked: asked(0, "STAGES=3,PACK=true,ORDER=ijk,RATE=0.5"), AskedAt: at,
			Told: &store.Told{Verdict: "correct", Fitness: 0.5, MedianNS: 10, BaselineNS: 20, Key: "x"}, Proven: true,
		},
		{
			ID: "bad", Campaign: "c-1", Kernel: "k", Shapes: []string{"512"}, Asked: asked(1, "STAGES=2,PACK=false,ORDER=kji"), AskedAt: at.Add(time.Hour),
			Told: &store.Told{Verdict: "sanitizer"},
		},
		{ID: "open", Campaign: "c-1", Kernel: "k", Shapes: []string{"512"}, Asked: asked(2, "STAGES=4"), AskedAt: at.Add(2 * time.Hour)},
		{
			ID: "other", Campaign: "d-1", Kernel: "l", Shapes: []string{"7", "9"}, Asked: asked(0, "WIDE=abc"), AskedAt: at,
			Told: &store.Told{Verdict: "correct", Fitness: 2, MedianNS: 40, BaselineNS: 20},
		},
	}, &store.Started{Backend: "cpu", Name: "a processor"}
}

func TestFilter(t *testing.T) {
	candidates, started := filtered()
	for _, c := range []struct{ src, want string }{
		{`verdict == "sanitizer" && genome.STAGES > 1`, "bad"},
		{`verdict == "pending"`, "open"},
		{`genome.STAGES > 2`, "good open"},
		{`genome.STAGES >= 2 and genome.STAGES <= 3`, "good bad"},
		{`genome.STAGES in [2, 4]`, "bad open"},
		{`genome.STAGES in 3..9`, "good open"},
		{`genome["STAGES"] == 3`, "good"},
		{`genome?.STAGES == 3`, "good"},
		// What is missing compares to nothing, from either side, and computes to nothing.
		{`genome.STAGES != 3`, "bad open"},
		{`3 < genome.STAGES`, "open"},
		{`genome.STAGES * 2 + 1 > 6`, "good open"},
		{`genome.STAGES + genome.RATE > 0`, "good"},
		{`genome.STAGES == 4 || genome.WIDE == "abc"`, "open other"},
		{`abs(genome.RATE - 1) < 1`, "good"},
		{`genome.ORDER startsWith "i"`, "good"},
		{`genome.ORDER contains "j" && genome.ORDER matches "^k"`, "bad"},
		{`hasPrefix(genome.ORDER, "k")`, "bad"},
		{`genome.ORDER < "j"`, "good"},
		{`not (genome.STAGES > 2)`, "bad other"},
		{`genome.RATE == nil`, "bad open other"},
		{`genome.RATE != nil`, "good"},
		{`(genome.RATE ?? 0.25) < 0.3`, "bad open other"},
		{`(genome.STAGES != nil ? genome.STAGES : 9) > 3`, "open other"},
		{`"RATE" in genome`, "good"},
		{`len(genome) == 1`, "open other"},
		{`genome.PACK`, "good"},
		{`!genome.PACK`, "bad open other"},
		{`genome.PACK && proven`, "good"},
		{`any(["ijk", "kji"], # == genome.ORDER)`, "good bad"},
		// So do figures.
		{`fitness < 1`, "good"},
		{`speedup >= 2`, "good"},
		{`speedup != 2`, "other"},
		{`median_ns < baseline_ns`, "good"},
		{`fitness == nil`, "bad open"},
		{`median_ns / baseline_ns > 1`, "other"},
		{`index > 0`, "bad open"},
		{`"9" in shapes && len(shapes) == 2`, "other"},
		{`kernel == "l" && campaign startsWith "d" && candidate == "other"`, "other"},
		{`operator == "mutation" && "p" in parent_ids && backend == "cpu" && device_name contains "proc" && proven && !finalist`, "good"},
		{`asked_at > date("2026-01-02T03:30:00Z")`, "bad open"},
		{`key == "x" && encoding contains "RATE"`, "good"},
		{`true`, "good bad open other"},
		// One of another kernel is not asked for the type of its gene.
		{`kernel == "k" && genome.WIDE > 3`, ""},
	} {
		f, err := CompileFilter(c.src)
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		var got []string
		for i := range candidates {
			ok, err := f.Match(&candidates[i], started)
			if err != nil {
				t.Errorf("%s: %v", c.src, err)
			}
			if ok {
				got = append(got, candidates[i].ID)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %q, want %q", c.src, s, c.want)
		}
	}
}

// TestFilterSlower: a candidate that was too slow to be sanitized has a time for the search alone. It is found by
// its verdict, and has no figures.
func TestFilterSlower(t *testing.T) {
	candidates, started := filtered()
	c := candidates[0]
	c.Told, c.Proven = &store.Told{Verdict: "slower", Fitness: 0.5, MedianNS: 10, BaselineNS: 20}, false
	for src, want := range map[string]bool{
		`verdict == "slower"`: true, `fitness < 1`: false, `speedup > 1`: false, `median_ns > 0`: false, `measured == ""`: true,
	} {
		f, err := CompileFilter(src)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Match(&c, started); got != want || err != nil {
			t.Errorf("%s: %t, %v", src, got, err)
		}
	}
}

// TestFilterFaults holds every fault to one line that names the column.
func TestFilterFaults(t *testing.T) {
	candidates, started := filtered()
	for _, c := range []struct {
		src    string
		column int
		text   string
	}{
		{`verdct == "x"`, 1, "unknown name verdct: there are asked_at, "},
		{`index > 1 && ftness > 2`, 14, "unknown name ftness"},
		{`verdict == 3`, 9, "mismatched types string and int"},
		{`fitness > "a"`, 9, "mismatched types float64 and string"},
		{`verdict ==`, 10, "unexpected token EOF"},
		{``, 1, "empty"},
		{`index`, 1, "expected bool, but got int"},
		{`verdict`, 1, "expected bool, but got string"},
		{`shapes == "512"`, 8, "mismatched types []string and string"},
		{`genome[verdict] == 3`, 7, "genome.NAME"},
		{`let x = 3; x > 2`, 5, "variables"},
		{`genome.STAGES`, 1, "bool(int) (candidate good of k)"},
		{`genome.ORDER > 2`, 14, "(candidate good of k)"},
		{`genome.STAGES && proven`, 15, "the value is int, not bool (candidate good of k)"},
		{`nofunction(3)`, 1, "unknown name nofunction"},
		{"index > 0 &&\n verdct", 2, "line 2"},
	} {
		f, err := CompileFilter(c.src)
		for i := 0; err == nil && i < len(candidates); i++ {
			_, err = f.Match(&candidates[i], started)
		}
		var e *genome.ExprError
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v", c.src, err)
			continue
		}
		if s := e.Error(); e.Column != c.column || !strings.Contains(s, c.text) || strings.Contains(s, "\n") {
			t.Errorf("%s: column %d: %q; want column %d and %q", c.src, e.Column, s, c.column, c.text)
		}
	}
}

func TestCheckGenes(t *testing.T) {
	candidates, started := filtered()
	f, err := CompileFilter(`genome.STAGES > 1 || genome.STAGE > 1`)
	if err != nil {
		t.Fatal(err)
	}
	for i := range candidates {
		if _, err := f.Match(&candidates[i], started); err != nil {
			t.Fatal(err)
		}
	}
	err = f.CheckGenes([]string{"PACK", "STAGES"})
	if err == nil || !strings.Contains(err.Error(), `column 29 of`) || !strings.Contains(err.Error(), "no candidate has a gene STAGE: there are PACK, STAGES") {
		t.Errorf("a gene that nobody has: %v", err)
	}
}

func TestSortKey(t *testing.T) {
	candidates, started := filtered()
	for _, c := range []struct{ key, want string }{
		{"speedup", "other good bad open"},
		{"-speedup", "good other bad open"},
		{"genome.STAGES", "bad good open other"},
		{"-genome.STAGES", "open good bad other"},
		{"candidate", "bad good open other"},
		{"-asked_at", "open bad good other"},
		{"proven", "bad open other good"},
	} {
		k, err := CompileSortKey(c.key)
		if err != nil {
			t.Errorf("%s: %v", c.key, err)
			continue
		}
		order := make([]int, len(candidates))
		values := make([]any, len(candidates))
		for i := range candidates {
			order[i] = i
			if values[i], err = k.Value(&candidates[i], started); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return k.Compare(values[a], values[b]) })
		var got []string
		for _, i := range order {
			got = append(got, candidates[i].ID)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.key, s, c.want)
		}
	}
	for key, want := range map[string]string{
		"speed": "unknown name speed", "": "empty", "shapes": "not a list", "genome": "not a list", "index + 1": "one field", "--index": "one field",
	} {
		if _, err := CompileSortKey(key); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// FuzzFilter compiles and runs arbitrary expressions: none may crash, and every fault is
// one line with a column.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{
		`verdict == "sanitizer" && genome.STAGES > 2`, `genome?.STAGES ?? 1 in [1, 2]`, `not (genome.PACK) ? fitness < 1 : any(shapes, # == "512")`,
		`len(genome) > 1 && "X" in genome`, `asked_at > now() - duration("24h")`, `genome[verdict]`, `let x = 1; x > 0`, `$env`, `all(1..9, {# > index})`,
	} {
		f.Add(s)
	}
	candidates, started := filtered()
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 200 {
			return
		}
		filter, err := CompileFilter(source)
		for i := 0; err == nil && i < len(candidates); i++ {
			_, err = filter.Match(&candidates[i], started)
		}
		var e *genome.ExprError
		if err != nil && (!errors.As(err, &e) || e.Column < 1 || strings.ContainsAny(e.Error(), "\n\r")) {
			t.Errorf("%q: %v", source, err)
		}
	})
}
