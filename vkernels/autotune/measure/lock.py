"""A lock for each core and GPU: only one of this user's tuners measures there at a time."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from vkernels.ir.disk_cache import default_folder
from vkernels.ir.errors import SetupError
from vkernels.ir.system_resources import needing

HOLD_SECONDS = 0.3
"""Seconds to wait for another lock before giving up the held ones: most measurements end sooner."""
MAX_RELEASES = 8
"""Number of such attempts before the held locks are kept until all are there."""

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,60}")


class BusyError(SetupError):
    """Another process measured there for too long."""


def lock_names(device: str, cores: Sequence[int]) -> tuple[str, ...]:
    """The locks of some cores of the CPU, or of another device (`cuda:0`), in the common locking order."""
    if device == "cpu":
        return tuple(f"cpu-{core}" for core in sorted(set(cores)))
    return (re.sub(r"[^a-z0-9.-]", "-", device.lower()),)


@contextmanager
def locked(
    names: Sequence[str],
    patience: float,
    folder: Path | None = None,
    waiting: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Hold all these locks. `waiting` is called once if another process holds one of them.

    Locks are files in the user's own folder, which the system releases when a process ends. While it waits long for one
    lock, a process releases the others, so that no core is idle behind a long measurement on another. After too many
    such attempts it keeps them; as all take locks in the same order then, there is no deadlock. Raises `BusyError`
    after `patience` seconds, and `SetupError` if the folder cannot be used.
    """
    place = _folder() if folder is None else folder
    deadline = time.monotonic() + patience
    told = False

    def wait(number: int, until: float) -> bool:
        nonlocal told
        if _try(number):
            return True
        if not told:
            told = True
            waiting()
        return _wait(number, until - time.monotonic())

    wanted = sorted(set(names))
    late: str | None = None
    held: list[int] = []
    try:
        for tries in range(MAX_RELEASES + 1):
            late = _taken(place, wanted, held, wait, deadline, HOLD_SECONDS if tries < MAX_RELEASES else patience)
            if late is None or time.monotonic() >= deadline:
                break
            _give_back(held)
            wanted.sort(key=lambda name: (tries < MAX_RELEASES - 1 and name != late, name))
        if late is not None:
            raise BusyError(f"{late}: others have measured there for more than {patience:g} s")
        yield
    finally:
        _give_back(held)


def _taken(
    place: Path, names: Sequence[str], held: list[int], wait: Callable[[int, float], bool], deadline: float, each: float
) -> str | None:  # fmt: skip
    """Take locks in this order into `held`, the first with the whole time limit; return the first missing one."""
    for name in names:
        number = _opened(place, name)
        held.append(number)
        if not wait(number, deadline if len(held) == 1 else min(deadline, time.monotonic() + each)):
            return name
    return None


def _give_back(held: list[int]) -> None:
    while held:
        os.close(held.pop())


@contextmanager
def locked_one(
    names: Sequence[str],
    patience: float,
    folder: Path | None = None,
    waiting: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Hold one of these locks: the first free one, else wait for one that depends on the process.

    Yields its name; raises as `locked`.
    """
    place = _folder() if folder is None else folder
    wanted = sorted(set(names))
    for name in wanted:
        number = _opened(place, name)
        try:
            if _try(number):
                yield name
                return
        finally:
            os.close(number)
    name = wanted[os.getpid() % len(wanted)]
    with locked([name], patience, folder, waiting):
        yield name


def _folder() -> Path:
    try:
        return default_folder() / "locks"
    except OSError as error:
        raise SetupError(f"there is no place for locks of cores and devices: {error}") from error


def _opened(folder: Path, name: str) -> int:
    if not _NAME.fullmatch(name):
        raise SetupError(f"{name!r} is no name for a lock")
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        number = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SetupError(f"the lock {folder / name} cannot be opened: {error}") from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise SetupError(f"the lock {folder / name} is no file")
    return number


def _try(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(number: int, seconds: float) -> bool:
    """Wait for a lock; return whether it is held.

    The system queues waiting threads, so that none starves. A thread that still waits holds nothing once the file is
    closed.
    """
    waiter = threading.Thread(target=_queue, args=(number,), name="vkernels-lock", daemon=True)
    with needing("waiting for a lock"):
        waiter.start()
    waiter.join(max(0.0, seconds))
    return not waiter.is_alive() and _try(number)


def _queue(number: int) -> None:
    with suppress(OSError):
        fcntl.flock(number, fcntl.LOCK_EX)
