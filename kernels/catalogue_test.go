package kernels_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/kernels"
)

// renamed is base under another name.
func renamed(tb testing.TB, name string) string {
	tb.Helper()
	return change(tb, `name = "product"`, `name = "`+name+`"`)
}

func TestBuiltin(t *testing.T) {
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	large := []string{"attention", "conv2d", "rmsnorm", "sgemm", "softmax"}
	names := cat.Names()
	for _, name := range large {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among %v", name, names)
		}
	}
	for _, name := range names {
		d, err := cat.Get(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if d.Name != name || d.License == "" || d.Overrides != "" {
			t.Errorf("%s: %+v", name, d)
		}
		if !slices.Contains(large, name) {
			continue
		}
		for _, s := range d.Problem.ShapesFor(kernels.Tune) {
			for _, im := range d.Implementations {
				space, err := d.Space([]*kernels.Implementation{im}, []kernels.Shape{s}, nil)
				if err != nil {
					t.Error(err)
				} else if n := space.Size(); n < 1e3 || n > 1e8 {
					t.Errorf("%s: the space of %s at shape %s has %g genomes, want 10^3 to 10^8", name, im.Name, s.Name, n)
				}
			}
		}
	}
}

// TestStarts: every genome to start with is valid at a tuned shape of a built-in definition
// that names it (some share a list), on the device for which it is named.
func TestStarts(t *testing.T) {
	h200 := map[string]any{
		"device_cores": int64(132), "device_max_threads": int64(1024), "device_max_shared_bytes": int64(232448), "device_registers": int64(65536),
		"device_l2_bytes": int64(60 << 20), "device_capability": int64(90), "device_warp": int64(32),
	}
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	valid := map[string]bool{}
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range d.Implementations {
			for _, start := range im.Starts {
				key := im.Template + ": " + start
				valid[key] = valid[key] || slices.ContainsFunc(im.Problem().ShapesFor(kernels.Tune), func(s kernels.Shape) bool {
					space, err := d.Space([]*kernels.Implementation{im}, []kernels.Shape{s}, h200)
					if err == nil {
						_, err = space.Parse(start)
					}
					return err == nil
				})
			}
		}
	}
	if len(valid) == 0 {
		t.Error("no definition names any")
	}
	for start, ok := range valid {
		if !ok {
			t.Errorf("%s is valid at no tuned shape", start)
		}
	}
}

func TestUnknownKernel(t *testing.T) {
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"sgem":     `unknown kernel "sgem": did you mean sgemm? there are `,
		"atention": `unknown kernel "atention": did you mean attention? there are `,
		"":         `unknown kernel "": there are `,
	} {
		_, err := cat.Get(name)
		if !errors.Is(err, kernels.ErrUnknownKernel) || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "rmsnorm") {
			t.Errorf("got  %v\nwant %s...", err, want)
		}
	}
}

