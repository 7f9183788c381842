"""Running a case: what it gives is compared with what must come of it, and memory with what it was."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import vkernels as vk
from vkernels import library

from .case import Case, Outcome, Starts, Whole
from .formats import FORMATS, Array, Format
from .memory import Held, Put, as_numbers, dtype_name, stored_shape
from .numbers import Number
from .subject import Between, Expected, Results, Subject
from .values import contents, index_is_right, starts_are_right


def public_functions() -> dict[str, Callable[..., Any]]:
    """The library's functions by name, their gradients, and what stands beside them for those."""
    found: dict[str, Callable[..., Any]] = {}
    for module in pkgutil.iter_modules(library.__path__, f"{library.__name__}."):
        functions = inspect.getmembers(importlib.import_module(module.name), inspect.isfunction)
        found |= {name: function for name, function in functions if function.__module__ == module.name}
    given = set(library.__all__)
    ends = ("", "_backward", "_forward", "_parts")
    return {
        name: function
        for name, function in found.items()
        if any(name.endswith(end) and name[: len(name) - len(end)] in given for end in ends)
    }


def run_case(case: Case, subject: Subject, function: Callable[..., Any], put: Put | None = None) -> Outcome:
    """What comes of a case. `put`: copies tensors to the device that runs it; the CPU does without it."""
    try:
        return _run(case, subject, function, put)
    except Exception:
        return Outcome("untested", message=traceback.format_exc(limit=-4))


def _run(case: Case, subject: Subject, function: Callable[..., Any], put: Put | None) -> Outcome:
    random = np.random.default_rng(case.seed)
    held = _arguments(case, subject, random)
    given = {name: _as_given(each, case) for name, each in held.items() if each.argument.role != "out"}
    right = _is_right(case, subject, given)
    if put is not None:
        for each in held.values():
            each.move(put)
    arrays = {name: each.array for name, each in held.items()}
    open_ = case.fault in ("shape", "dtype")
    if open_:
        arrays |= _another_argument(case, held, random)
    has_out = any(each.name == "out" and each.role == "out" for each in case.arguments)
    if case.alias:
        arrays["out"] = held[case.alias].shifted(case.overlap)
    right = right and case.fault != "option"
    if case.fault == "out shape":
        arrays["out"], right = _of_another_shape(held["out"].array, random), False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = function(**arrays, **dict(case.options))
    except vk.Error as error:
        for each in held.values():
            each.fetch()
        return _refused(
            right and not open_ and (not case.alias or (subject.in_place and not case.overlap)), held, str(error)
        )
    except Exception as error:
        return Outcome("raised", message=f"{type(error).__name__}: {error}")
    for each in held.values():
        each.fetch()
    if not right:
        return Outcome("accepted although wrong", message=case.fault)
    written = {case.alias, *(name for name, each in held.items() if each.argument.role != "in")}
    written -= {"out"} if case.alias else set()
    if spilled := _spilled(held, written, case):
        return Outcome("spilled", message=spilled)
    if open_:
        return Outcome("right")
    if has_out and _first(results) is not arrays["out"]:
        return Outcome("wrong", float("inf"), "the result is not out")
    with np.errstate(all="ignore"):
        dtypes = {each.name: each.dtype for each in case.arguments}
        expected = subject.expect(_Missing({**given, "dtype of": dtypes}), dict(case.options))
    found = _flat(results) if not any(a.role == "inout" for a in case.arguments) else [
        held[a.name].array for a in case.arguments if a.role == "inout"
    ]  # fmt: skip
    return compare(found, expected, case.library)


class _Missing(dict[str, Any]):
    """None for arguments that there are not."""

    def __missing__(self, name: str) -> None:
        return None


def _arguments(case: Case, subject: Subject, random: np.random.Generator) -> dict[str, Held]:
    drawn: dict[str, Array] = {}
    for argument in case.arguments:
        if argument.role == "out":
            continue
        wrong = (case.fault == "index" and isinstance(argument.content, Whole)) or (
            case.fault == "start" and isinstance(argument.content, Starts)
        )
        drawn[argument.name] = contents(argument, stored_shape(argument), case.values, wrong, random)
    if case.fault != "option":
        with np.errstate(all="ignore"):
            subject.prepare(drawn, dict(case.options), random)
    return {each.name: Held(each, case.library, drawn.get(each.name), random) for each in case.arguments}


def _as_given(held: Held, case: Case) -> Any:
    numbers = held.numbers()
    if held.argument.dtype not in FORMATS:
        return numbers
    floats = [each.dtype for each in case.arguments if each.dtype in FORMATS]
    return Number(numbers, FORMATS["float64" if "float64" in floats else "float32"])


def _is_right(case: Case, subject: Subject, given: Mapping[str, Any]) -> bool:
    for argument in case.arguments:
        content = argument.content
        if argument.role == "out" or not subject.indexed:
            continue
        if (
            isinstance(content, Whole)
            and content.high is not None
            and not index_is_right(content, given[argument.name])
        ):
            return False
        if isinstance(content, Starts) and not starts_are_right(given[argument.name], content.most, content.full):
            return False
    return True


def _of_another_shape(out: Any, random: np.random.Generator, zeros: bool = False) -> Any:
    """The same number of elements, or nearly, in other dimensions. `zeros`: so that integers are indices."""
    shape = tuple(out.shape)
    number = int(np.prod(shape))
    choices = [(number + 1,), (*shape, 1), (1, *shape), (*shape[:-1], shape[-1] + 1) if shape else (2,)]
    if len(shape) > 1:
        choices += [(number,), (*shape[2:], shape[0] * shape[1]), (shape[1], shape[0], *shape[2:])]
    choices = [each for each in [*choices, ()] if each != shape]
    chosen = choices[int(random.integers(len(choices)))]
    if zeros:
        return np.zeros(chosen, out.dtype) if isinstance(out, np.ndarray) else out.new_zeros(chosen)
    return np.empty(chosen, out.dtype) if isinstance(out, np.ndarray) else out.new_empty(chosen)


