"""The only module that uses Triton's private interface. It refuses Triton versions that it does not know."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from vkernels.ir.errors import SetupError

from .architectures import KNOWN_VERSIONS, known, refuse_unless_compiles, warp_size
from .float_atomics import with_native_sums
from .llvm_floats import respelled
from .llvm_scratchpad import place_scratchpad, scratchpad_start

SCRATCH_ALIGNMENT = 128
"""Bytes: what the launcher aligns Triton's scratch memory to, as tensor descriptors need; buffers and swap space need
less."""

WHOLE_OPERANDS = "tt.whole_operands"
"""What dots of vkernels' own texts have whose operands Triton must not carry through a loop (lowering/ttir/dots.py)."""

_lock = threading.Lock()


@dataclass(frozen=True)
class GpuOptions:
    """How a kernel is compiled. `warps`: of a program, a power of two. `stages`: of pipelined loops, 1 for none.

    `scratch_bytes`: scratchpad of a program, which `vk.load` and `vk.store` address. `settings`: of Triton's back end,
    as a JSON object by Triton's names; those that it does not have raise `TypeError`.
    """

    warps: int
    stages: int
    scratch_bytes: int = 0
    settings: str = "{}"

    def __post_init__(self) -> None:
        if self.warps < 1 or self.warps & (self.warps - 1):
            raise ValueError(f"warps must be a power of two, not {self.warps}")
        if self.stages < 0 or self.scratch_bytes < 0:
            raise ValueError(f"no such stages or scratchpad: {self.stages}, {self.scratch_bytes} bytes")


@dataclass(frozen=True)
class Binary:
    """A kernel compiled for a GPU; it may need more than a device of that architecture has.

    `name`: the kernel's symbol in `code`, a cubin or hsaco. `assembly`: PTX or AMD's, as text. `shared`: bytes of
    shared memory that a launch requests, the scratchpad included. `warps`, `threads`: of a program.
    `tensor_memory`: columns. `global_scratch`: bytes a program that the launcher must give Triton, aligned to
    `SCRATCH_ALIGNMENT`: its tensor descriptors.
    `ttgir`: Triton's own IR once it has chosen layouts. `triton`: its version.
    """

    architecture: str
    name: str
    code: bytes = field(repr=False)
    assembly: str = field(repr=False)
    shared: int
    warps: int
    threads: int
    tensor_memory: int
    global_scratch: int
    ttgir: str = field(repr=False)
    triton: str


@cache
def _libtriton() -> Any:
    """Triton's native library. Raises `SetupError` where Triton is missing or of an unknown version."""
    try:
        import triton
    except ImportError as error:
        raise SetupError("Triton is not installed; vkernels compiles with it: pip install triton") from error
    known(str(triton.__version__))
    from triton._C import libtriton

    libtriton.llvm.init_targets()
    return libtriton


def mlir_to_llvm_ir(text: str) -> str:
    """LLVM IR text of an MLIR module of scf, arith, cf and llvm.

    Text that MLIR refuses raises `RuntimeError`, since it was generated; MLIR prints its reasons to stderr.
    """
    triton = _libtriton()
    context = triton.ir.context()
    triton.ir.load_dialects(context)
    with _file_holding(text) as path:
        module = triton.ir.parse_mlir_module(path, context)
    module.context = context
    manager = triton.ir.pass_manager(context)
    convert = triton.passes.convert
    convert.add_scf_to_cf(manager)
    convert.add_arith_to_llvmir(manager)
    convert.add_cf_to_llvmir(manager)
    manager.run(module, "cpu")
    text = respelled(str(triton.llvm.to_module(module, triton.llvm.context())))
    _free(module)
    return text


def _free(module: Any) -> None:
    """Free a module's functions, which Triton's bindings never do: a kernel's are a quarter of a megabyte."""
    functions: list[Any] = []
    module.walk(lambda operation: functions.append(operation) if operation.get_name() == "llvm.func" else None)
    if functions:
        functions[0].get_block().erase()


