"""Tests with a GPU's fake driver and compiler have a session each: their plans are no choice for real devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vkernels.compiler.session import CompilerSession


@pytest.fixture
def compiler_session() -> Iterator[CompilerSession]:
    """A session that keeps nothing on disk, in place of the one that other tests share."""
    session = CompilerSession(patience=600.0)
    yield session
    session.close()
