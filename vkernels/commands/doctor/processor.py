"""The CPU: what this process may use of it, and how the system runs it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from vkernels.targets.cpu_rates import known_cpu_rates
from vkernels.targets.host_cpu import cpu_limits, machine_memory_bytes, memory_bytes
from vkernels.targets.processor import this_processor

from .finding import Finding, Status

AREA = "processor"
SYSTEM = Path("/sys")
GOVERNORS = "devices/system/cpu/cpu*/cpufreq/scaling_governor"
HUGE_PAGES = "kernel/mm/transparent_hugepage/enabled"


def processor(system: Path = SYSTEM) -> Iterator[Finding]:
    """`system`: where Linux shows what it has set."""
    limits = cpu_limits()
    yield Finding(AREA, "name", this_processor().name or "unknown")
    bits = 8 * limits.register_bytes
    units = ", ".join(limits.dot_units) or "no dot units"
    yield Finding(AREA, "instructions", f"{limits.registers} vector registers of {bits} bits; {units}")
    yield _cores(limits.multiprocessors)
    yield _memory(memory_bytes(), machine_memory_bytes())
    yield from _governors(system)
    yield from _huge_pages(system)
    yield _rates()


def _cores(usable: int) -> Finding:
    machine = os.cpu_count() or usable
    if usable >= machine:
        return Finding(AREA, "cores", f"all {machine}")
    advice = "affinity or a control group leaves no more to this process"
    return Finding(AREA, "cores", f"{usable} of {machine}", Status.NOTE, advice)


def _memory(usable: int, machine: int) -> Finding:
    if usable >= machine:
        return Finding(AREA, "memory", f"{usable / 2**30:.1f} GiB")
    shown = f"{usable / 2**30:.1f} of {machine / 2**30:.1f} GiB"
    return Finding(AREA, "memory", shown, Status.NOTE, "a control group leaves no more to this process")


def _governors(system: Path) -> Iterator[Finding]:
    found = Counter(text for path in system.glob(GOVERNORS) if (text := _text(path)))
    if not found:
        return
    shown = ", ".join(f"{name} on {count}" for name, count in found.most_common())
    if set(found) == {"performance"}:
        yield Finding(AREA, "frequency governor", shown)
    else:
        advice = "cores may be slow at first; measurements are steadier with `performance`"
        yield Finding(AREA, "frequency governor", shown, Status.NOTE, advice)


def _huge_pages(system: Path) -> Iterator[Finding]:
    text = _text(system / HUGE_PAGES)
    chosen = text.partition("[")[2].partition("]")[0]
    if chosen == "never":
        advice = f"large tensors miss the TLB more often; `madvise` in {SYSTEM / HUGE_PAGES} lets programs ask for them"
        yield Finding(AREA, "huge pages", chosen, Status.NOTE, advice)
    elif chosen:
        yield Finding(AREA, "huge pages", chosen)


def _rates() -> Finding:
    if known_cpu_rates() is not None:
        return Finding(AREA, "rates", "measured on this machine")
    advice = "plans are chosen by its family's rates; `vk targets --calibrate` measures this machine's in seconds"
    return Finding(AREA, "rates", "not measured", Status.NOTE, advice)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
