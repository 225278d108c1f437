"""Kernels: the folder that is written, defaults, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from common import REFERENCE, SOURCE, Case, evotune, printed


def tune(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "evotune", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Folders(Case):
    def test_the_folder_is_one_that_a_person_would_write(self) -> None:
        k = self.kernel()
        to = k.save("mine/silumul")
        self.assertEqual(sorted(p.name for p in to.iterdir()), ["kernel.c.tmpl", "kernel.toml", "reference.c"])
        lint = tune("kernels", "lint", str(to))
        self.assertEqual((lint.returncode, "nothing wrong found" in lint.stdout), (0, True), lint.stdout)
        self.assertEqual(k.lint(), [])
        self.assertEqual(k.save("mine/silumul"), to)  # the same again

    def test_saving_replaces_nothing(self) -> None:
        to = self.kernel().save("silumul")
        (to / "kernel.toml").write_text("mine")
        with self.refused("test_kernel.py:", "already there"):
            evotune.Kernel(**self.arguments()).save("silumul")
        self.assertEqual((to / "kernel.toml").read_text(), "mine")

    def test_what_was_changed_in_the_cache_is_made_again(self) -> None:
        k = self.kernel()
        (k.folder / "reference.c").write_text("wrong")
        self.assertNotEqual((self.kernel().folder / "reference.c").read_text(), "wrong")

    def test_a_name_leads_nowhere_else(self) -> None:
        above = Path(evotune._tune.cache()) / "kernels" / "mine"
        above.mkdir(parents=True, exist_ok=True)
        (above / "precious").write_text("mine")
        self.addCleanup(shutil.rmtree, above, ignore_errors=True)
        for name in ("../mine", "../../../x", "/tmp/x", "a/b", "..", ".", "", "A", "a\n", "x" * 64, 3):
            with self.refused("cannot name a kernel"):
                self.kernel(name=name)
        self.assertEqual((above / "precious").read_text(), "mine")

    def test_defaults_are_printed_once(self) -> None:
        with printed() as first:
            k = self.kernel(quiet=False)
        for word in ("bytes", "operations", "normal(0,1)", "f32 = 1e-5", "the first valid values", "for the sanitizers"):
            self.assertIn(word, first.getvalue())
        self.assertTrue(k.defaults)
        with printed() as second:
            self.kernel(quiet=False)
        self.assertEqual(second.getvalue(), "")

    def test_what_is_given_is_no_default(self) -> None:
        k = self.kernel(
            operations="6*T*D", pipe="f32", bytes="4*3*T*D", tolerance=dict(float32=1e-4), baseline=dict(BLOCK=8), description="silu",
            inputs=dict(x=evotune.tensor("T", "2*D", data="uniform(-2,2)", domain="[-8, 8]")), shapes=dict(a=dict(T=64, D=512), b=dict(T=37, D=203, verify=True), c=dict(T=5, D=99, sanitize=True)))
        text = (k.folder / "kernel.toml").read_text()
        for line in ('operations = "6*T*D"', 'bytes = "4*3*T*D"', "f32 = 0.0001", "genome = { BLOCK = 8 }", 'description = "silu"', 'data = "uniform(-2,2)"', 'domain = "[-8, 8]"', 'use = "sanitize"'):
            self.assertIn(line, text)
        self.assertEqual(k.defaults, [])

    def test_every_kind_of_parameter(self) -> None:
        for name, source in (
            ("a macro before the source", SOURCE),
            ("a guarded macro", "#ifndef BLOCK\n#define BLOCK 4\n#endif\n" + SOURCE),
            ("a macro of the source", "#define BLOCK 4 // usual\n" + SOURCE),
            ("a constant", "enum { unused };\nstatic const int BLOCK = 4;\n" + SOURCE),
            ("a template", SOURCE.replace("BLOCK", "{{.BLOCK}}")),
        ):
            with self.subTest(name):
                k = self.kernel(source=source)
                self.assertEqual(k.lint(static=True), [])
                self.assertIn("{{.BLOCK}}", (k.folder / "kernel.c.tmpl").read_text())

    def test_comments_of_the_source_say_what_to_tune(self) -> None:
        k = self.kernel(source="#define BLOCK 4 // tune: 1, 4, 16\n" + SOURCE, genes=None)
        self.assertIn("values = [1, 4, 16]", (k.folder / "kernel.toml").read_text())

    def test_cuda(self) -> None:
        source = """
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
template <int VEC>
__global__ void silumul(const bf16 *__restrict__ x, bf16 *__restrict__ o, int T, int D)
{
	for (int d = (blockIdx.x * THREADS + threadIdx.x) * VEC, end = d + VEC; d < end && d < D; d++) {
		size_t row = blockIdx.y;
		float g = __bfloat162float(x[row * 2 * D + d]), u = __bfloat162float(x[row * 2 * D + D + d]);
		o[row * D + d] = __float2bfloat16(g / (1.0f + __expf(-g)) * u);
	}
}
"""
        k = self.kernel(
            source=source, inputs=dict(x=evotune.tensor("T", "2*D", dtype="bf16")), outputs=dict(o=evotune.tensor("T", "D", dtype="bfloat16")),
            genes=dict(THREADS=[64, 128, 256], VEC=[1, 2, 4, 8]), grid=["ceil(D/(THREADS*VEC))", "T"], block=["THREADS"], flags=(),
            shapes=dict(prefill=dict(T=16384, D=4096), odd=dict(T=37, D=1003, verify=True)))
        self.assertTrue(k.cuda)
        self.assertEqual(k.lint(static=True), [])
        self.assertIn("silumul<{{.VEC}}>((bf16 *)x, (bf16 *)o, T, D)", (k.folder / "kernel.cu.tmpl").read_text())

    def test_a_source_is_a_file_with_what_it_includes(self) -> None:
        self.write("step.h", "#define STEP 1\n")
        self.write("k.c", '#include "step.h"\n' + SOURCE)
        k = self.kernel(source=Path("k.c"))
        self.assertTrue((k.folder / "step.h").exists())
        self.assertEqual(self.kernel(source="k.c").folder, k.folder)

    def test_texts_of_other_editors(self) -> None:
        with open("old.c", "wb") as f:
            f.write(b"\xef\xbb\xbf/* plain */\n" + SOURCE.encode())
        with open("latin.c", "wb") as f:
            f.write(b"/* schr\xe4g */\n" + SOURCE.encode())
        with open("ref.c", "wb") as f:
            f.write(b"/* schr\xe4g */\n" + REFERENCE.encode())
        for source in ("old.c", "latin.c"):
            k = self.kernel(source=source, reference="ref.c:reference", constraints="BLOCK <= 16", flags="-O3 -march=native")
            toml = (k.folder / "kernel.toml").read_text()
            self.assertIn('expr = "BLOCK <= 16"', toml)
            self.assertIn('flags = ["-O3", "-march=native"]', toml)

    def test_aliases(self) -> None:
        k = self.kernel(source=SOURCE.replace("int T", "int len").replace("t < T", "t < len"), aliases=dict(len="T"))
        self.assertIn("silumul((float *)x, (float *)o, T, D);", (k.folder / "kernel.c.tmpl").read_text())

    def test_the_program(self) -> None:
        done = tune("version")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("evotune "), done.stdout)
        self.assertEqual(tune("kernels", "lint", "nowhere").returncode, 2)


class Refusals(Case):
    def test_arguments(self) -> None:
        for name, given, words in (
            ("no shapes", dict(shapes={}), ["there are no shapes"]),
            ("a shape that is a number", dict(shapes=dict(a=3)), ["shapes: a is 3"]),
            ("sizes of other dimensions", dict(shapes=dict(a=dict(T=1, D=2), b=dict(T=1))), ["the shape b has the dimensions T"]),
            ("a size that is a text", dict(shapes=dict(a=dict(T="1", D=2))), ["the shape a has T = '1'"]),
            ("nothing to tune for", dict(shapes=dict(a=dict(T=1, D=2, verify=True))), ["no shape is to be tuned for"]),
            ("an input that is not a tensor", dict(inputs=dict(x="T")), ["inputs: x is 'T'"]),
            ("a gene that is a text", dict(genes=dict(BLOCK="8")), ["the gene BLOCK is '8'"]),
            ("values of two kinds", dict(genes=dict(BLOCK=[1, "two"])), ["BLOCK mixes"]),
            ("a value that is a list", dict(genes=dict(BLOCK=[[1]])), ["the gene BLOCK has the value [1]"]),
            ("a gene that nothing reads", dict(genes=dict(BLOCKS=[1, 2])), ["nothing reads the parameter BLOCKS"]),
            ("a constraint that is a number", dict(constraints=[3]), ["a constraint is 3"]),
            ("a constraint over nothing", dict(constraints=["BLOK > 1"]), ["BLOK"]),
            ("a launch of a C kernel", dict(grid=["1"]), ["grid is for kernels in CUDA"]),
            ("another entry", dict(entry="silu"), ["silumul.c", 'no function "silu"']),
            ("an unknown type", dict(tolerance=dict(f33=1)), ["the dtype 'f33' is not known"]),
            ("an argument that is not given", dict(inputs={}), ["the pointer x of silumul is neither an input"]),
            ("an input that the kernel lacks", dict(inputs=dict(x=evotune.tensor("T", "2*D"), y=evotune.tensor("T"))), ["silumul has no argument y"]),
            ("another type than the source's", dict(inputs=dict(x=evotune.tensor("T", "2*D", dtype="f64"))), ["x of silumul points to float", "given as f64"]),
            ("an axis over nothing", dict(inputs=dict(x=evotune.tensor("T", "2*E"))), ["E"]),
            ("integers without data", dict(inputs=dict(x=evotune.tensor("T", dtype="i32"))), ["say what is in it"]),
            ("no file", dict(source="nowhere.c"), ["source nowhere.c: No such file"]),
            ("a file in C++", dict(source="k.cpp"), ["source k.cpp: evotune tunes files in C (.c), CUDA (.cu) and Triton (.py)"]),
            ("no values", dict(genes=dict(BLOCK=[])), ["the gene BLOCK has no values"]),
            ("a value that is not a number", dict(genes=dict(BLOCK=[1.0, float("nan")])), ["the gene BLOCK has the value nan"]),
            ("an infinite value", dict(genes=dict(BLOCK=[float("inf")])), ["the gene BLOCK has the value inf"]),
            ("a value of 71 bits", dict(genes=dict(BLOCK=[2**70])), ["the gene BLOCK has the value 1180591620717411303424, which does not fit into 64 bits"]),
            ("a size of 71 bits", dict(shapes=dict(a=dict(T=2**70, D=2))), ["the shape a has T = 1180591620717411303424"]),
            ("a tolerance that is not a number", dict(tolerance=dict(f32=float("nan"))), ["the tolerance of f32 is nan"]),
            ("an alias of nothing", dict(aliases=dict(len="T")), ["silumul has no argument len, which is to be named T"]),
            ("no language", dict(lang="Fortran"), ["lang is 'Fortran'"]),
            ("no reference", dict(reference=None), ["there is no reference"]),
            ("a reference that is a number", dict(reference=3), ["reference is a int"]),
            ("a reference in no file", dict(reference="nowhere.c"), ["reference nowhere.c: No such file"]),
            ("a wrong name", dict(name="Silu Mul"), ['"Silu Mul" cannot name a kernel']),
        ):
            with self.subTest(name):
                before = sorted(os.listdir("."))
                with self.refused("test_kernel.py:", *words):
                    evotune.Kernel(**self.arguments(**given))
                self.assertEqual(sorted(os.listdir(".")), before)

    def test_files_that_are_not_utf8(self) -> None:
        with open("ref.py", "wb") as f:
            f.write(b"# schr\xe4g\ndef reference(x): return x\n")
        with self.refused("test_kernel.py:", "reference ref.py: it is not text in UTF-8: save it as UTF-8"):
            evotune.Kernel(**self.arguments(reference="ref.py:reference"))

    def test_scalars(self) -> None:
        for value in (float("nan"), float("inf"), [1]):
            with self.refused("test_kernel.py:", "a scalar is"):
                evotune.scalar(value)  # type: ignore[arg-type]
        with self.refused("test_kernel.py:", "a scalar is nan"):
            evotune.scalar(1, also=[float("nan")])
        self.assertEqual(evotune.scalar(1, also=2).also, [2.0])  # type: ignore[arg-type]

    def test_a_made_shape_that_the_reference_refuses(self) -> None:
        k = self.kernel()
        toml = 'set other dims in kernel.toml, [[problem.shape]] with name = "{}" and use = "{}"'
        said = k._original("shape sanitize: reference.py:3: ValueError: 149 channels; if it cannot compute D = 149, " + toml.format("sanitize", "sanitize"))
        self.assertTrue(said.endswith("; if it cannot compute D = 149, evotune made this shape, since none was given: give one that the reference can compute, as shapes=dict(sanitize=dict(T=..., D=..., sanitize=True), ...)"), said)
        self.assertIn(", give one that the reference can compute, as shapes=dict(odd=dict(", k._original("; if it cannot compute D = 3, " + toml.format("odd", "other")))

    def test_tensors(self) -> None:
        with self.refused("test_kernel.py:", "at least one axis"):
            evotune.tensor()
        with self.refused("test_kernel.py:", "an axis of a tensor is 1.5"):
            evotune.tensor(1.5)  # type: ignore[arg-type]
        with self.refused("test_kernel.py:", "the dtype 'f31' is not known"):
            evotune.tensor("T", dtype="f31")

    def test_a_program_that_is_not_there(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", "import evotune._tune as t; t._PACKAGE = '/nowhere'; t.program()"], env={**os.environ, "PATH": "/nowhere", "EVOTUNE_TUNE": ""}, stderr=subprocess.PIPE, text=True)
        self.assertIn("there is no program tune", done.stderr)


if __name__ == "__main__":
    unittest.main()
