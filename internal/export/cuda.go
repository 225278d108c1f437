package export

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/internal/cublaslt"
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

// cuda adds what a library for GPUs has: its kernels, how they are launched, and a device
// for its check.
func (x *export) cuda() error {
	for _, p := range x.Kernels {
		for _, v := range p.Variants {
			var err error
			if code, ok := x.codes[v.Rendered.Hash]; ok {
				v.gpu = gpu{Least: code.Capability, Exact: true, Capability: code.Capability}
				v.File = "src/kernels/" + v.Symbol + ".py"
				x.files[v.File] = x.sourcePython(p, v)
				continue
			}
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
		if p.DeviceReference != nil { // else the library's test compares two calls
			x.files["test/reference_"+p.Name+".cu"] = []byte(x.referenceCUDA(p, p.ReferenceSymbol()))
		}
	}
	if x.Embed {
		if err := x.embed(); err != nil {
			return err
		}
	}
	from := map[string]string{"src/gpu.h": "cuda/gpu.h", "src/gpu.c": "cuda/gpu.c", "test/device.h": "cuda/device.h"}
	own := []string{"src/runtime.c", "test/device_runtime.c"}
	if x.Embed {
		own = []string{"src/driver.h", "src/driver.c", "src/libcuda.c", "test/device_driver.c"}
	}
	if x.Planned() {
		own = append(own, "src/launch.c")
		if !x.Embed {
			own = append(own, "src/driver.h", "src/libcuda.c")
		}
	}
	if x.Vendor() {
		own = append(own, "src/vendor.c")
		x.files["src/lt.h"] = []byte(cublaslt.Header())
	}
	for _, name := range own {
		from[name] = "cuda/" + path.Base(name)
	}
	return x.add(x, from)
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
	entries := v.entries(entry)
	about := x.about(p, v, entry)
	for _, e := range entries[1:] { // as the file calls them
		about = strings.ReplaceAll(about, "entry = "+strconv.Quote(e[0]), "entry = "+strconv.Quote(e[1]))
	}
	if v.Planned() { // kernels for Hopper share files, of which each uses a part
		about += "#ifdef __NVCC__\n#pragma nv_diag_suppress 177 /* a function that is not used */\n#endif\n"
	}
	return about + apart(entries, v.Rendered.SelfContained())
}

var systemInclude = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*<[^>]+>.*$`)

// apart calls the entries of a source by other names, and puts everything into a namespace, so
// that nothing is called as in another source of the library. What it includes comes
// before. NVRTC has no header of C; that of the kernel has what it needs.
func apart(entries [][2]string, source string) string {
	includes := slices.DeleteFunc(systemInclude.FindAllString(source, -1), func(s string) bool { return strings.Contains(s, "<stdint.h>") })
	slices.Sort(includes)
	includes = append(includes, "#ifndef __CUDACC_RTC__\n#include <stdint.h>\n#endif")
	defines := ""
	for _, e := range entries {
		defines += fmt.Sprintf("#define %s %s\n", e[0], e[1])
	}
	return fmt.Sprintf("%s\n%snamespace %s_ {\n%s\n}\n", strings.Join(slices.Compact(includes), "\n"), defines, entries[0][1], strings.TrimRight(source, "\n"))
}

// referenceCUDA is the file of a reference on the device.
func (x *export) referenceCUDA(p *problem, entry string) string {
	r := p.DeviceReference
	return fmt.Sprintf("/* %s: the reference, in double precision.\n * Generated by %s. */\n%s",
		p.Kernel, x.By, apart([][2]string{{r.Entry, entry}}, kernels.DeviceReferenceHeader(p.Problem)+"\n"+strings.TrimLeft(r.Text, "\n")))
}

// embed compiles everything and writes the machine code as C, and as files for
// libraries that were built before.
func (x *export) embed() error {
	type job struct {
		what, source string
		flags, archs []string
		write        func(code []byte)
	}
	var jobs []job
	for _, p := range x.Kernels {
		for _, v := range p.Variants {
			if code, ok := x.codes[v.Rendered.Hash]; ok {
				x.files["src/kernels/"+v.Symbol+".c"] = imageC(v.Symbol, code.Code)
				if v.Tuned {
					x.files[v.Candidate+".cubin"] = code.Code
				}
				x.compiler = code.Compiler
				continue
			}
			jobs = append(jobs, job{"candidate " + v.Candidate + " of " + p.Kernel, x.kernelCUDA(p, v, "evotune_kernel"), v.Flags, v.Architectures, func(code []byte) {
				x.files["src/kernels/"+v.Symbol+".c"] = imageC(v.Symbol, code)
				if v.Tuned {
					x.files[v.Candidate+".cubin"] = code
				}
			}})
		}
		if p.DeviceReference == nil {
			continue
		}
		flags := []string{"-fmad=false", "-std=c++17"}
		jobs = append(jobs, job{"the reference of " + p.Kernel, x.referenceCUDA(p, "evotune_kernel"), flags, []string{strconv.Itoa(x.Least())}, func(code []byte) {
			x.files["test/reference_"+p.Name+".c"] = imageC("reference_"+p.Name, code)
		}})
	}
	if len(jobs) == 0 {
		return nil
	}
	nvcc, err := findNVCC(x.NVCC, x.exactArchitectures())
	if err != nil {
		return err
	}
	version, err := exec.Command(nvcc, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s does not run: %w", nvcc, err)
	}
	lines := strings.Split(strings.TrimSpace(string(version)), "\n")
	own := "nvcc: " + strings.TrimSpace(lines[max(0, slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "release") }))])
	x.compiler = strings.TrimPrefix(x.compiler+", "+own, ", ")
	codes := make([][]byte, len(jobs))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, j := range jobs {
		all.Go(func() error {
			var err error
			if codes[i], err = x.compileCUDA(nvcc, j.source, j.flags, j.archs); err != nil {
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

// exactArchitectures are those of variants that run on one compute capability alone,
// such as "90a", which older compilers do not know.
func (x *export) exactArchitectures() []string {
	var list []string
	for _, p := range x.Kernels {
		for _, v := range p.Variants {
			if v.Exact {
				list = append(list, v.Architectures...)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// lackedBy is the first of some architectures that a compiler does not know, or "". It is
// asked to compile for it, as it does not list those of one compute capability.
func lackedBy(nvcc string, architectures []string) string {
	for _, a := range architectures {
		if exec.Command(nvcc, "--dryrun", "-gencode=arch=compute_"+a+",code=sm_"+a, "-x", "cu", "-c", os.DevNull, "-o", os.DevNull).Run() != nil {
			return "sm_" + a
		}
	}
	return ""
}

// findNVCC gives the compiler that was named, or else the one on the PATH or in the
// usual folders, of these the first that knows some architectures.
func findNVCC(path string, architectures []string) (string, error) {
	if path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%s cannot be run: %w: name another nvcc", path, err)
		}
		if a := lackedBy(found, architectures); a != "" {
			return "", fmt.Errorf("%s does not compile for %s: name that of a newer CUDA toolkit", path, a)
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
	lacks := ""
	for _, c := range append(candidates, versions...) {
		found, err := exec.LookPath(c)
		if err != nil {
			continue
		}
		a := lackedBy(found, architectures)
		if a == "" {
			return found, nil
		}
		if lacks == "" {
			lacks = found + " does not compile for " + a
		}
	}
	if lacks != "" {
		return "", fmt.Errorf("%s, which kernels that are to be embedded need: name the nvcc of a newer CUDA toolkit, or export sources", lacks)
	}
	return "", errors.New("nvcc was not found, which compiles kernels that are to be embedded: install NVIDIA's CUDA toolkit, name its nvcc, or export sources")
}

// compileCUDA makes a fat binary: machine code for every architecture, and for the
// last of the portable ones intermediate code, which later devices run.
func (x *export) compileCUDA(nvcc, source string, flags, architectures []string) ([]byte, error) {
	args := []string{"-fatbin"}
	for _, a := range architectures {
		args = append(args, "-gencode=arch=compute_"+a+",code=sm_"+a)
	}
	if last := architectures[len(architectures)-1]; strings.TrimRight(last, "af") == last {
		args = append(args, "-gencode=arch=compute_"+last+",code=compute_"+last)
	}
	return x.Compile(nvcc, source, append(args, flags...))
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

// Geometry is the launch of the variant over the dimensions, where that is all of it.
func (v *variant) Geometry() ([]string, error) {
	return geometryC(v.Rendered.Implementation.Launch, &translator{dims: v.order, constants: constants(v.Rendered, v.limits)})
}

// launchAt is the same at one shape on the device that the variant was tuned on, as
// wisdom files have it; "-" for kernels that have no launch, or one that these files
// cannot say: with more than one kernel, attributes or tensor maps.
func (v *variant) launchAt(s kernels.Shape) (string, error) {
	im := v.Rendered.Implementation
	if im.Launch == nil || v.plan != nil && (v.Later || len(v.Steps) > 1) {
		return "-", nil
	}
	g, err := im.Geometry(v.Rendered.Genome, s, v.limits)
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

// ScalarValues declares the scalars of the kernels.
func (p *problem) ScalarValues() ([]string, error) {
	return p.scalars(func(s kernels.Scalar, value string) string { return declared(s.DType.C(), s.Name, value) })
}

// ReferenceScalars declares those of the reference, all as double.
func (p *problem) ReferenceScalars() ([]string, error) {
	return p.scalars(func(s kernels.Scalar, value string) string { return declared("double", s.Name, value) })
}

func declared(ctype, name, value string) string {
	return fmt.Sprintf("%[1]s %[2]s = (%[1]s)(%[3]s)", ctype, name, value)
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
