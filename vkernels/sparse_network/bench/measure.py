"""Measure one network in several classes of execution, and baselines, on the same images, in interleaved rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..images import ImageSource
from ..merge import merge_equal
from ..network import SparseNetwork
from ..network_layers import Floats, Layers, NetworkLayers
from ..prepare import prepare
from ..run import Inference
from ..run_layers import DTYPES
from .baseline_result import BaselineResult
from .baselines import prepare_baselines, prepare_dense
from .machine_peaks import MachinePeaks
from .reference import DEFAULT_MEMORY, ReferenceNetwork, ReferenceResult
from .timing import Spread

GENERAL, STRUCTURED, SATURATING = CLASSES = ("general", "structured", "saturating")

BASELINE_CLASSES = {"torch_csr": GENERAL, "torch_csr_batched": GENERAL, "scipy_csr": GENERAL, "torch_dense": STRUCTURED}
"""The baselines and the class that each is compared with."""

DENSE_BATCH, DENSE_LAYERS = 16384, 4
"""Images at a time, and layers between dropping, of `torch_dense`."""


@dataclass(frozen=True)
class NetworkRun:
    """One network in one class. Times are seconds, of all images.

    `kind`: the requested class; `found`: the class that ran; `findings`: in words. `matches`: whether the survivors
    were the reference's in every round. `seconds`: of inference, without preprocessing and reading; parts of the median
    round are `transfer` (converting and copying images) and `kernels` (launches and dropping images). `preprocessing`:
    analysing and arranging weights, once. `reading`: reading or generating weights in a round, if they are not held in
    memory. `moved_bytes`: features read and written by launches. `live[l]`: images that layer l ran on.
    """

    kind: str
    found: str
    findings: tuple[str, ...]
    matches: bool
    preprocessing: float
    reading: float
    transfer: float
    kernels: float
    seconds: Spread
    executed_edges: int
    moved_bytes: int
    live: tuple[int, ...]
    peers: Mapping[str, BaselineResult]


@dataclass(frozen=True)
class NetworkMeasurement:
    """One network in several classes. `pieces`: number of parts of the images; `held`: whether all weights were in
    memory; `reference`: seconds of checking."""

    images: int
    pieces: int
    rounds: int
    held: bool
    truth: ReferenceResult
    reference: float
    runs: tuple[NetworkRun, ...]

    @property
    def nominal_edges(self) -> int:
        """Images times connections, as if none had died."""
        return self.images * int(self.truth.nonzeros.sum())


@dataclass(frozen=True)
class NetworkRates:
    """Edges per second, and shares of the ceilings: of copies, by bytes of features read and written by launches; of
    multiply-adds and of gathers, by executed edges."""

    real: float
    executed: float
    nominal: float
    of_copy: float
    of_multiply_adds: float
    of_gathers: float

    @staticmethod
    def of(run: NetworkRun, measured: NetworkMeasurement, ceilings: MachinePeaks) -> NetworkRates:
        seconds = max(run.seconds.middle, 1e-9)
        executed = run.executed_edges / seconds
        return NetworkRates(
            measured.truth.real_edges / seconds, executed, measured.nominal_edges / seconds,
            run.moved_bytes / seconds / ceilings.copy, executed / ceilings.multiply_adds, executed / ceilings.gathers,
        )  # fmt: skip


class TimedReads:
    """A wrapped `network` that measures the `seconds` of reading its layers."""

    def __init__(self, network: SparseNetwork):
        self.seconds = 0.0
        self._read = network.read
        self.network = replace(network, read=self.read)

    def read(self, first: int, last: int) -> Layers:
        start = perf_counter()
        layers = self._read(first, last)
        self.seconds += perf_counter() - start
        return layers

    def during(self, work: Callable[[], Any]) -> tuple[Any, float, float]:
        """The result of `work`, its seconds without reading, and the seconds of reading."""
        before, start = self.seconds, perf_counter()
        result = work()
        reading = self.seconds - before
        return result, perf_counter() - start - reading, reading


@dataclass
class _BaselineRecord:
    run: Callable[[], NDArray[np.int64]]
    seconds: list[float] = field(default_factory=list)
    matches: bool = True

    def run_once(self, truth: ReferenceResult, counted: bool) -> None:
        start = perf_counter()
        survivors = self.run()
        if counted:
            self.seconds.append(perf_counter() - start)
        self.matches &= np.array_equal(survivors, truth.survivors)


@dataclass
class _ClassRecord:
    """Results of one class so far. `times`: seconds, reading, transfer and kernels of each round, over all pieces."""

    kind: str
    preprocessing: float
    times: NDArray[np.float64]
    matches: bool = True
    edges: int = 0
    moved: int = 0
    live: NDArray[np.int64] | None = None
    findings: tuple[str, ...] = ()
    found: str = ""

    @property
    def seconds(self) -> list[float]:
        found: list[float] = self.times[0].tolist()
        return found

    @staticmethod
    def begin(reads: TimedReads, kind: str, rounds: int) -> _ClassRecord:
        """Prepare the network."""
        _, seconds, _ = reads.during(lambda: prepare(reads.network, kind))
        return _ClassRecord(kind, seconds, np.zeros((4, rounds)))

    def add(self, number: int, inference: Inference, seconds: float, reading: float, sizes: tuple[int, ...]) -> None:
        """Add one piece in one round; `sizes`: of the network that ran."""
        record = inference.record
        self.times[:, number] += seconds, reading, record.transfer, record.kernels
        if number == 0:
            self.found, self.findings = record.kind, record.findings or self.findings
            self.edges += record.executed_edges
            width = np.dtype(DTYPES[record.storage]).itemsize
            self.moved += sum(width * g.images * (sizes[g.first] + sizes[g.first + g.layers]) for g in record.groups)
            self.live = np.array(record.live, np.int64) + (0 if self.live is None else self.live)

    def end(self, peers: Mapping[str, BaselineResult]) -> NetworkRun:
        seconds = self.seconds
        middle = int(np.argsort(seconds)[(len(seconds) - 1) // 2])
        _, reading, transfer, kernels = self.times[:, middle].tolist()
        live = () if self.live is None else tuple(self.live.tolist())
        return NetworkRun(
            self.kind, self.found, self.findings, self.matches, self.preprocessing, reading,
            transfer, kernels, Spread.of(seconds), self.edges, self.moved, live, peers,
        )  # fmt: skip


def measure_interleaved(
    network: SparseNetwork,
    source: ImageSource,
    kinds: Sequence[str],
    *,
    baselines: Sequence[str] = (),
    devices: Sequence[str] = ("cpu",),
    threads: int = 1,
    rounds: int = 3,
    piece: int | None = None,
    checking_memory: int = DEFAULT_MEMORY,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda what: None,
) -> NetworkMeasurement:
    """Run the network in each class, `piece` images at a time, `rounds` times after a warm-up.

    Survivors are compared with the float64 reference's each time. Baselines run only if all images are one piece.
    `options` go to `SparseNetwork.infer`; `checking_memory`: memory limit of the reference, in bytes.
    """
    piece = max(1, piece or source.images)
    reads, reference = TimedReads(network), ReferenceNetwork(network, checking_memory)
    turns = [_ClassRecord.begin(reads, kind, rounds) for kind in kinds]
    general = sum(turn.preprocessing for turn in turns if turn.kind == GENERAL)
    for turn in turns:
        turn.preprocessing += general if turn.kind == SATURATING else 0  # it uses the general preparation
    starts = range(0, max(1, source.images), piece)
    truths: list[ReferenceResult] = []
    checking = 0.0
    peers: dict[str, _BaselineRecord] = {}
    for first in starts:
        what = f"images {first} to {min(source.images, first + piece)}: " if len(starts) > 1 else ""
        features = source.part(first, first + piece)
        progress(f"{what}float64 reference")
        start = perf_counter()
        truths.append(reference.run(features, threads))
        checking += perf_counter() - start
        rivals = _rivals(network, features, kinds, baselines if len(starts) == 1 else (), threads)
        peers |= {name: _BaselineRecord(run) for name, run in rivals.items()}
        for at in range(-1, rounds):
            progress(f"{what}round {at + 1} of {rounds}" if at >= 0 else f"{what}warming up")
            for turn in turns:
                _one(reads, turn, features, at, truths[-1], devices, options or {})
            for rival in peers.values():
                rival.run_once(truths[-1], counted=at >= 0)
        del features
    held = all(prepare(reads.network, kind)[0].network.held for kind in kinds)
    runs = tuple(turn.end(_peers(turn, peers)) for turn in turns)
    return NetworkMeasurement(
        source.images, len(starts), rounds, held, ReferenceResult.joined(truths, starts), checking, runs
    )


def _one(
    reads: TimedReads, turn: _ClassRecord, features: Floats, number: int, truth: ReferenceResult,
    devices: Sequence[str], options: Mapping[str, Any],
) -> None:  # fmt: skip
    inference, seconds, reading = reads.during(
        lambda: reads.network.infer(features, devices=devices, kind=turn.kind, **options)
    )
    turn.matches &= np.array_equal(inference.survivors, truth.survivors)
    if number >= 0:
        turn.add(number, inference, seconds, reading, prepare(reads.network, turn.kind)[0].network.sizes)


def _rivals(
    network: NetworkLayers, features: Floats, kinds: Sequence[str], wanted: Sequence[str], threads: int
) -> dict[str, Callable[[], NDArray[np.int64]]]:
    names = [name for name in wanted if BASELINE_CLASSES[name] in kinds]
    found: dict[str, Callable[[], NDArray[np.int64]]] = {}
    if any(BASELINE_CLASSES[name] == GENERAL for name in names):
        every = prepare_baselines(network, features, threads)
        found |= {name: run for name, run in every.items() if name in names}
    if "torch_dense" in names:
        merged = merge_equal(network).network
        found["torch_dense"] = prepare_dense(merged, features, threads, DENSE_BATCH, DENSE_LAYERS)
    return found


def _peers(turn: _ClassRecord, peers: Mapping[str, _BaselineRecord]) -> dict[str, BaselineResult]:
    return {
        name: BaselineResult.of(peer.seconds, turn.seconds, peer.matches)
        for name, peer in peers.items()
        if BASELINE_CLASSES[name] == turn.kind
    }
