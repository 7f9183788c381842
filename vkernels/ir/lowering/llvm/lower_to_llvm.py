"""From mapped IR to MLIR that LLVM can take: scf, arith on vectors, and llvm."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, Float64Type, IntegerType
from xdsl.ir import BlockArgument

from ...dialect import (
    REDUCTIONS,
    BufferOp,
    DotOp,
    FirstOp,
    LaunchOp,
    MappedOp,
    ScratchOp,
    TensorArgumentType,
    element_of,
)
from ...facts import UNKNOWN, Facts
from ..common import (
    Handler,
    buffer_sizes,
    contiguous_strides,
    ignore,
    launches_of,
    size_names,
    swap_of_a_call,
    unsupported,
)
from .accesses import lower_load, lower_prefetch, lower_reload, lower_spill, lower_store
from .constants import lower_below, lower_broadcast, lower_constant, lower_position
from .control import lower_for, lower_if, lower_while
from .elementwise import LLVM_CASTS, LLVM_ELEMENTWISE, lower_scale
from .emit import NOTHING, NOTHING_BYTES, LlvmEmitter, Number, ToBf16
from .fetches import lower_fetch
from .matrix import declared_matrix_functions, launch_shape, matrix_call, set_shape, uses_matrices
from .reductions import lower_dot, lower_reduction, lower_scan
from .scans import lower_last, lower_scan_by
from .state import WORKSPACE_ALIGNMENT, AddressedMemory, LlvmState
from .tiles import Lanes, element_bytes, memory_element, natural_width, scratch_bytes
from .words import declared_units, lower_word_dot, lower_words

IN_ORDER = "vk-in-order"
"""The attribute of functions whose instructions stay in the order in which they are emitted."""
MOST_COMPUTED = 8
"""Operations on floats for each dot, with fewer of which instructions stay in order: fewer than an exponential has."""


@dataclass(frozen=True)
class LlvmModule:
    """MLIR text, and its functions' needs; see "What the CPU lowering gives the runtime" in docs/mapped-ir.md.

    `sizes`: names of the size slots, in order. `buffers`: how many top-level buffers follow them.
    `launches`: names of the functions, in order. `workspace`: bytes, those that `prepare` computes aside.
    `in_turn`: the function that says how many programs belong in turn, empty where it does not matter.
    """

    name: str
    text: str
    slots: int
    sizes: tuple[str, ...]
    buffers: int
    prepare: str
    launches: tuple[str, ...]
    workspace: int
    in_turn: str = ""


def lower_to_llvm(mapped: MappedOp, register_bytes: int = 32, to_bf16: ToBf16 = ToBf16.BY_BITS) -> LlvmModule:
    """Native functions of a mapped kernel, as MLIR text, for vector registers of `register_bytes` bytes.

    `to_bf16`: how the processor rounds f32 to bf16.

    Raises `UnsupportedError` for an operation or element type that has no native form.
    """
    name = mapped.sym_name.data
    slots = Slots(mapped, to_bf16)
    axis = None if mapped.lanes is None else mapped.lanes.data
    lanes = Lanes(axis, natural_width(mapped, axis, register_bytes))
    names = tuple(f"{name}_launch_{number}" for number in range(len(launches_of(mapped))))
    lowered = [_launch(mapped, slots, lanes, *launch) for launch in zip(launches_of(mapped), names, strict=True)]
    functions = [_prepare(mapped, slots, lanes, f"{name}_prepare"), *(text for text, _ in lowered)]
    in_turn = f"{name}_in_turn" if any(_fastest_kept_along(launch) for launch in launches_of(mapped)) else ""
    if in_turn:
        functions.insert(1, _in_turn(mapped, slots, lanes, in_turn))
    if any(f"@{NOTHING} " in function for function in functions):
        words = NOTHING_BYTES // 8
        zeros = f"(dense<0> : tensor<{words}xi64>) {{alignment = {NOTHING_BYTES} : i64}} : !llvm.array<{words} x i64>"
        functions.insert(0, f"llvm.mlir.global internal constant @{NOTHING}{zeros}")
    text = "\n".join(functions)
    functions = [*declared_units(text), *declared_matrix_functions(text), *functions]
    return LlvmModule(
        name, "module {\n" + "\n".join(functions) + "\n}\n", len(slots.types), slots.sizes, len(slots.buffers),
        f"{name}_prepare", names, max((workspace for _, workspace in lowered), default=0), in_turn,
    )  # fmt: skip


class Slots:
    """The argument slots of a mapped kernel: the type in each, and which of them holds what.

    `to_bf16`: of the processor, see `lower_to_llvm`.
    """

    def __init__(self, mapped: MappedOp, to_bf16: ToBf16 = ToBf16.BY_BITS):
        self.to_bf16 = to_bf16
        self.facts = Facts.from_attribute(mapped.facts)
        self.types: list[str] = []
        self.noalias: set[int] = set()
        self.parameters: dict[BlockArgument, int] = {}
        for argument in mapped.body.block.args:
            self.parameters[argument] = len(self.types)
            self.types += self._types_of(argument, mapped)
        self.sizes = size_names(mapped)
        self.first_size = len(self.types)
        self.types += ["i64"] * len(self.sizes)
        buffers = [op for op in mapped.body.block.ops if isinstance(op, BufferOp)]
        self.buffers = {op: number for number, op in enumerate(buffers, len(self.types))}
        self.noalias |= set(self.buffers.values())
        self.types += ["!llvm.ptr"] * len(self.buffers)

    def _types_of(self, argument: BlockArgument, mapped: MappedOp) -> list[str]:
        if isinstance(argument.type, TensorArgumentType):
            if self.facts.distinct:
                self.noalias.add(len(self.types))
            return ["!llvm.ptr", *["i64"] * len(argument.type.shape)]
        if isinstance(argument.type, Float64Type):
            return ["f64"]
        if argument.type in (IntegerType(64), IntegerType(1)):
            return ["i64"]
        raise unsupported(mapped, f"a parameter of type {argument.type}")

    def bind(self, state: LlvmState) -> None:
        """Make the parameters known to a function."""
        names = (name.data for name in state.mapped.parameters)
        for (argument, slot), name in zip(self.parameters.items(), names, strict=True):
            if isinstance(argument.type, TensorArgumentType):
                state.values[argument] = self._tensor(state, name, argument.type, slot)
            elif argument.type == IntegerType(1):
                zero = state.emit.number(0)
                state.define(argument, [state.emit.pure(f"arith.cmpi ne, %slot{slot}, {zero} : i64")])
            else:
                state.define(argument, [f"%slot{slot}"])

    def _tensor(self, state: LlvmState, name: str, type_: TensorArgumentType, slot: int) -> AddressedMemory:
        known = self.facts.strides.get(name, (UNKNOWN,) * len(type_.shape))
        strides = (stride if stride != UNKNOWN else f"%slot{slot + 1 + d}" for d, stride in enumerate(known))
        sizes = (state.sizes.get(d) if isinstance(d, str) else d for d in type_.shape)
        element = memory_element(type_.element, state.mapped)
        return AddressedMemory(f"%slot{slot}", element, tuple(strides), tuple(sizes))

    def numbers(self) -> dict[str, Number]:
        """Size → its number where the facts know it, else the name of its slot."""
        result: dict[str, Number] = {n: f"%slot{self.first_size + k}" for k, n in enumerate(self.sizes)}
        return {**result, **self.facts.sizes}


def _new_state(mapped: MappedOp, slots: Slots, lanes: Lanes) -> LlvmState:
    """A function's state after the top level's arithmetic on sizes, which every function repeats."""
    state = LlvmState(mapped, lanes, slots.numbers(), _HANDLERS, LlvmEmitter(slots.to_bf16))
    slots.bind(state)
    for operation in mapped.body.block.ops:
        if isinstance(operation, BufferOp):
            state.values[operation.result] = _buffer(state, operation, f"%slot{slots.buffers[operation]}")
        elif not isinstance(operation, LaunchOp):
            state.lower(operation)
    return state


def _buffer(state: LlvmState, operation: BufferOp, pointer: str) -> AddressedMemory:
    return _contiguous(state, operation, pointer, _sizes_of(state, operation))


def _sizes_of(state: LlvmState, operation: BufferOp) -> list[Number]:
    return buffer_sizes(operation, lambda size: state.emit.known(state.scalar(size)))


def _contiguous(
    state: LlvmState, operation: ScratchOp | BufferOp, pointer: str, sizes: Sequence[Number]
) -> AddressedMemory:
    element = memory_element(operation.result.type.element, operation)
    return AddressedMemory(pointer, element, tuple(contiguous_strides(sizes, state.emit.multiply)), tuple(sizes))


def _prepare(mapped: MappedOp, slots: Slots, lanes: Lanes, name: str) -> str:
    """The function that computes bytes of buffers, programs of launches and bytes of swap space from the sizes."""
    state = _new_state(mapped, slots, lanes)
    emit = state.emit
    results: list[Number] = []
    for operation in slots.buffers:
        size: Number = element_bytes(state.memory(operation.result).element)
        for count in _sizes_of(state, operation):
            size = emit.multiply(size, emit.integer("maxsi", count, 0))
        results.append(size)
    for launch in launches_of(mapped):
        programs: Number = 1
        for operand in launch.grid:
            programs = emit.multiply(programs, emit.integer("maxsi", state.scalar(operand), 0))
        results.append(programs)
    most: Number = 0
    for launch in launches_of(mapped):
        needed: Number = 0
        for operation in swap_of_a_call(launch):
            _buffer(state, operation, "%workspace")
            needed = emit.add(needed, _swap_bytes(state, operation))
        most = emit.integer("maxsi", most, needed) if needed else most
    return _writing(emit, slots, name, [*results, most])


def _writing(emit: LlvmEmitter, slots: Slots, name: str, results: Sequence[Number]) -> str:
    """The function that computes numbers from the sizes, and writes them to memory."""
    for number, result in enumerate(results):
        pointer = emit.offset("%out", number, "i64")
        emit.line(f"llvm.store {emit.number(result)}, {pointer} {{alignment = 8 : i64}} : i64, !llvm.ptr")
    emit.line("llvm.return")
    body = emit.text()
    return f"llvm.func @{name}(%arguments: !llvm.ptr, %out: !llvm.ptr) {{\n{_loads(slots, _used(body))}\n{body}\n}}"


def _in_turn(mapped: MappedOp, slots: Slots, lanes: Lanes, name: str) -> str:
    """The function that computes, of each launch, how many programs find in turn what the first of them kept."""
    state = _new_state(mapped, slots, lanes)
    emit = state.emit
    results: list[Number] = []
    for launch in launches_of(mapped):
        programs: Number = 1
        for number in _fastest_kept_along(launch):
            programs = emit.multiply(programs, emit.integer("maxsi", state.scalar(launch.grid[number]), 0))
        results.append(programs)
    return _writing(emit, slots, name, results)


def _fastest_kept_along(launch: LaunchOp) -> list[int]:
    """The fewest of a launch's fastest coordinates that programs keep something for each other along."""
    block = launch.body.block
    found = [op.coordinates for op in block.walk() if isinstance(op, FirstOp)]
    return min(([block.args.index(each) for each in coordinates] for coordinates in found), key=len, default=[])


