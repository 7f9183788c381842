"""Which modules of a call are torch's own, so that no code of the program runs in them, and which are sensitive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

SENSITIVE = (nn.MultiheadAttention, nn.TransformerEncoder, nn.TransformerEncoderLayer)
"""Modules that compute in another way where a mode of functions is on the stack: the bits differ."""
OWN = "torch.nn.modules."
"""Where torch's own modules are defined."""


@cache
def is_sensitive(kind: Any) -> bool:
    """Whether modules of a type must not see a mode of functions."""
    return issubclass(kind, SENSITIVE)


def is_own(module: nn.Module) -> bool:
    """Whether only code of torch runs in a module, as far as it is not in modules that it calls."""
    kind = type(module)
    is_plain = kind.__module__.startswith(OWN) and "forward" not in vars(module)
    has_hooks = bool(module._forward_hooks or module._forward_pre_hooks)
    return is_plain and not has_hooks and (kind is nn.Sequential or not module._modules)


@contextmanager
def leaving(note: Callable[[nn.Module], None]) -> Iterator[None]:
    """Call `note` with each module that this thread has called, at its end."""
    me = get_ident()

    def on_end(module: nn.Module, args: Any, out: Any) -> None:
        if get_ident() == me and not torch.compiler.is_dynamo_compiling():
            note(module)

    hook = register_module_forward_hook(on_end, always_call=True)
    try:
        yield
    finally:
        hook.remove()


def when_left(identity: int, resume: Callable[[], None]) -> Callable[[], None]:
    """Call `resume` once, at the end of a module that this thread has called. Return what ends waiting for it."""
    me = get_ident()

    def on_end(module: nn.Module, args: Any, out: Any) -> None:
        if id(module) == identity and get_ident() == me:
            hook.remove()
            resume()

    hook = register_module_forward_hook(on_end, always_call=True)
    return hook.remove


class RunningModules:
    """The modules that a call is in. `is_between_own`: since the last module began, only code of torch has run, if the
    next one begins now."""

    def __init__(self) -> None:
        self._running: list[tuple[nn.Module, bool]] = []
        self.is_between_own = False

    @property
    def is_sensitive(self) -> bool:
        """Whether any of them must not see a mode."""
        return any(issubclass(type(module), SENSITIVE) for module, _ in self._running)

    def enter(self, module: nn.Module) -> None:
        """Note that a module begins."""
        self._running.append((module, is_own(module)))
        self.is_between_own = self._running[-1][1]

    @contextmanager
    def following(self, resume: Callable[[], None]) -> Iterator[None]:
        """Note where modules end; `resume`: called at the end of the outermost sensitive one."""

        def note(module: nn.Module) -> None:
            if not any(each is module for each, _ in self._running):
                return
            was_sensitive = self.is_sensitive
            while self._running.pop()[0] is not module:  # those within have raised
                pass
            self.is_between_own = self.is_between_own and bool(self._running) and self._running[-1][1]
            if was_sensitive and not self.is_sensitive:
                resume()

        with leaving(note):
            yield
