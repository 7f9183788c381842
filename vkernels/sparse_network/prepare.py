"""Prepare a network for inference: find the classes of execution that its weights allow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

from vkernels.ir.errors import OptionError

from .blocks import Blocked, find_blocks
from .fixed_points import FixedPoints, find_fixed_points
from .merge import Copies, Merged, merge_equal
from .network_layers import NetworkLayers
from .reorder import reorder_outputs

KINDS = ("auto", "general", "structured", "saturating")

WORTHWHILE = 0.5
"""The largest share of connections that merging may leave for "auto" to use the merged network."""


@dataclass(frozen=True)
class PreparedNetwork:
    """A network ready for inference in the class `kind`.

    `copies`: the output of `network` for each output of the original, None if they are the same. `fixed`: states in
    which images are finished. `findings`: in words.
    """

    kind: str
    network: NetworkLayers
    copies: Copies | None
    fixed: FixedPoints | None
    findings: tuple[str, ...]


def prepare(network: NetworkLayers, kind: str) -> tuple[PreparedNetwork, float]:
    """The network prepared for a class, and the seconds that this took: 0 if it was prepared before.

    "structured" and "saturating" become "general" if nothing is found. Raises `OptionError` for unknown kinds.
    """
    if kind not in KINDS:
        raise OptionError(f"kind is {kind!r}, expected one of {', '.join(KINDS)}")
    start = perf_counter()
    prepared: PreparedNetwork | None = network.cache.get(("prepared", kind))
    if prepared is not None:
        return prepared, 0.0
    prepared = network.cache["prepared", kind] = _prepare(network, kind)
    return prepared, perf_counter() - start


def _prepare(network: NetworkLayers, kind: str) -> PreparedNetwork:
    if kind == "general":
        return _as_it_is(network)
    if kind == "structured":
        structure = _analyse(network)
        return _structured(structure) if structure.there_is else _general(network, structure.findings)
    if kind == "saturating":
        general = prepare(network, "general")[0].network  # states are in that network's order of features
        fixed = find_fixed_points(general)
        if fixed is None:
            return _general(network, ("no fixed point is proved",))
        return PreparedNetwork("saturating", general, None, fixed, (_proof(network, fixed),))
    if bytes_of(network) > network.most_held:  # too large to be analysed unasked
        return prepare(network, "general")[0]
    structure = _analyse(network)
    merged = structure.merged
    if merged.connections <= WORTHWHILE * merged.connections_before and merged.connections_before:
        return _structured(structure)
    found = prepare(network, "saturating")[0]
    if found.fixed is not None and 2 * found.fixed.first <= network.layers:
        return found
    return _structured(structure) if structure.blocked.network is not None else prepare(network, "general")[0]


def bytes_of(network: NetworkLayers) -> int:
    """Bytes of all layers, estimated from the first of each run."""
    return sum((last - first) * network.read(first, first + 1).nbytes for first, last in network.each_run())


def _as_it_is(network: NetworkLayers) -> PreparedNetwork:
    """Any weights: reordered and in memory if they are small enough; indices are narrow in either case."""
    if bytes_of(network) <= network.most_held:
        return PreparedNetwork("general", reorder_outputs(network), None, None, ())
    read = network.read
    return PreparedNetwork(
        "general", replace(network, read=lambda first, last: read(first, last).narrow()), None, None, ()
    )


@dataclass(frozen=True)
class _Structure:
    """The merged network, the blocks found in it, and both in words."""

    merged: Merged
    blocked: Blocked
    findings: tuple[str, ...]

    @property
    def there_is(self) -> bool:
        return self.merged.has_copies or self.blocked.network is not None


def _analyse(network: NetworkLayers) -> _Structure:
    start = perf_counter()
    merged = merge_equal(network)
    between = perf_counter()
    blocked = find_blocks(merged.network)
    findings = (*_of_copies(merged, between - start), *_of_blocks(merged, blocked, perf_counter() - between))
    return _Structure(merged, blocked, findings)


def _structured(structure: _Structure) -> PreparedNetwork:
    merged, blocked = structure.merged, structure.blocked
    if blocked.network is None:
        return PreparedNetwork("structured", merged.network, merged.copies, None, structure.findings)
    return PreparedNetwork("structured", blocked.network, blocked.places[merged.copies], None, structure.findings)


def _of_copies(merged: Merged, seconds: float) -> tuple[str, ...]:
    found = f"found in {seconds:.3f} s"
    if not merged.has_copies:
        return (f"no two outputs are equal, {found}",)
    return (
        f"equal outputs merged: {merged.connections_before} connections became {merged.connections}, {found}",
        f"layers have {min(merged.distinct)} to {max(merged.distinct)} different outputs",
    )


def _of_blocks(merged: Merged, blocked: Blocked, seconds: float) -> tuple[str, ...]:
    found, times = f"found in {seconds:.3f} s", blocked.work / max(1, blocked.work_before)
    if blocked.network is None:
        return (f"no blocks: they would take {times:.2f} times the work, {found}",)
    layers, most = f"{len(blocked.widths)} of {merged.network.layers} layers", f"up to {max(blocked.widths)} inputs"
    share, filled = blocked.in_blocks / max(1, merged.connections), blocked.filled / max(1, blocked.in_blocks)
    return (
        f"blocks of {blocked.height} outputs with the same inputs, {most}, in {layers}: {found}",
        f"{share:.0%} of the connections lie in blocks, {filled:.1%} more are filled in; {times:.2f} times the work",
    )


def _general(network: NetworkLayers, findings: tuple[str, ...]) -> PreparedNetwork:
    return replace(prepare(network, "general")[0], findings=findings)


def _proof(network: NetworkLayers, fixed: FixedPoints) -> str:
    at_cap, size = int(fixed.full[-1].sum()), network.outputs
    return f"from layer {fixed.first} on a fixed point is proved; {at_cap} of {size} outputs end at the cap in it"
