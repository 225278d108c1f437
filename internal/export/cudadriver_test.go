package export

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/kernels"
)

// A compiler that makes of a source what it is called in its first line.
const standInNVCC = `#!/bin/sh
if [ "$1" = --version ]; then echo "Cuda compilation tools, release 0.0"; exit; fi
while [ $# -gt 0 ]; do if [ "$1" = -o ]; then out=$2; fi; shift; done
sed -n '1s/^.. //p' kernel.cu > "$out"
`

// Most of a driver without a GPU, which tells what is loaded. FAKE_NAME and FAKE_CAPABILITY are the
// device's.
const standInDriver = `
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "driver.h"
#define OK { return 0; }
static CUcontext current;
int cuInit(unsigned f) { return (void)f, !getenv("FAKE_NAME"); }
int cuDriverGetVersion(int *v) { *v = getenv("FAKE_VERSION") ? atoi(getenv("FAKE_VERSION")) : 13000; return 0; }
int cuDeviceGetName(char *t, int n, int d) { (void)d; snprintf(t, (size_t)n, "%s", getenv("FAKE_NAME")); return 0; }
int cuDeviceGetAttribute(int *v, int what, int d)
{
	(void)d;
	const int c = atoi(getenv("FAKE_CAPABILITY"));
	switch (what) {
	case CU_DEVICE_CAPABILITY_MAJOR: *v = c / 10; break;
	case CU_DEVICE_CAPABILITY_MINOR: *v = c % 10; break;
	case CU_DEVICE_MAX_GRID_DIM_X: *v = 2147483647; break;
	case CU_DEVICE_MAX_GRID_DIM_X + 1: case CU_DEVICE_MAX_GRID_DIM_X + 2: *v = 65535; break;
	case CU_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *v = 227 << 10; break;
	default: *v = 1024;
	}
	return 0;
}
int cuDevicePrimaryCtxRetain(CUcontext *c, int d) { *c = (CUcontext)(intptr_t)(d + 1); return 0; }
int cuCtxGetCurrent(CUcontext *c) { *c = current; return 0; }
int cuCtxSetCurrent(CUcontext c) { current = c; return 0; }
int cuCtxGetDevice(int *d) { *d = (int)(intptr_t)current - 1; return 0; }
int cuModuleLoadData(CUmodule *m, const void *image)
{
	printf("load %.*s\n", (int)strcspn((const char *)image, "\n"), (const char *)image);
	*m = (CUmodule)(uintptr_t)image;
	return 0;
}
int cuFuncGetAttribute(int *v, int what, CUfunction f) { (void)what, (void)f; *v = 1024; return 0; }
int cuFuncSetAttribute(CUfunction f, int what, int v) { (void)f; return what != CU_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES || v != (226 << 10); }
int cuMemAlloc_v2(CUdeviceptr *p, size_t n) { (void)p, (void)n; return 1; }
int cuMemFree_v2(CUdeviceptr p) { (void)p; return 1; }
int cuMemcpyHtoD_v2(CUdeviceptr p, const void *q, size_t n) { (void)p, (void)q, (void)n; return 1; }
int cuMemcpyDtoH_v2(void *q, CUdeviceptr p, size_t n) { (void)p, (void)q, (void)n; return 1; }
int cuMemsetD8_v2(CUdeviceptr p, unsigned char v, size_t n) { (void)p, (void)v, (void)n; return 1; }
int cuCtxSynchronize(void) OK
`

// plainLaunch is the rest of it, for kernels with two dimensions and two arrays.
const plainLaunch = `
int cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) { *f = (CUfunction)m; return strcmp(name, "evotune_kernel"); }
int cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **args, void **extra)
{
	printf("launch %.*s at %u,%u,%u,%u,%u,%u,%u on %d with %lld %lld %p %p\n", (int)strcspn((char *)f, "\n"), (char *)f, gx, gy, gz, bx, by, bz, shared, (int)(intptr_t)s,
		(long long)*(int64_t *)args[0], (long long)*(int64_t *)args[1], *(void **)args[2], *(void **)args[3]);
	return !!extra;
}
`

