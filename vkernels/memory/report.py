"""Statistics of the calls of a step under a limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Report:
    """Statistics of the calls. Bytes, and seconds.

    `planned`: calls that ran entirely under the plan, or as before where nothing has to move; `changed`: the others
    since, `why` the last one was, or why there is no plan. `period`: calls after which the plan repeats. `peak`: live
    at once without a limit, of the plan's calls; `arena`: of the device, at most the limit; 0 where nothing moves;
    `host`, `flash`: arenas of these. `out_bytes`, `back_bytes`: moved by all calls. `over`: operations that ran above
    the limit, because they need more at once. `escapes`: tensors that outlived their recorded lifetime and got other
    memory. `strays`: uses of tensors that were not on the device.

    `modelled_seconds`: of a call, simulated before any ran, with the recorded times. Medians of the last planned calls:
    `seconds`, measured; `own_seconds` of the operations and the program in them; `simulated_seconds`, simulated with
    each call's own times, so that transfers and overhead are modelled. These three are 0 for asynchronous devices.
    """

    calls: int = 0
    planned: int = 0
    changed: int = 0
    why: str = ""
    peak: int = 0
    arena: int = 0
    host: int = 0
    flash: int = 0
    modelled_seconds: float = 0.0
    out_bytes: int = 0
    back_bytes: int = 0
    over: int = 0
    escapes: int = 0
    strays: int = 0
    seconds: float = 0.0
    own_seconds: float = 0.0
    simulated_seconds: float = 0.0
    period: int = 1
