package kernels_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// variant gives base a half for GPUs, to add to base+cuda.
const variant = `
[problem.reference.cuda]
source = "reference.cu"
entry = "reference"
grid = ["int(ceil(M/4))", "N"]
block = ["4"]

[[problem.variant]]
backend = "cuda"
dtype = { A = "f16", B = "f16", C = "f16" }
bytes = "2*(M*K + K*N + M*N)"
pipe = "tensor-f16"
cache = "cold"
[[problem.variant.shape]]
name = "large"
dims = { M = 512, N = 512, K = 256 }
use = "tune"
[[problem.variant.shape]]
name = "odd"
dims = { M = 33, N = 65, K = 17 }
use = "verify"
[[problem.variant.shape]]
name = "small"
dims = { M = 8, N = 66, K = 8 }
use = "sanitize"
[problem.variant.tolerance]
f16 = 1e-3
`

// On gives each backend the problem that it has, and its implementations.
func TestVariant(t *testing.T) {
	d := mustLoad(t, folder(base+cuda+variant))
	host, gpu := d.On("cpu"), d.On("cuda")
	if diff := cmp.Diff(d.Problem.Shapes, host.Problem.Shapes); diff != "" || len(host.Implementations) != 1 || host.Problem.Buffers[0].DType != kernels.F32 {
		t.Errorf("on the CPU: %d implementations, %+v", len(host.Implementations), host.Problem)
	}
	p := &gpu.Problem
	if len(gpu.Implementations) != 1 || gpu.Implementations[0].Name != "blocks" || gpu.Hash != d.Hash {
		t.Errorf("on the GPU: %+v", gpu)
	}
	var types []kernels.DType
	for _, b := range p.Buffers {
		types = append(types, b.DType)
	}
	if diff := cmp.Diff([]kernels.DType{kernels.F16, kernels.F16, kernels.I8, kernels.F16}, types); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	large, err := p.Shape("large")
	if err != nil || len(p.Shapes) != 3 {
		t.Fatalf("shapes %v, %v", p.Shapes, err)
	}
	bytes, _ := p.Bytes(large)
	operations, _ := p.Operations(large)
	if bytes != 2*(512*256+256*512+512*512) || operations != 2*512*512*256 || p.Pipe != "tensor-f16" || p.Cache != kernels.Cold || d.Problem.Cache != kernels.Warm {
		t.Errorf("bytes %g, operations %g, pipe %s, cache %s", bytes, operations, p.Pipe, p.Cache)
	}
	if p.Tolerance[kernels.F16] != 1e-3 || p.Tolerance[kernels.F32] != 1e-5 || len(d.Problem.Tolerance) != 1 {
		t.Errorf("tolerance %v; of the problem %v", p.Tolerance, d.Problem.Tolerance)
	}
	geo, err := p.ReferenceGeometry(large)
	if want := (kernels.Geometry{Grid: [3]int64{128, 512, 1}, Block: [3]int64{4, 1, 1}}); err != nil || !reflect.DeepEqual(geo, want) {
		t.Errorf("the reference's geometry is %+v, %v", geo, err)
	}
	if _, err := mustLoad(t, folder(base)).Problem.ReferenceGeometry(large); err == nil || !strings.Contains(err.Error(), "[problem.reference.cuda]") {
		t.Errorf("without a reference for GPUs: %v", err)
	}
	if im := gpu.Implementations[0]; im.Problem().Pipe != "tensor-f16" {
		t.Errorf("the implementation's problem: %+v", im.Problem())
	}
}

func TestVariantErrors(t *testing.T) {
	whole := base + cuda + variant
	for _, c := range []struct{ from, to, want string }{
		{`use = "verify"` + "\n[[problem.variant.shape]]", `use = "tune"` + "\n[[problem.variant.shape]]", `no shape has use = "verify"`},
		{`grid = ["int(ceil(M/4))", "N"]`, `grid = ["M - 20"]`, `at shape wide: grid: "M - 20" gives -4, expected at least 1`},
		{`grid = ["int(ceil(M/4))", "N"]`, `grid = ["TILE"]`, `unknown name TILE`},
		{`"reference.cu"`, `"referense.cu"`, `did you mean`},
	} {
		if !strings.Contains(whole, c.from) {
			t.Fatalf("the definition has no %q", c.from)
		}
		_, err := kernels.Load(folder(strings.Replace(whole, c.from, c.to, 1)), "k")
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want ...%s...", c.to, err, c.want)
		}
	}
	twice := whole + strings.Replace(variant[strings.Index(variant, "[[problem.variant]]"):], "pipe", "#", 1)
	if _, err := kernels.Load(folder(twice), "k"); err == nil || !strings.Contains(err.Error(), "there is a variant for the cuda backend already") {
		t.Errorf("two variants: %v", err)
	}
}

