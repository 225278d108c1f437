package library

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/kernels"
)

// A gpu says for which devices a variant is compiled.
type gpu struct {
	// Least is ten times the least compute capability that can run it, Exact that
	// it is the only one, and Capability that of the device it was tuned on.
	Least      int
	Exact      bool
	Capability int
	// Architectures are what it is compiled for, without "sm_": "80", "90a".
	Architectures []string
}

// newGPU reads the target of a variant, "sm_80" or "sm_90a", and its device.
func newGPU(v *variant) (gpu, error) {
	target := v.Rendered.Implementation.Target
	number, ok := strings.CutPrefix(target, "sm_")
	exact := strings.TrimRight(number, "af")
	least, err := strconv.Atoi(exact)
	if !ok || err != nil {
		return gpu{}, fmt.Errorf("the target %q is no architecture of CUDA", target)
	}
	g := gpu{Least: least, Exact: exact != number, Architectures: []string{number}}
	if !v.Tuned {
		return g, nil
	}
	text := v.Winner.Evidence.Description.Device.Facts["capability"]
	if g.Capability, err = strconv.Atoi(strings.Replace(text, ".", "", 1)); err != nil {
		return gpu{}, fmt.Errorf("its campaign recorded the compute capability %q of the device", text)
	}
	if !g.Exact && g.Capability > least {
		g.Architectures = append(g.Architectures, strconv.Itoa(g.Capability))
	}
	return g, nil
}

// cuda writes a library for GPUs.
func (x *export) cuda() error {
	for _, p := range x.Kernels {
		if p.DeviceReference == nil {
			return fmt.Errorf("kernel %s has no reference in CUDA, with which the library's test compares: add [problem.reference.cuda] with source, entry, grid and block, and tune it again", p.Kernel)
		}
		b, err := p.baseline()
		if err != nil {
			return fmt.Errorf("kernel %s: %w", p.Kernel, err)
		}
		if b != nil {
			p.Variants = append(p.Variants, b)
		}
		for _, v := range p.Variants {
			if v.gpu, err = newGPU(v); err != nil {
				return fmt.Errorf("kernel %s, candidate %s: %w", p.Kernel, v.Candidate, err)
			}
			if !v.Tuned && !v.Exact { // compiled for the devices of the others
				for _, other := range p.Variants {
					if a := strconv.Itoa(other.Capability); other.Capability > v.Least && !slices.Contains(v.Architectures, a) {
						v.Architectures = append(v.Architectures, a)
					}
				}
			}
			v.Flags = withStandard(v.Rendered.Flags)
			v.File = "src/kernels/" + v.Symbol + ".cu"
			x.files[v.File] = []byte(x.kernelCUDA(p, v, "evotune_"+v.Symbol))
		}
		x.files["test/reference_"+p.Name+".cu"] = []byte(x.referenceCUDA(p, p.ReferenceSymbol()))
	}
	if x.Embed {
		if err := x.embed(); err != nil {
			return err
		}
	}
	copied := map[string]string{
		"src/dispatch.h": "common/dispatch.h", "src/dispatch.c": "common/dispatch.c", "src/gpu.h": "cuda/gpu.h", "src/gpu.c": "cuda/gpu.c",
		"cmake/evotuneConfig.cmake.in": "cuda/evotuneConfig.cmake.in", "cmake/evotune.pc.in": "c/evotune.pc.in",
		"manifest.schema.json": "common/manifest.schema.json", "test/device.h": "cuda/device.h",
	}
	own := []string{"src/runtime.c", "test/device_runtime.c"}
	if x.Embed {
		own = []string{"src/driver.h", "src/driver.c", "src/libcuda.c", "test/device_driver.c"}
	}
	for _, name := range own {
		copied[name] = "cuda/" + filepath.Base(name)
	}
	for name, source := range copied {
		if err := x.copy(name, source); err != nil {
			return err
		}
	}
	for name, source := range map[string]string{
		"include/evotune.h": "cuda/evotune.h.tmpl", "src/kernels.c": "cuda/kernels.c.tmpl",
		"CMakeLists.txt": "cuda/CMakeLists.txt.tmpl", "test/check.c": "cuda/check.c.tmpl", "README.md": "cuda/README.md.tmpl",
	} {
		if err := x.fill(name, source, x); err != nil {
			return err
		}
	}
	if err := x.torch(); err != nil {
		return err
	}
	x.files["wisdom.txt"] = x.wisdom()
	return x.manifest()
}

