"""Run an expanded function on arrays: its operations, one LLVM instruction each, in a loop that LLVM compiles."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from xdsl.dialects import scf
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, ModuleOp, f32, f64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from vkernels.ir.dialect import arith, context
from vkernels.ir.transforms.expand_math import ExpandMath

Array = np.ndarray
BINARY = {
    "arith.addf": "fadd", "arith.subf": "fsub", "arith.mulf": "fmul", "arith.divf": "fdiv", "arith.addi": "add",
    "arith.subi": "sub", "arith.andi": "and_", "arith.ori": "or_", "arith.xori": "xor", "arith.shli": "shl",
    "arith.shrsi": "ashr",
}  # fmt: skip
INTRINSICS = {
    "math.absf": "fabs", "math.copysign": "copysign", "math.floor": "floor", "math.fma": "fma",
    "math.roundeven": "roundeven", "math.sqrt": "sqrt",
}  # fmt: skip
CASTS = {"arith.bitcast": "bitcast", "arith.extf": "fpext", "arith.truncf": "fptrunc"}
COMPARISONS = {"eq": "==", "slt": "<", "sgt": ">"}


def llvm_type(type_: Attribute) -> ir.Type:
    if isinstance(type_, IntegerType):
        return ir.IntType(type_.width.data)
    return {Float32Type: ir.FloatType(), Float64Type: ir.DoubleType()}[type(type_)]


class Translation:
    """Operations as instructions. Any that expansions must not leave is a KeyError."""

    def __init__(self, builder: ir.IRBuilder):
        self.builder = builder
        self.values: dict[SSAValue, ir.Value] = {}

    def block(self, block: Block) -> None:
        for operation in block.ops:
            if not isinstance(operation, scf.YieldOp):
                self.operation(operation)

    def operation(self, op: Operation) -> None:
        operands = [self.values[operand] for operand in op.operands]
        if isinstance(op, arith.ConstantOp):
            value = op.value.value.data
            self.values[op.result] = ir.Constant(llvm_type(op.result.type), value)
        elif isinstance(op, scf.IfOp):
            self.branch(op)
        else:
            self.values[op.results[0]] = self.instruction(op, operands)

    def instruction(self, op: Operation, operands: list[ir.Value]) -> ir.Value:
        build, result = self.builder, llvm_type(op.results[0].type)
        if op.name in BINARY:
            return getattr(build, BINARY[op.name])(*operands)
        if op.name in CASTS:
            return getattr(build, CASTS[op.name])(operands[0], result)
        if op.name == "arith.negf":
            return build.fneg(*operands)
        if op.name == "arith.select":
            return build.select(*operands)
        if isinstance(op, arith.CmpfOp):
            predicate = op.relation
            words = {"eq": "==", "ne": "!=", "lt": "<", "gt": ">", "no": "uno"}
            if predicate == "uno":
                return build.fcmp_unordered("uno", *operands)
            compare = build.fcmp_ordered if predicate[0] == "o" else build.fcmp_unordered
            return compare(words[predicate[1:]], *operands)
        if isinstance(op, arith.CmpiOp):
            return build.icmp_signed(COMPARISONS[op.relation], *operands)
        function = build.module.declare_intrinsic(
            f"llvm.{INTRINSICS[op.name]}", [result], ir.FunctionType(result, [result] * len(operands))
        )
        return build.call(function, operands)

    def branch(self, op: scf.IfOp) -> None:
        with self.builder.if_else(self.values[op.cond]) as (then, otherwise):
            ends = []
            for side, region in ((then, op.true_region), (otherwise, op.false_region)):
                with side:
                    self.block(region.block)
                    ends.append((self.builder.block, [self.values[v] for v in region.block.last_op.operands]))
        for number, result in enumerate(op.results):
            phi = self.builder.phi(llvm_type(result.type))
            for block, values in ends:
                phi.add_incoming(values[number], block)
            self.values[result] = phi


def expanded(kind: type[Operation], element: Attribute, operands: int) -> ModuleOp:
    """A module of one scalar function of the math dialect, expanded; the block's arguments are its operands."""
    block = Block(arg_types=[element] * operands)
    operation = kind.create(operands=block.args, result_types=[element])
    result = arith.NegfOp.create(operands=operation.results, result_types=[element])
    block.add_ops([operation, result])
    module = ModuleOp(Region(block))
    ExpandMath().apply(context(), module)
    return module


@cache
def machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(llvm.get_host_cpu_name(), features, opt=3, jit=True)


@cache
def compiled(kind: type[Operation], dtype: str, operands: int) -> Callable[..., Array]:
    """The expanded function as a function of contiguous arrays of that dtype."""
    module = expanded(kind, f32 if dtype == "float32" else f64, operands)
    element = llvm_type(f32 if dtype == "float32" else f64)
    result = ir.Module()
    pointer = element.as_pointer()
    function = ir.Function(result, ir.FunctionType(ir.VoidType(), [pointer] * (operands + 1) + [ir.IntType(64)]), "f")
    entry, loop, done = (function.append_basic_block(name) for name in ("entry", "loop", "done"))
    build = ir.IRBuilder(entry)
    build.cbranch(build.icmp_signed("==", function.args[-1], ir.IntType(64)(0)), done, loop)
    build.position_at_end(loop)
    index = build.phi(ir.IntType(64))
    index.add_incoming(ir.IntType(64)(0), entry)
    translation = Translation(build)
    for argument, value in zip(function.args, module.body.block.args, strict=False):
        translation.values[value] = build.load(build.gep(argument, [index]))
    last = module.body.block.last_op
    translation.block(module.body.block)
    build.store(translation.values[last.operands[0]], build.gep(function.args[operands], [index]))
    following = build.add(index, ir.IntType(64)(1))
    index.add_incoming(following, build.block)
    build.cbranch(build.icmp_signed("<", following, function.args[-1]), loop, done)
    ir.IRBuilder(done).ret_void()
    return _load(str(result), dtype, operands)


def _load(text: str, dtype: str, operands: int) -> Callable[..., Array]:
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine(), options)
    builder.getModulePassManager().run(parsed, builder)
    engine = llvm.create_mcjit_compiler(parsed, machine())
    engine.finalize_object()
    code = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (operands + 1), ctypes.c_int64)(engine.get_function_address("f"))

    def call(*arrays: Array) -> Array:
        arrays = tuple(np.ascontiguousarray(array, dtype) for array in arrays)
        out = np.full_like(arrays[0], np.nan)
        code(*(array.ctypes.data for array in arrays), out.ctypes.data, out.size)
        return out

    call.engine = engine  # type: ignore[attr-defined]  # keeps the code alive
    return call
