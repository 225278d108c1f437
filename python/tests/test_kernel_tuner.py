"""Calls of Kernel Tuner's tune_kernel that are taken over, of the form of its public examples."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import unittest

from common import Case, evotune, have

if have("numpy"):
    import numpy as np

VECTOR_ADD = """
__global__ void vector_add(float *c, float *a, float *b, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
"""

MATMUL = """
#define WIDTH 96

__global__ void matmul_kernel(float *C, float *A, float *B) {
    __shared__ float sA[block_size_y*tile_size_y][block_size_x];
    __shared__ float sB[block_size_y*tile_size_y][block_size_x*tile_size_x];
    int tx = threadIdx.x;
    int ty = threadIdx.y;
    int x = blockIdx.x * block_size_x * tile_size_x + threadIdx.x;
    int y = blockIdx.y * block_size_y * tile_size_y + threadIdx.y;
    float sum[tile_size_y][tile_size_x];
    for (int i = 0; i < tile_size_y; i++)
        for (int j = 0; j < tile_size_x; j++)
            sum[i][j] = 0.0f;
    for (int k = 0; k < WIDTH; k += block_size_x) {
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < tile_size_y; i++) {
            sA[ty + block_size_y * i][tx] = A[(y + block_size_y * i) * WIDTH + k + tx];
            #pragma unroll
            for (int j = 0; j < tile_size_x; j++)
                sB[ty + block_size_y * i][tx + j * block_size_x] = B[(k + ty + block_size_y * i) * WIDTH + x + j * block_size_x];
        }
        __syncthreads();
        for (int kb = 0; kb < block_size_x; kb++)
            for (int i = 0; i < tile_size_y; i++)
                for (int j = 0; j < tile_size_x; j++)
                    sum[i][j] += sA[ty + block_size_y * i][kb] * sB[kb][tx + j * block_size_x];
    }
    for (int i = 0; i < tile_size_y; i++)
        for (int j = 0; j < tile_size_x; j++)
            C[y * WIDTH + x + block_size_y * i * WIDTH + j * block_size_x] = sum[i][j];
}
"""

STENCIL = """
#define domain_width 128
#define domain_height 64

__global__ void stencil_kernel(float *x_new, float *x_old) {
    int x = blockIdx.x * block_size_x + threadIdx.x;
    int y = blockIdx.y * block_size_y + threadIdx.y;
    if (y > 0 && y < domain_height - 1 && x > 0 && x < domain_width - 1) {
        x_new[y*domain_width+x] = ( x_old[ (y  ) * domain_width + (x  ) ] +
                                    x_old[ (y  ) * domain_width + (x-1) ] +
                                    x_old[ (y  ) * domain_width + (x+1) ] +
                                    x_old[ (y+1) * domain_width + (x  ) ] +
                                    x_old[ (y-1) * domain_width + (x  ) ] ) / 5.0f;
    }
}
"""

CONVOLUTION = """
#ifndef block_size_x
#define block_size_x 16
#endif
#define image_height 48
#define image_width 64
#define filter_height 5
#define filter_width 5
#define input_width (image_width + filter_width - 1)

__constant__ float d_filter[filter_height * filter_width];

__global__ void convolution_kernel(float *output, float *input, float *filter) {
    int x = blockIdx.x * block_size_x * tile_size_x + threadIdx.x;
    int y = blockIdx.y * block_size_y + threadIdx.y;
    #pragma unroll
    for (int t = 0; t < tile_size_x; t++) {
        float sum = 0.0f;
        for (int i = 0; i < filter_height; i++)
            for (int j = 0; j < filter_width; j++)
                sum += input[(y + i) * input_width + x + t * block_size_x + j] * d_filter[i * filter_width + j];
        if (x + t * block_size_x < image_width && y < image_height)
            output[y * image_width + x + t * block_size_x] = sum;
    }
}

