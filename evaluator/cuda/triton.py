# What evotune compiles functions of Triton with. It writes what it is, reads requests from its
# standard input and writes answers to its standard output, each a line of JSON.
import glob
import inspect
import json
import linecache
import os
import platform
import subprocess
import sys
import traceback
import types

# What the user's file is called: the same in every folder, so that the code is the same.
FILE = "/evotune/kernel.py"


class Refused(Exception):
    def __init__(self, line, text):
        super().__init__(text)
        self.line = line


def main():
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # what Triton prints must not come between
    sys.path[:] = [p for p in sys.path if p]

    def answer(what):
        answers.write(json.dumps(what).encode() + b"\n")
        answers.flush()

    try:
        answer(hello())
    except BaseException as e:
        answer({"error": told(e)})
        return
    for line in requests:
        request = json.loads(line)
        try:
            answer(compiled(request))
        except Refused as e:
            answer({"error": str(e), "line": e.line})
        except BaseException as e:  # the user's sys.exit, too
            answer({"error": told(e), "line": place(e, request), "log": "".join(traceback.format_exception(e))[-20000:]})


def hello():
    import triton
    import triton.compiler  # noqa: F401
    from triton.backends.compiler import GPUTarget  # noqa: F401

    path = assembler(triton)
    version = subprocess.run([path, "--version"], stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace").strip()
    return {"version": triton.__version__, "python": platform.python_version(), "ptxas": path, "ptxas_version": version.splitlines()[-1]}


# The ptxas that comes with Triton, or that the environment names for it.
def assembler(triton):
    try:
        return os.path.abspath(triton.knobs.nvidia.ptxas.path)
    except AttributeError:  # Triton before 3.4
        pass
    named = os.environ.get("TRITON_PTXAS_PATH")
    found = [named] if named else sorted(glob.glob(os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "ptxas")))
    if not found:
        raise RuntimeError("Triton's ptxas was not found")
    return os.path.abspath(found[0])


def compiled(request):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    call = request["call"]
    function = load(request["text"], call["entry"])
    names = list(inspect.signature(function.fn).parameters)
    if names != [a["name"] for a in call["arguments"]]:
        raise Refused(0, f"{call['entry']} has the parameters {', '.join(names)}, and its text has others: write it with def")
    signature, constants, attributes = {}, {}, {}
    for i, a in enumerate(call["arguments"]):
        signature[a["name"]] = a["type"]
        if a["type"] == "constexpr":
            constants[a["name"]] = initial(function, a["name"]) if a["value"] is None else a["value"]
        elif a.get("divisible"):
            attributes[(i,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    options = dict(call["options"])
    if request["debug"]:
        options["debug"] = True
    done = triton.compile(source, target=GPUTarget("cuda", request["capability"], 32), options=options)
    text = done.asm["ptx"]
    return {"ptx": text.decode() if isinstance(text, bytes) else text, "meta": described(done.metadata)}


# What the metadata of a kernel say, as far as JSON can.
def described(metadata):
    fields = metadata._asdict() if hasattr(metadata, "_asdict") else dict(metadata)
    keys = ("name", "num_warps", "num_ctas", "shared", "global_scratch_size", "profile_scratch_size", "launch_cooperative_grid", "launch_pdl", "cluster_dims", "tensordesc_meta")
    return json.loads(json.dumps({k: fields[k] for k in keys if fields.get(k) is not None}, default=str))


# The user's function, of a module that is made anew, without what autotuners wrap around it.
def load(text, name):
    linecache.cache[FILE] = (len(text), None, text.splitlines(True), FILE)
    module = types.ModuleType("kernel")
    module.__file__ = FILE
    sys.modules["kernel"] = module
    exec(compile(text, FILE, "exec", dont_inherit=True), module.__dict__)
    function = getattr(module, name, None)
    while hasattr(function, "fn") and not inspect.isfunction(function.fn):
        function = function.fn
    if not hasattr(function, "fn"):
        raise Refused(0, f"{name} is not a function of Triton: write @triton.jit above it")
    return function


def initial(function, name):
    value = inspect.signature(function.fn).parameters[name].default
    return getattr(value, "value", value)  # of a constexpr


def told(e):
    text = str(getattr(e, "error_message", None) or e)
    if isinstance(e, SyntaxError):
        text = e.msg
    kind = type(e).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if kind == "CompilationError" and lines:
        return lines[-1]
    return kind + (": " + (lines[0] if lines else ""))


# The line of the user's file that an exception came from; 0 if there is none.
def place(e, request):
    if isinstance(e, SyntaxError) and e.filename == FILE:
        return e.lineno or 0
    # Triton's errors name a line of the function that they are in.
    node, source = getattr(e, "node", None), getattr(e, "src", None)
    if hasattr(node, "lineno") and source:
        begin = request["text"].find(source.strip("\n").splitlines()[0])
        if begin >= 0:
            return request["text"].count("\n", 0, begin) + node.lineno
    line, at = 0, e.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == FILE:
            line = at.tb_lineno
        at = at.tb_next
    return line


if __name__ == "__main__":
    main()
