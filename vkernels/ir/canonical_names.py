"""Kernels and plans without the names that an author gave to axes, values and scratchpads.

Names follow the order of definition: `axis.0`, `scratch.0`, `value.7`. Renaming a local variable changes none of them.
No identifier has a dot, so that no canonical name is an author's. Parameters and sizes keep their names, by which
callers know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue

from .analyses import phases_of
from .dialect import (
    AssertOp,
    AxesAttr,
    IndexAttr,
    KernelOp,
    PhaseOp,
    PrintOp,
    RangeOp,
    ScratchOp,
    ScratchType,
    TileOp,
    WholeOp,
)
from .plan import Plan
from .text import print_module

AXES, VALUES, PHASES, TENSORS = "axes", "values", "phases", "tensors"
NAMED: Mapping[str, str] = {
    "tiles": AXES, "chunks": AXES, "splits": AXES, "online": AXES, "lanes": AXES, "order": AXES, "guards": AXES,
    "warp_specialized": AXES, "parallel": AXES, "homes": VALUES, "copies": VALUES, "launches": PHASES, "packs": TENSORS,
    "streams": TENSORS, "descriptors": TENSORS, "k_major": TENSORS,
}  # fmt: skip
"""What the fields of a plan name; the others are numbers."""
AXIS_PROPERTIES = ("axis", "within")
"""Properties of operations that are names of axes."""

Names = Mapping[str, tuple[str, ...]]
"""Names of one kind, each with its counterparts of the other."""


def canonical_text(kernel: KernelOp) -> str:
    """The IR of a kernel, as written, with canonical names and without texts that are only shown."""
    return print_module(ModuleOp([canonical_kernel(kernel)]))


def canonical_kernel(kernel: KernelOp) -> KernelOp:
    """A copy of a kernel, as written, with canonical names."""
    made = kernel.clone()
    axes = {axis: canonical for axis, (canonical,) in _axes(kernel).items()}
    known: dict[Attribute, Attribute] = {}
    scratchpads = loops = values = 0
    for op in made.walk():
        for name, value in op.properties.items():
            op.properties[name] = _renamed(value, axes, known, name in AXIS_PROPERTIES)
        if isinstance(op, RangeOp):  # loops one after another may share a name
            op.axis, loops = StringAttr(f"loop.{loops}"), loops + 1
        elif isinstance(op, PrintOp):
            op.prefix = StringAttr("")
        elif isinstance(op, AssertOp):
            op.message = StringAttr("")
        for each in [] if op is made else [*op.results, *_arguments(op)]:
            each._type = _renamed(each.type, axes, known)
            each.name_hint, values = f"value.{values}", values + 1
        if isinstance(op, ScratchOp):
            op.label, scratchpads = StringAttr(f"scratch.{scratchpads}"), scratchpads + 1
            op.result.name_hint = op.label.data
    return made


@dataclass(frozen=True)
class CanonicalNames:
    """The names that plans of a kernel, as written, use, and their canonical counterparts."""

    kernel: KernelOp

    @cached_property
    def axes(self) -> Names:
        """Axes, each with its canonical name."""
        return _axes(self.kernel)

    @cached_property
    def values(self) -> Names:
        """Scratchpads and values that cross phases. Values that share a name have several canonical ones."""
        return self._split[0]

    @cached_property
    def phases(self) -> Names:
        """Phases, each with the canonical names of those that share its name."""
        return self._split[1]

    def to_canonical(self, plan: Plan) -> Plan:
        """A plan with canonical names. Names that the kernel does not have stay, as in a plan that is canonical."""
        return renamed_plan(plan, self._names_of)

    def to_author(self, plan: Plan) -> Plan | None:
        """A canonical plan with the author's names; None where these cannot say it, as two values share a name."""
        found = renamed_plan(plan, lambda kind: _inverse(self._names_of(kind)))
        return found if self.to_canonical(found) == self.to_canonical(plan) else None

    def shown(self, plan: Plan) -> dict[str, str]:
        """The author's name of each canonical one in a plan."""
        kinds = {kind for name, kind in NAMED.items() if getattr(plan, name)}
        pairs = {canonical: own for kind in kinds for canonical, (own, *_) in _inverse(self._names_of(kind)).items()}
        mentioned = {name for field in NAMED for name in _mentioned(getattr(plan, field))}
        return {canonical: pairs[canonical] for canonical in sorted(pairs.keys() & mentioned)}

    def _names_of(self, kind: str) -> Names:
        # Only where a plan names values or phases is the kernel split into phases.
        return {} if kind == TENSORS else getattr(self, kind)

    @cached_property
    def _split(self) -> tuple[Names, Names]:
        own, canonical = phases_of(self.kernel), phases_of(canonical_kernel(self.kernel))
        values: dict[str, dict[str, None]] = {}
        phases: dict[str, dict[str, None]] = {}
        for mine, theirs in zip(own.walk(), canonical.walk(), strict=True):
            if isinstance(mine, PhaseOp) and isinstance(theirs, PhaseOp):
                phases.setdefault(mine.phase.data, {})[theirs.phase.data] = None
            if mine.regions or isinstance(mine, ScratchOp):
                for one, other in zip(mine.results, theirs.results, strict=True):
                    values.setdefault(_label(one), {})[_label(other)] = None
        return _as_names(values), _as_names(phases)


