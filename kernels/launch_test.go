package kernels_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/kernels"
)

// sequence is an implementation of base with all that a launch can have: two kernels,
// to add to base.
const sequence = `
[[implementation]]
name = "split"
backend = "cuda"
target = "sm_90a"
template = "tiled.c.tmpl"
entry = "product"
include = ["tile.h"]
[[implementation.parameter]]
name = "TILE"
values = [4, 8]
[[implementation.parameter]]
name = "ROWS"
values = [2]
[[implementation.parameter]]
name = "THREADS"
values = [1]
[[implementation.parameter]]
name = "SPLIT"
values = [1, 2, 16]
[[implementation.parameter]]
name = "SYNC"
values = ["grid", "none"]
when = "SPLIT > 1"
[[implementation.launch]]
grid = ["2*device_cores", "2", "SPLIT"]
block = ["32", "TILE"]
workspace = "4*M*N*SPLIT"
cluster = ["1", "TILE / 4", "SPLIT"]
cooperative = "SYNC == 'grid'"
[[implementation.launch]]
entry = "combine"
grid = ["int(ceil(M*N/256))"]
block = ["256"]
shared = "4*SPLIT"
dependent = "SPLIT > 1"
[implementation.baseline]
library = "libcublas.so.12:cublasSgemm"
`

// sequenced is the definition with a piece of sequence replaced, and its implementation.
func sequenced(tb testing.TB, old, replacement string) (*kernels.Definition, *kernels.Implementation, error) {
	tb.Helper()
	if n := strings.Count(sequence, old); n != 1 && old != "" {
		tb.Fatalf("%q is %d times in the definition, want 1", old, n)
	}
	text := sequence
	if old != "" {
		text = strings.Replace(text, old, replacement, 1)
	}
	d, err := kernels.Load(folder(base+text), "k")
	if err != nil {
		return nil, nil, err
	}
	return d, d.Implementations[1], nil
}

