"""The values of tunable constants that a call leaves open, as they were tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from vkernels.ir.errors import Error

from .plans import Plans
from .protocols import Constant, KernelLike, Signature
from .tuned_plans import TunedPlans, TunedVariant

if TYPE_CHECKING:
    from vkernels.ir.dialect import KernelOp

Build = Callable[[Signature], "KernelOp"]
"""Gives a kernel's IR as written. Raises the author's mistakes."""


def tuned_constants(
    tuned_plans: TunedPlans,
    kernel: KernelLike,
    signature: Signature,
    left_open: Sequence[str],
    build: Build,
    plans_of: Callable[[KernelOp], Plans],
) -> dict[str, Constant] | None:
    """The values that the open constants of a call have in the best tuned variant that it may use and whose plan fits;
    None where there is none, and where the author gives the plan.

    `signature`: with any values of the open constants; `plans_of`: the call's plans for the IR of some values. The
    variant's plan becomes the tuned plan of the call.
    """
    tunables = {parameter.name: parameter.tunable for parameter in kernel.parameters if parameter.tunable is not None}
    given = {name: value for name, value in signature.constants if name in tunables and name not in left_open}

    def build_with(constants: Mapping[str, Constant]) -> KernelOp:
        values = tuple((name, constants.get(name, value)) for name, value in signature.constants)
        return build(replace(signature, constants=values))

    def constants_of(variant: TunedVariant) -> dict[str, Constant] | None:
        """The variant's constants, as the author wrote them, where the call may have them."""
        if variant.constants.keys() != tunables.keys():
            return None
        found: dict[str, Constant] = {}
        for name, value in variant.constants.items():
            values = [given[name]] if name in given else list(tunables[name].values)
            equal = [candidate for candidate in values if type(candidate) is type(value) and candidate == value]
            if not equal:
                return None
            found[name] = equal[0]
        known = {**plans.sizes, **dict(signature.constants), **found}
        try:
            return found if all(tunables[name].holds(known) for name in left_open) else None
        except Exception:  # the author's own code
            return None

    with suppress(Error):  # the same error is raised where the variant that runs is built
        plans = plans_of(build_with({name: tunable.values[0] for name, tunable in tunables.items()}))
        if plans.author_plan() is not None:
            return None
        key = f"{plans.cache_key} {sorted(given.items())!r} {left_open!r}"
        return tuned_plans.constants(kernel, plans.query, key, constants_of, build_with)
    return None
