"""Loops of machine code that do what generated code does between its loads and its arithmetic; for calibration.

Of `register_bytes`. Each over `blocks` blocks, `steps` times: `scanned(memory, blocks, steps)`: chains of sums beside
one another, of vectors whose lanes are scanned. `carried`: the last lane of a sum is added to all of the next vector.
`divided(memory, places, blocks, steps)`: remainders of 64-bit integers, as tests of indices take them.
`branched(memory, places, blocks, steps)`: a branch is taken where a number is odd. `multiplied`: vectors are loaded,
and multiplied and added `FOLD` times each, and in `extended` those of two bytes an element, which are extended.
`shuffled`: vectors are interleaved with another one. `packed(memory, places, out, blocks, steps)` copies vectors of
rows to memory side by side, `packed_turned` blocks of as many rows as a vector has lanes, which are turned, and
`worded` pairs of rows of two bytes an element, which are joined to words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .calibration_accesses import BESIDE, CHAINS, access_loop
from .calibration_text import function_text, passes_text, splat

FOLD = 4
"""Multiply-adds of each vector that is loaded or extended."""
WORDS = {
    "scanned": 3, "carried": 3, "divided": 4, "branched": 4, "multiplied": 3, "extended": 3, "shuffled": 3, "packed": 5,
    "packed_turned": 5, "worded": 5,
}  # fmt: skip
"""Parameters of each loop."""
SHUFFLES = 8
"""Shuffles of a block, each of a vector of its own."""


def instruction_loops(register_bytes: int) -> str:
    """The text of all of them."""
    lanes = register_bytes // 4
    vector = f"<{lanes} x float>"
    half = f"%a = load {vector}, ptr %at, align 8"
    return "\n".join(
        (
            f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
            access_loop("scanned", _scanned(lanes), "float", CHAINS * lanes, vector, count=CHAINS),
            access_loop("carried", _carried(lanes), "float", lanes, vector, count=1),
            access_loop("divided", _divided, "i32", BESIDE, "i64", by_places=True),
            _branching(),
            access_loop("multiplied", _folded(lanes, False), "float", BESIDE * lanes, vector, count=FOLD * BESIDE),
            access_loop("extended", _folded(lanes, True), "i16", BESIDE * lanes, vector, count=FOLD * BESIDE),
            access_loop("shuffled", _shuffled(lanes), "float", lanes, vector, count=SHUFFLES, first=half),
            _copy("packed", lanes, _packed(lanes), BESIDE, BESIDE),
            _copy("packed_turned", lanes, _turned(lanes), 1, lanes),
            _copy("worded", lanes, _worded(lanes), 2, 2),
        )
    )


def _scanned(lanes: int) -> Callable[[int], Sequence[str]]:
    vector = f"<{lanes} x float>"

    def body(n: int) -> Sequence[str]:
        lines = [f"%p{n} = getelementptr float, ptr %here, i64 {n * lanes}"]
        lines += [f"%v{n}_1 = load {vector}, ptr %p{n}, align 4"]
        distance = 1
        while distance < lanes:
            moved = [lane if lane < distance else lanes + lane - distance for lane in range(lanes)]
            lines += [_shuffle(f"%m{n}_{distance}", lanes, "zeroinitializer", f"%v{n}_{distance}", moved)]
            lines += [f"%v{n}_{2 * distance} = fadd {vector} %v{n}_{distance}, %m{n}_{distance}"]
            distance *= 2
        return [*lines, f"%t{n} = fadd {vector} %s{n}, %v{n}_{lanes}"]

    return body


def _carried(lanes: int) -> Callable[[int], Sequence[str]]:
    def body(n: int) -> Sequence[str]:
        return (
            f"%v{n} = load <{lanes} x float>, ptr %here, align 4",
            _shuffle(f"%l{n}", lanes, f"%s{n}", "poison", [lanes - 1] * lanes),
            f"%t{n} = fadd <{lanes} x float> %v{n}, %l{n}",
        )

    return body


def _divided(n: int) -> Sequence[str]:
    return (
        f"%h{n} = getelementptr i32, ptr %here, i64 {n}", f"%i{n} = load i32, ptr %h{n}, align 4",
        f"%x{n} = sext i32 %i{n} to i64", f"%d{n} = add i64 %x{n}, 3", f"%e{n} = mul i64 %x{n}, 977",
        f"%r{n}_0 = srem i64 %e{n}, %d{n}", f"%t{n} = add i64 %s{n}, %r{n}_0",
    )  # fmt: skip


def _branching() -> str:
    lines = [
        "%i = load i32, ptr %here, align 4", "%bit = and i32 %i, 1", "%odd = icmp ne i32 %bit, 0",
        "br i1 %odd, label %there_odd, label %joined\nthere_odd:", "store volatile i32 %i, ptr %at, align 4",
        "br label %joined\njoined:",
    ]  # fmt: skip
    passes = passes_text(lines, "%places_at", "i32", 1, (), (), "joined")
    return function_text("branched", "%places_at = inttoptr i64 %places to ptr", passes, "i64 %places, ")


def _folded(lanes: int, narrow: bool) -> Callable[[int], Sequence[str]]:
    vector = f"<{lanes} x float>"

    def body(n: int) -> Sequence[str]:
        number, lines = n // FOLD, []
        if n % FOLD == 0 and narrow:
            lines += [f"%p{number} = getelementptr i16, ptr %here, i64 {number * lanes}"]
            lines += [f"%i{number} = load <{lanes} x i16>, ptr %p{number}, align 2"]
            lines += [f"%w{number} = zext <{lanes} x i16> %i{number} to <{lanes} x i32>"]
            lines += [f"%u{number} = shl <{lanes} x i32> %w{number}, {splat(lanes, 'i32', 16)}"]
            lines += [f"%v{number} = bitcast <{lanes} x i32> %u{number} to {vector}"]
        elif n % FOLD == 0:
            lines += [f"%p{number} = getelementptr float, ptr %here, i64 {number * lanes}"]
            lines += [f"%v{number} = load {vector}, ptr %p{number}, align 4"]
        called = f"@llvm.fma.v{lanes}f32({vector} %v{number}, {vector} {splat(lanes, 'float', 0.5)}, {vector} %s{n})"
        return [*lines, f"%t{n} = call {vector} {called}"]

    return body


def _shuffled(lanes: int) -> Callable[[int], Sequence[str]]:
    interleaved = [lane // 2 + lanes * (lane % 2) for lane in range(lanes)]

    def body(n: int) -> Sequence[str]:
        return (_shuffle(f"%t{n}", lanes, f"%s{n}", "%a", interleaved),)

    return body


def _packed(lanes: int) -> Sequence[str]:
    lines: list[str] = []
    for n in range(BESIDE):
        lines += [f"%v{n} = load <{lanes} x float>, ptr %p{n}, align 4"]
        lines += _stored(lanes, n, f"%v{n}")
    return lines


def _turned(lanes: int) -> Sequence[str]:
    """Rows from the place on, a page and a line apart, turned by exchanging ever smaller blocks."""
    lines, rows = [], [f"%v{n}_0" for n in range(lanes)]
    for n in range(lanes):
        lines += [f"%q{n}_0 = getelementptr i8, ptr %p0, i64 {n * ROW_BYTES}"]
        lines += [f"%v{n}_0 = load <{lanes} x float>, ptr %q{n}_0, align 4"]
    distance = lanes // 2
    while distance:
        for n in range(lanes):
            if n & distance:
                continue
            first, second = rows[n], rows[n + distance]
            low = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
            high = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
            rows[n], rows[n + distance] = f"%w{n}_{distance}", f"%w{n + distance}_{distance}"
            lines += [_shuffle(rows[n], lanes, first, second, low)]
            lines += [_shuffle(rows[n + distance], lanes, first, second, high)]
        distance //= 2
    for n, row in enumerate(rows):
        lines += _stored(lanes, n, row)
    return lines


def _worded(lanes: int) -> Sequence[str]:
    words = f"<{lanes} x i32>"
    lines: list[str] = []
    for half in range(2):
        for n in range(2):
            name = f"{n}_{half}"
            lines += [f"%q{name} = getelementptr i16, ptr %p{n}, i64 {half * lanes}"]
            lines += [f"%i{name} = load <{lanes} x i16>, ptr %q{name}, align 2"]
            lines += [f"%w{name} = zext <{lanes} x i16> %i{name} to {words}"]
        lines += [f"%u{half} = shl {words} %w1_{half}, {splat(lanes, 'i32', 16)}"]
        lines += [f"%b{half} = or {words} %u{half}, %w0_{half}"]
        lines += [f"%f{half} = bitcast {words} %b{half} to <{lanes} x float>"]
        lines += _stored(lanes, half, f"%f{half}")
    return lines


ROW_BYTES = 4096 + 64
"""Bytes from one row to the next that `packed_turned` turns."""


def _stored(lanes: int, n: int, value: str) -> Sequence[str]:
    return (
        f"%o{n} = getelementptr <{lanes} x float>, ptr %block, i64 {n}",
        f"store <{lanes} x float> {value}, ptr %o{n}, align {4 * lanes}",
    )  # fmt: skip


def _copy(name: str, lanes: int, body: Sequence[str], places: int, stored: int) -> str:
    """Copies to `stored` vectors of `out`, one block after another, from as many places, which count vectors."""
    vector = f"<{lanes} x float>"
    lines = [f"%number = mul i64 %n, {stored}", f"%block = getelementptr {vector}, ptr %out_at, i64 %number"]
    for n in range(places):
        lines += [f"%h{n} = getelementptr i32, ptr %here, i64 {n}", f"%j{n} = load i32, ptr %h{n}, align 4"]
        lines += [f"%p{n} = getelementptr {vector}, ptr %at, i32 %j{n}"]
    first = "%places_at = inttoptr i64 %places to ptr\n  %out_at = inttoptr i64 %out to ptr"
    passes = passes_text([*lines, *body], "%places_at", "i32", places, (), ())
    return function_text(name, first, passes, "i64 %places, i64 %out, ")


def _shuffle(name: str, lanes: int, first: str, second: str, order: Sequence[int]) -> str:
    vector, chosen = f"<{lanes} x float>", ", ".join(f"i32 {lane}" for lane in order)
    return f"{name} = shufflevector {vector} {first}, {vector} {second}, <{lanes} x i32> <{chosen}>"
