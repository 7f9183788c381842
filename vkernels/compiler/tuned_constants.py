"""The values of tunable constants that a call leaves open, as they were tuned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from vkernels.ir.errors import Error

from .plans import Plans
from .protocols import Constant, KernelLike, Signature
from .tuned_plans import TunedPlan, TunedPlans, TunedVariant

_log = logging.getLogger(__name__)


def tuned_constants(
    tuned_plans: TunedPlans,
    kernel: KernelLike,
    signature: Signature,
    left_open: Sequence[str],
    plans_of: Callable[[Signature], Plans],
) -> dict[str, Constant] | None:
    """The tunable constants of the best tuned variant of a kernel that a call may use and whose plan fits.

    None where there is no such variant, and where the author gives the plan. `signature`: with any values of the open
    constants; `plans_of`: the call's plans for a signature. The variant's plan becomes the tuned plan of the call.
    """
    provider = tuned_plans.provider
    tunables = {parameter.name: parameter.tunable for parameter in kernel.parameters if parameter.tunable is not None}
    given = {name: value for name, value in signature.constants if name in tunables and name not in left_open}
    assert provider is not None, "without a provider there is nothing to look up"

    def plans_with(constants: Mapping[str, Constant]) -> Plans:
        values = tuple((name, constants.get(name, value)) for name, value in signature.constants)
        return plans_of(replace(signature, constants=values))

    def constants_of(variant: TunedVariant) -> dict[str, Constant] | None:
        """The variant's constants, as the author wrote them, if the call may have them."""
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

    def find() -> dict[str, Constant] | None:
        for variant in provider.variants(plans.query):
            constants = constants_of(variant)
            if constants is None:
                _log.info("%s: the variant tuned with %r is skipped", kernel.name, dict(variant.constants))
                continue
            with suppress(Error):  # values that the author's own text refuses
                of_variant = plans_with(constants)
                own = variant.plan_of(of_variant.built)
                if own is None:
                    continue
                key = of_variant.cache_key if of_variant.apart is None else None
                plan = tuned_plans.fitting(kernel, of_variant.query, TunedPlan(own, variant.entry), key)
                if plan is not None:
                    tuned_plans.put(of_variant.cache_key, plan)
                    return constants
        return None

    with suppress(Error):  # the same error is raised where the variant that runs is built
        plans = plans_with({name: tunable.values[0] for name, tunable in tunables.items()})
        if plans.author_plan() is None:
            found: dict[str, Constant] | None = tuned_plans.once(
                f"{plans.cache_key} {sorted(given.items())!r} {left_open!r}", find
            )
            return found
    return None
