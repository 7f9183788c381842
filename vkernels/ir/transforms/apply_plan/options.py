"""`apply-plan` with a plan and facts spelled as options, for `vk-opt`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...errors import OptionError
from ...facts import Facts
from ...plan import Home, Plan


@dataclass(frozen=True)
class ApplyPlanOptions(ModulePass):
    """Replace every `vk.kernel` by a `vk.mapped`, by the plan and facts that the options give.

    Options hold text: `apply-plan{tiles="i=4" chunks="j=64","k=1" homes="e=shared" lanes=j sizes="N=100"}`.
    """

    name = "apply-plan"

    tiles: tuple[str, ...] = ()
    chunks: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    launches: tuple[str, ...] = ()
    online: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    lanes: str | None = None
    order: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    multiples: tuple[str, ...] = ()
    distinct: bool = False
    aligned: tuple[str, ...] = ()
    large: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()

    def apply(self, context: Context, module: ModuleOp) -> None:
        from . import ApplyPlan

        plan = Plan(
            tiles=_numbers(self.tiles),
            chunks=_numbers(self.chunks),
            homes={name: _home(text) for name, text in _pairs(self.homes)},
            copies=self.copies,
            splits=_numbers(self.splits),
            launches=self.launches,
            online=self.online,
            packs=self.packs,
            streams=self.streams,
            lanes=self.lanes,
            order=self.order,
        )
        facts = Facts(
            _numbers(self.sizes),
            _numbers(self.multiples),
            distinct=self.distinct,
            aligned=self.aligned,
            large=self.large,
            bounds=_numbers(self.bounds),
        )
        ApplyPlan(plan, facts).apply(context, module)


def _pairs(options: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            raise OptionError(f"apply-plan: expected name=value, found {option!r}")
        pairs.append((name, value))
    return pairs


def _numbers(options: Sequence[str]) -> dict[str, int]:
    for name, value in _pairs(options):
        if not value.isdecimal():
            raise OptionError(f"apply-plan: {name} is {value!r}, expected a number")
    return {name: int(value) for name, value in _pairs(options)}


def _home(text: str) -> Home:
    if text not in tuple(Home):
        raise OptionError(f"apply-plan: home {text!r} is not one of {', '.join(Home)}")
    return Home(text)
