"""Inference on a GPU with torch tensors: weights are copied there once, and features stay there."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vkernels.library.spdnn import distance_to_state, take_columns

from .fixed_points import FixedPoints
from .infer import (
    GROUP_BYTES,
    MAX_LAYERS_A_LAUNCH,
    MAX_UNSETTLED_LAYERS,
    InferenceResult,
    LayerGroup,
    finished,
    group_length,
)
from .network_layers import Floats, Layers, NetworkLayers
from .run_layers import FLOAT32, run_layers

BATCH_BYTES = 4 << 30
"""Bytes of features on a device at once."""

COPIES = 3
"""Arrays of a batch's features on the device, at most: before and after a group, and of kept images."""

DROP = 16
"""Dead images are dropped once they are at least one in this many."""


@dataclass(frozen=True)
class Tensors:
    """`Layers` on a device; `nonzeros` on the host."""

    column: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor
    nonzeros: NDArray[np.int64]
    inputs: int

    @staticmethod
    def of(layers: Layers, device: str) -> Tensors:
        weight = layers.weight
        if weight.ndim == 3 and weight.strides[2] == 0:  # stored once per output, on the device too
            weights = _bring(weight[:, :, :1], device).expand(weight.shape)
        else:
            weights = _bring(weight, device)
        return Tensors(
            _bring(layers.column, device), weights, _bring(layers.bias, device), layers.nonzeros, layers.inputs
        )

    def part(self, first: int, last: int) -> Tensors:
        chosen = slice(first, last)
        return Tensors(self.column[chosen], self.weight[chosen], self.bias[chosen], self.nonzeros[chosen], self.inputs)


class Resident:
    """A network's layers on a device: copied once if the network is held in memory, else for every use.

    `seconds`: time spent reading and copying layers so far.
    """

    def __init__(self, network: NetworkLayers, device: str):
        self.network, self.device, self.seconds = network, device, 0.0
        self._runs: dict[int, Tensors] = {}
        self._bytes = 0

    def read(self, first: int, last: int) -> Tensors:
        """Layers of one run, `last` exclusive."""
        start = perf_counter()
        network = self.network
        if network.held:
            number = bisect_right(network.ends, first)
            begin = network.ends[number - 1] if number else 0
            if begin not in self._runs:
                self._runs[begin] = Tensors.of(network.read(begin, network.ends[number]), self.device)
            found = self._runs[begin].part(first - begin, last - begin)
        else:
            layers = network.read(first, last)
            self._bytes = layers.nbytes // (last - first)
            found = Tensors.of(layers, self.device)
        self.seconds += perf_counter() - start
        return found

    @property
    def most_read(self) -> int:
        """Layers that may be read at once, if they are as large as the last."""
        return MAX_LAYERS_A_LAUNCH if self.network.held else max(1, GROUP_BYTES // max(1, self._bytes))


def infer_on(
    device: str,
    network: NetworkLayers,
    features: Floats,
    fixed: FixedPoints | None = None,
    storage: str = FLOAT32,
) -> InferenceResult:
    """As `infer`, on a torch device. Each launch copies one number per image back to the host.

    `InferenceResult.transfer` includes copying features both ways, and weights to the device the first time.
    """
    resident: Resident | None = network.cache.get(("resident", device))
    if resident is None:
        resident = network.cache["resident", device] = Resident(network, device)
    batch = max(1, BATCH_BYTES // (COPIES * 4 * max(1, *network.sizes)))
    before = resident.seconds
    ids = np.arange(features.shape[1], dtype=np.int64)
    runs = []
    with torch.cuda.device(device) if torch.device(device).type == "cuda" else nullcontext():
        for first in range(0, max(1, ids.size), batch):
            run = _Run(resident, fixed, storage, ids[first : first + batch])
            run.through(features[:, first : first + batch])
            runs.append(run)
    found = np.concatenate([run.result for run in runs], axis=1)
    settled = [ids for run in runs for ids in run.settled]
    found, ids = finished(found, np.concatenate([run.ids for run in runs]), settled, fixed, network.layers)
    return InferenceResult(
        ids, found, sum(run.seconds for run in runs), sum(run.edges for run in runs),
        tuple(group for run in runs for group in run.groups),
        sum(run.transfer for run in runs) + resident.seconds - before,
    )  # fmt: skip


class _Run:
    """One batch of images; `ids`: those that may be alive; `result`: their features after the last layer."""

    def __init__(self, resident: Resident, fixed: FixedPoints | None, storage: str, ids: NDArray[np.int64]):
        self.resident, self.fixed, self.ids = resident, fixed, ids
        self.network, self.device = resident.network, torch.device(resident.device)
        self.dtype: torch.dtype = getattr(torch, storage)
        self.groups: list[LayerGroup] = []
        self.settled: list[NDArray[np.int64]] = []
        self.seconds, self.transfer, self.edges = 0.0, 0.0, 0
        self.result: Floats = np.empty((self.network.outputs, 0), np.float32)

    def through(self, features: Floats) -> None:
        """Run all layers, or until no image is left."""
        start = perf_counter()
        self.features = _bring(features, self.device)
        self.transfer += perf_counter() - start
        done, alive, pace = 0, self.ids.size, list[LayerGroup]()
        most = MAX_LAYERS_A_LAUNCH if self.fixed is None else MAX_UNSETTLED_LAYERS
        while done < self.network.layers and self.ids.size:
            length = group_length(None, pace, alive, most)
            length = min(length, self.network.end_after(done) - done, self.resident.most_read)
            pace.append(LayerGroup(length, alive, done))
            alive = self._advance(done, length)
            done += length
        start = perf_counter()
        if done == self.network.layers:
            self.result = self.features.float().cpu().numpy()
        self.transfer += perf_counter() - start

    def _advance(self, first: int, length: int) -> int:
        layers, images, last = self.resident.read(first, first + length), self.ids.size, first + length
        start = perf_counter()
        out = torch.empty((layers.bias.shape[1], images), dtype=self.dtype, device=self.device)
        peak = torch.empty(images, dtype=torch.float32, device=self.device)
        run_layers(self.features, layers.column, layers.weight, layers.bias, self.network.cap, out, peak)
        self.features = out
        alive = images
        if last >= self.network.settled_from:
            living = peak.cpu().numpy() != 0  # waits for the launch
            alive = int(np.count_nonzero(living))
            if (images - alive) * DROP >= images or last == self.network.layers:
                self._keep(living)
        if self.fixed is not None and last >= self.fixed.first and self.ids.size:
            self._settle(self.fixed.state(last))
            alive = self.ids.size
        self.seconds += perf_counter() - start
        self.edges += images * int(layers.nonzeros.sum())
        self.groups.append(LayerGroup(length, images, first))
        return alive

    def _settle(self, state: Floats) -> None:
        away = torch.empty(self.ids.size, dtype=torch.float32, device=self.device)
        distance_to_state(self.features, _bring(state, self.device), away)
        left = away.cpu().numpy() != 0
        self.settled.append(self.ids[~left])
        self._keep(left)

    def _keep(self, chosen: NDArray[np.bool_]) -> None:
        live = np.flatnonzero(chosen)
        if live.size == self.ids.size:
            return
        out = self.features.new_empty((self.features.shape[0], live.size))
        if out.numel():
            take_columns(self.features, _bring(live.astype(np.int32), self.device), out)
        self.features, self.ids = out, self.ids[live]


def _bring(array: NDArray[Any], device: Any) -> torch.Tensor:
    """Copy an array to a device; also a copy on the host, so that the original may change."""
    return torch.from_numpy(np.array(array, order="C")).to(device)
