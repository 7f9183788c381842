"""A user's code as type checkers see it. `.ci/run` runs mypy on it, which reports an `ignore` that ignores nothing."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

import vkernels as vk


@vk.kernel
def scaled(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"], s: vk.Scalar = 1.0) -> None:
    i = vk.tile("N")
    out[i] = x[i] * s + 1


@vk.kernel(plan=vk.Pin(tiles={"i": 4}), checked=True)
def pinned(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"], block: vk.Constant = 16) -> None:
    i = vk.tile("N")
    out[i] = x[i] * block


def right(x: np.ndarray, out: np.ndarray) -> None:
    scaled(x, out)
    scaled(x, out, 2.0)
    scaled(x=x, out=out, s=2)
    pinned(x, out, block=32)
    code = scaled.compile(x, out)
    print(code, scaled.name)
    kernels: list[vk.Kernel] = [scaled, pinned]
    print(kernels)


def wrong(x: np.ndarray) -> None:
    scaled(x)  # type: ignore[call-arg]
    scaled(x, x, 1.0, 2.0)  # type: ignore[call-arg]
    scaled(x, out=x, scale=1.0)  # type: ignore[call-arg]
    pinned()  # type: ignore[call-arg]


def bundled(x: np.ndarray, out: np.ndarray) -> None:
    net = vk.load("net.vkb", trust="unsigned", fallback="plain")
    net.scaled(x, out)
    with net.active():
        scaled(x, out)