func TestSequence(t *testing.T) {
	d, im, err := sequenced(t, "", "")
	if err != nil {
		t.Fatal(err)
	}
	space, shape := spaceOf(t, im), d.Problem.Shapes[0]
	geometry := func(genes map[string]any, limits map[string]any) (kernels.Geometry, error) {
		g, err := space.FromMap(genes)
		if err != nil {
			t.Fatal(err)
		}
		return im.Geometry(g, shape, limits)
	}
	combine := kernels.Geometry{Entry: "combine", Grid: [3]int64{16, 1, 1}, Block: [3]int64{256, 1, 1}}
	genes := map[string]any{"TILE": 8, "ROWS": 2, "THREADS": 1, "SPLIT": 2, "SYNC": "grid"}
	got, err := geometry(genes, map[string]any{"device_cores": 132})
	combine.SharedBytes, combine.Dependent = 8, true
	want := kernels.Geometry{
		Grid: [3]int64{264, 2, 2}, Block: [3]int64{32, 8, 1}, WorkspaceBytes: 32768, Cluster: [3]int64{1, 2, 2}, Cooperative: true,
		Then: []kernels.Geometry{combine},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	// A cluster of one block is none, and a condition over a parameter that does not exist
	// does not hold. Without a device its limits are the defaults.
	genes = map[string]any{"TILE": 4, "ROWS": 2, "THREADS": 1, "SPLIT": 1}
	got, err = geometry(genes, nil)
	combine.SharedBytes, combine.Dependent = 4, false
	want = kernels.Geometry{Grid: [3]int64{4, 2, 1}, Block: [3]int64{32, 4, 1}, WorkspaceBytes: 16384, Then: []kernels.Geometry{combine}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if _, err := geometry(genes, map[string]any{"device_colour": 1}); err == nil || !strings.Contains(err.Error(), "device_colour") {
		t.Errorf("an unknown limit: %v", err)
	}
	header := kernels.Header(&d.Problem, im)
	for _, entry := range []string{"product", "combine"} {
		if want := "__global__ void " + entry + "(int64_t M, int64_t N, int64_t K, const float *A, const float *B, const int8_t *mask, float *C, float alpha, void *workspace);\n"; strings.Count(header, want) != 1 {
			t.Errorf("no %q in the header:\n%s", want, header)
		}
	}
	if p := im.Prototype(); !strings.Contains(p, " product(") {
		t.Errorf("the prototype is %s", p)
	}
}

// A table is a list of one.
func TestOneLaunch(t *testing.T) {
	one := mustLoad(t, folder(base+cuda)).Implementations[1]
	list := mustLoad(t, folder(base+strings.Replace(cuda, "[implementation.launch]", "[[implementation.launch]]\nentry = \"product\"", 1))).Implementations[1]
	if a, b := one.Launch.Grid, list.Launch.Grid; !reflect.DeepEqual(a, b) || list.Launch.Entry != "" || list.Launch.Then != nil {
		t.Errorf("%+v, want %+v", list.Launch, one.Launch)
	}
	if a, b := kernels.Header(one.Problem(), one), kernels.Header(list.Problem(), list); a != b {
		t.Errorf("%s\nwant %s", b, a)
	}
}

// sixteen gives one tensor map more than that.
func sixteen() string {
	var b strings.Builder
	for i := range kernels.MaxMaps + 1 {
		fmt.Fprintf(&b, "[[implementation.tensor_map]]\nname = \"map%d\"\nbuffer = \"A\"\ndims = [\"4\", \"4\"]\nbox = [\"4\", \"4\"]\n", i)
	}
	return b.String()
}

func TestWrongLaunches(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"entry = \"combine\"\n", "", "kernel.toml:168:3: [implementation.launch] lacks entry"},
		{"entry = \"combine\"", "entry = \"evotune_x\"", "names that begin with evotune_"},
		{"entry = \"combine\"", "entry = \"a b\"", "cannot be a name in C"},
		{"grid = [\"2*device_cores\"", "entry = \"first\"\ngrid = [\"2*device_cores\"", `kernel.toml:163:9: the first kernel is the entry, product, and this names "first"`},
		{"shared = \"4*SPLIT\"", "workspace = \"4\"", "all kernels of a candidate get the workspace that the first declares"},
		{"cooperative = ", "dependent = \"true\"\ncooperative = ", "dependent is for a kernel that follows another"},
		{`cluster = ["1", "TILE / 4", "SPLIT"]`, `cluster = ["1", "1", "1", "1"]`, "cluster has 4 expressions, expected one to three"},
		{`cluster = ["1", "TILE / 4", "SPLIT"]`, "cluster = []", "cluster has 0 expressions"},
		{`cluster = ["1", "TILE / 4", "SPLIT"]`, `cluster = ["WIDTH"]`, `in the expression "WIDTH"`},
		{`target = "sm_90a"`, `target = "sm_80"`, "kernel.toml:166:1: clusters need a target of sm_90 or above, and this is sm_80"},
		{`cooperative = "SYNC == 'grid'"`, `cooperative = true`, "cooperative is a boolean, expected a string"},
		{`dependent = "SPLIT > 1"`, `dependent = ""`, "the expression is empty"},
		{"[[implementation.launch]]\nentry", "[implementation.launch]\nentry", "the table launch is already there"},
		{"[implementation.baseline]", strings.Repeat("[[implementation.launch]]\nentry = \"more\"\ngrid = [\"1\"]\nblock = [\"1\"]\n", 15) + "[implementation.baseline]", "a candidate has at most 16 kernels: remove this one"},
		{"[implementation.baseline]", sixteen() + "[implementation.baseline]", "a candidate has at most 16 tensor maps: remove this one"},
		{"entry = \"combine\"", "entries = 1", "[implementation.launch] has no key \"entries\""},
	} {
		_, _, err := sequenced(t, c.old, c.new)
		if err == nil || !strings.Contains(filepath.ToSlash(err.Error()), c.want) || !errors.Is(err, kernels.ErrDefinition) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
	if _, err := kernels.Load(folder(change(t, "[implementation.baseline]", "[[implementation.launch]]\ngrid = [\"1\"]\nblock = [\"1\"]\n[implementation.baseline]")), "k"); err == nil ||
		!strings.Contains(err.Error(), "the cpu backend calls the entry once") {
		t.Errorf("a launch for the CPU: %v", err)
	}
}

// What is wrong with a cluster depends on the genome and the shape.
func TestWrongClusters(t *testing.T) {
	for _, c := range []struct {
		cluster string
		split   int
		want    string
	}{
		{`["1", "3"]`, 1, `cluster: "3" gives 3 blocks, which do not divide the grid's 2, for the genome TILE=4,ROWS=2,THREADS=1,SPLIT=1 at shape 64: round the grid up, or add a constraint`},
		{`["4", "2", "SPLIT"]`, 2, "cluster: 4 * 2 * SPLIT gives more than 8 blocks, the most that a cluster has, for the genome"},
		{`["1", "1", "SPLIT"]`, 16, "gives more than 8 blocks"},
		{`["1", "1 - SPLIT"]`, 1, `cluster: "1 - SPLIT" gives 0, expected at least 1`},
		{`["9223372036854775807"]`, 1, "gives more than 8 blocks"},
		{`["SPLIT > 1"]`, 1, "gives false, expected an integer"},
		{`["1"]` + "\ncooperative = \"SPLIT\"", 1, "cooperative: "},
	} {
		text := strings.Replace(sequence, "cooperative = \"SYNC == 'grid'\"\n", "", 1)
		text = strings.Replace(text, `["1", "TILE / 4", "SPLIT"]`, c.cluster, 1)
		d := mustLoad(t, folder(base+text))
		im := d.Implementations[1]
		genes := map[string]any{"TILE": 4, "ROWS": 2, "THREADS": 1, "SPLIT": c.split}
		if c.split > 1 {
			genes["SYNC"] = "none"
		}
		g, err := spaceOf(t, im).FromMap(genes)
		if err != nil {
			t.Fatal(err)
		}
		_, err = im.Geometry(g, d.Problem.Shapes[0], nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, kernels.ErrRender) || !strings.Contains(filepath.ToSlash(err.Error()), "k/kernel.toml:16") {
			t.Errorf("%s: %v, want %q", c.cluster, err, c.want)
		}
	}
}

// directed writes a rendered candidate as a file that says of itself how it is launched,
// and gives the implementation of that file.
func directed(tb testing.TB, d *kernels.Definition, r kernels.Rendered) *kernels.Implementation {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "kernel.cu")
	text := r.Directives(r.Entry) + r.SelfContained()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	im, err := d.FromFile("cuda", kernels.File{Path: file}, nil)
	if err != nil {
		tb.Fatalf("%v\n%s", err, text)
	}
	return im
}

