"""Compiles one Triton function of an untrusted source to PTX, for a named target, and stops there.

Runs in the judge's sandbox: no GPU, no network, nothing to write but this folder. Reads request.json and candidate.py; writes kernel.ptx
and made.json. What happens before the byte is written to descriptor 3 is the host's affair, what happens after it the source's.
Needs Triton 3.3 or newer; works on its compiler's stages, since triton.compile goes on to ptxas and a cache.
"""
import ctypes
import inspect
import json
import linecache
import os
import re
import struct
import sys
import traceback
import types

SOURCE = "candidate.py"
BEGAN = 3
PTX_VERSION = 86  # what Triton's LLVM knows at most; naming it keeps Triton from asking ptxas
OURS = "?!? the host: "


def fail(text):
    print(OURS + text, flush=True)
    os._exit(2)


def refuse_programs():
    """A seccomp filter beside the sandbox's own: from here on threads, but no programs and no processes."""
    if os.uname().machine != "x86_64":
        fail("an x86_64 host is needed")
    refuse, allow, load, equal, bits, give = 0x00050001, 0x7FFF0000, 0x20, 0x15, 0x45, 0x06
    #  0 nr; 1-4 programs and processes -> 8; 5 clone -> 6 else allow; 6 flags; 7 thread? allow : refuse; 8 refuse; 9 allow
    rows = [
        (load, 0, 0, 0),
        (equal, 6, 0, 57),
        (equal, 5, 0, 58),
        (equal, 4, 0, 59),
        (equal, 3, 0, 322),
        (equal, 0, 3, 56),
        (load, 0, 0, 16),
        (bits, 1, 0, 0x10000),
        (give, 0, 0, refuse),
        (give, 0, 0, allow),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    program = Program(len(rows), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
        fail("the filter against programs cannot be set: %s" % os.strerror(ctypes.get_errno()))


def call(function, **known):
    """Triton's inner functions by the names of their parameters, which some versions have and some have not."""
    names = [name for name in inspect.signature(function).parameters]
    return function(**{name: known[name] for name in names})


def check_known(function, *known):
    strange = [n for n in inspect.signature(function).parameters if n != "self" and n not in known]
    if strange:
        fail("this version of Triton has a %s with %s, which is not known here" % (function.__name__, ", ".join(strange)))


def open_triton(target):
    """Everything that is imported or may be missing, before the source runs."""
    try:
        import triton
        import triton.language as tl
        from triton._C.libtriton import ir
        from triton.backends.compiler import GPUTarget
        from triton.compiler.compiler import ASTSource, make_backend
        from triton.runtime.jit import JITFunction
    except Exception as why:
        fail("Triton cannot be imported: %s: %s" % (type(why).__name__, why))
    version = tuple(int(n) for n in re.findall(r"\d+", triton.__version__)[:2])
    if version < (3, 3):
        fail("Triton 3.3 or newer is needed, this is %s" % triton.__version__)
    try:
        wanted = GPUTarget("cuda", target, 32)
        backend = make_backend(wanted)
    except Exception as why:
        fail("Triton has no backend for the target: %s: %s" % (type(why).__name__, why))
    check_known(ASTSource.make_ir, "target", "options", "codegen_fns", "module_map", "context")
    check_known(type(backend).add_stages, "stages", "options", "language")
    check_known(type(backend).get_codegen_implementation, "options")
    return types.SimpleNamespace(version=triton.__version__, tl=tl, ir=ir, ASTSource=ASTSource, JITFunction=JITFunction, target=wanted,
                                 backend=backend)


DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8e4nv": "float8e4nv", "i32": "int32", "i64": "int64", "i8": "int8",
          "u8": "uint8"}


def value_of(t, value):
    return getattr(t.tl, DTYPES[value["dtype"]]) if isinstance(value, dict) else value


def load_source(t, request):
    """The module, from text: its code knows itself as candidate.py, whatever folder this is."""
    with open(SOURCE, encoding="utf-8") as file:
        text = file.read()
    module = types.ModuleType("candidate")
    module.__file__ = SOURCE
    for name, value in request["constants"].items():
        module.__dict__[name] = t.tl.constexpr(value_of(t, value))
    linecache.cache[SOURCE] = (len(text), None, text.splitlines(True), SOURCE)
    sys.modules["candidate"] = module
    exec(compile(text, SOURCE, "exec"), module.__dict__)
    return module


def function_of(t, module, name):
    found = module.__dict__.get(name)
    for _ in range(8):  # autotune and heuristics wrap it
        if isinstance(found, t.JITFunction) or not hasattr(found, "fn"):
            break
        found = found.fn
    if not isinstance(found, t.JITFunction):
        raise NameError("the source has no @triton.jit function %s, which the plan launches" % name)
    return found


def source_of(t, function, request):
    signature, values, attrs = {}, {}, {}
    for i, name in enumerate(function.arg_names):
        if name in request["signature"]:
            one = request["signature"][name]
            signature[name] = one["type"]
            if one["divisible"]:
                attrs[(i,)] = [["tt.divisibility", 16]]
        elif name in request["constexprs"]:
            signature[name] = "constexpr"
            values[name] = value_of(t, request["constexprs"][name])
        else:
            raise TypeError("argument %s of the function is neither in triton.signature nor in triton.constexprs" % name)
    strange = [n for n in (*request["signature"], *request["constexprs"]) if n not in function.arg_names]
    if strange:
        raise TypeError("the function has no argument %s" % ", ".join(strange))
    return t.ASTSource(fn=function, signature=signature, constexprs=values, attrs=attrs)


def to_ptx(t, source, request):
    options = t.backend.parse_options({"num_warps": request["num_warps"], "num_stages": request["num_stages"], "ptx_version": PTX_VERSION})
    context = t.ir.context()
    t.ir.load_dialects(context)
    t.backend.load_dialects(context)
    codegen = call(t.backend.get_codegen_implementation, options=options)
    module = call(source.make_ir, target=t.target, options=options, codegen_fns=codegen, module_map=t.backend.get_module_map(), context=context)
    metadata = {"target": t.target, **vars(options)}
    stages = {}
    call(t.backend.add_stages, stages=stages, options=options, language=getattr(source, "language", None))
    for name, stage in stages.items():
        module = stage(module, metadata)
        if name == "ptx":
            return module, metadata
    raise RuntimeError("Triton's compiler has no stage that gives PTX")


def describe(ptx, metadata, source):
    def number(key, default):
        value = metadata.get(key)
        return default if value is None else int(value)

    entry = re.search(r"\.entry\s+([\w$]+)\s*\((.*?)\)", ptx, re.S)
    given = sum(1 for kind in source.signature.values() if kind != "constexpr")
    clusters = metadata.get("cluster_dims") or (1, 1, 1)
    return {
        "name": str(metadata.get("name") or (entry.group(1) if entry else "")),
        "num_warps": number("num_warps", 0),
        "shared": number("shared", 0),
        "hidden": len(re.findall(r"\.param\b", entry.group(2))) - given if entry else -1,
        "global_scratch_size": number("global_scratch_size", 0),
        "profile_scratch_size": number("profile_scratch_size", 0),
        "tmem_size": number("tmem_size", 0),
        "clusters": int(clusters[0]) * int(clusters[1]) * int(clusters[2]) * number("num_ctas", 1),
    }


def explain(why):
    """Where in the source, and what; no frame of the compiler, whose folders are the host's."""
    for frame in traceback.extract_tb(why.__traceback__):
        if frame.filename == SOURCE:
            print("candidate.py:%d: in %s: %s" % (frame.lineno, frame.name, frame.line))
    for one, word in ((why, "error"), (why.__cause__, "because")):
        if one is not None:
            lines = "".join(traceback.format_exception_only(type(one), one)).strip().split("\n")
            kind = "" if lines[-1].startswith(type(one).__name__) else type(one).__name__ + ": "
            print("%s: %s%s" % (word, kind, lines[-1]))
            print("\n".join("  " + line for line in lines[:-1]))


def main():
    sys.path[:] = [p for p in sys.path if p and os.path.realpath(p) != os.getcwd()]
    with open("request.json", encoding="utf-8") as file:
        request = json.load(file)
    t = open_triton(request["arch"])
    refuse_programs()
    os.write(BEGAN, b"b")
    os.close(BEGAN)
    try:
        source = source_of(t, function_of(t, load_source(t, request), request["function"]), request)
        ptx, metadata = to_ptx(t, source, request)
        if isinstance(ptx, bytes):
            ptx = ptx.decode("utf-8")
        # which folders the host keeps Triton in is nobody's business
        ptx = re.sub(r'(\.file\s+\d+\s+)"(?:[^"]*/)?([^"/]*)"', r'\1"\2"', ptx)
        made = describe(ptx, metadata, source)
        with open("kernel.ptx", "w", encoding="utf-8") as file:
            file.write(ptx)
        with open("made.json", "w", encoding="utf-8") as file:
            json.dump(made, file)
    except BaseException as why:
        explain(why)
        sys.stdout.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


main()
