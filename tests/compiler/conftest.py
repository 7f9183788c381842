"""Tests of compiling have a session each, so that they do not meet what others compiled."""

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
