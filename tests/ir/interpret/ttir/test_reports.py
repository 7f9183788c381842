"""What the interpreter of TTIR reports, and what it does not."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i8, i16, i32, i64

from vkernels.ir.dialect import arith, tt
from vkernels.ir.errors import CheckError
from vkernels.ir.interpret.ttir import RuntimeMemory, TensorRegion

from .modules import Kernel, pointer


def reported(k: Kernel, *arguments, line: int | None = None, **rest) -> str:
    """The error that a run ends with; `line`: where it must point, else the last but `tt.return`."""
    line = k.line if line is None else line
    with pytest.raises(CheckError) as caught:
        k.run(*arguments, **rest)
    assert caught.value.place is not None, "it has a place"
    assert (caught.value.place.file, caught.value.place.line) == ("kernel.py", line)
    return str(caught.value)


def zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.float32)


# Bounds


@pytest.mark.parametrize("shift", [-1, 1, 1 << 30])
def test_loads_and_stores_out_of_bounds(shift):
    k = Kernel(pointer(f32))
    k.load(k.arguments[0], k.shift(k.range(4), shift))
    byte, element = (-4, 0) if shift < 0 else (16, 3) if shift == 1 else (shift << 2, 0)
    text = reported(k, TensorRegion(zeros(4), "x"))
    assert f"tt.load reads 4 bytes at byte {byte} of `x`, outside its 16 bytes" in text
    assert f"at element ({element}) of the tensor" in text
    assert 'in program (0) of launch "k"' in text
    k = Kernel(pointer(f32))
    k.store(k.arguments[0], k.shift(k.range(4), shift), k.filled(0, f32, 4))
    assert f"tt.store writes 4 bytes at byte {byte} of `argument 0`, outside" in reported(k, zeros(4))


def test_the_element_and_the_program_are_named():
    k = Kernel(pointer(f32))
    number = k.do(tt.ProgramIdOp())
    rows = k.do(arith.AddiOp(k.range(8), k.do(tt.SplatOp(k.do(arith.MuliOp(number, k.number(8))), [8]))))
    k.load(k.arguments[0], k.do(tt.ReshapeOp(rows, [2, 4])))
    text = reported(k, zeros(21), grid=3)
    assert "at element (1, 1) of the tensor" in text
    assert "in program (2)" in text


def test_inactive_elements_may_lie_anywhere():
    k = Kernel(pointer(f32))
    wide = k.shift(k.range(8), 0)
    k.store(k.arguments[0], wide, k.filled(1, f32, 8), k.below(wide, 5))
    out = zeros(5)
    k.run(out)
    assert (out == 1).all()


def test_bytes_between_a_views_elements_are_out_of_bounds():
    memory = np.zeros((4, 8), np.float32)
    for stride, columns in ((8, 4), (8, 5)):
        k = Kernel(pointer(f32))
        row = k.do(arith.MuliOp(k.range(4), k.filled(stride, i32, 4)))
        k.store(k.arguments[0], k.shift(row, columns - 1), k.filled(1, f32, 4))
        if columns == 4:
            k.run(memory[:, :4])
        else:
            assert "at byte 16 of" in reported(k, memory[:, :4])
    assert memory.sum() == 4
    assert (memory[:, 3] == 1).all()


def test_an_offset_of_i32_that_wraps_is_out_of_bounds():
    k = Kernel(pointer(i8))
    far = k.do(arith.MuliOp(k.filled(1 << 16, i32, 4), k.filled((1 << 15) + 1, i32, 4)))
    k.load(k.arguments[0], far)
    assert f"at byte {-(1 << 31) + (1 << 16)} of" in reported(k, np.zeros(100, np.int8))


def test_misaligned_accesses():
    k = Kernel(pointer(i8))
    wide = k.do(tt.BitcastOp(k.do(tt.AddPtrOp(k.arguments[0], k.number(2))), pointer(i32)))
    k.do(tt.LoadOp(wide))
    assert "at byte 2 of `argument 0`, not aligned to 4 bytes" in reported(k, np.zeros(16, np.int8))


def test_pointers_to_nowhere():
    k = Kernel(pointer(f32))
    k.load(k.arguments[0], k.filled(1 << 41, i64, 2))
    assert re.search(r"tt.load reads at 0x\w+, where no argument lies", reported(k, zeros(4)))


def test_a_read_only_array_is_not_written():
    array = zeros(4)
    array.flags.writeable = False
    k = Kernel(pointer(f32))
    k.store(k.arguments[0], k.range(4), k.filled(1, f32, 4))
    assert "which is read-only" in reported(k, array)
    assert not array.any()


def scratch(k: Kernel, shift: int = 0, count: int = 4, bits: int = 32):
    """Byte offsets of elements in the scratchpad."""
    width = k.filled(bits // 8, i32, count)
    return k.do(arith.MuliOp(k.shift(k.range(count), shift), width))


def put(k: Kernel, offsets, value: float = 1) -> int:
    k.do(tt.ScratchpadOp.store(offsets, k.filled(value, i32, 4), 32))
    return k.line


def get(k: Kernel, offsets):
    return k.do(tt.ScratchpadOp.load(offsets, 32, tt.tensor(i32, [4])))


def test_the_scratchpads_bounds():
    k = Kernel()
    put(k, scratch(k, 1))
    text = reported(k, scratch_bytes=16)
    assert "tt.elementwise_inline_asm writes 4 bytes at byte 16 of `scratchpad`, outside its 16 bytes" in text
    k = Kernel()
    put(k, scratch(k))
    assert "the program has none" in reported(k)


# Unwritten memory


@pytest.mark.parametrize("memory", [RuntimeMemory, lambda *_: TensorRegion(zeros(16), "swap", write_only=True)])
@pytest.mark.parametrize("shift", [0, 3])
def test_reads_of_what_was_never_written(memory, shift):
    k = Kernel(pointer(f32))
    k.store(k.arguments[0], k.range(4), k.filled(1, f32, 4))
    k.barrier()
    k.load(k.arguments[0], k.shift(k.range(4), shift))
    if shift:
        text = reported(k, memory("swap", 64))
        assert "tt.load reads 4 bytes at byte 16 of `swap` before anything has been written there" in text
        assert "at element (1) of the tensor" in text
    else:
        k.run(memory("swap", 64))


def test_an_element_of_which_a_byte_is_unwritten():
    k = Kernel(pointer(i8))
    k.store(k.arguments[0], k.range(2), k.filled(1, i8, 2))
    k.barrier()
    k.do(tt.LoadOp(k.do(tt.BitcastOp(k.arguments[0], pointer(i16)))))
    k.do(tt.LoadOp(k.do(tt.BitcastOp(k.arguments[0], pointer(i32)))))
    assert "reads 4 bytes at byte 0 of `buffer` before" in reported(k, RuntimeMemory("buffer", 8))


def test_a_program_finds_nothing_in_its_scratchpad():
    k = Kernel(i32)
    is_second = k.do(tt.SplatOp(k.do(arith.CmpiOp(k.do(tt.ProgramIdOp()), k.number(1), "eq")), [4]))
    offsets = k.do(arith.SelectOp(is_second, scratch(k, 4), scratch(k)))
    put(k, offsets)
    k.barrier()
    get(k, scratch(k))
    text = reported(k, 0, grid=2, scratch_bytes=32)
    assert "reads 4 bytes at byte 0 of `scratchpad` before anything has been written there" in text
    assert "in program (1)" in text


def test_the_slot_of_inactive_elements_is_not_checked():
    k = Kernel(pointer(i32))
    slot = k.filled(16, i32, 4)
    put(k, slot, 1)
    k.do(tt.ScratchpadOp.store(slot, k.range(4), 32))
    value = get(k, slot)
    k.store(k.arguments[0], k.range(4), value)
    out = np.zeros(4, np.int32)
    k.run(out, scratch_bytes=32, slot_bytes=16)
    assert (abs(out.astype(np.int64)) > 1000).all(), "poison"


# Barriers


def two(first: str, second: str, barrier: bool) -> Kernel:
    """Two accesses of one program that meet in two elements."""
    k = Kernel(pointer(i32))
    tiles = k.range(4), k.shift(k.range(4), 2)
    for number, (access, offsets) in enumerate(zip((first, second), tiles, strict=True)):
        if access == "write":
            k.store(k.arguments[0], offsets, k.filled(1, i32, 4))
        elif access == "update":
            k.do(tt.AtomicOp(tt.Atomic.ADD, k.at(k.arguments[0], offsets), k.filled(1, i32, 4)))
        else:
            k.load(k.arguments[0], offsets)
        if barrier and not number:
            k.barrier()
    return k


PAIRS = [
    ("write", "read", "reads", "written"),
    ("write", "write", "writes", "written"),
    ("read", "write", "writes", "read"),
    ("update", "read", "reads", "updated"),
    ("update", "write", "writes", "updated"),
    ("write", "update", "updates", "written"),
    ("read", "update", "updates", "read"),
]


@pytest.mark.parametrize(("first", "second", "does", "earlier"), PAIRS)
def test_accesses_to_global_memory_need_a_barrier_between_them(first, second, does, earlier):
    text = reported(two(first, second, False), np.zeros(8, np.int32))
    assert f"{does} 4 bytes at byte 8 of `argument 0`, which has been {earlier} with no barrier since" in text
    assert "at element (0) of the tensor" in text
    two(first, second, True).run(np.zeros(8, np.int32))


@pytest.mark.parametrize(("first", "second"), [("read", "read"), ("update", "update")])
def test_reads_need_no_barrier_and_neither_do_updates(first, second):
    two(first, second, False).run(np.zeros(8, np.int32))


@pytest.mark.parametrize(("second", "earlier"), [("read", "written"), ("write", "written")])
def test_accesses_to_the_scratchpad_need_a_barrier_between_them(second, earlier):
    for barrier in (False, True):
        k = Kernel()
        put(k, scratch(k, 0, 4))
        k.do(tt.ScratchpadOp.store(scratch(k, 4), k.filled(1, i32, 4), 32))
        if barrier:
            k.barrier()
        (get if second == "read" else put)(k, scratch(k, 2))
        if barrier:
            k.run(scratch_bytes=64)
        else:
            text = reported(k, scratch_bytes=64)
            assert f"at byte 8 of `scratchpad`, which has been {earlier} with no barrier since" in text


def test_a_scratchpad_is_not_rewritten_while_it_is_read():
    for barrier in (False, True):
        k = Kernel()
        put(k, scratch(k))
        k.barrier()
        get(k, scratch(k))
        if barrier:
            k.barrier()
        put(k, scratch(k))
        if barrier:
            k.run(scratch_bytes=64)
        else:
            assert "which has been read with no barrier since" in reported(k, scratch_bytes=64)


def test_an_operation_in_a_loop_meets_itself():
    for barrier in (False, True):
        k = Kernel()
        offsets = scratch(k)

        def body(position, k=k, offsets=offsets, barrier=barrier):
            put(k, offsets)
            if barrier:
                k.barrier()

        k.loop(2, body)
        if barrier:
            k.run(scratch_bytes=64)
        else:
            assert "written with no barrier since" in reported(k, scratch_bytes=64, line=k.line - 2)


def test_bytes_are_told_apart_whatever_the_width():
    def kernel(byte: int) -> Kernel:
        k = Kernel(pointer(i8))
        k.do(tt.StoreOp(k.do(tt.AddPtrOp(k.arguments[0], k.number(byte))), k.number(1, i8)))
        k.do(tt.LoadOp(k.do(tt.BitcastOp(k.arguments[0], pointer(i32)))))
        return k

    kernel(4).run(np.zeros(8, np.int8))
    assert "reads 4 bytes at byte 0" in reported(kernel(3), np.zeros(8, np.int8))


def test_arguments_that_overlap_are_one_memory():
    memory = zeros(8)
    k = Kernel(pointer(f32), pointer(f32))
    k.store(k.arguments[0], k.range(4), k.filled(1, f32, 4))
    k.load(k.arguments[1], k.range(4))
    text = reported(k, memory[:4], TensorRegion(memory[2:], "tail"))
    assert "reads 4 bytes at byte 0 of `tail`, which has been written with no barrier since" in text


def test_one_store_of_different_values_at_one_address():
    k = Kernel(pointer(i32))
    k.store(k.arguments[0], k.filled(1, i32, 4), k.filled(5, i32, 4))
    k.run(np.zeros(4, np.int32))
    k = Kernel(pointer(i32))
    k.store(k.arguments[0], k.filled(1, i32, 4), k.range(4))
    text = reported(k, np.zeros(4, np.int32))
    assert "tt.store writes different values to 4 bytes at byte 4 of `argument 0`" in text


# Programs


def programs(first: str, second: str) -> Kernel:
    """Programs that all do both, one after the other, at an element of their own and then at the next program's."""
    k = Kernel(pointer(i32))
    number = k.do(tt.ProgramIdOp())
    for distance, access in enumerate((first, second)):
        where = k.do(tt.AddPtrOp(k.arguments[0], k.do(arith.AddiOp(number, k.number(distance)))))
        if access == "write":
            k.do(tt.StoreOp(where, k.number(1)))
        elif access == "update":
            k.do(tt.AtomicOp(tt.Atomic.ADD, where, k.number(1)))
        else:
            k.do(tt.LoadOp(where))
    return k


@pytest.mark.parametrize(("first", "second"), [pair[:2] for pair in PAIRS])
@pytest.mark.parametrize("order", [None, 1, 2])
def test_programs_that_meet(first, second, order):
    with pytest.raises(CheckError, match="which another program of the launch has") as caught:
        programs(first, second).run(np.zeros(9, np.int32), grid=8, order=order)
    assert "Programs of a launch run in any order and at once." in str(caught.value)
    programs(first, second).run(np.zeros(2, np.int32), grid=1)
    programs(first, second).run(np.zeros(9, np.int32), grid=8, order=order, between_programs=False)


@pytest.mark.parametrize("access", ["read", "update"])
def test_programs_that_may_meet(access):
    programs(access, access).run(np.zeros(9, np.int32), grid=8)


def test_a_read_by_a_program_long_before_the_last_is_remembered():
    k = Kernel(pointer(i32))
    last = k.do(arith.CmpiOp(k.do(tt.ProgramIdOp()), k.number(3), "eq"))
    k.do(tt.LoadOp(k.arguments[0]))
    k.barrier()
    k.do(tt.StoreOp(k.arguments[0], k.number(1), last))
    assert "which another program of the launch has read" in reported(k, np.zeros(1, np.int32), grid=4)
