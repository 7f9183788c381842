"""From mapped IR to TTIR, Triton's IR of tensors: one module a launch."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i32, i64
from xdsl.dialects.scf import ForOp, YieldOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from vkernels.ir.dialect import REDUCTIONS, BufferOp, LaunchOp, MappedOp, ScratchOp, SizeOp, arith, tt
from vkernels.ir.facts import Facts
from vkernels.ir.launch_arguments import SWAP_ALIGNMENT

from ..common import Handler, buffer_sizes, ignore, launches_of, swap_of_a_call
from .accesses import lower_load, lower_store
from .across_programs import FLATTEN, can_flatten
from .builder import Number, TtirBuilder
from .carry_shapes import carry_shapes
from .control import lower_for, lower_if, lower_while
from .descriptors import make_descriptors
from .dots import lower_dot, lower_scaled_dot
from .elementwise import TTIR_CASTS, TTIR_ELEMENTWISE
from .fetches import lower_fetch
from .fuse_multiply_add import fuse_multiply_add
from .guard_loop_reductions import guard_loop_reductions
from .join_loops import join_loops
from .loads_of_dots import loads_of_dots
from .lowered import LoweredTtir, TtirLaunch, host_arithmetic
from .parameters import FunctionSignature, contiguous, sizes_read
from .positions import lower_below, lower_broadcast, lower_constant, lower_interleave, lower_position, lower_repeat
from .reductions import lower_last, lower_reduction, lower_scan, lower_scan_by
from .shapes_of_dots import shapes_of_dots
from .state import SLOT_BYTES, TtirState
from .store_in_parts import store_in_parts
from .tiles import element_bytes, memory_bytes, memory_element
from .warp_roles import HAS_ROLES


def lower_to_ttir(
    mapped: MappedOp, resident_programs: int = 0, stages: int = 1, adds_float8: bool = False, threads: int = 0
) -> LoweredTtir:
    """A mapped kernel's launches as functions for a GPU.

    `resident_programs`: above 0, every launch is persistent. `stages`: above 1, loops of dots of such launches go on
    from program to program where they can (`across_programs.py`), so that Triton pipelines them as one. `adds_float8`:
    tensor cores add products of f8 in fewer bits than f32 has (`TensorFormats`). `threads`: of a program, if known:
    then stores of very many elements a thread are cut (`store_in_parts.py`). Raises `PlanError` for tiles that no
    tensor of Triton's can be, and `UnsupportedError` for an operation or element type that has no form there.
    """
    name = mapped.sym_name.data
    host = host_arithmetic(mapped, lambda op: element_bytes(memory_element(op.result.type.element, op)))
    symbol = re.sub(r"[^A-Za-z0-9_]", "_", name)
    prefix = symbol if symbol[:1].isalpha() else f"k{symbol}"
    launches = tuple(
        _Launch(
            mapped, launch, f"{prefix}_launch_{number}", resident_programs > 0, stages > 1, adds_float8, threads
        ).lower()
        for number, launch in enumerate(launches_of(mapped))
    )
    return LoweredTtir(name, launches, sizes_read(mapped), len(host.buffers), host)


class _Launch:
    def __init__(
        self, mapped: MappedOp, launch: LaunchOp, name: str, is_persistent: bool, is_pipelined: bool, adds: bool,
        threads: int,
    ):  # fmt: skip
        self.mapped, self.launch, self.name = mapped, launch, name
        self.has_swap = any(isinstance(op, BufferOp) for op in launch.body.walk())
        self.is_flat = is_pipelined and can_flatten(launch, Facts.from_attribute(mapped.facts).distinct)
        self.is_pipelined, self.threads = is_pipelined, threads
        self.is_persistent = is_persistent or self.has_swap
        self.entry = Block()
        self.state = TtirState(mapped, TtirBuilder(self.entry), _HANDLERS, adds_float8=adds)
        self.build = self.state.build
        self.signature = FunctionSignature(mapped, self.entry)

    def lower(self) -> TtirLaunch:
        self.build.location = self.mapped.location
        self.signature.declare(self.state)
        self._top_level()
        self.build.location = self.launch.location
        make_descriptors(self.state, self.launch)
        self.build.location = self.launch.location
        program: SSAValue = self.build.pure(tt.ProgramIdOp())
        swap_size = self._swap(program) if self.has_swap else None
        if self.is_persistent:
            self._loop(program)
        else:
            self._program(program)
        self.build.add(tt.ReturnOp())
        state = self.state
        scratch_bytes = state.scratch_bytes
        if state.slot.result.uses.get_length():
            state.slot.properties["value"] = IntegerAttr(scratch_bytes - SLOT_BYTES, i32)
            self.build.constants.append(state.slot)
        if swap_size is not None:
            swap_size.properties["value"] = IntegerAttr(state.swap.top, i64)
        self.build.finish(self.entry)
        _remove_unused(self.entry)
        self._assume_sizes()
        parameters, attributes = self.signature.used()
        function = tt.FuncOp(self.name, Region(self.entry), attributes)
        function.location = self.launch.location
        loads_of_dots(shapes_of_dots(function))
        _remove_unused(self.entry)
        carry_shapes(function)
        if self.is_pipelined:
            join_loops(function)
        fuse_multiply_add(function)
        guard_loop_reductions(function)
        store_in_parts(function, self.threads)
        module = ModuleOp([function])
        module.verify()
        return TtirLaunch(
            self.name, module, parameters, scratch_bytes, state.swap.top, self.is_persistent, self.launch.warps
        )

    def _assume_sizes(self) -> None:
        """Say how large sizes are at least, so that loops over them surely run.

        Where one might not, matrix units of sm_90 take turns with all other instructions (ptxas C7513, C7515): on that
        way around the loop, plain instructions define the sums that they may still be adding to. Where warps divide a
        loop nothing is said: Triton's pass for sm_90 fails at operations that belong to no role.
        """
        loops = [op for op in self.entry.walk() if isinstance(op, ForOp)]
        if not loops or any(HAS_ROLES in loop.attributes for loop in loops):
            return
        for name, least in self.signature.facts.least.items():
            size = self.signature.sizes[name]
            if isinstance(size, SSAValue) and size.uses.get_length():
                number = arith.ConstantOp(IntegerAttr(least, i64))
                enough = arith.CmpiOp(size, number.result, "sge")
                added = [number, enough, tt.AssumeOp(enough.result)]
                for op in added:
                    op.location = self.mapped.location
                Rewriter.insert_op(added, InsertPoint.at_start(self.entry))

    def _top_level(self) -> None:
        """The arithmetic on sizes, which every launch repeats, and the buffers."""
        number = 0
        for op in self.mapped.body.block.ops:
            self.build.location = op.location
            if isinstance(op, SizeOp):
                self.state.define(op.result, self.build.number(self.signature.sizes[op.size.data]))
            elif isinstance(op, BufferOp):
                self.signature.buffer(self.state, op, number)
                number += 1
            elif not isinstance(op, LaunchOp):
                self.state.lower(op)

    def _swap(self, program: SSAValue) -> arith.ConstantOp:
        """The start of this resident program's swap space; the size is filled in when the launch has been lowered."""
        size = arith.ConstantOp(IntegerAttr(0, i64))
        self.build.add(size)
        top: SSAValue = size.result
        for op in swap_of_a_call(self.launch):
            self.state.swap_offsets[op.result] = top
            top = self.build.binary(arith.AddiOp, top, self._bytes_of(op))
        offset = self.build.binary(arith.MuliOp, self.build.number(program), top)
        self.state.swap_base = self.build.pure(tt.AddPtrOp(self.signature.swap(), offset))
        return size

    def _bytes_of(self, op: BufferOp) -> SSAValue:
        """Bytes of memory whose size depends on the call, in whole lines; none where a size is negative."""
        build = self.build
        size: Number = element_bytes(memory_element(op.result.type.element, op))
        for count in buffer_sizes(op, self.state.number):
            size = build.product(size, build.integer(arith.MaxSIOp, count, 0))
        lines = build.number(build.sum(size, SWAP_ALIGNMENT - 1))
        return build.binary(arith.AndIOp, lines, -SWAP_ALIGNMENT)

    def _loop(self, program: SSAValue) -> None:
        """Program after program, from the launch's first to its last."""
        step = self.build.pure(tt.NumProgramsOp())
        first = self.build.binary(arith.AddiOp, program, self.signature.first_program())
        body = Block(arg_types=[i32])
        with self.build.region(body):
            self._program(body.args[0])
            if self.state.scratchpad.top or self.has_swap:
                self.build.add(tt.BarrierOp())
            self.build.add(YieldOp())
        loop = ForOp(first, self.signature.programs(), step, [], body)
        if self.is_flat:
            loop.attributes[FLATTEN] = UnitAttr()
        self.build.add(loop)

    def _program(self, program: SSAValue) -> None:
        """A program, its coordinates computed from its number; the last coordinate varies fastest."""
        build, rest = self.build, program
        pairs = list(zip(self.launch.body.block.args, self.launch.grid, strict=True))
        for number, (argument, count) in reversed(list(enumerate(pairs))):
            part: Number = rest
            if number:
                size = build.number(self.state.number(count), i32)
                part, rest = build.binary(arith.RemUIOp, rest, size), build.binary(arith.DivUIOp, rest, size)
            self.state.define(argument, build.number(part))
        self.state.walk(self.launch.body.block)


