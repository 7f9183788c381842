"""`vk.load`: of a place in a kernel, a tile; of a file in a program, a bundle."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, overload

from vkernels.language.operations import load as load_tile

from .trust import Trust

if TYPE_CHECKING:
    from vkernels.language.values import Tile

    from .load import FrozenBundle


@overload
def load(
    source: str | os.PathLike[str], /, *, frozen: bool = True, trust: Trust = None, fallback: str = "error"
) -> FrozenBundle: ...
@overload
def load(source: Any, where: Any) -> Tile: ...
@functools.wraps(load_tile, assigned=())  # what makes it an operation
def load(source: Any, *args: Any, **kwargs: Any) -> Any:
    """Load a tile, in a kernel: `vk.load(x[i, j], where=mask)`; elements with a false mask are 0 and not read.

    Load a bundle, in a program: `vk.load("net.vkb", trust="key.pem")`; see `vkernels.bundles.load`.
    """
    if isinstance(source, str | os.PathLike):
        from .load import load as load_bundle

        return load_bundle(source, *args, **kwargs)
    return load_tile(source, *args, **kwargs)
