"""Kernels and plans that tests of needs have in common."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from jaxtyping import Float

import vkernels as vk
from vkernels.compiler.arguments import dense_tensors
from vkernels.compiler.compile_gpu import lower_for
from vkernels.compiler.protocols import Signature
from vkernels.compiler.specialise import facts_for, kernel_in
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import Needs, NeedsDevice
from vkernels.ir.dialect import PhaseOp, ScratchOp, SizeOp, TileOp, WholeOp, axes_of
from vkernels.ir.errors import PlanError
from vkernels.ir.plan import Home, Plan
from vkernels.ir.transforms.split_phases import split_phases
from vkernels.library.catalogue import CatalogueEntry

GPU = NeedsDevice(warp=32, registers=255, block_registers=65536, copies_ahead=True)
CPU = NeedsDevice(warp=1, registers=16, register_bytes=32, tensor_cores=False)


@vk.kernel
def copied(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[i, j]


@vk.kernel
def confusing(x: Float[vk.Tensor, "i warps"], out: Float[vk.Tensor, "i warps"]):
    i = vk.tile("i")
    j = vk.whole("warps")
    out[i, j] = x[i, j] + 1.0


def needs_of(kernel: object, **dtypes: str) -> Needs:
    """The needs of a kernel without scalars for tensors of some dtypes."""
    return annotate_needs(kernel_in(kernel.build(Signature(tuple(dtypes.items())))))  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Library:
    """A kernel of the library with its usual arguments, in IR."""

    entry: CatalogueEntry

    def __post_init__(self) -> None:
        kernel = getattr(import_module(self.entry.module), self.entry.name)
        object.__setattr__(self, "kernel", kernel)
        tensors = {}
        for p in kernel.parameters:
            if p.kind == "tensor":
                wanted = "float32" if p.name in self.entry.computed else self.entry.dtype
                tensors[p.name] = wanted if wanted in p.dtypes else "int32"
        object.__setattr__(self, "dtypes", tensors)
        scalars = tuple((p.name, p.dtypes[0]) for p in kernel.parameters if p.kind == "scalar")
        constants = tuple((p.name, p.default) for p in kernel.parameters if p.kind == "constant")
        object.__setattr__(self, "module", kernel.build(Signature(tuple(tensors.items()), scalars, constants)))

    kernel = dtypes = module = None

    @property
    def sizes(self) -> Mapping[str, int]:
        """Those of the entry, and those that follow from them."""
        given, kernel = dict(self.entry.shape), self.kernel
        constants = {p.name: p.default for p in kernel.parameters if p.kind == "constant"}  # type: ignore[attr-defined]
        follow = kernel.samples.sizes.items()  # type: ignore[attr-defined]
        return {name: size(given, constants) for name, size in follow if name not in given} | given

    @property
    def needs(self) -> Needs:
        return annotate_needs(kernel_in(self.module))  # type: ignore[arg-type]

    def random_plan(self, rng: random.Random) -> Plan:
        """Small tiles, any homes."""
        split = self.module.clone()  # type: ignore[attr-defined]
        split_phases(split)
        ops = list(kernel_in(split).walk())
        extents = {
            op.axis.data: self.sizes[op.extent.owner.size.data] if isinstance(op.extent.owner, SizeOp) else 64
            for op in ops
            if isinstance(op, TileOp | WholeOp)
        }
        chosen = {axis: 1 << rng.randint(0, 6) for axis in extents}
        wholes = [op.axis.data for op in ops if isinstance(op, WholeOp)]
        labels = {
            r.name_hint for op in ops if isinstance(op, PhaseOp) for r in op.results if set(axes_of(r)) & {*wholes}
        }
        homes = {label: rng.choice(list(Home)[1:]) for label in sorted(filter(None, labels)) if rng.random() < 0.7}
        copies = tuple(op.label.data for op in ops if isinstance(op, ScratchOp) and rng.random() < 0.5)
        return Plan(
            {axis: size for axis, size in chosen.items() if axis not in wholes},
            {axis: chosen[axis] for axis in wholes}, homes, copies, warps=rng.choice((1, 2, 4, 8)),
        )  # fmt: skip

    def lowered(self, plan: Plan) -> object:
        """What lowering to TTIR gives. Raises `PlanError` where the kernel cannot have the plan."""
        tensors = dense_tensors(self.kernel, self.sizes, self.dtypes)  # type: ignore[arg-type]
        kernel = kernel_in(self.module)  # type: ignore[arg-type]
        facts = facts_for(kernel, plan, self.sizes, tensors, exact_whole=True, for_gpu=True)
        return lower_for(self.module, plan, facts).lowered  # type: ignore[arg-type]


__all__ = ["CPU", "GPU", "Library", "PlanError", "confusing", "copied", "needs_of"]
