"""From mapped IR to native code on this machine's CPU: MLIR, Triton's passes, LLVM, a JIT."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.dialect import MappedOp
from vkernels.ir.errors import IRError
from vkernels.ir.lowering.llvm.emit import ToBf16
from vkernels.ir.lowering.llvm.lower_to_llvm import IN_ORDER, LlvmModule, lower_to_llvm
from vkernels.targets.cpu_rates import vector_bytes
from vkernels.targets.host_cpu import cpu_limits
from vkernels.targets.processor import llvm_processor

from ..artifact_cache import ArtifactCache, NativeCode, code_key
from ..background import hold_in_forks
from ..timeline import note_loaded
from .llvm_units import unit_functions
from .triton_adapter import mlir_to_llvm_ir

UnitFunctions = Callable[[str], str]
"""The functions of dot units that a module of LLVM IR calls."""
WHOLE_REGISTERS = "-prefer-256-bit"
"""The feature with which LLVM uses the registers of AVX-512 whole: plans count on them."""
TO_BF16 = {"neon-bf16": ToBf16.EXACT, "sve-bf16": ToBf16.EXACT, "avx512-bf16": ToBf16.FLUSHED}
"""How processors with a dot unit round to bf16."""
MAX_LIBRARIES = 64
"""Libraries that one JIT links."""
LLVM_LOCK = threading.Lock()
"""Held by whoever uses LLVM, which has global state."""


@dataclass(frozen=True)
class NativeKernel:
    """Native code of a mapped kernel; docs/mapped-ir.md says what the functions take. Alive as long as the object.

    `prepare`, `launches`: addresses. `sizes`: names of the size slots. `slots`: how many argument slots there are,
    `buffers`: how many of them, the last, are top-level buffers. `workspace`: bytes each thread needs.
    `in_turn`: the address of the function that says how many programs belong in turn, 0 where there is none.
    """

    name: str
    prepare: int
    launches: Sequence[int]
    sizes: Sequence[str]
    slots: int
    buffers: int
    workspace: int
    _stages: tuple[bytes, bytes, bytes] = field(repr=False)
    _code: Any = field(repr=False)
    in_turn: int = 0

    @property
    def mlir(self) -> str:
        """The MLIR that LLVM IR was made from."""
        return zlib.decompress(self._stages[0]).decode()

    @property
    def llvm_ir(self) -> str:
        """LLVM IR before LLVM's own passes."""
        return zlib.decompress(self._stages[1]).decode()

    @property
    def bitcode(self) -> bytes:
        """LLVM IR after LLVM's own passes."""
        return zlib.decompress(self._stages[2])

    @property
    def object(self) -> bytes:
        """The machine code as a relocatable object file."""
        with LLVM_LOCK, opened(self.bitcode) as module:
            return object_of(module, _machine())

    @property
    def assembly(self) -> str:
        """The machine code as assembly text."""
        with LLVM_LOCK, opened(self.bitcode) as module:
            return assembly_of(module, _machine())


def compile_cpu(
    module: ModuleOp, name: str | None = None, *, register_bytes: int | None = None,
    artifacts: ArtifactCache | None = None,
) -> NativeKernel:  # fmt: skip
    """Compile the module's `vk.mapped` (the one called `name`, or the only one) for this machine.

    `register_bytes`: bytes of a vector register; the host's own unless given. `artifacts`: code of earlier compiles.
    May be called from several threads.
    Raises `UnsupportedError` for what has no native form, `SetupError` for an unknown Triton.
    """
    return compile_lowered(lower_for_cpu(module, name, register_bytes), artifacts)


def lower_for_cpu(
    module: ModuleOp, name: str | None = None, register_bytes: int | None = None, units: tuple[str, ...] | None = None
) -> LlvmModule:
    """The first half of `compile_cpu`: lower to MLIR for this machine, or one with these dot units."""
    width = host_register_bytes() if register_bytes is None else register_bytes
    present = host_dot_units() if units is None else units
    to_bf16 = next((way for unit, way in TO_BF16.items() if unit in present), ToBf16.BY_BITS)
    return lower_to_llvm(_mapped(module, name), width, to_bf16)


def _mapped(module: ModuleOp, name: str | None) -> MappedOp:
    found = [op for op in module.ops if isinstance(op, MappedOp) and name in (None, op.sym_name.data)]
    if len(found) != 1:
        raise IRError(f"expected one vk.mapped{f' @{name}' if name else ''}, found {len(found)}")
    return found[0]


def compile_lowered(
    lowered: LlvmModule, artifacts: ArtifactCache | None = None, units: UnitFunctions = unit_functions
) -> NativeKernel:
    """The second half of `compile_cpu`: compile lowered MLIR, and link it.

    `units`: the functions of dot units that LLVM IR calls, in LLVM IR; other than the processor's own for tests, which
    no cache may hold.
    """
    import llvmlite.binding as llvm

    native = _native_code(lowered.text, units) if artifacts is None else _cached_code(lowered.text, artifacts)
    mlir, llvm_ir, bitcode = (
        zlib.compress(stage, 1) for stage in (lowered.text.encode(), native.llvm_ir.encode(), native.bitcode)
    )
    stages = mlir, llvm_ir, bitcode  # seldom asked for, and longer than the code
    with LLVM_LOCK:
        library = llvm.JITLibraryBuilder().add_object_img(native.object).add_current_process()
        exported = lowered.prepare, *lowered.launches, *([lowered.in_turn] if lowered.in_turn else ())
        for function in exported:
            library.export_symbol(function)
        jit, number = _jits.next()
        code = library.link(jit, f"{lowered.name}.{number}")
        code.jit = jit  # which ends after the last code of it
        note_loaded({name: code[name] for name in exported}, native.object)
        return NativeKernel(
            lowered.name, code[lowered.prepare], tuple(code[launch] for launch in lowered.launches), lowered.sizes,
            lowered.slots, lowered.buffers, lowered.workspace, stages, code,
            code[lowered.in_turn] if lowered.in_turn else 0,
        )  # fmt: skip


