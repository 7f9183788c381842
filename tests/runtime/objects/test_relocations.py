"""Relocations by the examples of the ABIs, and objects of other machines than this one."""

import llvmlite.binding as llvm
import pytest

from vkernels.ir.errors import FileError
from vkernels.runtime.native_functions import compiled_object
from vkernels.runtime.objects import load_object, read_object
from vkernels.runtime.objects.load_object import Layout, linked
from vkernels.runtime.objects.relocate import AARCH64, X86_64, kind_of, patched

BASE = 0x40_0000


def word(kind, instruction, target, place=BASE):
    return int.from_bytes(patched(AARCH64[kind], instruction.to_bytes(4, "little"), target, place), "little")


@pytest.mark.parametrize(
    ("kind", "instruction", "target", "expected"),
    [
        (283, 0x94000000, BASE + 0x1000, 0x94000400),  # bl +0x1000
        (283, 0x94000000, BASE - 4, 0x97FFFFFF),  # bl -4
        (282, 0x14000000, BASE + 8, 0x14000002),  # b +8
        (280, 0x54000001, BASE + 16, 0x54000081),  # b.ne +16
        (279, 0x36000000, BASE + 16, 0x36000080),  # tbz w0, 0, +16
        (275, 0x90000000, BASE + 0x3123, 0xF0000000),  # adrp x0, +3 pages
        (275, 0x90000000, BASE - 0x1000, 0xF0FFFFE0),  # adrp x0, -1 page
        (274, 0x10000000, BASE + 5, 0x30000020),  # adr x0, +5
        (277, 0x91000000, 0x123_4ABC, 0x912AF000),  # add x0, x0, 0xabc
        (278, 0x39400000, 0x1ABC, 0x396AF000),  # ldrb w0, [x0, 0xabc]
        (284, 0x79400000, 0x1ABC, 0x79557800),  # ldrh: in units of 2
        (285, 0xB9400000, 0x1ABC, 0xB94ABC00),  # ldr w: of 4
        (286, 0xF9400000, 0x1AB8, 0xF9455C00),  # ldr x: of 8
        (299, 0x3DC00000, 0x1AB0, 0x3DC2AC00),  # ldr q: of 16
        (261, 0, BASE - 16, 0xFFFFFFF0),  # .word target - .
    ],
)
def test_instructions_of_aarch64(kind, instruction, target, expected):
    assert hex(word(kind, instruction, target)) == hex(expected)


def test_numbers_of_x86_64():
    assert patched(X86_64[2], bytes(4), BASE - 16, BASE) == (-16 & 0xFFFFFFFF).to_bytes(4, "little")
    assert patched(X86_64[1], bytes(8), 0x1234_5678_9ABC, BASE) == (0x1234_5678_9ABC).to_bytes(8, "little")


@pytest.mark.parametrize(("kind", "target"), [(283, BASE + (1 << 28)), (286, 0x1AB4), (283, BASE + 2)])
def test_what_does_not_fit_is_told(kind, target):
    with pytest.raises(OverflowError):
        word(kind, 0, target)
    with pytest.raises(OverflowError):
        patched(X86_64[4], bytes(4), BASE + (1 << 31), BASE)


def test_unknown_kinds_are_refused():
    with pytest.raises(FileError, match="relocation 10 of x86_64"):
        kind_of("x86_64", 10, "object")


TEXT = """
@table = internal constant [4 x double] [double 1.0, double 2.0, double 3.0, double 4.0]
@elsewhere = external global i64
declare double @exp(double)

define double @f(i64 %n, double %x) {
  %p = getelementptr [4 x double], ptr @table, i64 0, i64 %n
  %a = load double, ptr %p
  %e = call double @exp(double %x)
  %i = load i64, ptr @elsewhere
  %d = sitofp i64 %i to double
  %s = fadd double %a, %e
  %t = fadd double %s, %d
  ret double %t
}
"""


def test_code_is_linked_with_constants_functions_and_data_elsewhere():
    import ctypes

    number = ctypes.c_int64(40)
    exp = ctypes.cast(ctypes.CDLL(None).exp, ctypes.c_void_p).value
    data = compiled_object(TEXT)
    assert read_object(data).imported == ("elsewhere", "exp")
    loaded = load_object(data, imports={"elsewhere": ctypes.addressof(number), "exp": exp})
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)(loaded["f"])
    assert f(2, 0.0) == 44.0
    with pytest.raises(FileError, match="elsewhere, which code in bundles may not"):
        load_object(data)
    assert not is_writable_and_executable(loaded["f"])


def is_writable_and_executable(address):
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, rights, *_ = line.split()
            low, high = (int(end, 16) for end in span.split("-"))
            if low <= address < high:
                return "w" in rights and "x" in rights
    return True


def test_data_that_code_may_write_is_refused():
    with pytest.raises(FileError, match="may be written"):
        read_object(compiled_object("@n = global i64 3\ndefine ptr @f() {\n  ret ptr @n\n}"))


def test_objects_of_aarch64_are_linked_too():
    """Its code cannot run here; all its relocations are known, and what refers to the table has its address."""
    data = compiled_object(TEXT, "aarch64-unknown-linux-gnu")
    read = read_object(data)
    assert read.machine == "aarch64"
    layout = Layout.of(read, "object")
    memory = bytearray(layout.size)
    linked(read, layout, BASE, {"exp": 0x7000_0000_0000, "elsewhere": 0x1234}, memory, "object")
    (stub,) = layout.stubs.values()
    assert memory[stub + 8 : stub + 16] == (0x7000_0000_0000).to_bytes(8, "little")
    (entry,) = layout.entries.values()
    assert memory[entry : entry + 8] == (0x1234).to_bytes(8, "little")
    if llvm.get_process_triple().startswith("x86_64"):
        with pytest.raises(FileError, match="code for aarch64"):
            load_object(data, imports={})
