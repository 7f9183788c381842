"""An explanation as one HTML page that needs nothing else: no network, no scripts, drawings as inline SVG."""

from __future__ import annotations

from pathlib import Path

from vkernels.ir.write_file import write_file
from vkernels.runtime.explaining.explain import Explanation

from .page import page_of


def write_page(path: Path, found: Explanation) -> None:
    """Write the page. Raises as `write_file`."""
    write_file(path, page_of(found))
