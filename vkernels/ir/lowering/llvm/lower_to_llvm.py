"""From mapped IR to MLIR that LLVM can take: scf, arith on vectors, and llvm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float64Type, IntegerType
from xdsl.ir import Block, BlockArgument, Operation

from ...dialect import REDUCTIONS, BufferOp, LaunchOp, MappedOp, MemoryType, ScratchOp, SizeOp, TensorArgumentType
from ...facts import UNKNOWN, Facts
from .accesses import lower_load, lower_store
from .casts import LLVM_CASTS
from .constants import lower_below, lower_broadcast, lower_constant, lower_position
from .control import lower_for, lower_if, lower_while
from .dots import lower_dot
from .elementwise import LLVM_ELEMENTWISE
from .emit import NOTHING, Number
from .failures import unsupported
from .reductions import lower_reduction, lower_scan
from .scaling import lower_scale
from .spills import lower_reload, lower_spill
from .state import WORKSPACE_ALIGNMENT, AddressedMemory, LlvmState
from .tiles import Lanes, element_bytes, memory_element, natural_width, scratch_bytes


@dataclass(frozen=True)
class LlvmModule:
    """MLIR text, and what its functions need; see "What the CPU lowering gives the runtime" in docs/mapped-ir.md.

    `sizes`: names of the size slots, in order. `buffers`: how many top-level buffers follow them.
    `launches`: names of the functions, in order. `workspace`: bytes, those that `prepare` computes aside.
    """

    name: str
    text: str
    slots: int
    sizes: tuple[str, ...]
    buffers: int
    prepare: str
    launches: tuple[str, ...]
    workspace: int


def lower_to_llvm(mapped: MappedOp, register_bytes: int = 32) -> LlvmModule:
    """Native functions of a mapped kernel, as MLIR text, for vector registers of so many bytes.

    Raises `UnsupportedError` for an operation or element type that has no native form.
    """
    name = mapped.sym_name.data
    slots = Slots(mapped)
    axis = None if mapped.lanes is None else mapped.lanes.data
    lanes = Lanes(axis, natural_width(mapped, axis, register_bytes))
    launches = [operation for operation in mapped.body.block.ops if isinstance(operation, LaunchOp)]
    functions = [_prepare(mapped, slots, lanes, launches, f"{name}_prepare")]
    names, workspace = [], 0
    for number, launch in enumerate(launches):
        names.append(f"{name}_launch_{number}")
        text, needed = _launch(mapped, slots, lanes, launch, names[-1])
        functions.append(text)
        workspace = max(workspace, needed)
    if any(f"@{NOTHING} " in function for function in functions):
        functions.insert(0, f"llvm.mlir.global internal constant @{NOTHING}(0 : i64) {{alignment = 8 : i64}} : i64")
    return LlvmModule(
        name, "module {\n" + "\n".join(functions) + "\n}\n", slots.count, slots.sizes, len(slots.buffers),
        f"{name}_prepare", tuple(names), workspace,
    )  # fmt: skip


class Slots:
    """The argument slots of a mapped kernel: the type in each, and which of them holds what."""

    def __init__(self, mapped: MappedOp):
        self.facts = Facts.from_attribute(mapped.facts)
        self.types: list[str] = []
        self.noalias: set[int] = set()
        self.parameters: dict[BlockArgument, int] = {}
        self.names = dict(zip(mapped.body.block.args, (p.data for p in mapped.parameters), strict=True))
        for argument in mapped.body.block.args:
            self.parameters[argument] = self._parameter(argument, mapped)
        top = list(mapped.body.block.ops)
        self.sizes = tuple(dict.fromkeys(op.size.data for op in top if isinstance(op, SizeOp)))
        self.first_size = len(self.types)
        self.types += ["i64"] * len(self.sizes)
        self.buffers = {op: len(self.types) + n for n, op in enumerate(o for o in top if isinstance(o, BufferOp))}
        self.noalias |= set(self.buffers.values())
        self.types += ["!llvm.ptr"] * len(self.buffers)

    @property
    def count(self) -> int:
        return len(self.types)

    def _parameter(self, argument: BlockArgument, mapped: MappedOp) -> int:
        first = len(self.types)
        if isinstance(argument.type, TensorArgumentType):
            if self.facts.distinct:
                self.noalias.add(first)
            self.types += ["!llvm.ptr", *["i64"] * len(argument.type.shape)]
        elif isinstance(argument.type, Float64Type):
            self.types.append("f64")
        elif argument.type in (IntegerType(64), IntegerType(1)):
            self.types.append("i64")
        else:
            raise unsupported(mapped, f"a parameter of type {argument.type}")
        return first

    def bind(self, state: LlvmState) -> None:
        """Make the parameters known to a function."""
        for argument, slot in self.parameters.items():
            if isinstance(argument.type, TensorArgumentType):
                state.values[argument] = self._tensor(state, argument, argument.type, slot)
            elif argument.type == IntegerType(1):
                zero = state.emit.number(0)
                state.define(argument, [state.emit.pure(f"arith.cmpi ne, {slot_name(slot)}, {zero} : i64")])
            else:
                state.define(argument, [slot_name(slot)])

    def _tensor(
        self, state: LlvmState, argument: BlockArgument, type_: TensorArgumentType, slot: int
    ) -> AddressedMemory:
        known = self.facts.strides.get(self.names[argument], (UNKNOWN,) * len(type_.shape))
        strides: list[Number] = [
            stride if stride != UNKNOWN else slot_name(slot + 1 + d) for d, stride in enumerate(known)
        ]
        sizes = tuple(state.sizes.get(d) if isinstance(d, str) else d for d in type_.shape)
        return AddressedMemory(slot_name(slot), memory_element(type_.element, state.mapped), tuple(strides), sizes)

    def size_names(self) -> dict[str, Number]:
        """Size → its number where facts say so, else the name of its slot."""
        result: dict[str, Number] = {n: slot_name(self.first_size + k) for k, n in enumerate(self.sizes)}
        return {**result, **self.facts.sizes}


def slot_name(slot: int) -> str:
    return f"%slot{slot}"


def _new_state(mapped: MappedOp, slots: Slots, lanes: Lanes) -> LlvmState:
    """A function's state after the top level's arithmetic on sizes, which every function repeats."""
    state = LlvmState(mapped, lanes, slots.size_names())
    slots.bind(state)
    for operation in mapped.body.block.ops:
        if isinstance(operation, BufferOp):
            state.values[operation.result] = _buffer(state, operation, slot_name(slots.buffers[operation]))
        elif not isinstance(operation, LaunchOp):
            lower(state, operation)
    return state


def _buffer(state: LlvmState, operation: BufferOp, pointer: str) -> AddressedMemory:
    given = iter(operation.sizes)
    sizes: list[Number] = []
    for dimension in operation.result.type.shape:
        if not isinstance(dimension, int):
            raise unsupported(operation, f"a buffer's dimension is a number or ?, not {dimension}")
        sizes.append(state.emit.known(state.scalar(next(given))) if dimension == DYNAMIC_INDEX else dimension)
    return _contiguous(state, operation, operation.result.type, pointer, sizes)


def _contiguous(
    state: LlvmState, operation: Operation, type_: MemoryType, pointer: str, sizes: list[Number]
) -> AddressedMemory:
    strides: list[Number] = []
    stride: Number = 1
    for size in reversed(sizes):
        strides.insert(0, stride)
        stride = state.emit.multiply(stride, size)
    return AddressedMemory(pointer, memory_element(type_.element, operation), tuple(strides), tuple(sizes))


def _prepare(mapped: MappedOp, slots: Slots, lanes: Lanes, launches: list[LaunchOp], name: str) -> str:
    state = _new_state(mapped, slots, lanes)
    emit = state.emit
    results: list[Number] = []
    for operation in slots.buffers:
        memory = state.memory(operation.result)
        elements: Number = element_bytes(memory.element)
        for size in memory.sizes:
            assert size is not None
            elements = emit.multiply(elements, emit.integer("maxsi", size, 0))
        results.append(elements)
    for launch in launches:
        programs: Number = 1
        for count in launch.grid:
            programs = emit.multiply(programs, emit.integer("maxsi", state.scalar(count), 0))
        results.append(programs)
    results.append(_swap_bytes(state, launches))
    for number, result in enumerate(results):
        pointer = emit.offset("%out", number, "i64")
        emit.line(f"llvm.store {emit.number(result)}, {pointer} {{alignment = 8 : i64}} : i64, !llvm.ptr")
    emit.line("llvm.return")
    body = emit.text()
    loads = "\n".join(_load_slot(slots, slot) for slot in _used(body))
    return f"llvm.func @{name}(%arguments: !llvm.ptr, %out: !llvm.ptr) {{\n{loads}\n{body}\n}}"


def _swap_bytes(state: LlvmState, launches: list[LaunchOp]) -> Number:
    """The most bytes that a program of any launch needs of swap space whose size the call decides."""
    most: Number = 0
    for launch in launches:
        needed: Number = 0
        for operation in launch.body.block.ops:
            if isinstance(operation, BufferOp) and operation.sizes:
                memory = _buffer(state, operation, "%workspace")
                needed = state.emit.add(needed, _memory_bytes(state, memory))
        most = state.emit.integer("maxsi", most, needed) if needed else most
    return most


def _memory_bytes(state: LlvmState, memory: AddressedMemory) -> Number:
    """Bytes of memory in whole lines; none where a size is negative."""
    emit = state.emit
    size: Number = element_bytes(memory.element)
    for count in memory.sizes:
        assert count is not None
        size = emit.multiply(size, count if isinstance(count, int) else emit.integer("maxsi", count, 0))
    return emit.integer("andi", emit.add(size, WORKSPACE_ALIGNMENT - 1), -WORKSPACE_ALIGNMENT)


def _launch(mapped: MappedOp, slots: Slots, lanes: Lanes, launch: LaunchOp, name: str) -> tuple[str, int]:
    """The functions of a launch, and the bytes of workspace: one that unpacks slots, and one that loops over programs.

    Two, because what LLVM knows of pointers that do not overlap hangs on a function's parameters.
    """
    state = _new_state(mapped, slots, lanes)
    emit = state.emit
    program = emit.name()
    emit.line(f"scf.for {program} = %begin to %end step {emit.number(1)} : i64 {{")
    with state.region():
        _coordinates(state, launch, program)
        _walk(state, launch.body.block)
    emit.line("}")
    if any("streaming" in op.properties for op in launch.body.walk()):
        emit.line("llvm.fence seq_cst")  # stores past the caches are not ordered by themselves
    emit.line("llvm.return")
    # Where the rest of the workspace ends is known only now.
    swap = f"%swap = llvm.getelementptr %workspace[{state.workspace.most}] : (!llvm.ptr) -> !llvm.ptr, i8\n"
    body = (swap if state.swap_top else "") + emit.text()
    used = _used(body)
    parameters = [
        f"{slot_name(slot)}: {slots.types[slot]}" + (" {llvm.noalias}" if slot in slots.noalias else "")
        for slot in used
    ]
    parameters += ["%begin: i64", "%end: i64", "%workspace: !llvm.ptr {llvm.noalias}"]
    types = ", ".join([*(slots.types[slot] for slot in used), "i64", "i64", "!llvm.ptr"])
    values = ", ".join([*map(slot_name, used), "%begin", "%end", "%workspace"])
    loads = "\n".join(_load_slot(slots, slot) for slot in used)
    inner = f'llvm.func internal @{name}_body({", ".join(parameters)}) attributes {{passthrough = ["noinline"]}}'
    outer = f"llvm.func @{name}(%arguments: !llvm.ptr, %begin: i64, %end: i64, %workspace: !llvm.ptr)"
    call = f"llvm.call @{name}_body({values}) : ({types}) -> ()\nllvm.return"
    return f"{inner} {{\n{body}\n}}\n{outer} {{\n{loads}\n{call}\n}}", state.workspace.most


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
    """The slots that a function's text names."""
    return sorted({int(slot) for slot in re.findall(r"%slot(\d+)", body)})


