"""One kernel on one device: whether it fits, and the resources of its binaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vkernels.compiler.backends.resources import Resources, taken_by
from vkernels.ir.occupancy import Occupancy
from vkernels.ir.planning.resources import held, misfit
from vkernels.targets import Target, limits_of

from .plan_summary import PlanSummary


@dataclass(frozen=True)
class LaunchUse:
    """What a binary takes, whatever device of its architecture it runs on.

    `threads`: of a program. `seconds`: how long it took to compile, when that was done. `global_scratch`: bytes of
    memory that Triton itself wants for each program.
    """

    threads: int
    resources: Resources
    seconds: float
    global_scratch: int = 0


@dataclass(frozen=True)
class LaunchFailure:
    """Why there is no binary, and how long the attempt took."""

    reason: str
    seconds: float


@dataclass(frozen=True)
class CellLaunch:
    """One launch on one device. `use` and `occupancy` are None without a binary."""

    name: str
    fits: bool
    reason: str
    seconds: float
    use: LaunchUse | None = None
    occupancy: Occupancy | None = None


@dataclass(frozen=True)
class Cell:
    """One kernel on one device.

    `kernel`: its name, FILE.py:NAME if it is a user's. `dtype`, `shape`, `configuration`: what it was compiled for; a
    configuration is a plain Triton kernel's constants and options. The worst launch decides. `unknown`: why nobody can
    tell whether it fits, as where Triton has no compiler for the device; empty if it was compiled. `planned`: None of a
    plain Triton kernel, and where there is no plan. `tensor_bytes`: of all tensors; `swap_bytes`: of all memory that a
    call takes beside them. `misfit`: why the call does not fit though each launch does.
    """

    kernel: str
    target: str
    architecture: str
    dtype: str
    shape: Mapping[str, int]
    configuration: Mapping[str, Any]
    launches: tuple[CellLaunch, ...] = ()
    unknown: str = ""
    planned: PlanSummary | None = None
    tensor_bytes: int | None = None
    swap_bytes: int | None = None
    misfit: str = ""

    @property
    def fits(self) -> bool | None:
        """Whether all launches and their memory fit; None if unknown."""
        return None if self.unknown else not self.misfit and all(launch.fits for launch in self.launches)

    @property
    def reason(self) -> str:
        """Why the kernel does not fit, or why that is unknown; empty if it fits."""
        return self.unknown or next((launch.reason for launch in self.launches if not launch.fits), self.misfit)

    @property
    def registers_per_thread(self) -> int | None:
        return max((use.resources.registers for use in self._uses()), default=None)

    @property
    def shared_bytes(self) -> int | None:
        return max((use.resources.shared for use in self._uses()), default=None)

    @property
    def spill_bytes(self) -> int | None:
        return max((use.resources.spill_bytes for use in self._uses()), default=None)

    @property
    def blocks_per_multiprocessor(self) -> int | None:
        return min((occupancy.blocks for occupancy in self._occupancies()), default=None)

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that limit occupancy, in the launch with the lowest."""
        fewest = min(self._occupancies(), key=lambda o: o.blocks, default=None)
        return () if fewest is None else fewest.limited_by

    @property
    def compile_seconds(self) -> float:
        """Of all launches together, when each was compiled; cells that share a binary share the time too."""
        return sum(launch.seconds for launch in self.launches)

    def _uses(self) -> Iterator[LaunchUse]:
        return (launch.use for launch in self.launches if launch.use is not None)

    def _occupancies(self) -> Iterator[Occupancy]:
        return (launch.occupancy for launch in self.launches if launch.occupancy is not None)


def judge(name: str, found: LaunchUse | LaunchFailure, target: Target) -> CellLaunch:
    """Judge a launch on a device, from its binary's resources and the device's limits."""
    if isinstance(found, LaunchFailure):
        return CellLaunch(name, False, found.reason, found.seconds)
    taken, limits = taken_by(found.resources, found.threads), limits_of(target)
    short = misfit(taken, limits)
    reason = "" if short is None else short.reason
    return CellLaunch(name, short is None, reason, found.seconds, found, held(taken, limits))