// What a file says of itself launches it as its definition did.
func TestDirectedSequence(t *testing.T) {
	for _, old := range []string{"", sequence[strings.LastIndex(sequence, "[[implementation.launch]]"):strings.Index(sequence, "[implementation.baseline]")]} {
		d, im, err := sequenced(t, old, "")
		if err != nil {
			t.Fatal(err)
		}
		space := spaceOf(t, im)
		for _, genes := range []map[string]any{
			{"TILE": 8, "ROWS": 2, "THREADS": 1, "SPLIT": 2, "SYNC": "grid"},
			{"TILE": 4, "ROWS": 2, "THREADS": 1, "SPLIT": 1},
		} {
			g, err := space.FromMap(genes)
			if err != nil {
				t.Fatal(err)
			}
			r, err := im.Render(g)
			if err != nil {
				t.Fatal(err)
			}
			file := directed(t, d, r)
			whole, err := d.Space([]*kernels.Implementation{file}, d.Problem.Shapes[:1], nil)
			if err != nil {
				t.Fatal(err)
			}
			sole, err := whole.FromMap(map[string]any{kernels.FileGene: "kernel.cu"})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range d.Problem.Shapes {
				for _, limits := range []map[string]any{nil, {"device_cores": 132}} {
					want, err := im.Geometry(g, s, limits)
					if err != nil {
						t.Fatal(err)
					}
					got, err := file.Geometry(sole, s, limits)
					if diff := cmp.Diff(want, got); err != nil || diff != "" {
						t.Errorf("%s at %s: %v, -want +got:\n%s\n%s", g, s.Name, err, diff, r.Directives("product"))
					}
				}
			}
			if a, b := kernels.Header(&d.Problem, im), kernels.Header(&d.Problem, file); a != b {
				t.Errorf("header of the file:\n%s\nwant\n%s", b, a)
			}
		}
	}
}

