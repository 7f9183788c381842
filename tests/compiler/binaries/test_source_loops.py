"""Trips, bytes and multiply-adds of a TTIR text's loops are those that its numbers say."""

from __future__ import annotations

import pytest

from tests.compiler.backends.texts import matmul
from vkernels.compiler.binaries.source_loops import read_source
from vkernels.ir.errors import FileError

NESTED = """module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %pid = tt.get_program_id x : i32
    %last = arith.addi %pid, %c1 : i32
    scf.for %i = %c0 to %n step %c4  : i32 {
      scf.for %j = %c0 to %i step %c1  : i32 {
        %v = tt.load %x : !tt.ptr<f32>
        tt.store %x, %v : !tt.ptr<f32>
      }
    }
    scf.for %k = %c0 to %last step %c1  : i32 {
      %w = tt.load %x : !tt.ptr<f32>
    }
    %from = tt.load %p : !tt.ptr<i32>
    %many = arith.cmpi sgt, %n, %c4 : i32
    scf.if %many {
      scf.for %l = %c0 to %from step %c1  : i32 {
        %u = tt.load %x : !tt.ptr<f32>
      }
    } else {
      scf.for %m = %c0 to %n step %c1  : i32 {
        %t = tt.load %x : !tt.ptr<f32>
      }
    }
    tt.return
  }
}
"""


def test_trips_follow_bounds_outer_loops_programs_and_conditions() -> None:
    source = read_source(NESTED)
    assert [(each.parent, each.read_bytes, each.written_bytes) for each in source.loops] == [
        (None, 4, 0), (0, 0, 0), (1, 4, 4), (0, 4, 0), (0, 4, 0), (0, 4, 0),
    ]  # fmt: skip
    assert [source.loop_of(line) for line in (3, 8, 10, 15, 17, 24)] == [0, 1, 2, 3, 0, 5]
    inner = sum(range(0, 40, 4))
    assert source.trips({"n": 40}, (8,)) == [1, 10, inner, pytest.approx(4.5), None, 0]
    assert source.trips({"n": 40}, (8,), unknown_length=7) == [1, 10, inner, pytest.approx(4.5), 7, 0]
    assert source.trips({}, (8,))[1:3] == [None, None]


LOADED = """    %a{0} = tt.addptr %p, %c{1} : !tt.ptr<i32>, i32
    %n{0} = tt.load %a{0} : !tt.ptr<i32>
    scf.for %{0} = %c0 to %n{0} step %c1  : i32 {{
      %v{0} = tt.load %x : !tt.ptr<f32>
    }}
"""
"""A loop up to a number in memory."""


def kernel(*lines: str, parameters: str = "") -> str:
    constants = "".join(f"    %c{n} = arith.constant {n} : i32\n" for n in range(4))
    head = f"module {{\n  tt.func public @kernel(%x: !tt.ptr<f32>, %p: !tt.ptr<i32>{parameters}) {{\n{constants}"
    return f"{head}{''.join(lines)}    tt.return\n  }}\n}}\n"


def test_unknown_loops_in_turn_are_as_long_as_is_said() -> None:
    """Loops beyond the last length are as long as that says, and those with the bounds of another as long as that."""
    loops = [LOADED.format(name, number) for name, number in (("k", 1), ("l", 2), ("m", 3), ("again", 1))]
    assert read_source(kernel(*loops)).trips({}, (4,), unknown_length=(5, 2)) == [1, 5, 2, 2, 5]


def test_a_loop_over_programs_that_take_turns_has_no_length_of_its_own() -> None:
    """Nor where a launch begins with another than the first program: that is an argument, and in no memory."""
    text = kernel(
        "    %id = tt.get_program_id x : i32\n    %count = tt.get_num_programs x : i32\n"
        "    %begin = arith.addi %id, %first : i32\n"
        "    scf.for %t = %begin to %programs step %count  : i32 {\n      %w = tt.load %x : !tt.ptr<f32>\n",
        LOADED.format("k", 1), "    }\n", LOADED.format("l", 2), parameters=", %first: i32, %programs: i32",
    )  # fmt: skip
    assert read_source(text).trips({}, (4,), unknown_length=(5, 2)) == [1, 1, 5, 2]


def test_a_missing_argument_is_no_number_in_memory() -> None:
    text = kernel(
        "    %end = arith.muli %n, %c2 : i32\n    scf.for %t = %c0 to %end step %c1  : i32 {\n"
        "      %w = tt.load %x : !tt.ptr<f32>\n    }\n",
        LOADED.format("k", 1), parameters=", %n: i32",
    )  # fmt: skip
    assert read_source(text).trips({"n": 3}, (4,), unknown_length=(5, 2)) == [1, 6, 5]
    assert read_source(text).trips({}, (4,), unknown_length=(5, 2)) == [1, None, 5]


def test_joined_loops_of_unknown_and_known_length_are_as_long_as_both() -> None:
    source = read_source("""module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %p: !tt.ptr<i32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %n = tt.load %p : !tt.ptr<i32>
    %some = arith.maxsi %n, %c0 : i32
    %all = arith.muli %some, %c4 : i32
    scf.for %k = %c0 to %all step %c1  : i32 {
      %v = tt.load %x : !tt.ptr<f32>
    }
    tt.return
  }
}
""")
    assert source.trips({}, (4,), unknown_length=5) == [1, 20]
    assert source.trips({}, (4,)) == [1, None]


def test_a_long_outer_loop_is_sampled() -> None:
    trips = read_source(NESTED).trips({"n": 4 << 20}, (1,))
    assert trips[1] == 1 << 20
    assert trips[2] == pytest.approx((1 << 20) * (2 << 20), rel=0.1)


def test_dots_are_counted() -> None:
    source = read_source(matmul(64, 128, 32, accumulators=3))
    loop = source.loops[1]
    assert loop.multiply_adds == 3 * 64 * 128 * 32
    assert loop.read_bytes == 2 * (64 * 32 + 32 * 128)
    assert source.loops[0].written_bytes == 4 * 64 * 128
    assert source.trips({"steps": 17}) == [1, 17]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "0 public functions"),
        ("}\n", "did not begin"),
        (NESTED.rsplit("}", 2)[0], "does not end"),
        ("\n" * (1 << 18), "more than"),
        ("\0\0\0 %%% tt.func tt.func {{{", "does not end|public functions"),
    ],
)
def test_other_text_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FileError, match=reason):
        read_source(text)
