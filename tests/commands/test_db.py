"""`vk db`: what is in the tuning database, and exchange; what is hostile changes nothing."""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.autotune.database.making import entry
from vkernels.autotune.database import Database
from vkernels.autotune.database.entry_json import document_of, entry_to_json


@pytest.fixture
def vk(run_vk, tmp_path, monkeypatch):
    """Runs `vk db` in an empty folder; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return partial(run_vk, "db")


@pytest.fixture
def filled(tmp_path):
    given = (
        entry(1, 2e-6), entry(2, 1e-6, final=True), entry(3, failure="crash", text="signal 11"), entry(4, kernel="b"),
    )  # fmt: skip
    with Database.open(str(tmp_path / "a.sqlite")) as database:
        database.add(*given)
    return given


def contents(path):
    with Database.open(str(path), read_only=True) as database:
        return {each.identity for each in database.entries()}


@pytest.mark.usefixtures("filled")
def test_list_has_a_line_for_each_kernel_shape_and_limits(vk):
    code, output, _ = vk("list", "--db", "a.sqlite")
    assert code == 0
    assert [line.split()[0] for line in output.splitlines() if line.startswith("kernel_")] == ["kernel_a", "kernel_b"]
    assert "1 µs" in output
    assert "2 groups, 4 measurements" in output


@pytest.mark.usefixtures("filled")
def test_list_fits_eighty_columns(vk):
    _, output, _ = vk("list", "--db", "a.sqlite")
    lines = output.splitlines()[1:]
    assert max(map(len, lines)) <= 80
    assert len(lines) == 1 + 2 * 2 + sum(line.startswith("    ") for line in lines) + 1


@pytest.mark.usefixtures("filled")
def test_list_tells_programs_the_same(vk):
    code, output, _ = vk("list", "--db", "a.sqlite", "--json", "-")
    found = json.loads(output)
    assert (code, found["schema_version"], found["command"], found["damaged"]) == (0, 1, "db list", [])
    first = found["groups"][0]
    assert (first["kernel"], first["seconds"], first["tried"], first["final"]) == ("kernel_a", 1e-6, 3, True)
    assert first["failures"] == {"crash": 1}
    assert first["plan"]["tiles"] == {"i": 2}


@pytest.mark.usefixtures("filled")
def test_show_tells_plans_best_first_and_failures(vk):
    code, output, _ = vk("show", "kernel_a", "--db", "a.sqlite")
    assert code == 0
    assert output.index("tiles i=2") < output.index("tiles i=1")
    assert "final comparison" in output
    assert "crash: 1 plan, for example: signal 11" in output


def test_show_gives_programs_the_entries(vk, filled):
    _, output, _ = vk("show", "kernel_a", "--db", "a.sqlite", "--json", "-")
    expected = [json.loads(json.dumps(entry_to_json(each))) for each in filled[:3]]
    assert sorted(json.loads(output)["entries"], key=json.dumps) == sorted(expected, key=json.dumps)


def test_export_then_import_elsewhere_gives_the_same(vk, filled, tmp_path):
    assert vk("export", "all.json", "--db", "a.sqlite")[0] == 0
    code, _, _ = vk("import", "all.json", "--db", "b.sqlite")
    assert (code, contents("b.sqlite")) == (0, {each.identity for each in filled})
    _, output, _ = vk("import", "all.json", "--db", "b.sqlite", "--json", "-")
    assert (json.loads(output)["added"], json.loads(output)["there"]) == (0, 4)


@pytest.mark.usefixtures("filled")
def test_merge_takes_what_is_new(vk):
    with Database.open("b.sqlite") as other:
        other.add(entry(1, 9.0), entry(9))
    code, output, _ = vk("merge", "b.sqlite", "--db", "a.sqlite")
    assert code == 0
    assert "1 entries added, 1 already existed" in output
    with Database.open("a.sqlite", read_only=True) as database:
        assert [each.seconds for each in database.entries() if each.plan.tiles["i"] == 1] == [2e-6]


@pytest.mark.usefixtures("filled")
def test_prune_removes_what_it_names(vk):
    assert vk("prune", "--failures", "--dry-run", "--db", "a.sqlite")[1] == "1 entries would be deleted\n"
    assert len(contents("a.sqlite")) == 4
    assert vk("prune", "--failures", "--db", "a.sqlite")[1] == "1 entries deleted\n"
    assert vk("prune", "--kernel", "kernel_b", "--db", "a.sqlite")[1] == "1 entries deleted\n"
    assert len(contents("a.sqlite")) == 2


def written(text):
    return lambda path: path.write_text(text)


GOOD = json.dumps(document_of([entry(20), entry(21)]))
BAD = document_of([entry(20), entry(21)])
BAD["entries"][1]["plan"]["tiles"] = {"i": -1}
HOSTILE = {
    "nothing": written(""),
    "half": written(GOOD[: len(GOOD) // 2]),
    "all but the last letter": written(GOOD[:-1]),
    "one entry that is wrong": written(json.dumps(BAD)),
    "another's JSON": written('{"cats": 3}'),
    "a newer schema": written(GOOD.replace('"schema_version": 1', '"schema_version": 2')),
    "a pickle": lambda path: path.write_bytes(b"\x80\x04\x95\x0e\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94."),
    "nested without end": written("[" * 200_000),
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", HOSTILE)
def test_an_import_that_is_wrong_is_refused_and_changes_nothing(vk, name, tmp_path):
    HOSTILE[name](tmp_path / "in.json")
    before = (tmp_path / "a.sqlite").read_bytes()
    code, output, said = vk("import", "in.json", "--db", "a.sqlite")
    assert (code, output) == (2, "")
    assert said.startswith("error: in.json")
    assert len(said) < 600
    assert (tmp_path / "a.sqlite").read_bytes() == before
    assert vk("import", "in.json", "--db", "new.sqlite")[0] == 2
    assert not (tmp_path / "new.sqlite").exists()


@pytest.mark.usefixtures("filled")
def test_a_merge_of_another_programs_file_changes_nothing(vk, tmp_path):
    (tmp_path / "b.sqlite").write_text("cats")
    before = contents("a.sqlite")
    code, _, said = vk("merge", "b.sqlite", "--db", "a.sqlite")
    assert code == 2
    assert "b.sqlite" in said
    assert contents("a.sqlite") == before


MISTAKES = {
    "no database": ["list", "--db", "none.sqlite"],
    "no such kernel": ["show", "kernel_c", "--db", "a.sqlite"],
    "nothing to prune": ["prune", "--db", "a.sqlite"],
    "no folder": ["import", "in.json", "--db", "none/a.sqlite"],
    "no file": ["import", "none.json", "--db", "a.sqlite"],
    "another kind of database": ["list", "--db", "mysql://u:hunter2@h/d"],
    "a URL that is none": ["list", "--db", "postgresql://u:hunter2@[::1"],
}


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message_without_a_password(vk, name, tmp_path):
    (tmp_path / "in.json").write_text(GOOD)
    code, output, said = vk(*MISTAKES[name])
    assert (code, output) == (2, "")
    assert said.count("error: ") == 1
    assert "hunter2" not in said


def test_a_server_that_is_not_there_is_the_environments_fault_and_tells_no_password(vk):
    pytest.importorskip("psycopg")
    code, output, said = vk("list", "--db", "postgresql://u:hunter2@127.0.0.1:1/d")
    assert (code, output) == (3, "")
    assert "postgresql://u:***@127.0.0.1:1/d" in said
    assert "hunter2" not in said
