"""The time of a trip of one warp follows from what it waits for."""

from __future__ import annotations

from vkernels.compiler.binaries.instructions import Control, Instruction, Kind, TensorShape
from vkernels.compiler.binaries.latency import trip_cycles

CONTROL = Control(1, False, None, None, 0, 0)
PRODUCT = TensorShape(64, 256, 16, "float16", warps=4)
BARRIER = Instruction(0, "BAR.SYNC.DEFER_BLOCKING", "0x0", Kind.BARRIER, control=CONTROL)
MULTIPLY = Instruction(
    16, "HGMMA.64x256x16.F32", "R24, gdesc[UR8], R24, gsb0", Kind.TENSOR, 0, CONTROL, None, 0, PRODUCT
)
WAIT = Instruction(32, "WARPGROUP.DEPBAR.LE", "gsb0, 0x0", Kind.WAIT, control=CONTROL)


def test_groups_that_meet_in_each_trip_wait_for_the_products_of_all() -> None:
    """Two groups share the tensor cores: after a barrier both start, and the last waits for both products."""
    one, two = (trip_cycles([BARRIER, MULTIPLY, WAIT], "sm_90", warps)[1] for warps in (4, 8))
    assert 128 <= one < 140
    assert two - one == 128


def test_groups_that_do_not_meet_take_turns() -> None:
    one, two = (trip_cycles([MULTIPLY, WAIT], "sm_90", warps)[1] for warps in (4, 8))
    assert one == two
