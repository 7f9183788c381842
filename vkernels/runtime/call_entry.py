"""Calls with one key: what is done for each of them, and the code that they run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from vkernels.compiler.arguments import Arguments, Same
from vkernels.compiler.code_providers import CodeProvider
from vkernels.compiler.compile_cpu import CompiledCpu
from vkernels.compiler.protocols import KernelLike, file_of
from vkernels.ir.plan import Plan

from .arrays import address_reader, is_torch
from .bind_tunables import ResolvedTunables
from .bound_executable import BoundExecutable
from .events import CallRecord, Counters, LaunchRecord

_modules = sys.modules


class Runnable(Protocol):
    """Code bound to a call's layout; addresses and scalars are given in the order of the parameters."""

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None: ...
    def launch_record(self) -> LaunchRecord: ...


@dataclass
class CallEntry:
    """What calls with one key have in common. Positions count arguments, numbers count tensors.

    `readers`: position of each tensor, and a function that gives its address. `scalars`: position of each scalar, and
    its name in messages. `extents`: number, position, bytes and itemsize of each torch tensor with elements, as its
    storage may have been resized since. `pairs`: two tensors, the first of them written, and the distances of their
    addresses, exclusive, between which they may share memory. `tracked`: positions of the written torch tensors, which
    `count_writes` is called with. `tunables`: the constants that the calls leave open.

    `distinct`: what calls run whose tensors share no memory; `shared`: what other calls run, by the tensors that are
    the same; `same_by_distances`: which these are. `providers`: of code on a CPU, until the best is there; a GPU's
    runnable has its own.
    """

    readers: tuple[tuple[int, Callable[[Any], int]], ...]
    scalars: tuple[tuple[int, str], ...]
    extents: tuple[tuple[int, int, int, int], ...]
    pairs: tuple[tuple[int, int, int, int], ...]
    tracked: tuple[int, ...]
    count_writes: Callable[[Sequence[Any]], object]
    counters: Counters
    call_record: CallRecord
    tunables: ResolvedTunables
    distinct: Runnable | None = None
    shared: dict[Same, Runnable] = field(default_factory=dict)
    same_by_distances: dict[tuple[int, ...], Same] = field(default_factory=dict)
    providers: dict[Same, CodeProvider[Runnable]] = field(default_factory=dict)

    def get(self, same: Same) -> Runnable | None:
        """What calls run by now."""
        return self.shared.get(same) if same else self.distinct

    def put(self, same: Same, runnable: Runnable | None) -> None:
        """Let calls run this from now on; None: ask the provider again."""
        if not same:
            self.distinct = runnable
        elif runnable is None:
            self.shared.pop(same, None)
        else:
            self.shared[same] = runnable


def make_entry(
    kernel: KernelLike,
    values: Sequence[Any],
    arguments: Arguments,
    written: Sequence[str],
    tunables: ResolvedTunables,
    counters: Counters,
) -> CallEntry:
    """The entry of calls like this one. `values`: of all parameters; `written`: names of the written tensors."""
    positions = {parameter.name: number for number, parameter in enumerate(kernel.parameters)}
    return CallEntry(
        readers=tuple((positions[name], address_reader(values[positions[name]])) for name in arguments.tensors),
        scalars=tuple((positions[name], f"{kernel.name}: argument `{name}`") for name in arguments.scalars),
        extents=tuple(
            (number, positions[name], view.reach[1], view.itemsize)
            for number, (name, view) in enumerate(arguments.tensors.items())
            if view.size and is_torch(values[positions[name]])
        ),
        pairs=_pairs(written, arguments),
        tracked=tuple(positions[name] for name in written if is_torch(values[positions[name]])),
        count_writes=_version_counter(),
        counters=counters,
        call_record=CallRecord(
            file_of(kernel), arguments.sizes, arguments.dtypes, arguments.constants, tunables.names, tunables.tuned
        ),
        tunables=tunables,
    )


def bind_cpu(kernel: KernelLike, arguments: Arguments, compiled: CompiledCpu, plan: Plan, rung: str) -> BoundExecutable:
    """Bind native code to the layout of a call's arguments."""
    native = compiled.native
    template, tensors, scalars = _layout(kernel, arguments, native.sizes)
    touched = sum(view.size * view.itemsize for view in arguments.tensors.values())
    return BoundExecutable(native, template + [0] * native.buffers, tensors, scalars, touched, plan, rung)


def _pairs(written: Sequence[str], arguments: Arguments) -> tuple[tuple[int, int, int, int], ...]:
    """For each written tensor and each other one, the distances of their addresses between which they may overlap."""
    numbers = {name: number for number, name in enumerate(arguments.tensors)}
    pairs = []
    for name in written:
        low, high = arguments.tensors[name].reach
        for other, view in arguments.tensors.items():
            other_low, other_high = view.reach
            if (other in written and numbers[other] <= numbers[name]) or low == high or other_low == other_high:
                continue
            pairs.append((numbers[name], numbers[other], low - other_high, high - other_low))
    return tuple(pairs)


def _layout(
    kernel: KernelLike, arguments: Arguments, sizes: Sequence[str]
) -> tuple[list[int], list[int], list[tuple[int, bool]]]:
    """The argument slots before the buffers, where tensor addresses go, and where scalars go and whether as f64."""
    template: list[int] = []
    tensors: list[int] = []
    scalars: list[tuple[int, bool]] = []
    for parameter in kernel.parameters:
        if parameter.name in arguments.tensors:
            tensors.append(len(template))
            template += [0, *arguments.tensors[parameter.name].strides]
        elif parameter.name in arguments.scalars:
            scalars.append((len(template), isinstance(arguments.scalars[parameter.name], float)))
            template.append(0)
    return template + [arguments.sizes[name] for name in sizes], tensors, scalars


def _version_counter() -> Callable[[Sequence[Any]], object]:
    """The function that tells autograd of tensors written in place, so that it notices values saved before."""
    torch = _modules.get("torch")
    return tuple if torch is None else torch.autograd.graph.increment_version
