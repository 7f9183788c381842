"""The values of tunable constants that a call leaves open: as they were tuned for it, else the author's first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkernels.compiler.protocols import Constant, KernelLike

from .bind_arguments import bind
from .present_target import present_target

if TYPE_CHECKING:
    from vkernels.compiler.session import CompilerSession


@dataclass(frozen=True)
class ResolvedTunables:
    """`constants`: the values of those that a call leaves open, by the number of their parameter; `names`: of these
    parameters. `tuned`: whether the values are as they were tuned."""

    constants: Mapping[int, Constant]
    names: tuple[str, ...] = ()
    tuned: bool = False

    def fill(self, values: Sequence[Any]) -> Sequence[Any]:
        """The values of all parameters, with these."""
        if not self.constants:
            return values
        return [self.constants.get(number, value) for number, value in enumerate(values)]


NOTHING_OPEN = ResolvedTunables({})


def resolve_tunables(kernel: KernelLike, values: Sequence[Any], session: CompilerSession) -> ResolvedTunables:
    """The values of the constants for which a call has, in place of a value, what they may be (`in_order`).

    Raises `ArgumentError` for arguments that do not fit.
    """
    left_open = {
        number: parameter
        for number, (parameter, value) in enumerate(zip(kernel.parameters, values, strict=True))
        if parameter.tunable is not None and value is parameter.tunable
    }
    if not left_open:
        return NOTHING_OPEN
    names = tuple(parameter.name for parameter in left_open.values())
    default = ResolvedTunables({number: parameter.default for number, parameter in left_open.items()}, names)
    if session.tuned_plans.provider is None:
        return default
    arguments = bind(kernel, default.fill(values))
    found = session.tuned_constants(kernel, arguments, present_target(arguments.device).limits, names)
    if found is None:
        return default
    return ResolvedTunables({number: found[parameter.name] for number, parameter in left_open.items()}, names, True)
