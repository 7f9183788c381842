"""Keys of cached calls: everything about the arguments but addresses and the values of scalars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_modules = sys.modules


def tensor_key(value: Any) -> object:
    """Dtype, shape, strides, and whether it may be written; and the type, as subclasses may not be plain memory."""
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype, value.shape, value.strides, value.flags.writeable
    try:
        tracked = value.requires_grad and _modules["torch"].is_grad_enabled()
        where = None if value.is_cpu else value.device
        return kind, value.dtype, value.shape, value.stride(), where, value.is_neg() or value.is_conj(), tracked
    except (AttributeError, KeyError, TypeError, RuntimeError):  # no tensor, or none with strides: binding says so
        if isinstance(value, np.ndarray):
            return kind, value.dtype, value.shape, value.strides, value.flags.writeable
        return kind


def scalar_key(value: Any) -> object:
    """Type, and dtype where the type does not say it: tensors of rank 0."""
    kind = type(value)
    return kind if kind in (float, int, bool) else (kind, getattr(value, "dtype", None))


def constant_key(value: Any) -> object:
    """Type and value, as 1, 1.0 and True are equal."""
    return (type(value), value) if isinstance(value, bool | int | float | str) else type(value)


KEYS: Mapping[str, Callable[[Any], object]] = {"tensor": tensor_key, "scalar": scalar_key, "constant": constant_key}
"""The key of a value, by the kind of its parameter."""
