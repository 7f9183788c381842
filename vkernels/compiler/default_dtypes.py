"""The dtype of a tensor that is not given: checking, explaining, tuning and compiling ahead all use this one."""

from __future__ import annotations

from collections.abc import Sequence

DEFAULTS = ("float32", "int64", "bool")
"""Dtypes that a tensor has by default, if it may, the first first: as torch makes them."""

_COMPUTED_IN = {"float16": "float32", "bfloat16": "float32"}


def default_dtype(allowed: Sequence[str], wanted: str | None = None, computed: bool = False) -> str:
    """A tensor's dtype: the wanted one if it is allowed, else a default one, else the first allowed.

    `computed`: the tensor has the dtype that kernels compute in.
    """
    if computed and wanted is not None:
        wanted = _COMPUTED_IN.get(wanted, wanted)
    if wanted is not None and wanted in allowed:
        return wanted
    return next((dtype for dtype in DEFAULTS if dtype in allowed), allowed[0])
