"""How many additions one after another a block has."""

from __future__ import annotations

from dataclasses import dataclass

from .paths import Path


@dataclass(frozen=True)
class Lengths:
    """`adds`, `products`: of an innermost block, of additions and of products that dots add. `blocks`: how many
    blocks are added before their sum goes into a compensated one.

    Longer blocks cost less time, shorter ones less accuracy: `docs/numerics.md` has the bounds that follow. A matrix
    product of 1024³ loses 4 % to blocks of 256 products on a Zen 4 core, and is as accurate as others' (2e-6 where all
    elements are alike).
    """

    adds: int = 64
    products: int = 256
    blocks: int = 32

    def iterations(self, path: Path) -> int:
        """Iterations of a loop that make a block."""
        adds = self.adds // max(1, path.adds)
        products = self.products // max(1, path.products)
        return max(1, min(adds if path.adds else products, products if path.products else adds))


LENGTHS = Lengths()
"""What kernels are compiled with."""
