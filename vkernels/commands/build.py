"""`vk build`: compile kernels for targets into a bundle."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from .options import Constants, DType, Layouts
from .results import check_writable, console_for, progress_bar

Kernels = Annotated[
    list[str],
    typer.Argument(metavar="KERNEL…", help="Library kernels or families, or FILE.py:KERNEL (executed)."),
]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE.vkb", help="The bundle to write.")]
Targets = Annotated[
    str,
    typer.Option(
        metavar="NAME,…",
        help="cpu (this machine's), cpu:x86-64-v3, cpu:x86-64-v4+avx512vnni, cpu:aarch64, …",
    ),
]
Shapes = Annotated[
    list[str] | None, typer.Option("--shapes", metavar="M=…,N=…", help="Sizes; repeat the option for several shapes.")
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
    from vkernels.inspect.bundle_requests import bundle_requests
    from vkernels.inspect.resolve import resolve_tasks
    from vkernels.inspect.specialisation import parse_specialisation
    from vkernels.library.catalogue import CATALOGUE

    check_writable(output)
    keys = [read_key(path) for path in sign or []]
    each_shape: list[str | None] = [*shapes] if shapes else [None]
    wanted = [parse_specialisation(dtype, shape, constants, layout) for shape in each_shape]
    tasks = [task for request in wanted for task in resolve_tasks(kernels, request, CATALOGUE)]
    requests = bundle_requests(tasks, wanted[0].layouts)
    names = tuple(name.strip() for name in targets.split(",") if name.strip())
    options = BuildOptions(names, in_place, plain, deterministic, shlex.join(["vk", *sys.argv[1:]]))
    steps = len(dict.fromkeys(names)) * sum(len(request.shapes) for request in requests)
    with progress_bar() as report, default_session().patient():
        done = iter(range(steps))

        def step(what: str) -> None:
            report(what, next(done, steps), steps)

        manifest, files = bundled(
            requests, options, default_session(), lambda step: report(step, next(done, steps), steps)
        )
    write_bundle(output, manifest, files, keys)
    codes = sum(len(variant.codes) for kernel in manifest.kernels for variant in kernel.variants)
    size = output.stat().st_size
    console_for().print(
        f"{output}: {len(manifest.kernels)} kernel(s), {codes} pieces of code, {size:,} bytes, "
        + (f"signed by {', '.join(key.id for key in keys)}" if keys else "not signed"),
        soft_wrap=True,
    )
