"""The launchers that calls of kernels share, one for each kernel; others can take their place for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from vkernels.compiler.protocols import KernelLike

from .threads import forget_calls

Maker = Callable[[KernelLike], Any]

_made: WeakSet[Any] = WeakSet()
_makers: list[Maker] = []


def shared_launcher(kernel: KernelLike, make: Maker) -> Any:
    """The launcher of a kernel, made by `make` unless `use_launchers` says otherwise."""
    attributes = vars(kernel)  # with the kernel itself, so that both go together
    launcher = attributes.get("_launcher")
    if launcher is None:
        launcher = attributes.setdefault("_launcher", (_makers[-1] if _makers else make)(kernel))
        _made.add(launcher)
    return launcher


def others_are_used() -> bool:
    """Whether other launchers take the place of the usual ones now."""
    return bool(_makers)


@contextmanager
def use_launchers(make: Maker) -> Iterator[None]:
    """Within, calls of all kernels, in all threads, go through launchers that `make` makes, one for each kernel."""
    _makers.append(make)
    _drop()
    try:
        yield
    finally:
        _makers.remove(make)
        _drop()


def _drop() -> None:
    """Make the launchers of all kernels anew, and record calls of library functions anew."""
    for launcher in list(_made):
        attributes = vars(launcher.kernel)
        if attributes.get("_launcher") is launcher:
            attributes.pop("_launcher", None)
    _made.clear()
    forget_calls()
