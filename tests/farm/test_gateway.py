"""Users reach the farm with a name and a token, from Python and the command line."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from base64 import b64encode
from dataclasses import replace

import pytest

from vkernels.commands import main
from vkernels.farm.client import Farm, packed
from vkernels.farm.gateway import Gateway
from vkernels.farm.head import Head
from vkernels.farm.queue import Queue
from vkernels.farm.records import MAX_FILE, Wanted
from vkernels.farm.store import Store
from vkernels.inspect.task import Task
from vkernels.ir.errors import FileError, OptionError, SetupError

from .fake_cluster import ONE, FakeCluster, good

TASK = Task("vkernels.library.rows:softmax_rows", {"M": 8, "N": 16}, {"x": "float32", "out": "float32"})


@pytest.fixture
def head(tmp_path):
    store = Store(tmp_path / "farm.sqlite")
    yield Head(store, Queue(str(tmp_path / "tuning.sqlite")), FakeCluster())
    store.close()


@pytest.fixture
def farm(head):
    with Gateway(head, "127.0.0.1", 0) as gateway:
        thread = threading.Thread(target=gateway.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Farm(gateway.address, "root", head.store.add_user("root", is_admin=True))
        gateway.shutdown()
        thread.join()


def end(head):
    """Let the farm work until all jobs have ended."""
    head.step()
    while head.queue.running:
        for turn in list(head.queue.running):
            head.cluster.ended.append((turn, good(60.0)))
        head.step()


def test_a_job_from_submission_to_result(farm, head):
    number = farm.submit([TASK], [ONE], seconds=60)
    assert farm.status()["jobs"][0]["title"] == "softmax_rows"
    end(head)
    found = farm.wait(number, 10)
    assert found["state"] == "done"
    assert found["parts"][0]["best"] == 1.0
    assert found["user"] == "root"


def test_users_have_tokens_of_their_own(farm, head):
    ann = farm.add_user("ann")
    ann.submit([TASK], [ONE], seconds=60)
    assert farm.status()["jobs"][0]["user"] == "ann"
    for wrong in (replace(ann, token=farm.token), replace(ann, user="root"), replace(ann, user="", token="")):
        with pytest.raises(SetupError, match="does not know"):
            wrong.status()
    with pytest.raises(OptionError, match="only who started"):
        ann.stop()
    with pytest.raises(OptionError, match="only who started"):
        ann.add_user("root")
    assert not head._stopped.is_set()
    farm.stop()
    assert head._stopped.is_set()


@pytest.mark.parametrize(
    "changes", [{"kernel": "os:system"}, {"shape": {"M": -1}}, {"more": 1}, {"dtypes": []}], ids=str
)
def test_what_is_no_task_is_refused(changes, farm):
    with pytest.raises(OptionError):
        farm.submit([Wanted({**TASK.to_request(), **changes})], [ONE], seconds=60)
    with pytest.raises(OptionError, match="there is no job 1"):
        farm.job(1)


def test_files_are_sent_along(tmp_path):
    mine, other = tmp_path / "mine.py", tmp_path / "other" / "mine.py"
    other.parent.mkdir()
    mine.write_text("one = 1\n")
    other.write_text("two = 2\n")
    tasks, files = packed([replace(TASK, kernel=f"{mine}:kernel")])
    assert tasks[0].task["kernel"] == "mine.py:kernel"
    assert files == {"mine.py": "one = 1\n"}
    with pytest.raises(OptionError, match="two files"):
        packed([replace(TASK, kernel=f"{mine}:kernel"), replace(TASK, kernel=f"{other}:kernel")])
    with pytest.raises(FileError, match="cannot be read"):
        packed([replace(TASK, kernel=f"{tmp_path}/none.py:kernel")])


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as left:
        main(["farm", *map(str, arguments)])
    return left.value.code or 0


def test_commands(farm, head, tmp_path, capsys):
    login, ann = tmp_path / "login.json", tmp_path / "ann.json"
    farm.to_login(login)
    assert login.stat().st_mode & 0o077 == 0
    assert run("user", "ann", "--to", ann, "--login", login) == 0
    shapes = ["--shapes", "M=8,N=16", "--shapes", "M=16,N=16"]
    assert run("submit", "softmax_rows", "--slice", "cores=1", *shapes, "--login", ann) == 0
    assert "job 1: 2 tasks" in capsys.readouterr().out
    end(head)
    assert run("status", "--login", ann, "--json", tmp_path / "status.json") == 0
    assert json.loads((tmp_path / "status.json").read_text())["jobs"][0]["state"] == "done"
    assert "2 of 2" in capsys.readouterr().out
    assert run("logs", 1, "--login", ann) == 0
    assert "2.00 times as fast as the default" in capsys.readouterr().out
    run("submit", "softmax_rows", "--login", ann)
    assert run("cancel", 2, "--login", ann) == 0
    assert farm.job(2)["state"] == "cancelled"
    assert run("cancel", 3, "--login", ann) == 2
    assert run("submit", "--login", ann) == 2
    assert run("status", "--login", tmp_path / "none.json") == 2


def posted(farm, path: str, body: bytes, **headers: str) -> int:
    """The status of a request with this user's name and token."""
    secret = b64encode(f"{farm.user}:{farm.token}".encode()).decode()
    given = {"Authorization": f"Basic {secret}", "Content-Type": "application/json"} | headers
    request = urllib.request.Request(f"http://{farm.address}{path}", body, given)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b"", b'{"number": 1e999}', b'{"number": "1"}', b"[" * 100_000],
    ids=["list", "empty object", "nothing", "infinity", "text", "deep"],
)  # fmt: skip
def test_a_body_that_is_no_request_is_refused(body, farm):
    assert posted(farm, "/v1/cancel", body) == 400


