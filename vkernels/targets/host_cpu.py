"""The CPU that this process runs on, as limits: its vector registers, caches, and the cores it may use."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from math import prod
from pathlib import Path, PurePosixPath

from vkernels.ir.dot_units import DOT_UNITS
from vkernels.ir.limits import Limits

from .cpu_flags import cpu_flags, flag_of

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
CGROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
DEFAULT_LEVEL_2 = 512 << 10
DEFAULT_LEVEL_3 = 8 << 20
DEFAULT_MEMORY = 1 << 32
LAUNCH_SECONDS = 1e-6
"""What a launch on several cores costs beyond its work. Measured with two: 0.7 µs for the first, 0.4 for each more."""
SHARE_SECONDS = 3e-6
"""A call that takes less on one core stays there, although helpers are awake: two cores gain nothing below 2 µs. In
proportion where a launch was measured: two launches take two cores as long as one, and one is the margin."""
WAKE_SECONDS = 4e-5
"""A call that takes less on one core stays there if helpers sleep: waking one takes 8 µs of the caller, and the helper
begins 25 µs later. Where that was measured, as long as it takes."""

NEON_BYTES = 16
"""Bytes of a vector register of NEON."""

ARCH_PRCTL, REQUEST_PERMISSION, MATRIX_DATA = 158, 0x1023, 18
"""Linux's numbers on x86-64: the system call, its code that asks for a state component, and that of AMX's registers."""

READ_FEATURES = (
    "avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avxvnni", "avxvnniint8", "avx512vnni", "avx512bf16",
    "amx-tile", "amx-int8", "amx-bf16", "amx-fp16", "dotprod", "i8mm", "bf16",
)  # fmt: skip
"""Features that limits depend on, by LLVM's names."""


@functools.cache
def cpu_limits() -> Limits:
    """The limits of this machine and of what the process may use of it; found once.

    `shared` is one core's part of the L2 cache in bytes, `cache` the L3 (the L2 where there is none),
    `multiprocessors` the cores that affinity and control groups leave to this process, `memory` what of the machine's
    a control group grants. Rates are defaults: `present_cpu` knows those of
    this machine.
    """
    features = host_features()
    registers, register_bytes = vector_registers(features, platform.machine())
    level_2 = cache_bytes(2, shared_out=True)
    level_3 = cache_bytes(3, shared_out=False)
    return Limits(
        registers=registers,
        register_bytes=register_bytes,
        shared=level_2 or DEFAULT_LEVEL_2,
        multiprocessors=usable_cores(),
        cache=level_3 or level_2 or DEFAULT_LEVEL_3,
        memory=memory_bytes() or DEFAULT_MEMORY,
        dot_units=granted(dot_units(features, platform.machine())),
        launch_seconds=LAUNCH_SECONDS,
    )


def host_features() -> dict[str, bool]:
    """LLVM's names of this processor's features: by LLVM, or by what the system says where LLVM is not installed."""
    try:
        import llvmlite.binding as llvm
    except ModuleNotFoundError:
        return {name: flag_of(name) in cpu_flags() for name in READ_FEATURES}
    return dict(llvm.get_host_cpu_features())


def memory_bytes() -> int:
    """Bytes of memory that this process may have: the machine's, or what its control groups grant; 0 where unknown."""
    found = [machine_memory_bytes()]
    for group in control_groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            words = _words(group / name)
            found += [int(word) for word in words if len(words) == 1 and word.isdecimal() and int(word)]
    return min(found)


