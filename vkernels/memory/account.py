"""An account of a device's memory, and of the time of the link to its host, that several tasks share.

`limit` and `placement.task.PlacedTask` enter their tasks. Each asks for as many bytes as it would use; where they
want more than there is, small wishes are met and the others get equal parts. When a task comes, goes, or moves more
or less over the link, the others decide again before their next call.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

from vkernels.ir.errors import ArgumentError, OutOfMemoryError
from vkernels.ir.fork_safe import fork_safe_lock

LINK_STEP = 0.05
"""Parts of the link's time are multiples of it: smaller changes change nothing for others."""


@dataclass(frozen=True)
class Share:
    """What a task may have: bytes of the device's memory, and a part of the link's time, at most 1."""

    bytes: float
    link: float = 1.0


class Tenant:
    """A task on an account, from `MemoryAccount.enter`. `bytes`: that it holds; `link`: the part of the time that it
    keeps the link busy."""

    def __init__(self, account: MemoryAccount, name: str, wants: float) -> None:
        self.account, self.name, self.wants = account, name, wants
        self.bytes = 0
        self.link = 0.0

    @property
    def share(self) -> Share:
        """What it may have now, whatever it holds: others may still hold more than their share of the bytes."""
        return self.account.share_of(self)

    @property
    def free(self) -> float:
        """The bytes that others do not hold now."""
        return self.account.free_for(self)

    def hold(self, size: int) -> None:
        """Hold so many bytes from now on. Raises `OutOfMemoryError` if others hold too many."""
        self.account.hold(self, size)

    def want(self, size: float) -> None:
        """Use at most so many bytes from now on."""
        self.account.want(self, size)

    def use_link(self, part: float) -> None:
        """Keep the link busy for this part of the time, from 0 to 1; it is rounded to 5 %."""
        self.account.use_link(self, min(1.0, max(0.0, part)))

    def leave(self) -> None:
        """Give everything back. Again, this does nothing."""
        self.account.leave(self)


class MemoryAccount:
    """The memory of one device, of so many bytes, and its link. Tasks of all threads may share it.

    `version` changes when what tasks may have does. Raises `ArgumentError` for no positive number of bytes.
    """

    def __init__(self, size: float = inf) -> None:
        if isinstance(size, bool) or not isinstance(size, int | float) or not size > 0:
            raise ArgumentError(f"account: expected a positive number of bytes, got {size!r}")
        self.size, self.version = size, 0
        self._tenants: list[Tenant] = []
        self._lock = fork_safe_lock()

    @property
    def tenants(self) -> tuple[Tenant, ...]:
        """The tasks, in the order in which they came."""
        return tuple(self._tenants)

    def enter(self, name: str, wants: float = inf) -> Tenant:
        """A new task, which would use at most so many bytes."""
        with self._lock:
            tenant = Tenant(self, name, wants)
            self._tenants.append(tenant)
            self.version += 1
        return tenant

    def leave(self, tenant: Tenant) -> None:
        """Give back what a task has."""
        with self._lock:
            if tenant in self._tenants:
                self._tenants.remove(tenant)
                self.version += 1
            tenant.bytes, tenant.link = 0, 0.0

    def share_of(self, tenant: Tenant) -> Share:
        """What a task may have: its part of the bytes, and what others leave of the link, at least an equal part."""
        with self._lock:
            others = [each for each in self._tenants if each is not tenant]
            moving = [each.link for each in others if each.link > 0]
            link = max(1 / (1 + len(moving)), 1 - sum(moving))
            return Share(_part(tenant.wants, [each.wants for each in others], self.size), link)

    def free_for(self, tenant: Tenant) -> float:
        """The bytes that others do not hold."""
        with self._lock:
            return self.size - sum(each.bytes for each in self._tenants if each is not tenant)

    def hold(self, tenant: Tenant, size: int) -> None:
        """Let a task hold so many bytes. Raises `OutOfMemoryError` if others hold too many."""
        with self._lock:
            others = [each for each in self._tenants if each is not tenant and each.bytes]
            left = self.size - sum(each.bytes for each in others)
            if size > left:
                held = ", ".join(f"{each.name} {each.bytes}" for each in others)
                raise OutOfMemoryError(f"{tenant.name}: {size} bytes of {self.size}, of which others hold {held}")
            tenant.bytes = size

    def want(self, tenant: Tenant, size: float) -> None:
        """Note how many bytes a task would use at most."""
        with self._lock:
            if size != tenant.wants:
                tenant.wants = size
                self.version += 1

    def use_link(self, tenant: Tenant, part: float) -> None:
        """Note for which part of the time a task keeps the link busy."""
        rounded = round(part / LINK_STEP) * LINK_STEP
        with self._lock:
            if rounded != tenant.link:
                tenant.link = rounded
                self.version += 1


def _part(own: float, others: list[float], size: float) -> float:
    """What one of several gets that want so much of a size: small wishes are met, the others get equal parts."""
    left, count = size, len(others) + 1
    for wish in sorted([own, *others]):
        equal = left / count
        if wish > equal:
            return min(own, equal) if isfinite(equal) else own
        left, count = left - wish, count - 1
    return own
