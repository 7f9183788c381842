"""Type checkers know what library functions take and return."""

from __future__ import annotations

import inspect
from pathlib import Path

import vkernels.library as library

from .stub import stub

FILE = Path(library.__file__).with_suffix(".pyi")


def test_the_stub_has_the_functions_and_their_parameters(golden):
    golden(FILE, stub())


def test_every_function_is_typed_once_for_each_kind_of_array():
    text = FILE.read_text()
    for name in library.__all__:
        assert text.count(f"def {name}(") == 3
        for parameter in inspect.signature(getattr(library, name)).parameters:
            assert text.count(f"    {parameter}: ") >= 3
    assert "Array," not in text


def test_arrays_of_numpy_stay_so_where_torch_is_not_installed():
    """There `Tensor` is anything, and the first overload that fits is taken."""
    for name in library.__all__:
        of_numpy, of_torch, _ = FILE.read_text().split(f"def {name}(\n")[1:]
        assert "_NumPy" in of_numpy.split("@overload")[0]
        assert "Tensor" in of_torch.split("@overload")[0]