def compile_ttir(text: str, architecture: str, options: GpuOptions) -> Binary:
    """Compile a TTIR module of one public `tt.func` for an architecture (sm_90, gfx942), with no such device present.

    Triton's own stages run, but nothing of its cache is read or written, and multiplications and additions stay
    apart unless the text fuses them. One compile at a time in a process; a compiler may abort or hang, so run this
    in a child process that may be killed. Raises `SetupError` for what this Triton does not compile for and
    `RuntimeError`, with the compiler's reasons, for text that it refuses, since that was generated.
    """
    _libtriton()
    import triton
    from triton.runtime.errors import PTXASError

    refuse_unless_compiles(architecture, triton.__version__)
    with _lock:
        try:
            return _compiled(text, architecture, options)
        except (RuntimeError, PTXASError) as error:
            with _caught_stderr() as printed, suppress(RuntimeError, PTXASError):
                _compiled(text, architecture, options)  # once more: it prints its reasons, and may abort at other times
            reasons = "\n".join((str(error).split("\nRepro command", 1)[0], _reasons("".join(printed))))
            raise RuntimeError(f"Triton refuses a kernel for {architecture}: {reasons.rstrip()}") from error


def _compiled(text: str, architecture: str, options: GpuOptions) -> Binary:
    import triton
    from triton.backends.compiler import Language

    triton_ir = _libtriton().ir
    backend, settings = _backend(architecture, options)
    context = triton_ir.context()
    triton_ir.load_dialects(context)
    backend.load_dialects(context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, settings, Language.TRITON)
    metadata: dict[str, Any] = {"target": backend.target, **vars(settings)}
    with _file_holding(_descriptors_respelled(text, triton.__version__)) as path:
        module = triton_ir.parse_mlir_module(path, context)
        module.context = context
        with _passes_for(text):
            module = stages.pop("ttgir")(stages.pop("ttir")(module, metadata), metadata)
        ttgir = module.str_nodebug()
        llvm_ir = stages.pop("llir")(module, metadata).replace(f'"{os.path.basename(path)}"', '"kernel.ttir"')
    if not architecture.startswith("sm_"):
        llvm_ir = with_native_sums(llvm_ir)
    shared = metadata["shared"] or 0
    if not options.scratch_bytes:
        if '"vk.' in llvm_ir:
            raise RuntimeError("the text uses scratchpad, but the options give it none")
    else:
        start = scratchpad_start(shared)
        llvm_ir, shared = place_scratchpad(llvm_ir, start), start + options.scratch_bytes
    translate, assemble = stages.values()
    assembly = translate(llvm_ir, metadata)
    code = assemble(assembly, metadata)
    warps = metadata["num_warps"]
    if (alignment := metadata.get("global_scratch_align") or 1) > SCRATCH_ALIGNMENT:
        raise RuntimeError(f"Triton wants scratch memory aligned to {alignment} bytes, more than {SCRATCH_ALIGNMENT}")
    return Binary(
        architecture, metadata["name"], code, assembly, shared, warps, warps * warp_size(architecture),
        metadata.get("tmem_size") or 0, metadata.get("global_scratch_size") or 0, ttgir, triton.__version__,
    )  # fmt: skip


@contextmanager
def _passes_for(text: str) -> Iterator[None]:
    """Triton's passes without the one that reads operands of the next trip ahead, for a text that wants these whole.

    Triton offers no other way to leave it out; nothing else compiles meanwhile.
    """
    passes, name = _libtriton().passes.ttgpuir, "add_prefetch"
    if WHOLE_OPERANDS not in text or not hasattr(passes, name):
        yield
        return
    ahead = getattr(passes, name)
    setattr(passes, name, lambda manager: None)
    try:
        yield
    finally:
        setattr(passes, name, ahead)


_DESCRIPTOR = re.compile(r"!tt\.tensordesc<tensor<([^<>]*)>>")
_FIRST_SHORT = "3.9"
"""The first known version that spells the type of a tensor descriptor without `tensor<…>`."""


