"""Random blocks, and what must hold of their offsets."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from vkernels.memory.trace import Lifetime


@st.composite
def problems(draw: st.DrawFn, most: int = 12, moments: int = 8, size: int = 9) -> tuple[list[Lifetime], int]:
    """Blocks and the number of moments; some wrap."""
    count = draw(st.integers(1, moments))
    blocks = []
    for _ in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, count - 1))
        blocks.append(Lifetime(start, start + draw(st.integers(1, count)), draw(st.integers(0, size))))
    return blocks, count


def together(one: Lifetime, other: Lifetime, count: int) -> bool:
    """Whether two are live at a same moment, moment by moment."""
    moments = [{at % count for at in range(each.start, each.end)} for each in (one, other)]
    return bool(moments[0] & moments[1])


def assert_apart(blocks: list[Lifetime], count: int, offsets: tuple[int, ...]) -> None:
    """No two blocks that live together share a byte."""
    assert len(offsets) == len(blocks)
    assert all(offset >= 0 for offset in offsets)
    for (one, a), (other, b) in itertools.combinations(zip(blocks, offsets, strict=True), 2):
        if together(one, other, count):
            assert a + one.size <= b or b + other.size <= a or not (one.size and other.size), (one, a, other, b)


def smallest(blocks: list[Lifetime], count: int) -> int:
    """The smallest footprint, by trying each block on top of each sum of the others."""
    best = sum(block.size for block in blocks)

    def put(left: tuple[int, ...], tops: list[tuple[int, int]], height: int) -> None:
        nonlocal best
        if height >= best:
            return
        if not left:
            best = height
            return
        for index in left:  # in some order, each at the lowest place above what lives with it reaches every packing
            block = blocks[index]
            under = max((top for other, top in tops if together(block, blocks[other], count)), default=0)
            top = under + block.size
            put(tuple(each for each in left if each != index), [*tops, (index, top)], max(height, top))

    put(tuple(range(len(blocks))), [], 0)
    return best
