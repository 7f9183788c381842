"""What the operations of tt compute."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import math, scf
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.dialects.test import TestOp as UnknownOp
from xdsl.ir import Block, Region

from vkernels.ir.dialect import arith, tt
from vkernels.ir.errors import ArgumentError, IRError
from vkernels.ir.interpret.ttir import RuntimeMemory, run_ttir

from .modules import Kernel, combine, pointer

ELEMENTS = {f64: np.float64, f32: np.float32, f16: np.float16, bf16: np.uint16, i8: np.int8, i16: np.int16,
            i32: np.int32, i64: np.int64}  # fmt: skip


def unary(element, result, sizes, operation, data, out):
    """`out` of what an operation makes of `data`, whole tensors in row-major order."""
    k = Kernel(pointer(element), pointer(result))
    x, y = k.arguments
    tile = k.load(x, k.range(data.size))
    if len(sizes) > 1:
        tile = k.do(tt.ReshapeOp(tile, sizes))
    value = operation(k, tile)
    flat = k.do(tt.ReshapeOp(value, [out.size])) if len(tt.shape(value.type)) != 1 else value
    k.store(y, k.range(out.size), flat)
    k.run(data, out)
    return out


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_loads_and_stores_keep_every_bit(element):
    seed = 7
    bits = np.random.default_rng(seed).integers(0, 256, 64 * np.dtype(ELEMENTS[element]).itemsize, np.uint8)
    data = bits.view(ELEMENTS[element])
    out = np.zeros_like(data)
    unary(element, element, [64], lambda k, tile: tile, data, out)
    np.testing.assert_array_equal(out.view(np.uint8), bits)


def test_inactive_elements_load_other_and_store_nothing():
    k = Kernel(pointer(f32), pointer(f32))
    x, y = k.arguments
    offsets = k.range(8)
    tile = k.load(x, offsets, k.below(offsets, 3), k.filled(9, f32, 8))
    k.store(y, offsets, tile, k.below(offsets, 5))
    out = np.full(8, -1, np.float32)
    k.run(np.arange(3, dtype=np.float32), out)
    np.testing.assert_array_equal(out, [0, 1, 2, 9, 9, -1, -1, -1])


def test_inactive_elements_without_other_are_poison():
    k = Kernel(pointer(f32), pointer(f32))
    x, y = k.arguments
    offsets = k.range(4)
    k.store(y, offsets, k.load(x, offsets, k.below(offsets, 3)))
    out = np.zeros(4, np.float32)
    k.run(np.ones(3, np.float32), out)
    np.testing.assert_array_equal(out, [1, 1, 1, np.nan])


def test_pointers_start_at_the_first_element_of_a_view():
    memory = np.arange(20, dtype=np.float32)
    k = Kernel(pointer(f32), pointer(f32))
    x, y = k.arguments
    stride = k.do(arith.MuliOp(k.range(4), k.filled(-2, i32, 4)))
    k.store(y, k.range(4), k.load(x, stride))
    out = np.zeros(4, np.float32)
    k.run(memory[16:8:-2], out)
    np.testing.assert_array_equal(out, [16, 14, 12, 10])


def test_each_program_knows_its_number_in_any_order():
    def kernel():
        k = Kernel(pointer(i32))
        number = k.do(tt.ProgramIdOp())
        total = k.do(arith.AddiOp(k.do(arith.MuliOp(k.do(tt.NumProgramsOp()), k.number(100))), number))
        k.do(tt.StoreOp(k.do(tt.AddPtrOp(k.arguments[0], number)), total))
        return k

    for order in (None, 3):
        out = np.zeros(5, np.int32)
        kernel().run(out, grid=5, order=order)
        np.testing.assert_array_equal(out, np.arange(500, 505))


def test_shapes():
    data = np.arange(8, dtype=np.int32)

    def moved(k, tile):
        return k.do(tt.TransOp(tile, [1, 0]))

    np.testing.assert_array_equal(
        unary(i32, i32, [2, 4], moved, data, np.zeros(8, np.int32)), data.reshape(2, 4).T.ravel()
    )

    def repeated(k, tile):
        return k.do(tt.BroadcastOp(k.do(tt.ExpandDimsOp(tile, 1)), [8, 2]))

    np.testing.assert_array_equal(unary(i32, i32, [8], repeated, data, np.zeros(16, np.int32)), np.repeat(data, 2))


@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_run_their_body(axis):
    seed = 5
    data = np.random.default_rng(seed).normal(size=(8, 16))
    for op, function in ((arith.AddfOp, np.sum), (arith.MaximumfOp, np.max), (arith.MulfOp, np.prod)):
        body = combine(op, f64, tt.ReduceReturnOp)
        out = np.zeros(data.shape[1 - axis])
        unary(f64, f64, [8, 16], lambda k, tile, b=body: k.do(tt.ReduceOp(tile, axis, b)), data.ravel(), out)
        np.testing.assert_allclose(out, function(data, axis=axis), rtol=1e-14)


def test_a_reduction_to_a_scalar():
    k = Kernel(pointer(i32), pointer(i32))
    x, y = k.arguments
    body = combine(arith.AddiOp, i32, tt.ReduceReturnOp)
    k.do(tt.StoreOp(y, k.do(tt.ReduceOp(k.load(x, k.range(32)), 0, body))))
    out = np.zeros(1, np.int32)
    k.run(np.arange(32, dtype=np.int32), out)
    assert out[0] == 496


@pytest.mark.parametrize("axis", [0, 1])
def test_scans_run_their_body_on_what_came_before(axis):
    data = np.arange(1, 33, dtype=np.int64).reshape(4, 8)
    for op, expected in (
        (arith.AddiOp, np.cumsum(data, axis)),
        (arith.MaxSIOp, np.maximum.accumulate(data, axis)),
    ):
        body = combine(op, i64, tt.ScanReturnOp)
        out = np.zeros(32, np.int64)
        unary(i64, i64, [4, 8], lambda k, tile, b=body: k.do(tt.ScanOp([tile], axis, b)), data.ravel(), out)
        np.testing.assert_array_equal(out.reshape(4, 8), expected)


def dot(element, total, precision, a, b):
    k = Kernel(pointer(element), pointer(element), pointer(total))
    left = k.do(tt.ReshapeOp(k.load(k.arguments[0], k.range(a.size)), a.shape))
    right = k.do(tt.ReshapeOp(k.load(k.arguments[1], k.range(b.size)), b.shape))
    start = k.filled(1, total, a.shape[0], b.shape[1])
    product = k.do(tt.DotOp(left, right, start, precision))
    out = np.zeros(a.shape[0] * b.shape[1], ELEMENTS[total])
    k.store(k.arguments[2], k.range(out.size), k.do(tt.ReshapeOp(product, [out.size])))
    k.run(a.ravel(), b.ravel(), out)
    return out.reshape(a.shape[0], b.shape[1])


def test_dot_of_f16_accumulates_in_f32():
    seed = 1
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(16, 64)).astype(np.float16), random.normal(size=(64, 16)).astype(np.float16)
    exact = 1 + a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(dot(f16, f32, "ieee", a, b), exact, rtol=1e-7)


def test_dot_of_tf32_drops_the_operands_last_bits():
    a = np.full((16, 16), 1 + 2.0**-12, np.float32)
    assert (dot(f32, f32, "tf32", a, a) == 17).all()
    assert (dot(f32, f32, "ieee", a, a) > 17).all()


def test_dot_of_i8_is_exact():
    a = np.full((16, 32), -128, np.int8)
    assert (dot(i8, i32, "ieee", a, a.T.copy()) == 1 + 32 * 128 * 128).all()


def test_precise_roots_and_quotients():
    data = np.array([2, 3, 5, 7], np.float32)

    def both(k, tile):
        return k.do(tt.PreciseDivOp(k.do(tt.PreciseSqrtOp(tile)), k.filled(3, f32, 4)))

    np.testing.assert_array_equal(unary(f32, f32, [4], both, data, np.zeros(4, np.float32)), np.sqrt(data) / 3)


def test_bitcasts_of_values_and_of_pointers():
    data = np.array([1, -2, 0.5, 3], np.float32)
    out = np.zeros(4, np.int32)
    unary(f32, i32, [4], lambda k, tile: k.do(tt.BitcastOp(tile, tt.tensor(i32, [4]))), data, out)
    np.testing.assert_array_equal(out, data.view(np.int32))
    k = Kernel(pointer(i1), pointer(i8))
    bytes_ = k.do(tt.BitcastOp(k.arguments[0], pointer(i8)))
    k.store(k.arguments[1], k.range(4), k.load(bytes_, k.range(4)))
    flags, seen = np.array([True, False, True, True]), np.zeros(4, np.int8)
    k.run(flags, seen)
    np.testing.assert_array_equal(seen, [1, 0, 1, 1])


def test_bf16_values_are_rounded_once():
    out = np.zeros(4, np.uint16)
    data = np.array([1, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 300.7], np.float32)
    unary(f32, bf16, [4], lambda k, tile: k.do(arith.TruncFOp(tile, tt.tensor(bf16, [4]))), data, out)
    np.testing.assert_array_equal((out.astype(np.uint32) << 16).view(np.float32), [1, 1, 1 + 2.0**-6, 300])


def test_scalars_and_math():
    k = Kernel(pointer(f32), f32, i64)
    out, factor, offset = k.arguments
    power = k.do(math.ExpOp(factor))
    k.do(tt.StoreOp(k.do(tt.AddPtrOp(out, offset)), power))
    result = np.zeros(4, np.float32)
    k.run(result, 2.0, 3)
    np.testing.assert_array_equal(result, [0, 0, 0, np.float32(np.exp(2.0))])


def test_loops_branches_and_while():
    k = Kernel(pointer(i32))
    (out,) = k.arguments

    def step(position):
        is_odd = k.do(arith.TruncIOp(position, i1))
        branch = Block()
        outer, k.here = k.here, branch
        k.do(tt.StoreOp(k.do(tt.AddPtrOp(out, position)), position))
        k.do(scf.YieldOp())
        k.here = outer
        k.do(scf.IfOp(is_odd, [], Region(branch), Region(Block([scf.YieldOp()]))))

    k.loop(6, step)
    result = np.zeros(6, np.int32)
    k.run(result)
    np.testing.assert_array_equal(result, [0, 1, 0, 3, 0, 5])


def test_the_scratchpad_holds_narrow_elements_extended_with_zeros():
    for bits, expected in ((8, 0xFE), (16, 0xFFFE), (32, -2)):
        k = Kernel(pointer(i32))
        offsets = k.do(arith.MuliOp(k.range(4), k.filled(bits // 8, i32, 4)))
        k.do(tt.ScratchpadOp.store(offsets, k.filled(-2, i32, 4), bits))
        k.barrier()
        k.store(k.arguments[0], k.range(4), k.do(tt.ScratchpadOp.load(offsets, bits, tt.tensor(i32, [4]))))
        out = np.zeros(4, np.int32)
        k.run(out, scratch_bytes=16)
        np.testing.assert_array_equal(out, [expected] * 4)
    k = Kernel(pointer(i64))
    offsets = k.do(arith.MuliOp(k.range(4), k.filled(8, i32, 4)))
    k.do(tt.ScratchpadOp.store(offsets, k.filled(-(1 << 40), i64, 4), 64))
    k.barrier()
    k.store(k.arguments[0], k.range(4), k.do(tt.ScratchpadOp.load(offsets, 64, tt.tensor(i64, [4]))))
    wide = np.zeros(4, np.int64)
    k.run(wide, scratch_bytes=32)
    np.testing.assert_array_equal(wide, [-(1 << 40)] * 4)


@pytest.mark.parametrize(
    ("kind", "element", "expected"),
    [
        (tt.Atomic.ADD, i32, 12 + 3 * 5),
        (tt.Atomic.MAX, i32, 12),
        (tt.Atomic.MIN, i32, 5),
        (tt.Atomic.UMAX, i32, 12),
        (tt.Atomic.UMIN, i32, 5),
        (tt.Atomic.FADD, f32, 12 + 3 * 5),
        (tt.Atomic.FADD, bf16, 12 + 3 * 5),
    ],
    ids=str,
)
def test_atomic_updates_of_several_programs(kind, element, expected):
    k = Kernel(pointer(element))
    k.do(tt.AtomicOp(kind, k.at(k.arguments[0], k.filled(1, i32, 1)), k.filled(5, element, 1)))
    out = np.full(2, 12, np.float32 if element == bf16 else ELEMENTS[element])
    if element == bf16:
        out = (out.view(np.uint32) >> 16).astype(np.uint16)
    k.run(out, grid=3)
    assert out[0] != out[1] or expected == 12
    shown = (out.astype(np.uint32) << 16).view(np.float32) if element == bf16 else out
    np.testing.assert_array_equal(shown, [12, expected])


def test_buffers_last_from_launch_to_launch():
    buffer = RuntimeMemory("partial", 16)
    k = Kernel(pointer(f32))
    k.store(k.arguments[0], k.range(4), k.filled(3, f32, 4))
    k.run(buffer)
    k = Kernel(pointer(f32), pointer(f32))
    k.store(k.arguments[1], k.range(4), k.load(k.arguments[0], k.range(4)))
    out = np.zeros(4, np.float32)
    k.run(buffer, out)
    np.testing.assert_array_equal(out, [3] * 4)


def test_an_unknown_operation_is_named():
    k = Kernel()
    k.do(UnknownOp())
    with pytest.raises(IRError, match=r"does not know test\.op"):
        k.run()


def test_arguments_that_do_not_fit():
    for arguments, message in (
        ((np.zeros(4, np.float32),), "takes 2 arguments, not 1"),
        ((3, 3), "argument 0 is a int, expected an array"),
        ((np.zeros(4, np.float32), np.zeros(3)), "argument 1 is memory, expected a number"),
        ((np.zeros(4, np.float32), 1 << 31), "argument 1 is 2147483648, which i32 cannot hold"),
    ):
        with pytest.raises(ArgumentError, match=message):
            Kernel(pointer(f32), i32).run(*arguments)


def test_divisibility_that_does_not_hold_is_refused():
    aligned = RuntimeMemory("b", 64)
    k = Kernel(pointer(f32), i32, divisibility=(16, 16))
    k.run(aligned, 32)
    with pytest.raises(ArgumentError, match="the value 8 of argument 1 is no multiple of 16"):
        Kernel(pointer(f32), i32, divisibility=(16, 16)).run(aligned, 8)
    with pytest.raises(ArgumentError, match="the value 8 of argument `count` is no multiple of 16"):
        Kernel(pointer(f32), i32, divisibility=(16, 16)).run(aligned, 8, names=("x", "count"))
    array = aligned.bytes.view(np.float32)
    with pytest.raises(ArgumentError, match="the address of argument 0 is no multiple of 16"):
        Kernel(pointer(f32), i32, divisibility=(16, 16)).run(array[1:], 16)


def test_there_is_one_function():
    module = Kernel().module()
    module.body.block.add_op(module.body.block.first_op.clone())
    with pytest.raises(IRError, match="2 functions"):
        run_ttir(module, 1, [])