def _load_slot(slots: Slots, slot: int) -> str:
    place = f"%at{slot} = llvm.getelementptr %arguments[{slot}] : (!llvm.ptr) -> !llvm.ptr, i64"
    load = f"llvm.load %at{slot} {{alignment = 8 : i64}} : !llvm.ptr -> {slots.types[slot]}"
    return f"{place}\n{slot_name(slot)} = {load}"


# The walk


def _walk(state: LlvmState, block: Block) -> None:
    for operation in _body(block):
        lower(state, operation)


def _body(block: Block) -> Iterator[Operation]:
    return (operation for operation in block.ops if operation.name not in _TERMINATORS)


def lower(state: LlvmState, operation: Operation) -> None:
    """Emit one operation."""
    handler = _HANDLERS.get(operation.name)
    if handler is None:
        raise unsupported(operation, "this operation has no native form on a CPU")
    handler(state, operation)


def _lower_size(state: LlvmState, operation: SizeOp) -> None:
    state.define(operation.result, [state.emit.number(state.sizes[operation.size.data])])


def _lower_scratch(state: LlvmState, operation: ScratchOp | BufferOp) -> None:
    """Scratchpad and swap space of a program: a piece of its workspace."""
    type_ = operation.result.type
    if isinstance(operation, BufferOp) and operation.sizes:
        pointer = state.emit.offset("%swap", state.swap_top, "i8")
        memory = state.values[operation.result] = _buffer(state, operation, pointer)
        state.swap_top = state.emit.add(state.swap_top, _memory_bytes(state, memory))
        return
    offset = state.workspace.take(scratch_bytes(type_, operation))
    pointer = state.emit.offset("%workspace", offset, "i8")
    sizes: list[Number] = [d for d in type_.shape if isinstance(d, int)]
    state.values[operation.result] = _contiguous(state, operation, type_, pointer, sizes)


