"""Landmarks of a call: the modules that it calls and the steps of optimisers, which are cheap to observe.

Calls that pass the same landmarks, with the same shapes and as many nodes of autograd between them, run the same
operations as far as can be seen without looking at each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from threading import get_ident, local
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .followed_functions import Stretch, common_stretches

Landmark = tuple[Any, ...]
"""A module that is called, or an optimiser that makes a step: its identity (0 where each call makes another), its type,
nodes of autograd since the call began, whether it is trained and its number of hooks, or how many groups of parameters
and how many states an optimiser has, whether gradients are recorded, and for each of its arguments shape, type and
whether it needs a gradient."""
nodes_of_autograd: Callable[[], int] = torch._C._autograd._get_sequence_nr
"""The number of nodes that this thread has made."""
BEFORE_SHAPES = 8
"""Nodes of autograd that a call may make before it shows shapes."""


@dataclass(frozen=True)
class Passage:
    """A call: its arguments, the landmarks it passes, and the bytes on the device at each. `nodes`: of all of it.

    `moved`: whether tensors moved. `kept`: bytes on the device after it, of which `held` are results of earlier calls.
    `most`: bytes that torch allocated at once, above those before it; 0 where the device does not count them.
    `stretches`: of functions, one more than landmarks; none where the device counts.
    """

    arguments: tuple[Any, ...]
    landmarks: tuple[Landmark, ...]
    live: tuple[int, ...]
    nodes: int
    moved: bool
    kept: int
    held: int = 0
    most: int = 0
    stretches: tuple[Stretch, ...] = ()

    @property
    def own(self) -> int:
        """Bytes on the device after it, without results of earlier calls."""
        return self.kept - self.held


class OptimiserSteps(local):
    """What each thread calls before and after a step of an optimiser. Two hooks of torch are for all, and stay: another
    thread may be about to call them, which fails if hooks are added or removed meanwhile."""

    has_hook = False

    def __init__(self) -> None:
        self.notes: list[tuple[Callable[[Any], None], Callable[[], None]]] = []

    @contextmanager
    def noting(self, before: Callable[[Any], None], after: Callable[[], None]) -> Iterator[None]:
        if not OptimiserSteps.has_hook:
            OptimiserSteps.has_hook = True
            register_optimizer_step_pre_hook(lambda optimiser, args, kwargs: self.before(optimiser))
            register_optimizer_step_post_hook(lambda optimiser, args, kwargs: self.after())
        self.notes.append((before, after))
        try:
            yield
        finally:
            self.notes.remove((before, after))

    def before(self, optimiser: Any) -> None:
        for note, _ in self.notes:
            note(optimiser)

    def after(self) -> None:
        for _, note in self.notes:
            note()


_steps = OptimiserSteps()


@contextmanager
def passing(
    note: Callable[[Landmark, Any], None], resume: Callable[[], None] = lambda: None,
    entering: Callable[[torch.nn.Module], None] | None = None,
) -> Iterator[None]:  # fmt: skip
    """Call `note` with each landmark that this thread passes, and its arguments; `entering` before, with a module;
    `resume` after an optimiser's step."""
    me, first = get_ident(), nodes_of_autograd()
    nodes, gradients, shape, tensor = nodes_of_autograd, torch.is_grad_enabled, _shape, torch.Tensor
    transforms, is_traced = torch._C._functorch.peek_interpreter_stack, torch.compiler.is_dynamo_compiling

    modes, without_modes = torch._C._len_torch_function_stack, torch._C.DisableTorchFunction

    def described(args: tuple[Any, ...]) -> list[Any]:
        if transforms() is None:
            return [
                (each.shape, each.dtype, each.requires_grad) if isinstance(each, tensor) else shape(each)
                for each in args
            ]
        return [shape(_untransformed(each)) for each in args]

    def on_module(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if is_traced() or get_ident() != me:
            return
        if entering is not None:
            entering(module)
        if modes():  # of functions: they see attributes, too
            with without_modes():
                found = described(args)
        else:
            found = described(args)
        kind = module.training, len(module._forward_hooks)
        note((id(module), type(module), nodes() - first, kind, gradients(), *found), args)

    def on_optimiser(optimiser: Any) -> None:
        kind = len(optimiser.param_groups), len(optimiser.state)
        note((id(optimiser), type(optimiser), nodes() - first, kind, gradients()), ())

    hook = register_module_forward_pre_hook(on_module)
    try:
        with _steps.noting(on_optimiser, resume):
            yield
    finally:
        hook.remove()


def arguments_of(args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Describe a call's arguments: tensors by their shapes, numbers and texts by their values, others by type."""
    found: list[Any] = []
    _describe(args, found)
    _describe(kwargs, found)
    return tuple(found)


def alike(one: Passage, other: Passage) -> Passage | None:
    """Return what two calls have in common, if they pass the same landmarks; numbers that differ may be any. What moved
    is of the second: in the first, tensors may have come back that calls before had moved."""
    if len(one.arguments) != len(other.arguments) or len(one.landmarks) != len(other.landmarks):
        return None
    arguments = tuple(map(_common, one.arguments, other.arguments))
    landmarks = tuple(map(_either, one.landmarks, other.landmarks))
    if not agree(arguments, one.arguments) or not agree(arguments, other.arguments):
        return None
    stretches = common_stretches(one.stretches, other.stretches)
    if one.nodes != other.nodes or not all(map(is_at, landmarks, other.landmarks)) or stretches is None:
        return None
    return replace(other, arguments=arguments, landmarks=landmarks, stretches=stretches)


def agree(expected: Sequence[Any], found: Sequence[Any]) -> bool:
    """Whether arguments are as expected."""
    return len(expected) == len(found) and all(map(_agrees, expected, found))


def is_at(expected: Landmark, found: Landmark) -> bool:
    """Whether a landmark is the expected one."""
    return expected == found or (not expected[0] and expected[1:] == found[1:])


def shows_shapes(passage: Passage) -> bool:
    """Whether a call's arguments have tensors, or the first modules that it calls: other sizes are noticed there."""
    shown = [landmark[2] for landmark in passage.landmarks if any(map(_has_shape, landmark[5:]))]
    return any(map(_has_shape, passage.arguments)) or bool(shown and shown[0] <= BEFORE_SHAPES)


@cache
def is_optimiser(kind: type) -> bool:
    """Whether landmarks of a type are steps of an optimiser."""
    return issubclass(kind, torch.optim.Optimizer)


def name_of(landmark: Landmark) -> str:
    """The type of a landmark."""
    return str(landmark[1].__name__)


def _untransformed(value: Any) -> Any:
    """A tensor with the dimensions that transforms such as `vmap` hide."""
    while isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value):
        value = torch._C._functorch.get_unwrapped(value)
    return value


def _has_shape(described: Any) -> bool:
    return isinstance(described, tuple) and any(isinstance(each, torch.Size) or _has_shape(each) for each in described)


def _either(one: Landmark, other: Landmark) -> Landmark:
    return one if one[0] == other[0] else (0, *one[1:])


def _common(one: Any, other: Any) -> Any:
    are_numbers = type(one) is type(other) and isinstance(one, int | float) and not isinstance(one, bool)
    return one if one == other or not are_numbers else type(one)


def _agrees(expected: Any, found: Any) -> bool:
    return bool(expected == found or expected is type(found))


def _shape(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.requires_grad
    if isinstance(value, tuple | list):
        return tuple(map(_shape, value))
    return value if value is None or isinstance(value, bool | str) else type(value)


def _describe(value: Any, found: list[Any]) -> None:
    if isinstance(value, tuple | list):
        found.append((type(value), len(value)))
        for each in value:
            _describe(each, found)
    elif isinstance(value, dict):
        found.append((type(value), *value))
        for each in value.values():
            _describe(each, found)
    else:
        found.append(value if isinstance(value, int | float) else _shape(value))
