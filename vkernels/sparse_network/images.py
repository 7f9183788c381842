"""Images as the challenge's inputs: resized to a square of as many pixels as neurons, and rounded to 0 or 1."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import FileError, OptionError

from .network_layers import Floats
from .npz_files import read_arrays

LEVEL = {1024: 182, 4096: 186, 16384: 188, 65536: 175}
"""Number of neurons → the least value, of 255, that becomes a 1: the integer for which MNIST's training images have
most nearly as many 1s as the challenge's own inputs (6374505, 25019051, 98858913 and 392191985)."""

DIGITS = "digits"
BRIGHTEST = 255
BATCH = 250
"""Images that are resized at once."""


@dataclass(frozen=True)
class ImageSource:
    """Images that are converted a part at a time. `pixels`: values from 0 to 255, count × height × width."""

    pixels: NDArray[Any]
    neurons: int

    @property
    def images(self) -> int:
        return len(self.pixels)

    def part(self, first: int, last: int) -> Floats:
        """The inputs of some images: neurons × images."""
        return as_inputs(self.pixels[first:last], self.neurons)

    def spread(self, count: int) -> ImageSource:
        """`count` of the images, evenly spread; all images if there are no more."""
        if count >= self.images:
            return self
        return ImageSource(self.pixels[np.arange(count) * self.images // count], self.neurons)


def pixels_of(data: str) -> NDArray[Any]:
    """scikit-learn's `digits`, or the images of a .npz file. Raises `OptionError` for other names, and `FileError`."""
    if data == DIGITS:
        return digit_pixels()
    if Path(data).suffix == ".npz":
        return read_pixels(Path(data))
    raise OptionError(f"images: expected `{DIGITS}` or a .npz, got {data!r}")


def digits(neurons: int) -> Floats:
    """scikit-learn's 1797 handwritten digits of 8 × 8 pixels, as inputs: neurons × images."""
    return as_inputs(digit_pixels(), neurons)


def digit_pixels() -> NDArray[Any]:
    """scikit-learn's digits: images of values from 0 to 255."""
    from sklearn.datasets import load_digits

    pixels: NDArray[Any] = load_digits().images * (BRIGHTEST / 16)
    return pixels


def read_images(path: Path, neurons: int) -> Floats:
    """The images of a .npz, `images[count, height, width]` of bytes (MNIST, say), as inputs: neurons × images.

    Raises `FileError` for missing, damaged and other files.
    """
    return as_inputs(read_pixels(path), neurons)


def read_pixels(path: Path) -> NDArray[Any]:
    """The images of a .npz file, not converted. Raises `FileError`."""
    images = read_arrays(path, images=(np.uint8, 3))["images"]
    if 0 in images.shape:
        raise FileError(f"{path}: array `images` is empty: its shape is {images.shape}")
    return images


def as_inputs(images: NDArray[Any], neurons: int) -> Floats:
    """Images of values from 0 to 255, count × height × width, as inputs of 0 and 1: neurons × images.

    Each is resized to a square by half-pixel bicubic interpolation (Keys' kernel, a = -1/2); a pixel is 1
    at and above `LEVEL`. Pixels are numbered column by column.
    """
    side = round(neurons**0.5)
    inputs = np.empty((neurons, len(images)), np.float32)
    for start in range(0, len(images), BATCH):
        bright = _resized(images[start : start + BATCH], side) >= LEVEL[neurons]
        inputs[:, start : start + BATCH] = bright.transpose(2, 1, 0).reshape(neurons, -1)
    return inputs


def _resized(images: NDArray[Any], side: int) -> Floats:
    """Images as squares, rounded to f32, so that a value at `LEVEL` is there whatever the order of the sums."""
    rows, columns = (_weights(length, side) for length in images.shape[1:])
    squares: Floats = np.matmul(np.matmul(rows, images.astype(np.float64)), columns.T).astype(np.float32)
    return squares


def _weights(length: int, side: int) -> NDArray[np.float64]:
    """What each of `side` pixels takes of each of `length`. Of fewer, each takes as much as lies in its step."""
    step = length / side
    distance = np.abs(np.arange(length) + 0.5 - (np.arange(side)[:, None] + 0.5) * step) / max(step, 1.0)
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((2.5 - 0.5 * distance) * distance - 4) * distance + 2
    weights = np.where(distance < 1, near, np.where(distance < 2, far, 0.0))
    found: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return found
