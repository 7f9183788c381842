"""The challenge's text files: read back as written, and clear about what is wrong with them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sparse_network import tsv_writers
from vkernels.ir.errors import FileError, OptionError
from vkernels.sparse_network import tsv_files
from vkernels.sparse_network.generate import radix_network

from .networks import random_network


def connections(layers, index=0):
    """(input, output, weight) of all connections of a layer."""
    output, slot = np.nonzero(layers.weight[index])
    source, weight = layers.column[index, output, slot], layers.weight[index, output, slot]
    return sorted(zip(source.tolist(), output.tolist(), weight.tolist(), strict=True))


@given(neurons=st.integers(1, 20), inputs=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_a_layer_is_read_as_written(tmp_path_factory, neurons, inputs, seed):
    path = tmp_path_factory.mktemp("layer") / "layer.tsv"
    layers = random_network(neurons, 1, min(inputs, neurons), -0.3, seed).read(0, 1)
    tsv_writers.write_layer(path, layers, 0)
    read = tsv_files.read_layer(path, neurons)
    assert [c[:2] for c in connections(read)] == [c[:2] for c in connections(layers)]
    np.testing.assert_allclose([c[2] for c in connections(read)], [c[2] for c in connections(layers)], rtol=1e-6)
    assert read.nonzeros.tolist() == layers.nonzeros.tolist()


def test_a_layer_is_written_as_the_challenge_does(tmp_path):
    tsv_writers.write_layer(tmp_path / "n1024-l1.tsv", radix_network(1024, 1).read(0, 1), 0)
    lines = (tmp_path / "n1024-l1.tsv").read_text().splitlines()
    assert lines[:3] == ["1\t1\t6.250000e-02", "2\t1\t6.250000e-02", "65\t1\t6.250000e-02"]
    assert len(lines) == 32768


def test_a_network_in_a_folder_is_the_one_written_there(tmp_path):
    network = radix_network(1024, 8)
    written = network.read(0, 8)
    for layer in range(8):
        tsv_writers.write_layer(tmp_path / tsv_files.layer_file(1024, layer), written, layer)
    read = tsv_files.read_network(tmp_path, 1024, 8)
    assert (read.inputs, read.layers) == (1024, 8)
    for name in ("column", "weight", "bias", "nonzeros"):
        np.testing.assert_array_equal(getattr(read.read(2, 8), name), getattr(network.read(2, 8), name))
    assert tsv_files.read_network(tmp_path, 1024, 3).layers == 3


def test_lines_may_come_in_any_order_and_neurons_have_any_number_of_inputs(tmp_path):
    path = tmp_path / "layer.tsv"
    path.write_text("3\t1\t0.5\n1\t3\t-1\n1\t1\t.25\r\n2\t3\t2e0\n3\t3\t1")
    layer = tsv_files.read_layer(path, 3)
    assert connections(layer) == [(0, 0, 0.25), (0, 2, -1), (1, 2, 2), (2, 0, 0.5), (2, 2, 1)]
    assert layer.column.shape == (1, 3, 3)
    assert layer.nonzeros.tolist() == [5]


def test_an_empty_layer_has_no_connections(tmp_path):
    (tmp_path / "layer.tsv").write_bytes(b"")
    layer = tsv_files.read_layer(tmp_path / "layer.tsv", 4)
    assert layer.nonzeros.tolist() == [0]
    assert not layer.weight.any()


MALFORMED = {
    "two columns": (b"1\t1\t1\n1\t2\n", "layer.tsv:2: expected 3 numbers"),
    "four columns": (b"1\t1\t1\t1\n", "layer.tsv:1: expected 3 numbers"),
    "columns that change": (b"1\t1\t1\n1\t2\t1\t9\n", "layer.tsv:2: expected 3 numbers"),
    "spaces for tabs": (b"1 1 1\n", "layer.tsv:1: expected 3 numbers"),
    "words": (b"1\t1\t1\n1\t2\tmuch\n", "layer.tsv:2: expected 3 numbers.*much"),
    "an empty line": (b"1\t1\t1\n\n1\t2\t1\n", "layer.tsv:2: expected 3 numbers"),
    "a comment": (b"# layer\n1\t1\t1\n", "layer.tsv:1: expected 3 numbers"),
    "nan": (b"1\t1\tnan\n", "layer.tsv:1: expected 3 numbers.*nan"),
    "infinity": (b"1\t1\t1\n2\t1\tinf\n", "layer.tsv:2: expected 3 numbers.*inf"),
    "too large": (b"1\t1\t1\n2\t1\t1e39\n", "layer.tsv:2: weight 1e.39 is too large"),
    "larger still": (b"1\t1\t1\n2\t1\t1e999\n", "layer.tsv:2: expected 3 numbers.*1e999"),
    "input 0": (b"1\t1\t1\n0\t1\t1\n", "layer.tsv:2: input 0 is not a whole number from 1 to 4"),
    "input 5": (b"5\t1\t1\n", "layer.tsv:1: input 5 is not"),
    "output -1": (b"1\t-1\t1\n", "layer.tsv:1: output -1 is not"),
    "output 1.5": (b"1\t1.5\t1\n", "layer.tsv:1: output 1.5 is not"),
    "twice the same": (
        b"1\t1\t1\n2\t1\t1\n1\t1\t2\n",
        "layer.tsv:3: this input and output are joined on an earlier line",
    ),
    "bytes": (bytes(range(256)) * 4, "layer.tsv:1: expected 3 numbers"),
    "UTF-16": ("1\t1\t1\n".encode("utf-16"), "layer.tsv:1: expected 3 numbers"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_line_is_named(tmp_path, name):
    content, message = MALFORMED[name]
    (tmp_path / "layer.tsv").write_bytes(content)
    with pytest.raises(FileError, match=message):
        tsv_files.read_layer(tmp_path / "layer.tsv", 4)


@given(content=st.binary(max_size=60) | st.text("0123456789\t\n.-e", max_size=60).map(str.encode))
def test_any_content_is_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("layer") / "layer.tsv"
    path.write_bytes(content)
    try:
        layer = tsv_files.read_layer(path, 4)
    except FileError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert layer.nonzeros[0] == len(content.splitlines())


def test_what_is_missing_from_a_folder_is_named(tmp_path):
    with pytest.raises(FileError, match="no such folder"):
        tsv_files.read_network(tmp_path / "absent", 1024, 2)
    with pytest.raises(FileError, match=r"n1024-l1\.tsv is missing"):
        tsv_files.read_network(tmp_path, 1024, 2)
    (tmp_path / "n4096-l1.tsv").write_text("1\t1\t1\n")
    with pytest.raises(FileError, match="the folder has layers of 4096 neurons"):
        tsv_files.read_network(tmp_path, 1024, 2)
    (tmp_path / "n1024-l1.tsv").write_text("1\t1\t1\n")
    with pytest.raises(FileError, match=r"n1024-l2\.tsv is missing; a network of 2 layers"):
        tsv_files.read_network(tmp_path, 1024, 2)
    with pytest.raises(OptionError):
        tsv_files.read_network(tmp_path, 1000, 1)


@pytest.mark.parametrize("read", [tsv_files.read_layer, tsv_files.read_image_table])
def test_a_file_that_cannot_be_read_is_named(tmp_path, read):
    for path in (tmp_path / "absent.tsv", tmp_path):
        with pytest.raises(FileError, match=str(path)):
            read(path, 1024)


def test_images_are_read_as_written(tmp_path):
    random = np.random.default_rng(5)
    inputs = (random.random((1024, 30)) < 0.1).astype(np.float32)
    tsv_writers.write_image_table(tmp_path / "images.tsv", inputs)
    np.testing.assert_array_equal(tsv_files.read_image_table(tmp_path / "images.tsv", 1024), inputs)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "there is no image"),
        ("1\t1025\t1\n", ":1: pixel 1025 is not"),
        ("1\t1\t1\n0\t1\t1\n", ":2: image 0 is not"),
        ("1\t1\n", ":1: expected 3 numbers"),
        ("2000000000\t1\t1\n", "image number 2000000000 "),
    ],
)
def test_malformed_images_are_refused(tmp_path, content, message):
    (tmp_path / "images.tsv").write_text(content)
    with pytest.raises(FileError, match=message):
        tsv_files.read_image_table(tmp_path / "images.tsv", 1024)


def test_categories_are_read_as_written(tmp_path):
    path = tmp_path / "neuron1024-l120-categories.tsv"
    tsv_writers.write_categories(path, np.array([0, 4, 59999]))
    assert path.read_text() == "1\n5\n60000\n"
    assert tsv_writers.read_categories(path).tolist() == [0, 4, 59999]
    path.write_text("1\nx\n")
    with pytest.raises(FileError, match=":2: expected a number, found 'x'"):
        tsv_writers.read_categories(path)
