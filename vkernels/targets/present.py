"""The devices of this machine, with the limits that their drivers report."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

from vkernels.ir.limits import Limits
from vkernels.ir.occupancy import AmdSizes, NvidiaSizes

from .cpu_rates import CpuRates, family_cpu_rates, host_level_1, known_cpu_rates
from .entries import KINDS, MAY_BE_ZERO
from .host_cpu import cpu_limits
from .processor import this_processor
from .table import known_targets
from .target import CpuSizes, PeakRates, Target

PROBE = Path(__file__).parent / "probe.py"
DRIVER_SECONDS = 30.0  # a driver that nothing keeps awake takes seconds for each device
ALIKE = 0.06  # of memory: what drivers keep for themselves

Vendor = Literal["nvidia", "amd"]
VENDORS: tuple[Vendor, ...] = ("nvidia", "amd")

# Fields that drivers do not report: they are taken from a known device.
UNSAID = (
    *("register_unit", "partitions", "shared_unit", "barriers", "thread_registers"),
    *("tensor_memory", "float32_tflops", "float16_tflops", "float16_in_float16_tflops"),
)


def present_targets(patience: float = DRIVER_SECONDS) -> tuple[Target, ...]:
    """GPUs that NVIDIA's and AMD's drivers enumerate here, in their order, then the CPU.

    Keys are `nvidia:0`, `amd:0`, …, `cpu`. A MIG instance has the sizes that its driver reports. Fields that a driver
    does not report come from the known device `like` it, and are listed as `unverified` unless it is that device.
    Nothing fails or hangs: a driver that does not answer for `patience` seconds has no devices.
    """
    asked = [(vendor, _ask(vendor)) for vendor in VENDORS]  # at the same time, each in its own process
    gpus: list[Target] = []
    for vendor, process in asked:
        for number, said in enumerate(_answer(process, patience)):
            with suppress(KeyError, TypeError, ValueError, ZeroDivisionError):  # an answer that makes no sense
                gpus.append(gpu_target(vendor, f"{vendor}:{number}", said))
    return (*gpus, present_cpu())


def _ask(vendor: Vendor) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            [sys.executable, "-I", str(PROBE), vendor],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


def _answer(process: subprocess.Popen[bytes] | None, patience: float) -> list[dict[str, Any]]:
    if process is None:
        return []
    try:
        output, _ = process.communicate(timeout=patience)
        devices = json.loads(output)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # a driver deep in the kernel may not even die
            process.communicate(timeout=1)
        return []
    except ValueError:
        return []
    return [device for device in devices if isinstance(device, dict)] if isinstance(devices, list) else []


def gpu_target(vendor: Vendor, key: str, said: Mapping[str, Any]) -> Target:
    """The device that `probe.py` describes, as a target; peaks scale with multiprocessors and clock.

    Raises `KeyError`, `TypeError`, `ValueError` or `ZeroDivisionError` where that makes no sense.
    """
    architecture = f"sm_{said['major']}{said['minor']}" if vendor == "nvidia" else said["architecture"].split(":")[0]
    if not re.fullmatch(KINDS[vendor][1], architecture):
        raise ValueError(f"the architecture is {architecture!r}")
    known = _nearest(vendor, architecture, said)
    same = _is_same(known, architecture, said)
    target = replace(
        known,
        key=key,
        name=said["name"],
        architecture=architecture,
        generation=known.generation if architecture == known.architecture else "",
        multiprocessors=_positive(said, "multiprocessors"),
        memory=_positive(said, "memory"),
        level_2=_positive(said, "level_2"),
        sizes=_sizes(known, said),
        integrated=bool(said.get("integrated", known.integrated)),
        note="",
        sources={},
        like=known.key,
    )
    if vendor == "nvidia":
        target = replace(target, cache=target.level_2)
    return target if same else replace(target, rates=_scaled(known, said), slices=(), unverified=UNSAID)


def _sizes(known: Target, said: Mapping[str, Any]) -> NvidiaSizes | AmdSizes:
    """The sizes of the known device, replaced by those that the driver reports."""
    if isinstance(known.sizes, AmdSizes):
        return replace(known.sizes, **_said_of(AmdSizes, said))
    if isinstance(known.sizes, NvidiaSizes):
        warps = {"warps": said["threads"] // said["warp"]} if "threads" in said else {}
        return replace(known.sizes, **_said_of(NvidiaSizes, said), **warps)
    raise TypeError("a CPU is no GPU")


def _said_of(kind: type, said: Mapping[str, Any]) -> dict[str, Any]:
    own = {field.name for field in fields(kind)} & said.keys()
    return {name: said[name] if name in MAY_BE_ZERO else _positive(said, name) for name in own}


def _scaled(known: Target, said: Mapping[str, Any]) -> PeakRates | None:
    if known.rates is None:
        return None
    clock = said["clock_khz"] / 1e3 or known.rates.clock_mhz
    scale = said["multiprocessors"] * clock / (known.multiprocessors * known.rates.clock_mhz)
    float16, in_float16 = known.rates.float16_tflops, known.rates.float16_in_float16_tflops
    return PeakRates(
        clock_mhz=clock,
        memory_gb_s=_bandwidth(said) or known.rates.memory_gb_s,
        float32_tflops=known.rates.float32_tflops * scale,
        float16_tflops=float16 and float16 * scale,
        float16_in_float16_tflops=in_float16 and in_float16 * scale,
    )


def _bandwidth(said: Mapping[str, Any]) -> float:
    """GB/s: twice the memory's clock times its width; 0 if the driver does not report them."""
    return float(2 * said.get("memory_clock_khz", 0) * 1e3 * said.get("memory_bits", 0) / 8 / 1e9)


