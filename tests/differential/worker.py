"""Runs the groups of the seeds that its standard input names, a line each: a note before each case, then what came of
all. A crash ends this process; its parent then knows which case it was."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections import Counter
from typing import Any

PATIENCE = 600.0
"""Seconds that a first call waits for the plan that it would get in the end: so a case has the same bits anywhere."""


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what others print is no answer

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    prepare()
    for line in sys.stdin:
        seed, *skipped = map(int, line.split())
        say(run_group(seed, say, set(skipped)))


def prepare() -> None:
    """One thread, no cache on disk of this user's, plans as they are in the end."""
    import torch

    import vkernels as vk
    from vkernels.runtime import way

    way.PATIENCE = PATIENCE
    torch.set_num_threads(1)
    vk.set_threads(1)


def run_group(
    seed: int, say: Any, skipped: frozenset[int] | set[int] = frozenset(), only: int | None = None
) -> dict[str, Any]:
    """What came of a seed's cases; `skipped`: those that ended a process before. `say` hears each case begin."""
    import vkernels as vk

    from .drawing import draw_group
    from .run import public_functions, run_case
    from .subjects import SUBJECTS

    functions = public_functions()
    counts: Counter[str] = Counter()
    worst: dict[str, float] = {}
    codes: set[str] = set()
    failures: list[dict[str, Any]] = []
    compiled = sum(each.compiles for each in vk.stats().kernels.values())
    began = time.monotonic()
    listened = False
    for number, case in enumerate(draw_group(seed, SUBJECTS)):
        if number in skipped or only not in (None, number):
            continue
        say({"note": f"{seed} {number} {case}"})
        if listened:
            outcome = run_case(case, SUBJECTS[case.function], functions[case.function])
        else:  # a listener sees what is compiled; without one calls are replayed
            with vk.on_launch(lambda event: codes.add(_code(event))):
                outcome = run_case(case, SUBJECTS[case.function], functions[case.function])
            listened = outcome.kind != "refused"
        counts[f"{case.function}: {outcome.kind}"] += 1
        if outcome.failed:
            failures.append({"seed": seed, "call": number, "function": case.function, "kind": outcome.kind,
                             "where": str(case), "message": outcome.message, "worst": outcome.worst})  # fmt: skip
        else:
            worst[case.function] = max(worst.get(case.function, 0.0), outcome.worst)
    compiled = sum(each.compiles for each in vk.stats().kernels.values()) - compiled
    return {"counts": dict(counts), "plans": [], "codes": sorted(codes), "failures": failures, "worst": worst,
            "compiles": compiled, "seconds": round(time.monotonic() - began, 3)}  # fmt: skip


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
