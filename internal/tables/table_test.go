package tables

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/expr"
)

// small is a table of five configurations that its constraint gives exactly.
const small = `{"name": "small", "device": "none",
 "params": [["x", [1, 2, 4]], ["fast", [false, true]]],
 "constraints": ["x < 4 or not fast"],
 "fields": ["value_index_per_param", "time_ms_or_null", "cost_s"],
 "configs": [[[0, 0], 4.0, 0.5], [[0, 1], 2.0, 0.25],
  [[1, 0], null, 0.125],
  [[1, 1], 1.5, 0.5], [[2, 0], 3, 1]]}`

func read(tb testing.TB, text string) *Table {
	tb.Helper()
	t, err := Read(strings.NewReader(text), "small.json")
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func TestRead(t *testing.T) {
	table := read(t, small)
	if table.Name() != "small" || table.Device() != "none" || table.Len() != 5 || table.Failed() != 1 || len(table.Hash()) != 64 {
		t.Errorf("name %q, device %q, %d configurations, %d failed, hash %q", table.Name(), table.Device(), table.Len(), table.Failed(), table.Hash())
	}
	if table.median != 2.5 {
		t.Errorf("median %g ms, want 2.5", table.median)
	}
	if ok, err := table.Complete(); !ok || err != nil {
		t.Errorf("Complete() = %v, %v", ok, err)
	}
	s, err := table.Space()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if g := s.Genes()[i]; g.Ordinal != want {
			t.Errorf("gene %s: ordinal %v", g.Name, g.Ordinal)
		}
	}
}

// Without its constraint the table has a valid genome that is not recorded.
func TestIncomplete(t *testing.T) {
	table := read(t, strings.Replace(small, `"x < 4 or not fast"`, ``, 1))
	if ok, err := table.Complete(); ok || err != nil {
		t.Errorf("Complete() = %v, %v", ok, err)
	}
}

