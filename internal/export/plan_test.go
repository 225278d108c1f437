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
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator/cuda"
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

// astray is spread with a map that is right at some shapes only, and a grid that is no
// multiple of the cluster on some devices.
func astray(t *testing.T) *kernels.Definition {
	t.Helper()
	files := fstest.MapFS{}
	for _, name := range []string{"kernel.toml", "reference.c", "reference.cu", "spread.cu.tmpl"} {
		text, err := os.ReadFile(filepath.Join("testdata", "spread", name))
		if err != nil {
			t.Fatal(err)
		}
		files["spread/"+name] = &fstest.MapFile{Data: text}
	}
	toml := string(files["spread/kernel.toml"].Data)
	for _, change := range [][2]string{
		{`dims = ["COLS", "ROWS"]`, `dims = ["COLS", "ROWS + (COLS % 32 == 0 ? 0 : 1)"]`},
		{"BLOCKS*int(max(1, min(int(device_cores/BLOCKS), ceil(ROWS/8)*ceil(COLS/BOX))))", "device_cores + 1"},
		{`strides = ["4*COLS"]`, `strides = ["(COLS - 8)*4"]`},
	} {
		if strings.Count(toml, change[0]) != 1 {
			t.Fatalf("%q is not once in the definition", change[0])
		}
		toml = strings.Replace(toml, change[0], change[1], 1)
	}
	files["spread/kernel.toml"].Data = []byte(toml)
	d, err := kernels.Load(files, "spread")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// planned are the implementations that launch.c launches: of spread and the built-in ones.
func planned(t *testing.T) map[*kernels.Implementation]*kernels.Definition {
	t.Helper()
	list := map[*kernels.Implementation]*kernels.Definition{}
	for _, d := range append(cudaKernels(t), spread(t), astray(t)) {
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
func TestPlansInC(t *testing.T) { plansInC(t, 7, 2, 16) }

// TestPlansInCLong looks at more genomes.
func TestPlansInCLong(t *testing.T) {
	longtest.Long(t, "it compiles hundreds of launches")
	plansInC(t, 8, 8, 24)
}

func plansInC(t *testing.T, seed int64, genomes, shapes int) {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: no translation was run")
	}
	rng := rand.New(rand.NewSource(seed))
	var program, body strings.Builder
	var want []string
	program.WriteString(planProgram)
	all := planned(t)
	ims := slices.SortedFunc(maps.Keys(all), func(a, b *kernels.Implementation) int {
		return strings.Compare(a.Definition().Name+a.Name+a.Definition().Hash, b.Definition().Name+b.Name+b.Definition().Hash)
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
				if (i != 1 || v.Maps == 0) && slices.ContainsFunc(p.Problem.Buffers, func(b kernels.Buffer) bool {
					_, err := p.Elements(b, s)
					return err != nil
				}) {
					continue // beyond any memory, which tuning refuses whatever the launch is
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
	if least := genomes * shapes / 4; said["1 launched"] < least || said["0 refused"] < least {
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

// newerNVCC finds an nvcc that compiles for sm_90a. The script that installs one installs both.
func newerNVCC(t *testing.T) string {
	t.Helper()
	nvcc, err := findNVCC("", []string{"90a"})
	if err != nil {
		t.Fatalf("%v: run scripts/setup-cuda-debian.sh", err)
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

// laterDriver is the rest of standInDriver for spread: a driver of CUDA 12 that tells of attributes,
// tensor maps and captures. FAKE_OLD takes that away; the stream 9 is being captured.
const laterDriver = `
static const char *entry_of[64];
static int encoded, nodes;
int cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	static int n;
	(void)m;
	entry_of[n] = name;
	*f = (CUfunction)(intptr_t)(0x100 + n++);
	return strncmp(name, "evotune_kernel", 14);
}
static void tell(CUfunction f, const unsigned *grid, const unsigned *block, unsigned shared, CUstream s, void **args)
{
	printf("launch %s at %u,%u,%u,%u,%u,%u,%u on %d with %lld %lld %p %p %p", entry_of[(intptr_t)f - 0x100], grid[0], grid[1], grid[2], block[0], block[1], block[2], shared,
		(int)(intptr_t)s, (long long)*(int64_t *)args[0], (long long)*(int64_t *)args[1], *(void **)args[2], *(void **)args[3], *(void **)args[4]);
	for (int i = 5; i < 7; i++)
		printf(" map %d%s", *(int *)args[i], (uintptr_t)args[i] % 64 ? " astray" : "");
	printf(" workspace %p", *(void **)args[7]);
}
int cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **args, void **extra)
{
	const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
	tell(f, grid, block, shared, s, args);
	puts("");
	nodes++;
	return !!extra;
}
#ifndef FAKE_OLD
int cuLaunchKernelEx(const struct evo_config *c, CUfunction f, void **args, void **extra)
{
	tell(f, c->grid, c->block, c->shared, c->stream, args);
	for (unsigned i = 0; i < c->count; i++) {
		const struct evo_attribute *a = &c->attributes[i];
		if (a->id == CU_LAUNCH_CLUSTER_DIMENSION)
			printf(" cluster %u,%u,%u", a->value.cluster[0], a->value.cluster[1], a->value.cluster[2]);
		else
			printf(" attribute %d is %d", a->id, a->value.on);
	}
	puts("");
	nodes++;
	return extra || (getenv("FAKE_REFUSE") && !strcmp(entry_of[(intptr_t)f - 0x100], getenv("FAKE_REFUSE")));
}
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *at, const uint64_t *dims, const uint64_t *strides,
	const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill)
{
	printf("encode %d: type %d rank %u at %p dims %llu,%llu strides %llu box %u,%u steps %u,%u modes %d,%d,%d,%d\n", ++encoded, type, rank, at,
		(unsigned long long)dims[0], (unsigned long long)dims[1], (unsigned long long)strides[0], box[0], box[1], steps[0], steps[1], interleave, swizzle, promotion, fill);
	memset(map, 0, 128);
	*(int *)map = encoded;
	return (uintptr_t)map % 64 != 0;
}
int cuStreamIsCapturing(CUstream s, int *status) { *status = (intptr_t)s == 9; return 0; }
int cuStreamGetCaptureInfo_v2(CUstream s, int *status, uint64_t *id, CUgraph *g, const CUgraphNode **list, size_t *n)
{
	static CUgraphNode last;
	last = (CUgraphNode)(intptr_t)nodes;
	*status = (intptr_t)s == 9, *g = (CUgraph)0x77, *list = &last, *n = 1;
	return id != NULL;
}
int cuGraphAddEmptyNode(CUgraphNode *to, CUgraph g, const CUgraphNode *list, size_t n)
{
	printf("join");
	for (size_t i = 0; i < n; i++)
		printf(" %d", (int)((intptr_t)list[i] - nodes));
	puts("");
	*to = (CUgraphNode)0x55;
	return g != (CUgraph)0x77;
}
int cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode *list, size_t n, unsigned flags)
{
	printf("after %p on %d\n", (void *)list[0], (int)(intptr_t)s);
	return n != 1 || flags != CU_SET_CAPTURE_DEPENDENCIES;
}
#endif
`

const spreadProgram = `#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "evotune.h"
static void warn(const char *m, void *u) { (void)u; printf("warning %s\n", m); }
static int call(int64_t rows, int64_t cols, uintptr_t x, intptr_t stream)
{
	return evotune_spread(rows, cols, (const evotune_e4m3 *)x, (evotune_e5m2 *)8192, (float *)12288, (void *)16384, 1 << 30, (evotune_stream)stream);
}
static void *thread(void *of) { return (void)of, printf("thread %d\n", call(256, 512, 4096, 7)), NULL; }
int main(int argc, char **argv)
{
	struct evotune_choice c;
	size_t bytes = 0;
	pthread_t t;
	if (argc > 1)
		printf("wisdom %d\n", evotune_wisdom_load(argv[1], warn, NULL));
	const int prepared = evotune_prepare();
	printf("prepare %d %s\n", prepared, evotune_status_text(prepared));
	int status = evotune_spread_choice(256, 512, &c);
	printf("choice %d %d %s\n", status, c.rule, c.tuned_for);
	status = evotune_spread_workspace(256, 512, &bytes);
	printf("workspace %d %zu\n", status, bytes);
	printf("first %d\n", call(256, 512, 4096, 7));
	printf("again %d\n", call(256, 512, 4096, 7));
	printf("elsewhere %d\n", call(256, 512, 20480, 7));
	printf("captured %d\n", call(256, 512, 20480, 9));
	printf("other shape %d\n", call(64, 208, 20480, 7));
	printf("astray %d\n", call(256, 512, 4104, 7));
	printf("no such rows %d\n", call(256, 500, 4096, 7));
	printf("too many %d\n", call(INT64_C(1) << 33, 16, 4096, 7));
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
	return 0;
}
`

// standInRuntime is CUDA's runtime as far as runtime.c needs it, on the driver that
// stands in: what it launches is told by that.
const standInRuntime = `
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "driver.h"
void @SYMBOL@(void) {}
void @SYMBOL@_2(void) {}
void @SYMBOL@_3(void) {}
void evotune_spread_baseline(void) {}
void evotune_spread_baseline_2(void) {}
void evotune_spread_baseline_3(void) {}
static CUfunction function(const void *code)
{
	static CUfunction known[3];
	void (*const list[])(void) = {@SYMBOL@, @SYMBOL@_2, @SYMBOL@_3};
	static const char *const names[] = {"evotune_kernel", "evotune_kernel_2", "evotune_kernel_3"};
	for (int i = 0; i < 3; i++) {
		if (memcmp(&code, &list[i], sizeof code))
			continue;
		if (!known[i])
			evo_driver()->cuModuleGetFunction(&known[i], NULL, names[i]);
		return known[i];
	}
	abort();
}
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaGetDevice(int *d) { *d = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d)
{
	int c[2];
	evo_driver()->cuDeviceGetName(p->name, sizeof p->name, d);
	evo_driver()->cuDeviceGetAttribute(&c[0], CU_DEVICE_CAPABILITY_MAJOR, d);
	evo_driver()->cuDeviceGetAttribute(&c[1], CU_DEVICE_CAPABILITY_MINOR, d);
	p->major = c[0], p->minor = c[1];
	return cudaSuccess;
}
/* The runtime's attributes have the driver's numbers. */
cudaError_t cudaDeviceGetAttribute(int *v, enum cudaDeviceAttr a, int d) { return evo_driver()->cuDeviceGetAttribute(v, (int)a, d) ? cudaErrorUnknown : cudaSuccess; }
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f) { (void)f; a->sharedSizeBytes = 1024; return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute a, int v)
{
	(void)f;
	return a != cudaFuncAttributeMaxDynamicSharedMemorySize || v != (226 << 10) ? cudaErrorUnknown : cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void *f, dim3 g, dim3 b, void **args, size_t shared, cudaStream_t s)
{
	return evo_driver()->cuLaunchKernel(function(f), g.x, g.y, g.z, b.x, b.y, b.z, (unsigned)shared, s, args, NULL) ? cudaErrorUnknown : cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **args)
{
	struct evo_attribute list[3];
	struct evo_config e = {
		.grid = {c->gridDim.x, c->gridDim.y, c->gridDim.z}, .block = {c->blockDim.x, c->blockDim.y, c->blockDim.z}, .shared = (unsigned)c->dynamicSmemBytes,
		.stream = c->stream, .attributes = list, .count = c->numAttrs,
	};
	for (unsigned i = 0; i < c->numAttrs; i++) {
		list[i].id = (int)c->attrs[i].id;
		memcpy(&list[i].value, &c->attrs[i].val, sizeof list[i].value);
	}
	return evo_driver()->cuLaunchKernelEx(&e, function(f), args, NULL) ? cudaErrorUnknown : cudaSuccess;
}
`

// runtimeHeaders is the folder of the headers of CUDA's runtime.
func runtimeHeaders(t *testing.T) string {
	t.Helper()
	nvcc, err := findNVCC("", nil)
	if err != nil {
		t.Fatalf("%v: run scripts/setup-cuda-debian.sh", err)
	}
	for _, dir := range []string{filepath.Join(filepath.Dir(filepath.Dir(nvcc)), "include"), "/usr/include"} {
		if _, err := os.Stat(filepath.Join(dir, "cuda_runtime_api.h")); err == nil {
			return dir
		}
	}
	t.Fatalf("%s has no headers of CUDA's runtime beside it", nvcc)
	return ""
}

// TestDriverOfPlans launches what launch.c launches through a driver that stands in for
// NVIDIA's and tells what it is given: machine code by the driver.
func TestDriverOfPlans(t *testing.T) { driverOfPlans(t, true) }

// TestRuntimeOfPlansLong: so do sources, by a runtime that stands in on it.
func TestRuntimeOfPlansLong(t *testing.T) {
	longtest.Long(t, "it needs CUDA's headers")
	driverOfPlans(t, false)
}

func driverOfPlans(t *testing.T, embed bool) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: nothing was launched")
	}
	dir := t.TempDir()
	nvcc := filepath.Join(dir, "nvcc")
	if err := os.WriteFile(nvcc, []byte(strings.Replace(standInNVCC, "while", "if [ \"$1\" = --dryrun ]; then exit; fi\nwhile", 1)), 0o755); err != nil {
		t.Fatal(err)
	}
	w := spreadWinner(t, map[string]any{"BOX": 32, "BLOCKS": 2, "EARLY": true, "TOGETHER": 1})
	files, err := Export([]*Winner{w}, Options{Lang: CUDA, By: "test", Embed: embed, NVCC: nvcc, Compile: cuda.Fatbin})
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, files)
	other := "evotune-wisdom 1\nspread\tROWS=256,COLS=512\tabcd\tNVIDIA H200\t1\t-\t.\n"
	writeFiles(t, dir, map[string][]byte{
		"fake/libcuda.c": []byte(standInDriver + laterDriver), "program.c": []byte(spreadProgram), "more/wisdom.txt": []byte(other), "more/abcd.cubin": []byte("from a file\n\x00"),
		"old/keep": nil,
	})
	strict := []string{"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Isrc"}
	run(t, dir, cc, append(strict, "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", "fake/libcuda.so.1", "fake/libcuda.c")...)
	run(t, dir, cc, append(strict, "-shared", "-fPIC", "-D_GNU_SOURCE", "-DFAKE_OLD", "-Wno-unused-variable", "-o", "old/libcuda.so.1", "fake/libcuda.c")...)
	sources := sourcesIn(files)
	if !embed {
		symbol := "evotune_spread_" + w.Evidence.Candidate
		writeFiles(t, dir, map[string][]byte{"cudart.c": []byte(strings.ReplaceAll(standInRuntime, "@SYMBOL@", symbol))})
		sources = append(sources, "cudart.c", "-isystem", runtimeHeaders(t), "-DEVOTUNE_HAVE_spread_"+w.Evidence.Candidate, "-DEVOTUNE_HAVE_spread_baseline")
	}
	run(t, dir, cc, slices.Concat(strict, []string{"-fsanitize=undefined", "-pthread", "-o", "program", "program.c"}, sources, []string{"-lm", "-ldl"})...)
	on := func(driver, name, capability string, more ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "program"), more...)
		if len(more) > 0 && strings.Contains(more[0], "=") {
			cmd.Args, cmd.Env = cmd.Args[:1], more
		}
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+filepath.Join(dir, driver), "FAKE_CAPABILITY="+capability, "FAKE_NAME="+name)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.ReplaceAll(string(out), dir+"/", "")
	}
	wants := func(got string, list ...string) {
		t.Helper()
		for _, want := range list {
			if !strings.Contains(got, want) {
				t.Errorf("no\n%s\nin\n%s", want, got)
			}
		}
	}
	// The driver that stands in has 1024 of everything: cores, and threads in a warp.
	steps := func(x, rows string, cols int, grids [3]int, map1, map2 int, stream int) string {
		with := fmt.Sprintf("on %d with %s %d %s 0x2000 0x3000 map %d map %d workspace 0x4000", stream, rows, cols, x, map1, map2)
		return fmt.Sprintf("launch evotune_kernel at %d,1,1,128,1,1,512 %[4]s cluster 2,1,1\nlaunch evotune_kernel_2 at %[2]d,1,1,1024,1,1,0 %[4]s attribute 6 is 1\nlaunch evotune_kernel_3 at %[3]d,1,1,64,1,1,0 %[4]s attribute 2 is 1\n", grids[0], grids[1], grids[2], with)
	}
	maps := func(n int, x string, rows, cols int) string {
		return fmt.Sprintf("encode %d: type 0 rank 2 at %s dims %d,%d strides %[3]d box 32,8 steps 1,1 modes 0,0,2,0\nencode %[5]d: type 0 rank 2 at %[2]s dims %[3]d,%[6]d strides %[7]d box 32,2 steps 1,1 modes 0,1,0,0\n",
			n, x, cols, rows, n+1, (rows+3)/4, 4*cols)
	}
	tuned := [3]int{1024, 256, 1024}

	t.Run("its device", func(t *testing.T) {
		got := on("fake", "NVIDIA H200", "90")
		wants(got, "prepare 0 ok\nchoice 0 1 256x512\nworkspace 0 524288\n",
			maps(1, "0x1000", 256, 512)+steps("0x1000", "256", 512, tuned, 1, 2, 7)+"first 0\n"+steps("0x1000", "256", 512, tuned, 1, 2, 7)+"again 0\n"+
				maps(3, "0x5000", 256, 512)+steps("0x5000", "256", 512, tuned, 3, 4, 7)+"elsewhere 0\n"+
				steps("0x5000", "256", 512, tuned, 3, 4, 9)+"join -2 -1 0\nafter 0x55 on 9\ncaptured 0\n"+
				maps(5, "0x5000", 64, 208)+steps("0x5000", "64", 208, [3]int{112, 64, 1024}, 5, 6, 7)+"other shape 0\n",
			"astray 1\nno such rows 3\ntoo many 3\n",
			maps(7, "0x1000", 256, 512)+steps("0x1000", "256", 512, tuned, 7, 8, 7)+"thread 0\n")
	})
	t.Run("a kernel is refused", func(t *testing.T) {
		got := on("fake", "NVIDIA H200", "90", "FAKE_REFUSE=evotune_kernel_2")
		first, _, _ := strings.Cut(got, "first")
		wants(got, "first 6\n")
		if strings.Contains(first, "evotune_kernel_3") {
			t.Errorf("it went on\n%s", got)
		}
	})
	t.Run("a graph of an older driver", func(t *testing.T) {
		got := on("fake", "NVIDIA H200", "90", "FAKE_VERSION=12020")
		wants(got, "elsewhere 0\n"+strings.Replace(steps("0x5000", "256", 512, tuned, 3, 4, 9), " attribute 6 is 1", "", 1)+"captured 0\n", steps("0x1000", "256", 512, tuned, 1, 2, 7)+"first 0\n")
		if strings.Contains(got, "join") {
			t.Errorf("it joined\n%s", got)
		}
	})
	t.Run("another device", func(t *testing.T) {
		for _, capability := range []string{"80", "100"} {
			got := on("fake", "NVIDIA B200", capability)
			wants(got, "prepare 0 ok\nchoice 0 0 \nworkspace 3 0\nfirst 3\n")
			if strings.Contains(got, "launch") || strings.Contains(got, "load") {
				t.Errorf("on %s\n%s", capability, got)
			}
		}
	})
	t.Run("an old driver", func(t *testing.T) {
		got := on("old", "NVIDIA H200", "90")
		wants(got, "prepare 8 the driver is too old for this kernel: clusters, cooperative and dependent launches and tensor maps need one of CUDA 12\n", "first 8\n")
		if strings.Contains(got, "launch e") || strings.Contains(got, "load") {
			t.Errorf("it launched\n%s", got)
		}
	})
	t.Run("wisdom", func(t *testing.T) {
		got := on("fake", "NVIDIA H200", "90", filepath.Join(dir, "more", "wisdom.txt"))
		why := ", and the line does not say how to launch it"
		if !embed {
			why = ": and one that launches through CUDA's runtime loads none from files (export with --embed for that)"
		}
		wants(got, "warning more/wisdom.txt:2: candidate abcd is not in this library"+why+"; the line is skipped\nwisdom 0\n", "choice 0 1 256x512\n")
		got = on("fake", "NVIDIA H200", "90", filepath.Join(dir, "wisdom.txt"))
		wants(got, "wisdom 0\n", "choice 0 3 \n", "first 0\n")
	})
}

// An exported kernel can be judged by its file: that says how it is launched, with the
// kernels' names there.
func TestPlanInFile(t *testing.T) {
	w := spreadWinner(t, map[string]any{"BLOCKS": 2, "EARLY": true})
	files, err := Export([]*Winner{w}, Options{Lang: CUDA, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFiles(t, dir, files)
	symbol := "evotune_spread_" + w.Evidence.Candidate
	im, err := spread(t).FromFile("cuda", kernels.File{Path: filepath.Join(dir, "src", "kernels", strings.TrimPrefix(symbol, "evotune_")+".cu")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range im.Problem().Shapes {
		want, err := w.Rendered.Implementation.Geometry(w.Rendered.Genome, s, hopper)
		if err != nil {
			t.Fatal(err)
		}
		want.Then[0].Entry, want.Then[1].Entry = symbol+"_2", symbol+"_3"
		g, err := spread(t).Space([]*kernels.Implementation{im}, []kernels.Shape{s}, hopper)
		if err != nil {
			t.Fatal(err)
		}
		got, err := im.Geometry(g.Random(rand.New(rand.NewSource(1))), s, hopper)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); im.Entry != symbol || diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", im.Entry, s.Name, diff)
		}
	}
	for _, name := range []string{symbol, symbol + "_2", symbol + "_3"} {
		if !strings.Contains(string(files["src/kernels.c"]), "void "+name+"(void);") || !strings.Contains(string(files["src/kernels/"+strings.TrimPrefix(symbol, "evotune_")+".cu"]), " "+name+"\n") {
			t.Errorf("the library lacks %s", name)
		}
	}
}

// hostLibrary is a library and a device on the processor, for the check of spread. FAULT
// says what the library does wrong.
const hostLibrary = `
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device.h"
#include "evotune.h"
static int calls;
static int is(const char *fault) { return getenv("FAULT") && !strcmp(getenv("FAULT"), fault); }
void evotune_reference_spread(void) {}
int device_found(void) { return 1; }
void *device_room(size_t bytes) { return malloc(bytes ? bytes : 1); }
void device_free(void *p) { free(p); }
void device_fill(void *p, int byte, size_t bytes) { memset(p, byte, bytes); }
void device_put(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
void device_get(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
void device_wait(void) {}
void device_launch(const void *image, void (*function)(void), const int64_t *geometry, void **args)
{
	const int64_t rows = *(int64_t *)args[0], cols = *(int64_t *)args[1];
	const double *x = *(double **)args[2];
	double *y = *(double **)args[3], *sums = *(double **)args[4];
	if (image || function != evotune_reference_spread || geometry[0] != rows)
		abort();
	for (int64_t i = 0; i < rows; i++) {
		double sum = 0;
		for (int64_t j = 0; j < cols; j++) {
			y[i * cols + j] = 2 * x[i * cols + j];
			sum += x[i * cols + j];
		}
		if (is("all unwritten") ? i == 0 : i % 4 != 3)
			sums[i] = sum;
	}
}
int evotune_prepare(void) { return EVOTUNE_OK; }
const char *evotune_status_text(int status) { return status ? "refused" : "ok"; }
const char *evotune_rule_text(int rule) { return rule ? "some rule" : "none"; }
int evotune_spread_workspace(int64_t ROWS, int64_t COLS, size_t *bytes) { return (void)ROWS, (void)COLS, *bytes = 0, EVOTUNE_OK; }
int evotune_spread_choice(int64_t ROWS, int64_t COLS, struct evotune_choice *c)
{
	(void)ROWS, (void)COLS;
	*c = (struct evotune_choice){.candidate = "", .tuned_for = ""};
	return EVOTUNE_OK;
}
int evotune_spread(int64_t rows, int64_t cols, const evotune_e4m3 *x, evotune_e5m2 *y, float *sums, void *workspace, size_t bytes, evotune_stream stream)
{
	(void)workspace, (void)bytes, (void)stream;
	double square = 0;
	for (int64_t i = 0; i < rows; i++) {
		double sum = 0;
		for (int64_t j = 0; j < cols; j++) {
			const float v = evotune_e4m3_to_float(x[i * cols + j]);
			y[i * cols + j] = evotune_e5m2_from_float(2 * v);
			sum += v;
		}
		square += sum * sum;
		sums[i] = i % 4 == 3 ? (calls % 2 ? 42 : NAN) : (float)sum;
	}
	const double rms = sqrt(square / (double)rows);
	if (is("another sum"))
		sums[5] += (float)(3e-5 * rms);
	if (is("another sum the second time") && calls % 2)
		sums[5] += (float)(5e-6 * rms); /* within the tolerance */
	if (is("a little"))
		sums[5] += (float)(5e-6 * rms);
	if (is("NaN"))
		sums[5] = NAN;
	if (is("another element"))
		y[77] = evotune_e5m2_from_float(30);
	calls++;
	return is("refused") ? EVOTUNE_DEVICE : EVOTUNE_OK;
}
`

// TestCheckOfOutputs runs the check of a library on the processor: outputs have their own
// tolerance, repeat as nearly as the definition says, and are compared where the reference
// writes them.
func TestCheckOfOutputs(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: the check was not run")
	}
	w := spreadWinner(t, map[string]any{"BLOCKS": 2})
	files, err := Export([]*Winner{w}, Options{Lang: CUDA, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFiles(t, dir, files)
	helpers := "#include <stdint.h>\n" + kernels.Conversions(kernels.E4M3) + kernels.Conversions(kernels.E5M2)
	writeFiles(t, dir, map[string][]byte{"host.c": []byte(helpers + hostLibrary)})
	run(t, dir, cc, "-std=c11", "-O1", "-fsanitize=undefined", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Itest", "-o", "check", "test/check.c", "host.c", "-lm")
	for fault, wrong := range map[string]bool{
		"": false, "a little": false, "another sum": true, "another sum the second time": true, "NaN": true, "another element": true, "all unwritten": true, "refused": true,
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "check"))
		cmd.Env = []string{"FAULT=" + fault}
		out, err := cmd.CombinedOutput()
		if (err != nil) != wrong || strings.Contains(string(out), "Sanitizer") || wrong && !strings.Contains(string(out), "3 FAILED") || !wrong && strings.Count("\n"+string(out), "\nok ") != 3 {
			t.Errorf("with %q: %v\n%s", fault, err, out)
		}
	}
}

// A kernel for one compute capability alone serves there; elsewhere another one does.
func TestExactElsewhere(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: nothing was chosen")
	}
	dir := t.TempDir()
	nvcc := filepath.Join(dir, "nvcc")
	if err := os.WriteFile(nvcc, []byte(strings.Replace(standInNVCC, "while", "if [ \"$1\" = --dryrun ]; then exit; fi\nwhile", 1)), 0o755); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(3))
	var winners []*Winner
	candidates := map[bool]string{}
	for _, d := range cudaKernels(t) {
		for _, im := range d.Implementations {
			if d.Name != "gemm" || im.Name == "wmma" {
				continue
			}
			w := cudaWinner(t, d, im, d.Problem.ShapesFor(kernels.Tune)[0], rng)
			exact := im.Target == "sm_90a"
			if exact { // the faster one
				timings := w.Evidence.Finals.Entries[0].Timings
				timings[0].MedianNS /= 2
			}
			candidates[exact] = w.Evidence.Candidate
			winners = append(winners, w)
		}
	}
	if len(winners) != 2 || len(candidates) != 2 {
		t.Fatalf("gemm has %d implementations, %v", len(winners), candidates)
	}
	files, err := Export(winners, Options{Lang: CUDA, By: "test", Embed: true, NVCC: nvcc, Compile: cuda.Fatbin})
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, files)
	shape := newShape(winners[0].Rendered.Implementation.Problem().ShapesFor(kernels.Tune)[0], winners[0].Rendered.Implementation.Problem().Dims)
	writeFiles(t, dir, map[string][]byte{"fake/libcuda.c": []byte(standInDriver + laterDriver), "program.c": []byte(`#include <stdio.h>
#include "evotune.h"
int main(void)
{
	struct evotune_choice c;
	const int status = evotune_gemm_choice(` + shape.Dims() + `, &c);
	printf("%d %s", status, c.candidate);
	return 0;
}
`)})
	strict := []string{"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Isrc"}
	run(t, dir, cc, append(strict, "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", "fake/libcuda.so.1", "fake/libcuda.c")...)
	run(t, dir, cc, slices.Concat(strict, []string{"-pthread", "-o", "program", "program.c"}, sourcesIn(files), []string{"-lm", "-ldl"})...)
	for capability, exact := range map[string]bool{"80": false, "89": false, "90": true, "100": false} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "program"))
		cmd.Env = []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "fake"), "FAKE_CAPABILITY=" + capability, "FAKE_NAME=NVIDIA H200"}
		out, err := cmd.Output()
		if want := "0 " + candidates[exact]; err != nil || string(out) != want {
			t.Errorf("on a device of %s: %q, want %q (%v)", capability, out, want, err)
		}
	}
}