func TestOpenFolders(t *testing.T) {
	several := t.TempDir()
	writeFolder(t, filepath.Join(several, "good"), folder(renamed(t, "mine")))
	writeFolder(t, filepath.Join(several, "bad"), folder(strings.Replace(renamed(t, "worse"), `pipe = "f32"`, `pipe = "f33"`, 1)))
	writeFolder(t, filepath.Join(several, "sgemm"), folder(renamed(t, "sgemm")))
	if err := os.Mkdir(filepath.Join(several, "no-kernel"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(several, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	one := filepath.Join(t.TempDir(), "one")
	writeFolder(t, one, folder(renamed(t, "one")))

	cat, err := kernels.Open(several, one)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mine", "one", "sgemm", "attention"} {
		if !slices.Contains(cat.Names(), name) {
			t.Errorf("%s is not among %v", name, cat.Names())
		}
		if _, err := cat.Get(name); err != nil {
			t.Error(err)
		}
	}
	if !slices.IsSorted(cat.Names()) {
		t.Errorf("%v is not sorted", cat.Names())
	}
	if d, err := cat.Get("sgemm"); err != nil || d.Overrides != "builtin/sgemm" || d.Dir != filepath.Join(several, "sgemm") {
		t.Errorf("sgemm: %+v, %v", d, err)
	}
	// The broken one answers to the names of its folder and of itself.
	for _, name := range []string{"bad", "worse"} {
		if _, err := cat.Get(name); !errors.Is(err, kernels.ErrDefinition) || !strings.Contains(err.Error(), filepath.Join("bad", "kernel.toml")+":10:8: ") {
			t.Errorf("%s: %v", name, err)
		}
		if slices.Contains(cat.Names(), name) {
			t.Errorf("%s is listed", name)
		}
	}
	if n := len(cat.Errors()); n != 1 {
		t.Errorf("%d errors, want 1: %v", n, cat.Errors())
	}
	if d, err := kernels.Find("one", several, one); err != nil || d.Dir != one {
		t.Errorf("found: %+v, %v", d, err)
	}
	// A kernel that does not load is the likelier reason why there is none of a name.
	if _, err := kernels.Find("nobody", several); !errors.Is(err, kernels.ErrDefinition) || !strings.Contains(err.Error(), "bad") {
		t.Errorf("found nobody: %v", err)
	}
	if _, err := kernels.Find("nobody", one); !errors.Is(err, kernels.ErrUnknownKernel) {
		t.Errorf("found nobody: %v", err)
	}
}

// A catalogue reads a kernel when it is asked for it, and no other, once.
func TestOpenReadsLate(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"early", "late"} {
		writeFolder(t, filepath.Join(dir, name), folder(strings.Replace(renamed(t, name), `pipe = "f32"`, `pipe = "f33"`, 1)))
	}
	cat, err := kernels.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"early", "late"} {
		if name == "early" {
			if _, err := cat.Get(name); !errors.Is(err, kernels.ErrDefinition) {
				t.Errorf("%s: %v", name, err)
			}
		}
		writeFolder(t, filepath.Join(dir, name), folder(renamed(t, name)))
		if _, err := cat.Get(name); (err == nil) != (name == "late") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A broken kernel must not quietly give way to the built-in one that it was to
// replace; a good one given after it does replace it.
func TestBrokenOverride(t *testing.T) {
	broken, good := filepath.Join(t.TempDir(), "sgemm"), filepath.Join(t.TempDir(), "sgemm")
	writeFolder(t, broken, folder(strings.Replace(renamed(t, "sgemm"), `pipe = "f32"`, `pipe = "f33"`, 1)))
	writeFolder(t, good, folder(renamed(t, "sgemm")))
	cat, err := kernels.Open(broken)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := cat.Get("sgemm"); !errors.Is(err, kernels.ErrDefinition) {
		t.Errorf("got %v, %v; want the error of the broken kernel", d, err)
	}
	if cat, err = kernels.Open(broken, good); err != nil {
		t.Fatal(err)
	}
	if d, err := cat.Get("sgemm"); err != nil || d.Dir != good {
		t.Errorf("got %v, %v; want the good kernel", d, err)
	}
}

func TestOpenErrors(t *testing.T) {
	empty := t.TempDir()
	file := filepath.Join(empty, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		empty:                           "neither this folder nor one in it has a kernel.toml: name a kernel's folder, or one that holds kernels",
		filepath.Join(empty, "nowhere"): "no such file or directory: --kernels needs a folder that is a kernel or holds several",
		file:                            "not a directory: --kernels needs a folder that is a kernel or holds several",
	} {
		_, err := kernels.Open(dir)
		if err == nil || err.Error() != dir+": "+want || !errors.Is(err, kernels.ErrDefinition) {
			t.Errorf("got  %v\nwant %s: %s", err, dir, want)
		}
	}
}

// A definition can be shown as JSON, with patterns and values as people write
// them.
func TestDefinitionJSON(t *testing.T) {
	d := mustLoad(t, folder(base+cuda+"[[implementation.profile]]\ncounter = \"SM busy\"\nmin = 2.5\nwhen = \"TILE == 8\"\n"))
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Name    string
		Problem struct {
			Operations string
			Shapes     []struct{ Dims map[string]int64 }
			Buffers    []struct {
				Data map[string]any
			}
		}
		Implementations []struct {
			Name, Threads string
			Blocking      []string
			Parameters    []struct {
				Name   string
				Values []any
				When   string
			}
			Constraints []struct{ Expr, Why string }
			Baseline    struct {
				Kind   string
				Genome map[string]any
			}
			Launch  struct{ Grid []string }
			Profile []map[string]any
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	im := got.Implementations[0]
	if got.Problem.Operations != "2*M*N*K" || got.Problem.Shapes[0].Dims["M"] != 64 || got.Problem.Buffers[0].Data["distribution"] != "uniform" ||
		im.Threads != "THREADS" || im.Blocking[0] != `\[-Wuninitialized\]` || im.Parameters[6].When != "THREADS > 1" || im.Parameters[2].Values[1] != "-O3" ||
		im.Constraints[0].Expr != "TILE*ROWS <= M*2" || im.Baseline.Kind != "genome" || im.Baseline.Genome["TILE"] != 4.0 ||
		got.Implementations[1].Launch.Grid[1] != "N - 60" {
		t.Errorf("%s", text)
	}
	if diff := cmp.Diff([]map[string]any{{"counter": "SM busy", "min": 2.5, "when": "TILE == 8"}}, got.Implementations[1].Profile); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	if n := strings.Count(string(text), `"profile"`); n != 1 {
		t.Errorf("profile stands %d times in the definition, though one implementation has it", n)
	}
	if strings.Contains(string(text), "one(M, N, K") {
		t.Error("the template's text is in it")
	}
}

// Where no device is known, every built-in kernel has genomes at every shape that it is tuned for:
// those of the least device that its target can run on.
func TestSpacesWithoutADevice(t *testing.T) {
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range d.Implementations {
			for _, s := range im.Problem().ShapesFor(kernels.Tune) {
				if _, err := d.Space([]*kernels.Implementation{im}, []kernels.Shape{s}, nil); err != nil {
					t.Errorf("%s %s at %s: %v", name, im.Name, s.Name, err)
				}
			}
		}
	}
}
