"""Which dtype a tensor is taken to have where nobody says: the one answer of checking, explaining, tuning and compiling
ahead, so that they speak of the same code."""

from __future__ import annotations

from collections.abc import Sequence

USUAL = ("float32", "int64", "bool")
"""What a tensor is, if it may be: as torch makes them."""

_COMPUTED_IN = {"float16": "float32", "bfloat16": "float32"}


def usual_dtype(allowed: Sequence[str], wanted: str | None = None, computed: bool = False) -> str:
    """A tensor's dtype: the wanted one if it is allowed, else the usual one, else the first allowed.

    `computed`: the tensor has the dtype that kernels compute in.
    """
    if computed and wanted is not None:
        wanted = _COMPUTED_IN.get(wanted, wanted)
    if wanted is not None and wanted in allowed:
        return wanted
    return next((each for each in USUAL if each in allowed), allowed[0])
