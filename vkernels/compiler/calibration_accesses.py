"""Loops of machine code that access memory as kernels do where elements are not side by side; for calibration.

Of `register_bytes`, all of f32 and with several sums. Each over `blocks` blocks, `steps` times: `scatter(memory,
places, blocks, steps)` stores vectors, as `gather` loads them. `apart(memory, blocks, steps)`: each lane of a vector is
loaded from a row of its own, and `store_apart` stores to such rows; `apart_narrow` and `store_apart_narrow`: the same
of lanes of 16 bits, each moved by itself. `computed`: multiplies and adds, `apart_computed`: as much beside the loads
of `apart`. `found(memory, places, blocks, steps)`: each is found by an i32 that counts elements, and by `found_twice`
in two tables. `whole` and `masked`: vectors are loaded and stored, all lanes or all but one. `across`: chains beside
one another, in which the sum of a vector's lanes is waited for by the next vector. `atomic(memory, places, blocks,
steps)` adds to elements found by an i32, and `update` does so without atomics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from .calibration_text import function_text, passes_text, sums_text

BESIDE = 4
"""Vectors, or elements, of a block."""
COMPUTED = 16
"""Sums of which each is multiplied and added to in turn, `MULTIPLIED` times for 16 lanes: in about the time of `BESIDE`
vectors of elements apart."""
MULTIPLIED = 6
CHAINS = 4
"""Chains of sums across lanes: as of a row whose work overlaps with that of the next three."""
ROW = 17
"""Elements of a row of which `apart` loads one: no power of two."""


def access_loops(register_bytes: int) -> str:
    lanes = register_bytes // 4
    vector, mask = f"<{lanes} x float>", f"<{lanes} x i1>"
    loaded = f"%a = load {vector}, ptr %at, align 8"
    narrow = f"%a = load <{lanes} x i16>, ptr %at, align 8"
    return f"""
