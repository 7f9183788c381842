"""Tests of compiling have a session each, so that they do not meet what others compiled; and what tests of
calibration's loops share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from vkernels.compiler.session import CompilerSession
from vkernels.targets.host_cpu import cpu_limits


@pytest.fixture
def compiler_session() -> Iterator[CompilerSession]:
    """A session that keeps nothing on disk, in place of the one that other tests share."""
    session = CompilerSession(patience=600.0)
    yield session
    session.close()


@pytest.fixture(params=[16, 32, 64])
def width(request):
    """Bytes of a vector that this processor has."""
    if request.param > cpu_limits().register_bytes:
        pytest.skip("this processor has narrower vectors")
    return request.param


@pytest.fixture
def random():
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    return np.random.default_rng(seed)
