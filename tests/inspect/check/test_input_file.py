"""Arguments in a file of arrays: read as NumPy wrote them; what is damaged or made to do harm is refused, never run."""

from __future__ import annotations

import io
import os
import pickle
import random
import zipfile

import numpy as np
import pytest

from vkernels.inspect.check import input_file
from vkernels.inspect.check.grid import grid_of
from vkernels.inspect.check.input_file import read_inputs
from vkernels.ir.errors import Error, FileError, OptionError


@pytest.fixture
def rng():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed)


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def packed(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_as_they_were_saved(tmp_path, rng, save):
    arrays = {
        "x": rng.normal(size=(3, 5)).astype(np.float32), "h": rng.normal(size=7).astype(np.float16),
        "turned": np.asfortranarray(rng.normal(size=(3, 5))), "mask": rng.random(9) < 0.5,
        "swapped": rng.normal(size=4).astype(">f8"), "index": rng.integers(0, 99, (2, 3, 4)),
        "empty": np.empty((0, 3), np.int8),
    }  # fmt: skip
    save(tmp_path / "x.npz", **arrays)
    found = read_inputs(tmp_path / "x.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=name != "swapped")
        assert found[name].flags.writeable
        assert found[name].dtype.isnative
    assert found["turned"].strides == arrays["turned"].strides


def test_numbers_and_bits_of_bfloat16(tmp_path):
    bits = np.array([0x3F80, 0xC000], np.uint16)
    np.savez(tmp_path / "x.npz", count=1000, scale=0.5, flag=True, b=bits.view("V2"))
    found = read_inputs(tmp_path / "x.npz")
    assert [(type(found[name]), found[name]) for name in ("count", "scale", "flag")] == [
        (int, 1000), (float, 0.5), (bool, True),
    ]  # fmt: skip
    np.testing.assert_array_equal(found["b"], bits, strict=True)


class Harm:
    """Runs something where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_nothing_is_unpickled(tmp_path):
    harm = Harm(tmp_path / "harm")
    objects = np.empty(1, object)
    objects[0] = harm
    np.savez(tmp_path / "x.npz", x=objects)
    with pytest.raises(FileError, match="Python objects"):
        read_inputs(tmp_path / "x.npz")
    for file in (tmp_path / "p.npz", packed(tmp_path / "member.npz", [("x.npy", pickle.dumps(harm))])):
        if not file.exists():
            file.write_bytes(pickle.dumps(harm))
        with pytest.raises(FileError, match="cannot be read"):
            read_inputs(file)
    assert not (tmp_path / "harm").exists()


def test_other_elements_and_names_are_refused(tmp_path):
    for dtype in ("c8", "U3", "S4", "M8[s]", "f4,i4", "V3", [("x", "f4", (3,))]):
        np.savez(tmp_path / "x.npz", x=np.zeros(2, dtype))
        with pytest.raises(FileError, match="numbers and booleans"):
            read_inputs(tmp_path / "x.npz")
    one = npy(np.zeros(2))
    for name in ("../x.npy", "x", "/etc/x.npy", "a b.npy", "\x1b[31m.npy", "x.npy.npy", ".npy"):
        with pytest.raises(FileError, match="is no name of an argument"):
            read_inputs(packed(tmp_path / "x.npz", [(name, one)]))
    with pytest.warns(UserWarning, match="Duplicate"), pytest.raises(FileError, match="same name"):
        read_inputs(packed(tmp_path / "x.npz", [("x.npy", one), ("x.npy", one)]))


def test_more_than_is_stated_or_allowed_is_refused(tmp_path, monkeypatch):
    """Headers may lie about sizes, and a small file may unpack to a large one."""
    for shape in ((10**12,), (3,), (-1, -8), (0, 2**70), (2**32, 2**32)):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
        data = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header.encode() + b"\n" + bytes(64)
        with pytest.raises(FileError, match=r"64 bytes, which are no|cannot be read"):
            read_inputs(packed(tmp_path / "x.npz", [("x.npy", data)]))
    bomb = packed(tmp_path / "x.npz", [("x.npy", npy(np.zeros(1 << 20)))], zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 1 << 16
    monkeypatch.setattr(input_file, "MOST_BYTES", 1 << 20)
    with pytest.raises(FileError, match="at most 1,048,576 are read"):
        read_inputs(bomb)
    monkeypatch.setattr(input_file, "MOST_ARRAYS", 2)
    with pytest.raises(FileError, match="3 arrays"):
        read_inputs(packed(tmp_path / "x.npz", [(f"x{n}.npy", npy(np.zeros(1))) for n in range(3)]))
    with pytest.raises(FileError, match="does not use"):
        read_inputs(packed(tmp_path / "x.npz", [("x.npy", npy(np.zeros(1)))], zipfile.ZIP_LZMA))


def test_long_and_nested_headers_are_refused(tmp_path):
    for text in ("(" * 9000, "{'descr': " + "[" * 5000, "x" * 70_000, "'''", "{'descr':'<f8'", "\x00", "1L", "{}"):
        data = b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text.encode()
        with pytest.raises(FileError, match="cannot be read"):
            read_inputs(packed(tmp_path / "x.npz", [("x.npy", data)]))


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "folder.npz").mkdir()
    for name in ("absent.npz", "pipe.npz", "folder.npz"):
        with pytest.raises(FileError, match="no such file"):
            read_inputs(tmp_path / name)


def test_damaged_files_raise_nothing_else(tmp_path, rng):
    np.savez_compressed(tmp_path / "x.npz", x=rng.normal(size=(8, 8)), count=3)
    np.savez(tmp_path / "plain.npz", x=rng.normal(size=(8, 8)), count=3)
    draw = random.Random(int(rng.integers(1 << 60)))
    refused = 0
    for good in (tmp_path / "x.npz", tmp_path / "plain.npz"):
        data = good.read_bytes()
        for _ in range(300):
            bad = bytearray(data)
            for _ in range(draw.randint(1, 6)):
                bad[draw.randrange(len(bad))] = draw.randrange(256)
            (tmp_path / "bad.npz").write_bytes(bad if draw.random() < 0.7 else bad[: draw.randrange(len(bad))])
            try:
                read_inputs(tmp_path / "bad.npz")
            except Error:
                refused += 1
    assert refused > 100


KNOWN = {"count": 1000, "BLOCK": 256, "heads": 4, "scale": 0.5, "flag": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", (7,)), ("cdiv(count, BLOCK)", (4,)), ("cdiv(count, BLOCK), heads", (4, 4)), (" (1, 2, 3) ", (1, 2, 3)),
        ("(count + 1) // BLOCK * heads - 1", (11,)), ("min(heads, max(2, 3))", (3,)), ("cdiv(1024, BLOCK)", (4,)),
    ],
)  # fmt: skip
def test_grids_are_computed(text, expected):
    assert grid_of(text, KNOWN) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rows", "there is no rows; there are count, BLOCK"), ("scale", "scale is no whole number"),
        ("flag", "flag is no whole number"), ("1.5", "only whole numbers"), ("True", "only whole numbers"),
        ("count ** 99", "only whole numbers"), ("__import__('os')", "only whole numbers"), ("", "not an expression"),
        ("count.real", "only whole numbers"), ("[1]", "only whole numbers"), ("cdiv(1)", "only whole numbers"),
        ("cdiv(1, b=2)", "only whole numbers"), ("cdiv(1, *count)", "only whole numbers"), ("1;2", "not an expression"),
        ("0", "one to three numbers of programs, got 0"), ("1, 1, 1, 1", "one to three"), ("-(1)", "only whole"),
        ("heads - count", "got -996"), ("count // 0", "zero"), ("(" * 150, "not an expression"),
        ("1+" * 200 + "1", "longer than"), ("99999 * 99999", "one to three"), ("()", "one to three"),
    ],
)  # fmt: skip
def test_other_grids_are_refused(text, said):
    with pytest.raises(OptionError) as refusal:
        grid_of(text, KNOWN)
    assert said in str(refusal.value)
