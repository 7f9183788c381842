"""Random tensors, and accesses to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from vkernels.ir.dialect import FetchOp, GatherOp, LoadOp, ScatterOp, StoreOp, arith, tile_type

from .values import DTYPES, ELEMENTS, EPSILON, MOST_ELEMENTS, Kernel, Loaded, Value

_STORED = {"f32": ("f32", "f32", "f16", "bf16"), "f64": ("f64",)}
SMALL = 4


def constant_index(kernel: Kernel, value: int) -> SSAValue:
    return kernel.number(value, "i64").ssa


def random_axes(kernel: Kernel, axis: str = "") -> tuple[str, ...]:
    """Some of the axes in any order, the given one among them, of not too many elements."""
    axes = [a for a in kernel.axes if a != axis and kernel.random.random() < 0.6]
    axes += [axis] if axis else []
    kernel.random.shuffle(axes)
    return tuple(axes) or (kernel.random.choice(list(kernel.axes)),)


def random_array(kernel: Kernel, element: str, shape: Sequence[int]) -> tuple[np.ndarray[Any, Any], bool]:
    """Random elements in random strides, and whether NaN and inf are among them."""
    array, special = _numbers(kernel, element, shape)
    return laid_out(kernel, array), special


def _numbers(kernel: Kernel, element: str, shape: Sequence[int]) -> tuple[np.ndarray[Any, Any], bool]:
    """Integers in their whole range, floats small integers: exact in every dtype."""
    numbers = kernel.numbers
    if element == "i1":
        return numbers.integers(0, 2, shape).astype(bool), False
    if element[0] == "i":
        info = np.iinfo(DTYPES[element])
        return numbers.integers(info.min, info.max, shape, DTYPES[element], endpoint=True), False
    values = numbers.integers(-SMALL, SMALL, shape, endpoint=True).astype(np.float64)
    special = kernel.random.random() < 0.15 and values.size > 0
    if special:
        flat = values.reshape(-1)
        flat[numbers.integers(0, flat.size, 2)] = numbers.choice([np.nan, np.inf, -np.inf], 2)
    return stored(values, element), special


def stored(values: np.ndarray[Any, Any], element: str) -> np.ndarray[Any, Any]:
    """Floats that are exact in an element type, as memory holds them."""
    if element == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(DTYPES[element])


def laid_out(kernel: Kernel, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same elements in other strides."""
    match kernel.random.choice(["contiguous"] * 4 + ["transposed", "padded", "stepped"]):
        case "transposed" if array.ndim:
            return np.asfortranarray(array)
        case "padded" if array.ndim:
            wide = np.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
            wide[..., 1:-2] = array
            return wide[..., 1:-2]
        case "stepped" if array.ndim:
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        case _:
            return np.ascontiguousarray(array).reshape(array.shape)


def load(kernel: Kernel, *, element: str = "", axis: str = "", position: tuple[SSAValue, int] | None = None) -> Value:
    """A load from a new tensor; `position`: a scalar below a number, which indexes a dimension of its own."""
    choose = kernel.random
    element = element or choose.choice(["f32", "f32", "f64", "i1", "i8", "i16", "i32", "i64"])
    held = choose.choice(_STORED.get(element, (element,)))
    axes = random_axes(kernel, axis)
    indices, dimensions, guarded = [], [], []
    for number, a in enumerate(axes):
        index, dimension, guard = _affine(kernel, a)
        indices.append(index)
        dimensions.append(dimension)
        guarded += [number] if guard else []
    if position is not None:
        place = choose.randint(0, len(indices))
        indices.insert(place, ([], position[0]))
        dimensions.insert(place, position[1] + 1)
        guarded = [d + (d >= place) for d in guarded]
    array, special = random_array(kernel, held, [_extent(kernel, d) for d in dimensions])
    number = len(kernel.arguments)
    tensor = kernel.tensor(held, dimensions, array, "x")
    mask = _mask(kernel, axes)
    made = kernel.add(LoadOp(tensor, indices, tile_type(ELEMENTS[held], axes), mask=mask, guarded=guarded))
    if all(index == ([(a, 1)], None) for index, a in zip(indices, axes, strict=False)) and position is None:
        kernel.loaded.append(Loaded(list(kernel.arguments)[number], tensor, indices, axes, held))
    return _computed(kernel, made, axes, element, held, special)


def _computed(kernel: Kernel, made: SSAValue, axes: tuple[str, ...], element: str, held: str, special: bool) -> Value:
    if held != element:
        made = kernel.add(arith.ExtFOp(made, tile_type(ELEMENTS[element], axes)))
    return Value(made, axes, element, SMALL if element[0] == "f" else 0, 0, special)


def _extent(kernel: Kernel, dimension: str | int) -> int:
    return kernel.sizes[dimension] if isinstance(dimension, str) else dimension


