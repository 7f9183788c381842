"""`vk bench spdnn`: check and time the challenge's networks in each class of execution, within time and memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vkernels.ir.errors import OptionError

from ..devices import parse_devices, threads_of
from ..generate import BIASES, check_size, radix_network
from ..images import ImageSource
from ..network import SparseNetwork
from ..network_layers import CAP
from ..run_layers import FLOAT32, check_storage
from .estimate import (
    RuntimeEstimate,
    bytes_of_merged,
    bytes_of_weights,
    bytes_to_check,
    estimate_runtime,
    images_within,
)
from .machine_peaks import MachinePeaks, measure_peaks
from .measure import BASELINE_CLASSES, CLASSES, STRUCTURED, NetworkMeasurement, measure_interleaved

BASELINES = tuple(BASELINE_CLASSES)
DEPTHS = (120, 480, 1920)

LEAST_PIECE = 16
"""A network is skipped if fewer images than this fit into memory."""


@dataclass(frozen=True)
class Size:
    """One of the challenge's networks."""

    neurons: int
    layers: int

    def __str__(self) -> str:
        return f"{self.neurons}x{self.layers}"

    @staticmethod
    def parse(text: str) -> Size:
        """`1024x120`. Raises `OptionError` for what the challenge does not have."""
        match = re.fullmatch(r"([0-9]{1,6})x([0-9]{1,6})", text.strip())
        if match is None:
            raise OptionError(f"network {text!r}: expected neurons and layers, as in 1024x120")
        check_size(int(match[1]), int(match[2]))
        return Size(int(match[1]), int(match[2]))


ALL_SIZES = tuple(Size(neurons, layers) for layers in DEPTHS for neurons in BIASES)
"""The challenge's twelve, the shallow ones first."""


@dataclass(frozen=True)
class Settings:
    """`kinds`, `baselines`: of `CLASSES`, `BASELINES`. `seconds`: limit for one network, including checks. `memory`:
    limit for weights and features together, in bytes. `storage`: dtype of features between layers, of `DTYPES`;
    survivors are always compared with those of float64."""

    kinds: Sequence[str] = CLASSES
    baselines: Sequence[str] = ()
    devices: Sequence[str] = ("cpu",)
    rounds: int = 3
    seconds: float = 300.0
    memory: int = 16 << 30
    storage: str = FLOAT32

    def check(self) -> None:
        """Raise `OptionError` for unknown devices and storage."""
        parse_devices(self.devices)
        check_storage(self.storage, CAP)

    @property
    def threads(self) -> int:
        """CPU threads of all devices together; all threads if only GPUs are named."""
        return threads_of(self.devices)


@dataclass(frozen=True)
class Skipped:
    """A class or baseline of a network that was not run, and the reason."""

    size: Size
    what: str
    reason: str


@dataclass(frozen=True)
class Results:
    """All results; `networks`: in the requested order, without networks of which no class ran."""

    ceilings: MachinePeaks
    settings: Settings
    networks: tuple[tuple[Size, NetworkMeasurement], ...]
    left_out: tuple[Skipped, ...]

    @property
    def all_match(self) -> bool:
        """Whether something was run, and all runs gave the reference's survivors."""
        return bool(self.networks) and all(run.matches for _, network in self.networks for run in network.runs)


Progress = Callable[[str], None]
"""Receives the current step."""


def generated(size: Size) -> SparseNetwork:
    """The challenge's network, with weights generated when they are read."""
    return radix_network(size.neurons, size.layers)


def bench(
    sizes: Sequence[Size],
    source: Callable[[int], ImageSource],
    settings: Settings,
    network_of: Callable[[Size], SparseNetwork] = generated,
    progress: Progress = lambda what: None,
) -> Results:
    """Run each network in each class that fits, on the images of `source(neurons)`.

    Raises `OptionError` for absent devices.
    """
    progress("ceilings")
    ceilings = measure_peaks(settings.threads)
    networks: list[tuple[Size, NetworkMeasurement]] = []
    left_out: list[Skipped] = []
    for size in sizes:
        measured, others = _bench_one(size, network_of(size), source(size.neurons), settings, progress)
        networks += [(size, measured)] if measured is not None else []
        left_out += others
    return Results(ceilings, settings, tuple(networks), tuple(left_out))


def _bench_one(
    size: Size, network: SparseNetwork, source: ImageSource, settings: Settings, progress: Progress
) -> tuple[NetworkMeasurement | None, list[Skipped]]:
    network = replace(network, most_held=min(network.most_held, settings.memory // 2))
    most = images_within(network, settings.memory)
    if most < min(LEAST_PIECE, source.images):
        need = f"its weights take {_gib(bytes_of_weights(network))} of {_gib(settings.memory)} GiB of memory"
        return None, [Skipped(size, kind, f"{need}, which leaves no room for images") for kind in settings.kinds]
    pieces = -(-source.images // most)
    kinds, left_out = _that_fit(size, network, settings)
    progress(f"{size}: forecast")
    expected = estimate_runtime(network, source, kinds, settings.devices, settings.threads, pieces)
    kinds, rounds, too_long = _in_time(size, expected, kinds, settings)
    left_out += too_long
    if not kinds:
        return None, left_out
    can_compare = pieces == 1 and bytes_of_weights(network) * 3 <= settings.memory
    if settings.baselines and not can_compare:
        left_out.append(Skipped(size, "baselines", "they would need all images and weights in memory at once"))
    measured = measure_interleaved(
        network, source, kinds,
        baselines=settings.baselines if can_compare else (),
        devices=settings.devices, threads=settings.threads, rounds=rounds,
        piece=-(-source.images // pieces), checking_memory=bytes_to_check(settings.memory),
        options={"storage": settings.storage}, progress=lambda what: progress(f"{size}: {what}"),
    )  # fmt: skip
    return measured, left_out


def _that_fit(size: Size, network: SparseNetwork, settings: Settings) -> tuple[list[str], list[Skipped]]:
    kinds, left_out = list(settings.kinds), []
    if STRUCTURED in kinds and (need := bytes_of_merged(network)) > settings.memory // 2:
        kinds.remove(STRUCTURED)
        reason = f"merged weights would take {_gib(need)} of {_gib(settings.memory)} GiB of memory"
        left_out.append(Skipped(size, STRUCTURED, reason))
    return kinds, left_out


def _in_time(
    size: Size, expected: RuntimeEstimate, kinds: Sequence[str], settings: Settings
) -> tuple[list[str], int, list[Skipped]]:
    """The classes that there is time for, with a warm-up and at least one round; the number of rounds; skipped
    classes."""
    left = settings.seconds - expected.checking
    taken: list[str] = []
    left_out = []
    for kind in kinds:
        cost = expected.kinds[kind]
        need = cost.once + 2 * cost.a_pass
        if need <= left:
            taken.append(kind)
            left -= need
        else:
            said = f"it would take about {need:.0f} s and checking {expected.checking:.0f} s"
            left_out.append(
                Skipped(size, kind, f"{said}: more than is left of the {settings.seconds:g} s of a network")
            )
    a_round = sum(expected.kinds[kind].a_pass for kind in taken)
    rounds = min(settings.rounds, 1 + int(left / max(a_round, 1e-9))) if taken else 0
    return taken, rounds, left_out


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.3g}"
