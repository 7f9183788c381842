"""What arrays hold: floats of many kinds, indices at the edges of what is valid, and wrong ones on purpose."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .case import Argument, Floats, Starts, Whole
from .formats import FORMATS, Array, Format

KINDS = (
    "normal", "normal", "normal", "spread", "specials", "infinities", "nan", "zeros", "denormal", "largest", "ties",
    "constant", "alternating", "cancelling", "large",
)  # fmt: skip


def integer_range(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def contents(argument: Argument, shape: tuple[int, ...], kind: str, wrong: bool, random: np.random.Generator) -> Array:
    """Values of an argument, of NumPy's int64, uint64 or longdouble; `wrong`: indices out of range or order."""
    content = argument.content
    if isinstance(content, Starts):
        return _starts(content, shape[0], argument.dtype, wrong, random)
    if isinstance(content, Whole):
        return _whole(content, shape, argument.dtype, wrong, random)
    return _floats(content, shape, kind, FORMATS[argument.dtype], random)


def _floats(content: Floats, shape: tuple[int, ...], kind: str, format: Format, random: np.random.Generator) -> Array:
    restricted = {"specials": "spread", "infinities": "ties", "nan": "normal"}
    if content.finite or content.small or content.positive:
        kind = restricted.get(kind, kind)
    if content.small:
        kind = {"largest": "normal", "large": "normal", "spread": "normal"}.get(kind, kind)
    found = _of_kind(kind, shape, format, random)
    found = np.clip(found, -format.largest, format.largest) if kind in ("spread", "large", "cancelling") else found
    return np.abs(found) if content.positive else found


def _of_kind(kind: str, shape: tuple[int, ...], format: Format, random: np.random.Generator) -> Array:
    normal = random.standard_normal(shape)
    count = int(np.prod(shape))
    signs = np.where(random.random(shape) < 0.5, -1.0, 1.0)
    if kind == "spread":
        reach = min(12.0, np.log2(format.largest) / 2)
        return normal * np.exp2(random.uniform(-reach, reach, shape))
    if kind == "specials":
        chosen = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, format.largest, format.least], shape)
        return np.where(random.random(shape) < random.choice([0.02, 0.3]), chosen, normal)
    if kind == "infinities":
        return np.where(random.random(shape) < 0.2, random.choice([-np.inf, np.inf]), normal)
    if kind == "nan":
        chosen = random.random(shape) < 0.01
        chosen.flat[random.integers(max(1, count), size=min(1, count))] = True
        return np.where(chosen, np.nan, normal)
    if kind == "zeros":
        return signs * 0.0
    if kind == "denormal":
        return signs * format.least * random.integers(0, 100, shape)
    if kind == "largest":
        return signs * format.largest * random.choice([1.0, 0.5, 0.25], shape)
    if kind == "ties":
        return random.integers(-2, 3, shape).astype(np.float64)
    if kind == "constant":
        return np.full(shape, random.choice([0.1, -1 / 3, 1.0, 65519.0 if format.largest > 1e5 else 0.1]))
    if kind == "alternating":
        return (np.where(np.arange(count) % 2, -1.0, 1.0) * random.choice([0.1, 1000.1])).reshape(shape)
    if kind == "cancelling":
        flat = normal.ravel() * np.exp2(random.uniform(0, 20 if format.largest > 1e5 else 8, count))
        flat[1::2] = -flat[: count // 2 * 2 : 2] + random.standard_normal(count // 2)
        return flat.reshape(shape)
    if kind == "large":
        return normal * 1000.0
    return normal


def _starts(content: Starts, count: int, dtype: str, wrong: bool, random: np.random.Generator) -> Array:
    most = min(content.most, integer_range(dtype)[1])
    found = np.sort(random.integers(0, most + 1, count))
    if random.random() < 0.3:
        found = np.sort(random.choice([0, most // 2, most], count))
    if content.full and count:
        found[0], found[-1] = 0, content.most
    if not wrong:
        return found
    low, high = integer_range(dtype)
    candidates = [low, -1, high, high - 1, most + 1]
    found = found.astype(object)
    for at in random.choice(count, random.integers(1, min(count, 3) + 1), replace=False):
        found[at] = min(high, max(low, int(random.choice(np.array(candidates, object)))))
    return found


def starts_are_right(found: Array, most: int, full: bool) -> bool:
    """Whether these are starts of segments of so many elements."""
    numbers = [int(each) for each in found]
    falls = any(later < earlier for earlier, later in pairwise(numbers))
    inside = numbers[0] >= 0 and numbers[-1] <= most
    return not falls and inside and (not full or (numbers[0] == 0 and numbers[-1] == most))


def _whole(content: Whole, shape: tuple[int, ...], dtype: str, wrong: bool, random: np.random.Generator) -> Array:
    low, high = integer_range(dtype)
    first = low if content.low is None else max(low, content.low)
    last = high if content.high is None else min(high, content.high - 1)
    found: Any = random.integers(first, max(first, last) + 1, shape, dtype=np.uint64 if high >= 1 << 63 else np.int64)
    if random.random() < 0.3:
        found = random.choice(np.array([first, max(first, last)], found.dtype), shape)
    if content.special is not None and low <= content.special <= high:
        found = np.where(random.random(shape) < random.choice([0.0, 0.3, 1.0]), content.special, found)
    if wrong and found.size:
        outside = [each for each in (low, high, first - 1, last + 1, high - 1, low + 1) if low <= each <= high]
        outside = [each for each in outside if not first <= each <= last and each != content.special]
        if outside:
            found = found.astype(object)
            found.flat[int(random.integers(found.size))] = outside[int(random.integers(len(outside)))]
    return found


def index_is_right(content: Whole, found: Array) -> bool:
    return all(
        int(each) == content.special
        or ((content.low is None or int(each) >= content.low) and (content.high is None or int(each) < content.high))
        for each in found.ravel()
    )
