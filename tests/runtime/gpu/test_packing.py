"""Slots hold what each parameter of each launch asks for, and launches share what memory they can."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.arguments import Arguments, ArrayView
from vkernels.compiler.backends.triton_adapter import Binary
from vkernels.ir.errors import ArgumentError, PlanError
from vkernels.ir.lowering.ttir import HostArguments, LaunchParameter, ParameterKind, TtirLaunch
from vkernels.runtime.gpu.loading import LoadedLaunch
from vkernels.runtime.gpu.packing import MAX_PROGRAMS, Start, pack

KINDS = ParameterKind
VIEWS = {
    "x": ArrayView("float32", 4, (5, 7), (9, 1), 4096, True, "cuda:0"),
    "y": ArrayView("float32", 4, (1, 7), (70, 1), 8192, True, "cuda:0"),
}
ARGUMENTS = Arguments(VIEWS, {"a": 1.5, "n": 3}, {}, {"M": 5, "N": 1 << 31})


def loaded(
    *parameters: LaunchParameter, function: int = 1, swap: int = 0, resident: int = 0, scratch: int = 0
) -> LoadedLaunch:
    """A launch; persistent if there is room for so many `resident` programs."""
    launch = TtirLaunch("k", ModuleOp([]), parameters, 0, swap, resident > 0)
    binary = Binary("sm_90", "k", b"", "", 64, 4, 128, 0, scratch, "", "3.9.0")
    return LoadedLaunch(launch, binary, function, resident, 2)


POINTER_Y, STRIDE_X, STRIDE_Y = (
    LaunchParameter(KINDS.POINTER, "y"),
    LaunchParameter(KINDS.STRIDE, "x", 0, "i32"),
    LaunchParameter(KINDS.STRIDE, "y", 0, "i32"),
)
SCALAR_N, SCALAR_A = LaunchParameter(KINDS.SCALAR, "n", type="i64"), LaunchParameter(KINDS.SCALAR, "a", type="f64")
SWAP, PROGRAMS = LaunchParameter(KINDS.SWAP), LaunchParameter(KINDS.PROGRAMS, type="i32")


def test_each_parameter_has_its_slot() -> None:
    launch = loaded(SCALAR_N, STRIDE_X, POINTER_Y, STRIDE_Y, LaunchParameter(KINDS.SIZE, "M", type="i64"), SCALAR_A)
    packed = pack([launch], HostArguments((), (6,)), ARGUMENTS)
    assert packed.template == [0, 9, 0, 0, 5, 0, 0, 0]  # the stride of a dimension of one element is nobody's
    assert packed.pointers == [(2, 1)]
    assert packed.scalars == [(0, 1, False), (5, 0, True)]
    assert packed.starts == [Start(1, 6, 128, 64, 0, 6)]
    assert (packed.own, packed.own_bytes) == ([], 0)


def test_buffers_stand_side_by_side_and_launches_share_what_follows() -> None:
    buffers = [LaunchParameter(KINDS.BUFFER, number=number) for number in range(2)]
    first = loaded(buffers[1], SWAP, PROGRAMS, function=7, swap=64, resident=3)
    second = loaded(buffers[0], SWAP, function=8, swap=1000, resident=5, scratch=32)
    packed = pack([first, second], HostArguments((100, 300), (10, 2)), ARGUMENTS)
    buffer_0, buffer_1, rest = 0, 128, 128 + 384
    assert packed.own == [(0, buffer_1), (1, rest), (5, buffer_0), (6, rest), (7, rest + 2048)]
    assert packed.own_bytes == rest + 2048 + 2 * 32  # of two programs, which are fewer than could be resident
    assert packed.template[2] == 10
    assert [(start.function, start.grid, start.first) for start in packed.starts] == [(7, 3, 0), (8, 2, 5)]


def test_a_launch_without_programs_is_left_out() -> None:
    packed = pack([loaded(POINTER_Y), loaded(SCALAR_A, function=2)], HostArguments((), (0, 4)), ARGUMENTS)
    assert [start.function for start in packed.starts] == [2]
    assert (packed.pointers, packed.scalars) == ([], [(0, 0, True)])


@pytest.mark.parametrize("resident", [0, 100])
def test_as_many_programs_as_gpus_count_are_packed_and_no_more(resident: int) -> None:
    launch, most = loaded(PROGRAMS, resident=resident), MAX_PROGRAMS - resident
    packed = pack([launch], HostArguments((), (most,)), ARGUMENTS)
    assert packed.starts[0].grid == (resident or MAX_PROGRAMS)
    with pytest.raises(PlanError, match=f"k has {most + 1} programs, more than the {most} that a GPU counts"):
        pack([launch], HostArguments((), (most + 1,)), ARGUMENTS)


def test_a_number_too_large_for_its_parameter_is_refused() -> None:
    for type_, fits in (("i64", True), ("i32", False)):
        launch = loaded(LaunchParameter(KINDS.SIZE, "N", type=type_))
        if fits:
            assert pack([launch], HostArguments((), (1,)), ARGUMENTS).template[0] == 1 << 31
            continue
        with pytest.raises(ArgumentError, match="the size N is 2147483648, which does not fit in i32"):
            pack([launch], HostArguments((), (1,)), ARGUMENTS)
