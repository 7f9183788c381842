"""Write results as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from vkernels.ir.errors import FileError
from vkernels.ir.write_file import write_file

STANDARD_OUTPUT = Path("-")


def check_writable(path: Path | None) -> None:
    """Raise `FileError` early if a file could not be written there; None and `-` always can."""
    if path is None or path == STANDARD_OUTPUT:
        return
    if path.is_dir():
        raise FileError(f"{path}: is a folder")
    if not path.parent.is_dir():
        raise FileError(f"{path}: folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise FileError(f"{path}: is not writable")


def write_json(path: Path, results: Mapping[str, Any]) -> None:
    """Write results to a file, or to standard output if the path is `-`."""
    text = json.dumps(results, indent=2) + "\n"
    if path == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
        return
    write_file(path, text)
