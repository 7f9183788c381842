"""The way of a call: remembered where its like was seen before, else bound, planned, specialised and compiled."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.errors import OutOfMemoryError
from vkernels.ir.facts import Facts
from vkernels.ir.in_place import with_one_for
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan

from . import events, recording
from .arguments import Arguments, as_scalar, bind, check_native, in_order
from .arrays import CPU, address_reader, is_torch
from .compiling import Compiled
from .events import Ran, stated_rung
from .interpreting import interpret
from .keys import KEYS, frozen
from .making import Making, Where, here, make_code
from .overlap import Same, check_written, same_tensors
from .prepared import Prepared
from .protocols import KernelLike, Signature, file_of
from .settling import Settled, settle
from .specialise import kernel_in, specialised, written_tensors
from .threads import when_threads_change
from .tuned import when_forgotten
from .way import Finish, Way, with_less

if TYPE_CHECKING:
    from .gpu.calls import GpuCalls
    from .making import Code

__all__ = ["Launcher", "call", "compile", "interpret", "launcher_of", "limits"]

_modules = sys.modules

REMEMBERED_CALLS = 512
"""Shapes that a kernel remembers how to call; the oldest goes first. Each holds its code: some 80 KB of a small one."""

REMEMBERED_CODE = 128
"""Compiled variants that a kernel remembers besides; the oldest goes first. What calls, replays and other threads hold
lives on."""

REMEMBERED_IR = 128
"""Signatures whose IR a kernel remembers; the oldest goes first."""


def call(kernel: KernelLike, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Run a kernel on these arguments.

    Raises `ArgumentError` for arguments that do not fit; errors in the kernel's text and plan at its first call.
    """
    launcher_of(kernel)(*args, **kwargs)


def compile(kernel: KernelLike, args: Sequence[Any], kwargs: Mapping[str, Any], plan: Plan | None = None) -> Code:
    """Compile a kernel as this call would, keeping the text of every stage; `plan` replaces its own."""
    return launcher_of(kernel).compile(args, kwargs, plan)


def launcher_of(kernel: KernelLike) -> Launcher:
    """The launcher that calls of a kernel share."""
    kept = vars(kernel)  # with the kernel itself, so that both go together
    launcher: Launcher | None = kept.get("_launcher")
    return kept.setdefault("_launcher", Launcher(kernel)) if launcher is None else launcher


def limits(device: str = CPU) -> Limits:
    """The limits that plans are made for: a GPU's, or this machine's with the threads that calls may use."""
    return here(device).limits


class Runnable(Protocol):
    """Code that is ready but for addresses and scalars, both in the order of the parameters."""

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None: ...
    def ran(self) -> Ran: ...


@dataclass
class _Entry:
    """How calls with one key go. Positions count arguments. `extents`: number and position of each torch tensor with
    elements, the bytes that these reach over, and an element's, as a storage may have been resized since. `pairs` are
    numbers of tensors, the first of them written, with the distances of their addresses, exclusive, between which they
    may share memory. `distinct`: what calls with memory of its own for each tensor run, `shared`: what others do, by
    the tensors that are the same; `verdicts`: which these are, by distances. `ways`: to the code on a CPU, until the
    best is there; what a GPU runs has its own. `settled`: what the constants are that the calls leave open."""

    readers: tuple[tuple[int, Callable[[Any], int]], ...]
    scalars: tuple[tuple[int, str], ...]
    extents: tuple[tuple[int, int, int, int], ...]
    pairs: tuple[tuple[int, int, int, int], ...]
    tracked: tuple[int, ...]
    count_writes: Callable[[Sequence[Any]], object]
    counters: events.Counters
    called: events.Called
    settled: Settled
    distinct: Runnable | None = None
    shared: dict[Same, Runnable] = field(default_factory=dict)
    verdicts: dict[tuple[int, ...], Same] = field(default_factory=dict)
    ways: dict[Same, Way[Runnable]] = field(default_factory=dict)

    def ready(self, same: Same) -> Runnable | None:
        """What calls run by now."""
        return self.shared.get(same) if same else self.distinct

    def put(self, same: Same, prepared: Runnable | None) -> None:
        """Let calls run this from now on."""
        if not same:
            self.distinct = prepared
        elif prepared is None:
            self.shared.pop(same, None)
        else:
            self.shared[same] = prepared


