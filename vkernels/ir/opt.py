"""`vk-opt`: parse IR, run passes over it, verify and print it. The workbench of passes and of golden tests."""

# xDSL leaves the methods of its driver without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from .dialect import VK
from .dialect.arith import ARITH
from .errors import Error, OptionError
from .pipeline import PASSES, load_pass
from .text import described, well_formed

_OURS: dict[str, Callable[[], Dialect]] = {"vk": lambda: VK, "arith": lambda: ARITH}
"""Dialects that are the project's own, or that it declares more fully than xDSL."""


class VkOpt(xDSLOptMain):
    """xDSL's driver, with the vk dialect and the project's passes beside the upstream ones."""

    version_format = "vk-opt, on xdsl {xdsl_version}"

    def register_all_dialects(self) -> None:
        for name, dialect in {**Universe.get_multiverse().all_dialects, **_OURS}.items():
            self.ctx.register_dialect(name, dialect)

    def register_all_passes(self) -> None:
        super().register_all_passes()
        for name in PASSES:
            self.register_pass(name, _loader(name))

    def setup_pipeline(self) -> None:
        try:
            super().setup_pipeline()
        except (ValueError, ArgSpecParseError) as error:
            raise OptionError(f"--passes: {error}") from error

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        try:
            return super().prepare_input()
        except ValueError as error:
            raise OptionError(f"{self.get_input_name()}: {error}; expected a file that ends in .mlir") from error

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp | None:
        with well_formed(self.get_input_name()):
            module = super().parse_chunk(chunk, file_extension, start_offset)
            if module is not None and not self.args.disable_verify:
                module.verify()
        return module


def _loader(name: str) -> Callable[[], type[ModulePass]]:
    return lambda: load_pass(name)


def _with_passes(arguments: Sequence[str]) -> list[str]:
    """The arguments with every `--split-phases` or `--apply-plan{options}` gathered, in order, into one `-p`."""
    passes, others = [], []
    remaining = iter(arguments)
    for argument in remaining:
        if argument in ("-p", "--passes"):
            passes.append(next(remaining, ""))
        elif argument.startswith("--") and argument[2:].split("{")[0] in PASSES:
            passes.append(argument[2:])
        else:
            others.append(argument)
    return [*others, "--passes", ",".join(passes)] if passes else others


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `vk-opt` with the given or the process's arguments; returns the exit code.

    0 well; 2 for text that is not valid IR, an unknown option or pass, or a pass that refuses the IR. Beside
    xDSL's own options, every pass of the project is one: `--split-phases`, `--apply-plan{options}`.
    """
    try:
        VkOpt("Run passes over vk IR.", _with_passes(sys.argv[1:] if arguments is None else arguments)).run()
    except (Error, OSError, ParseError, DiagnosticException) as error:
        print(f"vk-opt: {described(error) if isinstance(error, DiagnosticException) else error}", file=sys.stderr)
        return 2
    return 0
