"""Calls of the library's kernels whose results are what the interpreter makes of the kernel as written, in float64.

That what is written is right is for the functions' own tests to say; here, that every plan computes it. How far off
results may be follows from how much they change where the arguments do by a little.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from tests.ir.interpret.ttir.library import numbers
from vkernels.compiler.protocols import Signature
from vkernels.compiler.specialise import kernel_in, written_tensors
from vkernels.ir.analysis.axes import known_value
from vkernels.ir.dialect import TileOp, WholeOp, axes_of
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.language.kernel import Kernel

from .drawing import Array, Draw, Drawn
from .recipes import Given, Recipe

NUDGE = 2.0**-30
"""By what share of themselves arguments are moved, to see how much results are."""
TRIES = 2
ROUNDED = 2.0**-23
"""A rounding in float32, in which the kernel is interpreted too: results may err as much as they do there."""
LARGEST = 1 << 22
"""Elements of a tensor, or of a tile of one program that has all of every axis."""


def drawn_as_written(recipe: Recipe, kernel: Kernel, computed: tuple[str, ...], d: Draw) -> Drawn:
    """Arguments of a call, with what it must give. `computed`: tensors of the dtype that is computed in.

    Raises `MemoryError` for tensors that are too large.
    """
    tensors = [p for p in kernel.parameters if p.kind == "tensor"]
    written = outputs_of(kernel, tuple(d.constants.items()))
    sizes: dict[str, int] = {}
    for name in kernel.sizes:
        sizes[name] = d.size(name, recipe.least.get(name, 0), recipe.most.get(name, 1 << 62))
    given = recipe.given(d, sizes)
    held = max([_largest_tile(kernel, d.constants, sizes), *(prod(_shape(p, sizes)) for p in tensors)])
    if held > LARGEST:
        raise MemoryError(f"{held} elements of {kernel.name} with {sizes}")
    arguments: Given = {}
    for parameter in kernel.parameters:
        name = parameter.name
        if name in given:
            arguments[name] = given[name]
        elif parameter.kind == "tensor" and name not in written:
            values = d.normal(*_shape(parameter, sizes), computed=name in computed)
            arguments[name] = d.with_specials(values) if name in recipe.special else values
    outputs = {p.name: _shape(p, sizes) for p in tensors if p.name in written}
    exact = _run(kernel, d.constants, arguments, outputs)
    rounded = _run(kernel, d.constants, arguments, outputs, "float32")
    moved = {name: _finite(np.abs(rounded[name] - exact[name])) * NUDGE / ROUNDED for name in outputs}
    for _ in range(TRIES):
        nudged = {name: _nudged(value, d.numbers) for name, value in arguments.items()}
        for name, values in _run(kernel, d.constants, nudged, outputs).items():
            apart = np.abs(values - exact[name])
            moved[name] = np.maximum(moved[name], _finite(apart))
    terms = prod(sorted((max(1, n) for n in sizes.values()), reverse=True)[:2])
    arrays = [numbers(value) for value in arguments.values() if isinstance(value, np.ndarray)]
    largest = max(map(_largest, arrays), default=0.0)  # what is left of it is as wrong as it is
    largest += recipe.cancels(arguments)
    allowed = {
        name: (16 + 4 * terms**0.5) * (_largest(change) / NUDGE + _finite(np.abs(exact[name])) + largest)
        for name, change in moved.items()
    }
    return Drawn(arguments, exact, inner=recipe.inner, allowed=allowed)


@functools.cache
def outputs_of(kernel: Kernel, constants: tuple[tuple[str, Any], ...]) -> tuple[str, ...]:
    """The tensors that a kernel writes."""
    return written_tensors(kernel_in(_module(kernel, constants, "float64")))


@functools.cache
def _module(kernel: Kernel, constants: tuple[tuple[str, Any], ...], dtype: str) -> Any:
    """The kernel's module with all tensors in a dtype that can be."""
    tensors = tuple((p.name, dtype if dtype in p.dtypes else "int64") for p in kernel.parameters if p.kind == "tensor")
    scalars = tuple((p.name, p.dtypes[0]) for p in kernel.parameters if p.kind == "scalar")
    return kernel.build(Signature(tensors, scalars, constants))


def _largest_tile(kernel: Kernel, constants: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
    """Elements of the largest tile as written."""
    op, facts = kernel_in(_module(kernel, tuple(constants.items()), "float64")), Facts(sizes)
    axes = [each for each in op.walk() if isinstance(each, TileOp | WholeOp)]
    extents = {axis.axis.data: known_value(axis.extent, facts) or 1 for axis in axes}
    tiles = [result for each in op.walk() for result in each.results if isinstance(result.type, TensorType)]
    return max(prod(extents[axis] for axis in axes_of(tile)) for tile in tiles)


def _shape(parameter: Any, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(d if isinstance(d, int) else sizes[d] for d in parameter.dimensions)


def _run(
    kernel: Kernel, constants: Mapping[str, Any], arguments: Given, outputs: Mapping[str, Any], dtype: str = "float64"
) -> dict[str, Any]:
    """What the outputs become, computed in a dtype; the arguments stay as they are."""
    module = _module(kernel, tuple(constants.items()), dtype)
    wide: Given = {}
    for parameter in kernel.parameters:
        value = arguments.get(parameter.name)
        if parameter.kind == "tensor":
            held = np.dtype(dtype if dtype in parameter.dtypes else np.int64)
            value = (np.zeros(outputs[parameter.name]) if value is None else numbers(value)).astype(held)
        if parameter.kind != "constant":
            wide[parameter.name] = value
    interpret(module, wide)
    return {name: wide[name].astype(np.float64) for name in outputs}


def _nudged(value: Any, random: np.random.Generator) -> Any:
    if not isinstance(value, np.ndarray) or np.issubdtype(value.dtype, np.signedinteger):
        return value
    return numbers(value) * (1 + NUDGE * random.uniform(-1, 1, value.shape))


def _largest(values: Array) -> float:
    return float(_finite(np.abs(values)).max(initial=0.0))


def _finite(values: Array) -> Array:
    return np.nan_to_num(values, nan=0, posinf=0, neginf=0)
