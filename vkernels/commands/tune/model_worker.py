"""A worker that runs a torch model on some cores, with the tuned plans of one database or another, or of none.

Requests and answers are JSON: `start` with the model's name, then any number of `run` with the path of a database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from vkernels.autotune.database.launches import use_database
from vkernels.autotune.measure.worker import run_on
from vkernels.autotune.models import read_model, run_once
from vkernels.compiler.default_session import patient
from vkernels.compiler.workers.frames import Handler, Send
from vkernels.ir.errors import Error, SetupError

WARM_RUNS = 2
"""Untimed runs after a change of plans: the first compiles, or loads what was compiled."""
MIN_RUNS, MAX_RUNS, RUN_SECONDS = 3, 100, 0.2
"""Timed runs of one request: at least and at most so many, else so many seconds; their median counts."""


def serve(send: Send, cores: str) -> Handler:
    """Serve requests on some cores of the CPU, `0,1`; see `vkernels.compiler.workers.worker_main`."""
    numbers = [int(core) for core in cores.split(",")]
    run_on(numbers)
    import torch

    torch.set_num_threads(len(numbers))
    service = ModelService()
    return lambda request: json.dumps(service.answer(json.loads(request)), allow_nan=False).encode()


@dataclass
class ModelService:
    """Answers requests about one model. `run`: runs it once."""

    run: Callable[[], None] | None = None
    plans: str | None = ""

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer; for an error its message as `error`."""
        try:
            if request["do"] == "start":
                self.run = runner_of(request["model"])
                return {"ready": True}
            return {"seconds": self._seconds(request["database"])}
        except Error as error:
            return {"error": str(error)}
        except Exception as error:  # of the author's model
            return {"error": f"{type(error).__name__}: {error}"}

    def _seconds(self, database: str | None) -> float:
        if self.run is None:
            raise SetupError("no model was started")
        if database != self.plans:
            use_database(database)
            self.plans = database
            with patient():
                for _ in range(WARM_RUNS):
                    self.run()
        times: list[float] = []
        while len(times) < MIN_RUNS or (sum(times) < RUN_SECONDS and len(times) < MAX_RUNS):
            start = perf_counter()
            self.run()
            times.append(perf_counter() - start)
        return median(times)


def runner_of(name: str) -> Callable[[], None]:
    """What runs a model, FILE.py:FUNCTION, with the library's layers; on a GPU it waits for the end."""
    import torch

    from vkernels.torch import replace

    model, arguments, named = read_model(name)
    if isinstance(model, torch.nn.Module):
        replace(model, everywhere=True)
    given = [*arguments, *named.values()]
    on_gpu = any(isinstance(each, torch.Tensor) and each.is_cuda for each in given)

    def run() -> None:
        run_once(model, arguments, named)
        if on_gpu:
            torch.cuda.synchronize()

    return run