declare {vector} @llvm.masked.gather.v{lanes}f32.v{lanes}p0(<{lanes} x ptr>, i32, {mask}, {vector})
declare void @llvm.masked.scatter.v{lanes}f32.v{lanes}p0({vector}, <{lanes} x ptr>, i32, {mask})
declare {vector} @llvm.masked.load.v{lanes}f32.p0(ptr, i32, {mask}, {vector})
declare void @llvm.masked.store.v{lanes}f32.p0({vector}, ptr, i32, {mask})
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
declare float @llvm.vector.reduce.fadd.v{lanes}f32(float, {vector})
{access_loop("scatter", _scatter(lanes), "i32", BESIDE, None, by_places=True, first=loaded)}
{access_loop("apart", _apart(lanes), "float", BESIDE, vector)}
{access_loop("store_apart", _store_apart(lanes), "float", BESIDE, None, first=loaded)}
{access_loop("apart_narrow", _apart_narrow(lanes), "i16", BESIDE, f"<{lanes} x i16>")}
{access_loop("store_apart_narrow", _store_apart_narrow(lanes), "i16", BESIDE, None, first=narrow)}
{access_loop("computed", _computed(lanes, 0), "float", BESIDE, vector, count=COMPUTED)}
{access_loop("apart_computed", _computed(lanes, BESIDE), "float", BESIDE, vector, count=COMPUTED)}
{access_loop("found", _found(lanes, 1), "i32", BESIDE * lanes, vector, by_places=True)}
{access_loop("found_twice", _found(lanes, 2), "i32", BESIDE * lanes, vector, by_places=True)}
{access_loop("whole", _whole(lanes), "float", BESIDE * lanes, vector)}
{access_loop("masked", _masked(lanes), "float", BESIDE * lanes, vector, first=_mask(lanes))}
{access_loop("across", _across(lanes), "float", CHAINS * lanes, "float", count=CHAINS)}
{access_loop("atomic", _update(is_atomic=True), "i32", BESIDE, "float", by_places=True)}
{access_loop("update", _update(is_atomic=False), "i32", BESIDE, "float", by_places=True)}
"""


def access_loop(
    name: str, body: Callable[[int], Sequence[str]], element: str, step: int, kind: str | None, *, count: int = BESIDE,
    by_places: bool = False, first: str = "",
) -> str:  # fmt: skip
    """A function whose blocks have `count` times the body, over memory or over `places`. `kind`: of its sums."""
    sums = [f"%s{n} = phi {kind} [%r{n}, %pass], [%t{n}, %loop]" for n in range(count)] if kind else []
    lines = [*sums, *(line for n in range(count) for line in body(n))]
    around = sums_text(kind, count) if kind else ((), ())
    begin = f"%places_at = inttoptr i64 %places to ptr\n  {first}" if by_places else first
    passes = passes_text(lines, "%places_at" if by_places else "%at", element, step, *around)
    return function_text(name, begin, passes, "i64 %places, " if by_places else "")


def _scatter(lanes: int) -> Callable[[int], Sequence[str]]:
    def body(n: int) -> Sequence[str]:
        return (
            f"%q{n} = getelementptr i32, ptr %here, i64 {n}", f"%i{n} = load i32, ptr %q{n}, align 4",
            f"%p{n} = getelementptr <{lanes} x float>, ptr %at, i32 %i{n}",
            f"store <{lanes} x float> %a, ptr %p{n}, align {4 * lanes}",
        )  # fmt: skip

    return body


def _apart(lanes: int) -> Callable[[int], Sequence[str]]:
    def body(n: int) -> Sequence[str]:
        loaded = _gathered(lanes, f"%v{n}", f"%p{n}")
        return (*_of_rows(lanes, n), *loaded, f"%t{n} = fadd <{lanes} x float> %s{n}, %v{n}")

    return body


def _computed(lanes: int, apart: int) -> Callable[[int], Sequence[str]]:
    """A sum's multiplications and additions; to the first sums an element of each of several rows is added, too."""
    vector, times = f"<{lanes} x float>", max(1, MULTIPLIED * lanes // 16)
    half = f"{vector} <{', '.join(['float 0.5'] * lanes)}>"

    def body(n: int) -> Sequence[str]:
        names = [f"%s{n}", *(f"%c{n}_{time}" for time in range(1, times)), f"%t{n}" if n >= apart else f"%c{n}_{times}"]
        computed = [
            f"{after} = call {vector} @llvm.fma.v{lanes}f32({vector} {before}, {half}, {half})"
            for before, after in pairwise(names)
        ]
        if n >= apart:
            return computed
        loaded = _gathered(lanes, f"%v{n}", f"%p{n}")
        return [*_of_rows(lanes, n), *loaded, *computed, f"%t{n} = fadd {vector} {names[-1]}, %v{n}"]

    return body


def _store_apart(lanes: int) -> Callable[[int], Sequence[str]]:
    vector, pointers = f"<{lanes} x float>", f"<{lanes} x ptr>"

    def body(n: int) -> Sequence[str]:
        called = f"@llvm.masked.scatter.v{lanes}f32.v{lanes}p0({vector} %a, {pointers} %p{n}, i32 4, {_all(lanes)})"
        return (*_of_rows(lanes, n), f"call void {called}")

    return body


def _apart_narrow(lanes: int) -> Callable[[int], Sequence[str]]:
    vector = f"<{lanes} x i16>"

    def body(n: int) -> Sequence[str]:
        lines = []
        for lane in range(lanes):
            name, before = f"{n}_{lane}", f"%v{n}_{lane - 1}" if lane else "poison"
            lines += [f"%p{name} = getelementptr i16, ptr %here, i64 {n + ROW * lane}"]
            lines += [f"%e{name} = load i16, ptr %p{name}, align 2"]
            lines += [f"%v{name} = insertelement {vector} {before}, i16 %e{name}, i32 {lane}"]
        return [*lines, f"%t{n} = xor {vector} %s{n}, %v{n}_{lanes - 1}"]

    return body


def _store_apart_narrow(lanes: int) -> Callable[[int], Sequence[str]]:
    def body(n: int) -> Sequence[str]:
        lines = []
        for lane in range(lanes):
            name = f"{n}_{lane}"
            lines += [f"%p{name} = getelementptr i16, ptr %here, i64 {n + ROW * lane}"]
            lines += [f"%e{name} = extractelement <{lanes} x i16> %a, i32 {lane}"]
            lines += [f"store i16 %e{name}, ptr %p{name}, align 2"]
        return lines

    return body


def _of_rows(lanes: int, n: int) -> Sequence[str]:
    """Pointers to an element of each row."""
    rows = ", ".join(f"i64 {ROW * lane}" for lane in range(lanes))
    return (
        f"%h{n} = getelementptr float, ptr %here, i64 {n}",
        f"%p{n} = getelementptr float, ptr %h{n}, <{lanes} x i64> <{rows}>",
    )


def _all(lanes: int) -> str:
    return f"<{lanes} x i1> <{', '.join(['i1 true'] * lanes)}>"


def _gathered(lanes: int, value: str, pointers: str) -> Sequence[str]:
    vector, of = f"<{lanes} x float>", f"<{lanes} x ptr> {pointers}, i32 4, {_all(lanes)}"
    return (f"{value} = call {vector} @llvm.masked.gather.v{lanes}f32.v{lanes}p0({of}, {vector} poison)",)


def _found(lanes: int, tables: int) -> Callable[[int], Sequence[str]]:
    """The second table begins one element after the first."""
    vector = f"<{lanes} x float>"

    def body(n: int) -> Sequence[str]:
        lines = [f"%h{n} = getelementptr i32, ptr %here, i64 {n * lanes}"]
        lines += [f"%i{n} = load <{lanes} x i32>, ptr %h{n}, align 4"]
        before = f"%s{n}"
        for table in range(tables):
            lines += [f"%b{n}_{table} = getelementptr float, ptr %at, i64 {table}"]
            lines += [f"%p{n}_{table} = getelementptr float, ptr %b{n}_{table}, <{lanes} x i32> %i{n}"]
            lines += _gathered(lanes, f"%v{n}_{table}", f"%p{n}_{table}")
            sum_ = f"%t{n}" if table == tables - 1 else f"%t{n}_{table}"
            lines += [f"{sum_} = fadd {vector} {before}, %v{n}_{table}"]
            before = sum_
        return lines

    return body


def _whole(lanes: int) -> Callable[[int], Sequence[str]]:
    vector = f"<{lanes} x float>"

    def body(n: int) -> Sequence[str]:
        return (
            f"%p{n} = getelementptr float, ptr %here, i64 {n * lanes}", f"%v{n} = load {vector}, ptr %p{n}, align 4",
            f"store {vector} %s{n}, ptr %p{n}, align 4", f"%t{n} = fadd {vector} %s{n}, %v{n}",
        )  # fmt: skip

    return body


def _mask(lanes: int) -> str:
    """A mask that is not known before: all lanes but the last."""
    most = ", ".join(["i1 true"] * (lanes - 1) + ["i1 false"])
    known = f"%any = load volatile i1, ptr %at\n  %anys = insertelement <{lanes} x i1> poison, i1 %any, i32 0"
    return (
        f"{known}\n  %mask_all = shufflevector <{lanes} x i1> %anys, <{lanes} x i1> poison, <{lanes} x i32> "
        f"zeroinitializer\n  %mask = or <{lanes} x i1> %mask_all, <{most}>"
    )


def _masked(lanes: int) -> Callable[[int], Sequence[str]]:
    vector, mask = f"<{lanes} x float>", f"<{lanes} x i1> %mask"
    load, store = (f"@llvm.masked.{name}.v{lanes}f32.p0" for name in ("load", "store"))

    def body(n: int) -> Sequence[str]:
        return (
            f"%p{n} = getelementptr float, ptr %here, i64 {n * lanes}",
            f"%v{n} = call {vector} {load}(ptr %p{n}, i32 4, {mask}, {vector} zeroinitializer)",
            f"call void {store}({vector} %s{n}, ptr %p{n}, i32 4, {mask})",
            f"%t{n} = fadd {vector} %s{n}, %v{n}",
        )

    return body


def _across(lanes: int) -> Callable[[int], Sequence[str]]:
    vector = f"<{lanes} x float>"

    def body(n: int) -> Sequence[str]:
        return (
            f"%p{n} = getelementptr float, ptr %here, i64 {n * lanes}", f"%v{n} = load {vector}, ptr %p{n}, align 4",
            f"%f{n} = insertelement {vector} poison, float %s{n}, i32 0",
            f"%b{n} = shufflevector {vector} %f{n}, {vector} poison, <{lanes} x i32> zeroinitializer",
            f"%d{n} = fsub {vector} %v{n}, %b{n}",
            f"%t{n} = call reassoc float @llvm.vector.reduce.fadd.v{lanes}f32(float -0.0, {vector} %d{n})",
        )  # fmt: skip

    return body


def _update(is_atomic: bool) -> Callable[[int], Sequence[str]]:
    def body(n: int) -> Sequence[str]:
        found = (f"%q{n} = getelementptr i32, ptr %here, i64 {n}", f"%i{n} = load i32, ptr %q{n}, align 4",
                 f"%p{n} = getelementptr float, ptr %at, i32 %i{n}")  # fmt: skip
        if is_atomic:
            return (*found, f"%t{n} = atomicrmw fadd ptr %p{n}, float 1.0 monotonic")
        return (*found, f"%l{n} = load float, ptr %p{n}, align 4", f"%t{n} = fadd float %l{n}, 1.0",
                f"store float %t{n}, ptr %p{n}, align 4")  # fmt: skip

    return body
