"""Memory as programs see it: arrays whose elements are known to have been written, and by which program."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Attribute

from .numbers import Array, dtype_of, from_storage, rounded, storage_of, to_storage, unsigned

NOBODY, SEVERAL = -1, -2
"""Instead of a program's number: no program yet, or more than one."""

_COMBINE: dict[str, np.ufunc] = {
    "add": np.add, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_UNSIGNED: dict[str, np.ufunc] = {"maxui": np.maximum, "minui": np.minimum}


class AccessTrace:
    """Which programs of the current launch have read, written and atomically updated each element."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self.reset()

    def reset(self) -> None:
        """Begin a launch."""
        self.reader, self.writer, self.updater = (np.full(self.shape, NOBODY, np.int64) for _ in range(3))

    def read(self, places: tuple[Array, ...], program: int) -> Array:
        """Note a read; true where another program has written."""
        _note(self.reader, places, program)
        return np.asarray(_others(self.writer[places], program) | _others(self.updater[places], program))

    def write(self, places: tuple[Array, ...], program: int, changes: Array) -> Array:
        """Note a write; true where another program has read or, if the value changes, written."""
        conflict = _others(self.reader[places], program) | _others(self.updater[places], program)
        conflict |= _others(self.writer[places], program) & changes
        _note(self.writer, places, program)
        return conflict

    def update(self, places: tuple[Array, ...], program: int) -> Array:
        """Note an atomic update; true where another program has read or written."""
        _note(self.updater, places, program)
        return np.asarray(_others(self.reader[places], program) | _others(self.writer[places], program))

    def update_alone(self, places: tuple[Array, ...], program: int) -> Array:
        """Note an update that need not be atomic; true where another program has read, written or updated."""
        conflict = _others(self.updater[places], program) | self.read(places, program)
        conflict |= _others(self.reader[places], program)
        _note(self.writer, places, program)
        return np.asarray(conflict)


def _others(seen: Array, program: int) -> Array:
    return np.asarray((seen != NOBODY) & (seen != program))


def _note(seen: Array, places: tuple[Array, ...], program: int) -> None:
    seen[places] = np.where(_others(seen[places], program), SEVERAL, program)


@dataclass
class ElementMemory:
    """Elements of one type in memory. `array` has storage dtype (bf16 as uint16), any strides, one dimension at least.

    `written` is None where the caller has written all; `trace` is None where races are not looked for.
    """

    label: str
    element: Attribute
    array: Array
    written: Array | None = None
    trace: AccessTrace | None = field(default=None, repr=False)

    @classmethod
    def fresh(cls, label: str, element: Attribute, shape: tuple[int, ...]) -> ElementMemory:
        """New memory in which nothing has been written."""
        shape = shape or (1,)
        return cls(label, element, np.zeros(shape, storage_of(element)), np.zeros(shape, np.bool_))

    def load(self, places: tuple[Array, ...]) -> Array:
        """The elements at these places, one index array a dimension."""
        return from_storage(np.asarray(self.array[places]), self.element)

    def unwritten(self, places: tuple[Array, ...]) -> Array | None:
        """True where nothing has been written; None where all has."""
        return None if self.written is None else ~np.asarray(self.written[places])

    def store(self, places: tuple[Array, ...], values: Array) -> None:
        """Write values; where a place is named twice the last remains."""
        self.array[places] = to_storage(values, self.element)
        if self.written is not None:
            self.written[places] = True

    def changes(self, places: tuple[Array, ...], values: Array) -> Array:
        """True where a store of these values would change bits."""
        new, old = np.ascontiguousarray(to_storage(values, self.element)), np.ascontiguousarray(self.array[places])
        bits = f"u{new.dtype.itemsize}"
        return np.asarray(new.view(bits) != old.view(bits)).reshape(np.shape(values))

    def fetch(self, places: tuple[Array, ...], values: Array, kind: str, expected: Array | None = None) -> Array:
        """Update elements one after another, and return what each update found. Every index is one-dimensional."""
        found = np.zeros(np.shape(values), dtype_of(self.element))
        for number, place in enumerate(zip(*places, strict=True)):
            at = tuple(np.array([index]) for index in place)
            found[number : number + 1] = self.load(at)
            new = values[number : number + 1]
            if kind == "exchange" or (expected is not None and not self.changes(at, expected[number : number + 1])[0]):
                self.store(at, new)
            elif expected is None:
                self.update(at, new, kind)
        return found

    def update(self, places: tuple[Array, ...], values: Array, kind: str) -> None:
        """Combine values into memory, one after another, each result rounded. Every index is one-dimensional."""
        if kind in _UNSIGNED:
            _UNSIGNED[kind].at(unsigned(self.array), places, unsigned(values))
            return
        combine = _COMBINE[kind]
        if storage_of(self.element) == dtype_of(self.element):
            combine.at(self.array, places, values)
            return
        for place, value in zip(zip(*places, strict=True), values, strict=True):
            old = from_storage(np.asarray(self.array[place]), self.element)
            self.array[place] = to_storage(rounded(combine(old, value), self.element), self.element)