const driverProgram = `
#include <stdio.h>
#include <stdlib.h>
#include "evotune.h"
static void warn(const char *m, void *u) { (void)u; printf("warning %s\n", m); }
int main(int argc, char **argv)
{
	const evotune_f16 *X = (const evotune_f16 *)4096;
	evotune_f16 *Y = (evotune_f16 *)8192;
	struct evotune_choice c;
	size_t bytes;
	if (argc > 1)
		printf("wisdom %d\n", evotune_wisdom_load(argv[1], warn, NULL));
	printf("prepare %d\n", evotune_prepare());
	const int64_t rows[] = {@ROWS@, @ROWS@, 3, INT64_C(1) << 50, 0};
	const int64_t cols[] = {@COLS@, @COLS@ + 8, 8, 8, 8};
	for (int i = 0; i < 5; i++) {
		int status = evotune_softmax_choice(rows[i], cols[i], &c);
		printf("choice %d %d %s.%s\n", status, c.rule, c.candidate, c.tuned_for);
		printf("softmax %d\n", evotune_softmax(rows[i], cols[i], X, Y, NULL, 0, (evotune_stream)7));
	}
	printf("odd address %d\n", evotune_softmax(8, 8, (const evotune_f16 *)4104, Y, NULL, 0, NULL));
	printf("no address %d\n", evotune_softmax(8, 8, NULL, Y, NULL, 0, NULL));
	printf("negative %d\n", evotune_softmax(-1, 8, X, Y, NULL, 0, NULL));
	bytes = 77;
	const int status = evotune_reduce_workspace(4, 4096, &bytes);
	printf("workspace %d %zu\n", status, bytes);
	printf("without %d\n", evotune_reduce(4, 4096, (const float *)4096, (float *)8192, NULL, bytes, NULL));
	printf("too small %d\n", evotune_reduce(4, 4096, (const float *)4096, (float *)8192, (void *)16, bytes - 1, NULL));
	return 0;
}
`

