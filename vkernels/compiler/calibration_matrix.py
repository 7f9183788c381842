"""Loops of machine code for matrix units (AMX), for calibration.

Each `steps` times, on tiles of 16 rows of 64 bytes: `products(memory, steps)` adds four products to sums of their own,
and `product_chain` to the same sums. `settled`: a product, whose sums are stored, loaded as vectors, and stored as the
next product's operand. `given_back`: four tiles of sums are stored, and loaded as vectors, which are added up.
`staged`: vectors are stored, and loaded as four tiles. `staged_in_turn`: a tile is stored and loaded before each of
four products, and in `staged_together` all four before the first. `side_by_side`: tiles of panels that level 1 does not
hold are loaded past it, one after another, and in `rows_apart` from rows of 1 KiB. `reshaped`: the unit's registers are
set up for tiles of 16 rows, and of 8.
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
APART = 1024
"""Bytes from one row of a panel to the next."""
PANELS = 16
"""Panels of as many rows as a tile: 256 KiB, which no nearest cache holds, but any level 2 beside a matrix unit."""
MATRIX_BYTES = 2 * SHAPE + 8 * TILE + PANELS * ROWS * APART
"""Memory of each loop: two sets of shapes, eight tiles, and panels."""
MATRIX_LOOPS = (
    "products", "product_chain", "settled", "given_back", "staged", "staged_in_turn", "staged_together", "side_by_side",
    "rows_apart", "reshaped",
)  # fmt: skip


def shapes(rows: int) -> bytes:
    """What sets up the unit's eight registers for tiles of so many rows."""
    columns = b"".join(ROW.to_bytes(2, "little") for _ in range(8))
    return bytes([1, *[0] * 15]) + columns.ljust(32, b"\0") + bytes([rows] * 8).ljust(16, b"\0")


def matrix_loops() -> str:
    declared = (
        "void @llvm.x86.ldtilecfg(ptr)", "void @llvm.x86.tilerelease()", "void @llvm.x86.tilezero(i8)",
        "void @llvm.x86.tileloadd64(i8, ptr, i64)", "void @llvm.x86.tilestored64(i8, ptr, i64)",
        "void @llvm.x86.tileloaddt164(i8, ptr, i64)", "void @llvm.x86.tdpbf16ps(i8, i8, i8)",
    )  # fmt: skip
    zeros = [*(f"call void @llvm.x86.tilezero(i8 {n})" for n in range(6)), _load(6, 6 * TILE), _load(7, 7 * TILE)]
    operand, sums, stored = TILE, 0, [line for n in range(TILES) for line in _stored_rows(n)]
    through = ["%v = load <16 x float>, ptr %at_0, align 64", "store volatile <16 x float> %v, ptr %at_1, align 64"]
    texts = (
        _function("products", zeros, [_product(n) for n in range(TILES)]),
        _function("product_chain", zeros, [_product(0)] * TILES),
        _function("settled", zeros, [_load(6, operand), _product(0), _store(0, sums), *through]),
        _function("given_back", zeros, _given_back()),
        _function("staged", zeros, [*stored, *(_load(tile, tile * TILE) for tile in range(TILES))]),
        _function("staged_in_turn", zeros, [line for n in range(TILES) for line in (*_stored_rows(n), *_of_stored(n))]),
        _function("staged_together", zeros, [*stored, *(line for n in range(TILES) for line in _of_stored(n))]),
        _function("side_by_side", zeros, _panels(TILE, ROW)),
        _function("rows_apart", zeros, _panels(ROW, APART)),
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


def _stored_rows(tile: int) -> Sequence[str]:
    """A tile's rows are stored by vectors."""
    lines = []
    for row in range(ROWS):
        name = f"{tile}_{row}"
        lines += [f"%g{name} = getelementptr i8, ptr %at_{tile}, i64 {row * ROW}"]
        lines += [f"store volatile <16 x float> %a, ptr %g{name}, align 64"]
    return lines


def _of_stored(tile: int) -> Sequence[str]:
    """A product of a tile that was stored, to sums of its own."""
    operand = 5 + tile % 2
    return _load(operand, tile * TILE), f"call void @llvm.x86.tdpbf16ps(i8 {tile}, i8 {operand}, i8 7)"


def _panels(tile: int, row: int) -> Sequence[str]:
    """All tiles of all panels are loaded, past level 1. `tile`, `row`: bytes from one tile, and one row, on."""
    lines = [f"%panels = getelementptr i8, ptr %at, i64 {2 * SHAPE + 8 * TILE}"]
    for panel in range(PANELS):
        for number in range(APART // ROW):
            at = panel * ROWS * APART + number * tile
            lines += [f"%l{panel}_{number} = getelementptr i8, ptr %panels, i64 {at}"]
            lines += [f"call void @llvm.x86.tileloaddt164(i8 {number % TILES}, ptr %l{panel}_{number}, i64 {row})"]
    return lines


def _function(name: str, first: Iterable[str], body: Iterable[str]) -> str:
    """`body` runs `%steps` times, with pointers `%at_0`, … to tiles of the memory, behind the two sets of shapes."""
    tiles = [f"%at_{n} = getelementptr i8, ptr %at, i64 {2 * SHAPE + n * TILE}" for n in range(8)]
    begin = [
        f"%low = getelementptr i8, ptr %at, i64 {SHAPE}", *tiles, "%a = load <16 x float>, ptr %at_7, align 64",
        "call void @llvm.x86.ldtilecfg(ptr %at)", *first,
    ]  # fmt: skip
    return steps_text(name, begin, body, ["call void @llvm.x86.tilerelease()"])
