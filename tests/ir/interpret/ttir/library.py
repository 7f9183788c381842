"""Kernels of the library, planned as for GPUs, lowered, and run on arrays by the interpreter of TTIR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vkernels.compiler.arguments import ArrayView
from vkernels.compiler.compile_gpu import lower_for
from vkernels.compiler.protocols import Signature
from vkernels.compiler.specialise import facts_for, kernel_in
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir import LoweredTtir
from vkernels.ir.plan import Home, Plan
from vkernels.ir.transforms.merge_tensors import with_one_for
from vkernels.library.dense import matmul_bias
from vkernels.library.rows import layer_norm_rows, softmax_rows
from vkernels.library.spdnn import spdnn

NAMES = {
    np.float64: "float64",
    np.float32: "float32",
    np.float16: "float16",
    np.uint16: "bfloat16",
    np.int32: "int32",
    np.int64: "int64",
}


@dataclass(frozen=True)
class Call:
    """A call of a kernel: arguments by name, sizes, and what outputs must be, with how far they may be off.

    `in_place`: the argument that `out` takes the place of.
    """

    kernel: Any
    arguments: Mapping[str, Any]
    sizes: Mapping[str, int]
    expected: Mapping[str, np.ndarray]
    tolerance: float
    constants: Mapping[str, Any] = field(default_factory=dict)
    in_place: str = ""

    @property
    def signature(self) -> Signature:
        arrays = {name: a for name, a in self.arguments.items() if isinstance(a, np.ndarray)}
        dtypes = tuple((name, NAMES[a.dtype.type]) for name, a in arrays.items())
        others = {name: value for name, value in self.arguments.items() if name not in arrays}
        scalars = tuple((name, "i64" if isinstance(value, int) else "f64") for name, value in others.items())
        return Signature(dtypes, scalars, tuple(self.constants.items()))

    def lowered(self, plan: Plan, exact: bool = False) -> LoweredTtir:
        """The kernel's launches; `exact`: compiled for these sizes."""
        arrays = {name: a for name, a in self.arguments.items() if isinstance(a, np.ndarray)}
        views = {name: _view(array) for name, array in arrays.items()}
        module = self.kernel.build(self.signature)
        facts = facts_for(kernel_in(module), plan, self.sizes, views, exact, for_gpu=True)
        if self.in_place:
            module = with_one_for(module, {self.in_place: "out"})
        return lower_for(module, plan, facts).lowered

    def run(self, lowered: LoweredTtir, **options: Any) -> dict[str, np.ndarray]:
        """What the outputs become, which are poisoned before."""
        arguments = dict(self.arguments)
        outputs = {}
        for name in self.expected:
            arguments[name] = outputs[name] = _poisoned(arguments[name])
        if self.in_place:
            outputs["out"][...] = arguments[self.in_place]
            arguments[self.in_place] = outputs["out"]
        write_only = () if self.in_place else tuple(self.expected)
        interpret_ttir(lowered, arguments, self.sizes, write_only=write_only, **options)
        return outputs

    def difference(self, outputs: Mapping[str, np.ndarray]) -> str:
        """Where outputs are wrong; empty if they are right."""
        for name, expected in self.expected.items():
            actual = numbers(outputs[name])
            with np.errstate(invalid="ignore"):
                wrong = ~(np.abs(actual - expected) <= self.tolerance * np.maximum(1, np.abs(expected)))
            if wrong.any():
                where = tuple(int(n) for n in np.argwhere(wrong)[0])
                return f"{name}{list(where)} is {actual[where]}, expected {expected[where]}; {wrong.sum()} are wrong"
        return ""


