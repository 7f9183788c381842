"""Jobs as the farm orders them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """A job of a trace.

    `arrival`, `seconds`: when it is submitted and how long it runs, in seconds. `cores`: how many it holds while it
    runs. `kind`: what its duration is predicted from, general first: kernel family, shape class, … `gain`: what a
    second of waiting costs beside other jobs' seconds.
    """

    arrival: float
    seconds: float
    user: str
    kind: tuple[str, ...]
    cores: int = 1
    gain: float = 1.0
