"""Which tensors calls save, in order, as a tree: calls are alike until they save tensors of other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias


class SavedUse(NamedTuple):
    """A tensor that a call saves. `size`: of its storage; -1 where it cannot leave. `is_away`: on the host meanwhile.
    `state`: the same for tensors that share a storage which is not written between their saving; -1: none shares.
    `live`: bytes on the device then."""

    size: int
    is_away: bool
    state: int = -1
    live: int = 0


SavedTree: TypeAlias = "dict[int, tuple[SavedUse, SavedTree]]"
"""The next tensor that a call may save, by its size, and what may follow."""


def tree_of(calls: Sequence[Sequence[SavedUse]]) -> SavedTree:
    """Join what calls save. Where they are still alike, a tensor leaves if it does in one of them: with more tensors
    away, no call needs more of the device. It shares a copy only if it does in each."""
    root: SavedTree = {}
    left = [(root, [*calls], 0)]
    while left:
        tree, alike, at = left.pop()
        groups: dict[int, list[Sequence[SavedUse]]] = {}
        for call in alike:
            if at < len(call):
                groups.setdefault(call[at].size, []).append(call)
        for size, group in groups.items():
            uses = [call[at] for call in group]
            states = {each.state for each in uses}
            state = uses[0].state if len(states) == 1 else -1
            use = SavedUse(size, any(each.is_away for each in uses), state, max(each.live for each in uses))
            after: SavedTree = {}
            tree[size] = use, after
            left.append((after, group, at + 1))
    return root