def _nearest(vendor: Vendor, architecture: str, said: Mapping[str, Any]) -> Target:
    """The most similar known device: of the same architecture, else of the last one before it."""
    ours = [target for target in known_targets().values() if target.vendor == vendor]
    numbers = {_number(target.architecture) for target in ours}
    number = max((known for known in numbers if known <= _number(architecture)), default=min(numbers))
    near = [target for target in ours if _number(target.architecture) == number]
    return min(near, key=lambda target: abs(target.multiprocessors - said["multiprocessors"]) + _apart(target, said))


def _number(architecture: str) -> int:
    """`sm_90` as 0x90, `gfx90a` as 0x90a: ordered by release."""
    return int(architecture.lstrip("smgfx_"), 16)


def _apart(target: Target, said: Mapping[str, Any]) -> float:
    return abs(target.memory - _positive(said, "memory")) / target.memory


def _is_same(known: Target, architecture: str, said: Mapping[str, Any]) -> bool:
    """Whether this is the whole known device. Names are not compared: drivers and vendors use different ones."""
    alike = known.multiprocessors == said["multiprocessors"] and _apart(known, said) < ALIKE
    return alike and known.architecture == architecture and "MIG" not in said["name"]


def _positive(said: Mapping[str, Any], name: str) -> int:
    value = said[name]
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}")
    return value


def present_cpu() -> Target:
    """The CPU, with the cores that this process may use. Rates that were not measured are its family's, unverified."""
    measured = known_cpu_rates()
    found = cpu_target(cpu_limits(), measured or family_cpu_rates(), host_level_1(), cpu_name())
    return found if measured else replace(found, unverified=("rates",))


def cpu_name() -> str:
    """The name of this machine's processor, as the system reports it."""
    return _shown(this_processor().name) or platform.processor() or platform.machine() or "CPU"


def cpu_target(limits: Limits, rates: CpuRates, level_1: int, name: str) -> Target:
    """A CPU with the sizes of some limits, and with these rates. `level_1`: bytes of a core's; 0 where unknown."""
    return Target(
        key="cpu",
        name=name,
        vendor="cpu",
        architecture=platform.machine() or "unknown",
        multiprocessors=limits.multiprocessors,
        memory=limits.memory,
        level_2=limits.shared * limits.multiprocessors,
        cache=limits.cache,
        sizes=CpuSizes(
            limits.shared,
            limits.registers,
            min(limits.register_bytes, rates.register_bytes),
            dot_units=limits.dot_units,
        ),
        rates=PeakRates(
            clock_mhz=rates.clock / 1e6,
            memory_gb_s=rates.memory / 1e9,
            float32_tflops=2 * rates.multiply_adds / 1e12,
            cache_gb_s=rates.cache / 1e9,
            shared_gb_s=rates.shared / 1e9,
            multiprocessor_gb_s=rates.core_memory / 1e9,
            multiprocessor_cache_gb_s=rates.core_cache / 1e9,
            launch_microseconds=rates.launch * 1e6,
        ),
        core=rates.core_costs(level_1),
    )


def _shown(name: str) -> str:
    return name if name.isprintable() else ""
