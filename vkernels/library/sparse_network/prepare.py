"""Classes of execution: what is done with a network before its first image comes, and which class that allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

from vkernels.ir.errors import OptionError

from .merge import Copies, Merged, merge_equal
from .network import SparseNetwork
from .order import put_in_order
from .saturation import FixedPoints, find_fixed_points

KINDS = ("auto", "general", "structured", "saturating")

WORTHWHILE = 0.5
"""The part of all connections that merging may leave at most, for "auto" to take what was merged."""


@dataclass(frozen=True)
class Prepared:
    """`kind`: the class; `network`: what to run; `copies`: which of its outputs each real one is, None for the same;
    `fixed`: states in which images are done; `findings`: in words."""

    kind: str
    network: SparseNetwork
    copies: Copies | None
    fixed: FixedPoints | None
    findings: tuple[str, ...]


def prepare(network: SparseNetwork, kind: str) -> tuple[Prepared, float]:
    """The network made ready for a class, and the seconds that took now: 0 when it was ready.

    "structured" and "saturating" become "general" where nothing is found. Raises `OptionError` for unknown kinds.
    """
    if kind not in KINDS:
        raise OptionError(f"kind is {kind!r}, expected one of {', '.join(KINDS)}")
    kept = network.prepared
    if kind in kept:
        return kept[kind], 0.0
    start = perf_counter()
    kept[kind] = _prepare(network, kind)
    return kept[kind], perf_counter() - start


def _prepare(network: SparseNetwork, kind: str) -> Prepared:
    if kind == "general":
        return _as_it_is(network)
    if kind == "structured":
        merged = merge_equal(network)
        return _structured(merged) if merged.connections < merged.connections_before else _general(network, merged)
    if kind == "saturating":
        general = prepare(network, "general")[0].network  # states are told apart in the order that features have there
        fixed = find_fixed_points(general)
        if fixed is None:
            return _general(network)
        return Prepared("saturating", general, None, fixed, (_proof(network, fixed),))
    if bytes_of(network) > network.most_held:  # too large to be analysed by the way
        return prepare(network, "general")[0]
    merged = merge_equal(network)
    if merged.connections <= WORTHWHILE * merged.connections_before and merged.connections_before:
        return _structured(merged)
    found = prepare(network, "saturating")[0]
    few = found.fixed is None or 2 * found.fixed.first > network.layers
    return prepare(network, "general")[0] if few else found


def bytes_of(network: SparseNetwork) -> int:
    """Bytes of all its layers, if runs of them are like their first."""
    return sum((last - first) * network.read(first, first + 1).nbytes for first, last in network.each_run())


def _as_it_is(network: SparseNetwork) -> Prepared:
    """Any weights: in memory and in order if they are few enough; indices are narrow in any case."""
    if bytes_of(network) <= network.most_held:
        return Prepared("general", put_in_order(network), None, None, ())
    read = network.read
    return Prepared("general", replace(network, read=lambda first, last: read(first, last).narrow()), None, None, ())


def _structured(merged: Merged) -> Prepared:
    findings = (
        f"equal outputs merged: {merged.connections_before} connections became {merged.connections}",
        f"layers have {min(merged.distinct)} to {max(merged.distinct)} different outputs",
    )
    return Prepared("structured", merged.network, merged.copies, None, findings)


def _general(network: SparseNetwork, merged: Merged | None = None) -> Prepared:
    found = "no fixed point is proved" if merged is None else "no two outputs are equal"
    general = prepare(network, "general")[0]
    return Prepared("general", general.network, None, None, (found,))


def _proof(network: SparseNetwork, fixed: FixedPoints) -> str:
    at_cap, size = int(fixed.full[-1].sum()), network.outputs
    return f"from layer {fixed.first} on a fixed point is proved; {at_cap} of {size} outputs end at the cap in it"
