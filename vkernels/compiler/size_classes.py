"""Classes of sizes: calls whose sizes change share the plan and the code of a class."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import gcd, log2

from .arguments import Arguments, ArrayView
from .protocols import KernelLike, size_name

WIDE = 16
"""Bytes of the widest load that a GPU has, and elements that make any loads so wide."""


@dataclass(frozen=True)
class SizeClass:
    """Calls that share a plan. `most`: a number that each changing size does not exceed, by name; every other size is
    exact. `wide`: changing sizes that `WIDE` divides. `least`: usual sizes are not below, by name; the plan is chosen
    for sizes between the two, and the code is right for any up to the largest. `on_cpu`: a sample has powers of two,
    whose rows find room for few in a cache. `like`: the changing sizes of the first call of the class, on a CPU.
    """

    most: Mapping[str, int] = field(default_factory=dict)
    wide: frozenset[str] = frozenset()
    least: Mapping[str, int] = field(default_factory=dict)
    on_cpu: bool = False
    like: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> Hashable:
        """What tells classes apart."""
        return tuple(sorted(self.most.items())), self.wide

    def largest(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """A call's sizes with those of the class in place of the changing ones."""
        return {**sizes, **self.most}

    def samples(self, sizes: Mapping[str, int]) -> list[dict[str, int]]:
        """Usual sizes of calls of the class, from small to large ones, by name: odd where `WIDE` may not divide them.

        On a CPU, the first and the last of these are multiples of `LIKELY` or `WIDE` where the first call's are; then
        follow powers of two, and the first call's. So the plan suits calls like that one, and those of any size.
        """

        def sample(name: str, part: float) -> int:
            least, most = self.least.get(name, 1), self.most[name]
            size = int(least * pow(most / least, part))
            if name in self.wide:
                return max(WIDE, size // WIDE * WIDE)
            step = gcd(WIDE, self.like.get(name, 1))
            if part == MIDDLE or step < LIKELY:
                return min(most, size | 1)
            return min(most, -(-size // step) * step)

        found = [{**sizes, **{name: sample(name, part) for name in self.most}} for part in SAMPLES]
        if self.on_cpu:
            last = {name: min(most, 1 << round(log2(found[-1][name]))) for name, most in self.most.items()}
            found += [{**sizes, **last}, {**sizes, **self.like}]
        return found

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call with these sizes may run the code of the class."""
        return all(0 <= sizes[name] <= most for name, most in self.most.items()) and all(
            sizes[name] % WIDE == 0 for name in self.wide
        )


LIKELY = 8
"""What divides sizes that are hardly random, on a CPU: of channels, features, images."""

MIDDLE = 0.5
SAMPLES = (0.15, MIDDLE, 0.9)
"""Where samples lie between the least and the largest sizes of a class, in powers."""

EXACT = SizeClass()
"""The class of one call's sizes alone."""

Level = tuple[tuple[int, ...], int]
"""The largest sizes of the first classes, and how many times as large those of further classes are, each."""

LEVELS_ON_CPU: tuple[Level, ...] = (((16, 32, 48, 64, 96, 128, 1024), 4), ((64,), 64), ((4096,), 4096))
"""From fine to coarse. Short axes are held in vector registers, each of which counts; long ones run in chunks."""

LEVELS_ON_GPU: tuple[Level, ...] = (((64,), 4), ((64,), 64), ((4096,), 4096))
"""The same for a GPU, where sizes that `WIDE` divides are classes of their own."""


def class_at(level: Level, sizes: Mapping[str, int], on_gpu: bool) -> SizeClass:
    """The class of changing sizes, all above 1, at a level."""
    wide = frozenset(name for name, size in sizes.items() if on_gpu and size % WIDE == 0)
    ends = {name: _ends(level, size) for name, size in sizes.items()}
    most = {name: end for name, (_, end) in ends.items()}
    least = {name: least for name, (least, _) in ends.items()}
    return SizeClass(most, wide, least, not on_gpu, {} if on_gpu else dict(sizes))


def _ends(level: Level, size: int) -> tuple[int, int]:
    """The least and the largest size of the class of a size."""
    bounds, factor = level
    before, most = 1, bounds[0]
    for bound in bounds[1:]:
        if size > most:
            before, most = most, bound
    while most < size:
        before, most = most, most * factor
    return before + 1, most


def with_sizes(kernel: KernelLike, arguments: Arguments, sizes: Mapping[str, int]) -> Arguments:
    """The arguments of a call with other sizes, laid out as the call's are."""
    tensors = dict(arguments.tensors)
    for parameter in kernel.parameters:
        if parameter.kind == "tensor":
            view = tensors[parameter.name]
            names = [size_name(parameter.name, n, d) for n, d in enumerate(parameter.dimensions)]
            shape = tuple(sizes[name] if isinstance(name, str) else name for name in names)
            if shape != view.shape:
                tensors[parameter.name] = replace(view, shape=shape, strides=_stretched(view, shape))
    return replace(arguments, tensors=tensors, sizes=dict(sizes))


@dataclass(frozen=True)
class ClassPlanning:
    """What the plans of a class depend on besides its largest sizes. `arguments`: of a call of the class."""

    size_class: SizeClass
    kernel: KernelLike
    arguments: Arguments

    @property
    def key(self) -> object:
        """The class, as JSON can hold it: the samples follow from it and from the largest arguments."""
        of = self.size_class
        return [sorted(of.most.items()), sorted(of.least.items()), sorted(of.wide), sorted(of.like.items())]

    def samples(self) -> list[Arguments]:
        """Usual arguments of the class."""
        sizes = self.size_class.samples(self.arguments.sizes)
        return [with_sizes(self.kernel, self.arguments, each) for each in sizes]


def _stretched(view: ArrayView, shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor of this shape that is laid out as a view: the same order, and gaps where it has some.

    A gap keeps its alignment and not its length, which may change with the sizes.
    """
    order = sorted(range(len(shape)), key=lambda n: (abs(view.strides[n]), view.shape[n] > 1, -n))
    inner = [n for n in order if view.strides[n] != 0]
    strides = dict.fromkeys(range(len(shape)), 0)
    if inner:
        strides[inner[0]] = view.strides[inner[0]]
    for before, n in pairwise(inner):
        packed = abs(strides[before]) * max(1, shape[before])
        is_packed = abs(view.strides[n]) == abs(view.strides[before]) * max(1, view.shape[before])
        stride = packed if is_packed or view.shape[n] <= 1 else _with_gap(packed, view.strides[n] % WIDE == 0)
        strides[n] = stride if view.strides[n] > 0 else -stride
    return tuple(strides[n] for n in range(len(shape)))


def _with_gap(packed: int, is_wide: bool) -> int:
    return -(-packed // WIDE) * WIDE + WIDE if is_wide else packed + 1 + packed % 2
