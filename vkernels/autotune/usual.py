"""Tasks of kernels as they are usually called, with what is said of them in place of the usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import OptionError
from vkernels.ir.nearest import meant
from vkernels.runtime.protocols import Constant
from vkernels.runtime.usual import usual_dtype

from .task import CATALOGUE, RECIPES, Task, is_in_file, kernel_of, sizes_of

if TYPE_CHECKING:
    from vkernels.language.annotations import Parameter
    from vkernels.language.kernel import Kernel

ALL = "all"
_COMPUTED_IN = {"float16": "float32", "bfloat16": "float32"}


@dataclass(frozen=True)
class Wanted:
    """What is said of tasks: sizes, one dtype or some by tensor, constants."""

    shape: Mapping[str, int] = field(default_factory=dict)
    dtype: str | None = None
    dtypes: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)


def usual_tasks(names: Sequence[str], wanted: Wanted = Wanted(), on_gpu: bool = False) -> list[Task]:
    """The tasks of some names: `all`, a kernel or a family of the library, or FILE.py:NAME, whose file is executed.

    On a CPU sizes are those that a call takes about a millisecond for, in float32 where that may be; on a GPU those of
    the catalogue. Of `all`, those are taken that can be what is wanted. Raises `OptionError` for what does not exist
    or go together, and `FileError` for a file that does not run.
    """
    tasks: list[Task] = []
    for name in names:
        if is_in_file(name):
            found = [usual_task(name, wanted)]
        else:
            found = [task for entry in _entries(name, on_gpu) if (task := _of_entry(entry, name, wanted, on_gpu))]
            if not found:
                raise OptionError(f"{name}: no kernel can be what is wanted: {_said(wanted)}")
        tasks += [task for task in found if task not in tasks]
    return tasks


def usual_task(
    kernel: str,
    wanted: Wanted = Wanted(),
    shape: Mapping[str, int] | None = None,
    dtype: str | None = None,
    computed: Sequence[str] = (),
) -> Task:
    """A kernel's task. `shape`, `dtype`: the usual; `computed`: tensors of the dtype that kernels compute in."""
    plain = Task(kernel, {}, {})
    declared = kernel_of(plain)
    _refuse_unknown(declared, kernel, wanted)
    tensors = [p for p in declared.parameters if p.kind == "tensor"]
    chosen = wanted.dtype or dtype
    if wanted.dtype is not None and not any(wanted.dtype in p.dtypes for p in tensors):
        takes = "; ".join(f"{p.name} takes {', '.join(p.dtypes)}" for p in tensors)
        raise OptionError(f"{kernel}: no tensor can be {wanted.dtype}: {takes}")
    dtypes = {p.name: _dtype(kernel, p, chosen, wanted.dtypes.get(p.name), p.name in computed) for p in tensors}
    sizes, constants = _together(declared, kernel, {**(shape or {}), **wanted.shape}, wanted)
    return Task(kernel, sizes, dtypes, constants)


def _entries(name: str, on_gpu: bool) -> list[Any]:
    """Of a CPU, one for each kernel."""
    catalogue = import_module(CATALOGUE)
    entries = catalogue.CATALOGUE if name == ALL else catalogue.entries_named(name)
    if not entries:
        raise OptionError(
            f"there is no kernel {name!r}; {meant(name, [ALL, *catalogue.names()])} One's own are FILE.py:NAME."
        )
    return list(entries) if on_gpu else list({entry.name: entry for entry in reversed(entries)}.values())[::-1]


def _of_entry(entry: Any, name: str, wanted: Wanted, on_gpu: bool) -> Task | None:
    """None for a kernel that cannot be what is wanted, where others were asked for along with it."""
    usual = entry.shape if on_gpu else import_module(RECIPES).CPU_SIZES.get(entry.name, entry.shape)
    dtype = entry.dtype if on_gpu or entry.dtype not in _COMPUTED_IN else "float32"
    if wanted.dtype is not None and wanted.dtype not in entry.dtypes:
        if name == entry.name:
            raise OptionError(f"{name} cannot be {wanted.dtype}; it takes {', '.join(entry.dtypes)}")
        return None
    try:
        return usual_task(entry.name, wanted, usual, dtype, entry.computed)
    except OptionError:
        if name == entry.name:
            raise
        return None


def _dtype(kernel: str, parameter: Parameter, chosen: str | None, given: str | None, computed: bool) -> str:
    if given is not None:
        if given not in parameter.dtypes:
            takes = ", ".join(parameter.dtypes)
            raise OptionError(f"{kernel}: {parameter.name} cannot be {given}; it takes {takes}")
        return given
    return usual_dtype(parameter.dtypes, chosen, computed)


def _together(
    declared: Kernel, kernel: str, given: Mapping[str, int], wanted: Wanted
) -> tuple[dict[str, int], dict[str, Constant]]:
    """All sizes and the constants that are not the defaults. Raises `OptionError` for sizes that do not go together."""
    sizes, constants = dict(given), dict(wanted.constants)
    if not is_in_file(kernel):
        recipe = import_module(RECIPES).recipe_of(kernel)
        with_others = {name: size for name, size in given.items() if name not in recipe.sizes}
        constants = {**recipe.constants(with_others), **constants}
        all_constants = {p.name: p.default for p in declared.parameters if p.kind == "constant"} | constants
        for name, follows in recipe.sizes.items():
            with_others[name] = follows(with_others, all_constants)
            if wanted.shape.get(name, with_others[name]) != with_others[name]:
                raise OptionError(
                    f"{kernel}: {name}={wanted.shape[name]} does not go with the other sizes: it follows from them, "
                    f"as {with_others[name]}"
                )
        sizes = with_others
    names = sizes_of(declared)
    missing = [name for name in names if name not in sizes]
    if missing:
        raise OptionError(f"{kernel}: sizes must be given: {', '.join(missing)}, as in {missing[0]}=1024")
    return {name: sizes[name] for name in names}, constants


def _refuse_unknown(declared: Kernel, kernel: str, wanted: Wanted) -> None:
    known = {
        "size": (wanted.shape, list(sizes_of(declared))),
        "tensor": (wanted.dtypes, [p.name for p in declared.parameters if p.kind == "tensor"]),
        "constant": (wanted.constants, [p.name for p in declared.parameters if p.kind == "constant"]),
    }
    for what, (given, names) in known.items():
        for name in given:
            if name not in names:
                raise OptionError(f"{kernel} has no {what} {name!r}; {meant(name, names) if names else 'it has none'}")


def _said(wanted: Wanted) -> str:
    parts = {**wanted.shape, **wanted.dtypes, **wanted.constants} | ({"dtype": wanted.dtype} if wanted.dtype else {})
    return ", ".join(f"{name}={value}" for name, value in parts.items())