// TestDriver launches what is embedded through a driver that stands in for NVIDIA's.
func TestDriver(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: nothing was launched")
	}
	dir := t.TempDir()
	nvcc := filepath.Join(dir, "nvcc")
	if err := os.WriteFile(nvcc, []byte(standInNVCC), 0o755); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(5))
	var winners []*Winner
	for _, d := range cudaKernels(t) {
		if d.Name == "softmax" || d.Name == "reduce" {
			winners = append(winners, cudaWinner(t, d, d.Implementations[0], d.Problem.ShapesFor(kernels.Tune)[0], rng))
		}
	}
	softmax := winners[slices.IndexFunc(winners, func(w *Winner) bool { return w.Evidence.Kernel == "softmax" })]
	im := softmax.Rendered.Implementation
	shape, err := im.Problem().Shape(softmax.Evidence.Shapes[0])
	if err != nil {
		t.Fatal(err)
	}
	files, err := Export(winners, Options{Lang: CUDA, By: "test", Embed: true, NVCC: nvcc, Compile: cuda.Fatbin})
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, files)
	rows, cols := strconv.FormatInt(shape.Dims["ROWS"], 10), strconv.FormatInt(shape.Dims["COLS"], 10)
	other := fmt.Sprintf("evotune-wisdom 1\nsoftmax\tROWS=3,COLS=8\tabcd\t*\t1\t5,1,1,64,1,1,16,0\t.\nsoftmax\tROWS=4,COLS=8\tabcd\t*\t1\t-\t.\n"+
		"softmax\tROWS=4,COLS=8\tabce\t*\t1\t1,1,1,1,1,1,0,0\t.\nsoftmax\tROWS=%s,COLS=%s\tabcd\tNVIDIA B200\t1\t5,1,1,64,1,1,16,0\t.\n", rows, cols)
	writeFiles(t, dir, map[string][]byte{
		"fake/libcuda.c": []byte(standInDriver + plainLaunch), "program.c": []byte(strings.NewReplacer("@ROWS@", rows, "@COLS@", cols).Replace(driverProgram)),
		"more/wisdom.txt": []byte(other), "more/abcd.cubin": []byte("from a file\n\x00"),
	})
	strict := []string{"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Isrc"}
	run(t, dir, cc, append(strict, "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", "fake/libcuda.so.1", "fake/libcuda.c")...)
	run(t, dir, cc, slices.Concat(strict, []string{"-pthread", "-o", "program", "program.c"}, sourcesIn(files), []string{"-lm", "-ldl"})...)
	on := func(name, capability string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "program"), args...)
		cmd.Env = []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "fake"), "FAKE_CAPABILITY=" + capability}
		if name != "" {
			cmd.Env = append(cmd.Env, "FAKE_NAME="+name)
		}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(out), dir+"/", "")
	}
	launch := func(rule, dims, image, geometry, args string) string {
		return fmt.Sprintf("choice 0 %s %s\nlaunch %s at %s on 7 with %s 0x1000 0x2000\nsoftmax 0\n", rule, dims, image, geometry, args)
	}
	geometry := func(r kernels.Rendered, s kernels.Shape) string {
		g, err := r.Implementation.Geometry(r.Genome, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d,%d,%d,%d,%d,%d,%d", g.Grid[0], g.Grid[1], g.Grid[2], g.Block[0], g.Block[1], g.Block[2], g.SharedBytes)
	}
	id := softmax.Evidence.Candidate
	image, exact := "softmax, "+id, geometry(softmax.Rendered, shape)

	t.Run("its device", func(t *testing.T) {
		got := on("NVIDIA H200", "90")
		if want := launch("1", id+"."+shape.Name, image, exact, rows+" "+cols); !strings.Contains(got, "prepare 0\n"+want) {
			t.Errorf("no %q in\n%s", want, got)
		}
		next := kernels.Shape{Dims: map[string]int64{"ROWS": shape.Dims["ROWS"], "COLS": shape.Dims["COLS"] + 8}}
		if im.Supports(softmax.Rendered.Genome, next, hopper) == nil {
			if want := launch("2", id+"."+shape.Name, image, geometry(softmax.Rendered, next), fmt.Sprint(rows, " ", next.Dims["COLS"])); !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		for _, want := range []string{
			"choice 0 0 .\nsoftmax 3\nchoice 0 0 .\nsoftmax 0\n", // more blocks than a grid has, then nothing to compute
			"odd address 1\nno address 1\nnegative 1\n", "without 7\ntoo small 7\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
	})
	t.Run("a like device", func(t *testing.T) {
		if got, want := on("NVIDIA H100", "90"), launch("1", id+"."+shape.Name, image, exact, rows+" "+cols); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	})
	t.Run("an old device", func(t *testing.T) {
		got := on("Tesla T4", "75")
		if strings.Contains(got, "launch") || !strings.HasPrefix(got, "prepare 0\nchoice 0 0 .\nsoftmax 3\n") || !strings.Contains(got, "workspace 3 0\n") {
			t.Errorf("it printed\n%s", got)
		}
	})
	t.Run("no driver", func(t *testing.T) {
		got := on("", "90")
		if strings.Contains(got, "launch") || !strings.HasPrefix(got, "prepare 6\nchoice 6 0 .\nsoftmax 6\n") || !strings.Contains(got, "workspace 6 0\n") {
			t.Errorf("it printed\n%s", got)
		}
	})
	t.Run("wisdom", func(t *testing.T) {
		got := on("NVIDIA H200", "90", filepath.Join(dir, "more", "wisdom.txt"))
		for _, want := range []string{
			"warning more/wisdom.txt:3: candidate abcd is not in this library, and the line does not say how to launch it; the line is skipped\n",
			"warning more/wisdom.txt:4: candidate abce is not in this library: and there is no file of its name with .cubin beside the wisdom file that can be read; the line is skipped\nwisdom 0\n",
			launch("3", "abcd.", "from a file", "5,1,1,64,1,1,16", "3 8"),
			launch("1", id+"."+shape.Name, image, exact, rows+" "+cols), // that line is of another device
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		// All code is loaded before it is launched, once.
		before, after, _ := strings.Cut(got, "prepare 0\n")
		if strings.Count(before, "load from a file\n") != 1 || strings.Count(before, "load "+image+"\n") != 1 || strings.Contains(after, "load ") {
			t.Errorf("it loaded\n%s", got)
		}
	})
}
