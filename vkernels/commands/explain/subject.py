"""What is to be explained, from what the command line names: one kernel, one target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vkernels.ir.errors import OptionError
from vkernels.runtime.checking.asking import describe
from vkernels.runtime.checking.cases import KernelCase, Source
from vkernels.runtime.compile.workers import CompilePool
from vkernels.runtime.targets import Target

from ..check.cases import ALL, JitOptions, cases_for, is_in_file
from ..check.specialising import Wanted

_PRESENT = ("nvidia:", "amd:")


def case_named(name: str, wanted: Wanted, pool: CompilePool) -> tuple[KernelCase, tuple[str, ...]]:
    """The kernel of that name, for what is wanted; of a family the first, and the names of the others.

    Raises what `cases_for` does, and `OptionError` for what has no plan to explain.
    """
    if name == ALL:
        raise OptionError("KERNEL: `vk explain` explains one kernel; `vk check all` compares all of them")
    if is_in_file(name):
        path, _, kernel = name.rpartition(":")
        if path.endswith(".py") and kernel.isidentifier():
            source = Source(kernel, file=path)
            if describe(pool, source)["kind"] == "jit":
                raise OptionError(
                    f"{name} is a plain Triton kernel: it has neither phases nor a plan to explain; "
                    "`vk check` shows what its binary takes"
                )
    cases = [case for case in cases_for([name], wanted, JitOptions(), pool) if isinstance(case, KernelCase)]
    others = dict.fromkeys(case.source.name for case in cases[1:] if case.source.name != cases[0].source.name)
    return cases[0], tuple(others)


def target_named(name: str | None, slice_: str | None, file: Path | None) -> Target:
    """A target of the table, of this machine, or of a file of one's own; a slice of it where one is named.

    A file that describes one device alone needs no name. Raises `OptionError`, and `FileError` for the file.
    """
    from vkernels.runtime.slices import target_or_slice
    from vkernels.runtime.targets import load_targets

    own = load_targets(file) if file is not None else {}
    if name is None:
        if len(own) != 1:
            there = f"; --limits describes {', '.join(own)}" if own else ""
            raise OptionError(f"--target: which? `vk targets` lists them{there}")
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
    """The table's devices and this machine's CPU; this machine's GPUs where one of them is asked for."""
    from vkernels.runtime.slices import present_slices
    from vkernels.runtime.targets import known_targets
    from vkernels.runtime.targets.present import present_cpu

    if name.startswith(_PRESENT):
        return {**known_targets(), **{target.key: target for target in present_slices()}}
    return {**known_targets(), "cpu": present_cpu()}
