"""The table of docs/dtypes.md that says which dtype each operation gives is what kernels are built with."""

from __future__ import annotations

from pathlib import Path

import pytest

import vkernels as vk
from vkernels.language import operations
from vkernels.language.dtypes import DTYPES
from vkernels.language.operation import current, operation

from .test_docs import between

PAGE = Path(__file__).parents[2] / "docs" / "dtypes.md"
SEEN: list[str] = []

SYMBOLS = ["v + v", "v - v", "v * v", "-v", "v * 2", "v * 2.0", "v / v", "v // v", "v % v", "v ** v", "v < v"]
SYMBOLS += ["v == v", "v & v", "v | v", "v ^ v", "~v", "v << v", "v >> v"]
ALONG = ["all", "any", "argmax", "argmin", "argsort", "sort", "max", "mean", "min", "product", "sum"]
ALONG += [f"cumulative_{name}" for name in ("max", "min", "product", "sum")]
ARGUMENTS = {
    "clamp": "v, 0, 1", "fma": "v, v, v", "maximum": "v, v", "minimum": "v, v", "pow": "v, v", "where": "v == v, v, v",
    "full_like": "v, 1", "broadcast": "v, (i, j, k)", "transpose": "v, (j, i)", "reshape": "v, j, (j,)",
    "dot": "v, v, axis=j", "reduce": "vk.maximum, v, axis=j", "scan": "vk.maximum, v, axis=j",
}  # fmt: skip
OTHER = {"cast", "full", "zeros", "scratch", "random", "random_bits", "load", "store", "atomic_add", "atomic_max"}
OTHER |= {"atomic_cas", "atomic_exchange", "complex"}
OTHER |= {"atomic_min", "compute_dtype", "device_assert", "phase", "print", "range", "size", "tile", "topk", "whole"}
"""What has no dtype of a tile's, or the one that it is told."""


@operation
def note(value):
    """Keep the dtype of a value in a kernel that is being built."""
    SEEN.append(current().tile(value).dtype.name)


def expressions() -> dict[str, str]:
    """What is written, by the name that the table has for it."""
    made = {f"`{each}`".replace("|", "\\|"): each for each in SYMBOLS}
    for name in operations.__all__:
        if name not in OTHER:
            given = ARGUMENTS.get(name, "v, axis=j" if name in ALONG else "v")
            made[f"`vk.{name}`"] = f"vk.{name}({given})"
    return made


def results(folder: Path) -> dict[str, tuple[str, ...]]:
    """For each expression the dtype that it has, for each dtype of what it is given; – where it cannot be."""
    text = "import vkernels as vk\nfrom jaxtyping import Shaped\nfrom tests.language.test_dtype_table import note\n"
    named = {f"kernel_{number}": name for number, name in enumerate(expressions())}
    for function, name in named.items():
        text += (
            f'\n@vk.kernel\ndef {function}(x: Shaped[vk.Tensor, "M N"]):\n    i = vk.tile("M")\n    j = vk.whole("N")\n'
        )
        text += f'    k = vk.whole("N")\n    v = x[i, j]\n    note({expressions()[name]})\n'
    file = folder / "dtypes.py"
    file.write_text(text)
    names: dict[str, object] = {}
    exec(compile(text, file, "exec"), names)
    return {name: tuple(dtype_of(names[function], dtype) for dtype in DTYPES) for function, name in named.items()}


def dtype_of(kernel, dtype: str) -> str:
    SEEN.clear()
    try:
        kernel.build(kernel.signature(x=dtype))
    except vk.SourceError:
        return "–"
    (found,) = SEEN
    return found


@pytest.mark.slow
def test_dtypes_of_results(golden, tmp_path):
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, found in results(tmp_path).items():
        groups.setdefault(found, []).append(name)
    short = [name.replace("float8_", "") for name in DTYPES]
    lines = [f"| | {' | '.join(short)} |", "|---" * (len(short) + 1) + "|"]
    for found, members in sorted(groups.items(), key=lambda group: -len(group[1])):
        cells = ["=" if each == given else each for each, given in zip(found, DTYPES, strict=True)]
        lines.append(f"| {', '.join(members)} | {' | '.join(cells)} |")
    golden(PAGE, between(PAGE, "results", "\n".join(lines)))


def test_every_operation_is_in_the_table_or_known_to_have_no_place_there():
    assert {name for name in operations.__all__ if f"`vk.{name}`" not in PAGE.read_text()} <= OTHER
