"""Plans that were only modelled so far, because nobody had the device: jobs for whoever joins with one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from vkernels.autotune.database.entry import Entry

from .queue import Slot
from .records import Submission, Wanted

BROKER = "broker"
"""The user whose jobs these are."""
WEIGHT = 0.01
"""How much a job of the broker's counts beside one that somebody waits for."""
SECONDS = 60.0
"""The budget of a task."""


def asked_for(modelled: Iterable[Entry], slots: Sequence[Slot], known: Iterable[Submission]) -> list[Submission]:
    """Submissions of what was modelled for devices that are there now, but for those that are `known` already.

    Only kernels of the library: the files of others are not in the database.
    """
    slices = {slot.offer.limits: slot.offer.slice for slot in slots}
    before = {_key(submission) for submission in known}
    found = []
    for entry in modelled:
        slice, module = slices.get(entry.key.limits_hash), _modules().get(entry.kernel)
        if slice is None or module is None:
            continue
        task = {
            "kernel": f"{module}:{entry.kernel}", "shape": dict(entry.shape), "dtypes": dict(_dtypes(entry)),
            "constants": {},
        }  # fmt: skip
        submission = Submission(f"{entry.kernel}, modelled so far", [Wanted(task)], [slice], seconds=SECONDS)
        if _key(submission) not in before:
            before.add(_key(submission))
            found.append(submission)
    return found


def _key(submission: Submission) -> tuple[str, str]:
    return repr([wanted.task for wanted in submission.tasks]), repr(submission.slices)


def _dtypes(entry: Entry) -> Iterator[tuple[str, str]]:
    for pair in entry.key.dtypes.split():
        name, _, dtype = pair.partition("=")
        yield name, dtype


@cache
def _modules() -> Mapping[str, str]:
    """The module of each kernel of the library."""
    from vkernels.library.catalogue import CATALOGUE

    return {entry.name: entry.module for entry in CATALOGUE}
