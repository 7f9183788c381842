"""Trace files: what was saved is loaded; what is broken or hostile is refused with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from msgspec import structs

from vkernels.ir.errors import FileError
from vkernels.memory import imports
from vkernels.memory.trace import Lifetime, MemoryTrace, Operation, TracedTensor
from vkernels.memory.trace_file import load, save

from .places import DATA, G10, needs_data

TRACE = MemoryTrace(
    "a step",
    (TracedTensor("w", 4, True), TracedTensor("x", 8), TracedTensor("g", 16, freed=4, made=2)),
    (
        Operation("forward", 0.25, (0,), (1,), 5),
        Operation("loss", 1e-9, (1,), ()),
        Operation("backward", 3.0, (0,), (2,)),
    ),
)  # fmt: skip
TEXT = """{"format": "vkernels trace", "schema_version": 2, "name": "a step",
"tensors": [
{"name": "w", "size": 4, "global": true},
{"name": "x", "size": 8, "global": false},
{"name": "g", "size": 16, "global": false, "freed": 4, "made": 2}
],
"operations": [
{"name": "forward", "seconds": 0.25, "reads": [0], "writes": [1], "scratch": 5},
{"name": "loss", "seconds": 1e-09, "reads": [1], "writes": [], "scratch": 0},
{"name": "backward", "seconds": 3.0, "reads": [0], "writes": [2], "scratch": 0}
]}
"""


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_saved_trace_is_loaded_as_it_was(tmp_path, name):
    save(TRACE, tmp_path / name)
    assert load(tmp_path / name) == TRACE


def test_a_saved_trace_has_a_line_for_each_tensor_and_operation(tmp_path):
    save(TRACE, tmp_path / "trace.json")
    assert (tmp_path / "trace.json").read_text() == TEXT


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('"vkernels trace"', '"other"', 1, "format: expected 'vkernels trace', got other"),
        ('"schema_version": 2', '"schema_version": 3', 1, "schema_version: expected 2, got 3"),
        ('"schema_version": 2', '"schema_version": true', 1, "schema_version: expected 2, got True"),
        ('"name": "a step"', '"name": "a\\u001b[31m"', 1, "name: expected a printable text"),
        ('"size": 8', '"size": -8', 4, "tensors[1].size: Expected `int` >= 0"),
        ('"size": 8', '"size": 8.0', 4, "tensors[1].size: Expected `int`, got `float`"),
        ('"size": 8', '"size": true', 4, "tensors[1].size: Expected `int`, got `bool`"),
        ('"size": 8', '"size": ' + "9" * 5000, 4, "tensors[1].size: Expected `int`"),
        ('"size": 8', '"size": 8, "size": 9', 4, "tensors[1]: the field 'size' stands twice"),
        ('"size": 8', '"bytes": 8', 4, "tensors[1]: Object contains unknown field `bytes`"),
        ('"size": 8, ', "", 4, "tensors[1]: Object missing required field `size`"),
        ('"size": 8', '"size": 8, "extra": 1', 4, "tensors[1]: Object contains unknown field `extra`"),
        ('"size": 8, "global": false', '"size": 8, "global": 0', 4, "tensors[1].global: Expected `bool`, got `int`"),
        ('{"name": "x", "size": 8, "global": false}', "[1]", 4, "tensors[1]: Expected `object`, got `array`"),
        ('"freed": 4', '"freed": 2', 5, "tensors[2].freed: it is freed before operation 2, and used after that"),
        ('"freed": 4', '"freed": 6', 5, "tensors[2].freed: it lives longer than a whole iteration"),
        ('"reads": [1]', '"reads": [7]', 9, "operations[1].reads: there is no tensor 7"),
        ('"reads": [1]', '"reads": [1, 1]', 9, "operations[1].reads: a tensor stands twice"),
        ('"reads": [1]', '"reads": {}', 9, "operations[1].reads: Expected `array`, got `object`"),
        ("3.0", "NaN", 10, "operations[2].seconds: Expected `float` >= 0"),
        ("3.0", "1e999", 10, "operations[2].seconds: Expected `float` <= 1e+30"),
        ("3.0", '"3"', 10, "operations[2].seconds: Expected `float`, got `str`"),
        ('"reads": [0], "writes": [2]', '"reads": [0 "writes": [2]', 10, "not JSON"),
        (TEXT, TEXT[:300], 8, "not JSON"),
        (TEXT, "[]", 1, "Expected `object`, got `array`"),
        (TEXT, "", 1, "not JSON"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_its_line(tmp_path, old, new, line, said):
    assert old in TEXT
    path = tmp_path / "trace.json"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(FileError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"\x1f\x8b broken", gzip.compress(b"{}" * 999, mtime=0)[:-9], b"\x80\x04K\x01.", b"[" * 100_000]
)
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_bytes_that_are_no_trace_are_refused(tmp_path, data, name):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FileError, match=name):
        load(tmp_path / name)


def test_files_of_the_first_version_are_read(tmp_path):
    (tmp_path / "trace.json").write_text(TEXT.replace('"schema_version": 2', '"schema_version": 1'))
    assert load(tmp_path / "trace.json") == TRACE


def test_source_lines_are_kept(tmp_path):
    first, *others = TRACE.operations
    trace = MemoryTrace(TRACE.name, TRACE.tensors, (structs.replace(first, source="model.py:3 in forward"), *others))
    save(trace, tmp_path / "trace.json")
    assert load(tmp_path / "trace.json") == trace != TRACE


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("vkernels.memory.strict_json.MAX_FILE_BYTES", 1000)
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(b" " * 100_000))
    with pytest.raises(FileError, match="more than 1000 bytes"):
        load(tmp_path / "trace.json.gz")


def test_a_file_that_is_not_there_or_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FileError, match=r"nothing\.json: No such file"):
        load(tmp_path / "nothing.json")
    with pytest.raises(FileError, match="nowhere"):
        save(TRACE, tmp_path / "nowhere" / "trace.json")


G10_TEXT = """{"model": "M", "batch": 2, "clock_hz": 1000,
"tensors": [{"id": 0, "bytes": 4, "weight": true},
{"id": 1, "bytes": 8, "weight": false}],
"kernels": [{"name": "f", "cycles": 500, "inputs": [0], "outputs": [1], "workspace": 3},
{"name": "b", "cycles": 250, "inputs": [1], "outputs": [0], "workspace": 0}]}
"""


def test_a_g10_step_is_imported(tmp_path):
    path = tmp_path / "g10.json"
    path.write_text(G10_TEXT)
    trace = imports.read_g10(path)
    assert trace.operations == (Operation("f", 0.5, (0,), (1,), 3), Operation("b", 0.25, (1,), (0,)))
    assert [(each.size, each.is_global) for each in trace.tensors] == [(4, True), (8, False)]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [('"id": 1', '"id": 5', 3), ('"inputs": [1]', '"inputs": [2]', 5), ("500", "-1", 4), ("1000", "0", 1),
     ("[0], ", "[0, 0], ", 4)],
)  # fmt: skip
def test_a_wrong_g10_step_is_refused_with_its_line(tmp_path, old, new, line):
    path = tmp_path / "g10.json"
    path.write_text(G10_TEXT.replace(old, new, 1))
    with pytest.raises(FileError, match=rf"g10\.json:{line}: "):
        imports.read_g10(path)


@needs_data
@pytest.mark.parametrize("name", G10)
def test_published_training_steps_survive_saving(tmp_path, name):
    trace = imports.read_g10(DATA / "g10" / f"{name}.json.gz")
    save(trace, tmp_path / "trace.json.gz")
    assert load(tmp_path / "trace.json.gz") == trace


def csv(tmp_path: Path, text: str, name: str = "P.64.csv") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_minimalloc_problems_are_imported_with_their_capacity(tmp_path):
    problem = imports.read_minimalloc(csv(tmp_path, "id,lower,upper,size\n0,10,30,5\n1,30,70,6\n"))
    assert problem == imports.Problem("P", (Lifetime(0, 1, 5), Lifetime(1, 2, 6)), 2, 64)
    assert imports.read_minimalloc(csv(tmp_path, "id,lower,upper,size\n0,1,2,3\n", "free.csv")).capacity is None


def test_offsets_are_added_to_a_minimalloc_problem_which_can_be_read_again(tmp_path):
    path = csv(tmp_path, "id,lower,upper,size\na,10,30,5\nb,20,70,6\n")
    imports.write_minimalloc(path, tmp_path / "Q.64.csv", [0, 5])
    assert (tmp_path / "Q.64.csv").read_text() == "id,lower,upper,size,offset\na,10,30,5,0\nb,20,70,6,5\n"
    problem = imports.read_minimalloc(tmp_path / "Q.64.csv")
    assert (problem.blocks, problem.names) == (imports.read_minimalloc(path).blocks, ("a", "b"))


@pytest.mark.parametrize(
    ("text", "line"),
    [("", 1), ("id,lower,upper\n", 1), ("id,lower,upper,size\n", 1), ("id,lower,upper,size\n0,1,2,3\n0,1,2", 3),
     ("id,lower,upper,size\n0,2,2,3\n", 2), ("id,lower,upper,size\n0,1,2,-3\n", 2),
     ("id,lower,upper,size\n0,1,x,3\n", 2), ("id,lower,upper,size\n0,1,2,\"3\n", 2),
     ("id,lower,upper,size\n0,1,2," + "9" * 5000, 2)],
)  # fmt: skip
def test_a_wrong_minimalloc_problem_is_refused_with_its_line(tmp_path, text, line):
    with pytest.raises(FileError, match=rf"P\.64\.csv:{line}: "):
        imports.read_minimalloc(csv(tmp_path, text))
