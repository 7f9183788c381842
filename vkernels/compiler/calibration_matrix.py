"""Loops of machine code for matrix units (AMX), for calibration.

Each `steps` times, on tiles of 16 rows of 64 bytes: `products(memory, steps)` adds four products to sums of their own,
and `product_chain` to the same sums. `settled`: a product, whose sums are stored, loaded as vectors, and stored as the
next product's operand. `given_back`: four tiles of sums are stored, and
loaded as vectors, which are added up. `staged`: vectors are stored, and loaded as four tiles. `reshaped`: the unit's
registers are set up for tiles of 16 rows, and of 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .calibration_text import steps_text

TILES = 4
"""Tiles of a step, and products."""
ROWS, ROW = 16, 64
"""Rows of a tile, and their bytes."""
TILE = ROWS * ROW
SHAPE = 64
"""Bytes that describe the shapes of tiles (Intel SDM, `LDTILECFG`)."""
MATRIX_BYTES = 2 * SHAPE + 8 * TILE
"""Memory of each loop: two sets of shapes, and eight tiles."""
MATRIX_LOOPS = ("products", "product_chain", "settled", "given_back", "staged", "reshaped")


def shapes(rows: int) -> bytes:
    """What sets up the unit's eight registers for tiles of so many rows."""
    columns = b"".join(ROW.to_bytes(2, "little") for _ in range(8))
    return bytes([1, *[0] * 15]) + columns.ljust(32, b"\0") + bytes([rows] * 8).ljust(16, b"\0")


def matrix_loops() -> str:
    declared = (
        "void @llvm.x86.ldtilecfg(ptr)", "void @llvm.x86.tilerelease()", "void @llvm.x86.tilezero(i8)",
        "void @llvm.x86.tileloadd64(i8, ptr, i64)", "void @llvm.x86.tilestored64(i8, ptr, i64)",
        "void @llvm.x86.tdpbf16ps(i8, i8, i8)",
    )  # fmt: skip
    zeros = [*(f"call void @llvm.x86.tilezero(i8 {n})" for n in range(6)), _load(6, 6 * TILE), _load(7, 7 * TILE)]
    operand, sums = TILE, 0
    through = ["%v = load <16 x float>, ptr %at_0, align 64", "store volatile <16 x float> %v, ptr %at_1, align 64"]
    texts = (
        _function("products", zeros, [_product(n) for n in range(TILES)]),
        _function("product_chain", zeros, [_product(0)] * TILES),
        _function("settled", zeros, [_load(6, operand), _product(0), _store(0, sums), *through]),
        _function("given_back", zeros, _given_back()),
        _function("staged", zeros, _staged()),
        _function(
            "reshaped", (), ["call void @llvm.x86.ldtilecfg(ptr %low)", "call void @llvm.x86.ldtilecfg(ptr %at)"]
        ),
    )
    return "\n".join((*(f"declare {each}" for each in declared), *texts))


def _product(tile: int) -> str:
    return f"call void @llvm.x86.tdpbf16ps(i8 {tile}, i8 6, i8 7)"


def _load(tile: int, number: int) -> str:
    return f"call void @llvm.x86.tileloadd64(i8 {tile}, ptr %at_{number // TILE}, i64 {ROW})"


def _store(tile: int, number: int) -> str:
    return f"call void @llvm.x86.tilestored64(i8 {tile}, ptr %at_{number // TILE}, i64 {ROW})"


def _given_back() -> Sequence[str]:
    lines = []
    for tile in range(TILES):
        lines += [_store(tile, tile * TILE)]
        for row in range(ROWS):
            name = f"{tile}_{row}"
            lines += [f"%g{name} = getelementptr i8, ptr %at_{tile}, i64 {row * ROW}"]
            lines += [f"%v{name} = load volatile <16 x float>, ptr %g{name}, align 64"]
    return lines


def _staged() -> Sequence[str]:
    lines = []
    for tile in range(TILES):
        for row in range(ROWS):
            name = f"{tile}_{row}"
            lines += [f"%g{name} = getelementptr i8, ptr %at_{tile}, i64 {row * ROW}"]
            lines += [f"store volatile <16 x float> %a, ptr %g{name}, align 64"]
    return [*lines, *(_load(tile, tile * TILE) for tile in range(TILES))]


def _function(name: str, first: Iterable[str], body: Iterable[str]) -> str:
    """`body` runs `%steps` times, with pointers `%at_0`, … to tiles of the memory, behind the two sets of shapes."""
    tiles = [f"%at_{n} = getelementptr i8, ptr %at, i64 {2 * SHAPE + n * TILE}" for n in range(8)]
    begin = [
        f"%low = getelementptr i8, ptr %at, i64 {SHAPE}", *tiles, "%a = load <16 x float>, ptr %at_7, align 64",
        "call void @llvm.x86.ldtilecfg(ptr %at)", *first,
    ]  # fmt: skip
    return steps_text(name, begin, body, ["call void @llvm.x86.tilerelease()"])
