"""Put outputs with common inputs side by side: a layer becomes dense blocks times gathered features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .from_matrices import of_layers
from .merge import distinct_rows
from .network_layers import Floats, Indices, Layers, NetworkLayers
from .reorder import by_first_inputs, in_ascending_order

ROUNDS = 6
"""Searches for similar sets, at most."""

NEAR = 0.75
"""Two sets are similar if they share this part of the larger one."""

FEW = 4
"""Sets of at least this many outputs become blocks without a search."""

MAX_FILL = 1.25
"""Limit for a group's outputs times its inputs, as a multiple of its connections."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """Groups of outputs: `member[n]` is output n's group, `inputs[start[g] : start[g + 1]]` are group g's inputs,
    ascending; `connections`: distinct connections of the layer."""

    member: Numbers
    start: Numbers
    inputs: Numbers
    connections: int

    @property
    def outputs(self) -> Numbers:
        """The number of outputs of each group."""
        return np.bincount(self.member, minlength=self.start.size - 1)

    @property
    def widest(self) -> int:
        """The largest number of inputs of a group."""
        return int(np.diff(self.start).max(initial=0))

    @property
    def filled(self) -> int:
        """Elements of groups that are no connections."""
        return int((self.outputs * np.diff(self.start)).sum()) - self.connections

    def blocks(self, height: int) -> int:
        """The number of blocks of `height` outputs; the last one of each group is padded."""
        return int((-(-self.outputs // height)).sum())


def find_groups(column: Indices, weight: Floats, inputs: int) -> Groups:
    """Group a layer's outputs by the sets of their inputs; connections of weight 0 do not count.

    Equal sets are always found. Most similar sets of few outputs are found too: sets are compared if their least inputs
    in some random orders are equal. A group has the inputs of all its sets, unless that needs too much padding.
    """
    sets = _sets(column, weight, inputs)
    if not sets.size:
        none = np.zeros(0, np.int64)
        return Groups(none, np.zeros(1, np.int64), none, 0)
    first, copy = distinct_rows(sets, np.zeros(sets.shape, np.float32), np.zeros(len(sets), np.float32))
    distinct, count = sets[first], np.bincount(copy)
    connections = (distinct < inputs).sum(axis=1) * count
    leader = _near(distinct, count, inputs)
    start, _ = _unions(distinct, leader, inputs)
    together = np.unique(leader, return_inverse=True)[1]
    area = np.bincount(together, count) * np.diff(start)
    too_full = area > MAX_FILL * np.bincount(together, connections)
    leader = np.where(too_full[together], np.arange(len(leader)), leader)
    start, union = _unions(distinct, leader, inputs)
    return Groups(np.unique(leader, return_inverse=True)[1][copy], start, union, int(connections.sum()))


def _sets(column: Indices, weight: Floats, inputs: int) -> Numbers:
    """Each output's inputs, ascending and without repetition, padded with `inputs`."""
    sets = np.sort(np.where(weight != 0, column, inputs).astype(np.int64), axis=1)
    again = sets[:, 1:] == sets[:, :-1]
    if (again & (sets[:, 1:] < inputs)).any():
        sets[:, 1:][again] = inputs
        sets.sort(axis=1)
    return sets


def _near(sets: Numbers, count: Numbers, inputs: int) -> Numbers:
    """The set that each set is grouped with; `count`: outputs of each set."""
    leader, everyone, count = np.arange(len(sets)), np.arange(len(sets)), count.copy()
    size, few = (sets < inputs).sum(axis=1), count < FEW
    random = np.random.Generator(np.random.PCG64(0))
    for _ in range(ROUNDS):
        alone = np.flatnonzero(leader == everyone)
        keys = _least(sets[alone], inputs, random) * (inputs + 1) + _least(sets[alone], inputs, random)
        order = np.lexsort((alone, -count[alone], keys))  # among equal keys, sets of most outputs first
        alone, keys = alone[order], keys[order]
        begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        chief = np.repeat(alone[begins], np.diff(np.append(begins, len(keys))))
        alone, chief = alone[alone != chief], chief[alone != chief]
        near = _shared(sets[alone], sets[chief], inputs) >= NEAR * np.maximum(size[alone], size[chief])
        near &= few[alone]
        if not near.any():
            break
        leader[alone[near]] = chief[near]
        np.add.at(count, chief[near], count[alone[near]])
    while (leader[leader] != leader).any():
        leader = leader[leader]
    return leader


