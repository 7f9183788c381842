"""Find outputs of a layer that gather the same inputs, or nearly the same, for any weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .merge import distinct_rows
from .network_layers import Floats, Indices

ROUNDS = 6
"""How often sets that are not equal are looked through for others that are near, at most."""

NEAR = 0.75
"""The part of the larger one of two sets that both must have to be near."""

FEW = 4
"""Sets of so many outputs, or more, make blocks as they are."""

MAX_FILL = 1.25
"""A group's outputs times its inputs, at most, as a multiple of its connections."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """Outputs that gather together: `member[n]` is output n's group, `start[g] : start[g + 1]` where its inputs lie in
    `inputs`, ascending; `connections`: of the layer, each once."""

    member: Numbers
    start: Numbers
    inputs: Numbers
    connections: int

    @property
    def outputs(self) -> Numbers:
        """How many each group has."""
        return np.bincount(self.member, minlength=self.start.size - 1)

    @property
    def widest(self) -> int:
        """Inputs of the group that has the most."""
        return int(np.diff(self.start).max(initial=0))

    @property
    def filled(self) -> int:
        """Elements of blocks that are no connections."""
        return int((self.outputs * np.diff(self.start)).sum()) - self.connections

    def blocks(self, height: int) -> int:
        """How many blocks of so many outputs there are, the last one of each group filled up."""
        return int((-(-self.outputs // height)).sum())


def find_groups(column: Indices, weight: Floats, inputs: int) -> Groups:
    """Group a layer's outputs by the sets of their inputs; connections of weight 0 are none.

    Equal sets are always found. Of sets that few outputs have and that are near another, most are: they are compared
    where the least of their inputs, in some random orders, are the same. A group of those has the inputs of all, unless
    that fills in too much.
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
    """Each output's inputs, ascending; in place of what is none, or none again, `inputs` stands last."""
    sets = np.sort(np.where(weight != 0, column, inputs).astype(np.int64), axis=1)
    again = sets[:, 1:] == sets[:, :-1]
    if (again & (sets[:, 1:] < inputs)).any():
        sets[:, 1:][again] = inputs
        sets.sort(axis=1)
    return sets


def _near(sets: Numbers, count: Numbers, inputs: int) -> Numbers:
    """For each set the one that it goes with; `count`: how many outputs have it."""
    leader, everyone, count = np.arange(len(sets)), np.arange(len(sets)), count.copy()
    size, few = (sets < inputs).sum(axis=1), count < FEW
    random = np.random.Generator(np.random.PCG64(0))
    for _ in range(ROUNDS):
        alone = np.flatnonzero(leader == everyone)
        keys = _least(sets[alone], inputs, random) * (inputs + 1) + _least(sets[alone], inputs, random)
        order = np.lexsort((alone, -count[alone], keys))  # of one key, what most outputs have comes first
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
    """The place of each set's first element in a random order of all inputs."""
    places = np.append(random.permutation(inputs), inputs)
    least: Numbers = places[sets].min(axis=1)
    return least


def _shared(sets: Numbers, others: Numbers, inputs: int) -> Numbers:
    """How many elements each set has in common with the other beside it."""
    both = np.sort(np.concatenate([sets, others], axis=1), axis=1)
    shared: Numbers = ((both[:, 1:] == both[:, :-1]) & (both[:, 1:] < inputs)).sum(axis=1)
    return shared


def _unions(sets: Numbers, leader: Numbers, inputs: int) -> tuple[Numbers, Numbers]:
    """Where each group's inputs begin, and these inputs; groups in the order of their leaders."""
    leaders, group = np.unique(leader, return_inverse=True)
    real = sets < inputs
    if leaders.size == len(sets):  # each on its own
        return np.append(0, np.cumsum(real.sum(axis=1))), sets[real]
    pairs = np.sort((group[:, None] * inputs + sets)[real])
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])] if pairs.size else pairs
    start = np.searchsorted(pairs, np.arange(len(leaders) + 1) * inputs)
    return start.astype(np.int64), pairs % max(1, inputs)
