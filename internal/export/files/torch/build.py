"""Builds the library and its operators: for setup.py, and for an import without an installation."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]  # of the exported library: this lies in torch/_evotune_torch


def library(build, prefix, name):
    """Builds the library with CMake, under a name that no other has, and gives the folder that it lies in."""
    cmake = shutil.which("cmake")
    if not cmake:
        raise ImportError("evotune_torch: cmake was not found, which builds the library: install it (pip install cmake)")
    steps = (
        [cmake, "-S", ROOT, "-B", build, "-DBUILD_TESTING=OFF", "-DBUILD_SHARED_LIBS=ON", f"-DEVOTUNE_OUTPUT_NAME={name}", "-DCMAKE_INSTALL_LIBDIR=lib", f"-DCMAKE_INSTALL_PREFIX={prefix}"],
        [cmake, "--build", build, "--parallel", str(os.cpu_count() or 1)],
        [cmake, "--install", build],
    )
    for step in steps:
        done = subprocess.run([str(a) for a in step], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise ImportError(f"evotune_torch: {' '.join(map(str, step))} failed:\n{done.stdout[-4000:]}")
    return pathlib.Path(prefix, "lib")


def key():
    """What the result depends on, in 16 digits: what a library is told apart by."""
    import torch

    h = hashlib.sha256(f"{sys.version} {torch.__version__} {torch.version.cuda}".encode())
    for part in (ROOT / "CMakeLists.txt", ROOT / "include", ROOT / "src", HERE / "ops.cpp"):
        for f in sorted(part.rglob("*")) if part.is_dir() else [part]:
            if f.is_file():
                h.update(f.name.encode() + b"\0" + f.read_bytes())
    return h.hexdigest()[:16]


def in_cache(cuda):
    """Builds what is not built yet and gives the path of the operators' file."""
    import torch
    from torch.utils import cpp_extension

    if cuda and not torch.cuda.is_available():  # it wants to know for which GPUs, though there is nothing for them in C++
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "8.0")
    home = os.environ.get("EVOTUNE_TORCH_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "evotune", "torch")
    name = f"evotune_torch_{key()}"
    folder = pathlib.Path(home, name)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lib = folder / "prefix" / "lib"
        if not (folder / "built").exists():
            library(folder / "build", folder / "prefix", name + "_kernels")
            shutil.rmtree(folder / "build")
            (folder / "built").touch()
        (folder / "ops").mkdir(exist_ok=True)
        cpp_extension.load(
            name, [str(HERE / "ops.cpp")], extra_cflags=["-O2"], extra_include_paths=[str(ROOT / "include")],
            extra_ldflags=[f"-L{lib}", f"-l{name}_kernels", f"-Wl,-rpath,{lib}"], build_directory=str(folder / "ops"), with_cuda=cuda, is_python_module=False,
        )
    return folder / "ops" / f"{name}.so"
