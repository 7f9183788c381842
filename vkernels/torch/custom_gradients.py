"""Gradients that authors give for their own operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from .define_operation import OperationDefinition
from .registering import Context


@dataclass(frozen=True)
class AuthorsGradient:
    """An author's gradient: what it is given of a call, by name, and how."""

    made: OperationDefinition
    function: Callable[..., Any]

    def __post_init__(self) -> None:
        written, _ = self.made.access
        changed = [argument.name for argument in self.made.arguments if argument.name in written]
        if changed:
            raise self.made.mistake(f"it changes `{changed[0]}`, so it cannot have a gradient: backward=")
        known = [each.name for each in (*self.made.arguments, *self.made.results)]
        for name in self.names:
            if name not in known:
                raise self.made.mistake(f"backward asks for `{name}`, expected one of {', '.join(known)}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What is kept for it: its parameters behind those for each result's gradient."""
        return tuple(inspect.signature(self.function).parameters)[len(self.made.results) :]

    def keep(self, ctx: Context, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        values = {
            **{each.name: value for each, value in zip(self.made.arguments, inputs, strict=True)},
            **{each.name: value for each, value in zip(self.made.results, results, strict=True)},
        }
        kept = [values[name] for name in self.names]
        ctx.others = [None if isinstance(value, torch.Tensor) else value for value in kept]
        ctx.save_for_backward(*[value if isinstance(value, torch.Tensor) else None for value in kept])

    def backward(self, ctx: Context, *grads: Any) -> tuple[Any, ...]:
        kept = [other if saved is None else saved for saved, other in zip(ctx.saved_tensors, ctx.others, strict=True)]
        found = self.function(*grads, *kept)
        gradients = iter(found if isinstance(found, tuple | list) else (found,))
        given = [next(gradients, ...) if each.kind == "tensor" else None for each in self.made.arguments]
        if ... in given or next(gradients, ...) is not ...:
            number = sum(each.kind == "tensor" for each in self.made.arguments)
            raise self.made.mistake(f"backward returns other than {number} gradients, one for each tensor argument")
        return tuple(given)
