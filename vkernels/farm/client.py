"""Submit to a farm and ask how far it is, from Python or the command line."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vkernels.inspect.task import Task
from vkernels.ir.errors import FileError, OptionError, SetupError
from vkernels.ir.write_file import write_file

from .records import MAX_BODY, Submission, Wanted, decoded, encoded

SECONDS = 30.0
ENDED = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Farm:
    """A farm as a user sees it. `address`: HOST:PORT of its head; `token`: the user's own.

    All methods raise `SetupError` if it cannot be reached or does not know the user, and `OptionError` for what it
    refuses.
    """

    address: str
    user: str
    token: str = field(repr=False)

    @staticmethod
    def from_login(path: Path | str | None = None) -> Farm:
        """The farm of a login file, by default that of the farm started last on this machine. Raises `FileError`."""
        path = default_folder() / LOGIN if path is None else Path(path)
        try:
            data = json.loads(path.read_text())
            return Farm(str(data["address"]), str(data["user"]), str(data["token"]))
        except OSError as error:
            raise FileError(
                f"{path}: no login of a farm can be read: {error.strerror}; `vk farm start` writes one here, and"
                " `--login FILE` takes one from whoever runs a farm"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise FileError(f"{path}: is no login of a farm") from None

    def to_login(self, path: Path) -> None:
        """Write a login file that only its owner can read."""
        path.touch(mode=0o600)
        path.chmod(0o600)
        write_file(path, json.dumps({"address": self.address, "user": self.user, "token": self.token}) + "\n")

    def submit(
        self, tasks: Sequence[Task | Wanted], slices: Sequence[str] = ("cpu",), *, seconds: float | None = None,
        plans: int | None = None, title: str = "", device: str = "", search: str = "forest", seed: int = 0,
        caches: str = "program",
    ) -> int:  # fmt: skip
        """Have tasks tuned, each on each slice; returns the job's number.

        `seconds`, `plans`: the budget of each task on each slice. `device`: part of a device's name, to tune on no
        other kind. The files of kernels are sent along; each must work by itself.
        """
        wanted, files = packed(tasks)
        title = title or _title(wanted)
        submission = Submission(title, wanted, list(slices), device, seconds, plans, search, seed, caches, files)
        text = encoded(submission)
        decoded(text, Submission, "the submission")
        return int(self._ask("/v1/submit", text.encode())["number"])

    def status(self) -> dict[str, Any]:
        """All jobs and slices."""
        return self._ask("/v1/status")

    def job(self, number: int) -> dict[str, Any]:
        """A job, its parts, and the lines of its log."""
        return self._ask(f"/v1/job?number={number}")

    def wait(self, number: int, seconds: float = float("inf"), every: float = 0.5) -> dict[str, Any]:
        """Wait until a job has ended, or for so many seconds; returns the job as it is then."""
        end = time.monotonic() + seconds
        while (job := self.job(number))["state"] not in ENDED and time.monotonic() < end:
            time.sleep(every)
        return job

    def cancel(self, number: int) -> None:
        """End a job; what it found so far stays in the database."""
        self._ask("/v1/cancel", json.dumps({"number": number}).encode())

    def add_user(self, name: str) -> Farm:
        """Add a user, or give one a new token; only who started the farm may. Returns the farm as that user sees it."""
        answer = self._ask("/v1/user", json.dumps({"name": name}).encode())
        return Farm(self.address, name, str(answer["token"]))

    def stop(self) -> None:
        """Stop the farm; only who started it may. Its jobs go on when it is started again."""
        self._ask("/v1/stop", b"{}")

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        if body is not None and len(body) > MAX_BODY:
            raise OptionError(f"a submission has at most {MAX_BODY >> 20} MiB, got {len(body) / (1 << 20):.0f}")
        secret = base64.b64encode(f"{self.user}:{self.token}".encode()).decode()
        headers = {"Authorization": f"Basic {secret}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}{path}", body, headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            text = _reason(error)
            if error.code in (401, 500):
                raise SetupError(f"{self.address}: {text}") from None
            raise OptionError(text) from None
        except (OSError, ValueError) as error:
            raise SetupError(f"{self.address}: the farm does not answer: {error}") from None


LOGIN = "login.json"


def default_folder() -> Path:
    """The folder of the farm on this machine, among the user's data. Raises `SetupError` without a home directory."""
    from vkernels.autotune.database.address import default_file

    return default_file().parent / "farm"


def packed(tasks: Sequence[Task | Wanted]) -> tuple[list[Wanted], dict[str, str]]:
    """Tasks as they are submitted, and the files that their kernels come from. Raises `FileError` and `OptionError`."""
    files: dict[str, str] = {}
    paths: dict[str, Path] = {}
    found = []
    for each in tasks:
        wanted = each if isinstance(each, Wanted) else Wanted(each.to_request())
        where, _, name = str(wanted.task["kernel"]).rpartition(":")
        if where.endswith(".py"):
            path = Path(where).resolve()
            if paths.setdefault(path.name, path) != path:
                raise OptionError(f"two files have the name {path.name}: submit their kernels one after the other")
            try:
                files[path.name] = path.read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise FileError(f"{path}: cannot be read: {error}") from None
            wanted = Wanted({**wanted.task, "kernel": f"{path.name}:{name}"}, wanted.calls, wanted.seconds)
        found.append(wanted)
    return found, files


def _title(tasks: Sequence[Wanted]) -> str:
    names = list(dict.fromkeys(str(each.task["kernel"]).rpartition(":")[2] for each in tasks))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"
