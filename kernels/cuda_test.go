package kernels_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// usualNVCC is the nvcc that evotune would find.
func usualNVCC(t *testing.T) string {
	t.Helper()
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Fatalf("nvcc is not installed: run scripts/setup-cuda-debian.sh: %v", err)
	}
	return nvcc
}

// newerNVCC finds an nvcc that compiles for an architecture of its own, such as
// sm_90a: the one on the PATH may be older, and then a newer one stands beside it. The script
// that installs one installs both.
func newerNVCC(t *testing.T, target string) string {
	t.Helper()
	var list []string
	if path, err := exec.LookPath("nvcc"); err == nil {
		list = append(list, path)
	}
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if d := os.Getenv(v); d != "" {
			list = append(list, filepath.Join(d, "bin", "nvcc"))
		}
	}
	more, err := filepath.Glob("/usr/local/cuda*/bin/nvcc")
	if err != nil {
		t.Fatal(err)
	}
	for _, nvcc := range append(list, more...) {
		// Whether it compiles is what counts, whatever it lists.
		dir := t.TempDir()
		file := filepath.Join(dir, "k.cu")
		if err := os.WriteFile(file, []byte("__global__ void k() {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append(gencode(target), "-cubin", "-o", filepath.Join(dir, "k.cubin"), file)
		if exec.CommandContext(t.Context(), nvcc, args...).Run() == nil {
			return nvcc
		}
	}
	t.Fatalf("no nvcc here compiles for %s: run scripts/setup-cuda-debian.sh, or set CUDA_HOME to a newer toolkit", target)
	return ""
}

// gencode are the arguments by which nvcc compiles for an architecture alone.
func gencode(arch string) []string {
	return []string{"-gencode", "arch=compute_" + strings.TrimPrefix(arch, "sm_") + ",code=" + arch}
}

// A compiler compiles kernel.cu of a folder for an architecture, and gives what it and
// ptxas say.
type compiler func(t *testing.T, dir, arch string) (log string, err error)

func byNVCC(nvcc string) compiler {
	return func(t *testing.T, dir, arch string) (string, error) {
		args := append(gencode(arch), "-cubin", "-lineinfo", "-DNDEBUG", "-Xptxas", "-v", "-o", filepath.Join(dir, "kernel.cubin"))
		args = append(args, filepath.Join(dir, "kernel.cu"))
		out, err := exec.CommandContext(t.Context(), nvcc, args...).CombinedOutput()
		return string(out), err
	}
}

// rtc compiles the file that its first argument names, with options.
const rtc = `#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	static char source[1 << 24], log[1 << 20];
	size_t size;
	nvrtcProgram program;
	FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
	if (!f || fread(source, 1, sizeof source - 1, f) == 0 || nvrtcCreateProgram(&program, source, "kernel.cu", 0, NULL, NULL) != NVRTC_SUCCESS)
		return 2;
	nvrtcResult r = nvrtcCompileProgram(program, argc - 2, (const char *const *)argv + 2);
	if (nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size > sizeof log || nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS)
		return 3;
	printf("%s\n%s\n", log, nvrtcGetErrorString(r));
	if (r == NVRTC_SUCCESS && (nvrtcGetCUBINSize(program, &size) != NVRTC_SUCCESS || size == 0))
		return 4;
	return r != NVRTC_SUCCESS;
}
`

// byNVRTC compiles with the NVRTC of an nvcc's toolkit, by a small program.
func byNVRTC(t *testing.T, nvcc string) compiler {
	t.Helper()
	if real, err := filepath.EvalSymlinks(nvcc); err == nil {
		nvcc = real
	}
	root := filepath.Dir(filepath.Dir(nvcc))
	include, lib := filepath.Join(root, "include"), filepath.Join(root, "lib64")
	dir := t.TempDir()
	program, source := filepath.Join(dir, "rtc"), filepath.Join(dir, "rtc.c")
	if err := os.WriteFile(source, []byte(rtc), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cc", "-o", program, source, "-I"+include, "-L"+lib, "-lnvrtc", "-Wl,-rpath,"+lib).CombinedOutput(); err != nil {
		t.Fatalf("the NVRTC beside %s cannot be called: %v\n%s", nvcc, err, out)
	}
	return func(t *testing.T, dir, arch string) (string, error) {
		args := []string{filepath.Join(dir, "kernel.cu"), "--gpu-architecture=" + arch, "--ptxas-options=-v", "-std=c++17", "-lineinfo", "-DNDEBUG", "-I" + dir, "-I" + include}
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib) // it loads a part of its own
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

var ptxasLine = regexp.MustCompile(`(?s)(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers`)

// ptxas compiles and gives what the assembler says of the entry.
func ptxas(t *testing.T, compile compiler, arch string, files map[string]string) (stats, log string, err error) {
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", "", err
		}
	}
	log, err = compile(t, dir, arch)
	if err != nil {
		return "", log, err
	}
	m := ptxasLine.FindStringSubmatch(log)
	if m == nil {
		return "", log, fmt.Errorf("ptxas tells nothing of the entry")
	}
	return fmt.Sprintf("%s registers, %s bytes of stack, %s+%s bytes spilled", m[4], m[1], m[2], m[3]), log, nil
}

