"""An .npz is read as it is meant, or refused with its name, whatever it holds."""

import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.ir.errors import FileError
from vkernels.sparse_network.npz_files import read_arrays


def read(path):
    return read_arrays(path, images=(np.uint8, 3))["images"]


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


IMAGES = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("array", [IMAGES, np.asfortranarray(IMAGES), IMAGES[:, ::2], IMAGES[:0]])
def test_arrays_are_read(tmp_path, save, array):
    save(tmp_path / "x.npz", images=array, labels=np.arange(3))
    np.testing.assert_array_equal(read(tmp_path / "x.npz"), array)


def test_a_narrower_dtype_is_widened(tmp_path):
    np.savez(tmp_path / "x.npz", column=np.arange(6, dtype=np.uint16).reshape(1, 2, 3))
    column = read_arrays(tmp_path / "x.npz", column=(np.int32, 3))["column"]
    assert column.dtype == np.int32
    assert column.ravel().tolist() == [0, 1, 2, 3, 4, 5]


WRONG = {
    "another name": ({"pictures": npy(IMAGES)}, "no array `images`.*holds `pictures`"),
    "nothing": ({}, "no array `images`.*holds nothing"),
    "another rank": ({"images": npy(IMAGES[0])}, r"2 dimensions, not 3.*\(4, 5\)"),
    "a number": ({"images": npy(np.uint8(3))}, "0 dimensions"),
    "floats": ({"images": npy(IMAGES.astype(np.float32))}, "holds float32, not uint8"),
    "words": ({"images": npy(IMAGES.astype("U3"))}, "holds <U3"),
    "objects": ({"images": npy(IMAGES.astype(object))}, "holds object"),
    "records": ({"images": npy(IMAGES.view([("a", "u1")]))}, "holds .*'a'"),
    "a pickle": ({"images": pickle.dumps(IMAGES)}, "is damaged"),
    "no header": ({"images": b"not an array"}, "is damaged"),
    "an empty member": ({"images": b""}, "is damaged"),
    "another version": ({"images": b"\x93NUMPY\x07\x00" + bytes(64)}, "is damaged"),
    "half the data": ({"images": npy(IMAGES)[:-30]}, "which its length does not fit"),
    "too much data": ({"images": npy(IMAGES) + b"more"}, "which its length does not fit"),
    "a huge shape": (
        {"images": npy(IMAGES).replace(b"(3, 4, 5)", b"(3000000000, 4000000000, 5)".ljust(9))},
        "is damaged|does not fit",
    ),
    "a negative shape": ({"images": npy(IMAGES).replace(b"(3, 4, 5)", b"(3,-4,-5)")}, "is damaged|does not fit"),
    "code for a header": (
        {"images": npy(IMAGES).replace(b"(3, 4, 5)", b"exit(1)  ")},
        "is damaged",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arrays_are_refused(tmp_path, name):
    members, message = WRONG[name]
    path = archive(tmp_path / "x.npz", **members)
    with pytest.raises(FileError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_files_that_are_no_archive_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", IMAGES)
    (tmp_path / "text").write_text("images")
    (tmp_path / "empty").write_bytes(b"")
    for path in (tmp_path / "x.npy", tmp_path / "text", tmp_path / "empty"):
        with pytest.raises(FileError, match=r"not a whole \.npz file"):
            read(path)
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(FileError, match=str(path)):
            read(path)


def test_an_encrypted_member_is_refused(tmp_path):
    path = archive(tmp_path / "x.npz", images=npy(IMAGES))
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"not a whole \.npz file"):
        read(path)


@given(data=st.data())
def test_damage_anywhere_is_refused_or_harmless(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    np.savez_compressed(path, images=IMAGES)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans(), label="cut"):
        content = content[: data.draw(st.integers(0, len(content) - 1), label="bytes left")]
    else:
        for _ in range(data.draw(st.integers(1, 3), label="changes")):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        images = read(path)
    except FileError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        np.testing.assert_array_equal(images, IMAGES)


def test_a_name_that_is_no_text_is_damage(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, images=IMAGES)
    content = bytearray(path.read_bytes())
    content[7], content[30] = 128 >> 4, 128  # the entry's own header says that its name is UTF-8
    path.write_bytes(content)
    with pytest.raises(FileError, match="not a whole"):
        read(path)
