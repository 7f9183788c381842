"""Matrix multiplication with bias and activation in the same pass."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Float

import vkernels as vk
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan

from .arrays import Array, constant_like, empty_like
from .gpu_plans import matmul_on_gpu


@vk.function
def activate(x, activation: vk.Constant):
    if activation == "relu":
        return vk.maximum(x, 0.0)
    if activation == "gelu":
        return 0.5 * x * (1.0 + vk.erf(x * 0.7071067811865476))
    if activation == "sigmoid":
        return vk.sigmoid(x)
    if activation == "tanh":
        return vk.tanh(x)
    return x


@vk.kernel
def matmul_bias(
    a: Float[vk.Tensor, "M K"],
    b: Float[vk.Tensor, "K N"],
    bias: Float[vk.Tensor, "N"],
    out: Float[vk.Tensor, "M N"],
    activation: vk.Constant = "none",
):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    product = vk.dot(a[i, k], b[k, j])
    out[i, j] = activate(product + bias[j], activation)


@matmul_bias.plan
def plan_matmul(sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan:
    """Accumulators fill three quarters of the registers; operands that are read many times are packed."""
    if limits.warp > 1:
        return matmul_on_gpu(sizes, limits, dtypes["a"])
    lanes = limits.register_bytes // (8 if "float64" in dtypes.values() else 4)
    across = 2 if sizes["N"] > lanes else 1
    down = 3 * limits.registers // 4 // across
    down = max(1, min(down, sizes["M"]))
    return Plan(
        tiles={"i": down, "j": across * lanes},
        chunks={"k": 1},
        packs=tuple(name for name, reuse in (("a", sizes["N"]), ("b", sizes["M"])) if reuse >= 128),
        lanes="j",
        order=("j", "i"),
    )


ACTIVATIONS = ("none", "relu", "gelu", "sigmoid", "tanh")


def matmul(
    a: Array, b: Array, bias: Array | None = None, activation: str | None = None, out: Array | None = None
) -> Array:
    """activation(a @ b + bias), the sum over K kept in f32 (f64 for f64 operands) until the end.

    `a`: M × K, `b`: K × N, of any strides and of one dtype: f64, f32, f16 or bf16. `bias`: N elements.
    `activation`: none, relu, gelu (exact, with erf), sigmoid or tanh. Returns `out`, or a new M × N array of a's dtype.
    Raises `ArgumentError` for shapes or dtypes that do not go together, or an unknown activation.
    """
    activation = "none" if activation is None else activation
    if activation not in ACTIVATIONS:
        raise vk.ArgumentError(f"matmul: activation is {activation!r}, expected one of {', '.join(ACTIVATIONS)}")
    out = empty_like(a, (a.shape[0], b.shape[1])) if out is None else out
    bias = constant_like(a, 0.0, (b.shape[1],)) if bias is None else bias
    matmul_bias(a, b, bias, out, activation)
    return out