def _remove_unused(block: Block) -> None:
    for op in reversed([op for outer in block.ops for op in outer.walk()]):
        if op.has_trait(Pure) and op.results and not any(result.uses.get_length() for result in op.results):
            Rewriter.erase_op(op)


def _lower_scratch(state: TtirState, op: ScratchOp) -> None:
    """Scratchpad: the next bytes of the program's scratchpad."""
    base = state.build.filled(state.scratchpad.take(memory_bytes(op.result.type, op)), i32)
    sizes: list[Number] = [d for d in op.result.type.shape if isinstance(d, int)]
    state.values[op.result] = contiguous(state, op, base, sizes)


def _lower_swap(state: TtirState, op: BufferOp) -> None:
    """Swap space: the next bytes of the resident program's swap space."""
    assert state.swap_base is not None, "a launch with swap space has a base"
    element = memory_element(op.result.type.element, op)
    base, given = state.swap_base, state.swap_offsets.get(op.result)
    offset = state.swap.take(memory_bytes(op.result.type, op)) if given is None else given
    if offset != 0:
        base = state.build.pure(tt.AddPtrOp(base, state.build.number(offset)))
    typed = state.build.pure(tt.BitcastOp(base, tt.PointerType(element)))
    state.values[op.result] = contiguous(state, op, typed, buffer_sizes(op, state.number))


