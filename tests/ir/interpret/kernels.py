"""Kernels of a few lines for the interpreter's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vkernels.ir.interpret import interpret
from vkernels.ir.text import parse_module

DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": np.uint16,
    "f8E4M3FN": np.uint8,
    "f8E5M2": np.uint8,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}
FLOATS = ("f64", "f32", "f16")
INTEGERS = ("i8", "i16", "i32", "i64")


def tile(element: str, *axes: str) -> str:
    """The type of a tile as written."""
    return f"tensor<{'?x' * len(axes)}{element}, #vk.axes<{', '.join(axes)}>>" if axes else element


def run(text: str, **arguments: object) -> None:
    """Interpret a module's text."""
    module = parse_module(text)
    interpret(module, arguments)  # type: ignore[arg-type]


def elementwise(op: str, inputs: Sequence[tuple[str, object]], result: str) -> np.ndarray:
    """The results of an operation on arrays of one axis; `op` is its text with `%0`, `%1`, … for operands, or `{types}`
    of them: `arith.addf %0, %1 : {0}`."""
    arrays = [np.atleast_1d(np.asarray(values, DTYPES[element])) for element, values in inputs]
    types = [tile(element, "i") for element, _ in inputs]
    parameters = [f"%x{n}: !vk.tensor<[N], {element}>" for n, (element, _) in enumerate(inputs)]
    loads = [
        f"%v{n} = vk.load %x{n}[i] : !vk.tensor<[N], {element}> -> {tile(element, 'i')}"
        for n, (element, _) in enumerate(inputs)
    ]
    for n in range(len(inputs)):
        op = op.replace(f"%{n}", f"%v{n}")
    out = np.full(arrays[0].shape, 77, DTYPES[result])
    run(
        f"""
        vk.kernel @k({", ".join(parameters)}, %out: !vk.tensor<[N], {result}>) {{
          %n = vk.size N
          vk.tile i < %n
          {chr(10).join(loads)}
          %r = {op.format(*types, result=tile(result, "i"))}
          vk.store %r in %out[i] : !vk.tensor<[N], {result}> <- {tile(result, "i")}
        }}""",
        **{f"x{n}": array for n, array in enumerate(arrays)},
        out=out,
    )
    return out


def program(
    body: str, parameters: Mapping[str, tuple[str, np.ndarray]], axes: Mapping[str, str] | None = None
) -> dict[str, np.ndarray]:
    """Run a kernel of this body; returns its arguments. `parameters`: name → (type, argument); `axes` are whole."""
    declared = "\n".join(f"%n_{a} = vk.size {size}\nvk.whole {a} < %n_{a}" for a, size in (axes or {}).items())
    signature = ", ".join(f"%{name}: {type_}" for name, (type_, _) in parameters.items())
    arguments = {name: value for name, (_, value) in parameters.items()}
    run(f"vk.kernel @k({signature}) {{\n{declared}\n{body}\n}}", **arguments)
    return arguments


def bfloat16(values: object) -> np.ndarray:
    """Bits of the numbers, which must be exact in bf16."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)
