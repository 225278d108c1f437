package export

import (
	"fmt"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// spread is a kernel with everything that launch.c launches.
func spread(t *testing.T) *kernels.Definition {
	t.Helper()
	d, err := kernels.Load(os.DirFS("testdata"), "spread")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// planned are the implementations that launch.c launches: of spread and the built-in ones.
func planned(t *testing.T) map[*kernels.Implementation]*kernels.Definition {
	t.Helper()
	list := map[*kernels.Implementation]*kernels.Definition{}
	for _, d := range append(cudaKernels(t), spread(t)) {
		for _, im := range d.Implementations {
			if im.Launch.Cluster != nil || im.TensorMaps != nil {
				list[im] = d
			}
		}
	}
	if len(list) < 3 {
		t.Fatalf("%d implementations with clusters or tensor maps", len(list))
	}
	return list
}

// planProgram prints what launch.c makes of a plan.
const planProgram = `#include "launch.c"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
const struct evo_driver *evo_driver(void) { return NULL; }
const struct evo_device *evo_facts(int device) { return (void)device, NULL; }
int evo_start(const struct evo_variant *v, int device, int step, const struct evo_step *s, void **args, evotune_stream stream)
{
	return (void)v, (void)device, (void)step, (void)s, (void)args, (void)stream, 1;
}
static void list(const char *what, const int64_t *of, int n)
{
	printf(" %s", what);
	for (int i = 0; i < n; i++)
		printf(" %" PRId64, of[i]);
}
static void show(int supports, void (*f)(const int64_t *, const int64_t *, struct evo_plan *), int steps, int maps, const int64_t *dims, const int64_t *limits)
{
	struct evo_launch l = {.plan = f, .steps = steps, .maps = maps};
	struct evo_device d = {.most = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}};
	struct evo_plan p;
	memcpy(d.limits, limits, sizeof d.limits);
	const int can = planned(&l, &d, dims, &p);
	printf("%d %d", supports, can);
	for (int i = 0; can && i < steps; i++) {
		list("step", p.steps[i].geometry, EVO_GEOMETRY);
		list("cluster", p.steps[i].cluster, 3);
		printf(" %d %d", p.steps[i].cooperative, p.steps[i].dependent);
	}
	for (int i = 0; can && i < maps; i++) {
		const struct evo_map *m = &p.maps[i];
		list("map", m->dims, m->axes);
		list("strides", m->strides, m->axes - 1);
		list("box", m->box, m->axes);
		printf(" %" PRId64 " %" PRId64 " %d %d %d", m->swizzle, m->promotion, m->buffer, m->type, m->nan);
	}
	puts("");
}
`

// ofPlan is the same from the geometry that tuning would have launched.
func ofPlan(g kernels.Geometry) string {
	var b strings.Builder
	list := func(what string, of ...int64) {
		b.WriteString(" " + what)
		for _, n := range of {
			b.WriteString(" " + strconv.FormatInt(n, 10))
		}
	}
	flag := map[bool]int{true: 1}
	for _, s := range append([]kernels.Geometry{g}, g.Then...) {
		list("step", slices.Concat(s.Grid[:], s.Block[:], []int64{s.SharedBytes, s.WorkspaceBytes})...)
		if s.Cluster == [3]int64{} {
			s.Cluster = [3]int64{1, 1, 1}
		}
		list("cluster", s.Cluster[:]...)
		fmt.Fprintf(&b, " %d %d", flag[s.Cooperative], flag[s.Dependent])
	}
	// CUtensorMapDataType of cuda.h.
	types := map[kernels.DType]int{kernels.U8: 0, kernels.E4M3: 0, kernels.F16: 6, kernels.BF16: 9}
	for _, m := range g.Maps {
		list("map", m.Dims...)
		list("strides", m.Strides...)
		list("box", m.Box...)
		fmt.Fprintf(&b, " %d %d %d %d %d", m.Swizzle, m.Promotion, m.Buffer, types[m.DType], flag[m.NaN])
	}
	return b.String()
}

// TestPlansInC compiles launches with clusters, tensor maps and several kernels of random
// genomes, and holds what they say at random shapes, on random devices, against what
// tuning would have launched there. What tuning refuses is refused.
func TestPlansInC(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: no translation was run")
	}
	const genomes, shapes = 8, 24
	rng := rand.New(rand.NewSource(7))
	var program, body strings.Builder
	var want []string
	program.WriteString(planProgram)
	all := planned(t)
	ims := slices.SortedFunc(maps.Keys(all), func(a, b *kernels.Implementation) int {
		return strings.Compare(a.Definition().Name+a.Name, b.Definition().Name+b.Name)
	})
	var files map[string][]byte
	said := map[string]int{}
	for _, im := range ims {
		d := all[im]
		for range genomes {
			w := cudaWinner(t, d, im, d.Problem.ShapesFor(kernels.Tune)[0], rng)
			problems, err := newProblems([]*Winner{w})
			if err != nil {
				t.Fatal(err)
			}
			if files == nil {
				if files, err = Export([]*Winner{w}, Options{Lang: CUDA, By: "test"}); err != nil {
					t.Fatal(err)
				}
			}
			p, v := problems[0], problems[0].Variants[0]
			if !v.Planned() {
				t.Fatalf("%s of %s is launched as others are", im.Name, d.Name)
			}
			supports := v.Supports
			if supports == "" {
				supports = "1"
			}
			fmt.Fprintf(&program, "static void f_%s(const int64_t *evo_dims, const int64_t *evo_limits, struct evo_plan *evo_plan)\n{\n%s\n%s\n}\n", v.Symbol, p.Unpack("evo_dims"), v.Text)
			fmt.Fprintf(&program, "static int s_%s(const int64_t *evo_dims)\n{\n%s\n\treturn %s;\n}\n", v.Symbol, p.Unpack("evo_dims"), supports)
			for i := range shapes {
				s := kernels.Shape{Name: "random", Dims: map[string]int64{}}
				var dims, numbers []string
				for _, name := range p.Dims {
					n := 1 + rng.Int63n(1<<uint(1+rng.Intn(13)))
					switch {
					case slices.Contains(p.Flags, name):
						n = rng.Int63n(2)
					case i == 0: // one that it was tuned for
						n = v.Shapes[0].Dims[name]
					case i == 1: // an axis that no tensor map has
						n = 1 << 33
					case i%2 == 0:
						n = max(16, n&^15)
					}
					s.Dims[name] = n
					dims = append(dims, strconv.FormatInt(n, 10))
				}
				limits := maps.Clone(hopper)
				limits["device_cores"], limits["device_warp"] = 1+rng.Int63n(200), 32+rng.Int63n(2)*32
				for _, l := range deviceLimits {
					n, ok := limits[l[0]].(int64)
					if !ok {
						n = 1 + rng.Int63n(1<<20)
						limits[l[0]] = n
					}
					numbers = append(numbers, strconv.FormatInt(n, 10))
				}
				line := "1 "
				if im.Supports(w.Rendered.Genome, s, hopper) != nil {
					line = "0 "
				}
				g, err := im.Geometry(w.Rendered.Genome, s, limits)
				said[line+map[bool]string{true: "launched", false: "refused"}[err == nil]]++
				if err == nil {
					line += "1" + ofPlan(g)
				} else {
					line += "0"
				}
				want = append(want, line)
				fmt.Fprintf(&body, "\tshow(s_%[1]s((const int64_t[]){%[2]s}), f_%[1]s, %[3]d, %[4]d, (const int64_t[]){%[2]s}, (const int64_t[]){%[5]s});\n",
					v.Symbol, strings.Join(dims, ", "), len(v.Steps), v.Maps, strings.Join(numbers, ", "))
			}
		}
	}
	program.WriteString("int main(void)\n{\n" + body.String() + "\treturn 0;\n}\n")
	dir := t.TempDir()
	writeFiles(t, dir, files)
	writeFiles(t, dir, map[string][]byte{"p.c": []byte(program.String())})
	run(t, dir, cc, "-std=c11", "-fsanitize=undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Iinclude", "-Isrc", "-o", "p", "p.c", "-lm")
	got := strings.Split(strings.TrimSpace(run(t, dir, "./p")), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i, line := range got {
		if line != want[i] {
			t.Errorf("%d: C says\n%s\ntuning\n%s", i, line, want[i])
		}
	}
	if said["1 launched"] < 50 || said["0 refused"] < 50 {
		t.Errorf("too few of a kind: %v", said)
	}
}

// Launches over the limits of a device ask the device where they are launched; what
// libraries have no room for is refused.
func TestPlans(t *testing.T) {
	p := &problem{Problem: &kernels.Problem{Dims: []string{"N"}, Buffers: []kernels.Buffer{{Name: "X", DType: kernels.F16, Shape: []string{"N"}}}}}
	variant := func(l kernels.Launch, tiles ...kernels.TensorMap) (*variant, error) {
		if l.Grid == nil {
			l.Grid = []string{"N"}
		}
		l.Block = []string{"32"}
		return p.variant(kernels.Rendered{Implementation: &kernels.Implementation{Name: "im", Launch: &l, TensorMaps: tiles}}, map[string]any{"device_cores": int64(132), "device_l3_bytes": int64(77)})
	}
	v, err := variant(kernels.Launch{})
	if err != nil || v.Planned() {
		t.Errorf("a plain launch: %v", err)
	}
	v, err = variant(kernels.Launch{Grid: []string{"2*device_cores + device_l3_bytes"}})
	if err != nil || !v.Planned() || v.Later || !strings.Contains(v.Text, "const int64_t device_cores = evo_limits[EVO_CORES];") || strings.Contains(v.Text, "132") || !strings.Contains(v.Text, "INT64_C(77)") {
		t.Errorf("over limits: %v, %+v", err, v)
	}
	l := kernels.Launch{Then: slices.Repeat([]*kernels.Launch{{Entry: "next", Grid: []string{"1"}, Block: []string{"1"}}}, maxSteps)}
	if _, err := variant(l); err == nil || !strings.Contains(err.Error(), "has 17 kernels in sequence, and libraries launch 16 at most") {
		t.Errorf("many kernels: %v", err)
	}
	m := kernels.TensorMap{Name: "X_map", Buffer: "X", Dims: []string{"N"}, Box: []string{"64"}}
	if _, err := variant(kernels.Launch{}, slices.Repeat([]kernels.TensorMap{m}, maxMaps+1)...); err == nil || !strings.Contains(err.Error(), "has 17 tensor maps, and libraries make 16 at most") {
		t.Errorf("many maps: %v", err)
	}
	if v, err := variant(kernels.Launch{}, m); err != nil || !v.Later || v.Maps != 1 {
		t.Errorf("a map: %v", err)
	}
}

// Every limit that definitions may name is asked of the device, or known to have one value.
func TestDeviceLimits(t *testing.T) {
	for _, l := range kernels.Limits() {
		asked := slices.ContainsFunc(deviceLimits, func(d [2]string) bool { return d[0] == l.Name })
		// Caches of one core, and what is of processors alone.
		other := slices.Contains([]string{"device_l1_bytes", "device_l3_bytes", "device_line_bytes", "device_vector_bytes"}, l.Name)
		if asked == other {
			t.Errorf("%s: asked of the device %t, of another kind %t", l.Name, asked, other)
		}
	}
}

// newerNVCC finds an nvcc that compiles for sm_90a. Where there is none, the second set of
// tests fails: those who run it have an nvcc, and the script that installs one installs both.
func newerNVCC(t *testing.T) string {
	t.Helper()
	nvcc, err := findNVCC("", []string{"90a"})
	if err != nil {
		if _, have := exec.LookPath("nvcc"); have == nil && longtest.All(t) {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return nvcc
}

// spreadWinner is a winner of spread with some genes.
func spreadWinner(t *testing.T, genes map[string]any) *Winner {
	t.Helper()
	d := spread(t)
	for seed := range int64(200) {
		w := cudaWinner(t, d, d.Implementations[0], d.Problem.ShapesFor(kernels.Tune)[0], rand.New(rand.NewSource(seed)))
		is := w.Rendered.Genome.Map()
		fits := true
		for name, x := range genes {
			fits = fits && fmt.Sprint(is[name]) == fmt.Sprint(x)
		}
		if fits {
			return w
		}
	}
	t.Fatalf("no genome with %v", genes)
	return nil
}

var _ = evaluator.Correct
var _ = filepath.Join