def _stay(state: TtirState, op: Operation) -> None:
    """A tile that is put aside: Triton decides what registers hold."""
    state.values[op.results[0]] = state.values[op.operands[0]]


_HANDLERS: dict[str, Handler] = {
    **TTIR_ELEMENTWISE,
    **TTIR_CASTS,
    **{op.name: lower_reduction for op in REDUCTIONS},
    **dict.fromkeys(("vk.boundary", "vk.print", "vk.assert"), ignore),
    "arith.constant": lower_constant,
    "vk.scratch": _lower_scratch,
    "vk.buffer": _lower_swap,
    **dict.fromkeys(("vk.spill", "vk.reload"), _stay),
    "vk.barrier": lambda state, op: state.build.add(tt.BarrierOp()),
    "vk.load": lower_load,
    "vk.gather": lower_load,
    "vk.store": lower_store,
    "vk.scatter": lower_store,
    "vk.fetch": lower_fetch,
    "vk.broadcast": lower_broadcast,
    "vk.position": lower_position,
    "vk.below": lower_below,
    "vk.interleave": lower_interleave,
    "vk.repeat": lower_repeat,
    "vk.scaled_dot": lower_scaled_dot,
    "vk.scan": lower_scan,
    "vk.scan_by": lower_scan_by,
    "vk.last": lower_last,
    "vk.dot": lower_dot,
    "scf.for": lower_for,
    "scf.if": lower_if,
    "scf.while": lower_while,
}
