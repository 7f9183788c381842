"""Elementwise operations, conversions, reductions and scans are in TTIR what they are in vk IR, for any operands."""

from __future__ import annotations

import re

import numpy as np
import pytest

from vkernels.ir.errors import UnsupportedError
from vkernels.ir.lowering.ttir import lower_to_ttir, print_ttir
from vkernels.ir.text import parse_module

from .lowering import assert_same, mapped_in, mapped_text

COUNT = 64
DTYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
FLOATS, INTEGERS = ("f32", "f64"), ("i8", "i16", "i32", "i64")
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, -2.5, 127.5, -128.7, 2.0**24 + 1, 8388607.5, 1e-40,
           2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 4503599627370495.5)  # fmt: skip


def tile(element: str) -> str:
    return f"tensor<{COUNT}x{element}, #vk.axes<i>>"


def module_of(operation: str, inputs: tuple[str, ...], output: str) -> str:
    """Load tiles %0, %1, …; `operation` gives %r, in which `T(f32)` stands for a tile type; store it."""
    tensors = {f"x{n}": f"[{COUNT}], {element}" for n, element in enumerate(inputs)} | {"out": f"[{COUNT}], {output}"}
    loads = [
        f"%a{n} = vk.load %x{n}[i] : !vk.tensor<[{COUNT}], {element}> -> {tile(element)}"
        for n, element in enumerate(inputs)
    ]
    body = re.sub(r"T\((\w+)\)", lambda match: tile(match[1]), operation)
    store = f"vk.store %r in %out[i] : !vk.tensor<[{COUNT}], {output}> <- {tile(output)}"
    return mapped_text("\n".join([*loads, body, store]), tensors)


def hostile(element: str, numbers: np.random.Generator) -> np.ndarray:
    """Random values, half of them the ones that tend to go wrong."""
    dtype = DTYPES[element]
    if element == "i1":
        return numbers.integers(0, 2, COUNT).astype(bool)
    if element in ("f16", "bf16"):
        return numbers.integers(0, 1 << 16, COUNT).astype(np.uint16).view(dtype)
    if element in INTEGERS:
        bits = int(element[1:])
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        values = numbers.integers(low, high, COUNT, np.int64, endpoint=True)
        special = np.array([0, 1, -1, low, high, 2, 7, bits, bits - 1])
    else:
        values = numbers.standard_normal(COUNT) * 10.0 ** numbers.integers(-12, 25, COUNT)
        special = np.array(SPECIAL)
    return np.where(numbers.random(COUNT) < 0.5, values, numbers.choice(special, COUNT)).astype(dtype)


CASES: list[tuple[str, tuple[str, ...], str]] = []
for f in FLOATS:
    for name in ("addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf"):
        CASES.append((f"%r = arith.{name} %a0, %a1 : T({f})", (f, f), f))
    for name in ("sqrt", "absf", "floor", "ceil", "trunc", "roundeven"):
        CASES.append((f"%r = math.{name} %a0 : T({f})", (f,), f))
    CASES.append((f"%r = arith.negf %a0 : T({f})", (f,), f))
    CASES.append((f"%r = math.copysign %a0, %a1 : T({f})", (f, f), f))
    CASES.append((f"%r = math.fma %a0, %a1, %a2 : T({f})", (f, f, f), f))
    CASES.append((f"%r = arith.cmpf une, %a0, %a1 : T({f})", (f, f), "i1"))
    CASES.append((f"%r = arith.bitcast %a0 : T({f}) to T(i{f[1:]})", (f,), f"i{f[1:]}"))
    for i in INTEGERS:
        CASES += [(f"%r = arith.{name} %a0 : T({f}) to T({i})", (f,), i) for name in ("fptosi", "fptoui")]
    for i in ("i1", *INTEGERS):
        CASES += [(f"%r = arith.{name} %a0 : T({i}) to T({f})", (i,), f) for name in ("sitofp", "uitofp")]
    for half in ("f16", "bf16"):
        CASES.append((f"%r = arith.extf %a0 : T({half}) to T({f})", (half,), f))
        CASES.append((f"%r = arith.truncf %a0 : T({f}) to T({half})", (f,), half))
for i in INTEGERS:
    for name in ("addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui", "divsi", "divui",
                 "floordivsi", "ceildivsi", "ceildivui", "shli", "shrsi", "shrui"):  # fmt: skip
        CASES.append((f"%r = arith.{name} %a0, %a1 : T({i})", (i, i), i))
    for name in ("remsi", "remui"):
        CASES.append((f"%n = vk.broadcast %three : {i} -> T({i})\n%r = arith.{name} %a0, %n : T({i})", (i,), i))
    CASES += [(f"%r = math.{name} %a0 : T({i})", (i,), i) for name in ("absi", "ctlz", "cttz", "ctpop")]
    CASES.append((f"%r = arith.cmpi ult, %a0, %a1 : T({i})", (i, i), "i1"))
    CASES.append((f"%r = arith.select %a0, %a1, %a2 : T(i1), T({i})", ("i1", i, i), i))
