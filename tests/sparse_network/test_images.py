"""Images become the challenge's inputs."""

import numpy as np
import pytest

from vkernels.ir.errors import FileError
from vkernels.sparse_network.images import LEVEL, as_inputs, digits, read_images

from .networks import shared_file


def test_mnist_has_as_many_ones_as_the_challenges_inputs():
    images = np.load(shared_file("mnist-train-images.npz"))["images"]
    ones = sum(np.count_nonzero(as_inputs(images[start : start + 5000], 1024)) for start in range(0, 60000, 5000))
    assert ones == pytest.approx(6374505, rel=0.001)


@pytest.mark.parametrize("neurons", [1024, 4096, 16384])
def test_digits_are_inputs_of_0_and_1(neurons):
    inputs = digits(neurons)
    assert inputs.shape == (neurons, 1797)
    assert inputs.dtype == np.float32
    assert np.unique(inputs).tolist() == [0, 1]
    assert inputs.any(axis=0).all()


def test_pixels_are_numbered_column_by_column():
    image = np.zeros((1, 32, 32), np.uint8)
    image[0, 3, 7] = 255  # row 3, column 7
    assert np.flatnonzero(as_inputs(image, 1024)).tolist() == [7 * 32 + 3]


@pytest.mark.parametrize(("value", "expected"), [(181, 0), (182, 1), (255, 1), (0, 0)])
def test_a_pixel_is_1_from_the_level_on(value, expected):
    assert (as_inputs(np.full((2, 28, 28), value, np.uint8), 1024) == expected).all()


def test_the_resize_is_half_pixel_bicubic():
    image = np.random.default_rng(3).integers(0, 256, (1, 16, 16)).astype(np.uint8)
    inputs = as_inputs(image, 1024).reshape(32, 32).T
    resized = plain_bicubic(plain_bicubic(image[0].astype(np.float64)).T).T
    clear = np.abs(resized - LEVEL[1024]) > 1e-3
    np.testing.assert_array_equal(inputs[clear], (resized >= LEVEL[1024])[clear])


def plain_bicubic(rows):
    """Rows doubled by Keys' kernel with a = -1/2; beyond the edge, what is there weighs nothing."""
    size = len(rows)
    result = []
    for output in range(2 * size):
        centre = (output + 0.5) / 2 - 0.5
        weights = np.array([keys(abs(centre - position)) for position in range(size)])
        result.append(weights @ rows / weights.sum())
    return np.array(result)


def keys(distance, a=-0.5):
    if distance <= 1:
        return ((a + 2) * distance - (a + 3)) * distance**2 + 1
    if distance < 2:
        return a * (((distance - 5) * distance + 8) * distance - 4)
    return 0.0


def test_an_npz_of_images_is_read(tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (5, 20, 31)).astype(np.uint8)
    np.savez_compressed(tmp_path / "x.npz", images=images)
    np.testing.assert_array_equal(read_images(tmp_path / "x.npz", 4096), as_inputs(images, 4096))


@pytest.mark.parametrize("shape", [(0, 28, 28), (3, 0, 28)])
def test_no_images_are_refused(tmp_path, shape):
    np.savez(tmp_path / "x.npz", images=np.zeros(shape, np.uint8))
    with pytest.raises(FileError, match="`images` is empty"):
        read_images(tmp_path / "x.npz", 1024)
