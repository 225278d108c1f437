import collections
import os
import sys
import time


class CompilationError(Exception):
    def __init__(self, src, node, error_message):
        self.src, self.node, self.error_message = src, node, error_message
        super().__init__(f"at {node.lineno}:4:\n{src}\n{error_message}")


class ASTSource:
    def __init__(self, fn, signature, constexprs=None, attrs=None):
        assert all(isinstance(k, str) for k in signature), "Signature keys must be string"
        assert list(signature) == fn.arg_names
        self.fn, self.signature, self.attrs = fn, signature, attrs or {}
        self.constants = {(fn.arg_names.index(k),): v for k, v in (constexprs or {}).items()}
        assert {n for n, t in signature.items() if t == "constexpr"} == set(constexprs)
        for path, list_ in self.attrs.items():
            assert isinstance(path, tuple) and list_ == [["tt.divisibility", 16]], (path, list_)


SIZES = {"i32": ".u32", "i64": ".u64", "fp32": ".f32", "fp64": ".f64"}

BODY = """{
\t.reg .pred \t%%p<2>;
\t.reg .b32 \t%%r<10>;
\t.reg .b64 \t%%rd<10>;
\t.loc\t1 %(line)d 0                          // kernel.py:%(line)d:0
$L__func_begin0:
\t.loc\t1 %(line)d 0                          // kernel.py:%(line)d:0

// %%bb.0:
%(loads)s$L__tmp0:
\t.loc\t1 %(next)d 24                         // kernel.py:%(next)d:24
\tmov.u32 \t%%r1, %%ctaid.x;
\tmov.u32 \t%%r2, %%tid.x;
\tmov.u32 \t%%r3, %%ntid.x;
\tmad.lo.s32 \t%%r4, %%r1, %%r3, %%r2;
\tsetp.lt.s32 \t%%p1, %%r4, %%r9;
\tmul.wide.s32 \t%%rd3, %%r4, 4;
\tadd.s64 \t%%rd4, %%rd1, %%rd3;
\tadd.s64 \t%%rd5, %%rd2, %%rd3;
\t// begin inline asm
\tmov.u32 %%r5, 0x0;
\t@%%p1 ld.global.b32 { %%r5 }, [ %%rd4 + 0 ];
\t// end inline asm
\tadd.rn.f32 \t%%r6, %%r5, %%r5;
\t// begin inline asm
\t@%%p1 st.global.b32 [ %%rd5 + 0 ], { %%r6 };
\t// end inline asm
\t.loc\t1 %(next)d 4                          // kernel.py:%(next)d:4
\tret;
$L__tmp1:
$L__func_end0:
                                        // -- End function
}
\t.file\t1 "/evotune/kernel.py"
\t.section\t.debug_abbrev
\t{
.b8 1                                   // Abbreviation Code
.b8 17                                  // DW_TAG_compile_unit
.b8 0                                   // DW_CHILDREN_no
.b8 0                                   // EOM(1)
.b8 0                                   // EOM(2)
.b8 0                                   // EOM(3)
\t}
\t.section\t.debug_info
\t{
.b32 15                                 // Length of Unit
.b8 2                                   // DWARF version number
.b8 0
.b32 .debug_abbrev                      // Offset Into Abbrev. Section
.b8 8                                   // Address Size (in bytes)
.b8 1                                   // Abbrev [1] 0xb:0x8 DW_TAG_compile_unit
.b64 $L__tmp0                           // DW_AT_low_pc
\t}
\t.section\t.debug_macinfo\t{\t}
"""


def compile(src, target, options):
    from ..backends.compiler import GPUTarget

    assert isinstance(target, GPUTarget) and target.backend == "cuda" and target.warp_size == 32
    assert set(options) <= {"num_warps", "num_stages", "maxnreg", "debug"}, options
    open(os.path.join(os.environ["TRITON_CACHE_DIR"] + ".lock"), "w").close()  # its own folder may be written
    print("Triton prints where it likes")
    values = {src.fn.arg_names[k[0]]: v for k, v in src.constants.items()}
    do = values.get("DO", "nothing")
    name = src.fn.__name__
    metadata = dict(name=name, num_warps=options["num_warps"], num_ctas=1, shared=4096, global_scratch_size=0, profile_scratch_size=0,
                    launch_cooperative_grid=False, launch_pdl=False, cluster_dims=(1, 1, 1), tensordesc_meta=[], target=target)
    if do == "compile=error":
        node = type("Node", (), {"lineno": 4, "col_offset": 4})
        raise CompilationError(src.fn.src, node, "the shapes of a and b differ:\n[16] and [32]")
    if do == "compile=die":
        os.write(2, b"libtriton: assertion failed\n")
        os._exit(7)
    if do == "compile=hang":
        time.sleep(3600)
    if do == "compile=scratch":
        metadata["global_scratch_size"] = 128
    if do == "compile=large":
        metadata["shared"] = 256 << 10
    if do == "compile=more":
        metadata["num_warps"] += 4  # of a kernel whose warps are specialized
    try:
        with open("/etc/passwd") as f:
            print("the jail is open:", f.readline(), file=sys.stderr)
            metadata["num_ctas"] = 2
    except OSError:
        pass
    runtime = [(n, t) for n, t in src.signature.items() if t != "constexpr"]
    params, loads, pointers = [], "", 0
    for i, (n, t) in enumerate(runtime + [("global scratch", "*"), ("profile scratch", "*")]):
        kind = ".u64 .ptr .global .align 1" if t[0] == "*" else SIZES[t]
        params.append(f"\t.param {kind} {name}_param_{i}")
        if t[0] == "*" and i < len(runtime):
            pointers += 1
            loads += f"\tld.param.b64 \t%rd{pointers}, [{name}_param_{i}];\n"
        elif t == "i32":
            loads += f"\tld.param.b32 \t%r9, [{name}_param_{i}];\n"
    line = src.fn.starting_line_number
    head = f"//\n// Generated by LLVM NVPTX Back-End\n//\n\n.version {8 if target.arch >= 90 else 7}.0\n.target sm_{target.arch}{'a' if target.arch >= 90 else ''}\n.address_size 64\n\n"
    head += f"// do: {do} {values.get('SALT')}\n// launch: {32 * metadata['num_warps']} {metadata['shared']}\n// attributes: {src.attrs}\n// debug: {options.get('debug')}\n"
    head += f"\t// .globl\t{name}                   // -- Begin function {name}\n.extern .shared .align 16 .b8 global_smem[];\n"
    ptx = head + f".visible .entry {name}(\n" + ",\n".join(params) + f"\n)\n.reqntid {32 * metadata['num_warps']}\n" + BODY % {"line": line, "next": line + 1, "loads": loads}
    kernel = collections.namedtuple("KernelMetadata", sorted(metadata))(**metadata)
    return type("CompiledKernel", (), {"asm": {"ptx": ptx, "cubin": b"\x7fELF"}, "metadata": kernel})