func TestReadGzip(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write([]byte(small)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "small.json.gz")
	if err := os.WriteFile(path, z.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	table, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if table.Hash() != read(t, small).Hash() {
		t.Error("the hash depends on the compression")
	}
	for cut := range z.Len() {
		if _, err := Read(bytes.NewReader(z.Bytes()[:cut]), "cut.gz"); !errors.Is(err, ErrFormat) {
			t.Fatalf("cut after %d of %d bytes: %v", cut, z.Len(), err)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

// Every fault is one line with the place.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"not JSON":            {small, "hello", `small.json:1:1: not a usable recorded space: invalid character 'h'`},
		"empty":               {small, "", `small.json:1:1: not a usable recorded space: the file ends too early`},
		"an array":            {small, "[]", `1:1: not a usable recorded space: a recorded space: "{" expected, not [`},
		"cut":                 {"[2, 0], 3, 1]]}", "", "7:24: not a usable recorded space: the file ends too early"},
		"something behind":    {"3, 1]]}", "3, 1]]} true", "7:40: not a usable recorded space: something follows"},
		"unknown key":         {`"device"`, `"devise"`, `1:19: not a usable recorded space: unknown key "devise"`},
		"key twice":           {`"device"`, `"name"`, `1:19: not a usable recorded space: key "name" is there twice`},
		"no params":           {`"params": [["x", [1, 2, 4]], ["fast", [false, true]]],`, "", `5:2: not a usable recorded space: "params" must come before`},
		"no configs":          {small, `{"params": [["x", [1]]]}`, `1:1: not a usable recorded space: key "configs" is missing`},
		"nothing recorded":    {small, `{"params": [["x", [1]]], "configs": []}`, `no configuration is recorded`},
		"name no string":      {`"small"`, `7`, `1:10: not a usable recorded space: name must be a string, not 7`},
		"parameter twice":     {`"fast", [`, `"x", [`, `2:32: not a usable recorded space: parameter x is there twice`},
		"bad parameter name":  {`"x", [1`, `"block size", [1`, `"block size"`},
		"value twice":         {`[1, 2, 4]`, `[1, 2, 2]`, `2:26: not a usable recorded space: parameter x has the value 2 twice`},
		"value no value":      {`[1, 2, 4]`, `[1, 2, {}]`, `2:26: not a usable recorded space: parameter x`},
		"no values":           {`[1, 2, 4]`, `[]`, `2:19: not a usable recorded space: parameter x has no values`},
		"constraint":          {`"x < 4 or not fast"`, `"x < 4 or or fast"`, `3:18: not a usable recorded space: constraint "x < 4 or or fast": column 10`},
		"constraint's name":   {`"x < 4 or not fast"`, `"y < 4"`, `unknown name y`},
		"constraint's type":   {`"x < 4 or not fast"`, `"fast < 'a'"`, `space of small: the restriction "fast < 'a'": column 8: Python raises an exception where < compares different types`},
		"constraint broken":   {`"x < 4 or not fast"`, `"x < 4"`, `7:23: not a usable recorded space: configuration x=4,fast=false: invalid genome`},
		"overflow":            {`"x < 4 or not fast"`, `"x * 2 ** 62 > 1"`, `space of small: the restriction "x * 2 ** 62 > 1": the result is beyond 64 bits where x = 2`},
		"empty space":         {`"x < 4 or not fast"`, `"x < 0"`, `the space is empty`},
		"fields":              {`"time_ms_or_null", "cost_s"`, `"cost_s", "time_ms_or_null"`, `4:38: not a usable recorded space: field 2 is "cost_s"`},
		"too few fields":      {`, "cost_s"]`, `]`, `4:12: not a usable recorded space: 2 fields`},
		"configuration twice": {`[1, 1], 1.5`, `[0, 1], 1.5`, `7:3: not a usable recorded space: configuration x=1,fast=true is there twice`},
		"index too large":     {`[1, 1], 1.5`, `[1, 2], 1.5`, `7:8: not a usable recorded space: configuration 4: the value index of fast must be a whole number below 2`},
		"index no integer":    {`[1, 1], 1.5`, `[1.5, 1], 1.5`, `the value index of x must be a whole number below 3`},
		"too many indexes":    {`[1, 1], 1.5`, `[1, 1, 0], 1.5`, `more than 2 value indexes`},
		"too few indexes":     {`[1, 1], 1.5`, `[1], 1.5`, `has 1 value indexes for 2 parameters`},
		"time zero":           {`[1, 1], 1.5`, `[1, 1], 0`, `7:12: not a usable recorded space: configuration 4: the time must be above 0 ms, or null`},
		"time no number":      {`[1, 1], 1.5`, `[1, 1], "1.5"`, `the time must be a number`},
		"time out of range":   {`[1, 1], 1.5`, `[1, 1], 1e999`, `1e999 is out of range`},
		"cost negative":       {`1.5, 0.5`, `1.5, -0.5`, `7:17: not a usable recorded space: configuration 4: the cost must be a number of seconds from 0`},
		"cost null":           {`1.5, 0.5`, `1.5, null`, `the cost must be a number of seconds`},
		"cost missing":        {`1.5, 0.5]`, `1.5]`, `7:15: not a usable recorded space: configuration 4: the cost must be a number, not ]`},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(small, c.old) {
				t.Fatalf("the table has no %q", c.old)
			}
			_, err := Read(strings.NewReader(strings.Replace(small, c.old, c.new, 1)), "small.json")
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("error %v", err)
			}
			if s := err.Error(); !strings.Contains(s, c.want) || strings.Contains(s, "\n") {
				t.Errorf("%s\nwant one line with: %s", s, c.want)
			}
		})
	}
}

// A space without genomes can be told from other faults.
func TestEmptySpace(t *testing.T) {
	_, err := Read(strings.NewReader(strings.Replace(small, "x < 4 or not fast", "x < 0", 1)), "small.json")
	if !errors.Is(err, genome.ErrEmpty) || !errors.Is(err, ErrFormat) {
		t.Errorf("error %v", err)
	}
}