// withStandard adds what the backend compiles with besides a candidate's flags.
func withStandard(flags []string) []string {
	list := []string{"-DNDEBUG"}
	if !slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(strings.TrimLeft(f, "-"), "std") }) {
		list = append(list, "-std=c++17")
	}
	return append(list, flags...)
}

// kernelCUDA is the file of one kernel, which is called entry there.
func (x *export) kernelCUDA(p *problem, v *variant, entry string) string {
	return x.about(p, v, entry) + apart(v.Rendered.Entry, entry, v.Rendered.SelfContained())
}

var systemInclude = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*<[^>]+>.*$`)

// apart calls the entry of a source by a name, and puts everything into a namespace, so
// that nothing is called as in another source of the library. What it includes comes
// before. NVRTC has no header of C; that of the kernel has what it needs.
func apart(entry, name, source string) string {
	includes := slices.DeleteFunc(systemInclude.FindAllString(source, -1), func(s string) bool { return strings.Contains(s, "<stdint.h>") })
	slices.Sort(includes)
	includes = append(includes, "#ifndef __CUDACC_RTC__\n#include <stdint.h>\n#endif")
	return fmt.Sprintf("%s\n#define %s %s\nnamespace %[3]s_ {\n%s\n}\n", strings.Join(slices.Compact(includes), "\n"), entry, name, strings.TrimRight(source, "\n"))
}

// referenceCUDA is the file of a reference on the device.
func (x *export) referenceCUDA(p *problem, entry string) string {
	r := p.DeviceReference
	return fmt.Sprintf("/* %s: the reference, in double precision.\n * Generated by %s. */\n%s",
		p.Kernel, x.By, apart(r.Entry, entry, kernels.DeviceReferenceHeader(p.Problem)+"\n"+strings.TrimLeft(r.Text, "\n")))
}

// embed compiles everything and writes the machine code as C, and as files for
// libraries that were built before.
func (x *export) embed() error {
	nvcc, err := findNVCC(x.NVCC)
	if err != nil {
		return err
	}
	version, err := exec.Command(nvcc, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s does not run: %w", nvcc, err)
	}
	lines := strings.Split(strings.TrimSpace(string(version)), "\n")
	x.compiler = "nvcc: " + strings.TrimSpace(lines[max(0, slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "release") }))])
	type job struct {
		what, source string
		flags, archs []string
		write        func(code []byte)
	}
	var jobs []job
	for _, p := range x.Kernels {
		for _, v := range p.Variants {
			jobs = append(jobs, job{"candidate " + v.Candidate + " of " + p.Kernel, x.kernelCUDA(p, v, "evotune_kernel"), v.Flags, v.Architectures, func(code []byte) {
				x.files["src/kernels/"+v.Symbol+".c"] = imageC(v.Symbol, code)
				if v.Tuned {
					x.files[v.Candidate+".cubin"] = code
				}
			}})
		}
		flags := []string{"-fmad=false", "-std=c++17"}
		jobs = append(jobs, job{"the reference of " + p.Kernel, x.referenceCUDA(p, "evotune_kernel"), flags, []string{strconv.Itoa(x.Least())}, func(code []byte) {
			x.files["test/reference_"+p.Name+".c"] = imageC("reference_"+p.Name, code)
		}})
	}
	codes := make([][]byte, len(jobs))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, j := range jobs {
		all.Go(func() error {
			var err error
			if codes[i], err = compileCUDA(nvcc, j.source, j.flags, j.archs); err != nil {
				return fmt.Errorf("%s: %w", j.what, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for i, j := range jobs {
		j.write(codes[i])
	}
	return nil
}

// findNVCC gives the compiler that was named, or else the one on the PATH or in the
// usual folders.
func findNVCC(path string) (string, error) {
	if path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%s cannot be run: %w: name another nvcc", path, err)
		}
		return found, nil
	}
	candidates := []string{"nvcc"}
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if d := os.Getenv(v); d != "" {
			candidates = append(candidates, filepath.Join(d, "bin", "nvcc"))
		}
	}
	candidates = append(candidates, "/usr/local/cuda/bin/nvcc")
	versions, _ := filepath.Glob("/usr/local/cuda-*/bin/nvcc")
	slices.Reverse(versions)
	for _, c := range append(candidates, versions...) {
		if found, err := exec.LookPath(c); err == nil {
			return found, nil
		}
	}
	return "", errors.New("nvcc was not found, which compiles kernels that are to be embedded: install NVIDIA's CUDA toolkit, name its nvcc, or export sources")
}

// compileCUDA makes a fat binary: machine code for every architecture, and for the
// last of the portable ones intermediate code, which later devices run.
func compileCUDA(nvcc, source string, flags, architectures []string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "evotune-export-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "kernel.cu"), []byte(source), 0o644); err != nil {
		return nil, err
	}
	args := []string{"-fatbin", "-o", "kernel.fatbin"}
	for _, a := range architectures {
		args = append(args, "-gencode=arch=compute_"+a+",code=sm_"+a)
	}
	if last := architectures[len(architectures)-1]; strings.TrimRight(last, "af") == last {
		args = append(args, "-gencode=arch=compute_"+last+",code=compute_"+last)
	}
	cmd := exec.Command(nvcc, slices.Concat(args, flags, []string{"kernel.cu"})...)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", nvcc, err, words.FirstLine(string(text)))
	}
	return os.ReadFile(filepath.Join(dir, "kernel.fatbin"))
}

// imageC writes machine code as an array of C.
func imageC(symbol string, code []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* Machine code, a fat binary for CUDA's driver. */\nextern const unsigned char evotune_image_%[1]s[];\n"+
		"__attribute__((aligned(64))) const unsigned char evotune_image_%[1]s[] = {\n", symbol)
	for line := range slices.Chunk(code, 32) {
		for _, c := range line {
			b.WriteString(strconv.Itoa(int(c)))
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("};\n")
	return b.Bytes()
}

// Least is the least capability of any variant's target.
func (x *export) Least() int {
	least := x.Kernels[0].Variants[0].Least
	for _, p := range x.Kernels {
		for _, v := range p.Variants {
			least = min(least, v.Least)
		}
	}
	return least
}

// The texts below are parts of C.

// geometryC translates a launch: grid, block, shared bytes, workspace bytes.
func geometryC(l *kernels.Launch, t *translator) ([]string, error) {
	list := []string{"1", "1", "1", "1", "1", "1", "0", "0"}
	sources := map[int]string{6: l.Shared, 7: l.Workspace}
	for i, e := range l.Grid {
		sources[i] = e
	}
	for i, e := range l.Block {
		sources[3+i] = e
	}
	for i, e := range sources {
		if e == "" {
			continue
		}
		text, err := t.integer(e)
		if err != nil {
			return nil, fmt.Errorf("the launch: %w", err)
		}
		list[i] = text
	}
	return list, nil
}

// Geometry is the launch of the variant over the dimensions.
func (v *variant) Geometry() ([]string, error) {
	return geometryC(v.Rendered.Implementation.Launch, &translator{dims: v.order, constants: v.Rendered.Genome.Map()})
}

// launchAt is the same at one shape, as wisdom files have it; "-" for kernels that
// have no launch.
func (v *variant) launchAt(s kernels.Shape) (string, error) {
	im := v.Rendered.Implementation
	if im.Launch == nil {
		return "-", nil
	}
	g, err := im.Geometry(v.Rendered.Genome, s)
	if err != nil {
		return "", err
	}
	var list []string
	for _, n := range slices.Concat(g.Grid[:], g.Block[:], []int64{g.SharedBytes, g.WorkspaceBytes}) {
		list = append(list, strconv.FormatInt(n, 10))
	}
	return strings.Join(list, ","), nil
}

// ReferenceGeometry is the launch of the reference.
func (p *problem) ReferenceGeometry() ([]string, error) {
	return geometryC(&p.DeviceReference.Launch, &translator{dims: p.Dims})
}

// ScalarValues declares the scalars of the kernels, ReferenceScalars those of the
// reference.
func (p *problem) ScalarValues() ([]string, error) {
	return p.scalars(func(s kernels.Scalar) string { return s.DType.C() })
}

// ReferenceScalars declares all of them as double.
func (p *problem) ReferenceScalars() ([]string, error) {
	return p.scalars(func(kernels.Scalar) string { return "double" })
}

func (p *problem) scalars(ctype func(kernels.Scalar) string) ([]string, error) {
	var list []string
	for _, s := range p.Scalars {
		value, err := p.scalar(s)
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf("%[1]s %[2]s = (%[1]s)(%[3]s)", ctype(s), s.Name, value))
	}
	return list, nil
}

// DeviceShapes are the shapes for the check: those that some variant was tuned for,
// and those that nothing is tuned for.
func (p *problem) DeviceShapes() []shape {
	list := p.Tuned()
	for _, s := range p.Shapes {
		if s.Use != kernels.Tune {
			list = append(list, newShape(s, p.Dims))
		}
	}
	return list
}

// Overwritten says that the kernel writes all of it and reads nothing.
func (b buffer) Overwritten() bool { return b.Role == kernels.Out }
