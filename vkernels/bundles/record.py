"""Find out which kernels a program calls, with which arguments: it is run, and each new kind of call is noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vkernels.compiler.arguments import CPU, Same
from vkernels.ir.plan_json import frozen
from vkernels.runtime.call_entry import CallEntry, Runnable
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.shared_launchers import use_launchers

from .build_request import BuildRequest
from .identify import reference_of


@dataclass
class Recorded:
    """The kinds of calls on the CPU, each once; `elsewhere`: names of kernels that ran on other devices."""

    elsewhere: list[str] = field(default_factory=list)
    _calls: dict[bytes, tuple[BuildRequest, Mapping[bytes, None]]] = field(default_factory=dict)

    def note(self, entry: CallEntry, values: Sequence[Any], same: Same) -> None:
        """Note a kind of call of a kernel."""
        asked = entry.compilation.request
        arguments, kernel = asked.arguments, asked.kernel
        if arguments.device != CPU:
            self.elsewhere.append(kernel.name)
            return
        signature, reference = arguments.signature, reference_of(kernel)
        key = frozen((reference, signature.tensors, signature.scalars, signature.constants, asked.left_open))
        empty = BuildRequest(kernel, signature, (), (), tuple(asked.left_open), reference)
        before, known = self._calls.get(key, (empty, {}))
        shape, strides = dict(arguments.sizes), arguments.strides
        kind = frozen((shape, strides, same))
        if kind not in known:
            more = replace(
                before, shapes=(*before.shapes, shape), strides=(*before.strides, strides), same=(*before.same, same)
            )
            self._calls[key] = more, {**known, kind: None}

    @property
    def requests(self) -> list[BuildRequest]:
        """Requests of the calls: one for each kernel and its dtypes and constants."""
        return [request for request, _ in self._calls.values()]


class RecordingLauncher(Launcher):
    """Calls one kernel, and notes each new kind of call. `recorded`: takes the notes."""

    def __init__(self, kernel: Any, recorded: Recorded):
        super().__init__(kernel)
        self._recorded = recorded

    def _compiled(self, entry: CallEntry, values: Sequence[Any], same: Same) -> Runnable:
        self._recorded.note(entry, values, same)
        return super()._compiled(entry, values, same)


def recorded_calls(run: Callable[[], object]) -> Recorded:
    """The calls of kernels while `run` runs, in all threads."""
    recorded = Recorded()
    with use_launchers(lambda kernel: RecordingLauncher(kernel, recorded)):
        run()
    return recorded
