"""Gradients that two devices exchange while they compute, over the same link as what is swapped.

Each device has half of the batch and the same schedule. A gradient goes to the host and the other device's comes back,
as soon as backward has written it last, in order, and before the first operation that reads it then. Its bytes stay on
the device, and take no room on the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .trace import MemoryTrace


@dataclass(frozen=True, slots=True)
class Exchange:
    """Of a tensor, from the end of the operation `ready` on, before the operation `next` starts."""

    tensor: int
    ready: int
    next: int


def gradient_exchanges(trace: MemoryTrace, name: str) -> tuple[Exchange, ...]:
    """Return the exchanges of tensors with `name` in their names that are written, and then read without that."""
    return tuple(sorted(_exchanges(trace, name), key=lambda each: (each.ready, each.tensor)))


def after_backward(exchanges: Sequence[Exchange]) -> tuple[Exchange, ...]:
    """Return the same, all together when the last gradient is ready that is needed no earlier than that."""
    last = max((each.ready for each in exchanges), default=0)
    return tuple(replace(each, ready=last) if each.next > last else each for each in exchanges)


def _exchanges(trace: MemoryTrace, name: str) -> Iterator[Exchange]:
    named = {number for number, each in enumerate(trace.tensors) if name in each.name}
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    for at, op in enumerate(trace.operations):
        for number in named.intersection((*op.reads, *op.writes)).difference(read):
            if number in op.writes:
                written[number] = at
            elif number in written:
                read[number] = at
    yield from (Exchange(number, written[number], at) for number, at in read.items())
