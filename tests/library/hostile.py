"""Calls with one argument that a function cannot take, in a process of their own: `python -m tests.library.hostile`.

It prints the name of each case before it runs it, and what is wrong with it afterwards: so whoever reads knows which
case it died of. Its arguments: a seed, one in how many functions and cases of each to run, drawn by the seed, and a
case up to which it leaves all out.
"""

from __future__ import annotations

import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch._subclasses import FakeTensorMode

import vkernels as vk

from .samples import Function, Parameter, declaration_of, parameters_of, public, right_call, sample

Call = Callable[[], Any]
HUGE = (1 << 63, -(1 << 63) - 1, 1 << 70, 10**400, -(10**400))


def drawn(seed: int, one_in: int) -> Iterator[tuple[str, Call]]:
    """Of the functions one in so many, with the right calls and one in so many other cases: the same for a seed."""

    def is_drawn(text: str) -> bool:
        return zlib.crc32(f"{seed} {text}".encode()) % one_in == 0

    for name, check in cases():
        function, _, what = name.partition("/")
        if is_drawn(function) and (what == "right" or is_drawn(name)):
            yield name, check


def cases() -> Iterator[tuple[str, Call]]:
    """Names of cases, and what runs each: it raises `AssertionError` where the outcome is wrong."""
    for name, function in public().items():
        yield f"{name}/right", partial(check_right, name, function)
        for parameter in parameters_of(name, function):
            where = f"{name}/{parameter.name}"
            for what, change in changes(parameter):
                yield f"{where}/{what}", partial(check_refused, name, function, parameter, change)
        for what, check in others(name, function):
            yield f"{name}/{what}", check


def changes(parameter: Parameter) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """What is put in the place of a right value, given that."""
    yield from tensor_changes(parameter) if parameter.rules.tensors else number_changes(parameter)


def tensor_changes(parameter: Parameter) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    if "None" not in parameter.rules.expected:
        yield "none", lambda value: None
    yield "list", lambda value: value.tolist()
    yield "text", lambda value: "x"
    yield "number", lambda value: 1.0
    yield "type", lambda value: torch.Tensor
    yield "meta", lambda value: value.to("meta")
    yield "fake", fake
    yield "functional", lambda value: torch._to_functional_tensor(value)
    yield "lazy zeros", lambda value: torch._efficientzerotensor(value.shape, dtype=value.dtype)
    yield "sparse", lambda value: value.to_sparse()
    yield "nested", lambda value: torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 2)])
    yield "quantised", lambda value: torch.quantize_per_tensor(torch.ones(value.shape), 0.1, 0, torch.quint8)
    yield "complex", lambda value: value.to(torch.complex64)
    yield "freed", lambda value: resized(value, 0)
    yield "shrunk", lambda value: resized(value, value.untyped_storage().nbytes() - 1)
    yield "masked", lambda value: np.ma.masked_array(value.numpy(), mask=True)
    yield "matrix", lambda value: np.asmatrix(value.numpy().reshape(value.shape[0] if value.ndim else 1, -1))
    yield "objects", lambda value: value.numpy().astype(object)
    yield "other byte order", lambda value: value.numpy().astype(value.numpy().dtype.newbyteorder())
    if all(rule.shape.rest is None for rule in parameter.rules.tensors):
        yield "more dimensions", lambda value: value.reshape((1,) * 7 + tuple(value.shape))
    if all(not rule.shape.takes(0) for rule in parameter.rules.tensors):
        yield "no dimensions", lambda value: value.reshape(-1)[0]
    if parameter.is_index:
        yield "floats", lambda value: value.float()
    else:
        yield "negated", lambda value: torch._neg_view(value)
    if parameter.is_written:
        yield "expanded", lambda value: value.reshape(-1)[:1].expand(value.shape)
        yield "longer", lambda value: value.new_zeros((value.shape[0] + 1, *value.shape[1:]))
        yield (
            "turned",
            lambda value: value.new_zeros((1, value.numel(), *(1,) * (value.ndim - 2))[: value.ndim] or (2,)),
        )
        yield "requires grad", lambda value: value.requires_grad_()
        yield "read-only", lambda value: read_only(value.numpy())


def fake(value: torch.Tensor) -> Any:
    with FakeTensorMode() as mode:
        return mode.from_tensor(value)


