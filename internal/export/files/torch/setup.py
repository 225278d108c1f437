import importlib.util
import pathlib
import shutil

from setuptools import setup
from torch.utils import cpp_extension

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE / "_evotune_torch"
CUDA = "CUDA = True" in (HERE / "evotune_torch.py").read_text()

spec = importlib.util.spec_from_file_location("build", PACKAGE / "build.py")
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)
NAME = f"evotune_torch_{build.key()}_kernels"


class Build(cpp_extension.BuildExtension):
    """Builds the library first, and puts it beside the operators."""

    def run(self):
        lib = build.library(HERE / "build" / "library", HERE / "build" / "prefix", NAME)
        for e in self.extensions:
            e.library_dirs.append(str(lib))
        super().run()
        target = pathlib.Path(self.get_ext_fullpath("_evotune_torch._C")).parent
        shutil.copy(lib / f"lib{NAME}.so.1", target / f"lib{NAME}.so.1")


setup(
    ext_modules=[
        (cpp_extension.CUDAExtension if CUDA else cpp_extension.CppExtension)(
            "_evotune_torch._C", ["_evotune_torch/ops.cpp"], include_dirs=[str(HERE.parent / "include")], libraries=[NAME],
            extra_compile_args=["-O2"], extra_link_args=["-Wl,-rpath,$ORIGIN"],
        )
    ],
    cmdclass={"build_ext": Build},
)
