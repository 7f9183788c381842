"""What tunable constants are where a call leaves them open: as they were tuned for it, else the author's first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import Error

from . import tuned
from .arguments import bind
from .making import here
from .plans import Plans
from .protocols import Constant, KernelLike, Signature
from .specialise import kernel_in
from .tuned import Asked, Version

if TYPE_CHECKING:
    from vkernels.ir.dialect import KernelOp
    from vkernels.ir.limits import Limits

Build = Callable[[Signature], "KernelOp"]
"""Gives a kernel's IR as written. Raises the author's mistakes."""


@dataclass(frozen=True)
class Settled:
    """`constants`: the values of those that a call leaves open, by the number of their parameter; `names`: of these
    parameters. `tuned`: whether the values are as they were tuned."""

    constants: Mapping[int, Constant]
    names: tuple[str, ...] = ()
    tuned: bool = False

    def of(self, values: Sequence[Any]) -> Sequence[Any]:
        """The values of all parameters, with these."""
        if not self.constants:
            return values
        return [self.constants.get(number, value) for number, value in enumerate(values)]


NOTHING_OPEN = Settled({})


def settle(kernel: KernelLike, values: Sequence[Any], build: Build) -> Settled:
    """What the constants are of which a call has, in place of a value, what they may be (`in_order`).

    Raises `ArgumentError` for arguments that do not fit.
    """
    open_ = {
        number: parameter
        for number, (parameter, value) in enumerate(zip(kernel.parameters, values, strict=True))
        if parameter.tunable is not None and value is parameter.tunable
    }
    if not open_:
        return NOTHING_OPEN
    names = tuple(parameter.name for parameter in open_.values())
    first = Settled({number: parameter.default for number, parameter in open_.items()}, names)
    if not tuned.is_asked():
        return first
    arguments = bind(kernel, first.of(values))
    strides = {name: view.strides for name, view in arguments.tensors.items()}
    limits = here(arguments.device).limits
    found = tuned_constants(kernel, arguments.signature, names, arguments.sizes, limits, strides, build)
    if found is None:
        return first
    return Settled({number: found[parameter.name] for number, parameter in open_.items()}, names, True)


def tuned_constants(
    kernel: KernelLike,
    signature: Signature,
    open_: Sequence[str],
    sizes: Mapping[str, int],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None,
    build: Build,
) -> dict[str, Constant] | None:
    """The values that the open constants of a call have in the best tuned version that it may be, whose plan fits; None
    where there is none, and where the author gives the plan.

    `signature`: with any values of the open constants; `limits`: the device's. That version's plan is what is tuned for
    it. Nobody is asked twice for one call.
    """
    tunables = {each.name: each.tunable for each in kernel.parameters if each.tunable is not None}
    given = {name: value for name, value in signature.constants if name in tunables and name not in open_}
    dtypes = dict(signature.tensors)

    def built(constants: Mapping[str, Constant]) -> KernelOp:
        every = tuple((name, constants.get(name, value)) for name, value in signature.constants)
        return build(replace(signature, constants=every))

    def is_one(version: Version) -> dict[str, Constant] | None:
        """The version's constants, as the author wrote them, where the call may have them."""
        if version.constants.keys() != tunables.keys():
            return None
        found: dict[str, Constant] = {}
        for name, value in version.constants.items():
            values = [given[name]] if name in given else list(tunables[name].values)
            same = [each for each in values if type(each) is type(value) and each == value]
            if not same:
                return None
            found[name] = same[0]
        known = {**sizes, **dict(signature.constants), **found}
        try:
            return found if all(tunables[name].holds(known) for name in open_) else None
        except Exception:  # the author's own code
            return None

    with suppress(Error):  # in a version that is not the one that runs, or else is told of when it is made
        first = built({name: tunable.values[0] for name, tunable in tunables.items()})
        plans = Plans(kernel, first, sizes, dtypes, limits, strides)
        if plans.own() is not None:
            return None
        asked = Asked(first, sizes, dtypes, plans.allowed, strides, frozenset(tunables))
        return tuned.tuned_version(
            kernel, asked, f"{plans.question} {sorted(given.items())!r} {open_!r}", is_one, built
        )
    return None


def tuned_ahead(
    kernel: KernelLike,
    signature: Signature,
    left_open: Sequence[str],
    sizes: Mapping[str, int],
    limits: Limits,
    strides: Mapping[str, Sequence[int]],
) -> dict[str, Constant]:
    """The same where nothing is called: the tuned values of the constants that are left open; none where there are
    none."""
    names = [each.name for each in kernel.parameters if each.tunable is not None and each.name in left_open]
    if not names or not tuned.is_asked():
        return {}

    def build(signature: Signature) -> KernelOp:
        return kernel_in(kernel.build(signature))

    found = tuned_constants(kernel, signature, names, sizes, limits, strides, build)
    return {} if found is None else {name: found[name] for name in names}
