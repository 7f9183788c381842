"""A user's calls of library functions as type checkers see them. `.ci/run` runs mypy on it, which reports an `ignore`
that ignores nothing."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from vkernels.library import adamw, argmax, layer_norm, matmul, softmax, topk


class Foreign:
    """An array of another library."""

    def __dlpack__(self, *, stream: Any = None) -> Any:
        raise NotImplementedError

    def __dlpack_device__(self) -> tuple[int, int]:
        raise NotImplementedError


def right(x: Tensor, y: NDArray[np.float32], other: Foreign) -> None:
    assert_type(softmax(x), Tensor)
    assert_type(softmax(y), NDArray[Any])
    assert_type(softmax(other), Any)
    assert_type(softmax(x, out=x), Tensor)
    assert_type(layer_norm(x, x, x), Tensor)
    assert_type(matmul(y, y, bias=y, activation="gelu"), NDArray[Any])
    assert_type(argmax(x), Tensor)
    assert_type(topk(x, 5), tuple[Tensor, Tensor])
    assert_type(topk(y, 5), tuple[NDArray[Any], NDArray[Any]])
    adamw(x, x, x, x, step=1)
    softmax(x).relu()
    softmax(y).astype(np.float64)


def wrong(x: Tensor) -> None:
    softmax()  # type: ignore[call-overload]
    softmax("x")  # type: ignore[call-overload]
    softmax(x, 3)  # type: ignore[call-overload]
    softmax(x).astype(np.float64)  # type: ignore[attr-defined]