// What Synthetic computes is what its constraints say, at any size.
func TestSynthetic(t *testing.T) {
	for _, n := range []int{1, 50, 1000, 5000} {
		table := Synthetic(n)
		if table.Len() < n {
			t.Errorf("Synthetic(%d) has %d configurations", n, table.Len())
		}
		if _, err := table.Space(); err != nil {
			t.Error(err)
		}
		if ok, err := table.Complete(); !ok || err != nil {
			t.Errorf("Synthetic(%d): Complete() = %v, %v", n, ok, err)
		}
		if a, b := SyntheticFile(n), SyntheticFile(n); !bytes.Equal(a, b) {
			t.Errorf("Synthetic(%d) differs from itself", n)
		}
	}
}

func TestTranslate(t *testing.T) {
	whole := func(name string, values ...int64) Parameter {
		p := Parameter{Name: name}
		for _, v := range values {
			p.Values = append(p.Values, genome.Int(v))
		}
		return p
	}
	params := []Parameter{
		whole("a", 0, 1, 7), whole("b", 1, 2), whole("c", -3, 4),
		{Name: "f", Values: []genome.Value{genome.Float(0.5), genome.Float(-2)}},
		{Name: "m", Values: []genome.Value{genome.Str("x"), genome.Str("")}},
		{Name: "p", Values: []genome.Value{genome.Bool(false), genome.Bool(true)}},
	}
	for source, want := range map[string]string{
		"a == 0 or b != 1":               "((a == 0) or (b != 1))",
		"not a < 2 and b":                "((not (a < 2)) and (b != 0))",
		"1 < a <= b < 8":                 "(((1 < a) and (a <= b)) and (b < 8))",
		"a * (b + 1) % 4 == 0":           "(((a * (b + 1)) % 4) == 0)",
		"c % 4 == 0":                     "(floormod(c, 4) == 0)",
		"a // 2 == b / 2":                "(floordiv(a, 2) == (b / 2))",
		"2 ** a ** b > -c":               "(intpow(2, intpow(a, b)) > (-c))",
		"a in [1, 2,] and b not in (3,)": "((a in [1, 2]) and (not (b in [3])))",
		"a in {'x', 2} or a in [2*i for i in range(3) if i]": `((a in [2]) or (a in [2, 4]))`,
		"m in ('x', 3)":                `(m in ["x"])`,
		"a in range(1, 9, 2)":          "(1 <= a and a < 9 and floormod(a - 1, 2) == 0)",
		"m == 'x' or m == \"y\"":       `((m == "x") or (m == "y"))`,
		"m == 1 or m != p":             "(false or true)",
		"m":                            `(m != "")`,
		"p == True":                    "(p == true)",
		"a == True":                    "(a == (true ? 1 : 0))",
		"p + p <= 1":                   "(((p ? 1 : 0) + (p ? 1 : 0)) <= 1)",
		"(a or b) * 2 < 9":             "((((a != 0) ? a : b) * 2) < 9)",
		"True or False":                "(true or false)",
		"a - b - c > .5e-3":            "(((a - b) - c) > 0.0005)",
		"a > 0x10 or a > 1_000":        "((a > 16) or (a > 1000))",
		"max(a, b, 2) < 3":             "(max(a, b, 2) < 3)",
		"a if b else c if f else 1":    "(((b != 0) ? a : ((f != 0) ? c : 1)) != 0)",
		"(8 if a == 1 else b) * 2 < 9": "((((a == 1) ? 8 : b) * 2) < 9)",
		"a & 1 | b << 2 == 3":          "((bitor(bitand(a, 1), bitshl(b, 2)) == 3)",
		"(a > 1) & (b > 1)":            "((a > 1) and (b > 1))",
		"a is None or b is not None":   "(false or true)",
		"math.ceil(a / 2) == 1":        "(int(ceil((a / 2))) == 1)",
		"len(m) == 1":                  "(len(m) == 1)",
	} {
		got, err := Conditions(params, []string{source})
		if source == "a & 1 | b << 2 == 3" {
			want = want[1:]
		}
		if err != nil || got[0] != want {
			t.Errorf("%q is %q, %v; want %q", source, got, err, want)
		}
	}
	for source, want := range map[string]string{
		"":                        "column 1: the expression ends too early",
		"a ==":                    "column 5: the expression ends too early",
		"a = 1":                   `column 3: '=' is not known here`,
		"len(a, b) < 3":           `column 1: len with 2 arguments is not known here`,
		"len(a) < 3":              `column 5: a string or a list is needed here`,
		"foo(a) < 3":              `column 4: "(" is not expected here`,
		"max(a b) < 3":            `column 7: "b" is not expected here`,
		"a if b":                  `column 7: the expression ends too early`,
		"a if b or c, 1":          `column 12: "," is not expected here`,
		"if a":                    `column 1: "if" is not known here`,
		"lambda a: a":             `column 1: "lambda" is not known here`,
		"a.b > 1":                 `column 2: '.' is not known here`,
		"010 > a":                 `column 1: "010" is not a number`,
		"1e999 > a":               `column 1: "1e999" is not a number`,
		"2 > 9223372036854775808": `column 5: "9223372036854775808" does not fit into 64 bits`,
		"a == 'x":                 "column 6: the string does not end",
		"a not 1":                 `column 7: "1" is not expected here`,
		"a in b":                  `column 6: a list is needed here, such as [1, 2]`,
		"a in [b for b in a]":     `column 18: a list is needed here`,
		"(a":                      "column 3: the expression ends too early",
		"m + 1 > 2":               "column 1: a number is needed here",
		"m < 1":                   "column 5: Python raises an exception where < compares different types",
		"f & 1 == 1":              "column 3: & needs integers",
		"a is b":                  `column 6: "is" stands only before None here`,
		"8 % a == 0":              `the restriction "8 % a == 0": division by zero for a=0,b=1,c=-3,f=0.5,m=x,p=false, where Python raises an exception`,
		"8 / a > 1":               "division by zero for a=0",
		"2 ** c > 1":              "a negative exponent",
		"f ** 0.5 > 0":            "a root of a negative number",
		"1 << c > 0":              "a negative shift",
		strings.Repeat("(", 5000): "nested more than 100 deep",
		strings.Repeat("-", 5000): "nested more than 100 deep",
	} {
		if got, err := Conditions(params, []string{source}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q is %q, %v; want an error with %q", source, got, err, want)
		}
	}
	// Names that are not parameters, as those of shapes and devices, are positive integers.
	if got, err := Conditions(params, []string{"size_x == 96 and b <= threads", "(4 if a == 0 else a) and 8 % (a if a else 1) == 0"}); err != nil || got[0] != "((size_x == 96) and (b <= threads))" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Conditions(params, []string{"8 % (size_x - b) == 0"}); err == nil || !strings.Contains(err.Error(), "division by zero may be where Python raises an exception") {
		t.Errorf("%v", err)
	}
	for _, sources := range [][]string{{"a == 0 or 8 % a == 0"}, {"8 % a == 0", "a > 0"}, {"8 % a == 0 if a else True"}, {"a and 8 / a > 1"}} {
		if _, err := Conditions(params, sources); err != nil {
			t.Errorf("%q: %v", sources, err)
		}
	}
}

