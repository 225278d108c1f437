package kernels_test

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

var (
	cudaSamples = flag.Int("cuda.samples", 1, "random genomes of every CUDA implementation that are compiled for every architecture, besides the baseline")
	cudaArchs   = flag.String("cuda.archs", "sm_80,sm_89,sm_90", "the architectures")
)

// TestCUDATemplatesCompile compiles every CUDA template, its reference too, for
// every architecture that its target allows, and reads what ptxas says of it.
func TestCUDATemplatesCompile(t *testing.T) {
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Skip("nvcc is not installed: no CUDA template was compiled (see scripts/setup-cuda-debian.sh)")
	}
	samples := *cudaSamples
	if !longtest.All(t) {
		samples = 0
	}
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	archs := strings.Split(*cudaArchs, ",")
	slots := make(chan struct{}, 2)
	var wg sync.WaitGroup
	defer wg.Wait()
	build := func(what, arch string, files map[string]string, flags []string, blocking []*regexp.Regexp) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			stats, log, err := ptxas(t, nvcc, arch, files, flags)
			for _, re := range blocking {
				if re.MatchString(log) {
					t.Logf("%s %s: rejected by %s", what, arch, re)
					return
				}
			}
			if err != nil {
				t.Errorf("%s for %s: %v\n%.2000s", what, arch, err, log)
				return
			}
			t.Logf("%s %s: %s", what, arch, stats)
		}()
	}
	for _, name := range cat.Names() {
		all, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		d := all.On("cuda")
		if len(d.Implementations) == 0 {
			continue
		}
		r := d.Problem.DeviceReference
		if r == nil {
			t.Errorf("%s has no reference in CUDA", name)
			continue
		}
		build(name+" reference", archs[0], map[string]string{"kernel.cu": kernels.DeviceReferenceHeader(&d.Problem) + r.Text}, nil, nil)
		for _, im := range d.Implementations {
			for _, c := range cudaCandidates(t, d, im, samples) {
				for _, arch := range archs {
					if !targets(t, nvcc, im.Target, arch) {
						continue
					}
					files := map[string]string{
						kernels.HeaderFile: c.Header,
						"kernel.cu":        "#include \"" + kernels.HeaderFile + "\"\n" + c.Source,
					}
					for file, text := range c.Files {
						files[file] = text
					}
					build(fmt.Sprintf("%s %s %s", name, im.Name, c.Genome), arch, files, c.Flags, im.Blocking)
				}
			}
		}
	}
}

// cudaCandidates renders the baseline, where it is a genome of im, and random
// genomes for the device limits of a large GPU.
func cudaCandidates(t *testing.T, d *kernels.Definition, im *kernels.Implementation, samples int) []kernels.Rendered {
	t.Helper()
	shape := d.Problem.ShapesFor(kernels.Tune)[0]
	var out []kernels.Rendered
	if b := im.Baseline(); b.Kind == kernels.BaselineGenome && b.Implementation().Name == im.Name {
		r, err := im.RenderBaseline(shape)
		if err != nil {
			t.Error(err)
		}
		out = append(out, r)
	} else if samples == 0 {
		samples = 1
	}
	limits := map[string]any{"device_max_shared_bytes": 227 << 10, "device_capability": 90, "device_cores": 132}
	space, err := d.Space([]*kernels.Implementation{im}, []kernels.Shape{shape}, limits)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(1))
	for range samples {
		g := space.Random(rng)
		r, err := im.Render(g)
		if err != nil {
			t.Errorf("%s %s: %v", d.Name, im.Name, err)
			continue
		}
		out = append(out, r)
	}
	return out
}

// targets says whether a target can be compiled for an architecture here.
func targets(t *testing.T, nvcc, target, arch string) bool {
	t.Helper()
	want, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(target, "sm_"), "af"))
	if err != nil {
		t.Fatalf("target %q is no architecture", target)
	}
	have, err := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	if err != nil {
		t.Fatalf("architecture %q", arch)
	}
	if strings.HasSuffix(target, "a") {
		list, err := exec.CommandContext(t.Context(), nvcc, "--list-gpu-code").Output()
		if err != nil || !strings.Contains(string(list), target) {
			t.Logf("this nvcc does not know %s: not compiled", target)
			return false
		}
		return have == want
	}
	return have >= want
}

var ptxasLine = regexp.MustCompile(`(?s)(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers`)

// ptxas compiles and gives what the assembler says of the entry.
func ptxas(t *testing.T, nvcc, arch string, files map[string]string, flags []string) (stats, log string, err error) {
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", "", err
		}
	}
	args := append([]string{"-cubin", "-arch=" + arch, "-lineinfo", "-DNDEBUG", "-Xptxas", "-v", "-o", filepath.Join(dir, "kernel.cubin")}, flags...)
	out, err := exec.CommandContext(t.Context(), nvcc, append(args, filepath.Join(dir, "kernel.cu"))...).CombinedOutput()
	if err != nil {
		return "", string(out), err
	}
	m := ptxasLine.FindStringSubmatch(string(out))
	if m == nil {
		return "", string(out), fmt.Errorf("ptxas tells nothing of the entry")
	}
	return fmt.Sprintf("%s registers, %s bytes of stack, %s+%s bytes spilled", m[4], m[1], m[2], m[3]), string(out), nil
}
