"""`vk tune` of plain Triton kernels: the best `triton.Config` for each target and slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from vkernels.autotune.drive import Stop
from vkernels.autotune.expressions import Expression
from vkernels.autotune.result import MEASURED
from vkernels.autotune.slice_names import is_here, place_of, target_of
from vkernels.autotune.triton_bounds import BoundTools, StaticBounds, TritonTask, compile_seconds
from vkernels.autotune.triton_configs import ConfigSpace, TritonConfig, around, block_names, grid_from, listed
from vkernels.autotune.triton_python import PRUNE
from vkernels.autotune.triton_tuning import TritonTrial, TritonTuned, by_target, tune_triton, with_usual
from vkernels.compiler.arguments import CPU
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect.cases import is_vk_kernel, kernel_at
from vkernels.inspect.check.check import triton_version
from vkernels.inspect.resolve import is_in_file, source_in_file
from vkernels.inspect.specialisation import SpecialisationRequest, TritonParameter, parse_signature
from vkernels.inspect.worker_client import InspectPool, describe
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import OptionError, SetupError
from vkernels.ir.write_file import write_file

from ..formatting import format_seconds
from .live import until
from .triton_progress import failures, shown_trials


@dataclass(frozen=True)
class TritonOptions:
    """Options of plain Triton kernels only. `vary`: names with commas. `configs`: the Python file to write."""

    signature: str | None = None
    grid: str | None = None
    vary: str | None = None
    inputs: str | None = None
    configs: Path | None = None

    @property
    def are_given(self) -> bool:
        return self != TritonOptions()


def plain_triton(kernels: Sequence[str]) -> list[str]:
    """The names of plain Triton kernels among kernels in files, which are executed. Raises as that does."""
    files = [name for name in kernels if is_in_file(name)]
    return [name for name in files if not is_vk_kernel(kernel_at(source_in_file(name)))]


def run_triton(
    name: str, slices: Sequence[str], request: SpecialisationRequest, options: TritonOptions, stop: Stop, seed: int,
    offline: bool, console: Console,
) -> list[TritonTuned]:  # fmt: skip
    """Tune one kernel for each target or slice; print the winners and write their configurations.

    Raises `OptionError` for options that are missing or do not fit, and `SetupError` for an absent device.
    """
    source = source_in_file(name)
    _refuse(name, slices, request, options, offline)
    triton_version()
    assert options.grid is not None, "it was refused otherwise"
    grid = grid_from(options.grid)
    with InspectPool() as preparing, CompilePool(seconds=compile_seconds(stop)) as compiling:
        answer = describe(preparing, source)
        parameters = [TritonParameter(**each) for each in answer["parameters"]]
        space = space_of(answer, request, options, grid, console)
        known = {**request.constants, **space.configs[space.given].constants}
        missing = [p.name for p in parameters if not p.constant] if options.signature is None else []
        if missing and offline:
            raise OptionError(f"{name}: --signature must give the types of {', '.join(missing)}, as *fp16:16,i32")
        signature = parse_signature(options.signature or "", parameters, known) if offline else None
        results = []
        for slice_ in slices:
            if offline:
                assert signature is not None, "it was parsed"
                task = TritonTask(source, signature, dict(request.shape), grid)
                task.programs(space.configs[space.given])
                notes = [PRUNE] if answer["has_prune"] else []
                tools = BoundTools(preparing, compiling, DiskCache())
                with (
                    StaticBounds(task, target_of(slice_), tools, stop) as bounds,
                    shown_trials(console, f"{name} on {slice_}", stop) as on_trial,
                ):
                    found = tune_triton(
                        task, slice_, space, bounds.seconds, stop, seed=seed, ahead=bounds.ahead, notes=notes,
                        on_trial=on_trial,
                    )  # fmt: skip
            else:
                with shown_trials(console, f"{name} on {slice_}", stop) as on_trial:
                    found = _measured(name, slice_, space, request, options, grid, stop, seed, on_trial)
            results.append(found)
            show(console, found)
            if found.stopped == "interrupted":
                break
    if options.configs is not None:
        write_file(options.configs, by_target(results))
        console.print(f"{options.configs}: the configurations as Python", soft_wrap=True)
    return results


def space_of(
    answer: dict[str, Any], request: SpecialisationRequest, options: TritonOptions, grid: Expression, console: Console
) -> ConfigSpace:
    """The configurations to try: the autotune list, or block sizes around the given ones.

    Raises `OptionError` if there is nothing to try.
    """
    described = answer["configurations"]
    if len(described) > 1 and options.vary is None:
        return listed([with_usual(each, {}) for each in described])
    first = with_usual(described[0], request.constants)
    known = {each["name"] for each in answer["parameters"]}
    if options.vary is None:
        names = block_names(first, grid)
    else:
        names = [each.strip() for each in options.vary.split(",") if each.strip()]
        unknown = [each for each in names if each not in known]
        if unknown:
            raise OptionError(f"--vary: the kernel has no parameter {unknown[0]}; it has {', '.join(known)}")
    kept = sorted(n for n, v in first.constants.items() if n not in names and isinstance(v, int))
    rest = f"; not varied: {', '.join(kept)}" if kept else ""
    console.print(f"varied: {', '.join([*names, 'num_warps', 'num_stages'])}{rest}", soft_wrap=True)
    mine = {*names, *described[0]["constants"]}
    own = {name: value for name, value in first.constants.items() if name in mine}
    given = TritonConfig(own, first.warps, first.stages, first.settings)
    return around(given, names)


def show(console: Console, found: TritonTuned) -> None:
    """Print the winner for one target, and why others failed."""
    console.print(Text(f"{found.kernel} on {found.target}", style="bold"))
    failed = [trial for trial in found.trials if trial.seconds is None]
    if found.best is None or found.best.seconds is None:
        reason = f": {failed[0].reason}" if failed else ""
        console.print(f"  no configuration works{reason}", soft_wrap=True, markup=False)
    else:
        console.print(f"  {found.best.config}", soft_wrap=True, markup=False)
        gain = ""
        if found.gain is not None and found.given is not None:
            gain = f", {found.gain:.2f} times as fast as the given {found.given.config}"
        what = "" if found.ranked_by == MEASURED else f" by {found.ranked_by}"
        if found.given is not None and found.best == found.given:
            gain = ", as given"
        console.print(f"  {format_seconds(found.best.seconds)}{what}{gain}", soft_wrap=True, markup=False)
    tried = f"  {len(found.trials)} of {found.count} configurations tried in {found.seconds:.0f} s"
    console.print(f"{tried}, {until(found.stopped)}; {len(failed)} failed", soft_wrap=True)
    for line in failures(found.trials):
        console.print(f"    {line}", soft_wrap=True, markup=False)
    for note in found.notes:
        console.print(f"  {note}", soft_wrap=True)


def _refuse(
    name: str, slices: Sequence[str], request: SpecialisationRequest, options: TritonOptions, offline: bool
) -> None:
    if request.dtype is not None or request.dtypes:
        raise OptionError(f"{name} is a plain Triton kernel: it takes --signature, not --dtype")
    if options.grid is None:
        raise OptionError(
            f"{name} is a plain Triton kernel: give its grid, as --grid 'cdiv(M, BLOCK_M), cdiv(N, BLOCK_N)'"
        )
    for slice_ in slices:
        if not slice_.startswith(_PRESENT) and target_of(slice_).vendor == CPU:
            raise OptionError(f"{name} is a plain Triton kernel, which runs on GPUs: name one with --target")
        if not offline and not is_here(slice_):
            raise SetupError(f"{slice_} is not present; --offline uses static bounds instead of measuring")
    if not offline and options.inputs is None:
        raise OptionError(f"{name}: --inputs must name a function of the file that returns the kernel's arguments")


_PRESENT = ("nvidia:", "amd:", "cuda:")


def _measured(
    name: str, slice_: str, space: ConfigSpace, request: SpecialisationRequest, options: TritonOptions,
    grid: Expression, stop: Stop, seed: int, on_trial: Callable[[TritonTrial], None],
) -> TritonTuned:  # fmt: skip
    from vkernels.autotune.triton_online import compiled_ahead, launch_inputs, measured_launch
    from vkernels.compiler.backends.triton_kernels import jit_parameters
    from vkernels.inspect.cases import JitSignature, executed

    source = source_in_file(name)
    kernel, made = kernel_at(source), getattr(executed(source.file), str(options.inputs), None)
    if not callable(made):
        raise OptionError(f"--inputs: {source.file} has no function {options.inputs!r}")
    names = [parameter.name for parameter in jit_parameters(kernel)]
    arguments = {**launch_inputs(names, made(), f"--inputs {options.inputs}"), **request.constants, **request.shape}
    launch = measured_launch(kernel, arguments, grid, place_of(slice_).device)
    task = TritonTask(source, JitSignature(()), {}, grid)
    with compiled_ahead(launch, source, stop) as ahead:
        return tune_triton(
            task, slice_, space, launch.seconds, stop, seed=seed, ranked_by=MEASURED, ahead=ahead,
            compare=launch.compared, on_trial=on_trial,
        )  # fmt: skip
