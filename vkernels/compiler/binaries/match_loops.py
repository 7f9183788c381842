"""How often each loop of a binary runs, from the loops of the TTIR that it was made from: lines tell which is which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .loop_use import LoopUse
from .read_code import KernelCode
from .source_loops import Source


def trips_of(code: KernelCode, source: Source, trips: Sequence[float | None]) -> list[float | None]:
    """Trips of each region of a binary in one program; None where they are unknown.

    `trips`: of each loop of the source, see `Source.trips`. The binary's lines must be those of the source's text.
    Compilers unroll loops: a trip of the binary is as many of the source as it has its multiply-adds, or its bytes.
    What is left over after unrolled trips runs in a loop of its own. A loop that the source does not have runs once
    where it stands, unless it multiplies or accesses device memory: such loops are the source's, without its lines.
    """
    chosen = [_of_lines(region, source) if n else 0 for n, region in enumerate(code.regions)]
    _lift_pipelined(chosen, code, source)
    works = [_work(loop, source, trips, set(chosen)) for loop in chosen]
    times = [_unrolled(n, works[n], source, code, chosen) for n in range(len(code.regions))]
    found: list[float | None] = []
    for n, region in enumerate(code.regions):
        if region.parent is None:
            found.append(1.0)
        elif not chosen[n] and (region.tensor or region.line_bytes or region.bulk_lines):
            found.append(None)
        elif chosen[n] in _ancestors(n, code, chosen) or not chosen[n]:
            found.append(found[region.parent])
        else:
            peeled = _peeled(n, code, source, chosen, times[n])
            around = found[region.parent]
            left = trips[chosen[n]]
            left = None if left is None else max(0.0, left - peeled * (1.0 if around is None else around))
            found.append(_shared(n, code, chosen, times, left, around))
    return found


def parts_of_versions(code: KernelCode, source: Source, entries: Mapping[tuple[int, int], float | None]) -> list[float]:
    """How often a program runs each of the code's versions, at most once. `entries`: how often it takes each way of the
    source's branches; the innermost way that most of a version's lines are in is the version's."""
    found = []
    for version in code.versions:
        inside: Counter[tuple[int, int]] = Counter()
        for line, count in version.lines.items():
            inside.update({way: count for way in source.ways if way[0] <= line <= way[1]})
        most = sum(version.lines.values()) / 2
        ways = [way for way, count in inside.items() if count > most]
        often = entries[min(ways, key=lambda way: way[1] - way[0])] if ways else None
        found.append(1.0 if often is None else min(1.0, often))
    return found


def copied_bytes(code: KernelCode, source: Source) -> list[float]:
    """Bytes that copies of boxes move to or from shared memory in one trip of each region of a program.

    Instructions do not say how many: warps share the parts of a box. A region that has a line's instructions as often
    as any has the box of that line once; pipelines begin with several. Where warps have roles, Triton may lose lines of
    copies: then a loop with such copies moves what its source's loads have.
    """
    least: dict[int, int] = {}
    for region in code.regions:
        for line, count in region.bulk_lines.items():
            least[line] = min(count, least.get(line, count))

    def moved(line: int, count: int) -> float:
        return source.accesses.get(line, (0, 0))[1] * count / least[line]

    found = []
    for region in code.regions:
        is_lost = region.role and region.bulk_lines and source.accesses.keys().isdisjoint(region.bulk_lines)
        loop = source.loops[_of_lines(region, source)] if is_lost else None
        found.append(float(loop.read_bytes) if loop else sum(moved(*each) for each in region.bulk_lines.items()))
    return found


def _peeled(number: int, code: KernelCode, source: Source, chosen: Sequence[int], times: float) -> float:
    """Trips of a loop of dots that the code around it does before or behind it, as pipelines begin and end there.

    `times`: trips of the source in one of the binary.
    """
    region, parent = code.regions[number], code.regions[number].parent
    own = _products(number, code, source, chosen)
    if parent is None or not own or source.loops[chosen[parent]].multiply_adds:
        return 0.0
    around = code.regions[parent]
    if not region.tensor:
        return _plain_products(around, code, source, chosen[number]) * times / own
    lines = {loop: 0 for n, loop in enumerate(chosen) if code.regions[n].parent == parent and code.regions[n].tensor}
    for line, count in around.lines.items():
        loop = source.loop_of(line)
        if loop in lines:
            lines[loop] += count
    if not lines.get(chosen[number]):
        return 0.0
    products = sum(each.multiply_adds(around.warps or code.warps) for each in around.tensor)
    return products * lines[chosen[number]] / sum(lines.values()) * times / own


OWN = 0.15
"""Part of a region's lines that tells that it is an outer loop, whose inner one was unrolled: less is what compilers
move into an inner loop."""


def _of_lines(region: LoopUse, source: Source) -> int:
    """The outermost loop that has a good part of a region's lines."""
    votes: Counter[int] = Counter()
    for line, count in region.lines.items():
        votes[source.loop_of(line)] += count
    del votes[0]
    voted = sum(votes.values())
    return min((loop for loop, count in votes.items() if count >= OWN * voted), default=0)


