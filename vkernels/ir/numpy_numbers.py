"""NumPy's numbers as Python's."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_python(value: Any) -> Any:
    """A NumPy number as the Python number that it stands for; anything else as it is."""
    if isinstance(value, np.bool_ | np.integer | np.floating | np.complexfloating):
        return value.item()
    return value
