"""One kind of a library call, captured: what repeats it on other addresses.

Repeating is a function of Python of its own for each kind, generated without loops: for short kernels it takes less
time than going through lists of steps, by some microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from vkernels.ir.errors import OutOfMemoryError

Expectation = Callable[[Sequence[int]], bool]

KEPT_BYTES = 1 << 16
"""Size limit, in bytes, of temporary arrays that are kept from one call to the next."""


class OutOfDateError(Exception):
    """The recorded call is out of date."""


class NotRepeatableError(Exception):
    """These arguments differ from the recorded ones: they share memory, or fail a check."""


@dataclass(frozen=True)
class Step:
    """One kernel call or, if `holds` is given, one check of an array.

    `sources`: an array's number and an offset for each address. `pairs`: those of the entry that arguments may share.
    `written`: numbers of written arguments. `live`: positions of scalars and the arguments that they come from.
    """

    entry: Any
    prepared: Any
    sources: tuple[tuple[int, int], ...]
    scalars: tuple[Any, ...] = ()
    pairs: tuple[tuple[tuple[int, int], tuple[int, int], int, int], ...] = ()
    written: tuple[int, ...] = ()
    live: tuple[tuple[int, int], ...] = ()
    holds: Expectation | None = None


@dataclass(frozen=True)
class CapturedCall:
    """One kind of call, ready to be repeated, also from several threads at once.

    Arrays are numbered: arguments, results, temporaries, constants. `given`: positions of arguments that are tensors.
    `templates`: of results, and `others`: of temporaries, tensors without memory. `results`: the number of each result,
    or None; a tuple of them is returned if `several`. `extents`: number, bytes and bytes of an element of each
    argument, whose storage may be smaller in a later call. `count_writes`: notes writes of tensors for autograd.
    """

    given: tuple[int, ...]
    templates: tuple[Any, ...]
    others: tuple[Any, ...]
    constants: tuple[Any, ...]
    steps: tuple[Step, ...]
    results: tuple[int | None, ...]
    several: bool
    extents: tuple[tuple[int, int, int], ...]
    empty_like: Callable[[Any], Any]
    count_writes: Callable[[Sequence[Any]], object]

    def repeated(self) -> Callable[[Sequence[Any]], Any]:
        """A function of a call's arguments that repeats it on them.

        It raises `OutOfDateError` if the recorded code is no longer what runs, and `NotRepeatableError` for arguments
        that the library function has to judge.
        """
        return _Writer(self).function()


class _Writer:
    """Writes the function. Numbers stand in its globals, not in its text, so that calls of one structure share text."""

    def __init__(self, captured: CapturedCall):
        self.captured = captured
        self.lines: list[str] = []
        self.globals: dict[str, Any] = {
            "empty_like": captured.empty_like, "count_writes": captured.count_writes, "spare": [],
            "OutOfDateError": OutOfDateError, "NotRepeatableError": NotRepeatableError,
            "OutOfMemoryError": OutOfMemoryError,
        }  # fmt: skip

    def function(self) -> Callable[[Sequence[Any]], Any]:
        temporaries = self._arrays()
        self._addresses(temporaries)
        self._checks()
        for step in self.captured.steps:
            self._call(step) if step.holds is None else self._test(step)
        written = sorted({number for step in self.captured.steps for number in step.written})
        if written:
            self._write(f"count_writes([{_listed('a', written)}])")
        if temporaries and self._is_small:
            self._write(f"spare.append([{_listed('a', temporaries)}])")
        results = ["None" if number is None else f"a{number}" for number in self.captured.results]
        if self.captured.several:
            self._write(f"return ({''.join(f'{each}, ' for each in results)})")
        else:
            self._write(f"return {results[0]}")
        exec(_compiled("\n    ".join(("def repeat(values):", *self.lines))), self.globals)
        repeat: Callable[[Sequence[Any]], Any] = self.globals["repeat"]
        return repeat

    @property
    def _is_small(self) -> bool:
        size: int = sum(array.numel() * array.element_size() for array in self.captured.others)
        return size <= KEPT_BYTES

    def _arrays(self) -> list[int]:
        """Name all arrays, as `a0`, `a1` and so on; returns the numbers of the temporaries."""
        given, templates, others = self.captured.given, self.captured.templates, self.captured.others
        for number, position in enumerate(given):
            self._write(f"a{number} = values[{position}]")
        for number, template in enumerate((*templates, *others), len(given)):
            self.globals[f"template{number}"] = template
        first = len(given) + len(templates)
        for number in range(len(given), first):
            self._write(f"a{number} = empty_like(template{number})")
        temporaries = list(range(first, first + len(others)))
        made = [f"a{number} = empty_like(template{number})" for number in temporaries]
        if temporaries and self._is_small:
            self._write("try:", f"    [{_listed('a', temporaries)}] = spare.pop()", "except IndexError:")
            made = [f"    {line}" for line in made]
        self._write(*made)
        return temporaries

    def _addresses(self, temporaries: Sequence[int]) -> None:
        """Name all addresses, as `p0`, `p1` and so on, of arrays that have the memory that the recorded ones had."""
        first = len(self.captured.given) + len(self.captured.templates)
        self._write("try:", *(f"    p{number} = a{number}.data_ptr()" for number in range(first)))
        for number, needed, itemsize in self.captured.extents:
            self.globals[f"needed{number}"], self.globals[f"itemsize{number}"] = needed, itemsize
            left = f"len(a{number}.untyped_storage()) - a{number}.storage_offset() * itemsize{number}"
            self._write(f"    if {left} < needed{number}:", "        raise NotRepeatableError")
        # torch's, for tensors without memory; the function reports it
        self._write("except RuntimeError:", "    raise NotRepeatableError from None")
        if first:
            nulls = " or ".join(f"not p{number}" for number in range(first))
            self._write(f"if {nulls}:", "    raise NotRepeatableError")
        self._write(*(f"p{number} = a{number}.data_ptr()" for number in temporaries))
        for number, array in enumerate(self.captured.constants, first + len(temporaries)):
            self.globals[f"a{number}"], self.globals[f"p{number}"] = array, array.data_ptr()

    def _checks(self) -> None:
        """No arguments share memory that may not, and all code is what such calls run now."""
        for (one, start), (other, end), low, high in (pair for step in self.captured.steps for pair in step.pairs):
            distance = f"p{other} - p{one} + {self._named(end - start)}"
            self._write(f"if {self._named(low)} < {distance} < {self._named(high)}:", "    raise NotRepeatableError")
        for step in self.captured.steps:
            if step.holds is None:
                entry, prepared = self._named(step.entry), self._named(step.prepared)
                self._write(f"if {entry}.distinct is not {prepared}:", "    raise OutOfDateError")

    def _call(self, step: Step) -> None:
        addresses = ", ".join(
            f"p{number} + {self._named(offset)}" if offset else f"p{number}" for number, offset in step.sources
        )
        scalars = self._named(step.scalars)
        if step.live:
            live = dict(step.live)
            each = (f"values[{live[at]}]" if at in live else f"{scalars}[{at}]" for at in range(len(step.scalars)))
            scalars = f"[{', '.join(each)}]"
        self._write(
            "try:", f"    {self._named(step.prepared.run)}([{addresses}], {scalars})",
            "except OutOfMemoryError:", "    raise OutOfDateError from None",
            f"{self._named(step.entry.counters)}.calls += 1",
        )  # fmt: skip

    def _test(self, step: Step) -> None:
        ((number, _),) = step.sources
        self._write(f"if not {self._named(step.holds)}(a{number}.tolist()):", "    raise NotRepeatableError")

    def _named(self, value: Any) -> str:
        """A new name for a value that the function reads."""
        name = f"value{len(self.globals)}"
        self.globals[name] = value
        return name

    def _write(self, *lines: str) -> None:
        self.lines += lines


def _listed(prefix: str, numbers: Sequence[int]) -> str:
    return ", ".join(f"{prefix}{number}" for number in numbers)


@lru_cache(maxsize=512)
def _compiled(text: str) -> CodeType:
    return compile(text, __file__, "exec")
