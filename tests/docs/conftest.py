"""Pages show what users see: their calls and compiles judge plans for GPUs by binaries, as the default session does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vkernels.compiler.default_session import default_session, use_session
from vkernels.compiler.judged_plans import JUDGED
from vkernels.compiler.session import CompilerSession
from vkernels.ir.disk_cache import DiskCache

from ..conftest import EVERY_SHAPE


@pytest.fixture(scope="session")
def judging_session() -> CompilerSession:
    provider = default_session().tuned_plans.provider
    return CompilerSession(DiskCache(), provider, patience=600.0, exact_shapes=EVERY_SHAPE, judge=JUDGED)


@pytest.fixture(autouse=True)
def session(judging_session: CompilerSession) -> Iterator[CompilerSession]:
    """The default session while a page runs."""
    with use_session(judging_session):
        yield judging_session
