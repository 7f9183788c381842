"""A random kernel on tiles of integers: its text, its arguments, and what it must store."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .numbers import (
    DTYPES,
    Numbers,
    as_float,
    at_the_edges,
    bits_of,
    each,
    from_float,
    limits,
    power,
    promote,
    shifted,
    wrap,
)

PLAIN = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "//": lambda a, b: a // b if b else 0, "%": lambda a, b: a % b if b else 0,
}  # fmt: skip
COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
ALONG = {
    "max": np.maximum.reduce, "min": np.minimum.reduce, "sum": np.add.reduce, "product": np.multiply.reduce,
}  # fmt: skip
SCANS = {
    "cumulative_max": np.maximum.accumulate, "cumulative_min": np.minimum.accumulate,
    "cumulative_sum": np.add.accumulate, "cumulative_product": np.multiply.accumulate,
}  # fmt: skip


LATEST = "@vk.function\ndef latest(before, here):\n    return vk.where(here % 3 != 0, here, before)"
"""A helper of every kernel: the later of two numbers that is no multiple of 3."""

PLACES = 97
"""Elements of what is gathered from and scattered into; more than a kernel has along its tile axis."""


@dataclass(frozen=True)
class Value:
    """A tile along i and j, by its name in the kernel."""

    name: str
    dtype: str
    numbers: Numbers


@dataclass
class Case:
    """A kernel in the making. `shape`: positions along i, a tile axis, and j, a whole one."""

    random: np.random.Generator
    shape: tuple[int, int]
    values: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    arguments: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    expected: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    along: dict[str, str] = field(default_factory=dict)
    """The sizes of tensors of one dimension, where their length does not say."""

    def choice(self, of: Any) -> Any:
        return of[int(self.random.integers(len(of)))]

    def value(self) -> Value:
        return self.choice(self.values)

    def keep(self, code: str, dtype: str, numbers: Numbers) -> None:
        name = f"v{len(self.values)}"
        self.lines.append(f"{name} = {code}")
        self.values.append(Value(name, dtype, wrap(np.broadcast_to(numbers, self.shape), dtype)))

    def store(self, code: str, dtype: str, numbers: Numbers, index: str = "i, j") -> None:
        name = f"out{len(self.expected)}"
        self.lines.append(f"{name}[{index}] = {code}")
        self.expected[name] = wrap(numbers, dtype).astype(dtype)
        self.arguments[name] = np.full(numbers.shape, limits(dtype)[1] // 3, dtype)

    # Steps

    def together(self) -> tuple[str, str, str, Numbers, Numbers]:
        """Two values that promote, or a value and a number: both as written, their dtype, and their numbers."""
        a, b = self.value(), self.value()
        if self.random.random() < 0.2:
            number = self.choice(at_the_edges(a.dtype, (9,), self.random))
            written = (a.name, f"({number})")
            numbers = (a.numbers, np.full(self.shape, number, object))
            turned = slice(None, None, -1 if self.random.random() < 0.5 else 1)
            return (*written[turned], a.dtype, *numbers[turned])
        dtype = promote(a.dtype, b.dtype)
        if dtype is None:
            dtype = self.choice(DTYPES)
            a, b = (self.converted(each, dtype) for each in (a, b))
        return a.name, b.name, dtype, wrap(a.numbers, dtype), wrap(b.numbers, dtype)

    def converted(self, value: Value, dtype: str) -> Value:
        return Value(f"{value.name}.to(vk.{dtype})", dtype, wrap(value.numbers, dtype))

    def load(self) -> None:
        dtype, name = self.choice(DTYPES), f"x{len(self.arguments)}"
        numbers = at_the_edges(dtype, self.shape, self.random)
        self.arguments[name] = numbers.astype(dtype)
        self.keep(f"{name}[i, j]", dtype, numbers)

    def operate(self) -> None:
        a, b, dtype, x, y = self.together()
        name = self.choice([*PLAIN, "<<", ">>", "**", "maximum", "minimum"])
        if name in PLAIN:
            self.keep(f"{a} {name} {b}", dtype, each(PLAIN[name], x, y))
        elif name == "**":
            if not b.startswith("(-"):
                self.keep(f"{a} ** {b}", dtype, each(lambda m, n: power(m, n, bits_of(dtype)), x, y))
        elif name in ("<<", ">>"):
            self.keep(f"{a} {name} {b}", dtype, each(lambda m, n: shifted(m, n, dtype, name == "<<"), x, y))
        else:
            self.keep(f"vk.{name}({a}, {b})", dtype, each(max if name == "maximum" else min, x, y))

    def invert(self) -> None:
        value = self.value()
        code, function = self.choice([("-{}", operator.neg), ("~{}", operator.invert), ("vk.abs({})", abs)])
        self.keep(code.format(value.name), value.dtype, each(function, value.numbers))

    def convert(self) -> None:
        made = self.converted(self.value(), self.choice(DTYPES))
        self.keep(made.name, made.dtype, made.numbers)

    def choose(self) -> None:
        (a, b, _, x, y), (c, d, dtype, v, w) = self.together(), self.together()
        name = self.choice(list(COMPARISONS))
        holds = np.asarray(COMPARISONS[name](x, y), bool)
        self.keep(f"vk.where({a} {name} {b}, {c}, {d})", dtype, np.where(holds, v, w))

    def by_float(self) -> None:
        value, kind, dtype = self.value(), self.choice(["float32", "float64"]), self.choice(DTYPES)
        factor = self.choice([1.0, -1.0, 0.5, 1.5, 2.0**20, float("nan")])
        with np.errstate(all="ignore"):
            floats = as_float(value.numbers, value.dtype, kind) * np.dtype(kind).type(factor)
        written = "vk.sqrt(-1.0)" if np.isnan(factor) else str(factor)
        self.keep(f"({value.name}.to(vk.{kind}) * {written}).to(vk.{dtype})", dtype, from_float(floats, dtype))

    def quotient(self) -> None:
        a, b, dtype, x, y = self.together()
        to = self.choice(DTYPES)
        with np.errstate(all="ignore"):
            floats = as_float(x, dtype, "float32") / as_float(y, dtype, "float32")
        self.keep(f"({a} / {b}).to(vk.{to})", to, from_float(floats, to))

    def combine(self) -> None:
        value, name = self.value(), self.choice(list(ALONG))
        dtype = value.dtype if name in ("max", "min") else "int64"
        numbers = wrap(ALONG[name](value.numbers, axis=1), dtype)
        self.store(f"vk.{name}({value.name}, axis=j)", dtype, numbers, "i")
        self.keep(f"vk.broadcast(vk.{name}({value.name}, axis=j), (i, j))", dtype, numbers[:, None])

    def find(self) -> None:
        value, largest = self.value(), bool(self.random.integers(2))
        places = (np.argmax if largest else np.argmin)(value.numbers, axis=1)
        self.store(f"vk.arg{'max' if largest else 'min'}({value.name}, axis=j)", "int64", places.astype(object), "i")

    def scan(self) -> None:
        value, name = self.value(), self.choice(list(SCANS))
        dtype = value.dtype if name.endswith(("max", "min")) else "int64"
        self.keep(f"vk.{name}({value.name}, axis=j)", dtype, SCANS[name](value.numbers, axis=1))

    def order(self) -> None:
        value, descending = self.value(), bool(self.random.integers(2))
        how = f"axis=j, descending={descending}"
        turned = -value.numbers if descending else value.numbers
        places = np.argsort(turned, axis=1, kind="stable")
        if self.random.random() < 0.5:
            self.keep(f"vk.argsort({value.name}, {how})", "int64", places.astype(object))
        else:
            self.keep(f"vk.sort({value.name}, {how})", value.dtype, np.take_along_axis(value.numbers, places, 1))

    def fold(self) -> None:
        """A scan or reduction by a function of two elements that is not commutative: the later one that is not 0."""
        value, is_scan = self.value(), bool(self.random.integers(2))
        kept, found = np.zeros(self.shape[0], object), np.zeros(self.shape, object)
        for step in range(self.shape[1]):
            here = value.numbers[:, step]
            kept = np.where(here % 3 != 0, here, kept) if step else here
            found[:, step] = kept
        if is_scan:
            self.keep(f"vk.scan(latest, {value.name}, axis=j)", value.dtype, found)
        else:
            self.store(f"vk.reduce(latest, {value.name}, axis=j)", value.dtype, kept, "i")

    def gather(self) -> None:
        index, dtype, name = self.value(), self.choice(DTYPES), f"x{len(self.arguments)}"
        numbers = at_the_edges(dtype, (PLACES,), self.random)
        self.arguments[name] = numbers.astype(dtype)
        self.keep(f"{name}[{index.name} % {PLACES}]", dtype, numbers[(index.numbers % PLACES).astype(int)])

    def update(self) -> None:
        """GPUs have atomics of 32 and 64 bits."""
        dtype = self.choice([d for d in DTYPES if bits_of(d) >= 32])
        value, index = self.converted(self.value(), dtype), self.value()
        name, combine = self.choice([("add", operator.add), ("max", max), ("min", min)])
        now = at_the_edges(dtype, (PLACES,), self.random)
        out = f"out{len(self.expected)}"
        self.arguments[out] = now.astype(dtype)
        for place, number in zip((index.numbers % PLACES).flat, value.numbers.flat, strict=True):
            now[place] = combine(now[place], number)
        self.lines.append(f"vk.atomic_{name}({out}[{index.name} % {PLACES}], {value.name})")
        self.expected[out] = wrap(now, dtype).astype(dtype)

    def total(self) -> None:
        """Update places that lack one of the value's axes, or both: all positions along it combine."""
        dtype = self.choice([d for d in DTYPES if bits_of(d) >= 32])
        value, place = self.converted(self.value(), dtype), self.choice(["i", "3", "j"])
        name, combine = self.choice([("add", np.add), ("max", np.maximum), ("min", np.minimum)])
        length = {"i": self.shape[0], "j": self.shape[1], "3": PLACES}[place]
        now = at_the_edges(dtype, (length,), self.random)
        out = f"out{len(self.expected)}"
        self.arguments[out] = now.astype(dtype)
        if place == "3":
            now[3] = combine.reduce(np.append(value.numbers.ravel(), now[3]))
        else:
            now = combine(now, combine.reduce(value.numbers, axis=1 if place == "i" else 0))
        self.lines.append(f"vk.atomic_{name}({out}[{place}], {value.name})")
        self.expected[out] = wrap(now, dtype).astype(dtype)
        self.along[out] = {"i": "M", "j": "N", "3": str(PLACES)}[place]

    @property
    def text(self) -> str:
        """The kernel as an author writes it."""
        parameters = [
            f'{name}: jt.{_annotation(array.dtype.name)}[vk.Tensor, "{self.along.get(name) or _sizes(array)}"]'
            for name, array in self.arguments.items()
        ]
        body = ['i = vk.tile("M")', 'j = vk.whole("N")', *self.lines]
        return (
            f"import jaxtyping as jt\nimport vkernels as vk\n\n\n{LATEST}\n\n\n@vk.kernel\n"
            f"def integers({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)
        )


def _annotation(dtype: str) -> str:
    return dtype.replace("uint", "UInt") if dtype[0] == "u" else dtype.replace("int", "Int")


def _sizes(array: np.ndarray[Any, Any]) -> str:
    return "M N" if array.ndim == 2 else str(PLACES) if array.size == PLACES else "M"


STEPS = (
    *[Case.operate] * 6, *[Case.convert] * 2, Case.invert, *[Case.choose] * 2, Case.by_float, Case.quotient,
    Case.combine, Case.find, Case.scan, Case.order, Case.fold, Case.gather, Case.update, Case.total,
)  # fmt: skip


def make_case(seed: int, steps: int = 14) -> Case:
    """A case of three loads and so many steps; every value that a step made is stored."""
    random = np.random.default_rng(seed)
    case = Case(random, (int(random.integers(1, 20)), int(random.integers(1, 40))))
    for _ in range(3):
        case.load()
    for _ in range(steps):
        case.choice(STEPS)(case)
    for value in case.values[3:]:
        case.store(value.name, value.dtype, value.numbers)
    return case
