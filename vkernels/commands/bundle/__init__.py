"""`vk bundle`: look at bundles, check, compare and merge them. None of these commands runs code of a bundle."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from vkernels.ir.errors import OptionError, UntrustedError

from ..exits import Code
from ..formatting import printable
from ..options import Json
from ..plain_help import Commands
from ..results import check_writable, console_for, write_results

app = Commands(help="Show, verify, compare and merge bundles; their code is not run.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(metavar="FILE.vkb", help="A bundle.")]
Trust = Annotated[
    list[Path] | None,
    typer.Option("--trust", metavar="KEYFILE", help="A key to check with. Default: the user's folder of known keys."),
]
Unsigned = Annotated[
    bool, typer.Option("--trust-unsigned", help="Check hashes only: accept a bundle that no known key has signed.")
]


@app.command("show")
def show(file: File, json: Json = None) -> None:
    """Show what a bundle holds: kernels, sizes, targets, who built it when, and what runs on this machine."""
    from vkernels.bundles.bundle import open_bundle

    from .show import as_json, show_bundle

    check_writable(json)
    bundle = open_bundle(file, runs=False)
    show_bundle(console_for(json), bundle)
    write_results(json, "bundle show", **as_json(bundle))


@app.command("verify")
def verify(file: File, trust: Trust = None, trust_unsigned: Unsigned = False) -> None:
    """Check every byte of a bundle, every code and plan in it, and who signed it. Exit code 1: it is not trusted."""
    from vkernels.bundles.bundle import open_bundle
    from vkernels.bundles.trust import refuse_untrusted
    from vkernels.bundles.verify import check_contents

    bundle = open_bundle(file, runs=False)
    check_contents(bundle)
    console = console_for()
    try:
        signer = refuse_untrusted(bundle.container, _trusted(trust, trust_unsigned))
    except UntrustedError as error:
        console.print(f"{file}: whole, but not trusted: {error}", soft_wrap=True)
        raise typer.Exit(Code.FINDING) from None
    by = f"signed by {signer.algorithm} key {signer.key}" if signer else "not signed"
    console.print(f"{file}: whole, {by}", soft_wrap=True)


@app.command("diff")
def diff(file: File, other: File, json: Json = None) -> None:
    """List how a second bundle differs from the first: - gone, + new, ~ changed. Exit code 1: they differ."""
    from dataclasses import asdict

    from vkernels.bundles.bundle import open_bundle
    from vkernels.bundles.compare import differences

    check_writable(json)
    found = differences(open_bundle(file, runs=False), open_bundle(other, runs=False))
    console = console_for(json)
    for each in found:
        console.print(printable(str(each)), soft_wrap=True)
    if not found:
        console.print("the same kernels and code")
    write_results(json, "bundle diff", differences=[asdict(each) for each in found])
    if found:
        raise typer.Exit(Code.FINDING)


@app.command("merge")
def merge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.vkb…", help="Bundles.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.vkb", help="The bundle to write.")],
    prefer: Annotated[
        Path | None, typer.Option("--prefer", metavar="FILE.vkb", help="The bundle that wins where they differ.")
    ] = None,
    sign: Annotated[list[Path] | None, typer.Option("--sign", metavar="KEYFILE", help="Sign the result.")] = None,
    trust: Trust = None,
    trust_unsigned: Unsigned = False,
) -> None:
    """Put the kernels and code of several bundles into one. Signatures are not taken over: sign the result.

    Refused where they have other code for the same sizes and target, or kernels of one name with other texts.
    """
    from vkernels.bundles.bundle import open_bundle, write_bundle
    from vkernels.bundles.merge import merged
    from vkernels.bundles.signing import read_key

    check_writable(output)
    if len(files) < 2:
        raise OptionError("vk bundle merge: give two bundles or more")
    if prefer is not None and prefer not in files:
        raise OptionError(f"--prefer {prefer}: name one of the bundles that are merged, as it is given there")
    trusted = _trusted(trust, trust_unsigned)
    bundles = [open_bundle(file, trusted) for file in files]
    winner = None if prefer is None else bundles[files.index(prefer)]
    manifest, content = merged(bundles, shlex.join(["vk", *sys.argv[1:]]), winner)
    write_bundle(output, manifest, content, [read_key(path) for path in sign or []])
    console_for().print(f"{output}: {len(manifest.kernels)} kernel(s), {output.stat().st_size:,} bytes", soft_wrap=True)


def _trusted(keys: list[Path] | None, unsigned: bool) -> list[str | Path] | None:
    """What the options trust; None for the user's folder of known keys."""
    from vkernels.bundles.trust import UNSIGNED

    return [*(keys or []), *([UNSIGNED] if unsigned else [])] or None
