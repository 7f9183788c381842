"""Runs the groups of the seeds that its standard input names, a line each: a note before each case, then what came of
all. A crash ends this process; its parent then knows which case it was."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections import Counter
from contextlib import nullcontext
from typing import Any

from .case import Case, Outcome

PATIENCE = 600.0
"""Seconds that a first call waits for the plan that it would get in the end: so a case has the same bits anywhere."""


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what others print is no answer

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    prepare()
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else None
    for line in sys.stdin:
        seed, *skipped = map(int, line.split())
        say(run_group(seed, say, frozenset(skipped), calls=calls))


def prepare() -> None:
    """Nothing on disk of this user's, and plans as they are in the end."""
    os.environ["XDG_DATA_HOME"] = os.devnull
    import torch

    from vkernels.compiler.default_session import set_default_session
    from vkernels.compiler.session import CompilerSession

    set_default_session(CompilerSession(patience=PATIENCE))
    torch.set_num_threads(1)


def run_group(
    seed: int, say: Any, skipped: frozenset[int] = frozenset(), only: int | None = None, calls: int | None = None
) -> dict[str, Any]:
    """What came of a seed's cases; `skipped`: those that ended a process before. `only`: one of them; `calls`: the
    first so many. `say` hears each case begin."""
    import vkernels as vk

    from .drawing import draw_group
    from .run import public_functions, run_case
    from .subjects import SUBJECTS

    functions = public_functions()
    cases = draw_group(seed, SUBJECTS)[:calls]
    vk.set_threads(cases[0].threads)
    outcomes: dict[int, Outcome] = {}
    codes: set[str] = set()
    compiled, began = _compiles(), time.monotonic()
    listened = False
    for number, case in enumerate(cases):
        if number in skipped or only not in (None, number):
            continue
        say({"note": f"{seed} {number} {case}"})
        # A listener sees what is compiled; without one calls are replayed.
        with nullcontext() if listened else vk.on_launch(lambda event: codes.add(_code(event))):
            outcomes[number] = run_case(case, SUBJECTS[case.function], functions[case.function])
        listened = listened or outcomes[number].kind != "refused"
    return {
        "counts": dict(Counter(f"{cases[0].function}: {each.kind}" for each in outcomes.values())),
        "codes": sorted(codes),
        "failures": [_failure(seed, n, cases[n], each) for n, each in outcomes.items() if each.failed],
        "worst": {cases[0].function: max((each.worst for each in outcomes.values() if not each.failed), default=0.0)},
        "loose": round(sum(each.loose for each in outcomes.values()), 3),
        "compiles": _compiles() - compiled,
        "seconds": round(time.monotonic() - began, 3),
    }


def _failure(seed: int, number: int, case: Case, outcome: Outcome) -> dict[str, Any]:
    return {
        "seed": seed, "call": number, "function": case.function, "kind": outcome.kind, "where": str(case),
        "message": outcome.message, "worst": outcome.worst,
    }  # fmt: skip


def _compiles() -> int:
    import vkernels as vk

    return sum(each.compiles for each in vk.stats().kernels.values())


def _code(event: Any) -> str:
    called = event.called
    parts = (
        event.kernel,
        sorted(called.sizes.items()),
        sorted(called.dtypes.items()),
        sorted(called.constants.items()),
    )
    return hashlib.blake2s(repr((parts, event.plan)).encode(), digest_size=6).hexdigest()


if __name__ == "__main__":
    main()