def _least(sets: Numbers, inputs: int, random: np.random.Generator) -> Numbers:
    """The position of each set's first element in a random order of all inputs."""
    places = np.append(random.permutation(inputs), inputs)
    least: Numbers = places[sets].min(axis=1)
    return least


def _shared(sets: Numbers, others: Numbers, inputs: int) -> Numbers:
    both = np.sort(np.concatenate([sets, others], axis=1), axis=1)
    shared: Numbers = ((both[:, 1:] == both[:, :-1]) & (both[:, 1:] < inputs)).sum(axis=1)
    return shared


def _unions(sets: Numbers, leader: Numbers, inputs: int) -> tuple[Numbers, Numbers]:
    """Starts of each group's inputs, and the inputs; groups are in the order of their leaders."""
    leaders, group = np.unique(leader, return_inverse=True)
    real = sets < inputs
    if leaders.size == len(sets):  # each on its own
        return np.append(0, np.cumsum(real.sum(axis=1))), sets[real]
    pairs = np.sort((group[:, None] * inputs + sets)[real])
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])] if pairs.size else pairs
    start = np.searchsorted(pairs, np.arange(len(leaders) + 1) * inputs)
    return start.astype(np.int64), pairs % max(1, inputs)


HEIGHTS = (4, 8, 16, 32)
"""Possible numbers of outputs of a block."""

COST, COST_FAR = 0.9, 0.75
"""Cost of an element of a block relative to a connection outside of blocks: measured on one core, 0.80 to 0.96 at 1024
to 16384 inputs, 0.55 to 0.6 at 65536, which exceed the cache."""

FAR = 32768
"""Number of inputs from which on a layer's features exceed a core's cache."""

UNEVEN = 1.125
"""Consecutive layers get equally many blocks, so that one launch can run them, if the most is at most this times the
fewest."""


@dataclass(frozen=True)
class Blocked:
    """`network`: with blocks in the layers where they pay, or None if they pay in none; output n of the original is its
    output `places[n]`.

    `height`: outputs of a block; `widths`: the most inputs of a block in each layer with blocks. `work`: elements of
    blocks, weighted by their cost, and other connections, with padding; `work_before`: work without blocks.
    `in_blocks`, `filled`: connections in blocks, and padding there.
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
    """Find groups of outputs with equal or similar inputs in each layer, and decide which layers run as blocks.

    Outputs are renumbered, and with them the next layer's inputs. Padding has weights of 0. If no layer profits, the
    network is None and `work` is the least work with blocks.
    """
    found: list[Groups] = []
    alone: list[int] = []
    each: list[float] = []
    for layer in network.each_layer():
        found.append(find_groups(layer.column[0], layer.weight[0], layer.inputs))
        alone.append(int(layer.column.size))
        each.append(COST if layer.inputs < FAR else COST_FAR)
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
    """The network with blocks in layers that have groups, and the places of its outputs."""
    counts = _evened([groups.blocks(height) if groups is not None else None for groups in found])
    places: Numbers = np.arange(network.inputs)
    single: list[Layers] = []
    for layer, groups, count in zip(network.each_layer(), found, counts, strict=True):
        inputs = single[-1].outputs if single else network.inputs
        if groups is None or count is None:
            laid, places = _in_order(layer, places, inputs)
        else:
            laid, places = _in_blocks(layer, places, inputs, groups, count, height)
        single.append(laid.narrow())
    return of_layers(single, network.cap), places


def _evened(counts: Sequence[int | None]) -> list[int | None]:
    """Numbers of blocks, raised to the largest of similar neighbouring layers."""
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
    """The layer as `count` blocks, and the places of its outputs."""
    number = np.repeat(np.arange(groups.start.size - 1), np.diff(groups.start))
    pairs = np.sort(number * inputs + places[groups.inputs])  # groups keep their order, their inputs ascend
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
    """The place of each output when groups are sorted by inputs and cut into blocks, and each block's group."""
    order = by_first_inputs(gathered)
    blocks = -(-groups.outputs // height)
    first = np.empty_like(blocks)
    first[order] = np.cumsum(blocks[order]) - blocks[order]
    members = np.argsort(groups.member, kind="stable")
    rank = np.empty_like(members)
    rank[members] = np.arange(members.size) - (np.cumsum(groups.outputs) - groups.outputs)[groups.member[members]]
    return first[groups.member] * height + rank, np.repeat(order, blocks[order])
