package kernels_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/kernels"
)

// The guide has the example, and with the reference it is the manual.
const (
	guide  = "../docs/kernels.md"
	format = "../docs/kernel-format.md"
	torch  = "../docs/pytorch.md"
	hopper = "../examples/hopper/implementation.toml"

	example = "../examples/rowsum"
)

// The example of the guide is a kernel that loads and lints clean, whose space has the
// size that the guide gives, and of which the guide shows lines.
func TestManualExample(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## A worked example\n")
	section, _, _ = strings.Cut(section, "\n## ")
	known := exampleLines(t)
	for _, block := range regexp.MustCompile("(?s)```(?:c|toml)\n(.*?)```").FindAllStringSubmatch(section, -1) {
		for _, line := range strings.Split(block[1], "\n") {
			if !known[strings.TrimSpace(line)] {
				t.Errorf("%s does not have %q of %s", example, line, guide)
			}
		}
	}
	d, err := kernels.LoadDir(example)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{}, lint(d, 100)); diff != "" {
		t.Errorf("lint (-want +got):\n%s", diff)
	}
	space := spaceOf(t, d.Implementations[0])
	if want := fmt.Sprintf("searches its %.0f genomes", space.Size()); !strings.Contains(string(text), want) {
		t.Errorf("%s does not say that tune run %q", guide, want)
	}
	for g := range space.All() {
		if _, err := d.Implementations[0].Render(g); err != nil {
			t.Error(err)
		}
	}
}

// exampleLines are the lines of the example's files, without what they begin and end with.
func exampleLines(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, name := range []string{"reference.c", "kernel.toml", "rowsum.c.tmpl"} {
		text, err := os.ReadFile(filepath.Join(example, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			known[strings.TrimSpace(line)] = true
		}
	}
	return known
}

// The example for Hopper is an implementation that loads, has a launch at every shape
// that it can compute, and the parameters that it says.
func TestManualHopper(t *testing.T) {
	text, err := os.ReadFile(hopper)
	if err != nil {
		t.Fatal(err)
	}
	problem := base[:strings.Index(base, "[[problem.buffer]]")] + `[[problem.shape]]
name = "4096"
dims = { M = 4000, N = 4096, K = 4096 }
use = "tune"
[[problem.buffer]]
name = "A"
dtype = "bf16"
shape = ["M", "K"]
role = "in"
data = "normal(0,1)"
[[problem.buffer]]
name = "B"
dtype = "bf16"
shape = ["K", "N"]
role = "in"
data = "normal(0,1)"
[[problem.buffer]]
name = "C"
dtype = "f32"
shape = ["M", "N"]
role = "out"
[problem.tolerance]
f32 = 1e-3
[[problem.control]]
kind = "zeros"
[[problem.control]]
kind = "constant"
`
	problem = strings.NewReplacer("{ M = 64, N = 64, K = 32 }", "{ M = 64, N = 128, K = 256 }", "{ M = 16, N = 256, K = 32 }", "{ M = 16, N = 256, K = 512 }").Replace(problem)
	files := folder(problem + string(text))
	files["k/gemm.cu.tmpl"] = &fstest.MapFile{Data: []byte("void gemm() {} void add_parts() {}\n")}
	d := mustLoad(t, files)
	im := d.Implementations[0]
	space, err := d.Space(d.Implementations, d.Problem.ShapesFor(kernels.Tune), nil)
	if err != nil {
		t.Fatal(err)
	}
	launched := 0
	for g := range space.All() {
		for _, s := range d.Problem.Shapes {
			if im.Supports(g, s, nil) != nil {
				continue
			}
			geo, err := im.Geometry(g, s, nil)
			if err != nil {
				t.Error(err)
			}
			if launched++; len(geo.Maps) != 2 || len(geo.Then) != 1 || geo.SharedBytes > 227<<10 || geo.Block[0] > 1024 {
				t.Errorf("%s at %s: %+v", g, s.Name, geo)
			}
		}
	}
	if launched < 50 {
		t.Errorf("%d launches", launched)
	}
	for _, entry := range []string{"gemm", "add_parts"} {
		code := regexp.MustCompile(`(?s)extern "C" (__global__ void gemm.*?\))\n`).FindStringSubmatch(string(text))
		if code == nil {
			t.Fatalf("%s has no prototype", hopper)
		}
		if want := strings.Replace(strings.ReplaceAll(code[1], "\n#\t\t", " "), "gemm", entry, 1) + ";"; !strings.Contains(kernels.Header(&d.Problem, im), want) {
			t.Errorf("no %s in\n%s", want, kernels.Header(&d.Problem, im))
		}
	}
}

// The README shows lines of the guide's example, and is at most 5 KB.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(readme) > 5120 {
		t.Errorf("README.md has %d bytes, at most 5120 are allowed", len(readme))
	}
	known := exampleLines(t)
	blocks := regexp.MustCompile("(?s)```(?:c|toml)\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 2 {
		t.Fatalf("README.md has %d blocks of C and TOML, want 2", len(blocks))
	}
	for _, b := range blocks {
		for _, line := range strings.Split(b[1], "\n") {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "# ") && !known[line] {
				t.Errorf("%s does not have %q of README.md", example, line)
			}
		}
	}
}

