"""Resolve KERNEL or FILE.py:KERNEL, with sizes, dtypes and constants, to tasks and cases.

Plain names are looked up in a catalogue from the caller, because this package does not know the library.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError
from vkernels.language.annotations import Parameter
from vkernels.language.samples import CatalogueEntry

from .cases import Case, JitCase, KernelCase, KernelSource
from .specialisation import (
    SpecialisationRequest,
    TritonParameter,
    kernel_case,
    parse_signature,
    refuse_unknown,
    specialise,
)
from .task import Task, kernel_of, strides_of
from .worker_client import InspectPool, describe

ALL = "all"
Catalogue = Sequence[CatalogueEntry]
_COMPUTED_IN = {"float16": "float32", "bfloat16": "float32"}


@dataclass(frozen=True)
class JitOptions:
    """Options of plain Triton kernels only."""

    signature: str | None = None
    warps: int | None = None
    stages: int | None = None

    @property
    def are_given(self) -> bool:
        return (self.signature, self.warps, self.stages) != (None, None, None)


def is_in_file(name: str) -> bool:
    """Whether a name has the form FILE.py:KERNEL."""
    return ".py:" in name or name.endswith(".py")


# Tasks, for tuning and placement: their kernels run in this process


def resolve_tasks(
    names: Sequence[str], request: SpecialisationRequest, catalogue: Catalogue, on_gpu: bool = False
) -> list[Task]:
    """The tasks of names: `all`, a kernel or family of the catalogue, or FILE.py:KERNEL, which is executed.

    On a CPU there is one task per kernel, with sizes for which a call takes about a millisecond, in float32 if
    supported; on a GPU the sizes are those of the catalogue. For `all` and families, kernels that do not fit the
    request are left out. A size, tensor or constant of the request needs to be one of some kernel's, not of all.
    Raises `OptionError` for unknown names and contradictions, and `FileError` for a file that does not run.
    """
    sources = [source for name in names for source in _sources_named(name, catalogue)]
    refuse_unknown(request, [_declared(source) for source in sources], " and ".join(dict.fromkeys(names)))
    tasks: list[Task] = []
    for name in names:
        if is_in_file(name):
            found = [_task(source_in_file(name), request)]
        else:
            entries = _entries_named(name, catalogue)
            if not on_gpu:
                entries = list({entry.name: entry for entry in reversed(entries)}.values())[::-1]
            found = [task for entry in entries if (task := _library_task(entry, name, request, on_gpu))]
            if not found:
                raise OptionError(f"{name}: no kernel can be what is wanted: {request}")
        tasks += [task for task in found if task not in tasks]
    return tasks


def _sources_named(name: str, catalogue: Catalogue) -> list[KernelSource]:
    if is_in_file(name):
        return [source_in_file(name)]
    return [KernelSource(entry.name, entry.module) for entry in _entries_named(name, catalogue)]


def _declared(source: KernelSource) -> Sequence[Parameter]:
    return kernel_of(Task(source.reference, {}, {})).parameters


def _library_task(entry: CatalogueEntry, name: str, request: SpecialisationRequest, on_gpu: bool) -> Task | None:
    source = KernelSource(entry.name, entry.module)
    try:
        _refuse_dtype(entry, request)
        if name != entry.name:
            refuse_unknown(request, [_declared(source)], source.shown)
        return _task(source, request, entry, on_gpu)
    except OptionError:
        if name == entry.name:
            raise
        return None


def _task(
    source: KernelSource, request: SpecialisationRequest, entry: CatalogueEntry | None = None, on_gpu: bool = True
) -> Task:
    kernel = kernel_of(Task(source.reference, {}, {}))
    if entry is None:
        return specialise(source, kernel.parameters, request)
    shape = entry.shape if on_gpu else kernel.samples.cpu_sizes or entry.shape
    dtype = entry.dtype if on_gpu else _COMPUTED_IN.get(entry.dtype, entry.dtype)
    return specialise(source, kernel.parameters, request, shape, dtype, entry.computed, kernel.samples, on_gpu)


# Cases, for checks and explanations: files are executed in worker processes


def resolve_cases(
    names: Sequence[str], request: SpecialisationRequest, jit: JitOptions, catalogue: Catalogue, pool: InspectPool
) -> list[Case]:
    """The cases of names: `all`, a kernel or family of the catalogue, or FILE.py:KERNEL, which a worker executes.

    Raises `OptionError` for unknown names and contradictions, and `FileError` for a file that does not run.
    """
    if jit.warps is not None and jit.warps & (jit.warps - 1):
        raise OptionError(f"--warps: expected a power of two, got {jit.warps}")
    files = [name for name in names if is_in_file(name)]
    entries = _checked_entries([name for name in names if not is_in_file(name)], request, catalogue)
    if jit.are_given and entries:
        raise OptionError("--signature, --warps and --stages apply to plain Triton kernels, given as FILE.py:KERNEL")
    described = {name: describe(pool, source_in_file(name)) for name in files}
    own = {name: _parameters(answer) for name, answer in described.items() if answer["kind"] != "jit"}
    if jit.are_given and own:
        raise OptionError(
            f"{next(iter(own))} is a vk.kernel; --signature, --warps and --stages apply to plain Triton kernels"
        )
    if entries or own:
        declared = [_declared(KernelSource(entry.name, entry.module)) for entry in entries]
        refuse_unknown(request, [*declared, *own.values()], " and ".join(dict.fromkeys(names)))
    cases = {json.dumps(case.as_request()): case for case in (_library_case(entry, request) for entry in entries)}
    found: list[Case] = [*cases.values()]
    for name, answer in described.items():
        source = source_in_file(name)
        if name in own:
            found.append(kernel_case(specialise(source, own[name], request), own[name], request))
        else:
            found += _jit_cases(source, answer, request, jit)
    return found


def resolve_case(
    name: str, request: SpecialisationRequest, catalogue: Catalogue, pool: InspectPool
) -> tuple[KernelCase, tuple[str, ...]]:
    """The kernel of a name; for a family the first one, and the names of the others.

    Raises as `resolve_cases`, and `OptionError` for a kernel without a plan.
    """
    if name == ALL:
        raise OptionError("KERNEL: `vk explain` takes one kernel; `vk check all` compares all")
    if is_in_file(name) and describe(pool, source_in_file(name))["kind"] == "jit":
        raise OptionError(
            f"{name} is a plain Triton kernel: it has neither phases nor a plan to explain; "
            "`vk check` shows what its binary takes"
        )
    found = resolve_cases([name], request, JitOptions(), catalogue, pool)
    cases = [case for case in found if isinstance(case, KernelCase)]
    others = dict.fromkeys(case.source.name for case in cases[1:] if case.source.name != cases[0].source.name)
    return cases[0], tuple(others)


def source_in_file(name: str) -> KernelSource:
    """The kernel that FILE.py:KERNEL names. Raises `OptionError` for any other form."""
    path, _, kernel = name.rpartition(":")
    if not path.endswith(".py") or not kernel.isidentifier():
        raise OptionError(f"{name}: name a kernel in a file as FILE.py:KERNEL")
    return KernelSource(kernel, file=path)


def _entries_named(name: str, catalogue: Catalogue) -> list[CatalogueEntry]:
    entries = [entry for entry in catalogue if name in (ALL, entry.name, entry.family)]
    if not entries:
        names = dict.fromkeys(name for entry in catalogue for name in (entry.family, entry.name))
        hint = did_you_mean(name, [ALL, *names])
        hint += "" if hint.endswith("?") else "."
        raise OptionError(f"there is no kernel {name!r}; {hint} Name a kernel of your own as FILE.py:KERNEL.")
    return entries


def _checked_entries(
    names: Sequence[str], request: SpecialisationRequest, catalogue: Catalogue
) -> list[CatalogueEntry]:  # fmt: skip
    """The entries of names. For `all`, those that support the dtype; others must."""
    found: list[CatalogueEntry] = []
    for name in names:
        entries = _entries_named(name, catalogue)
        able = [entry for entry in entries if request.dtype is None or request.dtype in entry.dtypes]
        for entry in entries if name != ALL or not able else ():
            _refuse_dtype(entry, request)
        found += [entry for entry in able if entry not in found]
    return found


def _refuse_dtype(entry: CatalogueEntry, request: SpecialisationRequest) -> None:
    if request.dtype is not None and request.dtype not in entry.dtypes:
        raise OptionError(f"{entry.name} cannot be {request.dtype}; it takes {', '.join(entry.dtypes)}")


def _library_case(entry: CatalogueEntry, request: SpecialisationRequest) -> KernelCase:
    source = KernelSource(entry.name, entry.module)
    kernel = kernel_of(Task(source.reference, {}, {}))
    samples = kernel.samples

    def case(on_gpu: bool) -> KernelCase:
        task = specialise(
            source, kernel.parameters, request, entry.shape, entry.dtype, entry.computed, samples, on_gpu
        )  # fmt: skip
        strides = strides_of(task) if samples.layout else {}
        return kernel_case(task, kernel.parameters, request, entry.dtype, strides)

    return case(False) if samples.gpu_constants is None else replace(case(False), on_gpus=case(True))


def _parameters(answer: dict[str, Any]) -> list[Parameter]:
    """The parameters of a `@vk.kernel` that a worker described."""
    return [
        Parameter(
            each["name"], each["kind"], tuple(each["dimensions"]), tuple(each["dtypes"]),
            each["default"] if each["optional"] else Parameter.MISSING,
        )
        for each in answer["parameters"]
    ]  # fmt: skip


def _jit_cases(
    source: KernelSource, answer: dict[str, Any], request: SpecialisationRequest, jit: JitOptions
) -> list[Case]:
    parameters = [TritonParameter(**each) for each in answer["parameters"]]
    if request.shape or request.dtype is not None or request.dtypes:
        raise OptionError(f"{source.shown} is a plain Triton kernel: it takes --signature, not --shape or --dtype")
    if jit.signature is None:
        names = ", ".join(parameter.name for parameter in parameters if not parameter.constant)
        raise OptionError(f"{source.shown} is a plain Triton kernel: --signature must give the types of {names}")
    signature = parse_signature(jit.signature, parameters, request.constants)
    return [
        JitCase(source, signature, number, _configuration(each, request, jit), jit.warps, jit.stages)
        for number, each in enumerate(answer["configurations"])
    ]


def _configuration(answer: dict[str, Any], request: SpecialisationRequest, jit: JitOptions) -> dict[str, Any]:
    options = {"warps": jit.warps or answer["warps"], "stages": jit.stages or answer["stages"]}
    settings = answer["settings"] or {}
    usual = {"num_ctas": 1, "maxnreg": None}
    return {
        **request.constants,
        **answer["constants"],
        **{name: value for name, value in options.items() if value is not None},
        **{name: value for name, value in settings.items() if name not in usual or value != usual[name]},
    }
