"""The command line: `vk`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

COMMAND_LINE = ("typer", "rich")
"""Packages of the command line alone: programs that load bundles do without."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vk` with these arguments (the process's, by default) and exit as `vkernels.commands.exits` says."""
    from .exits import Code, exit_with_code

    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name not in COMMAND_LINE:
            raise
        print(f"error: {error.name} is not installed, and the command line needs it: pip install typer",
              file=sys.stderr)  # fmt: skip
        sys.exit(Code.ENVIRONMENT)
    exit_with_code(lambda: app(arguments, prog_name="vk"))
