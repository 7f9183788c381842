"""A child that runs the cases of seeds, as its parent names them: one seed a line on its input, JSON on its output.

Its arguments are the kinds of cases (`kinds`)."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from dataclasses import asdict
from typing import Any

from .kinds import KINDS, kind_of


def main(kinds: list[str]) -> None:
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what kernels print is no answer

    def answer(**what: Any) -> None:
        answers.write(json.dumps(what) + "\n")

    for line in sys.stdin:
        seed = int(line)
        outcome = KINDS[kind_of(seed, kinds)](seed, lambda text: answer(note=text))
        answer(
            counts=dict(outcome.counts), plans=sorted(outcome.plans), codes=sorted(outcome.codes),
            failures=[asdict(failure) for failure in outcome.failures],
        )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:] or ["planned"])
