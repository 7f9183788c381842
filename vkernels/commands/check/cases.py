"""What is to be checked, from what the command line names."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from vkernels.ir.errors import OptionError
from vkernels.ir.nearest import meant
from vkernels.library.catalogue import CATALOGUE, Entry, entries_named, names
from vkernels.library.recipes import recipe_of
from vkernels.runtime.checking.asking import describe
from vkernels.runtime.checking.cases import Case, JitCase, KernelCase, Source
from vkernels.runtime.checking.signatures import Parameter, parse_signature
from vkernels.runtime.compile.workers import CompilePool

from .specialising import Declared, Wanted, kernel_case, refuse_unknown

ALL = "all"


@dataclass(frozen=True)
class JitOptions:
    """What is said of a plain Triton kernel alone."""

    signature: str | None = None
    warps: int | None = None
    stages: int | None = None

    @property
    def are_given(self) -> bool:
        return (self.signature, self.warps, self.stages) != (None, None, None)


def cases_for(kernels: Sequence[str], wanted: Wanted, jit: JitOptions, pool: CompilePool) -> list[Case]:
    """The cases of some names: `all`, the library's, or FILE.py:KERNEL, for which the file is executed in a child.

    Raises `OptionError` for what does not exist or go together, and `FileError` for a file that does not run.
    """
    if jit.warps is not None and jit.warps & (jit.warps - 1):
        raise OptionError(f"--warps: expected a power of two, got {jit.warps}")
    files = [name for name in kernels if is_in_file(name)]
    entries = _library([name for name in kernels if not is_in_file(name)], wanted.dtype)
    if jit.are_given and entries:
        raise OptionError("--signature, --warps and --stages are for plain Triton kernels, given as FILE.py:KERNEL")
    declared = [_declared(entry) for entry in entries]
    if entries:
        refuse_unknown(wanted, declared, " and ".join(dict.fromkeys(kernels)))
    cases = [
        _laid_out(
            kernel_case(Source(entry.name, entry.module), parameters, wanted, entry.shape, entry.dtype, entry.computed)
        )
        for entry, parameters in zip(entries, declared, strict=True)
    ]
    once: dict[str, Case] = {json.dumps(case.as_request()): case for case in cases}
    return [*once.values(), *(case for name in files for case in _in_file(name, wanted, jit, pool))]


def _laid_out(case: KernelCase) -> KernelCase:
    """The tensors of a library's kernel as the library gives them to it."""
    if not recipe_of(case.source.name).layout:
        return case
    from vkernels.autotune.arguments import strides_of
    from vkernels.autotune.task import Task

    return replace(case, strides=strides_of(Task(case.source.name, case.shape, case.dtypes, case.constants)))


def is_in_file(name: str) -> bool:
    """Whether a kernel is named as FILE.py:KERNEL."""
    return ".py:" in name or name.endswith(".py")


def _library(kernels: Sequence[str], dtype: str | None) -> list[Entry]:
    """The entries of some names. `all` are those that can have the dtype."""
    found: list[Entry] = []
    for name in kernels:
        entries = CATALOGUE if name == ALL else entries_named(name)
        if not entries:
            help_ = f"{meant(name, [ALL, *names()])} One's own are FILE.py:KERNEL."
            raise OptionError(f"there is no kernel {name!r}; {help_}")
        able = [entry for entry in entries if dtype is None or dtype in entry.dtypes]
        if not able or (len(able) < len(entries) and name != ALL):
            unable = next(entry for entry in entries if entry not in able)
            raise OptionError(f"--dtype: {unable.name} cannot be {dtype}; it takes {', '.join(unable.dtypes)}")
        found += [entry for entry in able if entry not in found]
    return found


def _declared(entry: Entry) -> list[Declared]:
    missing = inspect.Parameter.empty
    return [
        Declared(p.name, p.kind, tuple(p.dimensions), tuple(p.dtypes), p.default is not missing, p.default)
        for p in getattr(import_module(entry.module), entry.name).parameters
    ]


def _in_file(named: str, wanted: Wanted, jit: JitOptions, pool: CompilePool) -> list[Case]:
    """The cases of a kernel in a user's file: one, or one for each autotune configuration."""
    path, _, name = named.rpartition(":")
    if not path.endswith(".py") or not name.isidentifier():
        raise OptionError(f"{named}: a kernel in a file is named as FILE.py:KERNEL")
    source = Source(name, file=path)
    answer = describe(pool, source)
    if answer["kind"] == "jit":
        return _jit_cases(source, answer, wanted, jit)
    if jit.are_given:
        raise OptionError(f"{named} is a vk.kernel; --signature, --warps and --stages are for plain Triton kernels")
    parameters = [_as_declared(each) for each in answer["parameters"]]
    refuse_unknown(wanted, [parameters], named)
    return [kernel_case(source, parameters, wanted, {})]


def _as_declared(answer: dict[str, Any]) -> Declared:
    return Declared(**{**answer, "dimensions": tuple(answer["dimensions"]), "dtypes": tuple(answer["dtypes"])})


def _jit_cases(source: Source, answer: dict[str, Any], wanted: Wanted, jit: JitOptions) -> list[Case]:
    parameters = [Parameter(**each) for each in answer["parameters"]]
    if wanted.shape or wanted.dtype is not None or wanted.dtypes:
        raise OptionError(f"{source.shown} is a plain Triton kernel: it takes --signature, not --shape or --dtype")
    if jit.signature is None:
        names = ", ".join(parameter.name for parameter in parameters if not parameter.constant)
        raise OptionError(f"{source.shown} is a plain Triton kernel: --signature must give the types of {names}")
    signature = parse_signature(jit.signature, parameters, wanted.constants)
    return [
        JitCase(source, signature, number, _configuration(each, wanted, jit), jit.warps, jit.stages)
        for number, each in enumerate(answer["configurations"])
    ]


def _configuration(answer: dict[str, Any], wanted: Wanted, jit: JitOptions) -> dict[str, Any]:
    """A configuration as it is shown: its constants, those given beside, and its options where they are known."""
    options = {"warps": jit.warps or answer["warps"], "stages": jit.stages or answer["stages"]}
    settings = answer["settings"] or {}
    usual = {"num_ctas": 1, "maxnreg": None}
    return {
        **wanted.constants,
        **answer["constants"],
        **{name: value for name, value in options.items() if value is not None},
        **{name: value for name, value in settings.items() if name not in usual or value != usual[name]},
    }
