"""Which code of a bundle a call may run, and which of these is the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from vkernels.compiler.arguments import Arguments, ArrayView, Same
from vkernels.ir.errors import NotInBundleError, OptionError

from .frozen_kernel import described
from .manifest import Assumptions, Code, Kernel, Variant

Fallback = Literal["error", "plain"]
FALLBACKS: tuple[Fallback, ...] = ("error", "plain")
_ORDER = ("shape", "class", "plain")


def check_fallback(fallback: str) -> None:
    """Raise `OptionError` for a fallback that does not exist."""
    if fallback not in FALLBACKS:
        raise OptionError(f"fallback: expected {' or '.join(FALLBACKS)}, got {fallback!r}")


def variant_for(kernel: Kernel, arguments: Arguments, left_open: Iterable[str]) -> Variant:
    """The variant for a call's dtypes, scalars and constants; constants that are left open may have any value.

    Raises `NotInBundleError`, and names what there is.
    """
    signature, open_names = arguments.signature, set(left_open)
    for variant in kernel.variants:
        if (variant.tensors, variant.scalars) == (signature.tensors, signature.scalars) and all(
            name in open_names or (type(value), value) == (type(given), given)
            for (name, value), (_, given) in zip(variant.constants, signature.constants, strict=True)
        ):
            return variant
    wanted = described([*signature.tensors, *signature.scalars, *signature.constants])
    there = "; ".join(
        dict.fromkeys(described([*each.tensors, *each.scalars, *each.constants]) for each in kernel.variants)
    )
    raise NotInBundleError(f"{kernel.name}: the bundle has no code for {wanted}; it has {there or 'none'}")


def code_for(
    kernel: Kernel, variant: Variant, runnable: Sequence[Code], arguments: Arguments, same: Same, fallback: str,
    device: str = "this machine",
) -> Code:  # fmt: skip
    """The best code that a call may run. `runnable`: code of the variant for its device, the best first; `device`: its
    name in messages.

    Raises `NotInBundleError` where there is none: for these sizes, or for this device.
    """
    found = [
        code
        for code in runnable
        if code.same == same and (code.role != "shape" or dict(code.shape) == dict(arguments.sizes))
        if (fallback == "plain" or code.role == "shape") and holds(code.assumes, arguments)
    ]
    if found:
        return min(found, key=lambda code: _ORDER.index(code.role))
    shown, what = described(arguments.sizes), f"{kernel.name}: the bundle has no code for "
    if not runnable:
        targets = ", ".join(dict.fromkeys(code.target for code in variant.codes)) or "none"
        raise NotInBundleError(f"{what}{device}; it has code for {targets}")
    if same:
        pairs = ", ".join(f"{one} and {other}" for one, other in same)
        raise NotInBundleError(f"{what}calls in which {pairs} are the same tensor")
    shapes = "; ".join(dict.fromkeys(described(code.shape) for code in runnable if code.role == "shape"))
    hint = "" if fallback == "plain" else ' fallback="plain" runs its plain code for other sizes, if it has some.'
    raise NotInBundleError(f"{what}{shown} with these strides; it has code for {shapes or 'none'}.{hint}")


def holds(assumes: Assumptions, arguments: Arguments) -> bool:
    """Whether a call is as code relies on."""
    sizes = arguments.sizes
    return (
        all(sizes.get(name) == size for name, size in assumes.sizes.items())
        and all(sizes.get(name, 1) % number == 0 for name, number in assumes.multiples.items())
        and all(sizes.get(name, most + 1) <= most for name, most in assumes.most.items())
        and all(sizes.get(name, -1) >= least for name, least in assumes.least.items())
        and _strides_hold(assumes.strides, arguments.tensors)
    )


def _strides_hold(known: Mapping[str, Sequence[int]], tensors: Mapping[str, ArrayView]) -> bool:
    """Whether strides are as known; those of dimensions of one element, and of empty tensors, do not matter."""
    for name, strides in known.items():
        view = tensors.get(name)
        if view is None or len(view.strides) != len(strides):
            return False
        if view.size and any(
            wanted not in (-1, stride) and length > 1
            for wanted, stride, length in zip(strides, view.strides, view.shape, strict=True)
        ):
            return False
    return True
