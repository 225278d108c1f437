package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/kernels"
)

// sequence is a launch with all that launches may have.
func sequence() kernels.Geometry {
	tile := kernels.MapGeometry{
		Buffer: 1, DType: kernels.BF16, Dims: []int64{64, 32}, Strides: []int64{128}, Box: []int64{64, 8},
		Swizzle: 128, Promotion: 256, NaN: true,
	}
	return kernels.Geometry{
		Grid: [3]int64{4, 2, 1}, Block: [3]int64{128, 1, 1}, SharedBytes: 1024, WorkspaceBytes: 4096,
		Entry: "split", Cluster: [3]int64{2, 1, 1}, Cooperative: true, Maps: []kernels.MapGeometry{tile},
		Then: []kernels.Geometry{{
			Grid: [3]int64{3, 1, 1}, Block: [3]int64{64, 1, 1}, SharedBytes: 64, WorkspaceBytes: 4096, Entry: "combine", Dependent: true,
			Maps: []kernels.MapGeometry{tile},
		}},
	}
}

func TestGeometryIsTranslated(t *testing.T) {
	want := wire.Geometry{
		Grid: [3]int64{4, 2, 1}, Block: [3]int64{128, 1, 1}, Shared: 1024, Workspace: 4096,
		Cluster: [3]int64{2, 1, 1}, Cooperative: true,
		Maps: []wire.TensorMap{{
			Buffer: 1, DType: "bf16", Dims: []int64{64, 32}, Strides: []int64{128}, Box: []int64{64, 8}, Swizzle: 128, Promotion: 256, NaN: true,
		}},
		// The workspace and the maps are the first's.
		Then: []wire.Geometry{{Grid: [3]int64{3, 1, 1}, Block: [3]int64{64, 1, 1}, Shared: 64, Entry: "combine", Dependent: true}},
	}
	if diff := cmp.Diff(want, geometry(sequence(), "split")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A field that is added and not translated changes nothing here.
	for _, of := range []func(*kernels.Geometry) any{
		func(g *kernels.Geometry) any { return g },
		func(g *kernels.Geometry) any { return &g.Maps[0] },
		func(g *kernels.Geometry) any { return &g.Then[0] },
	} {
		base := sequence()
		v := reflect.ValueOf(of(&base)).Elem()
		for i := range v.NumField() {
			name := v.Type().String() + "." + v.Type().Field(i).Name
			changed := sequence()
			f := reflect.ValueOf(of(&changed)).Elem().Field(i)
			if f.IsZero() { // give it something, else take it away
				switch f.Kind() {
				case reflect.Bool:
					f.SetBool(true)
				case reflect.Array:
					f.Index(0).SetInt(2)
				case reflect.Slice:
					f.Set(reflect.MakeSlice(f.Type(), 1, 1))
				default:
					t.Fatalf("%s: what would be another value?", name)
				}
			} else {
				f.SetZero()
			}
			inherited := v.Addr().Interface() == any(&base.Then[0]) && (strings.HasSuffix(name, ".WorkspaceBytes") || strings.HasSuffix(name, ".Maps"))
			if same := cmp.Equal(geometry(base, "main"), geometry(changed, "main")); same != inherited {
				t.Errorf("%s: the worker is told the same: %v, want %v", name, same, inherited)
			}
		}
	}
}

// What names the launch at every shape is what it was where there is nothing new in it:
// it is part of a candidate's identity. What is new is in it, too.
func TestLaunchText(t *testing.T) {
	h := newLab(nil, Options{})
	shapes := []*shapeData{{shape: kernels.Shape{Name: "tuned"}}, {shape: kernels.Shape{Name: "odd"}}, {shape: kernels.Shape{Name: "tail"}}}
	h.problem.Tune, h.problem.Verify, h.problem.Sanitize = shapes[:1], shapes[1:2], shapes[2]
	plain := geometry(kernels.Geometry{Grid: [3]int64{64, 1, 1}, Block: [3]int64{32, 4, 1}, SharedBytes: 2048, WorkspaceBytes: 12, Entry: "fake"}, "fake")
	c := &candidate{
		src:         kernels.Rendered{Entry: "fake"},
		geometry:    map[*shapeData]wire.Geometry{shapes[0]: plain, shapes[1]: plain},
		unsupported: map[*shapeData]string{shapes[2]: "too small"},
	}
	const want = "tuned: {[64 1 1] [32 4 1] 2048 12}\nodd: {[64 1 1] [32 4 1] 2048 12}\ntail: none\n"
	if got := h.launchText(c); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if l := c.load(); l.Entry != "fake" || len(l.Also) != 0 {
		t.Errorf("%+v is loaded", l)
	}
	c.geometry[shapes[1]] = geometry(sequence(), "fake")
	text := h.launchText(c)
	for _, part := range []string{
		"odd: {[4 2 1] [128 1 1] 1024 4096} {", `"entry":"split"`, `"cluster":[2,1,1]`, `"cooperative":true`, `"dtype":"bf16"`, `"strides":[128]`,
		`"then":[{"grid":[3,1,1]`, `"shared":64`, `"entry":"combine"`, `"dependent":true`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
	if l := c.load(); l.Entry != "fake" || !slices.Equal(l.Also, []string{"combine", "split"}) {
		t.Errorf("%+v is loaded", l)
	}
	delete(c.geometry, shapes[0])
	if l := c.load(); l.Entry != "combine" || !slices.Equal(l.Also, []string{"split"}) {
		t.Errorf("%+v is loaded, and the entry is never launched", l)
	}
}

// All kernels of a sequence are looked at: bounds are those of each, and one that is not
// in the binary is missed.
func TestInspectSequence(t *testing.T) {
	log := "ptxas info    : Compiling entry function 'split' for 'sm_90'\nptxas info    : Function properties for split\n" +
		"    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem\n" +
		"ptxas info    : Compiling entry function 'combine' for 'sm_90'\nptxas info    : Function properties for combine\n" +
		"    16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\nptxas info    : Used 168 registers, used 3 barriers, 1024 bytes smem\n"
	h := newLab(nil, Options{CompileWorkers: 1})
	h.gpus = []*gpu{{device: wire.Device{ThreadsSM: 2048, RegistersSM: 65536, SharedOptin: 227 << 10}}}
	d := &shapeData{shape: kernels.Shape{Name: "tuned"}}
	h.problem.Tune = []*shapeData{d}
	c := &candidate{
		src: kernels.Rendered{Entry: "split"}, out: compiled{Cubin: fakeCubin("code", []string{"split", "combine"}), Log: log},
		geometry: map[*shapeData]wire.Geometry{d: geometry(sequence(), "split")},
	}
	seen, err := h.inspect(t.Context(), c, []*regexp.Regexp{regexp.MustCompile("HGMMA")})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range seen.Measures {
		got[m.Check] = fmt.Sprint(m.Value, " ", m.Detail)
	}
	for check, want := range map[string]string{
		"registers": "168 the most of 2 kernels", "stack frame": "16 combine", "spill stores": "4 ", "static shared memory": "2048 the most of 2 kernels",
		"barriers": "3 the most of 2 kernels", "theoretical occupancy": "0.1875 kernel combine at shape tuned, bound by registers",
	} {
		if got[check] != want {
			t.Errorf("%s: %q, want %q", check, got[check], want)
		}
	}
	c.out.Cubin = fakeCubin("code", []string{"split"})
	if seen, err := h.inspect(t.Context(), c, nil); err != nil || seen.Refused != "the binary has no kernel combine: it has split" {
		t.Errorf("%+v, %v: a kernel that is not there is not missed", seen, err)
	}
	if seen.NotCounted == "" || slices.ContainsFunc(seen.Measures, func(m evaluator.Measure) bool { return m.Check == "instructions" }) {
		t.Errorf("%+v: instructions were counted without a disassembler", seen)
	}
}

// What a candidate's launch has reaches the worker in comparisons, under tools and while
// something is timed, and its kernels are loaded.
func TestSequenceReachesTheWorker(t *testing.T) {
	t.Parallel()
	h, _ := openFake(t, fakeOptions(t))
	a := build(t, h, "nothing", 60)
	c, err := labs.Handle[*candidate](a)
	if err != nil {
		t.Fatal(err)
	}
	want := geometry(sequence(), "fake")
	want.Entry = ""
	for d := range c.geometry {
		c.geometry[d] = want
	}
	parity := func() error {
		s, err := h.Open(t.Context(), evaluator.ForParity, a)
		if err != nil {
			return err
		}
		defer s.Close() //nolint:errcheck // nothing is kept
		_, err = s.Compare(t.Context(), evaluator.CompareRequest{Shape: h.Plan.Sanitize})
		return err
	}
	var own *evaluator.Fault
	if err := parity(); !errors.As(err, &own) {
		t.Errorf("a kernel that the binary does not have is launched: %v", err)
	}
	if err := os.WriteFile(c.path, fakeCubin("// do: nothing\n", c.kernels()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := parity(); err != nil {
		t.Fatal(err)
	}
	if f, err := h.Launch(t.Context(), a, memcheck, h.Plan.Sanitize); err != nil || f.Found != "" {
		t.Fatalf("%+v %v", f, err)
	}
	s, err := h.Open(t.Context(), evaluator.ForTiming, a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sample(t, s, h, 2, true); err != nil {
		t.Error(err)
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, kind := range []wire.Kind{wire.Parity, wire.Launch, wire.Time} {
		got, err := os.ReadFile(filepath.Join(stateOf(h.options), fmt.Sprintf("launched-%s-%s", kind, c.name)))
		if err != nil || string(got) != want.String() {
			t.Errorf("%s: %v\n%s, want\n%s", kind, err, got, want)
		}
	}
}

// sequenceKernel is the fake kernel as two kernels with all that launches may have.
func sequenceKernel(t *testing.T) *kernels.Definition {
	t.Helper()
	text := fakeKernel
	replace := func(old, with string) {
		t.Helper()
		if strings.Count(text, old) != 1 {
			t.Fatalf("the fake kernel has %q %d times", old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, with, 1)
	}
	replace(`target = "sm_80"`, `target = "sm_90"`)
	replace("[implementation.launch]\ngrid = [\"ceil(N/BLOCK)\"]\nblock = [\"BLOCK\"]\n", `
[[implementation.tensor_map]]
name = "tiles"
buffer = "x"
dims = ["N"]
box = ["BLOCK"]
promotion = "128"

[[implementation.launch]]
grid = ["2*ceil(N/BLOCK)"]
block = ["BLOCK"]
workspace = "4*N"
cluster = ["2"]
cooperative = "BLOCK == 64"

[[implementation.launch]]
entry = "combine"
grid = ["device_cores"]
block = ["32"]
shared = "512"
dependent = "true"
`)
	return fakeFrom(t, text, "y[i] = 2 * x[i]", "const double *x", "extern \"C\" __global__ void combine(int64_t N, const float *x, float *y) {}\n")
}

// What every genome needs of the driver is said before anything is compiled; what only some
// need is not.
func TestDriverOfADefinition(t *testing.T) {
	b, err := New(fakeOptions(t, "EVOTUNE_FAKE_DRIVER=12020"))
	if err != nil {
		t.Fatal(err)
	}
	const want = ": update it to one of CUDA 12.3 or later"
	h, err := b.Open(t.Context(), planOf(sequenceKernel(t)))
	if err == nil || !strings.HasSuffix(err.Error(), " has dependent launches, and the driver is of CUDA 12.2"+want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("an old driver: %v", err)
	}
	if err == nil {
		_ = h.Close()
	}
	im := func(change func(*kernels.Implementation)) *kernels.Implementation {
		im := &kernels.Implementation{Name: "im", Launch: &kernels.Launch{Cluster: []string{"CLUSTER"}, Cooperative: "SPLIT > 1", Then: []*kernels.Launch{{Dependent: "SPLIT > 1"}}}}
		change(im)
		return im
	}
	for _, c := range []struct {
		since  int
		change func(*kernels.Implementation)
	}{
		{0, func(*kernels.Implementation) {}},
		{0, func(im *kernels.Implementation) { im.Launch = nil }},
		{0, func(im *kernels.Implementation) { im.Launch.Cluster = []string{"1", "1"} }},
		{11080, func(im *kernels.Implementation) { im.Launch.Cluster = []string{"1", "2"} }},
		{11080, func(im *kernels.Implementation) { im.Launch.Then[0].Cooperative = "true" }},
		{12000, func(im *kernels.Implementation) { im.TensorMaps = make([]kernels.TensorMap, 1) }},
		{12030, func(im *kernels.Implementation) { im.Launch.Then[0].Dependent = "true" }},
	} {
		list := []*kernels.Implementation{im(c.change)}
		if err := checkDriver(list, c.since); err != nil {
			t.Errorf("%d is refused: %v", c.since, err)
		}
		if c.since == 0 {
			continue
		}
		if err := checkDriver(list, c.since-10); err == nil {
			t.Errorf("%d is not refused", c.since-10)
		}
		if err := checkDriver(append(list, im(func(*kernels.Implementation) {})), c.since-10); err != nil {
			t.Errorf("another implementation could do without: %v", err)
		}
	}
}

// What a definition says of launches reaches the worker.
func TestSequenceOfADefinition(t *testing.T) {
	t.Parallel()
	o := fakeOptions(t)
	_, ev := openFakePlan(t, o, planOf(sequenceKernel(t)))
	if r := evaluate(t, ev, fakeGenome(t, "nothing", 3)); r.Verdict != evaluator.Correct {
		t.Fatalf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
	const want = `{[2 1 1] [64 1 1] 0 256} {"grid":[2,1,1],"block":[64,1,1],"workspace":256,"cluster":[2,1,1],"cooperative":true,` +
		`"maps":[{"buffer":0,"dtype":"f32","dims":[64],"box":[64],"promotion":128}],` +
		`"then":[{"grid":[4,1,1],"block":[32,1,1],"shared":512,"entry":"combine","dependent":true}]}`
	for _, who := range []string{"candidate-*", "baseline-0"} {
		files, err := filepath.Glob(filepath.Join(stateOf(o), "launched-launch-"+who)) // at the sanitize shape
		if err != nil || len(files) == 0 {
			t.Errorf("%s was not launched as a sequence: %v", who, err)
		}
		for _, f := range files {
			if got, err := os.ReadFile(f); err != nil || string(got) != want {
				t.Errorf("%s: %v\n%s, want\n%s", who, err, got, want)
			}
		}
	}
}

// What a definition says of its outputs reaches the worker, and what that saw the evidence.
func TestOutputsOfADefinition(t *testing.T) {
	t.Parallel()
	const y = "name = \"y\"\ndtype = \"f32\"\nrole = \"out\"\nshape = [\"N\"]\n"
	if strings.Count(fakeKernel, y) != 1 {
		t.Fatal("the fake kernel has another output")
	}
	d := fakeFrom(t, strings.Replace(fakeKernel, y, y+"repeat = 4e-7\nunwritten = \"nan\"\ntolerance = 2e-5\n", 1), "y[i] = 2 * x[i]", "const double *x")
	h, ev := openFakePlan(t, fakeOptions(t), planOf(d))
	want := wire.Buffer{Name: "y", DType: "f32", Role: "out", Tolerance: 2e-5, Units: 1.5 * 0x1p-23, Repeat: 4e-7, UnwrittenNaN: true}
	if diff := cmp.Diff(want, h.problem.open.Buffers[1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r := evaluate(t, ev, fakeGenome(t, "nothing", 3))
	twice, once := 0, 0 // launched
	for _, step := range r.Steps {
		for _, e := range step.Evidence {
			switch {
			case !strings.HasPrefix(e.Check, "parity "):
			case !strings.Contains(e.Check, " seed "):
				if once++; strings.Contains(e.Detail, "reproducible") {
					t.Errorf("launched once: %+v", e)
				}
			case e.Outcome == evaluator.Passed:
				if twice++; e.Detail != "reproducible to 1e-07 of the RMS from the first launch, as declared" {
					t.Errorf("launched twice: %+v", e)
				}
			}
		}
	}
	if r.Verdict != evaluator.Correct || once == 0 || twice == 0 {
		t.Errorf("%s at %s: %s; %d comparisons of one launch, %d of two", r.Verdict, r.Stage, r.Reason, once, twice)
	}
	if r = evaluate(t, ev, fakeGenome(t, "parity=different", 3)); !strings.Contains(r.Reason, "not the same answer twice: 2 elements differ between launches on the same inputs; where they need not be the same they are up to 1e-07 of the RMS from the first") {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	bare := *d
	bare.Problem.DeviceReference = nil
	if _, err := newProblem(planOf(&bare)); !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), "output y may stay unwritten in part") {
		t.Errorf("without a reference on the device: %v", err)
	}
	for does, want := range map[string]error{"skips": evaluator.ErrUnwritten, "writes": evaluator.ErrBaseline} {
		b, err := New(fakeOptions(t, "EVOTUNE_FAKE_BASELINE="+does))
		if err != nil {
			t.Fatal(err)
		}
		h, err := b.open(t.Context(), planOf(d))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := evaluator.NewOrdeal(t.Context(), h, planOf(d)); !errors.Is(err, want) {
			t.Errorf("the baseline %s what it should not: %v", does, err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What the baseline leaves is looked at again on contents of a race, which are others than
// parity's.
func TestBaselineWritesWhileTimed(t *testing.T) {
	t.Parallel()
	_, ev := openFake(t, fakeOptions(t, "EVOTUNE_FAKE_BASELINE=writes later"))
	const want = "the baseline at shape tuned: it writes 3 of the 8 elements of output y that the reference leaves NaN"
	if r := evaluate(t, ev, fakeGenome(t, "nothing", 3)); r.Verdict != evaluator.Infrastructure || !strings.Contains(r.Reason, want) {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
}

// stateOf is where the fake worker leaves what it saw.
func stateOf(o Options) string {
	for _, e := range o.workerEnv {
		if _, path, ok := strings.Cut(e, "EVOTUNE_FAKE_STATE="); ok {
			return path
		}
	}
	return ""
}

// The driver's word of a fault has the worker's reason with it.
func TestFaultText(t *testing.T) {
	f := wire.Fault{Call: "cuLaunchKernel", Code: 1, Name: "CUDA_ERROR_INVALID_VALUE"}
	if got := faultText(&f); got != "cuLaunchKernel failed: invalid value (CUDA_ERROR_INVALID_VALUE, 1)" {
		t.Error(got)
	}
	f.Why = "a cluster of 16 blocks"
	if got := faultText(&f); got != "cuLaunchKernel failed: invalid value (CUDA_ERROR_INVALID_VALUE, 1): a cluster of 16 blocks" {
		t.Error(got)
	}
}

// A workspace that no memory holds is the candidate's: nothing is launched.
func TestWorkspaceTooLarge(t *testing.T) {
	text := strings.Replace(fakeKernel, "block = [\"BLOCK\"]\n", "block = [\"BLOCK\"]\nworkspace = \"SALT*1073741824\"\n", 1)
	h := newLab(&labs.Base{Plan: planOf(fakeFrom(t, text, "y[i] = 2 * x[i]", "const double *x"))}, Options{})
	h.gpus = []*gpu{{device: wire.Device{MemoryBytes: 8 << 30}}}
	var err error
	if h.problem, err = newProblem(h.Plan); err != nil {
		t.Fatal(err)
	}
	im := h.Plan.Implementations[0]
	space, err := h.Plan.Definition.Space(h.Plan.Implementations, h.Plan.Tune, nil)
	if err != nil {
		t.Fatal(err)
	}
	for salt, want := range map[int]string{
		0: "", // where the memory is not known
		8: "",
		9: "shape tuned: a workspace of 9663676416 bytes, and the GPU has 8589934592 bytes of memory: use a smaller one",
	} {
		h.gpus[0].device.MemoryBytes = 8 << 30
		if salt == 0 {
			h.gpus[0].device.MemoryBytes, salt = 0, 9
		}
		g, err := space.FromMap(map[string]any{"DO": "nothing", "SALT": salt, "BLOCK": 128})
		if err != nil {
			t.Fatal(err)
		}
		src, err := im.Render(g)
		if err != nil {
			t.Fatal(err)
		}
		c := &candidate{src: src, geometry: map[*shapeData]wire.Geometry{}, unsupported: map[*shapeData]string{}}
		if got := h.geometries(c, false); got != want {
			t.Errorf("%d GiB: %q", salt, got)
		}
	}
}
