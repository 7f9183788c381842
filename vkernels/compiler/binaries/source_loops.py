"""The loops of a TTIR text: how often each runs for given arguments, and what one trip reads, writes and multiplies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import and_, eq, ge, gt, le, lshift, lt, ne, or_, rshift, xor

from .source_text import READS, VALUE, WRITES, Operation, accessed, multiply_adds, read_operations, walk

SAMPLES = 16
"""Iterations of a loop that are looked at, evenly spread, where what is inside depends on them."""
TURNS, FIRST = "programs", "first"
"""The parameters of launches whose programs take turns: of how many, and the first; a call begins at 0."""
PROGRAMS = 128
"""Programs that are looked at, if there are more."""
Length = float | Sequence[float]
"""How far apart bounds of loops are that are in memory; several numbers are of such loops in turn, where those between
the same bounds are one."""
GOLDEN = 0.6180339887498949
"""Steps of this part of the whole are spread evenly, and are in step with no size of a grid."""


@dataclass(frozen=True)
class SourceLoop:
    """A loop, or the function itself (`parent` None). `first`, `last`: its lines, from 1. The rest: of one trip, inner
    loops apart: bytes of device memory, multiply-adds of dots."""

    first: int
    last: int
    parent: int | None
    read_bytes: int
    written_bytes: int
    multiply_adds: int


@dataclass(frozen=True)
class Source:
    """A kernel's loops: the function, then each `scf.for` and `scf.while` in the order of their lines. `accesses`:
    elements and bytes of each load and store of device memory, by line. `ways`: the first and the last line of each
    region of an `scf.if`. `dots`: the lines of dots."""

    loops: tuple[SourceLoop, ...]
    accesses: Mapping[int, tuple[int, int]]
    ways: tuple[tuple[int, int], ...]
    function: Operation = field(repr=False, compare=False)
    numbers: Mapping[int, int] = field(repr=False, compare=False)
    dots: frozenset[int] = frozenset()

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the function's parameters in their order, as `trips` takes them."""
        return tuple(name.removeprefix("%") for name in self.function.arguments)

    def loop_of(self, line: int) -> int:
        """The number of the innermost loop that a line is in."""
        return max((n for n, each in enumerate(self.loops) if each.first <= line <= each.last), default=0)

    def trips(
        self, arguments: Mapping[str, int], grid: Sequence[int] = (1, 1, 1), unknown_length: Length | None = None
    ) -> list[float | None]:
        """How often each loop's body runs in one program, as `runs` has it."""
        return self.runs(arguments, grid, unknown_length)[0]

    def runs(
        self, arguments: Mapping[str, int], grid: Sequence[int] = (1, 1, 1), unknown_length: Length | None = None
    ) -> tuple[list[float | None], dict[tuple[int, int], float | None]]:
        """How often each loop's body, and each of the `ways`, runs in one program, on average over those of the grid.

        `arguments`: of the kernel, by name; those that bounds need and that are missing leave the trips unknown,
        None, as do bounds that come out of memory. `unknown_length`: how far apart those of memory are on average, if
        given; several numbers are of the loops in turn, the last of all further ones. A bound that is a product of one
        of memory and a number, as of loops that were joined, is so many times as far away. `grid`: programs of the
        work: where fewer take turns (a parameter `programs` says how many there are), these run once each.
        """
        x, y, z = (*grid, 1, 1, 1)[:3]
        count = max(1, x * y * z)
        programs = list(range(count))
        if count > PROGRAMS:
            programs = [int(count * ((n + 0.5) * GOLDEN % 1)) for n in range(PROGRAMS)]
        totals: list[float | None] = [0.0] * len(self.loops)
        entries: dict[tuple[int, int], float | None] = dict.fromkeys(self.ways, 0.0)
        in_turn: dict[object, int] = {}
        for program in programs:
            values = {f"%{name}": value for name, value in {TURNS: count, FIRST: 0, **arguments}.items()}
            here = (program % x, program // x % y, program // (x * y)), (x, y, z)
            missing = {name for name in self.function.arguments if name not in values}
            _Walk(self, totals, entries, here, 1 / len(programs), unknown_length, in_turn, missing=missing).run(
                self.function.regions[0], values, 1.0
            )
            totals[0] = 1.0
        return totals, entries


def read_source(text: str) -> Source:
    """The loops of a TTIR module. Raises `FileError` for text that is none."""
    function = read_operations(text)
    loops: list[SourceLoop] = []
    numbers: dict[int, int] = {}

    def add(operation: Operation, parent: int | None) -> None:
        number = len(loops)
        numbers[operation.line] = number
        inner = _outermost(operation)
        own = [each for each in walk(operation) if not any(loop.line <= each.line <= loop.last for loop in inner)]
        read = [accessed(each) for each in own if each.name in READS]
        written = [accessed(each) for each in own if each.name in WRITES]
        loops.append(
            SourceLoop(
                operation.line, operation.last, parent, sum(bytes_ for _, bytes_ in read),
                sum(bytes_ for _, bytes_ in written), sum(map(multiply_adds, own)),
            )
        )  # fmt: skip
        for each in inner:
            add(each, number)

    add(function, None)
    accesses = {each.line: accessed(each) for each in walk(function) if each.name in READS + WRITES}
    ways = [_lines(region) for each in walk(function) if each.name == "scf.if" for region in each.regions if region]
    dots = frozenset(each.line for each in walk(function) if multiply_adds(each))
    return Source(tuple(loops), accesses, tuple(ways), function, numbers, dots)


def _lines(region: Sequence[Operation]) -> tuple[int, int]:
    return region[0].line, max(each.last or each.line for each in region)


_LOOPS = ("scf.for", "scf.while")


def _outermost(operation: Operation) -> list[Operation]:
    """The loops inside an operation that are in no other loop there."""
    found = []
    for region in operation.regions:
        for each in region:
            found += [each] if each.name in _LOOPS else _outermost(each)
    return found


Value = int | None


@dataclass
class _Walk:
    """Follows the integers of one program. `entries`: how often each way of a branch runs. `weight`: of this program in
    the totals. `factors`: of unknown values, by
    what they were multiplied. `missing`: arguments that nobody gave, and what follows from these and known numbers.
    `origins`: of each value, what it was computed from and how; values that are computed alike have the same."""

    source: Source
    totals: list[float | None]
    entries: dict[tuple[int, int], float | None]
    place: tuple[Sequence[int], Sequence[int]]
    weight: float
    unknown_length: Length | None
    in_turn: dict[object, int] = field(default_factory=dict)
    factors: dict[str, int] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    origins: dict[str, int] = field(default_factory=dict)

    def run(self, operations: Sequence[Operation], values: dict[str, int], often: float | None) -> None:
        """`often`: times that these operations run; None where that is unknown."""
        for each in operations:
            if each.name == "scf.for":
                self._for(each, values, often)
            elif each.name == "scf.while":
                self._loop(each, values, often, self._length(each))
            elif each.name == "scf.if":
                self._if(each, values, often)
            elif each.results:
                self._follow(each, values)

    def _follow(self, operation: Operation, values: dict[str, int]) -> None:
        """Note what is known of an operation's result."""
        result = operation.results[0]
        how = VALUE.sub("", operation.rest)
        self.origins[result] = hash((operation.name, how, *map(self._origin, operation.operands)))
        if (value := self._value(operation, values)) is not None:
            values[result] = value
            return
        unknown = {name for name in operation.operands if name not in values}
        if unknown and unknown <= self.missing and operation.name.startswith("arith."):
            self.missing.add(result)
        if operation.name in _KEEPING:
            self._keep_factor(operation, values)

    def _origin(self, name: str) -> int:
        return self.origins.get(name, hash(name))

    def _keep_factor(self, operation: Operation, values: Mapping[str, int]) -> None:
        """Note the factor of an unknown value that is computed from an unknown and a known one."""
        known = [values[name] for name in operation.operands if name in values]
        unknown = [name for name in operation.operands if name not in values]
        if len(known) == len(unknown) == 1:
            times = known[0] if operation.name == "arith.muli" else 1
            self.factors[operation.results[0]] = times * self.factors.get(unknown[0], 1)

    def _length(self, operation: Operation) -> float | None:
        """How far apart the bounds of a loop are that come out of memory."""
        lengths = self.unknown_length
        if lengths is None:
            return None
        if not isinstance(lengths, float | int):
            key = tuple(map(self._origin, operation.operands[:3])) if operation.name == "scf.for" else operation.line
            place = self.in_turn.setdefault(key, len(self.in_turn))
            lengths = lengths[min(place, len(lengths) - 1)]
        end = operation.operands[1] if operation.name == "scf.for" else ""
        return lengths * max(1, self.factors.get(end, 1))

    def _if(self, operation: Operation, values: dict[str, int], often: float | None) -> None:
        condition = values.get(operation.operands[0]) if operation.operands else None
        for number, region in enumerate(operation.regions):
            if condition is None or bool(condition) == (number == 0):
                if region:
                    way = _lines(region)
                    self.entries[way] = self._added(self.entries[way], often)
                self.run(region, values, often)

    def _for(self, operation: Operation, values: dict[str, int], often: float | None) -> None:
        bounds = (*operation.operands, "", "", "")[:3]
        lower, upper, step = map(values.get, bounds)
        if lower is None or upper is None or not step:
            length = None if self.missing.intersection(bounds) else self._length(operation)
            trips = None if length is None else length if not step else max(1.0, -(-length // step))
            self._loop(operation, values, often, trips)
            return
        count = max(0, -(-(upper - lower) // step))
        self._add(operation, None if often is None else often * count)
        if count and _outermost(operation):
            samples = min(SAMPLES, count)
            for n in range(samples):
                inside = {**values, operation.arguments[0]: lower + step * (n * count // samples)}
                self.run(operation.regions[0], inside, None if often is None else often * count / samples)

    def _loop(self, operation: Operation, values: dict[str, int], often: float | None, trips: float | None) -> None:
        often = None if often is None or trips is None else often * trips
        self._add(operation, often)
        for region in operation.regions:
            self.run(region, dict(values), often)

    def _add(self, operation: Operation, trips: float | None) -> None:
        number = self.source.numbers[operation.line]
        self.totals[number] = self._added(self.totals[number], trips)

    def _added(self, known: float | None, times: float | None) -> float | None:
        return None if known is None or times is None else known + self.weight * times

    def _value(self, operation: Operation, values: Mapping[str, int]) -> Value:
        name = operation.name
        if name == "arith.constant":
            return _constant(operation.rest)
        if name in ("tt.get_program_id", "tt.get_num_programs"):
            return self.place[name == "tt.get_num_programs"][_axis(operation.rest)]
        if name in _SAME:
            return values.get(operation.operands[0]) if operation.operands else None
        found = [values.get(each) for each in operation.operands]
        if name == "arith.select" and len(found) == 3:
            return None if found[0] is None else found[1 if found[0] else 2]
        if len(found) != 2:
            return None
        one, other = found
        if one is None or other is None:
            return None
        if name == "arith.cmpi":
            return int(_comparison(operation.rest)(one, other))
        compute = _BINARY.get(name)
        return None if compute is None else compute(one, other)


_KEEPING = ("arith.muli", "arith.maxsi", "arith.maxui")
_SAME = ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.bitcast")


def _divided(one: int, other: int) -> Value:
    return None if other == 0 else int(abs(one) // abs(other)) * (1 if (one < 0) == (other < 0) else -1)


def _rest(one: int, other: int) -> Value:
    quotient = _divided(one, other)
    return None if quotient is None else one - quotient * other


_BINARY: Mapping[str, Callable[[int, int], Value]] = {
    "arith.addi": lambda a, b: a + b, "arith.subi": lambda a, b: a - b, "arith.muli": lambda a, b: a * b,
    "arith.divsi": _divided, "arith.divui": _divided, "arith.remsi": _rest, "arith.remui": _rest,
    "arith.ceildivsi": lambda a, b: None if b == 0 else -(-a // b),
    "arith.floordivsi": lambda a, b: None if b == 0 else a // b,
    "arith.minsi": min, "arith.minui": min, "arith.maxsi": max, "arith.maxui": max,
    "arith.andi": and_, "arith.ori": or_, "arith.xori": xor,
    "arith.shli": lambda a, b: lshift(a, b) if 0 <= b < 64 else None,
    "arith.shrsi": lambda a, b: rshift(a, b) if b >= 0 else None,
    "arith.shrui": lambda a, b: rshift(a, b) if a >= 0 and b >= 0 else None,
}  # fmt: skip

_COMPARISONS: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
    ("eq", eq), ("ne", ne), ("slt", lt), ("sle", le), ("sgt", gt), ("sge", ge), ("ult", lt), ("ule", le), ("ugt", gt),
    ("uge", ge),
)  # fmt: skip


def _comparison(rest: str) -> Callable[[int, int], bool]:
    if number := re.search(r"predicate = (\d+)", rest):
        return _COMPARISONS[int(number[1]) % len(_COMPARISONS)][1]
    return dict(_COMPARISONS).get(rest.strip().split(",")[0], eq)


def _constant(rest: str) -> Value:
    found = re.match(r"\s*(?:\(\) <\{value = )?(-?\d+|true|false)(?: : (?:i\d+|index))?(?:\}>|$| )", rest)
    if found is None:
        return None
    return {"true": 1, "false": 0}.get(found[1]) if not found[1].lstrip("-").isdecimal() else int(found[1])


def _axis(rest: str) -> int:
    number = re.search(r"axis = (\d)", rest)
    if number is not None:
        return min(2, int(number[1]))
    return {"y": 1, "z": 2}.get(rest.strip()[:1], 0)