def _lift_pipelined(chosen: list[int], code: KernelCode, source: Source) -> None:
    """Give a loop around a loop of dots, most of whose lines are trips that were peeled off that one, the loop around
    it in the source."""
    for n, region in enumerate(code.regions):
        outer, loop = region.parent, source.loops[chosen[n]]
        if outer and chosen[outer] == chosen[n] and loop.parent:
            has_all = _products(n, code, source, chosen) >= PART_OF_PRODUCTS * loop.multiply_adds > 0
            if has_all and loop.parent not in chosen:
                chosen[outer] = loop.parent


PART_OF_PRODUCTS = 0.9
"""Part of the multiply-adds of a trip of the source that tells that a trip of a region is a whole one, at least."""


@dataclass(frozen=True)
class _Work:
    """One trip of a source's loop, loops inside that the binary has unrolled included. `accesses`: how often each line
    with a load or store runs."""

    multiply_adds: float
    accesses: Mapping[int, float]


def _work(loop: int, source: Source, trips: Sequence[float | None], present: set[int]) -> _Work:
    own = source.loops[loop]
    products = float(own.multiply_adds)
    accesses = {line: 1.0 for line in source.accesses if source.loop_of(line) == loop}
    for number, inner in enumerate(source.loops):
        if inner.parent == loop and number not in present:
            often, around = trips[number], trips[loop]
            inside = _work(number, source, trips, present)
            times = often / around if often and around else 1.0
            products += times * inside.multiply_adds
            accesses |= {line: times * each for line, each in inside.accesses.items()}
    return _Work(products, accesses)


def _ancestors(number: int, code: KernelCode, chosen: Sequence[int]) -> set[int]:
    found = set()
    parent = code.regions[number].parent
    while parent is not None:
        found.add(chosen[parent])
        parent = code.regions[parent].parent
    return found


def _unrolled(number: int, loop: _Work, source: Source, code: KernelCode, chosen: Sequence[int]) -> float:
    """Trips of the source in one of the binary: by its multiply-adds, or by its bytes where these say less, as warps
    may repeat each other's products.

    Of loads and stores only those count that give each thread an element: of smaller ones threads repeat each other's.
    Where none has a line of its own, as a load may have that of what takes its value, the access before a line is it.
    """
    region = code.regions[number]
    threads = code.warps * code.threads
    moved = needed = 0.0
    if not region.tensor and region.line_bytes.keys().isdisjoint(loop.accesses):
        for line, bytes_ in region.line_bytes.items():
            before = max((each for each in loop.accesses if each < line), default=0)
            if before and source.accesses[before][0] >= threads:
                moved += bytes_ * threads
        wide = [line for line in loop.accesses if source.accesses[line][0] >= threads]
        needed = sum(loop.accesses[line] * source.accesses[line][1] for line in wide)
    for line, often in loop.accesses.items():
        elements, bytes_ = source.accesses[line]
        if elements >= threads and line in region.line_bytes:
            moved, needed = moved + region.line_bytes[line] * threads, needed + often * bytes_
    found = [moved / needed] if needed else []
    if loop.multiply_adds and region.tensor:
        found.append(_multiply_adds(number, code, chosen) / loop.multiply_adds)
    return max(1.0, float(round(min(found, default=1.0))))


def _multiply_adds(number: int, code: KernelCode, chosen: Sequence[int]) -> float:
    """Those of a trip of a region on tensor cores, of all roles that share its loop."""
    region = code.regions[number]
    alike = zip(code.regions, chosen, strict=True)
    sharing = len({each.role for each, loop in alike if each.tensor and loop == chosen[number]} - {0}) or 1
    return sharing * sum(each.multiply_adds(region.warps or code.warps) for each in region.tensor)


def _products(number: int, code: KernelCode, source: Source, chosen: Sequence[int]) -> float:
    """Multiply-adds of dots in a trip of a region, on tensor cores where it has some."""
    region = code.regions[number]
    return _multiply_adds(number, code, chosen) if region.tensor else _plain_products(region, code, source)


def _plain_products(region: LoopUse, code: KernelCode, source: Source, loop: int | None = None) -> float:
    """Multiply-adds of dots in a trip of a region, without tensor cores. `loop`: of the source; all without."""
    lines = (line for line in source.dots if loop is None or source.loop_of(line) == loop)
    return float(sum(region.line_products.get(line, 0) for line in lines) * (region.warps or code.warps) * code.threads)


def _shared(
    number: int, code: KernelCode, chosen: Sequence[int], times: Sequence[float], trips: float | None,
    around: float | None,
) -> float | None:  # fmt: skip
    """The trips of a loop that others, left-overs of unrolling, may share its source with: those without tensor cores
    where it has some are none of it."""
    if trips is None:
        return None
    parent = code.regions[number].parent
    role = code.regions[number].role
    same = [n for n, loop in enumerate(chosen) if loop == chosen[number] and code.regions[n].role == role]
    alike = [n for n in same if code.regions[n].parent == parent]
    main = max(alike, key=lambda n: (bool(code.regions[n].tensor), times[n], -n))
    if number == main:
        return float(trips // times[main]) if around in (None, 1.0) and trips.is_integer() else trips / times[main]
    if number != max((n for n in alike if n != main), key=lambda n: (times[n], -n)) or times[number] == times[main]:
        return 0.0
    entries = around or 1.0
    left = trips / entries % times[main] * entries
    return left / times[number]