def _affine(kernel: Kernel, axis: str) -> tuple[Any, str | int, bool]:
    """An index along an axis, the dimension that it indexes, and whether that is guarded."""
    choose, known = kernel.random, kernel.axes[axis]
    if choose.random() < 0.65:
        return ([(axis, 1)], None), known.size, False
    coefficient, offset = choose.choice([1, 1, 2, 3, -1]), choose.randint(0, 3)
    last = max(0, known.extent - 1)
    if choose.random() < 0.3:
        shift = choose.randint(-3, 3) + (last if coefficient < 0 else 0)
        dimension = choose.choice([known.size, known.extent + 1])
        return ([(axis, coefficient)], constant_index(kernel, shift)), dimension, True
    offset += last if coefficient < 0 else 0
    size = kernel.size(offset + 1 if coefficient < 0 else coefficient * last + offset + 1)
    return ([(axis, coefficient)], constant_index(kernel, offset) if offset or coefficient < 0 else None), size, False


def _mask(kernel: Kernel, axes: tuple[str, ...]) -> SSAValue | None:
    masks = [v for v in kernel.live if v.element == "i1" and set(v.axes) <= set(axes)]
    if not masks or kernel.random.random() < 0.6:
        return None
    return kernel.broadcast(kernel.random.choice(masks), axes).ssa


def index_values(kernel: Kernel, axes: tuple[str, ...], below: int, unique: bool = False) -> Value:
    """Loaded indices from 0 up to a number; unique ones: a different one for every position."""
    element = kernel.random.choice(["i32", "i64", "i16"] if below < 2**15 else ["i32", "i64"])
    shape = [kernel.axes[a].extent for a in axes]
    count = int(np.prod(shape, dtype=np.int64))
    numbers = kernel.numbers.permutation(below)[:count] if unique else kernel.numbers.integers(0, max(1, below), count)
    array = laid_out(kernel, numbers.reshape(shape).astype(DTYPES[element]))
    tensor = kernel.tensor(element, [kernel.axes[a].size for a in axes], array, "index")
    made = kernel.add(LoadOp(tensor, [([(a, 1)], None) for a in axes], tile_type(ELEMENTS[element], axes)))
    return Value(made, axes, element)


def gather(kernel: Kernel, *, index: Value | None = None, dimension: int = 0, element: str = "") -> Value:
    """Rows of a new tensor by index."""
    choose = kernel.random
    element = element or choose.choice(["f32", "f64", "i32", "i8"])
    held = choose.choice(_STORED.get(element, (element,)))
    dimension = dimension or choose.choice([1, 3, 9, 20])
    if index is None:
        axes = random_axes(kernel)
        index = index_values(kernel, axes[:2], dimension)
    rest = [a for a in kernel.axes if a not in index.axes and choose.random() < 0.5]
    if kernel.extent([*index.axes, *rest]) > MOST_ELEMENTS:
        rest = []
    indices: list[Any] = [([], index.ssa), *(([(a, 1)], None) for a in rest)]
    dimensions: list[str | int] = [dimension, *(kernel.axes[a].size for a in rest)]
    axes = (*index.axes, *rest)
    array, special = random_array(kernel, held, [_extent(kernel, d) for d in dimensions])
    tensor = kernel.tensor(held, dimensions, array, "table")
    made = kernel.add(GatherOp(tensor, indices, tile_type(ELEMENTS[held], axes), mask=_mask(kernel, axes)))
    return _computed(kernel, made, axes, element, held, special)


def store(kernel: Kernel, value: Value) -> None:
    """Write a value to a new, poisoned tensor: plainly, at affine or unique indices, or atomically."""
    choose = kernel.random
    held = choose.choice(_STORED.get(value.element, (value.element,)))
    held = "f32" if held == "f16" and value.bound > 6e4 else held
    tile = value.ssa
    if held != value.element:
        tile = kernel.add(arith.TruncFOp(tile, tile_type(ELEMENTS[held], value.axes)))
    kind = choose.choice(["plain", "plain", "affine", "scatter", "atomic", "over"])
    if kind == "atomic" and value.element in ("i32", "i64") and value.axes:
        tiles = {a for a in kernel.axes if kernel.axes[a].is_tile}
        if tiles <= set(value.axes) and kernel.extent(value.axes) > 0 and choose.random() < 0.5:
            _fetch(kernel, value)
        else:
            _store_atomic(kernel, value)
        return
    if kind == "over" and _store_over(kernel, tile, value, held):
        return
    if kind == "scatter" and value.axes and kernel.extent(value.axes) > 0:
        _scatter(kernel, tile, value, held)
        return
    axes = list(value.axes)
    choose.shuffle(axes)
    indices, dimensions = [], []
    for a in axes:
        coefficient = choose.choice([1, 2, -1]) if kind == "affine" else 1
        extent, offset = kernel.axes[a].extent, choose.randint(0, 2) if kind == "affine" else 0
        last = max(0, extent - 1)
        offset += last if coefficient < 0 else 0
        indices.append(([(a, coefficient)], constant_index(kernel, offset) if kind == "affine" else None))
        plain = kernel.axes[a].size
        dimensions.append(kernel.size(2 * last + offset + 1) if kind == "affine" else plain)
    out = poisoned(kernel, held, [_extent(kernel, d) for d in dimensions])
    tensor = kernel.tensor(held, dimensions, out, "out")
    _tolerate(kernel, value, held)
    kernel.add(StoreOp(tile, tensor, indices, mask=_mask(kernel, value.axes) if value.axes else None))


