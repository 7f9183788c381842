"""Put outputs that gather the same inputs side by side: a layer becomes dense blocks times gathered features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .from_matrices import of_layers
from .groups import Groups, Numbers, find_groups
from .network_layers import Layers, NetworkLayers
from .reorder import by_first_inputs, in_ascending_order

HEIGHTS = (4, 8, 16, 32)
"""Outputs that a block may have."""

COST, COST_FAR = 0.9, 0.75
"""What an element of a block costs, compared with a connection that is gathered alone: measured on one core, 0.80 to
0.96 at 1024 to 16384 inputs, 0.55 to 0.6 at 65536, which leave the cache."""

FAR = 32768
"""Inputs of a layer from which on its features leave a core's cache."""

UNEVEN = 1.125
"""Layers that follow each other get equally many blocks, so that one launch can take them, where the most is no more
than this times the fewest."""

READ_BYTES = 1 << 28


@dataclass(frozen=True)
class Blocked:
    """`network`: with blocks in those layers where they pay, or None if they pay in none; output n of the one that it
    was made of is its output `places[n]`.

    `height`: outputs of a block; `widths`: inputs of the blocks of each layer that has some, at most. `work`: elements
    of blocks, weighted by what they cost, and connections gathered alone, padding included; `work_before`: all of them
    gathered alone. `in_blocks`, `filled`: connections in blocks, and elements there that are none.
    """

    network: NetworkLayers | None
    places: Numbers
    height: int
    widths: tuple[int, ...]
    work: float
    work_before: int
    in_blocks: int
    filled: int


def find_blocks(network: NetworkLayers) -> Blocked:
    """Find groups of outputs with the same inputs, or nearly the same, in each layer, and choose how to run them.

    Inputs and outputs may stand in any order: outputs are renumbered, and with them the next layer's inputs. Fill-ins
    are weights of 0. Where no layer is worth it the network is None and `work` what blocks would take at best.
    """
    found: list[Groups] = []
    alone: list[int] = []
    each: list[float] = []
    for first, last in network.each_run(READ_BYTES):
        layers = network.read(first, last)
        for index in range(last - first):
            found.append(find_groups(layers.column[index], layers.weight[index], layers.inputs))
            alone.append(int(layers.column[index].size))
            each.append(COST if layers.inputs < FAR else COST_FAR)
    costs = {height: [_cost(*of, height) for of in zip(found, each, strict=True)] for height in HEIGHTS}
    height = min(HEIGHTS, key=lambda h: (sum(map(min, costs[h], alone)), sum(costs[h]), -h))
    taken = [cost < other for cost, other in zip(costs[height], alone, strict=True)]
    if not any(taken):
        return Blocked(None, np.arange(network.outputs), height, (), sum(costs[height]), sum(alone), 0, 0)
    kept = [groups if take else None for groups, take in zip(found, taken, strict=True)]
    laid, places = _lay_out(network, kept, height)
    chosen = [groups for groups in kept if groups is not None]
    widths, work = tuple(groups.widest for groups in chosen), sum(map(min, costs[height], alone))
    connections, filled = sum(groups.connections for groups in chosen), sum(groups.filled for groups in chosen)
    return Blocked(laid, places, height, widths, work, sum(alone), connections, filled)


def _cost(groups: Groups, each: float, height: int) -> float:
    return each * groups.blocks(height) * height * max(1, groups.widest)


def _lay_out(network: NetworkLayers, found: Sequence[Groups | None], height: int) -> tuple[NetworkLayers, Numbers]:
    """The network with blocks in layers that have groups, the others' outputs in order; where its outputs lie."""
    counts = _evened([groups.blocks(height) if groups is not None else None for groups in found])
    places: Numbers = np.arange(network.inputs)
    single: list[Layers] = []
    for first, last in network.each_run(READ_BYTES):
        layers = network.read(first, last)
        for index in range(last - first):
            layer, groups, count = layers.part(index, index + 1), found[len(single)], counts[len(single)]
            inputs = single[-1].outputs if single else network.inputs
            if groups is None or count is None:
                layer, places = _in_order(layer, places, inputs)
            else:
                layer, places = _in_blocks(layer, places, inputs, groups, count, height)
            single.append(layer.narrow())
    return of_layers(single, network.cap), places


def _evened(counts: Sequence[int | None]) -> list[int | None]:
    """Numbers of blocks, raised to the largest of the layers beside them that are alike."""
    result = list(counts)
    begin = 0
    for number in range(len(counts) + 1):
        run = counts[begin : number + 1]
        whole = number < len(counts) and None not in run
        if whole and max(filter(None, run), default=0) <= UNEVEN * min(filter(None, run), default=0):
            continue
        done = [count for count in counts[begin:number] if count is not None]
        result[begin:number] = [max(done)] * len(done) if done else counts[begin:number]
        begin = number
    return result


def _in_order(layer: Layers, places: Numbers, inputs: int) -> tuple[Layers, Numbers]:
    places = places if places.size else np.zeros(1, np.int64)  # no inputs: there is padding only
    columns, weights = in_ascending_order(places[layer.column[0]], layer.weight[0])
    order = by_first_inputs(columns)
    column = columns[order].astype(np.int32)
    return Layers(column[None], weights[order][None], layer.bias[:, order], layer.nonzeros, inputs), np.argsort(order)


def _in_blocks(
    layer: Layers, places: Numbers, inputs: int, groups: Groups, count: int, height: int
) -> tuple[Layers, Numbers]:
    """The layer as `count` blocks, and where its outputs lie."""
    number = np.repeat(np.arange(groups.start.size - 1), np.diff(groups.start))
    pairs = np.sort(number * inputs + places[groups.inputs])  # groups stay where they were, their inputs ascend
    gathered = np.zeros((groups.start.size - 1, max(1, groups.widest)), np.int64)
    gathered[number, np.arange(number.size) - groups.start[number]] = pairs % max(1, inputs)
    output_place, block_group = _cut(groups, gathered, height)
    column = np.zeros((count, gathered.shape[1]), np.int32)
    column[: block_group.size] = gathered[block_group]
    weight = np.zeros((count * height, gathered.shape[1]), np.float32)
    real = layer.weight[0] != 0
    output = np.nonzero(real)[0]
    source = groups.member[output] * inputs + places[layer.column[0][real]]
    slot = np.searchsorted(pairs, source) - groups.start[groups.member[output]]
    np.add.at(weight, (output_place[output], slot), layer.weight[0][real])  # an input may come more than once
    bias = np.zeros((1, count * height), np.float32)
    bias[0, output_place] = layer.bias[0]
    weights = weight.reshape(1, count, height, gathered.shape[1])
    return Layers(column[None], weights, bias, layer.nonzeros, inputs), output_place


def _cut(groups: Groups, gathered: NDArray[np.int64], height: int) -> tuple[Numbers, Numbers]:
    """Where each output lies once groups are in the order of their inputs and cut into blocks; each block's group."""
    order = by_first_inputs(gathered)
    blocks = -(-groups.outputs // height)
    first = np.empty_like(blocks)
    first[order] = np.cumsum(blocks[order]) - blocks[order]
    members = np.argsort(groups.member, kind="stable")
    rank = np.empty_like(members)
    rank[members] = np.arange(members.size) - (np.cumsum(groups.outputs) - groups.outputs)[groups.member[members]]
    return first[groups.member] * height + rank, np.repeat(order, blocks[order])
