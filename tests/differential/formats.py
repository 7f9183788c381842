"""Floating-point formats: what rounding to each may err by, and the wider one that references are computed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Format:
    """`unit`: the largest relative error of rounding. `least`, `largest`: of what is positive and finite."""

    name: str
    unit: float
    least: float
    largest: float

    @property
    def wider(self) -> Any:
        """The dtype of NumPy that references to what is computed in this format are computed in."""
        return np.longdouble if self.name == "float64" else np.float64


FORMATS = {
    each.name: each
    for each in (
        Format("float64", 2.0**-53, 2.0**-1074, float(np.finfo(np.float64).max)),
        Format("float32", 2.0**-24, 2.0**-149, float(np.finfo(np.float32).max)),
        Format("float16", 2.0**-11, 2.0**-24, 65504.0),
        Format("bfloat16", 2.0**-8, 2.0**-133, float.fromhex("0x1.fep127")),
        Format("float8_e4m3fn", 2.0**-4, 2.0**-9, 448.0),
        Format("float8_e5m2", 2.0**-3, 2.0**-16, 57344.0),
    )
}


def computed_in(dtype: str) -> Format:
    """The format that elements of a dtype are computed in: float32, where they are not float64."""
    return FORMATS["float64" if dtype == "float64" else "float32"]