CASES.append(("%r = arith.xori %a0, %a1 : T(i1)", ("i1", "i1"), "i1"))
CASES.append(("%r = arith.trunci %a0 : T(i64) to T(i8)", ("i64",), "i8"))
CASES.append(("%r = arith.extui %a0 : T(i8) to T(i32)", ("i8",), "i32"))


@pytest.mark.sample(17)
@pytest.mark.parametrize(("operation", "inputs", "output"), CASES, ids=lambda value: str(value))
def test_elementwise_operations_are_the_same_for_any_operands(
    operation: str, inputs: tuple[str, ...], output: str
) -> None:
    if "%three" in operation:
        operation = f"%three = arith.constant 3 : {output}\n{operation}"
    module = parse_module(module_of(operation, inputs, output))
    numbers = np.random.default_rng(0)
    for _ in range(4):
        arguments = {f"x{n}": hostile(element, numbers) for n, element in enumerate(inputs)}
        arguments["out"] = np.zeros(COUNT, DTYPES[output])
        assert_same(module, lower_to_ttir(mapped_in(module)), arguments, {})


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("kind", ["sum", "product", "max", "min"])
def test_reductions_and_scans(kind: str, element: str) -> None:
    reduce = f"%q = vk.{kind} %a0 along i : T({element}) -> {element}\n%s = vk.broadcast %q : {element} -> T({element})"
    scan = f"%t = vk.scan {kind} %a0 along i : T({element})"
    both = f"%r = arith.{'addf' if element in FLOATS else 'addi'} %s, %t : T({element})"
    module = parse_module(module_of("\n".join([reduce, scan, both]), (element,), element))
    numbers = np.random.default_rng(0)
    values = hostile(element, numbers) if element in INTEGERS else numbers.standard_normal(COUNT)
    arguments = {"x0": values.astype(DTYPES[element]), "out": np.zeros(COUNT, DTYPES[element])}
    tolerance = 0.0 if element in INTEGERS else 1e-4 if element == "f32" else 1e-12
    assert_same(module, lower_to_ttir(mapped_in(module)), arguments, {}, tolerance)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_a_nan_is_the_extremum(kind: str) -> None:
    reduce = f"%q = vk.{kind} %a0 along i : T(f32) -> f32\n%r = vk.broadcast %q : f32 -> T(f32)"
    module = parse_module(module_of(reduce, ("f32",), "f32"))
    values = np.arange(COUNT, dtype=np.float32)
    values[5] = np.nan
    assert_same(module, lower_to_ttir(mapped_in(module)), {"x0": values, "out": np.zeros_like(values)}, {})


ATOMICS = [(kind, element) for kind in ("add", "max", "min") for element in ("f32", "f64", "i32", "i64")]


def atomic(kind: str, element: str) -> str:
    types = f"!vk.tensor<[{COUNT}], {element}>, ({tile('i32')}) <- {tile(element)}"
    last = f"vk.scatter %a1 atomic {kind} in %sums[%a0] : {types}\n%r = arith.addi %a0, %a0 : T(i32)"
    return module_of(last, ("i32", element), "i32").replace("%out:", f"%sums: !vk.tensor<[{COUNT}], {element}>, %out:")


@pytest.mark.parametrize(("kind", "element"), ATOMICS)
def test_atomics_combine_elements_that_meet(kind: str, element: str) -> None:
    module = parse_module(atomic(kind, element))
    numbers = np.random.default_rng(0)
    dtype = DTYPES[element]
    arguments = {
        "x0": numbers.integers(0, 9, COUNT).astype(np.int32),
        "x1": numbers.integers(-99, 99, COUNT).astype(dtype),
        "sums": numbers.integers(-99, 99, COUNT).astype(dtype),
        "out": np.zeros(COUNT, np.int32),
    }
    if element in FLOATS and kind != "add":
        arguments["x1"][3] = np.nan
    assert_same(module, lower_to_ttir(mapped_in(module)), arguments, {})


@pytest.mark.parametrize(("kind", "element"), [("add", "i8"), ("max", "bf16"), ("max", "f16"), ("min", "i16")])
def test_atomics_that_gpus_lack_are_refused(kind: str, element: str) -> None:
    with pytest.raises(UnsupportedError, match=f"no atomic {kind} on {element}"):
        lower_to_ttir(mapped_in(parse_module(atomic(kind, element))))


def test_a_scalar_chooses_between_tiles() -> None:
    operation = "%c = arith.constant true\n%r = arith.select %c, %a0, %a1 : T(f32)"
    lowered = lower_to_ttir(mapped_in(parse_module(module_of(operation, ("f32", "f32"), "f32"))))
    assert '"tt.splat"' in print_ttir(lowered.launches[0].module)
