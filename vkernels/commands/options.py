"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Kernel = Annotated[
    str, typer.Argument(metavar="KERNEL", help="A library kernel, or FILE.py:KERNEL (the file is executed).")
]
Shape = Annotated[str | None, typer.Option(metavar="M=…,N=…", help="Sizes; unnamed ones keep their defaults.")]
DType = Annotated[
    str | None, typer.Option(metavar="NAME|TENSOR=NAME,…", help="Dtype of all tensors that support it, or by tensor.")
]
Constants = Annotated[str | None, typer.Option(metavar="NAME=…,…", help="Values of constant parameters.")]
Cache = Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the compile cache.")]
CompileSeconds = Annotated[float, typer.Option(min=0.001, help="Time limit of one compile, in seconds.")]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the results as JSON (`-` for stdout).")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write an HTML report.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Number of threads. Default: all usable cores.")]
Weights = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder of the challenge's nN-l1.tsv, nN-l2.tsv, … Default: generate them."),
]