def _ignore(state: LlvmState, operation: Operation) -> None:
    """On a CPU one thread runs a program, in order; prints and assertions are for checked kernels."""


_TERMINATORS = ("scf.yield", "scf.condition", "vk.yield")

Handler = Callable[[LlvmState, Any], None]

_HANDLERS: dict[str, Handler] = {
    **LLVM_ELEMENTWISE,
    "vk.scale": lower_scale,
    **LLVM_CASTS,
    **{op.name: lower_reduction for op in REDUCTIONS},
    **dict.fromkeys(("vk.barrier", "vk.boundary", "vk.print", "vk.assert"), _ignore),
    "arith.constant": lower_constant,
    "vk.size": _lower_size,
    "vk.scratch": _lower_scratch,
    "vk.buffer": _lower_scratch,
    "vk.load": lower_load,
    "vk.gather": lower_load,
    "vk.store": lower_store,
    "vk.scatter": lower_store,
    "vk.broadcast": lower_broadcast,
    "vk.position": lower_position,
    "vk.below": lower_below,
    "vk.scan": lower_scan,
    "vk.spill": lower_spill,
    "vk.reload": lower_reload,
    "vk.dot": lower_dot,
    "scf.for": lambda state, operation: lower_for(state, operation, _walk),
    "scf.if": lambda state, operation: lower_if(state, operation, _walk),
    "scf.while": lambda state, operation: lower_while(state, operation, _walk),
}
