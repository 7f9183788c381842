"""Help texts that name arguments and options as the manual does: `KERNEL…`, without the types of Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

Function = TypeVar("Function", bound=Callable[..., Any])


class PlainCommand(TyperCommand):
    """A command whose help shows metavars alone. Typer adds types, `KERNEL… <list[str]>`, and braces and dots."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            parameters = [each for each in self.get_params(ctx) if each.param_type_name == kind]
            records = [record for each in parameters if (record := each.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl([(plain_name(name, kind), text) for name, text in records])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] KERNEL…`; brackets where an argument may be left out."""
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        options = [self.options_metavar] if self.options_metavar else []
        return options + [_usage(each) for each in arguments if not getattr(each, "hidden", False)]


class Commands(typer.Typer):
    """A group of commands with plain help."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """Register a function as a command, as Typer does."""
        return super().command(name, **{"cls": PlainCommand, **options})


def plain_name(name: str, kind: str) -> str:
    """`KERNEL…` for an argument `KERNEL… <list[str]>`; `--warps N`, `--fail-on misfit|spill` for options with types."""
    if kind == "argument":
        return re.sub(r" <[^>]*>$", "", name).strip("[]")
    name = re.sub(r" <(int|float)( range)?>", " N", name)
    return re.sub(r" <(?:list\[)?([^]>]*)\]?>", r" \1", name)


def _usage(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).strip("[]")
    return name if argument.required else f"[{name}]"
