"""A right call of every public function of the library, made of what the function declares."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import torch

from vkernels import library
from vkernels.library.declared import Declaration
from vkernels.library.rules import DeclaredShape, Rules, Sizes

SIDE = 4
"""Every size that is not said below."""

SIZES = {"conv2d_backward": {"Y": 1, "X": 1}, "conv2d": {"Y": 1, "X": 1}}
"""Sizes that follow from others by more than sums and products."""

NUMBERS: dict[str, Any] = {
    "probability": 0.5, "seed": 7, "step": 1, "k": 2, "bins": 3, "low": 0.0, "high": 1.0, "degree": 2, "groups": 1,
    "elements": SIDE, "rows": SIDE, "columns": SIDE, "activation": "relu", "ignored": -100, "smoothing": 0.1,
    "reduction": "none", "checked": True,
}  # fmt: skip
"""Numbers that must be given."""

Function = Callable[..., Any]


def public() -> dict[str, Function]:
    """Functions that the library gives, and those that stand beside them in its modules: each that is declared."""
    found = {name: getattr(library, name) for name in library.__all__}
    for module in pkgutil.iter_modules(library.__path__, "vkernels.library."):
        for name, value in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            if value.__module__ == module.name and hasattr(value, "declaration") and not name.startswith("_"):
                found[name] = value
    return found


@dataclass(frozen=True)
class Parameter:
    """One parameter: what it may be, and the shape of its sample; None where it is no tensor."""

    name: str
    rules: Rules
    shape: tuple[int, ...] | None
    dtype: torch.dtype

    @property
    def is_written(self) -> bool:
        return any(rule.written for rule in self.rules.tensors)

    @property
    def is_index(self) -> bool:
        return self.dtype == torch.int64 and self.shape is not None


def declaration_of(function: Function) -> Declaration:
    return function.declaration  # type: ignore[attr-defined, no-any-return]


def parameters_of(name: str, function: Function) -> list[Parameter]:
    """A function's parameters, with one choice of sizes."""
    found = []
    for parameter, rules in declaration_of(function).rules.items():
        shape, dtype = None, torch.float32
        if rules.tensors:
            shape = shape_of(name, rules.tensors[-1].shape)  # of several the last: as many dimensions as there can be
            is_float = any("float32" in rule.dtypes for rule in rules.tensors)
            dtype = torch.float32 if is_float else torch.int64
        found.append(Parameter(parameter, rules, shape, dtype))
    return found


def shape_of(name: str, declared: DeclaredShape) -> tuple[int, ...]:
    text = declared.text.replace("*B ", "B ").replace("*S", "S T")
    names = {each: SIZES.get(name, {}).get(each, SIDE) for each in ascii_uppercase}
    found = Sizes({**names, "elements": SIDE}).shape(DeclaredShape.of(text))
    assert found is not None, f"{name}: {declared.text}"
    return found


def sample(parameter: Parameter, numpy: bool = False) -> Any:
    """A right value, with fresh numbers in tensors."""
    if parameter.shape is None:
        return NUMBERS.get(parameter.name)
    if parameter.is_index:
        is_start = "+" in parameter.rules.tensors[-1].shape.text
        value = torch.arange(parameter.shape[0]) if is_start else torch.zeros(parameter.shape, dtype=torch.int64)
    else:
        value = torch.rand(parameter.shape)
    return value.numpy() if numpy else value


def right_call(name: str, function: Function, numpy: bool = False) -> dict[str, Any]:
    """Arguments by name, without those that have a default and are no tensors that must be given."""
    given = {}
    for parameter in parameters_of(name, function):
        has_default = declaration_of(function).defaults[parameter.name] is not inspect.Parameter.empty
        if not has_default or parameter.name in ("reduction", "activation"):
            given[parameter.name] = sample(parameter, numpy)
    return given
