"""The challenge as one checked and measured run: our inference, the reference, and interleaved baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError

from ..infer import LayerGroup, LayerKernel, infer
from ..network_layers import Floats, NetworkLayers
from ..prepare import bytes_of, prepare
from .baseline_result import BaselineResult
from .reference import ReferenceResult, run_reference
from .timing import Spread, interleave

OURS = "vkernels"

Progress = Callable[[str, int, int, str], None]
"""Receives the current activity, its steps done, its number of steps, and the unit of steps."""


@dataclass(frozen=True)
class ChallengeReport:
    """Results of a run. `seconds`: of each round's inference, without `preprocessing`, which is done once, and without
    reading and generating layers that are not held in memory."""

    neurons: int
    layers: int
    images: int
    threads: int
    survivors: NDArray[np.int64]
    truth: ReferenceResult
    preprocessing: float
    seconds: Spread
    rounds: int
    executed_edges: int
    groups: tuple[LayerGroup, ...]
    baselines: Mapping[str, BaselineResult]

    @property
    def matches(self) -> bool:
        """Whether the survivors are those of the float64 reference."""
        return np.array_equal(self.survivors, self.truth.survivors)

    @property
    def nominal_edges(self) -> int:
        """Images times connections, as if none had died."""
        return self.images * int(self.truth.nonzeros.sum())


def run_challenge(
    network: NetworkLayers,
    inputs: Floats,
    *,
    threads: int,
    rounds: int,
    patience: float = float("inf"),
    compare: bool = False,
    progress: Progress = lambda what, done, total, steps: None,
    kernel: LayerKernel | None = None,
) -> ChallengeReport:
    """Check and time the network on the images of `inputs` (neurons × images), as `SparseNetwork.infer` runs it in the
    general class.

    There are `rounds` rounds, fewer if they take longer than `patience` seconds. With `compare`, each round also runs
    the baselines; raises `OptionError` if the network is too large for them.
    """
    if bytes_of(network) <= network.most_held:
        network = network.in_memory()
    elif compare:
        size = bytes_of(network) >> 30
        raise OptionError(f"a network of {size} GiB is too large for the baselines; leave --compare out")
    images = inputs.shape[1]
    truth = run_reference(
        network,
        inputs,
        threads,
        lambda done, live: progress("float64 reference", done, network.layers, _layers_with(live)),
    )
    prepared, preprocessing = prepare(network, "general")
    meter = _Meter(network.layers, progress)
    first = infer(prepared.network, inputs, threads=threads, progress=meter.advance, kernel=kernel)
    results = [first]
    runs: dict[str, Callable[[], object]] = {
        OURS: lambda: results.append(infer(prepared.network, inputs, threads=threads, kernel=kernel))
    }
    checks = {}
    if compare:
        from .baselines import prepare_baselines

        peers = prepare_baselines(network, inputs, threads)
        checks = {name: np.array_equal(run(), truth.survivors) for name, run in peers.items()}
        runs |= peers
    seconds = interleave(runs, rounds, patience, lambda done: progress("measuring", done, rounds, "rounds"))
    ours = seconds[OURS] if prepared.network.held else [result.seconds for result in results[1:]]
    baselines = {name: BaselineResult.of(seconds[name], ours, right) for name, right in checks.items()}
    wrong = next((result for result in results if not np.array_equal(result.survivors, truth.survivors)), first)
    return ChallengeReport(
        network.inputs, network.layers, images, threads, wrong.survivors, truth, preprocessing,
        Spread.of(ours), len(ours), first.executed_edges, first.groups, baselines,
    )  # fmt: skip


def as_json(report: ChallengeReport, target: str) -> dict[str, Any]:
    """The report as JSON, as `docs/json.md` describes it."""
    seconds = report.seconds.middle
    return {
        "schema_version": 1,
        "command": "run spdnn",
        "target": target,
        "threads": report.threads,
        "neurons": report.neurons,
        "layers": report.layers,
        "images": report.images,
        "categories": "match" if report.matches else "differ",
        "survivors": len(report.survivors),
        "preprocessing": report.preprocessing,
        "seconds": seconds,
        "seconds_spread": [report.seconds.least, report.seconds.most],
        "rounds": report.rounds,
        "real_edges": report.truth.real_edges,
        "executed_edges": report.executed_edges,
        "nominal_edges": report.nominal_edges,
        "real_edges_per_second": report.truth.real_edges / seconds,
        "executed_edges_per_second": report.executed_edges / seconds,
        "nominal_edges_per_second": report.nominal_edges / seconds,
        "groups": [[group.layers, group.images] for group in report.groups],
        "baselines": {
            name: {
                "categories": "match" if baseline.matches else "differ",
                "seconds": baseline.seconds.middle,
                "seconds_spread": [baseline.seconds.least, baseline.seconds.most],
                "ratio": baseline.ratio.middle,
                "ratio_spread": [baseline.ratio.least, baseline.ratio.most],
            }
            for name, baseline in report.baselines.items()
        },
    }


def _layers_with(live: int) -> str:
    return f"layers, {live} images alive"


class _Meter:
    def __init__(self, layers: int, progress: Progress):
        self.layers, self.progress, self.done = layers, progress, 0.0

    def advance(self, layers: float, live: int) -> None:
        self.done += layers
        self.progress("inference", round(self.done), self.layers, _layers_with(live))
