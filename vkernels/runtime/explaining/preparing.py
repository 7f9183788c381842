"""What a child does for an explanation, as it must execute the user's file; see `checking.preparing`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from vkernels.ir.errors import Error
from vkernels.ir.limits import limits_from

from ..checking.cases import Source
from ..checking.files import kernel_at
from ..checking.preparing import answer_to as answer_to_checking
from ..compile.triton_adapter import Binary, GpuOptions
from .find import Question, find

PREPARER = f"{__name__}:preparer"


def preparer() -> Callable[[str, str, GpuOptions], Binary]:
    """What a worker of a pool answers requests with."""
    return lambda text, architecture, options: _as_binary(json.dumps(answer_to(json.loads(text))))


def answer_to(request: Mapping[str, Any]) -> dict[str, Any]:
    """The findings, or `error` (its class) and `message`; what checking asks for is answered too."""
    if request["kind"] != "explain":
        return answer_to_checking(request)
    try:
        kernel = kernel_at(Source(**request["source"]))
        asked = Question(
            kernel, request["shape"], request["dtypes"], request["scalars"], request["constants"],
            limits_from(request["limits"]), request["only_texts"],
            tuple(request["left_open"]), tuple(request.get("tried", ())), request.get("strides", {}),
        )  # fmt: skip
        return asdict(find(asked))
    except Error as error:
        return {"error": type(error).__name__, "message": str(error)}


def _as_binary(answer: str) -> Binary:
    return Binary("", "answer", answer.encode(), "", 0, 0, 0, 0, 0, "", "")
