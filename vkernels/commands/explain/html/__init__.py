"""An explanation as one HTML page that needs nothing else: no network, no scripts, drawings as inline SVG."""

from __future__ import annotations

from pathlib import Path

from vkernels.ir.errors import FileError
from vkernels.runtime.explaining.explain import Explanation

from .page import page_of


def write_page(path: Path, found: Explanation) -> None:
    """Write the page. Raises `FileError` where that cannot be."""
    try:
        path.write_text(page_of(found), encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
