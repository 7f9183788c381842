"""Kernels that plans are chosen for, and calls of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i8, i16

from tests.ir.interpret.ttir.library import numbers
from vkernels.compiler.arguments import ArrayView
from vkernels.compiler.specialise import kernel_in, written_tensors
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import Needs
from vkernels.ir.dialect import FetchOp, KernelOp, element_of
from vkernels.ir.interpret import interpret
from vkernels.ir.pin import Pin
from vkernels.ir.text import parse_module, print_module
from vkernels.ir.transforms.merge_tensors import with_one_for, works_in_place
from vkernels.ir.transforms.split_phases import split_phases

from ..random_kernels.compare import difference
from ..random_kernels.generate import generate
from ..random_kernels.races import programs_race
from .arrays import laid_out, views_of
from .drawing import DTYPES, Drawn
from .library import LibraryKernel

Array = np.ndarray[Any, Any]
LARGEST_OF = {np.float64: np.inf, np.float32: 2.0**128, np.float16: 65520.0, np.uint16: 2.0**128}
"""What is stored as infinite, from here on; bf16 lies in uint16."""
KINDS = DTYPES | {"int32": np.int32}
SMALLEST = {np.float64: 0.0, np.float32: 2.0**-126, np.float16: 2.0**-14, np.uint16: 2.0**-126}
"""From here on numbers have all their digits."""
ROUNDING = {np.float64: 2.0**-52, np.float32: 2.0**-23, np.float16: 2.0**-10, np.uint16: 2.0**-7}


@dataclass(frozen=True)
class Case:
    """A call: arguments in memory of their own, outputs poisoned, and sizes by name.

    `wrong`: where arguments are not what a call should have left; empty if they are. `unread`: outputs that nothing
    may be read of before it is written. `same`: two names of one tensor, the first written.
    """

    arguments: dict[str, Any]
    sizes: dict[str, int]
    wrong: Callable[[Mapping[str, Any]], str]
    unread: tuple[str, ...] = ()
    same: tuple[str, str] | None = None

    @cached_property
    def views(self) -> dict[str, ArrayView]:
        return views_of(self.arguments)


class Subject:
    """A kernel as written and in phases, with its needs."""

    label: str
    pin: Pin | None = None
    """What the author decided."""

    def __init__(self, label: str, module: ModuleOp):
        self.label, self.module = label, module
        self.split = module.clone()
        split_phases(self.split)
        self.written = written_tensors(kernel_in(module))

    @property
    def kernel(self) -> KernelOp:
        return kernel_in(self.module)

    @cached_property
    def needs(self) -> Needs:
        return annotate_needs(self.kernel)

    def merged(self, same: tuple[str, str] | None) -> ModuleOp:
        """The kernel as written, with one tensor in place of two that are the `same`."""
        return self.module if same is None else with_one_for(self.module, {same[1]: same[0]})

    @cached_property
    def places(self) -> tuple[tuple[str, str], ...]:
        """Pairs of tensors, the first written, that may be one."""
        names = [name for name in self.types if name not in self.written]
        return tuple(
            (one, other)
            for one in self.written
            for other in names
            if self.types[one] == self.types[other] and works_in_place(self.kernel, one, other)
        )

    @cached_property
    def races(self) -> bool:
        """Whether it has no meaning for several programs."""
        return programs_race(self.kernel)

    @cached_property
    def is_for_cpus(self) -> bool:
        """Whether it has atomics with a result of fewer than 32 bits, which GPUs lack."""
        fetches = [op for op in self.kernel.walk() if isinstance(op, FetchOp)]
        return any(element_of(op.tile) in (i8, i16) for op in fetches)

    @cached_property
    def types(self) -> dict[str, str]:
        kernel = self.kernel
        arguments = kernel.body.block.args
        return {p.data: str(a.type) for p, a in zip(kernel.parameters, arguments, strict=True)}

    def draw(
        self, choose: random.Random, layouts: int, room: int, sizes: Mapping[str, int], multiples: Mapping[str, int]
    ) -> Case:
        """A call of at most about `room` elements a tile; arrays are laid out alike where `layouts` is the same."""
        raise NotImplementedError


class LibrarySubject(Subject):
    def __init__(self, kernel: LibraryKernel):
        super().__init__(str(kernel), kernel.build())
        self.library = kernel
        self.pin = kernel.function.pin

    def draw(
        self, choose: random.Random, layouts: int, room: int, sizes: Mapping[str, int], multiples: Mapping[str, int]
    ) -> Case:
        drawn = self.library.draw(choose, room, sizes, multiples)
        layout = random.Random(layouts)
        places = [place for place in self.places if place[0] not in drawn.arguments]
        place = layout.choice(places) if places and layout.random() < 0.25 else None
        arguments, found = {}, {}
        for parameter in self.library.function.parameters:
            name = parameter.name
            if parameter.kind == "constant":
                continue
            value = drawn.arguments.get(name)
            if parameter.kind == "tensor":
                written = name in drawn.expected or (place is not None and name == place[1])
                if value is None:
                    value = poisoned(
                        drawn.expected[name].shape, (DTYPES | {"int32": np.int32})[self.library.dtype_of(parameter)]
                    )
                found |= dict(zip(parameter.dimensions, value.shape, strict=True))
                laid = laid_out(layout, value, written)
                laid[...] = value
                value = laid
            arguments[name] = value
        if place is not None:
            arguments[place[0]] = arguments[place[1]]
        unread = () if place else tuple(name for name in drawn.expected if name not in drawn.arguments)
        named = {size: length for size, length in found.items() if isinstance(size, str)}
        return Case(arguments, named, lambda actual: self._wrong(drawn, actual), unread, place)

    def _allowed(self, drawn: Drawn, name: str, dtype: type, computed: float) -> Array:
        """How far off each element may be; `computed`: a rounding of the dtype that is computed in."""
        expected = np.abs(drawn.expected[name])
        if dtype not in ROUNDING:
            return np.zeros(expected.shape)  # whole numbers
        if drawn.allowed is not None:
            return 2 * ROUNDING[dtype] * np.maximum(SMALLEST[dtype], expected) + computed * drawn.allowed[name]
        unit = 2 * ROUNDING[dtype] + drawn.roundings * computed
        return (0 if drawn.roundings == 0 else unit) * np.maximum(drawn.floor, expected)

    def _wrong(self, drawn: Drawn, actual: Mapping[str, Any]) -> str:
        computed = ROUNDING[DTYPES[self.library.dtype]]
        computed = computed if drawn.inner else min(computed, 2.0**-23)
        for name, expected in drawn.expected.items():
            found = numbers(actual[name])
            with np.errstate(all="ignore"):
                allowed = self._allowed(drawn, name, actual[name].dtype.type, computed)
                right = (found == expected) | (np.isnan(found) & np.isnan(expected))
                right |= np.abs(found - expected) <= allowed
                beyond = np.abs(expected) + allowed >= LARGEST_OF.get(actual[name].dtype.type, np.inf)
                right |= beyond & np.isinf(found) & (np.sign(found) == np.sign(expected))
            if not right.all():
                where = tuple(int(n) for n in np.argwhere(~right)[0])
                return (
                    f"{name}{list(where)} is {found[where]}, expected {expected[where]} within {allowed[where]:.3g};"
                    f" {int((~right).sum())} of {right.size} are wrong"
                )
        return ""


class RandomSubject(Subject):
    """A kernel of the generator; what the interpreter makes of it as written is what it must give."""

    def __init__(self, seed: int):
        self.seed = seed
        self.generated = generate(seed)
        super().__init__(f"random kernel {seed}", parse_module(print_module(self.generated.module())))

    def draw(
        self, choose: random.Random, layouts: int, room: int, sizes: Mapping[str, int], multiples: Mapping[str, int]
    ) -> Case:
        kernel = generate(self.seed, choose.getrandbits(32))
        layout = random.Random(layouts)
        arguments: dict[str, Any] = {}
        for name, value in kernel.arguments.items():
            if isinstance(value, np.ndarray):
                laid = laid_out(layout, value, written=name in self.written)
                laid[...] = value
                value = laid
            arguments[name] = value
        place = layout.choice(self.places) if self.places and layout.random() < 0.25 else None
        if place is not None:
            made = laid_out(layout, arguments[place[1]], written=True)
            made[...] = arguments[place[1]]
            arguments[place[0]] = arguments[place[1]] = made
        expected = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in arguments.items()}
        interpret(self.module, expected)

        def wrong(actual: Mapping[str, Any]) -> str:
            for name, tolerance in kernel.tolerances.items():
                if found := difference(name, expected[name], actual[name], tolerance):
                    return found
            return ""

        return Case(arguments, dict(kernel.sizes), wrong, (), place)


def poisoned(shape: tuple[int, ...], dtype: type) -> Array:
    """Every bit set: NaN."""
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
    return np.full(shape, np.iinfo(bits).max, bits).view(dtype)


@cache
def library_subject(kernel: LibraryKernel) -> LibrarySubject:
    return LibrarySubject(kernel)
