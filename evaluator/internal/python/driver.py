# What evotune runs a user's Python with. It reads requests from its standard input and
# writes answers to its standard output: each is a line of JSON, then arrays as doubles.
import faulthandler
import inspect
import json
import linecache
import math
import mmap
import os
import signal
import sys
import types

FILE = "evotune-reference"  # what the user's file is called in tracebacks


class Refused(Exception):
    def __init__(self, line, text):
        super().__init__(text)
        self.line = line


def main():
    # Nothing that the user's code prints or reads may come between.
    requests, answers, report = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"), os.dup(2)
    for fd, way in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        null = os.open(os.devnull, way)
        os.dup2(null, fd)
        os.close(null)
    # Where the code is when it crashes, or when it takes too long and evotune asks.
    faulthandler.enable(file=report, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=report, all_threads=True, chain=False)
    sys.path[:] = [p for p in sys.path if p]
    do = Program()
    for line in requests:
        request = json.loads(line)
        arrays = [[read(requests, a) for a in request.get("arrays") or []] for _ in range(request["sets"])]
        parts, answer = [], {}
        try:
            parts = getattr(do, request["do"])(request, arrays)
        except Refused as e:
            answer = {"error": str(e), "line": e.line}
        except BaseException as e:  # the user's sys.exit, too
            answer = {"error": told(e), "line": place(e)}
        answers.write(json.dumps(answer).encode() + b"\n")
        for part in parts:
            answers.write(part)
        answers.flush()


def told(e):
    text = str(e)
    if isinstance(e, MemoryError):
        text = text or "it needs more memory than it may have"
    if isinstance(e, SyntaxError):
        text = e.msg
    return type(e).__name__ + (": " + text if text else "")


# The last line of the user's file that an exception came from; 0 if there is none.
def place(e):
    if isinstance(e, SyntaxError) and e.filename == FILE:
        return e.lineno or 0
    line, at = 0, e.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == FILE:
            line = at.tb_lineno
        at = at.tb_next
    return line


def line_of(function):
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_firstlineno if code else 0


def count(array):
    return math.prod(array["shape"])


# Memory that begins on a page: no result may depend on where an array lies.
def room(array):
    return mmap.mmap(-1, max(8 * count(array), 1))


def read(stream, array):
    memory = room(array)
    left = memoryview(memory)[: 8 * count(array)]
    while left:
        n = stream.readinto(left)
        if not n:
            sys.exit("the request ends within an array")
        left = left[n:]
    return memory


