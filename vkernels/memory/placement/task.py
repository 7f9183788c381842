"""A program whose buffers are placed beside other tasks of a device, and placed again when these come or go."""

from __future__ import annotations

from msgspec.structs import replace

from ..account import MemoryAccount, Share
from ..calibration import AccessCosts
from .choose import PlacementDecision, choose
from .program import PlacedProgram


class PlacedTask:
    """A program on a device, by name, with the account that it shares. `limit`: bytes that it has at most.

    Raises `MemoryPlanError` where no placement fits within the limit.
    """

    def __init__(
        self, program: PlacedProgram, access: AccessCosts, account: MemoryAccount, name: str, limit: int | None = None
    ) -> None:
        self._program, self._access, self._account = program, access, account
        self._tenant = account.enter(name, choose(program, access, limit).footprint)
        self._decisions: dict[Share, PlacementDecision] = {}
        self._seen: tuple[int, PlacementDecision] | None = None

    @property
    def decision(self) -> PlacementDecision:
        """The placements to launch with now, chosen with the bytes and the part of the link that other tasks leave.

        Raises `MemoryPlanError` where no placement fits in its part of the bytes, and `OutOfMemoryError` while others
        hold more than theirs.
        """
        version = self._account.version
        if self._seen is not None and self._seen[0] == version:
            return self._seen[1]
        share = self._tenant.share
        found = self._decisions.get(share)
        if found is None:
            found = choose(self._program, with_link(self._access, share.link), int(share.bytes))
            self._decisions[share] = found
        self._tenant.hold(found.footprint)
        self._tenant.use_link(_link_part(found))
        self._seen = version, found
        return found

    def leave(self) -> None:
        """Give its bytes and its part of the link back."""
        self._tenant.leave()


def with_link(access: AccessCosts, part: float) -> AccessCosts:
    """The costs of access over a part of the link's time. An integrated device has no link: its costs stay."""
    if part >= 1 or access.integrated:
        return access
    mapped, managed = access.mapped, access.managed
    rates = {name: part * getattr(mapped, name) for name in ("read", "write", "scattered_read", "scattered_write")}
    if managed is not None:
        moved = ("to_device", "to_host", "prefetch")
        slower = {name: part * rate for name in moved if (rate := getattr(managed, name)) is not None}
        managed = replace(managed, **slower)
    return replace(
        access, to_device=part * access.to_device, to_host=part * access.to_host, mapped=replace(mapped, **rates),
        managed=managed,
    )  # fmt: skip


def _link_part(decision: PlacementDecision) -> float:
    """For which part of its time a program keeps the link busy."""
    busy = sum(each.cost.moving + sum(each.cost.link) for each in decision.choices)
    return busy / decision.seconds if decision.seconds > 0 else 0.0
