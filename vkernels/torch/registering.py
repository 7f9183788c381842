"""How operations get into torch's registry: what runs them, what shapes they give, and their gradients.

Of the ways that torch documents this one costs a call least. Beside the library's own function, `Library` with
`register_autograd` takes 6 µs of a call and 20 of one with its gradient, `custom_op` 9 and 35 (log-softmax of 8 × 16,
one core, torch 2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.library import Library, register_autograd, register_fake

from vkernels.ir.errors import UnsupportedError

NAMESPACE = "vkernels"

ANY_DEVICE = "CompositeExplicitAutograd"
"""One implementation for tensors on CPUs and GPUs; those elsewhere are refused by the kernels themselves."""

Context = Any
"""What torch keeps from a call for its gradient."""

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
) -> Operation:
    """Register an operation of the library, and return it.

    `schema`: its name, arguments and results, as torch writes them. `run` computes them, `fake` makes results of the
    same shapes and dtypes, contiguous as `run`'s are, of tensors without memory and of symbolic sizes. `keep` and
    `backward`: as `torch.library.register_autograd` takes them; without them, differentiating is refused.
    """
    return define_in(_LIBRARY, NAMESPACE, schema, run, fake, keep, backward)


def define_in(
    library: Library,
    namespace: str,
    schema: str,
    run: Callable[..., Any],
    fake: Callable[..., Any],
    keep: Keep | None = None,
    backward: Backward | None = None,
) -> Operation:
    """The same in another namespace's library, which lives as long as the operation should."""
    name = schema[: schema.index("(")]
    library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    qualified = f"{namespace}::{name}"
    library.impl(name, _without_tangents(qualified, run), ANY_DEVICE)
    register_fake(qualified, fake, lib=library)
    operation: Operation = getattr(getattr(torch.ops, namespace), name).default
    if not operation._schema.is_mutable:  # the kernels refuse to write what requires grad
        register_autograd(qualified, backward or _refusal(qualified), setup_context=keep, lib=library)
    return operation


def define_like_input(
    function: Callable[..., Any], gradient: Callable[..., Any], options: str = "", keeps_result: bool = False
) -> Operation:
    """Register a library function whose result is like its one tensor, `x`, and the gradient of it.

    `options`: the arguments after x, as torch writes them. `gradient`: takes the gradient of the result, then x, or the
    result where `keeps_result`, then the options.
    """
    more, saved = f", {options}" * bool(options), "result" if keeps_result else "x"
    backward = define(f"{gradient.__name__}(Tensor grad, Tensor {saved}{more}) -> Tensor", gradient, like_first)

    def keep(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        x, *ctx.options = inputs
        ctx.save_for_backward(output if keeps_result else x)

    def run_backward(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return backward(grad, *ctx.saved_tensors, *ctx.options), *(None,) * len(ctx.options)

    return define(f"{function.__name__}(Tensor x{more}) -> Tensor", function, like_first, keep, run_backward)


def like(x: torch.Tensor, shape: Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """A contiguous tensor of a shape, on x's device, in its dtype unless another is given, with anything in it."""
    return x.new_empty(tuple(shape), dtype=x.dtype if dtype is None else dtype)


def like_first(x: torch.Tensor, *others: Any) -> torch.Tensor:
    """The fake result of operations whose results are as their first argument is."""
    return like(x, x.shape)


def like_each(grad: torch.Tensor, *arguments: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """Fake gradients of arguments; an empty tensor, as `or_empty` gives it, where there is no argument."""
    return tuple(like(grad, (0,)) if each is None else like(each, each.shape) for each in arguments)


def unchecked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient of the library's that does not read indices again, with tensors in place of Nones."""

    def run(grad: torch.Tensor, *arguments: Any) -> Any:
        found = function(grad, *arguments, checked=False)
        return or_empty(grad, found) if isinstance(found, tuple) else found

    return run


def or_empty(x: torch.Tensor, results: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor, ...]:
    """Results with an empty tensor where there is none: operations return tensors."""
    return tuple(like(x, (0,)) if result is None else result for result in results)


def computed_dtype(x: torch.Tensor) -> torch.dtype:
    """The dtype that kernels compute in: float32 for floats of 16 bits."""
    return torch.float32 if x.dtype.itemsize < 4 else x.dtype


def refuse_gradients(ctx: Context, operation: str, **places: int) -> None:
    """Raise `UnsupportedError` where a gradient is wanted that there is not; `places`: of such arguments."""
    for name, place in places.items():
        if ctx.needs_input_grad[place]:
            raise UnsupportedError(f"{operation}: {name} requires grad, but there is no gradient of it; `.detach()` it")


def _without_tangents(qualified: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Refuses forward-mode differentiation, for which torch would take tangents to be 0 without a word."""

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
