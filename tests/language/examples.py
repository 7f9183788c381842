"""One example of every operation, as docs/language.md shows it: what is written, and what comes of it.

All work on the tensors below, along axes of fixed names; an expression is stored into `out` along the axes that are
given for it, and statements store themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import vkernels as vk

TENSORS = {
    "x": np.array([-2.0, 0.5, 3.0], np.float32),
    "n": np.array([2, 0, 2], np.int64),
    "m": np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], np.float32),
}
AXES = {
    "i": 'vk.tile("N")',
    "r": 'vk.tile("M")',
    "j": 'vk.whole("N")',
    "a": "vk.whole(3)",
    "b": "vk.whole(1)",
}
SIZES = {"i": "N", "j": "N", "r": "M", "a": "3", "b": "1"}
LENGTHS = {"N": 3, "M": 2, "3": 3, "1": 1}


@dataclass(frozen=True)
class Example:
    """`code`: an expression, or statements; `along`: the axes of what is stored; `dtype`: its dtype."""

    code: str
    along: str = "i"
    dtype: str = "float32"

    @property
    def body(self) -> list[str]:
        """The statements."""
        if "out" in self.code or self.code.startswith(("vk.print", "vk.device_assert")):
            return self.code.split("\n")
        return [f"out[{', '.join(self.along)}] = {self.code}"]

    @property
    def axes(self) -> list[str]:
        """The names of the axes that it uses and does not declare."""
        return [a for a in AXES if re.search(rf"\b{a}\b(?! =)", "\n".join(self.body)) and f"{a} = " not in self.code]


EXAMPLES = {
    "abs": Example("vk.abs(x[i])"),
    "bits": Example("vk.bits(x[i])", dtype="int32"),
    "cast": Example("vk.cast(x[i], vk.int32)", dtype="int32"),
    "ceil": Example("vk.ceil(x[i])"),
    "clamp": Example("vk.clamp(x[i], -1, 1)"),
    "compute_dtype": Example("vk.zeros((i,), vk.compute_dtype(x, n))"),
    "complex": Example("z = vk.complex(x[i], 1.0)\nout[i] = vk.abs(z * z)"),
    "conj": Example("vk.imag(vk.conj(vk.complex(1.0, x[i])))"),
    "imag": Example("vk.imag(2j * x[i])"),
    "real": Example("vk.real(2j * vk.complex(1.0, x[i]))"),
    "cos": Example("vk.cos(x[i])"),
    "erf": Example("vk.erf(x[i])"),
    "exp": Example("vk.exp(x[i])"),
    "exp2": Example("vk.exp2(x[i])"),
    "expm1": Example("vk.expm1(x[i])"),
    "floor": Example("vk.floor(x[i])"),
    "fma": Example("vk.fma(x[i], x[i], 1.0)"),
    "isinf": Example("vk.isinf(1.0 / n[i])", dtype="bool"),
    "isnan": Example("vk.isnan(vk.sqrt(x[i]))", dtype="bool"),
    "log": Example("vk.log(x[i])"),
    "log1p": Example("vk.log1p(x[i])"),
    "log2": Example("vk.log2(x[i])"),
    "maximum": Example("vk.maximum(x[i], n[i])"),
    "minimum": Example("vk.minimum(x[i], n[i])"),
    "pow": Example("vk.pow(x[i], 2)"),
    "round": Example("vk.round(x[i])"),
    "rsqrt": Example("vk.rsqrt(x[i])"),
    "sin": Example("vk.sin(x[i])"),
    "sqrt": Example("vk.sqrt(x[i])"),
    "tanh": Example("vk.tanh(x[i])"),
    "trunc": Example("vk.trunc(x[i])"),
    "where": Example("vk.where(x[i] < 1, x[i], 0)"),
    "all": Example("vk.all(m[r, j] > 0, axis=j)", "r", "bool"),
    "any": Example("vk.any(m[r, j] > 4, axis=j)", "r", "bool"),
    "argmax": Example("vk.argmax(m[r, j], axis=j)", "r", "int64"),
    "argsort": Example("vk.argsort(m[r, j], axis=j)", "rj", "int64"),
    "sort": Example("vk.sort(m[r, j], axis=j)", "rj"),
    "topk": Example("largest, place = vk.topk(m[r, j], b, axis=j)\nout[r, b] = largest", "rb"),
    "reduce": Example("vk.reduce(vk.maximum, m[r, j], axis=j)", "r"),
    "scan": Example("vk.scan(vk.maximum, m[r, j], axis=j)", "rj"),
    "argmin": Example("vk.argmin(m[r, j], axis=j)", "r", "int64"),
    "max": Example("vk.max(m[r, j], axis=j)", "r"),
    "mean": Example("vk.mean(m[r, j], axis=j)", "r"),
    "min": Example("vk.min(m[r, j], axis=j)", "r"),
    "product": Example("vk.product(m[r, j], axis=j)", "r"),
    "sum": Example("vk.sum(m[r, j], axis=j)", "r"),
    "atomic_add": Example("vk.atomic_add(out[n[i]], x[i])"),
    "atomic_max": Example("vk.atomic_max(out[n[i]], x[i])"),
    "atomic_cas": Example("vk.atomic_cas(out[n[i]], 0, x[i])"),
    "atomic_exchange": Example("vk.atomic_exchange(out[n[i]], x[i])"),
    "atomic_min": Example("vk.atomic_min(out[n[i]], x[i])"),
    "load": Example("vk.load(x[i], where=x[i] > 0)"),
    "scratch": Example("kept = vk.scratch((r, j), vk.float32)\nkept[r, j] = m[r, j]\nout[r, j] = kept[r, n[j]]", "rj"),
    "store": Example("vk.store(out[i], x[i], where=n[i] > 0)"),
    "broadcast": Example("vk.broadcast(x[j], (r, j))", "rj"),
    "full": Example("vk.full((i,), 7, vk.int32)", dtype="int32"),
    "full_like": Example("vk.full_like(x[i], 7)"),
    "reshape": Example("vk.reshape(x[a], a, (a, b))", "ab"),
    "transpose": Example("vk.transpose(m[r, j], (j, r))", "jr"),
    "zeros": Example("vk.zeros((i,), vk.float32)"),
    "zeros_like": Example("vk.zeros_like(n[i])", dtype="int64"),
    "cumulative_max": Example("vk.cumulative_max(m[r, j], axis=j)", "rj"),
    "cumulative_min": Example("vk.cumulative_min(m[r, j], axis=j)", "rj"),
    "cumulative_product": Example("vk.cumulative_product(m[r, j], axis=j)", "rj"),
    "cumulative_sum": Example("vk.cumulative_sum(m[r, j], axis=j)", "rj"),
    "device_assert": Example('vk.device_assert(x[i] >= 0, "x is negative")'),
    "phase": Example(
        "kept = vk.scratch((j,), vk.float32)\nkept[j] = x[j]\nvk.phase()\nkept[j] = kept[n[j]]\nout[j] = kept[j]", "j"
    ),
    "print": Example('vk.print("x", x[i])'),
    "dot": Example("vk.dot(m[r, j], x[j])", "r"),
    "gelu": Example("vk.gelu(x[i])"),
    "relu": Example("vk.relu(x[i])"),
    "sigmoid": Example("vk.sigmoid(x[i])"),
    "silu": Example("vk.silu(x[i])"),
    "random": Example("vk.random(42, i)"),
    "random_bits": Example("vk.random_bits(42, i)", dtype="int32"),
    "range": Example("total = 0.0\nfor k in vk.range(n[i]):\n    total += x[k]\nout[i] = total"),
    "size": Example('x[i] / vk.size("N")'),
    "tile": Example('i = vk.tile("N")\nout[i] = x[i] + i'),
    "whole": Example('j = vk.whole("N")\nout[r] = vk.sum(m[r, j], axis=j)', "r"),
}


def legend() -> str:
    """What the examples work on."""
    tensors = ", ".join(f"`{name}` is {shown(value)}" for name, value in TENSORS.items())
    axes = ", ".join(f"`{name} = {made}`" for name, made in AXES.items())
    return f"{tensors}; `out` is 0 at first. Unless an example defines its own axes: {axes}. Expressions are stored."


def kernels(folder: Path) -> dict[str, vk.Kernel]:
    """Every example as a kernel; the front end reads them from a file."""
    parts = ["import vkernels as vk\nfrom jaxtyping import Shaped"]
    for name, example in EXAMPLES.items():
        ranks = {"x": "N", "n": "N", "m": "M N", "out": " ".join(SIZES[a] for a in example.along)}
        parameters = ", ".join(f'{t}: Shaped[vk.Tensor, "{sizes}"]' for t, sizes in ranks.items())
        lines = [f"{axis} = {AXES[axis]}" for axis in example.axes] + example.body
        text = "\n".join(f"    {line}" for line in lines)
        parts.append(f"@vk.kernel\ndef {name}({parameters}):\n{text}")
    file = folder / "examples.py"
    file.write_text("\n\n\n".join(parts) + "\n")
    names: dict[str, object] = {}
    exec(compile(file.read_text(), file, "exec"), names)
    return {name: kernel for name in EXAMPLES if isinstance(kernel := names[name], vk.Kernel)}


def empty(example: Example) -> np.ndarray:
    """What an example stores into: zeros."""
    return np.zeros([LENGTHS[SIZES[axis]] for axis in example.along], example.dtype)


def outcome(kernel: vk.Kernel, example: Example) -> str:
    """What comes of an example, interpreted: the elements, or what it prints, or what it is stopped by."""
    out, printed = empty(example), []
    try:
        kernel.interpret(*TENSORS.values(), out, on_print=printed.append)
    except vk.CheckError as error:
        return str(error).split("error: ")[1].splitlines()[0]
    return printed[0] if printed else shown(out)


def shown(array: np.ndarray) -> str:
    """An array's elements in four digits, rows between brackets."""
    if array.ndim:
        return f"[{', '.join(map(shown, array))}]"
    return str(bool(array)) if array.dtype == bool else f"{array.item():.4g}" if array.dtype.kind == "f" else str(array)
