"""Check a binary's own figures against limits: they decide where the predicted needs are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..analysis.needs.needs import SPILL_ALLOWANCE
from ..errors import PlanError, SourceRange
from ..limits import Limits
from ..occupancy import BinaryUse, Occupancy, occupancy


class Resource(StrEnum):
    """A resource that can be short."""

    SHARED = "shared memory"
    THREADS = "threads"
    REGISTERS = "registers"
    TENSOR_MEMORY = "tensor memory"
    SWAP = "memory"
    PROGRAMS = "programs"
    CODE = "code"
    """Its compiler gave none: it refused, took too long or too much memory."""


@dataclass(frozen=True)
class Shortage:
    """Why a plan's code cannot run, or should not.

    `needed` and `allowed` are in the resource's own units, 0 where unknown. `place`: the author's line that is
    the cause, where one is; `help`: what the author can do.
    """

    lack: Resource
    needed: float
    allowed: float
    reason: str
    place: SourceRange | None = None
    help: str = ""


class OutOfResources(PlanError):
    """A plan's code takes more of something than there is. `shortage`: of what."""

    def __init__(self, shortage: Shortage, what: str = ""):
        self.shortage = shortage
        super().__init__(f"{what} {shortage.reason}" if what else shortage.reason, shortage.place, help=shortage.help)


class RefusedCodeError(OutOfResources):
    """A compiler refuses a plan's code: a mistake of vkernels or of the compiler, or a limitation that the model does
    not know."""


@dataclass(frozen=True)
class BinaryResources:
    """What one launch takes, as its binary's tables say. `stack`: bytes a thread, where spilled registers go;
    `tensor_memory`: columns."""

    use: BinaryUse
    stack: int = 0
    tensor_memory: int = 0


def held(taken: BinaryResources, limits: Limits) -> Occupancy:
    """How many programs a multiprocessor holds. `limits`: a GPU's."""
    assert limits.sizes is not None, "a GPU says how many programs a multiprocessor holds"
    return occupancy(limits.sizes, taken.use)


def misfit(taken: BinaryResources, limits: Limits) -> Shortage | None:
    """Why a launch cannot run within a GPU's limits; None if it can."""
    use = taken.use
    for lack, needed, allowed, what in (
        (Resource.SHARED, use.shared, limits.shared, "B of shared memory"),
        (Resource.THREADS, use.threads, limits.threads, "threads a program"),
        (Resource.TENSOR_MEMORY, taken.tensor_memory, limits.tensor_memory, "columns of tensor memory"),
    ):
        if needed > allowed:
            return Shortage(lack, needed, allowed, f"needs {needed} {what}, has {allowed}")
    found = held(taken, limits)
    if found.blocks:
        return None
    what = " and ".join(found.limited_by)
    lack = Resource.SHARED if "shared" in found.limited_by else Resource.REGISTERS
    reason = f"not one program fits: {use.threads} threads of {use.registers} registers exceed {what}"
    return Shortage(lack, 0, 0, reason)


def spill(taken: BinaryResources) -> Shortage | None:
    """Why a launch that can run should not: its threads spill more than a plan may; None if they don't."""
    if taken.stack <= SPILL_ALLOWANCE:
        return None
    reason = f"spills {taken.stack} B a thread, {SPILL_ALLOWANCE} are no harm"
    return Shortage(Resource.REGISTERS, taken.use.registers + taken.stack / 4, taken.use.registers, reason)
