"""How many additions a block of a long sum has, and how many sums of blocks there are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockLengths:
    """The lengths of blocks. `adds`, `products`: additions of an innermost block, and products that dots add. `blocks`:
    how many blocks are added before their sum is added to a compensated one.

    Adding n equal numbers one after another has an error of up to n / 4 units (in a trial of 200000 numbers), in the
    worst case of n. With these lengths it is less than 16 + 4 log2(n) for any n, like pairwise summation with 16
    numbers at its leaves. `docs/numerics.md` states the bounds.
    """

    adds: int = 64
    products: int = 128
    blocks: int = 64

    @staticmethod
    def on(gpu: bool) -> BlockLengths:
        """The lengths for a device. A GPU's dots add a chunk of products at once, and short loops are not pipelined."""
        return BlockLengths(products=256) if gpu else BlockLengths()

    def iterations(self, adds: int, products: int) -> int:
        """The iterations of a loop in one block, each of which makes so many additions and adds so many products."""
        by_adds = self.adds // max(1, adds)
        by_products = self.products // max(1, products)
        return max(1, min(by_adds if adds else by_products, by_products if products else by_adds))


def chunks_a_block(chunk: int) -> int:
    """The chunks of products that a dot accumulates in its home before another block begins."""
    return BlockLengths().iterations(adds=0, products=chunk)


def sums_of_blocks(chunk: int, most: int | None) -> int:
    """The sums beside that of a block, for a dot that is accumulated in its home.

    None for a single block, one for a few blocks, else one with its rounding error. `chunk`: products that are added at
    once. `most`: a bound of all products, None where there is none.
    """
    block = chunks_a_block(chunk) * chunk
    if most is not None and most <= block * BlockLengths().blocks:
        return int(most > block)
    return 2