def machine_memory_bytes() -> int:
    """Bytes of memory that the machine has; 0 where unknown."""
    with suppress(AttributeError, ValueError, OSError):
        return max(0, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return 0


def vector_registers(features: dict[str, bool], machine: str, sve_bytes: int = 0) -> tuple[int, int]:
    """Number of vector registers and bytes of one, from LLVM's names of the CPU's features. `sve_bytes`: of SVE's
    vectors, where code is for this length alone; else Arm's registers are NEON's."""
    if machine not in ("x86_64", "AMD64"):
        return 32, max(NEON_BYTES, sve_bytes)
    if all(features.get(f"avx512{part}") for part in ("f", "bw", "dq", "vl")):
        return 32, 64
    return 16, 32 if features.get("avx2") else 16


def dot_units(features: dict[str, bool], machine: str, sve_bytes: int = 0) -> tuple[str, ...]:
    """Names of the dot units for whole vector registers, from LLVM's names of the CPU's features, and SVE's
    length as in `vector_registers`."""
    _, register_bytes = vector_registers(features, machine, sve_bytes)
    if is_arm(machine):
        kind, products = ("sve", "sve") if register_bytes > NEON_BYTES else ("neon", "dotprod")
        names = {"i8mm": ("mmla-int8", "i8mm"), products: ("dotprod",), "bf16": ("mmla-bf16", "bf16")}
        return tuple(f"{kind}-{name}" for feature, each in names.items() if features.get(feature) for name in each)
    if machine not in ("x86_64", "AMD64") or register_bytes < 32:
        return ()
    wide = register_bytes == 64
    tiles = wide and features.get("amx-tile")
    found = {
        "amx-int8": tiles and features.get("amx-int8"),
        "amx-bf16": tiles and features.get("amx-bf16"),
        "amx-fp16": tiles and features.get("amx-fp16"),
        "amx-bf16-split": tiles and features.get("amx-bf16") and not features.get("amx-fp16"),
        "vnni-int8": not wide and features.get("avxvnniint8"),
        "vnni": features.get("avx512vnni") if wide else features.get("avxvnni"),
        "avx512-bf16": wide and features.get("avx512bf16"),
    }
    return tuple(name for name in found if found[name])


def is_arm(machine: str) -> bool:
    """Whether a machine, as `platform` names it, is a 64-bit Arm."""
    return machine in ("aarch64", "arm64")


def granted(units: tuple[str, ...]) -> tuple[str, ...]:
    """The units that this process may use: matrix units need the system's permission, which is asked for."""
    if not any(DOT_UNITS[name].is_matrix for name in units) or ask_for_matrices():
        return units
    return tuple(name for name in units if not DOT_UNITS[name].is_matrix)


@functools.cache
def ask_for_matrices() -> bool:
    """Ask the system once for the registers of AMX, for all threads and later forks; whether it grants them."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        result: int = ctypes.CDLL(None, use_errno=True).syscall(ARCH_PRCTL, REQUEST_PERMISSION, MATRIX_DATA)
    except (OSError, AttributeError):
        return False
    return result == 0


def usable_cores() -> int:
    """Cores that this process may use: the smaller of its affinity and its control groups' quotas, at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *_quotas()]))


def control_groups(controller: str) -> list[Path]:
    """Folders of the control groups that this process is in, for `cpu` or `memory`: of version 2, which has one for
    all, and of version 1. A group grants no more than those around it, up to the root: of a container, its own."""
    found = {CGROUPS: None, CGROUPS / controller: None}
    for line in _lines(OWN_GROUPS):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        parts = PurePosixPath(path).parts[1:]
        if ".." in parts or (controllers and controller not in controllers.split(",")):
            continue  # a group outside of the container, or of other controllers
        root = CGROUPS / controller if controllers else CGROUPS
        found |= dict.fromkeys(root.joinpath(*parts[: number + 1]) for number in range(len(parts)))
    return list(found)


def _quotas() -> Iterable[int]:
    """Whole cores that control groups grant, rounded up: version 2's `cpu.max`, version 1's quota and period."""
    for group in control_groups("cpu"):
        if len(pair := _words(group / "cpu.max")) == 2:
            yield from _cores(*pair)
        quota, period = _words(group / "cpu.cfs_quota_us"), _words(group / "cpu.cfs_period_us")
        if quota and period:
            yield from _cores(quota[0], period[0])


def _cores(quota: str, period: str) -> Iterable[int]:
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        yield -(-int(quota) // int(period))


def cache_bytes(level: int, shared_out: bool, folder: Path = CACHES) -> int:
    """Bytes of core 0's cache of a level, divided by the cores that share it if `shared_out`; 0 where unknown."""
    for entry in sorted(folder.glob("index*")):
        if _words(entry / "level") != [str(level)] or _words(entry / "type") == ["Instruction"]:
            continue
        size = _bytes("".join(_words(entry / "size")))
        return size // max(1, _count("".join(_words(entry / "shared_cpu_list")))) if shared_out else size
    return 0


def way_bytes(level: int, folder: Path = CACHES) -> int:
    """Bytes after which addresses share their places in core 0's cache of a level; 0 where unknown."""
    for entry in sorted(folder.glob("index*")):
        if _words(entry / "level") == [str(level)] and _words(entry / "type") != ["Instruction"]:
            counts = ["".join(_words(entry / name)) for name in ("number_of_sets", "coherency_line_size")]
            return prod(int(count) if count.isdecimal() else 0 for count in counts)
    return 0


def _words(file: Path) -> list[str]:
    """The words of a small file; none where it cannot be read."""
    return [word for line in _lines(file) for word in line.split()]


def _lines(file: Path) -> list[str]:
    """The lines of a small file; none where it cannot be read."""
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _bytes(text: str) -> int:
    """`1024K` or `32M` in bytes; 0 where it is neither."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    return int(number) * unit if number.isdecimal() else 0


def _count(ranges: str) -> int:
    """Cores in a list such as `0-3,8`."""
    ends = [part.split("-") for part in ranges.split(",") if part]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)