def _store_over(kernel: Kernel, tile: SSAValue, value: Value, held: str) -> bool:
    """Store a value where another was loaded, if any has been that is like it; says whether it did."""
    alike = [x for x in kernel.loaded if (set(x.axes), x.held) == (set(value.axes), held)]
    alike = [x for x in alike if x.name not in kernel.tolerances]
    if not alike:
        return False
    place = kernel.random.choice(alike)
    kernel.tolerances[place.name] = tolerance_of(value, held)
    kernel.add(StoreOp(tile, place.tensor, place.indices))
    return True


def _store_atomic(kernel: Kernel, value: Value) -> None:
    """Integers added up, or their extremes, in an array of fewer elements."""
    choose = kernel.random
    below = choose.choice([1, 3, 10])
    index = index_values(kernel, value.axes, below)
    out = laid_out(kernel, kernel.numbers.integers(-9, 9, below).astype(DTYPES[value.element]))
    tensor = kernel.tensor(value.element, [below], out, "out")
    kernel.tolerances[list(kernel.arguments)[-1]] = 0
    kind = choose.choice(["add", "max", "min", "maxui", "minui"])
    repeated = {a for a in kernel.axes if kernel.axes[a].is_tile} - set(value.axes)
    if repeated and kind == "add":
        kind = "max"
    kernel.add(ScatterOp(value.ssa, tensor, [([], index.ssa)], atomic=kind, mask=_mask(kernel, value.axes)))


def _fetch(kernel: Kernel, value: Value) -> None:
    """Integers updated, each in a place of its own, and what was there before stored."""
    choose, element = kernel.random, DTYPES[value.element]
    below = kernel.extent(value.axes) + choose.randint(0, 3)
    index = index_values(kernel, value.axes, below, unique=True)
    held = kernel.tensor(value.element, [below], kernel.numbers.integers(-2, 3, below).astype(element), "out")
    kernel.tolerances[list(kernel.arguments)[-1]] = 0
    kind = choose.choice(["add", "max", "min", "maxui", "minui", "exchange", "compare"])
    expected = kernel.broadcast(kernel.number(0, value.element), value.axes).ssa if kind == "compare" else None
    found = kernel.add(FetchOp(value.ssa, held, [([], index.ssa)], kind, expected=expected))
    dimensions = [kernel.axes[axis].size for axis in value.axes]
    out = poisoned(kernel, value.element, [_extent(kernel, d) for d in dimensions])
    tensor = kernel.tensor(value.element, dimensions, out, "out")
    kernel.tolerances[list(kernel.arguments)[-1]] = 0
    kernel.add(StoreOp(found, tensor, [([(axis, 1)], None) for axis in value.axes]))


def _scatter(kernel: Kernel, tile: SSAValue, value: Value, held: str) -> None:
    below = kernel.extent(value.axes) + kernel.random.randint(0, 3)
    index = index_values(kernel, value.axes, below, unique=True)
    tensor = kernel.tensor(held, [below], poisoned(kernel, held, [below]), "out")
    _tolerate(kernel, value, held)
    kernel.add(ScatterOp(tile, tensor, [([], index.ssa)], mask=_mask(kernel, value.axes)))


def _tolerate(kernel: Kernel, value: Value, held: str) -> None:
    kernel.tolerances[list(kernel.arguments)[-1]] = tolerance_of(value, held)


def tolerance_of(value: Value, held: str) -> float:
    """By how much two runs may differ in a value that is stored."""
    rounding = 2 * EPSILON[held] * value.bound if value.is_float and value.error > 0 else 0.0
    return 2 * value.error + rounding


def poisoned(kernel: Kernel, element: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """An output in which nothing has been written: NaN, or a number that is easily seen."""
    if element == "bf16":
        array = np.full(shape, 0x7FC1, np.uint16)
    elif element[0] == "f":
        array = np.full(shape, np.nan, DTYPES[element])
    else:
        array = np.full(shape, 1 if element == "i1" else 113, DTYPES[element])
    return laid_out(kernel, array)


__all__ = ["constant_index", "gather", "index_values", "load", "random_axes", "store"]
