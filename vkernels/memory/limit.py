"""Run a training step in less memory than it needs: on demand at first, and by a plan once calls repeat."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import ParamSpec, TypeVar

from vkernels.ir.errors import ArgumentError

from .account import MemoryAccount
from .byte_sizes import check_size, parse_share
from .limited import Limited
from .links import ANY_SIZE, MemoryMachine
from .schedule_check import check_runs
from .trace_file import load

P = ParamSpec("P")
R = TypeVar("R")

LINKS = MemoryMachine(
    device_bytes=0, host_bytes=ANY_SIZE, flash_bytes=0,
    to_host=5e9, from_host=5e9, to_flash=1e9, from_flash=1e9, host_seconds=1e-5, flash_seconds=1e-4,
    operation_seconds=1e-5, made_seconds=2e-5, made_rate=1e10, absence_seconds=2e-5, hand_over_seconds=2e-5,
    at_once=1 << 19, flash_at_once=1 << 18,
)  # fmt: skip
"""Rates of a CPU's memory copies and of a common drive, and the overhead of a plan: round figures, not measured. The
last two are of `CpuDevice`."""


def limit(
    step: Callable[P, R],
    bytes: int | str,
    *,
    trace: Path | str | None = None,
    strict: bool = False,
    host_bytes: int | str | None = None,
    flash_bytes: int | str | None = None,
    flash: Path | str | None = None,
    links: MemoryMachine = LINKS,
    warm_up: int = 1,
    account: MemoryAccount | None = None,
    watch: bool | None = None,
) -> Limited[P, R]:
    """Return `step` with its tensors within `bytes` of device memory: call it in place of `step`.

    `bytes`: a number, a size such as "4GiB", or with a `trace` a share of its peak such as "60%". What does not fit is
    swapped to the host, within `host_bytes` (default: unlimited), or, under a plan, to a file without a name in the
    folder `flash`, of up to `flash_bytes`. `links`: speeds to plan with. Results have the same bits.

    Calls keep the limit from the first operation on, by evicting what is needed last. After `warm_up` calls they are
    recorded until they repeat. If nothing has to move, later ones are not watched until one differs in its arguments,
    modules or optimisers; on the CPU, neither if it is enough that saved tensors of autograd are on the host until
    backward. Others follow a plan; one that deviates from it continues on demand. `watch`: watch every operation of
    every call; default: as `strict`.

    An operation that needs more than the limit at once runs above it, with one `OverLimitWarning`; if `strict`, it
    raises `OutOfMemoryError` before it runs. `trace`: of the step, as `vk memory record` writes it, to know before the
    first call that the limit is enough.

    `account`: of the device, where it has other tasks. The step has its part of the bytes and of the link's time, and
    is recorded and planned again when that changes, as other tasks come or go.

    Raises `ArgumentError` for invalid sizes; `FileError` for a trace that cannot be read; `MemoryPlanError` if the
    limit is too low for the trace, with the minimum. Calls raise `FileError` if flash cannot be written or the disk is
    full, before they run anything; `OutOfMemoryError` if the device or the host cannot allocate the arena;
    `SetupError` for tensors on several GPUs, or on a device that is neither a GPU nor the CPU. After an iteration in
    which flash failed, which completes without the plan, `FileError`. All tensors of the program stay intact.
    """
    if warm_up < 0:
        raise ArgumentError(f"warm_up: expected at least 0, got {warm_up}")
    recorded = None if trace is None else load(trace)
    share = parse_share(bytes) if isinstance(bytes, str) else None
    if share is not None and recorded is None:
        raise ArgumentError(f"bytes: {bytes!r} is a share of a trace's peak, and no trace is given")
    size = check_size("bytes", bytes) if share is None or recorded is None else int(share * recorded.peak)
    host, file = (None if each is None else check_size(name, each)
                  for name, each in (("host_bytes", host_bytes), ("flash_bytes", flash_bytes)))  # fmt: skip
    folder = Path(tempfile.gettempdir() if flash is None else flash)
    there = flash is not None or flash_bytes is not None
    machine = replace(
        links.without_moves(), device_bytes=size, host_bytes=links.host_bytes if host is None else host,
        flash_bytes=(inf if file is None else file) if there else 0,
    )  # fmt: skip
    if recorded is not None:
        check_runs(recorded, machine)
    return Limited(step, machine, folder, warm_up, strict, account, strict if watch is None else watch)
