"""A user's own arguments as a file, for the processes that measure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from vkernels.ir.errors import FileError

from .arguments import is_array

PREFIX = "argument "
"""Of the names in a file: NumPy reserves some."""


def write_inputs(path: Path, values: Mapping[str, Any]) -> None:
    """Write tensors and scalars by name. Floats that NumPy lacks are written in float32, which holds them exactly."""
    np.savez(path, **{PREFIX + name: _as_array(value) for name, value in values.items()})


def read_inputs(path: Path) -> dict[str, Any]:
    """Arrays and Python's numbers by name. Raises `FileError` for a file that cannot be read."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name.removeprefix(PREFIX): file[name] for name in file.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise FileError(f"{path}: cannot be read: {error}") from error
    return {name: value if value.ndim else value.item() for name, value in found.items()}


def _as_array(value: Any) -> Any:
    if not is_array(value) or isinstance(value, np.ndarray):
        return value
    tensor = value.detach().cpu()
    try:
        return tensor.numpy()
    except TypeError:  # bfloat16 and f8
        return tensor.float().numpy()