// A file that ends too early ends in its last line with text.
func TestPlaceOfTheEnd(t *testing.T) {
	for _, text := range []string{"{\"params\": [],\n\"constraints\": [],\n\"fields\": [", "{\"params\": [],\n\"constraints\": [],\n\"fields\": [\n\n\n"} {
		if _, err := Read(strings.NewReader(text), "x"); err == nil || !strings.HasPrefix(err.Error(), "replay: x:3:12: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A random table, written and read, answers with what was put in.
func TestRandomTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(1, 5).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "m")
		p := func(name string, n int) Parameter {
			var values []genome.Value
			for i := range n {
				values = append(values, genome.Int(int64(10*i)))
			}
			return parameter(name, values)
		}
		var rows []Row
		for rank := range uint64(n * m) {
			if !rapid.Bool().Draw(t, "recorded") && len(rows) > 0 {
				continue
			}
			w := Row{rank: rank, CostS: rapid.Float64Range(0, maxCost).Draw(t, "cost")}
			if rapid.Bool().Draw(t, "ok") {
				w.TimeMS = rapid.Float64Range(1e-9, 1e9).Draw(t, "time")
			} else {
				w.Failed = "launch"
			}
			rows = append(rows, w)
		}
		table := &Table{
			name: rapid.String().Draw(t, "name"), device: rapid.String().Draw(t, "device"),
			params: []Parameter{p("x", n), p("y", m)}, rows: rows,
		}
		if err := table.index(); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := table.encodeCompact(&b); err != nil {
			t.Fatal(err)
		}
		back, err := Read(&b, "x")
		if err != nil {
			t.Fatal(err)
		}
		if back.Len() != len(rows) {
			t.Fatalf("%d of %d rows", back.Len(), len(rows))
		}
		for i, w := range back.rows {
			w.offset = 0
			if w != rows[i] {
				t.Errorf("row %d is %+v, was %+v", i, w, rows[i])
			}
		}
	})
}