def _swap_bytes(state: LlvmState, operation: BufferOp) -> Number:
    """Bytes of swap space in whole lines; none where a size is negative."""
    emit = state.emit
    size: Number = element_bytes(memory_element(operation.result.type.element, operation))
    for count in _sizes_of(state, operation):
        size = emit.multiply(size, count if isinstance(count, int) else emit.integer("maxsi", count, 0))
    return emit.integer("andi", emit.add(size, WORKSPACE_ALIGNMENT - 1), -WORKSPACE_ALIGNMENT)


def _launch(mapped: MappedOp, slots: Slots, lanes: Lanes, launch: LaunchOp, name: str) -> tuple[str, int]:
    """The functions of a launch, and its bytes of workspace: one unpacks slots, and one loops over programs.

    There are two because only a function's parameters can tell LLVM that pointers do not overlap.
    """
    state = _new_state(mapped, slots, lanes)
    emit = state.emit
    state.on_matrices = uses_matrices(launch)
    if (shape := launch_shape(launch)) is not None:
        set_shape(state, shape)
        state.matrix_shape = shape
    program = state.program = emit.name()
    emit.line(f"scf.for {program} = %begin to %end step {emit.number(1)} : i64 {{")
    with state.region():
        _coordinates(state, launch, program)
        state.walk(launch.body.block)
    emit.line("}")
    if state.on_matrices:
        matrix_call(state, "release")
    if any("streaming" in op.properties for op in launch.body.walk()):
        emit.line("llvm.fence seq_cst")  # stores past the caches are not ordered by themselves
    emit.line("llvm.return")
    # The end of the rest of the workspace is known only now.
    swap = (
        f"%swap_offset = arith.constant {state.workspace.most} : i64\n"
        "%swap = llvm.getelementptr %workspace[%swap_offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8\n"
    )
    body = (swap if state.swap_top else "") + emit.text()
    used = _used(body)
    parameters = [
        f"%slot{slot}: {slots.types[slot]}" + (" {llvm.noalias}" if slot in slots.noalias else "") for slot in used
    ]
    parameters += ["%begin: i64", "%end: i64", "%workspace: !llvm.ptr {llvm.noalias}"]
    types = ", ".join([*(slots.types[slot] for slot in used), "i64", "i64", "!llvm.ptr"])
    values = ", ".join([*(f"%slot{slot}" for slot in used), "%begin", "%end", "%workspace"])
    attributes = '"noinline"' + (f', "{IN_ORDER}"' if _is_in_order(launch) else "")
    inner = f"llvm.func internal @{name}_body({', '.join(parameters)}) attributes {{passthrough = [{attributes}]}}"
    outer = f"llvm.func @{name}(%arguments: !llvm.ptr, %begin: i64, %end: i64, %workspace: !llvm.ptr)"
    call = f"llvm.call @{name}_body({values}) : ({types}) -> ()\nllvm.return"
    return f"{inner} {{\n{body}\n}}\n{outer} {{\n{_loads(slots, used)}\n{call}\n}}", state.workspace.most


