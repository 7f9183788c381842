"""Drawing cases from a seed: sizes, dtypes, layouts, options, and 20 calls of each."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from .case import FLOATS, SIGNED, UNSIGNED, Argument, Case, Content, Floats, Layout, Starts, Whole
from .mistakes import mistaken
from .values import KINDS

SIZES = (1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 23, 31, 32, 33, 47, 63, 64, 65, 97, 127, 128, 129, 255, 256, 257)
LONG = (511, 513, 1023, 1025, 2047, 4097, 10007, 16385)
VERY_LONG = (65537, 100003, 262145)


def index_dtypes() -> tuple[str, ...]:
    """Dtypes of integers that kernels take."""
    import vkernels as vk

    return SIGNED + tuple(name for name in UNSIGNED if hasattr(vk, name))


@dataclass
class Draw:
    """What one specialisation is drawn with, and the arguments drawn so far. `dtype`: of floats, if it is not drawn."""

    random: random.Random
    library: str = "torch"
    most: int = 1 << 13
    dtype: str = ""
    arguments: list[Argument] = field(default_factory=list)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def size(self, most: int = 64, least: int = 0) -> int:
        """A size up to `most`: now and then 0 or 1, often beside a power of two."""
        if least == 0 and self.chance(0.03):
            return 0
        return self.random.choice([each for each in SIZES if max(1, least) <= each <= most] or [max(1, least)])

    def long(self, rest: int = 1) -> int:
        """A size of an axis that is summed over: mostly moderate, now and then long, `rest` elements beside each."""
        if self.chance(0.08) and rest <= 16:
            return self.of(*VERY_LONG) if self.chance(0.4) and rest <= 2 else self.of(*LONG)
        return self.size(257 if rest <= 64 else 65)

    def shape(self, ranks: tuple[int, ...] = (1, 2, 2, 3), last: int | None = None) -> tuple[int, ...]:
        """A shape of one of some ranks, whose last dimension may be long."""
        rank = self.random.choice(ranks)
        outer = tuple(self.size(33 if rank == 2 else 9) for _ in range(max(0, rank - 1)))
        rest = 1
        for each in outer:
            rest *= max(1, each)
        return () if rank == 0 else (*outer, self.long(rest) if last is None else last)

    def floating(self) -> str:
        choices = FLOATS if self.library == "torch" else FLOATS[:3]
        if self.dtype:
            return self.dtype
        return self.random.choices(choices, (2, 4, 2, 2)[: len(choices)])[0]

    def index_dtype(self) -> str:
        names = index_dtypes()
        return self.random.choices(names, [3 if name in ("int32", "int64") else 1 for name in names])[0]

    def layout(self, shape: tuple[int, ...], role: str = "in") -> Layout:
        rank = len(shape)
        order, steps = list(reversed(range(rank))), [1] * rank
        pad = shift = 0
        if self.chance(0.5):
            if self.chance(0.5):
                self.random.shuffle(order)
            if self.chance(0.4):
                steps = [self.of(1, 1, 2, 3) for _ in range(rank)]
            if self.library == "numpy" and self.chance(0.5):
                steps = [each * self.of(1, -1) for each in steps]
            if role == "in" and rank and self.chance(0.2):
                steps[self.random.randrange(rank)] = 0
            pad = self.of(0, 0, 1, 5)
            shift = self.of(0, 8, 16, 24, 32, *((1, 3) if self.library == "numpy" else ()))
        edge = shift == 0 and self.chance(0.2)
        return Layout(tuple(order), tuple(steps), 0 if edge else pad, shift, edge)

    def array(
        self, name: str, shape: tuple[int, ...], dtype: str, content: Content | None = None, role: str = "in"
    ) -> None:
        self.arguments.append(Argument(name, shape, dtype, self.layout(shape, role), content or Floats(), role))

    def index(self, name: str, shape: tuple[int, ...], high: int, special: int | None = None) -> None:
        """Integers from 0 up to `high`; of no elements where there are none to name."""
        self.array(name, shape, self.index_dtype(), Whole(0, high, special))

    def starts(self, name: str, count: int, most: int, full: bool = False) -> None:
        names = [each for each in index_dtypes() if most < 127 or not each.endswith("int8")]
        names = [each for each in names if most < 32767 or not each.endswith("int16")]
        argument = Argument(
            name, (count,), self.random.choice(names), self.layout((count,), "start"), Starts(most, full)
        )
        self.arguments.append(argument)

    def out(self, shape: tuple[int, ...], dtype: str, probability: float = 0.5) -> None:
        """A poisoned array for the results, or none."""
        if self.chance(probability):
            self.array("out", shape, dtype, role="out")


CALLS = 20
"""Calls of each specialisation, with other data each."""


def draw_group(seed: int, subjects: Any, dtype: str = "") -> list[Case]:
    """The cases of a seed: one specialisation, several calls. Seeds one after another go through all functions.

    `dtype`: of floats; arguments are torch's then."""
    chooser = random.Random(seed)
    names = sorted(subjects)
    subject = subjects[names[seed % len(names)]]
    draw = Draw(chooser, chooser.choice(("torch", "torch", "numpy")))
    if dtype:
        draw.library, draw.dtype = "torch", dtype
    options = subject.draw(draw)
    case = Case(
        subject.name,
        draw.library,
        tuple(draw.arguments),
        tuple(sorted(options.items())),
        threads=chooser.choice((1, 1, 2)),
    )
    return [_call(case, subject, chooser) for _ in range(CALLS)]


def _call(case: Case, subject: Any, chooser: random.Random) -> Case:
    kind = chooser.choice([each for each in KINDS if each not in subject.without])
    made = replace(case, seed=chooser.randrange(1 << 31), values=kind)
    drawn = chooser.random()
    kinds = {type(argument.content) for argument in case.arguments}
    has_out = any(argument.role == "out" for argument in case.arguments)
    if Whole in kinds and drawn < 0.12 and subject.indexed:
        return replace(made, fault="index")
    if Starts in kinds and 0.12 <= drawn < 0.24:
        return replace(made, fault="start")
    if has_out and 0.24 <= drawn < 0.29:
        return replace(made, fault="out shape")
    if has_out and 0.29 <= drawn < 0.37:
        out = next(each for each in case.arguments if each.role == "out")
        like = [
            each.name for each in case.arguments
            if each.role == "in" and each.shape == out.shape and each.dtype == out.dtype and 0 not in each.layout.steps
        ]  # fmt: skip
        alias = chooser.choice(like) if like else ""
        held = next((each for each in case.arguments if each.name == alias), None)
        apart = 0 if held is None or held.layout.edge else chooser.choice((0, 0, 1, 3, 8))
        return replace(made, alias=alias, overlap=apart)
    if 0.41 <= drawn < 0.44 and (wrong := mistaken(case.function, dict(case.options))):
        name, value = chooser.choice(wrong)
        return replace(made, fault="option", options=tuple(sorted({**dict(case.options), name: value}.items())))
    if 0.37 <= drawn < 0.41:
        return replace(made, fault=chooser.choice(("shape", "dtype")), values="normal")
    return made
