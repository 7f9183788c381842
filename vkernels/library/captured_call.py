"""One kind of a library call, captured: what repeats it on other addresses.

Repeating is a function of Python of its own for each kind, generated without loops: for short kernels it takes less
time than going through lists of steps, by some microseconds. It tells by itself whether arguments are of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from vkernels.ir.errors import OutOfMemoryError

from . import gpu_arrays

Expectation = Callable[[Sequence[int]], bool]
Repeat = Callable[[Sequence[Any], tuple[str, ...]], Any]
Place = tuple[int, str | None]
"""Where a value stands: a position among the arguments, and the name of a part of this argument, if it has parts."""

KEPT_BYTES = 1 << 16
"""Size limit, in bytes, of temporary arrays that are kept from one call to the next."""


MISS: Any = object()
"""What repeating returns for arguments of another kind."""


class OutOfDateError(Exception):
    """The recorded call is out of date."""


class NotRepeatableError(Exception):
    """These arguments differ from the recorded ones: they share memory, or fail a check."""


@dataclass(frozen=True)
class Step:
    """One kernel call or, if `holds` is given, one check of an array, or, if `compute` is, one array that a function
    makes of the arrays `sources`.

    `sources`: an array's number and an offset for each address. `pairs`: those of the entry that arguments may share.
    `written`: numbers of written arguments. `live`: positions of scalars and the arguments that they come from.
    `made`: the number of the array that `compute` makes.
    """

    entry: Any
    prepared: Any
    sources: tuple[tuple[int, int], ...]
    scalars: tuple[Any, ...] = ()
    pairs: tuple[tuple[tuple[int, int], tuple[int, int], int, int], ...] = ()
    written: tuple[int, ...] = ()
    live: tuple[tuple[int, Place], ...] = ()
    holds: Expectation | None = None
    compute: Callable[..., Any] | None = None
    made: int = -1


@dataclass(frozen=True)
class Kind:
    """The arguments that a recorded call stands for. `names`: of those given by name. `numbers`: place and value of
    each that is no tensor; `live`: place and type of those that may have any value. `types`: of the tensors;
    `is_like`: whether tensors of these types are like the recorded ones; None where only the caller can tell.
    `bundles`: position, type and parts of arguments with parts.
    """

    count: int
    names: tuple[str, ...]
    numbers: tuple[tuple[Place, Any], ...]
    live: tuple[tuple[Place, type], ...]
    types: tuple[type, ...] = ()
    is_like: Callable[..., bool] | None = None
    bundles: tuple[tuple[int, type, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Empty:
    """How arrays are made. `like`: of a template. `strided`: of shape, strides and dtype, where that is faster."""

    like: Callable[[Any], Any]
    strided: Callable[[Any, Any, Any], Any] | None = None


@dataclass(frozen=True)
class CapturedCall:
    """One kind of call, ready to be repeated, also from several threads at once.

    Arrays are numbered: arguments, results, temporaries, those that steps compute, constants. `kind`: which arguments
    it is for. `given`: places of tensors. `templates`: of results, and `others`: of temporaries, tensors without
    memory. `computed`: how many arrays steps compute. `results`: the number of each result, or None; a tuple of them is
    returned if `several`. `extents`: number, bytes and bytes of an element of each argument, whose storage may be
    smaller in a later call. `empty`: makes an array. `count_writes`: notes writes of tensors for autograd.
    `is_on_gpu`: it reads or writes arrays there.
    """

    kind: Kind
    given: tuple[Place, ...]
    templates: tuple[Any, ...]
    others: tuple[Any, ...]
    computed: int
    constants: tuple[Any, ...]
    steps: tuple[Step, ...]
    results: tuple[int | None, ...]
    several: bool
    extents: tuple[tuple[int, int, int], ...]
    empty: Empty
    count_writes: Callable[[Sequence[Any]], object]
    is_on_gpu: bool = False

    def repeated(self) -> Repeat:
        """A function of a call's values and names of the last ones, those given by name, that repeats it on them.

        It returns `MISS` for another kind of arguments, as far as `kind` tells. It raises `OutOfDateError` if the
        recorded code is no longer what runs, and `NotRepeatableError` for arguments that the library function has to
        judge.
        """
        return _Writer(self).function()


class _Writer:
    """Writes the function. Numbers stand in its globals, not in its text, so that calls of one structure share text."""

    def __init__(self, captured: CapturedCall):
        self.captured = captured
        self.lines: list[str] = []
        self._names: dict[Place, str] = {}
        self.globals: dict[str, Any] = {
            "empty_like": captured.empty.like, "empty_strided": captured.empty.strided, "MISS": MISS, "spare": [],
            "count_writes": captured.count_writes, "OutOfDateError": OutOfDateError,
            "NotRepeatableError": NotRepeatableError, "OutOfMemoryError": OutOfMemoryError,
        }  # fmt: skip

    def function(self) -> Repeat:
        first = len(self.captured.given) + len(self.captured.templates)
        temporaries = list(range(first, first + len(self.captured.others)))
        self._judge()
        self._arrays()
        self._temporaries(temporaries)
        self._constants(first + len(temporaries) + self.captured.computed)
        self._checks()
        self._judge_stream(first + len(temporaries) + self.captured.computed)
        for step in self.captured.steps:
            if step.compute is not None:
                self._compute(step)
            elif step.holds is not None:
                self._test(step)
            else:
                self._call(step)
        written = sorted({number for step in self.captured.steps for number in step.written})
        if written:
            self._write(f"count_writes([{_listed('a', written)}])")
        if temporaries and self._is_small:
            self._write(f"spare.append(({_kept(temporaries)}))")
        results = ["None" if number is None else f"a{number}" for number in self.captured.results]
        if self.captured.several:
            self._write(f"return ({''.join(f'{each}, ' for each in results)})")
        else:
            self._write(f"return {results[0]}")
        exec(_compiled("\n    ".join(("def repeat(values, names):", *self.lines))), self.globals)
        repeat: Repeat = self.globals["repeat"]
        return repeat

    @property
    def _is_small(self) -> bool:
        """Whether temporary arrays are kept: not on a GPU, where a call on another stream may still use them."""
        size: int = sum(array.numel() * array.element_size() for array in self.captured.others)
        return size <= KEPT_BYTES and not gpu_arrays.on_gpu(self.captured.others)

    def _judge(self) -> None:
        """Name the values of the call, tensors as `a0`, `a1` and so on, if they are of the recorded kind."""
        kind, given = self.captured.kind, self.captured.given
        self._write(f"if names != {self._named(kind.names)} or len(values) != {kind.count}:", "    return MISS")
        names = self._names = {place: f"a{number}" for number, place in enumerate(given)}
        for (position, part), _ in (*kind.numbers, *kind.live):
            names[position, part] = f"v{position}" if part is None else f"v{position}_{part}"
        whole = (names.get((position, None), f"v{position}") for position in range(kind.count))
        self._write(f"({''.join(f'{name}, ' for name in whole)}) = values")
        for position, type_, parts in kind.bundles:
            self._write(f"if type(v{position}) is not {self._named(type_)}:", "    return MISS")
            self._write(*(f"{names[position, part]} = v{position}.{part}" for part in parts))
        for place, value in kind.numbers:
            self._write(f"if {self._differs(names[place], value)}:", "    return MISS")
        for place, type_ in kind.live:
            self._write(f"if type({names[place]}) is not {self._named(type_)}:", "    return MISS")
        self._compare(given)

    def _compare(self, given: Sequence[Place]) -> None:
        """Name the tensors' addresses `p0`, `p1` and so on, if they are like the recorded ones.

        Torch's native comparison ends the process at tensors without sizes or strides: it is given no nested tensor,
        and none without memory of its own.
        """
        tensors, is_like = range(len(given)), self.captured.kind.is_like
        if is_like is not None:
            types = self.captured.kind.types
            odd = (f"type(a{number}) is not {self._named(types[number])} or a{number}.is_nested" for number in tensors)
            self._write(*(line for each in odd for line in (f"if {each}:", "    return MISS")))
        self._write("try:", *(f"    p{number} = a{number}.data_ptr()" for number in tensors), "except RuntimeError:")
        self._write("    raise NotRepeatableError from None")
        if is_like is not None:
            self._write(f"if not {self._named(is_like)}({_listed('a', tensors)}):", "    return MISS")

    def _differs(self, name: str, value: Any) -> str:
        """Whether a value that is no tensor is another one, or of another type."""
        recorded, type_ = self._named(value), type(value)
        if value is None or type_ is bool:
            return f"{name} is not {recorded}"
        differs = f"{name} != {recorded}"
        if type_ is float and value == 0:  # which -0.0 equals
            differs = f"repr({name}) != {self._named(repr(value))}"
        elif type_ is tuple:
            differs = f"{differs} or any(type(each) is not int for each in {name})"
        return f"{name} is not {recorded} and (type({name}) is not {self._named(type_)} or {differs})"

    def _arrays(self) -> None:
        """Make the results and name their addresses, if arguments have the memory that the recorded ones had."""
        count = len(self.captured.given)
        numbers = range(count + len(self.captured.templates))
        lines: list[str] = []
        for number, needed, itemsize in self.captured.extents:
            left = f"len(a{number}.untyped_storage()) - a{number}.storage_offset() * {self._named(itemsize)}"
            lines += [f"    if {left} < {self._named(needed)}:", "        raise NotRepeatableError"]
        for number, template in zip(numbers[count:], self.captured.templates, strict=True):
            lines += [f"    a{number} = {self._empty(template)}", f"    p{number} = a{number}.data_ptr()"]
        if lines:  # torch's error is of tensors without memory, or tells that there is none left; the function says it
            self._write("try:", *lines, "except RuntimeError:", "    raise NotRepeatableError from None")
        if numbers:
            nulls = " or ".join(f"not p{number}" for number in numbers)
            self._write(f"if {nulls}:", "    raise NotRepeatableError")

    def _temporaries(self, numbers: Sequence[int]) -> None:
        """Make or take temporary arrays, and name their addresses."""
        made = []
        for number, template in zip(numbers, self.captured.others, strict=True):
            made += [f"a{number} = {self._empty(template)}", f"p{number} = a{number}.data_ptr()"]
        if numbers and self._is_small:
            self._write("try:", f"    {_kept(numbers)} = spare.pop()", "except IndexError:")
            made = [f"    {line}" for line in made]
        self._write(*made)

    def _constants(self, first: int) -> None:
        for number, array in enumerate(self.captured.constants, first):
            self.globals[f"a{number}"], self.globals[f"p{number}"] = array, array.data_ptr()

    def _judge_stream(self, first: int) -> None:
        """On a GPU: values that a call looks at, and arrays that it keeps for later calls, belong to no graph."""
        constants = [n for n, array in enumerate(self.captured.constants, first) if gpu_arrays.on_gpu([array])]
        if constants or (self.captured.is_on_gpu and any(step.holds is not None for step in self.captured.steps)):
            self.globals |= {"is_captured": gpu_arrays.is_captured, "read_here": gpu_arrays.read_here}
            self._write("if is_captured():", "    raise NotRepeatableError")
        if constants:
            self._write(f"read_here({_listed('a', constants)})")

    def _empty(self, template: Any) -> str:
        """A new array like a template."""
        if self.captured.empty.strided is None:
            return f"empty_like({self._named(template)})"
        described = tuple(template.shape), template.stride(), template.dtype
        return f"empty_strided({', '.join(map(self._named, described))})"

    def _checks(self) -> None:
        """No arguments share memory that may not, and all code is what such calls run now."""
        for (one, start), (other, end), low, high in (pair for step in self.captured.steps for pair in step.pairs):
            distance = f"p{other} - p{one} + {self._named(end - start)}"
            self._write(f"if {self._named(low)} < {distance} < {self._named(high)}:", "    raise NotRepeatableError")
        for step in self.captured.steps:
            if step.prepared is not None:
                entry, prepared = self._named(step.entry), self._named(step.prepared)
                self._write(f"if {entry}.distinct is not {prepared}:", "    raise OutOfDateError")

    def _call(self, step: Step) -> None:
        addresses = [
            f"p{number} + {self._named(offset)}" if offset else f"p{number}" for number, offset in step.sources
        ]
        live = dict(step.live)
        scalars = [
            self._names[live[at]] if at in live else self._named(scalar) for at, scalar in enumerate(step.scalars)
        ]
        slowly = (
            "try:", f"    {self._named(step.prepared.run)}([{', '.join(addresses)}], [{', '.join(scalars)}])",
            "except OutOfMemoryError:", "    raise OutOfDateError from None",
        )  # fmt: skip
        if (functions := getattr(step.prepared, "ready", None)) is None:
            self._write(*slowly)
        else:
            ready = self._named(functions)
            self._write(
                "try:", f"    run = {ready}.pop()", "except IndexError:", *(f"    {line}" for line in slowly), "else:",
                f"    run({', '.join((*addresses, *scalars))})", f"    {ready}.append(run)",
            )  # fmt: skip
        self._write(f"{self._named(step.entry.counters)}.calls += 1")

    def _compute(self, step: Step) -> None:
        arrays = ", ".join(f"a{number}" for number, _ in step.sources)
        self._write(f"a{step.made} = {self._named(step.compute)}({arrays})", f"p{step.made} = a{step.made}.data_ptr()")

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


def _kept(numbers: Sequence[int]) -> str:
    """Temporary arrays and their addresses."""
    return ", ".join(f"a{number}, p{number}" for number in numbers)


@lru_cache(maxsize=512)
def _compiled(text: str) -> CodeType:
    return compile(text, __file__, "exec")