def names_of(kernel: KernelOp) -> CanonicalNames:
    """The names of a kernel, as written; kept with it."""
    found = kernel.analyses.get("canonical names")
    if not isinstance(found, CanonicalNames):
        found = kernel.analyses["canonical names"] = CanonicalNames(kernel)
    return found


def shown_plan(plan: Plan, names: Mapping[str, str]) -> Plan:
    """A canonical plan for people: with `names` in place of canonical ones."""
    own = {canonical: (name,) for canonical, name in names.items()}
    return renamed_plan(plan, lambda kind: {} if kind == TENSORS else own)


def renamed_plan(plan: Plan, names_of: Callable[[str], Names]) -> Plan:
    """A plan with other names of the kinds that it mentions. What has no other name keeps its own."""
    changed: dict[str, Any] = {}
    for field, kind in NAMED.items():
        value = getattr(plan, field)
        if not value:
            continue
        names = names_of(kind)
        if isinstance(value, Mapping):
            changed[field] = {new: entry for name, entry in value.items() for new in names.get(name, (name,))}
        elif isinstance(value, tuple):
            found = chain.from_iterable(names.get(name, (name,)) for name in value)
            changed[field] = tuple(dict.fromkeys(found))
        else:
            (changed[field], *_) = names.get(value, (value,))
    return replace(plan, **changed)


def _axes(kernel: KernelOp) -> Names:
    declared = (op.axis.data for op in kernel.body.block.ops if isinstance(op, TileOp | WholeOp))
    return {axis: (f"axis.{number}",) for number, axis in enumerate(declared)}


def _arguments(op: Operation) -> Iterable[SSAValue]:
    return (argument for region in op.regions for block in region.blocks for argument in block.args)


def _label(value: SSAValue) -> str:
    from .analysis.schedule.nests import label_of  # not for launches whose plan names no values

    return label_of(value)


def _mentioned(value: Any) -> Iterable[str]:
    return [value] if isinstance(value, str) else value or ()


def _as_names(found: Mapping[str, Mapping[str, None]]) -> Names:
    return {name: tuple(counterparts) for name, counterparts in found.items()}


def _inverse(names: Names) -> Names:
    return {canonical: (own,) for own, counterparts in names.items() for canonical in counterparts}


def _renamed(
    attribute: Attribute, axes: Mapping[str, str], known: dict[Attribute, Attribute], is_axis: bool = False
) -> Attribute:
    """An attribute with other names of axes. `known`: attributes that were renamed before. `is_axis`: texts in it are
    axes."""
    if is_axis:
        if isinstance(attribute, StringAttr):
            return StringAttr(axes.get(attribute.data, attribute.data))
        if isinstance(attribute, ArrayAttr):
            return ArrayAttr(_renamed(each, axes, known, True) for each in attribute)
    if attribute not in known:
        known[attribute] = _with_axes(attribute, axes, known)
    return known[attribute]


def _with_axes(attribute: Attribute, axes: Mapping[str, str], known: dict[Attribute, Attribute]) -> Attribute:
    if isinstance(attribute, AxesAttr):
        return AxesAttr(axes.get(name, name) for name in attribute.names)
    if isinstance(attribute, IndexAttr):
        return IndexAttr(((axes.get(axis, axis), n) for axis, n in attribute.terms), attribute.offset.data)
    if isinstance(attribute, ScratchType):
        return ScratchType([axes.get(str(d), d) for d in attribute.shape], attribute.element)
    if isinstance(attribute, ArrayAttr):
        return ArrayAttr(_renamed(each, axes, known) for each in attribute)
    if isinstance(attribute, ParametrizedAttribute):
        return type(attribute).new([_renamed(each, axes, known) for each in attribute.parameters])
    return attribute
