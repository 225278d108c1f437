package cuda

import (
	"fmt"
	"math/rand"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// A cell of the matrix of templates is a compiler and a device that it compiles for.
type cell struct {
	compiler   string // "nvcc" or "nvrtc"
	newer      bool   // the first that knows sm_90a, and otherwise the one that evotune finds
	capability int
	samples    int // random genomes of each implementation, besides its baseline
}

func (c cell) String() string {
	age := map[bool]string{true: "newer ", false: ""}[c.newer]
	return fmt.Sprintf("%s%s for sm_%d", age, c.compiler, c.capability)
}

// TestTemplatesLong compiles what every built-in kernel for GPUs renders, as a campaign does: by
// the older nvcc for the oldest devices, and by the newer NVRTC for Hopper, with delays too.
// What fails in another cell of the matrix fails in one of these, but for rare cases.
func TestTemplatesLong(t *testing.T) {
	longtest.Long(t, "it compiles every built-in kernel for GPUs")
	compiled := compileTemplates(t, cell{"nvcc", false, 80, 1}, cell{"nvrtc", true, 90, 1})
	for _, d := range cudaKernels(t) {
		for _, im := range d.Implementations {
			if !compiled[d.Name+" "+im.Name] {
				t.Errorf("%s, %s: no cell has it", d.Name, im.Name)
			}
		}
	}
}

// TestTemplatesNightly compiles them in the other cells, and more genomes.
func TestTemplatesNightly(t *testing.T) {
	longtest.Nightly(t, "cuda", "it compiles every built-in kernel for GPUs in all ways")
	compileTemplates(t,
		cell{"nvrtc", false, 80, 1}, cell{"nvcc", true, 80, 1}, cell{"nvrtc", true, 80, 1},
		cell{"nvcc", false, 90, 1}, cell{"nvrtc", false, 90, 1}, cell{"nvcc", true, 90, 2}, cell{"nvrtc", true, 90, 5})
}

// cudaKernels are the built-in kernels for GPUs.
func cudaKernels(t *testing.T) (list []*kernels.Definition) {
	t.Helper()
	catalogue, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range catalogue.Names() {
		d, err := catalogue.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if d = d.On("cuda"); len(d.Implementations) > 0 {
			list = append(list, d)
		}
	}
	return list
}

// compileTemplates gives the implementations that some cell has. What was compiled before, by another test
// or in an earlier run, comes from the tests' cache.
func compileTemplates(t *testing.T, cells ...cell) map[string]bool {
	t.Helper()
	kept, err := cache.New(filepath.Join(longtest.Cache(t), "cuda"), 4<<30)
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, c := range cells {
		t.Run(c.String(), func(t *testing.T) {
			var by hopperCompiler
			if c.newer {
				by = hopperCompilers(t)[c.compiler]
			} else {
				_, kit, found := compilers(t)
				by = hopperCompiler{found[c.compiler], kit}
			}
			if by.compiler == nil {
				t.Fatalf("%s is not here: scripts/setup-cuda-debian.sh installs it", c)
			}
			h := hopperLab(t, by.kit, by.compiler)
			if h.Cache = kept; c.capability < 90 {
				h.gpus[0].device.Capability = c.capability
			}
			if _, err := h.cubin(t.Context(), h.gpus[0].device, "planted", unit{source: plantedSource}); err != nil {
				t.Error(logOf(err))
			}
			for _, d := range cudaKernels(t) {
				d.Implementations = slices.DeleteFunc(d.Implementations, func(im *kernels.Implementation) bool {
					_, err := architecture(im.Target, c.capability, by.architectures())
					exact := strings.TrimRight(im.Target, "af") != im.Target // which needs the newer one
					return err != nil || exact && !c.newer
				})
				if len(d.Implementations) == 0 {
					continue
				}
				for _, im := range d.Implementations {
					has[d.Name+" "+im.Name] = true
				}
				t.Run(d.Name, func(t *testing.T) {
					t.Parallel()
					h := hopperLab(t, by.kit, by.compiler)
					h.Cache, h.compiling = kept, newQueue(1)
					g := h.gpus[0]
					if c.capability < 90 { // an A100
						g.device = wire.Device{Capability: 80, SMs: 108, ThreadsSM: 2048, RegistersSM: 65536, SharedOptin: 163 << 10, L2Bytes: 40 << 20, DriverString: "none"}
					}
					h.limits = limitsOf(g.device)
					compileKernel(t, h, d, c)
				})
			}
		})
	}
	return has
}

// compileKernel compiles a kernel's harness and reference, and of each implementation the baseline and
// random genomes at the last tuned shape, which is most often the largest.
func compileKernel(t *testing.T, h *lab, d *kernels.Definition, c cell) {
	shapes := d.Problem.ShapesFor(kernels.Tune)
	at := func(s kernels.Shape) {
		plan := evaluator.Plan{Definition: d, Implementations: d.Implementations, Tune: []kernels.Shape{s}, Sanitize: d.Problem.ShapesFor(kernels.Sanitize)[0]}
		var err error
		if h.problem, err = newProblem(plan); err != nil {
			t.Fatal(err)
		}
	}
	at(shapes[0])
	if h.problem.spec.DeviceReference == nil {
		t.Error("it has no reference in CUDA")
	}
	if err := h.buildHarness(t.Context(), h.gpus[0].device); err != nil {
		t.Error(err)
	}
	for _, im := range d.Implementations {
		samples := c.samples
		if b := im.Baseline(); b.Genome != nil && b.Implementation().Name == im.Name {
			src, err := im.RenderBaseline(shapes[0])
			if err != nil {
				t.Fatal(err)
			}
			compileCandidate(t, h, src, nil)
		} else {
			samples = max(samples, 1)
		}
		last := shapes[len(shapes)-1]
		at(last)
		space, err := d.Space([]*kernels.Implementation{im}, []kernels.Shape{last}, h.limits)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewSource(1))
		for range samples {
			src, err := im.Render(space.Random(rng))
			if err != nil {
				t.Errorf("%s: %v", im.Name, err)
				continue
			}
			compileCandidate(t, h, src, im.Blocking) // a campaign would refuse it, too
		}
		at(shapes[0])
	}
}

