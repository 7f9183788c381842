"""What cached calls of a kernel have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vkernels.compiler.arguments import Arguments, Same
from vkernels.compiler.protocols import Constant

from . import events
from .bind_arguments import bind
from .like_calls import Addresses, addresses_if_like

if TYPE_CHECKING:
    from vkernels.compiler.code_providers import CodeProvider
    from vkernels.compiler.compilation import Compilation

NONE_YET: tuple[Any, Addresses] = None, lambda values: None
"""No latest call."""


class Runnable(Protocol):
    """Code bound to a call's layout; addresses and scalars are given in the order of the parameters.

    `is_repeatable`: whether calls recorded by library functions may run it again. `is_settled`: whether calls no longer
    try out how many threads they take.
    """

    is_repeatable: bool

    @property
    def is_settled(self) -> bool: ...
    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None: ...
    def launch_record(self) -> events.LaunchRecord: ...


@dataclass
class CallEntry:
    """What calls with one key have in common. Positions count arguments, numbers count tensors.

    `compilation`: of the first of these calls; `counters`: the kernel's. `constants`: the values of the tunable
    constants that the calls leave open, by position. `readers`: position of each tensor, and a function that gives its
    address. `scalars`: position of each scalar, and its name in messages. `extents`: number, position, bytes and
    itemsize of each torch tensor with elements, as its storage may have been resized since. `pairs`: two tensors, the
    first of them written, and the distances of their addresses, exclusive, between which they may share memory.
    `tracked`: positions of the written torch tensors, which `count_writes` is called with.

    `distinct`: the code of calls whose tensors share no memory; `shared`: the code of other calls, by the tensors that
    are the same; `same_by_distances`: which these are. `providers`: of code on a CPU, until the best is there; a GPU's
    runnable has its own. `looked_up`: how often it was found by its key; `like`: what tells calls like these.
    """

    compilation: Compilation
    constants: Mapping[int, Constant]
    readers: tuple[tuple[int, Callable[[Any], int]], ...]
    scalars: tuple[tuple[int, str], ...]
    extents: tuple[tuple[int, int, int, int], ...]
    pairs: tuple[tuple[int, int, int, int], ...]
    tracked: tuple[int, ...]
    count_writes: Callable[[Sequence[Any]], object]
    counters: events.Counters
    call_record: events.CallRecord
    distinct: Runnable | None = None
    shared: dict[Same, Runnable] = field(default_factory=dict)
    same_by_distances: dict[tuple[int, ...], Same] = field(default_factory=dict)
    providers: dict[Same, CodeProvider[Runnable]] = field(default_factory=dict)
    looked_up: int = 0
    like: Addresses | None = None

    def put(self, same: Same, runnable: Runnable | None) -> None:
        """Let calls run this from now on; None: ask the provider again."""
        if not same:
            self.distinct = runnable
        elif runnable is None:
            self.shared.pop(same, None)
        else:
            self.shared[same] = runnable

    def addresses_if_like(self, values: Sequence[Any], describe: Sequence[Callable[[Any], object]]) -> Addresses:
        """What tells calls like one with these values. `describe`: what makes each argument's part of a key."""
        if self.like is None:
            tensors = [position for position, _ in self.readers]
            self.like = addresses_if_like(values, describe, tensors, self.extents) or NONE_YET[1]
        return self.like

    def bind(self, values: Sequence[Any]) -> Arguments:
        """The arguments of a call, with the constants that it leaves open."""
        return bind(self.compilation.request.kernel, filled(values, self.constants))


def filled(values: Sequence[Any], constants: Mapping[int, Constant]) -> Sequence[Any]:
    """Arguments, with the constants that a call leaves open."""
    return [constants.get(number, value) for number, value in enumerate(values)]


def version_counter(torch: Any) -> Callable[[Sequence[Any]], object]:
    """Torch's function that counts writes of tensors, without Python around it."""
    function: Callable[[Sequence[Any]], object] = getattr(
        torch._C, "_increment_version", torch.autograd.graph.increment_version
    )
    return function