def test_forms_of_other_web_pages_are_refused(farm, head):
    number = farm.submit([TASK], [ONE], seconds=60)
    body = json.dumps({"number": number}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert posted(farm, "/v1/cancel", body, **{"Content-Type": kind}) == 415
    assert farm.job(number)["state"] == "waiting"
    assert posted(farm, "/v1/cancel", body) == 200


def test_who_sends_much_without_a_login_gets_an_answer(farm):
    assert posted(replace(farm, token="wrong"), "/v1/submit", bytes(8 << 20)) == 401


def test_huge_submissions_are_refused(farm, monkeypatch):
    with pytest.raises(OptionError, match="at most 2000 tasks"):
        farm.submit([TASK] * 1001, [ONE, "cpu"], seconds=60)
    files = {f"file{number}.py": "#" * MAX_FILE for number in range(40)}
    monkeypatch.setattr("vkernels.farm.client.packed", lambda tasks: ([Wanted(TASK.to_request())], files))
    monkeypatch.setattr("vkernels.farm.client.decoded", lambda *_: None)
    with pytest.raises(OptionError, match="at most 32 MiB, got 40"):
        farm.submit([TASK], [ONE], seconds=60)
    assert not farm.status()["jobs"]


@pytest.mark.parametrize("name", ["../a.py", "/a.py", "a/b.py", "a.py\n", ".py", "a\0.py", "a.txt"], ids=ascii)
def test_names_of_files_have_no_folders(name, farm):
    given = {"title": "a", "tasks": [{"task": TASK.to_request()}], "slices": [ONE], "seconds": 1, "files": {name: ""}}
    assert posted(farm, "/v1/submit", json.dumps(given).encode()) == 400


def test_texts_do_not_control_terminals(farm, head, tmp_path, capsys):
    with pytest.raises(OptionError, match="printable"):
        farm.submit([TASK], [ONE], seconds=60, title="\x1b]0;title\x07")
    with pytest.raises(OptionError, match="printable"):
        farm.submit([TASK], ["cpu\x1b[31m"], seconds=60)
    number = farm.submit([TASK], [ONE], seconds=60)
    head.store.say(number, "raised \x1b[31m[/red]")
    farm.to_login(tmp_path / "login.json")
    assert run("logs", number, "--login", tmp_path / "login.json") == 0
    assert r"raised \x1b[31m[/red]" in capsys.readouterr().out


def test_who_started_the_farm_stays_its_owner(farm):
    with pytest.raises(OptionError, match="started the farm"):
        farm.add_user(farm.user)
    assert farm.add_user("ann").status() == farm.status()


def test_the_page_is_for_users(farm):
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"http://{farm.address}/")
    farm.submit([TASK], [ONE], seconds=60, title="<script>")
    secret = b64encode(f"{farm.user}:{farm.token}".encode()).decode()
    request = urllib.request.Request(f"http://{farm.address}/", headers={"Authorization": f"Basic {secret}"})
    page = urllib.request.urlopen(request).read().decode()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