// A constraint over dimensions says at which shapes a genome can run; those
// over parameters alone, and those of genes that do not exist, do not.
func TestSupports(t *testing.T) {
	text := strings.Replace(base+cuda, "[implementation.launch]", `[[implementation.constraint]]
expr = "K % TILE == 0"
why = "there is no tail"
[implementation.launch]`, 1)
	d := mustLoad(t, folder(text))
	im := d.Implementations[1]
	g, err := spaceOf(t, im).FromMap(map[string]any{"TILE": 8, "ROWS": 2, "THREADS": 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range d.Problem.Shapes {
		err := im.Supports(g, s, nil)
		if can := s.Dims["K"]%8 == 0; can != (err == nil) {
			t.Errorf("shape %s: %v", s.Name, err)
		} else if err != nil && err.Error() != "at shape odd it breaks the constraint K % TILE == 0 (there is no tail)" {
			t.Error(err)
		}
	}
	if err := im.Supports(g, d.Problem.Shapes[0], map[string]any{"device_max_shared_bytes": 16}); err != nil {
		t.Errorf("a constraint without dimensions counts: %v", err)
	}
	// One that only spares the search says nothing of what can be computed.
	sparing := mustLoad(t, folder(strings.Replace(text, "there is no tail\"\n", "there is no tail\"\nsearch = true\n", 1))).Implementations[1]
	if g, err = spaceOf(t, sparing).FromMap(map[string]any{"TILE": 8, "ROWS": 2, "THREADS": 1}); err != nil {
		t.Fatal(err)
	}
	for _, s := range d.Problem.Shapes {
		if err := sparing.Supports(g, s, nil); err != nil {
			t.Errorf("shape %s: %v", s.Name, err)
		}
	}
	if n := len(im.Limiting()) - len(sparing.Limiting()); n != 1 {
		t.Errorf("%d constraints fewer limit it, want 1", n)
	}
}

// The values of a baseline may depend on the shape.
func TestBaselineAt(t *testing.T) {
	const library = `library = "libcublas.so.12:cublasSgemm"`
	text := strings.Replace(base+cuda, library, `genome = { TILE = "N > 100 ? 8 : 4", ROWS = 2, THREADS = 1 }`, 1)
	d := mustLoad(t, folder(text))
	im := d.Implementations[1]
	for i, want := range []string{"TILE=4,ROWS=2,THREADS=1", "TILE=8,ROWS=2,THREADS=1"} {
		r, err := im.RenderBaseline(d.Problem.Shapes[i])
		if err != nil || r.Genome.String() != want {
			t.Errorf("shape %s: %s, %v; want %s", d.Problem.Shapes[i].Name, r.Genome, err, want)
		}
	}
	if _, err := im.RenderBaseline(d.Problem.Shapes[:2]...); err == nil || !strings.Contains(err.Error(), "it differs between the shapes 64 and wide") {
		t.Errorf("at two shapes: %v", err)
	}
	_, err := kernels.Load(folder(strings.Replace(text, "N > 100 ? 8 : 4", "N/16", 1)), "k")
	if err == nil || !strings.Contains(err.Error(), "at shape wide: N/16 gives 16, which is not a value of TILE") {
		t.Errorf("a value that the parameter does not have: %v", err)
	}
}

func renderTile(t *testing.T, im *kernels.Implementation, tile int) kernels.Rendered {
	t.Helper()
	g, err := spaceOf(t, im).FromMap(map[string]any{"TILE": tile, "ROWS": 2, "THREADS": 1})
	if err != nil {
		t.Fatal(err)
	}
	r, err := im.Render(g)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Requirements with a condition count where it holds.
func TestRequire(t *testing.T) {
	d := mustLoad(t, folder(base+cuda+`require = ['^FFMA', { pattern = '^HMMA', when = "TILE == 8" }]`+"\n"))
	im := d.Implementations[1]
	for tile, want := range map[int]string{4: "^FFMA", 8: "^FFMA ^HMMA"} {
		r := renderTile(t, im, tile)
		var got []string
		for _, re := range r.Require {
			got = append(got, re.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("TILE=%d requires %v, want %s", tile, got, want)
		}
	}
	for bad, want := range map[string]string{
		`require = [3]`:                                     "a requirement is an integer",
		`require = [{ when = "TILE==8" }]`:                  "pattern",
		`require = [{ pattern = '^H' }]`:                    "when",
		`require = [{ pattern = '^H', when = "TILLE==8" }]`: "TILLE",
	} {
		if _, err := kernels.Load(folder(base+cuda+bad+"\n"), "k"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Bounds on the profile with a condition count where it holds.
func TestBounds(t *testing.T) {
	const table = "[[implementation.profile]]\n"
	d := mustLoad(t, folder(base+cuda+table+"counter = \"tensor pipe active\"\nmin = 0.1\nwhen = \"TILE == 8\"\n"+
		table+"counter = \"shared memory bank conflicts\"\nmax = 0\n"))
	im := d.Implementations[1]
	for tile, want := range map[int]string{4: "[shared memory bank conflicts 0]", 8: "[tensor pipe active 0.1 shared memory bank conflicts 0]"} {
		r := renderTile(t, im, tile)
		var got []any
		for _, b := range r.Profile {
			got = append(got, b.Counter)
			for _, limit := range []*float64{b.Min, b.Max} {
				if limit != nil {
					got = append(got, *limit)
				}
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("TILE=%d is held to %v, want %s", tile, got, want)
		}
	}
	if bounds := d.Implementations[0].Profile; bounds != nil {
		t.Errorf("the other implementation is held to %v", bounds)
	}
	const list = "SM busy, tensor pipe active, DRAM throughput, L2 throughput, shared memory bank conflicts, achieved occupancy"
	first := strings.Count(base+cuda, "\n") + 1
	for bad, want := range map[string]string{
		"min = 1":                                      `0:3: [[implementation.profile]] lacks counter: add counter = "tensor pipe active"`,
		"counter = 3":                                  `1:11: counter is an integer, expected a string`,
		`counter = "tensor pipe activ"`:                `1:11: unknown counter "tensor pipe activ": did you mean tensor pipe active? there are ` + list,
		`counter = "power"`:                            `1:11: unknown counter "power": there are ` + list,
		`counter = "SM busy"`:                          `0:3: [[implementation.profile]] bounds nothing: add min, above 0, or max`,
		"counter = \"SM busy\"\nmin = 0":               `0:3: [[implementation.profile]] bounds nothing: add min, above 0, or max`,
		"counter = \"SM busy\"\nmin = \"1\"":           `2:7: min is a string, expected an integer or a float`,
		"counter = \"SM busy\"\nmin = -0.5":            `2:7: min must be a finite number, not below 0`,
		"counter = \"SM busy\"\nmax = inf":             `2:7: max must be a finite number, not below 0`,
		"counter = \"SM busy\"\nmin = 4\nmax = 3.5":    `2:7: min is 4, above max, which is 3.5`,
		"counter = \"SM busy\"\nmin = 1\nlimit = 2":    `3:1: [[implementation.profile]] has no key "limit": there are counter, min, max, when`,
		"counter = \"SM busy\"\nmin = 1\nwhen = \"M\"": `3:9: in the expression "M": unknown name M; known are ROWS, THREADS, TILE`,
	} {
		line, rest, _ := strings.Cut(want, ":")
		n, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		want = fmt.Sprintf("k/kernel.toml:%d:%s", first+n, rest)
		if _, err := kernels.Load(folder(base+cuda+table+bad+"\n"), "k"); err == nil || filepath.ToSlash(err.Error()) != want {
			t.Errorf("%s:\ngot  %v\nwant %s", bad, err, want)
		}
	}
}

// deviceHeader is the header for CUDA of a kernel with a workspace, and the parameters that it declares.
func deviceHeader(t *testing.T) (d *kernels.Definition, header, params string) {
	t.Helper()
	text := strings.Replace(base+cuda+variant, "shared =", "workspace = \"4*M\"\nshared =", 1)
	d = mustLoad(t, folder(text)).On("cuda")
	im := d.Implementations[0]
	geo, err := im.Geometry(mustGenome(t, im), d.Problem.Shapes[0], nil)
	if err != nil || geo.WorkspaceBytes != 4*512 {
		t.Errorf("workspace of %d bytes, %v", geo.WorkspaceBytes, err)
	}
	params = "int64_t M, int64_t N, int64_t K, const __half *A, const __half *B, const int8_t *mask, __half *C, float alpha, void *workspace"
	header = kernels.Header(&d.Problem, im)
	if !strings.Contains(header, "__global__ void product("+params+");") || !strings.Contains(header, "#include <cuda_fp16.h>") || strings.Contains(header, "bf16") {
		t.Errorf("header:\n%s", header)
	}
	return d, header, params
}

func TestDeviceHeaders(t *testing.T) { deviceHeader(t) }

// The headers for CUDA compile with nvcc, for a kernel with a workspace too, and a wrong signature
// does not.
func TestDeviceHeadersLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	nvcc := usualNVCC(t)
	d, header, params := deviceHeader(t)
	compile := func(name, source string) error {
		dir := t.TempDir()
		file := filepath.Join(dir, name+".cu")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), nvcc, "-arch=sm_80", "-cubin", "-o", filepath.Join(dir, "out"), file).CombinedOutput()
		if err != nil {
			t.Logf("%s", out)
		}
		return err
	}
	if err := compile("right", header+"extern \"C\" __global__ void __launch_bounds__(64) product("+strings.ReplaceAll(params, "*A", "*__restrict__ A")+") { C[0] = A[0]; }\n"); err != nil {
		t.Error(err)
	}
	if err := compile("wrong", header+"extern \"C\" __global__ void product("+strings.Replace(params, "float alpha", "double alpha", 1)+") {}\n"); err == nil {
		t.Error("a wrong signature compiles")
	}
	reference := kernels.DeviceReferenceHeader(&d.Problem)
	if err := compile("reference", reference+`extern "C" __global__ void reference(int64_t M, int64_t N, int64_t K, const double *A, const double *B, const double *mask, double *C, double alpha) { C[0] = A[0]; }`+"\n"); err != nil {
		t.Error(err)
	}
}