def numbers(array: np.ndarray) -> np.ndarray:
    """Elements in f64; uint16 holds bf16."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def _poisoned(array: np.ndarray) -> np.ndarray:
    """New memory, laid out as a view of it is, in which every byte makes NaN."""
    base = array.base if array.base is not None else array
    memory = np.full(base.size, -1, f"i{base.itemsize}").view(base.dtype)
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, memory, start, array.strides)


def _view(array: np.ndarray) -> ArrayView:
    strides = tuple(stride // array.itemsize for stride in array.strides)
    address = array.__array_interface__["data"][0]
    return ArrayView(NAMES[array.dtype.type], array.itemsize, array.shape, strides, address, True)


def rounded(values: np.ndarray, dtype: type) -> np.ndarray:
    """Numbers in a dtype; bf16 by cutting, as its bits."""
    if dtype is np.uint16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype)


TOLERANCES = {np.float64: 1e-12, np.float32: 1e-5, np.float16: 2e-3, np.uint16: 1.6e-2}


def matrix(rows: int, columns: int, dtype: type, seed: int, padding: int = 0, mean: int = 0) -> np.ndarray:
    """Random numbers; `padding`: elements between rows."""
    values = np.random.default_rng(seed).normal(mean, size=(rows, columns + padding))
    memory = rounded(values, dtype)
    return memory[:, :columns] if padding else memory


def softmax(rows: int, columns: int, dtype: type = np.float32, seed: int = 0, padding: int = 0, shift: int = 0) -> Call:
    """`shift`: added to all. Where it is far below 0, a maximum that takes in a 0 leaves nothing of the rest."""
    x = matrix(rows, columns, dtype, seed, padding, shift)
    e = np.exp(numbers(x) - numbers(x).max(axis=1, keepdims=True))
    arguments = {"x": x, "out": matrix(rows, columns, dtype, seed, padding)}
    expected = {"out": e / e.sum(axis=1, keepdims=True)}
    return Call(softmax_rows, arguments, {"M": rows, "N": columns}, expected, TOLERANCES[dtype])


def layer_norm(rows: int, columns: int, dtype: type = np.float32, seed: int = 0, padding: int = 0) -> Call:
    x, out = (matrix(rows, columns, dtype, seed, padding) for _ in range(2))
    weight, bias = (matrix(1, columns, dtype, seed + n)[0].copy() for n in (1, 2))
    centred = numbers(x) - numbers(x).mean(axis=1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    arguments = {"x": x, "weight": weight, "bias": bias, "eps": 1e-5, "out": out}
    expected = {"out": normal * numbers(weight) + numbers(bias)}
    return Call(layer_norm_rows, arguments, {"M": rows, "N": columns}, expected, 4 * TOLERANCES[dtype])


def matmul(
    m: int, k: int, n: int, dtype: type = np.float32, seed: int = 0, activation: str = "none", padding: int = 0
) -> Call:
    shapes = (m, k), (k, n), (m, n)
    a, b, out = (matrix(*shape, dtype, seed + number, padding) for number, shape in enumerate(shapes))
    bias = matrix(1, n, dtype, seed + 3)[0].copy()
    product = numbers(a) @ numbers(b) + numbers(bias)
    expected = {"out": np.maximum(product, 0) if activation == "relu" else product}
    arguments = {"a": a, "b": b, "bias": bias, "out": out}
    sizes = {"M": m, "K": k, "N": n}
    return Call(matmul_bias, arguments, sizes, expected, 4 * TOLERANCES[dtype], {"activation": activation})


def network(neurons: int, images: int, layers: int = 3, inputs: int = 4, seed: int = 0) -> Call:
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, (neurons, images)).astype(np.float32)
    column = random.integers(0, neurons, (layers, neurons, inputs)).astype(np.int32)
    weight = random.normal(1, 0.5, (layers, neurons, inputs)).astype(np.float32)
    features = y.astype(np.float64)
    for layer in range(layers):
        total = sum(weight[layer, :, k, None].astype(np.float64) * features[column[layer, :, k]] for k in range(inputs))
        features = np.clip(total - 0.3, 0, 32)
    out, peak = np.empty((neurons, images), np.float32), np.empty(images, np.float32)
    arguments = {"y": y, "column": column, "weight": weight, "bias": -0.3, "out": out, "peak": peak}
    sizes = {"N": neurons, "I": images, "L": layers, "K": inputs}
    return Call(spdnn, arguments, sizes, {"out": features, "peak": features.max(axis=0)}, 1e-4)


HELD = Plan(tiles={"i": 2}, chunks={"j": 64}, lanes="j")
RECOMPUTED = Plan(tiles={"i": 2}, chunks={"j": 16}, lanes="j")
SHARED = Plan(tiles={"i": 2}, chunks={"j": 16}, homes={"e": Home.SHARED}, lanes="j")
MEMORY = Plan(tiles={"i": 2}, chunks={"j": 16}, homes={"e": Home.MEMORY}, lanes="j")
SPLIT = Plan(tiles={"i": 1}, chunks={"j": 16}, splits={"j": 3}, lanes="j")
COPIES = Plan(tiles={"i": 4}, chunks={"n": 8}, copies=("features",), lanes="i")
ONE_COPY = Plan(tiles={"i": 4}, chunks={"n": 8}, lanes="i")
PRODUCT = Plan(tiles={"i": 16, "j": 16}, chunks={"k": 16}, lanes="j", order=("i", "j"))
