"""The page on torch shows what its code prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.docs.pages import with_results

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"


def test_the_page_shows_what_its_code_prints(tmp_path: Path, golden: Any) -> None:
    golden(PAGE, with_results(PAGE, tmp_path))
