"""What the host computes of a call's sizes before launches on a GPU, as it was recorded when the bundle was built."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from vkernels.ir.errors import BundleError
from vkernels.ir.launch_arguments import SIZE_ARITHMETIC, SWAP_ALIGNMENT, HostArguments

from .manifest import MOST, GpuHost, HostBytes


def host_arguments(host: GpuHost, sizes: Mapping[str, int], where: str) -> HostArguments:
    """Bytes of buffers and of swap space, and programs of each launch, for a call's sizes. `where`: the bundle's name.

    Raises `BundleError` for a record that contradicts itself, and for numbers beyond 62 bits.
    """
    values: list[int] = []
    for step in host.steps:
        if step.does == "size":
            if step.size not in sizes:
                raise BundleError(f"{where}: code takes a size that its kernel does not have: {step.size}")
            value = sizes[step.size]
        elif step.does == "value":
            value = step.value
        else:
            one, other = (_of(values, number, where) for number in step.of) if len(step.of) == 2 else (0, 0)
            value = SIZE_ARITHMETIC[step.does](one, other)
        values.append(_within(value, where))

    def size(each: HostBytes) -> int:
        counts = (max(0, _of(values, number, where)) for number in each.dimensions)
        return _within(prod(counts) * each.element, where)

    return HostArguments(
        tuple(map(size, host.buffers)),
        tuple(
            _within(prod(max(0, _of(values, number, where)) for number in grid), where) for grid in host.programs
        ),
        tuple(
            sum(-(-size(each) // SWAP_ALIGNMENT) * SWAP_ALIGNMENT for each in launch) for launch in host.swap
        ),
    )  # fmt: skip


def _of(values: list[int], number: int, where: str) -> int:
    if number >= len(values):
        raise BundleError(f"{where}: a number of sizes is used before it is computed")
    return values[number]


def _within(value: int, where: str) -> int:
    if abs(value) > MOST:
        raise BundleError(f"{where}: a number of sizes has more than 62 bits")
    return value
