package cuda

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// A finished kernel in a file of its own is judged as a candidate of its kernel is,
// launched as its comments say, against the kernel's baseline or another file.
func TestFileIsJudged(t *testing.T) {
	t.Parallel()
	dir, def := t.TempDir(), fakeDefinition(t)
	file := func(t *testing.T, name, do, more string) kernels.File {
		path := filepath.Join(dir, name)
		text := "// do: " + do + " 1\n// evotune: grid = [\"int((N + 63)/64)\"]\n// evotune: block = [\"64\"]\n" + more +
			"extern \"C\" __global__ void fake(int64_t N, const float *x, float *y) {}\n// " + name + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return kernels.File{Path: path}
	}
	open := func(t *testing.T, def *kernels.Definition, files ...*kernels.Implementation) (evaluator.Evaluator, *genome.Space) {
		plan := fakePlan(t)
		plan.Definition, plan.Implementations = def, files
		o := fakeOptions(t)
		o.Sanitizers = []string{"none"}
		_, ev := openFakePlan(t, o, plan)
		space, err := def.Space(files, plan.Tune, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ev, space
	}
	for _, c := range []struct {
		do, more string
		verdict  evaluator.Verdict
		stage    evaluator.Stage
	}{
		{"nothing", "", evaluator.Correct, evaluator.StageBenchmark},
		{"compile=error", "", evaluator.Compile, evaluator.StageCompile},
		{"compile=stack", "// evotune: max_stack = 16\n", evaluator.Inspect, evaluator.StageInspect},
		{"compile=stack", "// evotune: max_stack = 24\n", evaluator.Correct, evaluator.StageBenchmark},
		{"nothing", "// evotune: shared = \"N - 1000000000\"\n", evaluator.Render, evaluator.StageCompile},
	} {
		t.Run(c.do+" "+string(c.verdict), func(t *testing.T) {
			im, err := def.FromFile("cuda", file(t, "new.cu", c.do, c.more), nil)
			if err != nil {
				t.Fatal(err)
			}
			ev, space := open(t, im.Definition(), im)
			g, _ := space.At(0)
			if r := evaluate(t, ev, g); r.Verdict != c.verdict || r.Stage != c.stage {
				t.Errorf("%s at %s: %s; want %s at %s", r.Verdict, r.Stage, r.Reason, c.verdict, c.stage)
			}
		})
	}
	old, err := def.FromFile("cuda", file(t, "old.cu", "nothing", ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	im, err := def.FromFile("cuda", file(t, "new.cu", "nothing", ""), old)
	if err != nil {
		t.Fatal(err)
	}
	ev, space := open(t, im.Definition(), im.Definition().Implementations[:2]...)
	if d := ev.Describe(); d.Baseline == "old.cu" {
		t.Error("a file that another is timed against has become the baseline")
	}
	var both []genome.Genome
	for _, each := range im.Definition().Implementations[:2] {
		g, err := space.FromMap(map[string]any{kernels.FileGene: each.Template, kernels.ImplementationGene: each.Name})
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, g)
	}
	f, err := ev.Finals(t.Context(), both)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range f.Entries {
		if !(e.Fitness > 0) {
			t.Errorf("finals of two files: %s: %s: %s", e.Genome, e.Verdict, strings.TrimSpace(e.Reason))
		}
	}
}
