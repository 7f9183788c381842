"""Measure the costs of `limit` on this machine's CPU: its links, and the overhead per operation.

It uses the same code as `limit`: copies between mapped memories, its file for flash, and small steps that run with and
without a limit, interleaved.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import torch

from vkernels.ir.errors import FileError, SetupError
from vkernels.ir.system_resources import ThreadPool
from vkernels.targets.present import present_cpu

from .calibration import Calibration, Origin
from .cpu_device import AT_ONCE
from .device import Lane
from .limit import limit
from .links import ANY_SIZE, MemoryMachine
from .record import record
from .tiers import Flash, copy_bytes

Tell = Callable[[str], None]
COPIED, TINY = 64 << 20, 4096
"""Bytes of the copies timed for rate and for latency."""
IDLE = 1e-3
"""Seconds."""
ROUNDS = 9
"""Repetitions of each measurement; the median counts."""
OPERATIONS, RESULTS, LARGE, MOVED = 200, 40, 1 << 20, 96
"""Numbers of tiny operations, of large results and their bytes, and of tensors that a limit has to move."""
USUAL_FLASH = 1e9
"""Bytes a second of flash if no folder is given; marked unverified."""
USUAL_FLASH_SECONDS = 1e-4


def calibrate_cpu(flash: Path | None = None, tell: Tell = lambda words: None) -> Calibration:
    """Measure for some seconds. `flash`: a folder whose drive is measured. Raises `FileError` if it is not writable,
    `SetupError` if there is no memory for the copies."""
    target = present_cpu()
    tell("copying in memory")
    found = _copies()
    if flash is not None:
        tell(f"writing and reading {flash}")
    usual = {"to_flash": USUAL_FLASH, "from_flash": USUAL_FLASH, "flash_seconds": USUAL_FLASH_SECONDS}
    found |= usual if flash is None else _flash(flash)
    tell("following small steps")
    found |= following(found)
    figures: dict[str, Any] = found
    machine = MemoryMachine(device_bytes=0, host_bytes=ANY_SIZE, flash_bytes=0, **figures)
    unverified = ("to_flash", "from_flash", "flash_seconds") if flash is None else ()
    return Calibration(target.key, target.name, Origin.MEASURED, machine, None, unverified)


def _copies() -> dict[str, float]:
    """Measure rates and latency of copies between device and host arenas, in each direction."""
    device, host = _memory(COPIED), _memory(COPIED)
    with ThreadPool(1) as thread:
        tiny = _median(lambda: thread.submit(copy_bytes, host[1], device[1], TINY).result())  # there and back again
        handing: list[float] = []
        for _ in range(ROUNDS):
            handing.append(_timed(lambda: thread.submit(copy_bytes, host[1], device[1], TINY)))
            time.sleep(IDLE)  # until the thread sleeps again
    out = _median(lambda: copy_bytes(host[1], device[1], COPIED))
    back = _median(lambda: copy_bytes(device[1], host[1], COPIED))
    return {
        "to_host": COPIED / out, "from_host": COPIED / back, "host_seconds": tiny / 2,
        "hand_over_seconds": median(handing), "at_once": AT_ONCE[Lane.TO_HOST], "flash_at_once": AT_ONCE[Lane.TO_FLASH],
    }  # fmt: skip


def _flash(folder: Path) -> dict[str, float]:
    memory, file = _memory(COPIED), Flash(folder, COPIED)
    try:
        written = _median(lambda: _safely(folder, file.write, memory[1], COPIED), 3)
        read = _median(lambda: _safely(folder, file.read, memory[1], COPIED), 3)
        tiny = _median(lambda: _both(folder, file, memory[1]))
    finally:
        file.close()
    return {"to_flash": COPIED / written, "from_flash": COPIED / read, "flash_seconds": tiny / 2}


def _both(folder: Path, file: Flash, address: int) -> None:
    _safely(folder, file.write, address, TINY)
    _safely(folder, file.read, address, TINY)


def _safely(folder: Path, carry: Callable[[int, int, int], None], address: int, size: int) -> None:
    try:
        carry(0, address, size)
    except OSError as error:
        raise FileError(f"{folder}: flash failed: {error.strerror or error}") from error


def following(links: Mapping[str, float], rounds: int = ROUNDS) -> dict[str, float]:
    """Measure the overhead of a plan: of an operation, of a tensor that it makes and its bytes, and of a transfer.

    `links`: figures of copies, for those by the program's own thread. Negative differences, from noise, count as 0.
    """
    one, x = torch.zeros(16), torch.zeros(LARGE // 4)
    wide = torch.zeros(1 << 12)
    size = wide.numel() * wide.element_size()

    def within() -> None:
        for _ in range(OPERATIONS):
            one.add_(1)

    def makes() -> None:
        y = one
        for _ in range(OPERATIONS):
            y = y + 1

    def makes_large() -> None:
        for _ in range(RESULTS):
            x + 1

    def keeps() -> None:
        kept = [wide + n for n in range(MOVED)]
        y = wide
        while kept:  # a limit does not move tensors that are never used again
            y = y + kept.pop()

    with torch.no_grad():
        operation = max(0.0, _added(within, rounds)[0] / OPERATIONS)
        made = max(0.0, _added(makes, rounds)[0] / OPERATIONS - operation)
        large = _added(makes_large, rounds)[0] - RESULTS * (operation + made)
        rate = RESULTS * LARGE / large if large > 0 else inf
        added, moved = _added(keeps, rounds, 0.6)
    added -= 2 * MOVED * (operation + made + size / rate)
    carried = size / links["to_host"]
    return {
        "operation_seconds": operation,
        "made_seconds": made,
        "made_rate": rate,
        "absence_seconds": max(0.0, added / (moved / size) - carried) if moved else 0.0,
    }


def _added(step: Callable[[], None], rounds: int, part: float = 1.0) -> tuple[float, float]:
    """Return the overhead of a limited call in seconds, and the bytes that it moves. `part`: limit as a share of the
    peak."""
    peak = record(step).peak
    limited = limit(step, int(peak * part) + LARGE * (part == 1.0), host_bytes=1 << 30)
    try:
        for _ in range(4):
            limited()
        before = limited.report
        for _ in range(rounds):
            limited()
        after = limited.report
    finally:
        limited.close()
    moved = (after.out_bytes + after.back_bytes - before.out_bytes - before.back_bytes) / rounds
    return after.seconds - after.own_seconds, moved


def _timed(run: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def _median(run: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the median of seconds, without the first run, which touches memory for the first time."""
    run()
    return max(1e-9, median(_timed(run) for _ in range(rounds)))


def _memory(size: int) -> tuple[mmap.mmap, int]:
    """Mapped memory with its address."""
    try:
        memory = mmap.mmap(-1, size)
    except OSError as error:
        raise SetupError(f"no memory for a copy of {size} bytes: {error.strerror or error}") from error
    with suppress(AttributeError, OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))