def _cached_code(text: str, artifacts: ArtifactCache) -> NativeCode:
    with LLVM_LOCK:
        key = code_key(text, f"{_machine().triple} {host_processor()}", host_features())
    native: NativeCode | None = artifacts.get(key, NativeCode)
    if native is None:
        native = _native_code(text, unit_functions)
        artifacts.put(key, native)
    return native


def _native_code(text: str, units: UnitFunctions) -> NativeCode:
    llvm_ir = mlir_to_llvm_ir(text)
    with LLVM_LOCK:
        machine = _machine()
        with opened(llvm_ir, units(llvm_ir)) as module:
            module.triple, module.data_layout = machine.triple, str(machine.target_data)
            optimise(module, machine)
            return NativeCode(llvm_ir, module.as_bitcode(), object_of(module, machine))


@contextmanager
def opened(code: str | bytes, functions: str = "") -> Iterator[Any]:
    """Within, an LLVM module of IR text or bitcode, in a context of its own. `functions`: IR text that is linked in.

    Nothing of it outlives the block: the garbage collector may free a context before its module, which crashes.
    """
    import llvmlite.binding as llvm

    with llvm.create_context() as context:
        parse = llvm.parse_assembly if isinstance(code, str) else llvm.parse_bitcode
        with parse(code, context) as module:
            if functions:
                module.link_in(llvm.parse_assembly(functions, context))
            yield module


def optimise(module: Any, machine: Any) -> None:
    """LLVM's standard passes without vectorising and unrolling: the plan has done both, and it halves the time."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    manager = builder.getModulePassManager()
    try:
        manager.run(module, builder)
    finally:
        _dispose(manager)


def object_of(module: Any, machine: Any) -> bytes:
    """The object file of an optimised module."""
    with _scheduled(module):
        return bytes(machine.emit_object(module))


def assembly_of(module: Any, machine: Any) -> str:
    """The assembly of an optimised module."""
    with _scheduled(module):
        return str(machine.emit_assembly(module))


@contextmanager
def _scheduled(module: Any) -> Iterator[None]:
    """Within, LLVM keeps the order of instructions if a function of the module asks for it. The option is the whole
    process's, so it is held as short as can be, under `LLVM_LOCK`."""
    import llvmlite.binding as llvm

    in_order = any(IN_ORDER.encode() in attribute for each in module.functions for attribute in each.attributes)
    if in_order:
        llvm.set_option("vkernels", "--enable-misched=false")
    try:
        yield
    finally:
        if in_order:
            llvm.set_option("vkernels", "--enable-misched=true")


def _dispose(manager: Any) -> None:
    """Free a pass manager, which llvmlite 0.50 forgets: its class finds the empty method of another base first. It and
    what its passes keep are 90 KB for each module that is compiled."""
    from llvmlite.binding import ffi, newpassmanagers

    if type(manager)._dispose is ffi.ObjectRef._dispose:
        newpassmanagers.NewPassManager._dispose(manager)
        manager.detach()
    else:
        manager.close()


@cache
def _machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # The JIT links an object into one piece of memory, so constants are operands near the code. The default model gives
    # the address of each a register, and under pressure loads constants in every iteration.
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=host_processor(), features=host_features(), opt=2, reloc="pic", codemodel="small", jit=True
    )


@cache
def host_processor() -> str:
    """LLVM's name of this machine's CPU."""
    import llvmlite.binding as llvm

    return llvm_processor(str(llvm.get_host_cpu_name()), llvm.get_host_cpu_features())


@cache
def host_features() -> str:
    """This machine's instructions, as LLVM takes them."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    text = str(features.flatten())
    return f"{text},{WHOLE_REGISTERS}" if features.get("avx512f") else text


class _Jits:
    """The JIT that links the next library. LLVM never frees a library's name and tables, some 9 KB each. So a new
    JIT takes over after `MAX_LIBRARIES`, and the old one is freed with the last code that it linked."""

    def __init__(self) -> None:
        self._jit: Any = None
        self._linked = 0

    def next(self) -> tuple[Any, int]:
        """A JIT, and the number of the next library within it."""
        import llvmlite.binding as llvm

        if self._jit is None or self._linked >= MAX_LIBRARIES:
            self._jit, self._linked = llvm.create_lljit_compiler(_machine()), 0
        self._linked += 1
        return self._jit, self._linked


_jits = _Jits()


@cache
def host_scales() -> bool:
    """Whether this CPU has `vk.scale` as an instruction."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return all(features.get(name, False) for name in ("avx512f", "avx512vl"))


def host_dot_units() -> tuple[str, ...]:
    """Names of this CPU's dot units."""
    return cpu_limits().dot_units


@cache
def host_register_bytes() -> int:
    """Bytes of the vectors that this CPU computes with: 64 with AVX-512, 32 with AVX, 16 elsewhere; half where that was
    measured to be faster."""
    return vector_bytes()


hold_in_forks(LLVM_LOCK)  # so that no child inherits LLVM's own locks from a thread that compiles
