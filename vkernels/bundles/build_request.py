"""What a bundle is to be built of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vkernels.compiler.arguments import Same
from vkernels.compiler.protocols import KernelLike, Signature


@dataclass(frozen=True)
class BuildRequest:
    """A kernel to compile. `shapes`: sizes by name, of one or several calls; `strides`: of tensors that are not row
    after row, for each shape; `same`: for each shape, which tensors are one; `left_open`: constants that calls do not
    give; `reference`: MODULE:NAME; `for_gpus`: whether it is for targets that are GPUs, or not; None: for all."""

    kernel: KernelLike
    signature: Signature
    shapes: tuple[Mapping[str, int], ...]
    strides: tuple[Mapping[str, Sequence[int]], ...] = ()
    left_open: tuple[str, ...] = ()
    reference: str = ""
    same: tuple[Same, ...] = ()
    for_gpus: bool | None = None


@dataclass(frozen=True)
class BuildOptions:
    """What a bundle holds. `targets`: `cpu`, this machine's, `cpu:INSTRUCTIONS`, or GPUs; `in_place`: also calls in
    which a tensor that is written is another one; `plain`: also code for sizes that are not named; `deterministic`:
    calls are set to be. `command`: that built it, for its readers."""

    targets: tuple[str, ...] = ("cpu",)
    in_place: bool = False
    plain: bool = True
    deterministic: bool = False
    command: str = ""
