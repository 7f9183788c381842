"""Storages exchange their memory, by torch's function or without it."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch

from vkernels.ir.errors import UnsupportedError
from vkernels.memory import swap_storages as module
from vkernels.memory.swap_storages import DATA, swap_storages, swap_where_they_stand

Swap = Callable[[torch.UntypedStorage, torch.UntypedStorage], None]


@pytest.mark.parametrize("swap", [swap_storages, swap_where_they_stand])
def test_tensors_and_views_see_the_others_memory(swap: Swap) -> None:
    x, y = torch.arange(12.0).view(3, 4), torch.arange(12.0) + 100
    column, addresses = x[:, 1], (x.data_ptr(), y.data_ptr())
    swap(x.untyped_storage(), y.untyped_storage())
    assert (x.data_ptr(), y.data_ptr()) == addresses[::-1]
    assert column.tolist() == [101.0, 105.0, 109.0]
    assert y.tolist() == list(range(12))
    swap(x.untyped_storage(), y.untyped_storage())
    assert (x.data_ptr(), y.data_ptr()) == addresses
    assert column.tolist() == [1.0, 5.0, 9.0]


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("swap", [swap_storages, swap_where_they_stand])
def test_what_frees_memory_goes_with_it(swap: Swap) -> None:
    array = np.arange(6.0)
    alive = weakref.ref(array)
    x, y = torch.from_numpy(array), torch.zeros(6, dtype=torch.float64)
    del array
    swap(x.untyped_storage(), y.untyped_storage())
    del x
    gc.collect()
    assert alive() is not None
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    del y
    gc.collect()
    assert alive() is None


def test_another_layout_is_refused_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.arange(4.0), torch.zeros(4)
    monkeypatch.setattr(module, "DATA", DATA + ctypes.sizeof(ctypes.c_void_p))
    with pytest.raises(UnsupportedError, match="keeps storages otherwise than is known here"):
        swap_where_they_stand(x.untyped_storage(), y.untyped_storage())
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert y.tolist() == [0.0] * 4
