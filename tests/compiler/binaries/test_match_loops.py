"""Which loop of a binary is which of its source, where several have lines of one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkernels.compiler.binaries.instructions import Instruction, Kind, TensorShape
from vkernels.compiler.binaries.loop_use import LoopUse, TensorUse
from vkernels.compiler.binaries.match_loops import parts_of_versions, trips_of
from vkernels.compiler.binaries.read_code import KernelCode
from vkernels.compiler.binaries.source_loops import read_source
from vkernels.compiler.binaries.static_bound import ISSUE, LATENCY, LaunchWork, static_bound
from vkernels.targets import limits_of, target_named

SOURCE = """module {
  tt.func public @kernel(%x: !tt.ptr<f32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c9 = arith.constant 9 : i32
    scf.for %k = %c0 to %c9 step %c1  : i32 {
      %v = tt.load %x : !tt.ptr<f32>
    }
    tt.return
  }
}
"""


def region(first: int, parent: int | None, products: int = 0) -> LoopUse:
    tensor = (TensorUse("HMMA", TensorShape(16, 8, 16, "float16"), products),) if products else ()
    return LoopUse(first, first + 9, parent, parent is not None, 10, 0, {}, {}, tensor, 0, 0, 10, 10, 0, {7: 10}, {})


def test_of_loops_with_the_same_lines_the_one_with_products_runs() -> None:
    """A loop before it that has none is a part that the compiler took apart; ptxas makes some on sm_80."""
    source = read_source(SOURCE)
    code = KernelCode("sm_80", 4, 32, (region(0, None), region(100, 0), region(200, 0, products=8)))
    assert trips_of(code, source, source.trips({})) == [1.0, 0.0, 9.0]


def test_a_loop_with_products_whose_lines_are_lost_has_no_known_trips() -> None:
    """It does not run once, as loops of the compiler's own do."""
    source = read_source(SOURCE)
    lost = replace(region(200, 0, products=8), lines={})
    code = KernelCode("sm_80", 4, 32, (region(0, None), replace(region(100, 0), lines={}), lost))
    assert trips_of(code, source, source.trips({})) == [1.0, 1.0, None]


def test_trips_that_were_unrolled_are_told_by_bytes_whose_lines_are_those_of_their_uses() -> None:
    """Four trips of 256 elements by 64 threads are 64 bytes of a thread; all threads load the one element before."""
    source = read_source("""module {
  tt.func public @kernel(%x: !tt.ptr<f32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    scf.for %k = %c0 to %c64 step %c1  : i32 {
      %v = tt.load %x : !tt.ptr<f32>
      %u = arith.extf %v : f32 to f64
      %w = tt.load %y : tensor<256x!tt.ptr<f32>>
      %z = arith.addf %w, %w : tensor<256xf32>
    }
    tt.return
  }
}
""")
    loop = replace(region(100, 0), lines={8: 4, 10: 20}, line_bytes={8: 16, 10: 64})
    code = KernelCode("sm_80", 2, 32, (region(0, None), loop))
    assert trips_of(code, source, source.trips({})) == [1.0, 16.0]
    whole = replace(loop, line_bytes={8: 4, 10: 16})
    assert trips_of(replace(code, regions=(code.regions[0], whole)), source, source.trips({})) == [1.0, 64.0]


def test_peeled_trips_of_plain_products_are_told_from_the_loop_around_them() -> None:
    """A pipelined loop of 16 trips is entered four times. One trip of each stands behind it, with most of the lines
    of the loop around, and is not run 64 times."""
    source = read_source("""module {
  tt.func public @kernel(%a: tensor<64x16xf32>, %b: tensor<16x64xf32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c16 = arith.constant 16 : i32
    scf.for %block = %c0 to %c4 step %c1  : i32 {
      scf.for %k = %c0 to %c16 step %c1  : i32 {
        %d = tt.dot %a, %b, %c : tensor<64x16xf32> * tensor<16x64xf32> -> tensor<64x64xf32>
      }
      %sum = arith.addf %d, %d : tensor<64x64xf32>
    }
    tt.return
  }
}
""")
    inner = replace(region(200, 1), lines={9: 336}, line_products={9: 512})
    outer = replace(region(100, 0), lines={9: 340, 11: 16}, line_products={9: 512, 11: 0})
    code = KernelCode("gfx1100", 4, 32, (replace(region(0, None), lines={}), outer, inner))
    assert trips_of(code, source, source.trips({})) == [1.0, 4.0, 60.0]
    whole = replace(outer, lines={11: 16}, line_products={})
    assert trips_of(replace(code, regions=(code.regions[0], whole, inner)), source, source.trips({})) == [
        1.0,
        4.0,
        64.0,
    ]


@pytest.mark.parametrize(("opcode", "operands", "count"), [
    ("v_fmac_f32_e32", "v1, v2, v3", 1), ("v_fma_f64", "v[0:1], v[2:3], v[4:5], v[0:1]", 1),
    ("v_dual_fmac_f32", "v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6", 2),
    ("v_dual_mul_f32", "v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6", 1), ("v_pk_fma_f32", "v[0:1], v[2:3]", 2),
    ("v_mfma_f32_32x32x8_f16", "a[0:15], v[0:1], v[2:3], a[0:15]", 0), ("v_mul_f32_e32", "v1, v2, v3", 0),
    ("FFMA", "R1, R2, R3, R1", 1), ("FFMA2", "R2, R4, R6, R2", 2), ("HFMA2.MMA", "R1, R2, R3, R1", 2),
    ("HMMA.16816.F32", "R4, R8, R12, R4", 0), ("FADD", "R1, R2, R3", 0),
])  # fmt: skip
def test_pairs_of_multiply_adds_are_two(opcode: str, operands: str, count: int) -> None:
    assert Instruction(0, opcode, operands, Kind.FLOAT).multiply_adds == count


def test_a_version_counts_as_often_as_programs_take_its_way_of_the_source() -> None:
    """Six of eight programs are whole; of code that is on no way nothing is known, and it runs."""
    source = read_source("""module {
  tt.func public @kernel(%x: !tt.ptr<f32>) {
    %c6 = arith.constant 6 : i32
    %p = tt.get_program_id x : i32
    %whole = arith.cmpi slt, %p, %c6 : i32
    scf.if %whole {
      %v = tt.load %x : !tt.ptr<f32>
    } else {
      %u = tt.load %x : !tt.ptr<f32>
      tt.store %x, %u : !tt.ptr<f32>
    }
    tt.return
  }
}
""")
    assert source.ways == ((7, 7), (9, 10))
    _, entries = source.runs({}, (8,))
    root = replace(region(0, None), instructions=100, kinds={"float": 100})
    versions = tuple(
        replace(root, instructions=40, lines=lines) for lines in ({7: 9, 4: 1}, {9: 3, 10: 3}, {4: 9, 7: 1})
    )
    code = KernelCode("sm_90", 4, 32, (root,), versions=versions)
    parts = parts_of_versions(code, source, entries)
    assert parts == [0.75, 0.25, 1.0]
    work, limits = LaunchWork(8, 1), limits_of(target_named("h100-sxm5-80"))
    every, some = (static_bound(code, [1.0], work, limits, (), often) for often in ((), parts))
    assert every is not None
    assert some is not None
    assert some.parts[ISSUE] / every.parts[ISSUE] == pytest.approx(1 - 0.4 * (0.25 + 0.75))
    assert some.parts[LATENCY] >= 0
