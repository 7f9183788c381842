"""The command line: `vk`."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vk` with these arguments (the process's, by default) and exit as `vkernels.commands.exits` says."""
    from .app import app
    from .exits import exit_with_code

    exit_with_code(lambda: app(arguments, prog_name="vk"))
