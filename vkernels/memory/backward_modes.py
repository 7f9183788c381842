"""Let functions that Python calls in backward see a mode, and `zero_grad` not, which accesses attributes of all
parameters. Nodes of autograd have the modes with which backward begins."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import local
from typing import Any

import torch
from torch._C import _get_function_stack_at, _len_torch_function_stack
from torch._C import _pop_torch_function_stack as _pop
from torch._C import _push_on_torch_function_stack as _push
from torch.overrides import TorchFunctionMode

RUN = "_engine_run_backward"
"""The function of `torch.autograd` that runs the nodes."""
BACKWARD = frozenset({torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad})
"""Functions that call it: torch takes a mode from the stack while it handles a function."""


class _Modes(local):
    """The mode of each thread whose nodes begin next."""

    mode: TorchFunctionMode | None = None
    is_ready = False


_modes = _Modes()


class SeesBackward(TorchFunctionMode):
    """A mode that does not see `zero_grad`, which needs no memory."""

    def __init__(self) -> None:
        super().__init__()
        _replace_functions()


def run_backward(mode: TorchFunctionMode, function: Any, args: Any, kwargs: Any) -> Any:
    """Call one of `BACKWARD`, with a mode on the stack while its nodes run."""
    _modes.mode = mode
    try:
        return function(*args, **kwargs)
    finally:
        _modes.mode = None


def _replace_functions() -> None:
    """Replace two of torch's functions once, for all threads: they do the same where there is no such mode."""
    if not _Modes.is_ready:
        _Modes.is_ready = True
        if hasattr(torch.autograd, RUN):
            setattr(torch.autograd, RUN, _with_mode(getattr(torch.autograd, RUN)))
        optimiser: Any = torch.optim.Optimizer
        optimiser.zero_grad = _without_mode(optimiser.zero_grad)


def _with_mode(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    def with_mode(*args: Any, **kwargs: Any) -> Any:
        mode, _modes.mode = _modes.mode, None
        if mode is None:
            return run(*args, **kwargs)
        _push(mode)
        try:
            return run(*args, **kwargs)
        finally:
            _pop()

    return with_mode


def _without_mode(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    def without_mode(*args: Any, **kwargs: Any) -> Any:
        count = _len_torch_function_stack()
        mode: Any = _get_function_stack_at(count - 1) if count else None
        if not isinstance(mode, SeesBackward):
            return run(*args, **kwargs)
        _pop()
        try:
            return run(*args, **kwargs)
        finally:
            _push(mode)

    return without_mode