func TestDirectedLaunches(t *testing.T) {
	d, im, err := sequenced(t, "", "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := im.Render(mustGenome(t, im))
	if err != nil {
		t.Fatal(err)
	}
	const two = `// evotune: launch = [{ grid = ["M"], block = ["32"] }, { entry = "b", grid = ["1"], block = ["1"] }]` + "\n"
	if out := r.Directives("product"); !strings.Contains(out, "\n// evotune: launch = [{ grid = ") {
		t.Errorf("no launch in\n%s", out)
	}
	for text, want := range map[string]string{
		two + "// evotune: grid = [\"1\"]\n":                    `kernel.cu:2:13: grid is of the only kernel, and launch lists several: put it into the first table of launch`,
		strings.Replace(two, `entry = "b", `, "", 1):            "kernel.cu:1:57: a kernel of launch lacks entry",
		strings.Replace(two, `entry = "b"`, `entri = "b"`, 1):   `a kernel of launch has no key "entri": did you mean entry?`,
		strings.Replace(two, `entry = "b"`, `entry = "b c"`, 1): "cannot be the name of a function",
		"// evotune: launch = [{ block = [\"1\"] }]\n":          "a kernel of launch lacks grid",
		"// evotune: launch = []\n":                             "it does not say how it is launched",
		"// evotune: target = \"sm_80\"\n// evotune: cluster = [\"2\"]\n// evotune: grid = [\"2\"]\n// evotune: block = [\"2\"]\n": "kernel.cu:2:13: clusters need a target of sm_90 or above",
	} {
		file := filepath.Join(t.TempDir(), "kernel.cu")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.FromFile("cuda", kernels.File{Path: file}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Lint looks for every kernel of a sequence, and takes what launches read as read.
func TestLintSequence(t *testing.T) {
	d, _, err := sequenced(t, "", "")
	if err != nil {
		t.Fatal(err)
	}
	missing := 0
	for _, f := range lint(d, 20) {
		if strings.Contains(f, "does not define combine: correct the entry") {
			missing++
		} else if strings.Contains(f, "nothing reads") || strings.Contains(f, "by constraints alone") || strings.Contains(f, "no value of it") {
			t.Errorf("found %s", f)
		}
	}
	if missing != 1 {
		t.Errorf("%d findings of the missing kernel, want 1:\n%s", missing, strings.Join(lint(d, 20), "\n"))
	}
}

// Where the device is not known, a target for one architecture has what that has: a
// baseline may take all of its shared memory, and lint looks at such genomes.
func TestLimitsOfTarget(t *testing.T) {
	const head = "[implementation.baseline]\nlibrary = \"libcublas.so.12:cublasSgemm\"\n"
	const constraint = "[[implementation.constraint]]\nexpr = \"TILE*16384 <= device_max_shared_bytes and device_capability >= 90\"\nwhy = \"a tile is in shared memory\"\n"
	own := func(target string) string {
		text := strings.Replace(sequence, head, constraint+"[implementation.baseline]\ngenome = { TILE = 8, ROWS = 2, THREADS = 1, SPLIT = 1 }\n", 1)
		text = strings.Replace(text, "cluster = [\"1\", \"TILE / 4\", \"SPLIT\"]\n", "", 1)
		return base + strings.Replace(text, "sm_90a", target, 1)
	}
	d := mustLoad(t, folder(own("sm_90a")))
	for _, f := range lint(d, 5) {
		if strings.Contains(f, "satisfies") || strings.Contains(f, "no genome") {
			t.Error(f)
		}
	}
	if _, err := kernels.Load(folder(own("sm_90")), "k"); err == nil || !strings.Contains(err.Error(), "the baseline genome is not in the space") {
		t.Errorf("sm_90 and later may have less: %v", err)
	}
}