def _is_in_order(launch: LaunchOp) -> bool:
    """Whether LLVM does best to keep the order of instructions: that of dots keeps operands in registers. Where much is
    computed beside them, its scheduler hides more latency than its spills cost."""
    operations = list(launch.body.walk())
    dots = sum(isinstance(op, DotOp) for op in operations)
    computed = sum(op.name in LLVM_ELEMENTWISE and isinstance(element_of(op.results[0]), AnyFloat) for op in operations)
    return computed < MOST_COMPUTED * dots


def _coordinates(state: LlvmState, launch: LaunchOp, program: str) -> None:
    """A program's coordinates from its number; the last varies fastest."""
    rest = program
    arguments = list(zip(launch.body.block.args, launch.grid, strict=True))
    for number, (argument, count) in reversed(list(enumerate(arguments))):
        size = state.scalar(count)
        state.define(argument, [state.emit.integer("remui", rest, size) if number else rest])
        if number:
            rest = state.emit.integer("divui", rest, size)


def _used(body: str) -> list[int]:
    return sorted({int(slot) for slot in re.findall(r"%slot(\d+)", body)})


def _loads(slots: Slots, used: list[int]) -> str:
    lines = []
    for slot in used:
        lines.append(f"%at{slot} = llvm.getelementptr %arguments[{slot}] : (!llvm.ptr) -> !llvm.ptr, i64")
        lines.append(f"%slot{slot} = llvm.load %at{slot} {{alignment = 8 : i64}} : !llvm.ptr -> {slots.types[slot]}")
    return "\n".join(lines)