def _another_argument(case: Case, held: Mapping[str, Held], random: np.random.Generator) -> dict[str, Any]:
    """An argument of another shape or dtype, that may or may not do: nothing but a `vk.Error` may come of it."""
    names = [each.name for each in case.arguments if each.role == "in"]
    name = names[int(random.integers(len(names)))]
    array = held[name].array
    if case.fault == "shape":
        return {name: _of_another_shape(array, random, zeros=True)}
    wanted = ("int32", "bool", "float16", "float64", "complex64", "int64", "float32")
    chosen = wanted[int(random.integers(len(wanted)))]
    if isinstance(array, np.ndarray):
        return {name: np.zeros(array.shape, chosen)}
    import torch

    return {name: array.new_zeros(tuple(array.shape), dtype=getattr(torch, chosen))}


def _refused(right: bool, held: Mapping[str, Held], message: str) -> Outcome:
    changed = [name for name, each in held.items() if each.argument.role != "out" and not each.is_unchanged()]
    if changed:
        return Outcome("spilled", message=f"refused, but {changed[0]} was changed")
    return Outcome("refused although right", message=message) if right else Outcome("refused")


def _spilled(held: Mapping[str, Held], written: set[str], case: Case) -> str:
    for name, each in held.items():
        if name == case.alias and case.overlap:
            continue  # results lie beside its elements
        if name in written:
            if not each.is_unchanged_around():
                return f"memory around {name} was written"
        elif not each.is_unchanged():
            return f"{name} was changed"
    return ""


def _flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


def _first(results: Any) -> Any:
    return _flat(results)[0]


def compare(found: list[Any], expected: Results, library_: str) -> Outcome:
    """The worst of all results, the first that is wrong."""
    if len(found) != len(expected):
        return Outcome("wrong", float("inf"), f"{len(found)} results, expected {len(expected)}")
    worst, floats, loose = 0.0, 0, 0
    for number, (actual, wanted) in enumerate(zip(found, expected, strict=True)):
        if (actual is None) != (wanted is None):
            return Outcome("wrong", float("inf"), f"result {number} is {actual}, expected {wanted}")
        if wanted is None:
            continue
        error, message = _compare_one(actual, wanted, library_)
        worst = max(worst, error)
        if message:
            return Outcome("wrong", error, f"result {number}: {message}")
        if isinstance(wanted, Expected) and isinstance(wanted.value, Number):
            floats, loose = floats + wanted.value.loose.size, loose + int(wanted.value.loose.sum())
    return Outcome("right", worst, loose=loose / max(1, floats))


def _compare_one(actual: Any, wanted: Expected | Between, library_: str) -> tuple[float, str]:
    inf = float("inf")
    if isinstance(actual, np.ndarray | np.generic) != (library_ == "numpy"):
        return inf, f"is a {type(actual).__name__}, given {library_}"
    if dtype_name(actual) != wanted.dtype:
        return inf, f"is of {dtype_name(actual)}, expected {wanted.dtype}"
    shape = wanted.low.shape if isinstance(wanted, Between) else wanted.value.shape
    if tuple(actual.shape) != tuple(shape):
        return inf, f"has shape {tuple(actual.shape)}, expected {tuple(shape)}"
    numbers = as_numbers(np.asarray(actual) if isinstance(actual, np.generic) else actual)
    if isinstance(wanted, Between):
        wrong = (numbers < wanted.low) | (numbers > wanted.high)
        return (inf, _where(wrong, numbers, wanted.low, wanted.high)) if wrong.any() else (0.0, "")
    if isinstance(wanted.value, Number):
        return _compare_floats(numbers, wanted.value, FORMATS[wanted.dtype])
    wrong = numbers != wanted.value
    return (inf, _where(wrong, numbers, wanted.value, 0)) if wrong.any() else (0.0, "")


def _compare_floats(actual: Array, wanted: Number, format: Format) -> tuple[float, str]:
    value, error = wanted.value, wanted.error
    with np.errstate(all="ignore"):
        magnitude = np.abs(value)
        allowed = error + format.unit * (magnitude + error) + format.least
        edge = format.largest * (1 + format.unit / (2 - 2 * format.unit))  # half a unit beyond the largest
        may_overflow = magnitude + error >= edge * (1 - 2.0**-50)
        must_overflow = magnitude - error > edge * (1 + 2.0**-50)
        infinite = np.isinf(actual) & ((np.sign(actual) == np.sign(value)) | (error >= magnitude))
        near = np.abs(actual - value) <= allowed
        right = np.where(must_overflow, infinite, near | may_overflow & infinite)
        right = np.where(np.isnan(value), np.isnan(actual), np.where(np.isinf(value), actual == value, right))
        right = right | wanted.loose
        counted = np.isfinite(value) & np.isfinite(actual) & ~wanted.loose & ~must_overflow
        units = np.where(counted, np.abs(actual - value) / allowed, np.where(right, 0, np.inf))
    worst = float(units.max(initial=0))
    if right.all():
        return worst, ""
    return worst, _where(~right, actual, value, allowed)


def _where(wrong: Array, actual: Array, value: Array, allowed: Any) -> str:
    first = tuple(int(each) for each in np.argwhere(wrong)[0])
    got, want, room = (np.broadcast_to(np.asarray(each), wrong.shape)[first] for each in (actual, value, allowed))
    return f"{int(wrong.sum())} of {wrong.size} elements; at {first} {got!r}, expected {want!r} ± {room!r}"
