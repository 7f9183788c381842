"""The default session, which calls use that are given no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vkernels.ir.fork_safe import fork_safe_lock

from .judged_plans import JUDGED
from .session import CompilerSession

_session: CompilerSession | None = None
_lock = fork_safe_lock()


def default_session() -> CompilerSession:
    """The default session. It is made at first use, and keeps its caches in this user's folder."""
    global _session
    session = _session
    if session is None:
        from vkernels.ir.disk_cache import DiskCache

        with _lock:
            session = _session = _session or CompilerSession(DiskCache(), calibrates=True, judge=JUDGED)
    return session


def set_default_session(session: CompilerSession) -> None:
    """Let this session be the default one, in all threads."""
    global _session
    _session = session


@contextmanager
def use_session(session: CompilerSession) -> Iterator[CompilerSession]:
    """Within, this session is the default one, in all threads."""
    before = default_session()
    set_default_session(session)
    try:
        yield session
    finally:
        set_default_session(before)


@contextmanager
def patient() -> Iterator[None]:
    """Within, no call runs a plain plan because compiling the best one takes long.

    First calls wait for their best plan, however long that takes; what earlier calls left to the background is finished
    at the beginning. For benchmarks, servers that warm up, and before a CUDA graph is captured.
    """
    with default_session().patient():
        yield
