package kernels_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/kernels"
)

// The guide has the example, and with the reference it is the manual.
const (
	guide  = "../docs/kernels.md"
	format = "../docs/kernel-format.md"
)

// The example of the guide is a kernel that loads and lints clean, and whose
// space has the size that the guide gives.
func TestManualExample(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "rowsum")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```[a-z]+\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(files) != 3 {
		t.Fatalf("%s has %d files, want 3", guide, len(files))
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f[1]), []byte(f[2]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := kernels.LoadDir(dir)
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

// The README shows lines of the guide's example, and is at most 5 KB.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(readme) > 5120 {
		t.Errorf("README.md has %d bytes, at most 5120 are allowed", len(readme))
	}
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		known[strings.TrimSpace(line)] = true
	}
	blocks := regexp.MustCompile("(?s)```(?:c|toml)\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 2 {
		t.Fatalf("README.md has %d blocks of C and TOML, want 2", len(blocks))
	}
	for _, b := range blocks {
		for _, line := range strings.Split(b[1], "\n") {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "# ") && !known[line] {
				t.Errorf("%s does not have %q of README.md", guide, line)
			}
		}
	}
}

// The manual knows every limit with its default, every dtype and every key.
func TestManualIsComplete(t *testing.T) {
	var text []byte
	for _, page := range []string{guide, format} {
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
				"variant", "implementation", "parameter", "constraint", "baseline", "launch", "tensor_map", "binary", "profile":
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
			t.Errorf("%s and %s do not have %s", guide, format, w)
		}
	}
}