// The manual knows every limit with its default, every dtype and every key.
func TestManualIsComplete(t *testing.T) {
	var text []byte
	for _, page := range []string{guide, format, torch, "../docs/triton.md"} {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	var want []string
	for _, l := range kernels.Limits() {
		want = append(want, fmt.Sprintf("| `%s` | %d | %s |", l.Name, l.Default, l.Doc))
	}
	for _, d := range kernels.DTypes() {
		want = append(want, fmt.Sprintf("`%s`", d))
	}
	for _, c := range kernels.Counters() {
		want = append(want, fmt.Sprintf("`%s`", c))
	}
	// The errors for unknown keys list the known ones.
	for _, f := range []string{
		"x = 1\n" + base, strings.Replace(base, "[problem]", "[problem]\nx = 1", 1),
		strings.Replace(base, "[[problem.shape]]", "[[problem.shape]]\nx = 1", 1),
		strings.Replace(base, "[[problem.buffer]]", "[[problem.buffer]]\nx = 1", 1),
		strings.Replace(base, "[[problem.scalar]]", "[[problem.scalar]]\nx = 1", 1),
		strings.Replace(base, "[[problem.control]]", "[[problem.control]]\nx = 1", 1),
		strings.Replace(base, "[[implementation]]", "[[implementation]]\nx = 1", 1),
		strings.Replace(base, "[[implementation.parameter]]", "[[implementation.parameter]]\nx = 1", 1),
		strings.Replace(base, "[[implementation.constraint]]", "[[implementation.constraint]]\nx = 1", 1),
		strings.Replace(base, "[implementation.baseline]", "[implementation.baseline]\nx = 1", 1),
		strings.Replace(base, "[implementation.binary]", "[implementation.binary]\nx = 1", 1),
		strings.Replace(base+variant, "[[problem.variant]]", "[[problem.variant]]\nx = 1", 1),
		strings.Replace(base+variant, "[problem.reference.cuda]", "[problem.reference.cuda]\nx = 1", 1),
		strings.Replace(base+cuda, "[implementation.launch]", "[implementation.launch]\nx = 1", 1),
		base + cuda + "[[implementation.profile]]\nx = 1",
		base + cuda + "[[implementation.tensor_map]]\nx = 1",
		base + cuda + "[implementation.sanitize]\nx = 1",
		base + "[torch]\nx = 1",
	} {
		_, err := kernels.Load(folder(f), "k")
		if err == nil {
			t.Fatal("an unknown key is accepted")
		}
		_, keys, ok := strings.Cut(err.Error(), `has no key "x": there are `)
		if !ok {
			t.Fatalf("no list of keys: %v", err)
		}
		for _, key := range strings.Split(keys, ", ") {
			switch key {
			case "problem", "reference", "shape", "buffer", "scalar", "tolerance", "control",
				"variant", "implementation", "parameter", "constraint", "baseline", "launch", "tensor_map", "sanitize", "binary", "profile", "torch":
				key = "." + key
				if strings.Contains(string(text), "["+key[1:]+"]") {
					continue
				}
				want = append(want, key+"]")
			default:
				want = append(want, "`"+key)
			}
		}
	}
	for _, w := range want {
		if !strings.Contains(string(text), w) {
			t.Errorf("%s, %s, %s and docs/triton.md do not have %s", guide, format, torch, w)
		}
	}
}