def resized(value: torch.Tensor, size: int) -> torch.Tensor:
    value.untyped_storage().resize_(size)
    return value


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def number_changes(parameter: Parameter) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    expected = parameter.rules.expected
    for value in ("nonsense", b"x", [1], {}, 1j, torch.ones(2), torch.ones((), device="meta"), np.ones(3), object()):
        yield f"{type(value).__name__} {value!r}"[:40], lambda _, value=value: value
    if "None" not in expected:
        yield "none", lambda value: None
    if "True or False" not in expected:
        yield "bool", lambda value: True
        yield "NumPy's bool", lambda value: np.True_
    if "True or False" in expected or "one of" in expected:
        yield "one", lambda value: 1
    if "integer" in expected:
        yield "fraction", lambda value: 1.5
        yield "float", lambda value: 2.0
    for value in (float("nan"), float("inf"), *HUGE):
        if not (isinstance(value, int) and "finite" in expected and abs(value) < 1 << 80):
            yield f"huge {float('inf') if abs(value) > 1 << 90 else value}", lambda _, value=value: value


def others(name: str, function: Function) -> Iterator[tuple[str, Call]]:
    """Cases of more than one argument."""
    parameters = parameters_of(name, function)
    yield "no arguments", partial(refused, function)
    yield "an unknown name", partial(check_refused, name, function, None, None)
    tensors = [parameter for parameter in parameters if parameter.shape is not None]
    given = [each for each in tensors if each.name in right_call(name, function)]
    if given:
        yield "under vmap", partial(check_wrapped, name, function, torch.vmap)
    if len(given) > 1:
        yield "two libraries", partial(check_two_libraries, name, function, given[-1])
    written = [each for each in tensors if each.is_written]
    for out in written:
        for other in tensors:
            if other.name != out.name and other.shape == out.shape and other.dtype == out.dtype:
                yield f"{out.name} is {other.name}", partial(check_aliased, name, function, out, other)
    for index in (each for each in given if each.is_index and "checked" in declaration_of(function).defaults):
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
            for value in (torch.iinfo(dtype).min, torch.iinfo(dtype).max, -1):
                change = partial(with_edge, dtype=dtype, edge=value)
                yield f"{index.name} holds {value}", partial(check_refused, name, function, index, change)


def with_edge(value: torch.Tensor, dtype: torch.dtype, edge: int) -> torch.Tensor:
    found = value.to(dtype)
    found.reshape(-1)[found.numel() // 2] = edge
    return found


def check_right(name: str, function: Function) -> None:
    """Twice, as a repeated call runs other code, and with NumPy's arrays."""
    for numpy in (False, False, True):
        function(**right_call(name, function, numpy))


def check_refused(
    name: str, function: Function, parameter: Parameter | None, change: Callable[[Any], Any] | None
) -> None:
    given = right_call(name, function)
    if parameter is None or change is None:
        given["no such argument"] = 1
    else:
        value = change(given.get(parameter.name, sample(parameter)))
        if isinstance(value, np.ndarray) and parameter.shape is not None:
            given = right_call(name, function, numpy=True)
        given[parameter.name] = value
    refused(function, **given)


def check_wrapped(name: str, function: Function, transform: Callable[..., Any]) -> None:
    given = right_call(name, function)
    tensors = [key for key, value in given.items() if isinstance(value, torch.Tensor)]

    def call(*values: Any) -> Any:
        refused(function, **{**given, **dict(zip(tensors, values, strict=True))})
        return values[0] * 1

    transform(call)(*[torch.stack([given[key]] * 2) for key in tensors])


def check_two_libraries(name: str, function: Function, parameter: Parameter) -> None:
    given = right_call(name, function)
    refused(function, **{**given, parameter.name: given[parameter.name].numpy()})


def check_aliased(name: str, function: Function, out: Parameter, other: Parameter) -> None:
    """A result in the memory of an argument is refused, or is what it is elsewhere."""
    given = {**right_call(name, function), other.name: sample(other)}
    apart = {**given, out.name: given[other.name]}
    apart = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in apart.items()}
    try:
        function(**{**given, out.name: given[other.name]})
    except vk.Error:
        return
    function(**apart)
    torch.testing.assert_close(given[other.name], apart[out.name], equal_nan=True)


def refused(function: Function, **given: Any) -> None:
    """A call raises a `vk.Error`, and nothing else."""
    try:
        function(**given)
    except vk.Error as error:
        if function.__name__.removesuffix("_backward").removesuffix("_parts") not in str(error):
            raise AssertionError(f"the message does not name the function: {error}") from None
        return
    raise AssertionError("it was accepted")


def main() -> None:
    warnings.simplefilter("ignore")
    seed, one_in = map(int, sys.argv[1:3])
    torch.manual_seed(seed)
    vk.set_threads(1)
    after = sys.argv[3] if len(sys.argv) > 3 else ""
    for name, check in drawn(seed, one_in):
        if after:
            after = "" if name == after else after
            continue
        print(name, flush=True)
        try:
            check()
        except Exception as error:  # what no user should see
            print(f"\t{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
