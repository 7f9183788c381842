"""Register operations with torch: implementations, fake results, gradients, and what CUDA graphs cannot capture.

Of the ways that torch documents, this one costs least per call: `Library` with `register_autograd` adds 6 µs to a call
and 20 µs to a call with its gradient, `custom_op` 9 µs and 35 µs (log-softmax of 8 × 16, one core, torch 2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.library import Library, register_autograd, register_fake

from vkernels.ir.errors import ArgumentError, UnsupportedError
from vkernels.library.arrays import is_captured


def is_capturing(x: torch.Tensor) -> bool:
    """Whether work with a tensor is captured into a CUDA graph."""
    return is_captured(x.device)


def refuse(function: str, x: torch.Tensor, why: str) -> None:
    """Raise `ArgumentError` for work that cannot be captured."""
    if is_capturing(x):
        raise ArgumentError(f"{function}: {why}, which cannot be done while a CUDA graph is captured")


def with_checks_refused(function: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """A library function whose last argument is `checked`: refuses to read indices while a graph is captured.

    `name`: the function's name in messages.
    """

    @wraps(function)
    def run(*arguments: Any) -> Any:
        *others, checked = arguments
        if checked and is_capturing(others[0]):
            raise ArgumentError(
                f"{name or function.__name__}: checked=True reads indices, which cannot be done while a CUDA graph is "
                "captured: check them before, and pass checked=False"
            )
        return function(*others, checked=checked)

    return run


def not_captured(function: Callable[..., Any], why: str) -> Callable[..., Any]:
    """A library function that refuses to run while a graph is captured."""

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        refuse(function.__name__, arguments[0], why)
        return function(*arguments, **options)

    return run


NAMESPACE = "vkernels"

ANY_DEVICE = "CompositeExplicitAutograd"
"""One implementation for tensors on CPUs and GPUs; kernels refuse other devices."""

Context = Any
"""Torch's object that keeps a call's data for its gradient."""

Keep = Callable[[Context, tuple[Any, ...], Any], None]
Backward = Callable[..., Any]
Operation = torch._ops.OpOverload

_LIBRARY = Library(NAMESPACE, "DEF")


def define(
    schema: str,
    run: Callable[..., Any],
    fake: Callable[..., Any],
    keep: Keep | None = None,
    backward: Backward | None = None,
    library: Library = _LIBRARY,
) -> Operation:
    """Register an operation, and return it.

    `schema`: its name, arguments and results, as torch writes them. `run` computes the results, `fake` makes
    uninitialised ones of the same shapes and dtypes, contiguous as `run`'s, also for tensors without memory and for
    symbolic sizes. `keep` and `backward`: as for `torch.library.register_autograd`; without them, differentiating is
    refused. `library`: the namespace's library, which must be kept as long as the operation.
    """
    namespace = library.ns
    name = schema[: schema.index("(")]
    library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    qualified = f"{namespace}::{name}"
    library.impl(name, _without_tangents(qualified, run), ANY_DEVICE)
    register_fake(qualified, fake, lib=library)
    operation: Operation = getattr(getattr(torch.ops, namespace), name).default
    if not operation._schema.is_mutable:  # kernels refuse to write tensors that require grad
        register_autograd(qualified, backward or _refusal(qualified), setup_context=keep, lib=library)
    return operation


def define_differentiable(
    schema: str,
    run: Callable[..., Any],
    fake: Callable[..., Any],
    gradient: Callable[..., Any],
    gradients_of: str,
    *,
    without: str = "",
    result_for: str = "",
    fake_gradient: Callable[..., Any] | None = None,
) -> Operation:
    """Register a library function and the library's gradient of it, as an operation of its own.

    `gradient` takes the gradient of the result and then the function's arguments, except those named in `without`; the
    result takes the place of the argument `result_for`. It returns the gradients of the arguments `gradients_of`, or
    None for arguments that are None. `fake_gradient`: as `fake`, for gradients that are not like their arguments.
    """
    declared = [each.rsplit(" ", 1) for each in schema[schema.index("(") + 1 : schema.rindex(") ->")].split(", ")]
    names = [name for _, name in declared]
    kept = [at for at, name in enumerate(names) if name not in without.split()]
    tensors = [at for at in kept if declared[at][0].startswith("Tensor")]
    options = [at for at in kept if at not in tensors]
    order = [[*tensors, *options].index(at) for at in kept]
    places = [names.index(name) for name in gradients_of.split()]
    among = [kept.index(at) for at in places if at in kept]
    compute = partial(gradient, checked=False) if "checked" in without.split() else gradient
    shown = ["Tensor grad", *(f"{declared[at][0]} {'result' if names[at] == result_for else names[at]}" for at in kept)]
    results = "Tensor" if len(places) == 1 else f"({', '.join(['Tensor'] * len(places))})"

    def run_gradient(grad: torch.Tensor, *arguments: Any) -> Any:
        found = compute(grad, *arguments)
        return or_empty(grad, found) if isinstance(found, tuple) else found

    def like_arguments(grad: torch.Tensor, *arguments: Any) -> Any:
        found = like_each(grad, *(arguments[at] for at in among))
        return found if len(found) > 1 else found[0]

    backward = define(
        f"{gradient.__name__}({', '.join(shown)}) -> {results}", run_gradient, fake_gradient or like_arguments
    )

    def keep(ctx: Context, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.options = [inputs[at] for at in options]
        ctx.save_for_backward(*(output if names[at] == result_for else inputs[at] for at in tensors))

    def run_backward(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        values = (*ctx.saved_tensors, *ctx.options)
        found = backward(grad, *(values[at] for at in order))
        gradients: list[torch.Tensor | None] = [None] * len(names)
        for at, each in zip(places, found if len(places) > 1 else (found,), strict=True):
            gradients[at] = each if ctx.needs_input_grad[at] else None
        return tuple(gradients)

    return define(schema, run, fake, keep, run_backward)


def like(x: torch.Tensor, shape: Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """An uninitialised contiguous tensor of a shape, on x's device, of x's dtype unless another is given."""
    return x.new_empty(tuple(shape), dtype=x.dtype if dtype is None else dtype)


def like_first(x: torch.Tensor, *others: Any) -> torch.Tensor:
    """The fake result of operations whose result is like their first argument."""
    return like(x, x.shape)


def like_each(grad: torch.Tensor, *arguments: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """Fake gradients of arguments; an empty tensor for an argument that is None."""
    return tuple(like(grad, (0,)) if each is None else like(each, each.shape) for each in arguments)


def or_empty(x: torch.Tensor, results: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor, ...]:
    """Results with empty tensors in place of None, because operations return tensors."""
    return tuple(like(x, (0,)) if result is None else result for result in results)


def computed_dtype(x: torch.Tensor) -> torch.dtype:
    """The dtype that kernels compute in: float32 for floats of 16 bits."""
    return torch.float32 if x.dtype.itemsize < 4 else x.dtype


def refuse_gradients(ctx: Context, operation: str, **places: int) -> None:
    """Raise `UnsupportedError` if an argument without a gradient requires one; `places`: arguments by name."""
    for name, place in places.items():
        if ctx.needs_input_grad[place]:
            raise UnsupportedError(f"{operation}: {name} requires grad, but there is no gradient of it; `.detach()` it")


def _without_tangents(qualified: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse forward-mode differentiation, in which torch would silently assume tangents of 0."""

    def call(*arguments: Any) -> Any:
        if forward_ad._current_level >= 0:
            raise UnsupportedError(f"{qualified} has no derivative in forward mode (jvp, forward_ad)")
        return run(*arguments)

    return call


def _refusal(qualified: str) -> Backward:
    def refuse(ctx: Context, *grads: Any) -> Any:
        if qualified.endswith("_backward"):
            what = f"{qualified} is a gradient already, and has none of its own: double backward is not supported"
        else:
            what = f"{qualified} has no gradient"
        raise UnsupportedError(what)

    return refuse