// TestFP8HeaderLong compiles the declaration of a kernel with 8-bit numbers, by the usual
// compiler and by a newer one.
func TestFP8HeaderLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	nvcc := usualNVCC(t)
	p := &kernels.Problem{Dims: []string{"N"}, Buffers: []kernels.Buffer{
		{Name: "a", DType: kernels.E4M3, Role: kernels.In}, {Name: "b", DType: kernels.E5M2, Role: kernels.In}, {Name: "c", DType: kernels.E4M3, Role: kernels.Out},
	}}
	header := kernels.Header(p, &kernels.Implementation{Backend: "cuda", Entry: "f"})
	const right = "extern \"C\" __global__ void f(int64_t N, const __nv_fp8_e4m3 *a, const __nv_fp8_e5m2 *b, __nv_fp8_e4m3 *c) { c[0] = __nv_fp8_e4m3((float)a[0] * (float)b[0]); }\n"
	for _, use := range []struct{ nvcc, arch string }{{nvcc, "sm_80"}, {newerNVCC(t, "sm_90a"), "sm_90a"}} {
		for by, compile := range map[string]compiler{"nvcc": byNVCC(use.nvcc), "NVRTC": byNVRTC(t, use.nvcc)} {
			for source, good := range map[string]bool{right: true, strings.Replace(right, "const __nv_fp8_e5m2 *b", "const __nv_fp8_e4m3 *b", 1): false} {
				if _, log, err := ptxas(t, compile, use.arch, map[string]string{"kernel.cu": header + source}); (err == nil) != good {
					t.Errorf("%s for %s by %s: %v, want good %t\n%s", source, use.arch, by, err, good, log)
				}
			}
		}
	}
}

// hopperTemplate uses what the header declares for the kernels of mapped.
const hopperTemplate = `static_assert(sizeof(evotune_tensor_map) == 128 && alignof(evotune_tensor_map) == 64, "as cuTensorMapEncodeTiled writes it");
extern "C" __global__ void product(int64_t M, int64_t N, int64_t K, const float *A, const float *B, const int8_t *mask, float *C, float alpha,
	const __grid_constant__ evotune_tensor_map A_map, const __grid_constant__ evotune_tensor_map C_map, void *workspace)
{
	__shared__ alignas(128) float tile[{{.TILE}} * 4];
	__shared__ alignas(8) unsigned long long full;
	const unsigned barrier = (unsigned)__cvta_generic_to_shared(&full), to = (unsigned)__cvta_generic_to_shared(tile);
	if (threadIdx.x == 0) {
		asm volatile("prefetch.tensormap [%0];" :: "l"(&C_map) : "memory");
		asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(barrier) : "memory");
		asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %3}], [%2];" :: "r"(to), "l"(&A_map), "r"(barrier), "r"(0) : "memory");
	}
	asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
	((float *)workspace)[threadIdx.x] = tile[threadIdx.x % ({{.TILE}} * 4)];
}
extern "C" __global__ void combine(int64_t M, int64_t N, int64_t K, const float *A, const float *B, const int8_t *mask, float *C, float alpha,
	const __grid_constant__ evotune_tensor_map A_map, const __grid_constant__ evotune_tensor_map C_map, void *workspace)
{
	asm volatile("griddepcontrol.wait;" ::: "memory");
	C[threadIdx.x] = ((const float *)workspace)[threadIdx.x];
}
`

