"""Arrays of other libraries are taken by `__array_interface__` and DLPack, on their own memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.library import softmax
from vkernels.runtime.arrays import adopted


class Interface:
    """An array as libraries without DLPack have it."""

    def __init__(self, array):
        self._array = array

    @property
    def __array_interface__(self):
        return self._array.__array_interface__


class Dlpack:
    """An array as CuPy and JAX have it."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@vk.kernel
def double(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = 2 * x[i]


@pytest.mark.parametrize("made", [Interface, Dlpack])
def test_kernels_take_them(made):
    for _ in range(3):  # the first call enters, the second looks up, the third may be like the latest
        x, out = np.random.default_rng().standard_normal(5, np.float32), np.full(5, np.nan, np.float32)
        double(made(x), out=made(out))
        assert out.tolist() == (2 * x).tolist()
    mixed = np.full(5, np.nan, np.float32)
    double(x, made(mixed))
    assert mixed.tolist() == (2 * x).tolist()
    interpreted = np.full(5, np.nan, np.float32)
    double.interpret(made(x), made(interpreted))
    assert interpreted.tolist() == (2 * x).tolist()
    assert "func" in str(double.compile(made(x), made(out)))


def test_dtypes_that_numpy_lacks_come_as_torch_tensors():
    found = adopted(Dlpack(torch.ones(3, dtype=torch.bfloat16)))
    assert isinstance(found, torch.Tensor)
    x, out = torch.ones(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.bfloat16)
    double(Dlpack(x), Dlpack(out))
    assert out.tolist() == [2, 2, 2]


@pytest.mark.parametrize("made", [Interface, Dlpack])
def test_library_functions_take_them(made):
    x, out = np.log(np.array([[1.0, 3.0]])), np.full((1, 2), np.nan)
    np.testing.assert_allclose(softmax(made(x)), [[0.25, 0.75]])
    softmax(made(x), out=made(out))
    np.testing.assert_allclose(out, [[0.25, 0.75]])


def test_what_gives_no_memory_is_an_argument_error():
    class Refuses(Dlpack):
        def __dlpack__(self, **options):
            raise BufferError("on another machine")

    with pytest.raises(vk.ArgumentError, match="another machine"):
        double(Refuses(np.ones(3, np.float32)), np.ones(3, np.float32))
    with pytest.raises(vk.ArgumentError, match="expected a torch tensor or a NumPy array"):
        double([1.0], np.ones(1, np.float32))
