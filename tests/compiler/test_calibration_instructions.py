"""Loops that calibration times for instructions do what they are timed for."""

from __future__ import annotations

import re
from dataclasses import fields

import llvmlite.binding as llvm
import numpy as np
import pytest

from vkernels.compiler.calibrate_instructions import InstructionMeasurement, more_loops
from vkernels.compiler.calibration_accesses import BESIDE, CHAINS
from vkernels.compiler.calibration_instructions import ROW_BYTES
from vkernels.compiler.calibration_loops import buffer, loops
from vkernels.compiler.calibration_matrix import (
    APART,
    MATRIX_BYTES,
    MATRIX_LOOPS,
    PANELS,
    ROW,
    ROWS,
    SHAPE,
    TILE,
    TILES,
    matrix_loops,
    shapes,
)
from vkernels.ir.core_costs import CoreCosts
from vkernels.targets.cpu_rates import OF_INSTRUCTIONS, OF_MATRICES
from vkernels.targets.host_cpu import cpu_limits

UNMEASURED = {"contended", "way", "buffered"}
"""Of two cores, of the system, and of the family."""


def has_matrices():
    return any(name.startswith("amx") for name in cpu_limits().dot_units)


def floats(size):
    return buffer(size).view(np.float32)[: size // 4]


def test_vectors_are_scanned(width, random):
    memory, lanes = floats(1 << 10), width // 4
    memory[:] = random.integers(-3, 3, memory.size)
    scanned = memory[(CHAINS - 1) * lanes : CHAINS * lanes].cumsum()
    with more_loops(width, False) as code:
        code["scanned"](memory.ctypes.data, 1, 1)
    np.testing.assert_array_equal(memory[:lanes], scanned)


def test_the_last_lane_goes_on(width, random):
    memory, lanes = floats(1 << 10), width // 4
    memory[:] = random.integers(-3, 3, memory.size)
    vectors = memory[: 5 * lanes].reshape(5, lanes)
    expected = vectors[4] + vectors[:4, -1].sum()
    with more_loops(width, False) as code:
        code["carried"](memory.ctypes.data, 5, 1)
    np.testing.assert_array_equal(memory[:lanes], expected)


def test_remainders_are_added_up(width, random):
    memory, numbers = buffer(1 << 10), random.integers(1, 1 << 16, 3 * BESIDE).astype(np.int32)
    with more_loops(width, False) as code:
        code["divided"](memory.ctypes.data, numbers.ctypes.data, 3, 2)
    last = numbers[BESIDE - 1 :: BESIDE].astype(np.int64)
    assert memory[0] == 2 * (last * 977 % (last + 3)).sum()


def test_rows_are_packed(width, random):
    lanes = width // 4
    memory, out = floats(1 << 13), floats(1 << 12)
    memory[:], out[:] = random.standard_normal(memory.size), np.nan
    rows = memory.reshape(-1, lanes)
    places = random.integers(0, len(rows), 2 * BESIDE).astype(np.int32)
    with more_loops(width, False) as code:
        code["packed"](memory.ctypes.data, places.ctypes.data, out.ctypes.data, 2, 1)
    np.testing.assert_array_equal(out.reshape(-1, lanes)[: 2 * BESIDE], rows[places])


def test_rows_become_columns(width, random):
    lanes = width // 4
    memory, out = floats(ROW_BYTES * (lanes + 1)), floats(lanes * width)
    memory[:], out[:] = random.standard_normal(memory.size), np.nan
    place = np.array([random.integers(0, 4096 // width)], np.int32)
    with more_loops(width, False) as code:
        code["packed_turned"](memory.ctypes.data, place.ctypes.data, out.ctypes.data, 1, 1)
    first = int(place[0]) * lanes
    rows = [memory[first + row * (ROW_BYTES // 4) :][:lanes] for row in range(lanes)]
    np.testing.assert_array_equal(out.reshape(lanes, lanes), np.stack(rows, axis=1))


def test_rows_are_joined_to_words(width, random):
    memory, out = buffer(1 << 10).view(np.uint16), buffer(2 * width).view(np.uint16)
    memory[:] = random.integers(0, 1 << 16, memory.size)
    places, lanes = np.array([1, 5], np.int32), width // 2
    with more_loops(width, False) as code:
        code["worded"](memory.ctypes.data, places.ctypes.data, out.ctypes.data, 1, 1)
    rows = [memory[place * lanes :][:lanes] for place in places]
    np.testing.assert_array_equal(out[: 2 * lanes], np.stack(rows, axis=1).ravel())


@pytest.mark.compile
def test_loops_of_a_matrix_unit_have_its_instructions_and_no_others():
    """In the order in which they are timed: a tile is stored before its product, or all tiles before the first."""
    code = assembly_of(matrix_loops(), "sapphirerapids", "+amx-tile,+amx-bf16")
    assert set(code) == set(MATRIX_LOOPS)
    product, load = "tdpbf16ps", "tileloadd"
    stores = ["vmovaps"] * ROWS
    assert tiles_in(code["staged_in_turn"]) == [*stores, load, product] * TILES
    assert tiles_in(code["staged_together"]) == [*stores * TILES, *[load, product] * TILES]
    assert tiles_in(code["staged"]) == [*stores * TILES, *[load] * TILES]
    for name in ("side_by_side", "rows_apart"):
        assert tiles_in(code[name]) == ["tileloaddt1"] * (PANELS * APART // ROW)
    rows = {name: set(strides_in(code[name])) for name in ("side_by_side", "rows_apart")}
    assert rows == {"side_by_side": {ROW}, "rows_apart": {APART}}


def assembly_of(text, processor, features):
    """The instructions of the loop of each function, as LLVM compiles it for a processor."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu=processor, features=features, opt=2)
    assembly = machine.emit_assembly(llvm.parse_assembly(text))
    functions = re.findall(r"^(\w+):.*?$(.*?)^\.Lfunc_end", assembly, flags=re.MULTILINE | re.DOTALL)
    return dict(functions)


def tiles_in(body):
    """Operations of a function's loop on tiles, and stores of vectors."""
    loop = [line.split() for line in body[body.index("LBB") :].splitlines() if line.strip()]
    wanted = ("tileload", "tdp", "tilestore")
    return [
        words[0]
        for words in loop
        if words[0].startswith(wanted) or (words[0] == "vmovaps" and words[1].startswith("%zmm"))
    ]


def strides_in(body):
    """Bytes from row to row of the tiles that a function's loop loads, by the registers that hold them."""
    known = {f"%r{name}": int(value) for value, name in re.findall(r"movl\s+\$(\d+), %e(\w+)", body)}
    known |= {f"%{name}": int(value) for value, name in re.findall(r"movl\s+\$(\d+), %(r\d+)d", body)}
    return [known[name] for name in re.findall(r"tileloaddt1\s+\S*\(%\w+,(%\w+)", body)]


@pytest.mark.skipif(not has_matrices(), reason="this processor has no AMX")
def test_products_settle_in_memory(random):
    memory = buffer(MATRIX_BYTES)
    plain = memory.view(np.uint8)
    plain[:] = 0
    for number, rows in enumerate((ROWS, ROWS // 2)):
        plain[number * SHAPE :][:SHAPE] = np.frombuffer(shapes(rows), np.uint8)
    tiles = plain[2 * SHAPE :]
    operand, other = (random.integers(-4, 4, (ROWS, ROW // 2)).astype(np.float32) for _ in range(2))
    for number, values in ((1, operand), (7, other)):
        half = (values.view(np.uint32) >> 16).astype(np.uint16)
        tiles[number * TILE :][:TILE] = half.view(np.uint8).ravel()
    with more_loops(cpu_limits().register_bytes, True) as code:
        code["settled"](memory.ctypes.data, 1)
    sums = tiles[:TILE].view(np.float32).reshape(ROWS, ROW // 4)
    columns = other.reshape(ROWS, ROW // 4, 2).swapaxes(1, 2).reshape(ROW // 2, ROW // 4)
    np.testing.assert_array_equal(sums, operand @ columns)


def test_costs_are_those_of_the_model(width):
    near, middle, out = buffer(8 << 10), buffer(1 << 21), buffer(1 << 20)
    seen = []
    with loops(width) as basic, more_loops(width, has_matrices()) as code:

        def cycles(loop, values):
            seen.append(loop)
            loop(*(value if isinstance(value, int) else value.ctypes.data for value in values), 1)
            return 1000.0 * len(seen)

        costs = InstructionMeasurement(basic, code, cycles, width, near, middle, out).costs()
    assert set(costs) | (set() if has_matrices() else set(OF_MATRICES)) == set(OF_INSTRUCTIONS) - UNMEASURED
    assert set(costs) <= {field.name for field in fields(CoreCosts)}
    assert all(cost >= 0 for cost in costs.values())
