"""What `vk doctor` found out about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

TUNED_PLANS = "tuned plans"
"""The area of tuned plans, and of bundles, which are the lowest layer of them."""


class Status(StrEnum):
    """`OK`: as it should be; `NOTE`: costs speed or comfort; `PROBLEM`: something does not work."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """`what`: the thing, `found`: what was found, `advice`: what would help; empty where all is well."""

    area: str
    what: str
    found: str
    status: Status = Status.OK
    advice: str = ""
