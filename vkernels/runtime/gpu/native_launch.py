"""The launches of a call as one function of Python in native code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain

from ..memory_blocks import Block
from ..native_functions import NativeFunction, address_in_python, can_link, linked
from .launch_ir import IMPORTED, LAUNCH
from .packing import Packed


def native_launch(packed: Packed, driver: int) -> tuple[Callable[..., int], object]:
    """A function of the addresses of all tensors, all scalars, the address of the call's own memory if it has some,
    and the stream, that starts the launches. It returns 0, or what `split_code` reads.

    `driver`: the address of the driver's function that launches. The second result is memory that must live as long as
    the function.
    """
    tensors, scalars = packed.given
    writes = [(slot, tensor, 0, 0) for slot, tensor in packed.pointers]
    writes += [(slot, tensors + scalar, int(is_float), 0) for slot, scalar, is_float in packed.scalars]
    writes += [(slot, tensors + scalars, 0, offset) for slot, offset in packed.own]
    launches = [(each.function, each.grid, each.threads, each.shared, each.first) for each in packed.starts]
    parts = [_words(packed.template), _words([*chain(*launches)]), _words([*chain(*writes)])]
    template, starts, written = (part.address for part in parts)
    count = tensors + scalars + bool(packed.own_bytes) + 1
    words = _words([driver, count, len(packed.template), template, len(launches), starts, len(writes), written])
    return _native_code().bound(words.address), (words, parts)


def can_launch_natively() -> bool:
    """Whether `native_launch` has its code: from a bundle, or by a compiler."""
    return can_link(LAUNCH)


def split_code(result: int) -> tuple[int, int]:
    """The driver's error code, and the number of the launch that it is about."""
    return result & 0xFFFFFFFF, result >> 32


def _words(values: Sequence[int]) -> Block:
    block = Block(8 * max(1, len(values)))
    (ctypes.c_int64 * len(values)).from_address(block.address)[:] = list[ctypes.c_int64 | int](values)
    return block


@cache
def _native_code() -> NativeFunction:
    code = linked(LAUNCH, {name: address_in_python(name) for name in IMPORTED}, ["vk_launch"], "vk_gpu_launch")
    return NativeFunction(b"launch", code["vk_launch"])