int main(void) { return 0; }
"""

C_ADD = """
extern "C" float vector_add(float *c, float *a, float *b, int n) {
    for (int i = 0; i < n; i += block)
        for (int k = i; k < i + block && k < n; k++)
            c[k] = a[k] + b[k];
    return 0.0f;
}
"""


@unittest.skipUnless(have("numpy"), "Kernel Tuner's arguments are arrays of NumPy")
class Examples(Case):
    def vector_add(self, **options):
        n = np.int32(5000)
        a, b = (np.random.default_rng(s).standard_normal(n).astype(np.float32) for s in (1, 2))
        return evotune.from_kernel_tuner("vector_add", VECTOR_ADD, 5000, [np.zeros_like(a), a, b, n], dict(block_size_x=[32, 64, 128]), quiet=True, **options)

    def matmul(self, **options):
        A, B = (np.random.default_rng(s).standard_normal((96, 96)).astype(np.float32) for s in (1, 2))
        params = dict(block_size_x=[16, 32, 64], block_size_y=[1, 2, 4, 8, 16, 32], tile_size_x=[1, 3], tile_size_y=[1, 2, 3, 4])
        return (A, B), evotune.from_kernel_tuner(
            "matmul_kernel", MATMUL, (96, 96), [np.zeros((96, 96), np.float32), A, B], params, grid_div_x=["block_size_x", "tile_size_x"], grid_div_y=["block_size_y", "tile_size_y"],
            restrictions=["block_size_x==block_size_y*tile_size_y", "96 % (block_size_x*tile_size_x) == 0"], quiet=True, strategy="random_sample", iterations=32, **options)

    def stencil(self):
        old = np.random.default_rng(1).standard_normal((64, 128)).astype(np.float32)
        return old, evotune.from_kernel_tuner("stencil_kernel", STENCIL, (128, 64), [np.zeros_like(old), old], dict(block_size_x=[16, 32], block_size_y=[2, 4, 8]), quiet=True)

    def convolution(self):
        filter = np.random.default_rng(1).standard_normal(25).astype(np.float32)
        image = np.random.default_rng(2).standard_normal((52, 68)).astype(np.float32)
        return filter, image, evotune.from_kernel_tuner(
            "convolution_kernel", CONVOLUTION, (64, 48), [np.zeros((48, 64), np.float32), image, filter], dict(block_size_x=[16, 32], block_size_y=[1, 4], tile_size_x=[1, 2]),
            grid_div_x=["block_size_x", "tile_size_x"], grid_div_y=["block_size_y"], cmem_args={"d_filter": filter}, quiet=True)

    def oracle(self, kernel, *arrays, dims=()):
        """Runs the reference that was made of the kernel, on this machine's CPU."""
        library = f"{self.folder}/{kernel.name}.so"  # loading looks at names
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, str(kernel.folder / "reference.c"), "-lm"], check=True)
        wide = [np.ascontiguousarray(a, np.float64) for a in arrays]
        ctypes.CDLL(library).reference(*(ctypes.c_int64(d) for d in dims), *(a.ctypes.data_as(ctypes.c_void_p) for a in wide))
        return wide

    def test_vector_add(self):
        k = self.vector_add()
        self.assertEqual(k.lint(static=True), [])
        text = (k.folder / "kernel.toml").read_text()
        for line in ('grid = ["int(ceil((n / block_size_x)))"]', 'block = ["block_size_x"]', 'oracle = "baseline"', 'dims = ["n"]', "genome = { block_size_x = 32 }"):
            self.assertIn(line, text)
        self.assertIn("int i = blockIdx.x * block_size_x + threadIdx.x;", (k.folder / "kernel.cu.tmpl").read_text())
        a, b = np.random.default_rng(5).standard_normal((2, 777)).astype(np.float32)
        c, *_ = self.oracle(k, np.zeros(777), a, b, dims=[777])
        np.testing.assert_array_equal(c, a.astype(np.float64) + b)  # in double precision

    def test_matmul(self):
        (A, B), k = self.matmul()
        self.assertEqual(k.lint(static=True), [])
        C, *_ = self.oracle(k, np.zeros((96, 96)), A, B, dims=[96])
        np.testing.assert_allclose(C, A.astype(np.float64) @ B, rtol=1e-12, atol=1e-12)

    def test_stencil_keeps_its_border(self):
        old, k = self.stencil()
        self.assertEqual(k.lint(static=True), [])
        new, _ = self.oracle(k, np.full((64, 128), 7.0), old, dims=[128, 64])
        self.assertTrue((new[0] == 7).all() and (new[:, -1] == 7).all())
        old = old.astype(np.float64)
        self.assertAlmostEqual(new[5, 5], (old[5, 5] + old[4, 5] + old[6, 5] + old[5, 4] + old[5, 6]) / 5, places=12)

    def test_convolution_with_a_fixed_filter(self):
        filter, image, k = self.convolution()
        self.assertEqual(k.lint(static=True), [])
        out, *_ = self.oracle(k, np.zeros((48, 64)), image, filter, dims=[64, 48])
        self.assertAlmostEqual(out[3, 4], float((image[3:8, 4:9].astype(np.float64) * filter.reshape(5, 5)).sum()), places=12)

    @unittest.skipUnless(shutil.which("nvcc"), "no nvcc")
    def test_they_compile(self):
        for k in (self.vector_add(), self.matmul()[1], self.stencil()[1], self.convolution()[2]):
            with self.subTest(k.name):
                # A configuration in the place of the parameters, as evotune renders it.
                text = (k.folder / "kernel.cu.tmpl").read_text()
                for line in (k.folder / "kernel.toml").read_text().splitlines():
                    if line.startswith("genome = "):
                        for pair in line.strip("genome ={}").split(","):
                            name, value = pair.split("=")
                            text = text.replace("{{.%s}}" % name.strip(), value.strip())
                self.write("k.cu", "#include <cstdint>\n" + text)
                self.write("reference.cu", "#include <cstdint>\n" + (k.folder / "reference.cu").read_text())
                for name in ("k.cu", "reference.cu"):
                    subprocess.run(["nvcc", "-arch=sm_80", "-cubin", "-o", "k.cubin", name], check=True)

    def c_kernel(self, **options):
        n = np.int32(5000)
        a, b = (np.random.default_rng(s).standard_normal(n).astype(np.float32) for s in (1, 2))
        args = dict(lang="C", quiet=True)
        args.update(options)
        return evotune.from_kernel_tuner("vector_add", C_ADD, 5000, [np.zeros_like(a), a, b, n], dict(block=[1, 16, 64]), **args), a + b

    def test_c_from_a_call_to_a_winner(self):
        k, _ = self.c_kernel()
        self.assertEqual(k.lint(), [])
        best = k.tune(evaluations=3)
        self.assertEqual(best.verdict, "correct")
        with self.subTest("the evidence names the oracle"):
            text = (best.evidence("evidence") / "README.md").read_text()
            self.assertIn("the oracle is the kernel's own baseline", text)

    def test_an_answer(self):
        k, answer = self.c_kernel()
        again, _ = self.c_kernel(answer=[answer, None, None, None])
        self.assertIn("which gives the program's answer, is the oracle", (again.folder / "kernel.toml").read_text())
        with self.refused("test_kernel_tuner.py:", "does not give the answer: element 7 of c"):
            wrong = answer.copy()
            wrong[7] += 1
            self.c_kernel(answer=[wrong, None, None, None])
        (A, B), _ = self.matmul()
        self.matmul(answer=[A @ B, None, None], atol=1e-3)  # in CUDA, with barriers
        with self.refused("test_kernel_tuner.py:", "does not give the answer"):
            self.matmul(answer=[B @ A, None, None], atol=1e-3)

    def test_refusals(self):
        a = np.zeros(8, np.float32)
        good = dict(kernel_name="vector_add", kernel_source=VECTOR_ADD, problem_size=8, arguments=[a, a, a, np.int32(8)], tune_params=dict(block_size_x=[32, 64]))
        for name, given, words in (
            ("too few arguments", dict(arguments=[a, a, a]), ["arguments has 3 items", "c, a, b, n"]),
            ("an array for a number", dict(arguments=[a, a, a, a]), ["argument 3 of vector_add, n, is a number"]),
            ("another dtype", dict(arguments=[a, a, a.astype(np.float64), np.int32(8)]), ["argument 2 of vector_add, b, has the dtype float64"]),
            ("a short answer", dict(answer=[a]), ["answer has 1 items"]),
            ("no parameters", dict(tune_params={}), ["tune_params has no parameters"]),
            ("a parameter that is a number", dict(tune_params=dict(block_size_x=3)), ["block_size_x is 3"]),
            ("a function as a restriction", dict(restrictions=lambda p: True), ["restrictions is a function"]),
            ("a restriction that is not an expression", dict(restrictions=["block_size_x.bit_length() > 3"]), ["block_size_x.bit_length"]),
            ("a size that is a function", dict(problem_size=lambda p: 3), ["problem_size is a function"]),
            ("another language", dict(lang="OpenCL"), ["evotune tunes kernels in"]),
            ("another argument", dict(colour="red"), ["has no argument colour"]),
            ("no constant memory", dict(cmem_args=dict(filter=a)), ["declares no __constant__ filter"]),
            ("textures", dict(texmem_args=dict(t=a)), ["no textures"]),
            ("another entry", dict(kernel_name="add"), ['no __global__ function "add"']),
        ):
            with self.subTest(name):
                with self.refused("test_kernel_tuner.py:", *words):
                    evotune.from_kernel_tuner(**{**good, **given}, quiet=True)


if __name__ == "__main__":
    unittest.main()