def _descriptors_respelled(text: str, version: str) -> str:
    """TTIR with the types of tensor descriptors as a version of Triton spells them; ours are spelled as by 3.6."""
    is_short = KNOWN_VERSIONS.index(known(version)) >= KNOWN_VERSIONS.index(_FIRST_SHORT)
    return _DESCRIPTOR.sub(r"!tt.tensordesc<\1>", text) if is_short else text


def inlined_ttir(text: str, architecture: str, locations: bool = False) -> str:
    """A TTIR module whose functions are inlined into its public one. Without source `locations`, what is compiled from
    it has the lines of this text. Raises `RuntimeError` for text that MLIR refuses; it prints its reasons to stderr."""
    triton = _libtriton()
    context = triton.ir.context()
    triton.ir.load_dialects(context)
    backend_for(architecture).load_dialects(context)
    with _file_holding(text) as path:
        module = triton.ir.parse_mlir_module(path, context)
    module.context = context
    manager = triton.ir.pass_manager(context)
    triton.passes.common.add_inliner(manager)
    triton.passes.common.add_symbol_dce(manager)
    manager.run(module, "inline")
    return str(module if locations else module.str_nodebug())


def backend_for(architecture: str) -> Any:
    """Triton's back end for an architecture. Raises `SetupError` for what this Triton does not compile for."""
    _libtriton()
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    refuse_unless_compiles(architecture, triton.__version__)
    size = warp_size(architecture)
    if architecture.startswith("sm_"):
        return make_backend(GPUTarget("cuda", int(architecture.removeprefix("sm_")), size))
    return make_backend(GPUTarget("hip", architecture, size))


def _backend(architecture: str, options: GpuOptions) -> tuple[Any, Any]:
    """Triton's back end for an architecture and its settings, whatever its environment variables say."""
    backend = backend_for(architecture)
    given = {
        "num_warps": options.warps, "num_stages": options.stages, "enable_fp_fusion": False,
        "arch": architecture.replace("sm_", "sm"), **json.loads(options.settings),
    }  # fmt: skip
    return backend, dataclasses.replace(backend.parse_options(dict(given)), **given)


def nvidia_disassembler() -> str:
    """The path of NVIDIA's disassembler, which Triton brings. Raises `SetupError` where it is missing."""
    import triton

    _libtriton()
    path = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "nvdisasm")
    if not os.access(path, os.X_OK):
        raise SetupError(f"this Triton came without NVIDIA's disassembler: {path}")
    return path


_REASON = re.compile(r"(?:(:\d+:\d+)\)?: )?((?:error|note|[\w-]*ptxas[\w-]* \w+ *): .*|LLVM ERROR: .*)")


def _reasons(printed: str) -> str:
    """The errors that a compiler printed, with lines and columns of the text, without the IR that it prints too."""
    found = [f"kernel.ttir{at}: {reason}" if at else reason for at, reason in _REASON.findall(printed)]
    return "\n".join(dict.fromkeys(found))


@contextmanager
def _caught_stderr() -> Iterator[list[str]]:
    """Catch what the process prints to standard error within; the list has it afterwards."""
    printed: list[str] = []
    standard = os.dup(2)
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
            try:
                yield printed
            finally:
                os.dup2(standard, 2)
                file.seek(0)
                printed.append(file.read().decode(errors="replace"))
    finally:
        os.close(standard)


@contextmanager
def _file_holding(text: str) -> Iterator[str]:
    """Within, a path that holds some text, in memory where the system can: Triton only parses files."""
    data = text.encode()
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        number = os.memfd_create("vkernels.mlir")
        try:
            with open(number, "wb", closefd=False) as file:
                file.write(data)
            yield f"/proc/self/fd/{number}"
        finally:
            os.close(number)
    else:
        with tempfile.NamedTemporaryFile(suffix=".mlir") as file:
            file.write(data)
            file.flush()
            yield file.name
