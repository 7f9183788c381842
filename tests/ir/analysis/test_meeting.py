"""Where two accesses can meet: never elsewhere than shown, by enumeration, and what kernels need is shown."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product

import pytest

from tests.library.reference import fresh_seed
from vkernels.ir.analysis.accesses import MemoryAccess, accesses_of
from vkernels.ir.analysis.meeting import fixed_axes, never_meet
from vkernels.ir.dialect import RangeOp
from vkernels.ir.text import parse_module

AXES = ("i", "j")
SIZES = (1, 2, 3, 4)
GATHERED = "tensor<?xi64, #vk.axes<i>>"


@dataclass(frozen=True)
class Sum:
    """A number, and times of i, j, a loop's position k, the size N, and what an index tensor has at i."""

    number: int = 0
    i: int = 0
    j: int = 0
    k: int = 0
    size: int = 0
    gathered: int = 0

    def at(self, i: int, j: int, k: int, size: int, table: list[int]) -> int:
        looked_up = self.gathered * table[i] if self.gathered else 0
        return self.number + self.i * i + self.j * j + self.k * k + self.size * size + looked_up


Index = tuple[Sum, ...]


@dataclass(frozen=True)
class Case:
    """Two loads in `loops` loops over k, from `start` up to `trips` or N (0); extents are a number times N and one."""

    extents: dict[str, tuple[int, int]]
    one: Index
    other: Index
    loops: int = 0
    start: int = 0
    trips: int = 2

    def text(self) -> str:
        lines = [f"%size{d} = vk.size S{d}" for d in range(len(self.one))]
        for axis in AXES:
            times, more = self.extents[axis]
            lines += [
                f"%{axis}a = arith.constant {times} : i64", f"%{axis}b = arith.constant {more} : i64",
                f"%{axis}c = arith.muli %n, %{axis}a : i64", f"%{axis}d = arith.addi %{axis}c, %{axis}b : i64",
                f"vk.tile {axis} < %{axis}d",
            ]  # fmt: skip
        lines += [f"%t = vk.load %table[i] : !vk.tensor<[T], i64> -> {GATHERED}"]
        lines += [f"%start = arith.constant {self.start} : i64"]
        lines += [f"%stop = arith.constant {self.start + self.trips} : i64"] if self.trips else []
        bodies = [_load("a", self.one), _load("b", self.other)]
        if self.loops == 1:
            bodies = [bodies[0] + bodies[1]]
        for number, body in enumerate(bodies):
            stop = "%stop" if self.trips else "%n"
            lines += [f'vk.range %k{number} as "k{number}" = %start to {stop} carrying () {{'] if self.loops else []
            lines += [line.replace("%k ", f"%k{number} ") for line in body]
            lines += ["vk.yield", "}"] if self.loops else []
        dims = ", ".join(f"S{d}" for d in range(len(self.one)))
        head = f"vk.kernel @two(%x: !vk.tensor<[{dims}], f32>, %table: !vk.tensor<[T], i64>) {{\n%n = vk.size N\n"
        return (head + "\n".join(lines) + "\n}").replace("DIMS", dims)

    def counts(self, size: int) -> list[range]:
        extents = [range(times * size + more) for times, more in self.extents.values()]
        steps = range(self.start, self.start + self.trips if self.trips else size) if self.loops else range(1)
        return [*extents, steps]

    def meets(self, size: int, table: list[int], same_step: bool) -> list[dict[str, bool]]:
        """Whether the positions of each axis are the same, wherever the two accesses meet."""
        found = []
        points = list(product(*self.counts(size)))
        first = [(p, tuple(s.at(*p, size, table) for s in self.one)) for p in points]
        second = [(p, tuple(s.at(*p, size, table) for s in self.other)) for p in points]
        for (p, a), (q, b) in product(first, second):
            if a == b and (p[2] == q[2] or not same_step):
                found.append({"i": p[0] == q[0], "j": p[1] == q[1]})
        return found


def _load(name: str, index: Index) -> list[str]:
    """The lines of a load; offsets are computed term by term."""
    lines, texts, axes = [], [], dict.fromkeys(axis for s in index for axis in AXES if getattr(s, axis))
    gathered = any(s.gathered for s in index)
    axes = dict.fromkeys([*axes, *(["i"] if gathered else [])])
    tile = f"tensor<{'?x' * len(axes)}f32, #vk.axes<{', '.join(axes)}>>" if axes else "f32"
    kind = GATHERED
    for d, s in enumerate(index):
        at = f"%{name}{d}"
        lines += [f"{at}n = arith.constant {s.number} : i64", f"{at}s = arith.constant {s.size} : i64"]
        lines += [f"{at}m = arith.muli %n, {at}s : i64", f"{at}o = arith.addi {at}n, {at}m : i64"]
        offset = f"{at}o"
        if s.k:
            lines += [f"{at}f = arith.constant {s.k} : i64", f"{at}g = arith.muli {at}f, %k : i64"]
            lines += [f"{at}h = arith.addi {offset}, {at}g : i64"]
            offset = f"{at}h"
        if s.gathered:
            lines += [f"{at}u = vk.broadcast {offset} : i64 -> {kind}", f"{at}v = arith.addi %t, {at}u : {kind}"]
            offset = f"{at}v"
        terms = [f"{getattr(s, axis)} * {axis}" for axis in AXES if getattr(s, axis)]
        texts.append(" + ".join([offset, *terms]))
    what, kinds = "load", ""
    if gathered:
        what, kinds = "gather", f", ({', '.join(kind if s.gathered else 'i64' for s in index)})"
    return [*lines, f"%{name} = vk.{what} %x[{', '.join(texts)}] : !vk.tensor<[DIMS], f32>{kinds} -> {tile}"]


