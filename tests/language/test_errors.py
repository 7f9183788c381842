"""Every mistake in a kernel's text gives one clear message: the files in errors/ and the text beside each."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import vkernels as vk

from .signatures import plain_signature

FOLDER = Path(__file__).parent / "errors"


def build(path: Path) -> None:
    kernel = runpy.run_path(str(path))["kernel"]
    kernel.build(plain_signature(kernel))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_message(path, golden):
    with pytest.raises(vk.Error) as caught:
        build(path)
    text = str(caught.value).replace(str(FOLDER) + "/", "")
    golden(path.with_suffix(".txt"), f"{type(caught.value).__name__}\n{text}\n")