// FuzzRead: whatever the bytes, an answer or one line; never a crash.
func FuzzRead(f *testing.F) {
	f.Add([]byte(small))
	f.Add(SyntheticFile(20))
	f.Add([]byte(`{"params":[["a",[1]]],"configs":[[[0],1,0]]}`))
	f.Add([]byte(`{"params":[["a",["x",1.5,true]]],"constraints":["a in [1,'x'] or 1<a<2"],"configs":[[[0],null,0]]}`))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Add([]byte(foreignCache))
	f.Add([]byte(foreignT4))
	for _, form := range holding {
		var b bytes.Buffer
		if err := recorded(f).Write(form, &b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Read(bytes.NewReader(data), "fuzz")
		if err != nil {
			if !errors.Is(err, ErrFormat) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q", err)
			}
			return
		}
		// What can be read is written in every form, or refused in one line, and is
		// the same when it comes back. A file that was changed by hand may say in a
		// roundabout way what T4 has a place for; once through it, all is in place.
		var b bytes.Buffer
		if table.Write(t4Form, &b) == nil {
			table = through(t, table, t4Form)
		}
		want := content(t, table)
		for _, form := range holding {
			var b bytes.Buffer
			if err := table.Write(form, &b); errors.Is(err, ErrNoPlace) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			back, err := Read(&b, "again")
			if err != nil {
				t.Fatalf("what was written as %s cannot be read: %v", form, err)
			}
			if diff := cmp.Diff(want, content(t, back)); diff != "" {
				t.Errorf("through %s:\n%s", form, diff)
			}
		}
		if _, err := table.summary(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzDescription: whatever the bytes beside results, an answer or one line.
func FuzzDescription(f *testing.F) {
	var b bytes.Buffer
	if err := recorded(f).Write(t1Form, &b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"ConfigurationSpace": {"TuningParameters": [{"Name": "bx", "Values": "[16, 32]"}, {"Name": "mode", "Values": ["a", "b"]}], "Conditions": [{"Expression": "bx > 1"}]}}`))
	f.Add([]byte(`{"ConfigurationSpace": {"TuningParameters": [{"Name": "bx", "Values": "["}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		t1, err := readT1(data, "fuzz")
		if err == nil {
			var table *Table
			if table, err = decode([]byte(foreignT4), "file", t1); err == nil {
				if _, err := table.Space(); err == nil {
					lossless(t, table)
				}
				return
			}
			err = locate([]byte(foreignT4), "file", err)
		}
		if !errors.Is(err, ErrFormat) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q", err)
		}
	})
}

// FuzzConditions: whatever the text, a translation or an error, and a
// translation compiles or is refused in one line.
func FuzzConditions(f *testing.F) {
	for _, s := range append(syntheticRules, "not a // 2 ** -b in (1, 2.5e3) or 'x' != s", "1 < a < b", "a in [i for i in range(b) if i]") {
		f.Add(s)
	}
	values := map[string]genome.Value{"a": genome.Int(1), "b": genome.Int(-2), "s": genome.Str("x")}
	var params []Parameter
	for name, v := range values {
		params = append(params, Parameter{Name: name, Values: []genome.Value{v}})
	}
	f.Fuzz(func(t *testing.T, source string) {
		texts, err := Conditions(params, []string{source})
		if err != nil {
			return
		}
		env := map[string]any{}
		for name, v := range values {
			env[name] = v
		}
		if e, err := expr.Compile(texts[0], env); err == nil {
			_, _ = e.Any(env)
		}
	})
}