class Program:
    def use(self, request, _):
        self.library = Torch() if request["library"] == "torch" else NumPy()
        return []

    def open(self, request, _):
        self.text = request["text"]
        # For what reads the source of functions.
        linecache.cache[FILE] = (len(self.text), None, self.text.splitlines(True), FILE)
        self.module = self.load()
        return []

    def load(self):
        module = types.ModuleType("reference")
        sys.modules["reference"] = module
        exec(compile(self.text, FILE, "exec", dont_inherit=True), module.__dict__)
        return module

    def call(self, request, sets):
        results = []
        for k, arrays in enumerate(sets):
            if "seeds" in request:
                request["values"]["seed"] = request["seeds"][k]
            once = self.run(self.module, request, arrays)
            if request["twice"]:
                # As in another process: nothing is left of the first run but the interpreter.
                again = self.run(self.load(), request, arrays)
                for output, one, other in zip(request["outputs"], once, again):
                    self.compare(request["function"], output, one, other)
            results += once
        return results

    def compare(self, function, output, one, other):
        if bytes(one) == bytes(other):
            return
        i = next(i for i in range(count(output)) if one[8 * i : 8 * i + 8] != other[8 * i : 8 * i + 8])
        a, b = memoryview(one).cast("d")[i], memoryview(other).cast("d")[i]
        raise Refused(
            line_of(getattr(self.module, function)),
            f"{function} differs between two runs on the same inputs: element {i} of {output['name']} is {a!r}, then {b!r}: "
            "draw random numbers with a fixed seed within the function, and keep nothing between calls",
        )

    def run(self, module, request, arrays):
        name, outputs = request["function"], request["outputs"]
        function = getattr(module, name, None)
        if not callable(function):
            raise Refused(0, f"it does not define {name}: correct the entry, or define it")
        line = line_of(function)
        given = dict(request["values"])
        for array, raw in zip(request.get("arrays") or [], arrays):
            own = room(array)  # the function may write to it
            own[:] = raw[:]
            given[array["name"]] = self.library.array(own, array["shape"], array["integer"])
        arguments = {}
        for p in inspect.signature(function).parameters.values():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                continue
            if p.name in given and p.kind != p.POSITIONAL_ONLY:
                arguments[p.name] = given[p.name]
            elif p.name in (o["name"] for o in outputs):
                raise Refused(line, f"{name} has the parameter {p.name}, which is an output: remove it, and return the output")
            elif p.default is p.empty:
                raise Refused(line, f"{name} has the parameter {p.name}, which nothing has as its name: there are {', '.join(given)}")
        returned = function(**arguments)
        results = []
        for output, part in zip(outputs, self.parts(name, line, outputs, returned)):
            results.append(self.result(name, line, output, part))
        return results

    # What was returned for the outputs, in their order.
    def parts(self, name, line, outputs, returned):
        names = [o["name"] for o in outputs]
        if returned is None:
            raise Refused(line, f"{name} returns nothing: return {', '.join(names)}")
        if isinstance(returned, dict):
            if set(returned) != set(names):
                raise Refused(line, f"{name} returns a dict with {', '.join(map(str, returned)) or 'nothing'}: the outputs are {', '.join(names)}")
            return [returned[n] for n in names]
        several = isinstance(returned, (tuple, list))
        if len(names) == 1:
            return list(returned) if several and len(returned) == 1 and hasattr(returned[0], "shape") else [returned]
        if not several or len(returned) != len(names):
            raise Refused(line, f"{name} returns {f'{len(returned)} values' if several else 'one value'}: the outputs are {', '.join(names)}")
        return list(returned)

    def result(self, name, line, output, part):
        what, shape = output["name"], tuple(output["shape"])
        try:
            part, wrong = self.library.numbers(part)
        except (TypeError, ValueError, RuntimeError) as e:
            wrong = f"a {type(part).__name__}, which is not an array ({e})"
        if wrong:
            raise Refused(line, f"{name} returns {wrong} for {what}: return an array of float64")
        if tuple(part.shape) != shape:
            raise Refused(line, f"{name} returns an array of shape {list(part.shape)} for {what}, whose shape is {list(shape)}")
        memory = room(output)
        self.library.copy(memory, part)
        if output["finite"]:
            at = self.library.strange(part)
            if at >= 0:
                raise Refused(line, f"{name} returns {memoryview(memory).cast('d')[at]!r} as element {at} of {what}: every element must be finite")
        return memory


class NumPy:
    def __init__(self):
        import numpy

        self.np = numpy

    def array(self, memory, shape, integer):
        a = self.np.frombuffer(memory, self.np.float64, count=math.prod(shape)).reshape(shape)
        return a.astype(self.np.int64) if integer else a

    # An array, or what is wrong with it.
    def numbers(self, part):
        if hasattr(part, "detach"):
            part = part.detach().cpu()
        part = self.np.asarray(part)
        return part, "" if part.dtype.kind in "fiub" else f"an array of {part.dtype}"

    def copy(self, memory, part):
        self.np.frombuffer(memory, self.np.float64, count=part.size)[:] = part.reshape(-1)

    # The first element that is not finite; -1 if there is none.
    def strange(self, part):
        finite = self.np.isfinite(part.reshape(-1))
        return -1 if finite.all() else int(finite.argmin())


class Torch:
    def __init__(self):
        import torch

        self.torch = torch
        torch.set_default_dtype(torch.float64)

    def array(self, memory, shape, integer):
        a = self.torch.frombuffer(memory, dtype=self.torch.float64, count=math.prod(shape)).reshape(shape)
        return a.to(self.torch.int64) if integer else a

    def numbers(self, part):
        part = self.torch.as_tensor(part).detach().cpu()
        return part, f"a tensor of {part.dtype}" if part.is_complex() else ""

    def copy(self, memory, part):
        flat = part.reshape(-1).to(self.torch.float64)
        self.torch.frombuffer(memory, dtype=self.torch.float64, count=part.numel()).copy_(flat)

    def strange(self, part):
        strange = ~self.torch.isfinite(part.reshape(-1))
        return int(strange.to(self.torch.uint8).argmax()) if strange.any() else -1


main()