// compileCandidate compiles what was rendered, inspects it, and where candidates run with delays compiles
// it with them. A genome that a diagnostic of the compiler may refuse ends there.
func compileCandidate(t *testing.T, h *lab, src kernels.Rendered, blocking []*regexp.Regexp) {
	t.Helper()
	im := src.Implementation
	what := fmt.Sprintf("%s, %s", im.Name, src.Genome)
	cand, report, err := h.compile(t.Context(), src, false, false)
	if i := slices.IndexFunc(blocking, func(re *regexp.Regexp) bool { return re.MatchString(report.Log) }); err == nil && i >= 0 {
		t.Logf("%s: refused by %s", what, blocking[i])
		return
	}
	if err != nil || cand == nil {
		t.Errorf("%s: %v %+v", what, err, report)
		return
	}
	seen, err := h.inspect(t.Context(), cand, slices.Concat(src.Require, im.Binary.Forbid))
	if err != nil || seen.Refused != "" {
		t.Errorf("%s: %s %v", what, seen.Refused, err)
	}
	if h.gpus[0].device.Capability < asynchronous {
		return
	}
	built, err := h.buildDelayed(t.Context(), h.delayedUnit(cand), h.delayer, room{})
	if err != nil {
		t.Errorf("%s with delays: %v", what, logOf(err))
		return
	}
	counts, _, why, err := h.instructions(t.Context(), cand, false)
	if list := counts.hidden(built.Mnemonics); err != nil || why != "" || len(list) > 0 {
		t.Errorf("%s: its PTX does not show %s: %s %v", what, list, why, err)
	}
	if loss := "Potential Performance Loss"; strings.Contains(built.Log, loss) && !strings.Contains(cand.out.Log, loss) {
		t.Errorf("%s: with delays alone: %s", what, built.Log)
	}
}
