"""`vk build`: compile kernels for targets into a bundle."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.ir.errors import OptionError

from . import complete
from .options import Constants, DType, Layouts
from .results import check_writable, console_for, progress_bar

if TYPE_CHECKING:
    from vkernels.bundles.build_request import BuildRequest

Kernels = Annotated[
    list[str],
    typer.Argument(
        metavar="KERNEL…",
        autocompletion=complete.kernels,
        help="Library kernels, FILE.py:KERNEL, or FILE.py:FUNCTION → (program, inputs).",
    ),
]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE.vkb", help="The bundle to write.")]
Targets = Annotated[
    str,
    typer.Option(
        metavar="NAME,…",
        autocompletion=complete.targets,
        help="cpu (this machine's), cpu:x86-64-v3, cpu:x86-64-v4+avx512vnni, cpu:aarch64, h100-sxm5-80, mi300x, …",
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shapes", "--shape", metavar="M=…,N=…", help="Sizes; repeat the option for several shapes."),
]
Sign = Annotated[
    list[Path] | None,
    typer.Option("--sign", metavar="KEYFILE", help="Sign with this key: Ed25519 as PEM, or a secret for HMAC."),
]
InPlace = Annotated[
    bool, typer.Option("--in-place", help="Also compile for calls in which an output is one of the inputs.")
]
Plain = Annotated[bool, typer.Option("--plain/--no-plain", help="Also compile for sizes that are not named.")]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="As after vk.set_deterministic(True): the same bits in every run.")
]


def program_requests(name: str) -> list[BuildRequest]:
    """The kernel calls of a program, FILE.py:FUNCTION, which returns it and its inputs: it is run once.

    A torch module that calls no kernel has its layers replaced first. Raises `OptionError` where there is no call.
    """
    from vkernels.autotune.models import read_model, run_once
    from vkernels.bundles.record import recorded_calls

    program, arguments, named = read_model(name)

    def run() -> None:
        run_once(program, arguments, named)

    found = recorded_calls(run)
    if not found.requests:
        from torch.nn import Module

        if isinstance(program, Module):
            from vkernels.torch import replace

            replace(program, everywhere=True)
            found = recorded_calls(run)
    if not found.requests:
        raise OptionError(
            f"{name} calls no kernel on the CPU{'' if not found.elsewhere else ', only on other devices'}"
        )
    return found.requests


def build(
    kernels: Kernels,
    output: Output,
    targets: Targets = "cpu",
    shapes: Shapes = None,
    dtype: DType = None,
    constants: Constants = None,
    layout: Layouts = None,
    sign: Sign = None,
    in_place: InPlace = False,
    plain: Plain = True,
    deterministic: Deterministic = False,
) -> None:
    """Compile kernels for sizes and targets into one file, which programs load and run without a compiler."""
    from vkernels.bundles.build import bundled
    from vkernels.bundles.build_request import BuildOptions
    from vkernels.bundles.bundle import write_bundle
    from vkernels.bundles.signing import read_key
    from vkernels.compiler.default_session import default_session
    from vkernels.inspect.bundle_requests import bundle_requests, is_kernel
    from vkernels.inspect.resolve import is_in_file, resolve_tasks
    from vkernels.inspect.specialisation import parse_specialisation
    from vkernels.library.catalogue import CATALOGUE

    check_writable(output)
    keys = [read_key(path) for path in sign or []]
    each_shape: list[str | None] = [*shapes] if shapes else [None]
    wanted = [parse_specialisation(dtype, shape, constants, layout) for shape in each_shape]
    programs = [name for name in kernels if is_in_file(name) and not is_kernel(name)]
    named = [name for name in kernels if name not in programs]
    names = tuple(dict.fromkeys(name.strip() for name in targets.split(",") if name.strip()))
    requests: list[BuildRequest] = []
    for on_gpus in sorted({name.partition(":")[0] != "cpu" for name in names}):
        if on_gpus and programs:
            raise OptionError(f"{programs[0]}: programs are recorded on the CPU: name the kernels for a GPU one by one")
        tasks = [
            task for request in wanted for task in (resolve_tasks(named, request, CATALOGUE, on_gpus) if named else ())
        ]
        requests += [replace(request, for_gpus=on_gpus) for request in bundle_requests(tasks, wanted[0].layouts)]
    for name in programs:
        requests += program_requests(name)
    options = BuildOptions(names, in_place, plain, deterministic, shlex.join(["vk", *sys.argv[1:]]))
    of_gpus = sum(name.partition(":")[0] != "cpu" for name in names)
    counts = {None: len(names), True: of_gpus, False: len(names) - of_gpus}
    steps = sum(counts[request.for_gpus] * len(request.shapes) for request in requests)
    with progress_bar() as report, default_session().patient():
        done = iter(range(steps))

        def step(what: str) -> None:
            report(what, next(done, steps), steps)

        manifest, files = bundled(requests, options, default_session(), step)
    write_bundle(output, manifest, files, keys)
    codes = sum(len(variant.codes) for kernel in manifest.kernels for variant in kernel.variants)
    size = output.stat().st_size
    console_for().print(
        f"{output}: {len(manifest.kernels)} kernel(s), {codes} pieces of code, {size:,} bytes, "
        + (f"signed by {', '.join(key.id for key in keys)}" if keys else "not signed"),
        soft_wrap=True,
    )