def _lower_scratch(state: LlvmState, operation: ScratchOp | BufferOp) -> None:
    """Scratchpad and swap space of a program: part of its workspace."""
    type_ = operation.result.type
    if isinstance(operation, BufferOp) and operation.sizes:
        pointer = state.emit.offset("%swap", state.swap_top, "i8")
        state.values[operation.result] = _buffer(state, operation, pointer)
        state.swap_top = state.emit.add(state.swap_top, _swap_bytes(state, operation))
        return
    offset = state.workspace.take(scratch_bytes(type_, operation))
    pointer = state.emit.offset("%workspace", offset, "i8")
    sizes: list[Number] = [d for d in type_.shape if isinstance(d, int)]
    state.values[operation.result] = _contiguous(state, operation, pointer, sizes)


def _lower_first(state: LlvmState, operation: FirstOp) -> None:
    """A thread's first program, or one whose fastest coordinates are 0."""
    emit, zero = state.emit, state.emit.number(0)
    found = emit.pure(f"arith.cmpi eq, {state.program}, %begin : i64")
    at: Number = 0
    for coordinate in operation.coordinates:
        at = emit.integer("ori", at, state.scalar(coordinate))
    is_new = emit.pure(f"arith.cmpi eq, {emit.number(at)}, {zero} : i64")
    state.define(operation.result, [emit.pure(f"arith.ori {found}, {is_new} : i1")])


_HANDLERS: dict[str, Handler] = {
    **LLVM_ELEMENTWISE,
    "vk.scale": lower_scale,
    **LLVM_CASTS,
    **{op.name: lower_reduction for op in REDUCTIONS},
    **dict.fromkeys(("vk.barrier", "vk.boundary", "vk.print", "vk.assert"), ignore),
    "arith.constant": lower_constant,
    "vk.size": lambda state, op: state.define(op.result, [state.emit.number(state.sizes[op.size.data])]),
    "vk.scratch": _lower_scratch,
    "vk.buffer": _lower_scratch,
    "vk.load": lower_load,
    "vk.gather": lower_load,
    "vk.prefetch": lower_prefetch,
    "vk.store": lower_store,
    "vk.scatter": lower_store,
    "vk.fetch": lower_fetch,
    "vk.broadcast": lower_broadcast,
    "vk.position": lower_position,
    "vk.below": lower_below,
    "vk.scan": lower_scan,
    "vk.scan_by": lower_scan_by,
    "vk.last": lower_last,
    "vk.spill": lower_spill,
    "vk.reload": lower_reload,
    "vk.first": _lower_first,
    "vk.dot": lower_dot,
    "vk.words": lower_words,
    "vk.word_dot": lower_word_dot,
    "scf.for": lower_for,
    "scf.if": lower_if,
    "scf.while": lower_while,
}