@dataclass(frozen=True)
class _Built:
    """A kernel's IR for one signature, as written but with one tensor in place of all that are the `same`, and the
    tensors that it writes."""

    module: ModuleOp
    written: tuple[str, ...]
    same: Same = ()


class Launcher:
    """Calls one kernel. Safe to use from several threads: what is new is compiled once."""

    def __init__(self, kernel: KernelLike):
        self.kernel = kernel
        self._counters = events.counters_for(kernel.name)
        self._keys = tuple(KEYS[parameter.kind] for parameter in kernel.parameters)
        self._lock = threading.RLock()
        self._calls: dict[Hashable, _Entry] = {}
        self._built: dict[tuple[Signature, Same], _Built] = {}
        self._code: dict[Hashable, Code] = {}
        self._in_making: dict[Hashable, Future[None]] = {}
        _all.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on these arguments."""
        told, missed = events.LISTENERS, False
        if told:
            start = time.perf_counter()
        if kwargs or len(args) != len(self._keys):
            args = in_order(self.kernel, args, kwargs, leave_open=True)
        key = tuple([describe(value) for describe, value in zip(self._keys, args)])  # noqa: B905 (as many, and in haste)
        entry = self._calls.get(key)
        if entry is None:
            entry, missed = self._enter(key, args), True
        try:
            addresses = [read(args[position]) for position, read in entry.readers]
            for number, position, needed, itemsize in entry.extents:
                tensor = args[position]
                left = len(tensor.untyped_storage()) - tensor.storage_offset() * itemsize
                if left < needed or not addresses[number]:
                    self._refuse(args)
        except RuntimeError:  # torch's, of tensors without memory
            self._refuse(args)
            raise
        prepared = entry.distinct
        for one, other, low, high in entry.pairs:
            if low < addresses[other] - addresses[one] < high:
                prepared, is_new = self._overlapping(entry, args, addresses)
                missed = missed or is_new
                break
        else:
            if prepared is None:
                prepared, missed = self._prepare(entry, args, ()), True
        if missed:
            events.count_miss(self._counters)
        scalars = [as_scalar(args[position], what) for position, what in entry.scalars] if entry.scalars else ()
        try:
            prepared.run(addresses, scalars)
        except OutOfMemoryError as error:
            prepared = self._run_with_less(entry, args, prepared, error, addresses, scalars)
        self._counters.calls += 1
        if recording.recording and (recorder := recording.current()) is not None:
            recorder.launched(entry, prepared, addresses, scalars)
        if entry.tracked:
            entry.count_writes([args[position] for position in entry.tracked])
        if told:
            events.tell(self.kernel.name, prepared.ran(), start, time.perf_counter(), not missed, entry.called)

    def forget(self) -> None:
        """Forget how to call, but not what is compiled: what is prepared depends on the number of threads."""
        self._calls = {}

    def renew_lock(self) -> None:
        """After a fork: who held the lock, or was making code, may not exist any more."""
        self._lock = threading.RLock()
        self._in_making = {}

    def compile(self, args: Sequence[Any], kwargs: Mapping[str, Any], plan: Plan | None = None) -> Code:
        """What this call would run, with the text of every stage; `plan` replaces the kernel's own."""
        values = in_order(self.kernel, args, kwargs, leave_open=plan is None)
        arguments = bind(self.kernel, self._settle(values).of(values))
        built = self._build(arguments.signature)
        same = same_tensors(kernel_in(built.module), built.written, arguments.tensors)
        making = self._making(arguments, same, here(arguments.device), keep=True)
        plan = making.plans.own() if plan is None else plan
        return making.best()[1] if plan is None else making.code(plan)

    def ahead(self, arguments: Arguments, where: Where) -> tuple[Plan, str, Code]:
        """The plan, its rung and the code that calls with distinct tensors like these would run somewhere.

        Raises the author's mistakes, and `PlanError` where no plan has code that fits.
        """
        making = self._making(arguments, (), where)
        own = making.plans.own()
        if own is not None:
            return own, stated_rung(own), making.own_code(own)
        descent, code = making.best()
        return descent.chosen.plan, descent.chosen.rung, code

    def _enter(self, key: Hashable, values: Sequence[Any]) -> _Entry:
        """Check arguments of a new key, and note what there is to do for each call."""
        settled = self._settle(values)
        arguments = bind(self.kernel, settled.of(values))
        written = self._build(arguments.signature).written
        check_written(self.kernel.name, written, arguments.tensors)
        positions = {parameter.name: number for number, parameter in enumerate(self.kernel.parameters)}
        called = events.Called(
            file_of(self.kernel), arguments.sizes, arguments.dtypes, arguments.constants, settled.names, settled.tuned
        )
        entry = _Entry(
            readers=tuple((positions[name], address_reader(values[positions[name]])) for name in arguments.tensors),
            scalars=tuple((positions[name], f"{self.kernel.name}: argument `{name}`") for name in arguments.scalars),
            extents=tuple(
                (number, positions[name], view.reach[1], view.itemsize)
                for number, (name, view) in enumerate(arguments.tensors.items())
                if view.size and is_torch(values[positions[name]])
            ),
            pairs=_pairs(written, arguments),
            tracked=tuple(positions[name] for name in written if is_torch(values[positions[name]])),
            count_writes=_version_counter(),
            counters=self._counters,
            called=called,
            settled=settled,
        )
        with self._lock:
            while len(self._calls) >= REMEMBERED_CALLS:
                del self._calls[next(iter(self._calls))]
            return self._calls.setdefault(key, entry)

    def _refuse(self, values: Sequence[Any]) -> None:
        """Raise `ArgumentError` where arguments are like earlier ones but for their memory."""
        bind(self.kernel, self._settle(values).of(values))

    def _settle(self, values: Sequence[Any]) -> Settled:
        """What the constants are that a call leaves open."""
        return settle(self.kernel, values, lambda signature: kernel_in(self._build(signature).module))

    def _overlapping(self, entry: _Entry, values: Sequence[Any], addresses: Sequence[int]) -> tuple[Runnable, bool]:
        """The code for tensors whose memory may overlap, and whether it is new.

        Raises `ArgumentError` where it overlaps as the kernel cannot have it.
        """
        distances = tuple([addresses[other] - addresses[one] for one, other, _, _ in entry.pairs])
        same = entry.verdicts.get(distances)
        if same is None:
            arguments = bind(self.kernel, entry.settled.of(values))
            built = self._build(arguments.signature)
            same = same_tensors(kernel_in(built.module), built.written, arguments.tensors)
            if len(entry.verdicts) >= REMEMBERED_CALLS:
                entry.verdicts = {}
            entry.verdicts[distances] = same
        prepared = entry.ready(same)
        return (self._prepare(entry, values, same), True) if prepared is None else (prepared, False)

    def _prepare(self, entry: _Entry, values: Sequence[Any], same: Same) -> Runnable:
        """What an entry's calls run, and may have run better later."""
        way = entry.ways.get(same)
        if way is None:
            arguments = bind(self.kernel, entry.settled.of(values))
            if arguments.device != CPU:
                prepared = self._prepare_gpu(arguments, same)
                entry.put(same, prepared)
                return prepared
            way = self._way(entry, arguments, same)
        best = way.get()
        entry.put(same, best)
        way.when_better(lambda: entry.put(same, None))
        if way.is_settled:
            entry.ways.pop(same, None)
        return best

    def _way(self, entry: _Entry, arguments: Arguments, same: Same) -> Way[Runnable]:
        """How an entry's calls come to their code on a CPU, from now on."""
        making = self._making(arguments, same, here(CPU))
        return entry.ways.setdefault(same, making.way(partial(_ready, self.kernel, arguments)))

    def _run_with_less(
        self, entry: _Entry, values: Sequence[Any], prepared: Runnable, error: OutOfMemoryError,
        addresses: Sequence[int], scalars: Sequence[Any],
    ) -> Runnable:  # fmt: skip
        """Run a call on a CPU, where there was not memory enough for `prepared`, by a plan that takes less of it."""
        arguments = bind(self.kernel, entry.settled.of(values))
        if arguments.device != CPU:  # whose own way has been gone
            raise error
        same = next((same for same, ready in entry.shared.items() if ready is prepared), ())
        way = entry.ways.get(same) or self._way(entry, arguments, same)
        return with_less(way, error, partial(entry.put, same), lambda ready: ready.run(addresses, scalars))

    def _prepare_gpu(self, arguments: Arguments, same: Same) -> GpuCalls:
        """Compiled when it is known which addresses are aligned, at the first call of each kind."""
        from .gpu.calls import GpuCalls
        from .gpu.device import gpu_device

        def way(placed: Arguments, finish: Finish[Any, Any]) -> Way[Any]:
            return self._making(placed, same, here(arguments.device)).way(finish)

        return GpuCalls(self.kernel.name, gpu_device(arguments.device), arguments, way)

    def _build(self, signature: Signature, same: Same = ()) -> _Built:
        with self._lock:
            found = self._built.get((signature, same))
            if found is None:
                if same:
                    module = with_one_for(self._build(signature).module, dict(same))
                else:
                    module = self.kernel.build(signature)
                while len(self._built) >= REMEMBERED_IR:
                    del self._built[next(iter(self._built))]
                found = self._built[signature, same] = _Built(module, written_tensors(kernel_in(module)), same)
            return found

    def _making(self, arguments: Arguments, same: Same, where: Where, keep: bool = False) -> Making:
        """What makes the code of a call; that of a plan with all stages, and new, if `keep`.

        Plans are those for memory of its own for each tensor, tuned ones too; their code is made of the kernel that
        uses one tensor in place of all that are the same.
        """
        kernel, built = kernel_in(self._build(arguments.signature).module), self._build(arguments.signature, same)

        def code(plan: Plan) -> Code:
            check_native(self.kernel, arguments.dtypes, where.limits)
            return specialised(
                lambda facts: self._code_for(arguments.signature, built, plan, facts, where.architecture, keep),
                kernel, plan, arguments.sizes, arguments.tensors, where.on_gpu,
            )  # fmt: skip

        return Making(self.kernel, kernel, arguments, where, code, same)

    def _code_for(
        self, signature: Signature, built: _Built, plan: Plan, facts: Facts, architecture: str, keep: bool
    ) -> Code:
        key = (signature, built.same, frozen(plan), frozen(facts), architecture)
        made: Future[None] = Future()
        while not keep:
            with self._lock:
                if key in self._code:
                    return self._code[key]
                making = self._in_making.setdefault(key, made)
            if making is made:
                break
            making.result()  # of another thread, which may have failed
        try:
            start = time.perf_counter()
            code = make_code(built.module, plan, facts, architecture, keep)
            events.count_compile(self._counters, time.perf_counter() - start)
            with self._lock:
                while len(self._code) >= REMEMBERED_CODE:
                    del self._code[next(iter(self._code))]
                known = self._code.setdefault(key, code)
            return code if keep else known
        finally:
            with self._lock:
                if self._in_making.get(key) is made:
                    del self._in_making[key]
            made.set_result(None)


def _ready(kernel: KernelLike, arguments: Arguments, compiled: Compiled, plan: Plan, rung: str) -> Prepared:
    native = compiled.native
    template, tensors, scalars = _layout(kernel, arguments, native.sizes)
    touched = sum(view.size * view.itemsize for view in arguments.tensors.values())
    return Prepared(native, template + [0] * native.buffers, tensors, scalars, touched, plan, rung)


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
    """What tells autograd that tensors were written in place, so that it notices values saved before."""
    torch = _modules.get("torch")
    return tuple if torch is None else torch.autograd.graph.increment_version


_all: WeakSet[Launcher] = WeakSet()


def _forget_calls() -> None:
    for launcher in list(_all):
        launcher.forget()


def _after_fork_in_child() -> None:
    for launcher in list(_all):
        launcher.renew_lock()


when_threads_change(_forget_calls)
when_forgotten(_forget_calls)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
