package backendtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// The zoo for GPUs is judged where there is one, by the backend's own tests.
// What can be known of it without a GPU is tested here.

const (
	cudaZooDir   = "../testdata/zoo-cuda"
	cudaVerdicts = cudaZooDir + "/verdicts.toml"
)

func loadCUDAZoo(tb testing.TB) (*kernels.Definition, *genome.Space, []Case) {
	tb.Helper()
	def, err := kernels.LoadDir(cudaZooDir)
	if err != nil {
		tb.Fatal(err)
	}
	cases, err := LoadCases(cudaVerdicts)
	if err != nil {
		tb.Fatal(err)
	}
	limits := map[string]any{"device_max_shared_bytes": 227 << 10, "device_capability": 90}
	space, err := def.Space(def.Implementations, def.Problem.ShapesFor(kernels.Tune), limits)
	if err != nil {
		tb.Fatal(err)
	}
	return def, space, cases
}

// zooKernels lists the values of KERNEL.
func zooKernels(im *kernels.Implementation) (names []string) {
	for _, gene := range im.Parameters {
		if gene.Name == "KERNEL" {
			for _, v := range gene.Values {
				names = append(names, fmt.Sprint(v.Any()))
			}
		}
	}
	return names
}

func zooGenome(tb testing.TB, space *genome.Space, kernel string, salt int) genome.Genome {
	tb.Helper()
	g, err := space.FromMap(map[string]any{"KERNEL": kernel, "SALT": salt})
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// TestCUDAZooLaunches: the launches that are meant to be refused are those that
// ask for more than any device gives, and no others.
func TestCUDAZooLaunches(t *testing.T) {
	def, space, cases := loadCUDAZoo(t)
	refused := map[string]string{}
	for _, c := range cases {
		if c.Verdict == evaluator.Launch {
			refused[c.Kernel] = c.Does
		}
	}
	const shared, threads = 227 << 10, 1024
	for _, name := range zooKernels(def.Implementations[0]) {
		for _, s := range def.Problem.Shapes {
			geo, err := def.Implementations[0].Geometry(zooGenome(t, space, name, 1), s, nil)
			if err != nil {
				t.Fatal(err)
			}
			block := geo.Block[0] * geo.Block[1] * geo.Block[2]
			if too := geo.SharedBytes > shared || block > threads; too && refused[name] == "" {
				t.Errorf("%s at shape %s: %+v is too much, and its verdict is not launch", name, s.Name, geo)
			} else if want := name == "too-much-shared" || name == "too-many-threads"; too != want {
				t.Errorf("%s at shape %s: %+v: too much is %t, want %t", name, s.Name, geo, too, want)
			}
			if geo.WorkspaceBytes != 64 {
				t.Errorf("%s at shape %s: a workspace of %d bytes; product.cuh has 64", name, s.Name, geo.WorkspaceBytes)
			}
		}
	}
}

// kinds are kernels of the zoo with all that compileZoo looks at.
var kinds = []string{"honest", "missing-key", "syntax-error", "missing-entry", "device-launch", "large-frame", "spills", "no-tensor-cores", "too-many-registers"}

// TestCUDAZooCompilesLong compiles the reference of the zoo and one kernel of each kind.
func TestCUDAZooCompilesLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	nvcc := findNVCC(t)
	def, _, _ := loadCUDAZoo(t)
	text := kernels.DeviceReferenceHeader(&def.Problem) + def.Problem.DeviceReference.Text
	if b := nvccCompile(t.Context(), t, nvcc, "sm_90", map[string]string{"kernel.cu": text}, nil); b.err != nil {
		t.Errorf("the reference: %v\n%s", b.err, b.log)
	}
	compileZoo(t, nvcc, func(name string) bool { return slices.Contains(kinds, name) })
}

// TestCUDAZooCompilesNightly compiles the rest of it.
func TestCUDAZooCompilesNightly(t *testing.T) {
	longtest.Nightly(t, "cuda", "it compiles the zoo for GPUs")
	compileZoo(t, findNVCC(t), func(name string) bool { return !slices.Contains(kinds, name) })
}

func findNVCC(t *testing.T) string {
	t.Helper()
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Fatalf("nvcc is not installed: run scripts/setup-cuda-debian.sh: %v", err)
	}
	return nvcc
}

