"""What users submit, what machines offer, and what becomes of it: records that are checked when they are read."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from vkernels.ir.errors import FileError

MAX_PARTS, MAX_FILES, MAX_FILE, MAX_BODY = 2000, 20, 1 << 20, 32 << 20
"""Parts of a job, files with it, characters of a file, and bytes of a submission."""
WAITING, RUNNING, DONE, FAILED, CANCELLED = "waiting", "running", "done", "failed", "cancelled"

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Files = Annotated[
    dict[
        Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,80}\.py\Z")], Annotated[str, Meta(max_length=MAX_FILE)]
    ],
    Meta(max_length=MAX_FILES),
]


class Wanted(Struct, forbid_unknown_fields=True):
    """A task of a submission, as `Task.to_request` has it. `calls`: in a run of the model; `seconds`: of all these
    calls, 0 if unknown."""

    task: dict[str, Any]
    calls: Count = 1
    seconds: Annotated[float, Meta(ge=0, le=1e9)] = 0.0


class Submission(Struct, forbid_unknown_fields=True):
    """Tasks to tune, each on each of the slices.

    `slices`: as `cpu:cores=1`. `device`: part of the device's name, to tune on no other kind. `seconds`, `plans`: the
    budget of each task on each slice; at least one is given. `files`: the user's own files by name, which tasks such
    as `mine.py:kernel` come from.
    """

    title: Name
    tasks: Annotated[list[Wanted], Meta(min_length=1, max_length=MAX_PARTS)]
    slices: Annotated[list[Name], Meta(min_length=1, max_length=64)]
    device: Annotated[str, Meta(max_length=200)] = ""
    seconds: Positive | None = None
    plans: Count | None = None
    search: Name = "forest"
    seed: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    caches: Name = "program"
    files: Files = {}


class Chosen(Struct, forbid_unknown_fields=True):
    """A job by its number."""

    number: int


class Named(Struct, forbid_unknown_fields=True):
    """A user to add."""

    name: str


class Offer(Struct, frozen=True, forbid_unknown_fields=True):
    """A slice of a machine, `count` times. `limits`: hash of its counted limits; `cores`: of the CPU, by number, of
    all these together; `width`: how many of them one slice has; `device`, `host`: names of the device and the machine.
    """

    slice: Name
    device: Name
    limits: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
    width: Count
    host: Annotated[str, Meta(max_length=255)]
    cores: Annotated[list[int], Meta(min_length=1, max_length=4096)]

    @property
    def count(self) -> int:
        """Slices that fit on the cores side by side."""
        return len(self.cores) // self.width

    @property
    def resource(self) -> str:
        """The name of the resource in Ray: by limits, so that equal slices of different machines have the same."""
        return f"vkernels_{self.limits[:16]}"


class TurnRequest(Struct, forbid_unknown_fields=True):
    """What a turn does. `seconds`: its length; `plans`: plans with a known outcome after which it ends. `by`: user and
    job, for the provenance."""

    turn: str
    by: str
    task: dict[str, Any]
    slice: str
    cores: list[int]
    seconds: float
    database: str
    plans: int | None = None
    search: str = "forest"
    seed: int = 0
    caches: str = "program"
    files: Files = {}


class Answer(Struct, forbid_unknown_fields=True):
    """What a turn found.

    `seconds`: how long it took; `used`: how much of that counts for the budget, which is all but starting. `tried`:
    plans with a known outcome by now; `measured`: those that this turn measured. `best`, `default`: seconds of a call.
    `stopped`: the limit that ended it. `unwritten`: entries that the database could not take, as text. `error`: why it
    failed; `kind`: `user` for a mistake in the task, `claimed` if another farm measures this task, `database` if it is
    away, `ended` if the process that measured is gone.
    """

    seconds: float = 0.0
    tried: int = 0
    measured: int = 0
    best: float | None = None
    default: float | None = None
    stopped: str = ""
    used: float = 0.0
    unwritten: list[str] = []
    error: str = ""
    kind: str = ""


class Part(Struct):
    """A task on a slice: a search that gets one turn after another.

    `weight`: its share of its job's time. `served`: seconds of its turns that count for its budget. `saved`: the
    relative gain of its last turn. `ended`: turns whose process was gone; `lost`: turns whose machine was. `device`,
    `limits`: where its turns run since the first one. `expected`: predicted seconds of all its turns.
    """

    task: dict[str, Any]
    slice: str
    weight: float
    kind: list[str]
    expected: float = 0.0
    state: str = WAITING
    served: float = 0.0
    turns: int = 0
    tried: int = 0
    saved: float = 0.0
    ended: int = 0
    lost: int = 0
    best: float | None = None
    default: float | None = None
    device: str = ""
    limits: str = ""
    reason: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it may still get turns."""
        return self.state in (WAITING, RUNNING)


class FarmJob(Struct):
    """A submission and what became of it. `number`: from 1; `when`: seconds since 1970, only to show; `waited`: seconds
    since then without those in which the farm was down."""

    number: int
    user: str
    submission: Submission
    parts: list[Part]
    when: float
    waited: float = 0.0
    is_cancelled: bool = False

    @property
    def state(self) -> str:
        """`waiting`, `running`, `done`, `failed` or `cancelled`."""
        if self.is_cancelled:
            return CANCELLED
        if any(part.is_open for part in self.parts):
            begun = any(part.turns or part.state == RUNNING for part in self.parts)
            return RUNNING if begun else WAITING
        return FAILED if any(part.state == FAILED for part in self.parts) else DONE


def decoded(data: bytes | str, kind: type[Any], what: str) -> Any:
    """Read a record from JSON. Raises `FileError` with the invalid field."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileError(f"{what}: {error}") from None


def encoded(record: Any) -> str:
    """A record as JSON."""
    return msgspec.json.encode(record).decode()
