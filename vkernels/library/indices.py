"""Checks of tensors of indices, which would read memory that is not theirs where they are wrong."""

from __future__ import annotations

import vkernels as vk

from .arrays import Array


def check_starts(function: str, start: Array, values: int, checked: bool) -> None:
    """Raises `ArgumentError` for what no segments of so many values start at; `checked`: looks at elements too."""
    if start.ndim != 1 or start.shape[0] == 0:
        raise vk.ArgumentError(f"{function}: start has shape {tuple(start.shape)}, expected one more than segments")
    if not checked:
        return
    if bool((start[1:] < start[:-1]).any()):
        raise vk.ArgumentError(f"{function}: start falls, expected each segment to end at or after its start")
    if int(start[0]) < 0 or int(start[-1]) > values:
        raise vk.ArgumentError(f"{function}: start holds {_range_of(start)}, expected 0 to {values}")


def check_indices(function: str, name: str, index: Array, length: int) -> None:
    """Raises `ArgumentError` where an index is not from 0 up to a length."""
    if 0 not in index.shape and bool(((index < 0) | (index >= length)).any()):
        raise vk.ArgumentError(f"{function}: {name} holds {_range_of(index)}, expected 0 to {length - 1}")


def _range_of(index: Array) -> str:
    return f"{int(index.min())} to {int(index.max())}"
