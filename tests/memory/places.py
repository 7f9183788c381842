"""Where data beside the project is, and what to say where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2].parent / "shared" / "data"
G10 = ("bert-256", "vit-1280", "resnet152-1280")
needs_data = pytest.mark.skipif(not (DATA / "g10").is_dir(), reason="the data beside the project is not there")
