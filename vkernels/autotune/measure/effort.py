"""How much is done for a measurement: as data, so that tuners and tests can ask for more or less."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """`seconds`: of timing for one candidate, at most, compile and checks not counted; `width`: of the interval,
    relative to the median, that ends it sooner; `least`, `most`: samples. `sample_seconds`: calls are timed together
    until a sample takes so long, so that the clock and the call itself cost little.
    `hopeless`: who takes more than so many times the best time so far is sampled no further, and `behind`: who surely
    does, by the interval of the samples that nobody disturbed.
    `sets`: copies of all tensors, at most, that calls take in turn, so that what a call reads is not there from the
    call before; `set_bytes`: of all copies together. `quiet`: the part of the cores' time that others may take without
    being noticed; `tries`: of a timing that others disturb, before it is taken as it is.
    """

    seconds: float = 0.25
    width: float = 0.02
    least: int = 6
    most: int = 1000
    sample_seconds: float = 2e-4
    hopeless: float = 2.0
    behind: float = 1.1
    sets: int = 16
    set_bytes: int = 256 << 20
    quiet: float = 0.1
    tries: int = 3


@dataclass(frozen=True)
class WorkerLimits:
    """What a worker may take. `start_seconds`: until it has made arguments and a reference; `lock_seconds`: to wait
    for others that measure on the same cores; `memory_bytes`: resident, of it and its children, beyond what the
    task's tensors take; `duel_seconds`: of a comparison, for each candidate."""

    start_seconds: float = 120.0
    lock_seconds: float = 600.0
    memory_bytes: int = 4 << 30
    comparison_seconds: float = 10.0
