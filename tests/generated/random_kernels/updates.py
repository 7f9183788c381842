"""Atomics whose results are used, of which nothing depends on the order of programs.

Either each update has a place of its own, or all updates of a place are the same: then what they find, taken together,
is the same in every order, and is combined.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vkernels.language.operations import memory
from vkernels.language.operations.elementwise import maximum, where
from vkernels.language.values import SubscriptReference, Tensor, Tile

from .authored import Author, authored
from .memory import SMALL, index_values
from .steps import FLOATS, INTEGERS, pick, tamed
from .values import DTYPES, EPSILON, MOST_ELEMENTS, Kernel, Value

_KINDS = ("add", "max", "min", "exchange", "compare")
_COMBINED = {"add": memory.atomic_add, "max": memory.atomic_max, "min": memory.atomic_min}


def _axes(kernel: Kernel) -> tuple[str, ...]:
    """All tile axes, and some others, in any order."""
    axes = [axis.name for axis in kernel.axes.values() if axis.is_tile or kernel.random.random() < 0.4]
    kernel.random.shuffle(axes)
    return tuple(axes)


def _mask(kernel: Kernel, author: Author, axes: tuple[str, ...]) -> Tile | None:
    """Where there are updates; None: everywhere."""
    masks = [value for value in kernel.live if value.element == "i1" and set(value.axes) <= set(axes)]
    return author.tile(kernel.random.choice(masks)) if masks and kernel.random.random() < 0.6 else None


def _updated(kind: str, place: SubscriptReference, value: Any, expected: Any, mask: Tile | None) -> Any:
    """What updates of a place find, as an author writes it."""
    if kind == "compare":
        return memory.atomic_cas(place, expected, value, where=mask)
    return (_COMBINED | {"exchange": memory.atomic_exchange})[kind](place, value, where=mask)


def fetched(kernel: Kernel, depth: int) -> Value | None:
    """Updates of places of their own; live is what they find.

    Of floats at most one for each place, as loops would go beyond what is known of their numbers.
    """
    choose, axes = kernel.random, _axes(kernel)
    if not axes or not 0 < kernel.extent(axes) <= MOST_ELEMENTS:
        return None
    value = tamed(kernel, pick(kernel, kind="i" if depth else ""), 64)
    if value.element == "i1" or not set(value.axes) <= set(axes):
        element = choose.choice([*INTEGERS, *(() if depth else FLOATS)])
        value = kernel.number(choose.randint(-3, 3), element)
    below = kernel.extent(axes) + choose.randint(0, 3)
    index = index_values(kernel, axes, below, unique=True)
    unsigned, kind = choose.random() < 0.3, choose.choice(_KINDS)
    start = kernel.numbers.integers(-2 if value.is_float else 0, 3, below).astype(DTYPES[value.element])
    with authored(kernel) as author:
        held = author.tensor(value.element, [below], start, unsigned)
        place = SubscriptReference(held, (author.tile(index),))
        old = _updated(kind, place, author.tile(value, unsigned), 0, _mask(kernel, author, axes))
    _tolerate(kernel, value, kind)
    return Value(old.ssa, old.names, value.element, SMALL if value.is_float else 0.0)


def _tolerate(kernel: Kernel, value: Value, kind: str) -> None:
    """Set how far off the tensor of updates of floats may be, which is the last parameter."""
    if value.is_float:
        added = 4 * EPSILON[value.element] * (value.bound + SMALL) if kind == "add" and not value.is_exact else 0.0
        kernel.tolerances[list(kernel.arguments)[-1]] = 2 * value.error + added


def contended(kernel: Kernel, depth: int) -> None:
    """Updates of few places, all of one place alike; what they find is combined in another tensor."""
    choose, axes = kernel.random, _axes(kernel)
    if not axes or not 0 < kernel.extent(axes) <= MOST_ELEMENTS:
        return
    kind, element = choose.choice(_KINDS), choose.choice(["i32", "i32", "i64", "i8"])
    if kind != "add" and choose.random() < 0.3:
        element = choose.choice(FLOATS)
    unsigned, below = choose.random() < 0.3, choose.choice([1, 2, 9])
    index = index_values(kernel, axes, below)
    low = 0 if unsigned else -2
    start, first = (kernel.numbers.integers(low, 3, n).astype(DTYPES[element]) for n in (below, 3))
    with authored(kernel) as author:
        at = author.tile(index)
        value, expected = (_of_place(author, at, element, unsigned) for _ in range(2))
        place = SubscriptReference(author.tensor(element, [below], start, unsigned), (at,))
        mask = _mask(kernel, author, axes)
        found = _seen(kernel, _updated(kind, place, value, expected, mask))
        total = author.tensor(element, [3], first, unsigned)
        if np.issubdtype(DTYPES[element], np.floating):
            combine = choose.choice(["max", "min"])
        else:
            combine = choose.choice(["add", "add", "max", "min"])
        author.builder.is_result_used = False
        fits = mask is not None and bool(at.axes) and all(axis in at.axes for axis in mask.axes)
        where = choose.choice([None, mask]) if fits else None  # a place without axes has no mask
        _COMBINED[combine](_place_of(kernel, total, at), found, where=where)


def _of_place(author: Author, at: Tile, element: str, unsigned: bool) -> Any:
    """A number, or one that the place decides."""
    choose = author.kernel.random
    if choose.random() < 0.5:
        return choose.randint(0 if unsigned else -2, 2)
    dtype = author.tile(Value(at.ssa, (), element), unsigned).dtype
    return (at * choose.choice([1, 2])).to(dtype)


def _seen(kernel: Kernel, old: Tile) -> Tile:
    """What an update found, or something that it alone decides."""
    match kernel.random.choice(["plain", "larger", "chosen"]):
        case "larger":
            return maximum(old, 1)
        case "chosen":
            return where(old > 0, old, 2)
    return old


def _place_of(kernel: Kernel, total: Tensor, at: Tile) -> SubscriptReference:
    """One place for all of a program's values, or one for each place of the updates."""
    if kernel.random.random() < 0.5:
        return SubscriptReference(total, (kernel.random.randrange(3),))
    return SubscriptReference(total, (at % 3,))
