"""Options that several commands share, and the targets that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from vkernels.ir.errors import OptionError
from vkernels.targets import Target, known_targets, load_targets
from vkernels.targets.present import present_cpu
from vkernels.targets.processors import processor_targets
from vkernels.targets.slices import present_slices, slice_of, split_names, target_or_slice

from . import complete

Kernel = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL",
        autocompletion=complete.kernels,
        help="A library kernel, or FILE.py:KERNEL (the file is executed).",
    ),
]
Shape = Annotated[
    str | None,
    typer.Option("--shape", "--shapes", metavar="M=…,N=…", help="Sizes; unnamed ones keep their defaults."),
]
DType = Annotated[
    str | None, typer.Option(metavar="NAME|TENSOR=NAME,…", help="Dtype of all tensors that support it, or by tensor.")
]
Constants = Annotated[str | None, typer.Option(metavar="NAME=…,…", help="Values of constant parameters.")]
Layouts = Annotated[
    str | None,
    typer.Option(
        "--layout", metavar="TENSOR=B M H D,…", help="Dimensions of tensors that are not row-major, slowest first."
    ),
]
Cache = Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the compile cache.")]
CompileSeconds = Annotated[float, typer.Option(min=0.001, help="Time limit of one compile, in seconds.")]
Judge = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="Plans for a GPU that are compiled to take the best by its loops, as calls do."
    ),
]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the results as JSON (`-` for stdout).")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write an HTML report.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Number of threads. Default: all usable cores.")]
Weights = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder of the challenge's nN-l1.tsv, nN-l2.tsv, … Default: generate them."),
]


ALL = "all"


def chosen_targets(named: str, table: Path | None, slices: Sequence[str]) -> list[Target]:
    """Return named targets, or all known ones, and those of the user's table; each cut into each slice, if any.

    With `all`, targets that cannot be cut that way are left out. Raises `OptionError` for unknown names.
    """
    own = load_targets(table) if table is not None else {}
    known = {**known_targets(), **own}
    if named == ALL:
        found = list(known.values())
    else:
        names = split_names(named)
        if any(name.partition(":")[0] == "cpu" for name in names):
            known |= {"cpu": present_cpu(), **processor_targets()}
        try:
            found = [*(target_or_slice(name, known) for name in names), *own.values()]
        except OptionError as error:
            raise OptionError(f"--targets: {error}") from error
    if slices:
        found = list(_cut(found, slices, must=named != ALL))
    return list({target.key: target for target in found}.values())


Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="As after vk.set_deterministic(True): the same bits in every run.")
]


def specs_in(text: str) -> list[str]:
    """Split slices at commas. A part with `=` continues the slice before it, if there is one."""
    specs: list[str] = []
    for part in map(str.strip, text.split(",")):
        if specs and "=" in part:
            specs[-1] += f",{part}"
        else:
            specs.append(part)
    return specs


def _cut(targets: Iterable[Target], slices: Sequence[str], must: bool) -> list[Target]:
    specs = [spec for text in slices for spec in specs_in(text)]
    found, refused = [], []
    for target in targets:
        if ":" in target.key and target.like is not None:
            raise OptionError(f"--slice cuts whole devices; {target.key} is a slice already")
        for spec in specs:
            try:
                found.append(slice_of(target, spec))
            except OptionError as error:
                refused.append(error)
    if refused and (must or not found):
        raise OptionError(f"--slice: {refused[0]}")
    return found


_PRESENT = ("nvidia:", "amd:")


def target_named(name: str | None, slice_: str | None, file: Path | None) -> Target:
    """Return a known target, one of this machine, or one of the user's file; cut into a slice if one is named.

    A file with a single device needs no name. Raises `OptionError`, and `FileError` for the file.
    """
    own = load_targets(file) if file is not None else {}
    if name is None:
        if len(own) != 1:
            there = f"; --limits has {', '.join(own)}" if own else ""
            raise OptionError(f"--target: name a target; `vk targets` lists them{there}")
        name = next(iter(own))
    known = {**_known(name), **own}
    if slice_ is not None:
        if name not in known and any(name.startswith(f"{key}:") for key in known):
            raise OptionError(f"--slice: --target {name} names a slice already")
        name = f"{name}:{slice_}"
    try:
        return target_or_slice(name, known)
    except OptionError as error:
        raise OptionError(f"{'--target' if slice_ is None else '--slice'}: {error}") from error


def _known(name: str) -> Mapping[str, Target]:
    if name.startswith(_PRESENT):
        return {**known_targets(), **{target.key: target for target in present_slices()}}
    return {**known_targets(), "cpu": present_cpu(), **processor_targets()}