def judged(case: Case) -> tuple[MemoryAccess, MemoryAccess, RangeOp | None]:
    module = parse_module(case.text())
    one, other = [access for access in accesses_of(module) if access.base.name_hint == "x"]
    return one, other, next((op for op in module.walk() if isinstance(op, RangeOp)), None)


def drawn(choose: random.Random) -> Case:
    def total(loops: int) -> Sum:
        near = choose.choice([0, 0, 1, 2, 4, -1])
        return Sum(
            near, *(choose.choice([0, 0, 1, 1, 2, 3, -1]) for _ in AXES), choose.choice([0, 1, 2]) if loops else 0,
            choose.choice([0, 0, 0, 1, 2, -1]),
        )  # fmt: skip

    extents = {axis: choose.choice([(0, 1), (0, 2), (0, 3), (1, 0), (1, 0), (2, 0), (1, 1)]) for axis in AXES}
    loops, dims = choose.choice([0, 0, 1, 2]), choose.choice([1, 1, 2])
    one = tuple(total(loops) for _ in range(dims))
    alike = choose.random() < 0.6  # the same but for the offset
    other = tuple(
        Sum(choose.choice([0, 1, 2, 3]), s.i, s.j, s.k, choose.choice([s.size, 0, 1])) if alike else total(loops)
        for s in one
    )
    if choose.random() < 0.2:
        one, other = ((Sum(s.number, 0, s.j, s.k, s.size, 1), *rest) for s, *rest in (one, other))
    return Case(extents, one, other, loops, choose.choice([0, 1]), choose.choice([0, 1, 2, 3]))


@pytest.mark.parametrize("part", range(2))
def test_no_meeting_is_missed(part):
    choose = random.Random(fresh_seed())
    for _ in range(40):
        case = drawn(choose)
        one, other, loop = judged(case)
        never, fixed, in_loop = never_meet(one, other), fixed_axes(one, other), fixed_axes(one, other, loop)
        for size in SIZES:
            table = [choose.randrange(4) for _ in range(16)]
            anywhere = case.meets(size, table, same_step=False)
            assert not (never and anywhere), case
            for shown, found in ((fixed, case.meets(size, table, same_step=case.loops == 1)), (in_loop, anywhere)):
                if case.loops == 2 and shown is in_loop:
                    continue  # the loop is around only one of them
                assert shown is not None or not found, case
                assert all(same[axis] for same in found for axis in shown or ()), case


N, ONE = (1, 0), (0, 1)


@pytest.mark.parametrize(
    ("case", "fixed"),
    {
        "pairs": (Case({"i": N, "j": ONE}, (Sum(0, 2),), (Sum(1, 2),)), None),
        "halves": (Case({"i": N, "j": ONE}, (Sum(0, 1),), (Sum(0, 1, size=1),)), None),
        "halves that overlap by one": (Case({"i": (1, 1), "j": ONE}, (Sum(0, 1),), (Sum(0, 1, size=1),)), set()),
        "a half and itself": (Case({"i": N, "j": ONE}, (Sum(0, 1, size=1),), (Sum(0, 1, size=1),)), {"i"}),
        "a row of blocks": (Case({"i": N, "j": (0, 4)}, (Sum(0, 4, 1),), (Sum(0, 4, 1),)), {"i", "j"}),
        "blocks that overlap": (Case({"i": N, "j": (0, 5)}, (Sum(0, 4, 1),), (Sum(0, 4, 1),)), set()),
        "blocks apart": (Case({"i": N, "j": (0, 2)}, (Sum(0, 4, 1),), (Sum(2, 4, 1),)), None),
        "a skewed row": (Case({"i": N, "j": N}, (Sum(0, 1), Sum(0, 1, 1)), (Sum(0, 1), Sum(0, 1, 1))), {"i", "j"}),
        "shifted": (Case({"i": N, "j": N}, (Sum(0, 1), Sum(0, 0, 1)), (Sum(0, 1), Sum(1, 0, 1))), {"i"}),
        "mirrored": (Case({"i": N, "j": ONE}, (Sum(0, 1),), (Sum(0, -1, size=2),)), None),
        "by steps of a loop": (Case({"i": N, "j": ONE}, (Sum(0, 4, k=1),), (Sum(0, 4, k=1),), 1, 0, 4), {"i"}),
        "by too many steps": (Case({"i": N, "j": ONE}, (Sum(0, 4, k=1),), (Sum(0, 4, k=1),), 1, 0, 5), set()),
        "from gathered starts": (Case({"i": N, "j": N}, (Sum(0, 0, 1, gathered=1), Sum(0, 1)),
                                      (Sum(0, 0, 1, gathered=1), Sum(0, 1))), {"i", "j"}),
        "gathered side by side": (Case({"i": N, "j": ONE}, (Sum(0, gathered=1), Sum(0, 1)),
                                       (Sum(1, gathered=1), Sum(0, 1))), None),
        "one gathered and one plain": (Case({"i": N, "j": ONE}, (Sum(0, gathered=1),), (Sum(0, 1),)), set()),
    }.values(),
)  # fmt: skip
def test_what_is_shown(case, fixed):
    one, other, loop = judged(case)
    assert fixed_axes(one, other, loop) == fixed
    assert never_meet(one, other) == (fixed is None)
