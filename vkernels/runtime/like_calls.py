"""Tell calls like an earlier one by torch's native guards: one step for all tensors, in place of a key of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from . import torch_guards
from .arrays import is_torch
from .dispatch_keys import scalar_key

Addresses = Callable[[Sequence[Any]], list[int] | None]
"""The addresses of a call's tensors, in order; None where the call must be looked up by its key."""


def addresses_if_like(
    values: Sequence[Any],
    describe: Sequence[Callable[[Any], object]],
    tensors: Sequence[int],
    extents: Sequence[tuple[int, int, int, int]],
) -> Addresses | None:
    """A function of a call's arguments for calls like the one with these `values`.

    `describe`: what makes each argument's part of a key; `tensors`: positions; `extents`: as in a `CallEntry`, whose
    tensors must still have this memory. None where torch has no such guards, and for tensors of types of their own.
    """
    found = [values[position] for position in tensors]
    if not found or not all(map(_is_plain, found)) or (native := torch_guards.guards()) is None:
        return None
    is_like = native.TensorGuards(
        *found, dynamic_dims_sizes=[list(each.shape) for each in found],
        dynamic_dims_strides=[list(each.stride()) for each in found],
    ).check  # fmt: skip
    names: dict[str, Any] = {"is_like": is_like}
    lines = [f"    {''.join(f'v{number}, ' for number in range(len(values)))} = values"]
    for position, value in enumerate(values):
        if position in tensors:
            names[f"type{position}"] = type(value)
            differs = f"type(v{position}) is not type{position} or v{position}.is_nested"
        elif type(value) is float and describe[position] is scalar_key:
            names[f"type{position}"] = float
            differs = f"type(v{position}) is not type{position}"
        else:
            names[f"describe{position}"], names[f"key{position}"] = describe[position], describe[position](value)
            differs = f"describe{position}(v{position}) != key{position}"
        lines += [f"    if {differs}:", "        return None"]
    lines += ["    try:", *(f"        p{position} = v{position}.data_ptr()" for position in tensors)]
    lines += [f"        if not is_like({_listed('v', tensors)}):", "            return None"]
    for number, position, needed, itemsize in extents:
        names[f"needed{number}"], names[f"itemsize{number}"] = needed, itemsize
        left = f"len(v{position}.untyped_storage()) - v{position}.storage_offset() * itemsize{number}"
        lines += [f"        if not p{position} or {left} < needed{number}:", "            return None"]
    lines += ["    except RuntimeError:", "        return None", f"    return [{_listed('p', tensors)}]"]
    exec(_compiled("\n".join(("def addresses(values):", *lines))), names)
    addresses: Addresses = names["addresses"]
    return addresses


def _is_plain(value: Any) -> bool:
    """Whether a value is one of torch's own tensors, with sizes and strides."""
    if not is_torch(value):
        return False
    import torch

    return type(value) in (torch.Tensor, torch.nn.Parameter) and not value.is_nested


def _listed(prefix: str, positions: Sequence[int]) -> str:
    return ", ".join(f"{prefix}{position}" for position in positions)


@lru_cache(maxsize=512)
def _compiled(text: str) -> CodeType:
    return compile(text, __file__, "exec")
