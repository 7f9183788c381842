"""Random kernels from seeds."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from vkernels.ir.dialect import TensorArgumentType

from .complex_numbers import complex_numbers
from .control import branch, loop, ragged_loop
from .exponentials import exponentials
from .masks import masked
from .memory import gather, load, store
from .orders import ordered
from .packed import packed
from .scratchpads import boundary, layers, read_again, scratchpad, update
from .steps import binary, conditional, dot, own_scan, pick, position, reduction, scan, unary
from .updates import contended, fetched
from .values import MOST_ELEMENTS, Kernel, Value

EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 8, 11, 13, 16, 17, 23, 31, 32, 33, 47, 64)


def generate(seed: int, numbers: int | None = None) -> Kernel:
    """The kernel of a seed, with arguments for one call; `numbers`: seeds other elements of its tensors."""
    kernel = Kernel(random.Random(seed))
    if numbers is not None:
        kernel.numbers = np.random.default_rng(numbers)
    choose = kernel.random
    kinds = [True] * choose.choice([0, 1, 1, 1, 2, 2, 2]) + [False] * choose.choice([0, 1, 1, 2])
    kinds = kinds or [False]
    for is_tile in kinds:
        room = MOST_ELEMENTS // max(1, kernel.extent(list(kernel.axes)))
        same = [name for name, size in kernel.sizes.items() if size <= room]
        size = choose.choice(same) if same and choose.random() < 0.2 else None
        extents = [extent for extent in EXTENTS if extent <= max(1, room)]
        kernel.axis(is_tile, size or kernel.size(choose.choice(extents)))
    for _ in range(choose.randint(1, 3)):
        kernel.live.append(load(kernel))
    for _ in range(choose.randint(1, 8)):
        statement(kernel, depth=0)
    for value in choose.sample(kernel.live, min(len(kernel.live), choose.randint(1, 3))):
        store(kernel, value)
    store(kernel, kernel.live[-1])
    anchor(kernel)
    return kernel


def anchor(kernel: Kernel) -> None:
    """Every size must be some tensor's; tensors that nothing reads have those that are not."""
    types = (argument.type for argument in kernel.op.body.block.args)
    found = {size for type_ in types if isinstance(type_, TensorArgumentType) for size in type_.shape}
    for name in [name for name in kernel.sizes if name not in found]:
        kernel.tensor("i8", [name], np.zeros(kernel.sizes[name], np.int8), "anchor")


def statement(kernel: Kernel, depth: int) -> None:
    """One more step of the program; what it computes is live afterwards."""
    steps: list[tuple[Callable[[Kernel, int], Value | None], int]] = [
        (lambda k, _: load(k), 3),
        (lambda k, _: gather(k), 2),
        (packed, 1),
        (complex_numbers, 1),
        (lambda k, _: unary(k, pick(k)), 3),
        (lambda k, _: binary(k, pick(k), pick(k)), 5),
        (lambda k, _: conditional(k), 2),
        (lambda k, _: reduction(k), 4),
        (lambda k, _: scan(k), 1),
        (lambda k, _: own_scan(k), 1),
        (ordered, 1 if depth < 2 else 0),
        (fetched, 1 if depth < 2 else 0),
        (contended, 1 if depth < 2 else 0),
        (lambda k, _: exponentials(k), 2 if depth == 0 else 0),
        (lambda k, _: dot(k), 2),
        (lambda k, d: masked(k), 3),
        (lambda k, _: position(k), 1),
        (scratchpad, 2 if depth == 0 else 0),
        (layers, 1 if depth == 0 else 0),
        (lambda k, _: read_again(k), 1),
        (update, 1),
        (boundary, 1),
        (lambda k, d: loop(k, d, statement), 2 if depth < 2 else 0),
        (ragged_loop, 1 if depth == 0 else 0),
        (lambda k, d: branch(k, d, statement), 1 if depth < 2 else 0),
    ]
    functions, weights = zip(*steps, strict=True)
    made = kernel.random.choices(functions, weights)[0](kernel, depth)
    if made is not None:
        kernel.live.append(made)