// The header of kernels with tensor maps compiles with nvcc and NVRTC, and makes a
// wrong signature an error. Without tensor maps it needs no newer CUDA.
func TestHopperHeaderLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	nvcc := usualNVCC(t)
	compiled := func(r kernels.Rendered) map[string]string {
		return map[string]string{kernels.HeaderFile: r.Header, "kernel.cu": "#include \"" + kernels.HeaderFile + "\"\n" + r.Source}
	}
	var last kernels.Rendered
	candidate := func(definition, template string) map[string]string {
		files := folder(definition)
		files["k/tiled.c.tmpl"].Data = []byte(template)
		im := mustLoad(t, files).Implementations[1]
		g, err := spaceOf(t, im).FromMap(mapGenes)
		if err != nil {
			t.Fatal(err)
		}
		r, err := im.Render(g)
		if err != nil {
			t.Fatal(err)
		}
		last = r
		return compiled(r)
	}
	withoutASM := func(text string) string {
		return regexp.MustCompile(`(?m)^.*asm volatile.*\n`).ReplaceAllString(text, "")
	}
	plain := strings.NewReplacer("const __grid_constant__ evotune_tensor_map A_map, const __grid_constant__ evotune_tensor_map C_map, ", "",
		"static_assert(sizeof(evotune_tensor_map) == 128 && alignof(evotune_tensor_map) == 64, \"as cuTensorMapEncodeTiled writes it\");\n", "").Replace(hopperTemplate)
	for by, compile := range map[string]compiler{"nvcc": byNVCC(nvcc), "NVRTC": byNVRTC(t, nvcc)} {
		for what, files := range map[string]map[string]string{
			"two kernels sm_80": candidate(base+sequence, withoutASM(plain)), "tensor maps sm_90": candidate(mapping(t), withoutASM(hopperTemplate)),
		} {
			if stats, log, err := ptxas(t, compile, what[strings.LastIndex(what, " ")+1:], files); err != nil {
				t.Errorf("%s by %s: %v\n%s", what, by, err, log)
			} else {
				t.Logf("%s by %s: %s", what, by, stats)
			}
		}
	}
	newer := newerNVCC(t, "sm_90a")
	for by, compile := range map[string]compiler{"nvcc": byNVCC(newer), "NVRTC": byNVRTC(t, newer)} {
		for what, c := range map[string]struct {
			old, new string
			good     bool
		}{
			"right":                  {"combine", "combine", true},
			"no map":                 {"const __grid_constant__ evotune_tensor_map A_map, const __grid_constant__ evotune_tensor_map C_map, void *workspace)\n{\n\tasm volatile(\"grid", "const __grid_constant__ evotune_tensor_map A_map, void *workspace)\n{\n\tasm volatile(\"grid", false},
			"a pointer":              {"evotune_tensor_map C_map, void *workspace)\n{\n\tasm volatile(\"grid", "evotune_tensor_map *C_map, void *workspace)\n{\n\tasm volatile(\"grid", false},
			"a copy of the argument": {"const __grid_constant__ evotune_tensor_map C_map, void *workspace)\n{\n\tasm volatile(\"grid", "const evotune_tensor_map C_map, void *workspace)\n{\n\tasm volatile(\"grid", false},
		} {
			template := strings.Replace(hopperTemplate, c.old, c.new, 1)
			if template == hopperTemplate && !c.good {
				t.Fatalf("%s: nothing was replaced", what)
			}
			stats, log, err := ptxas(t, compile, "sm_90a", candidate(mapping(t), template))
			if (err == nil) != c.good {
				t.Errorf("%s by %s compiles: %t, want %t (%v)\n%s", what, by, err == nil, c.good, err, log)
			} else if c.good {
				t.Logf("%s by %s: %s", what, by, stats)
			}
			if !c.good {
				continue
			}
			// So does a file of its own, which holds the header too.
			file := directed(t, mustLoad(t, folder(mapping(t))), last)
			r, err := file.Render(mustGenome(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if _, log, err := ptxas(t, compile, "sm_90a", compiled(r)); err != nil {
				t.Errorf("as a file by %s: %v\n%s", by, err, log)
			}
		}
	}
}
