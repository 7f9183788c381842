"""Find the tensors that a step can reach before it runs: those of its arguments, closure, object and globals."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

MAX_OBJECTS = 1 << 20
"""Objects to look at: what is not found is known at its first use."""
LEAVES = (str, bytes, int, float, complex, type(None), type, ModuleType, FrameType, CodeType, BuiltinFunctionType)


def program_storages(*roots: object) -> list[torch.UntypedStorage]:
    """Return the storages of all tensors that can be reached from functions and other objects, each once.

    Of a function's globals, those that it names count.
    """
    found: dict[int, torch.UntypedStorage] = {}
    seen: dict[int, object] = {}
    pending: list[object] = [*roots]
    while pending and len(seen) < MAX_OBJECTS:
        each = pending.pop()
        if isinstance(each, LEAVES) or id(each) in seen:
            continue
        seen[id(each)] = each  # kept: its address is not used again
        if isinstance(each, torch.Tensor):
            storage = _storage(each)
            if storage is not None:
                found[storage._cdata] = storage
            pending.append(each.grad if each.is_leaf else None)
        pending += _parts(each)
    return [*found.values()]


def _parts(each: Any) -> Iterator[object]:
    if isinstance(each, FunctionType):
        yield from (cell.cell_contents for cell in each.__closure__ or () if _is_full(cell))
        yield from (each.__defaults__, each.__kwdefaults__, each.__dict__)
        yield from (each.__globals__[name] for name in _names(each.__code__) if name in each.__globals__)
    elif isinstance(each, MethodType):
        yield from (each.__self__, each.__func__)
    elif isinstance(each, torch.Tensor):
        yield each.__dict__
    else:
        yield from gc.get_referents(each)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # not assigned yet
        return False


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    try:
        return tensor.untyped_storage() if tensor.device.type in ("cpu", "cuda") else None
    except (NotImplementedError, RuntimeError):
        return None
