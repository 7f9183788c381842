"""Random kernels, plans and arguments. Values are small whole numbers: every order of summing gives the same bits."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vkernels.ir.facts import Facts
from vkernels.ir.plan import Home, Plan

TILES, WHOLES = ("i", "j"), ("n", "m")
REDUCTIONS = ("sum", "max", "min")
BINARY = ("addf", "subf", "mulf", "maximumf", "minimumf")


@dataclass
class Value:
    """A value of the kernel: its name, and its axes in order."""

    name: str
    axes: tuple[str, ...]


@dataclass
class RandomKernel:
    """A kernel's text, the extents of its axes, and arguments to call it with."""

    seed: int
    sizes: dict[str, int] = field(default_factory=dict)
    parameters: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    scratches: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    count: int = 0
    depth: int = 1

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        choose = self.random
        self.tiles = TILES[: choose.randint(0, 2)]
        self.wholes = WHOLES[: choose.randint(0 if self.tiles else 1, 2)]
        self.axes = (*self.tiles, *self.wholes)
        self.sizes = {axis.upper(): choose.choice((1, 2, 3, 4, 5, 7, 8, 11)) for axis in self.axes}
        self.sizes |= {"K": choose.randint(0, 3), "ONE": 1}
        self._fill()
        self.parameters["sizes"] = tuple(self.sizes), "i8"

    # Text.

    def text(self) -> str:
        """The module."""
        head = ", ".join(f"%{n}: !vk.tensor<[{', '.join(d)}], {e}>" for n, (d, e) in self.parameters.items())
        body = "\n".join(self.lines)
        return f"vk.kernel @random({head}) {{\n{self._declarations()}\n{body}\n}}\n"

    def _declarations(self) -> str:
        lines = [f"  %{size} = vk.size {size}" for size in self.sizes]
        lines += [f"  vk.{'tile' if axis in self.tiles else 'whole'} {axis} < %{axis.upper()}" for axis in self.axes]
        lines += [f"  %c{n} = arith.constant {n} : i64" for n in (0, 1, 2)]
        lines += [f"  %f{n} = arith.constant {n}.0 : f32" for n in (0, 1, 3)]
        lines += [
            f'  %{name} = vk.scratch "{name}" : !vk.scratch<[{", ".join(axes)}], f32>'
            for name, axes in self.scratches.items()
        ]
        return "\n".join(lines)

    def emit(self, text: str, axes: tuple[str, ...] | None = None) -> Value:
        """A line; where `axes` are given, it defines a value."""
        if axes is None:
            self.lines.append("  " * self.depth + text)
            return Value("", ())
        self.count += 1
        value = Value(f"v{self.count}", axes)
        self.lines.append("  " * self.depth + f"%{value.name} = {text}")
        return value

    @staticmethod
    def type(axes: tuple[str, ...], element: str = "f32") -> str:
        return f"tensor<{'?x' * len(axes)}{element}, #vk.axes<{', '.join(axes)}>>" if axes else element

    # Statements.

    def _fill(self) -> None:
        choose = self.random
        for _ in range(choose.randint(1, 3)):
            self.load()
        for _ in range(choose.randint(2, 7)):
            self.statement()
        for value in self.values[-3:]:
            self.output(value)

    def statement(self, nested: int = 0) -> None:
        """One statement of any kind."""
        kinds = [self.load, self.binary, self.binary, self.unary, self.reduce, self.reduce, self.scan, self.dot]
        kinds += [self.scratch, self.gather, self.update, self.boundary, self.position]
        if nested < 2:
            kinds += [lambda: self.range(nested), lambda: self.range(nested), lambda: self.branch(nested)]
            kinds += [lambda: self.ragged(nested)]
        self.random.choice(kinds)()

    def pick(self) -> Value:
        return self.random.choice(self.values[-5:])

    def some_axes(self, least: int = 0) -> tuple[str, ...]:
        axes = [axis for axis in self.axes if self.random.random() < 0.6]
        while len(axes) < min(least, len(self.axes)):
            axes.append(self.random.choice([axis for axis in self.axes if axis not in axes]))
        self.random.shuffle(axes)
        return tuple(axes[:3])

    def keep(self, value: Value) -> Value:
        """Remember a value, its elements brought back to at most 20."""
        if value.axes:
            self.values.append(self.clamped(value))
        else:
            self.values.append(value)
        return self.values[-1]

    def clamped(self, value: Value, most: int = 20) -> Value:
        limits = [self.emit(f"arith.constant {sign * most}.0 : f32", ()) for sign in (1, -1)]
        wide = [self.broadcast(limit, value.axes) for limit in limits]
        type_ = self.type(value.axes)
        low = self.emit(f"arith.minimumf %{value.name}, %{wide[0].name} : {type_}", value.axes)
        return self.emit(f"arith.maximumf %{low.name}, %{wide[1].name} : {type_}", value.axes)

    def broadcast(self, value: Value, axes: tuple[str, ...], element: str = "f32") -> Value:
        if value.axes == axes:
            return value
        return self.emit(
            f"vk.broadcast %{value.name} : {self.type(value.axes, element)} -> {self.type(axes, element)}", axes
        )

    def parameter(self, dimensions: tuple[str, ...], element: str, prefix: str = "x") -> str:
        name = f"{prefix}{len(self.parameters)}"
        self.parameters[name] = dimensions, element
        return name

    def index(self, axes: tuple[str, ...], shifted: bool) -> tuple[str, str]:
        """Index expressions, some out of range and guarded."""
        terms, guarded = [], []
        for number, axis in enumerate(axes):
            if shifted and self.random.random() < 0.3:
                terms.append(self.random.choice((f"%c1 + {axis}", f"%c2 + 2 * {axis}", f"2 * {axis}")))
                guarded.append(str(number))
            else:
                terms.append(axis)
        return f"[{', '.join(terms)}]", f" guarding [{', '.join(guarded)}]" if guarded else ""

    def load(self) -> None:
        axes = self.some_axes(1)
        dimensions = tuple(axis.upper() for axis in axes)
        name = self.parameter(dimensions, "f32")
        index, guarding = self.index(axes, True)
        type_ = f"!vk.tensor<[{', '.join(dimensions)}], f32>"
        self.keep(self.emit(f"vk.load %{name}{index}{guarding} : {type_} -> {self.type(axes)}", axes))

    def binary(self) -> None:
        one, other = self.pick(), self.pick()
        axes = tuple(dict.fromkeys((*one.axes, *other.axes)))
        if len(axes) > 3:
            return
        left, right = self.broadcast(one, axes), self.broadcast(other, axes)
        kind = self.random.choice(BINARY)
        self.keep(self.emit(f"arith.{kind} %{left.name}, %{right.name} : {self.type(axes)}", axes))

    def unary(self) -> None:
        value = self.pick()
        self.keep(self.emit(f"arith.negf %{value.name} : {self.type(value.axes)}", value.axes))

    def position(self) -> None:
        if not self.axes:
            return
        axis = self.random.choice(self.axes)
        at = self.emit(f"vk.position {axis} : {self.type((axis,), 'i64')}", (axis,))
        self.keep(self.emit(f"arith.sitofp %{at.name} : {self.type((axis,), 'i64')} to {self.type((axis,))}", (axis,)))

    def with_whole(self) -> tuple[Value, str] | None:
        found = [value for value in self.values if set(value.axes) & set(self.wholes)]
        if not found:
            return None
        value = self.random.choice(found[-4:])
        return value, self.random.choice([axis for axis in value.axes if axis in self.wholes])

    def reduce(self) -> None:
        if (found := self.with_whole()) is None:
            return
        value, axis = found
        kind = self.random.choice(REDUCTIONS)
        axes = tuple(a for a in value.axes if a != axis)
        made = self.emit(f"vk.{kind} %{value.name} along {axis} : {self.type(value.axes)} -> {self.type(axes)}", axes)
        bad = [self.emit(f"arith.constant {sign}000.0 : f32", ()) for sign in (1, -1)]
        wide = [self.broadcast(b, axes) for b in bad]  # of an axis without positions, and of no use as operands
        for kind_, limit in zip(("minimumf", "maximumf"), wide, strict=True):
            made = self.emit(f"arith.{kind_} %{made.name}, %{limit.name} : {self.type(axes)}", axes)
        self.keep(made)

    def scan(self) -> None:
        if (found := self.with_whole()) is None:
            return
        value, axis = found
        kind = self.random.choice(REDUCTIONS)
        type_ = self.type(value.axes)
        self.keep(self.emit(f"vk.scan {kind} %{value.name} along {axis} : {type_}", value.axes))

    def dot(self) -> None:
        if (found := self.with_whole()) is None:
            return
        left, axis = found
        rights = [v for v in self.values if axis in v.axes]
        right = self.random.choice(rights)
        axes = tuple(dict.fromkeys(a for a in (*left.axes, *right.axes) if a != axis))
        if len(axes) > 3:
            return
        total = self.broadcast(Value("f3", ()), axes)
        types = ", ".join(self.type(v) for v in (left.axes, right.axes, axes))
        self.keep(
            self.emit(f"vk.dot %{left.name}, %{right.name}, %{total.name} along {axis} precision ieee : {types}", axes)
        )

    def scratch(self) -> None:
        """Store a value in scratchpad of its own; load it, perhaps shifted along a whole axis."""
        value = self.pick()
        if not value.axes or self.depth > 1:
            return
        name = f"s{len(self.scratches)}"
        self.scratches[name] = value.axes
        self.store_scratch(name, value)
        terms = [f"%c1 + {a}" if a in self.wholes and self.random.random() < 0.4 else a for a in value.axes]
        guarded = [str(n) for n, term in enumerate(terms) if "+" in term]
        guarding = f" guarding [{', '.join(guarded)}]" if guarded else ""
        type_ = f"!vk.scratch<[{', '.join(value.axes)}], f32>"
        self.keep(
            self.emit(f"vk.load %{name}[{', '.join(terms)}]{guarding} : {type_} -> {self.type(value.axes)}", value.axes)
        )

    def store_scratch(self, name: str, value: Value) -> None:
        axes = self.scratches[name]
        wide = self.broadcast(value, axes)
        type_ = f"!vk.scratch<[{', '.join(axes)}], f32> <- {self.type(axes)}"
        self.emit(f"vk.store %{wide.name} in %{name}[{', '.join(axes)}] : {type_}")
        self.stored.add(name)

    def gather(self) -> None:
        """Rows of a scratchpad by an index tile."""
        names = [
            name for name in self.scratches if name in self.stored and set(self.scratches[name]) & set(self.wholes)
        ]
        if not names:
            return
        name = self.random.choice(sorted(names))
        axes = self.scratches[name]
        along = self.random.choice([axis for axis in axes if axis in self.wholes])
        by = self.random.choice([axis for axis in self.axes if axis == along or axis not in axes])
        table = self.parameter((by.upper(),), "i64", f"{along}_")
        index = self.emit(
            f"vk.load %{table}[{by}] : !vk.tensor<[{by.upper()}], i64> -> {self.type((by,), 'i64')}", (by,)
        )
        result = tuple(by if axis == along else axis for axis in axes)
        terms = [f"%{index.name}" if axis == along else axis for axis in axes]
        types = f"!vk.scratch<[{', '.join(axes)}], f32>, ({self.type((by,), 'i64')}) -> {self.type(result)}"
        self.keep(self.emit(f"vk.gather %{name}[{', '.join(terms)}] : {types}", result))

    def update(self) -> None:
        """Write a scratchpad again."""
        names = [name for name in self.scratches if name in self.stored]
        values = [
            (name, value) for name in names for value in self.values if set(value.axes) <= set(self.scratches[name])
        ]
        if values:
            self.store_scratch(*self.random.choice(values[-6:]))

    def boundary(self) -> None:
        self.emit("vk.boundary")

    # Control.

    def nested(self, body: Any) -> list[Value]:
        """Run `body` one level deeper; the values it made, which are then out of scope."""
        known = list(self.values)
        self.depth += 1
        body()
        self.depth -= 1
        made, self.values = self.values[len(known) :], known
        return made

    def range(self, nested: int) -> None:
        """A loop that carries one or two values."""
        carried = [self.pick() for _ in range(self.random.randint(1, 2))]
        carried = [value for value in carried if value.axes]
        if not carried:
            return
        self.count += 1
        loop = f"loop{self.count}"
        arguments = [Value(f"{loop}_{n}", value.axes) for n, value in enumerate(carried)]
        heads = ", ".join(
            f"%{a.name} = %{v.name} : {self.type(v.axes)}" for a, v in zip(arguments, carried, strict=True)
        )
        names = ", ".join(f"%{loop}_r{n}" for n in range(len(carried)))
        stored = set(self.stored)
        self.emit(f'{names} = vk.range %{loop}_k as "k" = %c0 to %K carrying ({heads}) {{')

        def body() -> None:
            self.values += arguments
            if self.random.random() < 0.5:
                self.load_in_loop(f"%{loop}_k")
            for _ in range(self.random.randint(1, 3)):
                self.statement(nested + 1)
            news = [self.fitting(argument) for argument in arguments]
            types = ", ".join(self.type(v.axes) for v in arguments)
            self.emit(f"vk.yield {', '.join(f'%{new.name}' for new in news)} : {types}")

        self.nested(body)
        self.emit("}")
        self.stored = stored
        self.values += [Value(f"{loop}_r{n}", value.axes) for n, value in enumerate(carried)]

    def load_in_loop(self, position: str) -> None:
        axes = self.some_axes(1)[:2]
        name = self.parameter(("K", *(axis.upper() for axis in axes)), "f32")
        type_ = f"!vk.tensor<[{', '.join(('K', *(axis.upper() for axis in axes)))}], f32>"
        self.keep(self.emit(f"vk.load %{name}[{', '.join((position, *axes))}] : {type_} -> {self.type(axes)}", axes))

    def fitting(self, like: Value) -> Value:
        """A value with the axes of another."""
        found = [value for value in self.values if set(value.axes) <= set(like.axes)]
        return self.broadcast(self.random.choice(found[-3:] or [Value("f1", ())]), like.axes)

    def branch(self, nested: int) -> None:
        """A conditional on a size that gives one value."""
        like = self.pick()
        if not like.axes:
            return
        count = self.random.randint(0, 4)
        limit = self.emit(f"arith.constant {count} : i64", ())
        condition = self.emit(f"arith.cmpi slt, %K, %{limit.name} : i64", ())
        self.count += 1
        result = Value(f"if{self.count}", like.axes)
        stored = set(self.stored)
        self.emit(f"%{result.name} = scf.if %{condition.name} -> ({self.type(like.axes)}) {{")

        def body() -> None:
            for _ in range(self.random.randint(0, 2)):
                self.statement(nested + 1)
            self.emit(f"scf.yield %{self.fitting(like).name} : {self.type(like.axes)}")

        self.nested(body)
        self.emit("} else {")
        self.nested(body)
        self.emit("}")
        self.stored = stored
        self.values.append(result)

    def ragged(self, nested: int) -> None:
        """A range whose elements each make their own number of steps."""
        if not self.axes or self.depth > 1:
            return
        axis = self.random.choice(self.axes)
        others = tuple(a for a in self.some_axes() if a != axis)[:1]
        axes = (axis, *others) if self.random.random() < 0.5 else (*others, axis)
        bounds = [self.parameter((axis.upper(),), "i64", prefix) for prefix in ("start", "stop")]
        type_ = f"!vk.tensor<[{axis.upper()}], i64> -> {self.type((axis,), 'i64')}"
        start, stop = (self.emit(f"vk.load %{name}[{axis}] : {type_}", (axis,)) for name in bounds)
        weights = self.parameter((f"P{len(self.parameters)}",), "f32", "ragged")
        self.sizes[self.parameters[weights][0][0]] = 9  # steps run from 0 to 9 at most
        self.count += 1
        loop = f"ragged{self.count}"
        first = self.fitting(Value("", axes))
        head = f"%{loop}_a = %{first.name} : {self.type(axes)}"
        bound = self.type((axis,), "i64")
        self.emit(
            f'%{loop}_r = vk.range %{loop}_k as "k" = %{start.name} to %{stop.name} : {bound} carrying ({head}) {{'
        )
        known = list(self.values)
        self.depth += 1
        size = self.parameters[weights][0][0]
        weight = self.emit(
            f"vk.gather %{weights}[%{loop}_k] : !vk.tensor<[{size}], f32>, ({bound}) -> {self.type((axis,))}", (axis,)
        )
        wide = self.broadcast(weight, axes)
        total = self.emit(f"arith.addf %{loop}_a, %{wide.name} : {self.type(axes)}", axes)
        self.values.append(total)
        if self.random.random() < 0.3:
            self.binary()
        new = self.broadcast(total, axes)
        self.emit(f"vk.yield %{new.name} : {self.type(axes)}")
        self.depth -= 1
        self.values = known
        self.emit("}")
        self.keep(Value(f"{loop}_r", axes))

    def output(self, value: Value) -> None:
        dimensions = tuple(axis.upper() for axis in value.axes) or ("ONE",)
        name = self.parameter(dimensions, "f32", "out")
        if value.axes:
            type_ = f"!vk.tensor<[{', '.join(dimensions)}], f32> <- {self.type(value.axes)}"
            self.emit(f"vk.store %{value.name} in %{name}[{', '.join(value.axes)}] : {type_}")
        else:
            self.emit(f"vk.store %{value.name} in %{name}[%c0] : !vk.tensor<[ONE], f32> <- f32")

    # Calls.

    def arguments(self) -> dict[str, Any]:
        """Whole numbers for inputs, NaN in outputs."""
        numbers = np.random.default_rng(self.seed)
        result: dict[str, Any] = {}
        for name, (dimensions, element) in self.parameters.items():
            shape = tuple(self.sizes[d] for d in dimensions)
            if name.startswith("out"):
                result[name] = np.full(shape, np.nan, np.float32)
            elif name.startswith(("start", "stop")):
                result[name] = numbers.integers(0, 5 if name.startswith("start") else 10, shape)
            elif element == "i8":
                result[name] = np.zeros(shape, np.int8)
            elif element == "i64":
                result[name] = numbers.integers(0, self.sizes[name[0].upper()], shape)
            else:
                result[name] = numbers.integers(-3, 4, shape).astype(np.float32)
        return result

    def plan(self, seed: int) -> tuple[Plan, Facts]:
        """Some plan, and facts that hold."""
        choose = random.Random(seed)
        sizes = (1, 2, 3, 4, 16)
        known = {size: n for size, n in self.sizes.items() if choose.random() < 0.7}
        multiples = {size: n for size, n in self.sizes.items() if size not in known and n > 0 and choose.random() < 0.3}
        homes = {}
        tiles, wholes = list(self.tiles), list(self.wholes)
        splits = {choose.choice(wholes): choose.randint(2, 3)} if wholes and choose.random() < 0.15 else {}
        choose.shuffle(tiles)
        plan = Plan(
            tiles={axis: choose.choice(sizes) for axis in self.tiles},
            chunks={axis: choose.choice(sizes) for axis in self.wholes},
            homes=homes,
            copies=tuple(name for name in self.scratches if choose.random() < 0.1),
            splits=splits,
            lanes=choose.choice(self.axes),
            order=tuple(tiles),
        )
        return plan, Facts(sizes=known, multiples=multiples, distinct=choose.random() < 0.9)


__all__ = ["Home", "RandomKernel"]
