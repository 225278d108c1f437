package export

import (
	"encoding/json"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// softmaxAt makes a winner at a shape that is written by its dimensions. One seed is one genome.
func softmaxAt(t *testing.T, shape, candidate string, seed int64) *Winner {
	t.Helper()
	c, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Get("softmax")
	if err != nil {
		t.Fatal(err)
	}
	d = d.On("cpu")
	s, err := d.Problem.Shape(shape)
	if err != nil {
		t.Fatal(err)
	}
	device := evaluator.Device{Name: "A", Kind: "cpu", Fingerprint: "f00d", Facts: map[string]string{"architecture": "any"}}
	return proven(t, d, d.Implementations, s, device, nil, candidate, rand.New(rand.NewSource(seed)))
}

// Between two tuned shapes a library calls the kernel that was measured to be the faster
// there, and has its code once.
func TestFamily(t *testing.T) {
	large, small := softmaxAt(t, "ROWS=1024,COLS=1024", "1a", 1), softmaxAt(t, "ROWS=64,COLS=64", "2b", 2)
	middle := softmaxAt(t, "COLS=256,ROWS=256", "2c", 2)
	alone, family := mustExport(t, []*Winner{large, small}, toC), mustExport(t, []*Winner{large, small, middle}, toC)
	var sources []string
	for name := range family {
		if strings.HasPrefix(name, "src/kernels/") {
			sources = append(sources, name)
		}
	}
	slices.Sort(sources)
	if want := []string{"src/kernels/softmax_1a.c", "src/kernels/softmax_2b.c", "src/kernels/softmax_baseline.c"}; !slices.Equal(sources, want) {
		t.Errorf("the library has %v", sources)
	}
	if w := string(family["wisdom.txt"]); !strings.Contains(w, "\tROWS=256,COLS=256\t2b\t") {
		t.Errorf("the wisdom file does not tell of the shape between:\n%s", w)
	}
	var m Manifest
	if err := json.Unmarshal(family["manifest.json"], &m); err != nil {
		t.Fatal(err)
	}
	v := m.Kernels[0].Variants
	if len(v) != 2 || len(v[0].Also) != 0 || len(v[1].Also) != 1 || v[1].Also[0].Candidate != "2c" || v[1].Also[0].Timings[0].Dims["ROWS"] != 256 || !v[1].Also[0].Evidence.Winner {
		t.Errorf("the manifest has %+v", v)
	}
	const ask = `
		const int64_t shapes[][2] = {{1024, 1024}, {64, 64}, {256, 256}, {512, 300}, {2000, 500}};
		for (int i = 0; i < 5; i++) {
			struct evotune_choice c;
			evotune_softmax_choice(shapes[i][0], shapes[i][1], &c);
			printf("%s %s\n", c.candidate, c.tuned_for);
		}`
	dir := build(t, family)
	if got, want := program(t, dir, ask), "1a 1024x1024\n2b ROWS=64,COLS=64\n2b ROWS=256,COLS=256\n2b ROWS=256,COLS=256\n1a 1024x1024\n"; got != want {
		t.Errorf("with a shape between:\n%swant\n%s", got, want)
	}
	if out := check(t, dir, family); !strings.Contains(out, "256") {
		t.Errorf("the library's test does not check the shape between:\n%s", out)
	}
	// A thread may prefer another one, until it prefers none; a wisdom file goes before that.
	const prefer = `
		float x[64] = {0}, y[64];
		struct evotune_choice c;
		const char *list[] = {"1a", "2b", "baseline", "none", ""};
		for (int i = 0; i < 5; i++) {
			const int status = evotune_prefer(list[i]);
			evotune_softmax_choice(8, 8, &c);
			printf("%d %s %s (%s); %d\n", status, c.candidate, c.tuned_for, evotune_rule_text(c.rule), evotune_softmax(8, 8, x, y));
		}
		FILE *f = fopen("w.txt", "w");
		fputs("evotune-wisdom 1\nsoftmax\tROWS=8,COLS=8\t2b\t*\t1\t-\t.\n", f);
		fclose(f);
		evotune_prefer("1a");
		evotune_wisdom_load("w.txt", NULL, NULL);
		evotune_softmax_choice(8, 8, &c);
		printf("%s (%s)\n", c.candidate, evotune_rule_text(c.rule));
		evotune_softmax_choice(9, 8, &c);
		printf("%s (%s)\n", c.candidate, evotune_rule_text(c.rule));`
	if got, want := program(t, dir, prefer), `0 1a 1024x1024 (preferred by the caller); 0
0 2b ROWS=64,COLS=64 (preferred by the caller); 0
1 2b ROWS=64,COLS=64 (tuned for the nearest shape); 0
1 2b ROWS=64,COLS=64 (tuned for the nearest shape); 0
0 2b ROWS=64,COLS=64 (tuned for the nearest shape); 0
2b (named by a wisdom file)
1a (preferred by the caller)
`; got != want {
		t.Errorf("with a preference:\n%swant\n%s", got, want)
	}
	if got, want := program(t, build(t, alone), ask), "1a 1024x1024\n2b ROWS=64,COLS=64\n2b ROWS=64,COLS=64\n1a 1024x1024\n1a 1024x1024\n"; got != want {
		t.Errorf("without it:\n%swant\n%s", got, want)
	}
}

// Other code, or another device, is another kernel.
func TestMerge(t *testing.T) {
	variants := func(change func(*Winner)) int {
		w := softmaxAt(t, "ROWS=256,COLS=256", "2c", 2)
		change(w)
		list, err := newProblems([]*Winner{softmaxAt(t, "ROWS=64,COLS=64", "2b", 2), w})
		if err != nil {
			t.Fatal(err)
		}
		return len(list[0].Variants)
	}
	for name, c := range map[string]struct {
		change func(*Winner)
		want   int
	}{
		"the same":         {func(*Winner) {}, 1},
		"another binary":   {func(w *Winner) { w.Evidence.Result.Binary = "c" }, 2},
		"another device":   {func(w *Winner) { w.Evidence.Description.Device.Fingerprint = "beef" }, 2},
		"another compiler": {func(w *Winner) { w.Evidence.Description.Compiler = "clang" }, 2},
		"another source":   {func(w *Winner) { *w = *softmaxAt(t, "ROWS=256,COLS=256", "2c", 3) }, 2},
	} {
		if got := variants(c.change); got != c.want {
			t.Errorf("%s: %d kernels, want %d", name, got, c.want)
		}
	}
}
