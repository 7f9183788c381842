"""Check the arguments of library functions against their annotations before they run.

Tensors: type, dtype, rank, sizes, device and memory; written tensors must be writable and must not overlap. Numbers
must be finite and in range. Calls that `replay` repeats are checked when they are recorded. Other calls of a kind that
was checked before cost a key and a check of their memory.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from vkernels.compiler.arguments import ArrayView
from vkernels.ir.errors import ArgumentError, TypeMismatchError
from vkernels.runtime.aliasing import overlaps_itself, share_memory
from vkernels.runtime.arrays import adopted, is_foreign, is_torch, kind_of, view_of

from .annotations import Activation, AtLeastOne, NotNegative, NumberRange, OneOf, Result, Share, Size, Updated
from .replay import replayed
from .rules import MismatchError, Rules, Sizes, TensorRule, is_tensor, rules_of

__all__ = [
    "Activation", "AtLeastOne", "NotNegative", "NumberRange", "OneOf", "Result", "Share", "Size", "Updated", "checked",
    "numbers_checked", "replayed",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

REMEMBERED = 256
"""Checked kinds of calls that are kept per function."""

LATE = ("grad",)
"""Arguments whose shapes follow those of others: on a mismatch, messages name these, as they name written ones."""

_PLAIN = frozenset((bool, int, float, str, type(None)))
_modules = sys.modules


def checked(function: F) -> F:
    """Check the arguments of a library function. Messages omit a leading underscore of its name."""
    declaration = Declaration(function)
    known: dict[Any, tuple[tuple[int, int, int], ...]] = {}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values()) if kwargs else args
        key = key_of(values, kwargs)
        if key is None and any(map(is_foreign, values)):
            return call(*map(adopted, args), **{name: adopted(value) for name, value in kwargs.items()})
        extents = None if key is None else known.get(key)
        if extents is None or not _have_memory(values, extents):
            args, kwargs = declaration.check(args, kwargs), {}
            if key is not None and declaration.is_one_written:
                if len(known) >= REMEMBERED:
                    known.clear()
                known[key] = _extents(values)
        try:
            return function(*args, **kwargs)
        except TypeMismatchError as error:  # of a kernel, whose dtypes are those of the arguments
            raise declaration.mixed_dtypes(args, kwargs, error) from None

    call.declaration = declaration  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def numbers_checked(function: F) -> F:
    """Check the numbers of a library function that passes its tensors to another `checked` function."""
    declaration = Declaration(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tail = None if kwargs else declaration.tails.get(len(args))
        if tail is not None and declaration.is_plain(values := (*args, *tail)):
            return function(*values)
        return function(*declaration.check_numbers(args, kwargs))

    call.declaration = declaration  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


@dataclass(frozen=True)
class _Tensor:
    name: str
    value: Any
    rule: TensorRule
    view: ArrayView


class Declaration:
    """A function's parameters as its annotations declare them."""

    def __init__(self, function: Callable[..., Any]):
        self.function, self.name = function, function.__name__.lstrip("_")

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The default of each parameter; `inspect.Parameter.empty` if it has none."""
        return {name: each.default for name, each in inspect.signature(self.function).parameters.items()}

    @cached_property
    def rules(self) -> dict[str, Rules]:
        """The rules of each parameter."""
        annotations = inspect.get_annotations(self.function, eval_str=True)
        return {name: rules_of(annotations[name]) for name in self.defaults}

    @cached_property
    def is_one_written(self) -> bool:
        """Whether at most one tensor is written, so that addresses need no check."""
        return sum(any(rule.written for rule in rules.tensors) for rules in self.rules.values()) <= 1

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The checked value of every parameter, in order. Raises `ArgumentError`."""
        values, tensors = self._bound(args, kwargs), []
        for name, value in values.items():
            rules = self.rules[name]
            try:
                values[name] = rules.accept(value)
            except MismatchError:
                if not rules.tensors or not is_tensor(value):
                    raise self._mistake(f"{name} is {_shown(value)}, expected {rules.expected}") from None
                tensors.append(self._tensor(name, value, rules))
        self._check_places(tensors)
        self._check_sizes(values, tensors)
        self._check_written(tensors)
        return tuple(values.values())

    @cached_property
    def numbers(self) -> tuple[tuple[int, str, Rules], ...]:
        """Position, name and rules of each parameter that takes no tensor."""
        rules = enumerate(self.rules.items())
        return tuple((position, name, rule) for position, (name, rule) in rules if not rule.tensors)

    @cached_property
    def tails(self) -> dict[int, tuple[Any, ...]]:
        """The defaults to append, by number of given arguments; numbers that are too small or too large are missing."""
        defaults = tuple(self.defaults.values())
        tails = {count: defaults[count:] for count in range(len(defaults) + 1)}
        return {count: tail for count, tail in tails.items() if inspect.Parameter.empty not in tail}

    @cached_property
    def plain(self) -> tuple[tuple[int, Any, Any, float, float], ...]:
        """Position and default of each number, and the type and range that need no further check."""
        return tuple(
            (position, self.defaults[name], *(rules.plain or (None, 0.0, 0.0)))
            for position, name, rules in self.numbers
        )

    def is_plain(self, values: Sequence[Any]) -> bool:
        """Whether numbers pass the quick check."""
        for position, default, kind, low, high in self.plain:
            value = values[position]
            if value is not default and (type(value) is not kind or not low <= value <= high):
                return False
        return True

    def check_numbers(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """As `check`, for arguments that are no tensors."""
        values = list(self._bound(args, kwargs).values())
        for position, name, rules in self.numbers:
            try:
                values[position] = rules.accept(values[position])
            except MismatchError:
                shown = _shown(values[position])
                raise self._mistake(f"{name} is {shown}, expected {rules.expected}") from None
        return values

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = list(self.defaults)
        if len(args) > len(names):
            raise self._mistake(f"it has {len(args)} arguments, expected at most {len(names)}: {', '.join(names)}")
        given = dict(zip(names, args, strict=False))
        for name in kwargs:
            if name not in self.defaults:
                raise self._mistake(f"it has no argument `{name}`, expected one of {', '.join(names)}")
            if name in given:
                raise self._mistake(f"{name} is given twice, expected once")
        values = {**self.defaults, **given, **kwargs}
        for name, value in values.items():
            if value is inspect.Parameter.empty:
                raise self._mistake(f"{name} is missing, expected {self.rules[name].expected}")
        return values

    def _tensor(self, name: str, value: Any, rules: Rules) -> _Tensor:
        view = view_of(value, f"{self.name}: {name}")
        fitting = [rule for rule in rules.tensors if rule.shape.takes(len(view.shape))]
        if not fitting:
            expected = " or ".join(rule.shape.dimensions for rule in rules.tensors)
            raise self._mistake(f"{name} has shape {view.shape}, expected {expected}")
        for rule in fitting:
            if view.dtype in rule.dtypes:
                return _Tensor(name, value, rule, view)
        expected = ", ".join(dtype for rule in fitting for dtype in rule.dtypes)
        raise self._mistake(f"{name} has dtype {view.dtype}, expected dtype one of {expected}")

    def _check_places(self, tensors: Sequence[_Tensor]) -> None:
        for each in tensors[1:]:
            first = tensors[0]
            if is_torch(each.value) != is_torch(first.value):
                kinds = {True: "a torch tensor", False: "a NumPy array"}
                found, expected = kinds[is_torch(each.value)], kinds[is_torch(first.value)]
                raise self._mistake(f"{each.name} is {found}, expected {expected}, as {first.name}")
            if each.view.device != first.view.device:
                raise self._mistake(
                    f"{each.name} is on device {each.view.device}, expected {first.view.device}, as {first.name}"
                )

    def _check_sizes(self, values: Mapping[str, Any], tensors: Sequence[_Tensor]) -> None:
        sizes = Sizes({name: value for name, value in values.items() if type(value) is int})
        order = sorted(tensors, key=lambda each: (each.rule.written is not None) * 2 + (each.name in LATE))
        for each in (*order, *order):  # twice: later tensors may determine sizes of earlier ones
            if not sizes.bind(each.rule.shape, each.view.shape):
                expected = sizes.expected(each.rule.shape)
                raise self._mistake(f"{each.name} has shape {each.view.shape}, expected {expected}")

    def _check_written(self, tensors: Sequence[_Tensor]) -> None:
        dtypes = {each.name: each.view.dtype for each in tensors}
        written = [(each, each.rule.written) for each in tensors if each.rule.written is not None]
        for each, declared in written:
            name, view = each.name, each.view
            if view.dtype != dtypes.get(declared.like, view.dtype):
                raise self._mistake(
                    f"{name} has dtype {view.dtype}, expected {dtypes[declared.like]}, as {declared.like}"
                )
            if not view.writable:
                kind = "requires grad" if is_torch(each.value) else "is read-only"
                raise self._mistake(f"{name} {kind}, expected memory that may be written")
            if overlaps_itself(view):
                raise self._mistake(
                    f"{name} has shape {view.shape} with strides {view.strides}"
                    ", expected elements at distinct addresses"
                )
        for (one, _), (other, _) in combinations(written, 2):
            if share_memory(one.view, other.view):
                raise self._mistake(f"{other.name} shares memory with {one.name}, expected memory of its own")

    def mixed_dtypes(self, args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeMismatchError) -> ArgumentError:
        """The error for tensors of dtypes that a kernel does not compute together."""
        tensors = {name: each for name, each in self._bound(args, kwargs).items() if is_tensor(each)}
        dtypes = [f"{name} has {str(each.dtype).removeprefix('torch.')}" for name, each in tensors.items()]
        return self._mistake(f"these dtypes do not go together: {', '.join(dtypes)}; {error.message}")

    def _mistake(self, text: str) -> ArgumentError:
        return ArgumentError(f"{self.name}: {text}")


def key_of(values: Sequence[Any], names: Iterable[str]) -> Any:
    """The key of a kind of call; None for unusual values, which are checked at every call."""
    torch = _modules.get("torch")
    tensor, parameter = (None, None) if torch is None else (torch.Tensor, torch.nn.Parameter)
    key: Any = tuple(names)
    try:
        for value in values:
            kind = type(value)
            if kind is tensor or kind is parameter:
                where = None if value.is_cpu else value.device
                tracked = value.requires_grad and torch.is_grad_enabled()  # type: ignore[union-attr]
                key = key, value.dtype, value.shape, value.stride(), where, tracked
            elif kind is np.ndarray:
                key = key, value.dtype, value.shape, value.strides, value.flags.writeable
            elif kind in _PLAIN:
                key = key, kind, value
            else:
                return None
    except RuntimeError:  # torch's, for tensors without strides
        return None
    return key


def _extents(values: Sequence[Any]) -> tuple[tuple[int, int, int], ...]:
    """Position, span and element size, in bytes, of each torch tensor with elements."""
    found = []
    for position, value in enumerate(values):
        if is_torch(value) and 0 not in value.shape:
            last = sum((length - 1) * stride for length, stride in zip(value.shape, value.stride(), strict=True))
            found.append((position, (last + 1) * value.itemsize, value.itemsize))
    return tuple(found)


def _have_memory(values: Sequence[Any], extents: Iterable[tuple[int, int, int]]) -> bool:
    """Whether tensors of a checked kind have plain memory, as the checked ones had."""
    try:
        for position, needed, itemsize in extents:
            tensor = values[position]
            left = len(tensor.untyped_storage()) - tensor.storage_offset() * itemsize
            if left < needed or not tensor.data_ptr() or tensor.is_neg():
                return False
    except RuntimeError:  # torch's, for tensors without memory
        return False
    return True


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool | str | float):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:60]}…"
    if isinstance(value, int):
        return str(value) if value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"
    return kind_of(value)
