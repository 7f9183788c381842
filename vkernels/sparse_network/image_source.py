"""Images, converted to a network's inputs a part at a time: all of them may not fit in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError

from .images import as_inputs, digit_pixels, read_pixels
from .network import Floats

DIGITS = "digits"


@dataclass(frozen=True)
class ImageSource:
    """`pixels`: images of values from 0 to 255, count × height × width; `neurons`: inputs that each becomes."""

    pixels: NDArray[Any]
    neurons: int

    @property
    def images(self) -> int:
        return len(self.pixels)

    def part(self, first: int, last: int) -> Floats:
        """Inputs × images of some of them."""
        return as_inputs(self.pixels[first:last], self.neurons)

    def spread(self, count: int) -> ImageSource:
        """So many of the images, evenly spread; all, if there are no more."""
        if count >= self.images:
            return self
        return ImageSource(self.pixels[np.arange(count) * self.images // count], self.neurons)


def pixels_of(data: str) -> NDArray[Any]:
    """scikit-learn's `digits`, or the images of a .npz. Raises `OptionError` for what is neither, `FileError`."""
    if data == DIGITS:
        return digit_pixels()
    if Path(data).suffix == ".npz":
        return read_pixels(Path(data))
    raise OptionError(f"images: expected `{DIGITS}` or a .npz, got {data!r}")