// compileZoo compiles a part of the zoo: what the compiler is meant to refuse it refuses, for the reason in the
// table, and all the rest compiles; frames, spills and tensor instructions are where they are
// meant to be and nowhere else.
func compileZoo(t *testing.T, nvcc string, part func(name string) bool) {
	t.Helper()
	def, space, cases := loadCUDAZoo(t)
	im := def.Implementations[0]
	byName := map[string]Case{}
	for _, c := range cases {
		byName[c.Kernel] = c
	}
	for _, name := range zooKernels(im) {
		if !part(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := byName[name]
			r, err := im.Render(zooGenome(t, space, name, 7))
			if c.Verdict == evaluator.Render {
				if err == nil || !strings.Contains(err.Error(), c.Check) {
					t.Errorf("rendered with error %v, want one about %q", err, c.Check)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b := nvccRendered(t.Context(), t, nvcc, r)
			diagnostic := ""
			for _, re := range im.Blocking {
				diagnostic += re.FindString(b.log)
			}
			switch {
			case c.Verdict == evaluator.Compile && name == "missing-entry":
				if b.err != nil || strings.Contains(b.log, "entry function '"+im.Entry+"'") {
					t.Errorf("want an object without the entry %s: %v\n%s", im.Entry, b.err, b.log)
				}
				return
			case c.Verdict == evaluator.Compile:
				if b.err == nil && diagnostic == "" || !strings.Contains(b.log, c.Check) {
					t.Errorf("want to be refused for %q: %v\n%s", c.Check, b.err, b.log)
				}
				return
			case b.err != nil:
				t.Fatalf("%v\n%s", b.err, b.log)
			case diagnostic != "" && !mayEnd(c, evaluator.Compile):
				t.Errorf("refused by a diagnostic: %s", b.log)
			}
			if deep := b.stack > *im.Binary.MaxStack; deep != (name == "large-frame") && !mayEnd(c, evaluator.Inspect) {
				t.Errorf("%d bytes of stack, the bound is %d", b.stack, *im.Binary.MaxStack)
			}
			if spilled := b.spill > *im.Binary.MaxSpill; spilled != (name == "spills") {
				t.Errorf("%d bytes spilled, the bound is %d", b.spill, *im.Binary.MaxSpill)
			}
			for _, re := range r.Require {
				if shown := slices.ContainsFunc(b.mnemonics, re.MatchString); shown == (name == "no-tensor-cores") {
					t.Errorf("%s is required; shown: %t", re, shown)
				}
			}
			if name == "too-many-registers" && b.registers*1024 <= 64<<10 {
				t.Errorf("%d registers: a block of 1024 threads can have them", b.registers)
			}
		})
	}
}

// mayEnd says whether a verdict is one of those with which a case may end.
func mayEnd(c Case, v evaluator.Verdict) bool {
	return slices.ContainsFunc(c.Outcomes(), func(o Outcome) bool { return o.Verdict == v })
}

// TestCUDAZooSaltLong: a salt makes another binary of the same code, and twins are
// the same binary.
func TestCUDAZooSaltLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	nvcc := findNVCC(t)
	def, space, _ := loadCUDAZoo(t)
	code := func(kernel string, salt int) string {
		t.Helper()
		r, err := def.Implementations[0].Render(zooGenome(t, space, kernel, salt))
		if err != nil {
			t.Fatal(err)
		}
		b := nvccRendered(t.Context(), t, nvcc, r)
		if b.err != nil || len(b.mnemonics) == 0 {
			t.Fatalf("%s: %d instructions, %v\n%s", kernel, len(b.mnemonics), b.err, b.log)
		}
		return b.sass
	}
	first := code("honest", 1)
	if code("honest-twin", 1) != first {
		t.Error("twins differ")
	}
	if code("honest", 2) == first {
		t.Error("the salt changes nothing")
	}
}

// A built kernel, and what ptxas and the disassembler say of it.
type built struct {
	log                     string
	err                     error
	registers, stack, spill int64
	sass                    string
	mnemonics               []string
}

func nvccRendered(ctx context.Context, t *testing.T, nvcc string, r kernels.Rendered) built {
	t.Helper()
	files := maps.Clone(r.Files)
	files[kernels.HeaderFile] = r.Header
	files["kernel.cu"] = "#include \"" + kernels.HeaderFile + "\"\n" + r.Source
	return nvccCompile(ctx, t, nvcc, "sm_90", files, r.Flags)
}

var (
	ptxasStats = regexp.MustCompile(`(?s)(\d+) bytes stack frame, (\d+) bytes spill stores, \d+ bytes spill loads.*?Used (\d+) registers`)
	sassLine   = regexp.MustCompile(`(?m)^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)`)
)

func nvccCompile(ctx context.Context, t *testing.T, nvcc, arch string, files map[string]string, flags []string) built {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cubin := filepath.Join(dir, "kernel.cubin")
	args := append([]string{"-cubin", "-arch=" + arch, "-lineinfo", "-DNDEBUG", "-Xptxas", "-v", "-o", cubin}, flags...)
	out, err := exec.CommandContext(ctx, nvcc, append(args, filepath.Join(dir, "kernel.cu"))...).CombinedOutput()
	b := built{log: string(out), err: err}
	if err != nil {
		return b
	}
	if m := ptxasStats.FindStringSubmatch(b.log); m != nil {
		for i, to := range []*int64{&b.stack, &b.spill, &b.registers} {
			*to, _ = strconv.ParseInt(m[i+1], 10, 64) // digits, by the pattern
		}
	}
	if tool, err := exec.LookPath("cuobjdump"); err == nil {
		sass, err := exec.CommandContext(ctx, tool, "-sass", cubin).Output()
		if err != nil {
			t.Errorf("cuobjdump: %v", err)
		}
		b.sass = string(sass)
		for _, m := range sassLine.FindAllStringSubmatch(b.sass, -1) {
			b.mnemonics = append(b.mnemonics, m[1])
		}
	} else {
		t.Log("cuobjdump is not installed: instructions were not looked at")
	}
	return b
}
